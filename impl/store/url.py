"""A store from its URL, as a configuration file names it.

| URL | store |
|---|---|
| `memory:` | in memory, new and empty: for tests |
| `sqlite:PATH` | in a file; the path is relative to the working folder, or absolute |
| `postgresql://user:password@host:5432/database` | in a PostgreSQL database, which actors may share |
| `mariadb://user:password@host:3306/database` | in a MariaDB database, which actors may share; `?unix_socket=PATH` |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import StoreError
from leasehold.impl.words import did_you_mean

# What people write who come from elsewhere.
_ALIASES = {"postgres": "postgresql", "mysql": "mariadb", "mem": "memory", "file": "sqlite", "sqlite3": "sqlite"}


def store_from_url(url: str) -> OwnedStore:
    """The store that a URL names; nothing is opened yet.

    Raises:
        StoreError: it is no URL of a store, or its driver is not installed.
    """
    kind, colon, rest = url.partition(":")
    if not colon or kind not in _KINDS:
        alias = _ALIASES.get(kind)
        hint = f"; did you mean {alias}:?" if alias else did_you_mean(f"{kind}:", [f"{k}:" for k in _KINDS])
        shown = f"begins with {kind[:20]!r}" if colon else "has no colon"
        raise StoreError(f"the store's URL {shown}, which names no store{hint}", f"begin it with one of {_CHOICES}")
    return _KINDS[kind](url, rest)


def _memory(url: str, rest: str) -> OwnedStore:
    if rest:
        raise StoreError(f"memory: is followed by {rest[:40]!r}, but it has no name or options", "write memory: alone")
    return MemoryStore()


def _sqlite(url: str, path: str) -> OwnedStore:
    if path.startswith("//"):
        raise StoreError(
            f"after sqlite: comes a path, and {path[:40]!r} begins with two slashes",
            "write sqlite:broker.db, or sqlite:/var/lib/leasehold/broker.db",
        )
    if not path or path.startswith(":") or path.endswith("/") or "\0" in path:
        raise StoreError(
            f"after sqlite: comes the path of a file, not {path[:40]!r}",
            "write sqlite:broker.db; for a store that is not kept, memory:",
        )
    return SqliteStore(path)


def _postgresql(url: str, rest: str) -> OwnedStore:
    if not rest.startswith("//"):
        raise StoreError("after postgresql: come two slashes", "write postgresql://user:password@host:5432/database")
    with _driver("psycopg", "postgresql"):
        from leasehold.impl.store.postgresql import PostgresqlStore
    return PostgresqlStore(url)


def _mariadb(url: str, rest: str) -> OwnedStore:
    with _driver("aiomysql", "mariadb"):
        from leasehold.impl.store.mariadb import MariadbStore
    return MariadbStore(url)


@contextmanager
def _driver(package: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise StoreError(
            f"a store in {extra} needs the package {package}, which cannot be imported ({error})",
            f"pip install 'leasehold[{extra}]'",
        ) from error


_KINDS: Mapping[str, Callable[[str, str], OwnedStore]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "mariadb": _mariadb,
}
_CHOICES = "memory:, sqlite:PATH, postgresql://..., mariadb://..."
