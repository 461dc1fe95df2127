"""Every field of every kind of event, altered by one, is found; also where the oldest events were dropped.

What is not found is named here with the reason; a kind of event or a field that is new has to be found, or named.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import msgspec
import pytest

from leasehold.checker.conform.findings import JudgedLog
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.known import KnownSystem
from leasehold.impl.events.event import AnyEvent, RecoveredEvent, StepEvent
from tests.checker.conform import by_one
from tests.checker.conform.by_one import Alteration
from tests.checker.conform.test_alterations import logs
from tests.checker.conform.walks import Log

EACH = 1  # places of each alteration
MOST = 40  # events of a log: longer ones cost more and show the same

# By pattern of the alteration's name, why `conform` need not find it.
FREE = {
    r".* time [+-]1": "actors read different real clocks, which may be set",
    r".* commit [+-]1": "numbers of commits may be skipped: one may have no events",
    r"recovered now -1": "a clock may go back between two incarnations",
    r"recovered machines \+1": "as many records may follow of machines that stand",
    r"recovered (records|constants) one dropped": "an older version tells of none, nor who has too many",
    r"refused .*": "what was refused has changed nothing; what it was is known by its reason alone",
    r"seal .*": "seals are verified with the chain (impl/events/chain.py)",
    r"found (doubled|dropped|lease another)": "a record as at first says what is known without it",
    r"step now \+1": "no guard that was asked tells the two times apart, and no event of its commit is of another",
    r"step step\.fields\..*": "the world outside may say anything; of a message, another is found (below)",
    r"step step\.record\.data\.\* two swapped": "the members of a set may come in any order",
    r"step swapped with (seal|refused)": "neither has changed a record",
}
# Likewise, where the oldest events were dropped: what is the first of something, nobody has seen before.
FREE_AFTER_PRUNING = {
    r"found .*": "no event tells of the record before",
    r"recovered (dropped|machines|records|constants).*": "no event tells of all machines",
    r"step epoch -1": "the incarnation before may be in events that were dropped",
    r"step (dropped|swapped with .*)": "what a machine was before its first step is not known",
    r"step step\.cause another": "nobody knows what the state before has asked for",
    r"step step\.record\.data\..*(another|one dropped)": "nobody knows the record before the first step of a machine",
}


@cache
def pruned_logs() -> tuple[tuple[str, KnownSystem, Log], ...]:
    found = []
    for at, (name, of, log) in enumerate(logs()):
        chance = random.Random(f"{name} {at}")
        left = {actor: events[chance.randrange(max(1, len(events) // 2)) :] for actor, events in log.items()}
        found.append((name, of, left))
    return tuple(found)


def findings(of: KnownSystem, log: Mapping[str, list[AnyEvent]]) -> list[str]:
    before = {actor: events[0].position - 1 if events else 0 for actor, events in log.items()}
    conformance = LogConformance(of, [JudgedLog(actor, pruned=before[actor]) for actor in log])
    for event in conformance.merged(log.items()):
        conformance.take(event)
    conformance.end()
    return [str(found) for found in conformance.findings]


def is_free(name: str, reasons: Mapping[str, str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in reasons)


def of_a_message(log: Log, one: Alteration) -> bool:
    event = log[one.actor][one.at]
    return isinstance(event, StepEvent) and event.step.received is not None


@pytest.mark.long
@pytest.mark.parametrize("dropped", [False, True], ids=["whole", "after pruning"])
def test_whatever_is_altered_by_one_is_found(dropped: bool) -> None:
    given = [one for one in (pruned_logs() if dropped else logs())[::2] if sum(map(len, one[2].values())) <= MOST]
    free = {**FREE, **(FREE_AFTER_PRUNING if dropped else {})}
    pool = by_one.pool_of([log for _, _, log in given])
    places: dict[str, list[tuple[str, KnownSystem, Log, Alteration]]] = defaultdict(list)
    for name, of, log in given:
        assert findings(of, log) == []
        for one in by_one.alterations(log, pool):
            places[one.name].append((name, of, log, one))
    tried, missed = 0, []
    for what in sorted(places):
        chance, done = random.Random(f"{what} {dropped}"), 0
        for name, of, log, one in chance.sample(places[what], len(places[what])):
            message = not dropped and what.startswith("step step.fields.*") and of_a_message(log, one)
            if is_free(what, free) and not (message and "swapped" not in what):
                continue
            try:
                other = by_one.altered(log, one)
            except msgspec.ValidationError:
                continue  # it is no event any more
            if other != log and done < EACH:
                done += 1
                if not findings(of, other):
                    missed.append(f"{what}: {name}, event {log[one.actor][one.at].position} of {one.actor}")
        tried += done
    assert missed == []
    assert tried > 40


@pytest.mark.parametrize("reasons", [FREE, FREE_AFTER_PRUNING], ids=["whole", "after pruning"])
def test_what_need_not_be_found_there_is(reasons: Mapping[str, str]) -> None:
    pool = by_one.pool_of([log for _, _, log in logs()])
    names = {one.name for _, _, log in logs() for one in by_one.alterations(log, pool)}
    assert not [pattern for pattern in reasons if not any(re.fullmatch(pattern, name) for name in names)]


@pytest.mark.parametrize("back", [0, 1, 2])
def test_an_incarnation_that_is_not_newer_is_found_though_nothing_follows(back: int) -> None:
    """The last event of a log, which no later one contradicts; `back` by how much less it is than it was."""
    tried = 0
    for name, of, log in logs():
        for actor, events in log.items():
            for at, event in enumerate(events):
                if at and isinstance(event, RecoveredEvent) and event.epoch > back:
                    last = msgspec.structs.replace(event, epoch=event.epoch - back)
                    cut = {**log, actor: by_one.rewritten([*events[:at], last], events[0].position)}
                    words = f"its incarnation is {last.epoch}, and that before it was {events[at - 1].epoch}"
                    assert any(words in found for found in findings(of, cut)) is (back > 0), (name, actor, at)
                    tried += 1
        if tried > 8:
            break
    assert tried > 2
