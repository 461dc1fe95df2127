"""The interface of drivers: one kind of thing on a machine, made, changed, looked at and removed by a persistent name.

Theory of operation (paper, section 4.3.2; ORCA report, section 3.7). A handler of composed units (composed.py) calls
the drivers of a unit one after the other, under the unit's guard, once the number of the action is written down: so an
older action never reaches a driver, and no two are at work on one unit. What remains for a driver is that it may be
killed between any two of its steps, and begins again with whatever it finds:

- `create` brings the thing about from any state that a killed `create`, `modify` or `destroy` has left, and leaves a
  thing alone that is as it should be;
- `modify` changes a thing that is up, without a restart;
- `destroy` removes all of it, also half of it, also what it has not made itself, if it has the thing's name;
- `probe` says what is there, and changes nothing.

All that a driver makes has a name that follows from the part (`UnitPart.name`, or `UnitPart.link` where only 15
letters are possible) or lies in the part's folder. Programs are run by `UnitPart.run` alone: they hold the unit's lock,
so those that a killed actor has left behind are found and ended before the next action begins.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from leasehold.impl.drivers.tools import Tools
from leasehold.impl.handlers.handler import HandlerAction, HandlerError
from leasehold.impl.words import choices

Facts = Mapping[str, Any]
S = TypeVar("S", bound=Struct)
SettingCheck: TypeAlias = Callable[[Any, str], object]  # of a value, and where it stands; raises HandlerError

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMGT]?)(i?)[Bb]?\s*")
_RATE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMG]?)(?:bit(?:/s)?|bps)?\s*")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True, slots=True)
class UnitPart:
    """A part of a unit, as a driver is told of it.

    Attributes:
        name: the persistent name of the thing on this machine; letters, digits, `.`, `_` and `-`.
        link: a shorter one, of 15 letters at most.
        folder: the part's own folder, which is there while the part is, and is removed after `destroy`.
        unit: the persistent name of the unit.
        tools: runs programs.
        action: that is done, for the lease that the part serves.
        ending: whether a lease is over for which the unit has been up, so that what is to be kept is kept; else it is
            replaced, or a setup is undone.
        at: called at each point, after a step is done; tests let a process die there.
    """

    name: str
    link: str
    folder: Path
    unit: str
    tools: Tools
    action: HandlerAction
    ending: bool = False
    at: Callable[[str], None] = lambda point: None

    def point(self, name: str) -> None:
        """A point between two steps.

        Raises:
            Cancelled: the action was cancelled.
        """
        self.at(name)
        self.tools.check_stop()

    @property
    def lease(self) -> str:
        """The lease that the part serves."""
        return self.action.lease

    @property
    def index(self) -> int:
        """The number of the unit."""
        return self.action.index

    @property
    def holder(self) -> str:
        """The actor that has the lease: leases are named HOLDER:NUMBER, for which the holder's signature vouches."""
        return self.lease.rpartition(":")[0]


