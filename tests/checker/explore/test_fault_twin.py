"""The explorer under faults against a dumb twin (fault_twin.py): states, paths, verdicts and convergence."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.reference import Reference
from leasehold.faults.model import Budget
from leasehold.faults.model.lowering import cuts
from leasehold.spec import System, shipped_folder
from tests.checker.explore.by_chance import by_chance
from tests.checker.explore.fault_twin import DOWN, GONE, UP, Step, Whole, World, whole
from tests.checker.explore.test_faulty import ASKER, TELLER
from tests.checker.queues_by_chance import queues_by_chance
from tests.systems import TESTS, TRUTH, edited, files_of, load, written


def shape(world: Reference, state: Any) -> Any:
    """A state of the explorer in the form in which it is compared."""
    layout = world.layout
    lanes = []
    for lane in layout.lanes:
        content, kind = state[lane.cell], lane.channel.kind
        if kind == "mailbox":
            lanes.append(content)
        else:
            flat = [e if kind == "queue" else e[1:] for e in content]
            lanes.append(tuple(flat) if kind in ("fifo", "queue") else tuple(sorted(flat, key=repr)))
    names = [a.name for a in layout.actors]
    parted = state[layout.added["partition", ""]] if ("partition", "") in layout.added else 0
    cut = list(cuts(names))[parted - 1] if parted else None
    liar = layout.traitor.name if layout.traitor is not None else ""
    return (
        tuple(state[layout.at(r.name, i, None)] for r, i in layout.system.machines()),
        (
            *(state[layout.at(r.name, i, d)] for r, i in layout.system.machines() for d in r.data),
            *(state[layout.at("shared", 0, d)] for d in layout.system.shared),
        ),
        tuple(lanes),
        state[layout.clock] if layout.clock is not None else 0,
        tuple({True: UP, False: DOWN, None: GONE}[state[world.up[n]]] for n in names),
        frozenset([cut, frozenset(names) - cut]) if cut else None,
        tuple(state[layout.lead[n]] for n in names if n in layout.lead),
        tuple(where(world, state[layout.phase[n]]) for n in names if n in layout.phase and n != liar),
        tuple(state[at] for at in layout.budgets.values()),
    )


def where(world: Reference, phase: tuple[int, int]) -> tuple[Fraction, Fraction]:
    """A phase of a clock as the twin has it."""
    clocks = world.relation.clocks
    least, most = (Fraction(end, clocks.parts) for end in phase)
    return least + 1 - Fraction(clocks.percent, 100), most


def compare(system: System, budget: Budget) -> tuple[Exploration, Whole]:
    found, twin = explore(system, budget=budget), whole(system, budget)
    assert found.complete
    mine, its = {shape(found.paths.world, s) for s in found.paths.states}, twin.shapes
    assert len(mine) == found.distinct  # no two states of the explorer mean the same
    assert (len(mine - its), len(its - mine)) == (0, 0)
    return found, twin


# What follows from the twin's graph, by the definitions


def holds(found: Whole, e: Any, world: World) -> bool:
    return bool(found.twin.say(world, e))


def fair_stay(edges: Mapping[Any, list[tuple[Step, Any]]], among: set[Any]) -> bool:
    """Returns whether a fair run without faults can stay here for ever; it need not do what nothing asks for."""
    graph = nx.DiGraph()
    graph.add_nodes_from(among)
    graph.add_edges_from((n, m) for n in among for step, m in edges[n] if m in among and not step.fault)
    for part in nx.strongly_connected_components(graph):
        asked = [{step.group for step, _ in edges[n] if not step.fault and step.group is not None} for n in part]
        done = {step.group for n in part for step, m in edges[n] if m in part and not step.fault}
        if all(g in done for g in set.intersection(*asked)):
            return True
    return False


def fails_to_lead(found: Whole, name: str) -> bool:
    p = found.twin.system.properties[name]
    without = {n for n, w in enumerate(found.worlds) if not holds(found, p.claim, w)}
    todo = [n for n in without if p.when is None or holds(found, p.when, found.worlds[n])]
    seen = set(todo)
    while todo:
        for _, m in found.edges[todo.pop()]:
            if m in without and m not in seen:
                seen.add(m)
                todo.append(m)
    return fair_stay(dict(enumerate(found.edges)), seen)


def feasible(explored: Exploration, found: Whole, steps: Any) -> bool:
    """Returns whether the twin can go a path of the explorer, all within the budget."""
    snapshots = {shape(explored.paths.world, s): explored.paths.snapshot(s) for s in explored.paths.states}
    here = {n for n, d in enumerate(found.depth) if d == 0}
    for step in steps:
        kind = "step" if step.kind in ("deliver", "duplicate", "local", "tick") else step.kind
        here = {
            m
            for n in here
            for its, m in found.edges[n]
            if its.kind == kind and snapshots[found.worlds[m].shape()] == step.state
        }
    return bool(here)


@dataclass
class Convergence:
    """The recovery states of the twin's graph, with the steps between them that are no faults."""

    edges: dict[Any, list[tuple[Step, Any]]]
    astray: set[Any]
    ended: set[Any]

    @property
    def holds(self) -> bool:
        return not fair_stay(self.edges, self.astray)

    def worst(self, n: Any, count: Callable[[Step], int]) -> int:
        """The most of something on a way to a state that is not astray, of ways that go to no state twice."""

        def longest(at: Any, been: frozenset[Any]) -> int | None:
            if at not in self.astray:
                return 0
            ways = [
                count(step) + rest
                for step, m in self.edges[at]
                if m not in been and (rest := longest(m, been | {m})) is not None
            ]
            return max(ways, default=None)

        return longest(n, frozenset([n])) or 0


