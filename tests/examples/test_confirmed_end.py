"""A holder whose guests leave before the end that its site has confirmed, and the shipped one, whose guests do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.properties import only_these
from leasehold.faults import Budget
from leasehold.spec import load
from leasehold.spec.language.model import System
from tests.impl.compiler.twin import walk

ROOT = Path(__file__).parents[2]
OUTSIDE = (
    "a_guest_is_gone_before_the_end", "a_unit_is_not_torn_down_under_a_guest", "a_guest_uses_a_unit_of_its_lease",
    "a_guest_has_time_to_leave",
)  # fmt: skip
HOLE = """
  no_guest_uses_a_unit_past_the_end_that_its_site_has_said:
    always: "now <= service_manager.lease_end or all(g.state not in {joining, active, modifying} for g in guest)"
  no_guest_uses_a_unit_that_the_site_has_taken_back:
    when: now > service_manager.lease_end
    always: >
      all(g.state not in {active, modifying} or unit[index(g)].state not in {closing, closed, idle} for g in guest)
"""


def _violated(system: System, faults: str = "") -> dict[str, int]:
    """Explores a system to its end; returns the violated properties, each with the steps to the first violation."""
    found = explore(system, budget=Budget.parse(faults) if faults else None)
    assert found.complete
    return {p.name: len(p.path) for p in found.properties if p.verdict == "violated" and p.path is not None}


@pytest.mark.parametrize("lazy", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "faults",
    [
        "partition=1",
        pytest.param("crash=1", marks=pytest.mark.long),
        pytest.param("skew=1", marks=pytest.mark.long),
        pytest.param("lose=1,duplicate=1,reorder=1", marks=pytest.mark.slow),
    ],
)
def test_no_guest_uses_what_is_another_s(faults: str, lazy: bool) -> None:
    behind = 2 if "skew" in faults else 1
    constants = {"max_units": 1, "lazy_close": lazy, "clock_margin": behind, "last_end": 3 + behind}
    system = only_these(load(ROOT / "examples/confirmed_end", constants), OUTSIDE)
    assert _violated(system, faults) == {}


def test_a_clock_that_is_further_behind_than_its_margin_is_found() -> None:
    system = only_these(load(ROOT / "examples/confirmed_end", {"max_units": 1}), OUTSIDE)
    assert _violated(system, "skew=1").keys() == {"a_unit_is_not_torn_down_under_a_guest"}


def test_the_shipped_holder_uses_units_past_the_end(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "spec/systems/lease", tmp_path / "lease")
    (folder / "expected.yaml").unlink()
    claims = folder / "invariants.yaml"
    claims.write_text(claims.read_text().replace("properties:\n", f"properties:{HOLE}", 1))
    names = tuple(line.strip()[:-1] for line in HOLE.splitlines() if line.startswith("  no_"))
    assert list(_violated(only_these(load(folder), names)).values()) == [18, 19]


def test_the_compiled_machines_do_what_the_explored_ones_do() -> None:
    twin = walk(load(ROOT / "examples/confirmed_end", {"max_units": 1, "last_end": 3}), "")
    assert twin.seen["taken"] > 9_000
