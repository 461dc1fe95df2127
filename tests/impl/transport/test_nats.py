"""NATS: what is its own, beside what every transport does."""

import asyncio
import builtins
import contextlib
import json
import os
import uuid
from dataclasses import replace

import pytest

from leasehold.impl.transport import nats
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.nats import NatsTransport
from leasehold.impl.transport.open import open_transport
from leasehold.impl.transport.transport import Delivery, Reply, TransportError

pytestmark = pytest.mark.real_time


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


async def test_a_connection_that_is_cut_is_made_again_and_still_listens(nats_server, receiver):
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


async def test_a_server_that_is_not_there_is_an_error_at_the_start(receiver):
    transport = NatsTransport("nats://127.0.0.1:1/a.b", connect_seconds=0.3)
    with pytest.raises(TransportError, match=r"no NATS server at nats://127.0.0.1:1"):
        await transport.start(receiver)
    await transport.close()


async def test_without_the_package_the_start_says_what_to_install(receiver, monkeypatch):
    real = builtins.__import__

    def without_nats(name, *args, **kwargs):
        if name.partition(".")[0] == "nats":
            raise ImportError("No module named 'nats'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_nats)
    transport = NatsTransport("nats://127.0.0.1:4222/a.b")
    with pytest.raises(TransportError, match=r"pip install 'leasehold\[nats\]'"):
        await transport.start(receiver)
    reply = await NatsTransport("nats://127.0.0.1:4222/a.b").send("nats://127.0.0.1:4222/a.c", b"x")
    assert reply.answer is Delivery.UNREACHABLE


@pytest.mark.parametrize(
    "address",
    [
        "",
        "nats://",
        "nats://h",
        "nats://h/",
        "nats://h/a..b",
        "nats://h/a.*",
        "nats://h/>",
        "nats://h/a b",
        "nats://user:word@h/a",
        "http://h/a",
        "nats://h/" + "a" * 201,
        "nats://h:x/a",
    ],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(TransportError, match="no NATS address"):
        NatsTransport(address)


async def test_an_empty_frame_and_one_that_wants_no_answer_reach_nobody(nats_server, receiver):
    from nats.aio.client import Client

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


class Server:
    """The beginning of a NATS server: it lets everybody in, and keeps what each says of itself."""

    def __init__(self):
        self.logins, self.subjects, self._server = [], [], None
        self.joined, self.open_to_all = asyncio.Event(), asyncio.Event()
        self.open_to_all.set()

    async def open(self):
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self):
        self._server.close()

    async def _join(self, reader, writer):
        self.joined.set()
        await self.open_to_all.wait()
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":2000}\r\n')
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                word = line.split()[0]
                if word == b"CONNECT":
                    self.logins.append(json.loads(line[8:]))
                elif word == b"PING":
                    writer.write(b"PONG\r\n")
                elif word == b"SUB":
                    self.subjects.append(line.split()[1].decode())
        writer.close()


@pytest.mark.parametrize(
    "login", [{"user": "site", "password": 17}, {"token": "word"}, {}], ids=["a password", "a token", "nothing"]
)
async def test_a_login_is_told_to_the_own_server_and_to_no_other(receiver, login):
    own, other = Server(), Server()
    config = {
        "listen": f"{await own.open()}/a.b",
        "limits": {"send_seconds": 0.2},
        **({"login": login} if login else {}),
    }
    transport = open_transport(config)
    transport._check_free = nobody  # this server knows no answers
    assert await transport.start(receiver) == config["listen"]
    assert (await transport.send(f"{await other.open()}/c.d", b"x")).answer is Delivery.UNREACHABLE
    secrets = [{name: said.get(name) for name in ("user", "pass", "auth_token")} for said in own.logins + other.logins]
    ours = {"user": login.get("user"), "pass": login.get("password"), "auth_token": login.get("token")}
    assert secrets == [{n: v and str(v) for n, v in ours.items()}, dict.fromkeys(ours)]
    assert "a.b" in own.subjects
    await transport.close()
    await own.close()
    await other.close()


async def nobody(client):
    """Nobody else listens there."""


async def test_there_is_one_connection_to_a_server_and_at_most_fifty_servers(receiver, monkeypatch):
    assert nats._MOST_SERVERS == 50
    monkeypatch.setattr(nats, "_MOST_SERVERS", 2)
    servers = [Server() for _ in range(3)]
    places = [await server.open() for server in servers]
    transport = NatsTransport(f"{places[0]}/a", limits=replace(LIMITS, send_seconds=0.2))
    replies = await asyncio.gather(*(transport.send(f"{place}/b", b"x") for place in places for _ in range(3)))
    assert [len(server.logins) for server in servers] == [1, 1, 0]
    assert ["no more" in reply.reason for reply in replies] == [False] * 6 + [True] * 3
    assert {reply.answer for reply in replies} == {Delivery.UNREACHABLE}
    await transport.close()
    for server in servers:
        await server.close()


async def test_a_sender_that_gives_up_while_the_server_is_slow_takes_the_connection_from_nobody():
    server = Server()
    place = await server.open()
    server.open_to_all.clear()
    transport = NatsTransport(f"{place}/a", limits=replace(LIMITS, send_seconds=0.3))
    sends = [asyncio.create_task(transport.send(f"{place}/b", b"x")) for _ in range(3)]
    await server.joined.wait()
    await asyncio.sleep(0.02)  # until all wait for the server's first word
    sends[0].cancel()
    done, _ = await asyncio.wait(sends, timeout=0.05)
    assert done == {sends[0]}
    server.open_to_all.set()
    assert {(await send).answer for send in sends[1:]} == {Delivery.UNREACHABLE}
    assert len(server.logins) == 1, "the one connection was made to its end"
    await transport.close()
    await server.close()


async def test_a_close_while_a_connection_is_being_made_ends_it():
    server = Server()
    place = await server.open()
    server.open_to_all.clear()
    transport = NatsTransport(f"{place}/a")
    files = len(os.listdir("/proc/self/fd"))
    send = asyncio.create_task(transport.send(f"{place}/b", b"x"))
    await server.joined.wait()
    await asyncio.sleep(0.02)
    async with asyncio.timeout(4):  # and not only when the time for a connection is over
        await transport.close()
    assert (await send).answer is Delivery.UNREACHABLE
    server.open_to_all.set()
    await asyncio.sleep(0.05)
    assert (server.logins, len(os.listdir("/proc/self/fd"))) == ([], files)
    await server.close()


async def test_a_server_that_was_away_is_asked_again(receiver):
    server = Server()
    place = await server.open()
    await server.close()
    transport = NatsTransport("nats://127.0.0.1:1/a", limits=replace(LIMITS, send_seconds=0.5), connect_seconds=0.2)
    reply = await transport.send(f"{place}/b", b"x")
    assert (reply.answer, "no NATS server" in reply.reason) == (Delivery.UNREACHABLE, True)
    port = int(place.rpartition(":")[2])
    server._server = await asyncio.start_server(server._join, "127.0.0.1", port)
    await transport.send(f"{place}/b", b"x")
    assert len(server.logins) == 1
    await transport.close()
    await server.close()


async def test_a_frame_that_is_larger_than_the_server_carries_is_refused():
    server = Server()
    place = await server.open()
    transport = NatsTransport(f"{place}/a", limits=replace(LIMITS, send_seconds=0.2))
    reply = await transport.send(f"{place}/b", b"x" * 2001)
    assert (reply.answer, "2001 bytes" in reply.reason) == (Delivery.REFUSED, True)
    assert (await transport.send(f"{place}/b", b"x" * 2000)).answer is Delivery.UNREACHABLE
    await transport.close()
    await server.close()


async def test_where_nobody_listens_the_sender_is_told_so(nats_server):
    transport = NatsTransport(f"nats://127.0.0.1:{nats_server[1]}/test.{uuid.uuid4().hex}")
    reply = await transport.send(f"nats://127.0.0.1:{nats_server[1]}/test.nobody", b"x")
    assert (reply.answer, reply.reason) == (Delivery.UNREACHABLE, "nobody listens on test.nobody")
    await transport.close()


async def listening_stranger(nats_server, answer=None):
    """A client that is no actor, and its subject; it answers with what `answer` returns, or never."""
    from nats.aio.client import Client

    async def respond(message):
        if answer is not None:
            await message.respond(answer())

    stranger, subject = Client(), f"test.{uuid.uuid4().hex}"
    await stranger.connect(f"nats://127.0.0.1:{nats_server[1]}")
    await stranger.subscribe(subject, cb=respond)
    await stranger.flush()
    return stranger, subject


async def test_one_that_listens_and_never_answers_does_not_keep_an_actor_from_its_subject(nats_server, receiver):
    """The server may not have noticed yet that it is gone."""
    stranger, subject = await listening_stranger(nats_server)
    there = NatsTransport(f"nats://127.0.0.1:{nats_server[1]}/{subject}")
    began = asyncio.get_running_loop().time()
    address = await there.start(receiver)
    assert asyncio.get_running_loop().time() - began < 1.9
    await stranger.close()
    assert (await there.send(address, b"x")).answer is Delivery.TAKEN
    await there.close()


async def test_who_listens_and_answers_no_reply_is_unreachable(nats_server, receiver):
    stranger, subject = await listening_stranger(nats_server, lambda: contents.pop(0))
    here = NatsTransport(f"nats://127.0.0.1:{nats_server[1]}/{subject}.here")
    contents = [b"", b"[]", b'[["taken",""],["taken",""]]', b'[["taken",""]]']
    replies = [await here.send(f"nats://127.0.0.1:{nats_server[1]}/{subject}", b"x") for _ in range(4)]
    assert [reply.answer for reply in replies] == [Delivery.UNREACHABLE] * 3 + [Delivery.TAKEN]
    await here.close()
    await stranger.close()


async def test_a_start_that_fails_leaves_no_connection(nats_server, receiver):
    subject = f"test.{uuid.uuid4().hex}"
    there, late = (NatsTransport(f"nats://127.0.0.1:{nats_server[1]}/{subject}") for _ in range(2))
    await there.start(receiver)
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(TransportError, match="in use"):
        await late.start(receiver)
    await asyncio.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) == files
    await there.close()
    assert (await late.send(f"nats://127.0.0.1:{nats_server[1]}/{subject}", b"x")).answer is Delivery.UNREACHABLE
    assert await late.start(receiver), "and it may be tried again"
    await late.close()
    assert len(os.listdir("/proc/self/fd")) < files


