"""Crashes of a system: every case, the worst convergence after it, and the weakest faults that break a property.

Theory of operation (paper, section 5.1). The paper's recovery checker took a list of states, crashed an actor in each
at a chosen point, and restarted it in two modes: while the term of the lease lasts, and after its end. Here the
explored graph is the list. A *case* is a cell of the product, a crash point and a mode: the control states of the
product when the actor stops, where in its work it stops, and which of the system's `modes` hold when it restarts.
Between the two the others go on. For each case the worst convergence is computed: from the restart on, the most steps
and the most messages until the system is in a legal state, which is one that is reachable without faults; or that a
fair run never reaches one. Where an actor halts, lies or has another time, convergence is not computed, but the cases
are the same.

A crash between two steps is the point `#before-commit` of every machine of the actor; a crash again before recovery has
done anything changes nothing, and is the point `#recovering`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leasehold.checker.crash.cases import ANY, AT_ONCE, Case, CaseFinder, WorstCase, or_worse, product_of
from leasehold.checker.crash.convergence import Convergence, convergence
from leasehold.checker.crash.legality import StateDifference, nearest_legal
from leasehold.checker.explore import Engine, Exploration, Limits, Progress, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.properties import only_these
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import AT_VIOLATION, Path, PropertyResult
from leasehold.checker.host.deadline import LEAST_GRACE, OutOfTime, alarm_at, grace
from leasehold.faults.model import Budget, CrashPoint, crash_points
from leasehold.faults.model.budget import deepening
from leasehold.faults.model.lowering import lower_with_faults
from leasehold.spec.language.diagnostics import listed
from leasehold.spec.language.lower import ModelActor
from leasehold.spec.language.model import System

Watch = Callable[[Progress], None] | None
Of = Callable[[System, Budget | None], Reference]

SHARE = 0.25  # of the time left, for the largest of several budgets before those between


@dataclass(frozen=True, slots=True)
class CellVerdict:
    """The verdict on one cell of the product.

    Attributes:
        control: the control state of each machine of the product.
        legal: some state of it is reachable without faults; of who may do anything, the state does not count.
        points: the crash points that were tried in it.
        cases: by mode, how many cases.
        worst: over its cases.
    """

    control: tuple[str, ...]
    legal: bool
    points: tuple[str, ...]
    cases: Mapping[str, int]
    worst: WorstCase


@dataclass(frozen=True)
class CrashReport:
    """Everything that exploring a system under a budget of faults has shown.

    Attributes:
        budget: the faults.
        legal: the exploration without faults.
        faulty: the one with them.
        convergence: None where it was not asked: an actor halts for good, may do anything or has another time, or the
            search was cut short.
        points: all crash points of the specification.
        tried: the names of those that were explored, and `point@group` for crashes of several actors.
        modes: the modes' names.
        cases: the worst convergence of each case; none where the search was cut short.
        cells: the same by cell.
        weakest: for each property that faults break, the weakest budget that does; without those of which the search
            for it was cut short.
        under_weakest: what is then found of it.
        seconds: all of it.
    """

    system: System
    budget: Budget
    legal: Exploration
    faulty: Exploration
    convergence: Convergence | None
    points: tuple[CrashPoint, ...]
    tried: frozenset[str]
    modes: tuple[str, ...]
    cases: Mapping[Case, WorstCase]
    cells: tuple[CellVerdict, ...]
    weakest: Mapping[str, Budget]
    under_weakest: Mapping[str, PropertyResult]
    seconds: float
    finder: CaseFinder | None = field(default=None, repr=False, compare=False)

    @property
    def complete(self) -> bool:
        return self.legal.complete and self.faulty.complete

    @property
    def broken(self) -> tuple[str, ...]:
        """The properties that hold without faults and do not with them."""
        fine = {p.name for p in self.legal.properties if p.verdict != "violated"}
        return tuple(p.name for p in self.faulty.properties if p.verdict == "violated" and p.name in fine)

    @property
    def holds(self) -> bool:
        return not self.broken and (self.convergence is None or self.convergence.converges is not False)

    @property
    def open(self) -> bool:
        """Returns whether something is not decided: a search was cut short, or it is not known whether runs return."""
        return not self.complete or (self.convergence is not None and self.convergence.converges is None)

    @property
    def traitor(self) -> ModelActor | None:
        """The actor that may do anything."""
        return _traitor(self.faulty)

    @property
    def unmet(self) -> tuple[str, ...] | None:
        """The crash points at which nothing stopped, though actors crash; None: not known, the search was cut short."""
        if not self.complete:
            return None
        if not (self.budget.crash or self.budget.power_cut):
            return ()
        met = {name.partition("@")[0] for name in self.tried}
        honest = {
            role
            for actor in self.faulty.paths.world.layout.actors
            for role, _ in actor.machines
            if actor is not self.traitor
        }
        return tuple(p.name for p in self.points if p.name not in met and p.role in honest)

    def differences(self, case: Case | None) -> tuple[StateDifference, ...]:
        """Returns what differs from the nearest legal state where a run does not return; nothing where all do.

        Args:
            case: whose run it is; None: the one that convergence found.
        """
        states = self._endless(case)
        return nearest_legal(states, self.faulty.paths, self.legal.paths) if states else ()

    def end_of_time(self, case: Case | None) -> str:
        """Returns the words for a timer that such a run would need, and that is due after the horizon; or nothing."""
        states = self._endless(case)
        return self.faulty.paths.world.end_of_time(states[0]) if states else ""

    def _endless(self, case: Case | None) -> list[State]:
        numbers: tuple[int, ...] = ()
        if case is None:
            numbers = self.convergence.endless if self.convergence is not None else ()
        elif self.finder is not None and self.cases[case].returns is False:
            numbers = self.finder.endless(case)
        return [self.faulty.paths.states[n] for n in numbers]

    def path(self, case: Case) -> Path:
        """A shortest path into a case from which its worst way back is left, the restart, and that way.

        Where a fair run never comes back, it is shown instead.
        """
        assert self.finder is not None
        return self.finder.path(case)


def crash(
    system: System,
    budget: Budget,
    progress: Watch = None,
    limits: Limits | None = None,
    legal: Exploration | None = None,
    reference: Of = reference_of,
    engine: Engine = "auto",
) -> CrashReport:
    """Explores a system without faults, unless that exploration is given, and with them, and decides what follows.

    What a step is under faults is asked of `reference`; what is legal, of the system itself. Where a violation ends
    the search (`limits.stop_at_violation`), it is one of a property that holds without faults.

    Raises:
        KeyboardInterrupt: there was one before anything with faults was explored.
    """
    started = time.perf_counter()
    limits = limits or Limits()
    end = None if limits.seconds is None else started + limits.seconds

    def rest() -> Limits:
        left = None if end is None else max(0.0, end - time.perf_counter())
        return replace(limits, seconds=left)

    legal = legal or explore(system, replace(limits, stop_at_violation=False), progress, engine=engine)
    if legal.interrupted:
        broken = [p.name for p in legal.properties if p.verdict == "violated"]
        found = f"{listed(broken)} violated" if broken else "nothing violated"
        raise KeyboardInterrupt(f"{legal.distinct:,} states without faults, {found} so far; the same begins anew")
    fails = (p.name for p in legal.properties if p.verdict == "violated")
    within = replace(rest(), expected=limits.expected.union(fails))
    faulty = explore(system, within, progress, budget=budget, reference=reference, engine=engine)
    modes = tuple(system.faults.modes) or (ANY,)
    points = crash_points(system)
    after, finder, cases = None, None, {}
    late = None if end is None else max(end + grace(limits.seconds or 0.0), time.perf_counter() + LEAST_GRACE)
    try:
        with alarm_at(late):
            asked = legal.complete and faulty.complete and budget.passes
            after = convergence(legal, faulty, throughout=True) if asked else None
            ways = None if after is None else after.ways
            crashes = faulty.complete and faulty.graph is not None and bool(budget.crash or budget.power_cut)
            finder = CaseFinder(faulty, ways, points) if crashes else None
            cases = finder.cases() if finder is not None else {}
    except OutOfTime:
        why = f"stopped after {limits.seconds:,.0f} s, before it was decided whether it returns"
        faulty, finder = replace(faulty, complete=False, why_incomplete=why), None
    report = CrashReport(
        system,
        budget,
        legal,
        faulty,
        after,
        points,
        frozenset(point for _, point, _ in cases),
        modes,
        cases,
        tuple(_cells(legal, faulty, cases, modes)),
        {},
        {},
        0.0,
        finder,
    )
    weakest: list[tuple[PropertyResult, Budget]] = []
    if faulty.complete or faulty.why_incomplete == AT_VIOLATION:
        weakest = list(_weakest(system, budget, report.broken, progress, faulty, reference, engine, rest))
    return replace(
        report,
        weakest={p.name: b for p, b in weakest},
        under_weakest={p.name: p for p, _ in weakest},
        seconds=time.perf_counter() - started,
    )


def _traitor(faulty: Exploration) -> ModelActor | None:
    world = faulty.paths.world
    return world.layout.traitor if world.faulty else None


def _cells(
    legal: Exploration, faulty: Exploration, cases: Mapping[Case, WorstCase], modes: tuple[str, ...]
) -> Iterator[CellVerdict]:
    traitor = _traitor(faulty)
    liars = () if traitor is None else traitor.machines  # they stand still, whatever they say
    telling = [i for i, machine in enumerate(product_of(faulty.system)) if machine not in liars]
    fine = {tuple(c.control[i] for i in telling) for c in legal.cells}
    by_cell: dict[tuple[str, ...], list[tuple[str, str, WorstCase]]] = {}
    for (control, point, mode), worst in cases.items():
        by_cell.setdefault(control, []).append((point, mode, worst))
    for cell in faulty.cells:
        mine = by_cell.get(cell.control, [])
        total = AT_ONCE
        for _, _, worst in mine:
            total = or_worse(total, worst)
        counts = {mode: sum(1 for _, m, _ in mine if m == mode) for mode in modes}
        known = tuple(cell.control[i] for i in telling) in fine
        yield CellVerdict(cell.control, known, tuple(sorted({p for p, _, _ in mine})), counts, total)


def _weakest(
    system: System,
    budget: Budget,
    broken: tuple[str, ...],
    progress: Watch,
    whole: Exploration,
    reference: Of,
    engine: Engine,
    rest: Callable[[], Limits],
) -> Iterator[tuple[PropertyResult, Budget]]:
    """Yields for each broken property the first budget, from the weakest on, under which it fails, and how."""
    left = set(broken)
    for less in budget.weaker() if left else ():
        complete = False
        while left and not complete:
            exploration = explore(
                only_these(system, left), rest(), progress, budget=less, reference=reference, engine=engine
            )
            complete = exploration.complete
            if not complete and exploration.why_incomplete != AT_VIOLATION:
                return
            failed = [p for p in exploration.properties if p.verdict == "violated" and p.name in left]
            yield from ((p, less) for p in failed)
            left -= {p.name for p in failed}
        if not left:
            return
    yield from ((p, budget) for p in whole.properties if p.name in left)


def follow(system: System, budgets: Sequence[Budget]) -> list[Budget]:
    """Returns which of ever larger budgets, but the first, need not be explored where nothing breaks under the last.

    Every run under a smaller budget is one under the last. It is fair there too if both have the same steps that are no
    faults, as then the same is possible in its states: only retries come with a kind of fault.
    """
    if len(budgets) < 3:
        return []
    retries = [lower_with_faults(system, budget).retries for budget in budgets]
    return [b for b, same in zip(budgets[1:-1], retries[1:-1], strict=True) if same == retries[-1]]


def deepen(
    system: System,
    seconds: float | None,
    watch: Callable[[Budget], Watch] | None = None,
    engine: Engine = "auto",
    memory: int | None = None,
    budgets: Sequence[Budget] = (),
    stop_at_violation: bool = False,
) -> Iterator[CrashReport]:
    """A report for each budget, until the time is over.

    Before a budget of which all may follow from the last one, the last is tried: with `SHARE` of the time left, where
    that has an end. If nothing breaks under it, those that follow are left out; if something does, or the time was not
    enough, they come in their order.

    Args:
        system: what is explored.
        seconds: a finite time for all of it, or None; the searches end with it, and what is decided on a graph that
            was finished in time is still decided. The last search may have been cut off, which its report says.
        watch: returns who is told of the progress of the search under a budget.
        engine: of each search.
        memory: of each search, in bytes.
        budgets: what is explored, each within the next; none: ever larger ones, until something breaks.
        stop_at_violation: the first property that breaks ends a search, and its report is the last.
    """
    if seconds is not None and not math.isfinite(seconds):
        raise ValueError(f"the time must be finite, not {seconds}")
    started = time.perf_counter()
    legal: Exploration | None = None
    may_follow, whole = follow(system, budgets), True  # whether nothing has broken
    tried: bool | None = None  # whether the last was decided before its turn

    def explored(budget: Budget, share: float = 1) -> CrashReport | None:
        """None: the time is over, and something was explored."""
        left = None if seconds is None else seconds - (time.perf_counter() - started)
        if left is not None and left <= 0 and legal is not None:
            return None
        within = None if left is None else left * share
        limits = Limits(seconds=within, memory=memory, stop_at_violation=stop_at_violation, finish_level=True)
        return crash(system, budget, watch(budget) if watch else None, limits, legal, engine=engine)

    for budget in budgets or deepening():
        if tried and (whole or budget == budgets[-1]) and budget in (*may_follow, budgets[-1]):
            continue
        if tried is None and whole and budget in may_follow:
            report = explored(budgets[-1], SHARE)
            tried = report is not None and report.complete
            if report is not None and (tried or report.faulty.interrupted):
                yield report
                if report.faulty.interrupted:
                    return
                whole = report.holds and not report.open
            del report  # its graph need not stay beside the next one
            if tried and whole:
                continue
        report = explored(budget)
        if report is None:
            return
        yield report
        if not report.complete or (not budgets and not report.holds):
            return
        legal, whole = report.legal, whole and report.holds and not report.open
        del report
