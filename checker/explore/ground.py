"""A lowered form for one machine at a time: guards, updates and work as Python functions over flat tuples.

Every machine (a role's instance) is grounded on its own, so that its cells are at fixed positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from leasehold.checker.explore.layout import Lane, Layout
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.declare.build_fields import constant_value
from leasehold.spec.language.lower import Choice, Offer, Piece, Relation
from leasehold.spec.language.model import Datum, Role, Transition, Update
from leasehold.spec.language.render.python_source import Frame, evaluated, source

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""  # a string in source
_NAMES = re.compile(rf"{QUOTED}|(?<![\w.])([a-z])\b(?:\[(\d+)\])?")  # of one letter; a cell, where it is a state

# (state, event fields, sender) -> value; `state` may be a tuple or a list of cells
Function: TypeAlias = Callable[[Any, tuple[Any, ...], int], Any]


@dataclass(slots=True)
class Assignment:
    """An update of a cell; `key` is the place of an element in a map."""

    cell: int
    value: Function
    key: Function | None
    type: t.Type
    name: str


@dataclass(slots=True)
class GroundPiece:
    """A piece of work for one receiver: a message by a lane, or an event for the subsidiary machine `instance`."""

    piece: Piece
    instance: int
    lane: Lane | None
    wanted: Function
    fields: Function
    bounded: tuple[tuple[int, Datum], ...]  # those of its fields whose values might leave their types


@dataclass(slots=True)
class Move:
    """A choice of one machine; `passed` are the values that its work reads in the place of an event's fields."""

    transition: Transition
    guard: Function
    assignments: list[Assignment]
    work: list[GroundPiece]
    passed: Function | None


