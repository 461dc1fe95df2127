"""Upcalls: what an actor asks of its policies, and how it words the actions of its handlers (paper, section 4.3).

A quick policy is asked at once, on the actor's loop; every other one by its desk (policy_desk.py), in a thread of its
own. What they decide comes back as requests, which outside.py judges.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from inspect import signature
from typing import Any

from leasehold.impl.actor.chronicle import COMMITS
from leasehold.impl.actor.environment import ActorContext, ActorError, Charge
from leasehold.impl.actor.policy_desk import Answer, Job, PolicyDesk, Told, copied, kept_by, restore, take_back
from leasehold.impl.actor.ready import PolicyCommand, Request, StartCall, TellRefused, requests_of
from leasehold.impl.actor.table import ACCOUNT, SLICE, WISH, MachineInstance
from leasehold.impl.core.values import check_kept
from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.policy.policy import (
    ExplainsWaits,
    HearsRefusals,
    KnowsItsStore,
    Lease,
    Policy,
    PolicyAnswer,
    Question,
    TakesDemands,
    Undecided,
    decisions_of,
    is_quick,
)
from leasehold.impl.store.store import RecordKey

log = logging.getLogger("leasehold.upcalls")

INVENTORY = "inventory"  # metadata: the units as records know them
SINCE = "since"  # metadata: the time at which the store was new, where a policy has to know it


class Upcalls:
    """Asks the policies of an actor, and words the actions of its handlers.

    Args:
        context: of the actor.
        put: takes what policies decide.
        durable: a future that is done when all that was put before is durable.
        check: raises ActorError where a decision that follows from a command would be refused.
    """

    def __init__(
        self,
        context: ActorContext,
        put: Callable[[Request], None],
        durable: Callable[[], asyncio.Future[Any]],
        check: Callable[[PolicyAnswer, int], None],
    ) -> None:
        self.context, self.environment, self.table = context, context.environment, context.table
        self._put, self._durable, self._check = put, durable, check
        self._made = {
            role: copy
            for role, p in self.environment.policies.items()
            if is_quick(p) and (copy := copied(p)) is not None
        }
        self._desks: dict[str, PolicyDesk] = {}
        self._wishing: list[TakesDemands] | None = None
        self._kept: dict[str, bytes] = {}  # for the next commit
        self._reasons: dict[str, str] = {}  # why leases that are wanted could not begin, by lease

    def close(self) -> None:
        """Waits for no policy any more; what is still answered is dropped."""
        for desk in self._desks.values():
            desk.close()

    def renew(self) -> None:
        """Policies as they were made: what they decided since the last commit was never so (paper, section 4.3.1)."""
        self.close()
        policies = self._made | {role: desk.made for role, desk in self._desks.items() if desk.made is not None}
        for role, policy in policies.items():
            self.environment.policies[role] = copied(policy) or policy
        self._desks = {}
        self._wishing = None
        self._kept = {}

    def recovered(self) -> None:
        """Tells the policies of every lease that was read from the store, and gives them their wishes back.

        Raises:
            EnvironmentMismatch: records know a unit by another number than the environment.
        """
        self._check_units()
        since = self._note_store()
        for told in self.environment.policies.values():
            if is_quick(told) and isinstance(told, KnowsItsStore):
                told.opened(since)
        for role in self.environment.policies:
            if (desk := self._desk(role)) is not None:
                desk.recover()
        for key in self._recovered():
            policy = self._quick(key.machine.partition("[")[0])
            if policy is not None:
                policy.recovered(self.table.view(*key))
        for name, body in self.table.metadata.items():
            for wishing in self.wishing():
                restore(wishing, name, body)
        self._restore_accounts()

    def _restore_accounts(self) -> None:
        """Gives the accounts back, and tells of what has become of their leases since they were written."""
        if (accounts := self.environment.accounts) is None:
            return
        accounts.clear()
        for name, body in self.table.metadata.items():
            if name.startswith(ACCOUNT):
                accounts.restore(name.removeprefix(ACCOUNT), body)
        for key in tuple(self.table.instances):
            self._note(key)
        for lease in accounts.open():
            if WISH + lease not in self.table.metadata and not self.table.has(lease):
                accounts.withdrawn(lease, self.context.clock.now())

    def _recovered(self) -> Iterator[RecordKey]:
        """The leases that policies hear of; of some that are forgotten, units may be in quarantine."""
        yield from self.table.instances
        yield from (RecordKey(*of) for of in self.table.orphans())

    def _check_units(self) -> None:
        units = self.environment.units
        if units is None:
            return
        before, now = self.table.metadata.get(INVENTORY, b""), units.remembered()
        units.check(before)
        if now != before:
            self._kept[INVENTORY] = self.table.metadata[INVENTORY] = now

    def _note_store(self) -> int | None:
        """Returns since when the store keeps records, and keeps that with the first of them; None: it is not known."""
        metadata = self.table.metadata
        knows = any(isinstance(policy, KnowsItsStore) for policy in self.environment.policies.values())
        if knows and COMMITS not in metadata and SINCE not in metadata:
            self._kept[SINCE] = metadata[SINCE] = str(self.context.clock.now()).encode()
        return int(metadata[SINCE]) if SINCE in metadata else None

    # Wishes

    def metadata(self) -> dict[str, bytes]:
        """The metadata for the next commit: the wishes that have changed, and the units."""
        changes, self._kept = self._kept, {}
        for policy in self._wishing if self._wishing is not None else self.wishing():
            try:
                changes |= kept_by(policy)
            except Exception:
                self._has_failed("its wishes are not kept")
        changes |= self._charged([n.removeprefix(WISH) for n, b in changes.items() if n.startswith(WISH) and not b])
        for name, body in changes.items():
            if body:
                self.table.metadata[name] = body
            else:
                self.table.metadata.pop(name, None)
                self._reasons.pop(name.removeprefix(WISH), None)
        return changes

    def _charged(self, wishes: Iterable[str]) -> dict[str, bytes]:
        """The accounts that have changed; a lease whose wish is over, and that is not here, never began."""
        if (accounts := self.environment.accounts) is None:
            return {}
        for lease in wishes:
            if not self.table.has(lease):
                accounts.withdrawn(lease, self.context.clock.now())
        return {ACCOUNT + lease: body for lease, body in accounts.changes().items()}

    def wishing(self) -> list[TakesDemands]:
        """The quick policies that keep wishes; those of others come with their answers."""
        if self._wishing is None:
            policies = self.environment.policies.values()
            self._wishing = [policy for policy in policies if isinstance(policy, TakesDemands) and is_quick(policy)]
        return self._wishing

    def wish(self, lease: str) -> bytes:
        """The wish for a lease, as it was kept last; empty where there is none."""
        return self.table.metadata.get(WISH + lease, b"")

    def unbegun(self) -> dict[str, str]:
        """The leases that are wanted and have not begun, and why not, as far as that is known."""
        wanted = (name.removeprefix(WISH) for name in self.table.metadata if name.startswith(WISH))
        return {lease: self._reasons.get(lease, "") for lease in wanted if not self.table.has(lease)}

    def undecided(self, key: RecordKey, now: int) -> Undecided | None:
        """Returns what the policy of a machine waits for before it decides, if it is a quick one that says so."""
        policy = self._quick(key.machine.partition("[")[0])
        try:
            return policy.undecided(key.lease, now) if isinstance(policy, ExplainsWaits) else None
        except Exception:
            self._has_failed("does not say what it waits for")
            return None

    # Policies

    def reads(self, key: RecordKey) -> bool:
        """Returns whether a policy still reads the record of a lease that is over (`ReadsOldRecords`)."""
        policy = self.environment.policies.get(key.machine.partition("[")[0])
        needed = getattr(policy, "__dict__", {}).get("needed", frozenset())
        return needed is None or (isinstance(needed, frozenset) and key.lease in needed)

    @property
    def busy(self) -> bool:
        """Returns whether a policy is being asked, or has not heard yet what it is to hear now."""
        return any(desk.busy for desk in self._desks.values())

    @property
    def abandoned(self) -> int:
        """The number of threads of policies that hang and have not ended."""
        return sum(thread.alive for desk in self._desks.values() for thread in desk.abandoned)

    def _quick(self, role: str) -> Policy | None:
        policy = self.environment.policies.get(role)
        return policy if policy is not None and is_quick(policy) else None

    def _desk(self, role: str) -> PolicyDesk | None:
        """The desk of a role's policy; None where the policy is quick, or there is none."""
        policy = self.environment.policies.get(role)
        if policy is None or is_quick(policy):
            return None
        desk = self._desks.get(role)
        if desk is None or desk.policy is not policy:
            if desk is not None:
                desk.close()
            desk = self._desks[role] = PolicyDesk(
                self.context, role, policy, lambda: self.recovery(role), self._take, self._check
            )
        return desk

    def recovery(self, role: str) -> Iterator[tuple[Hashable, Job]]:
        """Yields what a policy hears of before anything else, and then the questions that are open."""
        since = self._note_store()
        yield ("recovered", SINCE), Job(lambda: _opens(since))
        for key in self._recovered():
            if key.machine.partition("[")[0] == role:
                yield ("recovered", *key), Job(lambda key=key: _recovers(self.table.view(*key)))  # type: ignore[misc]
        for name in [name for name in self.table.metadata if name.startswith((WISH, SLICE))]:
            yield ("recovered", name), Job(lambda name=name: self._restores(name))  # type: ignore[misc]
        for key, instance in self.table.instances.items():
            if instance.core.role == role:
                for call in instance.core.work[instance.state](instance.record):
                    if isinstance(call, CallWork) and call.target.startswith("policy."):
                        yield self._question(StartCall(key, call, instance.state_epoch))

    def _restores(self, name: str) -> Told | None:
        body = self.table.metadata.get(name)
        if body is None:
            return None

        def told(policy: Policy) -> tuple[PolicyAnswer, ...]:
            restore(policy, name, body)
            return ()

        return told

    def begin(self, effect: StartCall) -> None:
        """A state of a lease asks for a decision."""
        role = self.table.instances[effect.key].core.role
        if (desk := self._desk(role)) is not None:
            desk.put(*self._question(effect))
        elif (policy := self._quick(role)) is not None:
            self._ask(policy, self._begins(effect))

    def begin_again(self, effect: StartCall) -> None:
        """The question, later; a quick policy hears of what changes and of the clock, and answers again by itself."""
        if (desk := self._desk(self.table.instances[effect.key].core.role)) is not None:
            desk.put_later(*self._question(effect))

    def _question(self, effect: StartCall) -> tuple[Hashable, Job]:
        return ("begin", *effect.key, effect.call.task), Job(lambda: self._begins(effect), again=True)

    def _begins(self, effect: StartCall) -> Told | None:
        """A question about a lease as it is now; None where the state that asks was left."""
        key, call = effect.key, effect.call
        instance = self.table.instances.get(key)
        if instance is None or instance.state_epoch != effect.epoch:
            return None
        question = Question(call.target.partition(".")[2], self.table.view(*key), call.answers, instance.state_epoch)
        now = self.context.clock.now()
        return lambda policy: policy.begin(question, now)

    def changed(self, key: RecordKey) -> None:
        """A lease has changed."""
        self._note(key)
        role = key.machine.partition("[")[0]
        if (desk := self._desk(role)) is not None:
            desk.put(("changed", *key), Job(lambda: self._changes(key)))
        elif (policy := self._quick(role)) is not None:
            self._ask(policy, self._changes(key))

    def _note(self, key: RecordKey) -> None:
        """Tells the accounts of a lease that a client has demanded."""
        accounts, instance = self.environment.accounts, self.table.instances.get(key)
        if accounts is None or instance is None or instance.core.subsidiary or not accounts.client(key.lease):
            return
        if hasattr(self.environment.policies.get(instance.core.role), "demand"):
            accounts.noted(self.table.view(*key), self.context.clock.now(), instance.metadata.get("over"))

    def _changes(self, key: RecordKey) -> Told:
        lease, now = self.table.view(*key), self.context.clock.now()
        return lambda policy: policy.changed(lease, now)

    def tick(self, now: int) -> None:
        """The clock has come to a time."""
        if self.environment.accounts is not None:
            self.environment.accounts.tick(now, self.table.has)
        for role in tuple(self.environment.policies):
            if (desk := self._desk(role)) is not None:
                desk.put(("tick",), Job(lambda: _ticks(self.context.clock.now())))
            elif (policy := self._quick(role)) is not None:
                self._ask(policy, _ticks(now))

    def command(self, command: PolicyCommand, now: int) -> list[PolicyAnswer]:
        """A client's command to a quick policy.

        Raises:
            ActorError: there is no such policy, or it refuses the command.
        """
        policy = self.environment.policies.get(command.role)
        if policy is None:
            raise ActorError(f"this actor has no policy for {command.role[:60]}")
        charge = self._charge(command, now)
        try:
            decisions = decisions_of(_commands(command, now)(policy))
        except Exception as error:
            raise ActorError(str(error)) from error
        try:
            for decision in decisions:
                self._check(decision, now)
        except ActorError:
            take_back(command.lease, now)(policy)
            raise
        self._take_charge(command, charge)
        return decisions

    def _charge(self, command: PolicyCommand, now: int) -> Charge:
        """Returns the cost of a command for its client.

        Raises:
            ActorError: it is more than the client may have.
        """
        if (accounts := self.environment.accounts) is None:
            return None
        return accounts.charge(command.client, command.method, command.arguments, command.options, now)

    def _take_charge(self, command: PolicyCommand, charge: Charge) -> None:
        """A command is taken, and charged; what its lease has now may be all that it is to have."""
        if self.environment.accounts is not None:
            self.environment.accounts.take(charge)
            self._note(RecordKey(command.lease, command.role))

    def command_later(self, command: PolicyCommand) -> asyncio.Future[None]:
        """A client's command to a policy that is no quick one."""
        desk = self._desk(command.role)
        assert desk is not None
        charges: list[Charge] = []

        def word() -> Told:
            """The desk has one command at a time, so no other is charged between this and its end."""
            now = self.context.clock.now()
            try:
                charges.append(self._charge(command, now))
            except ActorError as error:
                return _refuses(error)
            return lambda policy: _commands(command, self.context.clock.now())(policy)

        return desk.command(word, command.lease, lambda: self._take_charge(command, charges[-1]))

    def refused(self, effect: TellRefused) -> None:
        """A decision of a policy's own accord was refused."""
        role, now = effect.decision.machine.partition("[")[0], self.context.clock.now()
        if WISH + effect.decision.lease in self.table.metadata:
            self._reasons[effect.decision.lease] = effect.reason
        if (desk := self._desk(role)) is not None:
            decision = effect.decision
            desk.put(("refused", decision.lease, decision.machine, decision.event), Job(lambda: _refused(effect, now)))
        elif (policy := self._quick(role)) is not None:
            self._ask(policy, _refused(effect, now))

    def _ask(self, policy: Policy, upcall: Told | None) -> None:
        """Asks a quick policy; its own mistakes are its own, and harm no lease but those that it does not decide on."""
        if upcall is None:
            return
        try:
            decisions = decisions_of(upcall(policy))
        except Exception:
            self._has_failed("decides nothing now")
        else:
            self.decided(decisions)

    def _take(self, answer: Answer, awaited: bool) -> asyncio.Future[Any] | None:
        self._kept |= answer.kept
        self.decided(answer.decisions)
        return self._durable() if awaited else None

    def decided(self, decisions: Iterable[PolicyAnswer]) -> None:
        """Puts a policy's decisions into the queue, as requests."""
        for request in requests_of(decisions):
            self._put(request)

    def _has_failed(self, follows: str) -> None:
        self.context.counts["policy errors"] += 1
        log.exception("%s: a policy failed, and %s", self.context.identity.name, follows)

    # Handlers

    def action(self, instance: MachineInstance, call: CallWork, epoch: int) -> HandlerAction:
        """The action that a state asks for, with a number that rises; `epoch` is the actor's incarnation."""
        state_epoch, attempts = instance.attempts
        attempts = attempts + 1 if state_epoch == instance.state_epoch else 1
        instance.attempts = instance.state_epoch, attempts
        verb, core = call.target.partition(".")[2], instance.core
        number = (instance.state_epoch << 40) + (epoch << 16) + attempts
        own = core.view(instance.record)
        scope = self.context.identity.name if core.of_actor else instance.key.lease
        task = f"{scope}/{instance.key.machine}/{call.task}/{core.began(instance.record, call.task)}"
        if not core.subsidiary:
            return HandlerAction(
                verb,
                scope,
                "",
                number,
                own,
                answers=call.answers,
                task=task,
                incarnation=epoch,
                actor=self.context.identity.name,
                peers={
                    self.context.program.neighbour(core, instance.number, at): actor
                    for at, actor in instance.addressed
                    if actor
                },
                credentials=dict(instance.metadata),
            )
        units, lease = self.environment.units if core.of_actor else None, instance.serves
        drivers = self.table.above(instance)
        if core.of_actor:
            driving = (k for k in reversed(self.table.drivers.get(instance.key, [])) if k.lease == lease)
            drivers = filter(None, map(self.table.instances.get, driving))
        parent = next(drivers, None)
        above = parent.core.view(parent.record) if parent is not None else {}
        told = self._told_of(instance, above)
        properties = units.properties(instance.number) if units is not None else told
        return HandlerAction(
            verb,
            lease,
            self.environment.unit_name(instance),
            number,
            above,
            own,
            properties,
            call.answers,
            task,
            epoch,
            instance.number,
            self.context.identity.name,
            told,
            type=units.type(instance.number) if units is not None else "",
        )

    def _told_of(self, instance: MachineInstance, above: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what the parent's record has of a subsidiary machine."""
        cells = above.get(self.environment.properties_in.get(instance.core.role, ""), ())
        cell = cells[instance.number] if instance.number < len(cells) else None
        return cell if isinstance(cell, Mapping) else {}


def _opens(since: int | None) -> Told:
    def told(policy: Policy) -> tuple[PolicyAnswer, ...]:
        if isinstance(policy, KnowsItsStore):
            policy.opened(since)
        return ()

    return told


def _recovers(lease: Lease) -> Told:
    def told(policy: Policy) -> tuple[PolicyAnswer, ...]:
        policy.recovered(lease)
        return ()

    return told


def _ticks(now: int) -> Told:
    return lambda policy: policy.tick(now)


def _refused(effect: TellRefused, now: int) -> Told:
    def told(policy: Policy) -> tuple[PolicyAnswer, ...]:
        if isinstance(policy, HearsRefusals):
            policy.refused(effect.decision, effect.reason, now, final=effect.final)
        return ()

    return told


def _refuses(error: ActorError) -> Told:
    def told(policy: Policy) -> Iterable[PolicyAnswer]:
        raise error

    return told


def _commands(command: PolicyCommand, now: int) -> Told:
    """The call of a command; what it gives a policy to keep can be in a record."""

    def told(policy: Policy) -> Iterable[PolicyAnswer]:
        method = getattr(policy, command.method)
        given = signature(method).bind(*command.arguments, now=now, **command.options).arguments
        for name, value in given.items():
            check_kept(name, list(value) if isinstance(value, set | frozenset) else value)
        decisions: Iterable[PolicyAnswer] = method(*command.arguments, now=now, **command.options)
        return decisions

    return told
