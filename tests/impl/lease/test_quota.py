"""Quotas of clients: random commands, denials, ends and crashes against a twin that counts every tick; many at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace as with_fields
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leasehold.faults.simulation.embedded import Embedded
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorError, ActorOptions, Environment
from leasehold.impl.actor.table import ACCOUNT, WISH
from leasehold.impl.lease.fleet import BROKER, TENANT
from leasehold.impl.lease.quota import Account, ClientAccounts, Quota, Sum, Use
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.store.store import RecordKey

QUOTAS = {"alice": Quota(leases=2, unit_ticks=20, per=8), "bob": Quota(leases=1), "carol": Quota(unit_ticks=9, per=5)}
LATEST = 60


class ClientCluster(Cluster):
    """A cluster whose tenant has clients."""

    quotas: Mapping[str, Quota] = QUOTAS

    def _environment(self, name: str) -> Environment:
        environment = super()._environment(name)
        return with_fields(environment, accounts=ClientAccounts(lambda: self.quotas)) if name == TENANT else environment

    @property
    def accounts(self) -> ClientAccounts:
        accounts = self.tenant.environment.accounts
        assert isinstance(accounts, ClientAccounts)
        return accounts

    async def ask(self, client: str, method: str, *arguments: Any, **options: Any) -> str:
        """Asks for something; returns why it is refused, or nothing."""
        try:
            await self.tenant.command("service_manager", method, *arguments, client=client, **options)
        except ActorError as error:
            return str(error)
        return ""

    def kept(self) -> dict[str, Account]:
        """The accounts on the tenant's disk."""
        accounts = ClientAccounts(lambda: self.quotas)
        for name, body in self.disks[TENANT].metadata.items():
            if name.startswith(ACCOUNT):
                accounts.restore(name.removeprefix(ACCOUNT), body)
        return accounts._accounts


class Twin:
    """A lease, tick by tick: what it is charged, as somebody would count who has much time."""

    def __init__(self, client: str, units: int, start: int, until: int) -> None:
        self.client, self.units, self.until = client, units, until
        self.ticks = Counter(dict.fromkeys(range(start, until), units))
        self.fewer = 0
        self.over = self.had = False

    def changed(self, units: int | None, until: int | None, now: int, start: int) -> Counter[int]:
        ticks = self.ticks.copy()
        if until is not None:
            ticks |= Counter(dict.fromkeys(range(self.until, until), self.units))
        if units is not None and units > self.units:
            ticks |= Counter(dict.fromkeys(range(max(now, start), self.until), units))
        return ticks


