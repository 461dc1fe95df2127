"""The kinds of channel: pure functions over a channel's cell.

Theory of operation. `fifo`, `bag` and `set` are what their names say; a `set` is never consumed, as messages are in
many TLA+ specs. A `mailbox` is what two sequence numbers per neighbour make of any network (paper, section 4.2): a
message numbered below the last received is stale and dropped, an equal one is a duplicate, and numbers may be skipped.
Absolute numbers grow without bound, but only their order matters, so a mailbox keeps ranks: 0 is the number
last received, 1, 2, ... are the numbers above it that are in use. `newest` is the rank of the last number sent.

A sender keeps no outbox: what it has moved on from it does not send again. So the newest message of each kind counts,
and of those before it the last one may still be on its way; earlier ones are taken to have been overtaken. (With no
bound at all, a sender that moves on by itself would fill the mailbox without end.)

A `fifo` between actors that crash is what a session with a durable queue makes of any network: a message is in the
queue with the commit of its step, and leaves it when its receiver has committed that it was received. So a crash loses
nothing of it and repeats nothing, and recovery sends nothing again.

A `queue` is one line for each receiver, in which the messages of all machines of the sending role stand in the order in
which they were sent: TLA+'s `Append(queue, <<p, m>>)`, or a Promela `chan` that many processes write to. Each machine's
have a cell of their own, as in other channels, with their places in the line as numbers: 1 comes next. When one leaves
the line, it closes up (`closed_up`). A message that no transition takes stands in the way of those behind it. Crashes
change nothing of it, as of a `fifo`.

A mailbox delivers in the order of the numbers, as a reliable session does; the fault `reorder` lets a later message
overtake, which makes the earlier ones stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from leasehold.spec.language.model import DURABLE_KINDS, ChannelKind

Entry: TypeAlias = tuple[int, str, tuple[Any, ...]]  # number, kind of message, fields
Content: TypeAlias = Any


class LaneFull(Exception):
    """The channel's capacity is used up: the step that would send is not possible now."""


def empty(kind: ChannelKind) -> Content:
    return (0, ()) if kind == "mailbox" else frozenset() if kind == "set" else ()


def entries(kind: ChannelKind, content: Content) -> tuple[Entry, ...]:
    """The messages on their way, in a fixed order."""
    if kind == "mailbox":
        return tuple(content[1])
    return tuple(sorted(content, key=repr)) if kind == "set" else tuple(content)


def put(
    kind: ChannelKind, capacity: int | None, content: Content, message: str, fields: tuple[Any, ...], beside: int = 0
) -> Content:
    """The content after a new message was sent.

    Args:
        kind: the channel's.
        capacity: likewise.
        content: the content.
        message: its kind.
        fields: its fields.
        beside: how many messages of other senders stand in the same line of a `queue`.

    Raises:
        LaneFull: it holds as many messages as it may.
    """
    if kind == "mailbox":
        newest, queue = content
        older = moved_on(queue, message)
        kept = tuple(e for e in queue if e not in older)
        return ranked(newest + 1, (*kept, (newest + 1, message, fields)))
    if kind == "set":
        return content | {(1, message, fields)}
    if capacity is not None and len(content) + beside >= capacity:
        raise LaneFull
    if kind == "queue":
        return (*content, (len(content) + beside + 1, message, fields))
    if kind in ("bag", "multiset"):
        return tuple(sorted((*content, (1, message, fields)), key=repr))
    return (*content, (1, message, fields))


def number(
    kind: ChannelKind, capacity: int | None, content: Content, message: str, fields: tuple[Any, ...], beside: int = 0
) -> Content:
    """The content after the commit of a step whose message was then not sent: its sender crashed in between."""
    if kind in DURABLE_KINDS:
        return put(kind, capacity, content, message, fields, beside)
    if kind != "mailbox":
        return content
    newest, queue = content
    return ranked(newest + 1, queue)


