"""Guards of connections: how many there may be, how long a first request may take, and what is counted as refused."""

import asyncio
import json
import os
import resource
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web

from leasehold.impl.transport import guard as guard_module
from leasehold.impl.transport.guard import Guard, GuardedServer, Guards, PortKeeper
from leasehold.impl.transport.limits import LIMITS, Connection
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Reply

FEW = replace(LIMITS, connections=3, header_seconds=10, refusals=2, refusals_per_second=0.001)


async def never(*_) -> Reply:
    raise AssertionError


class Wire(asyncio.Transport):
    """A connection that, as a real one, is lost only in a later turn of the loop than it is aborted in."""

    def __init__(self, address: str | None = "192.0.2.1", number: int | None = None) -> None:
        extra: dict[str, object] = {"peername": (address, 5)} if address else {}
        if number is not None:
            extra["socket"] = SimpleNamespace(fileno=lambda: number)
        super().__init__(extra)
        self.aborts, self.said, self._open = 0, b"", True

    def abort(self) -> None:
        self.aborts += self._open
        self._open = False

    def write(self, data: bytes) -> None:
        self.said += data

    close = abort

    def is_closing(self) -> bool:
        return not self._open


class Inner(asyncio.Protocol):
    """What the web framework would be told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def connection_made(self, transport) -> None:
        self.told.append(transport)

    def connection_lost(self, exc) -> None:
        self.told.append(("lost", exc))

    def data_received(self, data: bytes) -> None:
        self.told.append(data)

    def eof_received(self) -> bool:
        self.told.append("eof")
        return True

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Server:
    """Guards, and the connections that are made through them."""

    def __init__(self, limits=FEW, patience_seconds: float = 0.0) -> None:
        self.reception = Reception(never, limits, asyncio.get_running_loop().time)
        self.inners: list[Inner] = []
        self.guards = Guards(self.reception, self._make, patience_seconds)

    def _make(self) -> Inner:
        self.inners.append(Inner())
        return self.inners[-1]

    def connect(self, wire: Wire) -> Guard:
        guard = self.guards()
        guard.connection_made(wire)
        return guard

    def waits(self, address: str = "192.0.2.1") -> bool:
        """Returns whether an address was refused so often that it has to wait."""
        return self.reception._refusals.wait(address, asyncio.get_running_loop().time()) > 0


async def test_each_new_connection_takes_the_place_of_another_one():
    server = Server()
    wires = [Wire() for _ in range(5)]
    for wire in wires:
        server.connect(wire)
    assert [wire.aborts for wire in wires] == [1, 1, 0, 0, 0]
    assert list(server.guards.by_transport) == wires[2:]
    other = Wire("192.0.2.2")
    server.connect(other)  # another address has its own
    assert other.aborts == 0


async def test_one_address_takes_no_other_ones_place():
    server = Server()
    others = [Wire("192.0.2.2"), Wire(None)]  # older, and nothing proven
    for other in others:
        server.connect(other)
    wires = [Wire() for _ in range(4)]
    for wire in wires:
        server.connect(wire)
    assert [wire.aborts for wire in (*others, *wires)] == [0, 0, 1, 0, 0, 0]


async def test_connections_that_have_proven_something_stay():
    server = Server()
    wires = [Wire() for _ in range(3)]
    guards = [server.connect(wire) for wire in wires]
    for guard in guards:
        guard.connection.proven = "tenant"
    late = Wire()
    refused = server.connect(late)
    assert [wire.aborts for wire in (*wires, late)] == [0, 0, 0, 1]
    assert len(server.inners) == 3  # the framework never hears of it
    refused.data_received(b"GET")
    refused.connection_lost(None)
    guards[1].connection.proven = ""
    later = Wire()
    server.connect(later)
    assert [wire.aborts for wire in (*wires, later)] == [0, 1, 0, 0]


async def test_a_connection_that_is_lost_makes_room():
    server = Server()
    wires = [Wire() for _ in range(3)]
    guards = [server.connect(wire) for wire in wires]
    for guard in guards:
        guard.connection_lost(None)
    assert (dict(server.guards.count), server.guards.by_transport) == ({}, {})
    again = [Wire() for _ in range(3)]
    for wire in again:
        server.connect(wire)
    assert [wire.aborts for wire in again] == [0, 0, 0]
    assert dict(server.guards.count) == {"192.0.2.1": 3}
    await asyncio.sleep(9)
    assert [wire.aborts for wire in (*wires, *again)] == [0] * 6
    await asyncio.sleep(2)
    assert [wire.aborts for wire in (*wires, *again)] == [0, 0, 0, 1, 1, 1]  # those that were lost have no timer


@pytest.mark.parametrize("seed", range(5))
async def test_the_count_of_an_address_is_that_of_its_connections(seed: int):
    """Whoever comes, proves something, is refused, takes another one's place or goes, in any order."""
    chance = Random(seed)

    server, there = Server(), list[Guard]()
    for _ in range(200):
        if chance.random() < 0.5 or not there:
            there.append(server.connect(Wire(f"192.0.2.{chance.randint(1, 3)}")))
        elif chance.random() < 0.3:
            chance.choice(there).connection.proven = "tenant"
        else:
            there.pop(chance.randrange(len(there))).connection_lost(None)
        assert server.guards.count == Counter(guard.connection.address for guard in there)
    for guard in there:
        guard.connection_lost(None)
    assert (dict(server.guards.count), server.guards.by_transport) == ({}, {})


