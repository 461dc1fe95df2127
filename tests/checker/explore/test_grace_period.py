"""The system `grace_period`: what is used twice where nobody waits for what a lost store has forgotten, and clocks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.result import Exploration
from leasehold.faults.model import Budget
from leasehold.spec import System, load, shipped_folder

ALONE = {"expected.yaml", "mutation.yaml", "lemmas.yaml"}
BROKER = ("broker", "          and now >= quiet_until", "")
SITE = ("site", " and not is_quiet", "")
SAME_TICK = ("broker", "is_older(time): time <= since + clock_margin", "is_older(time): time < since + clock_margin")
TOO_SHORT = ("broker", "since + longest_term)", "since + longest_term - 1)")
SMALL = {"longest_delegation": 1, "last_end": 2}
USED, PROMISED = "no_unit_is_used_twice", "no_unit_is_promised_twice"
GRANTED = "what_is_over_is_handed_on_and_granted_again"  # and not before


def changed(tmp_path: Path, *changes: tuple[str, str, str], **settings: int) -> System:
    """The system with other texts in the files of its roles, each for one that is there once."""
    folder = tmp_path / "changed" / "grace_period"
    shutil.copytree(shipped_folder("grace_period"), folder, ignore=lambda _, names: [n for n in names if n in ALONE])
    for role, before, after in changes:
        file = folder / "roles" / f"{role}.yaml"
        text = file.read_text()
        assert text.count(before) == 1, before
        file.write_text(text.replace(before, after))
    return load(folder, {name: str(value) for name, value in settings.items()})


def violated(found: Exploration) -> dict[str, int]:
    """The properties that are violated, with the steps of their shortest paths."""
    return {p.name: len(p.path.steps) for p in found.properties if p.verdict == "violated" and p.path is not None}


@pytest.mark.parametrize(
    "change", [BROKER, SAME_TICK, TOO_SHORT], ids=["at all", "for units of the same tick", "for the whole longest term"]
)
def test_a_broker_with_a_new_store_has_to_wait(change: tuple[str, str, str], tmp_path: Path) -> None:
    found = explore(changed(tmp_path, change, **SMALL), budget=Budget(amnesia=1))
    assert violated(found) == {USED: 18, PROMISED: 17, GRANTED: 7, "who_waits_says_so": 8}
    (used,) = [p for p in found.properties if p.name == USED]
    assert used.path is not None
    assert [s.title for s in used.path.steps if "grant" in s.title or "amnesia" in s.title] == [
        "broker[0]: grant(who=holder[0])",
        "broker[0]: amnesia:broker",
        "broker[0]: grant(who=holder[1])",
    ]
    assert violated(explore(changed(tmp_path / "waits", **SMALL), budget=Budget(amnesia=2))) == {}


@pytest.mark.long
def test_a_site_with_a_new_store_has_to_wait_too(tmp_path: Path) -> None:
    """Units that it hands on anew look to the broker as if nothing had been promised of them before."""
    found = explore(changed(tmp_path, SITE, longest_term=2, last_end=3), budget=Budget(amnesia=2))
    sooner = {"a_broker_knows_what_it_was_handed": 7, "a_site_hands_on_nothing_while_tickets_last": 13}
    assert violated(found) == {USED: 22, PROMISED: 21, GRANTED: 1} | sooner


@pytest.mark.parametrize(("margin", "broken"), [(1, False), (0, True)])
@pytest.mark.long
def test_clocks_may_differ_by_the_margin_and_by_no_more(margin: int, broken: bool, tmp_path: Path) -> None:
    system = changed(tmp_path, longest_term=2, last_end=3, clock_margin=margin)
    found = explore(system, budget=Budget(amnesia=1, skew=1))
    assert (USED in violated(found)) is broken
