"""Reasons of findings: each alteration of a log is found at its event, as its kind of finding, in its words."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice

import pytest

from leasehold.checker.conform.findings import Nonconformity
from leasehold.checker.conform.known import KnownSystem
from leasehold.impl.events.event import AnyEvent, StepEvent
from tests.checker.conform.alterations import ALTERATIONS, TABLE, altered
from tests.checker.conform.walks import Log, judged, known, walked

# Of small systems, which together have messages of every kind, policies, handlers and both kinds of subsidiaries.
NAMES = (
    "two_phase_commit",
    "tests/impl/actor/lodge",
    "tests/checker/conform/depot",
    "examples/mutex",
    "tests/constructs/maps",
    "tests/constructs/urgent",
)
PLACES = 3  # at which each log is altered in one way

FOUND = {name: row for name, row in TABLE.items() if "words" in row}


@cache
def logs() -> tuple[tuple[str, KnownSystem, Log], ...]:
    return tuple((name, known(name), walked(name, seed)) for name in NAMES for seed in range(2))


def places(alteration: str) -> Iterator[tuple[KnownSystem, Log, str, int]]:
    """Yields logs with an alteration, and the actor and the index of the altered event."""
    for name, of, log in logs():
        every = [(actor, at) for actor, events in log.items() for at in range(len(events))]
        random.Random(f"{alteration} {name}").shuffle(every)
        made = ((altered(alteration, of, log, actor, at), actor, at) for actor, at in every)
        changed = ((other, actor, at) for other, actor, at in made if other is not None and other != log)
        for other, actor, at in islice(changed, PLACES):
            yield of, other, actor, at


def machines_of(event: AnyEvent) -> set[tuple[str, str]]:
    """The leases and machines that a finding at an event may name."""
    if not isinstance(event, StepEvent):
        return {("", "")}
    step = event.step
    return {(one.serves or step.serves or one.lease, one.machine) for one in step.walk()}


@pytest.mark.parametrize("alteration", FOUND)
def test_a_finding_says_what_is_wrong_and_where(alteration: str) -> None:
    """Its event is the altered one, its machine one of that event; the core is said to differ where it was asked."""
    (what,), words = FOUND[alteration]["found_by"]["conform"], FOUND[alteration]["words"]
    told, tried = 0, 0
    for of, other, actor, at in places(alteration):
        tried += 1
        findings, _ = judged(of, other)
        here = [one for one in findings if (one.actor, one.position) == (actor, at + 1)]
        right = [one for one in here if one.what == what and re.search(words, one.reason)]
        told += bool(right)
        for one in right:
            event = other[actor][at]
            if isinstance(event, StepEvent) and what in ("step", "record", "message"):
                assert (one.lease, one.machine) in machines_of(event), one
            if what == "step" and ("; the specification has " in one.reason or ", and the log has " in one.reason):
                assert one.compiled is (alteration != "another_cause"), "no core knows where an event comes from"
            assert_shown(one)
    assert told == tried > 1


def assert_shown(one: Nonconformity) -> None:
    """A finding as text names its event, its machine and lease where it has both, and two values that differ."""
    whose = f" ({one.machine} of {one.lease})" if one.lease and one.machine else ""
    wanted, of, has = one.reason.partition(", and the log has ")
    assert not of or not wanted.endswith(f" {has}"), "two that are alike do not differ"
    assert str(one) == f"event {one.position} of {one.actor}{whose}: {one.reason}"


def test_each_alteration_has_its_words_or_is_of_several_events() -> None:
    assert ALTERATIONS.keys() == TABLE.keys()
    assert len(FOUND) >= 51
