"""Words of operators and detectors for units: by name or number, held to the specification, and heard by leases."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorError, ActorOptions, RetryPolicy
from leasehold.impl.actor.table import BELOW
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.policy.policy import Lease
from leasehold.impl.server.client import ClientError, NotFound
from leasehold.impl.store.memory import Disk, MemoryStore
from tests.impl.actor.alone import alone, program_of
from tests.impl.policies import IdlePolicy
from tests.impl.server.test_control import listening
from tests.systems import TESTS, load

OPTIONS = ActorOptions(seed=0, reopen_pause=0.01, retry=RetryPolicy(tries=1, pause=0.0))

SHELF = TESTS / "impl/server/systems/shelf"


class Site:
    """A cluster of which one unit's teardown fails while `broken` has its name."""

    def __init__(self, units: int = 2) -> None:
        self.broken = {"unit-1"}
        fails = lambda action, chance: action.verb == "teardown" and action.unit in self.broken  # noqa: E731
        self.world = SimulatedUnits(fails=fails)
        self.cluster = Cluster(units, handler=SimulatedHandler(self.world), options=OPTIONS)

    async def wait_in_vain(self) -> str:
        """A unit is quarantined, the other is leased, and somebody waits for one; returns that lease."""
        c = self.cluster
        first = await c.lease(2, until=100)
        await c.tenant.tell(first, "service_manager", "close")
        await c.settle()
        assert self.units() == ["closed", "failed"]
        await c.lease(1, until=100)
        waits = await c.lease(1, until=100)
        assert (self.units(), c.state(waits)[0] != "active") == (["active", "failed"], True)
        return waits

    def units(self) -> list[str]:
        """The states of the site's units."""
        instances = self.cluster.site.table.instances
        return [held.state for key, held in sorted(instances.items()) if key.lease == BELOW]


@pytest.mark.parametrize("unit", ["unit-1", "unit[1]", "1"])
@pytest.mark.real_time
async def test_a_repaired_unit_comes_back_to_a_lease_that_waits_for_it(tmp_path: Path, unit: str) -> None:
    site = Site()
    async with site.cluster as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:
        waits = await site.wait_in_vain()
        site.broken.clear()
        told = await ask("post", "units", unit, "tell", event="repaired")
        assert told == {
            "unit": unit,
            "machine": "unit[1]",
            "kind": "taken",
            "transition": "unit/failed#repaired",
            "reason": "",
        }
        await c.settle()
        assert c.state(waits)[0] == "active"
        assert (site.units(), site.world.on() >= {"unit-0", "unit-1"}) == (["active", "active"], True)
        with pytest.raises(ClientError, match=r"unit\[1\] does not take repaired in active: it has not failed"):
            await ask("post", "units", unit, "tell", event="repaired")


@pytest.mark.real_time
async def test_so_it_does_after_a_restart_that_has_forgotten_who_had_it(tmp_path: Path) -> None:
    site = Site()
    async with site.cluster as c:
        waits = await site.wait_in_vain()
        await c.kill("site")
        await c.start("site")
        await c.settle()
        assert site.units() == ["active", "failed"]
        site.broken.clear()
        async with listening(c.site, c.system, tmp_path / "a.sock") as ask:
            await ask("post", "units", "unit-1", "tell", event="repaired")
        await c.settle()
        await c.advance(1)
        assert c.state(waits)[0] == "active"


