"""The lowered form: a system as state variables and guarded actions, from which every reading is rendered.

Theory of operation. The typed model (model.py) says what the author wrote. This form says what a step is: which events
may come, which message may be received, what a machine then commits, and which work follows the commit. It is
parametric: an action stands for every instance `self` of its role, for every message on its way, and for all values of
its event's fields; a reading that enumerates grounds it as it goes, a reading that proves quantifies.

    state variables   each machine's control state and data; each channel's content; the clock; and what faults add
                      (`Variable`), such as which actors are up
    actions           Offer (a local event or a tick), Receive (a message is consumed, ignored, known to be a duplicate,
                      or lost), Passage (of time); and what faults add: Crash (with its recovery), Change, retries

Expressions stay what the typed model has: an operator is a row of a table (operators.py), not a class of this form.
What a channel does with messages is its type's business: each reading has one implementation of the operations put, put
again, number, take, and lose for each kind of channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from leasehold.spec.language.expression import Expression
from leasehold.spec.language.lower.clocks import TRUE_TIME, ClockBounds
from leasehold.spec.language.model import (
    Channel,
    Clock,
    Datum,
    Drive,
    Fair,
    Message,
    Role,
    Send,
    System,
    Transition,
    Update,
)
from leasehold.spec.language.types import Value


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work: a message or an event to every instance `it` of a role for which all conditions hold.

    Attributes:
        task: as the specification names it.
        target: the role whose instances `it` ranges over.
        conditions: over the machine's own record, `it`, and what a transition passes along.
        fields: of the message or event, over the same, in their declared order.
        channel: which carries the message; None where an event is driven into a subsidiary machine.
    """

    task: Send | Drive
    target: Role
    conditions: tuple[Expression, ...]
    fields: tuple[Expression, ...]
    channel: Channel | None

    @property
    def event(self) -> str:
        """The message that is sent, or the event that is driven into the subsidiary machine."""
        return self.task.message if isinstance(self.task, Send) else self.task.event


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A transition as a step: when it may be taken, what it commits, and the work that follows the commit.

    Attributes:
        transition: as the specification has it: its source, its event and its target.
        guard: over the machine's own record, the event's fields and the sender; None is always.
        updates: all values are read before any is written.
        work: in its order. A crash may leave any part of it undone.
        passes: what the work reads of the step, by the names of its arguments: values read before any update.
    """

    transition: Transition
    guard: Expression | None
    updates: tuple[Update, ...]
    work: tuple[Piece, ...]
    passes: tuple[Update, ...] = ()


Cause: TypeAlias = Literal["answer", "environment", "tick"]


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A local event that may come while a machine of a role is in a state; the one choice whose guard holds is taken.

    Attributes:
        cause: a task of the state is answered, the environment acts, or a timer has run out.
        name: of that task or environment action.
        conditions: over the machine's own record and the event's fields; all must hold.
        outside: over the global state, where `it` is the machine; one must hold, if there are any.
        fair: how surely the event comes if it may come.
        fair_for_each: fields for each combination of whose values that is so by itself.
    """

    role: Role
    state: str
    event: str
    cause: Cause
    name: str
    fields: tuple[Datum, ...]
    conditions: tuple[Expression, ...]
    outside: tuple[Expression, ...]
    choices: tuple[Choice, ...]
    fair: Fair
    fair_for_each: tuple[str, ...] = ()

    def told_apart(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Returns the values of the event's fields that tell groups of fairness apart."""
        if not self.fair_for_each:
            return ()
        return tuple(v for d, v in zip(self.fields, values, strict=True) if d.name in self.fair_for_each)


@dataclass(frozen=True, slots=True, eq=False)
class Receive:
    """A message of a channel is received.

    A new one is consumed by the one choice whose guard holds; where none does, it is ignored, and its number counts as
    received all the same. A duplicate (known by its number) makes the receiver send its state's messages to the sender
    again, unless the message is an answer itself.

    Attributes:
        choices: by message and control state of the receiver.
        consumes: the message leaves the channel; one of a `set` does not.
        in_turn: messages come in the order in which they were sent.
        waits: a message that no choice takes stays, and is never ignored.
    """

    channel: Channel
    sender: Role
    receiver: Role
    messages: tuple[Message, ...]
    choices: Mapping[tuple[str, str], tuple[Choice, ...]]
    consumes: bool
    in_turn: bool
    waits: bool


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """The clock advances by one tick, up to its horizon.

    Attributes:
        clock: its horizon.
        unless: while one of these offers may be taken, the clock waits: timers are prompt, unless the clock is `late`.
    """

    clock: Clock
    unless: tuple[Offer, ...]


class Machine(NamedTuple):
    """A machine: an instance of a role."""

    role: str
    instance: int


@dataclass(frozen=True, slots=True)
class ModelActor:
    """A server: machines that crash together."""

    name: str
    machines: tuple[Machine, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A state variable that faults add to those of the system: one value for the whole, or one for each key.

    Attributes:
        name: such as `up`, `partition`.
        keys: names of actors or messages; one empty key for the whole.
        initial: the first value of each.
        stops: while an actor has one of these values, its machines take no step.
        separates: by value, the pairs of actors between which messages wait while the whole has it.
        leads: it is how far the clock of an actor is ahead of true time, or behind.
        shows: while an actor or the whole has another value than the first, the state is no legal one.
    """

    name: str
    keys: tuple[str, ...]
    initial: Value
    stops: tuple[Value, ...] = ()
    separates: Mapping[Value, frozenset[frozenset[str]]] = field(default_factory=dict)
    leads: bool = False
    shows: bool = False


class FaultCell(NamedTuple):
    """One value of a variable that faults add."""

    variable: str
    key: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """An action that touches variables that faults have added, and at most one actor's store beside them.

    Attributes:
        kind: as paths name it.
        name: as a path shows it.
        needs: cells, and the values of which they must have one.
        writes: cells and their new values.
        actor: whose step it is shown as.
        budget: the kind of fault whose budget it takes; empty where it takes none.
        recovers: the group of fairness under which it comes in the end, in words; empty where it need not come.
        gains: an actor whose clock gains a tick, if the bounds of clocks allow, and as time does not while a timer is
            due: one of this actor, or without an offset any.
        resets: the actor's machines come to their first states.
        on_channels: the operation that is done to the actor's channels (checker/explore/channels.py, OPERATIONS);
            empty where they stay as they are.
        empties: channels that lose what is on its way to the actor.
    """

    kind: str
    name: str
    needs: Mapping[FaultCell, tuple[Value, ...]]
    writes: Mapping[FaultCell, Value]
    actor: str = ""
    budget: str = ""
    recovers: str = ""
    gains: str = ""
    resets: bool = False
    on_channels: str = ""
    empties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Crash:
    """Actors stop at once: between two steps, or in a step of one of them after its commit and any part of its work.

    Attributes:
        name: of the actor, of the node, or of everything.
        actors: which stop.
        budget: the kind of fault whose budget it takes.
        together: it comes only while all of them are up.
        empties: channels that lose what is on its way to the actors that stop.
    """

    name: str
    actors: tuple[ModelActor, ...]
    budget: str
    together: bool
    empties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A system under a choice of faults, as state variables and guarded actions.

    Attributes:
        system: the typed model, with the types of records and channels.
        offers: by role and control state, in order.
        work: by role and control state, what recovery starts again.
        moves: by role, control state and event, what a machine may do with an event, whoever brings it.
        receives: by channel, in their order; losses likewise.
        passage: None where the system has no clock.
        actors: machines of roles that no actor is declared to play are actors of their own.
        limits: by kind of fault, how many a whole run may have; kinds without a limit are in `unlimited`.
        variables: what faults add to the state.
        crashes, changes: what faults add to the actions; a crash brings recovery with it.
        clocks: how far those of actors may leave true time, by gains and by the passage of time.
        retries: lost messages are sent again while their sender's state sends them.
        byzantine: the actor that sends any message that it can sign; None for none.
    """

    system: System
    offers: Mapping[tuple[str, str], tuple[Offer, ...]]
    work: Mapping[tuple[str, str], tuple[Piece, ...]]
    moves: Mapping[tuple[str, str, str], tuple[Choice, ...]]
    receives: tuple[Receive, ...]
    passage: Passage | None
    actors: tuple[ModelActor, ...]
    limits: Mapping[str, int] = field(default_factory=dict)
    unlimited: frozenset[str] = frozenset()
    variables: tuple[Variable, ...] = ()
    crashes: tuple[Crash, ...] = ()
    changes: tuple[Change, ...] = ()
    clocks: ClockBounds = TRUE_TIME
    retries: bool = False
    byzantine: ModelActor | None = None
