"""The next possible happenings of a run: the local events that a specification allows, packets that may arrive, time.

Theory of operation. The records of all machines, who is up and the time are a state of the model without its messages.
The explorer's reference says which events the environment may offer in it, and which answers the tasks of a state may
have; so what happens from outside is what the specification allows. The answers of tasks that drive subsidiary machines
are left to the actors, and so are timers once time has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from leasehold.checker.explore.reference import choose
from leasehold.checker.recovery.cases.player import lane_of
from leasehold.checker.recovery.cases.replay import Replayer
from leasehold.checker.recovery.monitor import PropertyMonitor
from leasehold.checker.recovery.properties import reads_messages
from leasehold.faults.simulation.network import SCHEME
from leasehold.impl.actor.session import has_room
from leasehold.impl.core.work import local
from leasehold.spec.language.lower import Offer
from leasehold.spec.language.model import Drive, Fair

Happening = Callable[[], Any]


class Choices:
    """The happenings that may come next to the actors of a simulation.

    Args:
        replayer: gives machines their events.
        monitor: knows the records.
    """

    def __init__(self, replayer: Replayer, monitor: PropertyMonitor) -> None:
        self.sim, self.replayer, self.monitor = replayer.sim, replayer, monitor
        self.world = monitor.properties.world

    def events(self, surely: bool = False) -> Iterator[Happening]:
        """The local events that machines may take, and the next tick; `surely`: only those that come in the end."""
        state = self.monitor.state
        for machine in self.world.machines:
            if not self.world.running(state, machine):
                continue
            name = self.replayer.machine((machine.role.name, machine.instance))
            instance = self.sim.held(self.replayer.lease, name)
            if instance is None and (machine.role.parent is not None or not self.replayer.may_begin(name)):
                continue  # nothing has driven it yet, or it has not heard of the run
            for offer in machine.offers[state[machine.cell]]:
                if not self._from_outside(offer.offer) or (surely and offer.offer.fair is Fair.NO):
                    continue
                for e in offer.values(state):
                    if not offer.allowed(state, e, -1) or choose(offer.moves, state, e, -1) is None:
                        continue
                    if instance is None or has_room(
                        self.sim.program, instance, local(offer.offer.event, e), self.sim.time.now
                    ):
                        yield partial(self.replayer.consume, name, offer.offer.event, e)
        if self.world.time_may_pass(state):
            yield self._tick

    def _from_outside(self, offer: Offer) -> bool:
        """Returns whether an event comes from outside of the actors, and may come now."""
        if offer.cause == "tick" or isinstance(offer.role.tasks.get(offer.name), Drive):
            return False
        return not (self.sim.network.in_transit and any(map(reads_messages, offer.outside)))

    def packets(self) -> Iterator[Happening]:
        """The packets that may arrive: of each machine's to each other the first of a channel, if its receiver runs."""
        seen: set[tuple[str, str, str]] = set()
        for packet in sorted(self.sim.network.in_transit, key=lambda packet: packet.number):
            lane = lane_of(self.sim.program, packet)
            receiver = self.sim.actors.get(packet.target.removeprefix(SCHEME))
            cut = (packet.source, packet.target) in self.sim.network.cut
            if lane in seen or cut or receiver is None or not receiver.running:
                continue
            seen.add(lane)
            yield partial(self.sim.deliver, packet)

    def _tick(self) -> None:
        """Time passes; what is due is taken in the new time."""
        self.sim.time.held = True
        self.sim.time.advance()
        self.monitor.tick()
        self.sim.time.held = False
        self.sim.loop.call(self.sim.time.notify)

    def away(self, halted: Sequence[str]) -> list[str]:
        """The actors that are down, and may restart."""
        return [name for name in self.sim.roles if name not in self.sim.actors and name not in halted]
