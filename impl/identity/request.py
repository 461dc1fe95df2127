"""Signed requests of clients: who asks an actor for what, in words that can be said once.

    Authorization: leasehold request1.FINGERPRINT.SIGNATURE.BODY

Theory of operation. A request is signed with its method, its target, the digest of its content, and the name of the
actor that it is for, so it can be turned into no other. It answers a *challenge* of that actor, and has a number that
no other answer to the challenge has, so it cannot be played again. A challenge holds for a minute or so, by the actor's
own clock; it is a text that the actor can tell from any other by a secret that it makes when it starts, and keeps
nowhere. So strangers who ask for challenges cost it no memory, and after a restart no request of before counts. Clocks
of clients do not matter.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from typing import Literal

import msgspec

from leasehold.impl.identity import signed
from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of, unbase64
from leasehold.impl.identity.signed import Forged

SCHEME = "leasehold "
PREFIX = "request1"
_MAC_BYTES, _NAME_BYTES, _TIME_BYTES = 16, 12, 8
LABEL = "signed request"


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of a client.

    Attributes:
        actor: whom it is for.
        challenge: of the actor, which it answers.
        number: of the answers to this challenge.
        method: of HTTP.
        target: path and query, as they are sent.
        content: the SHA-256 digest of the body.
        version: of this form.
    """

    version: Literal[1] = 1
    actor: signed.Word
    challenge: signed.Word
    number: signed.Positive
    method: signed.Name
    target: signed.Text
    content: signed.Digest


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ClientRequest)
_FORM: signed.Form = (("actor", signed.word), ("challenge", signed.word), ("target", signed.word))


def digest_of(content: bytes) -> str:
    """The digest of a request's body, as it is signed."""
    return base64_of(hashlib.sha256(content).digest())


def write(request: ClientRequest, key: PrivateKey) -> str:
    """Signs a request; returns the value of its `Authorization`.

    Raises:
        Malformed, TooLarge: no actor would take it.
    """
    body = signed.write(request, "the request", _decoder, _encoder, _FORM)
    return SCHEME + signed.text_of(PREFIX, LABEL, key.public.fingerprint, key.sign(Purpose.REQUEST, body), body)


def read(text: str) -> tuple[str, bytes, bytes, ClientRequest]:
    """The fingerprint of the key, the signature, what is signed, and what that says; nothing is verified.

    Raises:
        TooLarge, Malformed: it is no signed request.
    """
    fingerprint, signature, body = signed.parts_of(PREFIX, LABEL, text.removeprefix(SCHEME))
    return fingerprint, signature, body, signed.read(body, _decoder, _encoder, _FORM)


class Challenges:
    """The challenges of one life of an actor.

    Args:
        lasting: seconds for which one holds.
    """

    def __init__(self, lasting: float) -> None:
        self.lasting = lasting
        self._secret = secrets.token_bytes(32)
        self._numbers: dict[
            tuple[str, str], set[int]
        ] = {}  # of the answers to each challenge, by the key of each client
        self._ends: deque[tuple[float, tuple[str, str]]] = deque()

    def make(self, now: float) -> str:
        """A new challenge, at a time in seconds since the actor's host began."""
        plain = round((now + self.lasting) * 1000).to_bytes(_TIME_BYTES) + secrets.token_bytes(_NAME_BYTES)
        return base64_of(plain + self._mac(plain))

    def _mac(self, plain: bytes) -> bytes:
        return hmac.digest(self._secret, plain, "sha256")[:_MAC_BYTES]

    def take(self, challenge: str, fingerprint: str, number: int, now: float) -> None:
        """Takes the answer of a key to a challenge, once.

        Raises:
            Forged: the challenge is none of these, or is over, or there was an answer with this number.
        """
        end, answer = self._end(challenge, now), (challenge, fingerprint)
        while self._ends and self._ends[0][0] <= now:
            del self._numbers[self._ends.popleft()[1]]
        numbers = self._numbers.get(answer)
        if numbers is None:
            numbers = self._numbers[answer] = set()
            self._ends.append((end, answer))
        if number in numbers:
            raise Forged("the request was made before, and counts once")
        numbers.add(number)

    def _end(self, challenge: str, now: float) -> float:
        raw = unbase64(challenge) or b""
        plain, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        if len(plain) != _TIME_BYTES + _NAME_BYTES or not hmac.compare_digest(mac, self._mac(plain)):
            raise Forged("the challenge is none of this actor, or of a life before; ask for another")
        end = int.from_bytes(plain[:_TIME_BYTES]) / 1000
        if now >= end:
            raise Forged("the challenge is over; ask for another")
        return end
