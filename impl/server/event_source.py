"""The sources of events: a running actor, a store, or a file of lines. Each gives the same lines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, Protocol

from leasehold.impl.actor.chronicle import HEAD
from leasehold.impl.events.chain import Head
from leasehold.impl.events.event import ROOT, digest, read
from leasehold.impl.events.lines import write_lines
from leasehold.impl.migrate.migration import owner_of
from leasehold.impl.server import config
from leasehold.impl.server.client import Client, Silent, Unreachable, near_file, sockets
from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.store import StoreError
from leasehold.impl.store.url import store_from_url

GRACE_SECONDS = 5.0  # in which a commit that has begun is in the store
PAGE = 1000  # events that are read from a store at once
HEADER = b'{"kind":"header"'  # with which a file of lines begins
SQLITE = b"SQLite format 3\0"  # and a store


class SourceMoment(NamedTuple):
    """The moment up to which a source is complete: what is above position `last` is of this moment or later.

    Attributes:
        last: a position.
        now: virtual time; None: not known.
        time: real time, in seconds since 1970.
    """

    last: int
    now: int | None
    time: float


class EventSource(Protocol):
    """Events of one actor.

    Attributes:
        live: whether more may come.
        signed: whether the end of the lines has a signature, unless something is wrong.
    """

    live: bool
    signed: bool

    def lines(self, after: int) -> Iterator[bytes]:
        """The lines of the events above a position, as far as they are there.

        Raises:
            ClientError, StoreError: they cannot be read.
        """
        ...

    def moment(self) -> SourceMoment:
        """Returns how far the source is complete, for who reads it afterwards.

        Raises:
            ClientError: it cannot be read.
        """
        ...


class ActorSource:
    """The events of a running actor, which comes page by page."""

    live = signed = True

    def __init__(self, client: Client) -> None:
        self.client = client

    def lines(self, after: int) -> Iterator[bytes]:
        first = True
        while True:
            header, *bodies, end = self.client.read("events", after=str(after)).splitlines()
            if first:
                yield header
            yield from bodies
            if not bodies:
                yield end
                return
            after, first = read(bodies[-1]).position, False

    def moment(self) -> SourceMoment:
        state = self.client.get("events", "state")
        return SourceMoment(state["last"], state["now"], state["time"])

    def acknowledge(self, follower: str, position: int) -> None:
        """A follower has kept the events up to a position.

        Raises:
            ClientError: the actor says no, or does not answer.
        """
        self.client.post("followers", follower, "acknowledge", str(position))

    def leave(self, follower: str) -> None:
        """A follower reads no more.

        Raises:
            ClientError: the actor says no, or does not answer.
        """
        self.client.post("followers", follower, "leave")


class StoreSource:
    """The events in a store, whether its actor runs or not. Nobody signs their end."""

    live, signed = True, False

    def __init__(self, url: str, actor: str) -> None:
        self.url, self.actor = url, actor

    def lines(self, after: int) -> Iterator[bytes]:
        first = True
        while True:
            header, *bodies, end = asyncio.run(self._read(after))
            if first:
                yield header
            yield from bodies
            if len(bodies) < PAGE:
                yield end
                return
            after, first = read(bodies[-1]).position, False

    def moment(self) -> SourceMoment:
        return SourceMoment(0, None, time.time() - GRACE_SECONDS)

    async def _read(self, after: int) -> list[bytes]:
        store = store_from_url(self.url)
        assert isinstance(store, OwnedStore)
        owner = await owner_of(store, self.actor)
        await store.look(owner)
        try:
            head = Head.of((await store.metadata()).get(HEAD))  # before the events, as more may come meanwhile
            kept = [item async for item in store.events(max(0, after - 1), PAGE + 1)]
        finally:
            await store.close()
        before = [body for position, body in kept if position <= after]
        bodies = [body for position, body in kept if after < position <= head.position][:PAGE]
        at = after, digest(before[0]) if before else ROOT
        return [*write_lines(owner, bodies, round(time.time(), 3), at, end=(head.position, head.digest))]


class FileSource:
    """A file of lines."""

    live, signed = False, True

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, after: int) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                yield from (line.rstrip(b"\r\n") for line in file)
        except OSError as error:
            near = near_file(self.path) if isinstance(error, FileNotFoundError) else ""
            raise Unreachable(f"{self.path} cannot be read: {error.strerror or error}{near}") from None

    def moment(self) -> SourceMoment:
        return SourceMoment(0, None, 0.0)


class ConfiguredSource:
    """The events of an actor by its configuration: from the actor while it runs, else from its store.

    Attributes:
        name: of the actor.
    """

    live = True

    def __init__(self, path: Path) -> None:
        settings = config.read_config(path)
        self.actor = ActorSource(Client(path.parent / settings.socket))
        self.name = settings.name
        self.store = StoreSource(_beside(path, settings.store), settings.name)
        self.signed = True

    def lines(self, after: int) -> Iterator[bytes]:
        lines = self.actor.lines(after)
        try:
            first = next(lines)
        except Silent:  # it is not down, and may go on at any time
            raise
        except Unreachable:
            lines = self.store.lines(after)
            try:
                first = next(lines)
            except StoreError as error:
                raise Unreachable(f"the actor does not answer, and its store cannot be read: {error}") from None
            self.signed = False
        else:
            self.signed = True
        yield first
        yield from lines

    def moment(self) -> SourceMoment:
        try:
            return self.actor.moment()
        except Silent:
            raise
        except Unreachable:
            return self.store.moment()

    def acknowledge(self, follower: str, position: int) -> None:
        """Acknowledges the events up to a position, as `ActorSource` does."""
        self.actor.acknowledge(follower, position)

    def leave(self, follower: str) -> None:
        """Says that a follower reads no more, as `ActorSource` does."""
        self.actor.leave(follower)


def _beside(path: Path, url: str) -> str:
    """The URL of an actor's store: a file lies in the folder that it runs in, which often has its configuration."""
    kind, _, file = url.partition(":")
    there = path.parent / file
    return f"{kind}:{there}" if kind == "sqlite" and not Path(file).exists() and there.exists() else url


