"""Metrics of a verification that goes on, in the exposition format of Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from wsgiref.simple_server import WSGIServer

from prometheus_client import Counter, Gauge, start_http_server

from leasehold.checker.history.fault import CONTRADICTION, UNDECIDED
from leasehold.checker.verify.follow import SourceVerification
from leasehold.impl.events.chain import Tampering
from leasehold.impl.observe.metrics import CountersRegistry

KINDS = (UNDECIDED, CONTRADICTION, *(kind.name.lower() for kind in Tampering))  # of faults


class VerifyMetrics:
    """Tells how a verification goes on.

    Args:
        following: the verification.

    Attributes:
        registry: has the metrics, as they were at the last `update`.
    """

    def __init__(self, following: SourceVerification) -> None:
        self.following, self.registry = following, CountersRegistry()
        r = self.registry
        of = "leasehold_verify"
        self._violations = Counter(
            f"{of}_violations",
            "Violations that were found, by property and its kind.",
            ("property", "kind"),
            registry=r,
        )
        self._faults = Counter(
            f"{of}_faults", "Faults of the events, by actor and kind.", ("actor", "kind"), registry=r
        )
        self._events = Counter(f"{of}_events", "Events that are judged.", ("actor",), registry=r)
        self._cuts = Counter(f"{of}_cuts", "Global states that are judged.", registry=r)
        self._runs = Gauge(f"{of}_runs_open", "Runs that go on, and are in memory.", registry=r)
        self._behind = Gauge(f"{of}_lag_events", "Events that actors are known to have and that wait.", registry=r)
        self._late = Gauge(f"{of}_lag_seconds", "Seconds since the moment up to which all is judged.", registry=r)
        self._up = Gauge(
            f"{of}_source_up", "Whether the source of an actor can be read (1) or not.", ("actor",), registry=r
        )
        self._broken = Gauge(
            f"{of}_source_broken", "Whether an actor's chain is not as written (1).", ("actor",), registry=r
        )
        self._told: Tally[tuple[str, ...]] = Tally()
        for name in following.verification.asked:  # from 0, so that the first rise shows
            self._violations.labels(name, self._kind(name))
        for actor in following.readers:
            self._events.labels(actor)
            for kind in KINDS:
                self._faults.labels(actor, kind)

    def _kind(self, name: str) -> str:
        known = self.following.verification.known.system.properties.get(name)
        return "own" if known is None else known.kind

    def update(self) -> None:
        """Takes what has changed."""
        verification = self.following.verification
        violations = Tally(v.property for v in verification.result.violations)
        for name, count in violations.items():
            self._rise(("violations", name), count, self._violations.labels(name, self._kind(name)).inc)
        for (actor, kind), count in Tally((f.actor, f.kind) for f in verification.cuts.faults).items():
            self._rise(("faults", actor, kind), count, self._faults.labels(actor, kind).inc)
        for actor in self.following.readers:
            judged = verification.kept.follower(actor).judged
            self._rise(("events", actor), judged, self._events.labels(actor).inc)
            self._up.labels(actor).set(actor not in self.following.unreachable)
            self._broken.labels(actor).set(actor in self.following.broken)
        self._rise(("cuts",), verification.result.cuts, self._cuts.inc)
        self._runs.set(len(verification.cuts.runs) + len(verification.cuts.asleep))
        lag = self.following.lag()
        self._behind.set(lag.events)
        self._late.set(lag.seconds)

    def _rise(self, key: tuple[str, ...], count: int, inc: Callable[[float], None]) -> None:
        inc(count - self._told[key])
        self._told[key] = count

    def serve(self, host: str, port: int) -> WSGIServer:
        """Answers at a port until the server that it returns is shut down.

        Raises:
            OSError: the port cannot be used.
        """
        server, _ = start_http_server(port, host, self.registry)
        wsgi_server: WSGIServer = server
        return wsgi_server
