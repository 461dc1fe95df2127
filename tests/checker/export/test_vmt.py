"""The exported VMT-LIB, read back by z3: its executions are the explorer's."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import z3

from leasehold.checker.explore import explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.export import Exported, ExportError, export_system
from leasehold.checker.prove.encode.formulas import constants
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.spec import System
from leasehold.spec.language import types as t
from tests.checker.explore.by_chance import written
from tests.checker.export.lamp import LAMP
from tests.systems import TRUTH, load

DEFINED = re.compile(r"^\(define-fun (\S+) \(\) Bool \(! (.*?) :(init|trans|invar-property) (\w+)\)\)$", re.M | re.S)
VARIABLE = re.compile(r"^\(define-fun \.state_\d+ \(\) \w+ \(! (\|.*?\||\S+) :next (.*)\)\)$", re.M)


class Vmt:
    """A transition system as a checker reads it: only what is annotated counts."""

    def __init__(self, made: Exported) -> None:
        kinds = {name: (kind, word) for name, _, kind, word in DEFINED.findall(made.text)}
        plain = DEFINED.sub(r"(define-fun \1 () Bool \2)", VARIABLE.sub("", made.text))
        self.pairs: list[tuple[Any, Any]] = []

        def read(name: str) -> Any:
            (found,) = z3.parse_smt2_string(f"{plain}\n(assert {name})") or [z3.BoolVal(True)]
            return found

        for now, then in re.findall(
            r"(?m)^\(define-fun \.state_\d+ \(\) \w+ \(! (\|.*?\||\S+) :next (.*)\)\)$", made.text
        ):
            same = read(f"(= {now} {then})")
            self.pairs.append((same.arg(0), same.arg(1)))
        self.init, self.trans = read(".init"), read(".trans")
        self.properties = {
            name.removeprefix(".property_"): read(name) for name, (kind, _) in kinds.items() if kind == "invar-property"
        }

    def value(self, model: Any, variables: list[Any]) -> tuple[Any, ...]:
        return tuple(model.eval(v, model_completion=True) for v in variables)

    def all_of(self, solver: Any, variables: list[Any]) -> set[tuple[Any, ...]]:
        """Every combination of values that the variables may have."""
        found = set()
        while solver.check() == z3.sat:
            values = self.value(solver.model(), variables)
            found.add(values)
            solver.add(z3.Or(*(v != value for v, value in zip(variables, values, strict=True))))
        return found

    def levels(self) -> list[set[tuple[Any, ...]]]:
        """States by their distance from an initial one."""
        now, then = map(list, zip(*self.pairs, strict=True))
        solver = z3.Solver()
        solver.add(self.init)
        levels = [self.all_of(solver, now)]
        seen = set(levels[0])
        steps = z3.Solver()
        steps.add(self.trans)
        while levels[-1]:
            following = set()
            for state in levels[-1]:
                steps.push()
                steps.add(*(v == value for v, value in zip(now, state, strict=True)))
                following |= self.all_of(steps, then)
                steps.pop()
            levels.append(following - seen)
            seen |= following
        return levels[:-1]

    def violated_at(self, name: str, most: int) -> int | None:
        """The depth at which a property is first violated, by unrolling the relation."""
        now, then = map(list, zip(*self.pairs, strict=True))
        solver = z3.Solver()
        solver.add(self.init)
        for depth in range(most + 1):
            here = [z3.Const(f"{v}@{depth}", v.sort()) for v in now]
            if depth == 0:
                solver.add(*(v == h for v, h in zip(now, here, strict=True)))
            if solver.check(z3.Not(z3.substitute(self.properties[name], *zip(now, here, strict=True)))) == z3.sat:
                return depth
            following = [z3.Const(f"{v}@{depth + 1}", v.sort()) for v in now]
            inputs = [v for v in constants(self.trans) if not any(v.eq(w) for w in (*now, *then))]
            chosen = [(v, z3.Const(f"{v}@{depth}", v.sort())) for v in inputs]
            bound = [*zip(now, here, strict=True), *zip(then, following, strict=True), *chosen]
            solver.add(z3.substitute(self.trans, *bound))
        return None


def explored(system: System) -> dict[tuple[Any, ...], int]:
    """What is seen of the explorer's states (control states, numbers, truth values, the clock), each with its depth."""
    world = reference_of(system)
    cells = [world.layout.at(r, i, name) for r, i, name in seen_of(system)]
    cells += [] if world.layout.clock is None else [world.layout.clock]
    depths: dict[tuple[Any, ...], int] = {}
    level, known, depth = [s for s in world.initial_states() if world.within_bounds(s)], set(), 0
    while level:
        known |= set(level)
        for s in level:
            depths.setdefault(tuple(s[c] for c in cells), depth)
        following = {after for s in level for _, after in world.successors(s)}
        level, depth = [s for s in following - known if world.within_bounds(s)], depth + 1
    return depths


