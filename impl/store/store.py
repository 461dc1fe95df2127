"""The interface of stores, and the limits of what they hold.

Theory of operation (paper, sections 3.3 and 4.2). A store holds the records of one actor: bytes by key, and metadata
about the actor itself. One commit is one transaction: all of a batch or nothing, durable when it returns. A store has
one owner at a time. Opening it makes the actor its owner and raises its *epoch*, the actor's incarnation; an earlier
owner can commit nothing any more (`Fenced`).

A store also keeps *events*: bytes by position, from 1 on and without a gap. A batch appends some, in the same
transaction as its records, and may drop the oldest (impl/events has what they say). The newest one always stays, so
that a store knows how far they have come.

After a failed commit nobody knows what is durable (after a failed fsync a later one may falsely succeed). So the store
is *broken* from its first error on: it refuses every call until it is opened again, and the actor goes on through
recovery, which reads the durable records.

Limits of keys and values are the same for every store, so that records can move between them. Keys are any text that
UTF-8 can write, without NUL, which databases take for the end of a text. Their lengths are bounded by the smallest
index among the stores (PostgreSQL, 2704 bytes a row); values by the longest statement that a MariaDB server takes by
default (16 MiB, in which a value is written with two characters a byte).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

LEASE_BYTES = 1024
NAME_BYTES = 255  # of a machine, an actor, a word
VALUE_BYTES = 6 * 2**20


class RecordKey(NamedTuple):
    """The key of a record.

    Attributes:
        lease: the lease (or run of another system), `tenant:17`.
        machine: the machine of it, `authority` or `participant[2]`.
    """

    lease: str
    machine: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one commit.

    Attributes:
        puts: records, whole.
        drops: records that are no longer needed.
        metadata: of the actor itself, by name; an empty value drops it.
        events: appended to those that are there.
        prune_events_to: events of positions up to this one are dropped; 0: none are.
    """

    puts: Mapping[RecordKey, bytes] = field(default_factory=dict)
    drops: Collection[RecordKey] = ()
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    events: Sequence[bytes] = ()
    prune_events_to: int = 0


class EventRange(NamedTuple):
    """The positions of the first and the last event that a store has; (1, 0) where it never had any."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


class StoreError(Exception):
    """The store failed; nothing that it acknowledged before is lost.

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
    """The store is not the one that its owner left, but an older copy or another: an actor would forget leases."""


class Transient(StoreError):
    """The store cannot be used at this moment; opening it again later may succeed."""


class Broken(StoreError):
    """An earlier error left the store unusable until it is opened again."""


class Unfit(StoreError):
    """A name, key or value fits no store: the caller's fault. Nothing was changed, nothing is broken."""


class Store(Protocol):
    """Records of one actor. Not safe for several threads; one actor's loop uses it."""

    async def open(self, owner: str) -> int:
        """Takes the store for an actor; returns its epoch, which is higher than any before.

        Raises:
            Busy: another process or connection that still lives owns it.
            Transient: its server or disk cannot serve at this moment.
            StoreError: it cannot be reached, is of a newer version, or belongs to an actor of another name.
        """
        ...

    def records(self) -> AsyncIterator[tuple[RecordKey, bytes]]:
        """All records, in the order of their keys."""
        ...

    async def metadata(self) -> dict[str, bytes]:
        """The actor's metadata by name."""
        ...

    def events(self, after: int = 0, limit: int | None = None) -> AsyncIterator[tuple[int, bytes]]:
        """The events of positions above `after`, in order, each with its position; at most `limit` of them."""
        ...

    async def event_range(self) -> EventRange:
        """The positions of the events that are there."""
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


def low_words(store: Store) -> str:
    """Returns why nothing new can begin though leases can end; empty: it can."""
    return "the disk of its store is full: leases end, and none begins" if getattr(store, "low", False) else ""


def words_of(error: Exception) -> str:
    """The words of an error, which may have none of its own."""
    return str(error) or type(error).__name__


# What fits a store


def check_name(label: str, text: str) -> None:
    """Refuses a name that fits no store.

    Raises:
        Unfit: it is empty, or too long, or no text that UTF-8 can write without NUL.
    """
    if not text:
        raise Unfit(f"{label} is empty", "give it a name")
    _check_text(label, text, NAME_BYTES)


def check_batch(batch: Batch) -> None:
    """Refuses a batch that fits no store.

    Raises:
        Unfit: a key or a value does not fit, or one key is both put and dropped.
    """
    for body in batch.events:
        _check_value("the event", "of a batch", body)
    for (lease, machine), body in batch.puts.items():
        _check_text("the lease of a key", lease, LEASE_BYTES)
        _check_text("the machine of a key", machine, NAME_BYTES)
        _check_value("the record of", f"{lease}, {machine}", body)
    for lease, machine in batch.drops:
        _check_text("the lease of a key", lease, LEASE_BYTES)
        _check_text("the machine of a key", machine, NAME_BYTES)
    if batch.drops and (both := batch.puts.keys() & set(batch.drops)):
        lease, machine = min(both)
        raise Unfit(f"the batch both puts and drops the record of {_short(f'{lease}, {machine}')}", "do one of the two")
    for name, body in batch.metadata.items():
        check_name("the name of a word", name)
        _check_value("the word", name, body)


def _check_text(label: str, text: str, limit: int) -> None:
    # Nearly every key is short plain ASCII; that much is tested without encoding it.
    if not isinstance(text, str):
        raise Unfit(f"{label} is no text but {type(text).__name__}", "write it as text")
    if "\0" in text:
        raise Unfit(f"{label} {_short(text)} contains NUL, which no database keeps in a text", "leave it out")
    size = len(text)
    if not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            half = text[error.start]
            raise Unfit(
                f"{label} {_short(text)} contains half a character ({half!r}), which UTF-8 cannot write",
                "decode the text that it came from as UTF-8",
            ) from None
    if size > limit:
        raise Unfit(f"{label} {_short(text)} has {size} bytes, more than {limit}", "choose a shorter one")


def _check_value(label: str, name: str, body: bytes) -> None:
    if type(body) is not bytes:
        raise Unfit(f"{label} {_short(name)} is not bytes but {type(body).__name__}", "encode it first")
    if len(body) > VALUE_BYTES:
        raise Unfit(
            f"{label} {_short(name)} has {len(body)} bytes, more than {VALUE_BYTES}", "keep large data elsewhere"
        )


def _short(text: str) -> str:
    return ascii(text if len(text) <= 40 else f"{text[:37]}...")
