"""What handlers are told, and what is told of what they say, held against the records while leases come and go.

Theory of operation. A story has units that are lost, replaced, given back and leased anew, and actors that restart.
Each action is compared with the records of that moment, whatever has led to it: at the site it shows the record of the
lease that it names; at the holder what the last handler at the site has said of the unit of that number, under the
unit's own name. The site's handlers say something else with every action, and name others as well.
"""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.lease.fleet import SITE, TENANT
from leasehold.impl.store.store import RecordKey
from tests.impl.lease.test_reasons import at_holder

LIES = {"name": "another", "site": "elsewhere", "fence": 1}


class Told(SimulatedHandler):
    """The handler of units and guests alike, which holds each action against the records of the cluster."""

    def __init__(self) -> None:
        super().__init__(SimulatedUnits())
        self.cluster: Cluster | None = None
        self.said: dict[str, dict[str, Any]] = {}  # by unit, what is to be told of it
        self.wrong: list[str] = []
        self.verbs: set[str] = set()

    async def act(self, action: HandlerAction) -> Done:
        self.verbs.add(action.verb)
        done = await super().act(action)
        if action.actor == SITE:
            self._expect(f"{action.verb} of {action.unit}", action.lease_data, self._record(SITE, action, "authority"))
            if action.verb in ("setup", "modify"):
                address = {"address": f"10.0.{action.index}.{action.number}"}
                own = {"name": f"unit-{action.index}", "site": SITE, "fence": action.number}
                self.said[f"unit-{action.index}"] = address | own
                return Done(True, properties=address | LIES)
        else:
            record = self._record(TENANT, action, "service_manager")
            self._expect(f"{action.verb} on unit {action.index}", action.lease_data, record)
            if action.verb != "leave":  # the unit may be another lease's by then
                told = self.said.get(f"unit-{action.index}")
                self._expect(f"{action.verb} on unit {action.index}", action.properties, told)
        return done

    def _record(self, name: str, action: HandlerAction, machine: str) -> Any:
        assert self.cluster is not None
        held = self.cluster.actors[name].table.instances[RecordKey(action.lease, machine)]
        return held.core.view(held.record)

    def _expect(self, what: str, got: Any, wanted: Any) -> None:
        if got != wanted:
            self.wrong.append(f"{what} was told {got}, not {wanted}")


@pytest.mark.parametrize("restarts", [(), (SITE,), (TENANT,), (SITE, TENANT)], ids=" and ".join)
async def test_handlers_are_told_what_the_records_say_and_a_holder_what_handlers_say(restarts: tuple[str, ...]) -> None:
    told = Told()
    settings = {"repair_limit": 1, "replace_limit": 1}
    async with Cluster(units=4, handler=told, guest=told, settings=settings) as c:
        told.cluster = c

        async def then() -> None:
            for name in restarts:
                await c.kill(name)
                await c.start(name)
            await c.settle()
            for lease in ("tenant:1", "tenant:2"):
                data = at_holder(c, lease)
                assert c.state(lease)[0] == "active"
                said = {n: told.said[f"unit-{n}"] for n in sorted(data["lease_units"])}
                assert {n: data["unit_properties"][n] for n in said} == said

        first, second = await c.lease(2, until=200, term=20), await c.lease(1, until=200, term=20)
        await then()
        for _ in range(2):  # it is set up again, and then replaced
            await c.site.tell("-", "unit[1]", "lost", {})
            await c.advance(1)
            await then()
        assert at_holder(c, first)["lease_units"] == {0, 3}
        await c.tenant.command("service_manager", "flex", first, 1, soon=True, victims=[0])
        await c.advance(2)
        await then()
        assert at_holder(c, first)["lease_units"] == {3}
        await c.tenant.command("service_manager", "flex", second, 3, soon=True)  # also what the first has given back
        await c.advance(2)
        await then()
        assert at_holder(c, second)["lease_units"] == {0, 1, 2}
        assert told.wrong == []
        assert told.verbs == {"setup", "modify", "teardown", "join", "leave"}
