"""Crashes and what follows them, on systems small enough to be thought through (paper, sections 3.2 and 3.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import explore
from leasehold.checker.explore.breadth_first import Exploration
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.faults.model import Budget, BudgetError
from tests.systems import files_of, load, write, written

CONVERSATION = files_of("checker/systems/conversation")
ASKER = CONVERSATION["roles/asker.yaml"]
TELLER = CONVERSATION["roles/teller.yaml"]


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    """One asks, the other tells; `count` counts how often it was asked."""
    return write(tmp_path, CONVERSATION)


def verdicts(found: Exploration) -> dict[str, str]:
    return {p.name: p.verdict for p in found.properties}


@pytest.mark.parametrize("budget", ["crash=1", "crash=3", "crash=2,duplicate=2", "power_cut=2", "crash=1,reorder=1"])
def test_a_request_is_executed_once_and_answered_in_the_end(conversation: Path, budget: str) -> None:
    """Whatever crashes, `count` stays at 1: a message that comes again is a duplicate. And the answer comes."""
    system = load(conversation)
    found = explore(system, budget=Budget.parse(budget))
    assert verdicts(found) == {"ends": "exhausted"}
    answer = convergence(explore(system), found)
    assert answer.converges
    assert answer.recovery_states > 0


@pytest.mark.parametrize("budget", ["lose=1", "lose=3", "lose=any,crash=1", "lose=any,duplicate=1"])
def test_what_is_lost_is_sent_again(conversation: Path, budget: str) -> None:
    """A request is retried until it is answered; of the answer, too, only what was lost comes again."""
    system = load(conversation)
    found = explore(system, budget=Budget.parse(budget))
    assert verdicts(found) == {"ends": "exhausted"}
    assert convergence(explore(system), found).converges


def test_without_numbers_what_is_lost_is_lost(conversation: Path) -> None:
    """A queue without numbers cannot tell what has come: the conversation hangs."""
    system = conversation / "system.yaml"
    system.write_text(system.read_text().replace("mailbox", "bag"))
    (ends,) = explore(load(conversation), budget=Budget(lose=1)).properties
    assert ends.verdict == "violated"
    assert ends.path is not None
    assert [s.kind for s in ends.path.steps] == ["local", "lose"]


def test_who_halts_does_not_come_back(conversation: Path) -> None:
    (ends,) = explore(load(conversation), budget=Budget(halt=1)).properties
    assert ends.verdict == "violated"
    assert ends.path is not None
    assert [s.kind for s in ends.path.steps] == ["local", "halt"]


def test_a_partition_delays_and_heals(conversation: Path) -> None:
    """It lets nothing happen that could not happen without, and once it has healed the answer comes."""
    system = load(conversation)
    plain, found = explore(system), explore(system, budget=Budget(partition=2))
    world = found.paths.world
    assert verdicts(found) == {"ends": "exhausted"}
    assert {s[: world.layout.base] for s in found.paths.states} == set(plain.paths.states)
    assert convergence(plain, found).converges


@pytest.mark.parametrize(
    ("budget", "query", "words"),
    [
        (Budget(partition=1), "reachable(asker, teller)", "the end of a partition"),
        (Budget(crash=1), "running(teller)", "the restart of teller"),
    ],
)
def test_without_fairness_a_fault_need_not_end(conversation: Path, budget: Budget, query: str, words: str) -> None:
    """And the reason names what does not come."""
    claim = f'properties: {{returns: {{when: "not {query}", leads_to: "{query}"}}}}\n'
    (conversation / "invariants.yaml").write_text(claim)
    assert verdicts(explore(load(conversation), budget=budget)) == {"returns": "exhausted"}
    (returns,) = explore(load(conversation), budget=budget, fairness=Fairness.NONE).properties
    assert returns.verdict == "violated"
    assert words in returns.reason


def test_actors_of_a_node_and_all_actors_crash_at_the_same_points(conversation: Path) -> None:
    system = conversation / "system.yaml"
    system.write_text(
        system.read_text() + "actors: {one: [asker], two: [teller]}\nfaults: {nodes: {rack: [one, two]}}\n"
    )
    names = crashes(explore(load(conversation), budget=Budget(crash=1)))
    alone = {n for n in names if "@" not in n}
    assert {n for n in names if "@" in n} == {f"{n}@rack" for n in alone if "recovering" not in n} - {
        # The other is at rest then: named by the first.
        "crash:teller/idle#before-commit@rack",
        "crash:teller/telling#before-commit@rack",
    }
    assert {n.partition("@")[2] for n in crashes(explore(load(conversation), budget=Budget(power_cut=1)))} == {
        "everything"
    }


def test_clocks_that_differ(tmp_path: Path) -> None:
    """A timer fires by its own actor's clock: with a skew of 2 ticks, so much too early, and no more."""
    (tmp_path / "roles").mkdir()
    (tmp_path / "system.yaml").write_text("system: alarm\nroles: {bell: {}}\nclock: {horizon: 5}\n")
    (tmp_path / "messages.yaml").write_text("messages: {}\n")
    (tmp_path / "roles" / "bell.yaml").write_text(
        "role: bell\nstates:\n  silent: {initial: true, on: {tick: {to: rung, when: now >= 4}}}\n  rung: {}\n"
    )
    (tmp_path / "invariants.yaml").write_text("""properties:
  at_four: {when: bell.state == rung, always: now >= 4}
  at_three: {when: bell.state == rung, always: now >= 3}
  at_two: {when: bell.state == rung, always: now >= 2}
  rings: {when: now == 4, leads_to: bell.state == rung, within: 0}
""")
    system = load(tmp_path)
    assert set(verdicts(explore(system)).values()) == {"exhausted"}
    one = verdicts(explore(system, budget=Budget(skew=1)))
    assert one == {"at_four": "violated", "at_three": "exhausted", "at_two": "exhausted", "rings": "exhausted"}
    assert verdicts(explore(system, budget=Budget(skew=2)))["at_three"] == "violated"
    assert verdicts(explore(system, budget=Budget(skew=2)))["at_two"] == "exhausted"


