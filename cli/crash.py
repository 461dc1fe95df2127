"""`leasehold crash`: crashes of every actor at every point, and whether the system survives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from leasehold.checker.crash.analysis import CrashReport, deepen
from leasehold.checker.crash.unmet import explanations, unmet
from leasehold.checker.explore import Engine, Progress
from leasehold.checker.explore.expectations import Explanation
from leasehold.cli import crash_report, search
from leasehold.cli.common import (
    Exit,
    console,
    interruptible,
    make_folder,
    print_json,
    system_options,
    verb,
    write_files,
)
from leasehold.cli.crash_report import Wanted, print_case, wanted_case
from leasehold.cli.progress import Status
from leasehold.faults.model import DEFAULT, Budget, crash_points
from leasehold.reports.crash import crash_json, crash_markdown, worst_svg
from leasehold.reports.json_report import dumps, picked, plain
from leasehold.spec import System, load

DEEP = "deep"
CASE = "crash:"  # the name of a case begins with it
TIME_SECONDS = 60.0  # for the default budget, which is more than many systems can take
PLAYED = "lease"  # the system of which real actors play cases


class Hours(click.FloatRange):
    """A number of hours more than 0 that comes to an end."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        hours = float(super().convert(value, param, ctx))
        if not math.isfinite(hours):
            self.fail(f"{value} is no number of hours that comes to an end; write one such as 8", param, ctx)
        return hours


