"""Logs of systems that nobody thought about, for tests of what reads logs.

Systems are those on which the prover is compared with the explorer (tests/checker/prove/drawn_system.py), where actors
can play them. On a walk, real actors take what the specification allows, messages wait until they are delivered, in any
order, and actors end and come back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from random import Random

from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.choices import Happening
from leasehold.checker.recovery.cases.properties import RunProperties
from leasehold.checker.verify.cuts import CutsOfSystem
from leasehold.faults.simulation.network import SCHEME, Packet
from leasehold.impl.compiler.program import NotRunnable, compile_system
from leasehold.spec import System
from tests.checker.conform.walks import CrashingWalk, Log
from tests.checker.prove.drawn_system import drawn_system

STEPS = 40  # of a walk


# What a walk may find: properties are drawn as well, and do not hold.
NO_FAULT = ("invariant", "progress", "end")


class HeldWalk(CrashingWalk):
    """A walk on which each message waits until it is delivered."""

    def until_recovered(self) -> None:
        self.sim.hold()
        super().until_recovered()


class DisturbedWalk(HeldWalk):
    """Such a walk on which messages are lost, come twice and out of turn, links are cut, and all actors end at once."""

    faults = 6  # at most

    def _restarts(self) -> list[Happening]:
        found = super()._restarts()
        if self.faults and self.chance.random() < 0.3:
            found += self._disturbances()
        return found

    def _disturbances(self) -> list[Happening]:
        network = self.sim.network
        packets = [p for p in network.in_transit if p.target.removeprefix(SCHEME) in self.sim.actors]
        found = [partial(self._disturb, partial(network.lose, p)) for p in network.in_transit]
        for packet in (*packets, *network.delivered[-3:]):  # out of turn, without an answer, and again
            found.append(partial(self._disturb, partial(self._deliver, packet)))
        if network.cut:
            found.append(network.cut.clear)
        elif len(self.sim.roles) > 1:
            found.append(partial(self._disturb, self._cut_off))
        return [*found, partial(self._disturb, self._power_cut)] if self.sim.actors else found

    def _disturb(self, fault: Happening) -> None:
        self.faults -= 1
        fault()

    def _deliver(self, packet: Packet) -> None:
        self.sim.loop.call(partial(self.sim.network.deliver, packet, False))

    def _cut_off(self) -> None:
        one, *others = self.chance.sample([SCHEME + name for name in self.sim.roles], len(self.sim.roles))
        self.sim.network.cut |= {pair for other in others for pair in ((one, other), (other, one))}

    def _power_cut(self) -> None:
        for name in sorted(self.sim.actors):
            self.sim.crash(name)
        self.monitor.passed("crash")


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
        """The logs of all actors on a walk; each other one is disturbed."""
        with silent():
            kind = DisturbedWalk if number % 2 else HeldWalk
            walk = kind(self.known, self._properties, self.seed * 100 + number, STEPS)
            walk.steps.asks_unknown = self.known.asks_unknown  # clients on the walk ask for what no actor can refuse
            try:
                found = walk.run().findings
                log = walk.log
            finally:
                walk.close()
        wrong = [f for f in found if f.check not in NO_FAULT]
        assert not wrong, f"seed {self.seed}, walk {number}: {wrong[0]}"
        return log


def drawn(seeds: range) -> Iterator[Drawn]:
    """Systems that actors can play; other seeds are left out."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            found = drawn_system(Path(folder), Random(seed), claims=6, runnable=True, of_runs=True)
        if isinstance(found, str):
            continue
        one = Drawn(seed, found[0])
        try:
            compile_system(one.system)
        except NotRunnable:
            continue
        yield one
