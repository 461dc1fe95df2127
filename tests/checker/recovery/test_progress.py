"""Work that machines owe and that nobody does is found, whatever else a run looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from leasehold.checker.recovery import progress
from leasehold.checker.recovery.lease.random_runs.campaign import random_campaign
from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.outbox import Outbox
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance, MachineTable


def _every(nth: int) -> Callable[[], bool]:
    """True at every n-th call."""
    left = [nth]

    def now() -> bool:
        left[0] = left[0] - 1 or nth
        return left[0] == nth

    return now


def _timers_are_lost(patch: pytest.MonkeyPatch) -> None:
    due = MachineTable.due
    patch.setattr(MachineTable, "due", lambda self, now: islice(due(self, now), 1, None))


def _calls_are_lost(patch: pytest.MonkeyPatch) -> None:
    begin, lost = HandlerCalls.begin, _every(7)

    def sometimes(self: HandlerCalls, *arguments: Any) -> None:
        if not lost():
            begin(self, *arguments)

    patch.setattr(HandlerCalls, "begin", sometimes)


def _requests_are_sent_once(patch: pytest.MonkeyPatch) -> None:
    later, lost = Outbox._later, _every(5)

    def sometimes(self: Outbox, pending: Any, pause: float) -> None:
        if lost():
            self.drop(pending.key, pending.neighbour)
        else:
            later(self, pending, pause)

    patch.setattr(Outbox, "_later", sometimes)


def _rechecks_are_lost(patch: pytest.MonkeyPatch) -> None:
    recheck = Stepper.recheck

    def alone(self: Stepper, ready: Any, instance: MachineInstance) -> None:
        if instance.key in ready.moved:  # a unit has moved the machine that waits for it, and not that itself
            recheck(self, ready, instance)

    patch.setattr(Stepper, "recheck", alone)


def _found(runs: int) -> Iterator[str]:
    for failed in random_campaign(runs, seed=3, jobs=1).failures:
        yield from (finding.words for finding in failed.findings if finding.check == "progress")


@pytest.mark.long
@pytest.mark.parametrize(
    ("seeded", "words"),
    [
        (_timers_are_lost, "and its timer has run out"),
        (_calls_are_lost, "and no handler is at work on"),
        (_requests_are_sent_once, "is not sent any more"),
        (_rechecks_are_lost, ", which has come true"),
    ],
)
def test_what_is_owed_is_found(seeded: Callable[..., None], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(monkeypatch)
    assert any(words in found for found in _found(12))


@pytest.mark.long
def test_nothing_is_owed_where_nothing_is_wrong() -> None:
    assert [*_found(40)] == []


def test_a_machine_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing found says nothing where nothing was looked at."""
    seen: set[str] = set()
    idle = progress._idle_tasks
    monkeypatch.setattr(progress, "_idle_tasks", lambda *a: seen.add(a[0].role.name) or idle(*a))
    random_campaign(3, seed=3, jobs=1)
    assert seen == {"service_manager", "broker", "authority", "unit", "guest"}
