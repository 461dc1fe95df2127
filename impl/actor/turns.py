"""The turns of an actor: the queue of its requests, and the loop that takes them.

Theory of operation (paper, sections 3.3 and 4.2). All that moves a machine comes through one queue: messages, answers,
ticks, clients' commands. One loop takes what is there as a *turn*, and each request asks something of the machines,
which are stepped in memory. That gives a `Ready` (ready.py): a value that says what follows. It is carried out in an
order that never changes: the commit of all records that have changed at once (group commit, chronicle.py), then what is
sent and started (effects.py), then the replies. So what anybody has seen of a turn is durable.

A turn that cannot be committed, or would spoil a record, is answered as such, and the actor recovers (actor.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

from leasehold.impl.actor import outside, session
from leasehold.impl.actor.chronicle import Chronicle
from leasehold.impl.actor.drafts import EventDraft
from leasehold.impl.actor.effects import EffectRunner
from leasehold.impl.actor.environment import ActorContext, ActorError
from leasehold.impl.actor.messages import MessageHandler
from leasehold.impl.actor.raising import EventRaising
from leasehold.impl.actor.ready import (
    Acknowledge,
    Begin,
    Complete,
    Consume,
    Decide,
    Deliver,
    Follow,
    Observe,
    PolicyCommand,
    Raise,
    Read,
    Ready,
    Recheck,
    Recover,
    Request,
    SealEvents,
    Tell,
    Tick,
    TickPolicies,
    requests_of,
)
from leasehold.impl.actor.session import ChannelFull
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.core.core import CoreError
from leasehold.impl.events.event import ForgottenEvent
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import Fenced, words_of

MOST = 1_000  # requests of one turn
QUIET = 4  # rounds of the event loop: as many lie between bytes at a socket and the request in them

Answer: TypeAlias = Decide | Complete | Observe | Raise | Recheck

# Where the event of a step comes from, by the request that brings it.
_CAUSES: Mapping[type, str] = {
    Begin: "client",
    Tell: "client",
    Decide: "policy",
    Complete: "handler",
    Observe: "probe",
    Recheck: "subsidiary",
}


class Queued(NamedTuple):
    """A request, and the future of its reply, which is given after the commit; None where nobody waits for it."""

    request: Request
    reply: asyncio.Future[Any] | None = None

    def answer(self, reply: Any) -> None:
        """Gives the reply. A view is taken now, when all that it sees is durable."""
        future = self.reply
        if future is None or future.done():
            return
        if isinstance(self.request, Read):
            try:
                reply = self.request.view()
            except Exception as error:
                reply = ActorError(f"{type(error).__name__}: {error}")
                reply.__cause__ = error
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    def fail(self, reason: str) -> None:
        """Says that there will be no reply."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(ActorError(reason))
            self.reply.exception()  # nobody may be waiting for it


