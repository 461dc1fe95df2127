"""Every step of real actors is one of the specification: mistakes in the loop that break no invariant are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from leasehold.checker.recovery.lease.random_runs.plan import PlannedEvent, RunPlan
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.impl.actor.ready import Ready, StartCall
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.actor.turns import TurnLoop
from leasehold.impl.core.work import CallWork, Record, Work
from leasehold.impl.notices import Consumed, Kind, Notice


def twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is begun twice."""
    start = Stepper.start

    def begins(
        self: Stepper, ready: Ready, instance: MachineInstance, work: tuple[Work, ...], again: bool, anew: bool = False
    ) -> None:
        start(self, ready, instance, work, again, anew)
        calls = (piece for piece in work if isinstance(piece, CallWork) and not again)
        ready.effects += [StartCall(instance.key, piece, instance.state_epoch) for piece in calls]

    monkeypatch.setattr(Stepper, "start", begins)


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that has ended a lease does not say so."""
    send = Stepper.send

    def sends(self: Stepper, ready: Ready, instance: MachineInstance, piece: Any) -> None:
        if instance.key.machine != "authority" or not instance.core.over(instance.state):
            send(self, ready, instance, piece)

    monkeypatch.setattr(Stepper, "send", sends)


def unnumbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a message that moves nothing is not kept."""
    change = Stepper._set

    def sets(self: Stepper, ready: Ready, instance: MachineInstance, record: Record) -> None:
        at, subsidiary = instance.core.state_epoch_at, instance.core.subsidiary
        if subsidiary or record[at] != instance.record[at]:
            change(self, ready, instance, record)

    monkeypatch.setattr(Stepper, "_set", sets)


QUIET = RunPlan(1, 2, True, 12, (PlannedEvent(0, "demand", "1", (1, 9, 3)), PlannedEvent(1, "demand", "2", (2, 12, 4))))

# Terms in which the lease grows and shrinks: a broker hears of it and stays in its state.
FLEXED = RunPlan(
    1,
    2,
    True,
    20,
    (
        PlannedEvent(0, "demand", "1", (1, 9, 3)),
        PlannedEvent(1, "flex", "1", (2,)),
        PlannedEvent(4, "flex", "1", (1,)),
    ),
)


@pytest.mark.parametrize(
    ("mistake", "plan", "words"),
    [
        (twice, QUIET, "broker of service_manager:1 calls allocate, allocate at ticket {units: 1, "),
        (silent, QUIET, "authority of service_manager:1 sends nothing at torn_down in closing"),
        (unnumbered, FLEXED, "broker of service_manager:1 begins with {counted: 2, received: (3)} at shrunk "),
    ],
)
def test_a_mistake_breaks_a_step(
    mistake: Callable[[pytest.MonkeyPatch], None], plan: RunPlan, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it breaks no invariant; events have what should have followed."""
    assert RandomRun(plan).play().findings == []
    mistake(monkeypatch)
    found = [finding for finding in RandomRun(plan).play().findings if finding.check != "events"]
    assert {finding.check for finding in found} - {"invariant"} == {"step"}
    assert words in next(finding.words for finding in found if finding.check == "step")


def strange(alter: Callable[[Notice], Notice | None]) -> list[str]:
    """Returns what is said of a run in which a subscriber alters what actors are about to do."""
    run = RandomRun(QUIET)
    run.sim.subscribers.insert(0, alter)
    run.play()
    assert run.steps.compared > 30
    return run.steps.strange


def test_nothing_is_said_of_a_run_that_only_loses_messages() -> None:
    lost: list[str] = []

    def loses(notice: Notice) -> None:
        if notice.kind is Kind.RECEIVE and len(lost) < 9:
            lost.append(notice.name)
            raise Consumed

    assert strange(loses) == []
    assert len(lost) == 9


def test_a_message_with_other_fields_is_strange_where_it_leaves_and_where_it_is_taken() -> None:
    def sends(notice: Notice) -> Notice | None:
        if notice.kind is Kind.SEND and notice.name == "ticket":
            return replace(notice, data={**notice.data, "fields": {**notice.data["fields"], "end": 7}})
        return None

    said = strange(sends)
    lease, ticket = "of service_manager:1", 'ticket {units: 1, start: 0, end: 7, type: "", properties: {}}'
    assert f"service_manager {lease} sends {ticket} as message 1, which no committed step has sent" in said[0]
    assert f"broker {lease} receives as message 1 of service_manager {ticket}" in said[1]


def test_a_message_that_is_sent_before_the_commit_is_strange(monkeypatch: pytest.MonkeyPatch) -> None:
    async def carry_out(self: TurnLoop, ready: Ready) -> None:
        self.effects.carry_out(ready)
        await self.chronicle.write(ready)

    monkeypatch.setattr(TurnLoop, "carry_out", carry_out)
    assert "which no committed step has sent" in strange(lambda notice: None)[0]


def test_what_was_in_doubt_when_an_actor_stopped_was_committed_or_never_was() -> None:
    """At each point at which an actor may stop; the steps before and after it are one run."""
    for actor in ("service_manager", "broker", "site"):
        for after in range(1, 13, 2):
            acts = (PlannedEvent(0, "crash_within", actor, (after, 1)), *QUIET.acts)
            run = RandomRun(replace(QUIET, acts=acts))
            assert run.play().findings == []
            assert run.outcome.crashes == 1
            assert run.steps.compared > 30