async def test_a_start_that_fails_in_any_way_is_an_error_of_the_transport(receiver, monkeypatch):
    """Whoever starts an actor handles TransportError; what the client library raises is told in its words."""
    closed = []

    class Refuses:
        is_connected = True

        async def subscribe(self, subject, cb):
            raise ValueError("not this subject")

        async def close(self):
            closed.append(True)

    async def nothing(self, client):
        pass

    async def connected(self, server):
        self._clients[server] = asyncio.create_task(asyncio.sleep(0, Refuses()))
        return await self._clients[server]

    transport = NatsTransport("nats://127.0.0.1:4222/a.b")
    monkeypatch.setattr(NatsTransport, "_client", connected)
    monkeypatch.setattr(NatsTransport, "_check_free", nothing)
    with pytest.raises(TransportError, match=r"does not let us listen on a.b: ValueError\('not this subject'\)"):
        await transport.start(receiver)
    assert transport._clients == {}
    assert closed == [True]


async def test_each_client_pays_for_its_own_refusals_over_all_its_requests(nats_server, receiver):
    """A request has an inbox of its own, which begins as all of its client do."""
    receiver.answer = Reply(Delivery.REFUSED, "forged")
    place = f"nats://127.0.0.1:{nats_server[1]}/test.{uuid.uuid4().hex}"
    limits = replace(LIMITS, refusals=3, refusals_per_second=0.001)
    there, one, other = (NatsTransport(f"{place}.{n}", limits=limits) for n in range(3))
    address = await there.start(receiver)
    answers = [(await one.send(address, b"x")).answer for _ in range(5)]
    assert answers == [Delivery.REFUSED] * 3 + [Delivery.BUSY] * 2
    assert (await other.send(address, b"x")).answer is Delivery.REFUSED
    for end in (one, other, there):
        await end.close()


