"""Tickets that are cut from delegations: the broker carries the chain along, and the site believes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.faults.simulation.lease import Federation
from leasehold.impl import files
from leasehold.impl.lease import delegation, ticket
from leasehold.impl.lease.arbiter import Arbiter
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.delegation import convict, read_chain
from leasehold.impl.lease.delegations import HandedOn, Published
from leasehold.impl.lease.policies.auction import Auction
from leasehold.impl.lease.policies.earliest_deadline import EarliestDeadline
from leasehold.impl.lease.policies.proportional_share import ProportionalShare
from leasehold.impl.store.store import RecordKey

UNITS, START, END = 4, 1, 200


class Delegating(Federation):
    """A site whose units are handed on to `market`, which hands some on to `stall`; the folders are as published."""

    def __init__(self, folder: Path, sold_by: dict[str, int] | None = None, **more: Any) -> None:
        self.sold_by = sold_by or {"market": 2, "stall": 2}
        brokers: dict[str, dict[str, dict[str, int]]] = {"market": {}, "stall": {}}
        super().__init__({"east": {"node": UNITS}}, brokers, ("anna", "ben"), folder=folder, **more)
        east, market = (self._identities[name].key for name in ("east", "market"))
        find = self.trust.find
        terms = {"lease": "east:1", "resource": "node"}
        self.stock = delegation.stock(east, site=find("east"), units=UNITS, start=START, end=END, **terms)
        self.market = delegation.cut(
            east, self.stock, holder=find("market"), serial=1, units=UNITS, start=START, end=END
        )
        self.stall = delegation.cut(market, self.market, holder=find("stall"), serial=1, units=2, start=START, end=END)
        self.publish("east", 0, "", (HandedOn("market", 1, UNITS, END, False),))
        self.publish("market", self.sold_by["market"], self.market, (HandedOn("stall", 1, 2, END, False),))
        self.publish("stall", self.sold_by["stall"], self.stall, ())

    def publish(
        self,
        actor: str,
        own: int,
        chain: str,
        out: tuple[HandedOn, ...],
        withdrawing: bool = False,
        name: str = "",
        end: int = END,
    ) -> None:
        """Publishes the record of an actor of delegations."""
        assert self._folder is not None
        folder = self._folder / actor
        folder.mkdir(exist_ok=True)
        one = Published(
            run="east:1",
            machine="holder",
            actor=actor,
            site="east",
            type="node",
            units=UNITS,
            start=START,
            end=end,
            above="",
            chain=chain,
            own=own,
            own_end=end,
            withdrawing=withdrawing,
            name=name or f"{actor}-own",
            out=out,
        )
        files.replace(folder / "one.delegation", msgspec.json.encode(one), 0o600)

    async def lease(self, lease: str, units: int, **more: Any) -> dict[str, str]:
        await self.advance(1)
        await self.demand(lease.partition(":")[0], lease, units, 60, **{"broker": "market", **more})
        await self.settle()
        await self.advance(1)
        return self.states(lease)

    def refusal(self, holder: str, lease: str) -> str:
        """Why the holder's last message of a lease was refused."""
        refused = self.actors[holder].outbox.refusals.get(RecordKey(lease, "service_manager"))
        return "" if refused is None else refused[1]


@pytest.mark.parametrize("policy", [FirstComeFirstServed, EarliestDeadline, ProportionalShare, Auction])
async def test_a_ticket_carries_the_chain_of_the_units_that_it_is_cut_from(
    policy: type[Arbiter], tmp_path: Path
) -> None:
    async with Delegating(tmp_path, broker=policy) as cluster:
        assert await cluster.lease("anna:1", 2) == {"anna": "active", "market": "ticketed", "east": "active"}
        assert await cluster.lease("ben:1", 2, broker="stall") == {
            "ben": "active",
            "stall": "ticketed",
            "east": "active",
        }
        for holder, chain in (("anna", cluster.market), ("ben", cluster.stall)):
            text = (
                cluster.actors[holder].table.instances[RecordKey(f"{holder}:1", "service_manager")].metadata["ticket"]
            )
            assert ticket.said(text).properties["chain"] == chain
            assert read_chain(chain, cluster.trust, authority="east").last.holder == ticket.said(text).issuer
        assert await cluster.lease("anna:2", 1) == {"anna": "ticketing", "market": "ticketing"}, "all are promised"
        await cluster.advance(70)
        assert set(cluster.states("anna:1").values()) == {"closed"}


