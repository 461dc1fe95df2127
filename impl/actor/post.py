"""Messages of an actor's machines: what they say, and what they hear."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from leasehold.impl.actor.held import Held, machine_of, role_of
from leasehold.impl.actor.mail import AUTHORITY, Mail, Refusal
from leasehold.impl.actor.outbox import Parcel
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.setting import ActorError
from leasehold.impl.actor.turn import Turn
from leasehold.impl.core.work import Record, Send
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.refusal import Forged, OtherSpecification, Unknown
from leasehold.impl.notices import Crash, Kind, Notice
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
        self.refusals: dict[Key, tuple[str, str]] = {}  # of machines that have not moved since: message and reason

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

        names = tuple(name for name, _ in self.actor.program.messages[piece.message].fields)
        role, index = held.core.neighbours[neighbour]
        machine = machine_of(self.actor.program.roles[role], held.record[1] if index < 0 else index)

        def post() -> None:
            gone = self.memory.held.get(held.key) is not held
            if gone or held.record[held.core.sent_at][neighbour] != number:
                return
            to, shown = held.peers[neighbour], dict(zip(names, fields, strict=True))
            about = self.actor.about(Kind.SEND, held, piece.message, to=to, peer=machine, number=number, fields=shown)
            told = self.actor.tell_all(about)
            if told is None:
                return
            try:
                body = self.mail.seal(held, piece, tuple(told.data["fields"][name] for name in names), number)
            except Refusal as refusal:
                log.error("%s %s: %s", held.key.lease, piece.message, refusal)
                return
            address = lambda: self._address(held.peers[neighbour])  # noqa: E731
            last = piece.answer or held.core.over(held.state)
            self.actor.outbox.post(Parcel(held.key, neighbour, number, piece.message, address, body, last))

        turn.after.append(post)

    def _address(self, peer: str) -> str:
        actor = self.actor.identity.trust.actors.get(peer)
        heard = self.memory.words.get(ADDRESS + peer)
        return (actor.address if actor is not None and actor.address else "") or (heard.decode() if heard else "")

    def was_refused(self, parcel: Parcel, reason: str) -> None:
        log.warning("%s %s: %s was refused: %s", parcel.key.lease, parcel.key.machine, parcel.message, reason)
        self.actor.count("refused by peers")
        if parcel.key in self.memory.held:
            self.refusals[parcel.key] = parcel.message, reason

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
            try:
                self.actor.tell_all(Notice(Kind.REFUSED, self.actor.identity.name, now=now, data=reason))
            except Crash as crash:
                await self.actor.crash(crash)
                raise
            return Reply(_answer(refusal), refusal.reason)
        except ActorError as error:
            return Reply(Answer.UNREACHABLE, str(error))
        return Reply(Answer.TAKEN)

    def _hear(self, turn: Turn, envelope: Envelope) -> None:
        self._check_epoch(envelope)
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
        said = {"sender": envelope.sender, "peer": envelope.sending_machine, "number": envelope.number}
        about = self.actor.about(Kind.RECEIVE, held, envelope.message, **said, fields=envelope.fields)
        told = self.actor.tell_all(about)
        if told is None:
            raise ActorError("the message was consumed on its way")
        if told.data["fields"] is not envelope.fields:  # a subscriber has altered it
            event = self.mail.event(replace(envelope, fields=dict(told.data["fields"])), core, named[1])
        self._note(turn, envelope)
        held.peers[event[2]] = envelope.sender
        if fresh:
            self.memory.held[key] = held
        outcome = self.actor.steps.step(turn, held, event)
        if outcome.taken:
            held.papers.update(kept)
        elif outcome.kind == "duplicate" and AUTHORITY in kept:  # it was not known when this was heard first
            held.papers.update(kept)
            turn.change(held)
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

    def _check_epoch(self, envelope: Envelope) -> None:
        """A message of an incarnation that is over changes nothing."""
        newest = int(self.memory.words.get(EPOCH + envelope.sender, b"0"))
        if envelope.epoch < newest:
            raise Refusal(f"{envelope.sender} has a newer incarnation ({newest}, not {envelope.epoch})")

    def _note(self, turn: Turn, envelope: Envelope) -> None:
        """What a message that is heard tells of its sender: its incarnation, and where it is."""
        name = EPOCH + envelope.sender
        fresh = {}
        if envelope.epoch > int(self.memory.words.get(name, b"0")):
            fresh[name] = str(envelope.epoch).encode()
        address = ADDRESS + envelope.sender
        if envelope.reply_to and self.memory.words.get(address) != envelope.reply_to.encode():
            fresh[address] = envelope.reply_to.encode()
        if fresh:
            self.memory.words.update(fresh)
            turn.words.update(fresh)


def _answer(refusal: Refusal) -> Answer:
    """What the sender hears: to stop, or, where an operator may cure it, to say it again later."""
    if isinstance(refusal, OtherSpecification):
        return Answer.BUSY
    return Answer.UNTRUSTED if isinstance(refusal, Unknown | Forged) else Answer.REFUSED
