"""Traces of real actors: the steps of one lease, what each sends, crashes, recoveries and time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from leasehold.checker.explore.result import Step
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.trace import TraceRecorder, _word
from leasehold.impl.compiler.program import compile_system
from leasehold.spec.language import types as t
from tests.systems import load

NODES = t.Set(t.Instance("node", 12))
LEASE, OTHER = "service_manager:1", "service_manager:2"


@pytest.fixture
def sim() -> Iterator[LeaseSimulation]:
    system = load("lease", {"max_units": 2, "last_end": 1, "expiry": False})
    made = LeaseSimulation(compile_system(system), units=2)
    yield made
    made.close()


def shown(step: Step) -> str:
    """A step, with the change of its machine, and what it sends."""
    where = f"{step.machine} {step.event}" if step.machine else step.event
    if step.fields:
        where += f"({', '.join(f'{name}: {value}' for name, value in step.fields.items())})"
    if step.sender:
        where += f" of {step.sender}"
    if step.transition:
        assert step.transition == f"{step.machine.split('[')[0] if step.machine else ''}/{step.before}#{step.event}"
        where += f", {step.before} > {step.after}"
    sent = "".join(f"; {s.message} from {s.sender} to {s.receiver}" for s in step.sent)
    return f"{step.state.now} {step.kind}: {where}{sent}"


def steps(trace: TraceRecorder, since: int = 0) -> list[str]:
    return [shown(step) for step in trace.path().steps[since:]]


def demand(sim: LeaseSimulation, lease: str = LEASE, until: int = 4) -> None:
    sim.wish("demand", lease, 1, until, 3)
    sim.loop.advance(1.0)


def traced(sim: LeaseSimulation) -> TraceRecorder:
    made = TraceRecorder(sim, LEASE)
    sim.start_all()
    demand(sim)
    return made


PROPERTIES = "properties: {unit[0]: {name: unit-0, site: site, fence: 1099511693313}, unit[1]: 0}"
TOLD = f"update_lease(units: {{unit[0]}}, lost: {{}}, renewed: {{}}, end: 5, {PROPERTIES}, reason: 0) of authority"
TICKET = "start: 0, end: 5, type: , properties: {ticket: 1, type: unit}"
UP = [
    "0 local: service_manager demand, nascent > ticketing; ticket from service_manager to broker",
    "0 deliver: broker ticket(units: 1, start: 0, end: 5, type: , properties: {}) of service_manager, "
    "nascent > ticketing",
    "0 local: broker granted, ticketing > ticketed; update_ticket from broker to service_manager",
    f"0 deliver: service_manager update_ticket(units: 1, {TICKET}, reason: ) of broker, ticketing > ticketed",
    "0 local: service_manager redeem_now, ticketed > redeeming; redeem from service_manager to authority",
    f"0 deliver: authority redeem(units: 1, {TICKET}, configuration: {{}}) of service_manager, nascent > priming",
    "0 local: authority placed, priming > priming",
    "0 local: unit[0] setup, idle > priming",
    "0 local: unit[0] up, priming > active",
    "0 local: authority primed, priming > active; update_lease from authority to service_manager",
    f"0 deliver: service_manager {TOLD}, redeeming > joining",
    "0 local: guest[0] join, idle > joining",
    "0 local: guest[0] joined, joining > active",
    "0 local: service_manager joined, joining > active",
]


def test_a_lease_is_traced_from_its_demand_on(sim: LeaseSimulation) -> None:
    """What is done for others is no step of it."""
    trace = traced(sim)
    demand(sim, OTHER)
    assert steps(trace) == UP
    path = trace.path()
    assert all(step.state.control[step.machine or ""] == step.after for step in path.steps if step.transition)
    machines = ["service_manager", "broker", "authority", "unit[0]", "unit[1]", "guest[0]", "guest[1]"]
    assert path.initial.control == dict(zip(machines, ["nascent"] * 3 + ["idle"] * 4, strict=True))
    assert (path.initial.data, path.initial.now) == ({}, 0)
    last = path.steps[-1].state
    assert list(last.control.values()) == ["active", "ticketed", "active", "active", "idle", "active", "idle"]
    said = ("0", "none", "{}", "false", "")
    assert {name: value for name, value in last.data.items() if value not in said} == {
        "service_manager.ticket_units": "1", "service_manager.ticket_end": "5",
        "service_manager.ticket_properties": "{ticket: 1, type: unit}", "service_manager.lease_units": "{unit[0]}",
        "service_manager.lease_end": "5",
        "service_manager.unit_properties": PROPERTIES.removeprefix("properties: "), "broker.units": "1",
        "broker.counted": "1", "broker.term_end": "5", "broker.properties": "{ticket: 1, type: unit}",
        "authority.wanted": "1", "authority.told": "{unit[0]}", "authority.end": "5",
        "authority.properties": "{ticket: 1, type: unit}", "authority.chosen": "{unit[0]}",
        "authority.assigned": "{unit[0]}", "authority.unit_properties": PROPERTIES.removeprefix("properties: "),
        "unit[0].properties": "{name: unit-0, site: site, fence: 1099511693313}",
    }  # fmt: skip
    sent = [message for step in path.steps for message in step.sent]
    assert sent[0].fields == {"units": "1", "start": "0", "end": "5", "type": "", "properties": "{}"}


def test_time_is_a_step_before_the_first_that_comes_after_it(sim: LeaseSimulation) -> None:
    trace = traced(sim)
    demand(sim, OTHER, until=40)
    sim.tick(1.0)
    assert steps(trace) == UP
    before = trace.path().steps[-1].state
    sim.tick(1.0)
    clock, extend, *more = trace.path().steps[len(UP) :]
    assert [shown(clock), shown(extend)] == [
        "2 clock: now 2",
        "2 local: service_manager extend, active > extending_ticket; extend_ticket from service_manager to broker",
    ]
    assert (clock.state.control, clock.state.data, clock.state.now) == (before.control, before.data, 2)
    assert [step.event for step in more if step.kind == "clock"] == []
    for _ in range(3):
        sim.tick(1.0)
    lines = steps(trace)
    assert [line for line in lines if " clock: " in line] == ["2 clock: now 2", "4 clock: now 4"]
    due = lines[lines.index("4 clock: now 4") + 1 :]
    ticks = [line.partition(",")[0] for line in due if " tick: " in line]
    assert {*ticks} == {"4 tick: service_manager tick"}


def test_the_first_step_may_come_after_some_time(sim: LeaseSimulation) -> None:
    trace = TraceRecorder(sim, LEASE)
    sim.start_all()
    for _ in range(3):
        sim.tick(1.0)
    demand(sim, until=9)
    assert steps(trace)[:2] == [
        "3 clock: now 3",
        "3 local: service_manager demand, nascent > ticketing; ticket from service_manager to broker",
    ]
    assert trace.path().steps[0].state.control == trace.path().initial.control


def test_what_a_recovery_sends_is_its_own(sim: LeaseSimulation) -> None:
    """Not of the crash before it, though the actor tells that it has recovered last of all."""
    trace = TraceRecorder(sim, LEASE)
    sim.start_all()
    sim.crash("broker")
    sim.start("broker")
    assert steps(trace) == [], "before the lease begins there is nothing to trace"
    demand(sim)
    count = len(trace.path().steps)
    sim.crash("site")
    sim.start("site")
    sim.loop.advance(3.0)
    assert steps(trace, count) == [
        "0 crash: authority crash:site",
        "0 recover: authority recover:site; update_lease from authority to service_manager",
        f"0 duplicate: service_manager {TOLD}",
    ]
    sim.crash("service_manager")
    sim.crash("broker")
    sim.start("broker")
    sim.start("service_manager")
    sim.loop.advance(3.0)
    assert [line.partition(";")[0] for line in steps(trace, count + 3)][:4] == [
        "0 crash: service_manager crash:service_manager", "0 crash: broker crash:broker",
        "0 recover: broker recover:broker", "0 recover: service_manager recover:service_manager",
    ]  # fmt: skip


def test_a_message_that_is_ignored_is_a_step_without_a_transition(sim: LeaseSimulation) -> None:
    trace = traced(sim)
    actor = sim.actors["service_manager"]
    sim.loop.call(lambda: actor.tell(LEASE, "service_manager", "close", {}))
    sim.loop.advance(3.0)
    assert [line for line in steps(trace, len(UP)) if ">" not in line] == [
        "0 local: guest[0] leave",
        f"0 deliver: service_manager update_ticket(units: 0, {TICKET}, reason: ) of broker",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "word"),
    [
        (t.Opaque(), None, "none"), (t.BOOL, True, "true"), (t.BOOL, False, "false"), (t.Int(), 3, "3"),
        (t.Opaque(), "word", "word"), (NODES, frozenset(), "{}"), (NODES, frozenset({10, 2}), "{node[2], node[10]}"),
        (NODES, [3, 1], "{node[1], node[3]}"), (NODES, {1}, "{node[1]}"),
        (t.Opaque(), {"a": {"b": None}, "c": True}, "{a: {b: none}, c: true}"),
    ],
)  # fmt: skip
def test_values_are_written_as_in_the_language(kind: t.Type, value: Any, word: str) -> None:
    assert _word(kind, value) == word
