"""Limits on the connections to an HTTP server: their number, from one address and in all, and how slow they may be.

Theory of operation. The web framework limits the content of requests. It limits neither how slowly one comes, nor how
many connections there are; a guard around each connection does, at every port: for messages, for metrics, and at the
control socket. Where there are too many, the oldest one that may go makes room: one over which nothing proven came, and
no request is being answered. If none may go, the new one is refused. Who loses its connection so is told why, with
status 503, if it has not begun to hear another answer.

The limits of all ports hold together by the process's descriptors: the system gives each the lowest free number, so a
connection with a number in the reserve says that all below it are taken. The reserve is for handlers, for the store,
and for the control socket, whose own reserve is smaller.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiohttp import web

from leasehold.impl.transport.limits import Connection, SparseLog, TransportLimits

_log = logging.getLogger(__name__)


class Keeper(Protocol):
    """The keeper of a port, which guards ask for its limits and tell what is noted of those who come.

    Attributes:
        limits: of the port.
    """

    limits: TransportLimits

    def note(self, kind: str, message: str, *values: object) -> None:
        """Logs events that strangers cause, at a bounded rate."""

    def refused(self, connection: Connection, reason: str) -> None:
        """Counts a refusal."""


class PortKeeper:
    """The keeper of a port at which nobody proves who it is.

    Args:
        limits: of the port.
        port: its name in the log.
    """

    def __init__(self, limits: TransportLimits, port: str) -> None:
        self.limits, self._port, self._sparse = limits, port, SparseLog(_log, 1 / 60, 3)

    def note(self, kind: str, message: str, *values: object) -> None:
        self._sparse.warning(time.monotonic(), kind, f"{self._port}: {message}", *values)

    def refused(self, connection: Connection, reason: str) -> None:
        connection.tried = True


class Guards:
    """The guards of one server.

    Args:
        reception: has the limits, and hears of what is refused.
        make: the framework's own protocol for a connection.
        patience_seconds: for which a new connection need not make room for another.
    """

    def __init__(self, reception: Keeper, make: Callable[[], asyncio.Protocol], patience_seconds: float = 0.0) -> None:
        self.reception, self.make, self.patience_seconds = reception, make, patience_seconds
        self.count: Counter[str] = Counter()
        self.by_transport: dict[asyncio.Transport, Guard] = {}

    def __call__(self) -> Guard:
        return Guard(self)

    def make_room(self, transport: asyncio.Transport, address: str) -> str:
        """Lets others go for a new connection, if there are too many; returns why it may not stay, or nothing."""
        limits = self.reception.limits
        if self.count[address] > limits.connections:
            kind, among, reason = "connections", address, f"{address or 'this socket'} has {limits.connections} already"
        elif self.count.total() > limits.connections_in_all:
            kind, among, reason = "in all", None, f"there are {limits.connections_in_all} connections already"
        elif not _spare(transport, limits.reserve):
            kind, among, reason = "descriptors", None, "the process has no descriptors to spare"
        else:
            return ""
        self.reception.note(kind, "closed a connection of %s: %s", address or "a client", reason)
        other = self.unproven(address) if among is not None else self._of_the_greediest()
        if other is None:
            return reason
        guard = self.by_transport.pop(other)  # it is lost only later, and others may come before
        guard.leave(reason)
        # One in the reserve goes itself, and the next one finds room: a number says how many there are only when given.
        return reason if kind == "descriptors" else ""

    def unproven(self, address: str) -> asyncio.Transport | None:
        """The oldest connection from an address that may go, if there is one."""
        among = self.by_transport.items()
        return next((t for t, guard in among if guard.connection.address == address and guard.may_go), None)

    def _of_the_greediest(self) -> asyncio.Transport | None:
        """The oldest connection that may go, of the address that has the most of them."""
        for address, _ in self.count.most_common():
            if (transport := self.unproven(address)) is not None:
                return transport
        return None

    def asked(self, transport: asyncio.Transport | None) -> None:
        """A whole request has come over a connection."""
        if transport is not None and (guard := self.by_transport.get(transport)) is not None:
            guard.asked()

    async def watched(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answers a request; every one passes here, so that its connection is known to be alive."""
        transport = request.transport
        self.asked(transport)
        try:
            return await handler(request)
        finally:
            if transport is not None and (guard := self.by_transport.get(transport)) is not None:
                guard.answered()


