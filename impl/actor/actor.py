"""The actor: a server that plays roles for many leases, each on its own.

Theory of operation (paper, sections 3.3 and 4.2). All that moves a machine comes through one queue: messages, answers,
ticks, words of clients. One loop takes what is there as a *turn*: it steps the machines in memory, commits all records
that have changed at once (group commit), and only then acknowledges, sends, and begins tasks. No other code writes a
record. So what anybody has seen of a turn is durable.

When a commit fails, nobody knows what is durable: the actor stops taking steps (fail-stop), forgets what it has in
memory, and goes on through recovery when the store can be opened again. Recovery reads every record and starts the work
of its state; it asks nobody, and it is ordinary start-up. It is tried until it is done.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from leasehold.impl.actor.calls import Handlers
from leasehold.impl.actor.extensions import Extensions
from leasehold.impl.actor.held import Held, Rows, machine_of, role_of
from leasehold.impl.actor.identity import Identity
from leasehold.impl.actor.mail import Mail, Refusal
from leasehold.impl.actor.memory import Memory
from leasehold.impl.actor.outbox import Outbox
from leasehold.impl.actor.post import Post
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.setting import ActorError, Options, World
from leasehold.impl.actor.steps import Steps
from leasehold.impl.actor.turn import Turn
from leasehold.impl.clock import Clock
from leasehold.impl.core.core import Program
from leasehold.impl.core.errors import CoreError, RecordError
from leasehold.impl.core.event import Event
from leasehold.impl.core.event import local as local_event
from leasehold.impl.core.values import ValueFault, named_fields
from leasehold.impl.core.work import Outcome
from leasehold.impl.migrate.layout import SPECIFICATION, Layout, refusal, with_command
from leasehold.impl.notices import Kind, Notice, Notices
from leasehold.impl.policy.inventory import InventoryError
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.store import Batch, Fenced, Key, Older, Store, StoreError
from leasehold.impl.transport.transport import Transport

log = logging.getLogger("leasehold.actor")

MOST = 1_000  # events of one turn
SLICE = 100  # pieces of recovered work that are begun between two turns, once the actor serves


@dataclass(slots=True)
class _Item:
    """Something to be done in a turn; its answer goes out after the commit."""

    do: Callable[[Turn], Any]
    done: asyncio.Future[Any] | None = None


class Actor:
    """One actor.

    Args:
        identity: its name and key, and whom it trusts.
        program: the compiled system.
        roles: the roles that it plays.
        store: its records.
        transport: its way to others.
        clock: the time.
        world: policies and handlers.
        options: how it works.
    """

    def __init__(
        self, identity: Identity, program: Program, roles: tuple[str, ...], store: Store, transport: Transport,
        clock: Clock, world: World | None = None, options: Options | None = None,
    ) -> None:  # fmt: skip
        self.identity, self.program, self.store, self.transport, self.clock = identity, program, store, transport, clock
        self.world, self.options = world or World(), options or Options()
        self.roles = frozenset(roles) | {sub.role for role in roles for sub in program.roles[role].below}
        self.notices = Notices()
        self.mail = Mail(program, identity, self.world.peers, getattr(clock, "tick_seconds", 0))
        self.rows = Rows(program)
        self._layout = Layout.of(program).write()
        self.counts: dict[str, int] = {}
        self.epoch = 0
        self.running = False
        self._rng = random.Random(self.options.seed)
        self._queue: deque[_Item] = deque()
        self._current: list[_Item] = []  # what the turn answers that is being made
        self._more = asyncio.Event()
        self._busy = False
        self._ended = False
        self._tasks: list[asyncio.Task[None]] = []
        self._beginning: asyncio.Task[None] | None = None  # what recovery has left to begin
        self._over: asyncio.Future[None] | None = None
        self.memory = Memory(program, self.roles)
        self.steps, self.post, self.extensions = Steps(self), Post(self, self.mail), Extensions(self)

    # Life

    async def start(self) -> str:
        """Opens the store, recovers every lease, and begins to serve; answers the actor's address.

        It may be tried again after an error.

        Raises:
            StoreError, RecordError, TransportError, InventoryError: it cannot.
        """
        self._over = asyncio.get_running_loop().create_future()
        self._new_helpers()
        try:
            await self._own()
            # Whoever speaks to it already is told to say it again later; and what recovery says tells where it is.
            self.mail.address = await self.transport.start(self.post.receive)
            await self._recover()
        except BaseException:
            await self._quiet()
            await self.transport.close()
            await self.store.close()
            self.extensions.renew()  # it may be started again
            raise
        self.running = True
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._guard(self._turns)), loop.create_task(self._guard(self._ticks))]
        return self.mail.address

    async def stop(self) -> None:
        """Ends gracefully: what was accepted is committed, what runs in units goes on."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
        await self.transport.close()
        self._ended = True
        while self.running and (self._queue or self._busy) and self._tasks:
            await asyncio.sleep(0.001)
        self.running = False
        await self._cancel()
        self._give_up("the actor has ended")
        await self.store.close()

    async def kill(self) -> None:
        """Ends at once, as a crash would: what is not committed is lost, and nobody is told."""
        self.running, self._ended = False, True
        self._give_up("the actor has ended")
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
        await self._quiet()

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        """Ends the actor with what ends one of its loops."""
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            await self._end(error)

    async def _end(self, error: BaseException) -> None:
        """The actor ends with an error; whoever waits for its end hears of it."""
        self.running, self._ended = False, True
        self._give_up("the actor has ended")
        await self._quiet()
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    async def crash(self, error: BaseException) -> None:
        """A subscriber to notices has ended the actor where neither of its loops could hear it."""
        await self._end(error)
        for task in self._tasks:
            task.cancel()

    async def _quiet(self) -> None:
        """Nothing is said any more, and no handler is waited for."""
        if self._beginning is not None and self._beginning is not asyncio.current_task():
            self._beginning.cancel()
            await asyncio.gather(self._beginning, return_exceptions=True)
        self._beginning = None
        await self.outbox.close()
        await self.calls.close()

    def _give_up(self, reason: str) -> None:
        """Whoever waits for a turn is told that there will be none."""
        self._fail([*self._current, *self._queue], reason)
        self._queue.clear()

    def _new_helpers(self) -> None:
        self.outbox = Outbox(self.transport, self.post.was_refused, self.options.pauses, self._rng)
        self.calls = Handlers(self.world.handlers, self.extensions.answered, self.options.patience)

    # Recovery

    async def _own(self) -> None:
        """Takes the store, from whoever had it before."""
        epoch = await self.store.open(self.identity.name)
        if epoch <= self.epoch:
            raise Older(
                f"the store of {self.identity.name} was opened as epoch {self.epoch}, and is at {epoch} now: "
                "it is an older copy, or another store",
                "put the right one back, and start the actor again",
            )
        self.epoch = self.mail.epoch = epoch

    async def _recover(self) -> None:
        """Reads every record, tells the policies, and starts every state's work (paper, sections 3.3 and 4.3.1)."""
        self.memory = Memory(self.program, self.roles)
        self.memory.take_words(await self.store.words())
        other = refusal(self.memory.words, self.program, self.store, self.identity.name)
        async for key, row in self.store.records():
            if other is not None:
                raise other
            try:
                self.memory.admit(self.rows.read(key, row, self.memory.below))
            except RecordError as error:
                raise with_command(error, self.program, self.store, self.identity.name) from error
        self.extensions.recovered()
        turn = Turn()
        if self.memory.held:
            self._describe(turn)
        for held in tuple(self.memory.held.values()):
            self.steps.start_again(turn, held)
        # Each message is signed, so that beginning all of many leases' work at once would keep the actor from serving.
        turn.after, rest = turn.after[:MOST], turn.after[MOST:]
        await self._commit(turn)
        if rest:
            self._beginning = asyncio.get_running_loop().create_task(self._guard(partial(self._begin_the_rest, rest)))
        machines = {"machines": len(self.memory.held)}
        self.tell_all(Notice(Kind.RECOVERED, self.identity.name, now=self.clock.now(), data=machines))

    async def _begin_the_rest(self, follows: list[Callable[[], None]]) -> None:
        """Begins recovered work between the turns; what a lease has left meanwhile begins nothing."""
        for first in range(0, len(follows), SLICE):
            for follow in follows[first : first + SLICE]:
                self._follow(follow)
            await asyncio.sleep(0)

    # The loop

    async def _turns(self) -> None:
        while True:
            await self._more.wait()
            self._busy = True
            await self._turn_of_all()
            self._busy = False

    async def _turn_of_all(self) -> None:
        """One turn: what waits, stepped, committed, and answered."""
        turn = Turn()
        items = self._current = []
        answers: list[Any] = []
        while self._queue and len(items) < MOST:
            item = self._queue.popleft()
            items.append(item)
            try:
                answers.append(item.do(turn))
            except (ActorError, Refusal) as error:
                answers.append(error)
            except CoreError as error:
                # Part of it may be in memory already, and must not be committed with the others.
                self._fail(items, f"a record would have been spoilt: {error}")
                await self._reopen(error)
                return
        if not self._queue:
            self._more.clear()
        try:
            await self._commit(turn)
        except Fenced:
            self._fail(items, "another incarnation of this actor has taken over")
            raise
        except Exception as error:  # a driver may raise anything when its connection breaks
            self._fail(items, f"it could not be committed: {_words(error)}")
            await self._reopen(error)
            return
        for item, answer in zip(items, answers, strict=True):
            if item.done is not None and not item.done.done():
                if isinstance(answer, Exception):
                    item.done.set_exception(answer)
                else:
                    item.done.set_result(answer)

    async def _commit(self, turn: Turn) -> None:
        """Commits a turn, and does what follows."""
        turn.words.update(self.extensions.words())
        if turn.changed:
            self._describe(turn)
        if turn.durable:
            puts = {key: self.rows.write(held) for key, held in turn.changed.items()}
            about = Notice(Kind.COMMIT, self.identity.name, now=self.clock.now(), data={"machines": len(puts)})
            if self.tell_all(about) is None:
                raise StoreError("the commit was consumed by a subscriber to notices")
            await self.store.commit(Batch(puts, tuple(turn.dropped), turn.words))
            self.count("commits")
            self.tell_all(Notice(Kind.COMMITTED, self.identity.name, now=self.clock.now(), data=about.data))
        for notice in turn.notices:
            self.tell_all(notice)
        for follow in turn.after:
            self._follow(follow)

    def _follow(self, follow: Callable[[], None]) -> None:
        """What follows a commit for one lease; its mistakes harm no other."""
        try:
            follow()
        except Exception:
            self.count("errors")
            log.exception("%s: what follows a commit has failed", self.identity.name)

    def _describe(self, turn: Turn) -> None:
        """With the first records, how they are read goes into the store (impl/migrate/layout.py)."""
        if self.memory.words.get(SPECIFICATION) != self._layout:
            self.memory.words[SPECIFICATION] = turn.words[SPECIFICATION] = self._layout

    def _fail(self, items: list[_Item], reason: str) -> None:
        for item in items:
            if item.done is not None and not item.done.done():
                item.done.set_exception(ActorError(reason))
                item.done.exception()  # nobody may be waiting for it

    async def _reopen(self, error: Exception) -> None:
        """Fail-stop: no step until the store is open again and every record was read from it.

        Raises:
            Fenced, Older, CoreError, InventoryError: what no other try would cure.
        """
        unknown = not isinstance(error, StoreError | CoreError)
        log.error("%s stops taking steps: %s", self.identity.name, _words(error), exc_info=error if unknown else None)
        self.tell_all(Notice(Kind.STOPPED, self.identity.name, now=self.clock.now(), data={"reason": _words(error)}))
        self.running = False
        waiting, self._queue = self._queue, deque()
        self._fail(list(waiting), f"the store has failed: {_words(error)}")
        while not await self._came_back():
            pass
        self.running = True
        log.info("%s goes on with %d machines", self.identity.name, len(self.memory.held))

    async def _came_back(self) -> bool:
        """One try to go on, after a pause. Whatever fails in it may be well the next time: it is as if it had not been.

        Raises:
            Fenced, Older, CoreError, InventoryError: what no other try would cure.
        """
        pause = self.options.reopen_pause
        try:
            await self._quiet()
            self._new_helpers()
            self.extensions.renew()
            await self.store.close()
            await asyncio.sleep(pause)
            await self._own()
            await self._recover()
        except (Fenced, Older, CoreError, InventoryError):
            raise
        except StoreError as error:
            log.error("%s cannot go on yet, and tries again in %g s: %s", self.identity.name, pause, error)
            return False
        except Exception:
            self.count("errors")
            log.exception("%s cannot go on yet, and tries again in %g s", self.identity.name, pause)
            await asyncio.sleep(pause)  # it may have come before the one above
            return False
        return True

    def put(self, do: Callable[[Turn], Any]) -> asyncio.Future[Any]:
        """Puts something in the queue; its answer comes after the commit."""
        done = asyncio.get_running_loop().create_future()
        if self._ended:
            done.set_exception(ActorError("the actor has ended"))
            done.exception()  # nobody may be waiting for it
            return done
        self._queue.append(_Item(do, done))
        self._more.set()
        return done

    def put_quietly(self, do: Callable[[Turn], Any]) -> None:
        self._queue.append(_Item(do))
        self._more.set()

    # Clients

    def begin(self, lease: str, machine: str, event: str, fields: Mapping[str, Any], peers: Mapping[str, str]) -> Any:
        """A new lease (or run), by a word from outside; answers a future of the outcome.

        Args:
            lease: its name, ORIGIN:NUMBER.
            machine: the machine of this actor that begins it.
            event: the local event.
            fields: its fields by name.
            peers: for each neighbour of the machine the actor that plays it.
        """
        return self.put(lambda turn: self.begin_now(turn, lease, machine, event, fields, peers))

    def begin_now(
        self, turn: Turn, lease: str, machine: str, event: str, fields: Mapping[str, Any], peers: Mapping[str, str]
    ) -> Outcome:
        named, key = role_of(machine), Key(lease, machine)
        if named is None or named[0] not in self.roles:
            raise ActorError(f"this actor has no machine {machine[:60]}")
        if origin_of(lease) is None:
            raise ActorError(f"a lease is named ORIGIN:NUMBER, not {lease[:60]!r}")
        if key in self.memory.held or lease in self.memory.pruned:
            raise ActorError(f"there is, or was, a lease {lease[:80]}")
        held = self.memory.new(key, named[1])
        for n, (role, index) in enumerate(held.core.neighbours):
            name = machine_of(self.program.roles[role], named[1] if index < 0 else index)
            held.peers[n] = peers.get(name, "")
            if not held.peers[n]:
                raise ActorError(f"nobody was named to play {name} for {lease[:80]}")
        heard = self.local(held, event, fields, -1)
        self.memory.held[key] = held
        outcome = self.steps.step(turn, held, heard)
        if not outcome.taken:
            del self.memory.held[key]
            turn.changed.pop(key, None)
            raise ActorError(f"{machine} does not take {event}: {outcome.reason}")
        return outcome

    def ask(self, view: Callable[[], Any]) -> Any:
        """Looks at what is held; answers a future of what was seen, which is done when all of that is durable."""

        def take(turn: Turn) -> Any:
            try:
                return view()
            except Exception as error:
                raise ActorError(f"{type(error).__name__}: {error}") from error

        return self.put(take)

    def wish(self, role: str, say: Callable[[Any, int], Iterable[Decision]]) -> Any:
        """A client's word for a policy; answers a future that is done when the wish is durable.

        Args:
            role: whose policy.
            say: says it, given the policy and the time.
        """

        def take(turn: Turn) -> None:
            policy = self.world.policies.get(role)
            if policy is None:
                raise ActorError(f"this actor has no policy for {role[:60]}")
            try:
                decisions = list(say(policy, self.clock.now()))
            except Exception as error:
                raise ActorError(str(error)) from error
            self.extensions.decide(decisions)

        return self.put(take)

    @property
    def idle(self) -> bool:
        """Whether nothing waits, no handler is at work, and no message is on its way at this moment."""
        beginning = self._beginning is not None and not self._beginning.done()
        at_work = self._queue or self._busy or beginning or self.calls.under_way() or self.outbox.sending
        return not (self.running and at_work)

    def tell(self, lease: str, machine: str, event: str, fields: Mapping[str, Any] | None = None) -> Any:
        """A word from outside for a machine; answers a future of the outcome.

        The future raises ActorError where there is no such lease or event, or the machine refuses it.
        """

        def take(turn: Turn) -> Outcome:
            held = self._find(lease, machine)
            outcome = self.steps.step(turn, held, self.local(held, event, fields or {}, -1))
            if not outcome.taken and outcome.kind != "ignored":
                raise ActorError(f"{machine} of {lease} does not take {event} in {held.state}: {outcome.reason}")
            return outcome

        return self.put(take)

    def recover(self, lease: str, machine: str) -> Any:
        """The scalpel (paper, section 4.2): a recovery event for one machine."""

        def take(turn: Turn) -> None:
            self.steps.start_again(turn, self._find(lease, machine))

        return self.put(take)

    def _find(self, lease: str, machine: str) -> Held:
        held = self.memory.held.get(Key(lease, machine))
        if held is None:
            over = "it is over and forgotten" if lease in self.memory.pruned else "there is none of this name"
            raise ActorError(f"no {machine[:60]} of lease {lease[:80]}: {over}")
        return held

    def local(self, held: Held, event: str, fields: Mapping[str, Any], entry: int) -> Event:
        shape = held.core.events.get(event)
        if shape is None:
            known = ", ".join(held.core.events)
            raise ActorError(f"{held.core.role} has no event {event[:60]!r}; it has {known}")
        try:
            return local_event(event, named_fields(shape, fields), entry)
        except ValueFault as fault:
            raise ActorError(f"{event}: {fault}") from None

    # Time

    async def _ticks(self) -> None:
        await self.clock.run(self._tick)

    async def _tick(self, now: int) -> None:
        if self.running:
            try:
                await self.put(lambda turn: self._take_tick(turn, now))
            except ActorError as error:
                log.warning("%s misses tick %d: %s", self.identity.name, now, error)

    def _take_tick(self, turn: Turn, now: int) -> None:
        self.steps.tick(turn, now)
        self.extensions.tick(turn, now)

    # Telling

    def about(self, kind: Kind, held: Held, name: str, **data: Any) -> Notice:
        return Notice(kind, self.identity.name, held.key.lease, held.key.machine, name, self.clock.now(), data)

    def tell_all(self, notice: Notice) -> Notice | None:
        return self.notices.tell(notice) if self.notices else notice

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
