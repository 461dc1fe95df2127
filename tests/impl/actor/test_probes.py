"""Probes: machines that are up are asked for; one that is lost is told so once, in the state that it was seen in."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore.reference import Reference
from leasehold.checker.recovery.conformance import StepConformance
from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment, Probe, ProbeSettings
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import Done, HandlerAction, NullHandler
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey, StoreError
from leasehold.spec.language.lower.lowering import lower
from tests.impl.actor.alone import alone, program_of
from tests.systems import TESTS, files_of, load

UNITS = 6  # as the site has them
SITE = TESTS / "impl/actor/systems/site"
EVERY = 10.0


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(SITE)


class Machines(NullHandler):
    """The units outside, each up or not, and a handler of them; it writes down when each is asked for.

    Attributes:
        answers: what is answered instead, by unit: a value, an error, or what is awaited.
    """

    def __init__(self) -> None:
        self.up: set[str] = set()
        self.asked: list[tuple[float, str]] = []
        self.answers: dict[str, Any] = {}
        self.most = self._now = 0
        self.takes: Callable[[str], float] = lambda name: 0.0
        self.acts: Callable[[HandlerAction], Coroutine[Any, Any, None]] | None = None

    async def act(self, action: HandlerAction) -> Done:
        if self.acts is not None:
            await self.acts(action)
        (self.up.add if action.verb == "bring" else self.up.discard)(action.unit)
        return Done(True)

    async def is_up(self, unit: str) -> bool | None:
        self.asked.append((asyncio.get_running_loop().time(), unit))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(self.takes(unit))
            answer = self.answers.get(unit, unit in self.up)
            if isinstance(answer, BaseException):
                raise answer
            found: bool | None = await answer() if callable(answer) else answer
            return found
        finally:
            self._now -= 1

    def times(self, number: int) -> list[float]:
        """Returns when a unit was asked for."""
        return [round(at, 3) for at, name in self.asked if name == f"unit[{number}]"]


class Scene:
    """An actor whose units are up, and time that passes."""

    def __init__(self, program: Program, **settings: Any) -> None:
        self.program, self.disk, self.world = program, Disk(), Machines()
        self.settings = ProbeSettings(**{"every": EVERY, **settings})
        self.handlers: dict[str, Any] = {"bring": self.world, "remove": self.world}
        self.store: Any = MemoryStore(self.disk)

    async def start(self, begin: bool = True) -> Actor:
        """Starts the actor, whose units a life before has brought up, unless they were there already."""
        if begin:
            await self.live()
            await self.actor.begin("own:1", "keeper", "open", {}, {})
            while {*self.states()} != {"serving"}:
                await asyncio.sleep(0)
            await self.actor.stop()
        return await self.live()

    async def live(self) -> Actor:
        """Starts the actor."""
        options = ActorOptions(seed=0, reopen_pause=0.5)
        probes = (Probe("unit", "lost", self.settings),)
        clock = SimulatedClock()
        self.actor = alone(self.program, "keeper", self.store, self.handlers, clock, options=options, probes=probes)
        await self.actor.start()
        return self.actor

    def states(self) -> list[str]:
        instances = self.actor.table.instances
        return [instances[RecordKey(BELOW, f"unit[{n}]")].state for n in range(UNITS)]

    def losses(self) -> list[int]:
        instances = self.actor.table.instances
        return [instances[RecordKey(BELOW, f"unit[{n}]")].record[2] for n in range(UNITS)]

    def count(self, result: str) -> int:
        return self.actor.probes.counts["unit", result]


@contextlib.asynccontextmanager
async def playing(program: Program, **settings: Any) -> AsyncIterator[Scene]:
    scene = Scene(program, **settings)
    yield scene
    await scene.actor.stop()


async def test_units_that_are_up_are_asked_for_soon_and_then_over_the_period(program: Program) -> None:
    async with playing(program) as scene:
        await scene.start()
        await asyncio.sleep(2.05)
        assert len(scene.world.asked) >= 2 * UNITS  # both rounds of a patience of 2
        assert {at for at, _ in scene.world.asked[: 2 * UNITS]} == {1.0, 2.0}
        scene.world.asked.clear()
        await asyncio.sleep(9.8)  # the next round begins after 12 s
        assert [name for _, name in scene.world.asked[-UNITS + 1 :]] == [f"unit[{n}]" for n in range(1, UNITS)]
        times = [at for at, _ in scene.world.asked]
        assert [round(later - at, 2) for at, later in pairwise(times)] == [1.67] * (UNITS - 2)
        await asyncio.sleep(100)
        gaps = scene.world.times(3)
        assert {round(later - at, 2) for at, later in pairwise(gaps[3:])} == {EVERY}
        assert (scene.losses(), scene.count("up") > 60, scene.count("missed")) == ([0] * UNITS, True, 0)


async def test_units_that_come_up_after_a_start_are_asked_for_over_the_period_alone(program: Program) -> None:
    async with playing(program) as scene:
        await scene.live()
        await scene.actor.begin("own:1", "keeper", "open", {}, {})
        await asyncio.sleep(1.95)  # the rounds after a start are over at 2 s
        assert (scene.states(), scene.world.asked) == (["serving"] * UNITS, [])
        await asyncio.sleep(EVERY)
        assert {name for _, name in scene.world.asked} == {f"unit[{n}]" for n in range(UNITS)}


@pytest.mark.parametrize("patience", [1, 2, 3])
async def test_a_unit_is_lost_after_so_many_misses_and_not_one_sooner(
    program: Program, patience: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with playing(program, patience=patience) as scene:
        await scene.start()
        await asyncio.sleep(30)
        scene.world.up.discard("unit[2]")
        before = len(scene.world.times(2))
        with caplog.at_level(logging.WARNING, "leasehold.probes"):
            while scene.losses()[2] == 0:
                assert scene.count("missed") < patience
                await asyncio.sleep(0.5)
        assert len(scene.world.times(2)) - before == patience == scene.count("missed")
        assert caplog.messages == [f"unit[2] is found to be lost: it was missed {patience} times"]
        await asyncio.sleep(100)
        assert (scene.states(), scene.losses()) == (["serving"] * UNITS, [0, 0, 1, 0, 0, 0])
        assert scene.count("missed") == patience


async def test_only_misses_in_a_row_count(program: Program) -> None:
    async with playing(program) as scene:
        await scene.start()
        seen = iter([False, True] * 6)

        async def flickers() -> bool:
            return next(seen, True)

        scene.world.answers["unit[1]"] = flickers
        await asyncio.sleep(200)
        assert (scene.count("missed"), scene.losses()) == (6, [0] * UNITS)


async def test_a_host_that_has_come_back_without_its_units_is_found_at_once(program: Program) -> None:
    async with playing(program, every=3600.0) as scene:
        await scene.start()
        await scene.actor.kill()
        scene.disk.crash()
        scene.world.up.clear()
        await scene.start(begin=False)
        await asyncio.sleep(2.1)
        assert (scene.losses(), scene.states()) == ([1] * UNITS, ["serving"] * UNITS)
        assert scene.world.up == {f"unit[{n}]" for n in range(UNITS)}


async def test_what_is_coming_up_or_going_down_is_left_to_its_handler(program: Program) -> None:
    """Also where its state would take the event: `rising` counts it, and an action is under way there."""
    async with playing(program) as scene:
        gate = asyncio.Event()

        async def slowly(action: HandlerAction) -> None:
            await gate.wait()

        await scene.start()
        scene.world.acts = slowly
        await scene.actor.tell("own:1", "keeper", "close")
        scene.world.up.clear()
        await asyncio.sleep(60)
        assert (set(scene.states()), scene.world.asked) == ({"falling"}, [])
        await scene.actor.tell("own:1", "keeper", "open")
        await asyncio.sleep(60)
        assert (set(scene.states()), scene.world.asked) == ({"rising"}, [])
        gate.set()
        await asyncio.sleep(60)
        assert (set(scene.states()), scene.losses()) == ({"serving"}, [0] * UNITS)
        assert scene.world.asked


async def test_an_answer_about_a_state_that_was_left_counts_for_nothing(program: Program) -> None:
    """The unit was torn down, and is up again when the answer about its life before comes."""
    async with playing(program, longest=1000.0) as scene:
        answers: list[asyncio.Future[bool]] = []

        async def late() -> bool:
            answers.append(asyncio.get_running_loop().create_future())
            return await answers[-1]

        await scene.start()
        scene.world.answers["unit[0]"] = late
        await asyncio.sleep(2)
        assert len(answers) == 1
        for event in "close", "open":
            await scene.actor.tell("own:1", "keeper", event)
            await asyncio.sleep(0.2)
        assert set(scene.states()) == {"serving"}
        answers[0].set_result(False)
        await asyncio.sleep(0.5)
        assert (scene.losses(), scene.count("stale"), scene.count("missed")) == ([0] * UNITS, 1, 0)
        # A miss of the life before is no miss of this one.
        await asyncio.sleep(10)
        assert len(answers) == 2
        answers[1].set_result(False)
        await asyncio.sleep(0.1)
        assert scene.count("missed") == 1
        for event in "close", "open":
            await scene.actor.tell("own:1", "keeper", event)
            await asyncio.sleep(0.2)
        while len(answers) < 3:
            await asyncio.sleep(0.5)
        answers[2].set_result(False)
        await asyncio.sleep(0.1)
        assert (scene.count("missed"), scene.losses()) == (2, [0] * UNITS)


async def test_what_a_probe_has_found_waits_in_the_queue_and_counts_there_for_its_state_alone(program: Program) -> None:
    async with playing(program, patience=1, every=1000.0) as scene:
        actor = await scene.start()
        await asyncio.sleep(30)
        scene.world.up.discard("unit[0]")
        actor.tell("own:1", "keeper", "close")  # both are of one turn, and this one comes first
        await actor.probes.round()
        await asyncio.sleep(1)
        assert (set(scene.states()), scene.losses(), actor.counts["late"]) == ({"off"}, [0] * UNITS, 1)


@pytest.mark.parametrize(
    ("answer", "settings", "result", "lost"),
    [
        (OSError("no route"), {}, "failed", False),
        (OSError("no route"), {"failed_is_missed": True}, "failed", True),
        (OSError("no route"), {"hung_is_missed": True}, "failed", False),
        (SystemExit(3), {}, "failed", False),
        (asyncio.CancelledError(), {}, "failed", False),
        ("yes", {}, "failed", False),
        ("hangs", {}, "hung", False),
        ("hangs", {"hung_is_missed": True}, "hung", True),
        ("hangs", {"failed_is_missed": True}, "hung", False),
        (None, {"failed_is_missed": True, "hung_is_missed": True}, "unknown", False),
    ],
)
async def test_what_is_not_known_is_a_miss_only_where_a_setting_says_so(
    program: Program,
    answer: Any,
    settings: dict[str, bool],
    result: str,
    lost: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with playing(program, longest=2.0, **settings) as scene:
        await scene.start()
        scene.world.answers["unit[4]"] = asyncio.Event().wait if answer == "hangs" else answer
        with caplog.at_level(logging.WARNING, "leasehold.probes"):
            await asyncio.sleep(75)
        assert scene.count(result) >= 5
        assert [n for n, losses in enumerate(scene.losses()) if losses] == ([4] if lost else [])
        unknown = [words for words in caplog.messages if "it was missed" not in words]
        assert len(unknown) == 1  # once, and not in every round
        assert ("unit[4]" in unknown[0]) == (result != "unknown")
        assert len(scene.world.times(5)) >= 8  # the others are asked for all the while


async def test_what_is_not_known_neither_adds_to_misses_nor_takes_from_them(program: Program) -> None:
    async with playing(program) as scene:
        await scene.start()
        seen = iter([False, None, False])
        after: list[int] = []

        async def between() -> bool | None:
            after.append(scene.losses()[1])
            return next(seen, True)

        scene.world.answers["unit[1]"] = between
        await asyncio.sleep(50)
        assert after[:3] == [0, 0, 0]
        assert scene.losses()[1] == 1


async def test_no_more_than_the_most_are_asked_for_at_once_and_all_are(program: Program) -> None:
    async with playing(program, at_once=2) as scene:
        scene.world.takes = lambda name: 3.0
        await scene.start()
        await asyncio.sleep(100)
        assert scene.world.most == 2
        assert min(len(scene.world.times(n)) for n in range(UNITS)) >= 8


async def test_one_that_hangs_is_not_asked_for_twice_at_once_and_holds_up_no_other(program: Program) -> None:
    async with playing(program, longest=33.0) as scene:
        await scene.start()
        scene.world.answers["unit[0]"] = asyncio.Event().wait
        await asyncio.sleep(100)
        assert len(scene.world.times(0)) == 3
        gaps = scene.world.times(1)[2:]
        assert {round(later - at, 1) for at, later in pairwise(gaps[1:])} == {EVERY}


async def test_an_actor_that_stops_taking_steps_asks_nobody_and_begins_anew_with_its_store(program: Program) -> None:
    class Fails(MemoryStore):
        broken = False

        async def commit(self, batch: Any) -> None:
            if self.broken:
                raise StoreError("the disk is full")
            await super().commit(batch)

    async with playing(program, every=600.0) as scene:
        store = scene.store = Fails(scene.disk)
        actor = await scene.start()
        await asyncio.sleep(20)
        scene.world.up.discard("unit[3]")
        await actor.probes.round()
        assert scene.count("missed") == 1
        store.broken = True
        with pytest.raises(Exception, match="disk is full"):
            await actor.tell("own:1", "keeper", "close")
        store.broken = False
        scene.world.asked.clear()
        await asyncio.sleep(0.4)
        assert (scene.world.asked, actor.probes.asking) == ([], 0)
        await asyncio.sleep(1.3)
        assert len(scene.world.times(3)) == 1
        assert scene.losses()[3] == 0  # what was missed before is forgotten
        await asyncio.sleep(2)
        assert scene.losses()[3] == 1


async def test_an_actor_that_ends_while_it_asks_leaves_nothing_behind(program: Program) -> None:
    async with playing(program) as scene:
        scene.world.takes = lambda name: 3.0
        actor = await scene.start()
        await asyncio.sleep(1.5)
        assert actor.probes.asking == UNITS
        assert not actor.idle
        await actor.kill()
        assert actor.probes.asking == 0
        count = len(scene.world.asked)
        await asyncio.sleep(100)
        assert len(scene.world.asked) == count
        actor = await scene.start(begin=False)
        await actor.probes._round(actor.environment.probes[0], 0.0)  # their tasks have not made a step
        assert actor.probes.asking == UNITS
        await actor.probes.close()
        assert actor.probes.asking == 0


async def test_where_no_handler_can_say_nothing_is_found(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    async with playing(program, failed_is_missed=True, hung_is_missed=True) as scene:
        scene.handlers = {"bring": NullHandler(), "remove": NullHandler()}
        await scene.start()
        with caplog.at_level(logging.WARNING, "leasehold.probes"):
            await asyncio.sleep(100)
        assert (scene.losses(), scene.count("unknown") > 2) == ([0] * UNITS, True)
        assert caplog.messages == ["no handler of unit can say whether one is up, so none is found to be lost"]


async def test_of_several_handlers_the_first_that_knows_says_it(program: Program) -> None:
    async with playing(program) as scene:
        other = Machines()
        other.up = {f"unit[{n}]" for n in range(UNITS)}
        scene.handlers["remove"] = other
        scene.world.answers["unit[1]"] = None
        scene.world.answers["unit[2]"] = OSError("no route")
        await scene.start()
        scene.world.up.discard("unit[3]")
        await asyncio.sleep(30)
        assert {name for _, name in other.asked} == {"unit[1]", "unit[2]"}
        assert (scene.losses(), scene.count("failed")) == ([0, 0, 0, 1, 0, 0], 0)


async def test_a_machine_that_is_no_unit_is_asked_for_by_its_run(tmp_path: Path) -> None:
    service = files_of("impl/actor/systems/service")

    world = Machines()
    probes = (Probe("owner", "gone", ProbeSettings(patience=1)),)
    program, store = program_of(tmp_path, service), MemoryStore(Disk())
    actor = alone(program, "owner", store, {"make": world}, SimulatedClock(), probes=probes)
    await actor.start()
    await actor.begin("own:7", "owner", "want", {}, {})
    await asyncio.sleep(0.1)
    world.answers["own:7"] = False
    await actor.probes.round()
    await asyncio.sleep(0.1)
    assert {name for _, name in world.asked} == {"own:7"}
    assert actor.counts["taken"] == 4
    await actor.stop()


def test_what_probes_find_in_a_simulation_is_a_run_of_the_specification() -> None:
    """Units are lost, and their actor crashes; all time is virtual."""
    world = Machines()
    probes = (Probe("unit", "lost", ProbeSettings(every=EVERY)),)

    class Simulated(Simulation):
        def _environment(self, name: str) -> Environment:
            made = super()._environment(name)
            return dataclasses.replace(made, handlers={"bring": world, "remove": world}, probes=probes)

    program = program_of(SITE)
    sim = Simulated(program)
    conformance = StepConformance(sim, Reference(lower(load(SITE))))
    sim.start_all()
    sim.loop.call(lambda: sim.actors["keeper"].begin("keeper:1", "keeper", "open", {}, {}))
    sim.loop.advance(30.0)
    world.up -= {"unit[1]", "unit[4]"}
    sim.loop.advance(30.0)
    world.up -= {"unit[0]"}
    sim.crash("keeper")
    sim.loop.advance(600.0)
    sim.start("keeper")
    sim.loop.advance(2.5)
    held = [sim.held("keeper:1", f"unit[{n}]") for n in range(UNITS)]
    assert [one.record[2] for one in held if one is not None] == [1, 1, 0, 0, 1, 0]
    assert {one.state for one in held if one is not None} == {"serving"}
    assert conformance.strange == []
    assert conformance.compared > 3 * UNITS
    sim.close()
    assert sim.loop.errors == []
