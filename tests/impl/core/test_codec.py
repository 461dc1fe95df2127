"""Records as bytes: every field of every type, at its place, within its bounds, and read as it was written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from leasehold.impl.core.codec import VERSION, Codec, RecordError, read_head
from leasehold.impl.core.core import Core, CoreError, Field, Program
from leasehold.impl.core.values import LARGEST
from leasehold.impl.core.work import Machines, Record
from leasehold.spec.language import types as t

COLOUR, GUARD = t.Enum("colour", ("red", "green", "blue")), t.Instance("guard", 3)
FIELDS = (
    Field("bit", t.Bool(), False),
    Field("mark", t.Int(-2, 5), 0),
    Field("price", t.Int(), 0),
    Field("due", t.Time(), 0),
    Field("who", GUARD, 0),
    Field("tone", COLOUR, "red"),
    Field("note", t.Opaque(), None),
    Field("seen", t.Set(GUARD), frozenset()),
    Field("last", t.Option(COLOUR), None),
    Field("tally", t.Map(COLOUR, t.Int(0, 9)), (0, 0, 0)),
)
DATA: tuple[Any, ...] = (True, -2, -7, 9, 2, "blue", {"a": [1]}, frozenset({2, 0}), "green", (1, 2, 9))
DIGEST = "ab" * 32


def _core(role: str, *, indexed: bool = False, subsidiary: bool = False, below: tuple[Core, ...] = ()) -> Core:
    return Core(
        role=role,
        indexed=indexed,
        states=("idle", "busy"),
        fields=FIELDS,
        events={},
        count=4 if indexed else 1,
        neighbours=() if subsidiary else (("guard", 0), ("guard", 1)),
        since={"save": ("saved",)},
        below=below,
        subsidiary=subsidiary,
        table={},
        work={},
        answers={},
        wakes={},
    )


ROOM = _core("room", indexed=True, subsidiary=True)
KEEPER = _core("keeper", below=(ROOM,))
GUIDE = _core("guide", indexed=True)
ROLES = {core.role: core for core in (KEEPER, GUIDE, ROOM)}
PROGRAM = Program("museum", DIGEST, {}, {}, ROLES, {})
CODECS = {role: Codec(PROGRAM, core) for role, core in ROLES.items()}
BELOW: dict[str, tuple[Machines, ...]] = {"keeper": (Machines(ROOM.first),), "guide": (), "room": ()}
EACH = pytest.mark.parametrize("role", ["keeper", "guide", "room"])


def record(role: str) -> Record:
    """A record in which every value is another than at first."""
    core = ROLES[role]
    numbers = () if core.subsidiary else ((3, 4), (5, 6))
    return ("busy", *((3,) if core.indexed else ()), *DATA, *numbers, 17, 11, *BELOW[role])


def changed(role: str, name: str, value: Any) -> Record:
    """The record with one of its values, by name."""
    found = list(record(role))
    found[ROLES[role].names.index(name)] = value
    return tuple(found)


def body(role: str, name: str = "", value: Any = None, *, digest: bytes = bytes.fromhex(DIGEST)) -> bytes:
    """The bytes of the record, one of its values, by name, replaced by plain data."""
    head = msgspec.msgpack.decode(CODECS[role].encode(record(role)))
    if name:
        head[3][ROLES[role].names.index(name)] = value
    return msgspec.msgpack.encode([VERSION, digest, role, head[3]])


@EACH
def test_a_record_is_read_as_it_was_written(role: str) -> None:
    for whole in (record(role), ROLES[role].first(2, BELOW[role])):
        found = CODECS[role].decode(CODECS[role].encode(whole), BELOW[role])
        assert found == whole
        assert list(map(type, found)) == list(map(type, whole))
    assert len(record(role)) == len(ROLES[role].names) == len(set(ROLES[role].names))
    digest, named, plain = read_head(body(role))
    assert (digest, named, len(plain)) == (DIGEST, role, ROLES[role].below_at)
    assert ROLES[role].view(record(role)) == dict(zip((f.name for f in FIELDS), DATA, strict=True))


WRONG: list[tuple[str, Any]] = [
    ("state", "gone"),
    ("state", None),
    ("state", ["busy"]),
    ("bit", 1),
    ("mark", -3),
    ("mark", 6),
    ("mark", True),
    ("price", 2**63),
    ("price", "1"),
    ("due", -1),
    ("due", 1.0),
    ("who", 3),
    ("who", -1),
    ("tone", "rad"),
    ("seen", [1, 1]),
    ("seen", [3]),
    ("seen", 1),
    ("last", "rad"),
    ("tally", [1, 2]),
    ("tally", [1, 2, 10]),
    ("tally", [1, 2, 3, 4]),
    ("tally", None),
    ("instance", -1),
    ("instance", None),
    ("instance", True),
    ("instance", "1"),
    ("sent", [3]),
    ("sent", [3, 4, 5]),
    ("sent", 3),
    ("sent", [3, -1]),
    ("sent", [None, 4]),
    ("sent", [True, 4]),
    ("received", [5]),
    ("received", [5, 6, 7]),
    ("received", None),
    ("received", [-1, 6]),
    ("received", [5, "6"]),
    ("entry", -1),
    ("entry", None),
    ("entry", True),
    ("entry", 1.0),
    ("since save", -1),
    ("since save", None),
    ("since save", False),
]


@EACH
@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name} {value}" for name, value in WRONG])
def test_a_value_that_its_place_cannot_have_is_refused(role: str, name: str, value: Any) -> None:
    """And the error knows which specification wrote the record: it may not be this one's version that is at fault."""
    if name not in ROLES[role].names:
        return
    with pytest.raises(RecordError) as refused:
        CODECS[role].decode(body(role, name, value), BELOW[role])
    assert refused.value.digest == DIGEST


