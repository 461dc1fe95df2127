"""All records of a store at once: what is asked of the store first, what is counted, and what one commit writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.impl.core.core import Program
from leasehold.impl.migrate.migration import MOST, MigrationError, Summary, migrate, owner_of
from leasehold.impl.migrate.schema import SPECIFICATION, RecordSchema
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import RecordKey, StoreError
from leasehold.spec import System
from tests.impl.migrate.test_mapping import altered, clerk, compiled, shop, till

Rows = dict[RecordKey, bytes]


class Watched(MemoryStore):
    """A store that counts its commits."""

    commits = 0

    async def commit(self, batch: Any) -> None:
        self.commits += 1
        await super().commit(batch)


def disk(rows: Rows, wrote: Program | None) -> Disk:
    metadata = {"wish": b"kept", **({SPECIFICATION: RecordSchema.of(wrote).write()} if wrote else {})}
    return Disk(actor="site", epoch=3, records=dict(rows), metadata=metadata)


def migrated(on: Disk, new: tuple[System, Program], commits: int = 1, **options: Any) -> Summary:
    store = Watched(on)
    try:
        return asyncio.run(migrate(store, "site", *new, **options))
    finally:
        assert on.owner is None, "the store is closed, whatever came of it"
        assert store.commits == commits


def refused(on: Disk, new: tuple[System, Program], **options: Any) -> MigrationError:
    before = (dict(on.records), dict(on.metadata))
    with pytest.raises(MigrationError) as error:
        migrated(on, new, 0, **options)
    assert (on.records, on.metadata) == before
    return error.value


def some(program: Program) -> Rows:
    return dict([till(program), clerk(program, 0), clerk(program, 1, "told")])


def renamed(folder: Path, old: Program) -> tuple[System, Program]:
    """The shop with another name of a role, and of a state; rules for both."""
    rules = (
        f"migrations: [{{from: {old.digest[:12]}, roles: {{desk: {{was: till}}, clerk: {{states: {{told: said}}}}}}}}]"
    )
    return shop(folder, rules, ("till", "desk"), ("told", "said"))


def test_all_records_are_written_together_with_their_schema(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    new = renamed(tmp_path / "new", old)
    on, read = disk(some(old), old), list[int]()
    summary = migrated(on, new, seen=read.append)
    assert read == [1, 2, 3]
    assert set(on.records) == {RecordKey("tenant:1", name) for name in ("desk", "clerk[0]", "clerk[1]")}
    assert on.metadata == {"wish": b"kept", SPECIFICATION: RecordSchema.of(new[1]).write()}
    assert (summary.records, summary.forgotten) == ({"desk": 1, "clerk": 2}, {})
    assert summary.moved == {("clerk", "told", "said"): 1}
    assert (summary.needed, summary.ruled, summary.dry_run, summary.epoch) == (True, True, False, 4)
    assert (summary.before, summary.after) == (RecordSchema.of(old), RecordSchema.of(new[1]))
    found = summary.as_json()
    assert found["records"] == {"clerk": 2, "desk": 1}
    assert found["moved"] == [{"role": "clerk", "from": "told", "to": "said", "records": 1}]
    assert found["from"] == {"digest": old.digest, "constants": old.constants}
    after = dict(on.records)
    again = migrated(on, new, 0)
    assert (again.needed, again.records, again.epoch, on.records) == (False, {}, 5, after)


def test_a_dry_run_tells_the_same_and_writes_nothing(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    new = renamed(tmp_path / "new", old)
    on, rows = disk(some(old), old), some(old)
    dry = migrated(on, new, 0, dry_run=True)
    assert (on.records, on.metadata) == (rows, disk({}, old).metadata)
    wet = migrated(on, new)
    assert {**dry.as_json(), "dry_run": False, "epoch": wet.epoch} == wet.as_json()


def test_a_store_without_records_needs_nothing(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    new = renamed(tmp_path / "new", old)
    for wrote in (None, old):
        summary = migrated(disk({}, wrote), new, 0)
        assert (summary.before, summary.needed, summary.ruled, summary.as_json()["from"]) == (None, False, False, None)


def test_records_of_another_system_need_a_rule_that_says_so(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    changed = ("system: shop", "system: store")
    found = refused(disk(some(old), old), shop(tmp_path / "new", "", changed))
    assert "the records are of the system shop, and not of store" in str(found)
    assert f"`from: {old.digest[:12]}`" in str(found)
    ruled = shop(tmp_path / "ruled", f"migrations: [{{from: {old.digest[:12]}}}]", changed)
    summary = migrated(disk(some(old), old), ruled)
    assert (summary.ruled, summary.needed, summary.records) == (True, True, {"till": 1, "clerk": 2})


def test_who_wrote_the_records_is_what_the_store_says_or_else_what_is_given(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    new, third = renamed(tmp_path / "new", old), shop(tmp_path / "third", "", ("told", "heard"))[1]
    rows, given = some(old), RecordSchema.of(old)
    assert migrated(disk(rows, old), new, given=given).records == {"desk": 1, "clerk": 2}
    assert migrated(disk(rows, None), new, given=given).records == {"desk": 1, "clerk": 2}
    same = migrated(disk(rows, None), compiled(tmp_path / "old"), 0)
    assert (same.needed, same.before) == (False, RecordSchema.of(old))
    for on, options, words in (
        (disk(rows, old), {"given": RecordSchema.of(third)}, "leave --from out"),
        (disk(rows, None), {"given": RecordSchema.of(third)}, f"were written by {old.digest[:12]}; name the folder"),
        (disk(rows, None), {}, f"were written by {old.digest[:12]}, by an actor that did not say"),
        (disk({**rows, **dict([clerk(third, 0)])}, None), {}, " and "),
        (disk({RecordKey("l", "till"): b"no row"}, None), {}, "were written by something else"),
        (disk({RecordKey("l", "till"): msgspec.msgpack.encode([])}, None), {}, "were written by something else"),
        (disk({RecordKey("l", "till"): msgspec.msgpack.encode([b""])}, None), {}, "were written by something else"),
        (disk({RecordKey("l", "till"): msgspec.msgpack.encode(7)}, None), {}, "were written by something else"),
        (disk({RecordKey("l", "till"): msgspec.msgpack.encode(["text"])}, None), {}, "were written by something else"),
    ):
        assert words in str(refused(on, new, **options))
    damaged = disk(rows, old)
    damaged.metadata[SPECIFICATION] = b"{"
    assert "does not say what wrote its records" in str(refused(damaged, new))


def test_a_newer_record_among_those_that_are_to_be_migrated_is_refused(tmp_path: Path) -> None:
    """Also where all but one are of the specification that the store names."""
    _, old = shop(tmp_path / "old")
    new, third = renamed(tmp_path / "new", old), shop(tmp_path / "third", "", ("told", "heard"))[1]
    found = refused(disk({**some(old), **dict([clerk(third, 0)])}, old), new)
    assert (str(found), found.total) == ("1 of 3 records cannot be migrated, and nothing was changed", 1)
    assert (found.problems[0].lease, found.problems[0].machine) == ("tenant:1", "clerk[0]")


@pytest.mark.parametrize("count", [1, MOST, MOST + 1, 3 * MOST])
def test_the_first_problems_are_told_and_all_are_counted(tmp_path: Path, count: int) -> None:
    _, old = shop(tmp_path)
    new = compiled(tmp_path, most=20)
    at = old.roles["till"].names.index("sold")
    key, row = till(old)
    rows = {RecordKey(f"tenant:{n:03}", "till"): altered(row, at, 77) for n in range(count)}
    rows[RecordKey("tenant:good", "till")] = row
    found = refused(disk(rows, old), new)
    assert str(found) == f"{count} of {count + 1} records cannot be migrated, and nothing was changed"
    assert found.total == count
    assert [problem.lease for problem in found.problems] == [f"tenant:{n:03}" for n in range(min(count, 20))]
    assert key.machine == "till"


def test_records_that_are_given_up_are_dropped_and_counted(tmp_path: Path) -> None:
    _, old = shop(tmp_path, clerks=3)
    rules = f"migrations: [{{from: {old.digest}, roles: {{clerk: {{forget: [told, idle]}}}}}}]"
    (tmp_path / "migrations.yaml").write_text(rules)
    rows = dict([clerk(old, 0), clerk(old, 1), clerk(old, 2, "told")])
    on = disk(rows, old)
    summary = migrated(on, compiled(tmp_path, clerks=2))
    assert (summary.records, summary.forgotten, summary.moved) == ({"clerk": 2}, {"clerk": 1}, {})
    assert {key.machine for key in on.records} == {"clerk[0]", "clerk[1]"}


def test_the_owner_of_a_file_is_looked_up_without_a_change(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "site.db")
        with pytest.raises(StoreError):
            await owner_of(store)
        assert list(tmp_path.iterdir()) == []
        await store.open("site")
        await store.close()
        before = (tmp_path / "site.db").read_bytes()
        for wanted in ("", "site"):
            assert await owner_of(SqliteStore(tmp_path / "site.db"), wanted) == "site"
        with pytest.raises(StoreError, match="no records of an actor 'sight'; did you mean site"):
            await owner_of(SqliteStore(tmp_path / "site.db"), "sight")
        assert (tmp_path / "site.db").read_bytes() == before

    asyncio.run(run())
