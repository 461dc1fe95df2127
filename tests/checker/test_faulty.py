"""Crashes and what follows them, on systems small enough to be thought through (paper, sections 3.2 and 3.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.breadth_first import Exploration
from leasehold.checker.stabilise import convergence
from leasehold.faults import Budget, BudgetError
from leasehold.spec import load

ASKER = """
role: asker
events: {begin: it begins}
states:
  idle: {initial: true, on: {begin: {to: asking}}, ignore: {told: nothing was asked}}
  asking: {tasks: [ask], on: {told: {to: done}}, ignore: {begin: it has begun}}
  done: {ignore: {begin: it is done, told: it is known}}
tasks: {ask: {send: asked, to: teller}}
"""
TELLER = """
role: teller
data: {count: {type: int, max: 1}}
states:
  idle: {initial: true, on: {asked: {to: telling, set: {count: count + 1}}}}
  telling: {tasks: [tell], on: {asked: {to: telling, set: {count: count + 1}}}}
tasks: {tell: {send: told, to: asker}}
"""


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    """One asks, the other tells; `count` counts how often it was asked."""
    (tmp_path / "roles").mkdir()
    (tmp_path / "system.yaml").write_text("""system: conversation
roles: {asker: {}, teller: {}}
channels:
  there: {from: asker, to: teller, kind: mailbox}
  back: {from: teller, to: asker, kind: mailbox}
environment: {begin: {to: asker, fair: true}}
""")
    (tmp_path / "messages.yaml").write_text(
        "messages: {asked: {from: asker, to: teller}, told: {from: teller, to: asker, answer: true}}\n"
    )
    (tmp_path / "invariants.yaml").write_text(
        "properties: {ends: {when: asker.state == asking, leads_to: asker.state == done}}\n"
    )
    (tmp_path / "roles" / "asker.yaml").write_text(ASKER)
    (tmp_path / "roles" / "teller.yaml").write_text(TELLER)
    return tmp_path


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


def test_a_running_sender_does_not_send_a_lost_message_again(conversation: Path) -> None:
    """The model has no retransmission by timers: a loss is then for ever, and the conversation hangs."""
    found = explore(load(conversation), budget=Budget(lose=1))
    (ends,) = found.properties
    assert ends.verdict == "violated"
    assert ends.path is not None
    assert [s.kind for s in ends.path.steps] == ["local", "lose"]


def test_without_numbers_a_crash_makes_a_request_be_executed_twice(conversation: Path) -> None:
    """The same machines over plain queues: what is sent again after a crash is consumed again."""
    system = conversation / "system.yaml"
    system.write_text(system.read_text().replace("mailbox", "fifo"))
    found = explore(load(conversation), budget=Budget(crash=1))
    (fault,) = [p for p in found.properties if p.kind == "range"]
    assert fault.verdict == "violated"
    assert fault.path is not None
    assert any(step.kind == "crash" for step in fault.path.steps)


def test_crash_points_have_names(conversation: Path) -> None:
    found = explore(load(conversation), budget=Budget(crash=1))
    world, states = found.paths.world, found.paths.states
    names = {a.point or a.event for s in states for a, _ in world.successors(s) if a.kind == "crash"}
    assert names == {
        "crash:asker", "crash:teller", "crash:asker/asking#after-commit", "crash:asker/done#before-acknowledge",
        "crash:teller/telling#after-commit", "crash:teller/telling#before-acknowledge",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "budget"), [
    ("two_phase_commit", {"participants": 2}, "crash=2"),
    ("three_phase_commit", {"participants": 2}, "crash=1,power_cut=1"),
    ("lease", {"expiry": False, "last_end": 2, "max_units": 1}, "crash=2"),
    ("lease", {"expiry": False, "last_end": 2}, "crash=1"),
    ("lease", {"last_end": 2, "max_units": 1}, "crash=1"),
    pytest.param("lease", {"expiry": False, "last_end": 2}, "crash=2", marks=pytest.mark.slow),
    pytest.param("lease", {"last_end": 2, "max_units": 1}, "crash=1,duplicate=1", marks=pytest.mark.slow),
])  # fmt: skip
def test_shipped_systems_keep_their_promises_and_stabilise(name: str, settings: dict[str, int], budget: str) -> None:
    """Section 3: no claim fails under crashes, but for witnesses that need more units; and all runs come back."""
    system = load(name, settings)
    plain, found = explore(system), explore(system, budget=Budget.parse(budget))
    lost = {p.name for p in plain.properties if p.verdict == "violated"}
    assert {p.name for p in found.properties if p.verdict == "violated"} == lost
    assert lost <= {"a_lease_grows", "a_lease_shrinks"}
    assert convergence(plain, found).converges


def test_no_faults_are_no_faults(conversation: Path) -> None:
    system = load(conversation)
    plain, faulty = explore(system), explore(system, budget=Budget())
    assert (plain.distinct, plain.generated) == (faulty.distinct, faulty.generated)
    assert convergence(plain, faulty).recovery_states == 0


@pytest.mark.parametrize(("words", "says"), [
    ("crush=1", "did you mean crash"), ("crash", "a number"), ("crash=-1", "a number"), ("crash=any", "a number"),
    ("crash=1,crash=2", "twice"), ("lose=1000", "a number"), ("", "there is no fault"),
])  # fmt: skip
def test_bad_budgets(words: str, says: str) -> None:
    with pytest.raises(BudgetError, match=says):
        Budget.parse(words)


def test_budgets_are_printed_as_they_are_read() -> None:
    assert str(Budget.parse("crash=2, lose=any")) == "crash=2,lose=any"
    assert Budget.parse(str(Budget.parse("default"))) == Budget.parse("default")
    assert str(Budget.parse("none")) == "none"
