"""Figures of a simulated policy: how much is used, who waits how long, who has its fair share, what is served and paid.

Utilisation is of all units, from the first request until the last is over. A start is missed if a request has no unit
at its `until_start`; one that started and ended without all that it needs is cut short. Only requests that started have
waited.

Fairness is asked of a user only while one of its requests waits (Parekh and Gallager, "A generalized processor sharing
approach to flow control in integrated services networks", 1993): who has all that it wants is treated unfairly by
nobody, and who asked for little cannot have had more. Its *fair share* of a tick is what it would have if the units
were divided as finely as can be, max-min by weight among all that want some then (Bertsekas and Gallager, "Data
Networks", 1992, section 6.5.2). Over these ticks, what it had is divided by its fair share, and Jain's index is taken
over the users (Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination", DEC TR-301, 1984, which
divides a throughput by the fair one): 1 where all had alike, 1/n where one of n had all. Units by weight alone, over a
whole run, would call a policy unfair that gives somebody all that it asked for.

The *value* that is served is the sum of what requests bid for each unit and tick that they had, whoever is paid. The
*revenue* is what a broker could have been paid for that. A policy that reads bids is paid them. One that does not
cannot ask each for another price: it is paid the best posted price, so that those who bid less pay nothing, and the
others no more than that (the best single price in hindsight: Goldberg, Hartline and Wright, "Competitive auctions and
digital goods", 2001). A ticket that says its `price` has that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from leasehold.checker.policies.run import PolicyRun, RequestProgress


@dataclass(frozen=True, slots=True)
class UserShare:
    """A user of a stream.

    Attributes:
        name: of the user.
        weight: as the requests say it, the highest of them.
        entitled: the share of all weights.
        asked, used: of all units and ticks, those that were asked for and those that were used.
        requests, missed: how many, and how many of them have missed their start.
        waits: the mean number of ticks until a start.
        normalised: what it had while one of its requests waited, divided by its fair share of that; None: none waited.
    """

    name: str
    weight: int
    entitled: float
    asked: float
    used: float
    requests: int
    missed: int
    waits: float
    normalised: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run.

    Attributes:
        requests: how many there were.
        done, missed, cut: how many had all that they need, have missed their start, or were cut short.
        utilisation: from 0 to 1.
        mean_wait, median_wait, late_wait, longest_wait: ticks; `late_wait`: 95 of 100 waited no longer.
        fairness: Jain's index over what users had of their fair shares.
        value: the sum of what was bid for each unit and tick that was used.
        revenue: the sum of what is paid for them.
        users: by name.
    """

    requests: int
    done: int
    missed: int
    cut: int
    utilisation: float
    mean_wait: float
    median_wait: int
    late_wait: int
    longest_wait: int
    fairness: float
    value: int
    revenue: float
    users: tuple[UserShare, ...]


def waits_of(requests: Sequence[RequestProgress]) -> list[int]:
    """The ticks that requests have waited, of those that started, in order."""
    return sorted(one.started - one.request.at for one in requests if one.started is not None)


def figures_of(run: PolicyRun) -> Figures:
    """The figures of a run."""
    waits = waits_of(run.requests)
    users = _users(run)
    return Figures(
        len(run.requests),
        sum(one.done for one in run.requests),
        sum(one.started is None for one in run.requests),
        sum(one.started is not None and not one.done for one in run.requests),
        sum(run.used) / max(1, len(run.used) * run.units),
        sum(waits) / max(1, len(waits)),
        _quantile(waits, 0.5),
        _quantile(waits, 0.95),
        max(waits, default=0),
        jain([user.normalised for user in users if user.normalised is not None]),
        sum(one.request.bid * one.work for one in run.requests),
        _revenue(run),
        users,
    )


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness; 1 where nobody has anything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def fair_shares(units: int, wanted: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, float]:
    """The units that each user would have if they were divided max-min by weight.

    Nobody has more than it wants, and nobody could have more without another one having less that has no more for its
    weight. All are filled alike until one has what it wants, then the others.

    Args:
        units: to be divided.
        wanted: by user; users that are not there want none.
        weights: by user.
    """
    order = sorted(wanted, key=lambda user: (wanted[user] / weights[user], user))
    shares, left, unfilled = {}, float(units), sum(weights[user] for user in wanted)
    for user in order:
        shares[user] = min(float(wanted[user]), left * weights[user] / unfilled)
        left -= shares[user]
        unfilled -= weights[user]
    return shares


def _normalised(run: PolicyRun, weights: Mapping[str, int]) -> dict[str, float]:
    """Parts of their fair shares that users had, over the ticks in which one of its requests waited."""
    had, due = dict.fromkeys(weights, 0), dict.fromkeys(weights, 0.0)
    for users in run.by_user:
        shares = fair_shares(run.units, {name: one.wanted for name, one in users.items()}, weights)
        for name, one in users.items():
            if one.backlogged:
                had[name] += one.used
                due[name] += shares[name]
    return {name: had[name] / due[name] for name in weights if due[name]}


def _revenue(run: PolicyRun) -> float:
    """The sum of what is paid: by the tickets that say a price, and else by bids, or by the best posted price."""
    priced = sum(one.price * one.work for one in run.requests if one.price is not None)
    others = [one for one in run.requests if one.price is None]
    if run.reads_bids:
        return priced + sum(one.request.bid * one.work for one in others)
    prices = {one.request.bid for one in others}
    posted = (price * sum(one.work for one in others if one.request.bid >= price) for price in prices)
    return priced + max(posted, default=0)


def _quantile(ordered: Sequence[int], share: float) -> int:
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0


def _users(run: PolicyRun) -> tuple[UserShare, ...]:
    by_user: dict[str, list[RequestProgress]] = {}
    for one in run.requests:
        by_user.setdefault(one.request.user, []).append(one)
    weights = {name: max(one.request.weight for one in own) for name, own in by_user.items()}
    asked, used = (max(1, sum(of)) for of in zip(*((p.request.work, p.work) for p in run.requests), strict=True))
    normalised = _normalised(run, weights)
    found = []
    for name, own in sorted(by_user.items()):
        waits = waits_of(own)
        found.append(
            UserShare(
                name,
                weights[name],
                weights[name] / sum(weights.values()),
                sum(one.request.work for one in own) / asked,
                sum(one.work for one in own) / used,
                len(own),
                sum(one.started is None for one in own),
                sum(waits) / max(1, len(waits)),
                normalised.get(name),
            )
        )
    return tuple(found)
