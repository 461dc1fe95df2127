"""The interface of handlers.

Theory of operation (paper, section 4.3.2). A handler does one action on one unit (`setup`, `modify`, `teardown` at the
site) or for one lease (`join`, `leave` at the service manager); its result becomes an event of the specification.
Recovery starts the tasks of a state again, so an action may be repeated at any time: it must be idempotent, and the
things that it makes must have a *persistent name*, by which a later incarnation finds them and does not make them
twice. Units are on or off (the toggle principle): the last action counts.

Every action has a number, its fencing number, which rises over all leases' actions on one unit. A handler passes it on,
so that the outside world can refuse old actions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.spec.language import types as t

FACTS = 64 * 1024  # bytes of one unit's facts, at most
UNIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # it becomes the name of a directory


@dataclass(frozen=True, slots=True)
class HandlerAction:
    """A request for one action.

    Attributes:
        verb: `setup`, `modify`, `teardown`, `join` or `leave`.
        lease: the lease that it is for.
        unit: the unit's persistent name; empty for an action on a lease.
        number: rises with every action on this unit (or lease); recovery gives a repeated action a new one.
        lease_data: the record of the lease, by field.
        unit_data: the record of the unit's machine, by field.
        properties: of the unit, from the site's inventory.
        answers: the events by which it may end: the first means success, the last failure.
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
        """The unit, or else the lease, that it acts on."""
        return self.unit or self.lease


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action.

    Attributes:
        well: whether it succeeded.
        words: a description for the log.
        facts: about the unit (a process, an address), which are kept with its record and shown to operators.
    """

    well: bool
    words: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def checked(result: object) -> Done:
    """The result of an action, whatever a handler has returned: what is no `Done`, or cannot be kept, is a failure."""
    if not isinstance(result, Done) or not isinstance(result.well, bool) or not isinstance(result.words, str):
        return Done(False, f"the handler returned {result!r:.80}, which is no Done")
    try:
        facts = from_plain(t.OPAQUE, result.facts)
        size = len(msgspec.msgpack.encode(facts))
    except (ValueFault, ValueError, TypeError, RecursionError) as error:
        return Done(False, f"its facts cannot be kept with a record: {error}")
    if not isinstance(facts, dict) or size > FACTS:
        words = f"its facts are a {type(result.facts).__name__} of {size} bytes; a mapping of {FACTS} can be kept"
        return Done(False, words)
    return Done(result.well, result.words.encode(errors="replace").decode(), facts)


class HandlerError(Exception):
    """An action failed, or a handler's settings cannot be used. The message gives the reason."""


class Stale(HandlerError):
    """The unit has seen a newer action, so this one is from a past incarnation. Nothing was done."""


class Handler(Protocol):
    """Does actions. Actions on one unit never overlap: the actor ends one (cancels it) before it begins the next."""

    async def act(self, action: HandlerAction) -> Done:
        """Does an action; idempotent, safe to be cancelled and to be begun again after a crash at any point.

        An exception means that the action failed; its message goes to the log.
        """
        ...

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        """Facts about a unit; None where nothing is left of it."""
        ...

    async def close(self) -> None:
        """The actor stops. Processes in units go on."""
        ...


class NullHandler:
    """A handler whose actions succeed and do nothing: for a service manager whose guest need not hear of its units."""

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
