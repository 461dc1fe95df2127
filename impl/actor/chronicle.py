"""The durable side of an actor: each turn's commit, with the events that tell of it.

Theory of operation. A turn's commit is one batch: the records that have changed, as the bytes of a store's rows, the
metadata that go with them, and events. A turn lists what happened (drafts.py), as values, which are put into words
here. The commit appends that to the chain (impl/events), with the new head among the metadata, so after a crash the
chain has exactly the steps whose records are there. Whatever the chronicle has in memory is read anew after a commit
that failed.

An incarnation that finds records begins with an event of its own before any work; one that finds none has nothing to
tell until its first commit.

What was refused has changed nothing, so it asks for no commit of its own: it is written by the next one, or at a tick.

A commit ends with a seal when many events have none, or the oldest of them is old; the tick seals what was left by an
actor that is quiet. Dropping is done by a commit, too: the oldest events go when there are more than are to be kept,
but none that a follower has not acknowledged, unless there are more than may ever be.

Events have plain data, by name (impl/events/event.py). An opaque value of more than `LARGE` bytes stands there by its
digest: `{"sha256": ..., "bytes": ...}`. No machine reads opaque values, and properties compare them for equality alone,
so what is left says as much; and a lease that tells of a thousand units does not write megabytes at each step.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from leasehold.impl.actor.drafts import Draft, EventDraft, FoundDraft, RefusedDraft, StepDraft
from leasehold.impl.actor.environment import ActorContext, ActorError
from leasehold.impl.actor.messages import EnvelopeCodec
from leasehold.impl.actor.ready import Follow, Ready, SealEvents
from leasehold.impl.actor.table import BELOW, DynamicPeers, MachineInstance
from leasehold.impl.core.codec import Codec, RecordError
from leasehold.impl.core.core import Core, Named, Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.core.work import CallWork, Event, Machines, Record, SendWork
from leasehold.impl.events.chain import ChainWriter, Head
from leasehold.impl.events.event import (
    EventError,
    MachineRecord,
    MachineStep,
    PrunedEvent,
    ReceivedMessage,
    RecoveredEvent,
    RefusedEvent,
    SentMessage,
    StartedCall,
    StepEvent,
    digest,
    record_digest,
)
from leasehold.impl.migrate.schema import described_by
from leasehold.impl.notices import Kind
from leasehold.impl.store.store import Batch, RecordKey, Store, StoreError
from leasehold.spec.language import types as t

log = logging.getLogger("leasehold.events")

COMMITS = "commits"  # metadata: the name of the store, and how many there were, by which peers know an older copy
HEAD = "events"  # metadata: where the chain ends
FOLLOWER = "follower "  # metadata: how far a follower has come
MOST_FOLLOWERS = 100
MOST_REFUSALS = 100  # that wait for a commit
CHUNK = 1000  # events that are dropped at once
MOST_DIGESTS = 10_000  # of machines whose records are told of when they are recovered
LARGE = 1024  # bytes of an opaque value as JSON
REMEMBERED = 10_000  # opaque values, so that those of an unchanged field are not looked at in each step
_NONE: dict[str, Any] = {}
Shapes: TypeAlias = tuple[tuple[str, t.Type | None], ...]  # fields by name; None: each value is plain data
_encode = msgspec.json.Encoder(order="deterministic").encode
_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


class Chronicle:
    """The commits and events of one actor.

    Args:
        context: of the actor.
        store: its records.
        rows: writes them.
        codec: of messages, which tells peers how far the store is.
        kept: the actor's metadata that have changed, for the next commit.
    """

    def __init__(
        self,
        context: ActorContext,
        store: Store,
        rows: RowCodec,
        codec: EnvelopeCodec,
        kept: Callable[[], dict[str, bytes]],
    ) -> None:
        self.context, self.table, self.settings = context, context.table, context.options.events
        self.store, self.rows, self.codec, self._kept = store, rows, codec, kept
        self.schema = described_by(context.program, getattr(context.clock, "tick_seconds", 0))
        self.describer = EventDescriber(context.program, rows.codecs)
        self.wall: Callable[[], float] = getattr(context.clock, "wall", time.time)
        self.first = 1  # position of the oldest event
        self._writer = ChainWriter(context.identity.name, context.program.digest, 0)
        self._waiting: list[Draft] = []  # to come before those of the next commit
        self._refusals: list[Draft] = []  # likewise
        self._unsealed_since = 0.0

    @property
    def head(self) -> Head:
        """The end of the chain."""
        return self._writer.head

    @property
    def unsealed(self) -> int:
        """Returns how many events no seal vouches for."""
        return self.head.position - self.head.sealed

    async def begin(self, ready: Ready) -> None:
        """An incarnation begins with what its store has; the machines are in the table already.

        Raises:
            StoreError: the events are not those that were committed.
        """
        self._waiting, self._refusals = [], []
        if self.settings is None:
            return
        head = await self._read_head()
        self._writer = ChainWriter(self.context.identity.name, self.context.program.digest, self.codec.epoch, head)
        self._unsealed_since = self.wall()
        machines, unrecorded = self.table.instances, self.codec.commits - head.commit
        program = self.context.program
        fields = {
            "agreement": self.codec.agreement,
            "machines": len(machines),
            "unrecorded": unrecorded if head.position else 0,
            "system": program.system,
            "constants": dict(program.constants),
            "records": self.describer.digests(machines.values()) if len(machines) <= MOST_DIGESTS else {},
        }
        drafts: list[Draft] = [EventDraft(RecoveredEvent, fields)]
        if machines and unrecorded:
            drafts += (FoundDraft(instance, instance.record) for instance in machines.values())
        if machines:
            ready.events += drafts
        else:
            self._waiting = drafts

    async def _read_head(self) -> Head:
        try:
            head = Head.of(self.table.metadata.get(HEAD))
        except EventError as error:
            raise StoreError(f"the store's metadata are damaged: {error}", "put a whole copy in its place") from None
        self.first, last = await self.store.event_range()
        digests = [digest(body) async for _, body in self.store.events(last - 1)] if last else []
        if head.position != last or digests not in ([], [head.digest]):
            end = f"end at {last}" if head.position != last else f"have another one at {last}"
            raise StoreError(
                f"the events in the store {end}, and were committed up to {head.position}: some were changed or "
                "removed",
                "put a whole copy of the store in its place",
            )
        return head

    # Writing

    async def commit(self, ready: Ready) -> None:
        """Commits what a turn has changed; without a change, what was refused waits for the next commit.

        Raises:
            StoreError: nobody knows what is durable.
        """
        ready.metadata.update(self._kept())
        if ready.changed:
            self.describe(ready)
        if self.asks(ready) or ready.changed or ready.dropped or ready.metadata:
            await self.write(ready)
        else:
            self._put_off(ready)

    def describe(self, ready: Ready) -> None:
        """With the first records, how they are read goes into the store (impl/migrate/schema.py)."""
        metadata = self.table.metadata
        for name, body in self.schema.items():
            if metadata.get(name) != body:
                metadata[name] = ready.metadata[name] = body

    async def write(self, ready: Ready) -> None:
        """Makes a turn durable, its records, metadata and events in one batch."""
        puts = {key: self.rows.write(instance) for key, instance in ready.changed.items()}
        if self.context.tell(Kind.COMMIT, machines=len(puts)) is None:
            raise StoreError("the commit was consumed by a subscriber to notices")
        commits = self.codec.commits + 1
        kept = self.table.metadata[COMMITS] = f"{self.codec.store} {commits}".encode()
        events, prune_to = await self._events_of(ready, commits)
        metadata = {**ready.metadata, COMMITS: kept}
        await self.store.commit(Batch(puts, tuple(ready.dropped), metadata, events, prune_to))
        self.codec.commits = commits
        self.context.counts["commits"] += 1
        self.context.tell(Kind.COMMITTED, machines=len(puts))

    def asks(self, ready: Ready) -> bool:
        """Returns whether a turn needs a commit for the sake of its events."""
        return bool(ready.seal and (self.unsealed or self._refusals)) or any(
            draft.kind is not RefusedEvent for draft in ready.events
        )

    def _put_off(self, ready: Ready) -> None:
        """A turn without a commit: what was refused in it is written by the next one."""
        room = MOST_REFUSALS - len(self._refusals)
        self._refusals += ready.events[:room]
        self.context.counts["refusals without events"] += max(0, len(ready.events) - room)

    async def _events_of(self, ready: Ready, commit: int) -> tuple[list[bytes], int]:
        """The events of a turn, for its batch, and the position up to which older ones are dropped; 0: none are.

        The head that follows goes into the metadata of the turn.
        """
        if self.settings is None:
            return [], 0
        writer, now, wall = self._writer, ready.now, round(self.wall(), 3)
        drafts = [*self._waiting, *self._refusals, *ready.events]
        self._waiting, self._refusals = [], []
        if not self.unsealed:
            self._unsealed_since = wall
        events = [self._written(writer, draft, now, wall, commit) for draft in drafts]
        until, why = await self._prune(events, now, wall, commit), ready.seal
        if until:
            why = "pruned"
        elif self.unsealed >= self.settings.seal_events:
            why = "many"
        elif self.unsealed and wall - self._unsealed_since >= self.settings.seal_seconds:
            why = why or "time"
        if why and self.unsealed:
            events.append(writer.seal(self.context.identity.key, why, now, wall, commit))
        head = writer.head._replace(commit=commit)
        writer.head = head
        self.table.metadata[HEAD] = ready.metadata[HEAD] = bytes(head)
        self.first = max(self.first, until + 1)
        return events, until

    def _written(self, writer: ChainWriter, draft: Draft, now: int, wall: float, commit: int) -> bytes:
        if isinstance(draft, StepDraft):
            return writer.append(StepEvent, now, wall, commit, step=self.describer.step(draft))
        return writer.append(draft.kind, now, wall, commit, **self.describer.fields_of(draft))

    def present(self, lease: str) -> Iterator[bytes]:
        """Yields events that could come next in the chain, and are not written: of a lease as it is at the moment.

        They have the records of its machines as `found`, with those that belong to the actor, and all that was refused
        and waits for a commit.
        """
        writer, now, wall = replace(self._writer), self.context.clock.now(), round(self.wall(), 3)
        instances = (one for key, one in self.table.instances.items() if key.lease in (lease, BELOW))
        for draft in (*(FoundDraft(one, one.record) for one in instances), *self._refusals):
            yield self._written(writer, draft, now, wall, self.head.commit + 1)

    def take(self, ready: Ready, request: Follow | SealEvents) -> None:
        """Takes a request.

        Raises:
            ActorError: it asks for something that cannot be; nothing has changed.
        """
        if self.settings is None:
            raise ActorError("this actor writes no events")
        match request:
            case Follow(name, position):
                self._acknowledge(ready, name, position)
            case SealEvents(why):
                ready.seal = why

    def tick(self, ready: Ready) -> None:
        """Asks for a seal when what is not sealed is `seal_seconds` old, so that a quiet actor seals, too."""
        if self.settings is not None and (self.unsealed or self._refusals):
            late = self.wall() - self._unsealed_since >= self.settings.seal_seconds
            ready.seal = ready.seal or ("time" if late else "")

    # Dropping

    async def _prune(self, events: list[bytes], now: int, wall: float, commit: int) -> int:
        """Adds the event that tells of it, if some are to be dropped; returns up to which."""
        until, overtaken = self._droppable()
        until = min(until, self._writer.head.position - len(events))  # those of this turn cannot be dropped yet
        if until < self.first:
            return 0
        root = [digest(body) async for _, body in self.store.events(until - 1, 1)]
        if overtaken:
            self.context.counts["followers overtaken"] += len(overtaken)
            log.error(
                "%s drops events up to %d, which these followers have not read: %s",
                self._writer.actor,
                until,
                ", ".join(overtaken),
            )
        events.append(
            self._writer.append(PrunedEvent, now, wall, commit, until=until, root=root[0], overtaken=tuple(overtaken))
        )
        return until

    def _droppable(self) -> tuple[int, list[str]]:
        """Up to which position events are dropped now, and which followers have not read them."""
        assert self.settings is not None
        last, keep = self.head.position, self.settings.keep
        chunk = max(1, min(CHUNK, keep // 10))
        most = max(self.settings.most, keep + chunk)
        kept, followers = last - self.first + 1, self.followers()
        if kept < keep + chunk:
            return 0, []
        until = min([last - keep, *followers.values()])
        if kept > most:
            until = max(until, last - most)
        if until - self.first + 1 < chunk and kept <= most:
            return 0, []
        return until, sorted(name for name, position in followers.items() if position < until)

    # Followers

    def followers(self) -> dict[str, int]:
        """The position up to which each follower has acknowledged events, by its name."""
        return followers_of(self.table.metadata)

    def _acknowledge(self, ready: Ready, name: str, position: int | None) -> None:
        followers, word = self.followers(), FOLLOWER + name
        if position is None:
            if name not in followers:
                raise ActorError(f"no follower {name[:80]!r} is known here")
            del self.table.metadata[word]
            ready.metadata[word] = b""
            return
        if not 0 <= position <= self.head.position:
            raise ActorError(f"event {position} has not been written yet: the last one is {self.head.position}")
        if name not in followers and len(followers) >= MOST_FOLLOWERS:
            raise ActorError(f"{MOST_FOLLOWERS} followers are the most; let one go that reads no more")
        if position > followers.get(name, -1):
            self.table.metadata[word] = ready.metadata[word] = b"%d" % position


def followers_of(metadata: Mapping[str, bytes]) -> dict[str, int]:
    """The position that each follower has acknowledged, in the metadata of a store."""
    names = (name for name in metadata if name.startswith(FOLLOWER))
    return {name.removeprefix(FOLLOWER): int(metadata[name]) for name in sorted(names)}


# Rows


class RowCodec:
    """Writes and reads machines as the bytes of a store's row."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.codecs = {role: Codec(program, core) for role, core in program.roles.items()}

    def write(self, instance: MachineInstance) -> bytes:
        """The row of a machine.

        Raises:
            CoreError: a value has left its type's range.
        """
        codec, peers = self.codecs[instance.core.role], instance.peers
        named = codec.by_name(peers, instance.number) if isinstance(peers, dict) else peers
        body: bytes = _pack([codec.encode(instance.record), named, instance.metadata])
        return body

    def read(self, key: RecordKey, row: bytes, below: Mapping[str, Machines]) -> MachineInstance:
        """The machine of a row; `below` are the subsidiary machines that its lease sees, by role.

        Raises:
            RecordError: it is none, or was written by another specification.
        """
        where = f"{key.lease} {key.machine}"
        named = self.program.machines.get(key.machine)
        if named is None:
            raise RecordError(f"{where}: {self.program.system} has no such machine")
        core = named[0]
        try:
            body, peers, metadata = _unpack(row)
            seen = tuple(below[sub.role] for sub in core.below)
            codec = self.codecs[core.role]
            record = codec.decode(body, seen)
            known = DynamicPeers(codec.by_position(peers, named[1])) if core.dynamic_neighbours else list(peers)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise RecordError(f"{where}: the row is not whole: {error}") from None
        except RecordError as error:
            raise RecordError(f"{where}: {error}", error.digest) from None
        return MachineInstance(key, core, record, known, dict(metadata))


