"""Records as events tell them: each comes back whole, and what no machine of its role can have is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from leasehold.impl.actor.chronicle import EventDescriber, RowCodec
from leasehold.impl.core.core import Core
from leasehold.impl.core.values import ValueFault
from leasehold.impl.events.event import MachineRecord, StepEvent
from leasehold.impl.events.records import record_of
from tests.checker.conform.walks import SYSTEMS, known, walked


def told(name: str) -> Iterator[tuple[Core, int, MachineRecord]]:
    """Yields role, number and record of each step of a walk, and of the steps that it drives."""
    machines = known(name).program.machines
    for events in walked(name, 0).values():
        for event in events:
            if isinstance(event, StepEvent):
                for step in (event.step, *event.step.driven):
                    yield *machines[step.machine], step.record


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_record_is_told_as_it_was_read(name: str) -> None:
    """Records read from events and described anew: state, data, numbers of messages, epochs."""
    program = known(name).program
    describer = EventDescriber(program, RowCodec(program).codecs)
    seen = set()
    for core, number, record in told(name):
        found = record_of(program, core, number, record)
        assert describer.record(core, found) == record
        assert len(found) == core.below_at
        assert not core.indexed or found[1] == number
        seen.add(core.role)
    assert seen


@pytest.mark.parametrize("name", ["two_phase_commit", "lease", "examples/ring"])
def test_each_neighbour_has_its_own_number(name: str) -> None:
    """Sent and received numbers, all different, by the neighbour's name; those that are not told are 0."""
    program = known(name).program
    describer = EventDescriber(program, RowCodec(program).codecs)
    for core, number, record in told(name):
        if core.subsidiary:
            continue
        names = [*program.neighbours(core, number)]
        if core.dynamic_neighbours:
            names = [machine for machine in program.machines if machine != core.machine(number)]
        sent = {machine: at for at, machine in enumerate(names, 3)}
        received = {machine: at for at, machine in enumerate(names, 50)}
        full = record_of(program, core, number, replace(record, sent=sent, received=received))
        assert (full[core.sent_at], full[core.received_at]) != (full[core.received_at], full[core.sent_at])
        assert describer.record(core, full) == replace(record, sent=sent, received=received)
        bare = describer.record(core, record_of(program, core, number, replace(record, sent={}, received={})))
        assert (bare.sent, bare.received) == ({}, {})


@pytest.mark.parametrize("machine", ["nobody", "node", "node[x]"])
def test_a_dynamic_neighbour_that_cannot_be_is_refused(machine: str) -> None:
    program = known("examples/ring").program
    core = program.roles["node"]
    record = next(record for of, _, record in told("examples/ring") if of is core)
    for wrong in ({"sent": {machine: 1}}, {"received": {machine: 1}}):
        changed: Any = replace(record, **wrong)
        with pytest.raises(ValueFault, match="node has no neighbour '"):
            record_of(program, core, 0, changed)


def test_a_task_that_outlives_its_state_keeps_the_epoch_at_which_it_began() -> None:
    program = known("tests/checker/conform/depot").program
    describer = EventDescriber(program, RowCodec(program).codecs)
    core = program.roles["clerk"]
    record = next(record for of, _, record in told("tests/checker/conform/depot") if of is core)
    (task,) = core.since
    for since, kept in (({task: 7}, {task: 7}), ({}, {}), ({task: 7, "other": 3}, {task: 7})):
        assert describer.record(core, record_of(program, core, 0, replace(record, since=since))).since == kept


def test_machines_below_stand_at_the_end_of_a_record() -> None:
    program = known("lease").program
    core = program.roles["authority"]
    record = next(record for of, _, record in told("lease") if of is core)
    assert record_of(program, core, 0, record, (((1,),), ((2,),)))[core.below_at :] == (((1,),), ((2,),))
