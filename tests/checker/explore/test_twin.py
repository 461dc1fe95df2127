"""The explorer against a deliberately dumb twin.

The twin reads the model word by word: states are dictionaries, expressions are walked by `evaluate` (the definition of
their meaning), messages carry absolute sequence numbers. It shares no code with the explorer but the model and the
channels' ranks, into which it translates its numbers to compare.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import explore
from leasehold.spec import shipped_folder
from leasehold.spec.language import types as t
from leasehold.spec.language.declare.build_fields import constant_value
from leasehold.spec.language.for_each import each
from leasehold.spec.language.model import Call, Drive, Outside, Property, Role, Send, System, Transition
from leasehold.spec.language.render.evaluate import Context, InTransit, evaluate
from tests.checker.explore.fault_twin import begun
from tests.systems import TRUTH, load

CONSTRUCTS = TRUTH.parent / "constructs"

Machine = tuple[str, int]


@dataclass
class World:
    """A global state: records and messages, by name."""

    system: System
    state_of: dict[Machine, str]
    data_of: dict[tuple[str, int, str], Any]
    sent: dict[tuple[str, int, int], int]  # by channel and pair: the last number used
    received: dict[tuple[str, int, int], int]
    way: dict[tuple[str, int, int], list[tuple[int, str, tuple[Any, ...]]]]
    now: int

    def heard(self, name: str, role: str = "", instance: int = 0) -> bool:
        channel = self.system.channels[name]
        return all(
            self.sent[lane] <= self.received[lane]
            for lane in self.way
            if lane[0] == name
            and (not role or (role, instance) in ((channel.sender, lane[1]), (channel.receiver, lane[2])))
        )

    def running(self, role: str, instance: int) -> bool:
        return True

    def reachable(self, role: str, instance: int, other_role: str, other: int) -> bool:
        return True

    def copy(self) -> World:
        lanes = {k: list(v) for k, v in self.way.items()}
        return World(
            self.system, dict(self.state_of), dict(self.data_of), dict(self.sent), dict(self.received), lanes, self.now
        )

    def key(self) -> Any:
        """The state with numbers replaced by their ranks, as what numbers mean is their order."""
        lanes = []
        for lane, queue in sorted(self.way.items()):
            if self.system.channels[lane[0]].kind != "mailbox":
                kind = self.system.channels[lane[0]].kind
                flat = [(k, f) for _, k, f in queue]
                lanes.append((lane, tuple(flat) if kind == "fifo" else tuple(sorted(flat, key=repr))))
                continue
            used = {n for n, _, _ in queue} | ({self.sent[lane]} if self.sent[lane] > self.received[lane] else set())
            rank = {n: i + 1 for i, n in enumerate(sorted(used))}
            lanes.append((lane, rank.get(self.sent[lane], 0), tuple((rank[n], k, f) for n, k, f in queue)))
        return (tuple(self.state_of.items()), tuple(self.data_of.items()), tuple(lanes), self.now)

    # The view of expressions

    def data(self, role: str, instance: int, name: str) -> Any:
        return self.data_of[role, instance, name]

    def state(self, role: str, instance: int) -> str:
        return self.state_of[role, instance]

    def pending(self, name: str) -> Iterator[InTransit]:
        for lane, queue in self.way.items():
            how = self.system.channels[lane[0]].kind
            for place, (number, kind, fields) in enumerate(queue, 1):
                if name in (kind, lane[0]):
                    names = [f.name for f in self.system.messages[kind].fields]
                    known = {"mailbox": number, "fifo": place}.get(how, 1)
                    latest, ranked = number == self.sent[lane], how == "mailbox"
                    yield InTransit(kind, dict(zip(names, fields, strict=True)), known, latest, *lane[1:], ranked)


class Twin:
    def __init__(self, system: System, claims: Collection[Property] = ()) -> None:
        self.system, self.claims = system, claims
        self.violated: set[str] = set()

    def holds(self, world: World, p: Property) -> bool:
        return all(
            (one.when is not None and not self.say(world, one.when)) or self.say(world, one.claim) for one in each(p)
        )

    def first(self) -> list[World]:
        machines = list(self.system.machines())
        lanes = [
            (c.name, i, j)
            for c in self.system.channels.values()
            for i in range(self.system.roles[c.sender].count)
            for j in range(self.system.roles[c.receiver].count)
            if i == j or not c.same_index
        ]
        names = [(r.name, i, d) for r, i in machines for d in r.data.values()]
        names += [("shared", 0, d) for d in self.system.shared.values()]
        choices = [begun(self.system, i, d) for _, i, d in names]
        worlds = []
        for values in product(*choices):
            world = World(
                self.system,
                {(r.name, i): r.first(i).name for r, i in machines},
                {(r, i, d.name): v for (r, i, d), v in zip(names, values, strict=True)},
                dict.fromkeys(lanes, 0),
                dict.fromkeys(lanes, 0),
                {lane: [] for lane in lanes},
                0,
            )
            if self.system.initially is None or self.say(world, self.system.initially):
                worlds.append(world)
        return worlds

    def say(self, world: World, e: Any, me: int = 0, arguments: Any = None, sender: int = 0, **variables: Any) -> Any:
        return evaluate(e, Context(world, self.system.values(), me, arguments or {}, sender, variables))

    def next(self, world: World) -> Iterator[World]:
        due = False
        for role, i in self.system.machines():
            here = role.states[world.state_of[role.name, i]]
            for event, task in self.events(world, role, i):
                if event not in here.on:
                    continue
                for arguments in self.arguments(world, role, event):
                    if self.allowed(world, role, i, event, arguments, task):
                        yield from self.consume(world, role, i, event, arguments, 0)
            for after in self.consume(world, role, i, "tick", {}, 0):
                due = True
                yield after
        for lane, queue in world.way.items():
            yield from self.deliver(world, lane, queue)
        clock = self.system.clock
        if clock is not None and world.now < clock.horizon and (clock.late or not due):
            after = world.copy()
            after.now += 1
            yield after

    def events(self, world: World, role: Role, i: int) -> Iterator[tuple[str, Call | Drive | Outside]]:
        for name in role.states[world.state_of[role.name, i]].tasks:
            task = role.tasks[name]
            if not isinstance(task, Send):
                yield from ((answer, task) for answer in task.answers)
        answered = {a for task in role.tasks.values() if not isinstance(task, Send) for a in task.answers}
        for outside in self.system.environment.values():
            if outside.role == role.name and outside.event not in answered:
                yield outside.event, outside

    def arguments(self, world: World, role: Role, event: str) -> Iterator[dict[str, Any]]:
        fields = self.system.fields_of(role.name, event)
        ranges = []
        for f in fields:
            ends = f.explore and tuple(constant_value(e, self.system.values(), world.now) for e in f.explore)
            ranges.append([v for v in t.domain(f.type, ends or None) if t.in_range(f.type, v)])
        for values in product(*ranges):
            yield dict(zip([f.name for f in fields], values, strict=True))

    def allowed(
        self, world: World, role: Role, i: int, event: str, arguments: Any, task: Call | Drive | Outside
    ) -> bool:
        if isinstance(task, Outside):
            return task.when is None or bool(self.say(world, task.when, i, arguments, it=i))
        if task.when is not None and not self.say(world, task.when, i):
            return False
        if isinstance(task, Drive) and not self.say(world, task.answers[event], i):
            return False
        words = [o for o in self.system.environment.values() if (o.role, o.event) == (role.name, event)]
        return not words or any(o.when is None or self.say(world, o.when, i, arguments, it=i) for o in words)

    def consume(self, world: World, role: Role, i: int, event: str, arguments: Any, sender: int) -> Iterator[World]:
        for transition in role.states[world.state_of[role.name, i]].on.get(event, ()):
            if transition.guard is None or self.say(world, transition.guard, i, arguments, sender):
                after = world.copy()
                if self.take(after, role, i, transition, arguments, sender):
                    yield after

    def take(self, world: World, role: Role, i: int, transition: Transition, arguments: Any, sender: int) -> bool:
        updates = [
            (
                ("shared", 0, u.name) if u.shared else (role.name, i, u.name),
                u.key and (u.key.type, self.say(world, u.key, i, arguments, sender)),
                self.say(world, u.value, i, arguments, sender),
            )
            for u in transition.updates
        ]
        passed = {u.name: self.say(world, u.value, i, arguments, sender) for u in transition.passes}
        for place, key, value in updates:
            if key:
                cells = list(world.data_of[place])
                cells[t.position(*key)] = value
                value = tuple(cells)
            world.data_of[place] = value
        world.state_of[role.name, i] = transition.target
        kept = {at: world.data_of[at] for name in passed if (at := (role.name, i, name)) in world.data_of}
        world.data_of.update({at: passed[at[2]] for at in kept})  # while the work is done
        done = self.work(world, role, i, transition, passed)
        world.data_of.update(kept)
        return done

    def work(self, world: World, role: Role, i: int, transition: Transition, passed: Any) -> bool:
        names = () if transition.internal else role.states[transition.target].tasks
        for name in (*names, *transition.also):
            task = role.tasks[name]
            if isinstance(task, Call) or (task.when is not None and not self.say(world, task.when, i, passed)):
                continue
            other = self.system.roles[task.receiver if isinstance(task, Send) else task.role]
            for j in range(other.count):
                if task.only is not None and not self.say(world, task.only, i, passed, it=j):
                    continue
                values = {n: self.say(world, e, i, passed, it=j) for n, e in task.fields.items()}
                if isinstance(task, Send):
                    if not self.send(world, role, i, task, j, values):
                        return False
                else:
                    for driven in other.states[world.state_of[other.name, j]].on.get(task.event, ()):
                        if driven.guard is None or self.say(world, driven.guard, j, values):
                            self.take(world, other, j, driven, values, 0)
                            break
        return True

    def send(self, world: World, role: Role, i: int, task: Send, j: int, values: dict[str, Any]) -> bool:
        channel = self.system.channel_of(task.message)
        lane = (channel.name, i, j)
        if lane not in world.way:
            return True
        fields = tuple(values[f.name] for f in self.system.messages[task.message].fields)
        queue = world.way[lane]
        world.sent[lane] += 1
        if channel.kind == "mailbox":  # of a kind, the newest and the one before it
            older = [m for m in queue if m[1] == task.message]
            queue[:] = [m for m in queue if m not in older[:-1]]
        if channel.kind == "set" and any(m[1:] == (task.message, fields) for m in queue):
            return True
        if channel.capacity is not None and len(queue) >= channel.capacity:
            return False
        queue.append((world.sent[lane], task.message, fields))
        return True

    def deliver(self, world: World, lane: Any, queue: list[Any]) -> Iterator[World]:
        channel = self.system.channels[lane[0]]
        role = self.system.roles[channel.receiver]
        seen = []
        for at, (number, kind, fields) in enumerate(queue):
            if (channel.kind in ("fifo", "mailbox") and at) or (kind, fields) in seen:
                continue
            seen.append((kind, fields))
            after = world.copy()
            if channel.kind != "set":
                del after.way[lane][at]
            after.received[lane] = number
            names = [f.name for f in self.system.messages[kind].fields]
            taken = list(self.consume(after, role, lane[2], kind, dict(zip(names, fields, strict=True)), lane[1]))
            if taken or channel.kind in ("multiset", "set"):
                yield from taken
            else:
                yield after
        if channel.lose == "any":
            for at in range(len(queue)):
                after = world.copy()
                del after.way[lane][at]
                yield after

    def count(self) -> tuple[int, int]:
        """Distinct and generated states, as TLC counts them; `violated` has those of `claims` that fail."""
        seen: set[Any] = set()
        todo: deque[World] = deque()
        generated = 0

        def visit(world: World) -> None:
            nonlocal generated
            generated += 1
            if (self.system.constraint is None or self.say(world, self.system.constraint)) and world.key() not in seen:
                seen.add(world.key())
                todo.append(world)
                self.violated.update(p.name for p in self.claims if not self.holds(world, p))

        for world in self.first():
            visit(world)
        while todo:
            for after in self.next(todo.popleft()):
                visit(after)
        return len(seen), generated


@pytest.mark.parametrize(
    ("folder", "settings"),
    [
        (shipped_folder("lease"), {"last_end": 1, "max_units": 1}),
        (shipped_folder("lease"), {"last_end": 2, "max_units": 2, "expiry": "false", "close_early": "false"}),
        pytest.param(
            shipped_folder("lease"), {"last_end": 2, "max_units": 1, "lazy_close": "false"}, marks=pytest.mark.long
        ),
        pytest.param(
            shipped_folder("contention"),
            {"last_end": 1, "handler_limit": 2, "max_units": 1, "lazy_close": "false"},
            marks=pytest.mark.slow,
        ),
        (shipped_folder("two_phase_commit"), {"participants": 2}),
        (shipped_folder("three_phase_commit"), {"participants": 2}),
        (shipped_folder("starter"), {"clients": 3}),
        (TRUTH / "two_phase", {}),
        (TRUTH / "tcommit", {}),
        (TRUTH / "simple_allocator", {}),
        (TRUTH / "alternating_bit", {}),
        (TRUTH / "acp_sb", {"participants": 1}),
        (TRUTH / "acp_nb_wrong", {"participants": 1}),
        (TRUTH / "peterson", {}),
        (TRUTH / "dining_philosophers", {"manner": "one_left_first"}),
        (TRUTH / "chandy_misra", {}),
        *((CONSTRUCTS / name, {}) for name in ("pool", "begins", "places")),
    ],
    ids=lambda v: getattr(v, "name", None) or "-".join(f"{k}={x}" for k, x in v.items()) or "default",
)
def test_the_explorer_counts_as_its_twin_does(folder: Path, settings: dict[str, Any]) -> None:
    system = load(folder, settings)
    found = explore(system)
    always = {p.name: p for p in system.properties.values() if p.kind == "always" and folder.parent == CONSTRUCTS}
    twin = Twin(system, always.values())
    assert (found.distinct, found.generated) == twin.count()
    assert {p.name for p in found.properties if p.verdict == "violated"} & always.keys() == twin.violated
