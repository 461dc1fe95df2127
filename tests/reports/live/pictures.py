"""Pictures of the live page and of the operations page for docs, taken while a browser is driven as a person would.

``python -m tests.reports.live.pictures`` renews docs/pictures, and prints how long a step takes; with the word
``operations`` it renews the picture of the operations page alone.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from leasehold.impl.lease.fleet import BROKER, TENANT, Fleet
from tests.cli.operations.operating import Operating, operated
from tests.reports.live.serving import LivePage, Served, ShownPage, opened
from tests.systems import TESTS

PICTURES = TESTS.parent / "docs" / "pictures"
SAGA = TESTS / "reports/live/systems/saga"


def main(words: list[str]) -> None:
    """Renews the pictures."""
    _operations()
    if "operations" not in words:
        _live()


def _operations() -> None:
    """Takes the operations page of a lease, one whose term begins later, an actor that is down, and a broken unit."""
    down = ["sh", "-c", 'test "$LEASEHOLD_UNIT" != unit-1 || { echo it hangs >&2; exit 9; }']
    handler = {"name": "command", "setup": "true", "modify": "true", "teardown": down}
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "running"
        folder.mkdir()
        with Fleet(folder, units=4, handler=handler, more={"handling": {"tries": 1}}) as fleet:
            client = fleet.client(TENANT)
            now = client.get("about")["now"]
            leases = [
                client.post("demand", units=2, until=now + later + 900, term=300, start=now + later)["lease"]
                for later in (1, 1, 500)
            ]
            with Operating(folder) as served, operated(served, 1400, 1900) as page:
                for lease in leases[:2]:
                    page.until_row("lease", lease, "active")
                page.act("close", leases[0])
                page.until_row("unit", "unit-1", "quarantined")
                fleet.kill(BROKER)
                page.until_row("actor", BROKER, "not answering since")
                page.until("document.querySelector('.outcome') !== null")
                _take(page, "operations")


def _live() -> None:
    with tempfile.TemporaryDirectory() as base:
        folder = Path(shutil.copytree(SAGA, Path(base) / "saga"))
        with Served(str(folder), faults="crash=1,lose=1", seconds=20) as served, opened(served.server.url) as page:
            _explored(page)
            page.take("book")
            page.take("reserve from customer")
            page.browser.run("document.querySelector('.choices details').open = true")
            page.take("crash:customer/asking#before-commit")
            _take(page, "serve_fault")
            page.browser.run("document.querySelector('[data-visit=nobody_is_booked_in_vain]').click()")
            page.until("document.querySelector('.violated-here') !== null")
            page.browser.run("scrollTo(0, 0)")
            _take(page, "serve_violation")
            with opened(page.address) as other:  # an address that was sent to somebody
                other.at(page.steps)
            page.browser.run("history.back()")
            page.at(3)
            file = folder / "roles/hotel.yaml"
            file.write_text(file.read_text().replace("to: full", "to: fulll"))
            page.until("document.querySelector('#findings').innerText")
            page.browser.run("scrollTo(0, 0)")
            _take(page, "serve_diagnostics")
    began = time.perf_counter()
    with Served("lease") as served, opened(served.server.url) as page:
        spent = time.perf_counter() - began
        print(f"lease: its page is there after {spent:.2f} s, with the start of server and browser")
        began = time.perf_counter()
        page.browser.run("location.reload()")
        page.until("document.querySelectorAll('.choice').length > 0")
        print(f"lease: loaded again in {time.perf_counter() - began:.2f} s")
        steps = []
        for number in range(1, 8):
            began = time.perf_counter()
            page.press("1")
            page.at(number)
            steps.append(time.perf_counter() - began)
        low, high = min(steps) * 1000, max(steps) * 1000
        print(f"lease: a step is drawn after {low:.0f} to {high:.0f} ms")
        _take(page, "serve_lease")


def _explored(page: LivePage) -> None:
    page.until("document.querySelector('#progress').textContent", lambda said: said.startswith("explored under"))


def _take(page: ShownPage, name: str) -> None:
    page.browser.run("new Promise((done) => setTimeout(done, 300))")
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.png").write_bytes(page.browser.picture())


if __name__ == "__main__":
    main(sys.argv[1:])
