"""The events of an actor: what happened, as it was committed.

Theory of operation (paper, section 5.3). Each event is one line of JSON, which the store keeps as it was written, so
its digest is that of the bytes. Every event has the same first fields (`ActorEvent`): who, where in the chain, when.
The `kind` says which fields follow. A field that has its default is left out. Field names and kinds never change their
meaning; a reader refuses a kind or a field that it does not know.

Values of the specification are plain data, as in messages: a set is a list in the order of its type, a map a list by
the members of its key (impl/core/values.py). Neighbours are named, `broker`, `participant[2]`; numbers of messages over
a channel that has numbers of its own stand under `broker over orders`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from leasehold.impl.words import over

ROOT = "0" * 64  # in place of a digest, before the first event


class EventError(ValueError):
    """Bytes are no event that this version knows."""


class MachineRecord(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The record of a machine, by name.

    Attributes:
        state: the control state.
        data: the fields of the specification.
        epoch: the state epoch: how many transitions of the machine have entered a state.
        sent, received: the numbers of the last messages to and from each neighbour, over each channel that has numbers
            of its own; 0 is left out.
        since: for each task that may outlive its state, the state epoch at which it began; 0 is left out.
    """

    state: str
    data: dict[str, Any]
    epoch: int
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    since: dict[str, int] = {}


