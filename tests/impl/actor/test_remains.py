"""What still lives of a unit though nothing should is known, and shown until it is gone."""

from __future__ import annotations

import asyncio
import logging

import pytest

from leasehold.cli.leases import _left
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.observe.watch import watch
from leasehold.impl.server.subscribers import History
from leasehold.impl.server.views import Views
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import RecordKey
from leasehold.spec import System
from tests.impl.actor.alone import program_of
from tests.impl.actor.test_probes import SITE, Machines, Scene, play
from tests.systems import load


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, System]:
    folder = tmp_path_factory.mktemp("site")
    return program_of(folder, SITE), load(folder)


class Stubborn(Machines):
    """Units that outlive their teardown, until `up` does not have them any more."""

    async def act(self, action: HandlerAction) -> Done:
        if action.verb == "remove" and action.unit in ("unit[1]", "unit[2]"):
            return Done(False, "it does not end")
        return await super().act(action)

    async def left_of(self, unit: str) -> str:
        return "process 17" if unit in self.up else ""


def test_what_outlives_its_teardown_is_shown_until_it_is_gone(
    system: tuple[Program, System], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene) -> None:
        scene.world = Stubborn()
        scene.handlers = {"bring": scene.world, "remove": scene.world}
        actor = await scene.start()
        observed, views = watch(actor), Views(actor, system[1], History(), 1.0)

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

    with caplog.at_level(logging.INFO, "leasehold.remains"):
        play(system[0], story)
    said = [record.getMessage() for record in caplog.records if record.name == "leasehold.remains"]
    assert "something is left of unit[2], which should be down: process 17" in said
    assert "nothing is left of unit[1] any more, or it is to be up again" in said


def test_an_actor_that_starts_again_finds_what_was_left(system: tuple[Program, System]) -> None:
    async def story(scene: Scene) -> None:
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

    play(system[0], story)
