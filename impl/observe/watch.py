"""All observers of an actor in one call, and its metrics by HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from leasehold.impl.actor.actor import Actor
from leasehold.impl.observe.journal import Journal
from leasehold.impl.observe.metrics import Metrics

if TYPE_CHECKING:
    from leasehold.impl.observe.traces import Traces


class WatchError(Exception):
    """The settings of observation cannot be used; the operator has to correct them."""


class Watch:
    """The observers of an actor.

    Attributes:
        journal: its log.
        metrics: its metrics.
        traces: its traces, if they are switched on.
    """

    def __init__(self, actor: Actor, traces: bool = False) -> None:
        made = _traces(actor) if traces else None
        self.journal, self.metrics, self.traces = Journal(actor), Metrics(actor), made

    def close(self) -> None:
        """Stops observing."""
        self.journal.close()
        self.metrics.close()
        if self.traces is not None:
            self.traces.close()

    async def serve(self, place: str) -> Callable[[], Awaitable[None]]:
        """Answers GET /metrics at HOST:PORT; returns a function that ends that.

        Raises:
            WatchError: the address is none, or cannot be listened on.
        """
        host, port = host_and_port(place)
        app = web.Application()
        app.add_routes([web.get("/metrics", self._metrics)])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await runner.cleanup()
            raise WatchError(f"metrics: nothing can listen at {place}: {error.strerror or error}") from None
        return runner.cleanup

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self.metrics.render(), headers={"Content-Type": self.metrics.content_type})


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
