"""The observer sees what it should, and a short chaos run leaves nothing behind."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from leasehold.checker.recovery.processes.resources import Unavailable
from tests.campaigns.chaos import report
from tests.chaos.chaos import Result, chaos
from tests.chaos.observer import Observer, held_locks, open_files, tracebacks, unit_processes


def unit(folder: Path, name: str, lease: str, *, apart: bool = True) -> subprocess.Popen[bytes]:
    """A process of a unit; in the session of the actor that starts it, where it is not `apart`."""
    variables = {"HOME": str(folder / name / "work"), "LEASEHOLD_UNIT": name, "LEASEHOLD_LEASE": lease}
    command = [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
    started = subprocess.Popen(command, env=variables, start_new_session=apart, stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.readline()  # it has its environment from now on
    return started


def test_a_unit_in_two_hands_is_seen(tmp_path: Path) -> None:
    started = [unit(tmp_path, "unit-0", "tenant:1"), unit(tmp_path, "unit-1", "tenant:1")]
    try:
        observer = Observer(tmp_path)
        observer.look()
        assert (list(observer.violations), observer.most) == ([], 2)
        started.append(unit(tmp_path, "unit-1", "tenant:2"))
        elsewhere = Observer(tmp_path / "other")
        for one in (observer, elsewhere):
            one.look()
        (words,) = observer.violations
        assert words.startswith("unit-1 is in two hands: tenant:1 (session ")
        assert not elsewhere.violations
        assert sorted(p.unit for p in unit_processes(tmp_path)) == ["unit-0", "unit-1", "unit-1"]
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]
    assert list(unit_processes(tmp_path)) == []


def test_who_starts_a_unit_is_not_another_hand(tmp_path: Path) -> None:
    """The process that forks the unit's first one has its environment, too, and for a moment both are there."""
    started = [unit(tmp_path, "unit-0", "tenant:1"), unit(tmp_path, "unit-0", "tenant:1", apart=False)]
    try:
        observer = Observer(tmp_path)
        observer.look()
        assert (list(observer.violations), observer.most) == ([], 1)
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]


def test_what_is_left_over_is_seen(tmp_path: Path) -> None:
    (tmp_path / "unit-0").mkdir()
    (tmp_path / "unit-1").mkdir()
    (tmp_path / "unit-1" / "lock").touch()
    with open(tmp_path / "unit-0" / "lock", "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert held_locks(tmp_path) == ["unit-0"]
    assert held_locks(tmp_path) == []
    (tmp_path / "site.log").write_text('{"level": "info"}\nTraceback (most recent call last): no\n')
    assert tracebacks(tmp_path) == ["site.log: Traceback (most recent call last): no"]
    assert open_files(os.getpid()) > 2


@pytest.mark.parametrize("store", [
    pytest.param("sqlite", marks=pytest.mark.long), pytest.param("postgresql", marks=pytest.mark.slow),
    pytest.param("mariadb", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_short_chaos_run(store: str) -> None:
    try:
        result = chaos(store, 8, seed=7)
    except Unavailable as missing:
        pytest.skip(str(missing))
    assert result.violations == []
    assert sum(result.faults.values()) > 3
    assert result.leases > 0  # in eight seconds; how many depends on the machine
    assert result.units > 0


def test_the_page_has_every_fault_and_violation() -> None:
    calm = Result("sqlite", 1, 600.0, Counter(kill_one=3), leases=1_200)
    bad = Result("mariadb", 2, 60.0, Counter(wire=4), violations=["unit-1 is in two hands"], left_out=["clock_jumps"])
    rows = report([calm, bad]).splitlines()
    assert "| leases acknowledged | 1,200 | 0 |" in rows
    assert "| fault: kill one | 3 | 0 |" in rows
    assert "| fault: wire | 0 | 4 |" in rows
    assert "| **violations** | **0** | **1** |" in rows
    assert "- mariadb: unit-1 is in two hands" in rows
    assert "mariadb: this machine cannot make the faults clock_jumps." in rows
