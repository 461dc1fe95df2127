"""A task that outlives its state, at a running actor: it runs on, and its end is heard where it is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.clock import HandClock
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.memory import MemoryTransport, Network
from tests.impl.virtual import virtual
from tests.systems import load

KEEPER = {
    "system.yaml": """
system: keeper
roles: {owner: {}}
environment: {leave: {to: owner}, back: {to: owner}}
""",
    "roles/owner.yaml": """
role: owner
events: {saved: The backup is done., leave: The owner goes., back: The owner is back.}
tasks: {backup: {call: handler.backup, answers: [saved], outlives: true}}
states:
  saving: {initial: true, tasks: [backup], on: {saved: {to: idle}, leave: {to: away}}, ignore: {back: it is here}}
  idle: {on: {leave: {to: away}}, ignore: {back: it is here}}
  away: {on: {back: {to: saving}}, ignore: {leave: it has gone}}
""",
}


class Backup:
    """A handler that ends when it is let go."""

    def __init__(self) -> None:
        self.gate, self.runs = asyncio.Event(), 0

    async def act(self, action: HandlerAction) -> Done:
        self.runs += 1
        await self.gate.wait()
        return Done(True)

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        return None

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("crash", [False, True])
def test_it_runs_on_and_its_end_is_heard(tmp_path: Path, crash: bool) -> None:
    (tmp_path / "roles").mkdir()
    for name, text in KEEPER.items():
        (tmp_path / name).write_text(text)
    program = compile_system(load(tmp_path))
    key, disk = PrivateKey.generate(), Disk()
    identity = Identity("own", key, add(Trust(), "own", "owner", key.public, "memory:own"))

    async def story() -> None:
        backup = Backup()

        def made() -> Actor:
            transport = MemoryTransport(Network(None), "own")
            world = Environment(handlers={"backup": backup})
            return Actor(
                identity, program, ("owner",), MemoryStore(disk), transport, HandClock(), world, ActorOptions(seed=0)
            )

        actor = made()
        await actor.start()
        for event in ("leave", "back", "leave"):
            if event == "leave" and not actor.table.instances:
                await actor.begin("own:1", "owner", event, {}, {})
            else:
                await actor.tell("own:1", "owner", event)
            await asyncio.sleep(0.01)
        assert actor.table.instances[RecordKey("own:1", "owner")].state == "away__backup"
        runs = backup.runs
        assert runs == 2  # once for each time that its state was entered; being remembered begins nothing
        if crash:
            await actor.kill()
            disk.crash()
            actor = made()
            await actor.start()
            await asyncio.sleep(0.01)
            assert backup.runs == runs + 1
        backup.gate.set()
        await asyncio.sleep(0.05)
        assert actor.table.instances[RecordKey("own:1", "owner")].state == "away"
        await actor.stop()

    virtual(story())
