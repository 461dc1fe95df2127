"""HTTP: what strangers may try, requests shared by frames, and the rest of the port."""

import asyncio
import datetime
import gzip
import ipaddress
import json
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.impl.processes.fleet import free_ports
from leasehold.impl.transport import framing, http
from leasehold.impl.transport.http import HttpTransport
from leasehold.impl.transport.lanes import SendQueue
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.open import open_transport
from leasehold.impl.transport.transport import Delivery, Reply, TransportError
from tests.impl.transport.conftest import GatedReceiver

pytestmark = pytest.mark.real_time

QUICK = replace(LIMITS, header_seconds=0.2, body_seconds=0.2, close_seconds=0.5, parcel=1000, body=4000)


async def say(address, content, end=False):
    """What the server answers to raw bytes, until it closes the connection."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(content)
        if end:
            writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def post(body, length=None, extra=b"", method=b"POST", path=b"/parcels"):
    size = str(len(body) if length is None else length).encode()
    return method + b" " + path + b" HTTP/1.1\r\nHost: h\r\nContent-Length: " + size + b"\r\n" + extra + b"\r\n" + body


GOOD = framing.pack([b"good"])
CLOSE = b"Connection: close\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(post(b"", extra=CLOSE), 400, id="empty"),
        pytest.param(post(b"abc", extra=CLOSE), 400, id="cut off in a length"),
        pytest.param(post(GOOD[:-1], extra=CLOSE), 400, id="cut off in a frame"),
        pytest.param(post(GOOD + b"\xff\xff\xff\xff", extra=CLOSE), 400, id="a frame longer than memory"),
        pytest.param(post(framing.pack([b""] * 300), extra=CLOSE), 400, id="too many frames"),
        pytest.param(post(b"x" * 5000, extra=CLOSE), 413, id="too large"),
        pytest.param(post(b"", length=10**15, extra=CLOSE), 413, id="said to be too large"),
        pytest.param(
            b"POST /parcels HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1400\r\n"
            + b"x" * 5120
            + b"\r\n0\r\n\r\n",
            413,
            id="too large in chunks",
        ),
        pytest.param(post(GOOD, method=b"GET", extra=CLOSE), 405, id="another method"),
        pytest.param(post(GOOD, method=b"DELETE", extra=CLOSE), 405, id="yet another method"),
        pytest.param(post(GOOD, path=b"/other", extra=CLOSE), 404, id="another path"),
        pytest.param(post(GOOD, path=b"/parcels/../etc", extra=CLOSE), 404, id="a path upwards"),
        pytest.param(post(b"", path=b"/health", extra=CLOSE), 405, id="posted to health"),
        pytest.param(post(GOOD, length="-1"), 400, id="a length below nothing"),
        pytest.param(post(GOOD, extra=b"Transfer-Encoding: chunked\r\n"), 400, id="two lengths"),
        pytest.param(b"\x00\x01\x02\r\n\r\n", 400, id="no HTTP"),
        pytest.param(b"POST /parcels HTTP/1.1\r\n" + b"A: " + b"x" * 20_000 + b"\r\n\r\n", 400, id="a long header"),
        pytest.param(post(GOOD[:-2], length=len(GOOD)), 408, id="a body that never ends"),
        pytest.param(post(gzip.compress(GOOD), extra=CLOSE + b"Content-Encoding: gzip\r\n"), 400, id="compressed"),
    ],
)
async def test_a_bad_request_has_a_clean_answer_and_changes_nothing(http_world, receiver, request_bytes, status):
    async with http_world.closing():
        _, address = await http_world.start("there", receiver, replace(QUICK, body_seconds=0.5))
        answer = await say(address, request_bytes)
        assert answer.split(b" ")[1:2] == [str(status).encode()], answer[:200]
        assert b"Traceback" not in answer
        assert receiver.got == []
        here, _ = await http_world.start("here", receiver)
        assert (await here.send(address, b"x")).answer is Delivery.TAKEN, "and the server goes on"


@pytest.mark.parametrize(
    "content", [b"", b"P", b"POST /parcels HTTP/1.1\r\nHost: h\r\nA"], ids=["nothing", "a letter", "half"]
)
async def test_a_connection_that_asks_nothing_is_closed(http_world, receiver, content):
    async with http_world.closing():
        _, address = await http_world.start("there", receiver, QUICK)
        assert await say(address, content) == b""
        assert receiver.got == []


async def test_a_request_in_drops_is_closed_however_steadily_they_come(http_world, receiver):
    """Slow loris: each drop comes in time, the whole never does."""
    async with http_world.closing():
        _, address = await http_world.start("there", receiver, QUICK)
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        answer = asyncio.create_task(reader.read())
        for byte in post(GOOD):
            writer.write(bytes([byte]))
            done, _ = await asyncio.wait([answer], timeout=0.02)
            if done:
                break
        else:
            raise AssertionError("the server took every drop")
        assert answer.exception() is not None or answer.result() == b""
        assert receiver.got == []
        writer.close()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=80) | st.just(post(GOOD[:5])), min_size=1, max_size=10))
def test_no_bytes_stop_the_server(http_world, contents):
    got = []

    async def receive(frame):
        got.append(frame)
        return Reply(Delivery.TAKEN)

    async def talk():
        transport = HttpTransport(limits=replace(QUICK, refusals=1000))
        address = await transport.start(receive)
        for content in contents:
            await say(address, content, end=True)
        assert got == []
        assert (await transport.send(address, b"x")).answer is Delivery.TAKEN
        await transport.close()

    asyncio.run(talk())


class Held:
    """A connection that stays open, and what is answered on it."""

    @classmethod
    async def to(cls, address):
        host, port = address.removeprefix("http://").split(":")
        held = cls()
        held.reader, held.writer = await asyncio.open_connection(host, int(port))
        return held

    async def ask(self, content):
        self.writer.write(content)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        return head + await self.reader.readexactly(length)

    @staticmethod
    async def close_all(connections):
        for held in connections:
            held.writer.close()
        await asyncio.gather(*(held.writer.wait_closed() for held in connections), return_exceptions=True)


HEALTH = post(b"", method=b"GET", path=b"/health")


def signed(frame):
    """A receiver that takes what a tenant has signed, and refuses all else."""
    proven = "tenant" if frame.startswith(b"good") else ""
    return Reply(Delivery.TAKEN if frame == b"good" else Delivery.REFUSED, "forged", proven)


async def test_with_more_connections_than_one_address_may_have_the_oldest_stranger_goes(http_world, receiver, caplog):
    receiver.answer = signed
    async with http_world.closing():
        _, address = await http_world.start("there", receiver, replace(LIMITS, connections=3))
        tenants, strangers = [await Held.to(address)], []
        assert b" 200 " in await tenants[0].ask(post(GOOD))
        for _ in range(4):
            strangers.append(await Held.to(address))
            assert b" 200 " in await strangers[-1].ask(HEALTH)
        assert await strangers[0].reader.read() == b"", "closed at once, not after the time for headers"
        assert await strangers[1].reader.read() == b""
        for _ in range(2):
            tenants.append(await Held.to(address))
            assert b" 200 " in await tenants[-1].ask(post(GOOD))
        assert b" 503 " in await say(address, HEALTH), "where all have proven something, the new one goes"
        for tenant in tenants:
            assert b" 200 " in await tenant.ask(post(GOOD)), "and those before it go on"
        await Held.close_all(tenants + strangers)
    assert "closed a connection" in caplog.text


async def test_an_address_that_is_refused_too_often_waits_and_keeps_nobody_away_who_proves_something(
    http_world, receiver
):
    receiver.answer = signed
    async with http_world.closing():
        limits = replace(QUICK, refusals=3, refusals_per_second=0.001)
        _, address = await http_world.start("there", receiver, limits)
        before = await Held.to(address)
        assert b"taken" in await before.ask(post(GOOD))
        assert b" 400 " in await say(address, post(b"abc", extra=CLOSE))
        assert b" 404 " in await say(address, post(b"", path=b"/admin", extra=CLOSE))
        assert b" 400 " in await say(address, b"\x00\r\n\r\n")
        stranger = await Held.to(address)
        answer = await stranger.ask(post(framing.pack([b"x"] * 200)))
        assert (answer.count(b"forged"), answer.count(b"busy")) == (1, 199), "one frame may be tried"
        answer = await stranger.ask(post(GOOD))
        assert b" 429 " in answer
        assert b"Retry-After: 1000" in answer
        for _ in range(20):
            assert b"taken" in await before.ask(post(GOOD))
        after = await Held.to(address)
        for _ in range(20):
            assert b"taken" in await after.ask(post(GOOD))
        for _ in range(3):
            assert b"forged" in await after.ask(post(framing.pack([b"good, but refused"])))
        for held in (before, after, again := await Held.to(address)):
            await held.ask(post(GOOD))
            assert b" 429 " in await held.ask(post(GOOD)), "its own refusals are its own, over all its connections"
        await Held.close_all([before, after, again, stranger])


async def test_health_and_the_actors_own_routes_share_the_port(receiver):
    async def hello(request):
        return web.json_response({"hello": request.match_info["name"]})

    transport = HttpTransport(routes=[web.get("/hello/{name}", hello)])
    address = await transport.start(receiver)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{address}/health") as response:
            assert (response.status, await response.json()) == (200, {"status": "ok"})
        async with session.get(f"{address}/hello/you") as response:
            assert await response.json() == {"hello": "you"}
    await transport.close()


async def test_frames_that_wait_share_requests():
    batches = []
    gate = asyncio.Event()

    async def post_them(frames):
        batches.append(len(frames))
        await gate.wait()
        return [Reply(Delivery.TAKEN)] * len(frames)

    lane = SendQueue(post_them, replace(LIMITS, in_flight=2, batch=100))
    sends = [asyncio.create_task(lane.send(b"x"))]
    while not batches:
        await asyncio.sleep(0)
    sends += [asyncio.create_task(lane.send(b"x")) for _ in range(350)]
    while len(batches) < 2:
        await asyncio.sleep(0)
    assert batches == [1, 100], "a lone frame does not wait; no more than two requests are under way"
    gate.set()
    await asyncio.gather(*sends)
    assert lane.idle
    assert batches == [1, 100, 100, 100, 50]


async def test_a_request_carries_no_more_bytes_than_its_limit():
    sizes = []

    async def post_them(frames):
        sizes.append(len(framing.pack(frames)))
        return [Reply(Delivery.TAKEN)] * len(frames)

    lane = SendQueue(post_them, replace(LIMITS, parcel=1000, body=2500, in_flight=1))
    await asyncio.gather(*(lane.send(b"x" * 1000) for _ in range(7)))
    assert sizes == [2008, 2008, 2008, 1004]


async def test_more_than_may_wait_is_busy_here():
    gate = asyncio.Event()

    async def post_them(frames):
        await gate.wait()
        return [Reply(Delivery.TAKEN)] * len(frames)

    lane = SendQueue(post_them, replace(LIMITS, waiting=5, batch=1, in_flight=1))
    sends = [asyncio.create_task(lane.send(b"x")) for _ in range(8)]
    done, _ = await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
    assert [t.result().answer for t in done] == [Delivery.BUSY] * 3
    gate.set()
    assert [(await t).answer for t in sends].count(Delivery.TAKEN) == 5


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (200, b"", Delivery.UNREACHABLE),
        (200, b"[]", Delivery.UNREACHABLE),
        (200, b'[["taken",""],["taken",""]]', Delivery.UNREACHABLE),
        (200, b'[["taken",""]]' + b" " * 100_000, Delivery.UNREACHABLE),
        (200, b'[["refused","no"]]', Delivery.REFUSED),
        (301, b"", Delivery.UNREACHABLE),
        (307, b"", Delivery.UNREACHABLE),
        (413, b"", Delivery.REFUSED),
        (429, b"", Delivery.BUSY),
        (500, b"", Delivery.UNREACHABLE),
        (503, b"", Delivery.BUSY),
    ],
)
async def test_whatever_a_server_answers_is_a_reply(receiver, status, body, answer):
    """The other end may be anything: here a server that says what it is told to."""

    async def parrot(request):
        return web.Response(status=status, body=body, headers={"Location": "/elsewhere"} if status < 400 else None)

    async def elsewhere(request):
        return web.Response(body=b'[["taken",""]]')

    app = web.Application()
    app.router.add_post("/parcels", parrot)
    app.router.add_route("*", "/elsewhere", elsewhere)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    here = HttpTransport()
    reply = await here.send(f"http://127.0.0.1:{runner.addresses[0][1]}", b"x")
    assert reply.answer is answer
    await here.close()
    await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "body", "headers", "answer"),
    [
        (200, b'[["taken",""]]'.ljust(4096), {}, Delivery.TAKEN),
        (200, b'[["taken",""]]'.ljust(4097), {}, Delivery.UNREACHABLE),
        (201, b'[["taken",""]]', {}, Delivery.UNREACHABLE),
        (200, gzip.compress(b'[["taken",""]]'), {"Content-Encoding": "gzip"}, Delivery.UNREACHABLE),
        (200, b'[["taken","\xff"]]', {}, Delivery.UNREACHABLE),
        (404, b'[["taken",""]]', {}, Delivery.UNREACHABLE),
    ],
    ids=["as large as one may be", "larger", "another status", "compressed", "no text", "another place"],
)
async def test_an_answer_is_believed_only_if_it_has_the_right_form(status, body, headers, answer):
    """What is small must not become large here, either."""

    async def parrot(request):
        return web.Response(status=status, body=body, headers=headers)

    app = web.Application()
    app.router.add_post("/parcels", parrot)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    here = HttpTransport()
    assert (await here.send(f"http://127.0.0.1:{runner.addresses[0][1]}", b"x")).answer is answer
    await here.close()
    await runner.cleanup()


async def test_frames_that_are_too_many_for_the_other_side_are_said_one_by_one(http_world):
    """Each has its own answer, in the order of the frames."""
    async with http_world.closing():

        async def receive(frame):
            return Reply(Delivery.REFUSED, frame.decode())

        _, address = await http_world.start("there", receive, replace(LIMITS, parcel=1000, body=1500))
        here, _ = await http_world.start("here", receive)
        frames = [str(n) * 900 for n in range(1, 6)]
        replies = await asyncio.gather(*(here.send(address, frame.encode()) for frame in frames))
        assert [reply.reason for reply in replies] == [frame[:500] for frame in frames]


async def test_a_server_that_never_answers_is_unreachable_in_time():
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    here = HttpTransport(limits=replace(LIMITS, send_seconds=0.2))
    port = server.sockets[0].getsockname()[1]
    assert (await here.send(f"http://127.0.0.1:{port}", b"x")).answer is Delivery.UNREACHABLE
    await here.close()
    server.close()


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"host": "0.0.0.0"}, "needs `advertise`"),
        ({"host": "192.0.2.1"}, "no address of this machine"),
        ({"host": "no.such.host.invalid"}, "nothing can listen on"),
        ({"port": 70_000}, "nothing can listen on"),
        ({"host": ""}, "needs `advertise`"),
        ({"host": "::"}, "needs `advertise`"),
    ],
)
async def test_where_nothing_can_listen_the_start_says_why(receiver, settings_, words):
    with pytest.raises(TransportError, match=words):
        await HttpTransport(**settings_).start(receiver)


async def test_what_is_advertised_is_the_address(receiver):
    transport = HttpTransport("0.0.0.0", advertise="http://site.example:8470/")
    assert await transport.start(receiver) == "http://site.example:8470"
    await transport.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", ""])
async def test_it_listens_at_its_own_address_and_at_no_other(receiver, host):
    """What is bound to the address of this machine alone must not be reached from others; an empty one is all."""
    (port,) = free_ports(1)
    transport = HttpTransport(host, port, advertise="" if host else "http://any")
    address = await transport.start(receiver)
    here = f"http://[::1]:{port}" if host == "::1" else f"http://127.0.0.1:{port}"
    assert address == (here if host else "http://any")
    assert (await transport.send(here, b"x")).answer is Delivery.TAKEN
    other = await transport.send(f"http://127.0.0.2:{port}", b"y")
    assert other.answer is (Delivery.UNREACHABLE if host else Delivery.TAKEN)
    await transport.close()


async def test_a_start_that_failed_may_be_tried_again(http_world, receiver):
    async with http_world.closing():
        first, address = await http_world.start("there", receiver)
        second = http_world.make("there")
        with pytest.raises(TransportError, match=r"is in use; .* choose another port"):
            await second.start(receiver)
        await second.close()
        await first.close()
        assert await second.start(receiver) == address
        assert (await second.send(address, b"x")).answer is Delivery.TAKEN


async def test_an_address_that_never_answers_holds_up_no_other(http_world, receiver):
    async with http_world.closing():
        held = []

        async def silent(reader, writer):
            held.append(writer)

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        here, address = await http_world.start("here", receiver, replace(LIMITS, in_flight=2, batch=1))
        stuck = [asyncio.create_task(here.send(f"http://127.0.0.1:{port}", b"x")) for _ in range(4)]
        while len(held) < 2:
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            replies = await asyncio.gather(*(here.send(address, b"y") for _ in range(9)))
        assert {reply.answer for reply in replies} == {Delivery.TAKEN}
        assert len(held) == 2, "no more than so many requests to one address are under way"
        await here.close()
        assert {reply.answer for reply in await asyncio.gather(*stuck)} == {Delivery.UNREACHABLE}
        server.close()
        for writer in held:
            writer.close()


async def test_addresses_that_once_were_are_forgotten_and_those_in_use_are_not(http_world, receiver, monkeypatch):
    assert http._MOST_LANES == 1000
    monkeypatch.setattr(http, "_MOST_LANES", 3)
    async with http_world.closing():
        receive = GatedReceiver(receiver)
        _, address = await http_world.start("there", receive)
        here, _ = await http_world.start("here", receive)
        waiting = asyncio.create_task(here.send(address, b"x"))
        await receive.come.wait()
        for n in range(20):
            await here.send(f"http://127.0.0.1:1/{n}", b"x")
            assert len(here._lanes) <= 3
            assert address in here._lanes
        receive.gate.set()
        assert (await waiting).answer is Delivery.TAKEN


async def test_a_handshake_that_never_ends_is_given_up_in_time(tmp_path, receiver):
    certificate, key = certify(tmp_path)
    limits = {"header_seconds": 0.2, "close_seconds": 0.5}
    there = open_transport(
        {"listen": "https://127.0.0.1:0", "limits": limits, "tls": {"certificate": certificate, "key": key}}
    )
    address = await there.start(receiver)
    host, port = address.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(5):
        assert await reader.read() == b""
    writer.close()
    await there.close()


async def test_a_body_as_large_as_the_limit_is_taken_and_one_byte_more_refused(http_world, receiver):
    """Also where its length is not said before."""
    async with http_world.closing():
        _, address = await http_world.start("there", receiver, QUICK)
        for size, status in ((996, 200), (997, 413)):
            body = framing.pack([b"x" * 996] * 3 + [b"x" * size])
            assert len(body) == 4000 + (size - 996)
            chunks = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
            chunked = b"POST /parcels HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"\r\n" + chunks
            for request in (post(body, extra=CLOSE), chunked):
                assert (await say(address, request)).split(b" ")[1] == str(status).encode()
        assert len(receiver.got) == 8


async def test_a_wait_of_less_than_a_second_is_a_wait(http_world, receiver):
    receiver.answer = Reply(Delivery.REFUSED, "forged")
    async with http_world.closing():
        there, address = await http_world.start("there", receiver, replace(QUICK, refusals=1, refusals_per_second=2))
        there._reception._clock = lambda: 0.0  # which stands still
        held = await Held.to(address)
        assert b"forged" in await held.ask(post(GOOD))
        assert b"busy" in (await held.ask(post(GOOD))) or len(receiver.got) == 1
        answer = await held.ask(post(GOOD))
        assert b" 429 " in answer
        assert b"Retry-After: 1\r\n" in answer
        assert len(receiver.got) == 1
        await Held.close_all([held])


async def test_a_request_of_a_connection_that_has_just_been_given_up_is_answered(http_world, receiver):
    """Its refusals are still its address's."""
    async with http_world.closing():
        there, address = await http_world.start(
            "there", receiver, replace(QUICK, refusals=1, refusals_per_second=0.001)
        )
        there._server.guards.by_transport.clear()
        held = await Held.to(address)
        assert b" 200 " in await held.ask(HEALTH)
        there._server.guards.by_transport.clear()
        assert b"taken" in await held.ask(post(GOOD))
        assert b" 400 " in await held.ask(post(b"abc"))
        assert there._reception._refusals.wait("127.0.0.1", 0) > 0
        await Held.close_all([held])


