"""The explorer under faults against a deliberately dumb twin.

The twin knows nothing of ranks, labels or crash points. Its messages carry absolute sequence numbers, of which the
sender's record has the last one used and the receiver's the last one received; an actor is up, down or gone; what is
left of the budget is part of a state; a step commits, works and acknowledges, and an actor may stop between any two of
these. It walks the model word by word and shares no code with the explorer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.reference import Reference
from leasehold.faults import Budget
from leasehold.faults.lowering import cuts
from leasehold.spec import System, shipped_folder
from leasehold.spec.language import types as t
from leasehold.spec.language.build_fields import constant_value
from leasehold.spec.language.evaluate import Context, InTransit, evaluate
from leasehold.spec.language.expression import Argument, mentions
from leasehold.spec.language.model import Call, Drive, Role, Send, Transition
from leasehold.spec.language.parts import expressions
from tests.checker.explore.by_chance import by_chance, written
from tests.checker.explore.test_faulty import ASKER, TELLER
from tests.systems import TRUTH, load

Machine = tuple[str, int]
Way = tuple[str, int, int]  # channel, sender and receiver
UP, DOWN, GONE = "up", "down", "gone"
COUNTED = ("crash", "power_cut", "halt", "duplicate", "lose", "reorder", "partition", "amnesia")
NOTHING: dict[str, float] = {}


@dataclass
class World:
    """A global state."""

    twin: Twin
    state_of: dict[Machine, str]
    data_of: dict[tuple[str, int, str], Any]
    sent: dict[Way, int]  # in the sender's record: the last number used
    received: dict[Way, int]  # in the receiver's record
    way: dict[Way, list[tuple[int, str, tuple[Any, ...]]]]
    now: int
    up: dict[str, str]
    cut: frozenset[str]  # one side of the partition; empty without one
    lead: dict[str, int]
    left: dict[str, float]
    passed: dict[Machine, dict[str, Any]] = field(default_factory=dict)  # what a step passes to its work, meanwhile

    def copy(self) -> World:
        lanes = {k: list(v) for k, v in self.way.items()}
        return World(
            self.twin, dict(self.state_of), dict(self.data_of), dict(self.sent), dict(self.received), lanes, self.now,
            dict(self.up), self.cut, dict(self.lead), dict(self.left),
        )  # fmt: skip

    def shape(self) -> Any:
        """The state in the form in which it is compared; what numbers mean is their order."""
        lanes = []
        for lane, queue in self.way.items():
            kind = self.twin.system.channels[lane[0]].kind
            if kind != "mailbox":
                flat = [(k, f) for _, k, f in queue]
                lanes.append(tuple(flat) if kind == "fifo" else tuple(sorted(flat, key=repr)))
                continue
            last = self.received[lane]
            used = {n for n, _, _ in queue if n > last} | ({self.sent[lane]} if self.sent[lane] > last else set())
            rank = {last: 0} | {n: i + 1 for i, n in enumerate(sorted(used))}
            lanes.append((rank[self.sent[lane]], tuple((rank[n], k, f) for n, k, f in queue if n >= last)))
        return (
            tuple(self.state_of.values()), tuple(self.data_of.values()), tuple(lanes), self.now,
            tuple(self.up.values()), self.twin.side(self.cut), tuple(self.lead.values()),
        )  # fmt: skip

    def key(self) -> Any:
        return self.shape(), tuple(self.left.values())

    # The view of expressions

    def data(self, role: str, instance: int, name: str) -> Any:
        passed = self.passed.get((role, instance), {})
        return passed[name] if name in passed else self.data_of[role, instance, name]

    def state(self, role: str, instance: int) -> str:
        return self.state_of[role, instance]

    def pending(self, name: str) -> Iterator[InTransit]:
        for lane, queue in self.way.items():
            numbered = self.twin.system.channels[lane[0]].kind == "mailbox"
            for number, kind, fields in queue:
                if name in (kind, lane[0]):
                    names = [f.name for f in self.twin.system.messages[kind].fields]
                    rank = number - self.received[lane] if numbered else 1
                    yield InTransit(kind, dict(zip(names, fields, strict=True)), rank, number == self.sent[lane])

    def heard(self, name: str) -> bool:
        return all(self.sent[lane] <= self.received[lane] for lane in self.way if lane[0] == name)

    def running(self, role: str, instance: int) -> bool:
        return self.up[self.twin.actor[role, instance]] == UP

    def reachable(self, role: str, instance: int, other_role: str, other: int) -> bool:
        one, two = self.twin.actor[role, instance], self.twin.actor[other_role, other]
        return (one in self.cut) == (two in self.cut)

    def byzantine(self, role: str) -> bool:
        return False


@dataclass(frozen=True)
class Step:
    """What happened: a fault or not, what it took of the budget, and the group that asks for fairness."""

    kind: str
    after: World
    cost: Mapping[str, float] = field(default_factory=dict)
    group: Any = None
    took: str = ""  # the transition
    received: bool = False

    @property
    def fault(self) -> bool:
        return self.kind in ("crash", "lose", "partition", "skew", "halt", "amnesia") or any(
            self.cost.get(f) for f in ("duplicate", "reorder")
        )


class Impossible(Exception):
    """There is no room for a message."""


class Twin:
    """The meaning of a system.

    Two kinds of stop are left out by the explorer, as nothing comes of them that other stops do not bring about:
    `more_stops` has them too, a halt within a step, and a crash of an actor that has answered a duplicate.
    """

    def __init__(self, system: System, budget: Budget, more_stops: bool = False) -> None:
        self.system, self.budget, self.more_stops = system, budget, more_stops
        self.actor: dict[Machine, str] = {}
        for name, roles in system.actors.items():
            self.actor.update({(r.name, i): name for r, i in system.machines() if r.name in roles})
        for r, i in system.machines():
            self.actor.setdefault((r.name, i), f"{r.name}[{i}]" if r.indexed else r.name)
        self.actors = list(dict.fromkeys([*system.actors, *self.actor.values()]))
        self.constants = system.values()

    def side(self, cut: frozenset[str]) -> Any:
        """A partition, whichever of its sides it was named by."""
        return frozenset([cut, frozenset(self.actors) - cut]) if cut else None

    def say(self, world: World, e: Any, me: int = 0, arguments: Any = None, sender: int = 0, **variables: Any) -> Any:
        return evaluate(e, Context(world, self.constants, me, arguments or {}, sender, variables))

    def by_own_clock(self, world: World, machine: Machine) -> World:
        """The world as a machine sees it."""
        if not world.lead:
            return world
        return replace(world, now=world.now + world.lead.get(self.actor[machine], 0))

    # First states

    def first(self) -> list[World]:
        system = self.system
        machines = list(system.machines())
        lanes = [
            (c.name, i, j)
            for c in system.channels.values()
            for i in range(system.roles[c.sender].count)
            for j in range(system.roles[c.receiver].count)
            if i == j or not c.same_index
        ]
        names = [(r.name, i, d) for r, i in machines for d in r.data.values()]
        names += [("shared", 0, d) for d in system.shared.values()]
        choices = [list(t.domain(d.type, None)) if d.any_initial else [d.initial] for _, _, d in names]
        left = {k: math.inf if v == "any" else float(v) for k in COUNTED for v in [getattr(self.budget, k)]}
        worlds = []
        for values in product(*choices):
            world = World(
                self, {(r.name, i): r.first(i).name for r, i in machines},
                {(r, i, d.name): v for (r, i, d), v in zip(names, values, strict=True)},
                dict.fromkeys(lanes, 0), dict.fromkeys(lanes, 0), {lane: [] for lane in lanes}, 0,
                dict.fromkeys(self.actors, UP), frozenset(),
                dict.fromkeys(self.actors, 0) if self.budget.skew and system.clock else {}, left,
            )  # fmt: skip
            if system.initially is None or self.say(world, system.initially):
                worlds.append(world)
        return worlds

    # Steps

    def steps(self, world: World) -> Iterator[Step]:
        for step in chain(
            self.local(world), self.ticks(world), self.deliveries(world), self.time(world), self.losses(world),
            self.stops(world), self.recoveries(world), self.retries(world), self.partitions(world),
            self.amnesias(world),
        ):  # fmt: skip
            after = step.after.copy() if step.cost else step.after
            for fault, cost in step.cost.items():
                after.left[fault] -= cost
            if all(n >= 0 for n in after.left.values()):
                yield replace(step, after=after)

    def local(self, world: World) -> Iterator[Step]:
        for role, i in self.system.machines():
            if not world.running(role.name, i):
                continue
            here = role.states[world.state_of[role.name, i]]
            for event, task, group in self.events(world, role, i):
                for arguments in self.arguments(self.by_own_clock(world, (role.name, i)), role, event):
                    if event in here.on and self.allowed(world, role, i, event, arguments, task):
                        yield from self.consume(world, role, i, event, arguments, 0, group)

    def events(self, world: World, role: Role, i: int) -> Iterator[tuple[str, Call | Drive | None, Any]]:
        for name in role.states[world.state_of[role.name, i]].tasks:
            task = role.tasks[name]
            if not isinstance(task, Send):
                yield from ((answer, task, ("task", role.name, i, name)) for answer in task.answers)
        answered = {a for task in role.tasks.values() if not isinstance(task, Send) for a in task.answers}
        for outside in self.system.environment.values():
            if outside.role == role.name and outside.event not in answered:
                yield outside.event, None, ("outside", outside.name, i) if outside.fair else None

    def arguments(self, world: World, role: Role, event: str) -> Iterator[dict[str, Any]]:
        fields = self.system.fields_of(role.name, event)
        ranges = []
        for f in fields:
            ends = f.explore and tuple(constant_value(e, self.constants, world.now) for e in f.explore)
            ranges.append([v for v in t.domain(f.type, ends or None) if t.in_range(f.type, v)])
        for values in product(*ranges):
            yield dict(zip([f.name for f in fields], values, strict=True))

    def allowed(self, world: World, role: Role, i: int, event: str, arguments: Any, task: Call | Drive | None) -> bool:
        if task is not None and task.when is not None and not self.say(world, task.when, i):
            return False
        if isinstance(task, Drive) and not self.say(world, task.answers[event], i):
            return False
        words = [o for o in self.system.environment.values() if (o.role, o.event) == (role.name, event)]
        return not words or any(o.when is None or self.say(world, o.when, i, arguments, it=i) for o in words)

    def taken(self, world: World, role: Role, i: int, event: str, arguments: Any, sender: int) -> Transition | None:
        seen = self.by_own_clock(world, (role.name, i))
        for transition in role.states[world.state_of[role.name, i]].on.get(event, ()):
            if transition.guard is None or self.say(seen, transition.guard, i, arguments, sender):
                return transition
        return None

    def ticks(self, world: World) -> Iterator[Step]:
        for role, i in self.system.machines():
            if world.running(role.name, i):
                yield from self.consume(world, role, i, "tick", {}, 0, ("tick", role.name, i))

    def consume(
        self, world: World, role: Role, i: int, event: str, arguments: Any, sender: int, group: Any,
    ) -> Iterator[Step]:  # fmt: skip
        transition = self.taken(world, role, i, event, arguments, sender)
        if transition is not None:
            yield from self.carried_out(world, world, role, i, transition, arguments, sender, NOTHING, group)

    def carried_out(
        self, world: World, acknowledged: World, role: Role, i: int, transition: Transition | None, arguments: Any,
        sender: int, cost: Mapping[str, float], group: Any, work: list[Any] | None = None,
    ) -> Iterator[Step]:  # fmt: skip
        """A step from its commit on: what it does, and every stop on the way.

        `world` has the received number in it, and the message still on its way; in `acknowledged` that is gone. `work`
        is what is to be done again where no transition is taken.
        """
        fresh = work is None
        machine = role.name, i
        received = world is not acknowledged

        def committed(base: World) -> World:
            after = base.copy()
            if transition is not None:
                self.commit(after, role, i, transition, arguments, sender)
            return after

        if work is None:
            work = self.work(committed(world), role, i, transition) if transition is not None else []
        if fresh:  # numbers are committed with the record
            lanes = [lane for lane in (self.lane_of(role, i, *piece) for piece in work) if lane is not None]
        else:
            lanes = []

        def done(base: World, pieces: Sequence[Any]) -> World:
            after = committed(base)
            for lane in lanes:
                after.sent[lane] += 1
            for piece in work:
                lane = self.lane_of(role, i, *piece)
                if piece in pieces or (lane is not None and self.is_durable(lane)):
                    self.do(after, role, i, *piece, again=not fresh)
            after.passed.clear()
            return after

        name = transition.name if transition is not None else ""
        try:
            yield Step("step", done(acknowledged, work), cost, None if cost else group, name, received)
        except Impossible:
            return
        for part in subsets(work) if self.may_stop(world) and (fresh or self.more_stops) else ():
            yield from self.stopped(done(world, part), self.actor[machine], cost)

    def may_stop(self, world: World) -> bool:
        return any(world.left[fault] for fault in ("crash", "power_cut", "halt"))

    def stopped(self, world: World, actor: str, cost: Mapping[str, float]) -> Iterator[Step]:
        """Every way for an actor to stop here, alone or with others."""
        nodes = [names for names in self.system.faults.nodes.values() if actor in names]
        for fault, names in [("crash", (actor,)), *(("crash", n) for n in nodes), ("power_cut", self.actors)]:
            if not world.left[fault]:
                continue
            after = world.copy()
            after.up.update({a: DOWN for a in names if after.up[a] == UP})
            yield Step("crash", after, {**cost, fault: 1})
        if world.left["halt"] and self.more_stops:
            after = world.copy()
            after.up[actor] = GONE
            yield Step("halt", after, {**cost, "halt": 1})

    def commit(self, world: World, role: Role, i: int, transition: Transition, arguments: Any, sender: int) -> None:
        seen = self.by_own_clock(world, (role.name, i))
        updates = [
            (("shared", 0, u.name) if u.shared else (role.name, i, u.name),
             u.key and (u.key.type, self.say(seen, u.key, i, arguments, sender)),
             self.say(seen, u.value, i, arguments, sender))
            for u in transition.updates
        ]  # fmt: skip
        passed = {u.name: self.say(seen, u.value, i, arguments, sender) for u in transition.passes}
        for place, key, value in updates:
            if key:
                cells = list(world.data_of[place])
                cells[t.position(*key)] = value
                value = tuple(cells)
            world.data_of[place] = value
        world.state_of[role.name, i] = transition.target
        world.passed[role.name, i] = passed

    def work(self, world: World, role: Role, i: int, transition: Transition | None) -> list[tuple[str, int]]:
        """The pieces of a work list that show in the model: a task, and whom it is for. Without a transition: W(x)."""
        names = role.states[world.state_of[role.name, i]].tasks
        if transition is not None:
            names = (*(() if transition.internal else names), *transition.also)
        found, passed = [], world.passed.get((role.name, i), {})
        for name in names:
            task = role.tasks[name]
            if transition is None and any(mentions(e, lambda n: isinstance(n, Argument)) for e in expressions(task)):
                continue  # nothing keeps what it reads of the step
            if isinstance(task, Call) or (task.when is not None and not self.say(world, task.when, i, passed)):
                continue
            other = self.system.roles[task.receiver if isinstance(task, Send) else task.role]
            for j in range(other.count):
                if task.only is None or self.say(world, task.only, i, passed, it=j):
                    found.append((name, j))
        return [p for p in found if not isinstance(role.tasks[p[0]], Send) or self.lane_of(role, i, *p) in world.way]

    def lane_of(self, role: Role, i: int, name: str, j: int) -> Way | None:
        task = role.tasks[name]
        return (self.system.channel_between(role.name, task.receiver).name, i, j) if isinstance(task, Send) else None

    def do(self, world: World, role: Role, i: int, name: str, j: int, again: bool) -> None:
        """A piece of work; the number of a message is the last one that the record says was used."""
        task = role.tasks[name]
        assert not isinstance(task, Call)
        passed = world.passed.get((role.name, i), {})
        values = {n: self.say(world, e, i, passed, it=j) for n, e in task.fields.items()}
        if isinstance(task, Drive):
            other = self.system.roles[task.role]
            driven = self.taken(world, other, j, task.event, values, 0)
            if driven is not None:
                self.commit(world, other, j, driven, values, 0)
                for piece in self.work(world, other, j, driven):
                    if (lane := self.lane_of(other, j, *piece)) is not None:
                        world.sent[lane] += 1
                    self.do(world, other, j, *piece, again=False)
            return
        lane = self.lane_of(role, i, name, j)
        assert lane is not None
        if again and self.is_durable(lane):
            return
        channel, queue = self.system.channels[lane[0]], world.way[lane]
        fields = tuple(values[f.name] for f in self.system.messages[task.message].fields)
        entry = (world.sent[lane], task.message, fields)
        if channel.kind == "mailbox":
            older = [m for m in queue if m[1] == task.message and m[0] > world.received[lane]]
            if not again:  # of a kind, the newest and the one before it
                queue[:] = [m for m in queue if m not in older[:-1]]
            if entry not in queue:
                queue.append(entry)
                queue.sort(key=lambda m: m[0])
            return
        if channel.kind == "set" and any(m[1:] == entry[1:] for m in queue):
            return
        if channel.capacity is not None and len(queue) >= channel.capacity:
            raise Impossible
        queue.append(entry)

    def is_durable(self, lane: Way) -> bool:
        """Whether messages are sent with the commit, and are gone with the receiver's."""
        return self.system.channels[lane[0]].kind == "fifo"

    # Messages

    def deliveries(self, world: World) -> Iterator[Step]:
        for lane, queue in world.way.items():
            channel = self.system.channels[lane[0]]
            sender, receiver = (channel.sender, lane[1]), (channel.receiver, lane[2])
            if not world.running(*receiver) or not world.reachable(*sender, *receiver):
                continue
            seen = []
            for at, entry in enumerate(queue):
                if entry[1:] in seen and channel.kind in ("bag", "multiset", "set"):
                    continue
                seen.append(entry[1:])
                early = at > 0 and channel.kind in ("fifo", "mailbox")
                if channel.kind == "mailbox":  # a late copy holds up nothing
                    early = any(world.received[lane] < m[0] < entry[0] for m in queue)
                for twice in (False, True):
                    cost = {f: 1 for f, is_so in (("reorder", early), ("duplicate", twice)) if is_so}
                    if cost and (channel.kind == "set" or self.is_durable(lane)):
                        continue
                    if all(world.left[f] for f in cost):
                        yield from self.delivered(world, lane, at, twice, cost)

    def delivered(self, world: World, lane: Way, at: int, twice: bool, cost: Mapping[str, float]) -> Iterator[Step]:
        channel = self.system.channels[lane[0]]
        role, i = self.system.roles[channel.receiver], lane[2]
        number, kind, fields = world.way[lane][at]
        left = world.copy()
        if not twice and channel.kind != "set":
            del left.way[lane][at]
        group = ("way", lane)
        if channel.kind == "mailbox" and number == world.received[lane]:
            again = []
            if not self.system.messages[kind].answer:
                again = [
                    (name, j)
                    for name, j in self.work(world, role, i, None)
                    if isinstance(task := role.tasks[name], Send) and (task.receiver, j) == (channel.sender, lane[1])
                ]
            yield from self.carried_out(world, left, role, i, None, {}, 0, cost, group, again)
            return
        kept = world.copy()
        if self.is_durable(lane) and not twice:
            del kept.way[lane][at]
        for after in (kept, left):
            after.received[lane] = number
            if channel.kind == "mailbox":
                after.way[lane][:] = [m for m in after.way[lane] if m[0] >= number]
        names = [f.name for f in self.system.messages[kind].fields]
        arguments = dict(zip(names, fields, strict=True))
        transition = self.taken(world, role, i, kind, arguments, lane[1])
        if transition is None and channel.kind in ("multiset", "set"):
            return
        yield from self.carried_out(kept, left, role, i, transition, arguments, lane[1], cost, group)

    def losses(self, world: World) -> Iterator[Step]:
        for lane, queue in world.way.items():
            channel = self.system.channels[lane[0]]
            if channel.kind == "set" or self.is_durable(lane):
                continue
            cost = {"lose": 1} if world.running(channel.sender, lane[1]) else NOTHING
            for at in range(len(queue)) if world.left["lose"] or not cost else ():
                after = world.copy()
                del after.way[lane][at]
                yield Step("lose", after, cost)

    def amnesias(self, world: World) -> Iterator[Step]:
        """An actor's records are gone, and what its channels keep of it."""
        for actor in self.actors:
            if not world.left["amnesia"] or world.up[actor] == GONE:
                continue
            after = world.copy()
            after.up[actor] = DOWN
            for role, i in self.system.machines():
                if self.actor[role.name, i] == actor:
                    after.state_of[role.name, i] = role.first(i).name
                    after.data_of.update({(role.name, i, d.name): d.initial for d in role.data.values()})
            for lane in after.way:
                channel = self.system.channels[lane[0]]
                ends = [self.actor[channel.sender, lane[1]], self.actor[channel.receiver, lane[2]]]
                if actor in ends and channel.kind in ("mailbox", "fifo"):
                    after.way[lane] = []
                    after.sent[lane], after.received[lane] = int(ends[0] != actor), 0
            yield Step("amnesia", after, {"amnesia": 1})

    def retries(self, world: World) -> Iterator[Step]:
        """Where messages may be lost, a machine asks again for as long as it is not answered."""
        if not self.budget.lose and not self.budget.amnesia:
            return
        for role, i in self.system.machines():
            for name, j in self.work(world, role, i, None) if world.running(role.name, i) else ():
                lane, task = self.lane_of(role, i, name, j), role.tasks[name]
                if lane is None or self.system.channels[lane[0]].kind != "mailbox":
                    continue
                if not self.system.messages[task.message].answer and (  # type: ignore[union-attr]
                    self.is_lost(world, lane) or self.unanswered(world, lane)
                ):
                    after = world.copy()
                    self.do(after, role, i, name, j, again=True)
                    yield Step("retry", after, group=("retry", lane))

    def is_lost(self, world: World, lane: Way) -> bool:
        last = world.sent[lane]
        return last > world.received[lane] and all(m[0] != last for m in world.way[lane])

    def unanswered(self, world: World, lane: Way) -> bool:
        channel = self.system.channels[lane[0]]
        role = self.system.roles[channel.receiver]
        if world.received[lane] != world.sent[lane] or any(m[0] >= world.received[lane] for m in world.way[lane]):
            return False
        return world.running(role.name, lane[2]) and any(
            back is not None and self.system.channels[back[0]].kind == "mailbox" and self.is_lost(world, back)
            and (self.system.channels[back[0]].receiver, back[2]) == (channel.sender, lane[1])
            for back in (self.lane_of(role, lane[2], *piece) for piece in self.work(world, role, lane[2], None))
        )  # fmt: skip

    # Actors, the network and time

    def stops(self, world: World) -> Iterator[Step]:
        groups = [("crash", (a,)) for a in self.actors] + [("crash", n) for n in self.system.faults.nodes.values()]
        for fault, names in [*groups, ("power_cut", tuple(self.actors))]:
            if world.left[fault] and any(world.up[a] == UP for a in names):
                after = world.copy()
                after.up.update({a: DOWN for a in names if world.up[a] == UP})
                yield Step("crash", after, {fault: 1})
        for actor in self.actors:
            if world.left["halt"] and world.up[actor] != GONE:
                after = world.copy()
                after.up[actor] = GONE
                yield Step("halt", after, {"halt": 1})

    def recoveries(self, world: World) -> Iterator[Step]:
        for actor in self.actors:
            if world.up[actor] != DOWN:
                continue
            pieces = [
                (role, i, piece) for role, i in self.system.machines()
                if self.actor[role.name, i] == actor for piece in self.work(world, role, i, None)
            ]  # fmt: skip
            for part in subsets(pieces) if self.may_stop(world) else [pieces]:
                after = world.copy()
                try:
                    for role, i, piece in part:
                        self.do(after, role, i, *piece, again=True)
                except Impossible:
                    continue
                if part:
                    yield from self.stopped(after, actor, NOTHING)
                if part == pieces:
                    after = after.copy()
                    after.up[actor] = UP
                    yield Step("recover", after, group=("recover", actor))

    def partitions(self, world: World) -> Iterator[Step]:
        after = world.copy()
        if world.cut:
            after.cut = frozenset()
            yield Step("heal", after, group=("heal",))
            return
        for side in subsets(self.actors) if world.left["partition"] else ():
            if side and len(side) < len(self.actors):
                yield Step("partition", replace(after, cut=frozenset(side)), {"partition": 1})

    def is_due(self, world: World, actor: str | None = None) -> bool:
        return any(
            world.running(role.name, i) and actor in (None, self.actor[role.name, i])
            and self.taken(world, role, i, "tick", {}, 0) is not None
            for role, i in self.system.machines()
        )  # fmt: skip

    def time(self, world: World) -> Iterator[Step]:
        clock = self.system.clock
        if clock is None:
            return
        if world.now < clock.horizon and (clock.late or not self.is_due(world)):
            ahead = [a for a, n in world.lead.items() if n > 0]
            for still in subsets(ahead):
                after = world.copy()
                after.now += 1
                after.lead.update({a: world.lead[a] - 1 for a in still})
                yield Step("skew" if still else "clock", after, group=None if still else ("clock",))
        for actor, lead in world.lead.items():
            if lead < self.budget.skew and (clock.late or not self.is_due(world, actor)):
                after = world.copy()
                after.lead[actor] += 1
                yield Step("skew", after)

    def within_bounds(self, world: World) -> bool:
        if self.system.constraint is not None and not self.say(world, self.system.constraint):
            return False
        for role, i in self.system.machines():
            for d in role.data.values():
                if d.explore is not None:
                    low, high = (constant_value(e, self.constants, world.now) for e in d.explore)
                    if not low <= world.data_of[role.name, i, d.name] <= high:
                        return False
        return True


