"""What is committed of a shipped system: its report, and what crashes do to it, each linked to the other."""

from leasehold.reports.write import committed
from leasehold.spec import SHIPPED
from tests.systems import load


def test_the_pages_link_what_crashes_do_and_that_links_its_drawing() -> None:
    files = {name: content.decode() for name, content in committed("three_phase_commit").items()}
    assert "\n[Results under crashes](crash.md).\n" in files["report.md"]
    assert '"crashes":"crash.md"' in files["index.html"]
    assert "\n[worst\\_crash.svg](worst_crash.svg) shows that case.\n" in files["crash.md"]
    assert "<svg" in files["worst_crash.svg"]
    assert (
        "| `crash:coordinator/idle#before-acknowledge` | no participant speaks before it is asked |"
        in files["crash.md"]
    )


def test_all_but_the_largest_have_a_page_of_crashes() -> None:
    """Contention takes minutes; `leasehold crash contention` has it."""
    assert [name for name in SHIPPED if not load(name).faults.check] == ["contention"]
    assert load("contention").faults.budget
