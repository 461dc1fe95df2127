"""A network between actors of one process that does as it is told: it carries, holds, loses, repeats and cuts off.

Theory of operation. A parcel is on its way from when its sender sends it until it is delivered or lost, also when the
sender has died meanwhile. While the network *holds*, parcels wait for whoever plays the network to deliver them, one
by one and in any order; while it does not, each comes after a delay that a `Weather` chooses. What is delivered goes
through the same reception as over HTTP. An answer gets back only where the link lets it, and only to an incarnation
that still lives.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from leasehold.impl.transport.limits import Limits
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Answer, Receive, Reply, TransportError

SCHEME = "memory:"
LIMITS = Limits(send_seconds=1.5)  # whoever is not answered says it again soon


@dataclass(frozen=True, slots=True)
class Weather:
    """What the network does by chance to each parcel while it does not hold.

    Attributes:
        lose, duplicate, unanswered: shares of parcels, from 0 to 1: lost; come twice; taken, but the answer is lost.
        delay: the longest that a copy takes, in seconds; as delays differ, parcels overtake each other.
    """

    lose: float = 0.0
    duplicate: float = 0.0
    unanswered: float = 0.0
    delay: float = 0.0


CALM = Weather()


@dataclass(eq=False, slots=True)
class Parcel:
    """One parcel on its way.

    Attributes:
        number: in the order of sending.
        source, target: the addresses.
        incarnation: of the sender's transport.
        body: what it carries.
        answer: what the sender waits for.
    """

    number: int
    source: str
    target: str
    incarnation: int
    body: bytes
    answer: asyncio.Future[Reply]
    _said: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def said(self) -> dict[str, Any]:
        """The envelope in it, as plain data."""
        if self._said is None:
            self._said = msgspec.json.decode(self.body.partition(b"\n")[2])
        return self._said


class SimulatedNetwork:
    """The network.

    Attributes:
        holds: parcels wait to be delivered by `deliver`.
        weather: what becomes of them otherwise.
        cut: pairs of sender's and receiver's address between which nothing passes.
        under_way: parcels that are held.
        brought: parcels that were delivered and acknowledged while it held, in order.
        lost: how many were lost.
    """

    def __init__(self, seed: int = 0, limits: Limits = LIMITS) -> None:
        self.holds = False
        self.weather = CALM
        self.cut: set[tuple[str, str]] = set()
        self.under_way: list[Parcel] = []
        self.brought: list[Parcel] = []
        self.lost = 0
        self.limits = limits
        self._members: dict[str, tuple[int, Reception]] = {}
        self._numbers = 0
        self._incarnations = 0
        self._random = random.Random(seed)

    # Members

    def join(self, address: str, reception: Reception) -> int:
        """Adds a receiver; answers the number of its incarnation."""
        if address in self._members:
            raise TransportError(f"the address {address} is in use")
        self._incarnations += 1
        self._members[address] = self._incarnations, reception
        return self._incarnations

    def leave(self, address: str, incarnation: int) -> None:
        if address in self._members and self._members[address][0] == incarnation:
            del self._members[address]

    # What is carried

    async def carry(self, source: str, target: str, incarnation: int, body: bytes) -> Reply:
        """Carries a parcel as the network will have it; the answer may never come."""
        loop = asyncio.get_running_loop()
        self._numbers += 1
        parcel = Parcel(self._numbers, source, target, incarnation, body, loop.create_future())
        if self.holds:
            self.under_way.append(parcel)
        elif (source, target) in self.cut:
            self.lost += 1
        else:
            self._let_go(parcel)
        return await parcel.answer

    def _let_go(self, parcel: Parcel) -> None:
        weather, chance = self.weather, self._random
        if weather is CALM:
            self.deliver(parcel)
            return
        if chance.random() < weather.lose:
            self.lost += 1
            return
        answered = chance.random() >= weather.unanswered
        for _ in range(2 if chance.random() < weather.duplicate else 1):
            delay = chance.random() * weather.delay
            asyncio.get_running_loop().call_later(delay, self._arrive, parcel, answered)

    def _arrive(self, parcel: Parcel, answered: bool) -> None:
        if (parcel.source, parcel.target) in self.cut:
            self.lost += 1
        else:
            self.deliver(parcel, answered and (parcel.target, parcel.source) not in self.cut)

    def deliver(self, parcel: Parcel, answered: bool = True) -> None:
        """Delivers a parcel now, whether it was delivered before or not; its sender may hear the answer."""
        if parcel in self.under_way:
            self.under_way.remove(parcel)
        loop = parcel.answer.get_loop()
        loop.create_task(self._take(parcel, answered))

    async def _take(self, parcel: Parcel, answered: bool) -> None:
        member = self._members.get(parcel.target)
        if member is None:
            reply = Reply(Answer.UNREACHABLE, f"nobody is at {parcel.target}")
        else:
            incarnation, reception = member
            reply = await reception.take(parcel.body, parcel.source)
            if self._members.get(parcel.target, (0,))[0] != incarnation:
                return  # it has died, and its answer with it
        if answered and not parcel.answer.done():
            parcel.answer.set_result(reply)
            if self.holds and reply.answer is Answer.TAKEN:
                self.brought.append(parcel)

    def lose(self, parcel: Parcel) -> None:
        """A parcel that is held does not come."""
        self.under_way.remove(parcel)
        self.lost += 1

    def release(self) -> None:
        """Holds nothing any more: what was held comes, in the order in which it was sent."""
        self.holds = False
        for parcel in tuple(self.under_way):
            self.deliver(parcel)

    def find(self, wanted: Callable[[Parcel], bool]) -> Parcel | None:
        """The first parcel under way of a kind."""
        return next(filter(wanted, self.under_way), None)


class SimulatedTransport:
    """One incarnation of one actor on the network."""

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        self.address = SCHEME + name
        self._network = network
        self._incarnation = 0
        self._reception: Reception | None = None

    async def start(self, receive: Receive) -> str:
        loop = asyncio.get_running_loop()
        self._reception = Reception(receive, self._network.limits, loop.time)
        self._incarnation = self._network.join(self.address, self._reception)
        return self.address

    async def send(self, address: str, parcel: bytes) -> Reply:
        if self._reception is None:
            return Reply(Answer.UNREACHABLE, "this transport is closed")
        try:
            async with asyncio.timeout(self._network.limits.send_seconds):
                return await self._network.carry(self.address, address, self._incarnation, parcel)
        except TimeoutError:
            return Reply(Answer.UNREACHABLE, "there was no answer in time")

    def die(self) -> None:
        """The process is gone: nothing is received, and no answer gets out."""
        self._network.leave(self.address, self._incarnation)
        self._reception = None

    async def close(self) -> None:
        reception = self._reception
        if reception is not None:
            self.die()
            await reception.close()
