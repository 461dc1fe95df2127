"""Subsidiary machines that belong to a run: two runs with equal numbers do not disturb each other, whatever crashes.

The system `lodge` has both kinds: the guests of a visit are its own, the hall is the same for all visits.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from leasehold.checker.explore import explore
from leasehold.checker.recovery.cases.campaign import campaign
from leasehold.checker.recovery.conformance import StepConformance
from leasehold.checker.recovery.events import CommittedEvents
from leasehold.checker.recovery.monitor import DurabilityMonitor, PropertyMonitor
from leasehold.checker.recovery.progress import owed
from leasehold.checker.recovery.properties import RunProperties
from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.actor.table import BELOW
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import Done, HandlerAction, NullHandler
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.notices import Consumed, Kind, Notice, SimulatedCrash
from leasehold.impl.observe.calls import CallTracker, Result
from leasehold.impl.observe.metrics import Metrics
from leasehold.impl.observe.traces import Traces
from leasehold.impl.observe.watchdog import Watchdog
from leasehold.impl.policy.policy import Lease
from leasehold.impl.server.views import Views
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, RecordKey
from leasehold.spec import load
from tests.impl.compiler.twin import walk
from tests.impl.policies import IdlePolicy

FOLDER = Path(__file__).parent / "lodge"
SYSTEM = load(FOLDER, {"limit": 3})
PROGRAM = compile_system(SYSTEM)
VERBS = ("enter", "leave", "tidy")
FIRST, SECOND = "home:1", "home:2"
VISITS = {FIRST: [0, 1], SECOND: [0]}


def test_the_explorer_and_the_core_know_one_run() -> None:
    system = load(FOLDER)
    found, (run,) = explore(system), system.expectations
    assert (found.distinct, found.generated, found.depth) == tuple(
        run.numbers[name] for name in ("distinct", "generated", "depth")
    )
    assert not [p.name for p in found.properties if p.verdict == "violated"]
    assert walk(system, "").seen["taken"] > 100


def test_the_compiled_program_knows_to_what_machines_belong() -> None:
    roles = PROGRAM.roles
    assert {name: (core.subsidiary, core.of_run, core.of_actor) for name, core in roles.items()} == {
        "visitor": (False, False, False),
        "host": (False, False, False),
        "guest": (True, True, False),
        "hall": (True, False, True),
    }


def test_a_subsidiary_machine_is_played_along_with_what_drives_it() -> None:
    declared = [PROGRAM.player_of(machine, PROGRAM.players) for machine in ("visitor", "host", "guest[1]", "hall[0]")]
    assert declared == ["home", "lodge", "lodge", "lodge"]
    assert PROGRAM.player_of("guest[0]", {"visitor": "home", "host": "inn"}) == "inn"


@pytest.mark.long
def test_real_actors_play_every_crash_case() -> None:
    found = campaign(load(FOLDER))
    assert (found.failures, found.played > 200) == ([], True)


# Two runs at once


class Lodge(Simulation):
    """Real actors whose handlers take some ticks; the lodge ends at one of the points that it passes.

    Attributes:
        points: how many points were passed.
        stopped: whether the lodge has ended, and was not started again.
    """

    def __init__(self, crash: int = -1, seed: int = 0) -> None:
        super().__init__(PROGRAM, seed)
        self.world = SimulatedUnits(delay=lambda action, chance: chance.randrange(3), seed=seed)
        self.points, self.stopped, self._crash = 0, False, crash
        self.subscribers.append(self._passes)

    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        return replace(made, handlers=dict.fromkeys(VERBS, SimulatedHandler(self.world)))

    def _passes(self, notice: Notice) -> None:
        if notice.actor != "lodge" or notice.kind not in (Kind.COMMIT, Kind.COMMITTED, Kind.SEND, Kind.CALL):
            return
        self.points += 1
        if self.points - 1 == self._crash:
            self.stopped = True
            raise SimulatedCrash

    def is_over(self) -> bool:
        """Returns whether all visits are over, and all rooms tidy."""
        return all(
            self.where(lease) == "home/closed" and all(self.state(lease, f"guest[{n}]") == "outside" for n in who)
            for lease, who in VISITS.items()
        )

    def state(self, lease: str, machine: str) -> str:
        held = self.held(lease, machine)
        return "" if held is None else held.state

    def go_on(self) -> None:
        """One tick of two visits."""
        if self.stopped:
            self.stopped = False
            self.crash("lodge")
            self.start("lodge")
        home = self.actors["home"]
        for lease in VISITS:
            if self.state(lease, "visitor") == "there":
                self.loop.call(partial(home.tell, lease, "visitor", "go", {}))
        self.tick(3.0)
        self.world.moved(self.time.now)
        self.loop.advance(1.0)


def stayed(crash: int = -1, seed: int = 0) -> tuple[Lodge, list[str]]:
    """Two visits from beginning to end, and what is wrong with them."""
    properties = RunProperties(SYSTEM)
    sim = Lodge(crash, seed)
    commits = CommittedEvents(sim)
    steps, durable = StepConformance(sim, properties.world), DurabilityMonitor(sim)
    monitors = {lease: PropertyMonitor(commits, properties, lease) for lease in VISITS}
    wrong: list[str] = []
    try:
        sim.start_all()
        for lease, who in VISITS.items():
            home = sim.actors["home"]
            sim.loop.call(partial(home.begin, lease, "visitor", "visit", {"who": who}, sim.players))
        for _ in range(60):
            sim.go_on()
            if sim.is_over() and not sim.stopped:
                break
        else:
            wrong.append(f"they do not end: {[sim.where(lease) for lease in VISITS]}")
        for lease, monitor in monitors.items():
            wrong += [f"{name} does not hold in {lease} {when}" for name, when in monitor.broken.items()]
            wrong += owed(sim, properties, lease, monitor.state)
    finally:
        sim.close()
    raised = (error.get("exception") for error in sim.loop.errors)
    wrong += [repr(error) for error in raised if not isinstance(error, SimulatedCrash)]
    return sim, wrong + steps.strange + durable.lost + sim.world.overlaps


def test_two_runs_with_equal_numbers_do_not_disturb_each_other() -> None:
    sim, wrong = stayed()
    assert wrong == []
    began = {action for unit in sim.world.units.values() for action, _ in unit.tasks}
    rooms = [(lease, f"{lease}/guest[{n}]") for lease, who in VISITS.items() for n in who]
    assert set(sim.world.units) == {room for _, room in rooms}
    assert {task.rpartition("/")[0] for task in began} == {f"{room}/{verb}" for _, room in rooms for verb in VERBS}


POINTS = 25  # that the lodge passes at least


def test_a_crash_at_a_point_disturbs_neither() -> None:
    for crash in range(0, POINTS, 6):
        sim, wrong = stayed(crash, seed=crash)
        assert (crash, wrong) == (crash, [])
        assert sim.crashes >= 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_no_crash_at_any_point_disturbs_them(seed: int) -> None:
    crash = 0
    while True:
        sim, wrong = stayed(crash, seed)
        assert (crash, wrong) == (crash, [])
        if sim.points <= crash:
            break
        crash += 1
    assert crash > POINTS


# What is forgotten


class Gates(NullHandler):
    """Handlers by verb that end when their gate is open; `seen` has all actions."""

    def __init__(self, *shut: str) -> None:
        self.gates = {verb: asyncio.Event() for verb in VERBS}
        self.seen: list[HandlerAction] = []
        for verb in set(VERBS) - set(shut):
            self.gates[verb].set()

    async def act(self, action: HandlerAction) -> Done:
        self.seen.append(action)
        await self.gates[action.verb].wait()
        return Done(True, facts={"verb": action.verb})


class Hall:
    """An inventory with one hall: guests are none of its units."""

    def name(self, index: int) -> str | None:
        return ["great hall"][index] if index == 0 else None

    def number(self, name: str) -> int | None:
        return 0 if name == "great hall" else None

    def properties(self, index: int) -> Mapping[str, Any]:
        return {"seats": 90}

    def type(self, index: int) -> str:
        return "hall"

    def remembered(self) -> bytes:
        return b"great hall"

    def check(self, remembered: bytes) -> None:
        pass


class Hearing(IdlePolicy):
    """A policy of the host, which decides nothing and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Lease] = []

    def recovered(self, lease: Lease) -> None:
        self.told.append(lease)

    def changed(self, lease: Lease, now: int) -> tuple[()]:
        self.told.append(lease)
        return ()


