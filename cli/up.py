"""`leasehold up`: the actors of any system as processes of this machine."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.table import Table

from leasehold.cli.common import Exit, FiniteRange, console, end_as_interrupted, print_json, set_option, verb
from leasehold.impl.processes.fleet import FleetError, SystemFleet
from leasehold.impl.processes.supervisor import Back, Died, Supervisor
from leasehold.impl.words import counted

if TYPE_CHECKING:
    from leasehold.checker.recovery.processes.chaos_run import ChaosResult

LOOK_SECONDS, RESTART_SECONDS = 0.2, 1.0
MOST_TRIES = 5  # of starting an actor that ends before it serves
SHOWN = 6  # events of a violation that are named
MOST_NAMED = 8  # transitions that nobody took
CHAOS_SECONDS = 15.0


@verb(refusals={FleetError: Exit.BAD_SPEC})
@click.argument("system")
@set_option
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep keys, configurations and stores there; default: a temporary folder, removed at the end.",
)
@click.option(
    "--join",
    "joining",
    metavar="MACHINE",
    multiple=True,
    help="Run only this machine of a dynamic role, which joins those of --dir; may be given several times.",
)
@click.option(
    "--handler",
    metavar="FILE[:NAME]",
    help="What the actors call: functions of a Python file, as a configuration names them; default: nothing is done.",
)
@click.option("--tick", type=FiniteRange(0.01), default=1.0, show_default=True, help="Seconds of a clock tick.")
@click.option("--json", "as_json", is_flag=True, help="Print the actors as JSON; with --crash a summary.")
@click.option("--crash", is_flag=True, help="Drive the system at random, kill each actor, and evaluate the properties.")
@click.option("--seconds", type=FiniteRange(1.0), help="How long --crash drives and kills; default: 15.")
@click.option("--seed", type=int, help="Seed of --crash; default: a new one each time.")
def up(
    system: str,
    settings: Mapping[str, str],
    folder: Path | None,
    joining: tuple[str, ...],
    handler: str | None,
    tick: float,
    as_json: bool,
    crash: bool,
    seconds: float | None,
    seed: int | None,
) -> Exit:
    """Run every actor of SYSTEM as a process, until Ctrl-C.

    Each actor has a key, a SQLite store and a configuration in the folder; they talk over HTTP. Handlers
    do nothing, and succeed, unless --handler names some; there are as many units as SYSTEM has subsidiary
    machines. The configurations of --dir may name others. A question to a policy is answered at once where it has one
    answer without fields; any other is printed, with the commands that answer it. An actor that ends is
    started again after a second, so kill them as you like.

    With --crash, machines get random events that the specification's environment allows, and each actor is
    killed at least once; then the actors come to rest. A verifier follows their events: properties are
    evaluated at each cut of the runs and each step, at rest `leads_to` properties and `ends` too.

    Example:  leasehold up two_phase_commit --set participants=2
              leasehold up two_phase_commit --crash --json
              leasehold up ./my_system --dir running
              leasehold up ./my_system --dir running --join "node[3]"
    """
    if not crash and (seconds is not None or seed is not None):
        raise click.UsageError("--seconds and --seed go with --crash")
    base = folder or Path(tempfile.mkdtemp(prefix="leasehold-up-"))
    end_as_interrupted()
    try:
        fleet = SystemFleet(system, base, settings, tick, join=joining, handler=_named(handler))
        if crash:
            _refuse_joined(fleet)
        with fleet:
            if crash:
                return _chaos(fleet, seconds or CHAOS_SECONDS, seed, as_json)
            _tell(fleet, as_json)
            _watch(fleet)
    except KeyboardInterrupt:
        return Exit.HOLDS
    finally:
        if folder is None:
            shutil.rmtree(base, ignore_errors=True)


def _named(handler: str | None) -> str | None:
    """A handler as the configurations of another folder name it."""
    if handler is None:
        return None
    file, colon, name = handler.partition(":")
    if not Path(file).is_file():
        raise click.UsageError(f"--handler: there is no file {file}")
    return f"{Path(file).resolve()}{colon}{name}"


def _chaos(fleet: SystemFleet, seconds: float, seed: int | None, as_json: bool) -> Exit:
    """Drives and kills the actors, and prints what came of it."""
    from leasehold.checker.recovery.processes.chaos_run import ChaosRun  # the explorer, which `up` alone does not need

    seed = random.SystemRandom().randrange(10**9) if seed is None else seed
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {text}", err=as_json)

    result = ChaosRun(fleet, seed, seconds, say).play()
    if as_json:
        print_json(result.as_json())
    else:
        _tell_result(result)
    return Exit.VIOLATED if result.violations else Exit.HOLDS


def _tell_result(result: ChaosResult) -> None:
    from leasehold.reports.verification import violation_text

    runs = "" if result.runs == 1 else f"{result.runs} runs, "
    crashes, states = sum(result.crashes.values()), counted(result.states, "global state")
    click.echo(
        f"{result.system}: {runs}{counted(result.events, 'event')} told, {counted(crashes, 'crash')}, {states} judged, "
        f"{counted(len(result.violations), 'violation')} in {result.seconds:.0f} s (seed {result.seed})"
    )
    click.echo(f"judged: {', '.join(result.judged) or 'nothing'}")
    if result.taken is not None:
        missing = f"; not taken: {_listed(result.not_taken)}" if result.not_taken else ""
        click.echo(f"taken: {result.taken} of {counted(result.taken + len(result.not_taken), 'transition')}{missing}")
    if not result.amid_work and result.crashes:
        click.echo("no kill came while anything was under way, so recovery amid work was not tried; try another --seed")
    if result.seen:
        click.echo(f"seen: {', '.join(result.seen)}")
    if result.unseen:
        click.echo(f"no run shows: {', '.join(result.unseen)}")
    if result.untold:
        them = "it" if len(result.untold) == 1 else "them"
        why = f"no moment came at which the environment offers {them}, so what rests on {them} was not tried"
        click.echo(f"never told: {', '.join(result.untold)}; {why}")
    if result.left_out:
        click.echo(f"not judged, as no run tells: {', '.join(result.left_out)}")
    if not result.at_rest:
        click.echo("the actors did not come to rest, so what runs that go on lead to was not judged")
    for sentence in result.violations:
        click.echo(f"violated: {sentence}")
    for violation in {violation.of: violation for violation in reversed(result.violated)}.values():
        click.echo(violation_text(violation, SHOWN))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _refuse_joined(fleet: SystemFleet) -> None:
    joined = sorted(fleet.players.keys() - fleet.program.players.keys())
    if joined:
        raise click.UsageError(
            f"--crash judges the machines that the specification has, and {', '.join(joined)} has joined them; "
            "`leasehold verify` judges the actors of --dir"
        )


def _rows(fleet: SystemFleet) -> list[dict[str, Any]]:
    return [
        {
            "actor": name,
            "machines": [machine for machine, player in fleet.players.items() if player == name],
            "pid": fleet.processes[name].pid,
            "socket": str(fleet.folder / f"{name}.sock"),
        }
        for name in fleet.roles
    ]


def _tell(fleet: SystemFleet, as_json: bool) -> None:
    """Prints the actors, and what can be done next."""
    rows, program = _rows(fleet), fleet.program
    run = program.only_run if program.standing else None
    if as_json:
        print_json({"system": program.system, "folder": str(fleet.folder), "run": run, "actors": rows})
        return
    screen, table = console(), Table(box=None, pad_edge=False)
    for heading in ("actor", "machines", "process", "socket"):
        table.add_column(heading)
    for row in rows:
        table.add_row(row["actor"], ", ".join(row["machines"]), str(row["pid"]), row["socket"])
    screen.print(table)
    screen.print()
    for machine, event, fields in _first_events(fleet):
        at = f"--at {fleet.folder / fleet.players[machine]}.sock"
        command = f"tell {run} {event}{fields} --machine {machine}" if run else f"begin {machine} {event}{fields}"
        screen.print(f"leasehold {command} {at}", markup=False, soft_wrap=True)
    show = run or "RUN"
    screen.print(f"leasehold show {show} --at {fleet.folder}", markup=False, soft_wrap=True)


def _first_events(fleet: SystemFleet) -> list[tuple[str, str, str]]:
    """The events from outside that the first machine of each role takes in its first state, with their fields."""
    rows = []
    for role in fleet.model.roles.values():
        machine = fleet.program.roles[role.name].machine(0)
        if machine in fleet.players:
            events = [role.events[event] for event in role.first(0).on if event in role.events.keys() - role.answers]
            rows += [(machine, event.name, _blanks(f.name for f in event.fields)) for event in events]
    return rows


def _blanks(fields: Iterable[str]) -> str:
    """The fields of an event as the arguments of `tell`, for the reader to fill in."""
    return "".join(f" {name}=..." for name in fields)


def _ask(fleet: SystemFleet, asked: set[tuple[Any, ...]]) -> None:
    """Prints the questions that wait for an answer, each once."""
    for question in fleet.questions():
        actor, lease, machine, since, target, answers = question
        if (lease, machine, since, target) not in asked:
            asked.add((lease, machine, since, target))
            click.echo(f"{machine} of {lease} asks {target}; answer it with", err=True)
            for event, fields in answers.items():
                at = f"--machine {machine} --at {fleet.folder / actor}.sock"
                click.echo(f"  leasehold tell {lease} {event}{_blanks(fields)} {at}", err=True)


def _watch(fleet: SystemFleet) -> NoReturn:
    """Starts actors again that have ended, and prints questions."""
    asked: set[tuple[Any, ...]] = set()
    supervisor = Supervisor(fleet, RESTART_SECONDS)
    while True:
        time.sleep(LOOK_SECONDS)
        _ask(fleet, asked)
        for change in supervisor.attend():
            if isinstance(change, Died):
                name = change.actor
                if (tries := supervisor.in_vain[name]) >= MOST_TRIES:
                    words = f"was started {tries} times, and has ended ({change.code}) each time before it served"
                    raise FleetError(f"{name} {words}; its last words: {fleet.last_words(name)}")
                click.echo(f"{name} has ended ({change.code}), and is started again", err=True)
            elif isinstance(change, Back):
                click.echo(f"{change.actor} is back, as process {fleet.processes[change.actor].pid}", err=True)
