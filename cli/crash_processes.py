"""`leasehold crash lease --real --processes`: the campaign with real processes, for a person or a program."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from leasehold.checker.recovery.processes.campaign import Campaign, UnknownCase, campaign
from leasehold.checker.recovery.processes.cases import Outcome
from leasehold.cli.common import HOLDS, INTERRUPTED, VIOLATED, console, print_json
from leasehold.reports.words import counted
from leasehold.spec import System

NO_TIME = "no time was left for it"


def crash_processes(
    model: System, *, only: str | None, quick: bool, jobs: int | None, hours: float | None, as_json: bool
) -> NoReturn:  # fmt: skip
    """Plays the cases, prints what became of them, and exits."""
    if model.name != "lease":
        raise click.UsageError(f"--processes plays leases, and {model.name} has none; take the system lease")
    limit = {} if hours is None else {"limit_seconds": hours * 3600}
    try:
        with _progress(quiet=as_json) as watch:
            found = campaign(only=only, quick=quick, jobs=jobs, watch=watch, **limit)
    except UnknownCase as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        print_json(_json(model, found))
    else:
        _print(console(), model, found)
    sys.exit(VIOLATED if found.failures else INTERRUPTED if found.interrupted else HOLDS)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int, int], None] | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with Live(console=console(stderr=True), transient=True, auto_refresh=False) as live:

        def show(played: int, total: int, failed: int) -> None:
            words = f"{played:,} of {total:,} cases  {failed:,} failed  Ctrl-C stops and reports"
            live.update(Text(words), refresh=True)

        live.update(Text("looking which points and system calls there are"), refresh=True)
        yield show


def rerun(outcome: Outcome) -> str:
    """The command that plays a case again."""
    return f"leasehold crash lease --real --processes --only {shlex.quote(outcome.name)}"


def _json(model: System, found: Campaign) -> dict[str, Any]:
    return {
        "system": model.name,
        "spec_digest": model.digest,
        "cases": found.cases,
        "passed": found.passed,
        "failed": len(found.failures),
        "skipped": [{"name": outcome.name, "reason": outcome.skipped} for outcome in found.skipped],
        "ends": {"same": found.ends["same"], "ended": found.ends["ended"]},
        "failures": [
            {"name": outcome.name, "findings": outcome.findings, "rerun": rerun(outcome)} for outcome in found.failures
        ],
        "interrupted": found.interrupted,
        "seconds": round(found.seconds, 3),
    }  # fmt: skip


def _print(screen: Console, model: System, found: Campaign) -> None:
    screen.print(f"[bold]{model.name}[/]  spec {model.digest[:12]}, with real processes", soft_wrap=True)
    late = [outcome for outcome in found.skipped if outcome.skipped == NO_TIME]
    screen.print(
        f"{counted(found.cases, 'case')}: {found.passed:,} passed, {len(found.failures):,} failed, "
        f"{len(found.skipped):,} skipped" + (" [yellow](interrupted)[/]" if found.interrupted else ""), soft_wrap=True,
    )  # fmt: skip
    screen.print(
        f"in {found.ends['same']:,} the lease came through, in {found.ends['ended']:,} it ended and its units served "
        "the next request", soft_wrap=True,
    )  # fmt: skip
    screen.print(f"{found.seconds:,.1f} s", style="dim")
    for outcome in found.skipped:
        if outcome not in late:
            screen.print(f"skipped {escape(outcome.name)}: {escape(outcome.skipped)}", soft_wrap=True)
    if late:
        screen.print(f"for {counted(len(late), 'case')} no time was left; --json names them, --hours gives more")
    if not found.failures:
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("case", "what is wrong"):
        table.add_column(name, overflow="fold")
    for outcome in found.failures:
        for n, words in enumerate(outcome.findings):
            table.add_row(escape(outcome.name) if not n else "", escape(words))
    screen.print(table)
    screen.print(f"to see one again: {escape(rerun(found.failures[0]))}", style="dim", soft_wrap=True)