@pytest.mark.parametrize("asked", [False, True])
async def test_a_first_request_has_to_come_in_time(asked: bool, caplog):
    server, wire = Server(), Wire()
    server.connect(wire)
    await asyncio.sleep(9.9)
    assert (wire.aborts, caplog.records) == (0, [])
    if asked:
        server.guards.asked(wire)
    server.guards.asked(None)
    server.guards.asked(Wire())  # one that is none of ours
    await asyncio.sleep(100)
    assert wire.aborts == (not asked)
    assert ["192.0.2.1" in record.getMessage() for record in caplog.records] == [True] * (not asked)


async def test_what_is_no_request_counts_as_refused():
    server = Server()
    for spoke, asked in ((False, False), (True, True), (False, False), (True, True)):
        wire = Wire()
        guard = server.connect(wire)
        if spoke:
            guard.data_received(b"GET / HTTP/1.1")
        if asked:
            server.guards.asked(wire)
        guard.connection_lost(None)
    assert not server.waits()
    for _ in range(2):
        guard = server.connect(Wire())
        guard.data_received(b"\x16\x03\x01")
        guard.connection_lost(None)
    assert server.waits()
    assert not server.waits("192.0.2.2")


async def test_everything_else_is_passed_on():
    server, wire = Server(), Wire(None)
    guard, error = server.connect(wire), OSError("reset")
    guard.data_received(b"a")
    guard.data_received(b"b")
    guard.pause_writing()
    guard.resume_writing()
    assert guard.eof_received() is True
    guard.connection_lost(error)
    assert server.inners[0].told == [wire, b"a", b"b", "pause", "resume", "eof", ("lost", error)]
    assert guard.connection.address == ""


@pytest.mark.real_time
async def test_a_port_for_which_there_are_no_descriptors_is_an_error_and_not_silence() -> None:
    """The loop takes the lack for a kind of address that the machine has not, and would listen nowhere."""

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = GuardedServer(web.Application(), Reception(never, LIMITS))
    top = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (top + 1, limits[1]))
    spare: list[int] = []
    try:
        with suppress(OSError):
            while True:  # no number below the limit is free
                spare.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            await server.start(("127.0.0.1", 0))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in spare:
            os.close(one)
    listening = await server.start(("127.0.0.1", 0))
    assert listening.sockets
    await server.close()


async def test_who_has_to_leave_is_told_so_unless_an_answer_has_begun() -> None:
    """The answer is a whole one; it is said once, no timer is left, and nobody's refusal is counted."""

    server = Server(replace(FEW, refusals=1))
    for asked in (False, True):
        wire = Wire()
        guard = server.connect(wire)
        guard.data_received(b"GET")
        if asked:
            server.guards.asked(wire)
        guard.pause_writing()
        for _ in range(2):
            guard.leave("there is no room")
        assert (wire.aborts, wire.is_closing()) == (1, True)
        if asked:
            assert wire.said == b""
        else:
            head, _, body = wire.said.partition(b"\r\n\r\n")
            first, *fields = head.decode().split("\r\n")
            assert first == "HTTP/1.1 503 Service Unavailable"
            assert dict(field.split(": ") for field in fields) == {
                "Content-Type": "application/json",
                "Connection": "close",
                "Retry-After": "1",
                "Content-Length": str(len(body)),
            }
            assert json.loads(body) == {"error": "too much is asked at the moment: there is no room; ask again"}
        guard.connection_lost(None)
        await asyncio.sleep(100)
        assert wire.aborts == 1, "no timer is left"
        assert not server.waits()