def converging(plain: Whole, found: Whole) -> Convergence:
    legal = plain.shapes
    edges: dict[Any, list[tuple[Step, Any]]] = {}
    for w, steps in zip(found.worlds, found.edges, strict=True):
        edges.setdefault(w.shape(), [(s, found.worlds[m].shape()) for s, m in steps if not s.fault])
    astray = set(edges) - legal
    ends = [end.holds for end in found.twin.system.ends or ()]
    by_shape = {w.shape(): w for w in found.worlds}
    ended = {n for n in astray if fair_stay(edges, {n}) and any(holds(found, e, by_shape[n]) for e in ends)}
    return Convergence(edges, astray - ended, ended)


# Systems

STAR = TESTS / "checker/explore/systems/star"  # one machine that tells two others
NODE = "actors: {north: [hub], east: [a], west: [b]}\nfaults: {nodes: {rack: [north, east]}}\nenvironment:"


MESSAGES = "messages: {asked: {from: asker, to: teller}, told: {from: teller, to: asker, answer: true}}\n"
PROPERTIES = """
properties:
  ends: {when: asker.state == asking, leads_to: asker.state == done}
  told: {when: asker.state == asking, leads_to: teller.state == telling}
  returns: {when: asker.state == done, leads_to: asker.state == idle}
"""


def conversation(
    folder: Path, there: str = "mailbox", back: str = "mailbox", ask: str = "fair: true", once: bool = True
) -> System:
    """Returns where a question may come twice, and that has no numbers to tell, its teller does not count."""
    return written(
        folder,
        {
            "system.yaml": f"""system: conversation
roles: {{asker: {{}}, teller: {{}}}}
channels:
  there: {{from: asker, to: teller, kind: {there}}}
  back: {{from: teller, to: asker, kind: {back}}}
environment: {{begin: {{to: asker, {ask}}}}}
""",
            "messages.yaml": MESSAGES,
            "invariants.yaml": PROPERTIES,
            "roles/asker.yaml": ASKER,
            "roles/teller.yaml": TELLER if once and there == "mailbox" else TELLER.replace(" + 1", ""),
        },
    )


# Comparisons


def judge(explored: Exploration, found: Whole) -> None:
    """Verdicts on properties, and the paths."""
    system = found.twin.system
    for result in explored.properties:
        p = system.properties.get(result.name)
        if p is None:
            continue
        if p.kind == "leads_to":
            assert (result.verdict == "violated") == fails_to_lead(found, p.name), p.name
        if p.kind == "always":
            wrong = [
                d
                for d, w in zip(found.depth, found.worlds, strict=True)
                if not holds(found, p.claim, w) and (p.when is None or holds(found, p.when, w))
            ]
            assert (result.verdict == "violated") == bool(wrong), p.name
            if result.path is not None:
                assert len(result.path) == min(wrong), p.name
        if result.path is not None:
            assert feasible(explored, found, result.path.steps), p.name


