"""A random run of processes: who is killed when, what is told to whom, and what an end is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.processes import chaos_run as module
from leasehold.checker.recovery.processes import faults, verifier
from leasehold.checker.recovery.processes.chaos_run import (
    LONGEST_DOWN_SECONDS,
    MOST_RUNS,
    REST_SECONDS,
    ChaosRun,
    ToldEvent,
)
from leasehold.checker.recovery.processes.faults import FaultRun, ProcessFault
from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.impl.lease.fleet import Fleet
from leasehold.impl.processes import supervisor
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.server.client import ClientError
from tests.waiting import wait_until

RUN = "coordinator:1"


class Told(SystemFleet):
    """A fleet that is configured, whose actors run as the test says.

    Attributes:
        abouts: what each says of itself; None: it does not answer.
        rows: the records of each, with its messages.
        codes: the exit code of each; None: it runs.
        done: whom it was told to kill and to start.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__("two_phase_commit", folder, {"participants": 2})
        self.prepare()
        self.abouts: dict[str, Any] = {
            name: {"running": True, "epoch": 1, "now": 7, "counts": {}} for name in self.roles
        }
        self.rows: list[dict[str, Any]] = []
        self.codes: dict[str, int | None] = dict.fromkeys(self.roles)
        self.processes = {name: SimpleNamespace(poll=partial(self.codes.get, name)) for name in self.roles}  # type: ignore[misc]
        self.done: list[Any] = []

    def kill(self, name: str) -> None:
        self.done.append(("kill", name))
        self.codes[name] = -9

    def start(self, name: str) -> None:
        self.done.append(("start", name))
        self.codes[name] = None

    def last_words(self, name: str) -> str:
        return "its last words"

    def about(self, name: str) -> Any:
        return self.abouts[name]

    def client(self, name: str) -> Any:
        def post(*place: str, **given: object) -> Any:
            raise ClientError("it takes nothing")

        return SimpleNamespace(get=lambda place, run: self.rows if name == "coordinator" else [], post=post)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time of chaos runs; sleeping lets it pass."""
    made = SimpleNamespace(now=0.0)
    made.monotonic = lambda: made.now
    made.sleep = lambda seconds: setattr(made, "now", made.now + seconds)
    for timed in (module, faults, supervisor, verifier):
        monkeypatch.setattr(timed, "time", made)
    return made


@pytest.fixture
def fleet(tmp_path: Path, clock: SimpleNamespace) -> Told:
    return Told(tmp_path / "fleet")


# Kills, and what follows from them


def driven(fleet: Told, *kills: ProcessFault) -> ChaosRun:
    """A chaos run, with its kills or with these."""
    chaos = ChaosRun(fleet, 1, 10.0)
    if kills:
        chaos.kills = FaultRun(chaos.kills.rig, kills)
    chaos.kills.start()
    chaos._began = 0.0
    return chaos


def test_each_actor_is_killed_within_the_chaos_phase(fleet: Told) -> None:
    chaos = driven(fleet)
    for seed in range(20):
        chaos.chance.seed(seed)
        script = chaos._script()
        assert {(fault.kind, fault.target) for fault in script} == {("kill", name) for name in fleet.roles}
        assert len(script) <= 2 * len(fleet.roles)
        assert all(0.5 <= fault.after <= 9.0 and 0.0 <= fault.lasts <= LONGEST_DOWN_SECONDS for fault in script)


def test_who_is_killed_is_down_for_a_while_and_then_has_to_serve_again(fleet: Told, clock: SimpleNamespace) -> None:
    """Once, while it is down."""
    chaos = driven(fleet, *(ProcessFault("kill", "coordinator", after=at, lasts=1.0) for at in (1.0, 1.1)))
    chaos._attend()
    assert fleet.done == []
    clock.now = 1.2
    chaos._attend()
    assert (fleet.done, chaos.result.crashes["coordinator"]) == ([("kill", "coordinator")], 1)
    assert not chaos._all_serve
    fleet.abouts["coordinator"] = None
    clock.now = 2.1
    chaos._attend()
    assert len(fleet.done) == 1
    clock.now = 2.2
    chaos._attend()
    assert fleet.done[1:] == [("start", "coordinator")]
    assert not chaos._all_serve
    fleet.abouts["coordinator"] = {"running": True, "epoch": 2, "now": 7, "counts": {}}
    chaos._attend()
    assert (chaos._all_serve, chaos.result.crashes["coordinator"], chaos.result.violations) == (True, 1, [])


@pytest.mark.parametrize("about", [None, {"running": False, "epoch": 2, "now": 7, "counts": {}}])
def test_who_does_not_come_back_is_a_violation(about: Any, fleet: Told, clock: SimpleNamespace) -> None:
    chaos = driven(fleet, ProcessFault("kill", "coordinator"))
    fleet.abouts["coordinator"] = about
    chaos._attend()
    clock.now = 60.0
    chaos._attend()
    assert (chaos.result.violations, chaos._all_serve) == ([], False)
    clock.now = 60.1
    for _ in range(2):
        chaos._attend()
    assert chaos.result.violations == ["coordinator does not serve 60 s after its restart"]
    assert chaos._all_serve, "nobody waits for it any more"


def test_who_ends_by_itself_is_a_violation_once(fleet: Told) -> None:
    chaos = driven(fleet)
    chaos.kills.cancel()
    fleet.codes["coordinator"] = 1
    chaos._attend()
    chaos._attend()
    assert chaos.result.violations == ["coordinator has ended by itself with exit code 1: its last words"]
    assert sum(chaos.result.crashes.values()) == 0


def test_errors_of_actors_are_violations_also_of_those_that_have_died_since(
    fleet: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *_ = fleet.roles
    chaos = ChaosRun(fleet, 1, 0.0)
    chaos.kills.cancel()
    fleet.abouts[first]["counts"]["errors"] = 2
    chaos._look()
    fleet.abouts[first]["counts"]["errors"] = 0
    fleet.abouts[second] = None
    monkeypatch.setattr(chaos, "_settle", chaos._look)
    assert f"{first} has met 2 errors, which its log has" in chaos.play().violations


# The end


def test_an_end_is_where_nothing_comes_any_more(fleet: Told, clock: SimpleNamespace) -> None:
    chaos = driven(fleet)
    chaos._settle()
    assert chaos.result.at_rest
    assert REST_SECONDS < clock.now < REST_SECONDS + 1


def test_what_never_rests_is_given_up_and_who_was_not_heard_is_said(
    fleet: Told, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 9.0)
    said = {"message": "prepare", "to": "participant-0", "taken": False, "times": 3, "reason": "nobody is at x"}
    others = [{**said, "taken": True}, {**said, "times": 0}]
    fleet.rows = [{"machine": "coordinator", "messages": [said, *others, {**said, "to": ""}]}]
    chaos = driven(fleet)
    chaos._known = {RUN}
    chaos._settle()
    assert not chaos.result.at_rest
    assert clock.now >= 9.0
    assert chaos.result.violations == [
        f"coordinator of {RUN} cannot say prepare to {who}: nobody is at x" for who in ("participant-0", "anybody")
    ]


# Real actors


@pytest.fixture
def running(tmp_path: Path) -> Iterator[SystemFleet]:
    with SystemFleet("two_phase_commit", tmp_path / "fleet", {"participants": 1}, 0.2) as fleet:
        yield fleet


@pytest.mark.long
def test_what_the_environment_may_do_is_told(running: SystemFleet) -> None:
    """It begins runs, as long as few go on; an actor that is down is told nothing."""
    chaos = ChaosRun(running, 1)
    chaos._look()
    begin = ToldEvent("", "coordinator", "begin", {})
    assert list(chaos._possible(surely=False)) == [begin]
    assert list(chaos._possible(surely=True)) == []
    assert chaos._tell(begin)
    assert (chaos._known, chaos.result.events) == ({RUN}, 1)

    def offered() -> set[tuple[str, str, str]]:
        chaos._look()
        return {event[:3] for event in chaos._possible(surely=False)}

    votes = {(RUN, "participant[0]", "able"), (RUN, "participant[0]", "unable")}
    wait_until(lambda: votes < offered(), 20.0)
    state = chaos._state(chaos._rows()[RUN])
    assert [state[cell] for cell in chaos.world.up.values()] == [UP, UP]
    for _ in range(MOST_RUNS - 1):
        assert chaos._tell(begin)
    wait_until(lambda: begin[:3] not in offered(), 20.0)

    chaos.supervisor.held.add("coordinator")
    running.kill("coordinator")
    chaos._attend()
    assert {machine for _, machine, _ in offered()} == {"participant[0]"}
    state = chaos._state(chaos._rows()[RUN])
    assert [state[cell] for cell in chaos.world.up.values()] == [DOWN, UP]
    chaos.verifier.end()
    assert chaos.verifier.complaints == []


@pytest.mark.long
def test_a_run_that_waits_breaks_nothing_until_nothing_can_happen_any_more(running: SystemFleet) -> None:
    """The stores of actors that have stopped are read."""
    running.client("coordinator").post("begin", machine="coordinator", event="begin")
    wait_until(lambda: bool(running.questions()), 20.0)
    running.stop()
    found = {}
    for complete in (False, True):
        judge = FleetVerifier(running)
        judge.judge_all(complete)
        found[complete] = {violation.of for violation in judge.result.violations}
        assert (judge.result.faults, judge.findings, judge.missing) == ([], [], [])
        assert judge.summary()["events"] > 3
    assert found[False] == set()
    assert {"a_transaction_ends", "deadlock_free"} <= found[True]


def test_what_cannot_be_read_is_said(fleet: Told) -> None:
    """Nobody has ever run, so there is neither an actor nor a store."""
    judge = FleetVerifier(fleet)
    judge.judge_all()
    assert len(judge.complaints) == len(judge.missing) == len(fleet.roles)


def test_where_clocks_are_off_nothing_is_asked_that_speaks_of_time(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.prepare()
    right, off = (set(FleetVerifier(fleet, clocks=clocks).verification.asked) for clocks in (True, False))
    assert {"guests_have_their_time", "handlers_have_their_time"} <= right - off
    assert "a_broker_counts_what_it_has_promised" in off
