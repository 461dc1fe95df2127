"""What crashes do to a system, as lines that a person reads at a glance; tables.py says how lines are laid out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from leasehold.checker.crash import CellVerdict, CrashReport
from leasehold.checker.explore import PropertyResult
from leasehold.checker.unmet import FILE, Unmet
from leasehold.cli import tables
from leasehold.reports.crash_words import (
    case_command,
    convergence_words,
    liar_words,
    longest_case,
    longest_words,
    never_reached,
    points_tried,
    why_incomplete,
    worst_first,
)
from leasehold.reports.words import counted
from leasehold.spec.language.diagnostics import listed

MOST_CELLS = 20  # lines of the table of cells, unless all are asked for


@dataclass(frozen=True, slots=True)
class Completed:
    """What one budget has come to, when ever larger ones are tried."""

    faults: str
    states: int
    seconds: float
    verdict: str
    complete: bool

    @classmethod
    def of(cls, report: CrashReport) -> Completed:
        if not report.complete:
            verdict = f"cut off: {why_incomplete(report)}"
        elif report.broken:
            verdict = f"breaks {listed(report.broken)}"
        else:
            verdict = "holds" if report.holds else "does not stabilise"
        return cls(str(report.budget), report.faulty.distinct, report.seconds, verdict, report.complete)


def asked(screen: Console, faults: str, source: str, settings: Mapping[str, str]) -> None:
    """Which faults and which of the system's own settings are used."""
    words = f"faults {faults} ({source})"
    if settings:
        words += "; " + ", ".join(f"{n}={v}" for n, v in settings.items()) + " (set for faults in system.yaml)"
    screen.print(words, markup=False, style="dim")


def budgets(screen: Console, found: Sequence[Completed]) -> None:
    """Every budget that was tried, the last of which may have been cut off."""
    width = max(len(b.faults) for b in found)
    for b in found:
        style = "yellow" if not b.complete else "green" if b.verdict == "holds" else "red"
        line = Text(f"{b.faults:<{width}}  {b.states:>11,} states  {b.seconds:>8,.1f} s  ")
        screen.print(line.append(b.verdict, style=style), soft_wrap=True)


def report(screen: Console, found: CrashReport, missed: Sequence[Unmet], system: str, every_cell: bool) -> None:
    """All of it: counts, whether the system stabilises, what breaks, and the cells."""
    tables.headline(screen, found.faulty)
    counts(screen, found)
    not_met(screen, missed)
    tables.stabilises(screen, found.convergence, convergence_words(found))
    longest(screen, found, system)
    cells(screen, found, every_cell)
    properties(screen, found)
    broken(screen, found)


def brief(screen: Console, found: CrashReport, missed: Sequence[Unmet]) -> None:
    """A few lines, for `check`."""
    what = (
        f"{len(found.cases):,} cases of a crash" if found.complete else f"not complete: {why_incomplete(found)}"
    )  # fmt: skip
    screen.print(f"{found.faulty.distinct:,} distinct states, {what}", markup=False)
    not_met(screen, missed)
    tables.stabilises(screen, found.convergence, convergence_words(found))
    properties(screen, found)
    broken(screen, found)


def counts(screen: Console, found: CrashReport) -> None:
    """States, crash points, cases and cells."""
    after = found.convergence
    if after is not None:
        screen.print(f"{after.legal_states:,} legal states, {after.recovery_states:,} recovery states", markup=False)
    total = f"{len(found.points):,} crash points"
    if found.cases:
        modes = [f"{sum(1 for *_, m in found.cases if m == mode):,} {mode}" for mode in found.modes]
        split = f": {', '.join(modes)}" if len(modes) > 1 else ""
        cases = f"{len(found.cases):,} cases (cell, crash point, mode){split}"
        screen.print(f"{len(points_tried(found)):,} of {total} tried; {cases}", markup=False)
    elif not found.complete:
        screen.print(f"of {total} it is not known which were tried", markup=False)
    legal = sum(cell.legal for cell in found.cells)
    never = "never reached" if found.complete else "not reached so far"
    screen.print(
        f"{len(found.cells):,} cells reached: {legal:,} without faults too, {len(found.cells) - legal:,} with faults "
        f"alone; {never_reached(found):,} {never}",
        markup=False,
    )
    for line in textwrap.wrap(liar_words(found), min(screen.width, 110) - 2):
        screen.print(Text(f"  {line}", style="dim"))


