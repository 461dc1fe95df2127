"""One record to another: what is carried over, under whatever rules, for records that no run would show."""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.impl.actor.chronicle import RowCodec
from leasehold.impl.actor.session import SESSIONS, neighbours, queued
from leasehold.impl.actor.table import BELOW, DRIVERS, DynamicPeers, MachineInstance
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.stepping import Numbers
from leasehold.impl.core.values import bounds
from leasehold.impl.core.work import local
from leasehold.impl.migrate.mapping import Mapped, Mapper, UnmappableRecord
from leasehold.impl.migrate.schema import RecordSchema
from leasehold.impl.store.store import RecordKey
from leasehold.spec import System, shipped_folder
from leasehold.spec.language import types as t
from tests.impl.actor.test_outlive import KEEPER
from tests.systems import edited, files_of, load, write

LARGE = 10**6


def compiled(folder: str | Path, **constants: int) -> tuple[System, Program]:
    system = load(folder, constants)
    return system, compile_system(system)


def values(kind: t.Type, least: int = 0) -> st.SearchStrategy[Any]:
    """Values of a type."""
    match kind:
        case t.Bool():
            return st.booleans()
        case t.Int() | t.Time() | t.Instance():
            low, high = bounds(kind)
            return st.integers(least if low is None else low, LARGE if high is None else high)
        case t.Enum(members=members):
            return st.sampled_from(members)
        case t.Opaque():
            whole = st.integers(-(2**63) + 1, 2**63 - 1)  # what a record can hold
            return st.one_of(st.none(), whole, st.text(), st.lists(st.text(), max_size=2))
        case t.Set(of=of) if of is not None:
            return st.frozensets(st.sampled_from(t.members(of)))
        case t.Map(key=key, of=of):
            return st.tuples(*(values(of) for _ in t.members(key)))
        case t.Option(of=of) if of is not None:
            return st.none() | values(of)
    raise AssertionError(kind)


@st.composite
def held(draw: st.DrawFn, program: Program, core: Core, count: int) -> MachineInstance:
    """Any machine of a role, whatever its record says."""
    numbers = st.integers(0, LARGE)
    instance = draw(st.integers(0, count - 1)) if core.indexed else 0
    own = (instance,) if core.indexed else ()
    rest: tuple[Any, ...] = ()
    if not core.subsidiary:
        rest = tuple(draw(st.tuples(*(numbers for _ in core.neighbours))) for _ in ("sent", "received"))
    data = tuple(draw(values(f.type)) for f in core.fields)
    since = tuple(draw(numbers) for _ in core.since)
    record = (draw(st.sampled_from(core.states)), *own, *data, *rest, draw(numbers), *since)
    lease = BELOW if core.of_actor else f"tenant:{draw(st.integers(1, LARGE))}"
    peers = [draw(st.text(max_size=9)) for _ in core.neighbours]
    papers = draw(st.dictionaries(st.text(max_size=5), st.integers(0, 9) | st.text(max_size=9), max_size=3))
    return MachineInstance(RecordKey(lease, core.machine(instance)), core, record, peers, papers)


SMALL_SYSTEM, SMALL = compiled("lease", max_units=2)
LARGE_SYSTEM, MORE = compiled("lease", max_units=20)


BELOW_OF: dict[str, Any] = {name: None for name, core in MORE.roles.items() if core.subsidiary}  # of no interest here


def enlarged(before: MachineInstance) -> MachineInstance:
    """A machine of the small system in the large one: the cells of the machines that are new there are as at first."""
    core, record = MORE.roles[before.core.role], list(before.record)
    for at, field in enumerate(core.fields, core.data_at):
        if isinstance(field.type, t.Map):
            record[at] += field.initial[len(record[at]) :]  # type: ignore[index]
    return MachineInstance(before.key, core, tuple(record), before.peers, before.metadata)


@pytest.mark.long
@settings(max_examples=200)
@given(st.data())
def test_another_constant_keeps_every_value(data: st.DataObject) -> None:
    """There, and back again, for every role of the lease."""
    role = data.draw(st.sampled_from(sorted(SMALL.roles)))
    before = data.draw(held(SMALL, SMALL.roles[role], SMALL_SYSTEM.roles[role].count))
    row = RowCodec(SMALL).write(before)
    there = Mapper(RecordSchema.of(SMALL), LARGE_SYSTEM, MORE).map(before.key, row)
    assert there.key == before.key
    after, wanted = RowCodec(MORE).read(before.key, there.row, BELOW_OF), enlarged(before)
    assert after.record[: after.core.below_at] == wanted.record
    assert (after.peers, after.metadata) == (before.peers, before.metadata)
    back = Mapper(RecordSchema.of(MORE), SMALL_SYSTEM, SMALL).map(before.key, there.row)
    assert back == Mapped(before.key, row, role, before.state, before.state)


