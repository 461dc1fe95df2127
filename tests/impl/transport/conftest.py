"""Places at which transports of each kind can be started, gone from, and come back to."""

import asyncio
import contextlib
import os
import socket
import uuid

import pytest

from leasehold.faults.simulation.network import SimulatedNetwork, SimulatedTransport
from leasehold.impl.transport.http import HttpTransport
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.nats import NatsTransport
from leasehold.impl.transport.transport import Delivery, Reply

NATS = ("127.0.0.1", 4222)


def need_nats():
    try:
        socket.create_connection(NATS, timeout=2).close()
    except OSError as error:
        message = f"NATS is not reachable at {NATS[0]}:{NATS[1]}: {error}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


class World:
    """Makes transports of one kind by name; the same name again is the same address again."""

    def __init__(self, kind):
        self.kind = kind
        self.network = None
        self.run = uuid.uuid4().hex
        self.ports = {}
        self.open = []

    def make(self, name, limits=LIMITS):
        if self.kind == "memory":
            self.network = self.network or SimulatedNetwork(limits=limits)
            self.network.limits = limits
            made = SimulatedTransport(self.network, name)
        elif self.kind == "http":
            made = HttpTransport(port=self.ports.get(name, 0), limits=limits)
        else:
            made = NatsTransport(f"nats://{NATS[0]}:{NATS[1]}/test.{self.run}.{name}", limits=limits)
        self.open.append(made)
        return made

    async def start(self, name, receive, limits=LIMITS):
        made = self.make(name, limits)
        address = await made.start(receive)
        if self.kind == "http":
            self.ports[name] = int(address.rpartition(":")[2])
        return made, address

    @contextlib.asynccontextmanager
    async def closing(self):
        """Bounds a test's conversation, and ends all transports of it."""
        try:
            async with asyncio.timeout(60):
                yield
        finally:
            for made in self.open:
                await made.close()
        left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        if left:  # what a connection still does in the turn of its close
            await asyncio.wait(left, timeout=5)
        assert not [t for t in left if not t.done()], "nothing goes on after a close"


@pytest.fixture(params=["memory", "http", "nats"])
def world(request):
    if request.param == "nats":
        need_nats()
    return World(request.param)


@pytest.fixture
def nats_server():
    need_nats()
    return NATS


@pytest.fixture
def http_world():
    return World("http")


class Receiver:
    """Keeps what it takes; `answer` may be changed."""

    def __init__(self, answer=None):
        self.got = []
        self.answer = answer or Reply(Delivery.TAKEN)

    async def __call__(self, frame):
        self.got.append(frame)
        return self.answer(frame) if callable(self.answer) else self.answer


class GatedReceiver:
    """Hands what comes to a receiver once its gate is open; `come` is set as soon as something has come."""

    def __init__(self, receive):
        self.receive = receive
        self.come, self.gate = asyncio.Event(), asyncio.Event()

    async def __call__(self, frame):
        self.come.set()
        await self.gate.wait()
        return await self.receive(frame)


@pytest.fixture
def receiver():
    return Receiver()
