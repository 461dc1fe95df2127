"""A compiled role, and a compiled system: the generated tables with what one needs to use them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from leasehold.impl.core.sparse import modelled
from leasehold.impl.core.stepping import Numbers, Step, Table, WorkOf, step_of
from leasehold.impl.core.values import LARGEST, bounds
from leasehold.impl.core.work import ActorMachines, Contract, Event, Machines, Outcome, Record, Stepped
from leasehold.impl.words import choices, over, parted
from leasehold.spec.language import types as t
from leasehold.spec.language.types import LARGEST_NUMBER, Type, Value

Answers: TypeAlias = Mapping[str, Callable[[Record], tuple[str, ...]]]
Wakes: TypeAlias = Mapping[str, Callable[[Record], int]]
Named: TypeAlias = tuple[tuple[str, Type], ...]  # fields by name, in their order
_NUMBERS = (t.Int, t.Time, t.Instance)
FIRSTS = 4096  # first records of a role that are remembered


class CoreError(Exception):
    """A value that the core was given does not fit its specification."""


@dataclass(frozen=True, slots=True)
class MessageShape:
    """A message: who sends it to whom, and its fields.

    Attributes:
        ordered: its channel is a `fifo`.
        capacity: of the channel; 0: it has none.
        channel: its name, where its messages are numbered apart.
    """

    sender: str
    receiver: str
    fields: Named = ()
    answer: bool = False
    carries: str = ""
    ordered: bool = False
    capacity: int = 0
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the specification in a record; `begin` has the first values of machines that do not begin alike."""

    name: str
    type: Type
    initial: Value
    begin: tuple[Value, ...] = ()

    def first(self, instance: int) -> Value:
        """The value with which a machine begins."""
        return self.begin[min(instance, len(self.begin) - 1)] if self.begin else self.initial