def beyond(draw: st.DrawFn, machine: MachineInstance) -> tuple[MachineInstance, str]:
    """A machine of the large system with one thing that the small one has no place for, and the name of its place."""
    core, record = machine.core, list(machine.record)
    number = draw(st.integers(2, 19))
    places = [(at, f) for at, f in enumerate(core.fields, core.data_at) if isinstance(f.type, t.Set | t.Map)]
    at, field = draw(st.sampled_from([*([(1, None)] if core.indexed else []), *places]))
    key = machine.key
    if field is None:
        record[at], key = number, RecordKey(key.lease, core.machine(number))
    elif isinstance(field.type, t.Set):
        record[at] |= {number}
    else:
        assert isinstance(field.type, t.Map)
        first = field.initial[number]  # type: ignore[index]
        cell = draw(values(field.type.of).filter(lambda value: value != first))
        record[at] = (*record[at][:number], cell, *record[at][number + 1 :])
    return MachineInstance(key, core, tuple(record), machine.peers, machine.metadata), field.name if field else ""


@pytest.mark.long
@settings(max_examples=200)
@given(st.data())
def test_a_smaller_constant_takes_nothing_that_it_has_no_place_for(data: st.DataObject) -> None:
    """A machine, a member of a set or the cell of a map; it is named, and nothing else is."""
    role = data.draw(st.sampled_from(["authority", "guest", "service_manager", "unit"]))
    small = data.draw(held(SMALL, SMALL.roles[role], SMALL_SYSTEM.roles[role].count))
    before, place = beyond(data.draw, enlarged(small))
    with pytest.raises(UnmappableRecord) as error:
        Mapper(RecordSchema.of(MORE), SMALL_SYSTEM, SMALL).map(before.key, RowCodec(MORE).write(before))
    assert [(problem.machine, problem.field) for problem in error.value.problems] == [(before.key.machine, place)]


# A small system of everything that the lease does not have

SHOP = files_of("impl/migrate/systems/shop")


def shop(folder: Path, rules: str = "", *changes: tuple[str, str], **constants: int) -> tuple[System, Program]:
    for name, text in SHOP.items():
        for old, new in changes:
            name, text = name.replace(old, new), text.replace(old, new)
        write(folder, {name: text})
    if rules:
        (folder / "migrations.yaml").write_text(rules)
    return compiled(folder, **constants)


def till(program: Program, role: str = "till", **changed: Any) -> tuple[RecordKey, bytes]:
    """The row of a till in the midst of its work."""
    core = program.roles[role]
    known = dict(zip(core.names, core.first(), strict=True))
    known |= {"state": "waiting", "stock": (3, 4), "wanted": "green", "sold": 5, "sent": (7, 8), "received": (1, 2)}
    known |= {"entry": 11, **changed}
    machine = MachineInstance(
        RecordKey("tenant:1", role), core, tuple(known[name] for name in core.names), ["anna", "bert"], {"over": 3}
    )
    return machine.key, RowCodec(program).write(machine)


def mapped(old: Program, new: tuple[System, Program], row: tuple[RecordKey, bytes]) -> MachineInstance:
    found = Mapper(RecordSchema.of(old), *new).map(*row)
    assert found.key is not None
    return RowCodec(new[1]).read(found.key, found.row, {})


def misfits(old: Program, new: tuple[System, Program], row: tuple[RecordKey, bytes]) -> str:
    with pytest.raises(UnmappableRecord) as error:
        Mapper(RecordSchema.of(old), *new).map(*row)
    return str(error.value)


def test_a_layout_is_what_it_was_when_it_is_read_again(tmp_path: Path) -> None:
    layout = RecordSchema.of(shop(tmp_path)[1])
    assert RecordSchema.read(layout.write()) == layout
    plain = json.loads(layout.write())["roles"]
    assert plain["till"]["neighbours"] == ["clerk[0]", "clerk[1]"]
    assert plain["till"]["fields"][0] == {
        "name": "stock",
        "type": "map[colour {red, green}, int]",
        "cells": ["red", "green"],
    }


