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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any

from leasehold.impl.actor.calls import Handlers, Patience
from leasehold.impl.actor.held import BELOW, Held, Rows, machine_of, role_of
from leasehold.impl.actor.identity import Identity
from leasehold.impl.actor.mail import Mail, Refusal
from leasehold.impl.actor.outbox import Outbox, Parcel, Pauses
from leasehold.impl.actor.pruned import Pruned, origin_of
from leasehold.impl.actor.turn import Turn
from leasehold.impl.clock import Clock
from leasehold.impl.core.core import Program
from leasehold.impl.core.errors import CoreError, RecordError
from leasehold.impl.core.event import TICK, Event, local
from leasehold.impl.core.machines import Machines
from leasehold.impl.core.values import ValueFault, named_fields
from leasehold.impl.core.work import Call, Drive, Outcome, Record, Send, Work
from leasehold.impl.handlers.handler import Action, Done, Handler
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.notices import Kind, Notice, Notices
from leasehold.impl.policy.policy import Decision, Policy, Question, Wishing
from leasehold.impl.store.store import Batch, Fenced, Key, Store, StoreError
from leasehold.impl.transport.transport import Answer, Reply, Transport

log = logging.getLogger("leasehold.actor")

MOST = 1_000  # events of one turn
EPOCH = "epoch of "  # words: the newest incarnation of a peer that was heard
PRUNED = "pruned of "  # words: the leases of an origin that are forgotten
WISH = "wish of "  # words: what a client wants of a lease, as the policy keeps it


class ActorError(Exception):
    """What a client asked of an actor cannot be; nothing has changed."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an actor works.

    Attributes:
        retire_after: ticks for which a lease that is over is remembered.
        reopen_pause: seconds between two tries to open a store that failed.
        pauses: of messages.
        patience: with handlers.
        seed: of the jitter; None: from the system.
    """

    retire_after: int = 600
    reopen_pause: float = 1.0
    pauses: Pauses = field(default_factory=Pauses)
    patience: Patience = field(default_factory=Patience)
    seed: int | None = None


@dataclass(slots=True)
class _Item:
    """Something to be done in a turn; its answer goes out after the commit."""

    do: Callable[[Turn], Any]
    done: asyncio.Future[Any] | None = None


