"""Every way in which a message can be wrong, what the receiver answers, and the words of its reason.

An attack makes bytes of the genuine message of a scene.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from leasehold.impl.identity.keys import Purpose, base64_of
from leasehold.impl.identity.trust import Trust, TrustedActor, TrustedKey, remove, revoke
from leasehold.impl.lease import ticket as tickets
from leasehold.impl.transport.transport import Delivery
from tests.impl.attacks.scene import ALICE, BROKER, HIS, LEASE, NORTH, OTHER, ROLES, SOUTH, Scene, program

Make: TypeAlias = Callable[[Scene], bytes]
Of: TypeAlias = Callable[[str], bool]
UNTRUSTED, REFUSED, BUSY, TAKEN = Delivery.UNTRUSTED, Delivery.REFUSED, Delivery.BUSY, Delivery.TAKEN
LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to be wrong.

    Attributes:
        about: the part of the message that is wrong.
        words: what is wrong with it.
        answer: what its sender hears; `TAKEN`: it is heard, and changes nothing.
        reason: a part of the reason.
        of: whether it makes sense with a message of a kind.
        make: makes the bytes that come.
    """

    about: str
    words: str
    answer: Delivery
    reason: str
    of: Of
    make: Make

    @property
    def name(self) -> str:
        return f"{self.about}: {self.words}"


ATTACKS: list[Attack] = []


def every(message: str) -> bool:
    return True


def attack(
    about: str, words: str, answer: Delivery, reason: str = "", of: Of = every
) -> Callable[[Make], Make]:  # fmt: skip
    def add(make: Make) -> Make:
        ATTACKS.append(Attack(about, words, answer, reason, of, make))
        return make

    return add


# Kinds of messages


def of_the_tenant(message: str) -> bool:
    return program().messages[message].sender == "service_manager"


def to_the_tenant(message: str) -> bool:
    return not of_the_tenant(message)


def with_fields(message: str) -> bool:
    return bool(program().messages[message].fields)


def presents_a_ticket(message: str) -> bool:
    return bool(program().messages[message].carries)


def brings_a_ticket(message: str) -> bool:
    return message == "update_ticket"


def takes_a_ticket(message: str) -> bool:
    return presents_a_ticket(message) or brings_a_ticket(message)


def takes_no_ticket(message: str) -> bool:
    return not takes_a_ticket(message)


def extends_a_lease(message: str) -> bool:
    return message == "extend_lease"


def redeems_a_ticket(message: str) -> bool:
    return message == "redeem"


def follows_another(message: str) -> bool:
    """Its sender has said something to its receiver before."""
    return message in ("extend_ticket", "shrunk", "relinquish", "extend_lease", "close")


def needs_a_lease(message: str) -> bool:
    """A site or a broker that has no such lease takes or ignores the others: it may have forgotten it."""
    return message not in ("ticket", "close", "relinquish", "shrunk")


def body_of(frame: bytes) -> bytes:
    return frame.partition(b"\n")[2]


def signed_as(s: Scene, body: bytes, purpose: Purpose = Purpose.ENVELOPE) -> bytes:
    """Any body, signed by the sender of the genuine message."""
    key = s.keys[s.envelope.sender]
    signature = base64_of(key.sign(purpose, body))
    return f"leasehold1 {key.public.fingerprint} {signature}\n".encode() + body


def trusting(s: Scene, change: Callable[[Trust], Trust], frame: bytes) -> bytes:
    """The receiver's operator changes its trust set before the frame comes."""
    s.receiver.identity.trust = change(s.receiver.identity.trust)
    return frame


# Keys


@attack("key", "none: the body alone", REFUSED, "does not begin with the line of a signed envelope")
def unsigned(s: Scene) -> bytes:
    return body_of(s.frame)


@attack("key", "one that nobody trusts", UNTRUSTED, "is none of")
def key_of_a_stranger(s: Scene) -> bytes:
    return s.sealed(by="stranger")


@attack("key", "another actor's, who has the same role", UNTRUSTED, "is none of")
def key_of_another(s: Scene) -> bytes:
    return s.sealed(by=OTHER[s.envelope.sender])


