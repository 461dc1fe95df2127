"""Errors seeded into the transition relation, continued: shared variables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import z3

from leasehold.checker.prove.encode.formulas import Term
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, term
from leasehold.checker.prove.encode.transitions import SymbolicStep, TransitionRelation
from leasehold.checker.prove.encode.values import MapValue
from leasehold.spec.language import types as t
from leasehold.spec.language.expression import SHARED
from leasehold.spec.language.lower import Choice
from leasehold.spec.language.model import Role
from tests.checker.prove.wrong_relations import ERRORS, Steps, error, is_taken, stronger

AT = z3.IntVal(0)  # what holds shared variables has no index
_OTHERS = frozenset(ERRORS)


class OfShared(TransitionRelation):
    """An error about shared variables: a system without any has the right relation."""

    def shared_first(self, s: SymbolicState) -> dict[Any, Any]:
        """The functions of shared variables with their first values, as far as these are known."""
        found = s
        for datum in self.system.shared.values():
            if not datum.any_initial:
                found = found.put(("data", SHARED.name, datum.name), (), self.sorts.literal(datum.type, datum.initial))
        return {key: f for key, f in found.functions.items() if f is not s.functions[key]}


def first_after(step: SymbolicStep, first: dict[Any, Any]) -> SymbolicStep:
    """A step after which functions are others."""
    after, whole = (s.with_functions({**s.functions, **first}) for s in (step.after, step.whole))
    return replace(step, after=after, together=whole)


# A missing frame


@error
class OtherStepsClearSharedVariables(OfShared):
    """A step that writes no shared variable sets all of them to their first values."""

    def steps(self, s: SymbolicState) -> Steps:
        first = self.shared_first(s)
        for step in super().steps(s):
            writes = step.transition is not None and any(u.shared for u in step.transition.updates)
            yield first_after(step, first) if is_taken(step) and not writes else step


@error
class CrashesClearSharedVariables(OfShared):
    def steps(self, s: SymbolicState) -> Steps:
        first = self.shared_first(s)
        for step in super().steps(s):
            yield first_after(step, first) if step.name.endswith((" crashes", " recovers")) else step


@error
class TimeClearsSharedVariables(OfShared):
    def steps(self, s: SymbolicState) -> Steps:
        first = self.shared_first(s)
        for step in super().steps(s):
            yield first_after(step, first) if step.name == "time passes" or " ignores " in step.name else step


# An update that is dropped


def _without_shared(choice: Choice, drops: slice) -> Choice:
    shared = [u for u in choice.updates if u.shared][drops]
    return replace(choice, updates=tuple(u for u in choice.updates if u not in shared))


@error
class SharedUpdatesAreDropped(TransitionRelation):
    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        return super()._committed(s, role, _without_shared(choice, slice(None)), me, frame)


@error
class OneSharedUpdateIsDropped(TransitionRelation):
    """Of several shared variables that a step writes, the first keeps its value."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        several = sum(u.shared for u in choice.updates) > 1
        return super()._committed(s, role, _without_shared(choice, slice(1)) if several else choice, me, frame)


@error
class OnlyTheFirstMachineWritesShared(TransitionRelation):
    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        right = super()._committed(s, role, choice, me, frame)
        if not role.indexed or not any(u.shared for u in choice.updates):
            return right
        kept = super()._committed(s, role, _without_shared(choice, slice(None)), me, frame)
        functions = {
            key: f if kept.functions[key] is f else (
                lambda *at, f=f, g=kept.functions[key]: z3.If(me == 0, f(*at), g(*at))
            )
            for key, f in right.functions.items()
        }  # fmt: skip
        return right.with_functions(functions)


# A wrong source


@error
class SharedUpdatesReadTheStateAfter(TransitionRelation):
    """Shared variables are computed from what the step has written already: the record, and other shared variables."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        after = super()._committed(s, role, _without_shared(choice, slice(None)), me, frame)
        for update in (u for u in choice.updates if u.shared):
            stays = replace(choice.transition, target=choice.transition.source)
            one = replace(choice, updates=(update,), transition=stays)
            after = super()._committed(after, role, one, me, self.frame(after, me, frame.arguments, frame.sender))
        return after


@error
class SharedCellsAreAllWritten(TransitionRelation):
    """An update of a cell of a shared map sets every cell."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        after = super()._committed(s, role, choice, me, frame)
        for update in (u for u in choice.updates if u.shared and u.key is not None):
            key, value = ("data", SHARED.name, update.name), term(update.value, frame)
            cells = after.read(key)
            after = after.put(key, (), MapValue(cells.key, lambda k, value=value: value))
        return after


@error
class OldSharedIsTheStateAfter(TransitionRelation):
    """A record that keeps what a shared variable was, for a message, keeps what it is after the step."""

    def _committed(self, s: SymbolicState, role: Role, choice: Choice, me: Term, frame: Bindings) -> SymbolicState:
        after = super()._committed(s, role, choice, me, frame)
        kept = [u for u in choice.updates if not u.shared and role.data[u.name].captured]
        for update in kept:
            value = term(update.value, self.frame(after, me, frame.arguments, frame.sender))
            after = after.put(("data", role.name, update.name), self.schema.at(role, me), value)
        return after


# Guards that are too strong, and assumptions


def truths(relation: TransitionRelation, s: SymbolicState) -> list[Term]:
    """The shared variables that are true or false."""
    return [s.data(SHARED.name, AT, d.name) for d in relation.system.shared.values() if isinstance(d.type, t.Bool)]


def _only_while(relation: TransitionRelation, s: SymbolicState, step: SymbolicStep) -> Term | None:
    found = truths(relation, s)
    return z3.Not(z3.Or(*found)) if found and is_taken(step) else None


stronger("steps_only_while_no_shared_truth_holds", _only_while)
stronger("crashes_only_while_no_shared_truth_holds", lambda r, s, step: (
    z3.Not(z3.Or(*found)) if (found := truths(r, s)) and step.name.endswith(" crashes") else None
))  # fmt: skip


@error
class SharedNumbersAreNotNegativeAndSmall(TransitionRelation):
    """A step is assumed to begin with shared numbers of 0 or 1."""

    def steps(self, s: SymbolicState) -> Steps:
        numbers = [d for d in self.system.shared.values() if isinstance(d.type, t.Int)]
        small = [z3.And(s.data(SHARED.name, AT, d.name) >= 0, s.data(SHARED.name, AT, d.name) <= 1) for d in numbers]
        return (replace(step, given=(*step.given, *small)) for step in super().steps(s))


OF_SHARED = [name for name in ERRORS if name not in _OTHERS]