@dataclass(slots=True)
class GroundOffer:
    """An offer to one machine: the fields' values to try in a state, when it may come, and its group of fairness.

    Attributes:
        group: of fairness; where the event is fair for each of some values, they follow.
    """

    offer: Offer
    values: FieldValues
    allowed: Function
    moves: list[Move]
    group: tuple[Any, ...]

    def group_with(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The group of fairness of the event with these values."""
        return self.group + self.offer.told_apart(values) if self.offer.fair_for_each else self.group


class FieldValues:
    """The combinations of the values to try of an event's fields, in a state.

    Attributes:
        moving: whether they depend on the clock.
    """

    def __init__(self, fields: tuple[Datum, ...], clock: int | None, constants: Mapping[str, Any]) -> None:
        self._fields, self._clock, self._constants = fields, clock, constants
        self.moving = any(x.mentions(e, lambda n: isinstance(n, x.Now)) for f in fields for e in f.explore or ())
        self._by_time: dict[int, list[tuple[Any, ...]]] = {}

    def __call__(self, s: Any) -> list[tuple[Any, ...]]:
        now = s[self._clock] if self.moving and self._clock is not None else 0
        if now not in self._by_time:
            values: list[tuple[Any, ...]] = [()]
            for field in self._fields:
                ends = field.explore and tuple(constant_value(e, self._constants, now) for e in field.explore)
                every = list(t.domain(field.type, ends or None))
                values = [(*f, v) for f in values for v in every]
            self._by_time[now] = values
        return self._by_time[now]


class GroundMachine:
    """One instance of a role.

    Attributes:
        cell: where its control state is; its data follow.
        offers: by control state.
        moves: by control state and event.
        work: by control state, what recovery starts again.
    """

    def __init__(self, relation: Relation, layout: Layout, role: Role, instance: int) -> None:
        self.relation, self.layout, self.role, self.instance = relation, layout, role, instance
        self.system = relation.system
        self.cell = layout.at(role.name, instance, None)
        own = {(state, event): of for (r, state, event), of in relation.moves.items() if r == role.name}
        moves = {choice: self._move(choice) for of in own.values() for choice in of}
        self.moves = {at: [moves[choice] for choice in of] for at, of in own.items()}
        self.offers = {
            state: [self._offer(o, [moves[c] for c in o.choices]) for o in relation.offers[role.name, state]]
            for state in role.states
        }
        self.work = {state: self._work(relation.work[role.name, state]) for state in role.states}

    @cached_property
    def timers(self) -> dict[str, list[GroundOffer]]:
        """The offers for which the clock waits, by control state."""
        timers = {state: [o for o in offers if o.offer.cause == "tick"] for state, offers in self.offers.items()}
        return {state: offers for state, offers in timers.items() if offers}

    def move(self, state: Any, event: str, transition: Transition) -> Move:
        """The move that takes a transition from where the machine is in a state."""
        return next(v for v in self.moves[state[self.cell], event] if v.transition is transition)

    def function(self, e: x.Expression) -> Function:
        """An expression over the machine's own record as a function."""
        return function(source(e, self._frame()))

    def _frame(self, fields: tuple[Datum, ...] = (), **variables: int) -> Frame:
        arguments = {f.name: f"e[{i}]" for i, f in enumerate(fields)}
        return Frame(
            self.layout,
            self.system.values(),
            self.instance,
            arguments,
            "b",
            {k: str(v) for k, v in variables.items()},
            now=self.layout.own_clock(self.role.name, self.instance),
        )

    def _move(self, choice: Choice) -> Move:
        fields = self.system.fields_of(self.role.name, choice.transition.event)
        frame = self._frame(fields)
        guard = _all([] if choice.guard is None else [source(choice.guard, frame)])
        assignments = [self._assignment(u, frame) for u in choice.updates]
        passed = function(_tuple([source(u.value, frame) for u in choice.passes])) if choice.passes else None
        return Move(choice.transition, guard, assignments, self._work(choice.work, choice.passes), passed)

    def _assignment(self, u: Update, frame: Frame) -> Assignment:
        holder = u.holder(self.role.name)
        return Assignment(
            self.layout.at(holder, 0 if u.shared else self.instance, u.name),
            function(source(u.value, frame)),
            None if u.key is None else function(_position(u.key, frame)),
            self.system.holders[holder].data[u.name].type,
            u.target,
        )

    def _work(self, pieces: tuple[Piece, ...], passes: tuple[Update, ...] = ()) -> list[GroundPiece]:
        work = []
        arguments = {u.name: f"e[{i}]" for i, u in enumerate(passes)}
        for piece in pieces:
            for it in range(piece.target.count):
                lane = None
                if piece.channel is not None:
                    lane = self.layout.lane(piece.channel.name, self.instance, it)
                    if lane is None:
                        continue  # the channel does not join these two
                frame = replace(self._frame(it=it), arguments=arguments)
                wanted = _all([source(e, frame) for e in piece.conditions])
                fields = function(_tuple([source(e, frame) for e in piece.fields]))
                given = self.system.fields_of(piece.target.name, piece.event)
                bounded = tuple((n, field) for n, field in enumerate(given) if t.has_bounds(field.type))
                work.append(GroundPiece(piece, it, lane, wanted, fields, bounded))
        return work

    def _offer(self, offer: Offer, moves: list[Move]) -> GroundOffer:
        own = self._frame(offer.fields)
        parts = [source(c, own) for c in offer.conditions]
        if offer.outside:
            world = Frame(self.layout, own.constants, None, own.arguments, "b", {"it": str(self.instance)})
            parts.append("(" + " or ".join(source(when, world) for when in offer.outside) + ")")
        group: tuple[Any, ...] = (offer.cause, self.role.name, self.instance, offer.name)
        if offer.cause == "environment":
            group = (offer.cause, offer.name, self.instance)
        elif offer.cause == "tick":
            group = group[:-1]
        return GroundOffer(offer, self.values(offer.fields), _all(parts), moves, group)

    def values(self, fields: tuple[Datum, ...]) -> FieldValues:
        """The values to try of an event's fields."""
        return FieldValues(fields, self.layout.clock, self.system.values())


def function(text: str) -> Function:
    """Source over `s` (state), `e` (event fields) and `b` (sender) to a function."""
    compiled: Function = evaluated(f"lambda s, e, b: {text}")
    return compiled


def step_function(text: str) -> Callable[[Any, Any, Any], Any]:
    """Source over `o` (state before), `s` (state after) and `a` (action) to a function."""
    compiled: Callable[[Any, Any, Any], Any] = evaluated(f"lambda o, s, a: {text}")
    return compiled


@lru_cache(1 << 14)
def cells_read(text: str, states: str = "s") -> frozenset[int] | None:
    """The cells of states, which have one-letter names, that a compiled expression may read.

    None where its source does not show them.
    """
    cells = [match[2] for match in _NAMES.finditer(text) if match[1] and match[1] in states]
    return None if None in cells else frozenset(map(int, cells))


def _all(parts: list[str]) -> Function:
    """Returns whether all of these hold."""
    return function(" and ".join(parts) or "True")


def _tuple(parts: list[str]) -> str:
    return "(" + "".join(part + ", " for part in parts) + ")"


def _position(key: x.Expression, frame: Frame) -> str:
    text = source(key, frame)
    return f"{key.type.members!r}.index({text})" if isinstance(key.type, t.Enum) else text