@dataclass(frozen=True, repr=False)
class Core:
    """The machines of one role.

    A record is a tuple: the control state; the own number, if the role has several machines; the fields; of a
    machine that talks, the sent and the received numbers; the state epoch; the state epochs at which tasks began
    that may outlive their state. So far it is durable; what follows are the subsidiary machines of its actor and
    of its run, by role, which it can see.

    Attributes:
        role: its name.
        indexed: its machines have numbers.
        count: how many machines it has.
        states: the control states; the first one is the initial one, where `begin` says no other.
        fields: the fields of the specification.
        events: the local events, with their fields.
        neighbours: role and number of each machine that it talks with; -1 is its own number. One that it talks with
            over channels whose messages are numbered apart is there for each of them.
        since: for each task that may outlive its state, the events that end it.
        below: the subsidiary roles.
        subsidiary: it is one itself.
        of_run: a subsidiary one with machines of its own in each run.
        of_actor: a subsidiary one whose machines belong to the actor, and are those that all runs see.
        table: what each state does with each event.
        work: what each state asks for.
        answers: for each state whose subsidiaries are waited for, what has come true of them.
        wakes: for each state with a timer, the earliest time at which it may be due.
        heard_answers: the messages that it receives and does not answer.
        ends: the states in which a machine is over, and may be forgotten; hardly an event changes the record any more.
        begin: the initial state of each machine, where they do not all start in the same one; machines of a dynamic
            role that have higher numbers start as the last one does.
        dynamic: there may be any number of its machines; `count` is that of the beginning.
        dynamic_neighbours: the dynamic roles whose machines it talks with; each of these has a position behind those of
            `neighbours`, the roles in turns. Records have `Numbers` then, as nobody knows how many there are.
        channels: of each of `neighbours`, then of `dynamic_neighbours`, the channel whose messages are numbered apart
            from all others of that machine, or ""; empty where no channel has numbers of its own.
        introduced: a message may begin its machines, and they may speak to others than its sender.
        contracts: for each event, under which condition the world outside may give it.
    """

    role: str
    indexed: bool
    states: tuple[str, ...]
    fields: tuple[Field, ...]
    events: Mapping[str, Named]
    neighbours: tuple[tuple[str, int], ...]
    count: int
    since: Mapping[str, tuple[str, ...]]
    below: tuple[Core, ...]
    subsidiary: bool
    table: Table
    work: WorkOf
    answers: Answers
    wakes: Wakes
    heard_answers: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset()
    introduced: bool = False
    begin: tuple[str, ...] = ()
    dynamic: bool = False
    dynamic_neighbours: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    contracts: Mapping[str, Contract] = field(default_factory=dict)
    of_run: bool = False
    of_actor: bool = field(init=False)
    step: Step = field(init=False)
    names: tuple[str, ...] = field(init=False)
    _field_names: tuple[str, ...] = field(init=False)
    _alone: Callable[[int], Record] = field(init=False, compare=False)  # first records, without subsidiary machines
    _limited: list[tuple[int, int, int]] = field(init=False, compare=False)  # numbers: position, least, greatest
    # Where things are in a record.
    data_at: int = field(init=False)
    sent_at: int = field(init=False)
    received_at: int = field(init=False)
    state_epoch_at: int = field(init=False)
    below_at: int = field(init=False)

    def __post_init__(self) -> None:
        own = ("instance",) if self.indexed else ()
        numbers = () if self.subsidiary else ("sent", "received")
        data = tuple(f.name for f in self.fields)
        since = tuple(f"since {task}" for task in self.since)
        names = ("state", *own, *data, *numbers, "entry", *since, *(f"{core.role} machines" for core in self.below))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "of_actor", self.subsidiary and not self.of_run)
        first = 1 + len(own) + len(data)
        state_epoch = first + len(numbers)
        ended = {event: state_epoch + 1 + i for i, events in enumerate(self.since.values()) for event in events}
        step = step_of(self.table, first + 1, state_epoch, ended, self.heard_answers, self.work, self.beside)
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "_alone", lru_cache(FIRSTS)(self._make_first))
        places: dict[str, Any] = {
            "data_at": 1 + len(own),
            "sent_at": first,
            "received_at": first + 1,
            "state_epoch_at": state_epoch,
            "below_at": state_epoch + 1 + len(since),
            "_field_names": data,
            "_limited": [
                (at, *_limits(f.type)) for at, f in enumerate(self.fields, 1 + len(own)) if isinstance(f.type, _NUMBERS)
            ],
        }
        for name, at in places.items():
            object.__setattr__(self, name, at)

    def __repr__(self) -> str:
        return f"Core({self.role})"

    # Records

    def first(self, instance: int = 0, below: tuple[Machines, ...] = ()) -> Record:
        """The record of a machine that nothing has happened to; `below` are the subsidiary machines that it sees."""
        return (*self._alone(instance), *below)

    def _make_first(self, instance: int) -> Record:
        own = (instance,) if self.indexed else ()
        none: Any = Numbers() if self.dynamic_neighbours else (0,) * len(self.neighbours)
        numbers = () if self.subsidiary else (none, none)
        data = tuple(f.first(instance) for f in self.fields)
        return (
            self.first_state(instance),
            *own,
            *data,
            *numbers,
            0,
            *(0 for _ in self.since),
        )

    @property
    def unseen(self) -> tuple[Machines, ...]:
        """Subsidiary machines that nothing has happened to, as a record has them."""
        return tuple(Machines(sub.first) for sub in self.below)

    def begins_with(self, instance: int, event: Event, now: int) -> bool:
        """Returns whether an event moves a machine that nothing has happened to."""
        return self.step(self.first(instance, self.unseen), event, now)[1].taken

    def first_state(self, instance: int) -> str:
        """The initial state of a machine."""
        return self.begin[min(instance, len(self.begin) - 1)] if self.begin else self.states[0]

    def neighbour(self, at: int) -> tuple[str, int]:
        """Role and number of the neighbour at a position; -1 is the own number."""
        if at < len(self.neighbours):
            return self.neighbours[at]
        number, role = divmod(at - len(self.neighbours), len(self.dynamic_neighbours))
        return self.dynamic_neighbours[role], number

    def channel(self, at: int) -> str:
        """The channel whose messages have the numbers at a position, if they are numbered apart."""
        if not self.channels:
            return ""
        fixed = len(self.neighbours)
        return self.channels[at if at < fixed else fixed + (at - fixed) % len(self.dynamic_neighbours)]

    def position(self, role: str, number: int, own: int, channel: str = "") -> int | None:
        """The position of a machine among the neighbours of the machine of number `own`; None where it is none.

        Args:
            role: of the machine.
            number: which of them.
            own: the number of the machine whose neighbour it is.
            channel: over which the two talk, if its messages are numbered apart.
        """
        if (turn := self._turns.get((role, channel))) is not None:
            return len(self.neighbours) + number * len(self.dynamic_neighbours) + turn
        same = self.positions.get((role, -1, channel)) if number == own else None
        return self.positions.get((role, number, channel), same)

    @cached_property
    def positions(self) -> dict[tuple[str, int, str], int]:
        """The positions of neighbours that are not of a dynamic role, by role, number and channel."""
        return {(*named, self.channel(at)): at for at, named in enumerate(self.neighbours)}

    @cached_property
    def _turns(self) -> dict[tuple[str, str], int]:
        """The places of dynamic roles in their turns, by role and channel."""
        fixed = len(self.neighbours)
        return {(role, self.channel(fixed + turn)): turn for turn, role in enumerate(self.dynamic_neighbours)}

    def beside(self, record: Record, at: int) -> tuple[int, ...]:
        """The positions of the machine that is the neighbour at one of them: one, unless it has several channels."""
        if not self.channels:
            return (at,)
        role, number = self.neighbour(at)
        own = record[1] if self.indexed else 0
        of_machine = role, own if number < 0 else number, own
        found = (self.position(*of_machine, channel) for channel in dict.fromkeys(self.channels))
        return tuple(other for other in found if other is not None)

    def machine(self, number: int) -> str:
        """The name of one of its machines: `broker`, or `participant[2]`."""
        return f"{self.role}[{number}]" if self.indexed else self.role

    def view(self, record: Record) -> dict[str, Any]:
        """A record's fields of the specification, by name."""
        return dict(zip(self._field_names, record[self.data_at :], strict=False))

    def cells(self, record: Record) -> tuple[Any, ...]:
        """The control state and the fields of a record, as an explored state has them, and in its order."""
        values = record[self.data_at : self.data_at + len(self.fields)]
        return record[0], *(modelled(f.type, value) for f, value in zip(self.fields, values, strict=True))

    def step_outside(self, record: Record, event: Event, now: int, machines: ActorMachines) -> Stepped:
        """The step of an event that the world outside gives, which is held to its contract."""
        stepped = self.step(record, event, now)
        contract = self.contracts.get(event[0]) if stepped[1].taken else None
        if contract is None or contract.holds(record, event[1], machines, now):
            return stepped
        return record, Outcome("refused", event[0], reason=f"it breaks {contract}")

    def check(self, record: Record) -> None:
        """Checks whether a record may be committed.

        Raises:
            CoreError: a number has left its type's range: the specification is at fault.
        """
        for at, low, high in self._limited:
            value = record[at]
            if not low <= value <= high:
                where = f"{self.role}.{self.names[at]}"
                raise CoreError(f"{where} would be {value}, outside its type's range; the specification is at fault")

    # What a machine does by itself

    def recover(self, record: Record) -> Stepped:
        """The work of a machine's state, started again after a crash (paper, section 3.3); the record is as it was."""
        return record, Outcome("recovered", "recover", work=self.work[record[0]](record))

    def began(self, record: Record, task: str) -> int:
        """The state epoch at which a task of the state began: of this state, or of an earlier one that it outlives."""
        at = list(self.since).index(task) + 1 if task in self.since else 0
        state_epoch: int = record[self.state_epoch_at + at]
        return state_epoch

    def offered(self, record: Record) -> tuple[str, ...]:
        """The answers of its subsidiary machines that have come true, in the order of the work list."""
        function = self.answers.get(record[0])
        return () if function is None else function(record)

    def over(self, state: str) -> bool:
        """Returns whether a machine in a state has come to its end: it says what it has to say, and moves no more."""
        return state in self.ends

    def wake(self, record: Record) -> int | None:
        """The earliest time at which a timer of the machine may be due; None where it has none."""
        function = self.wakes.get(record[0])
        return None if function is None else function(record)


