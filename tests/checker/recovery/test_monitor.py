"""The monitor of real actors: on which states and steps it evaluates properties, and what it says of one that fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold import spec
from leasehold.checker.explore.channels import entries
from leasehold.checker.explore.layout import State
from leasehold.checker.recovery.events import CommittedEvents
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.recovery.monitor import DurabilityMonitor, PropertyMonitor
from leasehold.checker.recovery.properties import RunProperties
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.store.store import Batch, RecordKey
from leasehold.spec import shipped_folder
from tests.systems import load

LEASE, OTHER = "service_manager:1", "service_manager:2"
SYSTEM = load("lease", {"max_units": 2, "last_end": 1, "expiry": False})
PROPERTIES = RunProperties(SYSTEM)
WAY = [
    ("local", "service_manager", "demand"),
    ("deliver", "broker", "ticket"),
    ("local", "broker", "granted"),
    ("deliver", "service_manager", "update_ticket"),
    ("local", "service_manager", "redeem_now"),
    ("deliver", "authority", "redeem"),
    ("local", "authority", "placed"),
    ("local", "unit", "up"),
    ("local", "authority", "primed"),
    ("deliver", "service_manager", "update_lease"),
    ("local", "guest", "joined"),
    ("local", "service_manager", "joined"),
]
NO_GUEST = ("idle", "idle")
EXTENSION = [
    ("clock", None, ""),
    ("local", "service_manager", "extend"),
    ("deliver", "broker", "extend_ticket"),
    ("local", "broker", "granted"),
    ("deliver", "service_manager", "update_ticket"),
    ("local", "service_manager", "extend_now"),
    ("deliver", "authority", "extend_lease"),
    ("local", "unit", "changed"),
    ("local", "authority", "modified"),
    ("deliver", "service_manager", "update_lease"),
    ("local", "guest", "changed"),
    ("local", "service_manager", "joined"),
]


class Told(PropertyMonitor):
    """A monitor of one lease."""

    def __init__(self, sim: LeaseSimulation, *leases: str, properties: RunProperties = PROPERTIES) -> None:
        super().__init__(CommittedEvents(sim), properties, *leases or (LEASE,))

    @property
    def states(self) -> list[State]:
        """The states of the cuts."""
        return [cut.state for cut in self.cuts]

    @property
    def steps(self) -> list[tuple[str, str | None, str] | None]:
        """Kind, role and event of each step; None: the run begins."""
        actions = (cut.action for cut in self.cuts)
        return [None if action is None else (action.kind, action.role, action.event) for action in actions]

    def control(self, state: Sequence[Any]) -> tuple[str, ...]:
        layout = self.properties.layout
        return tuple(state[layout.at(role.name, i, None)] for role, i, _ in layout.machines())

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


def test_properties_of_messages_on_their_way_are_told_from_those_of_records() -> None:
    claims = {p.name: p.kind for p in SYSTEM.properties.values() if p.kind in ("always", "step")}
    declared = yaml.safe_load((shipped_folder("lease") / "invariants.yaml").read_text())["properties"]
    in_transit = {name for name in claims if re.search(r"\b(pending|heard)\(", json.dumps(declared[name]))}
    assert {*claims} - PROPERTIES.of_records(claims) == in_transit
    assert len(in_transit) >= 10
    assert {claim.of.name for claim in PROPERTIES.claims.invariants} == {n for n in claims if claims[n] == "always"}
    assert {claim.of.name for claim in PROPERTIES.claims.steps} == {n for n in claims if claims[n] == "step"}
    assert not PROPERTIES.claims.witnesses


def test_each_step_of_a_lease_is_a_cut_after_the_one_before(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    sim.start_all()
    assert monitor.steps == [], "three actors come up, and the run has not begun"
    demand(sim)
    assert monitor.up() == [True] * 3
    assert monitor.steps == [None, *WAY]
    assert [monitor.control(state) for state in monitor.states[1:]] == [
        ("ticketing", "nascent", "nascent", "idle", "idle", *NO_GUEST),
        ("ticketing", "ticketing", "nascent", "idle", "idle", *NO_GUEST),
        ("ticketing", "ticketed", "nascent", "idle", "idle", *NO_GUEST),
        ("ticketed", "ticketed", "nascent", "idle", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "nascent", "idle", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "priming", "idle", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "priming", "priming", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "priming", "active", "idle", *NO_GUEST),
        ("redeeming", "ticketed", "active", "active", "idle", *NO_GUEST),
        ("joining", "ticketed", "active", "active", "idle", "joining", "idle"),
        ("joining", "ticketed", "active", "active", "idle", "active", "idle"),
        ("active", "ticketed", "active", "active", "idle", "active", "idle"),
    ]
    names = [
        action.transition.name
        for action in (cut.action for cut in monitor.cuts)
        if action is not None and action.transition
    ]
    assert names[:2] == ["service_manager/nascent#demand", "broker/nascent#ticket"]
    assert len(names) == len(WAY)
    assert monitor.asked == len(WAY) + 1
    assert monitor.broken == {}


def test_messages_are_on_their_way_until_they_are_received(sim: LeaseSimulation) -> None:
    monitor, layout = Told(sim), PROPERTIES.layout
    (lane,) = (of for of in layout.lanes if (of.channel.sender, of.channel.receiver) == ("broker", "service_manager"))
    sim.start_all()
    demand(sim)
    under_way = [[kind for _, kind, _ in entries(lane.channel.kind, state[lane.cell])] for state in monitor.states]
    assert [n for n, kinds in enumerate(under_way) if kinds == ["update_ticket"]] == [3]
    assert sum(map(len, under_way)) == 1
    empty = entries(lane.channel.kind, monitor.state[lane.cell])
    assert [*empty] == [], "what is asked of records has no messages"


def test_a_state_has_the_data_of_each_machine_and_the_time(sim: LeaseSimulation) -> None:
    monitor, layout = Told(sim), PROPERTIES.layout
    sim.start_all()
    demand(sim)
    sim.tick(0.0)
    found = monitor.state
    for role, data in {
        "service_manager": {"ticket_units": 1, "ticket_end": 5, "lease_units": frozenset({0}), "lease_end": 5},
        "broker": {"units": 1, "term_end": 5},
        "authority": {"told": frozenset({0}), "end": 5, "assigned": frozenset({0})},
    }.items():
        assert {name: found[layout.at(role, 0, name)] for name in data} == data
    assert layout.clock is not None
    assert found[layout.clock] == 1


def test_time_is_a_step_of_its_own_and_what_falls_due_comes_after_it(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    sim.start_all()
    demand(sim)
    begun = len(monitor.steps)
    sim.tick(1.0)
    monitor.tick()
    assert monitor.steps[begun:] == [("clock", None, "")]
    sim.tick(1.0)  # the policy extends the lease a tick before its end
    assert monitor.steps[begun + 1 :] == EXTENSION
    assert monitor.control(monitor.states[-1]) == ("active", "ticketed", "active", "active", "idle", "active", "idle")


def test_who_is_down_has_its_last_records(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    sim.start_all()
    demand(sim)
    control, begun = monitor.control(monitor.states[-1]), len(monitor.steps)
    sim.crash("site")
    assert monitor.up() == [True, True, False]
    assert monitor.control(monitor.state) == control
    monitor.passed("crash")
    sim.start("site")
    assert monitor.steps[begun:] == [("crash", None, ""), ("recover", None, "")]
    assert {monitor.control(state) for state in monitor.states[begun:]} == {control}
    assert monitor.up() == [True] * 3


def test_that_an_actor_has_stopped_is_told_before_the_next_step_of_another(sim: LeaseSimulation) -> None:
    monitor = Told(sim)
    sim.start_all()
    demand(sim)
    begun = len(monitor.steps)
    sim.crash("broker")
    sim.wish("stop", LEASE)
    sim.tick(1.0)
    assert monitor.steps[begun : begun + 2] == [("crash", None, ""), ("local", "service_manager", "close")]


def test_a_record_that_is_lost_is_as_the_store_has_it(sim: LeaseSimulation) -> None:
    """The monitor says so when its actor recovers, before anything follows from it."""
    monitor = Told(sim)
    sim.start_all()
    rows = sim.disks["broker"].records
    demand(sim)
    key = next(key for key in rows if key.lease == LEASE)
    before, begun = rows[key], len(monitor.steps)
    for _ in range(2):  # until it is extended
        sim.tick(1.0)
    at = PROPERTIES.layout.at("broker", 0, "term_end")
    assert monitor.states[-1][at] == 6
    assert ("lost", None, "") not in monitor.steps
    sim.crash("broker")
    rows[key] = before
    sim.start("broker")
    told = [step[0] for step in monitor.steps[begun:] if step is not None and step[1] is None]
    assert told[-3:] == ["crash", "lost", "recover"]
    lost = begun + monitor.steps[begun:].index(("lost", None, ""))
    assert [state[at] for state in monitor.states[lost - 1 : lost + 1]] == [6, 5]


def test_other_leases_are_no_step_of_this_one(sim: LeaseSimulation) -> None:
    """Nor is a unit that goes to another lease: it counts as one that was never used."""
    monitor, other = Told(sim), Told(sim, OTHER)
    sim.start_all()
    demand(sim, OTHER)
    assert monitor.steps == []
    assert other.steps == [None, *WAY]
    demand(sim)
    assert monitor.steps == [None, *WAY]
    assert monitor.control(monitor.states[-1]) == ("active", "ticketed", "active", "idle", "active", "idle", "active")
    assert len(other.steps) == len(WAY) + 1
    sim.wish("stop", OTHER)
    for _ in range(4):
        sim.tick(1.0)
        other.tick()
    assert other.control(other.states[-1]) == ("closed", "closed", "closed", "closed", "idle", *NO_GUEST)
    begun = len(other.steps)
    demand(sim, "service_manager:3", until=40)
    assert other.steps[begun:] == [("passed", None, "unit[0]")]
    assert other.control(other.state) == ("closed", "closed", "closed", "idle", "idle", *NO_GUEST)


BREAKING = """
properties:
  state: {always: service_manager.state != active}
  begins: {always: service_manager.state != nascent}
  step: {step: "not took(broker.ticket)"}
  time: {always: now < 1}
"""


def test_what_does_not_hold_is_said_once_with_its_tick_and_step(sim: LeaseSimulation, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(BREAKING)
    system = spec.load("lease", {"max_units": 2, "last_end": 1, "expiry": False}, more=[tmp_path / "more.yaml"])
    monitor = Told(sim, properties=RunProperties(system))
    sim.start_all()
    demand(sim)
    for _ in range(3):
        sim.tick(1.0)
        monitor.tick()
    assert monitor.broken == {
        "begins": "in the first state",
        "state": "at tick 0, after service_manager joined",
        "step": "at tick 0, after broker ticket",
        "time": "at tick 1, after time",
    }


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
    """Drives of a lease are done when the actor restarts: the record is then another one, and nothing is lost."""
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
