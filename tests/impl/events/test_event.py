"""Events as bytes: what has a form, what has none, and what is said of each in a line."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from leasehold.impl.core.values import ValueFault
from leasehold.impl.events.chain import ChainError, ChainVerifier, Tampering
from leasehold.impl.events.event import (
    ROOT,
    AnyEvent,
    EndedCall,
    EventError,
    ForgottenEvent,
    FoundEvent,
    MachineRecord,
    MachineStep,
    MigratedEvent,
    PrunedEvent,
    ReceivedMessage,
    RecoveredEvent,
    RefusedEvent,
    SealEvent,
    SentMessage,
    StartedCall,
    StepEvent,
    read,
    record_digest,
    write,
)
from leasehold.impl.events.lines import EventLines, verify_lines, write_lines
from leasehold.impl.events.records import record_of
from leasehold.impl.events.summary import summary
from leasehold.impl.identity.trust import Trust
from tests.checker.conform.walks import SYSTEMS, known, walked

OF = {"position": 7, "before": ROOT, "actor": "site", "epoch": 2, "spec": "5" * 64, "now": 3, "time": 1.5, "commit": 4}
RECORD = MachineRecord("active", {"units": 2, "note": "é"}, 3, {"broker": 1}, {"broker": 2}, {"join": 3})
DRIVEN = MachineStep(
    "-", "unit[0]", "join", MachineRecord("priming", {}, 1), "idle", "parent", "unit/idle#join", serves="tenant:1"
)
STEP = MachineStep(
    "tenant:1",
    "authority",
    "redeem",
    RECORD,
    "nascent",
    "message",
    "authority/nascent#redeem",
    {"units": 2},
    ReceivedMessage("service_manager", "tenant", 2),
    sends=(SentMessage("broker", 1, "tell", {"units": 2}, "broker"),),
    starts=(StartedCall("join", "handler.join"),),
    driven=(DRIVEN,),
)
ENDED = MachineStep(
    "tenant:1",
    "authority",
    "joined",
    RECORD,
    "active",
    "handler",
    answers=EndedCall(3, False, "no room"),
    reason="it is active",
)
LEASE = {"lease": "tenant:1", "machine": "authority"}
ALL: list[tuple[AnyEvent, str]] = [
    (
        StepEvent(**OF, step=STEP),
        "tenant:1 authority nascent -> active: redeem from service_manager (2); sends tell to "
        "broker (1); calls handler.join; [- unit[0] idle -> priming: join by parent]",
    ),
    (StepEvent(**OF, step=ENDED), "tenant:1 authority active: joined by handler, not taken: it is active"),
    (
        RefusedEvent(**OF, **LEASE, event="close", cause="client", reason="too early"),
        "tenant:1 authority refused close of client: too early",
    ),
    (
        RefusedEvent(**OF, **LEASE, event="close", cause="", reason="too early"),
        "tenant:1 authority refused close of nobody: too early",
    ),
    (RecoveredEvent(**OF, agreement="a", machines=3), "recovered as epoch 2 with 3 machines"),
    (
        RecoveredEvent(
            **OF,
            agreement="a",
            machines=3,
            unrecorded=4,
            constants={"most": 2},
            records={"tenant:1": {"authority": "0" * 16}},
        ),
        "recovered as epoch 2 with 3 machines, 4 commits without events",
    ),
    (FoundEvent(**OF, **LEASE, record=RECORD), "tenant:1 authority is in active"),
    (ForgottenEvent(**OF, **LEASE, state="closed"), "tenant:1 authority is forgotten, in closed"),
    (MigratedEvent(**OF, source="4" * 64, records=9), f"migrated 9 records from {'4' * 12} to {'5' * 12}"),
    (PrunedEvent(**OF, until=5, root=ROOT), "events up to 5 are dropped"),
    (PrunedEvent(**OF, until=5, root=ROOT, overtaken=("a", "b")), "events up to 5 are dropped, not read by a, b"),
    (SealEvent(**OF, why="many", key="6" * 64), f"sealed with key {'6' * 12} (many)"),
]


@pytest.mark.parametrize(("event", "words"), ALL)
def test_an_event_is_one_line(event: AnyEvent, words: str) -> None:
    assert summary(event) == words
    assert read(write(event)) == event


def parts_of(value: Any, plain: Any) -> Iterator[tuple[msgspec.Struct, dict[str, Any]]]:
    """Yields what has fields of its own within an event, and as it is written."""
    if isinstance(value, msgspec.Struct):
        yield value, plain
        for name in value.__struct_fields__:
            yield from parts_of(getattr(value, name), plain.get(name))
    elif isinstance(value, tuple):
        for one, written in zip(value, plain or (), strict=True):
            yield from parts_of(one, written)


KINDS = {type(part).__name__: type(part) for event, _ in ALL for part, _ in parts_of(event, json.loads(write(event)))}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_left_out_is_empty(kind: type[msgspec.Struct]) -> None:
    """The end of a call alone is well unless something else is said."""
    for field in msgspec.structs.fields(kind):
        if not field.required:
            usual = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            assert usual == ((kind, field.name) == (EndedCall, "well") or type(usual)())


def test_a_record_s_digest_is_the_beginning_of_that_of_its_json() -> None:
    """Each field counts: two records that differ in one have two digests."""
    assert record_digest(RECORD) == sha256(msgspec.json.encode(RECORD, order="deterministic")).hexdigest()[:16]
    changes: dict[str, Any] = {
        "state": "idle",
        "data": {"units": 3},
        "epoch": 4,
        "sent": {},
        "received": {"broker": 3},
        "since": {"join": 2},
    }
    assert {*changes} == {*RECORD.__struct_fields__}
    found = [record_digest(msgspec.structs.replace(RECORD, **{name: value})) for name, value in changes.items()]
    assert len({record_digest(RECORD), *found}) == 1 + len(changes)


@pytest.mark.parametrize(("event", "words"), ALL)
def test_each_part_has_its_fields_and_no_other(event: AnyEvent, words: str) -> None:
    """Defaults take no room; unknown fields are refused; and nobody changes an event."""
    plain = json.loads(write(event))
    for part, written in parts_of(event, plain):
        usual = {f.name: f.default for f in msgspec.structs.fields(part) if not f.required}
        usual |= {f.name: {} for f in msgspec.structs.fields(part) if f.default_factory is dict}
        expected = {name for name in part.__struct_fields__ if name not in usual or getattr(part, name) != usual[name]}
        assert set(written) - {"kind"} == expected
        with pytest.raises(AttributeError):
            setattr(part, part.__struct_fields__[0], "x")
        written["more"] = 1
        with pytest.raises(EventError, match="more"):
            read(json.dumps(plain).encode())
        del written["more"]
    assert read(json.dumps(plain).encode()) == event


def flipped(body: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(body))
    return body[:at] + bytes([body[at] ^ 1 << chance.randrange(8)]) + body[at + 1 :]


HURTS: list[Callable[[bytes, random.Random], bytes]] = [
    flipped,
    lambda body, chance: body[: chance.randrange(len(body))],
    lambda body, chance: body[chance.randrange(len(body)) :],
    lambda body, chance: body.replace(b'"', b'"\xff', chance.randrange(40)),
    lambda body, chance: body.replace(b":", b":[", chance.randrange(1, 40)),
    lambda body, chance: body.replace(b"2", b"2" * 5000, chance.randrange(1, 4)),
    lambda body, chance: body.replace(b"2", b"[" * 5000, chance.randrange(1, 4)),
]


def test_bytes_of_any_kind_are_an_event_or_none() -> None:
    """Never another error, whatever a source has; so in the lines of a file, where the place is told too."""
    chance, none = random.Random(5), 0
    bodies = [write(event) for event, _ in ALL]
    for number in range(3000):
        body = HURTS[number % len(HURTS)](chance.choice(bodies), chance)
        try:
            read(body)
        except EventError:
            none += 1
            with pytest.raises(ChainError) as caught:
                ChainVerifier(None, "site").take(body)
            assert (caught.value.kind, caught.value.position) == (Tampering.ALTERED, 1)
    assert none > 1000


def test_lines_of_any_kind_are_a_file_of_events_or_none() -> None:
    chance, lines = random.Random(6), [*write_lines("site", [], 7.0, (7, ROOT))]
    for number in range(1000):
        at = number % 2
        hurt = [*lines[:at], HURTS[number % len(HURTS)](lines[at], chance), *lines[at + 1 :]]
        found: ChainError | None = None
        try:
            verify_lines(Trust(), hurt, unsigned=True)
        except ChainError as error:
            found = error
        if found is None:
            assert [*EventLines(hurt)] == []
            continue
        named = found.of("a file")
        assert (named.source, named.kind, named.position) == ("a file", found.kind, found.position)
        assert found.reason in str(named)
        assert "a file" in str(named)
        assert named.of("another") is named


# Records


def records(name: str) -> Iterator[tuple[Any, int, MachineRecord]]:
    """Role, number and record of the steps of a walk."""
    for events in walked(name, 0).values():
        for event in events:
            if isinstance(event, StepEvent):
                for step in (event.step, *event.step.driven):
                    yield *known(name).program.machines[step.machine], step.record


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_record_has_all_that_its_event_tells(name: str) -> None:
    program = known(name).program
    for core, number, record in records(name):
        found = record_of(program, core, number, record)
        assert found[0] == record.state
        assert found[core.state_epoch_at] == record.epoch
        for task, at in zip(core.since, range(core.state_epoch_at + 1, core.below_at), strict=True):
            assert found[at] == record.since.get(task, 0)
        for field in core.fields:
            lacking = {name: value for name, value in record.data.items() if name != field.name}
            with pytest.raises(ValueFault, match=f"{field.name} is missing"):
                record_of(program, core, number, msgspec.structs.replace(record, data=lacking))
        with pytest.raises(ValueFault, match="has no state 'gone'"):
            record_of(program, core, number, msgspec.structs.replace(record, state="gone"))
