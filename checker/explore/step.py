"""One step of an exploration: what happened, and what may be wrong with it."""

from __future__ import annotations

from typing import Any, NamedTuple

from leasehold.checker.explore.layout import Lane
from leasehold.spec.language.model import Transition

FORGED = -1  # the position of a message that was in no channel


class Action(NamedTuple):
    """The action of a step. `took(...)` asks `consumes` and the first four, `ignored(...)` also for the transition."""

    kind: str
    role: str | None
    instance: int
    event: str
    fields: tuple[Any, ...] = ()
    sender: int = -1
    transition: Transition | None = None
    lane: Lane | None = None
    position: int = 0  # of the message in its channel, or FORGED
    copy: bool = False  # a copy of the message stays on its way
    group: tuple[Any, ...] | None = None  # of fairness (fairness.py); None: it need never happen
    point: str = ""  # of a crash within a step: its name
    done: tuple[bool, ...] = ()  # of a crash or recovery: which pieces of work were done
    passes: bool = False  # `now` is one more after it, whatever clocks stand still
    fault: bool = False  # the step is a fault, or has one in it: it stops when faults do
    cost: tuple[int, ...] = ()  # what of the budget of faults it takes: positions in `Reference.budgeted`

    @property
    def consumes(self) -> bool:
        """Returns whether a machine consumes an event, perhaps in a crash; a crash between steps consumes nothing."""
        if self.kind == "crash":
            return self.transition is not None or self.lane is not None
        return self.kind in ("local", "deliver", "tick")


class SpecFault(Exception):
    """A step shows that the specification itself is wrong: two guards hold at once, or a value leaves its range."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
