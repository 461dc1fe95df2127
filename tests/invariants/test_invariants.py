"""That docs/invariants.md shows what is so: the stored mutants violate the properties, by the paths that are drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.properties import only_these
from leasehold.checker.mutation.battery import SystemLoader
from leasehold.checker.mutation.operators import Mutation, mutations, refused
from leasehold.faults.model import Budget
from leasehold.spec import load
from leasehold.spec.language import expression as x
from leasehold.spec.language.model import Send
from tests.invariants.page import ShippedSystem, page
from tests.invariants.search import Campaign, applied, counterexample
from tests.invariants.stored import SEARCHED, Change, Counterexample, drawn, drawn_by_hand, read, unviolated
from tests.sampled import one_in

CRASH = Budget(crash=1)
QUICK = {"lease": 3, "contention": 1}  # counterexamples of a system that are asked each time; of others two


@cache
def loader(system: str) -> SystemLoader:
    return SystemLoader(system)


@cache
def mutants(system: str) -> dict[str, Mutation]:
    return {m.name: m for m in mutations(loader(system)())}


def changes_of(system: str, stored: Counterexample) -> tuple[Mutation, ...]:
    return tuple(mutants(system)[change.mutant] for change in stored.changes)


def again(system: str, name: str) -> Counterexample:
    """The counterexample of a property as it is now, asked alone; what else its mutant violates is not known."""
    stored = read(system).counterexamples[name]
    changes, original = changes_of(system, stored), loader(system)(stored.trial.settings)
    mutant = only_these(applied(changes, original), [name])
    limits = Limits(stop_at_violation=True, expected=frozenset(stored.also))  # types are judged whatever is asked
    found = explore(mutant, limits, budget=stored.trial.budget)
    (result,) = [p for p in found.properties if p.name == name]
    p = ShippedSystem(system).properties[name]
    return Counterexample.of(original, changes, stored.trial, p, result, stored.also)


def some(quick: bool) -> list[tuple[str, str]]:
    found = []
    for system in SEARCHED:
        names = sorted(read(system).counterexamples, key=lambda n: read(system).counterexamples[n].steps)
        few = QUICK.get(system, 2)
        step = max(1, len(names) // few)
        chosen = names[step // 2 :: step][:few]
        found += [(system, name) for name in names if (name in chosen) == quick]
    return found


@pytest.mark.parametrize(("system", "name"), some(quick=True))
def test_a_stored_mutant_violates_its_property_so(system: str, name: str) -> None:
    assert again(system, name) == read(system).counterexamples[name]


@pytest.mark.parametrize(
    ("system", "name"), one_in(3, some(quick=False), one=[pytest.mark.long], others=pytest.mark.slow)
)
def test_each_stored_mutant_violates_its_property_so(system: str, name: str) -> None:
    assert again(system, name) == read(system).counterexamples[name]


@pytest.mark.slow
@pytest.mark.parametrize("system", SEARCHED)
def test_a_mutant_violates_what_is_said_and_nothing_else(system: str) -> None:
    campaign = Campaign(system)
    for name, stored in read(system).counterexamples.items():
        tried = campaign.judge(changes_of(system, stored), stored.trial)
        assert counterexample(campaign.system, tried, campaign.wanted[name]) == stored


@pytest.mark.parametrize("system", SEARCHED)
def test_every_property_has_a_counterexample_or_a_reason_why_not(system: str) -> None:
    wanted = {p.name for p in ShippedSystem(system).properties.values() if p.kind != "sometimes"}
    violated, not_violated = set(read(system).counterexamples), set(unviolated(system))
    assert violated | not_violated == wanted
    assert not violated & not_violated


@pytest.mark.parametrize("system", SEARCHED)
def test_a_stored_mutant_is_one_of_the_system(system: str) -> None:
    for stored in read(system).counterexamples.values():
        assert stored.changes
        assert stored.changes == tuple(map(Change.of, changes_of(system, stored)))


@pytest.mark.long
@pytest.mark.parametrize("system", SEARCHED)
def test_a_stored_mutant_is_a_specification(system: str) -> None:
    original = loader(system)()
    for stored in read(system).counterexamples.values():
        assert not refused(original, applied(changes_of(system, stored), original))


@pytest.mark.parametrize("system", SEARCHED)
def test_each_property_has_its_section(system: str) -> None:
    shipped = ShippedSystem(system)
    headings = {
        line.removeprefix("## ") for name in shipped.pages for line in page(shipped, name) if line.startswith("## ")
    }
    assert headings == set(shipped.properties)


def test_a_number_is_given_twice_only_where_the_linter_refuses_it() -> None:
    """What a state has sent is another message after a step that stays there, and recovery sends it with the number."""
    lease = load("lease", {"losses": "true", "expiry": "false", "close_early": "false", "max_units": "1"})
    role = lease.roles["service_manager"]
    state, ask, confirm = role.states["extending_ticket"], role.tasks["ask_for_longer_ticket"], role.tasks["confirm"]
    assert isinstance(ask, Send)
    assert isinstance(confirm, Send)
    told = next(u for t in state.on["update_lease"] for u in t.updates if u.name == "rejoin")
    rejoin = x.Data(type=told.value.type, role=role.name, name=told.name)
    tasks = {
        **role.tasks,
        ask.name: replace(ask, when=x.negation(rejoin)),
        confirm.name: replace(confirm, when=rejoin),
    }
    states = {**role.states, state.name: replace(state, tasks=(*state.tasks, confirm.name))}
    wrong = replace(lease, roles={**lease.roles, role.name: replace(role, tasks=tasks, states=states)})
    assert refused(lease, wrong).startswith("LH410: ")
    found = explore(only_these(wrong, ["one_number_one_message"]), Limits(stop_at_violation=True), budget=CRASH)
    (result,) = [p for p in found.properties if p.name == "one_number_one_message"]
    assert (result.verdict, len(result.path or ())) == ("violated", 17)
    assert result.path is not None
    assert drawn(wrong, result.path) == drawn_by_hand("lease", "one_number_one_message")
