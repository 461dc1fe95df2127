"""The work W(x) of a state: what follows a commit.

Nothing here is bound to a lease: a piece of work says what to do for any record in its state. So the work of a
transition is a constant, and a message is built from the committed record alone: sent again, it is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Record: TypeAlias = tuple[Any, ...]
Build: TypeAlias = Callable[[Record], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Send:
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
class Call:
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
class Drive:
    """One event to one subsidiary machine, as role and number."""

    task: str
    event: str
    machine: tuple[str, int]
    fields: Build


Work: TypeAlias = Send | Call | Drive


class Outcome(NamedTuple):
    """What became of an event, beside the record.

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
