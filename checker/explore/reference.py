"""The reference: every step from a state of a system, read off its lowered form.

It is meant to be believed at once, not to be fast (paper, sections 3 and 4.2). A step consumes one event at one
machine: it commits the record, and does the work of the new state. Everything else (a policy's decision, a handler's
end, time) is a later step. faulty.py adds the steps of actors that crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

from leasehold.checker.explore import channels
from leasehold.checker.explore.ground import GroundMachine, GroundOffer, GroundPiece, Move
from leasehold.checker.explore.layout import Lane, State, closed, opened, with_cell, with_element
from leasehold.checker.explore.states import States
from leasehold.checker.explore.step import FORGED, Action, SpecFault
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Relation
from leasehold.spec.language.model import machine_name

LATER = 10  # ticks, and twice the horizon, that are looked ahead for a timer
Steps: TypeAlias = Iterator[tuple[Action, State]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a system: its steps from a state, given of which of its kinds of faults any are left.

    `machine` is the one whose steps by itself they are, if they are those of one. Where one of the conditions `unless`
    holds there are none, and else those of `otherwise`.
    """

    steps: Callable[[State, tuple[bool, ...]], Steps]
    faults: tuple[str, ...] = ()
    machine: GroundMachine | None = None
    unless: tuple[Callable[[State], bool], ...] = ()
    otherwise: Callable[[State, tuple[bool, ...]], Steps] | None = None


