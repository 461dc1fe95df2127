"""The calls of policies and handlers that a state has begun, and their answers.

Theory of operation (paper, sections 3.4 and 4.3). A call is begun after the commit of the state that asks for it, and
its answer names the epoch of that state; so an answer to a state that was left is dropped by the core. Recovery begins
a call anew, and what an earlier run of it still answers is dropped here, as only the last run of a task counts. Actions
on one unit never overlap: the one before is cancelled, and waited for, before the next begins. A handler that fails is
tried again a few times before its failure is answered.

A host that comes back with many machines begins all their actions in one turn; only so many tries are under way at
once, and the others wait in the order in which they began. Their machines' timers go on meanwhile. One that is given up
leaves the line; one that is tried again goes to its end, so that actions that hang do not hold up the rest for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from leasehold.impl.actor.environment import RetryPolicy
from leasehold.impl.actor.ready import Complete
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.core import Named
from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.handler import Done, Handler, HandlerAction, HandlerError, answer_of, checked
from leasehold.impl.notices import SimulatedCrash
from leasehold.impl.store.store import RecordKey

log = logging.getLogger("leasehold.calls")

Answered = Callable[[Complete], None]


class HandlerCalls:
    """The handler calls of one actor that are under way.

    Attributes:
        waiting: how many of them wait, as the most tries at once are under way.
    """

    def __init__(self, handler: Callable[[str, str], Handler | None], answered: Answered, retry: RetryPolicy) -> None:
        self._handler, self._answered, self.retry = handler, answered, retry
        # By machine, and task or "" for a unit's: the last, and before it those that were cancelled and have not ended.
        self._runs: dict[tuple[RecordKey, str], list[asyncio.Task[None]]] = {}
        # The state epochs at which those that outlive a state began.
        self._outliving: dict[tuple[RecordKey, str], int] = {}
        self._places = asyncio.Semaphore(retry.at_once)  # it lets those that wait in, in order
        self.waiting = 0

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
        """How many calls are under way, those that wait among them."""
        return len(self._runs)

    async def close(self) -> None:
        """Gives up all calls; what they have made stays as it is, and recovery begins them again."""
        every = [run for runs in self._runs.values() for run in runs]
        _cancel(every)
        await asyncio.gather(*every, return_exceptions=True)
        self._runs.clear()

    async def _run(
        self, handler: Handler, instance: MachineInstance, call: CallWork, epoch: int, action: HandlerAction,
        before: Sequence[asyncio.Task[None]],
    ) -> None:  # fmt: skip
        if before:  # all of them: the last may have been cancelled while it waited for those before it
            await asyncio.wait(before)
        done, events = Done(False, "not begun"), instance.core.events
        for attempt in range(self.retry.tries):
            if attempt:
                await asyncio.sleep(self.retry.pause)
            await self._enter()
            try:
                done = _fitting(call, events, await self._once(handler, action), action)
            finally:
                self._places.release()
            if done.well:
                break
            log.warning("%s of %s failed: %s", action.verb, action.unit or action.lease, done.words)
        if not call.answers:
            return
        try:
            event, fields = answer_of(call, events, done, action)
        except HandlerError as error:
            log.error("%s of %s has no answer: %s", action.verb, action.unit or action.lease, error)
            return
        self._answered(Complete(instance.key, event, epoch, done, fields))

    async def _enter(self) -> None:
        """Waits for a place among the tries that are under way."""
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1

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
        except (SimulatedCrash, GeneratorExit):
            raise
        except BaseException as error:  # also an exit or an interrupt that a handler raises, which would end the actor
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
        return Done(False, str(error), done.facts)
    return done


def _cancel(runs: Iterable[asyncio.Task[None]]) -> None:
    """Cancels runs, each once: another time would interrupt what it still does before it ends."""
    for run in runs:
        if not run.cancelling():
            run.cancel()
