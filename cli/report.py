"""`leasehold report`: pictures and pages of a system and its exploration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from leasehold.checker.explore import Engine
from leasehold.checker.host.verdicts import kept_verdicts
from leasehold.cli.common import Exit, console, make_folder, print_json, system_options, verb, writing
from leasehold.cli.search import engine_option, exit_code, explore_with_progress
from leasehold.reports.readings import readings
from leasehold.reports.write import FORMATS, write_report
from leasehold.spec import load


@verb()
@system_options
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to write to; report-SYSTEM by default."
)
@engine_option
@click.option(
    "--format", "formats", type=click.Choice(list(FORMATS)), multiple=True, help="Write these alone; all by default."
)
def report(
    system: str, settings: Mapping[str, str], as_json: bool, engine: Engine, out: Path | None, formats: tuple[str, ...]
) -> Exit:
    """Explore SYSTEM and write its report: state diagrams, product graph, sequence diagrams, verdicts.

    Open index.html first: it is one file and needs no network. It has a row for each property with what `check`,
    `crash`, `prove`, `mutate`, `crash real`, `verify` and `conform` have found last on this machine; what they have
    found of an older text is marked.

    Example:  leasehold report lease --out lease-report
              leasehold report lease --format junit --format sarif
    """
    model = load(system, settings)
    folder = out if out is not None else Path(f"report-{model.name}")
    make_folder(folder)  # before the search, which may take long
    exploration = explore_with_progress(model, engine=engine)
    notes: list[str] = []
    with writing(folder):
        others = readings(model, system, kept_verdicts(system))
        written = write_report(exploration, folder, formats or None, say=notes.append, others=others)
    if as_json:
        print_json({"files": [str(p) for p in written], "notes": notes, "holds": exploration.holds})
    else:
        screen = console()
        for note in notes:
            screen.print(note, markup=False, style="yellow")
        first = folder / "index.html" if folder / "index.html" in written else written[0] if written else folder
        screen.print(f"{len(written)} files in {folder}; start with {first}", markup=False)
    return exit_code(exploration)
