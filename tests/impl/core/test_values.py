"""Values of the specification as plain data, and back: every type, at the edges of its range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.core import values as module
from leasehold.impl.core.values import (
    DEEPEST,
    OPAQUE_BYTES,
    ValueFault,
    bounds,
    check_kept,
    check_sizes,
    checked_plain,
    from_plain,
    given_fields,
    named_fields,
    to_plain,
)
from leasehold.spec.language import types as t

LARGEST = 2**63 - 1
COLOUR = t.Enum("colour", ("red", "green", "blue"))
SITE = t.Instance("site", 3)
SMALL = t.Int(-2, 5)
HALF = chr(0xD800)  # of a surrogate pair
OTHER_HALF = chr(0xDFFF)

VALUES: list[tuple[t.Type, Any, Any]] = [
    (t.Bool(), True, True),
    (SMALL, -2, -2),
    (SMALL, 5, 5),
    (t.Int(), LARGEST, LARGEST),
    (t.Int(), -LARGEST, -LARGEST),
    (t.Int(low=3), 3, 3),
    (t.Time(), 0, 0),
    (t.Time(), LARGEST, LARGEST),
    (SITE, 0, 0),
    (SITE, 2, 2),
    (COLOUR, "blue", "blue"),
    (t.Opaque(), {"a": [1, None, True, 1.5, {"b": "c"}]}, {"a": [1, None, True, 1.5, {"b": "c"}]}),
    (t.Opaque(), LARGEST, LARGEST),
    (t.Set(COLOUR), frozenset(), []),
    (t.Set(COLOUR), frozenset({"blue", "red"}), ["red", "blue"]),
    (t.Set(SITE), frozenset({2, 0}), [0, 2]),
    (t.Map(SITE, COLOUR), ("red", "blue", "red"), ["red", "blue", "red"]),
    (t.Map(COLOUR, t.Set(SITE)), (frozenset({1, 0}), frozenset(), frozenset({2})), [[0, 1], [], [2]]),
    (t.Seq(COLOUR, 2), (), []),
    (t.Seq(COLOUR, 2), ("red", "red"), ["red", "red"]),
    (t.Seq(SITE, 3), (2, 0, 1), [2, 0, 1]),
    (t.Option(COLOUR), None, None),
    (t.Option(COLOUR), "red", "red"),
    (t.Option(t.Set(SITE)), frozenset({2, 1}), [1, 2]),
    (t.Option(t.Set(SITE)), None, None),
    (t.Option(None), None, None),
    (t.Option(t.Bool()), False, False),
    (t.Option(SMALL), 0, 0),
    (t.Map(SITE, t.Option(COLOUR)), (None, "red", None), [None, "red", None]),
    (t.Map(COLOUR, SMALL), (-2, 0, 5), [-2, 0, 5]),
    (t.Opaque(), {}, {}),
    (t.Opaque(), [[]], [[]]),
    (t.Opaque(), None, None),
    (t.Opaque(), "x" * 200 + "é", "x" * 200 + "é"),
]

WRONG: list[tuple[t.Type, Any, str]] = [
    (t.Bool(), 1, "1 is no bool"),
    (t.Bool(), None, "none is no bool"),
    (SMALL, -3, r"-3 is not within -2\.\.5"),
    (SMALL, 6, r"6 is not within -2\.\.5"),
    (SMALL, True, "True is no int"),
    (SMALL, 1.0, "1.0 is no int"),
    (t.Int(low=3), 2, r"2 is not within 3\.\."),
    (t.Int(high=3), 4, r"4 is not within \.\.3"),
    (t.Int(), LARGEST + 1, "more than 64 bits"),
    (t.Int(), -LARGEST - 1, "more than 64 bits"),
    (t.Time(), -1, r"-1 is not within 0\.\."),
    (t.Time(), LARGEST + 1, "more than 64 bits"),
    (t.Time(), "3", "'3' is no time"),
    (SITE, 3, r"3 is not within 0\.\.2"),
    (SITE, -1, r"-1 is not within 0\.\.2"),
    (COLOUR, "gren", r"'gren' is none of red, green, blue; did you mean `green`\?"),
    (COLOUR, "zzzz", "'zzzz' is none of red, green, blue$"),
    (COLOUR, 1, "1 is none of"),
    (t.Set(COLOUR), ["red", "red"], "names a member twice"),
    (t.Set(COLOUR), "red", "is no set"),
    (t.Set(SITE), [1, 3], "3 is not within"),
    (t.Set(COLOUR), {"red": 1}, "is no set"),
    (t.Map(SITE, COLOUR), ["red", "red"], "is no map"),
    (t.Map(SITE, COLOUR), ["red"] * 4, "is no map"),
    (t.Map(SITE, COLOUR), ["red", "red", "rad"], "'rad' is none of"),
    (t.Map(SITE, COLOUR), "abc", "is no map"),
    (t.Seq(COLOUR, 2), ["red"] * 3, r"^\['red', 'red', 'red'\] has 3 values, and 2 are the most$"),
    (t.Seq(COLOUR, 2), ["red", "rad"], "'rad' is none of"),
    (t.Seq(COLOUR, 2), "red", r"^'red' is no seq\[colour, 2\]$"),
    (t.Seq(COLOUR, 2), {"red": 1}, "is no seq"),
    (t.Seq(COLOUR, 2), None, "none is no seq"),
    (t.Option(COLOUR), "rad", "'rad' is none of"),
    (t.Opaque(), LARGEST + 1, "more than 64 bits"),
    (t.Opaque(), [-LARGEST - 1], "more than 64 bits"),
    (t.Opaque(), {"a": [HALF]}, "half of a surrogate pair"),
    (t.Opaque(), {OTHER_HALF: 1}, "half of a surrogate pair"),
    (t.Opaque(), {1: 2}, "not plain data"),
    (t.Opaque(), {1, 2}, "not plain data"),
    (t.Opaque(), object, "not plain data"),
    (t.Option(None), "red", "'red' is no option"),
    (t.Option(COLOUR), [], r"\[\] is none of"),
    (t.Set(None), [], "is no set"),
    (t.Seq(None), [], "is no seq"),
    (t.UNKNOWN, 1, "1 is no"),
    (t.Bool(), "true", "'true' is no bool"),
    (COLOUR, None, "none is none of"),
    (COLOUR, ["red"], "is none of"),
    (t.Time(), None, "none is no time"),
    (t.Time(), True, "True is no time"),
    (SITE, False, "False is no site"),
]


@pytest.mark.parametrize(("kind", "value", "plain"), VALUES)
def test_a_value_is_plain_data_and_back(kind: t.Type, value: Any, plain: Any) -> None:
    assert to_plain(kind, value) == plain
    assert from_plain(kind, plain) == value
    assert checked_plain(kind, value) == plain
    assert from_plain(kind, msgspec.msgpack.decode(msgspec.msgpack.encode(plain))) == value


@pytest.mark.parametrize(("kind", "plain", "words"), WRONG, ids=[f"{n} {kind}" for n, (kind, _, _) in enumerate(WRONG)])
def test_what_is_no_value_of_its_type_is_refused_with_the_reason(kind: t.Type, plain: Any, words: str) -> None:
    with pytest.raises(ValueFault, match=words):
        from_plain(kind, plain)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (t.Map(SITE, SMALL), (0, 6, 0)),
        (t.Option(SMALL), 6),
        (t.Set(SITE), frozenset({3})),
        (t.Option(SITE), -1),
        (t.Seq(SMALL, 2), (0, 6)),
        (t.Seq(SMALL, 2), (0, 0, 0)),
    ],
)
def test_a_value_that_has_left_its_range_is_not_written(kind: t.Type, value: Any) -> None:
    with pytest.raises(ValueFault):
        checked_plain(kind, value)


def test_equal_values_of_different_kinds_stay_what_they_are() -> None:
    """A map's values that are one object are converted once; those that are equal alone are not."""
    cells = (1, True, 1.0, 1, {"a": [1, True]}, {"a": [True, 1]})
    kind = t.Map(t.Enum("place", tuple("abcdef")), t.OPAQUE)
    plain = to_plain(kind, cells)
    assert [type(one) for one in plain] == [int, bool, float, int, dict, dict]
    assert repr(from_plain(kind, plain)) == repr(cells)


