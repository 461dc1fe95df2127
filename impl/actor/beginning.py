"""The beginning of a run (of leases: a lease) at its origin: its name is new, and all members are known and trusted."""

from __future__ import annotations

from collections.abc import Mapping

from leasehold.impl.actor.environment import ActorError, Impossible, UnknownPlayer
from leasehold.impl.actor.outside import check_origin, local_event
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.ready import Begin, Ready
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MEMBERSHIP, MachineInstance
from leasehold.impl.core.work import Event, Outcome
from leasehold.impl.identity import membership
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.words import choices


def begin(stepper: Stepper, ready: Ready, request: Begin) -> Outcome:
    """Begins a run with its first event.

    Raises:
        ActorError: it cannot begin; nothing has changed.
    """
    instance, heard = first_step(stepper, request)
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
    near = program.neighbours(instance.core, instance.number)
    members = {key.machine: identity.name}
    for name in program.talking if program.has_membership else near:
        if name != key.machine:
            members[name] = peers.get(name) or stepper.environment.peers.get(name, "")
        if not members[name]:
            raise UnknownPlayer(f"nobody was named to play {name} for {key.lease[:80]}")
        if name != key.machine:
            _check_player(stepper, name, members[name])
    stepper.sender.introduce(instance, members)
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
