"""States that record which parts of them are read.

Theory of operation. The reference semantics and the claims are functions of a state. Run on a `TracedState` they return
the same, and the traced state records which *atoms* were read, in order: a cell, one member of a set, one element of a
map. The result of a function depends only on what it has read; so every other state that agrees on these atoms has the
same result. The records of several runs make a decision tree: the first atom read is always the same, the next one
depends on the first one's value, and so on. How the functions are written does not matter: what does not go through the
methods below reads the whole state, which is slower and still right.

A step writes to a `StateDraft` over a traced state. Sets and maps are read and written member by member:
`cell | {member}` reads nothing and writes one atom, and `{member} & (cell | other) == {}` reads two at most. What is
asked of sets is asked in the order of their atoms, as equal sets may list their members in different orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

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
        code = self.codes.get(atom)
        if code is None:
            code = self.codes[atom] = self._raw(atom)
        return code

    def part(self, atom: int) -> Value:
        """The value of an atom."""
        code = self.codes.get(atom)
        if code is None:
            code = self.codes[atom] = self._raw(atom)
        return self.fields.numberings[atom].values[code]

    def __getitem__(self, cell: Any) -> Any:
        if isinstance(cell, slice):
            return tuple(self)[cell]
        try:
            return self._known[cell]
        except KeyError:
            value = self._known[cell] = self.at(self.fields.cells[cell])
            return value

    def at(self, place: CellAtoms) -> Any:
        """The value of some atoms; of several, one that reads them when it is asked."""
        if isinstance(place, PlainCell):  # most are
            return self.part(place.atoms[None])
        match place:
            case SetCell():
                return TracedSet(self, place, {})
            case MapCell():
                return TracedMap(self, place, {})
        raise TypeError(f"{place!r} has no value")

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


class LazySet:
    """A set that is worked out member by member, as far as it is asked for.

    Attributes:
        among: what may be in it, in the order in which it is asked for; the keys.
    """

    __slots__ = ("_has", "among")

    def __init__(self, among: Mapping[Value, object], has: Callable[[Value], bool]) -> None:
        self.among, self._has = among, has

    def __contains__(self, member: Value) -> bool:
        return member in self.among and self._has(member)

    def __bool__(self) -> bool:
        return any(member in self for member in self.among)

    def __iter__(self) -> Iterator[Value]:
        return (member for member in self.among if member in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def whole(self) -> frozenset[Value]:
        """The value, of which every member is asked for."""
        return frozenset(self)

    def __hash__(self) -> int:
        return hash(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())

    def _with(self, other: Any) -> list[Value]:
        """Returns what may be in this set or in another, in an order that does not depend on how that was made."""
        more = [member for member in _among(other) if member not in self.among]
        return [*self.among, *(sorted(more, key=repr) if isinstance(other, frozenset | set) else more)]

    def __or__(self, other: Any) -> LazySet:
        return LazySet(dict.fromkeys(self._with(other)), lambda member: member in self or member in other)

    __ror__ = __or__

    def __and__(self, other: Any) -> LazySet:
        return LazySet(self.among, lambda member: member in other and member in self)

    __rand__ = __and__

    def __sub__(self, other: Any) -> LazySet:
        return LazySet(self.among, lambda member: member not in other and member in self)

    def __rsub__(self, other: Any) -> LazySet:
        return LazySet(dict.fromkeys(sorted(other, key=repr)), lambda member: member not in self)

    def __eq__(self, other: object) -> bool:
        return _is_set(other) and all((m in other) == (m in self) for m in self._with(other))

    def __le__(self, other: Any) -> bool:
        return all(member in other or member not in self for member in self.among)

    def __ge__(self, other: Any) -> bool:
        return all(member not in other or member in self for member in self._with(other))

    def __lt__(self, other: Any) -> bool:
        return self <= other and not self == other

    def __gt__(self, other: Any) -> bool:
        return self >= other and not self == other


def _is_set(value: object) -> TypeGuard[frozenset[Value] | LazySet]:
    return isinstance(value, frozenset | set | LazySet)


def _among(some: Any) -> Iterable[Value]:
    members: Iterable[Value] = some.among if isinstance(some, LazySet) else some
    return members


class TracedSet(LazySet):
    """A set in a state that records which members were asked for; `changed`: what was put in (True) or taken out."""

    __slots__ = ("changed", "place", "traced")

    def __init__(self, traced: TracedState, place: CellAtoms, changed: dict[Value, bool]) -> None:
        super().__init__({**place.atoms, **changed} if changed else place.atoms, self._is_member)
        self.traced, self.place, self.changed = traced, place, changed

    def _is_member(self, member: Value) -> bool:
        present = self.changed[member] if member in self.changed else self.traced.part(self.place.atoms[member])
        return bool(present)

    def replaced(self, member: Value, value: bool) -> TracedSet:
        """The same with a member put in or taken out."""
        return TracedSet(self.traced, self.place, {**self.changed, member: value})

    def __or__(self, other: Any) -> LazySet:
        if isinstance(other, LazySet):
            return super().__or__(other)
        return TracedSet(self.traced, self.place, {**self.changed, **dict.fromkeys(other, True)})

    __ror__ = __or__

    def __sub__(self, other: Any) -> LazySet:
        if isinstance(other, LazySet):
            return super().__sub__(other)
        return TracedSet(self.traced, self.place, {**self.changed, **dict.fromkeys(other, False)})


class TracedMap:
    """A map in a state that records which elements were asked for; `changed` has those that were written."""

    __slots__ = ("changed", "place", "traced")

    def __init__(self, traced: TracedState, place: MapCell, changed: dict[int, Any]) -> None:
        self.traced, self.place, self.changed = traced, place, changed

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.whole()[key]
        return self.changed[key] if key in self.changed else self.traced.at(self.place.elements[key])

    def replaced(self, key: int, value: Any) -> TracedMap:
        """The same with another element."""
        return TracedMap(self.traced, self.place, {**self.changed, key: value})

    def whole(self) -> tuple[Value, ...]:
        """The value, of which every part is read."""
        return tuple([plain(element) for element in self])

    def __len__(self) -> int:
        return len(self.place.elements)

    def __iter__(self) -> Iterator[Any]:
        return (self[key] for key in range(len(self)))

    def __hash__(self) -> int:
        return hash(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())

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
        place = fields.cells[cell]
        key = next(key for key, at in place.atoms.items() if at == atom)
        new[cell] = _replaced(new, cell, place, key, fields.numberings[atom].values[code])
    return new


def _replaced(of: Any, at: int, place: CellAtoms, key: Any, part: Value) -> Any:
    """The value of some atoms in a state or map with another part; a value that is replaced as a whole is not read."""
    match place:
        case SetCell():
            return of[at].replaced(key, part)
        case MapCell(elements=elements):
            position, inner = key
            return of[at].replaced(position, _replaced(of[at], position, elements[position], inner, part))
    return part


def plain(value: Any) -> Value:
    """A value without traced sets and maps in it."""
    if isinstance(value, LazySet | TracedMap):
        return value.whole()
    return tuple([plain(v) for v in value]) if isinstance(value, tuple) else value


def writes(traced: TracedState, after: Any) -> tuple[tuple[int, int], ...]:
    """The atoms that a step writes, with their codes: what is known to be as it was is left out.

    `after` is a draft over the traced state or, where a step was not made by one, a whole state.
    """
    written = after.written if isinstance(after, StateDraft) else dict(enumerate(after))
    codes: dict[int, int] = {}
    for cell, value in written.items():
        _write(traced.fields, traced.fields.cells[cell], value, codes)
    return tuple(sorted((a, c) for a, c in codes.items() if traced.codes.get(a) != c))


def _write(fields: Fields, place: CellAtoms, value: Any, codes: dict[int, int]) -> None:
    """Adds the atoms of a place that a value writes there, with their codes."""
    if isinstance(place, PlainCell):  # most are
        atom = place.atoms[None]
        code = fields.numberings[atom].numbers.get(value)  # also of what is traced: it is read as a whole
        codes[atom] = fields.numberings[atom].code(plain(value)) if code is None else code
        return
    own = isinstance(value, TracedSet | TracedMap) and value.place is place
    match place:
        case SetCell():
            for member in value.changed if own else [*place.atoms, *(m for m in _among(value) if m not in place.atoms)]:
                if member in place.atoms:
                    codes[place.atoms[member]] = fields.numberings[place.atoms[member]].code(member in value)
                elif member in value:
                    raise AssertionError(f"a set is given the member {member!r}, which its type does not have")
        case MapCell(elements=elements):
            for i in value.changed if own else range(len(elements)):
                _write(fields, elements[i], value[i], codes)
