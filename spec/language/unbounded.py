"""Numbers that may grow without end, of which a search of all states may not come to one either.

A number grows when a transition adds to what it was, directly or by way of other data and of messages. It is bounded
by a `max`, by a `constraint` of the system that reads it, or by a comparison of it in the transition's guard. What a
guard bounds by other means is not seen, so that this is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, TypeVar

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.model import Call, Drive, Send, System, Transition
from leasehold.spec.language.types import Int, Map, Option, Type

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
T = TypeVar("T")
_FieldRef: TypeAlias = tuple[str, str]  # a role and its datum, or a message or event and its field


def warn_of_unbounded(system: System, sink: Sink) -> None:
    """Warns of each number that may grow without end."""
    for field, transition in unbounded(system).items():
        role, name = field
        place = system.holders[role].data[name].place
        sink.warning("unbounded_number", place, role=role, name=name, transition=transition.name)


def unbounded(system: System) -> dict[_FieldRef, Transition]:
    """The numbers that may grow without end, each with a transition that adds to it."""
    flows: dict[_FieldRef, set[_FieldRef]] = {}  # from what is read to what is set by it
    grown: list[tuple[_FieldRef, set[_FieldRef], Transition]] = []  # what is added to, what the sum reads
    for to, value, role, transition in _assignments(system):
        for source in _read(value, role, transition.event if transition else ""):
            flows.setdefault(source, set()).add(to)
        if transition is not None and not _compared(transition.guard, to) and not _compared(value, to):
            read = {s for e in _sums(value) for s in _read(e, role, transition.event)}
            grown.append((to, read, transition))
    found: dict[_FieldRef, Transition] = {}
    for to, read, transition in grown:
        bounded = not _endless(system.holders[to[0]].data[to[1]].type) or _mentions(system.constraint, to)
        if not bounded and reached(flows, to) & read:
            found.setdefault(to, transition)
    return found


def _assignments(system: System) -> Iterator[tuple[_FieldRef, x.Expression, str, Transition | None]]:
    """Every assignment: field, value, role of the machine, and transition (None: a task that is started)."""
    for role in system.roles.values():
        for transition in role.transitions():
            for update in transition.updates:
                yield (update.holder(role.name), update.name), update.value, role.name, transition
        for task in role.tasks.values():
            if not isinstance(task, Call):
                to = task.message if isinstance(task, Send) else task.event if isinstance(task, Drive) else ""
                for name, value in task.fields.items():
                    yield (to, name), value, role.name, None


def _read(value: x.Expression, role: str, event: str) -> Iterator[_FieldRef]:
    for e in x.walk(value):
        if isinstance(e, x.Data):
            yield e.role, e.name
        elif isinstance(e, x.Argument):
            yield event, e.name


def reached(following: Mapping[T, set[T]], start: T) -> set[T]:
    """All that some steps lead to, the start among it."""
    found, todo = {start}, [start]
    while todo:
        fresh = following.get(todo.pop(), set()) - found
        found |= fresh
        todo += fresh
    return found


def _endless(type_: Type) -> bool:
    match type_:
        case Int(high=high):
            return high is None
        case Map(of=of) | Option(of=of):
            return of is not None and _endless(of)
    return False


def _sums(value: x.Expression) -> Iterator[x.Expression]:
    """The sums and products in a value that nothing around them bounds."""
    op = value.op if isinstance(value, x.Apply) else ""
    if op in ("+", "*"):
        yield value
    elif op not in ("%", "min"):
        for child in x.children(value):
            yield from _sums(child)


def _compared(e: x.Expression | None, field: _FieldRef) -> bool:
    def compares(inner: x.Expression) -> bool:
        return isinstance(inner, x.Apply) and inner.op in _COMPARISONS and _mentions(inner, field)

    return x.mentions(e, compares)


def _mentions(e: x.Expression | None, field: _FieldRef) -> bool:
    return x.mentions(e, lambda inner: isinstance(inner, x.Data) and (inner.role, inner.name) == field)
