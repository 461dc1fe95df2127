"""Histories that are not as actors write them: a verification that ends between two rounds goes on as if it had not."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.verify.cuts import CutsOfSystem
from leasehold.checker.verify.history import HistoryVerification
from tests.checker.conform.alterations import ALTERATIONS, altered
from tests.checker.conform.test_alterations import logs
from tests.checker.conform.walks import Log
from tests.checker.verify.test_resumed import tables_of


@cache
def cuts_of(of: KnownSystem) -> CutsOfSystem:
    return CutsOfSystem(of.system, of.program)


def an_altered_log(alteration: str, chance: random.Random) -> tuple[KnownSystem, Log]:
    """A log that is altered at some place, and its system."""
    for _, of, log in chance.sample(logs(), len(logs())):
        places = [(actor, at) for actor, events in log.items() for at in range(len(events))]
        for actor, at in chance.sample(places, len(places)):
            other = altered(alteration, of, log, actor, at)
            if other is not None and other != log:
                return of, other
    raise AssertionError(f"{alteration} applies nowhere")


def rounds(log: Log, chance: random.Random) -> list[tuple[str, int, int]]:
    """An actor, and which of its events come, of each round."""
    at, found = dict.fromkeys(log, 0), list[tuple[str, int, int]]()
    while left := sorted(actor for actor, events in log.items() if at[actor] < len(events)):
        actor = chance.choice(left)
        count = chance.choice((1, 2, 5, 20))
        found.append((actor, at[actor], at[actor] + count))
        at[actor] += count
    return found


def judged(of: CutsOfSystem, log: Log, order: list[tuple[str, int, int]], url: str, ends: set[int]) -> tuple[Any, Any]:
    """The result and the tables of a verification that ends, and goes on, after some rounds."""
    verification, told = HistoryVerification(of, log, url=url), 0
    for number, (actor, since, until) in enumerate(order):
        verification.add(actor, log[actor][since:until])
        told += len(verification.judge())
        if number in ends:
            verification.close()
            verification = HistoryVerification(of, log, url=url)
    assert told == len(verification.result.violations)
    result = verification.end().as_json()
    try:
        return result, tables_of(verification.database)
    finally:
        verification.close()


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_what_is_said_of_an_altered_log_is_the_same_if_it_goes_on_later(alteration: str, tmp_path: Path) -> None:
    chance = random.Random(alteration)
    of, log = an_altered_log(alteration, chance)
    order = rounds(log, chance)
    ends = {*chance.sample(range(len(order)), len(order) // 2)}
    result, tables = judged(cuts_of(of), log, order, f"sqlite:{tmp_path / 'whole.db'}", set())
    other, others = judged(cuts_of(of), log, order, f"sqlite:{tmp_path / 'parts.db'}", ends)
    for table, rows in tables.items():
        assert others[table] == rows, (of.system.name, table)
    assert other == result
