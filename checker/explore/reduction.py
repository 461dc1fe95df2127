"""The use of symmetry: what it can save of a search, what it costs, and whether one state is visited for each orbit.

Theory of operation. Where everything that concerns an instance is a slice of its own, the C engine puts slices in order
and loses nothing. Elsewhere only the reference has the form of an orbit, and tries arrangements for it, so that a state
takes far longer than in C (COST_IN_C). That pays only where orbits are larger than that. They have at most as many
states as there are permutations; where these may be enough, the mean is taken over states that runs by chance come to,
always the same ones. Each state counts as the part of an orbit that it is, so the mean is that of all states.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from leasehold.checker.explore.canonical import MOST_ARRANGED, Canonical
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import SpecFault
from leasehold.checker.explore.symmetry import symmetry_of

# How much longer a state takes in the reference under symmetry where arrangements are tried: 450 to 610 times as long
# as in C, 14 to 27 times as long as in the reference without symmetry (Paxos Commit, and a commit protocol whose
# machines name one another; CPU time on one machine).
COST_IN_C, COST_IN_REFERENCE = 400, 15
RUNS, STEPS = 100, 60  # by chance, and how many steps one has at most
SAMPLE_SECONDS = 5.0  # of CPU time; forms that take longer than that are dear in any case


@dataclass(frozen=True, slots=True)
class Reduction:
    """The way in which a search uses symmetry.

    Attributes:
        canonical: finds the form of each orbit; None where all states are visited.
        why_not: sentences about what it is not used for.
        words: what it is used for, and at which cost.
    """

    canonical: Canonical | None
    why_not: tuple[str, ...]
    words: str = ""

    def say(self, to: Callable[[str], None]) -> None:
        """Says a line for each."""
        lead = "without symmetry" if self.canonical is None else "symmetry of no more"
        for line in [*([self.words] if self.words else []), *(f"{lead}: {why}" for why in self.why_not)]:
            to(line)


def reduction_of(world: Reference, in_c: bool, asked: bool) -> Reduction:
    """Decides whether a search visits one state for each orbit.

    Args:
        world: what is explored.
        in_c: the C engine can be had for all states.
        asked: an engine was asked for by name, so orbits are visited wherever it can.
    """
    if world.faulty:
        return Reduction(None, ("under faults, actors have numbers in crash points and partitions",))
    symmetry = symmetry_of(world.system)
    if not symmetry.groups:
        return Reduction(None, symmetry.why_not)
    canonical = Canonical(world.layout, symmetry.groups)
    alike = f"symmetry of {', and '.join(map(str, symmetry.groups))}: one state is visited for each orbit"
    if canonical.columns is not None:
        return Reduction(canonical, symmetry.why_not, f"{alike}, of up to {canonical.permutations:,} states")
    if canonical.permutations > MOST_ARRANGED:
        reason = (
            f"{canonical.why_unsliced}, so up to {canonical.permutations:,} arrangements would be tried for a state"
        )
        return Reduction(None, (*symmetry.why_not, f"{reason}; {MOST_ARRANGED:,} are the most"))
    cost = COST_IN_C if in_c else COST_IN_REFERENCE
    slow = f"{canonical.why_unsliced}, so a state takes the reference engine about {cost} times as long"
    if asked:
        return Reduction(canonical, symmetry.why_not, f"{alike}, of up to {canonical.permutations:,} states; {slow}")
    size = f"at most {canonical.permutations:,} states"
    if canonical.permutations > cost:
        mean = mean_orbit(world, canonical)
        if mean is not None and mean > cost:
            return Reduction(canonical, symmetry.why_not, f"{alike}, of about {mean:,.0f} states (by a sample); {slow}")
        size = "more arrangements than can be tried" if mean is None else f"about {mean:,.0f} states (by a sample)"
    return Reduction(
        None, (*symmetry.why_not, f"{slow}, and an orbit has {size}; `--engine reference` visits orbits all the same")
    )


def mean_orbit(world: Reference, canonical: Canonical) -> float | None:
    """The mean size of the orbits of states that runs by chance end in; None where that takes too long."""
    rng, began = Random(0), time.process_time()
    parts = 0.0
    for _ in range(RUNS):
        parts += 1 / canonical.size(_end_of_a_run(world, rng))
        if time.process_time() - began > SAMPLE_SECONDS:
            return None
    return RUNS / parts


def _end_of_a_run(world: Reference, rng: Random) -> State:
    state = rng.choice(world.initial_states())
    for _ in range(rng.randrange(STEPS)):
        try:
            after = [s for _, s in world.successors(state) if world.within_bounds(s)]
        except SpecFault:
            break
        if not after:
            break
        state = rng.choice(after)
    return state
