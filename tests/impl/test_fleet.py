"""Processes of a fleet: which are ready, and which are ended by force."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl import fleet as fleets
from leasehold.impl.fleet import FleetError, SystemFleet


class Process:
    """A process that ends when it is asked to, or only when it is killed."""

    pid = 1

    def __init__(self, deaf: bool = False, code: int | None = None) -> None:
        self.deaf, self.returncode = deaf, code
        self.told: list[str] = []

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            assert timeout is not None, "it would never end"
            raise subprocess.TimeoutExpired("actor", timeout)
        return self.returncode

    def terminate(self) -> None:
        self.told.append("terminate")
        self.returncode = None if self.deaf else 0

    def kill(self) -> None:
        self.told.append("kill")
        self.returncode = -9


@pytest.fixture
def fleet(tmp_path: Path) -> SystemFleet:
    return SystemFleet("two_phase_commit", tmp_path, {"participants": 2})


def test_all_processes_have_ended_after_a_stop(fleet: SystemFleet) -> None:
    """One that is deaf is killed; one that has ended already is left alone."""
    good, deaf, ended = Process(), Process(deaf=True), Process(code=3)
    fleet.processes = {"coordinator": good, "participant-0": deaf, "participant-1": ended}
    fleet.stop()
    assert [p.returncode for p in (good, deaf, ended)] == [0, -9, 3]
    assert [p.told for p in (good, deaf, ended)] == [["terminate"], ["terminate", "kill"], []]


def test_an_actor_is_ready_when_it_takes_steps(fleet: SystemFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = [None, {"running": False}, {"running": False}, {"running": True, "name": "coordinator"}]
    slept: list[float] = []
    monkeypatch.setattr(fleets.time, "sleep", slept.append)
    fleet.processes["coordinator"] = Process()
    fleet.about = lambda name: said.pop(0)  # type: ignore[method-assign]
    assert fleet.await_ready("coordinator")["name"] == "coordinator"
    assert (said, len(slept)) == ([], 3)


@pytest.mark.parametrize(("code", "words"), [(1, "has ended with exit code 1"), (None, "does not answer")])
def test_an_actor_that_does_not_come_up_is_said_with_its_last_words(
    fleet: SystemFleet, code: int | None, words: str
) -> None:
    fleet.processes["coordinator"] = Process(code=code)
    fleet.about = lambda name: {"running": False}  # type: ignore[method-assign]
    (fleet.folder / "coordinator.log").write_text("first\nno such key\n")
    with pytest.raises(FleetError, match=f"coordinator {words}; its last words: first | no such key"):
        fleet.await_ready("coordinator", limit_seconds=0.0)
