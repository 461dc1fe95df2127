"""The calls of handlers that a state has begun, and their answers.

Theory of operation (paper, sections 3.4 and 4.3). A call is begun after the commit of the state that asks for it, and
its answer names the epoch of that state; so an answer to a state that was left is dropped by the core. Recovery begins
a call anew, and what an earlier run of it still answers is dropped here, as only the last run of a task counts. Actions
on one unit never overlap: the one before is cancelled, and waited for, before the next begins. A handler that fails is
tried again a few times before its failure is answered.

A host that comes back with many machines begins all their actions in one turn; only so many tries are under way at
once, and the others wait in the order in which they began. Their machines' timers go on meanwhile. One that is given up
leaves the line; one that is tried again goes to its end, so that actions that hang do not hold up the rest for ever. A
handler that can do only so many at a time (`parallel`) has a line of its own. A try's time begins when its turn comes.

An action that could not be *begun*, as the system lacks descriptors, memory, processes or space at this moment, has not
failed: it is tried again until it can, with growing pauses, and no try is counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from leasehold.impl.actor.environment import RetryPolicy
from leasehold.impl.actor.ready import Complete, Raise
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.core import Named
from leasehold.impl.core.work import CallWork
from leasehold.impl.descriptors import is_passing
from leasehold.impl.handlers.handler import Done, Handler, HandlerAction, HandlerError, NotBegun, answer_of, checked
from leasehold.impl.notices import SimulatedCrash
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.limits import SparseLog

log = logging.getLogger("leasehold.calls")

LONGEST_DOUBLING = 5  # of the pause before an action that could not be begun is tried again

Answered = Callable[[Complete | Raise], None]


class HandlerCalls:
    """The handler calls of one actor that are under way.

    Attributes:
        waiting: how many of them wait, as the most tries at once are under way.
        counts: how often one could not be begun (`not begun`).
        unsure: the machines whose last action has not ended well, or not yet.
    """

    def __init__(
        self,
        handler: Callable[[str, str], Handler | None],
        answered: Answered,
        retry: RetryPolicy,
        counts: Counter[str] | None = None,
    ) -> None:
        self._handler, self._answered, self.retry = handler, answered, retry
        self.counts: Counter[str] = Counter() if counts is None else counts
        # By machine, and task or "" for a unit's: the last, and before it those that were cancelled and have not ended.
        self._runs: dict[tuple[RecordKey, str], list[asyncio.Task[None]]] = {}
        # The state epochs at which those that outlive a state began.
        self._outliving: dict[tuple[RecordKey, str], int] = {}
        self._places = asyncio.Semaphore(retry.at_once)  # it lets those that wait in, in order
        self.unsure = set[RecordKey]()
        self._of_handler: dict[int, asyncio.Semaphore] = {}
        self.waiting = 0
        self._sparse = SparseLog(log, 1 / 60, 3)

    def begin(self, instance: MachineInstance, call: CallWork, action: HandlerAction, anew: bool = False) -> None:
        """Begins a call in place of the one before it on the same unit.

        One that outlives its state goes on, and is not begun by a state that only remembers it; except `anew`, as an
        operator recovers a machine for the reason that it hangs.
        """
        handler = self._handler(instance.core.role, call.target)
        if handler is None:
            log.error("%s %s: no handler for %s", instance.key.lease, instance.key.machine, call.target)
            return
        slot = instance.key, call.task if call.outlives or not instance.core.subsidiary else ""
        began = instance.core.began(instance.record, call.task)
        before = tuple(self._runs.get(slot, ()))
        if call.outlives:
            if before and self._outliving.get(slot) == began and not anew:
                return  # another state of the machine only remembers it
            self._outliving[slot] = began
        _cancel(before)
        self.unsure.add(instance.key)
        task = asyncio.get_running_loop().create_task(self._run(handler, instance, call, began, action, before))
        self._runs.setdefault(slot, []).append(task)
        task.add_done_callback(lambda done: self._ended(slot, done))

    def keep(self, key: RecordKey, tasks: frozenset[str]) -> None:
        """The machine has moved on: what its state does not ask for is given up."""
        for (other, task), runs in self._runs.items():
            if other == key and task and task not in tasks:
                _cancel(runs)

    def forget(self, key: RecordKey) -> None:
        """A unit's machine is forgotten: its last action, which it does not ask for any more, is given up."""
        _cancel(self._runs.get((key, ""), ()))

    def of(self, key: RecordKey) -> Iterator[str]:
        """The calls under way for a machine: tasks by name, or the unit's action."""
        return (task or "action" for other, task in self._runs if other == key)

    def under_way(self) -> int:
        """Returns how many calls are under way, those that wait among them."""
        return len(self._runs)

    async def close(self) -> None:
        """Gives up all calls; what they have made stays as it is, and recovery begins them again."""
        every = [run for runs in self._runs.values() for run in runs]
        _cancel(every)
        await asyncio.gather(*every, return_exceptions=True)
        self._runs.clear()

    async def _run(
        self,
        handler: Handler,
        instance: MachineInstance,
        call: CallWork,
        epoch: int,
        action: HandlerAction,
        before: Sequence[asyncio.Task[None]],
    ) -> None:
        if before:  # all of them: the last may have been cancelled while it waited for those before it
            await asyncio.wait(before)
        done, events = Done(False, "not begun"), instance.core.events
        tried = lacked = 0
        while tried < self.retry.tries and not done.well:
            if tried or lacked:
                await asyncio.sleep(self.retry.pause * 2 ** min(lacked, LONGEST_DOUBLING))
            places = await self._enter(handler)
            try:
                done = _fitting(call, events, await self._once(handler, action), action)
            except NotBegun as error:
                lacked += 1
                self.counts["not begun"] += 1
                message = "%s of %s could not be begun, and is tried again: %s"
                self._sparse.warning(time.monotonic(), "lack", message, action.verb, action.unit or action.lease, error)
                continue
            finally:
                for place in places:
                    place.release()
            tried, lacked = tried + 1, 0
            for raised in done.raises:
                source = f"{action.verb} of {action.unit or action.lease}"
                self._answered(Raise(raised, source, "probe"))
            if not done.well:
                log.warning("%s of %s failed: %s", action.verb, action.unit or action.lease, done.words)
        if done.well:
            self.unsure.discard(instance.key)
        if not call.answers:
            return
        try:
            event, fields = answer_of(call, events, done, action)
        except HandlerError as error:
            log.error("%s of %s has no answer: %s", action.verb, action.unit or action.lease, error)
            return
        self._answered(Complete(instance.key, event, epoch, done, fields))

    async def _enter(self, handler: Handler) -> list[asyncio.Semaphore]:
        """Waits for a place among the tries of a handler, and among all that are under way; returns both."""
        most, entered = getattr(handler, "parallel", None), list[asyncio.Semaphore]()
        own = () if most is None else (self._of_handler.setdefault(id(handler), asyncio.Semaphore(most)),)
        self.waiting += 1
        try:
            for places in (*own, self._places):
                await places.acquire()
                entered.append(places)
        except BaseException:
            for places in entered:
                places.release()
            raise
        finally:
            self.waiting -= 1
        return entered

    async def _once(self, handler: Handler, action: HandlerAction) -> Done:
        try:
            async with asyncio.timeout(self.retry.longest):
                return checked(await handler.act(action))
        except TimeoutError:
            return Done(False, f"it did not end within {self.retry.longest:g} s")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return Done(False, "it has cancelled itself")
        except (SimulatedCrash, GeneratorExit, NotBegun):
            raise
        except BaseException as error:  # also an exit or an interrupt that a handler raises, which would end the actor
            if is_passing(error):
                raise NotBegun(f"{type(error).__name__}: {error}") from None
            return Done(False, f"{type(error).__name__}: {error}")

    def _ended(self, slot: tuple[RecordKey, str], run: asyncio.Task[None]) -> None:
        runs = self._runs.get(slot, [])
        if run in runs:
            runs.remove(run)
        if not runs and self._runs.pop(slot, None) is not None:
            self._outliving.pop(slot, None)
        if not run.cancelled() and (error := run.exception()) is not None:
            raise error


def _fitting(call: CallWork, events: Mapping[str, Named], done: Done, action: HandlerAction) -> Done:
    """A result whose answer fits the specification; else a failure, which says why."""
    if not call.answers or (not done.well and not done.answer):
        return done
    try:
        answer_of(call, events, done, action)
    except HandlerError as error:
        return Done(False, str(error), done.facts, raises=done.raises)
    return done


def _cancel(runs: Iterable[asyncio.Task[None]]) -> None:
    """Cancels runs, each once: another time would interrupt what it still does before it ends."""
    for run in runs:
        if not run.cancelling():
            run.cancel()
