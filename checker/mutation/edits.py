"""Edits of a role by rule: every one is a small mistake that an author could make.

An edit of a guard moves cases between the transitions of a state and event, as an author would who then obeys the
linter. The cases that a transition gains are taken from the others; those that it loses go to the next one, or are
ignored where there is none, or where the state ignores or refuses the event in some cases already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import UnionType
from typing import TypeAlias

from leasehold.spec.language import expression as x
from leasehold.spec.language.declare.build import TICK
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.model import Datum, Outside, Role, Send, State, System, Transition, Update
from leasehold.spec.language.types import Bool, Int, Set, Time, Type
from leasehold.spec.language.typing.definitions import Definition

Change: TypeAlias = Callable[[x.Expression], Iterable[tuple[x.Expression, str]]]  # with the words for each change
FEW_STATES = 3  # of a role so small, every other state is tried as a target


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a role, or of what comes to it from outside.

    Attributes:
        subject: what is changed: a transition (`role/state#event`), a pair of state and event that has none, a state, a
            task or a definition (`role/state`, `role/task`), or a contract of the environment (`role/contract`).
        item: the change, or the part that is changed; empty where the subject has one alone.
        what: the change in words.
        place: where the changed part stands.
        changed: the role, or the contract, with the change.
    """

    subject: str
    item: str
    what: str
    place: Place
    changed: Role | Outside


# Guards


