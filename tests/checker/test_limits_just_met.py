"""A limit that what there is just meets: each answer that a limit can cut short is asked on both sides of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.engines import Engine
from leasehold.checker.prove import ANY
from leasehold.checker.prove.discover import strengthen
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.spec import System
from leasehold.spec.language.check import first_states, lint_guards
from leasehold.spec.language.diagnostics import SpecError
from tests.systems import load, write

LAMP = {
    "system.yaml": "system: lamps\nroles: {lamp: {}}\nenvironment: {press: {to: lamp}}\n",
    "invariants.yaml": "properties: {few: {always: lamp.n <= 3}, never: {always: lamp.n < 3}}\n",
    "roles/lamp.yaml": """role: lamp
data: {n: {type: int, min: 0, max: 3, FIRST}}
events: {press: Somebody presses the switch.}
states: {dark: {initial: true, on: {press: CHOICES}}}
""",
}
COUNTS = "[{to: dark, when: n < 3, set: {n: n + 1}}, {stay: true, when: n >= 3}]"
OVERLAP = "[{stay: true, when: n < 3}, {stay: true, when: n >= 2}]"


def lamp(folder: Path, first: str = "initial: 0", choices: str = COUNTS, more: str = "") -> System:
    """A lamp with a number from 0 to 3."""
    role = LAMP["roles/lamp.yaml"].replace("FIRST", first).replace("CHOICES", choices)
    return load(write(folder, {**LAMP, "system.yaml": LAMP["system.yaml"] + more, "roles/lamp.yaml": role}))


def errors(folder: Path, first: str, choices: str, more: str = "") -> set[str]:
    try:
        lamp(folder, first, choices, more)
    except SpecError as error:
        return {d.code for d in error.diagnostics}
    return set()


def searched(engine: Engine, name: str) -> Callable[[int, Path, pytest.MonkeyPatch], bool]:
    def is_whole(limit: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
        return explore(lamp(folder), Limits(**{name: limit}), engine=engine).complete

    return is_whole


def first_values(limit: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """None of the values with which the lamp may begin is as `initially` says."""
    monkeypatch.setattr(first_states, "MOST_TRIED", limit)
    return "LH511" in errors(folder, "initial: any", COUNTS, "initially: lamp.n > 3\n")


def guards(limit: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Two guards hold for one of the values."""
    monkeypatch.setattr(lint_guards, "MAX_COMBINATIONS", limit)
    return "LH402" in errors(folder, "initial: 0", OVERLAP)


def candidates(limit: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """No candidate proves the property. Where they are as many as may be, others may have been left out."""
    monkeypatch.setattr(strengthen, "MOST", limit)
    system = lamp(folder)
    every = [CandidateLemma(f"at_most_{n}", "", f"lamp.n <= {n}") for n in (3, 4)]
    never = replace(system, properties={"never": system.properties["never"]})
    found = strengthen.houdini(never, ANY, never, every, ["never"], jobs=1, seconds=0)
    assert found.missing.keys() == {"never"}
    return not found.cut_short


# The least limit that is enough. A search that comes to its limit does not look whether anything is left.
PLACES: dict[str, tuple[Callable[[int, Path, pytest.MonkeyPatch], bool], int]] = {
    "states, reference": (searched("reference", "states"), 4 + 1),
    "states, packed": (searched("packed", "states"), 4 + 1),
    "depth, reference": (searched("reference", "depth"), 3 + 1),
    "depth, packed": (searched("packed", "depth"), 3 + 1),
    "first values": (first_values, 4),
    "values for guards": (guards, 4),
    "candidates": (candidates, 2 + 1),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_limit_that_is_just_met(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_whole, enough = PLACES[name]
    answers = {n: is_whole(n, tmp_path / str(n), monkeypatch) for n in range(enough - 1, enough + 2)}
    assert answers == {enough - 1: False, enough: True, enough + 1: True}
