"""The descriptions of records and steps in events, held against the records and messages themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor import chronicle
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.chronicle import EventDescriber, RowCodec
from leasehold.impl.actor.drafts import words
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.core import Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.events.event import AnyEvent, FoundEvent, MachineStep, StepEvent, read
from tests.impl.actor import estate
from tests.impl.actor.alone import program_of
from tests.impl.actor.test_messages import TWINS


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(estate.FILES)


def by_hand(value: Any) -> Any:
    """Returns an opaque value as events are to show it."""
    body = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
    if len(body) <= 1024 or isinstance(value, bool | int | float) or not value:
        return value
    return {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}


VALUES = [
    None,
    False,
    True,
    0,
    1,
    2.5,
    "",
    "a",
    [],
    {},
    [0],
    {"b": 1, "a": [2]},
    "é" * 510,
    "é" * 511,
    "é" * 512,
    *("x" * size for size in (1021, 1022, 1023, 5000)),
    ["y" * 1020],
    ["y" * 1021],
    {"z": "y" * 2000, "a": 1},
]


def test_opaque_values_of_every_size_are_shown_alike_in_a_field_and_in_a_map(program: Program) -> None:
    """A value up to the limit stands there itself, a larger one by its digest, the first time and each time after."""
    core = program.roles["owner"]
    describer = EventDescriber(program, RowCodec(program).codecs)
    plots = len(VALUES)
    for _ in range(2):
        for value in VALUES:
            record = list(core.first())
            record[core.data_at : core.data_at + 3] = [frozenset(), (*VALUES, *[None] * (1010 - plots)), value]
            data = describer.record(core, tuple(record)).data
            shown = [*map(by_hand, VALUES), *[None] * (1010 - plots)]
            assert data == {"plots": [], "properties": shown, "note": by_hand(value)}


def test_values_that_are_remembered_are_bounded_and_never_mistaken(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A describer that has room for few values shows each of many that come and go as its own."""
    monkeypatch.setattr(chronicle, "REMEMBERED", 5)
    core = program.roles["owner"]
    describer = EventDescriber(program, RowCodec(program).codecs)
    for number in range(100):
        record = list(core.first())
        record[core.data_at + 2] = value = f"{number} " * 900
        assert describer.record(core, tuple(record)).data["note"] == by_hand(value)
        assert len(describer._known) <= 5


@pytest.mark.parametrize("size", [0, 1, 499, 500, 501, 2000])
@pytest.mark.parametrize(("one", "shown"), [("a", "a"), ("é", "é"), ("\ud800", "?")])
def test_texts_from_outside_are_cut_and_can_be_written(size: int, one: str, shown: str) -> None:
    """Texts of policies and handlers keep 500 characters, and no half of a surrogate pair."""
    assert words(one * size) == shown * min(size, 500)


def direct(program: Program, held: MachineInstance) -> dict[str, Any]:
    """Returns what an event is to tell of a record, read from the record by its fields."""
    core, record = held.core, held.record
    fields = zip(core.fields, record[core.data_at :], strict=False)
    sent, received = dict[str, int](), dict[str, int]()
    if not core.subsidiary:
        for at, name in enumerate(program.neighbours(core, held.number)):
            for numbers, position in ((sent, core.sent_at), (received, core.received_at)):
                if record[position][at]:
                    numbers[name] = record[position][at]
    return {
        "state": held.state,
        "epoch": held.state_epoch,
        "sent": sent,
        "received": received,
        "data": {field.name: to_plain(field.type, value) for field, value in fields},
    }


def told(record: Any) -> dict[str, Any]:
    return {
        "state": record.state,
        "epoch": record.epoch,
        "sent": record.sent,
        "received": record.received,
        "data": record.data,
    }


def each_step(events: list[AnyEvent]) -> Iterator[tuple[MachineStep, MachineStep | None]]:
    """The steps of a chain, and those that drive them."""
    for event in events:
        if isinstance(event, StepEvent):
            yield event.step, None
            yield from ((driven, event.step) for driven in event.step.driven)


def events_of(c: Cluster, name: str) -> list[AnyEvent]:
    return [read(body) for body in c.disks[name].events.values()]


