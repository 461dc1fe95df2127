"""The messages that an actor's machines consume: whether one may be consumed, and what it tells of its sender."""

from __future__ import annotations

from msgspec.structs import replace

from leasehold.impl.actor.envelopes import EnvelopeCodec
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.instance import role_of
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.ready import Ready
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.core.work import Outcome
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.refusal import Forged, OtherSpecification, Refusal, Unknown
from leasehold.impl.identity.trust import Trust
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import Key
from leasehold.impl.transport.transport import Answer

EPOCH = "epoch of "  # metadata: the newest incarnation of a peer that was heard
ADDRESS = "address of "  # metadata: where a peer says that it can be reached


class MessageHandler:
    """Consumes messages for the machines of one actor.

    Args:
        stepper: steps the machines.
        codec: reads the fields of envelopes, and knows whom the actor trusts.
    """

    def __init__(self, stepper: Stepper, codec: EnvelopeCodec) -> None:
        self.stepper, self.codec = stepper, codec
        self.table, self.notices = stepper.table, stepper.notices

    def deliver(self, ready: Ready, envelope: Envelope) -> Outcome:
        """A machine consumes a message; one that begins a lease makes its machine first.

        Raises:
            Refusal: it is refused, and has changed nothing.
            ActorError: a subscriber has consumed it.
        """
        table, codec = self.table, self.codec
        self._check_epoch(envelope)
        name, roles = envelope.receiving_machine, codec.program.roles
        named = (name, 0) if name in roles else role_of(name)
        core = roles.get(named[0]) if named else None
        if named is None or core is None or core.role not in table.roles or core.subsidiary:
            raise Refusal(f"this actor has no machine {envelope.receiving_machine[:60]}")
        key = Key(envelope.lease, envelope.receiving_machine)
        instance = table.instances.get(key)
        fresh = instance is None
        if instance is None:
            if key.lease in table.pruned:
                raise Refusal(f"the lease {key.lease[:80]} is over and forgotten")
            check_origin(envelope, codec.identity.trust)
            instance = table.new(key, named[1])
        event = codec.event(envelope, core, named[1])
        peer = instance.peers[event[2]]
        if peer and peer != envelope.sender:
            raise Refusal(f"{envelope.sending_machine} of {key.lease[:80]} is not played by {envelope.sender}")
        kept = codec.credentials.accept(envelope, instance.metadata) if codec.credentials is not None else {}
        if self.notices.subscribers:
            altered = self._told(ready, envelope)
            if altered is not envelope:
                event = codec.event(altered, core, named[1])
        self._note(ready, envelope)
        instance.peers[event[2]] = envelope.sender
        if fresh:
            table.instances[key] = instance
        outcome = self.stepper.step(ready, instance, event)
        kind = outcome.kind
        if kind == "taken":
            instance.metadata.update(kept)
        elif kind == "duplicate" and (missed := {n: v for n, v in kept.items() if n not in instance.metadata}):
            instance.metadata.update(missed)  # it was not known yet when this was heard first
            ready.change(instance)
        if fresh and kind != "taken":
            del table.instances[key]  # nothing has begun
            ready.undo(key)
        if kind == "refused":
            raise Refusal(f"{core.role} refuses {envelope.message}: {outcome.reason}")
        return outcome

    def _told(self, ready: Ready, envelope: Envelope) -> Envelope:
        """The envelope, as subscribers leave it."""
        said = {"sender": envelope.sender, "peer": envelope.sending_machine, "number": envelope.number}
        notice = Notice(
            Kind.RECEIVE, self.stepper.name, envelope.lease, envelope.receiving_machine, envelope.message,
            ready.now, {**said, "fields": envelope.fields},
        )  # fmt: skip
        told = self.notices.tell(notice)
        if told is None:
            raise ActorError("the message was consumed on its way")
        fields = told.data["fields"]
        return envelope if fields is envelope.fields else replace(envelope, fields=dict(fields))

    def _check_epoch(self, envelope: Envelope) -> None:
        """A message of an incarnation that is over changes nothing."""
        newest = int(self.table.metadata.get(EPOCH + envelope.sender, b"0"))
        if envelope.epoch < newest:
            raise Refusal(f"{envelope.sender} has a newer incarnation ({newest}, not {envelope.epoch})")

    def _note(self, ready: Ready, envelope: Envelope) -> None:
        """Keeps what a message tells of its sender: its incarnation, and where it is."""
        metadata, fresh = self.table.metadata, {}
        epoch, address = EPOCH + envelope.sender, ADDRESS + envelope.sender
        if envelope.epoch > int(metadata.get(epoch, b"0")):
            fresh[epoch] = str(envelope.epoch).encode()
        if envelope.reply_to and metadata.get(address) != envelope.reply_to.encode():
            fresh[address] = envelope.reply_to.encode()
        if fresh:
            metadata.update(fresh)
            ready.metadata.update(fresh)

    def address_of(self, peer: str) -> str:
        """Where a peer is reached: as the trust set says, or else as it has said itself; empty where nobody has."""
        actor = self.codec.identity.trust.actors.get(peer)
        heard = self.table.metadata.get(ADDRESS + peer)
        return (actor.address if actor is not None and actor.address else "") or (heard.decode() if heard else "")


def check_origin(envelope: Envelope, trust: Trust) -> None:
    """Nobody begins a lease in another's name.

    Raises:
        Refusal: somebody does.
    """
    named = origin_of(envelope.lease)
    if named is None:
        raise Refusal(f"a lease is named ORIGIN:NUMBER, not {envelope.lease[:60]!r}")
    origin = trust.sender(named[0])
    if origin.name != envelope.sender and origin.kind == trust.sender(envelope.sender).kind:
        raise Refusal(f"{envelope.lease[:80]} is not a lease of {envelope.sender}")


def answer_to(refusal: Refusal) -> Answer:
    """What the sender hears: to stop, or, where an operator may cure it, to say it again later."""
    if isinstance(refusal, OtherSpecification):
        return Answer.BUSY
    return Answer.UNTRUSTED if isinstance(refusal, Unknown | Forged) else Answer.REFUSED