class Batches(MemoryStore):
    """A store that remembers what each commit has dropped."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.dropped: list[set[RecordKey]] = []

    async def _commit(self, batch: Batch) -> None:
        await super()._commit(batch)
        if batch.drops:
            self.dropped.append(set(batch.drops))


class Visits(SystemCluster):
    """The actors of the system, with handlers that wait at gates."""

    def __init__(self, gates: Gates, retire_after: int = 600, program: Program = PROGRAM) -> None:
        self.gates, self.policy, self.stores = gates, Hearing(), dict[str, Batches]()
        super().__init__(
            program,
            store=self._batches,
            environment=self._of,
            options=ActorOptions(seed=0, reopen_pause=0.01, retire_after=retire_after),
        )

    def _batches(self, name: str) -> Batches:
        self.stores[name] = Batches(self.disks[name])
        return self.stores[name]

    def _of(self, name: str) -> Environment:
        if name == "home":
            return Environment()
        return Environment({"host": self.policy}, dict.fromkeys(VERBS, self.gates), units=Hall())

    @property
    def lodge(self) -> Actor:
        return self.actors["lodge"]

    async def begin(self, lease: str) -> None:
        await self.actors["home"].begin(lease, "visitor", "visit", {"who": VISITS[lease]}, self.players)
        await self.settle()

    async def go(self, lease: str) -> None:
        await self.actors["home"].tell(lease, "visitor", "go")
        await self.settle()

    def states(self, lease: str) -> list[str]:
        """States of the visitor, the host and its guests."""
        names = ("visitor", "host", *(f"guest[{n}]" for n in VISITS[lease]))
        return ["" if (held := self.held(lease, name)) is None else held.state for name in names]

    def held(self, run: str, machine: str) -> Any:
        actor = self.actors["home" if machine == "visitor" else "lodge"]
        return actor.table.instances.get(RecordKey(run, machine))

    async def settle(self, turns: int = 2_000) -> None:
        await asyncio.sleep(0.5)  # handlers are at work behind the loop's back


def rows(c: Visits, lease: str) -> set[str]:
    """The machines of a lease that the lodge's disk has."""
    return {key.machine for key in c.disks["lodge"].records if key.lease == lease}