def test_a_wrong_value_is_found_wherever_it_stands() -> None:
    kind = t.Map(t.Enum("place", tuple("abcd")), t.Int(0, 3))
    for place in range(4):
        with pytest.raises(ValueFault, match=r"7 is not within 0\.\.3"):
            from_plain(kind, [7 if n == place else 1 for n in range(4)])


def test_an_opaque_value_is_as_deep_as_the_limit_and_no_deeper() -> None:
    def nested(levels: int, kind: type) -> Any:
        found: Any = 1
        for _ in range(levels):
            found = [found] if kind is list else {"a": found}
        return found

    assert DEEPEST == 20
    for kind in (list, dict):
        deep = nested(DEEPEST, kind)
        assert from_plain(t.Opaque(), deep) == deep
        with pytest.raises(ValueFault, match="it is nested more than 20 deep"):
            from_plain(t.Opaque(), nested(DEEPEST + 1, kind))


def test_bounds() -> None:
    assert module.LARGEST == LARGEST
    assert [bounds(kind) for kind in (SMALL, t.Int(), t.Time(), SITE, COLOUR)] == [
        (-2, 5),
        (None, None),
        (0, None),
        (0, 2),
        (None, None),
    ]


FIELDS = (("units", t.Int(low=1)), ("end", t.Time()))


