"""Schedules of a test: what is drawn from a seed and a budget, and what of it happens to actors."""

from __future__ import annotations

from collections import Counter

import pytest

from leasehold.faults.model.budget import Budget, BudgetError
from leasehold.faults.simulation.embedded import EmbeddedSystem
from leasehold.faults.simulation.lease import EmbeddedCluster
from leasehold.faults.simulation.schedule import DRAWN, RunExtent, Schedule, SchedulePlays, schedule_budget
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.lease.demand import DemandError

ALL = schedule_budget("crash=2,lose=2,duplicate=2,reorder=2")


def voted(schedule: Schedule) -> tuple[str | None, dict[str, list[bytes]]]:
    """Plays a transaction that is committed, whatever happens; returns the coordinator's state, and all events."""
    system = EmbeddedSystem("two_phase_commit", {"participants": 2}, schedule=schedule)
    run = system.begin("coordinator", "begin")
    for number in range(2):
        system.tell(f"participant[{number}]", "able", run=run)
    answer = system.state("coordinator", run), system.cluster.events()
    system.stop()
    return answer


def calm() -> Schedule:
    schedule = Schedule(0, ALL, RunExtent())
    assert voted(schedule)[0] == "committed"
    return schedule


def test_a_seed_is_one_schedule_to_the_byte() -> None:
    extent = calm().extent
    assert extent.messages > 5
    assert extent.points > 20
    first, again, other = (Schedule(seed, ALL, extent) for seed in (5, 5, 6))
    assert voted(first) == voted(again)
    assert first.happened == again.happened
    voted(other)
    assert other.happened != first.happened


def test_a_calm_run_has_no_fault_and_its_own_order() -> None:
    schedule = Schedule(0, ALL, RunExtent(100, 100))
    voted(schedule)
    assert not schedule.faults
    assert schedule.happened == calm().happened


def test_a_client_is_heard_once_whatever_happens() -> None:
    """A crash before the commit of what it says, or behind it, is no other answer to the test."""
    extent, faults, orders = calm().extent, Counter[str](), set[tuple[str, ...]]()
    for seed in range(1, 30):
        schedule = Schedule(seed, ALL, extent)
        state, _ = voted(schedule)
        assert state == "committed", (seed, schedule.happened)
        assert all(schedule.faults[name] <= 2 for name in ("crash", "lose", "duplicate")), "a budget is never exceeded"
        faults.update(schedule.faults)
        orders.add(tuple(schedule.happened))
    assert len(orders) > 25
    assert all(faults[name] > 0 for name in DRAWN)


def test_a_crash_comes_at_every_kind_of_point() -> None:
    extent, kinds = calm().extent, Counter[str]()
    for seed in range(1, 40):
        schedule = Schedule(seed, Budget(crash=1), extent)
        voted(schedule)
        kinds.update(word.split()[3] for word in schedule.happened if word.startswith("crash: "))
    assert kinds.keys() == {"commit", "committed", "send"}, "the coordinator of this system calls nobody"


def test_a_refusal_is_one_under_each_schedule() -> None:
    extent = calm().extent
    for seed in range(1, 10):
        system = EmbeddedSystem("two_phase_commit", {"participants": 2}, schedule=Schedule(seed, ALL, extent))
        run = system.begin("coordinator", "begin")
        with pytest.raises(ActorError, match="'abel'"):
            system.tell("participant[0]", "abel", run=run)
        system.stop()


def test_a_lease_is_had_under_each_schedule() -> None:
    first = Schedule(0, ALL, RunExtent())
    for schedule in (first, *(Schedule(seed, ALL, RunExtent(13, 110)) for seed in range(1, 12))):
        cluster = EmbeddedCluster(units=3, schedule=schedule)
        lease = cluster.lease(units=2, until=30)
        cluster.advance(5)
        cluster.flex(lease, 3)
        cluster.advance(6)
        assert cluster.state(lease)["service_manager"] == "active"
        assert len(cluster.units()) == 3
        with pytest.raises((ActorError, DemandError), match="units is 9"):
            cluster.lease(units=9, until=30)
        cluster.close(lease)
        assert cluster.units() == set()
        cluster.stop()
    assert first.extent.messages > 8


def test_a_partition_and_an_actor_that_is_away_stay_so_under_each_schedule() -> None:
    extent = calm().extent
    for seed in range(1, 10):
        system = EmbeddedSystem("two_phase_commit", {"participants": 2}, schedule=Schedule(seed, ALL, extent))
        run = system.begin("coordinator", "begin")
        system.crash("participant-0", restart=False)
        with system.partition("coordinator", "participant-1"):
            system.tell("participant[1]", "able", run=run)
            assert system.state("participant[1]", run) == "prepared"
        assert system.state("coordinator", run) == "asking"
        assert system.state("participant[0]", run) is None
        system.restart("participant-0")
        system.tell("participant[0]", "able", run=run)
        assert system.state("coordinator", run) == "committed"
        system.stop()


def test_what_a_schedule_has_cannot_be_given_too() -> None:
    with pytest.raises(ValueError, match="under a schedule rule and transport cannot be given"):
        EmbeddedCluster(schedule=calm(), rule=calm().rule, transport=lambda name: None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("halt=1", r"a schedule has no halt \(there are: crash, lose, duplicate, reorder\)"),
        ("crash=any", "crash needs a number from 0 to 99"),
        ("", "there is no fault in an empty text"),
    ],
)
def test_a_budget_of_schedules_has_faults_that_they_have(text: str, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        schedule_budget(text)


def test_any_number_of_losses_is_a_share_of_the_messages() -> None:
    extent = calm().extent
    lost = []
    for seed in range(1, 30):
        schedule = Schedule(seed, Budget(lose="any"), extent)
        assert voted(schedule)[0] == "committed"
        lost.append(schedule.faults["lose"])
    assert 2 < max(lost) <= extent.messages // 4 + 1


def test_plays_that_are_alike_count_once_and_empty_ones_do_not() -> None:
    plays = SchedulePlays([3, 3, 8], Budget(crash=1, lose=2))
    assert plays.seeds == [0, 3, 8]
    for seed, happened in zip(plays.seeds, (["a"], ["a"], []), strict=True):
        plays.begin(seed)
        schedule = plays.next()
        schedule.happened = happened
        schedule.faults["lose"] += bool(seed)
        plays.end()
        assert plays.last == (seed == 8)
    assert str(plays) == "3 schedules, 1 different, crash never, lose 2"
