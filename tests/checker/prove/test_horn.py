"""Spacer: what it proves is so, what is wrong it does not prove, and its lemmas are said in the language."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove.deeper import deeper
from leasehold.checker.prove.horn import Horn, Solved
from leasehold.checker.prove.induct import Setting, induct
from leasehold.checker.prove.mining import Candidate, tried
from leasehold.checker.prove.said import lemmas
from leasehold.checker.prove.steps import Scope
from leasehold.faults import Budget
from leasehold.spec import System, load

TWO = {"participants": "2"}


def solved(horn: Horn, name: str) -> Solved:
    return horn.solve(next(c for c in horn.encoding.claims() if c.name == name))


@pytest.mark.parametrize("numbered", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_phase_commit_without_lemmas(numbered: bool) -> None:
    """Under any number of crashes, losses and duplicates."""
    system = replace(load("two_phase_commit", TWO), lemmas={})
    horn = Horn(system, numbered=numbered, limit_seconds=120)
    assert horn.solve(None).holds
    for name in ("agreement", "decisions_stand", "votes_are_cast", "giving_up_aborts"):
        found = solved(horn, name)
        assert found.holds, (name, found.reason)


def test_what_is_found_is_said_in_the_language() -> None:
    """Of the lemmas, those that induction keeps hold in every state that the explorer reaches."""
    system = load("two_phase_commit", TWO)
    horn = Horn(system, numbered=False, limit_seconds=60)
    words = list(lemmas(horn.encoding, solved(horn, "agreement").invariant))
    assert "all(coordinator.state in {committing, committed} for m in pending(commit))" in words
    candidates = [Candidate(f"found_{n}", "", text) for n, text in enumerate(words)]
    setting = Setting(sizes={"participant": 2})
    kept, _, _ = tried(replace(system, lemmas={}), setting, system, candidates, [], jobs=1)
    assert len(kept) >= 3
    asked = replace(system, properties={c.name: c.of(system) for c in kept})
    found = explore(asked, budget=Budget.parse("crash=1"))
    assert {p.verdict for p in found.properties} == {"exhausted"}, [(p.name, p.verdict) for p in found.properties]


ALONE = """
import json
from leasehold.checker.prove.horn import Horn
from leasehold.checker.prove.said import lemmas
from leasehold.spec import load

horn = Horn(load("lease", {"max_units": "1"}), numbered=True, limit_seconds=600)
found = horn.solve(next(c for c in horn.encoding.claims() if c.name == "requests_are_whole"))
print(json.dumps([found.holds, sorted(set(lemmas(horn.encoding, found.invariant)))]))
"""


@pytest.mark.slow
def test_numbers_and_times_are_unbounded() -> None:
    """Of the lease, with one unit: terms of any length, and lemmas that compare them.

    In a process of its own: which lemmas the solver finds depends on what it was asked before.
    """
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True, timeout=900)
    holds, words = json.loads(done.stdout)
    assert holds
    assert "all(m.units >= 1 for m in pending(ticket))" in words
    assert any("requested_end >= " in text and "_end + 1" in text for text in words)


@pytest.mark.parametrize("words", [
    "running(coordinator)", pytest.param("coordinator.state != committed", marks=pytest.mark.slow),
])  # fmt: skip
def test_what_is_wrong_is_not_proved(words: str) -> None:
    """A claim that some run contradicts, and one whose contradiction takes a crash."""
    system = load("two_phase_commit", TWO)
    wrong = Candidate("wrong", "", words).of(system)
    found = solved(Horn(replace(system, properties={"wrong": wrong}), numbered=True, limit_seconds=600), "wrong")
    assert found.holds is False
    assert not found.invariant


TURNS = {
    "system.yaml": """
system: turns
roles:
  player: {}
environment:
  turn: {to: player}
""",
    "roles/player.yaml": """
role: player
data:
  here: {type: int, initial: 1}
  there: {type: int, initial: 2}
events:
  turn: What is here goes there, and what is there comes here.
states:
  playing:
    initial: true
    on: {turn: {stay: true, set: {here: there, there: here}}}
""",
    "invariants.yaml": """
properties:
  never_five: {always: player.here != 5}
  never_two: {always: player.here != 2}
""",
}


@pytest.fixture
def turns(tmp_path: Path) -> System:
    (tmp_path / "roles").mkdir()
    for name, text in TURNS.items():
        (tmp_path / name).write_text(text)
    return load(tmp_path)


def test_deeper_induction(turns: System) -> None:
    """One step does not keep it, two do; and what is false is not kept by any number.

    Without faults: a crash between two turns changes nothing of what the property is about.
    """
    setting = Setting(scope=Scope(crash=False, network=False))
    induction = induct(turns, setting)
    assert not {"never_five", "never_two"} & induction.proved.keys()
    encoding = setting.encoding(turns)
    claims = {c.name: c for c in encoding.claims()}
    assert deeper(encoding, claims["never_five"], []).depth == 2
    assert deeper(encoding, claims["never_two"], []).depth == 0
