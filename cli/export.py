"""`leasehold compile` and `leasehold export`: a system as a Python program, and as a model for another checker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from leasehold.checker.export import FORMATS, SLOTS, Exported, ExportError, ExportOptions, export_system
from leasehold.cli.common import print_json, system_options, verb, writing
from leasehold.impl.compiler.contract_source import not_enforced
from leasehold.impl.compiler.program import source_of
from leasehold.spec import System, load, load_for_run


@verb("compile")
@system_options
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the source there, not on the screen."
)
def compile_(system: str, settings: Mapping[str, str], as_json: bool, out: Path | None) -> None:
    """Compile SYSTEM to Python: the core that actors run, a function for each transition.

    Actors compile their specification by themselves when they start; this prints the program, to read or to keep. A
    system that can be explored but cannot run is refused, with every reason.

    Example:  leasehold compile lease --set max_units=20
              leasehold compile two_phase_commit --out core.py
    """
    model = load_for_run(system, settings)
    source = source_of(model)
    if out is not None:
        with writing(out):
            out.write_text(source)
    if as_json:
        shown = {} if out else {"source": source}
        transitions = sum(1 for role in model.roles.values() for _ in role.transitions())
        print_json(
            {
                "system": model.name,
                "spec_digest": model.digest,
                "constants": model.values(),
                "roles": list(model.roles),
                "transitions": transitions,
                "lines": source.count("\n"),
                "not_enforced": [entry._asdict() for entry in not_enforced(model)],
                "out": str(out) if out else None,
                **shown,
            }
        )
    elif out is None:
        click.echo(source, nl=False)
    else:
        click.echo(f"wrote {out}: {source.count(chr(10)):,} lines, specification {model.digest[:12]}")
        for entry in not_enforced(model):
            click.echo(entry)


@verb()
@system_options
@click.option(
    "--to",
    "to",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="; ".join(f"{name}: {readers}" for name, readers in FORMATS.items()) + ".",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the model there, not on the screen; for TLC a .cfg beside it.",
)
@click.option(
    "--slots",
    metavar="N",
    type=click.IntRange(min=1, max=100),
    default=SLOTS,
    show_default=True,
    help="With promela: messages for which a channel without a capacity has room; a queue for each receiver.",
)
def export(system: str, settings: Mapping[str, str], as_json: bool, to: str, out: Path | None, slots: int) -> None:
    """Write SYSTEM as a model that another checker explores.

    It is the system without faults of actors, as `leasehold explore SYSTEM` explores it, with the same states and the
    same properties. Properties that the other language cannot say are named in the model, and here.

    Example:  leasehold export two_phase_commit --to promela --out two_phase_commit.pml
              leasehold export lease --set max_units=1 --to tla --out lease.tla
    """
    model = load(system, settings)
    try:
        exported = export_system(model, to, ExportOptions(out, slots))
    except ExportError as error:
        raise click.UsageError(f"{model.name} cannot be exported to {to}: {error}") from error
    files = _write(out, exported)
    for left in exported.left_out:
        click.echo(f"not exported: {left.name}: {left.why}", err=True)
    if as_json:
        print_json(_json(model, to, exported, files))
    elif out is None:
        click.echo(exported.text, nl=False)
        click.echo(exported.settings, nl=False)
    else:
        click.echo(f"wrote {', '.join(map(str, files))}: specification {model.digest[:12]}")


def _write(out: Path | None, exported: Exported) -> list[Path]:
    if out is None:
        return []
    files = {out: exported.text}
    if exported.settings:
        files[out.with_suffix(".cfg")] = exported.settings
    for file, text in files.items():
        with writing(file):
            file.write_text(text, encoding="ascii")
    return list(files)


def _json(model: System, to: str, exported: Exported, files: list[Path]) -> dict[str, object]:
    shown = {} if files else {"model": exported.text, "settings": exported.settings or None}
    return {
        "system": model.name,
        "spec_digest": model.digest,
        "constants": model.values(),
        "to": to,
        "files": [str(file) for file in files],
        "not_exported": {left.name: left.why for left in exported.left_out},
        **shown,
    }