def test_a_map_follows_its_keys_and_not_their_order(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    new = shop(tmp_path / "new", "", ("[red, green]", "[green, red]"))
    after = mapped(old, new, till(old))
    assert after.core.view(after.record)["stock"] == (4, 3)
    assert after.core.view(after.record)["wanted"] == "green"


def test_new_cells_of_a_map_need_a_value(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    more = ("[red, green]", "[red, blue, green]")
    said = misfits(old, shop(tmp_path / "new", "", more), till(old))
    assert "tenant:1 till, stock: the cells blue are new; write `{from: stock, cells: VALUE}`" in said
    rules = f"migrations: [{{from: {old.digest}, roles: {{till: {{fields: {{stock: {{from: stock, cells: 6}}}}}}}}}}]"
    after = mapped(old, shop(tmp_path / "ruled", rules, more), till(old))
    assert after.core.view(after.record)["stock"] == (3, 6, 4)


def test_a_map_of_another_number_of_cells_is_refused(tmp_path: Path) -> None:
    """A record was damaged: no cell of it is taken for another, and none begins anew."""
    _, old = shop(tmp_path / "old")
    rules = f"migrations: [{{from: {old.digest}, roles: {{till: {{fields: {{stock: {{from: stock, cells: 6}}}}}}}}}}]"
    new = shop(tmp_path / "new", rules, ("[red, green]", "[red, blue, green]"))
    key, row = till(old)
    for cells in [3], [3, 4, 5]:
        said = misfits(old, new, (key, altered(row, old.roles["till"].names.index("stock"), cells)))
        assert said == f"tenant:1 till, stock: it has {len(cells)} cells, not 2"


def test_cells_that_are_gone_are_not_forgotten_in_silence(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old", "", ("[red, green]", "[red, blue, green]"))
    said = misfits(old, shop(tmp_path / "new"), till(old, stock=(3, 6, 4)))
    assert "stock: the cells blue of the old map are gone; give it a `value`" in said


def test_a_neighbour_that_is_new_or_gone_is_refused(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    said = misfits(old, compiled(tmp_path / "old", clerks=3), till(old))
    assert "sent: `clerk[2]` is a new neighbour, which the record knows nothing of; end the lease first" in said
    said = misfits(old, compiled(tmp_path / "old", clerks=1), till(old))
    assert "sent: `clerk[1]` is no neighbour any more; end the lease first" in said


def test_a_role_may_have_another_name(tmp_path: Path) -> None:
    """With its neighbours' names for it, and the key of its records."""
    _, old = shop(tmp_path / "old")
    rules = f"migrations: [{{from: {old.digest[:12]}, roles: {{desk: {{was: till}}}}}}]"
    new = shop(tmp_path / "new", rules, ("till", "desk"))
    key, row = till(old)
    found = Mapper(RecordSchema.of(old), *new).map(key, row)
    assert found.key == RecordKey("tenant:1", "desk")
    after = RowCodec(new[1]).read(found.key, found.row, {})
    assert after.record == RowCodec(old).read(key, row, {}).record
    clerk = MachineInstance(
        RecordKey("tenant:1", "clerk[1]"),
        old.roles["clerk"],
        ("told", 1, "red", (4,), (5,), 6),
        ["site"],
        {DRIVERS: [["tenant:1", "till"], ["tenant:2", "clerk[0]"]]},
    )
    after = mapped(old, new, (clerk.key, RowCodec(old).write(clerk)))
    assert (after.record, after.peers, after.core.neighbours) == (clerk.record, ["site"], (("desk", 0),))
    assert after.metadata == {DRIVERS: [["tenant:1", "desk"], ["tenant:2", "clerk[0]"]]}


def test_numbers_and_peers_follow_their_neighbours(tmp_path: Path) -> None:
    """Roles in another order put the neighbours into another order too."""
    extra = ("clerk: {instances: clerks}}", "clerk: {instances: clerks}, aide: {}}")
    channels = ("environment:", "  there: {from: till, to: aide, kind: mailbox}\nenvironment:")
    messages = ("messages:\n", "messages:\n  greet: {from: till, to: aide}\n")
    tasks = ("tasks: [fetch]", "tasks: [fetch, greet]")
    task = ("tasks: {fetch:", "tasks: {greet: {send: greet, to: aide}, fetch:")
    aide = "role: aide\nstates: {here: {initial: true, on: {greet: {to: here}}}}\n"
    changes = (extra, channels, messages, tasks, task)
    for name, more in (
        ("old", ()),
        (
            "new",
            (("till: {}, clerk: {instances: clerks}, aide: {}", "aide: {}, till: {}, clerk: {instances: clerks}"),),
        ),
    ):
        (tmp_path / name / "roles").mkdir(parents=True)
        (tmp_path / name / "roles/aide.yaml").write_text(aide)
        shop(tmp_path / name, "", *changes, *more)
    old, new = compiled(tmp_path / "old")[1], compiled(tmp_path / "new")
    assert [r for r, _ in old.roles["till"].neighbours] == ["clerk", "clerk", "aide"]
    key, row = till(old, sent=(7, 8, 9), received=(1, 2, 3))
    body, _, papers = msgspec.msgpack.decode(row)
    after = mapped(old, new, (key, msgspec.msgpack.encode([body, ["anna", "bert", "carl"], papers])))
    assert [r for r, _ in after.core.neighbours] == ["aide", "clerk", "clerk"]
    shown = dict(zip(after.core.names, after.record, strict=False))
    assert (shown["sent"], shown["received"], after.peers) == ((9, 7, 8), (3, 1, 2), ["carl", "anna", "bert"])


@pytest.mark.parametrize(("outlived", "since"), [(True, 3), (False, 7)])
def test_a_task_that_outlives_its_state_goes_on(tmp_path: Path, outlived: bool, since: int) -> None:
    """The task is in a state made for it, under its new name; one that did not outlive its state began with it."""
    old_owner = {name: text if outlived else text.replace(", outlives: true", "") for name, text in KEEPER.items()}
    write(tmp_path / "old", old_owner)
    _, old = compiled(tmp_path / "old")
    rules = f"migrations: [{{from: {old.digest}, roles: {{owner: {{states: {{away: out}}}}}}}}]"
    changed = {name: text.replace("away", "out") for name, text in KEEPER.items()}
    write(tmp_path / "new", {**changed, "migrations.yaml": rules})
    core, state = old.roles["owner"], "away__backup" if outlived else "saving"
    machine = MachineInstance(
        RecordKey("tenant:1", "owner"), core, (state, (), (), 7, *([3] if outlived else [])), [], {}
    )
    after = mapped(old, compiled(tmp_path / "new"), (machine.key, RowCodec(old).write(machine)))
    assert after.state == ("out__backup" if outlived else "saving")
    assert dict(zip(after.core.names, after.record, strict=True))["since backup"] == since


def test_a_value_out_of_range_is_refused_and_a_rule_may_give_another(tmp_path: Path) -> None:
    _, old = shop(tmp_path)
    said = misfits(old, compiled(tmp_path, most=4), till(old))
    assert said == "tenant:1 till, sold: 5 is not within 0..4"
    rules = f"migrations: [{{from: {old.digest}, roles: {{till: {{fields: {{sold: {{value: most}}}} DROP}}}}}}]"
    (tmp_path / "migrations.yaml").write_text(rules.replace(" DROP", ""))
    said = misfits(old, compiled(tmp_path, most=4), till(old))
    assert "sold: a rule gives it another value; write `drop: [sold]` to give up the old one" in said
    (tmp_path / "migrations.yaml").write_text(rules.replace(" DROP", ", drop: [sold]"))
    after = mapped(old, compiled(tmp_path, most=4), till(old))
    assert after.core.view(after.record)["sold"] == 4


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b"", "the row is not whole"),
        (b"\xc1", "the row is not whole"),
        (msgspec.msgpack.encode([b"", [], {}]), "the row is not whole"),
        (msgspec.msgpack.encode([msgspec.msgpack.encode([9, b"x", "till", [1]]), [], {}]), "the record has version 9"),
        (
            msgspec.msgpack.encode([msgspec.msgpack.encode([1, b"x", "till", [1]]), [], {}]),
            "it was written by 78, and not",
        ),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, row: bytes, said: str) -> None:
    new = shop(tmp_path)
    assert said in misfits(new[1], new, (RecordKey("tenant:1", "till"), row))


def test_a_record_of_another_machine_is_refused(tmp_path: Path) -> None:
    new = shop(tmp_path)
    _, row = till(new[1])
    assert "it is no record of this machine" in misfits(new[1], new, (RecordKey("tenant:1", "clerk[1]"), row))


def test_a_record_of_a_role_that_neither_specification_has_is_refused_as_such(tmp_path: Path) -> None:
    """No rule could bring it over, so none is asked for."""
    new = shop(tmp_path)
    key, row = till(new[1])
    body, peers, papers = msgspec.msgpack.decode(row)
    version, digest, _, plain = msgspec.msgpack.decode(body)
    foreign = msgspec.msgpack.encode([msgspec.msgpack.encode([version, digest, "stranger", plain]), peers, papers])
    assert misfits(new[1], new, (key, foreign)).endswith("it is no record of this machine")


def clerk(program: Program, instance: int, state: str = "idle") -> tuple[RecordKey, bytes]:
    core = program.roles["clerk"]
    machine = MachineInstance(
        RecordKey("tenant:1", f"clerk[{instance}]"), core, (state, instance, "red", (4,), (5,), 6), ["site"], {}
    )
    return machine.key, RowCodec(program).write(machine)


def altered(row: bytes, at: int | None, value: Any) -> bytes:
    """A row whose record has another value at a place; without one, with other peers."""
    body, peers, papers = msgspec.msgpack.decode(row)
    version, digest, role, plain = msgspec.msgpack.decode(body)
    if at is None:
        peers = value
    else:
        plain[at:at] = value if isinstance(value, tuple) else ()
        if not isinstance(value, tuple):
            plain[at] = value
    return msgspec.msgpack.encode([msgspec.msgpack.encode([version, digest, role, plain]), peers, papers])


def test_each_part_of_a_record_that_does_not_fit_is_named(tmp_path: Path) -> None:
    """States, values and numbers of a record that was damaged, or that another program wrote."""
    new = shop(tmp_path)
    core = new[1].roles["till"]
    key, row = till(new[1])
    at = core.names.index
    for change, said in (
        ((at("state"), "shut"), "till, state: 'shut' was no state of the old specification"),
        ((at("state"), 7), "till, state: "),
        ((at("sold"), 10), "till, sold: 10 is not within 0..9"),
        ((at("stock"), [1]), "till, stock: "),
        ((at("wanted"), "blue"), "till, wanted: "),
        ((at("sent"), [7]), "its sequence numbers are not those of its neighbours"),
        ((at("received"), [1, 2, 3]), "its sequence numbers are not those of its neighbours"),
        ((at("sent"), 7), "its sequence numbers are not those of its neighbours"),
        ((at("sent"), [-1, 8]), "tenant:1 till: "),
        ((at("entry"), (0,)), "it is no record of this machine"),
    ):
        assert said in misfits(new[1], new, (key, altered(row, *change))), change
    assert mapped(new[1], new, (key, row)).record == RowCodec(new[1]).read(key, row, {}).record


def test_a_record_that_other_specifications_wrote_is_told_apart(tmp_path: Path) -> None:
    new = shop(tmp_path / "new")
    other = shop(tmp_path / "other", "", ("it was not waited for", "nobody waited"), ("doc", "doc"))[1]
    other = shop(tmp_path / "third", "", ("waiting", "waits"))[1] if other.digest == new[1].digest else other
    key, row = till(other, state=other.roles["till"].states[1])
    said = misfits(new[1], new, (key, row))
    assert f"it was written by {other.digest[:12]}, and not by {new[1].digest[:12]} as the others" in said


def test_a_role_that_is_gone_is_refused_with_the_near_miss(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    new = shop(tmp_path / "new", "", ("till", "tills"))
    said = misfits(old, new, till(old))
    assert "the new specification has no role `till`, and no rule says `was: till`; did you mean tills" in said


def test_a_machine_beyond_the_new_number_is_given_up_only_by_a_rule_for_its_state(tmp_path: Path) -> None:
    _, old = shop(tmp_path, clerks=3)
    rules = f"migrations: [{{from: {old.digest}, roles: {{clerk: {{forget: [told]}}}}}}]"
    (tmp_path / "migrations.yaml").write_text(rules)
    fewer = compiled(tmp_path, clerks=2)
    mapper = Mapper(RecordSchema.of(old), *fewer)
    assert mapper.map(*clerk(old, 1, "told")).key == RecordKey("tenant:1", "clerk[1]")
    assert mapper.map(*clerk(old, 2, "told")) == Mapped(None, b"", "clerk", "told", "")
    said = misfits(old, fewer, clerk(old, 2, "idle"))
    assert "the new specification has 2 machines of `clerk`, and this one is idle; bring it to an end" in said
    assert "it is no record of this machine" in misfits(
        old, fewer, (RecordKey("tenant:1", "clerk[0]"), clerk(old, 1)[1])
    )


def test_what_concerns_all_records_of_a_role_is_told_once_and_none_of_them_is_mapped(tmp_path: Path) -> None:
    _, old = shop(tmp_path / "old")
    system, new = shop(tmp_path / "new", "", ("data: {last: colour}", "data: {last: colour, more: int}"))
    mapper = Mapper(RecordSchema.of(old), system, new)
    told = []
    for row in (clerk(old, 0), clerk(old, 1), clerk(old, 0)):
        with pytest.raises(UnmappableRecord) as error:
            mapper.map(*row)
        told.append([(p.lease, p.machine, p.field) for p in error.value.problems])
    assert told == [[("tenant:1", "clerk[0]", "more")], [], []]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"indexed": True}, "instance: only one of the two specifications numbers its machines"),
        ({"subsidiary": True}, "it is subsidiary in only one of the two specifications"),
        ({"of_run": True}, "its machines belong to runs in only one of the two specifications"),
    ],
)
def test_a_role_of_another_kind_is_refused(tmp_path: Path, changes: dict[str, bool], said: str) -> None:
    system, program = shop(tmp_path)
    schema = RecordSchema.of(program)
    roles = {**schema.roles, "till": msgspec.structs.replace(schema.roles["till"], **changes)}
    mapper = Mapper(msgspec.structs.replace(schema, roles=roles), system, program)
    assert [said in f"{name}: {what}" for name, what in mapper.roles["till"].silent].count(True) == 1
    assert mapper.roles["clerk"].silent == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  had: map[clerk, bool]", "  had: bool", "had: it was map[clerk 0..1, bool] and is bool; give it a `value`"),
        (
            "  wanted: option[colour]",
            "  wanted: map[colour, bool]",
            "wanted: it was option[colour {red, green}] and is map[",
        ),
        ("  wanted: option[colour]\n", "", "wanted: the new `till` has no such field, and no rule takes its value or"),
        (
            "  wanted: option[colour]",
            "  wantd: option[colour]",
            "wantd: no rule says its value; write `{from: wanted}`",
        ),
        ("data:\n  stock", "data:\n  n: int\n  stock", "n: no rule says its value; write `{from: OLD_FIELD}`"),
    ],
    ids=["a map no more", "a map now", "gone", "another name", "new"],
)
def test_a_field_of_another_form_or_name_needs_a_rule(tmp_path: Path, old: str, new: str, said: str) -> None:
    _, before = shop(tmp_path / "old")
    texts = {name: text.replace(old, new) for name, text in SHOP.items()}
    if "wanted" in old:  # whatever the states say of it
        lines = texts["roles/till.yaml"]
        lines = lines.replace("wanted: event.what, ", "").replace(" and wanted != none", "")
        texts["roles/till.yaml"] = lines
    if "had" in old:
        texts["roles/till.yaml"] = texts["roles/till.yaml"].replace(', "had[msg.sender]": true', "")
    write(tmp_path / "new", texts)
    assert said in misfits(before, compiled(tmp_path / "new"), till(before))


