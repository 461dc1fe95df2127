"""The words that an editor shows of a name: what it is, its documentation, and the last verdicts on a property."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from leasehold.checker.host.verdicts import KeptVerdicts, kept_verdicts
from leasehold.reports.verdicts import WORDS
from leasehold.spec.language.model import System
from leasehold.spec.language.symbols import Occurrence, Symbol

MOST_RUNS = 4  # whose verdicts are shown


def hover_text(occurrence: Occurrence, folder: Path, system: System | None) -> str:
    """Returns all that is known of a name, as Markdown.

    Args:
        occurrence: the name.
        folder: that of its system.
        system: as its text is now; None where that cannot be read.
    """
    symbol = occurrence.symbol
    if symbol is None:
        return f"of type {occurrence.type}"
    if symbol.kind == "key":
        return f"**{symbol.name}**: {symbol.doc}"
    owner = f" of {symbol.owner}" if symbol.kind == "field" else ""
    parts = [f"{symbol.kind} **{symbol.name}**{owner}: {symbol.detail}", symbol.doc]
    if symbol.kind in ("property", "end", "lemma"):
        parts += _verdicts(symbol, folder, system)
    return "\n\n".join(part for part in parts if part)


def _verdicts(symbol: Symbol, folder: Path, system: System | None) -> Iterator[str]:
    """The last verdicts on a property, each with its age, and whether the text has changed since."""
    runs = [run for run in kept_verdicts(folder) if symbol.name in run.verdicts]
    for run in runs[:MOST_RUNS]:
        yield f"{_verdict(run, symbol.name)}; {_since(run, system)}"
    if not runs:
        yield f"No verdict is kept; `leasehold check {folder}` gives one."


def _verdict(run: KeptVerdicts, name: str) -> str:
    verdict = run.verdicts[name]
    said = next((word for kind, word in WORDS.items() if kind == verdict), verdict)
    bounds = " within the bounds" if verdict == "exhausted" else ""
    setting = f", {run.setting}" if run.setting else ""
    return f"**{said}**{bounds}: `{run.verb}`{setting}, {_age(time.time() - run.made)}"


def _since(run: KeptVerdicts, system: System | None) -> str:
    if system is not None and system.digest == run.digest:
        return "of this text"
    now = "the text cannot be read now" if system is None else "the files have changed since"
    return f"of the text {run.digest[:12]}: {now}"


def _age(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if (number := int(seconds // size)) >= 1:
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "less than a minute ago"
