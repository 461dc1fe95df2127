"""k-induction: a property that one step may break and two may not, and one that is false."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.prove import FaultScope, Setting
from leasehold.checker.prove.decide.induction import induct
from leasehold.checker.prove.decide.k_induction import k_induction
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.transitions import SymbolicStep
from leasehold.spec import System
from tests.systems import load

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


def test_k_induction(turns: System) -> None:
    """One step does not preserve it, two do; and a false property is preserved by no number of steps.

    Without faults: a crash between two turns changes nothing that the property is about.
    """
    setting = Setting(scope=FaultScope(crash=False, network=False))
    induction = induct(turns, setting)
    assert not {"never_five", "never_two"} & induction.proved.keys()
    encoding = setting.encoding(turns)
    claims = {c.name: c for c in claims_of(encoding)}
    assert k_induction(encoding, claims["never_five"], []) == 2
    assert k_induction(encoding, claims["never_two"], []) == 0


ONCE = {
    "system.yaml": """
system: once
roles: {player: {}}
environment: {one: {to: player}, two: {to: player}}
""",
    "roles/player.yaml": """
role: player
data: {fresh: {type: bool, initial: FIRST}}
events: {one: {}, two: {}}
states: {playing: {initial: true, on: {one: {stay: true, set: {fresh: false}}, two: {stay: true, set: {fresh: false}}}}}
""",
    "invariants.yaml": """
properties:
  never_first: {step: not (old(player.fresh) and took(player.one))}
""",
}


@pytest.mark.parametrize(("first", "steps"), [("true", 0), ("false", 2)], ids=["which it breaks", "which it does not"])
@pytest.mark.parametrize("whole", [False, True], ids=["a step", "a step that is several others"])
def test_the_first_step_is_one_of_every_kind(
    first: str, steps: int, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of any kind may be the first one of a run, and break a claim there."""
    (tmp_path / "roles").mkdir()
    for name, text in ONCE.items():
        (tmp_path / name).write_text(text.replace("FIRST", first))
    setting = Setting(scope=FaultScope(crash=False, network=False))
    encoding = setting.encoding(load(tmp_path))
    steps_from = encoding.relation.steps

    def marked(state: SymbolicState) -> Iterator[SymbolicStep]:
        for step in steps_from(state):
            yield replace(step, composite=whole and step.transition is not None and step.transition.event == "one")

    monkeypatch.setattr(encoding.relation, "steps", marked)
    (claim,) = (c for c in claims_of(encoding) if c.name == "never_first")
    assert k_induction(encoding, claim, []) == steps
