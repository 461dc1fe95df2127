"""The observer sees what it should, and a short chaos run leaves nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.recovery.lease.processes.outside import (
    ALONE_SECONDS,
    LOOK_SECONDS,
    STALE_SECONDS,
    Observer,
    unit_processes,
)
from leasehold.checker.recovery.processes.resources import Unavailable
from tests.campaigns.chaos import report
from tests.chaos import siege
from tests.chaos.chaos import Result, chaos
from tests.chaos.observer import held_locks, open_files, tracebacks


def unit(folder: Path, name: str, lease: str, *, apart: bool = True, guest: bool = False) -> subprocess.Popen[bytes]:
    """A process of a unit; in the session of the actor that starts it, where it is not `apart`."""
    variables = {"HOME": str(folder / name / "work"), "LEASEHOLD_UNIT": name, "LEASEHOLD_LEASE": lease}
    if guest:
        told = json.dumps({"name": name, "site": "site"})
        variables |= {"LEASEHOLD_UNIT": f"{lease}/guest[0]", "LEASEHOLD_PROPERTIES": told}
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


def looked(folder: Path, *started: subprocess.Popen[bytes], seconds: float = 0.0, **how: Any) -> Observer:
    """An observer that has looked for a while at processes, which are then ended."""
    observer, until = Observer(folder, **how), time.monotonic() + seconds
    try:
        observer.look()
        while time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
            observer.look()
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]
    return observer


@pytest.mark.parametrize(
    ("users", "seen"),
    [
        ([("tenant:1", False), ("tenant:1", True)], []),
        ([("tenant:2", False), ("tenant:1", True)], ["unit-0 is used by a guest of tenant:1 and tenant:2"]),
        (
            [("tenant:1", True), ("tenant:2", True), ("tenant:1", False)],
            ["unit-0 is used by a guest of tenant:1 and a guest of tenant:2"],
        ),
    ],
)
def test_a_guest_on_a_unit_of_another_lease_is_seen(
    users: list[tuple[str, bool]], seen: list[str], tmp_path: Path
) -> None:
    for excused in (False, True):
        started = [unit(tmp_path, "unit-0", lease, guest=guest) for lease, guest in users]
        observer = looked(tmp_path, *started, excused=lambda excused=excused: excused)
        assert list(observer.violations) == ([] if excused else seen)
        assert (observer.most, observer.guests) == (1, 1)


def test_a_guest_that_runs_on_is_seen(tmp_path: Path) -> None:
    """Where its unit is gone for a while, or the end that its site has confirmed is over."""
    alone = looked(tmp_path, unit(tmp_path, "unit-0", "tenant:1", guest=True), seconds=ALONE_SECONDS + 0.5)
    assert list(alone.violations) == ["a guest of tenant:1 runs on unit-0, which is torn down"]
    ends = {"tenant:1": time.time() + 60, "tenant:2": time.time() - 1}
    started = [unit(tmp_path, f"unit-{n}", f"tenant:{n}", guest=guest) for n in (1, 2, 3) for guest in (False, True)]
    late = looked(tmp_path, *started, end_of=ends.get, seconds=STALE_SECONDS + 0.5)
    assert list(late.violations) == ["a guest of tenant:2 runs on unit-2 past the end that its site confirmed"]


def test_a_guest_of_a_lease_that_was_just_renewed_is_no_finding(tmp_path: Path) -> None:
    """A site's answer is of a moment ago; before the guest has run for long it tells the new end, twice here."""
    began = time.time()

    def end_of(lease: str) -> float:
        passed = (time.time() - began) / STALE_SECONDS
        return time.time() + (60 if 0.5 < passed < 1.2 else -60)

    started = [unit(tmp_path, "unit-1", "tenant:1", guest=guest) for guest in (False, True)]
    assert list(looked(tmp_path, *started, end_of=end_of, seconds=STALE_SECONDS * 1.5).violations) == []


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
def test_a_short_chaos_run(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siege, "ANSWER_SECONDS", 10.0)  # beside other tests; the campaign asks for one
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
