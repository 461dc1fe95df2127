"""`leasehold lint`: whether specifications are well written, without exploring them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import click

from leasehold.checker.crash.unmet import FILE as CRASH_FILE
from leasehold.checker.crash.unmet import explanations
from leasehold.checker.host.mutant_results import BATTERY
from leasehold.checker.mutation.battery import SystemLoader, battery_of
from leasehold.cli.common import (
    Exit,
    console,
    diagnostics_json,
    json_option,
    print_diagnostics,
    print_json,
    say,
    set_option,
    verb,
    writing,
)
from leasehold.cli.crash import load_for_faults
from leasehold.cli.expected import difference
from leasehold.faults.model import Budget, BudgetError
from leasehold.faults.model.lowering import lower_with_faults
from leasehold.impl.compiler.program import NotRunnable, check_runnable
from leasehold.reports.sarif import diagnostics_sarif
from leasehold.spec import SHIPPED, Diagnostic, SpecError, System, load
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.fixing import FixedText, fixed

OF_BOUNDS = "LH810"


@verb()
@click.argument("systems", metavar="SYSTEM...", nargs=-1, required=True)
@set_option
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF, for code-scanning services.")
@click.option("--fix", "fixing", is_flag=True, help="Write what is missing, and show the difference.")
@click.option("--diff", "differing", is_flag=True, help="Show what --fix would write, and write nothing.")
def lint(
    systems: tuple[str, ...],
    settings: Mapping[str, str],
    as_json: bool,
    as_sarif: bool,
    fixing: bool,
    differing: bool,
) -> Exit:
    """Read each SYSTEM and report everything that is wrong with its text.

    That is the text of all its files: also crash.yaml, mutation.yaml, and the budgets under `faults`.

    --fix mends what leaves no choice, and then reports what is left. A state that does not say what becomes of an
    event gets an entry for it under `refuse`, with a reason that begins with `to do`: it is for you to think about,
    and a warning until then (LH422). A word that is no name, and is very near to one name alone, gives its place to
    that; `yes` and `no` become `true` and `false`. Comments and layout stay. --diff shows the difference alone, and
    the exit code is that of the files as they are.

    Example:  leasehold lint lease ./my_system
              leasehold lint ./my_system --diff
              leasehold lint ./my_system --fix
    """
    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    if as_sarif and (fixing or differing):
        raise click.UsageError("--sarif reports what is found; it goes neither with --fix nor with --diff")
    fixes = [_fixed(system, settings) for system in systems] if fixing or differing else []
    changes = [line for found in fixes for file in found.files for line in difference(file.old, file.new, file.shown)]
    for file in (file for found in fixes for file in found.files if not differing):
        with writing(file.path):
            file.path.write_bytes(file.new.encode())
    findings = _findings(systems, settings)
    if as_sarif:
        print_json(diagnostics_sarif(findings))
    elif as_json:
        by_hand = [words for found in fixes for words in found.by_hand]
        print_json(diagnostics_json(findings) | ({"changes": changes, "by_hand": by_hand} if fixes else {}))
    else:
        _print_fixes(fixes, changes, differing)
        if changes and not differing:
            say("")
        if not differing:
            print_diagnostics(console(), findings)
    return Exit.BAD_SPEC if any(d.severity == "error" for d in findings) else Exit.HOLDS


def _fixed(system: str, settings: Mapping[str, str]) -> FixedText:
    if system in SHIPPED:
        raise click.UsageError(f"--fix changes a folder of yours: `leasehold init NAME --from {system}` makes one")
    return fixed(system, settings)


def _print_fixes(fixes: Sequence[FixedText], changes: Sequence[str], differing: bool) -> None:
    """The difference, and what is left to do by hand."""
    for line in changes:
        say(line)
    for words in (words for found in fixes for words in found.by_hand):
        say(f"not fixed: {words}", err=True)
    if fixes and not changes:
        say("nothing to fix", err=differing)


def _findings(systems: Iterable[str], settings: Mapping[str, str]) -> list[Diagnostic]:
    findings: list[Diagnostic] = []
    for system in systems:
        try:
            model = load(system, settings)
        except SpecError as error:
            findings += error.diagnostics
            continue
        findings += model.warnings
        findings += findings_beyond(system, settings, model, (*AS_TYPED, *BY_FILE.values()))
    return findings


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


Reader: TypeAlias = Callable[[str, Mapping[str, str], System], None]
AS_TYPED: tuple[Reader, ...] = (_budgets, _bounds)
BY_FILE: Mapping[str, Reader] = {CRASH_FILE: _crash_points, BATTERY: _mutants}  # they take seconds


def findings_beyond(
    system: str, settings: Mapping[str, str], model: System, readers: Iterable[Reader]
) -> list[Diagnostic]:
    """The findings of readers that come after the loader."""
    findings: list[Diagnostic] = []
    for read in readers:
        try:
            read(system, settings, model)
        except SpecError as error:
            findings += error.diagnostics
    return findings
