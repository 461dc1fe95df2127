"""Events that the world outside gives machines: of clients and operators, policies, handlers and probes.

Theory of operation. Each is held to who may give it, to the fields that it has, and to its contract; what is refused
has changed nothing. It is judged by the records as they are when its turn comes. A run (of leases: a lease) begins with
such an event at its origin: its name is new, and all members are known and trusted.

A decision of a policy answers a question of the present state, or it is of the policy's own accord: then it may begin a
run, and the policy hears where it was refused. What follows from a client's command is such a decision. It is tried
while the client waits: against the run's members, the state, the contract and the record's codec. So what was
acknowledged can be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from leasehold.impl.actor.drafts import refused, words
from leasehold.impl.actor.environment import ActorError, Impossible, UnknownPlayer
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.ready import AskAgain, Begin, Complete, Observe, Ready, StartCall, Tell, TellRefused
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import BELOW, MEMBERSHIP, MachineInstance, MachinesOfActor
from leasehold.impl.core.codec import Codec
from leasehold.impl.core.core import Core, CoreError, Program
from leasehold.impl.core.values import ValueFault, check_sizes, given_fields
from leasehold.impl.core.work import CallWork, Event, Outcome, local
from leasehold.impl.events.event import EndedCall
from leasehold.impl.identity import membership
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.policy.policy import Decision, PolicyAnswer
from leasehold.impl.raised import RaisedEvent
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import choices, did_you_mean

log = logging.getLogger("leasehold.outside")
policy_log = logging.getLogger("leasehold.stepper")

# Policies


def decide(stepper: Stepper, ready: Ready, decision: Decision) -> None:
    """Takes a decision, or says why not."""
    key, table = RecordKey(decision.lease, decision.machine), stepper.table
    instance = table.instances.get(key)
    try:
        if instance is not None:
            epoch = decision.state_epoch
            if not _is_answer(stepper, instance, decision):
                check_origin(stepper.program, instance, decision.event)
                if instance.core.subsidiary:
                    check_leave(stepper, key, decision.event)
                epoch = -1
            event = local_event(instance, decision.event, decision.fields, epoch)
            if epoch < 0:
                admit(stepper, instance, event, ready.now)
            ready.ended = EndedCall(epoch) if epoch >= 0 else None
        elif decision.lease in table.pruned:  # what it ends of its own accord may be forgotten already
            _tell_refused(ready, decision, "it is over and forgotten", final=True)
        elif decision.state_epoch < 0:
            begin(stepper, ready, _begins(stepper, decision))
    except ActorError as error:
        stepper.counts["policy errors"] += 1
        if stepper.keeps_events:
            ready.events.append(refused(key, decision.event, "policy", str(error)))
        policy_log.error("the policy of %s answers wrongly: %s", decision.machine, error)
        _tell_refused(ready, decision, str(error), final=isinstance(error, Impossible))
    else:
        if instance is not None and (outcome := stepper.step(ready, instance, event, True)).kind == "refused":
            stepper.counts["policy errors"] += 1
            policy_log.error("the policy of %s answers wrongly: %s: %s", decision.machine, event[0], outcome.reason)
            ready.effects += map(AskAgain, _pending_questions(instance, decision))
            _tell_refused(ready, decision, outcome.reason, final=instance.core.over(instance.state))


def _begins(stepper: Stepper, decision: Decision) -> Begin:
    """A decision as the beginning of a run; it may name members, and the settings name the others."""
    peers = {**stepper.environment.peers, **decision.peers}
    return Begin(RecordKey(decision.lease, decision.machine), decision.event, decision.fields, peers)


def _tell_refused(ready: Ready, decision: Decision, reason: str, final: bool) -> None:
    if decision.state_epoch < 0:
        ready.effects.append(TellRefused(decision, reason, final))


def check(stepper: Stepper, codecs: Mapping[str, Codec], decision: PolicyAnswer, now: int) -> None:
    """Tries a decision that follows from a client's command, before the client is told that it is taken.

    A run whose members are not all known yet may begin later.

    Raises:
        ActorError: it would be refused, or no record could hold what it says; nothing has changed.
    """
    if isinstance(decision, RaisedEvent):
        return  # it is about what is outside, and not what the client has asked for
    if decision.state_epoch >= 0:
        return  # it answers a question, and is asked for again where it is refused
    key, table = RecordKey(decision.lease, decision.machine), stepper.table
    instance = table.instances.get(key)
    if instance is None:
        try:
            instance, event = first_step(stepper, _begins(stepper, decision))
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
        codecs[instance.core.role].encode(record)
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


# The beginning of runs


def begin(stepper: Stepper, ready: Ready, request: Begin) -> Outcome:
    """Begins a run with its first event.

    Raises:
        ActorError: it cannot begin; nothing has changed.
    """
    instance, heard = first_step(stepper, request)
    admit(stepper, instance, heard, ready.now)
    key = instance.key
    stepper.table.instances[key] = instance
    outcome = stepper.step(ready, instance, heard, outside=True)
    if not outcome.taken:
        del stepper.table.instances[key]
        ready.undo(key)
        raise ActorError(f"{key.machine} does not take {heard[0]}: {outcome.reason}")
    return outcome


def first_step(stepper: Stepper, request: Begin) -> tuple[MachineInstance, Event]:
    """The machine that begins a run, which the table does not have yet, and its first event.

    Raises:
        ActorError: the run cannot begin here; nothing has changed.
    """
    key, event, fields, peers = request
    program, table, (lease, machine) = stepper.program, stepper.table, key
    if program.standing:
        raise ActorError(f"{program.system} stands: its machines are there; tell them what has happened")
    named = program.machines.get(machine)
    if named is None or named[0].role not in table.roles or named[0].subsidiary:
        raise ActorError(f"this actor has no machine {machine[:60]}")
    if named[0].role not in program.begun_by:
        may = ", ".join(program.begun_by)
        raise ActorError(f"{machine[:60]} begins no runs of {program.system}; these do: {may}")
    named_after = origin_of(lease)
    if named_after is None:
        raise ActorError(f"a lease is named ORIGIN:NUMBER, not {lease[:60]!r}")
    if named_after[0] != stepper.name:
        raise ActorError(f"{lease[:80]} would be a lease of {named_after[0]}; this actor begins {stepper.name}:NUMBER")
    if key in table.instances or lease in table.pruned:
        raise Impossible(f"there is, or was, a lease {lease[:80]}; give it another name, or none")
    if unknown := next((name for name in peers if program.machines.get(name) is None), ""):
        raise ActorError(f"`peers` names {unknown[:60]!r}, which is no machine{choices(unknown, [*program.talking])}")
    instance = table.new(key, *named)
    check_origin(program, instance, event)
    heard = local_event(instance, event, fields, -1)
    _gather(stepper, instance, peers)
    return instance, heard


def _gather(stepper: Stepper, instance: MachineInstance, peers: Mapping[str, str]) -> None:
    """The members of a run that begins here: its machine learns its neighbours', and signs them for all."""
    program, key, identity = stepper.program, instance.key, stepper.identity
    credentials = stepper.environment.credentials
    told = credentials.names if credentials is not None else ()
    near = program.neighbours(instance.core, instance.number)
    members = {key.machine: identity.name}
    for name in program.talking if program.has_membership else near:
        if name != key.machine:
            members[name] = peers.get(name) or stepper.environment.peers.get(name, "")
        if not members[name] and name in told:
            continue  # a credential names it, before anything is sent to it
        if not members[name]:
            raise UnknownPlayer(f"nobody was named to play {name} for {key.lease[:80]}")
        if name != key.machine:
            _check_player(stepper, name, members[name])
    for at, name in enumerate(near):
        instance.peers[at] = members.get(name) or stepper.environment.peers.get(name, "")
    if program.has_membership:
        try:
            instance.metadata[MEMBERSHIP] = membership.issue(identity.key, identity.name, key.lease, members)
        except Refusal as refusal:
            raise ActorError(f"{key.lease[:80]} cannot begin: {refusal}") from refusal