async def test_what_the_framework_says_of_spoilt_requests_does_not_fill_the_log(http_world, receiver, caplog):
    async with http_world.closing():
        _, address = await http_world.start("there", receiver, replace(QUICK, refusals=1000))
        for _ in range(60):
            await say(address, b"\x00\x01\r\n\r\n")
    said = [record for record in caplog.records if record.name.startswith("leasehold.impl.transport.http")]
    assert len(said) < 40


async def test_https_carries_frames_and_a_stranger_to_the_authority_is_not_believed(tmp_path, receiver):
    certificate, key = certify(tmp_path)
    tls = {"certificate": certificate, "key": key, "authority": certificate}
    there = open_transport({"listen": "https://127.0.0.1:0", "tls": tls})
    address = await there.start(receiver)
    assert address.startswith("https://")
    assert (await there.send(address, b"x")).answer is Delivery.TAKEN
    stranger = HttpTransport()  # judges as the system does, which does not know this authority
    assert (await stranger.send(address, b"y")).answer is Delivery.UNREACHABLE
    assert (await stranger.send(address.replace("https", "http"), b"z")).answer is Delivery.UNREACHABLE
    await stranger.close()
    await there.close()
    assert receiver.got == [b"x"]


def certify(folder):
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(1)
        )
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "c.pem").write_bytes(certificate.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "k.pem").write_bytes(private)
    return str(folder / "c.pem"), str(folder / "k.pem")


