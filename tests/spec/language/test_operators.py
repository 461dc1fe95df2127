"""Every reading has a row for each operator of the language, and the rows are what the language page says."""

from collections.abc import Mapping
from typing import Any

import pytest

from leasehold.checker.export import promela_terms, tla_terms
from leasehold.checker.prove.encode import terms
from leasehold.spec.language import python_source
from leasehold.spec.language.operators import OPERATORS, template


@pytest.mark.parametrize("reading", [python_source, terms, promela_terms, tla_terms], ids=lambda m: m.__name__)
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
