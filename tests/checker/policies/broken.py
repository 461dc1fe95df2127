"""Policies of brokers with one mistake each, which a simulation has to find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from leasehold.impl.lease.arbiter import Arbiter, Request
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.policy.policy import Decision, Lease, PolicyAnswer, Question
from leasehold.impl.raised import RaisedEvent


class ByName(Arbiter):
    """Serves by the names of leases: no mistake, as records have them."""

    def order(self, now: int) -> Iterable[Request]:
        return sorted(self._waiting.values(), key=lambda request: request.lease)


class Counting(ByName):
    """Turns its order around after every other decision; how many it took is in no record."""

    def __init__(self, inventory: Inventory) -> None:
        super().__init__(inventory)
        self.taken = 0

    def order(self, now: int) -> Iterable[Request]:
        return sorted(super().order(now), key=lambda request: request.lease, reverse=self.taken % 4 > 1)

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self.taken += 1
        return super().begin(question, now)


class Forgetful(ByName):
    """Does not hear of tickets after a restart."""

    def recovered(self, lease: Lease) -> None:
        if lease.state == "ticketing":
            super().recovered(lease)


class Generous(ByName):
    """Promises twice as much as there is."""

    def __init__(self, inventory: Inventory) -> None:
        super().__init__(Inventory.parse({"units": [{"name": "u", "count": 2 * len(inventory)}]}))


class Raising(ByName):
    """Fails at its third question."""

    def __init__(self, inventory: Inventory) -> None:
        super().__init__(inventory)
        self.asked = 0

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self.asked += 1
        if self.asked == 3:
            raise LookupError("of no use")
        return super().begin(question, now)


class Unmakeable(ByName):
    """Cannot be made."""

    def __init__(self, inventory: Inventory, **settings: Any) -> None:
        raise RuntimeError("not today")


class Recovering(Counting):
    """Raises the recovery event on a lease at its third question, which no record has counted."""

    def begin(self, question: Question, now: int) -> list[PolicyAnswer]:  # type: ignore[override]
        decided: list[PolicyAnswer] = [*super().begin(question, now)]
        return [*decided, RaisedEvent(lease=question.lease.name)] if self.taken == 3 else decided

    def order(self, now: int) -> Iterable[Request]:
        return ByName.order(self, now)
