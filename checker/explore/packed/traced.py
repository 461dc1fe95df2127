"""States that record which parts of them are read.

Theory of operation. The reference semantics and the claims are functions of a state. Run on a `TracedState` they return
the same, and the traced state records which *atoms* were read, in order: a cell, one member of a set, one element of a
map. The result of a function depends only on what it has read; so every other state that agrees on these atoms has the
same result. The records of several runs make a decision tree: the first atom read is always the same, the next one
depends on the first one's value, and so on. How the functions are written does not matter: what does not go through the
methods below reads the whole state, which is slower and still right.

A step writes to a `StateDraft` over a traced state. Sets and maps are read and written member by member:
`cell | {member}` reads nothing and writes one atom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from leasehold.checker.explore.packed.fields import CellAtoms, Fields, MapCell, PlainCell, SetCell
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

    def part(self, atom: int) -> Value:
        """The value of an atom."""
        return self.fields.numberings[atom].values[self.code(atom)]

    def __getitem__(self, cell: Any) -> Any:
        if cell in self._known:
            return self._known[cell]
        if isinstance(cell, slice):
            return tuple(self)[cell]
        place = self.fields.cells[cell]
        match place:
            case SetCell():
                return TracedSet(self, place, {})
            case MapCell():
                return TracedMap(self, place, {})
        found = self._known[cell] = self.part(place.atoms[None])
        return found

    def __len__(self) -> int:
        return len(self.fields.cells)

    def __iter__(self) -> Iterator[Value]:
        return (plain(self[cell]) for cell in range(len(self)))

    def opened(self) -> StateDraft:
        return StateDraft(self, {})


class StateDraft:
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

    def opened(self) -> StateDraft:
        return StateDraft(self.traced, dict(self.written))


class _TracedParts:
    """A value of several atoms that records which of them were read; `changed` has the parts that were written."""

    __slots__ = ("changed", "place", "traced")

    def __init__(self, traced: TracedState, place: CellAtoms, changed: dict[Any, Any]) -> None:
        self.traced, self.place, self.changed = traced, place, changed

    def part(self, key: Any) -> Any:
        """A part, by its key in `place.atoms`."""
        return self.changed[key] if key in self.changed else self.traced.part(self.place.atoms[key])

    def replaced(self, key: Any, value: Any) -> Self:
        """The same with another part."""
        return type(self)(self.traced, self.place, {**self.changed, key: value})

    def whole(self) -> Any:
        """The value, of which every part is read."""
        return self.place.whole([plain(self.part(key)) for key in self.place.atoms])

    def __len__(self) -> int:
        return len(self.whole())

    def __iter__(self) -> Iterator[Value]:
        return iter(self.whole())

    def __hash__(self) -> int:
        return hash(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())


class TracedSet(_TracedParts):
    """A set that records which members were asked for."""

    __slots__ = ()

    def __contains__(self, member: Value) -> bool:
        known = member in self.changed or member in self.place.atoms
        return known and bool(self.part(member))

    def __bool__(self) -> bool:
        return any(member in self for member in self.place.atoms)

    __hash__ = _TracedParts.__hash__  # which a class that defines `==` loses

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
        return frozenset(self) < frozenset(other)

    def __gt__(self, other: Any) -> bool:
        return frozenset(self) > frozenset(other)


def _members(other: object) -> Any:
    return other if isinstance(other, frozenset | set | TracedSet) else None


class TracedMap(_TracedParts):
    """A map that records which elements were asked for."""

    __slots__ = ()
    __hash__ = _TracedParts.__hash__

    def __getitem__(self, key: Any) -> Any:
        return self.whole()[key] if isinstance(key, slice) else self.part(key)

    def __len__(self) -> int:
        return len(self.place.atoms)

    def __iter__(self) -> Iterator[Value]:
        return (self[key] for key in self.place.atoms)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, tuple | TracedMap)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )


def applied(traced: TracedState, written: Iterable[tuple[int, int]]) -> StateDraft:
    """The state after a step that writes these atoms."""
    fields, new = traced.fields, StateDraft(traced, {})
    for atom, code in written:
        cell = fields.cell_of[atom]
        place, value = fields.cells[cell], fields.numberings[atom].values[code]
        key = next(key for key, at in place.atoms.items() if at == atom)
        new[cell] = value if isinstance(place, PlainCell) else new[cell].replaced(key, value)
    return new


def plain(value: Any) -> Value:
    """A value without traced sets and maps in it."""
    if isinstance(value, _TracedParts):
        return value.whole()
    return tuple([plain(v) for v in value]) if isinstance(value, tuple) else value


def writes(traced: TracedState, after: Any) -> tuple[tuple[int, int], ...]:
    """The atoms that a step writes, with their codes: what is known to be as it was is left out.

    `after` is a draft over the traced state or, where a step was not made by one, a whole state.
    """
    written = after.written if isinstance(after, StateDraft) else dict(enumerate(after))
    found: dict[int, int] = {}
    for cell, value in written.items():
        _write(traced, cell, value, found)
    return tuple(sorted((a, c) for a, c in found.items() if traced.codes.get(a) != c))


def _write(traced: TracedState, cell: int, value: Any, found: dict[int, int]) -> None:
    place, numberings = traced.fields.cells[cell], traced.fields.numberings
    own = isinstance(value, _TracedParts) and value.place is place
    for key, atom in place.atoms.items():
        if not own or key in value.changed:
            found[atom] = numberings[atom].code(plain(place.part(value, key)))
    if isinstance(place, SetCell):
        others = value.changed if own else value
        if any(member not in place.atoms for member in others if not own or value.changed[member]):
            raise AssertionError(f"cell {cell} is given a member that its type does not have")
