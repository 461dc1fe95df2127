"""Deciding claims about fair runs (weakly and strongly fair), and `always_possible`, on the finished graph.

Theory of operation. `when` leads to the claim unless some fair run visits a state where `when` holds and never again
one where the claim does. Such a run stays, from that state on, among the states without the claim; being endless in a
finite graph it settles in a strongly connected component of them (or stutters for ever in one state). fairness.py
defines fairness, scc.py finds the components in which a fair run can stay, and unfair.py says whether more fairness of
the environment would make a violated property hold.

So a claim about fair runs fails where a run visits a *start*, goes on through states of its *way*, and settles in a
component that is fair among some states, in which it visits certain states again and again (`FailingRuns`):

    claim               start                    way       settles among   visits again and again
    leads_to            `when`, not the claim    no claim  no claim        -
    always_eventually   `when`                   any       no claim        -
    eventually_always   `when`                   any       any             no claim

`always_possible` asks less: that some run leads to the claim. Its counterexample is a shortest path to a state from
which none does.

`within: n` needs no fairness: no run may tick the clock more than n times between `when` and the claim. The ticks are
those of `now`, whichever clocks of actors stand still meanwhile; what holds only after tick n + 1 comes too late.

A step out of the bounds of the search may be taken, and nothing is known of the run after it. A counterexample is fair
to such steps too, so that it is a run of the system. Where a claim fails only as if they were impossible, it is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from leasehold.checker.explore.graph.arrays import leading_to, reached_by
from leasehold.checker.explore.graph.cycles import fair_cycle
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.fairness import Demands, Fairness, demands
from leasehold.checker.explore.graph.scc import fair_components
from leasehold.checker.explore.graph.shortest import MOST_LABELS, CycleEntry, Cycles, FairRun, shortest_of
from leasehold.checker.explore.graph.unfair import Cycle, why_unfair
from leasehold.checker.explore.labels import Left, dominates
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.properties import WatchedClaim
from leasehold.checker.explore.resources import side_by_side
from leasehold.checker.explore.result import PropertyResult, of_all_bindings, verdict_on
from leasehold.spec.language.expression import TRUE
from leasehold.spec.language.model import Property

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Marks = NDArray[np.bool_]  # by state

OUT_OF_BOUNDS = "some runs leave the bounds of the search, and what they come to there is not known"


def decide(
    claims: Sequence[WatchedClaim],
    graph: Graph,
    paths: Paths,
    complete: bool,
    why: str,
    fairness: Fairness = Fairness.SPEC,
    enter: Callable[..., None] = lambda phase, *violated: None,
) -> list[PropertyResult]:
    """The verdict on every claim of a finished graph that is about runs.

    `enter` is told what is decided now, and the name of what was seen to be violated, before its run is shortened.
    """
    asked = demands(paths.world.system, graph.names, fairness)
    of_runs = [c for c in claims if c.of.kind != "always_possible"]
    failures = [_failure(c.of, paths) for c in of_runs]
    inner = graph.within_bounds() if len(graph.leaving) else None
    if complete and of_runs:
        graph.prepare(asked)

    def may_fail(n: int) -> bool:
        enter(f"deciding properties of runs, {n + 1} of {len(of_runs)}")
        within = of_runs[n].of.within
        if within is not None and _ticks_more(within, failures[n], graph)[0]:
            return True
        return complete and reachable_fair_components(failures[n], graph, asked) is not None

    def only_cut_off(n: int) -> bool:
        within = of_runs[n].of.within
        if complete and within is not None and _ticks_more(within, failures[n], graph)[1]:
            return True
        return complete and inner is not None and reachable_fair_components(failures[n], inner, asked) is not None

    failing = side_by_side(may_fail, range(len(of_runs)))
    verdicts = []
    for n, claim in enumerate(of_runs):
        if failing[n]:
            enter(f"shortening the run that breaks {claim.of.name}", *([claim.of.name] if complete else []))
        verdict = _decide(claim, failures[n], graph, paths, asked, complete, why, fairness) if failing[n] else None
        if verdict is None or verdict.verdict != "violated":
            open_ = only_cut_off(n)
            verdict = _holds(claim.of, complete and not open_, OUT_OF_BOUNDS if open_ else why, fairness)
        verdicts.append(verdict)
    graph.forget()
    verdicts += [_decide_possible(c, graph, paths, complete, why) for c in claims if c.of.kind == "always_possible"]
    return of_all_bindings(verdicts)


@dataclass(frozen=True, slots=True, eq=False)
class FailingRuns:
    """The runs that break a claim, if they are fair.

    Attributes:
        starts: states of which the run visits one.
        way: those that it goes through after that; None: any.
        among: those among which it stays in the end.
        again: those of which it visits some again and again; None: any.
        throughout: every run begins at a start.
    """

    starts: Marks
    way: Marks | None
    among: Marks
    again: Marks | None = None
    throughout: bool = False


def staying(starts: Marks, among: Marks) -> FailingRuns:
    """Runs that never leave some states again once they have come to a start, which is one of them."""
    return FailingRuns(starts, among, among)


def _failure(p: Property, paths: Paths) -> FailingRuns:
    missing = ~paths.where(p.claim)
    if p.kind == "leads_to":
        return staying(missing & paths.where(p.when or TRUE), missing)
    starts = _initial(missing, paths) if p.when is None else paths.where(p.when)
    if p.kind == "always_eventually":
        return FailingRuns(starts, None, missing, throughout=p.when is None)
    return FailingRuns(starts, None, np.ones_like(missing), missing, p.when is None)


def _initial(like: Marks, paths: Paths) -> Marks:
    """The initial states, which are numbered first."""
    initial, labels = np.zeros_like(like), paths.labels
    for n in range(len(initial)):
        if labels.depths[labels.of[n][0]]:
            break
        initial[n] = True
    return initial


def _decide(
    claim: WatchedClaim,
    failure: FailingRuns,
    graph: Graph,
    paths: Paths,
    asked: Demands,
    complete: bool,
    why: str,
    fairness: Fairness,
) -> PropertyResult:
    p = claim.of
    numbers, begin, reason = None, None, ""
    if p.within is not None:
        numbers = _too_late(p.within, failure, graph, paths)
        reason = f"the clock ticks more than {p.within} times"
    run = fair_run(failure, graph, paths, asked) if complete else None
    if run is not None and (numbers is None or len(run.states) < len(numbers)):

        def holds(asked: Demands) -> bool:
            return reachable_fair_components(failure, graph, asked) is None

        def fails(asked: Demands) -> Cycle | None:
            """The states of a counterexample's cycle that is fair to these, if there is one."""
            counterexample = fair_run(failure, graph, paths, asked, shortest=False)
            return None if counterexample is None else counterexample.cycle

        numbers, begin = run.states, run.begin
        reason = why_unfair(paths.world.system, graph, fairness, p.kind, run.cycle, holds, fails)
        reason += "" if run.shortest else "; there may be a shorter run"
        reason += paths.world.end_of_time(paths.states[run.states[run.begin]])
    if numbers is not None:
        path = paths.along(numbers, begin, *graph.fair_names(asked))
        return verdict_on(p, "violated", path, reason)
    return _holds(p, complete, why, fairness)


