"""Units that are lost: what the judge takes for which end of a loss, and that each mistake is a violation."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from leasehold.checker.recovery.lease.processes import losses
from leasehold.checker.recovery.lease.processes.losses import LET_GO, REPAIRED, REPLACED, Loss, Losses
from leasehold.checker.recovery.lease.processes.oracle import Observation, Oracle
from leasehold.cli.lease import demo as demos
from leasehold.cli.lease.demo import demo
from leasehold.impl.handlers import processes
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.processes.fleet import SystemFleet
from tests.checker.recovery.lease.processes.test_outside import unit as started_in
from tests.cli.test_json import reference

A = "tenant:1"
OLD, NEW = (100, 7), (101, 9)


class Seen:
    """An observation of one lease, as the test says: its units 0 and 1, of four that the site has."""

    def __init__(self) -> None:
        self.tenant: dict[str, Any] = {"state": "active", "over": False}
        self.site: dict[str, Any] = {"state": "active", "over": False}
        self.known: dict[str, Any] = {"lease_units": [0, 1], "lease_lost": [], "ticket_units": 2, "lease_end": 50}
        self.known["unit_properties"] = [{"pid": OLD[0]}, {"pid": 200}, 0, 0]
        self.granted: dict[str, Any] = {"assigned": [0, 1], "replaced": 0, "end": 50}
        self.running: dict[int, tuple[int, int]] = {1: (200, 7)}
        self.others: list[int] = []
        self.answers = True

    def observed(self, now: int = 5) -> Observation:
        seen = Observation(now)
        seen.leases[TENANT] = {A: {**self.tenant, "data": self.known}}
        rows = {A: {**self.site, "data": self.granted}}
        rows |= {f"tenant:{n + 2}": {**self.site, "data": {"assigned": [n]}} for n in self.others}
        seen.leases[SITE] = rows if self.answers else None
        seen.leases[BROKER] = {}
        seen.units = {f"unit-{n}": {"pid": p, "start": s, "lease": A} for n, (p, s) in self.running.items()}
        return seen

    def told(self, lost: bool = True) -> None:
        self.known["lease_lost"] = [0] if lost else []

    def repair(self) -> None:
        self.running[0] = NEW

    def replace(self) -> None:
        self.granted["assigned"] = [1, 2]
        self.running[2] = (300, 9)
        self.known["lease_units"] = [1, 2]

    def drop(self, replaced: int = 0) -> None:
        self.granted.update(assigned=[1], replaced=replaced)
        self.known["lease_units"] = [1]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def judge(tmp_path: Path) -> Losses:
    fleet: Any = SimpleNamespace(units=4, folder=tmp_path, unit_places=list)
    made = Losses(Oracle(fleet), 1, within=10.0)
    made.losses = [Loss("unit-0", A, OLD, set(), {"unit-0", "unit-1"})]
    return made


def counts(judge: Losses) -> tuple[int, int, int, int]:
    found = judge.summary()
    return found["repaired"], found["replaced"], found["let_go"], found["told"]


@pytest.mark.parametrize(
    ("becomes", "outcome", "count"),
    [
        (lambda seen: seen.repair(), REPAIRED, (1, 0, 0, 1)),
        (lambda seen: seen.replace(), REPLACED, (0, 1, 0, 1)),
        (lambda seen: seen.drop(replaced=2), LET_GO, (0, 0, 1, 0)),
        (lambda seen: (seen.drop(), seen.known.update(ticket_units=1)), LET_GO, (0, 0, 1, 0)),
        (lambda seen: (seen.drop(), seen.others.extend([0, 2, 3])), LET_GO, (0, 0, 1, 0)),
        (lambda seen: seen.tenant.update(over=True), LET_GO, (0, 0, 1, 0)),
        (lambda seen: seen.site.update(over=True), LET_GO, (0, 0, 1, 0)),
        (lambda seen: seen.granted.update(end=5), LET_GO, (0, 0, 1, 0)),
    ],
    ids=["repaired", "replaced", "replaced often enough", "a shrink", "no room", "over", "over at its site", "expired"],
)
def test_what_becomes_of_a_loss(
    judge: Losses, seen: Seen, becomes: Callable[[Seen], object], outcome: str, count: tuple[int, ...]
) -> None:
    judge.judge(seen.observed(), 1.0)
    (loss,) = judge.losses
    assert (loss.outcome, loss.told) == ("", False)
    seen.told()
    judge.judge(seen.observed(), 1.0)
    becomes(seen)
    judge.judge(seen.observed(), 1.0)
    assert (loss.outcome, loss.open, loss.waited) == (outcome, False, 3.0)
    judge.judge(seen.observed(), 60.0)
    assert (counts(judge), loss.waited, judge.oracle.violations) == (count, 3.0, [])
    assert judge.summary()["worst_seconds"] == (0.0 if outcome == LET_GO else 3.0)


LOST = "unit-0 of tenant:1 (process 100) was lost, and "


@pytest.mark.parametrize(
    ("is_so", "says"),
    [
        (lambda seen: seen.told(), "it is neither repaired nor replaced"),
        (lambda seen: seen.repair(), "its holder was not told"),
        (lambda seen: (seen.told(), seen.drop()), "it is neither repaired nor replaced"),
        (lambda seen: (seen.told(), seen.drop(replaced=1)), "it is neither repaired nor replaced"),
        (lambda seen: (seen.told(), seen.running.update({0: OLD})), "it is neither repaired nor replaced"),
        (lambda seen: (seen.told(), seen.replace(), seen.running.pop(2)), "it is neither repaired nor replaced"),
    ],
    ids=[
        "nothing is done",
        "not told",
        "dropped",
        "dropped too soon",
        "the same process",
        "a replacement that is down",
    ],
)
def test_what_is_not_mended_in_time_is_a_violation(
    judge: Losses, seen: Seen, is_so: Callable[[Seen], object], says: str
) -> None:
    is_so(seen)
    for _ in range(4):
        judge.judge(seen.observed(), 2.5)
    assert judge.oracle.violations == []
    judge.judge(seen.observed(), 0.1)
    assert judge.oracle.violations == [f"{LOST}{says} within 10 s"]
    assert not judge.losses[0].open


def test_time_in_which_an_actor_is_down_does_not_count(judge: Losses, seen: Seen) -> None:
    seen.told()
    seen.answers = False
    for _ in range(9):
        judge.judge(seen.observed(), 0.0)
    assert judge.losses[0].open
    assert judge.oracle.violations == []


def test_a_unit_replaces_one_other(judge: Losses, seen: Seen) -> None:
    judge.losses.append(Loss("unit-1", A, (200, 7), set(), {"unit-0", "unit-1"}))
    del seen.running[1]
    seen.replace()
    seen.granted["assigned"] = [2]
    seen.known["lease_units"] = [2]
    for _ in range(2):
        judge.judge(seen.observed(), 1.0)
    assert counts(judge) == (0, 1, 0, 1)
    assert sum(loss.open for loss in judge.losses) == 1
    seen.granted["assigned"], seen.known["lease_units"], seen.running[3] = [2, 3], [2, 3], (301, 9)
    judge.judge(seen.observed(), 1.0)
    assert counts(judge) == (0, 2, 0, 2)


@pytest.mark.parametrize(
    "tells",
    [
        lambda seen: seen.known.update(lease_units=[1]),
        lambda seen: seen.known["unit_properties"].__setitem__(0, {"pid": NEW[0]}),
        lambda seen: seen.tenant.update(over=True),
    ],
    ids=["it has the unit no more", "another process", "over"],
)
def test_how_a_holder_is_told(judge: Losses, seen: Seen, tells: Callable[[Seen], object]) -> None:
    tells(seen)
    judge.judge(seen.observed(), 1.0)
    assert judge.losses[0].told


@pytest.fixture
def stray(tmp_path: Path) -> Iterator[processes.ProcessSnapshot]:
    """A process that works in the folder of unit-0."""
    work = tmp_path / "units" / "unit-0" / "work"
    work.mkdir(parents=True)
    process = subprocess.Popen(["sleep", "60"], cwd=work)
    try:
        found = processes.look(process.pid)
        assert found is not None
        yield found
    finally:
        process.kill()
        process.wait()


def test_what_is_left_of_a_unit_is_a_leak(judge: Losses, seen: Seen, stray: processes.ProcessSnapshot) -> None:
    judge.losses[0].left.add((stray.pid, stray.start))
    seen.told()
    seen.repair()
    judge.judge(seen.observed(), 1.0)
    assert judge.leaked == 1
    assert judge.oracle.violations == [f"process {stray.pid} of unit-0 is left from {A}"]


@pytest.mark.parametrize("has", [True, False])
def test_at_the_end_only_units_of_leases_run(
    judge: Losses, seen: Seen, stray: processes.ProcessSnapshot, has: bool
) -> None:
    judge.fleet.unit_places = lambda: [SimpleNamespace(folder=Path("unit-0"))]  # type: ignore[assignment]
    seen.granted["assigned"] = [0] if has else [1]
    judge.oracle.last = seen.observed()
    judge.at_the_end()
    words = [f"process {stray.pid} of unit-0 is left, and no lease has that unit"]
    assert (judge.leaked, judge.oracle.violations) == ((0, []) if has else (1, words))


def test_nothing_runs_on_a_unit_that_has_died(tmp_path: Path) -> None:
    """Guests of the lease that had it end, also where another has it now; others, and those that join anew, go on."""
    births = {0: (A, OLD), 1: (A, NEW), 2: ("tenant:2", NEW)}  # still as it was lost, up again, another's
    for number, (lease, (pid, start)) in births.items():
        (tmp_path / f"units/unit-{number}").mkdir(parents=True)
        born = {"lease": lease, "pid": pid, "start": start}
        (tmp_path / f"units/unit-{number}/process.json").write_text(json.dumps(born))
    fleet: Any = SimpleNamespace(folder=tmp_path, units=4)
    oracle = Oracle(fleet)
    oracle.last = Seen().observed()
    made = Losses(oracle, seed=0, within=60.0)
    places = [(n, lease) for n in births for lease in (A, "tenant:2")]
    guests = {(n, lease): started_in(tmp_path, f"unit-{n}", lease, guest=True) for n, lease in places}
    try:
        made.losses = [Loss(f"unit-{n}", A, OLD, set(), set()) for n in births]
        made.step(able=False)
        ended = {of for of, guest in guests.items() if of in {(0, A), (2, A)} and guest.wait(10) == -signal.SIGKILL}
        assert ended == {(0, A), (2, A)}
        assert all(guest.poll() is None for of, guest in guests.items() if of not in ended)
        assert {loss.waited for loss in made.losses} == {0.0}
    finally:
        for guest in guests.values():
            guest.kill()
            guest.communicate()


# The demo


def run(*words: str) -> dict[str, Any]:
    """Returns what the demo says in JSON, in this process; its actors are processes of their own."""
    ended = CliRunner().invoke(demo, ["--json", *words])
    found: dict[str, Any] = json.loads(ended.stdout)
    assert ended.exit_code == (1 if found["violations"] else 0)
    return found


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of the demo end sooner."""
    monkeypatch.setattr("leasehold.cli.lease.demo.LASTING_TERMS", (10, 12))


