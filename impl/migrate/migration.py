"""Migration of a store: all records are mapped in memory first, and then committed together.

Theory of operation. The store is opened by its owner's name, so no copy of the actor can run meanwhile, and an earlier
one is fenced by the new epoch. All records are read, mapped, and read again by the new codec before any is written. One
commit then replaces all of them together with the schema. A commit is atomic, so after a crash the store has the old
records with the old schema, or the new ones with the new; no recovery is needed, and in both cases the migration can be
run again. An actor has all its records in memory anyway, so they are never too many for this.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from leasehold.impl.actor.chronicle import HEAD, EventDescriber, RowCodec
from leasehold.impl.actor.drafts import FoundDraft
from leasehold.impl.core.codec import RecordError, read_head
from leasehold.impl.core.core import Program
from leasehold.impl.core.work import Machines
from leasehold.impl.events.chain import ChainWriter, Head
from leasehold.impl.events.event import FoundEvent, MigratedEvent, read
from leasehold.impl.migrate.mapping import Mapper, Problem, UnmappableRecord, rules_for
from leasehold.impl.migrate.schema import SPECIFICATION, RecordSchema
from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.store import Batch, RecordKey, Store, StoreError
from leasehold.impl.words import choices
from leasehold.spec import System

MOST = 20  # problems that are reported


class MigrationError(Exception):
    """The records of a store cannot be migrated. Nothing was changed.

    Attributes:
        problems: the first ones.
        total: how many there are.
    """

    def __init__(self, message: str, problems: tuple[Problem, ...] = (), total: int = 0) -> None:
        super().__init__(message)
        self.problems, self.total = problems, total


@dataclass
class Summary:
    """The result of a migration, or with `dry_run` the result that it would have.

    Attributes:
        before: the schema of the records that were found; None where there were none.
        after: their schema now.
        records: their number, by new role.
        moved: the number whose state has another name now, by role and both names.
        forgotten: the number of dropped records, by role.
        epoch: of the store, after it was opened for this.
        needed: whether there was anything to do.
        ruled: whether a migration of migrations.yaml applied.
    """

    before: RecordSchema | None
    after: RecordSchema
    epoch: int
    dry_run: bool
    records: Counter[str] = field(default_factory=Counter)
    moved: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    forgotten: Counter[str] = field(default_factory=Counter)
    needed: bool = False
    ruled: bool = False

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        before = self.before
        return {
            "system": self.after.system,
            "from": None if before is None else {"digest": before.digest, "constants": before.constants},
            "to": {"digest": self.after.digest, "constants": self.after.constants},
            "needed": self.needed,
            "ruled": self.ruled,
            "dry_run": self.dry_run,
            "epoch": self.epoch,
            "records": dict(sorted(self.records.items())),
            "moved": [
                {"role": role, "from": old, "to": new, "records": n}
                for (role, old, new), n in sorted(self.moved.items())
            ],
            "forgotten": dict(sorted(self.forgotten.items())),
        }


async def owner_of(store: OwnedStore, wanted: str = "") -> str:
    """The actor of a closed store: the one that is wanted, or else the only one.

    A store is opened in its owner's name, and in a database a name that nobody has would found a new and empty actor.
    So the name is looked up first, without changing anything.

    Raises:
        StoreError: there is no such actor, there are several and none is named, or the store cannot be read.
    """
    there = await store.owners()
    if not there:
        raise StoreError(f"{store.place} has no records: no actor has opened it yet", "look at the store's URL")
    if wanted and wanted not in there:
        raise StoreError(
            f"{store.place} has no records of an actor {wanted[:60]!r}{choices(wanted, there)}", "name one of them"
        )
    if not wanted and len(there) > 1:
        raise StoreError(
            f"{store.place} has the records of several actors: {', '.join(there)}", "name one of them: --actor NAME"
        )
    return wanted or there[0]


async def migrate(
    store: Store,
    owner: str,
    system: System,
    program: Program,
    given: RecordSchema | None = None,
    dry_run: bool = False,
    seen: Callable[[int], None] = lambda records: None,
) -> Summary:
    """Maps all records of a closed store to a specification.

    Args:
        store: of the records; it is closed afterwards.
        owner: the actor whose records these are.
        system: the specification.
        program: the same, compiled.
        given: the schema of the records, for a store without one.
        dry_run: whether nothing is to be written.
        seen: called with the number of records read so far.

    Raises:
        MigrationError: the records cannot be mapped, or their schema is not known.
        SpecError: a rule names what the old specification did not have.
        StoreError: the store cannot be opened, read or written.
    """
    epoch = await store.open(owner)
    try:
        metadata = await store.metadata()
        rows = {}
        async for key, row in store.records():
            rows[key] = row
            seen(len(rows))
        after = RecordSchema.of(program)
        before = _written_by(metadata.get(SPECIFICATION), rows, after, given)
        summary = Summary(before, after, epoch, dry_run, ruled=before is not None and _ruled(system, before))
        if before is None or before.reads_like(after):
            return summary
        if before.system != after.system and not summary.ruled:
            raise MigrationError(
                f"the records are of the system {before.system}, and not of {after.system}; if that is its successor, "
                f"write `from: {before.digest[:12]}` in its migrations.yaml"
            )
        summary.needed = True
        batch = _mapped(Mapper(before, system, program), rows, summary)
        if not dry_run:
            head = Head.of(metadata.get(HEAD))
            now = 0
            async for _, body in store.events(max(0, head.position - 1)):
                now = read(body).now
            events = _events(ChainWriter(owner, after.digest, epoch, head), program, batch, summary, now)
            chain_head = {HEAD: bytes(events.head._replace(commit=head.commit))} if events.bodies else {}
            await store.commit(
                Batch(batch.puts, batch.drops, {SPECIFICATION: after.write(), **chain_head}, events.bodies)
            )
        return summary
    finally:
        await store.close()


class _Events(NamedTuple):
    bodies: list[bytes]
    head: Head


def _events(writer: ChainWriter, program: Program, batch: Batch, summary: Summary, now: int) -> _Events:
    """The events of a migration: that it was, and each record as it is now; none where no chain has begun.

    They are of the tick of the last event before, as no clock of the system runs.
    They have no seal, as only the actor has its key; its next seal covers them.
    """
    head = writer.head
    if not head.position or summary.before is None:
        return _Events([], head)
    rows = RowCodec(program)
    describer = EventDescriber(program, rows.codecs)
    below = {core.role: Machines(core.first) for core in program.roles.values()}
    wall, forgotten = round(time.time(), 3), summary.forgotten.total()
    fields = {"source": summary.before.digest, "records": summary.records.total(), "forgotten": forgotten}
    bodies = [writer.append(MigratedEvent, now, wall, head.commit, **fields)]
    for key, row in batch.puts.items():
        instance = rows.read(key, row, below)
        event_fields = describer.fields_of(FoundDraft(instance, instance.record))
        bodies.append(writer.append(FoundEvent, now, wall, head.commit, **event_fields))
    return _Events(bodies, writer.head)


def _written_by(
    word: bytes | None, rows: dict[RecordKey, bytes], new: RecordSchema, given: RecordSchema | None
) -> RecordSchema | None:
    """The schema of the records; None where there are none."""
    if not rows:
        return None
    if word is not None:
        try:
            schema = RecordSchema.read(word)
        except RecordError as error:
            raise MigrationError(str(error)) from None
        if given is not None and not given.reads_like(schema):
            raise MigrationError(
                f"the store says that {schema.against(given)} wrote its records, and --from is "
                f"{given.against(schema)}; leave --from out"
            )
        return schema
    digests = {_digest(row) for row in rows.values()}
    if given is not None and given.digest in digests:
        return given
    if given is not None:
        raise MigrationError(
            f"--from is {given.digest[:12]}, and the records were written by {_listed(digests)}; name the folder of "
            "that specification"
        )
    if digests == {new.digest}:
        return new
    raise MigrationError(
        f"the records were written by {_listed(digests)}, by an actor that did not say yet how to read them; name the "
        "folder of that specification: --from FOLDER"
    )


def _digest(row: bytes) -> str:
    try:
        return read_head(msgspec.msgpack.decode(row)[0])[0]
    except (msgspec.DecodeError, ValueError, TypeError, LookupError, RecordError):
        return ""  # reported when it is mapped


def _listed(digests: set[str]) -> str:
    return " and ".join(sorted(digest[:12] or "something else" for digest in digests))


def _ruled(system: System, before: RecordSchema) -> bool:
    return rules_for(system, before) in system.migrations


def _mapped(mapper: Mapper, rows: dict[RecordKey, bytes], summary: Summary) -> Batch:
    """The batch that replaces all records.

    Raises:
        MigrationError: some do not fit.
    """
    puts: dict[RecordKey, bytes] = {}
    problems: list[Problem] = []
    misfits = 0
    for key, row in rows.items():
        try:
            mapped = mapper.map(key, row)
        except UnmappableRecord as misfit:
            misfits += 1
            problems += misfit.problems
            continue
        if mapped.key is None:
            summary.forgotten[mapped.role] += 1
            continue
        puts[mapped.key] = mapped.row
        summary.records[mapped.role] += 1
        if mapped.before != mapped.after:
            summary.moved[mapped.role, mapped.before, mapped.after] += 1
    if misfits:
        message = f"{misfits} of {len(rows)} records cannot be migrated, and nothing was changed"
        raise MigrationError(message, tuple(problems[:MOST]), len(problems))
    return Batch(puts, tuple(key for key in rows if key not in puts))