def seen_of(system: System) -> list[tuple[str, int, str | None]]:
    seen = [
        (role.name, i, name)
        for role, i in system.machines()
        for name in (None, *(d.name for d in role.data.values() if isinstance(d.type, t.Int | t.Bool)))
    ]
    return seen + [("shared", 0, d.name) for d in system.shared.values() if isinstance(d.type, t.Int | t.Bool)]


def read_back(system: System, vmt: Vmt, levels: list[set[tuple[Any, ...]]]) -> dict[tuple[Any, ...], int]:
    """The same of the exported states."""
    place = {str(now).strip("|"): n for n, (now, _) in enumerate(vmt.pairs)}
    shown = []
    for name, i, datum in seen_of(system):
        role = system.holders[name]
        key = f"state.{name}" if datum is None else f"data.{name}.{datum}"
        members = list(role.states) if datum is None else None
        shown.append((place[key + (f"[{i}]" if role.indexed else "")], members))
    shown += [] if system.clock is None else [(place["now"], None)]
    depths: dict[tuple[Any, ...], int] = {}
    for depth, level in enumerate(levels):
        for state in level:
            values = tuple(python(state[n]) if m is None else m[state[n].as_long()] for n, m in shown)
            depths.setdefault(values, depth)
    return depths


def python(value: Any) -> int | bool:
    return z3.is_true(value) if z3.is_bool(value) else int(value.as_long())


@pytest.mark.parametrize(("name", "settings"), [
    ("lamp", {}), ("two_phase_commit", {"participants": 1}), (TRUTH / "acp_sb", {"participants": 1}),
    (TRUTH / "two_phase", {"resource_managers": 2}),
    (TRUTH / "tcommit", {"resource_managers": 2}),
    (TRUTH / "lock", {}),
    (TRUTH / "peterson", {}),
    pytest.param("two_phase_commit", {"participants": 2}, marks=pytest.mark.slow),
], ids=str)  # fmt: skip
def test_states_are_reached_at_the_explorers_depth(name: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    system = written(tmp_path, LAMP) if name == "lamp" else load(name, settings)
    vmt = Vmt(export_system(system, "vmt"))
    levels = vmt.levels()
    assert read_back(system, vmt, levels) == explored(system)
    broken = {p.name for p in explore(system).properties if p.kind == "always" and p.verdict == "violated"}
    now = [v for v, _ in vmt.pairs]
    for claim, holds in vmt.properties.items():
        judged = (z3.simplify(z3.substitute(holds, *zip(now, s, strict=True))) for level in levels for s in level)
        assert all(map(z3.is_true, judged)) == (claim not in broken), claim


def test_there_is_one_first_state_though_an_option_has_no_value(tmp_path: Path) -> None:
    vmt = Vmt(export_system(written(tmp_path, LAMP), "vmt"))
    solver, now = z3.Solver(), [v for v, _ in vmt.pairs]
    solver.add(vmt.init)
    assert solver.check() == z3.sat
    first = vmt.value(solver.model(), now)
    assert solver.check(z3.Or(*(v != value for v, value in zip(now, first, strict=True)))) == z3.unsat


@pytest.mark.parametrize(("name", "settings", "words"), [
    ("two_phase_commit", {"participants": 2}, "not any(True for m in pending(disagree))"),
    ("two_phase_commit", {"participants": 2}, "coordinator.state != committing"),
    (TRUTH / "two_phase", {}, "transaction_manager.state != committed"),
], ids=str)  # fmt: skip
def test_a_violation_is_found_at_the_explorers_depth(name: Any, settings: dict[str, Any], words: str) -> None:
    wrong = replace(CandidateLemma("wrong", "", words).of(load(name, settings)), kind="always")
    system = replace(load(name, settings), properties={"wrong": wrong})
    (found,) = [p for p in explore(system).properties if p.name == "wrong"]
    assert found.path is not None
    depth = len(found.path.steps)
    vmt = Vmt(export_system(system, "vmt"))
    assert vmt.violated_at("wrong", depth) == depth
    assert vmt.violated_at("types_hold", 3) is None if "types_hold" in vmt.properties else True


def test_faults_of_channels_are_refused() -> None:
    with pytest.raises(ExportError, match=r"system.yaml:\d+:\d+: channel messages has faults"):
        export_system(load(TRUTH / "alternating_bit"), "vmt")


def test_what_vmt_cannot_say_is_named() -> None:
    made = export_system(load("two_phase_commit", {"participants": 1}), "vmt")
    assert [left.name for left in made.left_out if left.name.startswith("all_may")] == [
        "all_may_commit",
        "all_may_abort",
    ]
    for left in made.left_out:
        assert f"; Not here: {left.name}: " in made.text
