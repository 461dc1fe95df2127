"""An exploration on a terminal, as a few lines of text.

Lines are laid out here and not by a table widget: into a file they go whole, without padding, and on a narrow terminal
a note that does not fit moves below its property.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from leasehold.checker.explore import Exploration, PropertyResult
from leasehold.checker.explore.expectations import NUMBERS, Difference
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.checker.explore.result import AT_VIOLATION, Orbits, Path
from leasehold.impl.words import counted, size_text
from leasehold.reports.crash_words import other_ends_words, stabilises_words
from leasehold.reports.trace import trace_text
from leasehold.reports.verdicts import OPEN, WORDS
from leasehold.spec.language import expression as x
from leasehold.spec.language.check.unbounded import unbounded, unbounded_channels
from leasehold.spec.language.model import Property
from leasehold.spec.language.types import show

if TYPE_CHECKING:  # they take a while to load
    from leasehold.checker.crash.convergence import Convergence
    from leasehold.checker.prove import StoredProof

# The word for each verdict, and its colour.
_SHOWN = {"violated": (WORDS["violated"].upper(), "red"), **{verdict: (WORDS[verdict], "yellow") for verdict in OPEN}}
_WORDS: dict[str, tuple[str, str]] = {verdict: _SHOWN.get(verdict, (word, "green")) for verdict, word in WORDS.items()}
_BESIDE_PROOFS = {**_WORDS, "proved": ("proved", "green"), "exhausted": ("exhausted", "green")}  # "holds" would be both
_AS_EXPECTED = ("violated, as expected", "green")
LOST = "(lost): while an actor is down, messages from it may be lost, at no cost to the budget of faults"
LONG = 60  # steps; of a longer path the beginning is printed, unless it was asked for
FEW = 6  # names that are listed in a sentence; of more, only the number is given


def headline(screen: Console, exploration: Exploration) -> None:
    """The system, its constants and its counts."""
    system = exploration.system
    constants = [f"{c.name}={show(c.type, c.value)}" for c in system.constants.values()]
    text = "  ".join([system.name, *constants, f"spec {system.digest[:12]}"])
    for number, line in enumerate(_wrapped(screen, text, "  ")):
        screen.print(Text(line, style="bold" if number == 0 else ""))
    cells = f"{len(exploration.cells):,} of {exploration.product_states:,} control states reached"
    distinct = counted(exploration.distinct, "distinct state")
    if exploration.orbits is not None:
        cells = f"{counted(len(exploration.cells), 'control state')} reached up to symmetry"
        distinct = counted(exploration.distinct, "orbit") + f" under symmetry of {_alike(exploration.orbits)}"
        distinct += f" (standing for {counted(exploration.orbits.states, 'state')})"
    screen.print(
        f"{distinct}, {exploration.generated:,} generated, depth {exploration.depth}; {cells}"
        + (f"; {counted(exploration.cut, 'step')} left the bounds" if exploration.cut else "")
    )
    screen.print(
        f"[dim]{exploration.engine} engine ({escape(exploration.engine_reason)}), {exploration.seconds:.1f} s, "
        f"{exploration.states_per_second:,.0f} states/s, {exploration.peak_memory_bytes / 1e6:,.0f} MB at most[/]"
    )
    if not exploration.initial:
        screen.print("[yellow]there is no first state within the bounds: every property is vacuous[/]")
    for text in exploration.why_asymmetric:
        lead = "without symmetry" if exploration.orbits is None else "symmetry of no more"
        screen.print(f"[yellow]{lead}: {escape(text)}[/]", soft_wrap=True)
    if exploration.fairness is not Fairness.SPEC:
        screen.print(f"under --fairness {exploration.fairness}: {exploration.fairness.words}", markup=False)
    if not exploration.complete:
        more = "; --keep-going goes on" if exploration.why_incomplete == AT_VIOLATION else ""
        screen.print(f"[yellow]not complete: {escape(exploration.why_incomplete)}{more}[/]")
        for (role, name), transition in unbounded(system).items():
            screen.print(f"[yellow]nothing bounds {role}.{name}: {transition.name} adds to it each time[/]")
        for channel, (message, transition) in unbounded_channels(system).items():
            text = f"nothing bounds channel {channel}: {transition.name} sends {message} each time"
            screen.print(f"[yellow]{text}[/]", soft_wrap=True)
    if exploration.checkpoint:
        file = FilePath(exploration.checkpoint)
        size = f" ({size_text(file.stat().st_size)})" if file.is_file() else ""
        screen.print(f"--resume goes on from {escape(exploration.checkpoint)}{size}", soft_wrap=True)


def _alike(orbits: Orbits) -> str:
    """Roles whose instances change places: `client`, or `left with right, and client`."""
    return ", and ".join(" with ".join(group) for group in orbits.groups)


def idle_faults(screen: Console, reasons: Mapping[str, str]) -> None:
    """Prints the faults of a budget that can strike nothing, with the reasons."""
    for fault, reason in reasons.items():
        screen.print(f"[yellow]{fault} strikes nothing: {escape(reason)}[/]", soft_wrap=True)


_AT_A_GLANCE = 12  # properties that hold and still get a line each


def properties(
    screen: Console,
    results: Sequence[PropertyResult],
    expected: Iterable[str] = (),
    stopped: str = "",
    proof: StoredProof | None = None,
) -> None:
    """One line for each property: verdict, name, note. `stopped` is the reason that the headline gives already.

    Where many hold, their names are run together, so that the others stand out. With a proof, each has the
    strongest verdict that there is.
    """
    meant = set(expected)
    styles = _WORDS if proof is None else _BESIDE_PROOFS
    shown = {p.name: p.verdict if proof is None else proof.strongest(p) for p in results}
    plain = {verdict: [n for n, v in shown.items() if v == verdict] for verdict in ("proved", "exhausted")}
    if sum(map(len, plain.values())) > _AT_A_GLANCE:
        for verdict, names in plain.items():
            if names:
                _run_together(screen, *styles[verdict], names)
        results = [p for p in results if shown[p.name] not in plain]
    rows = []
    for p in results:
        word, style = _AS_EXPECTED if p.name in meant and p.verdict == "violated" else styles[shown[p.name]]
        note = "" if shown[p.name] == "proved" or (p.verdict == "bounded" and p.reason == stopped) else _note(p)
        rows.append((word, style, p.name, note))
    first = max((len(word) for word, *_ in rows), default=0)
    second = max((len(name) for _, _, name, note in rows if note), default=0)
    for word, style, name, note in rows:
        line = Text(f"{word:<{first}}  ", style=style)
        line.append(name, style="default")
        beside = first + 2 + max(second, len(name)) + 2
        if note and (not screen.is_terminal or beside + len(note) <= screen.width):
            line.append(f"{'':{beside - len(line)}}{note}", style="dim")
        elif note:
            for part in textwrap.wrap(note, max(20, screen.width - first - 6)):
                line.append(f"\n{'':{first + 4}}{part}", style="dim")
        screen.print(line)


def _run_together(screen: Console, word: str, style: str, names: Sequence[str]) -> None:
    lead = f"{word} ({len(names)})  "
    for i, part in enumerate(textwrap.wrap(", ".join(names), max(40, min(screen.width, 100) - len(lead)))):
        screen.print(Text(lead if not i else " " * len(lead), style=style).append(part, style="default"))


def for_what(screen: Console, exploration: Exploration, proof: StoredProof) -> None:
    """Prints for which runs each verdict on properties that hold was established, beside a proof."""
    shown = {proof.strongest(p) for p in exploration.properties}
    bounds = "with these constants, no faults but those that channels declare"
    lines = {
        "proved": proof.words,
        "exhausted": f"in all {counted(exploration.distinct, 'state')} within the bounds, {bounds}",
        "bounded": f"in {counted(exploration.distinct, 'state')} up to depth {exploration.depth}, {bounds}",
    }
    for verdict, text in lines.items():
        if verdict in shown:
            screen.print(f"{verdict}: {text}", markup=False, style="dim", soft_wrap=True)
        if verdict == "proved" and verdict in shown and proof.assumptions is not None:
            for line in proof.assumptions.lines:
                screen.print(f"  {line}", markup=False, style="dim", soft_wrap=True)
    for p in exploration.properties:
        if p.name in proof.vacuous and proof.strongest(p) == "proved":
            text = f"{p.name} is proved, but vacuous: {proof.vacuous[p.name]}"
            screen.print(text, markup=False, style="yellow", soft_wrap=True)
    contradicted(screen, proof.contradicted(exploration.properties))


def contradicted(screen: Console, names: Sequence[str]) -> None:
    """Properties that are proved, and violated."""
    for name in names:
        text = f"{name} is proved, and yet violated: one of the two is an error in Leasehold; please report it"
        screen.print(text, markup=False, style="red", soft_wrap=True)


def counterexamples(
    screen: Console,
    results: Iterable[PropertyResult],
    declared: Mapping[str, Property],
    replay: Callable[[str], str],
    brief: bool = False,
    whole: Collection[str] = (),
) -> None:
    """Every violated property that a path contradicts: its meaning, its claim, the path, and how to see it again.

    `replay` makes the command that shows the path of a property; one that was asked for by name (`whole`) needs none.
    """
    for p in results:
        if p.verdict == "violated" and p.path is not None:
            screen.print(f"\n[red]{escape(p.name)} is violated[/]" + (f": {escape(p.reason)}" if p.reason else ""))
            for line in textwrap.wrap(p.doc, min(screen.width, 100) - 2):
                screen.print(Text(f"  {line}", style="dim"))
            for line in _claim(declared.get(p.name)):
                screen.print(Text(f"  {line}"), soft_wrap=True)
            for part in p.failed:
                screen.print(Text(f"  false: {part}", style="red"), soft_wrap=True)
            path(screen, p.path, brief, None if p.name in whole else LONG)
            if p.name not in whole:
                screen.print(f"replay it:  {replay(p.name)}", markup=False, soft_wrap=True)


def witnesses(screen: Console, results: Iterable[PropertyResult], names: Iterable[str], brief: bool = False) -> None:
    """The paths that were asked for of properties that are not violated."""
    wanted = set(names)
    for p in results:
        if p.name in wanted and p.verdict != "violated":
            screen.print(f"\n{p.name}: {_WORDS[p.verdict][0]}" + ("" if p.path else ", so there is no path to show"))
            if p.path is not None:
                path(screen, p.path, brief)


def path(screen: Console, trace: Path, brief: bool, limit: int | None = None) -> None:
    """A path step by step; briefly: a line for each step, with the states that it changed."""
    if limit is not None and len(trace) > limit:
        path(screen, Path(trace.initial, trace.steps[: limit // 2]), brief)
        ends = trace.loop is not None and trace.loop >= len(trace)
        loop = "" if trace.loop is None else f"; from step {trace.loop + 1} on they repeat"
        loop = "; then nothing more happens" if ends else loop
        screen.print(f"  --- {counted(len(trace) - limit // 2, 'more step')}{loop} ---", markup=False)
        return
    screen.print(trace_text(trace, brief), markup=False, end="", soft_wrap=True)
    kinds = [step.kind for step in trace.steps]
    if "crash" in kinds and "lose" in kinds[kinds.index("crash") :]:
        screen.print(LOST, markup=False, style="dim", soft_wrap=True)


def left_over(screen: Console, exploration: Exploration, explained: Iterable[str] = ()) -> None:
    """Transitions that are never taken and claims that say nothing: few by name, many by number."""
    known = set(explained)
    if not exploration.complete:
        return
    sides = (
        ("transition", "never taken", exploration.unvisited_transitions),
        ("property", "vacuous", exploration.vacuous),
    )
    for noun, label, names in sides:
        fresh = [n for n in names if n not in known]
        if fresh and len(fresh) <= FEW:
            screen.print(f"[yellow]{label}:[/] {escape(', '.join(fresh))}", soft_wrap=True)
        elif fresh:
            screen.print(f"[yellow]{counted(len(fresh), noun)} {label}[/] [dim](`leasehold check` lists them)[/]")
        explained_ones(screen, len(names) - len(fresh), label)


def explained_ones(screen: Console, number: int, label: str) -> None:
    if number:
        screen.print(f"[dim]{number} {label}, as expected.yaml explains[/]")


def differences(screen: Console, differing: Sequence[Difference], file: str, where: str = "", renew: str = "") -> None:
    """The differences from what a file expects; many that are alike are printed as one, and each kind has its remedy.

    Args:
        screen: where to print.
        differing: the differences.
        file: that expects it: `expected.yaml`, `crash.yaml`.
        where: an explanation stands in it; left out: the file.
        renew: the command that renews the numbers in it, if there is one.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for d in differing:
        groups.setdefault((d.explain_under, d.expected, d.found), []).append(d.what)
    for (key, expected, got), names in groups.items():
        text = f"{got}, and not explained in {file}" if key else f"expected {expected}, found {got}"
        if len(names) == 1:
            screen.print(f"  {names[0]}: {text}", markup=False, soft_wrap=True)
        else:
            screen.print(f"  {len(names)} {text}:", markup=False)
            for name in names:
                screen.print(f"    {name}", markup=False, soft_wrap=True)
        if key:
            name = f'"{names[0]}"' if "*" in names[0] else names[0]
            screen.print(
                f"  remedy: change this, or explain it in {where or file}: `{key}: {{{name}: why}}`",
                markup=False,
                style="dim",
                soft_wrap=True,
            )
    if renew and any(d.what in NUMBERS for d in differing):
        screen.print(
            f"  remedy: `{renew}` renews the numbers, if the change is intended",
            markup=False,
            style="dim",
            soft_wrap=True,
        )


