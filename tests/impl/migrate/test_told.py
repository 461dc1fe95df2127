"""The words of a migration: its summary, events and problems, and schemas as they are kept and compared."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from leasehold.impl.actor.chronicle import HEAD
from leasehold.impl.core.codec import RecordError, read_head
from leasehold.impl.events.chain import ChainVerifier, ChainWriter, Head
from leasehold.impl.events.event import FoundEvent, MigratedEvent, RecoveredEvent, read
from leasehold.impl.migrate.mapping import Mapper, Problem, UnmappableRecord, rules_for
from leasehold.impl.migrate.migration import MOST, MigrationError, Summary
from leasehold.impl.migrate.schema import SPECIFICATION, TICKS, VERSION, FieldSchema, RecordSchema, RoleSchema
from leasehold.impl.store.store import RecordKey
from leasehold.spec.language.migration_rules import Migration
from tests.impl.migrate.test_mapping import clerk, compiled, shop, till
from tests.impl.migrate.test_migration import disk, migrated, refused, renamed, some

PLAIN = RoleSchema(False, False, ("a", "b"), (FieldSchema("x", "int"), FieldSchema("y", "bool")), ("n",), ("t", "u"))


def schema(**changes: Any) -> RecordSchema:
    return RecordSchema(**{"system": "s", "digest": "ab" * 32, "constants": {"m": 2}, "roles": {}, **changes})


# The summary and the errors


def test_a_summary_as_plain_data_has_all_of_it_in_order() -> None:
    before, after = schema(), schema(digest="cd" * 32, constants={"m": 3, "n": True})
    summary = Summary(before, after, 4, False)
    assert summary.as_json() == {
        "system": "s",
        "from": {"digest": "ab" * 32, "constants": {"m": 2}},
        "to": {"digest": "cd" * 32, "constants": {"m": 3, "n": True}},
        "needed": False,
        "ruled": False,
        "dry_run": False,
        "epoch": 4,
        "records": {},
        "moved": [],
        "forgotten": {},
    }
    summary = Summary(
        None,
        after,
        5,
        True,
        Counter({"z": 1, "a": 2}),
        Counter({("z", "p", "q"): 3, ("a", "q", "r"): 4}),
        Counter({"y": 5, "b": 6}),
        True,
        True,
    )
    found = summary.as_json()
    assert json.dumps({name: found[name] for name in ("records", "moved", "forgotten")}) == json.dumps(
        {
            "records": {"a": 2, "z": 1},
            "moved": [
                {"role": "a", "from": "q", "to": "r", "records": 4},
                {"role": "z", "from": "p", "to": "q", "records": 3},
            ],
            "forgotten": {"b": 6, "y": 5},
        }
    )
    assert (found["from"], found["needed"], found["ruled"], found["dry_run"], found["epoch"]) == (None, *[True] * 3, 5)


@pytest.mark.parametrize(("field", "words"), [("", "l:1 unit[0]: odd"), ("sent", "l:1 unit[0], sent: odd")])
def test_a_problem_names_its_record_and_its_part(field: str, words: str) -> None:
    problem = Problem("l:1", "unit[0]", field, "odd")
    assert str(problem) == words
    assert str(UnmappableRecord([problem, Problem("l:2", "till", "", "no")])) == f"{words}; l:2 till: no"
    with pytest.raises(AttributeError):
        problem.field = "x"  # type: ignore[misc]
    error = MigrationError("words")
    assert (str(error), error.problems, error.total, MOST) == ("words", (), 0, 20)


# The events


@pytest.mark.parametrize("position", [0, 1, 5])
def test_the_events_of_a_migration_go_on_with_the_chain(position: int, tmp_path: Path) -> None:
    """One that tells of it, and each record as it is now; none where no chain has begun."""
    _, old = shop(tmp_path / "old", clerks=3)
    rules = f"migrations: [{{from: {old.digest[:12]}, roles: {{clerk: {{forget: [told]}}}}}}]"
    new = shop(tmp_path / "new", rules, clerks=2)
    rows = dict([clerk(old, 0), clerk(old, 1, "told"), clerk(old, 2, "told")])
    on = disk(rows, old)
    writer = ChainWriter("site", old.digest, 3)
    for at in range(position):
        body = writer.append(RecoveredEvent, 40 + at, 1.0, 7 + at, agreement="a", machines=3)
        on.events[at + 1] = body
    if position:
        on.metadata[HEAD] = bytes(writer.head)
    began = time.time()
    summary = migrated(on, new)
    assert summary.forgotten == {"clerk": 1}
    if not position:
        assert (on.events, HEAD in on.metadata) == ({}, False)
        return
    bodies = [*on.events.values()]
    verifier = ChainVerifier(None, "site")
    for body in bodies:
        verifier.take(body)
    head = Head.of(on.metadata[HEAD])
    verifier.end(head)
    told, *found = map(read, bodies[position:])
    assert head == (position + 3, verifier.digest, writer.head.commit, 0)
    assert isinstance(told, MigratedEvent)
    assert (told.source, told.records, told.forgotten) == (old.digest, 2, 1)
    for event in (told, *found):
        assert (event.actor, event.epoch, event.spec) == ("site", 4, new[1].digest)
        assert (event.now, event.commit) == (40 + position - 1, writer.head.commit)
        assert abs(event.time - began) < 60
        assert event.time == round(event.time, 3)
    records = {(event.lease, event.machine): event.record.state for event in found if isinstance(event, FoundEvent)}
    assert records == {("tenant:1", "clerk[0]"): "idle", ("tenant:1", "clerk[1]"): "told"}


def test_only_what_is_new_is_written_beside_the_records(tmp_path: Path) -> None:
    """The words of the actor stay, its ticks too; the schema is the new one."""
    _, old = shop(tmp_path / "old")
    new = renamed(tmp_path / "new", old)
    on = disk(some(old), old)
    on.metadata |= {TICKS: b"60", "other": b"1"}
    migrated(on, new)
    assert on.metadata == {"wish": b"kept", TICKS: b"60", "other": b"1", SPECIFICATION: RecordSchema.of(new[1]).write()}
    assert (on.epoch, on.actor) == (4, "site")


def test_a_record_that_is_given_up_needs_a_rule_for_its_own_state(tmp_path: Path) -> None:
    _, old = shop(tmp_path, clerks=3)
    for states, good in (("[told]", True), ("[idle]", False), ("[]", False)):
        rules = f"migrations: [{{from: {old.digest}, roles: {{clerk: {{forget: {states}}}}}}}]"
        (tmp_path / "migrations.yaml").write_text(rules)
        on = disk(dict([clerk(old, 2, "told")]), old)
        if good:
            assert migrated(on, compiled(tmp_path, clerks=2)).forgotten == {"clerk": 1}
            assert on.records == {}
        else:
            found = refused(on, compiled(tmp_path, clerks=2))
            assert "has 2 machines of `clerk`, and this one is told" in found.problems[0].what


# Rules


def test_rules_are_those_whose_source_begins_the_digest(tmp_path: Path) -> None:
    old = schema(digest="abcdef" + "0" * 58)
    makes = [Migration("abc"), Migration("abcdef"), Migration("b")]
    for rules, found in ((makes, makes[0]), (makes[1:], makes[1]), (makes[2:], Migration(old.digest)), ([], None)):
        system: Any = SimpleNamespace(migrations=tuple(rules))
        assert rules_for(system, old) == (Migration(old.digest) if found is None else found)


def test_a_row_is_of_the_machine_and_the_specification_that_it_says(tmp_path: Path) -> None:
    """Each part of a row that is another's is said with what it is."""
    new = shop(tmp_path)
    old = new[1]
    mapper = Mapper(RecordSchema.of(old), *new)
    key, row = till(old)
    body, peers, metadata = msgspec.msgpack.decode(row)
    assert mapper.map(key, row).key == key
    for at, given, words in (
        (RecordKey("tenant:1", "clerk[0]"), row, "it is no record of this machine"),
        (key, msgspec.msgpack.encode([body, peers[:1], metadata]), "it knows 1 peers, not 2"),
        (key, msgspec.msgpack.encode([body, [*peers, "c"], metadata]), "it knows 3 peers, not 2"),
        (key, msgspec.msgpack.encode([body, peers]), "the row is not whole: "),
        (key, row[:-1], "the row is not whole: "),
        (key, b"", "the row is not whole: "),
    ):
        with pytest.raises(UnmappableRecord) as caught:
            mapper.map(at, given)
        (problem,) = caught.value.problems
        assert (problem.lease, problem.machine, problem.field) == (*at, "")
        assert problem.what.startswith(words)


