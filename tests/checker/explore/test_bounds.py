"""What the bounds of a search cut off is not taken for the end of a run: by both engines alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.crash.analysis import crash
from leasehold.checker.explore import explore
from leasehold.checker.explore.graph.liveness import OUT_OF_BOUNDS
from leasehold.faults.model import Budget
from leasehold.reports.crash_words import stabilises_words
from leasehold.spec import SpecError
from leasehold.spec.language.expression import negation
from tests.checker.explore.test_engines import assert_alike
from tests.systems import files_of, written

COUNTS = files_of("checker/explore/systems/counts")


def files(fair: str, limit: str, guard: str) -> dict[str, str]:
    return {
        name: text.replace("FAIR", fair).replace("LIMIT", limit).replace("GUARD", guard)
        for name, text in COUNTS.items()
    }


@pytest.mark.parametrize(
    ("fair", "limit", "guard", "violated", "bounded"),
    [
        ("true", "constraint: a.k <= 2", "k < 9", "", "beyond falls never soon"),
        ("true", "constraint: a.k <= 2", "k < 2", "beyond falls never soon", ""),
        ("false", "constraint: a.k <= 2", "k < 9", "beyond falls never rests", "soon"),
        ("strong", "constraint: a.k <= 2", "k < 9", "", "beyond falls never soon"),
        ("true", "", "k < 2", "beyond falls never soon", ""),
    ],
)
def test_a_run_that_leaves_the_bounds_contradicts_nothing(
    fair: str, limit: str, guard: str, violated: str, bounded: str, tmp_path: Path
) -> None:
    """Nor does it show anything: what would be violated if it ended there is open."""
    system = written(tmp_path, files(fair, limit, guard))
    assert_alike(system)
    assert_alike(system, Budget.parse("crash=1"))
    found = {p.name: p for p in explore(system).properties}
    assert sorted(n for n, p in found.items() if p.verdict == "violated") == violated.split()
    assert sorted(n for n, p in found.items() if p.verdict == "bounded") == bounded.split()
    assert {p.reason for p in found.values() if p.verdict == "bounded"} <= {OUT_OF_BOUNDS}


@pytest.mark.parametrize(
    ("budget", "constraint"),
    [
        ("crash=1", "running(b)"),
        ("power_cut=1", "running(b)"),
        ("halt=1", "running(a) and running(b)"),
        ("amnesia=1", "running(b)"),
        ("partition=1", "reachable(a, b)"),
        ("lose=1", "len(pending(m)) > 0 or b.got == a.k"),
        ("duplicate=1", "len(pending(m)) + b.got <= a.k"),
    ],
)
def test_a_fault_that_leaves_the_bounds_makes_nothing_possible(budget: str, constraint: str, tmp_path: Path) -> None:
    """One message is sent, and only a fault leads out: `always_possible` asks for a path without one."""
    text = files("true", f"constraint: {constraint}", "k < 1")
    text["invariants.yaml"] = (
        "properties:\n"
        "  never: {when: len(pending(m)) > 0, always_possible: b.got == 7}\n"
        "  comes: {when: len(pending(m)) > 0, always_possible: b.got == 1}\n"
    )
    system = written(tmp_path, text)
    for engine in ("reference", "packed"):
        found = explore(system, budget=Budget.parse(budget), engine=engine)  # type: ignore[arg-type]
        assert found.cut
        assert {p.name: p.verdict for p in found.properties} == {"never": "violated", "comes": "exhausted"}


@pytest.mark.parametrize(
    ("fair", "guard", "converges"), [("true", "k < 9", None), ("true", "k < 2", False), ("false", "k < 9", False)]
)
def test_what_the_bounds_cut_off_is_not_said_to_stabilise_or_not(
    fair: str, guard: str, converges: bool | None, tmp_path: Path
) -> None:
    """A message of a bag is lost for good; only a later one brings the receiver what it has missed."""
    text = files(fair, "constraint: a.k <= 2", guard)
    del text["invariants.yaml"]
    system = written(tmp_path, text)
    for engine in ("reference", "packed"):
        found = crash(system, Budget.parse("lose=1"), engine=engine)  # type: ignore[arg-type]
        assert found.convergence is not None
        assert found.convergence.converges is converges
        assert (found.holds, found.open) == (converges is not False, converges is None)
        begins = "does not stabilise" if converges is False else "not decided whether it stabilises: the runs that do"
        assert stabilises_words(found.convergence).startswith(begins)


def test_without_a_first_state_within_the_bounds_every_property_is_vacuous(tmp_path: Path) -> None:
    system = written(tmp_path, files("true", "constraint: b.got == 1", "k < 2"))
    assert_alike(system)
    found = explore(system)
    assert (found.distinct, found.complete, sorted(found.vacuous)) == (0, True, sorted(system.properties))


def test_without_a_first_state_nothing_is_explored(tmp_path: Path) -> None:
    """Also where the loader has not tried all combinations, or was not asked."""
    system = written(tmp_path, files("true", "initially: b.got == 0", "k < 2"))
    assert explore(system).initial
    none = replace(system, initially=negation(system.initially))
    for engine in ("reference", "packed"):
        with pytest.raises(SpecError, match="LH511: no combination of first values is as `initially` says"):
            explore(none, engine=engine)  # type: ignore[arg-type]
