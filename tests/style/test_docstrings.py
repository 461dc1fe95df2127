"""Docstrings that begin headless are found, at their line; others are not."""

from __future__ import annotations

import pytest

from tests.style.docstrings import HEADLESS, found_in, headless


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
