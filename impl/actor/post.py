"""Messages of an actor's machines: what they say, and what they hear."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasehold.impl.actor.held import Held, role_of
from leasehold.impl.actor.mail import Mail, Refusal
from leasehold.impl.actor.outbox import Parcel
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.setting import ActorError
from leasehold.impl.actor.turn import Turn
from leasehold.impl.core.work import Record, Send
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import Key
from leasehold.impl.transport.transport import Answer, Reply

if TYPE_CHECKING:
    from leasehold.impl.actor.actor import Actor
    from leasehold.impl.actor.memory import Memory

log = logging.getLogger("leasehold.post")

EPOCH = "epoch of "  # words: the newest incarnation of a peer that was heard
ADDRESS = "address of "  # words: where a peer says that it can be reached


class Post:
    """Says and hears."""

    def __init__(self, actor: Actor, mail: Mail) -> None:
        self.actor, self.mail = actor, mail

    @property
    def memory(self) -> Memory:
        return self.actor.memory

    def say(self, turn: Turn, held: Held, piece: Send, record: Record) -> None:
        """Messages are built of the record as it is now, and sent after the commit."""
        neighbour = piece.neighbour
        if not held.peers[neighbour]:
            return  # nobody was heard of that could be told
        number = record[held.core.sent_at][neighbour]
        fields = piece.fields(record)

        def post() -> None:
            about = self.actor.about(Kind.SEND, held, piece.message, to=held.peers[neighbour], number=number)
            told = self.actor.tell_all(about)
            if told is None or held.record[held.core.sent_at][neighbour] != number:
                return
            try:
                body = self.mail.seal(held, piece, fields, number)
            except Refusal as refusal:
                log.error("%s %s: %s", held.key.lease, piece.message, refusal)
                return
            address = lambda: self._address(held.peers[neighbour])  # noqa: E731
            self.actor.outbox.post(Parcel(held.key, neighbour, number, piece.message, address, body, piece.answer))

        turn.after.append(post)

    def _address(self, peer: str) -> str:
        actor = self.actor.identity.trust.actors.get(peer)
        heard = self.memory.words.get(ADDRESS + peer)
        return (actor.address if actor is not None and actor.address else "") or (heard.decode() if heard else "")

    def was_refused(self, parcel: Parcel, reason: str) -> None:
        log.warning("%s %s: %s was refused: %s", parcel.key.lease, parcel.key.machine, parcel.message, reason)
        self.actor.count("refused by peers")

    async def receive(self, parcel: bytes) -> Reply:
        """A parcel of the transport: refused, or taken when what follows from it is committed."""
        if not self.actor.running:
            return Reply(Answer.UNREACHABLE, "the actor is not taking steps")
        try:
            envelope = self.mail.open(parcel)
            await self.actor.put(lambda turn: self._hear(turn, envelope))
        except Refusal as refusal:
            self.actor.count("refused")
            now, reason = self.actor.clock.now(), {"reason": refusal.reason}
            self.actor.tell_all(Notice(Kind.REFUSED, self.actor.identity.name, now=now, data=reason))
            return Reply(Answer.REFUSED, refusal.reason)
        except ActorError as error:
            return Reply(Answer.UNREACHABLE, str(error))
        return Reply(Answer.TAKEN)

    def _hear(self, turn: Turn, envelope: Envelope) -> None:
        self._check_epoch(turn, envelope)
        named = role_of(envelope.receiving_machine)
        core = self.actor.program.roles.get(named[0]) if named else None
        if named is None or core is None or core.role not in self.actor.roles or core.subsidiary:
            raise Refusal(f"this actor has no machine {envelope.receiving_machine[:60]}")
        key = Key(envelope.lease, envelope.receiving_machine)
        held = self.memory.held.get(key)
        fresh = held is None
        if held is None:
            if key.lease in self.memory.pruned:
                raise Refusal(f"the lease {key.lease[:80]} is over and forgotten")
            self._check_origin(envelope)
            held = self.memory.new(key, named[1])
        event = self.mail.event(envelope, core, named[1])
        peer = held.peers[event[2]]
        if peer and peer != envelope.sender:
            raise Refusal(f"{envelope.sending_machine} of {key.lease[:80]} is not played by {envelope.sender}")
        kept = self.mail.proof(envelope, held.papers)
        told = self.actor.tell_all(self.actor.about(Kind.RECEIVE, held, envelope.message, number=envelope.number))
        if told is None:
            raise ActorError("the message was consumed on its way")
        held.peers[event[2]] = envelope.sender
        if fresh:
            self.memory.held[key] = held
        outcome = self.actor.steps.step(turn, held, event)
        if outcome.taken:
            held.papers.update(kept)
        if fresh and not outcome.taken:
            del self.memory.held[key]  # nothing has begun
            turn.changed.pop(key, None)
        if outcome.kind == "refused":
            raise Refusal(f"{core.role} refuses {envelope.message}: {outcome.reason}")

    def _check_origin(self, envelope: Envelope) -> None:
        """Nobody begins a lease in another's name."""
        named = origin_of(envelope.lease)
        if named is None:
            raise Refusal(f"a lease is named ORIGIN:NUMBER, not {envelope.lease[:60]!r}")
        trust = self.actor.identity.trust
        origin = trust.sender(named[0])
        if origin.name != envelope.sender and origin.kind == trust.sender(envelope.sender).kind:
            raise Refusal(f"{envelope.lease[:80]} is not a lease of {envelope.sender}")

    def _check_epoch(self, turn: Turn, envelope: Envelope) -> None:
        """A message of an incarnation that is over changes nothing."""
        name = EPOCH + envelope.sender
        newest = int(self.memory.words.get(name, b"0"))
        if envelope.epoch < newest:
            raise Refusal(f"{envelope.sender} has a newer incarnation ({newest}, not {envelope.epoch})")
        fresh = {}
        if envelope.epoch > newest:
            fresh[name] = str(envelope.epoch).encode()
        address = ADDRESS + envelope.sender
        if envelope.reply_to and self.memory.words.get(address) != envelope.reply_to.encode():
            fresh[address] = envelope.reply_to.encode()
        if fresh:
            self.memory.words.update(fresh)
            turn.words.update(fresh)

    def _new(self, key: Key, instance: int) -> Held:
        core = self.actor.program.roles[key.machine.partition("[")[0]]
        below = tuple(self.memory.below[sub.role] for sub in core.below)
        return Held(key, core, core.first(instance, below), [""] * len(core.neighbours))
