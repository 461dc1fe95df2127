"""Large values as pages, and what is no page or no value."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from leasehold.impl.identity import pages
from leasehold.impl.identity.pages import LIST, LISTS, MAP, MAPS, VALUE, Lacking, cut, digest, join, read_page
from leasehold.impl.identity.signed import FRAME_BYTES, Malformed, TooLarge

encode = msgspec.msgpack.Encoder(order="sorted").encode


def drawn(rng: random.Random, deep: int) -> Any:
    kind = rng.random()
    if not deep or kind < 0.4:
        return rng.choice([None, 1, -(2**63) + 1, 2.5, True, "", "ä" * rng.randrange(500)])
    if kind < 0.7:
        return [drawn(rng, deep - 1) for _ in range(rng.randrange(25))]
    return {f"n{n}": drawn(rng, deep - 1) for n in range(rng.randrange(25))}


@pytest.mark.parametrize("seed", range(100))
def test_a_value_is_put_together_of_its_pages(seed: int) -> None:
    value = drawn(random.Random(seed), 3)
    first, found = cut("site", value)
    assert join(first, found.get)[0] == value
    assert (first, found) == cut("site", value)
    assert all(digest("site", body) == name for name, body in found.items())
    other, others = cut("rival", value)
    assert other != first
    assert not others.keys() & found.keys()
    for name in random.Random(seed).sample(sorted(found), min(len(found), 5)):
        assert read_page(found[name]).size == len(found[name])
        with pytest.raises(Lacking) as caught:
            join(first, {k: v for k, v in found.items() if k != name}.get)
        assert caught.value.digests == (name,)
        assert pages.named_by(caught.value.reason) == [name]


def test_the_order_of_names_makes_no_difference() -> None:
    value = {f"n{n}": "x" * 100 for n in range(100)}
    assert cut("site", value) == cut("site", dict(reversed(value.items())))


@pytest.mark.parametrize("at", [0, 1, 499, 500, 999, 1000])
@pytest.mark.parametrize("size", [1, 200, 4000])
def test_a_member_more_or_less_leaves_most_pages_as_they_are(at: int, size: int) -> None:
    value = [{"unit": n, "words": "x" * size} for n in range(1000)]
    _, before = cut("site", value)
    for changed in ([*value[:at], {"unit": -1, "words": "y" * size}, *value[at:]], value[:at] + value[at + 1 :]):
        _, after = cut("site", changed)
        fresh = [body for name, body in after.items() if name not in before]
        assert sum(map(len, fresh)) <= 6000 + size
        assert len(fresh) <= 8
    assert max(map(len, before.values())) <= 2 * pages.WHOLE


@pytest.mark.parametrize("value", [[None] * 5000, list(range(5000)), [[n] for n in range(5000)], ["x" * 300] * 500])
def test_few_pages_hold_many_members_also_where_these_are_alike(value: list[Any]) -> None:
    first, found = cut("site", value)
    assert len(found) <= len(value) / 4
    assert join(first, found.get)[0] == value
    assert all(len(read_page(body).digests) <= pages.NAMED for body in found.values())


@pytest.mark.parametrize(
    ("value", "large"),
    [
        ("x" * 1021, False),
        ("x" * 1022, True),
        ([1] * 1021, False),
        ([1] * 1022, True),
        (2**63, False),
        (None, False),
        ({"a": "x" * 1100}, True),
        (object(), False),
        ({1: object()}, False),
        ("\ud800" * 2000, False),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_has_more_than_a_kilobyte_is_large(value: Any, large: bool) -> None:
    assert pages.is_large(value) == large


def test_a_value_may_be_as_large_as_a_message_s_and_a_part_as_a_frame() -> None:
    texts = ["x" * 60_000 + str(n) for n in range(150)]
    with pytest.raises(TooLarge, match="may have 8388608"):
        cut("site", texts)
    first, found = cut("site", texts[:130])
    size = sum(map(len, found.values()))
    assert join(first, found.get, size)[1] == 0
    with pytest.raises(TooLarge):
        join(first, found.get, size - 1)
    with pytest.raises(TooLarge, match="a part of a value has"):
        cut("site", ["x" * FRAME_BYTES])


def page(kind: int, items: Any) -> bytes:
    return encode([kind, items])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x92\x00",
        page(VALUE, 1) + b"\x00",
        page(5, []),
        page(-1, []),
        page(LIST, 1),
        page(LISTS, {}),
        encode([1]),
        encode([VALUE, 1, 2]),
        encode({"a": 1}),
        encode(["1", []]),
        encode([True, []]),
        page(LIST, [b"x"]),
        page(LISTS, [1]),
        page(MAPS, [b"x" * 32, 1]),
        page(MAP, ["a"]),
        page(MAP, [1, 2]),
        page(MAP, [b"x" * 32, 2]),
        b"\x92\xcc\x00\x01",
        b"\x92\x00\x82\xa1a\x01\xa1a\x02",
        b"\x92\x00\x82\xa1b\x01\xa1a\x02",
        b"\x92\x00" + b"\x91" * 100_000,
    ],
    ids=lambda body: body[:12].hex(),
)
def test_what_is_no_page_or_is_written_otherwise_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_page(body)


def a_store(*bodies: bytes) -> dict[bytes, bytes]:
    return {digest("site", body): body for body in bodies}


def test_pages_that_are_no_value_together_are_refused() -> None:
    some, named = page(LIST, [1]), page(MAP, ["a", 1])
    for outer, parts, words in (
        (LISTS, (named,), "is another's"),
        (MAPS, (some,), "is another's"),
        (LISTS, (page(VALUE, 1),), "is another's"),
        (MAPS, (named, named), "'a' is given twice"),
    ):
        root = page(outer, [digest("site", part) for part in parts])
        with pytest.raises(Malformed, match=words):
            join(digest("site", root), a_store(root, *parts).get)


def test_what_is_small_does_not_become_large_by_being_named_again_and_again() -> None:
    bodies = [page(LIST, ["x" * 100] * 20)]
    for _ in range(12):
        bodies.append(page(LISTS, [digest("site", bodies[-1])] * 60))
    with pytest.raises(TooLarge, match="have more than 8388608 bytes"):
        join(digest("site", bodies[-1]), a_store(*bodies).get)


@pytest.mark.parametrize("kind", [LIST, LISTS])
def test_pages_do_not_lie_deeper_than_a_limit(kind: int) -> None:
    bodies = [page(LIST, [1])]
    for _ in range(pages.DEPTH + 1):
        bodies.append(page(kind, [digest("site", bodies[-1])]))
    kept = a_store(*bodies)
    assert join(digest("site", bodies[-2]), kept.get)[0]
    with pytest.raises(Malformed, match="lie deeper than 64"):
        join(digest("site", bodies[-1]), kept.get)


def test_an_answer_names_so_many_digests_and_each_once() -> None:
    names = [digest("site", bytes([n])) for n in range(100)]
    assert pages.named_by(pages.names_of([*names[:3], names[0]])) == names[:3]
    assert pages.named_by(pages.names_of(names)) == names[: pages.NAMED]
    good = pages.names_of(names[:1])
    for words in ("", "x", "please send it", good[:-1], good + "A", good[:-1] + "=", "é" * 43):
        assert pages.named_by(words) == []
    assert pages.named_by(f"no {good} and") == names[:1]


@pytest.mark.parametrize(
    "head", [b"", b"leasehold1page", b"leasehold1page \n", b"leasehold1page a b\n", b"leasehold1 a\n"]
)
def test_a_frame_of_a_page_begins_with_its_owner(head: bytes) -> None:
    with pytest.raises(Malformed):
        pages.open_page(head + page(VALUE, 1))
    assert pages.open_page(pages.frame_of("site", page(VALUE, 1))) == ("site", page(VALUE, 1))
    with pytest.raises(TooLarge):
        pages.open_page(pages.frame_of("site", bytes(FRAME_BYTES)))


def text_of(size: int) -> str:
    """A text that has so many bytes as MessagePack."""
    head = 1 if size <= 32 else 2 if size <= 257 else 3 if size <= 65538 else 5
    found = "x" * (size - head)
    assert len(encode(found)) == size
    return found


@pytest.mark.parametrize(
    ("size", "count", "kind"),
    [(255, 1, None), (256, 1, None), (257, 2, VALUE), (8192, 2, VALUE), (8191, 2, VALUE)],
)
def test_a_member_has_a_page_of_its_own_where_it_is_larger_than_the_limit(size: int, count: int, kind: int) -> None:
    """A member of up to 256 bytes stands in its list, or under its name; a larger one is named by its digest."""
    for value in ([text_of(size)], {"a": text_of(size)}):
        first, found = cut("site", value)
        assert len(found) == count
        root = read_page(found[first])
        assert root.kind == (LIST if isinstance(value, list) else MAP)
        assert [read_page(found[name]).kind for name in root.digests] == ([] if kind is None else [kind])


@pytest.mark.parametrize(("size", "kind"), [(8192, VALUE), (8193, LIST)])
def test_a_member_up_to_a_limit_is_one_page_and_a_larger_one_is_cut(size: int, kind: int) -> None:
    numbers = [1] * 200
    member = [text_of(size - 3 - 200), *numbers]
    assert len(encode(member)) == size
    first, found = cut("site", [member])
    (name,) = read_page(found[first]).digests
    root = read_page(found[name])
    assert root.kind in ((kind,) if kind == VALUE else (LIST, LISTS))


def test_pages_are_the_same_in_every_version_of_this_program() -> None:
    """Two actors of different versions have the pages of a value in common: their limits and digests are fixed."""
    value = {
        "units": [{"unit": n, "words": "w" * (n % 300), "more": [n] * (n % 7)} for n in range(300)],
        "plain": [None, True, -1, 2.5, "ä"],
        "long": "x" * 9000,
    }
    first, found = cut("site", value)
    assert (first.hex(), len(found), sum(map(len, found.values()))) == (
        "816082d578620460a44c8cbd591a694591814620e0ff12f685c4bd1b3606f850",
        126,
        66534,
    )
    limits = (pages.SMALL, pages.VALUE_BYTES, pages.DEPTH, pages.NAMED, pages.MEMBER, pages.WHOLE, pages.PAGE)
    assert limits == (1024, 8_388_608, 64, 64, 256, 8192, 512)
    assert (VALUE, LIST, MAP, LISTS, MAPS) == (0, 1, 2, 3, 4)


def test_a_page_fills_a_frame_and_not_more() -> None:
    """Both ends count the same bytes: what is cut can be opened."""
    room = FRAME_BYTES - len(pages.frame_of("site", page(VALUE, "x" * 70_000))) + 70_000
    first, found = cut("site", "x" * room)
    frame = pages.frame_of("site", found[first])
    assert len(frame) == FRAME_BYTES
    assert pages.open_page(frame) == ("site", found[first])
    with pytest.raises(TooLarge):
        pages.open_page(frame + b"x")
    with pytest.raises(TooLarge, match="a part of a value has"):
        cut("site", "x" * (room + 1))
