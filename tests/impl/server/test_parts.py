"""Parts of a server by themselves: settings and their defaults, sockets, sources of events, peers, and its process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions, EventSettings
from leasehold.impl.events.chain import ChainVerifier
from leasehold.impl.events.event import read
from leasehold.impl.events.lines import EventLines, LinesEnd
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.server import client, event_feed, event_source
from leasehold.impl.server.build import Built, build
from leasehold.impl.server.client import Client, ClientError, NotFound, Silent, Unreachable, near_file, sockets
from leasehold.impl.server.config import Config, ConfigError, Plug, Serving, parse_config, plug
from leasehold.impl.server.control import _socket, check_socket
from leasehold.impl.server.event_source import (
    ActorSource,
    ConfiguredSource,
    FileSource,
    SourceMoment,
    StoreSource,
    actors_of,
    open_source,
)
from leasehold.impl.server.peers import _is_dynamic, check_peers
from leasehold.impl.server.serve import serve
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch, StoreError, Transient
from leasehold.impl.transport.limits import LIMITS
from leasehold.spec.language.types import LARGEST_NUMBER
from tests.impl.server.test_control import listening
from tests.systems import load

NEEDED: dict[str, Any] = {
    "name": "broker",
    "store": "sqlite:broker.db",
    "listen": "http://127.0.0.1:0",
    "key": "broker.key",
    "trust": "trust.yaml",
}

# Settings


def test_what_is_left_out_has_the_value_that_is_described() -> None:
    """docs/reference/running.md has the same."""
    made = parse_config(NEEDED)
    own = {name: getattr(made, name) for name in Config.__struct_fields__ if name not in NEEDED}
    parts = {name: own.pop(name) for name in ("serving", "clock", "log", "events")}
    for name in ("messages", "handling", "probing", "deciding"):
        assert own.pop(name) == type(getattr(made, name))()
    assert own == {
        "system": "lease",
        "settings": {},
        "archive": "",
        "control": "",
        "clients": "",
        "delegations": "",
        "metrics": "",
        "traces": False,
        "policy": "",
        "policies": {},
        "handler": "",
        "handlers": {},
        "handlers_verified": "",
        "probes": None,
        "raises": {},
        "detectors": {},
        "inventory": "",
        "peers": {},
        "retire_after_ticks": 600,
        "reopen_pause_seconds": 1.0,
        "stall_seconds": 5.0,
    }
    assert (parts["clock"].tick_seconds, parts["log"].form, parts["log"].level) == (1.0, "text", "info")
    assert parts["events"] == EventSettings(100_000, 1_000_000, 1000, 5.0)
    assert parts["serving"] == Serving(512, 64, 16, 10.0, 256)
    assert made.socket == Path("broker.sock")
    assert parse_config({**NEEDED, "control": "a/b.sock"}).socket == Path("a/b.sock")


@pytest.mark.parametrize(("reserve", "half"), [(256, 128), (7, 3), (2, 1), (1, 1)])
def test_limits_of_the_ports_are_those_that_are_set(reserve: int, half: int) -> None:
    """All others are the transport's."""
    made = Serving(control=11, metrics=22, metrics_of_address=33, header_seconds=4.5, reserve=reserve)
    changed = {
        "control": {"connections": 11, "connections_in_all": 11, "reserve": half, "backlog": 4096},
        "metrics": {"connections": 33, "connections_in_all": 22, "reserve": reserve},
    }
    for name, limits in (("control", made.control_limits), ("metrics", made.metrics_limits)):
        for field in LIMITS.__dataclass_fields__:
            usual = 4.5 if field in ("header_seconds", "idle_seconds") else getattr(LIMITS, field)
            assert getattr(limits, field) == changed[name].get(field, usual), (name, field)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (True, EventSettings()),
        (False, None),
        ({"keep": 5, "most": 9}, EventSettings(5, 9)),
        ({}, EventSettings()),
    ],
)
def test_events_are_kept_unless_they_are_switched_off(given: Any, settings: EventSettings | None) -> None:
    assert parse_config({**NEEDED, "events": given}).event_settings == settings


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, Plug("null", {})),
        ("process", Plug("process", {})),
        ("", Plug("", {})),
        ({"name": "a"}, Plug("a", {})),
        ({"name": "a", "b": 1, "c": {"name": 2}}, Plug("a", {"b": 1, "c": {"name": 2}})),
        ({}, None),
        ({"name": 1}, None),
        ({"nme": "a"}, None),
    ],
)
def test_a_part_that_is_asked_for_has_a_name_and_settings(given: Any, found: Plug | None) -> None:
    if found is not None:
        assert plug(given, "handler") == found
        return
    with pytest.raises(ConfigError, match=r"handler: `name` is missing, .*; write handler: {name: \.\.\.}"):
        plug(given, "handler")


