"""What crashes do to a system: cases, crash points, paths, the weakest faults (paper, section 5.1)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.checker.cases import ANY, Case, Worst
from leasehold.checker.crash import CrashReport, crash
from leasehold.checker.deepen import deepen
from leasehold.checker.explore.result import Step
from leasehold.faults import Budget
from leasehold.faults.budget import deepening
from leasehold.spec import load

SYSTEM = """system: conversation
roles: {asker: {}, teller: {}}
channels:
  there: {from: asker, to: teller, kind: mailbox}
  back: {from: teller, to: asker, kind: mailbox}
environment: {begin: {to: asker, fair: true}}
"""
MESSAGES = "messages: {asked: {from: asker, to: teller}, told: {from: teller, to: asker, answer: true}}\n"
INVARIANTS = """properties:
  ends: {when: asker.state == asking, leads_to: asker.state == done}
  asked_once: {always: teller.count <= 1}
"""
ASKER = """role: asker
events: {begin: it begins}
states:
  idle: {initial: true, on: {begin: {to: asking}}, ignore: {told: nothing was asked}}
  asking: {tasks: [ask], on: {told: {to: done}}, ignore: {begin: it has begun}}
  done: {ignore: {begin: it is done, told: it is known}}
tasks: {ask: {send: asked, to: teller}}
"""
TELLER = """role: teller
data: {count: {type: int, max: 3}}
states:
  idle: {initial: true, on: {asked: {to: telling, set: {count: "min(count + 1, 3)"}}}}
  telling: {tasks: [tell], on: {asked: {to: telling, set: {count: "min(count + 1, 3)"}}}}
