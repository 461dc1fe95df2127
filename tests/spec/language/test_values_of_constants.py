"""A specification is legal or not whatever the values of its constants; what is wrong with some is said of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.spec import SHIPPED, load
from leasehold.spec.language.diagnostics import SpecError
from leasehold.spec.language.types import Bool, show

EXAMPLES = [str(folder.parent) for folder in (Path(__file__).parents[3] / "examples").glob("*/system.yaml")]
SYSTEM = """
system: small
constants: {CONSTANTS}
roles: {light: {}}
environment: {press: {to: light}}
"""
ROLE = """
role: light
data: {level: {type: int, min: 0, max: 3, FIRST}, lamp: bool}
events: {press: A hand.}
states:
  off:
    initial: true
    on: {press: [CHOICES]}
    LEFT_OVER
"""
IGNORED = 'ignore: {press: "bright enough"}'


@dataclass(frozen=True)
class Case:
    """A small system, and a value of its constant that earns a finding."""

    constant: str
    value: str
    choices: Sequence[str]
    left_over: str = ""
    first: str = ""
    initially: str = ""
    declared: str = "1"

    def write(self, folder: Path) -> Path:
        transitions = ", ".join(f"{{to: off, when: {guard}}}" for guard in self.choices)
        role = ROLE.replace("CHOICES", transitions).replace("LEFT_OVER", self.left_over)
        more = f"initially: {self.initially}\n" if self.initially else ""
        kind = "bool" if self.declared in ("true", "false") else "int"
        constant = f'{self.constant}: {{type: {kind}, value: "{self.declared}"}}'
        (folder / "roles").mkdir(parents=True)
        (folder / "system.yaml").write_text(SYSTEM.replace("CONSTANTS", constant) + more)
        (folder / "roles" / "light.yaml").write_text(role.replace(", FIRST", self.first and f", {self.first}"))
        return folder

    @property
    def settings(self) -> Mapping[str, str]:
        return {self.constant: self.value}


CASES = {
    "LH412": Case("lit", "false", ["lamp or not lit"], IGNORED, declared="true"),
    "LH402": Case("most", "2", ["level < most", "level >= 1"]),
    "LH415": Case("lit", "false", ["level < 2 or lit"], declared="true"),
    "LH511": Case("most", "4", ["level >= 0"], first="initial: any", initially="light.level >= most"),
}


def codes(folder: Path, settings: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The findings that have one of the codes: code, severity, text."""
    try:
        found = load(folder, settings).warnings
    except SpecError as error:
        found = error.diagnostics
    return [(d.code, d.severity, d.what) for d in found if d.code in CASES]


@pytest.mark.parametrize("code", CASES)
def test_what_some_values_earn_is_said_of_a_run_with_them(code: str, tmp_path: Path) -> None:
    case = CASES[code]
    folder = case.write(tmp_path / "spec")
    assert codes(folder, {}) == []
    ((found, severity, words),) = codes(folder, case.settings)
    assert (found, severity) == (code, "warning")
    assert words.startswith(f"with {case.constant} = {case.value}: ")
    declared = replace(case, declared=case.value).write(tmp_path / "declared")
    assert [d[:2] for d in codes(declared, {})] == [(code, "warning")]  # a declared value is no other


def test_what_all_values_earn_refuses_the_specification(tmp_path: Path) -> None:
    folder = Case("lit", "false", ["level < 2 or lit", "level < 1"], IGNORED, declared="true").write(tmp_path / "spec")
    for values in ({}, {"lit": "false"}):
        assert [d[:2] for d in codes(folder, values)] == [("LH402", "error")]


def test_exploring_judges_what_a_value_earns(tmp_path: Path) -> None:
    overlapping = Case("most", "2", ["level < most and level < 1", "level == 0 and most == 2"], IGNORED)
    found = explore(load(overlapping.write(tmp_path / "spec"), overlapping.settings))
    assert {p.name: p.verdict for p in found.properties}["guards_disjoint"] == "violated"
    nothing = CASES["LH511"]
    with pytest.raises(SpecError, match="LH511"):
        explore(load(nothing.write(tmp_path / "none"), nothing.settings))


def test_a_value_without_a_system_is_named(tmp_path: Path) -> None:
    folder = Case("lights", "1", ["level >= 0"], declared="2").write(tmp_path / "spec")
    text = (folder / "system.yaml").read_text().replace("roles: {light: {}}", "roles: {light: {instances: lights}}")
    (folder / "system.yaml").write_text(text)
    (folder / "invariants.yaml").write_text('properties: {dark: {always: "light[1].level == 0"}}\n')
    load(folder)
    with pytest.raises(SpecError, match=r"error LH\d+: with lights = 1: ") as error:
        load(folder, {"lights": "1"})
    assert len([d for d in error.value.diagnostics if d.severity == "error"]) == 1


@pytest.mark.parametrize(
    "name", [*SHIPPED, *(pytest.param(e, marks=[pytest.mark.long] * e.endswith("confirmed_end")) for e in EXAMPLES)]
)
def test_no_value_of_a_flag_refuses_a_system(name: str) -> None:
    system = load(name)
    for constant in system.constants.values():
        if isinstance(constant.type, Bool):
            load(name, {constant.name: show(constant.type, not constant.value)})
