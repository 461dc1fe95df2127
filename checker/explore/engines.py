"""Which explorer searches: the packed one where it can be had, the reference everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from leasehold.checker.explore.breadth_first import Limits, Progress, ReferenceSearch
from leasehold.checker.explore.deviations import deviant
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.result import Exploration
from leasehold.checker.explore.transition_system import TransitionSystem
from leasehold.faults import Budget
from leasehold.faults.mutants import Deviation
from leasehold.spec.language.model import System

Engine: TypeAlias = Literal["auto", "packed", "reference"]
ENGINES: tuple[Engine, ...] = get_args(Engine)


class EngineError(Exception):
    """The engine that was asked for cannot be had, or does not take this search; the words say why."""


def explore(
    system: System,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
    *,
    budget: Budget | None = None,
    deviation: Deviation | None = None,
    engine: Engine = "auto",
) -> Exploration:
    """Visits every reachable state of a system and decides its properties; with a budget, under these faults.

    With a deviation, machines make that mistake. All engines find the same, in the same order.

    Returns what was found; a KeyboardInterrupt or a limit ends the search early, and every verdict then says so.

    Raises:
        EngineError: the engine is not to be had; never for `auto`, which then takes the reference and says why.
    """
    if deviation is not None:
        world: TransitionSystem = deviant(system, budget or Budget(), deviation)
    else:
        world = TransitionSystem(system) if budget is None else FaultySystem(system, budget)
    limits = limits or Limits()
    why = "it was asked for"
    if engine != "reference":
        from leasehold.checker.explore.packed import NoCompiler, PackedSearch, Unpacked

        try:
            return replace(PackedSearch(world, limits, progress).run(), engine_reason=PACKED)
        except (NoCompiler, Unpacked) as error:
            if engine == "packed":
                raise EngineError(str(error)) from error
            why = str(error)
    return replace(ReferenceSearch(world, limits, progress).run(), engine_reason=why)


PACKED = "states in machine words, searched in C"