def judge_convergence(system: System, explored: Exploration, found: Whole) -> None:
    answer = convergence(explore(system), explored)
    mine = converging(whole(system, Budget()), found)
    assert (answer.recovery_states, answer.other_ends) == (len(mine.astray | mine.ended), len(mine.ended))
    assert answer.converges == mine.holds
    if answer.worst_steps is not None:
        assert answer.worst_steps == max((mine.worst(n, lambda _: 1) for n in mine.astray), default=0)
        assert answer.worst_exchanges == max((mine.worst(n, lambda s: s.received) for n in mine.astray), default=0)


BUDGETS = (
    "crash=1",
    "crash=1,duplicate=1",
    "lose=1",
    "reorder=1",
    "partition=1",
    "power_cut=1",
    "crash=2",
    "halt=1",
    "duplicate=1,lose=1",
    "crash=1,power_cut=1",
    "crash=1,reorder=1",
    "lose=any,duplicate=1",
    "amnesia=1",
    "amnesia=1,crash=1",
    "amnesia=2",
)


@pytest.mark.parametrize(
    "budget",
    [
        *BUDGETS,
        "none",
        "crash=3",
        "crash=2,duplicate=2",
        "crash=1,halt=1",
        "crash=1,lose=1,duplicate=1",
        "power_cut=2",
    ],
)
def test_a_conversation(tmp_path: Path, budget: str) -> None:
    system = conversation(tmp_path, once="amnesia" not in budget)
    explored, found = compare(system, Budget.parse(budget))
    judge(explored, found)
    if "halt" not in budget:
        judge_convergence(system, explored, found)


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ("fifo(2)", "mailbox"),
        ("mailbox", "fifo(1)"),
        ("bag(2)", "bag(1)"),
        ("mailbox", "bag(2)"),
        ("set", "set"),
        ("multiset(2)", "mailbox"),
        ("multiset", "set"),
    ],
)
@pytest.mark.parametrize("budget", ["crash=1", "duplicate=1,lose=1", "reorder=1,crash=1", "power_cut=1", "amnesia=1"])
def test_a_conversation_over_other_channels(tmp_path: Path, there: str, back: str, budget: str) -> None:
    """Also where a recovery finds no room for what it sends again, and waits for it."""
    explored, found = compare(conversation(tmp_path, there, back, once=budget != "amnesia=1"), Budget.parse(budget))
    judge(explored, found)


@pytest.mark.parametrize(("requests", "urgent"), [("fifo(1)", "mailbox"), ("mailbox", "mailbox"), ("bag", "fifo")])
@pytest.mark.parametrize("budget", ["none", "crash=1", "duplicate=1,lose=1", "reorder=1", "power_cut=1"])
def test_two_channels_one_way(tmp_path: Path, requests: str, urgent: str, budget: str) -> None:
    kinds = ("kind: mailbox", f"kind: {urgent}"), ("kind: fifo", f"kind: {requests}")
    files = edited(files_of("constructs/channels"), *kinds, ("value: 2", "value: 1"))
    del files["expected.yaml"]
    explored, found = compare(written(tmp_path, files), Budget.parse(budget))
    judge(explored, found)


TELLER_WITH_NEWS = files_of("checker/explore/systems/news")["roles/teller.yaml"]


@pytest.mark.parametrize("order", [("back", "news"), ("news", "back")])
@pytest.mark.parametrize("budget", ["lose=1", "crash=1", "duplicate=1,lose=1", "partition=1"])
def test_an_answer_over_one_of_two_mailboxes(tmp_path: Path, budget: str, order: tuple[str, str]) -> None:
    """Whoever asked asks again where the answer was lost, whichever mailbox brings it."""
    of = {"back": "", "news": ", messages: [news]"}
    channels = "".join(f"  {name}: {{from: teller, to: asker, kind: mailbox{of[name]}}}\n" for name in order)
    system = written(
        tmp_path,
        {
            "system.yaml": f"""system: conversation
roles: {{asker: {{}}, teller: {{}}}}
channels:
  there: {{from: asker, to: teller, kind: mailbox}}
{channels}
environment: {{begin: {{to: asker, fair: true}}, add: {{to: teller}}}}
""",
            "messages.yaml": MESSAGES.replace("}}", "}, news: {from: teller, to: asker, answer: true}}"),
            "invariants.yaml": PROPERTIES,
            "roles/asker.yaml": ASKER.replace("ignore: {", "ignore: {news: it counts for nothing, "),
            "roles/teller.yaml": TELLER_WITH_NEWS,
        },
    )
    explored, found = compare(system, Budget.parse(budget))
    judge(explored, found)


