"""Every way in which a message can be wrong, what the receiver answers, and the words of its reason.

An attack makes bytes of the genuine message of a scene.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from leasehold.impl.identity.keys import Purpose, base64_of, unbase64
from leasehold.impl.identity.trust import Trust, TrustedActor, TrustedKey, remove, revoke
from leasehold.impl.lease import ticket as tickets
from leasehold.impl.transport.transport import Delivery
from tests.impl.attacks.scene import ALICE, BOB, BROKER, HIS, LEASE, NORTH, OTHER, ROLES, SOUTH, Scene, program

Make: TypeAlias = Callable[[Scene], bytes]
Of: TypeAlias = Callable[[str], bool]
UNTRUSTED, REFUSED, BUSY, TAKEN = Delivery.UNTRUSTED, Delivery.REFUSED, Delivery.BUSY, Delivery.TAKEN
LARGEST = 2**63 - 1
NOT_SIGNED, OLDER = "the signature is not that of", "has an older copy of its store"


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to be wrong.

    Attributes:
        answer: what its sender hears; `TAKEN`: it is heard, and changes nothing.
        words: what is wrong with it.
        reason: a part of the reason.
        make: makes the bytes that come.
        about: the part of the message that is wrong.
        of: whether it makes sense with a message of a kind.
    """

    answer: Delivery
    words: str
    reason: str
    make: Make
    about: str = ""
    of: Of = field(default=lambda message: True)

    @property
    def name(self) -> str:
        return f"{self.about}: {self.words}"


ATTACKS: list[Attack] = []
refused = partial(Attack, REFUSED)
untrusted = partial(Attack, UNTRUSTED)
busy = partial(Attack, BUSY)


def attacks(about: str, of: Of, *wrong: Attack) -> None:
    """Adds attacks on a part of a message, of such a kind."""
    ATTACKS.extend(replace(attack, about=about, of=of) for attack in wrong)


# Kinds of messages


def every(message: str) -> bool:
    return True


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


def gives_tickets_back(message: str) -> bool:
    return message in ("relinquish", "shrunk")


def takes_no_ticket(message: str) -> bool:
    return not takes_a_ticket(message) and not gives_tickets_back(message)


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


def altered(s: Scene, **changes: Any) -> bytes:
    """The genuine body with values that no actor of ours would sign."""
    plain = json.loads(body_of(s.frame))
    plain.update(changes)
    return signed_as(s, json.dumps({k: v for k, v in plain.items() if v is not ...}).encode())


# Ways to make the bytes


def sealed(**changes: Any) -> Make:
    """The genuine message with other values, as its sender would sign it."""
    return lambda s: s.sealed(**changes)


def written(**changes: Any) -> Make:
    """The genuine body with values that no actor of ours would sign."""
    return lambda s: altered(s, **changes)


def filled(**fields: Any) -> Make:
    """The genuine message with other fields."""
    return lambda s: s.sealed(fields={**s.envelope.fields, **fields})


def under(s: Scene, name: str, **changes: Any) -> bytes:
    """The message by another actor, under its own name."""
    return s.sealed(by=name, sender=name, **changes)


def of_another_role(s: Scene) -> str:
    """An actor that has neither the sender's role nor the receiver's."""
    mine = ROLES[s.envelope.sender], ROLES[s.envelope.receiver]
    return next(name for name, role in ROLES.items() if role not in mine)


def revoking(s: Scene, name: str, frame: bytes) -> bytes:
    """The receiver's operator revokes an actor's key before the frame comes."""
    return trusting(s, lambda trust: revoke(trust, name, s.keys[name].public.fingerprint), frame)


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


def ticket_of_another(s: Scene) -> bytes:
    return s.sealed(credential=s.tickets[HIS][-1])


def forged(**terms: Any) -> Make:
    """The message with such a ticket."""
    return lambda s: s.sealed(credential=forged_ticket(s, **terms))


