"""The machines of an actor in memory, and the indexes over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from leasehold.impl.actor.pruned import PRUNED, Pruned
from leasehold.impl.core.codec import RecordError
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.work import Machines, Record
from leasehold.impl.policy.policy import Lease
from leasehold.impl.store.store import RecordKey

BELOW = "-"  # in place of a lease, in the keys of subsidiary machines that belong to the actor
MEMBERSHIP = "membership"  # metadata of a machine: that of its run, as the run's origin has signed it
WISH = "wish of "  # metadata of the actor: a client's wish for a lease, as the policy keeps it
SLICE = "slice "  # and the properties that the leases of a slice share, likewise
ACCOUNT = "account of "  # and whose the lease is, and what of its client's quota it uses
TURN = "turn"  # metadata of a machine: of its last question to a policy, among those of all machines of the actor
DRIVERS = "drivers"  # metadata of one that belongs to the actor: who has driven it, unless its lease says it all


class DynamicPeers(dict[int, str]):
    """The actors of a machine's neighbours by position, where nobody knows how many there are; "" is not known."""

    def __missing__(self, neighbour: int) -> str:
        return ""


@dataclass(slots=True, eq=False)
class MachineInstance:
    """One machine of one lease.

    Attributes:
        key: which.
        core: its compiled role.
        record: as it was committed, or will be with the batch that is being made.
        peers: for each neighbour the actor that plays it; empty where that is not known yet. A machine with dynamic
            neighbours has `DynamicPeers`.
        metadata: what is kept with the record and never read by the machine: credentials, since when it is over.
        attempts: how many actions it has asked handlers for at a state epoch, since the actor has started.
    """

    key: RecordKey
    core: Core
    record: Record
    peers: list[str] | DynamicPeers
    metadata: dict[str, Any] = field(default_factory=dict)
    attempts: tuple[int, int] = (0, 0)

    @property
    def number(self) -> int:
        """Its number among the machines of its role."""
        return self.record[1] if self.core.indexed else 0

    @property
    def serves(self) -> str:
        """Its lease; of a machine that belongs to the actor the lease that was the last to drive it, or ""."""
        lease: str = self.metadata.get("lease", "") if self.core.of_actor else self.key.lease
        return lease

    @property
    def rests(self) -> bool:
        """Returns whether it does nothing by itself: its state asks for no work, and has no timer."""
        return not self.core.work[self.record[0]](self.record) and self.core.wake(self.record) is None

    @property
    def addressed(self) -> list[tuple[int, str]]:
        """The neighbours by position, each with its actor; of dynamic roles those that are known."""
        return sorted(self.peers.items()) if isinstance(self.peers, dict) else list(enumerate(self.peers))

    def learn(self, at: int, actor: str) -> None:
        """It is known now who plays the neighbour at a position, over whichever channel the two talk."""
        for beside in self.core.beside(self.record, at):
            self.peers[beside] = actor

    @property
    def state_epoch(self) -> int:
        epoch: int = self.record[self.core.state_epoch_at]
        return epoch

    @property
    def state(self) -> str:
        state: str = self.record[0]
        return state


class MachinesOfRun(Machines):
    """The subsidiary machines of one role that belong to a run: their records as the table has them."""

    __slots__ = ("_core", "_instances", "_lease")

    def __init__(self, instances: Mapping[RecordKey, MachineInstance], lease: str, core: Core) -> None:
        super().__init__(core.first)
        self._instances, self._lease, self._core = instances, lease, core

    def __missing__(self, index: int) -> Record:
        instance = self._instances.get(RecordKey(self._lease, self._core.machine(index)))
        return self.first(index) if instance is None else instance.record


