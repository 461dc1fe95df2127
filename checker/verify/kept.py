"""The state of a verification in its database: events, runs, and how far all is kept and judged.

Theory of operation. An event is kept as it was written, with its actor's position, and has a number once it is judged;
so what waits for other actors is the end of each chain. New events, the cuts that they lead to, what was found and how
far it all is are written in one transaction: after a crash all of it is there, or nothing. `Follower` says how far a
chain has come; whoever follows an actor reads on from there, and knows by the digest that it is the same chain.

Only runs that go on are in memory. The others, and after a crash all, are had again when an event of theirs comes: from
their rows of `cut`, which name the events that say what changed (cuts.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from leasehold.checker.history.fault import CutFault
from leasehold.checker.history.fold import lease_of
from leasehold.checker.history.merge import Sent
from leasehold.checker.verify.cuts import ConsistentCuts, Cut, RunState, RunSteps, StoredCut
from leasehold.checker.verify.database import VerifyDatabase
from leasehold.checker.verify.incremental import DecidedCut, KeptFindings
from leasehold.checker.verify.queries import PropertyQuery
from leasehold.checker.verify.recorder import RunRecorder
from leasehold.checker.verify.schema import ACTOR_MACHINE, EVENT, FAULT, FOLLOWER, PROGRESS, Cursor, Table, Tables
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import (
    ROOT,
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    RefusedEvent,
    StepEvent,
    digest,
    read,
    write,
)
from leasehold.impl.words import over

WITHOUT_CONTENT = ("", "clock", "crash", "recover", "passed")  # causes of cuts that need no event to be had again


@dataclass(slots=True)
class Follower:
    """The progress in following the events of an actor.

    Attributes:
        actor: whose.
        source: where they were read.
        position, digest, epoch: of the last event that is kept; 0 and ROOT: none is.
        sealed: up to which event signatures vouch for it, where they were checked.
        judged: up to which event they are judged.
    """

    actor: str
    source: str = ""
    position: int = 0
    digest: str = ROOT
    epoch: int = 0
    sealed: int = 0
    judged: int = 0

    def row(self) -> tuple[Any, ...]:
        return self.actor, self.source, self.position, self.digest, self.epoch, self.sealed, self.judged


class KeptEvents:
    """Events, and how far they have come.

    Attributes:
        followers: by actor.
        judged: how many events are judged.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables, self.mark = tables, tables.dialect.mark
        self.followers: dict[str, Follower] = {}
        self.judged = 0
        self._new: dict[tuple[str, int], list[Any]] = {}
        self._numbered: list[tuple[int, str, int]] = []
        self._moved: set[str] = set()  # actors of which the follower has changed
        self._stored: dict[str, set[tuple[Any, ...]]] = {}  # by table, the keys that it has
        self._faults = 0

    def follower(self, actor: str) -> Follower:
        """Returns the progress in following an actor; whoever changes it says so by `moved`."""
        return self.followers.setdefault(actor, Follower(actor))

    def moved(self, actor: str) -> None:
        """The follower of an actor is another than the table has."""
        self._moved.add(actor)

    def add(self, actor: str, event: AnyEvent, body: bytes | None = None) -> None:
        """The next event of an actor, with its bytes where they are at hand."""
        body = write(event) if body is None else body
        of = self.follower(actor)
        of.position, of.digest, of.epoch = event.position, digest(body), event.epoch
        row = [actor, event.position, of.digest, run_of(event), None, body.decode()]
        self._new[actor, event.position] = row
        self._moved.add(actor)

    def judge(self, events: Iterable[AnyEvent]) -> None:
        """Events were judged, in this order."""
        for event in events:
            self.judged += 1
            self.follower(event.actor).judged = event.position
            self._moved.add(event.actor)
            if (row := self._new.get((event.actor, event.position))) is not None:
                row[4] = self.judged
            else:
                self._numbered.append((self.judged, event.actor, event.position))

    def write(self, cursor: Cursor) -> None:
        """Writes the events that are new, and the numbers of those that were judged."""
        if self._new:
            cursor.executemany(self.tables.inserts[EVENT.name], [tuple(row) for row in self._new.values()])
        if self._numbered:
            where = f"SET judged = {self.mark} WHERE actor = {self.mark} AND position = {self.mark}"
            cursor.executemany(f"UPDATE event {where}", self._numbered)
        self._new, self._numbered = {}, []

    def write_progress(
        self,
        cursor: Cursor,
        faults: list[CutFault],
        machines: Iterable[tuple[str, str, str, str]],
        progress: dict[str, Any],
    ) -> None:
        """Writes how far it all is.

        Args:
            cursor: of the database.
            faults: all that were found so far.
            machines: actor, machine, state and run served, of the machines of actors that have changed.
            progress: what else it takes to go on, by name.
        """
        self._put(cursor, FOLLOWER, [self.followers[actor].row() for actor in sorted(self._moved)])
        self._put(cursor, ACTOR_MACHINE, list(machines))
        self._put(cursor, PROGRESS, [(word, json.dumps(value)) for word, value in progress.items()])
        new = enumerate(faults[self._faults :], self._faults + 1)
        if rows := [(number, f.actor, f.position, f.run, f.reason, f.kind) for number, f in new]:
            cursor.executemany(self.tables.inserts[FAULT.name], rows)
        self._faults, self._moved = len(faults), set()

    def _put(self, cursor: Cursor, table: Table, rows: list[tuple[Any, ...]]) -> None:
        """Writes rows, over those of the same key."""
        size, stored = len(table.key), self._stored.setdefault(table.name, set())
        if old := [row[:size] for row in rows if row[:size] in stored]:
            names = (self.tables.dialect.identifier(key) for key in table.key)
            where = " AND ".join(f"{name} = {self.mark}" for name in names)
            cursor.executemany(f"DELETE FROM {table.name} WHERE {where}", old)
        if rows:
            cursor.executemany(self.tables.inserts[table.name], rows)
            stored |= {row[:size] for row in rows}

    # Reading

    def load(self, cursor: Cursor) -> tuple[dict[str, Any], list[CutFault], dict[tuple[str, str], tuple[str, str]]]:
        """Reads what was written, followers too; returns progress by name, faults, and the machines of actors."""
        progress = {word: json.loads(value) for word, value in self._all(cursor, PROGRESS)}
        for row in self._all(cursor, FOLLOWER):
            self.followers[row[0]] = Follower(*row)
        machines = {
            (actor, machine): (state, serves) for actor, machine, state, serves in self._all(cursor, ACTOR_MACHINE)
        }
        faults = [CutFault(*row) for _, *row in sorted(self._all(cursor, FAULT))]
        self._faults = len(faults)
        return progress, faults, machines

    def _all(self, cursor: Cursor, table: Table) -> list[Any]:
        names = ", ".join(self.tables.dialect.identifier(column.name) for column in table.columns)
        rows = self._rows(cursor, f"SELECT {names} FROM {table.name}")
        self._stored[table.name] = {row[: len(table.key)] for row in rows}
        return rows

    def waiting(self, cursor: Cursor, actor: str) -> list[AnyEvent]:
        """The events of an actor that are kept, and not judged yet."""
        where = f"actor = {self.mark} AND position > {self.mark} ORDER BY position"
        rows = self._rows(cursor, f"SELECT body FROM event WHERE {where}", (actor, self.follower(actor).judged))
        return [read(body.encode()) for (body,) in rows]

    def last_judged(self, cursor: Cursor, actor: str) -> AnyEvent | None:
        """The last event of an actor that is judged."""
        where = f"actor = {self.mark} AND position = {self.mark}"
        rows = self._rows(cursor, f"SELECT body FROM event WHERE {where}", (actor, self.follower(actor).judged))
        return next((read(body.encode()) for (body,) in rows), None)

    def chains(self, cursor: Cursor) -> dict[str, list[AnyEvent]]:
        """All events that were written, by actor."""
        chains: dict[str, list[AnyEvent]] = {actor: [] for actor in self.followers}
        for actor, body in self._rows(cursor, "SELECT actor, body FROM event ORDER BY actor, position"):
            chains[actor].append(read(body.encode()))
        return chains

    def steps(self, cursor: Cursor, run: str) -> Iterator[MachineStep]:
        """The steps of a run that have had their turn, also where the run is not judged."""
        return (event.step for event in self._judged(cursor, run) if isinstance(event, StepEvent))

    def told(self, cursor: Cursor, run: str) -> Iterator[FoundEvent | ForgottenEvent]:
        """The events of a run that tell of a record that was found, or forgotten, and have had their turn."""
        return (event for event in self._judged(cursor, run) if isinstance(event, FoundEvent | ForgottenEvent))

    def _judged(self, cursor: Cursor, run: str) -> Iterator[AnyEvent]:
        """The events of a run that have had their turn, in that order."""
        where = f"run = {self.mark} AND judged IS NOT NULL ORDER BY judged"
        for (body,) in self._rows(cursor, f"SELECT body FROM event WHERE {where}", (run,)):
            yield read(body.encode())

    def _rows(self, cursor: Cursor, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        cursor.execute(query, values)
        return [tuple(row) for row in cursor.fetchall()]


class FoundViolation(NamedTuple):
    """A violation: the query that has found it, at which cut, and the run up to there."""

    query: PropertyQuery
    cut: int
    run: RunState
    cuts: list[Cut]


class VerifyCheckpoint:
    """The state of a verification in its database: runs, events, and how far it is.

    Args:
        known: the system.
        database: it is open.
        findings: asks the properties.

    Attributes:
        events, recorder: what is new of events, and of runs.
    """

    def __init__(self, known: CutsOfSystem, database: VerifyDatabase, findings: KeptFindings) -> None:
        self.known, self.database, self.cursor, self.findings = known, database, database.cursor, findings
        self.events = KeptEvents(database.tables)
        self.recorder = RunRecorder(database.tables, known.layout)
        self._steps = RunSteps(known, lambda event, run, reason: None)
        self._name = database.tables.dialect.identifier("name")

    def begin(self, actors: Iterable[str], whole: bool) -> tuple[ConsistentCuts, dict[str, int], list[FoundViolation]]:
        """Returns the cuts of some actors; of the verification that they go on from, counts and violations.

        Args:
            actors: those that are followed; those of the database are, too.
            whole: as `ConsistentCuts` has it.
        """
        if not self.database.begun:
            return ConsistentCuts(self.known, actors, self._recall, whole), {"events": 0, "cuts": 0}, []
        progress, faults, machines = self.events.load(self.cursor)
        actors = [*dict.fromkeys((*actors, *self.events.followers))]
        cuts = ConsistentCuts(self.known, actors, self._recall, whole)
        cuts.forgot = True
        self.recorder.entry = progress["entry"]
        self.recorder.begun = cuts.begun = progress["runs"]
        self.events.judged, cuts.now, cuts.told = progress["judged"], progress["now"], progress["told"]
        cuts.down, cuts.recovered = progress["down"], progress["recovered"]
        cuts.starting = {actor: (position, since) for actor, (position, since) in progress["starting"].items()}
        cuts.stopping = {*progress["stopping"], *(a for a in actors if a not in self.events.followers)}
        cuts.broken_specs = {(actor, spec) for actor, spec in progress["broken_specs"]}
        cuts.own = machines
        for fault in faults:
            cuts.merge.fault(fault)
        first = dict(self._rows("SELECT actor, MIN(position) FROM event GROUP BY actor"))
        for actor, follower in self.events.followers.items():
            waiting = self.events.waiting(self.cursor, actor)
            passed = self.events.last_judged(self.cursor, actor)
            cuts.merge.resume(actor, first.get(actor, 0), follower.position, waiting, passed)
        cuts.asleep = {n for (n,) in self._rows(f"SELECT {self._name} FROM run WHERE judged AND NOT settled")}
        before = self.findings.load(self.cursor, progress["checked"], progress["covered"])
        counts = {name: progress[name] for name in ("events", "cuts")}
        return cuts, counts, [self._found(one) for one in before]

    def write(self, cuts: ConsistentCuts) -> None:
        """Writes the events and runs that are new, in a transaction that `commit` ends."""
        self.database.begin()
        self.events.judge(cuts.judged)
        cuts.judged.clear()
        self.events.write(self.cursor)
        self.recorder.write(self.cursor, cuts.touched.values())

    def commit(
        self, cuts: ConsistentCuts, counts: Mapping[str, int], ended: Literal["", "settled", "all"] = ""
    ) -> list[FoundViolation]:
        """Writes what is new, asks the properties of it, and makes both last; returns the violations that are new.

        Runs that stand still are not kept in memory any more.

        Args:
            cuts: as they are.
            counts: of `events` and `cuts`, for who goes on.
            ended: the runs of which nothing more comes: none, those in an end that the system allows, or all.
        """
        self.write(cuts)
        if ended:
            self.recorder.end_all(self.cursor, ended)
        found = [self._found(one) for one in self.findings.ask(self.cursor)]
        keys, cuts.changed = sorted(cuts.changed), set()
        progress = {
            **counts,
            "checked": self.findings.check.checked,
            "covered": self.findings.covered,
            "entry": self.recorder.entry,
            "judged": self.events.judged,
            "runs": cuts.begun,
            "now": cuts.now,
            "told": cuts.told,
            "down": cuts.down,
            "recovered": cuts.recovered,
            "starting": cuts.starting,
            "stopping": sorted(cuts.stopping),
            "broken_specs": sorted(cuts.broken_specs),
        }
        self.events.write_progress(self.cursor, cuts.faults, [(*key, *cuts.own[key]) for key in keys], progress)
        self.database.connection.commit()
        self.database.count(counts["events"])
        for number in cuts.forget():
            self.recorder.forget(number)
        return found

    def _found(self, one: DecidedCut) -> FoundViolation:
        return FoundViolation(one.query, one.cut, *self.rebuilt(one.run, one.cut))

    def rebuilt(self, run: int | str, until: int | None = None) -> tuple[RunState, list[Cut]]:
        """A run by its number or name, from its cuts to one of this number, as far as they were written."""
        key = "run" if isinstance(run, int) else self._name
        ((number, name),) = self._rows(f"SELECT run, {self._name} FROM run WHERE {key} = {self.events.mark}", (run,))
        now = "NULL" if self.database.tables.system.clock is None else "cut.now"
        at = "" if until is None else f" AND cut.number <= {until:d}"
        rows = self._rows(
            f"SELECT {now}, cut.cause, cut.event, cut.actor, cut.position, event.body FROM cut "
            "LEFT JOIN event ON event.actor = cut.actor AND event.position = cut.position "
            f"WHERE cut.run = {number:d}{at} ORDER BY cut.number"
        )
        stored = [
            StoredCut(now, cause, of, actor, position, None if cause in WITHOUT_CONTENT else read(body.encode()))
            for now, cause, of, actor, position, body in rows
        ]
        return self._steps.rebuild(name, number, stored)

    def _recall(self, name: str) -> tuple[RunState, Sent] | None:
        """A run that is not in memory, from its cuts and the records that were found in it."""
        columns = "run, judged, settled, machines, forgotten, ended IS NOT NULL"
        rows = self._rows(f"SELECT {columns} FROM run WHERE {self._name} = {self.events.mark}", (name,))
        if not rows:
            return None
        ((number, judged, settled, machines, forgotten, ended),) = rows
        forgotten = self.recorder.recall_row(name, number, (bool(judged), bool(settled), machines, forgotten))
        if not judged:
            return RunState(name, number, [], judged=False), _sent(self.events.steps(self.cursor, name))
        run, rebuilt = self.rebuilt(name)
        for event in self.events.told(self.cursor, name):
            self._steps.tell_again(run, event)
        self.recorder.recall(number, ((cut.state, cut.replaces) for cut in rebuilt), bool(ended))
        run.over, run.forgotten = bool(settled), forgotten
        return run, _sent(cut.step for cut in rebuilt if cut.step is not None)

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        self.cursor.execute(query, values)
        return list(self.cursor.fetchall())


def run_of(event: AnyEvent) -> str:
    """The run that an event is about; empty: none."""
    match event:
        case StepEvent():
            return lease_of(event.step)
        case FoundEvent():
            return lease_of(event)
        case RefusedEvent() | ForgottenEvent():
            return "" if event.lease == BELOW else event.lease
    return ""


def _sent(steps: Iterable[MachineStep]) -> Sent:
    """The greatest numbers that were sent in a run; what was received counts as sent."""
    sent: Sent = {}
    for step in (one for outer in steps for one in outer.walk()):
        numbers = [((step.machine, to), n) for to, n in step.record.sent.items()]
        if step.received is not None:  # perhaps of the machine itself, which has sent more since
            of = step.received
            numbers.append(((of.machine, over(step.machine, of.channel)), of.number))
        for key, number in numbers:
            sent[key] = max(number, sent.get(key, 0))
    return sent
