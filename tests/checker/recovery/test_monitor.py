"""The monitor of real actors: on which states and steps it evaluates properties, and what it says of one that fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from leasehold.checker.explore.step import Action
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.monitor import DurabilityMonitor, MonitoredProperties, PropertyMonitor
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.store.store import Batch, RecordKey
from leasehold.spec import shipped_folder
from tests.systems import load

LEASE, OTHER = "service_manager:1", "service_manager:2"
SYSTEM = load("lease", {"max_units": 2, "last_end": 1, "expiry": False})
WAY = [
    ("local", "service_manager", "demand"), ("deliver", "broker", "ticket"), ("local", "broker", "granted"),
    ("deliver", "service_manager", "update_ticket"), ("local", "service_manager", "redeem_now"),
    ("deliver", "authority", "redeem"), ("local", "authority", "placed"), None,
    ("deliver", "service_manager", "update_lease"), None,
]  # fmt: skip
NO_GUEST = ("idle", "idle")
EXTENSION = [
    ("local", "service_manager", "extend"), ("deliver", "broker", "extend_ticket"), ("local", "broker", "granted"),
    ("deliver", "service_manager", "update_ticket"), ("local", "service_manager", "extend_now"),
    ("deliver", "authority", "extend_lease"), None, ("deliver", "service_manager", "update_lease"),
    None, ("clock", None, ""),
]  # fmt: skip


class Told(PropertyMonitor):
    """A monitor with one property of states and one of steps, which write down what they are evaluated on.

    Attributes:
        states: in order; the first is that before the first evaluation.
        steps: for each state but the first the step that led to it: kind, role and event; None: none was evaluated.
        actions: the same steps, as properties have them.
    """

    def __init__(self, sim: LeaseSimulation, lease: str = LEASE) -> None:
        properties = MonitoredProperties(SYSTEM)
        properties.states, properties.steps = {"state": self._on_state}, {"step": self._on_step}
        super().__init__(sim, properties, lease)
        self.states = [list(self._state)]
        self.steps: list[tuple[str, str | None, str] | None] = []
        self.actions: list[Action | None] = []
        self.fails_in = self.fails_after = "nothing"

    def _on_state(self, state: list[Any], *_: Any) -> bool:
        self.states.append(list(state))
        self.steps.append(None)
        self.actions.append(None)
        return self.control(state)[0] != self.fails_in

    def _on_step(self, before: list[Any], after: list[Any], action: Action) -> bool:
        assert [before, after] == self.states[-2:]
        self.steps[-1] = action.kind, action.role, action.event
        self.actions[-1] = action
        return action.event != self.fails_after

    def control(self, state: list[Any]) -> tuple[str, ...]:
        layout = self.properties.layout
        return tuple(state[layout.at(role.name, i, None)] for role, i, _ in layout.machines())

    def since(self, n: int) -> list[tuple[str, str | None, str] | None]:
        self.settle()
        return self.steps[n:]

    def up(self) -> list[bool]:
        return [self.state[self.properties.world.up[actor.name]] for actor in self.properties.layout.actors]


@pytest.fixture
def sim() -> Iterator[LeaseSimulation]:
    made = LeaseSimulation(compile_system(SYSTEM), units=2)
    yield made
    made.close()


def demand(sim: LeaseSimulation, lease: str = LEASE, units: int = 1, until: int = 4) -> None:
    sim.wish("demand", lease, units, until, 3)
    sim.loop.advance(1.0)


def test_what_reads_messages_in_transit_is_left_out_and_all_else_is_evaluated() -> None:
    properties = MonitoredProperties(SYSTEM)
    claims = {p.name: p.kind for p in SYSTEM.properties.values() if p.kind in ("always", "step")}
    declared = yaml.safe_load((shipped_folder("lease") / "invariants.yaml").read_text())["properties"]
    in_transit = {name for name in claims if re.search(r"\b(pending|heard)\(", json.dumps(declared[name]))}
    assert {*properties.left_out} == in_transit
    assert len(in_transit) >= 10
    assert {*properties.states} | {*properties.steps} | {*properties.left_out} == {*claims}
    assert {claims[name] for name in properties.states} == {"always"}
    assert {claims[name] for name in properties.steps} == {"step"}
    assert properties.driven == {"setup", "modify", "teardown", "join", "leave"}


def test_a_property_holds_where_what_it_is_about_is_not_so() -> None:
    """`when` is a condition of the state: a property with one says nothing of other states."""
    properties = MonitoredProperties(SYSTEM)
    first = list(properties.world.initial_states()[0])
    conditional = [p.name for p in SYSTEM.properties.values() if p.kind == "always" and p.when is not None]
    assert [name for name in conditional if name in properties.states]
    assert all(holds(first, (), -1) for holds in properties.states.values())
    clock = Action("clock", None, 0, "")
    assert all(holds(first, first, clock) for holds in properties.steps.values())


def test_each_commit_of_a_lease_is_a_step_from_the_state_before(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    sim.start_all()
    assert monitor.since(0) == [None] * 3, "three actors come up, which is no step of a machine"
    assert monitor.up() == [True] * 3
    demand(sim)
    assert monitor.since(3) == WAY
    assert [monitor.control(state) for state in monitor.states[4:]] == [
        ("ticketing", "nascent", "nascent", "idle", "idle", *NO_GUEST),
        ("ticketing", "ticketing", "nascent", "idle", "idle", *NO_GUEST),
        ("ticketing", "ticketed", "nascent", "idle", "idle", *NO_GUEST),
        ("ticketed", "ticketed", "nascent", "idle", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "nascent", "idle", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "priming", "idle", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "priming", "priming", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "active", "active", "idle", *NO_GUEST),
        ("joining", "ticketed", "active", "active", "idle", "joining", "idle"),
        ("active", "ticketed", "active", "active", "idle", "active", "idle"),
    ]  # fmt: skip
    names = [action.transition.name for action in monitor.actions if action is not None and action.transition]
    assert names[:2] == ["service_manager/nascent#demand", "broker/nascent#ticket"]
    assert len(names) == 8
    assert {action.instance for action in monitor.actions if action is not None} == {0}
    assert monitor.asked == 13
    assert monitor.broken == {}


def test_a_state_has_the_data_of_each_machine_and_the_time(sim: LeaseSimulation) -> None:
    monitor, layout = Told(sim), MonitoredProperties(SYSTEM).layout
    sim.start_all()
    demand(sim)
    sim.tick(0.0)
    found = monitor.state
    for role, data in {
        "service_manager": {"ticket_units": 1, "ticket_end": 5, "lease_units": frozenset({0}), "lease_end": 5},
        "broker": {"units": 1, "term_end": 5},
        "authority": {"told": frozenset({0}), "end": 5, "assigned": frozenset({0})},
    }.items():  # fmt: skip
        assert {name: found[layout.at(role, 0, name)] for name in data} == data
    assert layout.clock is not None
    assert found[layout.clock] == 1


def test_time_is_a_step_of_its_own_and_what_falls_due_comes_after_it(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    sim.start_all()
    demand(sim)
    monitor.settle()
    begun = len(monitor.steps)
    sim.tick(1.0)
    monitor.tick()
    assert monitor.since(begun) == [("clock", None, "")]
    sim.tick(1.0)  # the policy extends the lease a tick before its end
    monitor.tick()
    assert monitor.since(begun + 1) == EXTENSION
    assert monitor.control(monitor.states[-1]) == ("active", "ticketed", "active", "active", "idle", "active", "idle")


def test_who_is_down_has_its_last_records(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    sim.start_all()
    demand(sim)
    monitor.settle()
    control, begun = monitor.control(monitor.states[-1]), len(monitor.steps)
    sim.crash("site")
    assert monitor.up() == [True, True, False]
    assert monitor.control(monitor.state) == control
    sim.start("site")
    assert {*monitor.since(begun)} == {None}
    assert monitor.control(monitor.states[-1]) == control
    assert monitor.up() == [True] * 3


def test_other_leases_are_no_step_of_this_one(sim: LeaseSimulation) -> None:
    """Nor is a unit that goes to another lease: it counts as one that was never used."""
    monitor, other = Told(sim), Told(sim, OTHER)
    sim.start_all()
    assert monitor.since(0) == other.since(0) == [None] * 3
    demand(sim, OTHER)
    assert monitor.since(3) == [None], "the site is up"
    assert other.since(3) == WAY
    demand(sim)
    assert monitor.since(4) == WAY
    assert monitor.control(monitor.states[-1]) == ("active", "ticketed", "active", "idle", "active", "idle", "active")
    assert len(other.since(3)) == len(WAY)
    sim.wish("stop", OTHER)
    for _ in range(4):
        sim.tick(1.0)
        other.tick()
    assert other.control(other.states[-1]) == ("closed", "closed", "closed", "closed", "idle", *NO_GUEST)
    begun = len(other.steps)
    demand(sim, "service_manager:3", until=40)
    assert other.since(begun) == [None]
    assert other.control(other.state) == ("closed", "closed", "closed", "idle", "idle", *NO_GUEST)


def test_what_does_not_hold_is_said_once_with_its_tick_and_step(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    monitor.fails_in, monitor.fails_after = "active", "ticket"
    sim.start_all()
    demand(sim)
    for _ in range(3):
        sim.tick(1.0)
        monitor.tick()
    assert monitor.broken == {
        "state": "at tick 0, after a commit of several steps", "step": "at tick 0, after broker ticket"
    }  # fmt: skip


def test_what_time_breaks_and_what_several_steps_break_is_said_to_be_theirs(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    monitor.fails_in = "nascent"
    sim.start_all()
    monitor.settle()
    assert monitor.broken == {"state": "at tick 0, after a commit of several steps"}
    monitor.broken.clear()
    sim.tick()
    monitor.tick()
    assert monitor.broken == {"state": "at tick 1, after time"}


# What an actor finds when it restarts


def committed(sim: LeaseSimulation) -> tuple[DurabilityMonitor, RecordKey]:
    monitor = DurabilityMonitor(sim)
    sim.start_all()
    demand(sim)
    return monitor, next(key for key in sim.disks["broker"].records if key.lease == LEASE)


def test_who_finds_what_it_had_committed_has_lost_nothing(sim: LeaseSimulation) -> None:
    monitor, _ = committed(sim)
    for name in ("broker", "site", "service_manager"):
        sim.crash(name)
        sim.start(name)
    assert monitor.lost == []


def test_a_record_that_is_older_is_said_once(sim: LeaseSimulation) -> None:
    """With what differs, as it is and as it was."""
    monitor, key = committed(sim)
    rows = sim.disks["broker"].records
    before = rows[key]
    for _ in range(2):  # until it is extended
        sim.tick(1.0)
    assert rows[key] != before
    sim.crash("broker")
    rows[key] = before
    sim.start("broker")
    (words,) = monitor.lost
    assert words.startswith(f"broker has another broker of {LEASE}: ")
    assert "term_end is 5, not 6" in words
    assert " units is " not in words, "what is as it was is not said"


def test_a_record_that_is_gone_is_said(sim: LeaseSimulation) -> None:
    monitor, key = committed(sim)
    sim.crash("broker")
    del sim.disks["broker"].records[key]
    sim.start("broker")
    assert monitor.lost == [f"broker has no broker of {LEASE} any more, which it had committed"]


@pytest.mark.parametrize("names", [("broker",), ("broker", "broker", "site", "broker"), ("site", "service_manager")])
def test_every_restart_is_looked_at_whoever_makes_it(sim: LeaseSimulation, names: tuple[str, ...]) -> None:
    """Also one that follows another, between which nothing was committed."""
    monitor, _ = committed(sim)
    for name in names[:-1]:
        sim.crash(name)
        sim.start(name)
    assert monitor.lost == []
    sim.crash(names[-1])
    disk = sim.disks[names[-1]]
    gone, disk.records, disk.order = disk.records, {}, None
    sim.start(names[-1])
    assert len(monitor.lost) == len(gone) > 0


class Stops(Exception):
    """The disk is gone."""


@pytest.mark.parametrize("kept", ["nothing", "all", "a part"])
def test_a_commit_that_was_not_acknowledged_is_there_whole_or_not_at_all(sim: LeaseSimulation, kept: str) -> None:
    monitor, _ = committed(sim)
    demand(sim, OTHER)  # a unit and its lease are committed together
    site, disk = sim.actors["site"], sim.disks["site"]
    before, commit = dict(disk.records), site.store.commit

    async def fails(batch: Batch) -> None:
        if len(batch.puts) < 2:
            return await commit(batch)
        disk.records.update(list(batch.puts.items())[: {"nothing": 0, "all": None, "a part": 1}[kept]])
        disk.order = None
        raise Stops

    site.store.commit = fails  # type: ignore[method-assign]
    for _ in range(8):
        sim.tick(0.0)
        if not site.running:
            break
    assert not site.running
    assert (disk.records == before) == (kept == "nothing")
    sim.crash("site")
    sim.start("site")
    if kept == "a part":
        assert [words.partition(":")[0] for words in monitor.lost] == ["site has a part of a commit"]
    else:
        assert monitor.lost == []


def test_what_recovery_commits_at_once_is_compared_before(sim: LeaseSimulation) -> None:
    """What a lease drives is done when the actor restarts: the record is then another one, and nothing is lost."""
    monitor, key = committed(sim)
    sim.crash("broker")
    for _ in range(8):  # the lease's end is over when it restarts
        sim.tick(1.0)
    sim.start("broker")
    sim.loop.advance(1.0)
    held = sim.held(LEASE, "broker")
    assert held is not None
    assert held.state == "closed"
    assert monitor.lost == []
    assert key in sim.disks["broker"].records


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (lambda memory, stored: memory.update(word=b"new"), "in memory alone"),
        (lambda memory, stored: stored.update(word=b"old"), "in its store alone"),
        (lambda memory, stored: (memory.update(word=b"new"), stored.update(word=b"old")), "otherwise in memory than"),
    ],
)
def test_what_an_actor_keeps_about_itself_is_in_its_store_as_in_memory(
    sim: LeaseSimulation, spoil: Callable[[dict[str, bytes], dict[str, bytes]], object], where: str
) -> None:
    """It is compared after every commit, and not only where the actor restarts."""
    monitor, _ = committed(sim)
    assert sim.actors["broker"].table.metadata == sim.disks["broker"].metadata
    spoil(sim.actors["broker"].table.metadata, sim.disks["broker"].metadata)
    for _ in range(2):  # until it is extended
        sim.tick(1.0)
    assert monitor.lost
    assert all(words.startswith(f"broker has what it keeps as `word` {where}") for words in monitor.lost)
