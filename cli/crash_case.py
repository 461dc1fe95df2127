"""One case of `leasehold crash`: a cell, a crash point and a mode, checked, found and printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import click

from leasehold.checker.cases import ANY, Case
from leasehold.checker.crash import CrashReport
from leasehold.cli import tables
from leasehold.cli.common import console, print_json
from leasehold.faults import crash_points
from leasehold.reports.crash_words import case_name, cell_name, why_incomplete
from leasehold.reports.json_report import path_json
from leasehold.reports.lifelines import path_svg
from leasehold.reports.words import counted
from leasehold.reports.write import safe_name
from leasehold.spec import System
from leasehold.spec.language.diagnostics import listed, near_miss
from leasehold.spec.language.model import machine_name


@dataclass(frozen=True, slots=True)
class Wanted:
    """A case as it was asked for: its names are right, but there may be no such case."""

    cell: tuple[str, ...]
    point: str
    mode: str | None

    def of(self, found: CrashReport) -> Case:
        """The case; a usage error where it was not explored."""
        if not found.cases:
            why = f"nobody crashes under {found.budget}" if found.complete else why_incomplete(found)
            raise click.UsageError(f"no case was tried: {why}")
        name = cell_name(self.cell)
        if all(cell != self.cell for cell, _, _ in found.cases):
            cells = dict.fromkeys(cell_name(cell) for cell, _, _ in found.cases)
            _none(f"--case: no case has the cell {name}", name, cells)
        points = {point: None for cell, point, _ in found.cases if cell == self.cell}
        if self.point not in points:
            _none(f"--point: nothing stops at {self.point} in {name}", self.point, points)
        modes = [m for m in found.modes if (self.cell, self.point, m) in found.cases]
        if self.mode is not None and self.mode not in modes:
            raise click.UsageError(f"--mode: no restart of this case is {self.mode}; it has {', '.join(modes)}")
        return self.cell, self.point, self.mode or modes[0]

    def drawing(self, found: CrashReport) -> tuple[str, str]:
        """The name of a file and the sequence diagram."""
        case = self.of(found)
        cell, point, mode = case
        name = safe_name(f"{'.'.join(cell)}.{point.removeprefix('crash:')}.{mode}.svg")
        return name, path_svg(found.path(case), f"{found.system.name}: {case_name(case)}")


def wanted_case(model: System, cell: str, point: str, mode: str | None) -> Wanted:
    """Checks the names of a case against the system, before anything is explored."""
    machines = [
        (machine_name(model.roles[r], i), model.roles[r]) for r in model.product for i in range(model.roles[r].count)
    ]
    states = cell.split("/")
    if len(states) != len(machines):
        example = cell_name([role.initial.name for _, role in machines])
        raise click.UsageError(
            f"--case: a cell of {model.name} has {counted(len(machines), 'state')} "
            f"({', '.join(name for name, _ in machines)}), such as {example}; {cell[:80]!r} has {len(states)}"
        )
    for state, (name, role) in zip(states, machines, strict=True):
        if state not in role.states:
            _none(f"--case: {name} has no state {state[:60]!r}", state, role.states)
    bare = point.partition("@")[0]
    known = [p.name for p in crash_points(model)]
    if bare not in known:
        _none(f"--point: there is no crash point {bare[:100]!r}", bare, known)
    modes = tuple(model.faults.modes) or (ANY,)
    if mode is not None and mode not in modes:
        _none(f"--mode: {model.name} has no mode {mode[:60]!r}", mode, modes)
    return Wanted(tuple(states), point, mode)


def print_case(found: CrashReport, wanted: Wanted, as_json: bool) -> None:
    """The path of a case, step by step."""
    case = wanted.of(found)
    path, worst = found.path(case), found.cases[case]
    if as_json:
        cell, point, mode = case
        print_json(
            {
                "case": list(cell), "point": point, "mode": mode, "worst_steps": worst.steps,
                "worst_exchanges": worst.exchanges, "returns": worst.returns, "path": path_json(path),
            }
        )  # fmt: skip
        return
    screen = console()
    if worst.returns is None:
        words = "whether it returns was not asked"
    elif not worst.returns:
        words = "once faults stop, a run never comes back to a legal state"
    elif worst.steps is None:
        words = "no bound is known for how long it takes"
    elif not worst.steps:
        words = "legal again with the restart"
    else:
        words = f"legal again at most {counted(worst.steps, 'step')} and {worst.exchanges} messages later"
    screen.print(f"{case_name(case)}: {words}", markup=False, soft_wrap=True)
    tables.path(screen, path, brief=False)


def _none(words: str, name: str, known: Iterable[str]) -> NoReturn:
    names = list(known)
    near = near_miss(name, names)
    raise click.UsageError(f"{words}; {f'did you mean {near}?' if near else f'there is {listed(names)}'}")
