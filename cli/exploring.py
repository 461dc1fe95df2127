"""What the verbs that explore share: progress, exit codes, budgets."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.live import Live
from rich.text import Text

from leasehold.checker.explore import ENGINES, Engine, EngineError, Exploration, Limits, Progress, explore
from leasehold.checker.explore.fairness import Fairness
from leasehold.cli.common import HOLDS, INTERRUPTED, VIOLATED, F, console
from leasehold.faults import Budget, BudgetError
from leasehold.spec import System
from leasehold.spec.language.diagnostics import near_miss


def engine_option(command: F) -> F:
    """--engine."""
    words = (
        "What searches: `packed` (compiled C), `arrays` (the same in NumPy), `reference`, or `auto`: the first "
        "of these that can be had."
    )
    return click.option("--engine", type=click.Choice(ENGINES), default="auto", help=words)(command)


def fairness_option(command: F) -> F:
    """--fairness."""
    words = (
        "Under which fairness endless runs are judged: `spec` (as declared), `none`, or `weak` or `strong` for all "
        "that is declared fair."
    )
    choice = click.Choice([fairness.value for fairness in Fairness])
    asked = click.option("--fairness", type=choice, default="spec", callback=lambda *a: Fairness(a[2]), help=words)
    return asked(command)


def memory_option(command: F) -> F:
    """--memory."""
    words = "Stop when so much memory is held, such as 16G; left out: most of what is free."
    return click.option("--memory", metavar="SIZE", callback=_bytes, help=words)(command)


def _bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A size of memory such as 800M or 16G, in bytes."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", value.strip(), re.IGNORECASE)
    size = float(found[1]) * 1000 ** " KMGT".index(found[2].upper() or " ") if found else 0
    if size < 1:
        raise click.BadParameter(f"{value[:60]!r} is no size of memory; write one such as 800M or 16G")
    return int(size)


def explore_with_progress(
    system: System, limits: Limits | None = None, quiet: bool = False, budget: Budget | None = None,
    engine: Engine = "auto", symmetry: bool = False, fairness: Fairness = Fairness.SPEC,
) -> Exploration:  # fmt: skip
    """Explores; on a terminal a line says how far it has come. A usage error where the engine cannot be had."""
    with engine_or_usage_error(), progress_line(quiet) as show:
        return explore(system, limits, show, budget=budget, engine=engine, symmetry=symmetry, fairness=fairness)


def explore_by_team_with_progress(
    system: System, limits: Limits, workers: int | None, cluster: str | None, quiet: bool = False,
    budget: Budget | None = None,
) -> Exploration:  # fmt: skip
    """Explores by so many processes, or by those of a cluster. A usage error where these cannot be had."""
    from leasehold.checker.explore.packed import NoCompiler, Unpacked
    from leasehold.checker.explore.packed.team import TeamError, explore_by_team, local_team, team_at

    named = "--workers" if cluster is None else "--cluster"
    try:
        team = local_team(workers or 1) if cluster is None else team_at(cluster)
        with team as client, progress_line(quiet) as show:
            return explore_by_team(system, client, limits, show, budget=budget)
    except (NoCompiler, Unpacked, TeamError) as error:
        raise click.UsageError(f"{named}: {error}") from error


@contextmanager
def engine_or_usage_error() -> Iterator[None]:
    """A usage error where the engine that was asked for cannot be had, or a checkpoint."""
    from leasehold.checker.explore.packed import CheckpointError

    try:
        yield
    except CheckpointError as error:
        raise click.UsageError(str(error)) from error
    except EngineError as error:
        if error.engine == "auto":
            raise click.UsageError(str(error)) from error
        raise click.UsageError(
            f"--engine {error.engine}: {error}; leave the option out for one that can be had"
        ) from error


@contextmanager
def progress_line(quiet: bool = False) -> Iterator[Callable[[Progress], None] | None]:
    """What shows how far a search has come, on a terminal; None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    screen = console(stderr=True)
    with Live(console=screen, transient=True, auto_refresh=False) as live:

        def show(p: Progress) -> None:
            parts = [
                f"{p.distinct:,} states", f"{p.waiting:,} waiting", f"depth {p.depth}",
                f"{p.distinct / p.seconds:,.0f} states/s", f"{p.memory_bytes / 1e6:,.0f} MB",
                "Ctrl-C stops and reports",
            ]  # fmt: skip
            while len("  ".join(parts)) >= screen.width and len(parts) > 1:
                parts.pop()
            live.update(Text("  ".join(parts)), refresh=True)

        yield show


def exit_code(found: Exploration) -> int:
    """0 when nothing is violated, 1 when something is; an interrupted search that has found nothing says 130."""
    if not found.holds:
        return VIOLATED
    return INTERRUPTED if found.interrupted else HOLDS


def parse_budget(model: System, words: str, where: str) -> Budget:
    """Reads a budget; a usage error where it is none, or names a role that is not there."""
    try:
        budget = Budget.parse(words)
    except BudgetError as error:
        raise click.UsageError(f"{where}: {error}") from error
    if budget.byzantine and budget.byzantine not in model.roles:
        near = near_miss(budget.byzantine, model.roles)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(model.roles)}"
        raise click.UsageError(f"{where}: {model.name} has no role {budget.byzantine[:60]!r}; {hint}")
    return budget
