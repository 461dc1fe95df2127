"""Signed JSON from a stranger: known shapes, bounded texts and numbers, every name once; and the reasons for refusals.

The types here bound the fields of a message (msgspec checks them while it decodes). A `Form` adds the checks that no
type expresses. `read` takes bytes through all checks in one call.

A refusal is always the other side's fault, and changes nothing here. Its reason goes back to the sender, so it contains
nothing that a stranger should not learn: no names of others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from leasehold.impl.identity.keys import SIGNATURE, base64_of, unbase64

LARGEST_NUMBER = 2**63 - 1
# The same for all actors: with other limits one actor refuses what another sends.
FRAME_BYTES = 256 * 1024  # a whole envelope
TEXT_CHARACTERS = 64 * 1024  # one text, credentials among them
NAME_CHARACTERS = 200  # a name of a lease, an actor, a field
ADDRESS_CHARACTERS = 500
DEPTH = 16  # lists and mappings within one another, in plain data

Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_CHARACTERS)]
Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS)]  # to be checked by `word` as well
Address: TypeAlias = Annotated[str, Meta(min_length=1, max_length=ADDRESS_CHARACTERS)]  # and by `word`
Name: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARACTERS, pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
MachineName: TypeAlias = Annotated[
    str, Meta(max_length=NAME_CHARACTERS, pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\[[0-9]{1,9}\])?\Z")
]
Digest: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{43}\Z")]  # 32 bytes in base64
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST_NUMBER)]  # every store and language can hold it
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_NUMBER)]

_T = TypeVar("_T")
Check: TypeAlias = Callable[[str, Any], None]  # of a field's name and value; raises Malformed
Form: TypeAlias = tuple[tuple[str, Check], ...]


# Refusals


class Refusal(Exception):
    """A frame or a ticket is refused.

    Attributes:
        reason: why, in one line.
        proven: the actor that has signed it, where that was verified before.
    """

    proven = ""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooLarge(Refusal):
    """It has more bytes than are accepted."""


class Malformed(Refusal):
    """It is not written as it must be: no JSON, a field missing, unknown or mistyped, a number out of its range."""


class UnknownSender(Refusal):
    """It names an actor that is not in the trust set."""


class Forged(Refusal):
    """Its signature is wrong, or the key that made it is not (or no longer) the key of the actor it names."""


class NotForMe(Refusal):
    """It is well signed, and for another actor."""


class Misdirected(NotForMe):
    """It has come to another actor than it is for, as where two hosts have one address: until they have not."""


class Unauthorised(Refusal):
    """It is well signed, by an actor that may not say this: a ticket that no broker issued."""


class OtherSpecification(Refusal):
    """Its sender serves another specification, or other constants: until one of the two is upgraded, and no longer."""


class UnknownMember(Refusal):
    """Its receiver's settings do not name the actor of a machine: until they do, and no longer."""


class Early(Refusal):
    """It is of use later, and not yet: the clocks of sender and receiver differ."""


class OlderStore(Refusal):
    """Its sender has an older copy of its store, and has forgotten what it said: until the newest is put back."""


class Ended(Refusal):
    """It is a ticket whose term is over."""


# Reading and writing


def read(body: bytes, decoder: msgspec.json.Decoder[_T], encoder: msgspec.json.Encoder, form: Form) -> _T:
    """Reads JSON of one shape, whose fields have a form.

    Raises:
        Malformed: it is none, or of another shape; a field has another form; or a name is given twice.
    """
    value = _decode(body, decoder)
    _check(value, form)
    _check_once(body, encoder.encode(value))
    return value


def write(
    value: Any, label: str, decoder: msgspec.json.Decoder[Any], encoder: msgspec.json.Encoder, form: Form
) -> bytes:
    """Writes JSON that `read` takes.

    Raises:
        Malformed: no reader would take it; this is a mistake of ours.
    """
    _check(value, form)
    try:
        body = encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"{label} cannot be written as JSON: {error}") from error
    _decode(body, decoder)
    return body


def _check(value: Any, form: Form) -> None:
    for field, check_field in form:
        check_field(field, getattr(value, field))


# Signed texts: PREFIX.FINGERPRINT.SIGNATURE.BODY