@pytest.mark.parametrize("key", ["name", "store", "key", "trust", "system", "archive", "control", "metrics"])
def test_no_text_has_a_character_that_no_path_may_have(key: str) -> None:
    for value in ("a\0b", "\0"):
        with pytest.raises(ConfigError, match=f"{key}: has a NUL character"):
            parse_config({**NEEDED, key: value})
    for name, value in (
        ("policies", {"broker": {"name": "x", "in": ["a", {"b\0": 1}]}}),
        ("peers", {"broker\0": "a"}),
        ("inventory", {"units": [{"name": "a\0"}]}),
        ("listen", {"address": ["\0"]}),
        ("settings", {"a": "\0"}),
    ):
        with pytest.raises(ConfigError, match=f"{name}: has a NUL character"):
            parse_config({**NEEDED, name: value})


@pytest.mark.parametrize(
    ("key", "least", "wrong"),
    [
        ("name", "a", ""),
        ("name", "a" * 64, "a" * 65),
        ("store", "a" * 1000, "a" * 1001),
        ("key", "k", ""),
        ("retire_after_ticks", 1, 0),
        ("stall_seconds", 0.001, 0),
        ("reopen_pause_seconds", 1, -1),
        ("serving", {"control": 1}, {"control": 0}),
        ("serving", {"reserve": 1}, {"reserve": 0}),
        ("log", {"level": "error"}, {"level": "loud"}),
        ("events", {"keep": 1}, {"keep": 0}),
        ("traces", True, 1),
        ("peers", "peers.yaml", 7),
        ("inventory", {"units": []}, []),
        ("handler", None, 7),
        ("probes", None, "unit"),
    ],
)
def test_a_value_is_taken_up_to_its_bound(key: str, least: Any, wrong: Any) -> None:
    parse_config({**NEEDED, key: least})
    with pytest.raises(ConfigError):
        parse_config({**NEEDED, key: wrong})


# Sockets


