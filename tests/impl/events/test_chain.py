"""Chains: their form, keys that change, and what is pruned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leasehold.impl.events.chain import ChainError, ChainVerifier, ChainWriter, Head, Tampering, verify
from leasehold.impl.events.event import (
    ROOT,
    EventError,
    ForgottenEvent,
    PrunedEvent,
    RecoveredEvent,
    digest,
    read,
    write,
)
from leasehold.impl.events.lines import EventLines, verify_lines, write_lines
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add, revoke, rotate

OLD, NEW = PrivateKey.generate(), PrivateKey.generate()
TRUST = add(Trust(), "site", "authority", OLD.public)
FIRST = ["kind", "position", "before", "actor", "epoch", "spec", "now", "time", "commit"]
ROTATED = rotate(TRUST, "site", NEW.public, old_until=100)


class Chain:
    """A chain that is being written; each event is a forgotten lease."""

    def __init__(self) -> None:
        self.writer = ChainWriter("site", "5" * 64, 1)
        self.bodies: list[bytes] = []

    def add(self, count: int = 1, make: Any = ForgottenEvent, time: float = 1.0, **fields: Any) -> Chain:
        for _ in range(count):
            given = fields or {"lease": f"tenant:{len(self.bodies)}", "machine": "authority", "state": "closed"}
            self.bodies.append(self.writer.append(make, 1, time, len(self.bodies), **given))
        return self

    def seal(self, key: PrivateKey, time: float = 1.0) -> Chain:
        self.bodies.append(self.writer.seal(key, "many", 1, time, len(self.bodies)))
        return self

    def check(self, trust: Trust = TRUST, first: int = 1) -> Any:
        return verify(trust, "site", enumerate(self.bodies[first - 1 :], first), self.writer.head)


def test_an_event_is_a_line_of_json_and_names_the_one_before() -> None:
    chain = Chain().add(2)
    first, second = map(json.loads, chain.bodies)
    assert first == {
        "kind": "forgotten",
        "position": 1,
        "before": ROOT,
        "actor": "site",
        "epoch": 1,
        "spec": "5" * 64,
        "now": 1,
        "time": 1.0,
        "commit": 0,
        "lease": "tenant:0",
        "machine": "authority",
        "state": "closed",
    }
    assert second["before"] == digest(chain.bodies[0])
    assert [*first][:9] == [*second][:9] == FIRST
    assert all(write(read(body)) == body and b"\n" not in body for body in chain.bodies)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"kind":"dance"}', b"\xff", b'{"kind":"seal","more":1}'])
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(EventError, match="it is no event"):
        read(body)


@pytest.mark.parametrize("kept", [b"", b"x", b"1 2 3", b"1 2 x 4", b"\xff 1 2 3"])
def test_what_is_no_head_is_refused(kept: bytes) -> None:
    assert Head.of(bytes(Head(7, "d", 8, 9))) == Head(7, "d", 8, 9)
    with pytest.raises(EventError, match="is no head of a chain"):
        Head.of(kept)


def test_one_signature_vouches_for_all_before_it() -> None:
    whole = Chain().add(5).seal(OLD).add(2).check()
    assert (whole.first, whole.last, whole.sealed, whole.seals) == (1, 8, 6, 1)
    assert verify(TRUST, "site", []) == (1, 0, ROOT, 0, 0)


def test_a_seal_of_nobody_s_key_and_an_unknown_actor_are_found() -> None:
    for chain, trust in ((Chain().add().seal(NEW), TRUST), (Chain().add().seal(OLD), Trust())):
        with pytest.raises(
            ChainError, match=r"event 2: (the key .* is none of site|no actor site is trusted)"
        ) as caught:
            chain.check(trust)
        assert caught.value.kind is Tampering.FORGED


def test_both_keys_count_after_a_rotation() -> None:
    """The old one until its end, by the time of the seal."""
    chain = Chain().add().seal(OLD, time=99).add(time=150).seal(NEW, time=150).add()
    assert chain.check(ROTATED).sealed == 4
    late = Chain().add().seal(OLD, time=100)
    with pytest.raises(ChainError, match=r"event 2: the key .* of site had expired, and no later seal covers it"):
        late.check(ROTATED)
    assert late.seal(NEW, time=101).check(ROTATED).sealed == 3


def test_what_a_revoked_key_has_sealed_is_believed_only_below_a_later_seal() -> None:
    revoked = revoke(ROTATED, "site", OLD.public.fingerprint)
    chain = Chain().add().seal(OLD)
    with pytest.raises(ChainError, match=r"event 2: the key .* is revoked") as caught:
        chain.check(revoked)
    assert caught.value.kind is Tampering.REVOKED
    with pytest.raises(ChainError, match=r"event 2: the key .* is revoked"):
        chain.add().seal(OLD).check(revoked)
    assert chain.seal(NEW).check(revoked).sealed == 5


def pruned(until: int = 3, root: str = "") -> Chain:
    chain = Chain().add(5)
    return chain.add(1, PrunedEvent, until=until, root=root or digest(chain.bodies[2]))


def test_a_pruned_chain_begins_where_a_sealed_event_says() -> None:
    assert pruned().seal(OLD).check(first=4).first == 4
    for chain, words in (
        (pruned(), "no seal covers event 6"),
        (pruned(until=2).seal(OLD), "no event says that they were dropped"),
        (pruned(root="0" * 64).seal(OLD), "it does not follow the one that was dropped last, of which event 6 tells"),
        (Chain().add(5).seal(OLD), "no event says that they were dropped"),
    ):
        with pytest.raises(ChainError, match=f"event 4: .*{words}") as caught:
            chain.check(first=4)
        assert caught.value.kind is Tampering.ROOTLESS


def test_a_reader_goes_on_where_it_was() -> None:
    """With the digest of its last event it knows whether it is still the same chain."""
    chain, other = Chain().add(4).seal(OLD), Chain().add(2, time=2.0).add(2).seal(OLD)
    verifier = ChainVerifier(TRUST, "site", after=2, before=digest(chain.bodies[1]))
    for body in chain.bodies[2:]:
        verifier.take(body)
    assert verifier.end(chain.writer.head).first == 3
    verifier = ChainVerifier(TRUST, "site", after=2, before=digest(chain.bodies[1]))
    with pytest.raises(ChainError, match="event 3: it does not follow the event before"):
        verifier.take(other.bodies[2])
    verifier = ChainVerifier(TRUST, "site", after=2)
    with pytest.raises(ChainError, match="event 3: it is missing: event 4 comes in its place"):
        verifier.take(chain.bodies[3])


def test_lines_are_as_good_as_their_store() -> None:
    chain = Chain().add(1, RecoveredEvent, agreement="a", machines=0).add(3).seal(OLD).add(2)
    lines = [*write_lines("site", chain.bodies, 7.0, key=OLD)]
    assert [*EventLines(line + b"\r\n" for line in lines)] == chain.bodies
    assert verify_lines(TRUST, lines).sealed == 7  # the end is signed, and vouches for all
    part = [*write_lines("site", chain.bodies[2:], 7.0, (2, digest(chain.bodies[1])), OLD)]
    assert verify_lines(TRUST, part).first == 3
    none = [*write_lines("site", [], 7.0, (7, digest(chain.bodies[-1])), OLD)]
    assert verify_lines(TRUST, none)[:2] == (8, 7)
    unsigned = [*write_lines("site", chain.bodies, 7.0)]
    assert verify_lines(TRUST, unsigned, unsigned=True).sealed == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[1:], "the first line is no header"),
        (lambda lines: [], "there is no line of events"),
        (
            lambda lines: [b'{"kind":"header","version":2,"actor":"site","after":0}'],
            "the lines have version 2",
        ),
        (lambda lines: lines[:-1], "event 4: the last line is missing"),
        (lambda lines: lines[:-2] + lines[-1:], "event 3: it is missing, as the last line says that events go on to 3"),
        (lambda lines: [*lines, lines[1]], "event 4: a line comes after the end"),
        (lambda lines: [*lines[:-1], b'{"kind":"end"}'], "the last line is no end of events"),
        (lambda lines: [*lines[:-1], [*write_lines("site", [], 7.0, (3, ROOT), OLD)][-1]], "speaks of another end"),
        (lambda lines: [*lines[:-1], [*write_lines("site", [], 7.0, (2, ROOT), OLD)][-1]], "speaks of another end"),
        (lambda lines: [b'{"kind":"header","version":1,"actor":"broker","after":0}', *lines[1:]], "not of broker"),
    ],
)
def test_lines_that_are_not_whole_are_found(change: Any, words: str) -> None:
    chain = Chain().add(3)
    lines = [*write_lines("site", chain.bodies, 7.0, key=OLD)]
    with pytest.raises(ChainError, match=words):
        verify_lines(TRUST, change(lines))


def test_the_end_of_lines_needs_a_key_that_counts() -> None:
    chain = Chain().add(3)
    for key, trust, words in (
        (None, TRUST, "nobody has signed that events end here"),
        (NEW, TRUST, "is none of site"),
        (OLD, revoke(TRUST, "site", OLD.public.fingerprint), "is revoked"),
    ):
        with pytest.raises(ChainError, match=f"event 3: .*{words}"):
            verify_lines(trust, [*write_lines("site", chain.bodies, 7.0, key=key)])


def test_the_event_that_tells_of_pruning_itself_has_to_be_sealed() -> None:
    """A seal of before it vouches for nothing: anybody who can write the store could have appended it."""
    chain = Chain().add(5).seal(OLD)
    root = digest(chain.bodies[2])
    chain.add(make=PrunedEvent, until=3, root=root)
    with pytest.raises(ChainError, match="no seal covers event 7, which says so"):
        chain.check(first=4)
    assert chain.seal(OLD).check(first=4).first == 4


@pytest.mark.parametrize("trust", [None, TRUST], ids=["digests", "signatures"])
@pytest.mark.parametrize("position", [1, 2, 3])
@pytest.mark.parametrize("root", [ROOT, "d" * 64], ids=["none", "one"])
def test_only_an_event_that_is_not_the_first_names_one_before(trust: Trust | None, position: int, root: str) -> None:
    """Digests alone fit whatever the first event names; events below it may have been pruned."""
    writer = ChainWriter("site", "5" * 64, 1, Head(position - 1, root))
    body = writer.append(ForgottenEvent, 1, 1.0, 1, lease="tenant:1", machine="authority", state="closed")
    verifier = ChainVerifier(trust, "site")
    if position == 1 and root != ROOT:
        with pytest.raises(ChainError, match="it is the first event, and names one before") as error:
            verifier.take(body)
        assert (error.value.kind, error.value.position) == (Tampering.ALTERED, 1)
    else:
        assert verifier.take(body).position == position
