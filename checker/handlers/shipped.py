"""The handlers that are shipped, and how each is tried: shipped.yaml, held against the table of plug-ins."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from leasehold.checker.handlers.target import SITE, HandlerTarget
from leasehold.impl import files
from leasehold.impl.policy import plugins


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of shipped.yaml."""

    settings: dict[str, Any] = {}
    verbs: tuple[str, ...] = SITE
    needs: dict[str, str] = {}
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Shipped:
    """A handler that is shipped.

    Attributes:
        target: None where it is not tried.
        skipped: why not; with the package to install.
    """

    name: str
    target: HandlerTarget | None
    skipped: str = ""


def shipped_handlers(folder: str) -> list[Shipped]:
    """All of them; one that the table does not know is tried with a `directory`, if it takes one and nothing else."""
    rows = {name: convert(row, Row) for name, row in files.table("leasehold.checker.handlers", "shipped.yaml").items()}
    return [_shipped(name, rows.get(name), folder) for name in plugins.BUILT_IN["handler"]]


def _shipped(name: str, row: Row | None, folder: str) -> Shipped:
    if row is None:
        row = _guessed(name)
    if row.left_out:
        return Shipped(name, None, row.left_out)
    missing = {program: package for program, package in row.needs.items() if shutil.which(program) is None}
    if missing:
        words = ", ".join(f"{program} is missing; install {package}" for program, package in missing.items())
        return Shipped(name, None, words)
    own = str(Path(__file__).resolve().parent)
    settings = {
        key: value.replace("{folder}", own) if isinstance(value, str) else value for key, value in row.settings.items()
    }
    return Shipped(name, HandlerTarget(name, {"*": (name, settings)}, folder, row.verbs))


def _guessed(name: str) -> Row:
    parameters = plugins.signature_of(plugins.find("handler", name).load()).parameters.values()
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if set(needed) - {"directory"}:
        return Row(left_out=f"shipped.yaml does not say with which {', '.join(sorted(needed))} to try it")
    takes = any(p.name == "directory" for p in parameters)
    return Row(settings={"directory": "units"} if takes else {})
