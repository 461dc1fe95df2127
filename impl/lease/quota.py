"""Quotas: how much of the leases of a holder each of its clients may have.

Theory of operation. A lease that a client has demanded is that client's for good, and has an *account*: whose it is,
and the units that it may use, by time. The account is one of the actor's durable words, and changes in the commits that
change the demand: in the one that takes a client's command, and in those that follow the lease. So the sum of the
accounts of a client is what it has, after a crash at any moment, and there is no other sum that could differ from it.
Commands are taken one after the other, and each is held to the sum as it is then; so many at once exceed nothing.

A client is charged for what it demands, from the time at which the units are wanted until its end (`uses`). A lease
that grows is charged at once, or refused; one that shrinks is charged for its units until it has given them back. What
is not used is given back: all of a lease that ends without ever having had units, as one that is denied, and the rest
of one that ends early. A quota of units times ticks is of a period: periods are `per` ticks long and begin at tick 0,
and an account is remembered as long as the period lasts in which its lease has ended.

Terms are renewed by the policy within the demand, and cost nothing more. Where a quota is lowered, what was demanded
before goes on, and whatever would add to it is refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from leasehold.impl.actor.environment import ActorError, Charge
from leasehold.impl.policy.policy import Lease

# The events that a client may tell a lease of its own: they give back. Any other might ask for more than its quota.
ENDS = ("close",)
LOOK_AGAIN = 10  # ticks after which it is looked again whether a lease that is over is forgotten

Limit = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Quota(Struct, forbid_unknown_fields=True, frozen=True):
    """The most that a client may have.

    Attributes:
        leases: at once, from the demand until the lease is over; left out: any number.
        unit_ticks: units times ticks in each period of `per` ticks; left out: any number.
        per: the length of a period in ticks; the first begins at tick 0.
    """

    leases: Limit | None = None
    unit_ticks: Limit | None = None
    per: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None


class Use(NamedTuple):
    """Units that are charged, from a tick until before another."""

    units: int
    start: int
    end: int


class Account(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """The account of a lease.

    Attributes:
        client: whose it is.
        uses: the units that it is charged for; each begins where the one before ends, or later.
        fewer: the units that are charged once the lease has given the others back; 0: it is not to shrink.
        had: whether it ever had units.
        over: the tick at which it was over; -1: it is not.
    """

    client: str
    uses: tuple[Use, ...]
    fewer: int = 0
    had: bool = False
    over: int = -1


class ClientShare(NamedTuple):
    """The account of a client.

    Attributes:
        quota: of the client.
        leases: that it has.
        unit_ticks: what is charged in the period of now; None: no quota has a period.
    """

    quota: Quota
    leases: int
    unit_ticks: int | None


def cut(uses: Sequence[Use], at: int) -> tuple[Use, ...]:
    """The part of uses before a tick."""
    return tuple(Use(use.units, use.start, min(use.end, at)) for use in uses if use.start < at)


class Sum:
    """A sum of uses, of which each period may be asked."""

    def __init__(self, uses: Iterable[Use]) -> None:
        rates: defaultdict[int, int] = defaultdict(int)
        for units, start, end in uses:
            rates[start] += units
            rates[end] -= units
        self.times = sorted(rates)
        self._rates: list[int] = []
        self._sums: list[int] = []
        rate = total = 0
        for at, following in pairwise([*self.times, 0]):
            rate += rates[at]
            self._rates.append(rate)
            self._sums.append(total)
            total += rate * max(0, following - at)

    def before(self, at: int) -> int:
        """The units times ticks before a tick."""
        i = bisect_right(self.times, at) - 1
        return 0 if i < 0 else self._sums[i] + self._rates[i] * (at - self.times[i])

    def within(self, start: int, end: int) -> int:
        """The units times ticks from a tick until before another."""
        return self.before(end) - self.before(start)


class ClientAccounts:
    """The accounts of all leases that clients of an actor have demanded.

    Args:
        quotas: of the clients, by name, as they are now.
    """

    def __init__(self, quotas: Callable[[], Mapping[str, Quota]]) -> None:
        self._quotas = quotas
        self._accounts: dict[str, Account] = {}
        self._of: defaultdict[str, set[str]] = defaultdict(set)  # the leases of a client
        self._changed: set[str] = set()
        self._ended: list[tuple[int, str]] = []  # when it is looked whether an account may go, a heap

    # What lasts

    def clear(self) -> None:
        """Forgets everything, before a store is read anew."""
        self._accounts, self._of, self._changed, self._ended = {}, defaultdict(set), set(), []

    def restore(self, lease: str, kept: bytes) -> None:
        """Takes an account from the store.

        Raises:
            ValueError: it is none.
        """
        account = msgspec.json.decode(kept, type=Account)
        self._accounts[lease] = account
        self._of[account.client].add(lease)
        if account.over >= 0:
            heappush(self._ended, (account.over, lease))

    def changes(self) -> dict[str, bytes]:
        """The accounts that have changed since they were last handed out, by lease; empty where one is forgotten."""
        changed, self._changed = self._changed, set()
        return {lease: self._written(lease) for lease in sorted(changed)}

    def _written(self, lease: str) -> bytes:
        account = self._accounts.get(lease)
        return b"" if account is None else msgspec.json.encode(account)

    # What clients ask

    def client(self, lease: str) -> str:
        """The client that has demanded a lease; empty where it was none."""
        account = self._accounts.get(lease)
        return "" if account is None else account.client

    def standing(self, client: str, now: int) -> ClientShare:
        """The share that a client has, and may have."""
        quota = self._quota(client)
        charged = None
        if quota.per is not None:
            start = now // quota.per * quota.per
            charged = Sum(self._uses(client)).within(start, start + quota.per)
        return ClientShare(quota, len(self._open(client)), charged)

    def clients(self) -> list[str]:
        """The clients that have an account."""
        return sorted(client for client, leases in self._of.items() if leases)

    def open(self) -> list[str]:
        """The leases of clients that are not over, as far as this is known here."""
        return [lease for lease, account in self._accounts.items() if account.over < 0]

    def charge(
        self, client: str, method: str, arguments: Sequence[Any], options: Mapping[str, Any], now: int
    ) -> Charge:
        """Returns the cost of a command; nothing has changed.

        Args:
            client: who demands a lease; a lease that is there is charged to its own client, whoever asks.
            method: of the policy.
            arguments: the lease, and the numbers.
            options: of the method.
            now: the time.

        Raises:
            ActorError: it is more than the client may have.
        """
        lease, *numbers = arguments
        before = self._accounts.get(lease)
        if method == "demand" and client:
            if before is not None and (before.over < 0 or before.uses):
                raise ActorError(f"lease {lease!r} was asked for already; give another demand a new name")
            units, until = map(_natural, numbers[:2])
            after = Account(client, _some(Use(units, max(now, _natural(options.get("start", 0))), until)))
            self._check(lease, Account(client, ()), after, now, more=1)
            return lease, after
        if before is None or before.over >= 0:
            return None
        if method == "flex":
            after = _flexed(before, _natural(numbers[0]), now)
        elif method == "prolong":
            after = _prolonged(before, _natural(numbers[0]))
        else:
            return None
        self._check(lease, before, after, now)
        return lease, after

    def take(self, charge: Charge) -> None:
        """Takes the charge of a command that is taken."""
        if charge is None:
            return
        lease, after = charge
        before = self._accounts.get(lease)
        if before is not None and before.over >= 0 and before.uses:
            return  # it was over before its policy had answered
        self._put(lease, after if before is None or before.over >= 0 else replace(after, had=before.had))

    def _check(self, lease: str, before: Account, after: Account, now: int, more: int = 0) -> None:
        client = after.client
        quota, there = self._quota(client), len(self._open(client))
        if more and quota.leases is not None and there + more > quota.leases:
            raise ActorError(
                f"{client} may have {quota.leases} leases at once (its quota `leases`), and has {there}; 0 are left: "
                "close one, or wait until one is over"
            )
        if quota.unit_ticks is None or quota.per is None:
            return
        others = [use for other in self._of[client] if other != lease for use in self._accounts[other].uses]
        now_sum, then_sum, per = Sum([*others, *before.uses]), Sum([*others, *after.uses]), quota.per
        for start in sorted(_periods({*now_sum.times, *then_sum.times}, per)):
            had, has = now_sum.within(start, start + per), then_sum.within(start, start + per)
            if start + per > now and has > max(had, quota.unit_ticks):
                left = max(0, quota.unit_ticks - had)
                raise ActorError(
                    f"{client} may use {quota.unit_ticks} units times ticks in each {per} ticks (its quota "
                    f"`unit_ticks`); from tick {start} to {start + per} {left} are left, and this needs {has - had}"
                )

    def _quota(self, client: str) -> Quota:
        return self._quotas().get(client, Quota())

    def _open(self, client: str) -> list[str]:
        return [lease for lease in self._of.get(client, ()) if self._accounts[lease].over < 0]

    def _uses(self, client: str) -> Iterator[Use]:
        return (use for lease in self._of.get(client, ()) for use in self._accounts[lease].uses)

    # What becomes of leases

    def noted(self, lease: Lease, now: int, over: int | None = None) -> None:
        """A lease has changed.

        Args:
            lease: as its holder's record has it.
            now: the time.
            over: since when it is over; None: it is not.
        """
        account = self._accounts.get(lease.name)
        if account is None or account.over >= 0:
            return
        after, data = account, lease.data
        if data.get("lease_units", True) and not account.had:
            after = replace(after, had=True)
        if over is not None:
            after = replace(after, uses=cut(after.uses, over) if after.had else (), over=over)
        elif after.fewer and _most(data) <= after.fewer:
            after = _shrunk(after, now)
        if after != account:
            self._put(lease.name, after)

    def withdrawn(self, lease: str, now: int) -> None:
        """The demand for a lease is over, and the lease never began."""
        account = self._accounts.get(lease)
        if account is not None and account.over < 0:
            self._put(lease, replace(account, uses=cut(account.uses, now) if account.had else (), over=now))

    def tick(self, now: int, there: Callable[[str], bool]) -> None:
        """Forgets the accounts of leases that are over and forgotten, once the period of their last use is over.

        Args:
            now: the time.
            there: tells whether a lease is remembered.
        """
        while self._ended and self._ended[0][0] <= now:
            _, lease = heappop(self._ended)
            account = self._accounts.get(lease)
            if account is None or account.over < 0:
                continue
            if (due := self._kept_until(account)) > now or there(lease):
                heappush(self._ended, (max(due, now + LOOK_AGAIN), lease))
                continue
            del self._accounts[lease]
            self._of[account.client].discard(lease)
            self._changed.add(lease)

    def _kept_until(self, account: Account) -> int:
        per = self._quota(account.client).per
        last = max((use.end for use in account.uses), default=0)
        return 0 if per is None or not last else (last - 1) // per * per + per

    def _put(self, lease: str, account: Account) -> None:
        if (before := self._accounts.get(lease)) is not None:
            self._of[before.client].discard(lease)
        self._accounts[lease] = account
        self._of[account.client].add(lease)
        self._changed.add(lease)
        if account.over >= 0:
            heappush(self._ended, (account.over, lease))


def _most(data: Mapping[str, Any]) -> int:
    """The units that a lease has, or may have got without its holder having heard of it yet."""
    units: int = max(len(data.get("lease_units", ())), data.get("ticket_units", 0), data.get("requested_units", 0))
    return units


def _natural(number: Any) -> int:
    """A number of a command; what is none costs nothing, as the policy refuses it."""
    return number if isinstance(number, int) and number > 0 else 0


def _some(*uses: Use) -> tuple[Use, ...]:
    return tuple(use for use in uses if use.end > use.start)


def _flexed(account: Account, units: int, now: int) -> Account:
    """An account after another number of units was asked for: more are charged from now on, fewer later."""
    *past, last = account.uses or (Use(0, now, now),)
    if units < last.units:
        return replace(account, fewer=units)
    if units == last.units:
        return replace(account, fewer=0)
    at = max(now, last.start)
    return replace(
        account, uses=(*past, *_some(Use(last.units, last.start, min(at, last.end)), Use(units, at, last.end))), fewer=0
    )


def _prolonged(account: Account, until: int) -> Account:
    if not account.uses:
        return account
    *past, last = account.uses
    return replace(account, uses=(*past, Use(last.units, last.start, max(until, last.end))))


def _shrunk(account: Account, now: int) -> Account:
    """An account whose lease has given back what it was to."""
    if not account.uses:
        return replace(account, fewer=0)
    *past, last = account.uses
    at = min(max(now, last.start), last.end)
    uses = (*past, *_some(Use(last.units, last.start, at), Use(account.fewer, at, last.end)))
    return replace(account, uses=uses, fewer=0)


def _periods(times: set[int], per: int) -> set[int]:
    """The starts of periods in which a sum that changes at these times may be greatest.

    Between two of the times the rate is the same, so all whole periods there have the same sum.
    """
    return {at // per * per + later for at in times for later in (0, per)}
