"""A client's demand for a lease: what is wanted, until when, and for whom it is said.

It is the one thing of a lease that is in no record, so it is kept among the durable words of its actor.
"""

from __future__ import annotations

from typing import Any

import msgspec

from leasehold.impl.core.values import LARGEST


class DemandError(ValueError):
    """A client's wish cannot be taken; nothing has changed."""


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


def property_lists(wish: LeaseDemand) -> dict[str, Any]:
    """The opaque properties of a demand, as fields of the events that ask for its units."""
    return {"properties": wish.properties, "configuration": wish.configuration, "local": wish.local}


def check_number(name: str, value: object, least: int, needed: str, most: int = LARGEST) -> None:
    """Refuses what is no number within its bounds.

    Raises:
        DemandError: it is none; the message says what it needs.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DemandError(f"{name} is {value!r:.60}; it needs {needed}")
    if value > most:
        raise DemandError(f"{name} is {str(value)[:30]}; {most} is the most that can ever be had")
