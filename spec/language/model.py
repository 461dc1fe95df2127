"""The model of a system, which every reading of a specification takes.

Immutable, fully resolved (constants have values, instances have numbers, every expression is typed) and in the order of
the text. `load.py` makes it; nothing changes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from leasehold.spec.language.constant import Constant, Reader
from leasehold.spec.language.diagnostics import NOWHERE, Diagnostic, Place
from leasehold.spec.language.expectation import Expectation
from leasehold.spec.language.expression import SHARED, Expression
from leasehold.spec.language.migration_rules import Migration
from leasehold.spec.language.types import Enum, Instance, Type, Value
from leasehold.spec.language.typing.definitions import Definition


@dataclass(frozen=True, slots=True)
class Datum:
    """A typed field: of a machine's record, of an event or of a message.

    Attributes:
        explore: bounds what the explorer tries, both ends included; its ends may read constants and the clock.
        initial: the first value; that of the first machine, where machines differ.
        begin: the first value of each machine, where they have not all the same.
        begins_as: of the machine (`self`), its first value or that of each cell, where the number of machines matters.
    """

    name: str
    type: Type
    explore: tuple[Expression, Expression] | None = None
    initial: Value | Literal["any"] = None
    any_initial: bool = False
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)
    captured: bool = False  # what a task reads of the step that has started it, kept for the task alone
    begin: tuple[Value, ...] = ()
    begins_as: Expression | None = None
    unbounded: str = ""  # why nothing need bound it

    def first(self, instance: int) -> Value:
        """The value with which a machine begins."""
        return self.begin[min(instance, len(self.begin) - 1)] if self.begin else self.initial


@dataclass(frozen=True, slots=True)
class Event:
    """A local event of a role: an answer of a task, a word from outside, or what a parent drives into a subsidiary."""

    name: str
    fields: tuple[Datum, ...] = ()
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Message:
    """A message from one role to another; both directions of a pair have channels of their own."""

    name: str
    sender: str
    receiver: str
    fields: tuple[Datum, ...] = ()
    carries: str | None = None  # the message whose signed content it shows, in the fields of equal names
    answer: bool = False  # receiving it again sends nothing again, or two machines would answer each other for ever
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Send:
    """A task that sends a message: a pure function of the record. `only` chooses receivers (`it`); None is all."""

    name: str
    message: str
    receiver: str
    fields: Mapping[str, Expression]
    only: Expression | None = None
    when: Expression | None = None
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)

    @property
    def answers(self) -> tuple[str, ...]:
        """A send has none: it ends in the step that enters its state."""
        return ()


@dataclass(frozen=True, slots=True)
class Call:
    """A task that calls a policy or a handler, which ends with one of its answers (none: its end is of no interest)."""

    name: str
    target: str
    answers: tuple[str, ...]
    when: Expression | None = None
    outlives: bool = False  # it goes on when its state is left, and other states remember it (outlive.py)
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Drive:
    """A task that hands an event to subsidiary machines, and is answered when they have come to where it says."""

    name: str
    role: str
    event: str
    fields: Mapping[str, Expression]
    answers: Mapping[str, Expression]
    only: Expression | None = None
    when: Expression | None = None
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)


Task: TypeAlias = Send | Call | Drive


@dataclass(frozen=True, slots=True)
class Update:
    """`name: value`, or `name[key]: value` for a cell of a map; of the machine's record, or of a shared variable."""

    name: str
    key: Expression | None
    value: Expression
    place: Place = field(default=NOWHERE, compare=False)
    shared: bool = False

    @property
    def target(self) -> str:
        """The name of what it writes, without a cell's key, as the language writes it."""
        return f"{SHARED.name}.{self.name}" if self.shared else self.name

    def holder(self, role: str) -> str:
        """Returns the holder of the field that it writes: the machine's role, or the shared variables."""
        return SHARED.name if self.shared else role


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition: from `source` on `event`, when the guard holds, to `target`, with updates.

    An *internal* transition stays in its state and starts no task of it. (One that tells that an outliving task has
    ended goes to the same state without that task.) `also` are tasks of this transition alone, which recovery does not
    restart.
    """

    role: str
    source: str
    event: str
    position: int  # among the transitions of the same state and event
    target: str
    guard: Expression | None = None
    updates: tuple[Update, ...] = ()
    internal: bool = False
    also: tuple[str, ...] = ()
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)
    passes: tuple[Update, ...] = ()  # names and values that its tasks alone read; nothing keeps them (captures.py)

    @property
    def name(self) -> str:
        """`broker/ticketing#granted`, with a number where one state has several transitions on one event."""
        return f"{self.role}/{self.source}#{self.event}" + (f".{self.position + 1}" if self.position else "")


@dataclass(frozen=True, slots=True)
class Others:
    """All events that a state does not name.

    Attributes:
        kind: what becomes of them, the key under which one of them would be named.
        reason: why, of each of them.
        events: those that they are, which the rest of the system tells (lower/others.py).
    """

    kind: Literal["ignore", "refuse"]
    reason: str
    events: tuple[str, ...] = ()
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class State:
    """A control state: its tasks W(x) and what it does with every event.

    A state that remembers is in all else its `base`; `remembers` are tasks that an earlier state started and that may
    still run (outlive.py). They are among its `tasks`, so recovery starts them again.
    """

    name: str
    initial: bool = False  # of some machine
    tasks: tuple[str, ...] = ()
    on: Mapping[str, tuple[Transition, ...]] = field(default_factory=dict)
    ignore: Mapping[str, str] = field(default_factory=dict)
    refuse: Mapping[str, str] = field(default_factory=dict)
    remembers: tuple[str, ...] = ()
    base: str = ""
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)
    starts: Expression | None = None  # of which machine it is the initial state; None: of all, if it is `initial`
    ends: bool = False  # the machine may be forgotten here, though a message may lead out
    others: Others | None = None

    @property
    def ignored(self) -> Mapping[str, str]:
        """The events that change nothing here, each with its reason: those of `ignore`, and all others."""
        return {**self.ignore, **self._of_others("ignore")}

    @property
    def refused(self) -> Mapping[str, str]:
        """The events that are answered with an error here, likewise."""
        return {**self.refuse, **self._of_others("refuse")}

    @property
    def spelled_out(self) -> State:
        """The same state with each of its other events named."""
        return replace(self, ignore=self.ignored, refuse=self.refused, others=None)

    def _of_others(self, kind: str) -> dict[str, str]:
        others = self.others
        return {} if others is None or others.kind != kind else dict.fromkeys(others.events, others.reason)

    @property
    def title(self) -> str:
        """The name that reports give it: `ticketed`, or `ticketed + backup` while `backup` still runs."""
        return " + ".join((self.base, *self.remembers)) if self.remembers else self.name

    @property
    def over(self) -> bool:
        """Returns whether a machine has come to its end here: the text says so, or nothing leads out."""
        return self.ends or self.final

    @property
    def final(self) -> bool:
        """Returns whether no event leads out of the state or changes the record: at most, tasks start again."""
        cases = (case for cases in self.on.values() for case in cases)
        return all(case.target == self.name and not case.updates for case in cases)


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    instance: Instance
    indexed: bool
    states: Mapping[str, State]
    data: Mapping[str, Datum]
    events: Mapping[str, Event]
    tasks: Mapping[str, Task]
    parent: str | None = None  # the role that this one is subsidiary to
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)
    definitions: Mapping[str, Definition] = field(default_factory=dict)  # its expressions have them in place already
    begin: tuple[str, ...] = ()  # the initial state of each machine, where they have not all the same
    of_run: bool = False  # a subsidiary role that has machines of its own in each run, rather than in each actor

    @property
    def count(self) -> int:
        return self.instance.count

    @property
    def initial(self) -> tuple[State, ...]:
        """The states in which machines start, in the order of the text."""
        return tuple(s for s in self.states.values() if s.initial)

    def first(self, instance: int) -> State:
        """The state in which a machine starts."""
        return self.states[self.begin[instance]] if self.begin else self.initial[0]

    @property
    def control(self) -> Enum:
        return Enum(f"a state of {self.name}", tuple(self.states))

    @property
    def answers(self) -> frozenset[str]:
        """The events with which its tasks end."""
        return frozenset(a for task in self.tasks.values() for a in task.answers)

    def transitions(self) -> Iterator[Transition]:
        for state in self.states.values():
            for choices in state.on.values():
                yield from choices


@dataclass(frozen=True, slots=True)
class Runs:
    """The roles that begin runs at run time, and those that bring machines into runs of others."""

    begun_by: tuple[str, ...] = ()
    relayed_by: tuple[str, ...] = ()


ChannelKind: TypeAlias = Literal["mailbox", "fifo", "queue", "bag", "multiset", "set"]
CHANNEL_FAULTS = ("lose", "duplicate", "reorder")
CHANNEL_KINDS: tuple[ChannelKind, ...] = get_args(ChannelKind)
CHANNEL_KINDS_WITHOUT_CAPACITY: tuple[ChannelKind, ...] = ("mailbox", "set")
DURABLE_KINDS: tuple[ChannelKind, ...] = ("fifo", "queue")  # a crash loses and repeats nothing of them
ChannelBudget: TypeAlias = int | Literal["any"]
Fate: TypeAlias = Literal["kept", "lost"]


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel from every machine of one role to every one of another. Faults have a budget over the whole run.

    Attributes:
        kinds: those that it may have, as the values of constants say; what it carries is held to the rules of each.
        on_crash: the fate of messages on their way to an actor that crashes.
    """

    name: str
    sender: str
    receiver: str
    messages: tuple[str, ...]  # which it carries
    kind: ChannelKind
    capacity: int | None = None
    same_index: bool = False  # only machines of equal index talk
    lose: ChannelBudget = 0
    duplicate: ChannelBudget = 0
    reorder: ChannelBudget = 0
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)
    unbounded: str = ""  # why nothing need bound it
    kinds: tuple[ChannelKind, ...] = ()
    on_crash: Fate = "kept"

    @property
    def unordered(self) -> bool:
        """Returns whether it keeps any number of messages without an order."""
        return self.kind in ("bag", "multiset")

    @property
    def numbered(self) -> bool:
        """Returns whether its messages have numbers, whatever its kind: it is a mailbox in any case."""
        return set(self.kinds) == {"mailbox"}

    @property
    def repeats(self) -> bool:
        """Returns whether recovery, or a duplicate of what a message answers, may send a message of it again."""
        return any(kind not in DURABLE_KINDS for kind in self.kinds)

    @property
    def durable(self) -> bool:
        """Returns whether its messages are kept, each once, until they are received, whoever crashes."""
        return self.kind in DURABLE_KINDS

    @property
    def waits(self) -> bool:
        """Returns whether a message that no transition takes waits until one does; else it is ignored."""
        return self.kind in ("queue", "multiset", "set")


