"""States of processes are judged where all actors had them at one moment; errors that actors count are violations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.processes import chaos_run as module
from leasehold.checker.recovery.processes import faults, snapshot
from leasehold.checker.recovery.processes.chaos_run import (
    LONGEST_DOWN_SECONDS,
    MOST_RUNS,
    REST_SECONDS,
    SETTLE_SECONDS,
    ChaosRun,
)
from leasehold.checker.recovery.processes.faults import FaultRun, ProcessFault
from leasehold.checker.recovery.processes.snapshot import Snapshots
from leasehold.checker.recovery.properties import RunProperties
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.processes import supervisor
from leasehold.impl.server.client import ClientError
from tests.systems import load

MODEL = load("two_phase_commit", {"participants": 2})
PROGRAM = compile_system(MODEL)
RUN = "coordinator:1"


class Told:
    """A fleet whose actors say what the test gives.

    Attributes:
        abouts: what each says of itself; None: it does not answer.
        rows: the records of each.
        asked: is called whenever an actor is asked for its records.
    """

    def __init__(self) -> None:
        self.model, self.program, self.players = MODEL, PROGRAM, dict(PROGRAM.players)
        self.roles = PROGRAM.roles_of(self.players)
        self.abouts: dict[str, Any] = {
            name: {"running": True, "epoch": 1, "now": 7, "counts": {"commits": 3}} for name in self.roles
        }
        machines = {machine: PROGRAM.machines[machine] for machine in self.players}
        self.rows = {
            player: [{"lease": RUN, "machine": machine, "state": core.first_state(n), "data": {}}]
            for machine, player in self.players.items()
            for core, n in (machines[machine],)
        }
        self.asked: Callable[[str], object] = lambda name: None
        self.folder = Path("/nowhere")
        self.listens: dict[str, Any] = {}
        self.addresses: dict[str, str] = {}
        self.codes: dict[str, int | None] = dict.fromkeys(self.roles)
        self.processes = {name: SimpleNamespace(poll=partial(self.codes.get, name)) for name in self.roles}
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

    def only_answers(self, roles: Any) -> list[str]:
        return []

    def client(self, name: str) -> Any:
        def get(place: str, run: str = RUN) -> Any:
            self.asked(name)
            if self.abouts[name] is None:
                raise ClientError("nobody answers")
            return self.rows[name]

        return SimpleNamespace(get=get)


def looked(fleet: Told) -> bool:
    return Snapshots(fleet, RunProperties(MODEL)).look()  # type: ignore[arg-type]


def test_where_nothing_moves_the_records_are_of_one_moment() -> None:
    assert looked(Told())


@pytest.mark.parametrize("moves", ["a commit", "a restart", "an end", "a stop", "the clock"])
def test_records_that_may_be_of_two_moments_are_no_state(moves: str) -> None:
    """An actor moves after it was asked for its records, while others are still asked for theirs."""
    fleet = Told()
    first, *_, last = fleet.roles

    def asked(name: str) -> None:
        about = fleet.abouts[first]
        if name != last or about is None:
            return
        match moves:
            case "a commit":
                about["counts"]["commits"] += 1
            case "a restart":
                about["epoch"] += 1
            case "an end":
                fleet.abouts[first] = None
            case "a stop":
                about["running"] = False
            case _:
                about["now"] += 1

    fleet.asked = asked
    assert looked(fleet) == (moves == "the clock" and MODEL.clock is None)


@pytest.mark.parametrize("about", [None, {"running": False, "epoch": 1, "now": 7, "counts": {}}])
def test_without_an_actor_there_is_no_state(about: Any) -> None:
    fleet = Told()
    fleet.abouts[next(iter(fleet.roles))] = about
    assert not looked(fleet)


def test_errors_of_actors_are_violations_also_of_those_that_have_died_since() -> None:
    fleet = Told()
    first, second, *_ = fleet.roles
    chaos = ChaosRun(fleet, 1, 0.0)  # type: ignore[arg-type]
    chaos.kills.cancel()
    fleet.abouts[first]["counts"]["errors"] = 2
    chaos.seen.look()
    fleet.abouts[first]["counts"]["errors"] = 0
    fleet.abouts[second] = None
    chaos._settle = chaos.seen.look  # type: ignore[method-assign, assignment]
    assert chaos.play().violations == [f"{first} has met 2 errors, which its log has"]


# What is known of a run


def test_a_state_has_the_records_of_a_run_and_who_is_up() -> None:
    fleet = Told()
    seen = Snapshots(fleet, RunProperties(MODEL))  # type: ignore[arg-type]
    seen.look()
    assert seen.broken(RUN) == []
    up = [seen.state(RUN)[cell] for cell in seen.properties.world.up.values()]
    assert set(up) == {UP}
    fleet.rows["participant-0"][0]["state"] = "committed"
    fleet.rows["participant-1"][0]["state"] = "aborted"
    fleet.abouts["coordinator"] = None
    seen.look()
    assert seen.broken(RUN) == ["agreement", "commit_needs_all"]
    assert seen.broken("coordinator:2") == [], "another run"
    assert [seen.state(RUN)[cell] for cell in seen.properties.world.up.values()].count(DOWN) == 1
    assert seen.described(RUN) == "coordinator idle, participant[0] committed, participant[1] aborted"


def test_how_long_nothing_has_been_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, clock = Told(), SimpleNamespace(monotonic=lambda: clock.now, now=100.0)
    monkeypatch.setattr(snapshot, "time", clock)
    seen = Snapshots(fleet, RunProperties(MODEL))  # type: ignore[arg-type]
    seen.look()
    clock.now = 105.0
    seen.look()
    assert seen.still_seconds == 5.0
    fleet.abouts["coordinator"]["counts"]["commits"] += 1
    seen.look()
    assert seen.still_seconds == 0.0


def test_messages_that_nobody_takes_are_said() -> None:
    fleet = Told()
    message = {"message": "prepare", "to": "participant-0", "taken": False, "times": 3, "reason": "nobody is at x"}
    others = [{**message, "taken": True}, {**message, "times": 0}]
    for name, rows in fleet.rows.items():
        rows[0]["messages"] = [message, *others] if name == "coordinator" else []
    seen = Snapshots(fleet, RunProperties(MODEL))  # type: ignore[arg-type]
    seen.look()
    assert seen.untaken([RUN]) == [f"coordinator of {RUN} cannot say prepare to participant-0: nobody is at x"]
    message["to"] = ""
    assert "to anybody" in seen.untaken([RUN])[0]


# Kills, and what follows from them


def driven(seconds: float = 10.0, seed: int = 1, *kills: ProcessFault) -> tuple[Told, ChaosRun]:
    """A chaos run, with its kills or with these."""
    told = Told()
    chaos = ChaosRun(told, seed, seconds)  # type: ignore[arg-type]
    if kills:
        chaos.kills = FaultRun(chaos.kills.rig, kills)
    chaos.kills.start()
    chaos._began = 0.0
    return told, chaos


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time of chaos runs; sleeping lets it pass."""
    made = SimpleNamespace(now=0.0)
    made.monotonic = lambda: made.now
    made.sleep = lambda seconds: setattr(made, "now", made.now + seconds)
    for timed in (module, faults, supervisor):
        monkeypatch.setattr(timed, "time", made)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_each_actor_is_killed_within_the_chaos_phase(seed: int) -> None:
    fleet, chaos = driven(seed=seed)
    script = chaos._script()
    assert {(fault.kind, fault.target) for fault in script} == {("kill", name) for name in fleet.roles}
    assert len(script) <= 2 * len(fleet.roles)
    assert all(0.5 <= fault.after <= 9.0 and 0.0 <= fault.lasts <= LONGEST_DOWN_SECONDS for fault in script)


