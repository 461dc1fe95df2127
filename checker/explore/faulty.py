"""The meaning of a system whose actors crash and whose network fails: steps, as in transition_system.py, and faults.

Theory of operation (paper, sections 3.2 and 3.3). What is durable is the record of every machine, with its sequence
numbers, and what the world outside holds; everything else goes with a crash. An actor may crash

- between two steps (`crash:broker/ticketed#before-commit`): no event was being consumed, or one was and comes again, as
  nothing was committed;
- in a step, after the commit and any part of the work that follows it (`#after-commit`, `#after-tell`). The message
  that was consumed was not acknowledged, so it comes again, with its number. What was not sent has its number all the
  same: numbers are committed with the record;
- while it recovers (`#recovering-after-tell`), after any part of the work that recovery does.

The actors of a node, and all actors (`@everything`), crash together at the same points. While an actor is down its
machines take no step, messages to it wait, and those that it sent may be lost, each on its own. Recovery
(`recover:site`) starts the work of every machine's state again, with the numbers that it had. It asks nobody, and comes
in the end. An actor that has halted does not recover.

A step of the explorer is a subset of the work list: tasks of one list may overlap, so any of them may have been done.
What a policy or handler has begun is not in the model: recovery asks it again. How many faults are left is not part of
a state: `budgeted` are the limits, `Action.cost` what a step takes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.compiled import Driving, Machine, Sending, wanted
from leasehold.checker.explore.fault_layout import DOWN, EVERYTHING, GONE, UP, WHOLE, Actor, Crash, FaultLayout
from leasehold.checker.explore.footprint import Part
from leasehold.checker.explore.forging import Forger
from leasehold.checker.explore.layout import Lane, State, closed, opened, with_cell
from leasehold.checker.explore.retries import Retrier
from leasehold.checker.explore.step import FORGED, Action
from leasehold.checker.explore.surroundings import clocks_gain, clocks_stand, partitions
from leasehold.checker.explore.transition_system import TransitionSystem
from leasehold.faults import Budget
from leasehold.faults.points import ACKNOWLEDGE, AFTER, BEFORE, RECOVERING, point_name, work_done
from leasehold.spec.language import expression as x
from leasehold.spec.language.model import System
from leasehold.spec.language.types import Value

Work = Sending | Driving
_CRASHES = ("crash", "power_cut")
_COUNTED = ("crash", "power_cut", "halt", "duplicate", "lose", "reorder", "partition")


class FaultySystem(TransitionSystem):
    """First states and steps of a system under a budget of faults."""

    layout: FaultLayout

    def __init__(self, system: System, budget: Budget) -> None:
        self.budget = budget
        self.limited = [f for f in _COUNTED if isinstance(getattr(budget, f), int) and getattr(budget, f) > 0]
        self.at = {fault: i for i, fault in enumerate(self.limited)}
        layout = FaultLayout(system, budget)
        self._crashes = self._all_crashes(layout)
        self._possible: dict[tuple[bool, bool], list[Crash]] = {}
        super().__init__(system, layout)
        self.budgeted = tuple(getattr(budget, f) for f in self.limited)
        self.machines_of = {a.name: [self.by_name[m] for m in a.machines] for a in layout.actors}
        self.crossing = {lane.cell: layout.lane_crossing(lane) for lane in layout.lanes}
        self.forger = Forger(self) if layout.traitor is not None else None
        self._numbered = [lane.cell for lane in layout.lanes if lane.channel.kind == "mailbox"]

    def _all_crashes(self, layout: FaultLayout) -> list[Crash]:
        found = [Crash(name, actors, "crash") for name, actors in layout.groups.items() if "crash" in self.at]
        if "power_cut" in self.at:
            found.append(Crash(EVERYTHING, tuple(a for a in layout.actors if a is not layout.traitor), "power_cut"))
        return found

    def _some_crashes(self, which: tuple[bool, bool]) -> list[Crash]:
        """The crashes that may come, given whether those of actors may, and those of all together."""
        if which not in self._possible:
            self._possible[which] = [c for c in self._crashes if which[c.fault == "power_cut"]]
        return self._possible[which]

    def initial_states(self) -> list[State]:
        extra = self.layout.initial()
        return [(*s, *extra) for s in super().initial_states()]

    @cached_property
    def quiet(self) -> list[tuple[int, Value]]:
        """Cells, and what they hold while nothing shows a fault."""
        parted = [] if self.layout.partition is None else [(self.layout.partition, WHOLE)]
        return [*((actor.up, UP) for actor in self.layout.actors), *parted]

    def without_faults(self, state: State) -> State | None:
        """The same state of the system without faults; None while an actor is down or the network is parted."""
        return state[: self.layout.base] if all(state[cell] == value for cell, value in self.quiet) else None

    def effects(self, s: State, action: Action) -> list[Any]:
        """What a step sent and drove; of a crash, what of the work was done before it, and of a recovery all of it."""
        if action.kind in ("partition", "heal", "skew"):
            return []
        if action.kind not in ("crash", "recover", "halt", "retry"):
            return super().effects(s, action)
        log: list[Any] = []
        if not action.done:
            return log
        new = opened(s)
        if action.transition is None:
            for w, d in zip(self._again(s, action), action.done, strict=True):
                if d:
                    self._do(new, w, log, again=True)
            return log
        assert action.role is not None
        machine = self.by_name[action.role, action.instance]
        move = machine.move(s, action.event, action.transition)
        self._commit(new, machine, move, action.fields, action.sender)
        work = [w for w in move.work if wanted(w, new)]
        for w, d in zip(work, action.done, strict=True):
            if d:
                self._do(new, w, log)
        return log

    def _again(self, s: State, action: Action) -> list[Work]:
        """The work that a recovery or a retry does again."""
        assert action.role is not None
        if action.kind == "retry":
            machine = self.by_name[action.role, action.instance]
            return [w for w in machine.places[s[machine.cell]].work if wanted(w, s)]
        actor = self.layout.of[action.role, action.instance]
        return self._recovering(s, self.machines_of[actor.name])

    # What parts read and write

    def cells_of(self, machine: Machine) -> frozenset[int] | None:
        cells, layout = super().cells_of(machine), self.layout
        if cells is None:
            return None
        own = layout.of[machine.role.name, machine.instance]
        ups = {a.up for c in self._crashes if own in c.actors for a in c.actors}
        return cells | ups | {own.up} | set(layout.known.values())

    def lane_cells(self, lane: Lane) -> frozenset[int] | None:
        cells = super().lane_cells(lane)
        parted = [] if self.layout.partition is None else [self.layout.partition]
        return cells and cells.union(parted, [self._sender(lane).up])

    def _actor_cells(self, actor: Actor) -> frozenset[int] | None:
        found = [self.cells_of(self.by_name[name]) for name in actor.machines]
        return None if None in found else frozenset().union(*(cells for cells in found if cells))

    # What faults may do

    def running(self, s: Any, machine: Machine) -> bool:
        actor = self.layout.of[machine.role.name, machine.instance]
        return bool(s[actor.up]) and actor is not self.layout.traitor

    def asks(self, e: x.Expression) -> bool:
        if self.layout.traitor is None:
            return True
        roles = {role for role, _ in self.layout.traitor.machines}

        def speaks(node: x.Expression) -> bool:
            if isinstance(node, x.Pending):
                channel = self.system.channels.get(node.name) or self.system.channel_of(node.name)
                return bool({channel.sender, channel.receiver} & roles) and node.name not in self.layout.known
            return isinstance(node, x.Data | x.State | x.Took | x.Running) and node.role in roles

        return not x.mentions(e, speaks)

    def connected(self, s: Any, lane: Lane) -> bool:
        return self.layout.partition is None or s[self.layout.partition] not in self.crossing[lane.cell]

    def may(self, s: Any, lane: Lane, fault: str) -> bool:
        if fault == "lose" and not s[self._sender(lane).up]:
            return True
        return getattr(self.budget, fault) != 0 or super().may(s, lane, fault)

    def spend(self, new: list[Any], lane: Lane, fault: str) -> tuple[int, ...]:
        if (fault == "lose" and not new[self._sender(lane).up]) or super().may(new, lane, fault):
            return super().spend(new, lane, fault) if fault != "lose" or new[self._sender(lane).up] else ()
        at = self.at.get(fault)
        return () if at is None else (at,)

    def _sender(self, lane: Lane) -> Actor:
        return self.layout.of[lane.channel.sender, lane.sender]

    def send_again(self, new: list[Any], work: Sending) -> None:
        """Sends what was sent before, under the number that it had."""
        self._send(new, work, None, again=True)

    def _send(self, new: list[Any], work: Sending, log: list[Any] | None, again: bool = False) -> None:
        lane = work.lane
        if self.layout.of[lane.channel.receiver, lane.receiver] is not self.layout.traitor:
            super()._send(new, work, log, again)
            return
        fields = work.fields(new, (), -1)
        known = self.layout.known.get(work.task.message)
        if known is not None:
            new[known] |= {fields}
        if log is not None:
            log.append((lane, work.task.message, fields))

    def _rest_cells(self, crash: Crash) -> frozenset[int] | None:
        if not self.local:
            return None
        first = [self.by_name[actor.machines[0]].cell for actor in crash.actors]
        return frozenset([*first, *(actor.up for actor in crash.actors)])

    # Steps

    def successors(self, s: State, left: tuple[int, ...] | None = None) -> Iterator[tuple[Action, State]]:
        """Every step and every fault from a state, in a fixed order."""
        for part in self.parts:
            yield from part.steps(s, tuple([self.may_come(fault, left) for fault in part.faults]))

    def may_come(self, fault: str, left: tuple[int, ...] | None) -> bool:
        """Whether a fault of a kind with a limit is possible, and left."""
        at = self.at.get(fault)
        return at is not None and (left is None or left[at] > 0)

    @cached_property
    def parts(self) -> list[Part]:
        layout = self.layout
        parts = [*self._inner_parts(_CRASHES), *self._time_part()]
        retriers = [Retrier(self, machine) for machine in self.machines] if self.budget.lose else []
        parts += [retrier.part(self._something_missing) for retrier in retriers if retrier.back]
        if self.forger is not None:
            parts.append(Part(None, self._forged, _CRASHES))
        parts += [Part(self._rest_cells(c), partial(self._at_rest, c), (c.fault,)) for c in self._crashes]
        for actor in layout.actors:
            is_down = partial(_holds, actor.up, DOWN)
            parts.append(Part(self._actor_cells(actor), partial(self._recover, actor), _CRASHES, is_down))
            if "halt" in self.at and actor is not layout.traitor:
                parts.append(Part([actor.up], partial(self._halt, actor), ("halt",)))
        if layout.partition is not None:
            parts.append(Part([layout.partition], partial(partitions, self), ("partition",)))
        if layout.lead:
            parts.append(Part(None, partial(clocks_gain, self)))
        return parts

    def _something_missing(self, s: State) -> bool:
        return any(channels.missing(s[cell]) for cell in self._numbered)

    def _forged(self, s: State, which: Any = (True, True)) -> Iterator[tuple[Action, State]]:
        assert self.forger is not None
        crashes = self._some_crashes(which)
        for action, after in self.forger.deliveries(s):
            yield action, after
            yield from self._crash_in(s, action, crashes)

    def _halt(self, actor: Actor, s: State, of: Any = (True,)) -> Iterator[tuple[Action, State]]:
        """An actor stops for good."""
        if s[actor.up] is UP and of[0]:
            role, instance = actor.machines[0]
            action = Action("halt", role, instance, f"halt:{actor.name}", fault=True, cost=(self.at["halt"],))
            yield action, with_cell(s, actor.up, GONE)

    def _machine_steps(self, machine: Machine, s: State, which: Any = (True, True)) -> Iterator[tuple[Action, State]]:
        crashes = self._some_crashes(which)
        for action, after in super()._machine_steps(machine, s):
            yield action, after
            yield from self._crash_in(s, action, crashes)

    def _lane_steps(self, lane: Lane, s: State, which: Any = (True, True)) -> Iterator[tuple[Action, State]]:
        crashes = self._some_crashes(which)
        for action, after in super()._lane_steps(lane, s):
            yield action, after
            if action.copy:
                continue
            if action.transition is not None:
                yield from self._crash_in(s, action, crashes)
            elif action.kind == "deliver":
                yield from self._crash_unmoved(s, action, crashes)

    def _tick(self, s: State, clock: int) -> Iterator[tuple[Action, State]]:
        for action, after in super()._tick(s, clock):
            yield action, after
            yield from clocks_stand(self, s, action, after)

    # Crashes

    def _down(self, s: Any, actors: Iterable[Actor]) -> State:
        new = opened(s)
        for actor in actors:
            if new[actor.up] is UP:
                new[actor.up] = DOWN
        return closed(new)

    def _at_rest(self, crash: Crash, s: State, of: Any = (True,)) -> Iterator[tuple[Action, State]]:
        """A crash between two steps: nothing was committed that is not done."""
        if not of[0]:
            return
        up = [actor for actor in crash.actors if s[actor.up] is UP]
        if not up or (crash.fault == "crash" and len(up) < len(crash.actors)):
            return
        role, instance = up[0].machines[0]
        point = point_name(role, s[self.by_name[role, instance].cell], BEFORE) + crash.suffix
        action = Action("crash", role, instance, point, point=point, fault=True, cost=(self.at[crash.fault],))
        yield action, self._down(s, crash.actors)

    def _crash_in(self, s: State, action: Action, crashes: Sequence[Crash]) -> Iterator[tuple[Action, State]]:
        """The crashes of the machine that takes a step: after its commit, and after each part of the work."""
        assert action.role is not None and action.transition is not None
        machine = self.by_name[action.role, action.instance]
        among = self.stopping(s, self.layout.of[machine.role.name, machine.instance], crashes)
        if not among:
            return
        move = machine.move(s, action.event, action.transition)
        base = opened(s)
        lane = action.lane
        if lane is not None and action.position != FORGED:
            self._unacknowledged(base, lane, action.position)
        self._commit(base, machine, move, action.fields, action.sender)
        work = [w for w in move.work if wanted(w, base)]
        for done in product((False, True), repeat=len(work)):
            if all(done) and (lane is None or action.position == FORGED):
                continue  # everything was done: the same as a crash between two steps
            new = opened(base)
            try:
                for w, d in zip(work, done, strict=True):
                    self._do_or_number(new, w, d)
            except channels.Full:
                continue
            where = ACKNOWLEDGE if all(done) else AFTER
            tasks = () if all(done) else work_done(tuple((w.task.name, d) for w, d in zip(work, done, strict=True)))
            point = point_name(move.transition.role, move.transition.target, where, tasks)
            for c in among:
                yield (
                    action._replace(
                        kind="crash", group=None, point=point + c.suffix, done=done, fault=True,
                        cost=(*action.cost, self.at[c.fault]),
                    ),
                    self._down(new, c.actors),
                )  # fmt: skip

    def _unacknowledged(self, new: list[Any], lane: Lane, position: int) -> None:
        """A message was consumed, and its number committed; as it is not acknowledged, it comes again."""
        new[lane.cell] = channels.take(lane.channel.kind, new[lane.cell], position, keep_copy=True)

    def stopping(self, s: Any, own: Actor, crashes: Sequence[Crash]) -> list[Crash]:
        """The crashes in which an actor stops while it is at work."""
        return [
            c
            for c in crashes
            if own in c.actors and (c.fault == "power_cut" or all(s[a.up] is UP or a is own for a in c.actors))
        ]

    def _crash_unmoved(self, s: State, action: Action, crashes: Sequence[Crash]) -> Iterator[tuple[Action, State]]:
        """The crashes of a machine that ignores a message: the number is committed, and the message comes again."""
        lane = action.lane
        assert lane is not None and action.role is not None
        if lane.channel.kind != "mailbox":
            return  # nothing is committed: the same as a crash between two steps
        machine = self.by_name[action.role, action.instance]
        own = self.layout.of[action.role, action.instance]
        new = with_cell(s, lane.cell, channels.take("mailbox", s[lane.cell], action.position, keep_copy=True))
        point = point_name(action.role, s[machine.cell], ACKNOWLEDGE)
        for c in self.stopping(s, own, crashes):
            yield (
                action._replace(
                    kind="crash", group=None, point=point + c.suffix, fault=True, cost=(*action.cost, self.at[c.fault])
                ),
                self._down(new, c.actors),
            )  # fmt: skip

    def _do_or_number(self, new: list[Any], work: Work, done: bool) -> None:
        """Does a piece of work, or only what the commit has done of it: give the message its number."""
        if done:
            self._do(new, work, None)
        elif isinstance(work, Sending):
            lane = work.lane
            if self.layout.of[lane.channel.receiver, lane.receiver] is not self.layout.traitor:
                new[lane.cell] = channels.number(lane.channel.kind, new[lane.cell])

    # Recovery

    def _recover(self, actor: Actor, s: State, which: Any = (True, True)) -> Iterator[tuple[Action, State]]:
        if s[actor.up] is not DOWN:
            return
        machines = self.machines_of[actor.name]
        work = self._recovering(s, machines)
        role, instance = actor.machines[0]
        again = self.stopping(s, actor, self._some_crashes(which))
        for done in product((True, False), repeat=len(work)) if again else [(True,) * len(work)]:
            new = opened(s)
            try:
                for w, d in zip(work, done, strict=True):
                    if d:
                        self._do(new, w, None, again=True)
            except channels.Full:
                continue  # it waits for room
            if all(done):
                new[actor.up] = UP
                name = f"recover:{actor.name}"
                yield Action("recover", role, instance, name, group=("recover", actor.name), done=done), closed(new)
            elif any(done):
                tasks = work_done(tuple((w.task.name, d) for w, d in zip(work, done, strict=True)))
                point = point_name(role, s[machines[0].cell], RECOVERING, tasks)
                for c in again:
                    at = point + c.suffix
                    yield (
                        Action("crash", role, instance, at, point=at, done=done, fault=True, cost=(self.at[c.fault],)),
                        self._down(new, c.actors),
                    )

    def _recovering(self, s: Any, machines: list[Machine]) -> list[Work]:
        """The work that recovery starts again: that of every machine's state."""
        return [w for machine in machines for w in machine.places[s[machine.cell]].work if wanted(w, s)]


def _holds(cell: int, value: object, s: State) -> bool:
    return bool(s[cell] is value)
