"""Metrics of real actors, read as Prometheus reads them, and the table of them in the docs."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from leasehold import __version__
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions, Probe, RetryPolicy
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.notices import Kind
from leasehold.impl.observe import metrics as module
from leasehold.impl.observe.metrics import Metrics
from leasehold.impl.observe.watchdog import Watchdog
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import Batch, StoreError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "observability.md"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(metrics: Metrics) -> Samples:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"leasehold_{name}", frozenset(labels.items())]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines are counted whenever somebody asks."""
    monkeypatch.setattr(module, "COUNTED_EVERY_SECONDS", 0.0)


class Watched:
    """A cluster with metrics on each actor; those of an actor that was started again are new."""

    def __init__(self, watched: Any, **options: Any) -> None:
        self.of: dict[str, Metrics] = {}
        self.cluster: Cluster = watched(self._attach, **options)

    def _attach(self, actor: Any) -> None:
        self.of[actor.identity.name] = Metrics(actor, Watchdog(actor))

    def read(self, name: str) -> Samples:
        return read(self.of[name])


async def test_a_lease_is_counted(watched: Any, at_once: None) -> None:
    w = Watched(watched)

    async with w.cluster as c:
        await c.lease(2, until=12, term=6)
        site = w.read(SITE)
        assert value(site, "machines", role="authority", state="active") == 1
        assert value(site, "machines", role="unit", state="active") == 2
        assert value(site, "machines", role="unit", state="failed") == 0
        assert value(site, "transitions_total", role="unit", transition="unit/priming#up") == 2
        assert value(site, "messages_received_total", message="redeem") == 1
        assert value(site, "messages_sent_total", message="update_lease") == 1
        assert value(site, "policy_calls_total", question="place") == 1
        assert value(site, "handler_calls_total", verb="setup", result="well") == 2
        assert value(site, "handler_call_seconds_count", verb="setup") == 2
        assert value(site, "running") == 1
        assert value(site, "epoch") == 1
        assert value(site, "virtual_time_ticks") == 0
        await c.advance(14)
        for name, actor in c.actors.items():
            samples = w.read(name)
            taken = sum(v for (n, _), v in samples.items() if n == "leasehold_transitions_total")
            assert taken == actor.counts["taken"]
            assert value(samples, "commits_total") == actor.counts["commits"]
            assert value(samples, "commit_seconds_count") == value(samples, "commits_total")
            assert value(samples, "commit_machines_sum") >= taken / 2
            assert value(samples, "virtual_time_ticks") == 14
            assert value(samples, "outbox_messages") == len(actor.outbox)
        tenant = w.read(TENANT)
        assert value(tenant, "machines", role="service_manager", state="closed") == 1
        assert value(tenant, "handler_calls_total", verb="leave", result="well") == 2
    assert value(w.read(SITE), "running") == 0


async def test_what_is_under_way_is_counted_as_it_is_now(watched: Any) -> None:
    """Also after the store has failed, when all of it begins anew."""
    w = Watched(watched)

    async with w.cluster as c:
        assert value(w.read(TENANT), "outbox_messages") == 0
        await c.kill(BROKER)
        for n in (1, 2):
            await c.lease(1, until=30)
            assert value(w.read(TENANT), "outbox_messages") == len(c.tenant.outbox) == n
        assert value(w.read(TENANT), "policy_timeouts_total") == 0
        c.tenant.counts["policy errors"] += 3
        c.tenant.counts["policy timeouts"] += 2
        samples = w.read(TENANT)
        assert (value(samples, "policy_errors_total"), value(samples, "policy_timeouts_total")) == (3, 2)


async def test_decisions_that_are_refused_are_no_messages(watched: Any) -> None:
    w = Watched(watched)

    async with w.cluster as c:
        refused: list[Kind] = []
        c.site.notices.subscribe(lambda said: refused.append(said.kind) if said.kind is Kind.REFUSED else None)
        lease = await c.lease(1, until=30)
        c.site.upcalls.decided([Decision(lease, "authority", "reclaim", {})])  # its term is not over
        await c.settle()
        assert c.site.counts["refused"] == 1
        assert value(w.read(SITE), "messages_refused_total") == len(refused) == 0
        await c.site.receive(b"forged")
        assert value(w.read(SITE), "messages_refused_total") == len(refused) == 1


async def test_who_it_is(watched: Any) -> None:
    w = Watched(watched)

    async with w.cluster as c:
        digest = c.program.digest
        labels = {"actor": "broker", "roles": "broker", "system": "lease", "digest": digest, "version": __version__}
        assert value(w.read(BROKER), "actor_info", **labels) == 1


async def test_metrics_can_be_asked_for_before_the_start_and_the_global_registry_stays_as_it_is(watched: Any) -> None:
    before = {family.name for family in REGISTRY.collect()}
    w = Watched(watched)
    samples: list[Samples] = []
    attach = w.cluster.actors._attach
    w.cluster.actors._attach = lambda actor: (attach(actor), samples.append(w.read(actor.identity.name)))

    async with w.cluster:
        pass
    assert [value(found, "running") for found in samples] == [0, 0, 0]
    assert {family.name for family in REGISTRY.collect()} == before


async def test_recovery_shows(watched: Any) -> None:
    w = Watched(watched)

    async with w.cluster as c:
        await c.lease(2, until=60)
        await c.kill(SITE)
        await c.start(SITE)
        await c.settle()
        site = w.read(SITE)
        assert value(site, "epoch") == 2
        assert value(site, "recoveries_total") == 1
        assert value(site, "recovered_machines") == 3  # the lease's and two units'
        tenant = w.read(TENANT)
        assert value(tenant, "ignored_events_total", role="service_manager", kind="duplicate") == 1


