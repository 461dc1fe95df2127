"""The explorer under faults against a deliberately dumb twin.

The twin knows nothing of ranks, labels or crash points. Its messages carry absolute sequence numbers, of which the
sender's record has the last one used and the receiver's the last one received; an actor is up, down or gone; what is
left of the budget is part of a state; a step commits, works and acknowledges, and an actor may stop between any two of
these. It walks the model word by word and shares no code with the explorer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, combinations, product
from typing import Any

from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language import types as t
from leasehold.spec.language.declare.build_fields import constant_value
from leasehold.spec.language.expression import Argument, Now, mentions
from leasehold.spec.language.model import CHANNEL_FAULTS, Call, Datum, Drive, Role, Send, Transition
from leasehold.spec.language.parts import expressions
from leasehold.spec.language.render.evaluate import Context, InTransit, NoState, evaluate

Machine = tuple[str, int]
Way = tuple[str, int, int]  # channel, sender and receiver
UP, DOWN, GONE = "up", "down", "gone"
COUNTED = ("crash", "power_cut", "halt", "duplicate", "lose", "reorder", "partition", "amnesia")
NOTHING: dict[str, float] = {}


def begun(system: System, instance: int, datum: Datum) -> list[Any]:
    """The values with which a machine's field may begin."""
    if datum.any_initial:
        return list(t.domain(datum.type, None))
    if datum.begins_as is None:
        return [datum.initial]
    value = evaluate(datum.begins_as, Context(NoState(), system.values(), instance))
    if isinstance(datum.type, t.Map) and not isinstance(datum.begins_as.type, t.Map):
        value = (value,) * len(t.members(datum.type.key))
    return [value]


def is_now(node: Any) -> bool:
    return isinstance(node, Now)


