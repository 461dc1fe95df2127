"""What a state has said that was left: several transitions of one turn have one commit, and what follows from each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor.environment import ActorOptions, Backoff
from tests.impl.actor.alone import program_of
from tests.systems import TESTS

TALK = TESTS / "impl/actor/systems/talk"
OPTIONS = ActorOptions(seed=0, backoff=Backoff(0.1, 0.5, 0.5))


class Talk(SystemCluster):
    """A caller and a hearer, who hears nothing while `deaf`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(program_of(TALK), self.carries, options=OPTIONS)
        self.deaf, self.frames = False, 0

    def carries(self, source: str, target: str, frame: bytes) -> PacketOutcome:
        self.frames += target == "memory:hearer"
        return PacketOutcome(()) if self.deaf and target == "memory:hearer" else PacketOutcome()

    async def at_once(self, *events: str) -> None:
        """Events of the caller that its actor takes in one turn."""
        caller = self.actors["caller"]
        commits, waiting = caller.counts["commits"], []
        for event in events:
            if event == "call":
                waiting.append(caller.begin("caller:1", "caller", "call", {}, {"hearer": "hearer"}))
            else:
                waiting.append(caller.tell("caller:1", "caller", event))
        await asyncio.gather(*waiting)
        assert caller.counts["commits"] == commits + 1


async def test_what_was_said_is_given_up_also_where_the_last_transition_of_the_turn_leaves_no_state(
    tmp_path: Path,
) -> None:
    async with Talk(tmp_path) as c:
        c.deaf = True
        await c.at_once("call")
        await asyncio.sleep(3)
        assert len(c.actors["caller"].outbox) == 1
        await c.at_once("leave", "again")
        frames = c.frames
        assert len(c.actors["caller"].outbox) == 0
        await asyncio.sleep(100)
        assert c.frames <= frames + 1  # one may be on its way


@pytest.mark.parametrize("deaf", [False, True])
async def test_what_is_said_by_a_state_that_is_left_in_the_same_turn_is_said_until_it_is_taken(
    tmp_path: Path, deaf: bool
) -> None:
    """It was sent, so it is not lost; but nobody waits for an answer, so it is not said again for as long."""

    async with Talk(tmp_path) as c:
        c.deaf = deaf
        await c.at_once("call", "leave")
        await asyncio.sleep(10)
        assert (c.frames > 3, len(c.actors["caller"].outbox)) == (deaf, int(deaf))
        c.deaf = False
        await asyncio.sleep(10)
        frames = c.frames
        assert (c.actors["hearer"].counts["taken"], len(c.actors["caller"].outbox)) == (1, 0)
        await asyncio.sleep(1_000)
        assert c.frames == frames
