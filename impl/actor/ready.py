"""What follows from a turn, as a value: what is to be committed, then acknowledged, sent and started.

The form is that of `Ready` in etcd's raft. Stepping machines only adds to a `Ready`; the actor's loop carries it out
(actor.py), and nothing else in an actor writes a record, sends or begins anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from leasehold.impl.actor.instance import MachineInstance
from leasehold.impl.actor.requests import Request
from leasehold.impl.core.work import CallWork, SendWork
from leasehold.impl.notices import Notice
from leasehold.impl.store.store import Key


@dataclass(frozen=True, slots=True)
class SendMessage:
    """A message for a neighbour, built of the record that is committed."""

    key: Key
    send: SendWork
    number: int
    fields: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StartCall:
    """A call of a policy or handler, for a state that was entered at a state epoch."""

    key: Key
    call: CallWork
    epoch: int


@dataclass(frozen=True, slots=True)
class TellPolicy:
    """A policy hears of a lease that has changed, as it is then."""

    key: Key


@dataclass(frozen=True, slots=True)
class TickPolicies:
    """All policies hear that the clock has come to a time."""

    now: int


Effect: TypeAlias = SendMessage | StartCall | TellPolicy | TickPolicies


@dataclass(slots=True)
class Ready:
    """What follows from a turn.

    Attributes:
        now: the time of the turn.
        changed: machines whose record is new.
        dropped: machines that are forgotten.
        metadata: what the actor keeps about itself.
        replies: for each request of the turn its outcome, or the error that it is answered with.
        moved: machines that have taken a transition, and whether they have left their state: messages and calls that
            the state does not ask for any more are given up.
        effects: what is sent and started, in order.
        notices: what subscribers are told.
        raised: requests that follow from it, for the end of the queue.
        told: leases of which a `TellPolicy` is among the effects.
    """

    now: int
    changed: dict[Key, MachineInstance] = field(default_factory=dict)
    dropped: set[Key] = field(default_factory=set)
    metadata: dict[str, bytes] = field(default_factory=dict)
    replies: list[Any] = field(default_factory=list)
    moved: dict[Key, bool] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    raised: list[Request] = field(default_factory=list)
    told: set[Key] = field(default_factory=set)

    def change(self, instance: MachineInstance) -> None:
        """A machine's record is new."""
        self.dropped.discard(instance.key)
        self.changed[instance.key] = instance

    def undo(self, key: Key) -> None:
        """A machine that was to begin has not."""
        self.changed.pop(key, None)

    def drop(self, key: Key) -> None:
        """A machine is forgotten."""
        self.changed.pop(key, None)
        self.dropped.add(key)
