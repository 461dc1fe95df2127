"""Plans of random runs: what clients want and what fails, made of a seed, written down, and made smaller.

Theory of operation. A plan is a list of acts, each at a tick. It is made of a seed in the manner of swarm testing
(Groce et al., ISSTA 2012): each plan has only some of the kinds of faults, so that those it has come often and others
do not hide what they do. A plan alone decides a run, so that acts can be left out of one that fails while it still
fails, until none can be spared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

ACTORS = ("service_manager", "broker", "site")
FAULTS = ("crash", "crash_within", "cut", "weather", "disk", "handler", "power", "skew")


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that happens.

    Attributes:
        tick: when.
        kind: `demand`, `flex`, `prolong` or `stop` by a client; else a fault.
        who: of which lease, by its number, or which actor.
        numbers: what the kind needs: units, until, term; how long.
        more: a word that the kind needs.
    """

    tick: int
    kind: str
    who: str = ""
    numbers: tuple[int, ...] = ()
    more: str = ""

    def __str__(self) -> str:
        words = " ".join(filter(None, (self.who, *map(str, self.numbers), self.more)))
        return f"tick {self.tick}: {self.kind} {words}".rstrip()


@dataclass(frozen=True, slots=True)
class Plan:
    """A run.

    Attributes:
        seed: of everything that the acts leave to chance.
        units: of the site.
        lazy: whether the site keeps expired leases.
        ticks: for how long faults come; then all is well, and everything has to come to rest.
        acts: in the order of ticks.
    """

    seed: int
    units: int
    lazy: bool
    ticks: int
    acts: tuple[Act, ...]

    def __str__(self) -> str:
        head = f"seed {self.seed}, {self.units} units, {'lazy' if self.lazy else 'eager'} site, {self.ticks} ticks"
        return "\n".join([head, *(f"  {act}" for act in self.acts)])


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(seed)
    units, ticks = chance.randint(1, 3), chance.randint(4, 12)
    kinds = [fault for fault in FAULTS if chance.random() < (0.1 if fault == "skew" else 0.4)]
    acts = [*_clients(chance, units, ticks)]
    for kind in kinds:
        acts += [_fault(chance, kind, ticks) for _ in range(chance.randint(1, 2))]
    order = sorted(acts, key=lambda act: act.tick)
    return Plan(seed, units, chance.random() < 0.7, ticks, tuple(order))


def _clients(chance: random.Random, units: int, ticks: int) -> Iterator[Act]:
    for number in range(1, chance.randint(1, 3) + 1):
        at = chance.randint(0, ticks // 2)
        until = at + chance.randint(2, ticks + 2)
        yield Act(at, "demand", str(number), (chance.randint(1, units), until, chance.randint(1, 5)))
        for kind in ("flex", "prolong", "stop"):
            if chance.random() < 0.3:
                when = chance.randint(at, ticks)
                wanted = chance.randint(1, units) if kind == "flex" else when + chance.randint(1, 5)
                yield Act(when, kind, str(number), () if kind == "stop" else (wanted,))


def _fault(chance: random.Random, kind: str, ticks: int) -> Act:
    at, long = chance.randint(0, ticks - 1), chance.randint(1, 3)
    actor = chance.choice(ACTORS)
    match kind:
        case "crash":
            return Act(at, kind, actor, (chance.randint(0, 3),))
        case "crash_within":
            return Act(at, kind, actor, (chance.randint(1, 12), chance.randint(0, 2)))
        case "cut":
            other = chance.choice([a for a in ACTORS if a != actor])
            return Act(at, kind, actor, (long,), f"{other}{chance.choice(['', ' both ways'])}")
        case "weather":
            return Act(at, kind, "", (long, chance.randint(1, 6), chance.randint(0, 4), chance.randint(0, 3)))
        case "disk":
            return Act(at, kind, actor, (long,), chance.choice(["FULL", "READ_ONLY", "FSYNC"]))
        case "handler":
            return Act(at, kind, "", (long, chance.randint(0, 1)), chance.choice(["setup", "modify", "teardown"]))
        case "skew":
            return Act(at, kind, actor, (chance.choice([-2, -1, 1, 2]),))
        case _:
            return Act(at, kind, "", (chance.randint(0, 2),))


def shrunk(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """A smaller plan that still fails: no act of it can be left out (delta debugging, Zeller and Hildebrandt 2002)."""
    size = max(1, len(plan.acts) // 2)
    while True:
        smaller = next(filter(fails, _without(plan, size)), None)
        if smaller is not None:
            plan = smaller
            size = min(size, max(1, len(plan.acts) // 2))
        elif size > 1:
            size //= 2
        else:
            return plan


def _without(plan: Plan, size: int) -> Iterator[Plan]:
    acts: Sequence[Act] = plan.acts
    for first in range(0, len(acts), size):
        if len(acts) > first:
            yield replace(plan, acts=(*acts[:first], *acts[first + size :]))
