"""Every operator has in Promela and TLA+ the value that its row says; a new row is tested without a change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.export import export_system
from leasehold.checker.export.tla_terms import TlaBindings, TlaNames
from leasehold.checker.export.tla_terms import term as tla_term
from leasehold.spec import System
from leasehold.spec.language.lower import lower
from leasehold.spec.language.operators import OPERATORS, Operator
from leasehold.spec.language.types import Value
from tests.checker.explore.by_chance import written
from tests.checker.export.test_promela import check, errors
from tests.spec.language.test_readings import applications

VALUES: dict[str, tuple[Value, ...]] = {
    "int": (-3, -2, 0, 2, 5),
    "bool": (False, True),
    "time": (0, 2),
    "colour": ("red", "blue"),
    "set[colour]": (frozenset(), frozenset({"red"}), frozenset({"red", "blue"}), frozenset({"red", "green", "blue"})),
    "option[int]": (None, 0, 4),
    "unit": (0, 1),
}
# Operands are fields, so that nothing computes with them beforehand; a field cannot begin as a machine.
FIELDS = {operand: f"f{n}" for n, operand in enumerate((k, v) for k in VALUES if k != "unit" for v in VALUES[k])}

REFUSED = {("<", "set[colour]"), (">", "set[colour]")}  # proper subsets
PART = 40  # claims of one property
SYSTEM = """
system: operands
types: {colour: {members: [red, green, blue]}}
roles: {hub: {}, unit: {instances: 2}}
environment: {poke: {to: hub}, nudge: {to: unit}}
clock: {horizon: 1}
"""
HUB = "role: hub\nevents: {poke: p}\nstates: {idle: {initial: true, on: {poke: {to: idle}}}}"
UNIT = "role: unit\nevents: {nudge: n}\nstates: {idle: {initial: true, on: {nudge: {to: idle}}}}"


def literal(kind: str, value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case frozenset():
            return "{" + ", ".join(sorted(value)) + "}"
        case None:
            return "none"
    return f"unit[{value}]" if kind == "unit" else f"({value})" if kind == "int" else str(value)


def operand(kind: str, value: Value, binding: int) -> str:
    """The text of an operand, however tightly the operator binds."""
    return f"hub.{FIELDS[kind, value]}" if (kind, value) in FIELDS else literal(kind, value)


def claims(row: Operator) -> Iterator[str]:
    """What the value of an operator is, for all combinations of VALUES that it takes."""
    for result, ways in applications(row).items():
        for kinds in ways if result in VALUES else ():
            if all(kind in VALUES for kind in kinds) and (row.name, kinds[0]) not in REFUSED:
                for operands in product(*(VALUES[kind] for kind in kinds)):
                    text = row.write([partial(operand, *pair) for pair in zip(kinds, operands, strict=True)])
                    yield f"({text}) == {literal(result, row.means(*operands))}"


EVERY = {name: list(claims(row)) for name, row in OPERATORS.items()}
PARTS = [(name, found[n : n + PART]) for name, found in EVERY.items() for n in range(0, len(found), PART)]


@pytest.fixture
def system(tmp_path: Path) -> System:
    """Each property is a part of the claims about one operator."""
    properties = ["properties:"]
    for n, (name, part) in enumerate(PARTS):
        properties.append(f"  p{n}: {{doc: '{name}', always: \"{' and '.join(part)}\"}}")
    data = ["data:"]
    for (kind, value), name in FIELDS.items():
        data.append(f'  {name}: {{type: "{kind}", initial: "{literal(kind, value)}"}}')
    return written(tmp_path, {
        "system.yaml": SYSTEM, "roles/unit.yaml": UNIT,
        "roles/hub.yaml": "\n".join([HUB, *data]),
        "invariants.yaml": "\n".join(properties),
    })  # fmt: skip


def test_the_claims_are_true_and_about_every_operator(system: System) -> None:
    assert [name for name, found in EVERY.items() if not found] == ["[]"]  # which the systems of other tests use
    assert {p.doc for p in explore(system).properties if p.verdict != "exhausted"} == set()


@pytest.mark.usefixtures("spin")
def test_spin_reads_every_operator_as_its_row_says(system: System, tmp_path: Path) -> None:
    printed = check(tmp_path, export_system(system, "promela").text)
    broken = {PARTS[int(n)][0] for n in re.findall(r"assertion violated Holds_p(\d+)", printed)}
    assert (broken, errors(printed)) == (set(), 0)


# TLA+ as Python reads it: what differs in notation, and the functions that the module takes from others or defines.
TOKENS = {
    "(IF ": "choice(", " THEN ": ", ", " ELSE ": ", ", "/\\": " and ", "\\/": " or ", "~": " not ", "<=": "<=",
    ">=": ">=", "/=": "!=", "=": "==", "\\notin": " not in ", "\\in": " in ", "\\union": "|", "\\intersect": "&",
    "\\subseteq": "<=", "\\": "-", "{": "frozenset((", "}": ",))", "TRUE": "True", "FALSE": "False",
}  # fmt: skip
FUNCTIONS = {
    "choice": lambda test, then, otherwise: then if test else otherwise, "frozenset": frozenset,
    "Min": min, "Max": max, "Cardinality": len, "Get": lambda option, otherwise: next(iter(option), otherwise),
    "Div": OPERATORS["//"].means, "Mod": OPERATORS["%"].means,
}  # fmt: skip


def test_tla_has_every_operator_as_its_row_says(system: System) -> None:
    """Read by rules of notation, as TLC is not at hand; `Div` and `Mod` are taken to be what the language says."""
    values = {
        name: frozenset() if value is None else frozenset({value}) if kind.startswith("option") else value
        for (kind, value), name in FIELDS.items()
    }
    names = {**FUNCTIONS, system.roles["hub"].name: SimpleNamespace(**values)}
    frame = TlaBindings(TlaNames(lower(system)))
    pattern = re.compile("|".join(map(re.escape, sorted(TOKENS, key=len, reverse=True))))
    for name, p in zip((name for name, _ in PARTS), system.properties.values(), strict=True):
        assert p.claim is not None
        text = tla_term(p.claim, frame)
        python = pattern.sub(lambda found: TOKENS[found[0]], text.replace("{}", "frozenset()"))
        assert eval(python, names) is True, (name, text)
