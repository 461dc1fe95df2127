"""The events of a running actor, for followers (paper, section 5.3): read after a position, and acknowledged.

A follower reads the lines after the last event that it has, keeps them, and acknowledges. The actor drops no event that
a follower has not acknowledged, up to a bound. Reading the same lines again does no harm, so a follower that has
crashed goes on from what it has kept.
"""

from __future__ import annotations

import time
from typing import Any

from aiohttp import web

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.ready import Follow, SealEvents
from leasehold.impl.events.event import ROOT, digest
from leasehold.impl.events.lines import write_lines
from leasehold.impl.identity.trust import NAME

PAGE = 1000  # events in one answer


class EventFeed:
    """Tells the events of an actor.

    Args:
        actor: whose.
    """

    def __init__(self, actor: Actor) -> None:
        self.actor, self.chronicle = actor, actor.chronicle

    def state(self) -> dict[str, Any]:
        """Returns which events there are, and how far followers are. What is not written yet is of `now` or later."""
        head = self.chronicle.head
        return {
            "now": self.actor.clock.now(),
            "time": round(self.chronicle.wall(), 3),
            "first": self.chronicle.first,
            "last": head.position,
            "digest": head.digest,
            "sealed": head.sealed,
            "writes": self.chronicle.settings is not None,
            "followers": self.chronicle.followers(),
        }

    async def read(self, after: int, limit: int) -> list[bytes]:
        """The lines of at most so many events above a position (impl/events/lines.py).

        Raises:
            ActorError: the events after that position are dropped.
        """
        store, first = self.actor.store, self.chronicle.first
        if after and after < first - 1:
            raise ActorError(f"the events up to {first - 1} are dropped; read on after that one, or from 0")
        kept = [item async for item in store.events(max(0, after - 1), limit + 1)]
        before = [body for position, body in kept if position <= after]
        bodies = [body for position, body in kept if position > after][:limit]
        at = after, digest(before[0]) if before else ROOT
        if after and not before and not bodies:
            raise ActorError(f"event {after} has not been written yet")
        return [*write_lines(self.actor.identity.name, bodies, round(time.time(), 3), at, self.actor.identity.key)]

    # Requests

    def routes(self) -> list[web.RouteDef]:
        """Returns what is told and taken at the control socket."""
        return [
            web.get("/events", self._read),
            web.get("/events/state", self._state),
            web.post("/events/seal", self._seal),
            web.post("/followers/{follower}/acknowledge/{position}", self._follow),
            web.post("/followers/{follower}/leave", self._follow),
        ]

    async def _state(self, request: web.Request) -> Any:
        return await self.actor.read(self.state)

    async def _read(self, request: web.Request) -> web.Response:
        after, limit = _number(request.query.get("after", "0")), _number(request.query.get("limit", str(PAGE)))
        lines = await self.read(after, min(max(limit, 1), PAGE))
        return web.Response(body=b"\n".join((*lines, b"")), content_type="application/x-ndjson")

    async def _seal(self, request: web.Request) -> Any:
        await self.actor.queue.put(SealEvents("asked"))
        return self.state()

    async def _follow(self, request: web.Request) -> Any:
        name, position = request.match_info["follower"], request.match_info.get("position")
        if not NAME.fullmatch(name):
            raise ActorError(f"{name[:80]!r} cannot be a follower's name; use letters, digits, `.`, `_` and `-`")
        await self.actor.queue.put(Follow(name, None if position is None else _number(position)))
        return self.state()


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise ActorError(f"a position or limit is a number, not {text[:40]!r}")
    return int(text)
