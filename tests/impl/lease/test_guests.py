"""Guests of a running holder: each is where its unit is up, also where a loss and its repair are heard of at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.table import BELOW
from leasehold.impl.handlers.handler import Done, HandlerAction, NullHandler


class Guests(NullHandler):
    """Does nothing, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    async def act(self, action: HandlerAction) -> Done:
        self.asked.append((action.verb, action.properties["name"]))
        return Done(True)


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_guest_joins_anew_after_its_unit_was_set_up_again(away: bool, times: int) -> None:
    guests = Guests()
    async with Cluster(units=3, guest=guests, settings={"repair_limit": 2}) as cluster:
        lease = await cluster.lease(2, until=1000, term=500)
        assert sorted(guests.asked) == [("join", "unit-0"), ("join", "unit-1")]
        guests.asked.clear()
        if away:
            await cluster.kill("tenant")
        for _ in range(times):
            await cluster.site.tell(BELOW, "unit[0]", "lost")
            await cluster.settle()
        if away:
            await cluster.start("tenant")
            await asyncio.sleep(60)
            await cluster.settle()
        expected = [("join", "unit-0")] if away else [("leave", "unit-0"), ("join", "unit-0")] * times
        assert guests.asked == expected
        assert cluster.state(lease) == ("active", "ticketed", "active")


@pytest.mark.parametrize("away", [False, True])
async def test_a_guest_joins_anew_on_a_unit_that_was_taken_in_its_own_place(away: bool) -> None:
    """The site has no other unit, so it tears the lost one down and sets it up as if it were another."""
    guests = Guests()
    settings = {"repair_limit": 0, "replace_limit": 1}
    async with Cluster(units=2, guest=guests, settings=settings) as cluster:
        lease = await cluster.lease(2, until=1000, term=500)
        guests.asked.clear()
        if away:
            await cluster.kill("tenant")
        await cluster.site.tell(BELOW, "unit[0]", "lost")
        await cluster.settle()
        if away:
            await cluster.start("tenant")
            await asyncio.sleep(60)
            await cluster.settle()
        assert guests.asked == [("join", "unit-0")]
        assert cluster.state(lease) == ("active", "ticketed", "active")
