"""Limits of time hold also for what does not look at the clock; each test has a generous bound against hanging."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import z3

from leasehold.checker.crash import analysis
from leasehold.checker.explore import Checkpointing, Engine, Limits, explore
from leasehold.checker.explore.graph import liveness
from leasehold.checker.explore.packed import search as packed
from leasehold.checker.host.deadline import OutOfTime, alarm_at, grace
from leasehold.checker.prove import prover
from leasehold.checker.prove.decide.induction import ANY
from leasehold.faults.model import Budget
from tests.systems import files_of, load, write

LONG = 3600.0
BOUND = 120.0  # seconds in which each of these ends on any machine; each would take an hour
ENOUGH = Limits(seconds=LONG)


@pytest.fixture(autouse=True)
def _bounded() -> Any:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < BOUND


def works(*_: Any, **__: Any) -> Any:
    """Does not look at the clock, and its time is over soon: whoever has set no alarm is ended by this one."""
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        time.sleep(0.05)


def test_an_alarm_ends_a_block_and_is_gone() -> None:
    with pytest.raises(OutOfTime), alarm_at(time.perf_counter() + LONG):
        works()
    with alarm_at(time.perf_counter() + 0.05):
        pass
    time.sleep(0.1)  # it would ring here
    assert grace(100.0) == 10.0


def test_an_alarm_within_an_alarm_is_the_outer_one() -> None:
    with pytest.raises(OutOfTime), alarm_at(time.perf_counter() + LONG), alarm_at(None), alarm_at(0.0):
        works()


def test_a_checkpoint_that_takes_long_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packed, "coded", works)
    monkeypatch.setattr(packed, "save", works)
    limits = Limits(seconds=0.3, keeping=Checkpointing(tmp_path / "left.npz"))
    found = explore(load("lease"), limits, engine="packed")
    assert found.why_incomplete.endswith("a checkpoint would have taken longer than that")
    assert found.checkpoint == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", ["packed", "reference"])
def test_what_is_decided_on_the_whole_graph_is_broken_off(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setattr(liveness, "decide", works)
    found = explore(load("two_phase_commit", {"participants": 2}), ENOUGH, engine=engine)
    assert found.graph is None
    assert found.why_incomplete == "stopped after 3,600 s, before what asks for the whole graph was decided"
    verdicts = {p.kind: p.verdict for p in found.properties}
    assert (verdicts["leads_to"], found.complete) == ("bounded", False)


@pytest.mark.parametrize("part", ["convergence", "CaseFinder"])
def test_whether_a_system_returns_is_left_open(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.setattr(analysis, part, works)
    system = load("two_phase_commit", {"participants": 2})
    report = analysis.crash(system, Budget.parse("crash=1"), limits=ENOUGH)
    assert report.open
    assert report.faulty.why_incomplete == "stopped after 3,600 s, before it was decided whether it returns"


@pytest.mark.parametrize("part", ["_require_first_state", "induct", "guard_findings"])
def test_a_proof_is_broken_off_and_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    system = load("two_phase_commit", {"participants": 2})
    monkeypatch.setattr(prover, part, works)
    found = prover.prove(system, ANY.limited(LONG), jobs=1)
    asked = {p.name for p in system.properties.values() if p.kind in ("always", "step")}
    assert {v.name for v in found.verdicts} == asked | {*system.lemmas}
    assert found.guards_open
    assert {v.verdict for v in found.verdicts} == {"proved" if part == "guard_findings" else "undecided"}
    assert all(v.reason.startswith("time: ") for v in found.of("undecided"))


LAMP = files_of("checker/host/systems/lamp")


def test_a_short_search_comes_before_induction(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Under a limit of time, a run that violates a property is found however long its proof takes."""
    system = load(write(tmp_path / "lamp", LAMP))
    monkeypatch.setattr(prover, "induct", works)
    (verdict,) = prover.prove(system, ANY.limited(LONG), jobs=1, small=system).verdicts
    assert (verdict.verdict, verdict.path and len(verdict.path)) == ("counterexample", 3)


GROWS = """
import z3
from leasehold.checker.prove import limit_memory
limit_memory(1)
try:
    kept = [z3.StringVal(str(n) * 1_000_000) for n in range(300)]
except z3.Z3Exception as error:
    print(error)
"""


def test_the_memory_of_the_solver_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a process of its own, as the limit is one of the process; what is undecided then says so."""
    done = subprocess.run([sys.executable, "-c", GROWS], capture_output=True, text=True, timeout=BOUND)
    assert (done.returncode, done.stdout) == (0, "b'out of memory'\n")

    def grows(*_: Any, **__: Any) -> Any:
        raise z3.Z3Exception(b"out of memory")

    monkeypatch.setattr(prover, "induct", grows)
    (verdict,) = prover.prove(load(write(tmp_path / "lamp", LAMP)), ANY, jobs=1).verdicts
    assert (verdict.verdict, verdict.reason[:8]) == ("undecided", "memory: ")


HANGS = """
import ctypes, time
from leasehold.checker.host.deadline import ended_at
with ended_at(time.perf_counter() + 0.2, lambda: print("late", flush=True), 3):
    ctypes.CDLL(None).sleep(3600)
"""


ENDS = """
import sys, time
from leasehold.checker.host.deadline import ended_at
seconds, LONG = float(sys.argv[1]), 3600
with ended_at(time.perf_counter() + seconds if seconds else None, lambda: print("late", flush=True), 3):
    pass
time.sleep(seconds if seconds < LONG else 0)
print("in time")
"""


@pytest.mark.parametrize("seconds", ["0", "1", "3600"])
def test_a_block_that_ends_in_time_ends_nothing_then_or_later(seconds: str) -> None:
    done = subprocess.run([sys.executable, "-c", ENDS, seconds], capture_output=True, text=True, timeout=BOUND)
    assert (done.returncode, done.stdout) == (0, "in time\n")


def test_a_call_that_does_not_come_back_is_ended_from_outside() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=BOUND)
    assert (done.returncode, done.stdout) == (3, "late\n")
