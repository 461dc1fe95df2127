"""The stepper: gives machines events, and begins the work that follows. It only adds to a `Ready`.

Theory of operation. An event that the core takes gives a record, and work. Events for subsidiary machines are taken
within the same turn; all other work follows the turn's commit. A message goes to the actor that plays its receiver,
under its number, or in a session, in order. Where nobody is known to play the receiver, the message is owed, and sent
once somebody is; what the machine's state asks for no more is owed no more. A session keeps its messages until its
neighbour has acknowledged them (session.py), and goes on with the oldest.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from leasehold.impl.actor import session
from leasehold.impl.actor.drafts import RefusedDraft, StepDraft
from leasehold.impl.actor.environment import ActorContext, ActorError
from leasehold.impl.actor.ready import Acknowledge, Ready, Recheck, SendMessage, SendNext, StartCall, TellPolicy
from leasehold.impl.actor.session import ChannelFull
from leasehold.impl.actor.standing import StandingMachines
from leasehold.impl.actor.table import BELOW, MachineInstance, MachinesOfActor
from leasehold.impl.core.core import CoreError
from leasehold.impl.core.work import TICK, CallWork, DriveWork, Event, Outcome, Record, SendWork, Work, local
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey

log = logging.getLogger("leasehold.stepper")

MOST_ANSWERS = 100  # of its subsidiaries that a machine takes for one request
ROUND = f"takes answers of its subsidiary machines without an end: {MOST_ANSWERS} for one request"


class Stepper:
    """Steps the machines of an actor.

    Args:
        context: of the actor.
    """

    def __init__(self, context: ActorContext) -> None:
        self.identity, self.name = context.identity, context.identity.name
        self.program, self.table = context.program, context.table
        self.environment, self.notices, self.counts = context.environment, context.notices, context.counts
        self.standing = StandingMachines(context)
        self.keeps_events = context.options.events is not None
        self._into: list[StepDraft] | None = None  # takes the next step, if another one drives it

    def find(self, key: RecordKey) -> MachineInstance:
        """The machine of a key.

        Raises:
            ActorError: there is none.
        """
        if (instance := self.table.instances.get(key)) is None:
            over = "it is over and forgotten" if key.lease in self.table.pruned else "there is none of this name"
            raise ActorError(f"no {key.machine[:60]} of lease {key.lease[:80]}: {over}")
        return instance

    def expire(self, ready: Ready) -> None:
        """Timers that are due end what they time: in the specification no time passes before they have."""
        for instance in self.table.due(ready.now):
            with suppress(ChannelFull):  # it is due at the next tick as well
                self.step(ready, instance, TICK)

    # Steps

    def step(self, ready: Ready, instance: MachineInstance, event: Event, outside: bool = False) -> Outcome:
        """One event at one machine, and what follows from it at subsidiary machines within the same turn.

        An event from `outside`, of a policy, a handler or a client, is held to its contract, and refused where a
        number of the record would leave its type's range.

        Raises:
            ChannelFull: it would send into a full channel, and has changed nothing.
        """
        before, core = instance.record, instance.core
        into, self._into = self._into, None
        if outside:
            record, outcome = core.step_outside(before, event, ready.now, MachinesOfActor(self.table, instance))
        else:
            record, outcome = core.step(before, event, ready.now)
        if outcome.taken and self.program.bounded:
            session.check_room(self.program, instance, outcome.work)
        if record is not before:
            try:
                core.check(record)
            except CoreError as error:
                if not outside:
                    raise
                why = str(error).partition(";")[0]  # the event is at fault, not the specification
                record, outcome = before, Outcome("refused", event[0], reason=why)
            else:
                self._set(ready, instance, record)
        taken = (kind := outcome.kind) == "taken"
        self.counts[kind] += 1
        if self.notices.subscribers:
            data = {"from": before[0], "to": record[0], "kind": kind, "reason": outcome.reason}
            notice_kind, name = Kind.TRANSITION if taken else Kind.IGNORED, outcome.transition or event[0]
            ready.notices.append(Notice(notice_kind, self.name, *instance.key, name, ready.now, data))
        if taken:
            if record[0] != before[0]:
                instance.metadata["since"] = ready.now
            if any(isinstance(piece, CallWork) and piece.target.startswith("policy.") for piece in outcome.work):
                self.table.asks(instance)
            left = record[core.state_epoch_at] != before[core.state_epoch_at] and not core.subsidiary
            ready.moved[instance.key] = left or ready.moved.get(instance.key, False)
            self.table.moved(instance, ready.now)
        driver = ready.driver
        ready.driver = self._record_step(ready, into, instance, event, before, outcome, outside)
        if outcome.work:
            self.start(ready, instance, outcome.work, again=not taken)
        ready.driver = driver
        if taken:
            if core.answers:
                self.recheck(ready, instance)
            self._changed(ready, instance)
        return outcome

    def _record_step(
        self,
        ready: Ready,
        into: list[StepDraft] | None,
        instance: MachineInstance,
        event: Event,
        before: Record,
        outcome: Outcome,
        outside: bool,
    ) -> StepDraft | None:
        """A step, for the chain of events, if it has changed the record; or that it was refused."""
        if not self.keeps_events:
            return None
        cause = "message" if event[2] >= 0 else "timer" if event is TICK else ready.cause
        if instance.record is before:
            if outside and outcome.kind == "refused":
                ready.events.append(RefusedDraft(instance, event, cause, outcome.reason))
            return None
        ended = ready.ended if outside and event[4] >= 0 else None
        serves = instance.serves if instance.core.of_actor else ""
        draft = StepDraft(instance, event, before, instance.record, outcome, cause, ended, serves)
        (ready.events if into is None else into).append(draft)
        return draft

    def _set(self, ready: Ready, instance: MachineInstance, record: Record) -> None:
        instance.record = record
        ready.change(instance)
        if instance.core.of_actor:
            self.table.see(instance, record)
        if instance.core.subsidiary:
            for parent in self.table.waiting_for(instance.key):
                ready.raised.append(Recheck(parent.key))
                wake = parent.core.wake(parent.record)
                if wake is not None and wake <= ready.now:  # its timer may have waited for this
                    self.table.wake_later(parent)

    def recheck(self, ready: Ready, instance: MachineInstance) -> None:
        """Steps a machine with what it waits for of its subsidiaries, once it has come true; without end: CoreError."""
        for event in instance.core.offered(instance.record):
            if (answers := ready.answers.get(instance.key, 0)) == MOST_ANSWERS:  # the specification goes round
                raise CoreError(f"{instance.key.machine} of {instance.key.lease[:80]} {ROUND}")
            ready.answers[instance.key] = answers + 1
            ready.cause = "subsidiary"
            try:
                if self.step(ready, instance, local(event, state_epoch=instance.state_epoch)).taken:
                    return
            except ChannelFull:
                self.table.held.append(Recheck(instance.key))
                return

    def _changed(self, ready: Ready, instance: MachineInstance) -> None:
        """A policy hears of a lease, or "" for none, that has changed, or one of whose subsidiary machines has."""
        above = RecordKey(instance.serves, self.table.parents[instance.core.role]) if instance.core.subsidiary else None
        self._tell_policy(ready, above or instance.key)

    def _tell_policy(self, ready: Ready, key: RecordKey) -> None:
        if key not in ready.told and key.machine.partition("[")[0] in self.environment.policies:
            ready.told.add(key)
            ready.effects.append(TellPolicy(key))

    def start(
        self, ready: Ready, instance: MachineInstance, work: tuple[Work, ...], again: bool, anew: bool = False
    ) -> None:
        """The work of a state: events for subsidiaries go into the same turn, the rest follows its commit.

        Of work that is done again the messages of sessions are left out, as these keep them; calls that may go on in
        several states go on, unless they are to begin anew.
        """
        record, key = instance.record, instance.key
        for piece in work:
            match piece:
                case DriveWork():
                    self._drive(ready, instance, piece, record)
                case SendWork() if self.program.messages[piece.message].ordered:
                    if not again:
                        self.send_in_order(ready, instance, piece)
                case SendWork():
                    self.send(ready, instance, piece)
                case CallWork():
                    ready.effects.append(StartCall(key, piece, record[instance.core.state_epoch_at], anew))

    def _drive(self, ready: Ready, instance: MachineInstance, piece: DriveWork, record: Record) -> None:
        core, index = self.program.roles[piece.machine[0]], piece.machine[1]
        key = RecordKey(instance.key.lease if core.of_run else BELOW, core.machine(index))
        below, event = self.table.instances.get(key), local(piece.event, piece.fields(record))
        if below is None:
            first = core.first(index)
            if core.of_run and not core.step(first, event, ready.now)[1].taken:
                return  # it is at its beginning, and stays there: a run has as many of them as any run may need
            below = self.table.instances[key] = MachineInstance(key, core, first, [])
        elif not below.serves:  # a policy has heard of it as one that no lease has
            self._tell_policy(ready, RecordKey("", instance.core.role))
        if self.table.drive(below, instance.key):
            ready.change(below)  # who has it from now on is kept also where the event moves nothing
        ready.cause, self._into = "parent", ready.driver.driven if ready.driver is not None else None
        self.step(ready, below, event)

    def recover(self, ready: Ready, instance: MachineInstance) -> None:
        """Recovers one machine of an actor that runs, as its operator wants."""
        self.start_again(ready, instance)

    def start_again(self, ready: Ready, instance: MachineInstance) -> None:
        """Recovery of one machine: its record stays, and its work begins anew (paper, 3.3); a new one only calls."""
        ready.driver = None
        _, outcome = instance.core.recover(instance.record)
        calls = tuple(piece for piece in outcome.work if isinstance(piece, CallWork))
        new = self.standing.new
        self.start(ready, instance, calls if instance.key in new else outcome.work, again=True, anew=True)
        new.discard(instance.key)
        self.resume_sessions(ready, instance)
        self.recheck(ready, instance)

    # Messages

    def send(self, ready: Ready, instance: MachineInstance, piece: SendWork) -> None:
        """Sends a message under the number that the record has for it; one whose actor is not known yet is owed."""
        record = instance.record
        number = record[instance.core.sent_at][piece.neighbour]
        if number and self._is_known(ready, instance, piece.neighbour, piece.message):  # else nothing was sent yet
            ready.effects.append(SendMessage(instance.key, piece, number, piece.fields(record)))

    def send_in_order(self, ready: Ready, instance: MachineInstance, piece: SendWork) -> None:
        """Sends a message in a session, which keeps it."""
        at, record = piece.neighbour, instance.record
        shape, number = self.program.messages[piece.message], record[instance.core.sent_at][at]
        session.add(instance, piece, shape, number, piece.fields(record))
        ready.change(instance)
        self._go_on(ready, instance, at)

    def _go_on(self, ready: Ready, instance: MachineInstance, at: int) -> None:
        """A session with a neighbour goes on with its oldest message."""
        waiting = session.queued(instance, at)
        if waiting and self._is_known(ready, instance, at, waiting[0].message):
            ready.effects.append(SendNext(instance.key, at))

    def acknowledge(self, ready: Ready, request: Acknowledge) -> None:
        """A neighbour has received a message of a session."""
        key, at, number = request
        instance = self.table.instances.get(key)
        if instance is not None and session.acknowledge(instance, at, number):
            ready.change(instance)
            self._go_on(ready, instance, at)
            ready.raised += self.table.held
            self.table.held.clear()

    def _is_known(self, ready: Ready, instance: MachineInstance, at: int, message: str) -> bool:
        """Returns whether it is known who plays a neighbour; if not, what is sent to it is owed."""
        key = instance.key
        if not instance.peers[at]:
            name = self.program.neighbour(instance.core, instance.number, at)
            instance.learn(at, self.environment.peers.get(name, ""))
            ready.change(instance)
        if instance.peers[at]:
            if (known := self.table.unaddressed.get(key)) is not None:
                known.discard(at)
                if not known:
                    del self.table.unaddressed[key]
            return True
        owed = self.table.unaddressed.setdefault(key, set())
        if at not in owed:
            owed.add(at)
            self.counts["unaddressed"] += 1
            name = self.program.neighbour(instance.core, instance.number, at)
            log.error("%s of %s owes %s, and nobody is known to play %s", key.machine, key.lease, message, name)
        return False

    def send_owed(self, ready: Ready) -> None:
        """Sends what is owed to neighbours that have become known; what a state asks for no more is owed no more."""
        for key, owed in tuple(self.table.unaddressed.items()):
            instance = self.table.instances.get(key)
            work = () if instance is None else instance.core.work[instance.state](instance.record)
            asked = [piece for piece in work if isinstance(piece, SendWork) and piece.neighbour in owed]
            sessions = owed & set(session.neighbours(instance)) if instance is not None else set()
            owed &= {piece.neighbour for piece in asked} | sessions
            if instance is None or not owed:
                del self.table.unaddressed[key]
                continue
            for at in sessions:
                self._go_on(ready, instance, at)
            for piece in asked:
                if piece.neighbour not in sessions:
                    self.send(ready, instance, piece)

    def resume_sessions(self, ready: Ready, instance: MachineInstance) -> None:
        """Each session of a machine goes on with its oldest message."""
        for at in tuple(session.neighbours(instance)):
            self._go_on(ready, instance, at)
