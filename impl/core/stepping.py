"""The step that all compiled machines share: is the event new, and what does the table say of it?

Theory of operation (paper, sections 3.3 and 4.2). A record is a tuple: the control state first, then the fields of the
specification, then the numbers. A message with a number above the last received one is new, whatever was skipped; an
equal one is a duplicate, whose transition is not taken again, but what the state says to its sender is said again, so
that a lost answer is made good; a lower one is stale. An answer names the *state epoch* of the state that asked for it:
how many transitions had entered a state, so one with `stay: true` does not count. That of an older one is late, and of
no interest any more.

What a machine does with a new event is a function of the generated table, one per state and event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from leasehold.impl.core.sparse import Sparse
from leasehold.impl.core.work import Event, Outcome, Record, SendWork, Stepped, Work

Step: TypeAlias = Callable[[Record, Event, int], Stepped]
# record, fields of the event, neighbour, number, now
Act: TypeAlias = Callable[[Record, tuple[Any, ...], int, int, int], Stepped]
Table: TypeAlias = Mapping[str, Mapping[str, Act]]
WorkOf: TypeAlias = Mapping[str, Callable[[Record], tuple[Work, ...]]]
WorkFrom: TypeAlias = Callable[..., tuple[Work, ...]]  # of those fields of a record that decide about it

REMEMBERED = 128  # outcomes for each transition; the choice of units of one lease is met again until it ends

LATE = Outcome("late", "", reason="the state that asked for it was left")
UNKNOWN = Outcome("unmoved", "", reason="no machine of the specification takes it here")


def unmoved(outcome: Outcome, received_at: int) -> Act:
    """The act for an event that a state ignores or refuses; the number of a message is received all the same."""

    def act(record: Record, fields: tuple[Any, ...], neighbour: int, number: int, now: int) -> Stepped:
        if neighbour < 0:
            return record, outcome
        return with_cell(record, received_at, with_cell(record[received_at], neighbour, number)), outcome

    return act


def made(event: str, transition: str, work: WorkFrom) -> Callable[..., Outcome]:
    """The outcome of a transition whose work depends on fields of the new record; it is called with these."""

    def outcome(*fields: Any) -> Outcome:
        return Outcome("taken", event, transition, work(*fields))

    return outcome


def remembered(event: str, transition: str, work: WorkFrom) -> Callable[..., Outcome]:
    """The same, where the fields can be hashed: the last `REMEMBERED` outcomes are not made again."""
    return lru_cache(REMEMBERED)(made(event, transition, work))


def numbered(record: Record, sent_at: int, outcome: Outcome) -> Stepped:
    """The step of a transition whose messages depend on the record: they are counted."""
    slots = [piece.neighbour for piece in outcome.work if isinstance(piece, SendWork)]
    return with_cell(record, sent_at, increment_sent(record[sent_at], slots)), outcome


def step_of(
    table: Table,
    received_at: int,
    state_epoch_at: int,
    since_at: Mapping[str, int],
    answers: frozenset[str],
    work: WorkOf,
    beside: Callable[[Record, int], Collection[int]],
) -> Step:
    """The step of a role's machines.

    Args:
        table: what each state does with each event.
        received_at: the position of the received numbers in a record; a subsidiary machine hears no messages.
        state_epoch_at: that of the state epoch.
        since_at: for each event that ends a task which may outlive its state, the position of the state
            epoch at which it began.
        answers: the messages that are answers, and are not answered themselves.
        work: the work of each state.
        beside: the positions of the machine that is the neighbour at one of them.
    """

    def step(record: Record, event: Event, now: int) -> Stepped:
        name, fields, neighbour, number, state_epoch = event
        if neighbour >= 0:
            last = record[received_at][neighbour]
            if number <= last:
                return _old(record, event, last)
        elif state_epoch >= 0 and state_epoch != record[since_at.get(name, state_epoch_at)]:
            return record, LATE
        try:
            act = table[record[0]][name]
        except KeyError:
            return record, UNKNOWN
        return act(record, fields, neighbour, number, now)

    def _old(record: Record, event: Event, last: int) -> Stepped:
        name, _, neighbour, number, _ = event
        if number < last:
            return record, Outcome("stale", name, reason=f"number {number} comes after {last}")
        sends: tuple[Work, ...] = ()
        if name not in answers:
            sender = beside(record, neighbour)
            sends = tuple(w for w in work[record[0]](record) if isinstance(w, SendWork) and w.neighbour in sender)
        return record, Outcome("duplicate", name, work=sends)

    return step


class Numbers(dict[int, int]):
    """The sent or received numbers of a machine with dynamic neighbours, by neighbour; those that are not 0.

    It is a value like a tuple: what changes one makes another.
    """

    def __missing__(self, neighbour: int) -> int:
        return 0


def increment_sent(sent: Any, neighbours: Sequence[int]) -> Any:
    """The sent numbers, a tuple or `Numbers`, after a message to each of these."""
    if type(sent) is Numbers:
        counts = Numbers(sent)
        for neighbour in neighbours:
            counts[neighbour] += 1
        return counts
    numbers = list(sent)
    for neighbour in neighbours:
        numbers[neighbour] += 1
    return tuple(numbers)


def with_cell(cells: Any, key: int, value: Any) -> Any:
    """A map, a record or `Numbers`, after one of its cells was set."""
    if type(cells) is Sparse:
        return cells.changed(key, value)
    if type(cells) is Numbers:
        counts = Numbers(cells)
        counts[key] = value
        return counts
    changed = list(cells)
    changed[key] = value
    return tuple(changed)
