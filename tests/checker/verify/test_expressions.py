"""SQL against evaluate.py, the definition: expressions drawn by type, over states drawn freely, as in test_readings.py.

What is asked of each: its value, that of its negation, and that neither is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from leasehold.checker.explore.step import Action
from leasehold.checker.verify.sql.source import over_cuts, sql
from leasehold.checker.verify.sql.text import flat
from leasehold.spec.language import expression as x
from leasehold.spec.language.conditions import folded, opposite
from leasehold.spec.language.render.evaluate import Context, evaluate
from tests.checker.verify.databases import KINDS, Database, database
from tests.spec.language.test_readings import APPLICATIONS, EXAMPLES, Sight, World, applied, states, texts, typed
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
    found = value(db, run, e)
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
STEPS = (
    "all(m.latest == (m.number == 2) for m in pending(tell)) and count(m.latest for m in pending(down)) < 7",
    "ignored(unit[2].tell) or not took(unit[2].tell)",
    "took(unit) == any(took(u) for u in unit) and (took(unit[2]) or not ignored(unit[2].tell))",
    "old(now) + 1 == now or old(len(pending(up))) == len(pending(up)) or old(old(hub.amount)) == hub.amount",
)


@pytest.mark.long
@pytest.mark.parametrize("text", [*SAME_NAMES, *OUTER_AGGREGATES, *DIVISIONS, *STEPS])
@settings(EXAMPLES, max_examples=6)
@given(data=st.data())
def test_what_is_seldom_drawn(db: Database, world: World, text: str, data: st.DataObject) -> None:
    asks(db, world, text, data)
