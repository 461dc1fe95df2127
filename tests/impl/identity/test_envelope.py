"""Envelopes: what was sealed is read back, and nothing else is."""

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.impl.identity.envelope import Envelope, open_frame, seal
from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of
from leasehold.impl.identity.signed import (
    FRAME_BYTES,
    Forged,
    Malformed,
    Misdirected,
    Refusal,
    TooLarge,
    UnknownSender,
)
from leasehold.impl.identity.trust import Trust, add, revoke, rotate

KEY, NEW_KEY, OTHER_KEY = (PrivateKey.generate() for _ in range(3))
TRUST = add(add(Trust(), "tenant", "service_manager", KEY.public), "east", "broker", OTHER_KEY.public)
ENVELOPE = Envelope(
    version=1,
    system="lease",
    digest="ab12",
    sender="tenant",
    receiver="site",
    lease="tenant:17",
    sending_machine="service_manager",
    receiving_machine="authority",
    message="redeem",
    number=3,
    epoch=2,
    fields={"units": 4, "end": 90, "words": {"disk": ["a", None, True, 1.5]}},
    reply_to="http://h:1",
)
PARCEL = seal(ENVELOPE, KEY)


def refusal(frame: bytes, trust: Trust = TRUST, me: str = "site") -> type[Refusal]:
    with pytest.raises(Refusal) as refused:
        open_frame(frame, trust, me, at=0)
    assert refused.value.reason
    return type(refused.value)


def signed(body: bytes, key: PrivateKey = KEY) -> bytes:
    """Any body with a good signature: what a trusted actor with a broken program could send."""
    signature = base64_of(key.sign(Purpose.ENVELOPE, body))
    return f"leasehold1 {key.public.fingerprint} {signature}\n".encode() + body


def altered(**changes) -> bytes:
    fields = json.loads(PARCEL.split(b"\n", 1)[1]) | changes
    return signed(json.dumps({k: v for k, v in fields.items() if v is not ...}).encode())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.text(max_size=10)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def test_an_envelope_comes_out_as_it_was_sealed():
    assert open_frame(PARCEL, TRUST, "site", at=0) == ENVELOPE
    assert seal(ENVELOPE, KEY) == PARCEL, "and the same bytes again when it is sent again"


@given(
    st.dictionaries(st.text(max_size=10), VALUES, max_size=4),
    st.integers(1, 2**63 - 1),
    st.none() | st.text(max_size=20),
)
def test_whatever_can_be_sealed_comes_out_the_same(fields, number, ticket):
    envelope = msgspec.structs.replace(ENVELOPE, fields=fields, number=number, credential=ticket)
    assert open_frame(seal(envelope, KEY), TRUST, "site", at=0) == envelope


def test_every_corruption_of_one_byte_is_refused():
    for i in range(len(PARCEL)):
        for flip in (0x01, 0x20, 0x80):
            refusal(PARCEL[:i] + bytes([PARCEL[i] ^ flip]) + PARCEL[i + 1 :])
        refusal(PARCEL[:i] + PARCEL[i + 1 :])
        refusal(PARCEL[:i] + b" " + PARCEL[i:])
        refusal(PARCEL[:i])


@given(st.integers(0, len(PARCEL) - 1), st.integers(1, 255))
def test_any_other_byte_in_any_place_is_refused(i, flip):
    refusal(PARCEL[:i] + bytes([PARCEL[i] ^ flip]) + PARCEL[i + 1 :])


@given(st.binary(max_size=300))
@example(b"")
@example(PARCEL.split(b"\n")[0])
@example(PARCEL.split(b"\n")[0] + b"\n")
def test_garbage_is_refused_and_nothing_else_happens(content):
    refusal(content)
    refusal(PARCEL.split(b"\n")[0] + b"\n" + content)
    refusal(signed(content))


@given(VALUES | st.dictionaries(st.sampled_from(Envelope.__struct_fields__), VALUES))
def test_other_json_is_refused_although_it_is_well_signed(value):
    assert refusal(signed(json.dumps(value).encode())) is Malformed


