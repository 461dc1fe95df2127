"""The texts of the crash analysis: names of cases, whether the system stabilises, and the worst cases, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leasehold.checker.explore.result import Path
from leasehold.impl.words import counted, together

if TYPE_CHECKING:  # they take a while to load
    from leasehold.checker.crash.analysis import CellVerdict, CrashReport
    from leasehold.checker.crash.cases import Case, WorstCase
    from leasehold.checker.crash.convergence import Convergence
    from leasehold.faults.model import Budget


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


# Whether it returns


def convergence_words(report: CrashReport) -> str:
    """Says whether the system stabilises, or why that was not checked."""
    after, budget = report.convergence, report.budget
    if after is None:
        why = lasting_words(budget, byzantine_name(report)) if report.complete else why_incomplete(report)
        return f"not checked whether it stabilises: {why}"
    return stabilises_words(after)


def lasting_words(budget: Budget, byzantine: str) -> str:
    """Says what is not over once the faults of a budget stop; empty if all is. The Byzantine actor by a name."""
    if budget.passes:
        return ""
    if budget.halt:
        return "an actor may halt for good"
    return "clocks continue to differ" if budget.skew or budget.drift else f"{byzantine} may do anything"


def byzantine_name(report: CrashReport) -> str:
    """The Byzantine actor, with its roles where its name does not tell them."""
    traitor = report.traitor
    if traitor is None:
        return str(report.budget.byzantine)
    roles = list(dict.fromkeys(role for role, _ in traitor.machines))
    return traitor.name if roles == [traitor.name.partition("[")[0]] else f"{traitor.name} ({', '.join(roles)})"


def byzantine_note(report: CrashReport) -> str:
    """Returns how cells are to be read where an actor is Byzantine; empty where none is."""
    if report.traitor is None:
        return ""
    return (
        f"{byzantine_name(report)} may do anything and does not crash; its cells show its initial state, which is "
        "ignored when a cell is called legal"
    )


def stabilises_words(after: Convergence) -> str:
    """Says whether a system stabilises by itself, as a sentence without its full stop."""
    if after.converges is None:
        return "not decided whether it stabilises: the runs that do not return leave the bounds of the search"
    if not after.converges:
        return "does not stabilise: once faults stop, a run never returns to a legal state"
    if after.worst_steps is None:
        return "stabilises: every fair run returns; the longest was not found, as there are too many to try"
    if not after.recovery_states:
        return "stabilises: no fault leads to a state that is not legal"
    return (
        f"stabilises: every fair run returns to a legal state, in at most {counted(after.worst_steps, 'step')} and "
        f"{counted(after.worst_exchanges or 0, 'message')} received"
    )


def other_ends_words(after: Convergence | None) -> str:
    """Returns how many runs end in a state that is not legal, and why they count; empty if none does."""
    if after is None or not after.other_ends:
        return ""
    count = "counts" if after.other_ends == 1 else "count"
    return (
        f"{counted(after.other_ends, 'recovery state')} {count} as returned: no "
        "step has to happen there and an end of the system holds, although no run without faults ends there"
    )


def worst_words(worst: WorstCase) -> str:
    """The worst convergence of a case."""
    if worst.returns is None:
        return "not checked"
    if not worst.returns:
        return "does not return"
    if worst.steps is None:
        return "not measured"
    return (
        "legal at once"
        if not worst.steps
        else f"{counted(worst.steps, 'step')}, {counted(worst.exchanges or 0, 'message')}"
    )


# The worst cases


def longest_case(report: CrashReport) -> Case | None:
    """The case with the longest way back, or from which a run does not return; None where this was not checked."""
    if report.convergence is None or not report.cases:
        return None
    return min(report.cases, key=lambda c: (*severity(report.cases[c]), c))


def longest_words(report: CrashReport) -> str:
    """The longest way back of a case, and why it may be shorter than what the system takes; empty where none is."""
    case, after = longest_case(report), report.convergence
    if case is None or after is None or not report.cases[case].size:
        return ""
    worst = report.cases[case]
    sentence = f"the worst case is {case_name(case)}: {worst_words(worst)}"
    if worst.steps is not None and (after.worst_steps or 0) > worst.steps:
        sentence += (
            f"; it is counted from the restart, and the {after.worst_steps} steps from any recovery state, such as one "
            "in which an actor is still down"
        )
    return sentence


def worst_case(report: CrashReport) -> tuple[str, Path] | None:
    """The run that is drawn, and its name: one that never returns, or else the case with the longest way back."""
    after = report.convergence
    if after is not None and after.converges is False and after.path is not None:
        return "once faults stop, this run never returns", after.path
    case = longest_case(report)
    return None if case is None else (case_name(case), report.path(case))


def worst_first(report: CrashReport) -> list[CellVerdict]:
    """The cells by their worst convergence."""
    return sorted(report.cells, key=lambda cell: (not cell.points, *severity(cell.worst), cell.control))


def differences_words(report: CrashReport, case: Case | None) -> str:
    """Says what keeps the state in which a run stays from being a legal one; empty where the run returns."""
    differences = report.differences(case)
    if not differences:
        return ""
    parts = [f"{d.what} is {d.legal or 'empty'} (here {d.here or 'not'})" for d in differences]
    return f"in the nearest legal state {together(parts)}{report.end_of_time(case)}"


def shown_run(report: CrashReport) -> Case | None:
    """The case whose endless run is shown; None: the one that convergence found."""
    case = longest_case(report)
    return case if case is not None and report.cases[case].returns is False else None


def severity(worst: WorstCase) -> tuple[int, int]:
    """Returns a sort key, the worst first: by size, then by exchanges, None being worse than any number."""
    return -worst.size, -(1 << 60) if worst.exchanges is None else -worst.exchanges
