"""Mistakes are planted where they are said to be, and nothing is left of them."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from leasehold.impl.core import stepping
from leasehold.impl.core.stepping import step_of, with_cell
from tests.planted.edit import ROOT, Edit, EditError, in_folder, in_process
from tests.planted.table import Mistake, bugs, mistakes, named

STEPPING = "impl/core/stepping.py"
OLDER = Edit(STEPPING, "            if number <= last:", "            if number < last:")


def codes(bug: Mistake) -> dict[int, CodeType]:
    """The code of all functions of the files that a mistake changes, as this process has them."""
    ends = tuple(f"/leasehold/{edit.file}" for edit in bug.edits)
    functions = (one for one in gc.get_objects() if type(one) is FunctionType)
    return {id(one): one.__code__ for one in functions if one.__code__.co_filename.endswith(ends)}


def misplanted(name: str) -> list[str]:
    """The files in which a mistake was to be planted, and was not, or was not taken out again."""
    bug = named(name)
    with bug.planted():
        during = codes(bug)
    after = codes(bug)
    changed = {code.co_filename for one, code in during.items() if one in after and code is not after[one]}
    return sorted({code.co_filename for code in during.values()} ^ changed)


@pytest.mark.long
def test_mistakes_are_planted_and_taken_out_again() -> None:
    """In a process of its own, which has few objects: all of them are looked through each time."""
    names = [bug.name for bug in bugs()]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert {name: files for name, files in zip(names, pool.map(misplanted, names), strict=True) if files} == {}


def made() -> stepping.Step:
    """A step of a machine with one state and one message, as a compiled system has them."""
    act = stepping.unmoved(stepping.UNKNOWN, 1)
    return step_of({"s": {"m": act}}, 1, 2, {}, frozenset(), {"s": lambda record: ()}, lambda record, at: (at,))


def test_a_function_that_was_made_before_has_the_mistake_as_well() -> None:
    step, record, again = made(), ("s", (3,), 0), ("m", (), 0, 3, -1)
    assert step(record, again, 0)[1].kind == "duplicate"
    with in_process([OLDER]):
        assert step(record, again, 0)[1] == made()(record, again, 0)[1] == stepping.UNKNOWN
    assert step(record, again, 0)[1].kind == made()(record, again, 0)[1].kind == "duplicate"


def test_a_function_that_a_server_in_this_process_has_frozen_has_the_mistake_as_well() -> None:
    step = made()
    gc.freeze()
    with in_process([OLDER]):
        assert step(("s", (3,), 0), ("m", (), 0, 3, -1), 0)[1] == stepping.UNKNOWN


def test_a_function_that_was_imported_by_its_name_has_the_mistake_as_well() -> None:
    with in_process([Edit(STEPPING, "    changed[key] = value", "    changed[key] = None")]):
        assert with_cell((1, 2), 0, 3) == (None, 2)
    assert with_cell((1, 2), 0, 3) == (3, 2)


def test_a_function_that_was_made_meanwhile_has_no_mistake_afterwards() -> None:
    with in_process([OLDER]):
        step = made()
        assert step(("s", (3,), 0), ("m", (), 0, 3, -1), 0)[1] == stepping.UNKNOWN
    assert step(("s", (3,), 0), ("m", (), 0, 3, -1), 0)[1].kind == "duplicate"


def test_what_is_raised_in_it_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError), in_process([OLDER]):
        raise ZeroDivisionError
    assert made()(("s", (3,), 0), ("m", (), 0, 3, -1), 0)[1].kind == "duplicate"


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (Edit("impl/core/steps.py", "a", "b"), "there is no file impl/core/steps.py"),
        (Edit(STEPPING, "if numbers <= last", ""), "has 0 times, and not once: if numbers <= last"),
        (Edit(STEPPING, "return", "yield"), "times, and not once: return"),
        (Edit(STEPPING, "REMEMBERED = 128", "REMEMBERED = 1"), "changes no function"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(edit: Edit, says: str) -> None:
    with pytest.raises(EditError, match=says), in_process([edit]):
        pass


def test_a_function_that_would_need_other_variables_is_made_anew() -> None:
    step, again, record = made(), ("m", (), 0, 3, -1), ("s", (3,), 0)
    old = '        return record, Outcome("duplicate", name, work=sends)'
    with in_process([Edit(STEPPING, old, "        raise LookupError(table)")]):
        assert step(record, again, 0)[1].kind == "duplicate"
        with pytest.raises(LookupError):
            made()(record, again, 0)
    assert made()(record, again, 0)[1].kind == "duplicate"


def test_a_folder_is_as_before_after_an_edit(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"one\r\ntwo\n")
    with in_folder(tmp_path, [Edit("a.py", "two", "three"), Edit("a.py", "three\n", "four\n")]):
        assert file.read_text() == "one\nfour\n"
    assert file.read_bytes() == b"one\r\ntwo\n"


def test_every_file_that_is_edited_is_one_of_the_repository() -> None:
    assert all((ROOT / edit.file).is_file() for bug in bugs() for edit in bug.edits)


@pytest.mark.parametrize("file", ["prover.yaml", "running.yaml", "forms.yaml"])
def test_each_mistake_has_its_place(file: str) -> None:
    """Campaigns plant most of them, so a change of the text would be seen late."""
    edits = [(name, edit) for name, mistake in mistakes(file).items() for edit in mistake.edits]
    assert len(edits) > 10
    assert [name for name, edit in edits if (ROOT / edit.file).read_text(encoding="utf-8").count(edit.old) != 1] == []
