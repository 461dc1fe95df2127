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
from tests.systems import TESTS, edited, files_of, load, written

SYSTEMS = TESTS / "checker/prove/systems"


def test_k_induction() -> None:
    """One step does not preserve it, two do; and a false property is preserved by no number of steps.

    Without faults: a crash between two turns changes nothing that the property is about.
    """
    turns = load(SYSTEMS / "turns")
    setting = Setting(scope=FaultScope(crash=False, network=False))
    induction = induct(turns, setting)
    assert not {"never_five", "never_two"} & induction.proved.keys()
    encoding = setting.encoding(turns)
    claims = {c.name: c for c in claims_of(encoding)}
    assert k_induction(encoding, claims["never_five"], []) == 2
    assert k_induction(encoding, claims["never_two"], []) == 0


@pytest.mark.parametrize(("first", "steps"), [("true", 0), ("false", 2)], ids=["which it breaks", "which it does not"])
@pytest.mark.parametrize("whole", [False, True], ids=["a step", "a step that is several others"])
def test_the_first_step_is_one_of_every_kind(
    first: str, steps: int, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of any kind may be the first one of a run, and break a claim there."""
    setting = Setting(scope=FaultScope(crash=False, network=False))
    encoding = setting.encoding(
        written(tmp_path, edited(files_of("checker/prove/systems/once"), ("initial: true}", f"initial: {first}}}")))
    )
    steps_from = encoding.relation.steps

    def marked(state: SymbolicState) -> Iterator[SymbolicStep]:
        for step in steps_from(state):
            yield replace(step, composite=whole and step.transition is not None and step.transition.event == "one")

    monkeypatch.setattr(encoding.relation, "steps", marked)
    (claim,) = (c for c in claims_of(encoding) if c.name == "never_first")
    assert k_induction(encoding, claim, []) == steps
