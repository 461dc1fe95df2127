"""Effects: what an actor sends and starts after a commit, and what it gives up."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from typing import Any

from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.actor.instance import MachineInstance
from leasehold.impl.actor.messages import EnvelopeCodec
from leasehold.impl.actor.outbox import Outbox, PendingSend
from leasehold.impl.actor.ready import Effect, Ready, SendMessage, StartCall, TellPolicy, TickPolicies
from leasehold.impl.actor.requests import Complete, Decide, Request
from leasehold.impl.actor.table import MachineTable
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.clock import Clock
from leasehold.impl.core.work import SendWork
from leasehold.impl.handlers.handler import Done
from leasehold.impl.identity.refusal import Refusal
from leasehold.impl.notices import Kind, Notice, Notices
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.store import Key
from leasehold.impl.transport.transport import Transport

log = logging.getLogger("leasehold.effects")


class EffectRunner:
    """Carries out the effects of one actor.

    Args:
        table: the actor's machines, as they are when an effect is carried out.
        codec: seals messages.
        address_of: where a peer is reached.
        upcalls: asks policies.
        clock: the time.
        environment, options: of the actor.
        notices: hear of each message and call before it begins.
        counts: `errors`, `refused by peers`.
        put: takes the requests that come back: decisions, ends of calls.
    """

    outbox: Outbox
    calls: HandlerCalls

    def __init__(
        self, table: MachineTable, codec: EnvelopeCodec, address_of: Callable[[str], str], upcalls: Upcalls,
        clock: Clock, environment: Environment, options: ActorOptions, notices: Notices, counts: dict[str, int],
        put: Callable[[Request], None],
    ) -> None:  # fmt: skip
        self.table, self.codec, self.upcalls, self.clock = table, codec, upcalls, clock
        self.environment, self.options, self.notices, self.counts = environment, options, notices, counts
        self._address_of, self._put = address_of, put
        self._rng = random.Random(options.seed)

    def open(self, transport: Transport) -> None:
        """Begins with nothing under way."""
        options = self.options
        self.outbox = Outbox(transport, self._address_of, self._refused, options.backoff, self._rng)
        self.calls = HandlerCalls(self.environment.handlers, self._completed, options.retry)

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
        """Sends and starts, in order; the mistakes of one effect harm no other."""
        for effect in effects:
            try:
                match effect:
                    case SendMessage():
                        self._send(effect)
                    case StartCall():
                        self._call(effect)
                    case TellPolicy(key):
                        self._decided(self.upcalls.changed(self.table.view(*key), self.clock.now()))
                    case TickPolicies(now):
                        self._decided(self.upcalls.tick(now))
            except Exception:
                self._count("errors")
                log.exception("%s: what follows a commit has failed", self.codec.identity.name)

    def _send(self, effect: SendMessage) -> None:
        send, number, neighbour = effect.send, effect.number, effect.send.neighbour
        instance = self.table.instances.get(effect.key)
        if instance is None or instance.record[instance.core.sent_at][neighbour] != number:
            return  # a later transition of the turn has sent another
        peer, fields = instance.peers[neighbour], effect.fields
        if self.notices.subscribers:
            names = tuple(name for name, _ in self.codec.program.messages[send.message].fields)
            machine, shown = self.codec.machine_at(instance, neighbour), dict(zip(names, fields, strict=True))
            told = self._tell(Kind.SEND, instance, send.message, to=peer, peer=machine, number=number, fields=shown)
            if told is None:
                return
            fields = tuple(told.data["fields"][name] for name in names)
        try:
            frame = self.codec.seal(instance, send, fields, number)
        except Refusal as refusal:
            log.error("%s %s: %s", instance.key.lease, send.message, refusal)
            return
        last = send.answer or instance.core.over(instance.state)
        self.outbox.post(PendingSend(instance.key, neighbour, number, send.message, peer, frame, last))

    def _call(self, effect: StartCall) -> None:
        instance, call = self.table.instances.get(effect.key), effect.call
        if instance is None or instance.state_epoch != effect.epoch:
            return  # the state was left
        asks_policy = call.target.startswith("policy.")
        if asks_policy and instance.core.role not in self.environment.policies:
            return
        if self._tell(Kind.CALL, instance, call.target) is None:
            return
        if asks_policy:
            self._decided(self.upcalls.begin(instance, call, self.clock.now()))
        else:
            self.calls.begin(instance, call, self.upcalls.action(instance, call, self.codec.epoch))

    # What comes back

    def _decided(self, decisions: Iterable[Decision]) -> None:
        """What a policy wants, as requests that the core judges."""
        for decision in decisions:
            self._put(Decide(decision))

    def _completed(self, key: Key, event: str, epoch: int, done: Done) -> None:
        self._put(Complete(key, event, epoch, done))

    def _refused(self, pending: PendingSend, reason: str) -> None:
        log.warning("%s %s: %s was refused: %s", pending.key.lease, pending.key.machine, pending.message, reason)
        self._count("refused by peers")

    def _tell(self, kind: Kind, instance: MachineInstance, name: str, **data: Any) -> Notice | None:
        if not self.notices.subscribers:
            return _UNTOLD
        actor = self.codec.identity.name
        return self.notices.tell(Notice(kind, actor, *instance.key, name, self.clock.now(), data))

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


_UNTOLD = Notice(Kind.CALL, "")  # where nobody listens
