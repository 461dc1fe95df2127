"""Events as lines of JSON: a file of them is as good as the store that they came from.

Theory of operation. The first line says whose events follow, and after which position; then comes each event as its
store has it, byte by byte; the last line says where they end, and is signed with the actor's key, so that a file of
which the end is missing is noticed. Whoever reads a running actor gets the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Struct

from leasehold.impl.events.chain import ChainError, ChainVerifier, Tampering, Verified
from leasehold.impl.events.event import ROOT, AnyEvent, digest
from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of, unbase64
from leasehold.impl.identity.trust import Trust

VERSION = 1
_SIGNED = re.compile(rb',"signature":"([A-Za-z0-9_-]{86})"\}\Z')


class LinesHeader(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="header"):
    """The first line.

    Attributes:
        version: of this form.
        actor: whose events follow.
        after: the position after which they begin; 0: with the oldest that there is.
    """

    version: int
    actor: str
    after: int


class LinesEnd(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="end"):
    """The last line.

    Attributes:
        actor: as in the header.
        position, digest: of the last event, or of the one after which none came.
        time: when this was written, in seconds since 1970.
        key: the fingerprint of the key that signs; empty: whoever wrote this had none.
        signature: of the line without it.
    """

    actor: str
    position: int
    digest: str
    time: float
    key: str = ""
    signature: str = ""


Line: TypeAlias = AnyEvent | LinesHeader | LinesEnd
_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(LinesHeader).decode
_decode_end = msgspec.json.Decoder(LinesEnd).decode


def write_lines(
    actor: str,
    bodies: Iterable[bytes],
    time: float,
    after: tuple[int, str] = (0, ROOT),
    key: PrivateKey | None = None,
    end: tuple[int, str] | None = None,
) -> Iterator[bytes]:
    """Lines of events, without line ends.

    Args:
        actor: whose.
        bodies: the events.
        time: now, in seconds since 1970.
        after: position and digest of the event before the first one; position 0: they begin with the oldest one.
        key: signs the end; None: it is not signed.
        end: position and digest of the last event, as their store knows it; None: that of the last one here.
    """
    yield _encode(LinesHeader(VERSION, actor, after[0]))
    count, last = 0, b""
    position, last_digest = after
    for body in bodies:
        count, last = count + 1, body
        yield body
    if count:
        position, last_digest = msgspec.json.decode(last, type=_Position).position, digest(last)
    position, last_digest = end or (position, last_digest)
    yield _end(LinesEnd(actor, position, last_digest, time, "" if key is None else key.public.fingerprint), key)


class _Position(Struct):
    position: int


def _end(end: LinesEnd, key: PrivateKey | None) -> bytes:
    body = _encode(end)
    if key is None:
        return body
    return b'%b,"signature":"%b"}' % (body[:-1], base64_of(key.sign(Purpose.EVENTS, body)).encode())


class EventLines:
    """Reads lines: an iterator of the events between the header and the end.

    Args:
        lines: with or without their line ends.

    Attributes:
        header: the first line.
        end: the last one, once it was read; None: there was none.
        header_line, end_line: both as they were read.

    Raises:
        ChainError: the first line is no header.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self.header_line = first = next(self._lines, b"").rstrip(b"\r\n")
        try:
            self.header = _decode_header(first)
        except (msgspec.DecodeError, ValueError) as error:
            why = f"the first line is no header of events: {error}" if first else "there is no line of events"
            reason = f"{why}; `leasehold events --json` writes them"
            raise ChainError(Tampering.ROOTLESS, 0, reason) from None
        if self.header.version != VERSION:
            reason = f"the lines have version {self.header.version}, and {VERSION} is the only one that is known here"
            raise ChainError(Tampering.ROOTLESS, 0, reason)
        self.end: LinesEnd | None = None
        self.end_line = b""

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            body = line.rstrip(b"\r\n")
            if self.end is not None:
                raise ChainError(Tampering.REPEATED, self.end.position + 1, "a line comes after the end")
            if body.startswith(b'{"kind":"end"'):
                try:
                    self.end, self.end_line = _decode_end(body), body
                except (msgspec.DecodeError, ValueError) as error:
                    raise ChainError(Tampering.TRUNCATED, 0, f"the last line is no end of events: {error}") from None
            else:
                yield body

    def verified(
        self, verifier: ChainVerifier, unsigned: bool, later: bool = False
    ) -> Iterator[tuple[AnyEvent, bytes]]:
        """Yields the events as they come next in a chain, each with its bytes, and checks the end (`check_end`).

        Args:
            verifier: of the chain.
            unsigned: whether the end need not be signed.
            later: whether a seal may come later that covers what a revoked key has sealed.

        Raises:
            ChainError: the lines are not as their actor wrote them.
        """
        for body in self:
            yield verifier.take(body), body
        try:
            self.check_end(verifier, unsigned)
        except ChainError as error:
            if error.kind is not Tampering.REVOKED or not later:
                raise

    def check_end(self, verifier: ChainVerifier, unsigned: bool = False) -> Verified:
        """Checks that the end is that of the events that were read; returns what is verified of them.

        Raises:
            ChainError: it is not, or nobody who could vouch for it has signed it.
        """
        end, last = self.end, verifier.last or self.header.after
        if end is None:
            raise ChainError(Tampering.TRUNCATED, last + 1, "the last line is missing, which says where events end")
        if end.position > last:
            reason = f"it is missing, as the last line says that events go on to {end.position}"
            raise ChainError(Tampering.TRUNCATED, last + 1, reason)
        known = verifier.digest if verifier.digest is not None else end.digest
        if end.actor != self.header.actor or (end.position, end.digest) != (last, known):
            raise ChainError(Tampering.ALTERED, last, "the last line speaks of another end")
        if end.key or not unsigned:
            signed = _SIGNED.search(self.end_line)
            signature = None if signed is None else unbase64(signed[1].decode())
            if signed is None or signature is None:
                raise ChainError(
                    Tampering.TRUNCATED, last, "nobody has signed that events end here; --unsigned takes them so"
                )
            body = self.end_line[: signed.start()] + b"}"
            verifier.check_signature(last, end.key, body, signature, end.time)
        return verifier.end()


def verify_lines(trust: Trust, lines: Iterable[bytes], unsigned: bool = False) -> Verified:
    """Verifies lines of events.

    Args:
        trust: has the keys of the actor.
        lines: with or without their line ends.
        unsigned: whether the end need not be signed; then nobody vouches for it that no event is missing there.

    Raises:
        ChainError: they are not as the actor wrote them.
    """
    read = EventLines(lines)
    verifier = ChainVerifier(trust, read.header.actor, read.header.after)
    for body in read:
        verifier.take(body)
    return read.check_end(verifier, unsigned)
