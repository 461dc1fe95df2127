"""What remains of a claim about steps that write few cells says the same of them as the whole claim."""

from __future__ import annotations

import random

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.ground import cells_read
from leasehold.checker.explore.packed.branching import (
    NO,
    YES,
    Branch,
    Branches,
    branches_of,
    for_writes,
    step_predicate,
)
from leasehold.checker.explore.packed.fields import Fields
from leasehold.checker.explore.properties import PropertyClaims
from leasehold.checker.explore.step import Action
from leasehold.spec.language.expression import negation
from leasehold.spec.language.render.python_source import Frame
from tests.systems import load

SMALL = {"max_units": 1, "last_end": 2}
ACTIONS = (Action("local", "unit", 0, "repaired"), Action("clock", None, 0, "now 1"))


def _claims() -> tuple[list[Branches], Fields, list[tuple[object, ...]]]:
    system = load("lease", SMALL)
    world = reference_of(system, None)
    frame = Frame(world.layout, system.values(), before="o")
    claims = [branches_of(negation(claim.claim), frame) for claim in PropertyClaims(system, world).steps]
    claims += [branches_of(c.antecedent, frame) for c in PropertyClaims(system, world).steps if c.antecedent]
    return claims, Fields(world.layout), list(explore(system, engine="reference").paths.states)


def _value(claim: Branches, before: object, after: object, action: Action) -> bool:
    at = claim.start
    while at >= 0:
        branch = claim.branches[at]
        at = branch.yes if step_predicate(branch.text)(before, after, action) else branch.no
    return at == YES


def test_what_remains_has_the_value_of_the_claim() -> None:
    chance = random.Random(7)
    claims, fields, states = _claims()
    held = smaller = 0
    for claim in claims:
        assert claim.after is not None
        for _ in range(12):
            cells = frozenset(cell for cell in claim.after if chance.random() < 0.3)
            rest = for_writes(claim, claim.start, cells, fields.domain)
            smaller += len(rest.branches) < len(claim.branches)
            for _ in range(12):
                before, other = chance.sample(states, 2)
                after = tuple(other[c] if c in cells else v for c, v in enumerate(before))
                action = chance.choice(ACTIONS)
                value = _value(claim, before, after, action)
                held += value
                assert _value(rest, before, after, action) == value
    assert held > 100
    assert smaller > len(claims)


@pytest.mark.parametrize(
    ("words", "cells", "start"),
    [
        (["(o[0] != 'busy')", "(s[0] == 'busy')"], set(), NO),
        (["(o[0] != 'busy')", "(s[0] == 'busy')"], {0}, 1),
        (["(o[0] == 'idle')", "(s[0] not in ('busy', 'over'))"], set(), 0),
        (["(s[3] != o[3])"], set(), NO),
        (["(s[3] != o[3])"], {3}, 0),
        (["(o[3] >= s[3])"], set(), YES),
        (["(s[3] == 's[3]')", "(o[3] == 's[3]')"], set(), 0),
        (["(o[0] < 1)"], set(), 0),
    ],
)
def test_what_is_decided_is_left_out(words: list[str], cells: set[int], start: int) -> None:
    branches: list[Branch] = []
    for text in reversed(words):
        reads, after = cells_read(text, "os"), cells_read(text, "s")
        branches.append(Branch(text, len(branches) - 1 if branches else YES, NO, reads, after, took=False))
    claim = Branches(branches, len(branches) - 1)
    rest = for_writes(claim, claim.start, frozenset(cells), {0: ("idle", "busy", "over")}.get)
    assert rest.start == start
    assert len(rest.branches) == max(start + 1, 0)
