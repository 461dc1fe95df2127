"""Requests: everything that an actor's loop takes from its queue, as values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from leasehold.impl.actor.environment import ActorError
from leasehold.impl.core.work import Event
from leasehold.impl.handlers.handler import Done
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.store import Key


@dataclass(frozen=True, slots=True)
class Deliver:
    """A peer's message, its signature verified."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Begin:
    """A client begins a lease (or run).

    Attributes:
        key: its name, ORIGIN:NUMBER, and the machine of this actor that begins it.
        event: the local event.
        fields: its fields by name.
        peers: for each neighbour of the machine the actor that plays it.
    """

    key: Key
    event: str
    fields: Mapping[str, Any]
    peers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Tell:
    """A client's event for a machine, fields by name."""

    key: Key
    event: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decide:
    """A decision of a policy."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Complete:
    """The end of a handler call.

    Attributes:
        key: the machine that called it.
        event: the answer.
        epoch: the state epoch at which the call began.
        done: what the handler says.
    """

    key: Key
    event: str
    epoch: int
    done: Done


@dataclass(frozen=True, slots=True)
class Consume:
    """An event for a machine, as the core takes it."""

    key: Key
    event: Event


@dataclass(frozen=True, slots=True)
class Recheck:
    """A subsidiary machine has moved: a machine that waits for it checks whether its answer has come true."""

    key: Key


@dataclass(frozen=True, slots=True)
class Recover:
    """The scalpel (paper, section 4.2): a recovery event for one machine."""

    key: Key


@dataclass(frozen=True, slots=True)
class Tick:
    """The clock has come to a time."""

    now: int


@dataclass(frozen=True, slots=True)
class PolicyCommand:
    """A client's command for the policy of a role: one of its methods, and its arguments."""

    role: str
    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """A look at the actor's leases: taken after the commit, so that all that it sees is durable."""

    view: Callable[[], Any]


Request: TypeAlias = (
    Deliver | Begin | Tell | Decide | Complete | Consume | Recheck | Recover | Tick | PolicyCommand | Read
)


class Queued(NamedTuple):
    """A request, and the future of its reply, which is given after the commit; None where nobody waits for it."""

    request: Request
    reply: asyncio.Future[Any] | None = None


def answer(queued: Queued, reply: Any) -> None:
    """Gives a reply to whoever waits for it. A view is taken now, when all that it sees is durable."""
    request, future = queued
    assert future is not None
    if isinstance(request, Read):
        try:
            reply = request.view()
        except Exception as error:
            reply = ActorError(f"{type(error).__name__}: {error}")
            reply.__cause__ = error
    if isinstance(reply, Exception):
        future.set_exception(reply)
    else:
        future.set_result(reply)


def fail(requests: Iterable[Queued], reason: str) -> None:
    """Tells all who wait for a reply that there will be none."""
    for _, reply in requests:
        if reply is not None and not reply.done():
            reply.set_exception(ActorError(reason))
            reply.exception()  # nobody may be waiting for it