@pytest.mark.parametrize(
    ("name", "settings", "budget"),
    [
        ("two_phase_commit", {"participants": 1}, "crash=2,duplicate=1"),
        ("two_phase_commit", {"participants": 1}, "crash=1,power_cut=1"),
        ("two_phase_commit", {"participants": 1}, "lose=1,reorder=1"),
        ("two_phase_commit", {"participants": 2}, "partition=1"),
        ("two_phase_commit", {"participants": 2}, "reorder=1"),
        pytest.param("two_phase_commit", {"participants": 2}, "crash=1", marks=pytest.mark.slow),
        pytest.param("two_phase_commit", {"participants": 2}, "duplicate=1,lose=1", marks=pytest.mark.slow),
        pytest.param("two_phase_commit", {"participants": 2}, "power_cut=1", marks=pytest.mark.slow),
        ("lease", {"expiry": "false", "max_units": 1}, "partition=1"),
        pytest.param("lease", {"expiry": "false", "max_units": 1}, "crash=1", marks=pytest.mark.slow),
        pytest.param("lease", {"expiry": "false", "max_units": 1}, "crash=2", marks=pytest.mark.slow),
        pytest.param("lease", {"expiry": "false", "max_units": 1}, "crash=1,duplicate=1", marks=pytest.mark.slow),
        pytest.param("lease", {"expiry": "false", "max_units": 1}, "crash=1,lose=1", marks=pytest.mark.slow),
        pytest.param("lease", {"expiry": "false", "max_units": 1}, "power_cut=1", marks=pytest.mark.slow),
        pytest.param("lease", {"last_end": 1, "max_units": 1}, "crash=1", marks=pytest.mark.slow),
        pytest.param("lease", {"last_end": 1, "max_units": 1}, "skew=1", marks=pytest.mark.slow),
    ],
)
def test_shipped_systems(name: str, settings: dict[str, Any], budget: str) -> None:
    compare(load(shipped_folder(name), settings), Budget.parse(budget))


@pytest.mark.parametrize("part", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 8))])
def test_systems_by_chance(tmp_path: Path, part: int) -> None:
    """Small systems that nobody thought about."""
    judged = 0
    for seed in range(60 * part, 60 * (part + 1)):
        system, budget = (
            by_chance(tmp_path / str(seed), random.Random(seed)),
            Budget.parse(BUDGETS[seed % len(BUDGETS)]),
        )
        if system is None or explore(system, Limits(states=400), budget=budget).distinct >= 400:
            continue
        explored, found = compare(system, budget)
        judge(explored, found)
        if explored.distinct < 120 and not budget.halt:
            judge_convergence(system, explored, found)
        judged += 1
    assert judged > 5


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("mailbox", "reorder: 1"),
        ("fifo(2)", "reorder: 1"),
        ("queue(2)", "reorder: 1"),
        ("bag(2)", "lose: 1"),
    ],
)
@pytest.mark.parametrize("budget", ["crash=1", "power_cut=1", "lose=1"])
def test_what_a_channel_has_spent_is_spent_also_in_a_crash(tmp_path: Path, kind: str, fault: str, budget: str) -> None:
    """Also where the message that came before its turn was not acknowledged."""
    files = edited(files_of("checker/explore/systems/spent"), ("mailbox, reorder: 1", f"{kind}, {fault}"))
    judge(*compare(written(tmp_path, files), Budget.parse(budget)))


TIMED = {
    **files_of("checker/explore/systems/deadline"),
    "roles/b.yaml": "role: b\nstates: {x: {initial: true, on: {tick: {to: y, when: now >= 2}}}, y: {}}\n",
    "roles/c.yaml": "role: c\nstates: {z: {initial: true}}\n",
    "invariants.yaml": """properties:
  in_time: {when: b.state == y, always: now >= 2}
  in_order: {when: b.state == y, always: a.state != t}
  comes: {when: a.state == t, leads_to: a.state != t}
  goes: {when: a.state == s, leads_to: a.state != s}
""",
}


