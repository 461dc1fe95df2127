"""Mistakes with commits, numbers and messages (paper, sections 3.2 and 4.2).

Of a mailbox's ranks (channels.py): a sender that has lost count has a `newest` below numbers that it has used. Then two
messages may have one rank, `newest` may fall below 0, and what is sent under a number below the received one is stale
and not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.faulty import FaultyReference, suffix
from leasehold.checker.explore.ground import GroundMachine, GroundPiece, Move
from leasehold.checker.explore.layout import Lane, State, closed, opened
from leasehold.checker.explore.reference import Steps
from leasehold.checker.explore.step import FORGED, Action
from leasehold.faults.model import Budget
from leasehold.faults.model.points import AFTER, point_name, work_done
from leasehold.spec.language.lower import ModelActor
from leasehold.spec.language.model import Call, System
from tests.mutants.deviant import Deviant, OfRoles


class _Uncommitted(Action):
    """A crash before the commit, with work done: what was being consumed was not, so `took` does not know of it."""

    consumed: Action


class TasksBeforeCommit(OfRoles):
    """Roles that do the work of the new state, and commit then: a crash between leaves the old record."""

    def _crash_in(self, s: State, action: Action, which: Sequence[bool]) -> Steps:
        yield from super()._crash_in(s, action, which)
        assert action.role is not None
        assert action.transition is not None
        if action.role not in self.roles:
            return
        machine = self.by_name[action.role, action.instance]
        move = machine.move(s, action.event, action.transition)
        among = self._stopping(s, self.layout.of[machine.role.name, machine.instance], which)
        ahead = opened(s)
        passed = self._commit(ahead, machine, move, action.fields, action.sender)
        work = [w for w in move.work if w.wanted(ahead, passed, -1)]
        for done in product((False, True), repeat=len(work)):
            if not any(done):
                continue
            new = opened(ahead)
            for w, d in zip(work, done, strict=True):
                if d:
                    _do_uncounted(self, new, w, passed)
            for cell in range(machine.cell, machine.cell + 1 + len(machine.role.data)):
                new[cell] = s[cell]
            tasks = work_done(tuple((w.piece.task.name, d) for w, d in zip(work, done, strict=True)))
            point = point_name(action.role, move.transition.source, AFTER, tasks)
            for c in among:
                where = point + suffix(c)
                crash = _Uncommitted(
                    "crash",
                    action.role,
                    action.instance,
                    where,
                    point=where,
                    done=done,
                    fault=True,
                    cost=(*action.cost, self.at[c.budget]),
                )
                crash.consumed = action
                yield crash, self._down(new, c)

    def effects(self, s: State, action: Action) -> list[Any]:
        if isinstance(action, _Uncommitted):
            return super().effects(s, action.consumed._replace(kind="crash", done=action.done))
        return super().effects(s, action)


class SentNumberNotSaved(OfRoles):
    """Roles that commit the record without the numbers of the messages that the new state sends."""

    def _do_or_number(self, new: list[Any], work: GroundPiece, done: bool, passed: tuple[Any, ...]) -> None:
        if work.lane is None or work.lane.channel.sender not in self.roles:
            super()._do_or_number(new, work, done, passed)
        elif done:
            _do_uncounted(self, new, work, passed)


class ReceivedNumberNotSaved(OfRoles):
    """Roles that commit the record without the number of the message that was consumed: it comes again, and is new."""

    def _unacknowledged(self, new: list[Any], lane: Lane, position: int) -> None:
        if lane.channel.receiver not in self.roles:
            super()._unacknowledged(new, lane, position)


class DuplicateExecuted(OfRoles):
    """Roles that do not look at numbers: a message that comes again is consumed again."""

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
        if entry[0] == 0 and receiver.role.name in self.roles:
            entry = (1, *entry[1:])
        return super()._deliver(s, lane, receiver, index, entry, copy, group)


class DuplicateDropped(OfRoles):
    """Roles that drop a message that comes again, and do not send their answer again."""

    def _receive(
        self, new: list[Any], receiver: GroundMachine, action: Action, move: Move | None, log: list[Any] | None
    ) -> None:
        if action.kind != "duplicate" or receiver.role.name not in self.roles:
            super()._receive(new, receiver, action, move, log)
            return
        lane = action.lane
        assert lane is not None
        new[lane.cell] = channels.take(lane.channel.kind, new[lane.cell], action.position, action.copy)


class NewerTakenForDuplicate(Deviant):
    """States that wait for an answer of a policy or handler, and take whatever message comes then for a duplicate."""

    def __init__(self, system: System, budget: Budget, arguments: Sequence[str]) -> None:
        super().__init__(system, budget, arguments)
        self.waiting = frozenset(map(self.place, self.arguments)) or frozenset(
            (role.name, state.name)
            for role in system.roles.values()
            for state in role.states.values()
            if any(isinstance(c, Call) and c.answers for c in map(role.tasks.__getitem__, state.tasks))
        )

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
        if (receiver.role.name, s[receiver.cell]) in self.waiting:
            entry = (0, *entry[1:])
        return super()._deliver(s, lane, receiver, index, entry, copy, group)


class SendNumbersFromReceived(OfRoles):
    """Roles whose recovery takes the number last received from a neighbour for the one last sent to it.

    Numbers that were skipped are not told apart from such as were never given, as ranks close the gaps.
    """

    def __init__(self, system: System, budget: Budget, arguments: Sequence[str]) -> None:
        super().__init__(system, budget, arguments)
        self.back: dict[int, Lane] = {}
        self.ahead: dict[int, int] = {}  # by a lane's cell: where stands how many more were sent than came back
        for lane in self.layout.lanes:
            answers = self.answered_by.get(lane.cell)
            if answers and lane.channel.sender in self.roles:
                self.back |= {other.cell: lane for other in answers}
                self.ahead[lane.cell] = self._cell(0)

    def _read(self, s: State, actor: ModelActor) -> State:
        new = opened(s)
        for lane in self.layout.lanes:
            at = self.ahead.get(lane.cell)
            if at is not None and (lane.channel.sender, lane.sender) in actor.machines:
                newest, queue = new[lane.cell]
                new[lane.cell], new[at] = (newest - new[at], queue), 0
        return closed(new)

    def _send(self, new: list[Any], work: GroundPiece, lane: Lane, fields: tuple[Any, ...], again: bool) -> None:
        super()._send(new, work, lane, fields, again)
        at = self.ahead.get(lane.cell)
        if at is not None:
            new[lane.cell] = _settled(new[lane.cell])
            new[at] += not again

    def _do_or_number(self, new: list[Any], work: GroundPiece, done: bool, passed: tuple[Any, ...]) -> None:
        super()._do_or_number(new, work, done, passed)
        if not done and work.lane is not None and work.lane.cell in self.ahead:
            new[self.ahead[work.lane.cell]] += 1

    def _receive(
        self, new: list[Any], receiver: GroundMachine, action: Action, move: Move | None, log: list[Any] | None
    ) -> None:
        assert action.lane is not None
        self._count(new, action.lane, action.position)
        super()._receive(new, receiver, action, move, log)

    def _unacknowledged(self, new: list[Any], lane: Lane, position: int) -> None:
        self._count(new, lane, position)
        super()._unacknowledged(new, lane, position)

    def _count(self, new: list[Any], lane: Lane, position: int) -> None:
        back = self.back.get(lane.cell)
        if back is not None and position != FORGED:
            new[self.ahead[back.cell]] -= new[lane.cell][1][position][0]


def _do_uncounted(world: FaultyReference, new: list[Any], work: GroundPiece, passed: tuple[Any, ...]) -> None:
    """Does a piece of work, and gives a message the next number without counting it as sent."""
    if work.lane is None or work.lane.channel.kind != "mailbox":
        world._do(new, work, None, passed=passed)
        return
    newest, queue = new[work.lane.cell]
    message = (newest + 1, work.piece.event, work.fields(new, passed, -1))
    new[work.lane.cell] = _settled((newest, queue if message in queue else (*queue, message)))


def _settled(content: channels.Content) -> channels.Content:
    """A mailbox in the order of its numbers, without what is stale."""
    newest, queue = content
    return newest, tuple(sorted((e for e in queue if e[0] >= 0), key=lambda e: e[0]))
