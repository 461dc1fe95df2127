"""Messages of machines as signed envelopes, and back: who may say what, for which lease.

Theory of operation. An envelope says which machine speaks to which. It is believed when its signature is right
(impl/identity), when its sender may speak for that role, and when it is the actor that the record knows as that
neighbour. A message that `carries` another (`redeem` carries `update_ticket`) must bring that other actor's signed word
for what it shows: the ticket (SHARP). The broker signs one with every ticket message that promises units, the service
manager keeps the last one with its record, and the site keeps what it redeemed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from leasehold.impl.actor.held import Held, machine_of, role_of
from leasehold.impl.actor.identity import Identity
from leasehold.impl.core.core import Core, MessageShape, Program
from leasehold.impl.core.event import Event, message
from leasehold.impl.core.values import ValueFault, named_fields, to_plain
from leasehold.impl.core.work import Send
from leasehold.impl.identity import ticket as tickets
from leasehold.impl.identity.envelope import Envelope, open_parcel, seal
from leasehold.impl.identity.redeemed import Redeemed
from leasehold.impl.identity.refusal import Malformed, OtherSpecification, Refusal, Unauthorised
from leasehold.impl.policy.properties import read as read_properties

AUTHORITY = "authority"  # papers: whom the tickets of a lease are for, as the site cannot change during it
GRANT = ("units", "end", "properties")  # the fields of a message that a ticket can be made for


class Mail:
    """Writes and reads the envelopes of one actor.

    Args:
        program: the compiled system.
        identity: whose they are.
        peers: who plays which machine; tickets are for the authority where their properties name none.
        tick_seconds: of the actor's clock; 0: it is moved by hand.
    """

    def __init__(self, program: Program, identity: Identity, peers: Mapping[str, str], tick_seconds: float = 0) -> None:
        self.program, self.identity, self.peers = program, identity, peers
        self.agreement = program.agreement + (f".{tick_seconds:g}" if tick_seconds else "")
        self.address = ""  # where this actor is reached
        self.epoch = 0
        self.carried = {
            shape.carries for shape in program.messages.values() if shape.carries and self._grants(shape.carries)
        }
        self._issuers = {program.messages[name].sender for name in self.carried}

    def _grants(self, name: str) -> bool:
        return [n for n, _ in self.program.messages[name].fields] == list(GRANT)

    # Out

    def seal(self, held: Held, piece: Send, fields: tuple[Any, ...], number: int) -> bytes:
        """A message of a machine as a parcel.

        Raises:
            Refusal: it cannot be written; a mistake of ours.
        """
        core, shape = held.core, self.program.messages[piece.message]
        role, index = core.neighbours[piece.neighbour]
        own = held.record[1] if core.indexed else 0
        plain = {n: to_plain(kind, v) for (n, kind), v in zip(shape.fields, fields, strict=True)}
        envelope = Envelope(
            version=1, system=self.program.system, digest=self.agreement, sender=self.identity.name,
            receiver=held.peers[piece.neighbour], lease=held.key.lease, sending_machine=held.key.machine,
            receiving_machine=machine_of(self.program.roles[role], own if index < 0 else index),
            message=piece.message, number=number, epoch=self.epoch, fields=plain,
            ticket=self._ticket(held, piece, plain, number, shape), reply_to=self.address or None,
        )  # fmt: skip
        return seal(envelope, self.identity.key)

    def _ticket(
        self, held: Held, piece: Send, plain: Mapping[str, Any], number: int, shape: MessageShape
    ) -> str | None:
        if shape.carries:
            return held.papers.get("ticket")
        if piece.message not in self.carried or not plain["units"]:
            return None
        holder = self.identity.trust.sender(held.peers[piece.neighbour])
        properties = read_properties(plain["properties"])
        authority = properties.get("authority") or held.papers.get(AUTHORITY) or self.peers.get("authority")
        if not authority:
            raise Refusal("nobody is known to play authority; trust exactly one such actor, or name one under `peers`")
        return tickets.issue(
            self.identity.key, issuer=self.identity.name, authority=str(authority),
            holder=holder, lease=held.key.lease, serial=number, resource=str(properties.get("resource", "unit")),
            units=plain["units"], end=plain["end"], properties={"of": plain["properties"]},
        )  # fmt: skip

    # In

    def open(self, parcel: bytes) -> Envelope:
        """The envelope of a parcel whose sender may speak for the machine that it names.

        Raises:
            Refusal: it is refused, and why.
        """
        envelope = open_parcel(parcel, self.identity.trust, self.identity.name)
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
        """What the machine consumes.

        Raises:
            Refusal: the message is none of the specification, or not from this neighbour, or not of this shape.
        """
        shape = self.program.messages.get(envelope.message)
        speaker = role_of(envelope.sending_machine)
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
        return message(envelope.message, fields, near[role, index], envelope.number)

    def proof(self, envelope: Envelope, papers: Mapping[str, Any]) -> dict[str, Any]:
        """What is to be kept with the record: the ticket that an envelope brings or presents, whom ours will be for.

        Raises:
            Refusal: it shows what nobody has signed for it.
        """
        shape = self.program.messages[envelope.message]
        if envelope.message in self.carried and envelope.ticket is not None:
            return {"ticket": envelope.ticket}
        if shape.receiver in self._issuers and AUTHORITY not in papers and (site := self.peers.get("authority")):
            return {AUTHORITY: site}
        if not shape.carries or shape.carries not in self.carried:
            return {}
        if envelope.ticket is None:
            raise Unauthorised(f"{envelope.message} brings no ticket")
        found = tickets.read(envelope.ticket, self.identity.trust)
        for name, shown in (("units", found.units), ("end", found.end), ("properties", found.properties.get("of"))):
            if envelope.fields.get(name) != shown:
                raise Unauthorised(
                    f"{envelope.message} says {name}={envelope.fields.get(name)!r}, the ticket {shown!r}"
                )
        sender = self.identity.trust.sender(envelope.sender)
        redeemed = Redeemed.from_bytes(papers["redeemed"]) if "redeemed" in papers else Redeemed()
        # Whether its term is over is the machine's to say, so that its holder hears of it.
        reason = redeemed.check(found, sender, envelope.lease, self.identity.name, now=-1, at=time.time())
        if reason:
            raise Unauthorised(reason)
        return {"redeemed": redeemed.after(found).to_bytes()}


__all__ = ["Mail", "Refusal"]