@pytest.mark.parametrize("had", [*product((False, True), repeat=3)])
def test_the_cell_of_a_machine_that_is_gone_may_be_given_up_while_it_is_as_at_first(
    had: tuple[bool, ...], tmp_path: Path
) -> None:
    """And the cell of a machine that is new begins so."""
    _, old = shop(tmp_path, clerks=3)
    row = till(old, had=had, sent=(7, 8, 9), received=(1, 2, 3))
    for clerks in (3, 2):
        mapper = Mapper(RecordSchema.of(old), *compiled(tmp_path, clerks=clerks))
        problems = [name for name, _ in mapper.roles["till"].problems(named(old, row))]
        assert problems == (["had"] if clerks == 2 and had[2] else [])
    wider = Mapper(RecordSchema.of(old), *compiled(tmp_path, clerks=4)).roles["till"]
    (field,) = [field for field in wider.core.fields if field.name == "had"]
    assert wider._value(field, named(old, row)) == [*had, False]


def named(program: Any, row: tuple[RecordKey, bytes]) -> dict[str, Any]:
    """The values of a till's row by name."""
    body, *_ = msgspec.msgpack.decode(row[1])
    found = RecordSchema.of(program).roles["till"].named(read_head(body)[2])
    assert found is not None
    return found


# Schemas


