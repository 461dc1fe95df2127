"""Sources of the systems that the prover is compared on: each draws some words of the language.

`scalars` has nearly all of them but values of several parts and lines that senders share, of which the others are made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Protocol, TypeAlias

from leasehold.spec import System
from tests.checker.prove.drawn_shared import SHARE
from tests.checker.prove.drawn_system import drawn_system
from tests.checker.queues_by_chance import queues_by_chance
from tests.checker.values_by_chance import FIXED, SEQUENCES, ChanceField, chosen_fields, values_by_chance

CLAIMS = 10  # by chance, drawn for each system


class FactWriter(Protocol):
    """Draws facts about a system.

    Attributes:
        kept: role and name of the data that no step changes.
    """

    kept: set[tuple[str, str]]

    def facts(self, many: int) -> list[str]:
        """Things that a step may show, about states before and after it."""


Drawing: TypeAlias = tuple[System, FactWriter] | str  # the loader's words where it does not take a system
Source: TypeAlias = Callable[[Path, Random], Drawing]


@dataclass
class ListedFacts:
    """Chooses among facts about states."""

    rng: Random
    every: Sequence[str]
    kept: set[tuple[str, str]]

    def facts(self, many: int) -> list[str]:
        return [self.rng.choice(("{}", "old({})")).format(self.rng.choice(self.every)) for _ in range(many)]


def scalars_by_chance(folder: Path, rng: Random, share: float = SHARE) -> Drawing:
    """A system with nearly all words of the language; `share` is how likely it has shared variables."""
    return drawn_system(folder, rng, CLAIMS, share)


def _first(drawn: Callable[[], System | None]) -> System:
    """The first system that the loader takes."""
    while True:
        if (system := drawn()) is not None:
            return system


def values(folder: Path, rng: Random, choose: Callable[[Random], Mapping[str, ChanceField]]) -> Drawing:
    """A system whose machines keep and send values of several parts."""
    fields = choose(rng)
    system = _first(lambda: values_by_chance(folder, rng, fields, begin=True))
    names = re.compile(rf"\b({'|'.join(['bit', *fields])})\b")
    conditions = [words for field in fields.values() for words in field.conditions]
    owned = (rf"{machine}.\1" for machine in ("a", "b"))
    facts = [names.sub(own, f"({words})") for own in owned for words in conditions]
    facts += [f"a.{name} == b.{name}" for name in fields]
    return system, ListedFacts(rng, facts, {("a", FIXED)})


def queues(folder: Path, rng: Random) -> Drawing:
    """A system whose clients stand in the lines of their servers."""
    system = _first(lambda: queues_by_chance(folder, rng))
    facts = ["len(up) > 1", "heard(up)", "any(m.sender != n.sender for m in pending(up) for n in pending(up))"]
    facts += ["any(m.number == 1 for m in pending(note))", "all(m.number == 1 for m in pending(ask))"]
    return system, ListedFacts(rng, facts, set())


SOURCES: Mapping[str, Source] = {
    "scalars": scalars_by_chance,
    "sequences": partial(values, choose=lambda rng: SEQUENCES),
    "nested": partial(values, choose=chosen_fields),
    "queues": queues,
}
