"""Metrics of an actor, in the exposition format of Prometheus.

Theory of operation. Counters and histograms grow with notices; their children by label are found once and kept. Gauges
are read when they are asked for, and what cannot be read at once, the machines by state, is counted in one pass over
them at most every few seconds. The registry is the actor's own, so that several actors in one process do not mix.

Labels come from the specification alone, so their number is bounded: never a lease, a peer, or words of a peer.
docs/reference/observability.md has the table of all metrics.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from time import monotonic, perf_counter
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from leasehold import __version__
from leasehold.impl.actor.actor import Actor
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.observe.calls import Begun, Calls, Result

M = TypeVar("M", bound=MetricWrapperBase)
IGNORED = ("ignored", "refused", "duplicate", "stale", "late", "unmoved")
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LONG = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0)
_MACHINES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
COUNTED_EVERY_SECONDS = 5.0


class _Children(dict[tuple[str, ...], M], Generic[M]):
    """The children of a metric by their labels."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> M:
        child: M = self._metric.labels(*labels)
        self[labels] = child
        return child


class Metrics(Collector):
    """Counts what an actor does, from now until it is closed.

    Attributes:
        registry: all of its metrics.
        content_type: of what `render` makes.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, actor: Actor) -> None:
        self.actor, self.registry = actor, CollectorRegistry()
        self._calls = Calls(actor, self._ended)
        self._began = 0.0  # when the commit under way began
        self._counters()
        self._gauges()
        self._from_the_start()
        self.registry.register(_Machines(actor))
        self.registry.register(_Counts(actor))
        ProcessCollector(registry=self.registry)
        self._heard: dict[Kind, Callable[[Notice], None]] = {
            Kind.TRANSITION: self._moved,
            Kind.IGNORED: lambda n: self._ignored[n.machine.partition("[")[0], n.data["kind"]].inc(),
            Kind.SEND: lambda n: self._sent[(n.name,)].inc(),
            Kind.RECEIVE: lambda n: self._received[(n.name,)].inc(),
            Kind.COMMIT: self._begins,
            Kind.COMMITTED: self._committed,
            Kind.CALL: self._called,
            Kind.ANSWERED: self._answered,
            Kind.RECOVERED: self._recovered,
            Kind.STOPPED: self._stopped,
        }
        self.close = actor.notices.subscribe(self)

    def render(self) -> bytes:
        """All metrics as they are now."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """The families of the registry. When each counter began to count would double them, and nobody reads it."""
        for family in self.registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family

    def __call__(self, notice: Notice) -> None:
        """Hears a notice."""
        heard = self._heard.get(notice.kind)
        if heard is not None:
            heard(notice)

    # What there is

    def _counters(self) -> None:
        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"leasehold_{name}", words, labels, registry=self.registry)

        def histogram(name: str, words: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"leasehold_{name}", words, labels, buckets=buckets, registry=self.registry)

        self._transitions = _Children(counter("transitions", "Committed transitions.", "role", "transition"))
        self._ignored = _Children(counter("ignored_events", "Events that moved no machine.", "role", "kind"))
        self._sent = _Children(counter("messages_sent", "Messages given to the transport; repeats not.", "message"))
        self._received = _Children(counter("messages_received", "Messages taken in, duplicates too.", "message"))
        self._policy_calls = _Children(counter("policy_calls", "Questions put to policies.", "question"))
        self._handler_calls = _Children(counter("handler_calls", "Handler calls that ended.", "verb", "result"))
        self._handler_seconds = _Children(
            histogram("handler_call_seconds", "How long a handler call took, tries and pauses included.", _LONG, "verb")
        )
        self._commits = counter("commits", "Group commits.")
        self._commit_seconds = histogram("commit_seconds", "How long the store took to commit.", _SECONDS)
        self._commit_machines = histogram("commit_machines", "Machines in one commit.", _MACHINES)
        self._failures = counter("store_failures", "Commits that failed, each of which stopped the actor.")
        self._recoveries = counter("recoveries", "Recoveries, the one at the start included.")
        self._recovered_machines = Gauge(
            "leasehold_recovered_machines", "Machines that the last recovery found.", registry=self.registry
        )

    def _gauges(self) -> None:
        actor = self.actor

        def gauge(name: str, words: str, value: Callable[[], float]) -> None:
            Gauge(f"leasehold_{name}", words, registry=self.registry).set_function(value)

        gauge("running", "1 while the actor takes steps.", lambda: float(actor.running))
        gauge("epoch", "The actor's incarnation.", lambda: actor.epoch)
        gauge("virtual_time_ticks", "The virtual clock.", actor.clock.now)
        gauge("outbox_messages", "Messages said and not heard yet.", lambda: len(actor.outbox) if actor.running else 0)
        gauge("calls_under_way", "Handlers at work.", lambda: actor.calls.under_way() if actor.running else 0)
        info = Info("leasehold_actor", "The actor, and the specification that it runs.", registry=self.registry)
        roles = ",".join(sorted(role for role in actor.roles if not actor.program.roles[role].subsidiary))
        info.info(
            {
                "actor": actor.identity.name,
                "roles": roles,
                "system": actor.program.system,
                "digest": actor.program.digest,
                "version": __version__,
            }
        )

    def _from_the_start(self) -> None:
        """What is known to be counted is there with 0 before it is, so that its first rise shows as a rate."""
        for role in self.actor.roles:
            for kind in IGNORED:
                self._ignored[role, kind]
        for name, shape in self.actor.program.messages.items():
            if shape.sender in self.actor.roles:
                self._sent[(name,)]
            if shape.receiver in self.actor.roles:
                self._received[(name,)]
        for verb in self.actor.environment.handlers:
            self._handler_seconds[(verb,)]
            for result in Result:
                self._handler_calls[verb, result]

    # What is heard

    def _moved(self, notice: Notice) -> None:
        self._transitions[notice.machine.partition("[")[0], notice.name].inc()
        self._calls.move(notice)

    def _begins(self, notice: Notice) -> None:
        self._began = perf_counter()

    def _committed(self, notice: Notice) -> None:
        self._commit_seconds.observe(perf_counter() - self._began)
        self._commit_machines.observe(notice.data["machines"])
        self._commits.inc()

    def _called(self, notice: Notice) -> None:
        if notice.name.startswith("policy."):
            self._policy_calls[(notice.name.removeprefix("policy."),)].inc()
        else:
            self._calls.begin(notice)

    def _answered(self, notice: Notice) -> None:
        self._calls.answer(notice)

    def _ended(self, begun: Begun, result: Result) -> None:
        self._handler_calls[begun.verb, result].inc()
        if result in (Result.WELL, Result.FAILED):
            self._handler_seconds[(begun.verb,)].observe(begun.seconds)

    def _recovered(self, notice: Notice) -> None:
        self._recoveries.inc()
        self._recovered_machines.set(notice.data["machines"])

    def _stopped(self, notice: Notice) -> None:
        self._failures.inc()
        self._calls.end()


class _Machines(Collector):
    """Machines by role and state."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._counted: Tally[tuple[str, str]] = Tally()
        self._again = 0.0  # when they are counted again

    def collect(self) -> Iterator[Metric]:
        roles = {role: self.actor.program.roles[role].states for role in sorted(self.actor.roles)}
        if monotonic() >= self._again:
            self._counted = Tally((held.core.role, held.record[0]) for held in self.actor.table.instances.values())
            self._again = monotonic() + COUNTED_EVERY_SECONDS
        words = "Machines held, counted at most every few seconds."
        family = GaugeMetricFamily("leasehold_machines", words, labels=("role", "state"))
        for role, states in roles.items():
            for state in states:
                family.add_metric((role, state), self._counted[role, state])
        yield family


class _Counts(Collector):
    """What the actor counts itself."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def collect(self) -> Iterator[Metric]:
        counts = self.actor.counts
        for name, words, value in (
            ("messages_refused", "Messages of others that were not accepted.", counts.get("refused", 0)),
            (
                "messages_refused_by_peers",
                "Own messages that were not accepted.",
                counts.get("refused by peers", 0),
            ),
            ("policy_errors", "Errors that policies raised.", counts.get("policy errors", 0)),
            ("subscriber_errors", "Errors that subscribers to notices raised.", self.actor.notices.masked),
        ):
            yield CounterMetricFamily(f"leasehold_{name}", words, value=value)