def drop_guard(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for t in role.transitions():
        if t.guard is not None and t.guard != x.TRUE:
            description = f"without its guard `{x.text(t.guard)}`"
            yield Edit(t.name, "", description, t.place, _with(role, t, replace(t, guard=None)))


def drop_operand(system: System, role: Role, every: bool) -> Iterator[Edit]:
    yield from _guard_edits(system, role, without_operand, "without `{}`")


def without_operand(e: x.Expression) -> Iterator[tuple[x.Expression, str]]:
    """`and` or `or` without each of its operands."""
    if isinstance(e, x.Apply) and e.op in ("and", "or"):
        for i, operand in enumerate(e.operands):
            left = (*e.operands[:i], *e.operands[i + 1 :])
            rest = left[0] if len(left) == 1 else replace(e, operands=left)
            yield rest, f"{x.text(operand)} ({e.op})"


def shift_comparison(system: System, role: Role, every: bool) -> Iterator[Edit]:
    yield from _guard_edits(system, role, off_by_one, "with {}")


def off_by_one(e: x.Expression) -> Iterator[tuple[x.Expression, str]]:
    """A comparison of whole numbers that holds for one more, or for one less."""
    if isinstance(e, x.Apply) and e.op in _SHIFTS and isinstance(e.operands[1].type, Int | Time):
        for op, by in _SHIFTS[e.op]:
            new = replace(e, op=op, operands=(e.operands[0], _plus(e.operands[1], by)))
            yield new, f"{x.text(e)} -> {x.text(new)}"


# What a comparison of whole numbers may become: an operator, and what is added on its right.
_SHIFTS = {
    ">=": ((">", 0), (">=", -1)),
    ">": ((">=", 0), (">", 1)),
    "<": (("<=", 0), ("<", -1)),
    "<=": (("<", 0), ("<=", 1)),
    "==": (("==", 1), ("==", -1)),
    "!=": (("!=", 1), ("!=", -1)),
}


def add_conjunct(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for t in role.transitions():
        near = [u.guard for u in _of_state(role.states[t.source]) if u is not t]
        far = [u.guard for u in role.transitions() if u.source != t.source]
        known = {x.text(e) for e in (x.walk(t.guard) if t.guard is not None else ())}
        condition = next((c for c in _conditions([*near, *far]) if x.text(c) not in known), None)
        for extra in () if condition is None else (condition, x.negation(condition)):
            guard = extra if t.guard is None else x.conjunction((t.guard, extra))
            yield Edit(t.name, x.text(extra), f"only when `{x.text(extra)}`", t.place, _with_guard(role, t, guard))


def exchange_guards(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for choices in (choices for state in role.states.values() for choices in state.on.values()):
        for one, other in combinations([t for t in choices if t.guard is not None], 2):
            changed = _with(role, one, replace(one, guard=other.guard))
            changed = _with(changed, other, replace(other, guard=one.guard))
            description = f"with the guard of {other.name}, and that with its own"
            yield Edit(one.name, f"<-> {other.name.rpartition('/')[2]}", description, one.place, changed)


def _conditions(guards: Iterable[x.Expression | None]) -> Iterator[x.Expression]:
    """The comparisons in guards that read the record and the clock alone."""
    for guard in guards:
        for e in x.walk(guard) if guard is not None else ():
            compares = isinstance(e, x.Apply) and e.op in _SHIFTS
            if compares and _mentions(e, x.Data) and not _mentions(e, x.Argument | x.Sender | x.BoundVariable):
                yield e


def _mentions(e: x.Expression, kind: type | UnionType) -> bool:
    return x.mentions(e, lambda part: isinstance(part, kind))


def _guard_edits(system: System, role: Role, change: Change, phrase: str) -> Iterator[Edit]:
    """Every change of a guard; what a definition says is changed in all guards that use it, as it is one text."""
    definitions = (*system.definitions.values(), *role.definitions.values())
    defined = {place for d in definitions for place in d.parts}
    for t, guard, item in _rewritten_guards(role, lambda e: () if e.place in defined else change(e)):
        yield Edit(t.name, item, f"{phrase.format(item)} in its guard", t.place, _with_guard(role, t, guard))
    for d in definitions:
        for item, edited in _rewritten_definition(role, d, change):
            yield Edit(f"{role.name}/{d.name}", item, f"{phrase.format(item)} in `{d.usage}`", d.place, edited)


def _rewritten_definition(role: Role, d: Definition, change: Change) -> Iterator[tuple[str, Role]]:
    """The role with each change of a definition, in all guards that use it."""
    guards = [t.guard for t in role.transitions() if t.guard is not None]
    items: dict[tuple[Place, str, int], str] = {}  # where a change is, and which one of those there: its item
    for e in (e for guard in guards for e in x.walk(guard) if e.place in d.parts and isinstance(e, x.Apply)):
        for n, (_, item) in enumerate(change(e)):
            items.setdefault((e.place, e.op, n), item)
    for (place, op, n), item in items.items():

        def edited(e: x.Expression, place: Place = place, op: str = op, n: int = n) -> x.Expression:
            if isinstance(e, x.Apply) and (e.place, e.op) == (place, op):
                changes = [new for new, _ in change(e)]
                return changes[n] if n < len(changes) else e
            return x.with_parts(e, edited)

        changed = role
        for t in role.transitions():
            guard = None if t.guard is None else edited(t.guard)
            if guard is not None and guard is not t.guard:
                alone = sum(1 for u in role.states[t.source].on[t.event] if u.guard and edited(u.guard) is not u.guard)
                changed = _with_guard(changed, t, guard) if alone == 1 else _with(changed, t, replace(t, guard=guard))
        yield item, changed


def _rewritten_guards(role: Role, change: Change) -> Iterator[tuple[Transition, x.Expression, str]]:
    """Every changed guard; the last of several that leave no case out is what the others leave, so it is not tried."""
    for state in role.states.values():
        for event, choices in state.on.items():
            complete = len(choices) > 1 and event != TICK and not _covers(state, event)
            for t in choices[:-1] if complete else choices:
                for guard, item in x.rewrites(t.guard, change) if t.guard is not None else ():
                    yield t, guard, item


# Targets, transitions and tasks


def swap_target(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for t in role.transitions():
        for target in _targets(role, t, every):
            description = f"to {target}, not {'staying in' if t.internal else 'to'} {t.target}"
            changed = replace(t, target=target, internal=False)
            yield Edit(t.name, f"-> {target}", description, t.place, _with(role, t, changed))


def _targets(role: Role, transition: Transition, every: bool) -> list[str]:
    states = list(role.states)
    if every or len(states) <= FEW_STATES:
        return [s for s in states if s != transition.target]
    at = states.index(transition.target)
    following = [s for s in (*states[at:], *states[:at]) if s not in (transition.source, transition.target)]
    return [*([transition.source] if transition.source != transition.target else []), following[0]]


def add_transition(system: System, role: Role, every: bool) -> Iterator[Edit]:
    """Yields where an event is ignored or refused: what the next state does with it, or its own state entered again."""
    for state in (state.spelled_out for state in role.states.values()):
        for event in (*state.ignore, *state.refuse):
            here = state.on.get(event, ())
            rest = [x.negation(t.guard) for t in here if t.guard is not None]
            stay = Transition(role.name, state.name, event, len(here), state.name, place=state.place)
            other = _as_elsewhere(role, state, event)
            for t in (stay, *(() if other is None else (replace(other, source=state.name, position=len(here)),))):
                conditions = [*rest, *(() if t.guard is None else (t.guard,))]
                guard = x.conjunction(conditions) if len(conditions) > 1 else conditions[0] if conditions else None
                kinds = [_without(kind, event) if t.guard is None else kind for kind in (state.ignore, state.refuse)]
                on = {**state.on, event: (*here, replace(t, guard=guard))}
                to = t.target if t is stay or other is None else f"{t.target}, as in {other.source}"
                was = "ignored" if event in state.ignore else "refused"
                changed = _with_state(role, replace(state, on=on, ignore=kinds[0], refuse=kinds[1]))
                subject = f"{role.name}/{state.name}#{event}"
                yield Edit(subject, f"-> {to}", f"to {to}, where it is {was}", state.place, changed)


def _as_elsewhere(role: Role, state: State, event: str) -> Transition | None:
    """The first transition on an event in the states that follow, the first after the last."""
    states = list(role.states.values())
    at = list(role.states).index(state.name)
    return next((s.on[event][0] for s in (*states[at + 1 :], *states[:at]) if event in s.on), None)


def exchange_answers(system: System, role: Role, every: bool) -> Iterator[Edit]:
    """Yields where what is done after one answer of a task could be done after another, as it reads no field of it."""
    for state in role.states.values():
        answers = {name: role.tasks[name].answers for name in state.tasks}
        for one, other in dict.fromkeys(pair for of in answers.values() for pair in combinations(of, 2)):
            here, there = state.on.get(one, ()), state.on.get(other, ())
            if not here or not there or any(_reads_the_event(t) for t in (*here, *there)):
                continue
            on = {
                **state.on,
                one: tuple(replace(t, event=one) for t in there),
                other: tuple(replace(t, event=other) for t in here),
            }
            description = f"does after `{one}` what it is to do after `{other}`, and the other way round"
            subject = f"{role.name}/{state.name}"
            yield Edit(
                subject, f"{one} <-> {other}", description, state.place, _with_state(role, replace(state, on=on))
            )


def _reads_the_event(t: Transition) -> bool:
    read = (t.guard, *(e for u in t.updates for e in (u.key, u.value)))
    return any(e is not None and _mentions(e, x.Argument | x.Sender) for e in read)


def ignore_event(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for t in role.transitions():
        yield Edit(t.name, "", "ignored", t.place, _with(role, t, None))


def drop_task(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for state in role.states.values():
        for task in state.tasks:
            changed = replace(state, tasks=tuple(t for t in state.tasks if t != task))
            subject = f"{role.name}/{state.name}"
            yield Edit(subject, task, f"without its task `{task}`", state.place, _with_state(role, changed))


# Values


def drop_update(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for t in role.transitions():
        for update in _written(role, t):
            left = tuple(u for u in t.updates if u is not update)
            description = f"without `{_target(update)}: {x.text(update.value)}`"
            yield Edit(t.name, _target(update), description, update.place, _with(role, t, replace(t, updates=left)))


def change_update(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for t in role.transitions():
        for update in _written(role, t):
            fields = system.fields_of(role.name, t.event)
            for value in _other_values(update.value, role, fields, update.target, system.shared):
                changed = tuple(replace(u, value=value) if u is update else u for u in t.updates)
                item = f"{_target(update)}: {x.text(value)}"
                description = f"with `{item}`, not `{x.text(update.value)}`"
                yield Edit(t.name, item, description, update.place, _with(role, t, replace(t, updates=changed)))


def change_field(system: System, role: Role, every: bool) -> Iterator[Edit]:
    for task in role.tasks.values():
        for name, was in task.fields.items() if isinstance(task, Send) else ():
            assert isinstance(task, Send)
            for value in _other_values(was, role, (), "", system.shared):
                changed = replace(task, fields={**task.fields, name: value})
                item = f"{name}: {x.text(value)}"
                description = f"which sends `{item}`, not `{x.text(was)}`"
                tasks = {**role.tasks, task.name: changed}
                yield Edit(f"{role.name}/{task.name}", item, description, task.place, replace(role, tasks=tasks))


def _other_values(
    value: x.Expression, role: Role, fields: Sequence[Datum], target: str, shared: Mapping[str, Datum]
) -> Iterator[x.Expression]:
    """One more and one less, another field of the type, and of truths the contrary."""
    kind, place = value.type, value.place
    literal = value.value if isinstance(value, x.Literal_) else None
    if isinstance(kind, Int | Time):
        yield _plus(value, 1)
        if literal != 0:
            yield _plus(value, -1)
    if isinstance(kind, Bool):
        yield replace(value, value=not literal) if isinstance(value, x.Literal_) else x.negation(value)
    if isinstance(kind, Set) and not _is_empty_set(value):
        yield x.Literal_(type=kind, value=frozenset(), place=place)
    sources: list[x.Expression] = [x.Argument(type=f.type, name=f.name, place=place) for f in fields]
    own = (d for d in role.data.values() if not d.captured)
    sources += [x.Data(type=d.type, role=role.name, name=d.name, place=place) for d in own]
    sources += [x.shared_variable(d.name, d.type, place) for d in shared.values()]
    read = {_named(e) for e in x.walk(value)} | {target}
    yield from [s for s in sources if _alike(s.type, kind) and _named(s) not in read][:1]


def _is_empty_set(e: x.Expression) -> bool:
    """Returns whether it is the empty set, which the language writes as an operator without operands."""
    return (isinstance(e, x.Literal_) and e.value == frozenset()) or (
        isinstance(e, x.Apply) and e.op == "{}" and not e.operands
    )


def _named(e: x.Expression) -> str:
    """The name of a field that is read, a shared variable's as the language writes it; empty for anything else."""
    if x.reads_shared(e):
        return x.text(e)
    return e.name if isinstance(e, x.Argument | x.Data) else ""


def _alike(one: Type, other: Type) -> bool:
    """Returns whether values of one type may stand for those of the other, but for their bounds."""
    return one == other or (isinstance(one, Int) and isinstance(other, Int))


def _plus(e: x.Expression, by: int) -> x.Expression:
    if by == 0:
        return e
    if isinstance(e, x.Literal_):
        return replace(e, value=e.value + by)
    amount = x.Literal_(type=Int(), value=abs(by), place=e.place)
    return x.Apply(type=e.type, op="+" if by > 0 else "-", operands=(e, amount), place=e.place)


# Parts of a role


def _written(role: Role, t: Transition) -> list[Update]:
    """The updates that the text has; those of what tasks read of the step are made of the tasks' texts."""
    return [u for u in t.updates if u.shared or not role.data[u.name].captured]


def _target(update: Update) -> str:
    return update.target if update.key is None else f"{update.target}[{x.text(update.key)}]"


def _of_state(state: State) -> Iterator[Transition]:
    for choices in state.on.values():
        yield from choices


def _covers(state: State, event: str) -> bool:
    return event in state.ignore or event in state.refuse


def _without(reasons: Mapping[str, str], event: str) -> dict[str, str]:
    return {k: v for k, v in reasons.items() if k != event}


def _with_state(role: Role, state: State) -> Role:
    return replace(role, states={**role.states, state.name: state})


def _with(role: Role, transition: Transition, changed: Transition | None) -> Role:
    """The role with another transition in the place of one, or with none there."""
    state, event = role.states[transition.source], transition.event
    kept = [changed if t is transition else t for t in state.on[event]]
    choices = tuple(t for t in kept if t is not None)
    on = {e: choices if e == event else of for e, of in state.on.items() if choices or e != event}
    ignore = dict(state.ignore)
    if changed is None and event != TICK and not _covers(state, event):
        ignore[event] = "a mutant"
    return _with_state(role, replace(state, on=on, ignore=ignore))


def _with_guard(role: Role, transition: Transition, guard: x.Expression) -> Role:
    """The role with another guard of a transition: what it gains the others lose, what it loses the next one has."""
    state, event = role.states[transition.source], transition.event
    choices, was = list(state.on[event]), transition.guard
    at = choices.index(transition)
    covered = event == TICK or _covers(state, event)
    for i, other in enumerate(choices):
        if i == at:
            choices[i] = replace(other, guard=guard)
        elif other.guard is not None:
            rest: x.Expression = x.conjunction((other.guard, x.negation(guard)))
            if not covered and i == (at + 1) % len(choices):
                lost = x.negation(guard) if was is None else x.conjunction((was, x.negation(guard)))
                rest = x.disjunction((rest, lost))
            choices[i] = replace(other, guard=rest)
    ignore = state.ignore if covered or len(choices) > 1 else {**state.ignore, event: "a mutant"}
    return _with_state(role, replace(state, on={**state.on, event: tuple(choices)}, ignore=ignore))
