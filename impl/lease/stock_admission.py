"""The stocks that a site may open: no more units of a type, at any time, than its inventory has.

Theory of operation. Each stock is a run of the system `delegation` of its own, so no machine of it knows the others.
All are in the actor's records, which it has at any moment, also those of this turn that are not committed yet: whoever
opens a stock at the same time comes before or after. A site counts

- the stocks of its records, each until it is over or all of it has come back;
- those of which its folder says that they are published and its records know nothing, until they are over: its store
  may be new, and what was handed on then still counts;
- the leases that it has of tickets that were cut from no delegation, until they are over: the site that honours tickets
  writes them to the folder (`HeldLeases`). A lease that was cut from a stock is part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from leasehold.impl import files
from leasehold.impl.identity.signed import Malformed, Refusal, Unauthorised
from leasehold.impl.lease.delegations import Delegations, FolderFault, Published
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.link_credentials import type_of, whole_number
from leasehold.impl.lease.steps import Steps
from leasehold.impl.words import choices, counted

OPEN = "open"  # the event that opens a stock
_SUFFIX, _MODE = ".leases", 0o600


class CountedUnits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units that a lease has at a site, of which no delegation speaks.

    Attributes:
        lease: which.
        type: of the units.
        units: how many.
        end: at this time its term is over.
    """

    lease: str
    type: str
    units: int
    end: int


class _Leases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    site: str
    leases: tuple[CountedUnits, ...]
    version: Literal[1] = 1


_decoder = msgspec.json.Decoder(_Leases)


class HeldLeases:
    """The file in which a site that honours tickets says which units its leases have beside all delegations.

    Args:
        folder: of its delegations.
        site: its name.
    """

    def __init__(self, folder: Path, site: str) -> None:
        self.path, self._site = folder / f"{site}{_SUFFIX}", site
        self._written: tuple[CountedUnits, ...] | None = None

    def write(self, leases: Iterable[CountedUnits]) -> None:
        """Replaces the file, if it says something else.

        Raises:
            OSError: it cannot be written.
        """
        now = tuple(sorted(leases, key=lambda one: one.lease))
        if now == self._written:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(self.path, msgspec.json.encode(_Leases(self._site, now)) + b"\n", _MODE)
        self._written = now

    def read(self) -> tuple[CountedUnits, ...]:
        """Returns what it says; nothing, where there is none.

        Raises:
            FolderFault: it cannot be read.
        """
        try:
            said = _decoder.decode(self.path.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise FolderFault(f"{self.path}: does not say which units leases have: {why}") from None
        return said.leases if said.site == self._site else ()


class StockAdmission:
    """Judges the stocks that clients open at an actor (impl/actor/environment.py, `Admission`).

    Args:
        site: its name.
        inventory: its units; None: it is no site, and opens no stock.
        folder: in which its delegations are published; None: nowhere.
    """

    def __init__(self, site: str, inventory: Inventory | None, folder: Path | None) -> None:
        self.site, self.inventory = site, inventory
        self._published = Delegations(folder, site) if folder is not None else None
        self._leases = HeldLeases(folder, site) if folder is not None else None

    def admit(
        self, event: str, fields: Mapping[str, Any], records: Sequence[tuple[str, Mapping[str, Any]]], now: int
    ) -> None:
        """Judges an event before its machine does.

        Args:
            event: its name.
            fields: of it.
            records: the data of the machines of its role that this actor has, each with its run.
            now: the actor's clock.

        Raises:
            Refusal: the stock would have more units than there are.
        """
        if event != OPEN:
            return
        if self.inventory is None:
            raise Unauthorised(
                f"no inventory says which units {self.site} has; name it by `inventory` in its configuration"
            )
        type, units, end = type_of(fields["type"]), fields["units"], fields["end"]
        start = max(now, whole_number(fields["start"]))
        if start >= end:
            raise Malformed(f"a term from {start} until {end} has no time in it")
        if type not in self.inventory.types:
            raise Unauthorised(f"{self.site} has no units of type {type[:60]!r}{choices(type, self.inventory.types)}")
        there = len(self.inventory.numbers(type))
        taken = [one for one in self._taken(records) if one.type == type and one.end > now]
        most, at = most_taken(taken, start, end)
        if most + units > there:
            named = ", ".join(f"{one.lease} has {one.units} until {one.end}" for one in taken if one.end > at)
            left = max(0, there - most)
            others = f": {named}" if named else ""
            raise Unauthorised(
                f"{self.site} has {counted(there, 'unit')} of {type}, of which {left} {'is' if left == 1 else 'are'} "
                f"free at {at}, and {units} were to be opened{others}"
            )

    def _taken(self, records: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[CountedUnits]:
        """All that takes units, with the time until which it does.

        Raises:
            Refusal: the folder cannot be read, so it is not known.
        """
        known = {run for run, _ in records}
        for run, data in records:
            if data["units"] and data["above"] is None:
                yield CountedUnits(run, type_of(data["type"]), data["units"], data["end"])
        try:
            published = self._published.published if self._published is not None else ()
            leases = self._leases.read() if self._leases is not None else ()
        except FolderFault as fault:
            raise Refusal(f"it is not known which units are taken: {fault}") from fault
        yield from (_stock_of(one) for one in published if one.run not in known and one.units and not one.above)
        yield from leases


def most_taken(taken: Iterable[CountedUnits], start: int, end: int) -> tuple[int, int]:
    """The most units that are taken at a time of a term, and the first such time."""
    level = Steps()
    for one in taken:
        level.change(start, one.units)
        level.change(max(start, one.end), -one.units)
    times = [start, *(time for time in level.times(start) if time < end)]
    at = max(times, key=level.level)
    return level.level(at), at


def _stock_of(one: Published) -> CountedUnits:
    return CountedUnits(one.run, one.type, one.units, one.end)
