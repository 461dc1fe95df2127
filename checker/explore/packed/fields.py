"""The packing of a global state into words: its cells' values are numbered, and the numbers are put side by side.

An *atom* is a field of bits: the number of a cell's value, of a map's element, or whether a member is in a set. What
values a cell takes is not always known before; then its atom is made wider when it has to be, and the states are packed
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice, product
from typing import Any, NamedTuple, TypeAlias

from leasehold.checker.explore.layout import Lane, Layout
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import messages_of
from leasehold.spec.language.model import System
from leasehold.spec.language.types import Value

WORD = 64
MOST_ENTRIES = 64  # of a `set` channel that is packed as one bit for each message that may be in it
KNOWN_AHEAD = 64  # values of a type that are numbered before they are met
MOST_NESTED = 512  # bits that sets in a map may take, each packed as a bit for each member


class StatePart(NamedTuple):
    """A part of a state: a cell, and the key of an atom in it."""

    cell: int
    key: Any


class Unpackable(Exception):
    """The engine does not take this search; the words say why."""


@dataclass(slots=True)
class ValueNumbering:
    """The numbers of an atom's values.

    Attributes:
        bits: how wide the atom is.
        open: whether it is not known ahead what values there are.
    """

    values: list[Value] = field(default_factory=list)
    numbers: dict[Value, int] = field(default_factory=dict)
    bits: int = 0
    open: bool = False

    def code(self, value: Value) -> int:
        """The number of a value, which is given one if it has none."""
        number = self.numbers.get(value)
        if number is None:
            number = self.numbers[value] = len(self.values)
            self.values.append(value)
        return number

    @property
    def needs(self) -> int:
        """The bits that its values need."""
        return max(1, (len(self.values) - 1).bit_length())


@dataclass(frozen=True, slots=True)
class NumberedShape:
    """The shape of a value that is packed as a number; `values` are those that are numbered before they are met."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """The shape of a set that is packed as a bit for each member that it may have."""

    members: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Elements:
    """The shape of a map that is packed element by element, each of one shape."""

    of: Shape
    count: int


Shape: TypeAlias = NumberedShape | Members | Elements


@dataclass(frozen=True, slots=True)
class CellAtoms:
    """The atoms of a cell or of an element of a map, by key: each has a part of the value."""

    atoms: Mapping[Any, int]

    def part(self, value: Any, key: Any) -> Value:
        """The part of a value that has this key."""
        raise NotImplementedError

    def whole(self, parts: Sequence[Value]) -> Value:
        """The value that has these parts, in the order of the atoms."""
        raise NotImplementedError


class PlainCell(CellAtoms):
    """One atom, which has the whole value."""

    __slots__ = ()

    def part(self, value: Any, key: Any) -> Value:
        return value

    def whole(self, parts: Sequence[Value]) -> Value:
        return parts[0]


class SetCell(CellAtoms):
    """An atom for each member that a set may have: whether it is in the set."""

    __slots__ = ()

    def part(self, value: Any, key: Any) -> Value:
        return key in value

    def whole(self, parts: Sequence[Value]) -> Value:
        return frozenset(compress(self.atoms, parts))


@dataclass(frozen=True, slots=True)
class MapCell(CellAtoms):
    """The atoms of a map's elements; a key is an element's position, and a key of its atoms."""

    elements: tuple[CellAtoms, ...]

    def part(self, value: Any, key: Any) -> Value:
        position, inner = key
        return self.elements[position].part(value[position], inner)

    def whole(self, parts: Sequence[Value]) -> Value:
        each = iter(parts)
        return tuple([element.whole(list(islice(each, len(element.atoms)))) for element in self.elements])


class BitField(NamedTuple):
    """The place of an atom in the words of a state."""

    word: int
    shift: int
    bits: int


class Fields:
    """The atoms of a layout's states; parts that are `alike` have one numbering.

    Attributes:
        cells: where the values of each cell are.
        numberings: of each atom, the numbers of its values.
        places: where each atom lies.
        words: how many words a state takes.
    """

    def __init__(self, layout: Layout, alike: Iterable[Iterable[StatePart]] = ()) -> None:
        self.numberings: list[ValueNumbering] = []
        self.cells = [self._cell(shape) for shape in shapes(layout)]
        self.cell_of = [cell for cell, place in enumerate(self.cells) for _ in place.atoms]
        for parts in alike:
            first, *others = map(self.atom, parts)
            for atom in others:
                self.numberings[atom] = self.numberings[first]
        self.places: list[BitField] = []
        self.words = 0
        self.lay_out()

    def atom(self, part: StatePart) -> int:
        """The atom of a part of a state."""
        return self.cells[part.cell].atoms[part.key]

    def _cell(self, shape: Shape) -> CellAtoms:
        match shape:
            case NumberedShape(values=values):
                return PlainCell({None: self._atom(values)})
            case Members(members=members):
                return SetCell({member: self._atom((False, True)) for member in members})
            case Elements(of=of, count=count):
                elements = tuple([self._cell(of) for _ in range(count)])
                atoms = {(i, key): atom for i, element in enumerate(elements) for key, atom in element.atoms.items()}
                return MapCell(atoms, elements)

    def _atom(self, values: Iterable[Value]) -> int:
        values = list(values)
        numbering = ValueNumbering(open=not values)
        for value in values:
            numbering.code(value)
        self.numberings.append(numbering)
        return len(self.numberings) - 1

    def lay_out(self) -> None:
        """Makes every atom as wide as it needs to be, and finds places for all: the widest first."""
        for numbering in self.numberings:
            numbering.bits = max(numbering.bits, numbering.needs)
        free = [WORD - 1]  # the top bit of the first word is set in every state
        self.places = [BitField(0, 0, 0)] * len(self.numberings)
        for atom in sorted(range(len(self.numberings)), key=lambda a: -self.numberings[a].bits):
            bits = self.numberings[atom].bits
            word = next((w for w, left in enumerate(free) if left >= bits), len(free))
            if word == len(free):
                free.append(WORD)
            shift = (WORD - 1 if word == 0 else WORD) - free[word]
            free[word] -= bits
            self.places[atom] = BitField(word, shift, bits)
        self.words = len(free)

    def domain(self, cell: int) -> Sequence[Value] | None:
        """All values that a cell may have, if they are known before they are met; there are few then."""
        place = self.cells[cell]
        numbering = self.numberings[place.atoms[None]] if isinstance(place, PlainCell) else None
        return None if numbering is None or numbering.open else numbering.values

    def known(self, numberings: Iterable[tuple[Iterable[Value], int]]) -> None:
        """Numbers values as they were numbered elsewhere: given of each atom its values and bits."""
        for numbering, (values, bits) in zip(self.numberings, numberings, strict=True):
            for value in values:
                numbering.code(value)
            numbering.bits = bits
        self.lay_out()

    # Packing

    def pack(self, state: Sequence[Value]) -> list[int]:
        """A state as words.

        Raises:
            OverflowError: a value is met for the first time, and its atom has no room for it.
        """
        words = [0] * self.words
        words[0] = 1 << (WORD - 1)
        for place, value in zip(self.cells, state, strict=True):
            for key, atom in place.atoms.items():
                at, code = self.places[atom], self.numberings[atom].code(place.part(value, key))
                if code >> at.bits:
                    raise OverflowError(atom)
                words[at.word] |= code << at.shift
        return words

    def unpack(self, words: Sequence[int]) -> tuple[Value, ...]:
        """The state that lies in words."""
        return tuple([self.value(cell, words) for cell in range(len(self.cells))])

    def value(self, cell: int, words: Sequence[int]) -> Value:
        """The value of one cell of a state that lies in words."""
        place = self.cells[cell]
        return place.whole([self.numberings[atom].values[self.code(atom, words)] for atom in place.atoms.values()])

    def atoms_of(self, cells: Iterable[int]) -> list[int]:
        """The atoms of cells that have one each."""
        return [self.cells[cell].atoms[None] for cell in cells]

    def code(self, atom: int, words: Sequence[int]) -> int:
        """The code of an atom in a state that lies in words."""
        at = self.places[atom]
        return words[at.word] >> at.shift & (1 << at.bits) - 1


def shapes(layout: Layout) -> list[Shape]:
    """Returns the shape of each cell, which says how its values are packed."""
    by_cell: list[Shape] = [NumberedShape(())] * layout.size
    for role, i in layout.system.records():
        if role.states:
            by_cell[layout.at(role.name, i, None)] = NumberedShape(tuple(role.states))
        for datum in role.data.values():
            by_cell[layout.at(role.name, i, datum.name)] = _shape(datum.type)
    for lane in layout.lanes:
        entries = _entries(layout.system, lane) if lane.channel.kind == "set" else None
        if entries is not None:
            by_cell[lane.cell] = Members(entries)
    return by_cell


def _shape(kind: t.Type, copies: int = 0) -> Shape:
    """The shape of a type's values; `copies`: of elements of a map, how many lie side by side."""
    match kind:
        case t.Set(of=of) if of is not None and copies * len(t.members(of)) <= MOST_NESTED:
            return Members(t.members(of))
        case t.Map(key=key, of=of):
            count = len(t.members(key))
            return Elements(_shape(of, max(copies, 1) * count), count)
    return NumberedShape(_domain(kind))


