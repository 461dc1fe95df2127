"""`leasehold check --write`: expected.yaml is renewed in place, and the difference is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import LIGHT, Run, as_json
from tests.systems import files_of, write

BEFORE = """\
# What is known of the light.
runs:
  one:
    doc: The only setting.   # and a comment
    depth: 7
    distinct: 3  # it was once three
    violated:
      # It was dark for long.
      can_be_bright: the lamp was broken
    unvisited:
      light/dark#press: >
        the button was broken,
        for years
      light/bright#press: nobody comes
    generated: 3
"""
AFTER = """\
# What is known of the light.
runs:
  one:
    doc: The only setting.   # and a comment
    depth: 1
    distinct: 2  # it was once three
    generated: 3
"""


@pytest.mark.long
def test_numbers_are_renewed_and_what_is_over_is_taken_out(run: Run, light: Path) -> None:
    file = light / "expected.yaml"
    file.write_text(BEFORE)
    assert run("check", "light").returncode == 1
    done = run("check", "light", "--write")
    assert done.returncode == 0, done.stdout
    assert file.read_text().replace("      # It was dark for long.\n", "") == AFTER
    assert "\n-    distinct: 3  # it was once three\n" in done.stdout
    assert "\n+    distinct: 2  # it was once three\n" in done.stdout
    again = run("check", "light", "--write")
    assert again.returncode == 0
    assert "---" not in again.stdout


@pytest.mark.long
def test_a_setting_without_a_run_gets_one(run: Run, light: Path) -> None:
    (light / "system.yaml").write_text(LIGHT["system.yaml"] + "constants: {most: {type: int, value: 3}}\n")
    (light / "invariants.yaml").write_text("properties: {few: {always: most < 9}}\n")
    assert run("check", "light", "--write").returncode == 0
    found = as_json(run("check", "light", "--set", "most=2", "--write", "--json"))
    assert found["setting"] == "most_2"
    assert "+    set: {most: 2}" in found["renewed"]
    names = [r["setting"] for r in as_json(run("check", "light", "--all", "--json"))["runs"]]
    assert names == ["default", "most_2"]


def test_what_needs_a_reason_is_not_written(run: Run, light: Path) -> None:
    (light / "invariants.yaml").write_text("properties: {never_bright: {always: light.state == dark}}\n")
    done = run("check", "light", "--write")
    assert done.returncode == 1
    assert "never_bright" not in (light / "expected.yaml").read_text()
    assert "    distinct: 2\n" in (light / "expected.yaml").read_text()


def test_a_layout_that_is_not_edited_is_left_alone(run: Run, light: Path) -> None:
    (light / "invariants.yaml").write_text(LIGHT["invariants.yaml"].replace("}}", "}, x_: {always: 1 > 2}}"))
    text = "runs:\n  one:\n    distinct: 3\n    violated:\n      ? can_be_bright\n      : no\n      ? x_\n      : no\n"
    (light / "expected.yaml").write_text(text)
    done = run("check", "light", "--write")
    assert done.returncode == 2
    assert "light/expected.yaml: line 5: take can_be_bright out by hand" in done.stderr
    assert (light / "expected.yaml").read_text() == text


def test_the_ends_of_lines_stay(run: Run, light: Path) -> None:
    (light / "expected.yaml").write_bytes(b"runs: # all\r\n  one: {distinct: 13, depth: 1} # few\r\n")
    assert run("check", "light", "--write").returncode == 0
    assert (light / "expected.yaml").read_bytes() == b"runs: # all\r\n  one: {distinct: 2, depth: 1} # few\r\n"


def test_one_line_of_numbers_is_renewed_where_it_stands(run: Run, light: Path) -> None:
    (light / "expected.yaml").write_text("runs: {one: {distinct: 13, depth: 1, generated: 444}}\n")
    assert run("check", "light", "--write").returncode == 0
    assert (light / "expected.yaml").read_text() == "runs: {one: {distinct: 2, depth: 1, generated: 3}}\n"


def test_a_shipped_system_is_not_renewed(run: Run) -> None:
    done = run("check", "lease", "--write")
    assert done.returncode == 2
    assert "`leasehold init NAME --from lease` makes one" in done.stderr


def test_what_explains_several_stays(run: Run, light: Path) -> None:
    """A pattern is no name: whether all that it speaks of is over, its author decides."""
    text = 'runs:\n  one:\n    distinct: 13\n    unvisited:\n      "light/*": nobody comes\n'
    (light / "expected.yaml").write_text(text)
    run("check", "light", "--write")
    assert (light / "expected.yaml").read_text() == text.replace("13", "2")


@pytest.mark.parametrize("limit", [("--max-states", "1"), ("--depth", "0")])
@pytest.mark.parametrize("text", [BEFORE, None], ids=["a setting that is there", "a new one"])
def test_what_was_cut_short_says_nothing_of_the_whole(
    limit: tuple[str, ...], text: str | None, run: Run, light: Path
) -> None:
    file = light / "expected.yaml"
    if text is None:
        file.unlink(missing_ok=True)
    else:
        file.write_text(text)
    done = run("check", "light", "--write", *limit)
    assert done.returncode not in (0, 2), done.stderr
    assert (file.read_text() if file.exists() else None) == text


def test_what_was_cut_short_stands_beside_what_was_not(run: Run, tmp_path: Path) -> None:
    """Of several settings only those that were searched whole are renewed."""
    folder = write(tmp_path / "count", files_of("cli/systems/count"))
    run("check", "count", "--all", "--write", "--max-states", "4")
    text = (folder / "expected.yaml").read_text()
    assert "  small:\n    distinct: 2\n" in text
    assert "    set: {most: 5}\n    distinct: 7\n" in text