class ClientsAndCrashes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        cluster = ClientCluster(4, options=ActorOptions(retire_after=3))
        self.driver = Embedded[ClientCluster](cluster, cluster.system)
        self.c = cluster
        self.twins: dict[str, Twin] = {}
        self.starts: dict[str, int] = {}

    def teardown(self) -> None:
        self.driver.advance(LATEST)
        assert {lease: account for lease, account in self.c.kept().items() if account.over < 0} == {}
        self.driver.advance(2 * 10)
        assert self.c.kept() == {}, "an account is forgotten with its lease and its period"
        assert [n for n in self.c.disks[TENANT].metadata if n.startswith((ACCOUNT, WISH))] == []
        self.driver.stop()

    # The twin

    def ask(self, client: str, method: str, *arguments: Any, **options: Any) -> str:
        answers: list[str] = []

        async def work() -> None:
            answers.append(await self.c.ask(client, method, *arguments, **options))
            await self.c.settle()

        self.driver._run(work())
        return answers[0]

    def fits(self, client: str, more: Counter[int], lease: str) -> bool:
        """Returns whether no period has more than the quota where it has more than before."""
        quota, now = QUOTAS[client], self.c.clocks[TENANT].now()
        if quota.per is None:
            return True
        there, without = Counter[int](), Counter[int]()
        for name, twin in self.twins.items():
            if twin.client == client:
                there.update(twin.ticks)
                without.update({} if name == lease else twin.ticks)
        then = without + more
        for start in range(0, 3 * LATEST, quota.per):
            period = range(start, start + quota.per)
            before, after = (sum(ticks[t] for t in period) for ticks in (there, then))
            if start + quota.per > now and after > max(before, quota.unit_ticks or 0):
                return False
        return True

    def look(self) -> None:
        """Learns from the tenant's records which leases are over, had units, or have given some back."""
        now, table = self.c.clocks[TENANT].now(), self.c.tenant.table
        for lease, twin in self.twins.items():
            instance = table.instances.get(RecordKey(lease, "service_manager"))
            if twin.over:
                continue
            data = instance.core.view(instance.record) if instance is not None else {}
            twin.had = twin.had or bool(data.get("lease_units"))
            if instance is None or instance.core.over(instance.state):
                twin.over = True
                twin.ticks = Counter({t: n for t, n in twin.ticks.items() if t < now}) if twin.had else Counter()
            elif (
                twin.fewer
                and max(len(data["lease_units"]), data["ticket_units"], data["requested_units"]) <= twin.fewer
            ):
                twin.units, twin.fewer = twin.fewer, 0
                for t in twin.ticks:
                    if t >= max(now, self.starts[lease]):
                        twin.ticks[t] = twin.units

    def wanted(self, client: str) -> list[str]:
        return [lease for lease, twin in self.twins.items() if twin.client == client and self.c.wish(lease) is not None]

    # Rules

    @rule(
        client=st.sampled_from(sorted(QUOTAS)),
        units=st.integers(1, 4),
        later=st.integers(0, 6),
        length=st.integers(1, 20),
        term=st.integers(2, 6),
    )
    def demand(self, client: str, units: int, later: int, length: int, term: int) -> None:
        now, lease = self.c.clocks[TENANT].now(), self.c.new_lease()
        start, until = now + later, now + later + length
        open_leases = sum(twin.client == client and not twin.over for twin in self.twins.values())
        most = QUOTAS[client].leases
        twin = Twin(client, units, start, until)
        fits = (most is None or open_leases < most) and self.fits(client, twin.ticks, lease)
        self.starts[lease] = start
        before = self.c.kept()
        if fits:
            self.twins[lease] = twin
        why = self.ask(client, "demand", lease, units, until, term, start=start)
        self.look()
        assert (why == "") == fits, why
        if why:
            assert client in why
            assert "left" in why
            lasting = {name: account for name, account in before.items() if account.over < 0}
            assert {name: account for name, account in self.c.kept().items() if account.over < 0} == lasting
            assert self.c.wish(lease) is None

    @precondition(lambda self: any(map(self.wanted, QUOTAS)))
    @rule(data=st.data(), units=st.integers(1, 4), soon=st.booleans())
    def flex(self, data: st.DataObject, units: int, soon: bool) -> None:
        lease = data.draw(st.sampled_from(sorted(lease for client in QUOTAS for lease in self.wanted(client))))
        twin, now = self.twins[lease], self.c.clocks[TENANT].now()
        ticks = twin.changed(units, None, now, self.starts[lease])
        fits, before = self.fits(twin.client, ticks, lease), self.c.kept()[lease]
        why = self.ask("", "flex", lease, units, soon=soon)
        if "no term is left" in why:  # the policy has the last word
            assert self.c.kept()[lease] == before
        else:
            assert (why == "") == fits, why
        if not why:
            twin.ticks = ticks
            twin.units, twin.fewer = max(units, twin.units), units if units < twin.units else 0
        self.look()

    @precondition(lambda self: any(map(self.wanted, QUOTAS)))
    @rule(data=st.data(), more=st.integers(0, 8))
    def prolong(self, data: st.DataObject, more: int) -> None:
        lease = data.draw(st.sampled_from(sorted(lease for client in QUOTAS for lease in self.wanted(client))))
        twin, now = self.twins[lease], self.c.clocks[TENANT].now()
        until = max(twin.until, now + 1) + more
        ticks = twin.changed(None, until, now, self.starts[lease])
        fits = self.fits(twin.client, ticks, lease)
        why = self.ask(twin.client, "prolong", lease, until)
        assert (why == "") == fits, why
        if fits:
            twin.ticks, twin.until = ticks, until
        self.look()

    @precondition(lambda self: any(map(self.wanted, QUOTAS)))
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(lease for client in QUOTAS for lease in self.wanted(client))))
        assert self.ask("", "stop", lease) == ""
        self.look()

    @rule(ticks=st.integers(1, 4))
    def advance(self, ticks: int) -> None:
        for _ in range(ticks):
            self.driver.advance()
            self.look()

    @rule(name=st.sampled_from([TENANT, TENANT, BROKER]))
    def crash(self, name: str) -> None:
        self.driver.crash(name)
        self.look()

    # What holds

    @invariant()
    def nothing_is_exceeded_and_nothing_leaks(self) -> None:
        kept, now = self.c.kept(), self.c.clocks[TENANT].now()
        for client, quota in QUOTAS.items():
            accounts = [account for account in kept.values() if account.client == client]
            if quota.leases is not None:
                assert sum(account.over < 0 for account in accounts) <= quota.leases
            total = Sum(use for account in accounts for use in account.uses)
            for start in range(0, 3 * LATEST, quota.per or LATEST):
                assert quota.unit_ticks is None or total.within(start, start + quota.per) <= quota.unit_ticks
        mine = self.c.accounts._accounts
        for lease, twin in self.twins.items():
            account, wish = mine.get(lease), self.c.wish(lease)
            if account is None:
                assert twin.over
                continue
            assert account.client == kept[lease].client == twin.client
            charged, durable = by_tick(account), by_tick(kept[lease])
            assert charged == {t: n for t, n in twin.ticks.items() if n}
            assert all(n <= durable.get(t, 0) for t, n in charged.items()), (
                "what is given back is so with a later commit"
            )
            if wish is not None and wish.until > now:
                assert (wish.units, wish.until) == (account.fewer or account.uses[-1].units, account.uses[-1].end)
        wished = {name.removeprefix(WISH) for name in self.c.disks[TENANT].metadata if name.startswith(WISH)}
        assert wished <= mine.keys() <= kept.keys()


