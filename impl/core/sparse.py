"""Values of maps over the machines of a dynamic role, as runs have them.

Theory of operation. Nobody knows how many machines such a role has, so a map has one value for all machines of which
nothing has been heard (`rest`), and entries for others. An entry that comes to have that value is dropped: equal maps
have equal entries, in memory, in records and in messages. The model has the same map as a tuple of its few machines'
values; `cells` is that tuple.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from leasehold.spec.language import types as t


class Sparse(dict[int, Any]):
    """The entries of a map, by number of the machine: an immutable value, which what changes it makes anew."""

    __slots__ = ("rest",)

    def __init__(self, rest: t.Value, entries: Iterable[tuple[int, t.Value]] = ()) -> None:
        super().__init__((key, value) for key, value in entries if value != rest)
        self.rest = rest

    def __missing__(self, key: int) -> t.Value:
        return self.rest

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"Sparse({self.rest!r}, {sorted(self.items())!r})"

    def changed(self, key: int, value: t.Value) -> Sparse:
        """The map after one cell was set."""
        return Sparse(self.rest, ({**self, key: value}).items())

    def cells(self, count: int) -> tuple[t.Value, ...]:
        """The values of the first machines."""
        return tuple([self[number] for number in range(count)])


def modelled(kind: t.Type, value: t.Value) -> t.Value:
    """A value of a run as the model has it, which has a value for each of its machines."""
    return value.cells(len(t.members(kind.key))) if isinstance(kind, t.SparseMap) else value


def modelled_fields(kinds: Iterable[tuple[str, t.Type]], values: Iterable[t.Value]) -> tuple[t.Value, ...]:
    """The fields of an event or a message as the model has them."""
    return tuple([modelled(kind, value) for (_, kind), value in zip(kinds, values, strict=True)])


def as_run(kind: t.Type, value: t.Value) -> t.Value:
    """A value of the model as a run has it."""
    return Sparse(kind.rest, enumerate(value)) if isinstance(kind, t.SparseMap) else value
