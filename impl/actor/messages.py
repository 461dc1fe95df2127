"""Messages of machines as signed envelopes, and back; and whether a machine may consume one.

Theory of operation. An envelope says which machine speaks to which. It is believed when its signature is right
(impl/identity), when its sender may speak for that role, and when it is the actor that the record knows as that
neighbour. What third parties have signed travels with it as a credential, which the environment issues and judges.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from leasehold.impl.actor.environment import ActorError, CredentialRequest, Credentials
from leasehold.impl.actor.kept_values import KeptPages, lacks
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.ready import Deliver, Ready
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MEMBERSHIP, MachineInstance
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.values import ValueFault, named_fields, to_plain
from leasehold.impl.core.work import Event, Outcome, SendWork
from leasehold.impl.identity import membership, pages, signed
from leasehold.impl.identity.envelope import FINGERPRINT, Envelope, body_of, frame_of, open_frame
from leasehold.impl.identity.keys import Purpose
from leasehold.impl.identity.pages import Lacking
from leasehold.impl.identity.signed import (
    Early,
    Forged,
    Malformed,
    Misdirected,
    OlderStore,
    OtherSpecification,
    Refusal,
    Unauthorised,
    UnknownMember,
    UnknownSender,
)
from leasehold.impl.identity.trust import Identity, Trust
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.transport import Delivery, Reply


class Outgoing(NamedTuple):
    """A message that a machine sends to a neighbour."""

    instance: MachineInstance
    send: SendWork
    fields: tuple[Any, ...]
    number: int


class SealedMessage(NamedTuple):
    """A message as a frame, and the pages of its large values by digest."""

    frame: bytes
    pages: Mapping[bytes, bytes]


class EnvelopeCodec:
    """Writes and reads the envelopes of one actor.

    Args:
        program: the compiled system.
        identity: whose they are.
        credentials: issues what messages take along; None where no message of the system carries another.
        tick_seconds: of the actor's clock; 0: it is moved by hand.

    Attributes:
        address: where this actor is reached.
        epoch: its incarnation.
        store: what its store is known by.
        began, commits: how many commits that had when the incarnation began, and has now.
        kept: the pages of large values that others have said.
    """

    def __init__(
        self, program: Program, identity: Identity, credentials: Credentials | None, tick_seconds: float = 0
    ) -> None:
        if credentials is None and any(shape.carries for shape in program.messages.values()):
            raise ValueError(f"messages of {program.system} carry others: the actor needs `credentials` to judge them")
        self.program, self.identity, self.credentials = program, identity, credentials
        self.agreement = program.agreement + (f".{tick_seconds:g}" if tick_seconds else "")
        self.kept = KeptPages()
        self.address = self.store = ""
        self.epoch = self.began = self.commits = 0

    def resume(self, kept: bytes | None, chance: Random) -> None:
        """Messages say which store the actor has, and how far that is; a new one gets a name by chance."""
        if kept is None:
            self.store, self.commits = f"s{chance.getrandbits(64):016x}", 0
        else:
            self.store, _, commits = kept.decode().partition(" ")
            self.commits = int(commits)
        self.began = self.commits

    def seal(self, messages: Sequence[Outgoing]) -> list[SealedMessage | Refusal]:
        """Messages of machines as frames, which stand for themselves; those for one actor share a signature.

        Returns:
            For each its frame and pages, or why it cannot be written: a mistake of ours.
        """
        plain = [self._plain(message) for message in messages]
        credentials = self.credentials.issue(plain) if self.credentials is not None else [None] * len(plain)
        sealed: list[SealedMessage | Refusal] = []
        for_actor: dict[str, list[int]] = {}  # which messages
        for n, (message, request, credential) in enumerate(zip(messages, plain, credentials, strict=True)):
            try:
                sealed.append(self._body(message, request, credential))
            except Refusal as refusal:
                sealed.append(refusal)
            else:
                for_actor.setdefault(request.receiver, []).append(n)
        key = self.identity.key
        for numbers in for_actor.values():
            written = [one for n in numbers if isinstance(one := sealed[n], SealedMessage)]
            signatures = key.sign_all(Purpose.ENVELOPE, [one.frame for one in written])
            for n, signature, (body, own) in zip(numbers, signatures, written, strict=True):
                try:
                    sealed[n] = SealedMessage(frame_of(key, signature, body), own)
                except Refusal as refusal:
                    sealed[n] = refusal
        return sealed

    def _plain(self, message: Outgoing) -> CredentialRequest:
        instance, send = message.instance, message.send
        kinds = self.program.messages[send.message].fields
        fields = {name: to_plain(kind, value) for (name, kind), value in zip(kinds, message.fields, strict=True)}
        return CredentialRequest(
            instance.metadata, send.message, instance.peers[send.neighbour], instance.key.lease, message.number, fields
        )

    def _body(self, message: Outgoing, request: CredentialRequest, credential: str | Refusal | None) -> SealedMessage:
        """Returns what is to be signed, in place of a frame."""
        if isinstance(credential, Refusal):
            raise credential
        instance = message.instance
        fields, values, own = self._cut(request.fields)
        envelope = Envelope(
            version=1,
            system=self.program.system,
            digest=self.agreement,
            sender=self.identity.name,
            receiver=request.receiver,
            lease=request.lease,
            sending_machine=instance.key.machine,
            receiving_machine=self.machine_at(instance, message.send.neighbour),
            message=request.message,
            number=request.number,
            epoch=self.epoch,
            fields=fields,
            values=values or None,
            credential=credential,
            reply_to=self.address or None,
            store=self.store,
            began=self.began,
            commits=self.commits,
            membership=self._membership(instance, message.send.neighbour),
        )
        return SealedMessage(body_of(envelope), own)

    def _cut(self, fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str], dict[bytes, bytes]]:
        """The fields of a message that are written into it, the digests of the others, and their pages.

        Raises:
            Malformed, TooLarge: no receiver would accept them; this is a mistake of ours.
        """
        small, values = dict(fields), dict[str, str]()
        own: dict[bytes, bytes] = {}
        for name, value in fields.items():
            if pages.is_large(value):
                signed.data("values", {name: value})
                first, more = pages.cut(self.identity.name, value)
                values[name] = pages.names_of((first,))
                own |= more
                del small[name]
        return small, values, own

    def machine_at(self, instance: MachineInstance, neighbour: int) -> str:
        """The name of a machine's neighbour."""
        return self.program.neighbour(instance.core, instance.number, neighbour)

    def machine(self, name: str) -> tuple[Core, int] | None:
        """Role and number of the machine of a name; None: there is none."""
        try:
            return self.program.machines[name]
        except KeyError:
            return None

    @staticmethod
    def _membership(instance: MachineInstance, neighbour: int) -> str | None:
        """The membership of the run, for a neighbour that has said nothing yet and may not know it."""
        core, record = instance.core, instance.record
        heard = any(record[core.received_at][at] for at in core.beside(record, neighbour))
        return None if heard else instance.metadata.get(MEMBERSHIP)

    def open(self, frame: bytes) -> Deliver | Reply:
        """The message of a frame whose sender may speak for the machine that it names.

        A frame that is a part of a value, or the message of one that is not here, has an answer at once.

        Raises:
            Refusal: it is refused, and why.
        """
        if frame.startswith(pages.START):
            return self.kept.take(frame)
        envelope = open_frame(frame, self.identity.trust, self.identity.name)
        try:
            if envelope.system != self.program.system:
                raise Unauthorised(f"this actor serves the system {self.program.system}, not {envelope.system[:60]}")
            if envelope.digest != self.agreement:
                raise OtherSpecification(self._disagreement(envelope))
            self.identity.trust.speaker(envelope.sender, envelope.sending_machine)
            if envelope.values is not None:
                envelope = replace(envelope, fields=self.kept.whole(envelope), values=None)
        except Lacking as lacking:
            return lacks(lacking, envelope.sender)
        except Refusal as refusal:
            refusal.proven = envelope.sender
            raise
        return Deliver(envelope, frame[FINGERPRINT].decode())

    def _disagreement(self, envelope: Envelope) -> str:
        theirs = envelope.digest.partition(".")[0]
        if envelope.digest.startswith(f"{self.program.agreement}."):
            return f"{envelope.sender} has ticks of another length than this actor; set `tick_seconds` alike"
        if theirs == self.program.digest:
            return (
                f"{envelope.sender} has other constants of {self.program.system} {theirs[:12]} than this actor; "
                "set them alike, and run `leasehold migrate` where they have changed"
            )
        return (
            f"this actor serves the specification {self.program.digest[:12]}, and {envelope.sender} {theirs[:12]}; "
            "upgrade the older one, with `leasehold migrate` for its records"
        )

    def event(self, envelope: Envelope, core: Core, instance: int) -> Event:
        """The event that a machine of a role, of this number, consumes.

        Raises:
            Refusal: the message is none of the specification, or not from this neighbour, or not of this shape.
        """
        shape = self.program.messages.get(envelope.message)
        speaker = self.machine(envelope.sending_machine)
        if shape is None or speaker is None or (shape.sender, shape.receiver) != (speaker[0].role, core.role):
            raise Malformed(f"{envelope.sending_machine} sends no {envelope.message[:60]} to {core.role}")
        at = core.position(speaker[0].role, speaker[1], instance, shape.channel)
        if at is None:
            raise Malformed(f"{envelope.sending_machine} is no neighbour of {core.machine(instance)}")
        try:
            fields = named_fields(shape.fields, envelope.fields)
        except ValueFault as fault:
            raise Malformed(f"{envelope.message}: {fault}") from None
        return envelope.message, fields, at, envelope.number, -1


