"""Pictures of the live page for docs, taken while a browser is driven as a person would drive it.

``python -m tests.reports.live.pictures`` renews docs/pictures/serve_*.png, and prints how long a step takes.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from tests.reports.live.serving import LivePage, Served, opened
from tests.systems import TESTS

PICTURES = TESTS.parent / "docs" / "pictures"
SAGA = TESTS / "reports/live/systems/saga"


def main() -> None:
    """Renews the pictures."""
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


def _take(page: LivePage, name: str) -> None:
    page.browser.run("new Promise((done) => setTimeout(done, 300))")
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.png").write_bytes(page.browser.picture())


if __name__ == "__main__":
    main()
