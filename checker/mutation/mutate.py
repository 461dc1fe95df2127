"""How good are a system's properties? Each mutant of it is tried in a battery of settings until a property finds it.

A mutant is *killed* when a property that the system itself satisfies in that setting is violated or has lost its cases,
or when the mutant no longer stabilises under faults where the system does. That it has other numbers of states is no
kill, as no property says it. A mutant that is killed nowhere *survives*: it is equivalent to the system as far as
anybody can observe, or a property is missing.

Trials go one after the other, and in each all mutants that are left, in parallel. So cheap trials come first for all,
and when the campaign is interrupted it is known of every mutant what it has survived.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace

from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.properties import only_these
from leasehold.checker.mutation.battery import Battery, Settings, SystemLoader, Trial, known_survivors
from leasehold.checker.mutation.operators import RULES, Mutation
from leasehold.spec import System

CONVERGENCE = "convergence"  # as what kills: some fair run never returns to a legal state, or the system cannot go on
VACUOUS = "vacuous: "


class MutationError(Exception):
    """The system itself cannot be explored to the end in a trial, so its mutants cannot be compared with it."""


@dataclass(frozen=True, slots=True)
class Kill:
    """The kill of a mutant: the property, the trial, and the steps of the counterexample where there is one."""

    by: str
    trial: Trial
    steps: int | None


@dataclass(frozen=True, slots=True)
class MutantOutcome:
    """The outcome of a mutant; `cut_short`: in some trial it had far more states than the system, unfound."""

    mutation: Mutation
    kill: Kill | None = None
    cut_short: bool = False
    explanation: str = ""
    seconds: float = 0.0


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
    def survivors(self) -> list[MutantOutcome]:
        return [o for o in self.outcomes if o.kill is None]

    @property
    def unexplained(self) -> list[MutantOutcome]:
        return [o for o in self.survivors if not o.explanation]

    @property
    def score(self) -> float:
        """Killed mutants by all mutants."""
        return len(self.kills) / len(self.outcomes) if self.outcomes else 1.0

    def by_rule(self) -> dict[str, tuple[int, int]]:
        """Mutants and killed ones, for each rule that made some."""
        made = Counter(o.mutation.rule for o in self.outcomes)
        killed = Counter(m.rule for m, _ in self.kills)
        return {rule: (made[rule], killed[rule]) for rule in RULES if made[rule]}

    def by_property(self) -> dict[str, int]:
        """How many mutants each property was the first to find, the most first."""
        return dict(sorted(Counter(k.by for _, k in self.kills).items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class MutationProgress:
    """How far a campaign has come: in a trial, `tried` of `left` mutants."""

    trial: int
    trials: int
    tried: int
    left: int
    killed: int
    mutants: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """The system itself in a trial: what a mutant is compared with."""

    states: int
    legal: int  # states without faults
    holds: frozenset[str]
    vacuous: frozenset[str]
    converges: bool


@dataclass(frozen=True, slots=True)
class _Verdict:
    by: str = ""
    steps: int | None = None
    cut_short: bool = False
    seconds: float = 0.0


def mutate(
    loader: SystemLoader, mutants: Sequence[Mutation], battery: Battery, *, jobs: int = 1,
    progress: Callable[[MutationProgress], None] | None = None, whole: Iterable[Mutation] | None = None,
) -> MutationReport:  # fmt: skip
    """Tries mutants until they are killed; Ctrl-C ends it with what is known until then.

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
    outcomes = {m.name: MutantOutcome(m) for m in mutants}
    systems = {t.settings: loader(t.settings) for t in battery.trials}
    with _Pool(systems, jobs if len(mutants) > 1 else 1) as pool:
        try:
            for number, trial in enumerate(battery.trials):
                left = [o.mutation for o in outcomes.values() if o.kill is None]
                if not left:
                    break
                baseline = baseline_of(systems[trial.settings], trial)
                for tried, (mutation, verdict) in enumerate(pool.attempts(trial, baseline, left), 1):
                    before = outcomes[mutation.name]
                    outcomes[mutation.name] = replace(
                        before,
                        kill=Kill(verdict.by, trial, verdict.steps) if verdict.by else None,
                        cut_short=not verdict.by and (before.cut_short or verdict.cut_short),
                        seconds=before.seconds + verdict.seconds,
                    )
                    if progress is not None:
                        killed = sum(o.kill is not None for o in outcomes.values())
                        seconds = time.perf_counter() - started
                        progress(
                            MutationProgress(
                                number + 1, len(battery.trials), tried, len(left), killed, len(mutants), seconds
                            )
                        )
        except KeyboardInterrupt:
            pool.stop()
            known = tuple(o for o in outcomes.values() if o.kill is not None)
            return MutationReport(known, time.perf_counter() - started, (), len(outcomes) - len(known))
    found = tuple(replace(o, explanation="" if o.kill else battery.reason(n)) for n, o in outcomes.items())
    alive = {o.mutation.name for o in found if o.kill is None}
    spoken_of = known_survivors(battery, mutants if whole is None else whole)
    stale = [p for p, names in spoken_of.items() if names and alive.isdisjoint(names) and outcomes.keys() >= set(names)]
    return MutationReport(found, time.perf_counter() - started, tuple(stale))


