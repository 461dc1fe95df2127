"""The operations page in a real browser, with real actors: what it shows of them, and what can be done there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.impl.lease.fleet import BROKER, SITE, TENANT, Fleet
from leasehold.impl.processes.fleet import SystemFleet
from tests.cli.operations.operating import Operating, OperationsPage, operated
from tests.reports.browser import PROGRAM
from tests.systems import edited, files_of, write
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file; while it is there, `unit-1` cannot be torn down."""
    return tmp_path_factory.mktemp("broken") / "broken"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, broken: Path) -> Iterator[Fleet]:
    down = ["sh", "-c", f'test "$LEASEHOLD_UNIT" != unit-1 || test ! -e {broken} || {{ echo it hangs >&2; exit 9; }}']
    handler = {"name": "command", "setup": "true", "modify": "true", "teardown": down}
    folder = tmp_path_factory.mktemp("fleet")
    with Fleet(folder, units=3, tick_seconds=0.25, handler=handler, more={"handling": {"tries": 1}}) as made:
        yield made


@pytest.fixture(scope="module")
def served(fleet: Fleet) -> Iterator[Operating]:
    with Operating(fleet.folder, fleet.folder / "audit.jsonl") as made:
        yield made


@pytest.fixture
def page(served: Operating) -> Iterator[OperationsPage]:
    with operated(served) as shown:
        yield shown


def demand(fleet: Fleet, units: int = 1, start: int = 0) -> str:
    client = fleet.client(TENANT)
    now = client.get("about")["now"]
    later = {"start": now + start} if start else {}
    return str(client.post("demand", units=units, until=now + start + 2000, term=400, **later)["lease"])


def state(fleet: Fleet, lease: str) -> str:
    return next((row["state"] for row in fleet.client(TENANT).get("leases") if row["lease"] == lease), "")


def test_a_lease_is_shown_and_closed_from_the_page(page: OperationsPage, served: Operating, fleet: Fleet) -> None:
    assert page.browser.run("location.search + location.hash") == ""
    assert page.browser.run("document.cookie") == ""
    later, lease = demand(fleet, 1, start=1000), demand(fleet)
    page.until_row("lease", lease, "active")
    page.until_says("units", lease)
    page.until_row("wait", lease, "the clock")
    page.until_says("calendar", f"{later}: 1")
    page.until("document.querySelectorAll('.calendar .ahead').length > 1")  # the term of the one, and the other
    page.until_says("metrics", "transitions")
    page.until_says("violations", "0 violations")
    before = len(served.audited)
    page.act("close", lease, sure=False)
    assert len(served.audited) == before
    assert state(fleet, lease) == "active"
    page.act("close", lease)
    page.until("document.querySelector('.outcome')?.innerText ?? ''", lambda text: f"close {lease}: done" in text)
    wait_until(lambda: state(fleet, lease) == "closed")
    intent, outcome = served.audited[before:]
    assert (intent["outcome"], outcome["outcome"], outcome["target"]) == ("intended", "done", lease)
    assert outcome["who"]["session"] == len(served.said)
    lines = [json.loads(line) for line in (fleet.folder / "audit.jsonl").read_text().splitlines()]
    assert lines == served.audited
    page.until(f"document.querySelector('[data-lease=\"{lease}\"]') === null")
    page.browser.run("document.getElementById('over').click()")
    page.until_row("lease", lease, "closed")


def test_an_actor_that_is_killed_is_shown_as_not_answering_and_is_back(page: OperationsPage, fleet: Fleet) -> None:
    lease = demand(fleet)
    page.until_row("lease", lease, "active")
    page.until_row("actor", BROKER, "up")
    fleet.kill(BROKER)
    page.until_row("actor", BROKER, "not answering since")
    for actor in (SITE, TENANT):  # which are not delayed
        page.until_row("actor", actor, "up")
    page.until_row("lease", lease, "active")
    fleet.start(BROKER)
    fleet.await_ready(BROKER)
    page.until_row("actor", BROKER, "up")
    cell = f"document.querySelector({page.row('actor', BROKER)!r}).children[3].innerText"
    page.until(cell, lambda text: int(text) == 2)
    page.until_says("violations", "0 violations, 0 faults")


def test_a_unit_that_is_held_back_is_shown_and_recovered(
    page: OperationsPage, served: Operating, fleet: Fleet, broken: Path
) -> None:
    site = fleet.client(SITE)
    broken.touch()
    try:
        leases = []
        while "unit-1" not in {row["unit"] for row in site.get("units") if row["state"] == "active"}:
            leases.append(demand(fleet))
            wait_until(lambda: state(fleet, leases[-1]) == "active")
        for lease in leases:
            page.act("close", lease)
        page.until_row("unit", "unit-1", "quarantined")
        page.until("document.querySelector('.calendar .held') !== null")
        page.until_row("unit", "unit-1", "it hangs")
        page.act("recover", "unit-1")
        outcome = "document.querySelector('.outcome')?.innerText ?? ''"
        page.until(outcome, lambda text: "recover unit-1: done: unit[1] at site begins its work anew" in text)
        assert served.audited[-1]["action"] == "recover"
    finally:
        broken.unlink(missing_ok=True)


def test_a_violation_is_shown_with_blame_and_the_command_that_steps_through_it(tmp_path: Path) -> None:
    """The system claims what is not so, and it is another one than the lease: it has runs, and no units."""
    claim = "properties:\n  nobody_asks:\n    doc: It is never asked.\n    always: coordinator.state != asking\n"
    files = files_of("../spec/systems/two_phase_commit")
    invariants = edited({"invariants.yaml": files["invariants.yaml"]}, ("properties:\n", claim))
    system = write(tmp_path / "wrong", {**files, **invariants})
    (folder := tmp_path / "fleet").mkdir()
    with (
        SystemFleet(str(system), folder, {"participants": 2}, 0.25) as fleet,
        Operating(folder) as served,
        operated(served) as page,
    ):
        page.until_says("violations", "0 violations")
        assert page.browser.run("document.querySelector('#leases h2').innerText") == "Runs"
        player = fleet.players["coordinator"]
        run = fleet.client(player).post("begin", machine="coordinator", event="begin")["lease"]
        page.until_says("violations", f"nobody_asks is violated in {run}")
        told = page.text("violations")
        assert "specification: " in told
        assert f"leasehold serve {system} --from {folder} --lease {run}" in told
        page.until_row("lease", run, "asking")
        assert page.browser.run(f"document.querySelectorAll('[data-lease=\"{run}\"] button').length") == 1
        page.until_row("wait", run, fleet.players["participant[0]"])
        page.until_says("calendar", "no actor here has units")
