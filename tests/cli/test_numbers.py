"""Numbers with fractions among options: none is infinite, or no number."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from leasehold.cli.common import FiniteRange
from leasehold.cli.main import cli


def fractions(command: click.Command, *names: str) -> Iterator[tuple[tuple[str, ...], click.Option]]:
    """Yields the options of a command and of those in it that take such numbers, with the words that call it."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from fractions(inner, *names, name)
    for one in command.params:
        if isinstance(one, click.Option) and isinstance(one.type, (click.FloatRange, type(click.FLOAT))):
            yield names, one


OPTIONS = [pytest.param(*found, id=" ".join((*found[0], found[1].opts[0]))) for found in fractions(cli)]


def test_there_are_some() -> None:
    assert len(OPTIONS) > 5


@pytest.mark.parametrize(("words", "option"), OPTIONS)
def test_a_number_that_is_none_is_refused(words: tuple[str, ...], option: click.Option) -> None:
    assert isinstance(option.type, FiniteRange)
    for number in ("nan", "inf"):
        done = CliRunner().invoke(cli, [*words, option.opts[0], number])
        assert done.exit_code == 2
        assert "write one such as 8" in done.output or "not in the range" in done.output
