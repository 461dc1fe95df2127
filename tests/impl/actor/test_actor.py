"""Actors in one process: compiled cores, signed messages, stores and policies, with a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import NetworkConditions, PacketOutcome
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError, ActorOptions, Backoff, RetryPolicy
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.identity.envelope import Envelope, seal
from leasehold.impl.identity.trust import remove
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.lease.inventory import Inventory, InventoryError
from leasehold.impl.notices import Consumed, Kind, Notice, SimulatedCrash
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, Busy, Fenced, Older, RecordKey, StoreError
from leasehold.impl.transport.transport import Delivery
from tests.impl.demand import demand
from tests.systems import load


def up(cluster: Cluster) -> set[str]:
    return cluster.handler.world.on()


def commit_a_word(actor: Actor) -> Any:
    """Has an actor commit something."""
    actor.upcalls._kept["a word"] = b"1"
    return actor.read()


async def test_a_lease_lives_as_long_as_it_is_wanted() -> None:
    """Paper, section 2: units over a period, extended, and given back."""
    async with Cluster() as c:
        lease = await c.lease(2, until=35, term=10)
        assert c.state(lease) == ("active", "ticketed", "active")
        assert len(up(c)) == 2
        await c.advance(30)
        assert c.state(lease) == ("active", "ticketed", "active")
        assert len(up(c)) == 2
        await c.advance(8)
        assert c.state(lease) == ("closed", "closed", "closed")
        assert up(c) == set()


async def test_a_lease_grows_and_shrinks() -> None:
    async with Cluster() as c:
        lease = await c.lease(1, until=60, term=10)
        for units in (3, 2):
            await c.tenant.command("service_manager", "flex", lease, units, soon=True)
            await c.advance(12)
            assert c.state(lease) == ("active", "ticketed", "active")
            assert len(up(c)) == units


async def test_units_are_lent_one_after_the_other() -> None:
    """Paper, section 4.2.1: what an ended lease held serves the next request."""
    async with Cluster() as c:
        first = await c.lease(3, until=6, term=6)
        second = await c.lease(3, until=40, term=20)
        assert c.state(second)[0] == "ticketing"  # the inventory is promised until the first one ends
        assert len(up(c)) == 3
        await c.advance(15)
        assert c.state(first) == ("closed", "closed", "closed")
        assert c.state(second) == ("active", "ticketed", "active")
        assert len(up(c)) == 3
        assert not c.handler.world.overlaps


@pytest.mark.parametrize("name", [TENANT, BROKER, SITE])
@pytest.mark.parametrize("when", range(0, 24, 3))
async def test_an_actor_that_is_killed_recovers_by_itself(name: str, when: int) -> None:
    """Paper, section 3.3: from its own records alone; what runs in units goes on meanwhile."""
    async with Cluster() as c:
        lease = await c.lease(2, until=60, term=10)
        await c.advance(when)
        before = up(c)
        await c.kill(name)
        await asyncio.sleep(0)
        assert up(c) == before
        await c.start(name)
        await c.settle()
        await c.advance(12)
        assert c.state(lease) == ("active", "ticketed", "active")
        assert up(c) == before
        await c.advance(60)
        assert c.state(lease) == ("closed", "closed", "closed")
        assert up(c) == set()


@pytest.mark.parametrize("name", [BROKER, SITE])
async def test_a_lease_ends_with_its_term_while_a_peer_is_away(name: str) -> None:
    """And the peer learns of it when it comes back; a new request is then served."""
    async with Cluster() as c:
        lease = await c.lease(2, until=100, term=10)
        await c.kill(name)
        await c.advance(30)
        assert c.state(lease)[0] in ("closing", "closed")
        assert name == SITE or up(c) == set()
        await c.start(name)
        await c.advance(5)
        another = await c.lease(3, until=130, term=10)
        await c.advance(5)
        assert c.state(another) == ("active", "ticketed", "active")
        assert len(up(c)) == 3


@pytest.mark.parametrize("seed", range(8))
async def test_a_bad_network_changes_nothing_in_the_end(seed: int) -> None:
    """Paper, section 4.2: lost, doubled, late and overtaking messages; sequence numbers make an order of them."""
    options = ActorOptions(seed=seed, backoff=Backoff(first=0.001, longest=0.002, ask_again=0.02))
    async with Cluster(seed=seed, options=options) as c:
        c.network.conditions = NetworkConditions(lose=0.2, duplicate=0.2, unanswered=0.2, delay=0.005)
        leases = [await c.lease(1, until=40, term=10, name=f"tenant:{i + 1}") for i in range(4)]
        for _ in range(70):
            await c.advance()
            await asyncio.sleep(0.002)  # retries wait
        assert [c.state(lease) for lease in leases] == [("closed", "closed", "closed")] * 4
        assert up(c) == set()
        assert not c.handler.world.overlaps


class _Failing(MemoryStore):
    """A store whose disk is full for a while."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.full = False

    async def _commit(self, batch: Batch) -> None:
        if self.full:
            raise StoreError("the disk is full", "make room")
        await super()._commit(batch)