class ReceivedMessage(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The origin of a message.

    Attributes:
        machine: that has sent it.
        actor: who played that machine.
        number: its sequence number.
        channel: over which it has come, if that has numbers of its own.
    """

    machine: str
    actor: str
    number: int
    channel: str = ""

    @property
    def name(self) -> str:
        """The name under which the receiver's record has its number."""
        return over(self.machine, self.channel)


class SentMessage(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message that a step sends.

    Attributes:
        to: the machine that it is for.
        number: its sequence number.
        message: its name.
        fields: by name.
        actor: who plays the receiver; empty where nobody is known yet.
        channel: over which it goes, if that has numbers of its own.
    """

    to: str
    number: int
    message: str
    fields: dict[str, Any] = {}
    actor: str = ""
    channel: str = ""

    @property
    def name(self) -> str:
        """The name under which the sender's record has its number."""
        return over(self.to, self.channel)


class StartedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a policy or handler that a step begins: the task, and what is called, as `policy.allocate`."""

    task: str
    target: str


class EndedCall(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The end of a call, whose answer is the event of a step.

    Attributes:
        epoch: the state epoch at which it began.
        well: whether a handler has done what it was called for.
        words: what a handler says about it.
    """

    epoch: int
    well: bool = True
    words: str = ""


class MachineStep(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One event at one machine, and the record that it left.

    Attributes:
        lease: the lease (or run); `-` for a machine that belongs to the actor.
        machine: which machine of it.
        event: the name of what came.
        record: the record after it.
        source: the state before.
        cause: where the event came from: `message`, `timer`, `policy`, `handler`, `probe`, `client`, `subsidiary` (what
            a machine waits for has come true below), `parent` (another machine drives this one); empty: not known.
        transition: the transition that was taken; empty: none was, and only numbers have changed.
        fields: of the event, by name.
        received: of a message.
        answers: the call that the event ends.
        reason: why no transition was taken.
        serves: of a machine that belongs to the actor, the lease that drives it.
        sends: the messages that it sends.
        starts: the calls that it begins.
        driven: the steps of subsidiary machines within it.
    """

    lease: str
    machine: str
    event: str
    record: MachineRecord
    source: str
    cause: str = ""
    transition: str = ""
    fields: dict[str, Any] = {}
    received: ReceivedMessage | None = None
    answers: EndedCall | None = None
    reason: str = ""
    serves: str = ""
    sends: tuple[SentMessage, ...] = ()
    starts: tuple[StartedCall, ...] = ()
    driven: tuple[MachineStep, ...] = ()

    def walk(self) -> Iterator[MachineStep]:
        """Yields the step, and then those that it drives, each with its own."""
        yield self
        for driven in self.driven:
            yield from driven.walk()


class ActorEvent(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, tag_field="kind"):
    """The fields that all events have.

    Attributes:
        position: in the chain, from 1 on.
        before: the digest of the event before; `ROOT` for the first one.
        actor: whose event it is.
        epoch: the incarnation of the actor.
        spec: the digest of its specification.
        now: the virtual time, in ticks.
        time: the real time, in seconds since 1970.
        commit: the number of the commit that wrote it, over the life of the store.
    """

    position: int
    before: str
    actor: str
    epoch: int
    spec: str
    now: int
    time: float
    commit: int

    def steps(self) -> Iterable[MachineStep]:
        """Returns the steps that the event tells of, in their order: of a `StepEvent`, with those that it drives."""
        return ()


class StepEvent(ActorEvent, frozen=True, kw_only=True, tag="step"):
    """A machine has taken a step, which changed its record."""

    step: MachineStep

    def steps(self) -> Iterable[MachineStep]:
        return self.step.walk()


class RefusedEvent(ActorEvent, frozen=True, kw_only=True, tag="refused"):
    """A policy's decision, a handler's answer or a client's word that the core refused; nothing has changed.

    Attributes:
        lease, machine, event, fields: what came, and for whom.
        cause: where it came from, as in `MachineStep`.
        reason: the contract that it breaks, or what else is wrong.
    """

    lease: str
    machine: str
    event: str
    cause: str
    reason: str
    fields: dict[str, Any] = {}


class RecoveredEvent(ActorEvent, frozen=True, kw_only=True, tag="recovered"):
    """An incarnation of the actor begins; the calls and messages of every state are begun again.

    Attributes:
        agreement: the specification and its constants, as messages show it.
        system, constants: the name of the system, and its constants by name; empty in events of before they were told.
        machines: how many it has.
        unrecorded: how many commits were made since the last event while events were switched off.
        records: by lease and machine, the digest of the record that it has (`record_digest`); empty in events of before
            they were told, and where there are too many machines.
    """

    agreement: str
    machines: int
    unrecorded: int = 0
    system: str = ""
    constants: dict[str, Any] = {}
    records: dict[str, dict[str, str]] = {}


class FoundEvent(ActorEvent, frozen=True, kw_only=True, tag="found"):
    """A record that no step of the chain has left: of before the chain began, migrated, or of a machine that stands.

    Attributes:
        lease, machine, serves, record: as in `MachineStep`.
    """

    lease: str
    machine: str
    record: MachineRecord
    serves: str = ""


class ForgottenEvent(ActorEvent, frozen=True, kw_only=True, tag="forgotten"):
    """A machine that has been over for long enough is forgotten, in the state that it was in."""

    lease: str
    machine: str
    state: str


class MigratedEvent(ActorEvent, frozen=True, kw_only=True, tag="migrated"):
    """The records were mapped to another specification, whose digest is `spec`; the next events have them anew.

    Attributes:
        source: the digest of the specification before.
        records: how many there are now.
        forgotten: how many were given up.
    """

    source: str
    records: int
    forgotten: int = 0


class PrunedEvent(ActorEvent, frozen=True, kw_only=True, tag="pruned"):
    """The oldest events are dropped, by the commit that has this one.

    Attributes:
        until: the position of the last that is dropped.
        root: its digest, which the first that is left names as `before`.
        overtaken: the followers that had not acknowledged all that is dropped.
    """

    until: int
    root: str
    overtaken: tuple[str, ...] = ()


class SealEvent(ActorEvent, frozen=True, kw_only=True, tag="seal"):
    """The actor vouches for the chain up to and with this event.

    Attributes:
        why: `many` events, `time`, `stop`, `asked`, `pruned`.
        key: the fingerprint of the key that signs.
        signature: of the event's bytes without it (impl/events/chain.py). It is the last field.
    """

    why: str
    key: str
    signature: str = ""


AnyEvent: TypeAlias = (
    StepEvent | RefusedEvent | RecoveredEvent | FoundEvent | ForgottenEvent | MigratedEvent | PrunedEvent | SealEvent
)

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(AnyEvent).decode


def write(event: AnyEvent) -> bytes:
    """The bytes of an event: the same each time."""
    body: bytes = _encode(event)
    return body


def read(body: bytes) -> AnyEvent:
    """The event of bytes that `write` wrote.

    Raises:
        EventError: they are none.
    """
    try:
        event: AnyEvent = _decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise EventError(f"it is no event: {error if body else 'the line is empty'}") from None
    return event


def digest(body: bytes) -> str:
    """The digest of an event, which the next one names: 64 hexadecimal digits of SHA-256."""
    return hashlib.sha256(body).hexdigest()


def record_digest(record: MachineRecord) -> str:
    """The digest of a record as events have it: the first 16 hexadecimal digits of SHA-256 of its JSON.

    It shows what was lost by accident; it is the chain that vouches for it.
    """
    return hashlib.sha256(_encode(record)).hexdigest()[:16]
