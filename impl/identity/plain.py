"""What JSON from a stranger may hold: known shapes, bounded texts and numbers, and every name once."""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar

import msgspec

from leasehold.impl.identity.refusal import Malformed

LARGEST_NUMBER = 2**63 - 1

_T = TypeVar("_T")


def decode(body: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
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


def check_once(body: bytes, again: bytes) -> None:
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


def check_word(field: str, value: Any, longest: int) -> None:
    """Whether a text is one printable word.

    Raises:
        Malformed: it is not.
    """
    if type(value) is str and 0 < len(value) <= longest and value.isprintable() and " " not in value:
        return  # as nearly all are
    check_text(field, value, longest)
    if not value or not value.isprintable() or " " in value:
        raise Malformed(f"`{field}` must be one word of printable characters, not {value[:80]!r}")


def check_form(field: str, value: Any, form: re.Pattern[str], longest: int) -> None:
    """Whether a text is a name as specifications write them.

    Raises:
        Malformed: it is not.
    """
    check_text(field, value, longest)
    if not form.fullmatch(value):
        raise Malformed(f"`{field}` must be a name of a specification, not {value[:80]!r}")


def check_text(field: str, value: Any, longest: int) -> None:
    """Whether a value is a text that is not too long.

    Raises:
        Malformed: it is not.
    """
    if not isinstance(value, str):
        raise Malformed(f"`{field}` must be a text")
    if len(value) > longest:
        raise Malformed(f"`{field}` has {len(value)} characters, and {longest} are accepted")


def check_number(field: str, value: Any, least: int) -> None:
    """Whether a value is a whole number that every store and language can hold.

    Raises:
        Malformed: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST_NUMBER:
        raise Malformed(f"`{field}` must be a whole number from {least} to 2**63 - 1, not {repr(value)[:80]}")


def check_value(field: str, value: Any, depth: int, text: int, name: int) -> None:
    """Whether a value is plain: texts, numbers, truth values, nothing; lists and mappings of these, not too deep.

    Raises:
        Malformed: it is not.
    """
    waiting = [(value, 0)]
    while waiting:
        item, level = waiting.pop()
        if isinstance(item, str):
            if len(item) > text:
                check_text(field, item, text)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise Malformed(f"`{field}` holds a number that is none, or has no end")
        elif isinstance(item, int):  # bool is one
            if abs(item) > LARGEST_NUMBER:
                raise Malformed(f"`{field}` holds a number beyond 2**63 - 1")
        elif isinstance(item, (dict, list, tuple)):
            if level >= depth:
                raise Malformed(f"`{field}` lies deeper than {depth} lists and mappings")
            if isinstance(item, dict):
                for key in item:
                    if type(key) is not str or len(key) > name:
                        check_text(f"{field}: a name", key, name)
                waiting.extend((inner, level + 1) for inner in item.values())
            else:
                waiting.extend((inner, level + 1) for inner in item)
        elif item is not None:
            raise Malformed(f"`{field}` holds a {type(item).__name__}, which JSON has not")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:80]!r} is given twice")
    return found
