"""NATS: what is its own, beside what every transport does."""

import asyncio
import builtins
import contextlib
import uuid

import pytest

from leasehold.impl.transport.nats import NatsTransport
from leasehold.impl.transport.transport import Delivery, TransportError


class Relay:
    """A way to the server that can be cut, and mended at the same port."""

    def __init__(self, target):
        self._target, self._server, self._writers, self._port = target, None, [], 0

    async def open(self):
        self._server = await asyncio.start_server(self._join, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self._port

    async def cut(self):
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _join(self, reader, writer):
        other_reader, other_writer = await asyncio.open_connection(*self._target)
        self._writers += [writer, other_writer]
        await asyncio.gather(self._pump(reader, other_writer), self._pump(other_reader, writer))

    async def _pump(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()


def test_a_connection_that_is_cut_is_made_again_and_still_listens(nats_server, receiver):
    async def talk():
        relay = Relay(nats_server)
        port = await relay.open()
        subject = f"test.{uuid.uuid4().hex}"
        there = NatsTransport(f"nats://127.0.0.1:{port}/{subject}")
        here = NatsTransport(f"nats://127.0.0.1:{nats_server[1]}/{subject}.here")
        await there.start(receiver)
        await here.start(receiver)
        address = f"nats://127.0.0.1:{nats_server[1]}/{subject}"
        assert (await here.send(address, b"1")).answer is Delivery.TAKEN
        await relay.cut()
        assert (await here.send(address, b"2")).answer is Delivery.UNREACHABLE
        own = await there.send(f"nats://127.0.0.1:{port}/{subject}.here", b"3")
        assert own.answer is Delivery.UNREACHABLE, "without its connection it sends nothing either"
        await relay.open()
        async with asyncio.timeout(20):
            while (await here.send(address, b"4")).answer is not Delivery.TAKEN:
                await asyncio.sleep(0.05)
        assert receiver.got == [b"1", b"4"]
        await here.close()
        await there.close()
        await relay.cut()

    asyncio.run(talk())


def test_a_server_that_is_not_there_is_an_error_at_the_start(receiver):
    async def talk():
        transport = NatsTransport("nats://127.0.0.1:1/a.b", connect_seconds=0.3)
        with pytest.raises(TransportError, match=r"no NATS server at nats://127.0.0.1:1"):
            await transport.start(receiver)
        await transport.close()

    asyncio.run(talk())


def test_without_the_package_the_start_says_what_to_install(receiver, monkeypatch):
    real = builtins.__import__

    def without_nats(name, *args, **kwargs):
        if name.partition(".")[0] == "nats":
            raise ImportError("No module named 'nats'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_nats)

    async def talk():
        transport = NatsTransport("nats://127.0.0.1:4222/a.b")
        with pytest.raises(TransportError, match=r"pip install 'leasehold\[nats\]'"):
            await transport.start(receiver)
        reply = await NatsTransport("nats://127.0.0.1:4222/a.b").send("nats://127.0.0.1:4222/a.c", b"x")
        assert reply.answer is Delivery.UNREACHABLE

    asyncio.run(talk())


@pytest.mark.parametrize(
    "address",
    ["", "nats://", "nats://h", "nats://h/", "nats://h/a..b", "nats://h/a.*", "nats://h/>", "nats://h/a b",
     "nats://user:word@h/a", "http://h/a", "nats://h/" + "a" * 201, "nats://h:x/a"],
)  # fmt: skip
def test_what_is_no_address_is_refused(address):
    with pytest.raises(TransportError, match="no NATS address"):
        NatsTransport(address)


def test_an_empty_frame_and_one_that_wants_no_answer_reach_nobody(nats_server, receiver):
    from nats.aio.client import Client

    async def talk():
        subject = f"test.{uuid.uuid4().hex}"
        there = NatsTransport(f"nats://127.0.0.1:{nats_server[1]}/{subject}")
        address = await there.start(receiver)
        assert (await there.send(address, b"")).answer is Delivery.REFUSED
        stranger = Client()
        await stranger.connect(f"nats://127.0.0.1:{nats_server[1]}")
        await stranger.publish(subject, b"no answer wanted")
        await stranger.flush()
        assert (await there.send(address, b"x")).answer is Delivery.TAKEN
        assert receiver.got == [b"x"]
        await stranger.close()
        await there.close()

    asyncio.run(talk())
