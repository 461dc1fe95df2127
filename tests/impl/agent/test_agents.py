"""A site whose units are on hosts with agents: leased, upgraded, rolled back and lost, while anybody is killed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.agent import package
from leasehold.impl.agent.fleet import AgentFleet
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT, Fleet

HOSTS = ("left", "right")
# A handler in a package: each unit is a file that says which version has set it up.
NODE = """#!/bin/sh
set -e
mkdir -p "$OWN"
case $1 in
  up) echo VERSION > "$OWN/$LEASEHOLD_UNIT"; echo "{\\"properties\\": {\\"version\\": VERSION}}" ;;
  down) rm -f "$OWN/$LEASEHOLD_UNIT" ;;
  ask) test -e "$OWN/$LEASEHOLD_UNIT" ;;
esac
"""
HANDLER = """
name: command
directory: "{own}/locks"
environment: {OWN: "{own}/units"}
setup: ["{package}/node", up]
modify: ["{package}/node", up]
teardown: ["{package}/node", down]
probe: ["{package}/node", ask]
"""


class SiteFleet(Fleet):
    """The lease's actors, whose site has its units on hosts by turns."""

    def _plugs(self, name: str) -> dict[str, Any]:
        plugs = super()._plugs(name)
        if name == SITE:
            units = [{"name": f"unit-{n}", "properties": {"host": HOSTS[n % len(HOSTS)]}} for n in range(self.units)]
            plugs["inventory"] = {"units": units}
        return plugs


class Estate:
    """The site's actors, its hosts, and a repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "packages"
        self.agents = AgentFleet(
            folder / "agents", HOSTS, self.repository, 0.2, more={"probing": {"every_seconds": 0.5, "patience": 2}}
        )
        self.publish(1)
        self.lease = SiteFleet(
            folder / "lease",
            units=4,
            tick_seconds=0.2,
            handler=self.agents.handler(),
            more={"probing": {"every_seconds": 0.5}},
        )

    def publish(self, version: int, well: bool = True, act: bool = True) -> int:
        """Publishes a version; one that is not well cannot be loaded at a host."""
        source = self.folder / "nodes"
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir(parents=True)
        (source / "node").write_text(NODE.replace("VERSION", str(version)))
        (source / "node").chmod(0o755)
        (source / package.HANDLER).write_text(HANDLER if well else "name: no_such_handler\n")
        key_file = self.folder / "agents" / "controller.key"
        if not key_file.exists():
            key_file.parent.mkdir(parents=True, exist_ok=True)
            PrivateKey.generate().save(key_file)
        number = package.publish(source, self.repository, "controller", PrivateKey.load(key_file)).number
        if act:
            package.use(self.repository, number)
        return number

    def up(self) -> dict[str, dict[str, int]]:
        """The version of each unit, by host, as its files say."""
        found = {}
        for host in HOSTS:
            units = self.folder / "agents" / f"{host}.host" / "own" / "units"
            found[host] = {path.name: int(path.read_text()) for path in sorted(units.glob("*"))}
        return found

    def demand(self, units: int, until: int, term: int) -> str:
        client = self.lease.client(TENANT)
        now = client.get("about")["now"]
        answer: str = client.post("demand", units=units, until=now + until, term=term)["lease"]
        return answer

    def record(self, lease: str) -> dict[str, Any]:
        (row,) = self.lease.client(TENANT).get("leases", lease)
        return dict(row)


def await_(holds: Callable[[], object], words: Callable[[], object] = lambda: "", seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, words()
        time.sleep(0.1)


@pytest.fixture
def estate(tmp_path: Path) -> Iterator[Estate]:
    estate = Estate(tmp_path)
    with estate.agents, estate.lease:
        yield estate


@pytest.mark.long
@pytest.mark.real_time
def test_units_on_hosts_are_leased_upgraded_rolled_back_lost_and_torn_down(estate: Estate) -> None:
    lease = estate.demand(4, until=2000, term=1000)
    await_(lambda: estate.record(lease)["state"] == "active", lambda: estate.record(lease))
    assert estate.up() == {"left": {"unit-0": 1, "unit-2": 1}, "right": {"unit-1": 1, "unit-3": 1}}
    told = estate.record(lease)["data"]["unit_properties"]
    assert [one["version"] for one in told] == [1, 1, 1, 1], "what the handler says reaches the holder"

    # A unit that is lost on its host is set up again there.
    (estate.folder / "agents" / "left.host" / "own" / "units" / "unit-2").unlink()
    await_(lambda: estate.up()["left"].get("unit-2"), estate.up)

    estate.lease.client(TENANT).post("leases", lease, "stop")
    await_(lambda: estate.up() == {"left": {}, "right": {}}, estate.up)
    for row in estate.agents.client("controller").get("leases"):
        await_(lambda row=row: estate.agents.client("controller").get("leases", row["lease"])[0]["state"] == "down")

    # A version that is refused never reaches a lease; the one before it acts.
    assert estate.publish(2, well=False) == 2
    lease = estate.demand(2, until=2000, term=1000)
    await_(lambda: estate.record(lease)["state"] == "active", lambda: estate.record(lease))
    assert sorted(version for units in estate.up().values() for version in units.values()) == [1, 1]
    controller = estate.agents.client("controller").get("leases")
    assert {(row["data"]["version"], row["data"]["used"]) for row in controller if row["state"] == "up"} == {(2, 1)}

    # A version that is verified acts for what is set up from now on.
    assert estate.publish(3) == 3
    other = estate.demand(2, until=2000, term=1000)
    await_(lambda: estate.record(other)["state"] == "active", lambda: estate.record(other))
    assert sorted(version for units in estate.up().values() for version in units.values()) == [1, 1, 3, 3]


@pytest.mark.long
@pytest.mark.real_time
@pytest.mark.parametrize("whose", ["agents", pytest.param("site", marks=pytest.mark.slow), "controller"])
def test_whoever_is_killed_the_units_are_those_of_the_leases(estate: Estate, whose: str) -> None:
    fleets = {"agents": (estate.agents, HOSTS), "site": (estate.lease, (SITE, BROKER, TENANT))}
    fleet, names = fleets.get(whose, (estate.agents, ("controller",)))
    for _ in range(3):
        lease = estate.demand(4, until=2000, term=1000)
        for name in names:
            time.sleep(0.15)
            fleet.kill(name)
            fleet.start(name)
        for name in names:
            fleet.await_ready(name)
        await_(lambda lease=lease: estate.record(lease)["state"] == "active", lambda lease=lease: estate.record(lease))
        assert {host: len(units) for host, units in estate.up().items()} == {"left": 2, "right": 2}
        estate.lease.client(TENANT).post("leases", lease, "stop")
        for name in names:
            fleet.kill(name)
            fleet.start(name)
        for name in names:
            fleet.await_ready(name)
        await_(lambda: estate.up() == {"left": {}, "right": {}}, estate.up)
        await_(lambda lease=lease: estate.record(lease)["state"] == "closed", lambda lease=lease: estate.record(lease))
