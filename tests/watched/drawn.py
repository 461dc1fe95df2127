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
from leasehold.checker.explore.labels import Labels
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Path as Run
from leasehold.checker.explore.result import Step
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.choices import Happening
from leasehold.checker.recovery.properties import RunProperties
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.simulation.network import SCHEME
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
            found.append(partial(self._disturb, partial(self.sim.deliver, packet, answered=False)))
        if network.cut:
            found.append(network.cut.clear)
        elif len(self.sim.roles) > 1:
            found.append(partial(self._disturb, self._cut_off))
        return [*found, partial(self._disturb, self._power_cut)] if self.sim.actors else found

    def _disturb(self, fault: Happening) -> None:
        self.faults -= 1
        fault()

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


class _Made:
    """Machines that are there at run time, on a path of the model, which has all of them from the start."""

    def __init__(self, one: Drawn) -> None:
        self._of = {(role, i): actor for actor in one.known.world.layout.actors for role, i in actor.machines}
        self._below = {name for name, role in one.system.roles.items() if role.parent is not None}
        self._standing, self._origin = one.system.standing, ""
        self._there: set[str] = set()

    def may_take(self, action: Action) -> bool:
        """Returns whether a local event or timer comes to a machine that is there, or begins one of the run's own."""
        if action.kind not in ("local", "tick") or action.role is None:
            return True
        if self._standing and action.role not in self._below:
            return True
        name, actor = self._name(action.role, action.instance), self._of[action.role, action.instance].name
        begins = action.kind == "local" and action.role not in self._below and self._origin in ("", actor)
        return name in self._there or begins

    def taken(self, action: Action, step: Step) -> None:
        if action.role is None or action.transition is None:
            return
        self._origin = self._origin or self._of[action.role, action.instance].name
        self._there |= {self._name(action.role, action.instance), *(driven.machine for driven in step.driven)}

    def _name(self, role: str, instance: int) -> str:
        return f"{role}[{instance}]"


def path_under(one: Drawn, properties: RunProperties, chance: Random, most: int) -> Run | None:
    """A path of the model by chance, so many steps long at most, on which faults come as soon as they may; None: none.

    Args:
        one: the system.
        properties: of the system under a budget of faults.
        chance: draws the steps.
        most: steps.
    """
    world, made = properties.world, _Made(one)
    paths, state = Paths(world, (), Labels()), world.initial_states()[0]
    left, initial, steps = world.budgeted, paths.snapshot(state), list[Step]()
    for _ in range(most):
        try:
            every = [*world.successors(state, left)]
        except SpecFault:  # what was drawn is wrong there
            break
        possible = [
            (a, s)
            for a, s in every
            if world.within_bounds(s) and faults_left(left, a.cost) is not None and made.may_take(a)
        ]
        if not possible:
            break
        faults = [(a, s) for a, s in possible if a.cost]
        action, after = chance.choice(faults if faults and steps and chance.random() < 0.4 else possible)
        steps.append(paths.describe(state, action, after))
        made.taken(action, steps[-1])
        state, left = after, faults_left(left, action.cost) or left
    return Run(initial, tuple(steps)) if steps else None
