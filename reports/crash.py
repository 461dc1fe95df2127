"""The results of the crash analysis as JSON and Markdown: for each cell of the product, every crash point and mode.

The page is meant to be compared, so nothing in it differs between two runs of the same system. `measured=False` keeps
time and memory out of the JSON for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from leasehold.checker.crash.analysis import CellVerdict, CrashReport
from leasehold.checker.crash.cases import Case, WorstCase
from leasehold.checker.crash.unmet import Unmet, unmet
from leasehold.checker.explore.expectations import Explanation
from leasehold.checker.explore.result import PropertyResult
from leasehold.reports import crash_words
from leasehold.reports.commands import case_command
from leasehold.reports.json_report import convergence_json, path_json, picked, plain, property_json, system_json
from leasehold.reports.lifelines import path_svg
from leasehold.reports.markdown import code, prose, table_rows
from leasehold.reports.verdicts import WORDS
from leasehold.spec.language.types import show


def crash_json(
    report: CrashReport, *, cells: bool = True, measured: bool = True, known: Iterable[Explanation] = ()
) -> dict[str, Any]:
    """The report as JSON values; a figure is null if it was not checked or not measured.

    `worst_path` is a run with the longest way back, or, if the system does not stabilise, one that never returns.
    """
    system, faulty, after = report.system, report.faulty, report.convergence
    whole, worst, missed = faulty.complete, crash_words.longest_case(report), unmet(report, known)
    values: dict[str, Any] = {
        **system_json(system),
        "faults": str(report.budget),
        **picked(faulty, "distinct generated"),
        "crash_points": len(crash_words.points_tried(report)) if whole else None,
        "crash_points_total": len(report.points),
        "crash_points_not_met": None if missed is None else [_unmet(u) for u in missed],
        "scenarios": len(report.cases) if whole else None,
        **convergence_json(after),
        "worst_case": None if worst is None else case_json(report, worst),
        "worst_path": None if after is None or after.path is None else path_json(after.path),
        "not_legal": [] if after is None else plain(report.differences(crash_words.shown_run(report))),
        "never_reached": crash_words.never_reached(report) if report.complete else None,
        "complete": report.complete,
        "why_incomplete": crash_words.why_incomplete(report),
        "holds": report.holds,
    }
    if measured:
        values["seconds"] = report.seconds
        values["peak_memory_bytes"] = faulty.peak_memory_bytes
    values["properties"] = [_property(p, report) for p in report.faulty.properties]
    if cells:
        values["product_machines"] = list(faulty.product_machines)
        values["cells"] = [_cell(cell) for cell in report.cells]
    return values


def crash_markdown(report: CrashReport, known: Iterable[Explanation] = (), drawing: str = "") -> str:
    """The page, as text; `known` are reasons for points that are not met, `drawing` is the file of the worst case."""
    system = report.system
    settings = [code(f"{c.name}={show(c.type, c.value)}") for c in system.constants.values()]
    with_settings = f" with {', '.join(settings)}" if settings else ""
    lines = [f"# {prose(system.name)} under {code(str(report.budget))}", ""]
    lines += [f"The system{with_settings} under these faults.", "", *_findings(report)]
    lines += [*_longest(report, drawing), ""]
    lines += table_rows(("", ""), _counts(report))
    lines += ["", "## Properties", ""]
    lines += table_rows(
        ("verdict", "property", "kind", "statement"), (_property_row(p, report) for p in _by_need(report))
    )
    lines += ["", "## Cells", "", *_cells(report)]
    tried = [cell for cell in report.cells if cell.points]
    if tried:
        lines += ["", "## Cases"]
        for cell in tried:
            lines += ["", f"### {prose(crash_words.cell_name(cell.control))}", "", *_cases(report, cell)]
    missed = unmet(report, known)
    if missed is None:
        lines += ["", "It is not known which crash points are not met: the search was cut short."]
    elif missed:
        lines += ["", "## Crash points not met", ""]
        lines += table_rows(("crash point", "why"), ([code(u.name), prose(u.reason)] for u in missed))
    return "\n".join(lines) + "\n"


def _findings(report: CrashReport) -> Iterator[str]:
    for sentence in (
        crash_words.convergence_words(report),
        crash_words.other_ends_words(report.convergence),
        crash_words.byzantine_note(report),
    ):
        if sentence:
            yield _sentence(sentence)


def _longest(report: CrashReport, drawing: str) -> Iterator[str]:
    """The worst case, how to see it, and where it is drawn."""
    sentence, case = crash_words.longest_words(report), crash_words.longest_case(report)
    if sentence and case is not None:
        yield _sentence(sentence)
        yield from ("", "```sh", case_command(report, case), "```")
    if drawing and crash_words.worst_case(report) is not None:
        after = report.convergence
        drawn = "that case" if after is None or after.converges is not False else "a run that never returns"
        yield from ("", f"[{prose(drawing)}]({drawing}) shows {drawn}.")


def _sentence(sentence: str) -> str:
    return prose(sentence[0].upper() + sentence[1:] + ".")


def worst_svg(report: CrashReport) -> str | None:
    """The worst case as a sequence diagram."""
    worst = crash_words.worst_case(report)
    return None if worst is None else path_svg(worst[1], f"{report.system.name}: {worst[0]}")


def _property(p: PropertyResult, report: CrashReport) -> dict[str, Any]:
    """A property as JSON, with the path under its weakest budget if it breaks under faults."""
    weakest = report.weakest.get(p.name)
    shown = report.under_weakest.get(p.name, p)
    return {**property_json(shown, paths=p.verdict == "violated"), "weakest": None if weakest is None else str(weakest)}


def _cell(cell: CellVerdict) -> dict[str, Any]:
    return {
        **picked(cell, "control legal"),
        "crash_points": list(cell.points),
        "cases": plain(cell.cases),
        **_worst(cell.worst if cell.points else None),
    }


def _unmet(point: Unmet) -> dict[str, Any]:
    return {"name": point.name, "reason": point.reason or None}


def case_json(report: CrashReport, case: Case) -> dict[str, Any]:
    """A case and its worst convergence."""
    cell, point, mode = case
    return {"case": list(cell), "point": point, "mode": mode, **_worst(report.cases[case])}


def _worst(worst: WorstCase | None) -> dict[str, Any]:
    known = worst or WorstCase(None, None, None)
    return {"worst_steps": known.steps, "worst_exchanges": known.exchanges, "returns": known.returns}


def _by_need(report: CrashReport) -> list[PropertyResult]:
    """The properties, those that break under faults first."""
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
        yield "legal: reachable without faults", f"{after.legal_states:,}"
        yield "recovery states: reachable only under faults", f"{after.recovery_states:,}"
        if after.other_ends:
            yield "recovery states in which a run may end", f"{after.other_ends:,}"
    yield "control states of the product", f"{report.faulty.product_states:,}"
    yield "reached under faults", f"{len(cells):,}"
    yield "reached without faults, too", f"{legal:,}"
    yield "crash points", f"{len(report.points):,}"
    if report.cases:
        yield "crash points tried", f"{len(crash_words.points_tried(report)):,}"
        yield "cases: a cell, a crash point and a mode", f"{len(report.cases):,}"
        for mode in report.modes if len(report.modes) > 1 else ():
            yield f"cases {prose(mode)}", f"{sum(1 for _, _, m in report.cases if m == mode):,}"
    yield "complete", "yes" if report.complete else f"**no**: {prose(crash_words.why_incomplete(report))}"
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
                _verdict(cell),
                crash_words.worst_words(cell.worst) if cell.points and cell.worst.returns is not None else "",
            ]
            for cell in report.cells
        ),
    )
    yield ""
    where = "reached" if report.complete else "reached so far"
    yield f"{crash_words.never_reached(report):,} of {report.faulty.product_states:,} control states are never {where}."


def _verdict(cell: CellVerdict) -> str:
    if not cell.points or cell.worst.returns is None:
        return "not checked"
    return "returns" if cell.worst.returns else "**does not return**"


def _cases(report: CrashReport, cell: CellVerdict) -> Iterator[str]:
    yield from table_rows(
        ("crash point", *(prose(mode) for mode in report.modes)),
        ([code(point), *(_case(report, cell, point, mode) for mode in report.modes)] for point in cell.points),
    )


def _case(report: CrashReport, cell: CellVerdict, point: str, mode: str) -> str:
    worst = report.cases.get((cell.control, point, mode))
    return "" if worst is None else "tried" if worst.returns is None else crash_words.worst_words(worst)