class MachineTable:
    """The machines of one actor. A crash loses all of it.

    Attributes:
        instances: by key.
        below: the records of subsidiary machines of the actor by role and number, as all leases see them.
        drivers: for each subsidiary machine of the actor, the machines that have driven it and are not over: they may
            wait for it. The last to drive it is last.
        driven: for each lease, its own subsidiary machines, and those of the actor that it was the last to drive; for
            "" those of the actor that no lease has driven yet.
        held: answers of tasks that wait for room in a channel.
        pruned: the leases that are forgotten.
        metadata: what the actor keeps about itself, as it is in the store.
        unaddressed: by machine, the neighbours that are owed a message, and whose actors are not known.
    """

    def __init__(self, program: Program, roles: frozenset[str]) -> None:
        self.program, self.roles = program, roles
        self.parents = {sub.role: role for role in roles for sub in program.roles[role].below}
        self._of_run = [program.roles[role] for role in sorted(self.parents) if program.roles[role].of_run]
        talking = [program.roles[role] for role in roles if not program.roles[role].subsidiary]
        self._machines = tuple(core.machine(n) for core in talking for n in range(core.count))  # of one lease
        self.clear({})

    def clear(self, metadata: dict[str, bytes]) -> None:
        """Forgets everything, and begins with the metadata of a store."""
        self.metadata = metadata
        self.instances: dict[RecordKey, MachineInstance] = {}
        shared = (core for role in self.parents if (core := self.program.roles[role]).of_actor)
        self.below = {core.role: Machines(core.first) for core in shared}
        self.drivers: dict[RecordKey, list[RecordKey]] = {}
        self.driven: dict[str, set[RecordKey]] = {}
        self.unaddressed: dict[RecordKey, set[int]] = {}
        self.held: list[Any] = []
        self.pruned = Pruned()
        self._named: dict[str, int] = {}  # names that were given out
        self._turn = 0  # of the last question
        self._wakes: list[tuple[int, RecordKey]] = []
        self._ended: list[tuple[int, RecordKey]] = []
        for name, body in metadata.items():
            if name.startswith(PRUNED):
                self.pruned.read(name.removeprefix(PRUNED), body)

    def admit(self, instance: MachineInstance, now: int) -> None:
        """A machine that was read from a store is there from now on.

        Whether it is over its state says: a migration may have changed that.

        Raises:
            RecordError: the actor does not play its role.
        """
        if instance.core.role not in self.roles:
            where = f"{instance.key.lease} {instance.key.machine}"
            raise RecordError(f"{where}: this actor does not play {instance.core.role}")
        self.instances[instance.key] = instance
        self._turn = max(self._turn, instance.metadata.get(TURN, 0))
        if instance.core.of_actor:
            self.see(instance, instance.record)
            self._remember_drivers(instance)
        if instance.core.subsidiary:
            self._serve(instance, instance.serves)
        self.wake_later(instance)
        over = instance.metadata.pop("over", now)
        self._note_end(instance, over)

    def new(self, key: RecordKey, core: Core, number: int) -> MachineInstance:
        """A machine that nothing has happened to, and that the table does not have yet."""
        seen = self.below_of(key.lease)
        below = tuple(seen[sub.role] for sub in core.below)
        peers = DynamicPeers() if core.dynamic_neighbours else [""] * len(core.neighbours)
        return MachineInstance(key, core, core.first(number, below), peers)

    def below_of(self, lease: str) -> Mapping[str, Machines]:
        """The subsidiary machines that a lease sees, by role: those of the actor, and its own."""
        if not self._of_run:
            return self.below
        return self.below | {core.role: MachinesOfRun(self.instances, lease, core) for core in self._of_run}

    def see(self, instance: MachineInstance, record: Record) -> None:
        """A subsidiary machine of the actor has another record."""
        self.below[instance.core.role][instance.number] = record

    def drive(self, instance: MachineInstance, driver: RecordKey) -> bool:
        """A machine drives a subsidiary one: its lease's own, or one of the actor, and is now the last to do so.

        Returns:
            Whether what is kept with the subsidiary machine has changed.
        """
        lease, metadata = instance.serves, instance.metadata
        self._serve(instance, driver.lease)
        if not instance.core.of_actor:
            return False
        waiting = [key for key in self.drivers.get(instance.key, ()) if key != driver and self._may_wait(key)]
        self.drivers[instance.key] = [*waiting, driver]
        before = metadata.pop(DRIVERS, None)
        if waiting or self._parents(instance) != [driver]:
            metadata[DRIVERS] = [list(key) for key in self.drivers[instance.key]]
        return bool(lease != driver.lease or before != metadata.get(DRIVERS))

    def add_undriven(self, instance: MachineInstance) -> None:
        """A subsidiary machine of the actor moves before any lease has driven it."""
        self._serve(instance, "")

    def _serve(self, instance: MachineInstance, lease: str) -> None:
        """A lease has a subsidiary machine, and of one of the actor it is from now on the only one that has it."""
        if instance.core.of_actor:
            self._pass_on(instance)
            instance.metadata["lease"] = lease
        self.driven.setdefault(lease, set()).add(instance.key)

    def _remember_drivers(self, instance: MachineInstance) -> None:
        """Restores who has driven a machine that was read from a store; which of them wait their records say."""
        kept = [RecordKey(*key) for key in instance.metadata.get(DRIVERS, ())]
        self.drivers[instance.key] = kept or self._parents(instance)

    def _parents(self, instance: MachineInstance) -> list[RecordKey]:
        """The machines that can have driven a machine for the lease that it serves, whether they are there or not."""
        parent = self.program.roles[self.parents[instance.core.role]]
        return [RecordKey(instance.serves, parent.machine(n)) for n in range(parent.count)] if instance.serves else []

    def _may_wait(self, key: RecordKey) -> bool:
        """Returns whether a machine is there, and not over."""
        instance = self.instances.get(key)
        return instance is not None and instance.state not in instance.core.ends

    def _pass_on(self, instance: MachineInstance) -> None:
        """No lease has a subsidiary machine any more."""
        last = instance.serves
        before = self.driven.get(last, set())
        before.discard(instance.key)
        if not before:
            self.driven.pop(last, None)

    def asks(self, instance: MachineInstance) -> None:
        """A machine asks its policy something, after all that has been asked before."""
        self._turn += 1
        instance.metadata[TURN] = self._turn

    def new_name(self, origin: str) -> str:
        """A name for a lease of an actor that no lease of it has, or had, and that nobody has asked for.

        It is the lowest number above the last that was given out: one that a client has chosen may be as high as it
        likes, and is passed over when its turn comes.
        """
        while True:
            number = self.pruned.free_from(origin, self._named.get(origin, 0) + 1)
            self._named[origin] = number
            lease = f"{origin}:{number}"
            if f"{WISH}{lease}" not in self.metadata and not self.has(lease):
                return lease

    def view(self, lease: str, machine: str) -> Lease:
        """A lease as a policy or handler sees it; one that is forgotten, or was never there, is at its end.

        It has the subsidiary machines of its run, and of those of the actor the ones that it was the last to drive.
        """
        instance = self.instances.get(RecordKey(lease, machine))
        core = self.program.roles[machine.partition("[")[0]]
        record = (
            instance.record if instance is not None else (min(core.ends, default=core.states[0]), *core.first()[1:])
        )
        units = {
            (below.core.role, below.number): {"state": below.state, **below.core.view(below.record)}
            for below in self.driven_by(lease, core.role)
        }
        turn = 0 if instance is None else instance.metadata.get(TURN, 0)
        return Lease(lease, machine, record[0], core.view(record), units, turn)

    def driven_by(self, lease: str, role: str) -> list[MachineInstance]:
        """The subsidiary machines of a role that serve a lease, in the order of their keys."""
        machines = (self.instances[key] for key in sorted(self.driven.get(lease, ())))
        return [below for below in machines if self.parents[below.core.role] == role]

    def orphans(self) -> Iterator[tuple[str, str]]:
        """Leases that are forgotten while machines of the actor still remember them, with the machine's name.

        The lease "" has the machines that moved before any lease drove them.
        """
        for lease, keys in sorted(self.driven.items()):
            roles = {self.parents[below.core.role] for key in keys if (below := self.instances[key]).core.of_actor}
            for role in sorted(roles):
                if RecordKey(lease, role) not in self.instances:
                    yield lease, role

    def above(self, instance: MachineInstance) -> Iterator[MachineInstance]:
        """The machines of the lease that a subsidiary machine serves which are of its parent's role."""
        return (parent for key in self._parents(instance) if (parent := self.instances.get(key)) is not None)

    def waiting_for(self, key: RecordKey) -> Iterator[MachineInstance]:
        """The machines that wait for a subsidiary machine."""
        below = self.instances.get(key)
        if below is not None and below.core.of_run:
            yield from (parent for parent in self.above(below) if parent.state in parent.core.answers)
            return
        drivers = [driver for driver in self.drivers.pop(key, ()) if self._may_wait(driver)]
        if drivers:
            self.drivers[key] = drivers
        for driver in drivers:
            parent = self.instances[driver]
            if parent.state in parent.core.answers:
                yield parent

    # Time

    def wake_later(self, instance: MachineInstance) -> None:
        """The timer of a machine, if it has one, is looked at when it may be due."""
        wake = instance.core.wake(instance.record)
        if wake is not None:
            heappush(self._wakes, (wake, instance.key))

    def due(self, now: int) -> Iterator[MachineInstance]:
        """The machines whose timer may be due; the caller steps each before it asks for the next.

        A machine comes again if it is in another state, and has a timer there that is due. One that stays in its state,
        or comes back to it, is looked at again at the next tick.
        """
        seen: dict[RecordKey, set[str]] = {}
        again: set[RecordKey] = set()
        while self._wakes and self._wakes[0][0] <= now:
            _, key = heappop(self._wakes)
            instance = self.instances.get(key)
            wake = None if instance is None else instance.core.wake(instance.record)
            if instance is None or wake is None or wake > now:
                continue
            states = seen.setdefault(key, set())
            if instance.state not in states:
                states.add(instance.state)
                yield instance
            if instance.state in states:
                again.add(key)
        for key in again:
            heappush(self._wakes, (now + 1, key))

    def moved(self, instance: MachineInstance, now: int) -> None:
        """A machine has taken a transition: it may have a timer, or have come to its end."""
        self.wake_later(instance)
        self._note_end(instance, now)

    def _note_end(self, instance: MachineInstance, now: int) -> None:
        """A machine is forgotten a while after its end, unless it goes on; a subsidiary one with its run, or never."""
        core, metadata = instance.core, instance.metadata
        if self.program.standing or core.subsidiary:
            return
        if instance.state not in core.ends:
            metadata.pop("over", None)
        elif "over" not in metadata:
            metadata["over"] = now
            heappush(self._ended, (now, instance.key))

    def ended(self, before: int) -> Iterator[MachineInstance]:
        """The machines that came to their end at a time or before it, once each, if others of the lease did as well.

        One that were forgotten before the others would be begun anew by a late duplicate of its first message. While a
        subsidiary machine of the lease still has something to do, all of it is remembered.
        """
        later, seen = [], set[RecordKey]()
        while self._ended and self._ended[0][0] <= before:
            _, key = heappop(self._ended)
            if key in seen or (instance := self.instances.get(key)) is None or instance.state not in instance.core.ends:
                continue
            seen.add(key)
            over = all(other.metadata.get("over", before + 1) <= before for other in self._of(key.lease))
            if over and all(below.rests for below in self.below_run(key.lease)):
                yield instance
            else:
                later.append(instance)
        for instance in later:
            self.remember(instance, before + 1)

    def kept(self, role: str) -> Iterator[dict[str, Any]]:
        """Yields what is kept with the record of each machine of a role."""
        return (one.metadata for one in self.instances.values() if one.core.role == role)

    def has(self, lease: str) -> bool:
        """Returns whether a machine of a lease is here, other than subsidiary ones."""
        return any(self._of(lease))

    def _of(self, lease: str) -> Iterator[MachineInstance]:
        """The machines of a lease, without subsidiary ones."""
        keys = (RecordKey(lease, name) for name in self._machines)
        return (instance for key in keys if (instance := self.instances.get(key)) is not None)

    def below_run(self, lease: str) -> list[MachineInstance]:
        """The subsidiary machines that belong to a lease as its run."""
        machines = (self.instances[key] for key in sorted(self.driven.get(lease, ()) if self._of_run else ()))
        return [below for below in machines if below.core.of_run]

    def last_with(self, instance: MachineInstance) -> list[MachineInstance]:
        """The subsidiary machines that are forgotten with a machine: those of its run, if it is the last one of it."""
        last = all(other is instance for other in self._of(instance.key.lease))
        return self.below_run(instance.key.lease) if last else []

    def remember(self, instance: MachineInstance, at: int) -> None:
        """A machine that is over is not forgotten yet; `ended` answers it again as if it had ended at a time."""
        heappush(self._ended, (at, instance.key))

    def forget(self, instance: MachineInstance) -> dict[str, bytes]:
        """Forgets a machine, and with the last one of a lease the subsidiary machines that are its own.

        Returns:
            The metadata that has changed, if it was the last one.
        """
        lease, below = instance.key.lease, self.last_with(instance)
        del self.instances[instance.key]
        if any(self._of(lease)):
            return {}
        for machine in below:
            del self.instances[machine.key]
            self._pass_on(machine)
        origin = self.pruned.add(lease)
        changed = {PRUNED + origin: self.pruned.write(origin)}
        self.metadata.update(changed)
        return changed


