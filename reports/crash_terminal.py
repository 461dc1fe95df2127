"""The crash analysis, and one case of it, on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from leasehold.checker.crash.analysis import CellVerdict, CrashReport, follow
from leasehold.checker.crash.cases import Case
from leasehold.checker.crash.unmet import FILE, Unmet
from leasehold.checker.explore import PropertyResult
from leasehold.checker.explore.expectations import expectation_for
from leasehold.faults.model import Budget
from leasehold.faults.model.lowering import without_effect
from leasehold.impl.words import counted
from leasehold.reports import crash_words, terminal
from leasehold.reports.commands import case_command, replay_command
from leasehold.spec.language.diagnostics import listed

MOST_CELLS = 20  # lines of the table of cells, unless all are asked for

UNDECIDED = "holds, but for what leaves the bounds"
FOLLOWS = "holds, as it does under the last"


@dataclass(frozen=True, slots=True)
class Completed:
    """The result under one budget, when ever larger ones are tried."""

    faults: str
    states: int | None
    seconds: float
    verdict: str
    complete: bool

    @property
    def interrupted(self) -> bool:
        """Returns whether a person has ended the search."""
        return self.verdict.endswith("interrupted")

    @classmethod
    def of(cls, report: CrashReport) -> Completed:
        if not report.complete:
            verdict = f"cut off: {crash_words.why_incomplete(report)}"
        elif report.broken:
            verdict = f"breaks {listed(report.broken)}"
        else:
            verdict = UNDECIDED if report.open else "holds" if report.holds else "does not stabilise"
        return cls(str(report.budget), report.faulty.distinct, report.seconds, verdict, report.complete)


def asked(screen: Console, faults: str, settings: Mapping[str, str]) -> None:
    """Prints which faults, as who has asked for them, and which of the system's own settings are used."""
    line = f"faults {faults}"
    if settings:
        line += "; " + ", ".join(f"{n}={v}" for n, v in settings.items()) + " (set for faults in system.yaml)"
    screen.print(line, markup=False, style="dim")


def completed(screen: Console, outcome: Completed, width: int) -> None:
    """A line about one of several budgets, which may have been cut off."""
    style = {"holds": "green", FOLLOWS: "green", UNDECIDED: "yellow"}.get(outcome.verdict, "red")
    style = style if outcome.complete else "yellow"
    figures = " " * 31 if outcome.states is None else f"{outcome.states:>11,} states  {outcome.seconds:>8,.1f} s"
    line = Text(f"{outcome.faults:<{width}}  {figures}  ")
    screen.print(line.append(outcome.verdict, style=style), soft_wrap=True)


def left_out(analysis: CrashReport, tried: Sequence[Completed], budgets: Sequence[Budget]) -> list[Completed]:
    """The budgets that were not explored, as all that holds under the last one holds under them, too."""
    if not analysis.holds or analysis.open or analysis.budget not in budgets[-1:]:
        return []
    known = [one.faults for one in tried]
    every = follow(analysis.system, budgets)
    return [Completed(str(b), None, 0.0, FOLLOWS, True) for b in every if str(b) not in known]


def largest(screen: Console, analysis: CrashReport, tried: Sequence[Completed], budgets: Sequence[Budget]) -> None:
    """Prints which of several budgets were not decided, and under which one the figures below are."""
    decided = [one.faults for one in tried if one.complete]
    left = [str(b) for b in budgets if str(b) not in decided]
    if left:
        screen.print(f"not decided: {'; '.join(left)} (--time gives more time)", markup=False, soft_wrap=True)
    screen.print(f"\nunder {analysis.budget}:", markup=False)


def report(
    screen: Console, analysis: CrashReport, missed: Sequence[Unmet] | None, system: str, every_cell: bool
) -> None:
    """All of it: counts, whether the system stabilises, what breaks, and the cells."""
    terminal.headline(screen, analysis.faulty)
    terminal.idle_faults(screen, without_effect(analysis.system, analysis.budget))
    counts(screen, analysis)
    not_met(screen, missed)
    stabilises(screen, analysis)
    longest(screen, analysis, system)
    cells(screen, analysis, every_cell)
    properties(screen, analysis)
    broken(screen, analysis, system)


def brief(
    screen: Console,
    analysis: CrashReport,
    missed: Sequence[Unmet] | None,
    system: str,
    settings: Mapping[str, str],
    differ: int,
    verbose: bool,
) -> None:
    """The verdict in a sentence, then a few lines, for `check`; `differ` crash points are not as crash.yaml says."""
    sentence, style = verdict(analysis, differ)
    screen.print(Text(sentence, style=f"bold {style}"), soft_wrap=not screen.is_terminal)
    asked(screen, f"{analysis.budget} (system.yaml)", settings)
    terminal.idle_faults(screen, without_effect(analysis.system, analysis.budget))
    cases = f", {len(analysis.cases):,} cases of a crash" if analysis.complete else ""
    screen.print(f"{analysis.faulty.distinct:,} distinct states{cases}", markup=False)
    not_met(screen, missed, named=not differ)
    others(screen, analysis, verbose)
    if verbose or analysis.complete:
        stabilises(screen, analysis, verbose)
        if analysis.convergence is not None and analysis.convergence.converges is False:
            longest(screen, analysis, system)
    broken(screen, analysis, system)