@dataclass
class World:
    """A global state."""

    twin: Twin
    state_of: dict[Machine, str]
    data_of: dict[tuple[str, int, str], Any]
    sent: dict[Way, int]  # in the sender's record: the last number used
    received: dict[Way, int]  # in the receiver's record
    way: dict[Way, list[tuple[int, str, tuple[Any, ...]]]]
    lines: dict[tuple[str, int], list[Way]]  # by channel and receiver of a queue: whose messages stand in it, in order
    now: int
    up: dict[str, str]
    cut: frozenset[str]  # one side of the partition; empty without one
    lead: dict[str, int]
    left: dict[str, float]
    own: dict[tuple[str, str], int]  # by channel and fault: what is left of the channel's own budget
    shown: dict[str, tuple[int, ...]] = field(default_factory=dict)  # under drift: the readings of clocks at true ticks
    passed: dict[Machine, dict[str, Any]] = field(default_factory=dict)  # what a step passes to its work, meanwhile

    def copy(self) -> World:
        lanes = {k: list(v) for k, v in self.way.items()}
        return World(
            self.twin,
            dict(self.state_of),
            dict(self.data_of),
            dict(self.sent),
            dict(self.received),
            lanes,
            {k: list(v) for k, v in self.lines.items()},
            self.now,
            dict(self.up),
            self.cut,
            dict(self.lead),
            dict(self.left),
            dict(self.own),
            dict(self.shown),
        )

    def shape(self) -> Any:
        """The state in the form in which it is compared; what numbers mean is their order."""
        lanes = []
        for lane, queue in self.way.items():
            kind = self.twin.system.channels[lane[0]].kind
            if kind == "queue":
                lanes.append(tuple((n, *m[1:]) for n, m in zip(self.places(lane), queue, strict=True)))
                continue
            if kind != "mailbox":
                flat = [(k, f) for _, k, f in queue]
                lanes.append(tuple(flat) if kind == "fifo" else tuple(sorted(flat, key=repr)))
                continue
            last = self.received[lane]
            used = {n for n, _, _ in queue if n > last} | ({self.sent[lane]} if self.sent[lane] > last else set())
            rank = {last: 0} | {n: i + 1 for i, n in enumerate(sorted(used))}
            lanes.append((rank[self.sent[lane]], tuple((rank[n], k, f) for n, k, f in queue if n >= last)))
        return (
            tuple(self.state_of.values()),
            tuple(self.data_of.values()),
            tuple(lanes),
            self.now,
            tuple(self.up.values()),
            self.twin.side(self.cut),
            tuple(self.lead.values()),
            tuple(self.twin.where(self.now, self.lead[a], shown) for a, shown in self.shown.items()),
            tuple(self.own.values()),
        )

    def places(self, lane: Way) -> list[int]:
        """The places in a queue of the messages of a lane."""
        return [place for place, other in enumerate(self.lines[lane[0], lane[2]], 1) if other == lane]

    def take_out(self, lane: Way, at: int) -> None:
        """A message leaves a lane, and the line that it stands in."""
        if self.twin.system.channels[lane[0]].kind == "queue":
            del self.lines[lane[0], lane[2]][self.places(lane)[at] - 1]
        del self.way[lane][at]

    def key(self) -> Any:
        """The whole history of clocks is in it: that less is enough is for the explorer to show."""
        return self.shape(), tuple(self.left.values()), tuple(self.shown.values())

    # The view of expressions

    def data(self, role: str, instance: int, name: str) -> Any:
        passed = self.passed.get((role, instance), {})
        return passed[name] if name in passed else self.data_of[role, instance, name]

    def state(self, role: str, instance: int) -> str:
        return self.state_of[role, instance]

    def pending(self, name: str) -> Iterator[InTransit]:
        for lane, queue in self.way.items():
            how = self.twin.system.channels[lane[0]].kind
            for place, (number, kind, fields) in enumerate(queue, 1):
                if name in (kind, lane[0]):
                    names = [f.name for f in self.twin.system.messages[kind].fields]
                    known = {"mailbox": number - self.received[lane], "fifo": place}.get(how, 1)
                    known = self.places(lane)[place - 1] if how == "queue" else known
                    latest, ranked = number == self.sent[lane], how == "mailbox"
                    yield InTransit(kind, dict(zip(names, fields, strict=True)), known, latest, *lane[1:], ranked)

    def heard(self, name: str, role: str = "", instance: int = 0) -> bool:
        channel = self.twin.system.channels[name]
        return all(
            self.sent[lane] <= self.received[lane] if channel.kind == "mailbox" else not self.way[lane]
            for lane in self.way
            if lane[0] == name
            and (not role or (role, instance) in ((channel.sender, lane[1]), (channel.receiver, lane[2])))
        )

    def running(self, role: str, instance: int) -> bool:
        actor = self.twin.actor[role, instance]
        return self.up[actor] == UP and actor != self.twin.liar

    def reachable(self, role: str, instance: int, other_role: str, other: int) -> bool:
        one, two = self.twin.actor[role, instance], self.twin.actor[other_role, other]
        return (one in self.cut) == (two in self.cut)

    def byzantine(self, role: str) -> bool:
        return role in self.twin.false_roles


@dataclass(frozen=True)
class Step:
    """A step: a fault or not, its cost in the budget, and the group that asks for fairness."""

    kind: str
    after: World
    cost: Mapping[str, float] = field(default_factory=dict)
    group: Any = None
    took: str = ""  # the transition
    received: bool = False
    strange: bool = False  # a fault that takes nothing of the budget of all

    @property
    def fault(self) -> bool:
        return (
            self.strange
            or self.kind in ("crash", "lose", "partition", "skew", "drift", "halt", "amnesia")
            or any(self.cost.get(f) for f in ("duplicate", "reorder"))
        )


class Impossible(Exception):
    """There is no room for a message."""


class Flaw(Exception):
    """A step shows that the specification is wrong: `range`, a value outside its type; `guards`, two that hold."""


