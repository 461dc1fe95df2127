"""What the verbs share: settings, loading, errors, progress, exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from errno import EACCES
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from leasehold.checker.explore import Exploration, Limits, Progress, explore
from leasehold.faults import Budget, BudgetError
from leasehold.spec import Diagnostic, SpecError, System, load
from leasehold.spec.language.diagnostics import NOWHERE, near_miss

F = TypeVar("F", bound=Callable[..., Any])

HOLDS, VIOLATED, BAD_SPEC, INTERRUPTED = 0, 1, 2, 130


def console(stderr: bool = False) -> Console:
    """A console that neither cuts nor colours what goes into a file."""
    stream = sys.stderr if stderr else sys.stdout
    on_terminal = stream.isatty()
    return Console(
        stderr=stderr, highlight=False, soft_wrap=not on_terminal, width=None if on_terminal else 120,
        force_terminal=on_terminal,
    )  # fmt: skip


def system_options(command: F) -> F:
    """SYSTEM, --set and --json."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)
    command = click.option(
        "--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a constant; may be given several times."
    )(command)
    return click.argument("system")(command)


def parsed(settings: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` words as a mapping; a usage error where one is not of this form or comes twice."""
    found: dict[str, str] = {}
    for word in settings:
        name, equals, value = word.partition("=")
        name = name.strip()
        if not equals or not name:
            raise click.UsageError(f"--set takes NAME=VALUE, not {word[:60]!r}")
        if name in found:
            raise click.UsageError(f"--set gives {name[:60]!r} twice")
        found[name] = value
    return found


def load_or_exit(system: str, settings: Mapping[str, str], as_json: bool) -> System:
    """The system; where its specification or a setting is wrong, prints every finding and exits with 2."""
    try:
        return load(system, settings)
    except SpecError as error:
        fail(error, as_json)


def fail(error: SpecError, as_json: bool) -> NoReturn:
    """Prints what is wrong with a specification and exits with 2."""
    if as_json:
        print_json(diagnostics_json(error.diagnostics))
    else:
        print_diagnostics(console(stderr=True), error.diagnostics)
    sys.exit(BAD_SPEC)


def print_diagnostics(screen: Console, diagnostics: Iterable[Diagnostic]) -> None:
    """Every finding, then how many there are."""
    errors = warnings = 0
    for d in diagnostics:
        # What was given at the call stands in no file, so it has no line to name.
        words = str(d).removeprefix(f"{NOWHERE}: ") if d.place == NOWHERE else str(d)
        screen.print(Text(words, style="red" if d.severity == "error" else "yellow"), soft_wrap=True)
        errors += d.severity == "error"
        warnings += d.severity == "warning"
    counts = [f"{n} {noun}{'s' if n != 1 else ''}" for n, noun in ((errors, "error"), (warnings, "warning")) if n]
    screen.print(", ".join(counts) or "no findings", markup=False)


def diagnostics_json(diagnostics: Iterable[Diagnostic]) -> dict[str, object]:
    found = list(diagnostics)
    return {"errors": sum(d.severity == "error" for d in found), "diagnostics": [d.as_json() for d in found]}


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=True))


def make_folder(folder: Path) -> None:
    """Makes a folder to write to; a usage error where that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        raise click.UsageError(f"cannot write to {folder}: {error.strerror or error}") from error


def explore_with_progress(
    system: System, limits: Limits | None = None, quiet: bool = False, budget: Budget | None = None
) -> Exploration:
    """Explores; on a terminal a line says how far it has come."""
    with progress_line(quiet) as show:
        return explore(system, limits, show, budget=budget)


@contextmanager
def progress_line(quiet: bool = False) -> Iterator[Callable[[Progress], None] | None]:
    """What shows how far a search has come, on a terminal; None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    screen = console(stderr=True)
    with Live(console=screen, transient=True, auto_refresh=False) as live:

        def show(p: Progress) -> None:
            parts = [
                f"{p.distinct:,} states", f"{p.waiting:,} waiting", f"depth {p.depth}",
                f"{p.distinct / p.seconds:,.0f} states/s", f"{p.memory_bytes / 1e6:,.0f} MB",
                "Ctrl-C stops and reports",
            ]  # fmt: skip
            while len("  ".join(parts)) >= screen.width and len(parts) > 1:
                parts.pop()
            live.update(Text("  ".join(parts)), refresh=True)

        yield show


def exit_code(found: Exploration) -> int:
    """0 when nothing is violated, 1 when something is; an interrupted search that has found nothing says 130."""
    if not found.holds:
        return VIOLATED
    return INTERRUPTED if interrupted(found) else HOLDS


def interrupted(found: Exploration) -> bool:
    return found.why_incomplete == "interrupted"


def parse_budget(model: System, words: str, where: str) -> Budget:
    """Reads a budget; a usage error where it is none, or names a role that is not there."""
    try:
        budget = Budget.parse(words)
    except BudgetError as error:
        raise click.UsageError(f"{where}: {error}") from error
    if budget.byzantine and budget.byzantine not in model.roles:
        near = near_miss(budget.byzantine, model.roles)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(model.roles)}"
        raise click.UsageError(f"{where}: {model.name} has no role {budget.byzantine[:60]!r}; {hint}")
    return budget