class RequestQueue:
    """The requests of one actor, in the order in which they came.

    Attributes:
        closed: there will be no turn any more; who puts a request learns so.
        waiting: those that no turn has taken yet.
        turn: those of the turn that is made.
        turn_began: when it began, by the monotonic clock; None: none is made.
    """

    def __init__(self) -> None:
        self.closed = False
        self.turn: list[Queued] = []
        self.turn_began: float | None = None
        self.waiting: deque[Queued] = deque()
        self._more = asyncio.Event()
        self._woken = False
        self._gathering = False  # rounds are made: so many in which nothing came, and how much waited before
        self._quiet = self._before = 0

    def __bool__(self) -> bool:
        """Returns whether a turn is made, or something waits for one."""
        return bool(self.waiting) or self.turn_began is not None or self._woken

    def put(self, request: Request) -> asyncio.Future[Any]:
        """Adds a request; returns the future of its reply."""
        queued = Queued(request, asyncio.get_running_loop().create_future())
        if self.closed:
            queued.fail("the actor has ended")
        else:
            self.waiting.append(queued)
            self._gather()
        assert queued.reply is not None
        return queued.reply

    def put_quietly(self, request: Request) -> None:
        """Adds a request of which nobody awaits the reply."""
        self.waiting.append(Queued(request))
        self._gather()

    def wake(self) -> None:
        """A turn is made, after the one under way, though nothing waits: timers may have become due."""
        self._woken = True
        self._gather()

    def _gather(self) -> None:
        """Lets the event loop read on until nothing has been put for a while; then a turn begins.

        So one commit serves all that has come to this process at the same time.
        """
        if self.turn_began is None and not self._gathering and not self._more.is_set():
            self._gathering, self._quiet, self._before = True, 0, len(self.waiting)
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        count = len(self.waiting)
        self._quiet, self._before = 0 if count > self._before else self._quiet + 1, count
        if self._quiet < QUIET and count < MOST:
            asyncio.get_running_loop().call_soon(self._round)
        else:
            self._gathering = False
            self._more.set()

    async def begin(self) -> None:
        """Waits until there is a reason to make a turn; it begins, and takes what it wants of those that wait."""
        await self._more.wait()
        self._more.clear()
        self._woken = False
        self.turn, self.turn_began = [], monotonic()

    def end(self) -> None:
        """The turn is over; another follows if more waits."""
        self.turn_began = None
        if self.waiting or self._woken:
            self._gather()

    def fail_turn(self, reason: str) -> None:
        """Says to those of the turn that there will be no reply."""
        for queued in self.turn:
            queued.fail(reason)

    def fail_waiting(self, reason: str) -> None:
        """Says so to those that wait, and forgets them."""
        waiting, self.waiting = self.waiting, deque()
        for queued in waiting:
            queued.fail(reason)

    def close(self) -> None:
        """Says so to all, and to those that are put from now on."""
        self.closed = True
        self.fail_turn("the actor has ended")
        self.fail_waiting("the actor has ended")


