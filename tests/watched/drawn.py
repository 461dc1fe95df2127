"""Logs of systems that nobody thought about, for tests of what reads logs.

Systems are those on which the prover is compared with the explorer (tests/checker/prove/drawn_system.py), where actors
can play them. On a walk, real actors take what the specification allows, messages wait until they are delivered, in any
order, and actors end and come back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.properties import RunProperties
from leasehold.checker.verify.cuts import CutsOfSystem
from leasehold.impl.compiler.program import NotRunnable, compile_system
from leasehold.spec import System
from tests.checker.conform.walks import CrashingWalk, Log
from tests.checker.prove.drawn_system import drawn_system

STEPS = 40  # of a walk


class HeldWalk(CrashingWalk):
    """A walk on which each message waits until it is delivered."""

    def until_recovered(self) -> None:
        self.sim.hold()
        super().until_recovered()


@dataclass
class Drawn:
    """A system that was drawn, and what plays it."""

    seed: int
    system: System

    @cached_property
    def known(self) -> KnownSystem:
        return KnownSystem(self.system)

    @cached_property
    def cuts(self) -> CutsOfSystem:
        return CutsOfSystem(self.system, self.known.program)

    @cached_property
    def _properties(self) -> RunProperties:
        return RunProperties(self.system)

    def log(self, number: int) -> Log:
        """The logs of all actors on a walk."""
        with silent():
            walk = HeldWalk(self.known, self._properties, self.seed * 100 + number, STEPS)
            try:
                walk.run()
                return walk.log
            finally:
                walk.close()


def drawn(seeds: range) -> Iterator[Drawn]:
    """Systems that actors can play; other seeds are left out."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            found = drawn_system(Path(folder), Random(seed), claims=6, runnable=True)
        if isinstance(found, str):
            continue
        one = Drawn(seed, found[0])
        try:
            compile_system(one.system)
        except NotRunnable:
            continue
        yield one
