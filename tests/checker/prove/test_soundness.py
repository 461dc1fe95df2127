"""Claims that are false are not proved: small systems, each with one that some setting or some run contradicts.

Each system is one with which somebody who wanted to has once had a false claim proved.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold.checker.explore import Engine, explore
from leasehold.checker.export import export_system
from leasehold.checker.prove import NoSuchNumbers, prove
from leasehold.checker.prove.decide import proof_store
from leasehold.checker.prove.decide.induction import ANY, Setting, induct
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Unencodable
from leasehold.faults.model import Budget
from leasehold.spec import SpecError
from tests.checker.prove.claimed import claimed
from tests.systems import load

FALSE = yaml.safe_load(Path(__file__).with_name("false_claims.yaml").read_text(encoding="utf-8"))
FAULTLESS = FaultScope(crash=False, network=False)
LONG = ("one that is driven and says",)


def name_of(case: dict[str, Any]) -> str:
    return str(case.get("about", case["claim"]))


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=name_of(c), marks=[pytest.mark.long] * (name_of(c) in LONG)) for c in FALSE]
)
def test_what_is_false_is_not_proved(case: dict[str, Any], tmp_path: Path) -> None:
    """Or it is proved for the constants as they are, with which it holds."""
    folder = claimed(tmp_path, case["system"], case["claim"], *case.get("edits", {}).items())
    constants, faults = case.get("constants", {}), case.get("faults")
    found = explore(load(folder, constants), budget=Budget.parse(faults) if faults else None)
    assert {p.verdict for p in found.properties if p.name == "claim"} == {"violated"}
    scope = FAULTLESS if case.get("faultless") else ANY.scope
    setting = Setting(scope=scope, limit_seconds=case.get("limit_seconds", ANY.limit_seconds))
    for system in [load(folder), *([load(folder, constants)] if constants else ())]:
        try:
            proof = prove(system, setting, jobs=1, small=system)
        except Unencodable:
            continue
        if "claim" in [v.name for v in proof.verdicts if v.verdict == "proved"]:
            # What does not hold for each value of a constant may be proved for the one that it has.
            assert any(system.constants[name].value != value for name, value in constants.items())
            assert proof.assumptions is not None
            assert any(proof.assumptions.constants[name].startswith("= ") for name in constants)


def test_constants_in_types_are_as_set(tmp_path: Path) -> None:
    """Types and numbers of machines that are worked out have the values of constants in them, and the proof says so."""
    folder = claimed(tmp_path, "capped", "all(v.x <= 2 for v in w) and len(w) == 2")
    found = prove(load(folder), jobs=1)
    assert found.holds
    assert found.any_number == []
    assert found.held == ["cap=2", "n=1"]
    assert found.for_what.startswith("cap=2, n=1, all values")


def test_no_time_from_outside_is_before_0(tmp_path: Path) -> None:
    """The explorer, the prover and the exported model try the same times, wherever a range begins."""
    system = load(claimed(tmp_path, "timed", "a.t >= 0 and a.u >= 0"))
    engines: tuple[Engine, ...] = ("reference", "auto")
    for found in (explore(system, engine=engine) for engine in engines):
        assert {p.name: p.verdict for p in found.properties} == {"claim": "exhausted"}
        assert found.distinct == 2 * (1 + 2 + 3)
    assert prove(system, jobs=1).holds
    assert export_system(system, "tla").text.count(": 0 <= N}") == 2


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"w": 1}, "w has at least 2, the least value of n"),
        ({"w": 3, "v": 2}, "v has 3, as n is the number of several"),
        ({"u": 3}, "u has 2, the value of m, of which a type"),
        ({"one": 2}, "one has 1, as no constant alone is their number"),
    ],
)
def test_numbers_that_cannot_be_are_refused(sizes: dict[str, int], words: str, tmp_path: Path) -> None:
    """Anything would be proved of a system that there cannot be; and what follows from a number is said."""
    system = load(claimed(tmp_path, "numbers", "all(x.state == a for x in w)"))
    with pytest.raises(NoSuchNumbers, match=words):
        prove(system, Setting(sizes=sizes), jobs=1)
    found = prove(system, Setting(sizes={"v": 4}), jobs=1)
    assert not found.holds
    assert found.any_number == []
    assert found.held == ["v=4", "w=4", "m=2"]
    assert prove(system, jobs=1).assumptions.machines["w"] == "any number from 2 on"


def test_what_nobody_knows_of_the_first_states_is_not_proved(tmp_path: Path) -> None:
    """Deeper induction asks of the first states as well."""
    folder = claimed(tmp_path, "rotated", "a.x * a.x * a.x + a.y * a.y * a.y + a.z * a.z * a.z != 165")
    system = load(folder)
    setting = Setting(limit_seconds=1)
    assert "claim" not in induct(system, setting).proved
    assert {v.verdict for v in prove(system, setting, small=system).verdicts} == {"undecided"}


def test_what_the_latest_message_says_is_proved(tmp_path: Path) -> None:
    """Whatever was sent before it and is not received, and whichever is lost."""
    claim = "all(q.k == a.k for q in pending(m) if q.latest) and all(q.latest or q.k < 3 for q in pending(m))"
    proof = prove(load(claimed(tmp_path, "ranked", claim)), ANY, jobs=1)
    assert [v.verdict for v in proof.verdicts] == ["proved"]


def test_a_proof_that_was_kept_is_one_for_the_same_nodes(tmp_path: Path) -> None:
    one = claimed(tmp_path / "one", "ordered", "c.state != c4")
    nodes = ("environment:", "faults: {nodes: {box: [all]}, check: crash=1}\nenvironment:")
    two = claimed(tmp_path / "two", "ordered", "c.state != c4", nodes)
    files = [proof_store._file(load(folder)) for folder in (one, two)]
    assert None not in files
    assert files[0] != files[1]


def test_a_message_that_leaves_its_type_is_the_specification_s_fault(tmp_path: Path) -> None:
    engines: tuple[Engine, ...] = ("reference", "packed")
    for engine, kind in product(engines, ("mailbox", "fifo", "set", "bag", "multiset")):
        edits = (("mailbox, lose: any", kind), ("with: {k: k}", "with: {k: k + 2}"))
        folder = claimed(tmp_path / engine / kind, "ranked", "b.got or not b.got", *edits)
        found = explore(load(folder), engine=engine)
        words = {p.name: (p.verdict, p.reason) for p in found.properties}
        assert words["types_hold"][0] == "violated"
        assert "task `say` gives `k` of `m` the value 4, outside its type's range" in words["types_hold"][1]


def test_a_message_with_a_time_before_the_first_is_the_specification_s_fault(tmp_path: Path) -> None:
    edits = (
        ("environment:", "clock: {horizon: 2}\nenvironment:"),
        ("fields: {k: {type: int, min: 0, max: 3}}", "fields: {k: time}"),
        ("data: {k: {type: int, min: 0, max: 3}}", "data: {k: {type: int, max: 3}, at: time}"),
        ("with: {k: k}", "with: {k: at - 1}"),
    )
    found = explore(load(claimed(tmp_path, "ranked", "b.got or not b.got", *edits)))
    reason = next(p.reason for p in found.properties if p.name == "types_hold")
    assert "task `say` gives `k` of `m` the value -1, outside its type's range" in reason


def test_what_small_settings_show_counts_where_the_proof_is_for_them(tmp_path: Path) -> None:
    """Another value of a constant that bounds, or another number of machines, is another question."""
    folder = claimed(tmp_path, "bounded", "n > 2 or all(x.z * x.z <= 9 for x in a)")
    (folder / "invariants.yaml").write_text(
        "properties:\n  of_one: {when: cap == 1, always: all(x.z <= cap for x in a)}\n"
        "  of_two: {when: len(a) == 2, always: all(x.z <= cap for x in a)}\n"
        "  many: {always: all(x.z * x.z * x.z - 4 * x.z * x.z + 3 * x.z >= 0 or x.z == 2 for x in a) and n == 3}\n"
    )
    system, small = load(folder), load(folder, {"cap": 1, "n": 1})
    found = prove(system, jobs=1, small=small)
    assert {v.name: v.vacuous for v in found.properties}["of_one"] == "no state has its antecedent"
    fixed = prove(system, Setting(sizes={"a": 3}, limit_seconds=2.0), jobs=1, small=system)
    vacuous = {v.name: v.vacuous for v in fixed.properties if v.vacuous}
    assert vacuous == {"of_one": "no state has its antecedent", "of_two": "no state has its antecedent"}
    assert "counterexample" not in {v.verdict for v in fixed.properties}


def test_nothing_is_proved_of_a_system_without_a_first_state(tmp_path: Path) -> None:
    """The loader tries the constants that are given; a proof is for others too."""
    first = ("environment:", "initially: any(x.z > 0 for x in a) or len(a) > 1\nenvironment:")
    folder = claimed(tmp_path, "bounded", "all(x.z <= cap for x in a)", first)
    (warning,) = load(folder, {"n": 1}).warnings
    assert (warning.code, warning.severity, warning.what[:12]) == ("LH511", "warning", "with n = 1: ")
    with pytest.raises(SpecError, match=r"LH511: no combination of first values is as `initially` says with .*n = 1"):
        explore(load(folder, {"n": 1}))
    several = load(folder, {"n": 2})
    assert prove(several, jobs=1, small=several).of("proved")
    with pytest.raises(SpecError, match=r"LH511: .* says with a=1, cap=3"):
        prove(several, Setting(sizes={"a": 1}), jobs=1)


@pytest.mark.parametrize(
    ("actors", "words"),
    [
        ("actors: {a: [b]}", "the actor `a` has the name of a role that it does not play"),
        ("actors: {x: [a], y: [a, b]}", "`a` is played by `x` already"),
        ("actors: {x: [a, a]}", "`a` is played by `x` already"),
        ("actors: {x: [], y: [a]}", "the actor `x` plays no role"),
        ("actors: {x: [a], y: [b]}\nfaults: {nodes: {x: [x, y]}}", "the node `x` has the name of an actor"),
    ],
)
def test_an_actor_is_not_taken_for_another(actors: str, words: str, tmp_path: Path) -> None:
    """Exploring and the prover took two of one name for one: `running(a) == running(b)` was proved."""
    edits = (("fifo, duplicate", "mailbox, lose"), ("environment:", f"{actors}\nenvironment:"))
    with pytest.raises(SpecError, match=words):
        load(claimed(tmp_path, "says", "running(a) == running(b)", *edits))
