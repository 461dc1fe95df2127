"""Machines that nothing tells apart: by hand, and over states drawn freely, where each is looked at.

Of a variable whose machine is none of those that are named, the expression has the value that is said of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.others import OthersOf, OthersValue, others_of
from leasehold.spec.language.render.evaluate import Context, evaluate
from tests.spec.language.test_readings import EXAMPLES, Sight, World, states, texts, typed
from tests.spec.language.test_readings import world as world

INSIDE = Sight(own=True, step=False, variables=(("n", "unit"),))

# In a unit: `counts` has 0 for those without an entry, `levels` 2, `hues` red and `circles` the empty set.
KNOWN: Mapping[str, tuple[str, object, set[str]]] = {
    "a cell": ("counts[n]", 0, {"keys counts"}),
    "a cell of another first value": ("levels[n] > 1", True, {"keys levels"}),
    "an option": ("hues[n] == none", False, {"keys hues"}),
    "a set in a cell": ("slot[0] in circles[n]", False, {"keys circles"}),
    "a machine": ("n == self", False, {"one self"}),
    "another machine": ("friend != n", True, {"one friend"}),
    "itself": ("n == n", True, set()),
    "members": ("n in peers | {peer}", False, {"members peers | {peer}"}),
    "no members": ("n not in peers", True, {"members peers"}),
    "all members": ("n in unit", True, set()),
    "what decides": ("index(n) > 1 and counts[n] > 0 and flag", False, {"keys counts"}),
    "what decides otherwise": ("flag or n not in peers", True, {"members peers"}),
    "a branch": ("index(n) if n in peers else levels[n]", 2, {"members peers", "keys levels"}),
    "two branches": ("(counts[n] if flag else 0) + 1", 1, {"keys counts"}),
    "a choice of maps": ("(counts if n in peers else levels)[n]", 2, {"members peers", "keys levels"}),
    "nothing times anything": ("counts[n] * amount", 0, {"keys counts"}),
    "a map that is made": ("{m: levels[m] + 1 for m in unit}[n]", 3, {"keys levels"}),
    "a map that is changed": ("(levels | {peer: 7})[n]", 2, {"one peer", "keys levels"}),
    "members of a type": ("any(s in circles[n] for s in slot)", False, {"keys circles"}),
    "some members of a type": ("count(s not in circles[n] for s in slot if s == slot[1])", 1, {"keys circles"}),
    "the greatest": ("max(levels[n] for s in slot)", 2, {"keys levels"}),
    "among others": ("any(counts[n] > index(m) and counts[n] > 0 for m in peers)", False, {"keys counts"}),
    "the sum of nothing": ("sum(index(m) for m in peers if n == self)", 0, {"one self"}),
    "a constant": ("units + counts[n]", 3, {"keys counts"}),
}
UNKNOWN = {
    "a number": "index(n) > 1",
    "another machine's": "counts[peer] > 0",
    "one's own data": "flag",
    "what flag decides": "counts[n] > 0 or flag",
    "the machine of a variable": "any(m == n for m in peers)",
    "a cell of a variable's map": "any({k: index(k) for k in unit}[n] == index(m) for m in peers)",
    "different branches": "(counts if flag else levels)[n]",
    "how many": "count(counts[n] == 0 for m in peers)",
    "the least of some": "min((counts[n] for m in peers), default=0)",
}


def of(world: World, text: str) -> tuple[x.Expression, OthersOf]:
    fields = world.system.fields_of("unit", "poke")
    return _within(world, text), others_of(world.system, fields)


def _within(world: World, text: str) -> x.Expression:
    """The expression within a quantifier that binds `n`."""
    whole = typed(world, f"any(({text}) == ({text}) for n in unit)", Sight(own=True, step=False))
    assert isinstance(whole, x.Quantifier)
    assert isinstance(whole.body, x.Apply)
    return whole.body.operands[0]


@pytest.mark.parametrize("case", KNOWN)
def test_what_others_give_is_known(world: World, case: str) -> None:
    text, value, apart = KNOWN[case]
    e, others = of(world, text)
    found = others.of(e, "n")
    assert found is not None
    assert (found.value, {f"{kind} {x.text(part)}" for kind, part in found.apart}) == (value, apart)


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_others_give_is_not_known(world: World, case: str) -> None:
    e, others = of(world, UNKNOWN[case])
    assert others.of(e, "n") is None


QUANTIFIERS: Mapping[str, tuple[str, bool]] = {
    "a count": ("count(counts[n] > 0 for n in unit)", True),
    "a count of others": ("count(counts[n] == 0 for n in unit)", False),
    "a sum": ("sum(counts[n] for n in unit)", True),
    "a sum of others": ("sum(levels[n] for n in unit)", False),
    "a sum of some": ("sum(levels[n] for n in unit if n in peers)", True),
    "all": ("all(counts[n] == 0 for n in unit)", True),
    "all of none": ("all(counts[n] > 0 for n in unit)", False),
    "any": ("any(n == peer for n in unit)", True),
    "any of others": ("any(levels[n] == 2 for n in unit)", False),
    "a union": ("union(circles[n] for n in unit) == {}", True),
    "a union of names": ("union({n} for n in unit) == {}", False),
    "a subset": ("{n for n in unit if counts[n] > 0} == {}", True),
    "a subset of others": ("{n for n in unit if counts[n] == 0} == {}", False),
    "the least": ("min(counts[n] for n in unit)", False),
    "the least of some": ("min((counts[n] for n in unit if counts[n] > 0), default=9)", True),
    "the least of others": ("min((counts[n] for n in unit if counts[n] == 0), default=9)", False),
    "a map": ("{n: counts[n] + 1 for n in unit}[peer]", True),
    "a map by number": ("{n: index(n) for n in unit}[peer]", False),
}


@pytest.mark.parametrize("case", QUANTIFIERS)
def test_a_quantifier_over_all_looks_at_those_that_are_apart(world: World, case: str) -> None:
    text, known = QUANTIFIERS[case]
    e = typed(world, text, Sight(own=True, step=False))
    [quantifier] = [part for part in x.walk(e) if isinstance(part, x.Quantifier)]
    assert (others_of(world.system).who(quantifier) is not None) == known


def apart_of(found: OthersValue, others: OthersOf, c: Context) -> set[int]:
    """The machines that are apart in a state; those have entries whose cells differ from `rest`."""
    named: set[int] = set()
    for kind, part in found.apart:
        value = evaluate(part, c)
        match kind:
            case "keys":
                rest = others.of_map(part)
                assert rest is not None
                named |= {n for n, cell in enumerate(value) if cell != rest.value}
            case "members":
                named |= set(value)
            case _:
                named |= {value}
    return named


@settings(EXAMPLES, max_examples=150)
@given(data=st.data())
def test_others_give_what_is_said_of_them(world: World, data: st.DataObject) -> None:
    text = data.draw(texts(data.draw(st.sampled_from(("bool", "int"))), INSIDE))
    note(text)
    e, others = of(world, text)
    found = others.of(e, "n")
    if found is None:
        return
    state = data.draw(states(world))
    fields = {f.name: t.default(f.type) for f in world.system.fields_of("unit", "poke")}
    for own in range(3):
        c = Context(state, world.system.values(), self=own, arguments=fields)
        named = apart_of(found, others, c)
        for n in {0, 1, 2} - named:
            assert evaluate(e, replace(c, variables={"n": n})) == found.value, (n, found)
