"""Events, which machines consume, and work, which follows a commit.

An event is a plain tuple, as millions of them are consumed a second:

    name        the message or local event of the specification; `tick` besides
    fields      its fields, in the order of the specification
    neighbour   of a message, the sender's position among the neighbours of the machine (`Core.neighbours`); else -1
    number      of a message, its sequence number; else 0
    state epoch of an answer, that of the state that asked for it; -1: it answers nothing

Work, W(x) of a state x, is not bound to a lease: a piece of work says what to do for any record in its state. So the
work of a transition is a constant, and a message is built from the committed record alone: sent again, it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

Record: TypeAlias = tuple[Any, ...]
Build: TypeAlias = Callable[[Record], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SendWork:
    """One message to one neighbour.

    Attributes:
        task: its name in the specification.
        message: what is sent.
        neighbour: the receiver's position among the neighbours of the machine.
        fields: the message's fields, of a record.
        answer: the message is an answer, which is not answered itself.
    """

    task: str
    message: str
    neighbour: int
    fields: Build
    answer: bool = False


@dataclass(frozen=True, slots=True)
class CallWork:
    """A call of a policy or a handler.

    Attributes:
        task: its name in the specification.
        target: what is called: `policy.allocate`.
        answers: the events by which it may end; none: its end is of no interest.
        outlives: it goes on when its state is left.
    """

    task: str
    target: str
    answers: tuple[str, ...]
    outlives: bool = False


@dataclass(frozen=True, slots=True)
class DriveWork:
    """One event to one subsidiary machine, as role and number."""

    task: str
    event: str
    machine: tuple[str, int]
    fields: Build


Work: TypeAlias = SendWork | CallWork | DriveWork


def sends_to(work: Iterable[Work]) -> frozenset[int]:
    """The positions of the neighbours that work sends messages to."""
    return frozenset(piece.neighbour for piece in work if isinstance(piece, SendWork))


class Pieces(dict[int, SendWork]):
    """The work of a task for each machine of a dynamic role, made when it is needed first."""

    def __init__(self, make: Callable[[int], SendWork]) -> None:
        self._make = make

    def __missing__(self, it: int) -> SendWork:
        piece = self[it] = self._make(it)
        return piece


class Outcome(NamedTuple):
    """The outcome of an event, beside the record.

    Attributes:
        kind: `taken`, or why not: `ignored`, `refused`, `duplicate`, `stale`, `late`, `unmoved` (no guard holds).
        event: its name.
        transition: the transition that was taken, as the specification names it: `broker/ticketed#extend_ticket`.
        work: what follows the commit, in the order of the work list.
        reason: why it was ignored or refused, in the specification's words.
    """

    kind: str
    event: str
    transition: str = ""
    work: tuple[Work, ...] = ()
    reason: str = ""

    @property
    def taken(self) -> bool:
        return self.kind == "taken"


Stepped: TypeAlias = tuple[Record, Outcome]


Event: TypeAlias = tuple[str, tuple[Any, ...], int, int, int]

TICK: Event = ("tick", (), -1, 0, -1)


def message(name: str, fields: tuple[Any, ...], neighbour: int, number: int) -> Event:
    """A neighbour's message."""
    return name, fields, neighbour, number, -1


def local(name: str, fields: tuple[Any, ...] = (), state_epoch: int = -1) -> Event:
    """An answer of a task, a word from outside, or what a parent hands to a subsidiary machine."""
    return name, fields, -1, 0, state_epoch


class ActorMachines(Protocol):
    """The machines of an actor, as a contract looks at them."""

    @property
    def own(self) -> int:
        """The position of the machine itself among those of its role."""
        ...

    def __getitem__(self, role: str) -> Sequence[Record]:
        """The records of a role's machines, of all runs."""
        ...

    def of_run(self, role: str) -> Record:
        """The record of a role's only machine in the run of the machine itself."""
        ...


class Contract(NamedTuple):
    """The condition under which the world outside may give a machine an event.

    Attributes:
        names: of the actions under `environment` that give it.
        doc: their words.
        text: the condition, as the language writes it, and the values of its constants.
        holds: asks it of the machine's record, the event's fields, the actor's machines, and its clock.
    """

    names: tuple[str, ...]
    doc: str
    text: str
    holds: Callable[[Record, tuple[Any, ...], ActorMachines, int], bool]

    def __str__(self) -> str:
        names = " and ".join(f"`{name}`" for name in self.names)
        return f"the contract {names}: {self.doc + ' ' if self.doc else ''}({self.text})"


class Machines(dict[int, Record]):
    """The subsidiary machines of one role: their records by number; one that nothing has happened to is not stored.

    A unit outlives the leases that use it: it may be quarantined, and its action numbers go on. So subsidiary machines
    have records of their own, and the machines of all leases of an actor see the same ones (paper, section 4.3.3),
    unless their role belongs to the run: then the machines of a run see those of that run.
    """

    __slots__ = ("first",)

    def __init__(self, first: Callable[[int], Record]) -> None:
        self.first = first

    def __missing__(self, index: int) -> Record:
        return self.first(index)
