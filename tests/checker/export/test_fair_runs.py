"""Claims about fair runs in exported models: SPIN finds a run that breaks one if and only if the explorer does."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.checker.export import export_system
from leasehold.checker.export.shared import named_cases
from leasehold.spec import System
from leasehold.spec.language.for_each import each
from tests.checker.explore.clients import clients_by_chance
from tests.checker.export.test_promela import check
from tests.systems import files_of, written

CLAIMS = """
  leads: {for: {c: client}, when: c.state == s1, leads_to: c.n == 1}
  again: {always_eventually: any(c.state == s0 for c in client)}
  again_when: {for: {v: [0, 1]}, when: any(c.n == v for c in client), always_eventually: all(c.n == v for c in client)}
  settles: {for: {v: [0, 1]}, eventually_always: all(c.n == v for c in client)}
  settles_when: {when: any(c.state == s1 for c in client), eventually_always: any(c.n == 1 for c in client)}
"""


@pytest.mark.usefixtures("spin")
@pytest.mark.parametrize(
    "seed",
    [
        0,
        pytest.param(3, marks=pytest.mark.long),
        pytest.param(5, marks=pytest.mark.long),
        pytest.param(8, marks=pytest.mark.long),
    ],
)
def test_spin_agrees(seed: int, tmp_path: Path) -> None:
    system = clients_by_chance(tmp_path / "system", random.Random(seed), CLAIMS, fair=("false", "true"))
    text = export_system(system, "promela").text
    for p in system.properties.values():
        for one, named in zip(each(p), named_cases(p), strict=True):
            (found,) = explore(replace(system, properties={p.name: one})).properties
            printed = check(tmp_path, text, "-DLIVENESS", f"-DCLAIM_{named.name}", live=True)
            assert ("acceptance cycle" in printed) == (found.verdict == "violated"), named.name


def test_the_module_has_them_as_temporal_formulas(tmp_path: Path) -> None:
    system = written(tmp_path, files_of("checker/export/systems/flipped"))
    assert [p.verdict for p in explore(system).properties] == ["exhausted", "exhausted", "violated", "violated"]
    exported = export_system(system, "tla")
    for formula in (
        'Again == []<>((lamp.state = "lit"))',
        'Back == [](((lamp.state = "lit")) => []<>((lamp.state = "dark")))',
        'Stays == <>[]((lamp.state = "lit"))',
        'Rests == ((lamp.state = "lit")) ~> []((lamp.state = "lit"))',
    ):
        assert formula in exported.text
    assert exported.settings.count("PROPERTY") == 4


EACH = files_of("checker/export/systems/lock")["roles/lock.yaml"]


def lock(folder: Path, fair: str) -> System:
    return written(
        folder,
        {
            "system.yaml": "system: lock\nroles: {lock: {}, client: {instances: 2}}\n"
            f"environment: {{grant: {{to: lock, {fair}}}}}\n",
            "roles/lock.yaml": EACH,
            "roles/client.yaml": "role: client\nstates: {there: {initial: true}}\n",
            "invariants.yaml": "properties: {served: {for: {c: client}, always_eventually: lock.last == c}}\n",
        },
    )


@pytest.mark.usefixtures("spin")
@pytest.mark.parametrize(
    ("fair", "verdict"),
    [
        ("fair: true", "violated"),
        ("fair: true, fair_for_each: [who]", "exhausted"),
        ("fair: true, fair_for_each: [urgent]", "violated"),
        ("fair: true, fair_for_each: [who, urgent]", "exhausted"),
    ],
)
def test_an_action_is_fair_for_each_value(fair: str, verdict: str, tmp_path: Path) -> None:
    system = lock(tmp_path / "lock", fair)
    for engine in ("reference", "packed"):
        (found,) = explore(system, engine=engine).properties  # type: ignore[arg-type]
        assert found.verdict == verdict
        (found,) = explore(system, engine=engine, fairness=Fairness.NONE).properties  # type: ignore[arg-type]
        assert found.verdict == "violated"
    text = export_system(system, "promela").text
    printed = [check(tmp_path, text, "-DLIVENESS", f"-DCLAIM_served_client_{n}", live=True) for n in (0, 1)]
    assert ["acceptance cycle" in out for out in printed] == [verdict == "violated"] * 2


def test_the_module_is_fair_for_each_value(tmp_path: Path) -> None:
    text = export_system(lock(tmp_path, "fair: strong, fair_for_each: [who]"), "tla").text
    assert (
        "/\\ \\A Arg_who \\in (0..1) : SF_vars((\\E Arg_urgent \\in BOOLEAN : Lock_free_grant(Arg_who, Arg_urgent)))"
        in text
    )


def test_the_reason_names_the_value(tmp_path: Path) -> None:
    (found,) = explore(lock(tmp_path, "fair: true, fair_for_each: [who]"), fairness=Fairness.NONE).properties
    assert found.reason == (
        "for c=client[1]: in the end it comes no more, in a run that stops here: nothing need ever happen, though "
        "`grant` for lock with who=client[0], `grant` for lock with who=client[1] may come; as declared, this holds"
    )
