"""Local properties: each actor keeps some of its own of a lease, which its policies, handlers and operator see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import Environment
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.handlers.simulated import SimulatedHandler
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.fleet import ROLES
from leasehold.impl.policy.policy import Decision, Question


class Noting(FirstComeFirstServed):
    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        return [_noted(decision, {"account": "physics"}) for decision in super().begin(question, now)]


class NotingSite(FirstFit):
    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        return [_noted(decision, {"rack": 7}) for decision in super().begin(question, now)]


def _noted(decision: Decision, local: dict[str, Any]) -> Decision:
    return replace(decision, fields={**decision.fields, "local": local})


class Watched(SimulatedHandler):
    def __init__(self) -> None:
        super().__init__()
        self.actions: list[HandlerAction] = []

    async def act(self, action: HandlerAction) -> Done:
        self.actions.append(action)
        return await super().act(action)


class NotingCluster(Cluster):
    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        if "broker" in made.policies:
            made.policies["broker"] = Noting(self.inventory)
        if "authority" in made.policies:
            made.policies["authority"] = NotingSite(self.inventory)
        return made


async def test_each_actor_keeps_local_properties_that_its_handlers_see_and_no_other_actor() -> None:
    site, guest = Watched(), Watched()
    async with NotingCluster(units=1, handler=site, guest=guest) as cluster:
        team = {"team": "blue"}
        await cluster.tenant.command("service_manager", "demand", "tenant:1", 1, 30, 10, local=team)
        await cluster.settle()
        assert cluster.state("tenant:1") == ("active", "ticketed", "active")
        for name in ROLES:
            await cluster.kill(name)
            await cluster.start(name)
        await cluster.advance(12)
        assert cluster.state("tenant:1") == ("active", "ticketed", "active")
        kept = {}
        for machine in ("service_manager", "broker", "authority"):
            held = cluster.held("tenant:1", machine)
            assert held is not None
            kept[machine] = held.core.view(held.record)
        assert {machine: data["local"] for machine, data in kept.items()} == {
            "service_manager": team,
            "broker": {"account": "physics"},
            "authority": {"rack": 7},
        }
        assert {action.lease_data["local"]["rack"] for action in site.actions} == {7}
        assert {action.lease_data["local"]["team"] for action in guest.actions} == {"blue"}
        for machine, data in kept.items():
            others = [other["local"] for name, other in kept.items() if name != machine]
            assert not any(value in others for value in data.values())
