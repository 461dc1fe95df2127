"""What the core asks of a handler.

Theory of operation (paper, section 4.3.2). A handler does one action on one unit (`setup`, `modify`, `teardown` at the
site) or for one lease (`join`, `leave` at the service manager), and ends with an event of the specification. It may be
begun again at any time, as recovery starts the tasks of a state anew: what it does must be idempotent, and what it
makes must have a *persistent name*, so that what an earlier incarnation made is found and not made twice. On or off is
all that is asked (the toggle principle): the last action counts, and hides what lies between.

Every action has a number, which only rises for one unit over all leases' actions on it: its fencing number. A handler
passes it on, so that the world outside can refuse what is old.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

UNIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # it becomes the name of a directory


@dataclass(frozen=True, slots=True)
class HandlerAction:
    """One action that is asked for.

    Attributes:
        verb: `setup`, `modify`, `teardown`, `join` or `leave`.
        lease: for which lease.
        unit: the unit's persistent name; empty for an action on a lease.
        number: rises with every action on this unit (or lease); one that is begun again by recovery has its own.
        lease_data: the record of the lease, by field.
        unit_data: the record of the unit's machine, by field.
        properties: of the unit, from the site's inventory.
        answers: the events by which it may end: the first says that it went well, the last that it did not.
    """

    verb: str
    lease: str
    unit: str
    number: int
    lease_data: Mapping[str, Any]
    unit_data: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[str, ...] = ()

    @property
    def on(self) -> str:
        """What it acts on: the unit, or else the lease."""
        return self.unit or self.lease


@dataclass(frozen=True, slots=True)
class Done:
    """How an action ended.

    Attributes:
        well: whether what was asked for is so now.
        words: what happened, for the log.
        facts: what is known of the unit now (a process, an address); kept with its record, and shown to operators.
    """

    well: bool
    words: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class HandlerError(Exception):
    """An action ended badly, or a handler's settings cannot be used. The message says what and why."""


class Stale(HandlerError):
    """An action older than one that the unit has seen: whoever asks for it is a past incarnation. Nothing was done."""


class Handler(Protocol):
    """Does actions. Actions on one unit never overlap: the actor ends one (cancels it) before it begins the next."""

    async def act(self, action: HandlerAction) -> Done:
        """Does an action; idempotent, safe to be cancelled and to be begun again after a crash at any point.

        An exception is an action that ended badly; its words go to the log.
        """
        ...

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        """What is known of a unit now; None where nothing is left of it."""
        ...

    async def close(self) -> None:
        """The actor stops. What runs in units goes on."""
        ...


class NullHandler:
    """A handler that does nothing, and does it well: for a service manager whose guest needs no word of its units."""

    async def act(self, action: HandlerAction) -> Done:
        return Done(True, f"nothing to do for {action.verb}")

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        return None

    async def close(self) -> None:
        pass


async def ended(waiting: asyncio.Future[Any]) -> None:
    """Waits for an end that comes soon, also while being cancelled."""
    while not waiting.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([waiting])
