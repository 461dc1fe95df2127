"""Ends of chains and of lines: each claim of where events end, next to each chain, and each field that is told."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from leasehold.impl.events.chain import ChainError, ChainVerifier, ChainWriter, Head, Tampering, Verified, verify
from leasehold.impl.events.event import ROOT, ForgottenEvent, PrunedEvent, SealEvent, digest, read
from leasehold.impl.events.lines import EventLines, LinesEnd, LinesHeader, verify_lines, write_lines
from leasehold.impl.identity.trust import Trust
from tests.impl.events.test_chain import NEW, OLD, TRUST, Chain

OTHER = "d" * 64
CHAIN = Chain().add(3).seal(OLD).add(2)  # events 1 to 6, sealed up to 4
BODIES, LAST = CHAIN.bodies, digest(CHAIN.bodies[-1])


def found(call: Any, *given: Any, **named: Any) -> tuple[Tampering, int, str]:
    """Returns kind, position and reason of what is wrong."""
    with pytest.raises(ChainError) as caught:
        call(*given, **named)
    return caught.value.kind, caught.value.position, caught.value.reason


# The writer


def test_a_chain_that_has_not_begun_has_an_empty_head() -> None:
    assert Head() == Head.of(None) == (0, ROOT, 0, 0)
    assert ChainWriter("site", "5" * 64, 1).head == Head()
    assert ChainVerifier(TRUST, "site").end() == Verified(1, 0, ROOT, 0, 0)


def test_each_field_of_an_event_is_as_it_was_given() -> None:
    """Fields that all differ, at appending and at sealing; the head goes on with each."""
    writer = ChainWriter("site", "5" * 64, 9, Head(20, OTHER, 30, 15))
    body = writer.append(ForgottenEvent, 41, 52.5, 63, lease="tenant:1", machine="authority", state="closed")
    first = {"before": OTHER, "actor": "site", "epoch": 9, "spec": "5" * 64, "now": 41, "time": 52.5, "commit": 63}
    own = {"kind": "forgotten", "lease": "tenant:1", "machine": "authority", "state": "closed"}
    assert json.loads(body) == {**first, **own, "position": 21}
    assert writer.head == Head(21, digest(body), 63, 15)
    seal = writer.seal(OLD, "asked", 42, 53.5, 64)
    told = json.loads(seal)
    assert len(told.pop("signature")) == 86
    assert [*json.loads(seal)][-1] == "signature"
    assert told == {
        "kind": "seal",
        "position": 22,
        "before": digest(body),
        "actor": "site",
        "epoch": 9,
        "spec": "5" * 64,
        "now": 42,
        "time": 53.5,
        "commit": 64,
        "why": "asked",
        "key": OLD.public.fingerprint,
    }
    assert writer.head == Head(22, digest(seal), 64, 22)


# The verifier


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 2])
@pytest.mark.parametrize("at", range(1, 7))
@pytest.mark.parametrize("told", ["nothing", "right", "wrong"])
def test_only_the_next_event_is_taken(after: int, taken: int, at: int, told: str) -> None:
    """Any event in the place of the next one, whether or not its source says its position."""
    verifier = ChainVerifier(TRUST, "site", after, digest(BODIES[after - 1]) if after else None)
    for body in BODIES[after : after + taken]:
        verifier.take(body)
    expected = after + taken + 1
    given = (BODIES[at - 1],) if told == "nothing" else (BODIES[at - 1], at if told == "right" else at + 1)
    if told == "wrong":
        assert found(verifier.take, *given) == (Tampering.ALTERED, at + 1, f"it says that it is event {at}")
    elif at == expected or not (after or taken):  # without a known beginning it may begin anywhere, as if pruned
        assert verifier.take(*given).position == at
        first = at if not taken else after + 1
        assert (verifier.first, verifier.last, verifier.digest) == (first, at, digest(BODIES[at - 1]))
    elif at > expected:
        words = f"it is missing: event {at} comes in its place"
        assert found(verifier.take, *given) == (Tampering.GAP, expected, words)
    else:
        words = f"it comes a second time, or too late: {expected} is the next"
        assert found(verifier.take, *given) == (Tampering.REPEATED, at, words)


@pytest.mark.parametrize(("taken", "told", "position"), [(0, None, 1), (0, 5, 5), (2, None, 3), (2, 3, 3)])
def test_what_is_no_event_is_in_the_place_of_the_next_one(taken: int, told: int | None, position: int) -> None:
    for after in (0, 2):
        verifier = ChainVerifier(None, "site", after)
        for body in BODIES[after : after + taken]:
            verifier.take(body)
        at = position if not after else after + taken + 1
        assert found(verifier.take, b"{}", told)[:2] == (Tampering.ALTERED, at)


@pytest.mark.parametrize("position", range(8))
@pytest.mark.parametrize("last", ["its own", "another"])
@pytest.mark.parametrize("count", [0, 5, 6])
def test_a_chain_ends_where_its_head_says_and_nowhere_else(position: int, last: str, count: int) -> None:
    own = digest(BODIES[count - 1]) if count else ROOT
    head = Head(position, own if last == "its own" else OTHER, 1, 0)
    ended = lambda: verify(TRUST, "site", enumerate(BODIES[:count], 1), head)  # noqa: E731
    if position == count and last == "its own":
        assert ended() == Verified(1, count, own, 4 if count else 0, 1 if count else 0)
    elif position > count:
        words = f"it is missing, as the chain goes on to event {position}"
        assert found(ended) == (Tampering.TRUNCATED, count + 1, words)
    elif position == count:
        assert found(ended) == (Tampering.ALTERED, count, "the chain ends with another event, as its source says")
    else:
        assert found(ended) == (Tampering.ALTERED, count, f"the chain ends at event {position}, as its source says")


def test_a_reader_that_finds_nothing_new_is_where_it_was() -> None:
    """A chain that is read on after its last event ends there, with the digest that the reader knows."""
    verifier = ChainVerifier(TRUST, "site", 6, LAST)
    assert verifier.end(CHAIN.writer.head) == Verified(7, 6, LAST, 6, 0)
    assert found(verifier.end, Head(6, OTHER, 1, 1))[0] is Tampering.ALTERED
    assert found(verifier.end, Head(7, LAST, 1, 1))[:2] == (Tampering.TRUNCATED, 7)


def test_digests_alone_vouch_for_no_signature() -> None:
    """Without a trust set seals are counted and none is believed; a pruned chain need not be sealed."""
    forged = Chain().add(2).seal(NEW).add(1)
    verifier = ChainVerifier(None, "site")
    for body in forged.bodies:
        verifier.take(body)
    assert verifier.end(forged.writer.head) == Verified(1, 4, digest(forged.bodies[-1]), 0, 1)
    chain = Chain().add(5)
    chain.add(1, PrunedEvent, until=3, root=digest(chain.bodies[2]))
    verifier = ChainVerifier(None, "site")
    for body in chain.bodies[3:]:
        verifier.take(body)
    assert verifier.end().first == 4


@pytest.mark.parametrize("begun", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("until", [1, 2, 3, 4])
def test_a_chain_begins_after_the_last_event_that_is_said_to_be_dropped(begun: int, until: int) -> None:
    chain = Chain().add(5)
    chain.add(1, PrunedEvent, until=until, root=digest(chain.bodies[until - 1])).seal(OLD)
    if begun in (1, until + 1):
        assert chain.check(first=begun).first == begun
    else:
        assert found(chain.check, first=begun)[:2] == (Tampering.ROOTLESS, begun)


def test_the_last_event_that_tells_of_pruning_counts() -> None:
    chain = Chain().add(4)
    chain.add(1, PrunedEvent, until=1, root=digest(chain.bodies[0])).seal(OLD)
    chain.add(1, PrunedEvent, until=3, root=digest(chain.bodies[2])).seal(OLD)
    assert chain.check(first=4).first == 4
    assert found(chain.check, first=2)[0] is Tampering.ROOTLESS


@pytest.mark.parametrize(
    ("position", "source", "words"),
    [(0, "", "odd"), (3, "", "event 3: odd"), (0, "a file", "a file: odd"), (3, "a file", "event 3 of a file: odd")],
)
def test_an_error_names_its_event_and_its_source(position: int, source: str, words: str) -> None:
    error = ChainError(Tampering.GAP, position, "odd", source)
    assert (str(error), error.kind, error.position, error.source) == (words, Tampering.GAP, position, source)
    assert error.reason == "odd"
    named = error.of("another")
    assert named.source == (source or "another")
    assert (named.kind, named.position, named.reason) == (Tampering.GAP, position, "odd")


def test_a_signature_stands_at_the_end_of_a_seal_and_signs_all_before_it() -> None:
    """One that is longer, shorter, in another place or of no such letters is none."""
    seal = BODIES[3]
    signature = b'"signature":"%b"' % json.loads(seal)["signature"].encode()
    for hurt in (
        seal.replace(b"," + signature, b""),
        seal.replace(b',"signature":"', b',"signature":"A'),
        seal.replace(signature, signature[:-2] + b'"'),
        seal.replace(signature, signature[:-2] + b'="'),
        b"{" + signature + b"," + seal[1:].replace(b"," + signature, b""),
    ):
        assert isinstance(read(hurt), SealEvent)
        verifier = ChainVerifier(TRUST, "site", 3)
        assert found(verifier.take, hurt) == (Tampering.FORGED, 4, "it is a seal without a signature")
    for old, new in ((b'"why":"many"', b'"why":"time"'), (b'"time":1.0', b'"time":2.0')):
        hurt = seal.replace(old, new)
        assert hurt != seal
        words = "the signature is not that of site"
        assert found(ChainVerifier(TRUST, "site", 3).take, hurt) == (Tampering.FORGED, 4, words)


def test_of_a_signature_s_letters_each_counts() -> None:
    """Any other letter in its place, also one that no 64 bytes are written with."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for body, check in (
        (BODIES[3], lambda seal: ChainVerifier(TRUST, "site", 3).take(seal)),
        (SIGNED[-1], lambda line: verify_lines(TRUST, [*SIGNED[:-1], line])),
    ):
        for at in (-3, -4, -40, -88):
            for letter in letters:
                hurt = bytearray(body)
                hurt[at] = letter
                if hurt != body:
                    assert found(check, bytes(hurt))[0] in (Tampering.FORGED, Tampering.TRUNCATED)


