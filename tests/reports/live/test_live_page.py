"""The live page in a real browser: stepping, branching, faults, an address to share, and files that change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reports.browser import PROGRAM
from tests.reports.live.serving import LivePage, Served, opened
from tests.systems import files_of, load, write

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
COMMIT = files_of("reports/live/systems/saga")
SECONDS = 20.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "saga", COMMIT)


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    with Served(str(folder), faults="crash=1,lose=1", seconds=SECONDS) as server:
        yield server


@pytest.fixture
def page(served: Served) -> Iterator[LivePage]:
    with opened(served.server.url) as shown:
        yield shown


def test_steps_go_forward_and_back_and_another_way(page: LivePage) -> None:
    first = page.choices
    page.take("book")
    after = page.states()
    page.take("reserve from customer")
    assert page.states() != after
    page.press("ArrowLeft")
    page.at(1)
    assert page.states() == after
    page.press("ArrowRight")
    page.at(2)
    page.browser.run("history.back()")  # the button of the browser, too
    page.at(1)
    page.press("Home")
    page.at(0)
    assert page.choices == first
    page.press("1")
    page.at(1)
    page.take("now 1")  # another way
    assert page.browser.run("document.querySelector('.tools button:nth-child(3)').disabled")
    drawn = page.browser.run("document.querySelectorAll('.bench .lifelines .step').length")
    assert drawn == 2


def test_a_fault_is_injected_and_the_recovery_watched(page: LivePage) -> None:
    page.take("book")
    page.browser.run("document.querySelector('.choices details').open = true")
    page.take("crash:customer/asking#before-commit")
    assert "customer is down" in page.browser.run("document.querySelector('.faults').innerText")
    assert "crash 0" in page.browser.run("document.querySelector('.faults').innerText")
    assert not [words for words in page.choices if words.startswith("crash")]
    page.take("recover:customer")
    assert "is down" not in page.browser.run("document.querySelector('.faults').innerText")
    page.press("p")  # plays on, without faults, until nothing can happen
    page.until("document.querySelector('.choices').innerText.includes('Nothing can happen')")
    assert page.states()["customer"] in {"served", "sorry"}


def test_an_address_is_a_position_that_somebody_else_can_open(page: LivePage, served: Served) -> None:
    page.take("book")
    page.take("reserve from customer")
    with opened(page.address) as other:
        other.at(2)
        assert other.states() == page.states()
        assert other.choices == page.choices


def test_a_violation_is_said_where_it_is(page: LivePage) -> None:
    """A counterexample that the search has found can be gone to; there the page says what of it is false."""
    page.until("document.querySelector('[data-visit=nobody_is_booked_in_vain]') !== null")
    page.browser.run("document.querySelector('[data-visit=nobody_is_booked_in_vain]').click()")
    page.until("document.querySelector('.violated-here') !== null")
    said = page.browser.run("document.querySelector('.notices').innerText")
    assert "nobody_is_booked_in_vain is violated here" in said
    assert "customer.state != sorry" in said
    row = "document.querySelector('#standing tbody tr').innerText"
    assert "✗ violated here" in page.browser.run(row)
    assert page.steps > 3


def test_a_control_state_of_the_product_is_gone_to(page: LivePage) -> None:
    page.until("document.querySelectorAll('#product-place .cell').length > 3")
    here = "document.querySelector('#product-place .cell.here').title"
    assert "0 steps from the start" in page.browser.run(here)
    page.browser.run(
        "[...document.querySelectorAll('#product-place .cell')].find((c) => c.textContent === '3').click()"
    )
    page.at(3)
    assert "3 steps from the start" in page.browser.run(here)
    assert page.browser.run("document.querySelectorAll('#roles .node.here').length") == len(
        page.browser.run("[...document.querySelectorAll('#roles .role')].map((e) => e.id)")
    )


def test_files_are_read_again_as_they_change(page: LivePage, folder: Path) -> None:
    """An error is shown in place, with the last system still there; then the walk goes on from where it was."""
    page.take("book")
    page.take("reserve from customer")
    address, possible = page.address, page.choices
    file = folder / "roles/hotel.yaml"
    text = file.read_text()
    file.write_text(text.replace("to: full", "to: fulll"))
    said = page.until("document.querySelector('#findings').innerText")
    assert "hotel.yaml" in said
    assert "did you mean `full`?" in said
    assert page.choices == possible
    file.write_text(text)
    claims = folder / "invariants.yaml"
    claims.write_text(claims.read_text().replace("a_room_is_booked", "somebody_is_served"))
    page.until("document.querySelector('[data-property=somebody_is_served]') !== null")
    page.at(2)
    assert page.address == address
    assert page.browser.run("document.querySelector('#findings').innerText") == ""
    asking = folder / "roles/customer.yaml"
    asking.write_text(asking.read_text().replace("to: hotel}", "to: hotel, only: due > 9}"))  # nothing is sent any more
    page.until("document.querySelector('#lost').innerText.includes('Step 2')")
    page.at(1)


def test_a_system_that_cannot_be_loaded_yet_is_waited_for(folder: Path) -> None:
    file = folder / "system.yaml"
    text = file.read_text()
    file.write_text(text.replace("to: customer", "to: costumer", 1))
    with Served(str(folder), seconds=SECONDS) as served, opened(served.server.url) as page:
        assert "error LH" in page.browser.run("document.querySelector('#findings').innerText")
        file.write_text(text)
        page.until("document.querySelectorAll('.choice').length > 0")
        page.until("document.querySelectorAll('#product-place .cell').length > 3")  # it is explored, too


def test_it_fits_a_phone(served: Served) -> None:
    with opened(served.server.url, 390, 800) as page:
        page.until("document.querySelectorAll('#product-place .cell').length > 3")
        page.take("book")
        assert page.browser.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
def test_the_lease_is_walked_through_with_faults() -> None:
    """Its graph with faults has millions of states, of which none is explored before the page is there."""
    system = load("lease")
    with Served("lease") as served, opened(served.server.url) as page:
        for number in range(1, 8):
            page.press("1")
            page.at(number)
        roles = page.browser.run("[...document.querySelectorAll('#roles .role')].map((e) => e.id)")
        assert roles == [f"role-{name}" for name in system.roles]