@dataclass(frozen=True, slots=True)
class Clock:
    """The virtual clock runs from 0 to `horizon`. Timers are prompt: the clock waits for machines whose tick is due."""

    horizon: int
    late: bool = False
    place: Place = field(default=NOWHERE, compare=False)


class Fair(IntEnum):
    """The degree of fairness: to nothing, to what may happen all the time, or to what may happen again and again."""

    NO = 0
    WEAK = 1
    STRONG = 2


@dataclass(frozen=True, slots=True)
class Outside:
    """An environment action: when the world outside offers an event to a machine (`it`).

    Attributes:
        enforced: running actors hold the event to `when`, where they know what it reads.
        fair_for_each: fields of the event; each combination of their values is a group of fairness of its own.
    """

    name: str
    role: str
    event: str
    when: Expression | None = None
    fair: Fair = Fair.NO
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)
    enforced: bool = True
    fair_for_each: tuple[str, ...] = ()


PropertyKind: TypeAlias = Literal[
    "always", "step", "sometimes", "leads_to", "always_eventually", "eventually_always", "always_possible"
]
OF_FAIR_RUNS: tuple[PropertyKind, ...] = ("leads_to", "always_eventually", "eventually_always")  # claims about these


@dataclass(frozen=True, slots=True)
class Property:
    """A claim. `when` is its antecedent, of which a case must exist; `within` bounds a leads_to in ticks.

    Attributes:
        variables: it is claimed of each of their values, and its expressions read them (for_each.py).
        binding: values that stand in place of variables, as the language writes them.
    """

    name: str
    kind: PropertyKind
    claim: Expression
    when: Expression | None = None
    within: int | None = None
    doc: str = ""
    source: str = ""
    place: Place = field(default=NOWHERE, compare=False)
    variables: Mapping[str, Type] = field(default_factory=dict)
    binding: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """A state of the whole in which it is right that nothing more can happen."""

    name: str
    holds: Expression
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults that are explored, as the system declares them.

    Attributes:
        budget: what is explored when a call says nothing, as leasehold.faults.Budget reads it.
        settings: constants for that.
        modes: cases of recovery that are told apart; each holds or not when an actor restarts.
        nodes: actors that may crash together, by the name of their node.
        check: what `check` explores besides, a budget too.
    """

    budget: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, Expression] = field(default_factory=dict)
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check: str = ""
    place: Place = field(default=NOWHERE, compare=False)

    @property
    def usual(self) -> str:
        """The budget under which the prover explores: that of `check`, or the system's, or one crash."""
        return self.check or self.budget or "crash=1"