def _check_player(stepper: Stepper, machine: str, player: object) -> None:
    """Checks whether somebody may play a machine: else what is sent to it would never be taken."""
    if not isinstance(player, str):
        raise ActorError(f"who plays {machine} is a name, not {player!r:.60}")
    try:
        stepper.identity.trust.speaker(player, machine)
    except Refusal as refusal:
        raise UnknownPlayer(f"{player[:80]} cannot play {machine}: {refusal}") from refusal


# Clients, handlers and probes


def tell(stepper: Stepper, ready: Ready, request: Tell) -> Outcome:
    """Gives a machine a client's event. A subsidiary machine takes those that the specification has from outside.

    Raises:
        ActorError: there is no such machine or event, or the machine refuses it; nothing has changed.
    """
    key, event, fields = request
    instances = stepper.table.instances
    fresh = key.lease == BELOW and key not in instances
    instance = _new_below(stepper, key) if fresh else stepper.find(key)  # one of a run is there once it was driven
    check_origin(stepper.program, instance, event)
    heard = local_event(instance, event, fields, -1)
    admit(stepper, instance, heard, ready.now)
    instances[key] = instance
    outcome = stepper.step(ready, instance, heard, outside=True)
    if fresh and outcome.taken:
        stepper.table.add_undriven(instance)
    elif fresh:
        del instances[key]  # nothing has happened to it yet
    if not outcome.taken and outcome.kind != "ignored":
        whose = key.machine if key.lease == BELOW else f"{key.machine} of {key.lease}"
        raise ActorError(f"{whose} does not take {event} in {instance.state}: {outcome.reason}")
    return outcome


