"""The reference under faults: actors crash and recover, lost messages are sent again, and what other faults add.

What is durable is the record of every machine, with its sequence numbers; everything else goes with a crash (paper,
sections 3.2 and 3.3). An actor may crash

- between two steps (`crash:broker/ticketed#before-commit`): no event was being consumed, or one was and comes again;
- in a step, after the commit and any subset of the work, as pieces of work may overlap (`#after-commit`,
  `#after-tell`). The consumed message was not acknowledged, so it comes again, with its number. What was not sent has
  its number all the same: numbers are committed with the record, and so are the messages of a `fifo`;
- while it recovers (`#recovering-after-tell`), after any subset of the work that recovery does.

While an actor is down its machines take no step, messages to it wait, and those that it sent may be lost. Recovery asks
nobody, and comes in the end. How many faults are left is not part of a state: `budgeted` are the limits, `Action.cost`
what a step takes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import groupby, product
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.ground import GroundMachine, GroundOffer, GroundPiece
from leasehold.checker.explore.layout import Lane, State, closed, opened
from leasehold.checker.explore.reference import Part, Reference, Steps, choose
from leasehold.checker.explore.step import FORGED, Action
from leasehold.faults.model import Budget
from leasehold.faults.model.lowering import DOWN, UP, lower_with_faults
from leasehold.faults.model.points import ACKNOWLEDGE, AFTER, BEFORE, RECOVERING, point_name, work_done
from leasehold.spec.language.lower import Change, ClockReading, Crash, ModelActor, lower, messages_of
from leasehold.spec.language.model import System
from leasehold.spec.language.types import Value


class FaultyReference(Reference):
    """First states and steps of a lowered form with faults in it."""

    interrupting = ("crash", "power_cut")

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of the system, in order: those without faults, and those that faults add."""
        crashes, changes = self.interrupting, self.relation.changes
        parts = [*super().parts]
        senders = {self.layout.ends(lane)[0] for lane in self.layout.lanes if lane.cell in self.answered_by}
        again = [m for m in self.machines if self.relation.retries and (m.role.name, m.instance) in senders]
        parts += [Part(partial(self._retries, m)) for m in again]
        parts += [] if self.relation.byzantine is None else [Part(self._forgeries, crashes)]
        parts += [Part(partial(self._crash_at_rest, c), (c.budget,)) for c in self.relation.crashes]
        for actor in self.layout.actors:
            parts.append(Part(partial(self._recover, actor), crashes))
            parts += [Part(partial(self._changes, [c]), (c.budget,)) for c in changes if c.actor == actor.name]
        others = [c for c in changes if not c.actor and not c.gains]
        for _, alike in groupby(others, key=lambda c: next(iter(c.writes)).variable):
            some = list(alike)
            budgets = tuple(dict.fromkeys(c.budget for c in some if c.budget))
            parts.append(Part(partial(self._changes, some), budgets))
        for change in (c for c in changes if c.gains):
            waits, gain = tuple(self.timers(self._timed_by(change.gains))), partial(self._gain, change)
            parts.append(Part(partial(self._gain_unless, waits, gain), unless=waits, otherwise=gain))
        return parts

    def offered(
        self, machine: GroundMachine, offer: GroundOffer, e: tuple[Any, ...], s: State, which: Sequence[bool]
    ) -> Steps:
        for action, after in super().offered(machine, offer, e, s, which):
            yield action, after
            yield from self._crash_in(s, action, which)

    def _lane_steps(self, lane: Lane, s: State, which: Sequence[bool]) -> Steps:
        for action, after in super()._lane_steps(lane, s, which):
            yield action, after
            if action.transition is not None and not action.copy:
                yield from self._crash_in(s, action, which)
            elif action.kind == "deliver" and not action.copy:
                yield from self._crash_unmoved(s, action, which)

    def tick(self, s: State, of: Sequence[bool]) -> Steps:
        """Time passes. Clocks of actors go on with it; those that have gained may have to stand still, others may."""
        for action, after in super().tick(s, of):
            names = list(self.clocks)
            possible = [self.relation.clocks.passed(*self._reading(s, name)) for name in names]
            for chosen in product(*possible):
                ordinary = all(reading is of[0] for reading, of in zip(chosen, possible, strict=True))
                new, still = opened(after), []
                for name, reading in zip(names, chosen, strict=True):
                    still += [name] if self._show(new, name, reading) else []
                event = f"{action.event}, the clock of {', '.join(still)} stands still" if still else action.event
                if ordinary:
                    yield action._replace(event=event), closed(new)
                else:
                    yield Action(self.relation.clocks.kind, None, 0, event, passes=True, fault=True), closed(new)

    def _timed_by(self, actor: str) -> list[GroundMachine]:
        """The machines for whose timers a clock waits before it gains a tick.

        A clock that drifts gains in time that passes, so all timers come first; an offset may change in no time.
        """
        return self.machines_of[actor] if self.relation.clocks.ahead else self.machines

    def _gain_unless(self, waits: Sequence[Callable[[State], bool]], gain: Any, s: State, of: Sequence[bool]) -> Steps:
        if not any(is_due(s) for is_due in waits):
            yield from gain(s, of)

    def _gain(self, change: Change, s: State, of: Sequence[bool]) -> Steps:
        """The clock of an actor gains a tick."""
        reading = self.relation.clocks.gained(*self._reading(s, change.gains))
        if reading is not None:
            new = opened(s)
            self._show(new, change.gains, reading)
            yield Action(change.kind, None, 0, change.name, fault=True), closed(new)

    @cached_property
    def clocks(self) -> dict[str, tuple[int, int | None]]:
        """The cells of each actor's clock: its lead, and its phase. An actor that keeps to no machine reads none."""
        layout, traitor = self.layout, self.layout.traitor
        names = [name for name in layout.lead if traitor is None or name != traitor.name]
        return {name: (layout.lead[name], layout.phase.get(name)) for name in names}

    def _reading(self, s: Any, actor: str) -> ClockReading:
        lead, phase = self.clocks[actor]
        return ClockReading(s[lead], None if phase is None else s[phase])

    def _show(self, new: Any, actor: str, reading: ClockReading) -> bool:
        """Writes a clock; returns whether it has less of a lead."""
        lead, phase = self.clocks[actor]
        falls = bool(reading.lead < new[lead])
        new[lead] = reading.lead
        if phase is not None:
            new[phase] = reading.phase
        return falls

    # Crashes and recovery

    def _some_crashes(self, which: Sequence[bool]) -> list[Crash]:
        return [c for c in self.relation.crashes if which[self.interrupting.index(c.budget)]]

    def _stopping(self, s: Any, own: ModelActor, which: Sequence[bool]) -> list[Crash]:
        """The crashes in which an actor stops while it is at work."""
        return [
            c
            for c in self._some_crashes(which)
            if own in c.actors and (not c.together or all(s[self.up[a.name]] is UP or a is own for a in c.actors))
        ]

    def _down(self, s: Any, crash: Crash, recovering: ModelActor | None = None) -> State:
        """The state after a crash of those who are up, and of one who was recovering."""
        new = opened(s)
        stopped = [a.name for a in crash.actors if a is recovering or new[self.up[a.name]] is UP]
        for name in stopped:
            new[self.up[name]] = DOWN
        self._empty(new, crash.empties, stopped)
        return closed(new)

    def _empty(self, new: list[Any], names: Sequence[str], actors: Sequence[str]) -> None:
        """Some channels lose what is on its way to some actors."""
        for lane in self.layout.lanes if names and actors else ():
            receiver = self.layout.of[lane.channel.receiver, lane.receiver]
            if lane.channel.name in names and receiver.name in actors:
                new[lane.cell] = channels.emptied(lane.channel.kind, new[lane.cell])
                self.close_up(new, lane)

    def _crash_at_rest(self, crash: Crash, s: State, of: Sequence[bool]) -> Steps:
        """A crash between two steps: nothing was committed that is not done."""
        up = [actor for actor in crash.actors if s[self.up[actor.name]] is UP]
        if not of[0] or not up or (crash.together and len(up) < len(crash.actors)):
            return
        role, instance = up[0].machines[0]
        point = point_name(role, s[self.by_name[role, instance].cell], BEFORE) + suffix(crash)
        action = Action("crash", role, instance, point, point=point, fault=True, cost=(self.at[crash.budget],))
        yield action, self._down(s, crash)

    def _crash_in(self, s: State, action: Action, which: Sequence[bool]) -> Steps:
        """The crashes of the machine that takes a step: after its commit, and after each subset of the work."""
        assert action.role is not None and action.transition is not None
        machine = self.by_name[action.role, action.instance]
        among = self._stopping(s, self.layout.of[action.role, action.instance], which) if any(which) else []
        if not among:
            return
        move = machine.move(s, action.event, action.transition)
        base = opened(s)
        consumed = action.lane if action.position != FORGED else None
        if consumed is not None:
            self._consume_unacknowledged(base, consumed, action)
        passed = self._commit(base, machine, move, action.fields, action.sender)
        work = [w for w in move.work if w.wanted(base, passed, -1)]
        for done in product((False, True), repeat=len(work)):
            if all(done) and consumed is None:
                continue  # everything was done: the same as a crash between two steps
            new = opened(base)
            try:
                for w, d in zip(work, done, strict=True):
                    self._do_or_number(new, w, d, passed)
            except channels.LaneFull:
                continue
            where, tasks = (ACKNOWLEDGE, ()) if all(done) else (AFTER, _tasks(work, done))
            point = point_name(action.role, move.transition.target, where, tasks)
            yield from self._crashed(new, among, action, point, done)

    def _crashed(
        self, new: Any, crashes: Sequence[Crash], action: Action, point: str, done: tuple[bool, ...] = ()
    ) -> Steps:
        """The crashes at a point of an action, after what was done of its work."""
        for c in crashes:
            crashed = action._replace(
                kind="crash",
                group=None,
                point=point + suffix(c),
                done=done,
                fault=True,
                cost=(*action.cost, self.at[c.budget]),
            )
            yield crashed, self._down(new, c)

    def _consume_unacknowledged(self, new: list[Any], lane: Lane, action: Action) -> None:
        """An action that crashes has consumed a message; if that came before its turn, the channel has spent it."""
        if action.fault:
            self.spend(new, lane, "reorder")
        self._unacknowledged(new, lane, action.position)

    def _unacknowledged(self, new: list[Any], lane: Lane, position: int) -> None:
        """A message was consumed, and its number committed; as it is not acknowledged, it comes again."""
        kind = lane.channel.kind
        new[lane.cell] = channels.take(kind, new[lane.cell], position, keep_copy=not lane.channel.durable)
        self.close_up(new, lane)

    def _do_or_number(self, new: list[Any], work: GroundPiece, done: bool, passed: tuple[Any, ...]) -> None:
        """Does a piece of work, or only what the commit has done of it: give the message its number."""
        if done:
            self._do(new, work, None, passed=passed)
        elif (lane := work.lane) is not None and not self._to_traitor(lane):
            self.put(channels.number, new, lane, work.piece.event, work.fields(new, passed, -1))

    def _crash_unmoved(self, s: State, action: Action, which: Sequence[bool]) -> Steps:
        """The crashes of a machine that ignores a message: the number is committed, and the message comes again."""
        lane = action.lane
        assert lane is not None and action.role is not None
        if lane.channel.kind != "mailbox" or not any(which):
            return  # nothing is committed: the same as a crash between two steps
        new = opened(s)
        self._consume_unacknowledged(new, lane, action)
        point = point_name(action.role, s[self.by_name[action.role, action.instance].cell], ACKNOWLEDGE)
        yield from self._crashed(
            new, self._stopping(s, self.layout.of[action.role, action.instance], which), action, point
        )

    def _recover(self, actor: ModelActor, s: State, which: Sequence[bool]) -> Steps:
        """An actor restarts: it does the work of every machine's state again, and may crash again in the midst."""
        if s[self.up[actor.name]] is not DOWN:
            return
        machines = self.machines_of[actor.name]
        work = self._recovering(s, machines)
        role, instance = actor.machines[0]
        again = self._stopping(s, actor, which)
        for done in product((True, False), repeat=len(work)) if again else [(True,) * len(work)]:
            new = opened(s)
            try:
                for w, d in zip(work, done, strict=True):
                    if d:
                        self._do(new, w, None, again=True)
            except channels.LaneFull:
                continue  # it waits for room
            if all(done):
                new[self.up[actor.name]] = UP
                name = f"recover:{actor.name}"
                yield Action("recover", role, instance, name, group=("recover", actor.name), done=done), closed(new)
            elif any(done):
                point = point_name(role, s[machines[0].cell], RECOVERING, _tasks(work, done))
                for c in again:
                    at, cost = point + suffix(c), (self.at[c.budget],)
                    crashed = Action("crash", role, instance, at, point=at, done=done, fault=True, cost=cost)
                    yield crashed, self._down(new, c, actor)

    def _recovering(self, s: Any, machines: list[GroundMachine]) -> list[GroundPiece]:
        """The work that recovery starts again: that of every machine's state."""
        return [w for machine in machines for w in machine.work[s[machine.cell]] if w.wanted(s, (), -1)]

    # What else faults add

    def _changes(self, changes: list[Change], s: State, of: Sequence[bool]) -> Steps:
        """The steps that touch nothing but variables that faults have added."""
        for change in changes:
            if change.budget and not any(of):
                continue
            if not all(s[self.layout.added[cell]] in values for cell, values in change.needs.items()):
                continue
            new = opened(s)
            for cell, value in change.writes.items():
                new[self.layout.added[cell]] = value
            if change.resets:
                self._reset(new, change.actor)
            if change.on_channels:
                self._operate(new, change)
            self._empty(new, change.empties, [change.actor])
            actor = next((a for a in self.layout.actors if a.name == change.actor), None)
            role, instance = actor.machines[0] if actor is not None else (None, 0)
            cost = (self.at[change.budget],) if change.budget else ()
            group = (change.recovers,) if change.recovers else None
            yield Action(change.kind, role, instance, change.name, group=group, fault=not group, cost=cost), closed(new)

    def _reset(self, new: list[Any], actor: str) -> None:
        """An actor's machines are as at first."""
        first = self.initial_states()[0]
        for machine in self.machines_of[actor]:
            for cell in range(machine.cell, machine.cell + 1 + len(machine.role.data)):
                new[cell] = first[cell]

    def _operate(self, new: list[Any], change: Change) -> None:
        """Does to the channels of an actor what a fault does to them."""
        operation = channels.OPERATIONS[change.on_channels]
        own = {(machine.role.name, machine.instance) for machine in self.machines_of[change.actor]}
        for lane in self.layout.lanes:
            sender, receiver = self.layout.ends(lane)
            if {sender, receiver} & own:
                new[lane.cell] = operation(lane.channel.kind, new[lane.cell], sender in own)
                self.close_up(new, lane)

    @cached_property
    def answered_by(self) -> dict[int, list[Lane]]:
        """The mailboxes through which answers come back, by the cell of each mailbox between two machines."""
        lanes = [lane for lane in self.layout.lanes if lane.channel.kind == "mailbox"]
        return {
            lane.cell: [b for b in lanes if b is not lane and self.layout.ends(b) == self.layout.ends(lane)[::-1]]
            for lane in lanes
        }

    def _retries(self, machine: GroundMachine, s: State, of: Sequence[bool]) -> Steps:
        """A machine sends again what was lost, or what was received and whose answer was lost.

        Messages that are answers are not retried: who asks, asks again (paper, section 4.2).
        """
        if not self.running(s, machine):
            return
        work = [w for w in machine.work[s[machine.cell]] if w.wanted(s, (), -1)]
        for i, w in enumerate(work):
            if w.lane is None or w.lane.cell not in self.answered_by or self.system.messages[w.piece.event].answer:
                continue
            if channels.missing(s[w.lane.cell]) or self._unanswered(s, w.lane):
                new = opened(s)
                self._do(new, w, None, again=True)
                group = ("retry", machine.role.name, machine.instance, w.lane.cell)
                name = f"retry:{w.piece.task.name}"
                done = tuple(j == i for j in range(len(work)))
                yield Action("retry", machine.role.name, machine.instance, name, group=group, done=done), closed(new)

    def _unanswered(self, s: State, lane: Lane) -> bool:
        """Returns whether a message was received, and the answer that its receiver's state sends was lost."""
        receiver = self.by_name[lane.channel.receiver, lane.receiver]
        lost = {back.cell for back in self.answered_by[lane.cell] if channels.missing(s[back.cell])}
        if not lost or not channels.received(s[lane.cell]):
            return False
        work = receiver.work[s[receiver.cell]]
        return self.running(s, receiver) and any(
            w.lane is not None and w.lane.cell in lost and w.wanted(s, (), -1) for w in work
        )

    def _forgeries(self, s: State, which: Sequence[bool]) -> Steps:
        """Every message that a byzantine actor could sign, where it changes something."""
        for lane in self.layout.lanes:
            sender, (role, i) = self.layout.ends(lane)
            receiver = self.by_name[role, i]
            if self.layout.of[sender] is not self.layout.traitor or not self.running(s, receiver):
                continue
            for message in messages_of(self.system, lane.channel) if self.connected(s, lane) else ():
                moves = receiver.moves.get((s[receiver.cell], message.name), [])
                if not moves:
                    continue
                for fields in receiver.values(message.fields)(s):
                    move = choose(moves, s, fields, lane.sender) if self._signed(s, message.name, fields) else None
                    if move is None:
                        continue
                    action = Action(
                        "deliver", role, i, message.name, fields, lane.sender, move.transition, lane, FORGED, fault=True
                    )
                    after = self._step(s, partial(self._receive, receiver=receiver, action=action, move=move, log=None))
                    if after is not None:
                        yield action, after
                        yield from self._crash_in(s, action, which)

    def _signed(self, s: State, name: str, fields: tuple[Any, ...]) -> bool:
        """Returns whether what a message shows of another's was signed by that other."""
        message = self.system.messages[name]
        if message.carries is None:
            return True
        names = [f.name for f in self.system.messages[message.carries].fields]
        shown = {f.name: v for f, v in zip(message.fields, fields, strict=True) if f.name in names}
        known = s[self.layout.known[message.carries]]
        return any(all(was[names.index(field)] == value for field, value in shown.items()) for was in known)

    # For convergence and paths

    @cached_property
    def quiet(self) -> list[tuple[int, Value]]:
        """Cells, and what they hold while nothing shows a fault."""
        return [(self.layout.added[v.name, k], v.initial) for v in self.relation.variables if v.shows for k in v.keys]

    def without_faults(self, state: State) -> State | None:
        """The same state of the system without faults; None while an actor is down or the network is parted."""
        return state[: self.layout.base] if all(state[cell] == value for cell, value in self.quiet) else None

    def effects(self, s: State, action: Action) -> list[Any]:
        """The same; of a crash, what of the work was done before it, and of a recovery all of it."""
        if action.kind not in ("crash", "recover", "retry"):
            return super().effects(s, action)
        log: list[Any] = []
        if not action.done:
            return log
        assert action.role is not None
        machine = self.by_name[action.role, action.instance]
        new, passed = opened(s), ()
        if action.transition is not None:
            move = machine.move(s, action.event, action.transition)
            passed = self._commit(new, machine, move, action.fields, action.sender)
            work = [w for w in move.work if w.wanted(new, passed, -1)]
        elif action.kind == "retry":
            work = [w for w in machine.work[s[machine.cell]] if w.wanted(s, (), -1)]
        else:
            work = self._recovering(s, self.machines_of[self.layout.of[action.role, action.instance].name])
        for w, d in zip(work, action.done, strict=True):
            if d:
                self._do(new, w, log, again=action.transition is None, passed=passed)
        return log


def reference_of(system: System, budget: Budget | None = None) -> Reference:
    """The reference of a system; under a budget of faults, where one is given."""
    if budget is None:
        return Reference(lower(system))
    return FaultyReference(lower_with_faults(system, budget))


def _tasks(work: Sequence[GroundPiece], done: Sequence[bool]) -> tuple[str, ...]:
    return work_done(tuple((w.piece.task.name, d) for w, d in zip(work, done, strict=True)))


def suffix(crash: Crash) -> str:
    """Returns how the name of a crash point names the actors that stop along."""
    return "" if [a.name for a in crash.actors] == [crash.name] else f"@{crash.name}"