@given(st.sampled_from(Envelope.__struct_fields__), VALUES)
def test_any_value_in_any_field_is_read_or_refused(field, value):
    try:
        opened = open_frame(altered(**{field: value}), TRUST, "site", at=0)
    except Refusal:
        return
    assert getattr(opened, field) == value, "what is read is what was signed"


def test_a_stranger_is_unknown():
    assert refusal(seal(msgspec.structs.replace(ENVELOPE, sender="nobody"), KEY)) is UnknownSender
    assert refusal(PARCEL, Trust()) is UnknownSender


def test_an_actor_cannot_speak_as_another():
    assert refusal(seal(ENVELOPE, OTHER_KEY)) is Forged
    other = seal(ENVELOPE, OTHER_KEY).split(b" ")[2]
    named = PARCEL.split(b" ", 2)[:2]
    assert refusal(b" ".join([*named, other])) is Forged, "nor by naming the other's key"


def test_a_signature_on_something_else_is_no_signature_on_an_envelope():
    body = PARCEL.split(b"\n", 1)[1]
    signature = base64_of(KEY.sign(Purpose.TICKET, body)).encode()
    assert refusal(b"leasehold1 " + KEY.public.fingerprint.encode() + b" " + signature + b"\n" + body) is Forged


def test_a_frame_cannot_be_played_to_another_receiver():
    assert refusal(PARCEL, me="north") is Misdirected


def test_a_rotated_key_counts_beside_the_new_one_and_then_no_more():
    trust = rotate(TRUST, "tenant", NEW_KEY.public, old_until=100)
    new = seal(ENVELOPE, NEW_KEY)
    assert open_frame(PARCEL, trust, "site", at=99) == open_frame(new, trust, "site", at=99)
    with pytest.raises(Forged, match="has expired"):
        open_frame(PARCEL, trust, "site", at=100)
    assert open_frame(new, trust, "site", at=100) == ENVELOPE
    assert refusal(new) is Forged, "a new key does not count before it is trusted"


def test_a_revoked_key_is_refused_at_once():
    trust = revoke(TRUST, "tenant", KEY.public.fingerprint)
    with pytest.raises(Forged, match="is revoked"):
        open_frame(PARCEL, trust, "site", at=0)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": True},
        {"version": 0},
        {"number": 0},
        {"number": -1},
        {"number": 2**63},
        {"number": 1.5},
        {"number": "1"},
        {"number": True},
        {"epoch": 0},
        {"epoch": 2**64},
        {"fields": []},
        {"fields": None},
        {"fields": {"a": 2**63}},
        {"fields": {"a": -(2**63)}},
        {"fields": {"a": 10**30}},
        {"lease": ""},
        {"lease": "a b"},
        {"lease": "a\n"},
        {"lease": "a\0"},
        {"lease": "x" * 201},
        {"lease": ...},
        {"sender": ...},
        {"extra": 1},
        {"system": 3},
        {"sending_machine": "x[]"},
        {"sending_machine": "x[1]y"},
        {"receiving_machine": "x[1]\n"},
        {"message": "a-b"},
        {"ticket": 3},
        {"ticket": "x" * 70000},
        {"reply_to": "x" * 501},
        {"reply_to": "http://h 1"},
        {"fields": {"x" * 201: 1}},
        {"fields": {"a": "x" * 70000}},
    ],
    ids=lambda c: str(c)[:40],
)
def test_a_field_out_of_its_range_is_malformed_although_well_signed(changes):
    assert refusal(altered(**changes)) is Malformed


NAMES = ("system", "digest", "sender", "receiver", "lease")  # what becomes a key of a store, or a word of a log


@pytest.mark.parametrize("field", [*NAMES, "reply_to"])
@pytest.mark.parametrize("value", ["", "a b", "a\n", "a\x7f", "a\u200b", "a\u00a0b", " "])
def test_a_name_is_one_printable_word(field: str, value: str) -> None:
    assert refusal(altered(**{field: value})) is Malformed
    with pytest.raises(Malformed, match=field):
        seal(msgspec.structs.replace(ENVELOPE, **{field: value or " "}), KEY)