@pytest.mark.parametrize(
    ("roles", "horizon", "timers", "budget"),
    [
        ("a", 3, "prompt", "drift=25"),
        ("a", 3, "late", "drift=25"),
        ("a", 2, "prompt", "drift=33"),
        ("a", 3, "late", "drift=10,skew=1"),
        ("a", 2, "prompt", "drift=25,skew=2"),
        ("a, c", 2, "prompt", "drift=40,crash=1"),
        ("a", 2, "late", "drift=25,amnesia=1"),
        ("a", 2, "prompt", "drift=25,halt=1"),
        ("a, b", 2, "prompt", "skew=1"),
        ("a, b", 2, "prompt", "skew=1,byzantine=b"),
        ("a, b", 2, "prompt", "drift=25,byzantine=b"),
        ("a, b", 2, "prompt", "drift=25"),
        pytest.param("a, b", 2, "late", "drift=50", marks=pytest.mark.long),
        pytest.param("a, b", 2, "prompt", "drift=50,skew=1", marks=pytest.mark.slow),
        pytest.param("a, b", 3, "prompt", "drift=50", marks=pytest.mark.slow),
        pytest.param("a, b", 2, "prompt", "drift=50,crash=1", marks=pytest.mark.slow),
    ],
)
def test_clocks_that_leave_true_time(tmp_path: Path, roles: str, horizon: int, timers: str, budget: str) -> None:
    """The twin keeps every reading of a clock, and compares each pair of them."""
    text = (
        f"system: s\nroles: {{{', '.join(f'{role}: {{}}' for role in roles.split(', '))}}}\n"
        f"clock: {{horizon: {horizon}, timers: {timers}}}\nenvironment: {{go: {{to: a, fair: true, when: now <= 1}}}}\n"
    )
    files = {**TIMED, "system.yaml": text}
    if "b" not in roles:
        files["invariants.yaml"] = "\n".join(line for line in TIMED["invariants.yaml"].splitlines() if "b." not in line)
    files = {name: of for name, of in files.items() if not name.startswith("roles") or name[6] in roles}
    explored, found = compare(written(tmp_path, files), Budget.parse(budget))
    judge(explored, found)
    assert explored.distinct > 20


@pytest.mark.parametrize("budget", ["crash=1", "crash=2", "power_cut=1", "halt=1", "amnesia=1"])
def test_crashes_leave_shared_variables_as_they_are(budget: str) -> None:
    explored, found = compare(load(TRUTH / "lock"), Budget.parse(budget))
    judge(explored, found)


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))])
def test_systems_by_chance_that_share_variables(tmp_path: Path, part: int) -> None:
    judged = 0
    for seed in range(30 * part, 30 * (part + 1)):
        system = by_chance(tmp_path / str(seed), random.Random(seed), share=True)
        budget = Budget.parse(BUDGETS[seed % len(BUDGETS)])
        if system is None or explore(system, Limits(states=400), budget=budget).distinct >= 400:
            continue
        judge(*compare(system, budget))
        judged += 1
    assert judged > 2


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))])
def test_lines_by_chance_of_several_senders(tmp_path: Path, part: int) -> None:
    """The twin keeps in a line whose messages stand there, and has no places that move up."""
    judged = 0
    for seed in range(40 * part, 40 * (part + 1)):
        system = queues_by_chance(tmp_path / str(seed), random.Random(seed))
        budget = Budget.parse((*BUDGETS, "amnesia=1")[seed % (len(BUDGETS) + 1)])
        few = Limits(states=700)
        if system is None or not 5 < explore(system, few, budget=budget).distinct < 700:
            continue
        judge(*compare(system, budget))
        judged += 1
    assert judged > 3


@pytest.mark.parametrize("budget", ["amnesia=1", "halt=1"])
def test_a_line_closes_up_when_a_sender_is_forgotten(budget: str) -> None:
    """The first of the line goes, and the message of another sender stands there."""
    compare(load(TRUTH / "readers_writers", {"actors": 2}), Budget.parse(budget))


def hanging_up(folder: Path, rng: random.Random) -> System:
    """The system of a folder, with channels that lose what is on its way to an actor that crashes."""
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.yaml")}
    lines = files["system.yaml"].splitlines()
    some = [n for n, line in enumerate(lines) if "kind: " in line]
    for n in {*rng.sample(some, rng.randint(1, len(some)))}:
        lines[n] = lines[n].removesuffix("}") + ", on_crash: lost}"
    return written(folder, files | {"system.yaml": "\n".join(lines) + "\n"})


