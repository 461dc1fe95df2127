"""A simulated network between the actors of one process: it delivers, holds, loses, duplicates and partitions.

Theory of operation. A packet is in transit from when its sender sends it until it is delivered or lost, also when the
sender has died meanwhile. While the network *holds*, packets wait for the caller to deliver them, one by one and in any
order; otherwise each has an outcome: how many copies of it arrive, after which delays, and whether its sender hears the
answer. A test's `rule` says so, or else chance, by the shares of the `NetworkConditions`. As delays
differ, packets overtake each other; nothing alters what is in them. A delivered packet goes through the same reception
as over HTTP. An answer gets back only where the link lets it, and only to an incarnation that still lives.

Whoever is not answered waits for its time limit, as in any network. Where time is real, the network may tell it at once
that nothing will come (`tells_losses`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from leasehold.faults.simulation.partition import LinkCuts
from leasehold.impl.transport.lanes import CLOSED, SendingEnd
from leasehold.impl.transport.limits import TransportLimits
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Delivery, Receive, Reply, TransportError

SCHEME = "memory:"
LIMITS = TransportLimits(send_seconds=1.5)  # whoever is not answered says it again soon


@dataclass(frozen=True, slots=True)
class PacketOutcome:
    """The outcome of one packet.

    Attributes:
        delays: for each copy that arrives, after how many seconds; none: the packet is lost.
        answered: whether the sender hears the answer.
    """

    delays: tuple[float, ...] = (0.0,)
    answered: bool = True


ARRIVES, LOST = PacketOutcome(), PacketOutcome(())
PacketRule: TypeAlias = Callable[
    [str, str, bytes], PacketOutcome
]  # of the sender's and receiver's address, and the frame


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

    def outcome(self, chance: random.Random) -> PacketOutcome:
        """Draws the outcome of a packet."""
        if self is NO_FAULTS:
            return ARRIVES
        if chance.random() < self.lose:
            return LOST
        answered = chance.random() >= self.unanswered
        copies = 2 if chance.random() < self.duplicate else 1
        return PacketOutcome(tuple(chance.random() * self.delay for _ in range(copies)), answered)


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

    Args:
        seed: of what is left to chance.
        limits: of all transports.
        rule: returns the outcome of each packet; left out: the conditions draw it.
        tells_losses: senders are told at once that their packet, or its answer, is lost.

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

    def __init__(
        self,
        seed: int = 0,
        limits: TransportLimits = LIMITS,
        rule: PacketRule | None = None,
        tells_losses: bool = False,
    ) -> None:
        self.holds = False
        self.conditions = NO_FAULTS
        self.cut: set[tuple[str, str]] = set()
        self._cuts = LinkCuts()
        self.in_transit: list[Packet] = []
        self.sent: list[Packet] = []
        self.delivered: list[Packet] = []
        self.lost = 0
        self.heard: list[Callable[[Packet], None]] = []
        self.limits, self.rule, self.tells_losses = limits, rule, tells_losses
        self._members: dict[str, SimulatedTransport] = {}
        self._numbers = 0
        self._incarnations = 0
        self._delayed = self._receiving = 0
        self._arrival = asyncio.Event()
        self._random = random.Random(seed)

    # Members

    def join(self, transport: SimulatedTransport) -> int:
        """Adds a receiver; returns the number of its incarnation.

        Raises:
            TransportError: there is one at this address.
        """
        address = transport.address
        if address in self._members:
            raise TransportError(f"the address {address} is in use; close its transport first, or choose another name")
        self._incarnations += 1
        self._members[address] = transport
        return self._incarnations

    def leave(self, transport: SimulatedTransport) -> None:
        if self._members.get(transport.address) is transport:
            del self._members[transport.address]

    # Partitions

    def part(self, links: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Lets no packet pass between some pairs of members' names, sender and receiver; returns what heals it."""
        cut = {(SCHEME + sender, SCHEME + receiver) for sender, receiver in links}
        self.cut |= cut
        return self._cuts.part(cut, self.cut.difference_update)

    # Packets

    async def carry(
        self, source: str, target: str, frame: bytes, incarnation: int = 0, answer: asyncio.Future[Reply] | None = None
    ) -> Reply:
        """Sends a packet through the network; the answer, which may be given by others too, may never come."""
        answer = answer or asyncio.get_running_loop().create_future()
        self._numbers += 1
        packet = Packet(self._numbers, source, target, incarnation, frame, answer)
        if self.holds:
            self.in_transit.append(packet)
            self.sent.append(packet)
        elif (source, target) in self.cut:
            self._lose(packet)
        else:
            self._transmit(packet)
        return await answer

    def _transmit(self, packet: Packet) -> None:
        if self.rule is None:
            outcome = self.conditions.outcome(self._random)
        else:
            outcome = self.rule(packet.source, packet.target, packet.body)
        if not outcome.delays:
            self._lose(packet)
        for delay in outcome.delays:
            if delay:
                self._delayed += 1
                asyncio.get_running_loop().call_later(delay, self._end_delay, packet, outcome.answered)
            else:
                self._arrive(packet, outcome.answered)

    def _end_delay(self, packet: Packet, answered: bool) -> None:
        self._delayed -= 1
        self._arrive(packet, answered)
        self._arrival.set()

    def _arrive(self, packet: Packet, answered: bool) -> None:
        if (packet.source, packet.target) in self.cut:
            self._lose(packet)
        else:
            self.deliver(packet, answered and (packet.target, packet.source) not in self.cut)

    def deliver(self, packet: Packet, answered: bool = True) -> None:
        """Delivers a packet now, again if it was delivered before; its sender may get the answer."""
        if packet in self.in_transit:
            self.in_transit.remove(packet)
        self._receiving += 1
        loop = packet.answer.get_loop()
        loop.create_task(self._take(packet, answered))

    async def _take(self, packet: Packet, answered: bool) -> None:
        try:
            reply = await self._reply(packet)
        finally:
            self._receiving -= 1
        if reply is None or not answered:
            self._tell_loss(packet, "the answer was lost")
        elif not packet.answer.done():
            packet.answer.set_result(reply)
            if self.holds and reply.answer is Delivery.TAKEN:
                self.delivered.append(packet)

    async def _reply(self, packet: Packet) -> Reply | None:
        """Returns the receiver's reply; None where it has died meanwhile."""
        member = self._members.get(packet.target)
        if member is None or member.reception is None:
            return Reply(Delivery.UNREACHABLE, f"nobody is at {packet.target[:200]}")
        reply = await member.reception.take(packet.body, packet.source)
        for hear in self.heard if member.died or reply.answer is Delivery.TAKEN else ():
            hear(packet)
        return None if member.died else reply

    def lose(self, packet: Packet) -> None:
        """Loses a packet that is held."""
        self.in_transit.remove(packet)
        self._lose(packet)

    def _lose(self, packet: Packet) -> None:
        self.lost += 1
        self._tell_loss(packet, "the frame was lost")

    def _tell_loss(self, packet: Packet, reason: str) -> None:
        if self.tells_losses and not packet.answer.done():
            packet.answer.set_result(Reply(Delivery.UNREACHABLE, reason))

    def release(self) -> None:
        """Holds nothing any more: the packets that were held arrive, in the order in which they were sent."""
        self.holds = False
        for packet in tuple(self.in_transit):
            self.deliver(packet)

    # Rest

    @property
    def busy(self) -> bool:
        """Returns whether a copy is under way that is not held."""
        return bool(self._delayed or self._receiving)

    async def arrivals(self) -> None:
        """Waits until every copy that is delayed has arrived."""
        while self._delayed:
            self._arrival.clear()
            await self._arrival.wait()


