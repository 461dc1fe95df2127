"""Proportional share: who has had the least for its weight goes first, and nobody starves."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from leasehold.impl.lease.policies.ledger import within
from leasehold.impl.lease.policies.proportional_share import SLOTS, ProportionalShare
from leasehold.impl.policy.policy import Decision, Lease
from tests.impl.lease.machines import first_data
from tests.impl.lease.policies.market import HOLDERS, INVENTORY, Market, MarketRuns, ask, question, told, waits

WEIGHTS = {"anna": 3, "ben": 1}
WINDOW, PATIENCE = 20, 4


class Shares(Market):
    """The same, with the books kept once more: by decisions, of which those count that were taken or may be."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.decided: list[tuple[str, int, int, int]] = []  # lease, state epoch, time, units times ticks
        self.taken: set[tuple[str, int]] = set()
        self.came: dict[str, list[tuple[str, int, int, int]]] = {}
        self.dropped = 0
        super().__init__(*args, **settings)

    def request(self, holder: str, units: int, end: int, start: int = 0, **properties: Any) -> str:
        self.came[f"{holder}:{len(self.asked) + 1}"] = [*self.decided]
        return super().request(holder, units, end, start, **properties)

    def counting(self) -> list[tuple[str, int, int, int]]:
        going = {(d.lease, d.state_epoch) for d in self.pending if self.counts(d)}
        return [one for one in self.decided if one[:2] in self.taken | going]

    def used(self, lease: str) -> int:
        """Returns the units and ticks that the holder of a lease was granted in the window."""
        slot, holder = WINDOW // SLOTS, lease.partition(":")[0]
        return sum(
            amount
            for name, _, at, amount in self.counting()
            if name.partition(":")[0] == holder and at // slot > self.now // slot - SLOTS
        )

    def passed(self, lease: str) -> int:
        """The tickets that were granted while a lease waited."""
        return sum(one not in self.came[lease] for one in self.counting())

    def weight(self, lease: str) -> int:
        return WEIGHTS.get(lease.partition(":")[0], 1)

    def check(self, decision: Decision) -> None:
        super().check(decision)
        if decision.event == "granted":
            data, units = self.records[decision.lease].data, decision.fields["units"]
            amount = units * (data["requested_end"] - max(data["requested_start"], self.now))
            if self.records[decision.lease].state == "extending":
                amount = units * (data["requested_end"] - data["term_end"])
                amount += max(0, (units - data["units"]) * (data["term_end"] - max(data["start"], self.now)))
            self.decided = [one for one in self.decided if one[:2] != (decision.lease, decision.state_epoch)]
            self.decided.append((decision.lease, decision.state_epoch, self.now, amount))

    def deliver(self) -> None:
        decision = self.pending[0]
        before = self.records[decision.lease].state_epoch
        super().deliver()
        if decision.event == "granted":
            if before == decision.state_epoch:
                self.taken.add((decision.lease, decision.state_epoch))
            else:
                self.dropped += 1  # its number is given out again

    def check_order(self, decision: Decision) -> None:
        mine, passed = decision.lease, self.passed(decision.lease)
        for other in self.waiting():
            if other == mine or not self.overtakes(mine, other):
                continue
            slack = 1 + self.dropped
            assert self.passed(other) <= PATIENCE + slack or passed >= self.passed(other) - slack, "it starves"
            if passed < PATIENCE - slack:
                had, has = (Fraction(self.used(name), self.weight(name)) for name in (mine, other))
                assert had <= has, f"{mine} goes before {other}, and has had {had} before, not {has}"


class Runs(MarketRuns):
    properties = st.just({})

    def make(self, **settings: Any) -> Market:
        more = {"weights": WEIGHTS, "window": WINDOW, "patience": PATIENCE}
        return Shares(lambda: ProportionalShare(INVENTORY, **settings, **more), **settings)

    def shown(self, policy: Any, now: int) -> Any:
        passed = {request.lease: policy.passed(request) for request in policy.order(now)}
        return super().shown(policy, now), policy.used(now), passed

    @invariant()
    def the_books_are_as_they_should_be(self) -> None:
        if hasattr(self, "core"):
            policy, core = self.core.policy, self.core
            used = {holder: core.used(f"{holder}:") for holder in HOLDERS}
            assert {holder: policy.used(core.now).get(holder, 0) for holder in HOLDERS} == used


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)


