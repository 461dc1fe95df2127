"""`leasehold crash --real`: the campaign on real actors, as a person or a program asks for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from leasehold.checker.recovery.campaign import Campaign, UnknownCase, campaign
from leasehold.cli import tables
from leasehold.cli.common import HOLDS, INTERRUPTED, VIOLATED, console, print_json
from leasehold.reports.json_report import dumps
from leasehold.reports.lifelines import path_svg
from leasehold.reports.recovery import recovery_html, recovery_json
from leasehold.reports.words import counted
from leasehold.reports.write import safe_name
from leasehold.spec import System

PREFIX = "crash:"  # the name of a case begins with it
DEFAULT = "lease"
MOST = 20  # failures that are printed


def crash_real(
    model: System, *, only: str | None, pairs: bool, jobs: int | None, as_json: bool, out: Path | None
) -> None:  # fmt: skip
    """Plays the cases, prints what became of them, and exits."""
    if "service_manager" not in model.roles:
        raise click.UsageError(
            f"--real plays leases: {model.name} has no service manager. Without --real its crashes are explored"
        )
    try:
        with _progress(quiet=as_json) as watch:
            found = campaign(model, pairs=pairs, jobs=jobs, watch=watch, only=only)
    except UnknownCase as error:
        raise click.UsageError(str(error)) from error
    written = _write(found, out)
    if as_json:
        print_json(recovery_json(found))
    else:
        _print(console(), found)
        if written:
            console().print(f"wrote {', '.join(map(str, written))}", markup=False, soft_wrap=True)
    sys.exit(VIOLATED if found.failures else INTERRUPTED if found.interrupted else HOLDS)


def _write(found: Campaign, out: Path | None) -> list[Path]:
    if out is None:
        return []
    files = {"recovery.html": recovery_html(found), "recovery.json": dumps(recovery_json(found, measured=False))}
    files |= {safe_name(f"{name}.svg"): path_svg(path, name) for name, path in found.drawn.items()}
    try:
        for name, content in files.items():
            (out / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write to {out}: {error.strerror or error}") from error
    return [out / name for name in files]


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int, int], None] | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    screen = console(stderr=True)
    with Live(console=screen, transient=True, auto_refresh=False) as live:

        def show(played: int, total: int, failed: int) -> None:
            of = f" of {total:,}" if total else ""
            words = f"{played:,}{of} cases  {failed:,} failed  Ctrl-C stops and reports"
            live.update(Text(words), refresh=True)

        live.update(Text("exploring, so as to know the cases"), refresh=True)
        yield show


def _print(screen: Console, found: Campaign) -> None:
    constants = "  ".join(f"{k}={_plain(v)}" for k, v in found.system.values().items())
    screen.print(f"[bold]{found.system.name}[/]  {escape(constants)}  spec {found.system.digest[:12]}", soft_wrap=True)
    screen.print(
        f"{counted(found.played, 'case')} of {found.scripts:,} (cells x crash points x modes), played by real actors: "
        f"{found.passed:,} passed, {len(found.failures):,} failed"
        + (" [yellow](interrupted)[/]" if found.interrupted else ""), soft_wrap=True,
    )  # fmt: skip
    screen.print(
        f"{found.ends['same']:,} came to where they are without the crash, {found.ends['ended']:,} have ended and "
        f"their units served the next request; invariants asked at {found.asked:,} states", soft_wrap=True,
    )  # fmt: skip
    screen.print(f"{found.seconds:,.1f} s, {found.exploring:,.1f} s of them to find the cases", style="dim")
    if found.played == 1:
        for path in found.drawn.values():
            tables.path(screen, path, brief=False)
    if not found.failures:
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("case", "check", "what is wrong"):
        table.add_column(name, overflow="fold")
    for outcome in found.failures[:MOST]:
        for n, finding in enumerate(outcome.findings):
            table.add_row(escape(outcome.name) if not n else "", finding.check, escape(finding.words))
    screen.print(table)
    if len(found.failures) > MOST:
        screen.print(f"and {len(found.failures) - MOST:,} more; --json has all")
    screen.print(
        f"to see one again: leasehold crash --real '{escape(found.failures[0].name)}'", style="dim", soft_wrap=True
    )  # fmt: skip


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
