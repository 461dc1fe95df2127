"""The state of one run at a cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from leasehold.checker.explore.layout import State
from leasehold.checker.explore.step import Action
from leasehold.checker.history.fold import EventFold, FoldedMachine, MachineOf
from leasehold.checker.verify.lanes import ReplayedLane
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import AnyEvent, MachineStep

REPLACING = ("passed", "late")  # kinds of cuts


class Cut(NamedTuple):
    """A cut of a run.

    Attributes:
        run: the lease.
        number: of the run.
        state, action: the global state, and the step that led to it; None for the first one.
        actor, position: the event that it comes from; position 0: from none.
        step: the step of that event, where it is one of this run.
    """

    run: str
    number: int
    state: State
    action: Action | None
    actor: str
    position: int
    step: MachineStep | None = None

    @property
    def replaces(self) -> bool:
        """Returns whether the state becomes another one by no step of the run, so that no claim compares both."""
        return self.action is not None and self.action.kind in REPLACING


class StoredCut(NamedTuple):
    """A row of the table of cuts, with the event that it comes from, where that says what changed."""

    now: int | None
    cause: str
    event: str
    actor: str
    position: int
    origin: AnyEvent | None


@dataclass(slots=True)
class RunState:
    """A run as it is.

    Attributes:
        name, number: of the run.
        state: the cells of its global state.
        players: by actor of the layout, the actor that plays it.
        lanes: by cell, those that have carried a message.
        epochs: by machine, the last state epoch.
        machines: as their last events have left them, also those of actors that serve this run.
        judged: it can be judged.
        over: it is in an end that the system allows.
        ended: nothing more comes, as its claims about what comes were told.
        forgotten: how many of its machines are forgotten.
    """

    name: str
    number: int
    state: list[Any]
    players: dict[str, str] = field(default_factory=dict)
    lanes: dict[int, ReplayedLane] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    machines: EventFold[FoldedMachine] = field(default_factory=partial(EventFold, FoldedMachine))
    judged: bool = True
    over: bool = False
    ended: bool = False
    forgotten: int = 0

    def own(self) -> list[MachineOf]:
        """The machines of this run, also those that are forgotten."""
        return [key for key in self.machines.machines if key.lease != BELOW]

    def serving(self) -> list[MachineOf]:
        """The machines of actors that serve this run."""
        return sorted(key for key in self.machines.machines if key.lease == BELOW)

    def cut(self, action: Action | None, actor: str = "", position: int = 0, step: MachineStep | None = None) -> Cut:
        return Cut(self.name, self.number, tuple(self.state), action, actor, position, step)
