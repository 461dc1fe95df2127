"""Runs whose events alone are read: what the observer sees broken is reported, and nothing else."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from leasehold.checker.recovery.lease.random_runs.plan import PlannedEvent, RunPlan
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.own import own_queries
from leasehold.checker.verify.result import HistoryResult
from leasehold.impl.events.event import RefusedEvent
from tests.campaigns.readings import agreement, groups
from tests.campaigns.watched import judged
from tests.checker.verify.databases import KINDS
from tests.planted.table import bugs, named
from tests.watched.seeded import Reported, known_trials, play, reported, reported_json
from tests.watched.sources import OTHERS, RandomWalks, events_of, known_lease, source_of

QUICK = {"pipe": 6, "fixed_ring": 4, "captures": 4}


@pytest.mark.parametrize("system", QUICK)
def test_random_walks_of_correct_systems_raise_no_alarm(system: str) -> None:
    walks = RandomWalks(OTHERS[system])
    (batch,) = walks.batches(range(QUICK[system]), 10)
    found = judged(batch)
    assert found.alarms == {}
    assert found.cuts > found.runs >= QUICK[system]
    assert found.faults["crash"] == QUICK[system]


@pytest.mark.long
def test_random_runs_of_the_lease_raise_no_alarm_also_where_clocks_differ() -> None:
    batches = [*source_of("lease").batches(range(60), 40)]
    assert any("clocks differ" in batch.setting for batch in batches)
    assert [found.alarms for found in map(judged, batches) if found.alarms] == []


def test_an_alarm_is_counted() -> None:
    walks = RandomWalks(OTHERS["pipe"])
    with named("sent_numbers_not_saved").planted():
        (batch,) = walks.batches(range(6), 10)
        found = judged(batch)
    assert found.alarms


# Seeded bugs


def test_each_bug_has_a_run_or_a_reason() -> None:
    known = known_trials()
    assert known.keys() == {bug.name for bug in bugs()}
    assert [name for name, one in known.items() if one.seed < 0 and not one.reason] == []


def test_what_the_observer_sees_is_what_is_reported() -> None:
    trial = play("request_not_saved", "lease", 9)
    assert trial.broken == {"service_manager:2": {"requests_are_whole"}}
    assert [v.property for v in trial.reported["service_manager:2"]] == ["requests_are_whole"]
    assert any("which does not write requested_end" in words for words in trial.faults)
    without = play("", "lease", 9)
    assert (without.broken, without.reported, without.faults) == ({}, {}, [])


def test_figures_count_what_was_missed() -> None:
    (one,) = reported(["request_not_saved"])
    assert one.trial is not None
    one.trial.reported.clear()
    missed = Reported(one.bug, one.trial)
    figures = reported_json([missed], 0)
    assert (figures["bugs"], figures["shown_by_events"], figures["right_invariant"]) == (1, 1, 0)
    assert missed.verdict == "fault"


@pytest.mark.slow
def test_every_bug_that_breaks_an_invariant_is_reported() -> None:
    figures = reported_json(reported(), 0)
    assert figures["right_invariant"] == figures["shown_by_events"] > 0
    assert figures["false_alarms"] == 0


# Readings


@pytest.mark.parametrize(("system", "kind"), [*(("pipe", kind) for kind in KINDS), ("fixed_ring", "sqlite")])
def test_readings_agree_on_the_cuts_of_real_actors(system: str, kind: str) -> None:
    (group,) = groups(system, 4)
    found = agreement(group, [kind])
    assert found.differ == []
    assert found.both
    assert min(found.verdicts["held"], found.verdicts["violated"]) > 0


# A unit that two leases have

ACTS = (
    PlannedEvent(0, "handler", "", (8, 0), "teardown"),
    PlannedEvent(0, "demand", "1", (1, 5, 3, 0)),
    PlannedEvent(5, "crash", "site", (0,)),
    PlannedEvent(6, "demand", "2", (2, 20, 5, 0)),
)


def _of_two_leases(*planted: str) -> tuple[HistoryResult, list[str]]:
    """Returns what verify says with a query of one's own, and what the core has refused."""
    run = RandomRun(RunPlan(0, 2, True, 12, ACTS))
    with ExitStack() as stack:
        for name in planted:
            stack.enter_context(named(name).planted())
        run.play()
    history = events_of(run.disks)
    own = own_queries([Path(__file__).with_name("unit_of_two_leases.sql")])
    verification = HistoryVerification(known_lease(2, True), history, more=own, whole=True)
    for actor, events in history.items():
        verification.add(actor, events)
    result = verification.end()
    verification.close()
    refused = [e.reason for events in history.values() for e in events if isinstance(e, RefusedEvent)]
    return result, refused


def test_a_unit_that_a_policy_gives_twice_is_refused_by_the_core_and_events_say_so() -> None:
    result, refused = _of_two_leases("double_allocation")
    assert result.violations == []
    assert any("it breaks the contract `placed`" in words for words in refused)


def test_a_unit_of_two_leases_is_found_by_a_query_across_runs() -> None:
    result, refused = _of_two_leases("double_allocation", "contracts_not_enforced")
    assert refused == []
    assert {v.property for v in result.violations} >= {"unit_of_two_leases"}
    correct, _ = _of_two_leases()
    assert correct.violations == []
