"""Names of the specification as names in Python, and where a record's fields lie."""

from __future__ import annotations

import builtins
import keyword
from dataclasses import dataclass

from leasehold.spec.language.model import Call, Role, System

TAKEN = frozenset(
    {
        "state", "sent", "received", "entry", "instance", "now", "fields", "neighbour", "number", "record", "work",
        "it", "found", "earliest",
        "sender", "numbered", "remembered", "made", "counted", "with_cell", "unmoved", "partial",
        "q",  # what stands for a long operand that is needed twice
    }
)  # fmt: skip


def safe(name: str) -> str:
    """A name that means nothing else within a generated function."""
    if name.startswith(("msg_", "event_")):
        return f"own_{name}"  # the others are fields of what is being consumed
    return f"{name}_" if keyword.iskeyword(name) or hasattr(builtins, name) or name in TAKEN else name


class GeneratedNames:
    """Names of generated functions and constants: what they are for, made unique."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], str] = {}
        self._used: set[str] = set()

    def function(self, *parts: str) -> str:
        """The function for a role, what it is for, and of what."""
        return self._name(parts, "__".join(p for p in parts if p))

    def constant(self, *parts: str) -> str:
        return self._name(("constant", *parts), "__".join(p for p in parts if p).upper())

    def _name(self, key: tuple[str, ...], wish: str) -> str:
        if key not in self._known:
            while wish in self._used:
                wish += "_"
            self._used.add(wish)
            self._known[key] = wish
        return self._known[key]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The machines that a machine talks with, in the order of the system; each has a sent and a received number.

    Attributes:
        first: by role, the position of its first machine.
        count: how many of that role; one where only machines of equal index talk.
        same_index: roles of which only the machine with the own index is a neighbour.
    """

    first: dict[str, int]
    count: dict[str, int]
    same_index: frozenset[str]

    @property
    def size(self) -> int:
        return sum(self.count.values())

    def names(self) -> tuple[tuple[str, int], ...]:
        """Role and index of each; -1 is the own index."""
        return tuple(
            (role, -1 if role in self.same_index else i) for role in self.first for i in range(self.count[role])
        )


def neighbours(system: System, role: Role) -> Neighbours:
    """The neighbours of a role's machines."""
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    same: set[str] = set()
    at = 0
    for other in system.roles.values():
        between = [c for c in system.channels.values() if {c.sender, c.receiver} == {role.name, other.name}]
        if other.name == role.name:
            between = [c for c in between if c.sender == c.receiver]
        if between:
            if all(c.same_index for c in between):
                same.add(other.name)
            first[other.name], count[other.name] = at, 1 if other.name in same else other.count
            at += count[other.name]
    return Neighbours(first, count, frozenset(same))


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a record, in order: state, data, numbers, subsidiaries.

    Attributes:
        data: the data fields, as Python names.
        since: for each task that may outlive its state, the field that says which entry began it.
        subsidiaries: for each subsidiary role, the field of its machines.
    """

    indexed: bool
    data: dict[str, str]
    since: dict[str, str]
    subsidiaries: dict[str, str]
    subsidiary: bool

    @property
    def fields(self) -> tuple[str, ...]:
        own = ("instance",) if self.indexed else ()
        numbers = () if self.subsidiary else ("sent", "received")
        below = self.subsidiaries.values()
        return ("state", *own, *self.data.values(), *numbers, "entry", *self.since.values(), *below)

    def at(self, name: str) -> int:
        return self.fields.index(name)


def shape(system: System, role: Role) -> Shape:
    """The shape of a role's records."""
    used: set[str] = set(TAKEN)

    def fresh(name: str) -> str:
        while name in used:
            name += "_"
        used.add(name)
        return name

    data = {name: fresh(safe(name)) for name in role.data}
    since = {t.name: fresh(f"since_{t.name}") for t in role.tasks.values() if isinstance(t, Call) and t.outlives}
    below = {r.name: fresh(f"{r.name}s") for r in system.roles.values() if r.parent == role.name}
    return Shape(role.indexed, data, since, below, role.parent is not None)
