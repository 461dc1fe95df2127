"""What all compiled machines share: numbers, answers, records as bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.codec import Codec, RecordError, read_head
from leasehold.impl.core.core import Core, CoreError, Program
from leasehold.impl.core.stepping import (
    LATE,
    REMEMBERED,
    UNKNOWN,
    increment_sent,
    numbered,
    remembered,
    unmoved,
    with_cell,
)
from leasehold.impl.core.work import CallWork, DriveWork, Machines, Outcome, Record, SendWork, Work, local, message
from tests.systems import load

PROGRAM: Program = compile_system(load("lease"))
BROKER: Core = PROGRAM.roles["broker"]
CODEC = Codec(PROGRAM, BROKER)
ASK = message("ticket", (2, 0, 9, "", {}), 0, 1)


def test_a_machine_has_one_name() -> None:
    """Its record is kept under it: another spelling, or a number too many, would be a machine more."""
    votes = compile_system(load("two_phase_commit", {"participants": 3}))
    participant = votes.roles["participant"]
    names = {"participant[0]": 0, "participant[2]": 2}
    assert {name: votes.machines[name] for name in names} == {name: (participant, n) for name, n in names.items()}
    assert votes.machines["coordinator"] == (votes.roles["coordinator"], 0)
    for name in (
        "participant",
        "participant[3]",
        "participant[02]",
        "participant[-1]",
        "participant[2]x",
        "participant[]",
        "coordinator[0]",
        "coordinator[1]",
        "Coordinator",
        "nobody",
        "",
        "participant[٢]",
    ):
        assert name not in votes.machines


def asked() -> Record:
    record, _ = BROKER.step(BROKER.first(), ASK, 0)
    return record


def granted() -> Record:
    record, outcome = BROKER.step(asked(), local("granted", (2, 0, 0, "p", 0, ""), state_epoch=1), 0)
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
    record = with_cell(granted(), BROKER.names.index("units"), -1)
    with pytest.raises(CoreError, match=r"broker\.units would be -1"):
        CODEC.core.check(record)
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
    for write in (CODEC.core.check, CODEC.encode):
        with pytest.raises(CoreError, match=r"broker\.term_end would be"):
            write(record)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("state", "tickted", "no state"),
        ("requested_units", "2", "requested_units"),
        ("units", -1, "units"),
        ("properties", object, "no record|opaque|plain"),
        ("sent", [1, 2], "1 numbers"),
        ("entry", True, "number"),
    ],
)
def test_bytes_that_are_no_record_are_refused(name: str, value: Any, words: str) -> None:
    import msgspec

    plain = list(granted())
    plain[BROKER.names.index(name)] = value if value is not object else {1: 2}
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


# One step, of a role that is made by hand

ASKED = SendWork("ask", "ask", 0, lambda record: ("now",))
SAID = SendWork("say", "say", 1, lambda record: (record[1],))
SAID_TOO = SendWork("say_too", "say_too", 1, lambda record: ())
CALLED = CallWork("place", "policy.place", ("placed",))
DRIVEN = DriveWork("raise_", "up", ("part", 0), lambda record: ())
EVERYTHING: tuple[Work, ...] = (ASKED, CALLED, SAID, DRIVEN, SAID_TOO)
IGNORED = Outcome("ignored", "hush", reason="it is quiet")


def _go(record: Record, fields: tuple[Any, ...], neighbour: int, number: int, now: int) -> tuple[Record, Outcome]:
    return ("busy", fields, neighbour, number, now, *record[5:]), Outcome("taken", "go", "it/idle#go", EVERYTHING)


HAND = Core(
    role="it",
    indexed=True,
    states=("idle", "busy", "over"),
    fields=(),
    events={},
    count=3,
    subsidiary=False,
    neighbours=(("a", -1), ("b", 2)),
    since={"save": ("saved", "lost"), "keep": ("kept",)},
    below=(),
    table={
        "idle": {"go": _go, "hush": unmoved(IGNORED, 3), "saved": _go, "lost": _go, "kept": _go, "placed": _go},
        "busy": {},
        "over": {},
    },
    work={"idle": lambda record: EVERYTHING, "busy": lambda record: (), "over": lambda record: ()},
    answers={"idle": lambda record: ("placed", "kept")},
    wakes={"idle": lambda record: record[1] + 5},
    heard_answers=frozenset({"answered"}),
    ends=frozenset({"over"}),
)
AT: Record = ("idle", 2, (4, 5), (7, 9), 30, 21, 22)


def test_where_things_are_in_a_record() -> None:
    assert HAND.names == ("state", "instance", "sent", "received", "entry", "since save", "since keep")
    assert (HAND.data_at, HAND.sent_at, HAND.received_at, HAND.state_epoch_at, HAND.below_at) == (2, 2, 3, 4, 7)
    assert HAND.first(1) == ("idle", 1, (0, 0), (0, 0), 0, 0, 0)
    assert [HAND.began(AT, task) for task in ("place", "save", "keep")] == [30, 21, 22]
    assert (HAND.machine(2), HAND.view(AT)) == ("it[2]", {})
    assert [HAND.over(state) for state in HAND.states] == [False, False, True]
    busy = ("busy", *AT[1:])
    assert (HAND.offered(AT), HAND.offered(busy)) == (("placed", "kept"), ())
    assert (HAND.wake(AT), HAND.wake(busy)) == (7, None)
    record, outcome = HAND.recover(AT)
    assert record is AT
    assert outcome == Outcome("recovered", "recover", work=EVERYTHING)
    assert not outcome.taken


@pytest.mark.parametrize(("neighbour", "last"), [(0, 7), (1, 9)])
def test_a_message_is_new_a_duplicate_or_stale_by_its_number(neighbour: int, last: int) -> None:
    """By its own sender's: a duplicate makes a lost answer good; what the state says to others is not said again."""
    record, outcome = HAND.step(AT, message("go", ("f",), neighbour, last + 1), 60)
    assert (record[:5], outcome.taken) == (("busy", ("f",), neighbour, last + 1, 60), True)
    assert HAND.step(AT, message("go", (), neighbour, last + 100), 60)[1].taken  # whatever was skipped
    record, outcome = HAND.step(AT, message("go", (), neighbour, last), 60)
    assert record is AT
    assert (outcome.kind, outcome.event, outcome.taken) == ("duplicate", "go", False)
    assert outcome.work == ((ASKED,) if neighbour == 0 else (SAID, SAID_TOO))
    assert HAND.step(AT, message("answered", (), neighbour, last), 60)[1] == Outcome("duplicate", "answered")
    for number in (last - 1, 0):
        record, outcome = HAND.step(AT, message("go", (), neighbour, number), 60)
        assert record is AT
        assert outcome == Outcome("stale", "go", reason=f"number {number} comes after {last}")
        assert HAND.step(AT, message("answered", (), neighbour, number), 60)[1].kind == "stale"