@verb()
@system_options
@search.engine_option
@search.memory_option
@partial(search.time_option, left_out=f"{TIME_SECONDS:.0f}s for the default budget, else no limit")
@click.option(
    "--faults",
    metavar="BUDGET",
    help="Explore this budget alone, such as crash=2,lose=any; `deep`: ever larger ones.",
)
@click.option("--hours", metavar="H", type=Hours(), help="With `--faults deep`, or --real: for how long.")
@click.option("--points", is_flag=True, help="List the points at which actors can crash, and explore nothing.")
@click.option("--case", "cell", metavar="CELL", help="Print the path of one case: where the machines are, state/state.")
@click.option("--point", metavar="POINT", help="With --case: where in its work the actor stops.")
@click.option("--mode", metavar="MODE", help="With --case: the mode in which it restarts; default: the first.")
@click.option("--all-cells", is_flag=True, help="Print the table of all cells, not the worst ones alone.")
@click.option("--real", is_flag=True, help="Play every case with real actors, in simulation.")
@click.option("--pairs", is_flag=True, help="With --real: also stop an actor once more, at each point after a restart.")
@click.option("--random", "runs", metavar="RUNS", type=click.IntRange(min=1), help="With --real: so many random runs.")
@click.option("--seed", metavar="N", type=click.IntRange(min=0), help="With --random: the first run's seed; 0.")
@click.option("--jobs", type=click.IntRange(min=1), help="With --real: processes; one for each processor.")
@click.option("--processes", is_flag=True, help="With --real: with processes, real stores and real faults.")
@click.option("--only", metavar="NAME", help="With --real: the case of that name, or all that begin so.")
@click.option("--quick", is_flag=True, help="With --processes: a selection that takes some two minutes.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path),
    help="Write crash.md, crash.json and worst.svg; with --real, recovery.html and recovery.json.",
)  # fmt: skip
def crash(
    system: str, settings: Mapping[str, str], as_json: bool, engine: Engine, memory: int | None,
    seconds: float | None, faults: str | None, hours: float | None, points: bool, cell: str | None,
    point: str | None, mode: str | None, all_cells: bool, real: bool, pairs: bool, runs: int | None,
    seed: int | None, jobs: int | None, processes: bool, only: str | None, quick: bool,
    out: Path | None,
) -> Exit:  # fmt: skip
    """Crash every actor of SYSTEM at every point of its work, and decide whether the system recovers.

    A case is a cell of the product, a crash point, and a mode in which the actor restarts; every case is tried. The
    verdict says which properties hold under these faults; whether the system returns, once faults stop, to a state that
    is reachable without any, and after how many steps and messages at most; and for each property that breaks, the
    weakest faults that break it.

    Without --faults, a single crash is explored first, and then ever larger parts of the system's own budget (`faults`
    in system.yaml), or else of the default one: each is decided exactly, and printed as soon as it is, until --time is
    over. Parts that hold because the whole budget does are left out, where there is time for the whole. The constants
    that system.yaml sets for faults are used, unless --set gives them.

    With --real, real actors play every case of one crash: a shortest path into it, the crash, the restart. Then the
    lease, the actors, their policies and the units are checked; in any other system, events that the specification
    allows follow, until the run ends, and it has to be a run of the specification. --only names a case,
    POINT@MODE@CELL, or the beginning of one, which may stand in place of SYSTEM for the lease. With --random or
    --hours, random runs of the lease are played instead: many leases, contention and mixes of faults. A run that
    fails is printed with its seed and the smallest plan that still fails.

    Example:  leasehold crash two_phase_commit --set participants=2
              leasehold crash ./my_system --time 10m
              leasehold crash lease --faults crash=1 --set expiry=false --out lease-crash
              leasehold crash lease --faults deep --hours 8 --json
              leasehold crash lease --points
              leasehold crash lease --case active/ticketed/active --point crash:unit/active#recovering
              leasehold crash two_phase_commit --real
              leasehold crash lease --real --out recovery
              leasehold crash --real crash:authority/priming#after-setup@over
              leasehold crash lease --real --random 10000
              leasehold crash lease --real --hours 8
              leasehold crash lease --real --processes --only kill/site/before-commit
    """
    if (processes and not real) or (quick and not processes) or (only is not None and not real):
        raise click.UsageError("--processes and --only go with --real; --quick goes with --processes")
    if real:
        from leasehold.cli import campaigns  # they take a while to load
    searched = faults or points or cell or all_cells or engine != "auto" or memory is not None or seconds is not None
    if processes:
        if searched or settings or pairs or any(value is not None for value in (point, mode, runs, seed, out)):
            raise click.UsageError("--processes takes --only, --quick, --jobs, --hours and --json, and no other option")
        model = load(system)
        campaigns.crash_processes(model, only=only, quick=quick, jobs=jobs, hours=hours, as_json=as_json)
    if system.startswith(CASE):
        if not real:
            raise click.UsageError(f"{system[:60]} names a case, which is played with --real")
        if only is not None:
            raise click.UsageError(f"{system[:60]} names a case: --only would name another")
        system, only = PLAYED, system
    by_chance = runs is not None or (real and hours is not None) or seed is not None
    if (pairs or jobs is not None or by_chance) and not real:
        raise click.UsageError("--pairs, --random, --seed and --jobs go with --real")
    if real and searched:
        words = "it takes no --faults, --points, --case, --engine, --memory or --time"
        raise click.UsageError(f"--real plays every case of one crash; {words}")
    if by_chance and (pairs or only):
        raise click.UsageError("random runs are no cases: leave out --pairs and the name")
    if hours is not None and faults != DEEP and not real:
        raise click.UsageError(f"--hours goes with --faults {DEEP}, or with --real for random runs")
    if (cell is None) != (point is None) or (mode is not None and cell is None):
        raise click.UsageError("a case needs --case and --point; --mode goes with them")
    model, own = load_for_faults(system, settings)
    if real:
        if out is not None:
            make_folder(out)
        if by_chance:
            campaigns.crash_random(model, runs=runs, hours=hours, seed=seed or 0, jobs=jobs, as_json=as_json, out=out)
        campaigns.crash_real(model, only=only, pairs=pairs, jobs=jobs, as_json=as_json, out=out)
    if points:
        _print_points(model, as_json)
        return Exit.HOLDS
    known = explanations(system, model)
    case = None if cell is None or point is None else wanted_case(model, cell, point, mode)
    if faults == DEEP:
        budgets, source, seconds = [], f"for {hours or 1:g} h", (hours or 1) * 3600
    else:
        budget, source = budget_of(model, faults)
        budgets = list(budget.parts()) if faults is None and case is None else [budget]
    several = len(budgets) != 1
    if len(budgets) > 1 and seconds is None and not model.faults.budget:
        seconds = TIME_SECONDS
    if out is not None:
        make_folder(out)
    screen = console()
    if not as_json:
        words = f"{budgets[0]} to {budgets[-1]}" if len(budgets) > 1 else str(budgets[0]) if budgets else DEEP
        limit = f", {seconds:g} s at most (--time)" if budgets and seconds is not None else ""
        crash_report.asked(screen, words, source, own, limit)
    tried: list[crash_report.Completed] = []
    found: CrashReport | None = None
    width = max((len(str(b)) for b in budgets), default=24)
    with interruptible(), search.engine_or_usage_error():
        with Status("exploring") as status:
            watch = partial(_watch, status)
            for report in deepen(model, seconds, watch, engine, memory, budgets):
                tried.append(crash_report.Completed.of(report))
                if found is None or (report.complete and found.budget not in budgets[-1:]):
                    found = report
                if several and not as_json:
                    status.clear()
                    crash_report.completed(screen, tried[-1], width)
        assert found is not None
        interrupted = tried[-1].verdict.endswith("interrupted")
        left_out = crash_report.left_out(found, tried, budgets)
        for one in left_out if not as_json else ():
            crash_report.completed(screen, one, width)
        order = [str(budget) for budget in budgets]
        tried = sorted((*tried, *left_out), key=lambda one: order.index(one.faults)) if order else tried
        written = _write(found, case, known, out)
    if case is not None:
        print_case(found, case, as_json)
    elif as_json:
        extra = {"budgets": plain(tried)} if several else {}
        print_json({**crash_json(found, known=known), **extra})
    else:
        if several:
            crash_report.largest(screen, found, tried, budgets)
        crash_report.report(screen, found, unmet(found, known), system, all_cells)
    if written and not as_json:
        screen.print(f"wrote {', '.join(map(str, written))}", markup=False, soft_wrap=True)
    return crash_code(found, cut=interrupted)


