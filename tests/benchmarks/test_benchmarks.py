"""That the benchmarks run and have something to say. No times are asserted: they belong on the page, not in tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks import page
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, rounds, short
from tests.benchmarks.run import ALL, measure


def _rows(section: Section) -> Iterator[Row]:
    for table in section.tables:
        yield from table.rows


MARKS = {
    **dict.fromkeys(("discovery", "dispatch", "engines", "exploring", "recovery"), pytest.mark.slow),
    **dict.fromkeys(
        ("containers", "durable", "end_to_end", "ring", "size", "verify", "verify_long", "verify_units", "watched"),
        pytest.mark.long,
    ),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=MARKS.get(n, ())) for n in ALL])
def test_a_benchmark_measures_something(name: str, tmp_path: Path) -> None:
    try:
        section = measure(name, quick=True)
    except Missing as missing:
        pytest.skip(str(missing))
    rows = list(_rows(section))
    if not rows:
        pytest.skip("; ".join(section.skipped))
    assert section.name == name
    for row in rows:
        # A file of few leases is as large as an empty one: pages are rounded up.
        assert all(figure > 0 or (name == "size" and figure == 0) for figure in row.figures), row
        assert all(ratio > 0 for ratio in row.ratios), row
    page.write(section, tmp_path / "page.md")
    written = (tmp_path / "page.md").read_text()
    assert all(row.what in written for row in rows)


def _section(name: str, figure: float) -> Section:
    rows = [Row("ours", [figure, 3 * figure], [2.0, 2.0], (Target(1.0), Target(figure, least=False, of_ratio=False)))]
    return Section(name, f"About {name}", "How.", [Table("what", "s", rows, "theirs")])


def test_a_section_takes_the_place_of_the_one_before_and_of_no_other(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    for name, figure in (("one", 1.0), ("two", 2.0), ("one", 3.0)):
        page.write(_section(name, figure), file)
    text = file.read_text()
    assert text.count("## About one") == text.count("## About two") == 1
    assert text.index("## About one") < text.index("## About two")
    assert "| ours | 6.00 | 3.00–9.00 | 3.00 (1.50–4.50) |" in text
    assert "| ours | 4.00 | 2.00–6.00 |" in text


def test_a_target_says_whether_it_was_met(tmp_path: Path) -> None:
    text = page.text(_section("one", 1.0), "")
    assert "ratio at least 1.00: met; less than 1.00 s: missed" in text  # a ratio of 1.00, and a figure of 2.00


def test_what_is_compared_runs_in_turns() -> None:
    order: list[str] = []

    def run(name: str) -> float:
        order.append(name)
        return len(order)

    assert rounds({"a": lambda: run("a"), "b": lambda: run("b")}, 2) == {"a": [1, 3], "b": [2, 4]}
    assert order == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("number", "words"), [(0.0, "0"), (0.01234, "0.012"), (1.5, "1.50"), (12.34, "12.3"), (4_446_100, "4,450,000")]
)
def test_numbers_have_the_digits_that_count(number: float, words: str) -> None:
    assert short(number) == words
