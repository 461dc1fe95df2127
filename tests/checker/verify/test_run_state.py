"""A run after steps of machines of an actor, and after these have passed to other runs."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, replace

from leasehold.checker.history.fold import MachineOf
from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.verify.cuts import RunState, RunSteps
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import StepEvent
from tests.checker.verify.histories import history_of, known

SEEDS = (3, 8)


def told_of(run: RunState, actor: str, machine: str) -> set[str]:
    """Returns where a run keeps something of a machine of an actor."""
    kept = ((of.name, getattr(run, of.name)) for of in fields(run))
    found = {name for name, of in kept if isinstance(of, dict | set) and (actor, machine) in of}
    return found | ({"machines"} if MachineOf(actor, BELOW, machine) in run.machines.machines else set())


def test_nothing_is_kept_of_a_machine_that_has_passed_to_another_run() -> None:
    """Its place is as at first; what the other run does with it is no news of this one."""
    tried = 0
    for seed in SEEDS:
        of = known(2, seed % 2 == 0)
        steps = RunSteps(of, lambda *given: None)
        for actor, events in history_of(replace(plan_of(seed), units=2, lazy=seed % 2 == 0)).items():
            runs: dict[str, RunState] = {}
            for event in (one for one in events if isinstance(one, StepEvent)):
                name = event.step.serves or event.step.lease
                run = runs.setdefault(name, steps.first(name, len(runs) + 1, event.now))
                steps.take(run, event)
                for machine in (step.machine for step in event.steps() if step.lease == BELOW):
                    after = deepcopy(run)
                    assert told_of(after, actor, machine) == {"machines"}
                    steps.passes(after, actor, machine)
                    assert told_of(after, actor, machine) == set()
                    place = of.machine(machine)
                    assert place is not None
                    at, size = of.layout.at(*place, None), of.layout.stride[place[0]]
                    assert after.state[at : at + size] == list(of.first[at : at + size])
                    tried += 1
    assert tried > 20


def test_a_machine_stands_where_its_last_event_has_left_it() -> None:
    """Of one of which no event has told yet, nothing is known."""
    of, tried = known(2, False), 0
    steps = RunSteps(of, lambda *given: None)
    runs: dict[str, RunState] = {}
    left: dict[tuple[str, str, str], str] = {}
    for actor, events in history_of(replace(plan_of(3), units=2, lazy=False)).items():
        for event in (one for one in events if isinstance(one, StepEvent) and one.step.lease != BELOW):
            name = event.step.lease
            run = runs.setdefault(name, steps.first(name, len(runs) + 1, event.now))
            assert steps.stands(run, actor, event.step) == left.get((actor, name, event.step.machine))
            tried += (actor, name, event.step.machine) in left
            steps.take(run, event)
            left |= {(actor, name, step.machine): step.record.state for step in event.steps() if step.lease == name}
    assert tried > 20
