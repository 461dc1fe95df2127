"""Several holders, brokers and sites: who leases what from whom."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Federation
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import remove, revoke, rotate
from leasehold.impl.lease.arbiter import Arbiter, Request
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.policy.policy import Decision, Question
from leasehold.impl.store.memory import Disk
from leasehold.impl.store.store import RecordKey

SITES = {"east": {"node": 3}, "west": {"node": 2, "disk": 2}, "south": {"disk": 1}}
BROKERS = {"market": {"east": {"node": 3}, "west": {"disk": 2}}, "bazaar": {"west": {"node": 2}, "south": {"disk": 1}}}
HOLDERS = ("anna", "ben")


def federation(**more: Any) -> Federation:
    return Federation(SITES, BROKERS, HOLDERS, **more)


async def leased(cluster: Federation, lease: str, units: int, **more: Any) -> dict[str, str]:
    holder = lease.partition(":")[0]
    await cluster.demand(holder, lease, units, 30, **more)
    await cluster.settle()
    await cluster.advance(2)
    return cluster.states(lease)


async def test_a_lease_is_redeemed_at_the_site_that_its_ticket_names() -> None:
    async with federation() as cluster:
        assert await leased(cluster, "anna:1", 2, type="node", broker="market") == {
            "anna": "active",
            "market": "ticketed",
            "east": "active",
        }
        assert await leased(cluster, "anna:2", 1, type="node", broker="bazaar") == {
            "anna": "active",
            "bazaar": "ticketed",
            "west": "active",
        }
        assert await leased(cluster, "ben:1", 2, type="disk", site="west", broker="market") == {
            "ben": "active",
            "market": "ticketed",
            "west": "active",
        }
        assert {name: len(handler.world.on()) for name, handler in cluster.handlers.items()} == {
            "east": 2,
            "west": 3,
            "south": 0,
        }
        await cluster.advance(40)
        assert {state for lease in ("anna:1", "anna:2", "ben:1") for state in cluster.states(lease).values()} == {
            "closed"
        }


async def test_holders_ask_the_brokers_that_they_trust_in_turn() -> None:
    async with federation() as cluster:
        asked = [await leased(cluster, f"anna:{n}", 1, type="node") for n in range(1, 5)]
        assert [next(name for name in states if name in BROKERS) for states in asked] == [
            "bazaar",
            "market",
            "bazaar",
            "market",
        ]
        assert all("active" in states.values() for states in asked)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"broker": "markt"}, "nobody trusts 'markt', so it cannot play broker; did you mean market"),
        ({"broker": "east"}, "'east' is trusted as authority, so it cannot play broker"),
        ({"site": "nord"}, r"nobody trusts 'nord', so it cannot play authority \(there are: east, south, west\)"),
    ],
)
async def test_a_peer_that_nobody_can_reach_is_told_at_once(more: dict[str, str], why: str) -> None:
    async with federation() as cluster:
        with pytest.raises(ActorError, match=why):
            await leased(cluster, "anna:1", 1, type="node", **more)
        assert cluster.states("anna:1") == {}


async def test_a_site_of_which_the_broker_has_nothing_is_denied_and_nothing_is_booked() -> None:
    async with federation() as cluster:
        states = await leased(cluster, "ben:1", 1, type="node", broker="market", site="south")
        assert states == {"ben": "failed", "market": "closed"}
        instance = cluster.actors["ben"].table.instances[RecordKey("ben:1", "service_manager")]
        reason = instance.core.view(instance.record)["ticket_reason"]
        assert reason == "this broker has units of type node at east, and the holder can have them at south"
        assert cluster.actors["market"].environment.policies["broker"].free == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize("victim", ["anna", "market", "east"])
async def test_each_actor_that_is_killed_goes_on_with_the_peers_of_its_leases(victim: str) -> None:
    async with federation() as cluster:
        await cluster.demand("anna", "anna:1", 2, 60, 10, type="node", broker="market")
        for _ in range(6):
            await cluster.kill(victim)
            await cluster.restart(victim)
            await cluster.settle()
            await cluster.advance(3)
        assert cluster.states("anna:1") == {"anna": "active", "market": "ticketed", "east": "active"}
        await cluster.advance(60)
        assert set(cluster.states("anna:1").values()) == {"closed"}
        assert not any(handler.world.on() for handler in cluster.handlers.values())


async def test_a_lease_does_not_change_its_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that extends a ticket for another site is not heard: its holder has units at the first."""
    elsewhere = Arbiter._extension

    def moved(self: Arbiter, question: Question, asked: Request, now: int) -> Decision:
        decision = elsewhere(self, question, asked, now)
        properties = {**decision.fields["properties"], "authority": "west"}
        return question.answer(decision.event, **{**decision.fields, "properties": properties})

    async with federation() as cluster:
        assert (await leased(cluster, "anna:1", 2, type="node", broker="market"))["east"] == "active"
        monkeypatch.setattr(Arbiter, "_extension", moved)
        await cluster.advance(7)
        assert cluster.states("anna:1") == {"anna": "extending_ticket", "market": "ticketed", "east": "active"}
        assert cluster.actors["market"].outbox.refusals == {
            RecordKey("anna:1", "broker"): (
                "update_ticket",
                "authority of anna:1 is east, and cannot become west; another lease may have it there",
            )
        }


