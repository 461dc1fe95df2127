"""The facts about a system that whoever judges its runs knows before any event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.ground import function
from leasehold.checker.explore.layout import Lane
from leasehold.checker.explore.reference import Reference
from leasehold.faults.model import Budget
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.words import over
from leasehold.spec.language.bounds import as_running
from leasehold.spec.language.lower import Machine
from leasehold.spec.language.model import System, Transition
from leasehold.spec.language.render.python_source import Frame, source

CRASH = Budget(crash=1)


class CutsOfSystem:
    """A system, as its runs are cut.

    Args:
        system: the system.
        program: it as it was compiled, where somebody has compiled it.
        world: it under the faults of which states have the cells; None: an actor may stop.

    Attributes:
        layout: of its states.
        up: by actor of the layout, the cell that says whether it runs.
        first: the cells of the first state.
        transitions, writes: by role and name; the fields that a transition writes.
        lanes_of: by machine, its channels: the lane, the name under which records have its numbers, whether it sends.
    """

    def __init__(self, system: System, program: Program | None = None, world: Reference | None = None) -> None:
        system = as_running(system)
        self.system, self.program = system, program or compile_system(system)
        world = world or reference_of(system, CRASH)
        self.layout = world.layout
        self.up: Mapping[str, int] = world.up
        self.first = list(world.initial_states()[0])
        for role, number, _ in self.layout.machines():
            core = self.program.roles[role.name]
            at = self.layout.at(role.name, number, None)
            self.first[at : at + 1 + len(role.data)] = core.cells(core.first(number))
        self.transitions: dict[tuple[str, str], Transition] = {
            (role.name, t.name): t for role in system.roles.values() for t in role.transitions()
        }
        self.writes = {at: frozenset(u.name for u in t.updates) for at, t in self.transitions.items()}
        self.lanes_of: dict[tuple[str, int], list[tuple[Lane, str, bool]]] = {
            (role.name, number): [] for role, number, _ in self.layout.machines()
        }
        for lane in self.layout.lanes:
            sender, receiver = self.layout.ends(lane)
            channel = lane.channel.name if lane.channel.name in system.apart else ""
            self.lanes_of[sender.role, sender.instance].append((lane, over(self._name(receiver), channel), True))
            self.lanes_of[receiver.role, receiver.instance].append((lane, over(self._name(sender), channel), False))
        frame = Frame(self.layout, system.values(), before="o")
        self._ends = [function(source(end.holds, frame)) for end in system.ends or ()]

    def _name(self, machine: Machine) -> str:
        return self.program.roles[machine.role].machine(machine.instance)

    def machine(self, name: str) -> tuple[str, int] | None:
        """Role and number of a machine; None: the system has none of this name."""
        if name not in self.program.machines:
            return None
        core, number = self.program.machines[name]
        return core.role, number

    def over(self, state: list[Any]) -> bool:
        """Returns whether a state is in an end that the system allows."""
        return any(holds(state, (), -1) for holds in self._ends)
