"""`leasehold explore`: every reachable state of a system."""

from __future__ import annotations

import sys

import click

from leasehold.checker.expectations import expectation_for
from leasehold.checker.explore import Limits
from leasehold.cli import tables
from leasehold.cli.common import (
    HOLDS,
    VIOLATED,
    console,
    explore_with_progress,
    load_or_exit,
    parsed,
    print_json,
    system_options,
)
from leasehold.reports.json_report import json_report
from leasehold.reports.trace import trace_text


@click.command()
@system_options
@click.option("--max-states", type=click.IntRange(min=1), help="Stop after so many states.")
@click.option("--depth", type=click.IntRange(min=0), help="Go no further than so many steps.")
@click.option("--show", metavar="PROPERTY", multiple=True, help="Print the path of this property step by step.")
def explore(
    system: str, settings: tuple[str, ...], as_json: bool, max_states: int | None, depth: int | None, show: tuple[str, ...]
) -> None:
    """Visit every reachable state of SYSTEM and decide its properties.

    \b
    Example:  leasehold explore lease --set max_units=1
              leasehold explore lease --show a_lease_grows
              leasehold explore two_phase_commit --set participants=4 --json
    """
    model = load_or_exit(system, parsed(settings), as_json)
    names = [*model.properties, "deadlock_free"]
    for name in show:
        if name not in names:
            raise click.UsageError(f"{model.name} has no property {name[:60]!r}; it has {', '.join(names)}")
    found = explore_with_progress(model, Limits(max_states, depth), quiet=as_json)
    if as_json:
        print_json(json_report(found))
    else:
        screen = console()
        tables.headline(screen, found)
        tables.properties(screen, found.properties)
        expectation = expectation_for(model)
        explained = expectation.explained if expectation else ()
        tables.left_over(screen, found, explained)
        tables.counterexamples(screen, found.properties)
        for p in found.properties:
            if p.name in show and p.verdict != "violated":
                screen.print(f"\n{p.name}: {p.verdict}", markup=False)
                if p.path is not None:
                    screen.print(trace_text(p.path), markup=False, end="")
    sys.exit(HOLDS if found.holds else VIOLATED)
