"""Edits of conditions: of tasks, and of what comes from outside.

A task's conditions are `when` (whether it is begun), `only` (which machines it is for) and, for each of its answers,
when that comes. A contract of the environment has one: when its event comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from leasehold.checker.mutation.edits import Change, Edit, off_by_one, without_operand
from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.model import Call, Drive, Role, System, Task
from leasehold.spec.language.types import Bool, Set
from leasehold.spec.language.typing.definitions import Definition

ANSWERS = "answers."  # before an answer, as the name of its condition


# Tasks


def drop_condition(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for task in role.tasks.values():
        for name, condition in _conditions(task):
            description = f"without `{name}: {x.text(condition)}`"
            answer = name.startswith(ANSWERS)
            changed = _with(task, name, replace(x.TRUE, place=condition.place) if answer else None)
            yield Edit(f"{role.name}/{task.name}", name, description, task.place, _with_tasks(role, [changed]))


def drop_condition_operand(system: System, role: Role, every: bool) -> Iterator[Edit]:
    yield from _condition_edits(system, role, _without_part, "without `{}`")


def shift_condition(system: System, role: Role, every: bool) -> Iterator[Edit]:
    yield from _condition_edits(system, role, off_by_one, "with {}")


def negate_condition(system: System, role: Role, every: bool) -> Iterator[Edit]:
    yield from _condition_edits(system, role, _contrary, "with the contrary of `{}`")


def _without_part(e: x.Expression) -> Iterator[tuple[x.Expression, str]]:
    """`and`, `or`, or an operator on sets, without each of its operands that may be left out."""
    yield from without_operand(e)
    if isinstance(e, x.Apply) and isinstance(e.type, Set) and e.op in ("|", "&", "-"):
        left, right = e.operands
        yield left, f"{x.text(right)} ({e.op})"
        if e.op != "-":
            yield right, f"{x.text(left)} ({e.op})"


def _contrary(e: x.Expression) -> Iterator[tuple[x.Expression, str]]:
    """The contrary of what holds or not, and is not put together by `and`, `or` and `not`."""
    joined = isinstance(e, x.Apply) and e.op in ("and", "or", "not")
    if isinstance(e.type, Bool) and not joined and not isinstance(e, x.Literal_):
        yield x.negation(e, e.place), x.text(e)


def _condition_edits(system: System, role: Role, change: Change, phrase: str) -> Iterator[Edit]:
    """Every change of a condition; what a definition says is changed in all conditions of the role that use it."""
    definitions = (*system.definitions.values(), *role.definitions.values())
    defined = {place for d in definitions for place in d.parts}
    for task in role.tasks.values():
        for name, condition in _conditions(task):
            for new, item in x.rewrites(condition, lambda e: () if e.place in defined else change(e)):
                description = f"{phrase.format(item)} in its `{name}`"
                edited = _with_tasks(role, [_with(task, name, new)])
                yield Edit(f"{role.name}/{task.name}", f"{name}: {item}", description, task.place, edited)
    for d in definitions:
        for item, edited in _with_definition(role, d, change):
            description = f"{phrase.format(item)} in `{d.usage}`, where a task's condition uses it"
            yield Edit(f"{role.name}/{d.name}", item, description, d.place, edited)


def _with_definition(role: Role, d: Definition, change: Change) -> Iterator[tuple[str, Role]]:
    """The role with each change of a definition, in all conditions of tasks that use it."""
    conditions = [condition for task in role.tasks.values() for _, condition in _conditions(task)]
    items: dict[tuple[Place, type, int], str] = {}  # where a change is, and which one of those there: its item
    for e in (e for condition in conditions for e in x.walk(condition) if e.place in d.parts):
        for n, (_, item) in enumerate(change(e)):
            items.setdefault((e.place, type(e), n), item)
    for (place, kind, n), item in items.items():

        def edited(e: x.Expression, place: Place = place, kind: type = kind, n: int = n) -> x.Expression:
            if e.place == place and type(e) is kind:
                changes = [new for new, _ in change(e)]
                if changes:
                    return changes[n] if n < len(changes) else e
            return x.with_parts(e, edited)

        tasks = []
        for task in role.tasks.values():
            new_task = task
            for name, condition in _conditions(task):
                new_task = _with(new_task, name, edited(condition))
            tasks.append(new_task)
        yield item, _with_tasks(role, tasks)


def _conditions(task: Task) -> Iterator[tuple[str, x.Expression]]:
    if task.when is not None:
        yield "when", task.when
    if not isinstance(task, Call) and task.only is not None:
        yield "only", task.only
    if isinstance(task, Drive):
        yield from ((f"{ANSWERS}{answer}", condition) for answer, condition in task.answers.items())


def _with(task: Task, name: str, condition: x.Expression | None) -> Task:
    """The task with another condition, or without it; an answer always has one."""
    if name.startswith(ANSWERS):
        assert isinstance(task, Drive)
        assert condition is not None
        return replace(task, answers={**task.answers, name.removeprefix(ANSWERS): condition})
    if name == "when":
        return replace(task, when=condition)
    assert not isinstance(task, Call)
    return replace(task, only=condition)


def _with_tasks(role: Role, tasks: Iterable[Task]) -> Role:
    return replace(role, tasks={**role.tasks, **{task.name: task for task in tasks}})


# Contracts of the environment


def drop_contract(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for o in system.environment.values():
        if o.role == role.name and o.when is not None:
            description = f"comes without `when: {x.text(o.when)}`"
            yield Edit(f"{role.name}/{o.name}", "", description, o.place, replace(o, when=None))


def drop_contract_operand(system: System, role: Role, every: bool) -> Iterator[Edit]:
    yield from _contract_edits(system, role, without_operand, "comes without `{}`")


def shift_contract(system: System, role: Role, every: bool) -> Iterator[Edit]:
    yield from _contract_edits(system, role, off_by_one, "comes with {}")


def _contract_edits(system: System, role: Role, change: Change, phrase: str) -> Iterator[Edit]:
    for o in system.environment.values():
        if o.role == role.name and o.when is not None:
            for new, item in x.rewrites(o.when, change):
                description = f"{phrase.format(item)} in its `when`"
                yield Edit(f"{role.name}/{o.name}", item, description, o.place, replace(o, when=new))
