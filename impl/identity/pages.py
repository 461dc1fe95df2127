"""Large values by digest: plain data cut into pages, and put together again.

Theory of operation. A message names a large value by the digest of its first page, and the message's signature covers
that name. A page is MessagePack of a kind and a list:

    VALUE   one value
    LIST    members of a list             LISTS   digests of the pages whose members follow one another
    MAP     names, each with its member   MAPS    digests, likewise

A member of more than `MEMBER` bytes has pages of its own; in its place stands their digest, as bytes, which plain data
never is. Members themselves say where a page ends (their hash does), so values that differ in few members have all
other pages in common, wherever something was put in; and a value has the same pages each time.

Nobody signs a page: who wants it knows its digest. That covers the owner, who signs the messages, so what one actor has
said serves no message of another, and nobody finds out by asking what another has said. Pages have one form each, and
what is read of them is bounded: a page may stand in many places, and is counted in each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from leasehold.impl.identity import signed
from leasehold.impl.identity.keys import base64_of, unbase64
from leasehold.impl.identity.signed import Malformed, Refusal, TooLarge

SMALL = 1024  # bytes up to which a field is written into its message
VALUE_BYTES = 8 * 1024 * 1024  # of all pages of one message, each counted as often as it stands there
DEPTH = 64  # pages within one another
NAMED = 64  # digests that one answer names, and about as many a page

MEMBER = 256  # bytes up to which a member is written into its page
WHOLE = 8192  # bytes up to which a member that is not is one page
PAGE = 512  # bytes that a page of members has on average
VALUE, LIST, MAP, LISTS, MAPS = range(5)

_HEAD = re.compile(rb"leasehold1page ([!-~]{1,200})\n")
START = b"leasehold1page "
_encode = msgspec.msgpack.Encoder(order="sorted").encode
_decode = msgspec.msgpack.Decoder().decode


class Lacking(Refusal):
    """Some pages of a value are not here: until they come, and no longer.

    Attributes:
        digests: of the first of them.
    """

    def __init__(self, digests: Sequence[bytes]) -> None:
        super().__init__(names_of(digests))
        self.digests = digests


class Page(NamedTuple):
    """A page.

    Attributes:
        size: its bytes.
        digests: the pages that it names.
    """

    kind: int
    items: Any
    size: int
    digests: Sequence[bytes]


def names_of(digests: Iterable[bytes]) -> str:
    """Digests as an answer names them."""
    return " ".join(map(base64_of, digests))


def named_by(reason: str) -> list[bytes]:
    """The digests that an answer names, each once; what is none is left out."""
    digests = (digest_of(name) for name in reason.split()[:NAMED])
    return list(dict.fromkeys(digest for digest in digests if digest is not None))


def digest_of(name: str) -> bytes | None:
    """The digest that a text names; None: it is none."""
    raw = unbase64(name)
    return raw if raw is not None and len(raw) == 32 else None


def digest(owner: str, body: bytes) -> bytes:
    """Returns what the page of an owner is known by."""
    return sha256(b"leasehold page\0%b\0%b" % (owner.encode(), body)).digest()


def frame_of(owner: str, body: bytes) -> bytes:
    """A page as a frame."""
    return START + owner.encode() + b"\n" + body


def open_page(frame: bytes) -> tuple[str, bytes]:
    """The owner and the body of a page in a frame; nothing is verified.

    Raises:
        TooLarge: it has too many bytes.
        Malformed: it is none.
    """
    if len(frame) > signed.FRAME_BYTES:
        raise TooLarge(f"the frame has {len(frame)} bytes, and {signed.FRAME_BYTES} are accepted")
    head = _HEAD.match(frame)
    if head is None:
        raise Malformed("the frame does not begin with the line of a page")
    return head[1].decode(), frame[head.end() :]


# Cutting


def is_large(value: Any) -> bool:
    """Returns whether a field is too large to be written into its message; what cannot be written anywhere is not."""
    if type(value) in (int, bool, float, type(None)):
        return False
    try:
        return len(_encode(value)) > SMALL
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def cut(owner: str, value: Any) -> tuple[bytes, dict[bytes, bytes]]:
    """The digest of a value's first page, and all its pages by digest.

    Raises:
        TooLarge: a page is larger than a frame may be, or all together are larger than a message may be.
    """
    cutter = _Cutter(owner)
    first = cutter.members(value)
    if cutter.size > VALUE_BYTES:
        raise TooLarge(f"a value has {cutter.size} bytes, and the values of a message may have {VALUE_BYTES}")
    return first, cutter.pages


class _Cutter:
    """Cuts one value."""

    def __init__(self, owner: str) -> None:
        self.owner, self.size = owner, 0
        self.pages: dict[bytes, bytes] = {}

    def keep(self, kind: int, items: Any) -> bytes:
        body = _encode([kind, items])
        if len(frame_of(self.owner, body)) > signed.FRAME_BYTES:
            raise TooLarge(f"a part of a value has {len(body)} bytes, and a frame may have {signed.FRAME_BYTES}")
        name = digest(self.owner, body)
        self.pages[name] = body
        self.size += len(body)
        return name

    def members(self, value: Any) -> bytes:
        """Pages of the members of a value, or one of a value that has none."""
        if isinstance(value, list | tuple):
            return self.gather(LIST, [(self.member(item),) for item in value])
        if isinstance(value, dict):
            return self.gather(MAP, [(name, self.member(item)) for name, item in sorted(value.items())])
        return self.keep(VALUE, value)

    def member(self, value: Any) -> Any:
        size = len(_encode(value))
        if size <= MEMBER:
            return value
        return self.keep(VALUE, value) if size <= WHOLE else self.members(value)

    def gather(self, kind: int, entries: list[tuple[Any, ...]]) -> bytes:
        """The first page of entries, as many as may be in each, and the pages of these likewise."""
        pages = [self.keep(kind, [item for entry in part for item in entry]) for part in _parts(entries)]
        if len(pages) == 1:
            return pages[0]
        return self.gather(LISTS if kind in (LIST, LISTS) else MAPS, [(page,) for page in pages])


def _parts(entries: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """Entries in parts, of two at least but for the last; an entry's hash says whether its part ends with it."""
    parts: list[list[tuple[Any, ...]]] = [[]]
    for entry in entries:
        if len(parts[-1]) == NAMED:
            parts.append([])
        parts[-1].append(entry)
        body = _encode(entry)
        if len(parts[-1]) > 1 and int.from_bytes(sha256(body).digest()[:4]) * PAGE < len(body) << 32:
            parts.append([])
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


