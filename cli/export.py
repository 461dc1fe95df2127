"""`leasehold export`: a system as a model for another checker."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from leasehold.checker.export import FORMATS, SLOTS, Exported, ExportError, ExportOptions, export_system
from leasehold.cli.common import Exit, load_or_exit, parsed, print_json, system_options
from leasehold.spec import System


@click.command()
@system_options
@click.option(
    "--to", "to", type=click.Choice(list(FORMATS)), required=True,
    help="; ".join(f"{name}: {readers}" for name, readers in FORMATS.items()) + ".",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the model there, not on the screen; for TLC a .cfg beside it.",
)  # fmt: skip
@click.option(
    "--slots", metavar="N", type=click.IntRange(min=1, max=100), default=SLOTS, show_default=True,
    help="With promela: messages for which a channel without a capacity has room between two machines.",
)  # fmt: skip
def export(system: str, settings: tuple[str, ...], as_json: bool, to: str, out: Path | None, slots: int) -> None:
    """Write SYSTEM as a model that another checker explores.

    It is the system without faults of actors, as `leasehold explore SYSTEM` explores it, with the same states and the
    same properties. Properties that the other language cannot say are named in the model, and here.

    \b
    Example:  leasehold export two_phase_commit --to promela --out two_phase_commit.pml
              leasehold export lease --set max_units=1 --to tla --out lease.tla
    """  # noqa: D301 (click reads the character)
    model = load_or_exit(system, parsed(settings), as_json)
    try:
        made = export_system(model, to, ExportOptions(out, slots))
    except ExportError as error:
        raise click.UsageError(f"{model.name} cannot be exported to {to}: {error}") from error
    files = _write(out, made)
    for left in made.left_out:
        click.echo(f"not exported: {left.name}: {left.why}", err=True)
    if as_json:
        print_json(_json(model, to, made, files))
    elif out is None:
        click.echo(made.text, nl=False)
        click.echo(made.settings, nl=False)
    else:
        click.echo(f"wrote {', '.join(map(str, files))}: specification {model.digest[:12]}")
    sys.exit(Exit.HOLDS)


def _write(out: Path | None, made: Exported) -> list[Path]:
    if out is None:
        return []
    files = {out: made.text}
    if made.settings:
        files[out.with_suffix(".cfg")] = made.settings
    for file, text in files.items():
        try:
            file.write_text(text, encoding="ascii")
        except OSError as error:
            raise click.UsageError(f"cannot write to {file}: {error.strerror or error}") from error
    return list(files)


def _json(model: System, to: str, made: Exported, files: list[Path]) -> dict[str, object]:
    shown = {} if files else {"model": made.text, "settings": made.settings or None}
    return {
        "system": model.name, "spec_digest": model.digest, "constants": model.values(), "to": to,
        "files": [str(file) for file in files],
        "not_exported": {left.name: left.why for left in made.left_out}, **shown,
    }  # fmt: skip