@dataclass(frozen=True)
class Refinement:
    """The abstract system that a system refines.

    Attributes:
        values: by its role and field (None: the control state), an expression over the system that refines it; of a
            role with several machines, `it` is the instance with the same number.
    """

    abstract: System
    values: Mapping[tuple[str, str | None], Expression]
    doc: str = ""
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class System:
    name: str
    doc: str
    constants: Mapping[str, Constant]
    types: Mapping[str, Enum | Instance]
    roles: Mapping[str, Role]
    messages: Mapping[str, Message]
    channels: Mapping[str, Channel]
    clock: Clock | None
    environment: Mapping[str, Outside]
    initially: Expression | None
    constraint: Expression | None
    properties: Mapping[str, Property]
    ends: tuple[End, ...] | None  # None: the system does not claim freedom from deadlock
    product: tuple[str, ...]
    actors: Mapping[str, tuple[str, ...]]
    expectations: tuple[Expectation, ...]
    warnings: tuple[Diagnostic, ...]
    digest: str
    defaults: Mapping[str, Value] = field(default_factory=dict)  # the constants' declared values
    faults: Faults = field(default_factory=Faults)
    counting: frozenset[str] = frozenset()  # constants that number instances, bounds or capacities
    bounding: frozenset[str] = frozenset()  # those that types, first values, budgets and worked-out numbers are made of
    loaded_with: Mapping[Reader, frozenset[str]] = field(default_factory=dict)  # the same, by who reads them
    migrations: tuple[Migration, ...] = ()
    lemmas: Mapping[str, Property] = field(default_factory=dict)  # what the prover proves beside the properties
    definitions: Mapping[str, Definition] = field(default_factory=dict)  # the expressions have them in place already
    standing: bool = False  # at run time its machines live on, instead of once for each run
    runs: Runs = Runs()
    refines: Refinement | None = None
    shared: Mapping[str, Datum] = field(default_factory=dict)  # variables that all machines read and write

    @cached_property
    def holders(self) -> Mapping[str, Role]:
        """All that has data: the roles, and last, where there are any, what holds the shared variables."""
        if not self.shared:
            return self.roles
        return {**self.roles, SHARED.name: Role(SHARED.name, SHARED, False, {}, self.shared, {}, {})}

    def values(self) -> dict[str, Value]:
        """The constants' values by name."""
        return {name: c.value for name, c in self.constants.items()}

    def settings(self) -> dict[str, Value]:
        """The values of those constants that are settings of a run."""
        return {name: c.value for name, c in self.constants.items() if not c.bounds}

    def channel_of(self, message: str) -> Channel:
        return next(c for c in self.channels.values() if message in c.messages)

    @cached_property
    def apart(self) -> frozenset[str]:
        """The channels whose messages are numbered apart from all others of their two roles.

        Two machines share a pair of numbers, one for each direction, unless several channels lead one way between
        their roles, or only some of these join machines of equal index alone.
        """
        between: dict[frozenset[str], list[Channel]] = defaultdict(list)
        for channel in self.channels.values():
            between[frozenset((channel.sender, channel.receiver))].append(channel)
        return frozenset(
            channel.name
            for channels in between.values()
            if len({c.sender for c in channels}) < len(channels) or len({c.same_index for c in channels}) > 1
            for channel in channels
        )

    def apart_of(self, message: str) -> str:
        """The channel of a message, if it is numbered apart; else an empty word."""
        name = self.channel_of(message).name
        return name if name in self.apart else ""

    def channel_named(self, name: str) -> Channel:
        """The channel of a name, which may be that of a kind of message that it carries."""
        return self.channel_of(name) if name in self.messages else self.channels[name]

    def received_by(self, role: str) -> Iterator[Message]:
        return (m for m in self.messages.values() if m.receiver == role)

    def fields_of(self, role: str, event: str) -> tuple[Datum, ...]:
        """The fields of a message or local event that a role consumes; `tick` has none."""
        message = self.messages.get(event)
        if message is not None and message.receiver == role:
            return message.fields
        local = self.roles[role].events.get(event)
        return local.fields if local else ()

    def counted(self) -> list[Instance]:
        """The types that have instances: of roles, and counted ones."""
        roles = [role.instance for role in self.roles.values() if role.indexed]
        return [*roles, *(type_ for type_ in self.types.values() if isinstance(type_, Instance))]

    def machines(self) -> Iterator[tuple[Role, int]]:
        for role in self.roles.values():
            for instance in range(role.count):
                yield role, instance

    def records(self) -> Iterator[tuple[Role, int]]:
        """All that has data, one by one: the machines, and what holds the shared variables."""
        for holder in self.holders.values():
            for instance in range(holder.count):
                yield holder, instance

    def product_size(self) -> int:
        """The number of control states of the product of the roles under `product`."""
        size = 1
        for name in self.product:
            size *= len(self.roles[name].states) ** self.roles[name].count
        return size


def machine_name(role: Role, instance: int) -> str:
    """`broker`, or `resource_manager[1]` where the role has several machines."""
    return f"{role.name}[{instance}]" if role.indexed else role.name
