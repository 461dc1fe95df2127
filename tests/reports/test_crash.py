"""The page, the JSON and the drawing of what crashes do."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from leasehold.checker.crash.analysis import CrashReport, crash
from leasehold.faults.model import Budget
from leasehold.reports.commands import case_command
from leasehold.reports.crash import crash_json, crash_markdown, worst_svg
from leasehold.reports.crash_words import (
    byzantine_note,
    case_name,
    convergence_words,
    longest_case,
    longest_words,
    other_ends_words,
    worst_case,
    worst_first,
)
from leasehold.reports.json_report import dumps
from tests.systems import load


@pytest.fixture(scope="module")
def commit() -> CrashReport:
    return crash(load("two_phase_commit", {"participants": 1}), Budget(crash=1))


@pytest.fixture(scope="module")
def halted() -> CrashReport:
    return crash(load("two_phase_commit", {"participants": 1}), Budget(halt=1))


@pytest.fixture(scope="module")
def lease() -> CrashReport:
    return crash(load("lease", {"expiry": False, "max_units": 1, "last_end": 1}), Budget(crash=1))


@pytest.fixture(scope="module")
def liar() -> CrashReport:
    system = load("lease", {"expiry": False, "max_units": 1, "last_end": 1})
    return crash(system, Budget(crash=1, byzantine="unit"))


def test_the_page_has_every_cell_and_every_case(lease: CrashReport) -> None:
    page = crash_markdown(lease)
    assert page.startswith("# lease under `crash=1`\n\nThe system with `max_units=1`, `last_end=1`,")
    assert "\nStabilises: every fair run returns to a legal state, in at most " in page
    head = "broker | authority | reached | crash points | cases alive | cases over | verdict | worst"
    assert f"\n| service\\_manager | {head} |\n" in page
    for cell in lease.cells:
        assert f"| {' | '.join(cell.control)} | legal | {len(cell.points)} |".replace("_", "\\_") in page
    before, missed = page.split("\n## Crash points not met\n")
    rows = [line for line in before.splitlines() if line.startswith("| `crash:")]
    assert len(rows) == sum(len(cell.points) for cell in lease.cells)
    assert f"{360 - len(lease.cells)} of 360 control states are never reached." in page
    assert [line.split("`")[1] for line in missed.splitlines() if "`crash:" in line] == list(lease.unmet)


def test_the_page_is_the_same_each_time(commit: CrashReport) -> None:
    again = crash(commit.system, commit.budget)
    assert crash_markdown(again) == crash_markdown(commit)
    assert dumps(crash_json(again, measured=False)) == dumps(crash_json(commit, measured=False))
    assert worst_svg(again) == worst_svg(commit)


def test_the_json_adds_up(lease: CrashReport) -> None:
    found = json.loads(json.dumps(crash_json(lease)))
    assert found["scenarios"] == sum(sum(cell["cases"].values()) for cell in found["cells"])
    assert found["distinct"] == found["legal_states"] + found["recovery_states"]
    assert found["never_reached"] == 360 - len(found["cells"])
    assert found["crash_points"] < found["crash_points_total"] == len(lease.points)
    assert "cells" not in crash_json(lease, cells=False)
    assert "seconds" not in crash_json(lease, measured=False)


def test_what_breaks_comes_first_with_the_weakest_faults(halted: CrashReport) -> None:
    page = crash_markdown(halted)
    first = page.split("## Properties\n\n")[1].splitlines()[2]
    assert first.startswith("| **violated** | `a_transaction_ends` | leads_to | ")
    assert first.endswith("*Breaks under `halt=1`.* |")
    ends = next(p for p in crash_json(halted)["properties"] if p["name"] == "a_transaction_ends")
    assert (ends["verdict"], ends["weakest"]) == ("violated", "halt=1")
    assert "halt" in [step["kind"] for step in ends["path"]["steps"]]


def test_what_was_not_asked_is_said(halted: CrashReport) -> None:
    assert convergence_words(halted) == "not checked whether it stabilises: an actor may halt for good"
    assert "not checked |" in crash_markdown(halted)
    found = crash_json(halted)
    assert [found[key] for key in ("converges", "legal_states", "worst_steps", "scenarios")] == [None, None, None, 0]
    assert [found["worst_case"], found["worst_path"]] == [None, None]
    assert worst_case(halted) is None
    assert worst_svg(halted) is None


def test_other_ends_are_said_in_words(lease: CrashReport, commit: CrashReport) -> None:
    assert other_ends_words(commit.convergence) == ""
    assert lease.convergence is not None
    count = lease.convergence.other_ends
    assert other_ends_words(lease.convergence).startswith(f"{count} recovery states count as returned: ")


def test_the_worst_case_is_drawn_with_its_crash_and_restart(commit: CrashReport) -> None:
    worst = worst_case(commit)
    assert worst is not None
    name, path = worst
    most = max(w.steps or 0 for w in commit.cases.values())
    restart = [step.kind for step in path.steps].index("recover")
    assert len(path.steps) - restart - 1 == most
    drawing = worst_svg(commit) or ""
    assert ElementTree.fromstring(drawing)[0].text == f"two_phase_commit: {name}"
    assert " – crash<" in drawing
    assert " – recovery<" in drawing


def test_the_worst_path_is_as_long_as_is_said(lease: CrashReport) -> None:
    """The longest way back of all ends the path that the JSON has; a case's way back may be shorter."""
    found = crash_json(lease)
    path = lease.convergence.path if lease.convergence is not None else None
    assert path is not None
    assert len(found["worst_path"]["steps"]) == len(path.steps)
    faults = [i for i, step in enumerate(path.steps) if step.kind in ("crash", "lose")]
    assert len(path.steps) - 1 - faults[-1] == found["worst_steps"]
    case = longest_case(lease)
    assert case is not None
    assert found["worst_case"] == {
        "case": list(case[0]),
        "point": case[1],
        "mode": case[2],
        "worst_steps": lease.cases[case].steps,
        "worst_exchanges": lease.cases[case].exchanges,
        "returns": True,
    }
    assert found["worst_case"]["worst_steps"] == max(w.steps or 0 for w in lease.cases.values())


