"""Gives real actors in simulation what they are to consume, one thing after the other.

Theory of operation. Nothing happens by itself: the network holds packets, the answers of policies, handlers and
subsidiary machines are held back, and actors are notified of no tick. So a step is forced: a packet is delivered, an
event is given to a machine in the epoch of its state, a timer fires. Which steps come, and what they are compared with,
a subclass says: those of a script of the model (replay.py), or those of a log (log_case.py).

A sender whose session has no room goes on when it hears that a message was received. So where a step needs it, what was
received is said again and answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.faults.simulation.network import Packet
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.messages import EPOCH, Heard
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.core import Program
from leasehold.impl.core.values import named_fields
from leasehold.impl.core.work import Event, message
from leasehold.impl.words import over

ROUNDS = 5  # of retransmission, each twice as long as the one before, without which nothing comes of it
SETTLE = 3.0  # seconds of the first of them


class ReplayDiverged(Exception):
    """The real actors did not do what they should: a fault of theirs, of the model, or of the replay."""


def lane_of(program: Program, packet: Packet) -> tuple[str, str, str]:
    """The lease of a packet, its sender, and its receiver, with the channel if it is numbered apart (`over`)."""
    envelope = packet.envelope
    channel = program.messages[envelope["message"]].channel
    return envelope["lease"], envelope["sending_machine"], over(envelope["receiving_machine"], channel)


class Player:
    """The base of those that force steps on the actors of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self.sim, self.program = simulation, simulation.program

    def put(self, request: Callable[[], Any]) -> ActorError | None:
        """Hands an actor a request; returns why it does not take it."""
        future = self.sim.loop.call(request)
        error = future.exception() if future.done() and not future.cancelled() else None
        return error if isinstance(error, ActorError) else None

    def position(self, machine: str, neighbour: str, message: str) -> int | None:
        """The position of a machine among the neighbours of another one, for a message; None: it is none of them."""
        core, number = self.program.machines[machine]
        return self.program.lane_at(core, number, over(neighbour, self.program.messages[message].channel))

    def event(self, packet: Packet) -> Event:
        """The event that a packet is to the machine that it is for."""
        envelope = packet.envelope
        at = self.position(envelope["receiving_machine"], envelope["sending_machine"], envelope["message"])
        fields = named_fields(self.program.messages[envelope["message"]].fields, envelope.get("fields", {}))
        return message(envelope["message"], fields, -1 if at is None else at, envelope["number"])

    def is_ordered(self, packet: Packet) -> bool:
        """Returns whether a packet's channel is a `fifo`."""
        return self.program.messages[packet.envelope["message"]].ordered

    def is_new(self, packet: Packet) -> bool:
        """Returns whether the machine that a packet is for has received no message of its number or a later one."""
        envelope = packet.envelope
        instance = self.sim.held(envelope["lease"], envelope["receiving_machine"])
        at = self.position(envelope["receiving_machine"], envelope["sending_machine"], envelope["message"])
        return (
            instance is None or at is None or bool(instance.record[instance.core.received_at][at] < envelope["number"])
        )

    def is_of_before(self, packet: Packet) -> bool:
        """Returns whether the receiver has heard of a newer incarnation of the actor that has sent a packet."""
        envelope = packet.envelope
        receiver = self.sim.actors.get(self.sim.players[envelope["receiving_machine"]])
        if receiver is None:
            return False
        heard = Heard.of(receiver.table.metadata.get(EPOCH + envelope["sender"])).epoch
        return bool(envelope["epoch"] < (receiver.epoch if receiver.identity.name == envelope["sender"] else heard))

    def acknowledged(self) -> bool:
        """Delivers what sessions say again and was received; returns whether there was any.

        The answers tell the senders to go on. They are given ever more time to say it again.
        """
        for n in range(ROUNDS + 1):
            if n:
                self.sim.loop.advance(SETTLE * 2 ** (n - 1))
            copies = [p for p in self.sim.network.in_transit if self.is_ordered(p) and not self.is_new(p)]
            for packet in copies:
                self.sim.deliver(packet)
            if copies:
                return True
        return False

    @staticmethod
    def began(instance: MachineInstance, event: str) -> int:
        """The state epoch that an answer names: that at which its task began."""
        task = next((task for task, events in instance.core.since.items() if event in events), "")
        return instance.core.began(instance.record, task)
