"""Words for subsidiary machines of both kinds: those of the actor by their name, those of a run with its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.embedded import EmbeddedSystem
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.table import BELOW
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.processes.cluster import ProcessSystem
from leasehold.impl.server import build
from leasehold.impl.server.client import ClientError, NotFound
from leasehold.impl.server.config import ConfigError
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import alone, program_of
from tests.impl.server.test_control import listening
from tests.systems import files_of, load

INN = files_of("impl/server/systems/inn")


@pytest.mark.real_time
async def test_a_word_reaches_the_machine_of_one_run(tmp_path: Path) -> None:
    program, disk = program_of(tmp_path, INN), Disk()

    actor = alone(program, "keeper", MemoryStore(disk), {}, SimulatedClock(), "guest", "lamp")
    await actor.start()

    def states(lease: str, role: str) -> list[str]:
        found = sorted(actor.table.instances.items())
        return [held.state for key, held in found if (key.lease, held.core.role) == (lease, role)]

    async with listening(actor, load(tmp_path), tmp_path / "a.sock") as ask:

        async def tell(lease: str, event: str, **given: Any) -> tuple[str, str]:
            told = await ask("post", "leases", lease, "tell", event=event, **given)
            return told["machine"], told["transition"] or told["reason"]

        for _ in range(2):
            await ask("post", "begin", machine="keeper", event="open")
        assert await tell("own:1", "lost", machine="guest[1]") == ("guest[1]", "guest/inside#lost")
        assert states("own:1", "guest") == ["inside", "away"]
        assert states("own:2", "guest") == ["inside", "inside"]
        # Without the name of a machine no subsidiary one is meant, though it has such an event.
        assert await tell("own:1", "rest") == ("keeper", "it may rest")
        with pytest.raises(NotFound, match=r"no machine of own:1 here takes 'lost' \(keeper: open, rest\)"):
            await tell("own:1", "lost")
        for event, words in (("enter", "enter comes from what drives guest"), ("lost", "not take lost in away")):
            with pytest.raises(ClientError, match=words):
                await tell("own:1", event, machine="guest[1]")
        with pytest.raises(NotFound, match=r"there is no unit 'guest\[0\]' here"):
            await ask("post", "units", "guest[0]", "tell", event="lost")
        # Nothing of a run is made where the actor's machines are.
        with pytest.raises(ActorError, match=r"this actor has no guest\[0\]"):
            await actor.tell(BELOW, "guest[0]", "lost")
        assert states(BELOW, "guest") == []
        with pytest.raises(ActorError, match=r"no guest\[0\] of lease own:3: there is none of this name"):
            await actor.tell("own:3", "guest[0]", "lost")
        await ask("post", "units", "lamp[1]", "tell", event="broken")
        assert [(row["unit"], row["lease"], row["state"]) for row in await ask("get", "units")] == [
            ("guest[0]", "own:1", "inside"),
            ("guest[0]", "own:2", "inside"),
            ("guest[1]", "own:1", "away"),
            ("guest[1]", "own:2", "inside"),
            ("lamp[0]", "own:2", "lit"),
            ("lamp[1]", "own:2", "kept_back"),
        ]
    await actor.stop()


@pytest.mark.real_time
async def test_the_scalpel_takes_the_machines_of_a_run_and_those_of_the_actor(tmp_path: Path) -> None:
    program = program_of(tmp_path, INN)

    actor = alone(program, "keeper", MemoryStore(Disk()), {}, SimulatedClock(), "guest", "lamp")
    await actor.start()
    async with listening(actor, load(tmp_path), tmp_path / "a.sock") as ask:
        for _ in range(2):
            await ask("post", "begin", machine="keeper", event="open")
        await ask("post", "leases", "own:1", "tell", event="lost", machine="guest[1]")
        before = {key: held.record for key, held in actor.table.instances.items()}
        assert sorted((await ask("post", "leases", "own:1", "recover"))["recovered"]) == [
            "guest[0]",
            "guest[1]",
            "keeper",
        ]
        assert await ask("post", "units", "1", "recover") == {"recovered": ["lamp[1]"]}
        with pytest.raises(NotFound, match=r"no unit 'guest\[0\]' here"):
            await ask("post", "units", "guest[0]", "recover")
        assert {key: held.record for key, held in actor.table.instances.items()} == before
    await actor.stop()


def told_and_seen(inn: EmbeddedSystem | ProcessSystem) -> tuple[str, str]:
    """Two runs, of which one's guest is lost, and a lamp of the actor that both see."""
    first, second = inn.begin("keeper", "open"), inn.begin("keeper", "open")
    inn.tell("guest[0]", "lost", run=first)
    inn.tell("lamp[0]", "broken", run=first)
    assert [inn.state("guest[0]", run) for run in (first, second)] == ["away", "inside"]
    assert [inn.state("lamp[0]", run) for run in (first, second)] == ["kept_back", "kept_back"]
    return first, second


def test_a_test_tells_and_sees_machines_of_runs_and_of_the_actor(tmp_path: Path) -> None:
    program_of(tmp_path, INN)
    inn = EmbeddedSystem(str(tmp_path))
    try:
        first, _ = told_and_seen(inn)
        assert inn.cluster.key(first, "guest[0]") == RecordKey(first, "guest[0]")
    finally:
        inn.stop()


def test_an_inventory_has_no_units_for_machines_of_runs(tmp_path: Path) -> None:
    """It may be longer than a role of theirs, and is not needed for them."""
    files = INN | {"system.yaml": INN["system.yaml"].replace("guest: {instances: 2}", "guest: {instances: 1}")}
    program_of(tmp_path, files)
    system = load(tmp_path)
    of_units = {size: Inventory.parse({"units": [{"name": "lamp", "count": size}]}) for size in (2, 3)}
    build._check_units(system, ("keeper",), of_units[2])
    for inventory in (of_units[3], None):
        with pytest.raises(ConfigError, match="inventory: "):
            build._check_units(system, ("keeper",), inventory)


@pytest.mark.long
def test_so_it_does_where_actors_are_processes(tmp_path: Path) -> None:
    program_of(tmp_path, INN)
    inn = ProcessSystem(str(tmp_path), more={"inventory": {"units": [{"name": "oil-lamp"}, {"name": "torch"}]}})
    try:
        _, second = told_and_seen(inn)
        assert inn.data("guest[1]", second) == {}
        assert inn.state("guest[0]", "keeper:9") is None
    finally:
        inn.stop()