def subsets(items: Iterable[Any]) -> list[list[Any]]:
    found = list(items)
    return [list(c) for n in range(len(found) + 1) for c in combinations(found, n)]


@dataclass
class Whole:
    """The twin's whole graph; a state has its budget in it."""

    twin: Twin
    worlds: list[World] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    edges: list[list[tuple[Step, int]]] = field(default_factory=list)

    @property
    def shapes(self) -> set[Any]:
        return {w.shape() for w in self.worlds}


def whole(system: System, budget: Budget, more_stops: bool = False) -> Whole:
    twin = Twin(system, budget, more_stops)
    found = Whole(twin)
    number: dict[Any, int] = {}

    def visit(world: World, depth: int) -> int | None:
        key = world.key()
        if key not in number:
            if not twin.within_bounds(world):
                return None
            number[key] = len(found.worlds)
            found.worlds.append(world)
            found.depth.append(depth)
        return number[key]

    for world in twin.first():
        visit(world, 0)
    n = 0
    while n < len(found.worlds):
        steps = []
        for step in twin.steps(found.worlds[n]):
            target = visit(step.after, found.depth[n] + 1)
            if target is not None:
                steps.append((replace(step, after=found.worlds[target]), target))
        found.edges.append(steps)
        n += 1
    return found


def shape(world: Reference, state: Any) -> Any:
    """A state of the explorer in the form in which it is compared."""
    layout = world.layout
    lanes = []
    for lane in layout.lanes:
        content, kind = state[lane.cell], lane.channel.kind
        if kind == "mailbox":
            lanes.append(content)
        else:
            flat = [e[1:] for e in content]
            lanes.append(tuple(flat) if kind == "fifo" else tuple(sorted(flat, key=repr)))
    names = [a.name for a in layout.actors]
    parted = state[layout.added["partition", ""]] if ("partition", "") in layout.added else 0
    cut = list(cuts(names))[parted - 1] if parted else None
    return (
        tuple(state[layout.at(r.name, i, None)] for r, i in layout.system.machines()),
        (*(state[layout.at(r.name, i, d)] for r, i in layout.system.machines() for d in r.data),
         *(state[layout.at("shared", 0, d)] for d in layout.system.shared)),
        tuple(lanes), state[layout.clock] if layout.clock is not None else 0,
        tuple({True: UP, False: DOWN, None: GONE}[state[world.up[n]]] for n in names),
        frozenset([cut, frozenset(names) - cut]) if cut else None,
        tuple(state[layout.lead[n]] for n in names if n in layout.lead),
    )  # fmt: skip