def test_who_is_killed_is_down_for_a_while_and_then_has_to_serve_again(clock: SimpleNamespace) -> None:
    """Once, while it is down."""
    kills = (ProcessFault("kill", "coordinator", after=at, lasts=1.0) for at in (1.0, 1.1))
    fleet, chaos = driven(10.0, 1, *kills)
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
def test_who_does_not_come_back_is_a_violation(about: Any, clock: SimpleNamespace) -> None:
    fleet, chaos = driven(10.0, 1, ProcessFault("kill", "coordinator"))
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


def test_who_ends_by_itself_is_a_violation_once() -> None:
    fleet, chaos = driven()
    chaos.kills.cancel()
    fleet.codes["coordinator"] = 1
    chaos._attend()
    chaos._attend()
    assert chaos.result.violations == ["coordinator has ended by itself with exit code 1: its last words"]
    assert sum(chaos.result.crashes.values()) == 0


# Events, and the end


def test_what_the_environment_may_do_is_told() -> None:
    """It begins runs, as long as few go on; nothing is told of an actor that does not answer."""
    fleet, chaos = driven()
    fleet.rows = {name: [] for name in fleet.roles}
    chaos.seen.look()
    (begin,) = chaos._possible(surely=False)
    assert begin[:3] == ("", "coordinator", "begin")
    assert list(chaos._possible(surely=True)) == []
    posted: list[Any] = []
    fleet.client = lambda name: SimpleNamespace(  # type: ignore[method-assign, assignment]
        post=lambda *where, **what: posted.append((name, *where, what)) or {"lease": RUN}
    )
    assert chaos._tell(begin)
    assert posted == [("coordinator", "begin", {"machine": "coordinator", "event": "begin", "fields": {}})]
    assert (chaos._known, chaos.result.events) == ({RUN}, 1)
    chaos._known = {f"coordinator:{n}" for n in range(MOST_RUNS)}
    chaos.seen.rows = {run: {"coordinator": {"state": "asking", "over": False, "data": {}}} for run in chaos._known}
    assert "" not in {event.run for event in chaos._possible(surely=False)}
    del chaos.seen.marks["coordinator"]
    assert not any(event.machine == "coordinator" for event in chaos._possible(surely=False))


