"""Logs of which the oldest events were dropped: what is left is judged, and what cannot be is counted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.conform.logs import read_log
from leasehold.impl.events.chain import ChainError
from leasehold.impl.events.event import AnyEvent, MachineStep, PrunedEvent, StepEvent, digest, write
from leasehold.impl.events.lines import write_lines
from tests.checker.conform.alterations import altered
from tests.checker.conform.by_one import rewritten
from tests.checker.conform.test_alterations import known_lease, lease
from tests.checker.conform.walks import Log, known, walked

SEED = 3
Lane = tuple[str, str, str, int]  # a lease, who sends, who receives, and the message's number


def judged(log: Log, dropped: dict[str, int]) -> tuple[list[Nonconformity], dict[str, JudgedLog]]:
    """What is found where so many events of each actor were dropped."""
    of = known_lease(SEED % 2 == 0)
    conformance = LogConformance(of, [JudgedLog(actor, pruned=dropped.get(actor, 0)) for actor in log])
    for event in conformance.merged((actor, events[dropped.get(actor, 0) :]) for actor, events in log.items()):
        conformance.take(event)
    conformance.end()
    return conformance.findings, {found.actor: found for found in conformance.judged}


@pytest.mark.parametrize("actor", ["service_manager", "broker", "site"])
def test_what_is_left_conforms_and_what_is_not_judged_is_counted(actor: str) -> None:
    log = lease(SEED)
    for count in range(1, len(log[actor]) - 1, 5):
        findings, found = judged(log, dict.fromkeys(log, 0) | {actor: count})
        assert findings == [], count
        left = [event.step for event in log[actor][count:] if isinstance(event, StepEvent)]
        machines = {(step.lease, step.machine) for step in left}
        assert found[actor].steps >= len(left)
        assert found[actor].not_judged <= 3 * len(machines)
        assert found[actor].by_reference == found[actor].steps - found[actor].not_judged


def test_a_wrong_step_is_found_behind_what_was_dropped() -> None:
    of, log = known_lease(SEED % 2 == 0), lease(SEED)
    dropped = {"broker": 4}
    last = max(at for at, event in enumerate(log["broker"]) if isinstance(event, StepEvent))
    other = altered("a_later_state_epoch", of, log, "broker", last)
    assert judged(log, dropped)[0] == []
    assert [f.position for f in judged(other, dropped)[0]] == [last + 1]


def test_a_chain_that_begins_with_no_incarnation_is_found() -> None:
    log = {**lease(SEED)}
    log["site"] = [replace(event, position=at) for at, event in enumerate(log["site"][1:], 1)]
    findings = judged(log, {})[0]
    assert ("site", 1, "no event says that its incarnation has begun") in [
        (f.actor, f.position, f.reason) for f in findings
    ]


@pytest.mark.parametrize(
    ("until", "root", "words"), [(3, "", ""), (3, "0" * 64, "does not follow"), (2, "", "missing")]
)
def test_the_event_that_says_so_has_to_fit(until: int, root: str, words: str) -> None:
    events = lease(SEED)["site"]
    last = events[-1]
    pruned = PrunedEvent(
        position=last.position + 1,
        before=digest(write(last)),
        actor="site",
        epoch=last.epoch,
        spec=last.spec,
        now=last.now,
        time=last.time,
        commit=last.commit,
        until=until,
        root=root or digest(write(events[2])),
    )
    lines = [*write_lines("site", map(write, [*events[3:], pruned]), 0.0)]
    if not words:
        log = read_log(lines, None)
        assert (log.pruned, log.events[0].position) == (3, 4)
        return
    with pytest.raises(ChainError, match=words):
        read_log(lines, None)


@pytest.mark.parametrize("name", ["lease", "two_phase_commit", "examples/ring"])
def test_what_the_first_event_that_is_left_has_sent_is_judged(name: str) -> None:
    """A receipt is judged where the event that has sent its number is left, and no other: at each place of pruning."""
    log, at_first = walked(name, SEED), 0
    for actor, events in log.items():
        for count in range(1, len(events)):
            left = {**log, actor: events[count:]}
            conformance = LogConformance(known(name), [JudgedLog(a, pruned=count * (a == actor)) for a in left])
            for event in conformance.merged(left.items()):
                conformance.take(event)
            conformance.end()
            assert conformance.findings == []
            sent = sends(left)
            others = {one.actor: one.messages for one in conformance.judged if one.actor != actor}
            known_ones = {name: [of for of in receipts(left, name) if of in sent] for name in others}
            assert others == {name: len(found) for name, found in known_ones.items()}, (actor, count)
            first = sends({actor: events[count : count + 1]})
            at_first += any(of in first for found in known_ones.values() for of in found)
    assert at_first > 1


def sends(log: Log) -> set[Lane]:
    steps = [step for events in log.values() for event in events for step in steps_of(event)]
    return {(step.lease, step.machine, sent.to, sent.number) for step in steps for sent in step.sends}


def receipts(log: Log, actor: str) -> list[Lane]:
    steps = [step for event in log[actor] for step in steps_of(event)]
    return [(s.lease, s.received.machine, s.machine, s.received.number) for s in steps if s.received is not None]


def steps_of(event: AnyEvent) -> list[MachineStep]:
    return [*event.steps()]


def test_a_gap_in_a_channel_that_keeps_order_is_found() -> None:
    """From some receipt on numbers are one higher, as if one message were lost; its sender's log is not there."""
    name, tried = "examples/ring", 0
    for seed in range(3):
        log, of = walked(name, seed), known(name)
        for actor, events in log.items():
            assert judged_alone(of, actor, events) == []
            for at, event in enumerate(events):
                step = event.step if isinstance(event, StepEvent) else None
                if step is None or step.received is None or not of.program.messages[step.event].ordered:
                    continue
                if step.received.actor == actor or step.received.number == 1:
                    continue
                later = shifted(events, at, step.lease, step.received.machine, step.machine)
                words = [found for found in judged_alone(of, actor, later) if "keeps order" in found]
                assert len(words) == 1, (seed, actor, at)
                assert f"message {step.received.number + 1} of {step.received.machine}" in words[0]
                tried += 1
    assert tried > 3


def judged_alone(of: KnownSystem, actor: str, events: list[AnyEvent]) -> list[str]:
    conformance = LogConformance(of, [JudgedLog(actor)])
    for event in conformance.merged([(actor, events)]):
        conformance.take(event)
    conformance.end()
    return [str(found) for found in conformance.findings]


def shifted(events: list[AnyEvent], first: int, lease: str, sender: str, machine: str) -> list[AnyEvent]:
    """The numbers of what a machine receives of another, one higher from an event on."""
    found = []
    for at, event in enumerate(events):
        if at >= first and isinstance(event, StepEvent) and (event.step.lease, event.step.machine) == (lease, machine):
            step = event.step
            numbers = {**step.record.received, sender: step.record.received[sender] + 1}
            step = replace(step, record=replace(step.record, received=numbers))
            if step.received is not None and step.received.machine == sender:
                step = replace(step, received=replace(step.received, number=step.received.number + 1))
            event = replace(event, step=step)
        found.append(event)
    return rewritten(found, 1)
