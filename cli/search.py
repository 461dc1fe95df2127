"""Options, progress, exit codes and budgets of the verbs that explore."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import click

from leasehold.checker.explore import ENGINES, Engine, EngineError, Exploration, Limits, Progress, explore
from leasehold.checker.explore.breadth_first import SEARCHING
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.cli.common import Exit, F, no_such
from leasehold.cli.progress import Status
from leasehold.faults.model import Budget, BudgetError
from leasehold.faults.model.lowering import lower_with_faults
from leasehold.spec import System
from leasehold.spec.language.check.unbounded import growing as names_of_growing
from leasehold.spec.language.diagnostics import listed


def _bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A size of memory such as 800M or 16G, in bytes."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", value.strip(), re.IGNORECASE)
    size = float(match[1]) * 1000 ** " KMGT".index(match[2].upper() or " ") if match else 0
    if size < 1:
        raise click.BadParameter(f"{value[:60]!r} is no size of memory; write one such as 800M or 16G")
    return int(size)


engine_option = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    help="The search engine: `packed` (compiled C), `reference` (plain Python), or `auto`: the "
    "faster one for a system of this size.",
)
fairness_option = click.option(
    "--fairness",
    type=click.Choice([f.value for f in Fairness]),
    default="spec",
    callback=lambda *a: Fairness(a[2]),
    help="Under which fairness endless runs are judged: `spec` (as declared), `none`, or `weak` or `strong` for all "
    "that is declared fair.",
)
keep_going_option = click.option(
    "--keep-going", is_flag=True, help="Go on after a violation, until every state is visited."
)
memory_option = click.option(
    "--memory",
    metavar="SIZE",
    callback=_bytes,
    help="Stop when so much memory is held, such as 16G; default: most of the free memory.",
)


def time_option(command: F, left_out: str = "no limit") -> F:
    """--time."""
    text = f"Stop after so long, such as 90s, 10m or 2h; default: {left_out}."
    return click.option("--time", "seconds", metavar="TIME", callback=_seconds, help=text)(command)


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A time such as 90, 90s, 10m or 2h, in seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\s*([smh]?)", value.strip())
    if not match or not float(match[1]):
        raise click.BadParameter(f"{value[:60]!r} is no time; write one such as 90s, 10m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def size_options(command: F) -> F:
    """--max-states and --depth."""
    command = click.option(
        "--depth", metavar="N", type=click.IntRange(min=0), help="Go no further than so many steps."
    )(command)
    return click.option("--max-states", metavar="N", type=click.IntRange(min=1), help="Stop after so many states.")(
        command
    )


def explore_with_progress(
    system: System,
    limits: Limits | None = None,
    budget: Budget | None = None,
    engine: Engine = "auto",
    symmetry: bool = False,
    fairness: Fairness = Fairness.SPEC,
) -> Exploration:
    """Explores, and says how far it has come. A usage error where the engine cannot be had."""
    with engine_or_usage_error(), Status("building") as status:
        watch = SearchProgress(status, growing=system, expected=limits.expected if limits else ())
        return explore(
            system, limits, watch, budget=budget, engine=engine, symmetry=symmetry, fairness=fairness, say=status.say
        )


class SearchProgress:
    """Says how far searches have come, and once of each property that it is violated.

    Args:
        status: where it is said.
        more: stands before it.
        growing: of this system, numbers without bounds stand after it.
        expected: properties whose violation is no news.
    """

    def __init__(
        self, status: Status, *more: str, growing: System | None = None, expected: Collection[str] = ()
    ) -> None:
        self.status, self.more, self.expected = status, more, expected
        endless = names_of_growing(growing) if growing is not None else []
        self._end = [f"no bound on {listed(endless)}"] if endless else []
        self._told = set(expected)

    def __call__(self, p: Progress) -> None:
        for name in p.violated:
            if name not in self._told:
                self.status.say("  ".join((f"{name} is violated", *self.more)))
        self._told.update(p.violated)
        violated = len(set(p.violated).difference(self.expected))
        self.status.show(
            *self.more,
            *([f"{violated} violated"] if violated else []),
            p.phase,
            f"{p.distinct:,} states",
            *([f"{p.waiting:,} waiting ({'growing' if p.grows else 'shrinking'})"] if p.phase == SEARCHING else []),
            f"depth {p.depth}",
            f"{p.distinct / max(p.seconds, 1e-9):,.0f} states/s",
            f"{p.memory_bytes / 1e6:,.0f} MB",
            *([f"{p.disk_bytes / 1e6:,.0f} MB on disk"] if p.disk_bytes else []),
            *self._end,
        )


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


def exit_code(exploration: Exploration) -> Exit:
    """0 when nothing is violated, 1 when something is; an interrupted search that has found nothing says 130."""
    if not exploration.holds:
        return Exit.VIOLATED
    return Exit.INTERRUPTED if exploration.interrupted else Exit.HOLDS


def parse_budget(model: System, text: str, where: str) -> Budget:
    """Reads a budget; a usage error where it is none, or names a role that is not there."""
    try:
        budget = Budget.parse(text)
        lower_with_faults(model, budget)  # some faults ask something of the system
    except BudgetError as error:
        raise click.UsageError(f"{where}: {error}") from error
    if budget.byzantine and budget.byzantine not in model.roles:
        message = f"{where}: {model.name} has no role {budget.byzantine[:60]!r}"
        no_such(message, budget.byzantine, model.roles, f"it has {', '.join(model.roles)}")
    return budget
