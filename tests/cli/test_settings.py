"""`--set` takes a name and a value."""

from __future__ import annotations

import click
import pytest

from leasehold.cli.common import settings_of

CONTEXT, OPTION = click.Context(click.Command("x")), click.Option(["--set"])


@pytest.mark.parametrize("word", ["", "=", "=3", " =3", "units"])
def test_a_setting_without_a_name_or_a_value_is_refused(word: str) -> None:
    with pytest.raises(click.UsageError, match="--set takes NAME=VALUE"):
        settings_of(CONTEXT, OPTION, (word,))  # type: ignore[arg-type]


def test_a_value_may_be_empty_or_have_another_sign() -> None:
    assert settings_of(CONTEXT, OPTION, ("a=", "b=c=d")) == {"a": "", "b": "c=d"}  # type: ignore[arg-type]