def test_rules_say_where_the_value_of_a_field_comes_from(tmp_path: Path) -> None:
    """Another field, a value, the initial one; and a field of the same name whose old value is dropped."""
    _, old = shop(tmp_path / "old")
    data = (
        "  sold: {type: int, min: 0, max: most}",
        "  sold: {type: int, min: 0, max: most}\n  begun: int\n  n: int\n  m: int",
    )
    fields = "{begun: {from: sold}, sold: {value: 2}, n: {initial: true}, m: {value: most}, wanted: {value: none}}"
    rules = f"migrations: [{{from: {old.digest}, roles: {{till: {{fields: {fields}, drop: [wanted]}}}}}}]"
    after = mapped(old, shop(tmp_path / "new", rules, data), till(old))
    view = after.core.view(after.record)
    assert (view["begun"], view["sold"], view["n"], view["m"], view["wanted"]) == (5, 2, 0, 9, None)
    assert (view["stock"], after.peers, after.metadata) == ((3, 4), ["anna", "bert"], {"over": 3})


@pytest.mark.parametrize(
    ("rule", "drop", "wanted"),
    [
        ("", "", 5),
        ("sold: {value: 2}", "[sold]", 2),
        ("sold: {initial: true}", "[sold]", 0),
        ("sold: {value: 2}", "", "sold: a rule gives it another value; write `drop: [sold]` to give up the old one"),
        ("", "[sold]", "sold: no rule says its value; write"),
    ],
)
def test_a_field_of_the_same_name_keeps_its_value_or_a_rule_says_another(
    rule: str, drop: str, wanted: int | str, tmp_path: Path
) -> None:
    """All cases: its old value is dropped or not, and a rule gives it one or not."""
    _, old = shop(tmp_path / "old")
    data = ("  sold: {type: int, min: 0, max: most}", "  sold: {type: int, min: 0, max: most}\n  n: int")
    parts = [f"fields: {{n: {{initial: true}}{', ' if rule else ''}{rule}}}", *([f"drop: {drop}"] if drop else [])]
    rules = f"migrations: [{{from: {old.digest}, roles: {{till: {{{', '.join(parts)}}}}}}}]"
    new = shop(tmp_path / "new", rules, data)
    if isinstance(wanted, str):
        assert wanted in misfits(old, new, till(old))
    else:
        after = mapped(old, new, till(old))
        assert after.core.view(after.record)["sold"] == wanted


