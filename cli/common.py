"""Shared by the verbs: settings, errors, output, exit codes."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from errno import EACCES
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console
from rich.text import Text

from leasehold.impl.words import counted, did_you_mean, visible, visible_lines
from leasehold.spec import Diagnostic, SpecError, System
from leasehold.spec.language.diagnostics import NOWHERE, listed, near_miss

F = TypeVar("F", bound=Callable[..., Any])
WHOLE = 1000  # letters of a summary, which click would cut to a line


class Exit(IntEnum):
    """The exit codes of all verbs; docs/reference/command_line.md has them in a table."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member

    HOLDS = 0, "all holds, or the search that was asked for (`explore --max-states`, `--depth`) contradicts nothing"
    VIOLATED = (
        1,
        (
            "a property is violated; for `prove` also a lemma; for `check` also any other difference from "
            "`expected.yaml`; for `crash`, `check` and `explore --faults` also a system that does not return; for "
            "`mutate` a survivor that nothing explains; for `demo`, `up --crash` and `crash real` a run in which "
            "something is wrong; for `migrate` records that do not fit; for the verbs that talk to actors: the actor "
            "said no"
        ),
    )
    BAD_SPEC = (
        2,
        (
            "the specification (for `lint`: a finding that is an error; warnings give 0), a setting, a configuration "
            "or the command is wrong, nobody answers, there is no more memory, or the output cannot be written"
        ),
    )
    UNDECIDED = (
        3,
        "nothing is contradicted, but `prove` leaves a property or a lemma undecided, a limit cut `check` short, or "
        "events that `verify` needs are missing",
    )
    INTERRUPTED = 130, "Ctrl-C (SIGTERM too: `prove`, `mutate`, `crash real`) ended the work before any violation"
    NO_READER = 141, "the reader of the output has gone (`leasehold ... | head -1`)"


