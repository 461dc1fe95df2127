"""A simulated network between the actors of one process: it delivers, holds, loses, duplicates and partitions.

Theory of operation. A packet is in transit from when its sender sends it until it is delivered or lost, also when the
sender has died meanwhile. While the network *holds*, packets wait for the caller to deliver them, one by one and in any
order; otherwise each arrives after a delay drawn from the `NetworkConditions`. A delivered packet goes through the same
reception as over HTTP. An answer gets back only where the link lets it, and only to an incarnation that still lives.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from leasehold.faults.partition import LinkCuts
from leasehold.impl.transport.limits import TransportLimits
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Delivery, Receive, Reply, TransportError

SCHEME = "memory:"
LIMITS = TransportLimits(send_seconds=1.5)  # whoever is not answered says it again soon


@dataclass(frozen=True, slots=True)
class NetworkConditions:
    """The random faults of packets while the network does not hold.

    Attributes:
        lose, duplicate, unanswered: shares of packets, from 0 to 1: lost; delivered twice; taken, the answer lost.
        delay: the longest that a copy takes, in seconds; as delays differ, packets overtake each other.
    """

    lose: float = 0.0
    duplicate: float = 0.0
    unanswered: float = 0.0
    delay: float = 0.0


NO_FAULTS = NetworkConditions()


@dataclass(eq=False, slots=True)
class Packet:
    """One message in transit.

    Attributes:
        number: in the order of sending.
        source, target: the addresses.
        incarnation: of the sender's transport.
        body: the signed envelope.
        answer: the result that the sender waits for.
    """

    number: int
    source: str
    target: str
    incarnation: int
    body: bytes
    answer: asyncio.Future[Reply]
    _envelope: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def envelope(self) -> dict[str, Any]:
        """The envelope as plain data."""
        if self._envelope is None:
            self._envelope = msgspec.json.decode(self.body.partition(b"\n")[2])
        return self._envelope


class SimulatedNetwork:
    """The network.

    Attributes:
        holds: packets wait to be delivered by `deliver`.
        conditions: the faults of packets otherwise.
        cut: pairs of sender's and receiver's address between which nothing passes.
        in_transit: packets that are held.
        sent: all packets that were sent while it held, in order.
        delivered: packets that were delivered and acknowledged while it held, in order.
        lost: how many were lost.
        heard: hear each packet that its receiver has taken, or may have committed when it died.
    """

    def __init__(self, seed: int = 0, limits: TransportLimits = LIMITS) -> None:
        self.holds = False
        self.conditions = NO_FAULTS
        self.cut: set[tuple[str, str]] = set()
        self._cuts = LinkCuts()
        self.in_transit: list[Packet] = []
        self.sent: list[Packet] = []
        self.delivered: list[Packet] = []
        self.lost = 0
        self.heard: list[Callable[[Packet], None]] = []
        self.limits = limits
        self._members: dict[str, tuple[int, Reception]] = {}
        self._numbers = 0
        self._incarnations = 0
        self._random = random.Random(seed)

    # Members

    def join(self, address: str, reception: Reception) -> int:
        """Adds a receiver; returns the number of its incarnation."""
        if address in self._members:
            raise TransportError(f"the address {address} is in use")
        self._incarnations += 1
        self._members[address] = self._incarnations, reception
        return self._incarnations

    def leave(self, address: str, incarnation: int) -> None:
        if address in self._members and self._members[address][0] == incarnation:
            del self._members[address]

    # Partitions

    def part(self, links: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Lets no packet pass between some pairs of members' names, sender and receiver; returns what heals it."""
        cut = {(SCHEME + sender, SCHEME + receiver) for sender, receiver in links}
        self.cut |= cut
        return self._cuts.part(cut, self.cut.difference_update)

    # Packets

    async def carry(self, source: str, target: str, incarnation: int, body: bytes) -> Reply:
        """Sends a packet through the network; the answer may never come."""
        loop = asyncio.get_running_loop()
        self._numbers += 1
        packet = Packet(self._numbers, source, target, incarnation, body, loop.create_future())
        if self.holds:
            self.in_transit.append(packet)
            self.sent.append(packet)
        elif (source, target) in self.cut:
            self.lost += 1
        else:
            self._transmit(packet)
        return await packet.answer

    def _transmit(self, packet: Packet) -> None:
        conditions, chance = self.conditions, self._random
        if conditions is NO_FAULTS:
            self._arrive(packet, True)
            return
        if chance.random() < conditions.lose:
            self.lost += 1
            return
        answered = chance.random() >= conditions.unanswered
        for _ in range(2 if chance.random() < conditions.duplicate else 1):
            delay = chance.random() * conditions.delay
            asyncio.get_running_loop().call_later(delay, self._arrive, packet, answered)

    def _arrive(self, packet: Packet, answered: bool) -> None:
        if (packet.source, packet.target) in self.cut:
            self.lost += 1
        else:
            self.deliver(packet, answered and (packet.target, packet.source) not in self.cut)

    def deliver(self, packet: Packet, answered: bool = True) -> None:
        """Delivers a packet now, again if it was delivered before; its sender may get the answer."""
        if packet in self.in_transit:
            self.in_transit.remove(packet)
        loop = packet.answer.get_loop()
        loop.create_task(self._take(packet, answered))

    async def _take(self, packet: Packet, answered: bool) -> None:
        member = self._members.get(packet.target)
        if member is None:
            reply = Reply(Delivery.UNREACHABLE, f"nobody is at {packet.target}")
        else:
            incarnation, reception = member
            reply = await reception.take(packet.body, packet.source)
            died = self._members.get(packet.target, (0,))[0] != incarnation
            for hear in self.heard if died or reply.answer is Delivery.TAKEN else ():
                hear(packet)
            if died:
                return  # and its answer with it
        if answered and not packet.answer.done():
            packet.answer.set_result(reply)
            if self.holds and reply.answer is Delivery.TAKEN:
                self.delivered.append(packet)

    def lose(self, packet: Packet) -> None:
        """Loses a packet that is held."""
        self.in_transit.remove(packet)
        self.lost += 1

    def release(self) -> None:
        """Holds nothing any more: the packets that were held arrive, in the order in which they were sent."""
        self.holds = False
        for packet in tuple(self.in_transit):
            self.deliver(packet)


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
            return Reply(Delivery.UNREACHABLE, "this transport is closed")
        try:
            async with asyncio.timeout(self._network.limits.send_seconds):
                return await self._network.carry(self.address, address, self._incarnation, parcel)
        except TimeoutError:
            return Reply(Delivery.UNREACHABLE, "there was no answer in time")

    def die(self) -> None:
        """The process is gone: nothing is received, and no answer gets out."""
        self._network.leave(self.address, self._incarnation)
        self._reception = None

    async def close(self) -> None:
        reception = self._reception
        if reception is not None:
            self.die()
            await reception.close()