def test_the_page_names_the_worst_case_and_links_its_drawing(lease: CrashReport) -> None:
    page, case = crash_markdown(lease, drawing="worst.svg"), longest_case(lease)
    assert case is not None
    assert "\nThe worst case is " in page
    assert f"\n```sh\n{case_command(lease, case)}\n```\n\n[worst.svg](worst.svg) shows that case.\n" in page
    assert "](worst.svg)" not in crash_markdown(lease)
    assert lease.convergence is not None
    assert (lease.convergence.worst_steps or 0) > (lease.cases[case].steps or 0)
    assert f"; it is counted from the restart, and the {lease.convergence.worst_steps} steps from any" in page


@pytest.mark.parametrize(("more", "said"), [(1, True), (0, False), (None, False)])
def test_the_words_of_the_worst_case_say_where_the_system_takes_longer(
    more: int | None, said: bool, commit: CrashReport
) -> None:
    """None: so many steps were not counted, or the system does not return from other states."""
    case = longest_case(commit)
    assert case is not None
    assert commit.convergence is not None
    steps = commit.cases[case].steps
    assert steps
    after = replace(commit.convergence, worst_steps=None if more is None else steps + more)
    words = longest_words(replace(commit, convergence=after))
    assert words.startswith(f"the worst case is {case_name(case)}: ")
    assert (f"; it is counted from the restart, and the {steps + 1} steps from any" in words) == said
    assert words.count(";") == said
    assert longest_words(replace(commit, convergence=None)) == ""


def test_the_command_has_the_constants_that_are_not_usual(lease: CrashReport) -> None:
    """`max_units=1` the lease sets for faults itself."""
    case = (("nascent", "nascent", "nascent"), "crash:broker/nascent#recovering", "alive")
    assert case_command(lease, case, "./lease").split(" --set ", 1) == [
        "leasehold crash case ./lease nascent/nascent/nascent 'crash:broker/nascent#recovering'",
        "last_end=1 --set expiry=false --faults crash=1 --mode alive",
    ]


def test_who_lies_is_named_with_its_actor(liar: CrashReport) -> None:
    assert convergence_words(liar) == "not checked whether it stabilises: site (authority, unit) may do anything"
    assert byzantine_note(liar).startswith(
        "site (authority, unit) may do anything and does not crash; its cells show its initial state"
    )
    assert "\nSite (authority, unit) may do anything and does not crash; " in crash_markdown(liar)
    assert not any(point.startswith(("crash:unit/", "crash:authority/")) for point in (*liar.tried, *liar.unmet))


def test_the_state_of_who_lies_makes_no_cell_illegal(liar: CrashReport) -> None:
    """The liar stays in nascent; with that, the others are in few cells that were reached without faults."""
    legal = {cell.control[:2] for cell in liar.legal.cells}
    assert {cell.control[2] for cell in liar.cells} == {"nascent"}
    assert {cell.control[:2] for cell in liar.cells if cell.legal} == {
        cell.control[:2] for cell in liar.cells if cell.control[:2] in legal
    }
    assert sum(cell.legal for cell in liar.cells) > sum(
        cell.control in {c.control for c in liar.legal.cells} for cell in liar.cells
    )


def test_the_worst_cells_come_first(commit: CrashReport) -> None:
    steps = [cell.worst.steps or 0 for cell in worst_first(commit)]
    assert steps == sorted(steps, reverse=True)
