"""How a global state is packed into words: its cells' values are numbered, and the numbers are put side by side.

An *atom* is a field of bits: the number of a cell's value, of a map's element, or whether a member is in a set. What
values a cell takes is not always known before; then its atom is made wider when it has to be, and the states are packed
anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

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
class PlainCell:
    atom: int


@dataclass(frozen=True, slots=True)
class SetCell:
    atoms: Mapping[Value, int]  # by member


@dataclass(frozen=True, slots=True)
class MapCell:
    atoms: Sequence[int]  # by position


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
        self.cells: list[PlainCell | SetCell | MapCell] = []
        kinds = _types(layout)
        for cell in range(layout.size):
            self.cells.append(self._cell(kinds.get(cell)))
        self.cell_of = [0] * len(self.numberings)
        for cell, place in enumerate(self.cells):
            for atom in _atoms(place):
                self.cell_of[atom] = cell
        self.slices = [[atoms for part in group for atoms in self._alike(part)] for group in slices]
        self.places: list[BitField] = []
        self.words = 0
        self.lay_out()

    def _alike(self, part: SlicePart) -> list[list[int]]:
        """The atoms of a part of a slice, by atom and by instance; those of one have one numbering from now on."""
        of_instances, shared_cell = part
        places = [self.cells[cell] for cell in of_instances]
        if shared_cell:
            shared = list(_atoms(places[0]))
            found = [shared]
        else:
            found = [list(atoms) for atoms in zip(*map(_atoms, places), strict=True)]
        for atoms in found:
            for atom in atoms:
                self.numberings[atom] = self.numberings[atoms[0]]
        return found

    def _cell(self, kind: t.Type | _Entries | tuple[Value, ...] | None) -> PlainCell | SetCell | MapCell:
        match kind:
            case t.Set(of=of) if of is not None:
                return SetCell({member: self._atom((False, True)) for member in t.members(of)})
            case t.Map(key=key, of=of):
                return MapCell([self._atom(_domain(of)) for _ in t.members(key)])
            case tuple():
                return PlainCell(self._atom(kind))
            case _Entries(entries=entries):
                return SetCell({entry: self._atom((False, True)) for entry in entries})
            case None:
                return PlainCell(self._atom(()))
            case _:
                return PlainCell(self._atom(_domain(kind)))

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
            for atom, code in self._codes(place, value):
                at = self.places[atom]
                if code >> at.bits:
                    raise OverflowError(atom)
                found[at.word] |= code << at.shift
        return found

    def _codes(self, place: PlainCell | SetCell | MapCell, value: Value) -> Iterable[tuple[int, int]]:
        match place:
            case PlainCell(atom=atom):
                return [(atom, self.numberings[atom].code(value))]
            case SetCell(atoms=atoms):
                return [(atom, int(member in value)) for member, atom in atoms.items()]
            case MapCell(atoms=elements):
                return [(atom, self.numberings[atom].code(v)) for atom, v in zip(elements, value, strict=True)]

    def unpack(self, words: Sequence[int]) -> tuple[Value, ...]:
        """The state that lies in words."""
        return tuple([self.value(cell, words) for cell in range(len(self.cells))])

    def value(self, cell: int, words: Sequence[int]) -> Value:
        """The value of one cell of a state that lies in words."""
        place = self.cells[cell]
        match place:
            case PlainCell(atom=atom):
                return self.numberings[atom].values[self.code(atom, words)]
            case SetCell(atoms=atoms):
                return frozenset(member for member, atom in atoms.items() if self.code(atom, words))
            case MapCell(atoms=elements):
                return tuple([self.numberings[atom].values[self.code(atom, words)] for atom in elements])

    def code(self, atom: int, words: Sequence[int]) -> int:
        """What an atom holds in a state that lies in words."""
        at = self.places[atom]
        return words[at.word] >> at.shift & (1 << at.bits) - 1


@dataclass(frozen=True, slots=True)
class _Entries:
    """All messages that may be in a channel that keeps a set of them."""

    entries: tuple[Value, ...]


def _atoms(place: PlainCell | SetCell | MapCell) -> Iterable[int]:
    match place:
        case PlainCell(atom=atom):
            return [atom]
        case SetCell(atoms=atoms):
            return atoms.values()
        case MapCell(atoms=elements):
            return elements


def _types(layout: Layout) -> dict[int, t.Type | tuple[Value, ...] | _Entries]:
    """What is known of cells before the search: a type, the values, or the messages."""
    found: dict[int, t.Type | tuple[Value, ...] | _Entries] = {}
    system = layout.system
    for role, i in system.machines():
        found[layout.at(role.name, i, None)] = tuple(role.states)
        for datum in role.data.values():
            found[layout.at(role.name, i, datum.name)] = datum.type
    for lane in layout.lanes:
        entries = _entries(system, lane) if lane.channel.kind == "set" else None
        if entries is not None:
            found[lane.cell] = _Entries(entries)
    return found


def members_known(layout: Layout) -> dict[int, tuple[Value, ...]]:
    """By cell that holds a set and is packed as bits: what may be in the set, in the order of the bits."""
    found: dict[int, tuple[Value, ...]] = {}
    for cell, kind in _types(layout).items():
        match kind:
            case t.Set(of=of) if of is not None:
                found[cell] = t.members(of)
            case _Entries(entries=entries):
                found[cell] = entries
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
