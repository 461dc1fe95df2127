"""Walking freely: the same states and steps as a search visits, and the same words about each property."""

import json
import random
from collections import Counter, deque
from pathlib import Path

import pytest

from leasehold.checker.explore import Exploration, Limits, PropertyResult, explore, standing
from leasehold.checker.explore import walker as walking
from leasehold.checker.explore.standing import Standing, Standings, faults_at
from leasehold.checker.explore.walker import Position, Walker
from leasehold.faults.model import Budget
from leasehold.spec import SHIPPED
from tests.systems import TESTS, TRUTH, edited, files_of, load, written

ALARM_FOLDER = TESTS / "checker/explore/systems/alarm"
ALARM = files_of("checker/explore/systems/alarm")
OF_TRUTH = sorted(folder.parent.name for folder in TRUTH.glob("*/system.yaml"))
FAULTS = [None, "crash=1", "lose=1,duplicate=1"]


@pytest.mark.parametrize("faults", ["none", "crash=1", "crash=1,lose=1,duplicate=1", "partition=1", "skew=1"])
@pytest.mark.parametrize(("name", "settings"), [("two_phase_commit", {"participants": 1}), (str(TRUTH / "lock"), {})])
def test_a_walk_comes_to_each_state_that_a_search_visits(name: str, settings: dict[str, int], faults: str) -> None:
    """By as many steps, with the same faults left."""
    system, budget = load(name, settings), None if faults == "none" else Budget.parse(faults)
    found = explore(system, Limits(states=4_000), budget=budget, engine="reference")
    walker = Walker(system, budget)
    seen, waiting = {(p.state, p.left): p for p in walker.firsts}, deque(walker.firsts)
    steps = Counter[str]()
    while waiting and len(seen) < 12_000:
        at = waiting.popleft()
        for p in walker.choices(at).next:
            assert p.action is not None
            steps[p.action.kind] += 1
            assert min(p.left, default=0) >= 0
            if (p.state, p.left) not in seen:
                seen[p.state, p.left] = p
                waiting.append(p)
    states = {state for state, _ in seen}
    visited = set(found.paths.states)
    assert visited <= states if found.complete else len(visited & states) > 1_000
    assert steps.total() > 10
    sample = random.Random(1).sample(sorted(seen.values(), key=lambda p: p.trail), min(50, len(seen)))
    for p in sample:
        followed = walker.follow(p.trail)
        assert (followed.position.state, followed.position.left, followed.lost) == (p.state, p.left, None)
        assert len(walker.path(p)) == len(p.trail) - 1


def standing_of(result: PropertyResult, walker: Walker, standings: Standings) -> list[Standing | None]:
    """The standing of a property at each position of its path."""
    assert result.path is not None
    followed = walker.along(result.path)
    assert followed.lost is None, result.name
    assert len(followed.position.trail) == len(result.path) + 1
    way = followed.position.way()
    return [next((s for s in standings.at(p) if s.name == result.name), None) for p in way]


def assert_says_the_same(found: Exploration, faults: str | None) -> Counter[tuple[str, str]]:
    """At the end of each shortest path the walk says what the search has found, and not before."""
    walker = Walker(found.system, None if faults is None else Budget.parse(faults))
    standings, kinds = Standings(walker), Counter[tuple[str, str]]()
    for result in (r for r in found.properties if r.path is not None):
        on_the_way = standing_of(result, walker, standings)
        said, last = [None if s is None else s.status for s in on_the_way], on_the_way[-1]
        kinds[result.kind, result.verdict] += 1
        if result.kind == "sometimes":
            assert said.index("shown") == len(said) - 1, result.name
        elif result.kind == "leads_to":
            late = result.reason.startswith("the clock ticks more than")
            assert said[-1] == ("violated" if late else "owed"), result.name
            assert "violated" not in said[:-1]
        elif result.kind in ("always", "step", "deadlock", "range", "guards"):
            assert said.index("violated") == len(said) - 1, result.name
            assert last is not None
            assert last.failed == result.failed
        else:
            assert "violated" not in said
    return kinds


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) for name in SHIPPED] + OF_TRUTH)
def test_it_says_of_each_property_what_the_search_has_found(name: str, faults: str | None) -> None:
    system = load(name if name in SHIPPED else TRUTH / name)
    budget = None if faults is None else Budget.parse(faults)
    assert_says_the_same(explore(system, Limits(states=20_000), budget=budget), faults)


def test_each_kind_of_violation_is_said(tmp_path: Path) -> None:
    """A broken system has each kind of verdict that a state, a step or a deadline can show."""
    found = explore(written(tmp_path, ALARM))
    kinds = assert_says_the_same(found, None)
    assert {kind for kind, verdict in kinds if verdict == "violated"} >= {"always", "step", "leads_to"}
    assert ("sometimes", "witnessed") in kinds


def test_a_deadline_is_owed_until_it_has_passed(tmp_path: Path) -> None:
    """Ticks are counted from the state that owes it, and what comes with the tick after the last is too late."""
    found = explore(written(tmp_path, ALARM))
    result = next(r for r in found.properties if r.name == "it_rings_in_time")
    said = standing_of(result, Walker(found.system), Standings(Walker(found.system)))
    owed = [(s.since, s.ticks) for s in said if s is not None and s.status == "owed"]
    last = said[-1]
    assert owed[0] == (1, 0)
    assert owed[-1][1] == 1
    assert last is not None
    assert (last.status, last.ticks) == ("violated", 2)