@attack("key", "the receiver's", UNTRUSTED, "is none of")
def key_of_the_receiver(s: Scene) -> bytes:
    return s.sealed(by=s.envelope.receiver)


@attack("key", "the right name of the key, and a stranger's signature", UNTRUSTED, "the signature is not that of")
def named_key_of_the_sender(s: Scene) -> bytes:
    line, _, body = s.sealed(by="stranger").partition(b"\n")
    form, _, signature = line.split(b" ")
    return b" ".join([form, s.frame.split(b" ")[1], signature]) + b"\n" + body


def together(s: Scene, change: Callable[[bytes], bytes] = lambda signature: signature, number: int = 0) -> bytes:
    """The genuine message, signed together with another; the receiver has verified their common signature before."""
    key = s.keys[s.envelope.sender]
    bodies = [body_of(s.frame), b"another message of the same turn"]
    signatures = key.sign_all(Purpose.ENVELOPE, bodies)
    trusted = s.receiver.identity.trust.actors[s.envelope.sender]
    trusted.check_signature(Purpose.ENVELOPE, key.public.fingerprint, bodies[0], signatures[0], time.time())
    signature = base64_of(change(signatures[number]))
    return f"leasehold1 {key.public.fingerprint} {signature}\n".encode() + bodies[0]


@attack("key", "shared: the proof of another message of the same turn", UNTRUSTED, "the signature is not that of")
def proof_of_another(s: Scene) -> bytes:
    return together(s, number=1)


@attack("key", "shared: the signature without its proof", UNTRUSTED, "the signature is not that of")
def without_proof(s: Scene) -> bytes:
    return together(s, lambda signature: signature[:64])


@attack("key", "shared: a proof of which one bit is another", UNTRUSTED, "the signature is not that of")
def altered_proof(s: Scene) -> bytes:
    return together(s, lambda signature: signature[:-1] + bytes((signature[-1] ^ 1,)))


@attack("key", "shared: a proof that leads further", UNTRUSTED, "the signature is not that of")
def longer_proof(s: Scene) -> bytes:
    return together(s, lambda signature: signature + bytes(32))


@attack("key", "shared, and the key is revoked since", UNTRUSTED, "is revoked")
def shared_and_revoked(s: Scene) -> bytes:
    name, frame = s.envelope.sender, together(s)
    return trusting(s, lambda trust: revoke(trust, name, s.keys[name].public.fingerprint), frame)


@attack("key", "revoked", UNTRUSTED, "is revoked")
def revoked(s: Scene) -> bytes:
    name = s.envelope.sender
    return trusting(s, lambda trust: revoke(trust, name, s.keys[name].public.fingerprint), s.frame)


@attack("key", "over since a second", UNTRUSTED, "has expired")
def expired(s: Scene) -> bytes:
    name = s.envelope.sender

    def end(trust: Trust) -> Trust:
        actor = trust.actors[name]
        keys = (TrustedKey(actor.keys[0].key, not_after=int(time.time()) - 1),)
        return Trust({**trust.actors, name: TrustedActor(name, actor.kind, keys, actor.address)})

    return trusting(s, end, s.frame)


@attack("key", "signed for another purpose, as a ticket is", UNTRUSTED, "the signature is not that of")
def signed_as_a_ticket(s: Scene) -> bytes:
    return signed_as(s, body_of(s.frame), Purpose.TICKET)


@attack("key", "a body that was changed after it was signed", UNTRUSTED, "the signature is not that of")
def changed_afterwards(s: Scene) -> bytes:
    head = s.frame.partition(b"\n")[0]
    return head + b"\n" + body_of(s.sealed(number=s.envelope.number + 1))


@attack("key", "a signature that is cut off", REFUSED, "does not begin with the line")
def cut_off(s: Scene) -> bytes:
    head, _, body = s.frame.partition(b"\n")
    return head[:-1] + b"\n" + body


# Senders and receivers


@attack("sender", "one that is trusted no more", UNTRUSTED, "is trusted here")
def removed(s: Scene) -> bytes:
    return trusting(s, lambda trust: remove(trust, s.envelope.sender), s.frame)


