"""Values of several parts: both engines, SPIN, TLC, the compiled core and the prover say the same of them."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.export import export_system
from leasehold.checker.prove import ANY
from leasehold.checker.prove import prove as prove_all
from leasehold.checker.prove.decide.guards import guard_findings
from leasehold.checker.prove.decide.induction import Setting
from leasehold.faults.model import Budget
from leasehold.impl.compiler.program import NotRunnable, check_runnable
from leasehold.spec import System
from tests.checker.explore.test_engines import assert_alike
from tests.checker.export import tlc
from tests.checker.export.test_promela import check, errors, stored
from tests.checker.prove.test_relations import kinds_allowed
from tests.checker.values_by_chance import SEQUENCES, chosen_fields, values_by_chance
from tests.impl.compiler.test_chance import walk
from tests.impl.compiler.twin import Twin
from tests.systems import written

FEW = 20_000


def drawn(folder: Path, kind: str, first: int) -> System:
    """The first system by chance from a seed on that is small."""
    for seed in range(first, first + 40_000, 40):
        rng = random.Random(seed)
        system = values_by_chance(folder, rng, SEQUENCES if kind == "sequences" else chosen_fields(rng))
        if system is not None and (found := explore(system, Limits(states=FEW))).complete and found.distinct > 30:
            return system
    raise AssertionError("no seed gives a small system")


by_chance = pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, n, marks=[] if n <= (kind == "nested") else pytest.mark.long if n < 4 else pytest.mark.slow)
        for kind, several in (("sequences", 40), ("nested", 60))
        for n in range(several)
    ],
)


@by_chance
def test_both_engines_find_the_same(kind: str, seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, kind, seed)
    assert_alike(system, limits=Limits(states=FEW))
    assert_alike(system, Budget(crash=1, lose=1, duplicate=1), Limits(states=FEW))


@by_chance
def test_spin_and_tlc_find_the_same(kind: str, seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path / "system", kind, seed)
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


@by_chance
def test_the_compiled_core_takes_the_same_steps(kind: str, seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, kind, seed)
    try:
        check_runnable(system)
    except NotRunnable:
        return
    assert isinstance(walk(system), Twin)


@by_chance
def test_nothing_is_proved_that_some_run_violates(kind: str, seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, kind, seed)
    found = {p.name: p.verdict for p in explore(system).properties}
    proof = prove_all(system, ANY.limited(5.0), jobs=1)
    proved = {v.name for v in proof.of("proved")}
    if kind == "sequences":
        assert "none_is_first" in proved
    assert {name for name in proved if found[name] == "violated"} == set()


@by_chance
def test_the_relations_have_each_step_and_no_other(kind: str, seed: int, tmp_path: Path) -> None:
    system = drawn(tmp_path, kind, seed)
    assert "local" in kinds_allowed(system, {}, Budget(crash=1), 7, 40, faults=False)


GROWS = {
    "system.yaml": """system: grows
types: {slot: {count: 2}, side: {members: [left, right]}}
roles: {lamp: {}}
environment: {press: {to: lamp, when: len(it.log) < 3}}
""",
    "roles/lamp.yaml": """role: lamp
data: {log: TYPE}
events: {press: It is pressed.}
states: {lit: {initial: true, on: {press: {stay: true,ROOM set: {log: "append(log, VALUE)"}}}}}
""",
    "invariants.yaml": """properties:
  full: {sometimes: len(lamp.log) == 2}
  any_length: {always: len(lamp.log) >= 0}
