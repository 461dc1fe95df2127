"""Global states of a system whose actors are processes.

Theory of operation. Each actor counts its commits. All actors are asked for their count, then for their records, then
for their count again. Where no count has changed, the records that were told are those that all actors had at one
moment between the first two questions and the third (the double collect of Afek et al., "Atomic snapshots of shared
memory", JACM 1993). A state that is not seen so is not judged.

Messages in transit, the causes of steps, and actors that are down are in no such state.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from leasehold.checker.recovery.properties import RunProperties
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.server.client import ClientError

Row: TypeAlias = dict[str, Any]


class Mark(NamedTuple):
    """The numbers that change with every commit of an actor, and with its clock."""

    epoch: int
    commits: int
    now: int


class Snapshots:
    """Looks at the actors of a fleet.

    Attributes:
        rows: by run and machine, the records as they were told last.
        exact: whether all of them are of one moment, and all actors ran.
        now: the clock.
        marks: of each actor that answers.
        errors: how many each has met, since it was started.
    """

    def __init__(self, fleet: SystemFleet, properties: RunProperties) -> None:
        self.fleet, self.properties = fleet, properties
        self.rows: dict[str, dict[str, Row]] = {}
        self.exact, self.now = False, 0
        self.marks: dict[str, Mark] = {}
        self.errors: dict[str, int] = {}
        self._moved = time.monotonic()
        self._initial = properties.world.initial_states()[0]

    def look(self) -> bool:
        """Asks all actors once; returns whether what they told is of one moment."""
        last, before = self._commits(), self._marks()
        for name in before:
            with suppress(ClientError):
                for row in self.fleet.client(name).get("leases"):
                    self.rows.setdefault(row["lease"], {})[row["machine"]] = row
        self.marks = self._marks()
        self.now = max((mark.now for mark in self.marks.values()), default=self.now)
        one_time = len({mark.now for mark in self.marks.values()}) == 1 or self.properties.layout.clock is None
        now = self._commits()
        same = now == {name: mark[:2] for name, mark in before.items()}
        if not same or now != last:
            self._moved = time.monotonic()
        self.exact = same and one_time and before.keys() == self.fleet.roles.keys()
        return self.exact

    @property
    def still_seconds(self) -> float:
        """Returns how long no actor is known to have committed anything."""
        return time.monotonic() - self._moved

    def _commits(self) -> dict[str, tuple[int, int]]:
        return {name: mark[:2] for name, mark in self.marks.items()}

    def _marks(self) -> dict[str, Mark]:
        found = {}
        for name in self.fleet.roles:
            if (about := self.fleet.about(name)) is not None and about["running"]:
                found[name] = Mark(about["epoch"], about["counts"].get("commits", 0), about["now"])
                self.errors[name] = max(self.errors.get(name, 0), about["counts"].get("errors", 0))
        return found

    def state(self, run: str) -> tuple[Any, ...]:
        """The records of a run as a state of the model, without messages in transit."""
        world, layout, found = self.properties.world, self.properties.layout, list(self._initial)
        for name, row in self.rows.get(run, {}).items():
            core, number = self.fleet.program.machines[name]
            with suppress(KeyError):  # a machine that has joined is not in the explored system
                found[layout.at(core.role, number, None)] = row["state"]
                data = self.properties.system.roles[core.role].data
                for field, plain in row["data"].items():
                    with suppress(ValueFault):
                        found[layout.at(core.role, number, field)] = from_plain(data[field].type, plain)
        for actor in layout.actors:
            role, number = actor.machines[0]
            player = self.fleet.players.get(self.fleet.program.roles[role].machine(number))
            found[world.up[actor.name]] = UP if player in self.marks else DOWN
        if layout.clock is not None:
            found[layout.clock] = self.now
        return tuple(found)

    def broken(self, run: str) -> list[str]:
        """The properties of states that do not hold of a run now."""
        state = self.state(run)
        return sorted(self.properties.broken_in(state))

    def described(self, run: str) -> str:
        """Returns where the machines of a run are."""
        return ", ".join(f"{name} {row['state']}" for name, row in sorted(self.rows.get(run, {}).items()))

    def untaken(self, runs: Sequence[str]) -> list[str]:
        """Messages that a receiver has not taken, in words."""
        found = []
        for name in self.marks:
            for run in runs:
                rows: list[Mapping[str, Any]] = []
                with suppress(ClientError):
                    rows = self.fleet.client(name).get("leases", run)
                for row in rows:
                    found += [
                        f"{row['machine']} of {run} cannot say {m['message']} to {m['to'] or 'anybody'}: {m['reason']}"
                        for m in row["messages"]
                        if not m["taken"] and m["times"]
                    ]
        return found
