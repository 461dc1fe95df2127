"""Plans of random runs: the demands of clients and the faults, made from a seed, and shrunk.

Theory of operation. A plan is a list of events, each at a tick. It is made from a seed by swarm testing (Groce et al.,
ISSTA 2012): each plan has only some of the kinds of faults, so that those it has occur often and others do not hide
their effects. A plan alone decides a run, so a plan that fails is shrunk: events are left out while it still fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from leasehold.faults.simulation.partition import ActorPartition, drawn_partition

ACTORS = ("service_manager", "broker", "site")
FAULTS = ("crash", "crash_within", "cut", "weather", "disk", "handler", "power", "skew", "lose")
LONGEST_TERM = 5  # ticks for which the guests of a lease may run
LONGEST_LEASE = LONGEST_TERM + 2  # they leave in the last of them
DRIFTING, DRIFTS = 0.5, (-30, -10, 10, 30)  # the share, of plans whose clocks differ, with a rate that differs; percent
PARTED = 0.3  # the share of plans with a partition that is longer than a term
VERBS = ("setup", "modify", "teardown", "join", "leave")  # of the handlers of units and of guests


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event of a plan: a client's demand, or a fault.

    Attributes:
        tick: when.
        kind: `demand`, `flex`, `prolong` or `stop` by a client; else a fault.
        who: the number of a lease, or an actor.
        numbers: arguments of the kind: units, until, term, start; how long; the number of a unit that is lost, and
            whether a detector tells the site of it at once.
        more: an argument of the kind that is a word.
    """

    tick: int
    kind: str
    who: str = ""
    numbers: tuple[int, ...] = ()
    more: str = ""

    @property
    def partition(self) -> ActorPartition:
        """The partition, of a `cut` or `partition`."""
        other, _, both = self.more.partition(" ")
        return ActorPartition(self.who, other, both=bool(both))

    def __str__(self) -> str:
        details = " ".join(filter(None, (self.who, *map(str, self.numbers), self.more)))
        return f"tick {self.tick}: {self.kind} {details}".rstrip()


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of a run.

    Attributes:
        seed: of everything random that the events leave open.
        units: of the site.
        lazy: whether the site keeps expired leases.
        ticks: for how long faults occur; then the actors have to come to rest.
        acts: the events, in the order of ticks.
    """

    seed: int
    units: int
    lazy: bool
    ticks: int
    acts: tuple[PlannedEvent, ...]

    def __str__(self) -> str:
        head = f"seed {self.seed}, {self.units} units, {'lazy' if self.lazy else 'eager'} site, {self.ticks} ticks"
        return "\n".join([head, *(f"  {act}" for act in self.acts)])


def plan_of(seed: int) -> RunPlan:
    """The plan of a seed."""
    chance = random.Random(seed)
    units, ticks = chance.randint(1, 3), chance.randint(4, 12)
    kinds = [fault for fault in FAULTS if chance.random() < (0.1 if fault == "skew" else 0.4)]
    acts = [*_clients(chance, units, ticks)]
    for kind in kinds:
        acts += [_fault(chance, kind, ticks) for _ in range(chance.randint(1, 2))]
    parted = random.Random(f"partition {seed}")  # of its own: the rest of a plan is as it is without one
    drifting = random.Random(f"drift {seed}")  # likewise
    if "skew" in kinds and drifting.random() < DRIFTING:
        acts.append(PlannedEvent(drifting.randint(0, 2), "drift", drifting.choice(ACTORS), (drifting.choice(DRIFTS),)))
    demands = [act.tick for act in acts if act.kind == "demand"]
    if demands and parted.random() < PARTED:
        partition, long = drawn_partition(parted, ACTORS, LONGEST_LEASE)
        at = min(demands) + parted.randint(1, 3)  # when the first lease may be there
        ticks = max(ticks, at + long)
        acts.append(PlannedEvent(at, "partition", partition.one, (long,), _direction(partition)))
    order = sorted(acts, key=lambda act: act.tick)
    return RunPlan(seed, units, chance.random() < 0.7, ticks, tuple(order))


def _clients(chance: random.Random, units: int, ticks: int) -> Iterator[PlannedEvent]:
    for number in range(1, chance.randint(1, 3) + 1):
        at = chance.randint(0, ticks // 2)
        until = at + chance.randint(2, ticks + 2)
        start = chance.randint(at, until - 1) if chance.random() < 0.2 else 0  # an advance reservation
        yield PlannedEvent(
            at, "demand", str(number), (chance.randint(1, units), until, chance.randint(1, LONGEST_TERM), start)
        )
        for kind in ("flex", "prolong", "stop"):
            if chance.random() < 0.3:
                when = chance.randint(at, ticks)
                wanted = chance.randint(1, units) if kind == "flex" else when + chance.randint(1, 5)
                yield PlannedEvent(when, kind, str(number), () if kind == "stop" else (wanted,))


def _fault(chance: random.Random, kind: str, ticks: int) -> PlannedEvent:
    at, long = chance.randint(0, ticks - 1), chance.randint(1, 3)
    actor = chance.choice(ACTORS)
    match kind:
        case "crash":
            return PlannedEvent(at, kind, actor, (chance.randint(0, 3),))
        case "crash_within":
            return PlannedEvent(at, kind, actor, (chance.randint(1, 12), chance.randint(0, 2)))
        case "cut":
            other = chance.choice([a for a in ACTORS if a != actor])
            partition = ActorPartition(actor, other, both=chance.choice([False, True]))
            return PlannedEvent(at, kind, actor, (long,), _direction(partition))
        case "weather":
            return PlannedEvent(at, kind, "", (long, chance.randint(1, 6), chance.randint(0, 4), chance.randint(0, 3)))
        case "disk":
            return PlannedEvent(at, kind, actor, (long,), chance.choice(["FULL", "READ_ONLY", "FSYNC"]))
        case "handler":
            return PlannedEvent(at, kind, "", (long, chance.randint(0, 1)), chance.choice(VERBS))
        case "lose":
            return PlannedEvent(at, kind, "", (chance.randint(0, 2), chance.randint(0, 1)))
        case "skew":
            return PlannedEvent(at, kind, actor, (chance.choice([-2, -1, 1, 2]),))
        case _:
            return PlannedEvent(at, kind, "", (chance.randint(0, 2),))


def _direction(partition: ActorPartition) -> str:
    return f"{partition.other}{' both ways' if partition.both else ''}"


def shrunk(plan: RunPlan, fails: Callable[[RunPlan], bool]) -> RunPlan:
    """A smaller plan that still fails: no event can be left out (delta debugging, Zeller and Hildebrandt 2002)."""
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


def _without(plan: RunPlan, size: int) -> Iterator[RunPlan]:
    acts: Sequence[PlannedEvent] = plan.acts
    for first in range(0, len(acts), size):
        if len(acts) > first:
            yield replace(plan, acts=(*acts[:first], *acts[first + size :]))
