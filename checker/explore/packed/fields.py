"""How a global state is packed into words: its cells' values are numbered, and the numbers are put side by side.

An *atom* is a field of bits: the number of a cell's value, of a map's element, or whether a member is in a set. What
values a cell takes is not always known before; then its atom is made wider when it has to be, and the states are packed
anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, product
from typing import Any, TypeAlias

from leasehold.checker.explore.layout import Lane, Layout
from leasehold.spec.language import types as t
from leasehold.spec.language.model import System
from leasehold.spec.language.types import Value

WORD = 64
SlicePart: TypeAlias = tuple[Sequence[int], bool]  # by instance, its cell; whether all instances share one
MOST_ENTRIES = 64  # of a `set` channel that is packed as one bit for each message that may be in it
KNOWN_AHEAD = 64  # values of a type that are numbered before they are met


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
        found = self.numbers.get(value)
        if found is None:
            found = self.numbers[value] = len(self.values)
            self.values.append(value)
        return found

    @property
    def needs(self) -> int:
        """The bits that its values need."""
        return max(1, (len(self.values) - 1).bit_length())


@dataclass(frozen=True, slots=True)
class CellAtoms:
    """The atoms of a cell, by key: each has a part of the cell's value."""

    atoms: Mapping[Any, int]

    def part(self, value: Any, key: Any) -> Value:
        """The part of a value that has this key."""
        raise NotImplementedError

    def whole(self, parts: Sequence[Value]) -> Value:
        """The value that has these parts, in the order of the atoms."""
        raise NotImplementedError


class PlainCell(CellAtoms):
    """A cell of one atom, which has the whole value."""

    __slots__ = ()

    def part(self, value: Any, key: Any) -> Value:
        return value

    def whole(self, parts: Sequence[Value]) -> Value:
        return parts[0]


class SetCell(CellAtoms):
    """A cell of an atom for each member that the set may have: whether it is in the set."""

    __slots__ = ()

    def part(self, value: Any, key: Any) -> Value:
        return key in value

    def whole(self, parts: Sequence[Value]) -> Value:
        return frozenset(compress(self.atoms, parts))


class MapCell(CellAtoms):
    """A cell of an atom for each element, by position."""

    __slots__ = ()

    def part(self, value: Any, key: Any) -> Value:
        return value[key]

    def whole(self, parts: Sequence[Value]) -> Value:
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class BitField:
    """Where an atom lies."""

    word: int
    shift: int
    bits: int


class Fields:
    """The atoms of a layout's states.

    Attributes:
        cells: where the values of each cell are.
        numberings: of each atom, the numbers of its values.
        places: where each atom lies.
        words: how many words a state takes.
        slices: of groups whose instances are alike: by group, by part of a slice, the atom of each instance.
    """

    def __init__(self, layout: Layout, slices: Iterable[Iterable[SlicePart]] = ()) -> None:
        self.numberings: list[ValueNumbering] = []
        kinds, members = _kinds(layout), members_known(layout)
        self.cells = [self._cell(kinds.get(cell, ()), members.get(cell)) for cell in range(layout.size)]
        self.cell_of = [cell for cell, place in enumerate(self.cells) for _ in place.atoms]
        self.slices = [[atoms for part in group for atoms in self._alike(part)] for group in slices]
        self.places: list[BitField] = []
        self.words = 0
        self.lay_out()

    def _alike(self, part: SlicePart) -> list[list[int]]:
        """The atoms of a part of a slice, by atom and by instance; those of one have one numbering from now on."""
        of_instances, shared_cell = part
        places = [self.cells[cell] for cell in of_instances]
        every = [list(place.atoms.values()) for place in places]
        found = every[:1] if shared_cell else [list(atoms) for atoms in zip(*every, strict=True)]
        for atoms in found:
            for atom in atoms:
                self.numberings[atom] = self.numberings[atoms[0]]
        return found

    def _cell(self, kind: t.Type | tuple[Value, ...], members: tuple[Value, ...] | None) -> CellAtoms:
        if members is not None:
            return SetCell({member: self._atom((False, True)) for member in members})
        if isinstance(kind, t.Map):
            return MapCell({i: self._atom(_domain(kind.of)) for i in range(len(t.members(kind.key)))})
        return PlainCell({None: self._atom(kind if isinstance(kind, tuple) else _domain(kind))})

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

    def known(self, numberings: Iterable[tuple[Iterable[Value], int]]) -> None:
        """Numbers values as they were numbered elsewhere: given of each atom its values and bits."""
        for numbering, (values, bits) in zip(self.numberings, numberings, strict=True):
            for value in values:
                numbering.code(value)
            numbering.bits = bits
        self.lay_out()

    def widen(self) -> None:
        """Makes room for twice as many values where it is not known how many there are."""
        for numbering in self.numberings:
            numbering.bits = numbering.needs + 1 if numbering.open else numbering.bits

    # Packing

    def pack(self, state: Sequence[Value]) -> list[int]:
        """A state as words.

        Raises:
            OverflowError: a value is met for the first time, and its atom has no room for it.
        """
        found = [0] * self.words
        found[0] = 1 << (WORD - 1)
        for place, value in zip(self.cells, state, strict=True):
            for key, atom in place.atoms.items():
                at, code = self.places[atom], self.numberings[atom].code(place.part(value, key))
                if code >> at.bits:
                    raise OverflowError(atom)
                found[at.word] |= code << at.shift
        return found

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


def _kinds(layout: Layout) -> dict[int, t.Type | tuple[Value, ...]]:
    """By cell of a machine, its type or its values, where they are known before the search."""
    found: dict[int, t.Type | tuple[Value, ...]] = {}
    for role, i in layout.system.machines():
        found[layout.at(role.name, i, None)] = tuple(role.states)
        for datum in role.data.values():
            found[layout.at(role.name, i, datum.name)] = datum.type
    return found


def members_known(layout: Layout) -> dict[int, tuple[Value, ...]]:
    """By cell that holds a set and is packed as bits: what may be in the set, in the order of the bits."""
    kinds = _kinds(layout).items()
    found = {cell: t.members(kind.of) for cell, kind in kinds if isinstance(kind, t.Set) and kind.of is not None}
    for lane in layout.lanes:
        entries = _entries(layout.system, lane) if lane.channel.kind == "set" else None
        if entries is not None:
            found[lane.cell] = entries
    return found


def _entries(system: System, lane: Lane) -> tuple[Value, ...] | None:
    """The messages that may be in a `set` channel; None where they are not known, or too many."""
    found: list[Value] = []
    for message in system.messages.values():
        if (message.sender, message.receiver) != (lane.channel.sender, lane.channel.receiver):
            continue
        domains = [_domain(f.type) for f in message.fields]
        if not all(domains):
            return None
        found += [(1, message.name, values) for values in product(*domains)]
        if len(found) > MOST_ENTRIES:
            return None
    return tuple(found)


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
