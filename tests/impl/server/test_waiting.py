"""A store that cannot be opened at the start: what may be well a moment later is waited for, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.lease.fleet import BROKER, Fleet
from leasehold.impl.migrate.schema import SPECIFICATION, RecordSchema
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.server.build import Built, build
from leasehold.impl.server.config import ConfigError, read_config
from leasehold.impl.server.serve import serve
from leasehold.impl.store.failures import connection_refused as refusal
from leasehold.impl.store.store import Batch, RecordKey, StoreError, Transient
from leasehold.impl.store.url import store_from_url
from tests.impl.store.conftest import _place
from tests.impl.wire import Wire, wire_to
from tests.systems import load

PORTS = {"postgresql": 5432, "mariadb": 3306}
SHARED = pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = _place(request.param, tmp_path)
    yield made
    made.remove()


def away(place: Any, wire: Wire) -> str:
    """The URL of a place behind a wire."""
    url: str = place.url
    return url.replace(str(PORTS[place.kind]), str(wire.port))


def prepared(folder: Path, url: str) -> Fleet:
    """A folder with the configuration of a broker whose store is at a URL."""
    fleet = Fleet(folder / "fleet", units=2, store=lambda name: url)
    fleet.prepare()
    return fleet


def log_of(fleet: Fleet) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (fleet.folder / "broker.log").read_text().splitlines()]


async def until(true: Callable[[], Any], limit_seconds: float = 30.0) -> Any:
    async with asyncio.timeout(limit_seconds):
        while not (found := await asyncio.to_thread(true)):
            await asyncio.sleep(0.02)
    return found


def tries(fleet: Fleet) -> list[str]:
    return [line["message"] for line in log_of(fleet) if "cannot start yet" in line["message"]]


@contextlib.asynccontextmanager
async def running(fleet: Fleet) -> AsyncIterator[subprocess.Popen[bytes]]:
    fleet.start(BROKER)
    try:
        yield fleet.processes[BROKER]
    finally:
        await asyncio.to_thread(fleet.stop)


@pytest.mark.long
@SHARED
@pytest.mark.real_time
async def test_an_actor_comes_up_by_itself_when_its_server_does(place: Any, tmp_path: Path) -> None:
    async with wire_to(PORTS[place.kind]) as wire:
        fleet = prepared(tmp_path, away(place, wire))
        async with running(fleet) as process:
            await until(lambda: (fleet.folder / "broker.log").exists() and len(tries(fleet)) >= 2)
            assert process.poll() is None
            assert fleet.about(BROKER) is None
            await wire.mend()
            about = await until(lambda: fleet.about(BROKER))
            assert (about["running"], about["epoch"]) == (True, 1)
            said = tries(fleet)[0]
            assert said.startswith("broker cannot start yet, and tries again in 0.2 s: ")
            assert f"127.0.0.1:{wire.port}" in said
            assert "the database cannot be reached" in said
            process.terminate()
            assert await asyncio.to_thread(process.wait, 20) == 0


@pytest.mark.long
@SHARED
@pytest.mark.real_time
async def test_a_signal_ends_the_wait_well(place: Any, tmp_path: Path) -> None:
    async with wire_to(PORTS[place.kind]) as wire:
        fleet = prepared(tmp_path, away(place, wire))
        async with running(fleet) as process:
            await until(lambda: (fleet.folder / "broker.log").exists() and tries(fleet))
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0
        assert log_of(fleet)[-1]["message"] == "ends before its store could be opened"
        assert not (fleet.folder / "broker.sock").exists()


@pytest.mark.long
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_room_on_a_full_disk_is_waited_for(place: Any, tmp_path: Path) -> None:
    """A file system of its own, which is full until somebody removes what fills it."""
    disk, go = tmp_path / "disk", tmp_path / "go"
    disk.mkdir()
    fleet = prepared(tmp_path, f"sqlite:{disk}/broker.db")
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f'mount -t tmpfs -o size=1m none "{disk}"'
    if shutil.which("unshare") is None or subprocess.run([*own, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this system lets no one mount a file system in a namespace (unshare)")
    fill = f'head -c 2000000 /dev/zero > "{disk}/ballast" 2>/dev/null'
    free = f'(while [ ! -e "{go}" ]; do sleep 0.05; done; rm "{disk}/ballast") &'
    actor = [sys.executable, "-m", "leasehold", "run", "broker", "--config", str(fleet.folder / "broker.yaml")]
    with (fleet.folder / "broker.log").open("ab") as log:
        command = [*own, "sh", "-c", f'{mount}; {fill}; {free} exec "$@"', "sh", *actor]
        process = subprocess.Popen(command, stderr=log, start_new_session=True)
    fleet.processes[BROKER] = process

    async def story() -> None:
        await until(lambda: len(tries(fleet)) >= 2)
        assert process.poll() is None
        assert all("the disk is full" in said for said in tries(fleet))
        go.touch()
        about = await until(lambda: fleet.about(BROKER))
        assert about["running"]

    try:
        asyncio.run(story())
    finally:
        go.touch()
        fleet.stop()
    assert process.returncode == 0


def built(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Built:
    monkeypatch.chdir(fleet.folder)
    return build(read_config(fleet.folder / "broker.yaml"), ("broker",))


@SHARED
@pytest.mark.real_time
async def test_a_connection_that_breaks_while_records_are_read_is_no_end(
    place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire_to(PORTS[place.kind]) as wire:
        await wire.mend()
        made = built(prepared(tmp_path, away(place, wire)), monkeypatch)
        cuts: list[Notice] = []

        def cut(notice: Notice) -> None:
            """The first commit of recovery finds no server any more."""
            if notice.kind is Kind.COMMIT and not cuts:
                cuts.append(notice)
                wire.cut()

        made.actor.notices.subscribe(cut)
        serving = asyncio.ensure_future(serve(made))
        async with asyncio.timeout(30):
            while not [r for r in caplog.records if "cannot start yet" in r.getMessage()]:
                await asyncio.sleep(0.01)
            assert (len(cuts), made.actor.running, made.actor.epoch) == (1, False, 1)
            await wire.mend()
            while not made.actor.running:
                await asyncio.sleep(0.01)
        assert made.actor.epoch == 2
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


async def refused(made: Built) -> str:
    with pytest.raises(ConfigError) as caught:
        async with asyncio.timeout(20):
            await serve(made)
    return str(caught.value)


@SHARED
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("{kind}://{user}@127.0.0.1:{port}/leasehold_no_such_database", "leasehold_no_such_database"),
        ("{kind}://leasehold_nobody:secret@127.0.0.1:{port}/test", "leasehold_nobody"),
    ],
    ids=["no database", "no user"],
)
def test_what_an_operator_has_to_cure_is_not_waited_for(
    place: Any, url: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = "postgres" if place.kind == "postgresql" else "root"
    wrong = url.format(kind=place.kind, user=user, port=PORTS[place.kind])
    said = asyncio.run(refused(built(prepared(tmp_path, wrong), monkeypatch)))
    assert said.startswith("broker cannot start: ")
    assert words in said
    assert "secret" not in said


def _foreign(folder: Path) -> str:
    async def fill() -> None:
        store = store_from_url(f"sqlite:{folder}/market.db")
        await store.open("market")
        await store.close()

    asyncio.run(fill())
    return f"sqlite:{folder}/market.db"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (lambda folder: f"sqlite:{folder}/nowhere/a.db", "there is no folder"),
        (_foreign, "belongs to the actor 'market', not to 'broker'"),
        (lambda folder: "sqlite:/proc/broker.db", "No such file or directory (/proc/broker.db.lock)"),
    ],
    ids=["no folder", "another actor", "no path"],
)
def test_a_file_that_is_not_the_actors_is_not_waited_for(
    url: Callable[[Path], str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = asyncio.run(refused(built(prepared(tmp_path, url(tmp_path)), monkeypatch)))
    assert said.startswith("broker cannot start: ")
    assert words in said


def test_the_records_of_another_specification_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = built(prepared(tmp_path, "sqlite:broker.db"), monkeypatch)
    other = RecordSchema.of(compile_system(load("lease", {"max_units": 3})))

    async def fill() -> None:
        await made.actor.store.open("broker")
        await made.actor.store.commit(
            Batch({RecordKey("tenant:1", "broker"): b"x"}, metadata={SPECIFICATION: other.write()})
        )
        await made.actor.store.close()

    asyncio.run(fill())
    assert "the records of broker were written by" in asyncio.run(refused(made))


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
@pytest.mark.real_time
async def test_postgresql_that_takes_no_more_connections_is_waited_for(place: Any) -> None:
    """It says why in words alone, as no connection has come to be."""
    role = f"{place.schema}_user"

    await place.ask(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
    await place.ask(f"GRANT ALL ON SCHEMA {place.schema} TO {role}")
    store = store_from_url(place.url.replace("postgres@", f"{role}@"))
    try:
        with pytest.raises(Transient, match="the server takes no more connections"):
            await store.open("broker")
        await place.ask(f"ALTER ROLE {role} CONNECTION LIMIT 1")
        assert await store.open("broker") == 1
    finally:
        await store.close()
        await place.ask(f"DROP OWNED BY {role}")
        await place.ask(f"DROP ROLE {role}")


@pytest.mark.parametrize("place", ["mariadb"], indirect=True)
@pytest.mark.real_time
async def test_mariadb_that_takes_no_more_connections_is_waited_for(place: Any) -> None:
    user = f"u{place.database[-20:]}"

    await place.ask(f"CREATE USER {user}@'%' IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1")
    await place.ask(f"GRANT ALL ON {place.database}.* TO {user}@'%'")
    first, second = (store_from_url(place.url.replace("root@", f"{user}:x@")) for _ in range(2))
    try:
        await first.open("broker")
        with pytest.raises(Transient, match="the server takes no more connections"):
            await second.open("site")
        await first.close()
        async with asyncio.timeout(20):  # until the server has noticed that the connection is closed
            while True:
                with contextlib.suppress(Transient):
                    assert await second.open("site") == 1
                    break
                await asyncio.sleep(0.1)
    finally:
        await first.close()
        await second.close()
        await place.ask(f"DROP USER {user}@'%'")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("FATAL: sorry, too many clients already", Transient),
        ("FATAL: remaining connection slots are reserved for roles with the SUPERUSER attribute", Transient),
        ("FATAL: the database system is starting up", Transient),
        ("FATAL: the database system is shutting down", Transient),
        ("FATAL: the database system is in recovery mode", Transient),
        ("FATAL: the database system is not yet accepting connections", Transient),
        ("server closed the connection unexpectedly", Transient),
        ("connection timeout expired", Transient),
        ("failed to resolve host 'db': [Errno -3] Temporary failure in name resolution", Transient),
        ('FATAL: password authentication failed for user "site"', StoreError),
        ('FATAL: no pg_hba.conf entry for host "10.0.0.1", user "site"', StoreError),
        ('FATAL: permission denied for database "leases"', StoreError),
        ("fe_sendauth: no password supplied", StoreError),
        ("server does not support SSL, but SSL was required", StoreError),
        ("SSL error: certificate verify failed", StoreError),
    ],
)
def test_what_postgresql_says_in_words_alone(words: str, kind: type[StoreError]) -> None:
    """Where it lets no connection come to be there is no code; these are its words and libpq's."""
    assert type(refusal("postgresql://db", f'connection to server at "10.0.0.1", port 5432 failed: {words}')) is kind