async def test_a_holder_takes_no_ticket_for_a_site_that_it_does_not_trust() -> None:
    async with federation() as cluster:
        anna = cluster.actors["anna"].identity
        anna.trust = remove(anna.trust, "east")
        await cluster.demand("anna", "anna:1", 1, 30, type="node", broker="market")
        await cluster.settle()
        assert cluster.states("anna:1") == {"anna": "failed", "market": "closed"}
        assert cluster.actors["market"].environment.policies["broker"].free == 5  # type: ignore[attr-defined]


async def test_a_broker_that_has_lost_its_store_waits_out_what_it_may_have_promised() -> None:
    """Its site still holds the units, and its peers hear it by a new key alone; meanwhile requests wait."""
    broker = partial(FirstComeFirstServed, longest_term=20)
    async with Federation({"east": {"node": 2}}, {"market": {"east": {"node": 2}}}, HOLDERS, broker) as cluster:
        await cluster.advance(21)
        assert (await leased(cluster, "anna:1", 2, term=12))["east"] == "active"
        await cluster.kill("market")
        lost, key = cluster._identities["market"].key.public, PrivateKey.generate()
        for identity in cluster._identities.values():
            identity.trust = revoke(rotate(identity.trust, "market", key.public), "market", lost.fingerprint)
        cluster._identities["market"].key = key
        cluster.disks["market"] = Disk()
        await cluster.restart("market")
        before = cluster.time.now
        await cluster.advance(6)
        await cluster.demand("ben", "ben:1", 2, 90, 18)
        await cluster.settle()
        assert cluster.states("ben:1") == {"ben": "ticketing", "market": "ticketing"}
        undecided = cluster.actors["market"].upcalls.undecided(RecordKey("ben:1", "broker"), cluster.time.now)
        assert undecided is not None
        assert f"store is new since tick {before}, and tickets that it may have issued before" in undecided.words
        while cluster.time.now < before + 20:
            assert cluster.states("ben:1")["market"] == "ticketing"
            await cluster.advance(1)
        await cluster.settle()
        assert cluster.states("ben:1")["market"] == "ticketed"


async def test_a_demand_is_content_with_less_where_not_all_is_free() -> None:
    """Fewer units at first, and as many as were wanted once they are free; or as many, but later."""
    sites = {"east": {"node": 3}}
    async with Federation(sites, {"market": sites}, HOLDERS, settings={"other_terms": True}) as cluster:
        assert "active" in (await leased(cluster, "anna:1", 2, term=30)).values()
        await cluster.demand("ben", "ben:1", 3, 80, 10, least=1)
        await cluster.demand("ben", "ben:2", 2, 20, 10, latest_start=60)
        await cluster.settle()
        await cluster.advance(1)
        assert cluster.states("ben:1") == {"ben": "active", "market": "ticketed", "east": "active"}
        assert len(cluster.handlers["east"].world.on()) == 3
        holder = cluster.actors["ben"].table.instances[RecordKey("ben:2", "service_manager")]
        data = holder.core.view(holder.record)
        assert (holder.state, data["ticket_units"], data["ticket_start"]) == ("ticketed", 2, 32)
        assert cluster.actors["ben"].environment.policies["service_manager"].wish("ben:2").until == 32 + 18  # type: ignore[attr-defined]
        await cluster.advance(data["ticket_start"] - cluster.time.now + 1)
        assert cluster.states("ben:2") == {"ben": "active", "market": "ticketed", "east": "active"}


async def restarted(cluster: Federation) -> Any:
    """The policy of a broker that has restarted, once it has settled."""
    await cluster.kill("market")
    await cluster.restart("market")
    await cluster.settle()
    return cluster.actors["market"].environment.policies["broker"]


async def test_a_broker_that_restarts_twice_serves_in_the_order_in_which_requests_came() -> None:
    """The later ones end sooner, and the last comes between the restarts."""
    async with Federation({"east": {"node": 1}}, {"market": {"east": {"node": 1}}}, HOLDERS) as cluster:
        await leased(cluster, "anna:1", 1, term=30)
        for number, term in ((1, 25), (2, 20)):
            await cluster.demand("ben", f"ben:{number}", 1, 60, term)
            await cluster.settle()
        assert (await restarted(cluster)).waiting == ("ben:1", "ben:2")
        await cluster.demand("ben", "ben:3", 1, 60, 15)
        await cluster.settle()
        assert (await restarted(cluster)).waiting == ("ben:1", "ben:2", "ben:3")


async def test_a_store_is_new_once_and_one_of_before_that_was_noted_never_was() -> None:
    async with federation() as cluster:
        await cluster.advance(3)
        assert (await leased(cluster, "anna:1", 1, type="node", broker="market"))["anna"] == "active"
        first = cluster.disks["market"].metadata["since"]
        await cluster.advance(5)
        assert (await restarted(cluster))._since == int(first) < cluster.time.now
        del cluster.disks["market"].metadata["since"]
        assert (await restarted(cluster))._since is None, "it has commits from before"
