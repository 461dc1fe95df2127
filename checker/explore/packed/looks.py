"""States that note what is read of them.

Theory of operation. The reference semantics and the claims are functions of a state. Run on a `Look` they give the same
answers, and the look notes which *atoms* were read, in order: a cell, one member of a set, one element of a map. What
a function does is settled by what it has read; so whatever other state agrees on these atoms has the same answer. The
notes of several runs make a decision tree: what is read first is always the same atom, what is read next is settled by
the first one's value, and so on. Nothing is said of how the functions are written: what does not go through the
methods below reads the whole state, which is slower and no less right.

A step writes to a `Draft` over a look. Sets and maps are read and written member by member: `cell | {member}` reads
nothing and writes one atom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from leasehold.checker.explore.packed.fields import Fields, MapCell, PlainCell, SetCell
from leasehold.spec.language.types import Value


class Look:
    """A state of which it is noted what is read.

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
            found = self._known[cell] = self.fields.books[place.atom].values[self.code(place.atom)]
            return found
        return SetLook(self, place, {}) if isinstance(place, SetCell) else MapLook(self, place, {})

    def __len__(self) -> int:
        return len(self.fields.cells)

    def __iter__(self) -> Iterator[Value]:
        return (plain(self[cell]) for cell in range(len(self)))

    def opened(self) -> Draft:
        return Draft(self, {})


class Draft:
    """A state that is being changed: a look, and what was written over it."""

    __slots__ = ("look", "written")

    def __init__(self, look: Look, written: dict[int, Any]) -> None:
        self.look, self.written = look, written

    def __getitem__(self, cell: Any) -> Any:
        if cell in self.written:
            return self.written[cell]
        return tuple(self)[cell] if isinstance(cell, slice) else self.look[cell]

    def __setitem__(self, cell: int, value: Any) -> None:
        self.written[cell] = value

    def __len__(self) -> int:
        return len(self.look)

    def __iter__(self) -> Iterator[Value]:
        return (plain(self[cell]) for cell in range(len(self)))

    def opened(self) -> Draft:
        return Draft(self.look, dict(self.written))


class SetLook:
    """A set of which it is noted which members were asked for; `changed` says which are in it, or not, by now."""

    __slots__ = ("changed", "look", "place")

    def __init__(self, look: Look, place: SetCell, changed: dict[Value, bool]) -> None:
        self.look, self.place, self.changed = look, place, changed

    def __contains__(self, member: Value) -> bool:
        known = self.changed.get(member)
        if known is not None:
            return known
        atom = self.place.atoms.get(member)
        return atom is not None and bool(self.look.code(atom))

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

    def __or__(self, other: Iterable[Value]) -> SetLook:
        return SetLook(self.look, self.place, {**self.changed, **dict.fromkeys(other, True)})

    __ror__ = __or__

    def __sub__(self, other: Iterable[Value]) -> SetLook:
        return SetLook(self.look, self.place, {**self.changed, **dict.fromkeys(other, False)})

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
    return other if isinstance(other, frozenset | set | SetLook) else None


class MapLook:
    """A map of which it is noted which elements were asked for; `changed` are those that have others by now."""

    __slots__ = ("changed", "look", "place")

    def __init__(self, look: Look, place: MapCell, changed: dict[int, Any]) -> None:
        self.look, self.place, self.changed = look, place, changed

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.whole()[key]
        if key in self.changed:
            return self.changed[key]
        atom = self.place.atoms[key]
        return self.look.fields.books[atom].values[self.look.code(atom)]

    def replaced(self, key: int, value: Any) -> MapLook:
        """The map with another value at a position."""
        return MapLook(self.look, self.place, {**self.changed, key: value})

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
            isinstance(other, tuple | MapLook)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )


def applied(look: Look, written: Iterable[tuple[int, int]]) -> Draft:
    """The state after a step that writes these atoms."""
    fields, new = look.fields, Draft(look, {})
    for atom, code in written:
        cell = fields.cell_of[atom]
        place = fields.cells[cell]
        if isinstance(place, PlainCell):
            new[cell] = fields.books[atom].values[code]
            continue
        old = new[cell]
        if isinstance(place, SetCell):
            member = next(m for m, a in place.atoms.items() if a == atom)
            new[cell] = SetLook(look, place, {**old.changed, member: bool(code)})
        else:
            new[cell] = old.replaced(place.atoms.index(atom), fields.books[atom].values[code])
    return new


def plain(value: Any) -> Value:
    """A value without looks in it."""
    if isinstance(value, SetLook | MapLook):
        return value.whole()
    return tuple([plain(v) for v in value]) if isinstance(value, tuple) else value


def writes(look: Look, after: Any) -> tuple[tuple[int, int], ...]:
    """The atoms that a step writes, with their codes: what is known to be as it was is left out.

    `after` is a draft over the look or, where a step was not made by one, a whole state.
    """
    written = after.written if isinstance(after, Draft) else dict(enumerate(after))
    found: dict[int, int] = {}
    for cell, value in written.items():
        _write(look, cell, value, found)
    return tuple(sorted((a, c) for a, c in found.items() if look.codes.get(a) != c))


def _write(look: Look, cell: int, value: Any, found: dict[int, int]) -> None:
    place, books = look.fields.cells[cell], look.fields.books
    if isinstance(place, PlainCell):
        found[place.atom] = books[place.atom].code(plain(value))
    elif isinstance(place, SetCell):
        own = isinstance(value, SetLook) and value.place is place
        for member, atom in place.atoms.items():
            if not own or member in value.changed:
                found[atom] = int(member in value)
        others = value.changed if own else value
        if any(member not in place.atoms for member in others if not own or value.changed[member]):
            raise AssertionError(f"cell {cell} is given a member that its type does not have")
    else:
        own = isinstance(value, MapLook) and value.place is place
        for key, atom in enumerate(place.atoms):
            if not own or key in value.changed:
                found[atom] = books[atom].code(plain(value[key]))
