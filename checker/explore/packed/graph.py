"""What the packed explorer found, as the reference shows what it finds: sequences over the C part's arrays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.labels import Left
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.fields import Fields, MapCell, PlainCell, SetCell
from leasehold.checker.explore.packed.programs import Effect
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import Cell
from leasehold.spec.language.expression import Expression

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical

MANY = 1 << 14  # states that are unpacked together


class _Listed(Sequence[Any]):
    """A sequence of which each item is made when it is asked for."""

    def _item(self, n: int) -> Any:
        raise NotImplementedError

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


class PackedStates(_Listed):
    """The states by number."""

    def __init__(self, kernel: k.Kernel, fields: Fields) -> None:
        self.kernel, self.fields = kernel, fields
        self._size = kernel.figure(k.COUNT)
        self._words = kernel.array(k.STATES, k.U64, self._size * kernel.words)
        self._values: dict[int, list[Any]] = {}
        self._dense: dict[int, list[Any]] = {}  # by cell of several atoms: the codes that they have together

    def __len__(self) -> int:
        return self._size

    def words(self, n: int) -> list[int]:
        """A state, packed."""
        w = self.kernel.words
        return list(self._words[n * w : n * w + w])

    def _item(self, n: int) -> State:
        return self.fields.unpack(self.words(n))

    def __iter__(self) -> Iterator[State]:
        import numpy as np

        return self.unpacked(np.arange(len(self)))

    def unpacked(self, numbers: Any) -> Iterator[State]:
        """The states with these numbers: many at once are unpacked faster than one by one."""
        import numpy as np

        for begin in range(0, len(numbers), MANY):
            chosen = self._table[numbers[begin : begin + MANY]]
            columns = []
            for cell in range(len(self.fields.cells)):
                values = np.empty(len(self.values(cell)), dtype=object)
                values[:] = self.values(cell)
                columns.append(values[self._codes(cell, chosen)].tolist())
            yield from zip(*columns, strict=True)

    @cached_property
    def _table(self) -> Any:
        import numpy as np

        return np.frombuffer(self._words, dtype=np.uint64).reshape(self._size, self.kernel.words)

    def codes(self, cell: int, numbers: Any = None) -> Any:
        """By state (of all, or of those with these numbers), what it has in a cell: positions in `values`."""
        return self._codes(cell, self._table if numbers is None else self._table[numbers])

    def _codes(self, cell: int, table: Any) -> Any:
        import numpy as np

        place = self.fields.cells[cell]
        if isinstance(place, PlainCell):
            return self._atom(place.atom, table).astype(np.int64)
        if cell not in self._dense:
            self._dense[cell] = []
            found = self._together(cell, self._table)
            if table is self._table:
                return found
        return self._together(cell, table)

    def _together(self, cell: int, table: Any) -> Any:
        """By state of a table, the number of what it has in a cell of several atoms, among all that states have there.

        A few atoms at a time are put into one number, which is then replaced by its rank: so no number grows too large.
        What ranks there are is found when all states are asked about, before any others.
        """
        import numpy as np

        place, known = self.fields.cells[cell], self._dense[cell]
        assert isinstance(place, SetCell | MapCell)
        atoms = list(place.atoms.values() if isinstance(place, SetCell) else place.atoms)
        found, stages = np.zeros(len(table), dtype=np.int64), 0
        while atoms:
            size = 1
            while atoms and size * (values := len(self.fields.numberings[atoms[-1]].values)) <= 1 << 31:
                found = found * values + self._atom(atoms.pop(), table).astype(np.int64)
                size *= values
            if stages == len(known):
                known.append(np.unique(found))
            found = np.searchsorted(known[stages], found)
            stages += 1
        return found

    def repeated(self, slices: Sequence[Sequence[Sequence[int]]]) -> list[tuple[int, int]]:
        """How many permutations change nothing, where slices are in order; and in how many states it is so many."""
        import numpy as np

        still = np.ones(len(self), dtype=object if len(slices) > 1 else np.int64)
        for parts in slices:
            run = np.ones(len(self), dtype=np.int64)
            for i in range(1, len(parts[0])):
                equal = np.ones(len(self), dtype=bool)
                for atoms in parts:
                    equal &= self._atom(atoms[i], self._table) == self._atom(atoms[i - 1], self._table)
                run = np.where(equal, run + 1, 1)
                still = still * run
        sizes, counts = np.unique(still, return_counts=True)
        return list(zip(sizes.tolist(), counts.tolist(), strict=True))

    def _atom(self, atom: int, table: Any) -> Any:
        import numpy as np

        at = self.fields.places[atom]
        return table[:, at.word] >> np.uint64(at.shift) & np.uint64((1 << at.bits) - 1)

    def values(self, cell: int) -> list[Any]:
        """What a cell has in some state, by the numbers that `codes` gives."""
        found = self._values.get(cell)
        if found is None:
            place = self.fields.cells[cell]
            if isinstance(place, PlainCell):
                found = self.fields.numberings[place.atom].values
            else:
                import numpy as np

                _, examples = np.unique(self._codes(cell, self._table), return_index=True)
                found = [self.fields.value(cell, self.words(int(n))) for n in examples]
            self._values[cell] = found
        return found


class _Depths(_Listed):
    def __init__(self, begins: Sequence[int], size: int) -> None:
        self._begins, self._size = begins, size

    def __len__(self) -> int:
        return self._size

    def _item(self, n: int) -> int:
        return bisect_right(self._begins, n)


class _Lefts(_Listed):
    def __init__(self, packed: Any, kinds: int) -> None:
        self._packed, self._kinds = packed, kinds

    def __len__(self) -> int:
        return len(self._packed)

    def _item(self, n: int) -> Left:
        return tuple([self._packed[n] >> 8 * kind & 127 for kind in range(self._kinds)])


class _Of(_Listed):
    """By state: its labels."""

    def __init__(self, first: Any, following: Any) -> None:
        self._first, self._following = first, following

    def __len__(self) -> int:
        return len(self._first)

    def _item(self, n: int) -> list[int]:
        found, label = [], self._first[n]
        while label != k.NONE:
            found.append(label)
            label = self._following[label]
        return found


class _Alone(_Listed):
    """By state: its only label, which has its number."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def _item(self, n: int) -> list[int]:
        return [n]


