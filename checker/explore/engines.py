"""Chooses the explorer: the packed one in C where it was built and takes the search, else the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from leasehold.checker.explore.breadth_first import Limits, Progress, ReferenceSearch
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import Exploration
from leasehold.faults import Budget
from leasehold.spec.language.model import System

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical

Engine: TypeAlias = Literal["auto", "packed", "reference"]
ENGINES: tuple[Engine, ...] = get_args(Engine)


class EngineError(Exception):
    """The engine that was asked for cannot be had, or does not take this search; the words say why."""

    def __init__(self, engine: Engine, why: str) -> None:
        super().__init__(why)
        self.engine = engine


def explore(
    system: System,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
    *,
    budget: Budget | None = None,
    reference: Callable[[System, Budget | None], Reference] = reference_of,
    engine: Engine = "auto",
    symmetry: bool = False,
    fairness: Fairness = Fairness.SPEC,
) -> Exploration:
    """Visits every reachable state of a system and decides its properties; with a budget, under these faults.

    Engines ask the reference that `reference` makes what a step is. All engines find the same, in the same order. With
    symmetry, one state is visited for each orbit, where instances are alike; where they are not, the result says why.
    Endless runs are judged under `fairness`.

    Returns what was found; a KeyboardInterrupt or a limit ends the search early, and every verdict then says so.

    Raises:
        EngineError: the engine is not to be had; never for `auto`, which then takes another and says why.
        leasehold.checker.explore.packed.CheckpointError: it is to go on from a checkpoint that is not to be had.
    """
    world = reference(system, budget)
    limits = limits or Limits()
    canonical: Canonical | None = None
    asymmetric: tuple[str, ...] = ()
    if symmetry:
        canonical, asymmetric = _canonical(world, faults=world.faulty)
    why = "it was asked for"
    if engine != "reference":
        from leasehold.checker.explore.packed import NotBuilt, PackedSearch, Unpackable

        try:
            found = PackedSearch(world, limits, progress, canonical, fairness).run()
            return replace(found, engine_reason=PACKED, why_asymmetric=asymmetric)
        except (NotBuilt, Unpackable) as error:
            if engine == "packed":
                raise EngineError(engine, str(error)) from error
            why = str(error)
    _without_files(engine, limits, why)
    found = ReferenceSearch(world, limits, progress, canonical, fairness).run()
    return replace(found, engine_reason=why, why_asymmetric=asymmetric)


def _canonical(world: Reference, faults: bool) -> tuple[Canonical | None, tuple[str, ...]]:
    """The finder of one state for each orbit, None where it has no use; and sentences why not, or not for all."""
    from leasehold.checker.explore.canonical import MOST_ARRANGED, Canonical
    from leasehold.checker.explore.symmetry import symmetry_of

    if faults:
        return None, ("under faults, actors have numbers in crash points and partitions",)
    found = symmetry_of(world.system)
    if not found.groups:
        return None, found.why_not
    canonical = Canonical(world.layout, found.groups)
    if canonical.columns is None and canonical.permutations > MOST_ARRANGED:
        words = f"{canonical.why_unsliced}, so up to {canonical.permutations:,} arrangements would be tried for a state"
        return None, (*found.why_not, f"{words}; {MOST_ARRANGED:,} are the most")
    return canonical, found.why_not


def _without_files(asked: Engine, limits: Limits, why: str) -> None:
    """Refuses what the reference cannot do; `why` says why it is taken, where it was not asked for."""
    if limits.disk or (limits.keeping and (limits.keeping.resume or limits.keeping.place)):
        words = "the reference engine neither leaves checkpoints nor uses a disk; the packed one does"
        raise EngineError(asked, words if asked == "reference" else f"{words}, but {why}")


PACKED = "states in machine words, searched in C"
