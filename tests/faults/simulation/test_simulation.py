"""Simulated actors of the lease: they run, are held and released, and end, as the campaigns rely on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leasehold.checker.explore.reference import Reference
from leasehold.checker.recovery.conformance import StepConformance
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.table import BELOW
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.spec.language.lower.lowering import lower
from tests.impl.demand import extension
from tests.systems import load

LEASE = "service_manager:1"
GUEST = f"{LEASE}/guest[0]"
ROLES = ("service_manager", "broker", "authority")
SUBSIDIARY = {"unit": "site", "guest": "service_manager"}


def simulation(seed: int = 0, **more: object) -> LeaseSimulation:
    return LeaseSimulation(compile_system(load("lease", {"max_units": 2})), seed, **more)  # type: ignore[arg-type]


@pytest.fixture
def sim() -> Iterator[LeaseSimulation]:
    made = simulation()
    made.start_all()
    yield made
    made.close()
    assert made.loop.errors == []


def states(sim: LeaseSimulation, lease: str = LEASE) -> tuple[str, ...]:
    held = (sim.held(lease, role) for role in ROLES)
    return tuple("" if one is None else one.state for one in held)


def demand(sim: LeaseSimulation, lease: str = LEASE, until: int = 50, term: int = 5) -> None:
    sim.wish("demand", lease, 1, until, term)


def extend(sim: LeaseSimulation) -> None:
    """An operator extends the lease: no policy is asked."""
    actor = sim.actors["service_manager"]
    sim.loop.call(lambda: actor.tell(LEASE, "service_manager", "extend", extension(1, 20)))


def deliver(sim: LeaseSimulation) -> None:
    """What is under way arrives."""
    for packet in tuple(sim.network.in_transit):
        sim.loop.call(lambda packet=packet: sim.network.deliver(packet))  # type: ignore[misc]


ACTIVE = ("active", "ticketed", "active")


def test_a_lease_comes_up_without_a_tick_and_ends_with_its_demand(sim: LeaseSimulation) -> None:
    demand(sim, until=4)
    sim.loop.advance(1.0)
    assert (states(sim), sim.up(), sim.time.now) == (ACTIVE, {"unit-0", GUEST}, 0)
    assert (sim.where(LEASE), sim.where("service_manager:2")) == ("active/ticketed/active", "-/-/-")
    assert sim.serves("unit-0", LEASE)
    assert not sim.serves("unit-0", "service_manager:2")
    assert sim.strays() == []
    for _ in range(4):
        sim.tick(1.0)
    assert states(sim)[:2] == ("closed", "closed")
    assert sim.loop.time() == 5.0


def test_each_role_has_a_player_and_each_actor_what_it_needs(sim: LeaseSimulation) -> None:
    subsidiary = {f"{machine}[{n}]": name for machine, name in SUBSIDIARY.items() for n in range(2)}
    players = {"service_manager": "service_manager", "broker": "broker", "authority": "site"}
    assert sim.players == players | subsidiary
    assert sim.roles == {"service_manager": ("service_manager",), "broker": ("broker",), "site": ("authority",)}
    assert [type(sim.policy(role)).__name__ for role in ROLES] == ["FixedDemand", "FirstComeFirstServed", "FirstFit"]
    assert [unit.name for unit in sim.inventory.units] == ["unit-0", "unit-1"]
    assert {*sim.actors} == {*sim.disks} == {*sim.clocks} == {"service_manager", "broker", "site"}


@pytest.mark.parametrize("name", ["service_manager", "broker", "site"])
def test_a_crash_takes_what_is_in_memory_and_leaves_what_was_committed(sim: LeaseSimulation, name: str) -> None:
    demand(sim)
    sim.loop.advance(1.0)
    ends: list[str] = []
    sim.ends.append(ends.append)
    before = sim.actors[name]
    sim.crash(name)
    assert (ends, sim.crashes, name in sim.actors, before.running) == ([name], 1, False, False)
    role = next(role for role in ROLES if sim.players[role] == name)
    assert sim.held(LEASE, role) is None
    assert sim.disks[name].owner is None
    assert sim.up() == {"unit-0", GUEST}, "units and guests do not end with an actor"
    assert sim.start(name) is sim.actors[name] is not before
    assert states(sim) == ACTIVE
    for _ in range(8):
        sim.tick(1.0)
    assert states(sim) == ACTIVE, "and it goes on"


def test_nothing_gets_out_of_an_actor_that_is_gone() -> None:
    """It had sent a message, and it was in the midst of an action: neither its answer nor any notice comes."""
    sim, heard = simulation(), list[Notice]()
    sim.start_all()
    demand(sim)
    sim.loop.advance(1.0)
    sim.hold()
    extend(sim)
    for actor in sim.actors.values():
        actor.notices.subscribe(heard.append)
    (packet,) = sim.network.in_transit
    sim.crash("service_manager")
    assert packet in sim.network.in_transit, "what was sent is under way"
    sim.loop.call(lambda: sim.network.deliver(packet))
    sim.loop.advance(10)
    assert [notice for notice in heard if notice.actor == "service_manager"] == []
    assert states(sim)[1] == "extending"
    sim.close()


def test_while_it_is_held_nothing_happens_by_itself(sim: LeaseSimulation) -> None:
    demand(sim)
    sim.loop.advance(1.0)
    sim.hold()
    extend(sim)
    sim.loop.advance(1.0)
    assert (states(sim), len(sim.network.in_transit)) == (("extending_ticket", "ticketed", "active"), 1)
    deliver(sim)
    sim.loop.advance(5.0)
    assert states(sim) == ("extending_ticket", "extending", "active"), "the policy's answer is held back"
    for _ in range(60):
        sim.tick()
    assert states(sim) == ("extending_ticket", "extending", "active"), "no timer fires, though time has passed"
    assert [clock.now() for clock in sim.clocks.values()] == [60, 60, 60]
    sim.release()
    sim.loop.advance(5.0)
    assert states(sim)[:2] == ("closed", "closed")
    assert (sim.network.holds, sim.time.held, sim.network.in_transit) == (False, False, [])


def test_what_was_held_back_is_done_when_it_is_released(sim: LeaseSimulation) -> None:
    """Decisions of policies, and what has come true of units."""
    sim.hold()
    demand(sim)
    sim.loop.advance(5.0)
    assert states(sim) == ("", "", "")
    sim.release()
    sim.loop.advance(1.0)
    assert states(sim) == ACTIVE
    sim.hold()
    extend(sim)
    deliver(sim)
    sim.release()
    sim.loop.advance(1.0)
    assert states(sim) == ACTIVE
    for _ in range(8):
        sim.tick(1.0)
    assert states(sim) == ACTIVE


def test_who_starts_while_it_is_held_is_held_too(sim: LeaseSimulation) -> None:
    demand(sim)
    sim.loop.advance(1.0)
    sim.hold()
    for name in ("service_manager", "broker", "site"):
        sim.crash(name)
        assert sim.start(name).controlled
    for _ in range(60):
        sim.tick(1.0)
    assert states(sim) == ACTIVE
    sim.release()
    assert not any(actor.controlled for actor in sim.actors.values())
    sim.loop.advance(5.0)
    assert states(sim)[:2] == ("closed", "closed")


def test_a_wish_that_cannot_be_is_refused_to_who_says_it(sim: LeaseSimulation) -> None:
    with pytest.raises(ActorError, match="at least one unit"):
        sim.wish("demand", LEASE, 0, 50, 5)
    demand(sim)
    with pytest.raises(ActorError, match="give it a new name"):
        demand(sim)


def test_a_wish_whose_actor_ends_before_it_is_heard_is_nobodys_error() -> None:
    """Nobody waits for the answer any more."""

    class Slow(MemoryStore):
        async def _commit(self, batch: object) -> None:
            import asyncio

            await asyncio.sleep(1.0)
            await super()._commit(batch)  # type: ignore[arg-type]

    disks: dict[str, Disk] = {}
    sim = simulation(store=lambda name: Slow(disks.setdefault(name, Disk())))
    sim.start_all()
    demand(sim)
    assert states(sim)[0] in ("", "nascent", "ticketing")
    sim.crash("service_manager")
    sim.loop.advance(5.0)
    assert sim.loop.errors == []
    sim.close()


def test_subscribers_hear_every_actor_from_its_start(sim: LeaseSimulation) -> None:
    heard: list[tuple[str, Kind]] = []
    sim.subscribers.append(lambda notice: heard.append((notice.actor, notice.kind)))
    for name in ("service_manager", "broker", "site"):
        sim.crash(name)
        sim.start(name)
        assert (name, Kind.RECOVERED) in heard


def test_a_unit_is_its_sites_and_nobodys_where_its_site_is_down(sim: LeaseSimulation) -> None:
    demand(sim)
    sim.loop.advance(1.0)
    held = sim.held("whatever", "unit[0]")
    assert held is not None
    assert held.state == "active", "a unit's machine is the site's, and no lease's"
    sim.crash("site")
    assert sim.held("whatever", "unit[0]") is None
    assert sim.held(LEASE, "authority") is None


def test_an_operator_repairs_a_unit(sim: LeaseSimulation) -> None:
    demand(sim)
    sim.loop.advance(1.0)
    sim.repair("unit-0")
    assert sim.up() == {GUEST}


def test_a_unit_that_is_repaired_goes_to_a_lease_that_waits_and_every_step_is_of_the_specification() -> None:
    sim = simulation()
    conformance = StepConformance(sim, Reference(lower(load("lease", {"max_units": 2}))))
    sim.start_all()
    broken = True
    sim.units._fails = lambda action, chance: broken and action.verb == "teardown" and action.unit == "unit-0"
    demand(sim)
    sim.loop.advance(1.0)
    sim.loop.call(lambda: sim.actors["service_manager"].tell(LEASE, "service_manager", "close"))
    sim.loop.advance(1.0)
    unit = sim.held(LEASE, "unit[0]")
    assert unit is not None
    assert unit.state == "failed"
    holds, waits = "service_manager:2", "service_manager:3"
    for lease in holds, waits:
        demand(sim, lease)
        sim.loop.advance(1.0)
    assert (states(sim, holds), states(sim, waits)[2]) == (ACTIVE, "priming")
    sim.repair("unit-0")
    broken = False
    sim.loop.call(lambda: sim.actors["site"].tell(BELOW, "unit[0]", "repaired"))
    sim.loop.advance(1.0)
    assert (states(sim, waits), sim.up()) == (ACTIVE, {"unit-0", "unit-1", f"{holds}/guest[1]", f"{waits}/guest[0]"})
    assert conformance.strange == []
    assert conformance.compared > 20
    sim.close()


def run(seed: int) -> list[str]:
    sim, told = simulation(seed), list[str]()
    sim.subscribers.append(lambda notice: told.append(repr(notice)))
    sim.start_all()
    demand(sim)
    for _ in range(7):
        sim.tick(0.5)
    told += [repr(sorted(disk.metadata.items())) for disk in sim.disks.values()]
    told += [repr(sorted(disk.records.items())) for disk in sim.disks.values()]
    told += [identity.key.public.fingerprint for identity in sim._identities.values()]
    sim.close()
    return told


def test_one_seed_is_one_run_and_another_has_other_keys() -> None:
    one, again, other = run(3), run(3), run(4)
    assert one == again
    assert len({*one[-3:], *other[-3:]}) == 6


def test_the_end_of_a_simulation_ends_its_actors() -> None:
    sim = simulation()
    sim.start_all()
    demand(sim)
    sim.loop.advance(1.0)
    actors = list(sim.actors.values())
    sim.close()
    assert sim.actors == {}
    assert not any(actor.running for actor in actors)
    assert sim.loop.is_closed()
    assert sim.crashes == 3
