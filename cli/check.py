"""`leasehold check`: everything that is known about a system, against what it says must be found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeAlias

import click

from leasehold.checker.crash import CrashReport
from leasehold.checker.crash import crash as crash_test
from leasehold.checker.expectations import Difference, differences, expectation_for
from leasehold.checker.explore import Engine, Exploration
from leasehold.checker.prove.induct import ANY
from leasehold.checker.prove.kept import Kept, keep, kept
from leasehold.checker.prove.proof import prove as prove_all
from leasehold.checker.prove.values import Unsupported
from leasehold.checker.unmet import differences as unmet_differences
from leasehold.checker.unmet import unmet
from leasehold.cli import crash_text, tables
from leasehold.cli.common import HOLDS, INTERRUPTED, VIOLATED, console, load_or_exit, parsed, print_json, system_options
from leasehold.cli.crash import crash_code, load_for_faults, reasons_or_exit
from leasehold.cli.exploring import (
    engine_option,
    engine_or_usage_error,
    explore_with_progress,
    parse_budget,
    progress_line,
)
from leasehold.cli.prove import progress as proving_line
from leasehold.reports.crash import crash_json
from leasehold.reports.json_report import json_report
from leasehold.spec import System
from leasehold.spec.language.model import Expectation

_Result: TypeAlias = tuple[Exploration, Expectation | None, Sequence[Difference], Kept | None]


@click.command()
@system_options
@engine_option
@click.option("--all", "every", is_flag=True, help="Check every setting in expected.yaml, but for the slow ones.")
@click.option("--slow", is_flag=True, help="With --all: the slow settings too.")
@click.option("--no-crash", is_flag=True, help="Leave out the faults that system.yaml asks for.")
@click.option("--prove", "proving", is_flag=True, help="Prove the properties too, unless their proof was kept.")
def check(
    system: str, settings: tuple[str, ...], as_json: bool, engine: Engine, every: bool, slow: bool, no_crash: bool,
    proving: bool,
) -> None:  # fmt: skip
    """Lint and explore SYSTEM, compare with its expected.yaml, and crash-test it.

    A property that fails, a number that differs, and a transition or claim that is never put to the test and not
    explained all fail the check. Without an expected.yaml, no number is compared.

    Where `faults` in system.yaml has a budget `check`, SYSTEM is also explored under these faults. A property that they
    break fails the check, and so does a system that does not come back once they stop, or a crash point at which
    nothing stops and that crash.yaml does not explain; with --set, such points are listed only.

    `leasehold prove` keeps its proof: what is proved of SYSTEM as it is now is shown as proved. With --prove, SYSTEM is
    proved first where no proof was kept; what that leaves undecided has the verdict of exploring.

    \b
    Example:  leasehold check lease
              leasehold check lease --all
              leasehold check ./my_system --set clients=3
    """  # noqa: D301 (click reads the character)
    chosen = parsed(settings)
    if every and chosen:
        raise click.UsageError("--all takes its settings from expected.yaml; it does not go with --set")
    first = load_or_exit(system, chosen, as_json)
    runs: list[tuple[System, Expectation | None]] = [(first, expectation_for(first))]
    if every and first.expectations:
        runs = [
            (load_or_exit(system, {n: str(v) for n, v in e.settings.items()}, as_json), e)
            for e in first.expectations
            if slow or not e.slow
        ]
    asked = first.faults.check if not no_crash else ""
    budget = parse_budget(first, asked, f"{first.faults.place}: faults.check") if asked else None
    faulty, own = load_for_faults(system, chosen, as_json) if asked else (first, {})
    known = reasons_or_exit(system, faulty, as_json) if asked else ()
    results: list[_Result] = []
    screen = console()
    for number, (model, expectation) in enumerate(runs):
        proof = kept(model) or (_proof(model, as_json) if proving else None)
        found = explore_with_progress(model, quiet=as_json, engine=engine)
        differ = differences(found, expectation)
        results.append((found, expectation, differ, proof))
        if not as_json:
            if number:
                screen.print()
            _print(found, expectation, differ, proof)
        if found.interrupted:
            break
    crashed: CrashReport | None = None
    not_met: Sequence[Difference] = ()
    wrong: list[str] = []  # what is proved, and broken by faults
    if budget is not None and not any(found.interrupted for found, *_ in results):
        if not as_json:
            screen.print()
            crash_text.asked(screen, str(budget), "system.yaml", own)
        try:
            with engine_or_usage_error(), progress_line(quiet=as_json) as show:
                crashed = crash_test(faulty, budget, show, engine=engine)
        except KeyboardInterrupt:
            click.echo("interrupted before it was decided", err=True)
            sys.exit(INTERRUPTED)
        missed = unmet(crashed, known)
        not_met = [] if chosen or not crashed.complete else list(unmet_differences(missed, known))
        proof = results[0][-1]
        wrong = proof.contradicted(crashed.faulty.properties, budget) if proof is not None else []
        if not as_json:
            crash_text.brief(screen, crashed, missed)
            tables.contradicted(screen, wrong)
            _print_differences(not_met)
    if as_json:
        report = _json(*results[0], wrong)
        report["crash"] = None if crashed is None else {
            **crash_json(crashed, cells=False, known=known), "differences": _differences_json(not_met)
        }  # fmt: skip
        if every:
            report["runs"] = [_json(*r) for r in results]
        print_json(report)
    failed = sum(1 for _, _, differ, _ in results if differ)
    stopped = any(found.interrupted for found, *_ in results)
    if not as_json and len(runs) > 1:
        screen.print(f"\n{len(runs) - failed} of {len(runs)} settings are as expected", markup=False)
    violated = any(
        p.verdict == "violated" and not (meant and p.name in meant.violated)
        for found, meant, *_ in results
        for p in found.properties
    )
    code = INTERRUPTED if stopped and not violated else VIOLATED if failed or not_met else HOLDS
    sys.exit(code or (HOLDS if crashed is None else crash_code(crashed)))


def _proof(model: System, quiet: bool) -> Kept | None:
    """A proof that is made now, and kept. What contradicts a property is left to the exploring that follows."""
    try:
        with proving_line(quiet) as shown:
            return keep(prove_all(model, ANY, watch=shown.steps), ANY)
    except Unsupported as error:
        click.echo(f"not proved: {model.name} has no encoding for the solver: {error}", err=True)
        return None
    except KeyboardInterrupt:
        click.echo("interrupted before it was decided", err=True)
        sys.exit(INTERRUPTED)


def _print(
    found: Exploration, expectation: Expectation | None, differ: Sequence[Difference], proof: Kept | None
) -> None:  # fmt: skip
    screen = console()
    if expectation is not None:
        doc = f": {expectation.doc}" if expectation.doc else ""
        screen.print(f"setting {expectation.name}{doc}", markup=False, style="dim")
    tables.headline(screen, found)
    meant = expectation.violated if expectation else {}
    tables.properties(screen, found.properties, meant, found.why_incomplete, proof)
    if proof is not None:
        tables.for_what(screen, found, proof)
    if expectation is not None and found.complete:
        for what, names in (("never taken", found.unvisited_transitions), ("vacuous", found.vacuous)):
            tables.explained_ones(screen, len(expectation.explained.intersection(names)), what)
    tables.counterexamples(screen, [p for p in found.properties if p.name not in meant], found.system.properties)
    for warning in found.system.warnings:
        screen.print(str(warning), markup=False, style="yellow", soft_wrap=True)
    _print_differences(differ)
    if not differ:
        words = "as expected.yaml says" if expectation else "expected.yaml has no numbers for this setting"
        screen.print(f"[green]holds[/] [dim]({words})[/]")


def _print_differences(differ: Sequence[Difference]) -> None:
    if differ:
        screen = console()
        count = f"{len(differ)} difference{'s' if len(differ) != 1 else ''}"
        screen.print(f"\nnot as expected: {count}", markup=False, style="red")
        tables.differences(screen, differ)


def _differences_json(differ: Sequence[Difference]) -> list[dict[str, str]]:
    return [{"what": d.what, "expected": d.expected, "found": d.found} for d in differ]


def _json(
    found: Exploration, expectation: Expectation | None, differ: Sequence[Difference], proof: Kept | None,
    wrong: Sequence[str] = (),
) -> dict[str, object]:  # fmt: skip
    report = json_report(found, proof=proof)
    for p in report["properties"]:
        if p["name"] in wrong:  # nothing is proved that faults break
            p["verdict"] = "violated"
            p.pop("method", None)
    report["setting"] = expectation.name if expectation else None
    report["warnings"] = [w.as_json() for w in found.system.warnings]
    report["differences"] = _differences_json(differ)
    report["as_expected"] = not differ
    return report
