"""Instances that are alike, as a kernel is told of them: slices, other attributes, and the values of these.

A kernel knows values by their codes. Of each it is told the skeleton, whom it names, and its place among the values
that are known, in the order of canonical.py. What a permutation makes of a value is worked out when the kernel asks.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, product
from typing import Any

from leasehold.checker.explore.canonical import Apart, Canonical, InstanceAttribute, hash_of, ordered
from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.fields import Fields, Unpackable
from leasehold.checker.explore.symmetry import inverse

MOST_ALIKE = 20  # instances of a group
MOST_OF = 6  # instances that one value is of
MOST_NAMES = 64  # instances that one value names
MOST_SPOTS = 4_096  # values of attributes that are no slices
MOST_SLICED = 400  # bits of a slice
LABELS = 1 << 63  # between 0 and this, values have places in their order


def packable(canonical: Canonical) -> None:
    """Checks that a kernel has room for the instances that are alike.

    Raises:
        Unpackable: it has not.
    """
    if any(group.count > MOST_ALIKE for group in canonical.groups):
        raise Unpackable(f"it takes up to {MOST_ALIKE} instances that are alike")
    if canonical.others and sum(group.count for group in canonical.groups) > k.MOST_INSTANCES:
        raise Unpackable(f"it takes up to {k.MOST_INSTANCES} instances in all that are alike")
    if not canonical.sliced and canonical.permutations >> 64:
        raise Unpackable("it counts up to 2^64 permutations")
    if any(len(a.groups) > MOST_OF for a in canonical.others):
        raise Unpackable(f"it takes values of up to {MOST_OF} instances")
    if sum(len(set(a.parts.values())) for a in canonical.others) > MOST_SPOTS:
        raise Unpackable(f"it takes up to {MOST_SPOTS:,} values that lie in no slice")


class PackedAlike:
    """The instances that are alike, as one kernel knows them."""

    def __init__(self, kernel: k.Kernel, fields: Fields, canonical: Canonical) -> None:
        self.kernel, self.fields, self.canonical = kernel, fields, canonical
        self.slices = [
            [[fields.atom(a.parts[i,]) for i in range(group.count)] for a in attributes]
            for group, attributes in zip(canonical.groups, canonical.slices, strict=True)
        ]
        self.begins = [0, *accumulate(group.count for group in canonical.groups)]
        self.values = [_Values(self, number, a) for number, a in enumerate(canonical.others)]
        if self.values:
            kernel.others(len(self.values), *self._spots())
        self._ranked = -1  # values of slices whose ranks are told

    def move_to(self, kernel: k.Kernel) -> None:
        """Goes on with another kernel, which knows the attributes and none of their values."""
        self.kernel = kernel
        self._ranked = -1
        for values in self.values:
            values.told = 0
        self.tell()

    def tell(self) -> None:
        """Tells the kernel of the values that were met since, and of their order: that of `ordered`."""
        for values in self.values:
            values.tell()
        numberings = [[self.fields.numberings[atoms[0]] for atoms in group] for group in self.slices]
        size = sum(len(numbering.values) for group in numberings for numbering in group)
        if size == self._ranked:
            return
        self._ranked = size
        for group, parts, of in zip(self.canonical.groups, self.slices, numberings, strict=True):
            if sum(numbering.needs for numbering in of) > MOST_SLICED:
                raise Unpackable(f"it takes slices of up to {MOST_SLICED} bits")
            ranks = []
            for numbering in of:
                order = sorted(range(len(numbering.values)), key=lambda n: ordered(numbering.values[n]))
                ranks.append(inverse(tuple(order)))
            self.kernel.alike(group is self.canonical.groups[0], group.count, parts, ranks)

    def answer(self) -> int:
        """The code of the value that the kernel asks for; it may be a new one."""
        values = self.values[self.kernel.asks(k.ATTRIBUTE)]
        order = self.kernel.asked_order()
        p = self.canonical.permutation(
            [
                [order[begin + i] - begin for i in range(group.count)]
                for begin, group in zip(self.begins, self.canonical.groups, strict=False)
            ]
        )
        moved = values.attribute.moved
        assert moved is not None
        return values.numbering.code(moved(values.numbering.values[self.kernel.asks(k.CODE)], p))

    def _spots(self) -> tuple[list[list[int]], list[int]]:
        """The values of other attributes and where to find them, as `set_others` has them."""
        atoms = {self.fields.atom(part) for a in self.canonical.others for part in a.parts.values()}
        place = {atom: n for n, atom in enumerate(sorted(atoms))}
        spots: dict[int, list[int]] = {}
        where: list[int] = []
        for number, a in enumerate(self.canonical.others):
            counts = [self.canonical.groups[g].count for g in a.groups]
            strides = [*accumulate(reversed(counts), lambda x, y: x * y, initial=1)][-2::-1] if counts else []
            begin = len(where) - sum(s * self.begins[g] for s, g in zip(strides, a.groups, strict=True))
            for numbers in product(*map(range, counts)):
                part = a.parts.get(numbers)
                where.append(0 if part is None else place[self.fields.atom(part)])
                if part is not None and self.fields.atom(part) not in spots:
                    spot = [self.fields.atom(part), number, begin % (1 << 32), len(numbers)]
                    for g, i, kind, stride in zip(a.groups, numbers, a.kinds, strides, strict=True):
                        spot += [self.begins[g] + i, kind, stride]
                    spots[self.fields.atom(part)] = spot
        return [spots[atom] for atom in sorted(spots)], where


class _Values:
    """The values of an attribute: those that a kernel was told of, and their order."""

    def __init__(self, of: PackedAlike, number: int, attribute: InstanceAttribute) -> None:
        self.of, self.number, self.attribute = of, number, attribute
        self.numbering = of.fields.numberings[of.fields.atom(next(iter(attribute.parts.values())))]
        self.told = 0
        self._skeletons: dict[str, int] = {}
        self._keys: list[Any] = []  # in their order; beside it, their labels
        self._labels: list[int] = []
        self._apart: list[tuple[Apart, int]] = []  # by code, with its label

    def tell(self) -> None:
        values = self.numbering.values
        while self.told < len(values):
            if self.told == len(self._apart):
                self._learn(values[self.told])
            said, label = self._apart[self.told]
            skeleton = self._skeletons.setdefault(repr(said.skeleton), len(self._skeletons))
            names = [self.of.begins[name.group] + name.number for name in said.names]
            kinds = [min(kind, 255) for kind in said.kinds]
            self.of.kernel.value(self.number, hash_of(self.number, said.digest), label, skeleton, names, kinds)
            self.told += 1

    def _learn(self, value: Any) -> None:
        said = Apart(ordered(value), ()) if self.attribute.apart is None else self.attribute.apart(value)
        if len(said.names) > MOST_NAMES:
            raise Unpackable(f"it takes values that name up to {MOST_NAMES} instances")
        key = ordered(value)
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        low = self._labels[at - 1] if at else 0
        high = self._labels[at] if at < len(self._labels) else LABELS
        self._labels.insert(at, (low + high) // 2)
        self._apart.append((said, self._labels[at]))
        if high - low < 2:
            self._space()

    def _space(self) -> None:
        """Gives the values labels that lie apart, as there was no room for one."""
        step = LABELS // (len(self._keys) + 1)
        self._labels = [step * (n + 1) for n in range(len(self._keys))]
        by_key = dict(zip(map(repr, self._keys), self._labels, strict=True))
        values = self.numbering.values[: len(self._apart)]
        self._apart = [(said, by_key[repr(ordered(v))]) for (said, _), v in zip(self._apart, values, strict=True)]
        self.of.kernel.labels(self.number, [label for _, label in self._apart[: self.told]])
