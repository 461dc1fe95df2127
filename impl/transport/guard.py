"""Limits on connections to the HTTP server: their number from one address, and the time until the first request.

The web framework limits the content of requests. It limits neither how slowly a first request comes, nor how many
connections one address holds; a guard around each connection does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from leasehold.impl.transport.limits import Connection
from leasehold.impl.transport.reception import Reception


class Guards:
    """The guards of one server."""

    def __init__(self, reception: Reception, make: Callable[[], asyncio.Protocol]) -> None:
        """Takes a function that makes the framework's own protocol for a connection."""
        self.reception, self.make = reception, make
        self.count: Counter[str] = Counter()
        self.by_transport: dict[asyncio.Transport, Guard] = {}

    def __call__(self) -> Guard:
        return Guard(self)

    def unproven(self, address: str) -> asyncio.Transport | None:
        """The oldest connection from an address over which nothing proven came, if there is one."""
        among = self.by_transport.items()
        return next((t for t, g in among if g.connection.address == address and not g.connection.proven), None)

    def asked(self, transport: asyncio.Transport | None) -> None:
        """A whole request has come over a connection: from now on the framework's own limits hold."""
        if transport is not None and (guard := self.by_transport.get(transport)) is not None:
            guard.asked()


class Guard(asyncio.Protocol):
    """One connection: everything is passed on, unless there are too many connections or no request comes in time."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self._inner = asyncio.Protocol()  # until there is one of the framework, nothing happens
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.connection = Connection("")
        self._spoke = self._asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        reception, peer = self._guards.reception, transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        self._transport, self.connection = transport, Connection(address)
        self._guards.count[address] += 1
        if self._guards.count[address] > reception.limits.connections:
            reception.note("connections", "closed a connection: %s has %d", address, reception.limits.connections)
            if (other := self._guards.unproven(address)) is None:
                transport.abort()
                return
            del self._guards.by_transport[other]  # it is lost only later, and others may come before
            other.abort()
        self._guards.by_transport[transport] = self
        self._timer = asyncio.get_running_loop().call_later(reception.limits.header_seconds, self._too_slow)
        self._inner = self._guards.make()
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._guards.count[self.connection.address] -= 1
        if not self._guards.count[self.connection.address]:
            del self._guards.count[self.connection.address]
        if self._transport is not None:
            self._guards.by_transport.pop(self._transport, None)
        if self._spoke and not self._asked:
            self._guards.reception.refused(self.connection, "what was sent is no HTTP request")
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._spoke = True
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def asked(self) -> None:
        self._asked = True
        if self._timer is not None:
            self._timer.cancel()

    def _too_slow(self) -> None:
        words = "closed a connection of %s: no request came in time"
        self._guards.reception.note("slow", words, self.connection.address)
        if self._transport is not None:
            self._transport.abort()
