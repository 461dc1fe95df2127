"""Every state that waits says for whom or what, since when, and until when at most.

The states are those of the specification of every shipped system, each with records that the explorer has reached; what
is to be said of them is read from the specification here once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from leasehold.checker.explain.explained_machines import ExplainedMachines
from leasehold.checker.explain.machines import KnownActor, KnownMachine, KnownMachines
from leasehold.checker.explain.views import EventViews
from leasehold.checker.explore import explore
from leasehold.checker.history.fold import MachineOf
from leasehold.cli.leases import explained
from leasehold.faults.model import Budget
from leasehold.impl.actor.chronicle import EventDescriber
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import TICK, Record
from leasehold.spec import SHIPPED
from leasehold.spec.language.model import Call, Drive, Role
from tests.impl.compiler.twin import Twin
from tests.systems import load

SETTINGS: dict[str, dict[str, Any]] = {
    "lease": {"max_units": 1, "retiring": True, "repair_limit": 0, "replace_limit": 0},
    "contention": {"leases": 1, "losses": True, "retiring": True, "closing": True},
    "two_phase_commit": {"participants": 2},
    "three_phase_commit": {"participants": 2},
    "three_phase_commit_termination": {"participants": 2},
}
FAULTS = {"three_phase_commit_termination": "crash=1"}  # without which states are not reached
LEASE, SINCE = "tenant:1", -3


def leads_on(role: Role, state: str) -> Iterator[str]:
    """The events that take a machine out of a state."""
    for event, cases in role.states[state].on.items():
        if any(case.target != state for case in cases):
            yield event


class Waiting:
    """The states of a system, each with a few of the records with which the explorer has reached it."""

    RECORDS = 3  # of each state

    def __init__(self, name: str) -> None:
        self.system = load(name, SETTINGS.get(name))
        found = explore(self.system, budget=Budget.parse(FAULTS[name]) if name in FAULTS else None)
        assert found.complete
        twin = self.twin = Twin(found.paths.world)
        self.codecs, self.program = twin.codecs, twin.program
        self.describer = EventDescriber(self.program, self.codecs)
        self.views = ExplainedMachines(self.system, self.program)
        self.seen: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        for s in found.paths.states:
            for role, instance in self.system.machines():
                state = s[twin.world.layout.at(role.name, instance, None)]
                kept = self.seen.setdefault((role.name, state), [])
                if len(kept) < self.RECORDS:
                    kept.append((instance, s))

    def lines(self, s: Any, role: str, instance: int) -> tuple[list[str], list[str], Record, int]:
        """The description of a machine and of the subsidiary ones of its actor, its record, and the time."""
        known, now = KnownMachines(), self.twin._now(s)
        known.actors["somebody"] = KnownActor(1, now, 0.0, 1)
        for other, number in self.system.machines():
            core = self.program.roles[other.name]
            record = self.describer.record(core, self.twin.record(s, other.name, number))
            where = BELOW if core.of_actor else LEASE
            near = {name: f"actor of {name}" for name in self.program.neighbours(core, number)}
            machine = KnownMachine(record, self.program.digest, LEASE, since=SINCE, peers=near)
            known.machines[MachineOf("somebody", where, core.machine(number))] = machine
        core, about = self.program.roles[role], [{"name": "somebody", "now": now, "tick_seconds": 1.0}]
        name, said, units = core.machine(instance), [], []
        for view in EventViews(self.views, known, now).lease(LEASE):
            told = list(explained(view, about))
            if view["machine"] == name:
                said = told
            units += [line for line in told if line.startswith(f"  Unit {name} is ")]
        return said, units, self.twin.record(s, role, instance), now


def who(waiting: Waiting, role: Role, state: str, event: str) -> str:
    """A pattern of the words that say who brings an event."""
    messages = waiting.system.messages
    if event == "tick":
        return r"tick of the clock -> "
    if event in messages and event not in role.events:
        return rf"{event} of {messages[event].sender} \(actor of {messages[event].sender}.*\) -> "
    for task in (*role.states[state].tasks, *role.states[state].remembers):
        of = role.tasks[task]
        if isinstance(of, Call) and event in of.answers:
            by = "its policy decides" if of.target.startswith("policy.") else "its handler says"
            return rf"{event} -> .*, as {by} \({task}\)$"
        if isinstance(of, Drive) and event in of.answers:
            return rf"{event} -> .*, as its units come there \({task}\)$"
    return rf"{event} -> .*, as (its parent drives it|a client or its policy says)$"


def until(core: Core, role: Role, state: str, record: Record, now: int) -> str:
    """The words that say how long a state waits, by trying every tick that comes."""
    if "tick" not in leads_on(role, state):
        return "and no timer ends that"
    due = (at for at in range(now, now + 20) if core.step(record, TICK, at)[1].taken)
    at = next(due, None)
    return "and time alone does not end that" if at is None else f"until tick {at} (in {at - now} s) at the latest"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_state_that_waits_says_for_whom_since_when_and_until_when(name: str) -> None:
    waiting, unreached = Waiting(name), []
    for role in waiting.system.roles.values():
        core = waiting.program.roles[role.name]
        for state, declared in role.states.items():
            on = list(leads_on(role, state))
            if not on or declared.over:  # nothing is waited for at an end that a message may lead out of
                continue
            if (role.name, state) not in waiting.seen:
                unreached.append(f"{role.name}/{state}")
            for instance, s in waiting.seen.get((role.name, state), ()):
                said, units, record, now = waiting.lines(s, role.name, instance)
                limit = until(core, role, state, record, now).replace("(in 0 s)", "(0 s ago)")
                head = f"since tick {SINCE} ({now - SINCE} s ago), {limit}"
                by = [who(waiting, role, state, event) for event in on]
                if role.parent is None:
                    assert f"  It waits {head}, for:" in said, (role.name, state, said)
                    for pattern in by:
                        assert any(re.match(rf"    {pattern}", line) for line in said), (pattern, said)
                elif any("its" in one and "parent" not in one for one in by):
                    (line,) = units
                    assert f"; it waits {head}, for " in line, (role.name, state)
    assert unreached == []