def compare(system: System, budget: Budget) -> tuple[Exploration, Whole]:
    found, twin = explore(system, budget=budget), whole(system, budget)
    assert found.complete
    mine, its = {shape(found.paths.world, s) for s in found.paths.states}, twin.shapes
    assert len(mine) == found.distinct  # no two states of the explorer mean the same
    assert (len(mine - its), len(its - mine)) == (0, 0)
    return found, twin


# What follows from the twin's graph, by the definitions


def holds(found: Whole, e: Any, world: World) -> bool:
    return bool(found.twin.say(world, e))


def fair_stay(edges: Mapping[Any, list[tuple[Step, Any]]], among: set[Any]) -> bool:
    """Whether a fair run without faults can stay among these states for ever; it need not do what nothing asks for."""
    graph = nx.DiGraph()
    graph.add_nodes_from(among)
    graph.add_edges_from((n, m) for n in among for step, m in edges[n] if m in among and not step.fault)
    for part in nx.strongly_connected_components(graph):
        asked = [{step.group for step, _ in edges[n] if not step.fault and step.group is not None} for n in part]
        done = {step.group for n in part for step, m in edges[n] if m in part and not step.fault}
        if all(g in done for g in set.intersection(*asked)):
            return True
    return False


def fails_to_lead(found: Whole, name: str) -> bool:
    p = found.twin.system.properties[name]
    without = {n for n, w in enumerate(found.worlds) if not holds(found, p.claim, w)}
    todo = [n for n in without if p.when is None or holds(found, p.when, found.worlds[n])]
    seen = set(todo)
    while todo:
        for _, m in found.edges[todo.pop()]:
            if m in without and m not in seen:
                seen.add(m)
                todo.append(m)
    return fair_stay(dict(enumerate(found.edges)), seen)


