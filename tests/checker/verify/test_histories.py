"""Histories of simulated actors: the correct ones raise no alarm, and bugs are reported with the right invariant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from msgspec import structs

from leasehold.checker.history.merge import CausalMerge
from leasehold.checker.recovery.lease.random_runs.plan import RunPlan, plan_of
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.verify.cuts import ConsistentCuts, Cut
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.result import path_of
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.actor.table import BELOW
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.events.event import AnyEvent, RecoveredEvent, StepEvent, read, write
from tests.checker.verify.histories import History, history_of, known, verified
from tests.planted.table import named
from tests.systems import load

# Where clocks differ, some properties are known to fail (docs/findings.md).
SEEDS = [seed for seed in range(36) if all(act.kind != "skew" for act in plan_of(seed).acts)]


def plan_in_two_settings(seed: int) -> RunPlan:
    """The plan of a seed, at a site of two units; each setting is compiled once."""
    return replace(plan_of(seed), units=2, lazy=seed % 2 == 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_correct_run_raises_no_alarm(seed: int) -> None:
    plan = plan_in_two_settings(seed)
    history = history_of(plan)
    found = verified(plan, history)
    assert [(v.property, v.run, v.cut, v.events[-1]) for v in found.violations] == []
    assert found.faults == []
    assert found.events == sum(map(len, history.values()))
    assert found.cuts > found.runs > 0


# Bugs


@pytest.mark.parametrize(
    ("bug", "seed", "invariant", "fault"),
    [
        ("unit_not_saved", 9, "assigned_equals_ticketed", "its last event has left it in active"),
        ("assigned_units_not_saved", 8, "a_lease_that_is_active_is_whole", "which does not write assigned"),
        ("duplicate_executed", 13, "the_end_is_obeyed", "and has received"),
        ("received_numbers_not_saved", 23, "a_granted_ticket_is_held", "and has received"),
    ],
)
def test_a_bug_is_reported_with_its_invariant(bug: str, seed: int, invariant: str, fault: str) -> None:
    plan = plan_in_two_settings(seed)
    with named(bug).planted():
        history = history_of(plan)
    found = verified(plan, history)
    assert invariant in [v.property for v in found.violations]
    assert any(fault in f.reason for f in found.faults)
    violation = next(v for v in found.violations if v.property == invariant)
    own = {actor for actor, _ in violation.events}
    assert own == set(violation.actors)
    assert violation.path.steps
    assert violation.events[-1][1] <= len(history[violation.events[-1][0]])


# What an actor recovers


def recoveries(history: History) -> list[tuple[str, int, RecoveredEvent, str, str]]:
    """Actor, place, event, lease and machine of each record that is recovered."""
    return [
        (actor, at, event, lease, machine)
        for actor, events in history.items()
        for at, event in enumerate(events)
        if isinstance(event, RecoveredEvent)
        for lease, machines in event.records.items()
        for machine in machines
    ]


def with_event(history: History, actor: str, at: int, event: AnyEvent) -> History:
    return {**history, actor: [*history[actor][:at], event, *history[actor][at + 1 :]]}


@pytest.mark.parametrize("has", ["0123456789abcdef", None])
def test_a_record_that_is_recovered_otherwise_is_named(has: str | None) -> None:
    """Also where no later step shows it. Of leases that are over nothing is asked."""
    plan = plan_in_two_settings(8)
    history, named_ = history_of(plan), 0
    for actor, at, event, lease, machine in recoveries(history):
        others = {name: digest for name, digest in event.records[lease].items() if name != machine}
        records = {**event.records, lease: {**others, **({} if has is None else {machine: has})}}
        found = verified(plan, with_event(history, actor, at, structs.replace(event, records=records)))
        assert not found.violations
        words = f"{machine} comes back with{'out the record' if has is None else ' another record'}"
        assert all(fault.position == event.position and words in fault.reason for fault in found.faults)
        assert all(fault.run == lease for fault in found.faults if lease != BELOW)
        named_ += len(found.faults)
    assert named_ > 0


def test_events_of_before_digests_were_told_are_judged_as_ever() -> None:
    plan = plan_in_two_settings(8)
    history = history_of(plan)
    assert recoveries(history)
    old = {
        actor: [structs.replace(e, records={}) if isinstance(e, RecoveredEvent) else e for e in events]
        for actor, events in history.items()
    }
    assert not any(b"records" in write(event) for events in old.values() for event in events)
    assert verified(plan, old) == verified(plan, history)


# Order


class ByRealTime(CausalMerge):
    """The naive order: that of the actors' real clocks."""

    def _next(self) -> AnyEvent | None:
        waiting = [stream.events[0] for stream in self._streams.values() if stream.events]
        return min(waiting, key=lambda event: event.time, default=None)


