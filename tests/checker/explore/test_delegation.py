"""The system `delegation`: what the prover has no sums for, and clocks that differ."""

import pytest

from leasehold.checker.explore import explore
from leasehold.faults.model import Budget
from leasehold.spec import load, shipped_folder
from leasehold.spec.language.model import System

CONSERVED = """properties:
  what_is_promised_is_counted:
    for: {h: holder}
    always: h.out == sum(h.given[x] for x in holder)
  no_more_is_sold_than_there_is:
    doc: All tickets that have not ended are for no more units than the sites have put out.
    always: >
      sum(h.sold for h in holder if now < h.sold_end) <= sum(h.units for h in holder if h.above == none)
"""


def conserved(tmp_path, **settings: str) -> System:
    """The system with properties over all holders beside its own."""
    folder = tmp_path / "delegation"
    for file in shipped_folder("delegation").rglob("*.yaml"):
        target = folder / file.relative_to(shipped_folder("delegation"))
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.name not in ("expected.yaml", "crash.yaml", "lemmas.yaml", "mutation.yaml"):
            target.write_bytes(file.read_bytes())
    (folder / "invariants.yaml").write_text(CONSERVED)
    return load(folder, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"holders": "2", "max_units": "2", "tickets": "true"},
        pytest.param({"tickets": "true", "releases": "true"}, marks=pytest.mark.long),
    ],
)
def test_nothing_is_sold_or_counted_that_is_not_there(tmp_path, settings):
    found = explore(conserved(tmp_path, **settings))
    assert {p.name: p.verdict for p in found.properties} == {
        "what_is_promised_is_counted": "exhausted",
        "no_more_is_sold_than_there_is": "exhausted",
    }


@pytest.mark.parametrize(("margin", "broken"), [("1", False), ("0", True)])
def test_clocks_may_differ_by_the_margin_and_by_no_more(margin, broken):
    settings = {"holders": "2", "clock_margin": margin, "tickets": "true"}
    found = explore(load("delegation", settings), budget=Budget(skew=1))
    violated = {p.name for p in found.properties if p.verdict == "violated"}
    kept = {"what_a_holder_has_is_kept_for_it", "what_was_handed_on_is_kept"}
    assert bool(violated & kept) is broken, violated