async def test_the_events_of_a_lease_system_say_what_its_records_and_messages_do() -> None:
    """Messages that steps have received are those that others have sent; last steps tell the records that are there."""
    seen = dict[str, int]()

    async with Cluster(units=3) as c:
        await c.lease(2, until=60, term=10)
        await c.lease(1, until=30, term=10)
        for _ in range(37):
            await c.advance()
        sent, received = dict[Any, Any](), dict[Any, Any]()
        for name, actor in c.actors.items():
            _compare(actor, events_of(c, name), seen)
            for step, _ in each_step(events_of(c, name)):
                for one in step.sends:
                    sent[step.lease, name, step.machine, one.actor, one.to, one.number] = one.message, one.fields
                if (got := step.received) is not None and step.transition:
                    received[step.lease, got.actor, got.machine, name, step.machine, got.number] = (
                        step.event,
                        step.fields,
                    )
        assert len(received) >= 8
        assert {key: sent[key] for key in received} == received
        numbers = [key[5] for key in sent]
        assert min(numbers) == 1 < max(numbers)
    assert min(seen["top"], seen["driven"], seen["serving"], seen["ended"]) >= 3


def _compare(actor: Actor, events: list[AnyEvent], seen: dict[str, int]) -> None:
    last = dict[tuple[str, str], Any]()
    for step, parent in each_step(events):
        key = step.lease, step.machine
        if key in last:
            assert step.source == last[key].state
        last[key] = step.record
        seen["driven" if parent else "top"] = seen.get("driven" if parent else "top", 0) + 1
        if step.serves:
            seen["serving"] = seen.get("serving", 0) + 1
            assert step.serves.startswith("tenant:")
        if parent is not None:
            of_actor = actor.program.machines[step.machine][0].of_actor
            assert (step.cause, step.serves) == ("parent", parent.lease if of_actor else "")
        if step.answers is not None:
            seen["ended"] = seen.get("ended", 0) + 1
            assert step.cause in ("handler", "policy")
        assert bool(step.transition) or step.reason
    assert last
    for key, held in actor.table.instances.items():
        if tuple(key) in last:
            assert told(last[tuple(key)]) == direct(actor.program, held)


async def test_a_chain_that_begins_with_records_tells_each_as_it_is() -> None:
    """Records found at the start of a chain are told as they are, and of a unit's machine which lease it serves."""

    async with Cluster(units=3) as c:
        lease = await c.lease(2, until=60, term=10)
        for name in list(c.actors):
            await c.kill(name)
            for word in list(c.disks[name].metadata):
                if word == "events":
                    del c.disks[name].metadata[word]
            c.disks[name].events.clear()
            await c.start(name)
        await c.settle()
        serving = 0
        for name, actor in c.actors.items():
            found = [event for event in events_of(c, name) if isinstance(event, FoundEvent)]
            assert found
            for event in found:
                held = next(h for key, h in actor.table.instances.items() if key == (event.lease, event.machine))
                assert event.serves == (held.serves if held.core.of_actor else "")
                assert event.record.data.keys() == direct(actor.program, held)["data"].keys()
                serving += event.serves == lease
        assert serving >= 2


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("role", ["asker", "answerer", "chief"])
def test_numbers_of_messages_stand_by_the_names_of_neighbours(role: str, number: int) -> None:
    """Numbers of each machine are told by its own neighbours' names, those that are not 0."""
    twins = program_of(TWINS)
    core, describer = twins.roles[role], EventDescriber(twins, RowCodec(twins).codecs)
    names = {
        "asker": {f"answerer[{number}]", "chief"},
        "answerer": {f"asker[{number}]"},
        "chief": {"asker[0]", "asker[1]"},
    }[role]
    at = twins.neighbours(core, number)
    assert set(at) == names
    for quiet in (None, *at):
        record = list(core.first(number))
        record[core.sent_at] = tuple(0 if name == quiet else 3 + n for n, name in enumerate(at))
        record[core.received_at] = tuple(7 + n if name == quiet else 0 for n, name in enumerate(at))
        told_of = describer.record(core, tuple(record))
        assert told_of.sent == {name: 3 + n for n, name in enumerate(at) if name != quiet}
        assert told_of.received == {name: 7 + n for n, name in enumerate(at) if name == quiet}