""",
}
OF_TWO = {  # a value of each type
    "'seq[bool, 2]'": "true",
    "'seq[side, 2]'": "left",
    "'seq[slot, 2]'": "slot[1]",
    "'seq[lamp, 2]'": "self",
    "{type: 'seq[int, 2]', min: 0, max: 3}": "2",
}


@pytest.mark.usefixtures("spin")
@pytest.mark.parametrize("wrong", [False, True], ids=["while there is room", "once more"])
@pytest.mark.parametrize("kind", OF_TWO)
def test_the_third_value_of_two_is_too_many_in_every_reading(kind: str, wrong: bool, tmp_path: Path) -> None:
    lamp = GROWS["roles/lamp.yaml"].replace("TYPE", kind).replace("VALUE", OF_TWO[kind])
    lamp = lamp.replace("ROOM", "" if wrong else " when: len(log) < 2,")
    lamp = lamp if wrong else lamp.replace("}}}}}\n", "}}}, ignore: {press: it is full}}}\n")
    system = written(tmp_path / "grows", GROWS | {"roles/lamp.yaml": lamp})
    assert_alike(system)
    found = explore(system)
    judged = {p.name: p for p in found.properties}
    assert (judged["full"].verdict, len(judged["full"].path or ())) == ("witnessed", 2)
    assert [p.name for p in found.properties if p.verdict == "violated"] == (["types_hold"] if wrong else [])
    assert found.distinct == 3
    printed = check(tmp_path, export_system(system, "promela").text)
    assert bool(errors(printed)) == wrong
    assert ("TypesHold" in tlc.verdicts(system, claims=False).violated) == wrong
    shown = [(f.kind, f.certain) for f in guard_findings(Setting().encoding(system))]
    assert shown == ([("range", True)] if wrong else [])


WITHIN = {  # a type, and an update that leaves it
    "{type: 'map[slot, seq[slot, 1]]'}": "{s: append(log[s], s) for s in slot}",
    "{type: 'option[seq[slot, 1]]'}": "append(get(log, []), slot[0])",
    "{type: 'seq[seq[slot, 1], 1]'}": "[append(get(first(log), []), slot[0])]",
    "{type: 'map[slot, option[int]]', min: 0, max: 1}": "{s: 2 for s in slot}",
}


@pytest.mark.parametrize("kind", WITHIN)
def test_a_value_within_another_leaves_its_type_in_the_proof_too(kind: str, tmp_path: Path) -> None:
    lamp = (
        GROWS["roles/lamp.yaml"].replace("TYPE", kind).replace("ROOM", "").replace("append(log, VALUE)", WITHIN[kind])
    )
    files = GROWS | {"roles/lamp.yaml": lamp, "invariants.yaml": "properties: {lit: {always: lamp.state == lit}}\n"}
    files["system.yaml"] = files["system.yaml"].replace("press: {to: lamp, when: len(it.log) < 3}", "press: {to: lamp}")
    system = written(tmp_path, files)
    assert "types_hold" in {p.name for p in explore(system).properties if p.verdict == "violated"}
    assert [(f.kind, f.certain) for f in guard_findings(Setting().encoding(system))] == [("range", True)]


def test_tlc_begins_with_each_number_within_a_map(tmp_path: Path) -> None:
    lamp = "role: lamp\ndata: {log: {type: 'map[slot, option[int]]', min: 1, max: 2, initial: any}}\n"
    lamp += "events: {press: It is pressed.}\nstates: {lit: {initial: true, on: {press: {to: lit}}}}\n"
    files = GROWS | {
        "roles/lamp.yaml": lamp,
        "invariants.yaml": "properties: {one: {always: lamp.state == lit}}\n",
    }
    files["system.yaml"] = files["system.yaml"].replace("press: {to: lamp, when: len(it.log) < 3}", "press: {to: lamp}")
    system = written(tmp_path, files)
    found, said = explore(system), tlc.verdicts(system)
    assert (said.distinct, said.generated) == (found.distinct, found.generated) == (9, 18)


def test_none_within_a_map_is_within_its_type_in_the_proof(tmp_path: Path) -> None:
    lamp = GROWS["roles/lamp.yaml"].replace("TYPE", "{type: 'map[slot, option[int]]', min: 0, max: 1}")
    lamp = lamp.replace("ROOM", "").replace("append(log, VALUE)", "{s: none for s in slot}")
    files = GROWS | {"roles/lamp.yaml": lamp, "invariants.yaml": "properties: {lit: {always: lamp.state == lit}}\n"}
    files["system.yaml"] = files["system.yaml"].replace("press: {to: lamp, when: len(it.log) < 3}", "press: {to: lamp}")
    assert guard_findings(Setting().encoding(written(tmp_path, files))) == []


# A value stands for an optional one, and a short sequence where a longer one may, however deep in others.
FITTED = {
    "system.yaml": """system: within
