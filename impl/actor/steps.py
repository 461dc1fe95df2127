"""Steps: one event at one machine, and what follows from it within the same turn."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leasehold.impl.actor.held import BELOW, Held, machine_of
from leasehold.impl.actor.turn import Turn
from leasehold.impl.core.event import TICK, Event, local
from leasehold.impl.core.work import Call, Drive, Outcome, Record, Send, Work
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import Key

if TYPE_CHECKING:
    from leasehold.impl.actor.actor import Actor
    from leasehold.impl.actor.memory import Memory


class Steps:
    """Steps the machines of an actor."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    @property
    def memory(self) -> Memory:
        return self.actor.memory

    def step(self, turn: Turn, held: Held, event: Event) -> Outcome:
        """One event at one machine, and what follows from it at subsidiary machines within the same turn."""
        before = held.record
        now = self.actor.clock.now()
        record, outcome = held.core.step(before, event, now)
        if record is not before:
            self.actor.rows.codecs[held.core.role].check(record)
            self._set(turn, held, record)
        self.actor.count(outcome.kind)
        kind = Kind.TRANSITION if outcome.taken else Kind.IGNORED
        if self.actor.notices:
            data = {"from": before[0], "to": record[0], "kind": outcome.kind, "reason": outcome.reason}
            name = outcome.transition or event[0]
            turn.notices.append(
                Notice(kind, self.actor.identity.name, held.key.lease, held.key.machine, name, now, data)
            )  # fmt: skip
        if outcome.taken:
            self._moved(turn, held, before)
        self.work(turn, held, outcome.work)
        if outcome.taken:
            self.offered(turn, held)
            self.actor.extensions.changed(turn, held)
        return outcome

    def _set(self, turn: Turn, held: Held, record: Record) -> None:
        held.record = record
        turn.change(held)
        if held.core.subsidiary:
            self.memory.see(held, record)
            for parent in self.memory.waiting_for(held.key):
                self.actor.put_quietly(partial(self.offered, held=parent))

    def _moved(self, turn: Turn, held: Held, before: Record) -> None:
        """A machine has taken a transition."""
        core, calls, outbox = held.core, self.actor.calls, self.actor.outbox
        self.actor.post.refusals.pop(held.key, None)
        if held.record[0] != before[0]:
            held.papers["since"] = self.actor.clock.now()
        left = held.record[core.entry_at] != before[core.entry_at] and not core.subsidiary
        if calls.under_way() or (left and outbox):
            work = core.work[held.record[0]](held.record)
            calls.keep(held.key, frozenset(w.task for w in work))
            if left:
                said = frozenset(w.neighbour for w in work if isinstance(w, Send))
                outbox.keep(held.key, len(core.neighbours), said)
        self.memory.wake_later(held)
        self.memory.ends(held, self.actor.clock.now())

    def offered(self, turn: Turn, held: Held) -> None:
        """What a machine waits for of its subsidiaries, once it has come true."""
        for event in held.core.offered(held.record):
            if self.step(turn, held, local(event, entry=held.entry)).taken:
                return

    # Work

    def work(self, turn: Turn, held: Held, work: tuple[Work, ...]) -> None:
        """Does the work that follows a commit: events for subsidiaries go into the same one, the rest waits for it."""
        record, entry = held.record, held.entry
        for piece in work:
            match piece:
                case Drive():
                    self._drive(turn, held, piece, record)
                case Send():
                    self.actor.post.say(turn, held, piece, record)
                case Call() if piece.target.startswith("policy."):
                    turn.after.append(partial(self.actor.extensions.ask_policy, held, piece, entry))
                case Call():
                    turn.after.append(partial(self.actor.extensions.ask_handler, held, piece, entry))

    def _drive(self, turn: Turn, held: Held, piece: Drive, record: Record) -> None:
        role, index = piece.machine
        core = self.actor.program.roles[role]
        key = Key(BELOW, machine_of(core, index))
        below = self.memory.held.get(key)
        if below is None:
            below = self.memory.held[key] = Held(key, core, core.first(index), [])
        self.memory.drive(below, held.key.lease)
        self.memory.drivers.setdefault(key, set()).add(held.key)
        self.step(turn, below, local(piece.event, piece.fields(record)))

    # By themselves

    def start_again(self, turn: Turn, held: Held) -> None:
        """Recovery of one machine: its record stays, and its work begins anew (paper, section 3.3)."""
        _, outcome = held.core.recover(held.record)
        self.work(turn, held, outcome.work)
        self.offered(turn, held)

    def tick(self, turn: Turn, now: int) -> None:
        """The clock has come to a time: timers that are due, and leases that have been over for long enough."""
        for held in self.memory.due(now):
            if not self.step(turn, held, TICK).taken:
                self.memory.wake_later(held, now + 1)
        before = now - self.actor.options.retire_after
        for held in self.memory.ended(before):
            if self.actor.notices:
                over = {"over": held.papers["over"], "peers": held.peers, "data": held.core.view(held.record)}
                if self.actor.tell_all(self.actor.about(Kind.FORGET, held, held.state, **over)) is None:
                    self.memory.remember(held, before + 1)
                    continue
            self.actor.outbox.keep(held.key, len(held.core.neighbours), frozenset())
            turn.drop(held)
            self.actor.post.refusals.pop(held.key, None)
            turn.words.update(self.memory.forget(held))