def feasible(explored: Exploration, found: Whole, steps: Any) -> bool:
    """Whether the twin can go a path of the explorer, all within the budget."""
    snapshots = {shape(explored.paths.world, s): explored.paths.snapshot(s) for s in explored.paths.states}
    here = {n for n, d in enumerate(found.depth) if d == 0}
    for step in steps:
        kind = "step" if step.kind in ("deliver", "duplicate", "local", "tick") else step.kind
        here = {
            m for n in here for its, m in found.edges[n]
            if its.kind == kind and snapshots[found.worlds[m].shape()] == step.state
        }  # fmt: skip
    return bool(here)


@dataclass
class Convergence:
    """The recovery states of the twin's graph, with the steps between them that are no faults."""

    edges: dict[Any, list[tuple[Step, Any]]]
    astray: set[Any]
    ended: set[Any]

    @property
    def holds(self) -> bool:
        return not fair_stay(self.edges, self.astray)

    def worst(self, n: Any, count: Callable[[Step], int]) -> int:
        """The most of something on a way to a state that is not astray, of ways that go to no state twice."""

        def longest(at: Any, been: frozenset[Any]) -> int | None:
            if at not in self.astray:
                return 0
            ways = [
                count(step) + rest
                for step, m in self.edges[at]
                if m not in been and (rest := longest(m, been | {m})) is not None
            ]
            return max(ways, default=None)

        return longest(n, frozenset([n])) or 0


