"""Slices: leases of a holder share properties, which reach the broker, the site and the handlers (G, 3.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorError, Environment
from leasehold.impl.actor.table import SLICE, WISH
from leasehold.impl.core.values import OPAQUE_BYTES
from leasehold.impl.lease.demand import DemandError, LeaseDemand, LeaseSlice, property_lists
from leasehold.impl.lease.fleet import ROLES, TENANT
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.server.client import ClientError
from tests.impl.lease.test_local_properties import Watched
from tests.impl.server.test_clients import DEMAND, desk
from tests.impl.server.test_control import listening

HOLDER = "service_manager"
WEB = {"properties": {"user": "physics"}, "configuration": {"image": "web-1", "size": 2}, "local": {"team": "blue"}}


def command(cluster: Cluster, method: str, *arguments: Any, **options: Any) -> Any:
    return cluster.tenant.command(HOLDER, method, *arguments, **options)


def kept(cluster: Cluster) -> dict[str, bytes]:
    """All that the holder keeps of demands and slices."""
    return {name: body for name, body in cluster.tenant.table.metadata.items() if name.startswith((WISH, SLICE))}


def data(cluster: Cluster, lease: str, role: str) -> dict[str, Any]:
    held = cluster.held(lease, role)
    assert held is not None
    return held.core.view(held.record)


def lists(cluster: Cluster, lease: str) -> dict[str, Any]:
    """The properties of a lease as each actor has them."""
    return {
        "properties": data(cluster, lease, "broker")["request"],
        "configuration": data(cluster, lease, "authority")["configuration"],
        "local": data(cluster, lease, HOLDER)["local"],
    }


async def test_leases_of_a_slice_share_its_properties_and_their_own_go_before() -> None:
    site, guest = Watched(), Watched()
    async with Cluster(units=3, handler=site, guest=guest) as c:
        await command(c, "set_slice", "web", **WEB)
        await command(c, "demand", "tenant:1", 1, 90, 10, slice="web")
        own = {"properties": {"bid": 3}, "configuration": {"size": 4}, "local": {"team": "red"}}
        await command(c, "demand", "tenant:2", 1, 90, 10, slice="web", **own)
        await command(c, "demand", "tenant:3", 1, 90, 10)
        await c.settle()
        assert lists(c, "tenant:1") == {**WEB, "local": {"team": "blue", "slice": "web"}}
        assert lists(c, "tenant:2") == {
            "properties": {"user": "physics", "bid": 3},
            "configuration": {"image": "web-1", "size": 4},
            "local": {"team": "red", "slice": "web"},
        }
        assert lists(c, "tenant:3") == {"properties": {}, "configuration": {}, "local": {}}
        set_up = {a.lease: a.lease_data["configuration"] for a in site.actions if a.verb == "setup"}
        assert set_up["tenant:1"] == {"image": "web-1", "size": 2}
        assert set_up["tenant:2"] == {"image": "web-1", "size": 4}
        joined = {a.lease: a.lease_data["local"] for a in guest.actions if a.verb == "join"}
        assert joined["tenant:1"] == {"team": "blue", "slice": "web"}


async def test_a_change_is_told_with_the_next_extension_and_to_leases_that_begin_later() -> None:
    """Also where every actor has crashed in between."""
    site = Watched()
    async with Cluster(units=3, handler=site) as c:
        await command(c, "set_slice", "web", **WEB)
        await command(c, "demand", "tenant:1", 1, 90, 10, slice="web")
        await c.settle()
        await command(c, "set_slice", "web", configuration={"image": "web-2"})
        assert lists(c, "tenant:1")["configuration"] == {"image": "web-1", "size": 2}, "its term goes on as it is"
        for name in ROLES:
            await c.kill(name)
            await c.start(name)
        await command(c, "demand", "tenant:2", 1, 90, 10, slice="web")
        await c.settle()
        assert lists(c, "tenant:2") == {
            "properties": {},
            "configuration": {"image": "web-2"},
            "local": {"slice": "web"},
        }
        await c.advance(12)
        assert lists(c, "tenant:1") == lists(c, "tenant:2")
        changed = [a.lease_data["configuration"] for a in site.actions if a.verb == "unit.modify" or a.verb == "modify"]
        assert {"image": "web-2"} in changed, "the unit's handler is told"
        assert c.state("tenant:1") == ("active", "ticketed", "active")


async def test_what_was_acknowledged_of_a_slice_survives_a_crash() -> None:
    async with Cluster(units=2) as c:
        for name in ("web", "batch"):
            await command(c, "set_slice", name, **WEB)
        await command(c, "set_slice", "batch", remove=True)
        await c.kill(TENANT)
        await c.start(TENANT)
        policy = c.tenant.environment.policies[HOLDER]
        assert isinstance(policy, FixedDemand)
        assert policy._slices == {"web": LeaseSlice(**WEB)}
        assert [name for name in c.tenant.table.metadata if name.startswith(SLICE)] == ["slice web"]


class Slow(FixedDemand):
    """The same policy, which is no quick one, as it is of no module of Leasehold: a thread asks it."""


class SlowCluster(Cluster):
    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        if HOLDER in made.policies:
            made.policies[HOLDER] = Slow(max_units=2)
        return made


@pytest.mark.real_time
async def test_a_policy_in_a_thread_keeps_slices_as_well() -> None:
    async with SlowCluster(units=2) as c:
        await command(c, "set_slice", "web", **WEB)
        await c.kill(TENANT)
        await c.start(TENANT)
        await command(c, "demand", "tenant:1", 1, 90, 10, slice="web")
        await c.settle()
        assert lists(c, "tenant:1")["configuration"] == WEB["configuration"]


async def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    async with Cluster(units=2) as c:
        await command(c, "set_slice", "web", **WEB)
        large = {"x": "y" * (OPAQUE_BYTES - 100)}
        await command(c, "demand", "tenant:1", 1, 90, 10, slice="web", local=large)
        await c.settle()
        before = kept(c)
        for arguments, options, words in (
            (("set_slice", "a b"), {}, "no name of a slice: letters, digits"),
            (("set_slice", "tenant:1"), {}, "no name of a slice"),
            (("set_slice", ""), {}, "no name of a slice"),
            (("set_slice", "wbe"), {"remove": True}, r"there is no slice 'wbe'; did you mean web\?"),
            (("set_slice", "web"), {"remove": True}, r"slice 'web' has leases \(tenant:1\); close them first"),
            (("set_slice", "web"), {"local": {"z": "y" * 200}}, "lease 'tenant:1' would have too many of the slice"),
            (("set_slice", "web"), {"local": {"z": "y" * OPAQUE_BYTES}}, "are the most"),
            (("demand", "tenant:2", 1, 90, 10), {"slice": "wbe"}, r"there is no slice 'wbe'; did you mean web\?"),
            (("demand", "tenant:2", 1, 90, 10), {"slice": "web", "local": {"x": "y" * (OPAQUE_BYTES - 20)}}, "are the"),
        ):
            with pytest.raises(ActorError, match=words):
                await command(c, *arguments, **options)
            assert kept(c) == before, arguments
            assert c.wish("tenant:2") is None
        await c.advance(12)
        assert c.state("tenant:1") == ("active", "ticketed", "active"), "and it is renewed"


async def test_a_slice_without_leases_can_go() -> None:
    async with Cluster(units=2) as c:
        await command(c, "set_slice", "web", **WEB)
        await command(c, "demand", "tenant:1", 1, 30, 10, slice="web")
        await c.settle()
        await command(c, "stop", "tenant:1")
        await c.advance(2)
        await command(c, "set_slice", "web", remove=True)
        with pytest.raises(ActorError, match="there is no slice 'web'"):
            await command(c, "demand", "tenant:2", 1, 30, 10, slice="web")


def test_lists_are_merged_name_by_name() -> None:
    wish = LeaseDemand(1, 9, 3, properties={"a": 1}, configuration={"b": {"c": 1}}, local={"slice": "mine"})
    shared = LeaseSlice({"a": 2, "z": 3}, {"b": {"d": 2}}, {"e": 4})
    assert property_lists(wish, shared) == {
        "properties": {"a": 1, "z": 3},
        "configuration": {"b": {"c": 1}},
        "local": {"e": 4, "slice": "mine"},
    }


def test_bytes_that_are_no_slice_are_refused() -> None:
    policy = FixedDemand()
    for kept in (b"", b"[]", b'{"hue": {}}'):
        with pytest.raises(DemandError, match="what was kept of slice 'web' is none"):
            policy.restore_slice("web", kept)
    assert policy.changed_slices() == {}


# Who may, over the socket


@pytest.mark.real_time
async def test_slices_are_the_operators_and_clients_share_them(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        for client in ("alice", "viewer"):
            with pytest.raises(ClientError, match="this needs `operate`"):
                await d.ask(client, "post", "slices", "web", **WEB)
        with pytest.raises(ClientError, match="this needs `view`"):
            await d.ask("alice", "get", "slices")
        assert await d.ask("boss", "post", "slices", "web", **WEB) == {"slice": "web"}
        lease = (await d.ask("alice", "post", "demand", **DEMAND, slice="web"))["lease"]
        assert await d.ask("viewer", "get", "slices") == [{"slice": "web", **WEB, "leases": [lease]}]
        with pytest.raises(ClientError, match="has leases"):
            await d.ask("boss", "post", "slices", "web", remove=True)


@pytest.mark.real_time
async def test_over_the_socket_wrong_words_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster(2) as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        with pytest.raises(ClientError, match="there is no 'propertys' here"):
            await ask("post", "slices", "web", propertys={})
        with pytest.raises(ClientError, match=r"`local` is '\[1\]', and not of type dict"):
            await ask("post", "slices", "web", local=[1])
        monkeypatch.setattr(type(c.tenant.store), "low", "the disk of its store is full", raising=False)
        with pytest.raises(ClientError, match="the disk of its store is full"):
            await ask("post", "slices", "web")
        monkeypatch.undo()
        assert await ask("get", "slices") == []
    async with Cluster(2) as c, listening(c.site, c.system, tmp_path / "b.sock") as ask:
        with pytest.raises(ClientError, match="has no policy that takes a slice"):
            await ask("post", "slices", "web")
        assert await ask("get", "slices") == []
