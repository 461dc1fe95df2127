"""The requests that an actor's loop takes, and the `Ready` that a turn of them gives: both are values.

A `Ready` lists what the actor commits, then sends and starts, and at last acknowledges. Its form is that of `Ready` in
etcd's raft. Stepping machines only adds to a `Ready`; the actor's loop carries it out (actor.py), and nothing else in
an actor writes a record, sends or begins anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from leasehold.impl.actor.drafts import Draft, StepDraft
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.work import CallWork, Event, Record, SendWork
from leasehold.impl.events.event import EndedCall
from leasehold.impl.handlers.handler import Done
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.notices import Notice
from leasehold.impl.policy.policy import Decision
from leasehold.impl.raised import RaisedEvent
from leasehold.impl.store.store import RecordKey


class Deliver(NamedTuple):
    """A peer's message, its signature verified.

    Attributes:
        fingerprint: of the key that signed it.
    """

    envelope: Envelope
    fingerprint: str

    @property
    def key(self) -> RecordKey:
        """The machine that it is for."""
        return RecordKey(self.envelope.lease, self.envelope.receiving_machine)


class Begin(NamedTuple):
    """A client begins a lease (or run).

    Attributes:
        key: its name, ORIGIN:NUMBER, and the machine of this actor that begins it.
        event: the local event.
        fields: its fields by name.
        peers: for each neighbour of the machine the actor that plays it.
    """

    key: RecordKey
    event: str
    fields: Mapping[str, Any]
    peers: Mapping[str, str]


class Tell(NamedTuple):
    """A client's event for a machine, fields by name."""

    key: RecordKey
    event: str
    fields: Mapping[str, Any]


class Decide(NamedTuple):
    """A decision of a policy."""

    decision: Decision


class Complete(NamedTuple):
    """The end of a handler call.

    Attributes:
        key: the machine that called it.
        event: the answer.
        epoch: the state epoch at which the call began.
        done: what the handler says.
        fields: of the event, in their order.
    """

    key: RecordKey
    event: str
    epoch: int
    done: Done
    fields: tuple[Any, ...] = ()


class Observe(NamedTuple):
    """A probe has found that something has happened to a machine (impl/actor/probes.py).

    Attributes:
        key: which.
        event: of the world outside, without fields.
        epoch: the state epoch that it was found at; it counts for no other.
    """

    key: RecordKey
    event: str
    epoch: int


class Raise(NamedTuple):
    """An event that nobody has asked for (impl/actor/raising.py).

    Attributes:
        raised: the event.
        source: who raises it, for the log.
        cause: of its step, as events tell it.
    """

    raised: RaisedEvent
    source: str
    cause: Literal["policy", "probe"]


class Consume(NamedTuple):
    """An event for a machine, as the core takes it."""

    key: RecordKey
    event: Event


class Recheck(NamedTuple):
    """A subsidiary machine has moved: a machine that waits for it checks whether its answer has come true."""

    key: RecordKey


class Recover(NamedTuple):
    """The scalpel (paper, section 4.2): a recovery event for one machine."""

    key: RecordKey


class Acknowledge(NamedTuple):
    """A neighbour has received the messages of a session up to a number."""

    key: RecordKey
    neighbour: int
    number: int


class Follow(NamedTuple):
    """A follower of the actor's events has read them up to a position; None: it follows no more."""

    name: str
    position: int | None


class SealEvents(NamedTuple):
    """The events that are there get a seal; why."""

    why: str


class Tick(NamedTuple):
    """The clock has come to a time."""

    now: int


class PolicyCommand(NamedTuple):
    """A client's command for the policy of a role: one of its methods, and its arguments."""

    role: str
    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    client: str = ""  # whose command it is; empty: the operator's

    @property
    def lease(self) -> str:
        """The lease that it is about: the first argument of each."""
        return str(self.arguments[0]) if self.arguments else ""