def _watch(status: Status, budget: Budget) -> Callable[[Progress], None]:
    return search.search_progress(status, f"faults {budget}")


def load_for_faults(system: str, chosen: Mapping[str, str]) -> tuple[System, dict[str, str]]:
    """The system with the constants that it sets for faults, unless the call sets them; and which these are."""
    model = load(system, chosen)
    own = {name: value for name, value in model.faults.settings.items() if name not in chosen}
    return (load(system, {**own, **chosen}) if own else model), own


def budget_of(model: System, words: str | None) -> tuple[Budget, str]:
    """The budget that was asked for, else the system's, else the default; and where it comes from."""
    own, place = model.faults.budget, model.faults.place
    if words is not None:
        return search.parse_budget(model, words, "--faults"), "--faults"
    if not own:
        return DEFAULT, "the default"
    return search.parse_budget(model, own, f"{place}: faults.budget"), "system.yaml"


def crash_code(found: CrashReport, cut: bool = False) -> Exit:
    """1 when something breaks, 130 when the search was interrupted before anything did."""
    if not found.holds:
        return Exit.VIOLATED
    return Exit.INTERRUPTED if cut or found.legal.interrupted or found.faulty.interrupted else Exit.HOLDS


def _write(
    found: CrashReport, case: Wanted | None, known: Sequence[Explanation], folder: Path | None
) -> list[Path]:  # fmt: skip
    if folder is None:
        return []
    files = (
        dict([case.drawing(found)]) if case is not None
        else {
            "crash.md": crash_markdown(found, known, "worst.svg"),
            "crash.json": dumps(crash_json(found, measured=False, known=known)), "worst.svg": worst_svg(found),
        }
    )  # fmt: skip
    return write_files(folder, {name: content for name, content in files.items() if content is not None})


def _print_points(model: System, as_json: bool) -> None:
    points = crash_points(model)
    if as_json:
        found = [picked(p, "name role state done effects") for p in points]
        print_json({"system": model.name, "spec_digest": model.digest, "crash_points": found})
        return
    screen = console()
    width = max((len(p.name) for p in points), default=0)
    for p in points:
        done = f"{p.name:<{width}}  done before: {', '.join(p.done)}" if p.done else p.name
        screen.print(done, markup=False, soft_wrap=True)
    screen.print(f"{len(points):,} crash points", markup=False)
