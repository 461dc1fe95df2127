"""What the verbs share: settings, loading, errors, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from leasehold.checker.explore import Exploration, Limits, Progress, explore
from leasehold.spec import SpecError, System, load

F = TypeVar("F", bound=Callable[..., Any])

HOLDS, VIOLATED, BAD_SPEC = 0, 1, 2


def console(stderr: bool = False) -> Console:
    """A console that neither cuts nor colours what goes into a file."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, soft_wrap=not stream.isatty(), width=None if stream.isatty() else 120)


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
        print_json({"errors": [d.as_json() for d in error.diagnostics]})
    else:
        screen = console(stderr=True)
        for diagnostic in error.diagnostics:
            screen.print(Text(str(diagnostic), style="red" if diagnostic.severity == "error" else "yellow"))
        count = sum(1 for d in error.diagnostics if d.severity == "error")
        screen.print(f"{count} error{'s' if count != 1 else ''}", markup=False)
    sys.exit(BAD_SPEC)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def explore_with_progress(system: System, limits: Limits | None = None, quiet: bool = False) -> Exploration:
    """Explores; on a terminal a line says how far it has come."""
    if quiet or not sys.stderr.isatty():
        return explore(system, limits)
    with Live(console=console(stderr=True), transient=True, auto_refresh=False) as live:

        def show(p: Progress) -> None:
            live.update(
                f"{p.distinct:>12,} states  {p.waiting:,} waiting  depth {p.depth}  "
                f"{p.distinct / p.seconds:,.0f} states/s  {p.memory_bytes / 1e6:,.0f} MB  Ctrl-C stops and reports",
                refresh=True,
            )

        return explore(system, limits, show)
