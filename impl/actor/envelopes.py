"""Messages of machines as signed envelopes, and back.

Theory of operation. An envelope says which machine speaks to which. It is believed when its signature is right
(impl/identity), when its sender may speak for that role, and when it is the actor that the record knows as that
neighbour. What third parties have signed travels with it as a credential, which the environment issues and judges.
"""

from __future__ import annotations

from typing import Any

from leasehold.impl.actor.environment import Credentials
from leasehold.impl.actor.instance import MachineInstance, machine_of, role_of
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.event import Event
from leasehold.impl.core.values import ValueFault, named_fields, to_plain
from leasehold.impl.core.work import Send
from leasehold.impl.identity.envelope import Envelope, open_frame, seal
from leasehold.impl.identity.refusal import Malformed, OtherSpecification, Unauthorised
from leasehold.impl.identity.trust import Identity


class EnvelopeCodec:
    """Writes and reads the envelopes of one actor.

    Args:
        program: the compiled system.
        identity: whose they are.
        credentials: issues what messages take along; None where no message of the system carries another.
        tick_seconds: of the actor's clock; 0: it is moved by hand.

    Attributes:
        address: where this actor is reached.
        epoch: its incarnation.
    """

    def __init__(
        self, program: Program, identity: Identity, credentials: Credentials | None, tick_seconds: float = 0
    ) -> None:
        if credentials is None and any(shape.carries for shape in program.messages.values()):
            raise ValueError(f"messages of {program.system} carry others: the actor needs `credentials` to judge them")
        self.program, self.identity, self.credentials = program, identity, credentials
        self.agreement = program.agreement + (f".{tick_seconds:g}" if tick_seconds else "")
        self.address = ""
        self.epoch = 0

    def seal(self, instance: MachineInstance, send: Send, fields: tuple[Any, ...], number: int) -> bytes:
        """A message of a machine as a frame.

        Raises:
            Refusal: it cannot be written; a mistake of ours.
        """
        shape, receiver, lease = self.program.messages[send.message], instance.peers[send.neighbour], instance.key.lease
        plain = {n: to_plain(kind, v) for (n, kind), v in zip(shape.fields, fields, strict=True)}
        credential = None
        if self.credentials is not None:
            credential = self.credentials.issue(instance.metadata, send.message, receiver, lease, number, plain)
        envelope = Envelope(
            version=1, system=self.program.system, digest=self.agreement, sender=self.identity.name,
            receiver=receiver, lease=lease, sending_machine=instance.key.machine,
            receiving_machine=self.machine_at(instance, send.neighbour), message=send.message, number=number,
            epoch=self.epoch, fields=plain, credential=credential, reply_to=self.address or None,
        )  # fmt: skip
        return seal(envelope, self.identity.key)

    def machine_at(self, instance: MachineInstance, neighbour: int) -> str:
        """The name of a machine's neighbour."""
        role, index = instance.core.neighbours[neighbour]
        return machine_of(self.program.roles[role], instance.record[1] if index < 0 else index)

    def open(self, frame: bytes) -> Envelope:
        """The envelope of a frame whose sender may speak for the machine that it names.

        Raises:
            Refusal: it is refused, and why.
        """
        envelope = open_frame(frame, self.identity.trust, self.identity.name)
        if envelope.system != self.program.system:
            raise Unauthorised(f"this actor serves the system {self.program.system}, not {envelope.system[:60]}")
        if envelope.digest != self.agreement:
            raise OtherSpecification(self._disagreement(envelope))
        self.identity.trust.speaker(envelope.sender, envelope.sending_machine)
        return envelope

    def _disagreement(self, envelope: Envelope) -> str:
        theirs = envelope.digest.partition(".")[0]
        if envelope.digest.startswith(f"{self.program.agreement}."):
            return f"{envelope.sender} has ticks of another length than this actor; set `tick_seconds` alike"
        if theirs == self.program.digest:
            return (
                f"{envelope.sender} has other constants of {self.program.system} {theirs[:12]} than this actor; "
                "set them alike, and run `leasehold migrate` where they have changed"
            )
        return (
            f"this actor serves the specification {self.program.digest[:12]}, and {envelope.sender} {theirs[:12]}; "
            "upgrade the older one, with `leasehold migrate` for its records"
        )

    def event(self, envelope: Envelope, core: Core, instance: int) -> Event:
        """The event that a machine of a role, of this number, consumes.

        Raises:
            Refusal: the message is none of the specification, or not from this neighbour, or not of this shape.
        """
        shape = self.program.messages.get(envelope.message)
        name = envelope.sending_machine
        speaker = (name, 0) if name in self.program.roles else role_of(name)
        if shape is None or speaker is None or (shape.sender, shape.receiver) != (speaker[0], core.role):
            raise Malformed(f"{envelope.sending_machine} sends no {envelope.message[:60]} to {core.role}")
        role, index = speaker
        near = {(r, instance if i < 0 else i): n for n, (r, i) in enumerate(core.neighbours)}
        if (role, index) not in near:
            raise Malformed(f"{envelope.sending_machine} is no neighbour of {machine_of(core, instance)}")
        try:
            fields = named_fields(shape.fields, envelope.fields)
        except ValueFault as fault:
            raise Malformed(f"{envelope.message}: {fault}") from None
        return envelope.message, fields, near[role, index], envelope.number, -1
