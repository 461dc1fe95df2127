"""Remains: what still lives of a unit though nothing of it should.

Theory of operation. A teardown may fail for good, or be given up: its unit is quarantined, and processes of it may run
on after its lease. An operator has to know of them until they are gone. So the units whose last action did not end well
are looked at from time to time, and those that an actor finds in its store when it starts once: a handler is asked what
lives there, if it can say (`SaysWhatIsLeft`). A unit that may be up, by its probe, or on which an action is under
way, is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from leasehold.impl.actor.environment import ActorContext
from leasehold.impl.actor.probes import UnitProbes
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.handler import SaysWhatIsLeft
from leasehold.impl.notices import SimulatedCrash
from leasehold.impl.store.store import RecordKey

log = logging.getLogger("leasehold.remains")

EVERY_SECONDS = 5.0
LONGEST_SECONDS = 10.0  # for which one answer is awaited


class Remain(NamedTuple):
    """The remains of a unit.

    Attributes:
        words: what lives.
        since: when that was seen first, in ticks.
    """

    words: str
    since: int


class Remains:
    """The remains of an actor's units.

    Args:
        context: of the actor.
        probes: of its units.
        unsure: the machines whose last action did not end well.

    Attributes:
        found: by machine.
    """

    def __init__(self, context: ActorContext, probes: UnitProbes, unsure: Callable[[], set[RecordKey]]) -> None:
        self.context, self._probes, self._unsure = context, probes, unsure
        self.found: dict[RecordKey, Remain] = {}
        self._unseen = set[RecordKey]()  # of the store, as it was found when it was opened

    def recovered(self) -> None:
        """The records were read anew: of each unit something may be left."""
        roles, instances = {probe.role for probe in self._probes.probes}, self.context.table.instances
        self._unseen = {key for key, instance in instances.items() if instance.core.role in roles}

    async def run(self) -> None:
        """Looks, again and again; where nothing is probed, nobody is asked."""
        while self._probes.probes:
            await self.look()
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> None:
        """Looks once at each unit of which something may be left."""
        for key in {*self._unseen, *self._unsure(), *self.found}:
            instance = self.context.table.instances.get(key)
            if instance is None or not self._is_down(instance):
                if instance is None or not self._probes.at_work(key):
                    self._note(key, instance, "")
                continue
            try:
                async with asyncio.timeout(LONGEST_SECONDS):
                    text = await self._ask(instance)
            except (SimulatedCrash, GeneratorExit, asyncio.CancelledError):
                raise
            except BaseException as error:  # it is not known, and may be the next time
                log.debug("what is left of %s is not known: %s", key.machine, error)
                continue
            if self._is_down(instance):
                self._note(key, instance, text)

    def _is_down(self, instance: MachineInstance) -> bool:
        """Returns whether nothing of a unit should live: no action is under way or asked for, and it is not up."""
        asked = any(isinstance(piece, CallWork) for piece in instance.core.work[instance.state](instance.record))
        up = any(self._probes.is_due(probe, instance) for probe in self._probes.probes)
        return instance.core.subsidiary and not asked and not up and not self._probes.at_work(instance.key)

    async def _ask(self, instance: MachineInstance) -> str:
        able: dict[int, SaysWhatIsLeft] = {}
        for target in self._targets(instance):
            one: Any = self.context.environment.handler(instance.core.role, target)
            if isinstance(one, SaysWhatIsLeft):
                able[id(one)] = one
        for handler in able.values():
            if text := await handler.left_of(self._probes.name_of(instance)):
                return text
        return ""

    @staticmethod
    def _targets(instance: MachineInstance) -> list[str]:
        work = (piece for state in instance.core.states for piece in instance.core.work[state](instance.record))
        return [piece.target for piece in work if isinstance(piece, CallWork)]

    def _note(self, key: RecordKey, instance: MachineInstance | None, text: str) -> None:
        self._unseen.discard(key)
        name = self._probes.name_of(instance) if instance is not None else key.machine
        if text:
            if key not in self.found:
                log.warning("something is left of %s, which should be down: %s", name, text)
            since = self.found[key].since if key in self.found else self.context.clock.now()
            self.found[key] = Remain(text, since)
        elif self.found.pop(key, None) is not None:
            log.info("nothing is left of %s any more, or it is to be up again", name)
