"""The machines whose timer should have ended something by now, in a state of a run.

Theory of operation. In the specification no time passes before the timers that are due have ended what they time. Of
real actors a timer that has not leaves no event. So the state itself is looked at, in which a property
is violated: whether a tick would move a machine, and whether its actor runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from leasehold.checker.explore.layout import State
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model.lowering import UP
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import TICK, Machines, Record


class DueTimer(NamedTuple):
    """A machine whose timer is due.

    Attributes:
        machine: its name.
        late: whether it was due a tick before.
        running: whether its actor runs.
    """

    machine: str
    late: bool
    running: bool


def due(known: CutsOfSystem, state: State) -> Iterator[DueTimer]:
    """The machines whose timer is due in a state."""
    layout = known.layout
    if layout.clock is None:
        return
    now = state[layout.clock]
    for role, number, _ in layout.machines():
        core = known.program.roles[role.name]
        up = known.up.get(layout.of[role.name, number].name)
        record = _record(known, state, core, number)
        if core.step(record, TICK, now)[1].taken:
            late = core.step(record, TICK, now - 1)[1].taken
            yield DueTimer(core.machine(number), late, up is None or state[up] == UP)


def _record(known: CutsOfSystem, state: State, core: Core, number: int) -> Record:
    """A machine's record with the fields of the specification; its numbers, of which no timer speaks, are 0."""
    below = []
    for one in core.below:
        machines = Machines(one.first)
        machines.update((n, _record(known, state, one, n)) for n in range(one.count))
        below.append(machines)
    at, first = known.layout.at(core.role, number, None), core.first(number, tuple(below))
    fields = tuple(state[at + 1 : at + 1 + len(core.fields)])
    return (state[at], *first[1 : core.data_at], *fields, *first[core.data_at + len(core.fields) :])
