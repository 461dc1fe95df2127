"""The chain of an actor's events: written, signed, and verified.

Theory of operation. Each event names the digest of the one before, so whoever changes, drops, doubles or moves an event
has to write all later ones anew. A *seal* is an event that signs the chain so far, itself included, with the actor's
key: nobody else can do that. One signature stands for all events since the last one. Events after the last seal are
protected by the digests alone; `Head`, which the store keeps in the same commit, and the signed end of an export
(lines.py) say where the chain ends, so that events cut off at its end are missed.

Old events are dropped from the front. A `PrunedEvent` event then says where the rest begins, and is sealed at once.

A key counts for a seal if the trust set has it as the actor's, it is not revoked, and it had not expired when the seal
was made. After a rotation both keys count. What a revoked or expired key has sealed is believed only where a later seal
of a key that counts covers it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from leasehold.impl.events.event import ROOT, AnyEvent, EventError, PrunedEvent, SealEvent, digest, read, write
from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of, unbase64
from leasehold.impl.identity.trust import Trust

_SIGNATURE = re.compile(rb',"signature":"([A-Za-z0-9_-]{86})"\}\Z')


class Head(NamedTuple):
    """The end of a chain, as the store's metadata have it.

    Attributes:
        position, digest: of the last event.
        commit: the number of the commit that wrote it.
        sealed: the position of the last seal.
    """

    position: int = 0
    digest: str = ROOT
    commit: int = 0
    sealed: int = 0

    def __bytes__(self) -> bytes:
        return " ".join(map(str, self)).encode()

    @classmethod
    def of(cls, kept: bytes | None) -> Head:
        """Reads what `bytes` wrote; None is a chain that has not begun.

        Raises:
            EventError: it is no head.
        """
        if kept is None:
            return cls()
        try:
            position, digest_, commit, sealed = kept.decode().split(" ")
            return cls(int(position), digest_, int(commit), int(sealed))
        except ValueError:
            raise EventError(f"{kept[:80]!r} is no head of a chain") from None


@dataclass
class ChainWriter:
    """Appends to a chain. What it wrote counts only once it is committed; a failed commit needs a new writer.

    Attributes:
        head: the end so far.
    """

    actor: str
    spec: str
    epoch: int
    head: Head = field(default_factory=Head)

    def append(self, make: Callable[..., AnyEvent], now: int, time: float, commit: int, **fields: Any) -> bytes:
        """The next event, of these fields, as bytes."""
        return self._appended(write(self._event(make, now, time, commit, fields)), commit)

    def seal(self, key: PrivateKey, why: str, now: int, time: float, commit: int) -> bytes:
        """The next event as a seal."""
        fields = {"why": why, "key": key.public.fingerprint}
        body = write(self._event(SealEvent, now, time, commit, fields))
        signature = base64_of(key.sign(Purpose.EVENTS, body))
        body = self._appended(b'%b,"signature":"%b"}' % (body[:-1], signature.encode()), commit)
        self.head = self.head._replace(sealed=self.head.position)
        return body

    def _event(
        self, make: Callable[..., AnyEvent], now: int, time: float, commit: int, fields: dict[str, Any]
    ) -> AnyEvent:
        position, before, *_ = self.head
        return make(
            position=position + 1,
            before=before,
            actor=self.actor,
            epoch=self.epoch,
            spec=self.spec,
            now=now,
            time=time,
            commit=commit,
            **fields,
        )

    def _appended(self, body: bytes, commit: int) -> bytes:
        self.head = Head(self.head.position + 1, digest(body), commit, self.head.sealed)
        return body


class Tampering(Enum):
    """The ways in which a chain can be wrong."""

    GAP = "events are missing, or come later"
    REPEATED = "an event comes twice, or too late"
    ALTERED = "an event is not as it was written"
    FORGED = "a signature is not the actor's"
    REVOKED = "a key that signs does not count any more"
    TRUNCATED = "the end is missing"
    ROOTLESS = "the beginning is missing"


class ChainError(Exception):
    """A chain is not as its actor wrote it.

    Attributes:
        kind: what is wrong.
        position: where; 0: in the line before all events, or with the lines as a whole.
        reason: in words.
        source: whose chain it is, or where it was read; empty: the reader knows.
    """

    def __init__(self, kind: Tampering, position: int, reason: str, source: str = "") -> None:
        of = f" of {source}" if source else ""
        place = f"event {position}{of}" if position else source
        super().__init__(f"{place}: {reason}" if place else reason)
        self.kind, self.position, self.reason, self.source = kind, position, reason, source

    def of(self, source: str) -> ChainError:
        """The same, with the name of its source, unless it has one."""
        return self if self.source else ChainError(self.kind, self.position, self.reason, source)


class Verified(NamedTuple):
    """A chain that is as its actor wrote it.

    Attributes:
        first, last: the positions of its events; last is first - 1 where there are none.
        digest: of the last one.
        sealed: up to which position signatures vouch for it.
        seals: how many there are.
    """

    first: int
    last: int
    digest: str
    sealed: int
    seals: int


class ChainVerifier:
    """Verifies a chain event by event.

    Args:
        trust: has the keys of the actor; None: positions and digests are checked, and no signature is.
        actor: whose chain it is.
        after: the position after which it begins; 0: at its beginning, or where it was pruned.
        before: the digest of the event at that position, where it is known.
    """

    def __init__(self, trust: Trust | None, actor: str, after: int = 0, before: str | None = None) -> None:
        self.trust, self.actor, self.after = trust, actor, after
        self.first = self.last = 0
        self.digest, self.sealed, self.seals = before, after, 0
        self._root: str | None = None  # what the first event names
        self._pruned: PrunedEvent | None = None
        self._doubt: ChainError | None = None  # a seal that needs another, later one

    def take(self, body: bytes, position: int | None = None) -> AnyEvent:
        """Verifies the next event, which a source has at a position.

        Raises:
            ChainError: it is not the next one, or not as it was written.
        """
        expected = self.last + 1 if self.last else (self.after + 1 if self.after else position or 1)
        try:
            event = read(body)
        except EventError as error:
            raise ChainError(Tampering.ALTERED, expected, str(error)) from None
        at = event.position
        if position is not None and at != position:
            raise ChainError(Tampering.ALTERED, position, f"it says that it is event {at}")
        if not self.last and not self.after:
            expected = at
        if at > expected:
            raise ChainError(Tampering.GAP, expected, f"it is missing: event {at} comes in its place")
        if at < expected:
            raise ChainError(Tampering.REPEATED, at, f"it comes a second time, or too late: {expected} is the next")
        if event.actor != self.actor:
            raise ChainError(Tampering.FORGED, at, f"it is an event of {event.actor[:80]}, not of {self.actor}")
        if self.digest is not None and event.before != self.digest:
            raise ChainError(Tampering.ALTERED, at, "it does not follow the event before, so one of both was altered")
        if at == 1 and event.before != ROOT:
            raise ChainError(Tampering.ALTERED, at, "it is the first event, and names one before")
        if not self.last:
            self.first, self._root = at, event.before
        self.last, self.digest = at, digest(body)
        if isinstance(event, SealEvent):
            self._check_seal(event, body)
        elif isinstance(event, PrunedEvent):
            self._pruned = event
        return event

    def _check_seal(self, seal: SealEvent, body: bytes) -> None:
        signed = _SIGNATURE.search(body)
        signature = None if signed is None else unbase64(signed[1].decode())
        if signed is None or signature is None:
            raise ChainError(Tampering.FORGED, seal.position, "it is a seal without a signature")
        self.check_signature(seal.position, seal.key, body[: signed.start()] + b"}", signature, seal.time)
        self.seals += 1

    def check_signature(self, position: int, key: str, body: bytes, signature: bytes, time: float) -> None:
        """Checks a signature that vouches for the chain up to a position.

        Raises:
            ChainError: it is not the actor's.
        """
        if self.trust is None:
            return
        known = self.trust.actors.get(self.actor)
        if known is None:
            raise ChainError(Tampering.FORGED, position, f"no actor {self.actor[:80]} is trusted")
        known_key = known.key(key)
        if known_key is None:
            raise ChainError(Tampering.FORGED, position, f"the key {key[:80]} is none of {self.actor}")
        if not known_key.key.verifies(Purpose.EVENTS, body, signature):
            raise ChainError(Tampering.FORGED, position, f"the signature is not that of {self.actor}")
        if known_key.valid(time):
            self.sealed, self._doubt = position, None
        elif self._doubt is None:
            state = "is revoked" if known_key.revoked else "had expired"
            self._doubt = ChainError(
                Tampering.REVOKED, position, f"the key {key} of {self.actor} {state}, and no later seal covers it"
            )

    def end(self, head: Head | None = None) -> Verified:
        """There are no more events.

        Args:
            head: where the chain ends, as its source says.

        Raises:
            ChainError: events are missing at the end or at the beginning, or a key that has signed does not count.
        """
        last = self.last or self.after
        if head is not None and head.position > last:
            reason = f"it is missing, as the chain goes on to event {head.position}"
            raise ChainError(Tampering.TRUNCATED, last + 1, reason)
        if head is not None and (head.position < last or (self.digest or ROOT) != head.digest):
            where = "with another event" if head.position == last else f"at event {head.position}"
            raise ChainError(Tampering.ALTERED, last, f"the chain ends {where}, as its source says")
        if self._doubt is not None:
            raise self._doubt
        if self.first > 1 and not self.after:
            self._check_root()
        return Verified(self.first or last + 1, last, self.digest or ROOT, self.sealed, self.seals)

    def _check_root(self) -> None:
        pruned = self._pruned
        if pruned is None or pruned.until != self.first - 1:
            reason = "those before it are missing, and no event says that they were dropped"
            raise ChainError(Tampering.ROOTLESS, self.first, reason)
        if self.trust is not None and self.sealed < pruned.position:
            reason = f"those before it are missing, and no seal covers event {pruned.position}, which says so"
            raise ChainError(Tampering.ROOTLESS, self.first, reason)
        if pruned.root != self._root:
            reason = f"it does not follow the one that was dropped last, of which event {pruned.position} tells"
            raise ChainError(Tampering.ROOTLESS, self.first, reason)


def verify(trust: Trust, actor: str, events: Iterable[tuple[int, bytes]], head: Head | None = None) -> Verified:
    """Verifies the whole chain of a store.

    Raises:
        ChainError: it is not as its actor wrote it.
    """
    verifier = ChainVerifier(trust, actor)
    for position, body in events:
        verifier.take(body, position)
    return verifier.end(head)