def converging(plain: Whole, found: Whole) -> Convergence:
    legal = plain.shapes
    edges: dict[Any, list[tuple[Step, Any]]] = {}
    for w, steps in zip(found.worlds, found.edges, strict=True):
        edges.setdefault(w.shape(), [(s, found.worlds[m].shape()) for s, m in steps if not s.fault])
    astray = {n for n in edges if (*n[:-1], ()) not in legal}  # clocks that are ahead, the last part, do not count
    ends = [end.holds for end in found.twin.system.ends or ()]
    by_shape = {w.shape(): w for w in found.worlds}
    ended = {n for n in astray if fair_stay(edges, {n}) and any(holds(found, e, by_shape[n]) for e in ends)}
    return Convergence(edges, astray - ended, ended)


# Systems


MESSAGES = "messages: {asked: {from: asker, to: teller}, told: {from: teller, to: asker, answer: true}}\n"
PROPERTIES = """
properties:
  ends: {when: asker.state == asking, leads_to: asker.state == done}
  told: {when: asker.state == asking, leads_to: teller.state == telling}
  returns: {when: asker.state == done, leads_to: asker.state == idle}
"""


def conversation(
    folder: Path, there: str = "mailbox", back: str = "mailbox", ask: str = "fair: true", once: bool = True
) -> System:
    """Where a question may come twice, and that has no numbers to tell, its teller does not count."""
    return written(folder, {
        "system.yaml": f"""system: conversation
roles: {{asker: {{}}, teller: {{}}}}
channels:
  there: {{from: asker, to: teller, kind: {there}}}
  back: {{from: teller, to: asker, kind: {back}}}
environment: {{begin: {{to: asker, {ask}}}}}
""",
        "messages.yaml": MESSAGES,
        "invariants.yaml": PROPERTIES,
        "roles/asker.yaml": ASKER,
        "roles/teller.yaml": TELLER if once and there == "mailbox" else TELLER.replace(" + 1", ""),
    })  # fmt: skip


