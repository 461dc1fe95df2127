"""What `took` says of a crash, in every reading: a machine at rest that stops has consumed nothing.

A crash within a step is the step of the event that the machine has consumed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import prove
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.checker.verify.databases import database
from tests.systems import files_of, written
from tests.watched.drawn import Drawn
from tests.watched.readings import compared

FILES = files_of("watched/systems/talk")
EVENTS = "took(a.go) or took(a.tell)"
# By name: the claim, and whether it holds under crashes.
CLAIMS = {
    "any_event_is_one": (f"not took(a) or {EVENTS}", True),
    "a_named_one_is_any": (f"not ({EVENTS}) or took(a)", True),
    "nothing_changes_without_one": ("took(a) or a.state == old(a.state)", True),
    "who_stops_has_taken_something": ("not old(running(a)) or running(a) or took(a)", False),
    "who_stops_has_taken_nothing": ("not old(running(a)) or running(a) or not took(a)", False),
    "who_is_taken_with_has_taken_something": ("not old(running(b)) or running(b) or took(a) or took(b)", False),
}


@pytest.fixture
def talk(tmp_path: Path) -> System:
    claims = "".join(f'  {name}: {{step: "{claim}"}}\n' for name, (claim, _) in CLAIMS.items())
    return written(tmp_path, {**FILES, "invariants.yaml": f"properties:\n{claims}"})


@pytest.mark.parametrize("faults", ["crash=2", "power_cut=1", "halt=1"])
@pytest.mark.parametrize("engine", ["reference", "packed"])
def test_the_explorer_says_of_a_crash_at_rest_that_nothing_was_taken(talk: System, engine: str, faults: str) -> None:
    found = explore(talk, budget=Budget.parse(faults), engine=engine)  # type: ignore[arg-type]
    holds = {p.name: p.verdict == "exhausted" for p in found.properties if p.name in CLAIMS}
    within_a_step = faults != "halt=1"  # an actor halts at rest
    expected = {name: holds for name, (_, holds) in CLAIMS.items()}
    assert holds == {**expected, "who_stops_has_taken_nothing": not within_a_step}


def test_the_prover_says_so(talk: System) -> None:
    found = prove(talk, jobs=1, small=talk)
    verdicts = {v.name: v.verdict for v in found.properties}
    assert verdicts == {name: "proved" if holds else "counterexample" for name, (_, holds) in CLAIMS.items()}


def test_the_definition_the_functions_of_the_explorer_and_sql_say_so_of_events(talk: System) -> None:
    one = Drawn(7, talk)
    logs = [(one.log(n), False) for n in range(6)]
    with database("sqlite", talk, one.cuts.layout) as db:
        found = compared(one.cuts, logs, {"sqlite": db})
    assert not found.differ
    assert found.both == {"who_stops_has_taken_something", "who_is_taken_with_has_taken_something"}
