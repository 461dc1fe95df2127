"""Every alteration of a log is found, over all systems; and logs of correct runs conform."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.recovery.lease.random_runs.run import compiled
from tests.checker.conform.alterations import ALTERATIONS, altered
from tests.checker.conform.walks import SYSTEMS, Log, judged, known, walked
from tests.checker.verify.histories import history_of

WALKS = 2  # of each system
EACH = 1  # places at which a log is altered in one way
LEASES = (3, 8, 15)  # seeds of random runs of the lease
PYTHON = re.compile(r"\{'|\(['(]|\[[('{]|frozenset|StartedCall|None|True|False")  # never so in the language


@cache
def known_lease(lazy: bool) -> KnownSystem:
    program, properties = compiled(2, lazy)
    return KnownSystem(properties.system, program)


@cache
def lease(seed: int) -> Log:
    return history_of(replace(plan_of(seed), units=2, lazy=seed % 2 == 0))


@cache
def logs() -> tuple[tuple[str, KnownSystem, Log], ...]:
    found = [(name, known(name), walked(name, seed)) for name in SYSTEMS for seed in range(WALKS)]
    return (*found, *(("lease", known_lease(seed % 2 == 0), lease(seed)) for seed in LEASES))


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_actors_do_conforms(name: str) -> None:
    for seed in range(WALKS):
        findings, found = judged(known(name), walked(name, seed))
        assert findings == []
        assert sum(log.steps for log in found) > 3
        assert all(log.by_reference == log.steps and not log.not_judged for log in found)


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_of_the_lease_conform(seed: int) -> None:
    findings, found = judged(known_lease(seed % 2 == 0), lease(seed))
    assert findings == []
    assert sum(log.steps for log in found) > 10


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_an_alteration_is_found(alteration: str) -> None:
    rng = random.Random(alteration)
    made: Counter[str] = Counter()
    for name, of, log in logs():
        places = [(actor, at) for actor, events in log.items() for at in range(len(events))]
        rng.shuffle(places)
        done = 0
        for actor, at in places:
            other = altered(alteration, of, log, actor, at) if done < EACH else None
            if other is None or other == log:
                continue
            done += 1
            findings, _ = judged(of, other)
            assert findings, (alteration, name, actor, log[actor][at])
            assert not [one.reason for one in findings if PYTHON.search(one.reason)]
        made[name] += done
    assert made, "it applies nowhere"


def test_there_are_many_alterations() -> None:
    assert len(ALTERATIONS) >= 30