async def test_no_ticket_outlives_the_units_that_it_is_cut_from(tmp_path: Path) -> None:
    async with Delegating(tmp_path) as cluster:
        await cluster.advance(1)
        await cluster.demand("anna", "anna:1", 1, END + 50, END + 40, broker="market")
        await cluster.settle()
        holder = cluster.actors["anna"].table.instances[RecordKey("anna:1", "service_manager")]
        assert holder.core.view(holder.record)["ticket_reason"] == (
            f"the units of type node are this broker's from tick {START} until {END}"
        )


async def test_units_that_are_called_back_are_not_sold_and_given_back_once_no_ticket_is_out(tmp_path: Path) -> None:
    async with Delegating(tmp_path) as cluster:
        assert (await cluster.lease("anna:1", 1))["east"] == "active"
        cluster.publish("market", 2, cluster.market, (), withdrawing=True)
        assert await cluster.lease("ben:1", 1) == {"ben": "failed", "market": "closed"}
        assert not (tmp_path / "market" / "market-own.withdrawn").exists(), "a ticket is out"
        assert cluster.states("anna:1")["east"] == "active", "it is honoured until its end"
        await cluster.advance(70)
        assert (tmp_path / "market" / "market-own.withdrawn").exists()


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        ("no chain", "the units of east are handed on, and the ticket carries no chain"),
        ("chain of another", "the units were handed on to stall, and market shows the chain"),
        ("revoked", "the units of market were given back to east, or it never handed them on"),
        ("forged", "is none of market"),
        ("widened", "market has 4 units, and hands on 9"),
    ],
)
async def test_a_ticket_that_was_cut_from_nothing_is_refused_with_its_reason(
    attack: str, why: str, tmp_path: Path
) -> None:
    async with Delegating(tmp_path) as cluster:
        broker = "stall" if attack in ("forged", "widened") else "market"
        credentials: Any = cluster.actors[broker].environment.credentials
        market, stall = (cluster._identities[name].key for name in ("market", "stall"))
        bad = {
            "no chain": "",
            "chain of another": cluster.stall,
            "revoked": cluster.market,
            "forged": delegation.cut(
                stall, cluster.market, holder=cluster.trust.find("stall"), serial=1, units=2, start=START, end=END
            ),
            "widened": delegation.cut(
                market, cluster.market, holder=cluster.trust.find("stall"), serial=1, units=9, start=START, end=END
            ),
        }[attack]
        credentials._chain = lambda name: bad
        if attack == "revoked":
            cluster.publish("east", 0, "", ())
        assert (await cluster.lease("anna:1", 1, broker=broker))["anna"] == "redeeming"
        assert why in cluster.refusal("anna", "anna:1")
        assert not cluster.handlers["east"].world.on()


async def test_a_broker_that_promises_more_than_it_has_is_convicted_by_tickets(tmp_path: Path) -> None:
    async with Delegating(tmp_path, {"market": 9, "stall": 2}) as cluster:
        assert (await cluster.lease("anna:1", 3))["east"] == "active"
        assert (await cluster.lease("ben:1", 2))["ben"] == "redeeming"
        assert "leasehold tickets convict" in cluster.refusal("ben", "ben:1")
        assert "market" in cluster.refusal("ben", "ben:1")
        texts = [
            cluster.actors[holder].table.instances[RecordKey(f"{holder}:1", "service_manager")].metadata["ticket"]
            for holder in ("anna", "ben")
        ]
        assert len(convict(texts, cluster.trust)) == 1, "anyone can check it"
        assert convict(texts[:1], cluster.trust) == []


