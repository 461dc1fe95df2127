"""The reference: the first states of a system, and every step from a state, read off its lowered form.

It is meant to be believed at once, not to be fast (paper, sections 3 and 4.2). A step consumes one event at one
machine: it commits the record, and does the work of the new state. Everything else (a policy's decision, a handler's
end, time) is a later step. faulty.py adds the steps of actors that crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, TypeAlias

from leasehold.checker.explore import channels
from leasehold.checker.explore.ground import Case, Function, GroundMachine, GroundPiece, Move, function
from leasehold.checker.explore.layout import Lane, Layout, State, closed, opened, with_cell, with_element
from leasehold.checker.explore.step import FORGED, Action, SpecFault
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.build_fields import constant_value
from leasehold.spec.language.lower import Relation
from leasehold.spec.language.model import Datum, machine_name
from leasehold.spec.language.python_source import Frame, source

Steps: TypeAlias = Iterator[tuple[Action, State]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a system: its steps from a state, given of which of its kinds of faults any are left.

    `cases` are parts that give these steps together, in this order, and that each read less of a state. Where none of
    the conditions `unless` holds, which read little too, `otherwise` gives the steps, and else there are none; they are
    asked in their order, and one that shows that the specification is wrong raises SpecFault.
    """

    steps: Callable[[State, tuple[bool, ...]], Steps]
    faults: tuple[str, ...] = ()
    cases: tuple[Part, ...] = ()
    unless: tuple[Callable[[State], bool], ...] = ()
    otherwise: Callable[[State, tuple[bool, ...]], Steps] | None = None


