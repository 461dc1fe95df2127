"""The signed envelope: a message from one actor to another, in bytes that no other actor can make.

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
from typing import Any, Literal

import msgspec

from leasehold.impl.identity import signed
from leasehold.impl.identity.keys import SIGNATURE, PrivateKey, Purpose, base64_of, unbase64
from leasehold.impl.identity.signed import Malformed, Misdirected, TooLarge
from leasehold.impl.identity.trust import Trust

_HEAD = re.compile(rf"leasehold1 ([0-9a-f]{{32}}) ({SIGNATURE})\n".encode())
FINGERPRINT = slice(len("leasehold1 "), len("leasehold1 ") + 32)  # its place in a frame


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message of one machine to another, and the data needed to judge it.

    Attributes:
        system: the system of the specification, `lease`.
        digest: of the specification that the sender serves.
        sender: the actor that sends it.
        receiver: the actor that it is for.
        lease: the lease (or run) that it is about.
        sending_machine: `service_manager`, `participant[2]`.
        receiving_machine: the machine that consumes it.
        message: the message's name in the specification.
        number: its sequence number.
        epoch: the sender's incarnation.
        fields: the message's fields by name; not to be changed.
        values: of those that are too large to be written here, the digests of their first pages.
        credential: a text signed by a third actor, if the message presents one; `ticket` on the wire.
        reply_to: the sender's address, if it gives one.
        store: what the sender's store is known by, through all its incarnations.
        began: how many commits it had when this incarnation began.
        commits: how many it has with the one that this message follows from.
        membership: who plays the machines of the run, signed by its origin, where the receiver may not know it.
        version: of this form.
    """

    version: Literal[1]
    system: signed.Word
    digest: signed.Word
    sender: signed.Word
    receiver: signed.Word
    lease: signed.Word
    sending_machine: signed.MachineName
    receiving_machine: signed.MachineName
    message: signed.Name
    number: signed.Positive
    epoch: signed.Positive
    fields: dict[str, Any]
    credential: signed.Text | None = msgspec.field(default=None, name="ticket")
    reply_to: signed.Address | None = None
    store: signed.Name = "_"
    began: signed.Natural = 0
    commits: signed.Natural = 0
    membership: signed.Text | None = None
    values: dict[signed.Name, signed.Digest] | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)
# Names become keys of stores and words of logs, so they are one printable word.
_WORDS = ("system", "digest", "sender", "receiver", "lease", "reply_to")
_FORM: signed.Form = (*((name, signed.word) for name in _WORDS), ("fields", signed.data))


def seal(envelope: Envelope, key: PrivateKey) -> bytes:
    """Signs an envelope. The same envelope and key give the same bytes each time.

    Raises:
        Malformed: no receiver would accept it; this is a mistake of ours.
        TooLarge: it is larger than a frame may be.
    """
    body = body_of(envelope)
    return frame_of(key, key.sign(Purpose.ENVELOPE, body), body)


def body_of(envelope: Envelope) -> bytes:
    """Returns what is signed of an envelope.

    Raises:
        Malformed: no receiver would accept it; this is a mistake of ours.
    """
    return signed.write(envelope, "the envelope", _decoder, _encoder, _FORM)


def frame_of(key: PrivateKey, signature: bytes, body: bytes) -> bytes:
    """A frame of an envelope's body and its signature.

    Raises:
        TooLarge: it is larger than a frame may be.
    """
    frame = f"leasehold1 {key.public.fingerprint} {base64_of(signature)}\n".encode() + body
    if len(frame) > signed.FRAME_BYTES:
        raise TooLarge(f"the envelope has {len(frame)} bytes, and a frame may have {signed.FRAME_BYTES}")
    return frame


def open_frame(frame: bytes, trust: Trust, me: str, at: float | None = None) -> Envelope:
    """The envelope in a frame, if it is one, and from whom it says it is, and for me.

    Args:
        frame: any bytes.
        trust: whom I trust.
        me: my name.
        at: the calendar time by which keys end, in seconds since 1970; None: now.

    Raises:
        TooLarge: it has too many bytes.
        Malformed: it is no envelope.
        UnknownSender: its sender is not trusted.
        Forged: its sender did not sign it, or with a key that is revoked or over.
        Misdirected: it is for another actor.
    """
    if len(frame) > signed.FRAME_BYTES:
        raise TooLarge(f"the frame has {len(frame)} bytes, and {signed.FRAME_BYTES} are accepted")
    head = _HEAD.match(frame)
    if head is None:
        raise Malformed("the frame does not begin with the line of a signed envelope")
    signature = unbase64(head[2].decode())
    if signature is None:
        raise Malformed("the signature is not written in base64")
    body = frame[head.end() :]
    envelope = signed.read(body, _decoder, _encoder, _FORM)
    moment = time.time() if at is None else at
    trust.check_signature(envelope.sender, Purpose.ENVELOPE, head[1].decode(), body, signature, moment)
    if envelope.receiver != me:
        raise Misdirected(f"the frame is for {envelope.receiver[:80]!r}, and this is {me}")
    return envelope