def together(s: Scene, change: Callable[[bytes], bytes] = lambda signature: signature, number: int = 0) -> bytes:
    """The genuine message, signed together with another; the receiver has verified their common signature before."""
    key = s.keys[s.envelope.sender]
    bodies = [body_of(s.frame), b"another message of the same turn"]
    signatures = key.sign_all(Purpose.ENVELOPE, bodies)
    trusted = s.receiver.identity.trust.actors[s.envelope.sender]
    trusted.check_signature(Purpose.ENVELOPE, key.public.fingerprint, bodies[0], signatures[0], time.time())
    signature = base64_of(change(signatures[number]))
    return f"leasehold1 {key.public.fingerprint} {signature}\n".encode() + bodies[0]


def shared(change: Callable[[bytes], bytes]) -> Make:
    """The message by a changed signature of its own and another message."""
    return lambda s: together(s, change)


# Keys


def named_key_of_the_sender(s: Scene) -> bytes:
    line, _, body = s.sealed(by="stranger").partition(b"\n")
    form, _, signature = line.split(b" ")
    return b" ".join([form, s.frame.split(b" ")[1], signature]) + b"\n" + body


def expired(s: Scene) -> bytes:
    name = s.envelope.sender

    def end(trust: Trust) -> Trust:
        actor = trust.actors[name]
        keys = (TrustedKey(actor.keys[0].key, not_after=int(time.time()) - 1),)
        return Trust({**trust.actors, name: TrustedActor(name, actor.kind, keys, actor.address)})

    return trusting(s, end, s.frame)


def changed_afterwards(s: Scene) -> bytes:
    head = s.frame.partition(b"\n")[0]
    return head + b"\n" + body_of(s.sealed(number=s.envelope.number + 1))


def cut_off(s: Scene) -> bytes:
    head, _, body = s.frame.partition(b"\n")
    return head[:-1] + b"\n" + body


attacks(
    "key",
    every,
    refused("none: the body alone", "does not begin with the line of a signed envelope", lambda s: body_of(s.frame)),
    untrusted("one that nobody trusts", "is none of", sealed(by="stranger")),
    untrusted("another actor's, who has the same role", "is none of", lambda s: s.sealed(by=OTHER[s.envelope.sender])),
    untrusted("the receiver's", "is none of", lambda s: s.sealed(by=s.envelope.receiver)),
    untrusted("the right name of the key, and a stranger's signature", NOT_SIGNED, named_key_of_the_sender),
    untrusted("shared: the proof of another message of the same turn", NOT_SIGNED, lambda s: together(s, number=1)),
    untrusted("shared: the signature without its proof", NOT_SIGNED, shared(lambda signature: signature[:64])),
    untrusted(
        "shared: a proof of which one bit is another",
        NOT_SIGNED,
        shared(lambda signature: signature[:-1] + bytes((signature[-1] ^ 1,))),
    ),
    untrusted("shared: a proof that leads further", NOT_SIGNED, shared(lambda signature: signature + bytes(32))),
    untrusted(
        "shared, and the key is revoked since", "is revoked", lambda s: revoking(s, s.envelope.sender, together(s))
    ),
    untrusted("revoked", "is revoked", lambda s: revoking(s, s.envelope.sender, s.frame)),
    untrusted("over since a second", "has expired", expired),
    untrusted(
        "signed for another purpose, as a ticket is",
        NOT_SIGNED,
        lambda s: signed_as(s, body_of(s.frame), Purpose.TICKET),
    ),
    untrusted("a body that was changed after it was signed", NOT_SIGNED, changed_afterwards),
    refused("a signature that is cut off", "does not begin with the line", cut_off),
)

# Senders and receivers

