"""A network that duplicates, loses and reorders messages: kinds that only take from a budget what channels offer.

What they do to a channel's content is the business of its kind (mailbox, fifo, bag); the budget says how often.
"""

from __future__ import annotations

from dataclasses import replace

from leasehold.faults.kinds import adds
from leasehold.spec.language.lower import Relation


@adds("duplicate")
@adds("reorder")
def allowed(relation: Relation, count: int | str) -> Relation:
    """The budget allows it; nothing else is needed."""
    return relation


@adds("lose")
def lose(relation: Relation, count: int | str) -> Relation:
    """A message that was lost is sent again, under its number, while its sender is in a state that sends it."""
    return replace(relation, retries=True)
