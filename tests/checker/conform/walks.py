"""Logs of random runs of any system: real actors take what the specification allows, and some end and come back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.choices import Happening
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.cases.walk import WalkRun
from leasehold.checker.recovery.properties import RunProperties
from leasehold.impl.actor.ready import Decide
from leasehold.impl.core.values import to_plain
from leasehold.impl.events.event import AnyEvent, read
from leasehold.impl.policy.policy import Decision
from leasehold.spec.language.types import domain
from tests.systems import load

ROOT = Path(__file__).parents[3]
SYSTEMS = (
    "two_phase_commit",
    "three_phase_commit",
    "three_phase_commit_termination",
    "contention",
    "examples/mutex",
    "examples/register",
    "examples/ring",
    "lease",
    "tests/impl/actor/lodge",
    "tests/impl/actor/pipe",
    "tests/constructs/maps",
    "tests/constructs/captures",
    "tests/constructs/circle",
    "tests/constructs/urgent",
    "tests/checker/conform/depot",
)
Log = dict[str, list[AnyEvent]]


class _Enough(Exception):
    """The walk is long enough."""


class WordsFromOutside:
    """Clients, operators and policies say anything to any machine; what the specification does not allow is refused."""

    def __init__(self, run: WalkRun) -> None:
        self.run = run

    def say(self) -> None:
        sim, chance, lease = self.run.sim, self.run.chance, self.run.lease
        machine = chance.choice(self.run.monitor.properties.world.machines)
        name = self.run.replayer.machine((machine.role.name, machine.instance))
        actor, key = sim.actors.get(sim.players[name]), sim.key(lease, name)
        if actor is None:
            return
        held = actor.table.instances.get(key)
        if held is not None and machine.role.parent is None and chance.random() < 0.2:
            self._ask(partial(actor.recover, *key))
            return
        if not (events := machine.role.events):
            return
        event = chance.choice(sorted(events))
        fields = {f.name: to_plain(f.type, chance.choice(list(domain(f.type, (0, 2))))) for f in events[event].fields}
        if chance.random() < 0.5:
            epoch = held.state_epoch if held is not None and chance.random() < 0.5 else -1
            self._ask(partial(actor.queue.put_quietly, Decide(Decision(*key, event, fields, epoch))))
        elif held is not None:
            self._ask(partial(actor.tell, *key, event, fields))
        elif self.run.replayer.may_begin(name):
            self._ask(partial(actor.begin, *key, event, fields, sim.players))

    def _ask(self, request: Callable[[], Any]) -> None:
        answer = self.run.sim.loop.call(request)
        self.run.sim.loop.quiesce()
        if isinstance(answer, asyncio.Future) and answer.done():
            answer.exception()  # it was refused, as it may be


class CrashingWalk(WalkRun):
    """A walk from the first state, on which actors end, so many steps long."""

    def __init__(self, known: KnownSystem, properties: RunProperties, seed: int, steps: int) -> None:
        super().__init__(known.program, properties, Script((), "walk", str(seed), (), 0, ()))
        self.left, self.crashes = steps, 3
        self.words = WordsFromOutside(self)

    def until_recovered(self) -> None:
        self.sim.release(packets=False)
        try:
            self._go_on()
        except _Enough:
            self.outcome.end = "long enough"

    def _restarts(self) -> list[Happening]:
        self.left -= 1
        if self.left < 0:
            raise _Enough
        running = sorted(self.sim.actors)
        crash = bool(self.crashes and running) and self.chance.random() < 0.2
        said = [self.words.say] if running and self.chance.random() < 0.2 else []
        return super()._restarts() + said + ([partial(self._crash, self.chance.choice(running))] if crash else [])

    def _crash(self, name: str) -> None:
        self.crashes -= 1
        self.sim.crash(name)
        self.monitor.passed("crash")

    @property
    def log(self) -> Log:
        return {name: [*map(read, bodies)] for name, bodies in self.sim.events().items()}


@cache
def known(name: str) -> KnownSystem:
    return KnownSystem(load(name if "/" not in name else ROOT / name))


@cache
def properties(name: str) -> RunProperties:
    return RunProperties(known(name).system)


@cache
def walked(name: str, seed: int, steps: int = 40) -> Log:
    """The logs of all actors on a walk."""
    with silent():
        run = CrashingWalk(known(name), properties(name), seed, steps)
        run.run()
        found = run.log
        run.close()
    return found


def judged(
    of: KnownSystem, log: Mapping[str, list[AnyEvent]], pruned: int = 0
) -> tuple[list[Nonconformity], list[JudgedLog]]:
    """Returns what is wrong with logs, and what was judged."""
    conformance = LogConformance(of, [JudgedLog(actor, pruned=pruned) for actor in log])
    for event in conformance.merged(log.items()):
        conformance.take(event)
    conformance.end()
    return conformance.findings, conformance.judged


def seeds(count: int) -> Iterator[int]:
    return iter(random.Random(21).sample(range(10_000), count))
