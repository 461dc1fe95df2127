"""The store in a PostgreSQL database, which several actors may share.

Theory of operation. Five tables in the first schema of the connection's search_path: `leasehold_schema` (the layout's
version), `leasehold_actor` (name and epoch), and three keyed by actor: `leasehold_record`, `leasehold_word` and
`leasehold_event`. A commit is one statement, so one round trip and one transaction: it locks the actor's row if the
epoch is still ours, and whatever it writes is joined to that row. When the row is not found nothing is written, and we
are fenced.

Ownership is an advisory lock that the connection holds: it keeps a second copy out, and goes with the connection. Where
it goes too early, because the connection was cut while its owner lives on, the epoch holds: whoever opens the store
next raises it, and waits for that on a commit that is still under way; an old copy's commit comes before, or not at
all.

A commit is durable when it returns: synchronous_commit is switched on if the server has it off, and a server that runs
with fsync=off is refused. A connection whose other end is gone is noticed at both ends in half a minute (keepalives);
a server that does not answer within a minute is taken for lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import psycopg

from leasehold.impl.files import table
from leasehold.impl.store.answered import AsyncAnsweredConnection
from leasehold.impl.store.failures import connection_refused, error_named, error_of
from leasehold.impl.store.owned import PAGE, OwnedStore, Row
from leasehold.impl.store.store import Batch, EventRange, RecordKey, StoreError

VERSION = 2
_SETUP_LOCK = 0x4C454153  # taken while the tables are created, so that two actors do not do it at once

_SETTINGS = {  # of the connection, where the URL does not say otherwise
    "application_name": "leasehold",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_SQL = table(__package__, "statements.yaml")["postgresql"]


class PostgresqlStore(OwnedStore):
    """A store in a database, whose URL is as libpq takes it: `postgresql://user:password@host:5432/database`.

    Attributes:
        settings: of the connection, by libpq's names.
        patience: seconds to wait for the lock of an earlier owner whose connection is just ending.

    Raises:
        StoreError: the URL is not one of PostgreSQL.
    """

    def __init__(self, url: str, patience: float = 2.0) -> None:
        self.settings = _settings(url)
        super().__init__(_place(self.settings))
        self.patience = patience
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._lock = 0
        self._actor = self._epoch = 0

    async def _take(self, owner: str) -> int:
        self._connection = connection = await AsyncAnsweredConnection.connect(autocommit=True, **self.settings)
        await connection.execute(_SQL["session"])
        schema, encoding, fsync = await self._row(
            "SELECT current_schema(), current_setting('server_encoding'), current_setting('fsync')"
        )
        if encoding != "UTF8":
            raise StoreError(f"{self.place}: the database's encoding is {encoding}", "create it with ENCODING 'UTF8'")
        if fsync != "on":
            raise StoreError(f"{self.place}: the server may lose what it committed (fsync is off)", "set fsync = on")
        await self._take_lock(owner, str(schema))
        async with connection.transaction():
            await self._lay_out(connection)
            self._actor, self._epoch = await self._row(_SQL["raise_epoch"], owner)
        return self._epoch

    async def _look(self, owner: str) -> bool:
        self._lock = self._epoch = 0
        if owner not in await self._owners():
            return False
        (self._actor,) = await self._row("SELECT id FROM leasehold_actor WHERE name = %s", owner)
        return True

    async def _owners(self) -> list[str]:
        self._connection = connection = await AsyncAnsweredConnection.connect(autocommit=True, **self.settings)
        if await self._row("SELECT to_regclass('leasehold_actor') IS NULL") == (True,):
            return []
        rows = await connection.execute("SELECT name FROM leasehold_actor ORDER BY name")
        return [str(name) for (name,) in await rows.fetchall()]

    async def _take_lock(self, owner: str, schema: str) -> None:
        digest = blake2b(f"leasehold\0{schema}\0{owner}".encode(), digest_size=8).digest()
        self._lock = int.from_bytes(digest, signed=True)
        await self._row("SELECT set_config('lock_timeout', %s, false)", f"{max(1, round(self.patience * 1000))}ms")
        try:
            await self._row("SELECT pg_advisory_lock(%s)", self._lock)
        except psycopg.errors.LockNotAvailable:
            pid = await self._row(_SQL["holder"], self._lock)
            holder = f" (server process {pid[0]})" if pid else ""
            end = f"; if it is gone, SELECT pg_terminate_backend({pid[0]})" if pid else ""
            raise self._busy(owner, holder, f"stop that copy{end}") from None
        await self._row("SELECT set_config('lock_timeout', '10s', false)")

    async def _lay_out(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
        if (await self._row("SELECT to_regclass('leasehold_schema') IS NULL"))[0]:
            for statement in _SQL["layout"]:
                await connection.execute(statement)
        version = await self._row("SELECT max(version) FROM leasehold_schema")
        if version[0] is None:
            raise error_named("other_tables", self.place, "leasehold_schema is empty")
        if version[0] > VERSION:
            raise self._newer_version(version[0], VERSION)
        for before in range(version[0], VERSION):
            for statement in _SQL[f"from_{before}"]:
                await connection.execute(statement)

    async def _page(self, after: RecordKey | None) -> Sequence[Row]:
        query = _SQL["next_page" if after else "first_page"]
        rows = await self._open_connection().execute(query, (self._actor, *(after or ()), PAGE), binary=True)
        return await rows.fetchall()

    async def _metadata(self) -> Sequence[tuple[str, bytes]]:
        query = "SELECT name, body FROM leasehold_word WHERE actor = %s"
        rows = await self._open_connection().execute(query, (self._actor,), binary=True)
        return await rows.fetchall()

    async def _event_page(self, after: int, limit: int) -> Sequence[tuple[int, bytes]]:
        rows = await self._open_connection().execute(_SQL["events"], (self._actor, after, limit), binary=True)
        return await rows.fetchall()

    async def _event_range(self) -> EventRange:
        return EventRange(*await self._row(_SQL["event_range"], self._actor))

    async def _commit(self, batch: Batch) -> None:
        bodies = {name: body for name, body in batch.metadata.items() if body}
        cursor = await self._open_connection().execute(
            _SQL["commit"],
            {
                "actor": self._actor,
                "epoch": self._epoch,
                "leases": [lease for lease, _ in batch.puts],
                "machines": [machine for _, machine in batch.puts],
                "bodies": list(batch.puts.values()),
                "gone_leases": [lease for lease, _ in batch.drops],
                "gone_machines": [machine for _, machine in batch.drops],
                "names": list(bodies),
                "said": list(bodies.values()),
                "gone_names": [name for name in batch.metadata if name not in bodies],
                "positions": list(range(self._last_event + 1, self._last_event + 1 + len(batch.events))),
                "events": list(batch.events),
                "pruned": batch.prune_events_to,
            },
            prepare=True,
        )
        if await cursor.fetchone() != (1,):
            newer = await self._row("SELECT epoch FROM leasehold_actor WHERE id = %s", self._actor)
            raise self._fenced(self._epoch, newer[0] if newer else None)

    async def _row(self, query: str, *values: object) -> tuple[Any, ...]:
        """The first row of an answer; the empty one if there is none."""
        cursor = await self._open_connection().execute(query.encode(), values)
        return await cursor.fetchone() or ()

    def _open_connection(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        if self._connection is None:
            raise self._not_open()
        return self._connection

    async def _leave(self) -> None:
        # The server ends a closed connection in its own time, and until then it would keep the next owner out.
        with contextlib.suppress(psycopg.Error):
            await self._row("SELECT pg_advisory_unlock(%s)", self._lock)

    async def _drop(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def _meaning(self, error: BaseException) -> StoreError | None:
        if not isinstance(error, psycopg.Error):
            return None
        message = error.diag.message_primary or str(error)
        if error.sqlstate is not None:
            return error_of("postgresql", error.sqlstate, self.place, f"{message}, {error.sqlstate}")
        if self._connection is None:  # it never came to be, and libpq says why in words alone
            return connection_refused(self.place, message)
        return error_named("lost", self.place, message)


def _settings(url: str) -> dict[str, Any]:
    try:
        # Another encoding, which the environment may name, has no room for every key.
        return {**_SETTINGS, **psycopg.conninfo.conninfo_to_dict(url), "client_encoding": "UTF8"}
    except psycopg.ProgrammingError as error:
        # What libpq says of a setting names it; its other complaints may quote a password.
        about = f": {' '.join(str(error).split())}" if "parameter" in str(error) else ""
        raise StoreError(
            f"the store's URL is not one of PostgreSQL{about}", "write postgresql://user:password@host:5432/database"
        ) from None


def _place(settings: dict[str, Any]) -> str:
    """Returns where settings lead, without the password."""
    where = f"{settings.get('host', 'localhost')}:{settings.get('port', 5432)}"
    return f"postgresql://{where}/{settings.get('dbname', settings.get('user', ''))}"
