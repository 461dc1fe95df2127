"""Verifies a history: the events of all actors of a system, and its properties on their consistent cuts.

Theory of operation. Chains are verified while they are read (follow.py); what is read goes one way through the others:

    merge      events, in one order that keeps causality (checker/history/merge.py)
    cut        the global states of each run, step by step (cuts.py; the records of machines: checker/history/fold.py)
    rows       what each state has, and the one before has not (recorder.py)
    ask        the properties, as queries of what is new (incremental.py)
    result     a violation with the run that led there (result.py), and whose fault it is (blame.py)

One order of the events is judged; each of its prefixes is a consistent cut. docs/reference/verify.md says what that can
miss.

`judge` is one transaction: the events that have come since the last time, their cuts, what these decide, and how far it
all is (kept.py). So a verification that has crashed goes on from its database as if it had not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from leasehold.checker.history.fault import CutFault
from leasehold.checker.verify.blame import Blame, Blaming
from leasehold.checker.verify.cuts import Cut
from leasehold.checker.verify.database import IN_MEMORY, VerifyDatabase
from leasehold.checker.verify.incremental import IncrementalCheck, KeptFindings
from leasehold.checker.verify.kept import FoundViolation, VerifyCheckpoint
from leasehold.checker.verify.queries import PropertyQuery
from leasehold.checker.verify.result import HistoryResult, Violation, events_of
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent, ForgottenEvent
from leasehold.spec.language.model import OF_FAIR_RUNS, Property

MOST_BLAMED = 100_000  # events, all of which are judged once more where one is violated


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
        self.cursor = self.database.cursor
        queries = self.database.queries(properties)
        own = {query.name: query for query in more}
        asked = {query.name: query for query in queries.queries.values()} | own
        check = IncrementalCheck(asked.values(), dialect=self.database.tables.dialect)
        self.asked = list(dict.fromkeys(query.of for query in asked.values()))
        findings = KeptFindings(check, self.database.tables, own)
        self.checkpoint = VerifyCheckpoint(known, self.database, findings)
        self.kept, self.recorder = self.checkpoint.events, self.checkpoint.recorder
        try:
            with self.database.told():
                self.cuts, counts, before = self.checkpoint.begin([*actors], whole)
        except BaseException:
            self.close()
            raise
        self.result = HistoryResult(
            **counts,
            runs=self.cuts.begun,
            asked=len(asked),
            violations=[self._violation(one) for one in before],
            faults=self.cuts.faults,
            covered=findings.covered,
            not_asked=queries.not_asked,
        )
        self._blamed = len(self.result.violations)

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

    def end(self, but: Iterable[str] = (), now: int = 0) -> HistoryResult:
        """Nothing more comes.

        Args:
            but: actors of whom events are missing: what comes after those is not judged.
            now: the tick until which nothing more has come, where it is known.
        """
        self._record(self.cuts.end(but))
        if now:
            self._record(self.cuts.pass_time(now))
        self._commit("all" if self.complete else "settled")
        self.count_over()
        return self.result

    def count_over(self) -> None:
        """Has the result say how many runs are over in an allowed end, as the database has it."""
        self.cursor.execute("SELECT COUNT(*) FROM run WHERE judged AND settled")
        ((self.result.over,),) = self.cursor.fetchall()

    def close(self) -> None:
        if self._own_database:
            self.database.close()

    def _record(self, cuts: Iterable[Cut | ForgottenEvent]) -> None:
        self.result.cuts += self.recorder.record(self.cursor, cuts, self.cuts.runs)

    def _commit(self, ended: Literal["", "settled", "all"] = "") -> list[Violation]:
        found = self.checkpoint.commit(self.cuts, {"events": self.result.events, "cuts": self.result.cuts}, ended)
        violations = [self._violation(one) for one in found]
        self.result.violations += violations
        self.result.runs = self.cuts.begun
        return violations

    def _violation(self, found: FoundViolation) -> Violation:
        query, events, clock = found.query, events_of(found.cuts), self.known.layout.clock
        return Violation(
            query.name,
            query.of,
            query.doc,
            query.source,
            found.run.name,
            found.cut,
            None if clock is None else found.cuts[-1].state[clock],
            tuple(dict.fromkeys(actor for actor, _ in reversed(events))),
            events,
            self.known.layout,
            tuple(found.cuts),
            claim=query.claim,
        )

    # Whose fault it is

    def blame(self) -> list[Violation]:
        """Returns the violations since the last time; the result says then whose fault each of all is (blame.py)."""
        result, known = self.result, self._blamed
        blames: Iterable[Blame]
        self._blamed = len(result.violations)
        if known == self._blamed:
            return []
        if result.events > MOST_BLAMED:
            reason = f"there are more than {MOST_BLAMED:,} events to be judged; `leasehold conform` judges them"
            blames = (v.blame or Blame("unknown", reason) for v in result.violations)
        else:
            blaming = Blaming(self.known, self.kept.chains(self.cursor), result.faults)
            decided = ((v, () if v.blame else self.until_decided(v)) for v in result.violations)
            blames = (v.blame or blaming.blame(v.of, v.run, events_of(c), c[-1].state) for v, c in decided)
        result.violations = [replace(v, blame=blame) for v, blame in zip(result.violations, blames, strict=False)]
        return result.violations[known:]

    def until_decided(self, violation: Violation) -> tuple[Cut, ...]:
        """The cuts that a violation follows from: those up to its own; of what should have come, up to its deadline.

        Where it has none, or is not reached, they are all cuts of the run that were written.
        """
        of = self.known.system.properties.get(violation.of)
        if of is None or of.kind not in OF_FAIR_RUNS:
            return violation.cuts
        _, rebuilt = self.checkpoint.rebuilt(violation.run)
        clock = self.known.layout.clock
        if of.within is not None and clock is not None and violation.now is not None:
            late = (at for at, cut in enumerate(rebuilt, 1) if cut.state[clock] > violation.now + of.within)
            rebuilt = rebuilt[: next(late, len(rebuilt))]
        return tuple(rebuilt)
