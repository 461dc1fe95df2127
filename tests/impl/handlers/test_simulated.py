"""The simulated world, and the handler that does nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from leasehold.impl.handlers.handler import HandlerAction, HandlerError, NullHandler, Stale
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits

pytestmark = pytest.mark.real_time


def action(verb: str, number: int, unit: str = "u-0") -> HandlerAction:
    return HandlerAction(verb, "l", unit, number, {})


async def test_the_world_outlives_its_handlers() -> None:
    world = SimulatedUnits()
    assert (await SimulatedHandler(world).act(action("setup", 1))).facts == {"on": True}
    again = SimulatedHandler(world)
    assert await again.probe("u-0") == {"on": True, "lease": "l", "number": 1}
    assert world.on() == {"u-0"}
    with pytest.raises(Stale, match="action 0 on u-0 is older than action 1"):
        await again.act(action("teardown", 0))
    assert (await again.act(action("teardown", 2))).well
    assert await again.probe("u-0") is None
    assert world.units["u-0"].history == [("setup", 1, "done"), ("teardown", 0, "stale"), ("teardown", 2, "done")]


async def test_actions_take_the_ticks_of_a_clock_moved_by_hand() -> None:
    world = SimulatedUnits(delay=lambda action, chance: 3)
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


async def test_overlapping_actions_are_noticed_and_cancelled_ones_do_nothing() -> None:
    world = SimulatedUnits(delay=lambda action, chance: 1)
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


def test_failures_are_the_same_for_the_same_seed() -> None:
    async def run(seed: int) -> list[str]:
        world = SimulatedUnits(fails=lambda action, chance: chance.random() < 0.5, seed=seed)
        for number in range(40):
            with suppress(HandlerError):
                await world.act(action("setup", number))
        return [became for _, _, became in world.units["u-0"].history]

    first, again, other = (asyncio.run(run(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {*first} == {"done", "failed"}


async def test_the_last_action_counts_and_says_for_which_lease() -> None:
    """Units by setup and teardown, leases by join and leave; what is no such verb changes nothing."""
    world = SimulatedUnits()
    steps = [
        ("setup", "u-0", True),
        ("modify", "u-0", True),
        ("setup", "u-0", True),
        ("teardown", "u-0", False),
        ("modify", "u-0", True),
        ("rest", "u-0", True),
        ("teardown", "u-0", False),
        ("rest", "u-0", False),
        ("join", "", True),
        ("leave", "", False),
        ("leave", "", False),
    ]
    for number, (verb, unit, on) in enumerate(steps):
        done = await world.act(HandlerAction(verb, f"l{number}" if unit else "l", unit, number, {}))
        assert (done.well, done.facts) == (True, {"on": on})
        state = world.units[unit or "l"]
        lease = f"l{number}" if unit and verb != "rest" else state.lease if unit else "l"
        assert (state.on, state.lease, state.number) == (on, lease if on else "", number)
        assert world.on() == ({unit or "l"} if on else set())
        assert not state.busy
    with pytest.raises(Stale):
        await world.act(action("setup", 6))
    assert (await world.act(action("setup", 7))).well, "the same number again is no older one"
    assert await SimulatedHandler(world).probe("nobody") is None
    assert await SimulatedHandler().probe("u-0") is None


async def test_a_failure_leaves_the_unit_as_it_was() -> None:
    world = SimulatedUnits(fails=lambda action, chance: action.number in (2, 4))
    await world.act(action("setup", 1))
    for number in (2, 4):
        with pytest.raises(HandlerError, match="failed, as the simulation wanted"):
            await world.act(action("teardown", number))
        state = world.units["u-0"]
        assert (state.on, state.lease, state.number, state.busy) == (True, "l", number, False)
    assert world.units["u-0"].history[1:] == [("teardown", 2, "failed"), ("teardown", 4, "failed")]


async def test_actions_that_are_due_end_and_no_others() -> None:
    world = SimulatedUnits(delay=lambda action, chance: action.number)
    tasks = [asyncio.create_task(world.act(action("setup", n, f"u-{n}"))) for n in (0, 1, 2, 3)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert world.on() == {"u-0"}, "without ticks it ends at once"
    tasks[2].cancel()
    for now, on in ((0, {"u-0"}), (1, {"u-0", "u-1"}), (2, {"u-0", "u-1"}), (5, {"u-0", "u-1", "u-3"})):
        world.moved(now)
        for _ in range(3):
            await asyncio.sleep(0)
        assert world.on() == on
    assert not world._waiting


async def test_null_does_nothing_well() -> None:
    handler = NullHandler()
    assert (await handler.act(action("join", 1))).well
    assert await handler.probe("u-0") is None
    await handler.close()


async def test_a_unit_is_up_until_it_is_lost() -> None:
    handler = SimulatedHandler()
    assert not await handler.is_up("u-0")
    await handler.act(HandlerAction("setup", "l", "u-0", 1, {}))
    assert await handler.is_up("u-0")
    handler.world.lose("u-0")
    assert not await handler.is_up("u-0")
    await handler.act(HandlerAction("setup", "l", "u-0", 2, {}))
    assert await handler.is_up("u-0")
