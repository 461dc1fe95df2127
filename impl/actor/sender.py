"""Sends what the work of machines says to neighbours: under its number, or in a session, in order.

Theory of operation. A message goes to the actor that plays its receiver. Where nobody is known to play it, the message
is owed, and sent once somebody is; what the machine's state asks for no more is owed no more. A session keeps its
messages until its neighbour has acknowledged them (session.py), and goes on with the oldest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from leasehold.impl.actor import session
from leasehold.impl.actor.environment import ActorContext
from leasehold.impl.actor.ready import Acknowledge, Ready, SendMessage, SendNext
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.work import SendWork

log = logging.getLogger("leasehold.stepper")


class MessageSender:
    """Sends the messages of an actor's machines, and has them acknowledged.

    Args:
        context: of the actor.
    """

    def __init__(self, context: ActorContext) -> None:
        self.program, self.table = context.program, context.table
        self.environment, self.counts = context.environment, context.counts

    def introduce(self, instance: MachineInstance, members: Mapping[str, str]) -> None:
        """A machine learns which actors play its neighbours: from its run's membership, or else from the settings."""
        for at in range(len(instance.core.neighbours)):
            name, known = self.program.neighbour(instance.core, instance.number, at), instance.peers[at]
            instance.peers[at] = known or members.get(name) or self.environment.peers.get(name, "")

    def send(self, ready: Ready, instance: MachineInstance, piece: SendWork) -> None:
        """Sends a message under the number that the record has for it; one whose actor is not known yet is owed."""
        record = instance.record
        number = record[instance.core.sent_at][piece.neighbour]
        if number and self._is_known(ready, instance, piece.neighbour, piece.message):  # else nothing was sent yet
            ready.effects.append(SendMessage(instance.key, piece, number, piece.fields(record)))

    def send_in_order(self, ready: Ready, instance: MachineInstance, piece: SendWork) -> None:
        """Sends a message in a session, which keeps it."""
        at, record = piece.neighbour, instance.record
        shape, number = self.program.messages[piece.message], record[instance.core.sent_at][at]
        session.add(instance, piece, shape, number, piece.fields(record))
        ready.change(instance)
        self._go_on(ready, instance, at)

    def _go_on(self, ready: Ready, instance: MachineInstance, at: int) -> None:
        """A session with a neighbour goes on with its oldest message."""
        waiting = session.queued(instance, at)
        if waiting and self._is_known(ready, instance, at, waiting[0].message):
            ready.effects.append(SendNext(instance.key, at))

    def acknowledge(self, ready: Ready, request: Acknowledge) -> None:
        """A neighbour has received a message of a session."""
        key, at, number = request
        instance = self.table.instances.get(key)
        if instance is not None and session.acknowledge(instance, at, number):
            ready.change(instance)
            self._go_on(ready, instance, at)
            ready.raised += self.table.held
            self.table.held.clear()

    def _is_known(self, ready: Ready, instance: MachineInstance, at: int, message: str) -> bool:
        """Returns whether it is known who plays a neighbour; if not, what is sent to it is owed."""
        key = instance.key
        if not instance.peers[at]:
            name = self.program.neighbour(instance.core, instance.number, at)
            instance.peers[at] = self.environment.peers.get(name, "")
            ready.change(instance)
        if instance.peers[at]:
            if (known := self.table.unaddressed.get(key)) is not None:
                known.discard(at)
                if not known:
                    del self.table.unaddressed[key]
            return True
        owed = self.table.unaddressed.setdefault(key, set())
        if at not in owed:
            owed.add(at)
            self.counts["unaddressed"] += 1
            name = self.program.neighbour(instance.core, instance.number, at)
            log.error("%s of %s owes %s, and nobody is known to play %s", key.machine, key.lease, message, name)
        return False

    def send_owed(self, ready: Ready) -> None:
        """Sends what is owed to neighbours that have become known; what a state asks for no more is owed no more."""
        for key, owed in tuple(self.table.unaddressed.items()):
            instance = self.table.instances.get(key)
            work = () if instance is None else instance.core.work[instance.state](instance.record)
            asked = [piece for piece in work if isinstance(piece, SendWork) and piece.neighbour in owed]
            sessions = owed & set(session.neighbours(instance)) if instance is not None else set()
            owed &= {piece.neighbour for piece in asked} | sessions
            if instance is None or not owed:
                del self.table.unaddressed[key]
                continue
            for at in sessions:
                self._go_on(ready, instance, at)
            for piece in asked:
                if piece.neighbour not in sessions:
                    self.send(ready, instance, piece)

    def resume_sessions(self, ready: Ready, instance: MachineInstance) -> None:
        """Each session of a machine goes on with its oldest message."""
        for at in tuple(session.neighbours(instance)):
            self._go_on(ready, instance, at)