@pytest.mark.long
@settings(max_examples=500)
@given(st.data())
def test_a_damaged_record_is_refused_or_still_one(data: st.DataObject) -> None:
    """No byte of a row, changed, makes anything but a refusal with a reason, or a record that the new actor reads."""
    role = data.draw(st.sampled_from(sorted(SMALL.roles)))
    before = data.draw(held(SMALL, SMALL.roles[role], SMALL_SYSTEM.roles[role].count))
    row = bytearray(RowCodec(SMALL).write(before))
    row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
    found = mapped_or_not(Mapper(RecordSchema.of(SMALL), LARGE_SYSTEM, MORE), before.key, bytes(row))
    if isinstance(found, Mapped):
        assert found.key is not None
        assert RowCodec(MORE).read(found.key, found.row, BELOW_OF).core.role == role
    else:
        assert found.problems
        assert str(found).startswith(f"{before.key.lease} {before.key.machine}")


def mapped_or_not(mapper: Mapper, key: RecordKey, row: bytes) -> Mapped | UnmappableRecord:
    try:
        return mapper.map(key, row)
    except UnmappableRecord as misfit:
        return misfit


OFFICE = files_of("impl/migrate/systems/office")


def office(folder: Path, *order: str, letter: str = "letter", field: str = "to", kind: str = "fifo") -> Any:
    roles = ", ".join(f"{role}: {{}}" for role in order)
    words = {"ROLES": roles, "LETTER": letter, "FIELD": field, "KIND": kind}
    for name, text in OFFICE.items():
        for old, new in words.items():
            text = text.replace(old, new)
        write(folder, {name: text})
    return compiled(folder)


