"""The reports of the systems that come with Leasehold: committed, and held to what the checker finds today."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leasehold.checker.explore import explore
from leasehold.reports.write import committed_files
from leasehold.spec.language.load import load


def committed(name: str) -> dict[str, bytes]:
    """The report of a shipped system with its constants as they are declared, by path in the system's folder.

    Raises:
        SpecError: there is no such system, or it is wrong.
    """
    return committed_files(explore(load(name)))


def differences(folder: Path, files: dict[str, bytes]) -> Iterator[str]:
    """Says for each file in which a folder and a report differ: it is missing, is outdated, or belongs to none."""
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    for name, content in files.items():
        if name not in there:
            yield f"{folder / name}: missing"
        elif (folder / name).read_bytes() != content:
            yield f"{folder / name}: outdated"
    yield from (f"{folder / name}: no longer made" for name in sorted(there - files.keys()))


def renew(folder: Path, files: dict[str, bytes]) -> None:
    """Makes a folder hold exactly the files of a report."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
