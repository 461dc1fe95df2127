"""Docstrings that begin headless are found, at their line; others are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.style import docstrings
from tests.style.docstrings import HEADLESS, ROOT, files, found_in, headless, main


@pytest.mark.parametrize("word", sorted(HEADLESS))
def test_a_word_that_needs_a_noun_before_it_is_no_head(word: str) -> None:
    assert headless(f"{word.capitalize()} it was.")
    assert headless(f"{word.capitalize()}, it was.")
    assert not headless(f"Returns {word} it was.")
    assert not headless(f"{word.capitalize()}ever it was.")


def test_each_kind_of_docstring_is_found_at_its_line() -> None:
    text = '''"""What it is."""
class Unit:
    """Whether it is.

    A unit.
    """
    def a(self):
        """The state of it."""
    async def b(self):
        """Of it."""
        def c():
            """Returns a number."""
    def d(self):
        pass
'''
    assert sorted(found_in(text)) == [(1, "What it is."), (3, "Whether it is."), (10, "Of it.")]
    assert list(found_in("")) == []


def test_all_that_is_shipped_is_looked_at() -> None:
    """The files are those of a walk that follows the links of the package."""
    walked = (Path(folder, name) for folder, _, names in os.walk(ROOT / "src", followlinks=True) for name in names)
    assert {*files([])} == {path.resolve() for path in walked if path.suffix == ".py"}


def test_what_is_found_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docstrings, "ROOT", tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "good.py").write_text('"""A unit."""')
    assert main(["."]) == 0
    (tmp_path / "inner" / "bad.py").write_text('"""What it is."""')
    assert (main(["good.py"]), main(["."])) == (0, 1)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "inner/bad.py:1: headless docstring: What it is.",
        "headless docstrings: 1",
    ]
