"""Verifies a history: the events of all actors of a system, and its properties on their consistent cuts.

Theory of operation. Chains are verified while they are read (impl/events); their events become cuts (cuts.py), which
fill the tables (recorder.py), of which the properties are asked as queries (incremental.py). One order of the events is
judged; each of its prefixes is a consistent cut. docs/reference/verify.md says what that can miss.

`judge` is one transaction: the events that have come since the last time, their cuts, what these decide, and how far it
all is. So a verification that has crashed goes on from its database as if it had not. Only runs that go on are in
memory: the others, and after a crash all, are had again from their cuts when an event of theirs comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from leasehold.checker.explore.layout import Layout
from leasehold.checker.explore.result import Path
from leasehold.checker.history.fault import UNDECIDED, CutFault
from leasehold.checker.history.merge import Sent
from leasehold.checker.verify.blame import Blame
from leasehold.checker.verify.cuts import ConsistentCuts, Cut, RunState, RunSteps
from leasehold.checker.verify.database import IN_MEMORY, VerifyDatabase
from leasehold.checker.verify.drawn import drawn_path
from leasehold.checker.verify.incremental import DecidedCut, IncrementalCheck
from leasehold.checker.verify.kept import KeptEvents
from leasehold.checker.verify.own import check_found
from leasehold.checker.verify.queries import PropertyQuery
from leasehold.checker.verify.recorder import RunRecorder
from leasehold.checker.verify.schema import VIOLATION, WITNESS
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent, ForgottenEvent, MachineStep
from leasehold.spec.language.model import OF_FAIR_RUNS, Property


@dataclass(frozen=True)
class Violation:
    """A property that does not hold in a run, at the first cut at which it shows.

    Attributes:
        property: its name; where it is claimed of each value of variables, with the values.
        of: its name alone.
        doc, source, claim: as the specification has them; the claim is text in lines.
        run, cut: which; cuts are counted from 0.
        now: the time at the cut.
        actors: those that have taken a step in the run before, the last one first.
        events: actor and position of the events of the run up to the cut, in the order that was judged.
        layout, cuts: the run up to the cut.
        blame: whose fault it is, where that was asked (blame.py).
    """

    property: str
    of: str
    doc: str
    source: str
    run: str
    cut: int
    now: int | None
    actors: tuple[str, ...]
    events: tuple[tuple[str, int], ...]
    layout: Layout = field(repr=False, compare=False)
    cuts: tuple[Cut, ...] = field(repr=False, compare=False)
    blame: Blame | None = None
    claim: str = ""

    @cached_property
    def path(self) -> Path:
        """The run up to the cut, as the explorer has paths."""
        return drawn_path(self.layout, self.cuts)

    def as_json(self) -> dict[str, object]:
        return {
            "property": self.property,
            "doc": self.doc,
            "claim": self.claim,
            "source": self.source,
            "run": self.run,
            "cut": self.cut,
            "now": self.now,
            "actors": list(self.actors),
            "events": [{"actor": actor, "position": position} for actor, position in self.events],
            **({} if self.blame is None else {"blame": self.blame.as_json()}),
        }


@dataclass
class HistoryResult:
    """The result of verifying a history.

    Attributes:
        events, cuts, runs: how many there were.
        over: how many of the runs are over.
        asked: how many queries there are.
        violations: at most one for each property and run.
        faults: what is wrong with the events themselves, or could not be judged.
        covered: by `sometimes` property, how many runs show it.
        not_asked: properties that no query decides, with the reason.
    """

    events: int = 0
    cuts: int = 0
    runs: int = 0
    over: int = 0
    asked: int = 0
    violations: list[Violation] = field(default_factory=list)
    faults: list[CutFault] = field(default_factory=list)
    covered: dict[str, int] = field(default_factory=dict)
    not_asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return not self.violations and not self.faults

    @property
    def undecided(self) -> bool:
        """Nothing is contradicted, but events are missing, so that not all was judged."""
        return not self.holds and not self.violations and all(f.kind == UNDECIDED for f in self.faults)

    def as_json(self) -> dict[str, object]:
        verdict = "holds" if self.holds else "undecided" if self.undecided else "violated"
        return {
            "verdict": verdict,
            "holds": self.holds,
            "events": self.events,
            "cuts": self.cuts,
            "runs": self.runs,
            "runs_over": self.over,
            "properties": self.asked,
            "violations": [v.as_json() for v in self.violations],
            "faults": [f.as_json() for f in self.faults],
            "covered": self.covered,
            "not_asked": dict(self.not_asked),
        }


def together(results: Sequence[HistoryResult]) -> HistoryResult:
    """Returns what the stretches of a history show together; a run that goes on over a migration counts in each."""
    if len(results) == 1:
        return results[0]
    last, covered = results[-1], Counter[str]()
    for result in results:
        covered.update(result.covered)
    return HistoryResult(
        sum(r.events for r in results),
        sum(r.cuts for r in results),
        sum(r.runs for r in results),
        sum(r.over for r in results),
        last.asked,
        [v for r in results for v in r.violations],
        [fault for r in results for fault in r.faults],
        dict(covered),
        last.not_asked,
    )


@dataclass(slots=True)
class _Row:
    """The table's entry of a run that is not in memory and whose machines are being forgotten."""

    number: int
    machines: int
    forgotten: int