# Comparisons


def judge(explored: Exploration, found: Whole) -> None:
    """Verdicts on properties, and the paths."""
    system = found.twin.system
    for result in explored.properties:
        p = system.properties.get(result.name)
        if p is None:
            continue
        if p.kind == "leads_to":
            assert (result.verdict == "violated") == fails_to_lead(found, p.name), p.name
        if p.kind == "always":
            wrong = [
                d for d, w in zip(found.depth, found.worlds, strict=True)
                if not holds(found, p.claim, w) and (p.when is None or holds(found, p.when, w))
            ]  # fmt: skip
            assert (result.verdict == "violated") == bool(wrong), p.name
            if result.path is not None:
                assert len(result.path) == min(wrong), p.name
        if result.path is not None:
            assert feasible(explored, found, result.path.steps), p.name


def judge_convergence(system: System, explored: Exploration, found: Whole) -> None:
    answer = convergence(explore(system), explored)
    mine = converging(whole(system, Budget()), found)
    assert (answer.recovery_states, answer.other_ends) == (len(mine.astray | mine.ended), len(mine.ended))
    assert answer.converges == mine.holds
    if answer.worst_steps is not None:
        assert answer.worst_steps == max((mine.worst(n, lambda _: 1) for n in mine.astray), default=0)
        assert answer.worst_exchanges == max((mine.worst(n, lambda s: s.received) for n in mine.astray), default=0)


BUDGETS = (
    "crash=1", "crash=1,duplicate=1", "lose=1", "reorder=1", "partition=1", "power_cut=1", "crash=2", "halt=1",
    "duplicate=1,lose=1", "crash=1,power_cut=1", "crash=1,reorder=1", "lose=any,duplicate=1", "amnesia=1",
    "amnesia=1,crash=1", "amnesia=2",
)  # fmt: skip


