"""Auction: a broker's policy that serves the highest bid first, and takes credits for what it grants.

A request bids `bid` credits for each unit and tick; nobody is told the bids of others. The first in the order of bids
that fits, and whose account has the credits, is granted and pays what it has bid for the whole term of its ticket; an
extension pays for the time and units that it adds, and is given as many units as its account can pay for. Who has not
enough waits until it has, and is in nobody's way.

Credits go round. What was paid for a lease is shared out again when the lease is over, to all accounts as their first
credits were to each other; what cannot be shared out evenly stays in the pot until the next time. No account is ever
below 0, and for the accounts in the books, all credits, those in the pot and those that leases have paid which are not
shared out yet, are together as many as these accounts began with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from leasehold.impl.lease.arbiter import Request, TicketOffer
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.policies.ledger import MOST_BYTES, Ledger, amount
from leasehold.impl.lease.policies.request import check_counts, number_of, unfit_number
from leasehold.impl.policy.policy import Lease


class Auction(Ledger):
    """The policy.

    Args:
        inventory, settings: as `Ledger` takes them.
        credits: that each account begins with; or, by account, those of each, and no other account has any.
    """

    quick = True
    reads = ("user", "bid")

    def __init__(
        self,
        inventory: Inventory,
        *,
        credits: int | Mapping[str, int] = 100_000,
        **settings: Any,
    ) -> None:
        super().__init__(inventory, **settings)
        check_counts("credits", credits if isinstance(credits, Mapping) else {"": credits})
        self._credits = dict(credits) if isinstance(credits, Mapping) else credits

    def order(self, now: int) -> Iterable[Request]:
        bids = sorted(self._waiting.values(), key=lambda request: (-self.bid(request), request.end, request.lease))
        return (request for request in bids if self.price(request, now) <= self.available(self.account(request)))

    def unfit(self, asked: Request) -> str:
        account, known = self.account(asked), self.accounts()["credits"]
        if account not in known and len(msgspec.json.encode(known)) > MOST_BYTES:
            return f"this broker keeps books for {len(known)} accounts, and has no room for one of {account}"
        return unfit_number(asked, "bid")

    def bid(self, request: Request) -> int:
        """The credits that a request bids for each unit and tick."""
        return number_of(request, "bid") or 0

    def price(self, request: Request, now: int) -> int:
        """The credits that a first ticket for all of a request costs now, at most."""
        begins = request.start if request.latest_start else max(request.start, now)
        return self.bid(request) * request.units * max(0, request.end - begins)

    def available(self, account: str) -> int:
        """The credits that an account can pay with."""
        credits: int = self.accounts()["credits"].get(account, self.begun_with(account))
        paid: int = sum(entry.own for entry in self.lasting() if entry.account == account)
        return credits - paid

    def begun_with(self, account: str) -> int:
        """The credits that an account begins with."""
        return self._credits.get(account, 0) if isinstance(self._credits, dict) else self._credits

    def held_up(self, request: Request, now: int) -> str:
        price, available = self.price(request, now), self.available(self.account(request))
        if price <= available:
            return ""
        return f"it costs {price} credits now, and {self.account(request)} has {available}"

    def limit(self, lease: Lease, asked: Request, now: int) -> tuple[int, str]:
        available, bid = self.available(self.account(asked)), self.bid(asked)
        offers = (TicketOffer(units, asked.start, asked.end) for units in range(asked.units, 0, -1))
        units = next((offer.units for offer in offers if bid * amount(lease, offer, now) <= available), 0)
        return units, f"{self.account(asked)} has {available} credits, and pays {bid} for each unit and tick"

    # The books

    def empty(self) -> dict[str, Any]:
        return {"credits": {}, "pot": 0}

    def add(self, accounts: dict[str, Any], account: str, own: Any) -> None:
        accounts["credits"].setdefault(account, self.begun_with(account))
        accounts["credits"][account] -= own
        accounts["pot"] += own

    def balance(self, accounts: dict[str, Any]) -> None:
        pot, shares = accounts["pot"], {account: self.begun_with(account) for account in accounts["credits"]}
        if all_shares := sum(shares.values()):
            for account, share in shares.items():
                accounts["credits"][account] += pot * share // all_shares
                accounts["pot"] -= pot * share // all_shares

    def own(self, before: Any, lease: Lease, asked: Request, offer: TicketOffer, now: int) -> Any:
        return (before or 0) + self.bid(asked) * amount(lease, offer, now)

    def written(self, accounts: dict[str, Any], asked: Request, now: int) -> dict[str, Any]:
        accounts["credits"].setdefault(self.account(asked), self.begun_with(self.account(asked)))
        return accounts