class Read(NamedTuple):
    """A look at the actor's leases: taken after the commit, so that all that it sees is durable."""

    view: Callable[[], Any]


Request: TypeAlias = (
    Deliver
    | Begin
    | Tell
    | Decide
    | Complete
    | Observe
    | Raise
    | Consume
    | Recheck
    | Recover
    | Acknowledge
    | Follow
    | SealEvents
    | Tick
    | PolicyCommand
    | Read
)


def requests_of(answers: Iterable[Decision | RaisedEvent]) -> list[Request]:
    """The requests that a policy's answers come to."""
    return [Decide(one) if isinstance(one, Decision) else Raise(one, "a policy", "policy") for one in answers]


class SendMessage(NamedTuple):
    """A message for a neighbour, built of the record that is committed."""

    key: RecordKey
    send: SendWork
    number: int
    fields: tuple[Any, ...]


class SendNext(NamedTuple):
    """The oldest message of a session, unless it is under way."""

    key: RecordKey
    neighbour: int


class DropMessage(NamedTuple):
    """A message to a neighbour is not sent on to the actor that it was for."""

    key: RecordKey
    neighbour: int


class AskAgain(NamedTuple):
    """A policy's answer was refused, so its question is put again."""

    question: StartCall


class StartCall(NamedTuple):
    """A call of a policy or handler, for a state that was entered at a state epoch; `anew` also if it is under way."""

    key: RecordKey
    call: CallWork
    epoch: int
    anew: bool = False


class TellPolicy(NamedTuple):
    """A policy hears of a lease that has changed, as it is then."""

    key: RecordKey


class TellRefused(NamedTuple):
    """A policy hears that a decision of its own accord was refused; `final`: no record could ever take it."""

    decision: Decision
    reason: str
    final: bool = False


class TickPolicies(NamedTuple):
    """All policies hear that the clock has come to a time."""

    now: int


Effect: TypeAlias = (
    SendMessage | SendNext | DropMessage | StartCall | AskAgain | TellPolicy | TellRefused | TickPolicies
)


@dataclass(slots=True)
class Ready:
    """The consequences of a turn.

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
        events: what the chain of events gets of it, in order; empty where the actor writes none.
        seal: why the chain is to be sealed; empty: that it is not has no reason.
        answers: how many answers of its subsidiary machines each machine has taken for a request.
        cause: where the event of the next step comes from, as events tell it.
        ended: the call that the event of the next step ends.
        driver: the step whose work is started.
    """

    now: int
    changed: dict[RecordKey, MachineInstance] = field(default_factory=dict)
    dropped: set[RecordKey] = field(default_factory=set)
    metadata: dict[str, bytes] = field(default_factory=dict)
    replies: list[Any] = field(default_factory=list)
    moved: dict[RecordKey, bool] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    raised: list[Request] = field(default_factory=list)
    told: set[RecordKey] = field(default_factory=set)
    events: list[Draft] = field(default_factory=list)
    seal: str = ""
    answers: dict[RecordKey, int] = field(default_factory=dict)
    cause: str = ""
    ended: EndedCall | None = None
    driver: StepDraft | None = None

    def begin(self, cause: str) -> None:
        """The steps of another request follow, whose event has this cause."""
        self.answers.clear()
        self.cause, self.ended, self.driver = cause, None, None

    def change(self, instance: MachineInstance) -> None:
        """A machine's record is new."""
        self.dropped.discard(instance.key)
        self.changed[instance.key] = instance

    def undo(self, key: RecordKey) -> None:
        """A machine that was to begin has not."""
        self.changed.pop(key, None)

    def retract(self, record: Record) -> None:
        """The last step, which left a record, counts as if it had not been taken."""
        if self.events and isinstance(last := self.events[-1], StepDraft) and last.record is record:
            self.events.pop()

    def drop(self, key: RecordKey) -> None:
        """A machine is forgotten."""
        self.changed.pop(key, None)
        self.dropped.add(key)
