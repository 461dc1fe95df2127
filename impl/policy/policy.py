"""The interface of a policy.

Theory of operation (paper, section 4.3.1). A policy is called when a state of a lease asks for a decision (`begin`),
and by the clock (`tick`), over all the leases that it serves. It answers with events of the specification, at once or
at any later tick; the core checks them like any other event, so a wrong answer is refused and changes nothing. It may
also raise an event on a machine unasked, such as the recovery event, where its actor gives leave (impl/raised.py). What
it keeps for itself is volatile: after a restart it is told of every recovered lease, and rebuilds what it keeps (its
calendar, its map of free units) from the records and from the opaque properties that it has put on them.

A policy is called in a thread of its own, by one call at a time, and has a time limit (impl/actor/policy_desk.py). Only
a *quick* one is called on the actor's loop: it computes over what it has in memory, in a time bounded by its leases,
and waits for nothing. The shipped policies are; no other can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from leasehold.impl.raised import RaisedEvent


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as a policy or handler sees it: one record, by name.

    Attributes:
        name: which lease; "" of what is no lease's: it has the units that moved before any lease drove them.
        machine: whose record it is: `broker`, `authority`.
        state: its control state.
        data: its fields.
        units: its subsidiary machines that are not as at first, by role and number: state and data under `state` and
            the fields' names. Those that belong to the run are its own; of the actor's it has those that it drove last.
        turn: rises with each question that a state of the actor's machines has asked: the order in which they came.
    """

    name: str
    machine: str
    state: str
    data: Mapping[str, Any]
    units: Mapping[tuple[str, int], Mapping[str, Any]]
    turn: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Question:
    """A call of a policy by a state of a lease.

    Attributes:
        call: what is asked: `allocate`, `place`.
        lease: the lease as it was committed.
        answers: the events that answer it.
        state_epoch: how many transitions the machine had taken when its state asked; an answer that names an older
            epoch is dropped.
    """

    call: str
    lease: Lease
    answers: tuple[str, ...]
    state_epoch: int

    def answer(self, event: str, **fields: Any) -> Decision:
        """The decision that answers it."""
        return Decision(self.lease.name, self.lease.machine, event, fields, self.state_epoch)


@dataclass(frozen=True, slots=True)
class Decision:
    """An event for a lease: the answer of a question, or of the policy's own accord (`extend`, `close`, `reclaim`).

    Attributes:
        lease: for which lease.
        machine: and which machine of it.
        event: an event of the specification.
        fields: its fields by name.
        state_epoch: of the question that it answers; -1: none.
        peers: who plays which machine of the lease, where the decision begins it; the others play those that the
            actor's settings name.
    """

    lease: str
    machine: str
    event: str
    fields: Mapping[str, Any]
    state_epoch: int = -1
    peers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted = (
            ("lease", str),
            ("machine", str),
            ("event", str),
            ("fields", Mapping),
            ("state_epoch", int),
            ("peers", Mapping),
        )
        for name, kind in wanted:
            if not isinstance(value := getattr(self, name), kind):
                raise TypeError(f"the `{name}` of a decision is a {kind.__name__}, not {value!r:.60}")


PolicyAnswer: TypeAlias = Decision | RaisedEvent


class Undecided(NamedTuple):
    """The wait of a policy before it answers a question.

    Attributes:
        words: for whom or what, in words that an operator reads.
        until: the time at which the wait is over at the latest, as far as can be foreseen; None: it cannot.
    """

    words: str
    until: int | None = None


class Policy(Protocol):
    """Decides for one role of one actor."""

    def recovered(self, lease: Lease) -> None:
        """A lease was read from the store. Called for each before any other call, and before the clock goes on."""
        ...

    def begin(self, question: Question, now: int) -> Iterable[PolicyAnswer]:
        """A decision is wanted; what is not decided now may be at a later tick. The same may be asked again."""
        ...

    def changed(self, lease: Lease, now: int) -> Iterable[PolicyAnswer]:
        """A lease has come to another state, or its data have changed."""
        ...

    def tick(self, now: int) -> Iterable[PolicyAnswer]:
        """The clock has come to a time."""
        ...


def is_quick(policy: Policy) -> bool:
    """Returns whether a policy may be called on the actor's loop; a class is not quick by deriving from a quick one."""
    kind = type(policy)
    return vars(kind).get("quick") is True and kind.__module__.startswith("leasehold.")


def decisions_of(answer: Iterable[PolicyAnswer]) -> list[PolicyAnswer]:
    """The decisions of a policy, and the events that it raises.

    Raises:
        TypeError: there is something else among them.
    """
    decisions = list(answer)
    for decision in decisions:
        if not isinstance(decision, PolicyAnswer):
            raise TypeError(f"a policy answers with decisions, not with {decision!r:.80}")
    return decisions


@runtime_checkable
class TakesDemands(Protocol):
    """A policy that is told by clients what is wanted of a lease: the one thing that is in no record."""

    def changed_wishes(self) -> dict[str, bytes]:
        """The wishes that have changed since they were last handed out, by lease; empty where one is over.

        The actor commits them with what follows from the client's word.
        """
        ...

    def restore(self, lease: str, kept: bytes) -> None:
        """A wish that was kept; called after a restart, when all leases were told of."""
        ...


@runtime_checkable
class KeepsSlices(Protocol):
    """A policy that takes demands, and keeps properties that the leases of a slice share (G, 3.1)."""

    def changed_slices(self) -> dict[str, bytes]:
        """The slices that have changed since they were last handed out, by name; empty where one is gone.

        The actor commits them as it does wishes.
        """
        ...

    def restore_slice(self, name: str, kept: bytes) -> None:
        """A slice that was kept; called after a restart."""
        ...


@runtime_checkable
class ExplainsWaits(Protocol):
    """A quick policy that says why it has not answered a question yet."""

    def undecided(self, lease: str, now: int) -> Undecided | None:
        """Returns what the open question of a lease waits for; None where it has none."""
        ...


class ReadsOldRecords(Protocol):
    """A policy that still reads records of leases that are over; the actor does not forget these meanwhile.

    The actor looks at `needed` as it is, at any time and from another thread, and runs no code of the policy for it. So
    it is an attribute of the policy itself, which is replaced and never changed.

    Attributes:
        needed: the leases; None: that is not known yet, and none is forgotten.
    """

    needed: frozenset[str] | None


@runtime_checkable
class KnowsItsStore(Protocol):
    """A policy that has to know since when its records are kept: what was promised before is in none."""

    def opened(self, since: int | None) -> None:
        """The actor's store is new since a time; None: it is older than that is noted. Called before any other call."""
        ...


@runtime_checkable
class AnswersQueries(Protocol):
    """A quick policy that says what can be had of it (G, 3.12 and Table 5). An answer changes nothing."""

    def query(self, now: int) -> dict[str, Any]:
        """Returns its answer as plain data.

        Under `inventory` it has what there is, by type and site, each with what is `free` from when until when.
        """
        ...


@runtime_checkable
class HearsRefusals(Protocol):
    """A policy that hears what the core refuses of what it has said of its own accord."""

    def refused(self, decision: Decision, reason: str, now: int, *, final: bool) -> None:
        """A decision was refused.

        Args:
            decision: it answers no question.
            reason: why.
            now: the time.
            final: no record could ever take it; else it may be taken later, and is to be said again after a pause.
        """
        ...

    def take_back(self, lease: str, now: int) -> None:
        """The last command for a lease was refused, as the core refuses what followed: it is as if it had not come."""
        ...