def test_clocks_that_drift(tmp_path: Path) -> None:
    """A timer of 4 ticks on a clock that is up to a quarter fast or slow; `within` counts true time."""
    system = written(
        tmp_path,
        {
            "system.yaml": "system: alarm\nroles: {bell: {}, ear: {}}\nclock: {horizon: 7}\n",
            "roles/bell.yaml": (
                "role: bell\nstates:\n  silent: {initial: true, on: {tick: {to: rung, when: now >= 4}}}\n  rung: {}\n"
            ),
            "roles/ear.yaml": "role: ear\nstates: {hears: {initial: true}}\n",
            "invariants.yaml": """properties:
  at_two: {when: bell.state == rung, always: now >= 2}
  at_three: {when: bell.state == rung, always: now >= 3}
  by_six: {when: now > 6, always: bell.state == rung}
  by_five: {when: now > 5, always: bell.state == rung}
  within_six: {when: now == 0, leads_to: bell.state == rung, within: 6}
  within_five: {when: now == 0, leads_to: bell.state == rung, within: 5}
""",
        },
    )
    for budget in ("drift=25", "drift=25,crash=1"):  # a crash changes no clock, and time goes on meanwhile
        found = explore(system, budget=Budget.parse(budget))
        late = "exhausted" if budget == "drift=25" else "violated"
        assert verdicts(found) == {
            "at_two": "exhausted",
            "at_three": "violated",
            "by_six": late,
            "by_five": "violated",
            "within_six": late,
            "within_five": "violated",
        }
        assert [*found.paths.world.layout.lead] == ["bell"], "nobody else reads a clock"
    assert verdicts(explore(system, budget=Budget(drift=1)))["at_two"] == "exhausted"
    assert verdicts(explore(system, budget=Budget(drift=1)))["by_five"] == "exhausted"
    slow = explore(system, budget=Budget(drift=25))
    (wrong,) = [p for p in slow.properties if p.name == "within_five"]
    assert wrong.path is not None
    still = [step for step in wrong.path.steps if "the clock of bell stands still" in step.event]
    assert [step.kind for step in still] == ["drift", "drift"], "it shows 3 of the first 5 ticks"


