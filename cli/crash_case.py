"""The case of a crash that a person names: cell, point and mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import click

from leasehold.checker.crash.analysis import CrashReport
from leasehold.checker.crash.cases import ANY, Case
from leasehold.cli.common import no_such
from leasehold.faults.model import crash_points
from leasehold.impl.words import counted
from leasehold.reports import crash_words
from leasehold.spec import System
from leasehold.spec.language.diagnostics import listed
from leasehold.spec.language.model import machine_name


@dataclass(frozen=True, slots=True)
class Wanted:
    """A case as it was asked for: its names are right, but there may be no such case."""

    cell: tuple[str, ...]
    point: str
    mode: str | None

    def of(self, report: CrashReport) -> Case:
        """The case; a usage error where it was not explored."""
        if not report.cases:
            why = f"nobody crashes under {report.budget}" if report.complete else crash_words.why_incomplete(report)
            raise click.UsageError(f"no case was tried: {why}")
        name = crash_words.cell_name(self.cell)
        if all(cell != self.cell for cell, _, _ in report.cases):
            cells = dict.fromkeys(crash_words.cell_name(cell) for cell, _, _ in report.cases)
            _none(f"no case has the cell {name}", name, cells)
        points = {point: None for cell, point, _ in report.cases if cell == self.cell}
        if self.point not in points:
            _none(f"nothing stops at {self.point} in {name}", self.point, points)
        modes = [m for m in report.modes if (self.cell, self.point, m) in report.cases]
        if self.mode is not None and self.mode not in modes:
            raise click.UsageError(f"--mode: no restart of this case is {self.mode}; it has {', '.join(modes)}")
        return self.cell, self.point, self.mode or modes[0]


def wanted_case(model: System, cell: str, point: str, mode: str | None) -> Wanted:
    """Checks the names of a case against the system, before anything is explored."""
    machines = [
        (machine_name(model.roles[r], i), model.roles[r], i) for r in model.product for i in range(model.roles[r].count)
    ]
    states = cell.split("/")
    if len(states) != len(machines):
        example = crash_words.cell_name([role.first(i).name for _, role, i in machines])
        raise click.UsageError(
            f"a cell of {model.name} has {counted(len(machines), 'state')} "
            f"({', '.join(name for name, *_ in machines)}), such as {example}; {cell[:80]!r} has {len(states)}"
        )
    for state, (name, role, _) in zip(states, machines, strict=True):
        if state not in role.states:
            _none(f"{name} has no state {state[:60]!r}", state, role.states)
    bare = point.partition("@")[0]
    known = [p.name for p in crash_points(model)]
    if bare not in known:
        _none(f"there is no crash point {bare[:100]!r}", bare, known)
    modes = tuple(model.faults.modes) or (ANY,)
    if mode is not None and mode not in modes:
        _none(f"--mode: {model.name} has no mode {mode[:60]!r}", mode, modes)
    return Wanted(tuple(states), point, mode)


def _none(message: str, name: str, known: Iterable[str]) -> NoReturn:
    names = list(known)
    no_such(message, name, names, f"there is {listed(names)}")