def baseline_of(system: System, trial: Trial) -> Baseline:
    """The results of the system itself in a trial.

    Raises:
        MutationError: it cannot be explored to the end.
    """
    found = _explored(system, Limits(), trial)
    legal = found if trial.budget is None else _explored(system, Limits())
    for exploration in (found, legal):
        if not exploration.complete:
            raise MutationError(f"{system.name} with {trial}: {exploration.why_incomplete}")
    holds = frozenset(p.name for p in found.properties if p.verdict in ("exhausted", "witnessed"))
    converges = trial.budget is not None and convergence(legal, found).converges
    return Baseline(found.distinct, legal.distinct, holds, frozenset(found.vacuous), converges)


def judged(mutant: System, trial: Trial, baseline: Baseline) -> _Verdict:
    """Whether a mutant is killed in a trial; of the properties, those alone count that the system satisfies."""
    mutant = only_these(mutant, baseline.holds)
    found = _explored(mutant, _limits(baseline.states, stop_at_violation=True), trial)
    violated = [p for p in found.properties if p.verdict == "violated"]
    if violated:
        first = min(violated, key=lambda p: len(p.path) if p.path is not None else found.distinct)
        return _Verdict(first.name, len(first.path) if first.path is not None else None)
    if not found.complete:
        return _Verdict(cut_short=True)
    lost = [name for name in found.vacuous if name not in baseline.vacuous]
    if lost:
        return _Verdict(VACUOUS + lost[0])
    if not baseline.converges:
        return _Verdict()
    legal = _explored(replace(mutant, properties={}), _limits(baseline.legal))
    if not legal.complete:
        return _Verdict(cut_short=True)
    after = convergence(legal, found)
    if after.converges:
        return _Verdict()
    return _Verdict(CONVERGENCE, len(after.path) if after.path is not None else None)


def _limits(states: int, stop_at_violation: bool = False) -> Limits:
    """A mutant may run away; three times what the system has is enough to see most violations."""
    return Limits(states=3 * states + 1000, stop_at_violation=stop_at_violation)


def _explored(system: System, limits: Limits, trial: Trial | None = None) -> Exploration:
    found = explore(system, limits, budget=trial.budget if trial is not None else None)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


# Processes

_systems: dict[Settings, System] = {}  # of this process


def _start_worker(systems: Mapping[Settings, System]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has the terminal
    _systems.update(systems)


def _attempt(trial: Trial, baseline: Baseline, mutation: Mutation) -> _Verdict:
    started = time.perf_counter()
    verdict = judged(mutation.applied(_systems[trial.settings]), trial, baseline)
    return replace(verdict, seconds=time.perf_counter() - started)


class _Pool:
    """Tries mutants in this process or in several."""

    def __init__(self, systems: Mapping[Settings, System], jobs: int) -> None:
        _systems.clear()
        _systems.update(systems)
        self.others = set(multiprocessing.active_children())
        self.pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            # Not forked: the parent may have threads.
            context = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(systems,))

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def attempts(
        self, trial: Trial, baseline: Baseline, mutants: Sequence[Mutation]
    ) -> Iterator[tuple[Mutation, _Verdict]]:
        """Every mutant with its verdict, as they come."""
        if self.pool is None:
            for mutation in mutants:
                yield mutation, _attempt(trial, baseline, mutation)
            return
        work = {self.pool.submit(_attempt, trial, baseline, mutation): mutation for mutation in mutants}
        for future in as_completed(work):
            yield work[future], future.result()

    def stop(self) -> None:
        """Ends what still runs, without waiting for it."""
        if self.pool is not None:
            for process in set(multiprocessing.active_children()) - self.others:
                process.terminate()
