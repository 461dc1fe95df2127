"""Seeded bugs, and what the events of runs with them show: is each that breaks an invariant reported, and rightly?

Theory of operation. A bug is planted, and a run is played. An observer who sees everything (observer.py) says which
properties the run breaks; `verify` is given the events alone. A bug is *shown* if the observer sees it break a property
in some run, and *reported* if `verify` reports a violation there; the invariant is *right* if the observer says that it
was broken in the same run of the same lease. Without the bug, the same run must give no alarm.

`seeded.yaml` keeps for each bug the run that shows it best, so that all are played within minutes; `search` finds them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.campaign import RecoveryCase, scripts_of
from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.checker.recovery.cases.walk import WalkRun
from leasehold.checker.recovery.lease.case import LeaseCaseRun
from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.result import Violation
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import RefusedEvent
from leasehold.spec import System, load
from tests.campaigns.seeded import in_order
from tests.planted.table import Mistake, bugs, named
from tests.watched.observer import Judge, Observer
from tests.watched.sources import LEASE, History, RandomWalks, events_of, known_lease, walk_of
from tests.watched.sources import OTHERS as FOLDERS

KNOWN = Path(__file__).with_name("seeded.yaml")
LEASE_CASES = "lease_cases"  # in place of a system: cases of the recovery checker, where no random run meets a bug
UNITS = 2  # of the site, so that there are two settings
SYSTEMS = {"ring": "fixed_ring"}  # where a bug's campaign (tests/campaigns/seeded.py) is named otherwise here
RIGHT = 3  # the rank of a trial in which the right invariant is reported
TRIED = 40  # seeds of each system by which a bug is searched for


@dataclass
class Trial:
    """A run with a bug.

    Attributes:
        bug, system, seed: what was played; an empty bug: the correct system.
        broken: by run, the properties that the observer saw broken.
        reported: by run, the violations that `verify` reports.
        faults: what `verify` says of the events themselves.
        refused: what the core refused: answers of policies and handlers that break a contract.
        findings: the checks of the recovery checker that failed.
        error: what ended the run too early.
    """

    bug: str
    system: str
    seed: int
    broken: dict[str, set[str]] = field(default_factory=dict)
    reported: dict[str, list[Violation]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def right(self) -> list[Violation]:
        """The reported violations that the observer saw, too."""
        return [v for run, vs in self.reported.items() for v in vs if v.property in self.broken.get(run, ())]

    @property
    def rank(self) -> int:
        """The strength: 3, the right invariant; 2, a break that is reported as a fault; 1, one that is not."""
        if not self.broken:
            return 0
        return RIGHT if self.right else 2 if self.faults or self.reported else 1


# Runs


@cache
def judge_of(known: CutsOfSystem) -> Judge:
    return Judge(known)


@cache
def walks_of(system: str) -> RandomWalks:
    return RandomWalks(FOLDERS[system])


class ObservedWalk(WalkRun):
    """A walk that is observed."""

    known_system: CutsOfSystem
    observer: Observer

    def prepare(self) -> None:
        self.observer = Observer(self.sim, self.known_system)


class ObservedCase(LeaseCaseRun):
    """A case of the lease that is observed."""

    known_system: CutsOfSystem
    observer: Observer

    def prepare(self) -> None:
        self.observer = Observer(self.sim, self.known_system)


@cache
def lease_cases() -> tuple[System, CutsOfSystem, list[RecoveryCase]]:
    """The cases of the lease's campaign, in the order of tests/campaigns/seeded.py; a seed is the place of one."""
    system = load(LEASE, load(LEASE).faults.settings)
    return system, CutsOfSystem(LeaseCaseRunner(system).system), list(in_order(scripts_of(system).scripts))


def history_of(bug: str, system: str, seed: int) -> tuple[CutsOfSystem, History, bool]:
    """The system, the events of a run with a bug (an empty name: without one), and whether nothing more would come."""
    player = _player(system)
    with silent(), named(bug).planted() if bug else nullcontext():
        known, history, _, complete = player(Trial(bug, system, seed))
    return known, history, complete


