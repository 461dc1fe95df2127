"""States that record which parts of them are read.

Theory of operation. The reference semantics and the claims are functions of a state. Run on a `TracedState` they return
the same, and the traced state records which *atoms* were read, in order: a cell, one member of a set, one element of a
map. The result of a function depends only on what it has read; so every other state that agrees on these atoms has the
same result. The records of several runs make a decision tree: the first atom read is always the same, the next one
depends on the first one's value, and so on. How the functions are written does not matter: what does not go through the
methods below reads the whole state, which is slower and still right.

A step writes to a `Draft` over a traced state. Sets and maps are read and written member by member: `cell | {member}`
reads nothing and writes one atom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from leasehold.checker.explore.packed.fields import Fields, MapCell, PlainCell, SetCell
from leasehold.spec.language.types import Value


class TracedState:
    """A state that records what is read of it.

    Attributes:
        codes: by atom, what was read; in the order of reading.
    """

    __slots__ = ("_known", "_raw", "codes", "fields")

    def __init__(self, fields: Fields, raw: Callable[[int], int]) -> None:
        self.fields, self._raw = fields, raw
        self.codes: dict[int, int] = {}
        self._known: dict[int, Any] = {}

    def code(self, atom: int) -> int:
        """Reads an atom."""
        found = self.codes.get(atom)
        if found is None:
            found = self.codes[atom] = self._raw(atom)
        return found

    def __getitem__(self, cell: Any) -> Any:
        if cell in self._known:
            return self._known[cell]
        if isinstance(cell, slice):
            return tuple(self)[cell]
        place = self.fields.cells[cell]
        if isinstance(place, PlainCell):
            found = self._known[cell] = self.fields.numberings[place.atom].values[self.code(place.atom)]
            return found
        return TracedSet(self, place, {}) if isinstance(place, SetCell) else TracedMap(self, place, {})

    def __len__(self) -> int:
        return len(self.fields.cells)

    def __iter__(self) -> Iterator[Value]:
        return (plain(self[cell]) for cell in range(len(self)))

    def opened(self) -> Draft:
        return Draft(self, {})


class Draft:
    """A state that is being changed: a traced state, and what was written over it."""

    __slots__ = ("traced", "written")

    def __init__(self, traced: TracedState, written: dict[int, Any]) -> None:
        self.traced, self.written = traced, written

    def __getitem__(self, cell: Any) -> Any:
        if cell in self.written:
            return self.written[cell]
        return tuple(self)[cell] if isinstance(cell, slice) else self.traced[cell]

    def __setitem__(self, cell: int, value: Any) -> None:
        self.written[cell] = value

    def __len__(self) -> int:
        return len(self.traced)

    def __iter__(self) -> Iterator[Value]:
        return (plain(self[cell]) for cell in range(len(self)))

    def opened(self) -> Draft:
        return Draft(self.traced, dict(self.written))


class TracedSet:
    """A set that records which members were asked for; `changed` says which are in it, or not, by now."""

    __slots__ = ("changed", "place", "traced")

    def __init__(self, traced: TracedState, place: SetCell, changed: dict[Value, bool]) -> None:
        self.traced, self.place, self.changed = traced, place, changed

    def __contains__(self, member: Value) -> bool:
        known = self.changed.get(member)
        if known is not None:
            return known
        atom = self.place.atoms.get(member)
        return atom is not None and bool(self.traced.code(atom))

    def __iter__(self) -> Iterator[Value]:
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())

    def __bool__(self) -> bool:
        return any(member in self for member in self.place.atoms)

    def __hash__(self) -> int:
        return hash(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())

    def whole(self) -> frozenset[Value]:
        return frozenset(member for member in self.place.atoms if member in self)

    def __or__(self, other: Iterable[Value]) -> TracedSet:
        return TracedSet(self.traced, self.place, {**self.changed, **dict.fromkeys(other, True)})

    __ror__ = __or__

    def __sub__(self, other: Iterable[Value]) -> TracedSet:
        return TracedSet(self.traced, self.place, {**self.changed, **dict.fromkeys(other, False)})

    def __rsub__(self, other: Iterable[Value]) -> frozenset[Value]:
        return frozenset(member for member in other if member not in self)

    def __and__(self, other: Iterable[Value]) -> frozenset[Value]:
        return frozenset(member for member in other if member in self)

    __rand__ = __and__

    def __eq__(self, other: object) -> bool:
        mine, theirs = self.place.atoms, _members(other)
        return theirs is not None and all((m in self) == (m in theirs) for m in mine) and all(m in mine for m in theirs)

    def __le__(self, other: Any) -> bool:
        return all(member in other for member in self.place.atoms if member in self)

    def __ge__(self, other: Any) -> bool:
        return all(member in self for member in other)

    def __lt__(self, other: Any) -> bool:
        return self.whole() < frozenset(other)

    def __gt__(self, other: Any) -> bool:
        return self.whole() > frozenset(other)


def _members(other: object) -> Any:
    return other if isinstance(other, frozenset | set | TracedSet) else None


class TracedMap:
    """A map that records which elements were asked for; `changed` has the elements that were replaced."""

    __slots__ = ("changed", "place", "traced")

    def __init__(self, traced: TracedState, place: MapCell, changed: dict[int, Any]) -> None:
        self.traced, self.place, self.changed = traced, place, changed

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.whole()[key]
        if key in self.changed:
            return self.changed[key]
        atom = self.place.atoms[key]
        return self.traced.fields.numberings[atom].values[self.traced.code(atom)]

    def replaced(self, key: int, value: Any) -> TracedMap:
        """The map with another value at a position."""
        return TracedMap(self.traced, self.place, {**self.changed, key: value})

    def __len__(self) -> int:
        return len(self.place.atoms)

    def __iter__(self) -> Iterator[Value]:
        return (self[key] for key in range(len(self)))

    def __hash__(self) -> int:
        return hash(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())

    def whole(self) -> tuple[Value, ...]:
        return tuple(plain(value) for value in self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, tuple | TracedMap)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )


def applied(traced: TracedState, written: Iterable[tuple[int, int]]) -> Draft:
    """The state after a step that writes these atoms."""
    fields, new = traced.fields, Draft(traced, {})
    for atom, code in written:
        cell = fields.cell_of[atom]
        place = fields.cells[cell]
        if isinstance(place, PlainCell):
            new[cell] = fields.numberings[atom].values[code]
            continue
        old = new[cell]
        if isinstance(place, SetCell):
            member = next(m for m, a in place.atoms.items() if a == atom)
            new[cell] = TracedSet(traced, place, {**old.changed, member: bool(code)})
        else:
            new[cell] = old.replaced(place.atoms.index(atom), fields.numberings[atom].values[code])
    return new


def plain(value: Any) -> Value:
    """A value without traced sets and maps in it."""
    if isinstance(value, TracedSet | TracedMap):
        return value.whole()
    return tuple([plain(v) for v in value]) if isinstance(value, tuple) else value


def writes(traced: TracedState, after: Any) -> tuple[tuple[int, int], ...]:
    """The atoms that a step writes, with their codes: what is known to be as it was is left out.

    `after` is a draft over the traced state or, where a step was not made by one, a whole state.
    """
    written = after.written if isinstance(after, Draft) else dict(enumerate(after))
    found: dict[int, int] = {}
    for cell, value in written.items():
        _write(traced, cell, value, found)
    return tuple(sorted((a, c) for a, c in found.items() if traced.codes.get(a) != c))


def _write(traced: TracedState, cell: int, value: Any, found: dict[int, int]) -> None:
    place, numberings = traced.fields.cells[cell], traced.fields.numberings
    if isinstance(place, PlainCell):
        found[place.atom] = numberings[place.atom].code(plain(value))
    elif isinstance(place, SetCell):
        own = isinstance(value, TracedSet) and value.place is place
        for member, atom in place.atoms.items():
            if not own or member in value.changed:
                found[atom] = int(member in value)
        others = value.changed if own else value
        if any(member not in place.atoms for member in others if not own or value.changed[member]):
            raise AssertionError(f"cell {cell} is given a member that its type does not have")
    else:
        own = isinstance(value, TracedMap) and value.place is place
        for key, atom in enumerate(place.atoms):
            if not own or key in value.changed:
                found[atom] = numberings[atom].code(plain(value[key]))
