"""`leasehold lint`: whether specifications are well written, without exploring them."""

from __future__ import annotations

from collections.abc import Mapping

import click

from leasehold.cli.common import (
    Exit,
    console,
    diagnostics_json,
    json_option,
    print_diagnostics,
    print_json,
    set_option,
    verb,
)
from leasehold.reports.sarif import diagnostics_sarif
from leasehold.spec import Diagnostic, SpecError, load


@verb()
@click.argument("systems", metavar="SYSTEM...", nargs=-1, required=True)
@set_option
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF, for code-scanning services.")
def lint(systems: tuple[str, ...], settings: Mapping[str, str], as_json: bool, as_sarif: bool) -> Exit:
    """Read each SYSTEM and report everything that is wrong with its text.

    Example:  leasehold lint lease ./my_system
    """
    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    found: list[Diagnostic] = []
    for system in systems:
        try:
            found += load(system, settings).warnings
        except SpecError as error:
            found += error.diagnostics
    if as_sarif:
        print_json(diagnostics_sarif(found))
    elif as_json:
        print_json(diagnostics_json(found))
    else:
        print_diagnostics(console(), found)
    return Exit.BAD_SPEC if any(d.severity == "error" for d in found) else Exit.HOLDS