def test_fields_by_name_come_in_their_order() -> None:
    assert named_fields(FIELDS, {"end": 9, "units": 2}) == (2, 9)
    assert named_fields((), {}) == ()


def test_what_is_opaque_need_not_be_said_by_a_policy_and_must_be_by_a_peer() -> None:
    fields = (*FIELDS, ("reason", t.OPAQUE))
    assert given_fields(fields, {"units": 2, "end": 9}) == (2, 9, 0)
    assert given_fields(fields, {"units": 2, "end": 9, "reason": "few"}) == (2, 9, "few")
    with pytest.raises(ValueFault, match="field `end` is missing"):
        given_fields(fields, {"units": 2})
    with pytest.raises(ValueFault, match="field `reason` is missing"):
        named_fields(fields, {"units": 2, "end": 9})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"units": 2}, "field `end` is missing"),
        ({"end": 2}, "field `units` is missing"),
        ({"units": 0, "end": 9}, r"field `units`: 0 is not within 1\.\."),
        ({"units": 2, "end": -1}, r"field `end`: -1 is not within 0\.\."),
        ({"units": 2, "ende": 1}, r"there is no field 'ende'; did you mean `end`\?"),
        ({"units": 2, "end": 1, "price": 1}, "there is no field 'price'; it has units, end"),
    ],
)
def test_fields_that_do_not_fit(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueFault, match=words):
        named_fields(FIELDS, fields)


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        (t.OPAQUE, lambda value: value),
        (t.Option(t.OPAQUE), lambda value: value),
        (t.Map(SITE, t.OPAQUE), lambda value: (0, value, 0)),
        (t.Option(t.Map(SITE, t.OPAQUE)), lambda value: (value, 0, 0)),
    ],
)
def test_an_opaque_value_from_outside_has_a_largest_size_wherever_it_stands(
    kind: t.Type, of: Callable[[Any], t.Value]
) -> None:
    fields = (("units", t.Int()), ("said", kind))
    largest = {"a": "x" * (OPAQUE_BYTES - len('{"a":""}'))}
    check_sizes(fields, (2, of(largest)))
    with pytest.raises(
        ValueFault, match=f"field `said`: it has {OPAQUE_BYTES + 1} bytes, and {OPAQUE_BYTES} are the most"
    ):
        check_sizes(fields, (2, of({"a": largest["a"] + "x"})))


def test_a_field_without_opaque_values_may_be_of_any_size() -> None:
    check_sizes(
        (("who", t.Set(SITE)), ("at", t.Option(SMALL)), ("n", t.Map(SITE, t.Int()))), (frozenset({1}), None, (9, 9, 9))
    )


def test_a_long_value_is_shortened_in_the_reason() -> None:
    with pytest.raises(ValueFault) as fault:
        from_plain(t.Bool(), "x" * 1000)
    assert str(fault.value) == f"'{'x' * 56}... is no bool"
    with pytest.raises(ValueFault) as fault:
        from_plain(t.Bool(), "x" * 58)  # 60 characters with its quotes
    assert str(fault.value) == f"'{'x' * 58}' is no bool"


@given(st.frozensets(st.sampled_from(COLOUR.members)), st.tuples(*[st.integers(-2, 5)] * 3))
def test_any_set_and_map(colours: frozenset[str], numbers: tuple[int, ...]) -> None:
    for kind, value in ((t.Set(COLOUR), colours), (t.Map(SITE, SMALL), numbers)):
        assert from_plain(kind, to_plain(kind, value)) == value


# Instances as the language writes them


