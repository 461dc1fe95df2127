"""A number of messages that a record has lost is reported, also where it is one smaller than before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.lanes import ReplayedLane
from leasehold.impl.events.event import StepEvent
from tests.checker.conform.alterations import rewritten
from tests.checker.conform.walks import known, walked
from tests.checker.verify.test_altered import cuts_of

SYSTEM = "two_phase_commit"


def faults(log: Any) -> list[str]:
    verification = HistoryVerification(cuts_of(known(SYSTEM)), log, whole=True)
    for actor, events in log.items():
        verification.add(actor, events)
    result = verification.end()
    verification.close()
    return [fault.reason for fault in result.faults]


@pytest.mark.parametrize("way", ["sent", "received"])
def test_a_number_that_is_one_smaller_than_it_was_is_reported(way: str) -> None:
    """Of each neighbour with which the step exchanges nothing: no other event of the machine speaks of it."""
    tried = 0
    for seed in range(3):
        log, had = walked(SYSTEM, seed), dict[tuple[str, str], dict[str, int]]()
        assert faults(log) == []
        for actor, events in log.items():
            for at, event in enumerate(events):
                if not isinstance(event, StepEvent):
                    continue
                step = event.step
                numbers: dict[str, int] = getattr(step.record, way)
                before = had.get((step.lease, step.machine), {})
                talks = {sent.to for sent in step.sends} | ({step.received.machine} if step.received else set())
                for name in sorted(n for n in before if n not in talks and numbers.get(n) == before[n]):
                    record = replace(step.record, **{way: {**numbers, name: numbers[name] - 1}})
                    other = replace(event, step=replace(step, record=record))
                    changed = {**log, actor: rewritten([*events[:at], other, *events[at + 1 :]])}
                    what = "sent to" if way == "sent" else "received from"
                    words = f"the last number {what} {name} is {numbers[name] - 1}; it was {numbers[name]} before"
                    assert any(words in reason for reason in faults(changed)), (seed, actor, at, name)
                    tried += 1
                had[step.lease, step.machine] = numbers
    assert tried > 3


@pytest.mark.parametrize("kind", ["mailbox", "fifo", "bag", "set"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_left_in_a_channel_after_a_receipt_at_each_number(kind: Any, number: int) -> None:
    """Below, at, and above: a mailbox drops all up to the number, the others the very message, a set nothing."""
    lane = ReplayedLane(SimpleNamespace(kind=kind))  # type: ignore[arg-type]
    for n in (1, 2, 3):
        lane.send(n, f"m{n}", ())
    lane.receive(number)
    left = [n for n in (1, 2, 3) if (n > number if kind == "mailbox" else n != number or kind == "set")]
    assert [entry[0] for entry in lane.waiting] == left
    if kind == "mailbox":
        for n in (number - 1, number, number + 1):  # sent again: what was received is not on its way
            lane.waiting.clear()
            lane.send(n, "again", ())
            assert [entry[0] for entry in lane.waiting] == [n] * (n > number)
