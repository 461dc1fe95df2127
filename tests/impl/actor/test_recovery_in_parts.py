"""Recovery begins the work of all machines, in parts where there is much: none is left out, and an end ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import leasehold.impl.actor.actor as actor_module
from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor.actor import Actor
from leasehold.impl.core.core import Program
from leasehold.impl.store.memory import Disk, MemoryStore
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.impl.actor.test_outlive import KEEPER

FIRST, PART = 3, 2  # in place of a thousand pieces of work that recovery begins itself, and a hundred between two turns


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(actor_module, "MOST", FIRST)
    monkeypatch.setattr(actor_module, "SLICE", PART)
    return program_of(tmp_path, KEEPER)


def made(program: Program, disk: Disk, backup: GatedHandler) -> Actor:
    clock = SimulatedClock()
    clock.time.held = True  # nothing but recovery gives the actor work
    return alone(program, "owner", MemoryStore(disk), {"backup": backup}, clock)


async def left(program: Program, machines: int) -> Disk:
    """The disk of an actor that has died while each of its machines had a handler at work."""
    disk, backup = Disk(), GatedHandler()
    actor = made(program, disk, backup)
    await actor.start()
    for number in range(1, machines + 1):
        await actor.begin(f"own:{number}", "owner", "leave", {}, {})
    await asyncio.sleep(1)
    assert backup.runs == machines
    await actor.kill()
    disk.crash()
    return disk


@pytest.mark.parametrize("machines", range(2 * FIRST + 2 * PART))
async def test_the_work_of_every_machine_is_begun(program: Program, machines: int) -> None:
    backup = GatedHandler()
    actor = made(program, await left(program, machines), backup)
    await actor.start()
    await asyncio.sleep(1)
    assert (backup.runs, actor.calls.under_way()) == (machines, machines)
    assert actor._starting is None or actor._starting.done()
    await actor.stop()


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("turns", range(4))
async def test_nothing_is_begun_any_more_once_the_actor_has_ended(program: Program, how: str, turns: int) -> None:
    """However far recovery has come."""

    backup = GatedHandler()
    actor = made(program, await left(program, 20), backup)
    await actor.start()
    for _ in range(turns):
        await asyncio.sleep(0)
    starting = actor._starting
    assert starting is not None
    assert not starting.done()
    await getattr(actor, how)()
    runs = backup.runs
    assert runs < 20
    await asyncio.sleep(1)
    assert (backup.runs, actor.calls.under_way(), starting.done()) == (runs, 0, True)


async def test_a_store_that_fails_amid_it_begins_it_anew_alone(program: Program) -> None:
    """Of two recoveries one would begin the work of the other's machines a second time."""

    backup = GatedHandler()
    actor = made(program, await left(program, 20), backup)
    await actor.start()
    first = actor._starting
    assert first is not None
    await actor.store.close()
    with pytest.raises(Exception, match="could not be committed"):
        await actor.begin("own:99", "owner", "leave", {}, {})
    while not actor.running:
        await asyncio.sleep(0.01)
    assert first.done()
    await asyncio.sleep(1)
    assert (actor.epoch, actor.calls.under_way()) == (3, 20)
    await actor.stop()
