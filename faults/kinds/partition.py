"""A network that parts the actors in two, until it heals: messages from one side to the other wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from leasehold.faults.kinds import adds
from leasehold.spec.language.lower import Cell, Change, Relation, Variable

WHOLE = 0  # the value while there is no partition; else the number of a cut, from 1 on


@adds("partition")
def partition(relation: Relation, count: int) -> Relation:
    """The actors may part in any two sides."""
    names = [a.name for a in relation.actors]
    sides = list(cuts(names))
    if not sides:
        return relation
    numbers = range(1, len(sides) + 1)
    apart = {n: frozenset(frozenset(pair) for pair in combinations(names, 2) if len(side & {*pair}) == 1)
             for n, side in zip(numbers, sides, strict=True)}  # fmt: skip
    cell = Cell("partition")
    heal = Change("heal", "the partition heals", {cell: tuple(numbers)}, {cell: WHOLE}, recovers="heal")
    parts = (
        Change("partition", _name(names, side), {cell: (WHOLE,)}, {cell: n}, budget="partition")
        for n, side in zip(numbers, sides, strict=True)
    )
    variable = Variable("partition", ("",), WHOLE, separates=apart, shows=True)
    return replace(
        relation, variables=(*relation.variables, variable), changes=(*relation.changes, heal, *parts)
    )  # fmt: skip


def cuts(names: list[str]) -> Iterator[frozenset[str]]:
    """Every way to part the actors in two, by the side that is smaller or has not the first of them."""
    first = frozenset(names[:1])
    for size in range(1, len(names) // 2 + 1):
        for side in map(frozenset, combinations(names, size)):
            if 2 * size < len(names) or not side & first:
                yield side


def _name(names: list[str], side: frozenset[str]) -> str:
    rest = [name for name in names if name not in side]
    return f"partition: {', '.join(sorted(side))} | {', '.join(rest)}"
