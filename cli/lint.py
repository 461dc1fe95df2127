"""`leasehold lint`: whether specifications are well written, without exploring them."""

from __future__ import annotations

import sys

import click
from rich.text import Text

from leasehold.cli.common import BAD_SPEC, HOLDS, console, parsed, print_json
from leasehold.reports.sarif import diagnostics_sarif
from leasehold.spec import Diagnostic, SpecError, load


@click.command()
@click.argument("systems", metavar="SYSTEM...", nargs=-1, required=True)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a constant.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF, for code-scanning services.")
def lint(systems: tuple[str, ...], settings: tuple[str, ...], as_json: bool, as_sarif: bool) -> None:
    """Read each SYSTEM and report everything that is wrong with its text.

    \b
    Example:  leasehold lint lease ./my_system
    """
    found: list[Diagnostic] = []
    for system in systems:
        try:
            found += load(system, parsed(settings)).warnings
        except SpecError as error:
            found += error.diagnostics
    errors = sum(1 for d in found if d.severity == "error")
    if as_sarif:
        print_json(diagnostics_sarif(found))
    elif as_json:
        print_json({"errors": errors, "diagnostics": [d.as_json() for d in found]})
    else:
        screen = console()
        for diagnostic in found:
            screen.print(Text(str(diagnostic), style="red" if diagnostic.severity == "error" else "yellow"))
        words = f"{errors} error{'s' if errors != 1 else ''}, {len(found) - errors} warnings" if found else "no findings"
        screen.print(words, markup=False)
    sys.exit(BAD_SPEC if errors else HOLDS)
