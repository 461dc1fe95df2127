"""Lint by solver: whether guards exclude each other and cover all cases, for all data, not in explored ranges alone.

The findings, for each state and event of a role, over any record and any fields of the event within their types:

overlap     two guards hold at once
uncovered   no guard holds, and the event is neither ignored nor refused
dead        a guard never holds
range       an update leaves its type's range

Each finding has a witness: values for which it is so. A record with these values need not be reachable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import z3

from leasehold.checker.prove.decide.model import UNREAD, ModelReader
from leasehold.checker.prove.encode.encoding import Encoding
from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, disjunction
from leasehold.checker.prove.encode.terms import Bindings, term
from leasehold.spec.language import expression as x
from leasehold.spec.language.model import Role, State, Transition
from leasehold.spec.language.types import Enum, Int, Map, Set, has_bounds, number_of, show


@dataclass(frozen=True)
class GuardFinding:
    """An error in guards or updates.

    Attributes:
        where: the transitions, or the state and event.
        witness: values by name, as the language writes them; empty where none is needed, or the solver has none.
        certain: the solver has decided it; else it gave up.
    """

    kind: Literal["overlap", "uncovered", "dead", "range"]
    where: str
    words: str
    witness: Mapping[str, str]
    certain: bool = True


def guard_findings(encoding: Encoding) -> list[GuardFinding]:
    """All findings of a system."""
    findings: list[GuardFinding] = []
    for role in encoding.system.roles.values():
        for state in role.states.values():
            for event, choices in state.on.items():
                findings += _EventGuards(encoding, role, state, event, choices).findings()
    return findings


class _EventGuards:
    """The reaction of a state to an event, over an arbitrary record."""

    def __init__(
        self, encoding: Encoding, role: Role, state: State, event: str, choices: tuple[Transition, ...]
    ) -> None:
        self.encoding, self.role, self.state, self.event, self.choices = encoding, role, state, event, choices
        steps, s = encoding.relation, encoding.before
        self.me, given = steps.machine(role, role.name)
        self.arguments, valid = steps.fields(encoding.system.fields_of(role.name, event))
        message = encoding.system.messages.get(event)
        self.sender: Term = None
        if message is not None and message.receiver == role.name:
            self.sender, known = steps.machine(encoding.system.roles[message.sender], message.sender)
            given += known
        shared = encoding.system.holders.get(x.SHARED.name)
        ranges = [
            encoding.sorts.within(d.type, s.data(holder.name, self.me, d.name))
            for holder in (role, *([shared] if shared else []))
            for d in holder.data.values()
        ]
        inside = s.is_in(role.name, self.me, state.name)
        self.given = [*encoding.given, *given, *valid, *ranges, inside, s.now >= 0]
        self.frame = Bindings(encoding.sorts, s, encoding.constants, self.me, self.arguments, self.sender)

    def findings(self) -> Iterator[GuardFinding]:
        try:
            guards = [term(tr.guard, self.frame) if tr.guard is not None else z3.BoolVal(True) for tr in self.choices]
        except Unencodable:
            return
        for (one, a), (other, b) in combinations(zip(self.choices, guards, strict=True), 2):
            yield from self._found("overlap", f"{one.name} and {other.name}", "both guards hold", conjunction(a, b))
        name = f"{self.role.name}/{self.state.name}#{self.event}"
        if self.event not in self.state.ignore and self.event not in self.state.refuse and self.event != "tick":
            yield from self._found("uncovered", name, "no guard holds", z3.Not(disjunction(*guards)))
        for transition, guard in zip(self.choices, guards, strict=True):
            if transition.guard is not None and (answer := self._check(guard)[0]) != z3.sat:
                yield GuardFinding("dead", transition.name, "its guard never holds", {}, answer == z3.unsat)
            for update in transition.updates:
                datum = self.encoding.system.holders[update.holder(self.role.name)].data[update.name]
                kind = datum.type if update.key is None or not isinstance(datum.type, Map) else datum.type.of
                if self.encoding.is_scalar(kind) or has_bounds(kind):
                    value = term(update.value, self.frame)
                    out = conjunction(guard, z3.Not(self.encoding.sorts.within(kind, value)))
                    message = f"`{update.target}` leaves its type's range: {x.text(update.value)}"
                    message += self._of_any(update.value)
                    yield from self._found("range", transition.name, message, out, update.value)

    def _of_any(self, value: x.Expression) -> str:
        """The remedy where a value is read of a field that may have any number, whatever anybody sends."""
        fields = {f.name: number_of(f.type) for f in self.encoding.system.fields_of(self.role.name, self.event)}
        read = {part.name for part in x.walk(value) if isinstance(part, x.Argument)}
        free = [n for n, of in fields.items() if n in read and isinstance(of, Int) and None in (of.low, of.high)]
        named = f"`event.{'` and `event.'.join(free)}`"
        return f"; {named} may be any number here, until the field has `min` and `max`" if free else ""

    def _found(
        self, kind: Any, where: str, message: str, question: Term, update: x.Expression | None = None
    ) -> Iterator[GuardFinding]:
        answer, model = self._check(question)
        if answer != z3.unsat:
            yield GuardFinding(kind, where, message, self._witness(model, update), answer == z3.sat)

    def _check(self, question: Term) -> tuple[Any, Any]:
        solver, cardinals = self.encoding.solver(), self.encoding.sorts.cardinals
        solver.add(*self.given, question)
        solver.add(*cardinals.facts([*self.given, question], subtracted=cardinals.subtracted([question])))
        answer = solver.check()
        return answer, solver.model() if answer == z3.sat else None

    def _witness(self, model: Any, update: x.Expression | None) -> dict[str, str]:
        """The values that the guards, and the value of an update, read in a model."""
        if model is None:
            return {}
        values: dict[str, str] = {}
        reader = ModelReader(self.encoding, model)
        whole = [*(tr.guard for tr in self.choices if tr.guard is not None), *([] if update is None else [update])]
        for node in {node for e in whole for node in x.walk(e)}:
            own = not isinstance(node, x.Data) or node.owner is None or x.reads_shared(node)
            read = isinstance(node, x.Now | x.ConstantRef | x.Argument | x.Data)
            if own and read and not isinstance(node.type, Set | Map | Enum):  # those have too many values to show
                value = reader.value(node.type, term(node, self.frame))
                values |= {} if value is UNREAD else {x.text(node): show(node.type, value)}
        return dict(sorted(values.items()))
