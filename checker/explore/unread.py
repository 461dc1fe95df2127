"""The data and transitions of which no property would miss anything, by what depends on what.

Theory of operation. A graph has a node for each control state of a role (all its machines together), each field of a
record, each message, each field of a message or of an event, and the clock; an edge says that one may influence the
other: through a guard, an update, a task's condition, a field of a message, a contract of the environment, a timer for
which the clock waits, or a channel that may be full. What a property, an end, the state constraint or a bound of the
exploration reads is read; so is what may influence that. A datum outside this cone may have any value of its type in
any state, and every property has the same verdict, under any faults: edges are too many rather than too few. The other
way round nothing is established: a datum within the cone may still be one that no property would miss, which mutants
show.

A transition that is never missed leaves its machine in its state, writes data outside the cone alone, and sends and
drives nothing within it; no property asks whether its event is taken, and no machine stops for want of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from leasehold.spec.language import expression as x
from leasehold.spec.language.declare.build import TICK
from leasehold.spec.language.lower.lowering import work_of
from leasehold.spec.language.model import Call, Drive, Role, Send, System, Transition

NOW = "now"


@dataclass(frozen=True, slots=True)
class UnreadDatum:
    """A field of a record, or of a message, that no property reads, nor what it influences.

    Attributes:
        name: such as `authority.local`, or `redeem.configuration`.
        told_in: fields of messages that may depend on it: somebody outside sees these.
    """

    name: str
    told_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """The parts of a system of which no property would miss anything.

    Attributes:
        data: of records, in the order of the text; so are the others.
        fields: of messages.
        transitions: those without any effect within the cone.
    """

    data: tuple[UnreadDatum, ...]
    fields: tuple[UnreadDatum, ...]
    transitions: tuple[str, ...]


def unread(system: System) -> Unread:
    """The data, the fields of messages and the transitions that no property would miss."""
    influence = Influence(system)
    read = influence.read()

    def datum(name: str) -> UnreadDatum:
        names = influence.influenced(name) & influence.told
        return UnreadDatum(name, tuple(f for f in influence.told_in_order if f in names and f != name))

    data = [
        datum(f"{holder.name}.{d.name}")
        for holder in system.holders.values()
        for d in holder.data.values()
        if not d.captured and f"{holder.name}.{d.name}" not in read
    ]
    fields = [datum(name) for name in influence.told_in_order if name not in read]
    idle = [t.name for role in system.roles.values() for t in role.transitions() if influence.is_idle(role, t, read)]
    return Unread(tuple(data), tuple(fields), tuple(idle))


class Influence:
    """The influences in a system: by node, those that may influence it.

    Attributes:
        told_in_order: the fields of messages.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.of: defaultdict[str, set[str]] = defaultdict(set)
        self.told_in_order = [f"{m.name}.{f.name}" for m in system.messages.values() for f in m.fields]
        self.told = frozenset(self.told_in_order)
        for role in system.roles.values():
            self._transitions(role)
            self._tasks(role)
        self._environment()
        for channel in system.channels.values():
            ends = f"{channel.sender}.state", f"{channel.receiver}.state"
            for message in self._carried(channel.name):
                self.of[message].update(ends)
                if channel.kind == "queue":  # what stands before it may be in its way
                    self.of[message].update(self._carried(channel.name))
                if channel.capacity is not None:
                    self.of[ends[0]].add(message)

    # Edges

    def _transitions(self, role: Role) -> None:
        state = f"{role.name}.state"
        for t in role.transitions():
            causes = self._reads((t.guard,), role.name, t.event)
            if t.event in self.system.messages:
                causes.add(t.event)
            self.of[state] |= causes
            if t.event == TICK:
                self.of[NOW] |= {state, *causes}
            for u in t.updates:
                written = f"{u.holder(role.name)}.{u.name}"
                self.of[written] |= {state, *causes, *self._reads((u.value, u.key), role.name, t.event)}
            for p in t.passes:  # under the name of a field, where another transition keeps it
                causes_of = {state, *causes, *self._reads((p.value,), role.name, t.event)}
                self.of[f"{_event(role.name, '')}.{p.name}"] |= causes_of
                self.of[f"{role.name}.{p.name}"] |= causes_of

    def _tasks(self, role: Role) -> None:
        state = f"{role.name}.state"
        for task in role.tasks.values():
            if isinstance(task, Call):
                self.of[state] |= self._reads((task.when,), role.name)
                continue
            causes = {state, *self._reads((task.when, task.only), role.name)}
            if isinstance(task, Send):
                target, place = task.message, task.message
            else:
                target, place = f"{task.role}.state", _event(task.role, task.event)
                self.of[state] |= self._reads(task.answers.values(), role.name)
            self.of[target] |= causes
            for name, value in task.fields.items():
                self.of[f"{place}.{name}"] |= {*causes, *self._reads((value,), role.name)}

    def _environment(self) -> None:
        for o in self.system.environment.values():
            read = self._reads((o.when,), o.role, o.event)
            self.of[f"{o.role}.state"] |= read
            for field in self.system.fields_of(o.role, o.event):
                self.of[f"{_event(o.role, o.event)}.{field.name}"] |= read

    def _carried(self, name: str) -> list[str]:
        """The messages of a channel; a message alone."""
        return [name] if name in self.system.messages else [*self.system.channels[name].messages]

    def _reads(self, expressions: Iterable[x.Expression | None], role: str = "", event: str = "") -> set[str]:
        """The nodes that expressions read, where they are those of a machine that consumes an event."""
        nodes: set[str] = set()
        for e in expressions:
            parts = list(x.walk(e)) if e is not None else []
            messages = [m for part in parts if isinstance(part, x.Pending) for m in self._carried(part.name)]
            for part in parts:
                nodes.update(self._read_by(part, role, event, messages))
        return nodes

    def _read_by(self, part: x.Expression, role: str, event: str, messages: list[str]) -> Iterator[str]:
        match part:
            case x.Data(role=of, name=name):
                yield f"{of}.{name}"
            case x.ControlState(role=of):
                yield f"{of}.state"
            case x.Argument(name=name):
                yield f"{event if event in self.system.messages else _event(role, event)}.{name}"
            case x.Now():
                yield NOW
            case x.Pending(name=name):
                yield from self._carried(name)
            case x.MessageField(name="number" | "latest"):  # which other kinds of its channel share
                yield from (other for m in messages for other in self._carried(self.system.channel_of(m).name))
            case x.MessageField(name=name):
                yield from (f"{m}.{name}" for m in messages if f"{m}.{name}" in self.told)
            case x.GlobalQuery(name="heard", subjects=(name, *_)):
                yield from (m for m in self._carried(name))
            case x.Took(role=of, event=taken):
                yield f"{of}.state"
                yield from [taken] if taken is not None and taken in self.system.messages else []
            case x.Accepts(role=of):
                yield f"{of}.state"

    # Questions

    def claims(self) -> Iterator[x.Expression | None]:
        """The expressions of which verdicts are made."""
        system = self.system
        for p in system.properties.values():
            yield from (p.claim, p.when)
        yield from (end.holds for end in system.ends or ())
        yield from (system.constraint, system.initially)
        if system.refines is not None:
            yield from system.refines.values.values()

    def read(self) -> frozenset[str]:
        """The nodes that a verdict depends on: the cone."""
        roots = self._reads(self.claims())
        if self.system.ends is not None:  # then any step that is left counts
            roots |= {f"{name}.state" for name in self.system.roles}
        for holder in self.system.holders.values():
            roots |= {f"{holder.name}.{d.name}" for d in holder.data.values() if d.explore is not None}
        for o in self.system.environment.values():
            roots |= {f"{_event(o.role, o.event)}.{name}" for name in o.fair_for_each}
        return _closure(self.of, roots)

    def influenced(self, name: str) -> frozenset[str]:
        """The nodes that a node may influence."""
        onto: defaultdict[str, set[str]] = defaultdict(set)
        for node, causes in self.of.items():
            for cause in causes:
                onto[cause].add(node)
        return _closure(onto, {name})

    def is_idle(self, role: Role, t: Transition, read: frozenset[str]) -> bool:
        """Returns whether a transition does nothing that a verdict depends on, and none depends on its being taken."""
        message = self.system.messages.get(t.event)
        if t.source != t.target or t.event == TICK or any(f"{u.holder(role.name)}.{u.name}" in read for u in t.updates):
            return False
        if message is None and self.system.ends is not None:
            return False  # it may be the one step that is left
        if message is not None and self.system.channel_of(message.name).waits:
            return False
        tasks = (role.tasks[name] for name in work_of(role, t))
        if any(isinstance(task, Drive) or (isinstance(task, Send) and task.message in read) for task in tasks):
            return False
        return not any(x.mentions(e, lambda part: _asks(part, role.name, t.event)) for e in self.claims())


def _asks(part: x.Expression, role: str, event: str) -> bool:
    """Returns whether it asks if machines of a role take an event, or would."""
    return isinstance(part, x.Took | x.Accepts) and part.role == role and part.event in (event, None)


def _event(role: str, event: str) -> str:
    return f"{role}#{event}"


def _closure(edges: Mapping[str, set[str]], roots: Iterable[str]) -> frozenset[str]:
    reached = set(roots)
    todo = list(reached)
    while todo:
        new = edges.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    return frozenset(reached)
