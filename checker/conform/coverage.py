"""The parts of a specification that logs exercise: transitions, cells, control states of the product, crash points.

A *cell* is a control state and an event that it says something of: a transition, `ignore` or `refuse`. Events tell of
a cell where a transition is taken, where a message is received, and where the world outside is refused; a local event
that is ignored leaves no trace, so such cells are none of those that count. A *crash point* is the last transition that
a machine has taken before its actor ended, other than in good order, and came back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from leasehold.impl.core.core import Program
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    RecoveredEvent,
    RefusedEvent,
    SealEvent,
    StepEvent,
)
from leasehold.spec.language.model import System

RoleState: TypeAlias = tuple[str, str]
RoleCell: TypeAlias = tuple[str, str, str]  # role, state, event
Control: TypeAlias = tuple[str, ...]  # for each machine of the product its control state


class Covered(NamedTuple):
    """The exercised share of something.

    Attributes:
        exercised, of: how many, of how many that there are.
        missing: the names of those that were not.
    """

    exercised: int
    of: int
    missing: tuple[str, ...]

    @property
    def percent(self) -> float:
        return 100.0 * self.exercised / self.of if self.of else 100.0

    def as_json(self) -> dict[str, object]:
        return {
            "covered": self.exercised,
            "of": self.of,
            "percent": round(self.percent, 1),
            "missing": list(self.missing),
        }


@dataclass
class Coverage:
    """The counts of what was exercised.

    Attributes:
        transitions: by name.
        cells: by role, state and event.
        control: by control state of the product, how many steps have led there.
        links: by control states before and after, and `role#event`.
        crashed_in: by role and state, how many machines were in it when their actor ended.
        crash_points: by name, how often a transition was a machine's last before its actor ended.
        runs: how many there were.
        partial: sources of which the product's states are not known, as logs of other actors are missing.
    """

    system: System
    transitions: Counter[str] = field(default_factory=Counter)
    cells: Counter[RoleCell] = field(default_factory=Counter)
    control: Counter[Control] = field(default_factory=Counter)
    links: Counter[tuple[Control, Control, str]] = field(default_factory=Counter)
    crashed_in: Counter[RoleState] = field(default_factory=Counter)
    crash_points: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    partial: int = 0

    def add(self, other: Coverage) -> None:
        """Adds what other logs have exercised; of another number of machines not the product, which is another."""
        product = [self.system.roles[name].count for name in self.system.product]
        alike = product == [other.system.roles[name].count for name in other.system.product]
        for name in ("transitions", "cells", "crashed_in", "crash_points", *(["control", "links"] if alike else [])):
            getattr(self, name).update(getattr(other, name))
        self.runs += other.runs
        self.partial += other.partial

    # Of how many

    def of_transitions(self) -> Covered:
        names = [t.name for role in self.system.roles.values() for t in role.transitions()]
        return _covered(self.transitions, {name: name for name in names})

    def of_cells(self) -> Covered:
        return _covered(self.cells, {cell: _cell_name(cell) for cell in cells_of(self.system)})

    def of_crashed_in(self) -> Covered:
        names = {at: "/".join(at) for at in lasting_states(self.system)}
        return _covered(self.crashed_in, names)

    def of_crash_points(self) -> Covered:
        names = [t.name for role in self.system.roles.values() for t in role.transitions()]
        return _covered(self.crash_points, {name: name for name in names})

    def as_json(self) -> dict[str, object]:
        return {
            "transitions": self.of_transitions().as_json(),
            "cells": self.of_cells().as_json(),
            "product": {"covered": len(self.control), "of": product_size(self.system)},
            "crashed_in": self.of_crashed_in().as_json(),
            "crash_points": self.of_crash_points().as_json(),
            "runs": self.runs,
            "sources_without_all_actors": self.partial,
        }


def _covered(seen: Mapping[Any, int], names: Mapping[Any, str]) -> Covered:
    missing = tuple(name for key, name in names.items() if not seen.get(key))
    return Covered(len(names) - len(missing), len(names), missing)


def _cell_name(cell: RoleCell) -> str:
    role, state, event = cell
    return f"{role}/{state}#{event}"


def cells_of(system: System) -> list[RoleCell]:
    """The cells that events can tell of."""
    outside = {(o.role, o.event) for o in system.environment.values()}
    cells = []
    for role in system.roles.values():
        for state in role.states.values():
            for event in dict.fromkeys((*state.on, *state.ignored, *state.refused)):
                message = event in system.messages
                recorded = event in state.on or message or (event in state.refused and (role.name, event) in outside)
                if recorded:
                    cells.append((role.name, state.name, event))
    return cells


def lasting_states(system: System) -> list[RoleState]:
    """The states in which machines have records: all but the first ones of runs' machines, which moving makes."""
    return [
        (role.name, state.name)
        for role in system.roles.values()
        for state in role.states.values()
        if system.standing or not state.initial or any(t.target == state.name for t in role.transitions())
    ]


