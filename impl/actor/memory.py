"""What an actor has in memory: every machine that it holds, and what is derived from them. A crash loses all of it."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from leasehold.impl.actor.held import BELOW, Held, role_of
from leasehold.impl.actor.pruned import Pruned, origin_of
from leasehold.impl.core.core import Program
from leasehold.impl.core.errors import RecordError
from leasehold.impl.core.machines import Machines
from leasehold.impl.core.work import Record
from leasehold.impl.policy.policy import Lease
from leasehold.impl.store.store import Key

PRUNED = "pruned of "  # words: the leases of an origin that are forgotten


class Memory:
    """The machines of one actor.

    Attributes:
        held: by key.
        below: the records of subsidiary machines by role and number, as all leases see them.
        drivers: for each subsidiary machine, the machines that have driven it and may wait for it.
        driven: for each lease, the subsidiary machines that it was the last to drive.
        pruned: the leases that are forgotten.
        words: what the actor keeps about itself, as it is in the store.
    """

    def __init__(self, program: Program, roles: frozenset[str]) -> None:
        self.program, self.roles = program, roles
        self.held: dict[Key, Held] = {}
        self.below = {sub.role: Machines(sub.first) for role in roles for sub in program.roles[role].below}
        self.drivers: dict[Key, set[Key]] = {}
        self.driven: dict[str, set[Key]] = {}
        self.parents = {sub.role: role for role in roles for sub in program.roles[role].below}
        self.pruned = Pruned()
        self.words: dict[str, bytes] = {}
        self._named: dict[str, int] = {}  # names that were given out
        self._wakes: list[tuple[int, Key]] = []
        self._ended: list[tuple[int, Key]] = []
        talking = [program.roles[role] for role in roles if not program.roles[role].subsidiary]
        self._several = len(talking) > 1 or any(core.indexed for core in talking)

    def take_words(self, words: dict[str, bytes]) -> None:
        """Takes the words of a store."""
        self.words = words
        for name, body in words.items():
            if name.startswith(PRUNED):
                self.pruned.read(name.removeprefix(PRUNED), body)

    def admit(self, held: Held) -> None:
        """A machine that was read from a store is there from now on.

        Raises:
            RecordError: the actor does not play its role.
        """
        if held.core.role not in self.roles:
            raise RecordError(f"{held.key.lease} {held.key.machine}: this actor does not play {held.core.role}")
        self.held[held.key] = held
        if held.key.lease == BELOW:
            self.see(held, held.record)
            self.drive(held, held.papers.get("lease", ""))
        self.wake_later(held)
        if "over" in held.papers:
            heappush(self._ended, (held.papers["over"], held.key))

    def new(self, key: Key, instance: int) -> Held:
        """A machine that nothing has happened to, and that is not held yet."""
        core = self.program.roles[key.machine.partition("[")[0]]
        below = tuple(self.below[sub.role] for sub in core.below)
        return Held(key, core, core.first(instance, below), [""] * len(core.neighbours))

    def see(self, held: Held, record: Record) -> None:
        """A subsidiary machine has another record."""
        named = role_of(held.key.machine)
        assert named is not None
        self.below[named[0]][named[1]] = record

    def drive(self, held: Held, lease: str) -> None:
        """A lease drives a subsidiary machine, from now on the last to do so."""
        last = held.papers.get("lease", "")
        before = self.driven.get(last)
        if before is not None:
            before.discard(held.key)
            if not before:
                del self.driven[last]
        held.papers["lease"] = lease
        self.driven.setdefault(lease, set()).add(held.key)

    def new_name(self, origin: str) -> str:
        """A name for a lease of an actor that no lease of it has, or had."""
        if origin not in self._named:
            named = (origin_of(key.lease) for key in self.held)
            used = max((number for who, number in filter(None, named) if who == origin), default=0)
            self._named[origin] = max(used, self.pruned.newest(origin))
        while True:
            self._named[origin] += 1
            lease = f"{origin}:{self._named[origin]}"
            if lease not in self.pruned and not any(Key(lease, role) in self.held for role in self.roles):
                return lease

    def view(self, lease: str, machine: str) -> Lease:
        """A lease as a policy or handler sees it; one that is forgotten, or was never held, is at its end.

        Of the subsidiary machines it has those that it was the last to drive.
        """
        held = self.held.get(Key(lease, machine))
        core = self.program.roles[machine.partition("[")[0]]
        record = held.record if held is not None else (min(core.ends, default=core.states[0]), *core.first()[1:])
        units = {}
        for key in sorted(self.driven.get(lease, ())):
            named = role_of(key.machine)
            below = self.held[key]
            if named is not None:
                units[named] = {"state": below.state, **below.core.view(below.record)}
        return Lease(lease, machine, record[0], core.view(record), units)

    def orphans(self) -> Iterator[tuple[str, str]]:
        """Leases that are forgotten while subsidiary machines still remember them, with the machine's name."""
        for lease, keys in sorted(self.driven.items()):
            roles = {self.parents[named[0]] for key in keys if (named := role_of(key.machine)) is not None}
            for role in sorted(roles):
                if lease and Key(lease, role) not in self.held:
                    yield lease, role

    def waiting_for(self, key: Key) -> Iterator[Held]:
        """The machines that wait for a subsidiary machine."""
        drivers = self.drivers.get(key, set())
        for driver in tuple(drivers):
            parent = self.held.get(driver)
            if parent is None or parent.state not in parent.core.answers:
                drivers.discard(driver)
            else:
                yield parent

    # Time

    def wake_later(self, held: Held, at_least: int = 0) -> None:
        """The timer of a machine, if it has one, is looked at when it may be due."""
        wake = held.core.wake(held.record)
        if wake is not None:
            heappush(self._wakes, (max(wake, at_least), held.key))

    def due(self, now: int) -> Iterator[Held]:
        """The machines whose timer may be due, once each."""
        seen = set()
        while self._wakes and self._wakes[0][0] <= now:
            _, key = heappop(self._wakes)
            held = self.held.get(key)
            if held is not None and key not in seen:
                seen.add(key)
                wake = held.core.wake(held.record)
                if wake is not None and wake <= now:
                    yield held

    def ends(self, held: Held, now: int) -> None:
        """A machine has come to its end, or goes on after it."""
        if not held.core.over(held.state):
            held.papers.pop("over", None)
        elif "over" not in held.papers:
            held.papers["over"] = now
            heappush(self._ended, (now, held.key))

    def ended(self, before: int) -> Iterator[Held]:
        """The machines that came to their end at a time or before it, once each."""
        while self._ended and self._ended[0][0] <= before:
            _, key = heappop(self._ended)
            held = self.held.get(key)
            if held is not None and held.papers.get("over", before + 1) <= before:
                yield held

    def remember(self, held: Held, at: int) -> None:
        """A machine that is over is not forgotten yet; `ended` answers it again as if it had ended at a time."""
        heappush(self._ended, (at, held.key))

    def forget(self, held: Held) -> dict[str, bytes]:
        """Forgets a machine; answers the words that have changed, if it was the last one of its lease."""
        del self.held[held.key]
        if self._several and any(key.lease == held.key.lease for key in self.held):
            return {}
        origin = self.pruned.add(held.key.lease)
        words = {PRUNED + origin: self.pruned.write(origin)}
        self.words.update(words)
        return words
