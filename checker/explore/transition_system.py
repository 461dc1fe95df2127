"""The meaning of a system: first states, and the steps from every state.

This is the reference semantics (docs/reference/language.md, "Machines"; paper, section 3). A step consumes one event at
one machine, and in the same step commits the record, puts the messages of the new state on their way and hands the new
state's events to subsidiary machines. Everything else (a policy's decision, a handler's end, time) is a later step.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import product
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.compiled import Driving, Function, Machine, Move, Sending, function, wanted
from leasehold.checker.explore.footprint import Part
from leasehold.checker.explore.layout import Lane, Layout, State, closed, opened, with_cell, with_element
from leasehold.checker.explore.step import FORGED, Action, SpecFault
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.build import constant_value
from leasehold.spec.language.model import Datum, System, machine_name
from leasehold.spec.language.python_source import Frame, source


class TransitionSystem:
    """First states and steps of a system."""

    local = True  # whether steps read and write what the machines and channels name, and nothing else
    budgeted: tuple[int, ...] = ()  # of each kind of fault with a limit, how many a run may have

    def __init__(self, system: System, layout: Layout | None = None) -> None:
        self.system = system
        self.layout = layout or Layout(system)
        self.machines = [Machine(system, self.layout, role, i) for role, i in system.machines()]
        self.by_name = {(m.role.name, m.instance): m for m in self.machines}
        self._parents = frozenset(role.parent for role in system.roles.values() if role.parent)
        self.horizon = system.clock.horizon if system.clock is not None else 0
        self.prompt = system.clock is not None and not system.clock.late
        self._bounds = [function(words) for words in self.bounds]
        self.timed = [m for m in self.machines if any(place.ticks for place in m.places.values())]

    def world(self, e: x.Expression) -> Function:
        """An expression over the whole state as a function."""
        return function(source(e, Frame(self.layout, self.system.values())))

    # First states

    def initial_states(self) -> list[State]:
        cells: list[list[Any]] = []
        for role, _ in self.system.machines():
            cells.append([role.initial.name])
            cells += [self._first_values(d) for d in role.data.values()]
        cells += [[channels.empty(lane.channel.kind)] for lane in self.layout.lanes]
        cells += [[getattr(self.system.channels[name], fault)] for name, fault in self.layout.budgets]
        if self.system.clock is not None:
            cells.append([0])
        states = [tuple(c) for c in product(*cells)]
        if self.system.initially is not None:
            holds = self.world(self.system.initially)
            states = [s for s in states if holds(s, (), -1)]
        return states

    def _first_values(self, datum: Datum) -> list[Any]:
        if not datum.any_initial:
            return [datum.initial]
        ends = datum.explore and tuple(constant_value(e, self.system.values()) for e in datum.explore)
        return list(t.domain(datum.type, ends or None))

    # Bounds

    @cached_property
    def bounds(self) -> list[str]:
        """Sources of what holds within the bounds: the state constraint, and the explored ranges of data."""
        frame = Frame(self.layout, self.system.values())
        found = [] if self.system.constraint is None else [source(self.system.constraint, frame)]
        for role, i in self.system.machines():
            for datum in role.data.values():
                if datum.explore is not None:
                    low, high = (source(e, frame) for e in datum.explore)
                    found.append(f"{low} <= s[{self.layout.at(role.name, i, datum.name)}] <= {high}")
        return found

    def within_bounds(self, state: State) -> bool:
        """Whether the state satisfies the state constraint and the explored ranges of data."""
        return all(holds(state, (), -1) for holds in self._bounds)

    # Steps

    def successors(self, s: State, left: tuple[int, ...] | None = None) -> Iterator[tuple[Action, State]]:
        """Every step from a state, in a fixed order; those that take more faults than are left may be missing.

        Raises:
            SpecFault: a step shows that the specification is wrong.
        """
        for part in self.parts:
            yield from part.steps(s)

    @cached_property
    def parts(self) -> list[Part]:
        """What may happen, in order: at the machines, in the channels, and time."""
        return [*self._inner_parts(), *self._time_part()]

    def _inner_parts(self, faults: tuple[str, ...] = ()) -> list[Part]:
        """The machines and the channels, each with the cells that its steps read and write."""
        machines = [Part(self.cells_of(m), partial(self._machine_steps, m), faults) for m in self.machines]
        lanes = self.layout.lanes
        return machines + [Part(self.lane_cells(lane), partial(self._lane_steps, lane), faults) for lane in lanes]

    def _time_part(self) -> list[Part]:
        return [] if self.layout.clock is None else [Part(None, self._time)]

    def cells_of(self, machine: Machine) -> frozenset[int] | None:
        """What the steps of a machine read and write."""
        if not self.local or machine.reads is None:
            return None
        own = range(machine.cell, machine.cell + 1 + len(machine.role.data))
        found = machine.reads.union(own)
        for place in machine.places.values():
            for work in (*place.work, *(w for moves in place.moves.values() for move in moves for w in move.work)):
                if isinstance(work, Sending):
                    found.add(work.lane.cell)
                    continue
                driven = self.cells_of(self.by_name[work.task.role, work.instance])
                if driven is None:
                    return None
                found |= driven
        return frozenset(found)

    def lane_cells(self, lane: Lane) -> frozenset[int] | None:
        """What the steps of a channel between two machines read and write."""
        cells = self.cells_of(self.by_name[lane.channel.receiver, lane.receiver])
        budgets = {at for (name, _), at in self.layout.budgets.items() if name == lane.channel.name}
        return cells and cells | budgets | {lane.cell}

    def _machine_steps(self, machine: Machine, s: State, of: Any = ()) -> Iterator[tuple[Action, State]]:
        """What a machine may do by itself: take a local event, or a tick that is due."""
        if not self.running(s, machine):
            return
        place = machine.places[s[machine.cell]]
        for offer in place.offers:
            for e in offer.values(s):
                if offer.condition is not None and not offer.condition(s, e, -1):
                    continue
                move = choose(offer.moves, s, e, -1)
                if move is not None:
                    action = Action(
                        "local", machine.role.name, machine.instance, offer.event, e, -1, move.transition,
                        None, 0, False, offer.group,
                    )  # fmt: skip
                    after = self._taken(s, machine, move, e, -1)
                    if after is not None:
                        yield action, after
        move = choose(place.ticks, s, (), -1)
        if move is not None:
            group = ("tick", machine.role.name, machine.instance)
            action = Action(
                "tick", machine.role.name, machine.instance, "tick", transition=move.transition, group=group
            )
            after = self._taken(s, machine, move, (), -1)
            if after is not None:
                yield action, after

    def due(self, s: Any, machine: Machine) -> bool:
        """Whether a timer of a machine has run out."""
        return self.running(s, machine) and choose(machine.places[s[machine.cell]].ticks, s, (), -1) is not None

    def _time(self, s: State, of: Any = ()) -> Iterator[tuple[Action, State]]:
        """Time passes, unless it has to wait for a timer."""
        clock = self.layout.clock
        if clock is None or s[clock] >= self.horizon:
            return
        if not (self.prompt and any(self.due(s, machine) for machine in self.timed)):
            yield from self._tick(s, clock)

    def _tick(self, s: State, clock: int) -> Iterator[tuple[Action, State]]:
        now = s[clock] + 1
        yield Action("clock", None, 0, f"now {now}", group=("clock",)), with_cell(s, clock, now)

    def _taken(self, s: State, machine: Machine, move: Move, e: tuple[Any, ...], sender: int) -> State | None:
        new = opened(s)
        try:
            self._fire(new, machine, move, e, sender, None)
        except channels.Full:
            return None
        return closed(new)

    def _fire(
        self, new: list[Any], machine: Machine, move: Move, e: tuple[Any, ...], sender: int, log: list[Any] | None
    ) -> None:
        """Takes a transition in place: commits the record, then does the work of the new state."""
        self._commit(new, machine, move, e, sender)
        for work in move.work:
            if wanted(work, new):
                self._do(new, work, log)

    def _commit(self, new: list[Any], machine: Machine, move: Move, e: tuple[Any, ...], sender: int) -> None:
        values = [
            (a, a.value(new, e, sender), None if a.key is None else a.key(new, e, sender)) for a in move.assignments
        ]
        for a, value, key in values:
            if key is not None:
                value = with_element(new[a.cell], key, value)
            if a.bounded and not t.in_range(a.type, value):
                raise SpecFault(
                    "range",
                    f"{move.transition.name} sets `{a.name}` to {t.show(a.type, value)}, outside its type's range",
                )
            new[a.cell] = value
        new[machine.cell] = move.transition.target

    def _do(self, new: list[Any], work: Sending | Driving, log: list[Any] | None, again: bool = False) -> None:
        if isinstance(work, Sending):
            self._send(new, work, log, again)
        else:
            self._drive(new, work, log)

    def _drive(self, new: list[Any], driving: Driving, log: list[Any] | None) -> None:
        driven = self.by_name[driving.task.role, driving.instance]
        fields = driving.fields(new, (), -1)
        before = new[driven.cell]
        choices = driven.places[before].moves.get(driving.task.event, [])
        chosen = choose(choices, new, fields, -1)
        if chosen is not None:
            self._fire(new, driven, chosen, fields, -1, log)
        if log is not None:
            log.append((driven, driving.task.event, before, new[driven.cell], chosen and chosen.transition))

    def _send(self, new: list[Any], sending: Sending, log: list[Any] | None, again: bool = False) -> None:
        lane = sending.lane
        put = channels.put_again if again else channels.put
        fields = sending.fields(new, (), -1)
        new[lane.cell] = put(lane.channel.kind, lane.channel.capacity, new[lane.cell], sending.task.message, fields)
        if log is not None:
            log.append((lane, sending.task.message, fields))

    # What faults may do; a world with more of them says more here

    def running(self, s: Any, machine: Machine) -> bool:
        """Whether a machine takes steps."""
        return True

    def may(self, s: Any, lane: Lane, fault: str) -> bool:
        """Whether a channel may still lose, duplicate or reorder a message."""
        budget = getattr(lane.channel, fault)
        if isinstance(budget, str):
            return True
        at = self.layout.budgets.get((lane.channel.name, fault))
        return at is not None and s[at] > 0

    def spend(self, new: list[Any], lane: Lane, fault: str) -> tuple[int, ...]:
        """Counts a fault of a channel against its own budget; answers what it takes of the budget of all."""
        at = self.layout.budgets.get((lane.channel.name, fault))
        if at is not None and new[at] > 0:
            new[at] -= 1
        return ()

    def asks(self, e: x.Expression) -> bool:
        """Whether an expression speaks only of machines that keep to their specification."""
        return True

    def connected(self, s: Any, lane: Lane) -> bool:
        """Whether messages of a channel come through."""
        return True

    # Messages

    def _lane_steps(self, lane: Lane, s: State, of: Any = ()) -> Iterator[tuple[Action, State]]:
        """What may become of the messages of a channel between two machines."""
        channel, cell = lane.channel, lane.cell
        queue = channels.entries(channel.kind, s[cell])
        if not queue:
            return
        receiver = self.by_name[channel.receiver, lane.receiver]
        group = ("deliver", channel.name, lane.sender, lane.receiver)
        in_turn = channel.kind in ("fifo", "mailbox")
        reorder, duplicate, lose = (self.may(s, lane, fault) for fault in ("reorder", "duplicate", "lose"))
        seen: set[Any] = set()
        for index, entry in enumerate(queue) if self.running(s, receiver) and self.connected(s, lane) else ():
            if channel.kind == "bag" and entry in seen:
                continue  # equal messages in a bag are one choice
            seen.add(entry)
            turn = not in_turn or index == 0 or (channel.kind == "mailbox" and queue[index - 1][0] == 0)
            for copy in (False, True) if duplicate and entry[0] > 0 and channel.kind != "set" else (False,):
                if turn or reorder:
                    step = self._deliver(s, lane, receiver, index, entry, copy, group if turn and not copy else None)
                    if step is not None:
                        action, new = step
                        if not turn:
                            action = action._replace(cost=self.spend(new, lane, "reorder"))
                        if copy:
                            action = action._replace(cost=(*action.cost, *self.spend(new, lane, "duplicate")))
                        yield action, closed(new)
        if lose and channel.kind != "set":
            for index, entry in enumerate(queue):
                new = opened(s)
                new[cell] = channels.lose(channel.kind, s[cell], index)
                cost = self.spend(new, lane, "lose")
                action = Action(
                    "lose", channel.receiver, lane.receiver, entry[1], entry[2], lane.sender, None, lane, index,
                    fault=True, cost=cost,
                )  # fmt: skip
                yield action, closed(new)

    def _deliver(
        self, s: State, lane: Lane, receiver: Machine, index: int, entry: channels.Entry, copy: bool,
        group: tuple[Any, ...] | None,
    ) -> tuple[Action, list[Any]] | None:  # fmt: skip
        number, kind, fields = entry
        again = number == 0
        place = receiver.places[s[receiver.cell]]
        move = None if again else choose(place.moves.get(kind, []), s, fields, lane.sender)
        if lane.channel.kind == "set" and move is None:
            return None  # nothing is consumed, so an ignored message is no step
        action = Action(
            "duplicate" if again else "deliver", receiver.role.name, receiver.instance, kind, fields, lane.sender,
            move.transition if move else None, lane, index, copy, group, fault=group is None,
        )  # fmt: skip
        new = opened(s)
        try:
            self._receive(new, receiver, action, move, None)
        except channels.Full:
            return None
        return action, new

    def _receive(
        self, new: list[Any], receiver: Machine, action: Action, move: Move | None, log: list[Any] | None
    ) -> None:
        lane = action.lane
        assert lane is not None
        place = receiver.places[new[receiver.cell]]
        if action.position != FORGED:
            new[lane.cell] = channels.take(lane.channel.kind, new[lane.cell], action.position, action.copy)
        if move is not None:
            self._fire(new, receiver, move, action.fields, lane.sender, log)
        elif action.kind == "duplicate" and not self.system.messages[action.event].answer:
            for work in place.work:
                if not isinstance(work, Sending):
                    continue
                back = work.lane
                to_sender = (back.channel.receiver, back.receiver) == (lane.channel.sender, lane.sender)
                if to_sender and wanted(work, new):
                    self._send(new, work, log, again=True)

    # For people

    def product(self) -> list[tuple[str, int]]:
        """The machines of the product by name, and the cells of their control states."""
        roles = [self.system.roles[name] for name in self.system.product]
        return [(machine_name(r, i), self.layout.at(r.name, i, None)) for r in roles for i in range(r.count)]

    def taken(self, s: State, action: Action) -> tuple[str, ...]:
        """The transitions that a step takes: its machine's, and those of subsidiary machines along with it."""
        if action.transition is None:
            return ()
        names = [action.transition.name]
        if action.transition.role in self._parents:
            names += [e[4].name for e in self.effects(s, action) if len(e) == 5 and e[4] is not None]
        return tuple(names)

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


def choose(moves: list[Move], s: Any, e: tuple[Any, ...], sender: int) -> Move | None:
    """The one move whose guard holds."""
    chosen = None
    for move in moves:
        if move.guard is None or move.guard(s, e, sender):
            if chosen is not None:
                raise SpecFault(
                    "guards", f"the guards of {chosen.transition.name} and {move.transition.name} both hold"
                )
            chosen = move
    return chosen
