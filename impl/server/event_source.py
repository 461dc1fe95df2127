"""Where events are read from: a running actor, a store, or a file of lines. Each gives the same lines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from leasehold.impl.actor.chronicle import HEAD
from leasehold.impl.events.chain import Head
from leasehold.impl.events.event import ROOT, digest, read
from leasehold.impl.events.lines import write_lines
from leasehold.impl.migrate.migration import owner_of
from leasehold.impl.server.client import Client, Unreachable, sockets
from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.url import store_from_url


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
            ClientError, StoreError, OSError: they cannot be read.
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


class StoreSource:
    """The events in a store, whether its actor runs or not. Nobody signs their end."""

    live, signed = True, False

    def __init__(self, url: str, actor: str) -> None:
        self.url, self.actor = url, actor

    def lines(self, after: int) -> Iterator[bytes]:
        yield from asyncio.run(self._read(after))

    async def _read(self, after: int) -> list[bytes]:
        store = store_from_url(self.url)
        assert isinstance(store, OwnedStore)
        owner = await owner_of(store, self.actor)
        await store.look(owner)
        try:
            head = Head.of((await store.metadata()).get(HEAD))  # before the events, as more may come meanwhile
            kept = [item async for item in store.events(max(0, after - 1))]
        finally:
            await store.close()
        before = [body for position, body in kept if position <= after]
        bodies = [body for position, body in kept if after < position <= head.position]
        at = after, digest(before[0]) if before else ROOT
        return [*write_lines(owner, bodies, round(time.time(), 3), at, end=(head.position, head.digest))]


class FileSource:
    """A file of lines."""

    live, signed = False, True

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, after: int) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from (line.rstrip(b"\r\n") for line in file)


def open_source(words: str, actor: str = "") -> EventSource:
    """A source: the URL of a store; a file of lines; or an actor's socket, its configuration, or a folder of sockets.

    Args:
        words: which.
        actor: of several in a store or folder.

    Raises:
        ClientError: there is none.
        StoreError: the URL is none.
    """
    path = Path(words)
    if not path.exists() and ":" in words:
        return StoreSource(words, actor)
    if path.suffix == ".jsonl":
        return FileSource(path)
    found = [Client(one) for one in sockets(path) if not actor or one.stem == actor]
    if len(found) != 1 and path.is_dir():
        names = ", ".join(one.stem for one in sockets(path))
        raise Unreachable(f"{path} has the sockets of {names}; name one of these actors with --actor")
    return ActorSource(found[0])