def _new_below(stepper: Stepper, key: RecordKey) -> MachineInstance:
    """A subsidiary machine of this actor that nothing has happened to."""
    core, number = stepper.program.machines.get(key.machine, (None, 0))
    units = stepper.environment.units
    if core is None or core.role not in stepper.table.below or (units is not None and units.name(number) is None):
        raise ActorError(f"this actor has no {key.machine[:60]}")
    return MachineInstance(key, core, core.first(number), [])


def observe(stepper: Stepper, ready: Ready, request: Observe) -> None:
    """A probe has found something, which counts in the state that it was found in."""
    instance = stepper.table.instances.get(request.key)
    if instance is None or instance.state_epoch != request.epoch:
        stepper.counts["late"] += 1
        return
    outcome = stepper.step(ready, instance, local(request.event), outside=True)
    if outcome.kind == "refused":
        why = f"{request.key.machine} of {request.key.lease} does not take it: {outcome.reason}"
        log.error("a probe has found %s, and %s", request.event, why)


def complete(stepper: Stepper, ready: Ready, request: Complete) -> None:
    """A handler call has ended."""
    instance, done = stepper.table.instances.get(request.key), request.done
    if instance is None:
        return
    data = {"event": request.event, "well": done.well, "words": done.words}
    ready.notices.append(Notice(Kind.ANSWERED, stepper.name, *request.key, request.event, ready.now, data))
    if done.facts and instance.state_epoch == request.epoch:
        instance.metadata["facts"] = dict(done.facts)
        ready.change(instance)
    ready.ended = EndedCall(request.epoch, done.well, words(done.words))
    outcome = stepper.step(ready, instance, local(request.event, request.fields, request.epoch), outside=True)
    if outcome.kind == "refused":
        why = f"{request.key.machine} of {request.key.lease} does not take it: {outcome.reason}"
        log.error("a handler answers %s, and %s", request.event, why)


# What all events from outside are held to


def check_origin(program: Program, instance: MachineInstance, event: str) -> None:
    """Checks whether clients, operators and policies may give a machine an event.

    Raises:
        ActorError: it comes from what drives the machine or from its handlers, or when its subsidiary machines have
            come to where it waits for them, and they have not.
    """
    core, machine = instance.core, instance.key.machine
    known = program.from_outside[core.role] if core.subsidiary else core.events
    if event in core.events and event not in known:
        reason = f"{event} comes from what drives {machine} or from its handlers, and not from outside"
        raise ActorError(f"{reason}; from there come: {', '.join(known) or 'none'}")
    if event in program.from_below.get(core.role, ()) and event not in core.offered(instance.record):
        raise ActorError(f"{event} comes when the subsidiary machines of {machine} have come there, and they have not")


def check_leave(stepper: Stepper, key: RecordKey, event: str) -> None:
    """Checks whether policies, handlers and detectors have leave to raise an event on a machine.

    Raises:
        ActorError: they have not.
    """
    role = role_of(stepper, key).role
    allowed = stepper.environment.raises.get(role, ())
    if event not in allowed:
        leave = f"`raises` allows {', '.join(allowed) or 'nothing'} of {role}{did_you_mean(event, allowed)}"
        raise ActorError(f"the actor gives no leave to raise {event[:60]} of {role}: its setting {leave}")


def role_of(stepper: Stepper, key: RecordKey) -> Core:
    """The compiled role of a machine, which need not have moved yet."""
    instance = stepper.table.instances.get(key)
    return stepper.program.machines[key.machine][0] if instance is None else instance.core


def admit(stepper: Stepper, instance: MachineInstance, event: Event, now: int) -> None:
    """Asks the admission of the actor about an event from outside, where it has one.

    Raises:
        ActorError: it is not to be taken; nothing has changed.
    """
    admission, core = stepper.environment.admission, instance.core
    if admission is None:
        return
    name, values = event[0], event[1]
    fields = {field: value for (field, _), value in zip(core.events[name], values, strict=True)}
    others = (one for one in stepper.table.instances.values() if one.core.role == core.role)
    records = [(one.key.lease, core.view(one.record)) for one in others]
    try:
        admission.admit(name, fields, records, now)
    except Refusal as refusal:
        raise ActorError(f"{instance.key.machine} does not take {name}: {refusal}") from refusal


def local_event(instance: MachineInstance, event: str, fields: Mapping[str, Any], epoch: int) -> Event:
    """A local event of a machine, its fields by name.

    Raises:
        Impossible: the machine has no such event, or it has other fields, or larger ones.
    """
    shape = instance.core.events.get(event)
    if shape is None:
        known = ", ".join(instance.core.events)
        raise Impossible(f"{instance.core.role} has no event {event[:60]!r}; it has {known}")
    try:
        values = given_fields(shape, fields)
        check_sizes(shape, values)
    except ValueFault as fault:
        raise Impossible(f"{event}: {fault}") from None
    return local(event, values, epoch)
