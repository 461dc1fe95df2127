"""What crashes do to a system, for people and programs: the paper's table of states and crash points, made whole.

The page is meant to be compared, so nothing in it differs between two runs of the same system. `measured=False` keeps
time and memory out of the JSON for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leasehold.checker.cases import Case, Worst
from leasehold.checker.crash import CellVerdict, CrashReport
from leasehold.checker.explore.result import Path, PropertyResult
from leasehold.checker.stabilise import Convergence
from leasehold.reports.json_report import constant_value, property_json
from leasehold.reports.lifelines import path_svg
from leasehold.reports.markdown import code, prose, table_rows
from leasehold.reports.verdicts import WORDS
from leasehold.reports.words import counted
from leasehold.spec.language.types import show


def crash_json(report: CrashReport, *, cells: bool = True, measured: bool = True) -> dict[str, Any]:
    """The report as JSON values; null stands for what was not asked or has no number."""
    system, faulty, after = report.system, report.faulty, report.convergence
    found: dict[str, Any] = {
        "system": system.name,
        "spec_digest": system.digest,
        "constants": {name: constant_value(c) for name, c in system.constants.items()},
        "faults": str(report.budget),
        "distinct": faulty.distinct,
        "generated": faulty.generated,
        "crash_points": len(points_tried(report)),
        "crash_points_total": len(report.points),
        "scenarios": len(report.cases),
        "legal_states": None if after is None else after.legal_states,
        "recovery_states": None if after is None else after.recovery_states,
        "other_ends": None if after is None else after.other_ends,
        "converges": None if after is None else after.converges,
        "worst_steps": None if after is None else after.worst_steps,
        "worst_exchanges": None if after is None else after.worst_exchanges,
        "never_reached": never_reached(report),
        "complete": report.complete,
        "why_incomplete": why_incomplete(report),
        "holds": report.holds,
    }
    if measured:
        found["seconds"] = report.seconds
        found["peak_memory_bytes"] = faulty.peak_memory_bytes
    found["properties"] = [_property(p, report) for p in report.faulty.properties]
    if cells:
        found["product_machines"] = list(faulty.product_machines)
        found["cells"] = [_cell(cell) for cell in report.cells]
    return found


def crash_markdown(report: CrashReport) -> str:
    """The page, as text."""
    system = report.system
    settings = [code(f"{c.name}={show(c.type, c.value)}") for c in system.constants.values()]
    with_settings = f" with {', '.join(settings)}" if settings else ""
    lines = [f"# {prose(system.name)} under {code(str(report.budget))}", ""]
    lines += [f"What faults do to the system{with_settings}.", "", *_findings(report), ""]
    lines += table_rows(("", ""), _counts(report))
    lines += ["", "## Properties", ""]
    lines += table_rows(("verdict", "property", "kind", "says"), (_property_row(p, report) for p in _by_need(report)))
    lines += ["", "## Cells", "", *_cells(report)]
    tried = [cell for cell in report.cells if cell.points]
    if tried:
        lines += ["", "## Cases"]
        for cell in tried:
            lines += ["", f"### {prose(cell_name(cell.control))}", "", *_cases(report, cell)]
    untried = [p.name for p in report.points if p.name not in points_tried(report)]
    if untried and report.cases:
        lines += ["", "## Crash points that were not met", ""]
        lines += [f"- {code(name)}" for name in untried]
    return "\n".join(lines) + "\n"


def _findings(report: CrashReport) -> Iterator[str]:
    for words in filter(None, (convergence_words(report), other_ends_words(report.convergence))):
        yield prose(words[0].upper() + words[1:] + ".")


def worst_case(report: CrashReport) -> tuple[str, Path] | None:
    """What to draw: the run that never returns, or else the case with the longest way back, and its name."""
    after = report.convergence
    if after is not None and not after.converges and after.path is not None:
        return "once faults stop, this run never comes back", after.path
    if not report.cases:
        return None
    case = min(report.cases, key=lambda c: (*_badness(report.cases[c]), c))
    return case_name(case), report.path(case)


def worst_svg(report: CrashReport) -> str | None:
    """The worst case as a sequence diagram."""
    worst = worst_case(report)
    return None if worst is None else path_svg(worst[1], f"{report.system.name}: {worst[0]}")


def worst_first(report: CrashReport) -> list[CellVerdict]:
    """The cells by their worst convergence."""
    return sorted(report.cells, key=lambda cell: (not cell.points, *_badness(cell.worst), cell.control))


def cell_name(control: Sequence[str]) -> str:
    """`redeeming/ticketed/priming`."""
    return "/".join(control)


def case_name(case: Case) -> str:
    cell, point, mode = case
    return f"{cell_name(cell)}, {point}, {mode}"


def points_tried(report: CrashReport) -> frozenset[str]:
    """The points of the catalogue that were explored, alone or in a crash of several actors."""
    return frozenset(p.name for p in report.points) & {name.partition("@")[0] for name in report.tried}


def never_reached(report: CrashReport) -> int:
    return report.faulty.product_states - len(report.faulty.cells)


def why_incomplete(report: CrashReport) -> str:
    return report.legal.why_incomplete or report.faulty.why_incomplete


def convergence_words(report: CrashReport) -> str:
    """The same, or why it was not asked."""
    after, budget = report.convergence, report.budget
    if after is None:
        why = (
            why_incomplete(report) if not report.complete
            else "an actor may halt for good" if budget.halt
            else "clocks go on to differ" if budget.skew
            else f"{budget.byzantine} may do anything"
        )  # fmt: skip
        return f"not asked whether it stabilises: {why}"
    return stabilises_words(after)


def stabilises_words(after: Convergence) -> str:
    """Whether a system stabilises by itself, as a sentence without its full stop."""
    if not after.converges:
        return "does not stabilise: once faults stop, a run never comes back to a legal state"
    if after.worst_steps is None:
        return "stabilises: every fair run comes back to a legal state; no bound was found for how long it takes"
    if not after.recovery_states:
        return "stabilises: no fault leads to a state that is not legal"
    return (
        f"stabilises: every fair run comes back to a legal state, in at most {counted(after.worst_steps, 'step')} and "
        f"{counted(after.worst_exchanges or 0, 'message')} received"
    )


def other_ends_words(after: Convergence | None) -> str:
    """What has to be said of runs that end elsewhere; empty where none does."""
    if after is None or not after.other_ends:
        return ""
    return (
        f"{counted(after.other_ends, 'recovery state')} {'counts' if after.other_ends == 1 else 'count'} as come back "
        "because the run is over there: nothing has to happen any more and an end of the system holds, though no run "
        "without faults ends so"
    )


def _badness(worst: Worst) -> tuple[int, int]:
    """For sorting, the worst first; what has no number is worse than any."""
    return (
        -(1 << 60) if worst.steps is None else -worst.steps,
        -(1 << 60) if worst.exchanges is None else -worst.exchanges,
    )


def _property(p: PropertyResult, report: CrashReport) -> dict[str, Any]:
    """As property_json, with the path alone that a weakest budget gives, or of what is violated anyhow."""
    weakest = report.weakest.get(p.name)
    shown = report.under_weakest.get(p.name, p)
    return {**property_json(shown, paths=p.verdict == "violated"), "weakest": None if weakest is None else str(weakest)}


def _cell(cell: CellVerdict) -> dict[str, Any]:
    return {
        "control": list(cell.control),
        "legal": cell.legal,
        "crash_points": list(cell.points),
        "cases": dict(cell.cases),
        "worst_steps": cell.worst.steps if cell.points else None,
        "worst_exchanges": cell.worst.exchanges if cell.points else None,
    }


def _by_need(report: CrashReport) -> list[PropertyResult]:
    """What breaks under faults first."""
    broken = report.broken
    return sorted(report.faulty.properties, key=lambda p: (p.name not in broken, p.verdict != "violated"))


def _property_row(p: PropertyResult, report: CrashReport) -> list[str]:
    word, says = WORDS[p.verdict], [prose(p.doc)] if p.doc else []
    if p.name in report.broken:
        word = f"**{word}**"
        weakest = report.weakest.get(p.name)
        says.append(f"*Breaks under {code(str(weakest or report.budget))}.*")
    elif p.verdict == "violated":
        says.append("*Violated without faults too.*")
    elif p.verdict in ("bounded", "unasked") and p.reason:
        says.append(f"*{prose(p.reason)}*")
    return [word, code(p.name), p.kind, " ".join(says)]


def _counts(report: CrashReport) -> Iterator[Sequence[str]]:
    after, cells = report.convergence, report.faulty.cells
    legal = sum(cell.legal for cell in report.cells)
    yield "global states under faults", f"{report.faulty.distinct:,}"
    if after is not None:
        yield "of them legal: reachable without faults", f"{after.legal_states:,}"
        yield "of them recovery states", f"{after.recovery_states:,}"
        if after.other_ends:
            yield "recovery states in which a run may end", f"{after.other_ends:,}"
    yield "control states of the product", f"{report.faulty.product_states:,}"
    yield "of them reached under faults", f"{len(cells):,}"
    yield "of these, reached without faults", f"{legal:,}"
    yield "crash points", f"{len(report.points):,}"
    if report.cases:
        yield "of them tried", f"{len(points_tried(report)):,}"
        yield "cases: a cell, a crash point and a mode", f"{len(report.cases):,}"
        for mode in report.modes if len(report.modes) > 1 else ():
            yield f"of them {prose(mode)}", f"{sum(1 for _, _, m in report.cases if m == mode):,}"
    yield "complete", "yes" if report.complete else f"**no**: {prose(why_incomplete(report))}"
    yield "digest of the spec", code(report.system.digest)


def _cells(report: CrashReport) -> Iterator[str]:
    machines = [prose(name) for name in report.faulty.product_machines]
    head = (*machines, "reached", "crash points", *(f"cases {prose(m)}" for m in report.modes), "verdict", "worst")
    yield from table_rows(
        head,
        (
            [
                *map(prose, cell.control),
                "legal" if cell.legal else "recovery",
                str(len(cell.points)),
                *(str(cell.cases[mode]) for mode in report.modes),
                _verdict(report, cell),
                _worst(cell.worst) if cell.points else "",
            ]
            for cell in report.cells
        ),
    )
    yield ""
    where = "reached" if report.complete else "reached so far"
    yield f"{never_reached(report):,} of {report.faulty.product_states:,} control states are never {where}."


def _verdict(report: CrashReport, cell: CellVerdict) -> str:
    if report.convergence is None or not cell.points:
        return "not asked"
    if report.convergence.converges:
        return "returns"
    return "returns" if cell.worst == Worst(0, 0) else "**not decided**: the system does not stabilise"


def _cases(report: CrashReport, cell: CellVerdict) -> Iterator[str]:
    yield from table_rows(
        ("crash point", *(prose(mode) for mode in report.modes)),
        (
            [code(point), *(_worst(report.cases.get((cell.control, point, mode))) for mode in report.modes)]
            for point in cell.points
        ),
    )


def _worst(worst: Worst | None) -> str:
    if worst is None:
        return ""
    if worst.steps is None:
        return "no bound"
    return "legal at once" if not worst.steps else f"{worst.steps} steps, {worst.exchanges} messages"