SPOKEN = "not running(hub) and len(pending(tell_a)) == 0"  # not after the crash
SPEAKER = """role: a
events: {speak: it says something}
states:
  quiet: {initial: true, on: {speak: {to: loud, also: say}}, ignore: {tell_a: it hears}}
  loud: {ignore: {speak: it has spoken, tell_a: it hears}}
tasks: {say: {send: say, to: hub}}
"""
CRASHES = (
    "crash=1",
    "crash=2",
    "power_cut=1",
    "halt=1",
    "crash=1,lose=1",
    "crash=1,duplicate=1",
    "amnesia=1,crash=1",
    "crash=1,partition=1",
    "crash=1,power_cut=1",
)


@pytest.mark.parametrize("part", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 8))])
@pytest.mark.parametrize("draw", [by_chance, queues_by_chance])
def test_messages_are_lost_with_the_actor_to_which_they_are_on_their_way(
    draw: Callable[[Path, random.Random], System | None], tmp_path: Path, part: int
) -> None:
    judged = 0
    for seed in range(30 * part, 30 * (part + 1)):
        folder, rng, budget = tmp_path / str(seed), random.Random(seed), Budget.parse(CRASHES[seed % len(CRASHES)])
        if draw(folder, rng) is None:
            continue
        system, few = hanging_up(folder, rng), Limits(states=500)
        if not 5 < explore(system, few, budget=budget).distinct < 500:
            continue
        explored, found = compare(system, budget)
        judge(explored, found)
        if explored.distinct < 120 and not budget.halt:
            judge_convergence(system, explored, found)
        if explored.distinct < 60:  # what is left out of a crash is another crash's
            assert whole(system, budget, more_stops=True).shapes == found.shapes
        judged += 1
    assert judged > 2


@pytest.mark.parametrize("budget", ["crash=2", "crash=1,power_cut=1"])
def test_a_crash_while_an_actor_recovers_loses_what_came_meanwhile(tmp_path: Path, budget: str) -> None:
    """It had connections again."""
    files = edited(
        files_of("checker/explore/systems/star"),
        ("channels: {", "channels: {from_a: {from: a, to: hub, kind: bag, on_crash: lost}, "),
        ("environment: {", f"environment: {{speak: {{to: a, when: {SPOKEN}}}, "),
        ("messages: {", "messages: {say: {from: a, to: hub}, "),
        ("ignore: {go: it has begun}", "ignore: {go: it has begun, say: it knows}"),
        ("on: {go: {to: telling}}", "on: {go: {to: telling}}, ignore: {say: it knows}"),
    )
    files["roles/a.yaml"] = SPEAKER
    judge(*compare(written(tmp_path, files), Budget.parse(budget)))


def test_a_power_cut_while_an_actor_recovers(tmp_path: Path) -> None:
    """It takes the others down too, which crashes one by one need not."""
    system = load(STAR)
    explored, _ = compare(system, Budget.parse("power_cut=2"))
    layout = explored.paths.world.layout
    points = {p for p, _, _ in explored.graph.points}
    assert "crash:hub/telling#recovering-after-tell_a@everything" in points
    assert len(layout.actors) == 3


@pytest.mark.parametrize("budget", ["crash=1", "crash=2", "crash=1,power_cut=1"])
def test_a_node_crashes_while_one_of_its_actors_recovers(tmp_path: Path, budget: str) -> None:
    """Its other actors run meanwhile, and stop with it."""
    system = written(tmp_path, edited(files_of("checker/explore/systems/star"), ("environment:", NODE)))
    explored, found = compare(system, Budget.parse(budget))
    judge(explored, found)
    points = {point for point, _, _ in explored.graph.points}
    assert "crash:hub/telling#recovering-after-tell_a@rack" in points


@pytest.mark.parametrize("budget", ["crash=1", "crash=1,duplicate=1", "halt=1", "crash=1,halt=1", "power_cut=1,lose=1"])
def test_stops_that_the_explorer_leaves_out_bring_about_nothing_new(tmp_path: Path, budget: str) -> None:
    """A halt within a step, and a crash of an actor that has just answered a duplicate: no record shows them."""
    for system in (conversation(tmp_path / "one"), load(STAR)):
        few, all_ = (whole(system, Budget.parse(budget), more) for more in (False, True))
        assert {s[:2] for s in all_.shapes} == {s[:2] for s in few.shapes}
        assert few.shapes <= all_.shapes


