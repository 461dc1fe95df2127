"""k-induction: a property that one step may break and two may not, and one that is false."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.prove import FaultScope, Setting
from leasehold.checker.prove.decide.induction import induct
from leasehold.checker.prove.decide.k_induction import k_induction
from leasehold.checker.prove.encode.properties import claims as claims_of
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
