"""Machines that a log forgets: each is there, in the state that is told, at its end, and its actor's to forget."""

from __future__ import annotations

import pytest

from leasehold.checker.conform.known import KnownSystem
from leasehold.impl.events.event import ForgottenEvent, StepEvent
from tests.checker.conform.by_one import rewritten
from tests.checker.conform.walks import Log, judged, known, walked

NAME = "two_phase_commit"


def forgetting(log: Log, actor: str, lease: str, machine: str, state: str) -> Log:
    """A log at whose end an actor forgets a machine."""
    last = log[actor][-1]
    event = ForgottenEvent(
        position=last.position + 1,
        before="",
        actor=actor,
        epoch=last.epoch,
        spec=last.spec,
        now=last.now,
        time=last.time,
        commit=last.commit + 1,
        lease=lease,
        machine=machine,
        state=state,
    )
    return {**log, actor: rewritten([*log[actor], event], log[actor][0].position)}


def reasons(of: KnownSystem, log: Log, actor: str) -> list[str]:
    """Returns what is found at the last event of an actor."""
    return [one.reason for one in judged(of, log)[0] if (one.actor, one.position) == (actor, len(log[actor]))]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_forgotten_was_there_and_is_over(seed: int) -> None:
    """Every machine of a walk, in each state of its role, and machines that are not there."""
    of, log = known(NAME), walked(NAME, seed)
    left: dict[tuple[str, str, str], str] = {}
    for actor, events in log.items():
        for event in events:
            if isinstance(event, StepEvent):
                left[actor, event.step.lease, event.step.machine] = event.step.record.state
            elif isinstance(event, ForgottenEvent):
                left.pop((actor, event.lease, event.machine), None)
    assert left
    for (actor, lease, machine), state in left.items():
        core, _ = of.program.machines[machine]
        for told in core.states:
            found = reasons(of, forgetting(log, actor, lease, machine, told), actor)
            if told != state:
                assert found == [f"it forgets {machine} in {told}, and it is in {state}"]
            elif not core.over(told):
                assert found == [f"it forgets {machine} in {told}, which is not its end"]
            else:
                assert found == []
        for lacking, run in (("nobody", lease), (machine, f"{lease}9")):
            found = reasons(of, forgetting(log, actor, run, lacking, state), actor)
            assert found == [f"it forgets {lacking}, of which there is no event"]
