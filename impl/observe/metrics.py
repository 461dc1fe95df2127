"""Metrics of an actor, in the exposition format of Prometheus.

Theory of operation. metrics.yaml has every metric: its kind, labels, help text and buckets. Counters and histograms
grow with notices; their children by label are found once and kept. The rest is read when the metrics are asked for;
only machines by state are counted in one pass over them, at most every few seconds. The registry is the actor's own, so
that several actors in one process do not mix.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from time import monotonic, perf_counter
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from leasehold import __version__
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.probes import ProbeResult
from leasehold.impl.files import table
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.observe.calls import CallInProgress, CallTracker, Result
from leasehold.impl.observe.watchdog import Watchdog

IGNORED = ("ignored", "refused", "duplicate", "stale", "late", "unmoved")
COUNTED_EVERY_SECONDS = 5.0
_KINDS: Mapping[str, Callable[..., MetricWrapperBase]] = {
    "counter": Counter,
    "gauge": Gauge,
    "histogram": Histogram,
    "info": Info,
    "read": Gauge,
}


class CountersRegistry(CollectorRegistry):
    """Metrics without the time at which each counter began: it would double their series, and nobody reads it."""

    def collect(self) -> Iterator[Metric]:
        for family in super().collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_TABLE = msgspec.convert(table(__package__, "metrics.yaml"), dict[str, _Row])


class Metrics(Collector):
    """Counts what an actor does, from now until it is closed.

    Args:
        actor: whose doings.
        watchdog: counts how often its loop stands still.

    Attributes:
        registry: the metrics that grow with notices, and those of the process.
        content_type: of the bytes that `render` returns.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, actor: Actor, watchdog: Watchdog) -> None:
        self.actor, self.registry = actor, CountersRegistry()
        self._watchdog = watchdog
        self._calls = CallTracker(actor, self._ended)
        self._began = 0.0  # when the commit under way began
        self._machines: Tally[tuple[str, str]] = Tally()  # by role and state
        self._count_again = 0.0  # when they are counted again
        self._metrics = {
            name: _KINDS[row.kind](
                f"leasehold_{name}",
                row.help,
                row.labels,
                registry=self.registry,
                **({"buckets": row.buckets} if row.buckets else {}),
            )
            for name, row in _TABLE.items()
            if row.kind in _KINDS
        }
        self._of: Callable[..., Any] = cache(self._child)
        self._read()
        self._from_the_start()
        ProcessCollector(registry=self.registry)
        self._heard: dict[Kind, Callable[[Notice], None]] = {
            Kind.TRANSITION: self._moved,
            Kind.IGNORED: lambda n: self._of("ignored_events", n.machine.partition("[")[0], n.data["kind"]).inc(),
            Kind.SEND: lambda n: self._of("messages_sent", n.name).inc(),
            Kind.RECEIVE: lambda n: self._of("messages_received", n.name).inc(),
            Kind.COMMIT: self._begins,
            Kind.COMMITTED: self._committed,
            Kind.CALL: self._called,
            Kind.ANSWERED: self._calls.answer,
            Kind.FORGET: self._calls.forget,
            Kind.RECOVERED: self._recovered,
            Kind.STOPPED: self._stopped,
        }
        self.close = actor.notices.subscribe(self)

    def render(self) -> bytes:
        """All metrics as they are now."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from self.registry.collect()
        yield self._by_state()
        yield self._of_probes()
        yield self._of_raised()
        counts = self.actor.counts
        for name, value in (
            ("messages_refused", counts.get("messages refused", 0)),
            ("messages_refused_by_peers", counts.get("refused by peers", 0)),
            ("policy_errors", counts.get("policy errors", 0)),
            ("policy_timeouts", counts.get("policy timeouts", 0)),
            ("calls_not_begun", counts.get("not begun", 0)),
            ("detectors_ended", counts.get("detectors ended", 0)),
            ("followers_overtaken", counts.get("followers overtaken", 0)),
            ("subscriber_errors", self.actor.notices.masked),
            ("loop_stalls", self._watchdog.stalls),
        ):
            yield CounterMetricFamily(f"leasehold_{name}", _TABLE[name].help, value=value)

    def __call__(self, notice: Notice) -> None:
        """Hears a notice."""
        heard = self._heard.get(notice.kind)
        if heard is not None:
            heard(notice)

    def _child(self, name: str, *labels: str) -> MetricWrapperBase:
        metric = self._metrics[name]
        return metric.labels(*labels) if labels else metric

    def _read(self) -> None:
        """Sets the metrics that have values of the actor itself."""
        actor = self.actor
        for name, value in {
            "running": lambda: float(actor.running),
            "epoch": lambda: actor.epoch,
            "virtual_time_ticks": actor.clock.now,
            "outbox_messages": lambda: len(actor.outbox) if actor.running else 0,
            "unaddressed_messages": lambda: sum(map(len, actor.table.unaddressed.values())),
            "calls_under_way": lambda: actor.calls.under_way() if actor.running else 0,
            "calls_waiting": lambda: actor.calls.waiting if actor.running else 0,
            "units_left": lambda: len(actor.remains.found),
            "policy_threads_abandoned": lambda: actor.upcalls.abandoned,
            "loop_stalled_seconds": lambda: self._watchdog.stalled_seconds,
        }.items():
            self._of(name).set_function(value)
        self._of("actor").info(
            {
                "actor": actor.identity.name,
                "roles": ",".join(sorted(role for role in actor.roles if not actor.program.roles[role].subsidiary)),
                "system": actor.program.system,
                "digest": actor.program.digest,
                "version": __version__,
            }
        )

    def _from_the_start(self) -> None:
        """Makes the children whose labels are known, with 0, so that their first rise shows as a rate."""
        for role in self.actor.roles:
            for kind in IGNORED:
                self._of("ignored_events", role, kind)
        for name, shape in self.actor.program.messages.items():
            if shape.sender in self.actor.roles:
                self._of("messages_sent", name)
            if shape.receiver in self.actor.roles:
                self._of("messages_received", name)
        for verb in self.actor.environment.handlers:
            self._of("handler_call_seconds", verb)
            for result in Result:
                self._of("handler_calls", verb, result)

    def _by_state(self) -> Metric:
        if monotonic() >= self._count_again:
            self._machines = Tally(
                (instance.core.role, instance.record[0]) for instance in self.actor.table.instances.values()
            )
            self._count_again = monotonic() + COUNTED_EVERY_SECONDS
        row = _TABLE["machines"]
        family = GaugeMetricFamily("leasehold_machines", row.help, labels=row.labels)
        for role in sorted(self.actor.roles):
            for state in self.actor.program.roles[role].states:
                family.add_metric((role, state), self._machines[role, state])
        return family

    def _of_probes(self) -> Metric:
        row = _TABLE["probes"]
        family, probes = CounterMetricFamily("leasehold_probes", row.help, labels=row.labels), self.actor.probes
        for role in sorted({probe.role for probe in probes.probes}):
            for result in ProbeResult:
                family.add_metric((role, result), probes.counts[role, result])
        return family

    def _of_raised(self) -> Metric:
        row, counts = _TABLE["raised_events"], self.actor.counts
        family = CounterMetricFamily("leasehold_raised_events", row.help, labels=row.labels)
        family.add_metric(("taken",), counts.get("raised", 0))
        family.add_metric(("refused",), counts.get("raised refused", 0))
        return family

    # One method for each kind of notice

    def _moved(self, notice: Notice) -> None:
        self._of("transitions", notice.machine.partition("[")[0], notice.name).inc()
        self._calls.move(notice)

    def _begins(self, notice: Notice) -> None:
        self._began = perf_counter()

    def _committed(self, notice: Notice) -> None:
        self._of("commit_seconds").observe(perf_counter() - self._began)
        self._of("commit_machines").observe(notice.data["machines"])
        self._of("commits").inc()

    def _called(self, notice: Notice) -> None:
        if notice.name.startswith("policy."):
            self._of("policy_calls", notice.name.removeprefix("policy.")).inc()
        else:
            self._calls.begin(notice)

    def _ended(self, begun: CallInProgress, result: Result) -> None:
        self._of("handler_calls", begun.verb, result).inc()
        if result in (Result.WELL, Result.FAILED):
            self._of("handler_call_seconds", begun.verb).observe(begun.seconds)

    def _recovered(self, notice: Notice) -> None:
        self._of("recoveries").inc()
        self._of("recovered_machines").set(notice.data["machines"])

    def _stopped(self, notice: Notice) -> None:
        self._of("store_failures").inc()
        self._calls.end()
