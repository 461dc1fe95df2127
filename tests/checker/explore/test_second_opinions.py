"""Second opinions for each kind of property under each kind of fault; second_opinions.yaml is the table of them.

The kinds come from the language and from the catalogue of faults, so a new one has no row, and fails a test here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import Exploration, explore
from leasehold.faults.model import Budget
from leasehold.faults.model.catalogue import budgeted
from leasehold.spec import System
from leasehold.spec.language.model import CHANNEL_FAULTS, PropertyKind
from tests.checker.explore.every_kind import of_every_kind
from tests.checker.explore.fault_twin import whole
from tests.checker.explore.second_opinions import OF_THE_WHOLE, Judge, kind_of
from tests.checker.explore.test_fault_twin import shape
from tests.systems import files_of, written

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
TABLE: dict[str, Any] = yaml.safe_load((HERE / "second_opinions.yaml").read_text())
FAULTS: dict[str, Any] = TABLE["faults"]
KINDS: dict[str, Any] = TABLE["kinds"]
BUDGETED = [name for name, row in FAULTS.items() if "seeds" in row]
CUT: dict[str, Any] = TABLE["cut"]
ABOUT_RUNS = {"leads_to", "within", "always_eventually", "eventually_always", "always_possible", "for", "stabilisation"}
WORDS = {True: "holds", False: "violated", None: "open"}
FLAWS = {"range", "guards"}  # what a step may show to be wrong with the specification itself


def kinds_of_the_language() -> set[str]:
    """Kinds of claims, and what qualifies them, by the keys of the language; and what `crash` and steps decide."""
    keys = yaml.safe_load((ROOT / "spec/language/keys.yaml").read_text())
    claims = {"a property": {"doc", "source"}, "properties": {"properties"}}
    shapes = {name: shape for group in keys.values() if isinstance(group, dict) for name, shape in group.items()}
    found = {key for name, without in claims.items() for key in set(shapes[name]) - without}
    assert set(get_args(PropertyKind)) < found
    return found | {"refines", "stabilisation"} | FLAWS


def faults_of_the_catalogue() -> set[str]:
    rows = yaml.safe_load((ROOT / "faults/model/catalogue.yaml").read_text())
    return {"none", *rows, *(f"{fault} of a channel" for fault in CHANNEL_FAULTS)}


def why_not(kind: str, fault: str) -> str | None:
    """The reason why a cell has no second opinion."""
    reasons: dict[str, str] = KINDS[kind].get("without", {})
    return reasons.get(fault)


def test_each_kind_and_each_fault_has_a_row() -> None:
    assert set(KINDS) == kinds_of_the_language()
    assert set(FAULTS) == faults_of_the_catalogue()
    for name, row in FAULTS.items():
        assert set(row) in ({"seeds"}, {"budget", "seeds"}, {"channel", "seeds"}, {"with"}), name
        assert row.get("with", BUDGETED[0]) in BUDGETED, name  # it comes with another one, whose runs have it
    for name, row in KINDS.items():
        assert set(row.get("without", {})) | set(row.get("one_way", {})) <= set(BUDGETED), name
        for test in row.get("also", []):
            file, _, function = test.partition("::")
            assert f"def {function}(" in (ROOT / file).read_text(), test


def test_the_second_opinion_shares_nothing_with_the_first() -> None:
    """It knows the model, the definition of expressions, and how a budget is read."""
    for name in ("fault_twin", "second_opinions", "every_kind"):
        for module in imported(HERE / f"{name}.py"):
            shared = ("leasehold.checker", "leasehold.faults.model.", "leasehold.faults.simulation")
            assert not module.startswith(shared), (name, module)
            assert not module.startswith("leasehold.spec.language.lower"), (name, module)


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


Seen = set[tuple[str, bool | None]]  # kinds of properties, and whether one held; None: it was open
HOLDS = {"exhausted": True, "witnessed": True, "violated": False, "bounded": None}


def judged(system: System, budget: Budget | None) -> Seen:
    """Compares all verdicts on a system; returns those that were given."""
    found = explore(system, engine="reference", budget=budget)
    packed = explore(system, engine="packed", budget=budget)
    assert (packed.properties, packed.vacuous) == (found.properties, found.vacuous)
    assert found.complete
    judge = Judge(whole(system, budget or Budget()), lasting=budget is None)
    if budget is not None:
        assert {shape(found.paths.world, s) for s in found.paths.states} == judge.found.shapes
    return {*_properties(system, found, judge), *_stabilisation(system, budget, found, judge)}


def _properties(system: System, found: Exploration, judge: Judge) -> Iterator[tuple[str, bool | None]]:
    for result in found.properties:
        if result.verdict == "unasked":
            continue
        if (p := system.properties.get(result.name)) is None:
            kind = "ends" if result.kind == "deadlock" else result.kind
            opinion = OF_THE_WHOLE[kind](judge)
        else:
            kind, opinion = kind_of(p), judge.opinion(p)
        holds = HOLDS[result.verdict]
        assert holds is opinion.holds, result.name
        assert result.path is None or opinion.steps in (None, len(result.path)), result.name
        if p is None:
            yield kind, holds
            continue
        vacuous = result.name in found.vacuous
        if p.when is not None and not (p.kind in ("always", "step") and not holds):
            assert vacuous != judge.has_case(p), result.name
            yield "when", not vacuous
        if not vacuous:
            yield kind, holds
            yield from [("for", holds)] if result.name.startswith("each") else []


def _stabilisation(
    system: System, budget: Budget | None, found: Exploration, judge: Judge
) -> Iterator[tuple[str, bool | None]]:
    if budget is not None and not any(budgeted()[name].lasts for name in budget.given):
        answer = convergence(explore(system, engine="reference"), found)
        opinion = OF_THE_WHOLE["stabilisation"](judge)
        assert answer.converges is opinion.holds
        yield from [("stabilisation", opinion.holds)] if answer.recovery_states else []


def drawn(folder: Path, fault: str, seed: int, cut: bool = False) -> System:
    system = of_every_kind(folder / str(seed), seed, channel=FAULTS[fault].get("channel", ""), cut=cut)
    assert system is not None
    return system


def budget_of(fault: str) -> Budget | None:
    return Budget.parse(FAULTS[fault]["budget"]) if FAULTS[fault].get("budget") else None


@pytest.mark.parametrize("fault", BUDGETED)
def test_verdicts(fault: str, tmp_path: Path) -> None:
    """Each cell has a property that is violated, and one that holds."""
    seen: Seen = set()
    for seed in FAULTS[fault]["seeds"]:
        seen |= judged(drawn(tmp_path, fault, seed), budget_of(fault))
    for kind in set(KINDS) - FLAWS:
        if why_not(kind, fault) is None:
            one_way = KINDS[kind].get("one_way", {}).get(fault)
            missing = {True, False} - {holds for of, holds in seen if of == kind}
            assert len(missing) == (one_way is not None), (kind, fault, missing)


@pytest.mark.parametrize("fault", CUT)
def test_verdicts_within_bounds(fault: str, tmp_path: Path) -> None:
    """Nothing is known beyond a step out of the bounds: claims about runs may be open, and each cell has one."""
    seen: Seen = set()
    for seed in CUT[fault]["seeds"]:
        seen |= judged(drawn(tmp_path, fault, seed, cut=True), budget_of(fault))
    for kind in set(KINDS) - FLAWS:
        if why_not(kind, fault) is None:
            possible = {"violated", "holds"} | ({"open"} if kind in ABOUT_RUNS else set())
            verdicts = {WORDS[holds] for of, holds in seen if of == kind}
            assert possible - verdicts == set(CUT[fault].get("never", {}).get(kind, ())), kind
            assert verdicts <= possible


def test_within_while_a_clock_stands_still(tmp_path: Path) -> None:
    """Few systems by chance have a timer that is late because its clock stands still; this one has."""
    system = written(
        tmp_path,
        {
            "system.yaml": (
                "system: s\nroles: {a: {}}\nclock: {horizon: 4}\nenvironment: {go: {to: a, when: now == 0}}\n"
            ),
            **files_of("checker/explore/systems/deadline"),
            "invariants.yaml": "properties:\n"
            + "".join(f"  within_{n}: {{when: a.state == t, leads_to: a.state != t, within: {n}}}\n" for n in range(4)),
        },
    )
    for budget, held in ((None, 3), (Budget(skew=1), 2), (Budget(skew=2), 1)):
        assert judged(system, budget) >= {("within", True), ("within", False)}
        verdicts = [r.verdict for r in explore(system, budget=budget).properties if r.kind == "leads_to"]
        assert verdicts == ["violated"] * (4 - held) + ["exhausted"] * held


def test_within_where_a_tick_leaves_the_bounds(tmp_path: Path) -> None:
    """It is open where the tick that is one too many leads out, though every fair run comes there."""
    system = written(
        tmp_path,
        {
            "system.yaml": "system: s\nroles: {a: {}}\nclock: {horizon: 4}\nenvironment: {go: {to: a, fair: true}}\n"
            "constraint: now <= 1\n",
            "roles/a.yaml": "role: a\nevents: {go: it goes on}\n"
            "states: {s: {initial: true, on: {go: {to: t}}}, t: {ignore: {go: it is over}}}\n",
            "invariants.yaml": "properties:\n"
            + "".join(f"  within_{n}: {{when: a.state == s, leads_to: a.state == t, within: {n}}}\n" for n in range(3)),
        },
    )
    for budget in (None, Budget(crash=1), Budget(skew=1)):
        assert judged(system, budget) >= {("within", True), ("within", False), ("within", None)}
        assert [r.verdict for r in explore(system, budget=budget).properties] == ["violated", "bounded", "exhausted"]


@pytest.mark.parametrize("fault", BUDGETED)
def test_flaws_of_a_specification(fault: str, tmp_path: Path) -> None:
    """A value out of its range, and two guards that hold at once; what comes after such a step is not known."""
    seen: Seen = set()
    for seed in TABLE["flawed"]:
        system = of_every_kind(tmp_path / str(seed), seed, flawed=True, channel=FAULTS[fault].get("channel", ""))
        assert system is not None
        seen |= flawed(system, budget_of(fault))
    assert seen == {(flaw, holds) for flaw in FLAWS for holds in (True, False)}


def flawed(system: System, budget: Budget | None) -> Seen:
    found = explore(system, engine="reference", budget=budget)
    flaws = {r.kind for r in found.properties if r.kind in FLAWS and r.verdict == "violated"}
    twin = whole(system, budget or Budget()).flaws
    assert flaws <= twin
    assert bool(flaws) == bool(twin) == (not found.complete)
    return {(flaw, flaw not in twin) for flaw in FLAWS if flaw in flaws or not twin}