# Words


class EventDescriber:
    """Describes what happened to the machines of a program.

    Args:
        program: the compiled system.
        codecs: by role, know which fields are not plain.
    """

    def __init__(self, program: Program, codecs: Mapping[str, Codec]) -> None:
        self.program = program
        self._shaped = {
            role: [(at, f.type) for at, f in enumerate(codec.core.fields, codec.core.data_at) if _is_shaped(f.type)]
            for role, codec in codecs.items()
        }
        self._messages = {name: _shapes(message.fields) for name, message in program.messages.items()}
        self._events = {
            (role, event): _shapes(fields)
            for role, core in program.roles.items()
            for event, fields in core.events.items()
        }
        self._lanes = lru_cache(1000)(lambda role, number: program.lanes(program.roles[role], number))
        self._known: dict[int, tuple[Any, Any]] = {}  # opaque values by identity, and how they are shown

    def fields_of(self, draft: FoundDraft | RefusedDraft | EventDraft) -> Mapping[str, Any]:
        """The own fields of an event."""
        if isinstance(draft, EventDraft):
            return draft.fields
        key, core = draft.instance.key, draft.instance.core
        where = {"lease": key.lease, "machine": key.machine}
        if isinstance(draft, FoundDraft):
            record = self.record(core, draft.record)
            return {**where, "record": record, "serves": draft.instance.serves if core.of_actor else ""}
        fields = self._fields(core, draft.event)
        return {**where, "event": draft.event[0], "cause": draft.cause, "reason": draft.reason, "fields": fields}

    def step(self, draft: StepDraft) -> MachineStep:
        """A step, and those that it drives."""
        instance, event, record, outcome = draft.instance, draft.event, draft.record, draft.outcome
        key, core = instance.key, instance.core
        neighbour = event[2]
        received = None
        if neighbour >= 0:
            peer = self.program.neighbour(core, instance.number, neighbour)
            received = ReceivedMessage(peer, instance.peers[neighbour], event[3], core.channel(neighbour))
        sends: tuple[SentMessage, ...] = ()
        starts: tuple[StartedCall, ...] = ()
        if outcome.work:
            sends = tuple(self._sent(instance, piece, record) for piece in outcome.work if type(piece) is SendWork)
            starts = tuple(StartedCall(piece.task, piece.target) for piece in outcome.work if type(piece) is CallWork)
        return MachineStep(
            key.lease,
            key.machine,
            event[0],
            self.record(core, record),
            draft.before[0],
            draft.cause,
            outcome.transition,
            self._fields(core, event),
            received,
            draft.ended,
            outcome.reason,
            draft.serves,
            sends,
            starts,
            tuple(map(self.step, draft.driven)) if draft.driven else (),
        )

    def record(self, core: Core, record: Record) -> MachineRecord:
        """A record."""
        plain = record
        if shaped := self._shaped[core.role]:
            changed = list(record)
            for at, kind in shaped:
                changed[at] = self._shown(kind, changed[at])
            plain = tuple(changed)
        sent = received = since = _NONE
        if not core.subsidiary:
            number = record[1] if core.indexed else 0
            sent = self._numbers(core, number, record[core.sent_at])
            received = self._numbers(core, number, record[core.received_at])
        if core.since:
            began = zip(core.since, record[core.state_epoch_at + 1 :], strict=False)
            since = {task: epoch for task, epoch in began if epoch}
        return MachineRecord(record[0], core.view(plain), record[core.state_epoch_at], sent, received, since)

    def digests(self, machines: Iterable[MachineInstance]) -> dict[str, dict[str, str]]:
        """Returns, by lease and machine, the digest of its record."""
        by_lease: dict[str, dict[str, str]] = {}
        for one in machines:
            by_lease.setdefault(one.key.lease, {})[one.key.machine] = record_digest(self.record(one.core, one.record))
        return by_lease

    def _numbers(self, core: Core, number: int, numbers: Any) -> dict[str, int]:
        """The numbers of messages by the names under which they stand."""
        if isinstance(numbers, dict):
            return {self.program.lane(core, number, at): n for at, n in sorted(numbers.items()) if n}
        return {name: n for name, n in zip(self._lanes(core.role, number), numbers, strict=True) if n}

    def _fields(self, core: Core, event: Event) -> dict[str, Any]:
        name, values, neighbour, *_ = event
        if not values:
            return _NONE
        return self._named(self._messages[name] if neighbour >= 0 else self._events[core.role, name], values)

    def _sent(self, instance: MachineInstance, piece: SendWork, record: Record) -> SentMessage:
        core, at = instance.core, piece.neighbour
        fields = self._named(self._messages[piece.message], piece.fields(record))
        to = self.program.neighbour(core, instance.number, at)
        return SentMessage(to, record[core.sent_at][at], piece.message, fields, instance.peers[at], core.channel(at))

    def _named(self, shapes: Shapes, values: Iterable[Any]) -> dict[str, Any]:
        """Fields as plain data by name."""
        return {
            name: value if kind is None else self._shown(kind, value)
            for (name, kind), value in zip(shapes, values, strict=True)
        }

    def _shown(self, kind: t.Type, value: t.Value) -> Any:
        """A value as plain data."""
        match kind:
            case t.Opaque():
                return self._opaque(value)
            case t.SparseMap(key=key, of=of) if _is_shaped(of):
                return {t.show(key, number): self._shown(of, one) for number, one in sorted(value.items())}
            case t.SparseMap():
                pass
            case t.Map(of=t.Opaque()):
                known, look = self._known, self._opaque
                return [one and (k[1] if (k := known.get(id(one))) and k[0] is one else look(one)) for one in value]
            case t.Map(of=of) if _is_shaped(of):
                return [self._shown(of, one) for one in value]
            case t.Option(of=of) if of is not None:
                return None if value is None else self._shown(of, value)
        return to_plain(kind, value)

    def _opaque(self, value: Any) -> Any:
        """A value, or its digest; the last ones are remembered."""
        if not value or isinstance(value, bool | int | float):
            return value
        if (known := self._known.get(id(value))) is not None and known[0] is value:
            return known[1]
        body = _encode(value)
        large = len(body) > LARGE
        shown = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)} if large else value
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[id(value)] = value, shown
        return shown


def _shapes(fields: Named) -> Shapes:
    return tuple((name, kind if _is_shaped(kind) else None) for name, kind in fields)


def _is_shaped(kind: t.Type) -> bool:
    """Returns whether a value may not be plain yet, or large."""
    return isinstance(kind, t.Set | t.Map | t.Option | t.Seq | t.Opaque)
