"""Words of messages for people: each form that a count, a list, a misspelt word and an unprintable text may take."""

from __future__ import annotations

import pytest

from leasehold.impl.words import choices, counted, did_you_mean, together, visible, visible_lines


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (0, "step", "0 steps"),
        (1, "step", "1 step"),
        (2, "step", "2 steps"),
        (1_234, "step", "1,234 steps"),
        (0, "property", "0 properties"),
        (1, "property", "1 property"),
        (1_234, "property", "1,234 properties"),
        (0, "witness", "0 witnesses"),
        (1, "witness", "1 witness"),
        (1_234, "witness", "1,234 witnesses"),
        (1, "crash", "1 crash"),
        (2, "crash", "2 crashes"),
        (2, "path", "2 paths"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, noun: str, said: str) -> None:
    assert counted(count, noun) == said


@pytest.mark.parametrize(
    ("words", "said"), [("", ""), ("a", "a"), ("ab", "a and b"), ("abc", "a, b and c"), ("abcd", "a, b, c and d")]
)
def test_a_list_has_one_and_before_its_last_word(words: str, said: str) -> None:
    assert together(list(words)) == said


def test_the_nearest_known_word_is_proposed() -> None:
    """The nearest of several, none where none is near, and those alone that are among the first thousand."""
    known = ["brokers", "broker", "site"]
    assert did_you_mean("brokr", known) == "; did you mean broker?"
    assert choices("brokr", known) == "; did you mean broker? (there are: brokers, broker, site)"
    assert did_you_mean("xyz", known) == ""
    assert choices("xyz", known) == " (there are: brokers, broker, site)"
    assert choices("xyz", []) == " (there are: none)"
    many = [f"{n:04}" for n in range(999)]
    assert did_you_mean("brokr", [*many, "broker"]) == "; did you mean broker?"
    assert did_you_mean("brokr", [*many, "other", "broker"]) == ""
    long = "a" * 80
    assert did_you_mean(long + "b" * 1_000, [long]) == f"; did you mean {long}?"


@pytest.mark.parametrize(
    ("text", "one", "lines"),
    [
        ("plain ä", "plain ä", "plain ä"),
        ("a\nb", r"a\nb", "a\nb"),
        ("a\n\n\tb\r\n", r"a\n\n\tb\r\n", "a\n\n\\tb\\r\n"),
        ("\x1b[31m", r"\x1b[31m", r"\x1b[31m"),
        ("a\u202eb\nc", r"a\u202eb\nc", "a\\u202eb\nc"),
        ("ä\x00\\", "ä\\x00\\", "ä\\x00\\"),
    ],
)
def test_only_what_is_not_printable_is_escaped(text: str, one: str, lines: str) -> None:
    assert visible(text) == one
    assert visible_lines(text) == lines