@pytest.mark.long
@pytest.mark.usefixtures("brief")
def test_units_that_die_are_repaired_or_replaced_and_their_holders_are_told() -> None:
    found = run("--lose-units", "--leases", "3", "--seed", "8")
    assert found.keys() == {**reference.DEMO_KEYS, **reference.LOSSES_KEYS}.keys()
    assert found["violations"] == []
    assert found["lost"] >= 10
    assert found["lost"] == found["repaired"] + found["replaced"] + found["let_go"]
    assert found["told"] == found["repaired"] + found["replaced"] > 0
    assert 0 < found["worst_seconds"] <= 15
    assert found["leaked"] == 0


@pytest.mark.long
@pytest.mark.usefixtures("brief")
def test_a_host_that_reboots_floods_nobody() -> None:
    found = run("--reboot", "--seed", "4", "--leases", "8", "--units", "12")
    assert found["violations"] == []
    assert found["lost"] >= 8
    assert found["told"] == found["repaired"] + found["replaced"] > 0
    assert 1 <= found["starts_at_once"] <= demos.STARTS


@pytest.mark.long
@pytest.mark.usefixtures("brief")
def test_the_demo_finds_that_nobody_looks_for_units_that_have_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(demos.PROBING, "every_seconds", 3600)
    found = run("--lose-units", "--leases", "1", "--seed", "8", "--within", "4")
    assert any("it is neither repaired nor replaced within 4 s" in words for words in found["violations"])