def play(bug: str, system: str, seed: int, only_if_broken: bool = False) -> Trial:
    """Plays a run with a bug; an empty name: without one. `only_if_broken`: else its events are not verified."""
    trial, player = Trial(bug, system, seed), _player(system)
    with silent(), named(bug).planted() if bug else nullcontext():
        known, history, runs, complete = player(trial)
    trial.refused = [
        f"{event.actor} {event.position}: {event.machine} of {event.lease} refuses {event.event}: {event.reason}"
        for events in history.values()
        for event in events
        if isinstance(event, RefusedEvent) and event.cause in ("policy", "handler")
    ]
    judge = judge_of(known)
    for name, run in runs.items():
        if broken := judge.broken(run, complete):
            trial.broken[name] = broken
    if only_if_broken and not trial.broken:
        return trial
    verification = HistoryVerification(known, history, complete=complete, whole=True)
    for actor, events in history.items():
        verification.add(actor, events)
    result = verification.end()
    for violation in result.violations:
        trial.reported.setdefault(violation.run, []).append(violation)
    trial.faults = [str(fault) for fault in result.faults]
    verification.close()
    return trial


def _player(system: str) -> Callable[[Trial], tuple[CutsOfSystem, History, dict[str, Any], bool]]:
    if system == LEASE_CASES:
        lease_cases()  # explored without the bug
        return _case
    return _lease if system == LEASE else _walk


def _lease(trial: Trial) -> tuple[CutsOfSystem, History, dict[str, Any], bool]:
    plan = replace(plan_of(trial.seed), units=UNITS, lazy=trial.seed % 2 == 0)
    known = known_lease(plan.units, plan.lazy)
    run = RandomRun(plan)
    return known, *_observed(trial, run, Observer(run.sim, known), run.play), False


def _walk(trial: Trial) -> tuple[CutsOfSystem, History, dict[str, Any], bool]:
    walks = walks_of(trial.system)
    runner = CaseRunner(walks.known.system)  # made with the bug
    kind = type("ObservedWalkOf", (ObservedWalk,), {"known_system": walks.known})
    run: Any = walk_of(runner, walks.scripts, trial.seed, kind)
    history, runs = _observed(trial, run, run.observer, run.run)
    run.close()
    return walks.known, history, runs, run.ended


def _case(trial: Trial) -> tuple[CutsOfSystem, History, dict[str, Any], bool]:
    system, known, cases = lease_cases()
    runner, case = LeaseCaseRunner(system), cases[trial.seed]  # made with the bug
    kind = type("ObservedCaseOf", (ObservedCase,), {"known_system": known})
    run: Any = kind(runner.program, runner.properties, case.script, lost=case.lost)
    history, runs = _observed(trial, run, run.observer, run.run)
    run.close()
    return known, history, runs, False


def _observed(trial: Trial, run: Any, observer: Observer, go: Callable[[], Any]) -> tuple[History, dict[str, Any]]:
    """Plays a run; returns the events as they are before its actors are taken away, and what the observer saw."""
    close, found = run.sim.close, list[tuple[History, dict[str, Any]]]()

    def look() -> None:
        if not found:
            found.append((events_of(run.sim.disks), observer.runs))

    def look_and_close() -> None:
        look()
        close()

    run.sim.close = look_and_close
    try:
        go()
    except Exception as error:  # whatever a bug leads to; the events tell it up to there
        trial.error = f"{type(error).__name__}: {error}"[:200]
    look()
    trial.findings = sorted({finding.check for finding in run.outcome.findings})
    return found[0]


# Searching


def systems_of(bug: Mistake) -> list[str]:
    """Returns where a bug is tried; one that only a test catches, at the lease."""
    return [SYSTEMS.get(system, system) for system in bug.systems or (LEASE,)]


def seeds_of(system: str) -> Iterator[int]:
    """The seeds by which bugs are searched for; clocks agree, so that time can be judged."""
    seed = 0
    while True:
        if system != LEASE or all(act.kind != "skew" for act in plan_of(seed).acts):
            yield seed
        seed += 1


