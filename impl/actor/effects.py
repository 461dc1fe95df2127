"""Effects: the messages, calls and upcalls that follow a commit. A policy's decisions come back as requests."""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.environment import ActorContext, ActorError
from leasehold.impl.actor.messages import EnvelopeCodec, Outgoing
from leasehold.impl.actor.outbox import Outbox, PendingSend
from leasehold.impl.actor.ready import (
    Acknowledge,
    Decide,
    Effect,
    PolicyCommand,
    Ready,
    Request,
    SendMessage,
    SendNext,
    StartCall,
    TellPolicy,
    TickPolicies,
)
from leasehold.impl.actor.session import queued
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.work import CallWork, SendWork
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.notices import Kind
from leasehold.impl.policy.policy import Decision, Lease, Policy, Question, Wishing
from leasehold.impl.transport.transport import Transport

INVENTORY = "inventory"  # metadata: the units as records know them
WISH = "wish of "  # metadata: a client's wish for a lease, as the policy keeps it


class Upcalls:
    """Asks the policies of an actor, and words the actions of its handlers (paper, section 4.3)."""

    def __init__(self, context: ActorContext) -> None:
        self.context, self.environment, self.table = context, context.environment, context.table
        self._made = {role: made for role, p in self.environment.policies.items() if (made := _copied(p)) is not None}
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
            try:
                found |= {WISH + lease: bytes(wish) for lease, wish in policy.changed_wishes().items()}
            except Exception:
                self._has_failed("its wishes are not kept")
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
            return _decisions(getattr(policy, command.method)(*command.arguments, now=now, **command.options))
        except Exception as error:
            raise ActorError(str(error)) from error

    def _ask(self, policy: Callable[[], Iterable[Decision]]) -> list[Decision]:
        """Asks a policy; its own mistakes are its own, and harm no lease but those that it does not decide on."""
        try:
            return _decisions(policy())
        except Exception:
            self._has_failed("decides nothing now")
            return []

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
        scope = self.context.identity.name if core.subsidiary else instance.key.lease
        task = f"{scope}/{instance.key.machine}/{call.task}/{core.began(instance.record, call.task)}"
        if not core.subsidiary:
            return HandlerAction(verb, scope, "", number, own, answers=call.answers, task=task, incarnation=epoch)
        units, unit, lease = self.environment.units, instance.number, instance.metadata.get("lease", "")
        drivers = (self.table.instances.get(k) for k in self.table.drivers.get(instance.key, ()) if k.lease == lease)
        parent = next(filter(None, drivers), None)
        return HandlerAction(
            verb, lease, (units.name(unit) if units is not None else None) or instance.key.machine, number,
            parent.core.view(parent.record) if parent is not None else {}, own,
            units.properties(unit) if units is not None else {}, call.answers, task, epoch,
        )  # fmt: skip


def _decisions(answer: Iterable[Decision]) -> list[Decision]:
    """The decisions of a policy.

    Raises:
        TypeError: there is something else among them.
    """
    decisions = list(answer)
    for decision in decisions:
        if not isinstance(decision, Decision):
            raise TypeError(f"a policy answers with decisions, not with {decision!r:.80}")
    return decisions


def _copied(policy: Policy) -> Policy | None:
    """A policy that nothing has happened to; None where it cannot be copied, and the old one has to do."""
    try:
        return copy.deepcopy(policy)
    except Exception as error:
        log.warning(
            "the policy %s cannot be copied (%s), and is kept when the store fails", type(policy).__name__, error
        )
        return None


log = logging.getLogger("leasehold.effects")