# Putting together


def read_page(body: bytes) -> Page:
    """A page of its one form.

    Raises:
        Malformed: it is none, or is written otherwise.
    """
    try:
        content = _decode(body)
        if _encode(content) != body:
            raise Malformed("a page of a value has names that are given twice, or is not written as pages are")
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise Malformed(f"a page of a value cannot be read: {str(error)[:200]}") from None
    match content:
        case [int(kind), items] if kind == VALUE and kind is not False:
            return Page(kind, items, len(body), ())
        case [int(kind), list(items)] if LIST <= kind <= MAPS and kind is not True:
            digests = [item for item in items if isinstance(item, bytes)]
            names = items[::2] if kind == MAP else ()
            good = all(len(one) == 32 for one in digests) and all(isinstance(name, str) for name in names)
            if good and (kind < LISTS or len(digests) == len(items)) and (kind != MAP or len(items) % 2 == 0):
                return Page(kind, items, len(body), digests)
    raise Malformed("a page of a value is of no kind that there is")


def join(first: bytes, page_of: Callable[[bytes], bytes | None], room: int = VALUE_BYTES) -> tuple[Any, int]:
    """A value of its pages, and what is left of the room.

    Args:
        first: the digest of its first page.
        page_of: the body of a page, where it is there.
        room: bytes that it may have.

    Raises:
        Lacking: pages are not there.
        TooLarge: it has more bytes.
        Malformed: it is no plain data, or a name is given twice.
    """
    joiner = _Joiner(page_of, room)
    value = joiner.value(first, 0)
    if joiner.lacking:
        raise Lacking(tuple(joiner.lacking)[:NAMED])
    return value, joiner.room


class _Joiner:
    """Puts one value together."""

    def __init__(self, page_of: Callable[[bytes], bytes | None], room: int) -> None:
        self.page_of, self.room = page_of, room
        self.lacking: dict[bytes, None] = {}

    def value(self, name: bytes, deep: int) -> Any:
        page = self.page(name, deep)
        if page is None or page.kind == VALUE:
            return None if page is None else page.items
        mapping: dict[str, Any] | None = {} if page.kind in (MAP, MAPS) else None
        members: list[Any] = []
        self.add(page, members, mapping, deep)
        return members if mapping is None else mapping

    def page(self, name: bytes, deep: int) -> Page | None:
        """A page that is a part of the value; None: it is not here."""
        if deep > DEPTH:
            raise Malformed(f"pages of a value lie deeper than {DEPTH} in one another")
        body = self.page_of(name)
        if body is None:
            self.lacking[name] = None
            return None
        self.room -= len(body)
        if self.room < 0:
            raise TooLarge(f"the values of a message have more than {VALUE_BYTES} bytes")
        return read_page(body)

    def add(self, page: Page, members: list[Any], mapping: dict[str, Any] | None, deep: int) -> None:
        """Adds the members of a page, in their order."""
        items = page.items
        if page.kind in (LISTS, MAPS):
            for name in items:
                part = self.page(name, deep + 1)
                if part is None:
                    continue
                if part.kind not in ((LIST, LISTS) if page.kind == LISTS else (MAP, MAPS)):
                    raise Malformed("a page of a list or mapping is another's")
                self.add(part, members, mapping, deep + 1)
        elif page.kind == LIST:
            members += (self.value(item, deep + 1) if isinstance(item, bytes) else item for item in items)
        elif mapping is not None:
            for name, item in zip(items[::2], items[1::2], strict=True):
                if name in mapping:
                    raise Malformed(f"{name[:80]!r} is given twice")
                mapping[name] = self.value(item, deep + 1) if isinstance(item, bytes) else item