def _spare(transport: asyncio.Transport, reserve: int) -> bool:
    """Returns whether a connection leaves the reserve of descriptors alone."""
    plug, most = transport.get_extra_info("socket"), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return plug is None or plug.fileno() < most - min(reserve, most // 2)


class Guard(asyncio.Protocol):
    """One connection: everything is passed on, unless there are too many connections or one is too slow."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self._inner = asyncio.Protocol()  # until there is one of the framework, nothing happens
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self.connection = Connection("")
        self._began = 0.0
        self._spoke = self._asked = self._answering = False

    @property
    def may_go(self) -> bool:
        """Returns whether it may make room for another."""
        if self.connection.proven or self._answering:
            return False
        return asyncio.get_running_loop().time() >= self._began + self._guards.patience_seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        peer, loop = transport.get_extra_info("peername"), asyncio.get_running_loop()
        address = str(peer[0]) if peer else ""
        self._transport, self.connection, self._began = transport, Connection(address), loop.time()
        self._guards.count[address] += 1
        if reason := self._guards.make_room(transport, address):
            self.leave(reason)
            return
        self._guards.by_transport[transport] = self
        self._await_request()
        self._inner = self._guards.make()
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timers()
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
        if (
            self._asked and not self._answering and self._timer is None
        ):  # the next request has the same time as the first
            self._await_request()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        limits = self._guards.reception.limits
        if self._unread is None:
            self._unread = asyncio.get_running_loop().call_later(limits.taking_seconds, self._too_slow)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        self._inner.resume_writing()

    def asked(self) -> None:
        self._asked = self._answering = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def answered(self) -> None:
        self._answering = False

    def leave(self, reason: str) -> None:
        """Ends the connection, and says why where no answer has begun."""
        self._end_timers()
        if self._transport is None or self._transport.is_closing():
            return
        if self._asked:
            self._transport.abort()
            return
        self._spoke = False  # it had no time to make a request
        body = json.dumps({"error": f"too much is asked at the moment: {reason}; ask again"}).encode()
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 1"
        )
        self._transport.write(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        self._transport.close()

    def _await_request(self) -> None:
        seconds = self._guards.reception.limits.header_seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._too_slow)

    def _end_timers(self) -> None:
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        self._timer = self._unread = None

    def _too_slow(self) -> None:
        message = "closed a connection of %s: no request came in time, or no answer was taken"
        self._guards.reception.note("slow", message, self.connection.address or "a client")
        if self._transport is not None:
            self._transport.abort()


class GuardedServer:
    """An application that is served behind guards.

    Args:
        app: its routes, without the middleware of the guards.
        keeper: of the port.
        patience_seconds: for which a new connection need not make room for another.
        options: of the framework's runner.
    """

    def __init__(self, app: web.Application, keeper: Keeper, patience_seconds: float = 0.0, **options: Any) -> None:
        app.middlewares.insert(0, self._watched)
        self._runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=keeper.limits.idle_seconds, lingering_time=2.0, **options
        )
        self.guards = Guards(keeper, self._make, patience_seconds)
        self.server: asyncio.Server | None = None

    def _make(self) -> asyncio.Protocol:
        assert self._runner.server is not None
        return self._runner.server()

    @web.middleware
    async def _watched(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        return await self.guards.watched(request, handler)

    async def start(self, at: socket.socket | tuple[str | None, int], **options: Any) -> asyncio.Server:
        """Listens at a Unix socket, or at a host and port; `options` are those of the loop's `create_server`.

        Raises:
            OSError, OverflowError: it cannot.
        """
        await self._runner.setup()
        loop, backlog = asyncio.get_running_loop(), self.guards.reception.limits.backlog
        try:
            if isinstance(at, socket.socket):
                self.server = await loop.create_unix_server(self.guards, sock=at, backlog=backlog)
            else:
                self.server = await loop.create_server(self.guards, *at, backlog=backlog, **options)
                if not self.server.sockets:  # a lack of descriptors is no error to the loop, which listens nowhere then
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        except BaseException:
            await self._runner.cleanup()
            raise
        return self.server

    def listen_no_more(self) -> None:
        """Takes no more connections; those that are there go on."""
        if self.server is not None:
            self.server.close()

    async def close(self) -> None:
        """Ends all connections."""
        self.listen_no_more()
        await self._runner.cleanup()