class EffectRunner:
    """Carries out the effects of one actor, on its machines as they are then.

    Args:
        context: of the actor.
        codec: seals messages.
        address_of: where a peer is reached.
        upcalls: asks policies.
        put: takes the requests that come back: decisions, ends of calls.
    """

    outbox: Outbox
    calls: HandlerCalls

    def __init__(
        self, context: ActorContext, codec: EnvelopeCodec, address_of: Callable[[str], str], upcalls: Upcalls,
        put: Callable[[Request], None],
    ) -> None:  # fmt: skip
        self.context, self.table, self.codec, self.upcalls = context, context.table, codec, upcalls
        self._address_of, self._put = address_of, put
        self.rng = random.Random(context.options.seed)

    def open(self, transport: Transport) -> None:
        """Begins with nothing under way."""
        options = self.context.options
        self.outbox = Outbox(transport, self._address_of, self._refused, self._taken, options.backoff, self.rng)
        self.calls = HandlerCalls(self.context.environment.handlers, self._put, options.retry)

    async def close(self) -> None:
        """Sends nothing more, and waits for no handler."""
        await self.outbox.close()
        await self.calls.close()

    def carry_out(self, ready: Ready) -> None:
        """Gives up what was left, and starts what follows."""
        self._give_up(ready)
        self.start(ready.effects)

    def _give_up(self, ready: Ready) -> None:
        """Machines that have moved on send and call no more than their state asks for."""
        outbox, calls = self.outbox, self.calls
        for key in ready.dropped:
            outbox.forget(key)
        for key, left in ready.moved.items():
            outbox.refusals.pop(key, None)
            instance = self.table.instances.get(key)
            if instance is None or not (calls.under_way() or (left and outbox)):
                continue
            work = instance.core.work[instance.state](instance.record)
            calls.keep(key, frozenset(piece.task for piece in work))
            if left:
                outbox.keep(key, frozenset(piece.neighbour for piece in work if isinstance(piece, SendWork)))

    def start(self, effects: Iterable[Effect]) -> None:
        """Sends and starts, in order; the mistakes of one effect harm no other.

        Messages are signed together, and go out when all else has begun, or something ends the actor.
        """
        outgoing: list[Outgoing] = []
        try:
            for effect in effects:
                with self._harmless():
                    self._start(effect, outgoing)
        finally:
            with self._harmless():
                self._send(outgoing)

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self.context.counts["errors"] += 1
            log.exception("%s: what follows a commit has failed", self.codec.identity.name)

    def _start(self, effect: Effect, outgoing: list[Outgoing]) -> None:
        match effect:
            case SendMessage():
                if (message := self._outgoing(effect)) is not None:
                    outgoing.append(message)
            case SendNext():
                if (message := self._next(effect)) is not None:
                    outgoing.append(message)
            case StartCall():
                self._call(effect)
            case TellPolicy(key):
                self._decided(self.upcalls.changed(self.table.view(*key), self.context.clock.now()))
            case TickPolicies(now):
                self._decided(self.upcalls.tick(now))

    def _outgoing(self, effect: SendMessage) -> Outgoing | None:
        """A message, as subscribers leave it; None where none is to be sent."""
        send, number, neighbour = effect.send, effect.number, effect.send.neighbour
        instance = self.table.instances.get(effect.key)
        if instance is None or instance.record[instance.core.sent_at][neighbour] != number:
            return None  # a later transition of the turn has sent another
        return self._told(Outgoing(instance, send, effect.fields, number))

    def _next(self, effect: SendNext) -> Outgoing | None:
        """The oldest message of a session, as subscribers leave it; None where it is under way, or there is none."""
        key, at = effect
        instance = self.table.instances.get(key)
        waiting = queued(instance, at) if instance is not None else []
        if instance is None or not waiting or any(p.neighbour == at for p in self.outbox.of(key)):
            return None
        oldest, program = waiting[0], self.codec.program
        send = SendWork("", oldest.message, at, lambda record: (), program.messages[oldest.message].answer)
        return self._told(Outgoing(instance, send, oldest.values(program), oldest.number))

    def _told(self, message: Outgoing) -> Outgoing | None:
        """A message as subscribers leave it; None where none is to be sent."""
        instance, send, fields, number = message
        if self.context.notices.subscribers:
            names = tuple(name for name, _ in self.codec.program.messages[send.message].fields)
            peer, machine = instance.peers[send.neighbour], self.codec.machine_at(instance, send.neighbour)
            data = {"to": peer, "peer": machine, "number": number}
            shown = dict(zip(names, fields, strict=True))
            told = self.context.tell(Kind.SEND, instance.key, send.message, **data, fields=shown)
            if told is None:
                return None
            fields = tuple(told.data["fields"][name] for name in names)
        return Outgoing(instance, send, fields, number)

    def _send(self, outgoing: Sequence[Outgoing]) -> None:
        try:
            frames = self.codec.seal(outgoing)
        except Exception:
            if len(outgoing) == 1:
                raise
            for message in outgoing:  # one of them is to blame
                with self._harmless():
                    self._send((message,))
            return
        for (instance, send, _, number), frame in zip(outgoing, frames, strict=True):
            if isinstance(frame, Refusal):
                log.error("%s %s: %s", instance.key.lease, send.message, frame)
                continue
            last = send.answer or instance.core.over(instance.state)
            peer = instance.peers[send.neighbour]
            ordered = self.codec.program.messages[send.message].ordered
            self.outbox.post(
                PendingSend(instance.key, send.neighbour, number, send.message, peer, frame, last, ordered)
            )

    def _call(self, effect: StartCall) -> None:
        instance, call = self.table.instances.get(effect.key), effect.call
        if instance is None or instance.state_epoch != effect.epoch:
            return  # the state was left
        asks_policy = call.target.startswith("policy.")
        if asks_policy and instance.core.role not in self.context.environment.policies:
            return
        if self.context.tell(Kind.CALL, instance.key, call.target) is None:
            return
        if asks_policy:
            self._decided(self.upcalls.begin(instance, call, self.context.clock.now()))
        else:
            self.calls.begin(instance, call, self.upcalls.action(instance, call, self.codec.epoch))

    # What comes back

    def _taken(self, pending: PendingSend) -> None:
        """A message of a session was taken: the next one's turn comes."""
        self._put(Acknowledge(pending.key, pending.neighbour, pending.number))

    def _decided(self, decisions: Iterable[Decision]) -> None:
        """A policy's decisions, as requests that the core judges."""
        for decision in decisions:
            self._put(Decide(decision))

    def _refused(self, pending: PendingSend, reason: str) -> None:
        log.warning("%s %s: %s was refused: %s", pending.key.lease, pending.key.machine, pending.message, reason)
        self.context.counts["refused by peers"] += 1
