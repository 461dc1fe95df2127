"""Records of a specification with one channel from a role to another, mapped to one with several, and back."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.actor.chronicle import RowCodec
from leasehold.impl.actor.session import SESSIONS, queued
from leasehold.impl.actor.table import DynamicPeers, MachineInstance
from leasehold.impl.core.core import Program
from leasehold.impl.core.stepping import Numbers
from leasehold.impl.migrate.mapping import UnmappableRecord
from leasehold.impl.migrate.schema import RecordSchema
from leasehold.impl.store.store import RecordKey
from leasehold.spec import System
from tests.impl.migrate.test_mapping import compiled, mapped, misfits
from tests.systems import edited, write

FILES = {
    "system.yaml": "system: talk\nroles: {a: {}, b: {}}\nchannels: {CHANNELS}\nenvironment: {go: {to: a}}\n",
    "messages.yaml": """messages:
  ask: {from: a, to: b}
  cancel: {from: a, to: b}
  note: {from: a, to: b}
  tell: {from: b, to: a, answer: true}
""",
    "roles/a.yaml": """role: a
events: {go: it goes on}
states:
  idle: {initial: true, on: {go: {to: asking}}, refuse: {tell: it has asked nothing}}
  asking: {tasks: [ask], on: {go: {to: cancelling}, tell: {to: idle}}}
  cancelling: {tasks: [cancel], on: {go: {to: noting}, tell: {to: idle}}}
  noting: {tasks: [note], on: {go: {to: asking}, tell: {to: idle}}}
tasks: {ask: {send: ask, to: b}, cancel: {send: cancel, to: b}, note: {send: note, to: b}}
""",
    "roles/b.yaml": """role: b
states:
  idle: {initial: true, on: {ask: {to: told}, cancel: {to: told}, note: {to: told}}}
  told: {tasks: [tell], ignore: {ask: so it is, cancel: so it is, note: so it is}}
