"""The actor: a server that plays roles for many leases, each on its own.

Theory of operation (paper, sections 3.3 and 4.2). An actor begins from its store (recovery.py), makes turns of the
requests that come to it (turns.py), and ends. What clients and peers ask of it becomes requests here.

When a commit fails, nobody knows what is durable: the actor stops taking steps (fail-stop), forgets what it has in
memory, and goes on through recovery when the store can be opened again. Recovery reads every record and starts the work
of its state; it asks nobody, and it is ordinary start-up. It is tried until it is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from leasehold.impl.actor import outside
from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.chronicle import Chronicle, RowCodec
from leasehold.impl.actor.detectors import Detectors
from leasehold.impl.actor.effects import EffectRunner
from leasehold.impl.actor.environment import ActorContext, ActorError, ActorOptions, Environment, EnvironmentMismatch
from leasehold.impl.actor.messages import EnvelopeCodec, MessageHandler, answer_to
from leasehold.impl.actor.outbox import Outbox
from leasehold.impl.actor.probes import UnitProbes
from leasehold.impl.actor.queries import PeerQueries
from leasehold.impl.actor.ready import Begin, Effect, PolicyCommand, Read, Ready, Recover, Tell, Tick
from leasehold.impl.actor.recovery import Recovery
from leasehold.impl.actor.remains import Remains
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineTable
from leasehold.impl.actor.turns import MOST, RequestQueue, TurnLoop
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.clock import ActorClock
from leasehold.impl.core.core import CoreError, Program
from leasehold.impl.identity.query import is_answer, is_query
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.identity.trust import Identity
from leasehold.impl.notices import Kind, SimulatedCrash
from leasehold.impl.policy.policy import is_quick
from leasehold.impl.store.store import Fenced, Older, RecordKey, Store, StoreError, low_words, words_of
from leasehold.impl.transport.transport import Delivery, Reply, Transport

log = logging.getLogger("leasehold.actor")

SLICE = 100  # effects of recovery that are carried out between two turns, once the actor serves


class Actor:
    """One actor.

    Args:
        identity: its name and key, and whom it trusts.
        program: the compiled system.
        roles: the roles that it plays.
        store: its records.
        transport: its way to others.
        clock: the time.
        environment: policies, handlers, and all else that belongs to one system or site.
        options: how it works.
    """

    stepper_type, queue_type = Stepper, RequestQueue

    def __init__(
        self,
        identity: Identity,
        program: Program,
        roles: tuple[str, ...],
        store: Store,
        transport: Transport,
        clock: ActorClock,
        environment: Environment | None = None,
        options: ActorOptions | None = None,
    ) -> None:
        self.identity, self.program, self.store, self.transport, self.clock = identity, program, store, transport, clock
        self.environment = environment or Environment()
        self.roles = frozenset(roles) | {sub.role for role in roles for sub in program.roles[role].below}
        self.running = False
        self.rows = RowCodec(program)
        table = self.table = MachineTable(program, self.roles)
        self.context = ActorContext(identity, program, table, clock, self.environment, options or ActorOptions())
        self.notices, self.counts, self._notify = self.context.notices, self.context.counts, self.context.tell
        self.queue, self.stepper = self.queue_type(), self.stepper_type(self.context)
        tick_seconds: float = getattr(clock, "tick_seconds", 0)
        self.codec = EnvelopeCodec(program, identity, self.environment.credentials, tick_seconds)
        self.messages = MessageHandler(self.stepper, self.codec)
        check, put = partial(outside.check, self.stepper, self.rows.codecs), self.queue.put_quietly
        self.upcalls = Upcalls(self.context, put, self.read, check)
        self.chronicle = Chronicle(self.context, store, self.rows, self.codec, self.upcalls.metadata)
        self.recovery = Recovery(self.context, store, self.rows, self.stepper, self.codec, self.chronicle, self.upcalls)
        to = self.messages.address_of
        if self.environment.directory is not None:
            self.environment.directory.address_of = to
        if self.environment.credentials is not None:
            self.environment.credentials.kept = table.kept
        self.effects = EffectRunner(self.context, self.codec, to, self.upcalls, put)
        self.queries = PeerQueries(self.context, self.read, to)
        parts = self.stepper, self.messages, self.upcalls, self.chronicle, self.effects
        self.turn_loop = TurnLoop(self.context, self.queue, *parts, self._reopen)
        self.probes = UnitProbes(self.context, lambda key: any(self.calls.of(key)), put, self._guard)
        self.detectors = Detectors(self.context, self.queue.put, self._guard)
        self.remains = Remains(self.context, self.probes, lambda: self.calls.unsure)
        self._tasks: list[asyncio.Task[None]] = []
        self._starting: asyncio.Task[None] | None = None  # carries out the rest of recovery's effects
        self._over: asyncio.Future[None] | None = None

    # Life

    async def start(self) -> str:
        """Opens the store, recovers every lease, and begins to serve; returns the actor's address.

        It may be tried again after an error.

        Raises:
            StoreError, RecordError, TransportError, EnvironmentMismatch: it cannot.
        """
        self._over = asyncio.get_running_loop().create_future()
        self.effects.open(self.transport)
        try:
            await self.recovery.acquire_store()
            # Peers that speak to it already are told to say it again later; and what recovery says tells where it is.
            self.codec.address = await self.transport.start(self.receive)
            self.queries.open(self.transport, self.codec.address)
            await self._recover()
        except BaseException:
            await self._stop_effects()
            await self.transport.close()
            await self.store.close()
            self.upcalls.renew()  # it may be started again
            raise
        self.running = True
        make, ticks = asyncio.get_running_loop().create_task, partial(self.clock.run, self._tick)
        self._tasks = [
            make(self._guard(self.turn_loop.run)),
            make(self._guard(ticks)),
            make(self._guard(self.remains.run)),
        ]
        self.probes.open()
        self.detectors.open()
        return self.codec.address

    async def stop(self) -> None:
        """Ends gracefully: what was accepted is committed, what runs in units goes on."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
        await self.transport.close()
        self.queue.closed = True
        while self.running and self.queue and self._tasks:
            await asyncio.sleep(0.001)
        last, running, self.running = Ready(self.clock.now(), seal="stop"), self.running, False
        await self._cancel()
        self.queue.close()
        if running and self.chronicle.asks(last):
            with suppress(StoreError):  # the events have digests all the same
                await self.chronicle.write(last)
        await self.store.close()

    async def kill(self) -> None:
        """Ends at once, as a crash would: what is not committed is lost, and nobody is told."""
        self.running = False
        self.queue.close()
        await self._cancel()
        await self.transport.close()

    async def over(self) -> None:
        """Waits until the actor has ended.

        Raises:
            StoreError: it was fenced: there is a newer incarnation.
        """
        assert self._over is not None
        await asyncio.shield(self._over)

    async def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self.queries.close()
        await self._stop_effects()

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        """Ends the actor with the error that ends one of its loops."""
        try:
            await work()
        except (asyncio.CancelledError, GeneratorExit):  # the latter: the loop is gone, and nothing can be awaited
            raise
        except BaseException as error:
            await self._end(error)

    async def _end(self, error: BaseException) -> None:
        """The actor ends with an error, which `over` raises."""
        self.running = False
        self.queue.close()
        await self._stop_effects()
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    async def _stop_effects(self) -> None:
        """Nothing is sent any more, and no handler is waited for."""
        if self._starting is not None and self._starting is not asyncio.current_task():
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        self._starting = None
        await self.probes.close()
        await self.detectors.close()
        self.upcalls.close()
        await self.effects.close()

    @property
    def outbox(self) -> Outbox:
        """The messages under way."""
        return self.effects.outbox

    @property
    def epoch(self) -> int:
        """The incarnation; 0: it has not begun yet."""
        return self.recovery.epoch

    @property
    def turns(self) -> asyncio.Task[None] | None:
        """The task that makes the turns, while there is one."""
        return self._tasks[0] if self._tasks else None

    @property
    def calls(self) -> HandlerCalls:
        """The handler calls under way."""
        return self.effects.calls

    # Recovery

    async def _recover(self) -> None:
        """Recovers from the store (recovery.py), and carries out what follows."""
        await self.recovery.read(self.effects.rng)
        ready = await self.recovery.begin_work()
        self.turn_loop.put_raised(ready)
        # Each message is signed, so that beginning all of many leases' work at once would keep the actor from serving.
        ready.effects, rest = ready.effects[:MOST], ready.effects[MOST:]
        await self.turn_loop.carry_out(ready)
        if rest:
            self._starting = asyncio.get_running_loop().create_task(self._guard(partial(self._start_the_rest, rest)))
        self.remains.recovered()
        self._notify(Kind.RECOVERED, machines=len(self.table.instances))

    async def _start_the_rest(self, effects: list[Effect]) -> None:
        """Starts recovered work between the turns; a lease that has left its state meanwhile starts nothing."""
        for first in range(0, len(effects), SLICE):
            self.effects.start(effects[first : first + SLICE])
            await asyncio.sleep(0)

    async def _reopen(self, error: Exception) -> None:
        """Fail-stop: no step until the store is open again and every record was read from it.

        Raises:
            Fenced, Older, CoreError, EnvironmentMismatch: no other try would cure it.
        """
        unknown = not isinstance(error, StoreError | CoreError)
        log.error("%s stops taking steps: %s", self.identity.name, words_of(error), exc_info=error if unknown else None)
        self._notify(Kind.STOPPED, reason=words_of(error))
        self.running = False
        self.queue.fail_waiting(f"the store has failed: {words_of(error)}")
        while not await self._try_reopen():
            pass
        self.running = True
        self.probes.open()
        self.detectors.open()
        self.queue.wake()  # timers may have become due
        log.info("%s goes on with %d machines", self.identity.name, len(self.table.instances))

    async def _try_reopen(self) -> bool:
        """One try to go on, after a pause. Any failure in it may be gone the next time: it is as if it had not been.

        Raises:
            Fenced, Older, CoreError, EnvironmentMismatch: no other try would cure it.
        """
        pause = self.context.options.reopen_pause
        try:
            await self._stop_effects()
            self.effects.open(self.transport)
            self.upcalls.renew()
            await self.store.close()
            await asyncio.sleep(pause)
            await self.recovery.acquire_store()
            await self._recover()
        except (Fenced, Older, CoreError, EnvironmentMismatch):
            raise
        except StoreError as error:
            log.error("%s cannot go on yet, and tries again in %g s: %s", self.identity.name, pause, error)
            return False
        except Exception:
            self.counts["errors"] += 1
            log.exception("%s cannot go on yet, and tries again in %g s", self.identity.name, pause)
            await asyncio.sleep(pause)  # it may have come before the one above
            return False
        return True

    # Requests

    async def receive(self, frame: bytes) -> Reply:
        """A frame of the transport: refused, or taken when what follows from it is committed."""
        if not self.running:
            return Reply(Delivery.UNREACHABLE, "the actor is not taking steps")
        proven = ""
        try:
            message = self.queries.take(frame) if is_query(frame) or is_answer(frame) else self.codec.open(frame)
            if isinstance(message, Reply):
                return message
            proven = message.envelope.sender
            if (low := low_words(self.store)) and message.key not in self.table.instances:
                return Reply(Delivery.BUSY, low, proven)
            await self.queue.put(message)
        except Refusal as refusal:
            self.counts["messages refused"] += 1
            try:
                self._notify(Kind.REFUSED, reason=refusal.reason)
            except SimulatedCrash as crash:  # neither of the actor's loops could hear it here
                await self._end(crash)
                for task in self._tasks:
                    task.cancel()
                raise
            return Reply(answer_to(refusal), refusal.reason, proven or refusal.proven)
        except ActorError as error:
            return Reply(Delivery.UNREACHABLE, str(error), proven)
        return Reply(Delivery.TAKEN, proven=proven)

    def begin(self, lease: str, machine: str, event: str, fields: Mapping[str, Any], peers: Mapping[str, str]) -> Any:
        """A client begins a lease (or run); returns a future of the outcome.

        Args:
            lease: its name, ORIGIN:NUMBER.
            machine: the machine of this actor that begins it.
            event: the local event.
            fields: its fields by name.
            peers: for each neighbour of the machine the actor that plays it.
        """
        return self.queue.put(Begin(RecordKey(lease, machine), event, fields, peers))

    def tell(self, lease: str, machine: str, event: str, fields: Mapping[str, Any] | None = None) -> Any:
        """A client's event for a machine; returns a future of the outcome, or of an ActorError that says why not."""
        return self.queue.put(Tell(RecordKey(lease, machine), event, fields or {}))

    def recover(self, lease: str, machine: str) -> Any:
        """The scalpel (paper, section 4.2): a recovery event for one machine."""
        return self.queue.put(Recover(RecordKey(lease, machine)))

    def command(self, role: str, method: str, *arguments: Any, client: str = "", **options: Any) -> Any:
        """A client's command for the policy of a role; returns a future that is done when the wish is durable.

        What a named `client` demands is its own, and is held to its quota.
        """
        command = PolicyCommand(role, method, arguments, options, client)
        policy = self.environment.policies.get(role)
        if self.running and policy is not None and not is_quick(policy):
            return self.upcalls.command_later(command)
        return self.queue.put(command)

    def read(self, view: Callable[[], Any] = lambda: None) -> Any:
        """Looks at the actor's leases; returns a future of what was seen, all of which is durable."""
        return self.queue.put(Read(view))

    @property
    def idle(self) -> bool:
        """Returns whether nothing waits, no handler is at work, and no message is on its way at this moment."""
        starting = self._starting is not None and not self._starting.done()
        asked = self.upcalls.busy or self.calls.under_way() or self.probes.asking
        at_work = bool(self.queue) or starting or asked or self.outbox.sending
        return not (self.running and at_work)

    async def _tick(self, now: int) -> None:
        if self.running:
            try:
                await self.queue.put(Tick(now))
            except ActorError as error:
                log.warning("%s misses tick %d: %s", self.identity.name, now, error)
