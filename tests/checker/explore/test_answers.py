"""Public specifications in which a receiver answers the sender: the explorer counts what TLC counts of other modules.

Each folder's module.tla has the same protocol in TLA+, written by hand with constants in place, so it shares nothing
with the export. Distinct and generated states are equal: what `to: msg.sender` reads of a step is no part of a state
where it is never sent again.
"""

from __future__ import annotations

import pytest

from leasehold.checker.explore import explore
from leasehold.spec.language.expression import Sender, walk
from leasehold.spec.language.parts import expressions
from tests.checker.export.tlc import COUNTS, run
from tests.systems import TRUTH, load

MODULES = sorted(path.parent.name for path in TRUTH.glob("*/module.tla"))


def test_there_are_ten() -> None:
    assert len(MODULES) == 10


@pytest.mark.parametrize("name", MODULES)
def test_a_receiver_knows_the_sender(name: str) -> None:
    assert _answers(name)


def test_each_system_with_such_answers_is_compared() -> None:
    """Those without a module.tla have the roles of `two_phase`, or TLC's counts of the public text (test_truth.py), or
    are compared through the export, in test_tla.py."""
    answering = {p.name for p in TRUTH.iterdir() if (p / "system.yaml").is_file() and _answers(p.name)}
    assert answering - {*MODULES} == {
        "chubby",
        "failure_detector",
        "german",
        "readers_writers",
        "single_copy_register",
        "two_phase_live",
        "two_phase_refines",
    }


def _answers(name: str) -> bool:
    return any(isinstance(part, Sender) for e in expressions(load(TRUTH / name).roles) for part in walk(e))


@pytest.mark.long
@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize("name", MODULES)
def test_states_are_as_tlc_counts_them(name: str) -> None:
    text, system = (TRUTH / name / "module.tla").read_text(), load(TRUTH / name)
    bounds = ["CONSTRAINT Bounds"] if system.constraint is not None else []
    printed = run(text, ["SPECIFICATION Spec", *bounds])
    assert COUNTS.findall(printed), printed
    generated, distinct = map(int, COUNTS.findall(printed)[-1])
    found = explore(system)
    assert (found.distinct, found.generated) == (distinct, generated)