@pytest.mark.parametrize(
    ("budget", "timers", "gaining"),
    [
        ("skew=1", "prompt", {"b"}),
        ("drift=25", "prompt", set()),
        ("drift=25,skew=1", "prompt", {"b"}),
        ("drift=25", "late", {"a", "b"}),
    ],
)
def test_a_gain_of_a_clock_waits_for_timers(tmp_path: Path, budget: str, timers: str, gaining: set[str]) -> None:
    """An offset may change in no time, so for those of its own actor; a clock that drifts gains in time, so for all."""
    bell = "role: {}\nstates: {{silent: {{initial: true, on: {{tick: {{to: rung, when: now >= {}}}}}}}, rung: {{}}}}\n"
    system = written(
        tmp_path,
        {
            "system.yaml": f"system: bells\nroles: {{a: {{}}, b: {{}}}}\nclock: {{horizon: 4, timers: {timers}}}\n",
            "roles/a.yaml": bell.format("a", 1),
            "roles/b.yaml": bell.format("b", 3),
            "invariants.yaml": "properties: {}\n",
        },
    )
    world = reference_of(system, Budget.parse(budget))
    (start,) = world.initial_states()
    (due,) = [after for action, after in world.successors(start) if action.event == "now 1"]
    events = [action.event for action, _ in world.successors(due)]
    assert {event for event in events if "gains" in event} == {f"the clock of {name} gains a tick" for name in gaining}
    assert any(event.startswith("now") for event in events) == (timers == "late")


@pytest.mark.parametrize("fault", ["crash", "power_cut", "halt", "amnesia"])
def test_who_stops_or_forgets_has_the_same_clock(tmp_path: Path, fault: str) -> None:
    system = written(
        tmp_path,
        {
            "system.yaml": "system: alarm\nroles: {bell: {}}\nclock: {horizon: 3}\n",
            "roles/bell.yaml": (
                "role: bell\nstates:\n  silent: {initial: true, on: {tick: {to: rung, when: now >= 2}}}\n  rung: {}\n"
            ),
            "invariants.yaml": "properties: {}\n",
        },
    )
    found = explore(system, budget=Budget.parse(f"drift=25,{fault}=1"))
    world, seen = found.paths.world, set[tuple[int, Any]]()
    lead, phase = world.layout.lead["bell"], world.layout.phase["bell"]
    for state in found.paths.states:
        for action, after in world.successors(state):
            if action.kind in (fault, "crash", "recover"):
                assert (after[lead], after[phase]) == (state[lead], state[phase]), action
                seen.add((state[lead], state[phase]))
    assert len(seen) > 10
    assert {ahead for ahead, _ in seen} >= {-1, 0, 1, 2}


def test_without_numbers_a_crash_makes_a_request_be_executed_twice(conversation: Path) -> None:
    """The same machines over plain queues: what is sent again after a crash is consumed again."""
    system = conversation / "system.yaml"
    system.write_text(system.read_text().replace("mailbox", "bag"))
    found = explore(load(conversation), budget=Budget(crash=1))
    (fault,) = [p for p in found.properties if p.kind == "range"]
    assert fault.verdict == "violated"
    assert fault.path is not None
    assert any(step.kind == "crash" for step in fault.path.steps)


def test_crash_points_have_names(conversation: Path) -> None:
    found = explore(load(conversation), budget=Budget(crash=1))
    assert crashes(found) == {
        "crash:asker/idle#before-commit",
        "crash:asker/asking#before-commit",
        "crash:asker/done#before-commit",
        "crash:teller/idle#before-commit",
        "crash:teller/telling#before-commit",
        "crash:asker/asking#after-commit",
        "crash:asker/done#before-acknowledge",
        "crash:teller/telling#after-commit",
        "crash:teller/telling#before-acknowledge",
    }


def crashes(found: Exploration) -> set[str]:
    """The points of all crashes of an exploration."""
    return {name for name, _, _ in found.graph.points}


