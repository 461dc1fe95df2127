"""Failures at a site of late: hosts, whose units are taken last, and wishes that nobody is given units for.

Theory of operation (paper, section 5.4). A site that sets units up elsewhere for as long as they fail loses all of them
to one bad image; one that takes its units in a fixed order gives each new lease those of a host that is broken. A
policy hears that units of a lease have failed, and not why. So it draws two conclusions, each of which a success ends:

- a *host* with failed units is suspect: others are taken first, and its own only where these are too few;
- a *wish*, which is a type of unit with what the holder has said of it (its configuration, or the names `by` of it),
  is held back once so many leases in a row have failed with it, on any hosts. Who asks for it then is refused at once,
  and no unit is touched. When its time is over, one lease tries again; if that fails, the time doubles.

The whole configuration is the wish unless the site says otherwise, so that a holder whose own words make units fail
holds back nobody else. A unit that comes up and dies is no success of its wish, where it was put in the place of one
that had failed. All of this is kept in memory: after a restart the site tries anew, as its operator may have mended
something.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from leasehold.impl.lease.ticket import properties_of
from leasehold.impl.policy.policy import Lease

log = logging.getLogger("leasehold.authority")

MOST_WISHES = 1000  # that are remembered; holders choose them
LONGEST = 16  # times `ticks` that a wish is held back at most
_AT_WORK = ("priming", "modifying", "active")
_GOING = ("closing", "closed")


class HoldBack(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The settings by which a wish is held back.

    Attributes:
        failures: leases that have failed with it in a row; 0: none is held back.
        ticks: for which it is, at first.
        by: the names in a lease's configuration that make a wish; left out: all of them.
    """

    failures: Annotated[int, msgspec.Meta(ge=0)] = 3
    ticks: Annotated[int, msgspec.Meta(ge=1)] = 120
    by: list[str] | None = None


@dataclass(slots=True)
class _Wish:
    """A wish with which leases have failed.

    Attributes:
        failed: how many in a row.
        reason: why the last did.
        until: the tick until which it is held back; 0: it is not.
        times: how often in a row it was held back.
        trial: the lease that tries again.
    """

    failed: int = 0
    reason: str = ""
    until: int = 0
    times: int = 0
    trial: str = ""


class SetupFailures:
    """The failures of a site.

    Args:
        settings: when a wish is held back.
    """

    def __init__(self, settings: HoldBack) -> None:
        self.settings = settings
        self.suspect: set[str] = set()  # hosts
        self._wishes: dict[str, _Wish] = {}

    def wish(self, lease: Lease, type: str) -> str:
        """The wish of a lease, as a text that is alike for alike ones."""
        said, by = properties_of(lease.data["configuration"]), self.settings.by
        chosen = said if by is None else {name: said[name] for name in by if name in said}
        return f"{type} with {msgspec.json.encode(chosen, order='deterministic').decode()}" if chosen else type

    def note(self, before: Lease, lease: Lease, wish: Callable[[], str], host: Callable[[int], str], now: int) -> None:
        """Takes what has become of a lease.

        Args:
            before: the lease as it was known before.
            lease: as it is.
            wish: returns its wish.
            host: returns the host of a unit.
            now: the time.
        """
        if failed := _failed(before, lease, now):
            self.suspect.update(map(host, failed))
            self._fail(lease, wish(), now)
        elif before.state in ("priming", "modifying") and lease.state == "active":
            if self.suspect:
                self.suspect.difference_update(map(host, lease.data["assigned"]))
            if self._wishes and before.state == "priming":
                self._wishes.pop(wish(), None)
        known = self._wishes.get(wish()) if self._wishes and lease.state in _GOING else None
        if known is not None and known.trial == lease.name:
            known.trial = ""

    def _fail(self, lease: Lease, wish: str, now: int) -> None:
        known = self._wishes.setdefault(wish, _Wish())
        if len(self._wishes) > MOST_WISHES:  # the first other that is not held back now, or else the first
            others = (other for other in self._wishes if other != wish)
            del self._wishes[min(others, key=lambda other: self._wishes[other].until > now)]
        known.failed, known.reason = known.failed + 1, str(lease.data["reason"] or "its units were given up")[:300]
        if self.settings.failures and known.failed >= self.settings.failures and now >= known.until:
            ticks = self.settings.ticks * min(2**known.times, LONGEST)
            known.until, known.times, known.trial = now + ticks, known.times + 1, ""
            log.warning("%s is held back until tick %d: %s", wish, known.until, self._words(known))

    def held_back(self, lease: Lease, wish: Callable[[], str], now: int) -> str:
        """Returns why a lease gets no more units now; empty: it may. The first that may is the one that tries again."""
        known = self._wishes.get(wish()) if self._wishes else None
        if known is None or not known.until or known.trial == lease.name:
            return ""
        if now >= known.until and not known.trial:
            known.trial = lease.name
            return ""
        how = f"{known.trial} tries again" if known.trial else f"none is set up before tick {known.until}"
        return f"{self._words(known)}; {how}"

    def query(self, now: int) -> list[dict[str, Any]]:
        """The wishes that are held back, in words."""
        held = ((wish, known) for wish, known in self._wishes.items() if known.until)
        return [{"wish": wish, "until": known.until, "reason": self._words(known)} for wish, known in held]

    @staticmethod
    def _words(known: _Wish) -> str:
        return f"units like these have failed for {known.failed} leases in a row, the last as: {known.reason}"


def _failed(before: Lease, lease: Lease, now: int) -> Collection[int]:
    """The units of a lease that may have failed since it was seen last."""
    was, data = before.data, lease.data
    if before.state not in _AT_WORK or not was["chosen"]:
        return ()
    reason = data["reason"] if data["reason"] != was["reason"] else None
    if lease.state in _GOING:
        return was["chosen"] if reason else {n for (_, n), unit in before.units.items() if _has_failed(unit, now)}
    return set(was["chosen"]) - set(data["chosen"]) if reason or data["repairing"] else ()


def _has_failed(unit: Mapping[str, Any], now: int) -> bool:
    """Returns whether a unit has failed, or its handler is given up at this tick."""
    return unit["state"] == "failed" or (unit["state"] in ("priming", "modifying") and unit["deadline"] <= now)
