"""The detector of agents: who is silent, who answers in another's place, and who is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from leasehold.impl.agent.detector import AgentDetector, WatchedHost
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.identity import alive, trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.processes.fleet import free_ports
from leasehold.impl.raised import RaisedEvent

pytestmark = pytest.mark.real_time
UNITS = [{"name": f"u-{n}", "properties": {"host": ("left", "right")[n % 2]}} for n in range(4)]


class Place:
    """Addresses at which agents are, or are not."""

    def __init__(self, folder: Path) -> None:
        self.ports = dict(zip(("left", "right"), free_ports(2), strict=True))
        self.keys = {name: PrivateKey.generate() for name in self.ports}
        trust = Trust()
        for name, port in self.ports.items():
            trust = add(trust, name, "agent", self.keys[name].public, f"http://127.0.0.1:{port}")
        self.trust = folder / "trust.yaml"
        trust_file.save(self.trust, trust)
        self.known = trust
        self._runners: dict[str, web.AppRunner] = {}

    async def __aenter__(self) -> None:
        for name in self.ports:
            await self.serve(name, name)

    async def __aexit__(self, *error: object) -> None:
        for name in [*self._runners]:
            await self.end(name)

    async def serve(self, at: str, name: str, key: PrivateKey | None = None) -> None:
        """An actor answers at an address."""
        app = web.Application()
        app.add_routes([alive.route(Identity(name, key or self.keys[name], self.known))])
        self._runners[at] = web.AppRunner(app)
        await self._runners[at].setup()
        await web.TCPSite(self._runners[at], "127.0.0.1", self.ports[at]).start()

    async def end(self, at: str) -> None:
        await self._runners.pop(at).cleanup()

    def detector(self) -> AgentDetector:
        inventory = Inventory.parse({"units": UNITS})
        return AgentDetector(inventory, str(self.trust), every_seconds=0.05, silent_seconds=0.3)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def found(watch: AsyncIterator[RaisedEvent], count: int) -> list[RaisedEvent]:
    return [await asyncio.wait_for(anext(watch), 10) for _ in range(count)]


async def test_units_of_an_agent_that_is_silent_are_lost_once(place: Place) -> None:
    async with place, aclosing(place.detector().watch()) as watch:  # type: ignore[type-var]
        waiting = asyncio.ensure_future(anext(watch))
        assert not (await asyncio.wait([waiting], timeout=0.8))[0], "both answer"
        await place.end("left")
        raised = [await waiting, *await found(watch, 1)]
        assert [(one.event, one.unit) for one in raised] == [("lost", "u-0"), ("lost", "u-2")]
        assert "the agent of left has given no sign of life for 0." in raised[0].reason
        waiting = asyncio.ensure_future(anext(watch))
        assert not (await asyncio.wait([waiting], timeout=0.8))[0], "said once"
        await place.serve("left", "left")
        await asyncio.sleep(0.3)
        await place.end("left")
        assert [one.unit for one in [await waiting, *await found(watch, 1)]] == ["u-0", "u-2"], "silent again"


async def test_another_actor_at_the_address_of_an_agent_is_none(place: Place) -> None:
    """Two hosts with one address: the one that answers is not the one that is meant."""
    async with place, aclosing(place.detector().watch()) as watch:  # type: ignore[type-var]
        await place.end("left")
        await place.serve("left", "right")
        raised = await found(watch, 2)
        assert {one.unit for one in raised} == {"u-0", "u-2"}
        assert "'right' answers at its address" in raised[0].reason


@pytest.mark.parametrize("key", [PrivateKey.generate(), None])
async def test_a_sign_of_life_needs_the_key_of_its_actor(place: Place, key: PrivateKey | None) -> None:
    challenge = alive.drawn()
    async with place, aiohttp.ClientSession() as session:
        await place.end("left")
        await place.serve("left", "left", key)
        async with session.get(f"http://127.0.0.1:{place.ports['left']}/alive/{challenge}") as response:
            body = await response.read()
    assert bool(alive.refused("left", challenge, body, place.known)) == (key is not None)
    assert alive.refused("left", alive.drawn(), body, place.known), "an answer to another challenge"
    assert alive.refused("right", challenge, body, place.known)
    for other in (b"", b"{}", b"\xff", b"[1]"):
        assert alive.refused("left", challenge, other, place.known) == "what answers at its address is no actor"


async def test_a_long_challenge_is_not_signed(place: Place) -> None:
    async with (
        place,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{place.ports['left']}/alive/{'x' * 65}") as response,
    ):
        assert response.status == 400


def row(state: str, verb: str = "teardown", well: bool = True) -> dict[str, Any]:
    return {"state": state, "data": {"verb": verb, "well": well}}


@pytest.mark.parametrize(
    ("row", "raised", "unsure"),
    [
        (row("down"), ["u-0"], False),
        (row("asking"), [], True),
        (row("down", well=False), [], False),
        (row("down", verb="setup"), [], False),
        (row("up", verb="setup"), [], False),
        (None, [], True),
    ],
)
def test_a_unit_that_its_agent_has_torn_down_needs_no_quarantine(
    row: dict[str, Any] | None, raised: list[str], unsure: bool
) -> None:
    host = WatchedHost(["u-0"], 0.0, unsure=frozenset({"u-0"}))
    rows = {} if row is None else {"u-0": row}
    assert [(one.event, one.unit) for one in AgentDetector._torn_down(host, rows)] == [("repaired", u) for u in raised]
    assert bool(host.unsure) == unsure
    silent = WatchedHost(["u-0"], 0.0, silent=True, unsure=frozenset({"u-0"}))
    assert not [*AgentDetector._torn_down(silent, rows)]


def test_settings_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    trust = tmp_path / "trust.yaml"
    trust_file.save(trust, Trust())
    inventory = Inventory.parse({"units": UNITS})
    for wrong in ({"every_seconds": 0}, {"every_seconds": 3, "silent_seconds": 2}, {"longest_seconds": 0}):
        with pytest.raises(HandlerError, match="every_seconds"):
            AgentDetector(inventory, str(trust), **wrong)
    for none in (None, Inventory.parse({"units": [{"name": "u", "count": 2}]})):
        with pytest.raises(HandlerError, match="the property `host`"):
            AgentDetector(none, str(trust))
