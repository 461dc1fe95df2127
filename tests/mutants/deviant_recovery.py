"""Mistakes with what a crash leaves and what recovery makes of it (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from leasehold.checker.explore.ground import GroundMachine, GroundOffer, GroundPiece, Move
from leasehold.checker.explore.layout import State, closed, opened
from leasehold.checker.explore.reference import Steps
from leasehold.faults.model import Budget
from leasehold.faults.model.lowering import UP
from leasehold.spec.language.lower import Crash, ModelActor
from leasehold.spec.language.model import Send, System
from leasehold.spec.language.types import Value
from tests.mutants.deviant import Deviant


class NoRecovery(Deviant):
    """States whose tasks recovery does not start again: no work is done, and no answer comes."""

    def __init__(self, system: System, budget: Budget, arguments: Sequence[str]) -> None:
        super().__init__(system, budget, arguments)
        self.forgotten = frozenset(map(self.place, self.arguments))
        roles = {role for role, _ in self.forgotten}
        self.idle = {name: self._cell(False) for name in self.by_name if name[0] in roles}
        self.answers = {
            r.name: {a for task in r.tasks.values() if not isinstance(task, Send) for a in task.answers}
            for r in system.roles.values()
        }

    def _forgets(self, s: Any, machine: GroundMachine) -> bool:
        return (machine.role.name, s[machine.cell]) in self.forgotten

    def _recovering(self, s: Any, machines: list[GroundMachine]) -> list[GroundPiece]:
        return super()._recovering(s, [m for m in machines if not self._forgets(s, m)])

    def _read(self, s: State, actor: ModelActor) -> State:
        new = opened(s)
        for name in actor.machines:
            if name in self.idle and self._forgets(s, self.by_name[name]):
                new[self.idle[name]] = True
        return closed(new)

    @cached_property
    def quiet(self) -> list[tuple[int, Value]]:
        return [*super().quiet, *((at, False) for at in self.idle.values())]

    def _commit(
        self, new: list[Any], machine: GroundMachine, move: Move, e: tuple[Any, ...], sender: int
    ) -> tuple[Any, ...]:
        passed = super()._commit(new, machine, move, e, sender)
        at = self.idle.get((machine.role.name, machine.instance))
        if at is not None:
            new[at] = False
        return passed

    def offered(
        self, machine: GroundMachine, offer: GroundOffer, e: tuple[Any, ...], s: State, which: Sequence[bool]
    ) -> Steps:
        for action, after in super().offered(machine, offer, e, s, which):
            at = self.idle.get((action.role or "", action.instance))
            if (
                at is None
                or not s[at]
                or action.transition is None
                or action.event not in self.answers[action.role or ""]
            ):
                yield action, after


class Unrecoverable(Deviant):
    """States in which recovery fails: an actor that has a machine there stays down."""

    def __init__(self, system: System, budget: Budget, arguments: Sequence[str]) -> None:
        super().__init__(system, budget, arguments)
        self.lost = frozenset(map(self.place, self.arguments))

    def _recover(self, actor: ModelActor, s: State, which: Sequence[bool]) -> Steps:
        if not any((m.role.name, s[m.cell]) in self.lost for m in self.machines_of[actor.name]):
            yield from super()._recover(actor, s, which)


class RecoverTo(Deviant):
    """Recovery that puts a machine into another state: `authority/priming -> closing`."""

    def __init__(self, system: System, budget: Budget, arguments: Sequence[str]) -> None:
        super().__init__(system, budget, arguments)
        self.to: dict[tuple[str, str], str] = {}
        for word in self.arguments:
            source, _, target = word.partition("->")
            role, state = self.place(source)
            self.to[role, state] = self.known(target.strip(), system.roles[role].states)

    def _read(self, s: State, actor: ModelActor) -> State:
        new = opened(s)
        for machine in self.machines_of[actor.name]:
            new[machine.cell] = self.to.get((machine.role.name, s[machine.cell]), s[machine.cell])
        return closed(new)


class FieldNotSaved(Deviant):
    """Fields of records, such as `authority.assigned`, that a crash takes back to their first values."""

    def __init__(self, system: System, budget: Budget, arguments: Sequence[str]) -> None:
        super().__init__(system, budget, arguments)
        every = [f"{role.name}.{name}" for role in system.roles.values() for name in role.data]
        self.lost = [self.known(a, every).partition(".")[::2] for a in self.arguments]

    def _down(self, s: Any, crash: Crash, recovering: ModelActor | None = None) -> State:
        new = opened(s)
        stopped = [a for a in crash.actors if a is recovering or new[self.up[a.name]] is UP]
        for role, instance in (m for a in stopped for m in a.machines):
            for name in (field for owner, field in self.lost if owner == role):
                new[self.layout.at(role, instance, name)] = self.system.roles[role].data[name].initial
        return super()._down(new, crash, recovering)