DESKS = files_of("impl/migrate/systems/desks")


def desks(folder: Path, *order: str) -> tuple[System, Program]:
    """A clerk and its desks, in this order."""
    roles = ", ".join(f"{role}: {{}}" for role in (*order, "clerk"))
    write(folder, {**DESKS, "system.yaml": DESKS["system.yaml"].replace("ROLES", roles)})
    return compiled(folder)


def clerk_with_letters(program: Program) -> tuple[RecordKey, bytes]:
    """A clerk to whom nobody has listened since it has written twice to each."""
    key, core = RecordKey("tenant:1", "clerk"), program.roles["clerk"]
    positions = {role: core.positions[role, 0, ""] for role in ("left", "right")}
    peers = [f"at the {role}" for role, _ in core.neighbours]
    held = MachineInstance(key, core, core.step(core.first(), local("write"), 0)[0], peers, {})
    for number in (1, 2):
        for role, message, fields in (("left", "note", {"at": number}), ("right", "letter", {"to": 10 * number})):
            kept = held.metadata.setdefault(SESSIONS, {}).setdefault(str(positions[role]), [])
            kept.append([number, message, fields])
    return key, RowCodec(program).write(held)


def test_messages_of_sessions_follow_their_neighbours(tmp_path: Path) -> None:
    """Messages that wait for the one desk are not handed to the other, in whatever order the roles stand."""
    old, new = office(tmp_path / "old", "clerk", "left", "right")[1], office(tmp_path / "new", "right", "left", "clerk")
    after = mapped(old, new, clerk_with_letters(old))
    assert [role for role, _ in after.core.neighbours] == ["right", "left"]
    found = {}
    for at in neighbours(after):
        kept = [(one.number, one.message, one.values(new[1])) for one in queued(after, at)]
        found[after.peers[at], after.core.neighbours[at][0]] = kept
    assert found == {
        ("at the left", "left"): [(1, "note", (1,)), (2, "note", (2,))],
        ("at the right", "right"): [(1, "letter", (10,)), (2, "letter", (20,))],
    }