async def test_a_run_is_forgotten_with_its_machines_in_one_commit_when_they_have_nothing_to_do() -> None:
    gates = Gates("tidy")

    async with Visits(gates, retire_after=3) as c:
        ended = Counter[Result]()
        tracker = CallTracker(c.lodge, lambda begun, result: ended.update([result]))
        forgets: list[Notice] = []

        def hear(notice: Notice) -> None:
            if notice.kind is Kind.FORGET:
                forgets.append(notice)
                tracker.forget(notice)

        c.lodge.notices.subscribe(hear)
        for lease in VISITS:
            await c.begin(lease)
        await c.go(FIRST)
        assert c.states(FIRST) == ["home", "closed", "tidying", "tidying"]
        await c.advance(9)
        assert c.states(FIRST) == ["", "closed", "tidying", "tidying"]  # a room is not tidy yet
        assert rows(c, FIRST) == {"host", "guest[0]", "guest[1]"}
        gates.gates["tidy"].set()
        await c.settle()
        assert c.states(FIRST)[1:] == ["closed", "outside", "outside"]
        await c.advance(2)
        assert c.states(FIRST)[1:] == ["", "", ""]
        gone = {RecordKey(FIRST, name) for name in ("host", "guest[0]", "guest[1]")}
        assert c.stores["lodge"].dropped == [gone]
        assert (rows(c, FIRST), rows(c, BELOW)) == (set(), {"hall[0]"})
        table = c.lodge.table
        assert FIRST in table.pruned
        assert table.driven[FIRST] == {RecordKey(BELOW, "hall[0]")}  # which it has darkened
        assert set(table.drivers) == {RecordKey(BELOW, "hall[0]")}
        assert [(n.machine, sorted(n.data["below"])) for n in forgets] == [("host", ["guest[0]", "guest[1]"])]
        # The other visit has the same numbers, and goes on.
        assert c.states(SECOND) == ["there", "open", "inside"]
        assert rows(c, SECOND) == {"host", "guest[0]"}
        await c.kill("lodge")
        await c.start("lodge")
        await c.go(SECOND)
        assert c.states(SECOND) == ["home", "closed", "outside"]
        await c.advance(5)
        assert set(c.lodge.table.instances) == {RecordKey(BELOW, "hall[0]")}
        assert c.lodge.table.driven == {SECOND: {RecordKey(BELOW, "hall[0]")}}


