"""A client's demand for a lease: what is wanted, until when, and for whom it is said.

It is the one thing of a lease that is in no record, so it is kept among the durable words of its actor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from leasehold.impl.core.values import LARGEST


class DemandError(ValueError):
    """A client's wish cannot be taken; nothing has changed."""


class LeaseGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Leases of one holder of which it wants all or none.

    Attributes:
        id: its name; two groups of a holder at one time have different ones.
        count: its leases.
        end: the end of the first tickets of them all.
    """

    id: str
    count: int
    end: int

    @classmethod
    def parse(cls, given: Mapping[str, Any], end: int) -> LeaseGroup:
        """Reads what a client says of a lease's group.

        Raises:
            DemandError: it is no group.
        """
        if strange := sorted(set(given) - {"id", "count"}):
            raise DemandError(f"a group has an `id` and a `count`, and no {strange[0]!r:.60}")
        id, count = given.get("id"), given.get("count")
        if not isinstance(id, str) or not id:
            raise DemandError(f"the id of a group is {id!r:.60}; it needs a name")
        check_number("the count of a group", count, 2, "the number of its leases, 2 or more")
        assert isinstance(count, int)
        return cls(id, count, end)


class LeaseSlice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Properties that leases of a holder share (G, 3.1); those of a lease itself go before them, name by name.

    Attributes:
        properties, configuration, local: as a demand has them.
    """

    properties: dict[str, Any] = {}
    configuration: dict[str, Any] = {}
    local: dict[str, Any] = {}


class TargetState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a demand that a target changes (target_tracking.py).

    Attributes:
        changed: the tick at which another number of units was asked for last; -1: never.
        asked: the tick at which units were asked for last.
        end: of the ticket that was charged last; 0: none was.
        units: on that ticket.
        spent: units times ticks that were charged, by period, of periods that are not over.
    """

    changed: int = -1
    asked: int = 0
    end: int = 0
    units: int = 0
    spent: tuple[tuple[int, int], ...] = ()


class LeaseDemand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The demand for a lease.

    Attributes:
        units: how many.
        until: the time at which the demand is over, and the guests leave.
        term: ticks of each term for which the guests may run.
        start: the time from which the units are of use; the first ticket is for a term that begins then.
        soon: ask for the units now, not at the next renewal.
        type: of the units; empty where the broker has one type only.
        properties: for the broker's policy (request properties).
        configuration: for the site: what the units are for.
        local: for the holder itself, whose policies and handlers see it; no other actor does (local properties).
        after: the guests do not join before these leases are active.
        victims: the numbers of units that are given back where the lease shrinks next.
        broker: who is asked; empty: the one that the settings name.
        site: at which the units are to be; empty: the broker chooses.
        least: units of the first ticket with which the demand is content; 0: as many as are wanted.
        least_term: ticks of the first term with which it is content; 0: the whole term.
        latest_start: until when its first term may begin, and then ends as much later; 0: it begins as is asked for.
        group: the leases that it is of use with, and not without; None: it is of use by itself.
        ended: why its group, and it, are over; empty: they are not.
        slice: whose properties it inherits; empty: it is in none.
        target: what lasts of the target that it follows; None: it follows none, or has not asked yet.
    """

    units: int
    until: int
    term: int
    start: int = 0
    soon: bool = False
    type: str = ""
    properties: dict[str, Any] = {}
    configuration: dict[str, Any] = {}
    local: dict[str, Any] = {}
    after: tuple[str, ...] = ()
    victims: tuple[int, ...] = ()
    broker: str = ""
    site: str = ""
    least: int = 0
    least_term: int = 0
    latest_start: int = 0
    group: LeaseGroup | None = None
    ended: str = ""
    slice: str = ""
    target: TargetState | None = None


def property_lists(wish: LeaseDemand, shared: LeaseSlice) -> dict[str, Any]:
    """The opaque properties of a demand, as fields of the events that ask for its units.

    Args:
        wish: the demand, whose own properties count before inherited ones.
        shared: its slice, whose name becomes the local property `slice`.
    """
    local = {**shared.local, **wish.local, **({"slice": wish.slice} if wish.slice else {})}
    return {
        "properties": {**shared.properties, **wish.properties},
        "configuration": {**shared.configuration, **wish.configuration},
        "local": local,
    }


def check_number(name: str, value: object, least: int, needed: str, most: int = LARGEST) -> None:
    """Refuses what is no number within its bounds.

    Raises:
        DemandError: it is none; the message says what it needs.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DemandError(f"{name} is {value!r:.60}; it needs {needed}")
    if value > most:
        raise DemandError(f"{name} is {str(value)[:30]}; {most} is the most that can ever be had")