attacks(
    "sender",
    every,
    untrusted(
        "one that is trusted no more",
        "is trusted here",
        lambda s: trusting(s, lambda trust: remove(trust, s.envelope.sender), s.frame),
    ),
    untrusted(
        "a stranger under the stranger's own name",
        "no actor 'stranger' is trusted here",
        lambda s: under(s, "stranger"),
    ),
    refused(
        "another actor of the same role, under its own name",
        "is not a lease of|is not played by",
        lambda s: under(s, OTHER[s.envelope.sender]),
    ),
)
attacks(
    "role",
    every,
    refused(
        "an actor of another role speaks for the sender's machine",
        "cannot speak for",
        lambda s: under(s, of_another_role(s)),
    ),
    refused(
        "the receiver's peer speaks for its own role, which sends no such message",
        "sends no",
        lambda s: under(s, of_another_role(s), sending_machine=ROLES[of_another_role(s)]),
    ),
    refused(
        "the sending machine is one of several, and there is one",
        "is no neighbour|sends no",
        lambda s: s.sealed(sending_machine=f"{s.envelope.sending_machine}[1]"),
    ),
)
attacks(
    "receiver",
    every,
    busy("another actor of the same role", "the frame is for", lambda s: s.sealed(receiver=OTHER[s.envelope.receiver])),
    busy("the sender itself", "the frame is for", lambda s: s.sealed(receiver=s.envelope.sender)),
    refused(
        "a machine of another role",
        "has no machine",
        lambda s: s.sealed(receiving_machine=s.envelope.sending_machine),
    ),
    refused("a subsidiary machine", "has no machine", sealed(receiving_machine="unit[0]")),
    refused(
        "its machine, written in another way",
        "has no machine",
        lambda s: s.sealed(receiving_machine=f"{s.envelope.receiving_machine}[0]"),
    ),
    refused(
        "a machine with a number beyond those that there are",
        "has no machine",
        lambda s: s.sealed(receiving_machine=f"{s.envelope.receiving_machine}[7]"),
    ),
)

# Leases


def forgotten(s: Scene) -> bytes:
    s.receiver.table.pruned.add("alice:40")
    return s.sealed(lease="alice:40")


attacks(
    "origin",
    of_the_tenant,
    refused(
        "a lease of the other tenant, which is there",
        "is not a lease of|is not played by|refuses",
        sealed(lease=HIS),
    ),
    refused("a lease of the other tenant, which is not there", "is not a lease of", sealed(lease="bob:77")),
)
attacks(
    "origin",
    every,
    untrusted("a lease of an actor that nobody trusts", "is trusted here", sealed(lease="stranger:1")),
    refused("a lease without an origin", "a lease is named ORIGIN:NUMBER", sealed(lease="1")),
    refused("a number that no lease can have", "a lease is named ORIGIN:NUMBER", sealed(lease=f"{ALICE}:-1")),
    refused("a lease that is over and forgotten", "is over and forgotten", forgotten),
)
attacks(
    "origin",
    needs_a_lease,
    refused("a lease of the tenant that has not begun here, in the middle of its life", "", sealed(lease="alice:78")),
)
attacks(
    "origin",
    to_the_tenant,
    refused(
        "a lease of the receiver, by a peer that has none of it",
        "is not played by",
        lambda s: under(s, OTHER[s.envelope.sender]),
    ),
)

# Incarnations and numbers


def old_incarnation(s: Scene) -> bytes:
    s.receiver.table.metadata[f"epoch of {s.envelope.sender}"] = str(s.envelope.epoch + 1).encode()
    return s.frame


def heard(began: int, later: int) -> Make:
    """The genuine message, of an incarnation that began so; the receiver has heard commit 20 of the one before."""

    def make(s: Scene) -> bytes:
        sender = s.envelope.sender
        key, epoch = s.keys[sender].public.fingerprint, s.envelope.epoch
        s.receiver.table.metadata[f"epoch of {sender}"] = f"{epoch} {s.envelope.store} 10 20 {key}".encode()
        return s.sealed(epoch=epoch + later, began=began, commits=began)

    return make


def another_store(s: Scene) -> bytes:
    heard(20, later=1)(s)
    return s.sealed(epoch=s.envelope.epoch + 9, began=99, commits=99, store="s0")


