"""The catalogue of faults and the budget speak of the same."""

import pytest

from leasehold.faults import DEFAULT
from leasehold.faults.catalogue import Fault, budgeted, catalogue
from leasehold.faults.lowering import KINDS


def test_every_fault_with_a_limit_is_in_the_budget_and_the_other_way_round() -> None:
    assert budgeted().keys() == KINDS.keys()
    assert [f.name for f in catalogue() if f.unit is None] == ["delay", "recovering"]


@pytest.mark.parametrize("fault", catalogue(), ids=lambda fault: fault.name)
def test_every_entry_says_all(fault: Fault) -> None:
    assert fault.doc.endswith(".")
    assert fault.model.endswith(".")
    assert fault.actor.endswith(".")
    assert "paper" in fault.source or "semantics.md" in fault.source
    assert fault.steps


def test_the_default() -> None:
    assert str(DEFAULT) == "crash=2,duplicate=1,lose=1"