class Verb(click.Command):
    """A verb. It exits with the code that its function returns, 0 for None; its `Example:` is shown as it is written.

    A wrong specification is printed, every finding of it. An error of `refusals` is one line, and has its exit code.
    """

    def __init__(self, *args: Any, refusals: Mapping[type[Exception], Exit], **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = _as_written(self.help)
        self.refusals = refusals

    def invoke(self, ctx: click.Context) -> NoReturn:
        try:
            sys.exit(super().invoke(ctx) or Exit.HOLDS)
        except SpecError as error:
            fail(error, ctx.params.get("as_json", False))
        except tuple(self.refusals) as error:
            click.echo(f"leasehold: {visible_lines(str(error))}", err=True)
            sys.exit(next(code for kind, code in self.refusals.items() if isinstance(error, kind)))
        except click.UsageError as error:
            raise click.UsageError(visible_lines(error.message), error.ctx) from None


def _as_written(help_: str | None) -> str:
    """The help of a verb, with its `Example:` as it is written."""
    return inspect.cleandoc(help_ or "").replace("\n\nExample:", "\n\n\b\nExample:")


def verb(
    name: str | None = None, refusals: Mapping[type[Exception], Exit] | None = None, **options: Any
) -> Callable[[Callable[..., Exit | None]], Verb]:
    """Makes a verb of a function."""
    return click.command(name, cls=Verb, refusals=refusals or {}, **options)


class VerbGroup(click.Group):
    """A group of verbs. Each is imported when it is asked for, as most need only a few of the packages of all.

    Args:
        sections: by heading, where each verb is, as `module:name` of this package, in the order of the help.
        default: the verb that is meant where the first word is none of them, as in `leasehold crash SYSTEM`.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, str]], default: str = "", **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.help = _as_written(self.help)
        self.sections, self.default = sections, default
        self.places = {name: place for verbs in sections.values() for name, place in verbs.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module, _, name = self.places[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"leasehold.cli.{module}"), name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first, second = [*args, "", ""][:2]
        several = second and not any(word.startswith("-") for word in (first, second))  # a misspelt verb, and SYSTEM
        misspelt = several and did_you_mean(first, self.places)
        if self.default and first not in (*self.places, *ctx.help_option_names) and not misspelt:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            message = f"there is no verb {args[0][:60]!r}{did_you_mean(args[0], self.places)}"
            raise click.UsageError(message, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, verbs in self.sections.items():
            commands = [(name, self.get_command(ctx, name)) for name in verbs]
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, verb.get_short_help_str(WHOLE)) for name, verb in commands if verb is not None]
                )

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(Exit.INTERRUPTED)
        except click.NoSuchOption as error:
            near = self._verbs_for(error.option_name, ctx)
            if not near or error.ctx is None or error.ctx.parent is not ctx:
                raise
            message = f"No such option {error.option_name!r} here; see {listed(near)}"
            raise click.UsageError(message, error.ctx) from None

    def _verbs_for(self, option: str, ctx: click.Context) -> list[str]:
        """The verbs that an option names, or else that have it."""
        if (named := option.removeprefix("--")) in self.places:
            return [f"`{ctx.command_path} {named}`"]
        commands = ((name, self.get_command(ctx, name)) for name in self.places)
        have = [name for name, verb in commands if verb is not None and any(option in one.opts for one in verb.params)]
        return [f"`{ctx.command_path} {name}`" for name in have] if self.default else []


def console(stderr: bool = False) -> Console:
    """A console that neither cuts nor colours what goes into a file, and writes `:key:` as it is."""
    stream = sys.stderr if stderr else sys.stdout
    on_terminal = stream.isatty()
    return Console(
        stderr=stderr,
        highlight=False,
        emoji=False,
        soft_wrap=not on_terminal,
        width=None if on_terminal else 120,
        force_terminal=on_terminal,
    )


def say(line: str, err: bool = False, style: str = "") -> None:
    """Prints one line that has names or values from outside, such as a log's, which a terminal might obey.

    Args:
        line: in which characters that are not printable, line breaks too, are escaped.
        err: to standard error.
        style: as rich names it.
    """
    if style:
        console(err).print(visible(line), markup=False, style=style, soft_wrap=True)
    else:  # where there are many
        click.echo(visible(line), err=err)


class FiniteRange(click.FloatRange):
    """A number in a range, which is never infinite, nor no number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number that a search or a wait could come to; write one such as 8", param, ctx)
        return number


def settings_of(ctx: click.Context, param: click.Parameter, settings: Mapping[str, str]) -> dict[str, str]:
    """`NAME=VALUE` words as a mapping; a usage error where one is not of this form or comes twice."""
    values: dict[str, str] = {}
    for word in settings:
        name, equals, value = word.partition("=")
        name = name.strip()
        if not equals or not name:
            raise click.UsageError(f"--set takes NAME=VALUE, not {word[:60]!r}")
        if name in values:
            raise click.UsageError(f"--set gives {name[:60]!r} twice")
        values[name] = value
    return values


def _act_as(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """An option to sign with a key what is asked of actors while the verb runs."""
    if path is not None:
        from leasehold.impl.identity.keys import KeyFault, PrivateKey  # seldom asked for
        from leasehold.impl.server.client import acting_as

        try:
            key = PrivateKey.load(path)
        except KeyFault as fault:
            raise click.UsageError(f"--as: {fault}") from None
        ctx.with_resource(acting_as(key))


as_option = click.option(
    "--as",
    "key_file",
    type=click.Path(path_type=Path),
    metavar="KEYFILE",
    envvar="LEASEHOLD_KEY",
    show_envvar=True,
    expose_value=False,
    callback=_act_as,
    help="Ask as the client whose private key this is, where an actor has clients.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
set_option = click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=settings_of,
    help="Set a constant; may be given several times.",
)


def system_options(command: F) -> F:
    """SYSTEM, --set and --json."""
    return click.argument("system")(set_option(json_option(command)))


def fail(error: SpecError, as_json: bool) -> NoReturn:
    """Prints the errors of a specification and exits with 2."""
    if as_json:
        print_json(diagnostics_json(error.diagnostics))
    else:
        print_diagnostics(console(stderr=True), error.diagnostics)
    sys.exit(Exit.BAD_SPEC)


def print_diagnostics(screen: Console, diagnostics: Iterable[Diagnostic]) -> None:
    """Every finding, then how many there are."""
    errors = warnings = 0
    for d in diagnostics:
        # A setting of the call stands in no file, so it has no line to name.
        text = str(d).removeprefix(f"{NOWHERE}: ") if d.place == NOWHERE else str(d)
        screen.print(Text(text, style="red" if d.severity == "error" else "yellow"), soft_wrap=True)
        errors += d.severity == "error"
        warnings += d.severity == "warning"
    counts = [counted(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n]
    screen.print(", ".join(counts) or "no findings", markup=False)


def warn_of_values(system: System) -> None:
    """Says on standard error what is wrong with the system with the values of its constants, and not with others."""
    for d in system.warnings:
        if d.depends:
            console(stderr=True).print(Text(str(d), style="yellow"), soft_wrap=True)


def diagnostics_json(diagnostics: Iterable[Diagnostic]) -> dict[str, object]:
    findings = list(diagnostics)
    return {"errors": sum(d.severity == "error" for d in findings), "diagnostics": [d.as_json() for d in findings]}


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=True))


def no_such(message: str, name: str, known: Iterable[str], otherwise: str) -> NoReturn:
    """A usage error about a name: `message`, and then the known name that is nearest to it; `otherwise` if none is."""
    near = near_miss(name, list(known))
    raise click.UsageError(f"{message}; {f'did you mean {near}?' if near else otherwise}")


@contextmanager
def until_told() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and SIGHUP set."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends the work before it has come to anything: exits with 130, and says how far it was."""
    try:
        yield
    except KeyboardInterrupt as end:
        click.echo(f"interrupted before it was decided{f': {end}' if str(end) else ''}", err=True)
        sys.exit(Exit.INTERRUPTED)


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """A usage error where a file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"cannot write to {place}: {error.strerror or error}") from error


def make_folder(folder: Path, file: Path | None = None) -> None:
    """Makes a folder to write to, or the one of a file; a usage error, which names it, where that cannot be done."""
    with writing(file or folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))


def write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Writes these files into a folder; a usage error where that cannot be done."""
    with writing(folder):
        for name, content in files.items():
            (folder / name).write_bytes(content.encode())
    return [folder / name for name in files]


def end_as_interrupted() -> None:
    """SIGTERM and SIGHUP end a verb as Ctrl-C does, which counts also where a shell has it ignored.

    Once: what the verb has started is ended then, and another signal does not interrupt that.
    """
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, frame: object) -> NoReturn:
        for one in ending:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    for one in ending:
        signal.signal(one, interrupt)
