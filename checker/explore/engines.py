"""Chooses the explorer: the packed one in C where it was built and takes the search, else the reference.

A system of few states is explored by the reference: it is done before the packed explorer has prepared its trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from leasehold.checker.explore.breadth_first import Limits, Progress, ReferenceSearch
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import Exploration
from leasehold.faults.model import Budget
from leasehold.spec.language.model import System

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical

Engine: TypeAlias = Literal["auto", "packed", "reference"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
FEW_STATES, FEW_STEPS = 300, 1_500
# Many more are to come where more than so many states are known and, of those searched, more than this part waits.
WAITING = ((30, 1.0), (70, 0.25))
FEW = "it has few states"
PACKED = "states in machine words, searched in C"


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
    say: Callable[[str], None] | None = None,
) -> Exploration:
    """Visits every reachable state of a system and decides its properties; with a budget, under these faults.

    Engines ask the reference that `reference` makes what a step is. All engines find the same, in the same order. With
    symmetry, one state is visited for each orbit, where instances are alike and the engine `auto` does not expect that
    to take longer (reduction.py); where not, the result says why. `say` takes lines about that before the search.
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
        from leasehold.checker.explore.packed import library
        from leasehold.checker.explore.reduction import reduction_of

        reduction = reduction_of(world, library.FILE.exists(), asked=engine != "auto")
        canonical, asymmetric = reduction.canonical, reduction.why_not
        if say is not None:
            reduction.say(say)
    why = "it was asked for"
    dear = canonical is not None and bool(canonical.others)  # each of a few states takes the reference as long as many
    if engine == "auto" and limits.keeping is None and limits.disk is None and not dear:
        try:
            exploration = SmallSearch(world, limits, progress, canonical, fairness).run()
            return replace(exploration, engine_reason=FEW, why_asymmetric=asymmetric)
        except NotSmall:
            pass
    if engine != "reference":
        from leasehold.checker.explore.packed import NotBuilt, PackedSearch, Unpackable

        try:
            exploration = PackedSearch(world, limits, progress, canonical, fairness).run()
            return replace(exploration, engine_reason=PACKED, why_asymmetric=asymmetric)
        except (NotBuilt, Unpackable) as error:
            if engine == "packed":
                raise EngineError(engine, str(error)) from error
            why = str(error)
    _without_files(engine, limits, why)
    exploration = ReferenceSearch(world, limits, progress, canonical, fairness).run()
    return replace(exploration, engine_reason=why, why_asymmetric=asymmetric)


class NotSmall(Exception):
    """A search has come to more than few states."""


class SmallSearch(ReferenceSearch):
    """A search by the reference that gives up where it seems that a system has more than few states."""

    def _expand(self, label: int, number: int) -> None:
        known = len(self.labels.states)
        seems_large = any(known > some and known - self.searched > self.searched * part for some, part in WAITING)
        if seems_large or known > FEW_STATES or self.generated > FEW_STEPS:
            raise NotSmall
        super()._expand(label, number)


def _without_files(asked: Engine, limits: Limits, why: str) -> None:
    """Refuses what the reference cannot do; `why` says why it is taken, where it was not asked for."""
    if limits.disk or (limits.keeping and (limits.keeping.resume or limits.keeping.place)):
        reason = "the reference engine neither leaves checkpoints nor uses a disk; the packed one does"
        raise EngineError(asked, reason if asked == "reference" else f"{reason}, but {why}")
