"""Fixes of a specification's text: what findings say how to mend, written where it belongs.

Theory of operation. A finding that leaves no choice carries its fix (diagnostics.py): a word for another one, or
entries that a mapping lacks. Fixes are made in memory, and the system is loaded again with the texts that they give, as
one mistake may hide others; until none is left. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leasehold.spec.language.diagnostics import Diagnostic, EntryFix, Fix, Place, SpecError, WordFix
from leasehold.spec.language.load import SHIPPED, load_files, shipped_folder
from leasehold.spec.language.read.editing import CannotEdit, YamlEditor
from leasehold.spec.language.read.source import open_texts

MOST_PASSES = 20


@dataclass(frozen=True, slots=True)
class FixedFile:
    """A file that fixes change: its name as the user knows it, its text, and the text with them."""

    path: Path
    shown: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class FixedText:
    """The fixes of a system.

    Attributes:
        files: that change.
        by_hand: fixes that a layout does not take, in words.
    """

    files: tuple[FixedFile, ...]
    by_hand: tuple[str, ...]


def fixed(name_or_folder: str, settings: Mapping[str, str]) -> FixedText:
    """Returns the texts of a system's files with all fixes of what loading it finds."""
    before: dict[Path, FixedFile] = {}
    texts: dict[Path, str] = {}
    by_hand: list[str] = []
    done: set[Fix] = set()
    for _ in range(MOST_PASSES):
        fixes = [d.fix for d in _findings(name_or_folder, settings, texts) if d.fix is not None and d.fix not in done]
        todo = sorted(fixes, key=lambda fix: (isinstance(fix, WordFix), fix.place), reverse=True)  # from the end on
        if not todo:
            break
        for fix in todo:
            done.add(fix)
            path = Path(fix.place.file).resolve()
            try:
                if path not in texts:
                    texts[path] = _text(path)
                    before[path] = FixedFile(path, fix.place.file, texts[path], texts[path])
                texts[path] = with_fix(texts[path], fix)
            except (OSError, CannotEdit) as error:
                by_hand.append(f"{fix.place.file}: {error}")
    files = (FixedFile(path, f.shown, f.old, texts[path]) for path, f in before.items())
    return FixedText(tuple(f for f in files if f.new != f.old), tuple(by_hand))


def _findings(name_or_folder: str, settings: Mapping[str, str], texts: Mapping[Path, str]) -> Sequence[Diagnostic]:
    try:
        with open_texts(texts):
            return load_files(name_or_folder, settings).warnings
    except SpecError as error:
        return error.diagnostics


def _text(path: Path) -> str:
    """Reads a file of the user's."""
    if any(path.is_relative_to(shipped_folder(name).resolve()) for name in SHIPPED):
        raise CannotEdit("it comes with Leasehold; change a copy of it")
    return path.read_bytes().decode()


def with_fix(text: str, fix: Fix) -> str:
    """The text of a file with one fix.

    Raises:
        CannotEdit: its layout does not take the fix.
    """
    editor = YamlEditor(text)
    match fix:
        case WordFix(place=Place(line=line, column=column), old=old, new=new):
            editor.substitute(line, column, old, new)
        case EntryFix(path=path, key=key, entries=entries) if editor.has((*path, key)):
            for name, words in entries:
                editor.add((*path, key), name, words)
        case EntryFix(path=path, key=key, entries=entries):
            editor.add(path, key, dict(entries))
    return editor.text
