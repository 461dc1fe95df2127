"""The interface of transports.

Theory of operation (paper, section 4.2). A transport carries frames (bytes) to addresses, at least once and in any
order; sequence numbers give the machines order and uniqueness. The reply says whether the receiver has *taken* a frame,
that is, committed its effects; without that reply the sender sends again, for as long as its record asks for it.
Recovery never depends on the state of a transport.

A frame is one signed envelope (impl/identity); a transport neither reads nor trusts it. The transport limits strangers
(size, rate, number of connections); the actor decides who may send which message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias


class Delivery(Enum):
    """The outcome of sending a frame."""

    TAKEN = "taken"  # committed, or a duplicate of what was
    REFUSED = "refused"  # the receiver will never take it: the sender must not send it again
    UNTRUSTED = "untrusted"  # the receiver does not trust the sender or its key, and may be told to
    UNREACHABLE = "unreachable"  # not known: it may or may not have come
    BUSY = "busy"  # the receiver takes no more at the moment
    LACKS = "lacks"  # the receiver has not all values that the frame names: they are to be sent before it


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of sending a frame, and the reason of a refusal.

    Attributes:
        reason: why; of `LACKS` the digests of what is lacked.
        proven: the actor that has signed the frame, where the receiver has verified that; it does not go back.
    """

    answer: Delivery
    reason: str = ""
    proven: str = ""


Receive: TypeAlias = Callable[[bytes], Awaitable[Reply]]


class TransportError(Exception):
    """The transport itself cannot start: an address in use, a server that is not there, bad settings."""


class Transport(Protocol):
    """Carries frames."""

    async def start(self, receive: Receive) -> str:
        """Begins to receive; returns the address for other actors.

        Raises:
            TransportError: it cannot.
        """
        ...

    async def send(self, address: str, frame: bytes) -> Reply:
        """Carries a frame, and waits for the answer within the transport's time limit. Never raises."""
        ...

    async def close(self) -> None:
        """Stops receiving, gives frames that are being received a moment to end, and closes all connections."""
        ...
