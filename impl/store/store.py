"""What an actor asks of its store.

Theory of operation (paper, sections 3.3 and 4.2). A store holds the records of one actor: bytes by key, and metadata
about the actor itself. One commit is one transaction: all of a batch or nothing, durable when it returns. A store has
one owner at a time. Opening it takes it for its own and raises its *epoch*, the actor's incarnation; whoever held it
before can commit nothing any more (`Fenced`).

A commit that fails leaves the actor not knowing what is durable (after a failed fsync a later one may falsely succeed).
So the store is *broken* from its first error on: it refuses everything until it is opened again, and the actor goes on
through recovery, which reads what is really there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Key(NamedTuple):
    """Which record.

    Attributes:
        lease: the lease (or run of another system), `tenant:17`.
        machine: the machine of it, `authority` or `participant[2]`.
    """

    lease: str
    machine: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What is committed at once.

    Attributes:
        puts: records, whole.
        drops: records that are no longer needed.
        metadata: what the actor keeps about itself, by name; an empty value drops it.
    """

    puts: Mapping[Key, bytes] = field(default_factory=dict)
    drops: Collection[Key] = ()
    metadata: Mapping[str, bytes] = field(default_factory=dict)


class StoreError(Exception):
    """The store could not do what was asked; nothing that it acknowledged before is lost.

    Attributes:
        reason: what happened, in one line that an operator understands.
        remedy: what to do about it.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason, self.remedy = reason, remedy


class Busy(StoreError):
    """Another living actor owns the store."""


class Fenced(StoreError):
    """The store has a newer owner: this incarnation is over, and must not act any more."""


class Older(StoreError):
    """The store is not what its owner left: an older copy, or another store. Who goes on with it forgets leases."""


class Transient(StoreError):
    """It cannot be used at this moment, and another moment may cure that: opening it again is worth a try."""


class Broken(StoreError):
    """An earlier error left the store unusable until it is opened again."""


class Unfit(StoreError):
    """What was asked fits no store (impl/store/fit.py): the caller's fault. Nothing was changed, nothing is broken."""


class Store(Protocol):
    """Records of one actor. Not safe for several threads; one actor's loop uses it."""

    async def open(self, owner: str) -> int:
        """Takes the store for an actor, and answers its epoch: higher than any before.

        Raises:
            Busy: another process or connection that still lives owns it.
            Transient: its server or disk cannot serve at this moment.
            StoreError: it cannot be reached, is of a newer version, or belongs to an actor of another name.
        """
        ...

    def records(self) -> AsyncIterator[tuple[Key, bytes]]:
        """All records, in the order of their keys."""
        ...

    async def metadata(self) -> dict[str, bytes]:
        """What the actor keeps about itself."""
        ...

    async def commit(self, batch: Batch) -> None:
        """Makes a batch durable, whole or not at all.

        Raises:
            Fenced: there is a newer owner.
            Unfit: a key or a value fits no store; the store goes on.
            StoreError: it failed; the store is broken from now on.
        """
        ...

    async def close(self) -> None:
        """Gives the store up. Never raises; may be called twice."""
        ...