def test_where_nothing_moves_what_waits_waits_for_ever(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, chaos = driven()
    monkeypatch.setattr(snapshot, "time", clock)
    chaos._known = {RUN}
    for rows in fleet.rows.values():
        rows[0] |= {"messages": [], "over": False}
    fleet.rows["participant-0"][0]["state"] = "prepared"
    chaos._step = lambda surely: bool(chaos.seen.look()) and False  # type: ignore[method-assign]
    chaos._tell = lambda event: True  # type: ignore[method-assign]
    chaos._settle()
    assert chaos.result.at_rest
    assert REST_SECONDS < clock.now < 2 * REST_SECONDS + 1
    where = "coordinator idle, participant[0] prepared, participant[1] working"
    assert chaos.result.violations == [
        *(
            f"{name} waits for what it leads to, and nothing moves any more, of {RUN}: {where}"
            for name in ("prepared_ends", "prepared_ends_beside_a_coordinator")
        ),
        f"none of the system's ends holds, and nothing moves any more, of {RUN}: {where}",
    ]


def test_what_never_rests_is_given_up_and_who_was_not_heard_is_said(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, chaos = driven()
    monkeypatch.setattr(snapshot, "time", clock)
    message = {"message": "prepare", "to": "participant-0", "taken": False, "times": 3, "reason": "nobody is at x"}
    for rows in fleet.rows.values():
        rows[0] |= {"messages": [message], "over": False}
    chaos._known = {RUN}
    chaos._step = lambda surely: bool(chaos.seen.look()) and False  # type: ignore[method-assign]
    chaos._tell = lambda event: True  # type: ignore[method-assign]
    chaos._settle()
    assert not chaos.result.at_rest
    assert clock.now >= SETTLE_SECONDS
    assert chaos.result.violations[0] == f"coordinator of {RUN} cannot say prepare to participant-0: nobody is at x"


def test_a_property_that_does_not_hold_is_said_once() -> None:
    fleet, chaos = driven()
    fleet.rows["participant-0"][0]["state"] = "committed"
    chaos._known = {RUN}
    chaos.seen.look()
    chaos._judge()
    chaos._judge()
    assert chaos.result.states == 2
    assert [words.partition(" of ")[0] for words in chaos.result.violations] == ["commit_needs_all does not hold"]