def _holds(p: Property, complete: bool, why: str, fairness: Fairness) -> PropertyResult:
    if complete:
        return verdict_on(p, "exhausted", None, "" if fairness is Fairness.SPEC else fairness.words)
    return verdict_on(p, "bounded", None, why)


def _decide_possible(claim: WatchedClaim, graph: Graph, paths: Paths, complete: bool, why: str) -> PropertyResult:
    p = claim.of
    if not complete:
        return verdict_on(p, "bounded", None, why)
    without = ~graph.column("fault")  # also of those that a channel declares: nobody may count on them

    def leading(ends: Marks) -> Marks:
        return leading_to(ends, graph.first, graph.targets, without)

    able = leading(paths.where(claim.of.claim))
    asked = paths.where(claim.of.when or TRUE)
    out = np.zeros_like(able)
    faults = np.array([row.fault for row in graph.kinds], dtype=bool)
    out[graph.leaving[~faults[graph.leaving_rows]]] = True
    unable = (~leading(able | out) & asked).nonzero()[0]
    if len(unable):  # states are numbered breadth first, so that the first is a nearest one
        path = paths.to(int(unable[0]))
        return verdict_on(p, "violated", path, "from here it never can")
    return verdict_on(p, "exhausted") if able[asked].all() else verdict_on(p, "bounded", None, OUT_OF_BOUNDS)


@dataclass(frozen=True, slots=True, eq=False)
class _StateOnRun:
    """A state on a run that began at a label; `ticks` since then, and `depth` steps from an initial state."""

    state: int
    left: Left
    ticks: int
    label: int
    depth: int
    before: _StateOnRun | None = None

    def run(self, paths: Paths) -> list[int]:
        """The states of the run, from an initial one on."""
        states: list[int] = []
        at: _StateOnRun | None = self
        while at is not None:
            states.append(at.state)
            at = at.before
        return [*paths.labels.chain(self.label)[:-1], *states[::-1]]


