"""`leasehold crash`: crashes of every actor at every point, in the model (here) and of real actors (campaigns.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from leasehold.checker.crash.analysis import CrashReport, deepen
from leasehold.checker.crash.unmet import explanations, unmet
from leasehold.checker.explore import Engine, Progress
from leasehold.checker.host.verdicts import ABOUT_ALL, keep_verdicts
from leasehold.cli import search
from leasehold.cli.common import (
    Exit,
    FiniteRange,
    VerbGroup,
    console,
    interruptible,
    json_option,
    make_folder,
    print_json,
    set_option,
    system_options,
    verb,
    write_files,
)
from leasehold.cli.crash_case import wanted_case
from leasehold.cli.progress import Status
from leasehold.faults.model import DEFAULT, Budget, crash_points
from leasehold.reports import crash_terminal, crash_words
from leasehold.reports.crash import case_json, crash_json, crash_markdown, worst_svg
from leasehold.reports.crash_terminal import Completed
from leasehold.reports.crash_words import case_name
from leasehold.reports.json_report import dumps, path_json, picked, plain
from leasehold.reports.lifelines import path_svg
from leasehold.reports.write import safe_name
from leasehold.spec import System, load

TIME_SECONDS = 60.0  # for the default budget, which is more than many systems can take


@click.group(
    cls=VerbGroup,
    default="explore",
    sections={
        "In the model": {
            "explore": "crash:explored",
            "deep": "crash:deep",
            "points": "crash:points",
            "case": "crash:case",
        },
        "Real actors": {
            "real": "campaigns:real",
            "random": "campaigns:random",
            "processes": "campaigns:processes",
        },
    },
)
def crash() -> None:
    """Crash every actor of a system at every point of its work, and decide whether the system recovers.

    A case is a cell of the product, a crash point, and a mode in which the actor restarts. `leasehold crash SYSTEM`
    explores them in the model, as `leasehold crash explore SYSTEM` does.

    Example:  leasehold crash two_phase_commit --set participants=2
              leasehold crash points lease
              leasehold crash real two_phase_commit
    """


_faults = click.option("--faults", metavar="BUDGET", help="Explore this budget alone, such as crash=2,lose=any.")
_all_cells = click.option("--all-cells", is_flag=True, help="Print the table of all cells, not the worst ones alone.")
_files = click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Write crash.md, crash.json and worst.svg."
)


@verb("explore")
@system_options
@search.engine_option
@search.memory_option
@partial(search.time_option, left_out=f"{TIME_SECONDS:.0f}s for the default budget, else no limit")
@_faults
@search.keep_going_option
@_all_cells
@_files
def explored(
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    engine: Engine,
    memory: int | None,
    seconds: float | None,
    faults: str | None,
    keep_going: bool,
    all_cells: bool,
    out: Path | None,
) -> Exit:
    """Explore every case of SYSTEM: the default.

    The verdict says which properties hold under these faults; whether the system returns, once faults stop, to a state
    that is reachable without any, and after how many steps and messages at most; and for each property that breaks, the
    weakest faults that break it. The first that breaks ends the search, and what needs all states is left open;
    --keep-going goes on.

    Without --faults, a single crash is explored first, and then ever larger parts of the system's own budget (`faults`
    in system.yaml), or else of the default one: each is decided exactly, and printed as soon as it is, until --time is
    over. Parts that hold because the whole budget does are left out, where there is time for the whole. The constants
    that system.yaml sets for faults are used, unless --set gives them.

    Example:  leasehold crash two_phase_commit --set participants=2
              leasehold crash ./my_system --time 10m
              leasehold crash lease --faults crash=1 --set expiry=false --out lease-crash
    """
    asked = _Asked(system, settings, engine, memory, seconds, as_json, keep_going)
    budget, source = budget_of(asked.model, faults)
    budgets = list(budget.parts()) if faults is None else [budget]
    if len(budgets) > 1 and seconds is None and not asked.model.faults.budget:
        asked.seconds = TIME_SECONDS
    text = f"{budgets[0]} to {budgets[-1]}" if len(budgets) > 1 else str(budgets[0])
    return _report(asked, budgets, f"{text} ({source}){asked.limit}", all_cells, out)


@verb()
@system_options
@search.engine_option
@search.memory_option
@click.option(
    "--hours", metavar="H", type=FiniteRange(0, min_open=True), default=1, show_default=True, help="For how long."
)
@search.keep_going_option
@_all_cells
@_files
def deep(
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    engine: Engine,
    memory: int | None,
    hours: float,
    keep_going: bool,
    all_cells: bool,
    out: Path | None,
) -> Exit:
    """Explore ever larger budgets of faults, without end, for --hours.

    Example:  leasehold crash deep lease --hours 8 --json
    """
    asked = _Asked(system, settings, engine, memory, hours * 3600, as_json, keep_going)
    return _report(asked, [], f"deep (for {hours:g} h)", all_cells, out)


@verb()
@system_options
def points(system: str, settings: Mapping[str, str], as_json: bool) -> None:
    """List the points at which the actors of SYSTEM can crash, and explore nothing.

    Example:  leasehold crash points lease
    """
    model, _ = load_for_faults(system, settings)
    every = crash_points(model)
    if as_json:
        rows = [picked(p, "name role state done effects") for p in every]
        print_json({"system": model.name, "spec_digest": model.digest, "crash_points": rows})
        return
    screen = console()
    width = max((len(p.name) for p in every), default=0)
    for p in every:
        done = f"{p.name:<{width}}  done before: {', '.join(p.done)}" if p.done else p.name
        screen.print(done, markup=False, soft_wrap=True)
    screen.print(f"{len(every):,} crash points", markup=False)


@verb()
@click.argument("system")
@click.argument("cell")
@click.argument("point")
@set_option
@json_option
@search.engine_option
@search.memory_option
@search.time_option
@_faults
@click.option("--mode", metavar="MODE", help="The mode in which the actor restarts; default: the first.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Draw the path there (SVG).")
def case(
    system: str,
    cell: str,
    point: str,
    settings: Mapping[str, str],
    as_json: bool,
    engine: Engine,
    memory: int | None,
    seconds: float | None,
    faults: str | None,
    mode: str | None,
    out: Path | None,
) -> Exit:
    """Print the path of one case of SYSTEM.

    CELL is where the machines are, state/state; POINT is where in its work the actor stops, as
    `leasehold crash points` names it.

    Example:  leasehold crash case lease active/ticketed/active crash:unit/active#recovering
    """
    asked = _Asked(system, settings, engine, memory, seconds, as_json)
    wanted = wanted_case(asked.model, cell, point, mode)
    budget, source = budget_of(asked.model, faults)
    report, tried = asked.explore([budget], f"{budget} ({source}){asked.limit}", out)
    one = wanted.of(report)
    path = report.path(one)
    if as_json:
        print_json({**case_json(report, one), "path": path_json(path)})
    else:
        crash_terminal.case(console(), report, one)
    if out is not None:
        name = safe_name(f"{'.'.join(one[0])}.{point.removeprefix('crash:')}.{one[2]}.svg")
        _write(asked, out, {name: path_svg(path, f"{report.system.name}: {case_name(one)}")})
    return crash_code(report, cut=tried[-1].interrupted)


class _Asked:
    """The system that is to be explored under faults, and how."""

    def __init__(
        self,
        system: str,
        settings: Mapping[str, str],
        engine: Engine,
        memory: int | None,
        seconds: float | None,
        as_json: bool,
        keep_going: bool = True,
    ) -> None:
        self.system, self.engine, self.memory, self.seconds, self.as_json = system, engine, memory, seconds, as_json
        self.keep_going = keep_going
        self.model, self.own = load_for_faults(system, settings)
        self.known = explanations(system, self.model)

    @property
    def limit(self) -> str:
        return "" if self.seconds is None else f", {self.seconds:g} s at most (--time)"

    def explore(self, budgets: Sequence[Budget], faults: str, out: Path | None) -> tuple[CrashReport, list[Completed]]:
        """Explores budgets, none: ever larger ones; returns the largest decided, and all that were completed."""
        if out is not None:
            make_folder(out)
        screen = console()
        if not self.as_json:
            crash_terminal.asked(screen, faults, self.own)
        tried: list[Completed] = []
        decided: CrashReport | None = None
        width = max((len(str(b)) for b in budgets), default=24)
        with interruptible(), search.engine_or_usage_error(), Status("building") as status:
            watch = partial(_watch, status)
            stop = not self.keep_going
            for report in deepen(self.model, self.seconds, watch, self.engine, self.memory, budgets, stop):
                tried.append(Completed.of(report))
                if decided is None or _comes_before(report, decided, budgets):
                    decided = report
                if len(budgets) != 1 and not self.as_json:
                    status.clear()
                    crash_terminal.completed(screen, tried[-1], width)
        assert decided is not None
        return decided, tried


def _comes_before(report: CrashReport, other: CrashReport, budgets: Sequence[Budget]) -> bool:
    """Returns whether a report tells more than one of before: it is decided, and of a larger budget."""
    if not _is_decided(report) or not _is_decided(other):
        return _is_decided(report)
    return not budgets or budgets.index(report.budget) > budgets.index(other.budget)


def _is_decided(report: CrashReport) -> bool:
    return report.complete or bool(report.broken)


def _report(asked: _Asked, budgets: Sequence[Budget], faults: str, all_cells: bool, out: Path | None) -> Exit:
    """Explores, and prints and writes the report."""
    report, tried = asked.explore(budgets, faults, out)
    interrupted, known, several = tried[-1].interrupted, asked.known, len(budgets) != 1
    verdicts = {p.name: p.verdict for p in report.faulty.properties}
    whole = crash_words.convergence_words(report)
    options = [f"--faults {report.budget}"]
    keep_verdicts(asked.system, asked.model, "crash", {**verdicts, ABOUT_ALL: whole}, options)
    left_out = crash_terminal.left_out(report, tried, budgets)
    order = [str(budget) for budget in budgets]
    screen = console()
    if not asked.as_json:
        for one in left_out:
            crash_terminal.completed(screen, one, max(map(len, order)))
    tried = sorted((*tried, *left_out), key=lambda one: order.index(one.faults)) if order else tried
    if asked.as_json:
        extra = {"budgets": plain(tried)} if several else {}
        print_json({**crash_json(report, known=known), **extra})
    else:
        if several:
            crash_terminal.largest(screen, report, tried, budgets)
        crash_terminal.report(screen, report, unmet(report, known), asked.system, all_cells)
    if out is not None:
        files = {
            "crash.md": crash_markdown(report, known, "worst.svg"),
            "crash.json": dumps(crash_json(report, measured=False, known=known)),
            "worst.svg": worst_svg(report),
        }
        _write(asked, out, files)
    return crash_code(report, cut=interrupted)


def _write(asked: _Asked, out: Path, files: Mapping[str, str | None]) -> None:
    """Writes files, but for those that there is nothing for, and says which."""
    written = write_files(out, {name: content for name, content in files.items() if content is not None})
    if not asked.as_json:
        console().print(f"wrote {', '.join(map(str, written))}", markup=False, soft_wrap=True)


def _watch(status: Status, budget: Budget) -> Callable[[Progress], None]:
    return search.SearchProgress(status, f"faults {budget}")


def load_for_faults(system: str, chosen: Mapping[str, str]) -> tuple[System, dict[str, str]]:
    """The system with the constants that it sets for faults, unless the call sets them; and which these are."""
    model = load(system, chosen)
    own = {name: value for name, value in model.faults.settings.items() if name not in chosen}
    return (load(system, {**own, **chosen}) if own else model), own


def budget_of(model: System, text: str | None) -> tuple[Budget, str]:
    """The budget that was asked for, else the system's, else the default; and where it comes from."""
    own, place = model.faults.budget, model.faults.place
    if text is not None:
        return search.parse_budget(model, text, "--faults"), "--faults"
    if not own:
        return DEFAULT, "the default"
    return search.parse_budget(model, own, f"{place}: faults.budget"), "system.yaml"


def crash_code(report: CrashReport, cut: bool = False) -> Exit:
    """1 when something breaks, 130 when the search was interrupted before anything did."""
    if not report.holds:
        return Exit.VIOLATED
    return Exit.INTERRUPTED if cut or report.legal.interrupted or report.faulty.interrupted else Exit.HOLDS