class Twin:
    """The meaning of a system.

    Some stops are left out by the explorer, as other stops bring about the same states: a halt within a step, a crash
    of an actor that has answered a duplicate, and a crash after all of the work of a recovery, or of a step that leaves
    nothing to be acknowledged. `more_stops` has them too.
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
        self.types = {(r.name, d.name): d.type for r in system.roles.values() for d in r.data.values()}
        self.types.update({("shared", d.name): d.type for d in system.shared.values()})
        self.liar = next((self.actor[r.name, i] for r, i in system.machines() if r.name == budget.byzantine), None)
        self.false_roles = {role for (role, _), actor in self.actor.items() if actor == self.liar}

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

    def own_clocks(self) -> list[str]:
        """The actors whose clocks may leave true time, and that have something to read on them."""
        if self.system.clock is None or not (self.budget.skew or self.budget.drift):
            return []
        timed = {r.name for r in self.system.roles.values() if any(mentions(e, is_now) for e in expressions(r))}
        return [
            a
            for a in self.actors
            if any(self.actor[r.name, i] == a and r.name in timed for r, i in self.system.machines())
        ]

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
        choices = [begun(system, i, d) for _, i, d in names]
        left = {k: math.inf if v == "any" else float(v) for k in COUNTED for v in [getattr(self.budget, k)]}
        worlds = []
        for values in product(*choices):
            world = World(
                self,
                {(r.name, i): r.first(i).name for r, i in machines},
                {(r, i, d.name): v for (r, i, d), v in zip(names, values, strict=True)},
                dict.fromkeys(lanes, 0),
                dict.fromkeys(lanes, 0),
                {lane: [] for lane in lanes},
                {(c.name, j): [] for c in system.channels.values() for j in range(system.roles[c.receiver].count)},
                0,
                dict.fromkeys(self.actors, UP),
                frozenset(),
                dict.fromkeys(self.own_clocks(), 0),
                left,
                {
                    (c.name, f): n
                    for c in system.channels.values()
                    for f in CHANNEL_FAULTS
                    if isinstance(n := getattr(c, f), int) and n
                },
                {a: (0,) for a in self.own_clocks() if a != self.liar and self.budget.drift},
            )
            if system.initially is None or self.say(world, system.initially):
                worlds.append(world)
        return worlds

    # Steps

    def steps(self, world: World) -> Iterator[Step]:
        for step in chain(
            self.local(world),
            self.ticks(world),
            self.deliveries(world),
            self.time(world),
            self.losses(world),
            self.stops(world),
            self.recoveries(world),
            self.retries(world),
            self.partitions(world),
            self.amnesias(world),
            self.forgeries(world),
        ):
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
        found = [
            transition
            for transition in role.states[world.state_of[role.name, i]].on.get(event, ())
            if transition.guard is None or self.say(seen, transition.guard, i, arguments, sender)
        ]
        if len(found) > 1:
            raise Flaw("guards")
        return found[0] if found else None

    def ticks(self, world: World) -> Iterator[Step]:
        for role, i in self.system.machines():
            if world.running(role.name, i):
                yield from self.consume(world, role, i, "tick", {}, 0, ("tick", role.name, i))

    def consume(
        self,
        world: World,
        role: Role,
        i: int,
        event: str,
        arguments: Any,
        sender: int,
        group: Any,
    ) -> Iterator[Step]:
        transition = self.taken(world, role, i, event, arguments, sender)
        if transition is not None:
            yield from self.carried_out(world, world, role, i, transition, arguments, sender, NOTHING, group)

    def carried_out(
        self,
        world: World,
        acknowledged: World,
        role: Role,
        i: int,
        transition: Transition | None,
        arguments: Any,
        sender: int,
        cost: Mapping[str, float],
        group: Any,
        work: list[Any] | None = None,
    ) -> Iterator[Step]:
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
        lanes = [lane for lane in lanes if not self.to_liar(lane)]

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
            if self.more_stops or received or part != work:
                yield from self.stopped(done(world, part), self.actor[machine], cost)

    def hang_up(self, world: World, actors: Iterable[str]) -> None:
        """The connections to actors that stop are gone, with all that was in them."""
        for lane, queue in world.way.items():
            channel = self.system.channels[lane[0]]
            if channel.on_crash == "lost" and self.actor[channel.receiver, lane[2]] in actors:
                while queue and channel.kind != "set":
                    world.take_out(lane, 0)

    def may_stop(self, world: World) -> bool:
        return any(world.left[fault] for fault in ("crash", "power_cut", "halt"))

    def stopped(self, world: World, actor: str, cost: Mapping[str, float]) -> Iterator[Step]:
        """Every way for an actor to stop here, alone or with others."""
        if actor == self.liar:
            return
        nodes = [names for names in self.system.faults.nodes.values() if actor in names]
        for fault, names in [("crash", (actor,)), *(("crash", n) for n in nodes), ("power_cut", self.actors)]:
            if not world.left[fault]:
                continue
            after = world.copy()
            stopping = {a for a in names if a == actor or after.up[a] == UP} - {self.liar}
            after.up.update(dict.fromkeys(stopping, DOWN))
            self.hang_up(after, stopping)
            yield Step("crash", after, {**cost, fault: 1})
        if world.left["halt"] and self.more_stops:
            after = world.copy()
            after.up[actor] = GONE
            self.hang_up(after, [actor])
            yield Step("halt", after, {**cost, "halt": 1})

    def commit(self, world: World, role: Role, i: int, transition: Transition, arguments: Any, sender: int) -> None:
        seen = self.by_own_clock(world, (role.name, i))
        updates = [
            (
                ("shared", 0, u.name) if u.shared else (role.name, i, u.name),
                u.key and (u.key.type, self.say(seen, u.key, i, arguments, sender)),
                self.say(seen, u.value, i, arguments, sender),
            )
            for u in transition.updates
        ]
        passed = {u.name: self.say(seen, u.value, i, arguments, sender) for u in transition.passes}
        for place, key, value in updates:
            if key:
                cells = list(world.data_of[place])
                cells[t.position(*key)] = value
                value = tuple(cells)
            world.data_of[place] = value
            kind = self.types[place[0], place[2]]
            if not t.in_range(kind, value):
                raise Flaw("range")
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
        return (self.system.channel_of(task.message).name, i, j) if isinstance(task, Send) else None

    def do(self, world: World, role: Role, i: int, name: str, j: int, again: bool) -> None:
        """A piece of work; the number of a message is the last one that the record says was used."""
        task = role.tasks[name]
        assert not isinstance(task, Call)
        passed = world.passed.get((role.name, i), {})
        values = {n: self.say(world, e, i, passed, it=j) for n, e in task.fields.items()}
        event = (task.role, task.event) if isinstance(task, Drive) else (task.receiver, task.message)
        if not all(t.in_range(f.type, values[f.name]) for f in self.system.fields_of(*event)):
            raise Flaw("range")
        if isinstance(task, Drive):
            other = self.system.roles[task.role]
            driven = self.taken(world, other, j, task.event, values, 0)
            if driven is not None:
                self.commit(world, other, j, driven, values, 0)
                for piece in self.work(world, other, j, driven):
                    if (lane := self.lane_of(other, j, *piece)) is not None and not self.to_liar(lane):
                        world.sent[lane] += 1
                    self.do(world, other, j, *piece, again=False)
            return
        lane = self.lane_of(role, i, name, j)
        assert lane is not None
        if self.to_liar(lane) or (again and self.is_durable(lane)):
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
        line = world.lines[lane[0], lane[2]] if channel.kind == "queue" else queue
        if channel.capacity is not None and len(line) >= channel.capacity:
            raise Impossible
        queue.append(entry)
        if channel.kind == "queue":
            world.lines[lane[0], lane[2]].append(lane)

    def to_liar(self, lane: Way) -> bool:
        """Returns whether nobody reads what is sent there: it waits in no channel."""
        return self.liar is not None and self.actor[self.system.channels[lane[0]].receiver, lane[2]] == self.liar

    def is_durable(self, lane: Way) -> bool:
        """Returns whether messages are sent with the commit, and are gone with the receiver's."""
        return self.system.channels[lane[0]].kind in ("fifo", "queue")

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
                if channel.kind == "queue":
                    early = world.places(lane)[at] > 1
                if channel.kind == "mailbox":  # a late copy holds up nothing
                    early = any(world.received[lane] < m[0] < entry[0] for m in queue)
                again = channel.kind == "mailbox" and entry[0] == world.received[lane]
                for twice in (False,) if channel.kind == "set" or again else (False, True):
                    faults = [f for f, is_so in (("reorder", early), ("duplicate", twice)) if is_so]
                    if all(self.may(world, lane, f) for f in faults):
                        paid, cost = world, NOTHING
                        for f in faults:
                            paid, cost = self.pay(paid, cost, lane, f)
                        for step in self.delivered(paid, lane, at, twice, cost, bool(faults)):
                            yield replace(step, strange=bool(faults))

    def may(self, world: World, lane: Way, fault: str) -> bool:
        return self.declared(world, lane, fault) or (not self.is_durable(lane) and bool(world.left[fault]))

    def declared(self, world: World, lane: Way, fault: str) -> bool:
        """Returns whether the channel's own faults are not used up."""
        channel = self.system.channels[lane[0]]
        return getattr(channel, fault) == "any" or bool(world.own.get((channel.name, fault)))

    def pay(self, world: World, cost: Mapping[str, float], lane: Way, fault: str) -> tuple[World, Mapping[str, float]]:
        """A fault of a channel, of its own budget if it has one, else of that of all."""
        if not self.declared(world, lane, fault):
            return world, {**cost, fault: 1}
        after = world.copy()
        if (lane[0], fault) in after.own:
            after.own[lane[0], fault] -= 1
        return after, cost

    def delivered(
        self, world: World, lane: Way, at: int, twice: bool, cost: Mapping[str, float], strange: bool
    ) -> Iterator[Step]:
        channel = self.system.channels[lane[0]]
        role, i = self.system.roles[channel.receiver], lane[2]
        number, kind, fields = world.way[lane][at]
        left = world.copy()
        if not twice and channel.kind != "set":
            left.take_out(lane, at)
        group = None if strange else ("way", lane)
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
            kept.take_out(lane, at)
        for after in (kept, left):
            after.received[lane] = number
            if channel.kind == "mailbox":
                after.way[lane][:] = [m for m in after.way[lane] if m[0] >= number]
        names = [f.name for f in self.system.messages[kind].fields]
        arguments = dict(zip(names, fields, strict=True))
        transition = self.taken(world, role, i, kind, arguments, lane[1])
        if transition is None and channel.kind in ("queue", "multiset", "set"):
            return
        yield from self.carried_out(kept, left, role, i, transition, arguments, lane[1], cost, group)

    def forgeries(self, world: World) -> Iterator[Step]:
        """Every message of the liar that somebody would take a transition for; none of them carries another's."""
        for channel in self.system.channels.values():
            ends = self.system.roles[channel.sender], self.system.roles[channel.receiver]
            for i, j in product(*(range(end.count) for end in ends)):
                sender, receiver = (channel.sender, i), (channel.receiver, j)
                if (channel.name, i, j) not in world.way or self.actor[sender] != self.liar:
                    continue
                if not world.running(*receiver) or not world.reachable(*sender, *receiver):
                    continue
                role = ends[1]
                for message in self.system.messages.values():
                    if message.name not in channel.messages:
                        continue
                    for arguments in self.arguments(world, role, message.name):
                        taken = self.taken(world, role, j, message.name, arguments, i)
                        if taken is not None:
                            for step in self.carried_out(world, world, role, j, taken, arguments, i, NOTHING, None):
                                yield replace(step, strange=True)

    def losses(self, world: World) -> Iterator[Step]:
        for lane, queue in world.way.items():
            channel = self.system.channels[lane[0]]
            down = not self.is_durable(lane) and world.up[self.actor[channel.sender, lane[1]]] != UP
            if channel.kind == "set" or not (down or self.may(world, lane, "lose")):
                continue
            for at in range(len(queue)):
                paid, cost = (world, NOTHING) if down else self.pay(world, NOTHING, lane, "lose")
                after = paid.copy()
                after.take_out(lane, at)
                yield Step("lose", after, cost)

    def amnesias(self, world: World) -> Iterator[Step]:
        """An actor's records are gone, and what its channels keep of it."""
        for actor in self.actors:
            if not world.left["amnesia"] or world.up[actor] == GONE or actor == self.liar:
                continue
            after = world.copy()
            after.up[actor] = DOWN
            for role, i in self.system.machines():
                if self.actor[role.name, i] == actor:
                    after.state_of[role.name, i] = role.first(i).name
                    first = {(role.name, i, d.name): begun(self.system, i, d)[0] for d in role.data.values()}
                    after.data_of.update(first)
            for lane in after.way:
                channel = self.system.channels[lane[0]]
                ends = [self.actor[channel.sender, lane[1]], self.actor[channel.receiver, lane[2]]]
                if actor in ends and channel.kind in ("mailbox", "fifo", "queue"):
                    while after.way[lane]:
                        after.take_out(lane, 0)
                    after.sent[lane], after.received[lane] = int(ends[0] != actor), 0
            self.hang_up(after, [actor])
            yield Step("amnesia", after, {"amnesia": 1})

    def retries(self, world: World) -> Iterator[Step]:
        """Yields where messages may be lost, a machine asks again for as long as it is not answered."""
        lost = any(c.kind == "mailbox" and c.on_crash == "lost" for c in self.system.channels.values())
        crashes = lost and (self.budget.crash or self.budget.power_cut)
        if not self.budget.lose and not self.budget.amnesia and not crashes:
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
            back is not None
            and self.system.channels[back[0]].kind == "mailbox"
            and self.is_lost(world, back)
            and (self.system.channels[back[0]].receiver, back[2]) == (channel.sender, lane[1])
            for back in (self.lane_of(role, lane[2], *piece) for piece in self.work(world, role, lane[2], None))
        )

    # Actors, the network and time

    def stops(self, world: World) -> Iterator[Step]:
        groups = [("crash", (a,)) for a in self.actors] + [("crash", n) for n in self.system.faults.nodes.values()]
        for fault, names in [*groups, ("power_cut", tuple(self.actors))]:
            stopping = [a for a in names if world.up[a] == UP and a != self.liar]
            if world.left[fault] and stopping:
                after = world.copy()
                after.up.update(dict.fromkeys(stopping, DOWN))
                self.hang_up(after, stopping)
                yield Step("crash", after, {fault: 1})
        for actor in self.actors:
            if world.left["halt"] and world.up[actor] != GONE and actor != self.liar:
                after = world.copy()
                after.up[actor] = GONE
                self.hang_up(after, [actor])
                yield Step("halt", after, {"halt": 1})

    def recoveries(self, world: World) -> Iterator[Step]:
        for actor in self.actors:
            if world.up[actor] != DOWN:
                continue
            pieces = [
                (role, i, piece)
                for role, i in self.system.machines()
                if self.actor[role.name, i] == actor
                for piece in self.work(world, role, i, None)
            ]
            for part in subsets(pieces) if self.may_stop(world) else [pieces]:
                after = world.copy()
                try:
                    for role, i, piece in part:
                        self.do(after, role, i, *piece, again=True)
                except Impossible:
                    continue
                if part and (part != pieces or self.more_stops):
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
            world.running(role.name, i)
            and actor in (None, self.actor[role.name, i])
            and self.taken(world, role, i, "tick", {}, 0) is not None
            for role, i in self.system.machines()
        )

    def time(self, world: World) -> Iterator[Step]:
        clock = self.system.clock
        if clock is None:
            return
        if world.now < clock.horizon and (clock.late or not self.is_due(world)):
            yield from self.clock_steps(world)
        for actor in world.lead:
            timed = actor if self.budget.skew else None  # without an offset, a gain is time that passes
            if self.may_gain(world, actor) and actor != self.liar and (clock.late or not self.is_due(world, timed)):
                after = world.copy()
                after.lead[actor] += 1
                yield Step("drift" if self.budget.drift else "skew", after)

    def clock_steps(self, world: World) -> Iterator[Step]:
        if not self.budget.drift:
            for still in subsets([a for a, n in world.lead.items() if n > 0]):
                after = world.copy()
                after.now += 1
                after.lead.update({a: world.lead[a] - 1 for a in still})
                yield Step("skew" if still else "clock", after, group=None if still else ("clock",))
            return
        possible = [
            [reading for more in (1, 0) if self.agrees(shown, reading := world.now + world.lead[a] + more)]
            for a, shown in world.shown.items()
        ]
        for readings in product(*possible):
            after = world.copy()
            after.now += 1
            for actor, reading in zip(world.shown, readings, strict=True):
                after.lead[actor] = reading - after.now
                after.shown[actor] = (*world.shown[actor], reading)
            goes_on = all(reading == of[0] for reading, of in zip(readings, possible, strict=True))
            yield Step("clock" if goes_on else "drift", after, group=("clock",) if goes_on else None)

    def may_gain(self, world: World, actor: str) -> bool:
        """A clock that drifts gains a tick early: it may show the same at the next true tick."""
        if not self.budget.drift:
            return bool(world.lead[actor] < self.budget.skew)
        reading = world.now + world.lead[actor] + 1
        return actor != self.liar and any(self.agrees(world.shown[actor], reading + more) for more in (0, 1))

    def agrees(self, shown: tuple[int, ...], reading: int) -> bool:
        """Returns whether a clock with these readings may have another one at the next true tick: each pair agrees."""
        at = len(shown)
        for before, was in enumerate(shown):
            passed, offset = Fraction(at - before), self.budget.skew
            low = math.floor(passed * (1 - self.rate)) - (offset if before else 0)  # it begins without an offset
            if not low <= reading - was <= math.ceil(passed * (1 + self.rate)) + offset:
                return False
        return True

    @property
    def rate(self) -> Fraction:
        return Fraction(self.budget.drift, 100)

    def where(self, now: int, lead: int, shown: tuple[int, ...]) -> tuple[Fraction, Fraction]:
        """Bounds that a clock's readings put on it, less what it shows: at the next true tick, and at this one."""
        offset, at = self.budget.skew, len(shown) - 1
        least = [was - (offset if t else 0) + (at + 1 - t) * (1 - self.rate) for t, was in enumerate(shown)]
        most = [was + 1 + (at - t) * (1 + self.rate) for t, was in enumerate(shown)]
        return max(*least, Fraction(now + lead - offset)) - now - lead, min(most) - now - lead

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
    """The twin's whole graph; a state has its budget in it. `leaving`: the steps of each state out of the bounds."""

    twin: Twin
    worlds: list[World] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    edges: list[list[tuple[Step, int]]] = field(default_factory=list)
    leaving: list[list[Step]] = field(default_factory=list)
    flaws: set[str] = field(default_factory=set)  # what is wrong with the specification; steps beyond are not known

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
        steps: list[tuple[Step, int]] = []
        leaving: list[Step] = []
        try:
            for step in twin.steps(found.worlds[n]):
                target = visit(step.after, found.depth[n] + 1)
                if target is None:
                    leaving.append(step)
                else:
                    steps.append((replace(step, after=found.worlds[target]), target))
        except Flaw as flaw:
            found.flaws.add(str(flaw))
        found.edges.append(steps)
        found.leaving.append(leaving)
        n += 1
    return found