def test_the_number_of_a_message_that_moves_nothing_is_received() -> None:
    record, outcome = HAND.step(AT, message("hush", (), 1, 12), 0)
    assert record == with_cell(AT, 3, (7, 12))
    assert outcome == IGNORED
    assert HAND.step(AT, local("hush"), 0) == (AT, IGNORED)


def test_an_answer_is_late_when_its_state_was_left() -> None:
    """That of a task which outlives its state is measured by when the task began."""
    for name, epoch in (("placed", 30), ("saved", 21), ("lost", 21), ("kept", 22)):
        assert HAND.step(AT, local(name, (), epoch), 0)[1].taken
        assert HAND.step(AT, local(name, (), -1), 0)[1].taken  # it answers nothing
        for wrong in {0, 20, 21, 22, 29, 30, 31} - {epoch}:
            assert HAND.step(AT, local(name, (), wrong), 0) == (AT, LATE)
    first = HAND.first(0)
    assert HAND.step(first, local("placed", (), 0), 0)[1].taken
    assert HAND.step(first, local("placed", (), 1), 0) == (first, LATE)
    assert (LATE.kind, UNKNOWN.kind) == ("late", "unmoved")
    assert HAND.step(AT, local("nonsense"), 0) == (AT, UNKNOWN)
    assert HAND.step(("busy", *AT[1:]), message("go", (), 0, 8), 0)[1] == UNKNOWN


def test_what_is_sent_is_counted_by_neighbour() -> None:
    record, outcome = numbered(AT, 2, Outcome("taken", "go", work=EVERYTHING))
    assert record == with_cell(AT, 2, (5, 7))  # two of the pieces go to the second neighbour, two to nobody
    assert outcome.work == EVERYTHING
    assert increment_sent((4, 5), (1, 0, 1)) == (5, 7)
    assert increment_sent((4, 5), ()) == (4, 5)


def test_a_unit_that_nothing_has_happened_to_is_as_at_first_and_is_not_stored() -> None:
    units = Machines(PROGRAM.roles["unit"].first)
    assert units[1] == PROGRAM.roles["unit"].first(1)
    assert (len(units), 1 in units) == (0, False)
    units[1] = ("active", 1)
    assert (units[1], units[0]) == (("active", 1), PROGRAM.roles["unit"].first(0))


def test_two_programs_agree_on_specification_and_constants() -> None:
    """What is different in either is a different word, also of a constant that no record shows."""
    words = {
        compile_system(load("lease", settings)).agreement
        for settings in ({}, {"max_units": 3}, {"lazy_close": False}, {"handler_limit": 2})
    }
    assert len(words) == 4
    assert all(word.startswith(f"{PROGRAM.digest}.") for word in words)
    assert compile_system(load("lease", {"max_units": 2})).agreement == PROGRAM.agreement
    assert compile_system(load("two_phase_commit")).agreement.partition(".")[0] != PROGRAM.digest
