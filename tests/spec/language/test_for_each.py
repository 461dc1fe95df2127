"""`always` and `step` of each value of variables: one claim with a quantifier, of which any binding has a case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import SpecError
from leasehold.spec.language.for_each import quantified
from leasehold.spec.language.types import BOOL, INT, Int
from tests.systems import load, load_for_run


def test_a_case_of_one_binding_is_a_case_of_the_property() -> None:
    """Else a property that fails for one value alone would be asked only where all have a case."""
    some = next(p for p in load("two_phase_commit").properties.values() if p.kind == "always")

    def number(value: int) -> x.Expression:
        return x.Literal_(type=INT, value=value, place=some.claim.place)

    def is_(value: int) -> x.Expression:
        n = x.BoundVariable(type=INT, name="n", place=some.claim.place)
        return x.Apply(type=BOOL, op="==", operands=(n, number(value)), place=some.claim.place)

    found = quantified(replace(some, variables={"n": Int(0, 1)}, claim=is_(7), when=is_(1)))
    assert found.when is not None
    assert x.text(found.when) == "0 == 1 or 1 == 1"
    assert x.text(found.claim) == "(not 0 == 1 or 0 == 7) and (not 1 == 1 or 1 == 7)"
    assert not found.variables


@pytest.mark.long
def test_a_limit_of_checkers_stops_no_run() -> None:
    """A site may have more units than a claim can be decided of, one by one or written out."""
    for units, words in ((1001, "is claimed 1,001 times"), (4000, "the expression has 468,000 parts")):
        with pytest.raises(SpecError, match=words):
            load("lease", {"max_units": units})
        system = load_for_run("lease", {"max_units": units})
        assert system.roles["unit"].count == units
        assert system.properties.keys() == load("lease").properties.keys()
        assert system.digest == load("lease").digest
