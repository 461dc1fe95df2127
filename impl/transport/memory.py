"""A transport within one process: many actors on one event loop, and a hand that plays with what they send.

Fault model. A hand decides for each frame how many copies of it come, each after how many turns of the event loop, and
whether the sender hears the answer. So it may lose, duplicate, delay and (as delays differ) reorder; it never alters
what is in a frame. Nothing waits on a real clock: what is lost is answered UNREACHABLE at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from leasehold.impl.transport.lanes import SendingEnd
from leasehold.impl.transport.limits import LIMITS, TransportLimits
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Delivery, Receive, Reply, TransportError

SCHEME = "memory:"


@dataclass(frozen=True, slots=True)
class FrameOutcome:
    """The fate of one frame.

    Attributes:
        copies: for each copy that comes, after how many turns of the event loop; none: the frame is lost.
        answered: whether the sender hears the first copy's answer.
    """

    copies: tuple[int, ...] = (0,)
    answered: bool = True


Hand: TypeAlias = Callable[[str, str, bytes], FrameOutcome]  # of the sender's and the receiver's address, and the frame
_SAFE = FrameOutcome()


class Network:
    """The network that memory transports join.

    Attributes:
        hand: decides what becomes of frames; may be changed at any time. None: each comes once, at once.
    """

    def __init__(self, hand: Hand | None = None, limits: TransportLimits = LIMITS) -> None:
        self.hand, self.limits = hand, limits
        self._members: dict[str, Reception] = {}
        self._under_way: set[asyncio.Task[Reply]] = set()

    def join(self, address: str, reception: Reception) -> None:
        """Adds a receiver.

        Raises:
            TransportError: there is one at this address.
        """
        if address in self._members:
            raise TransportError(f"the address {address} is in use; close its transport first, or choose another name")
        self._members[address] = reception

    def leave(self, address: str, reception: Reception) -> None:
        if self._members.get(address) is reception:
            del self._members[address]

    async def carry(self, source: str, target: str, frame: bytes) -> Reply:
        """Carries a frame as the hand will have it."""
        fate = _SAFE if self.hand is None else self.hand(source, target, frame)
        if fate is _SAFE:
            return await self._deliver(source, target, frame, 0)
        copies = [
            asyncio.get_running_loop().create_task(self._deliver(source, target, frame, turns)) for turns in fate.copies
        ]
        for copy in copies:
            self._under_way.add(copy)
            copy.add_done_callback(self._under_way.discard)
        if not copies:
            return Reply(Delivery.UNREACHABLE, "the frame was lost")
        reply = await asyncio.shield(copies[0])
        return reply if fate.answered else Reply(Delivery.UNREACHABLE, "the answer was lost")

    @property
    def busy(self) -> bool:
        """Returns whether a copy is under way."""
        return bool(self._under_way)

    async def settle(self) -> None:
        """Waits until no copy is under way any more."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _deliver(self, source: str, target: str, frame: bytes, turns: int) -> Reply:
        for _ in range(turns):
            await asyncio.sleep(0)
        reception = self._members.get(target)  # looked up now, as it may have gone or come meanwhile
        if reception is None:
            return Reply(Delivery.UNREACHABLE, f"nobody is at {target[:200]}")
        return await reception.take(frame, source)


class MemoryTransport(SendingEnd):
    """One actor's end of a network."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network.limits)
        self.address = SCHEME + name
        self._network = network
        self._reception: Reception | None = None

    async def start(self, receive: Receive) -> str:
        reception = Reception(receive, self._limits)
        self._network.join(self.address, reception)
        self._reception, self._closed = reception, False
        return self.address

    async def _send(self, address: str, frame: bytes) -> Reply:
        # When the time is over, the waiting for the answer ends: the frame itself is still carried.
        return await self._answer_of(self._network.carry(self.address, address, frame))

    async def close(self) -> None:
        self._end_sending()
        if self._reception is not None:
            reception, self._reception = self._reception, None
            self._network.leave(self.address, reception)
            await reception.close()
