"""The properties of a broker's policy are asked of real brokers: the right policy keeps them, a wrong one is found."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from leasehold.checker.verify.policies import PolicyError, policies, verify_policy
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.events.event import read
from leasehold.impl.lease.arbiter import Arbiter, Request
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.fleet import BROKER
from leasehold.impl.lease.policies.auction import Auction
from leasehold.impl.lease.policies.earliest_deadline import EarliestDeadline
from leasehold.impl.lease.policies.ledger import Ledger
from leasehold.impl.lease.policies.proportional_share import ProportionalShare
from leasehold.impl.policy import plugins

UNITS = 3
USERS = ("anna", "ben", "cleo")
SETTINGS: dict[str, dict[str, Any]] = {
    "first_come_first_served": {},
    "earliest_deadline": {},
    "proportional_share": {"weights": {"anna": 2}, "window": 60, "patience": 4},
    "auction": {"credits": 100},
}


class MarketCluster(Cluster):
    """The lease's actors, whose broker has a policy of the test's."""

    def __init__(self, make: Callable[..., Arbiter], settings: dict[str, Any], retire: int = 10) -> None:
        self.make_policy, self.policy_settings = make, settings
        super().__init__(UNITS, options=ActorOptions(retire_after=retire, seed=0))

    def _environment(self, name: str) -> Environment:
        environment = super()._environment(name)
        if name == BROKER:
            policy = self.make_policy(self.inventory, directory=environment.directory, **self.policy_settings)
            environment.policies["broker"] = policy
        return environment


async def played(make: Callable[..., Arbiter], settings: dict[str, Any], seed: int) -> Any:
    """The events of a broker to which requests come by chance."""
    chance = random.Random(seed)
    async with MarketCluster(make, settings) as cluster:
        for number in range(24):
            for _ in range(chance.choice([0, 1, 1, 2, 3])):
                now = cluster.time.now
                properties = {"user": chance.choice(USERS), "bid": chance.randint(0, 4)}
                if chance.random() < 0.7:
                    properties["deadline"] = now + chance.randint(2, 20)
                until, term = now + chance.randint(6, 20), chance.choice([4, 8, 30])
                asked = cluster.new_lease(), chance.randint(1, UNITS), until, term
                await cluster.tenant.command("service_manager", "demand", *asked, properties=properties)
            await cluster.settle()
            if number == 10:  # all leases end, and their records are forgotten
                await cluster.advance(60)
            if number == 10 or chance.random() < 0.1:
                await cluster.kill(BROKER)
                await cluster.start(BROKER)
                await cluster.settle()
            await cluster.advance(chance.choice([1, 1, 2]))
        await cluster.advance(40)
        return [read(body) for body in cluster.events()[BROKER]]


def right(name: str) -> Callable[..., Arbiter]:
    made: Callable[..., Arbiter] = plugins.find("policy", name).load()
    return made


@pytest.mark.parametrize("backfill", [False, True])
@pytest.mark.parametrize("name", policies())
async def test_a_policy_keeps_its_properties_through_crashes_and_forgotten_records(name: str, backfill: bool) -> None:
    settings = {**SETTINGS[name], "backfill": backfill}
    events = await played(right(name), settings, seed=1)
    result = verify_policy(name, events, settings)
    assert result.violations == []
    assert result.requests > 20
    assert result.covered


class LastComeFirstServed(FirstComeFirstServed):
    quick = True

    def order(self, now: int) -> Iterable[Request]:
        return [*reversed(self._waiting.values())]


class LatestDeadline(EarliestDeadline):
    def order(self, now: int) -> Iterable[Request]:
        return [*reversed([*super().order(now)])]


class WithoutWeights(ProportionalShare):
    def weight(self, request: Request) -> int:
        return 1


class WithoutAgeing(ProportionalShare):
    def passed(self, request: Request) -> int:
        return 0


class FirstBid(Auction):
    """Serves in the order of arrival whoever can pay."""

    def order(self, now: int) -> Iterable[Request]:
        waiting = [*self._waiting.values()]
        return (request for request in waiting if self.price(request, now) <= self.available(self.account(request)))


class Minting(Auction):
    def balance(self, accounts: dict[str, Any]) -> None:
        super().balance(accounts)
        for account in accounts["credits"]:
            accounts["credits"][account] += 1


class Losing(Auction):
    def balance(self, accounts: dict[str, Any]) -> None:
        super().balance(accounts)
        accounts["pot"] = 0


class Lending(Auction):
    def available(self, account: str) -> int:
        return super().available(account) + 1000


class Forgetting(Auction):
    """Needs no record of a lease that is over."""

    def _name_needed(self) -> None:
        self.needed = frozenset()


WRONG: list[tuple[type[Arbiter], str, dict[str, Any], str, int]] = [
    (LastComeFirstServed, "first_come_first_served", {}, "no_later_request_overtakes", 1),
    (EarliestDeadline, "first_come_first_served", {}, "no_later_request_overtakes", 1),
    (LatestDeadline, "earliest_deadline", {}, "no_earlier_deadline_waits_behind_a_later_one", 1),
    (FirstComeFirstServed, "earliest_deadline", {}, "no_earlier_deadline_waits_behind_a_later_one", 1),
    (LatestDeadline, "earliest_deadline", {"backfill": True}, "no_earlier_deadline_waits_behind_a_later_one", 1),
    (WithoutWeights, "proportional_share", {"weights": {"anna": 50}}, "no_share_runs_ahead", 1),
    (WithoutAgeing, "proportional_share", {"weights": {"anna": 50}, "patience": 1}, "nobody_starves", 2),
    (FirstBid, "auction", {"credits": 1000}, "no_higher_bid_waits_behind_a_lower_one", 1),
    (Minting, "auction", {}, "credits_are_conserved", 1),
    (Losing, "auction", {}, "credits_are_conserved", 1),
    (Lending, "auction", {}, "no_account_is_below_zero", 1),
    (Forgetting, "auction", {}, "a_bid_is_paid", 1),
]


@pytest.mark.parametrize(("wrong", "name", "more", "broken", "seed"), WRONG)
async def test_a_wrong_policy_is_found(
    wrong: type[Arbiter], name: str, more: dict[str, Any], broken: str, seed: int
) -> None:
    """Its settings are those of the policy whose properties it is asked, where it takes them."""
    settings = {**SETTINGS[name], **more}
    takes = settings if issubclass(wrong, Ledger) else more
    events = await played(wrong, takes, seed)
    violations = {violation.property: violation for violation in verify_policy(name, events, settings).violations}
    assert broken in violations
    assert violations[broken].leases
    assert f"{broken} is violated at tick" in str(violations[broken])


def test_what_cannot_be_asked_is_said() -> None:
    with pytest.raises(PolicyError, match=r"no properties of a policy 'earliest' are known.*earliest_deadline"):
        verify_policy("earliest", [])
    with pytest.raises(PolicyError, match="accounts begin with credits of their own"):
        verify_policy("auction", [], {"credits": {"anna": 4}})
    assert verify_policy("auction", []).violations == []