def _begin(path: Path) -> bytes:
    """The first bytes of a file; none of what is no plain file, or cannot be read, which is said when it is."""
    try:
        with path.open("rb") if path.is_file() else BytesIO() as file:
            return file.read(max(map(len, (HEADER, SQLITE))))
    except OSError:
        return b""


def _is_store(source: str) -> bool:
    """Returns whether a source is the URL of a store."""
    return ":" in source and not Path(source).exists()


def actors_of(source: str) -> list[str]:
    """The actors of a source that has several, a store that actors share; none of any other.

    Raises:
        StoreError: the store cannot be read, or the URL is none.
    """
    store = store_from_url(source) if _is_store(source) else None
    there = asyncio.run(store.owners()) if isinstance(store, OwnedStore) else []
    return there if len(there) > 1 else []


def open_source(source: str, actor: str = "", stores: bool = False) -> EventSource:
    """A source: the URL of a store; a file of lines; or an actor's socket, its configuration, or a folder of sockets.

    Args:
        source: which.
        actor: of several in a store or folder.
        stores: read the store of an actor that is named by its configuration where it does not answer.

    Raises:
        ClientError: there is none.
        StoreError: the URL is none.
    """
    path = Path(source)
    if _is_store(source):
        return StoreSource(source, actor)
    begin = _begin(path)
    if (path.suffix == ".jsonl" and not path.is_dir()) or begin.startswith(HEADER):
        return FileSource(path)
    if begin.startswith(SQLITE):
        raise Unreachable(f"{path} is a SQLite store, which is named by its URL: sqlite:{source}")
    if stores and path.is_file() and not path.is_socket():
        try:
            return ConfiguredSource(path)
        except config.ConfigError as error:
            raise Unreachable(str(error)) from None
    clients = [Client(one) for one in sockets(path) if not actor or one.stem == actor]
    if len(clients) != 1 and path.is_dir():
        names = ", ".join(one.stem for one in sockets(path))
        raise Unreachable(f"{path} has the sockets of {names}; name one of these actors with --actor")
    return ActorSource(clients[0])
