"""`leasehold compile`: a specification as the Python program that actors run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from leasehold.cli.common import Exit, fail, load_or_exit, parsed, print_json, system_options
from leasehold.impl.compiler.program import NotRunnable, source_of


@click.command("compile")
@system_options
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the source there, not on the screen."
)
def compile_(system: str, settings: tuple[str, ...], as_json: bool, out: Path | None) -> None:
    """Compile SYSTEM to Python: the core that actors run, a function for each transition.

    Actors compile their specification by themselves when they start; this is for reading what they run, and for
    keeping it. A system that can be explored but cannot run is refused, with every reason.

    \b
    Example:  leasehold compile lease --set max_units=20
              leasehold compile two_phase_commit --out core.py
    """  # noqa: D301 (click reads the character)
    model = load_or_exit(system, parsed(settings), as_json)
    try:
        source = source_of(model)
    except NotRunnable as error:
        fail(error, as_json)
    if out is not None:
        try:
            out.write_text(source)
        except OSError as error:
            raise click.UsageError(f"cannot write to {out}: {error.strerror or error}") from error
    if as_json:
        shown = {} if out else {"source": source}
        transitions = sum(1 for role in model.roles.values() for _ in role.transitions())
        print_json(
            {
                "system": model.name, "spec_digest": model.digest, "constants": model.values(),
                "roles": list(model.roles), "transitions": transitions, "lines": source.count("\n"),
                "out": str(out) if out else None, **shown,
            }
        )  # fmt: skip
    elif out is None:
        click.echo(source, nl=False)
    else:
        click.echo(f"wrote {out}: {source.count(chr(10)):,} lines, specification {model.digest[:12]}")
    sys.exit(Exit.HOLDS)
