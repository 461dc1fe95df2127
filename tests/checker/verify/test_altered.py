"""Logs of any system, as actors write them and altered, that come by and by, where verify ends and goes on."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.history.fault import UNDECIDED
from leasehold.checker.verify.database import IN_MEMORY
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import FoundEvent, StepEvent
from tests.checker.conform.alterations import ALTERATIONS, altered
from tests.checker.conform.test_alterations import logs
from tests.checker.conform.walks import SYSTEMS, Log, known, walked
from tests.checker.verify.test_resumed import tables_of
from tests.sampled import one_in


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


@pytest.mark.parametrize("alteration", one_in(8, sorted(ALTERATIONS), seldom=3))
def test_what_is_said_of_an_altered_log_is_the_same_if_it_goes_on_later(alteration: str, tmp_path: Path) -> None:
    chance = random.Random(alteration)
    of, log = an_altered_log(alteration, chance)
    order = rounds(log, chance)
    ends = {*chance.sample(range(len(order)), len(order) // 2)}
    result, tables = judged(cuts_of(of), log, order, f"sqlite:{tmp_path / 'whole.db'}", set())
    other, others = judged(cuts_of(of), log, order, f"sqlite:{tmp_path / 'parts.db'}", ends)
    assert other == result
    for table, rows in tables.items():
        assert others[table] == rows, (of.system.name, table)


UNJUDGED = ("a_value_is_missing", "of_a_machine_that_is_none", "found_in_a_record_that_no_step_has_left")


@pytest.mark.parametrize("alteration", UNJUDGED)
def test_a_run_that_is_not_judged_any_more_stays_so_wherever_it_goes_on(alteration: str, tmp_path: Path) -> None:
    """With an end after each event."""
    chance, unjudged = random.Random(alteration), 0
    for number in range(2):
        of, log = an_altered_log(alteration, chance)
        places = [(e.now, e.time, actor, at) for actor, events in log.items() for at, e in enumerate(events)]
        order = [(actor, at, at + 1) for _, _, actor, at in sorted(places)][:50]
        result, tables = judged(cuts_of(of), log, order, f"sqlite:{tmp_path / str(number)}.db", set())
        ends = {*range(len(order))}
        other, others = judged(cuts_of(of), log, order, f"sqlite:{tmp_path / str(number)}.parts.db", ends)
        for of_runs in (tables, others):  # of how many machines an unjudged run has nobody is told
            of_runs["run"] = [run[:5] if run[3] == "0" else run for run in of_runs["run"]]
        assert others == tables, of.system.name
        assert other == result
        unjudged += sum(run[3] == "0" for run in tables["run"])
    assert unjudged > 0


def test_a_machine_that_was_only_found_counts_where_a_verification_goes_on(tmp_path: Path) -> None:
    """It has made no cut; were it not counted, the run would be over before the machine is forgotten."""
    of, log = cuts_of(known("examples/register")), walked("examples/register", 0)
    assert any(not any(isinstance(e, StepEvent) for e in events) for events in log.values())
    order = rounds(log, random.Random(1))
    _, tables = judged(of, log, order, f"sqlite:{tmp_path / 'parts.db'}", {*range(len(order))})
    (run,) = tables["run"]
    found = {(e.lease, e.machine) for events in log.values() for e in events if isinstance(e, FoundEvent)}
    assert int(run[5]) == len(found)


@pytest.mark.parametrize("name", SYSTEMS)
def test_nothing_is_wrong_with_what_actors_write_whenever_it_comes(name: str, tmp_path: Path) -> None:
    """Also where a run is over for a while, and is not in memory when it goes on."""
    of, chance = cuts_of(known(name)), random.Random(f"{name} 2")
    for seed in range(4):
        log = walked(name, seed)
        order = rounds(log, chance)
        ends = {*chance.sample(range(len(order)), len(order) // 4)}
        result, _ = judged(of, log, order, f"sqlite:{tmp_path / str(seed)}.db", ends)
        at_once, _ = judged(of, log, [(actor, 0, len(log[actor])) for actor in log], IN_MEMORY, set())
        assert result["faults"] == [], (seed, order)
        found = [sorted((v["run"], v["property"]) for v in one["violations"]) for one in (result, at_once)]
        assert found[0] == found[1], (seed, order)


def test_a_run_of_which_a_record_is_found_that_no_step_has_left_is_not_judged() -> None:
    """Whatever its machine does later: nobody knows how it came there."""
    tried = 0
    for _, of, log in logs():
        steps = [(actor, e) for actor, events in log.items() for e in events if isinstance(e, StepEvent)]
        for actor, event in steps[-1:]:
            if event.step.lease == BELOW:
                continue
            other = altered("found_in_a_record_that_no_step_has_left", of, log, actor, event.position - 1)
            order = [(name, 0, len(events)) for name, events in other.items()]
            result, _ = judged(cuts_of(of), other, order, IN_MEMORY, set())
            words = f"{event.step.machine} has moved before the events begin, so this run is not judged"
            found = [(f["actor"], f["run"], f["kind"]) for f in result["faults"] if f["reason"] == words]
            assert found == [(actor, event.step.lease, UNDECIDED)]
            tried += 1
    assert tried > 5
