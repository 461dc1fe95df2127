"""The limits of a transport: sizes, counts, seconds, and how often somebody may be refused before it must wait.

Theory of operation. A refusal is charged to the actor that has signed the frame, where that was verified, else to the
remote address. Several actors may share an address, so a stranger there must keep none of them away: a connection over
which something proven came waits for its actor's refusals alone, and any other may try one frame, however often its
address was refused.

Nothing here reads a clock: the time is passed in, in seconds of any steady clock.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import Any

from leasehold.impl.transport.transport import Delivery, Reply, TransportError

_PEERS = 10_000


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """The limits of one transport. Actors that talk to each other need the same sizes.

    Attributes:
        parcel: bytes of one frame.
        body: bytes of one request, which may carry several frames.
        batch: frames of one request.
        in_flight: requests to one address that wait for their answers at the same time.
        waiting: frames to one address that wait to be sent; more are answered BUSY here.
        receiving: frames that are being received at the same time, from all; more are answered BUSY.
        connections: connections from one remote address; with more, the oldest that has proven nothing is closed.
        connections_in_all: from all addresses together; with more, the oldest that has proven nothing is closed, of the
            address that has the most.
        reserve: descriptors of the process that connections leave to handlers, the store and the control socket.
        backlog: connections that wait to be accepted.
        header_seconds: within which a request must have come, from a connection's begin or the request's first byte.
        body_seconds: within which the body of a request must have come.
        taking_seconds: within which the other side must go on to take an answer.
        idle_seconds: after which a connection without requests is closed.
        answer_seconds: within which the actor answers a frame.
        send_seconds: within which `send` ends.
        refusals: frames and requests of one actor or remote address that may be refused before it must wait ...
        refusals_per_second: ... and how many more with every second.
        close_seconds: that `close` gives to what is being received.
    """

    parcel: int = 256 * 1024
    body: int = 1024 * 1024
    batch: int = 256
    in_flight: int = 4
    waiting: int = 10_000
    receiving: int = 4096
    connections: int = 256
    connections_in_all: int = 1024
    reserve: int = 256
    backlog: int = 512
    header_seconds: float = 10
    body_seconds: float = 10
    taking_seconds: float = 30
    idle_seconds: float = 75
    answer_seconds: float = 10
    send_seconds: float = 15
    refusals: int = 100
    refusals_per_second: float = 10
    close_seconds: float = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.type == "int"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not value > 0:
                kind = "whole number" if whole else "number"
                raise TransportError(f"the limit `{field.name}` must be a {kind} above 0, not {str(value)[:40]!r}")
        if self.body < self.parcel + 4:
            raise TransportError(f"the limit `body` ({self.body}) must hold one frame ({self.parcel}) and 4 bytes more")

    def too_large(self, frame: bytes) -> Reply:
        """The reply to a frame with more bytes than `parcel`."""
        return Reply(Delivery.REFUSED, f"the frame has {len(frame)} bytes, and {self.parcel} are accepted")


LIMITS = TransportLimits()


class TokenBucket:
    """A token bucket: so much at once, and so much more with every second."""

    __slots__ = ("_burst", "_rate", "_then", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._then = float(burst), now

    def take(self, now: float) -> bool:
        """Takes one, if there is one."""
        if self.wait(now) > 0:
            return False
        self._tokens -= 1
        return True

    def use(self, now: float) -> None:
        """Takes one, or what there is."""
        self.wait(now)
        self._tokens = max(self._tokens - 1, 0.0)

    def wait(self, now: float) -> float:
        """The seconds until there is one; 0: there is."""
        if now > self._then:  # a clock that goes back gives nothing
            self._tokens = min(self._burst, self._tokens + (now - self._then) * self._rate)
            self._then = now
        return max(0.0, (1 - self._tokens) / self._rate)

    def full(self, now: float) -> bool:
        """Returns whether nothing of it is used up."""
        self.wait(now)
        return self._tokens >= self._burst


@dataclass(slots=True)
class Connection:
    """A connection from a remote address.

    Attributes:
        proven: the actor that the last verified frame was of; empty: none was yet.
        tried: whether it had its one frame, while its address has to wait.
    """

    address: str
    proven: str = ""
    tried: bool = False


class Refusals:
    """The refusals of each actor and remote address. Those that were not refused for a while are forgotten."""

    def __init__(self, limits: TransportLimits) -> None:
        self._limits = limits
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def wait(self, peer: str, now: float) -> float:
        """The seconds for which nothing is taken from an actor or address; 0: it may speak."""
        bucket = self._buckets.get(peer)
        return bucket.wait(now) if bucket is not None else 0.0

    def add(self, peer: str, now: float) -> None:
        """An actor or address was refused."""
        bucket = self._buckets.get(peer)
        if bucket is None:
            bucket = self._buckets[peer] = TokenBucket(self._limits.refusals_per_second, self._limits.refusals, now)
        self._buckets.move_to_end(peer)
        bucket.use(now)
        while len(self._buckets) > 1 and (
            len(self._buckets) > _PEERS or next(iter(self._buckets.values())).full(now)
        ):  # the first is the one that was refused longest ago
            self._buckets.popitem(last=False)


class SparseLog:
    """A log that strangers cannot fill: so many lines of a kind, and the count of those left out."""

    def __init__(self, logger: logging.Logger, per_second: float = 1, burst: int = 10) -> None:
        self._logger, self._rate, self._burst = logger, per_second, burst
        self._buckets: dict[str, TokenBucket] = {}
        self._left_out: dict[str, int] = {}

    def warning(self, now: float, kind: str, message: str, *values: Any, exc_info: BaseException | None = None) -> None:
        """Logs a line of a kind; kinds are few and ours, never a stranger's words."""
        bucket = self._buckets.get(kind)
        if bucket is None:
            bucket = self._buckets[kind] = TokenBucket(self._rate, self._burst, now)
        if not bucket.take(now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        left_out = self._left_out.pop(kind, 0)
        if left_out:
            message, values = message + " (and %d more of this kind before it, not logged)", (*values, left_out)
        self._logger.warning(message, *values, exc_info=exc_info)
