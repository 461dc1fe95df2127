"""Real processes that are killed, and whose stores and wires fail: some cases, and what the oracle sees."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from leasehold.checker.recovery.campaign import UnknownCase
from leasehold.checker.recovery.lease.processes import cases
from leasehold.checker.recovery.lease.processes.campaign import campaign
from leasehold.checker.recovery.lease.processes.cases import (
    QUICK,
    ProcessCase,
    ReferenceRun,
    fixed_names,
    play,
)
from leasehold.checker.recovery.processes import faults
from leasehold.checker.recovery.processes.faults import FaultScript, Kind, ProcessFault, Until
from leasehold.checker.recovery.processes.rig import Rig
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.place import TOKEN, UnitDirectory
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.server import subscribers

SOME = (
    "kill/tenant/before-commit/12",
    "kill/site/before-call/handler.setup/2",
    "call/site/fsync/5",
    "clock/tenant/behind/grow",
)


@pytest.fixture
def base() -> Iterator[Path]:
    """The folder in which cases have theirs."""
    with tempfile.TemporaryDirectory(prefix="leasehold-") as folder:
        yield Path(folder)


def _units_of(base: Path) -> list[int]:
    """Processes of units of cases in a folder."""
    return [seen.pid for seen in processes.everyone() if not seen.gone and _home(seen.pid).startswith(str(base))]


def _home(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((word[5:].decode() for word in words if word.startswith(b"HOME=")), "")


@pytest.mark.long
@pytest.mark.parametrize("name", SOME)
def test_a_case(name: str) -> None:
    """It is met, and the leases come through."""
    (outcome,) = campaign(only=name, jobs=1).outcomes
    if outcome.skipped in ("strace is not installed", "faketime is not installed"):
        pytest.skip(outcome.skipped)
    assert outcome.passed, (outcome.skipped, outcome.findings)
    assert (outcome.name, outcome.end) == (name, "same")
    assert outcome.crashes == 1


def _place(rig: Rig, unit: str) -> UnitDirectory:
    return UnitDirectory(rig.fleet.folder / "units" / unit)


def _unit_dies(rig: Rig, fault: ProcessFault) -> FaultScript:
    """A unit's process is killed, which nobody may do."""
    yield Until.DUE
    unit = _place(rig, "unit-0").leader()
    assert unit is not None
    assert processes.send(unit, signal.SIGKILL)
    yield Until.MENDED
    return ""


def _leak(rig: Rig, fault: ProcessFault) -> FaultScript:
    """A process of a unit is left that nobody knows of."""
    yield Until.DUE
    token = _place(rig, "unit-1").token
    leaked = subprocess.Popen(["sleep", "60"], env={**os.environ, TOKEN: token}, start_new_session=True)
    rig.ends.callback(leaked.wait)
    rig.ends.callback(leaked.kill)
    yield Until.MENDED
    return ""


def _forgets(rig: Rig, fault: ProcessFault) -> FaultScript:
    """The store of a site is lost as it dies, and with it what it knew of its units."""
    yield Until.DUE
    rig.fleet.kill(SITE)
    for file in rig.fleet.folder.glob("site.db*"):
        if file.suffix != ".lock":
            file.unlink()
    yield Until.MENDED
    return ""