async def test_a_store_that_fails_stops_the_actor_until_it_is_back() -> None:
    """Fail-stop: no step is seen that was not committed, nothing that was is lost, and recovery goes on from there."""
    disks = {name: Disk() for name in (TENANT, BROKER, SITE)}
    stores: dict[str, _Failing] = {}

    def store(name: str) -> _Failing:
        stores[name] = _Failing(disks[name])
        return stores[name]

    async with Cluster(store=store) as c:
        told: list[Notice] = []
        c.broker.notices.subscribe(told.append)
        first = await c.lease(1, until=30)
        stores[BROKER].full = True
        second = await c.lease(1, until=30)
        for _ in range(100):
            await asyncio.sleep(0.001)
            if not c.broker.running:
                break
        assert Kind.STOPPED in {n.kind for n in told}
        assert c.state(second)[0] == "ticketing"
        stores[BROKER].full = False
        while not c.broker.running:
            await asyncio.sleep(0.005)
        assert Kind.RECOVERED in {n.kind for n in told}
        for _ in range(60):
            await asyncio.sleep(0.01)
            await c.settle()
        assert c.state(first) == ("active", "ticketed", "active")
        assert c.state(second) == ("active", "ticketed", "active")


async def test_two_copies_of_an_actor_cannot_both_act() -> None:
    """The one that was there first is fenced at its next commit, and ends."""
    async with Cluster() as c:
        await c.lease(1, until=30)
        old = c.broker
        with pytest.raises(Busy):
            await c.start(BROKER)
        await old.transport.close()
        c.disks[BROKER].crash()  # its lock was lost, as when a connection is cut
        await c.start(BROKER)
        assert (old.epoch, c.broker.epoch) == (1, 2)
        before = dict(c.disks[BROKER].records)
        with pytest.raises(ActorError, match="taken over"):
            await commit_a_word(old)
        with pytest.raises(Fenced):
            await old.over()
        assert c.disks[BROKER].records == before


async def test_the_scalpel_starts_the_work_of_one_machine_again() -> None:
    """Paper, section 4.2: a recovery event for one machine; it is harmless, and ends a wait for a lost answer."""
    async with Cluster() as c:
        lease = await c.lease(2, until=30)
        acts = c.handler.world.units["unit-0"].history.copy()
        await c.site.recover(lease, "authority")
        await c.site.recover("-", "unit[0]")
        await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")
        assert c.handler.world.units["unit-0"].history == acts  # an active unit asks for nothing
        with pytest.raises(ActorError, match="none of this name"):
            await c.site.recover("tenant:77", "authority")
        c.network.rule = lambda *frame: PacketOutcome(())  # a request is lost, and nobody remembers that it was sent
        waiting = RecordKey(await c.lease(1, until=30), "service_manager")
        c.tenant.outbox.forget(waiting)
        c.network.rule = None
        await c.settle()
        assert c.state(waiting.lease)[0] == "ticketing"
        await c.tenant.recover(*waiting)
        await c.settle()
        assert c.state(waiting.lease) == ("active", "ticketed", "active")


