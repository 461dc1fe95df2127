"""A broker's policy may grant another term than was asked for: a later one, a shorter one, a longer one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import Environment
from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.policy.policy import Decision, Question
from tests.impl.lease.test_reasons import at_holder


class OtherTerms(FirstComeFirstServed):
    """Grants what is asked for, and other terms for new tickets and for extensions."""

    def __init__(self, inventory: Any, **terms: dict[str, Any]) -> None:
        super().__init__(inventory)
        self.terms = terms

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        terms = self.terms.get(question.call, {})
        for decision in super().begin(question, now):
            yield replace(decision, fields={**decision.fields, **terms})


class Deferring(Cluster):
    def __init__(self, other_terms: bool = True, **terms: dict[str, Any]) -> None:
        self.terms = terms
        super().__init__(units=2, settings={"other_terms": other_terms})

    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        if "broker" in made.policies:
            made.policies["broker"] = OtherTerms(self.inventory, **self.terms)
        return made


LEAVE_TIME = 2  # ticks at the end of a term in which guests leave


async def test_a_term_is_moved_and_cut_and_its_holder_keeps_to_it() -> None:
    why = {"later": 3, "longer": -2, "reason": "the units are cleaned first"}
    async with Deferring(allocate=why) as cluster:
        lease = await cluster.lease(1, until=9, term=9)
        told = at_holder(cluster, lease)
        assert (told["ticket_start"], told["ticket_end"]) == (3, 7 + LEAVE_TIME)
        assert told["ticket_reason"] == "the units are cleaned first"
        assert cluster.state(lease)[0] == "ticketed"
        await cluster.advance(3)
        assert cluster.state(lease)[0] == "active"


@pytest.mark.parametrize("longer", [-2, 0, 3])
async def test_a_lease_is_renewed_before_the_end_that_was_granted(longer: int) -> None:
    """Whatever end was asked for, and again for each term."""
    terms = {"longer": longer}
    async with Deferring(allocate=terms, extend=terms) as cluster:
        lease = await cluster.lease(1, until=60, term=5)
        ends = set()
        for _ in range(24):
            assert cluster.state(lease)[0] == "active", cluster.time.now
            ends.add(at_holder(cluster, lease)["lease_end"])
            await cluster.advance(1)
        assert len(ends) >= 4
        assert min(ends) == 5 + longer + LEAVE_TIME


async def test_an_extension_is_longer_than_was_asked_for() -> None:
    async with Deferring(extend={"longer": 5}) as cluster:
        lease = await cluster.lease(1, until=30, term=10)
        await cluster.advance(8)
        assert at_holder(cluster, lease)["lease_end"] == 25 + LEAVE_TIME
        assert cluster.state(lease) == ("active", "ticketed", "active")


@pytest.mark.parametrize("terms", [{"later": 12}, {"longer": -12}, {"later": 6, "longer": -6}, {"longer": LARGEST}])
async def test_a_term_that_is_none_is_refused(terms: dict[str, Any]) -> None:
    async with Deferring(allocate=terms) as cluster:
        lease = await cluster.lease(1, until=10, term=10)
        assert cluster.state(lease)[:2] == ("ticketing", "ticketing")
        assert cluster.broker.counts["policy errors"] == 1


@pytest.mark.parametrize("terms", [{"later": 1}, {"longer": -10}])
async def test_an_extension_to_no_longer_term_is_refused(terms: dict[str, Any]) -> None:
    async with Deferring(extend=terms) as cluster:
        lease = await cluster.lease(1, until=30, term=10)
        await cluster.advance(8)
        assert cluster.state(lease)[1] == "extending"
        assert cluster.broker.counts["policy errors"] == 1


@pytest.mark.parametrize("terms", [{"later": 1}, {"longer": 1}, {"longer": -1}])
async def test_another_term_is_refused_where_the_settings_say_so(terms: dict[str, Any]) -> None:
    async with Deferring(other_terms=False, allocate=terms) as cluster:
        lease = await cluster.lease(1, until=10, term=10)
        assert cluster.state(lease)[:2] == ("ticketing", "ticketing")
        assert cluster.broker.counts["policy errors"] == 1