class HistoryVerification:
    """Verifies the events of some actors.

    Args:
        known: the system.
        actors: those whose events come; those of the database come, too.
        properties: those that are asked; None: all.
        url: of the database. One that has a verification of the same system goes on with it.
        complete: the history is whole: each run is over with its last event, in whatever state.
        more: queries of a user's own (own.py).
        database: one that is open, in place of `url`; it is not closed.
        whole: all events come before any is judged (`ConsistentCuts`).

    Attributes:
        result: what was found so far.

    Raises:
        DatabaseError: the database cannot be used.
    """

    def __init__(
        self,
        known: CutsOfSystem,
        actors: Iterable[str],
        properties: Mapping[str, Property] | None = None,
        url: str = IN_MEMORY,
        complete: bool = False,
        more: Iterable[PropertyQuery] = (),
        database: VerifyDatabase | None = None,
        whole: bool = False,
    ) -> None:
        self.known, self.complete, self.whole = known, complete, whole
        self._own_database = database is None
        self.database = database or VerifyDatabase(known.system, url)
        tables = self.database.tables
        self.cursor = self.database.cursor
        queries = self.database.queries(properties)
        own = {query.name: query for query in more}
        self._own = frozenset(own)
        self._queries = {query.name: query for query in queries.queries.values()} | own
        self.check = IncrementalCheck(self._queries.values(), dialect=tables.dialect)
        self.recorder = RunRecorder(tables, known.layout)
        self.kept = KeptEvents(tables)
        self._rebuilder = RunSteps(known, lambda event, run, reason: None)
        self.result = HistoryResult(asked=len(self._queries), not_asked=queries.not_asked)
        self.result.covered = {q.of: 0 for q in self._queries.values() if q.yields == "witnesses"}
        self._closing: dict[str, _Row] = {}
        self._written: dict[int, tuple[Any, ...]] = {}  # by run in memory, what its row of `run` has
        self._forgot = False  # whether runs are not in memory
        actors = [*actors]
        if self.database.begun:
            try:
                with self.database.told():
                    self._resume(actors)
            except BaseException:
                self.close()
                raise
        else:
            self.cuts = ConsistentCuts(known, actors, self._recall, whole)

    @property
    def asked(self) -> list[str]:
        """The properties that are asked."""
        return list(dict.fromkeys(query.of for query in self._queries.values()))

    # The public side

    def add(self, actor: str, events: Iterable[AnyEvent], bodies: Iterable[bytes] | None = None) -> None:
        """More events of an actor, in the order of its chain, with their bytes where they are at hand."""
        given = [*events]
        known = None if bodies is None else {e.position: body for e, body in zip(given, bodies, strict=True)}
        for event in self.cuts.add(actor, given):
            self.kept.add(actor, event, None if known is None else known[event.position])
        self.result.events += len(given)

    def judge(self) -> list[Violation]:
        """Judges the cuts that are ready; returns the violations that are new."""
        self._record(self.cuts.ready())
        return self._commit()

    def runs(self, actor: str, runs: bool) -> None:
        """It is known that an actor runs, or that it has stopped behind its last event, once all of its are judged."""
        if not self.cuts.merge.waiting(actor):
            self._record(self.cuts.start(actor) if runs else self.cuts.stop(actor))

    def pass_time(self) -> list[Violation]:
        """Judges the cuts that are ready, and that time has passed in all runs that go on, as far as it is known."""
        self._record(self.cuts.ready())
        self._record(self.cuts.pass_time(self.cuts.merge.known_now()))
        return self._commit()

    def fault(self, fault: CutFault) -> None:
        """Something is wrong with the events that their reader has found."""
        if fault not in self.cuts.faults:
            self.cuts.merge.fault(fault)

    def until_decided(self, violation: Violation) -> tuple[Cut, ...]:
        """The cuts that a violation follows from: those up to its own; of what should have come, up to its deadline.

        Where it has none, or is not reached, they are all cuts of the run that were written.
        """
        of = self.known.system.properties.get(violation.of)
        if of is None or of.kind not in OF_FAIR_RUNS:
            return violation.cuts
        mark, name = self.database.tables.dialect.mark, self._identifier("name")
        ((run,),) = self._rows(f"SELECT run FROM run WHERE {name} = {mark}", (violation.run,))
        _, rebuilt = self._rebuilder.rebuild(violation.run, run, self.kept.cuts(self.cursor, run))
        clock = self.known.layout.clock
        if of.within is not None and clock is not None and violation.now is not None:
            late = (at for at, cut in enumerate(rebuilt, 1) if cut.state[clock] > violation.now + of.within)
            rebuilt = rebuilt[: next(late, len(rebuilt))]
        return tuple(rebuilt)

    def end(self, but: Iterable[str] = ()) -> HistoryResult:
        """Nothing more comes, but of these actors, of whom events are missing: what comes after those is not judged."""
        self.cuts.close(but)
        self._record(self.cuts.ready())
        self._record(self.cuts.pass_time())
        self._write()
        settled = "" if self.complete else " AND settled"
        for (run,) in self._rows(f"SELECT run FROM run WHERE ended IS NULL AND judged{settled} ORDER BY run"):
            self.recorder.end(run)
        self._commit()
        self.count_over()
        return self.result

    def count_over(self) -> None:
        """Has the result say how many runs are over in an allowed end, as the database has it."""
        ((self.result.over,),) = self._rows("SELECT COUNT(*) FROM run WHERE judged AND settled")

    def close(self) -> None:
        if self._own_database:
            self.database.close()

    # Cuts

    def _record(self, cuts: Iterable[Cut | ForgottenEvent]) -> None:
        for cut in cuts:
            if isinstance(cut, ForgottenEvent):
                self._forgotten(cut)
                continue
            self.result.cuts += 1
            if cut.action is None:
                self.recorder.begin(cut.run, cut.state, cut.actor, cut.position)
                self._written[cut.number] = (True, False, 0, 0)
                continue
            if cut.replaces:
                self.recorder.replace(cut.number, cut.state)
            run = self.cuts.runs[cut.run]
            if run.ended:
                self.recorder.go_on(cut.number)
                run.ended = False
            self.recorder.step(cut.number, cut.state, cut.action, cut.actor, cut.position)

    def _forgotten(self, event: ForgottenEvent) -> None:
        """A machine of a run is forgotten; with the last one, nothing more comes of the run."""
        run = self.cuts.runs.get(event.lease)
        if run is not None:
            run.forgotten += 1
            self.cuts.touched[run.name] = run
            if run.judged and run.forgotten == len(run.own()):
                self.recorder.end(run.number)
                run.over = run.ended = True
            return
        row = self._closing.get(event.lease)
        if row is None:
            where = f"{self._identifier('name')} = {self.database.tables.dialect.mark} AND judged"
            for values in self._rows(f"SELECT run, machines, forgotten FROM run WHERE {where}", (event.lease,)):
                row = self._closing[event.lease] = _Row(*values)
        if row is not None:
            row.forgotten += 1
            if row.forgotten == row.machines:
                self.recorder.end(row.number)

    # The database

    def _commit(self) -> list[Violation]:
        """Writes what is new, asks the properties of it, and makes both last."""
        self._write()
        violations = self._ask()
        self.kept.write_progress(self.cursor, self.cuts.faults, self._changed_machines(), self._progress())
        self.database.connection.commit()
        self.database.count(self.result.events)
        self._forget()
        self.result.faults = self.cuts.faults
        self.result.runs = self.cuts.begun
        return violations

    def _write(self) -> None:
        self.database.begin()
        self.kept.judge(self.cuts.judged)
        self.cuts.judged.clear()
        self.kept.write(self.cursor)
        self.recorder.write(self.cursor)
        mark, changed = self.database.tables.dialect.mark, []
        for run in self.cuts.touched.values():
            row = run.judged, run.over, len(run.own()), run.forgotten
            written = self._written.get(run.number)
            if written != row and (run.judged or written is None or written[0]):
                self._written[run.number] = row
                changed.append((*row, run.number))
        if changed:
            assignments = ", ".join(f"{name} = {mark}" for name in ("judged", "settled", "machines", "forgotten"))
            self.cursor.executemany(f"UPDATE run SET {assignments} WHERE run = {mark}", changed)
        if self._closing:
            self.cursor.executemany(
                f"UPDATE run SET forgotten = {mark} WHERE run = {mark}",
                [(row.forgotten, row.number) for row in self._closing.values()],
            )
            self._closing.clear()

    def _forget(self) -> None:
        """Runs that stand still, or are not judged, are not kept in memory."""
        for run in self.cuts.touched.values():
            if run.over or not run.judged:
                self.cuts.forget(run)
                self.recorder.forget(run.number)
                self._written.pop(run.number, None)
                self._forgot = True
        self.cuts.touched.clear()

    def _recall(self, name: str) -> tuple[RunState, Sent] | None:
        """A run that is not in memory, from its cuts and the records that were found in it."""
        if not self._forgot:
            return None
        where = f"{self._identifier('name')} = {self.database.tables.dialect.mark}"
        columns = "run, judged, settled, machines, forgotten, ended IS NOT NULL"
        rows = self._rows(f"SELECT {columns} FROM run WHERE {where}", (name,))
        if not rows:
            return None
        ((number, judged, settled, machines, forgotten, ended),) = rows
        self._written[number] = (bool(judged), bool(settled), machines, forgotten)
        if not judged:
            return RunState(name, number, [], judged=False), _sent(self.kept.steps(self.cursor, name))
        run, rebuilt = self._rebuilder.rebuild(name, number, self.kept.cuts(self.cursor, number))
        for event in self.kept.told(self.cursor, name):
            self._rebuilder.tell_again(run, event)
        self.recorder.recall(number, ((cut.state, cut.replaces) for cut in rebuilt))
        closing = self._closing.pop(name, None)
        run.over, run.ended = bool(settled), bool(ended)
        run.forgotten = forgotten if closing is None else closing.forgotten
        return run, _sent(cut.step for cut in rebuilt if cut.step is not None)

    def _changed_machines(self) -> list[tuple[str, str, str, str]]:
        keys, self.cuts.changed = sorted(self.cuts.changed), set()
        return [(*key, *self.cuts.own[key]) for key in keys]

    def _progress(self) -> dict[str, Any]:
        cuts = self.cuts
        return {
            "checked": self.check.checked,
            "entry": self.recorder.entry,
            "judged": self.kept.judged,
            "events": self.result.events,
            "cuts": self.result.cuts,
            "runs": cuts.begun,
            "now": cuts.now,
            "told": cuts.told,
            "down": cuts.down,
            "recovered": cuts.recovered,
            "starting": cuts.starting,
            "stopping": sorted(cuts.stopping),
            "broken_specs": sorted(cuts.broken_specs),
            "covered": self.result.covered,
        }

    def _resume(self, actors: list[str]) -> None:
        """Goes on where another verification of this database was."""
        progress, faults, machines = self.kept.load(self.cursor)
        actors = [*dict.fromkeys((*actors, *self.kept.followers))]
        cuts = self.cuts = ConsistentCuts(self.known, actors, self._recall, self.whole)
        self._forgot = True
        self.check.checked, self.recorder.entry = progress["checked"], progress["entry"]
        self.recorder.begun = cuts.begun = progress["runs"]
        self.kept.judged, cuts.now, cuts.told = progress["judged"], progress["now"], progress["told"]
        cuts.down, cuts.recovered = progress["down"], progress["recovered"]
        cuts.starting = {actor: (position, since) for actor, (position, since) in progress["starting"].items()}
        cuts.stopping = {*progress["stopping"], *(a for a in actors if a not in self.kept.followers)}
        cuts.broken_specs = {(actor, spec) for actor, spec in progress["broken_specs"]}
        cuts.own = machines
        for fault in faults:
            cuts.merge.fault(fault)
        first = dict(self._rows("SELECT actor, MIN(position) FROM event GROUP BY actor"))
        for actor, follower in self.kept.followers.items():
            waiting = self.kept.waiting(self.cursor, actor)
            passed = self.kept.last_judged(self.cursor, actor)
            cuts.merge.resume(actor, first.get(actor, 0), follower.position, waiting, passed)
        name = self._identifier("name")
        cuts.asleep = {n for (n,) in self._rows(f"SELECT {name} FROM run WHERE judged AND NOT settled")}
        result = self.result
        result.events, result.cuts, result.runs = progress["events"], progress["cuts"], cuts.begun
        result.covered |= progress["covered"]
        result.faults = cuts.faults
        self._read_violations()

    # What is found

    def _ask(self) -> list[Violation]:
        decided = self.check.ask(self.cursor)
        if not decided:
            return []
        for one in decided:
            if one.query.name in self._own:
                check_found(self.cursor, one.query, one.run, one.cut)
        tables = {"violations": VIOLATION, "witnesses": WITNESS}
        known = {
            yields: self.kept.known_of(self.cursor, table.name, (d.run for d in decided if d.query.yields == yields))
            for yields, table in tables.items()
        }
        new: dict[str, list[DecidedCut]] = {"violations": [], "witnesses": []}
        for one in sorted(decided, key=lambda d: (d.run, d.cut, d.query.name)):
            if (one.run, one.query.of) not in known[one.query.yields]:
                known[one.query.yields].add((one.run, one.query.of))
                new[one.query.yields].append(one)
        for one in new["witnesses"]:
            self.result.covered[one.query.of] += 1
        violations = [self._violation(one.query, one.run, one.cut) for one in new["violations"]]
        before = {"violations": len(self.result.violations), "witnesses": sum(self.result.covered.values())}
        for yields, table in tables.items():
            if new[yields]:
                rows = [
                    (number, one.run, one.query.of, one.query.name, one.cut)
                    for number, one in enumerate(new[yields], before[yields] + 1)
                ]
                self.cursor.executemany(self.database.tables.insert(table), rows)
        self.result.violations += violations
        return violations

    def _violation(self, query: PropertyQuery, run: int, cut: int) -> Violation:
        name = self._identifier("name")
        ((of,),) = self._rows(f"SELECT {name} FROM run WHERE run = {run:d}")
        _, rebuilt = self._rebuilder.rebuild(of, run, self.kept.cuts(self.cursor, run, cut))
        events = events_of(rebuilt)
        clock = self.known.layout.clock
        return Violation(
            query.name,
            query.of,
            query.doc,
            query.source,
            of,
            cut,
            None if clock is None else rebuilt[-1].state[clock],
            tuple(dict.fromkeys(actor for actor, _ in reversed(events))),
            events,
            self.known.layout,
            tuple(rebuilt),
            claim=query.claim,
        )

    def _read_violations(self) -> None:
        name = self._identifier("name")
        for query, run, cut in self._rows(f"SELECT {name}, run, cut FROM violation ORDER BY number"):
            known = self._queries.get(query) or PropertyQuery(query, "violations", "", query)
            self.result.violations.append(self._violation(known, run, cut))

    def _identifier(self, name: str) -> str:
        return self.database.tables.dialect.identifier(name)

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        self.cursor.execute(query, values)
        return list(self.cursor.fetchall())


def events_of(cuts: Iterable[Cut]) -> tuple[tuple[str, int], ...]:
    """Actor and position of the events that cuts come from."""
    return tuple(dict.fromkeys((cut.actor, cut.position) for cut in cuts if cut.position))


def _sent(steps: Iterable[MachineStep]) -> Sent:
    """The greatest numbers that were sent in a run; what was received counts as sent."""
    sent: Sent = {}
    for step in (one for outer in steps for one in outer.walk()):
        numbers = [((step.machine, to), n) for to, n in step.record.sent.items()]
        if step.received is not None:  # perhaps of the machine itself, which has sent more since
            numbers.append(((step.received.machine, step.machine), step.received.number))
        for key, number in numbers:
            sent[key] = max(number, sent.get(key, 0))
    return sent