def nested(depth: int, mapping: bool) -> Any:
    value: Any = 4
    for _ in range(depth):
        value = {"a": value} if mapping else [value]
    return value


LIMITS = [
    *((name, "x" * 200, "x" * 201) for name in NAMES),
    *((name, "x" * 200, "x" * 201) for name in ("sending_machine", "receiving_machine", "message")),
    ("receiving_machine", "unit[999999999]", "unit[1000000000]"),
    ("reply_to", "x" * 500, "x" * 501),
    ("ticket", "x" * 65_536, "x" * 65_537),
    ("number", 1, 0),
    ("number", 2**63 - 1, 2**63),
    ("epoch", 1, 0),
    ("epoch", 2**63 - 1, 2**63),
    ("fields", {"x" * 200: 1}, {"x" * 201: 1}),
    ("fields", {"a": {"x" * 200: 1}}, {"a": {"x" * 201: 1}}),
    ("fields", {"a": "x" * 65_536}, {"a": "x" * 65_537}),
    ("fields", {"a": 2**63 - 1}, {"a": 2**63}),
    ("fields", {"a": [1 - 2**63]}, {"a": [-(2**63)]}),
    ("fields", {"a": nested(15, False)}, {"a": nested(16, False)}),  # the fields themselves are the first
    ("fields", {"a": nested(15, True)}, {"a": nested(16, True)}),
]


@pytest.mark.parametrize(("field", "last", "beyond"), LIMITS, ids=lambda value: str(value)[:20])
def test_all_actors_have_the_same_limits(field: str, last: Any, beyond: Any) -> None:
    """With others, one would refuse what another sends: each value is the last that is good, at both ends."""
    name = "credential" if field == "ticket" else field
    for value, good in ((last, True), (beyond, False)):
        envelope = msgspec.structs.replace(ENVELOPE, **{name: value})
        me = value if field == "receiver" else "site"
        trust = TRUST
        if field == "sender":  # no actor has so long a name: a good one is a stranger's
            assert refusal(altered(sender=value)) is (UnknownSender if good else Malformed)
        elif good:
            assert open_frame(altered(**{field: value}), trust, me, at=0) == envelope
            assert open_frame(seal(envelope, KEY), trust, me, at=0) == envelope
        else:
            assert refusal(altered(**{field: value}), me=me) is Malformed
            with pytest.raises(Malformed):
                seal(envelope, KEY)


def test_what_lies_as_deep_as_the_limit_is_good():
    """Lists and mappings by turns; the fields themselves are the first."""
    value: Any = 4
    for _ in range(7):
        value = [{"a": value}]
    for inner in ([value], {"a": value}):
        envelope = msgspec.structs.replace(ENVELOPE, fields={"units": inner})
        assert open_frame(seal(envelope, KEY), TRUST, "site", at=0) == envelope
        with pytest.raises(Malformed, match="deeper than 16"):
            seal(msgspec.structs.replace(ENVELOPE, fields={"units": [inner]}), KEY)


def test_a_sequence_of_a_program_is_a_list_of_the_message() -> None:
    envelope = msgspec.structs.replace(ENVELOPE, fields={"a": ({"b": (1, "two")}, [3.5])})
    assert open_frame(seal(envelope, KEY), TRUST, "site", at=0).fields == {"a": [{"b": [1, "two"]}, [3.5]]}


def test_what_an_envelope_does_not_have_is_not_written() -> None:
    body = seal(msgspec.structs.replace(ENVELOPE, reply_to=None), KEY).split(b"\n", 1)[1]
    assert {"ticket", "reply_to"}.isdisjoint(json.loads(body))


def test_without_a_time_the_end_of_a_key_is_judged_by_the_calendar() -> None:
    for end, good in ((int(time.time()) - 60, False), (int(time.time()) + 3600, True)):
        trust = add(Trust(), "tenant", "service_manager", KEY.public, not_after=end)
        if good:
            assert open_frame(PARCEL, trust, "site") == ENVELOPE
        else:
            with pytest.raises(Forged, match="has expired"):
                open_frame(PARCEL, trust, "site")


