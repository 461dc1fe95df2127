"""A role's states and transitions, arranged for drawing: what DOT, Mermaid and the page share.

Transitions between the same two states become one arc with several lines. Self-loops, ignored and refused events have
no arc: they would bury the diagram, so the state summarises them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leasehold.spec.language.expression import as_written
from leasehold.spec.language.model import Call, Role, Send, Task, Transition, Update


@dataclass(frozen=True, slots=True)
class Arc:
    """All transitions from one state to another one."""

    source: str
    target: str
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Diagram:
    """One role: its arcs in the order of the text, and by state what stays where it is."""

    role: Role
    arcs: tuple[Arc, ...]
    staying: Mapping[str, tuple[Transition, ...]]
    terminal: frozenset[str]  # states that no transition leaves


def diagram(role: Role) -> Diagram:
    """Arranges a role for drawing."""
    arcs: dict[tuple[str, str], list[Transition]] = {}
    staying: dict[str, list[Transition]] = {name: [] for name in role.states}
    for transition in role.transitions():
        if transition.source == transition.target:
            staying[transition.source].append(transition)
        else:
            arcs.setdefault((transition.source, transition.target), []).append(transition)
    left = {source for source, _ in arcs}
    return Diagram(
        role,
        tuple(Arc(source, target, tuple(transitions)) for (source, target), transitions in arcs.items()),
        {name: tuple(transitions) for name, transitions in staying.items()},
        frozenset(name for name in role.states if name not in left),
    )


def transition_label(transition: Transition, limit: int | None = None) -> str:
    """`granted [msg.units >= 1]`; a guard of more than `limit` characters is cut."""
    if transition.guard is None:
        return transition.event
    guard = as_written(transition.guard)
    if limit is not None and len(guard) > limit:
        guard = guard[: limit - 1].rstrip() + "…"
    return f"{transition.event} [{guard}]"


def staying_events(transitions: tuple[Transition, ...]) -> tuple[str, ...]:
    """The events on which a state stays where it is, each once."""
    return tuple(dict.fromkeys(t.event for t in transitions))


def update_text(update: Update) -> str:
    """`units: event.units`, as the spec writes it."""
    key = f"[{as_written(update.key)}]" if update.key is not None else ""
    return f"{update.target}{key}: {as_written(update.value)}"


def task_text(task: Task) -> str:
    """A task in one line: `send ticket to broker with units: units`."""
    match task:
        case Send():
            fields = ", ".join(f"{name}: {as_written(value)}" for name, value in task.fields.items())
            line = f"send {task.message} to {task.receiver}" + (f" with {fields}" if fields else "")
        case Call():
            line = f"call {task.target}" + (f", answered by {' or '.join(task.answers)}" if task.answers else "")
            line += ", which outlives the state" if task.outlives else ""
        case _:
            answers = ", ".join(f"{name} when {as_written(value)}" for name, value in task.answers.items())
            line = f"drive {task.role} with {task.event}" + (f", answered by {answers}" if answers else "")
    only = None if isinstance(task, Call) else task.only
    if only is not None:
        line += f", only where {as_written(only)}"
    return line + (f", when {as_written(task.when)}" if task.when is not None else "")
