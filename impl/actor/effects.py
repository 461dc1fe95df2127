"""Effects: the messages, calls and upcalls that follow a commit. A policy's decisions come back as requests."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.environment import ActorContext
from leasehold.impl.actor.messages import EnvelopeCodec, Outgoing
from leasehold.impl.actor.outbox import Outbox, PendingSend
from leasehold.impl.actor.ready import (
    Acknowledge,
    AskAgain,
    DropMessage,
    Effect,
    Ready,
    Request,
    SendMessage,
    SendNext,
    StartCall,
    TellPolicy,
    TellRefused,
    TickPolicies,
)
from leasehold.impl.actor.session import queued
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.core.work import SendWork, sends_to
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.notices import Kind
from leasehold.impl.transport.transport import Transport

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
        self,
        context: ActorContext,
        codec: EnvelopeCodec,
        address_of: Callable[[str], str],
        upcalls: Upcalls,
        put: Callable[[Request], None],
    ) -> None:
        self.context, self.table, self.codec, self.upcalls = context, context.table, codec, upcalls
        self._address_of, self._put = address_of, put
        self.rng = random.Random(context.options.seed)

    def open(self, transport: Transport) -> None:
        """Begins with nothing under way."""
        options = self.context.options
        self.outbox = Outbox(
            transport, self._address_of, self._refused, self._taken, options.backoff, self.rng, self.codec.identity.name
        )
        self.calls = HandlerCalls(self.context.environment.handler, self._put, options.retry, self.context.counts)

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
            calls.forget(key)
        for key, left in ready.moved.items():
            outbox.refusals.pop(key, None)
            instance = self.table.instances.get(key)
            if instance is None or not (calls.under_way() or (left and outbox)):
                continue
            work = instance.core.work[instance.state](instance.record)
            calls.keep(key, frozenset(piece.task for piece in work))
            if left:
                outbox.keep(key, sends_to(work))

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
            case DropMessage(key, neighbour):
                self.outbox.drop(key, neighbour)
            case AskAgain(question):
                self.upcalls.begin_again(question)
            case StartCall():
                self._call(effect)
            case TellPolicy(key):
                self.upcalls.changed(key)
            case TellRefused():
                self.upcalls.refused(effect)
            case TickPolicies(now):
                self.upcalls.tick(now)

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
            notice = self.context.tell(Kind.SEND, instance.key, send.message, **data, fields=shown)
            if notice is None:
                return None
            fields = tuple(notice.data["fields"][name] for name in names)
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
        for (instance, send, _, number), sealed in zip(outgoing, frames, strict=True):
            if isinstance(sealed, Refusal):
                log.error("%s %s: %s", instance.key.lease, send.message, sealed)
                continue
            core, state = instance.core, instance.state  # which it may have come to later in the turn
            last = send.answer or core.over(state) or send.neighbour not in sends_to(core.work[state](instance.record))
            peer = instance.peers[send.neighbour]
            ordered = self.codec.program.messages[send.message].ordered
            frame, pages = sealed
            self.outbox.post(
                PendingSend(instance.key, send.neighbour, number, send.message, peer, frame, last, ordered, pages)
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
            self.upcalls.begin(effect)
        else:
            self.calls.begin(instance, call, self.upcalls.action(instance, call, self.codec.epoch), effect.anew)

    # What comes back

    def _taken(self, pending: PendingSend) -> None:
        """A message of a session was taken: the next one's turn comes."""
        self._put(Acknowledge(pending.key, pending.neighbour, pending.number))

    def _refused(self, pending: PendingSend, reason: str) -> None:
        log.warning("%s %s: %s was refused: %s", pending.key.lease, pending.key.machine, pending.message, reason)
        self.context.counts["refused by peers"] += 1
