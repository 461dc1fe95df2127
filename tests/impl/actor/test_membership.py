"""Peers of a machine: the membership of a run, standing systems, and messages that are owed to nobody known."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.messages import MEMBERSHIP
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.identity import membership
from leasehold.impl.identity.envelope import open_frame, seal
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.transport import Delivery, Reply
from leasehold.spec import load
from tests.impl.demand import demand

EXAMPLES = Path(__file__).parents[3] / "examples"
RUN = "coordinator:1"
MEMBERS = {"coordinator": "coordinator", **{f"participant[{n}]": f"participant-{n}" for n in range(3)}}


@lru_cache
def program_of(system: str, **settings: int) -> Program:
    return compile_system(load(system if "/" not in system else EXAMPLES.parent / system, settings))


def termination() -> SystemCluster:
    return SystemCluster(program_of("three_phase_commit_termination", participants=3))


def states(cluster: SystemCluster, run: str) -> list[str | None]:
    found = (cluster.held(run, machine) for machine in sorted(cluster.players))
    return [None if held is None else held.state for held in found]


def virtual(work: object) -> object:
    return asyncio.run(work)  # type: ignore[arg-type]


def test_only_systems_whose_machines_meet_through_others_have_a_membership() -> None:
    meet = {
        name: program_of(name).has_membership
        for name in ("lease", "two_phase_commit", "three_phase_commit", "three_phase_commit_termination")
    }
    assert meet == {
        "lease": False,
        "two_phase_commit": False,
        "three_phase_commit": False,
        "three_phase_commit_termination": True,
    }
    assert not program_of("examples/ring").has_membership  # the settings name its actors


async def test_those_that_a_message_has_begun_speak_to_one_another() -> None:
    """The coordinator asks all, and is lost; a participant leads, which no other had spoken to."""
    async with termination() as cluster:
        await cluster.actors["coordinator"].begin(RUN, "coordinator", "begin", {}, {})
        await cluster.settle()
        for n in range(3):
            await cluster.actors[f"participant-{n}"].tell(RUN, f"participant[{n}]", "able")
        await cluster.kill("coordinator")
        await cluster.settle()
        assert states(cluster, RUN) == ["asking", "prepared", "prepared", "prepared"]
        for name in ("participant-0", "participant-2"):  # what they know of each other is durable
            await cluster.kill(name)
            await cluster.start(name)
        await cluster.actors["participant-1"].tell(RUN, "participant[1]", "lost")
        await cluster.settle()
        assert states(cluster, RUN)[1:] == ["aborted"] * 3
        for n in range(3):
            held = cluster.held(RUN, f"participant[{n}]")
            assert held is not None
            assert held.peers == list(MEMBERS.values())


async def test_a_member_that_nobody_has_asked_yet_is_begun_by_another_member() -> None:
    """The origin's word goes along with it: a relay is believed as the origin would be."""
    lost = {"participant-2"}
    frames: list[bytes] = []

    def rule(sender: str, receiver: str, frame: bytes) -> PacketOutcome:
        frames.append(frame)
        return PacketOutcome(
            () if sender == "memory:coordinator" and receiver.removeprefix("memory:") in lost else (0,)
        )

    cluster = SystemCluster(program_of("three_phase_commit_termination", participants=3), rule)
    async with cluster:
        await cluster.actors["coordinator"].begin(RUN, "coordinator", "begin", {}, {})
        await cluster.settle()
        assert states(cluster, RUN) == ["asking", "voting", "voting", None]
        await cluster.kill("coordinator")
        await cluster.actors["participant-0"].tell(RUN, "participant[0]", "able")
        await cluster.actors["participant-0"].tell(RUN, "participant[0]", "lost")
        await cluster.settle()
        assert states(cluster, RUN)[1:] == ["aborted"] * 3
        held = cluster.held(RUN, "participant[2]")
        assert held is not None
        assert held.peers == list(MEMBERS.values())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: None, "is not a lease of participant-0"),
        (lambda s: s.word(s.key("participant-0"), "participant-0", RUN, MEMBERS), "is that of"),
        (lambda s: s.word(s.key("participant-0"), "coordinator", RUN, MEMBERS), "is none of coordinator"),
        (lambda s: s.word(PrivateKey.generate(), "coordinator", RUN, MEMBERS), "is none of coordinator"),
        (lambda s: s.word(s.key("coordinator"), "coordinator", "coordinator:2", MEMBERS), "is that of coordinator:2"),
        (
            lambda s: s.word(s.key("coordinator"), "coordinator", RUN, {**MEMBERS, "participant[0]": "participant-1"}),
            r"participant-0 does not play participant\[0\]",
        ),
        (
            lambda s: s.word(s.key("coordinator"), "coordinator", RUN, {**MEMBERS, "participant[2]": "participant-1"}),
            r"participant-2 does not play participant\[2\]",
        ),
        (
            lambda s: s.word(s.key("coordinator"), "coordinator", RUN, {"participant[0]": "participant-0"}),
            r"participant-2 does not play participant\[2\]",
        ),
        (lambda s: "lhm1.nonsense", "form of a membership"),
        (lambda s: s.word(s.key("coordinator"), "coordinator", RUN, MEMBERS)[:-2] + "AA", ""),
        (
            lambda s: (
                s.word(s.key("coordinator"), "coordinator", RUN, MEMBERS).rpartition(".")[0]
                + "."
                + s.word(s.key("coordinator"), "coordinator", RUN, {**MEMBERS, "a": "b"}).rpartition(".")[2]
            ),
            "signature is not that of coordinator",
        ),
    ],
)
async def test_nobody_begins_a_run_in_anothers_name_nor_changes_who_plays_in_it(change: object, words: str) -> None:
    held_back: list[bytes] = []

    def rule(sender: str, receiver: str, frame: bytes) -> PacketOutcome:
        if receiver == "memory:participant-2":
            held_back.append(frame)
        return PacketOutcome(() if receiver == "memory:participant-2" else (0,))

    cluster = SystemCluster(program_of("three_phase_commit_termination", participants=3), rule)
    async with cluster:
        await cluster.actors["coordinator"].begin(RUN, "coordinator", "begin", {}, {})
        await cluster.settle()
        await cluster.actors["participant-0"].tell(RUN, "participant[0]", "lost")
        await cluster.settle()
        identity = cluster.actors["participant-0"].identity
        said = next(
            e
            for frame in held_back
            if (e := open_frame(frame, identity.trust, "participant-2")).sender == "participant-0"
        )

        class Scene:
            word = staticmethod(membership.issue)

            @staticmethod
            def key(name: str) -> PrivateKey:
                return cluster.actors[name].identity.key

        forged = with_fields(said, membership=change(Scene))  # type: ignore[operator]
        target = cluster.actors["participant-2"]
        reply = await target.receive(seal(forged, identity.key))
        assert reply.answer in (Delivery.REFUSED, Delivery.UNTRUSTED)
        assert _found(words, reply), reply.reason
        assert not target.table.instances
        reply = await target.receive(seal(said, identity.key))
        assert reply.answer is Delivery.TAKEN
        assert target.table.instances[RecordKey(RUN, "participant[2]")].metadata[MEMBERSHIP] == said.membership