tasks: {tell: {send: tell, to: a}}
""",
}
THERE, BACK = "there: {from: a, to: b, kind: mailbox", "back: {from: b, to: a, kind: mailbox}"
ONE = f"{THERE}}}, {BACK}"
TWO = f"{THERE}}}, urgent: {{from: a, to: b, kind: mailbox, messages: [cancel]}}, {BACK}"
REORDERED = TWO.replace(f"{THERE}}}, ", "").replace("urgent", "first") + f", {THERE}}}".replace("there", "last")
THREE = TWO + ", notes: {from: a, to: b, kind: mailbox, messages: [note]}"
MOVED = TWO.replace("[cancel]", "[cancel, note]")
FIFO, FIFOS = (text.replace("b, kind: mailbox", "b, kind: fifo") for text in (ONE, TWO))
MEMBERS = (
    ("system: talk", "system: talk\nstanding: true"),
    ("{a: {}", "{a: {instances: 2, dynamic: true}"),
    ("send: tell, to: a", "send: tell, to: a, only: 'it == a[0]'"),
)


@cache
def talk(channels: str, *edits: tuple[str, str]) -> tuple[System, Program]:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), edited(FILES, ("CHANNELS", channels), *edits))
        return compiled(folder)


def machine(program: Program, role: str, state: str, sent: Any, received: Any, **metadata: Any) -> MachineInstance:
    core = program.roles[role]
    peers = [f"player of {name}" for name, _ in core.neighbours]
    return MachineInstance(RecordKey("a:1", role), core, (state, sent, received, 3), peers, metadata)


def after(old: Program, new: tuple[System, Program], of: MachineInstance) -> MachineInstance:
    return mapped(old, new, (of.key, RowCodec(old).write(of)))


def numbers(of: MachineInstance) -> dict[str, tuple[int, int]]:
    """The sent and the received number by channel; "": of the only pair."""
    core = of.core
    both = zip(of.record[core.sent_at], of.record[core.received_at], strict=True)
    return {core.channel(at): pair for at, pair in enumerate(both)}


def misfit(old: Program, new: tuple[System, Program], of: MachineInstance) -> str:
    return misfits(old, new, (of.key, RowCodec(old).write(of)))


def test_numbers_of_one_channel_go_on_over_each_of_several() -> None:
    old, new = talk(ONE)[1], talk(THREE)
    found = after(old, new, machine(old, "a", "cancelling", (5,), (2,)))
    assert numbers(found) == {"there": (5, 0), "urgent": (5, 0), "back": (0, 2), "notes": (5, 0)}
    assert found.peers == ["player of b"] * 4
    found = after(old, new, machine(old, "b", "told", (2,), (4,)))
    assert numbers(found) == {"there": (0, 4), "urgent": (0, 4), "back": (2, 0), "notes": (0, 4)}


def test_channels_are_known_by_their_messages_whatever_they_are_called_and_wherever_they_stand() -> None:
    old, new = talk(TWO)[1], talk(REORDERED)
    assert [*new[1].roles["a"].channels] == ["first", "back", "last"]
    found = after(old, new, machine(old, "a", "asking", (5, 7, 0), (0, 0, 2)))
    assert numbers(found) == {"last": (5, 0), "first": (7, 0), "back": (0, 2)}


@pytest.mark.parametrize(
    ("sent", "wanted"), [((5, 0, 0), 5), ((0, 7, 0), 7), ((0, 0, 0), 0)], ids=["the one", "the other", "none"]
)
def test_numbers_of_one_of_several_channels_go_on_over_the_only_one(sent: tuple[int, ...], wanted: int) -> None:
    old, new = talk(TWO)[1], talk(ONE)
    found = after(old, new, machine(old, "a", "asking", sent, (0, 0, 2)))
    assert numbers(found) == {"": (wanted, 2)}
    assert found.peers == ["player of b"]


def test_numbers_of_two_channels_have_no_common_order() -> None:
    old = talk(TWO)[1]
    said = misfit(old, talk(ONE), machine(old, "a", "asking", (5, 7, 0), (0, 0, 2)))
    assert said == (
        "a:1 a, sent: messages to b had numbers apart over there, urgent, and would have one; end the lease first"
    )
    said = misfit(old, talk(ONE), machine(old, "b", "told", (0, 0, 2), (5, 7, 0)))
    assert said == (
        "a:1 b, received: messages from a had numbers apart over there, urgent, and would have one; end the lease first"
    )


def test_a_message_that_moves_to_another_channel_takes_no_number_along() -> None:
    old, new = talk(TWO)[1], talk(MOVED)
    said = misfit(old, new, machine(old, "a", "asking", (5, 7, 0), (0, 0, 2)))
    assert "messages to b had numbers apart over there, urgent, and would have one" in said
    found = after(old, new, machine(old, "a", "asking", (5, 0, 0), (0, 0, 2)))
    assert numbers(found) == {"there": (5, 0), "urgent": (5, 0), "back": (0, 2)}


def test_over_a_new_channel_a_state_has_said_nothing() -> None:
    """A message of another name goes over it, and its state is one that may have said the old one."""
    renamed = [("  note: {from", "  word: {from"), ("note: {to: told}", "word: {to: told}"), ("note: so", "word: so")]
    renamed += [("{send: note", "{send: word")]
    old, new = talk(TWO)[1], talk(THREE.replace("[note]", "[word]"), *renamed)
    found = after(old, new, machine(old, "a", "asking", (5, 7, 0), (0, 0, 2)))
    assert numbers(found) == {"there": (5, 0), "urgent": (7, 0), "back": (0, 2), "notes": (0, 0)}
    said = misfit(old, new, machine(old, "a", "noting", (5, 7, 0), (0, 0, 2)))
    assert "its state `noting` sends `word` over `notes`, a channel that the record knows nothing of" in said


def test_messages_that_wait_go_on_over_their_channel_and_are_not_parted() -> None:
    old, new = talk(FIFOS)[1], talk(FIFOS.replace("there", "orders"))
    waiting = {"0": [[4, "ask", {}], [5, "note", {}]], "1": [[2, "cancel", {}]]}
    found = after(old, new, machine(old, "a", "idle", (5, 2, 0), (0, 0, 1), **{SESSIONS: waiting}))
    assert [[one.number for one in queued(found, at)] for at in range(3)] == [[4, 5], [2], []]
    old, kept = talk(FIFO)[1], {"0": [[4, "ask", {}], [5, "cancel", {}]]}
    said = misfit(old, talk(FIFOS), machine(old, "a", "idle", (5,), (1,), **{SESSIONS: kept}))
    assert "2 messages to b wait to be taken, and would have numbers apart over there, urgent" in said
    found = after(old, talk(FIFOS), machine(old, "a", "idle", (5,), (1,)))
    assert numbers(found) == {"there": (5, 0), "urgent": (5, 0), "back": (0, 1)}


def test_numbers_of_members_go_on_by_name() -> None:
    old, new = talk(ONE, *MEMBERS)[1], talk(TWO, *MEMBERS)
    core = old.roles["b"]
    record = ("told", Numbers({1: 2}), Numbers({0: 4, 1: 5}), 3)
    of = MachineInstance(RecordKey(old.only_run, "b"), core, record, DynamicPeers({0: "x", 1: "y"}), {})
    found = after(old, new, of)
    lanes = {new[1].lane(found.core, 0, at): n for at, n in found.record[found.core.received_at].items()}
    assert lanes == {f"a[{n}] over {name}": 4 + n for n in (0, 1) for name in ("there", "urgent")}
    sent = {new[1].lane(found.core, 0, at): n for at, n in found.record[found.core.sent_at].items()}
    assert sent == {"a[1] over back": 2}
    assert {new[1].lane(found.core, 0, at): who for at, who in found.peers.items()} == {
        f"a[{n}] over {name}": who for n, who in enumerate("xy") for name in ("there", "urgent", "back")
    }


def test_the_schema_of_one_channel_is_written_as_before() -> None:
    assert b"channels" not in RecordSchema.of(talk(ONE)[1]).write()
    schema = RecordSchema.of(talk(TWO)[1])
    assert RecordSchema.read(schema.write()) == schema
    assert schema.channels == {"ask": "there", "note": "there", "cancel": "urgent", "tell": "back"}
    assert schema.roles["a"].neighbours == ("b over there", "b over urgent", "b over back")


@given(st.data())
def test_both_ends_agree_on_what_was_received(data: st.DataObject) -> None:
    """Each end is mapped alone: what its state says is new to the receiver afterwards if it was new before."""
    texts = [ONE, TWO, REORDERED, THREE, MOVED]
    old, new = talk(data.draw(st.sampled_from(texts)))[1], talk(data.draw(st.sampled_from(texts)))
    state = data.draw(st.sampled_from(["asking", "cancelling", "noting"]))
    a = old.roles["a"]
    there = {old.messages[name].channel for name in ("ask", "cancel", "note")}
    sent = [data.draw(st.integers(0, 3)) if a.channel(at) in there else 0 for at in range(len(a.neighbours))]
    (piece,) = a.work[state](("", (), (), 0))
    sent[piece.neighbour] = max(sent[piece.neighbour], 1)
    received = [data.draw(st.integers(0, n)) for n in sent]
    none = (0,) * len(sent)
    try:
        one = after(old, new, machine(old, "a", state, tuple(sent), none))
    except UnmappableRecord:
        return
    try:
        other = after(old, new, machine(old, "b", "idle", none, tuple(received)))
    except UnmappableRecord:
        raise AssertionError("the sender has as many numbers as the receiver") from None
    pairs = {name: (n, numbers(other)[name][1]) for name, (n, _) in numbers(one).items()}
    assert all(r <= s for s, r in pairs.values())
    (said,) = one.core.work[state](one.record)
    s, r = pairs[one.core.channel(said.neighbour)]
    assert (s > r) == (sent[piece.neighbour] > received[piece.neighbour])