async def test_a_forced_close_is_legal_in_every_state() -> None:
    async with Cluster() as c:
        for ticks in range(6):
            lease = await c.lease(1, until=c.time.now + 30)
            await c.advance(ticks)
            await c.tenant.tell(lease, "service_manager", "close")
            await c.tenant.tell(lease, "service_manager", "close")
            await c.settle()
            assert c.state(lease) == ("closed", "closed", "closed")
        assert up(c) == set()


async def test_a_lease_that_is_over_is_forgotten_and_its_first_message_creates_nothing() -> None:
    async with Cluster(options=ActorOptions(seed=0, retire_after=20)) as c:
        parcels: list[bytes] = []
        carry = c.network.carry

        async def keep(source: str, target: str, parcel: bytes, *more: Any) -> Any:
            if target.endswith(BROKER):
                parcels.append(parcel)
            return await carry(source, target, parcel, *more)

        c.network.carry = keep  # type: ignore[method-assign]
        lease = await c.lease(1, until=5, term=5)
        await c.advance(12)
        assert c.state(lease) == ("closed", "closed", "closed")
        await c.advance(30)
        assert c.state(lease) == (None, None, None)
        assert lease in c.broker.table.pruned
        await c.kill(BROKER)
        await c.start(BROKER)
        reply = await carry("memory:tenant", "memory:broker", parcels[0])
        assert "forgotten" in reply.reason
        assert c.state(lease) == (None, None, None)
        assert not any(key.lease == lease for key in c.broker.table.instances)


async def test_a_subscriber_may_consume_a_message_and_its_errors_are_masked() -> None:
    async with Cluster() as c:

        def consume(notice: Notice) -> None:
            if notice.kind is Kind.SEND and notice.name == "redeem" and len(seen) < 1:
                seen.append(notice)
                raise Consumed
            raise RuntimeError("a bug in a subscriber")

        seen: list[Notice] = []
        c.tenant.notices.subscribe(consume)
        lease = await c.lease(1, until=30)
        assert c.state(lease) == ("redeeming", "ticketed", None)
        assert c.tenant.notices.masked > 0
        await c.tenant.recover(lease, "service_manager")
        await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")


async def test_nothing_catches_a_crash() -> None:
    async with Cluster() as c:

        def crash(notice: Notice) -> None:
            if notice.kind is Kind.COMMITTED:
                raise SimulatedCrash

        site = c.site
        site.notices.subscribe(crash)
        lease = await c.lease(1, until=30)
        assert not site.running
        with pytest.raises(SimulatedCrash):
            await site.over()
        await c.kill(SITE)
        await c.start(SITE)
        await c.advance(3)
        assert c.state(lease)[0] in ("redeeming", "active", "joining")
        for _ in range(50):
            await asyncio.sleep(0.01)
            await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")


async def test_a_handler_that_fails_is_tried_again_and_then_its_unit_is_not_given_out() -> None:
    """Bounded retries, then quarantine; never a return to the pool."""
    world = SimulatedUnits(fails=lambda action, chance: action.verb == "teardown" and action.unit == "unit-0")
    options = ActorOptions(seed=0, retry=RetryPolicy(tries=2, pause=0.0))
    async with Cluster(handler=SimulatedHandler(world), options=options, settings={"handler_limit": 5}) as c:
        lease = await c.lease(1, until=10)
        assert c.state(lease) == ("active", "ticketed", "active")
        await c.advance(14)
        for _ in range(20):
            await asyncio.sleep(0.005)
            await c.settle()
        assert c.state(lease)[2] == "closed"
        unit = c.site.table.below["unit"][0]
        core = c.program.roles["unit"]
        assert unit[0] == "failed"
        assert core.view(unit)["quarantined"]
        second = await c.lease(4, until=60)
        assert c.state(second)[2] != "active"


