"""The reports of the systems that come with Leasehold: committed, and held to what the checker finds today."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.unmet import explanations
from leasehold.checker.explore import explore
from leasehold.faults import Budget
from leasehold.reports.crash import crash_markdown, worst_svg
from leasehold.reports.write import committed_files
from leasehold.spec.language.load import load

CRASHES, DRAWING = "crash.md", "worst_crash.svg"


def committed(name: str) -> dict[str, bytes]:
    """The report of a shipped system with its constants as they are declared, by path in the system's folder.

    If the system names the faults that it is checked with, the crash analysis is there, too.

    Raises:
        SpecError: there is no such system, or it is wrong.
    """
    crashes = _crashes(name)
    return {**committed_files(explore(load(name)), crashes=CRASHES if crashes else ""), **crashes}


def _crashes(name: str) -> dict[str, bytes]:
    """The crash analysis of a system under the faults that it is checked with; nothing if it names none."""
    faults = load(name).faults
    if not faults.check:
        return {}
    system = load(name, faults.settings)
    report = crash(system, Budget.parse(faults.check))
    drawn = worst_svg(report)
    page = crash_markdown(report, explanations(name, system), DRAWING if drawn is not None else "")
    files = {CRASHES: page, **({DRAWING: drawn} if drawn is not None else {})}
    return {file: content.encode() for file, content in files.items()}


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