def test_who_ignores_a_message_may_stop_before_it_acknowledges(tmp_path: Path) -> None:
    """Its number is committed, so the message comes again as a duplicate."""
    explored, _ = compare(load(shipped_folder("two_phase_commit"), {"participants": 1}), Budget(crash=1))
    ignored = [
        action
        for s in explored.paths.states
        for action, _ in explored.paths.world.successors(s)
        if action.kind == "crash" and action.event == "agree" and action.transition is None
    ]
    assert {a.point for a in ignored} == {"crash:coordinator/aborting#before-acknowledge"}


def test_where_a_fault_alone_leads_a_run_may_end(tmp_path: Path) -> None:
    """The state after a halt satisfies no antecedent and has no step; the claim fails there all the same."""
    system = written(tmp_path, files_of("checker/explore/systems/lost_and_told_again"))
    for budget, verdict in ((Budget(halt=1), "violated"), (Budget(crash=1), "exhausted")):
        explored, found = compare(system, budget)
        judge(explored, found)
        assert explored.properties[0].verdict == verdict


@pytest.mark.parametrize(
    "budget",
    [
        "crash=1",
        "crash=2",
        "crash=1,duplicate=1",
        "duplicate=1",
        "duplicate=2",
        "crash=2,duplicate=1",
        "power_cut=1",
    ],
)
def test_paths_to_a_seeded_defect_are_shortest_and_within_the_budget(tmp_path: Path, budget: str) -> None:
    """The teller counts questions that have no numbers, and is asked once; then twice, and then three times."""
    conversation(tmp_path, "bag(2)", "mailbox")
    counting = TELLER.replace("max: 1", "max: 9").replace("count + 1", '"min(count + 1, 3)"')
    (tmp_path / "roles" / "teller.yaml").write_text(counting)
    (tmp_path / "invariants.yaml").write_text(
        "properties: {once: {always: teller.count <= 1}, twice: {always: teller.count <= 2}}\n"
    )
    explored, found = compare(load(tmp_path), Budget.parse(budget))
    judge(explored, found)
    verdicts = [p.verdict for p in explored.properties]
    assert verdicts == ["violated", "exhausted" if budget in ("crash=1", "duplicate=1") else "violated"]


def after_restart(mine: Convergence, at: Any, actor: str, names: list[str]) -> set[Any]:
    """The states in which an actor restarts; until then the others go on, and nothing else fails."""
    place = names.index(actor)
    todo, seen, found = [at], {at}, set()
    while todo:
        for _, m in mine.edges[todo.pop()]:
            if m[4][place] == UP:
                found.add(m)
            elif m not in seen:
                seen.add(m)
                todo.append(m)
    return found


@pytest.mark.parametrize("budget", ["crash=1", "crash=2", "power_cut=1", "crash=1,duplicate=1"])
def test_crash_cases(tmp_path: Path, budget: str) -> None:
    """The worst of each cell and point, by going all ways from every crash."""
    for system in (conversation(tmp_path / "one"), load(STAR)):
        limits = Budget.parse(budget)
        found = whole(system, limits)
        mine = converging(whole(system, Budget()), found)
        names = found.twin.actors
        expected: dict[tuple[Any, str], tuple[int, int]] = {}
        for after in found.worlds:  # wherever an actor is down it may also stop again before it has done anything
            for role, i in system.machines():
                actor = found.twin.actor[role.name, i]
                if after.up[actor] != DOWN:
                    continue
                for n in after_restart(mine, after.shape(), actor, names):
                    key = after.shape()[0], f"{role.name}/{after.state_of[role.name, i]}"
                    old = expected.get(key, (0, 0))
                    expected[key] = (
                        max(old[0], mine.worst(n, lambda _: 1)),
                        max(old[1], mine.worst(n, lambda s: s.received)),
                    )
        report = crash(system, limits)
        shown: dict[tuple[Any, str], tuple[int, int]] = {}
        for (cell, point, _), its in report.cases.items():
            key = cell, point.removeprefix("crash:").partition("#")[0]
            assert its.steps is not None
            assert its.exchanges is not None
            old = shown.get(key, (0, 0))
            shown[key] = max(old[0], its.steps), max(old[1], its.exchanges)
        assert shown == expected
