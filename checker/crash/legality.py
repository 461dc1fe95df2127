"""The legal state that is nearest to a state from which a run does not return, and what differs between the two.

A state is nearer the fewer of its cells differ: control states and data of machines, channels, the clock. Of an endless
run the state that is nearest to a legal one is taken, and of several legal states the first that was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Snapshot

MOST_STATES = 50  # of an endless run that are compared


@dataclass(frozen=True, slots=True)
class StateDifference:
    """A difference between two states.

    Attributes:
        what: a machine (its control state), a datum of one, a channel, `now`, or what a fault has changed.
        here: in the state that is not legal; empty: nothing is on its way.
        legal: in the legal state, likewise.
    """

    what: str
    here: str
    legal: str


def nearest_legal(states: Sequence[State], paths: Paths, legal: Paths) -> tuple[StateDifference, ...]:
    """Returns what differs between one of these states and the legal state that is nearest to it.

    Args:
        states: that a run does not leave.
        paths: of the exploration that they are of.
        legal: of the one without faults.
    """
    world: Any = paths.world  # under faults
    layout, best = world.layout, (1 << 30, 0, states[0])
    for state in states[:MOST_STATES]:
        distance = np.zeros(len(legal.states), dtype=np.int32)
        for cell in range(layout.base):
            values, column = legal.column(cell)
            same = np.array([value == state[cell] for value in values], dtype=bool)
            distance += ~same[column]
        nearest = int(distance.argmin())
        if distance[nearest] < best[0]:
            best = int(distance[nearest]), nearest, state
    _, number, state = best
    wanted = {cell: value for cell, value in world.quiet if state[cell] != value}
    faults = [
        StateDifference(f"{name} {key}".strip(), str(state[cell]), str(wanted[cell]))
        for (name, key), cell in layout.added.items()
        if cell in wanted
    ]
    return (*faults, *_between(paths.snapshot(state), legal.snapshot(legal.states[number])))


def _between(here: Snapshot, legal: Snapshot) -> list[StateDifference]:
    differences: list[StateDifference] = []
    channels = ({name: ", ".join(held) for name, held in of.channels.items()} for of in (here, legal))
    pairs: list[tuple[Mapping[str, str], Mapping[str, str]]] = [(here.shown, legal.shown), (here.data, legal.data)]
    for ours, theirs in (*pairs, tuple(channels)):
        names = dict.fromkeys((*ours, *theirs))
        values = [(name, ours.get(name, ""), theirs.get(name, "")) for name in names]
        differences += [StateDifference(*v) for v in values if v[1] != v[2]]
    if here.now != legal.now:
        differences.append(StateDifference("now", str(here.now), str(legal.now)))
    return differences
