"""The requests of a turn: what each asks of the machines, and of whom else."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from leasehold.impl.actor import outside, session
from leasehold.impl.actor.drafts import EventDraft
from leasehold.impl.actor.environment import ActorContext
from leasehold.impl.actor.ready import (
    Acknowledge,
    Begin,
    Complete,
    Consume,
    Decide,
    Observe,
    Ready,
    Recheck,
    Recover,
    Tell,
    Tick,
    TickPolicies,
)
from leasehold.impl.actor.session import ChannelFull
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.events.event import ForgottenEvent
from leasehold.impl.notices import Kind, Notice

log = logging.getLogger("leasehold.stepper")

Answer: TypeAlias = Decide | Complete | Observe | Recheck

# Where the event of a step comes from, by the request that brings it.
_CAUSES: Mapping[type, str] = {
    Begin: "client",
    Tell: "client",
    Decide: "policy",
    Complete: "handler",
    Observe: "probe",
    Recheck: "subsidiary",
}


class Requests:
    """Takes the requests of an actor's turns.

    Args:
        context: of the actor.
        stepper: steps its machines.
    """

    def __init__(self, context: ActorContext, stepper: Stepper) -> None:
        self.stepper, self.table = stepper, context.table
        self.name, self.retire_after = context.identity.name, context.options.retire_after
        self.notices, self.keeps_events = context.notices, context.options.events is not None

    def take(
        self,
        ready: Ready,
        request: Begin | Tell | Answer | Consume | Recover | Acknowledge | Tick,
    ) -> Any:
        """Takes a request.

        Raises:
            ActorError: it asks for something that cannot be; nothing has changed.
            CoreError: the specification is at fault, and nothing of the turn may be committed.
        """
        stepper = self.stepper
        stepper.begin(_CAUSES.get(type(request), ""))
        match request:
            case Decide() | Complete() | Observe() | Recheck():
                try:
                    return self._answer(ready, request)
                except ChannelFull:
                    self.table.held.append(request)
                    return None
            case Tick(now):
                return self._tick(ready, now)
            case Consume(key, event):
                return stepper.step(ready, stepper.find(key), event)
            case Begin():
                return outside.begin(stepper, ready, request)
            case Tell():
                return outside.tell(stepper, ready, request)
            case Recover(key):
                return stepper.recover(ready, stepper.find(key))
            case Acknowledge():
                return stepper.acknowledge(ready, request)

    def _answer(self, ready: Ready, request: Answer) -> None:
        """An answer of a task or probe; one for which a channel has no room yet comes again when there is some."""
        match request:
            case Decide(decision):
                outside.decide(self.stepper, ready, decision)
            case Complete():
                outside.complete(self.stepper, ready, request)
            case Observe():
                outside.observe(self.stepper, ready, request)
            case Recheck(key):
                if (instance := self.table.instances.get(key)) is not None:
                    self.stepper.recheck(ready, instance)

    def _tick(self, ready: Ready, now: int) -> None:
        """The clock has come to a time: policies hear of it, and leases that have been over for long enough go."""
        before = now - self.retire_after
        for instance in self.table.ended(before):
            below = self.table.last_with(instance)
            if self._may_forget(instance, below, now):
                for machine in (instance, *below):
                    ready.drop(machine.key)
                    if self.keeps_events:
                        fields = {"lease": machine.key.lease, "machine": machine.key.machine, "state": machine.state}
                        ready.events.append(EventDraft(ForgottenEvent, fields))
                ready.metadata.update(self.table.forget(instance))
            else:
                self.table.remember(instance, before + 1)
        self.stepper.standing.ensure(ready)
        for key in tuple(self.stepper.standing.new):
            self.stepper.start_again(ready, self.stepper.find(key))
        self.stepper.send_owed(ready)
        ready.effects.append(TickPolicies(now))

    def _may_forget(self, instance: MachineInstance, below: Sequence[MachineInstance], now: int) -> bool:
        """Returns whether nobody objects to forgetting a machine, and some subsidiary ones with it."""
        if session.SESSIONS in instance.metadata:
            return False  # others have not heard all yet
        if not self.notices.subscribers:
            return True
        core, peers = instance.core, instance.peers
        data = {"over": instance.metadata["over"], "peers": peers, "data": core.view(instance.record)}
        if below:
            data["below"] = {m.key.machine: {"state": m.state, "data": m.core.view(m.record)} for m in below}
        notice = Notice(Kind.FORGET, self.name, *instance.key, instance.state, now, data)
        return self.notices.tell(notice) is not None
