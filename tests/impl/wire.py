"""A TCP port before a server, that can be cut and mended: a server that is away, and comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from leasehold.impl.processes.fleet import free_ports


class Wire:
    """Nobody listens at its port until it is mended.

    Args:
        server: the port of the server, on this machine.

    Attributes:
        port: its own port, which stays the same.
    """

    def __init__(self, server: int) -> None:
        self.server = server
        (self.port,) = free_ports(1)
        self._listener: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def mend(self) -> None:
        """Connections come through from now on."""
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    def cut(self) -> None:
        """All connections end at once, in the middle of what they say, and no new one comes through."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for end in self._ends:
            end.transport.abort()

    async def close(self) -> None:
        """Cuts it, and waits until nothing goes on."""
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.server)
        both = {writer, far_writer}
        self._ends |= both
        ways = [self._carry(reader, far_writer), self._carry(far_reader, writer)]
        tasks = {asyncio.ensure_future(way) for way in ways}
        self._tasks |= tasks
        if self._listener is None:  # it was cut meanwhile
            self.cut()
        await asyncio.wait(tasks)
        self._tasks -= tasks
        self._ends -= both

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def wire_to(server: int) -> AsyncIterator[Wire]:
    """A wire that is cut, for as long as the block lasts."""
    made = Wire(server)
    try:
        yield made
    finally:
        await made.close()
