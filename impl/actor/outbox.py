"""What an actor has to say, until it is heard.

Theory of operation (paper, section 4.2; "hang as long as you can"). To each neighbour of a machine at most one message
is under way: the one of its last transition that sent any. It is sent again, after a pause that doubles up to a limit
and is never the same (backoff with jitter), until the receiver has taken it; a request is said again, though rarely,
for as long as its state waits for the answer, as the answer may have been lost with its sender; a machine at its end
waits for none. A message that the receiver refuses is not sent again; one that it does not trust is, after the longest
pause, as it may be told to. When the machine moves on to a state that says nothing to that neighbour, it is dropped:
the receiver would skip its number. Nothing here is durable: recovery says again what every state says.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from leasehold.impl.store.store import Key
from leasehold.impl.transport.transport import Answer, Reply, Transport

log = logging.getLogger("leasehold.outbox")


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long to wait before something is said again, in seconds.

    Attributes:
        first: after the first time.
        longest: the limit of the doubling.
        ask_again: for a request that was taken and not answered yet.
    """

    first: float = 0.1
    longest: float = 30.0
    ask_again: float = 15.0


@dataclass(slots=True, eq=False)
class Parcel:
    """One message under way."""

    key: Key
    neighbour: int
    number: int
    message: str
    address: Callable[[], str]  # asked each time, as an actor may have moved
    body: bytes
    last: bool  # nothing is waited for once it is taken
    tries: int = 0  # in a row that nobody took
    times: int = 0  # that it was sent
    reason: str = ""  # why the last time came to nothing
    again: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None


class Outbox:
    """The messages of one actor that are under way."""

    def __init__(
        self, transport: Transport, refused: Callable[[Parcel, str], None], pauses: Pauses, rng: random.Random
    ) -> None:
        self._transport, self._refused, self.pauses, self._rng = transport, refused, pauses, rng
        self._all: dict[tuple[Key, int], Parcel] = {}
        self.stopped = False

    def __len__(self) -> int:
        return len(self._all)

    @property
    def sending(self) -> bool:
        """Whether a message is on its way for the first time."""
        return any(parcel.task is not None and parcel.times <= 1 for parcel in self._all.values())

    def of(self, key: Key) -> Iterator[Parcel]:
        """What a machine has to say."""
        return (parcel for (other, _), parcel in tuple(self._all.items()) if other == key)

    def post(self, parcel: Parcel) -> None:
        """Sends a message in place of the one before it."""
        if self.stopped:
            return
        self.drop(parcel.key, parcel.neighbour)
        self._all[parcel.key, parcel.neighbour] = parcel
        self._go(parcel)

    def drop(self, key: Key, neighbour: int) -> None:
        """Says no more of a message; it may have been heard all the same."""
        parcel = self._all.pop((key, neighbour), None)
        if parcel is not None and parcel.again is not None:
            parcel.again.cancel()

    def keep(self, key: Key, count: int, said: frozenset[int]) -> None:
        """The machine has moved on: only what its state says is said on."""
        for neighbour in range(count):
            if neighbour not in said:
                self.drop(key, neighbour)

    async def close(self) -> None:
        """Stops saying anything."""
        self.stopped = True
        tasks = []
        for parcel in self._all.values():
            if parcel.again is not None:
                parcel.again.cancel()
            if parcel.task is not None:
                parcel.task.cancel()
                tasks.append(parcel.task)
        self._all.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _go(self, parcel: Parcel) -> None:
        parcel.again = None
        parcel.task = asyncio.get_running_loop().create_task(self._send(parcel))

    async def _send(self, parcel: Parcel) -> None:
        address = parcel.address()
        parcel.times += 1
        reply = await self._transport.send(address, parcel.body) if address else Reply(Answer.UNREACHABLE, "no address")
        parcel.task = None
        if self._all.get((parcel.key, parcel.neighbour)) is not parcel or self.stopped:
            return
        parcel.reason = reply.reason
        match reply.answer:
            case Answer.TAKEN if parcel.last:
                self.drop(parcel.key, parcel.neighbour)
            case Answer.TAKEN:
                parcel.tries = 0
                self._later(parcel, self.pauses.ask_again)
            case Answer.REFUSED:
                self.drop(parcel.key, parcel.neighbour)
                self._refused(parcel, reply.reason)
            case Answer.UNTRUSTED:
                if not parcel.tries:
                    self._refused(parcel, reply.reason)
                parcel.tries += 1
                self._later(parcel, self.pauses.longest)
            case _:
                parcel.tries += 1
                self._later(parcel, min(self.pauses.first * 2 ** min(parcel.tries - 1, 30), self.pauses.longest))

    def _later(self, parcel: Parcel, pause: float) -> None:
        """After between half the pause and all of it."""
        jittered = pause * (0.5 + self._rng.random() / 2)
        parcel.again = asyncio.get_running_loop().call_later(jittered, self._go, parcel)
