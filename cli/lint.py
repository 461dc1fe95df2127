"""`leasehold lint`: whether specifications are well written, without exploring them."""

from __future__ import annotations

from collections.abc import Mapping

import click

from leasehold.checker.crash.unmet import explanations
from leasehold.checker.mutation.battery import SystemLoader, battery_of
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
from leasehold.cli.crash import load_for_faults
from leasehold.faults.model import Budget, BudgetError
from leasehold.faults.model.lowering import lower_with_faults
from leasehold.impl.compiler.program import NotRunnable, check_runnable
from leasehold.reports.sarif import diagnostics_sarif
from leasehold.spec import Diagnostic, SpecError, System, load
from leasehold.spec.language.diagnostics import Sink

OF_BOUNDS = "LH810"


@verb()
@click.argument("systems", metavar="SYSTEM...", nargs=-1, required=True)
@set_option
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF, for code-scanning services.")
def lint(systems: tuple[str, ...], settings: Mapping[str, str], as_json: bool, as_sarif: bool) -> Exit:
    """Read each SYSTEM and report everything that is wrong with its text.

    That is the text of all its files: also crash.yaml, mutation.yaml, and the budgets under `faults`.

    Example:  leasehold lint lease ./my_system
    """
    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    findings: list[Diagnostic] = []
    for system in systems:
        try:
            model = load(system, settings)
        except SpecError as error:
            findings += error.diagnostics
            continue
        findings += model.warnings
        for read in (_budgets, _crash_points, _mutants, _bounds):
            try:
                read(system, settings, model)
            except SpecError as error:
                findings += error.diagnostics
    if as_sarif:
        print_json(diagnostics_sarif(findings))
    elif as_json:
        print_json(diagnostics_json(findings))
    else:
        print_diagnostics(console(), findings)
    return Exit.BAD_SPEC if any(d.severity == "error" for d in findings) else Exit.HOLDS


# What the loader does not read, as exploring needs it first. Each raises SpecError.


def _budgets(system: str, settings: Mapping[str, str], model: System) -> None:
    sink = Sink()
    for text in (model.faults.budget, model.faults.check):
        try:
            if text:
                lower_with_faults(model, Budget.parse(text))
        except BudgetError as error:
            sink.error("no_budget", model.faults.place, words=text[:40], error=error)
    sink.raise_errors()


def _crash_points(system: str, settings: Mapping[str, str], model: System) -> None:
    explanations(system, load_for_faults(system, settings)[0])


def _bounds(system: str, settings: Mapping[str, str], model: System) -> None:
    """Raises where what a run does, or is asked, would depend on what is explored."""
    try:
        check_runnable(model)
    except NotRunnable as error:
        if findings := [d for d in error.diagnostics if d.code == OF_BOUNDS]:
            raise SpecError(findings) from None


def _mutants(system: str, settings: Mapping[str, str], model: System) -> None:
    battery_of(SystemLoader(system))
