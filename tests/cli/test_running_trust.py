"""Trust sets that change under running actors: those who come later, new keys, and keys that count no more."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from leasehold.cli.main import cli
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import remove
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT, Fleet
from tests.waiting import wait_until

SAID_SOON = {"first_pause_seconds": 0.05, "longest_pause_seconds": 2.0, "ask_again_seconds": 0.5}


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Three actors that are not started yet, each with a trust set of its own; their folder is the working folder."""
    monkeypatch.chdir(tmp_path)
    made = Fleet(tmp_path, units=4, tick_seconds=0.25, handler="simulated", more={"messages": SAID_SOON})
    made.prepare()
    for name in ROLES:
        trust_file.save(trust_of(made, name), trust_file.load(tmp_path / "trust.yaml"))
        configure(made, name, trust=trust_of(made, name).name)
    yield made
    made.stop()


def trust_of(fleet: Fleet, name: str) -> Path:
    return fleet.folder / f"trust-{name}.yaml"


def configure(fleet: Fleet, name: str, **keys: str) -> None:
    file = fleet.folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **keys}))


def leasehold(*words: str) -> str:
    """Returns what a verb prints, in the folder of the actors."""
    ended = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output.strip()


def machine(fleet: Fleet, name: str, lease: str) -> dict[str, Any]:
    """Returns what an actor has of a lease; empty where it has nothing."""
    rows = [row for row in fleet.client(name).get("leases") if row["lease"] == lease]
    return dict(rows[0]) if rows else {}


def is_active(fleet: Fleet, lease: str, units: int = 1) -> bool:
    """Returns whether a lease has so many units, and nothing is under way."""
    tenant, site = machine(fleet, TENANT, lease), machine(fleet, SITE, lease)
    return (tenant.get("state"), site.get("state")) == ("active", "active") and len(site["data"]["told"]) == units


def said(fleet: Fleet, name: str, words: str) -> list[str]:
    """The lines of an actor's log with these words."""
    lines = (fleet.folder / f"{name}.log").read_text().splitlines()
    return [found for line in lines if words in (found := json.loads(line)["message"])]


def demand(fleet: Fleet) -> str:
    return leasehold("demand", "--units", "1", "--until", "30m", "--term", "5m", "--at", "tenant.sock")


def flex(fleet: Fleet, lease: str, units: int) -> None:
    """Extends a lease now, with another number of units."""
    leasehold("extend", lease, "--units", str(units), "--soon", "--at", "tenant.sock")


def start_all(fleet: Fleet) -> None:
    for name in ROLES:
        fleet.start(name)
    for name in ROLES:
        fleet.await_ready(name)


def restart(fleet: Fleet, name: str, **keys: str) -> None:
    fleet.signal(name, signal.SIGTERM)
    assert fleet.processes[name].wait(20) == 0
    configure(fleet, name, **keys)
    fleet.start(name)
    fleet.await_ready(name)


def trusts(fleet: Fleet, name: str, other: str) -> tuple[str, ...]:
    """The words by which an actor is told to trust another."""
    known = trust_file.load(fleet.folder / "trust.yaml").find(other)
    role, trust = known.kind, trust_of(fleet, name).name
    return "add-actor", other, f"{other}.key", "--role", role, "--address", known.address, "--trust", trust


NO_SITE = "it is not known which site has the units of type unit; the broker's inventory has to say it"


def denied(fleet: Fleet) -> str:
    """Demands a lease, and returns why there is none."""
    lease = demand(fleet)
    wait_until(lambda: machine(fleet, TENANT, lease).get("state") == "failed")
    return str(machine(fleet, TENANT, lease)["data"]["ticket_reason"])


