"""What still lives of a unit though nothing should is known, and shown until it is gone."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.cli.leases import _left
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.remains import Remain, Remains
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.notices import SimulatedCrash
from leasehold.impl.observe.watch import watch
from leasehold.impl.server.views import Views
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import RecordKey
from leasehold.spec import System
from tests.impl.actor.alone import program_of
from tests.impl.actor.test_probes import SITE, UNITS, Machines, Scene, playing
from tests.systems import load


@pytest.fixture(scope="module")
def system() -> tuple[Program, System]:
    return program_of(SITE), load(SITE)


class Stubborn(Machines):
    """Units that outlive their teardown, until `up` does not have them any more."""

    async def act(self, action: HandlerAction) -> Done:
        if action.verb == "remove" and action.unit in ("unit[1]", "unit[2]"):
            return Done(False, "it does not end")
        return await super().act(action)

    async def left_of(self, unit: str) -> str:
        return "process 17" if unit in self.up else ""


async def test_what_outlives_its_teardown_is_shown_until_it_is_gone(
    system: tuple[Program, System], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leasehold.remains")
    async with playing(system[0]) as scene:
        scene.world = Stubborn()
        scene.handlers = {"bring": scene.world, "remove": scene.world}
        actor = await scene.start()
        observed, views = watch(actor), Views(actor, system[1], 1.0)

        def shown() -> list[str]:
            return [row["unit"] for row in views.units() if row["left"]]

        await asyncio.sleep(30)
        assert shown() == [], "a unit that is to be up is no remains"
        await actor.tell("own:1", "keeper", "close")
        await asyncio.sleep(30)
        assert set(scene.states()) == {"off"}
        assert shown() == ["unit[1]", "unit[2]"]
        assert b"leasehold_units_left 2.0" in observed.metrics.render()
        row = next(row for row in views.units() if row["unit"] == "unit[1]")
        assert list(_left(row, 5, 1.0)) == ["process 17: still there, for 5 s though it should be down"]
        scene.world.up.discard("unit[1]")
        await asyncio.sleep(20)
        assert shown() == ["unit[2]"]
        await actor.tell("own:1", "keeper", "open")
        await asyncio.sleep(20)
        assert shown() == []
        observed.close()
    said = [record.getMessage() for record in caplog.records if record.name == "leasehold.remains"]
    assert "something is left of unit[2], which should be down: process 17" in said
    assert "nothing is left of unit[1] any more, or it is to be up again" in said


async def test_an_actor_that_starts_again_finds_what_was_left(system: tuple[Program, System]) -> None:
    async with playing(system[0]) as scene:
        scene.world = Stubborn()
        scene.handlers = {"bring": scene.world, "remove": scene.world}
        actor = await scene.start()
        await actor.tell("own:1", "keeper", "close")
        await asyncio.sleep(30)
        await actor.stop()
        scene.store = MemoryStore(scene.disk)
        actor = await scene.start(begin=False)
        await asyncio.sleep(10)
        assert actor.remains.found.keys() == {RecordKey(BELOW, f"unit[{n}]") for n in (1, 2)}


class Asked(Stubborn):
    """Writes down when each unit is asked for, and says of each what it is told to say."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[tuple[float, str]] = []
        self.says: dict[str, str | BaseException | asyncio.Event] = {}

    async def left_of(self, unit: str) -> str:
        self.left.append((asyncio.get_running_loop().time(), unit))
        said = self.says.get(unit, "")
        if isinstance(said, asyncio.Event):
            await said.wait()
            said = "too late"
        if isinstance(said, BaseException):
            raise said
        return said

    def times_of(self, number: int) -> list[float]:
        return [at for at, unit in self.left if unit == f"unit[{number}]"]


async def closed(scene: Scene) -> tuple[Actor, Asked]:
    """An actor two of whose units did not end well, and their handler; both have something left."""
    scene.world = world = Asked()
    scene.handlers = {"bring": world, "remove": world}
    actor = await scene.start()
    await asyncio.sleep(20)
    await actor.tell("own:1", "keeper", "close")
    world.says = {"unit[1]": "process 1", "unit[2]": "process 2"}
    await asyncio.sleep(12)
    return actor, world


def found(actor: Actor) -> dict[str, str]:
    return {key.machine: remain.words for key, remain in sorted(actor.remains.found.items())}


async def test_units_that_did_not_end_well_are_asked_for_again_and_again(system: tuple[Program, System]) -> None:
    """Every five seconds, one after the other, and for ten seconds each where no answer comes; no others are."""
    async with playing(system[0]) as scene:
        actor, world = await closed(scene)
        assert found(actor) == {"unit[1]": "process 1", "unit[2]": "process 2"}
        since = {key: remain.since for key, remain in actor.remains.found.items()}
        world.left.clear()
        await asyncio.sleep(40)
        for number in (1, 2):
            assert {round(b - a, 6) for a, b in pairwise(world.times_of(number))} == {5.0}
        assert {unit for _, unit in world.left} == {"unit[1]", "unit[2]"}
        world.says["unit[1]"] = "process 11"
        await actor.clock.time.elapse()
        await asyncio.sleep(6)
        assert found(actor) == {"unit[1]": "process 11", "unit[2]": "process 2"}
        assert {key: remain.since for key, remain in actor.remains.found.items()} == since
        world.says["unit[1]"] = asyncio.Event()
        await asyncio.sleep(6)
        world.left.clear()
        await asyncio.sleep(60)
        assert {round(b - a, 6) for a, b in pairwise(world.times_of(2))} == {15.0}
        assert found(actor)["unit[1]"] == "process 11", "what is not known changes nothing"