@pytest.mark.parametrize("depth", [16, 400, 20_000])
def test_what_lies_too_deep_is_malformed(depth):
    body = PARCEL.split(b"\n", 1)[1].replace(b'"units":4', b'"units":' + b"[" * depth + b"]" * depth)
    assert refusal(signed(body)) is Malformed


@pytest.mark.parametrize("content", [b"\xff", b"a\xc3", b"\xed\xa0\x80"])
def test_bytes_that_are_no_text_are_malformed_although_well_signed(content: bytes) -> None:
    body = PARCEL.split(b"\n", 1)[1]
    assert b"tenant:17" in body
    assert refusal(signed(body.replace(b"tenant:17", content))) is Malformed
    assert refusal(signed(body.replace(b'"units":4', b'"units":"' + content + b'"'))) is Malformed


def test_a_name_that_is_given_twice_is_malformed():
    body = PARCEL.split(b"\n", 1)[1]
    for old, new in ((b'"number":3', b'"number":3,"number":4'), (b'"units":4', b'"units":4,"units":5')):
        assert old in body
        with pytest.raises(Malformed, match=f"^{new.split(b':')[0].decode()[1:-1]!r} is given twice"):
            open_frame(signed(body.replace(old, new)), TRUST, "site", at=0)


def test_json_as_others_write_it_is_good():
    """The bytes are signed, not a form of them: another program may write its JSON in its own way."""
    body = json.dumps(json.loads(PARCEL.split(b"\n", 1)[1]), indent=2, sort_keys=True).encode()
    assert open_frame(signed(body), TRUST, "site", at=0) == ENVELOPE


def test_a_frame_may_be_as_large_as_the_limit_and_no_larger():
    texts = ["x" * 60_000] * 4
    room = FRAME_BYTES - len(seal(msgspec.structs.replace(ENVELOPE, fields={"a": [*texts, ""]}), KEY))
    largest, larger = (
        msgspec.structs.replace(ENVELOPE, fields={"a": [*texts, "x" * size]}) for size in (room, room + 1)
    )
    frame = seal(largest, KEY)
    assert len(frame) == FRAME_BYTES == 262_144
    assert open_frame(frame, TRUST, "site", at=0) == largest
    assert refusal(frame + b" ") is TooLarge
    with pytest.raises(TooLarge):
        seal(larger, KEY)


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 0},
        {"lease": "a b"},
        {"fields": {"a": float("nan")}},
        {"fields": {"a": float("inf")}},
        {"fields": {"a": {1, 2}}},
        {"fields": {1: 2}},
        {"fields": {"a": "\ud800"}},
        {"fields": {"a": b"x"}},
        {"version": 2},
        {"system": None},
        {"lease": b"x"},
    ],
    ids=str,
)
def test_what_no_receiver_would_take_is_not_sealed(changes):
    with pytest.raises(Malformed):
        seal(msgspec.structs.replace(ENVELOPE, **changes), KEY)


@pytest.mark.parametrize("kind", ["no JSON", "nested too deep"])
def test_what_cannot_even_be_written_is_not_sealed(kind: str) -> None:
    value = object() if kind == "no JSON" else nested(100_000, False)
    for field in ("number", "message", "epoch", "sending_machine"):
        with pytest.raises(Malformed):
            seal(msgspec.structs.replace(ENVELOPE, **{field: value}), KEY)


def test_the_parts_of_an_envelope_are_given_by_name() -> None:
    """There are many texts among them, and two that changed places would be signed all the same."""
    with pytest.raises(TypeError):
        Envelope(*(getattr(ENVELOPE, name) for name in Envelope.__struct_fields__))


def test_an_envelope_does_not_change():
    with pytest.raises(AttributeError):
        ENVELOPE.number = 4  # type: ignore[misc]