# Lines


def test_lines_say_whose_events_they_are_and_where_they_begin_and_end() -> None:
    """Header and end, field by field; the end's position is that of the last event, or the one that is given."""
    header = {"kind": "header", "version": 1, "actor": "site", "after": 0}
    end = {"kind": "end", "actor": "site", "position": 6, "digest": LAST, "time": 7.5}
    first, *bodies, last = write_lines("site", BODIES, 7.5)
    assert (json.loads(first), bodies, json.loads(last)) == (header, BODIES, end)
    first, *bodies, last = write_lines("site", BODIES[2:4], 7.5, (2, digest(BODIES[1])))
    assert (json.loads(first)["after"], bodies) == (2, BODIES[2:4])
    assert json.loads(last) == {**end, "position": 4, "digest": digest(BODIES[3])}
    first, last = write_lines("site", [], 7.5, (6, LAST))
    assert (json.loads(first)["after"], json.loads(last)) == (6, end)
    *_, last = write_lines("site", BODIES[:2], 7.5, end=(9, OTHER))
    assert json.loads(last) == {**end, "position": 9, "digest": OTHER}
    signed = json.loads([*write_lines("site", BODIES, 7.5, key=OLD)][-1])
    assert len(signed.pop("signature")) == 86
    assert signed == {**end, "key": OLD.public.fingerprint}


