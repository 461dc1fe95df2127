"""Traces of leases in OpenTelemetry: one trace per lease, over all actors, without trace context in messages.

Theory of operation. The id of a trace is a hash of the system's and the lease's names, so every actor computes it. The
id of a message's span is a hash of the lease, both machines and the message's number, so the receiver can name it as
the parent of its own span. Both hold after a crash as well: a message that is sent again after recovery is the same
message, and its span has the same id, as nobody knows whether it was exported before. All other spans have random ids,
also that of a message that is sent again on request.

Notices come in turns of the actor: received messages; the commit; transitions and ignored events; sent messages and
calls. A span's parent is its cause in the same turn: for a transition the message, the handler call or the transition
before; for a message or a call the transition. Without a cause (the clock, a policy, recovery) the parent is the root,
which the actor that began the lease has exported. Messages of a turn whose commit fails have no spans.

A span that a crash cuts off is lost. Nothing here is durable, and nothing waits for a backend.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from hashlib import sha256

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_NAMESPACE, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from leasehold import __version__
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.observe.calls import CallInProgress, CallTracker, Result, lease_of
from leasehold.impl.words import over

_ORDER = {  # of the notices of one turn
    Kind.RECEIVE: 0,
    Kind.COMMIT: 1,
    Kind.COMMITTED: 2,
    Kind.TRANSITION: 3,
    Kind.IGNORED: 3,
    Kind.ANSWERED: 3,
    Kind.SEND: 4,
    Kind.CALL: 4,
}


def trace_id(system: str, lease: str) -> int:
    """The trace of a lease."""
    return int.from_bytes(sha256(f"{system}\0{lease}".encode()).digest()[:16]) or 1


def root_id(system: str, lease: str) -> int:
    """The first span of a lease's trace."""
    return int.from_bytes(sha256(f"{system}\0{lease}".encode()).digest()[16:24]) or 1


def message_id(system: str, lease: str, sender: str, receiver: str, number: int) -> int:
    """The span of a message, of its sending and its receiving machine, with the channel that has numbers of its own."""
    text = "\0".join((system, lease, sender, receiver, str(number)))
    return int.from_bytes(sha256(text.encode()).digest()[:8]) or 1


