"""The process of an actor: it starts, serves until it is asked to end, and ends well.

Theory of operation. SIGTERM and SIGINT end it gracefully: what was accepted is committed, units go on. A second signal
ends it at once, which is no worse than a crash, and a crash loses nothing. When a newer incarnation takes the store the
process ends by itself, with words that say so.

A store that cannot be opened at the start, but may be a moment later, is waited for: machines that start together do
not start in order. What only an operator can cure ends the process, so that nobody believes that it will serve.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import EnvironmentMismatch
from leasehold.impl.core.codec import RecordError
from leasehold.impl.descriptors import hear_of_lack, raise_limit
from leasehold.impl.observe import logs
from leasehold.impl.observe.watch import watch
from leasehold.impl.server.build import Built
from leasehold.impl.server.config import Config, ConfigError
from leasehold.impl.server.control import ControlSocket
from leasehold.impl.server.subscribers import Archive, crash_subscriber
from leasehold.impl.server.views import Views
from leasehold.impl.store.store import StoreError, Transient
from leasehold.impl.transport.transport import TransportError
from leasehold.spec import SHIPPED

log = logging.getLogger("leasehold.server")


async def serve(*actors: Built, ready: Callable[[str], None] = lambda address: None) -> None:
    """Runs actors until a signal ends them. The end of one, whatever its reason, is the end of all.

    Args:
        actors: each with a configuration of its own.
        ready: told the address of each once it serves.

    Raises:
        ConfigError: one cannot begin.
        StoreError: another incarnation has taken the store of one.
    """
    raise_limit()
    hear_of_lack(asyncio.get_running_loop())
    asked = _signals()
    tasks = [asyncio.ensure_future(_serve(built, ready, asked)) for built in actors]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not asked.done():
            asked.set_result(None)
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended


async def _serve(built: Built, ready: Callable[[str], None], asked: asyncio.Future[None]) -> None:
    """Runs an actor until it is asked to end."""
    actor, config = built.actor, built.config
    logs.act_as(config.name, actor.program.digest)
    async with AsyncExitStack() as ends:
        observed = watch(actor, traces=config.traces)
        ends.callback(observed.close)
        observed.watchdog.limit = config.stall_seconds
        observed.watchdog.start()
        if (dies := crash_subscriber()) is not None:
            ends.callback(actor.notices.subscribe(dies))
        if config.archive:
            archive = Archive(Path(config.archive))
            ends.callback(archive.close)
            ends.callback(actor.notices.subscribe(archive))
        address = await _started(actor, config, asked)
        if address is None:
            log.info("ends before its store could be opened")
            return
        for handler in actor.environment.each_handler():
            ends.push_async_callback(handler.close)
        ends.push_async_callback(actor.stop)
        folder = "" if config.system in SHIPPED else str(Path(config.system).absolute())
        views = Views(actor, built.system, config.clock.tick_seconds, folder)
        shown = lambda: (observed.metrics.render(), observed.metrics.content_type)  # noqa: E731
        control = ControlSocket(actor, views, shown, config.serving.control_limits, built.clients)
        await control.start(config.socket)
        ends.push_async_callback(control.close)
        if config.metrics:
            ends.push_async_callback(await observed.serve(config.metrics, config.serving.metrics_limits))
        roles, digest = ", ".join(views.about()["roles"]), actor.program.digest[:12]
        log.info("serves %s of %s (%s) at %s", roles, actor.program.system, digest, address)
        if config.clock.file:
            log.warning("time is what %s says, as in a test: leases end when somebody writes so", config.clock.file)
        ready(address)
        over = asyncio.ensure_future(actor.over())
        await asyncio.wait([asked, over], return_when=asyncio.FIRST_COMPLETED)
        if over.done():
            over.result()
        over.cancel()
        log.info("ends: what it has taken is committed")


async def _started(actor: Actor, config: Config, asked: asyncio.Future[None]) -> str | None:
    """The address of an actor that serves, as soon as its store can be opened; None where it was asked to end before.

    Raises:
        ConfigError: it cannot start, and an operator has to see to that.
    """
    starting = asyncio.ensure_future(_start(actor, config))
    both: list[asyncio.Future[Any]] = [asked, starting]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        starting.cancel()  # where it is done this changes nothing
    with suppress(asyncio.CancelledError):
        return await starting
    return None


async def _start(actor: Actor, config: Config) -> str:
    pause = config.reopen_pause_seconds
    while True:
        try:
            with _many_objects():
                return await actor.start()
        except Transient as error:
            log.error("%s cannot start yet, and tries again in %g s: %s", config.name, pause, error)
        except (StoreError, RecordError, TransportError, EnvironmentMismatch) as error:
            raise ConfigError(f"{config.name} cannot start: {error}") from error
        await asyncio.sleep(pause)


@contextmanager
def _many_objects() -> Iterator[None]:
    """Collects garbage rarely: an actor's objects live long."""
    gc.disable()
    try:
        yield
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
    finally:
        gc.enable()


def _signals() -> asyncio.Future[None]:
    """Done at the first signal that asks for the end; the next one ends the process at once."""
    loop = asyncio.get_running_loop()
    asked = loop.create_future()

    def hear(number: signal.Signals) -> None:
        if not asked.done():
            asked.set_result(None)
        for other in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(other)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, hear, number)
    return asked
