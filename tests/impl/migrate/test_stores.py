"""Migration in every store that outlives a process; a database has the records of several actors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.actor.chronicle import HEAD, RowCodec
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.events.chain import ChainWriter, Head, verify
from leasehold.impl.events.event import FoundEvent, MigratedEvent, RecoveredEvent, read
from leasehold.impl.identity.trust import Trust
from leasehold.impl.migrate.migration import Summary, migrate, owner_of
from leasehold.impl.migrate.schema import SPECIFICATION, RecordSchema
from leasehold.impl.store.store import Batch, Fenced, RecordKey, StoreError
from leasehold.impl.store.url import store_from_url
from tests.impl.store.conftest import _place
from tests.systems import load

pytestmark = pytest.mark.real_time

MANY = 2_500  # records: several pages of a store, several packets of a database
SYSTEMS = {units: load("lease", {"max_units": units}) for units in (2, 4)}
PROGRAMS = {units: compile_system(system) for units, system in SYSTEMS.items()}


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = _place(request.param, tmp_path)
    yield made
    made.remove()


def rows(program: Program, count: int) -> dict[RecordKey, bytes]:
    core = program.roles["authority"]
    first = core.first(0, (None,))
    records = {
        RecordKey(f"tenant:{n + 1}", "authority"): (core.states[n % 3], *first[1:-2], n, *first[-1:])
        for n in range(count)
    }
    return {
        key: RowCodec(program).write(MachineInstance(key, core, record, ["tenant"])) for key, record in records.items()
    }


async def fill(place: Any, actor: str, count: int) -> Any:
    """Writes the records of an actor of two units; the store stays open."""
    store = place.store()
    await store.open(actor)
    words = {SPECIFICATION: RecordSchema.of(PROGRAMS[2]).write(), "wish of tenant:1": b"kept"}
    await store.commit(Batch(rows(PROGRAMS[2], count), metadata=words))
    return store


async def contents(place: Any, actor: str) -> tuple[dict[RecordKey, bytes], dict[str, bytes]]:
    store = place.store()
    await store.open(actor)
    found = {key: row async for key, row in store.records()}, await store.metadata()
    await store.close()
    return found


async def to_four(place: Any, actor: str = "") -> Summary:
    store = store_from_url(place.url)
    return await migrate(store, await owner_of(store, actor), SYSTEMS[4], PROGRAMS[4])


async def test_all_records_of_the_actor_and_of_no_other(place: Any) -> None:
    await (await fill(place, "site", MANY)).close()
    others = ["site_2"] if place.shared else []
    for other in others:
        await (await fill(place, other, 3)).close()
    before = [await contents(place, other) for other in others]
    summary = await to_four(place, "site")
    assert summary.records == {"authority": MANY}
    records, words = await contents(place, "site")
    assert RecordSchema.read(words.pop(SPECIFICATION)) == RecordSchema.of(PROGRAMS[4])
    assert (records, words) == (rows(PROGRAMS[4], MANY), {"wish of tenant:1": b"kept"})
    assert [await contents(place, other) for other in others] == before


async def test_the_actor_is_named_where_there_are_several(place: Any) -> None:
    if not place.shared:
        pytest.skip("a file has one actor")
    with pytest.raises(StoreError, match="has no records: no actor has opened it yet"):
        await to_four(place)
    for name in ("site", "broker"):
        await (await fill(place, name, 1)).close()
    with pytest.raises(StoreError, match="has the records of several actors: broker, site; name one of them: --actor"):
        await to_four(place)
    with pytest.raises(StoreError, match="no records of an actor 'sight'; did you mean site"):
        await to_four(place, "sight")
    # Looking has founded no new actor.
    assert await place.ask("SELECT count(*) FROM leasehold_actor") in ([(2,)], ((2,),))


@pytest.mark.long
async def test_an_actor_that_has_lost_its_lock_can_write_nothing_afterwards(place: Any) -> None:
    store = await fill(place, "site", 3)
    with pytest.raises(StoreError, match="in use by another copy"):
        await to_four(place, "site")
    await place.lose_lock(store)
    await to_four(place, "site")
    with pytest.raises(Fenced):
        await store.commit(Batch(rows(PROGRAMS[2], 1)))
    await store.close()
    assert (await contents(place, "site"))[0] == rows(PROGRAMS[4], 3)


async def test_a_chain_of_events_goes_on_with_the_records_as_they_are_then(place: Any) -> None:
    store = await fill(place, "site", 3)
    writer = ChainWriter("site", PROGRAMS[2].digest, 1)
    body = writer.append(RecoveredEvent, 5, 1.0, 7, agreement="", machines=3)
    await store.commit(Batch(metadata={HEAD: bytes(writer.head)}, events=[body]))
    await store.close()
    await to_four(place, "site")
    store = place.store()
    await store.open("site")
    bodies = [item async for item in store.events()]
    head = Head.of((await store.metadata())[HEAD])
    await store.close()
    assert verify(Trust(), "site", bodies, head).last == 5
    assert head.commit == 7  # none that the actor has not made
    events = [read(body) for _, body in bodies]
    assert isinstance(migrated := events[1], MigratedEvent)
    assert [event.now for event in events] == [5] * len(events)  # no clock has run
    assert (migrated.source, migrated.spec, migrated.records) == (PROGRAMS[2].digest, PROGRAMS[4].digest, 3)
    found = {event.lease: event.record.state for event in events if isinstance(event, FoundEvent)}
    states = PROGRAMS[4].roles["authority"].states
    assert found == {f"tenant:{n + 1}": states[n] for n in range(3)}
