"""`leasehold mutate`: mistakes made by rule, and whether the properties find them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click
from rich.console import Console
from rich.text import Text

from leasehold.checker.explore.expectations import fits_pattern
from leasehold.checker.host.mutant_results import keep
from leasehold.checker.host.verdicts import ABOUT_ALL, keep_verdicts
from leasehold.checker.mutation.battery import SystemLoader, battery_of
from leasehold.checker.mutation.judge import MutationError
from leasehold.checker.mutation.mutate import MutantOutcome, MutationProgress, MutationReport, RuleScore
from leasehold.checker.mutation.mutate import mutate as campaign
from leasehold.checker.mutation.observer import ObservedDifference
from leasehold.checker.mutation.operators import RULES, Mutation, mutations, sampled
from leasehold.cli.common import Exit, console, print_json, system_options, verb
from leasehold.cli.progress import Status
from leasehold.reports.json_report import picked
from leasehold.spec import System, load


@verb()
@system_options
@click.option(
    "--rule",
    "rules",
    metavar="RULE",
    type=click.Choice(list(RULES)),
    multiple=True,
    help=f"Make mutants by this rule alone: {', '.join(RULES)}.",
)
@click.option("--every-target", is_flag=True, help="Try every state as the target of each transition.")
@click.option("--only", metavar="PATTERN", help="Try only mutants whose names fit; `*` stands for any letters.")
@click.option("--sample", metavar="N", type=click.IntRange(min=1), help="Try only N of the mutants, chosen at random.")
@click.option("--seed", metavar="S", type=int, default=0, help="Choose another sample.")
@click.option("--jobs", metavar="N", type=click.IntRange(min=1), help="Processes; as many as there are processors.")
def mutate(
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    rules: tuple[str, ...],
    every_target: bool,
    only: str | None,
    sample: int | None,
    seed: int,
    jobs: int | None,
) -> Exit:
    """Make small mistakes in SYSTEM by rule, and report which of them its properties find.

    A mutant has, for example, a timer that is a tick late, a transition that goes to another state, or an update with
    another value. It is killed when a property that SYSTEM satisfies is violated, or when it no longer stabilises under
    faults. Mutants that are no specification, those that have exactly the states and steps of SYSTEM in every trial,
    and those that nobody outside can tell from SYSTEM in any trial, are counted apart. Of each survivor it is said what
    an observer outside sees: the shortest run of messages, units, guests and answers that only one of the two has.

    SYSTEM's mutation.yaml lists the trials of each mutant, and explains known survivors; without that file each is
    tried with the declared constants, without faults, with crash=1 and with the default faults. Survivors are named on
    the standard error as soon as they are known.

    The exit code is 0 when every survivor is explained. `check` then tells which transitions no property misses.

    Example:  leasehold mutate two_phase_commit
              leasehold mutate lease --sample 40 --seed 7
              leasehold mutate lease --rule drop_guard --only '*broker/*' --json
    """
    model = load(system, settings)
    loader = SystemLoader(system)
    battery = battery_of(loader).within(settings)
    every = mutations(model, every_target)
    fit = [m for m in every if (not rules or m.rule in rules) and (only is None or fits_pattern(m.name, only))]
    if not fit and (rules or only is not None):
        raise click.UsageError(f"no mutant of {model.name} is made by this rule and fits this pattern")
    mutants = fit if sample is None else sampled(fit, sample, seed)
    # With other constants than the battery's it cannot be said that an explanation is out of date.
    whole: tuple[Mutation, ...] = () if settings else every
    try:
        with Status("preparing trials") as status:

            def show(progress: MutationProgress) -> None:
                if (survivor := progress.survivor) is not None:
                    verdict = "survives, as is explained" if survivor.explanation else "survives"
                    status.say(f"{'unseen' if survivor.unseen else verdict}: {survivor.mutation.name}")
                at = f"{progress.stage} {progress.tried:,} of {progress.left:,}"
                status.show(at, f"{progress.killed:,} of {progress.mutants:,} killed")

            report = campaign(loader, mutants, battery, jobs=jobs or os.cpu_count() or 1, progress=show, whole=whole)
    except MutationError as error:
        click.echo(f"the system itself cannot be explored to the end: {error}", err=True)
        sys.exit(Exit.BAD_SPEC)
    if not settings:
        kills = dict.fromkeys(model.properties, "finds none first")
        kills |= {name: f"finds {number:,}" for name, number in report.by_property().items()}
        keep_verdicts(system, model, "mutate", {**kills, ABOUT_ALL: _words(report.total)})
        keep(system, model, {o.mutation.name: o.word for o in report.outcomes})
    if as_json:
        print_json(_json(model, report))
    else:
        _print(console(), model, report)
    if report.unexplained or report.out_of_date:
        return Exit.VIOLATED
    return Exit.INTERRUPTED if report.undecided else Exit.HOLDS


def _print(screen: Console, system: System, report: MutationReport) -> None:
    screen.print(f"[bold]{system.name}  spec {system.digest[:12]}[/]")
    screen.print(f"{_words(report.total)}, {report.seconds:,.0f} s")
    if report.undecided:
        screen.print(f"[yellow]interrupted: {report.undecided:,} more are not decided[/]")
    by_rule = report.by_rule()
    width = max(map(len, by_rule), default=0)
    for rule, score in by_rule.items():
        screen.print(f"  {rule:<{width}}  {_words(score)}")
    if report.kills:
        screen.print("killed by")
        for name, kills in report.by_property().items():
            screen.print(f"  {kills:>5,}  {name}", markup=False)
    if report.survivors:
        fresh = len(report.unexplained)
        noted = f"{fresh:,} not explained" if fresh else "all explained"
        screen.print(f"survivors ({len(report.survivors):,}, {noted})")
        for outcome in report.survivors:
            _survivor(screen, outcome)
    if report.equivalent:
        same = f"the states and steps of {system.name} in every trial"
        screen.print(f"equivalent, with {same} ({len(report.equivalent):,})")
        for mutation in report.equivalent:
            screen.print(Text(f"  {mutation.name}"), soft_wrap=True)
    if report.unseen:
        screen.print(f"unseen, as no observer outside sees a difference in any trial ({len(report.unseen):,})")
        for mutation in report.unseen:
            screen.print(Text(f"  {mutation.name}"), soft_wrap=True)
    for pattern in report.out_of_date:
        screen.print(Text(f"out of date: nothing that is explained as `{pattern}` survives", style="red"))


def _survivor(screen: Console, outcome: MutantOutcome) -> None:
    m = outcome.mutation
    screen.print(Text(f"  {m.name}", style="" if outcome.explanation else "red"), soft_wrap=True)
    screen.print(Text(f"      {m.place.file}:{m.place.line}: {m.what}", style="dim"), soft_wrap=True)
    if outcome.cut_short:
        screen.print("      [yellow]cut short: in some trial it has far more states than the system[/]")
    if outcome.noticed:
        screen.print(f"      noticed, but by no claim about runs: {outcome.noticed}", markup=False)
    if outcome.seen is not None:
        _seen(screen, outcome.seen)
    else:
        screen.print("      [yellow]not decided: the search for what an observer sees was cut short[/]")
    if outcome.explanation:
        screen.print(Text(f"      explained: {outcome.explanation}"), soft_wrap=True)


def _seen(screen: Console, seen: ObservedDifference) -> None:
    """The run that an observer sees until the two differ, and what each then does."""
    screen.print(Text(f"      an observer sees, in {seen.trial}:"), soft_wrap=True)
    for step in seen.before:
        screen.print(Text(f"        {step}", style="dim"), soft_wrap=True)
    for whose, step in (("the system", seen.system), ("the mutant", seen.mutant)):
        screen.print(Text(f"        then {whose}: {step or 'nothing such'}"), soft_wrap=True)


def _words(score: RuleScore) -> str:
    """`48 of 51 killed (94.1 %), 3 refused, 2 equivalent, 0 unseen`: refused and the like are not among the 51."""
    percent = f"{100 * score.score:.1f} %" if score.others else "-"
    counts = {"refused": score.refused, "equivalent": score.equivalent, "unseen": score.unseen}
    apart = "".join(f", {count:,} {label}" for label, count in counts.items()) if any(counts.values()) else ""
    return f"{score.killed:,} of {score.others:,} killed ({percent}){apart}"


def _json(system: System, report: MutationReport) -> dict[str, object]:
    return {
        "system": system.name,
        "spec_digest": system.digest,
        **_score_json(report.total),
        "equivalent": [m.name for m in report.equivalent],
        "unseen": [m.name for m in report.unseen],
        "refused": {o.mutation.name: o.refused for o in report.outcomes if o.refused},
        "survivors": [_survivor_json(outcome) for outcome in report.survivors],
        **picked(report, "out_of_date undecided"),
        "seconds": round(report.seconds, 3),
        "by_rule": {rule: _rule_json(score) for rule, score in report.by_rule().items()},
        "by_property": report.by_property(),
        "kills": [
            {
                "name": m.name,
                "property": k.by,
                "setting": dict(k.trial.settings),
                "faults": None if k.trial.budget is None else str(k.trial.budget),
                "steps": k.steps,
            }
            for m, k in report.kills
        ],
    }


def _score_json(score: RuleScore) -> dict[str, object]:
    return {"mutants": score.made, "killed": score.killed, "score": round(score.score, 4)}


def _rule_json(score: RuleScore) -> dict[str, object]:
    return {**_score_json(score), **picked(score, "refused equivalent unseen")}


def _survivor_json(outcome: MutantOutcome) -> dict[str, object]:
    m = outcome.mutation
    place = f"{m.place.file}:{m.place.line}"
    explained = {
        "explanation": outcome.explanation or None,
        "noticed": outcome.noticed or None,
        "cut_short": outcome.cut_short,
        "seen": None if outcome.seen is None else _seen_json(outcome.seen),
    }
    return {**picked(m, "name rule"), "place": place, "what": m.what, **explained}


def _seen_json(seen: ObservedDifference) -> dict[str, object]:
    faults = None if seen.trial.budget is None else str(seen.trial.budget)
    return {"setting": dict(seen.trial.settings), "faults": faults, **picked(seen, "before system mutant")}
