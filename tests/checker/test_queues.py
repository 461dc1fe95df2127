"""Queues, in whose lines several senders stand: every reading says the same of systems by chance."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.export import ExportError, ExportOptions, export_system
from leasehold.checker.prove.decide.induction import Setting, induct
from leasehold.checker.verify.queries import Queries
from leasehold.faults.model import Budget
from leasehold.impl.compiler.program import NotRunnable, check_runnable
from leasehold.spec import System
from tests.checker.explore.test_engines import assert_alike
from tests.checker.explore.test_symmetry import held_against_all_states
from tests.checker.export import tlc
from tests.checker.export.test_promela import check, errors, stored
from tests.checker.queues_by_chance import queues_by_chance
from tests.checker.verify.databases import database
from tests.systems import edited, files_of, written

FEW = 4_000


def drawn(folder: Path, first: int) -> System:
    """The first system by chance from a seed on that is small, and not too small."""
    for seed in range(first, first + 40_000, 40):
        system = queues_by_chance(folder, random.Random(seed))
        if system is not None and (found := explore(system, Limits(states=FEW))).complete and found.distinct > 40:
            return system
    raise AssertionError("no seed gives a small system")


SEEDS = [
    *range(3),
    *(pytest.param(n, marks=pytest.mark.long if n < 5 else pytest.mark.slow) for n in range(3, 40)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_both_engines_find_the_same(seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, seed)
    assert_alike(system, limits=Limits(states=FEW))
    assert_alike(system, Budget(crash=1, lose=1, duplicate=1), Limits(states=FEW))
    assert_alike(system, Budget(amnesia=1, partition=1), Limits(states=FEW))


@pytest.mark.parametrize("seed", SEEDS)
def test_orbits_stand_for_all_states(seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, seed)
    alike = replace(system, properties={n: p for n, p in system.properties.items() if p.kind != "leads_to"})
    held_against_all_states(alike, Limits(states=FEW))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("spin", "tlc")
def test_spin_and_tlc_find_the_same(seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path / "system", seed)
    found = explore(system)
    judged = {p.name: p.verdict for p in found.properties}
    broken = {p.name for p in found.properties if p.kind in ("always", "step") and p.verdict == "violated"}
    try:
        text = export_system(system, "promela", ExportOptions(slots=12)).text
    except ExportError as error:
        assert "sends two messages into up, which has a capacity" in str(error)  # noqa: PT017
    else:
        printed = check(tmp_path, text)
        assert stored(printed) == found.distinct
        assert set(re.findall(r"assertion violated Holds_(\w+)", printed)) <= broken
        assert bool(errors(printed)) >= bool(broken)
    try:
        said = tlc.verdicts(system)
    except ExportError as error:
        assert "channel up" in str(error)  # noqa: PT017
        return
    assert (said.distinct, said.generated) == (found.distinct, found.generated)
    for name, p in system.properties.items():
        if name.capitalize() in said.asked and p.kind != "sometimes":
            assert (name.capitalize() in said.violated) == (judged[name] == "violated"), name


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_proved_that_some_run_violates(seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, seed)
    found = {p.name: p.verdict for p in explore(system).properties}
    proved = induct(system, Setting(limit_seconds=3.0), jobs=1).proved
    assert {name for name, verdict in found.items() if verdict == "violated"} & {*proved} == set()
    up = system.channels["up"]
    expected = {"apart"} | ({"takes_the_first"} if system.roles["server"].count == 1 and not up.reorder else set())
    assert proved.keys() >= expected


@pytest.mark.parametrize("seed", SEEDS)
def test_no_network_keeps_one_order_for_several_senders(seed: int, tmp_path: Path) -> None:
    with pytest.raises(NotRunnable) as refused:
        check_runnable(drawn(tmp_path, seed))
    assert "channel `up` is a queue" in "\n".join(d.what for d in refused.value.diagnostics)


@pytest.mark.usefixtures("spin", "tlc")
def test_equal_messages_of_two_senders_are_equal_in_every_reading(tmp_path: Path) -> None:
    """Messages are equal whoever has sent them."""
    files = edited(files_of("truth/readers_writers"), ("value: 3", "value: 2"))
    claim = "all(m != n or m.sender == n.sender for m in pending(read) for n in pending(read))"
    files["invariants.yaml"] = f'properties: {{alike: {{always: "{claim}"}}}}\n'
    system = written(tmp_path / "system", files)
    (alike,) = explore(system).properties
    assert alike.verdict == "violated"
    assert errors(check(tmp_path, export_system(system, "promela").text))
    assert tlc.verdicts(system).violated == {"Alike"}
    with database("sqlite", system, (paths := explore(system, engine="reference").paths).world.layout) as db:
        for n, state in enumerate(paths.states):
            db.recorder.begin(f"run {n}", state)
        db.write()
        assert db.ask(Queries(db.tables).queries["alike"].since(-1))
    assert "alike" not in induct(system, Setting(limit_seconds=3.0), jobs=1).proved
