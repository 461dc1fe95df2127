"""The values that tasks read of the step that starts them: fields of its event, its sender, and data before it.

Theory of operation. A message is sent again from the record alone, after a crash as well. So what a task reads of the
step is kept in the record, where its message may be sent again: as a task of a state, and not through a `fifo`. It
becomes a field of the record, `tell__who`, which each transition that enters the state sets, and each that leaves it
sets back. Otherwise nothing is kept: the transition passes the value to its work (`Transition.passes`), which is done
in the same step. All readings have ordinary data, updates and arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import replace
from typing import TypeGuard

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language import parts
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.types import Map, Set, Type, UnknownType, default, with_rest


def starting_events(role: YamlNode) -> dict[str, list[str]]:
    """Returns by task the events whose transitions start it, in the order of the text."""
    states = {name: node for name, _, node in role.pairs_of("states")}
    by_task: dict[str, dict[str, None]] = {}
    for node in states.values():
        for event, _, choices in node.pairs_of("on"):
            for choice in choices.items if choices.kind == "list" else (choices,):
                to = choice.get("to")
                started = [*(states[to.text].names("tasks") if to is not None and to.text in states else ())]
                for task in (*started, *choice.names("also")):
                    by_task.setdefault(task.text, {})[event] = None
    return {task: list(events) for task, events in by_task.items()}


def with_captures(role: m.Role, channels: Collection[m.Channel]) -> m.Role:
    """The role whose tasks read the record, and what their transition passes to them."""
    data, tasks, captured = dict(role.data), {}, dict[str, dict[str, x.Expression]]()
    kept = {name for name, task in role.tasks.items() if _may_come_again(role, task, channels)}
    for name, task in role.tasks.items():
        of: dict[str, x.Expression] = {}
        tasks[name] = task
        if not isinstance(task, m.Call):
            tasks[name] = _reading_no_step(role.name, task, of, data, name in kept)
        if name in kept:
            data |= {
                field: m.Datum(field, with_rest(e.type), None, default(e.type), captured=True, place=e.place)
                for field, e in of.items()
            }
        if of:
            captured[name] = of
    if not captured:
        return role
    states = {name: replace(state, on=_setting(role, state, captured, kept)) for name, state in role.states.items()}
    return replace(role, data=data, tasks=tasks, states=states)


def _may_come_again(role: m.Role, task: m.Task, channels: Collection[m.Channel]) -> bool:
    """Returns whether the work of a task may be done again: a state starts it, and a channel of it repeats messages."""
    if not any(task.name in state.tasks for state in role.states.values()):
        return False
    carriers = [c for c in channels if isinstance(task, m.Send) and task.message in c.messages]
    return not carriers or any(c.repeats for c in carriers)


def read_of_step(task: m.Task) -> dict[str, Type]:
    """Returns what a task that is not done again reads of the step: names and types, in the order of its text."""
    return {n.name: n.type for e in parts.expressions(task) for n in x.walk(e) if isinstance(n, x.Argument)}


def reads_kept(task: m.Task, role: m.Role) -> bool:
    """Returns whether a task reads what is kept of the step that entered its state."""
    return any(_is_kept(n, role) for e in parts.expressions(task) for n in x.walk(e))


def passed(e: x.Expression, role: m.Role) -> x.Expression:
    """An expression of a task over what its transition passes along, where it would read what is kept."""
    if _is_kept(e, role):
        return x.Argument(type=e.type, name=e.name, place=e.place)
    return x.with_parts(e, lambda part: passed(part, role))


def given(e: x.Expression, names: Collection[str]) -> x.Expression:
    """The expression with a first value for each argument but those of some names."""
    if isinstance(e, x.Argument) and e.name not in names:
        return first_value(e.type, e.place)
    return x.with_parts(e, lambda part: given(part, names))


def _is_kept(e: x.Expression, role: m.Role) -> TypeGuard[x.Data]:
    return isinstance(e, x.Data) and e.owner is None and e.role == role.name and role.data[e.name].captured


def first_value(kind: Type, place: Place) -> x.Expression:
    """The first value of a type."""
    match kind:
        case Set():
            return x.Apply(type=kind, op="{}", operands=(), place=place)
        case Map(key=key, of=of):
            every, body = x.all_members(key, place), first_value(of, place)
            return x.Quantifier(
                type=kind, kind="map", variable="Key__0", domain=every, condition=None, body=body, place=place
            )
    return x.Literal_(type=kind, value=default(kind), place=place)


def _reading_no_step(
    role: str, task: m.Send | m.Drive, of: dict[str, x.Expression], taken: Container[str], kept: bool
) -> m.Send | m.Drive:
    """A task with a name for each value that it reads of the step.

    Args:
        role: whose task it is.
        task: as it was written.
        of: is given the value of each.
        taken: names that other fields of the record have.
        kept: each is a field of the record; else it is passed along.
    """

    def change(e: x.Expression) -> x.Expression:
        value: x.Expression = e
        match e:
            case x.Argument(name=name):
                field = f"{task.name}__{name}"
            case x.Sender():
                field = f"{task.name}__sender"
            case x.Old(operand=x.Data(name=name, owner=None) as own):
                field, value = f"{task.name}__old_{name}", own
            case x.Old(operand=value):
                field = f"{task.name}__old_{len(of) + 1}"
            case _:
                return x.with_parts(e, change)
        if isinstance(value.type, UnknownType):
            return e  # reported
        same = [f for f, known in of.items() if known == value]
        while not same and (field in taken or field in of):
            field += "_"
        field = same[0] if same else field
        of[field] = value
        if kept:
            return x.Data(type=value.type, role=role, name=field, place=e.place)
        return x.Argument(type=value.type, name=field, place=e.place)

    return replace(
        task,
        fields={name: change(e) for name, e in task.fields.items()},
        only=None if task.only is None else change(task.only),
        when=None if task.when is None else change(task.when),
    )


def _setting(
    role: m.Role, state: m.State, captured: Mapping[str, Mapping[str, x.Expression]], kept: set[str]
) -> dict[str, tuple[m.Transition, ...]]:
    def change(t: m.Transition) -> m.Transition:
        begun = {*t.also} if t.internal else {*t.also, *role.states[t.target].tasks}
        repeated = begun & {*role.states[t.target].tasks} & kept
        left = () if t.internal else state.tasks
        updates, passes = list(t.updates), list[m.Update]()
        for task, fields in captured.items():
            values = [m.Update(name, None, value, value.place) for name, value in fields.items()]
            if task in repeated:
                updates += values
            elif task in left and task in kept:
                updates += [m.Update(u.name, None, first_value(u.value.type, u.place), u.place) for u in values]
            if task in begun - repeated:
                passes += values
        return replace(t, updates=tuple(updates), passes=tuple(passes))

    return {event: tuple(map(change, choices)) for event, choices in state.on.items()}
