"""Reads the chain of an actor's events from lines, verified as far as its reader can."""

from __future__ import annotations

from collections.abc import Iterable

from leasehold.impl.events.chain import ChainVerifier
from leasehold.impl.events.event import AnyEvent
from leasehold.impl.events.lines import EventLines
from leasehold.impl.identity.trust import Trust


def read_chain(
    lines: Iterable[bytes], trust: Trust | None, unsigned: bool = False, whole: bool = False
) -> tuple[str, list[AnyEvent]]:
    """The actor and its events.

    Args:
        lines: as impl/events/lines.py has them.
        trust: has the keys of the actor; None: positions and digests are checked, and no signature is.
        unsigned: whether the end need not be signed.
        whole: whether they have to begin where the chain begins, or was pruned, whatever their header says.

    Raises:
        ChainError: they are not as the actor wrote them.
    """
    event_lines = EventLines(lines)
    verifier = ChainVerifier(trust, event_lines.header.actor, 0 if whole else event_lines.header.after)
    events = [event for event, _ in event_lines.verified(verifier, unsigned or trust is None)]
    return event_lines.header.actor, events
