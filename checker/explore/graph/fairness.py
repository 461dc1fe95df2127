"""Fairness: the steps that a fair run must take in the end, and how surely.

Theory of operation. Fairness is asked of *groups* of steps: the messages of one channel between two machines in their
turn, the answers of one task, a machine's due tick, the clock, the restart of an actor, and each environment action for
each machine (and, under `fair_for_each`, for each combination of values of some fields of its event). A run is *weakly*
fair to a group if it takes steps of it again and again, unless the group is impossible again and again; *strongly*,
unless it is impossible from some point on. What the machines do by themselves is weakly fair; the specification says it
of environment actions (`fair`). No fairness is asked of faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from leasehold.spec.language.model import Fair, System

Group = tuple[Any, ...]
ENVIRONMENT = (
    "environment"  # the first word of the groups of its actions: this, the action's name, the instance, values
)


class Fairness(StrEnum):
    """Under which fairness a question about endless runs is decided."""

    SPEC = "spec"  # as the specification declares it
    NONE = "none"  # nothing need ever happen
    WEAK = "weak"  # what is declared to be fair is so weakly
    STRONG = "strong"  # what is declared to be fair is so strongly

    def of(self, declared: Fair) -> Fair:
        """The fairness asked of a group for which the specification declares this."""
        match self:
            case Fairness.NONE:
                return Fair.NO
            case Fairness.WEAK:
                return min(declared, Fair.WEAK)
            case Fairness.STRONG:
                return Fair.STRONG if declared else Fair.NO
            case _:
                return declared

    @property
    def words(self) -> str:
        """The meaning, for a reader of verdicts."""
        return {
            Fairness.SPEC: "as the specification declares it",
            Fairness.NONE: "nothing need ever happen",
            Fairness.WEAK: "all that is fair is weakly fair",
            Fairness.STRONG: "all that is fair is strongly fair",
        }[self]


@dataclass(frozen=True, slots=True)
class Demands:
    """The groups of one graph, by their numbers, to which a run must be fair weakly, and those strongly."""

    weak: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()

    @property
    def groups(self) -> frozenset[int]:
        return self.weak | self.strong


def demands(
    system: System,
    groups: Iterable[Group],
    fairness: Fairness = Fairness.SPEC,
    overrides: Mapping[str, Fair] | None = None,
) -> Demands:
    """The groups of a graph to which a run must be fair.

    Args:
        system: what declares it.
        groups: those of the graph, in the order of their numbers.
        fairness: under which it is decided.
        overrides: environment actions of which something else is taken to be declared.
    """
    overrides = overrides or {}
    asked: dict[Fair, list[int]] = {fair: [] for fair in Fair}
    for number, group in enumerate(groups):
        declared = Fair.WEAK
        if group[0] == ENVIRONMENT:
            declared = overrides.get(group[1], system.environment[group[1]].fair)
        asked[fairness.of(declared)].append(number)
    return Demands(frozenset(asked[Fair.WEAK]), frozenset(asked[Fair.STRONG]))
