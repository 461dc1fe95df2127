"""Every alteration of a log is found, over all systems; and logs of correct runs conform."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from msgspec import structs

from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.recovery.lease.random_runs.run import compiled
from leasehold.impl.events.event import AnyEvent, FoundEvent, MachineRecord, RecoveredEvent, RefusedEvent, StepEvent
from tests.checker.conform.alterations import ALTERATIONS, altered, rewritten
from tests.checker.conform.walks import SYSTEMS, Log, judged, known, walked
from tests.checker.verify.histories import history_of

WALKS = 2  # of each system
EACH = 1  # places at which a log is altered in one way
LEASES = (3, 8, 15)  # seeds of random runs of the lease
PYTHON = re.compile(r"\{'|\(['(]|\[[('{]|frozenset|StartedCall|None|True|False")  # never so in the language


@cache
def known_lease(lazy: bool) -> KnownSystem:
    program, properties = compiled(2, lazy)
    return KnownSystem(properties.system, program)


@cache
def lease(seed: int) -> Log:
    return history_of(replace(plan_of(seed), units=2, lazy=seed % 2 == 0))


@cache
def logs() -> tuple[tuple[str, KnownSystem, Log], ...]:
    found = [(name, known(name), walked(name, seed)) for name in SYSTEMS for seed in range(WALKS)]
    return (*found, *(("lease", known_lease(seed % 2 == 0), lease(seed)) for seed in LEASES))


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_actors_do_conforms(name: str) -> None:
    for seed in range(WALKS):
        findings, found = judged(known(name), walked(name, seed))
        assert findings == []
        assert sum(log.steps for log in found) > 3
        assert all(log.by_reference == log.steps and not log.not_judged for log in found)
        for log in found:
            counts = counted_of(walked(name, seed)[log.actor])
            assert counts == {word: getattr(log, word) for word in counts}


def counted_of(events: list[AnyEvent]) -> dict[str, int]:
    """Returns what is said of how much was judged."""
    kinds = Counter(type(event) for event in events)
    steps = [step for event in events for step in event.steps()]
    return {
        "events": len(events),
        "steps": len(steps),
        "refusals": kinds[RefusedEvent],
        "incarnations": kinds[RecoveredEvent],
        "messages": sum(step.received is not None for step in steps),
        "pruned": 0,
    }


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_of_the_lease_conform(seed: int) -> None:
    findings, found = judged(known_lease(seed % 2 == 0), lease(seed))
    assert findings == []
    assert sum(log.steps for log in found) > 10


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_an_alteration_is_found(alteration: str) -> None:
    rng = random.Random(alteration)
    made: Counter[str] = Counter()
    for name, of, log in logs():
        places = [(actor, at) for actor, events in log.items() for at in range(len(events))]
        rng.shuffle(places)
        done = 0
        for actor, at in places:
            other = altered(alteration, of, log, actor, at) if done < EACH else None
            if other is None or other == log:
                continue
            done += 1
            findings, _ = judged(of, other)
            assert findings, (alteration, name, actor, log[actor][at])
            assert not [one.reason for one in findings if PYTHON.search(one.reason)]
            for one in findings:
                if "with a number that it has received before" in one.reason:
                    assert_received_before(other[one.actor], one.position)
                assert one.actor == actor or one.what == "message" or one.lease, (alteration, name, actor, one)
        made[name] += done
    assert made.total(), "it applies nowhere"


def assert_received_before(events: list[AnyEvent], position: int) -> None:
    """The number of the message that a step receives is none that is new to the machine."""
    taken = events[position - 1]
    assert isinstance(taken, StepEvent)
    assert taken.step.received is not None
    number, sender = taken.step.received.number, taken.step.received.name
    earlier = (step for event in events[: position - 1] if isinstance(event, StepEvent) for step in event.steps())
    of = [step for step in earlier if (step.lease, step.machine) == (taken.step.lease, taken.step.machine)]
    assert number <= (of[-1].record.received.get(sender, 0) if of else 0)


def test_what_is_sent_again_may_say_how_far_machines_have_come_since() -> None:
    """One of two shelves is filled after the message was sent; so, sent again, it says 1 and never 2."""
    name = "tests/checker/conform/depot"
    log = walked(name, 2)
    actor, at, event = next(
        (actor, at, event)
        for actor, events in log.items()
        for at, event in enumerate(events)
        if isinstance(event, StepEvent) and event.step.event == "shown"
    )
    found = []
    for full in range(3):
        other = structs.replace(event, step=structs.replace(event.step, fields={"full": full}))
        findings, _ = judged(known(name), {**log, actor: rewritten([*log[actor][:at], other, *log[actor][at + 1 :]])})
        found.append([one.what for one in findings])
    assert found == [[], [], ["message"]]


def test_a_machine_that_begins_no_runs_and_begins_one_is_found() -> None:
    of = known("two_phase_commit")
    system = KnownSystem(of.system, replace(of.program, begun_by=()))
    log = walked("two_phase_commit", 0)
    findings, _ = judged(system, log)
    runs = {step.step.lease for step in log["coordinator"] if isinstance(step, StepEvent)}
    assert runs
    assert [f"{one.actor}: {one.reason}" for one in findings] == [
        f"coordinator: coordinator begins {run}, and begins no runs of two_phase_commit" for run in sorted(runs)
    ]


def test_a_record_that_is_lost_in_a_later_incarnation_may_be_why_a_step_is_wrong() -> None:
    """Also where an earlier incarnation has had it: here one more begins at once, without it."""
    tried = 0
    for _, of, log in logs():
        for actor, events in log.items():
            for begins, event in enumerate(events):
                if not isinstance(event, RecoveredEvent) or not event.records:
                    continue
                at, step = next(
                    ((at, one.step) for at, one in enumerate(events) if at > begins and isinstance(one, StepEvent)),
                    (0, None),
                )
                if step is None or step.machine not in event.records.get(step.lease, ()):
                    continue
                without = {**event.records[step.lease], step.machine: "0" * 16}
                again = structs.replace(event, records={**event.records, step.lease: without})
                wrong = altered("a_later_state_epoch", of, log, actor, at)[actor]
                later = [structs.replace(one, epoch=one.epoch + 1) for one in (again, *wrong[begins + 1 :])]
                findings, _ = judged(of, {**log, actor: rewritten([*wrong[: begins + 1], *later])})
                (found,) = (one for one in findings if (one.actor, one.position) == (actor, at + 2))
                assert found.what == "record", found
                assert "its record may have been lost before incarnation" in found.reason
                tried += 1
    assert tried > 3


def test_a_record_that_was_only_found_and_is_lost_later_is_noticed() -> None:
    """An actor whose log begins late tells of each record that it has, and comes back without one of them."""
    tried = 0
    for _, of, log in logs():
        for actor, events in log.items():
            for at, event in enumerate(events):
                if not at or not isinstance(event, RecoveredEvent) or not event.records:
                    continue
                told = [step for one in events[:at] for step in one.steps()]
                last = {(step.lease, step.machine): step.record for step in told}
                keys = [(lease, machine) for lease, some in event.records.items() for machine in some]
                found = [found_again(event, *key, last[key]) for key in keys]
                begun = structs.replace(event, machines=len(keys))
                for lost in (None, *keys):
                    has = {
                        lease: {m: digest for m, digest in some.items() if (lease, m) != lost}
                        for lease, some in event.records.items()
                    }
                    back = structs.replace(begun, epoch=event.epoch + 1, records=has)
                    findings, _ = judged(of, {actor: rewritten([begun, *found, back])})
                    records = [one.machine for one in findings if one.what == "record"]
                    assert records == ([] if lost is None else [lost[1]]), findings
                    tried += 1
    assert tried > 3


def found_again(event: RecoveredEvent, lease: str, machine: str, record: MachineRecord) -> FoundEvent:
    of = {name: getattr(event, name) for name in ("actor", "epoch", "spec", "now", "time", "commit")}
    return FoundEvent(position=0, before="", lease=lease, machine=machine, record=record, **of)


def test_there_are_many_alterations() -> None:
    assert len(ALTERATIONS) >= 30
