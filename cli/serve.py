"""`leasehold serve`: a page on which a system is walked through, step by step."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import click

from leasehold.checker.explore.walker import FollowedTrail, Walker
from leasehold.checker.recovery.cases.path_case import CaseError, PathCase
from leasehold.checker.recovery.cases.stored import settings_of, stored_cases
from leasehold.checker.verify.result import path_of
from leasehold.cli import search
from leasehold.cli.common import Exit, console, no_such, print_diagnostics, say, set_option, verb
from leasehold.cli.sources import SOURCE_REFUSALS, stretch_at
from leasehold.faults.model import BudgetError
from leasehold.impl.events.event import StepEvent
from leasehold.reports.live.background import SearchOrder
from leasehold.reports.live.beginning import along_case, along_run, faults_of
from leasehold.reports.live.server import LiveServer
from leasehold.reports.live.session import LiveSystem, usual_budget
from leasehold.spec.language.diagnostics import listed

PORT = 8470
SECONDS = 60.0  # of exploring, without faults and under them

Following: TypeAlias = Callable[[Walker], FollowedTrail]


@dataclass(frozen=True)
class Beginning:
    """The beginning of a walk.

    Attributes:
        settings: constants of the system there.
        faults: the budget that it needs; None: the usual one.
        follow: finds the way there.
    """

    settings: Mapping[str, str]
    faults: str | None
    follow: Following


@verb(refusals={**SOURCE_REFUSALS, BudgetError: Exit.BAD_SPEC, CaseError: Exit.BAD_SPEC})
@click.argument("system")
@set_option
@click.option(
    "--faults",
    metavar="BUDGET",
    help="The faults that can be injected, such as crash=2,lose=1; default: those that the system declares, else one "
    "crash, one loss and one duplicate.",
)
@click.option(
    "--from",
    "sources",
    metavar="CASE|SOURCE",
    multiple=True,
    help="Begin there: at a counterexample (what `explore --json` has printed, or a case), or at the end of a run in "
    "the events of actors, as `verify` takes them; may be given several times.",
)
@click.option("--property", "wanted", metavar="NAME", help="Of several counterexamples, the one to this property.")
@click.option("--lease", metavar="NAME", help="Of events, this lease or run; default: the one that moved last.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--no-explore", is_flag=True, help="Explore nothing beside the walk.")
@search.memory_option
@search.time_option
def serve(
    system: str,
    settings: Mapping[str, str],
    faults: str | None,
    sources: tuple[str, ...],
    wanted: str | None,
    lease: str | None,
    port: int,
    opens: bool,
    no_explore: bool,
    memory: int | None,
    seconds: float | None,
) -> Exit:
    """Serve a page on which SYSTEM is walked through, until Ctrl-C.

    The page has the steps that are possible, the path as a sequence, the state, the roles' diagrams, and how each
    property stands. Step forward and back, take another way, inject a fault and watch the recovery. The address of the
    page is the position: send it to somebody with the same files. The files are read again when they change, and the
    page says what is wrong with them. Beside the walk the system is explored (--time: a minute, without faults and
    under them), so that counterexamples, witnesses and control states can be gone to. It listens on this machine alone.

    Example:  leasehold serve lease
              leasehold serve ./my_system --faults crash=2,lose=1 --open
              leasehold serve ./my_system --from explored.json --property agreement
              leasehold serve two_phase_commit --from running
    """
    beginning = None
    if sources:
        beginning = _beginning(system, settings, sources, wanted, lease)
        settings, faults = beginning.settings, faults or beginning.faults
    elif wanted or lease:
        raise click.UsageError("--property and --lease say where in --from the walk begins")
    live = LiveSystem(system, settings, faults)
    order = None if no_explore else SearchOrder(system, settings, faults, seconds or SECONDS, memory)
    if live.diagnostics:
        print_diagnostics(console(stderr=True), live.diagnostics)
    place = ""
    if beginning is not None and live.walker is not None:
        followed = beginning.follow(live.walker)
        place = f"#at={'.'.join(followed.position.trail)}"
        if followed.lost is not None:
            say(f"leasehold: step {followed.lost} is not possible in this system; the walk begins before it", err=True)
    asyncio.run(_serve(LiveServer(live, order, port), place, opens))
    return Exit.HOLDS


def _beginning(
    system: str, settings: Mapping[str, str], sources: Sequence[str], wanted: str | None, lease: str | None
) -> Beginning:
    """Finds where a walk begins: in a file of cases, or in the events of actors."""
    cases = stored_cases(Path(sources[0]), wanted, system, settings) if len(sources) == 1 else None
    if cases is not None:
        if lease is not None:
            raise click.UsageError(f"--lease is about events, and {sources[0]} is a case")
        found = next(((stored.system, c) for stored in cases if isinstance(c := stored.case, PathCase)), None)
        if found is None:
            raise click.UsageError(f"{sources[0]} is a stretch of a log, which `leasehold replay` plays")
        model, case = found
        given = {name: str(value) for name, value in settings_of(model).items()}
        budget = None if case.budget is None else str(case.budget)
        return Beginning(given, budget, lambda walker: along_case(walker, walker.system, case))
    if wanted is not None:
        raise click.UsageError("--property is about counterexamples, and these are events")
    stretch = stretch_at(None, system, settings, sources, None, True)
    model = stretch.played.model
    steps = [e for events in stretch.chains.values() for e in events if isinstance(e, StepEvent)]
    runs = {e.step.serves or e.step.lease: e for e in sorted(steps, key=lambda e: e.time)}
    if not runs or (lease is not None and lease not in runs):
        no_such(f"no event tells of {lease or 'a run'}", lease or "", runs, f"they tell of {listed(sorted(runs)[:5])}")
    path = path_of(model, stretch.chains, lease or [*runs][-1])
    budget = str(faults_of(path, usual_budget(model)))
    given = {name: str(value) for name, value in settings_of(model).items()}
    return Beginning(given, budget, lambda walker: along_run(walker, path))


async def _serve(server: LiveServer, place: str, opens: bool) -> None:
    try:
        await server.start()
    except OSError as error:
        await server.close()
        raise click.UsageError(f"--port {server.port}: {error.strerror}; --port 0 takes any that is free") from error
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    click.echo(f"leasehold: {server.live.name} at {server.url}{place} (Ctrl-C ends it)")
    if opens:
        webbrowser.open(server.url + place)
    await ended.wait()
    await server.close()
