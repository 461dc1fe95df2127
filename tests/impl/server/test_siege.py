"""An actor under siege: too many clients, slow ones, silent ones, and too few descriptors.

Whoever comes is served, or told why not; and what the process lacks for a moment is nobody's failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import socket
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl import descriptors
from leasehold.impl.observe.watch import watch
from leasehold.impl.server.client import Client, ClientError
from leasehold.impl.server.config import Serving
from leasehold.impl.server.control import ControlSocket
from leasehold.impl.server.views import Views
from leasehold.impl.transport.http import HttpTransport
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.transport import Delivery, Reply
from tests.impl.scarce import few_descriptors

USUAL = Serving()
GET = b"GET /healthz HTTP/1.1\r\nHost: site\r\n\r\n"


@contextlib.asynccontextmanager
async def ports(folder: Path, serving: Serving = USUAL) -> Any:
    """The control socket and the metrics' port of a site; and who asks them as a client does."""
    async with Cluster() as c:
        seen = watch(c.site)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        end = await seen.serve(f"127.0.0.1:{port}", serving.metrics_limits)
        views = Views(c.site, c.system, 1.0)
        control = ControlSocket(c.site, views, limits=serving.control_limits)
        await control.start(folder / "a.sock")
        try:
            yield folder / "a.sock", port
        finally:
            await control.close()
            await end()
            seen.close()


async def healthy(port: int) -> bytes:
    """The first line of what the metrics' port answers; nothing where it does not."""
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            found = await reader.readline()
            writer.close()
            return found
    except (OSError, TimeoutError):
        return b""


SWARM = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from leasehold.impl.server.client import Client, ClientError
many = int(sys.argv[2])
barrier = Barrier(many)
def ask(number):
    barrier.wait()
    try:
        return Client(Path(sys.argv[1])).get("about")["name"]
    except ClientError as error:
        return str(error)
with ThreadPoolExecutor(many) as pool:
    print(json.dumps(list(pool.map(ask, range(many)))))
