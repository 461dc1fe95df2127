"""Which explorer searches: the packed one in C where it can be had, in NumPy elsewhere; the reference for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from leasehold.checker.explore.breadth_first import Limits, Progress, ReferenceSearch
from leasehold.checker.explore.deviations import deviant
from leasehold.checker.explore.fairness import Fairness
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.result import Exploration
from leasehold.checker.explore.transition_system import TransitionSystem
from leasehold.faults import Budget
from leasehold.faults.mutants import Deviation
from leasehold.spec.language.model import System

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical

Engine: TypeAlias = Literal["auto", "packed", "arrays", "reference"]
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
    deviation: Deviation | None = None,
    engine: Engine = "auto",
    symmetry: bool = False,
    fairness: Fairness = Fairness.SPEC,
) -> Exploration:
    """Visits every reachable state of a system and decides its properties; with a budget, under these faults.

    With a deviation, machines make that mistake. All engines find the same, in the same order. With symmetry, one state
    is visited for each orbit, where instances are alike; where they are not, the result says why. What is asked about
    endless runs is asked under `fairness`.

    Returns what was found; a KeyboardInterrupt or a limit ends the search early, and every verdict then says so.

    Raises:
        EngineError: the engine is not to be had; never for `auto`, which then takes another and says why.
        leasehold.checker.explore.packed.CheckpointError: it is to go on from a checkpoint that is not to be had.
    """
    if deviation is not None:
        world: TransitionSystem = deviant(system, budget or Budget(), deviation)
    else:
        world = TransitionSystem(system) if budget is None else FaultySystem(system, budget)
    limits = limits or Limits()
    canonical: Canonical | None = None
    asymmetric: tuple[str, ...] = ()
    if symmetry:
        canonical, asymmetric = _canonical(world, faults=budget is not None or deviation is not None)
    why = "it was asked for"
    if engine != "reference":
        from leasehold.checker.explore.packed import NoCompiler, Unpacked

        try:
            return replace(_packed(world, limits, progress, canonical, fairness, engine), why_asymmetric=asymmetric)
        except (NoCompiler, Unpacked) as error:
            if engine != "auto":
                raise EngineError(engine, str(error)) from error
            why = str(error)
    _without_files("reference", engine, limits, why)
    found = ReferenceSearch(world, limits, progress, canonical, fairness).run()
    return replace(found, engine_reason=why, why_asymmetric=asymmetric)


def _canonical(world: TransitionSystem, faults: bool) -> tuple[Canonical | None, tuple[str, ...]]:
    """What finds one state for each orbit, None where there is no use for it; and sentences why not, or not for all."""
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


def _without_files(taken: Engine, asked: Engine, limits: Limits, why: str) -> None:
    """Refuses what the engine that is taken cannot do; `why` says why it is, where another was asked for."""
    if limits.disk or (limits.keeping and (limits.keeping.resume or limits.keeping.place)):
        words = f"the {taken} engine neither leaves checkpoints nor uses a disk; the packed one does"
        raise EngineError(asked, words if asked == taken else f"{words}, but {why}")


def _packed(
    world: TransitionSystem, limits: Limits, progress: Callable[[Progress], None] | None, canonical: Canonical | None,
    fairness: Fairness, engine: Engine,
) -> Exploration:  # fmt: skip
    """By the packed explorer: in C or, where it was asked for or `auto` finds no compiler, in NumPy."""
    from leasehold.checker.explore.packed import NoCompiler, PackedSearch, Unpacked

    why = ARRAYS
    if engine != "arrays":
        try:
            return replace(PackedSearch(world, limits, progress, canonical, fairness).run(), engine_reason=PACKED)
        except NoCompiler as error:
            if engine == "packed":
                raise
            why = str(error)
    from leasehold.checker.explore.packed.arrays import ArrayKernel

    _without_files("arrays", engine, limits, why)
    if canonical is not None:
        words = "the arrays engine does not put slices in order"
        raise Unpacked(words if engine == "arrays" else f"{why}, and {words}")
    search = PackedSearch(world, replace(limits, keeping=None), progress, None, fairness, "arrays", ArrayKernel)
    return replace(search.run(), engine_reason=why if engine == "arrays" else f"{why}, so arrays")


PACKED = "states in machine words, searched in C"
ARRAYS = "states in machine words, searched in NumPy"
