"""The tables: names that SQL takes, values that compare as they should, and one row of each machine at each cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.verify.queries import Queries
from leasehold.checker.verify.schema import FOREVER, Tables, content, encoded
from leasehold.checker.verify.sql.dialects import DIALECTS
from leasehold.faults.model import Budget
from leasehold.spec.language import types as t
from tests.checker.verify.databases import KINDS, database
from tests.systems import files_of, load, written

COLOUR = t.Enum("colour", ("red", "green"))
SLOT = t.Instance("slot", 3)


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (t.Set(COLOUR), frozenset({"green", "red"}), '["red","green"]'),
        (t.Set(SLOT), frozenset({2, 0}), "[0,2]"),
        (t.Map(COLOUR, t.BOOL), (True, False), '{"red":true,"green":false}'),
        (t.Map(SLOT, t.Option(SLOT)), (None, 1, 2), "[null,1,2]"),
        (t.Map(SLOT, t.Set(COLOUR)), (frozenset(), frozenset({"red"}), frozenset()), '[[],["red"],[]]'),
        (t.OPAQUE, {"b": 1, "a": ["é"]}, '{"a":["é"],"b":1}'),
        (t.Map(SLOT, t.OPAQUE), (0, "x", None), '["0","\\"x\\"","null"]'),
        (t.Option(t.Set(SLOT)), None, None),
        (t.Set(None), frozenset(), "[]"),  # `{}` on the left of a comparison
        (t.Option(t.INT), 3, 3),
    ],
)
def test_a_value_has_one_text(type_: t.Type, value: t.Value, expected: object) -> None:
    assert encoded(type_, value) == expected


def test_opaque_data_in_a_message_is_the_text_that_it_is_in_a_record() -> None:
    assert content({"a": (t.OPAQUE, [1, 2]), "n": (t.INT, 3)}) == '{"a":"[1,2]","n":3}'


NAMES = files_of("checker/verify/systems/names")


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_names_in_every_database(kind: str, tmp_path: Path) -> None:
    system = written(tmp_path, NAMES)
    world = reference_of(system, Budget.parse("crash=1"))
    with database(kind, system, world.layout) as db:
        state = world.initial_states()[0]
        run = db.recorder.begin("one", state)
        for _ in range(6):
            action, state = next((a, s) for a, s in world.successors(state) if not a.fault)
            db.recorder.step(run, state, action)
            db.write()
        query = Queries(db.tables).queries["names"]
        assert db.ask(query.since(-1)) == []
        assert db.ask(query.since(-1).replace("cut.entry > -1\n  AND ", "cut.entry > -1\n  AND NOT ", 1)) != []


@pytest.mark.parametrize("kind", KINDS)
def test_a_literal_is_its_value_in_every_database(kind: str, tmp_path: Path) -> None:
    system = written(tmp_path, NAMES)
    literals = [(t.INT, n) for n in (-7, -1, 0, 1, 7)] + [(t.BOOL, True), (t.BOOL, False), (SLOT, 2), (COLOUR, "red")]
    literals += [(t.Option(of), None) for of in (t.INT, t.BOOL, SLOT, COLOUR, t.OPAQUE, t.Set(SLOT), None)]
    literals += [(t.OPAQUE, word) for word in ("it's", "a\\b", 'a"b', "%s :a ?", "\n", "é")]
    with database(kind, system, reference_of(system, Budget()).layout) as db:
        for type_, value in literals:
            ((found,),) = db.ask(f"SELECT {db.tables.literal(type_, value)}")
            assert found == encoded(type_, value), (type_, value)
            if isinstance(value, int) and not isinstance(value, bool):
                ((less,),) = db.ask(f"SELECT -{db.tables.literal(type_, value)}")
                assert less == -value


def test_names_that_collide_are_the_same_as_ever(tmp_path: Path) -> None:
    """A database that was made by an earlier verification has them: roles come first, then channels and messages."""
    system = written(tmp_path, {name: text.replace("check:", "message_grant:") for name, text in NAMES.items()})
    tables = Tables(system, DIALECTS["sqlite"])
    names = {
        ("role", "user"): "user",
        ("role", "cut"): "cut_",
        ("channel", "message_grant"): "message_grant",
        ("channel", "run"): "run_",
        ("message", "grant"): "message_grant_",
        ("message", "revoke"): "message_revoke",
        ("type", "order"): "order",
        ("type", "group"): "group",
    }
    assert {at: tables.name(*at).strip('"') for at in names} == names  # type: ignore[arg-type]


def test_a_missing_record_is_found() -> None:
    system = load("two_phase_commit")
    world = reference_of(system, Budget.parse("crash=1"))
    with database("sqlite", system, world.layout) as db:
        db.recorder.begin("one", world.initial_states()[0])
        db.write()
        queries = dict(Queries(db.tables).incomplete())
        assert db.ask(queries["participant"].replace(":checked", "-1")) == []
        db.cursor.execute("DELETE FROM participant WHERE instance = 1")
        assert db.ask(queries["participant"].replace(":checked", "-1")) == [(1, 0)]


def test_what_lasts_is_one_row() -> None:
    system = load("two_phase_commit")
    world = reference_of(system, Budget.parse("crash=1"))
    with database("sqlite", system, world.layout) as db:
        state = world.initial_states()[0]
        run = db.recorder.begin("one", state)
        action, after = next(iter(world.successors(state)))
        db.recorder.step(run, after, action)
        db.recorder.step(run, after, action)
        db.write()
        db.recorder.step(run, state, action)
        db.write()
        rows = db.ask("SELECT since, until, state FROM coordinator ORDER BY since")
        changed = rows[0][1] != FOREVER
        assert rows == ([(0, 0, "idle"), (1, 2, "asking"), (3, FOREVER, "idle")] if changed else [(0, FOREVER, "idle")])


def test_tables_are_the_same_in_every_database() -> None:
    system = load("lease")
    names = [[table.name.strip('"`') for table in Tables(system, d).tables()] for d in DIALECTS.values()]
    assert names[0] == names[1] == names[2]


@pytest.mark.parametrize(
    ("of", "rest", "cells", "text"),
    [
        (t.Int(), 0, (0, 4, 0), '{"1":4}'),
        (t.Int(), 4, (0, 4, 0), '{"0":0,"2":0}'),
        (t.BOOL, False, (False, False, False), "{}"),
        (t.Option(t.Int()), 1, (None, 1, 2), '{"0":null,"2":2}'),
    ],
)
def test_a_map_over_a_dynamic_role_has_the_cells_that_differ(
    of: t.Type, rest: t.Value, cells: tuple[t.Value, ...], text: str
) -> None:
    kind = t.Map(t.Instance("node", 3, dynamic=True), of, rest)
    assert encoded(kind, cells) == text
