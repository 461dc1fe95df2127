"""Events that policies, handlers and detectors raise (impl/raised.py), as an actor takes them.

Theory of operation. An event is taken where the actor gives leave for it, and once in a tick for each machine: who
raises it in a loop keeps nobody from being served. What is refused has changed nothing; it is logged, counted, and
among the actor's events. The chain tells the cause: `policy`, or `probe` for what a handler or detector has found.
"""

from __future__ import annotations

import logging
import time

from leasehold.impl.actor import outside
from leasehold.impl.actor.drafts import refused
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.ready import Raise, Ready, Tell
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import BELOW
from leasehold.impl.raised import RECOVER, RaisedEvent
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.limits import SparseLog

log = logging.getLogger("leasehold.raising")


class EventRaising:
    """Takes the raised events of one actor."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper, self._now = stepper, -1
        self._taken: set[tuple[RecordKey, str]] = set()  # at this tick
        self._sparse = SparseLog(log)

    def take(self, ready: Ready, request: Raise) -> None:
        """Takes an event.

        Raises:
            ActorError: it may not be raised, or there is no such machine, or the machine refuses it.
        """
        raised, source, _ = request
        before = len(ready.events)
        key = RecordKey(raised.lease or BELOW, raised.unit or raised.machine)
        try:
            key = self._key(raised)
            self._check(key, raised.event, ready.now)
            self._step(ready, key, raised.event)
        except ActorError as error:
            self._stepper.counts["raised refused"] += 1
            if self._stepper.keeps_events and len(ready.events) == before:  # else its machine has refused it
                ready.events.append(refused(key, raised.event, ready.cause, str(error)))
            self._sparse.warning(time.monotonic(), source, "%s raises %s, which is refused: %s", source, raised, error)
            raise
        self._taken.add((key, raised.event))
        self._stepper.counts["raised"] += 1
        log.warning("%s raises %s%s", source, raised, f": {raised.reason[:500]}" if raised.reason else "")

    def _key(self, raised: RaisedEvent) -> RecordKey:
        """The machine that an event is for.

        Raises:
            ActorError: there is none, or several.
        """
        if raised.unit:
            return self._unit(raised.unit)
        instances = self._stepper.table.instances
        own = [key for key in instances if key.lease == raised.lease and raised.lease != BELOW]
        if raised.machine:
            own = [key for key in own if key.machine == raised.machine]
        if len(own) > 1:
            own = [key for key in own if not instances[key].core.subsidiary]
        if len(own) == 1:
            return own[0]
        if own:
            raise ActorError(f"`machine` is missing; of {raised.lease[:80]} are here: {', '.join(k[1] for k in own)}")
        raise ActorError(f"there is no {' of '.join(filter(None, (raised.machine[:60], raised.lease[:80])))} here")

    def _unit(self, name: str) -> RecordKey:
        units, below, program = self._stepper.environment.units, self._stepper.table.below, self._stepper.program
        if units is not None and len(below) == 1 and (number := units.number(name)) is not None:
            return RecordKey(BELOW, program.roles[next(iter(below))].machine(number))
        if units is None and (named := program.machines.get(name)) is not None and named[0].role in below:
            return RecordKey(BELOW, name)
        raise ActorError(f"there is no unit {name[:60]!r} here")

    def _check(self, key: RecordKey, event: str, now: int) -> None:
        """Checks whether an event may be raised on a machine now.

        Raises:
            ActorError: it may not.
        """
        outside.check_leave(self._stepper, key, event)
        if now != self._now:
            self._now = now
            self._taken.clear()
        if (key, event) in self._taken:
            raise ActorError(f"it was raised at this tick already ({now})")

    def _step(self, ready: Ready, key: RecordKey, event: str) -> None:
        if event != RECOVER or RECOVER in outside.role_of(self._stepper, key).events:
            outside.tell(self._stepper, ready, Tell(key, event, {}))
        elif key in self._stepper.table.instances:
            self._stepper.recover(ready, self._stepper.table.instances[key])
        else:
            raise ActorError(f"nothing has happened to {key.machine} yet")
