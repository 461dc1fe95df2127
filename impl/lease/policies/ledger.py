"""The books of a broker's policy that remembers what it has granted for longer than a lease lasts.

Theory of operation. The books stand in the field `local` of the broker's records, so whoever has the records has the
books, and a policy that was restarted decides as if it had never stopped. Each ticket, and each extension of one, has a
number, and its record keeps

    number     one above all that were known when it was decided
    account    whose it is
    own        what it adds to its account: what was paid for it, or the units and ticks
    book       the accounts as they were then, of all tickets that were over: those with a number of at most `high` that
               is not among the `open` ones

The book of the highest number counts, and beside it the own of every record that this book has not: tickets that last,
and those that have ended since. So no decision has to be known to be taken when the next one is made: one that the
record refuses leaves nothing behind, and one that it takes says all of itself.

The records of leases that are over are forgotten in the end. The policy names those that it still reads (`needed`): the
one with the book, and those that are over and in no book. The next book has them, and they may be forgotten: no credit
is lost with a record, and few records are kept.

A record has room for 16 KiB of `local`, so a book is bounded: `open` has the lowest numbers alone, and tickets above
them count by their own records until there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.arbiter import Arbiter, Request, TicketOffer
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.policies.request import account_of
from leasehold.impl.lease.ticket import properties_of
from leasehold.impl.policy.policy import Lease

MOST_OPEN = 400  # numbers of tickets that a book names
MOST_BYTES = 5000  # of the accounts in a book, and of whatever else has a place for each


@dataclass(frozen=True, slots=True)
class Entry:
    """A ticket in the books.

    Attributes:
        number: of the ticket.
        account: whose it is.
        own: what it adds to the account.
        book: as it was decided.
        lasts: whether its lease is not over.
    """

    number: int
    account: str
    own: Any
    book: Mapping[str, Any]
    lasts: bool

    @classmethod
    def of(cls, local: object, lasts: bool) -> Entry | None:
        """The entry in `local`; None where there is none."""
        said = properties_of(local)
        if not {"number", "account", "own", "book"} <= said.keys():
            return None
        return cls(said["number"], said["account"], said["own"], said["book"], lasts)


class Ledger(Arbiter):
    """A broker's policy with books, but for what they count and the order in which requests are served.

    Args:
        inventory, settings: as `Arbiter` takes them.
        users: whether a request may name the account that it is for (`user`); else it is the holder's.

    Attributes:
        needed: the leases that are over and whose records are still read; None: that is not known yet.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        users: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(inventory, **settings)
        if not isinstance(users, bool):
            raise ValueError(f"users: is {users!r:.40}; it has to be true or false")
        self._users = users
        self.needed: frozenset[str] | None = None
        self._entries: dict[str, Entry] = {}
        self._newest: Entry | None = None
        self._added: dict[str, Any] | None = None  # the accounts as they stand, until a ticket changes

    # To be said by a policy

    def empty(self) -> dict[str, Any]:
        """The accounts where nothing was ever granted."""
        raise NotImplementedError

    def add(self, accounts: dict[str, Any], account: str, own: Any) -> None:
        """A ticket is over: its own comes to the accounts."""
        raise NotImplementedError

    def balance(self, accounts: dict[str, Any]) -> None:
        """All tickets that are over have come to the accounts."""

    def own(self, before: Any, lease: Lease, asked: Request, offer: TicketOffer, now: int) -> Any:
        """The own of a ticket.

        Args:
            before: of the ticket that is extended; None: it is a new one.
            lease: for which it is granted.
            asked: the request.
            offer: what is granted.
            now: the time.
        """
        raise NotImplementedError

    def written(self, accounts: dict[str, Any], asked: Request, now: int) -> dict[str, Any]:
        """The accounts as a book has them that is written for a request."""
        return accounts

    # The books

    @property
    def number(self) -> int:
        """The number of the last ticket, decided or granted; 0: there was none."""
        last = self._newest.number if self._newest is not None else 0
        return max([last, *(entry.number for _, entry in self._deciding())])

    def account(self, request: Request) -> str:
        """The account of a request; an extension is of the account that its ticket is of."""
        entry = self._entries.get(request.lease)
        return account_of(request, self._users) if entry is None else entry.account

    def accounts(self) -> dict[str, Any]:
        """The accounts of all tickets that are over; not to be changed."""
        if self._added is None:
            self._added = self._accounts(LARGEST)
        return self._added

    def _accounts(self, high: int) -> dict[str, Any]:
        """The accounts of the tickets that are over and have a number of at most this."""
        newest = self._newest
        accounts: dict[str, Any] = _copy(newest.book["accounts"]) if newest is not None else self.empty()
        over = [entry for entry in self._entries.values() if not entry.lasts and entry.number <= high]
        for entry in sorted(over, key=lambda entry: entry.number):
            self.add(accounts, entry.account, entry.own)
        self.balance(accounts)
        return accounts

    def lasting(self) -> Iterator[Entry]:
        """Yields the tickets that are not over, as they are, or as it was decided."""
        deciding = dict(self._deciding())
        yield from deciding.values()
        yield from (entry for lease, entry in self._entries.items() if entry.lasts and lease not in deciding)

    def latest_book(self) -> tuple[int, Mapping[str, Any]]:
        """The number and the book that were decided last, whether it was taken yet or not; 0 and nothing at first."""
        entries = [*(entry for _, entry in self._deciding()), *((self._newest,) if self._newest is not None else ())]
        last = max(entries, key=lambda entry: entry.number, default=None)
        return (0, {}) if last is None else (last.number, last.book)

    def _deciding(self) -> Iterator[tuple[str, Entry]]:
        for lease, (decision, _) in self._promised.items():
            entry = Entry.of(decision.fields.get("local"), lasts=True)
            if entry is not None:
                yield lease, entry

    def local(self, lease: Lease, asked: Request, offer: TicketOffer, now: int) -> dict[str, Any]:
        number, entry = self.number + 1, self._entries.get(lease.name)
        open = sorted({one.number for one in (*self.lasting(), *self._entries.values()) if one.lasts})
        high = number - 1 if len(open) <= MOST_OPEN else open[MOST_OPEN] - 1
        book = {
            "accounts": self.written(self._accounts(high), asked, now),
            "high": high,
            "open": open[:MOST_OPEN],
            **self.beside(number, now),
        }
        own = self.own(entry.own if entry is not None else None, lease, asked, offer, now)
        return {"number": number, "account": self.account(asked), "own": own, "book": book}

    def beside(self, number: int, now: int) -> dict[str, Any]:
        """Returns the fields that a book has beside the accounts."""
        return {}

    # What is heard

    def _note(self, lease: Lease) -> None:
        super()._note(lease)
        over = lease.state not in ("ticketed", "extending")
        entry = Entry.of(lease.data["local"], lasts=not over)
        if entry is None or entry == self._entries.get(lease.name):
            return
        if self._newest is not None and self._in_book(entry):
            return
        self._entries[lease.name] = entry
        self._added = None
        if self._newest is None or entry.number > self._newest.number:
            self._newest = entry
            self._entries = {name: e for name, e in self._entries.items() if not self._in_book(e)}
        if self.needed is not None:
            self._name_needed()

    def _in_book(self, entry: Entry) -> bool:
        """Returns whether the newest book has a ticket that is over."""
        newest = self._newest
        assert newest is not None
        return not entry.lasts and entry.number <= newest.book["high"] and entry.number not in newest.book["open"]

    def _settle(self) -> None:
        super()._settle()
        if self.needed is None:
            self._name_needed()

    def _name_needed(self) -> None:
        self.needed = frozenset(lease for lease, entry in self._entries.items() if not entry.lasts)


def amount(lease: Lease, offer: TicketOffer, now: int) -> int:
    """The units times ticks that a ticket, or an extension, adds to what its lease has."""
    if lease.state != "extending":
        return offer.units * (offer.end - max(offer.start, now))
    data = lease.data
    more: int = max(0, offer.units - data["units"]) * (data["term_end"] - max(data["start"], now))
    longer: int = offer.units * (offer.end - data["term_end"])
    return longer + max(0, more)


def within(entries: list[tuple[str, Any]], most: int = MOST_BYTES) -> dict[str, Any]:
    """The first of some entries that have room in a book."""
    found: dict[str, Any] = {}
    size = 0
    for name, value in entries:
        size += len(msgspec.json.encode((name, value)))
        if size > most:
            break
        found[name] = value
    return found


def _copy(accounts: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(accounts))
    return copied
