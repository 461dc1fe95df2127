"""A task that outlives its state, at a running actor: it runs on, and its end is heard where it is remembered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor.actor import Actor
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.systems import files_of

KEEPER = files_of("impl/actor/systems/outliving_keeper")


@pytest.mark.parametrize("crash", [False, True])
async def test_it_runs_on_and_its_end_is_heard(tmp_path: Path, crash: bool) -> None:
    program, disk = program_of(tmp_path, KEEPER), Disk()

    def made(backup: GatedHandler) -> Actor:
        return alone(program, "owner", MemoryStore(disk), {"backup": backup}, SimulatedClock())

    backup = GatedHandler()
    actor = made(backup)
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
        actor = made(backup)
        await actor.start()
        await asyncio.sleep(0.01)
        assert backup.runs == runs + 1
    backup.gate.set()
    await asyncio.sleep(0.05)
    assert actor.table.instances[RecordKey("own:1", "owner")].state == "away"
    await actor.stop()


async def test_an_operator_recovers_one_that_hangs_and_its_end_is_heard_once(tmp_path: Path) -> None:
    """In the state that asks for it, and in one that only remembers it."""
    program, backup = program_of(tmp_path, KEEPER), GatedHandler()

    actor = alone(program, "owner", MemoryStore(Disk()), {"backup": backup}, SimulatedClock())
    await actor.start()
    await actor.begin("own:1", "owner", "leave", {}, {})
    for event, state in (("back", "saving"), ("leave", "away__backup")):
        await actor.tell("own:1", "owner", event)
        await asyncio.sleep(0.01)
        before = backup.runs
        hangs, backup.gate = backup.gate, asyncio.Event()
        await actor.recover("own:1", "owner")
        await asyncio.sleep(0.01)
        assert actor.table.instances[RecordKey("own:1", "owner")].state == state
        assert (backup.runs, actor.calls.under_way()) == (before + 1, 1)
        hangs.set()  # nobody waits for it
        await asyncio.sleep(0.01)
        assert actor.calls.under_way() == 1
    assert actor.counts["late"] == 0
    backup.gate.set()
    await asyncio.sleep(0.05)
    assert actor.table.instances[RecordKey("own:1", "owner")].state == "away"
    assert (actor.calls.under_way(), actor.counts["late"]) == (0, 0)
    await actor.stop()
