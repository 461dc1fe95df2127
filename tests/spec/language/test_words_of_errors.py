"""Errors say what is read as the author writes it, and offer no function for the name of a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.prove import prove
from leasehold.checker.prove.encode.formulas import Unencodable
from leasehold.spec import SpecError
from tests.systems import files_of, written

FILES = files_of("spec/language/systems/words_of_errors")


def files(**words: str) -> dict[str, str]:
    words = {"TYPE": "bool", "DATA": "doc: It answers.", "GUARD": "not msg.n", "SOME": "true"} | words
    found = dict(FILES)
    for word, text in words.items():
        found = {name: content.replace(word, text) for name, content in found.items()}
    return found


def test_what_a_message_says_is_called_msg(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        written(tmp_path, files(GUARD="msg.sender == client[0]"))
    assert "for example with msg.sender = client[0], msg.n = true\n" in str(raised.value)
    assert "`msg.sender == client[0]` and `msg.n` must exclude each other" in str(raised.value)


@pytest.mark.parametrize("name", ["mim", "inde", "coun"])
def test_no_function_is_offered_for_a_value(name: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        written(tmp_path, files(DATA=f"data: {{n: {{type: int, min: 0, initial: {name}}}}}"))
    assert f"LH302: `{name}` is not known here" in str(raised.value)
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "some"), [("'set[client]'", "'{self}'"), ("'option[client]'", "self"), ("'seq[client, 1]'", "'[self]'")]
)
def test_what_a_set_of_messages_cannot_hold_is_named(kind: str, some: str, tmp_path: Path) -> None:
    system = written(tmp_path, files(TYPE=kind, SOME=some))
    with pytest.raises(Unencodable, match=r"field `some` of `ask` is a .*, and channel `asks` is a set; make"):
        prove(system, jobs=1)