def _limits(kind: t.Type) -> tuple[int, int]:
    """The least and the greatest value that can be written, and read again."""
    low, high = bounds(kind)
    return max(-LARGEST, -LARGEST if low is None else low), min(LARGEST, LARGEST if high is None else high)


class MachineNames(dict[str, tuple["Core", int]]):
    """Role and number of each machine by its name.

    It is asked for any machine that there may be, and lists those of the beginning.

    Args:
        roles: all roles.
    """

    def __init__(self, roles: Mapping[str, Core]) -> None:
        super().__init__({core.machine(n): (core, n) for core in roles.values() for n in range(core.count)})
        self._dynamic = {name: core for name, core in roles.items() if core.dynamic}

    def __missing__(self, name: str) -> tuple[Core, int]:
        named = _NUMBERED.fullmatch(name) if self._dynamic else None
        core = self._dynamic.get(named[1]) if named is not None else None
        if named is None or core is None or int(named[2]) > LARGEST_NUMBER:
            raise KeyError(name)
        return core, int(named[2])

    def get(self, name: str, default: Any = None) -> Any:
        """The machine of a name, or else the default."""
        try:
            return self[name]
        except KeyError:
            return default


_NUMBERED = re.compile(r"([a-z_][a-z0-9_]*)\[(0|[1-9][0-9]{0,9})\]")


