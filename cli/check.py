"""`leasehold check`: a system explored, crashed and compared with its expected.yaml."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import click
from rich.console import Console
from rich.text import Text

from leasehold.checker.crash.analysis import CrashReport
from leasehold.checker.crash.analysis import crash as crash_test
from leasehold.checker.crash.unmet import FILE as CRASH_FILE
from leasehold.checker.crash.unmet import differences as unmet_differences
from leasehold.checker.crash.unmet import explanations, unmet
from leasehold.checker.explore import Engine, Exploration, Limits, PropertyResult
from leasehold.checker.explore.expectations import NEVER_TAKEN, Difference, differences, expectation_for
from leasehold.checker.explore.resources import memory_for_a_search
from leasehold.checker.explore.unread import Unread, unread
from leasehold.checker.host.mutant_results import Missed, kept
from leasehold.checker.host.verdicts import keep_verdicts
from leasehold.checker.prove import ANY, StoredProof, Unencodable, limit_memory, stopped_by_signals, store, stored
from leasehold.checker.prove import prove as prove_all
from leasehold.cli import search
from leasehold.cli.common import Exit, console, interruptible, print_json, system_options, verb, writing
from leasehold.cli.crash import crash_code, load_for_faults
from leasehold.cli.expected import difference, renewed
from leasehold.cli.progress import Status
from leasehold.cli.prove import ProofProgress
from leasehold.impl.compiler.program import NotRunnable, check_runnable
from leasehold.impl.words import counted, together
from leasehold.reports import crash_terminal, terminal
from leasehold.reports.commands import replay_command, undecided_commands
from leasehold.reports.crash import crash_json
from leasehold.reports.json_report import json_report, picked, plain
from leasehold.spec import SHIPPED, System, find, load
from leasehold.spec.language.diagnostics import Diagnostic, listed
from leasehold.spec.language.expectation import Expectation
from leasehold.spec.language.read.editing import CannotEdit
from leasehold.spec.language.types import show


@dataclass(frozen=True, slots=True)
class _Run:
    """The exploration of one setting, with its expectation and its proof."""

    found: Exploration
    meant: Expectation | None
    differ: Sequence[Difference]
    proof: StoredProof | None

    def though_taken(self, names: Collection[str]) -> _Run:
        """The same where transitions that are never taken without faults need no explanation."""
        return replace(self, differ=[d for d in self.differ if d.explain_under != NEVER_TAKEN or d.what not in names])

    @property
    def unexpected(self) -> list[str]:
        """The properties that are violated and should not be."""
        meant = self.meant.violated if self.meant else {}
        return [p.name for p in self.found.properties if p.verdict == "violated" and p.name not in meant]

    @property
    def beyond(self) -> list[str]:
        """The properties that depend on what lies beyond the bounds, though all within them was explored."""
        results = self.found.properties if self.found.complete else ()
        return [p.name for p in results if (self.proof.strongest(p) if self.proof else p.verdict) == "bounded"]

    @property
    def cut_short(self) -> bool:
        """Returns whether nothing is wrong but that not everything was explored."""
        return not self.found.complete and len(self.differ) == 1


@verb()
@system_options
@search.engine_option
@search.size_options
@search.memory_option
@search.time_option
@click.option("--all", "every", is_flag=True, help="Check every setting in expected.yaml, but for the slow ones.")
@click.option("--slow", is_flag=True, help="With --all: the slow settings too.")
@search.keep_going_option
@click.option("--no-crash", is_flag=True, help="Leave out the faults that system.yaml asks for.")
@click.option("--prove", "proving", is_flag=True, help="Prove the properties too, unless a proof is stored.")
@click.option("--write", is_flag=True, help="Renew the numbers in expected.yaml, and show the difference.")
@click.option("--verbose", is_flag=True, help="List every property with its verdict.")
def check(
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    engine: Engine,
    max_states: int | None,
    depth: int | None,
    memory: int | None,
    seconds: float | None,
    every: bool,
    slow: bool,
    keep_going: bool,
    no_crash: bool,
    proving: bool,
    write: bool,
    verbose: bool,
) -> Exit:
    """Lint and explore SYSTEM, compare with its expected.yaml, and crash-test it.

    The check fails if a property fails, if a number differs, or if a transition is never taken or a property vacuous
    without an explanation. Without an expected.yaml, no number is compared.

    Where `faults` in system.yaml has a budget `check`, SYSTEM is also explored under these faults. The check then fails
    if they break a property, if the system does not return to a legal state once they stop, or if a crash point is not
    met and crash.yaml does not explain it; with --set, such points are only listed.

    `leasehold prove` stores its proof, and a property that is proved of SYSTEM as it is now is shown as proved. With
    --prove, SYSTEM is proved first if no proof is stored; a property that is left undecided has the explorer's verdict.

    A system that explores and cannot run, as machines or channels of it are none of a real network, is said to be so.

    The data and transitions that no property would miss are counted, and listed with --verbose: data that no property
    reads, directly or through what it influences, by what depends on what; and transitions without which, or with
    another target or update, no property fails, as far as `leasehold mutate` has tried.

    Each search stops at the first violation that expected.yaml does not expect, and then compares no numbers;
    --keep-going visits every state all the same. --max-states, --depth and --memory limit each search, --time all of
    them together; a check that they cut short before anything failed exits with 3.

    --write renews expected.yaml: it corrects numbers, adds a run for a setting that has none, and removes explanations
    that no longer apply. A violation needs a reason: until you give it, the check fails.

    Example:  leasehold check lease
              leasehold check lease --all
              leasehold check ./my_system --set clients=3
              leasehold check ./my_system --time 2m --verbose
              leasehold check ./my_system --all --write
    """
    started = time.monotonic()
    if every and settings:
        raise click.UsageError("--all takes its settings from expected.yaml; it does not go with --set")
    if write and system in SHIPPED:
        raise click.UsageError(f"--write renews a folder of yours: `leasehold init NAME --from {system}` makes one")
    first = load(system, settings)
    todo: list[tuple[System, Expectation | None]] = [(first, expectation_for(first))]
    if every and first.expectations:
        todo = [
            (load(system, {n: str(v) for n, v in e.settings.items()}), e)
            for e in first.expectations
            if slow or not e.slow
        ]
    asked = first.faults.check if not no_crash else ""
    budget = search.parse_budget(first, asked, f"{first.faults.place}: faults.check") if asked else None
    faulty, own = load_for_faults(system, settings) if asked else (first, {})
    known = explanations(system, faulty) if asked else ()

    def limits(meant: Expectation | None) -> Limits:
        left = None if seconds is None else max(0.0, seconds - (time.monotonic() - started))
        stop, expected = not (keep_going or write), frozenset(meant.violated if meant else ())
        return Limits(max_states, depth, left, memory, stop_at_violation=stop, finish_level=True, expected=expected)

    untested, why_not = (unread(first), kept(system, first)), _why_not_run(first)
    runs: list[_Run] = []
    screen = console()
    for model, expectation in todo:
        proof = stored(model) or (_proof(model, limits(expectation)) if proving else None)
        exploration = search.explore_with_progress(model, limits(expectation), engine=engine)
        runs.append(_Run(exploration, expectation, differences(exploration, expectation), proof))
        keep_verdicts(system, model, "check", {p.name: p.verdict for p in exploration.properties})
        if not as_json and not write:
            if len(runs) > 1:
                screen.print()
            # What is never taken without faults may be under them.
            waits = budget is not None and len(runs) == 1 and not exploration.interrupted
            shown = runs[-1].though_taken(exploration.unvisited_transitions if waits else ())
            _print(screen, shown, system, verbose, untested if len(runs) == 1 else None)
            if len(runs) == 1:
                _print_not_done(screen, why_not, system, bool(first.faults.budget) and not (asked or no_crash))
        if exploration.interrupted:
            break
    changes: list[str] = []
    if write:
        runs, changes = _renew(system, runs)
        for run in runs if not as_json else ():
            _print(screen, run, system, verbose)
            screen.print()
        for line in changes if not as_json else ():
            screen.print(line, markup=False, soft_wrap=True)
    crashed: CrashReport | None = None
    not_met: Sequence[Difference] = ()
    wrong: list[str] = []  # properties that are proved, and broken by faults
    if budget is not None and not any(run.found.interrupted for run in runs):
        with interruptible(), search.engine_or_usage_error(), Status("building") as status:
            watch = search.SearchProgress(status, f"faults {budget}")
            crashed = crash_test(faulty, budget, watch, limits(todo[0][1]), engine=engine)
        runs[0] = runs[0].though_taken(crashed.faulty.taken)
        missed = unmet(crashed, known)
        not_met = [] if settings or missed is None else list(unmet_differences(missed, known))
        proof = runs[0].proof
        wrong = proof.contradicted(crashed.faulty.properties, budget) if proof is not None else []
        if not as_json:
            screen.print()
            crash_terminal.brief(screen, crashed, missed, system, own, len(not_met), verbose)
            terminal.contradicted(screen, wrong)
            left = [d for d in runs[0].differ if d.explain_under == NEVER_TAKEN]
            _print_differences(screen, left if not write else (), "expected.yaml")
            _print_differences(screen, not_met, CRASH_FILE)
    if as_json:
        report = _json(runs[0], wrong)
        report["not_missed"] = _unread_json(*untested)
        report["why_not_run"] = [d.as_json() for d in why_not]
        report["crash"] = (
            None
            if crashed is None
            else {**crash_json(crashed, cells=False, known=known), "differences": plain(not_met)}
        )
        if write:
            report["renewed"] = changes
        if every:
            report["runs"] = [_json(run) for run in runs]
        print_json(report)
    elif len(todo) > 1:
        failed = sum(1 for run in runs if run.differ)
        screen.print(f"\n{len(todo) - failed} of {len(todo)} settings are as expected", markup=False)
    if not as_json and crashed is not None:
        _print_once_more(screen, runs, crash_terminal.verdict(crashed, len(not_met)))
    return _exit_code(runs, crashed, not_met)


def _why_not_run(model: System) -> Sequence[Diagnostic]:
    """The reasons why no actor can play the machines of a system; empty where they can."""
    try:
        check_runnable(model)
    except NotRunnable as error:
        return error.diagnostics
    return ()


def _renew(system: str, runs: Sequence[_Run]) -> tuple[list[_Run], list[str]]:
    """Renews expected.yaml; returns the runs compared with the new file, and the changes, line by line."""
    folder, shown = find(system)
    file = folder / "expected.yaml"
    whole = [(run.found, run.meant) for run in runs if run.found.complete]
    if not whole:
        return list(runs), []
    try:
        with writing(file):
            old = file.read_bytes().decode() if file.exists() else ""
            new = renewed(old, whole)
            file.write_bytes(new.encode())
    except CannotEdit as error:
        raise click.UsageError(f"{shown}/expected.yaml: {error}") from error
    again = []
    for run in runs:
        constants = {name: show(c.type, c.value) for name, c in run.found.system.constants.items()}
        meant = expectation_for(load(system, constants))
        again.append(replace(run, meant=meant, differ=differences(run.found, meant)))
    return again, difference(old, new, f"{shown}/expected.yaml")


def _exit_code(runs: Sequence[_Run], crashed: CrashReport | None, not_met: Sequence[Difference]) -> Exit:
    if any(run.unexpected for run in runs):
        return Exit.VIOLATED
    if any(run.found.interrupted for run in runs):
        return Exit.INTERRUPTED
    if not_met or any(run.differ and not run.cut_short for run in runs):
        return Exit.VIOLATED
    code = Exit.HOLDS if crashed is None else crash_code(crashed)
    undecided = any(run.cut_short or run.beyond for run in runs) or (crashed is not None and crashed.open)
    return Exit.UNDECIDED if undecided and code is Exit.HOLDS else code


def _proof(model: System, limits: Limits) -> StoredProof | None:
    """A proof that is made now, and kept. What contradicts a property is left to the exploring that follows."""
    try:
        with interruptible(), stopped_by_signals(), Status("encoding") as status:
            setting = ANY if limits.seconds is None else ANY.limited(limits.seconds)
            if (most := limits.memory or memory_for_a_search()) is not None:
                limit_memory(most)
            return store(prove_all(model, setting, watch=ProofProgress(status).steps), setting)
    except Unencodable as error:
        click.echo(f"not proved: {model.name} has no encoding for the solver: {error}", err=True)
        return None


def _print(
    screen: Console, run: _Run, system: str, verbose: bool, untested: tuple[Unread, Missed | None] | None = None
) -> None:
    """The verdict in a sentence, then figures, what no property would miss, then violations and differences."""
    exploration, meant = run.found, run.meant.violated if run.meant else {}
    sentence, style = _verdict(run)
    screen.print(Text(sentence, style=f"bold {style}"), soft_wrap=not screen.is_terminal)
    if run.meant is not None:
        doc = f": {run.meant.doc}" if run.meant.doc else ""
        screen.print(f"setting {run.meant.name}{doc}", markup=False, style="dim")
    terminal.headline(screen, exploration)
    plain = ("exhausted", "witnessed", "bounded")
    shown = [p for p in exploration.properties if verbose or p.verdict not in plain]
    terminal.properties(screen, shown, meant, exploration.why_incomplete, run.proof)
    if run.proof is not None:
        terminal.for_what(screen, exploration, run.proof)
    if run.meant is not None and exploration.complete:
        for label, names in (("never taken", exploration.unvisited_transitions), ("vacuous", exploration.vacuous)):
            terminal.explained_ones(screen, len(run.meant.explained.intersection(names)), label)
    if untested is not None:
        _print_unread(screen, *untested, verbose)
    replay = partial(replay_command, exploration.system, system)
    failed = [p for p in exploration.properties if p.name not in meant]
    terminal.counterexamples(screen, failed, exploration.system.properties, replay)
    if run.cut_short or run.beyond:
        undecided = [p.name for p in exploration.properties if p.verdict == "bounded"]
        stopped = bool(run.unexpected)
        for command in undecided_commands(exploration.system, system, undecided, exploration.complete, stopped):
            screen.print(f"go on:  {command}", markup=False, soft_wrap=True)
    for warning in exploration.system.warnings:
        screen.print(str(warning), markup=False, style="yellow", soft_wrap=True)
    if not run.cut_short:
        settings = "".join(
            f" --set {name}={show(c.type, c.value)}"
            for name, c in exploration.system.constants.items()
            if c.value != exploration.system.defaults[name]
        )
        renew = "" if system in SHIPPED else f"leasehold check {system}{settings} --write"
        new = "" if run.meant or not renew else f"a run of expected.yaml, which `{renew}` makes"
        _print_differences(screen, run.differ, "expected.yaml", new, renew)


AT_ONCE = "at_once"
# Of each verdict: the noun, and the verb for one and for several.
_BOUNDS = "in every reachable state within the bounds"
_SAID = (
    ("proved", "property", "is proved", "are proved"),
    ("exhausted", "property", f"holds {_BOUNDS}", f"hold {_BOUNDS}"),
    ("witnessed", "witness", "was found", "were found"),
    (AT_ONCE, "witness", "holds in a first state", "hold in a first state"),
    ("violated", "property", "is violated, as expected", "are violated, as expected"),
)


def _strongest(p: PropertyResult, proof: StoredProof | None) -> str:
    """The strongest verdict on a property; a witness without a step is none of what the system does."""
    if p.verdict == "witnessed" and p.path is not None and not p.path.steps:
        return AT_ONCE
    return proof.strongest(p) if proof else p.verdict


def _verdict(run: _Run) -> tuple[str, str]:
    """The verdict for a setting, as a sentence, and its colour."""
    exploration, name = run.found, run.found.system.name
    if run.unexpected:
        return f"{name} fails: {listed(run.unexpected)} {'is' if len(run.unexpected) == 1 else 'are'} violated.", "red"
    if not exploration.complete:
        return f"{name} is not decided: no property is violated so far, but {exploration.why_incomplete}.", "yellow"
    if run.differ:
        broken = any(d.what in {p.name for p in exploration.properties} and not d.explain_under for d in run.differ)
        phrase = f"{name} is not as expected" if broken or run.beyond else f"{name} holds, but is not as expected"
        return f"{phrase}: {counted(len(run.differ), 'difference')}.", "red"
    if run.beyond:
        are = "is" if len(run.beyond) == 1 else "are"
        return f"{name} is not decided: {listed(run.beyond)} {are} open beyond the bounds of the search.", "yellow"
    verdicts = Counter(_strongest(p, run.proof) for p in exploration.properties)
    counts = [
        f"{counted(verdicts[kind], noun)} {forms[verdicts[kind] > 1]}" for kind, noun, *forms in _SAID if verdicts[kind]
    ]
    unknown = "expected.yaml has no numbers for this setting"
    if not exploration.system.expectations:
        unknown = "there is no expected.yaml with numbers to compare"
    compared = "as expected.yaml says" if run.meant else unknown
    return f"{name} holds: {together(counts) or 'it has no properties'} ({compared}).", "green"


def _print_once_more(screen: Console, runs: Sequence[_Run], crashed: tuple[str, str]) -> None:
    """The verdicts that are not good: the last lines of a check that fails are not those of a part that is well."""
    sentences = []
    for run in runs:
        sentence, style = _verdict(run)
        setting = f" (setting {run.meant.name})." if run.meant and len(runs) > 1 else "."
        sentences.append((sentence.removesuffix(".") + setting, style))
    bad = [(sentence, style) for sentence, style in (*sentences, crashed) if style != "green"]
    if bad:
        screen.print()
    for sentence, style in bad:
        screen.print(Text(sentence, style=f"bold {style}"), soft_wrap=not screen.is_terminal)


def _print_differences(
    screen: Console, differ: Sequence[Difference], file: str, where: str = "", renew: str = ""
) -> None:
    if differ:
        screen.print(f"\nnot as expected: {counted(len(differ), 'difference')}", markup=False, style="red")
        terminal.differences(screen, differ, file, where, renew)


def _print_unread(screen: Console, unmissed: Unread, tried: Missed | None, verbose: bool) -> None:
    """The data and transitions that no property would miss."""
    mutants = {} if tried is None else tried.not_missed
    idle = [name for name in unmissed.transitions if name not in mutants]
    named = [d.name for d in (*unmissed.data, *unmissed.fields)] + [*idle, *mutants]
    counts = (
        (len(unmissed.data), "field of a record", "fields of records"),
        (len(unmissed.fields), "field of a message", "fields of messages"),
        (len(idle) + len(mutants), "transition", "transitions"),
    )
    parts = [f"{number} {one if number == 1 else several}" for number, one, several in counts if number]
    if not parts:
        return
    more = f": {', '.join(named)}" if len(named) <= terminal.FEW else " (--verbose lists them)"
    screen.print(f"\nno property would miss {together(parts)}{'' if verbose else more}", style="dim", markup=False)
    for datum in (*unmissed.data, *unmissed.fields) if verbose else ():
        where = f", told in {', '.join(datum.told_in)}" if datum.told_in else ""
        screen.print(Text(f"  {datum.name}: no property reads it, nor what it influences{where}"), soft_wrap=True)
    for name in idle if verbose else ():
        screen.print(Text(f"  {name}: it changes nothing that a property reads"), soft_wrap=True)
    for name, some in mutants.items() if verbose else ():
        screen.print(Text(f"  {name}: no property finds {', '.join(some)}"), soft_wrap=True)


def _print_not_done(screen: Console, why_not: Sequence[Diagnostic], system: str, untried: bool) -> None:
    """The reasons why no actor can play the system, and whether nobody has said which faults a check is to try."""
    if why_not:
        reasons = f"{counted(len(why_not), 'reason')} ({listed(sorted({d.code for d in why_not}))})"
        words = f"it explores, and cannot run: {reasons}, named by `{shlex.join(['leasehold', 'compile', system])}`"
        screen.print(words, markup=False, style="dim", soft_wrap=True)
    if untried:
        words = "not crash-tested: `faults` in system.yaml has a `budget` for `crash`, and no `check` for this"
        screen.print(words, markup=False, style="yellow", soft_wrap=True)


def _unread_json(unmissed: Unread, tried: Missed | None) -> dict[str, object]:
    mutants = None if tried is None else {"tried": tried.tried, "not_found": plain(tried.not_missed)}
    return {**picked(unmissed, "data fields transitions"), "mutants": mutants}


def _json(run: _Run, wrong: Sequence[str] = ()) -> dict[str, object]:
    report = json_report(run.found, proof=run.proof)
    for p in report["properties"]:
        if p["name"] in wrong:  # nothing is proved that faults break
            p["verdict"] = "violated"
            p.pop("method", None)
    report["setting"] = run.meant.name if run.meant else None
    report["warnings"] = [w.as_json() for w in run.found.system.warnings]
    report["differences"] = plain(run.differ)
    report["as_expected"] = not run.differ
    return report