@attack("sender", "a stranger under the stranger's own name", UNTRUSTED, "no actor 'stranger' is trusted here")
def stranger(s: Scene) -> bytes:
    return s.sealed(by="stranger", sender="stranger")


@attack("sender", "another actor of the same role, under its own name", REFUSED, "is not a lease of|is not played by")
def another_sender(s: Scene) -> bytes:
    other = OTHER[s.envelope.sender]
    return s.sealed(by=other, sender=other)


@attack("role", "an actor of another role speaks for the sender's machine", REFUSED, "cannot speak for")
def another_role(s: Scene) -> bytes:
    other = next(
        name for name, role in ROLES.items() if role not in (ROLES[s.envelope.sender], ROLES[s.envelope.receiver])
    )
    return s.sealed(by=other, sender=other)


@attack("role", "the receiver's peer speaks for its own role, which sends no such message", REFUSED, "sends no")
def peer_of_another_role(s: Scene) -> bytes:
    other = next(
        name for name, role in ROLES.items() if role not in (ROLES[s.envelope.sender], ROLES[s.envelope.receiver])
    )
    return s.sealed(by=other, sender=other, sending_machine=ROLES[other])


@attack("role", "the sending machine is one of several, and there is one", REFUSED, "is no neighbour|sends no")
def machine_with_a_number(s: Scene) -> bytes:
    return s.sealed(sending_machine=f"{s.envelope.sending_machine}[1]")


@attack("receiver", "another actor of the same role", REFUSED, "the frame is for")
def for_another(s: Scene) -> bytes:
    return s.sealed(receiver=OTHER[s.envelope.receiver])


@attack("receiver", "the sender itself", REFUSED, "the frame is for")
def for_itself(s: Scene) -> bytes:
    return s.sealed(receiver=s.envelope.sender)


@attack("receiver", "a machine of another role", REFUSED, "has no machine")
def machine_of_another_role(s: Scene) -> bytes:
    return s.sealed(receiving_machine=s.envelope.sending_machine)


@attack("receiver", "a subsidiary machine", REFUSED, "has no machine")
def subsidiary_machine(s: Scene) -> bytes:
    return s.sealed(receiving_machine="unit[0]")


@attack("receiver", "its machine, written in another way", REFUSED, "has no machine")
def machine_written_otherwise(s: Scene) -> bytes:
    return s.sealed(receiving_machine=f"{s.envelope.receiving_machine}[0]")


@attack("receiver", "a machine with a number beyond those that there are", REFUSED, "has no machine")
def machine_beyond(s: Scene) -> bytes:
    return s.sealed(receiving_machine=f"{s.envelope.receiving_machine}[7]")


# Leases


@attack(
    "origin",
    "a lease of the other tenant, which is there",
    REFUSED,
    "is not a lease of|is not played by|refuses",
    of=of_the_tenant,
)
def lease_of_another(s: Scene) -> bytes:
    return s.sealed(lease=HIS)


@attack("origin", "a lease of the other tenant, which is not there", REFUSED, "is not a lease of", of=of_the_tenant)
def new_lease_of_another(s: Scene) -> bytes:
    return s.sealed(lease="bob:77")


@attack("origin", "a lease of an actor that nobody trusts", UNTRUSTED, "is trusted here")
def lease_of_a_stranger(s: Scene) -> bytes:
    return s.sealed(lease="stranger:1")


@attack("origin", "a lease without an origin", REFUSED, "a lease is named ORIGIN:NUMBER")
def lease_without_origin(s: Scene) -> bytes:
    return s.sealed(lease="1")


@attack("origin", "a number that no lease can have", REFUSED, "a lease is named ORIGIN:NUMBER")
def lease_with_another_number(s: Scene) -> bytes:
    return s.sealed(lease=f"{ALICE}:-1")


@attack("origin", "a lease that is over and forgotten", REFUSED, "is over and forgotten")
def forgotten(s: Scene) -> bytes:
    s.receiver.table.pruned.add("alice:40")
    return s.sealed(lease="alice:40")


@attack(
    "origin", "a lease of the tenant that has not begun here, in the middle of its life", REFUSED, "", of=needs_a_lease
)
def lease_that_is_not_there(s: Scene) -> bytes:
    return s.sealed(lease="alice:78")