async def test_a_unit_in_quarantine_is_remembered_longer_than_its_lease() -> None:
    """After the lease is forgotten and the site has restarted, the unit is still not given out."""
    world = SimulatedUnits(fails=lambda action, chance: action.verb == "teardown" and action.unit == "unit-0")
    options = ActorOptions(seed=0, retire_after=5, retry=RetryPolicy(tries=1))
    async with Cluster(handler=SimulatedHandler(world), options=options, settings={"handler_limit": 5}) as c:
        lease = await c.lease(1, until=8, term=8)
        await c.advance(12)
        for _ in range(20):
            await asyncio.sleep(0.005)
            await c.settle()
        await c.advance(12)
        assert c.state(lease) == (None, None, None)
        await c.kill(SITE)
        await c.start(SITE)
        three = await c.lease(3, until=60, term=20)
        assert c.state(three) == ("active", "ticketed", "active")
        assert up(c) - {"unit-0"} == {"unit-1", "unit-2", "unit-3"}


async def test_leases_side_by_side_do_not_hold_each_other_s_units() -> None:
    """What one lease gives back is there for the next, while a third goes on."""
    async with Cluster() as c:
        long = await c.lease(1, until=200, term=50)
        for _ in range(4):
            now = c.time.now
            short = await c.lease(3, until=now + 10, term=10)
            assert c.state(short) == ("active", "ticketed", "active")
            await c.advance(14)
            assert c.state(short)[2] in ("closed", None)
        assert c.state(long) == ("active", "ticketed", "active")
        assert len(up(c)) == 1


