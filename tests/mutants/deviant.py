"""What all systems have in common whose machines make a mistake; deviations.py says what they are for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from leasehold.checker.explore.faulty import FaultyReference
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Steps
from leasehold.checker.explore.step import Action
from leasehold.faults.model import Budget
from leasehold.faults.model.lowering import lower_with_faults
from leasehold.spec.language.diagnostics import near_miss
from leasehold.spec.language.lower import ModelActor
from leasehold.spec.language.model import System


class DeviationError(ValueError):
    """There is no such deviation, or its arguments do not fit the system."""


class Deviant(FaultyReference):
    """What the deviations share: arguments, cells of their own, another reading of the records on recovery."""

    def __init__(self, system: System, budget: Budget, arguments: Sequence[str]) -> None:
        super().__init__(lower_with_faults(system, budget))
        self.arguments = tuple(arguments)
        self.own: list[Any] = []  # first values of further cells

    def _cell(self, value: object) -> int:
        """A further cell of the state."""
        self.own.append(value)
        self.layout.size += 1
        return self.layout.size - 1

    def initial_states(self) -> list[State]:
        return [(*s, *self.own) for s in super().initial_states()]

    def effects(self, s: State, action: Action) -> list[Any]:
        if action.transition is None and action.done and action.kind in ("recover", "crash"):
            assert action.role is not None
            s = self._read(s, self.layout.of[action.role, action.instance])
        return super().effects(s, action)

    def _recover(self, actor: ModelActor, s: State, which: Sequence[bool]) -> Steps:
        yield from super()._recover(actor, self._read(s, actor), which)

    def _read(self, s: State, actor: ModelActor) -> State:
        """The state once an actor has read its records again."""
        return s

    # Arguments

    def known(self, word: str, words: Iterable[str]) -> str:
        """An argument that is one of these words.

        Raises:
            DeviationError: it is none.
        """
        every = list(words)
        if word not in every:
            near = near_miss(word, every)
            raise DeviationError(f"the system has no `{word}`" + (f"; did you mean {near}?" if near else ""))
        return word

    def place(self, word: str) -> tuple[str, str]:
        """`broker/ticketing` as a role and its state."""
        every = (f"{role.name}/{state}" for role in self.system.roles.values() for state in role.states)
        role_name, _, state = self.known(word.strip(), every).partition("/")
        return role_name, state


class OfRoles(Deviant):
    """A deviation of the roles that its arguments name; of all, without any."""

    def __init__(self, system: System, budget: Budget, arguments: Sequence[str]) -> None:
        super().__init__(system, budget, arguments)
        self.roles = frozenset(self.known(a, system.roles) for a in arguments or system.roles)