def named(directory: Path, unit: str, part: str) -> str:
    """The persistent name of a part of a unit on this machine, on which several handlers may be at work."""
    return f"lh-{hashlib.sha256(str(directory).encode()).hexdigest()[:8]}-{unit}-{part}"


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A thing, as `probe` found it.

    Attributes:
        up: whether it is whole, and works.
        words: its state, for an operator.
        facts: about it.
    """

    up: bool
    words: str
    facts: Facts = field(default_factory=dict)


class Driver(Protocol):
    """Makes things of one kind. Its methods run in a thread, never two at once for one part.

    Attributes:
        settings: the type of its settings.
        changes: the settings that `modify` can change while the thing is up; the others stay until the lease is over.
        facts: the names of what `create` and `modify` return, which settings of later parts may use.
        programs: that it runs, so that a missing one is told before anything is begun.

    It may have `checks` (SettingCheck), by the names of settings: they tell a wrong value before anything is begun.
    """

    settings: type[Struct]
    changes: frozenset[str]
    facts: tuple[str, ...]
    programs: tuple[str, ...]

    def create(self, part: UnitPart, settings: Any) -> Facts:
        """Makes the thing, or finds it; returns facts about it.

        Raises:
            HandlerError: it cannot be made; what there is of it stays until `destroy`.
        """
        ...

    def modify(self, part: UnitPart, settings: Any) -> Facts:
        """Changes a thing that is up, as far as `changes` says; returns facts about it.

        Raises:
            HandlerError: it cannot be changed so.
        """
        ...

    def probe(self, part: UnitPart, settings: Any) -> FoundPart | None:
        """Returns what there is of the thing; None: nothing."""
        ...

    def destroy(self, part: UnitPart, settings: Any) -> Facts:
        """Removes the thing; returns facts about what was kept.

        Raises:
            HandlerError: something of it is left.
        """
        ...


def settings_of(driver: Driver, given: Mapping[str, Any], where: str) -> Any:
    """The settings of a driver, of its own type.

    Raises:
        HandlerError: a setting is unknown, missing, or of another type.
    """
    names = driver.settings.__struct_fields__
    for name in given:
        if name not in names:
            raise HandlerError(f"{where}: there is no setting {str(name)[:60]!r}{choices(str(name), names)}")
    try:
        return msgspec.convert(dict(given), driver.settings, strict=False)
    except msgspec.ValidationError as error:
        raise HandlerError(f"{where}: {error}") from None


def size_of(value: int | str, where: str) -> int:
    """A number of bytes: `64MiB`, `2GB`, or a plain number.

    Raises:
        HandlerError: it is none.
    """
    matched = _SIZE.fullmatch(str(value))
    if isinstance(value, bool) or matched is None:
        raise HandlerError(f"{where}: {str(value)[:40]!r} is no size; write it as 64MiB, 2GB, or a number of bytes")
    number, letter, binary = matched.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS[letter])


def rate_of(value: int | str, where: str) -> int:
    """A number of bits per second: `10Mbit`, `1Gbit`, or a plain number.

    Raises:
        HandlerError: it is none.
    """
    matched = _RATE.fullmatch(str(value))
    if isinstance(value, bool) or matched is None:
        raise HandlerError(f"{where}: {str(value)[:40]!r} is no rate; write it as 10Mbit, or a number of bits a second")
    return int(float(matched[1]) * 1000 ** _POWERS[matched[2]])


def subnet_of(value: str, where: str) -> ipaddress.IPv4Network:
    """An IPv4 network, as `10.77.0.0/24`.

    Raises:
        HandlerError: it is none.
    """
    try:
        return ipaddress.IPv4Network(value)
    except ValueError as error:
        raise HandlerError(f"{where}: {value[:60]!r} is no network: {error}; write it as 10.77.0.0/24") from None


def address_of(value: str, where: str) -> ipaddress.IPv4Address:
    """An IPv4 address.

    Raises:
        HandlerError: it is none.
    """
    try:
        return ipaddress.IPv4Address(value)
    except ValueError:
        raise HandlerError(f"{where}: {value[:60]!r} is no IPv4 address") from None


def limit_of(value: float, where: str) -> float:
    """A limit, 0 where there is none.

    Raises:
        HandlerError: it is none.
    """
    if not 0 <= value < math.inf:
        raise HandlerError(f"{where}: {value:g} is no limit; it is a number from 0 on, and 0 means no limit")
    return value


def words_of(value: list[str], where: str) -> list[str]:
    """The words of a command.

    Raises:
        HandlerError: there are none.
    """
    if not value:
        raise HandlerError(f"{where}: is empty; it needs a list of words, as in [/sbin/init]")
    return value


def quantity_of(value: int | float | str, where: str) -> float:
    """A number, a size or a rate, to be compared with another.

    Raises:
        HandlerError: it is none.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value)
    try:
        return float(text)
    except ValueError:
        return float(rate_of(text, where) if "bit" in text else size_of(text, where))


def need_root(driver: str) -> None:
    """Refuses to begin as another user than root.

    Raises:
        HandlerError: this process is not root's.
    """
    if os.geteuid() != 0:
        raise HandlerError(f"the driver {driver} needs root, and this is user {os.geteuid()}")