class NaiveVerification(HistoryVerification):
    def __init__(self, known: CutsOfSystem, actors: Iterable[str], whole: bool) -> None:
        super().__init__(known, actors, whole=whole)
        self.cuts.merge = ByRealTime(actors)


def ahead(history: History, actor: str, seconds: float) -> History:
    """The history as it is where one actor's real clock is ahead."""
    moved = [structs.replace(event, time=event.time + seconds) for event in history[actor]]
    return {**history, actor: moved}


@pytest.mark.parametrize("actor", ["broker", "site", "service_manager"])
def test_where_clocks_differ_the_order_of_time_is_wrong_and_the_consistent_one_is_not(actor: str) -> None:
    plan = plan_in_two_settings(8)
    history = ahead(history_of(plan), actor, 1.5)
    assert verified(plan, history).holds
    naive = verified(plan, history, NaiveVerification)
    assert naive.violations


def test_a_history_that_comes_by_and_by_is_judged_alike() -> None:
    plan = plan_in_two_settings(8)
    history = history_of(plan)
    whole = ConsistentCuts(known(plan.units, plan.lazy), history)
    for actor, events in history.items():
        whole.add(actor, events)
    whole.close()
    parts, found = ConsistentCuts(known(plan.units, plan.lazy), history), list[Cut]()
    for at in range(max(map(len, history.values()))):
        for actor, events in history.items():
            parts.add(actor, events[at : at + 1])
            found += parts.ready()
    early = len(found)
    parts.close()
    found += parts.ready()
    assert early > 0
    by_runs = [
        sorted(((c.run, c.state, c.position) for c in cuts if c.position), key=lambda c: c[0])
        for cuts in (found, whole.ready())
    ]
    assert by_runs[0] == by_runs[1]


# Events that are missing


def test_an_actor_that_stops_again_before_it_has_told_anything_is_down_until_it_does() -> None:
    """Its start counts as heard two ticks later; not where it has stopped meanwhile."""
    system = load("lease", {"max_units": 2, "last_end": 1, "expiry": False})
    sim = LeaseSimulation(compile_system(system), units=2)
    sim.start_all()
    sim.wish("demand", "service_manager:1", 1, 40, 3)
    sim.loop.advance(1.0)
    sim.crash("site")
    sim.start("site")
    sim.crash("site")
    for _ in range(5):
        sim.tick(1.0)
    sim.start("site")
    for _ in range(5):
        sim.tick(1.0)
    chains = {name: [*map(read, disk.chain())] for name, disk in sim.disks.items()}
    sim.close()
    steps = path_of(system, chains, "service_manager:1").steps
    told = [(step.kind, step.state.now) for step in steps if step.event in ("crash:site", "recover:site")]
    assert told == [("crash", 0), ("recover", 7)]
    assert any(0 < (step.state.now or 0) < 7 for step in steps)


def test_a_gap_is_named() -> None:
    plan = plan_in_two_settings(8)
    history = history_of(plan)
    at = next(e.position for e in history["broker"] if isinstance(e, StepEvent) and e.step.sends)
    found = verified(plan, {**history, "broker": [e for e in history["broker"] if e.position != at]})
    assert ("broker", f"events {at} to {at} are missing") in [(f.actor, f.reason) for f in found.faults]


def test_a_message_of_an_actor_that_is_not_followed_is_named() -> None:
    plan = plan_in_two_settings(8)
    history = history_of(plan)
    found = verified(plan, {name: events for name, events in history.items() if name != "broker"})
    assert found.faults
    assert "the events of broker are not here" in found.faults[0].reason


@pytest.mark.parametrize("actor", ["broker", "site", "service_manager"])
def test_what_was_sent_before_the_events_begin_is_missing_and_no_contradiction(actor: str) -> None:
    """The runs that have it are not judged, so no property of theirs is violated."""
    plan, judged = plan_in_two_settings(7), 0
    history = history_of(plan)
    for dropped in range(2, len(history[actor]), 3):
        found = verified(plan, {**history, actor: history[actor][dropped:]})
        assert found.undecided
        assert found.violations == []
        judged += found.cuts > 0
    assert judged > 0


def test_a_message_that_nobody_has_sent_is_named() -> None:
    plan = plan_in_two_settings(8)
    history = history_of(plan)
    last = next(e for e in reversed(history["broker"]) if isinstance(e, StepEvent) and e.step.sends)
    cut = [e for e in history["broker"] if e.position < last.position]
    found = verified(plan, {**history, "broker": cut})
    assert any("no event says that broker has sent it" in f.reason for f in found.faults)


def test_a_system_of_other_constants_is_named() -> None:
    history = history_of(plan_in_two_settings(8))
    found = verified(plan_in_two_settings(9), history)
    assert any(
        f.reason.startswith("its actor has other constants than the system that is asked: ")
        and " there and " in f.reason
        for f in found.faults
    )
