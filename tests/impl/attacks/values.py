"""Ways in which a large value can be wrong that a message names by digest, and in which an answer can that asks for it.

A value is here one field of the genuine message, which its sender signs as it signs everything. `ATTACKS` are all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from leasehold.impl.identity import pages
from leasehold.impl.identity.pages import LIST, LISTS, MAP, MAPS, VALUE, digest, frame_of, names_of
from leasehold.impl.transport.transport import Delivery, Reply
from leasehold.spec.language.types import Opaque
from tests.impl.attacks.attacks import ATTACKS, Attack, Make, altered, attacks, every, refused, with_fields, written
from tests.impl.attacks.scene import OTHER, Scene, program

__all__ = ["ANSWERS", "ATTACKS"]

LACKS = Delivery.LACKS
lacks = partial(Attack, LACKS)
A_DIGEST = "^[A-Za-z0-9_-]{43}$"
encode = msgspec.msgpack.Encoder(order="sorted").encode
NOBODY_WAITS = "nobody waits for this part of a value"


def page(kind: int, items: Any) -> bytes:
    return encode([kind, items])


def naming(s: Scene, first: bytes, sender: str = "") -> bytes:
    """The message, of which one field is named by a digest: the last whose type does not take just any value."""
    fields = dict(s.envelope.fields)
    types = dict(program().messages[s.envelope.message].fields)
    name = [name for name in fields if not isinstance(types[name], Opaque)][-1]
    del fields[name]
    sender = sender or s.envelope.sender
    return s.sealed(sender=sender, fields=fields, values={name: names_of((first,))})


def waited_for(s: Scene, body: bytes) -> bytes:
    """The receiver waits for a part."""
    first = digest(s.envelope.sender, body)
    reply = s.receiver.codec.open(naming(s, first))
    assert isinstance(reply, Reply)
    assert reply == Reply(LACKS, names_of((first,)), s.envelope.sender)
    return body


def said(s: Scene, *bodies: bytes) -> bytes:
    """The message by the digest of the first part, when all parts have come."""
    waiting = [waited_for(s, bodies[0])]
    own = {digest(s.envelope.sender, body): body for body in bodies}
    while waiting:
        reply = s.receiver.codec.open(frame_of(s.envelope.sender, waiting.pop()))
        assert isinstance(reply, Reply)
        waiting += (own[name] for name in pages.named_by(reply.reason))
    return naming(s, digest(s.envelope.sender, bodies[0]))


def above(s: Scene, kind: int, *bodies: bytes, times: int = 1) -> bytes:
    """A part that names others."""
    return page(kind, [digest(s.envelope.sender, body) for body in bodies] * times)


def part(body: bytes) -> Make:
    """A part of the sender's that the receiver waits for."""
    return lambda s: frame_of(s.envelope.sender, waited_for(s, body))


def of_another(s: Scene) -> bytes:
    other, body = OTHER[s.envelope.sender], page(VALUE, "x")
    s.receiver.codec.open(naming(s, digest(other, body), other))
    assert s.receiver.codec.open(frame_of(other, body)) == Reply(Delivery.TAKEN)
    return naming(s, digest(other, body))


def part_never_comes(s: Scene) -> bytes:
    root = page(LISTS, [bytes(32)])
    waited_for(s, root)
    s.receiver.codec.open(frame_of(s.envelope.sender, root))
    return naming(s, digest(s.envelope.sender, root))


def parts_with_a_name_twice(s: Scene) -> bytes:
    one, two = page(MAP, ["a", 1]), page(MAP, ["a", 2])
    return said(s, above(s, MAPS, one, two), one, two)


def part_of_another_kind(s: Scene) -> bytes:
    part = page(MAP, ["a", 1])
    return said(s, above(s, LISTS, part), part)


def large_together(s: Scene) -> bytes:
    bodies = [page(LIST, ["x" * 100] * 20)]
    for _ in range(12):
        bodies.insert(0, above(s, LISTS, bodies[0], times=60))
    return said(s, *bodies)


def parts_too_deep(s: Scene) -> bytes:
    bodies = [page(LIST, [1])]
    for _ in range(70):
        bodies.insert(0, above(s, LIST, bodies[0]))
    return said(s, *bodies)


def value_too_deep(s: Scene) -> bytes:
    deep: Any = 1
    for _ in range(20):
        deep = [deep]
    return said(s, page(VALUE, deep))


def value_of_no_field(s: Scene) -> bytes:
    said(s, page(VALUE, 1))
    return s.sealed(values={"price": names_of((digest(s.envelope.sender, page(VALUE, 1)),))})


def value_of_a_field_that_is_there(s: Scene) -> bytes:
    name = next(iter(s.envelope.fields))
    return s.sealed(values={name: names_of((bytes(32),))})