tasks: {tell: {send: told, to: asker}}
"""


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    """One asks, the other tells, over mailboxes; `count` counts how often it was asked."""
    (tmp_path / "roles").mkdir()
    texts = {"system": SYSTEM, "messages": MESSAGES, "invariants": INVARIANTS}
    for name, text in {**texts, "roles/asker": ASKER, "roles/teller": TELLER}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def bare(names: object) -> set[str]:
    return {name.partition("@")[0] for name in names}  # type: ignore[attr-defined]


def crash_of(report: CrashReport, case: Case) -> int | None:
    """The index of the crash of a case on its path; None where the actor is down already and crashes again."""
    steps = report.path(case).steps
    found = [i for i, step in enumerate(steps) if (step.kind, step.event) == ("crash", case[1])]
    return found[-1] if found else None


# Cases


def test_every_crash_of_a_conversation(conversation: Path) -> None:
    """Of the points one cannot be met: where no transition leads, no message can be left unacknowledged."""
    report = crash(load(conversation), Budget(crash=1))
    assert report.holds
    assert report.complete
    assert report.modes == (ANY,)
    assert (report.faulty.distinct, len(report.cases), len(report.tried), len(report.points)) == (22, 20, 14, 15)
    assert {p.name for p in report.points} - report.tried == {"crash:asker/idle#before-acknowledge"}
    after = report.convergence
    assert after is not None
    assert (after.legal_states, after.recovery_states, after.worst_steps, after.worst_exchanges) == (4, 18, 5, 4)
    assert {cell.control: (cell.legal, len(cell.points), cell.worst) for cell in report.cells} == {
        ("idle", "idle"): (True, 4, Worst(0, 0)),
        ("asking", "idle"): (True, 5, Worst(3, 3)),
        ("asking", "telling"): (True, 6, Worst(3, 3)),
        ("done", "telling"): (True, 5, Worst(3, 3)),
    }


def test_a_crash_that_undoes_nothing_is_legal_at_once(conversation: Path) -> None:
    cases = crash(load(conversation), Budget(crash=1)).cases
    assert cases[("asking", "idle"), "crash:asker/asking#after-commit", ANY] == Worst(0, 0)
    assert cases[("asking", "idle"), "crash:asker/asking#before-commit", ANY] == Worst(3, 3)


def test_of_a_power_cut_the_name_says_that_all_stop(conversation: Path) -> None:
    report = crash(load(conversation), Budget(power_cut=1))
    names = {p.name for p in report.points}
    assert bare(report.tried) <= names
    assert "crash:teller/telling#after-commit@everything" in report.tried


def test_where_nobody_crashes_there_is_no_case(conversation: Path) -> None:
    report = crash(load(conversation), Budget(lose=1))
    assert report.holds
    assert (len(report.cases), len(report.tried)) == (0, 0)
    assert report.convergence is not None
    assert (report.convergence.recovery_states, report.convergence.worst_steps) == (3, 2)


@pytest.mark.parametrize(("name", "settings", "budget"), [
    ("two_phase_commit", {"participants": 1}, "crash=2,duplicate=1,lose=1"),
    ("two_phase_commit", {"participants": 2}, "crash=1"),
    ("lease", {"expiry": False, "max_units": 1, "last_end": 1}, "crash=1"),
])  # fmt: skip
def test_every_point_that_is_explored_is_in_the_catalogue(name: str, settings: dict[str, int], budget: str) -> None:
    report = crash(load(name, settings), Budget.parse(budget))
    assert report.holds
    assert report.cases
    assert report.tried
    assert bare(report.tried) <= {p.name for p in report.points}
    assert {point for _, point, _ in report.cases} == report.tried
    assert {cell for cell, _, _ in report.cases} <= {cell.control for cell in report.cells}
    for cell in report.cells:
        mine = [case for case in report.cases if case[0] == cell.control]
        assert sum(cell.cases.values()) == len(mine)
        assert set(cell.points) == {point for _, point, _ in mine}


ENDS = [("service_manager", "requested_end"), ("service_manager", "ticket_end"), ("service_manager", "lease_end"),
        ("broker", "requested_end"), ("broker", "term_end"), ("authority", "end")]  # fmt: skip


def test_the_lease_without_time() -> None:
    """Without time no term ends, so no restart finds it over."""
    report = crash(load("lease", {"expiry": False, "max_units": 1, "last_end": 2}), Budget(crash=1))
    assert report.holds
    assert (len(report.cases), len(report.tried), len(report.points)) == (543, 111, 133)
    assert {mode for _, _, mode in report.cases} == {"alive"}
    assert report.modes == ("alive", "over")
    assert len(report.cells) == 39
    assert all(cell.legal for cell in report.cells)


def test_an_actor_restarts_while_the_term_lasts_and_after_it() -> None:
    """Section 5.1, the two modes: each case of a lease whose term can end, and when its actor restarts."""
    report = crash(load("lease", {"max_units": 1, "last_end": 1}), Budget(crash=1))
    assert report.holds
    modes = {case[:2]: set() for case in report.cases}
    for cell, point, mode in report.cases:
        modes[cell, point].add(mode)
    both = [case for case, found in modes.items() if found == {"alive", "over"}]
    assert len(both) > 100
    cell, point = both[-1]
    for mode in ("alive", "over"):
        steps = report.path((cell, point, mode)).steps
        (restart,) = [step for step in steps if step.kind == "recover"]
        ends = [restart.state.data[f"{name}.{end}"] for name, end in ENDS]
        assert (restart.state.now >= max(map(int, ends))) == (mode == "over")


# Paths


def test_the_path_of_a_case_crashes_there_restarts_and_comes_back(conversation: Path) -> None:
    """All cases: the path has the crash at its point, in its cell, then the restart, then as many steps as said."""
    report = crash(load(conversation), Budget(crash=2, duplicate=1))
    for case, worst in report.cases.items():
        steps = report.path(case).steps
        at = crash_of(report, case)
        if at is None:
            assert case[1].endswith("#recovering")
            at = max(i for i, step in enumerate(steps) if step.kind == "crash")
        back = next(i for i in range(at + 1, len(steps)) if steps[i].kind == "recover")
        down = [tuple(step.state.control.values()) for step in steps[at:back]]
        assert case[0] in (down if case[1].endswith("#recovering") else down[:1])
        assert len(steps) - back - 1 == worst.steps
        assert not any(step.kind in ("crash", "lose") for step in steps[back + 1 :])


def test_the_path_of_a_case_names_the_point_that_was_asked_for() -> None:
    """In the model a point after a call is the one before it; the path still has the name of the case."""
    report = crash(load("lease", {"expiry": False, "max_units": 1, "last_end": 1}), Budget(crash=1))
    case = (("redeeming", "ticketed", "priming"), "crash:authority/priming#after-place", "alive")
    path = report.path(case)
    stop = path.steps[crash_of(report, case) or 0]
    assert stop.title.startswith("authority: crash:authority/priming#after-place, on ")
    first = path.initial.control
    assert (first["service_manager"], first["broker"], first["authority"]) == ("nascent",) * 3


def test_a_case_that_is_not_there(conversation: Path) -> None:
    report = crash(load(conversation), Budget(crash=1))
    with pytest.raises(LookupError, match="there is no such case"):
        report.path((("done", "idle"), "crash:asker/done#before-commit", ANY))


# What breaks


def plain_queues(folder: Path) -> None:
    """The same machines without sequence numbers: what comes again is taken for new."""
    system = folder / "system.yaml"
    system.write_text(system.read_text().replace("mailbox", "fifo"))


def test_the_weakest_faults_that_break_a_property_are_found(conversation: Path) -> None:
    plain_queues(conversation)
    report = crash(load(conversation), Budget(crash=2, duplicate=1, lose=1))
    assert not report.holds
    assert set(report.broken) == {"ends", "asked_once"}
    assert report.weakest == {"asked_once": Budget(crash=1), "ends": Budget(lose=1)}
    assert kinds(report, "asked_once") == ["local", "crash", "recover", "deliver"]
    assert kinds(report, "ends") == ["local", "lose"]


def kinds(report: CrashReport, name: str) -> list[str]:
    path = report.under_weakest[name].path
    assert path is not None
    steps: tuple[Step, ...] = path.steps
    return [step.kind for step in steps]


def test_a_property_that_fails_anyhow_is_not_broken_by_faults(conversation: Path) -> None:
    (conversation / "invariants.yaml").write_text("properties: {never_done: {always: asker.state != done}}\n")
    report = crash(load(conversation), Budget(crash=1))
    assert (report.broken, dict(report.weakest), report.holds) == ((), {}, True)


def test_who_may_never_come_back_is_not_asked_to(conversation: Path) -> None:
    report = crash(load(conversation), Budget(crash=1, halt=1))
    assert report.complete
    assert report.convergence is None
    assert not report.cases
    assert report.weakest == {"ends": Budget(halt=1)}


# Ever more


def test_ever_larger_budgets(conversation: Path) -> None:
    reports = []
    for report in deepen(load(conversation), 60):
        reports.append(report)
        if len(reports) == 3:
            break
    assert [r.budget for r in reports] == [b for b, _ in zip(deepening(), range(3), strict=False)]
    assert all(r.complete and r.holds for r in reports)


def test_deepening_ends_where_something_breaks(conversation: Path) -> None:
    plain_queues(conversation)
    assert [r.holds for r in deepen(load(conversation), 60)] == [False]


def test_deepening_says_what_was_cut_off() -> None:
    *_, last = deepen(load("lease"), 0.01)
    assert not last.complete
    assert last.convergence is None


@pytest.mark.slow
def test_the_lease_under_all_its_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """Section 5.1: with the system's own budget and settings everything holds, and every run comes back."""
    command = [sys.executable, "-m", "leasehold", "crash", "lease", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    with capsys.disabled():
        print(f"\ncrash lease: {found['seconds']:.0f} s, {found['distinct']:,} states, {found['scenarios']:,} cases")
    assert (done.returncode, found["complete"], found["converges"]) == (0, True, True)
    assert [p["name"] for p in found["properties"] if p["weakest"] is not None] == []
    assert found["holds"] is True