def _found(words: str, reply: Reply) -> bool:
    return re.search(words, reply.reason) is not None


async def test_a_run_without_a_membership_takes_none() -> None:
    frames: list[bytes] = []

    def rule(sender: str, receiver: str, frame: bytes) -> PacketOutcome:
        frames.append(frame)
        return PacketOutcome(())

    async with SystemCluster(program_of("two_phase_commit", participants=2), rule) as cluster:
        await cluster.actors["coordinator"].begin(RUN, "coordinator", "begin", {}, {})
        await cluster.settle()
        identity = cluster.actors["coordinator"].identity
        said = open_frame(frames[0], identity.trust, "participant-0")
        assert said.membership is None
        word = membership.issue(identity.key, "coordinator", RUN, {"coordinator": "coordinator"})
        target = cluster.actors["participant-0"]
        reply = await target.receive(seal(with_fields(said, membership=word), identity.key))
        assert (reply.answer, reply.reason) == (Delivery.REFUSED, "runs of two_phase_commit have no membership")


async def test_a_membership_goes_along_until_the_neighbour_has_spoken() -> None:
    said: list[tuple[str, bool]] = []

    def rule(sender: str, receiver: str, frame: bytes) -> PacketOutcome:
        said.append((f"{sender} {receiver}".replace("memory:", ""), b'"membership"' in frame))
        return PacketOutcome()

    async with SystemCluster(program_of("three_phase_commit_termination", participants=2), rule) as cluster:
        await cluster.actors["coordinator"].begin(RUN, "coordinator", "begin", {}, {})
        await cluster.settle()
        for n in range(2):
            await cluster.actors[f"participant-{n}"].tell(RUN, f"participant[{n}]", "able")
            await cluster.settle()
        assert states(cluster, RUN) == ["committed"] * 3
        first = dict(reversed(said))
        assert first == {
            "coordinator participant-0": True,
            "coordinator participant-1": True,
            "participant-0 coordinator": False,
            "participant-1 coordinator": False,
        }
        assert said[-1][1] is False
        assert not any(known for line, known in said if line.startswith("participant"))
        assert sum(known for line, known in said if line.startswith("coordinator")) < len(said) / 2


