"""Policies: what they forget, or give twice, after a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.policy.policy import Decision, Lease, Question
from tests.seeded_bugs.bug import Planted, bug, patched, together


def _told(policy: type, counts: Callable[[Lease], bool]) -> Planted:
    """A policy is told only of some recovered leases."""

    def make(recovered: Any) -> Any:
        def some(upcalls: Upcalls) -> None:
            policies = upcalls.environment.policies
            wrong = [p for p in policies.values() if isinstance(p, policy)]
            for p in wrong:
                vars(p)["recovered"] = _some(p.recovered, counts)
            try:
                recovered(upcalls)
            finally:
                for p in wrong:
                    del vars(p)["recovered"]

        return some

    return patched(Upcalls, "recovered", make)


def _some(recovered: Any, counts: Callable[[Lease], bool]) -> Any:
    return lambda lease: recovered(lease) if counts(lease) else None


@bug("policies")
def broker_forgets_requests() -> Planted:
    """A broker's policy takes a recovered request for one that it has decided, and never answers it."""

    def make(begin: Any) -> Any:
        def forget(policy: FirstComeFirstServed, question: Question, now: int) -> list[Decision]:
            name = question.lease.name
            policy._settle()
            waits = policy._waiting.get(name)
            return [] if waits is not None and waits.question is None else list(begin(policy, question, now))

        return forget

    return patched(FirstComeFirstServed, "begin", make)


@bug("policies")
def site_forgets_requests() -> Planted:
    """A site's policy never answers a request that was there before a restart."""

    def make(begin: Any) -> Any:
        def forget(policy: FirstFit, question: Question, now: int) -> list[Decision]:
            name, recovered = question.lease.name, unasked(policy)
            return [] if name in recovered else list(begin(policy, question, now))

        return forget

    def unasked(policy: FirstFit) -> set[str]:
        waiting = {name for queue in policy._queues.values() for name in queue}
        return {*policy._recovered, *(n for n in waiting if policy._views[n].question is None)}

    return patched(FirstFit, "begin", make)


@bug("policies")
def renewal_forgotten() -> Planted:
    """A service manager's policy never answers what it is asked for a lease that was there before a restart."""

    def make(begin: Any) -> Any:
        def forget(policy: FixedDemand, question: Question, now: int) -> list[Decision]:
            known = question.lease.name in vars(policy).get("told", ())
            return [] if known else list(begin(policy, question, now))

        return forget

    def remember(recovered: Any) -> Any:
        def told(policy: Any, lease: Lease) -> None:
            vars(policy).setdefault("told", set()).add(lease.name)
            recovered(policy, lease)

        return told

    return together(patched(FixedDemand, "begin", make), patched(FixedDemand, "recovered", remember))


@bug("policies")
def calendar_not_rebuilt() -> Planted:
    """A broker's policy begins with an empty calendar after a restart."""
    return _told(FirstComeFirstServed, lambda lease: False)


@bug("policies")
def free_units_not_rebuilt() -> Planted:
    """A site's policy takes all units for free after a restart."""
    return _told(FirstFit, lambda lease: False)


@bug("policies")
def double_allocation() -> Planted:
    """A site's policy counts only active leases after a restart; the units of the others are given twice."""
    return _told(FirstFit, lambda lease: lease.state == "active")


@bug("policies")
def quarantine_not_rebuilt() -> Planted:
    """A site's policy is not told after a restart of leases that are over, though their units may be in quarantine."""
    return _told(FirstFit, lambda lease: lease.state != "closed")


@bug("policies")
def wish_lost() -> Planted:
    """Returns what a client wants of a lease is not given back to the policy after a restart."""
    return patched(FixedDemand, "restore", lambda restore: lambda policy, lease, kept: None)


@bug("policies")
def wish_not_saved() -> Planted:
    """Returns what a client wants of a lease is not committed."""
    return patched(FixedDemand, "changed_wishes", lambda changed: lambda policy: {})
