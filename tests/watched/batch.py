"""Many histories of one system, verified in one database: the queries are asked once for all of them.

The cuts, the tables and the queries are those of `leasehold verify` (HistoryVerification); what it does besides, to
keep events and to go on after a crash, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.checker.history.fault import CutFault
from leasehold.checker.verify.blame import speaks_of_time
from leasehold.checker.verify.cuts import ConsistentCuts, Cut
from leasehold.checker.verify.database import VerifyDatabase
from leasehold.checker.verify.incremental import IncrementalCheck
from leasehold.checker.verify.recorder import RunRecorder
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent
from leasehold.spec.language.model import Property, System

History = Mapping[str, Iterable[AnyEvent]]


@dataclass(frozen=True)
class Alarm:
    """A violation: of which property, in which history and run, at which cut."""

    history: str
    run: str
    property: str
    cut: int

    def __str__(self) -> str:
        return f"{self.property} in {self.run}, cut {self.cut}"


class BatchVerification:
    """Verifies histories that have nothing to do with each other; each has an order and a time of its own.

    Args:
        known: the system of all of them.
        properties: those that are asked; None: all.

    Attributes:
        faults: what is wrong with the events, by history.
        runs, cuts, events: how many there were.
    """

    def __init__(self, known: CutsOfSystem, properties: Mapping[str, Property] | None = None) -> None:
        self.known = known
        self.database = VerifyDatabase(known.system)
        self.check = IncrementalCheck(self.database.queries(properties).queries.values())
        self.recorder = RunRecorder(self.database.tables, known.layout)
        self.faults: dict[str, list[CutFault]] = {}
        self.runs = self.cuts = self.events = 0
        self._names: dict[int, tuple[str, str]] = {}

    def history(self, name: str, history: History, complete: bool = False) -> None:
        """One more history; `complete`: each of its runs is over with its last event, in whatever state."""
        made = ConsistentCuts(self.known, history, whole=True)
        made.begun = self.runs
        for actor, events in history.items():
            self.events += len(made.add(actor, events))
        for cut in made.end():
            if isinstance(cut, Cut):
                self._record(name, cut)
        for run in made.runs.values():
            if run.judged and (complete or run.over):
                self.recorder.end(run.number)
        self.runs = made.begun
        self.faults[name] = made.faults

    def _record(self, history: str, cut: Cut) -> None:
        self.cuts += 1
        if cut.action is None:
            self._names[cut.number] = history, cut.run
            number = self.recorder.begin(f"{cut.run} in {history}", cut.state)
            assert number == cut.number
            return
        if cut.replaces:
            self.recorder.replace(cut.number, cut.state)
        self.recorder.step(cut.number, cut.state, cut.action)

    def asked(self) -> list[Alarm]:
        """The violations of what has come since it was asked last: the first cut of each property and run."""
        self.recorder.write(self.database.cursor)
        self.database.connection.commit()
        first: dict[tuple[int, str], int] = {}
        for one in self.check.ask(self.database.cursor):
            if one.query.yields == "violations":
                key = one.run, one.query.of
                first[key] = min(one.cut, first.get(key, one.cut))
        return [Alarm(*self._names[run], name, cut) for (run, name), cut in sorted(first.items())]

    def close(self) -> None:
        self.database.close()


def timeless(system: System) -> Mapping[str, Property]:
    """The properties that do not speak of time: where clocks differ, the others may be violated by that alone."""
    return {name: p for name, p in system.properties.items() if not speaks_of_time(p)}
