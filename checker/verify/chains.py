"""Reads the chain of an actor's events from lines, verified as far as its reader can."""

from __future__ import annotations

from collections.abc import Iterable

from leasehold.impl.events.chain import ChainError, ChainVerifier, Tampering
from leasehold.impl.events.event import AnyEvent, EventError, digest, read
from leasehold.impl.events.lines import EventLines
from leasehold.impl.identity.trust import Trust


def read_chain(lines: Iterable[bytes], trust: Trust | None, unsigned: bool = False) -> tuple[str, list[AnyEvent]]:
    """The actor and its events.

    Args:
        lines: as impl/events/lines.py has them.
        trust: has the keys of the actor; None: digests are checked, and no signature is.
        unsigned: whether the end need not be signed.

    Raises:
        ChainError: they are not as the actor wrote them.
    """
    found = EventLines(lines)
    actor = found.header.actor
    if trust is not None:
        verifier = ChainVerifier(trust, actor, found.header.after)
        events = [verifier.take(body) for body in found]
        found.check_end(verifier, unsigned)
        return actor, events
    events, before, position = [], "", 0
    for body in found:
        try:
            event = read(body)
        except EventError as error:
            raise ChainError(Tampering.ALTERED, position + 1, str(error)) from None
        if before and (event.position, event.before) != (position + 1, before):
            words = f"it does not follow event {position}, so one is missing, or one of both was altered"
            raise ChainError(Tampering.ALTERED, event.position, words)
        events.append(event)
        before, position = digest(body), event.position
    end = found.end
    if end is None:
        raise ChainError(Tampering.TRUNCATED, position + 1, "the last line is missing, which says where events end")
    if events and (end.position, end.digest) != (position, before):
        raise ChainError(Tampering.TRUNCATED, position + 1, "the last line speaks of another end")
    return actor, events
