"""Groups of leases as a client sees them, with actors as processes that are killed in the middle."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.checker.recovery.lease.processes.outside import unit_processes
from leasehold.cli.main import cli
from leasehold.impl.lease.fleet import FederationFleet

SITES = {"east": {"node": 3}, "west": {"disk": 2}}
BROKERS = {"market": {"east": {"node": 3}}, "bazaar": {"west": {"disk": 2}}}
PATIENCE_SECONDS = 120.0


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FederationFleet]:
    settings = {"lazy_close": False}
    with FederationFleet(tmp_path / "run", SITES, BROKERS, ("anna", "ben"), settings=settings) as made:
        try:
            yield made
        finally:
            made.end_units()


def said(fleet: FederationFleet, *command: str) -> str:
    """Returns the output of a verb of the command line."""
    ran = subprocess.run(
        [sys.executable, "-m", "leasehold", *command, "--at", str(fleet.folder / "anna.sock")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def demand(fleet: FederationFleet, group: str, kind: str, broker: str, units: int) -> str:
    command = ["demand", "--group", group, "--of", "2", "--type", kind, "--broker", broker, "--units", str(units)]
    return said(fleet, *command, "--until", "10m", "--term", "2m").strip()


def state(fleet: FederationFleet, lease: str) -> str:
    """The state of a lease at its holder; empty where there is none."""
    rows = fleet.client("anna").get("leases") if fleet.about("anna") else []
    return next((row["state"] for row in rows if row["lease"] == lease), "")


def until(true: Callable[[], object], watch: Callable[[], object] = lambda: None) -> None:
    """Waits for what comes sooner or later, and watches meanwhile."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        watch()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def killed(fleet: FederationFleet, name: str) -> None:
    """An actor is ended as by `kill -9`, and starts again."""
    fleet.kill(name)
    fleet.start(name)
    fleet.await_ready(name)


def test_a_group_begins_whole_or_not_at_all_whoever_is_killed(fleet: FederationFleet) -> None:
    def running() -> set[str]:
        return {process.lease for process in unit_processes(fleet.folder.resolve())}

    def half() -> None:
        assert not running(), "a unit runs though not all tickets are here"

    nodes = demand(fleet, "job", "node", "market", 2)
    until(lambda: state(fleet, nodes) == "ticketed", half)
    for name in ("anna", "market", "east"):
        killed(fleet, name)
        half()
    until(lambda: "its group job waits for 1 more lease of 2" in said(fleet, "explain", nodes), half)
    fleet.kill("bazaar")
    disk = demand(fleet, "job", "disk", "bazaar", 1)
    half()
    killed(fleet, "anna")
    until(lambda: "its group job waits for the ticket of" in said(fleet, "explain", nodes), half)
    fleet.start("bazaar")
    until(lambda: state(fleet, disk) not in ("", "nascent", "ticketing"))
    killed(fleet, "anna")
    until(lambda: [state(fleet, lease) for lease in (nodes, disk)] == ["active", "active"])
    assert running() == {nodes, disk}
    said(fleet, "close", disk)
    until(lambda: not running())
    assert f"Its group job is over: {disk} has ended." in said(fleet, "explain", nodes)


def test_where_a_member_is_denied_the_other_says_which_and_why(fleet: FederationFleet) -> None:
    nodes = demand(fleet, "job", "node", "market", 2)
    until(lambda: state(fleet, nodes) == "ticketed")
    disk = demand(fleet, "job", "disk", "bazaar", 3)
    until(lambda: state(fleet, nodes) == "closed")
    killed(fleet, "anna")
    assert f"Its group job is over: {disk} was denied: " in said(fleet, "explain", nodes)


def test_a_group_needs_an_id_and_a_number(tmp_path: Path) -> None:
    for given in (["--group", "job"], ["--of", "2"]):
        ran = CliRunner().invoke(cli, ["demand", "--units", "1", "--until", "1h", *given, "--at", str(tmp_path)])
        assert ran.exit_code == 2
        assert "--group and --of go together" in ran.output