def _runs(failure: FailingRuns, graph: Graph, paths: Paths, within: int | None = None) -> Iterator[_StateOnRun]:
    """Yields where runs from the starts come to on their way, with as many faults as are left; nearest first.

    Given `within`, ticks are counted, and the one after so many may lead off the way.
    """
    labels = paths.labels
    came: dict[tuple[int, int], list[Left]] = {}
    waiting: dict[int, list[_StateOnRun]] = {}
    for n in failure.starts.nonzero()[0].tolist():
        for label in labels.of[n]:
            waiting.setdefault(labels.depths[label], []).append(
                _StateOnRun(n, labels.lefts[label], 0, label, labels.depths[label])
            )
    while waiting:
        depth = min(waiting)
        for stop in waiting.pop(depth):
            known = came.setdefault((stop.state, stop.ticks), [])
            if any(dominates(other, stop.left) for other in known):
                continue
            known.append(stop.left)
            yield stop
            for e in graph.out(stop.state):
                target, row = int(graph.targets[e]), graph.row_of(e)
                ticks = 0 if within is None else stop.ticks + row.clock
                if failure.way is None or failure.way[target] or (within is not None and ticks > within):
                    left = faults_left(stop.left, row.cost) if row.cost else stop.left
                    if left is not None:
                        on = _StateOnRun(target, left, ticks, stop.label, depth + 1, stop)
                        waiting.setdefault(depth + 1, []).append(on)


def _too_late(within: int, failure: FailingRuns, graph: Graph, paths: Paths) -> list[int] | None:
    """A shortest run from a start that ticks more than `within` times without the claim."""
    if not _ticks_more(within, failure, graph)[0]:
        return None
    for stop in _runs(failure, graph, paths, within):
        if stop.ticks > within:
            return stop.run(paths)
    return None


def _ticks_more(within: int, failure: FailingRuns, graph: Graph) -> tuple[bool, bool]:
    """Returns whether steps from a start tick more than `within` times without the claim, whatever they cost in faults.

    Returns:
        Whether they do within the bounds of the search, and whether the last of these ticks leads out of them.
    """
    starts, missing = failure.starts, failure.among
    if not starts.any():
        return False, False
    inside = graph.beginning(missing) & missing[graph.targets]
    clock = graph.column("clock")
    ticking, still = clock & inside, ~clock & inside
    now = reached_by(starts, graph.first, graph.targets, still)
    for _ in range(within):
        later = graph.targets[ticking & graph.beginning(now)]
        now = np.zeros_like(now)
        now[later] = True
        now = reached_by(now, graph.first, graph.targets, still)
    ticks = np.array([row.clock for row in graph.kinds], dtype=bool)
    out = bool((now[graph.leaving] & ticks[graph.leaving_rows]).any())
    return bool((clock & graph.beginning(now)).any()), out


def fair_run(failure: FailingRuns, graph: Graph, paths: Paths, asked: Demands, shortest: bool = True) -> FairRun | None:
    """A fair run that breaks a claim; None where there is none.

    It is a shortest one, or only one with a nearest entry.
    """
    component_of = reachable_fair_components(failure, graph, asked)
    if component_of is None:
        return None
    starts, again = failure.starts, failure.again
    cycles = Cycles(component_of, starts, graph, asked, again)
    after: dict[int, int] = {}  # by state, how far it is through a start

    def started() -> Iterator[CycleEntry]:
        for stop in _runs(failure, graph, paths):
            if after.setdefault(stop.state, stop.depth) == stop.depth and component_of[stop.state] >= 0:
                yield CycleEntry(stop.state, stop.depth, True, partial(stop.run, paths))

    def before() -> Iterator[CycleEntry]:
        """Entries of cycles with a start on them."""
        labels = paths.labels
        inside = np.isin(component_of, np.unique(component_of[starts & (component_of >= 0)])) & (component_of >= 0)
        first = ((labels.depths[labels.of[n][0]], n) for n in inside.nonzero()[0].tolist())
        for depth, n in sorted(first):
            if depth < after.get(n, depth + 1):
                yield CycleEntry(n, depth, False, partial(paths.chain, n))

    best = shortest_of(cycles, started()) if shortest else None
    if best is None:  # or too much would have to be looked at
        entry = next((e for e in started() if again is None or again[e.state]), None)
        if entry is None:  # nothing is left of the faults that a run would need to come there
            return None
        stem, component = entry.stem(), (component_of == component_of[entry.state]).nonzero()[0].tolist()
        best = FairRun([*stem, *fair_cycle(set(component), entry.state, graph, asked)], len(stem) - 1)
    if shortest and not failure.throughout:
        best = shortest_of(cycles, before(), best)
    return best if cycles.looked_at <= MOST_LABELS or best is None else replace(best, shortest=False)


def reachable_fair_components(failure: FailingRuns, graph: Graph, asked: Demands) -> Any:
    """The components in which a fair run that breaks a claim can settle.

    By state the number of its component, or -1; None where there is no such component.
    """
    if not failure.starts.any():
        return None
    component_of = fair_components(failure.among, graph, asked)
    if failure.again is not None:
        visited = np.unique(component_of[failure.again & (component_of >= 0)])
        component_of[~np.isin(component_of, visited)] = -1
    if not (component_of >= 0).any():
        return None
    # What is reached is closed within the way, so no component lies in it by half.
    inside = None if failure.way is None else graph.beginning(failure.way) & failure.way[graph.targets]
    come = reached_by(failure.starts, graph.first, graph.targets, inside)  # also by a fault alone
    component_of[~come] = -1
    return component_of if (component_of >= 0).any() else None