def share(**settings: Any) -> ProportionalShare:
    return ProportionalShare(INVENTORY, **settings)


def test_who_has_had_the_least_for_its_weight_goes_first() -> None:
    policy = share(weights={"anna": 3})
    assert ask(policy, waits("anna:1", 2, end=4)) == [("anna:1", "granted")]
    assert ask(policy, waits("ben:1", 2, end=2)) == [("ben:1", "granted")]
    assert policy.used(0) == {"anna": 8, "ben": 4}
    for name in ("ben:2", "anna:2", "cleo:1"):
        assert ask(policy, waits(name, 1)) == []
    assert [request.lease for request in policy.order(0)] == ["cleo:1", "anna:2", "ben:2"]


def test_a_request_may_say_the_weight_of_its_user_where_users_count() -> None:
    asked = waits("tenant:1", 1, user="anna", weight=4)
    for users, account, weight in ((True, "anna", 4), (False, "tenant", 1)):
        policy = share(users=users)
        assert ask(policy, waits("has:1", 4)) == [("has:1", "granted")]
        assert ask(policy, asked) == []
        (request,) = policy.order(0)
        assert (policy.account(request), policy.weight(request)) == (account, weight)


def test_what_was_granted_before_the_window_does_not_count() -> None:
    policy = share(window=20)
    assert ask(policy, waits("anna:1", 2, end=4), 1) == [("anna:1", "granted")]
    assert [policy.used(now) for now in (1, 19, 20)] == [{"anna": 6}, {"anna": 6}, {"anna": 0}]


def test_a_request_that_was_passed_over_often_goes_first() -> None:
    policy = share(patience=2)
    data = first_data("broker")

    def ends(lease: Lease) -> list[tuple[str, str]]:
        return told(policy.changed(Lease(lease.name, "broker", "closed", data | {"local": lease.data["local"]}, {}), 0))

    def has(name: str) -> Lease:
        decision, _ = policy._promised[name]
        more = {"units": 4, "counted": 4, "term_end": 9, "local": decision.fields["local"]}
        lease = Lease(name, "broker", "ticketed", data | more, {})
        assert told(policy.changed(lease, 0)) == []
        return lease

    assert ask(policy, waits("anna:1", 4)) == [("anna:1", "granted")]
    assert ask(policy, waits("anna:2", 4)) == []
    last = has("anna:1")
    for name in ("ben:1", "cleo:1"):
        assert ask(policy, waits(name, 4)) == []
        assert ends(last) == [(name, "granted")]
        last = has(name)
    assert ask(policy, waits("dora:1", 4)) == []
    assert ends(last) == [("anna:2", "granted")], "dora has had nothing, and anna has waited for long"


@pytest.mark.parametrize(
    "wrong", [{"weights": {"anna": 0}}, {"window": 0}, {"window": True}, {"patience": "long"}, {"users": "yes"}]
)
def test_wrong_settings_are_refused_with_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}.* is .*; it has to be"):
        share(**wrong)


@pytest.mark.parametrize("weight", [0, -1, "much"])
def test_a_weight_that_is_none_is_denied_with_the_reason(weight: object) -> None:
    (denied,) = share().begin(question(waits("anna:1", 1, weight=weight)), 0)
    assert denied.fields["reason"].startswith(f"the request property weight is {weight!r}; it has to be a whole number")


def test_a_book_has_the_accounts_that_have_had_most() -> None:
    many = [(f"account-{number}", [[0, number]]) for number in range(1000)]
    found = within(many)
    assert 100 < len(found) < 1000
    assert [*found] == [name for name, _ in many[: len(found)]]
