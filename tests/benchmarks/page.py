"""The page of figures: sections, each between marks, so that one can be written anew and the others stay."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Row, Section, Table, Target, median, short

PAGE = Path(__file__).resolve().parents[2] / "reports" / "benchmarks.md"
LIBRARIES = (
    "leasehold",
    "msgspec",
    "aiohttp",
    "cryptography",
    "psycopg",
    "aiomysql",
    "nats-py",
    "Automat",
    "transitions",
    "python-statemachine",
    "dbos",
)
_HEAD = """# Benchmarks

What is compared ran in turns within one run; a ratio is taken within each round. Figures are medians over the rounds,
with the smallest and the largest. `python -m tests.benchmarks NAME` measures one section again and leaves the others.
"""


def machine() -> str:
    """The machine in one paragraph, without its name."""
    versions = [f"{name} {_version(name)}" for name in LIBRARIES if _version(name)]
    return (
        f"Machine: {os.cpu_count()} cores, {_processor()}, {_memory()}; {platform.system()} {platform.release()};"
        f" file system {_file_system(PAGE.parent)}. Python {platform.python_version()}, SQLite"
        f" {sqlite3.sqlite_version}, {', '.join(versions)}."
    )


def text(section: Section, about: str) -> str:
    """A section as Markdown."""
    parts = [f"## {section.title}", section.how.strip(), *map(_table, section.tables), *section.notes]
    if section.skipped:
        parts.append("Not measured: " + "; ".join(section.skipped) + ".")
    return "\n\n".join([*parts, about])


def plain(section: Section) -> dict[str, Any]:
    """A section as plain data."""
    return {
        "name": section.name,
        "title": section.title,
        "skipped": list(section.skipped),
        "tables": [
            {
                "title": table.title,
                "unit": table.unit,
                "against": table.against,
                "rows": [
                    {
                        "what": row.what,
                        "median": median(row.figures),
                        "figures": list(row.figures),
                        "ratio": median(row.ratios) if row.base else None,
                    }
                    for row in table.rows
                ],
            }
            for table in section.tables
        ],
    }


def write(section: Section, page: Path = PAGE) -> None:
    """Puts a section in the place of the one before of its name, or at the end."""
    put(page, _HEAD, section.name, text(section, machine()))


def put(page: Path, head: str, name: str, content: str) -> None:
    """Puts text between the marks of a name, in the place of what is there, or at the end; a new page has a head."""
    before = page.read_text() if page.exists() else head
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    fresh = f"{first}\n{content}\n{last}"
    after, replaced = re.subn(f"{re.escape(first)}.*?{re.escape(last)}", lambda _: fresh, before, flags=re.DOTALL)
    page.write_text(after if replaced else f"{before.rstrip()}\n\n{fresh}\n")


def _table(table: Table) -> str:
    ratio = f"ratio to {table.against}" if table.against else "ratio"
    head = f"| {table.title} | median {table.unit} | min–max | {ratio} | target |\n|---|---:|---:|---:|---|\n"
    return head + "\n".join(_row(row, table.unit) for row in table.rows)


def _row(row: Row, unit: str) -> str:
    ratio = "–"
    if row.base:
        ratio = f"{short(median(row.ratios))} ({short(min(row.ratios))}–{short(max(row.ratios))})"
    targets = "; ".join(_target(row, target, unit) for target in row.targets)
    spread = f"{short(min(row.figures))}–{short(max(row.figures))}"
    return f"| {row.what} | {short(median(row.figures))} | {spread} | {ratio} | {targets} |"


def _target(row: Row, target: Target, unit: str) -> str:
    if target.of_ratio:
        return f"ratio {target.words(short(target.limit), median(row.ratios))}"
    return target.words(f"{short(target.limit)} {unit}", median(row.figures))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    match = re.search(r"^model name\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return match[1] if match else platform.processor() or "unknown processor"


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of memory"


def _file_system(folder: Path) -> str:
    """The kind of the file system that holds a folder: of all that are mounted above it, the nearest."""
    mounts = [line.split()[1:3] for line in _read("/proc/mounts").splitlines()]
    above = [(len(place), kind) for place, kind in mounts if folder.is_relative_to(place)]
    return max(above)[1] if above else f"unknown on {sys.platform}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
