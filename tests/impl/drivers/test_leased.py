"""A real lease of real things: what its holder asks for reaches the unit, and what the unit has reaches the holder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.handlers.handler import Done, HandlerAction, NullHandler
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.policy import plugins
from tests.impl.drivers.machine import needs, said, seen
from tests.impl.drivers.test_composed import server
from tests.waiting import until

pytestmark = [needs("runc", "mkfs.ext4", "ip", "busybox"), pytest.mark.real_time, pytest.mark.long]


class Visitor(NullHandler):
    """A guest that joins a unit by asking it, at its address, who it is."""

    def __init__(self) -> None:
        self.met: dict[str, tuple[str, Mapping[str, Any]]] = {}

    async def act(self, action: HandlerAction) -> Done:
        if action.verb == "join" and "host.privIPAddr" in action.properties:
            address = action.properties["host.privIPAddr"]
            answer = await asyncio.to_thread(said, "timeout", "10", "busybox", "nc", address, "80")
            self.met[action.properties["name"]] = answer, dict(action.properties)
        return Done(True)


async def test_a_holder_meets_its_servers_at_their_addresses_and_they_are_gone_after_the_lease(
    units: Path, bridge: str, image: dict[str, Any], tmp_path: Path
) -> None:
    """ORCA report, section 3.8; types of units have handlers of their own (paper, section 4.3.2)."""
    config = server(units, bridge, image)
    types = [
        {"type": "server", "handler": {"name": "composed", **config}},
        {"type": "job", "handler": {"name": "process", "directory": str(tmp_path / "jobs")}},
    ]
    handler = plugins.make("handler", "by_type", {"directory": str(tmp_path / "choices"), "types": types})
    guest = Visitor()
    cluster = Cluster(units=3, handler=handler, guest=guest, settings={"handler_limit": 1000, "guest_limit": 1000})
    listed = [
        {"name": "job-0", "type": "job"},
        {"name": "srv", "type": "server", "count": 2, "properties": {"net.rate": "80Mbit"}},
    ]
    cluster.inventory = Inventory.parse({"units": listed})
    async with cluster:
        asked = {"configuration": {"host.prefix": "cats", "admin.key": "ssh-ed25519 AAAA me"}}
        await cluster.tenant.command("service_manager", "demand", "tenant:1", 2, 500, 500, type="server", **asked)
        await cluster.tenant.command("service_manager", "demand", "tenant:2", 1, 500, 500, type="job")
        await until(lambda: len(guest.met) == 2, 60)
        for number in range(2):
            answer, told = guest.met[f"srv-{number}"]
            assert answer == f"srv-{number} of tenant\n"
            assert told["host.name"] == f"cats{number + 1}", "by the unit's number"
            assert told["host.key"].startswith("ssh-ed25519 ")
            keys = units / f"srv-{number}/volume/mounted/upper/root/.ssh/authorized_keys"
            assert keys.read_text() == "ssh-ed25519 AAAA me\n"
        await until(lambda: cluster.state("tenant:2")[0] == "active", 60)
        assert await handler.is_up("job-0")
        assert [one["rates"] for one in seen(units, bridge)["links"]] == [[["tbf", 10_000_000]] * 2] * 2
        for lease in ("tenant:1", "tenant:2"):
            await cluster.tenant.command("service_manager", "stop", lease)
        await until(lambda: not {*seen(units, bridge)} and cluster.state("tenant:1")[0] == "closed", 60)
        assert await handler.left_of("job-0") == ""
