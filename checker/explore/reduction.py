"""The use of symmetry: what it can save of a search, what it costs, and whether one state is visited for each orbit.

Theory of operation. Where everything that concerns an instance is a slice of its own, slices are put in order, and
that costs next to nothing. Elsewhere a step takes some times as long in C, as its end is put in order by refinement.
That pays where orbits are larger than that. They have at most as many states as there are permutations; where these may
be enough, the mean is taken over states that runs by chance come to, always the same ones, where each state counts as
the part of an orbit that it is. That is a guess, as runs do not come to all states alike. Where it takes too long,
there are many instances, and orbits are large. Where the C engine has no room for the instances, only the reference
visits orbits, and these have to be larger than it is slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from leasehold.checker.explore.canonical import Canonical
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import SpecFault
from leasehold.checker.explore.symmetry import symmetry_of

# How much longer a step takes under symmetry where not everything lies in slices: CPU time on one machine, of searches
# that take over a second (reports/symmetry.md has them). In C; in the reference; in the reference instead of in C.
COST_IN_C, COST_IN_REFERENCE, COST_OUTSIDE_C = 4, 15, 400
RUNS, STEPS = 40, (5, 30)  # by chance, and how many steps one has at least and at most
SAMPLE_SECONDS = 1.0  # of CPU time


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
    canonical = Canonical(world.layout, symmetry.groups, symmetry.products)
    alike = f"symmetry of {', and '.join(map(str, symmetry.groups))}: one state is visited for each orbit"
    most = f"of up to {canonical.permutations:,} states"
    packs = in_c and _packs(canonical)
    if asked or (packs and not canonical.others):
        return Reduction(canonical, symmetry.why_not, f"{alike}, {most}")
    cost = COST_IN_C if packs else COST_OUTSIDE_C if in_c else COST_IN_REFERENCE
    slow = f"a step takes about {cost} times as long"
    size = f"at most {canonical.permutations:,} states"
    if canonical.permutations > cost:
        mean = mean_orbit(world, canonical)
        if mean is None and packs:
            return Reduction(canonical, symmetry.why_not, f"{alike}, {most}; {slow}")
        if mean is not None and mean > cost:
            return Reduction(canonical, symmetry.why_not, f"{alike}, of about {mean:,.0f} states (by a sample); {slow}")
        size = "more arrangements than can be tried" if mean is None else f"about {mean:,.1f} states (by a sample)"
    named = "an engine that is named visits" if packs or not in_c else "`--engine reference` visits"
    return Reduction(None, (*symmetry.why_not, f"{slow}, and an orbit has {size}; {named} orbits all the same"))


def _packs(canonical: Canonical) -> bool:
    """Returns whether the C engine has room for the instances that are alike."""
    from leasehold.checker.explore.packed import Unpackable
    from leasehold.checker.explore.packed.alike import packable

    try:
        packable(canonical)
    except Unpackable:
        return False
    return True


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
    for _ in range(rng.randint(*STEPS)):
        try:
            after = [s for _, s in world.successors(state) if world.within_bounds(s)]
        except SpecFault:
            break
        if not after:
            break
        state = rng.choice(after)
    return state