EPOCH = "epoch of "  # metadata: the newest incarnation of a peer that was heard, as `Heard` writes it
ADDRESS = "address of "  # metadata: where a peer says that it can be reached


class Heard(NamedTuple):
    """The newest that was heard of a peer's store, by which an older copy of it is known.

    Attributes:
        epoch: its incarnation.
        store: what it is known by; empty: not known.
        began: how many commits it had when the incarnation began.
        commits: how many it had at least since.
        fingerprint: of the key that signed this.
    """

    epoch: int = 0
    store: str = ""
    began: int = 0
    commits: int = 0
    fingerprint: str = ""

    def __bytes__(self) -> bytes:
        return " ".join(map(str, self)).encode()

    @classmethod
    def of(cls, kept: bytes | None) -> Heard:
        """Reads what `bytes` wrote, or the epoch alone, which was kept before there was more."""
        epoch, *more = (kept or b"0").decode().split(" ")
        if not more:
            return cls(int(epoch))
        store, began, commits, fingerprint = more
        return cls(int(epoch), store, int(began), int(commits), fingerprint)

    def check(self, envelope: Envelope) -> None:
        """Checks whether a message is of this incarnation, or of one after it of the same store.

        Raises:
            Refusal: it is of an incarnation before.
            OlderStore: it is of another store, or of a copy that has not all the commits that were heard of.
        """
        sender, began = envelope.sender, envelope.began
        if self.store and envelope.store != self.store:
            reason = f"{sender} has another store than before"
        elif envelope.epoch < self.epoch:
            raise Refusal(f"{sender} has a newer incarnation ({self.epoch}, not {envelope.epoch})")
        elif self.store and (began != self.began if envelope.epoch == self.epoch else began < self.commits):
            reason = f"{sender} has an older copy of its store: it began with {began} commits, and had {self.commits}"
        else:
            return
        raise OlderStore(
            f"{reason}; put the newest copy back, or, where it is lost and its leases are over, give the actor "
            "a new key and revoke this one"
        )