@pytest.mark.real_time
async def test_a_unit_that_is_retired_while_a_lease_has_it_is_kept_back_until_it_is_returned(tmp_path: Path) -> None:
    async with Cluster(2) as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:

        async def tell(event: str) -> str:
            transition: str = (await ask("post", "units", "unit-0", "tell", event=event))["transition"]
            await c.settle()
            return transition

        lease = await c.lease(1, until=100)
        assert await tell("retire") == "unit/active#retire"
        assert (c.state(lease)[0], c.handler.world.on()) == ("active", {"unit-0"})  # its lease goes on
        with pytest.raises(ClientError, match="it has not failed"):
            await tell("repaired")
        await c.tenant.tell(lease, "service_manager", "close")
        await c.settle()
        waits = await c.lease(2, until=100)  # one unit is not enough, and it is not to wait for the other
        assert c.state(waits)[0] == "failed"
        other = await c.lease(1, until=100)
        assert c.handler.world.on() == {"unit-1"}
        await c.tenant.command("service_manager", "flex", other, 2, soon=True)
        await c.settle()
        assert c.handler.world.on() == {"unit-1"}
        assert await tell("returned") == "unit/kept#returned"
        await c.advance(2)
        assert c.handler.world.on() == {"unit-0", "unit-1"}


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.real_time
async def test_a_retired_unit_whose_teardown_fails_waits_for_both_words(tmp_path: Path, returned: bool) -> None:
    site = Site()
    async with site.cluster as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:
        lease = await c.lease(2, until=100)
        await ask("post", "units", "unit-1", "tell", event="retire")
        await c.tenant.tell(lease, "service_manager", "close")
        await c.settle()
        assert site.units() == ["closed", "failed"]
        if returned:
            await ask("post", "units", "unit-1", "tell", event="returned")
            assert site.units() == ["closed", "failed"]
        await ask("post", "units", "unit-1", "tell", event="repaired")
        assert site.units() == ["closed", "closed" if returned else "kept"]


@pytest.mark.real_time
async def test_what_cannot_be_told_to_a_unit_is_said_and_changes_nothing(tmp_path: Path) -> None:
    async with Cluster(4) as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:

        async def refused(unit: str, event: str, kind: type[ClientError], words: str, **given: Any) -> None:
            before = c.site.counts["commits"]
            with pytest.raises(kind, match=words):
                await ask("post", "units", unit, "tell", event=event, **given)
            assert (c.site.counts["commits"], c.site.table.instances) == (before, {})

        await refused("unit-9", "repaired", NotFound, "there is no unit 'unit-9' here; did you mean unit-")
        await refused("4", "repaired", NotFound, "there is no unit '4' here")
        await refused("unit-3", "repaird", ClientError, r"no event 'repaird' .*did you mean repaired\?")
        await refused("unit-3", "repaired", ClientError, r"unit\[3\] does not take repaired in idle: it has not")
        await refused(
            "unit-3",
            "setup",
            ClientError,
            "setup comes from what drives .*; from there come: lost, retire, returned, repaired",
        )
        await refused("unit-3", "up", ClientError, "and not from outside")
        await refused("unit-3", "repaired", ClientError, "repaired", fields={"units": 3})
        await refused("unit-3", "repaired", ClientError, "there is no 'machine' here", machine="unit[3]")
    async with Cluster(4) as c, listening(c.broker, c.system, tmp_path / "b.sock") as ask:
        with pytest.raises(NotFound, match="there is no unit 'unit-1' here"):  # it promises them, and has none
            await ask("post", "units", "unit-1", "tell", event="repaired")
        assert await ask("get", "units") == []