async def test_a_reply_is_json(http_world, receiver):
    async with http_world.closing():
        _, address = await http_world.start("there", receiver)
        answer = await say(address, post(framing.pack([b"a", b"b"]), extra=CLOSE))
        assert json.loads(answer.partition(b"\r\n\r\n")[2]) == [["taken", ""], ["taken", ""]]
        assert receiver.got == [b"a", b"b"]


async def test_a_request_that_is_refused_ends_its_connection(http_world, receiver):
    """Nothing that a stranger sends after it is read as a request; a health check and frames leave it open."""
    async with http_world.closing():
        _, address = await http_world.start("there", receiver)
        held = await Held.to(address)
        assert b" 200 " in await held.ask(HEALTH)
        assert b" 200 " in await held.ask(post(GOOD))
        answer = await held.ask(post(b"abc"))
        assert answer.split(b" ")[1] == b"400"
        assert b"connection: close" in answer.lower()
        async with asyncio.timeout(5):
            assert await held.reader.read() == b""
        await Held.close_all([held])
        assert receiver.got == [b"good"]


async def test_a_close_ends_connections_and_takes_no_new_ones_meanwhile(http_world, receiver):
    async with http_world.closing():
        receive = GatedReceiver(receiver)
        there, address = await http_world.start("there", receive)
        idle = await Held.to(address)
        assert b" 200 " in await idle.ask(HEALTH)
        here, _ = await http_world.start("here", receiver)
        send = asyncio.create_task(here.send(address, b"x"))
        await receive.come.wait()
        guards = there._server.guards
        closing = asyncio.create_task(there.close())
        await asyncio.sleep(0.02)
        with pytest.raises(ConnectionRefusedError):
            await Held.to(address)
        assert not closing.done()
        receive.gate.set()
        assert (await send).answer is Delivery.TAKEN
        await closing
        async with asyncio.timeout(5):
            assert await idle.reader.read() == b""
        assert (guards.by_transport, dict(guards.count)) == ({}, {})
        assert (there._server, there._session, there._reception, there._lanes) == (None, None, None, {})
        await Held.close_all([idle])


