"""`leasehold crash --real`: campaigns on real actors, run and printed.

Three of them: every case in simulation, runs made at random, and cases with real processes.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leasehold.checker.recovery import UnknownCase
from leasehold.checker.recovery.cases.campaign import CaseCampaign, campaign
from leasehold.checker.recovery.processes.campaign import ProcessCampaign
from leasehold.checker.recovery.processes.campaign import campaign as process_campaign
from leasehold.checker.recovery.processes.cases import ProcessOutcome
from leasehold.checker.recovery.random_runs.campaign import FailedRun, RandomCampaign, random_campaign
from leasehold.checker.recovery.simulated_run import Finding
from leasehold.cli import tables
from leasehold.cli.common import Exit, console, print_json, write_files
from leasehold.cli.progress import Status
from leasehold.reports.json_report import dumps, path_json
from leasehold.reports.lifelines import path_svg
from leasehold.reports.recovery import recovery_html, recovery_json
from leasehold.reports.words import counted
from leasehold.reports.write import safe_name
from leasehold.spec import System

MOST = 20  # failures that are printed
NO_TIME = "no time was left for it"


def _leave(failures: Sequence[object], interrupted: bool = False) -> NoReturn:
    sys.exit(Exit.VIOLATED if failures else Exit.INTERRUPTED if interrupted else Exit.HOLDS)


def _failures(screen: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    screen.print(table)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Every case, in simulation


def crash_real(
    model: System, *, only: str | None, pairs: bool, jobs: int | None, as_json: bool, out: Path | None
) -> NoReturn:  # fmt: skip
    """Plays the cases, prints what became of them, and exits."""
    if "service_manager" not in model.roles:
        raise click.UsageError(
            f"--real plays leases: {model.name} has no service manager. Without --real its crashes are explored"
        )
    try:
        with Status("exploring, so as to know the cases") as status:

            def show(played: int, total: int, failed: int) -> None:
                status.show(f"{played:,}{f' of {total:,}' if total else ''} cases", f"{failed:,} failed")

            found = campaign(model, pairs=pairs, jobs=jobs, watch=show, only=only)
    except UnknownCase as error:
        raise click.UsageError(str(error)) from error
    written: list[Path] = []
    if out is not None:
        files = {"recovery.html": recovery_html(found), "recovery.json": dumps(recovery_json(found, measured=False))}
        files |= {safe_name(f"{name}.svg"): path_svg(path, name) for name, path in found.drawn.items()}
        written = write_files(out, files)
    if as_json:
        print_json(recovery_json(found))
    else:
        _print_cases(console(), found)
        if written:
            console().print(f"wrote {', '.join(map(str, written))}", markup=False, soft_wrap=True)
    _leave(found.failures, found.interrupted)


def _print_cases(screen: Console, found: CaseCampaign) -> None:
    constants = "  ".join(f"{k}={_plain(v)}" for k, v in found.system.values().items())
    screen.print(f"[bold]{found.system.name}[/]  {escape(constants)}  spec {found.system.digest[:12]}", soft_wrap=True)
    screen.print(
        f"{counted(found.played, 'case')} of {found.scripts:,} (cells x crash points x modes), played by real actors: "
        f"{found.passed:,} passed, {len(found.failures):,} failed"
        + (" [yellow](interrupted)[/]" if found.interrupted else ""), soft_wrap=True,
    )  # fmt: skip
    screen.print(
        f"{found.ends['same']:,} came to where they are without the crash, {found.ends['ended']:,} have ended and "
        f"their units served the next request; invariants asked at {found.asked:,} states", soft_wrap=True,
    )  # fmt: skip
    screen.print(f"{found.seconds:,.1f} s, {found.exploring:,.1f} s of them to find the cases", style="dim")
    if found.played == 1:
        for path in found.drawn.values():
            tables.path(screen, path, brief=False)
    if not found.failures:
        return
    rows = [
        (outcome.name if not n else "", finding.check, finding.words)
        for outcome in found.failures[:MOST]
        for n, finding in enumerate(outcome.findings)
    ]
    _failures(screen, ("case", "check", "what is wrong"), rows)
    if len(found.failures) > MOST:
        screen.print(f"and {len(found.failures) - MOST:,} more; --json has all")
    screen.print(
        f"to see one again: leasehold crash --real '{escape(found.failures[0].name)}'", style="dim", soft_wrap=True
    )  # fmt: skip


# Random runs


def crash_random(
    model: System, *, runs: int | None, hours: float | None, seed: int, jobs: int | None, as_json: bool,
    out: Path | None,
) -> NoReturn:  # fmt: skip
    """Plays random runs, prints what became of them, and exits."""
    if model.name != "lease":
        raise click.UsageError(f"random runs are of leases, and {model.name} has none; take the system lease")
    if runs is None and hours is None:
        runs = 1  # the one of a seed
    with Status() as status:

        def show(played: int, failed: int, seconds: float) -> None:
            of = f" of {runs:,}" if runs is not None else ""
            rate = played / max(seconds, 1e-9)
            status.show(f"{played:,}{of} runs", f"{failed:,} failed", f"{rate:,.0f} runs/s")

        found = random_campaign(runs, hours=hours, seed=seed, jobs=jobs, watch=show)
    if as_json:
        print_json(_random_json(model, found))
    else:
        _print_random(console(), model, found)
    if out is not None:
        drawn = {f"seed_{f.seed}.svg": path_svg(f.path, f"seed {f.seed}: {f.lease}") for f in found.failures}
        written = write_files(out, drawn)
        if not as_json:
            console().print(f"wrote {', '.join(map(str, written)) or 'nothing, as nothing failed'}", markup=False)
    _leave(found.failures, found.interrupted)


def _print_random(screen: Console, model: System, found: RandomCampaign) -> None:
    screen.print(f"[bold]{model.name}[/]  spec {model.digest[:12]}, seeds from {found.first} on")
    acts = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in sorted(found.acts.items()))
    screen.print(f"{found.runs:,} random runs, {len(found.failures):,} failed; in them {acts}", soft_wrap=True)
    screen.print(
        f"{found.crashes:,} actors were stopped, {found.lost:,} parcels lost; invariants asked at {found.asked:,} "
        "states", soft_wrap=True,
    )  # fmt: skip
    screen.print(f"{found.seconds:,.1f} s, {found.runs / max(found.seconds, 1e-9):,.0f} runs/s", style="dim")
    for failed in found.failures:
        screen.print(
            f"[red]seed {failed.seed} fails[/]; to see it again: leasehold crash lease --real --seed {failed.seed}"
        )
        for finding in failed.smallest:
            screen.print(f"  {finding.check}: {escape(finding.words)}", soft_wrap=True)
        screen.print(f"  the smallest plan that fails so: {escape(str(failed.plan))}", soft_wrap=True)
        screen.print(f"  what the actors do about {failed.lease}:")
        tables.path(screen, failed.path, brief=False)


def _random_json(model: System, found: RandomCampaign) -> dict[str, Any]:
    return {
        "system": model.name,
        "spec_digest": model.digest,
        "first_seed": found.first,
        "runs": found.runs,
        "failed": len(found.failures),
        "acts": dict(sorted(found.acts.items())),
        "crashes": found.crashes,
        "parcels_lost": found.lost,
        "invariants_asked": found.asked,
        "interrupted": found.interrupted,
        "seconds": round(found.seconds, 3),
        "failures": [_failed(failed) for failed in found.failures],
    }


def _failed(failed: FailedRun) -> dict[str, Any]:
    return {
        "seed": failed.seed,
        "rerun": f"leasehold crash lease --real --seed {failed.seed}",
        "findings": [_finding(f) for f in failed.findings],
        "smallest_plan": str(failed.plan).splitlines(),
        "smallest_findings": [_finding(f) for f in failed.smallest],
        "lease": failed.lease,
        "path": path_json(failed.path),
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {"check": finding.check, "words": finding.words}


# Real processes


def crash_processes(
    model: System, *, only: str | None, quick: bool, jobs: int | None, hours: float | None, as_json: bool
) -> NoReturn:  # fmt: skip
    """Plays the cases, prints what became of them, and exits."""
    if model.name != "lease":
        raise click.UsageError(f"--processes plays leases, and {model.name} has none; take the system lease")
    limit = {} if hours is None else {"limit_seconds": hours * 3600}
    try:
        with Status("looking which points and system calls there are") as status:

            def show(played: int, total: int, failed: int) -> None:
                status.show(f"{played:,} of {total:,} cases", f"{failed:,} failed")

            found = process_campaign(only=only, quick=quick, jobs=jobs, watch=show, **limit)
    except UnknownCase as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        print_json(_processes_json(model, found))
    else:
        _print_processes(console(), model, found)
    _leave(found.failures, found.interrupted)


def rerun(outcome: ProcessOutcome) -> str:
    """The command that plays a case again."""
    return f"leasehold crash lease --real --processes --only {shlex.quote(outcome.name)}"


def _processes_json(model: System, found: ProcessCampaign) -> dict[str, Any]:
    return {
        "system": model.name,
        "spec_digest": model.digest,
        "cases": found.cases,
        "passed": found.passed,
        "failed": len(found.failures),
        "skipped": [{"name": outcome.name, "reason": outcome.skipped} for outcome in found.skipped],
        "ends": {"same": found.ends["same"], "ended": found.ends["ended"]},
        "failures": [
            {"name": outcome.name, "findings": outcome.findings, "rerun": rerun(outcome)} for outcome in found.failures
        ],
        "interrupted": found.interrupted,
        "seconds": round(found.seconds, 3),
    }  # fmt: skip


def _print_processes(screen: Console, model: System, found: ProcessCampaign) -> None:
    screen.print(f"[bold]{model.name}[/]  spec {model.digest[:12]}, with real processes", soft_wrap=True)
    late = [outcome for outcome in found.skipped if outcome.skipped == NO_TIME]
    screen.print(
        f"{counted(found.cases, 'case')}: {found.passed:,} passed, {len(found.failures):,} failed, "
        f"{len(found.skipped):,} skipped" + (" [yellow](interrupted)[/]" if found.interrupted else ""), soft_wrap=True,
    )  # fmt: skip
    screen.print(
        f"in {found.ends['same']:,} the lease came through, in {found.ends['ended']:,} it ended and its units served "
        "the next request", soft_wrap=True,
    )  # fmt: skip
    screen.print(f"{found.seconds:,.1f} s", style="dim")
    for outcome in found.skipped:
        if outcome not in late:
            screen.print(f"skipped {escape(outcome.name)}: {escape(outcome.skipped)}", soft_wrap=True)
    if late:
        screen.print(f"for {counted(len(late), 'case')} no time was left; --json names them, --hours gives more")
    if not found.failures:
        return
    rows = [(o.name if not n else "", words) for o in found.failures for n, words in enumerate(o.findings)]
    _failures(screen, ("case", "what is wrong"), rows)
    screen.print(f"to see one again: {escape(rerun(found.failures[0]))}", style="dim", soft_wrap=True)