async def test_an_answer_that_fails_changes_nothing_and_the_others_are_asked(
    system: tuple[Program, System], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leasehold.remains")
    async with playing(system[0]) as scene:
        actor, world = await closed(scene)
        for one, other in ((1, 2), (2, 1)):
            world.says = {f"unit[{one}]": OSError("no ps"), f"unit[{other}]": f"process 1{other}"}
            await asyncio.sleep(6)
            assert found(actor)[f"unit[{one}]"] == ("process 1" if one == 1 else "process 12")
            assert found(actor)[f"unit[{other}]"] == f"process 1{other}"
        world.says = {}
        await asyncio.sleep(6)
        assert found(actor) == {}
    said = [record.getMessage() for record in caplog.records if record.name == "leasehold.remains"]
    assert len(said) == 4, "once when something is left, and once when nothing is"


async def test_a_unit_that_is_to_be_up_again_while_it_is_asked_for_is_no_remains(
    system: tuple[Program, System],
) -> None:
    async with playing(system[0]) as scene:
        actor, world = await closed(scene)
        gate = asyncio.Event()
        world.says = {"unit[1]": gate, "unit[2]": gate}
        await asyncio.sleep(5.5)
        await actor.tell("own:1", "keeper", "open")
        await asyncio.sleep(1)
        gate.set()
        await asyncio.sleep(0.01)
        assert "too late" not in found(actor).values()
        world.says = {}
        await asyncio.sleep(12)
        assert found(actor) == {}
        assert set(scene.states()) == {"serving"}


async def test_a_machine_that_is_gone_is_no_remains(system: tuple[Program, System]) -> None:
    async with playing(system[0]) as scene:
        actor, _ = await closed(scene)
        key = RecordKey(BELOW, "unit[1]")
        held = actor.table.instances.pop(key)
        await asyncio.sleep(6)
        assert found(actor) == {"unit[2]": "process 2"}
        actor.table.instances[key] = held


async def test_where_nothing_is_probed_nobody_is_asked(system: tuple[Program, System]) -> None:
    async with playing(system[0]) as scene:
        actor, _ = await closed(scene)
        probes: Any = SimpleNamespace(probes=())
        await asyncio.wait_for(Remains(actor.context, probes, lambda: {RecordKey(BELOW, "unit[1]")}).run(), 1)


async def test_a_simulated_crash_is_swallowed_by_nothing(system: tuple[Program, System]) -> None:
    async with playing(system[0]) as scene:
        actor, world = await closed(scene)
        world.says["unit[1]"] = SimulatedCrash()
        with pytest.raises(SimulatedCrash):
            await Remains(actor.context, actor.probes, lambda: {RecordKey(BELOW, "unit[1]")}).look()
        world.says["unit[1]"] = ""


@pytest.mark.parametrize("state", ["off", "rising", "serving", "falling"])
@pytest.mark.parametrize("working", [False, True])
@pytest.mark.parametrize("up", [False, True])
async def test_only_a_unit_that_should_be_down_is_asked_for(
    system: tuple[Program, System], state: str, working: bool, up: bool
) -> None:
    """No action is asked for or under way, and it is not up; while one is under way, what was found stays."""
    async with playing(system[0]) as scene:
        actor, world = await closed(scene)
        key = RecordKey(BELOW, "unit[1]")
        held = actor.table.instances[key]
        probes: Any = SimpleNamespace(
            probes=actor.probes.probes,
            is_due=lambda probe, machine: up,
            at_work=lambda of: working,
            name_of=actor.probes.name_of,
        )
        remains = Remains(actor.context, probes, lambda: {key})
        remains.found[key] = Remain("before", 1)
        before, held.record = held.record, (state, *held.record[1:])
        world.left.clear()
        await remains.look()
        down = state in ("off", "serving") and not working and not up
        assert [unit for _, unit in world.left] == (["unit[1]"] if down else [])
        wanted = {key: Remain("process 1", 1)} if down else {key: Remain("before", 1)} if working else {}
        assert remains.found == wanted
        held.record = before


async def test_units_of_a_store_are_asked_for_once_if_nothing_is_left_of_them(system: tuple[Program, System]) -> None:
    async with playing(system[0]) as scene:
        actor, world = await closed(scene)
        remains = Remains(actor.context, actor.probes, set)
        remains.recovered()
        world.left.clear()
        for units in ({f"unit[{n}]" for n in range(UNITS)}, {"unit[1]", "unit[2]"}):
            await remains.look()
            assert sorted(unit for _, unit in world.left) == sorted(units)
            world.left.clear()
