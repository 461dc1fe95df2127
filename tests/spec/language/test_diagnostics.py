"""Diagnostics beside their words: related places, and the edit that is the remedy."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from leasehold.spec import Diagnostic, Place, SpecError, load
from leasehold.spec.language.correction import correction
from leasehold.spec.language.load import read
from tests.systems import edited, files_of, write

FILES = files_of("spec/language/systems/symbols")


def only(folder: Path) -> Diagnostic:
    with pytest.raises(SpecError) as caught:
        load(folder)
    (found,) = caught.value.diagnostics
    return found


def test_the_first_of_two_declarations_is_related(tmp_path: Path) -> None:
    lemmas = {"lemmas.yaml": "lemmas: {bounded: {always: true}}\n"}
    found = only(write(tmp_path, FILES | lemmas))
    assert found.place == Place(f"{tmp_path}/lemmas.yaml", 1, 10)
    assert found.related == (Place(f"{tmp_path}/invariants.yaml", 2, 3),)


def test_the_use_of_a_definition_that_is_wrong_there_is_related(tmp_path: Path) -> None:
    found = only(write(tmp_path, edited(FILES, ("f >= most", "f >= mosst"))))
    line = next(n for n, text in enumerate(FILES["roles/door.yaml"].splitlines(), 1) if "hard(event.force)" in text)
    assert [(p.file, p.line) for p in found.related] == [(f"{tmp_path}/roles/door.yaml", line)]
    assert f"used at {found.related[0]}" in found.what


@pytest.mark.parametrize(
    ("right", "wrong", "column", "old", "new"),
    [
        ("to: closed", "to: clsed", 18, "clsed", "closed"),
        ("times < most", "tims < most", 71, "tims", "times"),
        ("always: door.times <=", "always: door.tims <=", 18, "tims", "times"),
        ("to_door: {from: visitor", "to_door: {from: visitr", 19, "visitr", "visitor"),
    ],
)
def test_a_near_miss_is_written_in_place_of_the_word(
    right: str, wrong: str, column: int, old: str, new: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, edited(FILES, (right, wrong)))
    found = read(folder).findings[0]
    line = Path(found.place.file).read_text(encoding="utf-8").splitlines()[found.place.line - 1]
    edit = correction(found, line)
    assert edit is not None
    assert (edit.place.column, edit.old, edit.new) == (column, old, new)
    assert line[column - 1 :].startswith(old)


@pytest.mark.parametrize("near", [None, "`times`, renamed", "`1..3`"])
def test_what_is_no_word_is_not_written(near: str | None) -> None:
    assert correction(Diagnostic("LH305", Place("a.yaml", 1, 1), "what", near), "tims < most") is None


def test_reading_finds_what_loading_raises(tmp_path: Path) -> None:
    folder = write(tmp_path, edited(FILES, ("door.times <=", "door.tims <="), ("to: closed", "to: clsed")))
    with pytest.raises(SpecError) as caught:
        load(folder)
    reading = read(folder)
    assert sorted(reading.findings, key=str) == sorted(caught.value.diagnostics, key=str)
    assert reading.system is not None
    assert "told" in reading.system.properties


def test_an_error_goes_from_one_process_to_another(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load(write(tmp_path, edited(FILES, ("f >= most", "f >= mosst"))))
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.diagnostics == caught.value.diagnostics != ()
    assert str(again) == str(caught.value)