async def test_a_connection_over_which_a_request_is_answered_takes_no_part_in_making_room() -> None:
    """Also where the answer ends by an error, it is over then."""

    server = Server(replace(FEW, connections=2))
    busy, idle = Wire(), Wire()
    for wire in (busy, idle):
        server.connect(wire)
    gates = [asyncio.Event() for _ in range(3)]

    async def handler(request) -> web.StreamResponse:
        await gates[request.number].wait()
        if request.number == 2:
            raise KeyError
        return web.Response(status=200 + request.number)

    def ask(number: int, wire: Wire | None) -> asyncio.Task:
        request = SimpleNamespace(transport=wire, number=number)
        return asyncio.create_task(server.guards.watched(request, handler))

    asks = [ask(0, busy), ask(1, None)]  # one whose connection is gone
    await asyncio.sleep(1)
    third = Wire()
    server.connect(third)
    assert [wire.aborts for wire in (busy, idle, third)] == [0, 1, 0]
    gates[0].set()
    gates[1].set()
    assert [(await one).status for one in asks] == [200, 201]
    server.guards.count["192.0.2.1"] -= 1  # the one that left is lost
    asks = [ask(2, busy)]
    await asyncio.sleep(1)
    gates[2].set()
    with pytest.raises(KeyError):
        await asks[0]
    fourth = Wire()
    server.connect(fourth)
    assert [wire.aborts for wire in (busy, third, fourth)] == [1, 0, 0]
    assert busy.said == b"", "it has heard an answer before"


@pytest.mark.parametrize("patience", [0.0, 3.0])
async def test_a_new_connection_has_its_time_before_it_makes_room(patience: float) -> None:
    """It may go from the moment on at which its time is over; before, the one that comes goes itself."""

    for waited in (0.0, 2.9, 3.0, 5.0):
        server = Server(replace(FEW, connections=1), patience)
        old, new = Wire(), Wire()
        server.connect(old)
        await asyncio.sleep(waited)
        server.connect(new)
        gives_way = waited >= patience
        assert (old.aborts, new.aborts) == ((1, 0) if gives_way else (0, 1)), waited
        assert (b" 503 " in new.said) == (not gives_way)
    assert Guards(Reception(never, LIMITS), Inner).patience_seconds == 0


@pytest.mark.parametrize("seed", range(8))
async def test_room_is_made_as_a_plain_list_of_connections_says(seed: int) -> None:
    """An address has its limit, and all have one; who goes is the oldest of its address, or of the greediest."""
    chance = Random(seed)
    limits = replace(LIMITS, connections=4, connections_in_all=8, header_seconds=10**6)

    server, there = Server(limits), list[tuple[Guard, Wire]]()
    closed = dict.fromkeys(("own", "in all", "none"), 0)
    for _ in range(300):
        act = chance.random()
        if there and act < 0.35:
            there.pop(chance.randrange(len(there)))[0].connection_lost(None)
        elif there and act < 0.4:
            chance.choice(there)[0].connection.proven = "tenant"
        elif there and act < 0.5:
            chance.choice(there)[0].asked()
        elif there and act < 0.6:
            chance.choice(there)[0].answered()
        else:
            new = Wire(f"192.0.2.{chance.choice('1112345')}")
            address = new.get_extra_info("peername")[0]
            before = [one for one in there if not one[1].is_closing()]
            free = [(g, w) for g, w in before if not g.connection.proven and not g._answering]
            count = Counter(g.connection.address for g, _ in there)
            there.append((server.connect(new), new))
            gone = [(g, w) for g, w in before if w.is_closing()]
            if count[address] + 1 > limits.connections:
                reached = "own"
                wanted = [one for one in free if one[0].connection.address == address][:1]
            elif len(there) > limits.connections_in_all:
                reached = "in all"
                count[address] += 1
                most = max((count[g.connection.address] for g, _ in free), default=0)
                oldest: dict[str, tuple[Guard, Wire]] = {}
                for one in free:
                    if count[one[0].connection.address] == most:
                        oldest.setdefault(one[0].connection.address, one)
                wanted = [one for one in oldest.values() if one in gone] or list(oldest.values())[:1]
            else:
                reached, wanted = "none", []
            closed[reached] += 1
            assert gone == wanted
            assert new.is_closing() == (reached != "none" and not wanted), "where none may go, the new one does"
        kept = [w for g, w in there if not w.is_closing()]
        assert list(server.guards.by_transport) == kept
    assert min(closed.values()) > 10, closed


