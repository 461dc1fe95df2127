"""The events of an actor, written by the commits of their turns; when they are sealed, and which are dropped.

Theory of operation. A turn lists what happened (drafts.py). Its commit appends that to the chain (impl/events), with
the new head among the metadata, so after a crash the chain has exactly the steps whose records are there. Whatever the
chronicle has in memory is read anew after a commit that failed.

An incarnation that finds records begins with an event of its own before any work; one that finds none has nothing to
tell until its first commit.

What was refused has changed nothing, so it asks for no commit of its own: it is written by the next one, or at a tick.

A commit ends with a seal when many events have none, or the oldest of them is old; the tick seals what was left by an
actor that is quiet. Dropping is done by a commit, too: the oldest events go when there are more than are to be kept,
but none that a follower has not acknowledged, unless there are more than may ever be.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from leasehold.impl.actor.describe import EventDescriber
from leasehold.impl.actor.drafts import Draft, EventDraft, FoundDraft, StepDraft
from leasehold.impl.actor.environment import ActorContext, ActorError
from leasehold.impl.actor.ready import Follow, Ready, SealEvents
from leasehold.impl.actor.table import BELOW, RowCodec
from leasehold.impl.events.chain import ChainWriter, Head
from leasehold.impl.events.event import EventError, PrunedEvent, RecoveredEvent, RefusedEvent, StepEvent, digest
from leasehold.impl.store.store import Store, StoreError

log = logging.getLogger("leasehold.events")

HEAD = "events"  # metadata: where the chain ends
FOLLOWER = "follower "  # metadata: how far a follower has come
MOST_FOLLOWERS = 100
MOST_REFUSALS = 100  # that wait for a commit
CHUNK = 1000  # events that are dropped at once
MOST_DIGESTS = 10_000  # of machines whose records are told of when they are recovered


class Chronicle:
    """The events of one actor.

    Args:
        context: of the actor.
        rows: knows the fields of records.
    """

    def __init__(self, context: ActorContext, rows: RowCodec) -> None:
        self.context, self.table, self.settings = context, context.table, context.options.events
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

    async def begin(self, ready: Ready, store: Store, epoch: int, agreement: str, commits: int) -> None:
        """An incarnation begins with what its store has; the machines are in the table already.

        Raises:
            StoreError: the events are not those that were committed.
        """
        self._waiting, self._refusals = [], []
        if self.settings is None:
            return
        head = await self._read_head(store)
        self._writer = ChainWriter(self.context.identity.name, self.context.program.digest, epoch, head)
        self._unsealed_since = self.wall()
        machines, unrecorded = self.table.instances, commits - head.commit
        program = self.context.program
        fields = {
            "agreement": agreement,
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

    async def _read_head(self, store: Store) -> Head:
        try:
            head = Head.of(self.table.metadata.get(HEAD))
        except EventError as error:
            raise StoreError(f"the store's metadata are damaged: {error}", "put a whole copy in its place") from None
        self.first, last = await store.event_range()
        digests = [digest(body) async for _, body in store.events(last - 1)] if last else []
        if head.position != last or digests not in ([], [head.digest]):
            end = f"end at {last}" if head.position != last else f"have another one at {last}"
            raise StoreError(
                f"the events in the store {end}, and were committed up to {head.position}: some were changed or "
                "removed",
                "put a whole copy of the store in its place",
            )
        return head

    # Writing

    def asks(self, ready: Ready) -> bool:
        """Returns whether a turn needs a commit for the sake of its events."""
        return bool(ready.seal and (self.unsealed or self._refusals)) or any(
            draft.kind is not RefusedEvent for draft in ready.events
        )

    def put_off(self, ready: Ready) -> None:
        """A turn without a commit: what was refused in it is written by the next one."""
        room = MOST_REFUSALS - len(self._refusals)
        self._refusals += ready.events[:room]
        self.context.counts["refusals without events"] += max(0, len(ready.events) - room)

    async def write(self, ready: Ready, commit: int, store: Store) -> tuple[list[bytes], int]:
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
        until, why = await self._prune(events, now, wall, commit, store), ready.seal
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

    async def _prune(self, events: list[bytes], now: int, wall: float, commit: int, store: Store) -> int:
        """Adds the event that tells of it, if some are to be dropped; returns up to which."""
        until, overtaken = self._droppable()
        until = min(until, self._writer.head.position - len(events))  # those of this turn cannot be dropped yet
        if until < self.first:
            return 0
        root = [digest(body) async for _, body in store.events(until - 1, 1)]
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
