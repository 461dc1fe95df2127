"""Records of machines out of events: the tuples that compiled machines have, from what was written down by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.stepping import Numbers
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.impl.core.work import Machines, Record
from leasehold.impl.events.event import MachineRecord


def record_of(program: Program, core: Core, number: int, of: MachineRecord, below: tuple[Machines, ...] = ()) -> Record:
    """The record of a machine; opaque values that were too large for their event are their digests.

    Args:
        program: the system.
        core: the machine's role.
        number: which of its machines.
        of: what an event says.
        below: the subsidiary machines that it sees.

    Raises:
        ValueFault: it is no record of this role.
    """
    if of.state not in core.states:
        raise ValueFault(f"{core.role} has no state {of.state[:60]!r}")
    own = (number,) if core.indexed else ()
    try:
        data = [from_plain(f.type, of.data[f.name]) for f in core.fields]
    except KeyError as missing:
        raise ValueFault(f"{core.role}.{missing.args[0]} is missing") from None
    numbers = () if core.subsidiary else (_numbers(program, core, number, n) for n in (of.sent, of.received))
    since = [of.since.get(task, 0) for task in core.since]
    return (of.state, *own, *data, *numbers, of.epoch, *since, *below)


def _numbers(program: Program, core: Core, number: int, named: Mapping[str, int]) -> Any:
    """The numbers of messages by the neighbour's position."""
    if not core.dynamic_neighbours:
        return tuple(named.get(name, 0) for name in program.lanes(core, number))
    numbers = Numbers()
    for name, count in named.items():
        at = program.lane_at(core, number, name)
        if at is None:
            raise ValueFault(f"{core.role} has no neighbour {name[:60]!r}")
        numbers[at] = count
    return numbers