@pytest.mark.parametrize(
    ("most", "reserve", "first_of_the_reserve"), [(100, 20, 80), (100, 50, 50), (100, 90, 50), (101, 90, 51), (1, 5, 1)]
)
async def test_the_reserve_of_descriptors_is_left_alone(
    monkeypatch, most: int, reserve: int, first_of_the_reserve: int
):
    """A connection in the reserve goes itself, and makes one that may go leave, so that the next one finds room."""
    monkeypatch.setattr(guard_module.resource, "getrlimit", lambda kind: (most, 10**6))

    server = Server(replace(LIMITS, reserve=reserve))
    kept, spare, other = Wire(number=first_of_the_reserve - 1), Wire("192.0.2.2"), Wire("192.0.2.2")
    server.connect(kept).connection.proven = "tenant"
    server.connect(spare)
    server.connect(other)
    late = Wire("192.0.2.3", first_of_the_reserve)
    server.connect(late)
    assert [wire.aborts for wire in (kept, spare, other, late)] == [0, 1, 0, 1]
    for wire in (spare, late):
        assert b"the process has no descriptors to spare" in wire.said
    assert len(server.inners) == 3
    assert list(server.guards.by_transport) == [kept, other]


@pytest.mark.parametrize(
    ("address", "limits", "words"),
    [
        ("192.0.2.1", {"connections": 1}, "closed a connection of 192.0.2.1: 192.0.2.1 has 1 already"),
        (None, {"connections": 1}, "closed a connection of a client: this socket has 1 already"),
        ("192.0.2.1", {"connections_in_all": 1}, "closed a connection of 192.0.2.1: there are 1 connections already"),
        (None, {"connections_in_all": 1}, "closed a connection of a client: there are 1 connections already"),
    ],
)
async def test_the_log_and_who_leaves_hear_which_limit_was_reached(caplog, address, limits, words) -> None:
    server = Server(replace(LIMITS, **limits))
    wires = [Wire(address), Wire(address)]
    for wire in wires:
        server.connect(wire)
    assert words.partition(": ")[2].encode() in wires[0].said
    assert (wires[0].aborts, wires[1].aborts) == (1, 0)
    assert [record.getMessage() for record in caplog.records] == [words]


async def second_of_the_end(acts):
    """The second in which a connection on which something happens in some seconds is closed; None: not in 120."""
    server, wire = Server(), Wire()
    guard = server.connect(wire)
    happen = {
        "asked": partial(server.guards.asked, wire),
        "answered": guard.answered,
        "pause": guard.pause_writing,
        "resume": guard.resume_writing,
        "data": partial(guard.data_received, b"x"),
        "lost": partial(guard.connection_lost, None),
    }
    closed = None
    if -1 in acts:
        happen[acts[-1]]()
    for second in range(120):
        if second in acts:
            happen[acts[second]]()
        await asyncio.sleep(0.5)
        if wire.aborts and closed is None:
            closed = second
        await asyncio.sleep(0.5)
    return closed


async def test_who_takes_no_answer_is_closed_when_its_time_is_over() -> None:
    """The time runs from the first pause until writing goes on, and anew from the next pause."""

    for acts, end in (
        ({0: "pause"}, 30),
        ({0: "pause", 20: "pause"}, 30),
        ({0: "pause", 29: "resume"}, None),
        ({0: "pause", 29: "resume", 40: "pause"}, 70),
        ({0: "pause", 10: "lost"}, None),
        ({0: "resume"}, None),
        ({5: "pause", 6: "resume", 7: "resume", 8: "pause"}, 38),
        ({0: "pause", 3: "answered"}, 30),
    ):
        assert await second_of_the_end({-1: "asked"} | acts) == end, acts


