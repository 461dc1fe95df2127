"""What the verbs share: settings, loading, errors, progress, exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from errno import EACCES
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console
from rich.text import Text

from leasehold.spec import Diagnostic, SpecError, System, load
from leasehold.spec.language.diagnostics import NOWHERE

F = TypeVar("F", bound=Callable[..., Any])


class Exit(IntEnum):
    """The exit codes of all verbs; docs/reference/command_line.md has them in a table."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member

    HOLDS = 0, "all holds, or the search that was asked for (`explore --max-states`, `--depth`) contradicts nothing"
    VIOLATED = 1, (
        "a property is violated; for `check` also any other difference from `expected.yaml`; for `crash`, `check` "
        "and `explore --faults` also a system that does not return; for `mutate` a survivor that nothing "
        "explains; for `migrate` records that do not fit; for the verbs that talk to actors: the actor said no"
    )  # fmt: skip
    BAD_SPEC = 2, (
        "the specification, a setting, a configuration or the command is wrong, nobody answers, there is no more "
        "memory, or the output cannot be written"
    )  # fmt: skip
    UNDECIDED = 3, "nothing is contradicted, but `prove` leaves a property undecided, or a limit cut `check` short"
    INTERRUPTED = 130, "Ctrl-C ended the work before anything was violated"
    NO_READER = 141, "the reader of the output has gone (`leasehold ... | head -1`)"


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
    sys.exit(Exit.BAD_SPEC)


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


def write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Writes these files into a folder; a usage error where that cannot be done."""
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content.encode())
    except OSError as error:
        raise click.UsageError(f"cannot write to {folder}: {error.strerror or error}") from error
    return [folder / name for name in files]