async def test_a_run_begins_only_when_all_its_machines_have_a_player() -> None:
    async with termination() as cluster:
        del cluster.players["participant[1]"]
        coordinator = cluster.actors["coordinator"]
        with pytest.raises(ActorError, match=r"nobody was named to play participant\[1\] for coordinator:1"):
            await coordinator.begin(RUN, "coordinator", "begin", {}, {})
        assert not coordinator.table.instances
        await coordinator.begin(RUN, "coordinator", "begin", {}, {"participant[1]": "participant-1"})
        await cluster.settle()
        assert states(cluster, RUN)[:2] == ["asking", "voting"]


@pytest.mark.parametrize(
    ("system", "begun_by", "relayed_by"),
    [
        ("lease", ("service_manager",), ("service_manager",)),
        ("two_phase_commit", ("coordinator",), ("coordinator",)),
        ("three_phase_commit_termination", ("coordinator",), ("participant",)),  # it says so itself
    ],
)
def test_a_system_says_who_begins_runs_and_who_relays_them(
    system: str, begun_by: tuple[str, ...], relayed_by: tuple[str, ...]
) -> None:
    program = program_of(system)
    assert (program.begun_by, program.relayed_by) == (begun_by, relayed_by)


async def test_only_roles_that_the_specification_names_begin_runs() -> None:
    """A participant's own client, and a participant that claims to have begun one."""
    async with termination() as cluster:
        with pytest.raises(ActorError, match=r"begins no runs of three_phase_.*; these do: coordinator"):
            await cluster.actors["participant-0"].begin("participant-0:1", "participant[0]", "lost", {}, MEMBERS)
        frames: list[bytes] = []
        cluster.network.rule = lambda *words: frames.append(words[2]) or PacketOutcome(())  # type: ignore[func-returns-value]
        await cluster.actors["coordinator"].begin(RUN, "coordinator", "begin", {}, {})
        await cluster.settle()
        liar = cluster.actors["participant-0"].identity
        said = open_frame(frames[0], liar.trust, "participant-0")
        word = membership.issue(liar.key, liar.name, "participant-0:1", MEMBERS)
        wrong = with_fields(
            said,
            sender=liar.name,
            receiver="participant-1",
            lease="participant-0:1",
            message="align",
            sending_machine="participant[0]",
            receiving_machine="participant[1]",
            membership=word,
            fields={"commit": False, "without": []},
        )
        reply = await cluster.actors["participant-1"].receive(seal(wrong, liar.key))
        assert reply.answer is Delivery.REFUSED
        assert reply.reason == "participant-0 plays none of the roles that begin runs: coordinator"


async def test_only_roles_that_the_specification_names_relay_runs_of_others() -> None:
    program = replace(program_of("three_phase_commit_termination", participants=3), relayed_by=())
    lost = {"memory:participant-2"}

    def rule(sender: str, receiver: str, frame: bytes) -> PacketOutcome:
        return PacketOutcome(() if sender == "memory:coordinator" and receiver in lost else (0,))

    async with SystemCluster(program, rule) as cluster:
        await cluster.actors["coordinator"].begin(RUN, "coordinator", "begin", {}, {})
        await cluster.settle()
        await cluster.kill("coordinator")
        await cluster.actors["participant-0"].tell(RUN, "participant[0]", "able")
        await cluster.actors["participant-0"].tell(RUN, "participant[0]", "lost")
        await cluster.settle()
        assert cluster.held(RUN, "participant[2]") is None
        refusals = cluster.actors["participant-0"].outbox.refusals.values()
        assert [reason for _, reason in refusals] == ["participant brings no machine into runs of others"]


# Standing systems


def ring(nodes: int = 3, players: Mapping[str, str] | None = None) -> SystemCluster:
    return SystemCluster(program_of("tests/impl/actor/fixed_ring", nodes=nodes), players=players)


def of_ring(cluster: SystemCluster) -> list[str | None]:
    return states(cluster, cluster.program.only_run)


async def test_the_machines_of_a_standing_system_are_there_from_the_start() -> None:
    async with ring() as cluster:
        assert of_ring(cluster) == ["idle"] * 3
        await cluster.actors["node-1"].tell("ring:1", "node[1]", "start")
        await cluster.settle()
        assert of_ring(cluster) == ["following", "following", "leading"]
        for name in cluster.disks:
            await cluster.kill(name)
            await cluster.start(name)
        assert of_ring(cluster) == ["following", "following", "leading"]