async def test_a_store_that_fails_shows(watched: Any) -> None:
    full = set()

    class Failing(MemoryStore):
        async def commit(self, batch: Batch) -> None:
            if full:
                raise StoreError("no space left on the disk")
            await super().commit(batch)

    w = Watched(
        watched,
        store=lambda n: (Failing if n == SITE else MemoryStore)(w.cluster.disks[n]),
        options=ActorOptions(seed=0, reopen_pause=0.001),
    )

    async with w.cluster as c:
        full.add("disk")
        await c.lease(1, until=30)
        async with asyncio.timeout(10):
            while c.site.running:
                await asyncio.sleep(0.001)
            samples = w.read(SITE)
            assert value(samples, "running") == 0
            assert value(samples, "store_failures_total") == 1
            full.clear()
            while not c.site.running:
                await asyncio.sleep(0.001)
        samples = w.read(SITE)
        assert value(samples, "running") == 1
        assert value(samples, "recoveries_total") == 2
        assert value(samples, "commit_seconds_count") == value(samples, "commits_total")


async def test_handlers_that_fail_or_are_given_up_show(watched: Any) -> None:
    class Slow(SimulatedHandler):
        """Whatever it does on the first unit fails; on the second one, it hangs."""

        async def act(self, action: Any) -> Any:
            if action.unit == "unit-0":
                raise OSError("no such machine")
            await asyncio.get_running_loop().create_future()

    retry = RetryPolicy(tries=2, pause=0.0, longest=60)
    w = Watched(watched, handler=Slow(SimulatedUnits()), options=ActorOptions(seed=0, reopen_pause=0.01, retry=retry))

    async with w.cluster as c:
        await c.tenant.command("service_manager", "demand", "tenant:1", 2, 30, 10)
        async with asyncio.timeout(10):
            while value(w.read(SITE), "handler_calls_total", verb="setup", result="failed") == 0:
                await asyncio.sleep(0.001)
        samples = w.read(SITE)
        assert value(samples, "calls_under_way") >= 1
        assert value(samples, "handler_calls_total", verb="setup", result="given_up") == 0
        await c.time.elapse(40)  # the term ends: what hangs gives way to the teardown
        async with asyncio.timeout(10):
            while value(w.read(SITE), "handler_calls_total", verb="setup", result="given_up") == 0:
                await asyncio.sleep(0.001)


async def test_what_peers_say_makes_no_labels(watched: Any) -> None:
    """A stranger's message is counted, and nothing of it becomes a time series."""
    w = Watched(watched)

    async with w.cluster as c:
        names = {name for name, _ in w.read(SITE).items()}
        for i in range(50):
            await c.site.receive(b"leasehold1 %d\n{}" % i)
        samples = w.read(SITE)
        assert value(samples, "messages_refused_total") == 50
        assert set(samples) == names


async def test_labels_are_bounded_whatever_the_number_of_leases(watched: Any, at_once: None) -> None:
    w = Watched(watched, units=12)

    async def count(leases: range) -> set[Any]:
        for i in leases:
            await w.cluster.lease(1, until=w.cluster.time.now + 8, term=8, name=f"tenant:{i}")
        await w.cluster.advance(10)
        series = {key for name in w.of for key in w.read(name)}
        assert not any("tenant:" in label for _, labels in series for _, label in labels)
        return series

    async with w.cluster:
        await count(range(1, 3))  # on units that are new
        few = await count(range(3, 5))  # on units that were lent before
        assert await count(range(5, 15)) == few


async def test_machines_are_counted_at_most_every_few_seconds(watched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    w = Watched(watched)

    async with w.cluster as c:
        assert value(w.read(BROKER), "machines", role="broker", state="ticketed") == 0
        await c.lease(1, until=30)
        now[0] += module.COUNTED_EVERY_SECONDS / 2
        assert value(w.read(BROKER), "machines", role="broker", state="ticketed") == 0
        now[0] += module.COUNTED_EVERY_SECONDS / 2
        assert value(w.read(BROKER), "machines", role="broker", state="ticketed") == 1


async def test_after_closing_nothing_is_counted(watched: Any) -> None:
    w = Watched(watched)

    async with w.cluster as c:
        await c.lease(1, until=30)
        before = value(w.read(BROKER), "commits_total")
        w.of[BROKER].close()
        await c.lease(1, until=30)
        assert value(w.read(BROKER), "commits_total") == before
        assert c.broker.counts["commits"] > before


async def test_the_page_has_every_metric(watched: Any) -> None:
    """docs/reference/observability.md: name, kind, labels and words of each are those of the registry."""
    w = Watched(watched)
    rows = [
        tuple(cell.strip() for cell in line.strip("|\n").split("|"))
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `leasehold_")
    ]
    written = {(name.strip("`"), kind, labels.replace("`", ""), words) for name, kind, labels, words in rows}
    async with w.cluster as c:
        await c.lease(1, until=8)
        await c.advance(10)
        c.site.context.environment = replace(c.site.environment, probes=(Probe("unit", "repaired"),))
        found, labels = {}, {}
        for metrics in w.of.values():
            for family in text_string_to_metric_families(metrics.render().decode()):
                if not family.name.startswith("leasehold_"):
                    continue
                name = family.name + ("_total" if family.type == "counter" else "")
                found[name] = family.type, family.documentation
                names = {label for sample in family.samples for label in sample.labels} - {"le"}
                labels.setdefault(name, set()).update(names)
        there = {(n, kind, ", ".join(sorted(labels[n])), words) for n, (kind, words) in found.items()}
    assert written == there
    assert not [name for name, count in Counter(name for name, *_ in rows).items() if count > 1]
