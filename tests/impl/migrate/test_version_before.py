"""Stores that the version before has written, committed with the keys of their actors: nothing of them is lost.

The specification has other claims since then, and the same machines and messages: records are migrated, without a rule.
A service manager, a broker and a site of four units, at tick 18: two leases that go on, and one that is over.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from click.testing import CliRunner

from leasehold.cli.main import cli
from leasehold.impl.clock import HandClock
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.cluster import Cluster
from leasehold.impl.lease.fleet import ROLES
from leasehold.impl.store.url import store_from_url

STORES = Path(__file__).parent / "stores" / "lease-5f6ee348ee3a"
WRITTEN_AT = 18
HELD = {
    "tenant:1": ("active", "ticketed", "active"), "tenant:2": ("active", "ticketed", "active"),
    "tenant:3": ("closed", "closed", "closed"),
}  # fmt: skip


def migrated(place: Path) -> Path:
    """A copy of the stores for the present specification."""
    folder = shutil.copytree(STORES, place)
    for name in ROLES:
        done = CliRunner().invoke(cli, ["migrate", f"sqlite:{folder / name}.db", "lease", "--set", "max_units=4"])
        assert done.exit_code == 0, done.output
    return folder


def reopened(folder: Path, at: int = WRITTEN_AT) -> Cluster:
    """The actors of the stores in a folder, with their own keys."""
    cluster = Cluster(units=4, store=lambda name: store_from_url(f"sqlite:{folder / name}.db"))
    trust, keys = Trust(), dict[str, PrivateKey]()
    for name, role in ROLES.items():
        file = folder / f"{name}.key"
        file.chmod(0o600)
        keys[name] = PrivateKey.load(file)
        trust = add(trust, name, role, keys[name].public, f"memory:{name}")
    cluster._identities = {name: Identity(name, key, trust) for name, key in keys.items()}
    cluster.clock = HandClock(at)
    return cluster


def test_leases_of_the_version_before_go_on_to_their_ends(tmp_path: Path) -> None:
    folder = migrated(tmp_path / "stores")

    async def run() -> None:
        async with reopened(folder) as cluster:
            assert {lease: cluster.state(lease) for lease in HELD} == HELD
            wish = cluster.wish("tenant:1")
            assert wish is not None
            assert (wish.units, wish.until) == (2, 40)
            held = cluster.site.table.instances
            assert sorted(machine for _, machine in held if machine.startswith("unit")) == [
                f"unit[{n}]" for n in range(4)
            ]
            await cluster.lease(1, until=60, term=20, name="tenant:4")  # the only unit that is free
            await cluster.advance(4)  # past the end of a term: it is extended with tickets of the version before
            assert cluster.state("tenant:1") == cluster.state("tenant:4") == HELD["tenant:1"]
            await cluster.tenant.tell("tenant:2", "service_manager", "close")
            await cluster.advance(20)
            assert {lease: cluster.state(lease) for lease in ("tenant:1", "tenant:2")} == dict.fromkeys(
                ("tenant:1", "tenant:2"), ("closed", "closed", "closed")
            )

    asyncio.run(run())


def test_a_second_start_finds_what_the_first_has_written(tmp_path: Path) -> None:
    folder = migrated(tmp_path / "stores")

    async def run() -> None:
        for tick in (20, 24):
            async with reopened(folder, tick) as cluster:
                await cluster.advance(1)
                assert cluster.state("tenant:1") == HELD["tenant:1"]

    asyncio.run(run())