@attack(
    "origin", "a lease of the receiver, by a peer that has none of it", REFUSED, "is not played by", of=to_the_tenant
)
def lease_by_another_peer(s: Scene) -> bytes:
    other = OTHER[s.envelope.sender]
    return s.sealed(by=other, sender=other)


# Incarnations and numbers

OLDER = "has an older copy of its store"


@attack("epoch", "an incarnation before the newest one that was heard", REFUSED, "has a newer incarnation")
def old_incarnation(s: Scene) -> bytes:
    s.receiver.table.metadata[f"epoch of {s.envelope.sender}"] = str(s.envelope.epoch + 1).encode()
    return s.frame


def heard(s: Scene, began: int, commits: int, later: int) -> bytes:
    """The genuine message, of an incarnation that began so; the receiver has heard how far the one before had come."""
    sender = s.envelope.sender
    key, epoch = s.keys[sender].public.fingerprint, s.envelope.epoch
    s.receiver.table.metadata[f"epoch of {sender}"] = f"{epoch} {s.envelope.store} 10 {commits} {key}".encode()
    return s.sealed(epoch=epoch + later, began=began, commits=began)


@attack(
    "epoch", "a later incarnation, of a store without its last commits", UNTRUSTED, "has an older copy of its store"
)
def older_store(s: Scene) -> bytes:
    return heard(s, began=19, commits=20, later=1)


@attack(
    "epoch", "an incarnation with the number of another, of an older store", UNTRUSTED, "has an older copy of its store"
)
def forked_store(s: Scene) -> bytes:
    return heard(s, began=9, commits=20, later=0)


@attack(
    "epoch", "an incarnation with the number of another, of a newer store", UNTRUSTED, "has an older copy of its store"
)
def other_store(s: Scene) -> bytes:
    return heard(s, began=30, commits=20, later=0)


@attack("epoch", "an incarnation of another store, as an empty one is", UNTRUSTED, "has another store than before")
def another_store(s: Scene) -> bytes:
    heard(s, began=20, commits=20, later=1)
    return s.sealed(epoch=s.envelope.epoch + 9, began=99, commits=99, store="s0")


@attack("epoch", "none", REFUSED, "`\\$.epoch`")
def no_incarnation(s: Scene) -> bytes:
    return altered(s, epoch=0)


@attack("epoch", "beyond 2^63 - 1", REFUSED, "")
def incarnation_beyond(s: Scene) -> bytes:
    return altered(s, epoch=2**63)


@attack("number", "zero", REFUSED, "`\\$.number`")
def number_zero(s: Scene) -> bytes:
    return altered(s, number=0)


@attack("number", "beyond 2^63 - 1", REFUSED, "")
def number_beyond(s: Scene) -> bytes:
    return altered(s, number=2**63)


@attack("number", "of a message that was consumed before", TAKEN, of=follows_another)
def consumed_before(s: Scene) -> bytes:
    return s.sealed(number=s.envelope.number - 1)


# Specifications


@attack("digest", "another specification", BUSY, "serves the specification")
def another_specification(s: Scene) -> bytes:
    return s.sealed(digest="0" * 64)


@attack("digest", "other constants", BUSY, "has other constants")
def other_constants(s: Scene) -> bytes:
    return s.sealed(digest=f"{program().digest}.{'0' * 16}")


@attack("digest", "ticks of another length", BUSY, "has ticks of another length")
def other_ticks(s: Scene) -> bytes:
    return s.sealed(digest=f"{s.envelope.digest}.5")


@attack("system", "another system", REFUSED, "this actor serves the system lease")
def another_system(s: Scene) -> bytes:
    return s.sealed(system="two_phase_commit")


@attack("message", "one that the specification has not", REFUSED, "sends no")
def unknown_message(s: Scene) -> bytes:
    return s.sealed(message="give_me_all")


@attack("message", "one of the receiver's own", REFUSED, "sends no")
def own_message(s: Scene) -> bytes:
    other = next(name for name, shape in program().messages.items() if shape.sender == s.envelope.receiving_machine)
    return s.sealed(message=other)


# Bodies