@pytest.mark.long
def test_who_is_trusted_later_is_a_peer_at_once(fleet: Fleet) -> None:
    """A demand waits for a broker to be known; a broker that knows no site says so at once, and books nothing."""
    for name, others in {TENANT: (BROKER, SITE), BROKER: (SITE,)}.items():
        for other in others:
            trust_file.change(trust_of(fleet, name), lambda trust, other=other: remove(trust, other))
    start_all(fleet)
    lease = demand(fleet)
    wait_until(lambda: said(fleet, TENANT, "nobody was named to play broker"))
    assert machine(fleet, TENANT, lease)["state"] == "not begun"
    leasehold(*trusts(fleet, TENANT, BROKER))
    wait_until(lambda: machine(fleet, TENANT, lease).get("state") == "failed")
    assert machine(fleet, TENANT, lease)["data"]["ticket_reason"] == NO_SITE
    leasehold(*trusts(fleet, TENANT, SITE))
    assert denied(fleet) == NO_SITE
    leasehold(*trusts(fleet, BROKER, SITE))
    lease = demand(fleet)
    wait_until(lambda: is_active(fleet, lease))
    assert [fleet.about(name)["epoch"] for name in ROLES] == [1, 1, 1]  # type: ignore[index]
    # With a second site nobody can say where new leases go; this one stays where it is.
    PrivateKey.generate().save(fleet.folder / "other.key")
    for name in (TENANT, BROKER):
        leasehold("add-actor", "--role", "authority", "other", "other.key", "--trust", trust_of(fleet, name).name)
    flex(fleet, lease, 2)
    wait_until(lambda: is_active(fleet, lease, 2))
    assert denied(fleet) == NO_SITE


@pytest.mark.long
def test_keys_are_changed_and_revoked_while_a_lease_lasts(fleet: Fleet) -> None:
    start_all(fleet)
    lease = demand(fleet)
    wait_until(lambda: is_active(fleet, lease))
    old = json.loads(leasehold("key", "tenant.key", "--json"))["fingerprint"]
    leasehold("keygen", "tenant-2.key")
    for name in (SITE, BROKER, TENANT):
        leasehold("rotate", TENANT, "tenant-2.key", "--old-until", "30d", "--trust", trust_of(fleet, name).name)
    flex(fleet, lease, 2)  # signed with the old key, on a ticket that is bound to the new one
    wait_until(lambda: is_active(fleet, lease, 2))
    restart(fleet, TENANT, key="tenant-2.key")
    flex(fleet, lease, 3)
    wait_until(lambda: is_active(fleet, lease, 3))
    for name in ROLES:
        leasehold("revoke", TENANT, old, "--trust", trust_of(fleet, name).name)
    flex(fleet, lease, 2)
    wait_until(lambda: is_active(fleet, lease, 2))
    # Whoever has the old key speaks to nobody any more.
    refused = fleet.about(BROKER)["counts"].get("messages refused", 0)  # type: ignore[index]
    restart(fleet, TENANT, key="tenant.key")
    flex(fleet, lease, 4)
    wait_until(lambda: fleet.about(BROKER)["counts"].get("messages refused", 0) > refused)  # type: ignore[index]
    wait_until(lambda: said(fleet, TENANT, f"the key {old} of tenant is revoked"))
    assert f"the key {old} of tenant is revoked" in leasehold("explain", lease)
    assert machine(fleet, TENANT, lease)["state"] == "extending_ticket"
    assert machine(fleet, BROKER, lease)["data"]["units"] == 2
    assert len(machine(fleet, SITE, lease)["data"]["told"]) == 2
    restart(fleet, TENANT, key="tenant-2.key")
    wait_until(lambda: is_active(fleet, lease, 4))


@pytest.mark.long
def test_the_keys_of_broker_and_site_are_changed_while_a_lease_lasts(fleet: Fleet) -> None:
    start_all(fleet)
    lease = demand(fleet)
    wait_until(lambda: is_active(fleet, lease))
    units = 1
    for changed in (BROKER, SITE):
        old = json.loads(leasehold("key", f"{changed}.key", "--json"))["fingerprint"]
        leasehold("keygen", f"{changed}-2.key")
        for name in ROLES:
            leasehold("rotate", changed, f"{changed}-2.key", "--trust", trust_of(fleet, name).name)
        restart(fleet, changed, key=f"{changed}-2.key")
        for name in ROLES:
            leasehold("revoke", changed, old, "--trust", trust_of(fleet, name).name)
        units += 1
        flex(fleet, lease, units)
        wait_until(lambda units=units: is_active(fleet, lease, units))