@EACH
@pytest.mark.parametrize("name", ["instance", "sent", "received", "entry", "since save", "mark", "who", "due"])
def test_the_least_value_of_a_place_is_read(role: str, name: str) -> None:
    if name in ROLES[role].names:
        least = {"sent": [0, 0], "received": [0, 0], "mark": -2}.get(name, 0)
        found = CODECS[role].decode(body(role, name, least), BELOW[role])
        assert found == changed(role, name, tuple(least) if isinstance(least, list) else least)


@pytest.mark.parametrize("role", ["keeper", "room"])
def test_a_record_with_a_value_more_or_less_is_refused(role: str) -> None:
    plain = msgspec.msgpack.decode(body(role))[3]
    for wrong in (plain[:-1], [*plain, 0]):
        whole = msgspec.msgpack.encode([VERSION, bytes.fromhex(DIGEST), role, wrong])
        with pytest.raises(RecordError, match=f"it has {len(wrong)} values, not {len(plain)}") as refused:
            CODECS[role].decode(whole)
        assert refused.value.digest == DIGEST


def test_a_record_of_another_role_or_specification_is_refused_with_its_digest() -> None:
    with pytest.raises(RecordError, match="a record of `guide`, not of `keeper`") as refused:
        CODECS["keeper"].decode(body("guide"))
    assert refused.value.digest == DIGEST
    with pytest.raises(RecordError, match="another specification") as refused:
        CODECS["guide"].decode(body("guide", digest=bytes.fromhex("cd" * 32)))
    assert refused.value.digest == "cd" * 32


@pytest.mark.parametrize(
    "whole",
    [
        [],
        [VERSION],
        [VERSION, b"\xab", "guide"],
        [VERSION, b"\xab", "guide", []],
        [VERSION, "ab", "guide", [1]],
        [VERSION, b"\xab", 7, [1]],
        [VERSION, b"\xab", "guide", {"a": 1}],
        [VERSION, b"\xab", "guide", [1], 1],
        [VERSION - 1, b"\xab", "guide", [1]],
        ["1", b"\xab", "guide", [1]],
        {"version": VERSION},
        None,
        1,
    ],
    ids=str,
)
def test_what_has_not_the_form_of_a_record_is_none(whole: Any) -> None:
    with pytest.raises(RecordError, match="the bytes are no record"):
        read_head(msgspec.msgpack.encode(whole))


@pytest.mark.parametrize("whole", [b"", b"\xc1", b"\x93\x01", b"\x91" * 100_000, b"\x01\x01"])
def test_bytes_that_are_no_message_pack_are_no_record(whole: bytes) -> None:
    with pytest.raises(RecordError, match="the bytes are no record"):
        read_head(whole)


def test_a_record_of_a_newer_version_is_known_as_such_whatever_follows() -> None:
    for rest in ([b"\xab", "guide", [1]], [], ["something new"]):
        with pytest.raises(RecordError, match=f"the record has version {VERSION + 1}, and {VERSION} is the newest"):
            read_head(msgspec.msgpack.encode([VERSION + 1, *rest]))


BEYOND: list[tuple[str, Any]] = [
    ("mark", -3),
    ("mark", 6),
    ("price", LARGEST + 1),
    ("price", -LARGEST - 1),
    ("due", -1),
    ("due", LARGEST + 1),
    ("who", -1),
    ("who", 3),
    ("seen", frozenset({3})),
    ("last", "rad"),
    ("tally", (0, 10, 0)),
    ("tally", (0, 0, -1)),
]


@EACH
@pytest.mark.parametrize(("name", "value"), BEYOND, ids=[f"{name} {value}" for name, value in BEYOND])
def test_a_value_that_has_left_its_range_is_not_written_and_is_named(role: str, name: str, value: Any) -> None:
    with pytest.raises(CoreError, match=rf"{role}\.{name}"):
        CODECS[role].encode(changed(role, name, value))
    if isinstance(value, int):  # what `check` sees to
        with pytest.raises(CoreError, match=rf"{role}\.{name} would be {value}"):
            CODECS[role].core.check(changed(role, name, value))


@EACH
@pytest.mark.parametrize(
    ("name", "value"),
    [("mark", -2), ("mark", 5), ("price", LARGEST), ("price", -LARGEST), ("due", 0), ("due", LARGEST), ("who", 2)],
)
def test_a_value_at_the_edge_of_its_range_is_written(role: str, name: str, value: int) -> None:
    edge = changed(role, name, value)
    CODECS[role].core.check(edge)
    assert CODECS[role].decode(CODECS[role].encode(edge), BELOW[role]) == edge


@EACH
@pytest.mark.parametrize("name", ["sent", "received", "entry", "since save"])
def test_a_count_beyond_64_bits_is_not_written(role: str, name: str) -> None:
    if name in ROLES[role].names:
        value = (1, 2**64) if name in ("sent", "received") else 2**64
        with pytest.raises(CoreError, match=f"{role}: a number has more than 64 bits"):
            CODECS[role].encode(changed(role, name, value))
