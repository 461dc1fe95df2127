"""Section 5.3, Table 1: each of the nine invariants holds, has cases, and is broken by a spec that breaks its rule.

A change (table_1.yaml) breaks one rule of one machine as a careless author would. The test demands the very invariant,
and a path whose last step shows the culprit.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

TABLE = {
    1: [
        "valid_ticket",
        "ticket_lasts_while_it_is_used",
        "ticket_is_as_issued",
        "a_site_is_shown_the_ticket",
        "a_ticket_is_held_to_its_end",
        "a_ticket_is_redeemed_before_its_end",
        "a_ticket_that_lasts_is_accepted",
        "a_ticket_is_kept_to_its_end",
    ],
    2: [
        "assigned_equals_ticketed",
        "active_as_ticketed",
        "site_wants_what_the_ticket_says",
        "a_new_lease_is_as_ticketed",
        "a_site_is_shown_the_ticket",
    ],
    3: ["ticket_changes_on_extension_only", "ticket_is_as_issued"],
    4: ["lease_changes_on_extension_only", "lease_changes_when_asked_only"],
    5: ["extension_asked_before_the_end"],
    6: [
        "extension_answered_before_the_end",
        "extension_request_is_taken_up",
        "broker_decides",
        "a_ticket_is_extended_before_its_end",
    ],
    7: ["never_terminated_early"],
    8: ["never_terminated_when_extended", "valid_extension_is_accepted"],
    9: [
        "handlers_end_in_time",
        "deadlines_are_the_limit",
        "handlers_are_waited_for_in_bounded_time",
        "guests_end_in_time",
        "guests_have_their_time",
    ],
}
NAMES = list(dict.fromkeys(name for names in TABLE.values() for name in names))


def of_table(lease):
    """The rows of Table 1 as the spec cites them, to the names of their properties."""
    found = {}
    for p in lease.system.properties.values():
        if cited := re.fullmatch(r"paper, Table 1, invariants? ([1-9 and]+)", p.source):
            for number in re.findall(r"\d", cited[1]):
                found.setdefault(int(number), []).append(p.name)
    return found


def test_the_spec_has_each_row_of_the_table(lease):
    rows = of_table(lease)
    assert {number: set(names) for number, names in rows.items()} == {n: set(names) for n, names in TABLE.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_invariant_holds_and_has_cases(lease, verdict, name):
    assert verdict(lease, name).verdict == "exhausted"
    assert name not in lease.vacuous
    of_every_step = {"guests_have_their_time"}  # it is about each guest, of which there are some
    assert name in of_every_step or lease.system.properties[name].when is not None


def changes(part: str) -> list[Any]:
    """Returns the changes of a part of table_1.yaml, which says what each of them has."""
    found = yaml.safe_load((Path(__file__).parent / "table_1.yaml").read_text())[part]
    return [pytest.param(c["breaks"], c["shows"], c["edits"], c["settings"], id=c["what"]) for c in found]


BROKEN = changes("table")


def first_of_each_rule() -> list[Any]:
    """The changes, of which the first of each rule is made in every run of the tests, and the others in long ones."""
    seen = set[str]()
    found = []
    for change in BROKEN:
        rules = str(change.id).partition(":")[0]
        found.append(pytest.param(*change.values, id=change.id, marks=[pytest.mark.long] * (rules in seen)))
        seen.add(rules)
    return found


@pytest.mark.parametrize(("name", "culprit", "edits", "settings"), first_of_each_rule())
def test_what_breaks_the_rule_is_found(changed, verdict, name, culprit, edits, settings):
    found = changed(*edits, **settings)
    result = verdict(found, name)
    assert result.verdict == "violated"
    assert result.path is not None
    last = result.path.steps[-1]
    assert culprit in (last.transition, last.title)
    violated = {p.name for p in found.properties if p.verdict == "violated"}
    rows = {number for number, names in of_table(found).items() if violated & set(names)}
    assert rows >= {number for number, names in TABLE.items() if name in names}
    assert len(rows) <= 3  # where rules rest on one another, they fall together; never the whole table


def test_each_row_is_broken_by_something():
    assert {p.values[0] for p in BROKEN} == set(NAMES)


BEYOND_THE_TABLE = changes("beyond")


@pytest.mark.parametrize(("name", "culprit", "edits", "settings"), BEYOND_THE_TABLE)
def test_a_rule_that_is_taken_for_granted_can_be_broken_too(changed, verdict, name, culprit, edits, settings):
    """Section 5.3: beyond the table."""
    result = verdict(changed(*edits, **settings), name)
    assert result.verdict == "violated"
    assert result.path is not None
    assert result.path.steps[-1].transition == culprit
