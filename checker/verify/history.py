"""Verifies a stored history: the events of all actors of a system, and its properties on their consistent cuts.

Theory of operation. Chains are verified while they are read (impl/events); their events become cuts (cuts.py), which
fill the tables (recorder.py), of which the properties are asked as queries (incremental.py). One order of the events is
judged; each of its prefixes is a consistent cut. docs/reference/verify.md says what that can miss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leasehold.checker.explore.ground import function
from leasehold.checker.explore.result import Path
from leasehold.checker.verify.causal import CutFault
from leasehold.checker.verify.cuts import ConsistentCuts, Cut, CutsOfSystem
from leasehold.checker.verify.database import IN_MEMORY, VerifyDatabase
from leasehold.checker.verify.drawn import drawn_path
from leasehold.checker.verify.incremental import DecidedCut, IncrementalCheck
from leasehold.checker.verify.queries import Queries
from leasehold.checker.verify.recorder import RunRecorder
from leasehold.impl.events.event import AnyEvent
from leasehold.spec.language.model import Property
from leasehold.spec.language.python_source import Frame, source


@dataclass(frozen=True)
class Violation:
    """A property that does not hold in a run, at the first cut at which it shows.

    Attributes:
        property, doc, source: as the specification has them.
        run, cut: which; cuts are counted from 0.
        now: the time at the cut.
        actors: those that have taken a step in the run before, the last one first.
        events: actor and position of the events of the run up to the cut, in the order that was judged.
        path: the run up to the cut.
    """

    property: str
    doc: str
    source: str
    run: str
    cut: int
    now: int | None
    actors: tuple[str, ...]
    events: tuple[tuple[str, int], ...]
    path: Path

    def as_json(self) -> dict[str, object]:
        return {
            "property": self.property, "doc": self.doc, "source": self.source, "run": self.run, "cut": self.cut,
            "now": self.now, "actors": list(self.actors),
            "events": [{"actor": actor, "position": position} for actor, position in self.events],
        }  # fmt: skip


@dataclass
class HistoryResult:
    """What a history shows.

    Attributes:
        events, cuts, runs: how many there were.
        over: how many of the runs are over.
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

    def as_json(self) -> dict[str, object]:
        return {
            "holds": self.holds, "events": self.events, "cuts": self.cuts, "runs": self.runs, "runs_over": self.over,
            "properties": self.asked, "violations": [v.as_json() for v in self.violations],
            "faults": [
                {"actor": f.actor, "position": f.position, "run": f.run, "reason": f.reason} for f in self.faults
            ],
            "covered": self.covered, "not_asked": dict(self.not_asked),
        }  # fmt: skip


class HistoryVerification:
    """Verifies the events of some actors.

    Args:
        known: the system.
        actors: those whose events come.
        properties: those that are asked; None: all.
        url: of the database.
        complete: the history is whole: each run is over with its last event, in whatever state.

    Raises:
        DatabaseError: the database cannot be used.
    """

    def __init__(
        self, known: CutsOfSystem, actors: Iterable[str], properties: Mapping[str, Property] | None = None,
        url: str = IN_MEMORY, complete: bool = False,
    ) -> None:  # fmt: skip
        self.known, self.complete = known, complete
        self.cuts = ConsistentCuts(known, actors)
        self.database = VerifyDatabase(known.system, url)
        tables = self.database.tables
        self.queries = Queries(tables, properties)
        self.check = IncrementalCheck(self.queries.queries.values())
        self.recorder = RunRecorder(tables, known.layout)
        self.result = HistoryResult(asked=len(self.queries.queries), not_asked=self.queries.not_asked)
        self.result.covered = {q.of: 0 for q in self.queries.queries.values() if q.yields == "witnesses"}
        self._numbers: dict[str, int] = {}
        self._logs: dict[int, list[Cut]] = defaultdict(list)
        self._seen: set[tuple[str, int]] = set()
        frame = Frame(known.layout, known.system.values(), before="o")
        self._ends = [function(source(end.holds, frame)) for end in known.system.ends or ()]

    def add(self, actor: str, events: Iterable[AnyEvent]) -> None:
        """More events of an actor."""
        found = list(events)
        self.result.events += len(found)
        self.cuts.add(actor, found)

    def judge(self) -> list[Violation]:
        """Judges the cuts that are ready; returns the violations that are new."""
        self._record(self.cuts.ready())
        return self._ask()

    def end(self) -> HistoryResult:
        """Nothing more comes."""
        self.cuts.close()
        self._record(self.cuts.ready())
        self._record(self.cuts.pass_time())
        for name, number in self._numbers.items():
            state = self._logs[number][-1].state
            over = any(holds(state, (), -1) for holds in self._ends)
            if self.complete or over:
                self.recorder.end(number)
            self.result.over += over and name in self.cuts.runs
        self._ask()
        self.result.faults = self.cuts.faults
        self.result.runs = len(self._numbers)
        return self.result

    def close(self) -> None:
        self.database.close()

    def _record(self, cuts: Iterable[Cut]) -> None:
        for cut in cuts:
            self.result.cuts += 1
            if cut.action is None:
                number = self._numbers[cut.run] = self.recorder.begin(cut.run, cut.state)
            else:
                number = self._numbers[cut.run]
                if cut.action.kind == "passed":
                    self.recorder.replace(number, cut.state)
                    self._logs[number].append(cut)
                self.recorder.step(number, cut.state, cut.action)
            self._logs[number].append(cut)

    def _ask(self) -> list[Violation]:
        self.recorder.write(self.database.cursor)
        self.database.connection.commit()
        found = []
        for decided in sorted(self.check.ask(self.database.cursor), key=lambda d: (d.run, d.cut, d.query.name)):
            once = decided.query.of, decided.run
            if once in self._seen:
                continue
            self._seen.add(once)
            if decided.query.yields == "witnesses":
                self.result.covered[decided.query.of] += 1
            else:
                found.append(self._violation(decided))
        self.result.violations += found
        return found

    def _violation(self, decided: DecidedCut) -> Violation:
        log = self._logs[decided.run][: decided.cut + 1]  # it has what `replace` numbers twice
        log = [cut for at, cut in enumerate(log) if not at or cut is not log[at - 1]]
        events = dict.fromkeys((cut.actor, cut.position) for cut in log if cut.position)
        clock = self.known.layout.clock
        return Violation(
            decided.query.name, decided.query.doc, decided.query.source, log[0].run, decided.cut,
            None if clock is None else log[-1].state[clock],
            tuple(dict.fromkeys(actor for actor, _ in reversed(events))), tuple(events),
            drawn_path(self.known.layout, log),
        )  # fmt: skip
