"""`leasehold crash --real --random`: random runs of real actors, as a person or a program asks for them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from leasehold.checker.recovery.case import Finding
from leasehold.checker.recovery.chance import Failed, Swarm, random_campaign
from leasehold.cli import tables
from leasehold.cli.common import HOLDS, INTERRUPTED, VIOLATED, console, print_json
from leasehold.reports.json_report import path_json
from leasehold.reports.lifelines import path_svg
from leasehold.spec import System


def crash_by_chance(
    model: System, *, runs: int | None, hours: float | None, seed: int, jobs: int | None, as_json: bool,
    out: Path | None,
) -> NoReturn:  # fmt: skip
    """Plays random runs, prints what became of them, and exits."""
    if model.name != "lease":
        raise click.UsageError(f"random runs are of leases, and {model.name} has none; take the system lease")
    if runs is None and hours is None:
        runs = 1  # the one of a seed
    if as_json or not sys.stderr.isatty():
        found = random_campaign(runs, hours=hours, seed=seed, jobs=jobs)
    else:
        with Live(console=console(stderr=True), transient=True, auto_refresh=False) as live:

            def show(played: int, failed: int, seconds: float) -> None:
                of = f" of {runs:,}" if runs is not None else ""
                rate = played / max(seconds, 1e-9)
                words = f"{played:,}{of} runs  {failed:,} failed  {rate:,.0f} runs/s  Ctrl-C stops and reports"
                live.update(Text(words), refresh=True)

            found = random_campaign(runs, hours=hours, seed=seed, jobs=jobs, watch=show)
    if as_json:
        print_json(_json(model, found))
    else:
        _print(console(), model, found)
    if out is not None:
        written = _draw(found, out)
        if not as_json:
            console().print(f"wrote {', '.join(map(str, written)) or 'nothing, as nothing failed'}", markup=False)
    sys.exit(VIOLATED if found.failures else INTERRUPTED if found.interrupted else HOLDS)


def _draw(found: Swarm, out: Path) -> list[Path]:
    written = []
    for failed in found.failures:
        title = f"seed {failed.seed}: {failed.lease}"
        written.append(out / f"seed_{failed.seed}.svg")
        try:
            written[-1].write_text(path_svg(failed.path, title), encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"cannot write to {out}: {error.strerror or error}") from error
    return written


def _print(screen: Console, model: System, found: Swarm) -> None:
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


def _json(model: System, found: Swarm) -> dict[str, Any]:
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


def _failed(failed: Failed) -> dict[str, Any]:
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