@dataclass(frozen=True)
class Program:
    """A compiled system.

    Attributes:
        system: its name.
        digest: of the specification.
        constants: the values that it was compiled with.
        messages: all messages.
        roles: all roles, the subsidiary ones too.
        actors: which actor plays which roles; a role that is not named here is an actor of its own.
        standing: its machines are there from the start and live on; else they are made for each run.
        begun_by: the roles whose actors begin runs.
        relayed_by: the roles that bring machines into runs that others have begun.
        own_constants: those that actors need not have alike: they count machines of dynamic roles.
        from_outside: by role, the local events that the world outside gives (`environment` of the specification).
        from_below: by role, those that come when its subsidiary machines have come to where it waits for them.
        asked_of_policies: by role, those that answer its questions to policies.
        source: the generated source.
    """

    system: str
    digest: str
    constants: Mapping[str, Value]
    messages: Mapping[str, MessageShape]
    roles: Mapping[str, Core]
    actors: Mapping[str, tuple[str, ...]]
    standing: bool = False
    begun_by: tuple[str, ...] = ()
    relayed_by: tuple[str, ...] = ()
    own_constants: frozenset[str] = frozenset()
    from_outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    from_below: Mapping[str, frozenset[str]] = field(default_factory=dict)
    asked_of_policies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    source: str = field(default="", repr=False, compare=False)

    @cached_property
    def machines(self) -> MachineNames:
        """The role and the number of each machine, by its one name: records are kept under it."""
        return MachineNames(self.roles)

    def neighbour(self, core: Core, number: int, at: int) -> str:
        """The name of a neighbour of a role's machine of some number."""
        role, index = core.neighbour(at)
        return self.roles[role].machine(number if index < 0 else index)

    def neighbours(self, core: Core, number: int) -> list[str]:
        """The names of all neighbours of a role's machine of some number, in their order; not of dynamic roles."""
        return [self.neighbour(core, number, at) for at in range(len(core.neighbours))]

    def lane(self, core: Core, number: int, at: int) -> str:
        """The name under which numbers stand: the neighbour's, and the channel's if its messages are numbered apart."""
        return over(self.neighbour(core, number, at), core.channel(at))

    def lanes(self, core: Core, number: int) -> list[str]:
        """The names under which all numbers stand, in their order; not of dynamic roles."""
        return [self.lane(core, number, at) for at in range(len(core.neighbours))]

    def lane_at(self, core: Core, number: int, name: str) -> int | None:
        """The position of the numbers that stand under a name; None where there are none."""
        machine, channel = parted(name)
        named = self.machines.get(machine)
        return None if named is None else core.position(named[0].role, named[1], number, channel)

    @cached_property
    def talking(self) -> tuple[str, ...]:
        """The machines that send and receive messages."""
        return tuple(name for name, (core, _) in self.machines.items() if core.neighbours and not core.subsidiary)

    @cached_property
    def hosts(self) -> dict[str, str]:
        """The actor that plays each machine, subsidiary ones too: the declared one, or one of its own.

        A subsidiary machine is played where the first machine of its parent's role is.
        """
        declared = {role: actor for actor, roles in self.actors.items() for role in roles}
        parents = {below.role: role for role in self.roles.values() for below in role.below}

        def host(core: Core, number: int) -> str:
            if core.role not in declared and core.role in parents:
                return host(parents[core.role], 0)
            return declared.get(core.role) or (f"{core.role}-{number}" if core.indexed else core.role)

        return {name: host(core, number) for name, (core, number) in self.machines.items()}

    @cached_property
    def players(self) -> dict[str, str]:
        """The actor that plays each machine that is no subsidiary."""
        return {name: actor for name, actor in self.hosts.items() if not self.machines[name][0].subsidiary}

    def player_of(self, machine: str, players: Mapping[str, str]) -> str:
        """The actor that plays a machine; a subsidiary one is played along with what drives it.

        Args:
            machine: its name, such as `unit[3]`.
            players: for each machine that is no subsidiary the actor that plays it.

        Raises:
            LookupError: there is no such machine.
        """
        if machine in players:
            return players[machine]
        if machine not in self.machines:
            raise LookupError(f"{self.system} has no machine {machine[:60]!r}{choices(machine, [*players])}")
        core, _ = self.machines[machine]
        above = {role.role for role in self.roles.values() if core in role.below}
        return next(actor for actor, roles in self.roles_of(players).items() if above & {*roles})

    def roles_of(self, players: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Returns, by actor, declared ones first, the roles that it plays, without subsidiary ones.

        Args:
            players: for each machine the actor that plays it.
        """
        by_actor: dict[str, dict[str, None]] = {name: {} for name in self.actors}
        for machine, name in players.items():
            core, _ = self.machines[machine]
            if not core.subsidiary:
                by_actor.setdefault(name, {})[core.role] = None
        return {name: tuple(roles) for name, roles in by_actor.items() if roles}

    @cached_property
    def has_membership(self) -> bool:
        """Returns whether a run's machines may have to learn who plays others; a standing system's have settings."""
        return not self.standing and any(core.introduced for core in self.roles.values())

    @cached_property
    def bounded(self) -> bool:
        """Returns whether a channel has a capacity, so that a step may have to wait for room."""
        return any(shape.capacity for shape in self.messages.values())

    @property
    def shared_constants(self) -> dict[str, Value]:
        """The constants that all actors have alike, and that records depend on."""
        return {name: value for name, value in self.constants.items() if name not in self.own_constants}

    @property
    def only_run(self) -> str:
        """The name under which the machines of a standing system are kept."""
        return f"{self.system}:1"

    @cached_property
    def agreement(self) -> str:
        """The specification and its constants as one word, which two actors must have alike to talk."""
        constants = msgspec.json.encode(self.shared_constants, order="deterministic")
        return f"{self.digest}.{sha256(constants).hexdigest()[:16]}"

    def agrees(self, agreement: str) -> bool:
        """Returns whether an actor of this agreement has the same specification and constants; its tick may follow."""
        return f"{agreement}.".startswith(f"{self.agreement}.")