ONE, MANY = t.Instance("broker", 1, indexed=False), t.Instance("van", 2, dynamic=True)


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        (SITE, "site[0]", 0),
        (SITE, "site[2]", 2),
        (ONE, "broker", 0),
        (MANY, "van[2]", 2),
        (MANY, f"van[{t.LARGEST_NUMBER}]", t.LARGEST_NUMBER),
        (MANY, t.LARGEST_NUMBER, t.LARGEST_NUMBER),
    ],
)
def test_an_instance_may_be_named(kind: t.Type, text: Any, number: int) -> None:
    assert from_plain(kind, text) == number


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        *(
            (SITE, text, r"is none of site\[0\] to site\[2\]")
            for text in (
                "site[3]",
                "site[-1]",
                "site[01]",
                "site",
                "site[]",
                "site[1",
                "1",
                "1]",
                "sites[1]",
                "Site[1]",
                "site[1]]",
                "",
                "site[٢]",
                "site[99999999999]",
            )
        ),
        *((ONE, text, "is not broker") for text in ("broker[0]", "broker]", "brokers", "", "0")),
        (MANY, f"van[{t.LARGEST_NUMBER + 1}]", rf"is none of van\[0\] to van\[{t.LARGEST_NUMBER}\]"),
        (MANY, t.LARGEST_NUMBER + 1, r"is not within 0\.\."),
    ],
)
def test_a_text_that_names_no_instance_is_refused(kind: t.Type, text: Any, words: str) -> None:
    with pytest.raises(ValueFault, match=words):
        from_plain(kind, text)


# Opaque values that come from outside


def _nested(levels: int, kind: type, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = [inner] if kind is list else {"a": inner}
    return inner


SAID = (("units", t.Int()), ("said", t.OPAQUE))


@pytest.mark.parametrize("kind", [list, dict])
def test_an_opaque_value_from_outside_is_less_deep_than_one_in_a_record(kind: type) -> None:
    """The deepest is taken, bare or beside others; one level more is refused, with its field."""
    check_sizes(SAID, (1, _nested(module.OPAQUE_DEEPEST, kind)))
    check_sizes(SAID, (1, [2, _nested(module.OPAQUE_DEEPEST - 1, kind), 3]))
    for deep in (_nested(module.OPAQUE_DEEPEST + 1, kind), [2, _nested(module.OPAQUE_DEEPEST, kind), 3]):
        with pytest.raises(ValueFault, match=r"^field `said`: it is nested more than 14 deep$"):
            check_sizes(SAID, (1, deep))


def test_a_name_in_an_opaque_value_has_a_largest_length_wherever_it_stands() -> None:
    longest, inner = "x" * module.OPAQUE_NAME, cast(Any, None)
    assert module.OPAQUE_NAME == 200
    for inner in ({longest: 1}, {"a": {longest: 1}}, [{longest: 1}], {"a": 1, longest: []}):
        check_sizes(SAID, (1, inner))
    for inner in ({longest + "x": 1}, {"a": {longest + "x": 1}}, [0, {longest + "x": 1}], {"a": 1, longest + "x": []}):
        with pytest.raises(ValueFault, match=r"^field `said`: the name 'x{56}\.\.\. has 201 characters, and 200 are"):
            check_sizes(SAID, (1, inner))
    check_sizes(SAID, (1, longest + "x"))  # a text is no name


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_has_not_is_refused_from_outside_wherever_it_stands(number: float) -> None:
    check_sizes(SAID, (1, [1.5, {"a": -0.5}]))
    for inner in (number, [number], {"a": [1, number]}, [0, {"b": number}]):
        with pytest.raises(ValueFault, match=rf"^field `said`: {number} is no number that JSON has$"):
            check_sizes(SAID, (1, inner))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({1: 2}, "field `local`: .*is not plain data"),
        (object(), "field `local`: .*is not plain data"),
        (2**63, "field `local`: .*more than 64 bits"),
        (float("inf"), "field `local`: inf is no number"),
        (_nested(15, list), "field `local`: it is nested more than 14 deep"),
        ("x" * OPAQUE_BYTES, f"field `local`: it has {OPAQUE_BYTES + 2} bytes"),
    ],
    ids=["key", "object", "large", "inf", "deep", "long"],
)
def test_what_no_record_can_hold_or_no_message_carry_is_not_kept(given: Any, words: str) -> None:
    with pytest.raises(ValueFault, match=words):
        check_kept("local", given)


@pytest.mark.parametrize("given", [None, 0, -LARGEST, "x" * (OPAQUE_BYTES - 2), {"a": [1.5]}, _nested(14, dict)])
def test_what_can_be_kept(given: Any) -> None:
    check_kept("local", given)


def test_a_name_in_an_opaque_value_is_a_text_that_can_be_written() -> None:
    """Names are checked at the deepest level too."""
    deepest = _nested(DEEPEST - 1, list, {"é": "b"})
    assert from_plain(t.Opaque(), deepest) == deepest
    with pytest.raises(ValueFault, match="half of a surrogate pair"):
        from_plain(t.Opaque(), _nested(DEEPEST - 1, list, {HALF: 1}))
    for edge in ("\ud7ff", "\ue000", "\U00010000"):
        assert from_plain(t.Opaque(), [edge]) == [edge]
