"""What JSON from a stranger may hold: known shapes, bounded texts and numbers, and every name once.

A `Form` lists the fields of a shape, each with its check. `read` takes bytes through all checks in one call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import msgspec

from leasehold.impl.identity.refusal import Malformed

LARGEST_NUMBER = 2**63 - 1

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large an envelope and its parts may be. With other limits one actor refuses what another sends.

    Attributes:
        frame: bytes of the whole.
        text: characters of one text, credentials among them.
        name: characters of a name: of a lease, an actor, a field.
        address: characters of an address.
        depth: how deep lists and mappings may lie in one another within the fields.
    """

    frame: int = 256 * 1024
    text: int = 64 * 1024
    name: int = 200
    address: int = 500
    depth: int = 16


LIMITS = Limits()
Check: TypeAlias = Callable[[str, Any, Limits], None]  # of a field's name and value; raises Malformed
Form: TypeAlias = tuple[tuple[str, Check], ...]


def read(
    body: bytes, decoder: msgspec.json.Decoder[_T], encoder: msgspec.json.Encoder, form: Form, limits: Limits
) -> _T:
    """Reads JSON of one shape, whose fields have a form.

    Raises:
        Malformed: it is none, or of another shape; a field has another form; or a name is given twice.
    """
    found = _decode(body, decoder)
    check(found, form, limits)
    _check_once(body, encoder.encode(found))
    return found


def write(
    value: Any, what: str, decoder: msgspec.json.Decoder[Any], encoder: msgspec.json.Encoder, form: Form, limits: Limits
) -> bytes:
    """Writes JSON that `read` takes.

    Raises:
        Malformed: no reader would take it; this is a mistake of ours.
    """
    check(value, form, limits)
    try:
        body = encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"{what} cannot be written as JSON: {error}") from error
    _decode(body, decoder)
    return body


def check(value: Any, form: Form, limits: Limits) -> None:
    """Whether all fields of a value have their form.

    Raises:
        Malformed: one has not.
    """
    for field, check_field in form:
        check_field(field, getattr(value, field), limits)


# Checks of fields; each raises Malformed


def word(field: str, value: Any, limits: Limits, longest: int = 0) -> None:
    """A text that is one printable word."""
    if type(value) is str and 0 < len(value) <= (longest or limits.name) and value.isprintable() and " " not in value:
        return  # as nearly all are
    _text(field, value, longest or limits.name)
    raise Malformed(f"`{field}` must be one word of printable characters, not {value[:80]!r}")


def address(field: str, value: Any, limits: Limits) -> None:
    """An address, or nothing."""
    if value is not None:
        word(field, value, limits, limits.address)


def text(field: str, value: Any, limits: Limits) -> None:
    """A text that is not too long, or nothing."""
    if value is not None:
        _text(field, value, limits.text)


def name_like(pattern: str) -> Check:
    """A name as specifications write them."""
    form = re.compile(pattern)

    def name(field: str, value: Any, limits: Limits) -> None:
        _text(field, value, limits.name)
        if not form.fullmatch(value):
            raise Malformed(f"`{field}` must be a name of a specification, not {value[:80]!r}")

    return name


def number_from(least: int) -> Check:
    """A whole number that every store and language can hold."""

    def number(field: str, value: Any, limits: Limits) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST_NUMBER:
            raise Malformed(f"`{field}` must be a whole number from {least} to 2**63 - 1, not {repr(value)[:80]}")

    return number


def data(field: str, value: Any, limits: Limits) -> None:
    """Plain data: texts, numbers, truth values, nothing; lists and mappings of these, not too deep."""
    waiting = [(value, 0)]
    while waiting:
        item, level = waiting.pop()
        if isinstance(item, str):
            if len(item) > limits.text:
                _text(field, item, limits.text)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise Malformed(f"`{field}` holds a number that is none, or has no end")
        elif isinstance(item, int):  # bool is one
            if abs(item) > LARGEST_NUMBER:
                raise Malformed(f"`{field}` holds a number beyond 2**63 - 1")
        elif isinstance(item, (dict, list, tuple)):
            if level >= limits.depth:
                raise Malformed(f"`{field}` lies deeper than {limits.depth} lists and mappings")
            if isinstance(item, dict):
                for key in item:
                    if type(key) is not str or len(key) > limits.name:
                        _text(f"{field}: a name", key, limits.name)
                waiting.extend((inner, level + 1) for inner in item.values())
            else:
                waiting.extend((inner, level + 1) for inner in item)
        elif item is not None:
            raise Malformed(f"`{field}` holds a {type(item).__name__}, which JSON has not")


def _text(field: str, value: Any, longest: int) -> None:
    if not isinstance(value, str):
        raise Malformed(f"`{field}` must be a text")
    if len(value) > longest:
        raise Malformed(f"`{field}` has {len(value)} characters, and {longest} are accepted")


# Reading


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
    """Whether no name is given twice in one mapping.

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
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:80]!r} is given twice")
    return found