async def test_a_sender_keeps_one_connection_and_no_cookie_and_names_its_content(receiver):
    """One connection serves requests to one address that follow each other; what the other end sets is not kept."""
    seen, sessions = [], set()

    async def parrot(request):
        seen.append((request.path, request.content_type, request.headers.get("Cookie"), id(request.transport)))
        response = web.Response(body=b'[["taken",""]]')
        response.set_cookie("who", "you")
        return response

    app = web.Application()
    app.router.add_post("/deep/parcels", parrot)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    here = HttpTransport()
    for _ in range(3):
        assert await here.send(f"http://127.0.0.1:{runner.addresses[0][1]}/deep/", b"x") == Reply(Delivery.TAKEN)
        sessions.add(here._session)
    assert here._session.connector.limit == 0
    assert here._session.connector.limit_per_host == LIMITS.in_flight
    assert here._session.timeout.total == LIMITS.send_seconds
    await here.close()
    await runner.cleanup()
    assert {one[:3] for one in seen} == {("/deep/parcels", "application/octet-stream", None)}
    assert (len(seen), len({one[3] for one in seen}), len(sessions)) == (3, 1, 1)


async def test_addresses_are_remembered_below_the_limit(http_world, monkeypatch):
    """One that is idle is dropped only to make room for another."""
    monkeypatch.setattr(http, "_MOST_LANES", 3)
    async with http_world.closing():
        here = http_world.make("here")
        for n in range(3):
            await here.send(f"http://127.0.0.1:1/{n}", b"x")
            assert list(here._lanes) == [f"http://127.0.0.1:1/{k}" for k in range(n + 1)]
        await here.send("http://127.0.0.1:1/2", b"x")
        assert len(here._lanes) == 3
        await here.send("no address", b"x")
        assert len(here._lanes) == 3
        await asyncio.sleep(0.01)  # until the last one is idle as well
        await here.send("http://127.0.0.1:1/3", b"x")
        assert list(here._lanes) == ["http://127.0.0.1:1/3"]
