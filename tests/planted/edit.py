"""Edits: a text that stands in a file exactly once, and what stands there instead.

Theory of operation. An edit is made in a folder (a copy of the repository, or of a specification), or in this process.
There the module is compiled with it, and each of its functions whose code is another has that code until the mistake is
taken out: also a function that others have imported or decorated, and one that another has made, before or meanwhile,
unless the edit has it need other variables of that. The lines of a module and of a class are not run again, so what is
edited stands within a function; an edit that changes none is refused.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class EditError(Exception):
    """An edit does not fit what is there any more."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A text that stands in a file exactly once, and its substitute; the file is named from a folder's top."""

    file: str
    old: str
    new: str


def edited(folder: Path, edits: Iterable[Edit]) -> dict[str, str]:
    """The texts of a folder's files with edits, by the names of the files.

    Raises:
        EditError: a file is not there, or has not the text exactly once.
    """
    texts: dict[str, str] = {}
    for edit in edits:
        path = folder / edit.file
        if not path.is_file():
            raise EditError(f"there is no file {edit.file}")
        text = texts[edit.file] if edit.file in texts else path.read_text(encoding="utf-8")
        if (times := text.count(edit.old)) != 1:
            raise EditError(f"{edit.file} has {times} times, and not once: {edit.old}")
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


@contextmanager
def in_folder(folder: Path, edits: Iterable[Edit]) -> Iterator[None]:
    """Makes edits in a folder; when it ends, its files are as before.

    Raises:
        EditError: one does not fit.
    """
    after = edited(folder, edits)
    before = {file: (folder / file).read_bytes() for file in after}
    try:
        for file, text in after.items():
            (folder / file).write_text(text, encoding="utf-8")
        yield
    finally:
        for file, body in before.items():
            (folder / file).write_bytes(body)


@contextmanager
def in_process(edits: Iterable[Edit]) -> Iterator[None]:
    """Makes edits in the modules of this process; when it ends, all functions are as before.

    Raises:
        EditError: one does not fit, or is of no function.
    """
    others = {before: after for file, text in edited(ROOT, edits).items() for before, after in _others(file, text)}
    try:
        _exchange(others)
        yield
    finally:
        _exchange({after: before for before, after in others.items()})


def _others(file: str, text: str) -> Iterator[tuple[CodeType, CodeType]]:
    """Yields the code of the functions of a module that is another in a text, with that of the text.

    Raises:
        EditError: no function has any of it.
    """
    module = import_module(f"leasehold.{file.removesuffix('.py').replace('/', '.')}")
    path = str(module.__file__)
    before, after = (_codes(compile(source, path, "exec")) for source in (Path(path).read_text("utf-8"), text))
    others = {
        code: after[place] for place, code in before.items() if place in after and _text(code) != _text(after[place])
    }
    if not any(True for _ in _functions(others)):
        raise EditError(f"an edit of {file} changes no function")
    yield from others.items()


def _functions(others: Mapping[CodeType, CodeType]) -> Iterator[FunctionType]:
    """Yields the functions of this process whose code may be exchanged."""
    lines = {(code.co_filename, code.co_firstlineno) for code in others}
    gc.unfreeze()  # a server that a test has run in this process froze what was there, and the frozen is not listed
    for one in gc.get_objects():
        if (
            type(one) is FunctionType
            and (one.__code__.co_filename, one.__code__.co_firstlineno) in lines
            and one.__code__ in others
            and len(one.__code__.co_freevars) == len(others[one.__code__].co_freevars)
        ):
            yield one


def _exchange(others: Mapping[CodeType, CodeType]) -> None:
    """Gives functions that have some code another."""
    for function in _functions(others):
        function.__code__ = others[function.__code__]


def _codes(code: CodeType, place: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], CodeType]:
    """The code of the functions and classes in a code, by their names from the top.

    Of several of one name, as lambdas are, the place says which of how many: with one more or less nobody knows.
    """
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    codes: dict[tuple[Any, ...], CodeType] = {}
    for at, one in enumerate(inner):
        alike = [other for other in inner if other.co_name == one.co_name]
        here = (*place, one.co_name, sum(other.co_name == one.co_name for other in inner[:at]), len(alike))
        codes |= {here: one, **_codes(one, here)}
    return codes


def _text(code: CodeType) -> tuple[Any, ...]:
    """All that a code does; not at which lines of its file."""
    constants = [_text(one) if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, tuple(constants), names, code.co_exceptiontable, code.co_flags


def edits_of(rows: Iterable[Mapping[str, str]]) -> tuple[Edit, ...]:
    """The edits that a table has: mappings of `file`, `old` and `new`."""
    return tuple(Edit(**row) for row in rows)