async def test_units_that_a_broker_had_before_its_store_are_waited_out(tmp_path: Path) -> None:
    """It may have sold tickets of them of which it knows nothing."""
    async with Delegating(tmp_path) as cluster:
        await cluster.advance(2)
        await cluster.kill("market")
        cluster.disks["market"].__init__()  # type: ignore[misc]
        await cluster.restart("market")
        assert (await cluster.lease("anna:1", 1))["market"] == "ticketing"
        waits = cluster.actors["market"].upcalls.undecided(RecordKey("anna:1", "broker"), cluster.time.now)
        assert waits is not None
        assert (
            f"store is new since tick 2, and tickets that it may have issued before count until tick {END}"
            in waits.words
        )


async def test_a_broker_may_sell_anew_what_was_given_back(tmp_path: Path) -> None:
    """The ticket of a lease that is over at its site convicts nobody, though its term goes on."""
    async with Delegating(tmp_path, {"market": UNITS, "stall": 2}) as cluster:
        assert (await cluster.lease("anna:1", UNITS, term=50))["east"] == "active"
        await cluster.actors["anna"].tell("anna:1", "service_manager", "close")
        await cluster.settle()
        await cluster.advance(1)
        assert set(cluster.states("anna:1").values()) == {"closed"}
        assert await cluster.lease("ben:1", UNITS, term=50) == {"ben": "active", "market": "ticketed", "east": "active"}
        old, new = (ticket_of(cluster, lease) for lease in ("anna:1", "ben:1"))
        (found,) = convict([old, new], cluster.trust)
        assert (found.accused, found.cleared_by) == ("market", ("anna", "ben"))
        releases = (tmp_path / "market" / "market.releases").read_text().splitlines()
        assert convict([old, new], cluster.trust, releases) == [], "it shows that the first had come back"
        await cluster.kill("market")
        await cluster.restart("market")
        assert (tmp_path / "market" / "market.releases").read_text().splitlines() == releases


async def test_a_broker_may_sell_anew_what_a_smaller_ticket_leaves(tmp_path: Path) -> None:
    async with Delegating(tmp_path, {"market": UNITS, "stall": 2}) as cluster:
        assert (await cluster.lease("anna:1", UNITS, term=20))["east"] == "active"
        larger = ticket_of(cluster, "anna:1")
        await cluster.actors["anna"].command("service_manager", "flex", "anna:1", 1)
        for _ in range(20):
            await cluster.advance(1)
            if (tmp_path / "market" / "market.releases").exists():
                break
        smaller = ticket_of(cluster, "anna:1")
        assert (ticket.said(larger).units, ticket.said(smaller).units) == (UNITS, 1)
        assert (await cluster.lease("ben:1", UNITS - 1, term=50))["ben"] == "active"
        papers = [larger, smaller, ticket_of(cluster, "ben:1")]
        (found,) = convict(papers, cluster.trust)
        releases = (tmp_path / "market" / "market.releases").read_text().splitlines()
        assert (found.accused, convict(papers, cluster.trust, releases)) == ("market", [])


async def test_tickets_are_cut_until_the_end_of_units_that_are_prolonged(tmp_path: Path) -> None:
    """As soon as that is published, and no longer; tickets that are out stay as they are."""
    async with Delegating(tmp_path) as cluster:
        assert (await cluster.lease("anna:1", 1))["east"] == "active"
        east, find = cluster._identities["east"].key, cluster.trust.find
        later = END + 50
        terms = {"lease": "east:1", "resource": "node", "start": START, "end": later}
        stock = delegation.stock(east, site=find("east"), units=UNITS, **terms)
        terms = {"units": UNITS, "start": START, "end": later}
        market = delegation.cut(east, stock, holder=find("market"), serial=1, **terms)
        cluster.publish("market", 2, market, (), end=later)
        ends = {"ben:1": (later + 1, "failed"), "ben:2": (later, "active")}
        for lease, (end, state) in ends.items():
            await cluster.advance(1)
            await cluster.demand("ben", lease, 1, end - 2, end - 2 - cluster.time.now, broker="market")
            await cluster.settle()
            await cluster.advance(1)
            assert cluster.states(lease)["ben"] == state, lease
        assert cluster.states("anna:1")["east"] == "active"


def ticket_of(cluster: Delegating, lease: str) -> str:
    """The last ticket of a lease, as its holder keeps it."""
    kept = cluster.actors[lease.partition(":")[0]].table.instances[RecordKey(lease, "service_manager")].metadata
    return str(kept["ticket"])