attacks(
    "epoch",
    every,
    refused("an incarnation before the newest one that was heard", "has a newer incarnation", old_incarnation),
    untrusted("a later incarnation, of a store without its last commits", OLDER, heard(19, later=1)),
    untrusted("an incarnation with the number of another, of an older store", OLDER, heard(9, later=0)),
    untrusted("an incarnation with the number of another, of a newer store", OLDER, heard(30, later=0)),
    untrusted("an incarnation of another store, as an empty one is", "has another store than before", another_store),
    refused("none", "`\\$.epoch`", written(epoch=0)),
    refused("beyond 2^63 - 1", "", written(epoch=2**63)),
)
attacks(
    "number",
    every,
    refused("zero", "`\\$.number`", written(number=0)),
    refused("beyond 2^63 - 1", "", written(number=2**63)),
)
attacks(
    "number",
    follows_another,
    Attack(TAKEN, "of a message that was consumed before", "", lambda s: s.sealed(number=s.envelope.number - 1)),
)

# Specifications


def own_message(s: Scene) -> bytes:
    other = next(name for name, shape in program().messages.items() if shape.sender == s.envelope.receiving_machine)
    return s.sealed(message=other)


attacks(
    "digest",
    every,
    busy("another specification", "serves the specification", sealed(digest="0" * 64)),
    busy("other constants", "has other constants", sealed(digest=f"{program().digest}.{'0' * 16}")),
    busy(
        "ticks of another length",
        "has ticks of another length",
        lambda s: s.sealed(digest=f"{s.envelope.digest}.5"),
    ),
)
attacks(
    "system",
    every,
    refused("another system", "this actor serves the system lease", sealed(system="two_phase_commit")),
)
attacks(
    "message",
    every,
    refused("one that the specification has not", "sends no", sealed(message="give_me_all")),
    refused("one of the receiver's own", "sends no", own_message),
)

# Bodies


def name_twice(s: Scene) -> bytes:
    body = body_of(s.frame)
    return signed_as(s, body[:-1] + b',"lease":"alice:1"}')


def too_deep(s: Scene) -> bytes:
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    return altered(s, fields={**s.envelope.fields, "units": deep})


def missing_field(s: Scene) -> bytes:
    fields = dict(s.envelope.fields)
    fields.popitem()
    return s.sealed(fields=fields)


attacks(
    "body",
    every,
    refused("another version of the form", "version", written(version=2)),
    refused("a name that the form has not", "unknown field", written(admin=True)),
    refused("a name that is missing", "missing required field", written(epoch=...)),
    refused("a name that is given twice", "is given twice", name_twice),
    refused("no JSON", "", lambda s: signed_as(s, b"{" + body_of(s.frame))),
    refused("larger than a frame may be", "bytes", lambda s: signed_as(s, body_of(s.frame) + b" " * 2**18)),
    refused("lists that lie too deep", "deep|Expected", too_deep),
)
attacks("fields", every, refused("one that the message has not", "", filled(price=1)))
attacks(
    "fields",
    with_fields,
    refused("one that is missing", "", missing_field),
    refused("a value of another type", "", filled(units="all")),
    refused("a value below its range", "", filled(units=-1)),
    refused("a time that is none", "", filled(end=-1)),
)

# Tickets


def ticket_with_another_letter(s: Scene) -> bytes:
    assert s.envelope.credential is not None
    form, key, signature, body = s.envelope.credential.split(".")
    other = ("A" if signature[10] != "A" else "B").join([signature[:10], signature[11:]])
    return s.sealed(credential=".".join([form, key, other, body]))


def too_early(s: Scene) -> bytes:
    said = {**s.envelope.fields, "start": 99}
    told = {"properties": {"of": said["properties"], "start": 99, "type": said["type"]}}
    return s.sealed(credential=forged_ticket(s, **told), fields=said)


def released(s: Scene, by: str = ALICE, **terms: Any) -> bytes:
    """The message with the release of other tickets, signed by somebody."""
    assert s.envelope.credential is not None
    found = tickets.read_release(s.envelope.credential, s.actors[NORTH].identity.trust)
    mine = {name: getattr(found, name) for name in ("issuer", "holder", "lease", "before")}
    return s.sealed(credential=tickets.release(s.keys[by], **{**mine, **terms}))


def signed_as_a_ticket(s: Scene) -> bytes:
    assert s.envelope.credential is not None
    form, key, _, body = s.envelope.credential.split(".")
    signature = s.keys[ALICE].sign(Purpose.TICKET, unbase64(body) or b"")
    return s.sealed(credential=".".join([form, key, base64_of(signature), body]))


