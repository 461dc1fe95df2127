"""The parts of a system as a kernel asks for them: the reference's, where it helps in smaller ones that read less.

What a part reads of a state is a decision tree of the kernel, so parts that read little make small trees. The steps and
their order are the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from leasehold.checker.explore.ground import GroundMachine, GroundOffer
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Reference, Steps

MANY_CASES = 8  # combinations of the values of an offer's fields from which on each is a case of its own

# By control state, offers and the fields' values to try: one combination, or None for all that there are.
Case: TypeAlias = dict[str, list[tuple[GroundOffer, tuple[Any, ...] | None]]]


@dataclass(frozen=True, slots=True)
class PackedPart:
    """A part's steps from a state, given of which of its kinds of faults any are left.

    Where none of the conditions `unless` holds, which read little, `otherwise` gives the steps, and else there are
    none. The conditions are asked in their order; one that shows that the specification is wrong raises SpecFault.
    """

    steps: Callable[[State, tuple[bool, ...]], Steps]
    faults: tuple[str, ...] = ()
    unless: tuple[Callable[[State], bool], ...] = ()
    otherwise: Callable[[State, tuple[bool, ...]], Steps] | None = None


def packed_parts(world: Reference) -> Iterator[PackedPart]:
    """The parts of a reference, in order."""
    for part in world.parts:
        many = [] if part.machine is None else cases(part.machine)
        if part.machine is not None and len(many) > 1:
            yield from (PackedPart(partial(_steps, world, part.machine, case), part.faults) for case in many)
        else:
            yield PackedPart(part.steps, part.faults, part.unless, part.otherwise)


def cases(machine: GroundMachine) -> list[Case]:
    """The offers of a machine in cases: of an offer with many values, one case for each.

    In every control state, the offers come in their order if the cases do.
    """

    def many(offer: GroundOffer) -> bool:
        return not offer.values.moving and len(offer.values(())) >= MANY_CASES

    result: list[Case] = []
    begin, last = 0, max(map(len, machine.offers.values()), default=0) - 1
    for end in range(last + 1):
        split = [(state, of[end]) for state, of in machine.offers.items() if of[end:] and many(of[end])]
        if split or end == last:
            result.append(
                {
                    state: [(offer, None) for offer in of[begin : end + 1] if not many(offer)]
                    for state, of in machine.offers.items()
                }
            )
            result += [{state: [(offer, e)]} for state, offer in split for e in offer.values(())]
            begin = end + 1
    return [case for case in result if any(case.values())]


def _steps(world: Reference, machine: GroundMachine, case: Case, s: State, which: Sequence[bool]) -> Steps:
    """The steps of a case, as `Reference` has them for the whole machine."""
    offers = case.get(s[machine.cell], ())
    for offer, only in offers if offers and world.running(s, machine) else ():
        for e in offer.values(s) if only is None else (only,):
            yield from world.offered(machine, offer, e, s, which)
