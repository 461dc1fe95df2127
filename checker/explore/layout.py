"""Where the parts of a global state lie in a flat tuple: the reference engine's memory map.

    per machine: control state, data ...     per channel and pair of machines: the messages on their way
    one cell per limited fault budget        the clock

A channel's cell holds a tuple of entries `(number, kind, fields)`; of a `set` a frozenset of them; of a `mailbox` the
pair (rank of the newest number sent, entries). See channels.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from leasehold.checker.explore import channels
from leasehold.spec.language.model import Channel, Role, System, machine_name
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


def with_element(cells: Any, key: int, value: Value) -> Any:
    """A map with another value at a position."""
    return (*cells[:key], value, *cells[key + 1 :]) if isinstance(cells, tuple) else cells.replaced(key, value)


@dataclass(frozen=True, slots=True)
class Lane:
    """One channel between two machines, and its cell."""

    channel: Channel
    sender: int
    receiver: int
    cell: int


class Layout:
    """Implements `leasehold.spec.language.python_source.Layout` for one system."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.first: dict[str, int] = {}
        self.stride: dict[str, int] = {}
        self.offset: dict[tuple[str, str | None], int] = {}
        position = 0
        for role in system.roles.values():
            self.first[role.name], self.stride[role.name] = position, 1 + len(role.data)
            self.offset[role.name, None] = 0
            for i, name in enumerate(role.data):
                self.offset[role.name, name] = 1 + i
            position += self.stride[role.name] * role.count
        self.lanes: list[Lane] = []
        for channel in system.channels.values():
            for sender in range(system.roles[channel.sender].count):
                for receiver in range(system.roles[channel.receiver].count):
                    if channel.same_index and sender != receiver:
                        continue
                    self.lanes.append(Lane(channel, sender, receiver, position))
                    position += 1
        self.budgets: dict[tuple[str, str], int] = {}
        for channel in system.channels.values():
            for fault in ("lose", "duplicate", "reorder"):
                if isinstance(budget := getattr(channel, fault), int) and budget > 0:
                    self.budgets[channel.name, fault] = position
                    position += 1
        self.clock: int | None = None
        if system.clock is not None:
            self.clock = position
            position += 1
        self.size = position

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

    def pending(self, name: str) -> list[str]:
        wanted = name in self.system.messages
        channel = self.system.channel_of(name) if wanted else self.system.channels[name]
        sources = []
        for lane in self.lanes:
            if lane.channel.name == channel.name:
                entries = f"{{s}}[{lane.cell}]" + ("[1]" if channel.kind == "mailbox" else "")
                sources.append(f"[q for q in {entries} if q[1] == {name!r}]" if wanted else entries)
        return sources

    def heard(self, name: str) -> str:
        mailbox = self.system.channels[name].kind == "mailbox"
        cells = [f"{{s}}[{lane.cell}]" for lane in self.lanes if lane.channel.name == name]
        return f"({' and '.join(f'{c}[0] <= 0' if mailbox else f'not {c}' for c in cells)})"

    def running(self, role: str, instance: str) -> str:
        return "True"

    def reachable(self, role: str, instance: str, other_role: str, other: str) -> str:
        return "True"

    def byzantine(self, role: str) -> bool:
        return False

    def own_clock(self, role: str, instance: int) -> str | None:
        """Source of the clock that a machine reads; `{s}` is the state. None: the one clock of all."""
        return None

    def field(self, kind: str, name: str) -> int:
        return [f.name for f in self.system.messages[kind].fields].index(name)

    # For people

    def lane_between(self, sender: str, i: int, receiver: str, j: int) -> Lane | None:
        for lane in self.lanes:
            if (lane.channel.sender, lane.sender, lane.channel.receiver, lane.receiver) == (sender, i, receiver, j):
                return lane
        return None

    def machines(self) -> Iterator[tuple[Role, int, str]]:
        for role, instance in self.system.machines():
            yield role, instance, machine_name(role, instance)

    def control(self, state: State) -> dict[str, str]:
        return {name: state[self.at(role.name, i, None)] for role, i, name in self.machines()}

    def data(self, state: State) -> dict[str, str]:
        return {
            f"{name}.{d.name}": show(d.type, state[self.at(role.name, i, d.name)])
            for role, i, name in self.machines()
            for d in role.data.values()
        }

    def messages(self, state: State) -> dict[str, tuple[str, ...]]:
        """Messages on their way, by `channel` or `channel[sender to receiver]`."""
        found = {}
        for lane in self.lanes:
            entries = channels.entries(lane.channel.kind, state[lane.cell])
            if entries:
                sender = machine_name(self.system.roles[lane.channel.sender], lane.sender)
                receiver = machine_name(self.system.roles[lane.channel.receiver], lane.receiver)
                shown = tuple(self._message(e) for e in entries)
                found[f"{lane.channel.name} ({sender} to {receiver})"] = shown
        return found

    def _message(self, entry: channels.Entry) -> str:
        number, kind, values = entry
        fields = self.system.messages[kind].fields
        words = ", ".join(f"{f.name}={show(f.type, v)}" for f, v in zip(fields, values, strict=True))
        return f"{kind}({words})" + (" again" if number == 0 else "")