async def test_what_a_machine_of_a_forgotten_run_still_does_is_given_up() -> None:
    """Its timer has ended what the handler does, which goes on for nobody."""
    gates = Gates("leave")

    async with Visits(gates, retire_after=3) as c:
        ended = Counter[Result]()
        tracker = CallTracker(c.lodge, lambda begun, result: ended.update([result]))
        hear = {Kind.CALL: tracker.begin, Kind.ANSWERED: tracker.answer, Kind.FORGET: tracker.forget}
        c.lodge.notices.subscribe(lambda notice: hear.get(notice.kind, lambda _: None)(notice))
        metrics, spans = Metrics(c.lodge, Watchdog(c.lodge)), InMemorySpanExporter()
        traces = Traces(c.lodge, spans)
        await c.begin(SECOND)
        await c.go(SECOND)
        assert c.states(SECOND) == ["going", "closing", "leaving"]
        await c.advance(3)
        assert c.states(SECOND) == ["home", "closed", "outside"]
        assert (c.lodge.calls.under_way(), ended[Result.GIVEN_UP]) == (1, 0)
        await c.advance(6)
        assert c.states(SECOND) == ["", "", ""]
        assert (c.lodge.calls.under_way(), ended[Result.GIVEN_UP]) == (0, 1)
        counted = metrics.registry.get_sample_value
        of = {"verb": "leave", "result": "given_up"}
        assert counted("leasehold_handler_calls_total", of) == 1
        assert traces.flush()
        (left,) = [
            span for span in spans.get_finished_spans() if (span.attributes or {}).get("leasehold.result") == "given_up"
        ]
        assert (left.attributes or {})["leasehold.machine"] == "guest[0]"
        traces.close()


async def test_whom_a_machine_of_the_actor_serves_is_kept_also_where_it_does_not_move(tmp_path: Path) -> None:
    """The hall is lit already when the second visit begins, so the event that drives it changes nothing of its own."""
    folder = shutil.copytree(FOLDER, tmp_path / "lodge")
    hall = folder / "roles" / "hall.yaml"
    moves, stays = "lit: {on: {light: {to: lit}, darken", "lit: {ignore: {light: it is lit}, on: {darken"
    assert moves in hall.read_text()
    hall.write_text(hall.read_text().replace(moves, stays))

    async with Visits(Gates(), program=compile_system(load(folder, {"limit": 3}))) as c:
        for lease in VISITS:
            await c.begin(lease)
            assert c.states(lease)[1] == "open"
        for restarted in (False, True):
            if restarted:
                await c.kill("lodge")
                await c.start("lodge")
                await c.settle()
            assert c.lodge.table.instances[RecordKey(BELOW, "hall[0]")].serves == SECOND


async def test_who_objects_keeps_the_whole_run() -> None:
    gates = Gates()

    async with Visits(gates, retire_after=3) as c:
        objects = [True]

        def object_to(notice: Notice) -> None:
            if notice.kind is Kind.FORGET and objects[0]:
                raise Consumed

        c.lodge.notices.subscribe(object_to)
        await c.begin(SECOND)
        await c.go(SECOND)
        await c.advance(6)
        assert rows(c, SECOND) == {"host", "guest[0]"}
        assert c.states(SECOND)[1:] == ["closed", "outside"]
        objects.clear()
        objects.append(False)
        await c.advance(2)
        assert rows(c, SECOND) == set()


