"""Connections to PostgreSQL whose server has to answer within a time.

Theory of operation. A server that hangs keeps its connections, and its system acknowledges what is sent to it; so
neither the driver nor keepalives notice, and a limit of the server's own does not end what it never begins. The driver
waits in generators: it asks them again now and then while nothing comes. These here give up after a time in which
nothing has come, and end the connection, of which nobody knows what its server has done.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg


class Unanswered(psycopg.OperationalError):
    """The server has not answered in time; the connection is closed."""


class AnsweredConnection(psycopg.Connection[Any]):
    """A connection whose server has to answer within `answer_seconds`."""

    answer_seconds: float

    def wait(self, gen: Any, *options: Any, **named: Any) -> Any:
        return super().wait(_limited(gen, self.pgconn, self.answer_seconds), *options, **named)


class AsyncAnsweredConnection(psycopg.AsyncConnection[Any]):
    """Likewise, for asyncio."""

    answer_seconds = 60.0

    async def wait(self, gen: Any, *options: Any, **named: Any) -> Any:
        return await super().wait(_limited(gen, self.pgconn, self.answer_seconds), *options, **named)


def _limited(gen: Generator[Any, Any, Any], connection: Any, seconds: float) -> Generator[Any, Any, Any]:
    """The same generator, which ends with `Unanswered` where nothing has come for so long."""
    since = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                since = time.monotonic()
            elif time.monotonic() - since > seconds:
                connection.finish()
                raise Unanswered(f"no answer within {seconds:g} seconds")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value
