"""Logs are played again by real actors: the same code takes the same steps, other code is found at the first other."""

from __future__ import annotations

import random
from functools import cache

import pytest
import yaml

from leasehold.checker.history.moments import Moments
from leasehold.checker.recovery.cases.log_case import LogCase, LogPlayer, PlayedLog, UnplayableLog, log_case
from leasehold.checker.recovery.cases.stored import plain_case, read_case
from leasehold.checker.recovery.lease.random_runs.plan import RunPlan, plan_of
from leasehold.spec import System
from tests.checker.verify.histories import History, history_of, known
from tests.checker.verify.test_histories import plan_in_two_settings
from tests.planted.table import named


def system_of(plan: RunPlan) -> System:
    return known(plan.units, plan.lazy).system


def play(system: System, case: LogCase) -> PlayedLog:
    """Plays a case as it comes out of its file."""
    stored = read_case(yaml.safe_load(yaml.safe_dump(plain_case(case), sort_keys=False)), "case.yaml")
    assert isinstance(stored, LogCase)
    return LogPlayer(system, stored).play()


@cache
def history(seed: int) -> History:
    return history_of(plan_of(seed))


def stretches(seed: int, count: int) -> None:
    """Random stretches of a run are played as the log says."""
    system, chance = system_of(plan_of(seed)), random.Random(seed)
    moments = Moments(history(seed))
    for _ in range(count):
        actor = chance.choice([name for name, events in history(seed).items() if len(events) > 4])
        positions = sorted(chance.sample(range(2, len(history(seed)[actor])), 2))
        begin, end = (moments.of_event(actor, at) for at in positions)
        case = log_case(system, "lease", {}, history(seed), begin, end)
        try:
            played = play(system, case)
        except UnplayableLog as error:
            assert "was on its way where this begins, and a later message too" in str(error)  # noqa: PT017
            continue
        assert not played.differs, f"seed {seed}, {actor}:{positions}: {played}"


def test_a_run_with_crashes_and_faults_is_played_as_its_log_says() -> None:
    plan = plan_of(7)
    case = log_case(system_of(plan), "lease", {}, history(7))
    played = play(system_of(plan), case)
    assert (played.same, played.differs) == (len(case.steps), False)
    assert sum("restart" in step for step in case.steps) == 5
    stretches(7, 2)


def test_a_message_that_was_sent_before_and_after_a_restart_is_the_later_one() -> None:
    """Its receiver has heard of the later incarnation, by another lease, and refuses the earlier one."""
    plan = plan_of(33)
    assert not play(system_of(plan), log_case(system_of(plan), "lease", {}, history(33))).differs


def test_one_lease_of_several_is_played_alone() -> None:
    plan = plan_of(13)
    system, lease = system_of(plan), "service_manager:1"
    case = log_case(system, "lease", {}, history(13), leases=[lease])
    whole = log_case(system, "lease", {}, history(13))
    assert len(case.steps) < len(whole.steps)
    assert {step["lease"] for step in case.steps if "lease" in step} <= {lease, "-"}
    assert not play(system, case).differs


@pytest.mark.slow
def test_random_runs_and_stretches_of_them_are_played_as_their_logs_say() -> None:
    for seed in range(40):
        plan = plan_of(seed)
        played = play(system_of(plan), log_case(system_of(plan), "lease", {}, history_of(plan)))
        assert not played.differs, f"seed {seed}: {played}"
        stretches(seed, 3)


BUGS = ["granted_units_not_saved", "received_numbers_not_saved", "unit_not_saved"]


@pytest.mark.parametrize("bug", [BUGS[0], *(pytest.param(bug, marks=pytest.mark.long) for bug in BUGS[1:])])
def test_a_log_of_a_bug_differs_without_it_and_is_the_same_with_it(bug: str) -> None:
    for seed in range(8, 14):
        plan = plan_in_two_settings(seed)
        system = system_of(plan)
        with named(bug).planted():
            case = log_case(system, "lease", {}, history_of(plan))
        played = play(system, case)
        if not played.differs:
            continue
        with named(bug).planted():
            assert not play(system, case).differs
        assert played.difference or played.why
        return
    pytest.fail(f"no log of {bug} differs")


def test_a_stretch_whose_beginning_is_missing_is_refused() -> None:
    plan = plan_of(7)
    cut = {name: events[5:] for name, events in history(7).items()}
    with pytest.raises(UnplayableLog) as raised:
        log_case(system_of(plan), "lease", {}, cut)
    assert "no event before tells of it; begin behind it (--from)" in str(raised.value)