class SimulatedTransport(SendingEnd):
    """One incarnation of one actor on the network.

    Attributes:
        reception: receives for the actor; None: the transport is not open.
        died: the actor's process has ended, and no answer gets out of it.
    """

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        super().__init__(network.limits)
        self.address = SCHEME + name
        self._network = network
        self._incarnation = 0
        self.reception: Reception | None = None
        self.died = False
        self._waiting: set[asyncio.Future[Reply]] = set()

    async def start(self, receive: Receive) -> str:
        loop = asyncio.get_running_loop()
        self._incarnation = self._network.join(self)
        self.reception, self._closed, self.died = Reception(receive, self._limits, loop.time), False, False
        return self.address

    async def _send(self, address: str, frame: bytes) -> Reply:
        # When the time is over, the waiting for the answer ends: the packet itself goes on.
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.add(answer)
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                return await self._network.carry(self.address, address, frame, self._incarnation, answer)
        except TimeoutError:
            return Reply(Delivery.UNREACHABLE, "there was no answer in time")
        finally:
            self._waiting.discard(answer)

    def die(self) -> None:
        """The process is gone: nothing is received, and no answer gets out."""
        self.died, self.reception = True, None
        self._leave()

    def _leave(self) -> None:
        self._closed = True
        self._network.leave(self)

    async def close(self) -> None:
        reception, self.reception = self.reception, None
        self._leave()
        for answer in tuple(self._waiting):
            if not answer.done():
                answer.set_result(CLOSED)
        if reception is not None:
            await reception.close()
