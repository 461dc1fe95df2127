"""Where a global state keeps what faults have done.

After the cells of the system itself come

    one cell per actor: is it up              the partition
    one cell per actor: its clock's lead      one cell per message: what a byzantine actor was sent

The last three are there only where the budget asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from leasehold.checker.explore.layout import Lane, Layout
from leasehold.faults import Budget
from leasehold.spec.language.model import System, machine_name

UP, DOWN, GONE = True, False, None  # what an actor's cell holds; only UP is true
WHOLE = 0  # the partition's cell while there is none; else the number of a cut, from 1 on
EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class Actor:
    """A server: machines that stop together."""

    name: str
    machines: tuple[tuple[str, int], ...]  # role and instance
    up: int  # its cell


class Crash(NamedTuple):
    """Actors that stop at once, and the fault that it is."""

    name: str
    actors: tuple[Actor, ...]
    fault: str  # of the budget: crash or power_cut

    @property
    def suffix(self) -> str:
        """What the name of a crash point says of it."""
        return "" if len(self.actors) == 1 and self.actors[0].name == self.name else f"@{self.name}"


class FaultLayout(Layout):
    """The cells of a system under a budget of faults."""

    def __init__(self, system: System, budget: Budget) -> None:
        super().__init__(system)
        self.budget = budget
        self.base = self.size
        self.actors = [Actor(name, machines, self._cell()) for name, machines in _actors(system)]
        self.of = {machine: actor for actor in self.actors for machine in actor.machines}
        self.traitor = next((a for a in self.actors if any(r == budget.byzantine for r, _ in a.machines)), None)
        self.cuts = list(_cuts([a.name for a in self.actors])) if budget.partition else []
        self.partition = self._cell() if self.cuts else None
        skewed = system.clock is not None and budget.skew > 0
        self.lead = {a.name: self._cell() for a in self.actors} if skewed else {}
        self.known = {message: self._cell() for message in self._shown_by_traitor()}
        self.groups = self._groups()

    def _cell(self) -> int:
        self.size += 1
        return self.size - 1

    def _groups(self) -> dict[str, tuple[Actor, ...]]:
        """Actors that may crash together, by the name that a crash shows: every actor alone, and every node."""
        by_name = {a.name: a for a in self.actors if a is not self.traitor}
        found: dict[str, tuple[Actor, ...]] = {name: (a,) for name, a in by_name.items()}
        for node, names in self.system.faults.nodes.items():
            found[node] = tuple(by_name[n] for n in names if n in by_name)
        return found

    def _shown_by_traitor(self) -> Iterable[str]:
        if self.traitor is None:
            return []
        roles = {role for role, _ in self.traitor.machines}
        carried = (m.carries for m in self.system.messages.values() if m.sender in roles)
        return dict.fromkeys(c for c in carried if c is not None)

    def initial(self) -> list[object]:
        """The first values of these cells."""
        parted = [WHOLE] if self.partition is not None else []
        return [UP] * len(self.actors) + parted + [0] * len(self.lead) + [frozenset()] * len(self.known)

    def crossing(self, one: Actor, other: Actor) -> tuple[int, ...]:
        """The cuts with two actors on different sides."""
        return tuple(n for n, side in enumerate(self.cuts, 1) if (one.name in side) != (other.name in side))

    def lane_crossing(self, lane: Lane) -> tuple[int, ...]:
        channel = lane.channel
        return self.crossing(self.of[channel.sender, lane.sender], self.of[channel.receiver, lane.receiver])

    def cut_name(self, number: int) -> str:
        side = self.cuts[number - 1]
        rest = [a.name for a in self.actors if a.name not in side]
        return f"partition: {', '.join(sorted(side))} | {', '.join(rest)}"

    # For python_source

    def running(self, role: str, instance: str) -> str:
        cells = tuple(self.of[role, i].up for i in range(self.system.roles[role].count))
        at = str(cells[int(instance)]) if instance.isdigit() else f"{cells!r}[{instance}]"
        traitors = [i for i in range(len(cells)) if self.of[role, i] is self.traitor]
        honest = f" and {instance} not in {traitors!r}" if traitors else ""
        return f"(bool({{s}}[{at}]){honest})"

    def reachable(self, role: str, instance: str, other_role: str, other: str) -> str:
        if self.partition is None:
            return "True"
        table = tuple(
            tuple(
                self.crossing(self.of[role, i], self.of[other_role, j])
                for j in range(self.system.roles[other_role].count)
            )
            for i in range(self.system.roles[role].count)
        )
        return f"({{s}}[{self.partition}] not in {table!r}[{instance}][{other}])"

    def byzantine(self, role: str) -> bool:
        return self.traitor is not None and any(r == role for r, _ in self.traitor.machines)

    def own_clock(self, role: str, instance: int) -> str | None:
        if not self.lead:
            return None
        return f"{self.now()} + {{s}}[{self.lead[self.of[role, instance].name]}]"

    def pending(self, name: str) -> list[str]:
        found = super().pending(name)
        if name in self.known:
            found.append(f"tuple((1, {name!r}, f) for f in {{s}}[{self.known[name]}])")
        return found


def _actors(system: System) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """Every actor with its machines; machines of roles that no actor is declared to play are actors of their own."""
    found: list[tuple[str, tuple[tuple[str, int], ...]]] = []
    placed: set[str] = set()
    for name, roles in system.actors.items():
        placed.update(roles)
        machines = tuple((r.name, i) for r, i in system.machines() if r.name in roles)
        if machines:
            found.append((name, machines))
    for role, i in system.machines():
        if role.name not in placed:
            found.append((machine_name(role, i), ((role.name, i),)))
    return found


def _cuts(names: list[str]) -> Iterable[frozenset[str]]:
    """Every way to part the actors in two, by the side that is smaller or has not the first of them."""
    first = frozenset(names[:1])
    for size in range(1, len(names) // 2 + 1):
        for side in map(frozenset, combinations(names, size)):
            if 2 * size < len(names) or not side & first:
                yield side