def by_tick(account: Account) -> dict[int, int]:
    charged = Sum(account.uses)
    return {t: n for t in range(3 * LATEST) if (n := charged.within(t, t + 1))}


TestClientsAndCrashes = pytest.mark.long(ClientsAndCrashes.TestCase)
ClientsAndCrashes.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


# Many at once, and crashes in the midst of them


@pytest.mark.parametrize("rounds", range(0, 60, 3))
async def test_a_crash_in_the_midst_of_demands_exceeds_nothing_and_loses_nothing(rounds: int) -> None:
    """A demand that is acknowledged is charged, one that is charged is wanted, and all are within the quota."""
    async with ClientCluster(4) as c:
        names = [c.new_lease() for _ in range(50)]
        asked = {name: asyncio.ensure_future(c.ask("alice", "demand", name, 1, 9, 4)) for name in names}
        for _ in range(rounds):
            await asyncio.sleep(0)
        acknowledged = [name for name, future in asked.items() if future.done() and future.result() == ""]
        await c.kill(TENANT)
        await asyncio.gather(*asked.values())
        await c.start(TENANT)
        await c.settle()
        wanted = {name for name in names if c.wish(name) is not None}
        assert wanted == {lease for lease, account in c.kept().items() if account.over < 0}
        assert {*acknowledged} <= wanted
        assert len(wanted) <= 2
        more = [await c.ask("alice", "demand", c.new_lease(), 1, 9, 4) for _ in range(3)]
        assert more.count("") == 2 - len(wanted)


class OwnDemand(FixedDemand):
    """A policy of somebody's own, which is asked in a thread."""


class OwnPolicy(ClientCluster):
    def _environment(self, name: str) -> Environment:
        environment = super()._environment(name)
        if name == TENANT:
            environment.policies["service_manager"] = OwnDemand(max_units=4)
        return environment


@pytest.mark.real_time
async def test_a_policy_in_a_thread_is_held_to_the_quota_too() -> None:
    async with OwnPolicy(4) as c:
        names = [c.new_lease() for _ in range(50)]
        answers = await asyncio.gather(*(c.ask("alice", "demand", name, 1, 9, 4) for name in names))
        assert answers.count("") == 2
        taken = [name for name, why in zip(names, answers, strict=True) if not why]
        assert all("alice may have 2 leases at once" in why for why in answers if why)
        await c.settle()
        assert sorted(c.kept()) == taken
        assert "units is 9" in await c.ask("bob", "demand", c.new_lease(), 9, 9, 4)
        assert [account.client for account in c.kept().values()] == ["alice", "alice"], "what is refused costs nothing"
        await c.kill(TENANT)
        await c.start(TENANT)
        await c.settle()
        assert "and has 2; 0 are left" in await c.ask("alice", "demand", c.new_lease(), 1, 9, 4)
        assert await c.ask("alice", "stop", taken[0]) == ""
        await c.advance(3)
        assert await c.ask("alice", "demand", c.new_lease(), 1, 20, 4) == ""


