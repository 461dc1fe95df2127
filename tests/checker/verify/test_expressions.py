"""SQL against evaluate.py, the definition: expressions drawn by type, over states drawn freely, as in test_readings.py.

What is asked of each: its value, that of its negation, and that neither is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from leasehold.checker.explore.step import Action
from leasehold.checker.verify.sql.frame import NotAsked
from leasehold.checker.verify.sql.source import over_cuts, sql
from leasehold.checker.verify.sql.text import flat
from leasehold.spec.language import expression as x
from leasehold.spec.language.conditions import folded, opposite
from leasehold.spec.language.render.evaluate import Context, evaluate
from tests.checker.verify.databases import KINDS, Database, database
from tests.sampled import one_in
from tests.spec.language.test_readings import (
    APPLICATIONS,
    EXAMPLES,
    FIELDS,
    Sight,
    World,
    applied,
    states,
    texts,
    typed,
)
from tests.spec.language.test_readings import KINDS as TYPES
from tests.spec.language.test_readings import world as world

STEP = Sight(own=False, step=True)
SCALARS = [kind for kind in TYPES if not kind.startswith(("set", "seq"))]
TAKEN = [("unit", 0, "poke"), ("unit", 2, "tell"), ("hub", 0, "nudge"), (None, -1, "tick")]


@pytest.fixture(scope="module", params=KINDS)
def db(request: pytest.FixtureRequest, world: World) -> Iterator[Database]:
    with database(request.param, world.system, world.layout) as made:
        yield made


def value(db: Database, run: int, e: x.Expression) -> Any:
    """The value of an expression at the second cut of a run."""
    frame = over_cuts(db.tables)
    words = flat(sql(e, frame))
    query = frame.scope.query
    query.of = f"({words}), 1"
    note("\n".join(query.lines(100)))
    ((found, _),) = db.ask("\n".join(query.lines(100)) + f"\nWHERE cut.run = {run} AND cut.number = 1")
    return found


PARTS = [name for kind, names in FIELDS.items() if kind.count("[") > 1 for name in names]


def asks(db: Database, world: World, text: str, data: st.DataObject) -> None:
    note(text)
    e = typed(world, text, STEP)
    before, after = data.draw(states(world)), data.draw(states(world))
    taken, ignored = data.draw(st.sampled_from(TAKEN)), data.draw(st.booleans())
    context = Context(after, world.system.values(), before=before, took=taken, ignored=ignored)
    expected = evaluate(e, context)
    transition: Any = None if ignored else SimpleNamespace(name="a transition")
    run = db.recorder.begin(f"run {db.recorder.entry}", before.packed)
    db.recorder.step(run, after.packed, Action("local", *taken, transition=transition))
    db.recorder.write(db.cursor)
    try:
        found = value(db, run, e)
    except NotAsked:
        assume(not any(part in text for part in PARTS))  # sets, maps and sequences within others are not made
        raise
    assert found is not None
    assert found == expected, (found, expected)
    if isinstance(expected, bool):
        assert value(db, run, opposite(e)) == (not expected)
        assert value(db, run, folded(e, world.system.values())) == expected


@pytest.mark.long
@settings(EXAMPLES, max_examples=80)
@given(data=st.data())
def test_a_condition_reads_what_the_definition_says(db: Database, world: World, data: st.DataObject) -> None:
    asks(db, world, data.draw(texts("bool", STEP)), data)


@pytest.mark.long
@settings(EXAMPLES, max_examples=30)
@given(data=st.data())
def test_a_value_is_what_the_definition_says(db: Database, world: World, data: st.DataObject) -> None:
    asks(db, world, data.draw(texts(data.draw(st.sampled_from(SCALARS)), STEP)), data)


@pytest.mark.parametrize("op", APPLICATIONS)
@pytest.mark.parametrize("db", ["sqlite"], indirect=True)
@settings(EXAMPLES, max_examples=6)
@given(data=st.data())
def test_every_operator_is_read(db: Database, world: World, op: str, data: st.DataObject) -> None:
    kinds = [kind for kind in APPLICATIONS[op] if kind in SCALARS]
    if kinds:
        asks(db, world, data.draw(applied(op, data.draw(st.sampled_from(kinds)), STEP, 1)), data)
    elif "seq[unit]" in APPLICATIONS[op]:  # what makes a sequence is asked what is in it
        made = data.draw(applied(op, "seq[unit]", STEP, 1))
        asks(db, world, f"(unit[1] in ({made})) == any(u == unit[1] for u in ({made}))", data)
    elif "option[unit]" in APPLICATIONS[op]:
        asks(db, world, f"get({data.draw(applied(op, 'option[unit]', STEP, 1))}, unit[0]) == unit[1]", data)
    else:  # what makes a set is asked for a member
        made = data.draw(applied(op, "set[unit]", STEP, 1))
        asks(db, world, f"(unit[1] in ({made})) == (len({made}) == 1)", data)


SAME_NAMES = (
    "all(any(a.flag for a in a.peers) or a.flag for a in unit)",
    "any(all(a.flag for a in a.peers if a in hub.peers) == a.flag for a in unit)",
    "hub.peers == {a for a in unit if ({b for b in unit if b.flag} - {a}) == {}}",
    "count(len(a.peers | hub.peers) > 1 and old(a.flag) for a in unit) == count(old(a.flag) for a in hub.peers)",
    "all(({m: 1 for m in unit} | {m: 2 for m in a.peers})[a] == a.amount for a in unit)",
)


OUTER_AGGREGATES = (  # of nothing that the subquery itself reads
    "sum(hub.amount for a in unit) == 3 * hub.amount",
    "max(hub.amount for a in unit) + min((hub.amount for a in hub.peers), default=9) >= 2 * hub.amount",
    "all(sum(a.amount for b in unit if b.flag) == a.amount * count(b.flag for b in unit) for a in unit)",
    "sum(2 for m in pending(up)) == 2 * len(up)",
    "max((7 for m in pending(ask)), default=1) == (1 if len(pending(ask)) == 0 else 7)",
)
DIVISIONS = (
    "hub.amount // 2 * 2 + hub.amount % 2 == hub.amount",
    "hub.amount // unit[0].amount * unit[0].amount + hub.amount % unit[0].amount"
    " == (0 if unit[0].amount == 0 else hub.amount)",
    "unit[hub.amount].flag == any(a.flag for a in unit if index(a) == hub.amount % 3)",
    "(hub.maybe == none) == (get(hub.maybe, 8) == 8) and (hub.maybe != 1 or get(hub.maybe, 0) == 1)",
)
NESTED = (
    "hub.hues[unit[1]] == none",
    "all((hub.hues[a] == none) == (get(hub.hues[a], blue) == blue and hub.hues[a] != blue) for a in unit)",
    "count(hub.levels[a] == 2 for a in unit) == sum(1 for a in unit if hub.levels[a] == 2)",
    "hub.levels == hub.counts",
    "old(hub.levels)[unit[0]] == hub.counts[unit[0]]",
    "all(slot[0] in hub.circles[a] or hub.circles[a] <= {slot[1]} for a in unit)",
    "hub.shares[slot[1]] == none",
    "get(hub.shares[slot[0]], {slot[1]}) == hub.seats",
    "all(hub.shares[s] == none or slot[0] in get(hub.shares[s], {}) for s in slot)",
    "hub.shares[slot[0]] == unit[0].palette",
    "hub.shares == unit[0].shares",
    "{slot[0]} in hub.piles",
    "hub.piles == unit[0].piles",
    "hub.piles == [{slot[0]}, {slot[1]}]",
    "hub.piles == [{slot[0]}] + unit[1].piles",
    "append(hub.piles, {slot[1]}) == unit[0].piles",
    "slot[0] in get(first(hub.piles), {})",
    "get(last(hub.piles), {slot[1]}) == unit[0].seats",
    "starts_with(hub.piles, unit[0].piles)",
    "all(slot[0] in p for p in hub.piles)",
    "all(p == hub.seats for p in hub.piles)",
    "hub.queues[slot[0]] == [red]",
    "hub.queues[slot[0]] == hub.stack",
    "hub.queues == unit[0].queues",
    "red in hub.queues[slot[1]]",
    "first(hub.queues[slot[1]]) == red",
    "len(hub.queues[slot[1]]) == 1",
    "hub.palette == hub.seats",
    "hub.palette == {slot[0]}",
    "get(hub.palette, {}) == hub.seats",
    "slot[0] in get(hub.palette, slot)",
    "hub.palette == unit[0].palette",
    "hub.palette == none",
    "hub.plan == [slot[0]]",
    "hub.plan == unit[0].plan",
    "get(hub.plan, []) == [slot[1]]",
    "len(get(hub.plan, [])) == 1",
    "slot[0] in get(hub.plan, [slot[1]])",
    "hub.views[slot[0]][red]",
    "hub.views[slot[0]] == unit[0].views[slot[1]]",
    "hub.views == unit[0].views",
    "hub.views[slot[0]] == {red: true, green: false, blue: true}",
    "hub.seats in hub.piles",
    "hub.plan != [hub.seat]",
    "hub.plan == [hub.seat]",
    "[hub.seats] == hub.piles",
    "hub.piles == rest(unit[0].piles)",
    "({slot[0]} in hub.piles) == any(p == {slot[0]} for p in hub.piles)",
)
MESSAGES = (
    "all(m == n or m.amount != n.amount for m in pending(call) for n in pending(call))",
    "all(m.number == n.number or m.sender != n.sender or m != n for m in pending(tell) for n in pending(tell))",
    "any(m != n for m in pending(up) for n in pending(up) if m.kind == n.kind)",
)
STEPS = (
    "all(m.latest == (m.number == 2) for m in pending(tell)) and count(m.latest for m in pending(down)) < 7",
    "ignored(unit[2].tell) or not took(unit[2].tell)",
    "took(unit) == any(took(u) for u in unit) and (took(unit[2]) or not ignored(unit[2].tell))",
    "old(now) + 1 == now or old(len(pending(up))) == len(pending(up)) or old(old(hub.amount)) == hub.amount",
)


SELDOM_DRAWN = [*SAME_NAMES, *OUTER_AGGREGATES, *DIVISIONS, *NESTED, *MESSAGES, *STEPS]


@pytest.mark.parametrize("text", one_in(4, SELDOM_DRAWN, one=[pytest.mark.long], others=pytest.mark.slow))
@settings(EXAMPLES, max_examples=6)
@given(data=st.data())
def test_what_is_seldom_drawn(db: Database, world: World, text: str, data: st.DataObject) -> None:
    asks(db, world, text, data)
