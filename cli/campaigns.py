"""`leasehold crash real`, `random` and `processes`: campaigns on real actors, run and printed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leasehold.checker.host.verdicts import ABOUT_ALL, keep_verdicts
from leasehold.checker.recovery.campaign import Campaign, CaseOutcome, UnknownCase, Watch
from leasehold.checker.recovery.cases.campaign import CaseCampaign, campaign
from leasehold.checker.recovery.cases.walk import AS_IN_THE_MODEL
from leasehold.checker.recovery.lease.processes.campaign import NO_TIME, ProcessCampaign
from leasehold.checker.recovery.lease.random_runs.campaign import RandomCampaign
from leasehold.checker.recovery.plugins import plugin_of
from leasehold.cli.common import (
    Exit,
    FiniteRange,
    console,
    json_option,
    make_folder,
    print_json,
    system_options,
    verb,
    write_files,
)
from leasehold.cli.crash import load_for_faults
from leasehold.cli.progress import Status
from leasehold.impl.words import counted
from leasehold.reports import terminal
from leasehold.reports.commands import rerun
from leasehold.reports.json_report import dumps
from leasehold.reports.lifelines import path_svg
from leasehold.reports.recovery import processes_json, random_json, recovery_html, recovery_json
from leasehold.reports.write import safe_name
from leasehold.spec import System, load

C = TypeVar("C", bound=Campaign)
MOST = 20  # failures that are printed
FOLDER = click.Path(file_okay=False, path_type=Path)


jobs_option = click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), help="Processes; default: one for each processor."
)


@verb()
@system_options
@click.option("--only", metavar="NAME", help="The case of that name, or all that begin so.")
@click.option("--pairs", is_flag=True, help="Also stop an actor once more, at each point after a restart.")
@jobs_option
@click.option("--out", type=FOLDER, help="Write recovery.html and recovery.json, and a picture of a case with --only.")
def real(
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    only: str | None,
    pairs: bool,
    jobs: int | None,
    out: Path | None,
) -> Exit:
    """Play every case of one crash of SYSTEM with real actors, in simulation.

    Of each case a shortest path into it, the crash, the restart. Then the lease, the actors, their policies and the
    units are checked; in any other system, events that the specification allows follow, until the run ends, and it has
    to be a run of the specification. The name of a case is POINT@MODE@CELL.

    Example:  leasehold crash real two_phase_commit
              leasehold crash real lease --out recovery
              leasehold crash real lease --only crash:authority/priming#after-setup@over
    """
    model, _ = load_for_faults(system, settings)
    if out is not None:
        make_folder(out)
    result = _watched(
        "exploring, so as to know the cases",
        "cases",
        lambda watch: campaign(model, pairs=pairs, jobs=jobs, watch=watch, only=only),
    )
    result.named = system
    if only is None:
        failed = len(result.failures)
        word = f"{failed:,} of {result.played:,} cases fail" if failed else f"{result.played:,} cases"
        claims = [name for name, p in model.properties.items() if p.kind != "sometimes"]
        names = {} if failed else dict.fromkeys(claims, word)  # else each failure says what it breaks
        keep_verdicts(system, model, "crash real", {**names, ABOUT_ALL: word}, ["--pairs"] if pairs else [])
    files = {}
    if out is not None:
        files = {"recovery.html": recovery_html(result), "recovery.json": dumps(recovery_json(result, measured=False))}
        files |= {safe_name(f"{name}.svg"): path_svg(path, name) for name, path in result.drawn.items()}
    return _finish(result, recovery_json(result), _print_cases, as_json, out, files)


@verb()
@system_options
@click.option("--runs", metavar="N", type=click.IntRange(min=1), help="How many; default: 1, or what --hours allows.")
@click.option("--hours", metavar="H", type=FiniteRange(0, min_open=True), help="For how long.")
@click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, show_default=True, help="The first run's seed."
)
@jobs_option
@click.option("--out", type=FOLDER, help="Write a picture of each run that fails.")
def random(
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    runs: int | None,
    hours: float | None,
    seed: int,
    jobs: int | None,
    out: Path | None,
) -> Exit:
    """Play random runs of SYSTEM with real actors, in simulation: many leases, contention and mixes of faults.

    A run that fails is printed with its seed and the smallest plan that still fails.

    Example:  leasehold crash random lease --runs 10000
              leasehold crash random lease --hours 8
    """
    model, _ = load_for_faults(system, settings)
    random_runs = _brought(model, plugin_of(model).random_runs, "random runs")
    if out is not None:
        make_folder(out)
    if runs is None and hours is None:
        runs = 1  # the one of a seed
    result = _watched("", "runs", lambda watch: random_runs(runs, hours=hours, seed=seed, jobs=jobs, watch=watch))
    files = {f"seed_{f.seed}.svg": path_svg(f.path, f"seed {f.seed}: {f.lease}") for f in result.failures}
    return _finish(result, random_json(model, result), lambda *shown: _print_random(model, *shown), as_json, out, files)


@verb()
@click.argument("system")
@click.option("--only", metavar="NAME", help="The case of that name, or all that begin so.")
@click.option("--quick", is_flag=True, help="A selection that takes some two minutes.")
@click.option("--hours", metavar="H", type=FiniteRange(0, min_open=True), help="For how long at most.")
@jobs_option
@json_option
def processes(system: str, only: str | None, quick: bool, hours: float | None, jobs: int | None, as_json: bool) -> Exit:
    """Play cases of SYSTEM with real processes, real stores and real faults.

    Example:  leasehold crash processes lease --quick
              leasehold crash processes lease --only kill/site/before-commit
    """
    model = load(system)
    play = _brought(model, plugin_of(model).processes, "processes")
    limit = {} if hours is None else {"limit_seconds": hours * 3600}
    result = _watched(
        "looking which points and system calls there are",
        "cases",
        lambda watch: play(only=only, quick=quick, jobs=jobs, watch=watch, **limit),
    )
    return _finish(result, processes_json(model, result), lambda *shown: _print_processes(model, *shown), as_json)


def _brought(model: System, campaign: Callable[..., C] | None, subject: str) -> Callable[..., C]:
    """A campaign that a plug-in of the recovery checker brings."""
    if campaign is None:
        message = f"{subject} need policies, handlers and units that exist, and no plug-in has any for {model.name}"
        raise click.UsageError(f"{message}; take the system lease, or `leasehold crash real {model.name}`")
    return campaign


def _watched(before: str, unit: str, start: Callable[[Watch], C]) -> C:
    """Runs a campaign, and shows its progress; `before` until the first case."""
    begun, told = time.monotonic(), 0
    try:
        with Status(*filter(None, [before])) as status:

            def watch(played: int, total: int, failures: Sequence[CaseOutcome]) -> None:
                nonlocal told
                for outcome in failures[told:MOST]:
                    status.say(f"{outcome.name} fails: {outcome.findings[0].words}")
                told = len(failures)
                rate = played / max(time.monotonic() - begun, 1e-9)
                rates = [f"{rate:,.0f} runs/s"] if unit == "runs" else []
                status.show(
                    f"{played:,}{f' of {total:,}' if total else ''} {unit}", f"{len(failures):,} failed", *rates
                )

            return start(watch)
    except UnknownCase as error:
        raise click.UsageError(str(error)) from error


def _finish(
    result: C,
    values: dict[str, Any],
    show: Callable[[Console, C], None],
    as_json: bool,
    out: Path | None = None,
    files: Mapping[str, str] | None = None,
) -> Exit:
    """Writes files, prints a campaign or its JSON values, and returns the exit code."""
    written = [] if out is None else write_files(out, files or {})
    if as_json:
        print_json(values)
    else:
        show(console(), result)
        if out is not None:
            names = ", ".join(map(str, written)) or "nothing, as nothing failed"
            console().print(f"wrote {names}", markup=False, soft_wrap=True)
    return Exit.VIOLATED if result.failures else Exit.INTERRUPTED if result.interrupted else Exit.HOLDS


def _lines(screen: Console, result: Campaign, lines: Sequence[str], time_spent: str) -> None:
    for line in lines:
        screen.print(line, soft_wrap=True)
    screen.print(f"{result.seconds:,.1f} s{time_spent}", style="dim")


def _failures(screen: Console, result: Campaign, again: Callable[[str], str]) -> None:
    """A table of the first failures, and the command that plays one again, by its name."""
    if not result.failures:
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("case", "check", "what is wrong"):
        table.add_column(name, overflow="fold")
    for outcome in result.failures[:MOST]:
        for n, finding in enumerate(outcome.findings):
            table.add_row(*map(escape, (outcome.name if not n else "", finding.check, finding.words)))
    screen.print(table)
    if len(result.failures) > MOST:
        screen.print(f"and {len(result.failures) - MOST:,} more; --json has all")
    screen.print(f"to see one again: {escape(again(result.failures[0].name))}", style="dim", soft_wrap=True)


def _interrupted(result: Campaign) -> str:
    return " [yellow](interrupted)[/]" if result.interrupted else ""


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_cases(screen: Console, result: CaseCampaign) -> None:
    constants = "  ".join(f"{k}={_plain(v)}" for k, v in result.system.values().items())
    lines = (
        f"[bold]{result.system.name}[/]  {escape(constants)}  spec {result.system.digest[:12]}",
        f"{counted(result.played, 'case')}, from {result.scripts:,} (cell, crash point, mode), played by real actors: "
        f"{result.passed:,} passed, {len(result.failures):,} failed{_interrupted(result)}",
        f"{_ends(result)}; invariants asked at {result.asked:,} states",
        *_broken(result),
        *(f"{count:,} not played: {escape(why)}" for why, count in _not_played(result)),
    )
    _lines(screen, result, lines, f", {result.exploring:,.1f} s of them to find the cases")
    if result.played == 1:
        for path in result.drawn.values():
            terminal.path(screen, path, brief=False)
    _failures(screen, result, partial(rerun, "real", result.named or result.system.name))


def _not_played(result: CaseCampaign) -> list[tuple[str, int]]:
    """Returns why cases were not played, and how many each time."""
    return sorted(Counter(outcome.skipped for outcome in result.skipped).items())


def _ends(result: CaseCampaign) -> str:
    if ends := plugin_of(result.system).runner.ends:
        return ", ".join(f"{result.ends[end]:,} {label}" for end, (_, label) in ends.items())
    counts = (f"{count:,} {escape(name)}" for name, count in sorted(result.ends.items()) if name != AS_IN_THE_MODEL)
    return f"ends: {', '.join(counts) or 'none'}"


def _broken(result: CaseCampaign) -> Iterator[str]:
    """Yields how many cases, passed all the same, break what the model breaks under the same faults."""
    if count := result.ends.get(AS_IN_THE_MODEL, 0):
        yield f"{counted(count, 'case')} under other faults or a crash: properties broken exactly as in the model"


def _print_random(model: System, screen: Console, result: RandomCampaign) -> None:
    acts = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in sorted(result.acts.items()))
    lines = (
        f"[bold]{model.name}[/]  spec {model.digest[:12]}, seeds from {result.first} on",
        f"{result.played:,} random runs, {len(result.failures):,} failed; in them {acts}",
        f"{result.crashes:,} actors were stopped, {result.lost:,} messages lost; invariants asked at {result.asked:,} "
        "states",
    )
    _lines(screen, result, lines, f", {result.played / max(result.seconds, 1e-9):,.0f} runs/s")
    for failed in result.failures:
        again = rerun("random", model.name, failed.name)
        screen.print(f"[red]{failed.name} fails[/]; to see it again: {again}")
        for finding in failed.smallest:
            screen.print(f"  {finding.check}: {escape(finding.words)}", soft_wrap=True)
        screen.print(f"  the smallest plan that fails so: {escape(str(failed.plan))}", soft_wrap=True)
        screen.print(f"  what the actors do about {failed.lease}:")
        terminal.path(screen, failed.path, brief=False)


def _print_processes(model: System, screen: Console, result: ProcessCampaign) -> None:
    late = [outcome for outcome in result.skipped if outcome.skipped == NO_TIME]
    lines = (
        f"[bold]{model.name}[/]  spec {model.digest[:12]}, with real processes",
        f"{counted(result.played, 'case')}: {result.passed:,} passed, {len(result.failures):,} failed, "
        f"{len(result.skipped):,} skipped{_interrupted(result)}",
        f"in {result.ends['same']:,} the lease came through, in {result.ends['ended']:,} it ended and its units served "
        "the next request",
    )
    _lines(screen, result, lines, "")
    for outcome in result.skipped:
        if outcome not in late:
            screen.print(f"skipped {escape(outcome.name)}: {escape(outcome.skipped)}", soft_wrap=True)
    if late:
        screen.print(f"for {counted(len(late), 'case')} no time was left; --json names them, --hours gives more")
    _failures(screen, result, partial(rerun, "processes", model.name))
