"""Views of the machines of a lease, from events: how each is, what led to its state, and what that waits for.

Theory of operation. With the specification, the record of a machine says what its state asks for, what it waits for,
and when its timer is due (explained_machines.py). What no event tells is null, or missing: what a client wishes, what a
policy waits for, how often a message was sent and what a peer has answered to it, which calls are under way, and the
facts of units. A running actor adds that (`at_present`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leasehold.checker.explain.explained_machines import ExplainedMachines
from leasehold.checker.explain.machines import KnownMachine, KnownMachines
from leasehold.checker.history.fold import MachineOf
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Core
from leasehold.impl.core.values import ValueFault
from leasehold.impl.core.work import Machines, Record, SendWork
from leasehold.impl.events.records import record_of
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import over


class OtherSystem(Exception):
    """Events are of another specification, or of other constants, than the system that is to explain them."""


@dataclass(frozen=True)
class _Seen:
    """A machine with its record as compiled machines have it."""

    key: MachineOf
    known: KnownMachine
    core: Core
    number: int
    record: Record


class EventViews:
    """Views of what events tell.

    Args:
        machines: of the system that explains it.
        known: the machines, as the events up to a cut have left them.
        now: the tick at which they are looked at.
    """

    def __init__(self, machines: ExplainedMachines, known: KnownMachines, now: int) -> None:
        self.machines, self.known, self.now, self.program = machines, known, now, machines.program

    def lease(self, lease: str) -> list[dict[str, Any]]:
        """All machines of a lease that are no subsidiaries, each with its units and what it waits for.

        Raises:
            OtherSystem: they are not of this system.
        """
        keys = sorted(key for key in self.known.machines if key.lease == lease)
        seen = [self._seen(key) for key in keys]
        return [self._view(one) for one in seen if not one.core.subsidiary]

    def at_present(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """A machine, with the facts of now: as its running actor shows it where its events end (impl/server/views.py).

        Raises:
            OtherSystem: it is not of this system.
        """
        view = self._view(self._seen(MachineOf(now["actor"], now["lease"], now["machine"])))
        units = {unit["machine"]: unit for unit in view["units"]}
        return {**view, **now, "units": [{**units[unit["machine"]], **unit} for unit in now["units"]]}

    def waiting(self, key: MachineOf) -> dict[str, Any]:
        """Returns what a machine waits for: since when it is in its state, who plays its neighbours, and the ways out.

        Raises:
            OtherSystem: it is not of this system.
        """
        seen = self._seen(key)
        return {
            "since": seen.known.since,
            "peers": {name: seen.known.peers.get(name, "") for name in self._neighbours(seen)},
            "leaves": list(self.machines.leaves(seen.core, seen.record, self.now)),
        }

    def _seen(self, key: MachineOf) -> _Seen:
        known, place = self.known.machines[key], self.program.machines.get(key.machine)
        if known.spec != self.program.digest or place is None:
            raise OtherSystem(
                f"{key.machine} of {key.actor} is of another specification, {known.spec[:12]}, than "
                f"{self.program.system}, which is {self.program.digest[:12]}; name the system of the actors (--system)"
            )
        agreement = self.known.actors[key.actor].agreement
        if agreement and not self.program.agrees(agreement):
            raise OtherSystem(
                f"{key.actor} has other constants than {self.program.system} has here, and they decide what it waits "
                f"for; name its configuration (--system {key.actor}.yaml), or give its settings (--set NAME=VALUE)"
            )
        core, number = place
        below = tuple(self._below(key, one) for one in core.below)
        try:
            return _Seen(key, known, core, number, record_of(self.program, core, number, known.record, below))
        except ValueFault as fault:
            raise OtherSystem(f"{key.machine} of {key.actor} has no record of {self.program.system}: {fault}") from None

    def _below(self, key: MachineOf, core: Core) -> Machines:
        """The subsidiary machines of a role that a machine sees."""
        machines, lease = Machines(core.first), BELOW if core.of_actor else key.lease
        for number in range(core.count):
            at = MachineOf(key.actor, lease, core.machine(number))
            known = self.known.machines.get(at)
            if known is not None and known.forgotten is None:
                machines[number] = self._seen(at).record
        return machines

    def _view(self, seen: _Seen) -> dict[str, Any]:
        (actor, lease, machine), known, core, record = seen.key, seen.known, seen.core, seen.record
        short = self.machines.short(actor, RecordKey(lease, machine), core, record, known.since)
        return {
            **short,
            "doc": self.machines.doc(core, record[0]),
            "shown": self.machines.shown(core, record),
            "peers": {name: known.peers.get(name, "") for name in self._neighbours(seen)},
            "client": "",
            "wish": None,
            "undecided": None,
            "units": self._units(seen),
            "messages": list(self._messages(seen)),
            "refused": None,
            "handlers": _handlers(short),
            "leaves": list(self.machines.leaves(core, record, self.now)),
            "history": [*self.machines.steps(core, known.history)],
            "came": None if known.came is None else known.came.as_json(),
            "restarts": known.restarts,
            "forgotten": known.forgotten,
        }

    def _neighbours(self, seen: _Seen) -> list[str]:
        fixed = self.program.neighbours(seen.core, seen.number)
        return [*fixed, *sorted(name for name in seen.known.peers if name not in fixed)]

    def _units(self, seen: _Seen) -> list[dict[str, Any]]:
        """The subsidiary machines that serve the lease, in the order of their keys."""
        roles, units = {core.role for core in seen.core.below}, []
        for key, known in sorted(self.known.machines.items(), key=lambda item: item[0]):
            if key.actor != seen.key.actor or known.serves != seen.key.lease or known.forgotten is not None:
                continue
            if key.machine.partition("[")[0] not in roles:
                continue
            unit = self._seen(key)
            short = self.machines.short(key.actor, RecordKey(key.lease, key.machine), unit.core, unit.record, None)
            units.append(
                {
                    "unit": key.machine,
                    "machine": key.machine,
                    "state": unit.record[0],
                    "since": known.since,
                    "facts": {},
                    "handlers": _handlers(short),
                    "doc": self.machines.doc(unit.core, unit.record[0]),
                    "leaves": list(self.machines.leaves(unit.core, unit.record, self.now)),
                    "history": [*self.machines.steps(unit.core, known.history)],
                }
            )
        return units

    def _messages(self, seen: _Seen) -> Iterator[dict[str, Any]]:
        """Yields the messages that the machine's state sends to neighbours, but for answers that have arrived."""
        core, record, known = seen.core, seen.record, seen.known
        for piece in core.work[record[0]](record):
            if not isinstance(piece, SendWork) or not (number := record[core.sent_at][piece.neighbour]):
                continue
            name = self.program.neighbour(core, seen.number, piece.neighbour)
            peer = known.peers.get(name, "")
            receiver = self.known.machines.get(MachineOf(peer, seen.key.lease, name))
            sender = over(seen.key.machine, core.channel(piece.neighbour))
            heard = 0 if receiver is None else receiver.record.received.get(sender, 0)
            taken = heard >= number if peer in self.known.actors else None
            if taken and piece.answer:
                continue
            reason = "" if peer else f"nobody is known to play {name}"
            yield {
                "message": piece.message,
                "number": number,
                "to": peer,
                "times": None,
                "taken": taken,
                "reason": reason,
                "again_seconds": None,
            }


def _handlers(short: dict[str, Any]) -> list[str]:
    """The handlers that a machine's state asks for."""
    return sorted(ask["task"] for ask in short["asks"] if not ask["call"].startswith("policy."))