def not_met(screen: Console, missed: Sequence[Unmet]) -> None:
    """How many crash points nothing stopped at, and those that nothing explains."""
    fresh = [u.name for u in missed if not u.reason]
    told = sum(1 for u in missed if u.pattern)
    seen = len(missed) - len(fresh) - told
    for count, why in ((told, f"as {FILE} explains"), (seen, "because of the budget of faults")):
        if count:
            screen.print(f"[dim]{counted(count, 'crash point')} not met, {why}[/]")
    if fresh:
        names = listed(fresh) if len(fresh) <= tables.FEW else f"{listed(fresh[: tables.FEW])}, and more"
        screen.print(f"[yellow]{counted(len(fresh), 'crash point')} not met, and not explained:[/] {escape(names)}")


def longest(screen: Console, found: CrashReport, system: str) -> None:
    """The worst case, and the command that shows it."""
    case, words = longest_case(found), longest_words(found)
    if case is not None and words:
        for line in textwrap.wrap(words, min(screen.width, 110) - 2):
            screen.print(Text(f"  {line}", style="dim"))
        screen.print(f"  {case_command(found, case, system)}", markup=False, soft_wrap=True)


def properties(screen: Console, found: CrashReport) -> None:
    """What holds, and what was not asked, in a line each."""
    results, apart = found.faulty.properties, found.broken
    hold = sum(p.verdict in ("exhausted", "witnessed") for p in results)
    held = f"{counted(hold, 'property')} {'holds' if hold == 1 else 'hold'} under these faults"
    if found.complete:
        screen.print(f"[green]{held}[/]" if not apart and hold else held)
    _named(screen, "not asked", (p for p in results if p.verdict == "unasked"))
    _named(screen, "not contradicted, but the search was cut short", (p for p in results if p.verdict == "bounded"))
    anyhow = (p for p in results if p.verdict == "violated" and p.name not in apart)
    _named(screen, "violated without faults too", anyhow)


def _named(screen: Console, words: str, results: Iterable[PropertyResult]) -> None:
    names = [p.name for p in results]
    if names:
        screen.print(f"[yellow]{words}:[/] {escape(', '.join(names))}", soft_wrap=True)


def broken(screen: Console, found: CrashReport) -> None:
    """The properties that faults break, each with the weakest faults that do and a counterexample."""
    for name in found.broken:
        whole = next(p for p in found.faulty.properties if p.name == name)
        weakest = found.weakest.get(name)
        words = f"breaks under {weakest}, and under no weaker faults" if weakest else f"breaks under {found.budget}"
        screen.print(f"\n[red]{escape(name)}[/] {escape(words)}", soft_wrap=True)
        result = found.under_weakest.get(name, whole)
        tables.counterexamples(screen, [result], found.system.properties)


def cells(screen: Console, found: CrashReport, every: bool) -> None:
    """The cells, worst first: a line each."""
    if not found.cases:
        return
    ranked = worst_first(found)
    kept = ranked if every else ranked[:MOST_CELLS]
    head = [*found.faulty.product_machines, "reached", "points", *found.modes, "steps", "messages"]
    rows = [_row(cell, found.modes) for cell in kept]
    left = len(found.faulty.product_machines) + 1
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    screen.print()
    for number, row in enumerate([head, *rows]):
        words = [w.ljust(widths[i]) if i < left else w.rjust(widths[i]) for i, w in enumerate(row)]
        screen.print(Text("  ".join(words).rstrip(), style="bold" if not number else ""), soft_wrap=True)
    if len(kept) < len(ranked):
        screen.print(f"[dim]and {len(ranked) - len(kept)} more cells (--all-cells prints them all)[/]")
    screen.print()


def _row(cell: CellVerdict, modes: Iterable[str]) -> list[str]:
    worst = ["", ""]
    if cell.points:
        apart = {None: "not asked", False: "no return"}.get(cell.worst.returns)
        worst = [apart or _number(cell.worst.steps), "" if apart else _number(cell.worst.exchanges)]
    kind = "legal" if cell.legal else "recovery"
    return [*cell.control, kind, str(len(cell.points)), *(str(cell.cases[m]) for m in modes), *worst]


def _number(count: int | None) -> str:
    return "no bound" if count is None else str(count)