def digest_written_otherwise(s: Scene) -> bytes:
    fields = dict(s.envelope.fields)
    name, _ = fields.popitem()
    return altered(s, fields=fields, values={name: "A" * 42 + "B"})


attacks(
    "value",
    with_fields,
    lacks("a digest of which the value never comes", A_DIGEST, lambda s: naming(s, bytes(32))),
    lacks("the digest of what another has said", A_DIGEST, of_another),
    lacks("a part of it that never comes", A_DIGEST, part_never_comes),
    refused(
        "a part that nobody waits for",
        NOBODY_WAITS,
        lambda s: frame_of(s.envelope.sender, page(VALUE, "take it")),
    ),
    refused(
        "a part that is waited for, in another's name",
        NOBODY_WAITS,
        lambda s: frame_of(OTHER[s.envelope.sender], waited_for(s, page(VALUE, "x"))),
    ),
    refused(
        "a part that is waited for, in a stranger's name",
        NOBODY_WAITS,
        lambda s: frame_of("stranger", waited_for(s, page(VALUE, "x"))),
    ),
    refused(
        "another part than the one that is waited for",
        NOBODY_WAITS,
        lambda s: frame_of(s.envelope.sender, waited_for(s, page(VALUE, "x"))[:-1] + b"y"),
    ),
    refused(
        "a part without an owner",
        "does not begin with the line of a page",
        lambda s: pages.START + b"\n" + waited_for(s, page(VALUE, "x")),
    ),
    refused("a part that is larger than a frame may be", "bytes", part(page(VALUE, "x" * 2**18))),
    refused("a part that is no MessagePack", "cannot be read", part(b"\xc1please")),
    refused("a part of which a name is given twice", "given twice", part(b"\x92\x00\x82\xa1a\x01\xa1a\x02")),
    refused("a part of another kind than there are", "of no kind that there is", part(page(9, []))),
    refused("parts of a mapping that give a name twice", "'a' is given twice", parts_with_a_name_twice),
    refused("a part of a mapping in a list", "is another's", part_of_another_kind),
    refused("parts that are small, and large together", "have more than 8388608 bytes", large_together),
    refused("parts too deep in one another", "pages of a value lie deeper than 64", parts_too_deep),
    refused("lists that lie too deep", "`values` lies deeper than 16", value_too_deep),
    refused("bytes, which no message has", "holds a bytes", lambda s: said(s, page(VALUE, b"x"))),
    refused("one of another type", "", lambda s: said(s, page(VALUE, ["all"]))),
    refused("of a field that the message has not", "there is no field|takes no|ticket", value_of_no_field),
    refused("of a field that is written into the message too", "is given twice", value_of_a_field_that_is_there),
)
attacks("value", every, refused("no digest", r"`\$.values", written(values={"end": "x"})))
attacks(
    "value",
    with_fields,
    refused("a digest that is written in another way", "its digest is none", digest_written_otherwise),
)


# Answers


@dataclass(frozen=True, slots=True)
class Answer:
    """One way in which the answer to a message with large values is wrong, or forged.

    Attributes:
        words: what is wrong with it.
        sent: what the sender sends then.
        answer: the answer to a frame; of the message's own parts, and whether the frame is one.
    """

    words: str
    sent: str
    answer: Callable[[dict[bytes, bytes], bool], Reply]


def lacking(*digests: bytes) -> Reply:
    return Reply(LACKS, names_of(digests))


TAKEN = Reply(Delivery.TAKEN)
ONCE = "the message alone, later"
AGAIN = "parts of the message's own values, and the message again, later"
STRANGE = [digest("another", bytes([n])) for n in range(64)]
ANSWERS = [
    Answer("that it lacks, and not what", ONCE, lambda own, part: lacking()),
    Answer("that it lacks, in words", ONCE, lambda own, part: Reply(LACKS, "please send me all that you have")),
    Answer("that it lacks what another message has", ONCE, lambda own, part: lacking(*STRANGE)),
    Answer("that it lacks what is there, again and again", AGAIN, lambda own, part: lacking(*list(own)[:60])),
    Answer("that it lacks the same part, of each part", AGAIN, lambda own, part: lacking(next(iter(own)))),
    Answer("that it lacks parts of others, of a part", AGAIN, lambda own, part: lacking(*(STRANGE if part else own))),
    Answer("that it has a part, and lacks it", AGAIN, lambda own, part: TAKEN if part else lacking(next(iter(own)))),
    Answer(
        "that it lacks a part, and refuses it",
        AGAIN,
        lambda own, part: Reply(Delivery.REFUSED, NOBODY_WAITS) if part else lacking(next(iter(own))),
    ),
    Answer(
        "that it lacks a part, and does not trust its owner",
        AGAIN,
        lambda own, part: Reply(Delivery.UNTRUSTED, "no") if part else lacking(next(iter(own))),
    ),
]