def altered(s: Scene, **changes: Any) -> bytes:
    """The genuine body with values that no actor of ours would sign."""
    plain = json.loads(body_of(s.frame))
    plain.update(changes)
    return signed_as(s, json.dumps({k: v for k, v in plain.items() if v is not ...}).encode())


@attack("body", "another version of the form", REFUSED, "version")
def another_version(s: Scene) -> bytes:
    return altered(s, version=2)


@attack("body", "a name that the form has not", REFUSED, "unknown field")
def unknown_name(s: Scene) -> bytes:
    return altered(s, admin=True)


@attack("body", "a name that is missing", REFUSED, "missing required field")
def missing_name(s: Scene) -> bytes:
    return altered(s, epoch=...)


@attack("body", "a name that is given twice", REFUSED, "is given twice")
def name_twice(s: Scene) -> bytes:
    body = body_of(s.frame)
    return signed_as(s, body[:-1] + b',"lease":"alice:1"}')


@attack("body", "no JSON", REFUSED, "")
def no_json(s: Scene) -> bytes:
    return signed_as(s, b"{" + body_of(s.frame))


@attack("body", "larger than a frame may be", REFUSED, "bytes")
def too_large(s: Scene) -> bytes:
    return signed_as(s, body_of(s.frame) + b" " * 2**18)


@attack("body", "lists that lie too deep", REFUSED, "deep|Expected")
def too_deep(s: Scene) -> bytes:
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    return altered(s, fields={**s.envelope.fields, "units": deep})


@attack("fields", "one that the message has not", REFUSED, "")
def unknown_field(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "price": 1})


@attack("fields", "one that is missing", REFUSED, "", of=with_fields)
def missing_field(s: Scene) -> bytes:
    fields = dict(s.envelope.fields)
    fields.popitem()
    return s.sealed(fields=fields)


@attack("fields", "a value of another type", REFUSED, "", of=with_fields)
def value_of_another_type(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "units": "all"})


@attack("fields", "a value below its range", REFUSED, "", of=with_fields)
def value_below(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "units": -1})


@attack("fields", "a time that is none", REFUSED, "", of=with_fields)
def no_time(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "end": -1})


# Tickets


def forged_ticket(s: Scene, by: str = BROKER, **terms: Any) -> str:
    """The ticket of the message with other terms, signed by somebody."""
    assert s.envelope.credential is not None
    trust = s.actors[NORTH].identity.trust
    found = tickets.read_ticket(s.envelope.credential, trust)
    mine = {
        name: getattr(found, name)
        for name in found.__struct_fields__
        if name not in ("version", "holder", "holder_key")
    }
    holder = trust.actors[str(terms.pop("holder", ALICE))]
    return tickets.issue(s.keys[by], holder=holder, **{**mine, **terms})


@attack("ticket", "none", REFUSED, "ticket", of=presents_a_ticket)
def no_ticket(s: Scene) -> bytes:
    return s.sealed(credential=None)


@attack("ticket", "one with a message that presents none", REFUSED, "ticket", of=takes_no_ticket)
def ticket_for_nothing(s: Scene) -> bytes:
    return s.sealed(credential=s.tickets[HIS][-1])


@attack("ticket", "no ticket at all", REFUSED, "does not have the form of a ticket|ticket", of=takes_a_ticket)
def garbage_for_a_ticket(s: Scene) -> bytes:
    return s.sealed(credential="lht1.please")


@attack("ticket", "the other tenant's", REFUSED, "is for the lease|is held by", of=presents_a_ticket)
def ticket_of_another(s: Scene) -> bytes:
    return s.sealed(credential=s.tickets[HIS][-1])


@attack("ticket", "for another site", REFUSED, "is for the authority", of=presents_a_ticket)
def ticket_for_another_site(s: Scene) -> bytes:
    return s.sealed(credential=forged_ticket(s, authority=SOUTH))


@attack("ticket", "held by another", REFUSED, "is held by", of=presents_a_ticket)
def ticket_held_by_another(s: Scene) -> bytes:
    return s.sealed(credential=forged_ticket(s, holder="bob"))


