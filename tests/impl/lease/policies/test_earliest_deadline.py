"""Earliest deadline first: no earlier deadline waits behind a later one that could wait."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from leasehold.impl.lease.policies.earliest_deadline import EarliestDeadline
from leasehold.impl.policy.policy import Decision
from tests.impl.lease.policies.market import INVENTORY, Market, MarketRuns, ask, question, waits


class Deadlines(Market):
    def deadline(self, lease: str) -> int:
        """The deadline of a request, the dumb way."""
        asked = self.asked[lease]
        end: int = self.records[lease].data["requested_end"]
        deadline: int = asked.get("deadline", asked.get("until_start", end))
        return deadline

    def check_order(self, decision: Decision) -> None:
        for other in self.waiting():
            if other != decision.lease and self.deadline(other) < self.deadline(decision.lease):
                assert not self.overtakes(decision.lease, other), f"{decision.lease} goes before {other}"


class Runs(MarketRuns):
    properties = st.fixed_dictionaries({}, optional={"deadline": st.integers(0, 9), "until_start": st.integers(0, 9)})

    def make(self, **settings: Any) -> Market:
        return Deadlines(lambda: EarliestDeadline(INVENTORY, **settings), **settings)


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize(
    ("first", "second", "before"),
    [
        ({"deadline": 5}, {"deadline": 4}, True),
        ({"deadline": 5}, {"until_start": 4}, True),
        ({}, {"deadline": 8}, True),
        ({"until_start": 3}, {}, False),
        ({"deadline": 4, "until_start": 9}, {"deadline": 5, "until_start": 1}, False),
        ({}, {}, False),
    ],
)
def test_who_can_wait_the_shortest_is_served_first(first: Any, second: Any, before: bool) -> None:
    policy = EarliestDeadline(INVENTORY)
    assert ask(policy, waits("has:1", 4)) == [("has:1", "granted")]
    assert ask(policy, waits("a:1", 1, **first)) == ask(policy, waits("b:1", 1, **second)) == []
    assert [request.lease for request in policy.order(0)] == (["b:1", "a:1"] if before else ["a:1", "b:1"])


@pytest.mark.parametrize("wrong", ["soon", -1, True, 2**63, 1.5])
@pytest.mark.parametrize("name", ["deadline", "until_start"])
def test_what_is_no_time_is_denied_with_the_reason(name: str, wrong: object) -> None:
    policy = EarliestDeadline(INVENTORY)
    (decision,) = policy.begin(question(waits("a:1", 1, **{name: wrong})), 0)
    assert decision.event == "denied"
    assert re.search(f"the request property {name} is .*; it has to be a whole number", decision.fields["reason"])
