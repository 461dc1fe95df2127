"""Paths of real actors in simulation: the steps of one lease, what each sends, crashes, recoveries and time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leasehold.checker.explore.result import Step
from leasehold.checker.recovery.events import CommittedEvents
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.monitor import PropertyMonitor
from leasehold.checker.recovery.properties import RunProperties
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.notices import Kind, Notice, SimulatedCrash
from tests.systems import load

SYSTEM = load("lease", {"max_units": 2, "last_end": 1, "expiry": False})
LEASE, OTHER = "service_manager:1", "service_manager:2"


@pytest.fixture
def sim() -> Iterator[LeaseSimulation]:
    made = LeaseSimulation(compile_system(SYSTEM), units=2)
    yield made
    made.close()


def shown(step: Step) -> str:
    """A step, with the change of its machine, and what it sends."""
    where = f"{step.machine} {step.event}" if step.machine else step.event
    if step.fields and step.kind == "deliver":
        where += f"({', '.join(f'{name}: {value}' for name, value in step.fields.items())})"
    if step.sender:
        where += f" of {step.sender}"
    if step.transition:
        assert step.transition == f"{step.machine.split('[')[0] if step.machine else ''}/{step.before}#{step.event}"
        where += f", {step.before} > {step.after}"
    sent = "".join(f"; {s.message} from {s.sender} to {s.receiver}" for s in step.sent)
    driven = "".join(f"; {d.machine} {d.event}, {d.before} > {d.after}" for d in step.driven)
    return f"{step.state.now} {step.kind}: {where}{sent}{driven}"


def steps(monitor: PropertyMonitor, since: int = 0) -> list[str]:
    return [shown(step) for step in monitor.path().steps[since:]]


def watched(sim: LeaseSimulation) -> PropertyMonitor:
    return PropertyMonitor(CommittedEvents(sim), RunProperties(SYSTEM), LEASE)


def demand(sim: LeaseSimulation, lease: str = LEASE, until: int = 4) -> None:
    sim.wish("demand", lease, 1, until, 3)
    sim.loop.advance(1.0)


def begun(sim: LeaseSimulation) -> PropertyMonitor:
    made = watched(sim)
    sim.start_all()
    demand(sim)
    return made


UNIT = "{fence: 1099511693313, name: unit-0, site: site}"
TOLD = (
    "update_lease(units: {unit[0]}, lost: {}, renewed: {}, end: 5, "
    f"properties: {{unit[0]: {UNIT}, unit[1]: 0}}, reason: 0) of authority"
)
TICKET = 'start: 0, end: 5, type: "", properties: {ticket: 1, type: unit}'
UP = [
    "0 local: service_manager demand, nascent > ticketing; ticket from service_manager to broker",
    '0 deliver: broker ticket(units: 1, start: 0, end: 5, type: "", properties: {}) of service_manager, '
    "nascent > ticketing",
    "0 local: broker granted, ticketing > ticketed; update_ticket from broker to service_manager",
    f'0 deliver: service_manager update_ticket(units: 1, {TICKET}, reason: "") of broker, ticketing > ticketed',
    "0 local: service_manager redeem_now, ticketed > redeeming; redeem from service_manager to authority",
    f"0 deliver: authority redeem(units: 1, {TICKET}, configuration: {{}}) of service_manager, nascent > priming",
    "0 local: authority placed, priming > priming; unit[0] setup, idle > priming",
    "0 local: unit[0] up, priming > active",
    "0 local: authority primed, priming > active; update_lease from authority to service_manager",
    f"0 deliver: service_manager {TOLD}, redeeming > joining; guest[0] join, idle > joining",
    "0 local: guest[0] joined, joining > active",
    "0 local: service_manager joined, joining > active",
]


def test_a_path_begins_with_the_demand(sim: LeaseSimulation) -> None:
    """A step for others is no step of it."""
    monitor = begun(sim)
    demand(sim, OTHER)
    assert steps(monitor) == UP
    path = monitor.path()
    assert all(step.state.control[step.machine or ""] == step.after for step in path.steps if step.transition)
    machines = ["service_manager", "broker", "authority", "unit[0]", "unit[1]", "guest[0]", "guest[1]"]
    assert path.initial.control == dict(zip(machines, ["nascent"] * 3 + ["idle"] * 4, strict=True))
    last = path.steps[-1].state
    assert list(last.control.values()) == ["active", "ticketed", "active", "active", "idle", "active", "idle"]
    wanted = {"lease_units": "{unit[0]}", "lease_end": "5", "unit_properties": f"{{unit[0]: {UNIT}, unit[1]: 0}}"}
    assert {name: last.data[f"service_manager.{name}"] for name in wanted} == wanted
    sent = [message for step in path.steps for message in step.sent]
    assert sent[0].fields == {"units": "1", "start": "0", "end": "5", "type": '""', "properties": "{}"}


def test_time_is_one_step_before_the_first_that_comes_after_it(sim: LeaseSimulation) -> None:
    monitor = begun(sim)
    for _ in range(2):
        sim.tick(1.0)
        monitor.tick()
    clock, extend, *_ = monitor.path().steps[len(UP) :]
    assert [shown(clock), shown(extend)] == [
        "2 clock: now 2",
        "2 local: service_manager extend, active > extending_ticket; extend_ticket from service_manager to broker",
    ]
    before = monitor.path().steps[len(UP) - 1].state
    assert (clock.state.control, clock.state.data, clock.state.now) == (before.control, before.data, 2)
    for _ in range(3):
        sim.tick(1.0)
        monitor.tick()
    lines = steps(monitor)
    assert [line for line in lines if " clock: " in line] == ["2 clock: now 2", "4 clock: now 4", "5 clock: now 5"]
    assert [line.partition(",")[0] for line in lines if " tick: " in line] == ["4 tick: service_manager tick"]


def test_a_path_begins_when_its_lease_does(sim: LeaseSimulation) -> None:
    monitor = watched(sim)
    sim.start_all()
    for _ in range(3):
        sim.tick(1.0)
        monitor.tick()
    sim.crash("broker")
    sim.start("broker")
    assert monitor.cuts == []
    demand(sim, until=9)
    assert steps(monitor)[0].startswith("3 local: service_manager demand")
    assert monitor.path().initial.now == 3


def test_an_actor_that_crashes_and_recovers_is_two_steps(sim: LeaseSimulation) -> None:
    """Also where no other step comes in between."""
    monitor = begun(sim)
    sim.crash("site")
    sim.start("site")
    assert steps(monitor, len(UP)) == ["0 crash: authority crash:site", "0 recover: authority recover:site"]
    assert monitor.asked == len(UP) + 3


def test_actors_that_crash_at_once_are_one_cut(sim: LeaseSimulation) -> None:
    monitor = begun(sim)
    before = len(monitor.cuts)
    for name in ("service_manager", "broker"):
        sim.crash(name)
    for name in ("broker", "service_manager"):
        sim.start(name)
    assert steps(monitor, len(UP)) == [
        "0 crash: service_manager crash:service_manager",
        "0 crash: broker crash:broker",
        "0 recover: broker recover:broker",
        "0 recover: service_manager recover:service_manager",
    ]
    assert len(monitor.cuts) == before + 3


def test_a_commit_that_nobody_heard_of_comes_before_the_end_of_its_actor(sim: LeaseSimulation) -> None:
    """It is found in the store when the actor is back."""

    def stop(notice: Notice) -> None:
        if notice.kind is Kind.COMMITTED and notice.actor == "broker" and sim.disks["broker"].records and not stopped:
            stopped.append(notice)
            raise SimulatedCrash

    stopped: list[Notice] = []
    sim.subscribers.insert(0, stop)
    monitor = begun(sim)
    assert len(stopped) == 1
    sim.crash("broker")
    sim.start("broker")
    told = [(step.kind, step.machine) for step in monitor.path().steps[1:4]]
    assert told == [("deliver", "broker"), ("crash", "broker"), ("recover", "broker")]


def test_a_message_that_moves_nothing_is_a_step_without_a_transition(sim: LeaseSimulation) -> None:
    monitor = begun(sim)
    actor = sim.actors["service_manager"]
    sim.loop.call(lambda: actor.tell(LEASE, "service_manager", "close", {}))
    sim.loop.advance(3.0)
    assert [line for line in steps(monitor, len(UP)) if ">" not in line] == [
        f'0 deliver: service_manager update_ticket(units: 0, {TICKET}, reason: "") of broker',
    ]
