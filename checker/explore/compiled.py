"""A system's machines, ready to run over flat tuples: guards, updates and tasks as Python functions.

Every machine (a role's instance) is compiled on its own, so that its cells are at fixed positions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from leasehold.checker.explore.layout import Lane, Layout
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.build import constant_value
from leasehold.spec.language.model import Call, Datum, Drive, Role, Send, State, System, Transition
from leasehold.spec.language.python_source import Frame, source

# (state, event fields, sender) -> value; `state` may be a tuple or a list of cells
Function = Callable[[Any, tuple[Any, ...], int], Any]
Guard = Function | None


@dataclass(slots=True)
class Assignment:
    cell: int
    value: Function
    key: Function | None  # for a cell of a map
    type: t.Type
    bounded: bool
    name: str


@dataclass(slots=True)
class Sending:
    """One message to one machine."""

    task: Send
    lane: Lane
    fields: Function
    condition: Guard


@dataclass(slots=True)
class Driving:
    """One event to one subsidiary machine."""

    task: Drive
    instance: int
    fields: Function
    condition: Guard


@dataclass(slots=True)
class Move:
    """A transition of one machine."""

    transition: Transition
    guard: Guard
    assignments: list[Assignment]
    work: list[Sending | Driving]  # what follows the commit, in the order of the work list


@dataclass(slots=True)
class Offer:
    """A local event that may come while the machine is in a state."""

    event: str
    fields: tuple[Datum, ...]
    values: Callable[[Any], list[tuple[Any, ...]]]  # the fields' values to try, in a state
    condition: Guard
    moves: list[Move]
    group: tuple[Any, ...]  # of fairness


@dataclass(slots=True)
class Place:
    """A control state of one machine."""

    state: State
    offers: list[Offer]
    ticks: list[Move]
    moves: dict[str, list[Move]]  # by event
    work: list[Sending | Driving]  # what its tasks do at once: sent again for a duplicate, all done again by recovery


class Machine:
    """One instance of a role."""

    def __init__(self, system: System, layout: Layout, role: Role, instance: int) -> None:
        self.system, self.layout, self.role, self.instance = system, layout, role, instance
        self.cell = layout.at(role.name, instance, None)
        self.constants = system.values()
        self.reads: set[int] | None = set()  # the cells that its expressions name; None: they do not say which
        self.places: dict[str, Place] = {name: self._place(state) for name, state in role.states.items()}

    def move(self, state: Any, event: str, transition: Transition) -> Move:
        """The move that takes a transition from where the machine is in a state."""
        return next(v for v in self.places[state[self.cell]].moves[event] if v.transition is transition)

    def function(self, e: x.Expression | None, fields: tuple[Datum, ...] = (), **variables: int) -> Guard:
        """An expression of this machine as a function."""
        if e is None:
            return None
        return self._compiled(source(e, self.frame(fields, variables)))

    def _compiled(self, words: str) -> Function:
        cells = cells_read(words)
        self.reads = None if cells is None or self.reads is None else self.reads | cells
        return function(words)

    def frame(self, fields: tuple[Datum, ...], variables: Mapping[str, int]) -> Frame:
        arguments = {f.name: f"e[{i}]" for i, f in enumerate(fields)}
        return Frame(
            self.layout, self.constants, self.instance, arguments, "b", {k: str(v) for k, v in variables.items()},
            now=self.layout.own_clock(self.role.name, self.instance),
        )  # fmt: skip

    def _place(self, state: State) -> Place:
        moves = {event: [self._move(tr) for tr in choices] for event, choices in state.on.items()}
        offers = [*self._answers(state, moves), *self._outside(moves)]
        return Place(state, offers, moves.get("tick", []), moves, self._work(state.tasks))

    def _move(self, transition: Transition) -> Move:
        fields = self.system.fields_of(self.role.name, transition.event)
        assignments = []
        for update in transition.updates:
            kind = self.role.data[update.name].type
            value = self.function(update.value, fields)
            assert value is not None
            assignments.append(
                Assignment(
                    self.layout.at(self.role.name, self.instance, update.name), value, self._key(update.key, fields),
                    kind, _bounded(kind), update.name,
                )
            )  # fmt: skip
        names = transition.also if transition.internal else (
            *self.role.states[transition.target].tasks, *transition.also,
        )  # fmt: skip
        return Move(transition, self.function(transition.guard, fields), assignments, self._work(names))

    def _work(self, names: tuple[str, ...]) -> list[Sending | Driving]:
        work: list[Sending | Driving] = []
        for name in names:
            task = self.role.tasks[name]
            if isinstance(task, Send):
                work += self._sendings(task)
            elif isinstance(task, Drive):
                work += self._drivings(task)
        return work

    def _key(self, key: x.Expression | None, fields: tuple[Datum, ...]) -> Function | None:
        if key is None:
            return None
        words = source(key, self.frame(fields, {}))
        if isinstance(key.type, t.Enum):
            words = f"{key.type.members!r}.index({words})"
        return self._compiled(words)

    def _condition(self, when: x.Expression | None, only: x.Expression | None, it: int) -> Guard:
        parts = [source(e, self.frame((), {"it": it})) for e in (when, only) if e is not None]
        return self._compiled(" and ".join(parts)) if parts else None

    def _values(self, fields: Mapping[str, x.Expression], order: tuple[Datum, ...], it: int) -> Function:
        frame = self.frame((), {"it": it})
        return self._compiled("(" + "".join(source(fields[f.name], frame) + ", " for f in order) + ")")

    def _sendings(self, task: Send) -> list[Sending]:
        found = []
        order = self.system.messages[task.message].fields
        for receiver in range(self.system.roles[task.receiver].count):
            lane = self.layout.lane_between(self.role.name, self.instance, task.receiver, receiver)
            if lane is None:
                continue  # the channel does not join these two
            values = self._values(task.fields, order, receiver)
            found.append(Sending(task, lane, values, self._condition(task.when, task.only, receiver)))
        return found

    def _drivings(self, task: Drive) -> list[Driving]:
        order = self.system.fields_of(task.role, task.event)
        return [
            Driving(task, i, self._values(task.fields, order, i), self._condition(task.when, task.only, i))
            for i in range(self.system.roles[task.role].count)
        ]

    # What may come from outside

    def _answers(self, state: State, moves: Mapping[str, list[Move]]) -> list[Offer]:
        offers = []
        for name in state.tasks:
            task = self.role.tasks[name]
            if isinstance(task, Send):
                continue
            for answer in task.answers:
                conditions = [task.when]
                if isinstance(task, Drive):
                    conditions.append(task.answers[answer])
                group = ("answer", self.role.name, self.instance, name)
                offers.append(self._offer(answer, conditions, self._allowed(answer), moves, group))
        return [o for o in offers if o.moves]

    def _allowed(self, event: str) -> list[tuple[x.Expression | None, str]]:
        """The environment's words about an event: condition, name of the action."""
        return [
            (o.when, o.name) for o in self.system.environment.values() if (o.role, o.event) == (self.role.name, event)
        ]

    def _outside(self, moves: Mapping[str, list[Move]]) -> list[Offer]:
        offers = []
        answered = {a for task in self.role.tasks.values() if not isinstance(task, Send) for a in task.answers}
        for event in self.role.events:
            if event in answered or event not in moves:
                continue
            for when, name in self._allowed(event):
                group = ("environment", name, self.instance)
                offers.append(self._offer(event, [], [(when, name)], moves, group))
        return offers

    def _offer(
        self, event: str, conditions: list[x.Expression | None], allowed: list[tuple[x.Expression | None, str]],
        moves: Mapping[str, list[Move]], group: tuple[Any, ...],
    ) -> Offer:  # fmt: skip
        fields = self.system.fields_of(self.role.name, event)
        own = self.frame(fields, {})
        parts = [source(c, own) for c in conditions if c is not None]
        if allowed and all(when is not None for when, _ in allowed):
            outside = Frame(self.layout, self.constants, None, own.arguments, "b", {"it": str(self.instance)})
            parts.append("(" + " or ".join(source(when, outside) for when, _ in allowed if when is not None) + ")")
        condition = self._compiled(" and ".join(parts)) if parts else None
        return Offer(event, fields, self.domain(fields), condition, moves.get(event, []), group)

    def domain(self, fields: tuple[Datum, ...]) -> Callable[[Any], list[tuple[Any, ...]]]:
        if not fields:
            return lambda s: [()]
        clock = self.layout.clock
        moving = any(x.mentions(e, lambda n: isinstance(n, x.Now)) for f in fields for e in f.explore or ())
        by_time: dict[int, list[tuple[Any, ...]]] = {}
        if moving and clock is not None and self.reads is not None:
            self.reads.add(clock)

        def values(s: Any) -> list[tuple[Any, ...]]:
            now = s[clock] if moving and clock is not None else 0
            found = by_time.get(now)
            if found is None:
                found = [()]
                for field in fields:
                    ends = field.explore and tuple(constant_value(e, self.constants, now) for e in field.explore)
                    every = list(t.domain(field.type, ends or None))
                    found = [(*f, v) for f in found for v in every if t.in_range(field.type, v)]
                by_time[now] = found
            return found

        return values