@pytest.mark.real_time
async def test_a_unit_that_nothing_has_happened_to_takes_a_word_and_keeps_it(tmp_path: Path) -> None:
    program, disk = program_of(SHELF), Disk()

    actor = alone(program, "keeper", MemoryStore(disk), {}, SimulatedClock())
    await actor.start()
    async with listening(actor, load(SHELF), tmp_path / "a.sock") as ask:
        ignored = await ask("post", "units", "2", "tell", event="label", fields={"size": 3})
        assert (ignored["kind"], ignored["reason"], actor.table.instances) == ("ignored", "it has none", {})
        assert (await ask("post", "units", "unit[1]", "tell", event="retire"))["transition"] == "unit/free#retire"
        with pytest.raises(ActorError, match=r"this actor has no unit\[3\]"):
            await actor.tell(BELOW, "unit[3]", "retire")
        with pytest.raises(ActorError, match="this actor has no keeper"):
            await actor.tell(BELOW, "keeper", "open")
    await actor.kill()
    disk.crash()
    actor = alone(program, "keeper", MemoryStore(disk), {}, SimulatedClock())
    await actor.start()
    async with listening(actor, load(SHELF), tmp_path / "a.sock") as ask:
        await ask("post", "begin", machine="keeper", event="open")
        rows = await ask("get", "units")
        assert [(row["unit"], row["state"], row["lease"]) for row in rows] == [
            ("unit[0]", "used", "own:1"),
            ("unit[1]", "back", "own:1"),
            ("unit[2]", "used", "own:1"),
        ]
        assert rows[1]["data"] == {"kept": True, "size": 0}
        with pytest.raises(ClientError, match=r"unit\[0\] does not take retire in used: it is in use"):
            await ask("post", "units", "0", "tell", event="retire")
        with pytest.raises(ClientError, match="label: "):
            await ask("post", "units", "0", "tell", event="label", fields={"size": 10})
        assert (await ask("post", "units", "0", "tell", event="label", fields={"size": 4}))["kind"] == "taken"
        assert (await ask("get", "units"))[0]["data"]["size"] == 4
    await actor.stop()


class Hearing(IdlePolicy):
    """A policy that decides nothing, and remembers what it was told: the lease and its units."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, str]]] = []

    def recovered(self, lease: Lease) -> None:
        self.told.append((lease.name, {f"{role}[{n}]": data["state"] for (role, n), data in lease.units.items()}))

    def changed(self, lease: Lease, now: int) -> tuple[()]:
        self.recovered(lease)
        return ()


@pytest.mark.real_time
async def test_a_policy_hears_of_units_that_no_lease_has_had() -> None:
    """Also after a restart, and when a lease drives one of them for the first time."""
    program, disk = program_of(SHELF), Disk()

    async def told(policy: Hearing, *wanted: tuple[str, dict[str, str]]) -> None:
        for _ in range(500):
            if policy.told == list(wanted):
                break
            await asyncio.sleep(0.01)
        assert policy.told == list(wanted)
        policy.told.clear()

    for again in range(2):
        hearing = Hearing()
        actor = alone(program, "keeper", MemoryStore(disk), {}, SimulatedClock(), policies={"keeper": hearing})
        await actor.start()
        if not again:
            await actor.tell(BELOW, "unit[0]", "label", {"size": 3})  # it is ignored, and nothing has moved
            await actor.tell(BELOW, "unit[1]", "retire", {})
            await told(hearing, ("", {"unit[1]": "back"}))
            await actor.tell(BELOW, "unit[2]", "retire", {})
            await told(hearing, ("", {"unit[1]": "back", "unit[2]": "back"}))
            await actor.kill()
            disk.crash()
    await told(hearing, ("", {"unit[1]": "back", "unit[2]": "back"}))
    await actor.begin("own:1", "keeper", "open", {}, {})
    for _ in range(500):
        if len(hearing.told) == 2:
            break
        await asyncio.sleep(0.01)
    assert dict(hearing.told) == {
        "": {},
        "own:1": {"unit[0]": "used", "unit[1]": "back", "unit[2]": "back"},
    }
    await actor.stop()


@pytest.mark.real_time
async def test_units_are_listed_with_what_has_happened_to_them(tmp_path: Path) -> None:
    site = Site(units=3)
    async with site.cluster as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:
        assert [(row["unit"], row["state"], row["since"]) for row in await ask("get", "units")] == [
            ("unit-0", "idle", None),
            ("unit-1", "idle", None),
            ("unit-2", "idle", None),
        ]
        assert c.site.table.instances == {}
        lease = await c.lease(2, until=100)
        await c.tenant.tell(lease, "service_manager", "close")
        await c.settle()
        rows = {row["unit"]: row for row in await ask("get", "units")}
        assert [row["state"] for row in rows.values()] == ["closed", "failed", "idle"]
        assert (rows["unit-1"]["lease"], rows["unit-1"]["data"]["quarantined"]) == (lease, True)