@pytest.mark.parametrize("call", ["begin", "changed", "tick"])
@pytest.mark.parametrize("name", [TENANT, BROKER, SITE])
async def test_a_policy_that_fails_decides_nothing_and_harms_nobody(
    name: str, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster() as c:
        actor = c.actors[name]
        (policy,) = actor.environment.policies.values()
        right = getattr(policy, call)

        def wrong(*args: Any) -> Any:
            raise ZeroDivisionError("a mistake of the policy")

        setattr(policy, call, wrong)
        lease = await c.lease(1, until=50)
        await c.advance(2)
        assert actor.counts["policy errors"]
        assert "a mistake of the policy" in caplog.text
        setattr(policy, call, right)
        await actor.recover(
            lease, actor.program.roles[next(iter(actor.environment.policies))].role
        )  # it is asked again
        await c.advance(3)
        assert c.state(lease) == ("active", "ticketed", "active")


async def test_a_client_s_word_that_the_policy_refuses_changes_nothing() -> None:
    async with Cluster() as c:
        with pytest.raises(ActorError, match="nothing is wanted of lease 'tenant:9'"):
            await c.tenant.command("service_manager", "prolong", "tenant:9", 9)
        assert c.tenant.running
        assert not c.tenant.table.instances
        lease = await c.lease(1, until=20)
        assert c.state(lease)[0] == "active"


async def test_a_new_lease_has_a_name_that_none_had() -> None:
    async with Cluster(options=ActorOptions(seed=0, retire_after=5)) as c:
        for number in (1, 2, 7):
            await c.lease(1, until=5, term=5, name=f"tenant:{number}")
        assert [c.tenant.table.new_name("tenant") for _ in range(5)] == [f"tenant:{n}" for n in (3, 4, 5, 6, 8)]
        await c.advance(40)
        assert not c.tenant.table.instances
        await c.kill(TENANT)
        await c.start(TENANT)
        assert [c.tenant.table.new_name("tenant") for _ in range(5)] == [f"tenant:{n}" for n in (3, 4, 5, 6, 8)]
        assert c.tenant.table.new_name("other") == "other:1"


async def test_an_inventory_that_records_do_not_know_is_refused() -> None:
    """Records say numbers: a unit that came before the others would get their leases."""
    async with Cluster() as c:
        lease = await c.lease(1, until=50)
        right = c.inventory
        await c.kill(SITE)
        c.inventory = Inventory.parse({"units": [{"name": "fresh"}, {"name": "unit", "count": 4}]})
        with pytest.raises(InventoryError, match="unit 'unit-0' was number 0, and is now number 1"):
            await c.start(SITE)
        await c.actors[SITE].store.close()
        c.inventory = Inventory.parse({"units": [*({"name": u.name} for u in right.units), {"name": "fresh"}]})
        await c.start(SITE)
        await c.advance(2)
        assert c.state(lease) == ("active", "ticketed", "active")


async def test_peers_with_other_constants_do_not_talk_until_they_agree() -> None:
    """What one refuses for that is said again, so that an upgrade needs no order of starts."""
    async with Cluster(options=ActorOptions(seed=0, backoff=Backoff(first=0.01, longest=0.05))) as c:
        right = c.program
        await c.kill(BROKER)
        c.program = compile_system(load("lease", {"max_units": 4, "handler_limit": 7}))
        await c.start(BROKER)
        lease = await c.lease(1, until=50)
        assert c.state(lease) == ("ticketing", None, None)
        assert c.broker.counts["messages refused"]
        await c.kill(BROKER)
        c.program = right
        await c.start(BROKER)
        for _ in range(100):
            await asyncio.sleep(0.01)
            await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")


async def test_nothing_is_left_of_leases_that_are_forgotten() -> None:
    """What an actor has in memory is bounded by the leases that it holds, not by those that it ever held."""
    async with Cluster(options=ActorOptions(seed=0, retire_after=5)) as c:
        for _ in range(12):
            await c.lease(2, until=c.time.now + 5, term=5)
            await c.advance(20)
        for actor in c.actors.values():
            assert not any(key.lease.startswith("tenant:") for key in actor.table.instances)
            assert len(actor.table.driven) <= 2  # the units' last
            assert sum(map(len, actor.table.drivers.values())) <= 4
            assert len(actor.table._wakes) + len(actor.table._ended) <= 4
            assert len(actor.table.pruned) == 1
            assert not [word for word in actor.table.metadata if word.startswith("wish of ")]


async def test_an_empty_store_in_place_of_the_right_one_is_not_taken() -> None:
    """Who went on with it would have forgotten all leases, and lend their units again."""
    async with Cluster() as c:
        await c.lease(2, until=50)
        c.site.recovery.epoch += 7  # as if the disk had been of an older time
        with pytest.raises(Older, match="it is an older copy, or another store"):
            await c.site.recovery.acquire_store()
        c.site.recovery.epoch = c.disks[SITE].epoch + 1  # the opening that follows would be of the same epoch
        with pytest.raises(Older):
            await c.site.recovery.acquire_store()


async def test_trust_that_is_taken_away_and_given_back_is_made_up_for() -> None:
    """An operator's mistake costs nobody a lease: what was not believed is said again."""
    async with Cluster(options=ActorOptions(seed=0, backoff=Backoff(first=0.01, longest=0.05))) as c:
        whole = c.broker.identity.trust
        c.broker.identity.trust = remove(whole, TENANT)
        lease = await c.lease(1, until=50)
        assert c.state(lease) == ("ticketing", None, None)
        assert c.tenant.counts["refused by peers"] == 1
        message, reason = c.tenant.outbox.refusals[RecordKey(lease, "service_manager")]
        assert (message, reason) == ("ticket", "no actor 'tenant' is trusted here")
        assert c.broker.running
        c.broker.identity.trust = whole
        for _ in range(100):
            await asyncio.sleep(0.005)
            await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")
        assert not c.tenant.outbox.refusals
        c.broker.identity.trust = remove(whole, TENANT)  # it has a ticket to say, and nobody to say it to
        await c.broker.recover(lease, "broker")
        await c.settle()
        assert c.broker.running


@pytest.mark.parametrize("number", [2**63, 2**70])
async def test_a_number_that_no_store_can_hold_is_refused(number: int) -> None:
    async with Cluster() as c:
        with pytest.raises(ActorError, match="more than 64 bits"):
            await c.tenant.begin("tenant:1", "service_manager", "demand", demand(1, number), c.tenant.environment.peers)
        assert c.tenant.running
        lease = await c.lease(1, until=20)
        assert c.state(lease)[0] == "active"


async def test_a_wish_whose_commit_failed_was_never_made() -> None:
    stores: dict[str, _Failing] = {}
    disks = {name: Disk() for name in (TENANT, BROKER, SITE)}

    def store(name: str) -> _Failing:
        stores[name] = _Failing(disks[name])
        return stores[name]

    async with Cluster(store=store) as c:
        stores[TENANT].full = True
        with pytest.raises(ActorError, match="the disk is full"):
            await c.tenant.command("service_manager", "demand", "tenant:1", 1, 500, 10)
        stores[TENANT].full = False
        while not c.tenant.running:
            await asyncio.sleep(0.005)
        await c.settle()
        await c.advance(3)
        assert c.state("tenant:1") == (None, None, None)
        assert c.wish("tenant:1") is None


async def test_a_graceful_stop_does_what_was_accepted_and_keeps_nobody_waiting() -> None:
    async with Cluster() as c:
        done: list[int] = []
        words = [c.tenant.read(lambda n=n: done.append(n)) for n in range(3000)]  # type: ignore[misc]
        await c.tenant.stop()
        assert all(word.done() and word.exception() is None for word in words)
        assert done == list(range(3000))
        with pytest.raises(ActorError, match="has ended"):
            await c.tenant.read()
        await c.start(TENANT)


async def test_a_subscriber_may_alter_what_is_sent_and_what_is_received() -> None:
    """Paper, section 5.1."""
    async with Cluster() as c:

        def fewer(notice: Notice) -> Notice | None:
            if notice.kind is Kind.SEND and notice.name == "ticket":
                return replace(notice, data={**notice.data, "fields": {**notice.data["fields"], "units": 2}})
            return None

        def later(notice: Notice) -> Notice | None:
            if notice.kind is Kind.RECEIVE and notice.name == "ticket":
                return replace(notice, data={**notice.data, "fields": {**notice.data["fields"], "end": 7}})
            return None

        c.tenant.notices.subscribe(fewer)
        c.broker.notices.subscribe(later)
        lease = await c.lease(3, until=10, term=10)
        held = c.broker.table.instances[RecordKey(lease, "broker")]
        assert held.core.view(held.record)["units"] == 2
        assert held.core.view(held.record)["term_end"] == 7


async def test_a_consumed_commit_is_one_that_failed() -> None:
    async with Cluster(options=ActorOptions(seed=0, reopen_pause=0.01, backoff=Backoff(first=0.01, longest=0.05))) as c:
        left = [1]

        def once(notice: Notice) -> None:
            if notice.kind is Kind.COMMIT and left:
                left.clear()
                raise Consumed

        c.broker.notices.subscribe(once)
        lease = await c.lease(1, until=50)
        for _ in range(60):
            await asyncio.sleep(0.005)
            await c.settle()
        assert c.broker.epoch > 1
        assert c.state(lease) == ("active", "ticketed", "active")


async def test_a_refused_message_tells_nothing_of_its_sender() -> None:
    """A signed message for a machine that is not there must not raise the incarnation that its sender is held to."""
    async with Cluster() as c:
        await c.lease(1, until=50)
        before = dict(c.broker.table.metadata)
        envelope = Envelope(
            version=1,
            system="lease",
            digest=c.tenant.codec.agreement,
            sender=TENANT,
            receiver=BROKER,
            lease="tenant:9",
            sending_machine="service_manager",
            receiving_machine="nobody",
            message="ticket",
            number=1,
            epoch=2**60,
            store=c.tenant.codec.store,
            began=2**60,
            fields={"units": 1, "end": 9},
            reply_to="memory:evil",
        )
        body = seal(envelope, c.tenant.identity.key)
        assert (await c.broker.receive(body)).answer is Delivery.REFUSED
        assert c.broker.table.metadata == before
