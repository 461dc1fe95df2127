"""A migration that is killed: a program for tests.

`interrupted.py URL FOLDER MOMENT` migrates as `leasehold migrate` does, and kills itself as `kill -9` would: `read`,
when all records were read; `written`, when SQLite has all of them in its transaction and has not committed it;
`committed`, when the commit has come back.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.migrate.migration import migrate, owner_of
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch
from leasehold.spec import load


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Doomed(SqliteStore):
    """A store whose process dies within or around its commit."""

    moment = ""

    async def _commit(self, batch: Batch) -> None:
        if self.moment == "read":
            die()
        connection = self._open_connection()
        if self.moment == "written":
            connection.set_trace_callback(self._watch)
        await super()._commit(batch)
        die()

    def _watch(self, statement: str) -> None:
        if statement == "COMMIT":
            die()


async def main(url: str, folder: str, moment: str) -> None:
    system = load(folder)
    store = Doomed(url.removeprefix("sqlite:"))
    Doomed.moment = moment
    await migrate(store, await owner_of(store), system, compile_system(system))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
