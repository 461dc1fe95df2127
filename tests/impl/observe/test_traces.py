"""Traces of real actors: one lease is one trace, across actors and crashes, and no message carries a word of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions, Backoff, RetryPolicy
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.observe.traces import Traces, message_id, trace_id


class Watched:
    """A cluster all of whose actors tell their spans to one place."""

    def __init__(self, watched: Any, **options: Any) -> None:
        self.exporter, self.traces = InMemorySpanExporter(), []
        self.lost: list[Traces] = []  # of those that were cut off before they gave away what they had
        self.cluster: Cluster = watched(lambda actor: self.traces.append(Traces(actor, self.exporter)), **options)

    def spans(self) -> list[ReadableSpan]:
        assert all(traces.flush() for traces in self.traces if traces not in self.lost)
        return list(self.exporter.get_finished_spans())

    def close(self) -> None:
        for traces in self.traces:
            traces.close()


def of(span: ReadableSpan, name: str) -> Any:
    return span.attributes[f"leasehold.{name}"]


def named(spans: list[ReadableSpan], name: str, actor: str = "") -> list[ReadableSpan]:
    return [span for span in spans if span.name == name and (not actor or of(span, "actor") == actor)]


@contextlib.asynccontextmanager
async def recorded(w: Watched) -> AsyncIterator[tuple[Cluster, list[ReadableSpan]]]:
    """The cluster while it runs, and its spans once it has ended."""
    spans: list[ReadableSpan] = []
    async with w.cluster as c:
        yield c, spans
    spans.extend(w.spans())
    w.close()


async def test_one_lease_is_one_trace_over_all_actors(watched: Any) -> None:
    w = Watched(watched)
    async with recorded(w) as (c, spans):
        await c.lease(2, until=12, term=6)
        await c.advance(15)
    digest = sha256(b"lease\0tenant:1").digest()
    assert {span.context.trace_id for span in spans} == {int.from_bytes(digest[:16])}
    assert {of(span, "actor") for span in spans} == {TENANT, BROKER, SITE}
    assert {span.resource.attributes["service.name"] for span in spans} == {TENANT, BROKER, SITE}
    by_id = {span.context.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    (root,) = [span for span in spans if span.parent is None]
    assert root.context.span_id == int.from_bytes(digest[16:24])
    assert of(root, "actor") == TENANT
    assert all(span.parent.span_id in by_id for span in spans if span is not root)
    taken = sum(actor.counts["taken"] for actor in w.cluster.actors.values())
    moves = [span for span in spans if "leasehold.transition" in span.attributes]
    assert len(moves) == taken
    assert all(of(span, "from") and of(span, "to") and span.name == of(span, "transition") for span in moves)
    assert max(of(span, "time_ticks") for span in moves) >= 12


async def test_a_step_hangs_below_its_cause_in_the_turn_or_below_the_root(watched: Any) -> None:
    """A timer, a client or a call that was answered in an earlier turn is no cause: nor is any span of that turn."""
    async with recorded(w := Watched(watched)) as (c, spans):
        await c.lease(2, until=12, term=6)
        for _ in range(15):
            await c.advance(1)
        kept = [(traces._came, traces._led, traces._repeats) for traces in w.traces]
    by_id = {span.context.span_id: span for span in spans}
    inside = [span for span in spans if span.kind is SpanKind.INTERNAL and span.parent is not None]
    below = [(span, by_id[span.parent.span_id]) for span in inside if span.parent is not None]
    assert {parent.name == "lease" for _, parent in below} == {True, False}
    for span, parent in below:
        if parent.name != "lease" and not span.name.startswith(("handler.", "guest.")):
            assert of(span, "actor") == of(parent, "actor")
            assert of(span, "time_ticks") - of(parent, "time_ticks") <= 1 or "handler." in parent.name
    timers = [(span, parent) for span, parent in below if span.name.endswith("#tick")]
    assert timers
    assert all(parent.name == "lease" for _, parent in timers)
    assert all(len(part) <= 8 for parts in kept for part in parts), "of the last turn alone"


async def test_every_message_links_its_sender_and_its_receiver(watched: Any) -> None:
    async with recorded(Watched(watched)) as (c, spans):
        await c.lease(1, until=12, term=6)
        await c.advance(15)
    by_id = {span.context.span_id: span for span in spans}
    received = [span for span in spans if span.kind is SpanKind.CONSUMER]
    assert len(received) > 8
    for span in received:
        sent = by_id[span.parent.span_id]
        assert sent.kind is SpanKind.PRODUCER
        assert sent.name.removeprefix("send ") == span.name.removeprefix("receive ")
        assert of(sent, "actor") != of(span, "actor")
        assert of(sent, "number") == of(span, "number")
        assert (of(sent, "machine"), of(sent, "peer")) == (of(span, "peer"), of(span, "machine"))
        assert sent.start_time <= span.start_time <= span.end_time
    (redeemed,) = named(spans, "authority/nascent#redeem")
    assert by_id[redeemed.parent.span_id].name == "receive redeem"
    (setup,) = named(spans, "handler.setup")
    (up,) = named(spans, "unit/priming#up")
    assert up.parent.span_id == setup.context.span_id
    assert by_id[setup.parent.span_id].name == "unit/idle#setup"
    assert of(setup, "result") == "well"
    assert setup.start_time < setup.end_time


@pytest.mark.parametrize("lost", [False, True], ids=["spans told", "spans lost"])
@pytest.mark.parametrize("name", [TENANT, BROKER, SITE])
async def test_a_crash_breaks_no_link(watched: Any, name: str, lost: bool) -> None:
    """An actor is killed while a message to it, or of it, is under way; the new incarnation knows nothing of spans."""
    options = ActorOptions(seed=0, backoff=Backoff(first=0.001, longest=0.002, ask_again=0.01))
    w = Watched(watched, options=options)
    async with recorded(w) as (c, spans):
        stop = asyncio.Event()
        c.actors[name].notices.subscribe(lambda notice: stop.set() if notice.kind.value == "send" else None)
        await c.tenant.command("service_manager", "demand", "tenant:1", 1, 30, 10)
        async with asyncio.timeout(10):
            await stop.wait()
        await c.kill(name)
        w.lost += [traces for traces in w.traces if traces.actor is c.actors[name] and lost]
        for _ in range(20):
            await asyncio.sleep(0)
        await c.start(name)
        for _ in range(40):
            await c.advance()
            await asyncio.sleep(0.005)
        assert c.state("tenant:1") == ("closed", "closed", "closed")
    assert len(w.traces) == 4
    assert len(w.lost) == lost
    assert {span.context.trace_id for span in spans} == {trace_id("lease", "tenant:1")}
    assert {of(span, "actor") for span in spans} == {TENANT, BROKER, SITE}
    sent = {span.context.span_id: span for span in spans if span.kind is SpanKind.PRODUCER}
    received = [span for span in spans if span.kind is SpanKind.CONSUMER]
    assert all(span.parent.span_id in sent for span in received)
    pairs = {(of(sent[span.parent.span_id], "actor"), of(span, "actor")) for span in received}
    assert pairs >= {(TENANT, BROKER), (BROKER, TENANT), (TENANT, SITE), (SITE, TENANT)}


async def test_a_message_said_again_after_a_crash_is_the_same_span(watched: Any) -> None:
    async with recorded(Watched(watched)) as (c, spans):
        await c.lease(1, until=30)
        await c.kill(SITE)
        await c.start(SITE)
        await c.settle()
    first, again = named(spans, "send update_lease", SITE)
    expected = message_id("lease", "tenant:1", "authority", "service_manager", 1)
    assert first.context.span_id == again.context.span_id == expected
    taken, duplicate = named(spans, "receive update_lease", TENANT)
    assert taken.parent.span_id == duplicate.parent.span_id == expected
    assert (of(taken, "result"), of(duplicate, "result")) == ("taken", "duplicate")


async def test_a_handler_that_fails_is_an_error_and_one_cut_off_is_given_up(watched: Any) -> None:
    class Broken(SimulatedHandler):
        async def act(self, action: Any) -> Any:
            if action.unit == "unit-0":
                raise OSError("no such machine")
            await asyncio.get_running_loop().create_future()

    retry = RetryPolicy(tries=1, pause=0.0, longest=60)
    w = Watched(watched, handler=Broken(SimulatedUnits()), options=ActorOptions(seed=0, reopen_pause=0.01, retry=retry))
    async with recorded(w) as (c, ended):
        await c.tenant.command("service_manager", "demand", "tenant:1", 2, 30, 10)
        async with asyncio.timeout(10):
            while not named(w.spans(), "handler.setup", SITE):
                await asyncio.sleep(0.001)
        await c.time.elapse(40)  # the term ends: what hangs gives way to the teardown
        async with asyncio.timeout(10):
            while len(named(w.spans(), "handler.setup", SITE)) < 2:
                await asyncio.sleep(0.001)
    spans = {of(span, "machine"): span for span in named(ended, "handler.setup")}
    assert of(spans["unit[0]"], "result") == "failed"
    assert spans["unit[0]"].status.status_code is StatusCode.ERROR
    assert of(spans["unit[1]"], "result") == "given_up"


async def test_a_sampler_takes_whole_leases(watched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    async with recorded(Watched(watched)) as (c, spans):
        for _ in range(12):
            await c.lease(1, until=c.time.now + 4, term=4)
            await c.advance(5)
    taken = {of(span, "lease") for span in spans}
    assert taken == {f"tenant:{n}" for n in range(1, 13) if trace_id("lease", f"tenant:{n}") % 2**64 < 2**63}
    for lease in taken:
        assert {of(span, "actor") for span in spans if of(span, "lease") == lease} == {TENANT, BROKER, SITE}
        assert len([span for span in spans if of(span, "lease") == lease and span.parent is None]) == 1


async def test_several_leases_share_nothing(watched: Any) -> None:
    async with recorded(Watched(watched)) as (c, spans):
        for _ in range(3):
            await c.lease(1, until=20, term=6)
        await c.advance(25)
    for n in range(1, 4):
        own = [span for span in spans if span.context.trace_id == trace_id("lease", f"tenant:{n}")]
        assert {of(span, "lease") for span in own} == {f"tenant:{n}"}
        ids = {span.context.span_id for span in own}
        assert all(span.parent is None or span.parent.span_id in ids for span in own)
