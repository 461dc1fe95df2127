"""A cluster of web servers: members come and go with a lease, and no request fails that need not."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from leasehold.impl.handlers import processes
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.lease.fleet import SITE, TENANT, Fleet
from tests.examples.web import Balancer, Clients, Hands, cluster
from tests.waiting import wait_until

MISSING = [name for name in ("nginx", "haproxy") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(bool(MISSING), reason=f"it needs {' and '.join(MISSING)}"),
]


@pytest.fixture
def balancer() -> Iterator[Balancer]:
    with Balancer() as made:
        yield made


async def grown(hands: Hands, *names: str) -> None:
    for name in names:
        await hands.unit("setup", name)
        await hands.guest("join", name)


async def test_members_come_and_go(balancer: Balancer) -> None:
    hands = Hands(balancer)
    await grown(hands, "web-0", "web-1")
    assert balancer.members() == {"web-0", "web-1"}
    assert "no request was left" in await hands.guest("leave", "web-0")
    assert balancer.members() == {"web-1"}
    assert "it is no member" in await hands.guest("leave", "web-0")
    await hands.unit("teardown", "web-0")
    assert balancer.processes_of("web-0") == []
    assert balancer.units() == ["web-1"]


async def test_every_action_may_be_done_again(balancer: Balancer) -> None:
    hands = Hands(balancer)
    for verb in ("setup", "setup", "modify"):
        await hands.unit(verb, "web-0")
    before = balancer.processes_of("web-0")
    for verb in ("join", "join", "modify", "leave", "leave", "join"):
        await hands.guest(verb, "web-0")
    assert balancer.members() == {"web-0"}
    await hands.unit("setup", "web-0")
    assert balancer.processes_of("web-0") == before
    for _ in range(2):
        await hands.guest("leave", "web-0")
        await hands.unit("teardown", "web-0")
    assert balancer.members() == set()


async def test_a_unit_that_has_died_comes_back_at_its_address(balancer: Balancer) -> None:
    hands = Hands(balancer)
    await grown(hands, "web-0")
    assert await hands.units.is_up("web-0")
    before, address = balancer.processes_of("web-0"), hands.told["web-0"]["address"]
    balancer.kill_unit("web-0")
    wait_until(lambda: not balancer.processes_of("web-0"))
    assert await hands.units.is_up("web-0") is False
    await hands.unit("setup", "web-0")
    assert await hands.units.is_up("web-0")
    assert hands.told["web-0"]["address"] == address
    assert not set(before) & set(balancer.processes_of("web-0"))
    wait_until(lambda: balancer.members() == {"web-0"})  # HAProxy has seen it


@pytest.mark.long
async def test_of_a_unit_that_hangs_it_is_not_known_whether_it_is_up(balancer: Balancer) -> None:
    """An operator says what that means (`hung_is_missed`, `failed_is_missed`); a setup ends it, and begins anew."""
    hands = Hands(balancer)
    await hands.unit("setup", "web-0")
    before = balancer.processes_of("web-0")
    for seen in before:
        processes.send(seen, signal.SIGSTOP)
    with pytest.raises(HandlerError, match="probe ended with exit code 4; it said: timed out"):
        await hands.units.is_up("web-0")
    await hands.unit("setup", "web-0")
    assert await hands.units.is_up("web-0")
    assert not set(before) & set(balancer.processes_of("web-0"))


async def test_what_haproxy_forgets_is_back_when_it_starts_and_when_a_member_joins_again(balancer: Balancer) -> None:
    hands = Hands(balancer)
    await grown(hands, "web-0", "web-1")
    balancer.kill()
    assert "will start without it" in await hands.guest("leave", "web-1")
    balancer.start()
    wait_until(lambda: balancer.members() == {"web-0"})
    balancer.kill()
    shutil.rmtree(balancer.folder / "members")
    balancer.start()
    await hands.guest("modify", "web-0")
    await hands.guest("join", "web-1")
    assert balancer.members() == {"web-0", "web-1"}
    for name in ("web-0", "web-1"):  # also one that HAProxy has had from its start
        assert "no request was left" in await hands.guest("leave", name)
    assert balancer.members() == set()


async def test_a_member_at_another_address_is_asked_there(balancer: Balancer) -> None:
    hands = Hands(balancer)
    await grown(hands, "web-0")
    before = hands.told["web-0"]["address"]
    await hands.unit("teardown", "web-0")  # its holder was not told
    while hands.told["web-0"]["address"] == before:
        await hands.unit("teardown", "web-0")
        await hands.unit("setup", "web-0")
    await hands.guest("join", "web-0")
    assert balancer.members() == {"web-0"}


def shrunk(balancer: Balancer, drain_seconds: float, order: tuple[str, str]) -> Clients:
    """Requests of clients while a cluster shrinks from three members to one."""
    hands, clients = Hands(balancer, drain_seconds), Clients(balancer)

    async def run() -> None:
        await grown(hands, "web-0", "web-1", "web-2")
        with clients:
            await asyncio.sleep(1.5)
            for name in ("web-2", "web-0"):
                for verb in order:
                    await (hands.guest if verb == "leave" else hands.unit)(verb, name)
                await asyncio.sleep(0.3)
        assert balancer.members() == {"web-1"}

    asyncio.run(run())
    assert min(clients.answered[path] for path in Clients.PATHS) >= 6
    return clients


@pytest.mark.long
def test_no_request_fails_when_the_cluster_shrinks(balancer: Balancer) -> None:
    assert shrunk(balancer, 30.0, ("leave", "teardown")).failures == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("drain_seconds", "order"),
    [(0.0, ("leave", "teardown")), (30.0, ("teardown", "leave"))],
    ids=["a_leave_that_does_not_wait", "a_teardown_before_the_leave"],
)
def test_requests_fail_where_the_order_is_not_kept(
    balancer: Balancer, drain_seconds: float, order: tuple[str, str]
) -> None:
    assert shrunk(balancer, drain_seconds, order).failures


# With actors


class Holder:
    """A client of the service manager that has one lease."""

    def __init__(self, fleet: Fleet, units: int) -> None:
        self._client = fleet.client(TENANT)
        until = self._client.get("about")["now"] + 4000
        self.lease: str = self._client.post("demand", units=units, until=until, term=400)["lease"]

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get("leases", self.lease)[0]["data"]
        return found

    def state(self) -> str:
        found: str = self._client.get("leases", self.lease)[0]["state"]
        return found

    def flex(self, units: int) -> None:
        self._client.post("leases", self.lease, "flex", units=units, soon=True)

    def close(self) -> None:
        self._client.post("leases", self.lease, "tell", event="close")


@pytest.mark.long
def test_the_members_of_a_cluster_come_and_go_with_the_lease(balancer: Balancer) -> None:
    with cluster(balancer) as fleet:
        holder = Holder(fleet, 3)
        wait_until(lambda: holder.state() == "active")
        assert balancer.members() == {"unit-0", "unit-1", "unit-2"}
        with Clients(balancer) as clients:
            time.sleep(1.5)
            holder.flex(1)
            wait_until(lambda: len(balancer.units()) == 1)
            wait_until(lambda: holder.state() == "active")
            time.sleep(0.5)
            assert balancer.members() == {"unit-0"}  # the lowest ones are kept
            holder.flex(4)
            wait_until(lambda: len(balancer.members()) == 4)
        assert clients.failures == []
        assert min(clients.answered[path] for path in Clients.PATHS) >= 6
        told = holder.data["unit_properties"]
        assert [one["name"] for one in told] == [f"unit-{n}" for n in range(4)]
        assert len({one["address"] for one in told}) == 4
        before = balancer.processes_of("unit-2")
        balancer.kill_unit("unit-2")
        wait_until(lambda: bool(balancer.processes_of("unit-2")))
        wait_until(lambda: len(balancer.members()) == 4)
        assert not set(before) & set(balancer.processes_of("unit-2"))
        wait_until(lambda: holder.data["unit_properties"][2]["fence"] > told[2]["fence"])
        assert holder.data["unit_properties"][2]["address"] == told[2]["address"]
        holder.close()
        wait_until(lambda: balancer.units() == [])
        assert balancer.members() == set()
        wait_until(lambda: {row["state"] for row in fleet.client(SITE).get("leases")} == {"closed"})


@pytest.mark.long
@pytest.mark.parametrize("mistake", ["a_leave_that_does_not_wait", "a_holder_that_does_not_leave"])
def test_requests_fail_where_guests_do_not_leave_as_they_should(balancer: Balancer, mistake: str) -> None:
    fleet = cluster(balancer, drain_seconds=0.0 if mistake == "a_leave_that_does_not_wait" else 10.0)
    fleet.prepare()
    if mistake == "a_holder_that_does_not_leave":
        file = fleet.folder / f"{TENANT}.yaml"
        tenant = yaml.safe_load(file.read_text())
        del tenant["handler"]["leave"]
        file.write_text(yaml.safe_dump({**tenant, "handlers": {"leave": None}}))
    with fleet:
        holder = Holder(fleet, 3)
        wait_until(lambda: holder.state() == "active")
        with Clients(balancer) as clients:
            time.sleep(1.5)
            holder.flex(1)
            wait_until(lambda: len(balancer.units()) == 1)
            time.sleep(0.5)
        holder.close()
        wait_until(lambda: balancer.units() == [])
    assert clients.failures


@pytest.mark.long
def test_a_holder_that_is_killed_goes_on_where_it_was(balancer: Balancer) -> None:
    """Killed while members join, and while they leave; HAProxy is killed as well, and has forgotten who joined."""
    with cluster(balancer) as fleet:
        holder = Holder(fleet, 3)
        wait_until(lambda: holder.state() == "joining")
        fleet.kill(TENANT)
        fleet.start(TENANT)
        fleet.await_ready(TENANT)
        wait_until(lambda: holder.state() == "active")
        assert len(balancer.members()) == 3
        with Clients(balancer) as clients:
            time.sleep(1.5)
            holder.flex(1)
            wait_until(lambda: holder.state() == "extending_lease")
            fleet.kill(TENANT)
            fleet.start(TENANT)
            fleet.await_ready(TENANT)
            wait_until(lambda: len(balancer.units()) == 1)
            time.sleep(0.5)
        assert clients.failures == []
        balancer.kill()
        shutil.rmtree(balancer.folder / "members")
        balancer.start()
        holder.flex(2)  # an extension, at which all that are there join again
        wait_until(lambda: len(balancer.members()) == 2)
        holder.close()
        wait_until(lambda: balancer.units() == [])
