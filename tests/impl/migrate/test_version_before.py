"""Stores that versions before have written, committed with the keys of their actors: nothing of them is lost.

The last version before had the lease before it was made whole, with a number of units and no names; the one before that
had other claims, and the same machines and messages. A service manager, a broker and a site of four units. `at_rest`:
at tick 18, two leases that go on, one that is over, and one that waits for units. `at_work`: killed while the site sets
units up for a lease, changes those of another and tears down those of a third.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.checker.recovery.properties import RunProperties, named
from leasehold.checker.verify.evaluator import RunEvaluator
from leasehold.cli.main import cli
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.fleet import ROLES
from leasehold.impl.store.url import store_from_url

STORES = Path(__file__).parent / "stores"
OLDEST, AT_REST = STORES / "lease-5f6ee348ee3a", STORES / "lease-3adbe2d06e93" / "at_rest"
AT_WORK = STORES / "lease-3adbe2d06e93" / "at_work"
WRITTEN_AT = 18
ACTIVE, CLOSED = ("active", "ticketed", "active"), ("closed", "closed", "closed")
HELD = {"tenant:1": ACTIVE, "tenant:2": ACTIVE, "tenant:3": CLOSED}


def migrated(stores: Path, place: Path, **settings: int) -> Path:
    """A copy of the stores for the present specification."""
    folder = shutil.copytree(stores, place)
    words = [word for name, value in {"max_units": 4, **settings}.items() for word in ("--set", f"{name}={value}")]
    for name in ROLES:
        done = CliRunner().invoke(cli, ["migrate", f"sqlite:{folder / name}.db", "lease", *words])
        assert done.exit_code == 0, done.output
    return folder


def reopened(folder: Path, at: int = WRITTEN_AT, **settings: int) -> Cluster:
    """The actors of the stores in a folder, with their own keys."""
    cluster = Cluster(units=4, settings=settings, store=lambda name: store_from_url(f"sqlite:{folder / name}.db"))
    trust, keys = Trust(), dict[str, PrivateKey]()
    for name, role in ROLES.items():
        file = folder / f"{name}.key"
        file.chmod(0o600)
        keys[name] = PrivateKey.load(file)
        trust = add(trust, name, role, keys[name].public, f"memory:{name}")
    cluster._identities = {name: Identity(name, key, trust) for name, key in keys.items()}
    cluster.time.now = at
    return cluster


@pytest.mark.parametrize("stores", [OLDEST, AT_REST], ids=["oldest", "last"])
def test_leases_of_a_version_before_go_on_to_their_ends(tmp_path: Path, stores: Path) -> None:
    folder = migrated(stores, tmp_path / "stores")

    async def run() -> None:
        async with reopened(folder) as cluster:
            await cluster.settle()
            assert {lease: cluster.state(lease) for lease in HELD} == HELD
            wish = cluster.wish("tenant:1")
            assert wish is not None
            assert (wish.units, wish.until) == (2, 40)
            held = cluster.site.table.instances
            assert sorted(machine for _, machine in held if machine.startswith("unit")) == [
                f"unit[{n}]" for n in range(4)
            ]
            for lease, units in (("tenant:1", 2), ("tenant:2", 1)):  # which units they have their holders hear now
                of_site, of_holder = cluster.held(lease, "authority"), cluster.held(lease, "service_manager")
                assert of_site is not None
                assert of_holder is not None
                told = of_holder.core.view(of_holder.record)["lease_units"]
                assert told == of_site.core.view(of_site.record)["assigned"]
                assert len(told) == units
            if stores == OLDEST:
                await cluster.lease(1, until=60, term=20, name="tenant:4")  # the only unit that is free
            await cluster.advance(4)  # past the end of a term: it is extended with tickets of the version before
            assert cluster.state("tenant:1") == ACTIVE
            assert cluster.state("tenant:4") == (ACTIVE if stores == OLDEST else ("ticketing", "ticketing", None))
            await cluster.tenant.tell("tenant:2", "service_manager", "close")
            await cluster.settle()
            assert cluster.state("tenant:4") == ACTIVE, "the one that waited is served"
            await cluster.advance(20)
            assert [cluster.state(lease) for lease in ("tenant:1", "tenant:2")] == [CLOSED, CLOSED]

    asyncio.run(run())


def test_a_second_start_finds_what_the_first_has_written(tmp_path: Path) -> None:
    folder = migrated(AT_REST, tmp_path / "stores")

    async def run() -> None:
        for tick in (20, 22):
            async with reopened(folder, tick) as cluster:
                await cluster.advance(1)
                assert cluster.state("tenant:1") == HELD["tenant:1"]

    asyncio.run(run())


def test_what_was_under_way_at_the_stop_goes_on(tmp_path: Path) -> None:
    """A lease is being made, one is being changed, and one is being ended: each comes to where it was to come."""
    folder = migrated(AT_WORK, tmp_path / "stores", handler_limit=30)

    async def run() -> None:
        async with reopened(folder, 2, handler_limit=30) as cluster:
            await cluster.settle()
            assert [cluster.state(f"tenant:{n}") for n in (1, 2, 3)] == [ACTIVE, ACTIVE, CLOSED]
            held = cluster.held("tenant:1", "service_manager")
            assert held is not None
            data = held.core.view(held.record)
            assert (len(data["lease_units"]), data["ticket_units"]) == (2, 2)
            assert cluster.handler.world.on() == {"unit-0", "unit-2", "unit-3"}
            await cluster.advance(60)
            assert [cluster.state(f"tenant:{n}") for n in (1, 2, 3)] == [CLOSED] * 3
            assert cluster.handler.world.on() == set()

    asyncio.run(run())


def broken(cluster: Cluster, lease: str, properties: RunProperties) -> set[str]:
    """The properties of states that a lease's records do not have, as they were found."""
    state = list(properties.world.initial_states()[0])
    for actor in (cluster.tenant, cluster.broker, cluster.site):
        for held in actor.table.instances.values():
            if lease in (held.key.lease, held.serves):
                at, cells = properties.layout.at(held.core.role, held.number, None), held.core.cells(held.record)
                state[at : at + len(cells)] = cells
    assert properties.layout.clock is not None
    state[properties.layout.clock] = cluster.time.now
    return properties.of_records(named(RunEvaluator(properties.claims).see(tuple(state), None)))


@pytest.mark.parametrize(
    ("stores", "at", "settings"),
    [(OLDEST, WRITTEN_AT, {}), (AT_REST, WRITTEN_AT, {}), (AT_WORK, 2, {"handler_limit": 30})],
    ids=["oldest", "last", "at work"],
)
def test_records_of_a_version_before_have_the_properties_of_the_present_one(
    stores: Path, at: int, settings: dict[str, int], tmp_path: Path
) -> None:
    """Each rule of a migration gives a field such a value that all that is promised of it is true."""
    folder = migrated(stores, tmp_path / "stores", **settings)

    async def run() -> None:
        async with reopened(folder, at, **settings) as cluster:
            properties = RunProperties(cluster.system)
            for lease in HELD:
                assert broken(cluster, lease, properties) == set(), lease

    asyncio.run(run())