@pytest.mark.parametrize(
    ("name", "settings", "budget"),
    [
        ("two_phase_commit", {"participants": 2}, "crash=2"),
        ("three_phase_commit", {"participants": 2}, "crash=1,power_cut=1"),
        ("lease", {"expiry": False, "last_end": 2, "max_units": 1}, "crash=2"),
        ("lease", {"expiry": False, "last_end": 2}, "crash=1"),
        ("lease", {"last_end": 2, "max_units": 1}, "crash=1"),
        pytest.param("lease", {"expiry": False, "last_end": 2}, "crash=2", marks=pytest.mark.slow),
        pytest.param("lease", {"last_end": 2, "max_units": 1}, "crash=1,duplicate=1", marks=pytest.mark.slow),
    ],
)
def test_shipped_systems_keep_their_promises_and_stabilise(name: str, settings: dict[str, int], budget: str) -> None:
    """Section 3: no claim fails under crashes, but for witnesses that need more; and all runs come back."""
    system = load(name, settings)
    plain, found = explore(system), explore(system, budget=Budget.parse(budget))
    lost = {p.name for p in plain.properties if p.verdict == "violated"}
    assert {p.name for p in found.properties if p.verdict == "violated"} == lost
    assert lost <= {"a_lease_grows", "a_lease_shrinks", "a_lease_comes_back"}
    assert convergence(plain, found).converges


LIES = {
    "service_manager": {"ticket_lasts_while_it_is_used", "the_ticket_is_given_back_last"},
    "broker": {"requests_are_answered", "extensions_are_answered"},
    "authority": {"extensions_are_answered", "redeeming_ends", "a_new_lease_is_as_ticketed"},
}


PROMISES = {
    "service_manager": ["broker_gives_no_more_than_it_has", "site_gives_what_a_ticket_grants"],
    "broker": ["site_wants_what_the_ticket_says"],
    "authority": ["broker_gives_no_more_than_it_has"],
}


@pytest.mark.parametrize(
    ("liar", "last_end"),
    [
        pytest.param("service_manager", 1, marks=pytest.mark.long),
        ("broker", 2),
        pytest.param("authority", 2, marks=pytest.mark.long),
    ],
)
def test_what_a_liar_cannot_break(liar: str, last_end: int) -> None:
    """Section 3.1: whatever one actor sends, a site gives no more than a ticket and a broker no more than it has."""
    system = load("lease", {"expiry": False, "last_end": last_end})
    found = explore(system, budget=Budget(byzantine=liar))
    assert found.complete
    said = verdicts(found)
    assert LIES[liar] <= {n for n, v in said.items() if v == "violated"}
    for name in PROMISES[liar]:
        assert said[name] == "exhausted"
        assert name not in found.vacuous


def test_no_faults_are_no_faults(conversation: Path) -> None:
    system = load(conversation)
    plain, faulty = explore(system), explore(system, budget=Budget())
    assert (plain.distinct, plain.generated) == (faulty.distinct, faulty.generated)
    assert convergence(plain, faulty).recovery_states == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("crush=1", "did you mean crash"),
        ("byzantin=broker", "did you mean byzantine"),
        ("crash", "a number"),
        ("crash=-1", "a number"),
        ("crash=any", "a number"),
        ("crash=1,crash=2", "twice"),
        ("lose=1000", "a number"),
        ("", "there is no fault"),
    ],
)
def test_bad_budgets(words: str, says: str) -> None:
    with pytest.raises(BudgetError, match=says):
        Budget.parse(words)


def test_budgets_are_printed_as_they_are_read() -> None:
    assert str(Budget.parse("crash=2, lose=any")) == "crash=2,lose=any"
    assert Budget.parse(str(Budget.parse("default"))) == Budget.parse("default")
    assert str(Budget.parse("none")) == "none"


@pytest.mark.parametrize("budget", [None, Budget(), Budget(crash=1)])
@pytest.mark.parametrize("engine", ["reference", "packed"])
def test_what_only_a_fault_brings_about_is_not_possible(conversation: Path, engine: Any, budget: Budget | None) -> None:
    """A channel that may lose the question does not make it possible that it is lost; it may well be answered."""
    system = conversation / "system.yaml"
    system.write_text(system.read_text().replace("to: teller, kind: mailbox", "to: teller, kind: bag, lose: any"))
    (conversation / "roles" / "teller.yaml").write_text(TELLER.replace(" + 1", ""))
    (conversation / "invariants.yaml").write_text("""properties:
  lost:
    when: len(pending(asked)) == 1 and teller.state == idle
    always_possible: len(pending(asked)) == 0 and teller.state == idle
  told: {when: len(pending(asked)) == 1, always_possible: teller.state == telling}
""")
    found = explore(load(conversation), engine=engine, budget=budget)
    assert verdicts(found) == {"lost": "violated", "told": "exhausted"}
