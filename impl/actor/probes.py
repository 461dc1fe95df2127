"""Probes: machines that are up outside are asked for from time to time, as nobody tells when one is not any more.

Theory of operation. A probe names a role and an event that only the world outside can give, such as `lost`. The
machines that are asked for are those that this event would move now, by the compiled role and the event's contract; so
what is coming up, or going down, is left to its handler. A handler that can say so (`SaysWhatIsUp`) answers whether the
unit is up. After `patience` misses in a row the event is put in the actor's queue, as any other from outside.

An answer counts for the state epoch at which it was asked for, and for no other: the unit may have been torn down and
set up again meanwhile. The epoch is compared when the answer comes, and once more in the turn that takes the event.

*What is not known is no miss.* A probe that fails, or hangs, says something about the way to the unit, and perhaps
nothing about the unit; a site whose probes cannot ask must not be torn down. Settings say otherwise.

A round is spread over the period. Those after a start are not, and ask for the machines that were recovered: a host
that has come back without its units is found as soon as `patience` allows. What was missed is forgotten with the
actor's memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from leasehold.impl.actor.environment import ActorContext, Probe
from leasehold.impl.actor.ready import Observe, Request
from leasehold.impl.actor.table import MachineInstance, MachinesOfActor
from leasehold.impl.core.work import CallWork, local
from leasehold.impl.descriptors import is_passing
from leasehold.impl.handlers.handler import NotBegun, SaysWhatIsUp
from leasehold.impl.notices import SimulatedCrash
from leasehold.impl.store.store import RecordKey

log = logging.getLogger("leasehold.probes")

SOON = 1.0  # seconds between rounds after a start, at most
SOON_ROUNDS = 5  # of these, at most
STEP = 0.02  # seconds by which a probe may be early, so that many do not sleep each
Guard = Callable[[Callable[[], Awaitable[None]]], Coroutine[Any, Any, None]]


class ProbeResult(StrEnum):
    """The outcome of one probe."""

    UP = "up"
    MISSED = "missed"  # it is not up
    HUNG = "hung"  # no answer within the limit
    FAILED = "failed"  # the handler could not ask
    UNKNOWN = "unknown"  # no handler can say, or the system lacks what it takes to ask
    STALE = "stale"  # the machine has moved on meanwhile


class UnitProbes:
    """The probes of one actor.

    Args:
        context: of the actor.
        at_work: whether an action on a machine is under way.
        put: takes what was found.
        guard: runs a loop whose error ends the actor.

    Attributes:
        counts: of results, by role.
    """

    def __init__(
        self, context: ActorContext, at_work: Callable[[RecordKey], bool], put: Callable[[Request], None], guard: Guard
    ) -> None:
        self.context, self.table = context, context.table
        self.at_work, self._put, self._guard = at_work, put, guard
        self.counts: Counter[tuple[str, str]] = Counter()
        self._places: dict[Probe, asyncio.Semaphore] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._asking: dict[tuple[Probe, RecordKey], asyncio.Task[None]] = {}
        # Misses in a row, and the state epoch that they are about.
        self._missed: dict[tuple[Probe, RecordKey], tuple[int, int]] = {}
        # Of which it was said that it is not known whether they are up; of a probe that no handler knows anything for.
        self._silent: set[tuple[Probe, RecordKey]] = set()
        self._idle: set[Probe] = set()

    @property
    def probes(self) -> tuple[Probe, ...]:
        return self.context.environment.probes

    @property
    def asking(self) -> int:
        """Returns how many machines are being asked for."""
        return len(self._asking)

    def open(self) -> None:
        """Begins, with nothing missed."""
        loop = asyncio.get_running_loop()
        self._missed.clear()
        self._silent.clear()
        self._idle.clear()
        self._places = {probe: asyncio.Semaphore(probe.settings.at_once) for probe in self.probes}
        for probe in self.probes:
            self._loops.append(loop.create_task(self._guard(partial(self._rounds, probe))))

    async def close(self) -> None:
        """Asks no more; what is being asked counts for nothing."""
        me = asyncio.current_task()
        ending = [task for task in (*self._loops, *self._asking.values()) if task is not me]
        self._loops.clear()
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._asking.clear()  # one that is cancelled before its first step does nothing at all

    async def round(self) -> None:
        """Asks for all machines now, each once, and waits for the answers."""
        for probe in self.probes:
            await self._round(probe, 0.0)
        while self._asking:
            await asyncio.wait(self._asking.values())

    # Rounds

    async def _rounds(self, probe: Probe) -> None:
        settings, now = probe.settings, asyncio.get_running_loop().time
        recovered = {key: instance.state_epoch for key, instance in self.table.instances.items()}
        for _ in range(min(settings.patience, SOON_ROUNDS)):
            await asyncio.sleep(min(SOON, settings.every))
            await self._round(probe, 0.0, recovered)
        while True:
            began = now()
            await self._round(probe, settings.every)
            await asyncio.sleep(max(0.0, began + settings.every - now()))

    async def _round(self, probe: Probe, over: float, among: Mapping[RecordKey, int] | None = None) -> None:
        """Asks for each machine; one for which an answer is still awaited is left out.

        Args:
            probe: which.
            over: so many seconds; 0: at once.
            among: the state epochs of those that count, where not all do.
        """
        loop = asyncio.get_running_loop()
        for gone in [pair for pair in (*self._missed, *self._silent) if pair[1] not in self.table.instances]:
            self._missed.pop(gone, None)
            self._silent.discard(gone)
        keys = [
            key
            for key, instance in self.table.instances.items()
            if (among is None or among.get(key) == instance.state_epoch) and self.is_due(probe, instance)
        ]
        began = loop.time()
        for at, key in enumerate(keys):
            ahead = began + over * at / len(keys) - loop.time()
            if ahead > STEP:
                await asyncio.sleep(ahead)
            await self._places[probe].acquire()
            instance = self.table.instances.get(key)  # it may have moved on while others were asked for
            if instance is None or (probe, key) in self._asking or not self.is_due(probe, instance):
                self._places[probe].release()
                continue
            self._asking[probe, key] = loop.create_task(self._ask(probe, instance, instance.state_epoch))

    def is_due(self, probe: Probe, instance: MachineInstance) -> bool:
        """Returns whether the event would move a machine now, and none of its own actions may."""
        if instance.core.role != probe.role:
            return False
        machines = MachinesOfActor(self.table, instance)
        _, outcome = instance.core.step_outside(instance.record, local(probe.event), self.context.clock.now(), machines)
        return outcome.taken and not self.at_work(instance.key)

    # Answers

    async def _ask(self, probe: Probe, instance: MachineInstance, epoch: int) -> None:
        try:
            result = await self._result(probe, instance)
        finally:
            self._places[probe].release()
            del self._asking[probe, instance.key]
        self._judge(probe, instance.key, epoch, result)

    async def _result(self, probe: Probe, instance: MachineInstance) -> ProbeResult:
        """Returns what the first handler of the machine says that knows; else how they failed."""
        name, result, reason = self.name_of(instance), ProbeResult.UNKNOWN, ""
        for handler in self._handlers(instance):
            try:
                async with asyncio.timeout(probe.settings.longest):
                    up = await handler.is_up(name)
                if up is not None and not isinstance(up, bool):
                    raise TypeError(f"the handler returned {up!r:.80}, which is neither a bool nor None")
            except TimeoutError:
                result, reason = ProbeResult.HUNG, f"no answer within {probe.settings.longest:g} s"
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                result, reason = ProbeResult.FAILED, "it has cancelled itself"
            except (SimulatedCrash, GeneratorExit):
                raise
            except BaseException as error:  # also an exit that a handler raises, which would end the actor
                lacks = is_passing(error) or isinstance(error, NotBegun)  # nobody was asked
                result = ProbeResult.UNKNOWN if lacks else ProbeResult.FAILED
                reason = f"{type(error).__name__}: {error}"
            else:
                if up is not None:
                    self._silent.discard((probe, instance.key))
                    return ProbeResult.UP if up else ProbeResult.MISSED
        self._tell(probe, instance.key, name, reason)
        return result

    def _tell(self, probe: Probe, key: RecordKey, name: str, reason: str) -> None:
        """Logs once, and not in every round, that it is not known whether a machine is up."""
        if reason and (probe, key) not in self._silent:
            self._silent.add((probe, key))
            log.warning("whether %s is up is not known: %s", name, reason)
        elif not reason and probe not in self._idle:
            self._idle.add(probe)
            log.warning(
                "no handler of %s can say whether one is up, so none is found to be %s", probe.role, probe.event
            )

    def _judge(self, probe: Probe, key: RecordKey, epoch: int, result: ProbeResult) -> None:
        instance = self.table.instances.get(key)
        if instance is None or instance.state_epoch != epoch or not self.is_due(probe, instance):
            result = ProbeResult.STALE
        self.counts[probe.role, result] += 1
        counts_as_missed = {
            ProbeResult.MISSED: True,
            ProbeResult.HUNG: probe.settings.hung_is_missed,
            ProbeResult.FAILED: probe.settings.failed_is_missed,
        }
        if result in (ProbeResult.UP, ProbeResult.STALE):
            self._missed.pop((probe, key), None)
        elif counts_as_missed.get(result) and instance is not None:
            before, missed = self._missed.get((probe, key), (epoch, 0))
            missed = missed + 1 if before == epoch else 1
            patience, name = probe.settings.patience, self.name_of(instance)
            log.info("%s is not up, by probe %d of %d (%s)", name, missed, patience, result)
            self._missed[probe, key] = epoch, missed
            if missed >= patience:
                del self._missed[probe, key]
                log.warning("%s is found to be %s: it was missed %d times", name, probe.event, missed)
                self._put(Observe(key, probe.event, epoch))

    # Machines outside

    def name_of(self, instance: MachineInstance) -> str:
        """Returns what its handlers know a machine by: a unit by its persistent name, another by its run."""
        return self.context.environment.unit_name(instance) if instance.core.subsidiary else instance.key.lease

    def _handlers(self, instance: MachineInstance) -> Iterator[SaysWhatIsUp]:
        """The handlers that a machine calls and that can say what is up, each once."""
        calls = (piece for state in instance.core.states for piece in instance.core.work[state](instance.record))
        targets = (piece.target for piece in calls if isinstance(piece, CallWork))
        handlers: dict[int, SaysWhatIsUp] = {}
        for target in targets:
            handler: Any = self.context.environment.handler(instance.core.role, target)
            if isinstance(handler, SaysWhatIsUp):
                handlers[id(handler)] = handler
        yield from handlers.values()
