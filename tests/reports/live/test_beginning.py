"""The beginning of a walk: a counterexample, also of an older text, and runs of real actors with crashes."""

import json
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.walker import Walker
from leasehold.checker.recovery.cases.path_case import PathCase
from leasehold.checker.recovery.cases.stored import stored_cases
from leasehold.checker.verify.result import path_of
from leasehold.cli.sources import read_sources
from leasehold.faults.model import Budget
from leasehold.impl.events.event import StepEvent
from leasehold.reports.json_report import json_report
from leasehold.reports.live.beginning import along_case, along_run, faults_of
from tests.cli.conftest import command
from tests.systems import edited, files_of, load, written

SAGA = files_of("reports/live/systems/saga")
VAIN = "nobody_is_booked_in_vain"


def counterexample(folder: Path) -> PathCase:
    """The counterexample in a file of `explore --json`."""
    system = load(folder)
    report: dict[str, Any] = json_report(explore(system))
    file = folder / "explored.json"
    file.write_text(json.dumps(report | {"system": "."}))
    (stored,) = stored_cases(file, VAIN) or ()
    assert isinstance(stored.case, PathCase)
    return stored.case


def test_a_counterexample_of_a_file_is_gone_to(tmp_path: Path) -> None:
    system = written(tmp_path / "saga", SAGA)
    walker = Walker(system, Budget.parse("crash=1,lose=1"))
    followed = along_case(walker, counterexample(tmp_path / "saga"))
    assert followed.lost is None
    state = walker.snapshot(followed.position)
    assert (state.control["hotel"], state.control["customer"]) == ("full", "sorry")


def test_one_of_an_older_text_is_followed_as_far_as_it_goes(tmp_path: Path) -> None:
    """The fourth step, in which the customer gives up, is none of a customer who has more patience."""
    case = counterexample(written(tmp_path / "saga", SAGA) and tmp_path / "saga")
    patient = written(tmp_path / "patient", edited(SAGA, ("set: {due: now + 1}", "set: {due: now + 2}")))
    followed = along_case(Walker(patient), case)
    assert followed.lost == 1  # the record that the first step leaves has another `due`
    late = written(tmp_path / "late", edited(SAGA, ("when: now >= due", "when: now > due")))
    followed = along_case(Walker(late), case)
    assert followed.lost == 4
    assert len(followed.position.trail) == 4


@pytest.mark.parametrize(("faults", "crashes"), [("crash=1", 2), ("crash=3", 4), ("lose=1", 1)])
def test_a_walk_may_have_as_many_more_crashes_as_before(faults: str, crashes: int, tmp_path: Path) -> None:
    """The crashes of a run are none of those that its walk may still have."""
    system = written(tmp_path, SAGA)
    walker = Walker(system, Budget.parse("crash=1"))
    crash = next(p for p in walker.choices(walker.firsts[0]).next if p.action is not None and p.action.kind == "crash")
    assert faults_of(walker.path(crash), Budget.parse(faults)).crash == crashes


@pytest.mark.long
def test_runs_of_real_actors_are_followed_in_the_model(tmp_path: Path) -> None:
    """With kill -9, whose actors recover: each run is a walk, which ends in the records of its last event."""
    done = command("up", "two_phase_commit", "--crash", "--seconds", "3", "--seed", "7", "--dir", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    system, chains = load("two_phase_commit"), read_sources([str(tmp_path / "run")], None, True)
    steps = [e.step for events in chains.values() for e in events if isinstance(e, StepEvent)]
    runs = sorted({step.serves or step.lease for step in steps})
    crashes = 0
    for run in runs:
        path = path_of(system, chains, run)
        walker = Walker(system, faults_of(path, Budget.parse("crash=1")))
        followed = along_run(walker, path)
        assert followed.lost is None, run
        end = walker.snapshot(followed.position)
        assert (end.control, end.data) == (path.final.control, path.final.data)
        crashes += sum(p.action is not None and p.action.kind == "crash" for p in followed.position.way())
    assert len(runs) > 2
    assert crashes > 1