class Traces:
    """Exports the steps of an actor as spans, from now until it is closed.

    Args:
        actor: whose steps.
        exporter: of the spans; left out: OTLP over HTTP, to the endpoint that the environment names
            (OTEL_EXPORTER_OTLP_ENDPOINT). OTEL_TRACES_SAMPLER and the other variables of the SDK hold too.
    """

    def __init__(self, actor: Actor, exporter: SpanExporter | None = None) -> None:
        self.actor, self._system = actor, actor.program.system
        self._ids = _Ids()
        self._provider = TracerProvider(id_generator=self._ids, resource=_resource(actor))
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("leasehold", __version__)
        self._calls = CallTracker(actor, self._ended, self._started)
        self._spans: dict[CallInProgress, Span] = {}  # of the calls under way
        self._at = 0  # in the order of a turn's notices
        self._came: dict[tuple[str, str], deque[tuple[Notice, int]]] = {}  # by machine, and when
        self._led: dict[tuple[str, str], SpanContext] = {}  # by machine, and "" for any of the lease: the newest span
        self._repeats: set[tuple[str, str]] = set()  # machines that were asked again
        self._heard: dict[Kind, Callable[[Notice, str], None]] = {
            Kind.RECEIVE: self._receives,
            Kind.TRANSITION: self._moved,
            Kind.IGNORED: self._stayed,
            Kind.SEND: self._sends,
            Kind.CALL: self._called,
            Kind.ANSWERED: self._answered,
        }
        self._unsubscribe = actor.notices.subscribe(self)

    def __call__(self, notice: Notice) -> None:
        """Hears a notice."""
        if notice.kind is Kind.STOPPED:
            self._calls.end()
        elif notice.kind is Kind.FORGET:
            self._calls.forget(notice)
        at = _ORDER.get(notice.kind)
        if at is None:
            return
        if at < self._at:  # another turn
            self._came.clear()
            self._led.clear()
            self._repeats.clear()
        self._at = at
        heard = self._heard.get(notice.kind)
        if heard is not None and (lease := lease_of(self.actor, notice)):
            heard(notice, lease)

    def flush(self, seconds: float = 5.0) -> bool:
        """Waits until all spans are exported; returns False where they are not in time."""
        return self._provider.force_flush(int(seconds * 1000))

    def close(self) -> None:
        """Stops, and exports the spans that are left."""
        self._unsubscribe()
        self._calls.end()
        self._provider.shutdown()

    # One method for each kind of notice

    def _receives(self, notice: Notice, lease: str) -> None:
        self._came.setdefault((lease, notice.machine), deque()).append((notice, time.time_ns()))

    def _moved(self, notice: Notice, lease: str) -> None:
        event = notice.name.partition("#")[2]
        core, number = self.actor.program.machines[notice.machine]
        begins = notice.data["from"] == core.first_state(number) and not core.subsidiary
        received = self._received(notice, lease, event.partition(".")[0])
        named = origin_of(lease)
        if begins and received is None and named is not None and named[0] == notice.actor:
            self._root(notice, lease)
        self._repeats.discard((lease, notice.machine))
        span = self._span(notice.name, notice, lease)
        _set(span, transition=notice.name, **{"from": notice.data["from"], "to": notice.data["to"]})
        self._leads(notice, lease, span)
        span.end()
        self._calls.move(notice)

    def _stayed(self, notice: Notice, lease: str) -> None:
        """Takes an event that moved nothing; it has a span where it was a message."""
        self._received(notice, lease, notice.name)
        if notice.data["kind"] == "duplicate":
            self._repeats.add((lease, notice.machine))

    def _received(self, notice: Notice, lease: str, event: str) -> Span | None:
        """The span of the message that a machine received; None where the event was no message."""
        came = self._came.get((lease, notice.machine))
        if not came or came[0][0].name != event:
            return None
        message, began = came.popleft()
        shape = self.actor.program.messages[event]
        peer = self._other_end(message, shape.sender)
        sent = message_id(self._system, lease, peer, over(notice.machine, shape.channel), message.data["number"])
        parent = sent if peer else root_id(self._system, lease)
        span = self._span(f"receive {event}", message, lease, parent, SpanKind.CONSUMER, began)
        self._describe(span, message, peer)
        _set(span, result=notice.data["kind"])
        self._leads(notice, lease, span)
        span.end()
        return span

    def _sends(self, notice: Notice, lease: str) -> None:
        shape = self.actor.program.messages[notice.name]
        peer, number = self._other_end(notice, shape.receiver), notice.data["number"]
        if peer and (lease, notice.machine) not in self._repeats:
            self._ids.span = message_id(self._system, lease, notice.machine, over(peer, shape.channel), number)
        span = self._span(f"send {notice.name}", notice, lease, kind=SpanKind.PRODUCER)
        self._describe(span, notice, peer)
        span.end()

    def _called(self, notice: Notice, lease: str) -> None:
        if notice.name.startswith("policy."):
            self._span(notice.name, notice, lease).end()
        else:
            self._calls.begin(notice)

    def _started(self, begun: CallInProgress) -> None:
        lease = lease_of(self.actor, begun.notice)
        self._spans[begun] = self._span(begun.notice.name, begun.notice, lease)

    def _answered(self, notice: Notice, lease: str) -> None:
        begun = self._calls.find(notice)
        if begun is not None:
            self._leads(notice, lease, self._spans[begun])
        self._calls.answer(notice)

    def _ended(self, begun: CallInProgress, result: Result) -> None:
        span = self._spans.pop(begun)
        _set(span, result=result.value)
        if result is Result.FAILED:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    # Spans

    def _root(self, notice: Notice, lease: str) -> None:
        self._ids.trace, self._ids.span = trace_id(self._system, lease), root_id(self._system, lease)
        span = self._tracer.start_span("lease", Context())
        _set(span, lease=lease, actor=notice.actor)
        span.end()

    def _span(
        self,
        name: str,
        notice: Notice,
        lease: str,
        parent: int = 0,
        kind: SpanKind = SpanKind.INTERNAL,
        began: int | None = None,
    ) -> Span:
        """Begins a span; without a given parent, below its cause in the turn, or the root."""
        led = self._led.get((lease, notice.machine)) or self._led.get((lease, ""))
        context = led if led is not None and not parent else self._remote(lease, parent or root_id(self._system, lease))
        span = self._tracer.start_span(
            name, set_span_in_context(NonRecordingSpan(context), Context()), kind, start_time=began
        )
        _set(span, actor=notice.actor, lease=lease, machine=notice.machine, time_ticks=notice.now)
        return span

    def _remote(self, lease: str, span: int) -> SpanContext:
        """The context of a span of any actor. Actors with the same sampler sample the same traces."""
        trace = trace_id(self._system, lease)
        taken = self._provider.sampler.should_sample(None, trace, "lease").decision is Decision.RECORD_AND_SAMPLE
        return SpanContext(trace, span, True, TraceFlags(TraceFlags.SAMPLED if taken else TraceFlags.DEFAULT))

    def _leads(self, notice: Notice, lease: str, span: Span) -> None:
        self._led[lease, notice.machine] = self._led[lease, ""] = span.get_span_context()

    def _describe(self, span: Span, notice: Notice, peer: str) -> None:
        _set(span, message=notice.name, number=notice.data["number"], peer=peer)

    def _other_end(self, notice: Notice, role: str) -> str:
        """The machine at a message's other end: as in the notice; or a role's only machine; or empty, if unknown."""
        peer: str = notice.data.get("peer", "")
        return peer or ("" if self.actor.program.roles[role].indexed else role)


def _set(span: Span, **attributes: str | int) -> None:
    span.set_attributes({f"leasehold.{name}": value for name, value in attributes.items()})


class _Ids(RandomIdGenerator):
    """Random ids, but the next ones where they are set."""

    def __init__(self) -> None:
        self.trace = self.span = 0

    def generate_trace_id(self) -> int:
        taken, self.trace = self.trace, 0
        return taken or super().generate_trace_id()

    def generate_span_id(self) -> int:
        taken, self.span = self.span, 0
        return taken or super().generate_span_id()


def _resource(actor: Actor) -> Resource:
    """The attributes that all spans of an actor share."""
    return Resource.create(
        {
            SERVICE_NAME: os.environ.get(OTEL_SERVICE_NAME) or actor.identity.name,
            SERVICE_NAMESPACE: "leasehold",
            SERVICE_INSTANCE_ID: actor.identity.name,
            SERVICE_VERSION: __version__,
            "leasehold.system": actor.program.system,
            "leasehold.digest": actor.program.digest,
        }
    )