def test_ticks_of_a_deadline_are_those_of_the_clock() -> None:
    """Steps that let no time pass bring a debt no nearer to its end."""
    walker, chance = Walker(load("two_phase_commit", {"participants": 1})), random.Random(2)
    standings, owed = Standings(walker), 0
    for _ in range(40):
        at = walker.firsts[0]
        for _ in range(25):
            steps = walker.choices(at).next
            if not steps:
                break
            at = chance.choice(steps)
            way = at.way()
            for s in standings.at(at):
                if s.since is not None:
                    owed += 1
                    assert s.ticks == sum(p.action is not None and p.action.passes for p in way[s.since + 1 :])
    assert owed > 100


def test_the_worst_binding_speaks_for_a_property(tmp_path: Path) -> None:
    """A claim about each value of a variable is shown, and violated, as soon as it is for one of them."""
    ringing = {"sometimes": "bell.rings == n", "for": {"n": [0, 2]}}
    late = {"when": "keeper.wishes == n", "leads_to": "keeper.wishes > n", "within": 1, "for": {"n": [0, 3]}}
    claims = {"invariants.yaml": json.dumps({"properties": {"it_rings": ringing, "one_wishes_on": late}})}
    walker = Walker(written(tmp_path, ALARM | claims))
    standings, at = Standings(walker), walker.firsts[0]
    said: list[dict[str, Standing]] = []
    while len(said) < 3:
        said.append({s.name: s for s in standings.at(at)})
        at = next(p for p in walker.choices(at).next if p.action is not None and p.action.passes)
    assert [(s["it_rings"].status, s["it_rings"].binding) for s in said] == [("shown", {"n": "0"})] * 3
    assert [s["one_wishes_on"].status for s in said] == ["owed", "owed", "violated"]
    assert {s["one_wishes_on"].binding["n"] for s in said} == {"0"}


def test_what_is_kept_of_a_long_walk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps and debts are forgotten beyond a number of positions, and say the same when they are looked up again."""
    monkeypatch.setattr(walking, "MOST_KEPT", 8)
    monkeypatch.setattr(standing, "MOST_KEPT", 8)
    walker, chance = Walker(load(ALARM_FOLDER), Budget.parse("crash=2")), random.Random(3)
    standings, at = Standings(walker), walker.firsts[0]
    on_the_way = [(at, standings.at(at))]
    for _ in range(30):
        steps = walker.choices(at).next
        if not steps:
            break
        at = chance.choice(steps)
        on_the_way.append((at, standings.at(at)))
        assert len(walker._choices) <= 8
        assert len(standings._debts) <= 8
    assert len(on_the_way) > 10
    for p, said in on_the_way:
        assert standings.at(walker.follow(p.trail).position) == said


def test_a_trail_names_the_same_steps_in_an_edited_system(tmp_path: Path) -> None:
    """A step that is not possible any more is named by its number, and the position before it is there."""
    walker = Walker(written(tmp_path / "old", ALARM))
    at = walker.firsts[0]
    while len(at.trail) < 5:
        at = walker.choices(at).next[0]
    other = Walker(written(tmp_path / "new", edited(ALARM, ("somebody wants to hear the bell", "a wish"))))
    assert other.follow(at.trail).position.state == at.state
    stopped = edited(ALARM, ("when: wishes < 3", "when: wishes < 1"))
    followed = Walker(written(tmp_path / "stopped", stopped)).follow(at.trail)
    assert followed.lost is not None
    assert len(followed.position.trail) == followed.lost
    assert at.trail[: followed.lost] == followed.position.trail


def test_nonsense_leads_to_the_start() -> None:
    walker = Walker(load(TRUTH / "lock"))
    followed = walker.follow(["nothing", "of", "that"])
    assert (followed.lost, followed.position) == (0, walker.firsts[0])
    first = walker.firsts[0].trail[0]
    assert walker.follow([first, "?"]).lost == 1
    assert walker.follow([]).lost is None


def test_faults_are_said_in_words() -> None:
    """Stopped actors and closed channels are listed; nothing is where nothing has happened."""
    walker = Walker(load("two_phase_commit", {"participants": 2}), Budget.parse("crash=1,partition=1,halt=1,skew=1"))
    first = walker.firsts[0]
    assert faults_at(walker, first) == []
    said = {kind: set[str]() for kind in ("crash", "halt", "partition")}
    frontier: list[Position] = [first]
    for p in walker.choices(frontier[0]).next:
        assert p.action is not None
        if p.action.kind in said:
            said[p.action.kind] |= {*faults_at(walker, p)}
    assert said["crash"] >= {"coordinator is down", "participant[0] is down"}
    assert said["halt"] >= {"coordinator has halted for good"}
    assert any("coordinator and participant[0]" in words for words in said["partition"])


def test_clocks_are_said_to_be_ahead_or_behind() -> None:
    walker = Walker(load(TRUTH / "client_go_leader_election"), Budget(drift=25))
    said = {p.action.event: faults_at(walker, p) for p in walker.choices(walker.firsts[0]).next if p.action is not None}
    assert said["the clock of candidate[0] gains a tick"] == ["the clock of candidate[0] is ahead by 1"]
    assert said["now 1, the clock of candidate[1] stands still"] == ["the clock of candidate[1] is behind by 1"]
    assert said["now 1"] == []
