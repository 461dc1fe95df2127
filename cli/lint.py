"""`leasehold lint`: whether specifications are well written, without exploring them."""

from __future__ import annotations

import sys

import click

from leasehold.cli.common import Exit, console, diagnostics_json, parsed, print_diagnostics, print_json
from leasehold.reports.sarif import diagnostics_sarif
from leasehold.spec import Diagnostic, SpecError, load


@click.command()
@click.argument("systems", metavar="SYSTEM...", nargs=-1, required=True)
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a constant; may be given several times."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF, for code-scanning services.")
def lint(systems: tuple[str, ...], settings: tuple[str, ...], as_json: bool, as_sarif: bool) -> None:
    """Read each SYSTEM and report everything that is wrong with its text.

    \b
    Example:  leasehold lint lease ./my_system
    """  # noqa: D301 (click reads the character)
    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    chosen = parsed(settings)
    found: list[Diagnostic] = []
    for system in systems:
        try:
            found += load(system, chosen).warnings
        except SpecError as error:
            found += error.diagnostics
    if as_sarif:
        print_json(diagnostics_sarif(found))
    elif as_json:
        print_json(diagnostics_json(found))
    else:
        print_diagnostics(console(), found)
    sys.exit(Exit.BAD_SPEC if any(d.severity == "error" for d in found) else Exit.HOLDS)
