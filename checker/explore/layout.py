"""The layout of the parts of a global state in a flat tuple: the reference's memory map.

    per machine: control state, data ...     shared variables
    per channel and pair of machines: the messages on their way     per limited fault of a channel: what is left
    the clock     what faults add: `up` of each actor, ...

A channel's cell holds a tuple of entries `(number, kind, fields)`; of a `set` a frozenset of them; of a `mailbox` the
pair (rank of the newest number sent, entries). See channels.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.checker.explore import channels
from leasehold.spec.language.lower import Machine, ModelActor, Relation, Variable
from leasehold.spec.language.model import CHANNEL_FAULTS, Channel, Role, machine_name
from leasehold.spec.language.render.python_source import SourceLayout
from leasehold.spec.language.types import Value, show

State = tuple[Value, ...]


def opened(s: Any) -> Any:
    """A copy of a state, or of one that is being changed, that can be changed."""
    return list(s) if isinstance(s, tuple | list) else s.opened()


def closed(new: Any) -> State:
    """The state that has become of an opened one."""
    return tuple(new) if isinstance(new, list) else new


def with_cell(s: State, cell: int, value: Value) -> State:
    """The state with another value in one cell."""
    new = opened(s)
    new[cell] = value
    return closed(new)


def with_element(cells: Any, key: int, value: Any) -> Any:
    """A map with another value at a position."""
    return (*cells[:key], value, *cells[key + 1 :]) if isinstance(cells, tuple) else cells.replaced(key, value)


@dataclass(frozen=True, slots=True)
class Lane:
    """One channel between two machines, and its cell."""

    channel: Channel
    sender: int
    receiver: int
    cell: int


class Layout(SourceLayout):
    """The layout of one lowered form.

    Attributes:
        base: the number of cells that the system has without faults; they come first.
        of: by machine, its actor.
        added: by variable and key, the cells that faults add.
        groups: by the name of a crash, the actors that it stops.
        lines: by cell of a lane of a queue, the lanes of the line that it is part of.
    """

    def __init__(self, relation: Relation) -> None:
        system = relation.system
        self.relation, self.system = relation, system
        self.size = 0
        self.first: dict[str, int] = {}
        self.stride: dict[str, int] = {}
        self.offset: dict[tuple[str, str | None], int] = {}
        for role in system.holders.values():
            fields = [*([None] if role.states else []), *role.data]
            self.stride[role.name] = len(fields)
            self.first[role.name] = self._cells(len(fields) * role.count)
            self.offset |= {(role.name, name): i for i, name in enumerate(fields)}
        self.lanes = [
            Lane(channel, sender, receiver, self._cells(1))
            for channel in system.channels.values()
            for sender in range(system.roles[channel.sender].count)
            for receiver in range(system.roles[channel.receiver].count)
            if not channel.same_index or sender == receiver
        ]
        self.lines = {
            lane.cell: tuple([o for o in self.lanes if (o.channel, o.receiver) == (lane.channel, lane.receiver)])
            for lane in self.lanes
            if lane.channel.kind == "queue"
        }
        self._lanes = {(lane.channel.name, lane.sender, lane.receiver): lane for lane in self.lanes}
        self.budgets = {
            (channel.name, fault): self._cells(1)
            for channel in system.channels.values()
            for fault in CHANNEL_FAULTS
            if isinstance(budget := getattr(channel, fault), int) and budget > 0
        }
        self.clock = self._cells(1) if system.clock is not None else None
        self.base = self.size
        self.actors = relation.actors
        self.of: dict[tuple[str, int], ModelActor] = {m: actor for actor in self.actors for m in actor.machines}
        self.traitor = relation.byzantine
        self.added = {(v.name, key): self._cells(1) for v in relation.variables for key in v.keys}
        self.lead = {key: self.added[v.name, key] for v in relation.variables if v.leads for key in v.keys}
        self.phase = {key: at for (name, key), at in self.added.items() if name == "phase"}
        self.known = {key: at for (name, key), at in self.added.items() if name == "known"}
        self.up = {key: at for (name, key), at in self.added.items() if name == "up"}

    def _cells(self, count: int) -> int:
        """The first of so many new cells."""
        self.size += count
        return self.size - count

    def initial(self) -> list[Value]:
        """The first values of the cells that faults add."""
        return [v.initial for v in self.relation.variables for _ in v.keys]

    def stopping(self, actor: ModelActor) -> list[tuple[int, Variable]]:
        """Cells that say whether the machines of an actor take steps."""
        return [(self.added[v.name, actor.name], v) for v in self.relation.variables if v.stops]

    def separating(self, one: ModelActor, other: ModelActor) -> list[tuple[int, tuple[Value, ...]]]:
        """Cells, and their values while which messages between two actors wait."""
        pair = frozenset((one.name, other.name))
        return [
            (self.added[v.name, ""], tuple(value for value, pairs in v.separates.items() if pair in pairs))
            for v in self.relation.variables
            if v.separates
        ]

    # For python_source

    def place(self, role: str, name: str | None, instance: str | None) -> str:
        assert instance is not None
        first, stride = self.first[role] + self.offset[role, name], self.stride[role]
        if instance.isdigit():
            return f"{{s}}[{first + stride * int(instance)}]"
        return f"{{s}}[{first} + {stride} * {instance}]"

    def at(self, role: str, instance: int, name: str | None) -> int:
        return self.first[role] + self.offset[role, name] + self.stride[role] * instance

    def now(self) -> str:
        assert self.clock is not None
        return f"{{s}}[{self.clock}]"

    def own_clock(self, role: str, instance: int) -> str | None:
        """Source of the clock that a machine reads; `{s}` is the state. None: the one clock of all."""
        lead = self.lead.get(self.of[role, instance].name)
        return None if lead is None else f"{self.now()} + {{s}}[{lead}]"

    def pending(self, name: str, beside: Sequence[str] = ()) -> list[str]:
        only = f" if q[1] == {name!r}" if name in self.system.messages else ""
        sources = []
        for lane in self._carrying(name):
            cell, kind = f"{{s}}[{lane.cell}]", lane.channel.kind
            entries = f"{cell}[1]" if kind == "mailbox" else cell
            entry = "(1, *q[1:])" if kind == "queue" else "q"  # equal messages may stand at two places
            if not beside:
                sources.append(f"[{entry} for q in {entries}{only}]" if only or kind == "queue" else entries)
                continue
            texts = {
                "number": "n" if kind == "fifo" else "q[0]",
                "latest": f"q[0] == {cell}[0]",
                "sender": str(lane.sender),
                "receiver": str(lane.receiver),
            }
            each = f"n, q in enumerate({entries}, 1)" if kind == "fifo" and "number" in beside else f"q in {entries}"
            sources.append(f"[({', '.join((entry, *(texts[word] for word in beside)))}) for {each}{only}]")
        if name in self.known:  # what was received once is no message of a lane
            texts = {"number": "1", "latest": "False", "sender": "0", "receiver": "0"}
            entry = ", ".join((f"(1, {name!r}, f)", *(texts[word] for word in beside)))
            sources.append(f"tuple(({entry}) for f in {{s}}[{self.known[name]}])")
        return sources

    def _carrying(self, name: str) -> list[Lane]:
        """The lanes of a channel, or of the one that carries a message."""
        channel = self.system.channels.get(name) or self.system.channel_of(name)
        return [lane for lane in self.lanes if lane.channel.name == channel.name]

    def query(self, name: str, arguments: Sequence[str]) -> str:
        queries: dict[str, Callable[..., str]] = {
            "heard": self._heard,
            "running": self._running,
            "reachable": self._reachable,
            "byzantine": self._byzantine,
        }
        return queries[name](*arguments)

    def _heard(self, name: str, role: str = "", instance: str = "") -> str:
        mailbox = self.system.channels[name].kind == "mailbox"

        def of(lanes: Iterable[Lane]) -> str:
            cells = [f"{{s}}[{lane.cell}]" for lane in lanes]
            return f"({' and '.join(f'{c}[0] <= 0' if mailbox else f'not {c}' for c in cells)})"

        lanes = [lane for lane in self.lanes if lane.channel.name == name]
        if not role:
            return of(lanes)
        every = range(self.system.roles[role].count)
        its = [of(lane for lane in lanes if Machine(role, i) in self.ends(lane)) for i in every]
        return its[int(instance)] if instance.isdigit() else f"({', '.join(its)},)[{instance}]"

    def _running(self, role: str, instance: str) -> str:
        everyone = [self.of[role, i] for i in range(self.system.roles[role].count)]
        tests = []
        for v in (v for v in self.relation.variables if v.stops):
            cells = tuple(self.added[v.name, actor.name] for actor in everyone)
            at = str(cells[int(instance)]) if instance.isdigit() else f"{cells!r}[{instance}]"
            tests.append(f"{{s}}[{at}] not in {v.stops!r}")
        if traitors := [i for i, actor in enumerate(everyone) if actor is self.traitor]:
            tests.append(f"{instance} not in {traitors!r}")
        return f"({' and '.join(tests)})" if tests else "True"

    def _reachable(self, role: str, instance: str, other_role: str, other: str) -> str:
        def table(v: Variable) -> tuple[tuple[tuple[Value, ...], ...], ...]:
            return tuple(
                tuple(
                    dict(self.separating(self.of[role, i], self.of[other_role, j]))[self.added[v.name, ""]]
                    for j in range(self.system.roles[other_role].count)
                )
                for i in range(self.system.roles[role].count)
            )

        tests = [
            f"{{s}}[{self.added[v.name, '']}] not in {table(v)!r}[{instance}][{other}]"
            for v in self.relation.variables
            if v.separates
        ]
        return f"({' and '.join(tests)})" if tests else "True"

    def _byzantine(self, role: str) -> str:
        return repr(self.traitor is not None and any(m.role == role for m in self.traitor.machines))

    def field(self, kind: str, name: str) -> int:
        return [f.name for f in self.system.messages[kind].fields].index(name)

    def lane(self, channel: str, sender: int, receiver: int) -> Lane | None:
        """The lane of a channel between two instances; None where it does not join these two."""
        return self._lanes.get((channel, sender, receiver))

    # For people

    def ends(self, lane: Lane) -> tuple[Machine, Machine]:
        """The machines that a lane joins: its sender, and its receiver."""
        return Machine(lane.channel.sender, lane.sender), Machine(lane.channel.receiver, lane.receiver)

    def machines(self) -> Iterator[tuple[Role, int, str]]:
        for role, instance in self.system.machines():
            yield role, instance, machine_name(role, instance)

    def control(self, state: State) -> dict[str, str]:
        return {name: state[self.at(role.name, i, None)] for role, i, name in self.machines()}

    def data(self, state: State) -> dict[str, str]:
        """The data of machines, as `broker.units`, and shared variables, as `shared.free`."""
        return {
            f"{machine_name(role, i)}.{d.name}": show(d.type, state[self.at(role.name, i, d.name)])
            for role, i in self.system.records()
            for d in role.data.values()
        }

    def messages(self, state: State) -> dict[str, tuple[str, ...]]:
        """Messages on their way, by `channel` or `channel[sender to receiver]`."""
        messages = {}
        for lane in self.lanes:
            entries = channels.entries(lane.channel.kind, state[lane.cell])
            if entries:
                sender = machine_name(self.system.roles[lane.channel.sender], lane.sender)
                receiver = machine_name(self.system.roles[lane.channel.receiver], lane.receiver)
                queued = lane.channel.kind == "queue"
                shown = tuple(f"{e[0]}. " * queued + self._message(e) for e in entries)
                messages[f"{lane.channel.name} ({sender} to {receiver})"] = shown
        return messages

    def _message(self, entry: channels.Entry) -> str:
        number, kind, values = entry
        fields = self.system.messages[kind].fields
        arguments = ", ".join(f"{f.name}={show(f.type, v)}" for f, v in zip(fields, values, strict=True))
        return f"{kind}({arguments})" + (" again" if number == 0 else "")