# What handlers and policies are told


async def test_what_a_handler_is_told() -> None:
    """Names, tasks and numbers are those of the run; a site's units are none of its machines."""
    gates = Gates("tidy")

    async with Visits(gates) as c:
        for lease in VISITS:
            await c.begin(lease)
        first = {action.unit: action for action in gates.seen}
        assert set(first) == {f"{FIRST}/guest[0]", f"{FIRST}/guest[1]", f"{SECOND}/guest[0]"}
        for unit, action in first.items():
            lease = unit.partition("/")[0]
            assert (action.verb, action.lease, action.task) == ("enter", lease, f"{unit}/enter/1")
            assert action.lease_data == {"who": frozenset(VISITS[lease])}
            assert (action.unit_data, action.properties) == ({"deadline": 0}, {})
        assert len({action.number for action in first.values()}) == 1  # each rises for itself
        await c.go(FIRST)
        before = [action for action in gates.seen if action.verb == "tidy"]
        await c.kill("lodge")
        gates.seen.clear()
        await c.start("lodge")
        await c.settle()
        assert {a.task: a.lease_data for a in gates.seen} == {a.task: a.lease_data for a in before}
        numbers = {action.unit: action.number for action in before}
        assert all(action.number > numbers[action.unit] for action in gates.seen)
        assert len(gates.seen) == 2  # the guests of the other visit are inside, and nothing is asked for
        gates.gates["tidy"].set()
        await c.settle()
        assert c.states(FIRST) == ["home", "closed", "outside", "outside"]
        assert c.states(SECOND) == ["there", "open", "inside"]


async def test_what_a_policy_is_told() -> None:
    gates = Gates("tidy")

    async with Visits(gates) as c:
        for lease in VISITS:
            await c.begin(lease)
        views = {lease: c.lodge.table.view(lease, "host").units for lease in VISITS}
        states = {lease: {unit: data["state"] for unit, data in units.items()} for lease, units in views.items()}
        inside = {lease: {("guest", n): "inside" for n in who} for lease, who in VISITS.items()}
        assert states == {FIRST: inside[FIRST], SECOND: {**inside[SECOND], ("hall", 0): "lit"}}
        assert list(c.lodge.table.orphans()) == []
        await c.go(FIRST)
        last = [lease for lease in c.policy.told if lease.name == FIRST][-1]
        assert {data["state"] for unit, data in last.units.items() if unit[0] == "guest"} == {"tidying"}
        c.policy.told.clear()
        await c.kill("lodge")
        await c.start("lodge")
        await c.settle()
        told = {lease.name: set(lease.units) for lease in c.policy.told if lease.machine == "host"}
        assert told[SECOND] >= {("guest", 0)}
        assert told[FIRST] >= {("guest", 0), ("guest", 1)}


async def test_what_clients_are_shown() -> None:
    gates = Gates()

    async with Visits(gates) as c:
        for lease in VISITS:
            await c.begin(lease)
        views = Views(c.lodge, SYSTEM, 1.0)
        assert [(row["lease"], row["machine"]) for row in views.leases()] == [(FIRST, "host"), (SECOND, "host")]
        assert [(row["unit"], row["state"], row["lease"]) for row in views.units()] == [
            ("guest[0]", "inside", FIRST),
            ("guest[0]", "inside", SECOND),
            ("guest[1]", "inside", FIRST),
            ("great hall", "lit", SECOND),
        ]
        (shown,) = views.lease(FIRST)
        assert [(unit["unit"], unit["state"], unit["facts"]) for unit in shown["units"]] == [
            (f"guest[{n}]", "inside", {"verb": "enter"}) for n in (0, 1)
        ]
        assert views.unit("great hall") == RecordKey(BELOW, "hall[0]")
        assert views.unit("guest[0]") is None
