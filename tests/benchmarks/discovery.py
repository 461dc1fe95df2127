"""Which ways prove the properties of a fixed set of systems without written lemmas, and in what time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leasehold.checker.prove import Setting
from leasehold.checker.prove.decide.induction import Induction, induct
from leasehold.checker.prove.prover import Strategies
from leasehold.spec import load
from tests.benchmarks.measure import Row, Section, Table

TRUTH = Path(__file__).parents[1] / "truth"
SHIPPED = ("two_phase_commit", "three_phase_commit", "three_phase_commit_termination", "lease", "contention")
LIMIT_SECONDS = 30.0
HOW = f"""
The properties about states and steps of the shipped systems and of tests/truth, without their lemmas.yaml, for any
number of instances and all faults that the channels bear. Each way is asked for the properties that induction alone
leaves open and that no explored run violates, with a limit of {LIMIT_SECONDS:.0f} s for each property. A row says how
many properties it proves, of how many.
"""


def benchmark(quick: bool) -> Section:
    systems = [TRUTH / "two_phase"] if quick else [*sorted(p.parent for p in TRUTH.glob("*/system.yaml")), *SHIPPED]
    rows = [row for system in systems for row in _rows(system)]
    return Section("discovery", "Proofs without written lemmas", HOW, [Table("system", "s", rows)])


def _rows(name: str | Path) -> list[Row]:
    model = load(name)
    system, small = (replace(load(name, chosen), lemmas={}) for chosen in ({}, model.faults.settings))
    setting = Setting(limit_seconds=LIMIT_SECONDS)
    began = time.perf_counter()
    induction = induct(system, setting)
    asked = [claim.name for claim in induction.claims.values() if claim.written]
    if not asked:
        return []
    proved = len(induction.proved.keys() & set(asked))
    rows = [_row(system.name, "induction alone", proved, len(asked), began)]
    left = [name for name in asked if name not in induction.proved and not induction.claims[name].why_not]
    exploring = Strategies(system, setting, small, induction)
    exploring.explore(left)
    left = [name for name in left if name not in exploring.runs]
    return rows + _others(Strategies(system, setting, small, induction), induction, left)


def _others(strategies: Strategies, induction: Induction, left: Sequence[str]) -> list[Row]:
    rows = []
    for way, attempt in (("k-induction", strategies.k_induction), ("discovered lemmas", strategies.discover)):
        if left:
            began, before = time.perf_counter(), len(strategies.proved)
            attempt(left)
            rows.append(_row(strategies.system.name, way, len(strategies.proved) - before, len(left), began))
    return rows


def _row(system: str, way: str, proved: int, asked: int, began: float) -> Row:
    return Row(f"{system}, {way}: {proved} of {asked}", [time.perf_counter() - began])