class TurnLoop:
    """Makes the turns of an actor.

    Args:
        context: of the actor.
        queue: its requests.
        stepper: steps its machines.
        messages: consumes those of peers.
        upcalls: ask its policies.
        chronicle: commits what a turn has changed.
        effects: carries out what follows a commit.
        reopen: recovers from an error after which nobody knows what is durable, or what is in memory.
    """

    def __init__(
        self,
        context: ActorContext,
        queue: RequestQueue,
        stepper: Stepper,
        messages: MessageHandler,
        upcalls: Upcalls,
        chronicle: Chronicle,
        effects: EffectRunner,
        reopen: Callable[[Exception], Awaitable[None]],
    ) -> None:
        self.clock, self.table, self.name = context.clock, context.table, context.identity.name
        self.retire_after, self.keeps_events = context.options.retire_after, context.options.events is not None
        self.queue, self.stepper, self.messages, self.upcalls = queue, stepper, messages, upcalls
        self._raising = EventRaising(stepper)
        self.chronicle, self.effects, self.notices, self._reopen = chronicle, effects, context.notices, reopen

    async def run(self) -> None:
        """Makes turns without an end."""
        while True:
            await self.queue.begin()
            await self._take_turn()
            self.queue.end()

    async def _take_turn(self) -> None:
        """One turn: the requests that wait, stepped, and what follows from them, carried out."""
        queue, ready = self.queue, Ready(self.clock.now())
        try:
            while queue.waiting and len(queue.turn) < MOST:  # those that are raised meanwhile are among them
                queued = queue.waiting.popleft()
                queue.turn.append(queued)
                try:
                    ready.replies.append(self.take(ready, queued.request))
                except (ActorError, Refusal) as error:
                    ready.replies.append(error)
                self.put_raised(ready)
            self.stepper.expire(ready)
            self.put_raised(ready)
        except CoreError as error:
            # Part of it may be in memory already, and must not be committed with the others.
            queue.fail_turn(f"a record would have been spoilt: {error}")
            await self._reopen(error)
            return
        try:
            await self.carry_out(ready)
        except Fenced:
            queue.fail_turn("another incarnation of this actor has taken over")
            raise
        except Exception as error:  # a driver may raise anything when its connection breaks
            queue.fail_turn(f"it could not be committed: {words_of(error)}")
            await self._reopen(error)
            return
        for queued, reply in zip(queue.turn, ready.replies, strict=True):
            queued.answer(reply)

    def put_raised(self, ready: Ready) -> None:
        """Requests that follow from others take their turn after all that wait already."""
        for request in ready.raised:
            self.queue.put_quietly(request)
        ready.raised.clear()

    async def carry_out(self, ready: Ready) -> None:
        """Commits what a turn has changed; then tells of it, and sends and starts what follows."""
        await self.chronicle.commit(ready)
        for notice in ready.notices:
            self.notices.tell(notice)
        self.effects.carry_out(ready)

    # Requests

    def take(self, ready: Ready, request: Request) -> Any:
        """Takes a request; what follows from it is added to the `Ready`.

        Raises:
            ActorError, Refusal: it asks for something that cannot be; nothing has changed.
            CoreError: the specification is at fault, and nothing of the turn may be committed.
        """
        match request:
            case Deliver():
                return self.messages.deliver(ready, request)
            case Follow() | SealEvents():
                return self.chronicle.take(ready, request)
            case PolicyCommand():
                ready.raised += requests_of(self.upcalls.command(request, self.clock.now()))
                return None
            case Read():
                return None
        stepper = self.stepper
        ready.begin(request.cause if isinstance(request, Raise) else _CAUSES.get(type(request), ""))
        match request:
            case Decide() | Complete() | Observe() | Raise() | Recheck():
                try:
                    return self._answer(ready, request)
                except ChannelFull:
                    self.table.held.append(request)
                    return None
            case Tick(now):
                return self._tick(ready, now)
            case Consume(key, event):
                return stepper.step(ready, stepper.find(key), event)
            case Begin():
                return outside.begin(stepper, ready, request)
            case Tell():
                return outside.tell(stepper, ready, request)
            case Recover(key):
                return stepper.recover(ready, stepper.find(key))
            case Acknowledge():
                return stepper.acknowledge(ready, request)

    def _answer(self, ready: Ready, request: Answer) -> None:
        """An answer of a task or probe; one for which a channel has no room yet comes again when there is some."""
        match request:
            case Decide(decision):
                outside.decide(self.stepper, ready, decision)
            case Complete():
                outside.complete(self.stepper, ready, request)
            case Observe():
                outside.observe(self.stepper, ready, request)
            case Raise():
                self._raising.take(ready, request)
            case Recheck(key):
                if (instance := self.table.instances.get(key)) is not None:
                    self.stepper.recheck(ready, instance)

    def _tick(self, ready: Ready, now: int) -> None:
        """The clock has come to a time: policies hear of it, and leases that have been over for long enough go."""
        self.chronicle.tick(ready)
        before = now - self.retire_after
        for instance in self.table.ended(before):
            below = self.table.last_with(instance)
            if self._may_forget(instance, below, now):
                for machine in (instance, *below):
                    ready.drop(machine.key)
                    if self.keeps_events:
                        fields = {"lease": machine.key.lease, "machine": machine.key.machine, "state": machine.state}
                        ready.events.append(EventDraft(ForgottenEvent, fields))
                ready.metadata.update(self.table.forget(instance))
            else:
                self.table.remember(instance, before + 1)
        self.stepper.standing.ensure(ready)
        for key in tuple(self.stepper.standing.new):
            self.stepper.start_again(ready, self.stepper.find(key))
        self.stepper.send_owed(ready)
        ready.effects.append(TickPolicies(now))

    def _may_forget(self, instance: MachineInstance, below: Sequence[MachineInstance], now: int) -> bool:
        """Returns whether nobody objects to forgetting a machine, and some subsidiary ones with it."""
        if session.SESSIONS in instance.metadata:
            return False  # others have not heard all yet
        if self.upcalls.reads(instance.key):
            return False
        if not self.notices.subscribers:
            return True
        core, peers = instance.core, instance.peers
        data = {"over": instance.metadata["over"], "peers": peers, "data": core.view(instance.record)}
        if below:
            data["below"] = {m.key.machine: {"state": m.state, "data": m.core.view(m.record)} for m in below}
        notice = Notice(Kind.FORGET, self.name, *instance.key, instance.state, now, data)
        return self.notices.tell(notice) is not None
