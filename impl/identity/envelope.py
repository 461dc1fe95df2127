"""The signed envelope: what one actor says to another, in bytes that nobody else could have made.

    leasehold1 FINGERPRINT SIGNATURE
    {"version":1,"system":"lease",...}

Theory of operation. The first line names the key and carries the signature; all after it is the body, and the signature
covers exactly those bytes. So nothing depends on how a body is written: it is checked as it came, and read once. What
the body says is believed only after the signature was verified with a key of the actor that the body names as sender.
An envelope names its receiver, so it cannot be played to another; that it may be played again to the same one is what
sequence numbers are for (paper, section 4.2).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from leasehold.impl.identity import plain
from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of, unbase64
from leasehold.impl.identity.refusal import Malformed, NotForMe, TooLarge
from leasehold.impl.identity.trust import LARGEST_ADDRESS, Trust

_HEAD = re.compile(rb"leasehold1 ([0-9a-f]{32}) ([A-Za-z0-9_-]{86})\n")
_MACHINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[0-9]{1,9}\])?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large an envelope and its parts may be. With other limits one actor refuses what another sends.

    Attributes:
        parcel: bytes of the whole.
        text: characters of one text, tickets among them.
        name: characters of a name: of a lease, an actor, a field.
        depth: how deep lists and mappings may lie in one another within the fields.
    """

    parcel: int = 256 * 1024
    text: int = 64 * 1024
    name: int = 200
    depth: int = 16


LIMITS = Limits()


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message of one machine to another, and all that is needed to judge it.

    Attributes:
        system: the system of the specification, `lease`.
        digest: of the specification that the sender serves.
        sender: the actor that says it.
        receiver: the actor that it is said to.
        lease: of which lease (or run) it speaks.
        sending_machine: `service_manager`, `participant[2]`.
        receiving_machine: the machine that consumes it.
        message: the message's name in the specification.
        number: its sequence number.
        epoch: the sender's incarnation.
        fields: the message's fields by name; not to be changed.
        ticket: a signed ticket (impl/identity/ticket.py), where the message presents one.
        reply_to: where the sender can be reached, if it wants to say so.
        version: of this form.
    """

    version: Literal[1]
    system: str
    digest: str
    sender: str
    receiver: str
    lease: str
    sending_machine: str
    receiving_machine: str
    message: str
    number: int
    epoch: int
    fields: dict[str, Any]
    ticket: str | None = None
    reply_to: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)


def seal(envelope: Envelope, key: PrivateKey, limits: Limits = LIMITS) -> bytes:
    """Signs an envelope. The same envelope and key give the same bytes each time.

    Raises:
        Malformed: no receiver would accept it; this is a mistake of ours.
        TooLarge: it is larger than a parcel may be.
    """
    _check(envelope, limits)
    try:
        body = _encoder.encode(envelope)
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"the envelope cannot be written as JSON: {error}") from error
    plain.decode(body, _decoder)
    signature = base64_of(key.sign(Purpose.ENVELOPE, body))
    parcel = f"leasehold1 {key.public.fingerprint} {signature}\n".encode() + body
    if len(parcel) > limits.parcel:
        raise TooLarge(f"the envelope has {len(parcel)} bytes, and a parcel may have {limits.parcel}")
    return parcel


def open_parcel(parcel: bytes, trust: Trust, me: str, limits: Limits = LIMITS, at: float | None = None) -> Envelope:
    """The envelope in a parcel, if it is one, and from whom it says it is, and for me.

    Args:
        parcel: any bytes.
        trust: whom I trust.
        me: my name.
        limits: how large it may be.
        at: the calendar time by which keys end, in seconds since 1970; None: now.

    Raises:
        TooLarge: it has too many bytes.
        Malformed: it is no envelope.
        Unknown: its sender is not trusted.
        Forged: its sender did not sign it, or with a key that is revoked or over.
        NotForMe: it is for another actor.
    """
    if len(parcel) > limits.parcel:
        raise TooLarge(f"the parcel has {len(parcel)} bytes, and {limits.parcel} are accepted")
    head = _HEAD.match(parcel)
    if head is None:
        raise Malformed("the parcel does not begin with the line of a signed envelope")
    signature = unbase64(head[2].decode())
    if signature is None:
        raise Malformed("the signature is not written in base64")
    body = parcel[head.end() :]
    envelope = _read(body, limits)
    moment = time.time() if at is None else at
    sender = trust.sender(envelope.sender)
    sender.check_signature(Purpose.ENVELOPE, head[1].decode(), body, signature, moment)
    if envelope.receiver != me:
        raise NotForMe(f"the parcel is for {envelope.receiver[:80]!r}, and this is {me}")
    return envelope


def _read(body: bytes, limits: Limits) -> Envelope:
    envelope = plain.decode(body, _decoder)
    _check(envelope, limits)
    plain.check_once(body, _encoder.encode(envelope))
    return envelope


def _check(envelope: Envelope, limits: Limits) -> None:
    """What the types do not say. Names become keys of stores and words of logs, so they are one printable word."""
    for field in ("system", "digest", "sender", "receiver", "lease"):
        plain.check_word(field, getattr(envelope, field), limits.name)
    for field in ("sending_machine", "receiving_machine"):
        plain.check_form(field, getattr(envelope, field), _MACHINE, limits.name)
    plain.check_form("message", envelope.message, _NAME, limits.name)
    plain.check_number("number", envelope.number, 1)
    plain.check_number("epoch", envelope.epoch, 1)
    plain.check_value("fields", envelope.fields, limits.depth, limits.text, limits.name)
    if envelope.ticket is not None:
        plain.check_text("ticket", envelope.ticket, limits.text)
    if envelope.reply_to is not None:
        plain.check_word("reply_to", envelope.reply_to, LARGEST_ADDRESS)