@dataclass(frozen=True, slots=True)
class World:
    """What an actor meets outside: all of it may be replaced by a test.

    Attributes:
        policies: by role.
        handlers: by verb: `setup`, `join`.
        units: the names of the subsidiary machines of a role, by number.
        unit_properties: of each, likewise.
        peers: who plays which machine: the neighbours of one that a policy begins, and whom tickets are for.
    """

    policies: Mapping[str, Policy] = field(default_factory=dict)
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit_properties: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    peers: Mapping[str, str] = field(default_factory=dict)


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
        self.mail = Mail(program, identity, self.world.peers.get("authority", ""))
        self.rows = Rows(program)
        self.counts: dict[str, int] = {}
        self.epoch = 0
        self.running = False
        self._several = len(roles) > 1 or any(self.program.roles[role].indexed for role in roles)
        self._rng = random.Random(self.options.seed)
        self._queue: deque[_Item] = deque()
        self._current: list[_Item] = []  # what the turn answers that is being made
        self._more = asyncio.Event()
        self._busy = False
        self._tasks: list[asyncio.Task[None]] = []
        self._over: asyncio.Future[None] | None = None
        self._empty()

    def _empty(self) -> None:
        """Forgets all that is in memory."""
        self.held: dict[Key, Held] = {}
        self.below: dict[str, Machines] = {
            sub.role: Machines(sub.first) for role in self.roles for sub in self.program.roles[role].below
        }
        self.pruned = Pruned()
        self.words: dict[str, bytes] = {}
        self._wakes: list[tuple[int, Key]] = []
        self._drivers: dict[Key, set[Key]] = {}  # who waits for a subsidiary machine
        self._retired: list[tuple[int, Key]] = []
        self._attempt = 0

    # Life

    async def start(self) -> str:
        """Opens the store, recovers every lease, and begins to serve; answers the actor's address.

        Raises:
            StoreError, RecordError, TransportError: it cannot.
        """
        self._over = asyncio.get_running_loop().create_future()
        self._new_helpers()
        await self._recover()
        self.mail.address = await self.transport.start(self._receive)
        self.running = True
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._guard(self._turns())), loop.create_task(self._guard(self._ticks()))]
        return self.mail.address

    async def stop(self) -> None:
        """Ends gracefully: what was accepted is committed, what runs in units goes on."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
        self.running = False
        await self.transport.close()
        if self._queue and self._tasks:
            await self._turn_of_all()
        await self._cancel()
        await self.store.close()

    async def kill(self) -> None:
        """Ends at once, as a crash would: what is not committed is lost, and nobody is told."""
        self.running = False
        self._fail([*self._current, *self._queue], "the actor has ended")
        self._queue.clear()
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
        await self.outbox.close()
        await self.calls.close()

    async def _guard(self, work: Any) -> None:
        """Ends the actor with what ends one of its loops."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.running = False
            self._fail([*self._current, *self._queue], "the actor has ended")
            self._queue.clear()
            await self.outbox.close()
            await self.calls.close()
            if self._over is not None and not self._over.done():
                self._over.set_exception(error)

    def _new_helpers(self) -> None:
        self.outbox = Outbox(self.transport, self._was_refused, self.options.pauses, self._rng)
        self.calls = Handlers(self.world.handlers, self._handler_answered, self.options.patience)

    # Recovery

    async def _recover(self) -> None:
        """Reads every record, tells the policies, and starts every state's work (paper, sections 3.3 and 4.3.1)."""
        self._empty()
        self.epoch = self.mail.epoch = await self.store.open(self.identity.name)
        self.words = await self.store.words()
        for name, body in self.words.items():
            if name.startswith(PRUNED):
                self.pruned.read(name.removeprefix(PRUNED), body)
        async for key, row in self.store.records():
            self._admit(self.rows.read(key, row, self.below))
        for held in self.held.values():
            policy = self.world.policies.get(held.core.role)
            if policy is not None:
                policy.recovered(held.lease())
        for name, body in self.words.items():
            if name.startswith(WISH):
                for wishing in self._wishing():
                    wishing.restore(name.removeprefix(WISH), body)
        turn = Turn()
        for held in tuple(self.held.values()):
            self._start_again(turn, held)
        await self._commit(turn)
        self._tell(Notice(Kind.RECOVERED, self.identity.name, now=self.clock.now(), data={"machines": len(self.held)}))

    def _admit(self, held: Held) -> None:
        """A machine is there from now on."""
        if held.core.role not in self.roles:
            raise RecordError(f"{held.key.lease} {held.key.machine}: this actor does not play {held.core.role}")
        self.held[held.key] = held
        if held.key.lease == BELOW:
            named = role_of(held.key.machine)
            assert named is not None
            self.below[named[0]][named[1]] = held.record
        self._wake_later(held)
        if "over" in held.papers:
            heappush(self._retired, (held.papers["over"], held.key))

    def _start_again(self, turn: Turn, held: Held) -> None:
        """Recovery of one machine: its record stays, its work begins anew, under a new name."""
        self._attempt += 1
        _, outcome = held.core.recover(held.record)
        self._work(turn, held, outcome.work)
        self._offered(turn, held)

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
                log.error("%s: %s", self.identity.name, error)
                answers.append(Refusal(str(error)))
        if not self._queue:
            self._more.clear()
        try:
            await self._commit(turn)
        except Fenced:
            self._fail(items, "another incarnation of this actor has taken over")
            raise
        except StoreError as error:
            self._fail(items, f"the store has failed: {error}")
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
        for policy in self._wishing():
            for lease, wish in policy.changed_wishes().items():
                turn.words[WISH + lease] = wish
        if turn.durable:
            puts = {key: self.rows.write(held) for key, held in turn.changed.items()}
            about = Notice(Kind.COMMIT, self.identity.name, now=self.clock.now(), data={"machines": len(puts)})
            self._tell(about)
            await self.store.commit(Batch(puts, tuple(turn.dropped), turn.words))
            self._count("commits")
            self._tell(Notice(Kind.COMMITTED, self.identity.name, now=self.clock.now(), data=about.data))
        for notice in turn.notices:
            self._tell(notice)
        for follow in turn.after:
            follow()

    def _fail(self, items: list[_Item], reason: str) -> None:
        for item in items:
            if item.done is not None and not item.done.done():
                item.done.set_exception(ActorError(reason))
                item.done.exception()  # nobody may be waiting for it

    async def _reopen(self, error: Exception) -> None:
        """Fail-stop: no step until the store is open again and every record was read from it."""
        log.error("%s stops taking steps: %s", self.identity.name, error)
        self._tell(Notice(Kind.STOPPED, self.identity.name, now=self.clock.now(), data={"reason": str(error)}))
        self.running = False
        waiting, self._queue = self._queue, deque()
        self._fail(list(waiting), f"the store has failed: {error}")
        await self.outbox.close()
        await self.calls.close()
        self._new_helpers()
        while True:
            await self.store.close()
            await asyncio.sleep(self.options.reopen_pause)
            try:
                await self._recover()
                break
            except Fenced:
                raise
            except StoreError as again:
                log.error("%s cannot go on yet: %s", self.identity.name, again)
        self.running = True
        log.info("%s goes on with %d machines", self.identity.name, len(self.held))

    def put(self, do: Callable[[Turn], Any]) -> asyncio.Future[Any]:
        """Puts something in the queue; its answer comes after the commit."""
        done = asyncio.get_running_loop().create_future()
        self._queue.append(_Item(do, done))
        self._more.set()
        return done

    def _put_quietly(self, do: Callable[[Turn], Any]) -> None:
        self._queue.append(_Item(do))
        self._more.set()

    # Steps

    def _step(self, turn: Turn, held: Held, event: Event) -> Outcome:
        """One event at one machine, and what follows from it at subsidiary machines within the same turn."""
        before = held.record
        now = self.clock.now()
        record, outcome = held.core.step(before, event, now)
        if record is not before:
            self.rows.codecs[held.core.role].check(record)
            self._set(turn, held, record)
        self._count(outcome.kind)
        kind = Kind.TRANSITION if outcome.taken else Kind.IGNORED
        if self.notices:
            data = {"from": before[0], "to": record[0], "kind": outcome.kind, "reason": outcome.reason}
            name = outcome.transition or event[0]
            turn.notices.append(
                Notice(kind, self.identity.name, held.key.lease, held.key.machine, name, now, data)
            )  # fmt: skip
        if outcome.taken:
            self._moved(turn, held, before)
        self._work(turn, held, outcome.work)
        if outcome.taken:
            self._offered(turn, held)
            self._tell_policy(turn, held)
        return outcome

    def _set(self, turn: Turn, held: Held, record: Record) -> None:
        held.record = record
        turn.change(held)
        if held.core.subsidiary:
            named = role_of(held.key.machine)
            assert named is not None
            self.below[named[0]][named[1]] = record
            drivers = self._drivers.get(held.key, set())
            for driver in tuple(drivers):
                parent = self.held.get(driver)
                if parent is None or parent.state not in parent.core.answers:
                    drivers.discard(driver)
                else:
                    self._put_quietly(partial(self._offered, held=parent))

    def _moved(self, turn: Turn, held: Held, before: Record) -> None:
        """A machine has taken a transition."""
        core, tasks = held.core, frozenset(w.task for w in held.core.work[held.state](held.record))
        self.calls.keep(held.key, tasks)
        if held.entry != before[core.entry_at] and not core.subsidiary:
            said = frozenset(w.neighbour for w in core.work[held.state](held.record) if isinstance(w, Send))
            self.outbox.keep(held.key, len(core.neighbours), said)
        self._wake_later(held)
        if core.over(held.state):
            if "over" not in held.papers:
                held.papers["over"] = self.clock.now()
                heappush(self._retired, (held.papers["over"], held.key))
        else:
            held.papers.pop("over", None)

    def _offered(self, turn: Turn, held: Held) -> None:
        """What a machine waits for of its subsidiaries, once it has come true."""
        for event in held.core.offered(held.record):
            if self._step(turn, held, local(event, entry=held.entry)).taken:
                return

    # Work

    def _work(self, turn: Turn, held: Held, work: tuple[Work, ...]) -> None:
        """Does the work that follows a commit: events for subsidiaries go into the same one, the rest waits for it."""
        record, entry = held.record, held.entry
        for piece in work:
            match piece:
                case Drive():
                    self._drive(turn, held, piece, record)
                case Send():
                    self._say(turn, held, piece, record)
                case Call() if piece.target.startswith("policy."):
                    turn.after.append(partial(self._ask_policy, held, piece, entry))
                case Call():
                    turn.after.append(partial(self._ask_handler, held, piece, entry))

    def _drive(self, turn: Turn, held: Held, piece: Drive, record: Record) -> None:
        role, index = piece.machine
        core = self.program.roles[role]
        key = Key(BELOW, machine_of(core, index))
        below = self.held.get(key)
        if below is None:
            below = self.held[key] = Held(key, core, core.first(index), [])
        below.papers["lease"] = held.key.lease
        self._drivers.setdefault(key, set()).add(held.key)
        self._step(turn, below, local(piece.event, piece.fields(record)))

    def _say(self, turn: Turn, held: Held, piece: Send, record: Record) -> None:
        """Messages are built of the record as it is now, and sent after the commit."""
        neighbour = piece.neighbour
        if not held.peers[neighbour]:
            return  # nobody was heard of that could be told
        number = record[held.core.sent_at][neighbour]
        fields = piece.fields(record)

        def post() -> None:
            told = self._tell(
                Notice(
                    Kind.SEND, self.identity.name, held.key.lease, held.key.machine, piece.message, self.clock.now(),
                    {"to": held.peers[neighbour], "number": number},
                )
            )  # fmt: skip
            if told is None or held.record[held.core.sent_at][neighbour] != number:
                return
            try:
                body = self.mail.seal(held, piece, fields, number)
            except Refusal as refusal:
                log.error("%s %s: %s", held.key.lease, piece.message, refusal)
                return
            address = lambda: self._address(held.peers[neighbour])  # noqa: E731
            self.outbox.post(Parcel(held.key, neighbour, number, piece.message, address, body, piece.answer))

        turn.after.append(post)

    def _address(self, peer: str) -> str:
        actor = self.identity.trust.actors.get(peer)
        heard = self.words.get(f"address of {peer}")
        return (actor.address if actor is not None and actor.address else "") or (heard.decode() if heard else "")

    def _was_refused(self, parcel: Parcel, reason: str) -> None:
        log.warning("%s %s: %s was refused: %s", parcel.key.lease, parcel.key.machine, parcel.message, reason)
        self._count("refused by peers")

    def _ask_policy(self, held: Held, piece: Call, entry: int) -> None:
        policy = self.world.policies.get(held.core.role)
        if policy is None or held.entry != entry:
            return
        question = Question(piece.target.partition(".")[2], held.lease(), piece.answers, entry)
        if self._tell(self._about(Kind.CALL, held, piece.target)) is None:
            return
        self._decide(policy.begin(question, self.clock.now()))

    def _tell_policy(self, turn: Turn, held: Held) -> None:
        policy = self.world.policies.get(held.core.role)
        if policy is not None:
            turn.after.append(lambda: self._decide(policy.changed(held.lease(), self.clock.now())))

    def _decide(self, decisions: Any) -> None:
        """Takes what a policy wants, as events that the core judges."""
        for decision in decisions:
            self._put_quietly(partial(self._decided, decision=decision))

    def _wishing(self) -> list[Wishing]:
        return [policy for policy in self.world.policies.values() if isinstance(policy, Wishing)]

    def _decided(self, turn: Turn, decision: Decision) -> None:
        held = self.held.get(Key(decision.lease, decision.machine))
        try:
            if held is None:
                if decision.entry < 0 and decision.lease not in self.pruned:
                    self._begin(
                        turn, decision.lease, decision.machine, decision.event, decision.fields, self.world.peers
                    )
                return
            event = self._local(held, decision.event, decision.fields, decision.entry)
        except ActorError as error:
            log.error("the policy of %s answers wrongly: %s", decision.machine, error)
            return
        self._step(turn, held, event)

    def _ask_handler(self, held: Held, piece: Call, entry: int) -> None:
        if held.entry != entry or self._tell(self._about(Kind.CALL, held, piece.target)) is None:
            return
        self.calls.begin(held, piece, self._action(held, piece))

    def _action(self, held: Held, piece: Call) -> Action:
        verb = piece.target.partition(".")[2]
        number = (held.entry << 40) + (self.epoch << 16) + self._attempt % (1 << 16)
        own = held.core.view(held.record)
        if not held.core.subsidiary:
            return Action(verb, held.key.lease, "", number, own, answers=piece.answers)
        named = role_of(held.key.machine)
        assert named is not None
        role, index = named
        names, properties = self.world.units.get(role, ()), self.world.unit_properties.get(role, ())
        lease = held.papers.get("lease", "")
        parents = (h for k in self._drivers.get(held.key, ()) if k.lease == lease and (h := self.held.get(k)))
        parent = next(parents, None)
        return Action(
            verb, lease, names[index] if index < len(names) else held.key.machine, number,
            parent.core.view(parent.record) if parent else {}, own,
            properties[index] if index < len(properties) else {}, piece.answers,
        )  # fmt: skip

    def _handler_answered(self, key: Key, event: str, entry: int, done: Done) -> None:
        def take(turn: Turn) -> None:
            held = self.held.get(key)
            if held is not None:
                if done.facts and held.entry == entry:
                    held.papers["facts"] = dict(done.facts)
                    turn.change(held)
                self._step(turn, held, local(event, entry=entry))

        self._put_quietly(take)

    # Messages

    async def _receive(self, parcel: bytes) -> Reply:
        """A parcel of the transport: refused, or taken when what follows from it is committed."""
        if not self.running:
            return Reply(Answer.UNREACHABLE, "the actor is not taking steps")
        try:
            envelope = self.mail.open(parcel)
            await self.put(lambda turn: self._hear(turn, envelope))
        except Refusal as refusal:
            self._count("refused")
            self._tell(
                Notice(Kind.REFUSED, self.identity.name, now=self.clock.now(), data={"reason": refusal.reason})
            )  # fmt: skip
            return Reply(Answer.REFUSED, refusal.reason)
        except ActorError as error:
            return Reply(Answer.UNREACHABLE, str(error))
        return Reply(Answer.TAKEN)

    def _hear(self, turn: Turn, envelope: Envelope) -> None:
        self._check_epoch(turn, envelope)
        named = role_of(envelope.receiving_machine)
        core = self.program.roles.get(named[0]) if named else None
        if named is None or core is None or core.role not in self.roles or core.subsidiary:
            raise Refusal(f"this actor has no machine {envelope.receiving_machine[:60]}")
        key = Key(envelope.lease, envelope.receiving_machine)
        held = self.held.get(key)
        fresh = held is None
        if held is None:
            if key.lease in self.pruned:
                raise Refusal(f"the lease {key.lease[:80]} is over and forgotten")
            self._check_origin(envelope)
            held = self._new(key, named[1])
        event = self.mail.event(envelope, core, named[1])
        peer = held.peers[event[2]]
        if peer and peer != envelope.sender:
            raise Refusal(f"{envelope.sending_machine} of {key.lease[:80]} is not played by {envelope.sender}")
        kept = self.mail.proof(envelope, held.papers)
        told = self._tell(self._about(Kind.RECEIVE, held, envelope.message, number=envelope.number))
        if told is None:
            raise ActorError("the message was consumed on its way")
        held.peers[event[2]] = envelope.sender
        if fresh:
            self.held[key] = held
        outcome = self._step(turn, held, event)
        if outcome.taken:
            held.papers.update(kept)
        if fresh and not outcome.taken:
            del self.held[key]  # nothing has begun
            turn.changed.pop(key, None)
        if outcome.kind == "refused":
            raise Refusal(f"{core.role} refuses {envelope.message}: {outcome.reason}")

    def _check_origin(self, envelope: Envelope) -> None:
        """Nobody begins a lease in another's name."""
        named = origin_of(envelope.lease)
        if named is None:
            raise Refusal(f"a lease is named ORIGIN:NUMBER, not {envelope.lease[:60]!r}")
        trust = self.identity.trust
        origin = trust.sender(named[0])
        if origin.name != envelope.sender and origin.kind == trust.sender(envelope.sender).kind:
            raise Refusal(f"{envelope.lease[:80]} is not a lease of {envelope.sender}")

    def _check_epoch(self, turn: Turn, envelope: Envelope) -> None:
        """A message of an incarnation that is over changes nothing."""
        name = EPOCH + envelope.sender
        newest = int(self.words.get(name, b"0"))
        if envelope.epoch < newest:
            raise Refusal(f"{envelope.sender} has a newer incarnation ({newest}, not {envelope.epoch})")
        fresh = {}
        if envelope.epoch > newest:
            fresh[name] = str(envelope.epoch).encode()
        address = f"address of {envelope.sender}"
        if envelope.reply_to and self.words.get(address) != envelope.reply_to.encode():
            fresh[address] = envelope.reply_to.encode()
        if fresh:
            self.words.update(fresh)
            turn.words.update(fresh)

    def _new(self, key: Key, instance: int) -> Held:
        core = self.program.roles[key.machine.partition("[")[0]]
        below = tuple(self.below[sub.role] for sub in core.below)
        return Held(key, core, core.first(instance, below), [""] * len(core.neighbours))

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
        return self.put(lambda turn: self._begin(turn, lease, machine, event, fields, peers))

    def _begin(
        self, turn: Turn, lease: str, machine: str, event: str, fields: Mapping[str, Any], peers: Mapping[str, str]
    ) -> Outcome:
        named, key = role_of(machine), Key(lease, machine)
        if named is None or named[0] not in self.roles:
            raise ActorError(f"this actor has no machine {machine[:60]}")
        if origin_of(lease) is None:
            raise ActorError(f"a lease is named ORIGIN:NUMBER, not {lease[:60]!r}")
        if key in self.held or lease in self.pruned:
            raise ActorError(f"there is, or was, a lease {lease[:80]}")
        held = self._new(key, named[1])
        for n, (role, index) in enumerate(held.core.neighbours):
            name = machine_of(self.program.roles[role], named[1] if index < 0 else index)
            held.peers[n] = peers.get(name, "")
            if not held.peers[n]:
                raise ActorError(f"nobody was named to play {name} for {lease[:80]}")
        heard = self._local(held, event, fields, -1)
        self.held[key] = held
        outcome = self._step(turn, held, heard)
        if not outcome.taken:
            del self.held[key]
            turn.changed.pop(key, None)
            raise ActorError(f"{machine} does not take {event}: {outcome.reason}")
        return outcome

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
            self._decide(say(policy, self.clock.now()))

        return self.put(take)

    @property
    def idle(self) -> bool:
        """Whether nothing waits, no handler is at work, and no message is on its way at this moment."""
        at_work = self._queue or self._busy or self.calls.under_way() or self.outbox.sending
        return not (self.running and at_work)

    def tell(self, lease: str, machine: str, event: str, fields: Mapping[str, Any] | None = None) -> Any:
        """A word from outside for a machine; answers a future of the outcome.

        The future raises ActorError where there is no such lease or event, or the machine refuses it.
        """

        def take(turn: Turn) -> Outcome:
            held = self._find(lease, machine)
            outcome = self._step(turn, held, self._local(held, event, fields or {}, -1))
            if not outcome.taken and outcome.kind != "ignored":
                raise ActorError(f"{machine} of {lease} does not take {event} in {held.state}: {outcome.reason}")
            return outcome

        return self.put(take)

    def recover(self, lease: str, machine: str) -> Any:
        """The scalpel (paper, section 4.2): a recovery event for one machine."""

        def take(turn: Turn) -> None:
            self._start_again(turn, self._find(lease, machine))

        return self.put(take)

    def _find(self, lease: str, machine: str) -> Held:
        held = self.held.get(Key(lease, machine))
        if held is None:
            over = "it is over and forgotten" if lease in self.pruned else "there is none of this name"
            raise ActorError(f"no {machine[:60]} of lease {lease[:80]}: {over}")
        return held

    def _local(self, held: Held, event: str, fields: Mapping[str, Any], entry: int) -> Event:
        shape = held.core.events.get(event)
        if shape is None:
            known = ", ".join(held.core.events)
            raise ActorError(f"{held.core.role} has no event {event[:60]!r}; it has {known}")
        try:
            return local(event, named_fields(shape, fields), entry)
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
        while self._wakes and self._wakes[0][0] <= now:
            _, key = heappop(self._wakes)
            held = self.held.get(key)
            if held is not None:
                wake = held.core.wake(held.record)
                if wake is not None and wake <= now and not self._step(turn, held, TICK).taken:
                    self._wake_later(held, now + 1)
        self._retire(turn, now)
        for policy in self.world.policies.values():
            turn.after.append(partial(self._policy_tick, policy, now))

    def _policy_tick(self, policy: Policy, now: int) -> None:
        self._decide(policy.tick(now))

    def _wake_later(self, held: Held, at_least: int = 0) -> None:
        wake = held.core.wake(held.record)
        if wake is not None:
            heappush(self._wakes, (max(wake, at_least), held.key))

    def _retire(self, turn: Turn, now: int) -> None:
        """Forgets leases that have been over for long enough, and that nobody has to be told of any more."""
        while self._retired and self._retired[0][0] + self.options.retire_after <= now:
            _, key = heappop(self._retired)
            held = self.held.get(key)
            if held is None or "over" not in held.papers:
                continue
            if held.papers["over"] + self.options.retire_after > now:
                heappush(self._retired, (held.papers["over"], key))
                continue
            self.outbox.keep(key, len(held.core.neighbours), frozenset())
            del self.held[key]
            turn.drop(held)
            if not self._of_lease(key.lease):
                origin = self.pruned.add(key.lease)
                turn.words[PRUNED + origin] = self.words[PRUNED + origin] = self.pruned.write(origin)

    def _of_lease(self, lease: str) -> list[Key]:
        """The machines of this actor for a lease."""
        return [key for key in self.held if key.lease == lease] if self._several else []

    # Telling

    def _about(self, kind: Kind, held: Held, name: str, **data: Any) -> Notice:
        return Notice(kind, self.identity.name, held.key.lease, held.key.machine, name, self.clock.now(), data)

    def _tell(self, notice: Notice) -> Notice | None:
        return self.notices.tell(notice) if self.notices else notice

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
