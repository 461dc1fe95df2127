"""Partitions as campaigns of running actors make them: messages between two actors that do not pass for a while.

The explorer's partition parts all actors into two sides, both ways (catalogue.yaml). Between running actors a partition
is of a pair, and may be one-way: the messages of one do not come to the other, whose own messages pass. Every campaign
draws it here and breaks the links that it names: random runs in the simulated network, others in proxies between
processes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

LONGER = 4  # ticks, at most, by which a partition outlasts a term


@dataclass(frozen=True, slots=True)
class ActorPartition:
    """A partition of two actors; where it is not both ways, of the messages of `one` to `other`."""

    one: str
    other: str
    both: bool = True

    @classmethod
    def named(cls, text: str) -> ActorPartition:
        """A partition by its text: `a | b`, or `a -> b`."""
        one, how, other = text.split()
        return cls(one, other, both=how == "|")

    @property
    def links(self) -> frozenset[tuple[str, str]]:
        """The pairs of sender and receiver between which no message passes."""
        there = {(self.one, self.other)}
        return frozenset(there | {(self.other, self.one)} if self.both else there)

    def __str__(self) -> str:
        return f"{self.one} {'|' if self.both else '->'} {self.other}"


def every_partition(actors: Sequence[str]) -> list[ActorPartition]:
    """The partitions of each pair of actors: both ways, and either way."""
    partitions = [ActorPartition(one, other) for one, other in combinations(actors, 2)]
    return partitions + [ActorPartition(one, other, both=False) for one, other in permutations(actors, 2)]


def drawn_partition(chance: random.Random, actors: Sequence[str], term: int) -> tuple[ActorPartition, int]:
    """A partition at random, and for how many ticks it lasts: longer than a term."""
    return chance.choice(every_partition(actors)), term + chance.randint(1, LONGER)


class LinkCuts:
    """The partitions over each link, sender and receiver: a link is open again when all of them have healed."""

    def __init__(self) -> None:
        self._partitions: Counter[tuple[str, str]] = Counter()

    def part(
        self, links: Iterable[tuple[str, str]], heal: Callable[[set[tuple[str, str]]], None]
    ) -> Callable[[], None]:
        """Counts a partition; returns what ends it, once, and hands the links that are open then to `heal`."""
        cut = set(links)
        self._partitions.update(cut)

        def end() -> None:
            self._partitions.subtract(cut)
            heal({link for link in cut if not self._partitions[link]})
            cut.clear()

        return end
