"""Units that are lost: those of a host that reboots all at once, and those of a site that was restarted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from leasehold.checker.conform.findings import JudgedLog
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.known import KnownSystem
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import Environment
from leasehold.impl.events.event import read
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.policy.policy import Decision
from leasehold.impl.raised import RaisedEvent
from tests.impl.lease.test_reasons import at_holder

UNITS = 200
EVENTS = 8  # at a site for each unit that is lost, set up again and said to be up


async def test_units_that_are_lost_at_once_cost_their_site_so_many_events_each_and_no_more() -> None:
    async with Cluster(units=UNITS) as cluster:
        lease = await cluster.lease(UNITS, until=1_000, term=1_000)
        assert cluster.state(lease)[2] == "active"
        before = sum(cluster.site.counts[kind] for kind in ("taken", "ignored", "refused"))
        for n in range(UNITS):
            await cluster.site.tell("-", f"unit[{n}]", "lost", {})
        await cluster.advance(20)
        told = at_holder(cluster, lease)
        assert (told["lease_lost"], len(told["lease_renewed"])) == (frozenset(), UNITS)
        events = sum(cluster.site.counts[kind] for kind in ("taken", "ignored", "refused")) - before
        assert events <= EVENTS * UNITS


class Seen(SimulatedHandler):
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__(SimulatedUnits())
        self.actions: list[HandlerAction] = []

    async def act(self, action: HandlerAction) -> Done:
        self.actions.append(action)
        return await super().act(action)

    def of(self, verb: str, unit: str) -> list[HandlerAction]:
        return [action for action in self.actions if (action.verb, action.unit) == (verb, unit)]


async def test_a_unit_that_is_lost_after_a_restart_is_set_up_for_its_lease_and_its_holder_is_told() -> None:
    handler = Seen()
    async with Cluster(units=2, handler=handler) as cluster:
        lease = await cluster.lease(2, until=1_000, term=1_000)
        [first] = handler.of("setup", "unit-1")
        await cluster.kill(SITE)
        await cluster.start(SITE)
        await cluster.settle()
        await cluster.site.tell("-", "unit[1]", "lost", {})
        await cluster.advance(3)
        told = at_holder(cluster, lease)
        assert (told["lease_lost"], told["lease_renewed"]) == (frozenset(), {1})
        [_, again] = handler.of("setup", "unit-1")
        assert (again.lease, again.lease_data["properties"]) == (lease, first.lease_data["properties"])
        assert first.lease_data["properties"]


class Watchful(FirstFit):
    """A policy of a site that finds a host of its units gone, and asks for the work of what it has seen to anew."""

    def __init__(self, inventory: object, lazy: bool) -> None:
        super().__init__(inventory, lazy=lazy)  # type: ignore[arg-type]
        self.gone: list[str] = []

    def tick(self, now: int) -> Iterable[Decision | RaisedEvent]:
        gone, self.gone = self.gone, []
        raised = [RaisedEvent("lost", unit=name, reason="its host is gone") for name in gone]
        return [*super().tick(now), *raised, *(RaisedEvent(unit=name) for name in gone)]


class WatchfulCluster(Cluster):
    def _environment(self, name: str) -> Environment:
        environment = super()._environment(name)
        if name == SITE:
            environment.policies["authority"] = Watchful(self.inventory, lazy=True)
            environment = replace(environment, raises={"unit": ("lost", "recover")})
        return environment


async def test_a_policy_that_finds_a_host_gone_has_its_units_set_up_again_as_the_specification_says() -> None:
    handler = Seen()
    async with WatchfulCluster(units=4, handler=handler) as cluster:
        lease = await cluster.lease(3, until=1_000, term=1_000)
        cluster.site.environment.policies["authority"].gone = ["unit-0", "unit-2", "unit-3"]  # type: ignore[attr-defined]
        await cluster.advance(3)
        told = at_holder(cluster, lease)
        assert (told["lease_lost"], told["lease_renewed"]) == (frozenset(), {0, 2})
        assert {len(handler.of("setup", f"unit-{n}")) for n in (0, 2)} <= {
            2,
            3,
        }  # once more where recovery came amid it
        assert [len(handler.of("setup", f"unit-{n}")) for n in (1, 3)] == [1, 0], "nobody had the fourth"
        logs = {name: [*map(read, disk.chain())] for name, disk in cluster.disks.items()}
        judge = LogConformance(KnownSystem(cluster.system, cluster.program), map(JudgedLog, logs))
        for event in judge.merged(logs.items()):
            judge.take(event)
        judge.end()
        assert judge.findings == []
