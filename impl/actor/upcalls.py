"""Upcalls: what policies and handlers are asked (paper, section 4.3). A policy's decisions come back as values."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator

from leasehold.impl.actor.environment import ActorError, Environment
from leasehold.impl.actor.instance import MachineInstance, role_of
from leasehold.impl.actor.requests import PolicyCommand
from leasehold.impl.actor.table import MachineTable
from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.handler import Action
from leasehold.impl.policy.policy import Decision, Lease, Policy, Question, Wishing

log = logging.getLogger("leasehold.upcalls")

INVENTORY = "inventory"  # metadata: the units as records know them
WISH = "wish of "  # metadata: a client's wish for a lease, as the policy keeps it


class Upcalls:
    """Asks the policies of an actor, and words the actions of its handlers.

    Args:
        name: of the actor.
        environment: policies and units.
        table: the actor's machines.
        counts: `policy errors`.
    """

    def __init__(self, name: str, environment: Environment, table: MachineTable, counts: dict[str, int]) -> None:
        self.name, self.environment, self.table, self.counts = name, environment, table, counts
        self._attempt = 0
        self._made = {role: made for role, p in environment.policies.items() if (made := _copied(p)) is not None}
        self._wishing: list[Wishing] | None = None
        self._kept: dict[str, bytes] = {}  # for the next commit

    def renew(self) -> None:
        """Policies as they were made: what they decided since the last commit was never so (paper, section 4.3.1)."""
        for role, policy in self._made.items():
            self.environment.policies[role] = copy.deepcopy(policy)
        self._wishing = None
        self._kept = {}

    def recovered(self) -> None:
        """Tells the policies of every lease that was read from the store, and gives them their wishes back.

        Raises:
            EnvironmentMismatch: records know a unit by another number than the environment.
        """
        self._check_units()
        policies = self.environment.policies
        for instance in self.table.instances.values():
            if (policy := policies.get(instance.core.role)) is not None:
                policy.recovered(self.table.view(*instance.key))
        for lease, role in self.table.orphans():  # their units may be in quarantine
            if (policy := policies.get(role)) is not None:
                policy.recovered(self.table.view(lease, role))
        for name, body in self.table.metadata.items():
            for wishing in self.wishing() if name.startswith(WISH) else ():
                wishing.restore(name.removeprefix(WISH), body)

    def _check_units(self) -> None:
        units = self.environment.units
        if units is None:
            return
        before, now = self.table.metadata.get(INVENTORY, b""), units.remembered()
        units.check(before)
        if now != before:
            self._kept[INVENTORY] = self.table.metadata[INVENTORY] = now

    def metadata(self) -> dict[str, bytes]:
        """The metadata for the next commit: the wishes that have changed, and the units."""
        found, self._kept = self._kept, {}
        for policy in self._wishing if self._wishing is not None else self.wishing():
            found |= {WISH + lease: wish for lease, wish in policy.changed_wishes().items()}
        return found

    def wishing(self) -> list[Wishing]:
        if self._wishing is None:
            self._wishing = [policy for policy in self.environment.policies.values() if isinstance(policy, Wishing)]
        return self._wishing

    # Policies

    def begin(self, instance: MachineInstance, call: CallWork, now: int) -> list[Decision]:
        """A state of a lease asks for a decision."""
        policy = self.environment.policies.get(instance.core.role)
        if policy is None:
            return []
        view = self.table.view(*instance.key)
        question = Question(call.target.partition(".")[2], view, call.answers, instance.state_epoch)
        return self._ask(lambda: policy.begin(question, now))

    def changed(self, lease: Lease, now: int) -> list[Decision]:
        """A lease has changed."""
        policy = self.environment.policies.get(lease.machine.partition("[")[0])
        return [] if policy is None else self._ask(lambda: policy.changed(lease, now))

    def tick(self, now: int) -> Iterator[Decision]:
        """The clock has come to a time."""
        for policy in self.environment.policies.values():
            yield from self._ask(lambda policy=policy: policy.tick(now))  # type: ignore[misc]

    def command(self, command: PolicyCommand, now: int) -> list[Decision]:
        """A client's command.

        Raises:
            ActorError: there is no such policy, or it refuses the command.
        """
        policy = self.environment.policies.get(command.role)
        if policy is None:
            raise ActorError(f"this actor has no policy for {command.role[:60]}")
        try:
            return list(getattr(policy, command.method)(*command.arguments, now=now, **command.options))
        except Exception as error:
            raise ActorError(str(error)) from error

    def _ask(self, policy: Callable[[], Iterable[Decision]]) -> list[Decision]:
        """Asks a policy; its own mistakes are its own, and harm no lease but those that it does not decide on."""
        try:
            return list(policy())
        except Exception:
            self.counts["policy errors"] = self.counts.get("policy errors", 0) + 1
            log.exception("%s: a policy failed, and decides nothing now", self.name)
            return []

    # Handlers

    def action(self, instance: MachineInstance, call: CallWork, epoch: int) -> Action:
        """The action that a state asks for, with a number that rises; `epoch` is the actor's incarnation."""
        self._attempt += 1
        verb = call.target.partition(".")[2]
        number = (instance.state_epoch << 40) + (epoch << 16) + self._attempt % (1 << 16)
        own = instance.core.view(instance.record)
        if not instance.core.subsidiary:
            return Action(verb, instance.key.lease, "", number, own, answers=call.answers)
        units, named, lease = self.environment.units, role_of(instance.key.machine), instance.metadata.get("lease", "")
        assert named is not None
        drivers = (self.table.instances.get(k) for k in self.table.drivers.get(instance.key, ()) if k.lease == lease)
        parent = next(filter(None, drivers), None)
        return Action(
            verb, lease, (units.name(named[1]) if units is not None else None) or instance.key.machine, number,
            parent.core.view(parent.record) if parent is not None else {}, own,
            units.properties(named[1]) if units is not None else {}, call.answers,
        )  # fmt: skip


def _copied(policy: Policy) -> Policy | None:
    """A policy that nothing has happened to; None where it cannot be copied, and the old one has to do."""
    try:
        return copy.deepcopy(policy)
    except Exception as error:
        log.warning(
            "the policy %s cannot be copied (%s), and is kept when the store fails", type(policy).__name__, error
        )
        return None
