"""The catalogue of faults and the budget speak of the same."""

from pathlib import Path

import pytest
import yaml

from leasehold.faults import model
from leasehold.faults.model import DEFAULT
from leasehold.faults.model.catalogue import BudgetUnit, Fault, budgeted, catalogue
from leasehold.faults.model.lowering import KINDS


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


@pytest.mark.parametrize("fault", catalogue(), ids=lambda fault: fault.name)
def test_a_fault_is_what_its_row_says(fault: Fault) -> None:
    """Each key of the row is in a part of its own, and what a row does not have is left out."""
    rows = yaml.safe_load((Path(model.__file__).parent / "catalogue.yaml").read_text())
    assert [f.name for f in catalogue()] == list(rows)
    row = rows[fault.name]
    assert row.keys() <= {"budget", "lasts", "stops", "doc", "model", "actor", "source", "steps"}
    words = (fault.doc, fault.model, fault.actor, fault.source, fault.stops)
    assert words == tuple(row.get(key, "").strip() for key in ("doc", "model", "actor", "source", "stops"))
    assert fault.unit == (BudgetUnit(row["budget"]) if "budget" in row else None)
    assert (fault.lasts, fault.steps) == (row.get("lasts", False), tuple(row["steps"]))
    assert fault.counted == row.get("budget", "").startswith("count")
    assert fault.nothing == ("" if row.get("budget") == "role" else 0)
    assert (fault.name in budgeted()) == ("budget" in row)