class MachinesOfActor:
    """The machines of an actor as a contract looks at them, from one of them; each role is looked at once.

    The explorer has each machine of a run from the start. So one that nothing has begun has its first record here.

    Args:
        table: of the actor.
        instance: the machine itself.
    """

    def __init__(self, table: MachineTable, instance: MachineInstance) -> None:
        self._table, self._instance = table, instance
        self._found: dict[str, list[MachineInstance]] = {}
        self._records: dict[str, list[Record]] = {}

    def _of(self, role: str) -> list[MachineInstance]:
        if role not in self._found:
            self._found[role] = [m for m in self._table.instances.values() if m.core.role == role]
        return self._found[role]

    @property
    def own(self) -> int:
        """The position of the machine itself among those of its role."""
        return self._of(self._instance.core.role).index(self._instance)

    def __getitem__(self, role: str) -> list[Record]:
        """The records of a role's machines, of all runs; those of its own run that are not there come last."""
        if role not in self._records:
            begun = [machine.record for machine in self._of(role)]
            self._records[role] = [*begun, *self._unbegun(self._table.program.roles[role])]
        return self._records[role]

    def _unbegun(self, core: Core) -> Iterator[Record]:
        """The first records of a role's machines in the run of the machine itself that are not there."""
        if self._table.program.standing:
            return  # the actor has all that it plays
        for number in range(core.count):
            if RecordKey(self._instance.key.lease, core.machine(number)) not in self._table.instances:
                yield core.first(number)

    def of_run(self, role: str) -> Record:
        """The record of a role's only machine in the run of the machine itself; its first one, if it is not there."""
        instance = self._table.instances.get(RecordKey(self._instance.key.lease, role))
        return self._table.program.roles[role].first() if instance is None else instance.record
