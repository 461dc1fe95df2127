"""The meaning of a system whose actors crash and whose network fails: steps, as in transition_system.py, and faults.

Theory of operation (paper, sections 3.2 and 3.3). What is durable is the record of every machine, with its sequence
numbers, and what the world outside holds; everything else goes with a crash. An actor may crash

- between two steps (`crash:broker/ticketed#before-commit`): no event was being consumed, or one was and comes again, as
  nothing was committed;
- in a step, after the commit and any part of the work that follows it (`#after-commit`, `#after-tell`). The message
  that
  was consumed was not acknowledged, so it comes again, with its number. What was not sent has its number all the
  same: numbers are committed with the record;
- while it recovers (`#recovering-after-tell`), after any part of the work that recovery does.

The actors of a node, and all actors (`@everything`), crash together at the same points. While an actor is down its
machines take no step, messages to it wait, and those that it sent may be lost, each on its own. Recovery
(`recover:site`) starts the work of every machine's state again, with the numbers that it had. It asks nobody, and comes
in the end. An actor that has halted does not recover.

A message that is lost while its sender runs is sent again by a retry, with its number: for as long as the sender is in
a state that sends it, it sends what was lost, or what was not answered because the answer was lost.

A step of the explorer is a subset of the work list: tasks of one list may overlap, so any of them may have been done.
What a policy or handler has begun is not in the model: recovery asks it again. How many faults are left is not part of
a state: `budgeted` are the limits, `Action.cost` what a step takes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.compiled import Driving, Machine, Sending, wanted
from leasehold.checker.explore.fault_layout import DOWN, EVERYTHING, GONE, UP, WHOLE, Actor, FaultLayout
from leasehold.checker.explore.forging import Forger
from leasehold.checker.explore.layout import Lane, State
from leasehold.checker.explore.transition_system import FORGED, Action, TransitionSystem
from leasehold.faults import Budget
from leasehold.faults.points import ACKNOWLEDGE, AFTER, BEFORE, RECOVERING, point_name, work_done
from leasehold.spec.language import expression as x
from leasehold.spec.language.model import System

Work = Sending | Driving
_COUNTED = ("crash", "power_cut", "halt", "duplicate", "lose", "reorder", "partition")


class FaultySystem(TransitionSystem):
    """First states and steps of a system under a budget of faults."""

    layout: FaultLayout

    def __init__(self, system: System, budget: Budget) -> None:
        super().__init__(system, FaultLayout(system, budget))
        self.budget = budget
        limited = [f for f in _COUNTED if isinstance(getattr(budget, f), int) and getattr(budget, f) > 0]
        self.budgeted = tuple(getattr(budget, f) for f in limited)
        self.limited = limited
        self.at = {fault: i for i, fault in enumerate(limited)}
        self.machines_of = {a.name: [self.by_name[m] for m in a.machines] for a in self.layout.actors}
        self.crossing = {lane.cell: self.layout.lane_crossing(lane) for lane in self.layout.lanes}
        self.forger = Forger(self) if self.layout.traitor is not None else None
        self._retries = self._retry_lanes()
        self._numbered = [lane.cell for lane in self.layout.lanes if lane.channel.kind == "mailbox"]
        self._rests: dict[tuple[str, str], Action] = {}
        together = self.layout.groups
        self._crashes = [(name, actors, "crash") for name, actors in together.items() if "crash" in self.at]
        if "power_cut" in self.at:
            self._crashes.append(
                (EVERYTHING, tuple(a for a in self.layout.actors if a is not self.layout.traitor), "power_cut")
            )

    def initial_states(self) -> list[State]:
        extra = self.layout.initial()
        return [(*s, *extra) for s in super().initial_states()]

    def without_faults(self, state: State) -> State | None:
        """The same state of the system without faults; None while an actor is down or the network is parted."""
        layout = self.layout
        if layout.partition is not None and state[layout.partition] != WHOLE:
            return None
        return state[: layout.base] if all(state[a.up] for a in layout.actors) else None

    def effects(self, s: State, action: Action) -> list[Any]:
        """What a step sent and drove; of a crash, what of the work was done before it, and of a recovery all of it."""
        if action.kind in ("partition", "heal", "skew"):
            return []
        if action.kind not in ("crash", "recover", "halt", "retry"):
            return super().effects(s, action)
        log: list[Any] = []
        if not action.done:
            return log
        new = list(s)
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

    # Steps

    def successors(self, s: State, left: tuple[int, ...] | None = None) -> Iterator[tuple[Action, State]]:
        """Every step and every fault from a state, in a fixed order."""

        def may(fault: str) -> bool:
            at = self.at.get(fault)
            return at is not None and (left is None or left[at] > 0)

        crashes = [c for c in self._crashes if may(c[2])]
        for action, after in super().successors(s):
            yield action, after
            if crashes and not action.copy:
                if action.transition is not None:
                    yield from self._crash_in(s, action, crashes)
                elif action.kind == "deliver":
                    yield from self._crash_unmoved(s, action, crashes)
        yield from self._retry(s)
        if self.forger is not None:
            for action, after in self.forger.deliveries(s):
                yield action, after
                if crashes and action.transition is not None:
                    yield from self._crash_in(s, action, crashes)
        for name, actors, fault in crashes:
            if all(s[a.up] is UP for a in actors) if fault == "crash" else any(s[a.up] is UP for a in actors):
                yield self._at_rest(s, name, actors, fault)
        for actor in self.layout.actors:
            if s[actor.up] is DOWN:
                yield from self._recover(s, actor, crashes)
            elif s[actor.up] is UP and may("halt") and actor is not self.layout.traitor:
                role, instance = actor.machines[0]
                yield (
                    Action("halt", role, instance, f"halt:{actor.name}", fault=True, cost=(self.at["halt"],)),
                    _with(s, actor.up, GONE),
                )
        if self.layout.cuts:
            yield from self._partition(s, may("partition"))
        if self.layout.lead:
            yield from self._skew(s)

    # Crashes

    def _down(self, s: Any, actors: Iterable[Actor]) -> State:
        new = list(s)
        for actor in actors:
            if new[actor.up] is UP:
                new[actor.up] = DOWN
        return tuple(new)

    def _at_rest(self, s: State, name: str, actors: Sequence[Actor], fault: str) -> tuple[Action, State]:
        """A crash between two steps: nothing was committed that is not done."""
        role, instance = next(a for a in actors if s[a.up] is UP).machines[0]
        state = s[self.by_name[role, instance].cell]
        action = self._rests.get((name, f"{role}[{instance}]/{state}"))
        if action is None:
            point = point_name(role, state, BEFORE) + _together(name, actors)
            action = Action("crash", role, instance, point, point=point, fault=True, cost=(self.at[fault],))
            self._rests[name, f"{role}[{instance}]/{state}"] = action
        return action, self._down(s, actors)

    def _crash_in(
        self, s: State, action: Action, crashes: Sequence[tuple[str, tuple[Actor, ...], str]]
    ) -> Iterator[tuple[Action, State]]:
        """The crashes of the machine that takes a step: after its commit, and after each part of the work."""
        assert action.role is not None and action.transition is not None
        machine = self.by_name[action.role, action.instance]
        own = self.layout.of[machine.role.name, machine.instance]
        among = self._stopping(s, own, crashes)
        move = machine.move(s, action.event, action.transition)
        base = list(s)
        lane = action.lane
        if lane is not None and action.position != FORGED:
            self._unacknowledged(base, lane, action.position)
        self._commit(base, machine, move, action.fields, action.sender)
        work = [w for w in move.work if wanted(w, base)]
        for done in product((False, True), repeat=len(work)):
            if all(done) and (lane is None or action.position == FORGED):
                continue  # everything was done: the same as a crash between two steps
            new = list(base)
            try:
                for w, d in zip(work, done, strict=True):
                    self._do_or_number(new, w, d)
            except channels.Full:
                continue
            where = ACKNOWLEDGE if all(done) else AFTER
            tasks = () if all(done) else work_done(tuple((w.task.name, d) for w, d in zip(work, done, strict=True)))
            point = point_name(move.transition.role, move.transition.target, where, tasks)
            for name, actors, fault in among:
                yield (
                    action._replace(
                        kind="crash", group=None, point=point + _together(name, actors), done=done, fault=True,
                        cost=(*action.cost, self.at[fault]),
                    ),
                    self._down(new, actors),
                )  # fmt: skip

    def _unacknowledged(self, new: list[Any], lane: Lane, position: int) -> None:
        """A message was consumed, and its number committed; as it is not acknowledged, it comes again."""
        new[lane.cell] = channels.take(lane.channel.kind, new[lane.cell], position, keep_copy=True)

    def _stopping(
        self, s: Any, own: Actor, crashes: Sequence[tuple[str, tuple[Actor, ...], str]]
    ) -> list[tuple[str, tuple[Actor, ...], str]]:
        """The crashes in which an actor stops while it is at work."""
        return [
            c for c in crashes if own in c[1] and (c[2] == "power_cut" or all(s[a.up] is UP or a is own for a in c[1]))
        ]

    def _crash_unmoved(
        self, s: State, action: Action, crashes: Sequence[tuple[str, tuple[Actor, ...], str]]
    ) -> Iterator[tuple[Action, State]]:
        """The crashes of a machine that ignores a message: the number is committed, and the message comes again."""
        lane = action.lane
        assert lane is not None and action.role is not None
        if lane.channel.kind != "mailbox":
            return  # nothing is committed: the same as a crash between two steps
        machine = self.by_name[action.role, action.instance]
        own = self.layout.of[action.role, action.instance]
        new = _with(s, lane.cell, channels.take("mailbox", s[lane.cell], action.position, keep_copy=True))
        point = point_name(action.role, s[machine.cell], ACKNOWLEDGE)
        for name, actors, fault in self._stopping(s, own, crashes):
            yield (
                action._replace(
                    kind="crash", group=None, point=point + _together(name, actors), fault=True,
                    cost=(*action.cost, self.at[fault]),
                ),
                self._down(new, actors),
            )  # fmt: skip

    def _do_or_number(self, new: list[Any], work: Work, done: bool) -> None:
        """Does a piece of work, or only what the commit has done of it: give the message its number."""
        if done:
            self._do(new, work, None)
        elif isinstance(work, Sending):
            lane = work.lane
            if self.layout.of[lane.channel.receiver, lane.receiver] is not self.layout.traitor:
                new[lane.cell] = channels.number(lane.channel.kind, new[lane.cell])

    # Recovery and retries

    def _recover(
        self, s: State, actor: Actor, crashes: Sequence[tuple[str, tuple[Actor, ...], str]]
    ) -> Iterator[tuple[Action, State]]:
        machines = self.machines_of[actor.name]
        work = self._recovering(s, machines)
        role, instance = actor.machines[0]
        again = self._stopping(s, actor, crashes)
        for done in product((True, False), repeat=len(work)) if again else [(True,) * len(work)]:
            new = list(s)
            try:
                for w, d in zip(work, done, strict=True):
                    if d:
                        self._do(new, w, None, again=True)
            except channels.Full:
                continue  # it waits for room
            if all(done):
                new[actor.up] = UP
                yield (
                    Action(
                        "recover", role, instance, f"recover:{actor.name}", group=("recover", actor.name), done=done
                    ),
                    tuple(new),
                )
            elif any(done):
                tasks = work_done(tuple((w.task.name, d) for w, d in zip(work, done, strict=True)))
                point = point_name(role, s[machines[0].cell], RECOVERING, tasks)
                for name, actors, fault in again:
                    at = point + _together(name, actors)
                    yield (
                        Action("crash", role, instance, at, point=at, done=done, fault=True, cost=(self.at[fault],)),
                        self._down(new, actors),
                    )

    def _recovering(self, s: Any, machines: list[Machine]) -> list[Work]:
        """The work that recovery starts again: that of every machine's state."""
        return [w for machine in machines for w in machine.places[s[machine.cell]].work if wanted(w, s)]

    def _retry_lanes(self) -> list[tuple[Machine, dict[int, Lane]]]:
        """The machines that retry: those that send by mailboxes; with the way back of each of their ways."""
        if not self.budget.lose:
            return []
        mailboxes = [lane for lane in self.layout.lanes if lane.channel.kind == "mailbox"]
        found = []
        for machine in self.machines:
            back = {}
            for lane in mailboxes:
                if (lane.channel.sender, lane.sender) == (machine.role.name, machine.instance):
                    other = self.layout.lane_between(
                        lane.channel.receiver, lane.receiver, machine.role.name, machine.instance
                    )
                    back[lane.cell] = other if other is not None and other.channel.kind == "mailbox" else lane
            if back:
                found.append((machine, back))
        return found

    def _retry(self, s: State) -> Iterator[tuple[Action, State]]:
        """A machine sends again what was lost, or what was received and whose answer was lost."""
        if not any(channels.missing(s[cell]) for cell in self._numbered):
            return
        for machine, back in self._retries:
            if not self.running(s, machine):
                continue
            work = [w for w in machine.places[s[machine.cell]].work if wanted(w, s)]
            for i, w in enumerate(work):
                if self._is_retried(s, w, back):
                    new = list(s)
                    assert isinstance(w, Sending)
                    self._send(new, w, None, again=True)
                    role, instance = machine.role.name, machine.instance
                    group = ("retry", role, instance, w.lane.cell)
                    done = tuple(j == i for j in range(len(work)))
                    yield Action("retry", role, instance, f"retry:{w.task.name}", group=group, done=done), tuple(new)

    def _is_retried(self, s: State, w: Work, back: dict[int, Lane]) -> bool:
        if not isinstance(w, Sending) or w.lane.cell not in back or self.system.messages[w.task.message].answer:
            return False
        return channels.missing(s[w.lane.cell]) or self._unanswered(s, w.lane, back[w.lane.cell])

    def _unanswered(self, s: State, lane: Lane, back: Lane) -> bool:
        """Whether a message was received, and the answer that its receiver's state sends was lost."""
        receiver = self.by_name[lane.channel.receiver, lane.receiver]
        if back is lane or not channels.received(s[lane.cell]) or not channels.missing(s[back.cell]):
            return False
        place = receiver.places[s[receiver.cell]]
        return self.running(s, receiver) and any(
            isinstance(w, Sending) and w.lane is back and wanted(w, s) for w in place.work
        )

    # The network and clocks

    def _partition(self, s: State, may: bool) -> Iterator[tuple[Action, State]]:
        cell = self.layout.partition
        assert cell is not None
        if s[cell] != WHOLE:
            yield Action("heal", None, 0, "the partition heals", group=("heal",)), _with(s, cell, WHOLE)
        elif may:
            for number in range(1, len(self.layout.cuts) + 1):
                action = Action(
                    "partition", None, 0, self.layout.cut_name(number), fault=True, cost=(self.at["partition"],)
                )
                yield action, _with(s, cell, number)

    def _skew(self, s: State) -> Iterator[tuple[Action, State]]:
        """A clock gains a tick on true time; timers are prompt by the clock of their own actor."""
        for actor in self.layout.actors:
            cell = self.layout.lead[actor.name]
            if s[cell] < self.budget.skew and not (self.prompt and self._due(s, actor)):
                action = Action("skew", None, 0, f"the clock of {actor.name} gains a tick", fault=True)
                yield action, _with(s, cell, s[cell] + 1)

    def _due(self, s: State, actor: Actor) -> bool:
        if s[actor.up] is not UP:
            return False
        return any(
            move.guard is None or move.guard(s, (), -1)
            for machine in self.machines_of[actor.name]
            for move in machine.places[s[machine.cell]].ticks
        )

    def _tick(self, s: State, clock: int) -> Iterator[tuple[Action, State]]:
        """Time passes; a clock that is ahead may stand still meanwhile."""
        ahead = [cell for cell in self.layout.lead.values() if s[cell] > 0]
        for action, after in super()._tick(s, clock):
            yield action, after
            for still in product((False, True), repeat=len(ahead)):
                if any(still):
                    new = list(after)
                    for cell, stands in zip(ahead, still, strict=True):
                        new[cell] -= stands
                    names = [
                        a.name
                        for a in self.layout.actors
                        if new[self.layout.lead[a.name]] < s[self.layout.lead[a.name]]
                    ]
                    words = f"{action.event}, the clock of {', '.join(names)} stands still"
                    yield Action("skew", None, 0, words, fault=True), tuple(new)


def _with(s: State, cell: int, value: object) -> State:
    return (*s[:cell], value, *s[cell + 1 :])


def _together(name: str, actors: Sequence[Actor]) -> str:
    """What a point's name says of a crash of several actors."""
    return "" if len(actors) == 1 and actors[0].name == name else f"@{name}"
