"""The text of expected.yaml after a search, in each layout: what is added stands where the others do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from leasehold.checker.explore import Exploration, explore
from leasehold.checker.explore.expectations import counts
from leasehold.cli.expected import difference, renewed
from leasehold.spec.language.expectation import Expectation
from leasehold.spec.language.load import load
from leasehold.spec.language.read.editing import CannotEdit
from tests.cli.conftest import LIGHT
from tests.systems import write

SETTINGS: tuple[Mapping[str, int], ...] = ({}, {"most": 2}, {"most": 2, "least": 0})


@pytest.fixture
def runs(tmp_path: Path) -> list[Exploration]:
    """Three settings of a system that nothing violates."""
    constants = "constants: {most: {type: int, value: 3}, least: {type: int, value: 1}}\n"
    properties = "properties: {few: {always: most + least < 9}}\n"
    folder = write(
        tmp_path / "light", LIGHT | {"system.yaml": LIGHT["system.yaml"] + constants, "invariants.yaml": properties}
    )
    return [explore(load(folder, settings)) for settings in SETTINGS]


def a_run(found: Exploration, name: str, settings: str = "", indent: int = 2) -> str:
    numbers = [f"{name}: {number}" for name, number in counts(found).items() if name != "initial"]
    lines = [*([f"set: {{{settings}}}"] if settings else []), *numbers]
    return "".join(f"{' ' * indent}{line}\n" for line in (f"{name}:", *(f"{' ' * indent}{line}" for line in lines)))


@pytest.mark.parametrize(
    ("before", "after", "indent"),
    [
        ("", "runs:\n{default}{most_2}{both}", 2),
        ("# Nothing yet.\n", "# Nothing yet.\nruns:\n{default}{most_2}{both}", 2),
        ("runs:\n one:\n  distinct: 2\n", "runs:\n one:\n  distinct: 2\n{default}{most_2}{both}", 1),
        (
            "runs:\n    one:\n        distinct: 2\n\n# The end.\n",
            "runs:\n    one:\n        distinct: 2\n{default}{most_2}{both}\n# The end.\n",
            4,
        ),
        ("runs:\n  one: {distinct: 2}  # so\n", "runs:\n  one: {distinct: 2}  # so\n{default}{most_2}{both}", 2),
        ("runs:\n  most_2: {depth: 1}\n", "runs:\n  most_2: {depth: 1}\n{default}{most_2_}{both}", 2),
        (
            "runs:\n  one:\n    doc: >\n      two\n      lines\n  default:\n    depth: 1\n",
            "runs:\n  one:\n    doc: >\n      two\n      lines\n  default:\n    depth: 1\n{default_}{most_2}{both}",
            2,
        ),
    ],
)
def test_a_setting_without_a_run_gets_one_behind_the_others(
    before: str, after: str, indent: int, runs: list[Exploration]
) -> None:
    first, second, third = runs
    added = {
        **{name: a_run(first, name, "", indent) for name in ("default", "default_")},
        **{name: a_run(second, name, "most: 2", indent) for name in ("most_2", "most_2_")},
        "both": a_run(third, "most_2_least_0", "most: 2, least: 0", indent),
    }
    text = before
    for name, part in added.items():
        after = after.replace(f"{{{name}}}", part)
    assert renewed(text, [(found, None) for found in runs]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("runs: {}  # none\n", "runs:  # none\n{block}"),
        ("doc: none\nruns:\n", "doc: none\nruns:\n{block}"),
        ("runs: {one: {depth: 1}}\n", "runs: {one: {depth: 1}, default: {braces}}\n"),
        ("{runs: {one: {depth: 1}}}\n", "{runs: {one: {depth: 1}, default: {braces}}}\n"),
        (
            "{\n  runs: {\n    one: {},  # 1\n  },\n}\n",
            "{\n  runs: {\n    one: {},  # 1\n    default: {braces},\n  },\n}\n",
        ),
    ],
)
def test_a_run_is_added_in_any_layout(before: str, after: str, runs: list[Exploration]) -> None:
    block = a_run(runs[0], "default")
    numbers = [f"{name}: {number}" for name, number in counts(runs[0]).items() if name != "initial"]
    braces = f"{{{', '.join(numbers)}}}"
    assert renewed(before, [(runs[0], None)]) == after.replace("{block}", block).replace("{braces}", braces)


NUMBERS = "runs:\n  one: {{distinct: {0}, depth: {1}, generated: {2}}}\n  two:\n    depth: 1\n    violated:\n"


@pytest.mark.parametrize(
    ("explained", "left"),
    [
        ("      few: never\n", ""),
        ("      few: |\n        never,\n        or seldom\n      light*: broken\n", "      light*: broken\n"),
        ("      light*: broken\n      few: never\n", "      light*: broken\n"),
        ("      'few' : never\n      \"light*\": broken\n", '      "light*": broken\n'),
    ],
)
def test_numbers_of_one_line_are_replaced_and_what_is_over_goes_with_all_its_lines(
    explained: str, left: str, runs: list[Exploration]
) -> None:
    """Numbers that are longer or shorter than those before move none that stand behind them."""
    one = Expectation("one", {}, {"distinct": 1234, "depth": 1, "generated": 0}, {}, {}, {})
    two = Expectation("two", {}, {"depth": 1}, {"few": "never", "light*": "broken"}, {}, {})
    before = NUMBERS.format(1234, 1, 0) + explained + "    distinct: 2\n"
    wanted = NUMBERS.format(2, 1, 3) + left if left else NUMBERS.format(2, 1, 3).replace("    violated:\n", "")
    after = renewed(before, [(runs[0], one), (runs[0], two)])
    assert after == wanted + "    distinct: 2\n"
    assert difference(after, after, "expected.yaml") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{few: never, 'light*': broken}", "{'light*': broken}"),
        ("{'light*': broken, few: never}  # so", "{'light*': broken}  # so"),
        (
            "{\n      few: never,  # of few\n      # of light\n      'light*': broken}",
            "{\n      # of light\n      'light*': broken}",
        ),
    ],
)
def test_an_explanation_in_braces_goes_alone(before: str, after: str, runs: list[Exploration]) -> None:
    one = Expectation("one", {}, {"depth": 9}, {"few": "never", "light*": "broken"}, {}, {})
    text = "# The runs.\nruns:\n  one:\n    violated: {}\n    depth: {}  # steps\n"
    assert renewed(text.format(before, 9), [(runs[0], one)]) == text.format(after, 1)


def test_a_layout_that_is_not_edited_is_told(runs: list[Exploration]) -> None:
    one = Expectation("one", {}, {}, {"few": "never", "light*": "broken"}, {}, {})
    before = "runs:\n  one:\n    violated:\n      ? few\n      : never\n      ? 'light*'\n      : broken\n"
    with pytest.raises(CannotEdit, match="line 4: take few out by hand"):
        renewed(before, [(runs[0], one)])
