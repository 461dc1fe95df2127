"""The outbox: an actor's messages, until they are taken.

Theory of operation (paper, section 4.2; "hang as long as you can"). To each neighbour of a machine at most one message
is under way: the one of its last transition that sent any, or, of a session (session.py), the oldest. It is sent again,
after a pause that doubles up to a limit and is never the same (backoff with jitter), until the receiver has taken it; a
request is said again, ever more rarely, and the more rarely the more of them wait at one peer, for as long as its state
waits for the answer, as the answer may have been lost with its sender; a machine at its end waits for none. A message
that the receiver refuses is not sent again; one that it does not trust is, after the longest pause, as it may be told
to, and so is each of a session. When the machine moves on to a state that says nothing to that neighbour, it is
dropped: the receiver would skip its number. What a state says that is left in the same turn is sent until it is taken.
Nothing here is durable: recovery says again what every state says, and sessions are kept with the record.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from leasehold.impl.actor.environment import Backoff
from leasehold.impl.actor.kept_values import ValueSender
from leasehold.impl.store.store import RecordKey
from leasehold.impl.transport.transport import Delivery, Reply, Transport

log = logging.getLogger("leasehold.outbox")

RARELY = 64  # the longest pause, where few wait, before a request that was taken is said again: multiples of the first
AT_ONCE = 16  # how many that wait at one peer are said again in the time of a first pause, however many there are


@dataclass(slots=True, eq=False)
class PendingSend:
    """One message under way."""

    key: RecordKey
    neighbour: int
    number: int
    message: str
    peer: str
    body: bytes
    last: bool  # nothing is waited for once it is taken
    ordered: bool = False  # it is of a session
    pages: Mapping[bytes, bytes] = field(default_factory=dict)  # of its large values, by digest
    tries: int = 0  # in a row that nobody took
    taken: int = 0  # times that it was
    times: int = 0  # that it was sent
    reason: str = ""  # why the last time came to nothing
    refused: bool = False  # the last time, by the receiver
    again: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None


class Outbox:
    """The messages of one actor that are under way.

    Args:
        transport: carries them.
        address_of: where a peer is reached; asked each time, as it may have moved.
        refused: hears of a message that its receiver refuses, and why.
        taken: hears that a message of a session was taken.
        backoff: when they are sent again.
        rng: of the jitter.
        owner: whose messages they are.

    Attributes:
        refusals: of machines that have not moved since: the message that was refused, and the reason.
    """

    def __init__(
        self,
        transport: Transport,
        address_of: Callable[[str], str],
        refused: Callable[[PendingSend, str], None],
        taken: Callable[[PendingSend], None],
        backoff: Backoff,
        rng: random.Random,
        owner: str = "",
    ) -> None:
        self._transport, self._address_of, self._refused, self._taken = transport, address_of, refused, taken
        self.backoff, self._rng = backoff, rng
        self._values = ValueSender(transport, owner)
        self._all: dict[RecordKey, dict[int, PendingSend]] = {}  # by machine and neighbour
        self._waiting: Counter[str] = Counter()  # by peer: requests that it has taken
        self._fresh: set[PendingSend] = set()  # on their way for the first time
        self.refusals: dict[RecordKey, tuple[str, str]] = {}
        self.stopped = False

    def __len__(self) -> int:
        return sum(map(len, self._all.values()))

    def __bool__(self) -> bool:
        return bool(self._all)

    def _each(self) -> Iterator[PendingSend]:
        return (pending for of_machine in self._all.values() for pending in of_machine.values())

    @property
    def sending(self) -> bool:
        """Returns whether a message is on its way for the first time."""
        return bool(self._fresh)

    def on_their_way(self) -> Counter[str]:
        """Returns, by peer, the number of messages neither taken nor refused; one to a busy receiver is among them."""
        return Counter(pending.peer for pending in self._each() if not (pending.taken or pending.refused))

    def of(self, key: RecordKey) -> tuple[PendingSend, ...]:
        """The messages of a machine."""
        return tuple(self._all.get(key, {}).values())

    def post(self, pending: PendingSend) -> None:
        """Sends a message in place of the one before it."""
        if self.stopped:
            return
        self.drop(pending.key, pending.neighbour)
        self._all.setdefault(pending.key, {})[pending.neighbour] = pending
        self._go(pending)

    def drop(self, key: RecordKey, neighbour: int) -> None:
        """Sends a message no more; it may have been heard all the same."""
        of_machine = self._all.get(key, {})
        pending = of_machine.pop(neighbour, None)
        if pending is None:
            return
        if not of_machine:
            del self._all[key]
        if pending.again is not None:
            pending.again.cancel()
        self._fresh.discard(pending)
        self._waiting[pending.peer] -= pending.taken > 0

    def hurry(self, peer: str) -> None:
        """A peer is there again: what waits to be sent to it once more is sent now."""
        for pending in tuple(self._each()):
            if pending.peer == peer and pending.again is not None:
                pending.again.cancel()
                self._go(pending)

    def keep(self, key: RecordKey, neighbours: frozenset[int]) -> None:
        """The machine has moved on: only messages to these neighbours are sent on."""
        for pending in self.of(key):
            if pending.neighbour not in neighbours and not pending.ordered:
                self.drop(key, pending.neighbour)

    def forget(self, key: RecordKey) -> None:
        """The machine is gone."""
        self.refusals.pop(key, None)
        for pending in self.of(key):
            self.drop(key, pending.neighbour)

    def _was_refused(self, pending: PendingSend, reason: str) -> None:
        self.refusals[pending.key] = pending.message, reason
        self._refused(pending, reason)

    async def close(self) -> None:
        """Stops saying anything."""
        self.stopped = True
        tasks = []
        for pending in self._each():
            if pending.again is not None:
                pending.again.cancel()
            if pending.task is not None:
                pending.task.cancel()
                tasks.append(pending.task)
        self._all.clear()
        self._waiting.clear()
        self._fresh.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _go(self, pending: PendingSend) -> None:
        pending.again = None
        if not pending.times:
            self._fresh.add(pending)
        pending.task = asyncio.get_running_loop().create_task(self._send(pending))

    async def _send(self, pending: PendingSend) -> None:
        address = self._address_of(pending.peer)
        pending.times += 1
        reply = (
            await self._transport.send(address, pending.body) if address else Reply(Delivery.UNREACHABLE, "no address")
        )
        if reply.answer is Delivery.LACKS:
            reply = await self._values.send(
                address, pending.body, pending.pages, reply, lambda: self._is_under_way(pending)
            )
        pending.task = None
        self._fresh.discard(pending)
        if not self._is_under_way(pending):
            return
        pending.reason, pending.refused = reply.reason, reply.answer in (Delivery.UNTRUSTED, Delivery.REFUSED)
        match reply.answer:
            case Delivery.TAKEN if pending.ordered:
                self.drop(pending.key, pending.neighbour)
                self._taken(pending)
            case Delivery.TAKEN if pending.last:
                self.drop(pending.key, pending.neighbour)
            case Delivery.TAKEN:
                pending.tries = 0
                self._waiting[pending.peer] += not pending.taken
                least = self._waiting[pending.peer] / AT_ONCE
                self._later(pending, self.backoff.ask_again * max(least, min(2**pending.taken, RARELY)))
                pending.taken = min(pending.taken + 1, RARELY)
            case Delivery.REFUSED if not pending.ordered:
                self.drop(pending.key, pending.neighbour)
                self._was_refused(pending, reply.reason)
            case Delivery.UNTRUSTED | Delivery.REFUSED:
                if not pending.tries:
                    self._was_refused(pending, reply.reason)
                pending.tries += 1
                self._later(pending, self.backoff.longest)
            case _:
                pending.tries += 1
                self._later(pending, min(self.backoff.first * 2 ** min(pending.tries - 1, 30), self.backoff.longest))

    def _is_under_way(self, pending: PendingSend) -> bool:
        return not self.stopped and self._all.get(pending.key, {}).get(pending.neighbour) is pending

    def _later(self, pending: PendingSend, pause: float) -> None:
        """After between half the pause and all of it."""
        jittered = pause * (0.5 + self._rng.random() / 2)
        pending.again = asyncio.get_running_loop().call_later(jittered, self._go, pending)
