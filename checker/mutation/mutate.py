"""Mutation testing: each mutant of a system is tried in a battery of settings until one of its properties finds it.

A mutant is *killed* when a property that the system itself satisfies in that setting is violated, or when the mutant no
longer stabilises under faults where the system does. That it has other numbers of states is no kill, as no property
says it; nor is a lost witness, or a property that has lost its cases, as these are about the search. A mutant that the
linter refuses, or in which two guards hold at once, is *refused*: it is no specification. A mutant that is killed
nowhere is *equivalent* if it has exactly the states and steps of the system in every trial. It is *unseen* if an
observer outside (observer.py) cannot tell it from the system in any trial. Else it *survives*: somebody outside sees
that it differs, and no property says so.

Mutants go one after the other, or in parallel, and each through the trials until one kills it: in the battery's order,
but for trials in which the system never takes the changed transition. These come last, and where the change is in what
the transition does they are left out, as the mutant is the system itself there. So what becomes of a mutant depends on
no other, and is said as soon as it is known. Whether those that have as many states as the system in every trial are
the system itself, and what an observer sees of the others, takes longest, so that is asked at the end.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import TypeVar

from leasehold.checker.host.workers import deaf_children, end_children, ended_by_signals, follow_parent
from leasehold.checker.mutation.battery import Battery, Settings, SystemLoader, Trial, known_survivors
from leasehold.checker.mutation.judge import Baseline, ReachableGraph, Verdict, baseline_of, judged
from leasehold.checker.mutation.observer import Comparison, ObservedDifference, ObservedSystem, compared
from leasehold.checker.mutation.operators import EFFECTS, RULES, Mutation, refused
from leasehold.spec import System

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Kill:
    """The kill of a mutant: the property, the trial, and the steps of the counterexample where there is one."""

    by: str
    trial: Trial
    steps: int | None


@dataclass(frozen=True, slots=True)
class MutantOutcome:
    """The outcome of a mutant.

    Attributes:
        refused: the error for which it is no specification.
        equivalent: it is not killed, and in every trial it has the states and steps of the system.
        noticed: it is not killed, and this witness, or the case of this property, is lost.
        cut_short: in some trial it had far more states than the system, and was not killed.
        seen: the difference that an observer sees, in the first trial that shows one.
        unseen: an observer sees none in any trial. With neither, the search for one was cut short.
    """

    mutation: Mutation
    kill: Kill | None = None
    refused: str = ""
    equivalent: bool = False
    noticed: str = ""
    cut_short: bool = False
    seen: ObservedDifference | None = None
    unseen: bool = False
    explanation: str = ""
    seconds: float = 0.0

    @property
    def survives(self) -> bool:
        """Returns whether it is a specification of another system, and no property says so."""
        return not (self.kill or self.refused or self.equivalent or self.unseen)

    @property
    def word(self) -> str:
        """Returns what became of it."""
        if self.survives:
            return "explained" if self.explanation else "survives"
        return "killed" if self.kill else "refused" if self.refused else "equivalent" if self.equivalent else "unseen"


@dataclass(frozen=True, slots=True)
class RuleScore:
    """The number of mutants that a rule made, and the numbers of them by what became of them."""

    made: int
    refused: int
    equivalent: int
    killed: int
    unseen: int = 0

    @property
    def others(self) -> int:
        """The number of mutants that a property ought to kill."""
        return self.made - self.refused - self.equivalent - self.unseen

    @property
    def score(self) -> float:
        return self.killed / self.others if self.others else 1.0


@dataclass(frozen=True, slots=True)
class MutationReport:
    """The outcomes of a campaign, in the order of the mutants."""

    outcomes: tuple[MutantOutcome, ...]
    seconds: float
    out_of_date: tuple[str, ...] = ()  # explanations of what does not survive
    undecided: int = 0  # mutants that were neither killed nor tried in everything, as the campaign was interrupted

    @property
    def kills(self) -> list[tuple[Mutation, Kill]]:
        return [(o.mutation, o.kill) for o in self.outcomes if o.kill is not None]

    @property
    def equivalent(self) -> list[Mutation]:
        return [o.mutation for o in self.outcomes if o.equivalent]

    @property
    def unseen(self) -> list[Mutation]:
        return [o.mutation for o in self.outcomes if o.unseen]

    @property
    def survivors(self) -> list[MutantOutcome]:
        return [o for o in self.outcomes if o.survives]

    @property
    def unexplained(self) -> list[MutantOutcome]:
        return [o for o in self.survivors if not o.explanation]

    @property
    def total(self) -> RuleScore:
        return _score(self.outcomes)

    def by_rule(self) -> dict[str, RuleScore]:
        """The score of each rule that made some."""
        of = {rule: [o for o in self.outcomes if o.mutation.rule == rule] for rule in RULES}
        return {rule: _score(outcomes) for rule, outcomes in of.items() if outcomes}

    def by_property(self) -> dict[str, int]:
        """Returns how many mutants each property was the first to find, the most first."""
        return dict(sorted(Counter(k.by for _, k in self.kills).items(), key=lambda item: (-item[1], item[0])))

    def refusals(self) -> dict[str, int]:
        """Returns how many mutants the loader refuses, by the code of the error."""
        return dict(sorted(Counter(o.refused.partition(":")[0] for o in self.outcomes if o.refused).items()))


def _score(outcomes: Sequence[MutantOutcome]) -> RuleScore:
    return RuleScore(
        len(outcomes),
        sum(bool(o.refused) for o in outcomes),
        sum(o.equivalent for o in outcomes),
        sum(o.kill is not None for o in outcomes),
        sum(o.unseen for o in outcomes),
    )


@dataclass(frozen=True, slots=True)
class MutationProgress:
    """The progress of a campaign: in a stage, `tried` of `left`.

    `survivor` is one that has just been found, or, later, has turned out to be unseen.
    """

    stage: str
    tried: int
    left: int
    killed: int
    mutants: int
    seconds: float
    survivor: MutantOutcome | None = None


def mutate(
    loader: SystemLoader,
    mutants: Sequence[Mutation],
    battery: Battery,
    *,
    jobs: int = 1,
    progress: Callable[[MutationProgress], None] | None = None,
    whole: Iterable[Mutation] | None = None,
) -> MutationReport:
    """Tries mutants until they are killed; Ctrl-C or SIGTERM ends it with what is known until then.

    Args:
        loader: the system.
        mutants: the mutants to try.
        battery: in what to try them.
        jobs: processes; with 1, everything happens in this one.
        progress: is told how far it has come.
        whole: all mutants, where only some are tried: an explanation is out of date only if all that it speaks of were
            tried. None: these are all.

    Raises:
        MutationError: the system itself cannot be explored to the end.
        SpecError: a trial's constants are wrong.
    """
    started = time.perf_counter()
    outcomes: dict[str, MutantOutcome] = {}  # those that are decided, but for `alike`
    alike: dict[str, MutantOutcome] = {}  # not killed, and with as many states as the system in every trial
    systems = {(): loader()} | {t.settings: loader(t.settings) for t in battery.trials}
    baselines: dict[Trial, Baseline] = {}

    def tell(stage: str, tried: int, left: int, survivor: MutantOutcome | None = None) -> None:
        if progress is not None:
            killed, seconds = sum(o.kill is not None for o in outcomes.values()), time.perf_counter() - started
            progress(MutationProgress(stage, tried, left, killed, len(mutants), seconds, survivor))

    def decide(outcome: MutantOutcome) -> MutantOutcome | None:
        """Keeps an outcome that is final; one that survives is returned."""
        name = outcome.mutation.name
        outcomes[name] = replace(outcome, explanation=battery.reason(name) if outcome.survives else "")
        return outcomes[name] if outcome.survives else None

    def observe(pool: _Pool) -> None:
        """Asks of those that survive what an observer sees of them, trial by trial until one shows something."""
        alike_outside = {o.mutation.name: o for o in outcomes.values() if o.survives}
        whole_searches = dict.fromkeys(alike_outside, True)
        for number, trial in enumerate(battery.trials, 1):
            left = [o.mutation for o in alike_outside.values()]
            stage = f"seen in trial {number} of {len(battery.trials)}"
            for tried, (mutation, comparison) in enumerate(pool.of_each(left, _observed, trial), 1):
                name = mutation.name
                whole_searches[name] = whole_searches[name] and comparison.complete
                if comparison.difference is not None:
                    outcomes[name] = replace(alike_outside.pop(name), seen=comparison.difference)
                tell(stage, tried, len(left))
        for name, outcome in alike_outside.items():
            if whole_searches[name]:
                outcomes[name] = replace(outcome, unseen=True, explanation="")
                tell("seen in no trial", len(alike_outside), len(alike_outside), outcomes[name])

    try:
        with ended_by_signals():
            for number, trial in enumerate(battery.trials):
                tell("the system itself, trial", number, len(battery.trials))
                baselines[trial] = baseline_of(systems[trial.settings], trial)
            with _Pool(systems, baselines, jobs if len(mutants) > 1 else 1) as pool:
                try:
                    for tried, (_, (outcome, same)) in enumerate(pool.of_each(mutants, _tried), 1):
                        if same:
                            alike[outcome.mutation.name] = outcome
                        tell("mutant", tried, len(mutants), None if same else decide(outcome))
                    for number, trial in enumerate(battery.trials, 1):
                        left = [o.mutation for o in alike.values()]
                        stage = f"equivalent in trial {number} of {len(battery.trials)}"
                        for tried, (mutation, same) in enumerate(pool.of_each(left, _is_the_system, trial), 1):
                            tell(stage, tried, len(left), None if same else decide(alike.pop(mutation.name)))
                    observe(pool)
                except KeyboardInterrupt:
                    pool.stop()
                    raise
            for outcome in alike.values():
                decide(replace(outcome, equivalent=True))
    except KeyboardInterrupt:
        pass
    decided = tuple(outcomes[m.name] for m in mutants if m.name in outcomes)
    undecided = len(mutants) - len(decided)
    alive = {o.mutation.name for o in decided if o.survives}
    spoken_of = known_survivors(battery, mutants if whole is None else whole)
    stale = [p for p, names in spoken_of.items() if names and alive.isdisjoint(names) and outcomes.keys() >= set(names)]
    return MutationReport(decided, time.perf_counter() - started, tuple(stale), undecided)


def _after(before: MutantOutcome, verdict: Verdict, trial: Trial) -> MutantOutcome:
    """The outcome of a mutant after one more trial."""
    over = bool(verdict.by or verdict.refused)
    return replace(
        before,
        kill=Kill(verdict.by, trial, verdict.steps) if verdict.by else None,
        refused=verdict.refused,
        noticed="" if over else before.noticed or verdict.noticed,
        cut_short=not over and (before.cut_short or verdict.cut_short),
        seconds=before.seconds + verdict.seconds,
    )


# Processes

_systems: dict[Settings, System] = {}  # of this process
_baselines: dict[Trial, Baseline] = {}
_graphs: dict[Trial, ReachableGraph] = {}
_seen: dict[Trial, ObservedSystem] = {}


def _start_worker(systems: Mapping[Settings, System], baselines: Mapping[Trial, Baseline]) -> None:
    follow_parent()
    _begin(systems, baselines)


def _begin(systems: Mapping[Settings, System], baselines: Mapping[Trial, Baseline]) -> None:
    _systems.clear()
    _baselines.clear()
    _graphs.clear()
    _seen.clear()
    _systems.update(systems)
    _baselines.update(baselines)


def _tried(mutation: Mutation) -> tuple[MutantOutcome, bool]:
    """The outcome of a mutant in all trials, and whether it may be the system itself."""
    outcome, same = MutantOutcome(mutation, refused=refused(_systems[()], mutation.applied(_systems[()]))), True
    for trial in sorted(_baselines, key=lambda t: mutation.subject in _baselines[t].unvisited):
        if not outcome.survives or _is_never_met(mutation, trial):
            break  # those in which it is met come first
        started = time.perf_counter()
        verdict = judged(mutation.applied(_systems[trial.settings]), trial, _baselines[trial])
        outcome = _after(outcome, replace(verdict, seconds=time.perf_counter() - started), trial)
        same = same and verdict.states
    return outcome, same and outcome.survives


def _is_never_met(mutation: Mutation, trial: Trial) -> bool:
    """Returns whether a mutant differs only in what a transition does that the system never takes in a trial."""
    return mutation.rule in EFFECTS and mutation.subject in _baselines[trial].unvisited


def _is_the_system(mutation: Mutation, trial: Trial) -> bool:
    if _is_never_met(mutation, trial):
        return True
    system = _systems[trial.settings]
    if trial not in _graphs:
        _graphs.clear()  # trials come one after the other
        _graphs[trial] = ReachableGraph(system, trial)
    return _graphs[trial].is_of(mutation.applied(system))


def _observed(mutation: Mutation, trial: Trial) -> Comparison:
    if _is_never_met(mutation, trial):
        return Comparison()
    system = _systems[trial.settings]
    if trial not in _seen:
        _graphs.clear()
        _seen.clear()
        _seen[trial] = ObservedSystem(system, trial)
    return compared(_seen[trial], ObservedSystem(mutation.applied(system), trial), trial)


class _Pool:
    """Works on mutants in this process or in several."""

    def __init__(self, systems: Mapping[Settings, System], baselines: Mapping[Trial, Baseline], jobs: int) -> None:
        _begin(systems, baselines)
        self.others = set(multiprocessing.active_children())
        self.pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            # Not forked: the parent may have threads.
            context = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(systems, baselines))

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def of_each(
        self, mutants: Sequence[Mutation], function: Callable[..., _R], *arguments: object
    ) -> Iterator[tuple[Mutation, _R]]:
        """Every mutant with what the function returns for it, as they come."""
        if self.pool is None:
            for mutation in mutants:
                yield mutation, function(mutation, *arguments)
            return
        with deaf_children():  # the first task starts the processes
            work = {self.pool.submit(function, mutation, *arguments): mutation for mutation in mutants}
        for future in as_completed(work):
            yield work[future], future.result()

    def stop(self) -> None:
        """Ends what still runs, without waiting for it."""
        if self.pool is not None:
            end_children(but=self.others)
