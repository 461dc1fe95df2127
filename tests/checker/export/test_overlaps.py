"""Overlaps in all readings: actions that offer one event at once, and updates that write one cell of a map."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.export import export_system
from leasehold.checker.prove import prove
from leasehold.spec import System
from tests.checker.explore.test_twin import Twin
from tests.checker.export.test_promela import check, stored
from tests.impl.compiler.twin import walk
from tests.systems import files_of, written

OVERLAPS = files_of("checker/export/systems/overlaps")
UPDATES = OVERLAPS["roles/m.yaml"]
SYSTEM = OVERLAPS["system.yaml"]
TWO_CELLS = '"f[event.i]": green, "f[event.j]": blue'
CASES = [  # updates, what then holds, what then does not always hold, and states
    (TWO_CELLS, "m.f[m.j] == blue", "m.f[m.i] == green", 20),
    ('"f[event.i]": green, f: g', "m.f[m.i] == m.g[m.i]", "m.f[m.i] == green", 20),
    ('f: g, "f[event.i]": green', "m.f[m.i] == green and (m.f[m.j] == m.g[m.j] or m.i == m.j)", "m.f[m.j] == red", 20),
]


def updating(folder: Path, updates: str, holds: str, fails: str) -> System:
    claims = f"  holds: {{always: 'm.state == a or {holds}'}}\n  fails: {{always: 'm.state == a or {fails}'}}\n"
    claims = claims.replace("or m.f", "or (m.f").replace("'}", ")'}")
    files = {"system.yaml": SYSTEM, "roles/m.yaml": UPDATES.replace("SET", updates)}
    return written(folder, {**files, "invariants.yaml": "properties:\n" + claims})


@pytest.mark.parametrize(("updates", "holds", "fails", "states"), CASES)
def test_the_later_of_two_updates_stays(updates: str, holds: str, fails: str, states: int, tmp_path: Path) -> None:
    system = updating(tmp_path, updates, holds, fails)
    for engine in ("reference", "auto"):
        found = explore(system, engine=engine)  # type: ignore[arg-type]
        assert [p.verdict for p in found.properties] == ["exhausted", "violated"]
        assert found.distinct == states
    assert (found.distinct, found.generated) == Twin(system).count()
    assert [v.verdict for v in prove(system, small=system, jobs=1).verdicts] == ["proved", "counterexample"]
    assert walk(system, "").seen["taken"] > 10


def test_exports_keep_the_order_of_updates(tmp_path: Path) -> None:
    for n, (updates, holds, fails, _) in enumerate(CASES):
        text = export_system(updating(tmp_path / str(n), updates, holds, fails), "tla").text
        wanted = [
            '!.f[Arg_i] = "green", !.f[Arg_j] = "blue"',
            '!.f[Arg_i] = "green", !.f = m.g',
            '!.f = m.g, !.f[Arg_i] = "green"',
        ][n]
        assert wanted in text


OFFERED = files_of("checker/export/systems/offered")["roles/m.yaml"]


def offering(folder: Path, environment: str) -> System:
    system = f"system: s\nroles: {{m: {{}}}}\nenvironment: {{{environment}, flip: {{to: m, fair: true}}}}\n"
    claim = "properties: {leaves: {when: m.state == a, leads_to: m.state == b}}\n"
    return written(folder, {"system.yaml": system, "roles/m.yaml": OFFERED, "invariants.yaml": claim})


OFFERS = [
    ("one: {to: m, event: go, fair: true}", 5, "exhausted"),
    ("one: {to: m, event: go, fair: true}, two: {to: m, event: go}", 7, "exhausted"),
    (
        "one: {to: m, event: go, when: m.n == 0, fair: true}, two: {to: m, event: go, when: m.n == 1, fair: true}",
        5,
        "violated",
    ),  # one of them is always possible, neither is by itself
    ("one: {to: m, event: go, when: m.n == 0}, two: {to: m, event: go, fair: true}", 6, "exhausted"),
]


@pytest.mark.parametrize(("environment", "generated", "verdict"), OFFERS)
def test_each_action_offers_by_itself(environment: str, generated: int, verdict: str, tmp_path: Path) -> None:
    system = offering(tmp_path, environment)
    for engine in ("reference", "auto"):
        found = explore(system, engine=engine)  # type: ignore[arg-type]
        assert (found.distinct, found.generated) == (4, generated)
        assert [p.verdict for p in found.properties] == [verdict]
    assert Twin(system).count() == (4, generated)
    actions = environment.count("event: go")
    text = export_system(system, "tla").text
    assert text.count("  \\/ M_a_go") == actions
    assert text.count("WF_vars((M_a_go") == environment.count("fair: true")


@pytest.mark.usefixtures("spin")
@pytest.mark.parametrize(("environment", "generated", "verdict"), OFFERS)
def test_spin_is_fair_to_each_action(environment: str, generated: int, verdict: str, tmp_path: Path) -> None:
    model = export_system(offering(tmp_path, environment), "promela").text
    assert stored(check(tmp_path, model)) == 4
    printed = check(tmp_path, model, "-DLIVENESS", "-DCLAIM_leaves", live=True)
    assert ("acceptance cycle" in printed) == (verdict == "violated")
