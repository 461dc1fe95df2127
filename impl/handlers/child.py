"""A program that a handler has started, with pipes to it; nothing of it blocks the event loop.

Theory of operation. Starting a program waits until it has begun (its file may lie on a disk that does not answer), so
a thread does it. Its end is heard through a file descriptor (pidfd). When the action is over, by itself or because it
was cancelled, the program's process group is killed and waited for, and its pipes are closed, also where a process
that left the group still holds the other ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import IO

from leasehold.impl import descriptors
from leasehold.impl.handlers.handler import ended
from leasehold.impl.handlers.threads import in_thread

MOST_OUTPUT = 1 << 20


async def run_program(
    command: Sequence[str], payload: bytes, environment: Mapping[str, str], keep: tuple[int, ...], threads: Executor
) -> tuple[int, bytes, bytes]:
    """Runs a program to its end; returns its exit code, and the last part of its output and of its errors.

    Args:
        command: what to execute.
        payload: for its standard input.
        environment: all of its variables.
        keep: descriptors that it inherits.
        threads: start it.

    Raises:
        OSError: it cannot be started.
        NotBegun: no thread can be started for it.
    """
    loop = asyncio.get_running_loop()

    def begin() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        begun = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            pass_fds=keep,
            env=environment,
            bufsize=0,
        )
        descriptors.limit_child(begun.pid)
        return begun

    # A start that is cancelled would end the first process alone, and leave the processes that it started.
    starting = in_thread(threads, begin)
    transports, writing = list[asyncio.BaseTransport](), _Writing()
    try:
        begun = await asyncio.shield(starting)
        assert begun.stdin is not None and begun.stdout is not None and begun.stderr is not None
        output, errors = [await _read(pipe, transports) for pipe in (begun.stdout, begun.stderr)]
        transport, _ = await loop.connect_write_pipe(lambda: writing, begun.stdin)
        transport.write(payload)  # it need not read
        transport.write_eof()
        outputs = await asyncio.gather(_all(output), _all(errors))
        code = await _ended(begun)
        return code, *outputs
    finally:
        await ended(starting)
        if starting.exception() is None:
            writing.abort()
            await _close(starting.result(), transports)


async def _read(pipe: IO[bytes], transports: list[asyncio.BaseTransport]) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    make: Callable[[], asyncio.BaseProtocol] = lambda: asyncio.StreamReaderProtocol(reader)  # noqa: E731
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(make, pipe)
    transports.append(transport)
    return reader


async def _all(stream: asyncio.StreamReader) -> bytes:
    """The last part of the output, as the last line counts."""
    kept = b""
    while chunk := await stream.read(1 << 16):
        kept = (kept + chunk)[-MOST_OUTPUT:]
    return kept


async def _ended(begun: subprocess.Popen[bytes]) -> int:
    """The exit code of a program, when it has ended."""
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    try:
        watched = os.pidfd_open(begun.pid)
    except OSError:  # there is no descriptor to spare
        while begun.poll() is None:
            await asyncio.sleep(0.05)
    else:
        loop.add_reader(watched, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)
    return begun.wait()


async def _close(begun: subprocess.Popen[bytes], transports: Sequence[asyncio.BaseTransport]) -> None:
    if begun.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(begun.pid, signal.SIGKILL)
        await ended(asyncio.ensure_future(_ended(begun)))
    for transport in transports:
        transport.close()
    for pipe in (begun.stdin, begun.stdout, begun.stderr):
        if pipe is not None:
            pipe.close()  # a transport closes its own once more, which does no harm
    await asyncio.sleep(0)


class _Writing(asyncio.BaseProtocol):
    """The end at which a program is told something."""

    transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def abort(self) -> None:
        """Closes the pipe, whatever is still to be written to it."""
        if self.transport is not None:
            self.transport.abort()
