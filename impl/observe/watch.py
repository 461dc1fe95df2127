"""All observers of an actor in one call, and its metrics and health by HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from leasehold.impl.actor.actor import Actor
from leasehold.impl.observe.journal import Journal
from leasehold.impl.observe.metrics import Metrics
from leasehold.impl.observe.watchdog import Watchdog
from leasehold.impl.transport.guard import GuardedServer, PortKeeper
from leasehold.impl.transport.limits import LIMITS, TransportLimits

if TYPE_CHECKING:
    from leasehold.impl.observe.traces import Traces


class WatchError(Exception):
    """The settings of observation cannot be used; the operator has to correct them."""


class Watch:
    """The observers of an actor.

    Attributes:
        journal: its log.
        watchdog: says when its loop stands still, once it is started.
        metrics: its metrics.
        traces: its traces, if they are switched on.
    """

    def __init__(self, actor: Actor, traces: bool = False) -> None:
        tracer = _traces(actor) if traces else None
        self.actor, self.watchdog = actor, Watchdog(actor)
        self.journal, self.metrics, self.traces = Journal(actor), Metrics(actor, self.watchdog), tracer

    def close(self) -> None:
        """Stops observing."""
        self.watchdog.close()
        self.journal.close()
        self.metrics.close()
        if self.traces is not None:
            self.traces.close()

    async def serve(self, place: str, limits: TransportLimits = LIMITS) -> Callable[[], Awaitable[None]]:
        """Answers GET /metrics, /healthz and /readyz at HOST:PORT; returns a function that ends that.

        Args:
            place: HOST:PORT.
            limits: of the port.

        Raises:
            WatchError: the address is none, or cannot be listened on.
        """
        host, port = host_and_port(place)
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
            ]
        )
        server = GuardedServer(app, PortKeeper(limits, f"metrics of {self.actor.identity.name}"), shutdown_timeout=1.0)
        try:
            await server.start((host, port))
        except OSError as error:
            raise WatchError(f"metrics: nothing can listen at {place}: {error.strerror or error}") from None
        return server.close

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self.metrics.render(), headers={"Content-Type": self.metrics.content_type})

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(self.health)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(self.readiness)

    @property
    def health(self) -> str:
        """Returns why the process should be started anew, or nothing: its loop stands still."""
        still = self.watchdog.stalled_seconds
        return f"the loop of {self.actor.identity.name} has stood still for {still:.1f} s" if still else ""

    @property
    def readiness(self) -> str:
        """Returns why the actor takes no requests at the moment, or nothing."""
        if not self.actor.running:
            return f"{self.actor.identity.name} takes no steps, as it recovers or its store has failed"
        return self.health


def _answer(fault: str) -> web.Response:
    return web.Response(status=503 if fault else 200, text=f"{fault or 'ok'}\n")


def watch(actor: Actor, traces: bool = False) -> Watch:
    """Adds a journal, metrics and, if asked for, traces to an actor. Called before its start, they miss nothing.

    Raises:
        WatchError: there is no OpenTelemetry.
    """
    return Watch(actor, traces)


def _traces(actor: Actor) -> Traces:
    try:
        from leasehold.impl.observe.traces import Traces
    except ModuleNotFoundError as error:
        raise WatchError(
            f"traces: {error.name} is not installed; install leasehold[traces], or leave `traces` out"
        ) from None
    return Traces(actor)


def host_and_port(place: str) -> tuple[str, int]:
    """`127.0.0.1:9472`, `[::1]:9472`.

    Raises:
        WatchError: it is no such address.
    """
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise WatchError(f"metrics: {place[:80]!r} is no HOST:PORT; write, say, 127.0.0.1:9472")
    return host.removeprefix("[").removesuffix("]"), int(port)
