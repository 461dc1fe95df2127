"""A random workload: leases that come, grow and shrink, are renewed, and end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from leasehold.impl.lease.fleet import TENANT, Fleet
from leasehold.impl.server.client import Client, ClientError, Unreachable
from leasehold.impl.words import counted

TERMS = (6, 8, 10)  # ticks
LASTING_TERMS = (16, 20, 30)


@dataclass(slots=True)
class Plan:
    """The plan for one lease, in ticks of the clock."""

    lease: str
    flex_at: int
    flex_to: int
    close_at: int
    asked: set[str] = field(default_factory=set)


class RandomWorkload:
    """Asks for leases, as a client does.

    Args:
        fleet: whose service manager is asked.
        seed: of all choices.
        most: leases in all; None: without end.
        together: leases that are wanted at a time.
        first: the number of the first lease; others of the folder may have been there before.
        terms: of leases, in ticks.
    """

    def __init__(
        self,
        fleet: Fleet,
        seed: int,
        most: int | None,
        together: int = 4,
        first: int = 1,
        terms: Sequence[int] = TERMS,
    ) -> None:
        self.fleet, self.most, self.together, self._terms = fleet, most, together, terms
        self.plans: dict[str, Plan] = {}
        self.said: list[str] = []  # what was asked, for people
        self._random = random.Random(seed)
        self._next_at = 0
        self._first = first
        self._open: set[str] = set()

    @property
    def client(self) -> Client:
        return self.fleet.client(TENANT)

    @property
    def all_asked(self) -> bool:
        return self.most is not None and len(self.plans) >= self.most

    def go_on(self, now: int, over: set[str]) -> None:
        """Makes the requests that are due; one that no actor receives is made again at the next call."""
        self._open -= over
        try:
            self._demand(now)
            for plan in self.plans.values():
                if plan.lease not in over and "close" not in plan.asked:
                    self._flex_or_close(plan, now)
        except Unreachable:
            return  # the actor is down at the moment

    def _demand(self, now: int) -> None:
        if self.all_asked or len(self._open) >= self.together or now < self._next_at:
            return
        pick = self._random
        units, term = pick.randint(1, 3), pick.choice(self._terms)
        until = now + term * pick.randint(2, 4) + pick.randint(0, 3)
        # With a name of its own, a demand that is said twice is one demand.
        lease = f"{TENANT}:{self._first + len(self.plans)}"
        plan = Plan(
            lease,
            flex_at=now + pick.randint(4, 12),
            flex_to=pick.choice([u for u in (1, 2, 3) if u != units]),
            close_at=until - pick.randint(1, term) if pick.random() < 0.3 else until + 1,
        )
        try:
            self.client.post("demand", units=units, until=until, term=term, lease=lease)
        except Unreachable:
            raise
        except ClientError as error:
            if "already" not in str(error):  # that one was heard, and the answer was lost
                return  # its store has failed at the moment
        self.plans[lease] = plan
        self._open.add(lease)
        self._next_at = now + pick.randint(1, 3)
        self.said.append(f"{lease}: {counted(units, 'unit')} for {until - now} ticks, in terms of {term}")

    def _flex_or_close(self, plan: Plan, now: int) -> None:
        if now >= plan.close_at:
            with_words(self.client, plan.lease, "tell", event="close")
            plan.asked.add("close")
            self.said.append(f"{plan.lease}: closed before its end")
        elif now >= plan.flex_at and "flex" not in plan.asked:
            plan.asked.add("flex")
            if with_words(self.client, plan.lease, "flex", units=plan.flex_to, soon=True):
                self.said.append(f"{plan.lease}: {counted(plan.flex_to, 'unit')} wanted now")


def with_words(client: Client, lease: str, verb: str, **given: object) -> bool:
    """Asks for something that the actor may decline."""
    try:
        client.post("leases", lease, verb, **given)
    except Unreachable:
        raise
    except ClientError:
        return False
    return True