class Reference(States):
    """First states and steps of a lowered form.

    Attributes:
        interrupting: kinds of faults that may break off the steps of machines and channels.
        prompt: whether time waits while a timer is due.
    """

    interrupting: tuple[str, ...] = ()

    def __init__(self, relation: Relation) -> None:
        super().__init__(relation)
        layout = self.layout
        self.up = layout.up
        self.at = {fault: i for i, fault in enumerate(self.limited)}
        self.prompt = relation.passage is not None and bool(relation.passage.unless)
        self._stops = {a.name: layout.stopping(a) for a in layout.actors}
        ends = {lane.cell: layout.ends(lane) for lane in layout.lanes}
        self._separates = {cell: layout.separating(layout.of[a], layout.of[b]) for cell, (a, b) in ends.items()}
        self._receives = {r.channel.name: r for r in relation.receives}

    @property
    def faulty(self) -> bool:
        """Returns whether actors may stop: the system was lowered with a budget of faults, though it may be empty."""
        return bool(self.up)

    # Steps

    def successors(self, s: State, left: tuple[int, ...] | None = None) -> Steps:
        """Every step from a state, in a fixed order; those that take more faults than are left may be missing.

        Raises:
            SpecFault: a step shows that the specification is wrong.
        """
        for part in self.parts:
            yield from part.steps(s, tuple(self.may_come(fault, left) for fault in part.faults))

    def may_come(self, fault: str, left: tuple[int, ...] | None) -> bool:
        """Returns whether a fault of a kind with a limit is possible, and left."""
        at = self.at.get(fault)
        return at is not None and (left is None or left[at] > 0)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of the system, in order: machines, channels, and time."""
        parts = [Part(partial(self._machine_steps, m), self.interrupting, m) for m in self.machines]
        parts += [Part(partial(self._lane_steps, lane), self.interrupting) for lane in self.layout.lanes]
        if self.layout.clock is not None:
            parts.append(Part(self.passage, unless=(self.is_over, *self._all_timers), otherwise=self.tick))
        return parts

    # Machines

    def running(self, s: Any, machine: GroundMachine) -> bool:
        """Returns whether a machine takes steps."""
        actor = self.layout.of[machine.role.name, machine.instance]
        return actor is not self.layout.traitor and all(s[at] not in v.stops for at, v in self._stops[actor.name])

    def _machine_steps(self, machine: GroundMachine, s: State, which: Sequence[bool]) -> Steps:
        """The steps that a machine takes by itself: a local event, or a tick that is due."""
        offers = machine.offers[s[machine.cell]]
        for offer in offers if offers and self.running(s, machine) else ():
            for e in offer.values(s):
                yield from self.offered(machine, offer, e, s, which)

    def offered(
        self, machine: GroundMachine, offer: GroundOffer, e: tuple[Any, ...], s: State, which: Sequence[bool]
    ) -> Steps:
        """The step in which a running machine takes what is offered to it, if it does."""
        move = choose(offer.moves, s, e, -1) if offer.allowed(s, e, -1) else None
        if move is None:
            return
        after = self._step(s, partial(self._fire, machine=machine, move=move, e=e, sender=-1, log=None))
        if after is not None:
            kind = "tick" if offer.offer.cause == "tick" else "local"
            yield (
                Action(
                    kind,
                    machine.role.name,
                    machine.instance,
                    offer.offer.event,
                    e,
                    -1,
                    move.transition,
                    group=offer.group_with(e),
                ),
                after,
            )

    def _step(self, s: State, does: Callable[[list[Any]], None]) -> State | None:
        """The state after a step; None where it would send into a full channel."""
        new = opened(s)
        try:
            does(new)
        except channels.LaneFull:
            return None
        return closed(new)

    def fired(
        self, s: State, machine: GroundMachine, move: Move, e: tuple[Any, ...], sender: int = -1
    ) -> tuple[State, list[Any]]:
        """The state after a machine has taken a move, and what that sent and drove, as `effects` tells it."""
        new, log = opened(s), list[Any]()
        self._fire(new, machine, move, e, sender, log)
        return closed(new), log

    def _fire(
        self,
        new: list[Any],
        machine: GroundMachine,
        move: Move,
        e: tuple[Any, ...],
        sender: int,
        log: list[Any] | None,
    ) -> None:
        """Takes a transition in place: commits the record, then does the work."""
        passed = self._commit(new, machine, move, e, sender)
        for piece in move.work:
            if piece.wanted(new, passed, -1):
                self._do(new, piece, log, passed=passed)

    def _commit(
        self, new: list[Any], machine: GroundMachine, move: Move, e: tuple[Any, ...], sender: int
    ) -> tuple[Any, ...]:
        """Commits the record; returns what the step passes to its work."""
        passed: tuple[Any, ...] = () if move.passed is None else move.passed(new, e, sender)
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
        return passed

    def _do(
        self,
        new: list[Any],
        work: GroundPiece,
        log: list[Any] | None,
        again: bool = False,
        passed: tuple[Any, ...] = (),
    ) -> None:
        """Does a piece of work: sends, or drives a subsidiary machine."""
        fields = work.fields(new, passed, -1)
        for at, field in work.bounded:
            if not t.in_range(field.type, fields[at]):
                given = f"`{field.name}` of `{work.piece.event}` the value {t.show(field.type, fields[at])}"
                raise SpecFault("range", f"task `{work.piece.task.name}` gives {given}, outside its type's range")
        if work.lane is not None:
            self._send(new, work, work.lane, fields, again)
            if log is not None and not (again and work.lane.channel.durable):
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
        self.put(channels.put_again if again else channels.put, new, lane, message, fields)

    def put(
        self,
        operation: Callable[..., channels.Content],
        new: list[Any],
        lane: Lane,
        message: str,
        fields: tuple[Any, ...],
    ) -> None:
        """Does to a lane, with a message of it, one of the operations put, put again and number."""
        line = self.layout.lines.get(lane.cell, ())
        beside = sum(len(new[other.cell]) for other in line if other is not lane)
        kind, capacity = lane.channel.kind, lane.channel.capacity
        new[lane.cell] = operation(kind, capacity, new[lane.cell], message, fields, beside)

    def close_up(self, new: list[Any], lane: Lane) -> None:
        """Closes up the line of a queue, which some messages of a lane have left."""
        line = self.layout.lines.get(lane.cell, ())
        before = [new[other.cell] for other in line]
        for other, was, content in zip(line, before, channels.closed_up(before), strict=True):
            if content != was:
                new[other.cell] = content

    def _to_traitor(self, lane: Lane) -> bool:
        """Returns whether the receiver keeps to no machine: what is sent to it does not wait in a channel."""
        return self.layout.of[lane.channel.receiver, lane.receiver] is self.layout.traitor is not None

    # Messages

    def connected(self, s: Any, lane: Lane) -> bool:
        """Returns whether messages of a channel come through."""
        return all(s[at] not in values for at, values in self._separates[lane.cell])

    def may(self, s: Any, lane: Lane, fault: str) -> bool:
        """Returns whether a channel may lose, duplicate or reorder a message; a stopped sender's may always be lost.

        A `fifo` or `queue` has those faults alone that it declares: else its messages are kept until they are received.
        """
        if lane.channel.durable:
            return self._declared(s, lane, fault)
        if fault == "lose" and self._sender_is_down(s, lane):
            return True
        return fault in self.at or fault in self.relation.unlimited or self._declared(s, lane, fault)

    def _declared(self, s: Any, lane: Lane, fault: str) -> bool:
        """Returns whether the channel's own budget of a fault is not used up."""
        at = self.layout.budgets.get((lane.channel.name, fault))
        return getattr(lane.channel, fault) == "any" or (at is not None and s[at] > 0)

    def spend(self, new: list[Any], lane: Lane, fault: str) -> tuple[int, ...]:
        """Counts a fault of a channel against its own budget; returns what it takes of the budget of all."""
        if fault == "lose" and not lane.channel.durable and self._sender_is_down(new, lane):
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
            first = entry[0] == 1 if channel.kind == "queue" else index == 0
            turn = not receive.in_turn or first or (channel.kind == "mailbox" and before == 0)
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
            self.close_up(new, lane)
            cost = self.spend(new, lane, "lose")
            action = Action(
                "lose",
                channel.receiver,
                lane.receiver,
                entry[1],
                entry[2],
                lane.sender,
                None,
                lane,
                index,
                fault=True,
                cost=cost,
            )
            yield action, closed(new)

    def _deliver(
        self,
        s: State,
        lane: Lane,
        receiver: GroundMachine,
        index: int,
        entry: channels.Entry,
        copy: bool,
        group: tuple[Any, ...] | None,
    ) -> tuple[Action, list[Any]] | None:
        number, kind, fields = entry
        again = number == 0
        moves = [] if again else receiver.moves.get((s[receiver.cell], kind), [])
        move = choose(moves, s, fields, lane.sender)
        if lane.channel.waits and move is None:
            return None  # it stays where it is
        action = Action(
            "duplicate" if again else "deliver",
            receiver.role.name,
            receiver.instance,
            kind,
            fields,
            lane.sender,
            move.transition if move else None,
            lane,
            index,
            copy,
            group,
            fault=group is None,
        )
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
            self.close_up(new, lane)
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
        """Returns whether a timer of a machine has run out."""
        timers = machine.timers.get(s[machine.cell])
        if not timers or not self.running(s, machine):
            return False
        return any(choose(o.moves, s, (), -1) is not None for o in timers)

    def timers(self, machines: Iterable[GroundMachine]) -> list[Callable[[State], bool]]:
        """Conditions of which one holds while time waits for a timer of these machines."""
        return [partial(self.due, m) for m in machines if m.timers] if self.prompt else []

    @cached_property
    def _all_timers(self) -> list[Callable[[State], bool]]:
        return self.timers(self.machines)

    def is_over(self, s: Any) -> bool:
        """Returns whether the clock has reached its horizon."""
        passage, clock = self.relation.passage, self.layout.clock
        assert passage is not None and clock is not None
        return bool(s[clock] >= passage.clock.horizon)

    def end_of_time(self, s: Any) -> str:
        """Returns the words to end a reason with, where a run ends in a state in which a timer is due after the end."""
        clock = self.layout.clock
        if clock is None or not self.is_over(s):
            return ""
        for now in range(s[clock] + 1, 3 * s[clock] + LATER):
            later = (*s[:clock], now, *s[clock + 1 :])
            due = next((m for m in self.machines if self.due(m, later)), None)
            if due is not None:
                name = machine_name(due.role, due.instance)
                return f"; a timer of {name} would be due at {now}, after the horizon (docs/howto/horizon.md)"
        return ""

    def time_may_pass(self, s: Any) -> bool:
        """Returns whether the system has a clock, and neither its horizon nor a timer holds it."""
        if self.layout.clock is None or self.is_over(s):
            return False
        return not any(is_due(s) for is_due in self._all_timers)

    def passage(self, s: State, of: Sequence[bool]) -> Steps:
        """Time passes, unless something holds it."""
        if self.time_may_pass(s):
            yield from self.tick(s, of)

    def tick(self, s: State, of: Sequence[bool]) -> Steps:
        clock = self.layout.clock
        assert clock is not None
        now = f"now {s[clock] + 1}"
        after = with_cell(s, clock, s[clock] + 1)
        yield Action("clock", None, 0, now, group=("clock",), passes=True), after

    # For paths and reports

    def taken(self, s: State, action: Action) -> tuple[str, ...]:
        """The transitions that a step takes: its machine's, and those of subsidiary machines along with it."""
        if action.transition is None:
            return ()
        driven = (e[4].name for e in self.effects(s, action) if len(e) == 5 and e[4] is not None)
        return action.transition.name, *driven

    def effects(self, s: State, action: Action) -> list[Any]:
        """Returns what a step sent and drove, in order.

        Each thing sent is a lane, a message and fields; each thing driven a machine, an event, the states before and
        after, and a transition.
        """
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