@pytest.mark.parametrize("budget", [
    *BUDGETS, "none", "crash=3", "crash=2,duplicate=2", "crash=1,halt=1", "crash=1,lose=1,duplicate=1", "power_cut=2",
])  # fmt: skip
def test_a_conversation(tmp_path: Path, budget: str) -> None:
    system = conversation(tmp_path, once="amnesia" not in budget)
    explored, found = compare(system, Budget.parse(budget))
    judge(explored, found)
    if "halt" not in budget:
        judge_convergence(system, explored, found)


@pytest.mark.parametrize(("there", "back"), [("fifo(2)", "mailbox"), ("mailbox", "fifo(1)"), ("bag(2)", "bag(1)"),
                                            ("mailbox", "bag(2)"), ("set", "set"), ("multiset(2)", "mailbox"),
                                            ("multiset", "set")])  # fmt: skip
@pytest.mark.parametrize("budget", ["crash=1", "duplicate=1,lose=1", "reorder=1,crash=1", "power_cut=1", "amnesia=1"])
def test_a_conversation_over_other_channels(tmp_path: Path, there: str, back: str, budget: str) -> None:
    """Also where a recovery finds no room for what it sends again, and waits for it."""
    explored, found = compare(conversation(tmp_path, there, back, once=budget != "amnesia=1"), Budget.parse(budget))
    judge(explored, found)


@pytest.mark.parametrize(("name", "settings", "budget"), [
    ("two_phase_commit", {"participants": 1}, "crash=2,duplicate=1"),
    ("two_phase_commit", {"participants": 1}, "crash=1,power_cut=1"),
    ("two_phase_commit", {"participants": 1}, "lose=1,reorder=1"),
    ("two_phase_commit", {"participants": 2}, "partition=1"),
    ("two_phase_commit", {"participants": 2}, "reorder=1"),
    pytest.param("two_phase_commit", {"participants": 2}, "crash=1", marks=pytest.mark.slow),
    pytest.param("two_phase_commit", {"participants": 2}, "duplicate=1,lose=1", marks=pytest.mark.slow),
    pytest.param("two_phase_commit", {"participants": 2}, "power_cut=1", marks=pytest.mark.slow),
    ("lease", {"expiry": "false", "max_units": 1}, "partition=1"),
    pytest.param("lease", {"expiry": "false", "max_units": 1}, "crash=1", marks=pytest.mark.slow),
    pytest.param("lease", {"expiry": "false", "max_units": 1}, "crash=2", marks=pytest.mark.slow),
    pytest.param("lease", {"expiry": "false", "max_units": 1}, "crash=1,duplicate=1", marks=pytest.mark.slow),
    pytest.param("lease", {"expiry": "false", "max_units": 1}, "crash=1,lose=1", marks=pytest.mark.slow),
    pytest.param("lease", {"expiry": "false", "max_units": 1}, "power_cut=1", marks=pytest.mark.slow),
    pytest.param("lease", {"last_end": 1, "max_units": 1}, "crash=1", marks=pytest.mark.slow),
    pytest.param("lease", {"last_end": 1, "max_units": 1}, "skew=1", marks=pytest.mark.slow),
])  # fmt: skip
def test_shipped_systems(name: str, settings: dict[str, Any], budget: str) -> None:
    compare(load(shipped_folder(name), settings), Budget.parse(budget))


@pytest.mark.parametrize("part", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 8))])
def test_systems_by_chance(tmp_path: Path, part: int) -> None:
    """Small systems that nobody thought about."""
    judged = 0
    for seed in range(60 * part, 60 * (part + 1)):
        system, budget = (
            by_chance(tmp_path / str(seed), random.Random(seed)),
            Budget.parse(BUDGETS[seed % len(BUDGETS)]),
        )
        if system is None or explore(system, Limits(states=400), budget=budget).distinct >= 400:
            continue
        explored, found = compare(system, budget)
        judge(explored, found)
        if explored.distinct < 120 and not budget.halt:
            judge_convergence(system, explored, found)
        judged += 1
    assert judged > 5


@pytest.mark.parametrize("budget", ["crash=1", "crash=2", "power_cut=1", "halt=1", "amnesia=1"])
def test_crashes_leave_shared_variables_as_they_are(budget: str) -> None:
    explored, found = compare(load(TRUTH / "lock"), Budget.parse(budget))
    judge(explored, found)


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))])
def test_systems_by_chance_that_share_variables(tmp_path: Path, part: int) -> None:
    judged = 0
    for seed in range(30 * part, 30 * (part + 1)):
        system = by_chance(tmp_path / str(seed), random.Random(seed), share=True)
        budget = Budget.parse(BUDGETS[seed % len(BUDGETS)])
        if system is None or explore(system, Limits(states=400), budget=budget).distinct >= 400:
            continue
        judge(*compare(system, budget))
        judged += 1
    assert judged > 2


def test_a_power_cut_while_an_actor_recovers(tmp_path: Path) -> None:
    """It takes the others down too, which crashes one by one need not."""
    system = star(tmp_path)
    explored, _ = compare(system, Budget.parse("power_cut=2"))
    layout = explored.paths.world.layout
    points = {p for p, _, _ in explored.graph.points}
    assert "crash:hub/telling#recovering-after-tell_a@everything" in points
    assert len(layout.actors) == 3


def star(folder: Path) -> System:
    """One machine that tells two others."""
    leaf = "states: {{s0: {{initial: true, on: {{tell_{0}: {{to: s1}}}}}}, s1: {{ignore: {{tell_{0}: so it is}}}}}}\n"
    return written(folder, {
        "system.yaml": """system: star
roles: {hub: {}, a: {}, b: {}}
channels: {to_a: {from: hub, to: a, kind: mailbox}, to_b: {from: hub, to: b, kind: mailbox}}
environment: {go: {to: hub, fair: true}}
""",
        "messages.yaml": "messages: {tell_a: {from: hub, to: a}, tell_b: {from: hub, to: b}}\n",
        "roles/hub.yaml": """role: hub
events: {go: it begins}
states:
  idle: {initial: true, on: {go: {to: telling}}}
  telling: {tasks: [tell_a, tell_b], ignore: {go: it has begun}}
tasks: {tell_a: {send: tell_a, to: a}, tell_b: {send: tell_b, to: b}}
""",
        "roles/a.yaml": "role: a\n" + leaf.format("a"),
        "roles/b.yaml": "role: b\n" + leaf.format("b"),
        "invariants.yaml": "properties: {all: {when: hub.state == telling, leads_to: b.state == s1}}\n",
    })  # fmt: skip


