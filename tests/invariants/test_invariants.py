"""That docs/invariants.md shows what is so: the stored mutants violate the properties, by the paths that are drawn."""

from __future__ import annotations

from functools import cache

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.properties import only_these
from leasehold.checker.mutation.battery import SystemLoader
from leasehold.checker.mutation.operators import Mutation, mutations, refused
from leasehold.spec import SHIPPED
from tests.invariants.page import ShippedSystem, page
from tests.invariants.search import Campaign, counterexample
from tests.invariants.stored import Counterexample, read, unviolated

QUICK = {"lease": 3, "contention": 1}  # counterexamples of a system that are asked each time; of others two


@cache
def loader(system: str) -> SystemLoader:
    return SystemLoader(system)


@cache
def mutants(system: str) -> dict[str, Mutation]:
    return {m.name: m for m in mutations(loader(system)())}


def again(system: str, name: str) -> Counterexample:
    """The counterexample of a property as it is now, asked alone; what else its mutant violates is not known."""
    stored = read(system).counterexamples[name]
    mutation, original = mutants(system)[stored.mutant], loader(system)(stored.trial.settings)
    mutant = only_these(mutation.applied(original), [name])
    found = explore(mutant, Limits(stop_at_violation=True), budget=stored.trial.budget)
    (result,) = [p for p in found.properties if p.name == name]
    p = ShippedSystem(system).properties[name]
    return Counterexample.of(original, mutation, stored.trial, p, result, stored.also)


def some(quick: bool) -> list[tuple[str, str]]:
    found = []
    for system in SHIPPED:
        names = sorted(read(system).counterexamples, key=lambda n: read(system).counterexamples[n].steps)
        few = QUICK.get(system, 2)
        step = max(1, len(names) // few)
        chosen = names[step // 2 :: step][:few]
        found += [(system, name) for name in names if (name in chosen) == quick]
    return found


@pytest.mark.parametrize(("system", "name"), some(quick=True))
def test_a_stored_mutant_violates_its_property_so(system: str, name: str) -> None:
    assert again(system, name) == read(system).counterexamples[name]


@pytest.mark.long
@pytest.mark.parametrize(("system", "name"), some(quick=False))
def test_each_stored_mutant_violates_its_property_so(system: str, name: str) -> None:
    assert again(system, name) == read(system).counterexamples[name]


@pytest.mark.slow
@pytest.mark.parametrize("system", SHIPPED)
def test_a_mutant_violates_what_is_said_and_nothing_else(system: str) -> None:
    campaign = Campaign(system)
    for name, stored in read(system).counterexamples.items():
        tried = campaign.judge(mutants(system)[stored.mutant], stored.trial)
        assert counterexample(campaign.system, tried, campaign.wanted[name]) == stored


@pytest.mark.parametrize("system", SHIPPED)
def test_every_property_has_a_counterexample_or_a_reason_why_not(system: str) -> None:
    wanted = {p.name for p in ShippedSystem(system).properties.values() if p.kind != "sometimes"}
    violated, not_violated = set(read(system).counterexamples), set(unviolated(system))
    assert violated | not_violated == wanted
    assert not violated & not_violated


@pytest.mark.parametrize("system", SHIPPED)
def test_a_stored_mutant_is_one_of_the_system(system: str) -> None:
    for stored in read(system).counterexamples.values():
        mutation = mutants(system)[stored.mutant]
        assert (mutation.what, mutation.place.line) == (stored.what, stored.line)


@pytest.mark.long
@pytest.mark.parametrize("system", SHIPPED)
def test_a_stored_mutant_is_a_specification(system: str) -> None:
    original = loader(system)()
    for stored in read(system).counterexamples.values():
        assert not refused(original, mutants(system)[stored.mutant].applied(original))


@pytest.mark.parametrize("system", SHIPPED)
def test_each_property_has_its_section(system: str) -> None:
    shipped = ShippedSystem(system)
    headings = {
        line.removeprefix("## ") for name in shipped.pages for line in page(shipped, name) if line.startswith("## ")
    }
    assert headings == set(shipped.properties)
