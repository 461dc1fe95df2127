"""Members of a dynamic role: they join and leave while others run, and no actor knows how many there are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.impl.actor.chronicle import RowCodec
from leasehold.impl.actor.environment import Environment
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.migrate.mapping import Mapper
from leasehold.impl.migrate.schema import RecordSchema
from leasehold.impl.store.store import RecordKey
from leasehold.spec import load
from leasehold.spec.language.types import LARGEST_NUMBER
from tests.impl.actor.test_timers import FailsOnce
from tests.systems import TESTS

pytestmark = pytest.mark.real_time

RING = str(Path(__file__).parents[3] / "examples/ring")


def ring(nodes: int) -> Program:
    return compile_system(load(RING, {"nodes": nodes}))


async def enter(cluster: SystemCluster, number: int, after: int) -> None:
    actor = cluster.actors[cluster.players[f"node[{number}]"]]
    await actor.tell("ring:1", f"node[{number}]", "enter", {"after": f"node[{after}]"})
    await cluster.settle()


def states(cluster: SystemCluster) -> dict[str, str | None]:
    held = {machine: cluster.held("ring:1", machine) for machine in cluster.players}
    return {machine: None if found is None else found.state for machine, found in held.items()}


async def test_members_join_a_running_ring_that_was_not_set_up_for_them() -> None:
    async with SystemCluster(ring(2)) as cluster:
        await enter(cluster, 1, 0)
        for number in (7, 4, 12):
            await cluster.join(f"node[{number}]")
            await enter(cluster, number, 1)
        await cluster.actors["node-4"].tell("ring:1", "node[4]", "start")
        await cluster.settle()
        assert states(cluster) == {f"node[{n}]": "leading" if n == 12 else "following" for n in (0, 1, 7, 4, 12)}
        for name in list(cluster.actors):  # what they know of each other is durable
            await cluster.kill(name)
            await cluster.start(name)
        await cluster.join("node[40]")
        await enter(cluster, 40, 12)
        held = cluster.held("ring:1", "node[40]")
        assert held is not None
        assert held.state == "following"
        assert held.core.view(held.record)["best"] == 12


def test_actors_need_not_agree_on_how_many_members_there_are() -> None:
    assert ring(2).agreement == ring(9).agreement


def test_the_numbers_of_members_end_where_values_of_the_language_do() -> None:
    machines = ring(2).machines
    assert machines[f"node[{LARGEST_NUMBER}]"][1] == LARGEST_NUMBER
    for name in (f"node[{LARGEST_NUMBER + 1}]", f"node[{2**63}]", "node[01]", "node[-1]", "node[]", "node"):
        assert machines.get(name) is None


async def test_a_member_waits_until_others_know_who_plays_it() -> None:
    """Each actor has settings of its own, which change while it runs."""
    own: dict[str, dict[str, str]] = {}

    class Apart(SystemCluster):
        def _environment(self, name: str) -> Environment:
            own[name] = dict(self.players)
            return Environment(peers=own[name])

    async with Apart(ring(2)) as cluster:
        await enter(cluster, 1, 0)
        await cluster.join("node[5]")
        await enter(cluster, 5, 1)
        assert states(cluster)["node[5]"] == "joining"
        said = cluster.actors["node-5"].outbox.of(RecordKey("ring:1", "node[5]"))
        assert [pending.reason for pending in said] == ["nobody is known yet to play node[5] of ring:1"]
        own["node-1"]["node[5]"] = "node-5"
        for _ in range(100):
            await asyncio.sleep(0.01)
            if states(cluster)["node[5]"] != "joining":
                break
        await cluster.settle()
        assert states(cluster)["node[5]"] == "idle"


async def test_settings_whose_commit_failed_are_followed_all_the_same() -> None:
    """What an actor has taken from its settings is lost with the commit, and taken again."""
    stores: dict[str, FailsOnce] = {}
    cluster = SystemCluster(ring(2), store=lambda name: stores.setdefault(name, FailsOnce()))
    async with cluster:
        await enter(cluster, 1, 0)
        node = cluster.held("ring:1", "node[0]")
        assert node is not None
        assert "node-1" in dict(node.addressed).values()
        stores["node-0"].failing = True
        del cluster.players["node[1]"]
        await cluster.time.elapse()
        for _ in range(200):
            await asyncio.sleep(0.01)
            if cluster.actors["node-0"].running:
                break
        assert not stores["node-0"].failing
        node = cluster.held("ring:1", "node[0]")
        assert node is not None
        assert "node-1" not in dict(node.addressed).values()
        await cluster.kill("node-0")  # durably
        stores["node-0"].disk.crash()
        await cluster.start("node-0")
        node = cluster.held("ring:1", "node[0]")
        assert node is not None
        assert "node-1" not in dict(node.addressed).values()


async def test_what_is_said_to_a_member_that_has_left_is_owed_to_whoever_plays_it_next() -> None:
    cluster = SystemCluster(ring(2))
    async with cluster:
        await enter(cluster, 1, 0)
        await cluster.kill("node-1")
        await cluster.actors["node-0"].tell("ring:1", "node[0]", "start")
        del cluster.players["node[1]"]
        await cluster.advance()
        node = cluster.actors["node-0"]
        assert node.outbox.of(RecordKey("ring:1", "node[0]")) == ()
        assert node.counts["unaddressed"] or node.table.unaddressed
        cluster.players["node[1]"] = "node-1"  # it comes back
        await cluster.start("node-1")
        await cluster.advance()
        await cluster.settle()
        assert states(cluster) == {"node[0]": "following", "node[1]": "leading"}


async def test_records_name_dynamic_neighbours_and_are_read_whatever_their_number() -> None:
    async with SystemCluster(ring(2)) as cluster:
        await enter(cluster, 1, 0)
        await cluster.join("node[300]")
        await enter(cluster, 300, 0)
        held = cluster.held("ring:1", "node[0]")
        assert held is not None
        row = RowCodec(ring(2)).write(held)
        assert b"node[300]" in row
        for count in (2, 5):
            read = RowCodec(ring(count)).read(held.key, row, {})
            assert (read.record, read.peers) == (held.record, held.peers)
            assert read.record[held.core.sent_at][300] == 1
        mapped = Mapper(RecordSchema.of(ring(2)), load(RING, {"nodes": 5}), ring(5)).map(held.key, row)
        assert mapped.row == row


async def test_a_dynamic_role_among_others() -> None:
    """Positions of dynamic roles stand behind all others, in turns."""
    program = compile_system(load(TESTS / "impl/actor/systems/market"))
    assert program.roles["shop"].dynamic_neighbours == ("client", "shop")
    async with SystemCluster(program) as cluster:
        await cluster.join("shop[9]")
        await cluster.join("client[70]")
        await cluster.actors["client-70"].tell("market:1", "client[70]", "want", {"at": "shop[9]"})
        await cluster.settle()
        held = {m: cluster.held("market:1", m) for m in ("client[70]", "shop[9]", "hub")}
        assert [h.state for h in held.values() if h is not None] == ["idle", "open", "counting"]
        assert held["hub"] is not None
        assert held["shop[9]"] is not None
        assert held["hub"].core.view(held["hub"].record)["last"] == 70
        assert held["shop[9]"].core.view(held["shop[9]"].record)["known"] == frozenset({70})
