"""`leasehold explore`: every reachable state of a system."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leasehold.checker.explore import Checkpointing, Engine, Exploration, Limits
from leasehold.checker.explore.expectations import expectation_for
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.checker.explore.properties import DEADLOCK, OF_THE_LANGUAGE, REFINES, only_these
from leasehold.checker.host.deadline import LEAST_GRACE, OutOfTime, alarm_at
from leasehold.checker.host.verdicts import keep_verdicts
from leasehold.cli import search
from leasehold.cli.common import Exit, console, no_such, print_json, system_options, verb, warn_of_values
from leasehold.faults.model.lowering import without_effect
from leasehold.reports import terminal
from leasehold.reports.commands import crash_command, replay_command
from leasehold.reports.crash_words import lasting_words
from leasehold.reports.json_report import convergence_json, json_report
from leasehold.spec import System, load

if TYPE_CHECKING:
    from leasehold.checker.crash.convergence import Convergence

_ALWAYS_JUDGED = tuple(name for name, _ in OF_THE_LANGUAGE.values())


@verb()
@system_options
@search.engine_option
@search.size_options
@search.memory_option
@search.time_option
@click.option("--resume", is_flag=True, help="Continue an interrupted search.")
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The checkpoint's file; default: one in the cache.",
)
@click.option(
    "--disk",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Keep states, paths and edges in files there, which are written out where memory is short.",
)
@click.option(
    "--only", metavar="PROPERTY", multiple=True, help="Decide this property alone; may be given several times."
)
@click.option("--faults", metavar="BUDGET", help="Explore with faults, such as crash=1,duplicate=1 or `default`.")
@click.option("--symmetry", is_flag=True, help="Visit one state of each orbit of interchangeable instances.")
@search.fairness_option
@search.keep_going_option
@click.option("--show", metavar="PROPERTY", multiple=True, help="Print the path of this property, step by step.")
@click.option("--brief", is_flag=True, help="Print paths with one line for each step.")
def explore(
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    engine: Engine,
    max_states: int | None,
    depth: int | None,
    memory: int | None,
    seconds: float | None,
    resume: bool,
    checkpoint: Path | None,
    disk: Path | None,
    only: tuple[str, ...],
    faults: str | None,
    symmetry: bool,
    fairness: Fairness,
    keep_going: bool,
    show: tuple[str, ...],
    brief: bool,
) -> Exit:
    """Visit every reachable state of SYSTEM and decide its properties.

    The search stops at the first violation of a property about states, steps or ends; --keep-going visits every state
    all the same. The path to a violation is a shortest one, and is printed step by step. Ctrl-C ends the search, prints
    the results so far and leaves a checkpoint, from which --resume continues with the same settings, faults and
    properties. A checkpoint is also written at the limit of memory, and every half hour.

    With --faults, actors crash at any point of any step and restart (crash=N), all at once (power_cut=N), and messages
    are lost, received twice or overtake (lose, duplicate, reorder: N or any); clocks are ahead by up to N ticks
    (skew=N), or fast or slow by up to N percent (drift=N). docs/reference/faults.md has all. The properties are decided
    under these faults, and so is whether the system returns, once faults stop, to a state that is reachable without
    any.

    Properties of infinite runs are decided under the fairness that the system declares. Under --fairness none, those
    that need fairness fail, with the reason.

    With --symmetry, one state is visited for each orbit: for all states that differ only in which instance of a role is
    which. The number of states in the orbits is printed. Where the specification or a property distinguishes instances,
    and where one is about fair runs, all states are visited; also where machines hold the names of others, and a sample
    says that orbits are too small to save time (an engine that is named visits them all the same). The choice is said
    at the start.

    With --only, the other properties are not decided.

    Example:  leasehold explore lease --set max_units=1
              leasehold explore lease --only a_lease_grows --show a_lease_grows
              leasehold explore two_phase_commit --set participants=4 --json
              leasehold explore two_phase_commit --set participants=2 --faults crash=2
              leasehold explore two_phase_commit --symmetry --only agreement --only all_may_commit
              leasehold explore two_phase_commit --fairness none --brief
    """
    model = load(system, settings)
    warn_of_values(model)
    for option, names in (("--show", show), ("--only", only)):
        for name in names:
            _check_property(model, option, name)
    budget = None if faults is None else search.parse_budget(model, faults, "--faults")
    keeping, stop = Checkpointing(checkpoint, resume), not keep_going
    limits = Limits(
        max_states, depth, seconds, memory, keeping=keeping, disk=disk, stop_at_violation=stop, finish_level=True
    )
    asked, began = only_these(model, only) if only else model, time.perf_counter()
    exploration = search.explore_with_progress(asked, limits, budget, engine, symmetry, fairness)
    after, not_asked = None, ""
    if budget is not None and not budget.passes:
        not_asked = lasting_words(budget, budget.byzantine)
    elif exploration.graph is not None and budget is not None:
        after, not_asked = _convergence(model, exploration, engine, limits, began)
    if only:
        wanted = {*only, *_ALWAYS_JUDGED}
        exploration = replace(exploration, properties=tuple(p for p in exploration.properties if p.name in wanted))
    options = [] if budget is None else ["--faults", str(budget)]
    options += [] if fairness is Fairness.SPEC else ["--fairness", fairness.value]
    keep_verdicts(system, model, "explore", {p.name: p.verdict for p in exploration.properties}, options)
    if as_json:
        report = json_report(exploration)
        if fairness is not Fairness.SPEC:
            report["fairness"] = fairness.value
        if budget is not None:
            report["faults"] = str(budget)
            report["convergence"] = None if after is None else convergence_json(after)
            report["why_not_asked"] = not_asked
            report["without_effect"] = without_effect(model, budget)
        print_json(report)
    else:
        replay = partial(replay_command, model, system, options=options)
        idle = {} if budget is None else without_effect(model, budget)
        _print(exploration, show, brief, replay, not only and budget is None, idle)
        if after is not None:
            under = "" if fairness is Fairness.SPEC else f", --fairness {fairness}"
            more = crash_command(model, system, str(budget))
            terminal.convergence(console(), after, f"{budget}{under}", brief, more, model.ends is not None)
        if not_asked:
            console().print(
                f"\nfaults {budget}\nnot checked whether it stabilises: {not_asked}", markup=False, soft_wrap=True
            )
    code = Exit.VIOLATED if after is not None and after.converges is False else search.exit_code(exploration)
    return Exit.INTERRUPTED if not_asked.startswith("interrupted") and code == Exit.HOLDS else code


def _convergence(
    model: System, exploration: Exploration, engine: Engine, limits: Limits, began: float
) -> tuple[Convergence | None, str]:
    """Decides whether the system stabilises; or says why that is not checked."""
    from leasehold.checker.crash.convergence import convergence  # it takes a while to load, and is seldom asked for

    if not exploration.complete:
        return None, exploration.why_incomplete
    seconds = limits.seconds
    left = None if seconds is None else max(0.0, began + seconds - time.perf_counter())
    try:
        legal = search.explore_with_progress(model, Limits(seconds=left, memory=limits.memory), engine=engine)
        with alarm_at(None if left is None else time.perf_counter() + max(left, LEAST_GRACE)):
            return (convergence(legal, exploration), "") if legal.complete else (None, legal.why_incomplete)
    except KeyboardInterrupt:
        return None, "interrupted"
    except OutOfTime:
        return None, f"stopped after {seconds:,.0f} s"


def _check_property(model: System, option: str, name: str) -> None:
    names = [*model.properties, *([DEADLOCK] if model.ends is not None else []), *([REFINES] if model.refines else [])]
    if name not in (*names, *_ALWAYS_JUDGED):
        message = f"{option}: {model.name} has no property {name[:60]!r}"
        no_such(message, name, names, f"it has {', '.join(names) or 'none'}")


def _print(
    exploration: Exploration,
    show: tuple[str, ...],
    brief: bool,
    replay: Callable[[str], str],
    with_left_over: bool,
    idle: Mapping[str, str],
) -> None:
    screen = console()
    terminal.headline(screen, exploration)
    terminal.idle_faults(screen, idle)
    terminal.properties(screen, exploration.properties, stopped=exploration.why_incomplete)
    if with_left_over:
        expectation = expectation_for(exploration.system)
        terminal.left_over(screen, exploration, expectation.explained if expectation else ())
    terminal.counterexamples(screen, exploration.properties, exploration.system.properties, replay, brief, show)
    terminal.witnesses(screen, exploration.properties, show, brief)
