"""All readings of a specification side by side: explored, crashed, proved, mutated, recovered, watched.

The report explores; what the other verbs have found last is kept in the cache (checker/host/verdicts.py). A verdict on
an older text is shown as one: it says nothing about the text as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from leasehold.checker.host.verdicts import ABOUT_ALL, KeptVerdicts, changed_constants
from leasehold.reports.verdicts import WORDS
from leasehold.spec.language.model import System

# In the order of their columns: by the verb that keeps them, the title, and the command that fills the column.
COLUMNS = {
    "check": ("checked", "leasehold check {system}"),
    "crash": ("crashed", "leasehold crash {system}"),
    "prove": ("proved", "leasehold prove {system}"),
    "mutate": ("mutated", "leasehold mutate {system}"),
    "crash real": ("recovered", "leasehold crash real {system}"),
    "verify": ("watched", "leasehold verify SOURCES --system {system}"),
    "conform": ("conforming", "leasehold conform SOURCES --system {system}"),
}


@dataclass(frozen=True, slots=True)
class ReadingColumn:
    """The last verdicts of one verb.

    Attributes:
        verb, title: its column.
        command: with which somebody has, or can have, its evidence.
        run: what is kept of it; None: nothing is.
        current: the text that was read is the one of the report.
    """

    verb: str
    title: str
    command: str
    run: KeptVerdicts | None
    current: bool

    def cell(self, name: str) -> str:
        """Its word on a property; empty where it has none."""
        verdict = "" if self.run is None else self.run.verdicts.get(name, "")
        return WORDS.get(verdict, verdict)  # type: ignore[call-overload,no-any-return]

    @property
    def made(self) -> str:
        """The time at which it was made."""
        return "" if self.run is None else datetime.fromtimestamp(self.run.made, UTC).strftime("%Y-%m-%d %H:%M UTC")


def readings(system: System, named: str, kept: Sequence[KeptVerdicts]) -> list[ReadingColumn]:
    """The last reading of each kind: one of this text with these constants, else of this text, else any.

    Args:
        system: as the report has it.
        named: its name or folder, as commands have it.
        kept: what is kept, the latest first.
    """
    columns, constants = [], " ".join(changed_constants(system))
    for verb, (title, command) in COLUMNS.items():
        runs = [run for run in kept if run.verb == verb]
        current = [run for run in runs if run.digest == system.digest]
        alike = [run for run in current if run.constants == constants]
        run = next(iter(alike or current or runs), None)
        columns.append(ReadingColumn(verb, title, command.format(system=named), run, bool(current)))
    return columns


def readings_json(some: Sequence[ReadingColumn], names: Sequence[str]) -> dict[str, Any]:
    """The readings as the page shows them: a column each, a row for each property that any of them speaks of."""
    said = [reading for reading in some if reading.run is not None]
    rows = [[name, *(reading.cell(name) for reading in some)] for name in names]
    return {
        "columns": [
            {
                "verb": reading.verb,
                "title": reading.title,
                "command": reading.command,
                "made": reading.made,
                "setting": "" if reading.run is None else reading.run.setting,
                "digest": "" if reading.run is None else reading.run.digest,
                "current": reading.current,
                "all": reading.cell(ABOUT_ALL),
            }
            for reading in some
        ],
        "rows": rows if said else [],
    }


def readings_markdown(some: Sequence[ReadingColumn], names: Sequence[str]) -> str:
    """The readings as a table; empty where nothing is kept."""
    said = [reading for reading in some if reading.run is not None]
    if not said:
        return ""
    lines = ["## Readings", "", "| property |" + "".join(f" {r.title} |" for r in said), "|---" * (len(said) + 1) + "|"]
    for name in names:
        cells = [f"{r.cell(name)}{'' if r.current or not r.cell(name) else ' (older text)'}" for r in said]
        if any(cells):
            lines.append(f"| `{name}` |" + "".join(f" {cell} |" for cell in cells))
    lines += ["", *(f"- {r.title}: `{r.command}`, {r.made}{_whole(r)}" for r in said), ""]
    return "\n".join(lines)


def _whole(reading: ReadingColumn) -> str:
    whole = reading.cell(ABOUT_ALL)
    assert reading.run is not None
    return "".join(f"; {words}" for words in (reading.run.setting, whole) if words)
