"""Claims that are asked together are each as if it were alone; and those that are left out are of no account."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.properties import DEADLOCK, REFINES, PropertyClaims, only_these
from leasehold.checker.explore.reference import Reference
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.checker.explore.every_kind import of_every_kind
from tests.systems import TESTS, load


def drawn(folder: Path, count: int) -> list[System]:
    found: list[System] = []
    for seed in range(100):
        system = of_every_kind(folder / str(seed), seed)
        if system is not None and 10 < explore(system, Limits(states=80), engine="reference").distinct < 80:
            found.append(system)
        if len(found) == count:
            return found
    raise AssertionError("few systems were drawn")


def names_of(system: System) -> list[str]:
    """The claims of a system that may be asked by themselves."""
    more = [*([REFINES] if system.refines is not None else []), *([DEADLOCK] if system.ends is not None else [])]
    return [*system.properties, *more]


@pytest.mark.parametrize(
    ("limits", "budget"), [(Limits(), None), (Limits(depth=3), None), (Limits(depth=3), Budget(crash=1))], ids=str
)
def test_a_claim_among_others_is_as_if_it_were_alone(limits: Limits, budget: Budget | None, tmp_path: Path) -> None:
    """Its verdict, its path and reason, and whether there is a case of it."""
    asked = partial(explore, limits=limits, budget=budget, engine="reference")
    kinds = set()
    for system in drawn(tmp_path, 1 if limits.depth is None else 2):
        together = asked(system)
        cases = set(together.vacuous)
        for name in names_of(system):
            alone = asked(only_these(system, [name]))
            assert alone.distinct == together.distinct
            assert [p.name for p in alone.properties] == [name]
            assert alone.properties == tuple(p for p in together.properties if p.name == name)
            own = {end.name for end in system.ends or ()} if name == DEADLOCK else {name}
            assert set(alone.vacuous) == cases & own
            kinds.add((alone.properties[0].kind, alone.properties[0].verdict))
    assert {verdict for _, verdict in kinds} >= {"violated", "bounded" if limits.depth else "exhausted"}


LEFT = [
    ([], [], False, False),
    (["always_0"], ["always_0"], False, False),
    ([REFINES], [], True, False),
    ([DEADLOCK], [], False, True),
    (["step_1", DEADLOCK, "nobody", REFINES], ["step_1"], True, True),
    (["step_1", "always_0"], ["always_0", "step_1"], False, False),
]


def test_what_is_left_when_only_some_are_asked(tmp_path: Path) -> None:
    (system,) = drawn(tmp_path, 1)
    for names, properties, refines, ends in LEFT:
        left = only_these(system, names)
        assert list(left.properties) == properties
        assert all(left.properties[name] is system.properties[name] for name in properties)
        assert (left.refines, left.ends) == (system.refines if refines else None, system.ends if ends else None)
        assert (left.roles, left.constraint) == (system.roles, system.constraint)


FAILING = TESTS / "checker/explore/systems/failing"


# By hand: each claim is asked of each state and step by itself.


def fed(claims: Any, found: Exploration, world: Reference) -> None:
    """Tells claims of all states and steps of an exploration without faults, in their order."""
    states = found.paths.states
    numbers = {s: n for n, s in enumerate(states)}
    told = 0
    for n, s in enumerate(states):
        while told < found.initial:
            claims.state(told, states[told])
            told += 1
        steps = list(world.successors(s))
        for action, after in steps:
            if numbers[after] == told:
                claims.state(told, after)
                told += 1
            claims.step(n, s, action, after)
        if not steps:
            claims.stuck(n, s)


def seen_by(claims: PropertyClaims) -> list[Any]:
    every = [*claims.invariants, *claims.witnesses, *claims.steps, *claims.graphical, *(claims.ends or ())]
    return [claims.deadlock, claims.violated, claims.vacuous(), *((c.of.name, c.seen, c.found) for c in every)]


def test_what_claims_have_seen_is_what_each_says_of_every_state_and_step(tmp_path: Path) -> None:
    """The first that breaks a claim, and whether there was a case; nothing of it once all is forgotten."""
    failing = load(FAILING)
    others = [only_these(failing, [name]) for name in ("stays", "late", "fine", DEADLOCK)]
    for system in (failing, *others, *drawn(tmp_path, 2)):
        world = reference_of(system)
        found = explore(system, engine="reference")
        claims, untold = PropertyClaims(system, world), seen_by(PropertyClaims(system, world))
        fed(claims, found, world)
        states = [(s, (), -1) for s in found.paths.states]
        steps = [(n, (s, after, a)) for n, s in enumerate(found.paths.states) for a, after in world.successors(s)]
        for claim in claims.invariants:
            broken = [n for n, at in enumerate(states) if claim.applies(at) and not claim.holds(*at)]
            assert claim.found == (broken[0] if broken else None)
            if claim.antecedent is not None:
                assert claim.seen == any(claim.applies(at) for at in states)
        for claim in claims.witnesses:
            assert claim.found == next((n for n, at in enumerate(states) if claim.holds(*at)), None)
        for claim in claims.graphical:
            assert claim.seen == any(claim.applies(at) for at in states)
        for claim in claims.steps:
            wrong = next(((n, at) for n, at in steps if claim.applies(at) and not claim.holds(*at)), None)
            assert claim.found == (None if wrong is None else (wrong[0], wrong[1][2], wrong[1][1]))
            if claim.antecedent is not None:
                assert claim.seen == any(claim.applies(at) for _, at in steps)
        stuck = [at for at in states if not list(world.successors(at[0]))]
        for end in claims.ends or ():
            assert end.seen == any(end.holds(*at) for at in stuck)
        bad = [n for n, at in enumerate(states) if at in stuck and not any(e.holds(*at) for e in claims.ends or ())]
        first = bad[0] if bad and claims.ends is not None else None
        assert claims.deadlock == first
        wrong_ones = [c.of.name for c in (*claims.invariants, *claims.steps) if c.found is not None]
        assert claims.violated == (*dict.fromkeys(wrong_ones), *([DEADLOCK] if first is not None else []))
        claims.forget()
        assert seen_by(claims) == untold


def test_what_is_said_of_two_that_fail() -> None:
    """Counted by hand: four ends, of which two are allowed; the nearest of the others is shown."""
    for engine in ("reference", "packed"):
        found = explore(load(FAILING), engine=engine)  # type: ignore[arg-type]
        verdicts = {p.name: p.verdict for p in found.properties}
        assert [n for n, verdict in verdicts.items() if verdict == "violated"] == [
            "late",
            "stays",
            "leads",
            DEADLOCK,
        ]
        assert found.vacuous == ("never", "unmet")
        (deadlock,) = [p for p in found.properties if p.name == DEADLOCK]
        assert deadlock.path is not None
        assert len(deadlock.path) == 3
        assert deadlock.doc == "Nothing stops but in an allowed end: low, high, unmet."


def test_claims_without_a_case_are_vacuous_unless_they_are_broken() -> None:
    """Those about fair runs need a case in any event, and so does an end."""
    claims = PropertyClaims(system := load(FAILING), reference_of(system))
    some = {c.of.name: c for c in (*claims.invariants, *claims.steps, *claims.graphical, *(claims.ends or ()))}
    assert claims.names == claims.vacuous() == tuple(some)
    for claim, seen, found in product(some.values(), (False, True), (None, 0)):
        claims.forget()
        claim.seen, claim.found = seen, found
        excused = found is not None and claim in [*claims.invariants, *claims.steps]
        assert (claim.of.name in claims.vacuous()) == (not seen and not excused)
        assert set(claims.vacuous()) | {claim.of.name} == set(some)
