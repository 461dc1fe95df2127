"""Schemas of records: types in full, what reads like what, and the words of an actor that cannot read its store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.impl.core.codec import RecordError
from leasehold.impl.migrate.schema import (
    SPECIFICATION,
    TICKS,
    RecordSchema,
    command,
    described_by,
    refusal,
    type_text,
    with_command,
)
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.spec.language import types as t
from tests.impl.migrate.test_mapping import MORE, SMALL, shop

COLOUR = t.Enum("colour", ("red", "green"))
UNIT = t.Instance("unit", 4)
NEW = RecordSchema.of(SMALL)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (t.Int(), "int"),
        (t.Int(0), "int 0.."),
        (t.Int(None, 9), "int ..9"),
        (t.Int(-1, 0), "int -1..0"),
        (t.Bool(), "bool"),
        (t.Time(), "time"),
        (t.Opaque(), "opaque"),
        (COLOUR, "colour {red, green}"),
        (UNIT, "unit 0..3"),
        (t.Set(UNIT), "set[unit 0..3]"),
        (t.Set(COLOUR), "set[colour {red, green}]"),
        (t.Set(None), "set[?]"),
        (t.Map(UNIT, t.Option(t.Int(0, 5))), "map[unit 0..3, option[int 0..5]]"),
        (t.Option(COLOUR), "option[colour {red, green}]"),
        (t.Option(None), "option[?]"),
        (t.Seq(COLOUR, 3), "seq[colour {red, green}, 3]"),
        (t.Seq(None), "seq[?]"),
    ],
    ids=str,
)
def test_a_type_is_described_in_full(kind: t.Type, words: str) -> None:
    assert type_text(kind) == words


@pytest.mark.parametrize(
    ("changes", "alike"),
    [
        ({}, True),
        ({"system": "other"}, False),
        ({"digest": "00" * 32}, False),
        ({"constants": {"max_units": 3}}, False),
        ({"roles": {}}, True),  # the digest stands for them
    ],
    ids=str,
)
def test_two_schemas_read_alike_if_system_digest_and_constants_are_the_same(
    changes: dict[str, Any], alike: bool
) -> None:
    other = msgspec.structs.replace(NEW, **changes)
    assert (NEW.reads_like(other), other.reads_like(NEW)) == (alike, alike)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "does not say what wrote its records"),
        (b"{", "does not say what wrote its records"),
        (b"[]", "does not say what wrote its records"),
        (b'{"system": "\xff"}', "does not say what wrote its records"),
        (NEW.write().replace(b'"digest"', b'"digset"'), "does not say what wrote its records"),
        (NEW.write().replace(b'"version":1', b'"version":2'), "described in version 2, and 1 is known"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_schema_or_a_newer_one_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        RecordSchema.read(body)


def test_a_schema_of_before_is_read_and_names_what_differs() -> None:
    assert RecordSchema.read(NEW.write().replace(b'"version":1', b'"version":0')).version == 0
    assert json.loads(NEW.write())["version"] == 1
    one = msgspec.structs.replace(NEW, constants={"a": 1, "b": True, "c": 3})
    other = msgspec.structs.replace(NEW, constants={"a": 1, "b": False})
    assert one.against(other) == f"lease {NEW.digest[:12]} with b=true, c=3"
    assert other.against(one) == f"lease {NEW.digest[:12]} with b=false"
    assert one.against(one) == f"lease {NEW.digest[:12]}"


def test_a_schema_is_a_value() -> None:
    unit = NEW.roles["unit"]
    for part, name in ((NEW, "digest"), (unit, "states"), (unit.fields[0], "type")):
        with pytest.raises(AttributeError):
            setattr(part, name, "")
    assert len({unit, unit.fields[0], RecordSchema.of(SMALL).roles["unit"]}) == 2, "two that are equal are one"


def test_the_values_of_a_record_are_named_or_are_not_so_many() -> None:
    unit, authority = NEW.roles["unit"], NEW.roles["authority"]
    for role, known in ((unit, {"instance"}), (authority, {"sent", "received"})):
        names = {"state", "entry", *known, *(f"field {field.name}" for field in role.fields)}
        named = role.named([0] * len(names))
        assert named is not None
        assert set(named) == names | {f"since {task}" for task in role.since}
        assert role.named([0] * (len(names) - 1)) is None
        assert role.named([0] * (len(names) + 1)) is None
    assert unit.machine("unit", {"instance": 1}) == "unit[1]"
    assert authority.machine("authority", {}) == "authority"


# An actor that cannot read its store


def metadata(schema: RecordSchema | None = NEW, ticks: str = "") -> Mapping[str, bytes]:
    return {**({SPECIFICATION: schema.write()} if schema else {}), **({TICKS: ticks.encode()} if ticks else {})}


@pytest.mark.parametrize(
    ("kept", "would", "words"),
    [
        ({}, metadata(), None),  # a new store, or one of before the word was kept
        (metadata(), metadata(), None),
        (metadata(ticks="1"), metadata(ticks="1"), None),
        (metadata(), metadata(ticks="1"), None),
        (metadata(ticks="1"), metadata(), "and it would run with a clock that is moved by hand"),
        (metadata(ticks="1"), metadata(ticks="60"), "ticks of 1 s, and it would run with ticks of 60 s"),
        (metadata(None, "1"), metadata(None, "60"), "set `tick_seconds: 1` until none is left"),
        (metadata(msgspec.structs.replace(NEW, digest="ab" * 32)), metadata(), "written by lease abababababab, and"),
        (metadata(RecordSchema.of(MORE)), metadata(), "with max_units=20, and it would run lease .* with max_units=2;"),
    ],
)
def test_whether_an_actor_may_read_its_records(
    tmp_path: Path, kept: Mapping[str, bytes], would: Mapping[str, bytes], words: str | None
) -> None:
    store = SqliteStore(tmp_path / "site.db")
    found = refusal(kept, would, SMALL, store, "site")
    if words is None:
        assert found is None
    else:
        assert found is not None
        with pytest.raises(RecordError, match=words):
            raise found


def test_a_refusal_names_the_command_that_helps_and_the_digest_that_it_needs(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "site.db")
    found = refusal(metadata(msgspec.structs.replace(NEW, digest="ab" * 32)), metadata(), SMALL, store, "site")
    assert found is not None
    assert found.digest == "ab" * 32
    assert str(found).endswith(command(SMALL, store, "site"))


def test_what_is_kept_beside_the_first_records() -> None:
    assert described_by(SMALL, 0) == {SPECIFICATION: NEW.write()}
    assert described_by(SMALL, 0.5) == {SPECIFICATION: NEW.write(), TICKS: b"0.5"}
    assert described_by(SMALL, 60.0)[TICKS] == b"60"


def test_the_command_has_the_store_the_system_every_constant_and_the_owner(tmp_path: Path) -> None:
    """A file has one owner, which need not be named; a system that is not shipped is a folder."""
    own = shop(tmp_path / "spec")[1]
    words = command(SMALL, SqliteStore(tmp_path / "a b.db"), "site")
    assert words.startswith(f"leasehold migrate 'sqlite:{tmp_path}/a b.db' lease --set ")
    assert "--set max_units=2" in words
    assert words.count("--set") == len(SMALL.constants)
    assert "--actor" not in words
    words = command(own, MemoryStore(), "site")
    assert words == "leasehold migrate memory ./shop --set clerks=2 --set most=9 --actor site"


def test_an_error_of_a_record_names_the_command_only_where_another_specification_wrote_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "site.db")
    for digest in ("", SMALL.digest):
        error = RecordError("the record is damaged", digest)
        assert with_command(error, SMALL, store, "site") is error
    found = with_command(RecordError("the record is of another", "ab" * 32), SMALL, store, "site")
    assert found.digest == "ab" * 32
    assert str(found).startswith("the record is of another; map the records: leasehold migrate sqlite:")
    assert str(found).endswith(" --from FOLDER_OF_abababababab")