def replayed_ticket(s: Scene) -> bytes:
    old = tickets.read_ticket(s.tickets[LEASE][0], s.actors[NORTH].identity.trust)
    terms = {"units": 1, "end": old.end + 1, "properties": old.properties["of"]}
    text = forged_ticket(s, serial=old.serial, **{**terms, "properties": old.properties})
    return s.sealed(credential=text, fields={**s.envelope.fields, **terms})


attacks("ticket", presents_a_ticket, refused("none", "ticket", sealed(credential=None)))
attacks(
    "release",
    gives_tickets_back,
    refused("none", "brings no release", sealed(credential=None)),
    refused("a ticket in its place", "form of a release of tickets", ticket_of_another),
    untrusted("signed by the broker that it clears", "is none of", lambda s: released(s, by=BROKER)),
    refused("another holder's", "the release is bob's", lambda s: released(s, by=BOB, holder=BOB)),
    untrusted("a stranger's", "is trusted here", lambda s: released(s, by="stranger", holder="stranger")),
    refused("of another broker's tickets", "of tickets of rival", lambda s: released(s, issuer="rival")),
    refused("of another lease", "for alice:2", lambda s: released(s, lease="alice:2")),
    refused("of other tickets of the lease", "that end before 9999", lambda s: released(s, before=9999)),
    untrusted("signed as a ticket", NOT_SIGNED, signed_as_a_ticket),
    untrusted("one letter of it is another", NOT_SIGNED, ticket_with_another_letter),
)
attacks(
    "release",
    lambda message: message == "shrunk",
    refused("of all tickets, the smaller one too", "the release is alice's", lambda s: released(s, before=0)),
    refused("the end is that of a later ticket", "that end before", lambda s: s.sealed(fields={"end": 9999})),
)
attacks("ticket", takes_no_ticket, refused("one with a message that presents none", "ticket", ticket_of_another))
attacks(
    "ticket",
    takes_a_ticket,
    refused("no ticket at all", "does not have the form of a ticket|ticket", sealed(credential="lht1.please")),
)
attacks(
    "ticket",
    presents_a_ticket,
    refused("the other tenant's", "is for the lease|is held by", ticket_of_another),
    refused("for another site", "is for the authority", forged(authority=SOUTH)),
    refused("held by another", "is held by", forged(holder="bob")),
    refused("of another lease of the holder", "is for the lease", forged(lease="alice:2")),
    untrusted("signed by its holder", "is none of", forged(by=ALICE)),
    refused(
        "issued by its holder, under the holder's name", "cannot speak for 'broker'", forged(by=ALICE, issuer=ALICE)
    ),
    untrusted("issued by a stranger", "is trusted here", forged(by="stranger", issuer="stranger")),
    untrusted("one letter of it is another", NOT_SIGNED, ticket_with_another_letter),
    untrusted("by a key of the broker that is revoked", "is revoked", lambda s: revoking(s, BROKER, s.frame)),
    refused("more units than it promises", "units", filled(units=4)),
    refused("a later end than it promises", "end", filled(end=LARGEST)),
    refused("other properties than it promises", "properties", filled(properties={"type": "gold"})),
)
attacks(
    "ticket",
    redeems_a_ticket,
    refused("another type than it promises", "type", filled(type="gold")),
    refused("another start than it promises", "start", filled(start=1)),
    busy("before its term has begun", "begins at 99, and it is", too_early),
)
attacks(
    "ticket",
    extends_a_lease,
    refused(
        "an earlier one of the lease",
        "comes after ticket|units|end|properties",
        lambda s: s.sealed(credential=s.tickets[LEASE][0]),
    ),
    refused("an earlier one, with its own terms", "comes after ticket|was redeemed", replayed_ticket),
)
attacks(
    "ticket",
    brings_a_ticket,
    refused("that of the answer is another's", "", ticket_of_another),
    refused("the answer promises units without one", "ticket", sealed(credential=None)),
)
