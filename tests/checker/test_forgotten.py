"""Machines that actors forget: no checker misses them, and none keeps anything of them that it does not need.

A lease ends, and every actor forgets its machines; others go on, one of them on the same unit. Then every actor
restarts. Each checker that keeps something by machine, lease or unit judges these real events: whole, without the
oldest ones of an actor, and with an end and a later beginning at each event.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from leasehold.checker.conform.coverage import CoverageCollector
from leasehold.checker.conform.findings import JudgedLog
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.explain.machines import KnownMachines
from leasehold.checker.history.merge import merged
from leasehold.checker.recovery.events import CommittedEvents, EventMonitor
from leasehold.checker.recovery.lease.random_runs.run import compiled
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.monitor import DurabilityMonitor, PropertyMonitor
from leasehold.checker.verify.history import HistoryVerification
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import AnyEvent, ForgottenEvent, RecoveredEvent, read
from tests.checker.conform.test_alterations import known_lease
from tests.checker.kept_names import places_of
from tests.checker.verify.histories import History, known, ticks

HOLDER, BROKER, SITE = ACTORS = ("service_manager", "broker", "site")
OVER, OTHER, LATER = (f"{HOLDER}:{number}" for number in (1, 2, 3))
RETIRED = 10_001  # ticks after which a lease that is over is forgotten


class MonitoredRun(NamedTuple):
    """A simulation with all that watches it."""

    sim: LeaseSimulation
    monitors: dict[str, PropertyMonitor]
    events: EventMonitor
    durability: DurabilityMonitor

    @property
    def log(self) -> History:
        return {name: [read(body) for body in disk.events.values()] for name, disk in self.sim.disks.items()}


@contextmanager
def monitored() -> Iterator[MonitoredRun]:
    """A run in which a lease is over and forgotten by all, and nobody has restarted yet."""
    program, properties = compiled(2, lazy=True)
    sim = LeaseSimulation(program, units=2)
    commits = CommittedEvents(sim)
    monitors = {lease: PropertyMonitor(commits, properties, lease) for lease in (OVER, OTHER, LATER)}
    run = MonitoredRun(sim, monitors, EventMonitor(commits), DurabilityMonitor(sim))
    sim.start_all()
    sim.wish("demand", OVER, 1, 30, 20, start=0)
    sim.wish("demand", OTHER, 1, 30_000, 20_000, start=0)
    ticks(sim, 3)
    sim.loop.call(lambda: sim.actors[HOLDER].tell(OVER, HOLDER, "close", {}))
    ticks(sim, 40)
    sim.wish("demand", LATER, 1, sim.time.now + 30_000, sim.time.now + 20_000, start=sim.time.now)
    ticks(sim, 3)
    sim.time.now += RETIRED
    ticks(sim, 3)
    yield run
    sim.close()


def restart(sim: LeaseSimulation, name: str) -> None:
    sim.crash(name)
    ticks(sim, 3)
    sim.start(name)
    ticks(sim, 5)


@cache
def history() -> History:
    """The events of that run, at the end of which every actor restarts."""
    with monitored() as run:
        for name in ACTORS:
            restart(run.sim, name)
        return run.log


def until_forgotten(log: History) -> History:
    """The same without the restarts."""
    return {
        actor: events[: max(at for at, event in enumerate(events) if isinstance(event, RecoveredEvent))]
        for actor, events in log.items()
    }


def test_the_events_are_of_a_lease_that_all_forget_before_they_restart() -> None:
    """The unit that it had serves another lease, so its name goes on."""
    for actor, events in history().items():
        forgotten = [at for at, event in enumerate(events) if isinstance(event, ForgottenEvent) and event.lease == OVER]
        (last,) = [event for event in events[max(forgotten) :] if isinstance(event, RecoveredEvent)]
        assert OVER not in last.records
        assert last.records.keys() - {BELOW} == {OTHER, LATER}, actor
    units = [step for event in history()[SITE] for step in event.steps() if step.lease == BELOW]
    assert {step.serves for step in units if step.machine == "unit[0]"} == {OVER, LATER}


# Nothing is found


def conformance_of(log: History, dropped: dict[str, int] | None = None) -> LogConformance:
    judge = LogConformance(known_lease(True), [JudgedLog(actor, pruned=(dropped or {}).get(actor, 0)) for actor in log])
    for event in judge.merged((actor, events[(dropped or {}).get(actor, 0) :]) for actor, events in log.items()):
        judge.take(event)
    judge.end()
    return judge


@pytest.mark.parametrize("actor", ACTORS)
def test_logs_of_which_the_oldest_events_were_dropped_conform(actor: str) -> None:
    """Up to each event of an actor, also between those that forget, and after them."""
    for count in range(len(history()[actor])):
        assert conformance_of(history(), {actor: count}).findings == [], count


def verified(log: History, whole: bool) -> HistoryVerification:
    verification = HistoryVerification(known(2, True), log, whole=whole)
    for actor, events in log.items():
        verification.add(actor, events)
        if not whole:
            verification.judge()
    result = verification.end()
    assert (result.violations, result.faults) == ([], [])
    return verification


@pytest.mark.parametrize("whole", [True, False])
def test_a_history_holds(whole: bool) -> None:
    verified(history(), whole).close()


@pytest.mark.parametrize("actor", ACTORS)
def test_a_verification_that_ends_and_goes_on_finds_nothing(actor: str, tmp_path: Path) -> None:
    """From the first event on that forgets; the other actors have told all by then."""
    events = history()[actor]
    first = next(at for at, event in enumerate(events) if isinstance(event, ForgottenEvent))
    for cut in range(first, len(events) + 1):
        url = f"sqlite:{tmp_path}/{cut}.db"
        for until in (cut, len(events)):
            verification = HistoryVerification(known(2, True), history(), url=url)
            for name, told in history().items():
                at = verification.kept.follower(name).position
                told = told[:until] if name == actor else told
                verification.add(name, [event for event in told if event.position > at])
            verification.judge()
            result = verification.end() if until == len(events) else verification.result
            kept = {path for path in places_of(verification, OVER) if not path.startswith(WAITING)}
            verification.close()
            assert (result.violations, result.faults) == ([], []), cut
            assert kept <= IN_VERIFICATION.keys()
        assert result.over == 1


@pytest.mark.parametrize("first", ACTORS)
def test_no_monitor_misses_what_is_forgotten(first: str) -> None:
    """Whoever restarts first, and what follows: none of its machines is lost, of any lease."""
    with monitored() as run:
        for name in (first, *(other for other in ACTORS if other != first)):
            restart(run.sim, name)
        assert (run.events.wrong, run.durability.lost) == ([], [])
        for lease, monitor in run.monitors.items():
            kinds = {cut.action.kind for cut in monitor.cuts if cut.action is not None}
            assert (monitor.broken, "lost" in kinds) == ({}, False), lease
        assert places_of(run.durability, OVER) == set()


# Nothing is kept

Kept = dict[str, str]  # by the path of what is kept still, why

MESSAGES = "what was sent is compared with what is received when all logs are read"
IN_CONFORMANCE: Kept = {
    "_chains.*.over": "no machine of it may begin again",
    "comparison.sent.*": MESSAGES,
    "receipts._sender.*": MESSAGES,
    "receipts._players.*": "an actor that another log names has to be the same",
}
UNTIL_RESTARTED: Kept = {"_chains.*.stepped": "of this incarnation"}
IN_COVERAGE: Kept = {"_runs": "a run counts"}
IN_EXPLANATION: Kept = {"machines.*": "its story is told", "machines.*.serves": "its story is told"}
IN_VERIFICATION: Kept = {
    "cuts.merge._to_come.*": "nothing more comes, so what waits is looked up once",
    "cuts.own.*": "a unit is of the lease that has driven it last until another does",
}
WAITING = "cuts.merge._streams.*.events"  # events that wait for those of other actors


def test_a_judge_of_logs_keeps_nothing_else() -> None:
    assert places_of(conformance_of(history()), OVER) == IN_CONFORMANCE.keys()
    before = places_of(conformance_of(until_forgotten(history())), OVER)
    assert before == IN_CONFORMANCE.keys() | UNTIL_RESTARTED.keys()


def test_coverage_keeps_nothing_else() -> None:
    of = known_lease(True)
    coverage = CoverageCollector(of.system, of.program, ACTORS)
    for event in ordered():
        coverage.take(event)
    assert places_of(coverage, OVER) == IN_COVERAGE.keys()


def test_a_verification_keeps_nothing_else() -> None:
    for whole in (True, False):
        for log in (history(), until_forgotten(history())):
            verification = verified(log, whole)
            assert places_of(verification, OVER) <= IN_VERIFICATION.keys()
            verification.close()


def test_an_explanation_has_forgotten_machines_apart() -> None:
    """They are there with the tick, and are no machines of their actor any more."""
    machines = KnownMachines()
    for event in ordered():
        machines.take(event)
    assert places_of(machines, OVER) == IN_EXPLANATION.keys()
    assert [lease for lease in machines.leases() if any(machines.plays(a, lease) for a in ACTORS)] == [OTHER, LATER]
    for key, one in machines.machines.items():
        assert (one.forgotten is not None) == (key.lease == OVER)
        assert one.restarts == (0 if key.lease == OVER else 1), key


def ordered() -> list[AnyEvent]:
    return [*merged(history()).ready()]
