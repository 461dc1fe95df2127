"""Texts that an editor has open stand for files, in everything that is read meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.spec import SpecError, load
from leasehold.spec.language.read.source import open_texts
from tests.systems import files_of, write

FILES = files_of("spec/language/systems/symbols")


def test_an_open_text_is_read_in_place_of_its_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "house", FILES)
    (tmp_path / "link").symlink_to(folder)
    file = (folder / "invariants.yaml").resolve()
    with open_texts({file: "properties: {bounded: {always: door.times < 0}}"}):
        assert [*load(folder).properties] == ["bounded"]
        assert [*load(tmp_path / "link").properties] == ["bounded"]
    assert [*load(folder).properties] == ["bounded", "pushed_open", "told"]
    assert file.read_text(encoding="utf-8") == FILES["invariants.yaml"]


def test_an_open_text_that_is_wrong_is_found_at_its_place(tmp_path: Path) -> None:
    folder = write(tmp_path, FILES)
    with open_texts({(folder / "messages.yaml").resolve(): "messages: {\n"}), pytest.raises(SpecError) as caught:
        load(folder)
    (found,) = caught.value.diagnostics
    assert (found.code, found.place.file) == ("LH104", f"{folder}/messages.yaml")