def product_size(system: System) -> int:
    """Returns how many control states the product has."""
    size = 1
    for name in system.product:
        size *= len(system.roles[name].states) ** system.roles[name].count
    return size


class CoverageCollector:
    """Collects what the logs of the actors of one system exercise, from events in the order of causality.

    Args:
        system, program: which.
        actors: those whose logs are given.
    """

    def __init__(self, system: System, program: Program, actors: Iterable[str]) -> None:
        self.system, self.program, self.actors = system, program, set(actors)
        self.coverage = Coverage(system)
        self.first = tuple(
            program.roles[name].first_state(n) for name in system.product for n in range(system.roles[name].count)
        )
        names = (program.roles[name].machine(n) for name in system.product for n in range(system.roles[name].count))
        self.at = {name: at for at, name in enumerate(names)}
        self._runs: dict[str, Control] = {}
        self._machines: dict[str, dict[tuple[str, str], tuple[str, str]]] = {name: {} for name in self.actors}
        self._links: Counter[tuple[Control, Control, str]] = Counter()
        self._control: Counter[Control] = Counter()
        self._last: dict[str, AnyEvent] = {}
        self._others = False  # an actor is named whose log is not given

    def take(self, event: AnyEvent) -> None:
        """The next event."""
        last, self._last[event.actor] = self._last.get(event.actor), event
        machines = self._machines[event.actor]
        match event:
            case StepEvent(step=step):
                for one in step.walk():
                    self._step(event.actor, one)
                self._moved(step)
            case RefusedEvent() if event.machine in self.program.machines:
                core, _ = self.program.machines[event.machine]
                state = machines.get((event.lease, event.machine), (core.states[0], ""))[0]
                self.coverage.cells[core.role, state, event.event] += 1
            case FoundEvent() if event.machine in self.program.machines:
                machines[event.lease, event.machine] = event.record.state, ""
                run = event.serves or event.lease
                self._runs[run] = self._placed(self._runs.get(run, self.first), event.machine, event.record.state)
            case ForgottenEvent():
                machines.pop((event.lease, event.machine), None)
            case RecoveredEvent() if last is not None and not (isinstance(last, SealEvent) and last.why == "stop"):
                for (_, machine), (state, transition) in machines.items():
                    self.coverage.crashed_in[self.program.machines[machine][0].role, state] += 1
                    if transition:
                        self.coverage.crash_points[transition] += 1

    def _step(self, actor: str, step: MachineStep) -> None:
        if step.machine not in self.program.machines:
            return
        role = self.program.machines[step.machine][0].role
        self.coverage.cells[role, step.source, step.event] += 1
        machines, key = self._machines[actor], (step.lease, step.machine)
        transition = step.transition or machines.get(key, ("", ""))[1]
        machines[key] = step.record.state, transition
        if step.transition:
            self.coverage.transitions[step.transition] += 1
        named = {sent.actor for sent in step.sends if sent.actor}
        named |= {step.received.actor} if step.received is not None else set()
        self._others = self._others or not named <= self.actors

    def _moved(self, step: MachineStep) -> None:
        run = step.serves or step.lease
        before = self._runs.get(run)
        if before is None:
            before = self.first
            self._control[before] += 1
        after = before
        for one in step.walk():
            after = self._placed(after, one.machine, one.record.state)
        self._runs[run] = after
        role = step.machine.partition("[")[0]
        self._links[before, after, f"{role}#{step.event}"] += 1
        self._control[after] += 1

    def _placed(self, control: Control, machine: str, state: str) -> Control:
        at = self.at.get(machine)
        return control if at is None else (*control[:at], state, *control[at + 1 :])

    def end(self) -> Coverage:
        """Returns what was exercised."""
        coverage = self.coverage
        coverage.runs = sum(run not in ("", "-") for run in self._runs)
        if self._others:
            coverage.partial = 1
        else:
            coverage.control, coverage.links = self._control, self._links
        return coverage
