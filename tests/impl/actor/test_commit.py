"""Actors of another system than the lease: two-phase commit, with participants that vote, crash and come back.

Paper, section 3: interacting recoverable state machines generalise commit protocols.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.network import SimulatedNetwork, SimulatedTransport
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Backoff, Environment
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.policy.policy import Decision, Question
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.policies import IdlePolicy
from tests.impl.virtual import virtual
from tests.systems import load

COUNT = 3
NAMES = ("chief", *(f"member-{i}" for i in range(COUNT)))
MACHINES = {"chief": "coordinator", **{f"member-{i}": f"participant[{i}]" for i in range(COUNT)}}


class Voter(IdlePolicy):
    """Votes for what it is asked."""

    def __init__(self, able: bool) -> None:
        self.able = able

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        event = "able" if self.able else "unable"
        return [Decision(question.lease.name, question.lease.machine, event, {}, question.state_epoch)]


class Group:
    """A coordinator and its participants."""

    def __init__(self, unable: frozenset[int]) -> None:
        self.program = compile_system(load("two_phase_commit", {"participants": COUNT}))
        self.network, self.clock, self.unable = SimulatedNetwork(), SimulatedClock(), unable
        self.disks = {name: Disk() for name in NAMES}
        self.keys = {name: PrivateKey.generate() for name in NAMES}
        self.trust = Trust()
        for name in NAMES:
            role = MACHINES[name].partition("[")[0]
            self.trust = add(self.trust, name, role, self.keys[name].public, f"memory:{name}")
        self.actors: dict[str, Actor] = {}

    async def start(self, name: str) -> None:
        role, _, index = MACHINES[name].partition("[")
        votes = {} if name == "chief" else {role: Voter(int(index[:-1]) not in self.unable)}
        self.actors[name] = Actor(
            Identity(name, self.keys[name], self.trust),
            self.program,
            (role,),
            MemoryStore(self.disks[name]),
            SimulatedTransport(self.network, name),
            self.clock,
            Environment(votes),
            ActorOptions(seed=0, backoff=Backoff(first=0.001, longest=0.002, ask_again=0.02)),
        )
        await self.actors[name].start()

    async def kill(self, name: str) -> None:
        await self.actors[name].kill()
        self.disks[name].crash()

    async def decided(self, run: str) -> list[str]:
        for _ in range(400):
            await asyncio.sleep(0.005)
            found = [self.state(name, run) for name in NAMES]
            if found[0] in ("committed", "aborted") and len(set(found)) == 1:
                return found
        raise TimeoutError(f"no decision: {[self.state(name, run) for name in NAMES]}")

    def state(self, name: str, run: str) -> str:
        held = self.actors[name].table.instances.get(RecordKey(run, MACHINES[name]))
        return "-" if held is None else held.state


async def play(unable: frozenset[int], crash: str = "", absent: str = "") -> list[str]:
    group = Group(unable)
    for name in NAMES:
        if name != absent:
            await group.start(name)
    peers = {machine: name for name, machine in MACHINES.items() if name != "chief"}
    await group.actors["chief"].begin("chief:1", "coordinator", "begin", {}, peers)
    if absent:
        await asyncio.sleep(0.05)
        assert group.state("chief", "chief:1") == "asking"  # nobody decides without all votes
        await group.start(absent)
    if crash:
        await asyncio.sleep(0.002)
        await group.kill(crash)
        await asyncio.sleep(0.02)
        await group.start(crash)
    try:
        return await group.decided("chief:1")
    finally:
        for actor in group.actors.values():
            await actor.stop()


def test_all_commit_when_all_are_able() -> None:
    assert set(virtual(play(frozenset()))) == {"committed"}


def test_all_abort_when_one_is_not() -> None:
    assert set(virtual(play(frozenset({1})))) == {"aborted"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unable", [frozenset[int](), frozenset({2})])
def test_they_agree_although_one_crashes(name: str, unable: frozenset[int]) -> None:
    assert len(set(virtual(play(unable, crash=name)))) == 1


def test_a_participant_that_is_away_is_waited_for() -> None:
    assert set(virtual(play(frozenset(), absent="member-1"))) == {"committed"}