types: {side: {members: [left, right]}, hand: {members: [one, other]}}
roles: {lamp: {}}
environment: {press: {to: lamp}}
""",
    "roles/lamp.yaml": """role: lamp
data:
  near: "map[side, option[hand]]"
  kept: "option[map[side, option[hand]]]"
  cells: "seq[map[side, option[hand]], 2]"
  logs: "map[side, seq[hand, 2]]"
  bit: bool
events: {press: It is pressed.}
states:
  off:
    initial: true
    on:
      press:
        to: lit
        set:
          near: "{s: one for s in side}"
          kept: "{s: one for s in side}"
          cells: "[{s: other for s in side}]"
          logs: "{s: [one] for s in side}"
  lit: {ignore: {press: it is lit}}
""",
}
SO = {
    "near_all": "near == {s: one for s in side}",
    "near_one": "near[left] == one and near != {s: none for s in side}",
    "chosen": "(near if bit else {s: one for s in side}) == near",
    "kept_near": "kept == near and kept != {s: other for s in side}",
    "kept_cell": "get(kept, {s: other for s in side})[right] == one",
    "cells_one": "cells == [{s: other for s in side}]",
    "cells_first": "first(cells) == {s: other for s in side} and cells[1] == none",
    "cells_has": "{s: other for s in side} in cells and {s: one for s in side} not in cells",
    "cells_more": "append(cells, {s: one for s in side})[1] == near",
    "logs_short": "logs == {s: [one] for s in side} and logs != {s: [one, other] for s in side}",
    "logs_chosen": "({s: [] for s in side} if bit and not bit else logs) == logs",
}


@pytest.mark.usefixtures("spin")
@pytest.mark.parametrize("wrong", [False, pytest.param(True, marks=pytest.mark.long)], ids=["so", "not so"])
def test_a_value_is_fitted_to_its_place_in_every_reading(wrong: bool, tmp_path: Path) -> None:
    names = "|".join(("near", "kept", "cells", "logs", "bit"))
    lines = []
    for name, text in SO.items():
        claim = re.sub(rf"\b({names})\b", r"lamp.\1", text)
        lines.append(f'  {name}: {{when: lamp.state == lit, always: "{f"not ({claim})" if wrong else claim}"}}\n')
    claims = "properties:\n" + "".join(lines)
    system = written(tmp_path / "within", {**FITTED, "invariants.yaml": claims})
    assert_alike(system)
    broken = set(SO) if wrong else set()
    assert {p.name for p in explore(system).properties if p.verdict == "violated"} == broken
    for name in SO if wrong else [""]:  # SPIN ends with the first that is violated
        some = written(tmp_path / name, {**FITTED, "invariants.yaml": only(claims, name)})
        assert bool(errors(check(tmp_path, export_system(some, "promela").text))) == wrong, name
    said = tlc.verdicts(system)
    assert {name for name in SO if name.capitalize() in said.violated} == broken
    proof = prove_all(system, ANY, jobs=1)
    assert {v.name for v in proof.of("proved")} & set(SO) == (set() if wrong else set(SO))


def only(claims: str, name: str) -> str:
    """One of these properties; all of them without a name."""
    head, *lines = claims.splitlines(keepends=True)
    return head + "".join(line for line in lines if line.startswith(f"  {name}:" if name else ""))
