"""Causes of steps: of all that a log may name, those that the tasks and the contract of a machine's state allow."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from leasehold.checker.conform.known import KnownSystem
from leasehold.impl.events.event import MachineStep, StepEvent
from leasehold.spec.language.model import Call, Drive
from tests.checker.conform.alterations import OTHER, rewritten
from tests.checker.conform.test_reasons import NAMES
from tests.checker.conform.walks import judged, known, walked

CAUSES = (*OTHER, "nobody")


def allowed(of: KnownSystem, step: MachineStep) -> set[str]:
    """Returns from where the event of a step may come, as its role's text says; parents are left open."""
    core, _ = of.program.machines[step.machine]
    if step.event == "tick":
        return {"timer"}
    if step.received is not None:
        return {"message"}
    tasks = of.system.roles[core.role].tasks.values()
    outside = {o.event for o in of.system.environment.values() if o.role == core.role}
    may = not core.subsidiary or step.event in outside
    if step.answers is not None:
        calls = {task.target.split(".")[0] for task in tasks if isinstance(task, Call) and step.event in task.answers}
        return calls | ({"policy"} if may else set())
    driven = any(isinstance(task, Drive) and step.event in task.answers for task in tasks)
    return ({"subsidiary"} if driven else set()) | ({"client", "probe", "policy"} if may else set())


@pytest.mark.parametrize("name", NAMES)
def test_a_cause_is_taken_if_the_text_has_it(name: str) -> None:
    """Each role's events in each of its states once, with every cause; what is not allowed is found at the step."""
    of, log, seen = known(name), walked(name, 0), set[Any]()
    tried = {True: 0, False: 0}
    for actor, events in log.items():
        for at, event in enumerate(events):
            if not isinstance(event, StepEvent):
                continue
            step = event.step
            key = step.machine.partition("[")[0], step.source, step.event, step.answers is None
            if key in seen:
                continue
            seen.add(key)
            for cause in CAUSES:
                if cause == step.cause or cause == "parent":
                    continue
                other = replace(event, step=replace(step, cause=cause))
                findings, _ = judged(of, {**log, actor: rewritten([*events[:at], other, *events[at + 1 :]])})
                here = [one.reason for one in findings if (one.actor, one.position) == (actor, at + 1)]
                may = cause in allowed(of, step)
                tried[may] += 1
                if may:  # then at most the contract of the environment is broken
                    assert not any(" cannot come from " in reason for reason in here), (step, cause)
                else:
                    assert here, (step, cause)
    assert tried[False] > 2
