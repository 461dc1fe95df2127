"""One batch of an actor's work: what is to be committed at once, and what follows the commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from leasehold.impl.actor.held import Held
from leasehold.impl.notices import Notice
from leasehold.impl.store.store import Key


@dataclass(slots=True)
class Turn:
    """Gathers.

    Attributes:
        changed: machines whose record is new.
        dropped: machines that are forgotten.
        words: what the actor keeps about itself.
        after: what is done after the commit, in order: messages are sent, tasks are started.
        notices: what is told after the commit.
        told: the leases of which policies are told after the commit, each once, as they are then.
    """

    changed: dict[Key, Held] = field(default_factory=dict)
    dropped: set[Key] = field(default_factory=set)
    words: dict[str, bytes] = field(default_factory=dict)
    after: list[Callable[[], None]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    told: set[Key] = field(default_factory=set)

    @property
    def durable(self) -> bool:
        """Whether anything has to be committed."""
        return bool(self.changed or self.dropped or self.words)

    def change(self, held: Held) -> None:
        """A machine's record is new."""
        self.dropped.discard(held.key)
        self.changed[held.key] = held

    def drop(self, held: Held) -> None:
        """A machine is forgotten."""
        self.changed.pop(held.key, None)
        self.dropped.add(held.key)
