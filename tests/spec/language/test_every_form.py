"""Every form of an expression, in each place where a reading has a case of its own: the readings agree on its value.

The expressions of test_readings.py are drawn; these are written, so that no form depends on chance. sql_forms.sql has
the SQL that no test here runs: `python tests/spec/language/test_every_form.py` rewrites it; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.checker.explore.ground import function, step_function
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.schema import Tables
from leasehold.checker.verify.sql.dialects import DIALECTS
from leasehold.checker.verify.sql.source import over_cuts, sql
from leasehold.checker.verify.sql.text import Listed, flat, lines
from leasehold.spec.language import expression as x
from leasehold.spec.language.conditions import folded, opposite
from leasehold.spec.language.render.evaluate import Context, evaluate
from leasehold.spec.language.render.python_source import Frame, source
from leasehold.spec.language.types import Bool
from tests.checker.verify.databases import Database, database
from tests.spec.language.test_readings import EXAMPLES, FILES, Sight, World, same, states, typed
from tests.spec.language.test_readings import world as world

FILE = Path(__file__).with_name("sql_forms.sql")
STEP = Sight(own=False, step=True)
SETS = (
    "hub.peers",
    "{unit[0], unit[hub.amount]}",
    "(hub.peers | unit[1].peers)",
    "(hub.peers & unit[1].peers)",
    "(unit - hub.peers)",
    "(hub.peers if hub.flag else {unit[0]})",
    "{u for u in unit if u.flag}",
    "{u for u in hub.peers if u.state == hot}",
    "{u for u in hub.peers}",
    "union(u.peers for u in unit)",
    "union(u.peers for u in hub.peers if u.flag)",
    "union(u.peers for u in unit if not u.flag and u.amount > 0)",
    "old(hub.peers)",
    "old(hub.peers | unit[0].peers)",
    "union(m.chosen for m in pending(tell))",
    "{u for u in unit if u in hub.peers and u.flag}",
    "unit",
    "{m: unit[index(m)].peers for m in slot}[hub.seat]",
    "get(none if hub.flag else hub.friend, unit[0]).peers",
)
ABOUT_SETS = (
    "unit[1] in {}",
    "unit[hub.amount] not in {}",
    "{} == {{}}",
    "{} != hub.peers",
    "{} <= unit[2].peers",
    "hub.peers < {}",
    "len({}) > 1",
    "all(u.flag for u in {})",
    "any(u.flag and u.amount > 0 for u in {} if u.tint == red)",
)
NUMBERS = (
    "hub.amount",
    "-hub.amount",
    "abs(hub.amount - 3)",
    "hub.amount * (hub.amount + 1) - hub.amount * 2",
    "hub.amount - (unit[0].amount - unit[1].amount)",
    "hub.amount // 2 * 2",
    "hub.amount // unit[0].amount",
    "hub.amount % unit[0].amount",
    "-7 // 2 + -7 % 2",
    "hub.amount % -2",
    "(hub.amount + 1) // -2",
    "min(hub.amount, unit[0].amount, 1)",
    "max(hub.amount, limit)",
    "units * limit",
    "sum(u.amount for u in unit)",
    "sum(u.amount for u in hub.peers if u.flag)",
    "sum(2 for u in hub.peers)",
    "sum(hub.amount for u in unit if u.flag)",
    "count(u.flag for u in unit)",
    "count(u.flag for u in unit if u.amount > 0)",
    "count(u.flag for u in hub.peers)",
    "min((u.amount for u in hub.peers), default=7)",
    "max(u.amount for u in unit)",
    "max((u.amount for u in unit if u.flag), default=hub.amount)",
    "min((hub.amount for u in hub.peers), default=-1)",
    "max((u.amount * 2 for u in {unit[0]}), default=-5)",
    "sum(m.amount for m in pending(ask))",
    "len(up)",
    "len(pending(beg)) + len(around)",
    "sum(1 for m in pending(ask) if m.amount > 0 and m.who in hub.peers)",
    "max((m.number for m in pending(down)), default=0)",
    "sum(m.number for m in pending(line))",
    "max((m.number + m.amount for m in pending(call) if m.sender == unit[1]), default=0)",
    "count(m.number > 1 for m in pending(line) if m.sender in hub.peers)",
    "hub.counts[unit[1]]",
    "hub.counts[unit[hub.amount]]",
    "sum(unit[0].counts[u] for u in hub.peers)",
    "get(hub.maybe, 4)",
    "get(none if hub.flag else hub.amount, -1)",
    "{u: u.amount for u in unit}[hub.peer]",
    "(hub.counts if hub.flag else unit[0].counts)[hub.peer]",
    "old(hub.counts[unit[1]]) + old(hub.amount)",
    "old({u: u.amount + hub.amount for u in unit})[hub.peer]",
    "index(hub.peer) - index(hub.seat)",
    "now - old(now)",
    "len({red, hub.tint})",
    "len(hub.tints | {blue})",
    "len({s for s in slot if s in hub.seats})",
    "(2 if hub.flag else 1) if unit[0].flag else (0 if hub.flag else 3)",
    "index(unit[hub.amount])",
    "index(slot[1])",
)
TRUTHS = (
    "hub.flag if unit[0].flag else unit[1].flag",
    "hub.flag or not hub.flag",
    "hub.flag and hub.tint == red and not hub.flag",
    "unit[units].flag",
    "all(u.flag if u.tint == red else u.amount > 0 for u in unit)",
    "hub.tint == hub.tint",
    "hub.flag or hub.flag",
    "hub.flag and true and hub.flag",
    "limit == -2 and hub.flag",
    "hub.flag or units != 3",
    "not true",
    "{} == {}",
    "{} != hub.peers",
    "len({}) > 0",
    "{} <= hub.peers",
    "({} if hub.flag else hub.peers) == hub.peers",
    "unit[0] in {}",
    "hub.flag and unit[0].flag and unit[1].flag",
    "hub.flag or unit[0].flag and not unit[1].flag",
    "not (hub.flag or unit[0].flag)",
    "hub.tint == red",
    "hub.tint != liked",
    "hub.tint in {red, green}",
    "hub.state == busy",
    "unit[2].state in {off, hot}",
    "unit[hub.amount].state != hot",
    "all(u.state == off for u in unit)",
    "hub.friend == none",
    "hub.friend != unit[1]",
    "hub.friend == unit[0].friend",
    "hub.maybe != unit[0].maybe",
    "hub.friend == hub.peer",
    "hub.marks[hub.tint]",
    "hub.marks == unit[0].marks",
    "hub.marks != {c: c == hub.tint for c in colour}",
    "hub.nested[hub.seat] == none",
    "hub.nested[slot[1]] == unit[2]",
    "hub.nested == unit[1].nested",
    "{u: u.flag for u in unit}[hub.peer]",
    "all(m.who == m.sender for m in pending(ask))",
    "any(m.latest for m in pending(tell))",
    "all(m.latest == (m.number == 2) for m in pending(tell) if m.receiver == unit[1])",
    "any(m.kind == ask for m in pending(up))",
    "any(m.kind != beg and m.sender in hub.peers for m in pending(up))",
    "all(m.tint != red for m in pending(beg))",
    "any(m.sender == u and m.amount == u.amount for m in pending(ask) for u in unit)",
    "any(m.receiver == m.sender for m in pending(around))",
    "all(m.number == 1 for m in pending(call))",
    "any(m.number < n.number for m in pending(call) for n in pending(line) if m.sender == n.sender)",
    "all(m == n or m.sender != n.sender for m in pending(call) for n in pending(call))",
    "any(m.receiver == hub[0] and m.kind == call and m.number == 2 for m in pending(line))",
    "old(all(m.number == 1 for m in pending(line)))",
    "all(any(a.flag for a in a.peers) or a.flag for a in unit)",
    "all(old(u.flag) or not u.flag for u in unit)",
    "old(all(u.flag for u in hub.peers)) == hub.flag",
    "old(old(hub.flag)) and hub.flag",
    "old(len(up)) <= len(up)",
    "old(hub.state) == hub.state",
    "old(hub.peers) <= hub.peers",
    "old(any(m.latest for m in pending(tell)))",
    "took(hub)",
    "took(unit)",
    "took(unit[2])",
    "took(unit.poke)",
    "took(unit[0].poke)",
    "took(hub.nudge)",
    "ignored(unit[2].tell)",
    "ignored(unit.tell)",
    "any(took(u.tell) for u in unit if u.flag)",
    "any(took(u) and u.flag for u in hub.peers)",
    "hub.until <= now",
    "hub.until + 1 < now",
    "now - hub.until >= 2",
    "1 < hub.amount <= 2",
    "hub.label == unit[0].label",
    "hub.until == unit[1].until",
    "hub.seat == slot[1]",
    "hub.peer in {unit[0], unit[2]}",
    "hub.tint in hub.tints",
    "hub.tint not in unit[0].tints",
    "hub.seats == {slot[0]}",
    "hub.tints <= {red, blue}",
    "hub.tints == colour",
    "all(c in hub.tints for c in colour if hub.marks[c])",
    "(hub.flag if unit[0].flag else unit[1].flag) == hub.flag",
    "all(a.peer == b or b.peer != a for a in unit for b in unit if a != b)",
    "limit < 0 and units == 3",
    "true",
    "false or hub.flag",
)
FORMS = {
    "sets": [about.replace("{}", s, 1).replace("{{}}", "{}") for s in SETS[:10] for about in ABOUT_SETS],
    "more sets": [about.replace("{}", s, 1).replace("{{}}", "{}") for s in SETS[10:] for about in ABOUT_SETS],
    "numbers": NUMBERS,
    "truths": TRUTHS,
}
BOUND = (
    "index(self)",
    "amount",
    "hub.amount",
    "unit[index(self) + 1].amount",
    "event.amount + amount",
    "len(event.peers | peers)",
    "count(u.amount > amount for u in event.peers)",
    "self in event.peers",
    "all(u == self or u.flag for u in unit)",
    "event.tint == tint",
    "marks[event.tint]",
    "counts[event.peer] + counts[self]",
    "event.until <= until",
    "state == off",
    "sum(u.amount for u in unit if u != self)",
    "any(m.who == self for m in pending(ask))",
    "event.flag != flag",
)
TAKEN = [("unit", 0, "poke"), ("unit", 2, "tell"), ("hub", 0, "nudge"), (None, -1, "tick")]


@pytest.fixture(scope="module")
def db(world: World) -> Iterator[Database]:
    with database("sqlite", world.system, world.layout) as made:
        yield made


@dataclass(frozen=True)
class Form:
    """An expression, and its readings."""

    meant: x.Expression
    folded: x.Expression
    read: list[Callable[..., Any]]
    query: str
    opposite: str

    @staticmethod
    def of(e: x.Expression, world: World, db: Database) -> Form:
        constants = world.system.values()
        frame = Frame(world.layout, constants, before="o")
        read = [step_function(source(e, replace(frame, unrolled=unrolled))) for unrolled in (True, False)]
        other = query_of(opposite(e), db) if isinstance(e.type, Bool) else ""
        return Form(e, folded(e, constants), read, query_of(e, db), other)


def query_of(e: x.Expression, db: Database) -> str:
    frame = over_cuts(db.tables)
    words = flat(sql(e, frame))
    frame.scope.query.of = f"({words})"
    return flat(frame.scope.query)


@pytest.fixture(scope="module")
def forms(world: World, db: Database) -> dict[str, dict[str, Form]]:
    return {kind: {t: Form.of(typed(world, t, STEP), world, db) for t in texts} for kind, texts in FORMS.items()}


@pytest.mark.parametrize("kind", FORMS)
@settings(EXAMPLES, max_examples=10, derandomize=True)
@given(data=st.data())
def test_the_readings_agree(
    world: World, db: Database, forms: dict[str, dict[str, Form]], kind: str, data: st.DataObject
) -> None:
    """In the same state after the same step: the definition, Python (unrolled or not), SQL, and what means the same."""
    before, after = data.draw(states(world)), data.draw(states(world))
    taken, ignored = data.draw(st.sampled_from(TAKEN)), data.draw(st.booleans())
    context = Context(after, world.system.values(), before=before, took=taken, ignored=ignored)
    action = Action("local", *taken, transition=cast(Any, None if ignored else SimpleNamespace(name="a transition")))
    run = db.recorder.begin(f"run {db.recorder.entry}", before.packed)
    db.recorder.step(run, after.packed, action)
    db.recorder.write(db.cursor)
    for text, form in forms[kind].items():
        expected = evaluate(form.meant, context)
        for read in form.read:
            assert same(read(before.packed, after.packed, action), expected), text
        found = asked(db, run, form.query)
        assert found is not None, text
        assert found == expected, text
        assert same(evaluate(form.folded, context), expected), text
        if form.opposite:
            assert asked(db, run, form.opposite) == (not expected), text


def asked(db: Database, run: int, query: str) -> Any:
    ((found,),) = db.ask(f"{query} WHERE cut.run = {run} AND cut.number = 1")
    return found


@settings(EXAMPLES, max_examples=8, derandomize=True)
@given(data=st.data())
def test_the_readings_of_a_machine_agree(world: World, data: st.DataObject) -> None:
    """Each machine of a role reads its own record, its event and the others."""
    sight = Sight(own=True, step=False)
    state, fields = data.draw(states(world)), world.system.fields_of("unit", "poke")
    given_ = (
        data.draw(st.integers(0, 2)),
        data.draw(st.integers(0, 3)),
        data.draw(st.booleans()),
        "green",
        data.draw(st.integers(0, 2)),
        data.draw(st.frozensets(st.integers(0, 2))),
    )
    arguments = {f.name: v for f, v in zip(fields, given_, strict=True)}
    for instance in range(3):
        context = Context(state, world.system.values(), instance, arguments)
        names = {f.name: f"e[{i}]" for i, f in enumerate(fields)}
        frame = Frame(world.layout, world.system.values(), instance, names, "b")
        for text in BOUND:
            e = typed(world, text, sight)
            for unrolled in (True, False):
                read = function(source(e, replace(frame, unrolled=unrolled)))
                assert same(read(state.packed, given_, 0), evaluate(e, context)), (text, instance)


def written(world: World) -> str:
    lines = []
    for name in ("postgresql", "mariadb"):  # SQLite is asked above
        tables = Tables(world.system, DIALECTS[name])
        for text in (*FORMS["sets"][: len(ABOUT_SETS)], *NUMBERS, *TRUTHS):
            frame = over_cuts(tables)
            frame.scope.query.where.append(sql(typed(world, text, STEP), frame))
            lines += [f"-- {name}: {text}", flat(frame.scope.query)]
    return "\n".join(lines) + "\n"


def test_the_sql_of_each_form_stands_here(world: World) -> None:
    assert written(world) == FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [20, 60, 100])
def test_a_query_in_lines_is_the_same_query(world: World, db: Database, width: int) -> None:
    """However narrow it is."""
    for text in (text for texts in FORMS.values() for text in texts):
        frame = over_cuts(db.tables)
        query = frame.scope.query
        query.where.append(sql(typed(world, text, STEP), frame))
        assert "".join("".join(query.lines(width)).split()) == "".join(flat(query).split()), text


def test_a_list_has_no_line_that_is_long() -> None:
    """Its items stand in their order."""
    for count in (1, 2, 3, 20, 100):
        items = tuple(f"'member {n}'" for n in range(count))
        found = lines(Listed(items), 60)
        assert "".join(found).replace(" ", "") == f"({','.join(items)})".replace(" ", "")
        assert max(map(len, found)) <= 60


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        (Path(folder) / "roles").mkdir()
        for name, text in FILES.items():
            (Path(folder) / name).write_text(text)
        FILE.write_text(written(World.read(Path(folder))), encoding="utf-8")
