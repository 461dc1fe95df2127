"""What an actor asks of its transport.

Theory of operation (paper, section 4.2). A transport carries frames (bytes) to addresses, at least once and in any
order; sequence numbers make of that what the machines need. It answers whether the receiver has *taken* a frame, that
is, committed what follows from it; without that answer the sender sends again, for as long as its record asks for it.
Recovery never depends on what a transport keeps.

A frame is one signed envelope (impl/identity); a transport neither reads nor trusts it. What limits strangers (size,
rate, number of connections) is the transport's; who may say what is the actor's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias


class Delivery(Enum):
    """What became of a frame."""

    TAKEN = "taken"  # committed, or a duplicate of what was
    REFUSED = "refused"  # the receiver will never take it: the sender must not send it again
    UNTRUSTED = "untrusted"  # the receiver does not trust the sender or its key, and may be told to
    UNREACHABLE = "unreachable"  # not known: it may or may not have come
    BUSY = "busy"  # the receiver takes no more at the moment


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a frame, and why it was refused."""

    answer: Delivery
    reason: str = ""


Receive: TypeAlias = Callable[[bytes], Awaitable[Reply]]


class TransportError(Exception):
    """The transport itself cannot start: an address in use, a server that is not there, bad settings."""


class Transport(Protocol):
    """Carries frames."""

    async def start(self, receive: Receive) -> str:
        """Begins to receive; answers the address that others may send to.

        Raises:
            TransportError: it cannot.
        """
        ...

    async def send(self, address: str, frame: bytes) -> Reply:
        """Carries a frame, and waits for the answer within the transport's time limit. Never raises."""
        ...

    async def close(self) -> None:
        """Stops receiving, lets what is being received end within a moment, and gives everything up."""
        ...