def wanted(work: Sending | Driving, state: Any) -> bool:
    """Whether a piece of work is part of the work list in a state."""
    return work.condition is None or bool(work.condition(state, (), -1))


def function(words: str) -> Function:
    """Source over `s` (state), `e` (event fields) and `b` (sender) to a function."""
    made: Function = eval(f"lambda s, e, b: {words}", {"__builtins__": _BUILTINS})
    return made


def cells_read(words: str, states: str = "s") -> frozenset[int] | None:
    """The cells of states, which have one-letter names, that a compiled expression may read.

    None where its source does not show them.
    """
    found = set()
    whole = 0
    for node in ast.walk(ast.parse(words, mode="eval")):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(cell))) if name in states:
                found.add(cell)
                whole -= 1
            case ast.Name(id=name) if name in states:
                whole += 1
    return frozenset(found) if whole == 0 else None


def looking(cells: Iterable[int]) -> Callable[[Any], Hashable]:
    """A function from a state to what it has in some cells."""
    chosen = sorted(set(cells))
    return itemgetter(*chosen) if chosen else lambda s: ()


def step_function(words: str) -> Callable[[Any, Any, Any], Any]:
    """Source over `o` (state before), `s` (state after) and `a` (action) to a function."""
    made: Callable[[Any, Any, Any], Any] = eval(f"lambda o, s, a: {words}", {"__builtins__": _BUILTINS})
    return made


_BUILTINS = {
    "len": len, "min": min, "max": max, "sum": sum, "all": all, "any": any, "frozenset": frozenset, "bool": bool,
    "tuple": tuple, "range": range,
}  # fmt: skip


def _bounded(kind: t.Type) -> bool:
    match kind:
        case t.Int(low=low, high=high):
            return low is not None or high is not None
        case t.Map(of=of):
            return _bounded(of)
        case t.Option(of=of):
            return of is not None and _bounded(of)
    return False


def calls(role: Role, state: State) -> list[Call]:
    """The calls that a state starts."""
    return [task for n in state.tasks if isinstance(task := role.tasks[n], Call)]
