"""Handler calls, from beginning to end, derived from an actor's notices.

Theory of operation. There is a notice when a call begins, and one when it is answered; none for a call that ends
without an answer. Such ends are derived here by the rules of impl/actor/calls.py: a call on a unit is replaced by the
next one on that unit, any other call by the next one of its task, and it is given up in a state that does not ask for
its task. A store that fails ends all calls. A call for which the specification has no answer has no known end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.table import BELOW, MachineInstance
from leasehold.impl.core.work import CallWork
from leasehold.impl.notices import Notice
from leasehold.impl.store.store import RecordKey


class Result(StrEnum):
    """The result of a call."""

    WELL = "well"
    FAILED = "failed"  # also when tried again
    GIVEN_UP = "given_up"  # it was cancelled, or its answer does not matter any more
    UNAWAITED = "unawaited"  # the specification has no answer for it


@dataclass(eq=False, slots=True)
class CallInProgress:
    """A handler call under way."""

    verb: str
    answers: tuple[str, ...]
    notice: Notice
    began: float = field(default_factory=perf_counter)

    @property
    def seconds(self) -> float:
        """Its duration so far."""
        return perf_counter() - self.began


Started = Callable[[CallInProgress], None]
Ended = Callable[[CallInProgress, Result], None]


def lease_of(actor: Actor, notice: Notice) -> str:
    """The lease that a notice is about: for a unit of the actor the one that drove it last; empty if there is none."""
    if notice.lease != BELOW:
        return notice.lease
    instance = actor.table.instances.get(RecordKey(notice.lease, notice.machine))
    return instance.serves if instance is not None else ""


class CallTracker:
    """The handler calls of an actor that have begun and not ended.

    Args:
        actor: whose calls.
        ended: called at the end of each.
        started: called at the beginning of each.
    """

    def __init__(self, actor: Actor, ended: Ended, started: Started = lambda begun: None) -> None:
        self.actor, self._ended, self._started = actor, ended, started
        self._open: dict[tuple[str, str], dict[str, CallInProgress]] = {}  # by machine, and task or "" for a unit's

    def begin(self, notice: Notice) -> None:
        """Takes the notice of a call. A policy's does not count, and one without a handler never begins."""
        kind, _, verb = notice.name.partition(".")
        instance = self.actor.table.instances.get(RecordKey(notice.lease, notice.machine))
        if kind != "handler" or verb not in self.actor.environment.handlers or instance is None:
            return
        call = next((work for work in _asked(instance) if work.target == notice.name), None)
        if call is None:
            return
        key, slot = (notice.lease, notice.machine), call.task if call.outlives or not instance.core.subsidiary else ""
        if slot in self._open.get(key, ()):
            self._take(key, slot, Result.GIVEN_UP)
        begun = CallInProgress(verb, call.answers, notice)
        self._started(begun)
        if call.answers:
            self._open.setdefault(key, {})[slot] = begun
        else:
            self._ended(begun, Result.UNAWAITED)

    def find(self, notice: Notice) -> CallInProgress | None:
        """The call that a handler's answer ends."""
        calls = self._open.get((notice.lease, notice.machine), {}).values()
        return next((begun for begun in calls if notice.name in begun.answers), None)

    def answer(self, notice: Notice) -> None:
        """Takes the notice of a handler's answer."""
        key = notice.lease, notice.machine
        for slot, begun in tuple(self._open.get(key, {}).items()):
            if notice.name in begun.answers:
                self._take(key, slot, Result.WELL if notice.data["well"] else Result.FAILED)
                return

    def move(self, notice: Notice) -> None:
        """Takes the notice of a transition: calls that the machine's state does not ask for were given up."""
        key = notice.lease, notice.machine
        if key not in self._open:
            return
        instance = self.actor.table.instances.get(RecordKey(*key))
        tasks = {call.task for call in _asked(instance)} if instance is not None else set()
        for slot in [slot for slot in self._open[key] if slot and slot not in tasks]:
            self._take(key, slot, Result.GIVEN_UP)

    def forget(self, notice: Notice) -> None:
        """Takes the notice that a machine is about to be forgotten: the calls of its subsidiaries are given up."""
        for machine in notice.data.get("below", ()):
            for slot in tuple(self._open.get(key := (notice.lease, machine), ())):
                self._take(key, slot, Result.GIVEN_UP)

    def end(self) -> None:
        """Gives up all calls."""
        for key, slots in tuple(self._open.items()):
            for slot in tuple(slots):
                self._take(key, slot, Result.GIVEN_UP)

    def _take(self, key: tuple[str, str], slot: str, result: Result) -> None:
        begun = self._open[key].pop(slot)
        if not self._open[key]:
            del self._open[key]
        self._ended(begun, result)


def _asked(instance: MachineInstance) -> list[CallWork]:
    """The calls that a machine's state asks for."""
    return [work for work in instance.core.work[instance.state](instance.record) if isinstance(work, CallWork)]