@pytest.mark.parametrize("order", list(permutations(("left", "middle", "right"))), ids="-".join)
def test_each_neighbour_keeps_its_messages_in_every_order(order: tuple[str, ...], tmp_path: Path) -> None:
    """Three neighbours: with two, each order is its own inverse."""
    old = desks(tmp_path / "old", "left", "middle", "right")[1]
    key, core = RecordKey("tenant:1", "clerk"), old.roles["clerk"]
    peers = [f"at the {role}" for role, _ in core.neighbours]
    kept = {str(core.positions[role, 0, ""]): [[1, f"to_{role}", {}]] for role in order}
    held = MachineInstance(key, core, core.first(), peers, {SESSIONS: kept})
    after = mapped(old, desks(tmp_path / "new", *order), (key, RowCodec(old).write(held)))
    assert [role for role, _ in after.core.neighbours] == [*order]
    found = {(after.peers[at], *(one.message for one in queued(after, at))) for at in neighbours(after)}
    assert found == {(f"at the {role}", f"to_{role}") for role in order}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"letter": "card"}, "no channel of the new specification keeps a `letter` from clerk to right"),
        ({"kind": "mailbox"}, "no channel of the new specification keeps a `letter` from clerk to right"),
        ({"field": "whom"}, "`letter`: there is no field 'to'; it has whom"),
    ],
)
def test_a_message_that_waits_and_could_never_be_sent_is_said(tmp_path: Path, changed: Any, why: str) -> None:
    """It would be kept, and lost, and all that comes after it would wait for it."""
    old = office(tmp_path / "old", "clerk", "left", "right")[1]
    new = office(tmp_path / "new", "clerk", "left", "right", **changed)
    said = misfits(old, new, clerk_with_letters(old))
    assert said.split("; tenant:1")[0] == (
        f"tenant:1 clerk, sent: message 1 waits to be taken, and {why}; let it be taken first"
    )
    assert said.count("waits to be taken") == 2


def test_a_message_that_waits_for_another_receiver_than_the_new_one_is_said(tmp_path: Path) -> None:
    """The new specification has both messages, each to the other desk."""
    old = office(tmp_path / "old", "clerk", "left", "right")[1]
    office(tmp_path / "new", "clerk", "left", "right", letter="kept")
    for file in (tmp_path / "new").rglob("*.yaml"):
        file.write_text(file.read_text().replace("note", "letter").replace("kept", "note"))
    said = misfits(old, compiled(tmp_path / "new"), clerk_with_letters(old))
    for message, receiver in (("note", "left"), ("letter", "right")):
        assert f"no channel of the new specification keeps a `{message}` from clerk to {receiver}" in said
    assert said.count("waits to be taken") == 4