def verdict(analysis: CrashReport, differ: int) -> tuple[str, str]:
    """The verdict as a sentence, and its colour; `differ` crash points are not as crash.yaml says."""
    name, faults, after = analysis.system.name, analysis.budget, analysis.convergence
    hold = sum(p.verdict in ("exhausted", "witnessed") for p in analysis.faulty.properties)
    style = "green"
    if analysis.broken:
        sentence, style = f"{name} does not survive {faults}: it breaks {listed(analysis.broken)}.", "red"
    elif not analysis.holds:
        sentence, style = f"{name} does not stabilise after {faults}.", "red"
    elif not analysis.complete:
        sentence, style = f"{name} is not decided under {faults}: {crash_words.why_incomplete(analysis)}.", "yellow"
    elif differ:
        sentence, style = f"{name} survives {faults}, but not as {FILE} says: {counted(differ, 'difference')}.", "red"
    else:
        back = ", and every fair run returns to a legal state" if after is not None and after.converges else ""
        if analysis.open:
            back, style = "; whether it stabilises is not decided", "yellow"
        sentence = f"{name} survives {faults}: {counted(hold, 'property')} hold{'s' if hold == 1 else ''}{back}."
    return sentence, style


def counts(screen: Console, analysis: CrashReport) -> None:
    """States, crash points, cases and cells."""
    after = analysis.convergence
    if after is not None:
        screen.print(f"{after.legal_states:,} legal states, {after.recovery_states:,} recovery states", markup=False)
    total = f"{len(analysis.points):,} crash points"
    if analysis.cases:
        modes = [f"{sum(1 for *_, m in analysis.cases if m == mode):,} {mode}" for mode in analysis.modes]
        split = f": {', '.join(modes)}" if len(modes) > 1 else ""
        cases = f"{len(analysis.cases):,} cases (cell, crash point, mode){split}"
        screen.print(f"{len(crash_words.points_tried(analysis)):,} of {total} tried; {cases}", markup=False)
    elif not analysis.complete:
        screen.print(f"of {total} it is not known which were tried", markup=False)
    legal = sum(cell.legal for cell in analysis.cells)
    never = "never reached" if analysis.complete else "not reached so far"
    screen.print(
        f"{len(analysis.cells):,} cells reached: {legal:,} without faults too, {len(analysis.cells) - legal:,} with "
        f"faults alone; {crash_words.never_reached(analysis):,} {never}",
        markup=False,
    )
    terminal.note(screen, crash_words.byzantine_note(analysis))


def not_met(screen: Console, missed: Sequence[Unmet] | None, named: bool = True) -> None:
    """Prints how many crash points nothing stopped at, and those that nothing explains: `named`, or how many."""
    if missed is None:
        screen.print("[dim]not known which crash points are not met[/]")
        return
    fresh = [u.name for u in missed if not u.reason]
    explained = sum(1 for u in missed if u.pattern)
    seen = len(missed) - len(fresh) - explained
    for count, why in ((explained, f"as {FILE} explains"), (seen, "because of the budget of faults")):
        if count:
            screen.print(f"[dim]{counted(count, 'crash point')} not met, {why}[/]")
    if fresh:
        names = listed(fresh) if len(fresh) <= terminal.FEW else f"{listed(fresh[: terminal.FEW])}, and more"
        sentence = f"{counted(len(fresh), 'crash point')} not met, and not explained"
        screen.print(f"[yellow]{sentence}:[/] {escape(names)}" if named else f"[yellow]{sentence}[/]")


def stabilises(screen: Console, analysis: CrashReport, verbose: bool = True) -> None:
    """Checks whether the system stabilises; if not, the run that `longest` names, else one without a crash."""
    after = analysis.convergence
    terminal.stabilises(screen, after, crash_words.convergence_words(analysis), verbose)
    if after is not None and after.converges is False and after.path is not None:
        case = crash_words.shown_run(analysis)
        terminal.path(screen, after.path if case is None else analysis.path(case), brief=False)
        terminal.note(screen, crash_words.differences_words(analysis, case))


def longest(screen: Console, analysis: CrashReport, system: str) -> None:
    """The worst case, and the command that shows it."""
    case, sentence = crash_words.longest_case(analysis), crash_words.longest_words(analysis)
    if case is not None and sentence:
        terminal.note(screen, sentence)
        screen.print(f"  {case_command(analysis, case, system)}", markup=False, soft_wrap=True)


