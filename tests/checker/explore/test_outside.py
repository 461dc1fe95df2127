"""The lease and contention as those outside see them: who uses which unit, and what is torn down under whom."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.properties import only_these
from leasehold.faults.model import Budget
from leasehold.spec import load, shipped_folder
from leasehold.spec.language.model import System

LEASE = (
    "a_guest_is_gone_before_the_end",
    "a_unit_is_not_torn_down_under_a_guest",
    "a_guest_uses_a_unit_of_its_lease",
    "a_guest_has_time_to_leave",
    "what_a_holder_may_use_is_its_own",
)
CONTENTION = (
    "a_unit_has_guests_of_one_lease",
    "a_guest_uses_a_unit_of_its_lease",
    "a_unit_is_not_torn_down_under_a_guest",
)


def _violated(system: System, faults: str = "") -> dict[str, int]:
    """Explores a system to its end; returns the violated properties, each with the steps to the first violation."""
    found = explore(system, budget=Budget.parse(faults) if faults else None)
    assert found.complete
    return {p.name: len(p.path) for p in found.properties if p.verdict == "violated" and p.path is not None}


@pytest.mark.parametrize("lazy", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param("partition=1", marks=pytest.mark.long),
        pytest.param("crash=1", marks=pytest.mark.long),
        pytest.param("skew=1", marks=pytest.mark.long),
        pytest.param("lose=1,duplicate=1,reorder=1", marks=pytest.mark.slow),
    ],
)
def test_no_guest_uses_what_is_another_s(faults: str, lazy: bool) -> None:
    margin = 2 if "skew" in faults else 1
    constants = {"max_units": 1, "lazy_close": lazy, "clock_margin": margin}
    assert _violated(only_these(load("lease", constants), LEASE), faults) == {}


@pytest.mark.long
def test_a_clock_that_is_further_behind_than_its_margin_is_found() -> None:
    system = only_these(load("lease", {"max_units": 1}), LEASE)
    assert _violated(system, "skew=1").keys() == {"a_unit_is_not_torn_down_under_a_guest"}


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param("", marks=pytest.mark.long),
        pytest.param("crash=1", marks=pytest.mark.slow),
        pytest.param("partition=1", marks=pytest.mark.slow),
    ],
)
def test_guests_of_two_leases_never_use_one_unit(faults: str) -> None:
    assert _violated(only_these(load("contention", {"last_end": 1} if faults else {}), CONTENTION), faults) == {}


def _torn_down(
    place: Path, name: str, constants: dict[str, int | bool], depth: int, edit: tuple[str, str, str]
) -> tuple[str, int | None]:
    """The verdict, and the length of its path, on whether no unit is torn down under a guest, with one file edited."""
    for system in {name, "lease"}:  # whose roles contention includes
        shutil.copytree(shipped_folder(system), place / system)
    (place / name / "expected.yaml").unlink()
    file, old, new = edit
    text = (place / name / file).read_text()
    assert old in text
    (place / name / file).write_text(text.replace(old, new))
    asked = only_these(load(place / name, constants), ["a_unit_is_not_torn_down_under_a_guest"])
    (found,) = explore(asked, limits=Limits(depth=depth)).properties
    return found.verdict, None if found.path is None else len(found.path)


# A unit of three is lost, and the holder gives one back before it has heard of another that its site has taken for it.
GIVES_BACK = {"max_units": 3, "losses": True, "repair_limit": 0, "expiry": False, "close_early": False}


@pytest.mark.long
@pytest.mark.parametrize("named", [True, False], ids=["what it keeps is named", "what it gives back alone"])
def test_a_site_tears_down_nothing_that_its_holder_keeps(named: bool, tmp_path: Path) -> None:
    kept = "u.state != failed and (u in kept or len(s) <= limit)"
    edit = ("roles/authority.yaml", kept, kept if named else "u.state != failed")
    assert _torn_down(tmp_path, "lease", GIVES_BACK, 29, edit) == (("bounded", None) if named else ("violated", 26))


# A lease that was over is resumed for two units, one of which a guest still leaves, and its holder is not told in time.
RESUMED = {"leases": 1, "max_units": 2, "losses": True, "repair_limit": 0, "replace_limit": 0}


@pytest.mark.long
@pytest.mark.parametrize("told", [True, False], ids=["as shipped", "of units that no holder was told of"])
def test_a_lease_that_is_resumed_is_used_when_its_holder_is_told(told: bool, tmp_path: Path) -> None:
    excused = " or old(g.state == leaving and unit_of_guest(g) not in site_of(g).told)"
    edit = ("invariants.yaml", excused, excused if told else "")
    assert _torn_down(tmp_path, "contention", RESUMED, 28, edit) == (("bounded", None) if told else ("violated", 27))


# The guests stay: no state that waits for its site makes them leave.
STAY = [
    ("    tasks: [ask_for_longer_ticket, withdraw, leave_others]", "    tasks: [ask_for_longer_ticket, leave_others]"),
    ("    tasks: [schedule_extension, withdraw]", "    tasks: [schedule_extension]"),
    ("    tasks: [leave_victims, withdraw, leave_others,", "    tasks: [leave_victims, leave_others,"),
    ("          also: withdraw\n", ""),
    (
        "  withdraw:\n    drive: guest\n    event: leave\n    when: withdrawn\n"
        "    doc: The end that the site has confirmed is near, or the site has ended the lease.\n",
        "",
    ),
]

# Without a word of machines: what another may have, nobody uses.
PLAIN = """
  no_guest_uses_a_unit_past_the_end_that_its_site_has_said:
    always: "now <= service_manager.lease_end or all(g.state not in {joining, active, modifying} for g in guest)"
  no_guest_uses_a_unit_that_the_site_has_taken_back:
    when: now > service_manager.lease_end
    always: >
      all(g.state not in {active, modifying} or unit[index(g)].state not in {closing, closed, idle} for g in guest)
"""
PLAIN_NAMES = tuple(line.strip()[:-1] for line in PLAIN.splitlines() if line.startswith("  no_"))


@pytest.mark.parametrize("stay", [False, True], ids=["they leave", "they stay"])
def test_guests_that_stayed_while_their_holder_waits_would_use_what_is_anothers(stay: bool, tmp_path: Path) -> None:
    """An earlier lease made guests leave at the end of the ticket, which the site need not know."""
    folder = shutil.copytree(shipped_folder("lease"), tmp_path / "lease")
    (folder / "expected.yaml").unlink()
    claims, holder = folder / "invariants.yaml", folder / "roles/service_manager.yaml"
    claims.write_text(claims.read_text().replace("properties:\n", f"properties:{PLAIN}", 1))
    text = holder.read_text()
    for old, new in STAY if stay else []:
        assert old in text
        text = text.replace(old, new)
    holder.write_text(text)
    violated = _violated(only_these(load(folder, {"max_units": 1}), (*LEASE, *PLAIN_NAMES)))
    assert violated.keys() == ({"a_guest_is_gone_before_the_end", *PLAIN_NAMES} if stay else set())