def test_header_and_end_are_what_was_read() -> None:
    lines = [*write_lines("site", BODIES, 7.5, (0, ROOT), OLD)]
    for end in (b"", b"\n", b"\r\n"):
        read_lines = EventLines([line + end for line in lines])
        assert (read_lines.header, read_lines.header_line) == (LinesHeader(1, "site", 0), lines[0])
        assert (read_lines.end, read_lines.end_line) == (None, b"")
        assert [*read_lines] == BODIES
        assert read_lines.end_line == lines[-1]
        assert read_lines.end is not None
        assert (read_lines.end.position, read_lines.end.time) == (6, 7.5)


@pytest.mark.parametrize("line", [0, -1], ids=["header", "end"])
def test_a_header_or_end_with_another_field_is_none(line: int) -> None:
    lines = [*write_lines("site", [], 7.5, (6, LAST), OLD)]
    lines[line] = lines[line][:-1] + b',"more":1}'
    assert "more" in found(verify_lines, TRUST, lines)[2]
    frozen: Any = (LinesHeader(1, "site", 0), LinesEnd("site", 0, ROOT, 1.0))[line]
    with pytest.raises(AttributeError):
        frozen.actor = "broker"
    assert msgspec.json.encode(LinesEnd("site", 0, ROOT, 1.0)).count(b":") == 5  # what has its default is left out


