"""`leasehold serve`: a page on which a system is walked through, step by step, or the one of running actors."""

from __future__ import annotations

import asyncio
import os
import signal
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import click
from click.core import ParameterSource

from leasehold.checker.explore.walker import FollowedTrail, Walker
from leasehold.checker.recovery.cases.path_case import CaseError, PathCase
from leasehold.checker.recovery.cases.stored import settings_of, stored_cases
from leasehold.checker.verify.result import path_of
from leasehold.cli import search
from leasehold.cli.common import Exit, as_option, console, no_such, print_diagnostics, say, set_option, verb
from leasehold.cli.sources import SOURCE_REFUSALS, stretch_at
from leasehold.faults.model import BudgetError
from leasehold.impl.events.event import StepEvent
from leasehold.reports.live.background import SearchOrder
from leasehold.reports.live.beginning import along_case, along_run, faults_of
from leasehold.reports.live.page_server import PageServer
from leasehold.reports.live.server import LiveServer
from leasehold.reports.live.session import LiveSystem, usual_budget
from leasehold.spec import SpecError, System, find
from leasehold.spec.language.diagnostics import NOWHERE, listed

PORT = 8470
SECONDS = 60.0  # of exploring, without faults and under them
MEMORY = 2_000_000_000  # bytes that exploring may hold
# The options of one page alone; --port and --open are of both.
WALKING = ("settings", "faults", "sources", "wanted", "lease", "no_explore", "memory", "seconds")
OPERATING = ("audit",)

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
@click.argument("words", nargs=-1, metavar="SYSTEM|PLACE...")
@as_option
@click.option("--actors", is_flag=True, help="Serve the operations page of the running actors at PLACE.")
@click.option(
    "--audit",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --actors: append a line of JSON before and after each action.",
)
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
@click.pass_context
def serve(
    ctx: click.Context,
    words: tuple[str, ...],
    actors: bool,
    audit: Path | None,
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
    """Serve a page on which SYSTEM is walked through, or the operations page of running actors, until Ctrl-C.

    The page has the steps that are possible, the path as a sequence, the state, the roles' diagrams, and how each
    property stands. Step forward and back, take another way, inject a fault and watch the recovery. The address of the
    page is the position: send it to somebody with the same files. The files are read again when they change, and the
    page says what is wrong with them. Beside the walk the system is explored (--time: a minute, without faults and
    under them), so that counterexamples, witnesses and control states can be gone to. It listens on this machine alone.

    With --actors it shows the actors at each PLACE (a control socket, a configuration, or a folder of either; default:
    the current folder): their leases or runs, units, what waits for whom, violations, metrics. A lease can be closed,
    and a lease or unit recovered. The address that is printed begins a session, once.

    Example:  leasehold serve lease
              leasehold serve ./my_system --faults crash=2,lose=1 --open
              leasehold serve ./my_system --from explored.json --property agreement
              leasehold serve two_phase_commit --from running
              leasehold serve --actors running --audit audit.jsonl
    """
    _refuse_options(ctx, actors)
    if actors:
        places = [Path(word) for word in words] or [Path(os.environ.get("LEASEHOLD_AT", "."))]
        return _operate(places, port, audit, opens)
    if len(words) != 1:
        raise click.UsageError(
            f"it takes one SYSTEM, and not {listed(words)}; the places of actors go with --actors"
            if words
            else "Missing argument 'SYSTEM'; or, with --actors, the places of running actors."
        )
    (system,) = words
    beginning = None
    if sources:
        beginning = begin_at(system, settings, sources, wanted, lease)
        settings, faults = beginning.settings, faults or beginning.faults
    elif wanted or lease:
        raise click.UsageError("--property and --lease say where in --from the walk begins")
    find(system)  # a text that is wrong is waited for, and not one that is nowhere
    live = LiveSystem(system, settings, faults)
    if live.system is None and any(d.place == NOWHERE for d in live.diagnostics):  # no edit of the files mends that
        raise SpecError(live.diagnostics)
    if faults is not None and live.system is not None:
        search.parse_budget(live.system, faults, "--faults")
    order = None if no_explore else SearchOrder(system, settings, faults, seconds or SECONDS, memory or MEMORY)
    if live.diagnostics:
        print_diagnostics(console(stderr=True), live.diagnostics)
    place = ""
    if beginning is not None and live.walker is not None:
        followed = beginning.follow(live.walker)
        place = f"#at={'.'.join(followed.position.trail)}"
        if followed.lost is not None:
            say(f"leasehold: step {followed.lost} is not possible in this system; the walk begins before it", err=True)
    server = LiveServer(live, order, port)
    asyncio.run(_serve(server, live.name, lambda: server.url + place, opens))
    return Exit.HOLDS


def _refuse_options(ctx: click.Context, actors: bool) -> None:
    """Refuses the options of the one page that are given for the other."""
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name in (WALKING if actors else OPERATING):
            rest = "is about a walk through a SYSTEM, and --actors shows running actors"
            raise click.UsageError(f"{option.opts[0]} {rest if actors else 'goes with --actors'}")


def _operate(at: Sequence[Path], port: int, audit: Path | None, opens: bool) -> Exit:
    from leasehold.cli.operations.audit import AuditTrail  # and the verifier, which a walk does not need
    from leasehold.cli.operations.server import OperationsServer

    try:
        trail = AuditTrail(audit)
    except OSError as error:
        raise click.UsageError(f"--audit {audit}: {error.strerror or error}") from None
    server = OperationsServer(at, port, trail, lambda line: say(f"leasehold: {line}"))
    asyncio.run(_serve(server, f"operations of {listed(sorted(server.names))}", lambda: server.entrance, opens))
    return Exit.HOLDS


def begin_at(
    system: str,
    settings: Mapping[str, str],
    sources: Sequence[str],
    wanted: str | None = None,
    lease: str | None = None,
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
        budget = None if case.budget is None else str(case.budget)
        return Beginning(_given(model), budget, lambda walker: along_case(walker, case))
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
    return Beginning(_given(model), budget, lambda walker: along_run(walker, path))


def _given(model: System) -> dict[str, str]:
    """The settings of a system, in the words in which `--set` takes them."""
    return {name: str(value) for name, value in settings_of(model).items()}


async def _serve(server: PageServer, what: str, address: Callable[[], str], opens: bool) -> None:
    """Serves until Ctrl-C; the address is known once the server listens."""
    try:
        await server.start()
    except OSError as error:
        await server.close()
        raise click.UsageError(f"--port {server.port}: {error.strerror}; --port 0 takes any that is free") from error
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    click.echo(f"leasehold: {what} at {address()} (Ctrl-C ends it)")
    if opens:
        webbrowser.open(address())
    await ended.wait()
    await server.close()