async def test_each_node_may_be_lost_at_any_time_of_the_election() -> None:
    for name in ("node-0", "node-1", "node-2"):
        async with ring() as cluster:
            await cluster.kill(name)
            for actor in cluster.actors.values():
                if actor.running:
                    number = actor.identity.name[-1]
                    await actor.tell("ring:1", f"node[{number}]", "start")
            await cluster.settle()
            await cluster.start(name)
            for _ in range(200):
                await asyncio.sleep(0.01)
                if None not in (found := of_ring(cluster)) and found.count("leading") == 1:
                    break
            await cluster.settle()
            assert of_ring(cluster) == ["following", "following", "leading"]


async def test_one_actor_may_play_several_machines() -> None:
    async with ring(4, {"node[0]": "a", "node[1]": "a", "node[2]": "b", "node[3]": "a"}) as cluster:
        await cluster.actors["b"].tell("ring:1", "node[2]", "start")
        await cluster.settle()
        assert of_ring(cluster) == ["following"] * 3 + ["leading"]


async def test_a_standing_system_is_not_begun_and_takes_no_other_run() -> None:
    async with ring() as cluster:
        node = cluster.actors["node-0"]
        with pytest.raises(ActorError, match="ring stands: its machines are there"):
            await node.begin("node-0:1", "node[0]", "start", {}, {})
        with pytest.raises(ActorError, match="there is none of this name"):
            await node.tell("ring:1", "node[1]", "start")  # another's
        frames: list[bytes] = []
        cluster.network.rule = lambda *words: frames.append(words[2]) or PacketOutcome(())  # type: ignore[func-returns-value]
        await node.tell("ring:1", "node[0]", "start")
        await cluster.settle()
        said = open_frame(frames[0], node.identity.trust, "node-1")
        for wrong in (with_fields(said, lease="ring:2"), with_fields(said, receiving_machine="node[2]")):
            reply = await cluster.actors["node-1"].receive(seal(wrong, node.identity.key))
            assert reply.answer is Delivery.REFUSED
            assert "this actor does not play" in reply.reason
        wrong = with_fields(said, sending_machine="node[2]")
        reply = await cluster.actors["node-1"].receive(seal(wrong, node.identity.key))
        assert (reply.answer, reply.reason) == (
            Delivery.REFUSED,
            "node[2] of ring:1 is not played by node-0",
        )


async def test_what_is_owed_to_nobody_known_is_said_and_sent_when_somebody_is(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ring()
    del cluster.players["node[1]"]
    async with cluster:
        words = "node[0] of ring:1 owes elect, and nobody is known to play node[1]"
        await cluster.actors["node-0"].tell("ring:1", "node[0]", "start")
        await cluster.settle()
        assert caplog.messages.count(words) == 1
        await cluster.kill("node-0")
        node = await cluster.start("node-0")
        await cluster.advance(3)
        assert caplog.messages.count(words) == 2  # once by each incarnation
        assert (node.counts["unaddressed"], len(node.outbox)) == (1, 0)
        assert node.table.unaddressed == {RecordKey("ring:1", "node[0]"): {1}}
        cluster.players["node[1]"] = "node-1"
        await cluster.kill("node-1")
        await cluster.start("node-1")
        await cluster.advance()
        assert of_ring(cluster) == ["following", "following", "leading"]
        assert not any(actor.table.unaddressed for actor in cluster.actors.values())
        await cluster.kill("node-0")  # what it has learnt is durable
        node = await cluster.start("node-0")
        assert node.table.instances[RecordKey("ring:1", "node[0]")].peers[1] == "node-1"


async def test_another_actor_may_take_a_place_over_between_two_starts() -> None:
    async with ring() as cluster:
        await cluster.kill("node-0")
        cluster.players["node[1]"] = "node-2"
        node = await cluster.start("node-0")
        assert node.table.instances[RecordKey("ring:1", "node[0]")].peers == ["node-0", "node-2", "node-2"]


@pytest.mark.parametrize(
    ("broker", "words"),
    [
        ("market", "market cannot play broker: no actor 'market' is trusted here"),
        ("site", "site cannot play broker: site is trusted as authority, and cannot speak for 'broker'"),
        (5, "who plays broker is a name, not 5"),
        (["broker"], r"who plays broker is a name, not \['broker'\]"),
    ],
)
async def test_nobody_is_named_who_could_never_answer(broker: Any, words: str) -> None:
    """The client that begins a run hears so; nothing has begun then."""

    async with Cluster() as c:
        wanted, peers = demand(1, 10), {"broker": broker, "authority": "site"}
        with pytest.raises(ActorError, match=words):
            await c.tenant.begin("tenant:1", "service_manager", "demand", wanted, peers)
        assert c.state("tenant:1") == (None, None, None)
        assert not c.disks["tenant"].records
        await c.tenant.begin("tenant:1", "service_manager", "demand", wanted, {**peers, "broker": "broker"})
        await c.settle()
        assert c.state("tenant:1")[1] == "ticketed"
