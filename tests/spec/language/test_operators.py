"""Every reading has a row for each operator of the language, and the rows are what the language page says."""

import ast
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import pytest

from leasehold.checker.export import promela_terms, tla_terms
from leasehold.checker.prove.encode import terms
from leasehold.checker.verify.sql import source as sql_source
from leasehold.spec.language.operators import OPERATORS, Operator, Written, template
from leasehold.spec.language.render import python_source

READINGS = [python_source, sql_source, terms, promela_terms, tla_terms]


@pytest.mark.parametrize("reading", READINGS, ids=lambda m: m.__name__)
def test_a_reading_has_a_row_for_each_operator(reading: Any) -> None:
    rows: Mapping[str, Any] = reading.ROWS
    assert set(rows) == set(OPERATORS)


@pytest.mark.parametrize(
    ("words", "operands", "written"),
    [
        ("({} + {})", ("{a}", "b"), "({a} + b)"),
        ("({1} >= {0})", ("a", "b"), "(b >= a)"),
        ("({ and })", ("a", "{b}", "c"), "(a and {b} and c)"),
        ("max({, })", ("a",), "max(a)"),
    ],
)
def test_a_template_takes_operands_as_they_are(words: str, operands: tuple[str, ...], written: str) -> None:
    assert template(words)(*operands) == written


@pytest.mark.parametrize("outer", OPERATORS.values(), ids=lambda row: row.name)
def test_an_operator_within_another_is_printed_with_the_parentheses_that_it_needs(outer: Operator) -> None:
    """Python reads the text as it reads the same with all parentheses."""
    for inner, place in product(OPERATORS.values(), range(_operands(outer))):
        printed = [_name(f"a{n}") for n in range(_operands(outer))]
        whole = list(printed)
        within = [_name(f"b{n}") for n in range(_operands(inner))]
        printed[place] = partial(inner.write, within)
        whole[place] = _name(f"({inner.write(within)})")
        text = outer.write(printed)
        assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(outer.write(whole))), text


def _operands(row: Operator) -> int:
    return len(row.signatures[0].operands) + row.signatures[0].repeated


def _name(text: str) -> Written:
    return lambda binding: text
