"""An exploration as a short table that a person reads at a glance."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leasehold.checker.explore import Exploration, PropertyResult
from leasehold.reports.trace import trace_text
from leasehold.spec.language.types import show

_MARK = {"exhausted": "[green]ok[/]", "witnessed": "[green]ok[/]", "violated": "[red]VIOLATED[/]", "bounded": "[yellow]so far[/]"}


def headline(screen: Console, found: Exploration) -> None:
    """The system, its constants and its counts."""
    system = found.system
    constants = "  ".join(f"{c.name}={show(c.type, c.value)}" for c in system.constants.values())
    screen.print(f"[bold]{escape(system.name)}[/]  {escape(constants)}  [dim]spec {system.digest[:12]}[/]")
    cells = f"{len(found.cells):,} of {found.product_states:,} control states reached"
    screen.print(
        f"{found.distinct:,} distinct states, {found.generated:,} generated, depth {found.depth}; {cells}"
        + (f"; {found.cut:,} steps left the bounds" if found.cut else "")
    )
    screen.print(
        f"[dim]{found.engine} engine, {found.seconds:.1f} s, {found.states_per_second:,.0f} states/s, "
        f"{found.peak_memory_bytes / 1e6:,.0f} MB at most[/]"
    )
    if not found.complete:
        screen.print(f"[yellow]not complete: {escape(found.why_incomplete)}[/]")


def properties(screen: Console, results: Iterable[PropertyResult], expected: Iterable[str] = ()) -> None:
    """One line for each property."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    table.add_column(style="dim")
    meant = set(expected)
    for p in results:
        mark = _MARK[p.verdict]
        if p.name in meant and p.verdict == "violated":
            mark = "[green]ok[/], as expected"
        note = p.reason
        if p.path is not None:
            what = "counterexample" if p.verdict == "violated" else "witness"
            steps = f"{what} of {len(p.path)} step{'s' if len(p.path) != 1 else ''}"
            note = f"{steps}; {note}" if note else steps
        table.add_row(mark, escape(p.name), p.verdict, escape(note))
    screen.print(table)


def counterexamples(screen: Console, results: Iterable[PropertyResult]) -> None:
    """Every violated property with its path, step by step."""
    for p in results:
        if p.verdict == "violated":
            screen.print(f"\n[red]{escape(p.name)} is violated[/]" + (f": {escape(p.reason)}" if p.reason else ""))
            if p.doc:
                screen.print(f"[dim]{escape(p.doc)}[/]")
            if p.path is not None:
                screen.print(trace_text(p.path), markup=False, end="")


def left_over(screen: Console, found: Exploration, explained: Iterable[str] = ()) -> None:
    """Transitions that are never taken and claims that say nothing, but for those that are explained."""
    known = set(explained)
    if not found.complete:
        return
    for title, names in (("never taken", found.unvisited_transitions), ("vacuous", found.vacuous)):
        fresh = [n for n in names if n not in known]
        if fresh:
            screen.print(f"[yellow]{title}:[/] {escape(', '.join(fresh))}")
        if len(fresh) < len(names):
            screen.print(f"[dim]{len(names) - len(fresh)} {title}, as expected.yaml explains[/]")
