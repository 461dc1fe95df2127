"""The store in a MariaDB database (InnoDB), which several actors may share.

Theory of operation. Five tables: `leasehold_schema` (the layout's version), `leasehold_actor` (name and epoch),
`leasehold_record`, `leasehold_word` and `leasehold_event`, all three keyed by actor. A commit is two round trips: the
first begins a transaction and locks the actor's row, whose epoch tells whether we are still the owner; the second
writes everything, in statements of many rows, and commits. A batch too long for one packet takes more of them, in the
same transaction.

Ownership is a named lock that the connection holds (GET_LOCK): it keeps a second copy out, and goes with the
connection. Where it goes too early, because the connection was cut while its owner lives on, the epoch holds: whoever
opens the store next raises it, and waits for that on a commit that is still under way.

Texts and bytes are written as hexadecimal literals, which mean the same under every character set and SQL mode. Keys
are kept as bytes (VARBINARY), so that no collation makes two of them equal, and their order is that of every store.

A commit is durable when it returns: a server that does not flush its log at each commit is refused. One that does not
answer within a minute is taken for lost, as the driver notices by itself only what the system tells it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import aiomysql

from leasehold.impl.files import table
from leasehold.impl.store.failures import error_named, error_of
from leasehold.impl.store.owned import PAGE, OwnedStore, Row
from leasehold.impl.store.store import Batch, EventRange, RecordKey, StoreError, Transient
from leasehold.impl.words import did_you_mean

VERSION = 2
_PACKET_BYTES = 16 * 2**20  # what the server must take in one packet: a value of the largest size, twice, and a key
_STATEMENT_BYTES = 2**20  # a statement of many rows ends after this, a packet of many statements too
_ANSWER_SECONDS = 60.0

_SQL = table(__package__, "statements.yaml")["mariadb"]


class MariadbStore(OwnedStore):
    """A store in a database, whose URL is `mariadb://user:password@host:3306/database`.

    Attributes:
        settings: of the connection, by aiomysql's names.
        patience: seconds to wait for the lock of an earlier owner whose connection is just ending.

    Raises:
        StoreError: the URL is not one of MariaDB.
    """

    def __init__(self, url: str, patience: float = 2.0) -> None:
        self.settings = to = _settings(url)
        server = to["unix_socket"] or f"{to['host']}:{to['port']}"
        super().__init__(f"mariadb://{server}/{to['db']}")
        self.patience = patience
        self._connection: Any = None
        self._lock = ""
        self._actor = self._epoch = 0

    async def _take(self, owner: str) -> int:
        await self._connect()
        await self._check_server()
        database = self.settings["db"]
        self._lock = "leasehold/" + _digest(f"{database}\0{owner}")
        if await self._ask(f"SELECT GET_LOCK('{self._lock}', {self.patience:.3f})") != [(1,)]:
            ((holder,),) = await self._ask(f"SELECT IS_USED_LOCK('{self._lock}')")
            end = f"; if it is gone, KILL CONNECTION {holder}" if holder else ""
            raise self._busy(owner, f" (connection {holder})" if holder else "", f"stop that copy{end}")
        await self._lay_out()
        await self._ask("START TRANSACTION")
        name = _text(owner)
        rows = await self._ask(f"SELECT id, epoch FROM leasehold_actor WHERE name = {name} FOR UPDATE")
        if rows:
            await self._ask(f"UPDATE leasehold_actor SET epoch = epoch + 1 WHERE name = {name}")
        else:
            await self._ask(f"INSERT INTO leasehold_actor (name, epoch) VALUES ({name}, 1)")
        ((self._actor, self._epoch),) = await self._ask(f"SELECT id, epoch FROM leasehold_actor WHERE name = {name}")
        await self._ask("COMMIT")
        return self._epoch

    async def _look(self, owner: str) -> bool:
        self._epoch = 0
        if owner not in await self._owners():
            return False
        ((self._actor,),) = await self._ask(f"SELECT id FROM leasehold_actor WHERE name = {_text(owner)}")
        return True

    async def _owners(self) -> list[str]:
        await self._connect()
        if not await self._ask("SHOW TABLES LIKE 'leasehold\\_actor'"):
            return []
        return [name.decode() for (name,) in await self._ask("SELECT name FROM leasehold_actor ORDER BY name")]

    async def _connect(self) -> None:
        self._connection = await aiomysql.connect(
            **self.settings, charset="utf8mb4", autocommit=True, connect_timeout=10
        )
        await self._ask(_SQL["session"])

    async def _check_server(self) -> None:
        ((packet, flush),) = await self._ask("SELECT @@max_allowed_packet, @@innodb_flush_log_at_trx_commit")
        if packet < _PACKET_BYTES:
            raise StoreError(
                f"{self.place}: the server takes packets of {packet} bytes, and a record may need {_PACKET_BYTES}",
                "set its max_allowed_packet to 16M or more",
            )
        if flush not in (1, 3):
            raise StoreError(
                f"{self.place}: the server may lose what it committed (innodb_flush_log_at_trx_commit is {flush})",
                "set innodb_flush_log_at_trx_commit = 1",
            )

    async def _lay_out(self) -> None:
        """Creates the tables if they are not there, or refuses those of a newer version."""
        # Two actors must not do it at once; the version is the last that is written, as each CREATE commits by itself.
        setup = f"leasehold/setup/{_digest(self.settings['db'])}"
        if await self._ask(f"SELECT GET_LOCK('{setup}', 10)") != [(1,)]:
            raise Transient(f"{self.place}: another actor has been creating the tables for 10 seconds", "try it again")
        have = {name for (name,) in await self._ask("SHOW TABLES LIKE 'leasehold\\_%'")}
        for name, columns in _SQL["layout"].items():
            if name not in have:
                await self._ask(f"CREATE TABLE {name} {columns}")
        rows = await self._ask("SELECT max(version) FROM leasehold_schema")
        if rows == [(None,)]:
            await self._ask(f"INSERT INTO leasehold_schema (version) VALUES ({VERSION})")
        elif rows[0][0] > VERSION:
            raise self._newer_version(rows[0][0], VERSION)
        elif rows[0][0] < VERSION:  # the layout of version 1 had no events, whose table is there now
            await self._ask(f"UPDATE leasehold_schema SET version = {VERSION}")
        await self._ask(f"SELECT RELEASE_LOCK('{setup}')")

    async def _page(self, after: RecordKey | None) -> Sequence[Row]:
        where = f"actor = {self._actor}"
        if after is not None:
            lease, machine = map(_text, after)
            where += f" AND (lease > {lease} OR (lease = {lease} AND machine > {machine}))"
        rows = await self._ask(
            f"SELECT lease, machine, body FROM leasehold_record WHERE {where} ORDER BY lease, machine LIMIT {PAGE}"
        )
        return [(lease.decode(), machine.decode(), body) for lease, machine, body in rows]

    async def _metadata(self) -> Sequence[tuple[str, bytes]]:
        rows = await self._ask(f"SELECT name, body FROM leasehold_word WHERE actor = {self._actor}")
        return [(name.decode(), body) for name, body in rows]

    async def _event_page(self, after: int, limit: int) -> Sequence[tuple[int, bytes]]:
        where = f"actor = {self._actor} AND position > {after} ORDER BY position LIMIT {limit}"
        return await self._ask(f"SELECT position, body FROM leasehold_event WHERE {where}")

    async def _event_range(self) -> EventRange:
        columns = "COALESCE(MIN(position), 1), COALESCE(MAX(position), 0)"
        ((first, last),) = await self._ask(f"SELECT {columns} FROM leasehold_event WHERE actor = {self._actor}")
        return EventRange(first, last)

    async def _commit(self, batch: Batch) -> None:
        packets = _packets([*self._statements(batch), "COMMIT"])
        mine = f"SELECT epoch FROM leasehold_actor WHERE id = {self._actor} FOR UPDATE"
        rows = await self._ask(f"START TRANSACTION; {mine}")
        if rows != [(self._epoch,)]:
            raise self._fenced(self._epoch, rows[0][0] if rows else None)
        for packet in packets:
            await self._ask(packet)

    def _statements(self, batch: Batch) -> Iterator[str]:
        a = self._actor
        puts = (
            f"({a},{_text(lease)},{_text(machine)},X'{body.hex()}')" for (lease, machine), body in batch.puts.items()
        )
        yield from _inserts("leasehold_record (actor, lease, machine, body)", puts)
        for lease, machine in batch.drops:
            yield f"DELETE FROM leasehold_record WHERE actor={a} AND lease={_text(lease)} AND machine={_text(machine)}"
        rows = (f"({a},{_text(name)},X'{body.hex()}')" for name, body in batch.metadata.items() if body)
        yield from _inserts("leasehold_word (actor, name, body)", rows)
        for name in (name for name, body in batch.metadata.items() if not body):
            yield f"DELETE FROM leasehold_word WHERE actor={a} AND name={_text(name)}"
        if batch.prune_events_to:
            yield f"DELETE FROM leasehold_event WHERE actor={a} AND position<={batch.prune_events_to}"
        events = (f"({a},{at},X'{body.hex()}')" for at, body in enumerate(batch.events, self._last_event + 1))
        for part in _parts(events):
            yield f"INSERT INTO leasehold_event (actor, position, body) VALUES {','.join(part)}"

    async def _ask(self, statements: str) -> list[tuple[Any, ...]]:
        """Sends statements in one packet, and answers the rows of the last one."""
        if self._connection is None:
            raise self._not_open()
        async with asyncio.timeout(_ANSWER_SECONDS):
            cursor = await self._connection.cursor()
            await cursor.execute(statements)
            rows = list(await cursor.fetchall()) if cursor.description else []
            while await cursor.nextset():
                rows = list(await cursor.fetchall()) if cursor.description else []
            return rows

    async def _leave(self) -> None:
        # The server ends a closed connection in its own time, and until then it would keep the next owner out.
        with contextlib.suppress(aiomysql.Error, OSError):
            await self._ask(f"SELECT RELEASE_LOCK('{self._lock}')")
            await self._connection.ensure_closed()

    async def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _meaning(self, error: BaseException) -> StoreError | None:
        if isinstance(error, TimeoutError):
            return error_named("lost", self.place, f"no answer within {_ANSWER_SECONDS:.0f} seconds")
        if isinstance(error, OSError):
            return error_named("lost", self.place, str(error))
        if not isinstance(error, aiomysql.Error):
            return None
        number, *texts = error.args if len(error.args) > 1 else (0, str(error))
        if not number:  # the driver's own word for a connection that is not there
            return error_named("lost", self.place, str(texts[0]))
        return error_of("mariadb", str(number), self.place, f"{texts[0]}, {number}")


def _settings(url: str) -> dict[str, Any]:
    example = "write mariadb://user:password@host:3306/database"
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError:
        raise StoreError("the port in the store's URL is no number from 1 to 65535", example) from None
    database = unquote(parts.path.removeprefix("/"))
    if not url.startswith("mariadb://") or not database or "/" in database:
        raise StoreError("the store's URL names no database", example)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for option in options.keys() - {"unix_socket"}:
        near = did_you_mean(option, ["unix_socket"])
        raise StoreError(f"mariadb: has no option {option[:40]!r}{near}", "its only option is unix_socket=PATH")
    return {
        "host": parts.hostname or "localhost",
        "port": port,
        "unix_socket": options.get("unix_socket") or None,
        "user": unquote(parts.username or "root"),
        "password": unquote(parts.password or ""),
        "db": database,
    }


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _text(text: str) -> str:
    return f"X'{text.encode().hex()}'"


def _inserts(table: str, rows: Iterable[str]) -> Iterator[str]:
    """Statements that insert or overwrite rows."""
    for part in _parts(rows):
        yield f"INSERT INTO {table} VALUES {','.join(part)} ON DUPLICATE KEY UPDATE body = VALUES(body)"


def _packets(statements: Iterable[str]) -> list[str]:
    return ["; ".join(part) for part in _parts(statements)]


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """Texts together, as many as stay below the size of a statement; a longer one alone."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > _STATEMENT_BYTES:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part
