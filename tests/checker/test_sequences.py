"""Sequences in systems by chance: both engines, SPIN, TLC, the compiled core and the prover say the same of them."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.export import export_system
from leasehold.checker.prove import ANY
from leasehold.checker.prove import prove as prove_all
from leasehold.faults.model import Budget
from leasehold.impl.compiler.program import NotRunnable, check_runnable
from leasehold.spec import System
from tests.checker.explore.test_engines import assert_alike
from tests.checker.export import tlc
from tests.checker.export.test_promela import check, errors, stored
from tests.checker.sequences_by_chance import sequences_by_chance
from tests.impl.compiler.test_chance import walk
from tests.impl.compiler.twin import Twin

FEW = 20_000


def drawn(folder: Path, first: int) -> System:
    """The first system by chance from a seed on that is small."""
    for seed in range(first, first + 40_000, 40):
        system = sequences_by_chance(folder, random.Random(seed))
        if system is not None and (found := explore(system, Limits(states=FEW))).complete and found.distinct > 30:
            return system
    raise AssertionError("no seed gives a small system")


SEEDS = [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_both_engines_find_the_same(seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, seed)
    assert_alike(system, limits=Limits(states=FEW))
    assert_alike(system, Budget(crash=1, lose=1, duplicate=1), Limits(states=FEW))


@pytest.mark.parametrize("seed", SEEDS)
def test_spin_and_tlc_find_the_same(seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path / "system", seed)
    found = explore(system)
    judged = {p.name: p.verdict for p in found.properties}
    printed = check(tmp_path, export_system(system, "promela").text)
    assert stored(printed) == found.distinct
    broken = {p.name for p in found.properties if p.kind in ("always", "step") and p.verdict == "violated"}
    assert set(re.findall(r"assertion violated Holds_(\w+)", printed)) <= broken
    assert bool(errors(printed)) >= bool(broken)
    said = tlc.verdicts(system)
    assert (said.distinct, said.generated) == (found.distinct, found.generated)
    for name, p in system.properties.items():
        if name.capitalize() in said.asked and p.kind != "sometimes":
            assert (name.capitalize() in said.violated) == (judged[name] == "violated"), name


@pytest.mark.parametrize("seed", SEEDS)
def test_the_compiled_core_takes_the_same_steps(seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, seed)
    try:
        check_runnable(system)
    except NotRunnable:
        return
    assert isinstance(walk(system), Twin)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_proved_that_some_run_violates(seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, seed)
    found = {p.name: p.verdict for p in explore(system).properties}
    proof = prove_all(system, ANY.limited(5.0), jobs=1)
    proved = {v.name for v in proof.of("proved")}
    assert proved >= {"none_is_first"}
    assert {name for name in proved if found[name] == "violated"} == set()
