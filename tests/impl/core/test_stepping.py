"""What all compiled machines share: numbers, answers, records as bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.codec import Codec, read_head
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.errors import CoreError, RecordError
from leasehold.impl.core.event import local, message
from leasehold.impl.core.stepping import REMEMBERED, remembered
from leasehold.impl.core.work import Call, Record, Send, Work
from leasehold.spec import load

PROGRAM: Program = compile_system(load("lease"))
BROKER: Core = PROGRAM.roles["broker"]
CODEC = Codec(PROGRAM, BROKER)
ASK = message("ticket", (2, 9), 0, 1)


def asked() -> Record:
    record, _ = BROKER.step(BROKER.first(), ASK, 0)
    return record


def granted() -> Record:
    record, outcome = BROKER.step(asked(), local("granted", (2, "p"), entry=1), 0)
    assert outcome.taken
    return record


def test_a_transition_counts_its_entry_and_numbers_its_messages() -> None:
    record, outcome = BROKER.step(BROKER.first(), ASK, 0)
    assert outcome.transition == "broker/nascent#ticket"
    assert [type(w) for w in outcome.work] == [Call]
    assert (record[BROKER.entry_at], record[BROKER.received_at], record[BROKER.sent_at]) == (1, (1,), (0,))
    told = granted()
    assert (told[BROKER.entry_at], told[BROKER.sent_at]) == (2, (1,))


def test_a_late_answer_is_dropped() -> None:
    """Paper, section 3.4: an answer names the entry of the state that asked; that of an older one changes nothing."""
    extending, _ = BROKER.step(granted(), message("extend_ticket", (3, 20), 0, 2), 1)
    assert extending[0] == "extending"
    after, outcome = BROKER.step(extending, local("granted", (3, "p"), entry=1), 1)
    assert after is extending
    assert outcome.kind == "late"
    assert BROKER.step(extending, local("granted", (3, "p"), entry=3), 1)[1].taken


def test_a_duplicate_is_answered_again_and_a_stale_message_is_dropped() -> None:
    """Paper, section 4.2."""
    record = granted()
    after, outcome = BROKER.step(record, ASK, 5)
    assert after is record
    assert outcome.kind == "duplicate"
    (again,) = outcome.work
    assert isinstance(again, Send)
    assert again.fields(record) == (2, 9, "p")
    later, _ = BROKER.step(record, message("relinquish", (), 0, 7), 5)
    assert later[BROKER.received_at] == (7,)
    assert BROKER.step(later, message("extend_ticket", (1, 30), 0, 2), 5)[1].kind == "stale"


def test_what_is_ignored_or_refused_is_heard_all_the_same() -> None:
    record = asked()
    after, outcome = BROKER.step(record, message("extend_ticket", (1, 30), 0, 4), 5)
    assert outcome.kind == "refused"
    assert "no ticket has been issued" in outcome.reason
    assert after[BROKER.received_at] == (4,)
    assert after[0] == record[0]


def test_recovery_starts_the_work_again_and_changes_nothing() -> None:
    """Paper, section 3.3: (x, recover) leads to x, and its tasks begin anew with the numbers that they had."""
    for record in (BROKER.first(), asked(), granted()):
        after, outcome = BROKER.recover(record)
        assert after is record
        assert outcome.work == BROKER.work[record[0]](record)


def test_outcomes_are_remembered_but_not_without_end() -> None:
    asked: list[int] = []

    def work(n: int) -> tuple[Work, ...]:
        asked.append(n)
        return (Call(f"task_{n}", "policy.place", ()),)

    outcome = remembered("go", "a/idle#go", work)
    assert outcome(0) is outcome(0)
    for n in range(REMEMBERED + 1):
        (call,) = outcome(n).work
        assert call.task == f"task_{n}"
    assert asked == list(range(REMEMBERED + 1))
    assert outcome(0).work == work(0)
    assert asked[-2:] == [0, 0]  # it was the oldest, and was made again


def test_a_number_that_leaves_its_range_is_not_written() -> None:
    record = (*granted()[:3], -1, *granted()[4:])
    with pytest.raises(CoreError, match=r"broker\.units would be -1"):
        CODEC.check(record)
    with pytest.raises(CoreError, match=r"broker\.units"):
        CODEC.encode(record)


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, "tickted", "no state"),
        (1, "2", "requested_units"),
        (3, -1, "units"),
        (5, object, "no record|opaque|plain"),
        (6, [1, 2], "1 numbers"),
        (8, True, "number"),
    ],
)
def test_bytes_that_are_no_record_are_refused(at: int, value: Any, words: str) -> None:
    import msgspec

    plain = list(granted())
    plain[at] = value if value is not object else {1: 2}
    body = msgspec.msgpack.encode([1, bytes.fromhex(PROGRAM.digest), "broker", plain])
    with pytest.raises(RecordError, match=words):
        CODEC.decode(body)


def test_a_record_of_another_specification_is_refused_with_its_digest() -> None:
    other = compile_system(load("two_phase_commit"))
    role = other.roles["coordinator"]
    body = Codec(other, role).encode(role.first())
    with pytest.raises(RecordError, match="another specification") as refused:
        CODEC.decode(body)
    assert refused.value.digest == other.digest
    assert read_head(body)[1] == "coordinator"


@given(st.binary(max_size=200))
def test_garbage_is_refused(body: bytes) -> None:
    with pytest.raises(RecordError):
        CODEC.decode(body)


@given(st.data())
def test_a_damaged_record_is_refused_or_still_one(data: st.DataObject) -> None:
    """No checksum is claimed here (stores have theirs); but what is read is always of the record's shape."""
    body = bytearray(CODEC.encode(granted()))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        record = CODEC.decode(bytes(body))
    except RecordError:
        return
    assert len(record) == len(BROKER.names)
    assert record[0] in BROKER.states
