"""What tasks read of the step that starts them: fields of its event, its sender, and data before it.

Theory of operation. A message is sent again from the record alone, after a crash as well. So what a task reads of the
step is kept in the record: it becomes a field of the record, `tell__who`, which each transition that starts the task
sets, and each that leaves its state sets back. All readings have ordinary data and updates.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language.source import YamlNode
from leasehold.spec.language.types import Map, Set, UnknownType, default


def starting_events(role: YamlNode) -> dict[str, list[str]]:
    """By task, the events whose transitions start it, in the order of the text."""
    states = {name: node for name, _, node in role.pairs_of("states")}
    found: dict[str, dict[str, None]] = {}
    for node in states.values():
        for event, _, choices in node.pairs_of("on"):
            for choice in choices.items if choices.kind == "list" else (choices,):
                to = choice.get("to")
                started = [*(states[to.text].names("tasks") if to is not None and to.text in states else ())]
                for task in (*started, *choice.names("also")):
                    found.setdefault(task.text, {})[event] = None
    return {task: list(events) for task, events in found.items()}


def with_captures(role: m.Role) -> m.Role:
    """The role whose tasks read the record alone."""
    data, tasks, captured = dict(role.data), {}, dict[str, dict[str, x.Expression]]()
    for name, task in role.tasks.items():
        of: dict[str, x.Expression] = {}
        tasks[name] = task if isinstance(task, m.Call) else _reading_the_record(role.name, task, of, data)
        data |= {
            field: m.Datum(field, e.type, None, default(e.type), captured=True, place=e.place)
            for field, e in of.items()
        }
        if of:
            captured[name] = of
    if not captured:
        return role
    states = {name: replace(state, on=_setting(role, state, captured)) for name, state in role.states.items()}
    return replace(role, data=data, tasks=tasks, states=states)


def _reading_the_record(
    role: str, task: m.Send | m.Drive, of: dict[str, x.Expression], taken: Container[str]
) -> m.Send | m.Drive:
    """A task with fields of the record for what it reads of the step.

    Args:
        role: whose task it is.
        task: as it was written.
        of: is given the value of each.
        taken: names that other fields of the record have.
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
        return x.Data(type=value.type, role=role, name=field, place=e.place)

    return replace(
        task, fields={name: change(e) for name, e in task.fields.items()},
        only=None if task.only is None else change(task.only), when=None if task.when is None else change(task.when),
    )  # fmt: skip


def _setting(
    role: m.Role, state: m.State, captured: Mapping[str, Mapping[str, x.Expression]]
) -> dict[str, tuple[m.Transition, ...]]:
    return {
        event: tuple(replace(t, updates=(*t.updates, *_updates(role, t, captured))) for t in choices)
        for event, choices in state.on.items()
    }


def _updates(
    role: m.Role, transition: m.Transition, captured: Mapping[str, Mapping[str, x.Expression]]
) -> Iterator[m.Update]:
    for task, fields in captured.items():
        starts = _starts(role, transition, task)
        left = not starts and not transition.internal and any(
            _starts(role, t, task) and t.target == transition.source for t in role.transitions()
        )  # fmt: skip
        for name, value in fields.items():
            if starts:
                yield m.Update(name, None, value, value.place)
            elif left and not isinstance(value.type, Set | Map):
                first = x.Literal_(type=value.type, value=default(value.type), place=value.place)
                yield m.Update(name, None, first, value.place)


def _starts(role: m.Role, transition: m.Transition, task: str) -> bool:
    entered = () if transition.internal else role.states[transition.target].tasks
    return task in entered or task in transition.also
