"""The membership of a run: which actor plays which machine, signed by the actor that began it.

    lhm1.FINGERPRINT.SIGNATURE.BODY

Theory of operation. A machine that is begun by a message may have to speak to machines that have not spoken to it. It
learns who plays them from the run's membership, which travels with the first messages between two machines. Its origin
has signed it: so a member may pass it on, nobody begins a run in another's name, and no member can put another actor in
a machine's place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from leasehold.impl.identity import signed
from leasehold.impl.identity.keys import PrivateKey, Purpose
from leasehold.impl.identity.signed import Unauthorised
from leasehold.impl.identity.trust import Trust

_PREFIX, _WHAT = "lhm1", "membership"


class Membership(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The membership of a run.

    Attributes:
        origin: the actor that began the run.
        run: its name.
        members: for each machine the actor that plays it.
        version: of this form.
    """

    version: Literal[1]
    origin: signed.Word
    run: signed.Word
    members: dict[signed.MachineName, signed.Word]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Membership)


def _words(field: str, value: Any) -> None:
    for name in value.values():
        signed.word(field, name)


_FORM: signed.Form = (("origin", signed.word), ("run", signed.word), ("members", _words))


def issue(key: PrivateKey, origin: str, run: str, members: Mapping[str, str]) -> str:
    """The membership of a run as a signed text.

    Raises:
        Malformed: a value cannot be one of a membership; this is a mistake of ours.
        TooLarge: it is larger than an envelope can carry.
    """
    membership = Membership(version=1, origin=origin, run=run, members=dict(members))
    body = signed.write(membership, "the membership", _decoder, _encoder, _FORM)
    label = f"{_WHAT} of {len(members)} machines"
    return signed.text_of(_PREFIX, label, key.public.fingerprint, key.sign(Purpose.MEMBERSHIP, body), body)


def read(text: str, trust: Trust, run: str, origin: str, at: float | None = None) -> dict[str, str]:
    """The members of a run, if its origin has signed them.

    Args:
        text: any text.
        trust: whom I trust.
        run: the run that it must be of.
        origin: the actor that must have signed it.
        at: the calendar time by which keys end; None: now.

    Raises:
        TooLarge: it is too long.
        Malformed: it is no membership.
        UnknownSender: its origin is not trusted.
        Forged: its origin did not sign it, or with a key that is revoked or over.
        Unauthorised: it is of another run or origin.
    """
    fingerprint, signature, body = signed.parts_of(_PREFIX, _WHAT, text)
    membership = signed.read(body, _decoder, _encoder, _FORM)
    if (membership.run, membership.origin) != (run, origin):
        raise Unauthorised(
            f"the membership is that of {membership.run[:80]}, by {membership.origin[:80]}, not of {run[:80]}"
        )
    actor = trust.sender(origin)
    actor.check_signature(Purpose.MEMBERSHIP, fingerprint, body, signature, time.time() if at is None else at)
    return membership.members
