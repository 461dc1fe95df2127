"""The interface of handlers.

Theory of operation (paper, section 4.3.2). A handler does one action on one unit (`setup`, `modify`, `teardown` at the
site) or for what its holder runs there (`join`, `modify`, `leave`), or for a lease as a whole, where its own machine
asks for it; its result becomes an event of the specification.
Recovery starts the tasks of a state again, so an action may be repeated at any time: it must be idempotent, and the
things that it makes must have a *persistent name*, by which a later incarnation finds them and does not make them
twice. Units are on or off (the toggle principle): the last action counts.

Every action names its *task*: an identifier of the start that the machine's record has committed (paper, section 3.4).
Recovery begins the task again under the same identifier, so the outside world can tell a repeated action from another
one; the state entered anew begins another task. Beside it stand the incarnation of the actor, and the fencing number
(`number`), which rises over all leases' actions on one unit. A handler passes them on, so that old actions can be
refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import msgspec

from leasehold.impl.core.core import Named
from leasehold.impl.core.values import ValueFault, check_sizes, from_plain, given_fields
from leasehold.impl.core.work import CallWork
from leasehold.impl.raised import RaisedEvent, of_handler
from leasehold.spec.language import types as t

FACTS = 64 * 1024  # bytes of one unit's facts, at most
PROPERTIES = 2 * 1024  # bytes of what others are told of one unit, at most; a message has those of all units of a lease
MOST_WORDS = 500  # letters of a reason
UNIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # it becomes the name of a directory


@dataclass(frozen=True, slots=True)
class HandlerAction:
    """A request for one action.

    Attributes:
        verb: what is called: `setup` for `handler.setup`.
        lease: the lease that it is for.
        unit: the unit's persistent name, of a machine that belongs to its run RUN/MACHINE; empty for an action on a
            lease.
        number: rises with every action on this unit (or lease); recovery gives a repeated action a new one.
        lease_data: the record of the lease, by field.
        unit_data: the record of the unit's machine, by field.
        properties: of the unit: from the site's inventory, or, of a machine that belongs to its run, what the actor has
            been told of it.
        answers: the events by which it may end: the first means success, the last failure.
        task: the identifier of the task's start, alike in every incarnation: RUN/MACHINE/TASK/STATE EPOCH, for a unit
            that belongs to the actor with the actor in place of the run.
        incarnation: of the actor; it rises with every restart.
        index: the unit's number.
        actor: the name of the actor that asks.
        told: what others have been told of the unit for this lease.
        peers: the actors of the machines that the lease's machine talks with, by the machines' names, where they are
            known; not for an action on a unit.
        credentials: what others have signed for the lease's machine (impl/actor/environment.py); not for an action on a
            unit.
        type: the type of a site's unit, as the inventory says it; empty: it is not known.
    """

    verb: str
    lease: str
    unit: str
    number: int
    lease_data: Mapping[str, Any]
    unit_data: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    task: str = ""
    incarnation: int = 0
    index: int = 0
    actor: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    peers: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, Any] = field(default_factory=dict)
    type: str = ""

    @property
    def on(self) -> str:
        """The unit, or else the lease, that it acts on.

        What runs on a unit that another actor has leased out is known by that unit, whose number may be another's in
        another lease, if its site has told its name.
        """
        site, name = self.properties.get("site"), self.properties.get("name")
        if "/" in self.unit and isinstance(site, str) and isinstance(name, str):
            return f"{site}/{name}"
        return self.unit or self.lease

    @property
    def term_end(self) -> int:
        """The end of the lease's term, as the record of the lease has it; 0 where it has none."""
        return int(self.lease_data.get("end", self.lease_data.get("lease_end", 0)))

    @property
    def fence(self) -> int:
        """Rises over the actions of all leases on one unit, as its site has told it."""
        number = self.properties.get("fence")
        return number if "/" in self.unit and type(number) is int else 0


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action.

    Attributes:
        well: whether it succeeded.
        words: a description for the log.
        facts: about the unit (a process, an address), which are kept with its record and shown to operators.
        answer: the event by which the task ends, one of its `answers`; empty: the first if it succeeded, else the last.
        fields: the fields of that event by name, as plain data (a set is a list, an option null or its value).
        properties: what others are told of the unit, such as an address, where the event has such a field; none: what
            they were told before stays.
        raises: events that it raises beside its answer, on this unit or on others (impl/raised.py).
    """

    well: bool
    words: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    answer: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    raises: tuple[RaisedEvent, ...] = ()


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
        message = f"its facts are a {type(result.facts).__name__} of {size} bytes; a mapping of {FACTS} can be kept"
        return Done(False, message)
    answer: Any = result.answer
    fields: Any = result.fields
    if not isinstance(answer, str) or not isinstance(fields, Mapping):
        return Done(False, f"its answer is {answer!r:.60} with {fields!r:.60}; it needs a name and a mapping", facts)
    message = result.words.encode(errors="replace").decode()
    try:
        raises = of_handler(result.raises)
    except ValueError as error:
        return Done(False, str(error), facts)
    return Done(result.well, message, facts, answer, fields, result.properties, raises)


def answer_of(
    call: CallWork, events: Mapping[str, Named], done: Done, action: HandlerAction | None = None
) -> tuple[str, tuple[Any, ...]]:
    """The event by which a result ends a call, and its fields in their order, of the specification's types.

    Two opaque fields need not be given: `reason`, which is then the result's words, and `properties`, what others are
    told of the unit, which always have its `name`, its `site` and the `fence` of the action beside what is given.

    Args:
        call: with one answer or more.
        events: of the machine's role, with their fields.
        done: the result.
        action: what was asked for; None: nothing is added to the properties.

    Raises:
        HandlerError: the result names no answer of the call, or its fields are not those of the event.
    """
    event = done.answer or call.answers[0 if done.well else -1]
    if event not in call.answers:
        raise HandlerError(f"it answered {event[:60]!r}, and {call.target} ends by {', '.join(call.answers)}")
    given = dict(done.fields)
    opaque = {name for name, kind in events[event] if kind == t.OPAQUE}
    if "reason" in opaque:
        given.setdefault("reason", done.words[:MOST_WORDS])
    if "properties" in opaque:
        given["properties"] = _properties(given.get("properties", done.properties), action)
    try:
        values = given_fields(events[event], given)
        check_sizes(events[event], values)
    except ValueFault as fault:
        raise HandlerError(f"its answer `{event}` does not fit the specification: {fault}") from None
    return event, values


def _properties(given: object, action: HandlerAction | None) -> dict[str, Any]:
    """Returns what others are told of a unit.

    Raises:
        HandlerError: it is no mapping, or too large for a message of many units.
    """
    if not isinstance(given, Mapping):
        raise HandlerError(f"its properties are {given!r:.60}; they need names and values")
    own = {"name": action.unit, "site": action.actor, "fence": action.number} if action is not None else {}
    before = action.told if action is not None else {}
    properties = {**(given or before), **own}
    try:
        size = len(msgspec.msgpack.encode(from_plain(t.OPAQUE, properties)))
    except (ValueFault, ValueError, TypeError, RecursionError) as error:
        raise HandlerError(f"its properties cannot be told: {error}") from None
    if size > PROPERTIES:
        raise HandlerError(f"its properties have {size} bytes; {PROPERTIES} are the most for one unit")
    return properties


class HandlerError(Exception):
    """An action failed, or a handler's settings cannot be used. The message gives the reason."""


class Stale(HandlerError):
    """The unit has seen a newer action, so this one is from a past incarnation. Nothing was done."""


class NotBegun(HandlerError):
    """The system lacks what an action takes (descriptors, memory, processes, space) at this moment.

    Nothing was begun, so nothing has failed: the action is tried again, and no try is counted.
    """


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


@runtime_checkable
class SaysWhatIsUp(Protocol):
    """A handler that can say whether a unit that was set up is still up (impl/actor/probes.py)."""

    async def is_up(self, unit: str) -> bool | None:
        """Returns whether a unit is up; None where this handler cannot say.

        It may be asked at any time, often, and while it acts on other units; it changes nothing. An exception means
        that it is not known. What takes too long is cancelled.

        Args:
            unit: the unit's persistent name; of a machine that is no unit, the lease.
        """
        ...


@runtime_checkable
class SaysWhatIsLeft(Protocol):
    """A handler that can say what still lives of a unit that should be down (impl/actor/remains.py)."""

    async def left_of(self, unit: str) -> str:
        """Returns what lives of a unit, in words for an operator; empty where nothing does. It changes nothing."""
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
