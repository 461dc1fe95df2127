"""A timer ends what it times as soon as it is due and its guard holds, at whatever moment of a tick that is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leasehold.impl.actor.environment import ActorError
from leasehold.impl.clock import HandClock
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import Batch, RecordKey
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.impl.virtual import virtual

LAMPLIGHTER = {
    "system.yaml": """
system: lamplighter
roles: {keeper: {}, lamp: {instances: 1}}
actors: {own: [keeper, lamp]}
clock: {horizon: 9}
environment: {begin: {to: keeper}, nothing: {to: keeper}}
""",
    "roles/keeper.yaml": """
role: keeper
events: {begin: The lamps are lit., nothing: Nothing happens., lost: No lamp was lit.}
tasks: {light: {drive: lamp, event: light, answers: {lost: all(a.state == cold for a in lamp)}}}
states:
  home: {initial: true, on: {begin: {to: away}, nothing: {to: home}}}
  away:
    tasks: [light]
    on:
      tick: {to: over, when: now >= 2 and all(a.state == dark for a in lamp)}
      lost: {to: over}
      nothing: {to: away}
    refuse: {begin: they are lit}
  over: {refuse: {begin: it is over, nothing: it is over}}
""",
    "roles/lamp.yaml": """
role: lamp
subsidiary: keeper
events: {light: It is lit., out: It has burnt down.}
tasks: {burn: {call: handler.burn, answers: [out]}}
states:
  cold: {initial: true, on: {light: {to: burning}}}
  burning: {tasks: [burn], on: {out: {to: dark}}, ignore: {light: it burns}}
  dark: {ignore: {light: it has burnt}}
""",
}


class FailsOnce(MemoryStore):
    """A store of which one commit fails when it is told to."""

    failing = False

    async def _commit(self, batch: Batch) -> None:
        if self.failing:
            self.failing = False
            raise OSError("no commit now")
        await super()._commit(batch)


@pytest.mark.parametrize("failing", [False, True], ids=["by a lamp", "after a store that failed"])
def test_it_does_not_wait_for_the_next_tick(tmp_path: Path, failing: bool) -> None:
    program = program_of(tmp_path, LAMPLIGHTER)

    async def story() -> None:
        handler, clock, store = GatedHandler(), HandClock(), FailsOnce()
        actor = alone(program, "keeper", store, {"burn": handler}, clock)
        await actor.start()
        await actor.begin("own:1", "keeper", "begin", {}, {})
        held = RecordKey("own:1", "keeper")
        if failing:
            handler.gate.set()
            await asyncio.sleep(0.05)
            store.failing = True
            with pytest.raises(ActorError, match="could not be committed"):
                await actor.tell("own:1", "keeper", "nothing")
            await clock.advance(3)
            assert not actor.running, "so that it hears of no tick"
        else:
            await clock.advance(3)
            await asyncio.sleep(0.05)
            handler.gate.set()
        assert actor.table.instances[held].state == "away"
        await asyncio.sleep(5)
        assert actor.running
        assert actor.table.instances[held].state == "over"
        await actor.stop()

    virtual(story())