def listener(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def test_a_socket_is_made_where_nothing_else_listens(tmp_path: Path) -> None:
    """The socket takes the place of one that was left behind, in a folder that is made; only its user may open it."""
    path, mask = tmp_path / "a" / "b" / "c.sock", os.umask(0o022)
    try:
        check_socket(path)
        made = _socket(path, 0o600)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        made.listen()
        with pytest.raises(FileExistsError, match="another actor listens there; give each a `control` of its own"):
            _socket(path, 0o600)
        assert path.is_socket()
        check_socket(path)  # whoever listens is said when it begins
        made.close()
        check_socket(path)
        again = _socket(path, 0o600)
        again.close()
        before = os.listdir("/proc/self/fd")
        for other in ("file", "folder"):
            place = tmp_path / other
            _ = place.mkdir() if other == "folder" else place.write_text("gold")
            for call in (check_socket, partial(_socket, mode=0o600)):
                with pytest.raises(OSError, match="something else than a socket is there"):
                    call(place)
            assert place.exists()
        with pytest.raises(OSError, match="path too long"):
            _socket(tmp_path / ("x" * 120), 0o600)
        assert os.listdir("/proc/self/fd") == before
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(mask)


@pytest.mark.parametrize("call", [check_socket, partial(_socket, mode=0o600)], ids=["check_socket", "_socket"])
def test_a_listener_that_takes_nobody_holds_nothing_up(call: Callable[[Path], object], tmp_path: Path) -> None:
    path, waiting = tmp_path / "c.sock", list[socket.socket]()
    with listener(path) as full:
        full.listen(0)
        with contextlib.suppress(BlockingIOError):
            for _ in range(10):
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                waiting[-1].connect(str(path))
        assert len(waiting) < 10
        with pytest.raises(BlockingIOError):
            call(path)
        for client in waiting:
            client.close()


def test_the_sockets_of_a_place_are_those_of_actors(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(Unreachable, match=f"there is no socket of an actor in {folder}; name the socket"):
        sockets(folder)
    made = [listener(folder / name) for name in ("b.sock", "a.sock", "c.socket")]
    (folder / "d.sock").touch()
    assert sockets(folder) == [folder / "a.sock", folder / "b.sock"]
    assert sockets(folder / "c.socket") == [folder / "c.socket"]
    for control, where in (("", "broker.sock"), ("x/y.sock", "x/y.sock"), ("/z.sock", "/z.sock")):
        file = tmp_path / "site.yaml"
        file.write_text("".join(f"{key}: '{value}'\n" for key, value in {**NEEDED, "control": control}.items()))
        assert sockets(file) == [tmp_path / where]
    (tmp_path / "odd.yaml").write_text("a: 1\n")
    with pytest.raises(Unreachable, match=r"odd\.yaml: "):
        sockets(tmp_path / "odd.yaml")
    with pytest.raises(Unreachable, match=r"there is nothing at .*sit.yaml; did you mean site.yaml\?; name the socket"):
        sockets(tmp_path / "sit.yaml")
    assert near_file(tmp_path / "none" / "x") == ""
    for one in made:
        one.close()


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied"),
            Unreachable,
            "Permission denied; its user alone may open it",
        ),
        (BlockingIOError(errno.EAGAIN, "busy"), Silent, "busy; it is there, and was stopped or has too much to do"),
        (TimeoutError("timed out"), Silent, "timed out; it is there, and was stopped or has too much to do"),
        (TimeoutError(), Silent, "TimeoutError; it is there, and was stopped or has too much to do"),
        (OSError(errno.EMFILE, "too many"), Unreachable, "too many; this client lacks something, and has not asked"),
        (OSError(errno.ENFILE, "too many"), Unreachable, "too many; this client lacks something, and has not asked"),
        (OSError(errno.ENOMEM, "no memory"), Unreachable, "no memory; this client lacks something, and has not asked"),
        (OSError(errno.ENOSPC, "no space"), Unreachable, r"no space; is it running\?"),
        (FileNotFoundError(errno.ENOENT, "No such file"), Unreachable, r"No such file; is it running\?"),
    ],
)
def test_why_nobody_answers_is_said_with_what_may_be_the_matter(
    error: Exception, kind: type[Exception], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(self: Any) -> None:
        raise error

    monkeypatch.setattr(client._UnixConnection, "connect", connect)
    for ask in (lambda c: c.get("a"), lambda c: c.post("a"), lambda c: c.read("a")):
        with pytest.raises(kind, match=f"no actor answers at {tmp_path}/a.sock: {words}") as caught:
            ask(Client(tmp_path / "a.sock"))
        assert type(caught.value) is kind


def answering(path: Path, *answers: bytes) -> tuple[threading.Thread, list[bytes]]:
    """A server that gives these answers, one to each connection, and what it was asked."""
    made, asked = listener(path), list[bytes]()

    def serve_all() -> None:
        for answer in answers:
            connection, _ = made.accept()
            heard = connection.recv(65536)
            while b"Content-Length" in heard and heard.endswith(b"\r\n\r\n"):  # its body comes by itself
                heard += connection.recv(65536)
            asked.append(heard)
            connection.sendall(answer)
            connection.close()
        made.close()

    thread = threading.Thread(target=serve_all)
    thread.start()
    return thread, asked


def http(status: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_an_answer_is_told_by_its_status_and_its_kind(tmp_path: Path) -> None:
    path, asked = tmp_path / "a.sock", Client(tmp_path / "a.sock")
    thread, heard = answering(
        path,
        http("200 OK", b'{"a":1}', "application/json; charset=utf-8"),
        http("200 OK", b"a 1\n", "text/plain"),
        http("404 Not Found", b'{"error":"no such lease"}'),
        http("409 Conflict", b'{"error":"too late"}'),
        http("503 No", b"<html>", "text/html"),
        http("500 Odd", b"[1]"),
        http("400 Bad", b"{}"),
        b"nonsense\r\n\r\n",
        b"",
        http("200 OK", b'{"a":1}'),
    )
    assert asked.get("a b", "c:d/e") == {"a": 1}
    assert asked.read("events", after="7", limit="a b") == b"a 1\n"
    with pytest.raises(NotFound, match=r"^no such lease$"):
        asked.get("x")
    for words in ("^too late$", "status 503$", "status 500$", "status 400$"):
        with pytest.raises(ClientError, match=words) as caught:
            asked.post("x", a=1, b=None)
        assert type(caught.value) is ClientError
    for _ in range(2):
        with pytest.raises(Unreachable, match="no actor answers"):
            asked.get("x")
    assert asked.read("x") == b""
    thread.join(10)
    assert heard[0].startswith(b"GET /a%20b/c:d%2Fe HTTP/1.1\r\n")
    assert heard[1].startswith(b"GET /events?after=7&limit=a+b HTTP/1.1\r\n")
    assert heard[3].startswith(b"POST /x HTTP/1.1\r\n")
    assert heard[3].endswith(b'\r\n\r\n{"a": 1}')


def test_a_client_waits_for_its_turn_up_to_its_limit(tmp_path: Path) -> None:
    """More are about to connect than the socket takes; and it leaves no open file."""
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(tmp_path / "a.sock"))
    made.listen(0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(str(tmp_path / "a.sock"))
    before, began = os.listdir("/proc/self/fd"), time.monotonic()
    with pytest.raises(Silent, match="it is there, and was stopped or has too much to do"):
        Client(tmp_path / "a.sock", limit_seconds=0.1).get("about")
    assert 0.03 < time.monotonic() - began < 5
    assert os.listdir("/proc/self/fd") == before
    first.close()
    made.close()


# Sources of events


@asynccontextmanager
async def with_site(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Any, Path]]:
    async with Cluster(2) as c, listening(c.site, c.system, tmp_path / "site.sock") as ask:
        await c.lease(1, 50, 10, "tenant:1")
        await c.settle()
        yield c, ask, tmp_path / "site.sock"


def test_a_file_of_events_is_recognised_by_its_name_or_its_first_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    header = b'{"kind":"header","version":1,"actor":"a","after":0}\n'
    for name, content, kind in (
        ("a.jsonl", b"", FileSource),
        ("none.jsonl", None, FileSource),
        ("a.log", header, FileSource),
        ("site.yaml", "".join(f"{k}: '{v}'\n" for k, v in NEEDED.items()).encode(), ConfiguredSource),
    ):
        if content is not None:
            Path(name).write_bytes(content)
        assert type(open_source(name, stores=True)) is kind
    for url in ("sqlite:a.db", "postgresql://db/a"):
        found: Any = open_source(url, "me")
        assert (type(found), found.url, found.actor) == (StoreSource, url, "me")
    Path("a.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(Unreachable, match=r"a\.db is a SQLite store, which is named by its URL: sqlite:a\.db"):
        open_source("a.db")
    Path("odd.yaml").write_text("a: 1\n")
    with pytest.raises(Unreachable, match=r"odd.yaml: "):
        open_source("odd.yaml", stores=True)
    one = listener(tmp_path / "site.sock")
    for words in ("site.sock", "."):
        found = open_source(words, stores=True)
        assert (type(found), found.client.path) == (ActorSource, Path(words) / ("site.sock" if words == "." else ""))
    other = listener(tmp_path / "broker.sock")
    found = open_source(".", "broker")
    assert found.client.path == Path("broker.sock")
    with pytest.raises(Unreachable, match="has the sockets of broker, site; name one of these actors with --actor"):
        open_source(".", "tenant")
    (tmp_path / "dir.jsonl").mkdir()
    with pytest.raises(Unreachable, match="no socket of an actor"):
        open_source("dir.jsonl")
    one.close()
    other.close()


def test_lines_of_a_file_are_read_without_their_ends(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"one\r\ntwo\nthree")
    source = FileSource(tmp_path / "a.jsonl")
    assert [*source.lines(0)] == [*source.lines(7)] == [b"one", b"two", b"three"]
    assert source.moment() == SourceMoment(0, None, 0.0)
    assert (source.live, source.signed) == (False, True)
    with pytest.raises(Unreachable, match=r"b.jsonl cannot be read: No such file or directory; did you mean a.jsonl\?"):
        next(FileSource(tmp_path / "b.jsonl").lines(0))


@pytest.mark.real_time
@pytest.mark.parametrize("page", [1, 2, 3, 1000])
async def test_an_actor_and_its_store_give_the_same_lines_after_each_event(
    page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, with one header and one end; the store's is nobody's signature."""
    monkeypatch.setattr(event_feed, "PAGE", page)
    monkeypatch.setattr(event_source, "PAGE", page)
    async with with_site(tmp_path) as (c, _, path):
        bodies = [body async for _, body in c.site.store.events()]
        store = SqliteStore(tmp_path / "site.db")
        await store.open("site")
        await store.commit(Batch(metadata=await c.site.store.metadata(), events=bodies))
        await store.close()
        sources: list[Any] = [ActorSource(Client(path)), StoreSource(f"sqlite:{tmp_path / 'site.db'}", "")]

        def look() -> None:
            for source in sources:
                assert source.live
                for after in range(len(bodies) + 1):
                    lines = EventLines(source.lines(after))
                    assert [*lines] == bodies[after:]
                    assert (lines.header.actor, lines.header.after) == ("site", after)
                    verifier = ChainVerifier(c.site.identity.trust, "site", after)
                    for body in bodies[after:]:
                        verifier.take(body)
                    assert isinstance(lines.end, LinesEnd)
                    assert lines.end.position == len(bodies)
                    assert bool(lines.end.signature) == source.signed
                    lines.check_end(verifier, unsigned=not source.signed)
            now = time.time()
            state = sources[0].moment()
            assert (state.last, state.now) == (len(bodies), 0)
            assert state.time == c.site.chronicle.wall()
            state = sources[1].moment()
            assert (state.last, state.now) == (0, None)
            assert event_source.GRACE_SECONDS - 1 < now - state.time < event_source.GRACE_SECONDS + 10

        await asyncio.to_thread(look)


@pytest.mark.real_time
async def test_a_follower_of_a_source_is_known_to_its_actor_until_it_leaves(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("".join(f"{k}: '{v}'\n" for k, v in {**NEEDED, "name": "site"}.items()))
    async with with_site(tmp_path) as (_, ask, path):
        sources: tuple[Any, ...] = (ActorSource(Client(path)), ConfiguredSource(tmp_path / "site.yaml"))
        for source in sources:
            await asyncio.to_thread(source.acknowledge, "me", 2)
            assert (await ask("get", "events", "state"))["followers"] == {"me": 2}
            await asyncio.to_thread(source.leave, "me")
            assert (await ask("get", "events", "state"))["followers"] == {}
            assert source.signed


@pytest.mark.real_time
async def test_a_configured_actor_is_read_from_its_store_while_it_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file beside its configuration, unless there is one in the working folder."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    (there / "site.yaml").write_text("".join(f"{k}: '{v}'\n" for k, v in {**NEEDED, "name": "site"}.items()))
    source = ConfiguredSource(there / "site.yaml")
    assert (source.name, source.signed, source.live) == ("site", True, True)
    assert source.actor.client.path == there / "site.sock"
    assert (source.store.url, source.store.actor) == ("sqlite:broker.db", "site")
    with pytest.raises(Unreachable, match="the actor does not answer, and its store cannot be read: "):
        await asyncio.to_thread(lambda: [*source.lines(0)])
    (there / "broker.db").touch()
    assert ConfiguredSource(there / "site.yaml").store.url == f"sqlite:{there / 'broker.db'}"
    (here / "broker.db").touch()
    assert ConfiguredSource(there / "site.yaml").store.url == "sqlite:broker.db"
    assert event_source._beside(there / "site.yaml", "memory:") == "memory:"
    assert event_source._beside(there / "site.yaml", "postgresql:broker.db") == "postgresql:broker.db"
    async with with_site(tmp_path) as (c, _, path):
        store = SqliteStore(there / "broker.db")
        (here / "broker.db").unlink()
        (there / "broker.db").unlink()
        await store.open("site")
        bodies = [body async for _, body in c.site.store.events()]
        await store.commit(Batch(metadata=await c.site.store.metadata(), events=bodies))
        await store.close()
        again = ConfiguredSource(there / "site.yaml")
        assert [*EventLines(await asyncio.to_thread(lambda: [*again.lines(0)]))] == bodies
        assert not again.signed
        assert again.moment().now is None
        again.actor = ActorSource(Client(path))
        assert [*EventLines(await asyncio.to_thread(lambda: [*again.lines(0)]))] == bodies
        assert again.signed
        assert (await asyncio.to_thread(again.moment)).now == 0


def test_only_a_store_that_actors_share_has_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for names, found in (([], []), (["a"], []), (["a", "b"], ["a", "b"])):
        monkeypatch.setattr(SqliteStore, "owners", lambda self, names=names: _names(names))
        assert actors_of("sqlite:a.db") == found
    assert actors_of(str(tmp_path / "a.sock")) == []
    (tmp_path / "a:b").touch()
    assert actors_of(str(tmp_path / "a:b")) == []  # a file whose name has a colon
    with pytest.raises(StoreError, match="names no store"):
        actors_of("redis:x")


async def _names(names: list[str]) -> list[str]:
    return names


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("17", 17),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("", None),
        ("-1", None),
        ("1.0", None),
        ("x", None),
    ],
)
def test_a_position_is_a_number_that_a_store_can_have(text: str, number: int | None) -> None:
    if number is not None:
        assert event_feed._number(text) == number
        return
    with pytest.raises(Exception, match=f"a position or limit is a number, not '{text[:40]}'"):
        event_feed._number(text)


@pytest.mark.real_time
async def test_a_page_of_events_is_as_large_as_is_asked_for_and_never_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "PAGE", 3)
    async with with_site(tmp_path) as (c, ask, _):
        for query, count in (
            ({}, 3),
            ({"limit": "2"}, 2),
            ({"limit": "9"}, 3),
            ({"limit": "0"}, 1),
            ({"after": "1"}, 3),
        ):
            lines = EventLines((await ask("read", "events", **query)).splitlines())
            first = int(query.get("after", 0)) + 1
            assert [read(body).position for body in lines] == [*range(first, first + count)]
        state = await ask("get", "events", "state")
        head = c.site.chronicle.head
        assert {**state, "time": 0} == {
            "now": 0,
            "time": 0,
            "first": 1,
            "last": head.position,
            "digest": head.digest,
            "sealed": head.sealed,
            "writes": True,
            "followers": {},
        }


# Peers


@pytest.mark.parametrize(
    ("machine", "dynamic"),
    [
        ("node[0]", True),
        ("node[7]", True),
        ("node[4294967295]", None),
        ("node[99999999999]", False),
        ("node[07]", False),
        ("node[-1]", False),
        ("node[x]", False),
        ("node[]", False),
        ("node", False),
        ("node[1", False),
        ("nod[1]", False),
        ("node[1]]", False),
        ("node[9999999999]", False),
    ],
)
def test_a_machine_of_a_dynamic_role_has_a_number_that_a_machine_can_have(machine: str, dynamic: bool | None) -> None:
    role = load(Path(__file__).parents[3] / "examples/ring").roles["node"]
    assert role.instance.dynamic
    if dynamic is not None:
        assert _is_dynamic(role, machine) is dynamic
    assert _is_dynamic(role, f"node[{LARGEST_NUMBER}]")
    assert not _is_dynamic(role, f"node[{LARGEST_NUMBER + 1}]")
    fixed = load(Path(__file__).parents[1] / "actor/fixed_ring").roles["node"]
    assert not _is_dynamic(fixed, machine)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({}, ""),
        ({"broker": "market"}, ""),
        ({"broker": "market", "authority": "site"}, ""),
        ({"broker": "site"}, "peers: site is trusted as authority, and cannot play broker"),
        ({"broker": "nobody"}, "peers: no actor 'nobody' is trusted"),
        ({"brokr": "market"}, "peers: lease has no role"),
        ({"broker": "market", "authority": "market"}, "peers: market is trusted as broker, and cannot play authority"),
    ],
)
def test_each_peer_that_is_named_is_trusted_and_of_that_role(named: dict[str, str], words: str) -> None:
    trust = Trust()
    for name, kind in (("site", "authority"), ("market", "broker"), ("tenant", "service_manager")):
        trust = add(trust, name, kind, PrivateKey.generate().public, f"http://{name}")
    if words:
        with pytest.raises(ConfigError, match=words):
            check_peers(named, "site", load("lease"), trust, ("authority",))
    else:
        check_peers(named, "site", load("lease"), trust, ("authority",))


# The process


def built(**more: Any) -> Built:
    inventory = {"units": [{"name": "node", "count": 2}]}
    return build(parse_config({**NEEDED, "inventory": inventory, **more}), ("broker",))


def test_each_setting_of_an_actor_arrives_where_it_is_used(broker_folder: Path) -> None:
    made = built(
        retire_after_ticks=7,
        reopen_pause_seconds=0.25,
        clock={"tick_seconds": 2.5},
        events={"keep": 3, "most": 5},
        messages={"first_pause_seconds": 0.125},
        handling={"tries": 9},
        deciding={"longest_seconds": 7.5},
    )
    own = made.config
    assert made.actor.context.options == ActorOptions(
        7, 0.25, own.messages, own.handling, own.deciding, EventSettings(3, 5), None
    )
    assert (own.messages.first, own.handling.tries, own.deciding.longest) == (0.125, 9, 7.5)
    assert (made.actor.identity.name, made.roles, made.system.name) == ("broker", ("broker",), "lease")
    clock: Any = made.actor.clock
    assert clock.tick_seconds == 2.5
    assert built(events=False).actor.context.options.events is None
    assert build(parse_config({**NEEDED, "inventory": {"units": [{"name": "n"}]}})).roles == ("broker",)
    twice = ("broker", "broker")
    assert build(parse_config({**NEEDED, "inventory": {"units": [{"name": "n"}]}}), twice).roles == ("broker",)


def test_a_clock_that_a_test_moves_sets_an_actor_apart_from_those_whose_time_is_real(broker_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"clock\.file: hand cannot be read: No such file"):
        built(clock={"file": "hand"})
    Path("hand").write_text("12")
    by_hand, real = built(clock={"file": "hand"}).actor, built().actor
    assert by_hand.clock.now() == 12
    assert real.codec.agreement == f"{by_hand.codec.agreement}.1", "neither takes a message of the other"


def test_a_process_serves_with_its_settings_and_leaves_nothing(
    broker_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its socket, metrics, watchdog, archive and history while it runs; afterwards all is as it was."""
    told: list[str] = []
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = built(
        archive="over.jsonl",
        metrics=f"127.0.0.1:{port}",
        stall_seconds=77.0,
        clock={"tick_seconds": 2.5},
        control="c.sock",
    )

    async def story() -> None:
        ready = asyncio.Event()
        serving = asyncio.ensure_future(serve(made, ready=lambda address: (told.append(address), ready.set())))
        await asyncio.wait_for(ready.wait(), 30)
        about = await asyncio.to_thread(Client(Path("c.sock")).get, "about")
        assert (about["name"], about["tick_seconds"], about["address"]) == ("broker", 2.5, told[0])
        async with aiohttp.ClientSession() as asked, asked.get(f"http://127.0.0.1:{port}/readyz") as answer:
            assert answer.status == 200
        text = await asyncio.to_thread(Client(Path("c.sock")).read, "metrics")
        assert b"leasehold_running 1.0" in text
        assert any(thread.name == "watchdog" for thread in threading.enumerate())
        assert len(made.actor.notices.subscribers) >= 3  # journal, metrics, archive
        assert Path("over.jsonl").exists()
        assert gc.isenabled()
        assert gc.get_threshold() == (10_000, 10, 10)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(serving, 30)

    before = gc.get_threshold()
    try:
        with caplog.at_level(logging.INFO):
            asyncio.run(story())
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    assert not made.actor.running
    assert not made.actor.notices.subscribers
    assert not Path("c.sock").exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    said = [record.getMessage() for record in caplog.records if record.name == "leasehold.server"]
    digest = made.actor.program.digest[:12]
    assert said == [f"serves broker of lease ({digest}) at {told[0]}", "ends: what it has taken is committed"]


def test_an_actor_that_cannot_start_ends_the_process_with_its_reason(broker_folder: Path) -> None:
    """Causes for an operator to cure; all that was begun is ended, and the socket is not made."""
    made = built(store="sqlite:nowhere/broker.db")
    with pytest.raises(ConfigError, match=r"broker cannot start: nowhere/broker\.db: there is no folder"):
        asyncio.run(serve(made))
    assert not made.actor.notices.subscribers
    assert not Path("broker.sock").exists()
    assert gc.isenabled()


@pytest.mark.real_time
async def test_a_process_begins_as_soon_as_its_store_can_be_opened(
    broker_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, tries = built(reopen_pause_seconds=0.02), list[float]()
    start = made.actor.start

    async def later() -> str:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise Transient("the server is starting", "wait")
        return await start()

    made.actor.start = later  # type: ignore[method-assign]

    ready = asyncio.Event()
    serving = asyncio.ensure_future(serve(made, ready=lambda address: ready.set()))
    await asyncio.wait_for(ready.wait(), 30)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 30)
    gc.unfreeze()
    assert len(tries) == 3
    assert all(other - one >= 0.015 for one, other in pairwise(tries))
    said = [record.getMessage() for record in caplog.records if record.name == "leasehold.server"]
    words = "broker cannot start yet, and tries again in 0.02 s: the server is starting; wait"
    assert [one for one in said if "cannot start" in one] == [words] * 2


@pytest.mark.real_time
async def test_a_process_that_is_asked_to_end_before_its_store_can_be_opened_ends_well(
    broker_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = built(reopen_pause_seconds=30.0)

    async def never() -> str:
        raise Transient("the server is starting", "wait")

    made.actor.start = never  # type: ignore[method-assign]

    caplog.set_level(logging.INFO)
    serving = asyncio.ensure_future(serve(made))
    for _ in range(1000):
        if "cannot start yet" in caplog.text:
            break
        await asyncio.sleep(0.005)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 20)
    said = [record.getMessage() for record in caplog.records if record.name == "leasehold.server"]
    assert said[-1] == "ends before its store could be opened"
    assert not made.actor.notices.subscribers
    assert not Path("broker.sock").exists()
    assert gc.isenabled()


def test_the_end_of_one_actor_is_the_end_of_all(broker_folder: Path) -> None:
    """One that fails ends the others well, and its error is that of the process."""
    key = PrivateKey.generate()
    key.save(Path("other.key"))
    trust = trust_file.TrustFile(Path("trust.yaml")).current()
    trust_file.save(Path("trust.yaml"), add(trust, "other", "broker", key.public, "http://127.0.0.1:2"))
    good = built()
    bad = build(
        parse_config(
            {
                **NEEDED,
                "name": "other",
                "key": "other.key",
                "store": "sqlite:no/o.db",
                "inventory": {"units": [{"name": "n"}]},
            }
        ),
        ("broker",),
    )
    with pytest.raises(ConfigError, match="other cannot start"):
        asyncio.run(asyncio.wait_for(serve(good, bad), 30))
    gc.unfreeze()
    assert not good.actor.running
    assert not Path("broker.sock").exists()


ENDS = """
import asyncio, os, sys
from leasehold.impl.server.serve import _signals

async def main():
    asked = _signals()
    os.kill(os.getpid(), int(sys.argv[1]))
    await asked
    print("ends", flush=True)
    os.kill(os.getpid(), int(sys.argv[2]))
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_for_the_end_and_the_second_is_the_end(
    first: signal.Signals, second: signal.Signals
) -> None:
    words = [sys.executable, "-c", ENDS, str(int(first)), str(int(second))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.returncode) == ("ends\n", -second)
