"""Decisions of policies: judged by the records as they are when their turn comes; tried before a client is answered.

A decision answers a question of the present state, or it is of the policy's own accord: then it may begin a run, and
the policy hears where it was refused. What follows from a client's command is such a decision. It is tried while the
client waits: against the run's members, the state, the contract and the record's codec. So what was acknowledged can
be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from leasehold.impl.actor import beginning
from leasehold.impl.actor.drafts import refused
from leasehold.impl.actor.environment import ActorError, Impossible, UnknownPlayer
from leasehold.impl.actor.outside import check_origin, local_event
from leasehold.impl.actor.ready import AskAgain, Begin, Ready, StartCall, TellRefused
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance, MachinesOfActor
from leasehold.impl.core.codec import CoreError
from leasehold.impl.core.work import CallWork
from leasehold.impl.events.event import EndedCall
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.store import RecordKey

log = logging.getLogger("leasehold.stepper")


def decide(stepper: Stepper, ready: Ready, decision: Decision) -> None:
    """Takes a decision, or says why not."""
    key, table = RecordKey(decision.lease, decision.machine), stepper.table
    instance = table.instances.get(key)
    try:
        if instance is not None:
            epoch = decision.state_epoch
            if not _is_answer(stepper, instance, decision):
                check_origin(stepper.program, instance, decision.event)
                epoch = -1
            event = local_event(instance, decision.event, decision.fields, epoch)
            stepper.ended = EndedCall(epoch) if epoch >= 0 else None
        elif decision.lease in table.pruned:  # what it ends of its own accord may be forgotten already
            _tell_refused(ready, decision, "it is over and forgotten", final=True)
        elif decision.state_epoch < 0:
            beginning.begin(stepper, ready, Begin(key, decision.event, decision.fields, stepper.environment.peers))
    except ActorError as error:
        stepper.counts["policy errors"] += 1
        if stepper.keeps_events:
            ready.events.append(refused(key, decision.event, "policy", str(error)))
        log.error("the policy of %s answers wrongly: %s", decision.machine, error)
        _tell_refused(ready, decision, str(error), final=isinstance(error, Impossible))
    else:
        if instance is not None and (outcome := stepper.step(ready, instance, event, True)).kind == "refused":
            stepper.counts["policy errors"] += 1
            log.error("the policy of %s answers wrongly: %s: %s", decision.machine, event[0], outcome.reason)
            ready.effects += map(AskAgain, _pending_questions(instance, decision))
            _tell_refused(ready, decision, outcome.reason, final=instance.core.over(instance.state))


def _tell_refused(ready: Ready, decision: Decision, reason: str, final: bool) -> None:
    if decision.state_epoch < 0:
        ready.effects.append(TellRefused(decision, reason, final))


def check(stepper: Stepper, decision: Decision, now: int) -> None:
    """Tries a decision that follows from a client's command, before the client is told that it is taken.

    A run whose members are not all known yet may begin later.

    Raises:
        ActorError: it would be refused, or no record could hold what it says; nothing has changed.
    """
    if decision.state_epoch >= 0:
        return  # it answers a question, and is asked for again where it is refused
    key, table = RecordKey(decision.lease, decision.machine), stepper.table
    instance = table.instances.get(key)
    if instance is None:
        request = Begin(key, decision.event, decision.fields, stepper.environment.peers)
        try:
            instance, event = beginning.first_step(stepper, request)
        except UnknownPlayer:
            return  # it waits until the trust set names one
    else:
        check_origin(stepper.program, instance, decision.event)
        event = local_event(instance, decision.event, decision.fields, -1)
    record, outcome = instance.core.step_outside(instance.record, event, now, MachinesOfActor(table, instance))
    if outcome.kind == "refused" or not (outcome.taken or key in table.instances):
        whose = f"{key.machine} of {key.lease[:80]}"
        raise ActorError(f"{whose} does not take {decision.event} in {instance.state}: {outcome.reason}")
    try:
        stepper.codecs[instance.core.role].encode(record)
    except CoreError as error:
        raise Impossible(f"{decision.event}: {str(error).partition(';')[0]}") from None


def _is_answer(stepper: Stepper, instance: MachineInstance, decision: Decision) -> bool:
    """Returns whether a decision answers a question, of the present state or of one that was left."""
    if decision.state_epoch != instance.state_epoch:
        asked = stepper.program.asked_of_policies.get(instance.core.role, ())
        return decision.state_epoch >= 0 and decision.event in asked
    return next(_pending_questions(instance, decision), None) is not None


def _pending_questions(instance: MachineInstance, decision: Decision) -> Iterator[StartCall]:
    """The question to its policy, of its present state, that a decision answers."""
    if decision.state_epoch == instance.state_epoch:
        for call in instance.core.work[instance.state](instance.record):
            if isinstance(call, CallWork) and call.target.startswith("policy.") and decision.event in call.answers:
                yield StartCall(instance.key, call, instance.state_epoch)