class PackedLabels:
    """The labels of a search, as `leasehold.checker.explore.labels.Labels` has them.

    Attributes:
        first_of_level: of each depth but 0, the first label.
    """

    def __init__(self, kernel: k.Kernel, budget: Left) -> None:
        size, states, levels = kernel.figure(k.LABELS), kernel.figure(k.COUNT), kernel.figure(k.LEVELS)
        u32, u64 = k.U32, k.U64
        self.kernel = kernel
        self.parents = kernel.array(k.PARENTS, u32, size)
        self.first_of_level = [int(n) for n in kernel.array(k.LEVEL_LABELS, u64, levels)]
        self.depths = _Depths(self.first_of_level, size)
        self.states: Sequence[int]
        self.of: Sequence[list[int]]
        self.lefts: Sequence[Left]
        if budget:
            self.states = kernel.array(k.LABEL_STATES, u32, size)
            self.lefts = _Lefts(kernel.array(k.LEFTS, u64, size), len(budget))
            self.of = _Of(kernel.array(k.FIRST_LABEL, u32, states), kernel.array(k.LABEL_NEXT, u32, size))
        else:
            self.states, self.of = range(size), _Alone(size)
            self.lefts = _Lefts(range(size), 0)

    def chain(self, label: int) -> list[int]:
        """The states on the way to a label, from the first on."""
        found = []
        while label != k.NONE:
            found.append(self.states[label])
            label = self.parents[label]
        return found[::-1]


