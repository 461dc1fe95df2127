"""Everything on an actor in one call, and metrics by HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.observe.watch import Watch, WatchError, watch
from leasehold.impl.transport.transport import Delivery


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.real_time
async def test_metrics_are_served(watched: Any) -> None:
    watches: dict[str, Watch] = {}

    cluster = watched(lambda actor: watches.update({actor.identity.name: watch(actor)}))
    async with cluster as c, aiohttp.ClientSession() as client:
        place = f"127.0.0.1:{free_port()}"
        end = await watches[SITE].serve(place)
        await c.lease(1, until=30)
        async with client.get(f"http://{place}/metrics") as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == watches[SITE].metrics.content_type
            families = {f.name for f in text_string_to_metric_families(await answer.text())}
        assert {"leasehold_transitions", "leasehold_machines", "process_resident_memory_bytes"} <= families
        async with client.get(f"http://{place}/leases") as answer:
            assert answer.status == 404
        with pytest.raises(WatchError, match=rf"metrics: nothing can listen at {place}: .*in use"):
            await watches[SITE].serve(place)
        await end()
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.get(f"http://{place}/metrics")


@pytest.mark.real_time
async def test_what_is_no_place_is_refused(watched: Any) -> None:
    async with watched(lambda actor: None) as c:
        with pytest.raises(WatchError, match=r"is no HOST:PORT; write, say, 127\.0\.0\.1:9472"):
            await watch(c.site).serve("9472")


@pytest.mark.real_time
async def test_after_closing_nobody_listens_any_more(watched: Any) -> None:
    async with watched(lambda actor: None) as c:
        watch(c.site).close()
        assert not c.site.notices.subscribers


@pytest.mark.real_time
async def test_without_opentelemetry_traces_are_refused_and_nothing_is_begun(
    watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "leasehold.impl.observe.traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)

    async with watched(lambda actor: None) as c:
        with pytest.raises(WatchError, match=r"install leasehold\[traces\], or leave `traces` out"):
            watch(c.site, traces=True)
        assert not c.site.notices.subscribers


@pytest.mark.real_time
async def test_traces_go_to_where_the_environment_says(watched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces go by OTLP over HTTP to a collector that takes what a real one takes."""
    names: set[str] = set()

    async def collect(request: web.Request) -> web.Response:
        told = ExportTraceServiceRequest.FromString(await request.read())
        names.update(s.name for r in told.resource_spans for scope in r.scope_spans for s in scope.spans)
        return web.Response()

    app, port = web.Application(), free_port()
    app.add_routes([web.post("/v1/traces", collect)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    watches = []
    async with watched(lambda actor: watches.append(watch(actor, traces=True))) as c:
        await c.lease(1, until=30)
    for found in watches:
        await asyncio.to_thread(found.close)
    await runner.cleanup()
    assert {"lease", "send redeem", "receive redeem", "handler.setup", "authority/nascent#redeem"} <= names


@pytest.mark.real_time
async def test_an_actor_is_said_to_be_ready_exactly_while_it_takes_messages(watched: Any) -> None:
    """Before its start, while it serves, while its store has failed, afterwards, and when it has stopped."""
    watches: dict[str, Watch] = {}

    async def takes(c: Any) -> bool:
        reply = await c.site.receive(b"no frame")
        return bool(reply.answer is not Delivery.UNREACHABLE)

    async def phase(c: Any) -> tuple[bool, bool]:
        return await takes(c), not watches[SITE].readiness

    cluster = watched(
        lambda actor: watches.update({actor.identity.name: watch(actor)}),
        options=ActorOptions(seed=0, reopen_pause=0.2),
    )
    phases = []
    async with cluster as c:
        phases.append(await phase(c))
        await c.site.store.close()
        await c.lease(1, until=30)
        while c.site.running:
            await asyncio.sleep(0.01)
        phases.append(await phase(c))
        while not c.site.running:
            await asyncio.sleep(0.01)
        phases.append(await phase(c))
        await c.site.stop()
        phases.append(await phase(c))
    assert phases == [(True, True), (False, False), (True, True), (False, False)]