def as_sliced(shape: Shape, value: Any, ordered: Callable[[Value], Any]) -> Any:
    """A value as its atoms are compared, one after the other; `ordered` gives keys for values that are whole."""
    match shape:
        case Members(members=members):
            return tuple([member in value for member in members])
        case Elements(of=of):
            return tuple([as_sliced(of, element, ordered) for element in value])
    return ordered(value)


def _entries(system: System, lane: Lane) -> tuple[Value, ...] | None:
    """The messages that may be in a `set` channel; None where they are not known, or too many."""
    entries: list[Value] = []
    for message in messages_of(system, lane.channel):
        domains = [_domain(f.type) for f in message.fields]
        if not all(domains):
            return None
        entries += [(1, message.name, values) for values in product(*domains)]
        if len(entries) > MOST_ENTRIES:
            return None
    return tuple(entries)


def _domain(kind: t.Type) -> tuple[Value, ...]:
    """All values of a type that has few; empty for others."""
    match kind:
        case t.Bool() | t.Enum() | t.Instance():
            return tuple(t.domain(kind, None))
        case t.Option(of=of) if of is not None:
            inner = _domain(of)
            return (None, *inner) if inner else ()
        case t.Int(low=int(low), high=int(high)) if high - low < KNOWN_AHEAD:
            return tuple(range(low, high + 1))
        case t.Set(of=of) if of is not None and 2 ** len(t.members(of)) <= KNOWN_AHEAD:
            return tuple(t.domain(kind, None))
    return ()
