"""Ranks against absolute numbers: a mailbox is what two sequence numbers per neighbour make (paper, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore import channels
from leasehold.spec.language.model import ChannelKind


@dataclass
class Numbered:
    """The dumb twin: a sender with a number, a receiver with a number, and numbered messages in a heap."""

    sent: int = 0
    received: int = 0
    heap: list[tuple[int, str, tuple[int, ...]]] = field(default_factory=list)
    contents: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def send(self, kind: str, fields: tuple[int, ...]) -> None:
        self.sent += 1
        self.contents[self.sent] = (kind, fields)
        # Of a kind, the one before the newest may still be on its way; those before it are taken to be overtaken.
        older = sorted(m for m in self.heap if m[1] == kind and m[0] > self.received)
        self.heap = [m for m in self.heap if m not in older[:-1]]
        self.heap.append((self.sent, kind, fields))

    def send_again(self) -> None:
        message = (self.sent, *self.contents[self.sent])
        if message not in self.heap:
            self.heap.append(message)

    def receive(self, message: tuple[int, str, tuple[int, ...]], keep: bool) -> str:
        self.heap.remove(message)
        if message[0] == self.received:
            return "duplicate"
        self.received = message[0]
        if keep:
            self.heap.append(message)
        # What is lower now is stale, and what has the same number with other fields changes nothing any more.
        self.heap = [m for m in self.heap if m[0] > self.received or (keep and m == message)]
        return "new"

    def ranks(self) -> channels.Content:
        used = sorted({m[0] for m in self.heap if m[0] > self.received} | ({self.sent} - set(range(self.received + 1))))
        rank = {number: i + 1 for i, number in enumerate(used)} | {self.received: 0}
        queue = sorted(((rank[n], k, f) for n, k, f in self.heap), key=lambda e: e[0])
        return rank[self.sent], tuple(queue)

    def change(self, kind: str, fields: tuple[int, ...]) -> None:
        """Works out anew what is sent again, from a record that has changed since."""
        if self.sent:
            self.contents[self.sent] = (kind, fields)

    # A crash

    def number(self, kind: str, fields: tuple[int, ...]) -> None:
        """A message gets a number and is not sent."""
        self.sent += 1
        self.contents[self.sent] = (kind, fields)

    def missing(self) -> bool:
        return self.sent > self.received and all(m[0] != self.sent for m in self.heap)

    def all_received(self) -> bool:
        return self.sent == self.received and not self.heap


operations = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("abc"), st.integers(0, 2)),
    st.tuples(st.just("again"), st.just(""), st.just(0)),
    st.tuples(st.just("change"), st.sampled_from("abc"), st.integers(0, 2)),
    st.tuples(st.just("take"), st.sampled_from(["", "keep"]), st.integers(0, 4)),
    st.tuples(st.just("lose"), st.just(""), st.integers(0, 4)),
    st.tuples(st.just("number"), st.sampled_from("abc"), st.integers(0, 2)),
)


@given(st.lists(operations, max_size=25))
def test_a_mailbox_is_what_sequence_numbers_give(steps: list[tuple[str, str, int]]) -> None:
    twin, content = Numbered(), channels.empty("mailbox")
    for what, word, number in steps:
        queue = channels.entries("mailbox", content)
        heap = sorted(twin.heap, key=lambda m: m[0])
        if what == "send":
            twin.send(word, (number,))
            content = channels.put("mailbox", None, content, word, (number,))
        elif what == "number":
            twin.number(word, (number,))
            content = channels.number("mailbox", None, content, word, (number,))
        elif what == "change":
            twin.change(word, (number,))
        elif what == "again" and twin.sent:
            twin.send_again()
            content = channels.put_again("mailbox", None, content, *twin.contents[twin.sent])
        elif what == "take" and queue:
            i = number % len(queue)
            outcome = twin.receive(heap[i], word == "keep" and queue[i][0] > 0)
            assert outcome == ("duplicate" if queue[i][0] == 0 else "new")
            content = channels.take("mailbox", content, i, word == "keep" and queue[i][0] > 0)
        elif what == "lose" and queue:
            i = number % len(queue)
            twin.heap.remove(heap[i])
            content = channels.lose("mailbox", content, i)
        assert content == twin.ranks()
        assert channels.missing(content) == twin.missing()
        assert channels.received(content) == twin.all_received()


def test_a_full_fifo_takes_no_more() -> None:
    content = channels.put("fifo", 1, channels.empty("fifo"), "a", ())
    with pytest.raises(channels.LaneFull):
        channels.put("fifo", 1, content, "b", ())


def test_a_set_is_never_consumed() -> None:
    content = channels.put("set", None, channels.empty("set"), "a", ())
    assert channels.put("set", None, content, "a", ()) == content
    assert channels.take("set", content, 0) == content


@pytest.mark.parametrize("channel", ["bag", "multiset"])
@given(messages=st.permutations([("a", (1,)), ("b", (2,)), ("a", (0,))]))
def test_a_bag_has_no_order(channel: ChannelKind, messages: list[tuple[str, tuple[int, ...]]]) -> None:
    content = channels.empty(channel)
    for kind, fields in messages:
        content = channels.put(channel, None, content, kind, fields)
    assert content == ((1, "a", (0,)), (1, "a", (1,)), (1, "b", (2,)))


Plain: TypeAlias = list[tuple[str, tuple[int, ...]]]
MOST = 3  # messages that a channel holds


def entries_of(kind: ChannelKind, content: channels.Content) -> Plain:
    """The messages of a channel without numbers, which are all 1."""
    found = channels.entries(kind, content)
    assert {entry[0] for entry in found} <= {1}
    assert found == tuple(found) == channels.entries(kind, content)
    return [entry[1:] for entry in found]


@pytest.mark.parametrize("kind", ["fifo", "bag", "multiset", "set"])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "again", "number", "take", "copy", "lose", "forget", "forget"]),
            st.sampled_from("ab"),
            st.integers(0, 4),
        ),
        max_size=15,
    )
)
def test_other_channels_are_what_their_names_say(kind: ChannelKind, steps: list[tuple[str, str, int]]) -> None:
    """Held against a list: a `fifo` keeps its order and is durable, others are in order of their text."""
    content, twin = channels.empty(kind), Plain()
    for what, word, number in steps:
        fields, before = (number,), list(twin)
        if what in ("put", "again", "number"):
            sends = {"put": channels.put, "again": channels.put_again, "number": channels.number}[what]
            # What a fifo has numbered is in its queue and is never sent again; other channels forget what is not sent.
            adds = what != ("again" if kind == "fifo" else "number")
            if adds and not (kind == "set" and (word, fields) in twin):
                twin.append((word, fields))
            if kind != "set" and len(twin) > MOST:
                with pytest.raises(channels.LaneFull):
                    sends(kind, MOST, content, word, fields)
                twin = before
            else:
                content = sends(kind, MOST, content, word, fields)
        elif what == "forget":
            content = channels.forget(kind, content, sender=number > 2)
            twin = [] if kind == "fifo" else twin
        elif twin:
            at = number % len(twin)
            taken = entries_of(kind, content)[at]
            if what == "lose":
                content = channels.lose(kind, content, at)
            else:
                content = channels.take(kind, content, at, keep_copy=what == "copy")
            if kind != "set" and what != "copy":
                twin.remove(taken) if kind != "fifo" else twin.pop(at)
        assert entries_of(kind, content) == (twin if kind == "fifo" else sorted(twin, key=lambda m: repr((1, *m))))


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=4), st.booleans())
def test_who_forgets_a_mailbox_counts_anew(sent: list[str], sender: bool) -> None:
    """A receiver without its store has not received the last message, which is not on its way; nor is any other."""
    content = channels.empty("mailbox")
    for word in sent:
        content = channels.put("mailbox", None, content, word, ())
    left = channels.OPERATIONS["forget"]("mailbox", content, sender)
    assert channels.entries("mailbox", left) == ()
    assert (channels.missing(left), channels.received(left)) == (not sender, sender)
    if not sender:  # so the sender says again what it said last
        again = channels.put_again("mailbox", None, left, "a", ())
        assert channels.entries("mailbox", again) == ((1, "a", ()),)
        assert not channels.missing(again)