def search(bug: Mistake, tried: int = TRIED) -> Trial:
    """The run that shows a bug best: at once where the right invariant is reported."""
    best, noticed = Trial(bug.name, LEASE, -1), list[Trial]()
    for system in systems_of(bug):
        for _, seed in zip(range(tried), seeds_of(system), strict=False):
            trial = play(bug.name, system, seed, only_if_broken=True)
            if trial.rank == RIGHT:
                return trial
            if trial.rank > best.rank:
                best = trial
            if trial.findings:
                noticed.append(trial)
    for one in noticed[:3] if not best.broken else ():  # nothing is broken, but events may be faulty
        trial = play(bug.name, one.system, one.seed)
        if trial.faults:
            return trial
    return best


@dataclass(frozen=True)
class KnownTrial:
    """The run that shows a bug, and why events cannot show it, where that is so."""

    system: str
    seed: int
    reason: str = ""


def known_trials() -> dict[str, KnownTrial]:
    """The runs of `seeded.yaml`, by bug."""
    found = yaml.safe_load(KNOWN.read_text(encoding="utf-8"))
    return {name: KnownTrial(**one) for name, one in found.items()}


# What comes of it


@dataclass
class Reported:
    """The verdict on a bug.

    Attributes:
        bug: which.
        trial: the run with it; None: no run breaks an invariant.
        false_alarms: what `verify` reports of the same run without it.
        reason: why events cannot show it, or why it breaks no invariant.
    """

    bug: Mistake
    trial: Trial | None
    false_alarms: list[str] = field(default_factory=list)
    reason: str = ""
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """`right`, `other`: another invariant, `fault`: of the events, `missed`, or `none`: nothing is broken."""
        if self.trial is None or not self.trial.broken:
            return "none"
        if self.trial.right:
            return "right"
        return "other" if self.trial.reported else "fault" if self.trial.faults else "missed"

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"bug": self.bug.name, "class": self.bug.class_, "verdict": self.verdict}
        if self.trial is not None:
            right = self.trial.right
            found |= {
                "system": self.trial.system,
                "seed": self.trial.seed,
                "broken": sorted({name for names in self.trial.broken.values() for name in names}),
                "reported": sorted({v.property for vs in self.trial.reported.values() for v in vs}),
                "right": sorted({v.property for v in right}),
                "actors": list(right[0].actors) if right else [],
                "faults": self.trial.faults[:3],
                "findings": self.trial.findings,
            }
        return {**found, "false_alarms": self.false_alarms, "reason": self.reason}


def reported(names: Iterable[str] | None = None, watch: Callable[[Reported], None] | None = None) -> list[Reported]:
    """Plays the known run of each bug, with it and without it.

    Args:
        names: of the bugs; all where left out.
        watch: hears of each.
    """
    known, found = known_trials(), []
    alarms: dict[tuple[str, int], list[str]] = {}
    for bug in bugs() if names is None else map(named, names):
        begun, one = time.perf_counter(), known.get(bug.name)
        result = Reported(bug, None, reason="" if one is None else one.reason)
        if one is not None and one.seed >= 0:
            result.trial = play(bug.name, one.system, one.seed)
            if (key := (one.system, one.seed)) not in alarms:
                without = play("", *key)
                alarms[key] = [v.property for vs in without.reported.values() for v in vs] + without.faults
            result.false_alarms = alarms[key]
        result.seconds = time.perf_counter() - begun
        found.append(result)
        if watch is not None:
            watch(result)
    return found


def reported_json(found: Sequence[Reported], seconds: float) -> dict[str, Any]:
    """The figures, and what became of each bug."""
    verdicts = [one.verdict for one in found]
    breaking = [one for one in found if one.verdict != "none"]
    return {
        "bugs": len(breaking),
        "shown_by_events": sum(not one.reason for one in breaking),
        "reported": sum(one.verdict in ("right", "other") for one in found),
        "right_invariant": verdicts.count("right"),
        "reported_as_fault": sum(bool(one.trial is not None and one.trial.faults) for one in found),
        "false_alarms": len({(one.trial.system, one.trial.seed) for one in found if one.trial and one.false_alarms}),
        "breaking_no_invariant": verdicts.count("none"),
        "seconds": round(seconds, 1),
        "seeded": [one.as_json() for one in found],
    }