def read_now(file: str, machine: str, below: str) -> tuple[str, str, dict[str, Any]]:
    """Migrates a stored record, and returns its state before and after and the data that it has then."""
    stored = json.loads((Path(__file__).parent / file).read_text())
    old = RecordSchema.read(json.dumps(stored["schema"]).encode())
    key = RecordKey(stored["lease"], machine)
    there = Mapper(old, SMALL_SYSTEM, SMALL).map(key, bytes.fromhex(stored["row"]))
    after = RowCodec(SMALL).read(key, there.row, {below: None})
    data = dict(zip([f.name for f in after.core.fields], after.record[after.core.data_at :], strict=False))
    return there.before, there.after, data


def test_a_holder_that_waits_for_a_longer_lease_asks_once_more() -> None:
    """A record of the lease before its holder said which units it keeps, as that specification wrote it."""
    before, after, data = read_now("lease_before_kept.json", "service_manager", "guest")
    assert (before, after) == ("extending_lease", "active_ticketed")
    assert (data["lease_units"], data["ticket_end"], data["lease_end"]) == ({0, 1}, 9, 5)
    assert (data["victims"], data["victims_left"], data["kept"]) == (frozenset(), False, frozenset())


def test_a_site_that_has_told_its_holder_of_units_has_told_it_of_them() -> None:
    """A record of the lease before its site kept which units it has told, as that specification wrote it."""
    before, after, data = read_now("lease_before_confirmed_end.json", "authority", "unit")
    assert (before, after) == ("active", "active")
    assert (data["assigned"], data["told"], data["wanted"], data["end"]) == ({0, 1}, {0, 1}, 2, 9)
    assert not data["resumed"]


def test_each_version_before_has_a_record_that_is_migrated() -> None:
    """Each that migrations.yaml names was written once, and is kept with the tests as it was."""
    folder = Path(__file__).parent
    named = re.findall(r"- from: (\w+)", (shipped_folder("lease") / "migrations.yaml").read_text())
    kept = {path.name.removeprefix("lease-") for path in (folder / "stores").iterdir()}
    kept |= {json.loads(path.read_text())["schema"]["digest"][:12] for path in folder.glob("lease_before_*.json")}
    assert {*named} == kept


BALLOT = files_of("cli/systems/ballot")


def chair(program: Program, **changed: Any) -> tuple[RecordKey, bytes]:
    """The row of a chair that has heard of more members than its specification has."""
    core = program.roles["chair"]
    known = dict(zip(core.names, core.first(), strict=True))
    known |= {"turnout": core.fields[3].first(0).changed(7, 2), "received": Numbers({7: 3})}
    known |= {"answers": core.fields[2].first(0).changed(7, "aye").changed(1, "no"), **changed}
    machine = MachineInstance(
        RecordKey("ballot:1", "chair"), core, tuple(known[name] for name in core.names), DynamicPeers({7: "member-7"})
    )
    return machine.key, RowCodec(program).write(machine)


def ballot(folder: Path, *changes: tuple[str, str]) -> tuple[System, Program]:
    write(folder, edited(BALLOT, *changes))
    return compiled(folder)


def test_entries_of_a_map_over_members_are_kept(tmp_path: Path) -> None:
    _, old = ballot(tmp_path / "old")
    new = ballot(
        tmp_path / "new",
        ("call: {to: chair}", "call: {to: chair, fair: true}"),
        ("value: 2, min: 1", "value: 3, min: 1"),
    )
    after = mapped(old, new, chair(old))
    view = after.core.view(after.record)
    assert (view["answers"], view["turnout"]) == ({7: "aye", 1: "no"}, {7: 2})
    assert after.core.first()[after.core.data_at + 2] == {}


def test_a_map_over_members_that_begins_otherwise_is_refused(tmp_path: Path) -> None:
    """There is no entry for the machines that all of them would begin anew."""
    _, old = ballot(tmp_path / "old")
    new = ballot(tmp_path / "new", ("call: {to: chair}", "call: {to: chair, fair: true}"))
    schema = RecordSchema.read(RecordSchema.of(old).write().replace(b'"rest":"silent"', b'"rest":"no"'))
    with pytest.raises(UnmappableRecord, match="machines without an entry had no, and would have silent; give"):
        Mapper(schema, *new).map(*chair(old))


def test_a_map_over_members_takes_no_value_of_a_list(tmp_path: Path) -> None:
    _, old = ballot(tmp_path / "old")
    new = ballot(tmp_path / "new", ("call: {to: chair}", "call: {to: chair, fair: true}"))
    key, row = chair(old)
    at = old.roles["chair"].names.index("turnout")
    assert "is no map[member, int]" in misfits(old, new, (key, altered(row, at, [1, 2])))
    assert "'voter[1]' is none of member[0]" in misfits(old, new, (key, altered(row, at, {"voter[1]": 1})))
