"""Traces of actors that are processes of their own, as an OpenTelemetry collector gets them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT, Fleet

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="leasehold[traces] is not installed")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from leasehold.impl.observe.traces import root_id, trace_id
from tests.waiting import wait_until


class Collector:
    """Takes spans by OTLP over HTTP.

    Attributes:
        spans: what came, with the name of the service that told it.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        for told in ExportTraceServiceRequest.FromString(body).resource_spans:
            (service,) = [a.value.string_value for a in told.resource.attributes if a.key == "service.name"]
            self.spans += [(service, span) for scope in told.scope_spans for span in scope.spans]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        collector.server.server_close()
        thread.join()


@pytest.mark.long
def test_one_lease_is_one_trace_of_three_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is killed on the way; none is told of the trace by another."""
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        fleet = Fleet(tmp_path, units=2, tick_seconds=0.25, handler="simulated", more={"traces": True})
        with fleet:
            now = fleet.about(TENANT)["now"]  # type: ignore[index]
            fleet.client(TENANT).post("demand", units=2, until=now + 4000, term=2000, lease="tenant:1")
            wait_for_state(fleet, "active")
            wait_until(lambda: (SITE, "send update_lease") in [(of, span.name) for of, span in collector.spans])
            fleet.kill(SITE)
            fleet.start(SITE)
            fleet.await_ready(SITE)
            fleet.client(TENANT).post("leases", "tenant:1", "tell", event="close")
            wait_for_state(fleet, "closed")
    spans = collector.spans
    assert {service for service, _ in spans} == set(ROLES)
    assert {int.from_bytes(span.trace_id) for _, span in spans} == {trace_id("lease", "tenant:1")}
    by_id = {int.from_bytes(span.span_id): (service, span) for service, span in spans}
    (root,) = [(service, span) for service, span in spans if not span.parent_span_id]
    assert (root[0], int.from_bytes(root[1].span_id)) == (TENANT, root_id("lease", "tenant:1"))
    links = set()
    for service, span in spans:
        if span.name.startswith("receive "):
            sender, sent = by_id[int.from_bytes(span.parent_span_id)]
            assert sent.name == span.name.replace("receive", "send")
            links.add((sender, service))
    assert links == {(TENANT, BROKER), (BROKER, TENANT), (TENANT, SITE), (SITE, TENANT)}


def wait_for_state(fleet: Fleet, state: str) -> None:
    """Waits until the lease is in a state at the tenant and at the site."""
    names = (TENANT, SITE)
    wait_until(lambda: all([row["state"] for row in fleet.client(name).get("leases")] == [state] for name in names))