class MessageHandler:
    """Consumes messages for the machines of one actor.

    Args:
        stepper: steps the machines.
        codec: reads the fields of envelopes, and knows whom the actor trusts.
    """

    def __init__(self, stepper: Stepper, codec: EnvelopeCodec) -> None:
        self.stepper, self.codec = stepper, codec
        self.table, self.notices = stepper.table, stepper.notices

    def deliver(self, ready: Ready, message: Deliver) -> Outcome:
        """A machine consumes a message; one that begins a lease makes its machine first.

        Raises:
            Refusal: it is refused, and has changed nothing.
            ActorError: a subscriber has consumed it.
        """
        table, codec, envelope = self.table, self.codec, message.envelope
        heard = self._heard(envelope)
        named = codec.machine(envelope.receiving_machine)
        if named is None or named[0].role not in table.roles or named[0].subsidiary:
            raise Refusal(f"this actor has no machine {envelope.receiving_machine[:60]}")
        core, number = named
        event = codec.event(envelope, core, number)
        key = RecordKey(envelope.lease, envelope.receiving_machine)
        instance = table.instances.get(key)
        fresh = instance is None
        if instance is None:
            if codec.program.standing:
                named_here = self.stepper.environment.peers.get(key.machine) in (None, codec.identity.name)
                unknown = named_here and core.indexed and key.lease == codec.program.only_run
                reason = f"this actor does not play {key.machine} of {key.lease[:80]}"
                raise UnknownMember(reason) if unknown else Refusal(reason)
            if key.lease in table.pruned:
                raise Refusal(f"the lease {key.lease[:80]} is over and forgotten")
            members = self._members(envelope)
            instance = table.new(key, core, number)
            if len(core.neighbours) > 1:  # else its neighbour is the sender
                self._introduce(instance, members)
        peer = instance.peers[event[2]]
        if codec.program.standing and not peer:
            peer = self.stepper.environment.peers.get(envelope.sending_machine, "")
            if not peer and "[" in envelope.sending_machine:
                raise UnknownMember(f"nobody is known yet to play {envelope.sending_machine} of {key.lease[:80]}")
        if peer and peer != envelope.sender:
            raise Refusal(f"{envelope.sending_machine} of {key.lease[:80]} is not played by {envelope.sender}")
        credentials = codec.credentials
        kept = credentials.accept(envelope, instance.metadata, ready.now) if credentials is not None else {}
        if fresh and envelope.membership is not None:
            kept[MEMBERSHIP] = envelope.membership
        if self.notices.subscribers:
            altered = self._told(ready, envelope)
            if altered is not envelope:
                event = codec.event(altered, core, number)
        told = self._players(instance, kept)
        untold = {at: instance.peers[at] for at in told}
        instance.learn(event[2], envelope.sender)
        if fresh:
            table.instances[key] = instance
        for at, player in told.items():
            instance.peers[at] = player
        before = instance.record
        outcome = self.stepper.step(ready, instance, event)
        kind, after = outcome.kind, instance.record
        if kind != "refused":
            self._note(ready, message, heard, kind)
        elif not peer:  # it has not become this neighbour by being refused, nor does its number count
            instance.learn(event[2], peer)
            instance.record = before
            ready.retract(after)
        if kind == "taken":
            instance.metadata.update(kept)
        else:
            for at, player in untold.items():
                instance.peers[at] = player
        if kind == "duplicate" and credentials is not None:
            missed = {n: kept[n] for n in credentials.completes if n in kept and n not in instance.metadata}
            if missed:
                instance.metadata.update(missed)  # it was not known yet when this was heard first
                ready.change(instance)
        if not peer and kind != "refused" and table.unaddressed.get(key, set()) & {*core.beside(before, event[2])}:
            self.stepper.send_owed(ready)
        if fresh and kind != "taken":
            del table.instances[key]  # nothing has begun
            ready.undo(key)
            ready.retract(after)
        if kind == "refused" and not codec.program.messages[envelope.message].ordered:  # else it is consumed
            raise Refusal(f"{core.role} refuses {envelope.message}: {outcome.reason}")
        return outcome

    def _players(self, instance: MachineInstance, kept: Mapping[str, Any]) -> dict[int, str]:
        """Returns who plays which neighbours, by position, as the credential of a message says.

        Raises:
            Refusal: it names another than the one that the machine has spoken with.
        """
        credentials, program, record = self.codec.credentials, self.codec.program, instance.record
        players = credentials.players(kept) if credentials is not None else {}
        named: dict[int, str] = {}
        for at, name in enumerate(program.neighbours(instance.core, instance.number) if players else ()):
            player = players.get(name, instance.peers[at])
            if player == instance.peers[at]:
                continue
            if record[instance.core.sent_at][at] or record[instance.core.received_at][at]:
                whose = f"{name} of {instance.key.lease[:80]} is {instance.peers[at]}"
                raise Unauthorised(f"{whose}, and cannot become {player[:80]}; another lease may have it there")
            named[at] = player
        return named

    def _introduce(self, instance: MachineInstance, members: Mapping[str, str]) -> None:
        """A machine learns which actors play its neighbours: from its run's membership, or else from the settings."""
        for at in range(len(instance.core.neighbours)):
            name, known = self.codec.program.neighbour(instance.core, instance.number, at), instance.peers[at]
            instance.peers[at] = known or members.get(name) or self.stepper.environment.peers.get(name, "")

    def _members(self, envelope: Envelope) -> Mapping[str, str]:
        """Returns who plays the machines of a run that a message begins; the sender alone, where nothing says more.

        Raises:
            Refusal: the run's origin does not vouch for it, or for the sender or this actor in it.
        """
        identity, text = self.codec.identity, envelope.membership
        if text is not None and not self.codec.program.has_membership:
            raise Malformed(f"runs of {envelope.system} have no membership")
        program = self.codec.program
        origin = check_origin(envelope, identity.trust, program.begun_by, relayed=text is not None)
        role = envelope.sending_machine.partition("[")[0]
        if origin != envelope.sender and role not in program.relayed_by:
            raise Unauthorised(f"{role} brings no machine into runs of others")
        if text is None:
            return {envelope.sending_machine: envelope.sender}
        members = membership.read(text, identity.trust, envelope.lease, origin)
        for machine, actor in (
            (envelope.sending_machine, envelope.sender),
            (envelope.receiving_machine, identity.name),
        ):
            if members.get(machine) != actor:
                raise Unauthorised(f"{actor} does not play {machine} in {envelope.lease[:80]}")
        return members

    def _told(self, ready: Ready, envelope: Envelope) -> Envelope:
        """The envelope, as subscribers leave it."""
        header = {"sender": envelope.sender, "peer": envelope.sending_machine, "number": envelope.number}
        notice = Notice(
            Kind.RECEIVE,
            self.stepper.name,
            envelope.lease,
            envelope.receiving_machine,
            envelope.message,
            ready.now,
            {**header, "fields": envelope.fields},
        )
        result = self.notices.tell(notice)
        if result is None:
            raise ActorError("the message was consumed on its way")
        fields = result.data["fields"]
        return envelope if fields is envelope.fields else replace(envelope, fields=dict(fields))

    def _heard(self, envelope: Envelope) -> Heard:
        """The newest that was heard of a sender. What a key said that is revoked since, does not count.

        Raises:
            Refusal, OlderStore: this message is of an incarnation or a store before.
        """
        heard = Heard.of(self.table.metadata.get(EPOCH + envelope.sender))
        try:
            heard.check(envelope)
        except Refusal:
            actor = self.codec.identity.trust.actors.get(envelope.sender)
            key = actor.key(heard.fingerprint) if actor is not None else None
            if not heard.fingerprint or (key is not None and not key.revoked):
                raise
            return Heard()
        return heard

    def _note(self, ready: Ready, message: Deliver, heard: Heard, kind: str) -> None:
        """Keeps what a message tells of its sender: its incarnation, how far its store is, and where it is."""
        envelope, metadata, fresh = message.envelope, self.table.metadata, {}
        epoch, address = EPOCH + envelope.sender, ADDRESS + envelope.sender
        if envelope.epoch > heard.epoch or (kind == "taken" and envelope.commits > heard.commits):
            store, fingerprint = envelope.store, message.fingerprint
            fresh[epoch] = bytes(Heard(envelope.epoch, store, envelope.began, envelope.commits, fingerprint))
        if envelope.reply_to and metadata.get(address) != envelope.reply_to.encode():
            fresh[address] = envelope.reply_to.encode()
        if fresh:
            metadata.update(fresh)
            ready.metadata.update(fresh)

    def address_of(self, peer: str) -> str:
        """The address of a peer: from the trust set, or else from its own messages; empty where neither has one."""
        actor = self.codec.identity.trust.actors.get(peer)
        heard = self.table.metadata.get(ADDRESS + peer)
        return (actor.address if actor is not None and actor.address else "") or (heard.decode() if heard else "")


def check_origin(envelope: Envelope, trust: Trust, begun_by: Collection[str], relayed: bool = False) -> str:
    """Nobody begins a lease (or run) in another's name; returns the origin's name.

    Args:
        envelope: the first message of the lease here.
        trust: whom this actor trusts.
        begun_by: the roles that begin leases.
        relayed: the origin's own word for it comes along, so another member may have sent this.

    Raises:
        Refusal: somebody does.
    """
    named = origin_of(envelope.lease)
    if named is None:
        raise Refusal(f"a lease is named ORIGIN:NUMBER, not {envelope.lease[:60]!r}")
    origin = trust.originator(named[0], begun_by)
    if not relayed and origin.name != envelope.sender:
        raise Refusal(f"{envelope.lease[:80]} is not a lease of {envelope.sender}")
    return origin.name


def answer_to(refusal: Refusal) -> Delivery:
    """The answer to the sender: to stop, or, where time or an operator may cure it, to send it again later."""
    if isinstance(refusal, OtherSpecification | UnknownMember | Early | Misdirected):
        return Delivery.BUSY
    untrusted = isinstance(refusal, UnknownSender | Forged | OlderStore)
    return Delivery.UNTRUSTED if untrusted else Delivery.REFUSED