@attack("ticket", "of another lease of the holder", REFUSED, "is for the lease", of=presents_a_ticket)
def ticket_of_another_lease(s: Scene) -> bytes:
    return s.sealed(credential=forged_ticket(s, lease="alice:2"))


@attack("ticket", "signed by its holder", UNTRUSTED, "is none of", of=presents_a_ticket)
def ticket_by_its_holder(s: Scene) -> bytes:
    return s.sealed(credential=forged_ticket(s, by=ALICE))


@attack(
    "ticket",
    "issued by its holder, under the holder's name",
    REFUSED,
    "cannot speak for 'broker'",
    of=presents_a_ticket,
)
def ticket_issued_by_its_holder(s: Scene) -> bytes:
    return s.sealed(credential=forged_ticket(s, by=ALICE, issuer=ALICE))


@attack("ticket", "issued by a stranger", UNTRUSTED, "is trusted here", of=presents_a_ticket)
def ticket_of_a_stranger(s: Scene) -> bytes:
    return s.sealed(credential=forged_ticket(s, by="stranger", issuer="stranger"))


@attack("ticket", "one letter of it is another", UNTRUSTED, "the signature is not that of", of=presents_a_ticket)
def ticket_with_another_letter(s: Scene) -> bytes:
    assert s.envelope.credential is not None
    form, key, signature, body = s.envelope.credential.split(".")
    other = ("A" if signature[10] != "A" else "B").join([signature[:10], signature[11:]])
    return s.sealed(credential=".".join([form, key, other, body]))


@attack("ticket", "by a key of the broker that is revoked", UNTRUSTED, "is revoked", of=presents_a_ticket)
def ticket_by_a_revoked_key(s: Scene) -> bytes:
    fingerprint = s.keys[BROKER].public.fingerprint
    return trusting(s, lambda trust: revoke(trust, BROKER, fingerprint), s.frame)


@attack("ticket", "more units than it promises", REFUSED, "units", of=presents_a_ticket)
def more_units(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "units": 4})


@attack("ticket", "a later end than it promises", REFUSED, "end", of=presents_a_ticket)
def later_end(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "end": LARGEST})


@attack("ticket", "other properties than it promises", REFUSED, "properties", of=presents_a_ticket)
def other_properties(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "properties": {"type": "gold"}})


@attack("ticket", "another type than it promises", REFUSED, "type", of=redeems_a_ticket)
def other_type(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "type": "gold"})


@attack("ticket", "another start than it promises", REFUSED, "start", of=redeems_a_ticket)
def other_start(s: Scene) -> bytes:
    return s.sealed(fields={**s.envelope.fields, "start": 1})


@attack("ticket", "before its term has begun", BUSY, "begins at 99, and it is", of=redeems_a_ticket)
def too_early(s: Scene) -> bytes:
    said = {**s.envelope.fields, "start": 99}
    told = {"properties": {"of": said["properties"], "start": 99, "type": said["type"]}}
    return s.sealed(credential=forged_ticket(s, **told), fields=said)


@attack("ticket", "an earlier one of the lease", REFUSED, "comes after ticket|units|end|properties", of=extends_a_lease)
def earlier_ticket(s: Scene) -> bytes:
    return s.sealed(credential=s.tickets[LEASE][0])


@attack("ticket", "an earlier one, with its own terms", REFUSED, "comes after ticket|was redeemed", of=extends_a_lease)
def replayed_ticket(s: Scene) -> bytes:
    old = tickets.read_ticket(s.tickets[LEASE][0], s.actors[NORTH].identity.trust)
    terms = {"units": 1, "end": old.end + 1, "properties": old.properties["of"]}
    text = forged_ticket(s, serial=old.serial, **{**terms, "properties": old.properties})
    return s.sealed(credential=text, fields={**s.envelope.fields, **terms})


@attack("ticket", "that of the answer is another's", REFUSED, "", of=brings_a_ticket)
def answer_with_the_ticket_of_another(s: Scene) -> bytes:
    return s.sealed(credential=s.tickets[HIS][-1])


@attack("ticket", "the answer promises units without one", REFUSED, "ticket", of=brings_a_ticket)
def answer_without_ticket(s: Scene) -> bytes:
    return s.sealed(credential=None)
