"""Guards of connections: how many there may be, how long a first request may take, and what is counted as refused."""

import asyncio
import os
import resource
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from aiohttp import web

from leasehold.impl.transport.guard import Guard, GuardedServer, Guards
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Reply
from tests.impl.virtual import virtual

FEW = replace(LIMITS, connections=3, header_seconds=10, refusals=2, refusals_per_second=0.001)


async def never(*_) -> Reply:
    raise AssertionError


class Wire(asyncio.Transport):
    """A connection that, as a real one, is lost only in a later turn of the loop than it is aborted in."""

    def __init__(self, address: str | None = "192.0.2.1") -> None:
        super().__init__({"peername": (address, 5)} if address else {})
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

    def __init__(self, limits=FEW) -> None:
        self.reception = Reception(never, limits, asyncio.get_running_loop().time)
        self.inners: list[Inner] = []
        self.guards = Guards(self.reception, self._make)

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


def test_each_new_connection_takes_the_place_of_another_one():
    async def story() -> None:
        server = Server()
        wires = [Wire() for _ in range(5)]
        for wire in wires:
            server.connect(wire)
        assert [wire.aborts for wire in wires] == [1, 1, 0, 0, 0]
        assert list(server.guards.by_transport) == wires[2:]
        other = Wire("192.0.2.2")
        server.connect(other)  # another address has its own
        assert other.aborts == 0

    virtual(story())


def test_one_address_takes_no_other_ones_place():
    async def story() -> None:
        server = Server()
        others = [Wire("192.0.2.2"), Wire(None)]  # older, and nothing proven
        for other in others:
            server.connect(other)
        wires = [Wire() for _ in range(4)]
        for wire in wires:
            server.connect(wire)
        assert [wire.aborts for wire in (*others, *wires)] == [0, 0, 1, 0, 0, 0]

    virtual(story())


def test_connections_that_have_proven_something_stay():
    async def story() -> None:
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

    virtual(story())


def test_a_connection_that_is_lost_makes_room():
    async def story() -> None:
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

    virtual(story())


@pytest.mark.parametrize("seed", range(5))
def test_the_count_of_an_address_is_that_of_its_connections(seed: int):
    """Whoever comes, proves something, is refused, takes another one's place or goes, in any order."""
    chance = Random(seed)

    async def story() -> None:
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

    virtual(story())


@pytest.mark.parametrize("asked", [False, True])
def test_a_first_request_has_to_come_in_time(asked: bool, caplog):
    async def story() -> None:
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

    virtual(story())
    assert ["192.0.2.1" in record.getMessage() for record in caplog.records] == [True] * (not asked)


def test_what_is_no_request_counts_as_refused():
    async def story() -> None:
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

    virtual(story())


def test_everything_else_is_passed_on():
    async def story() -> None:
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

    virtual(story())


def test_a_port_for_which_there_are_no_descriptors_is_an_error_and_not_silence() -> None:
    """The loop takes the lack for a kind of address that the machine has not, and would listen nowhere."""

    async def story() -> None:
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

    asyncio.run(story())
