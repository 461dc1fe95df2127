"""A store from its URL, and what is said of a URL that names none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.store.mariadb import MariadbStore
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.postgresql import PostgresqlStore
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import StoreError
from leasehold.impl.store.url import store_from_url


def test_each_kind_of_url() -> None:
    assert isinstance(store_from_url("memory:"), MemoryStore)
    relative, absolute = store_from_url("sqlite:broker.db"), store_from_url("sqlite:/var/lib/leasehold/a b.db")
    assert isinstance(relative, SqliteStore)
    assert relative.path == Path.cwd() / "broker.db"
    assert isinstance(absolute, SqliteStore)
    assert absolute.path == Path("/var/lib/leasehold/a b.db")
    postgresql = store_from_url("postgresql://me:secret@db:5433/leases?connect_timeout=3")
    assert isinstance(postgresql, PostgresqlStore)
    assert postgresql.place == "postgresql://db:5433/leases"
    assert postgresql.settings["password"] == "secret"
    assert postgresql.settings["connect_timeout"] == "3"  # what the URL says goes before what we would choose
    mariadb = store_from_url("mariadb://me:s%40cret@db/leases?unix_socket=/run/my.sock")
    assert isinstance(mariadb, MariadbStore)
    assert mariadb.place == "mariadb:///run/my.sock/leases"
    assert mariadb.settings == {
        "host": "db",
        "port": 3306,
        "unix_socket": "/run/my.sock",
        "user": "me",
        "password": "s@cret",
        "db": "leases",
    }


def test_what_a_url_leaves_out() -> None:
    mariadb, socket = store_from_url("mariadb:///leases"), store_from_url("mariadb://a%40b@[::1]:3307/le%20ases")
    assert isinstance(mariadb, MariadbStore)
    assert isinstance(socket, MariadbStore)
    assert mariadb.settings == {
        "host": "localhost",
        "port": 3306,
        "unix_socket": None,
        "user": "root",
        "password": "",
        "db": "leases",
    }
    assert socket.settings == {
        "host": "::1",
        "port": 3307,
        "unix_socket": None,
        "user": "a@b",
        "password": "",
        "db": "le ases",
    }
    assert [store.place for store in (mariadb, socket)] == [
        "mariadb://localhost:3306/leases",
        "mariadb://::1:3307/le ases",
    ]
    for url, place in (
        ("postgresql://", "postgresql://localhost:5432/"),
        ("postgresql://me@/", "postgresql://localhost:5432/me"),
        ("postgresql://me@db", "postgresql://db:5432/me"),
        ("postgresql:///leases", "postgresql://localhost:5432/leases"),
    ):
        assert store_from_url(url).place == place
    postgresql = store_from_url("postgresql://db/leases?client_encoding=LATIN1&keepalives_idle=3")
    assert isinstance(postgresql, PostgresqlStore)
    assert {name: postgresql.settings[name] for name in ("client_encoding", "keepalives_idle", "keepalives_count")} == {
        "client_encoding": "UTF8",
        "keepalives_idle": "3",
        "keepalives_count": 3,
    }
    empty = store_from_url("mariadb://db/leases?unix_socket=")
    assert isinstance(empty, MariadbStore)
    assert empty.settings["unix_socket"] is None


def test_two_stores_in_memory_have_nothing_in_common() -> None:
    first, second = store_from_url("memory:"), store_from_url("memory:")
    assert isinstance(first, MemoryStore)
    assert isinstance(second, MemoryStore)
    assert first.disk is not second.disk


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "broker.db",
            "the store's URL has no colon, which names no store; begin it with one of memory:, sqlite:PATH, "
            "postgresql://..., mariadb://...",
        ),
        ("sqlit:broker.db", "begins with 'sqlit', which names no store; did you mean sqlite:?; begin it"),
        ("postgres://db/leases", "did you mean postgresql:?"),
        ("mysql://db/leases", "did you mean mariadb:?"),
        ("redis://db", "begins with 'redis', which names no store; begin it with one of"),
        ("memory:x", "memory: is followed by 'x', but it has no name or options; write memory: alone"),
        ("sqlite:", "after sqlite: comes the path of a file, not ''"),
        ("sqlite::memory:", "for a store that is not kept, memory:"),
        ("sqlite:///broker.db", "'///broker.db' begins with two slashes; write sqlite:broker.db, or sqlite:/var/lib"),
        (
            "postgresql:leases",
            "after postgresql: come two slashes; write postgresql://user:password@host:5432/database",
        ),
        ("postgresql://me:sec%zzret@db/leases", "not one of PostgreSQL; write postgresql://"),
        ("postgresql://db/leases?sslmod=no", 'not one of PostgreSQL: invalid URI query parameter: "sslmod"; write'),
        ("mariadb://db/", "names no database"),
        ("mariadb://db/a/b", "names no database"),
        ("mariadb://me:secret@db:65536/leases", "the port in the store's URL is no number from 1 to 65535"),
        ("sqlite:a/", "after sqlite: comes the path of a file, not 'a/'"),
        ("sqlite:a\0b", "comes the path of a file"),
        ("mariadb://db", "names no database; write mariadb://user:password@host:3306/database"),
        ("mariadb:leases", "names no database"),
        ("mariadb://me:secret@db:33o6/leases", "the port in the store's URL is no number from 1 to 65535"),
        ("mariadb://db/leases?unix_soket=/run/my.sock", "no option 'unix_soket'; did you mean unix_socket?; its only"),
    ],
)
def test_what_is_said_of_a_url_that_names_no_store(url: str, message: str) -> None:
    with pytest.raises(StoreError) as caught:
        store_from_url(url)
    assert message in str(caught.value)
    assert caught.value.remedy
    assert "secret" not in str(caught.value)
    assert "sec%zzret" not in str(caught.value)


@pytest.mark.parametrize(("kind", "driver"), [("postgresql", "psycopg"), ("mariadb", "aiomysql")])
def test_a_driver_that_is_not_installed(kind: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which extra to install."""
    monkeypatch.delitem(sys.modules, f"leasehold.impl.store.{kind}", raising=False)
    monkeypatch.setitem(sys.modules, driver, None)  # what makes `import` fail
    with pytest.raises(StoreError, match=f"needs the package {driver}") as caught:
        store_from_url(f"{kind}://db/leases")
    assert caught.value.remedy == f"pip install 'leasehold[{kind}]'"


@pytest.mark.real_time
@pytest.mark.parametrize("place", ["sqlite", "postgresql", "mariadb"], indirect=True)
async def test_a_store_from_a_url_works(place: Any) -> None:
    store = store_from_url(place.url.replace("%25", "%"))
    assert await store.open("site") == 1
    await store.close()
