"""Ranks against absolute numbers: a mailbox is what two sequence numbers per neighbour make (paper, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        self.heap = [m for m in self.heap if m[0] >= self.received]  # what is lower now is stale
        return "new"

    def ranks(self) -> channels.Content:
        used = sorted({m[0] for m in self.heap if m[0] > self.received} | ({self.sent} - set(range(self.received + 1))))
        rank = {number: i + 1 for i, number in enumerate(used)} | {self.received: 0}
        queue = sorted(((rank[n], k, f) for n, k, f in self.heap), key=lambda e: e[0])
        return rank[self.sent], tuple(queue)


operations = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("abc"), st.integers(0, 2)),
    st.tuples(st.just("again"), st.just(""), st.just(0)),
    st.tuples(st.just("take"), st.sampled_from(["", "keep"]), st.integers(0, 4)),
    st.tuples(st.just("lose"), st.just(""), st.integers(0, 4)),
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
