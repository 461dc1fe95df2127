"""`leasehold verify --seeded`: bugs are planted into running actors, and their events alone are verified.

Seeded bugs are no part of the package: they are in the tests of a checkout (tests/planted, tests/watched).
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import leasehold
from leasehold.cli.common import Exit, console, no_such, print_json
from leasehold.impl.words import counted

ALL = "all"
SEEDED = "tests.watched.seeded"


def verify_seeded(name: str, as_json: bool) -> Exit:
    """Plays the runs of all bugs, or of one."""
    seeded = _checkout()
    bugs = [bug.name for bug in seeded.bugs()]
    if name != ALL and name not in bugs:
        no_such(f"no bug is named {name[:60]!r}", name, [*bugs, ALL], "reports/seeded_bugs.md lists them")
    screen, begun = console(stderr=True), time.perf_counter()

    def show(one: Any) -> None:
        if not as_json:
            invariants = ", ".join(dict.fromkeys(v.property for v in one.trial.right)) if one.trial else ""
            screen.print(f"{one.bug.name}: {one.verdict} {invariants or one.reason}".rstrip(), markup=False)

    results = seeded.reported(None if name == ALL else [name], show)
    figures = seeded.reported_json(results, time.perf_counter() - begun)
    if as_json:
        print_json(figures)
    else:
        click.echo(
            f"{counted(figures['bugs'], 'bug')} break an invariant, events show {figures['shown_by_events']} of them: "
            f"{figures['reported']} reported, {figures['right_invariant']} with the right invariant, "
            f"{counted(figures['false_alarms'], 'false alarm')}"
        )
    missed = figures["right_invariant"] < figures["shown_by_events"] or figures["false_alarms"]
    return Exit.VIOLATED if missed else Exit.HOLDS


def _checkout() -> ModuleType:
    """Returns what plays the bugs, from the checkout that this package is of."""
    folders = (path for path in Path(leasehold.__file__).resolve().parents if (path / "tests/planted").is_dir())
    root = next(folders, None)
    if root is None:
        raise click.UsageError(
            "--seeded needs a checkout of the repository, as seeded bugs are no part of the package; "
            "clone it, `pip install -e .[test]` there, and run this again"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(SEEDED)
