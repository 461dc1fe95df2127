"""Notices: what an actor does, told to whoever wants to know, before it happens or as it has happened.

Theory of operation (paper, section 4.4). The actor tells every transition, commit, send, receipt, task and handler
call. A subscriber may *watch*; of what is about to happen (`Kind.about_to`) it may also *consume* the notice, so that
it does not happen, or *alter* it. What a subscriber raises is masked and counted, as it must not harm the actor; only
`SimulatedCrash`, which stands for the end of the process, goes through everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

log = logging.getLogger("leasehold.notices")


class Kind(Enum):
    """The kinds of notices."""

    RECEIVE = "receive"  # a message is about to be consumed
    SEND = "send"  # a message is about to be sent
    COMMIT = "commit"  # a batch is about to be committed
    CALL = "call"  # a policy or handler is about to be called
    FORGET = "forget"  # a machine that has been over for long enough is about to be forgotten
    COMMITTED = "committed"
    TRANSITION = "transition"  # a committed one
    IGNORED = "ignored"  # an event that moved nothing, with the reason
    ANSWERED = "answered"  # a policy or handler has ended
    REFUSED = "refused"  # a message of a peer was not accepted
    RECOVERED = "recovered"
    STOPPED = "stopped"  # the store has failed: no more steps until it is back

    @property
    def about_to(self) -> bool:
        """Returns whether it has not happened yet, and may be consumed or altered."""
        return self in (Kind.RECEIVE, Kind.SEND, Kind.COMMIT, Kind.CALL, Kind.FORGET)


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice.

    Attributes:
        kind: what about.
        actor: whose.
        lease: which lease, where it is about one.
        machine: which machine of it.
        name: the event, message, task or transition.
        now: the virtual clock.
        data: more about it, plain.
    """

    kind: Kind
    actor: str
    lease: str = ""
    machine: str = ""
    name: str = ""
    now: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


class SimulatedCrash(BaseException):
    """The process ends here, as far as the actor is concerned. Raised by a subscriber; nothing catches it."""


class Consumed(Exception):
    """Raised by a subscriber: what the notice is about does not happen."""


Subscriber = Callable[[Notice], Notice | None]


class Notices:
    """The subscribers of an actor, in the order in which they came."""

    def __init__(self) -> None:
        self.subscribers: list[Subscriber] = []
        self.masked = 0  # errors of subscribers

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Adds a subscriber; returns what takes it away again.

        A subscriber returns nothing, or the notice as it wants it to be.
        """
        self.subscribers.append(subscriber)
        return lambda: self.subscribers.remove(subscriber)

    def tell(self, notice: Notice) -> Notice | None:
        """Tells all; the notice as they leave it, or None where one has consumed it."""
        for subscriber in tuple(self.subscribers):
            try:
                answer = subscriber(notice)
            except Consumed:
                if notice.kind.about_to:
                    return None
                self._mask(subscriber, "consumed what has happened already")
            except Exception as error:
                self._mask(subscriber, f"{type(error).__name__}: {error}")
            else:
                notice = answer if isinstance(answer, Notice) and notice.kind.about_to else notice
        return notice

    def _mask(self, subscriber: Subscriber, reason: str) -> None:
        self.masked += 1
        log.warning("a subscriber to notices (%s) failed: %s", getattr(subscriber, "__qualname__", subscriber), reason)
