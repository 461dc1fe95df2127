"""The results of the packed explorer in the form of the reference's: sequences over the C part's arrays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from leasehold.checker.explore.graph.arrays import in_order, sums_before
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.ways import joined
from leasehold.checker.explore.labels import Left
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.fields import Fields, PlainCell
from leasehold.checker.explore.packed.programs import Effect
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import Cell
from leasehold.spec.language.expression import Expression

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical

MANY = 1 << 14  # states that are unpacked, or labels whose edges are put in order, together
HASHED = 24  # bits of a hash of rows
KEPT = 1 << 15  # states that were unpacked one by one and are kept, for who comes back to them


class LazySequence(Sequence[Any]):
    """A sequence of which each item is made when it is asked for."""

    def __init__(self, size: int, item: Callable[[int], Any]) -> None:
        self._size, self._item = size, item

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, n: int) -> Any: ...
    @overload
    def __getitem__(self, n: slice) -> list[Any]: ...
    def __getitem__(self, n: int | slice) -> Any:
        if isinstance(n, slice):
            return [self._item(i) for i in range(*n.indices(len(self)))]
        if not -len(self) <= n < len(self):
            raise IndexError(n)
        return self._item(n % len(self))

    def __iter__(self) -> Iterator[Any]:
        return map(self._item, range(len(self)))


class PackedStates(LazySequence):
    """The states by number."""

    def __init__(self, kernel: k.Kernel, fields: Fields) -> None:
        self.kernel, self.fields = kernel, fields
        size, w = kernel.figure(k.COUNT), kernel.words
        words = self._words = kernel.array("states")
        super().__init__(size, lru_cache(KEPT)(lambda n: fields.unpack(words[n * w : n * w + w])))
        self._values: dict[int, list[Any]] = {}
        self._dense: dict[int, list[Any]] = {}  # by cell of several atoms: the codes that they have together

    def words(self, n: int) -> list[int]:
        """A state, packed."""
        w = self.kernel.words
        return list(self._words[n * w : n * w + w])

    def __iter__(self) -> Iterator[State]:
        return self.unpacked(np.arange(len(self)))

    def unpacked(self, numbers: Any) -> Iterator[State]:
        """The states with these numbers: many at once are unpacked faster than one by one."""
        for begin in range(0, len(numbers), MANY):
            chosen = self.table[numbers[begin : begin + MANY]]
            columns = []
            for cell in range(len(self.fields.cells)):
                values = np.empty(len(self.values(cell)), dtype=object)
                values[:] = self.values(cell)
                columns.append(values[self._codes(cell, chosen)].tolist())
            yield from zip(*columns, strict=True)

    @cached_property
    def table(self) -> Any:
        """All states as rows of words."""
        return np.frombuffer(self._words, dtype=np.uint64).reshape(self._size, self.kernel.words)

    def codes(self, cell: int, numbers: Any = None) -> Any:
        """Returns the positions in `values` of what all states, or those with these numbers, have in a cell."""
        return self._codes(cell, self.table if numbers is None else self.table[numbers])

    def _codes(self, cell: int, table: Any) -> Any:
        place = self.fields.cells[cell]
        if isinstance(place, PlainCell):
            return self._atom(place.atoms[None], table).astype(np.int64)
        if cell not in self._dense:
            self._dense[cell] = []
            codes = self._together(cell, self.table)
            if table is self.table:
                return codes
        return self._together(cell, table)

    def _together(self, cell: int, table: Any) -> Any:
        """Returns the rank of what each state of a table has in a cell of several atoms, among what states have there.

        A few atoms at a time are put into one number, which is then replaced by its rank: so no number grows too large.
        What ranks there are is found when all states are asked about, before any others.
        """
        place, known = self.fields.cells[cell], self._dense[cell]
        atoms = [*place.atoms.values()]
        ranks, stages = np.zeros(len(table), dtype=np.int64), 0
        while atoms:
            size = 1
            while atoms and size * (values := len(self.fields.numberings[atoms[-1]].values)) <= 1 << 31:
                ranks = ranks * values + self._atom(atoms.pop(), table).astype(np.int64)
                size *= values
            if stages == len(known):
                known.append(np.unique(ranks))
            ranks = np.searchsorted(known[stages], ranks)
            stages += 1
        return ranks

    def as_packed_by(self, fields: Fields, cells: int) -> tuple[Any, Any] | None:
        """Returns these states' first cells as rows of words that others are packed in, and the bits of these.

        States of which no other can have that are left out; None: the cells have other atoms there.
        """
        mask = np.zeros(fields.words, dtype=np.uint64)
        rows, possible = np.zeros((len(self), fields.words), dtype=np.uint64), np.ones(len(self), dtype=bool)
        for theirs, mine in zip(fields.cells[:cells], self.fields.cells[:cells], strict=True):
            if theirs.atoms.keys() != mine.atoms.keys():
                return None
            for key, atom in theirs.atoms.items():
                word, shift, bits = fields.places[atom]
                mask[word] |= np.uint64((1 << bits) - 1 << shift)
                known, values = fields.numberings[atom].numbers, self.fields.numberings[mine.atoms[key]].values
                codes = np.array([known.get(value, -1) for value in values])[self._atom(mine.atoms[key], self.table)]
                possible &= codes >= 0
                rows[:, word] |= np.maximum(codes, 0).astype(np.uint64) << np.uint64(shift)
        return rows[possible], mask

    def repeated(self, slices: Sequence[Sequence[Sequence[int]]]) -> list[tuple[int, int]]:
        """Returns pairs: how many permutations change nothing, where slices are in order, and for how many states."""
        still = np.ones(len(self), dtype=object if len(slices) > 1 else np.int64)
        for parts in slices:
            run = np.ones(len(self), dtype=np.int64)
            for i in range(1, len(parts[0])):
                equal = np.ones(len(self), dtype=bool)
                for atoms in parts:
                    equal &= self._atom(atoms[i], self.table) == self._atom(atoms[i - 1], self.table)
                run = np.where(equal, run + 1, 1)
                still = still * run
        sizes, counts = np.unique(still, return_counts=True)
        return list(zip(sizes.tolist(), counts.tolist(), strict=True))

    def _atom(self, atom: int, table: Any) -> Any:
        at = self.fields.places[atom]
        return table[:, at.word] >> np.uint64(at.shift) & np.uint64((1 << at.bits) - 1)

    def values(self, cell: int) -> list[Any]:
        """The values of a cell in all states, by the numbers that `codes` gives."""
        values = self._values.get(cell)
        if values is None:
            place = self.fields.cells[cell]
            if isinstance(place, PlainCell):
                values = self.fields.numberings[place.atoms[None]].values
            else:
                _, examples = np.unique(self._codes(cell, self.table), return_index=True)
                values = [self.fields.value(cell, self.words(int(n))) for n in examples]
            self._values[cell] = values
        return values


class PackedLabels:
    """The labels of a search, as `leasehold.checker.explore.labels.Labels` has them.

    Attributes:
        first_of_level: of each depth but 0, the first label.
        several: whether a state may have several; else each has the label of its number.
    """

    def __init__(self, kernel: k.Kernel, budget: Left) -> None:
        size = kernel.figure(k.LABELS)
        self.kernel = kernel
        self.parents = kernel.array("parents")
        begins = self.first_of_level = list(kernel.array("level_labels"))
        self.depths = LazySequence(size, lambda n: bisect_right(begins, n))
        self.several = bool(budget)  # whether a state may have several
        self.states: Sequence[int] = range(size)
        self.of: Sequence[list[int]] = LazySequence(size, lambda n: [n])
        self.lefts: Sequence[Left] = LazySequence(size, lambda n: ())
        if budget:
            kinds, lefts = range(len(budget)), kernel.array("lefts")
            first, following = kernel.array("first_label"), kernel.array("label_next")
            self.states = kernel.array("label_states")
            self.lefts = LazySequence(size, lambda n: tuple([lefts[n] >> 8 * kind & 127 for kind in kinds]))
            self.of = LazySequence(len(first), lambda n: chain(first[n], following))

    def state_depths(self) -> Any:
        """Returns the number of steps on a shortest path to each state: an array."""
        labels = np.arange(len(self.of))
        if self.several:
            labels = np.zeros(len(self.of), dtype=np.int64)
            states = np.asarray(self.states)
            labels[states[::-1]] = np.arange(len(states))[::-1]  # of several writes the last one stays: the first label
        return np.searchsorted(np.asarray(self.first_of_level), labels, side="right").astype(np.int32)

    def chain(self, label: int) -> list[int]:
        """The states on the way to a label, from the first on."""
        return [self.states[n] for n in chain(label, self.parents)][::-1]


def chain(label: int, following: Sequence[int]) -> list[int]:
    """A label, the one that follows it, and so on."""
    labels = []
    while label != k.NONE:
        labels.append(label)
        label = following[label]
    return labels


class PackedCells(LazySequence):
    """The cells of the product that were reached, in the order in which they were.

    Attributes:
        depth: that of the last state.
    """

    def __init__(self, kernel: k.Kernel, fields: Fields, product: list[int]) -> None:
        first, counts = kernel.survey(fields.atoms_of(product))
        begins = list(kernel.array("level_states"))
        states = PackedStates(kernel, fields)
        self.depth = bisect_right(begins, len(states) - 1) if len(states) else 0

        def cell(n: int) -> Cell:
            words = states.words(first[n])
            control = tuple([fields.value(cell, words) for cell in product])
            return Cell(control, counts[n], bisect_right(begins, first[n]), first[n])

        super().__init__(len(first), cell)


class PackedEdges(Sequence[Any]):
    """The steps between cells, once these were counted; found when they are first asked for."""

    def __init__(self, kernel: k.Kernel, tags: Iterable[tuple[str | None, str]], answer: Callable[[], object]) -> None:
        self.kernel, self.tags, self.answer = kernel, tags, answer

    @cached_property
    def _all(self) -> list[tuple[int, int, str]]:
        while (edges := self.kernel.survey_edges()) is None:
            self.answer()
        names = [f"{role}#{event}" if role else "clock" for role, event in self.tags]
        return list(dict.fromkeys((a, b, names[tag]) for a, b, tag in edges))

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, n: Any) -> Any:
        return self._all[n]


class PackedPaths(Paths):
    """Paths over a packed graph, and questions about all of its states, which are not unpacked for them."""

    states: PackedStates

    def __init__(
        self,
        world: Reference,
        states: PackedStates,
        labels: PackedLabels,
        mark: Callable[[Expression], bytearray],
        canonical: Canonical | None = None,
    ) -> None:
        super().__init__(world, states, labels, canonical)
        self._mark = mark

    def where(self, e: Expression) -> Any:
        return np.frombuffer(self._mark(e), dtype=bool)

    def column(self, cell: int) -> tuple[list[Any], Any]:
        return self.states.values(cell), self.states.codes(cell)

    def among(self, numbers: Any, other: Paths, cells: int) -> Any:
        if not isinstance(other, PackedPaths):
            return super().among(numbers, other, cells)
        there = other.states.as_packed_by(self.states.fields, cells)
        if there is None:
            return super().among(numbers, other, cells)
        rows, mask = there
        return among_rows(self.states.table[numbers] & mask, rows)

    def some(self, numbers: Any) -> Iterator[State]:
        return self.states.unpacked(numbers)


def among_rows(rows: Any, others: Any) -> Any:
    """Returns for each row of words whether it is one of others."""
    among = np.zeros(len(rows), dtype=bool)
    met = np.zeros(1 << HASHED, dtype=bool)
    met[_hashes(others)] = True
    near = met[_hashes(rows)].nonzero()[0]  # most others are left out by their hash; these are compared
    _, numbers = np.unique(np.concatenate([others, rows[near]]), axis=0, return_inverse=True)
    numbers = numbers.ravel()
    among[near] = np.isin(numbers[len(others) :], numbers[: len(others)])
    return among


def _hashes(rows: Any) -> Any:
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        hashes = (hashes ^ column) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return hashes >> np.uint64(64 - HASHED)


def graph_of(kernel: k.Kernel, changes: Sequence[Effect], labels: PackedLabels, faults_stop: bool) -> Graph:
    """The steps of a search, as the reference keeps them."""
    graph = Graph(faults_stop)
    rows = np.array([graph.row(change.action) for change in changes])
    rows = rows.astype(np.min_scalar_type(len(graph.kinds)))
    begins, targets, edge_changes = (
        np.frombuffer(kernel.array(name), dtype=kind)
        for name, kind in (("begins", np.int64), ("targets", np.int32), ("edge_changes", np.uint32))
    )
    graph.kernel = kernel  # which keeps the targets
    out, how = (np.frombuffer(kernel.array(name), dtype=np.uint32).copy() for name in ("cut_states", "cut_changes"))
    if len(out):
        graph.leave(out.astype(np.int32), rows[how])
    first, count = np.append(begins, len(targets)), kernel.figure(k.COUNT)
    if not labels.several:
        first = np.append(first, np.full(count + 1 - len(first), len(targets)))
        return graph.take(first, targets, rows[edge_changes] if len(rows) else np.zeros(0, dtype=np.uint8))
    states = np.frombuffer(kernel.array("label_states"), dtype=np.int32)[: len(begins)]
    sizes, joined_targets, joined_rows = joined(
        count, in_order(states, count), states, first, targets, edge_changes, rows
    )
    return graph.take(sums_before(sizes), joined_targets, joined_rows)