async def test_each_request_has_the_time_of_the_first_from_its_first_byte_on() -> None:
    """Between requests, and while one is answered, nothing has to come; more bytes give no more time."""

    for acts, end in (
        ({0: "asked", 1: "answered"}, None),
        ({0: "asked", 1: "answered", 50: "data"}, 60),
        ({0: "asked", 1: "answered", 50: "data", 55: "data", 59: "data"}, 60),
        ({0: "asked", 50: "data"}, None),
        ({0: "asked", 1: "answered", 50: "data", 59: "asked"}, None),
        ({0: "asked", 1: "answered", 50: "data", 55: "data", 59: "asked"}, None),
        ({0: "data", 5: "data"}, 10),
        ({0: "asked", 1: "answered", 50: "data", 55: "lost"}, None),
        ({}, 10),
        ({0: "asked", 1: "answered", 50: "data", 59: "asked", 60: "answered", 70: "data"}, 80),
    ):
        assert await second_of_the_end(acts) == end, acts


def test_a_port_at_which_nobody_proves_who_it_is_has_its_name_in_a_bounded_log(caplog, monkeypatch) -> None:
    now = 1000.0
    monkeypatch.setattr(guard_module.time, "monotonic", lambda: now)
    keeper, connection = PortKeeper(FEW, "metrics"), Connection("192.0.2.1")
    assert keeper.limits is FEW
    for now, lines in ((1000.0, 3), (1059.0, 0), (1060.0, 1), (5000.0, 3)):
        caplog.clear()
        for _ in range(10):
            keeper.note("slow", "closed %s", "one")
        assert len(caplog.records) == lines, now
        assert all(record.getMessage().startswith("metrics: closed one") for record in caplog.records)
    keeper.refused(connection, "no")
    assert (connection.tried, connection.proven) == (True, "")


async def get(at: socket.socket | str, session: aiohttp.ClientSession) -> str:
    async with session.get(f"{at}/") as response:
        return await response.text()


async def answer(request: web.Request) -> web.Response:
    return web.Response(text="here")


def served(limits=LIMITS, **options) -> GuardedServer:
    app = web.Application()
    app.router.add_get("/", answer)
    return GuardedServer(app, PortKeeper(limits, "test"), **options)


def test_a_server_at_a_socket_or_a_port_listens_until_it_is_told_not_to_and_then_closes(tmp_path) -> None:
    """Connections that are there go on until the close; afterwards nothing is left."""

    async def story(unix: bool) -> None:
        server = served()
        if unix:
            plug = socket.socket(socket.AF_UNIX)
            plug.bind(str(tmp_path / "control"))
            await server.start(plug)
            connector: aiohttp.BaseConnector = aiohttp.UnixConnector(str(tmp_path / "control"))
            at = "http://control"
        else:
            listening = await server.start(("127.0.0.1", 0))
            connector, at = aiohttp.TCPConnector(), f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with aiohttp.ClientSession(connector=connector) as session:
            assert await get(at, session) == "here"
            (guard,) = server.guards.by_transport.values()
            assert (guard._asked, guard.may_go, guard._timer) == (True, True, None)
            server.listen_no_more()
            assert await get(at, session) == "here"
            await server.close()
            with pytest.raises(aiohttp.ClientError):
                await get(at, session)
        await asyncio.sleep(0)
        assert (server.guards.by_transport, dict(server.guards.count)) == ({}, {})

    for unix in (False, True):
        asyncio.run(story(unix))


@pytest.mark.real_time
async def test_the_loop_and_the_framework_are_told_of_the_limits(monkeypatch) -> None:
    """The backlog of a port, the time for which a connection may be idle, and the caller's options."""
    told = []

    loop = asyncio.get_running_loop()
    real = loop.create_server

    async def create(*args, **options):
        told.append(options)
        return await real(*args, **options)

    loop.create_server = create  # type: ignore[method-assign]
    server = served(replace(LIMITS, backlog=7, idle_seconds=0.05), shutdown_timeout=0.5)
    listening = await server.start(("127.0.0.1", 0), reuse_address=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", listening.sockets[0].getsockname()[1])
    writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    async with asyncio.timeout(5):  # it is closed because it is idle, and not when the default of 75 s is over
        assert (await reader.read()).endswith(b"here")
    writer.close()
    assert server._runner._shutdown_timeout == 0.5
    await server.close()
    assert told == [{"backlog": 7, "reuse_address": True}]


@pytest.mark.real_time
async def test_a_start_that_fails_gives_the_framework_back() -> None:
    first, second = served(), served()
    port = (await first.start(("127.0.0.1", 0))).sockets[0].getsockname()[1]
    with pytest.raises(OSError, match="in use"):
        await second.start(("127.0.0.1", port))
    assert second._runner.server is None
    await second.close()
    await first.close()
