"""Proportional share: a broker's policy that serves the account first that has had the least for its weight.

What an account has had is the units times ticks of its tickets, counted in full when a ticket is granted, in the tenths
of a window that slides. So a lease that is given back early counts to the end of its ticket: no record says when it was
given back. Short terms that are renewed lose little by that.

Of one account the request goes first that ends first. A request before which `patience` tickets were granted while it
waited goes before all that have waited for fewer, whoever has had what: nobody starves. Its age stands in the books
(ledger.py) that the others' tickets have, as no record says when it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from leasehold.impl.lease.arbiter import Request, TicketOffer
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.policies.ledger import Ledger, amount, within
from leasehold.impl.lease.policies.request import check_counts, number_of, unfit_number
from leasehold.impl.policy.policy import Lease

SLOTS = 10  # of a window


class ProportionalShare(Ledger):
    """The policy.

    Args:
        inventory, settings: as `Ledger` takes them.
        weights: by account; of one that is not named, what its request says (`weight`) where users count, or else 1.
        window: the ticks over which shares are held to weights.
        patience: how many tickets are granted before a request that waits goes first.
    """

    quick = True
    reads = ("user", "weight")

    def __init__(
        self,
        inventory: Inventory,
        *,
        weights: Mapping[str, int] | None = None,
        window: int = 1000,
        patience: int = 20,
        **settings: Any,
    ) -> None:
        super().__init__(inventory, **settings)
        check_counts("window", {"": window})
        check_counts("patience", {"": patience})
        check_counts("weights", weights or {})
        self._weights, self._patience = dict(weights or {}), patience
        self._slot = -(-window // SLOTS)

    def order(self, now: int) -> Iterable[Request]:
        waiting = dict(self._waiting)
        while waiting:
            number, used = self.number, self.used(now)
            for request in sorted(waiting.values(), key=lambda request: self._rank(request, used)):
                del waiting[request.lease]
                yield request
                if self.number != number:  # a ticket was granted, so another account may be the next
                    break

    def unfit(self, asked: Request) -> str:
        if self._users and asked.properties.get("weight") == 0:
            return "the request property weight is 0; it has to be a whole number from 1 on"
        return unfit_number(asked, "weight") if self._users else ""

    def weight(self, request: Request) -> int:
        """The weight of the account of a request."""
        said = number_of(request, "weight") if self._users else None
        return self._weights.get(self.account(request), said or 1)

    def passed(self, request: Request) -> int:
        """The number of tickets that were granted while a request waited."""
        number, book = self.latest_book()
        came: int = book.get("came", {}).get(request.lease, number)
        return number - came

    def used(self, now: int) -> dict[str, int]:
        """The units times ticks that each account was granted in the window."""
        accounts: dict[str, list[list[int]]] = {}
        for account, slots in self.accounts()["used"].items():
            accounts.setdefault(account, []).extend(slots)
        for entry in self.lasting():
            accounts.setdefault(entry.account, []).extend(entry.own)
        return {account: sum(n for slot, n in slots if self._counts(slot, now)) for account, slots in accounts.items()}

    def _counts(self, slot: int, now: int) -> bool:
        return slot > now // self._slot - SLOTS

    def _rank(self, request: Request, used: Mapping[str, int]) -> tuple[Any, ...]:
        passed = self.passed(request)
        if passed >= self._patience:
            return 0, -passed, request.end, request.lease
        return 1, Fraction(used.get(self.account(request), 0), self.weight(request)), request.end, request.lease

    # The books

    def empty(self) -> dict[str, Any]:
        return {"used": {}}

    def add(self, accounts: dict[str, Any], account: str, own: Any) -> None:
        accounts["used"][account] = _merged([*accounts["used"].get(account, []), *own])

    def own(self, before: Any, lease: Lease, asked: Request, offer: TicketOffer, now: int) -> Any:
        slots = [*(before or []), [now // self._slot, amount(lease, offer, now)]]
        return _merged([slot for slot in slots if self._counts(slot[0], now)])

    def written(self, accounts: dict[str, Any], asked: Request, now: int) -> dict[str, Any]:
        used = {
            account: counting
            for account, slots in accounts["used"].items()
            if (counting := [slot for slot in slots if self._counts(slot[0], now)])
        }
        most = sorted(used.items(), key=lambda item: (-sum(n for _, n in item[1]), item[0]))
        return {
            "used": within(most)
        }  # with too many accounts, those that have had the least count as if they had nothing

    def beside(self, number: int, now: int) -> dict[str, Any]:
        last, book = self.latest_book()
        came = book.get("came", {})
        waiting = [r for r in self._waiting.values() if now < r.end]
        waiting.sort(key=lambda r: (came.get(r.lease, last), r.end, r.lease))
        return {"came": within([(r.lease, came.get(r.lease, last)) for r in waiting])}


def _merged(slots: list[list[int]]) -> list[list[int]]:
    """The amounts of slots, each slot once."""
    sums: dict[int, int] = {}
    for slot, number in slots:
        sums[slot] = sums.get(slot, 0) + number
    return [[slot, number] for slot, number in sorted(sums.items())]