# Single rules


async def test_a_demand_that_is_denied_gives_everything_back() -> None:
    async with ClientCluster(4) as c:
        lease = c.new_lease()
        assert await c.ask("alice", "demand", lease, 2, 8, 4, type="nosuch") == ""
        assert c.accounts.standing("alice", 0) == (QUOTAS["alice"], 1, 16)
        await c.settle()
        assert c.state(lease)[0] == "failed"
        assert c.accounts.standing("alice", 0) == (QUOTAS["alice"], 0, 0)
        assert c.accounts.client(lease) == "alice"


async def test_a_lease_that_is_withdrawn_before_it_began_gives_everything_back() -> None:
    async with ClientCluster(4) as c:
        del c.tenant.environment.peers["broker"]  # type: ignore[attr-defined]
        assert c.tenant.environment.directory is not None
        c.tenant.environment.directory.address_of = lambda name: ""
        lease = c.new_lease()
        assert await c.ask("alice", "demand", lease, 2, 8, 4) == ""
        await c.settle()
        assert c.accounts.standing("alice", 0).leases == 1
        await c.ask("", "stop", lease)
        await c.advance(1)
        assert c.accounts.standing("alice", 1) == (QUOTAS["alice"], 0, 0)


async def test_a_lease_that_ends_early_is_charged_for_what_it_has_used() -> None:
    async with ClientCluster(4) as c:
        lease = c.new_lease()
        assert await c.ask("alice", "demand", lease, 2, 8, 4) == ""
        await c.settle()
        await c.advance(3)
        await c.tenant.tell(lease, "service_manager", "close")
        await c.settle()
        assert c.accounts.standing("alice", 3) == (QUOTAS["alice"], 0, 6)
        assert c.accounts.standing("alice", 8).unit_ticks == 0, "in the next period nothing is used"


async def test_units_are_charged_until_they_are_given_back() -> None:
    """Else a client could have twice its quota until the renewal."""
    async with ClientCluster(4) as c:
        lease = c.new_lease()
        assert await c.ask("carol", "demand", lease, 3, 3, 3) == ""
        await c.settle()
        assert await c.ask("carol", "flex", lease, 1) == ""
        assert "0 are left, and this needs 1" in await c.ask("carol", "demand", c.new_lease(), 1, 1, 1)
        await c.advance(1)
        assert await c.ask("carol", "prolong", lease, 5) == (
            "carol may use 9 units times ticks in each 5 ticks (its quota `unit_ticks`); from tick 0 to 5 0 are left, "
            "and this needs 6"
        )


@pytest.mark.parametrize(
    ("uses", "within"),
    [
        ([], [0, 0, 0]),
        ([Use(2, 3, 7)], [4, 4, 0]),
        ([Use(2, 0, 15), Use(1, 5, 6), Use(3, 14, 15)], [10, 11, 13]),
        ([Use(1, -3, 100)], [5, 5, 5]),
    ],
)
def test_a_sum_is_what_somebody_counts(uses: list[Use], within: list[int]) -> None:
    assert [Sum(uses).within(start, start + 5) for start in (0, 5, 10)] == within


def test_an_end_that_never_comes_is_summed_as_quickly_as_any() -> None:
    accounts = ClientAccounts(lambda: {"alice": Quota(unit_ticks=10, per=10)})
    charge = accounts.charge("alice", "demand", ("t:1", 1, 2**62), {}, 5)
    accounts.take(charge)
    with pytest.raises(ActorError, match="from tick 0 to 10 5 are left, and this needs 10"):
        accounts.charge("alice", "demand", ("t:2", 2, 20), {}, 5)
    with pytest.raises(ActorError, match="from tick 10 to 20 0 are left"):
        accounts.charge("alice", "demand", ("t:2", 1, 20), {}, 5)
    assert accounts.charge("alice", "demand", ("t:2", 1, 10), {}, 5) is not None
