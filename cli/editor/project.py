"""A system that is being written: its findings, and the names in its files, with texts that are not saved yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leasehold.cli.lint import AS_TYPED, BY_FILE, findings_beyond
from leasehold.spec import Diagnostic, System
from leasehold.spec.language.load import read
from leasehold.spec.language.read.source import open_texts
from leasehold.spec.language.symbols import Occurrence, Symbol, SymbolTable
from leasehold.spec.language.typing.infer import traced


def folder_of(file: Path) -> Path | None:
    """The folder of the system that a file belongs to; None where it is no file of a system."""
    parents = file.parents if file.suffix == ".yaml" else ()
    return next((folder for folder in parents if (folder / "system.yaml").is_file()), None)


class Project:
    """A system's folder, as it was read last.

    Attributes:
        findings: all that was found, in order.
        table: its names; None before it was read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.findings: Sequence[Diagnostic] = ()
        self.table: SymbolTable | None = None
        self._by_file: Mapping[str, Sequence[Diagnostic]] = {}

    def renew(self, texts: Mapping[Path, str]) -> None:
        """Reads the system again; texts stand for files."""
        with open_texts(texts), traced() as parts:
            reading = read(self.folder)
            found = [*reading.findings]
            if reading.system is not None and not any(d.severity == "error" for d in found):
                found += findings_beyond(str(self.folder), {}, reading.system, AS_TYPED)
        found += [d for some in self._by_file.values() for d in some]
        self.findings = sorted(dict.fromkeys(found), key=lambda d: (d.place, d.code, d.what))
        self.table = SymbolTable(reading, parts, self.table)

    def judge(self, file: Path, texts: Mapping[Path, str]) -> list[Diagnostic]:
        """Judges a file of BY_FILE, which takes seconds; one of another name is judged by `renew`."""
        with open_texts(texts):
            reading = read(self.folder)
            if reading.system is None or any(d.severity == "error" for d in reading.findings):
                return []
            return findings_beyond(str(self.folder), {}, reading.system, (BY_FILE[file.name],))

    def judged(self, file: Path, findings: Sequence[Diagnostic]) -> None:
        """Keeps the findings of `judge` in place of earlier ones; a reading may be under way in another thread."""
        self._by_file = {**self._by_file, file.name: findings}

    @property
    def system(self) -> System | None:
        """The model of the text as it is; None where that cannot be read."""
        return None if self.table is None else self.table.reading.system

    def at(self, file: Path, line: int, column: int) -> Occurrence | None:
        """The word at a place, and what it names."""
        return None if self.table is None else self.table.at(file, line, column)

    def names(self, file: Path, line: int, column: int) -> list[Symbol]:
        """The names that may stand at a place."""
        return [] if self.table is None else self.table.names(file, line, column)
