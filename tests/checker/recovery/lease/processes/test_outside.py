"""The observer of processes sees each use of a unit that is another's, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import time
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
from leasehold.impl.handlers.starter import __file__ as STARTER


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
    """A guest counts once its unit is gone for a while, or the end that its site has confirmed is over."""
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


def test_units_that_are_being_started_are_counted(tmp_path: Path) -> None:
    """By their names: a unit is started by two processes, one after the other. What runs on it, its holder starts."""
    names = ("unit-0", "unit-0", "unit-1", "tenant:1/guest[0]")
    begun = [starter(tmp_path, name) for name in names] + [starter(tmp_path / "elsewhere", "unit-2")]
    observer = Observer(tmp_path / "units")
    try:
        until = time.monotonic() + 10
        while observer.starting < 2 and time.monotonic() < until:
            observer.look()
    finally:
        for process in begun:
            process.communicate(b"\n")
    assert observer.starting == 2


def starter(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """A process that is about to become a unit, or a guest on one."""
    given = {"HOME": str(folder / "units" / name / "work"), "LEASEHOLD_UNIT": name, "LEASEHOLD_LEASE": "tenant:1"}
    words = [sys.executable, "-c", "input()", STARTER]
    return subprocess.Popen(words, stdin=subprocess.PIPE, env=given)
