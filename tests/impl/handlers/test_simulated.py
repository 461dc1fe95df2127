"""The simulated world, and the handler that does nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from leasehold.impl.handlers.handler import HandlerAction, HandlerError, NullHandler, Stale
from leasehold.impl.handlers.simulated import SimulatedHandler, World


def action(verb: str, number: int, unit: str = "u-0") -> HandlerAction:
    return HandlerAction(verb, "l", unit, number, {})


def test_the_world_outlives_its_handlers() -> None:
    async def run() -> None:
        world = World()
        assert (await SimulatedHandler(world).act(action("setup", 1))).facts == {"on": True}
        again = SimulatedHandler(world)
        assert await again.probe("u-0") == {"on": True, "lease": "l", "number": 1}
        assert world.on() == {"u-0"}
        with pytest.raises(Stale, match="action 0 on u-0 is older than action 1"):
            await again.act(action("teardown", 0))
        assert (await again.act(action("teardown", 2))).well
        assert await again.probe("u-0") is None
        assert world.units["u-0"].history == [("setup", 1, "done"), ("teardown", 0, "stale"), ("teardown", 2, "done")]

    asyncio.run(run())


def test_actions_take_the_ticks_of_a_clock_moved_by_hand() -> None:
    async def run() -> None:
        world = World(delay=lambda action, chance: 3)
        world.moved(10)
        task = asyncio.create_task(SimulatedHandler(world).act(action("setup", 1)))
        await asyncio.sleep(0)
        for now in (11, 12):
            world.moved(now)
            await asyncio.sleep(0)
            assert not task.done()
            assert not world.on()
        world.moved(13)
        await asyncio.wait_for(task, 10)
        assert world.on() == {"u-0"}
        assert not world.overlaps

    asyncio.run(run())


def test_overlapping_actions_are_noticed_and_cancelled_ones_do_nothing() -> None:
    async def run() -> None:
        world = World(delay=lambda action, chance: 1)
        first = asyncio.create_task(world.act(action("setup", 1)))
        await asyncio.sleep(0)
        second = asyncio.create_task(world.act(action("teardown", 2)))
        await asyncio.sleep(0)
        assert world.overlaps == ["teardown 2 on u-0"]
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        world.moved(5)
        assert world.units["u-0"].history == [("setup", 1, "cancelled"), ("teardown", 2, "cancelled")]
        assert not world.on()

    asyncio.run(run())


def test_failures_are_the_same_for_the_same_seed() -> None:
    async def run(seed: int) -> list[str]:
        world = World(fails=lambda action, chance: chance.random() < 0.5, seed=seed)
        for number in range(40):
            with suppress(HandlerError):
                await world.act(action("setup", number))
        return [became for _, _, became in world.units["u-0"].history]

    first, again, other = (asyncio.run(run(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {*first} == {"done", "failed"}


def test_null_does_nothing_well() -> None:
    async def run() -> None:
        handler = NullHandler()
        assert (await handler.act(action("join", 1))).well
        assert await handler.probe("u-0") is None
        await handler.close()

    asyncio.run(run())