def _note(p: PropertyResult) -> str:
    if p.path is None:
        return p.reason
    steps = f"{'counterexample' if p.verdict == 'violated' else 'witness'} of {counted(len(p.path), 'step')}"
    return f"{steps}; {p.reason}" if p.reason else steps


def _claim(p: Property | None) -> Iterator[str]:
    """The claim as it was read, a line for each part that `and` joins."""
    if p is None:
        return
    sides = [("when", p.when), (p.kind, p.claim)]
    if p.kind == "step" and p.when is None:
        sides = [("every step", p.claim)]
    width = max(len(word) for word, e in sides if e is not None)
    for word, e in sides:
        if e is not None:
            parts = x.conjuncts(e)
            for number, part in enumerate(parts):
                text = x.text(part, 3 if len(parts) > 1 else 0)
                yield f"{word if number == 0 else '':<{width}}  {'and ' if number else ''}{text}"
    if p.within is not None:
        yield f"{'within':<{width}}  {counted(p.within, 'tick')}"


def _wrapped(screen: Console, text: str, indent: str) -> list[str]:
    if not screen.is_terminal:
        return [text]
    return textwrap.wrap(text, screen.width, subsequent_indent=indent, break_long_words=False) or [text]


def convergence(
    screen: Console, recovery: Convergence, faults: str, brief: bool, more: str, with_ends: bool = True
) -> None:
    """Checks whether the system stabilises by itself once faults stop, and how fast; `more` says where it does not.

    A system without `ends` is told of them where the run comes to rest.
    """
    screen.print(
        f"\nfaults {faults}: {recovery.legal_states:,} legal states, {recovery.recovery_states:,} recovery states",
        markup=False,
    )
    stabilises(screen, recovery, stabilises_words(recovery))
    if recovery.converges is False and recovery.path is not None:
        path(screen, recovery.path, brief)
        screen.print(f"what a legal state has otherwise:  {more}", markup=False, soft_wrap=True)
        if not with_ends and recovery.path.loop is not None and recovery.path.loop >= len(recovery.path):
            text = "if the system may rest there:  name the condition under `ends` in invariants.yaml"
            screen.print(text, markup=False, soft_wrap=True)


def stabilises(screen: Console, recovery: Convergence | None, sentence: str, verbose: bool = True) -> None:
    """These words, and how many runs end elsewhere."""
    style = "yellow" if recovery is None or recovery.converges is None else "green" if recovery.converges else "red"
    lead, colon, rest = sentence.partition(":")
    screen.print(Text(lead, style=style).append(colon + rest, style="default"), soft_wrap=True)
    note(screen, other_ends_words(recovery) if verbose else "")


def note(screen: Console, text: str) -> None:
    """A remark below a line; nothing where there are no words."""
    for line in textwrap.wrap(text, min(screen.width, 110) - 2):
        screen.print(Text(f"  {line}", style="dim"))
