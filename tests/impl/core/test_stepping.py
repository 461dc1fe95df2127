"""What all compiled machines share: numbers, answers, records as bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.codec import Codec, CoreError, RecordError, read_head
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.stepping import REMEMBERED, remembered, with_cell
from leasehold.impl.core.work import CallWork, Record, Work, local, message
from tests.systems import load

PROGRAM: Program = compile_system(load("lease"))
BROKER: Core = PROGRAM.roles["broker"]
CODEC = Codec(PROGRAM, BROKER)
ASK = message("ticket", (2, 9), 0, 1)


def test_a_machine_has_one_name() -> None:
    """Its record is kept under it: another spelling, or a number too many, would be a machine more."""
    votes = compile_system(load("two_phase_commit", {"participants": 3}))
    participant = votes.roles["participant"]
    names = {"participant[0]": 0, "participant[2]": 2}
    assert {name: votes.machines[name] for name in names} == {name: (participant, n) for name, n in names.items()}
    assert votes.machines["coordinator"] == (votes.roles["coordinator"], 0)
    for name in (
        "participant", "participant[3]", "participant[02]", "participant[-1]", "participant[2]x", "participant[]",
        "coordinator[0]", "coordinator[1]", "Coordinator", "nobody", "", "participant[٢]",
    ):  # fmt: skip
        assert name not in votes.machines


def asked() -> Record:
    record, _ = BROKER.step(BROKER.first(), ASK, 0)
    return record


def granted() -> Record:
    record, outcome = BROKER.step(asked(), local("granted", (2, "p"), state_epoch=1), 0)
    assert outcome.taken
    return record


def test_outcomes_are_remembered_but_not_without_end() -> None:
    asked: list[int] = []

    def work(n: int) -> tuple[Work, ...]:
        asked.append(n)
        return (CallWork(f"task_{n}", "policy.place", ()),)

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


@pytest.mark.parametrize("value", [2**31, 2**32, 2**53 + 1, 2**63 - 1])
def test_a_large_number_is_read_as_it_was_written(value: int) -> None:
    record = with_cell(granted(), BROKER.names.index("term_end"), value)
    assert CODEC.decode(CODEC.encode(record)) == record


def test_a_sequence_number_beyond_64_bits_is_not_written() -> None:
    record = with_cell(granted(), BROKER.sent_at, (2**64,))
    with pytest.raises(CoreError, match="broker: a number has more than 64 bits"):
        CODEC.encode(record)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**64, 2**70])
def test_a_number_that_could_not_be_read_is_not_written(value: int) -> None:
    record = with_cell(granted(), BROKER.names.index("term_end"), value)
    for write in (CODEC.check, CODEC.encode):
        with pytest.raises(CoreError, match=r"broker\.term_end would be"):
            write(record)


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
