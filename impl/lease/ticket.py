"""Tickets: a broker's signed promise of resources, which a site believes because of the signature (SHARP).

    lht1.FINGERPRINT.SIGNATURE.BODY

Theory of operation. A ticket says how many units of what, until when, for which lease, at which authority, and who
holds it: an actor by name and by key, so that an actor which another trust set calls by the same name has no use of it.
It is no bearer paper: it counts only in an envelope that its holder signed. Its serial number rises with every
extension of the lease. The authority keeps what it redeemed last for each lease (`Redeemed`); that alone decides
whether a ticket is new, the same again, or overtaken. A ticket is redeemed only (the first rule that is broken is told)

1. at the authority that it names,
2. for the lease that it names,
3. by its holder, whose key the authority itself knows as the holder's,
4. before its end,
5. once for each extension: the same ticket again is the same request again, and harmless; but another one with the
   same serial number is not,
6. and not after a newer one of its lease.

    ltr1.FINGERPRINT.SIGNATURE.BODY

Who gives tickets back before their end signs a *release* of them, so that their broker can show why it has promised the
units to others. Each ticket of a lease ends later than the one before it, so a release says up to which end: all that
end before one that is for fewer units, or all tickets that the lease ever had.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from leasehold.impl.identity import signed
from leasehold.impl.identity.keys import PrivateKey, Purpose
from leasehold.impl.identity.signed import Ended, Unauthorised
from leasehold.impl.identity.trust import Trust, TrustedActor

_PREFIX, _WHAT = "lht1", "ticket"
_RELEASE = ("ltr1", "release of tickets")


class Ticket(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ticket.

    Attributes:
        issuer: the broker that signed it.
        authority: the only actor that may redeem it.
        holder: the actor that may present it, a service manager.
        holder_key: the fingerprint of a key of the holder's.
        lease: for which lease.
        serial: rises with every extension of the lease.
        resource: the type of resource.
        units: how many.
        end: when its term is over, on the virtual clock; at this time and later it has ended.
        properties: opaque words of the broker's policy for the authority's; not to be changed.
        version: of this form.
    """

    version: Literal[1]
    issuer: signed.Word
    authority: signed.Word
    holder: signed.Word
    holder_key: signed.Word
    lease: signed.Word
    serial: signed.Positive
    resource: signed.Word
    units: signed.Positive
    end: signed.Natural
    properties: dict[str, Any]


