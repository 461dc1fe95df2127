"""A short chaos run leaves nothing behind, and what would be left is seen."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from pathlib import Path

import pytest

from leasehold.checker.recovery.processes.resources import Unavailable
from tests.campaigns.chaos import report
from tests.chaos import siege
from tests.chaos.chaos import Result, chaos
from tests.chaos.observer import held_locks, open_files, tracebacks


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


@pytest.mark.parametrize(
    "store",
    [
        pytest.param("sqlite", marks=pytest.mark.long),
        pytest.param("postgresql", marks=pytest.mark.slow),
        pytest.param("mariadb", marks=pytest.mark.slow),
    ],
)
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