def put_again(
    kind: ChannelKind, capacity: int | None, content: Content, message: str, fields: tuple[Any, ...], beside: int = 0
) -> Content:
    """The content after a message was sent again: in a mailbox under the number that it had."""
    if kind in DURABLE_KINDS:
        return content
    if kind != "mailbox":
        return put(kind, capacity, content, message, fields)
    newest, queue = content
    if any(e[0] == newest and e[1:] == (message, fields) for e in queue):
        return content
    return ranked(newest, tuple(sorted((*queue, (newest, message, fields)), key=lambda e: e[0])))


def missing(content: Content) -> bool:
    """Returns whether the newest message of a mailbox is neither received nor on its way."""
    newest, queue = content
    return newest > 0 and (not queue or queue[-1][0] != newest)  # they lie in the order of their numbers


def received(content: Content) -> bool:
    """Returns whether the newest message of a mailbox was received, and no copy of it is on its way."""
    newest, queue = content
    return newest == 0 and not queue


def take(kind: ChannelKind, content: Content, index: int, keep_copy: bool = False) -> Content:
    """The content after the entry at an index (of `entries`) was received; a copy may stay on its way."""
    if kind == "set":
        return content
    if kind != "mailbox":
        return content if keep_copy else content[:index] + content[index + 1 :]
    newest, queue = content
    number = queue[index][0]
    if number == 0:
        return newest, queue[:index] + queue[index + 1 :]
    copy = ((0, *queue[index][1:]),) if keep_copy else ()
    later = tuple((e[0] - number, *e[1:]) for e in queue if e[0] > number)
    return ranked(newest - number, copy + later)


def lose(kind: ChannelKind, content: Content, index: int) -> Content:
    """The content after the entry at an index was lost."""
    if kind == "mailbox":
        newest, queue = content
        return ranked(newest, queue[:index] + queue[index + 1 :])
    if kind == "set":
        return content
    return content[:index] + content[index + 1 :]


def forget(kind: ChannelKind, content: Content, sender: bool) -> Content:
    """The content after an end of the channel has lost its store: the sender, or else the receiver.

    What the sender of a mailbox said last is then missing, if its receiver has lost it.
    """
    if kind == "mailbox":
        return (0, ()) if sender else (1, ())
    return () if kind in DURABLE_KINDS else content


def emptied(kind: ChannelKind, content: Content) -> Content:
    """The content after all messages on their way were lost; a `set` loses none."""
    return ranked(content[0], ()) if kind == "mailbox" else content if kind == "set" else ()


def closed_up(line: Sequence[Content]) -> list[Content]:
    """The cells of a line of a queue, by sender, after some messages have left it: those behind them move up."""
    places = {place: i for i, place in enumerate(sorted(entry[0] for content in line for entry in content), 1)}
    return [tuple([(places[place], *rest) for place, *rest in content]) for content in line]


# What a fault may do to the channels of an actor, given whether the actor is the sender: by name, for
# `Change.on_channels` of the lowered form.
OPERATIONS: Mapping[str, Callable[[ChannelKind, Content, bool], Content]] = {"forget": forget}


def moved_on(queue: Iterable[Entry], message: str) -> list[Entry]:
    """The entries of a mailbox from which its sender moves on with another message of their kind: all but the last."""
    return [e for e in queue if e[0] > 0 and e[1] == message][:-1]


def ranked(newest: int, queue: tuple[Entry, ...]) -> Content:
    """A mailbox's content, with ranks for numbers above the last that was received.

    0 stays, the others become 1, 2, ... in their order; one that was miscounted stays below 0.
    """
    used = sorted({e[0] for e in queue if e[0] > 0} | ({newest} if newest > 0 else set()))
    if not used or used[-1] == len(used):
        return newest, queue
    rank = {number: i + 1 for i, number in enumerate(used)}
    rank[0] = 0
    return rank.get(newest, newest), tuple((rank[e[0]], *e[1:]) for e in queue)
