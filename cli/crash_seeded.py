"""`leasehold crash --real --seeded`: does the campaign catch what is wrong? As a person or a program asks for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from leasehold.checker.recovery.seeded import Caught, seeded
from leasehold.cli.common import HOLDS, VIOLATED, console, print_json
from leasehold.faults.bugs import UnknownBug
from leasehold.reports.recovery import seeded_json, seeded_markdown
from leasehold.reports.words import counted
from leasehold.spec import System

ALL = "all"


def crash_seeded(
    model: System, *, names: tuple[str, ...], jobs: int | None, as_json: bool, out: Path | None
) -> NoReturn:  # fmt: skip
    """Plants each bug, plays cases until one fails, prints what caught it, and exits."""
    wanted = None if ALL in names else names
    try:
        if as_json or not sys.stderr.isatty():
            found = seeded(model, wanted, jobs)
        else:
            with Live(console=console(stderr=True), transient=True, auto_refresh=False) as live:

                def show(tried: int, total: int, last: Caught) -> None:
                    live.update(Text(f"{tried} of {total} bugs tried  the last: {last.bug}"), refresh=True)

                found = seeded(model, wanted, jobs, show)
    except UnknownBug as error:
        raise click.UsageError(f"--seeded: {error}") from error
    if out is not None:
        try:
            (out / "seeded_bugs.md").write_text(seeded_markdown(model, found), encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"cannot write to {out}: {error.strerror or error}") from error
    survivors = [c for c in found if c.survived]
    if as_json:
        print_json(seeded_json(model, found))
    else:
        table = Table(box=None, pad_edge=False, show_edge=False)
        for name in ("bug", "class", "cases", "caught by", "in the case"):
            table.add_column(name, overflow="fold", justify="right" if name == "cases" else "left")
        for c in found:
            checks = ", ".join(c.checks) or "[red]nothing[/]"
            table.add_row(c.bug, c.class_, f"{c.cases:,}", checks, escape(c.case))
        screen = console()
        screen.print(table)
        screen.print(f"{len(found) - len(survivors)} of {counted(len(found), 'seeded bug')} caught")
    sys.exit(VIOLATED if survivors else HOLDS)