class PackedCells(_Listed):
    """The cells of the product that were reached, in the order in which they were."""

    def __init__(self, kernel: k.Kernel, fields: Fields, product: list[int]) -> None:
        self.kernel, self.fields, self.product = kernel, fields, product
        atoms = [fields.cells[cell].atom for cell in product]  # type: ignore[union-attr]
        self._size = kernel.survey(atoms)
        self._first = kernel.array(k.CELL_FIRST, k.U32, self._size)
        self._counts = kernel.array(k.CELL_STATES, k.U32, self._size)
        levels = kernel.figure(k.LEVELS)
        self._begins = [int(n) for n in kernel.array(k.LEVEL_STATES, k.U64, levels)]
        self._states = PackedStates(kernel, fields)

    @property
    def depth(self) -> int:
        """That of the last state."""
        return bisect_right(self._begins, len(self._states) - 1) if len(self._states) else 0

    def __len__(self) -> int:
        return self._size

    def _item(self, n: int) -> Cell:
        first = self._first[n]
        words = self._states.words(first)
        control = tuple([self.fields.value(cell, words) for cell in self.product])
        return Cell(control, self._counts[n], bisect_right(self._begins, first), first)


class PackedEdges(_Listed):
    """The steps between cells, once these were counted; found when they are first asked for."""

    def __init__(self, kernel: k.Kernel, tags: Iterable[tuple[str | None, str]], answer: Callable[[], object]) -> None:
        self.kernel, self.tags, self.answer = kernel, tags, answer

    @cached_property
    def _all(self) -> list[tuple[int, int, str]]:
        while (found := self.kernel.survey_edges()) is None:
            self.answer()
        names = [f"{role}#{event}" if role else "clock" for role, event in self.tags]
        return list(dict.fromkeys((a, b, names[tag]) for a, b, tag in found))

    def __len__(self) -> int:
        return len(self._all)

    def _item(self, n: int) -> tuple[int, int, str]:
        return self._all[n]


class PackedPaths(Paths):
    """Paths over a packed graph, and questions about all of its states, which are not unpacked for them."""

    states: PackedStates

    def __init__(
        self, world: Reference, states: PackedStates, labels: PackedLabels,
        mark: Callable[[Expression], bytearray], canonical: Canonical | None = None,
    ) -> None:  # fmt: skip
        super().__init__(world, states, labels, canonical)
        self._mark = mark

    def where(self, e: Expression) -> Any:
        import numpy as np

        return np.frombuffer(self._mark(e), dtype=bool)

    def holding(self, cell: int, value: object) -> Any:
        import numpy as np

        column = self.states.codes(cell)
        values = self.states.values(cell)
        return np.array([v == value for v in values], dtype=bool)[column]

    def combinations(self, cells: Sequence[int]) -> tuple[Any, list[tuple[Any, ...]]]:
        import numpy as np

        from leasehold.checker.explore.graph.arrays import numbered

        numbers = np.zeros(len(self.states), dtype=np.int64)
        known: list[tuple[Any, ...]] = [()]
        for cell in cells:
            values = self.states.values(cell)
            keys = numbers * len(values) + self.states.codes(cell)
            examples, numbers = numbered(keys)
            known = [(*known[n // len(values)], values[n % len(values)]) for n in keys[examples].tolist()]
        return numbers, known

    def among(self, numbers: Any, other: Paths, cells: int) -> Any:
        import numpy as np

        if not isinstance(other, PackedPaths):
            return super().among(numbers, other, cells)
        mine, theirs, size = np.zeros(len(numbers), dtype=np.int64), np.zeros(len(other.states), dtype=np.int64), 1
        for cell in range(cells):
            code: dict[Any, int] = {}  # the same for a value in both
            here, there = (
                np.array([code.setdefault(v, len(code)) for v in states.values(cell)], dtype=np.int64)
                for states in (self.states, other.states)
            )
            if size * len(code) > 1 << 62:
                both, numbered_ = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
                mine, theirs, size = numbered_[: len(mine)], numbered_[len(mine) :], len(both)
            mine = mine * len(code) + here[self.states.codes(cell, numbers)]
            theirs = theirs * len(code) + there[other.states.codes(cell)]
            size *= len(code)
        return np.isin(mine, theirs)

    def some(self, numbers: Any) -> Iterator[State]:
        return self.states.unpacked(numbers)


def graph_of(kernel: k.Kernel, changes: Sequence[Effect], faults_stop: bool) -> Graph:
    """The steps of a search, as the reference keeps them."""
    graph = Graph(faults_stop)
    return graph.take(*kernel.edges([graph.row(change.action) for change in changes]))
