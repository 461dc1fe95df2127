"""Peers know an actor whose store is an older copy, whatever keeps it, and tell it; with the newest copy it goes on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor.environment import ActorOptions, Backoff
from leasehold.impl.identity.keys import PrivateKey, PublicKey
from leasehold.impl.identity.trust import Identity, Trust, add, remove, revoke, rotate
from leasehold.impl.lease.fleet import BROKER, TENANT
from leasehold.impl.store.memory import Disk

QUICK = ActorOptions(reopen_pause=0.01, backoff=Backoff(first=0.01, longest=0.05))


async def restarted(c: Cluster, disk: Disk) -> None:
    """The broker is started on another disk."""
    await c.kill(BROKER)
    c.disks[BROKER] = disk
    disk.crash()
    await c.start(BROKER)


async def two_leases_and_a_copy_between(c: Cluster) -> tuple[Disk, Disk]:
    """The broker's disk as it was before the second lease, and as it is."""
    await c.lease(1, until=100)
    before = copy.deepcopy(replace(c.disks[BROKER], owner=None))
    await c.lease(1, until=100)
    assert c.state(f"{TENANT}:2") == ("active", "ticketed", "active")
    return before, c.disks[BROKER]


def asked(c: Cluster, lease: str) -> tuple[str, str] | None:
    """The broker's message of a lease that was refused, and the reason."""
    return next((found for key, found in c.broker.outbox.refusals.items() if key.lease == lease), None)


async def test_an_older_copy_of_a_store_is_refused_by_its_peers_until_the_newest_is_back() -> None:
    async with Cluster(units=4, options=QUICK) as c:
        before, newest = await two_leases_and_a_copy_between(c)
        await restarted(c, before)
        assert c.state(f"{TENANT}:2")[1] is None, "the older copy has forgotten it, and would give its unit away"
        await c.lease(3, until=100)
        assert c.state(f"{TENANT}:3")[0] == "ticketing"
        refused = asked(c, f"{TENANT}:3")
        assert refused is not None
        assert refused[1].startswith("broker has an older copy of its store: it began with ")
        await restarted(c, newest)
        await c.lease(1, until=100)
        assert c.state(f"{TENANT}:4") == ("active", "ticketed", "active")


def revoked(trust: Trust, key: PublicKey, old: PublicKey) -> Trust:
    return revoke(rotate(trust, BROKER, key), BROKER, old.fingerprint)


def replaced(trust: Trust, key: PublicKey, old: PublicKey) -> Trust:
    return add(remove(trust, BROKER), BROKER, "broker", key, trust.actors[BROKER].address)


@pytest.mark.parametrize("change", [revoked, replaced])
async def test_an_actor_that_has_lost_its_store_goes_on_with_a_new_key(change: Callable[..., Trust]) -> None:
    """The old one is revoked, or the actor is removed and trusted anew."""

    async with Cluster(units=4, options=QUICK) as c:
        await two_leases_and_a_copy_between(c)
        await restarted(c, Disk())
        await c.lease(1, until=100)
        assert c.state(f"{TENANT}:3")[0] == "ticketing", "an empty store is an older one"
        key = PrivateKey.generate()
        for name, identity in c._identities.items():
            identity.trust = change(identity.trust, key.public, c._identities[BROKER].key.public)
            if name != BROKER:
                c.actors[name].identity.trust = identity.trust
        c._identities[BROKER] = Identity(BROKER, key, c._identities[BROKER].trust)
        await restarted(c, Disk())
        await c.lease(1, until=100)
        assert c.state(f"{TENANT}:4") == ("active", "ticketed", "active")


async def test_a_restart_with_the_same_store_is_believed() -> None:
    async with Cluster(units=4, options=QUICK) as c:
        await c.lease(1, until=100)
        for number in (2, 3, 4):
            await restarted(c, c.disks[BROKER])
            await c.lease(1, until=100)
            assert c.state(f"{TENANT}:{number}") == ("active", "ticketed", "active")


async def test_a_store_of_an_earlier_version_gets_a_name_before_anybody_hears_it() -> None:
    """It says its request again in recovery, and crashes before anything comes back that it would commit."""
    mute = False

    def rule(sender: str, receiver: str, frame: bytes) -> PacketOutcome:
        return PacketOutcome(()) if mute and sender == f"memory:{BROKER}" else PacketOutcome()

    async with Cluster(units=4, options=QUICK, rule=rule) as c:
        mute = True
        await c.lease(1, until=100)
        assert c.state(f"{TENANT}:1") == ("ticketing", "ticketed", None)
        await c.kill(TENANT)
        del c.disks[TENANT].metadata["commits"]
        c.broker.table.metadata[f"epoch of {TENANT}"] = b"1"
        for _ in range(2):
            await c.start(TENANT)
            await c.settle()
            await c.kill(TENANT)
        assert c.broker.table.metadata[f"epoch of {TENANT}"].split()[0] == b"3"
        mute = False
        await c.start(TENANT)
        await c.settle()
        assert c.state(f"{TENANT}:1") == ("active", "ticketed", "active")