@pytest.mark.parametrize(
    ("kind", "step", "words"),
    [
        pytest.param(_unit_dies, "next", "tenant:1 is active with 1 unit, and 0 run", marks=pytest.mark.long),
        pytest.param(_leak, "renew", "unit-1 is 2 processes", marks=pytest.mark.long),
        pytest.param(_forgets, "grow", "grow is not done", marks=pytest.mark.slow),
    ],
)
def test_the_oracle_sees_what_is_wrong(
    kind: Kind, step: str, words: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit that dies, one that is left, and a site that forgets: each is found, and nothing is left."""
    monkeypatch.setattr("leasehold.checker.recovery.lease.processes.workload.LIMIT_SECONDS", 15.0)
    monkeypatch.setattr("leasehold.checker.recovery.lease.processes.workload.REST_SECONDS", 1.0)
    monkeypatch.setitem(faults.KINDS, "planted", kind)  # type: ignore[arg-type]
    outcome = play(ProcessCase("planted", (ProcessFault("planted", step=step),)), base, threading.Event())
    assert any(words in found.words for found in outcome.findings), outcome.findings
    assert not list(base.iterdir())
    assert not _units_of(base)


RUN = """
import runpy, sys
from tests.planted.table import named
name, *sys.argv[1:] = sys.argv[1:]
with named(name).planted():
    runpy.run_module("leasehold", run_name="__main__", alter_sys=True)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("received_numbers_not_saved", "comes back with another record than its last event has left"),
        ("duplicate_executed", "service_manager takes update_ticket with number 1, and has received 1 before"),
    ],
)
def test_events_show_what_nobody_sees_from_outside(
    mistake: str, words: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All actors have a mistake, and are killed; units and leases are as they have to be, and events are not."""

    def start(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-c", RUN, mistake, *arguments],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    monkeypatch.setattr(cases, "ForkedProcess", start)
    named = ProcessCase.named("all/grow")
    assert named is not None
    outcome = play(named, base, threading.Event())
    found = [finding.words for finding in outcome.findings]
    assert any(words in one for one in found), found
    assert all(re.search(r"^(verifier|conform): |^\w+ is violated in ", one) for one in found), found


@pytest.mark.long
def test_what_cannot_be_had_is_named(tmp_path: Path) -> None:
    """Each case that needs a program that is missing says so."""
    env = {**os.environ, "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "leasehold", "crash", "processes", "lease", "--json"]
    asked = [*command, "--only", "clock/site"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True, env=env)
    found = json.loads(done.stdout)
    assert found.keys() == {
        "system",
        "spec_digest",
        "cases",
        "passed",
        "failed",
        "skipped",
        "ends",
        "failures",
        "interrupted",
        "seconds",
    }
    hows = ("ahead", "ahead/grow", "behind", "behind/grow", "fast", "slow")
    names = [f"clock/site/{how}" for how in hows]
    assert [skip["name"] for skip in found["skipped"]] == names
    assert {skip["reason"] for skip in found["skipped"]} == {"faketime is not installed"}
    assert (found["cases"], found["passed"], found["failed"]) == (6, 0, 0)
    no = subprocess.run(
        [*command, "--only", "packets/site/randm"], capture_output=True, text=True, timeout=60, check=False
    )
    assert no.returncode == 2
    assert "did you mean packets/site/random?" in no.stderr


@pytest.mark.slow
def test_a_campaign_that_is_ended_leaves_nothing(base: Path) -> None:
    """SIGTERM amid a case: it reports, and processes and folders are gone."""
    command = [sys.executable, "-m", "leasehold", "crash", "processes", "lease", "--json", "--quick"]
    running = subprocess.Popen(
        [*command, "--jobs", "1"], env={**os.environ, "TMPDIR": str(base)}, stdout=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not _units_of(base) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _units_of(base)
    finally:
        for _ in range(3):  # once is enough, and more must not break off the cleaning
            running.terminate()
            time.sleep(0.2)
        said, _ = running.communicate(timeout=60)
    assert json.loads(said)["interrupted"]
    assert running.returncode == 130
    assert not list(base.iterdir())
    assert not _units_of(base)


@pytest.mark.long
def test_names() -> None:
    """Every name of the quick selection is of a case; a name that is none is answered with the nearest."""
    assert len(set(fixed_names())) == len(fixed_names())
    for name in (*QUICK, *fixed_names()):
        assert ProcessCase.named(name) is not None, name
    for no in (
        "kill/nobody/before-commit/1",
        "kill/site/before-commit/0",
        "kill/site/before-commit/1@oracle",
        "call/site/read/1",
    ):
        assert ProcessCase.named(no) is None
    with pytest.raises(UnknownCase, match="did you mean kill/site/after-commit/13"):
        campaign(quick=True, only="kill/site/after-comit/13")
    known = ReferenceRun()
    known.points[SITE] = Counter({"before-commit": 2, "before-send/update_lease": 1})
    known.calls[SITE] = Counter({"fsync": 2})
    names = known.names()
    assert len(names) == len(set(names))
    assert {
        "kill/site/before-commit/1",
        "kill/site/before-commit/2",
        "kill/site/before-send/update_lease/1",
        "kill/site/before-send/update_lease/1@nats",
        "call/site/fsync/1",
        "call/site/fsync/2",
    } < set(names)


TELL = """
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.server import subscribers
hear = subscribers.crash_subscriber()
assert hear is not None
for kind, name in ((Kind.COMMIT, ""), (Kind.SEND, "redeem"), (Kind.STOPPED, ""), (Kind.SEND, "close"),
                   (Kind.SEND, "redeem"), (Kind.COMMITTED, "")):
    print(kind.value, name, flush=True)
    hear(Notice(kind, "tenant", name=name))
"""


def _tell(asked: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", TELL],
        env={**os.environ, subscribers.VARIABLE: asked},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.long
def test_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Off where the variable is not set; else a point is counted, by kind and name."""
    monkeypatch.delenv(subscribers.VARIABLE, raising=False)
    assert subscribers.crash_subscriber() is None
    assert _tell(f"list:{tmp_path / 'points'}").returncode == 0
    passed = ["before-commit", "before-send/redeem", "before-send/close", "before-send/redeem", "after-commit"]
    assert (tmp_path / "points").read_text().splitlines() == passed
    died = _tell("kill:before-send/redeem/2")
    assert died.returncode == -signal.SIGKILL
    assert died.stdout.splitlines()[-1] == "send redeem"
    assert died.stdout.count("send redeem") == 2
    for wrong in ("kill:before-commit", "die:before-commit/1", "list:"):
        monkeypatch.setenv(subscribers.VARIABLE, wrong)
        with pytest.raises(ValueError, match="write list:FILE or kill:POINT/NUMBER"):
            subscribers.crash_subscriber()


@pytest.mark.slow
def test_the_quick_selection() -> None:
    """A case of every kind; one that cannot be played on a machine says why."""
    found = campaign(quick=True)
    assert not found.failures, [(outcome.name, outcome.findings) for outcome in found.failures]
    assert (found.played, found.interrupted) == (len(QUICK), False)
    assert found.passed + len(found.skipped) == found.played
    kills = [outcome for outcome in found.outcomes if outcome.name.startswith(("kill", "twice"))]
    assert all(outcome.passed for outcome in kills if "@" not in outcome.name)


@pytest.mark.slow
def test_every_case() -> None:
    """The campaign, by its command: at most half an hour."""
    command = [sys.executable, "-m", "leasehold", "crash", "processes", "lease", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] == 0
    assert found["passed"] > 100
    assert found["cases"] == found["passed"] + len(found["skipped"])
