"""Crash points at which nothing stopped, and why: by the budget, or as the system's `crash.yaml` explains.

A point may not be met because its machine never comes to the state, because no crash is left when it does, or because
the point takes a second crash. That is seen. Everything else needs a reason, in the manner of expected.yaml: otherwise
"crashed at every point" would say less than it seems to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.checker.crash.analysis import CrashReport
from leasehold.checker.explore.expectations import Difference, Explanation, explanations_of, read_checked
from leasehold.faults.model import CrashPoint, crash_points
from leasehold.faults.model.points import BEFORE, RECOVERING, point_name
from leasehold.spec import System
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.read.shape import FILES

FILE = "crash.yaml"


@dataclass(frozen=True, slots=True)
class Unmet:
    """A crash point at which nothing stopped.

    Attributes:
        name: the point.
        reason: why; empty where nothing explains it.
        pattern: what explains it in crash.yaml; empty where that is seen without.
    """

    name: str
    reason: str
    pattern: str = ""


def explanations(name_or_folder: str | Path, system: System) -> tuple[Explanation, ...]:
    """The explanations of a system's crash.yaml; none where there is no such file.

    Raises:
        SpecError: the file is wrong: its shape, or an explanation of what is no crash point.
    """
    sink = Sink()
    node = read_checked(name_or_folder, FILE, FILES["crash"], sink)
    if node is None:
        return ()
    remedy = "remove the explanation, or write the point's name as `leasehold crash points SYSTEM` does"
    names = [p.name for p in crash_points(system)]
    explained = explanations_of(node.get("unmet"), names, "crash point", remedy, sink)
    sink.raise_errors()
    return explained


def unmet(report: CrashReport, known: Iterable[Explanation] = ()) -> tuple[Unmet, ...] | None:
    """The points at which nothing stopped, each with its reason; None: not known, the search was cut short.

    What keeps a state from being left after some of its tasks keeps its recovery from it too, which does them anew.
    """
    if report.unmet is None:
        return None
    known, missing = tuple(known), frozenset(report.unmet)
    seen, points = _seen(report, missing), []
    for name in report.unmet:
        first = name.replace(f"#{RECOVERING}-", "#")
        names = {name, first} & missing
        explanation = next((e for e in known if any(map(e.fits, names))), None)
        if name in seen or explanation is None:
            points.append(Unmet(name, seen.get(name, "")))
        else:
            points.append(Unmet(name, explanation.reason, explanation.pattern))
    return tuple(points)


def differences(points: Iterable[Unmet], known: Iterable[Explanation]) -> Iterator[Difference]:
    """Points that nothing explains, and explanations of what is met after all."""
    used = set()
    for point in points:
        used.add(point.pattern)
        if not point.reason:
            yield Difference(point.name, f"a crash there, or an explanation in {FILE}", "never met", "unmet")
    for e in known:
        if e.pattern not in used:
            yield Difference(e.pattern, "never met", "met, or the budget of faults explains it")


def _seen(report: CrashReport, missing: Collection[str]) -> Mapping[str, str]:
    """Points of which the exploration itself shows why they are not met."""
    reasons: dict[str, str] = {}
    came = _states_reached(report, {(p.role, p.state) for p in report.points if p.name in missing})
    for point in report.points:
        if point.name not in missing:
            continue
        if (point.role, point.state) not in came:
            reasons[point.name] = "its machine never comes to this state"
        elif point_name(point.role, point.state, BEFORE) in missing:
            reasons[point.name] = "no crash is left when its machine comes to this state"
        elif report.budget.crash + report.budget.power_cut < 2 and _takes_two(point):
            reasons[point.name] = "it takes a second crash, during recovery"
    return reasons


def _takes_two(point: CrashPoint) -> bool:
    """Returns whether recovery has done something there that the model sees, so that stopping is a crash of its own."""
    return all(f"#{RECOVERING}-" in effect for effect in point.effects)


def _states_reached(report: CrashReport, asked: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Returns which of these states of roles some machine comes to that keeps to its role."""
    world = report.faulty.paths.world
    assert world.faulty
    roles = {role for role, _ in asked}
    machines = [
        (role.name, world.layout.at(role.name, i, None))
        for role, i in report.system.machines()
        if role.name in roles and world.layout.of[role.name, i] is not report.traitor
    ]
    reached: set[tuple[str, str]] = set()
    for role_name, cell in machines:
        reached.update((role_name, state) for (state,) in report.faulty.paths.combinations([cell])[1])
    return reached & asked