SIGNED = [*write_lines("site", BODIES, 7.0, key=OLD)]
HURT: list[tuple[str, list[bytes], Tampering, int]] = [
    ("no line", [], Tampering.ROOTLESS, 0),
    ("no header", SIGNED[1:], Tampering.ROOTLESS, 0),
    ("another version", [SIGNED[0].replace(b'"version":1', b'"version":2'), *SIGNED[1:]], Tampering.ROOTLESS, 0),
    ("version 0", [SIGNED[0].replace(b'"version":1', b'"version":0'), *SIGNED[1:]], Tampering.ROOTLESS, 0),
    ("an event too many", [*SIGNED, SIGNED[1]], Tampering.REPEATED, 7),
    ("two ends", [*SIGNED, SIGNED[-1]], Tampering.REPEATED, 7),
    ("no end", SIGNED[:-1], Tampering.TRUNCATED, 7),
    ("a header alone", SIGNED[:1], Tampering.TRUNCATED, 1),
    ("an end that is none", [*SIGNED[:-1], b'{"kind":"end"}'], Tampering.TRUNCATED, 0),
    ("events missing before the end", [*SIGNED[:5], SIGNED[-1]], Tampering.TRUNCATED, 5),
    ("an end of before", [*SIGNED[:-1], [*write_lines("site", BODIES[:5], 7.0, key=OLD)][-1]], Tampering.ALTERED, 6),
    ("another digest", [*write_lines("site", BODIES, 7.0, key=OLD, end=(6, OTHER))], Tampering.ALTERED, 6),
    ("an end of another actor", [*SIGNED[:-1], [*write_lines("b", BODIES, 7.0, key=OLD)][-1]], Tampering.ALTERED, 6),
    ("an end after another event", [*write_lines("site", BODIES[2:], 7.0, (1, ROOT), OLD)], Tampering.GAP, 2),
    ("nobody's signature", [*write_lines("site", BODIES, 7.0)], Tampering.TRUNCATED, 6),
    ("another key", [*write_lines("site", BODIES, 7.0, key=NEW)], Tampering.FORGED, 6),
    ("another time", [*SIGNED[:-1], SIGNED[-1].replace(b'"time":7.0', b'"time":8.0')], Tampering.FORGED, 6),
]


@pytest.mark.parametrize(("lines", "kind", "position"), [row[1:] for row in HURT], ids=[row[0] for row in HURT])
def test_lines_that_are_not_whole_are_found_in_their_place(lines: list[bytes], kind: Tampering, position: int) -> None:
    assert found(verify_lines, TRUST, lines)[:2] == (kind, position)


def test_a_signature_counts_also_where_none_is_needed() -> None:
    """An end that names a key is believed with that key's signature alone; without a key it is nobody's."""
    assert verify_lines(TRUST, SIGNED, unsigned=True).sealed == 6
    assert verify_lines(TRUST, [*write_lines("site", BODIES, 7.0)], unsigned=True).sealed == 4
    forged = [*write_lines("site", BODIES, 7.0, key=NEW)]
    assert found(verify_lines, TRUST, forged, unsigned=True)[:2] == (Tampering.FORGED, 6)
    bare = [*SIGNED[:-1], SIGNED[-1].partition(b',"signature"')[0] + b"}"]
    assert found(verify_lines, TRUST, bare, unsigned=True)[:2] == (Tampering.TRUNCATED, 6)
    assert found(verify_lines, Trust(), SIGNED, unsigned=True)[:2] == (Tampering.FORGED, 4)


def test_lines_without_events_end_after_the_event_that_they_follow() -> None:
    """Nobody knows that event's digest here; the signed end says it."""
    for position, kind in ((5, Tampering.ALTERED), (6, None), (7, Tampering.TRUNCATED)):
        lines = [*write_lines("site", [], 7.0, (6, LAST), OLD, (position, LAST))]
        if kind is None:
            assert verify_lines(TRUST, lines) == Verified(7, 6, ROOT, 6, 0)
        else:
            assert found(verify_lines, TRUST, lines)[0] is kind
