"""Every operator has in Promela and TLA+ the value that its row says; a new row is tested without a change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.export import export_system
from leasehold.spec import System
from leasehold.spec.language.operators import OPERATORS, Operator
from leasehold.spec.language.types import Value
from tests.checker.export.test_promela import check, errors
from tests.checker.export.tlc import verdicts
from tests.spec.language.test_readings import applications
from tests.systems import written

VALUES: dict[str, tuple[Value, ...]] = {
    "int": (-3, -2, 0, 2, 5),
    "bool": (False, True),
    "time": (0, 2),
    "colour": ("red", "blue"),
    "set[colour]": (frozenset(), frozenset({"red"}), frozenset({"red", "blue"}), frozenset({"red", "green", "blue"})),
    "option[int]": (None, 0, 4),
    "unit": (0, 1),
    "seq[int]": ((), (4,), (0, -2, 0)),
    "seq[colour]": ((), ("blue", "red")),
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
        case tuple():
            return "[" + ", ".join(str(v) for v in value) + "]"
    return f"unit[{value}]" if kind == "unit" else f"({value})" if kind == "int" else str(value)


def operand(kind: str, value: Value, binding: int) -> str:
    """The text of an operand, however tightly the operator binds."""
    return f"hub.{FIELDS[kind, value]}" if (kind, value) in FIELDS else literal(kind, value)


def claims(row: Operator) -> Iterator[str]:
    """Yields what the value of an operator is, for all combinations of VALUES that it takes."""
    for result, ways in applications(row).items():
        for kinds in ways if result in VALUES else ():
            if all(kind in VALUES for kind in kinds) and (row.name, kinds[0]) not in REFUSED:
                for operands in product(*(VALUES[kind] for kind in kinds)):
                    text = row.write([partial(operand, *pair) for pair in zip(kinds, operands, strict=True)])
                    yield f"({text}) == {literal(result, row.means(*operands))}"


def mixed_claims() -> Iterator[str]:
    """Yields comparisons of a value with an option of its type, on either side."""
    kinds = ("int", "option[int]")
    for left, right in (kinds, kinds[::-1]):
        for a, b in product(VALUES[left], VALUES[right]):
            for name in ("==", "!="):
                row = OPERATORS[name]
                text = row.write([partial(operand, left, a), partial(operand, right, b)])
                yield f"({text}) == {literal('bool', row.means(a, b))}"


EVERY = {**{name: list(claims(row)) for name, row in OPERATORS.items()}, "mixed": list(mixed_claims())}
PARTS = [(name, found[n : n + PART]) for name, found in EVERY.items() for n in range(0, len(found), PART)]


@pytest.fixture
def system(tmp_path: Path) -> System:
    """Each property is a part of the claims about one operator."""
    properties = ["properties:"]
    for n, (name, part) in enumerate(PARTS):
        properties.append(f"  p{n}: {{doc: '{name}', always: \"{' and '.join(part)}\"}}")
    data = ["data:"]
    for (kind, value), name in FIELDS.items():
        declared = kind.replace("]", ", 4]") if kind.startswith("seq") else kind
        data.append(f'  {name}: {{type: "{declared}", initial: "{literal(kind, value)}"}}')
    return written(
        tmp_path,
        {
            "system.yaml": SYSTEM,
            "roles/unit.yaml": UNIT,
            "roles/hub.yaml": "\n".join([HUB, *data]),
            "invariants.yaml": "\n".join(properties),
        },
    )


def test_the_claims_are_true_and_about_every_operator(system: System) -> None:
    assert [name for name, found in EVERY.items() if not found] == ["[]"]  # which the systems of other tests use
    assert {p.doc for p in explore(system).properties if p.verdict != "exhausted"} == set()


@pytest.mark.usefixtures("spin")
def test_spin_reads_every_operator_as_its_row_says(system: System, tmp_path: Path) -> None:
    printed = check(tmp_path, export_system(system, "promela").text)
    broken = {PARTS[int(n)][0] for n in re.findall(r"assertion violated Holds_p(\d+)", printed)}
    assert (broken, errors(printed)) == (set(), 0)


@pytest.mark.usefixtures("tlc")
def test_tlc_reads_every_operator_as_its_row_says(system: System) -> None:
    told = verdicts(system)
    assert (told.violated, len(told.asked & {f"P{n}" for n in range(len(PARTS))})) == (set(), len(PARTS))
