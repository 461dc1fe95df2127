"""The meaning of an expression: a plain walk over its tree.

This is the definition. Other readings (Python, SQL, solver terms, exports) are held against it by differential tests,
so it is written to be believed, not to be fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from leasehold.spec.language import expression as x
from leasehold.spec.language.operators import OPERATORS
from leasehold.spec.language.types import Set, Value, members


@dataclass(frozen=True, eq=False)
class InTransit:
    """A message on its way.

    Attributes:
        number: in a mailbox, its sequence number relative to the last one received (0: a duplicate); in a fifo, its
            place in the line, from 1 on; elsewhere 1.
        latest: whether it has the last number that its sender gave on its lane.
        sender, receiver: the numbers of the machines that it is between.
        ranked: its number tells it apart: it is in a mailbox.
    """

    kind: str
    fields: Mapping[str, Value]
    number: int
    latest: bool = False
    sender: int = 0
    receiver: int = 0
    ranked: bool = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InTransit) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self.kind)

    @property
    def _identity(self) -> tuple[str, Mapping[str, Value], int]:
        return self.kind, self.fields, self.number if self.ranked else 1


class StateView(Protocol):
    """One global state, as expressions read it."""

    @property
    def now(self) -> int: ...
    def data(self, role: str, instance: int, name: str) -> Value: ...
    def state(self, role: str, instance: int) -> str: ...
    def pending(self, name: str) -> Iterable[InTransit]: ...
    def heard(self, name: str, role: str = "", instance: int = 0) -> bool: ...
    def running(self, role: str, instance: int) -> bool: ...
    def reachable(self, role: str, instance: int, other_role: str, other: int) -> bool: ...
    def byzantine(self, role: str) -> bool: ...


class NoState:
    """The view of expressions that read constants and the clock alone; nothing has failed."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def data(self, role: str, instance: int, name: str) -> Value:
        raise LookupError(name)

    def state(self, role: str, instance: int) -> str:
        raise LookupError(role)

    def pending(self, name: str) -> Iterable[InTransit]:
        raise LookupError(name)

    def heard(self, name: str, role: str = "", instance: int = 0) -> bool:
        raise LookupError(name)

    def running(self, role: str, instance: int) -> bool:
        return True

    def reachable(self, role: str, instance: int, other_role: str, other: int) -> bool:
        return True

    def byzantine(self, role: str) -> bool:
        return False


@dataclass(frozen=True)
class Context:
    """The context in which an expression is evaluated."""

    view: StateView
    constants: Mapping[str, Value]
    self: int = 0  # the instance that takes the step
    arguments: Mapping[str, Value] = field(default_factory=dict)
    sender: int = 0
    variables: Mapping[str, Value] = field(default_factory=dict)
    before: StateView | None = None  # step properties: the state before the step
    took: tuple[str, int, str] | None = None  # step properties: role, instance and event of the step
    ignored: bool = False  # step properties: no transition was taken for it


def evaluate(e: x.Expression, c: Context) -> Value:
    """The value of a well-typed expression. Total: a value that has no meaning cannot be written."""

    def owner(owned: x.Expression | None) -> int:
        return c.self if owned is None else int(evaluate(owned, c))

    match e:
        case x.Apply(op=op, operands=operands):
            row = OPERATORS[op]
            if row.decided_by is not None:  # what comes after need not be looked at
                return row.means(*_until(row.decided_by, operands, c))
            values = [evaluate(o, c) for o in operands]
            return row.means([o.type for o in operands], *values) if row.typed else row.means(*values)
        case x.Literal_(value=value):
            return value
        case x.ConstantRef(name=name):
            return c.constants[name]
        case x.Now():
            return c.view.now
        case x.Self():
            return c.self
        case x.Data(role=role, name=name, owner=owned):
            return c.view.data(role, owner(owned), name)
        case x.ControlState(role=role, owner=owned):
            return c.view.state(role, owner(owned))
        case x.Argument(name=name):
            return c.arguments[name]
        case x.Sender():
            return c.sender
        case x.BoundVariable(name=name):
            return c.variables[name]
        case x.InstanceAt(type=of, number=number):
            return evaluate(number, c) % of.count
        case x.Quantifier():
            return _quantifier(e, c)
        case x.MessageField(variable=variable, name=name):
            message = c.variables[variable]
            return getattr(message, name) if name in x.OF_MESSAGES else message.fields[name]
        case x.Old(operand=operand):
            assert c.before is not None
            return evaluate(operand, replace(c, view=c.before))
        case x.Accepts():
            return evaluate(e.meaning, c)
        case x.Took(role=role, owner=owned, event=event, ignored=ignored):
            if c.took is None or (ignored and not c.ignored):
                return False
            who = None if owned is None else int(evaluate(owned, c))
            return c.took[0] == role and who in (None, c.took[1]) and event in (None, c.took[2])
        case x.GlobalQuery(name=query, owners=owners):
            return getattr(c.view, query)(*e.arguments(owner(o) for o in owners))
        case x.Pending():
            raise TypeError("messages on their way have no value of their own")


def _until(decision: Value, operands: tuple[x.Expression, ...], c: Context) -> Iterator[Value]:
    for operand in operands:
        value = evaluate(operand, c)
        yield value
        if value is decision:
            return


def _quantifier(e: x.Quantifier, c: Context) -> Value:
    if isinstance(e.domain, x.Pending):
        values: list[Value] = list(c.view.pending(e.domain.name))
    else:
        domain = evaluate(e.domain, c)
        assert isinstance(e.domain.type, Set) and e.domain.type.of is not None
        values = [v for v in members(e.domain.type.of) if v in domain]
    contexts = [replace(c, variables={**c.variables, e.variable: v}) for v in values]
    if e.condition is not None:
        contexts = [inner for inner in contexts if evaluate(e.condition, inner)]
    bodies = (evaluate(e.body, inner) for inner in contexts)
    match e.kind:
        case "all":
            return all(bodies)
        case "any":
            return any(bodies)
        case "count":
            return sum(1 for b in bodies if b)
        case "sum":
            return sum(bodies)
        case "map":
            return tuple(bodies)
        case "min" | "max":
            numbers = list(bodies)
            if not numbers and e.default is not None:
                return evaluate(e.default, c)
            return min(numbers) if e.kind == "min" else max(numbers)
        case "union":
            return frozenset().union(*bodies)
        case _:
            return frozenset(bodies)