async def test_a_server_without_an_answer_is_in_the_log_at_a_bounded_rate(nats_server, caplog):
    stranger, subject = await listening_stranger(nats_server, lambda: b"no reply")
    here, address = NatsTransport("nats://127.0.0.1:1/a"), f"nats://127.0.0.1:{nats_server[1]}/{subject}"
    for _ in range(30):
        reply = await here.send(address, b"x")
        assert reply.reason.startswith(f"no answer from {address}: the answer is none")
    await here.close()
    await stranger.close()
    assert 10 <= sum("no answer from nats://" in record.getMessage() for record in caplog.records) < 30


def test_an_address_with_no_port_or_login_has_the_usual_ones():
    transport = NatsTransport("nats://h/a.b")
    assert (transport._server, transport._subject, transport._login) == ("nats://h:4222", "a.b", {})
    assert (transport._connect_seconds, transport._limits) == (5, LIMITS)
    assert NatsTransport("nats://h:1/a", connect_seconds=2, login={"token": "t"})._login == {"token": "t"}


async def test_a_connection_that_could_not_be_made_is_tried_again_in_its_own_place(monkeypatch):
    """A server that is away counts among the servers, and is asked again by each send."""
    monkeypatch.setattr(nats, "_MOST_SERVERS", 1)
    server = Server()
    place = await server.open()
    await server.close()
    transport = NatsTransport("nats://127.0.0.1:1/a", connect_seconds=0.1, limits=replace(LIMITS, send_seconds=0.3))
    for _ in range(2):
        assert "no NATS server" in (await transport.send(f"{place}/b", b"x")).reason
    assert "makes no more" in (await transport.send("nats://127.0.0.1:2/b", b"x")).reason
    await transport.close()
