"""Auction: the highest bid goes first, and credits are conserved, through crashes and forgotten records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from leasehold.impl.lease.policies import ledger
from leasehold.impl.lease.policies.auction import Auction
from leasehold.impl.policy.policy import Decision, Lease, Undecided
from tests.impl.lease.policies.market import HOLDERS, INVENTORY, Market, MarketRuns, ask, question, waits

CREDITS = {"anna": 60, "ben": 30}


class Bids(Market):
    def bid(self, lease: str) -> int:
        bid: int = self.asked[lease].get("bid", 0)
        return bid

    def check_order(self, decision: Decision) -> None:
        for other in self.waiting():
            data = self.records[other].data
            price = self.bid(other) * data["requested_units"]
            price *= data["requested_end"] - max(data["requested_start"], self.now)
            if self.bid(other) > self.bid(decision.lease) and self.overtakes(decision.lease, other):
                assert price > self.policy.available(other.partition(":")[0]), f"{decision.lease} goes before {other}"


class Runs(MarketRuns):
    properties = st.fixed_dictionaries({}, optional={"bid": st.integers(0, 8)})

    def make(self, **settings: Any) -> Market:
        return Bids(lambda: Auction(INVENTORY, credits=CREDITS, **settings), **settings)

    def shown(self, policy: Any, now: int) -> Any:
        available = {holder: policy.available(holder) for holder in HOLDERS}
        return super().shown(policy, now), available, policy.accounts()

    @invariant()
    def credits_are_conserved(self) -> None:
        if hasattr(self, "core"):
            policy = self.core.policy
            accounts, lasting = policy.accounts(), [*policy.lasting()]
            began = sum(CREDITS.get(account, 0) for account in accounts["credits"])
            assert sum(accounts["credits"].values()) + accounts["pot"] == began
            assert all(policy.available(holder) >= 0 for holder in HOLDERS)
            assert all(entry.own >= 0 for entry in lasting)


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)


def auction(**settings: Any) -> Auction:
    return Auction(INVENTORY, **{"credits": 20, **settings})


def granted(policy: Auction, lease: Lease, now: int = 0, epoch: int = 1) -> Lease:
    """The record of a lease that is granted what it asks for."""
    (decision,) = policy.begin(question(lease, epoch), now)
    assert decision.event == "granted", decision.fields
    data = lease.data | {
        "units": decision.fields["units"],
        "counted": decision.fields["units"],
        "start": lease.data["requested_start"],
        "term_end": lease.data["requested_end"],
        "local": decision.fields["local"],
    }
    taken = Lease(lease.name, "broker", "ticketed", data, {})
    assert list(policy.changed(taken, now)) == []
    return taken


def closed(lease: Lease) -> Lease:
    return Lease(lease.name, "broker", "closed", lease.data | {"units": 0, "counted": 0}, {})


def test_a_grant_costs_what_was_bid_and_comes_back_to_all_when_it_is_over() -> None:
    policy = auction()
    first = granted(policy, waits("anna:1", 1, end=5, bid=3))
    granted(policy, waits("ben:1", 1, end=5, bid=1))
    assert (policy.available("anna"), policy.available("ben"), policy.available("cleo")) == (5, 15, 20)
    list(policy.changed(closed(first), 2))
    assert policy.accounts() == {"credits": {"anna": 12, "ben": 27}, "pot": 1}
    assert policy.needed == {"anna:1"}, "what it has paid is in no book yet"
    third = granted(policy, waits("cleo:1", 1, end=5, bid=1), 2)
    assert third.data["local"]["book"]["accounts"] == {"credits": {"anna": 12, "ben": 27, "cleo": 20}, "pot": 1}
    assert policy.needed == frozenset()
    assert (policy.available("anna"), policy.available("ben"), policy.available("cleo")) == (12, 22, 17)


def test_who_cannot_pay_waits_for_credits_and_is_in_nobodys_way() -> None:
    policy = auction()
    assert ask(policy, waits("anna:1", 2, end=9, bid=2)) == []
    assert policy.undecided("anna:1", 0) == Undecided("it costs 36 credits now, and anna has 20", 9)
    assert ask(policy, waits("ben:1", 4, end=4, bid=1)) == [("ben:1", "granted")]
    (denied,) = policy.tick(8)
    assert denied.fields["reason"].startswith("no units came free before the end of the term")
    policy = auction()
    assert ask(policy, waits("anna:1", 3, end=9, bid=9)) == []
    (denied,) = policy.tick(8)
    assert denied.fields == {"reason": "it costs 27 credits now, and anna has 20"}


@pytest.mark.parametrize(("bid", "units"), [(0, 3), (1, 3), (2, 2), (4, 1), (8, 0)])
def test_an_extension_is_given_what_its_account_can_pay_for(bid: int, units: int) -> None:
    policy = auction(credits=20)
    has = granted(policy, waits("anna:1", 1, end=4, bid=0))
    asked = {"requested_units": 3, "requested_end": 7, "request": {"bid": bid}, "start": 0}
    (decision,) = policy.begin(question(Lease("anna:1", "broker", "extending", has.data | asked, {}), 2), 2)
    if units:
        assert decision.fields["units"] == units
        paid = bid * (units * 3 + (units - 1) * 2)
        assert (decision.fields["local"]["own"], policy.available("anna")) == (paid, 20 - paid)
        return
    assert decision.fields == {"reason": "anna has 20 credits, and pays 8 for each unit and tick"}


def test_an_account_without_first_credits_bids_nothing() -> None:
    policy = auction(credits={"anna": 5})
    assert ask(policy, waits("ben:1", 1, end=2, bid=1)) == []
    assert ask(policy, waits("ben:2", 1, end=2)) == [("ben:2", "granted")]
    assert ask(policy, waits("x:1", 1, end=2, bid=1, user="anna")) == [("x:1", "granted")]
    assert policy.available("anna") == 3
    assert ask(auction(users=False, credits={"anna": 5}), waits("x:1", 1, end=2, bid=1, user="anna")) == []


@pytest.mark.parametrize("wrong", [{"credits": 0}, {"credits": {"anna": "much"}}, {"credits": -1}, {"users": 1}])
def test_wrong_settings_are_refused_with_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}.* is .*; it has to be"):
        Auction(INVENTORY, **wrong)


def test_a_bid_that_is_no_number_is_denied_with_the_reason() -> None:
    (denied,) = auction().begin(question(waits("anna:1", 1, bid=-1)), 0)
    assert denied.fields == {"reason": "the request property bid is -1; it has to be a whole number from 0 on"}


def test_the_books_have_room_for_many_tickets_and_say_so_where_they_have_none_for_an_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tickets above those that a book names count by their own records."""
    monkeypatch.setattr(ledger, "MOST_OPEN", 2)
    policy = auction(credits=50)
    leases = [granted(policy, waits(f"anna:{n}", 1, end=5, bid=n)) for n in range(1, 5)]
    assert leases[-1].data["local"]["book"]["open"] == [1, 2]
    assert leases[-1].data["local"]["book"]["high"] == 2
    list(policy.changed(closed(leases[2]), 1))
    last = granted(policy, waits("ben:1", 1, end=5, bid=1), 1)
    assert (last.data["local"]["book"]["high"], policy.needed) == (3, frozenset())
    twin = auction(credits=50)
    for lease in reversed([*leases[:2], leases[3], last]):
        twin.recovered(lease)
    list(twin.tick(1))
    for name in ("anna", "ben"):
        assert twin.available(name) == policy.available(name)
    monkeypatch.setattr("leasehold.impl.lease.policies.auction.MOST_BYTES", 10)
    (denied,) = policy.begin(question(waits("cleo:1", 1)), 1)
    assert denied.fields == {"reason": "this broker keeps books for 2 accounts, and has no room for one of cleo"}