def properties(screen: Console, analysis: CrashReport) -> None:
    """Prints how many properties hold, and what there is to say of the others, but for those that the faults break."""
    hold = sum(p.verdict in ("exhausted", "witnessed") for p in analysis.faulty.properties)
    sentence = f"{counted(hold, 'property')} {'holds' if hold == 1 else 'hold'} under these faults"
    if analysis.complete:
        screen.print(f"[green]{sentence}[/]" if not analysis.broken and hold else sentence)
    others(screen, analysis)


def others(screen: Console, analysis: CrashReport, bounded: bool = True) -> None:
    """The properties that neither hold under these faults nor are broken by them."""
    results = analysis.faulty.properties
    _named(screen, "not checked", (p for p in results if p.verdict == "unasked"))
    if bounded:
        cut = (p for p in results if p.verdict == "bounded")
        _named(screen, "not contradicted, but the search was cut short", cut)
    expectation = expectation_for(analysis.system)
    meant = expectation.violated if expectation else {}
    anyhow = [p for p in results if p.verdict == "violated" and p.name not in analysis.broken]
    _named(screen, "violated without faults too", (p for p in anyhow if p.name not in meant))
    expected = (p for p in anyhow if p.name in meant)
    _named(screen, "violated without faults too, as expected.yaml says", expected, "dim")


def _named(screen: Console, label: str, results: Iterable[PropertyResult], style: str = "yellow") -> None:
    names = [p.name for p in results]
    if names:
        screen.print(f"[{style}]{label}:[/] {escape(', '.join(names))}", soft_wrap=True)


def broken(screen: Console, analysis: CrashReport, system: str) -> None:
    """The properties that faults break, each with the weakest faults that do and a counterexample."""
    for name in analysis.broken:
        whole = next(p for p in analysis.faulty.properties if p.name == name)
        weakest = analysis.weakest.get(name)
        sentence = (
            f"breaks under {weakest}, and under no weaker faults" if weakest else f"breaks under {analysis.budget}"
        )
        screen.print(f"\n[red]{escape(name)}[/] {escape(sentence)}", soft_wrap=True)
        result = analysis.under_weakest.get(name, whole)
        options = ["--faults", str(weakest or analysis.budget)]
        replay = partial(replay_command, analysis.system, system, options=options)
        terminal.counterexamples(screen, [result], analysis.system.properties, replay)


def cells(screen: Console, analysis: CrashReport, every: bool) -> None:
    """The cells, worst first: a line each."""
    if not analysis.cases:
        return
    ranked = crash_words.worst_first(analysis)
    kept = ranked if every else ranked[:MOST_CELLS]
    head = [*analysis.faulty.product_machines, "reached", "points", *analysis.modes, "steps", "messages"]
    rows = [_row(cell, analysis.modes) for cell in kept]
    left = len(analysis.faulty.product_machines) + 1
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    screen.print()
    for number, row in enumerate([head, *rows]):
        padded = [w.ljust(widths[i]) if i < left else w.rjust(widths[i]) for i, w in enumerate(row)]
        screen.print(Text("  ".join(padded).rstrip(), style="bold" if not number else ""), soft_wrap=True)
    if len(kept) < len(ranked):
        screen.print(f"[dim]and {len(ranked) - len(kept)} more cells (--all-cells prints them all)[/]")
    screen.print()


def _row(cell: CellVerdict, modes: Iterable[str]) -> list[str]:
    worst = ["", ""]
    if cell.points:
        apart = {None: "not checked", False: "no return"}.get(cell.worst.returns)
        worst = [apart or _number(cell.worst.steps), "" if apart else _number(cell.worst.exchanges)]
    kind = "legal" if cell.legal else "recovery"
    return [*cell.control, kind, str(len(cell.points)), *(str(cell.cases[m]) for m in modes), *worst]


def _number(count: int | None) -> str:
    return "not measured" if count is None else str(count)


def case(screen: Console, analysis: CrashReport, of: Case) -> None:
    """The path of a case, step by step, and how it returns."""
    worst = analysis.cases[of]
    if worst.returns is None:
        sentence = "whether it returns was not checked"
    elif not worst.returns:
        sentence = "once faults stop, a run never returns to a legal state"
    elif worst.steps is None:
        sentence = "legal again later; the longest way was not found, as there are too many to try"
    elif not worst.steps:
        sentence = "legal again with the restart"
    else:
        sentence = f"legal again at most {counted(worst.steps, 'step')} and {worst.exchanges} messages later"
    screen.print(f"{crash_words.case_name(of)}: {sentence}", markup=False, soft_wrap=True)
    terminal.path(screen, analysis.path(of), brief=False)
    terminal.note(screen, crash_words.differences_words(analysis, of))