def test_what_a_role_s_schema_leaves_out_is_empty() -> None:
    bare = RoleSchema(True, True, (), (), ())
    assert (bare.since, bare.dynamic, bare.of_run, FieldSchema("x", "int").cells) == ((), (), False, ())
    assert (schema().version, VERSION) == (1, 1)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("subsidiary", [False, True])
def test_values_of_a_record_are_named_in_their_order(indexed: bool, subsidiary: bool) -> None:
    role = msgspec.structs.replace(PLAIN, indexed=indexed, subsidiary=subsidiary)
    names = [
        "state",
        *(["instance"] if indexed else []),
        "field x",
        "field y",
        *([] if subsidiary else ["sent", "received"]),
        "entry",
        "since t",
        "since u",
    ]
    named = role.named([*range(len(names))])
    assert named is not None
    assert [*named.items()] == [*zip(names, range(len(names)), strict=True)]
    for count in (0, len(names) - 1, len(names) + 1):
        assert role.named([0] * count) is None
    assert role.machine("r", {"instance": 7}) == ("r[7]" if indexed else "r")


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({}, "s abababababab"),
        ({"m": 2}, "s abababababab"),
        ({"m": 3}, "s abababababab with m=3"),
        ({"m": 2, "n": True}, "s abababababab with n=true"),
        ({"n": False, "m": 0}, "s abababababab with n=false, m=0"),
        ({"m": "a"}, "s abababababab with m=a"),
        ({"n": None}, "s abababababab with n=None"),
    ],
)
def test_a_schema_is_named_with_the_constants_that_differ(constants: dict[str, Any], words: str) -> None:
    assert schema(constants=constants).against(schema()) == words


@pytest.mark.parametrize(("version", "known"), [(0, True), (1, True), (2, False), (9, False)])
def test_a_schema_of_a_newer_version_is_not_read(version: int, known: bool) -> None:
    body = schema(version=version).write()
    if known:
        assert RecordSchema.read(body) == schema(version=version)
    else:
        with pytest.raises(RecordError, match=f"records are described in version {version}, and 1 is known"):
            RecordSchema.read(body)


def test_a_program_s_schema_is_that_of_each_role(tmp_path: Path) -> None:
    """Next to the compiled roles: states, fields with their cells, and neighbours by name."""
    _, program = shop(tmp_path)
    found = RecordSchema.of(program)
    assert (found.system, found.digest, found.constants) == ("shop", program.digest, {"clerks": 2, "most": 9})
    assert {*found.roles} == {"till", "clerk"}
    for name, role in found.roles.items():
        core = program.roles[name]
        assert (role.indexed, role.subsidiary, role.of_run) == (core.indexed, core.subsidiary, core.of_run)
        assert (role.states, role.since, role.dynamic) == (core.states, tuple(core.since), core.dynamic_neighbours)
        assert [field.name for field in role.fields] == [field.name for field in core.fields]
    till_, clerk_ = found.roles["till"], found.roles["clerk"]
    assert (till_.neighbours, clerk_.neighbours) == (("clerk[0]", "clerk[1]"), ("till",))
    assert [(field.type, field.cells) for field in till_.fields] == [
        ("map[colour {red, green}, int]", ("red", "green")),
        ("map[clerk 0..1, bool]", ("0", "1")),
        ("option[colour {red, green}]", ()),
        ("int 0..9", ()),
    ]