_TEXT = re.compile(rf"([a-z0-9]+)\.([0-9a-f]{{32}})\.({SIGNATURE})\.([A-Za-z0-9_-]+)")


def text_of(prefix: str, label: str, fingerprint: str, signature: bytes, body: bytes) -> str:
    """A signed text, to be carried by an envelope.

    Args:
        prefix: the kind of text, and its version.
        label: its name, for the refusal.
        fingerprint: of the key that signed.
        signature: of the body.
        body: what was signed.

    Raises:
        TooLarge: it is larger than an envelope can carry.
    """
    text = f"{prefix}.{fingerprint}.{base64_of(signature)}.{base64_of(body)}"
    if len(text) > TEXT_CHARACTERS:
        raise TooLarge(f"the {label} has {len(text)} characters, and an envelope carries {TEXT_CHARACTERS}")
    return text


def parts_of(prefix: str, label: str, text: str) -> tuple[str, bytes, bytes]:
    """The fingerprint, the signature and the body of what may be a signed text; nothing is verified.

    Raises:
        TooLarge: it is too long.
        Malformed: it is none, or of another kind.
    """
    if len(text) > TEXT_CHARACTERS:
        raise TooLarge(f"the {label} has {len(text)} characters, and {TEXT_CHARACTERS} are accepted")
    form = _TEXT.fullmatch(text)
    if form is None or form[1] != prefix:
        raise Malformed(f"the text does not have the form of a {label}")
    signature, body = unbase64(form[3]), unbase64(form[4])
    if signature is None or body is None:
        raise Malformed(f"the {label} is not written in base64")
    return form[2], signature, body


# Checks of fields; each raises Malformed


def word(field: str, value: Any) -> None:
    """Checks that a text, where there is one, is one printable word."""
    if value is not None and not (type(value) is str and value.isprintable() and " " not in value):
        raise Malformed(f"`{field}` must be one word of printable characters, not {repr(value)[:80]}")


def data(field: str, value: Any) -> None:
    """Checks plain data: texts, numbers, truth values, nothing; lists and mappings of these, not too deep."""
    waiting = [(value, 0)]
    while waiting:
        item, level = waiting.pop()
        if isinstance(item, str):
            _check_length(field, item, TEXT_CHARACTERS)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise Malformed(f"`{field}` holds a number that is none, or has no end")
        elif isinstance(item, int):  # bool is one
            if abs(item) > LARGEST_NUMBER:
                raise Malformed(f"`{field}` holds a number beyond 2**63 - 1")
        elif isinstance(item, (dict, list, tuple)):
            if level >= DEPTH:
                raise Malformed(f"`{field}` lies deeper than {DEPTH} lists and mappings")
            if isinstance(item, dict):
                for key in item:
                    _check_length(f"{field}: a name", key, NAME_CHARACTERS)
                waiting.extend((inner, level + 1) for inner in item.values())
            else:
                waiting.extend((inner, level + 1) for inner in item)
        elif item is not None:
            raise Malformed(f"`{field}` holds a {type(item).__name__}, which JSON has not")


def _check_length(field: str, value: Any, longest: int) -> None:
    if not isinstance(value, str):
        raise Malformed(f"`{field}` must be a text")
    if len(value) > longest:
        raise Malformed(f"`{field}` has {len(value)} characters, and {longest} are accepted")


# Steps of reading


def _decode(body: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    """Reads JSON of one shape.

    Raises:
        Malformed: it is none, or of another shape.
    """
    try:
        return decoder.decode(body)
    except RecursionError:
        raise Malformed("lists and mappings lie too deep in one another") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed(str(error)[:300]) from None


def _check_once(body: bytes, again: bytes) -> None:
    """Checks whether no name is given twice in one mapping.

    Readers differ in which of two they take. What was read, written again (`again`), has every name once, so bytes that
    are the same need no second look.

    Raises:
        Malformed: one is.
    """
    if body != again:
        try:
            json.loads(body.decode(), object_pairs_hook=_each_once)
        except (ValueError, RecursionError) as error:
            raise Malformed(str(error)[:300]) from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:80]!r} is given twice")
    return mapping
