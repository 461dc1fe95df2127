"""The queries of every shipped system against the evaluator of simulations, on right, disturbed and random states."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.properties import DEADLOCK
from leasehold.checker.verify.queries import Queries, end_claim
from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language.for_each import each
from tests.checker.verify.databases import KINDS, Database, database
from tests.checker.verify.twin import Run, broken_run, decided, disturbed, mutants, walks
from tests.systems import load

SYSTEMS = {
    "lease": ({"max_units": 2, "last_end": 2, "losses": True}, "crash=1,lose=1"),
    "contention": ({"max_units": 2}, "crash=1"),
    "two_phase_commit": ({}, "crash=1,lose=1,halt=1"),
    "three_phase_commit": ({}, "crash=1,partition=1"),
    "three_phase_commit_termination": ({}, "crash=1"),
}


def recorded(db: Database, runs: list[Run]) -> None:
    for n, run in enumerate(runs):
        number = db.recorder.begin(f"run {n}", run[0][0])
        for state, action in run[1:]:
            db.recorder.step(number, state, action)
        db.recorder.end(number)
    db.write()


OTHERS = {  # shared variables, the other kinds of channel, maps of sets
    "truth/peterson": "",
    "truth/dining_philosophers": "",
    "truth/lock": "",
    "truth/quorum_election": "",
    "truth/token_ring": "",
    "truth/alternating_bit": "",
    "truth/server_allocator": "",
    "truth/two_phase": "",
    "constructs/begins": "crash=1,lose=1",
    "constructs/places": "",
    "../examples/mutex": "crash=1,partition=1",
    "../examples/register": "crash=1",
    "../examples/ring": "crash=1",
}


def is_long(name: str, kind: str) -> bool:
    return name == "lease" or (kind == "mariadb" and name != "contention")


@pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param(n, kind, marks=[pytest.mark.long] * is_long(n, kind)) for n in SYSTEMS for kind in KINDS],
)
def test_queries_find_what_the_evaluator_finds(name: str, kind: str) -> None:
    settings, faults = SYSTEMS[name]
    both = compared(load(name, settings), Budget.parse(faults), kind, 800 if name == "contention" else 250)
    assert both["both"] >= 9 * (len(both) - 2), both


@pytest.mark.parametrize("name", OTHERS)
def test_queries_of_other_systems(name: str) -> None:
    system = load(Path(__file__).parents[2] / name)
    broken = {p for run in system.expectations for p in run.violated}
    system = replace(system, properties={n: p for n, p in system.properties.items() if n not in broken})
    compared(system, Budget.parse(OTHERS[name]) if OTHERS[name] else None, "sqlite", 80)


def compared(system: System, budget: Budget | None, kind: str, steps: int) -> Counter[str]:
    """Holds each property's query to the evaluator; counts the properties that some cuts, but not all, violate."""
    world = reference_of(system, budget)
    rng = Random(f"{system.name} 1")
    right = walks(world, rng, steps)
    runs = [*right, *(disturbed(world, rng, run, share) for run in right for share in (0.05, 0.3))]
    violated = decided(world, system.properties, runs)
    kept = [p for p in system.properties.values() if p.kind in ("always", "step") and not violated[p.name]]
    runs += [run for p in kept if (run := broken_run(world, p, right, rng)) is not None]
    cuts = sum(len(run) for run in runs)
    both: Counter[str] = Counter()  # properties that some cuts violate, and others do not
    verdicts: Counter[str] = Counter()  # of a property on a cut
    with database(kind, system, world.layout) as db:
        recorded(db, runs)
        asked = {**system.properties, **end_claim(system), **{p.name: p for p in mutants(system, rng, 2)}}
        queries, by_evaluator = Queries(db.tables, asked), decided(world, asked, runs)
        assert [*Queries(db.tables).queries] == [
            n for n, q in queries.queries.items() if q.of in [*system.properties, DEADLOCK]
        ]
        for _, query in queries.incomplete():
            assert db.ask(query.replace(":checked", "-1")) == []
        for p in (one for of in asked.values() for one in each(of)):
            if p.name in queries.not_asked:
                both["not asked"] += 1
                continue
            query = queries.queries[p.name + "".join(f" {n}={v}" for n, v in p.binding.items())]
            expected = by_evaluator[query.name]
            found = db.ask(query.since(-1))
            assert len(set(found)) == len(found)
            assert set(found) == expected, f"{query.name}\n{query.claim}\n{query.text}"
            verdicts += Counter({"violated": len(expected), "held": cuts - len(expected)})
            if p.name in system.properties and p.kind in ("always", "step"):
                both["both" if 0 < len(expected) < cuts else f"only one: {p.name}"] += 1
                assert all(run > len(right) for run, _ in expected), f"{p.name} fails in a right run"
    print(f"{system.name} in {kind}: {dict(verdicts)} of {cuts} cuts; properties: {dict(both)}")
    assert min(verdicts["violated"], verdicts["held"]) > cuts // 2
    return both