@pytest.mark.parametrize("budget", ["crash=1", "crash=1,duplicate=1", "halt=1", "crash=1,halt=1", "power_cut=1,lose=1"])
def test_stops_that_the_explorer_leaves_out_bring_about_nothing_new(tmp_path: Path, budget: str) -> None:
    """A halt within a step, and a crash of an actor that has just answered a duplicate: no record shows them."""
    for system in (conversation(tmp_path / "one"), star(tmp_path / "two")):
        few, all_ = (whole(system, Budget.parse(budget), more) for more in (False, True))
        assert {s[:2] for s in all_.shapes} == {s[:2] for s in few.shapes}
        assert few.shapes <= all_.shapes


def test_who_ignores_a_message_may_stop_before_it_acknowledges(tmp_path: Path) -> None:
    """Its number is committed, so the message comes again as a duplicate."""
    explored, _ = compare(load(shipped_folder("two_phase_commit"), {"participants": 1}), Budget(crash=1))
    ignored = [
        action for s in explored.paths.states for action, _ in explored.paths.world.successors(s)
        if action.kind == "crash" and action.event == "agree" and action.transition is None
    ]  # fmt: skip
    assert {a.point for a in ignored} == {"crash:coordinator/aborting#before-acknowledge"}


def test_where_a_fault_alone_leads_a_run_may_end(tmp_path: Path) -> None:
    """The state after a halt satisfies no antecedent and has no step; the claim fails there all the same."""
    system = written(tmp_path, {
        "system.yaml": "system: s\nroles: {a: {}}\nenvironment: {go: {to: a}, finish: {to: a, fair: true}}\n",
        "roles/a.yaml": """role: a
events: {go: it begins, finish: it ends}
states:
  idle: {initial: true, on: {go: {to: asking}}, ignore: {finish: nothing has begun}}
  asking: {on: {finish: {to: done}}, ignore: {go: it has begun}}
  done: {ignore: {go: it is done, finish: it is done}}
""",
        "invariants.yaml": "properties: {ends: {when: running(a) and a.state == asking, leads_to: a.state == done}}\n",
    })  # fmt: skip
    for budget, verdict in ((Budget(halt=1), "violated"), (Budget(crash=1), "exhausted")):
        explored, found = compare(system, budget)
        judge(explored, found)
        assert explored.properties[0].verdict == verdict


@pytest.mark.parametrize("budget", [
    "crash=1", "crash=2", "crash=1,duplicate=1", "duplicate=1", "duplicate=2", "crash=2,duplicate=1", "power_cut=1",
])  # fmt: skip
def test_paths_to_a_seeded_defect_are_shortest_and_within_the_budget(tmp_path: Path, budget: str) -> None:
    """The teller counts questions that have no numbers, and is asked once; then twice, and then three times."""
    conversation(tmp_path, "bag(2)", "mailbox")
    counting = TELLER.replace("max: 1", "max: 9").replace("count + 1", '"min(count + 1, 3)"')
    (tmp_path / "roles" / "teller.yaml").write_text(counting)
    (tmp_path / "invariants.yaml").write_text(
        "properties: {once: {always: teller.count <= 1}, twice: {always: teller.count <= 2}}\n"
    )
    explored, found = compare(load(tmp_path), Budget.parse(budget))
    judge(explored, found)
    verdicts = [p.verdict for p in explored.properties]
    assert verdicts == ["violated", "exhausted" if budget in ("crash=1", "duplicate=1") else "violated"]


def after_restart(mine: Convergence, at: Any, actor: str, names: list[str]) -> set[Any]:
    """The states in which an actor restarts; until then the others go on, and nothing else fails."""
    place = names.index(actor)
    todo, seen, found = [at], {at}, set()
    while todo:
        for _, m in mine.edges[todo.pop()]:
            if m[4][place] == UP:
                found.add(m)
            elif m not in seen:
                seen.add(m)
                todo.append(m)
    return found


@pytest.mark.parametrize("budget", ["crash=1", "crash=2", "power_cut=1", "crash=1,duplicate=1"])
def test_crash_cases(tmp_path: Path, budget: str) -> None:
    """The worst of each cell and point, by going all ways from every crash."""
    for system in (conversation(tmp_path / "one"), star(tmp_path / "two")):
        limits = Budget.parse(budget)
        found = whole(system, limits)
        mine = converging(whole(system, Budget()), found)
        names = found.twin.actors
        expected: dict[tuple[Any, str], tuple[int, int]] = {}
        for after in found.worlds:  # wherever an actor is down it may also stop again before it has done anything
            for role, i in system.machines():
                actor = found.twin.actor[role.name, i]
                if after.up[actor] != DOWN:
                    continue
                for n in after_restart(mine, after.shape(), actor, names):
                    key = after.shape()[0], f"{role.name}/{after.state_of[role.name, i]}"
                    old = expected.get(key, (0, 0))
                    expected[key] = (
                        max(old[0], mine.worst(n, lambda _: 1)), max(old[1], mine.worst(n, lambda s: s.received))
                    )  # fmt: skip
        report = crash(system, limits)
        shown: dict[tuple[Any, str], tuple[int, int]] = {}
        for (cell, point, _), its in report.cases.items():
            key = cell, point.removeprefix("crash:").partition("#")[0]
            assert its.steps is not None
            assert its.exchanges is not None
            old = shown.get(key, (0, 0))
            shown[key] = max(old[0], its.steps), max(old[1], its.exchanges)
        assert shown == expected