@pytest.mark.long
@pytest.mark.usefixtures("brief")
def test_the_demo_finds_what_is_left_of_a_unit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second process of a unit leaves its session, its environment and its lock, so its handler cannot find it."""
    gone = "os.setsid(), os.closerange(0, 256), os.execve('/bin/sleep', ['sleep', '600'], dict())"
    escape = f"import os; os.fork() or ({gone})"
    command = (sys.executable, "-c", f"{escape}; os.execvp('sleep', ['sleep', 'infinity'])")
    monkeypatch.setattr(demos, "UNIT", command)
    folder = tmp_path / "demo"
    try:
        found = run("--lose-units", "--leases", "1", "--seed", "8", "--dir", str(folder))
    finally:
        for seen in processes.everyone():
            if losses._directory(seen.pid).startswith(str(folder)):
                processes.send(seen, signal.SIGKILL)
    assert found["leaked"] > 0
    assert any("is left" in words for words in found["violations"])


@pytest.mark.long
@pytest.mark.usefixtures("brief")
def test_the_demo_finds_that_too_many_units_are_started_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def config(fleet: SystemFleet, name: str, listen: Any) -> dict[str, Any]:
        return {**real(fleet, name, listen), "handling": {"at_once": 64}}

    real = SystemFleet._config
    monkeypatch.setattr(SystemFleet, "_config", config)
    monkeypatch.setattr(demos, "STARTS", 2)
    found = run("--reboot", "--seed", "4", "--leases", "6", "--units", "12")
    assert any("units were being started at once, and 2 are the most" in words for words in found["violations"])
    assert found["starts_at_once"] > 2