"""


@pytest.mark.parametrize("at_once", [512, 20])
def test_three_hundred_clients_at_once_are_served_or_hear_why_not(tmp_path: Path, at_once: int) -> None:
    async def story() -> list[str]:
        async with ports(tmp_path, Serving(control=at_once)) as (path, _):
            swarm = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SWARM, str(path), "300", stdout=asyncio.subprocess.PIPE
            )
            time.sleep(2)  # the loop does something else, and all of them wait
            out, _ = await swarm.communicate()
            heard: list[str] = json.loads(out)
            return heard

    heard = asyncio.run(story())
    assert len(heard) == 300
    others = {words for words in heard if words != "site"}
    assert all(words.startswith("too much is asked at the moment: ") for words in others), others
    assert heard.count("site") >= min(at_once, 300)


@pytest.mark.parametrize("says", [b"", b"GET /metr", GET + b"GET /hea"], ids=["silent", "slow", "slow_again"])
@pytest.mark.real_time
async def test_slow_requests_at_the_metrics_port_leave_it_to_others(tmp_path: Path, says: bytes) -> None:
    """From one address, from several, and with a first request that was good."""

    few = Serving(metrics=12, metrics_of_address=8, header_seconds=0.3)
    async with ports(tmp_path, few) as (path, port):
        before = len(os.listdir("/proc/self/fd"))
        held = []
        for number in range(40):
            plug = socket.socket()
            plug.bind((f"127.0.0.{1 + number % 5}", 0))
            plug.setblocking(False)
            await asyncio.get_running_loop().sock_connect(plug, ("127.0.0.1", port))
            await asyncio.get_running_loop().sock_sendall(plug, says)
            held.append(plug)
        await asyncio.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) - before <= 40 + 12, "what the site itself has open"
        assert b" 200 " in await healthy(port)
        assert (await asyncio.to_thread(Client(path).get, "about"))["name"] == "site"
        deadline = time.monotonic() + 20
        while len(os.listdir("/proc/self/fd")) - before > 40 and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) - before <= 40, "those that are too slow are gone"
        for plug in held:
            plug.close()


@pytest.mark.real_time
async def test_who_takes_no_answer_is_let_go(tmp_path: Path) -> None:
    """A client that asks and asks, and never reads."""

    limits = replace(LIMITS, taking_seconds=0.2)

    async def receive(frame: bytes) -> Reply:
        return Reply(Delivery.TAKEN)

    from aiohttp import web

    async def much(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * (16 << 20))

    transport = HttpTransport(limits=limits, routes=[web.get("/much", much)])
    address = await transport.start(receive)
    plug = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
    plug.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(plug, b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n")
    assert transport._server is not None
    guards = transport._server.guards
    async with asyncio.timeout(20):
        while not guards.by_transport:
            await asyncio.sleep(0.01)
        while guards.by_transport:
            await asyncio.sleep(0.01)
    plug.close()
    await transport.close()


@pytest.mark.real_time
async def test_connections_leave_the_reserve_alone_and_control_has_its_own(tmp_path: Path) -> None:
    async with ports(tmp_path, Serving(metrics=500, metrics_of_address=500, reserve=60)) as (path, port):
        held = [socket.socket() for _ in range(90)]
        with few_descriptors(100):
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            for plug in held:
                plug.connect(("127.0.0.1", port))
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
            used = len(os.listdir("/proc/self/fd"))
            assert limit - 100 + 30 <= used <= limit - 60 + 2, "the rest is for handlers and control"
            assert (await asyncio.to_thread(Client(path).get, "about"))["name"] == "site"
            for plug in held:
                plug.close()


@pytest.mark.real_time
async def test_what_cannot_be_accepted_is_logged_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    descriptors.hear_of_lack(asyncio.get_running_loop())
    async with ports(tmp_path) as (_, port):
        plugs = [socket.socket() for _ in range(5)]
        with few_descriptors(0):
            for plug in plugs:
                plug.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    plug.connect(("127.0.0.1", port))
                await asyncio.sleep(0.3)
            await asyncio.sleep(1.5)  # it tries again every second
        for plug in plugs:
            plug.close()
        async with asyncio.timeout(10):
            while b" 200 " not in await healthy(port):
                await asyncio.sleep(0.1)
    (said,) = [record for record in caplog.records if "accept" in record.getMessage()]
    assert "connections cannot be accepted at the moment, and wait: Too many open files" in said.getMessage()
    assert said.exc_info is None


def test_the_limit_of_descriptors_is_raised_for_the_actor_and_not_for_its_children() -> None:
    script = """
        import asyncio, os, resource, subprocess, sys
        from concurrent.futures import ThreadPoolExecutor
        from leasehold.impl import descriptors
        from leasehold.impl.handlers.child import run_program
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        raised = descriptors.raise_limit()
        print(raised == min(hard, descriptors.MOST), resource.getrlimit(resource.RLIMIT_NOFILE)[0] == raised)
        run = run_program(["sh", "-c", "sleep 0.3; ulimit -Sn"], b"", dict(os.environ), (), ThreadPoolExecutor(1))
        print(asyncio.run(run)[1].decode().strip())
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "True", "200"]


@pytest.mark.real_time
async def test_a_client_that_lacks_descriptors_does_not_blame_the_actor(tmp_path: Path) -> None:
    async with ports(tmp_path) as (path, _):

        def ask() -> str:
            with few_descriptors(0), pytest.raises(ClientError) as found:
                Client(path).get("about")
            return str(found.value)

        assert "is it running?" not in await asyncio.to_thread(ask)


@pytest.mark.real_time
async def test_a_body_that_does_not_come_keeps_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.impl.server.control.LIMITS", replace(LIMITS, body_seconds=0.2))
    async with ports(tmp_path) as (path, _):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"POST /demand HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        async with asyncio.timeout(10):
            found = await reader.readline()
        writer.close()
    assert b" 408 " in found