class TicketRelease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A holder's word that it has given tickets back, and that no site holds units for them any more.

    Attributes:
        issuer: the broker that signed the tickets.
        holder: who had them, and signed this.
        lease: of which they are.
        before: those that end before this time; 0: all.
        version: of this form.
    """

    version: Literal[1]
    issuer: signed.Word
    holder: signed.Word
    lease: signed.Word
    before: signed.Natural

    def covers(self, ticket: Ticket) -> bool:
        """Returns whether a ticket is among those that were given back."""
        of = (ticket.issuer, ticket.holder, ticket.lease)
        return of == (self.issuer, self.holder, self.lease) and (not self.before or ticket.end < self.before)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Ticket)
_release_decoder = msgspec.json.Decoder(TicketRelease)
_WORDS = ("issuer", "authority", "holder", "holder_key", "lease", "resource")
_FORM: signed.Form = (*((name, signed.word) for name in _WORDS), ("properties", signed.data))
_RELEASE_FORM: signed.Form = tuple((name, signed.word) for name in ("issuer", "holder", "lease"))


def issue(key: PrivateKey, *, holder: TrustedActor, at: float | None = None, **terms: Any) -> str:
    """Signs a ticket for a holder: `text_of` of its `body_of`.

    Raises:
        Unauthorised, Malformed, TooLarge: as they do.
    """
    body = body_of(holder=holder, at=at, **terms)
    return text_of(key, key.sign(Purpose.TICKET, body), body)


def body_of(*, holder: TrustedActor, at: float | None = None, **terms: Any) -> bytes:
    """Returns what is signed of a ticket, bound to the newest of its holder's keys that counts.

    Args:
        holder: who may present it.
        at: the calendar time by which keys end; None: now.
        terms: the other attributes of the ticket; `properties` may be left out.

    Raises:
        Unauthorised: the holder has no key that counts.
        Malformed: a value cannot be one of a ticket; this is a mistake of ours.
    """
    holder_key = holder.newest_key(time.time() if at is None else at)
    if holder_key is None:
        raise Unauthorised(f"{holder.name} has no key that counts now, so no ticket can be bound to it")
    ticket = Ticket(version=1, holder=holder.name, holder_key=holder_key, **{"properties": {}, **terms})
    return signed.write(ticket, "the ticket", _decoder, _encoder, _FORM)


def text_of(key: PrivateKey, signature: bytes, body: bytes) -> str:
    """A ticket, of its body and the signature of the issuer's key.

    Raises:
        TooLarge: the ticket is larger than an envelope can carry.
    """
    return signed.text_of(_PREFIX, _WHAT, key.public.fingerprint, signature, body)


def read_ticket(text: str, trust: Trust, now: int | None = None, at: float | None = None) -> Ticket:
    """The ticket in a text, if a trusted broker signed it.

    Args:
        text: any text.
        trust: whom I trust.
        now: the virtual clock; a ticket whose term is over is refused. None: its end is not looked at.
        at: the calendar time by which keys end; None: now.

    Raises:
        TooLarge: it is too long.
        Malformed: it is no ticket.
        UnknownSender: its issuer is not trusted.
        Unauthorised: its issuer is no broker.
        Forged: its issuer did not sign it, or with a key that is revoked or over.
        Ended: its term is over.
    """
    fingerprint, signature, body = signed.parts_of(_PREFIX, _WHAT, text)
    ticket = signed.read(body, _decoder, _encoder, _FORM)
    issuer = trust.speaker(ticket.issuer, "broker")
    issuer.check_signature(Purpose.TICKET, fingerprint, body, signature, time.time() if at is None else at)
    if now is not None and now >= ticket.end:
        raise Ended(f"the ticket ended at {ticket.end}, and it is {now}")
    return ticket


def release(key: PrivateKey, *, issuer: str, holder: str, lease: str, before: int) -> str:
    """Signs that tickets of a lease were given back: those that end before a time, or, where that is 0, all.

    Raises:
        Malformed, TooLarge: it cannot be signed; a mistake of ours.
    """
    one = TicketRelease(version=1, issuer=issuer, holder=holder, lease=lease, before=before)
    body = signed.write(one, "the release", _release_decoder, _encoder, _RELEASE_FORM)
    return signed.text_of(*_RELEASE, key.public.fingerprint, key.sign(Purpose.TICKET_RELEASE, body), body)


def is_release(text: str) -> bool:
    """Returns whether a text is to be read as a release of tickets."""
    return text.startswith(f"{_RELEASE[0]}.")


def read_release(text: str, trust: Trust, at: float | None = None) -> TicketRelease:
    """The release in a text, if the holder that it names signed it.

    Raises:
        TooLarge, Malformed, UnknownSender, Forged: as of a ticket.
    """
    fingerprint, signature, body = signed.parts_of(*_RELEASE, text)
    one = signed.read(body, _release_decoder, _encoder, _RELEASE_FORM)
    moment = time.time() if at is None else at
    trust.check_signature(one.holder, Purpose.TICKET_RELEASE, fingerprint, body, signature, moment)
    return one


def said(text: str) -> Ticket:
    """The ticket in a text that was read before: nothing is checked again."""
    return signed.read(signed.parts_of(_PREFIX, _WHAT, text)[2], _decoder, _encoder, _FORM)


def content_of(ticket: Ticket) -> bytes:
    """The content of a ticket as bytes: equal for equal tickets, whichever key of the issuer signed them."""
    return msgspec.json.encode(ticket, order="deterministic")


def properties_of(opaque: object) -> dict[str, Any]:
    """The property list in an opaque value (docs/decisions/0006-opaque.md); empty where there is none.

    Machines carry a ticket's properties without reading them; a record that has no ticket yet has another value there.
    """
    return {str(name): value for name, value in opaque.items()} if isinstance(opaque, Mapping) else {}


class Redeemed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last redemption of one lease; `to_bytes` makes it bytes for the authority's store.

    It reads no clock and no file.

    Attributes:
        serial: the ticket's serial number; 0: none was redeemed.
        digest: of what that ticket said; empty where it was not kept, and then its serial alone counts.
    """

    serial: int = 0
    digest: str = ""

    def after(self, ticket: Ticket) -> Redeemed:
        """The last redemption, once a ticket that `check` found good is redeemed."""
        return Redeemed(ticket.serial, _digest(ticket))

    def same(self, ticket: Ticket) -> bool:
        """Returns whether this very ticket was the last redeemed: nothing is left to do for it."""
        return ticket.serial == self.serial and _digest(ticket) == self.digest

    def check(
        self, ticket: Ticket, sender: TrustedActor, lease: str, authority: str, now: int, at: float
    ) -> str | None:
        """Returns why a ticket (already read, so well signed) is not redeemed; None: it is good, or the same again.

        Args:
            ticket: the ticket.
            sender: who signed the envelope that presents it, from the authority's own trust set.
            lease: of which lease the envelope speaks.
            authority: the name of the authority that asks.
            now: the virtual clock.
            at: the calendar time by which keys end.
        """
        if ticket.authority != authority:
            return f"the ticket is for the authority {ticket.authority}, and this is {authority}"
        if ticket.lease != lease:
            return f"the ticket is for the lease {ticket.lease}, not for {lease}"
        if ticket.holder != sender.name:
            return f"the ticket is held by {ticket.holder}, and {sender.name} presents it"
        if not sender.holds(ticket.holder_key, at):
            return (
                f"the ticket is bound to a key that is not (or no longer) a key of {sender.name}; a new one is needed"
            )
        if now >= ticket.end:
            return f"the ticket ended at {ticket.end}, and it is {now}"
        if ticket.serial < self.serial:
            return f"ticket {ticket.serial} of {lease} comes after ticket {self.serial} was redeemed"
        if ticket.serial == self.serial and self.digest and not self.same(ticket):
            return f"another ticket with the number {ticket.serial} was redeemed for {lease}"
        return None

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Redeemed:
        """Reads what `to_bytes` wrote.

        Raises:
            ValueError: it is something else; the store's fault.
        """
        try:
            return msgspec.json.decode(content, type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"this is no record of a redeemed ticket: {error}") from error


def _digest(ticket: Ticket) -> str:
    return hashlib.sha256(content_of(ticket)).hexdigest()