class Reference:
    """First states and steps of a lowered form.

    Attributes:
        interrupting: kinds of faults that may break off the steps of machines and channels.
        budgeted: of each kind of fault with a limit, how many a run may have; `limited` are their names.
    """

    interrupting: tuple[str, ...] = ()

    def __init__(self, relation: Relation) -> None:
        self.relation, self.system = relation, relation.system
        self.layout = Layout(relation)
        self.machines = [GroundMachine(relation, self.layout, role, i) for role, i in self.system.machines()]
        self.by_name = {(m.role.name, m.instance): m for m in self.machines}
        self.machines_of = {a.name: [self.by_name[m] for m in a.machines] for a in self.layout.actors}
        self.up = {key: at for (name, key), at in self.layout.added.items() if name == "up"}
        self.limited, self.budgeted = list(relation.limits), tuple(relation.limits.values())
        self.at = {fault: i for i, fault in enumerate(self.limited)}
        self._stops = {a.name: self.layout.stopping(a) for a in self.layout.actors}
        ends = {lane.cell: self.layout.ends(lane) for lane in self.layout.lanes}
        of = self.layout.of
        self._separates = {cell: self.layout.separating(of[a], of[b]) for cell, (a, b) in ends.items()}
        self._prompt = relation.passage is not None and bool(relation.passage.unless)
        self._receives = {r.channel.name: r for r in relation.receives}
        self._bounds = [function(words) for words in self.bounds]

    @property
    def faulty(self) -> bool:
        """Whether actors may stop: the system was lowered with a budget of faults, though it may be empty."""
        return bool(self.up)

    # First states, and bounds

    def initial_states(self) -> list[State]:
        system = self.system
        cells: list[list[Any]] = []
        for role, instance in system.records():
            cells += [[role.first(instance).name]] if role.states else []
            cells += [self._first_values(d) for d in role.data.values()]
        cells += [[channels.empty(lane.channel.kind)] for lane in self.layout.lanes]
        cells += [[getattr(system.channels[name], fault)] for name, fault in self.layout.budgets]
        cells += [] if system.clock is None else [[0]]
        cells += [[value] for value in self.layout.initial()]
        states = [tuple(c) for c in product(*cells)]
        holds = None if system.initially is None else self.world(system.initially)
        return states if holds is None else [s for s in states if holds(s, (), -1)]

    def _first_values(self, datum: Datum) -> list[Any]:
        if not datum.any_initial:
            return [datum.initial]
        ends = datum.explore and tuple(constant_value(e, self.system.values()) for e in datum.explore)
        return list(t.domain(datum.type, ends or None))

    @cached_property
    def bounds(self) -> list[str]:
        """Sources of what holds within the bounds: the state constraint, and the explored ranges of data."""
        frame = Frame(self.layout, self.system.values())
        found = [] if self.system.constraint is None else [source(self.system.constraint, frame)]
        for role, i in self.system.records():
            for datum in role.data.values():
                if datum.explore is not None:
                    low, high = (source(e, frame) for e in datum.explore)
                    value = f"s[{self.layout.at(role.name, i, datum.name)}]"
                    absent = f"{value} is None or " if isinstance(datum.type, t.Option) else ""
                    found.append(f"({absent}{low} <= {value} <= {high})")
        return found

    def within_bounds(self, state: State) -> bool:
        """Whether the state satisfies the state constraint and the explored ranges of data."""
        return all(holds(state, (), -1) for holds in self._bounds)

    # Steps

    def successors(self, s: State, left: tuple[int, ...] | None = None) -> Steps:
        """Every step from a state, in a fixed order; those that take more faults than are left may be missing.

        Raises:
            SpecFault: a step shows that the specification is wrong.
        """
        for part in self.parts:
            yield from part.steps(s, tuple(self.may_come(fault, left) for fault in part.faults))

    def may_come(self, fault: str, left: tuple[int, ...] | None) -> bool:
        """Whether a fault of a kind with a limit is possible, and left."""
        at = self.at.get(fault)
        return at is not None and (left is None or left[at] > 0)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of the system, in order: machines, channels, and time."""
        parts = [self._machine_part(m) for m in self.machines]
        parts += [Part(partial(self._lane_steps, lane), self.interrupting) for lane in self.layout.lanes]
        if self.layout.clock is not None:
            parts.append(Part(self._passage, unless=tuple(self._holding_time), otherwise=self._tick))
        return parts

    def _machine_part(self, machine: GroundMachine) -> Part:
        steps, faults = partial(self._machine_steps, machine), self.interrupting
        cases = [Part(partial(steps, case=case), faults) for case in machine.cases()]
        return Part(steps, faults, tuple(cases) if len(cases) > 1 else ())

    # Machines

    def running(self, s: Any, machine: GroundMachine) -> bool:
        """Whether a machine takes steps."""
        actor = self.layout.of[machine.role.name, machine.instance]
        return actor is not self.layout.traitor and all(s[at] not in v.stops for at, v in self._stops[actor.name])

    def _machine_steps(
        self, machine: GroundMachine, s: State, which: Sequence[bool], case: Case | None = None
    ) -> Steps:
        """The steps that a machine takes by itself, or those of a case: a local event, or a tick that is due."""
        state = s[machine.cell]
        offers = [(offer, None) for offer in machine.offers[state]] if case is None else case.get(state, ())
        if not offers or not self.running(s, machine):
            return
        for offer, only in offers:
            kind = "tick" if offer.offer.cause == "tick" else "local"
            for e in offer.values(s) if only is None else (only,):
                move = choose(offer.moves, s, e, -1) if offer.allowed(s, e, -1) else None
                if move is None:
                    continue
                action = Action(
                    kind, machine.role.name, machine.instance, offer.offer.event, e, -1, move.transition,
                    group=offer.group_with(e),
                )  # fmt: skip
                after = self._step(s, partial(self._fire, machine=machine, move=move, e=e, sender=-1, log=None))
                if after is not None:
                    yield action, after

    def _step(self, s: State, does: Callable[[list[Any]], None]) -> State | None:
        """The state after a step; None where it would send into a full channel."""
        new = opened(s)
        try:
            does(new)
        except channels.LaneFull:
            return None
        return closed(new)

    def _fire(
        self, new: list[Any], machine: GroundMachine, move: Move, e: tuple[Any, ...], sender: int,
        log: list[Any] | None,
    ) -> None:  # fmt: skip
        """Takes a transition in place: commits the record, then does the work."""
        self._commit(new, machine, move, e, sender)
        for piece in move.work:
            if piece.wanted(new, (), -1):
                self._do(new, piece, log)

    def _commit(self, new: list[Any], machine: GroundMachine, move: Move, e: tuple[Any, ...], sender: int) -> None:
        values = [
            (a, a.value(new, e, sender), None if a.key is None else a.key(new, e, sender)) for a in move.assignments
        ]
        for a, value, key in values:
            holds = t.in_range(a.type.of if isinstance(a.type, t.Map) and key is not None else a.type, value)
            if key is not None:
                value = with_element(new[a.cell], key, value)
            if not holds:
                shown = t.show(a.type, value)
                raise SpecFault("range", f"{move.transition.name} sets `{a.name}` to {shown}, outside its type's range")
            new[a.cell] = value
        new[machine.cell] = move.transition.target

    def _do(self, new: list[Any], work: GroundPiece, log: list[Any] | None, again: bool = False) -> None:
        """Does a piece of work: sends, or drives a subsidiary machine."""
        fields = work.fields(new, (), -1)
        for at, field in work.bounded:
            if not t.in_range(field.type, fields[at]):
                given = f"`{field.name}` of `{work.piece.event}` the value {t.show(field.type, fields[at])}"
                raise SpecFault("range", f"task `{work.piece.task.name}` gives {given}, outside its type's range")
        if work.lane is not None:
            self._send(new, work, work.lane, fields, again)
            if log is not None and not (again and work.lane.channel.kind == "fifo"):
                log.append((work.lane, work.piece.event, fields))
            return
        event = work.piece.event
        driven = self.by_name[work.piece.target.name, work.instance]
        before = new[driven.cell]
        move = choose(driven.moves.get((before, event), []), new, fields, -1)
        if move is not None:
            self._fire(new, driven, move, fields, -1, log)
        if log is not None:
            log.append((driven, event, before, new[driven.cell], move and move.transition))

    def _send(self, new: list[Any], work: GroundPiece, lane: Lane, fields: tuple[Any, ...], again: bool) -> None:
        message = work.piece.event
        if self._to_traitor(lane):
            if message in self.layout.known:
                new[self.layout.known[message]] |= {fields}
            return
        put = channels.put_again if again else channels.put
        new[lane.cell] = put(lane.channel.kind, lane.channel.capacity, new[lane.cell], message, fields)

    def _to_traitor(self, lane: Lane) -> bool:
        """Whether the receiver keeps to no machine: what is sent to it does not wait in a channel."""
        return self.layout.of[lane.channel.receiver, lane.receiver] is self.layout.traitor is not None

    # Messages

    def connected(self, s: Any, lane: Lane) -> bool:
        """Whether messages of a channel come through."""
        return all(s[at] not in values for at, values in self._separates[lane.cell])

    def may(self, s: Any, lane: Lane, fault: str) -> bool:
        """Whether a channel may lose, duplicate or reorder a message; that of a stopped sender may always be lost.

        A `fifo` has those faults alone that it declares: else its messages are in the sender's store until received.
        """
        if lane.channel.kind == "fifo":
            return self._declared(s, lane, fault)
        if fault == "lose" and self._sender_is_down(s, lane):
            return True
        return fault in self.at or fault in self.relation.unlimited or self._declared(s, lane, fault)

    def _declared(self, s: Any, lane: Lane, fault: str) -> bool:
        """Whether the channel's own budget of a fault is not used up."""
        at = self.layout.budgets.get((lane.channel.name, fault))
        return getattr(lane.channel, fault) == "any" or (at is not None and s[at] > 0)

    def spend(self, new: list[Any], lane: Lane, fault: str) -> tuple[int, ...]:
        """Counts a fault of a channel against its own budget; returns what it takes of the budget of all."""
        if fault == "lose" and lane.channel.kind != "fifo" and self._sender_is_down(new, lane):
            return ()
        if self._declared(new, lane, fault):
            at = self.layout.budgets.get((lane.channel.name, fault))
            if at is not None:
                new[at] -= 1
            return ()
        return (self.at[fault],) if fault in self.at else ()

    def _sender_is_down(self, s: Any, lane: Lane) -> bool:
        at = self.up.get(self.layout.of[lane.channel.sender, lane.sender].name)
        return at is not None and not s[at]

    def _lane_steps(self, lane: Lane, s: State, which: Sequence[bool]) -> Steps:
        """The steps that deliver, duplicate, reorder or lose messages of a channel between two machines."""
        channel, receive = lane.channel, self._receives[lane.channel.name]
        queue = channels.entries(channel.kind, s[lane.cell])
        if not queue:
            return
        receiver = self.by_name[channel.receiver, lane.receiver]
        group = ("deliver", channel.name, lane.sender, lane.receiver)
        reorder, duplicate, lose = (self.may(s, lane, fault) for fault in ("reorder", "duplicate", "lose"))
        seen: set[Any] = set()
        for index, entry in enumerate(queue) if self.running(s, receiver) and self.connected(s, lane) else ():
            if channel.unordered and entry in seen:
                continue  # equal messages are one choice
            seen.add(entry)
            before = queue[index - 1][0] if index else 0
            turn = not receive.in_turn or index == 0 or (channel.kind == "mailbox" and before == 0)
            if not (turn or reorder):
                continue
            for copy in (False, True) if duplicate and entry[0] > 0 and channel.kind != "set" else (False,):
                step = self._deliver(s, lane, receiver, index, entry, copy, group if turn and not copy else None)
                if step is None:
                    continue
                action, new = step
                cost = () if turn else self.spend(new, lane, "reorder")
                cost += self.spend(new, lane, "duplicate") if copy else ()
                action = action._replace(cost=cost)
                yield action, closed(new)
        for index, entry in enumerate(queue) if lose and channel.kind != "set" else ():
            new = opened(s)
            new[lane.cell] = channels.lose(channel.kind, s[lane.cell], index)
            cost = self.spend(new, lane, "lose")
            action = Action(
                "lose", channel.receiver, lane.receiver, entry[1], entry[2], lane.sender, None, lane, index,
                fault=True, cost=cost,
            )  # fmt: skip
            yield action, closed(new)

    def _deliver(
        self, s: State, lane: Lane, receiver: GroundMachine, index: int, entry: channels.Entry, copy: bool,
        group: tuple[Any, ...] | None,
    ) -> tuple[Action, list[Any]] | None:  # fmt: skip
        number, kind, fields = entry
        again = number == 0
        moves = [] if again else receiver.moves.get((s[receiver.cell], kind), [])
        move = choose(moves, s, fields, lane.sender)
        if lane.channel.waits and move is None:
            return None  # it stays where it is
        action = Action(
            "duplicate" if again else "deliver", receiver.role.name, receiver.instance, kind, fields, lane.sender,
            move.transition if move else None, lane, index, copy, group, fault=group is None,
        )  # fmt: skip
        new = opened(s)
        try:
            self._receive(new, receiver, action, move, None)
        except channels.LaneFull:
            return None
        return action, new

    def _receive(
        self, new: list[Any], receiver: GroundMachine, action: Action, move: Move | None, log: list[Any] | None
    ) -> None:
        """Receives a message: it is consumed, ignored, or, as a duplicate, answered again."""
        lane = action.lane
        assert lane is not None
        if action.position != FORGED:
            new[lane.cell] = channels.take(lane.channel.kind, new[lane.cell], action.position, action.copy)
        if move is not None:
            self._fire(new, receiver, move, action.fields, lane.sender, log)
        elif action.kind == "duplicate" and not self.system.messages[action.event].answer:
            for work in receiver.work[new[receiver.cell]]:
                back = work.lane
                if back is None or (back.channel.receiver, back.receiver) != (lane.channel.sender, lane.sender):
                    continue
                if work.wanted(new, (), -1):
                    self._do(new, work, log, again=True)

    # Time

    def due(self, machine: GroundMachine, s: Any) -> bool:
        """Whether a timer of a machine has run out."""
        timers = machine.timers.get(s[machine.cell])
        if not timers or not self.running(s, machine):
            return False
        return any(choose(o.moves, s, (), -1) is not None for o in timers)

    def timers_due(self, machines: Sequence[GroundMachine]) -> list[Callable[[Any], bool]]:
        """Of each machine that has timers, whether one has run out."""
        return [partial(self.due, machine) for machine in machines if machine.timers]

    @cached_property
    def _holding_time(self) -> list[Callable[[Any], bool]]:
        """Conditions under which time does not pass: its horizon is reached, or it has to wait for a timer."""
        return [self._is_over, *(self.timers_due(self.machines) if self._prompt else ())]

    def time_may_pass(self, s: Any) -> bool:
        """Whether the system has a clock, and nothing holds it."""
        return self.layout.clock is not None and not any(holds(s) for holds in self._holding_time)

    def _is_over(self, s: Any) -> bool:
        passage, clock = self.relation.passage, self.layout.clock
        assert passage is not None and clock is not None
        return bool(s[clock] >= passage.clock.horizon)

    def _passage(self, s: State, of: tuple[bool, ...]) -> Steps:
        """Time passes, unless something holds it."""
        if self.time_may_pass(s):
            yield from self._tick(s, of)

    def _tick(self, s: State, of: Sequence[bool]) -> Steps:
        clock = self.layout.clock
        assert clock is not None
        now = f"now {s[clock] + 1}"
        after = with_cell(s, clock, s[clock] + 1)
        yield Action("clock", None, 0, now, group=("clock",)), after

    # For properties, paths and reports

    def world(self, e: x.Expression) -> Function:
        """An expression over the whole state as a function."""
        return function(source(e, Frame(self.layout, self.system.values())))

    def asks(self, e: x.Expression) -> bool:
        """Whether an expression speaks only of machines that keep to their specification."""
        roles = {m.role for m in self.layout.traitor.machines} if self.layout.traitor is not None else set()

        def speaks(node: x.Expression) -> bool:
            if isinstance(node, x.Pending):
                channel = self.system.channels.get(node.name) or self.system.channel_of(node.name)
                return bool({channel.sender, channel.receiver} & roles) and node.name not in self.layout.known
            if isinstance(node, x.GlobalQuery):
                return node.name == "running" and node.subjects[0] in roles
            return isinstance(node, x.Data | x.ControlState | x.Took) and node.role in roles

        return not roles or not x.mentions(e, speaks)

    def product(self) -> list[tuple[str, int]]:
        """The machines of the product by name, and the cells of their control states."""
        roles = [self.system.roles[name] for name in self.system.product]
        return [(machine_name(r, i), self.layout.at(r.name, i, None)) for r in roles for i in range(r.count)]

    def taken(self, s: State, action: Action) -> tuple[str, ...]:
        """The transitions that a step takes: its machine's, and those of subsidiary machines along with it."""
        if action.transition is None:
            return ()
        if id(action.transition) not in self._driving:
            return (action.transition.name,)
        driven = (e[4].name for e in self.effects(s, action) if len(e) == 5 and e[4] is not None)
        return action.transition.name, *driven

    @cached_property
    def _driving(self) -> set[int]:
        """The transitions, by identity, that drive subsidiary machines."""
        moves = (move for machine in self.machines for of in machine.moves.values() for move in of)
        return {id(move.transition) for move in moves if any(work.lane is None for work in move.work)}

    def effects(self, s: State, action: Action) -> list[Any]:
        """What a step sent (lane, message, fields) and drove (machine, event, before, after, transition), in order."""
        log: list[Any] = []
        if action.role is None or action.kind == "lose":
            return log
        machine = self.by_name[action.role, action.instance]
        move = machine.move(s, action.event, action.transition) if action.transition is not None else None
        new = opened(s)
        if action.lane is not None:
            self._receive(new, machine, action, move, log)
        elif move is not None:
            self._fire(new, machine, move, action.fields, action.sender, log)
        return log


def choose(moves: Sequence[Move], s: Any, e: tuple[Any, ...], sender: int) -> Move | None:
    """The one move whose guard holds."""
    holding = [move for move in moves if move.guard(s, e, sender)]
    if len(holding) > 1:
        names = [move.transition.name for move in holding]
        raise SpecFault("guards", f"the guards of {names[0]} and {names[1]} both hold")
    return holding[0] if holding else None
