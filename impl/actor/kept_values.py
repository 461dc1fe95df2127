"""Large values of messages: an actor keeps the pages that others have said, and says its own to who lacks them.

Theory of operation. A message names its large values by digest (impl/identity/pages.py). Its receiver puts them
together of the pages that it keeps, before anything else of it sees the message; where it lacks some, it answers which,
and has changed nothing. The sender sends these as frames of their own, and those that they name in turn, as far as they
are lacked, and then the message again. So what both have is never sent, and neither needs to know what the other has.

Pages are kept in memory only: after a restart they are asked for again. Only pages that an actor was asked for are
taken, and only trusted actors' messages ask for any. There is room for `ROOM` bytes in all; where it is used up, the
actor of which most is kept loses what it has not named for the longest time, so nobody takes the room of others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from leasehold.impl.identity import pages, signed
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.pages import VALUE_BYTES, Lacking
from leasehold.impl.identity.signed import Malformed, Refusal
from leasehold.impl.transport.transport import Delivery, Reply, Transport

ROOM = 64 * 1024 * 1024  # bytes of all pages that are kept
WANTED = 4096  # pages of one actor that are waited for
ROUNDS = 16  # times that a message is sent, with what its receiver lacks, before it waits


class KeptPages:
    """The pages that one actor has of others, by owner."""

    def __init__(self, room: int = ROOM) -> None:
        self.room, self.used = room, 0
        self._kept: dict[str, OrderedDict[bytes, bytes]] = {}  # what was named last comes last
        self._used: dict[str, int] = {}  # bytes, by owner
        self._wanted: dict[str, OrderedDict[bytes, None]] = {}

    def whole(self, envelope: Envelope) -> dict[str, Any]:
        """The fields of a message whose sender is known, with all values.

        Raises:
            Lacking: pages of them are not here; they are waited for.
            Malformed, TooLarge: they are no values.
        """
        owner, fields, room = envelope.sender, dict(envelope.fields), VALUE_BYTES
        lacking: list[bytes] = []
        for name, text in (envelope.values or {}).items():
            first = pages.digest_of(text)
            if first is None or name in fields:
                raise Malformed(f"{name[:80]!r} is given twice, or its digest is none")
            try:
                fields[name], room = pages.join(first, lambda digest: self._page(owner, digest), room)
            except Lacking as more:
                lacking += more.digests
        if lacking:
            raise self._want(owner, lacking)
        signed.data("values", {name: fields[name] for name in envelope.values or ()})
        return fields

    def take(self, frame: bytes) -> Reply:
        """A page comes; the reply names those of its own that are not here.

        Raises:
            Malformed, TooLarge: it is none.
            Refusal: nobody waits for it.
        """
        owner, body = pages.open_page(frame)
        name = pages.digest(owner, body)
        if self._page(owner, name) is None:
            wanted = self._wanted.get(owner)
            if wanted is None or name not in wanted:
                raise Refusal("nobody waits for this part of a value")
            pages.read_page(body)
            del wanted[name]
            self._keep(owner, name, body)
        lacking = [d for d in dict.fromkeys(pages.read_page(body).digests) if self._page(owner, d) is None]
        return lacks(self._want(owner, lacking[: pages.NAMED])) if lacking else Reply(Delivery.TAKEN)

    def _page(self, owner: str, name: bytes) -> bytes | None:
        kept = self._kept.get(owner)
        if kept is None or name not in kept:
            return None
        kept.move_to_end(name)
        return kept[name]

    def _want(self, owner: str, lacking: list[bytes]) -> Lacking:
        """Pages are waited for; of too many those that were asked for first no more."""
        lacking = lacking[: pages.NAMED]
        wanted = self._wanted.setdefault(owner, OrderedDict())
        for name in lacking:
            wanted[name] = None
            wanted.move_to_end(name)
        while len(wanted) > WANTED:
            wanted.popitem(last=False)
        return Lacking(lacking)

    def _keep(self, owner: str, name: bytes, body: bytes) -> None:
        self._kept.setdefault(owner, OrderedDict())[name] = body
        self._used[owner] = self._used.get(owner, 0) + len(body)
        self.used += len(body)
        while self.used > self.room:
            most = max(self._used, key=self._used.__getitem__)
            _, oldest = self._kept[most].popitem(last=False)
            self._used[most] -= len(oldest)
            self.used -= len(oldest)


def lacks(lacking: Lacking, proven: str = "") -> Reply:
    """The answer to a frame of which pages are not here."""
    return Reply(Delivery.LACKS, lacking.reason, proven)


class ValueSender:
    """Says values to who lacks them: to each peer one message's at a time, so that they have room there.

    Args:
        transport: carries them.
        owner: whose values they are.
    """

    def __init__(self, transport: Transport, owner: str) -> None:
        self._transport, self._owner = transport, owner
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by address

    async def send(
        self, address: str, frame: bytes, own: Mapping[bytes, bytes], reply: Reply, going_on: Callable[[], bool]
    ) -> Reply:
        """Sends the pages that a message's receiver lacks, and the message again.

        Args:
            address: of the receiver.
            frame: the message.
            own: all pages of the message. Of others nothing is sent, whoever asks.
            reply: the receiver's, which names what it lacks.
            going_on: whether the message is still to be sent.

        Returns:
            The reply to the message; `BUSY` where the receiver lacks pages all the same.
        """
        turn = self._turns.setdefault(address, asyncio.Lock())
        waits = turn.locked()
        async with turn:
            if waits and going_on():  # it may lack less by now
                reply = await self._transport.send(address, frame)
            for _ in range(ROUNDS):
                if reply.answer is not Delivery.LACKS:
                    return reply
                failed = await self._pages(address, own, reply, going_on)
                if failed is not None:
                    return failed
                reply = await self._transport.send(address, frame)
        if reply.answer is not Delivery.LACKS:
            return reply
        return Reply(Delivery.BUSY, "the receiver lacks values of the message, however often they are sent")

    async def _pages(
        self, address: str, own: Mapping[bytes, bytes], reply: Reply, going_on: Callable[[], bool]
    ) -> Reply | None:
        """Sends pages that are lacked, and those that these name, each once; returns a reply where that was in vain."""
        sent: set[bytes] = set()
        waiting = dict.fromkeys(name for name in pages.named_by(reply.reason) if name in own)
        if not waiting:
            return Reply(Delivery.BUSY, "the receiver lacks values that the message has not")
        while waiting and going_on():
            now = tuple(waiting)[: pages.NAMED]
            for name in now:
                del waiting[name]
            sent.update(now)
            frames = [pages.frame_of(self._owner, own[name]) for name in now]
            for one in await asyncio.gather(*(self._transport.send(address, body) for body in frames)):
                if one.answer is Delivery.LACKS:
                    named = pages.named_by(one.reason)
                    waiting.update((name, None) for name in named if name in own and name not in sent)
                elif one.answer is not Delivery.TAKEN:
                    return one if one.answer is Delivery.UNREACHABLE else Reply(Delivery.BUSY, one.reason)
        return None if going_on() else Reply(Delivery.UNREACHABLE, "the message is not to be sent any more")
