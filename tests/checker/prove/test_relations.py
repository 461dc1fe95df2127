"""The solver's steps against the explorer's: whatever the explorer does, some relation allows.

A proof is of the relations, so this is what carries it over to the system. States and steps of an exploration with
faults are written as terms, one by one, and the solver finds the step in the relation of its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import z3

from leasehold.checker.explore import channels
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import State as Cells
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.checker.prove.decide.induction import Setting
from leasehold.checker.prove.encode.encoding import Encoding
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.transitions import SymbolicStep
from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language.model import Message
from leasehold.spec.language.types import domain
from tests.systems import TRUTH, load

BEGINS = TRUTH.parent / "constructs" / "begins"
BASE = 10  # the number last received, in every mailbox


def walk(world: Reference, most: int) -> Iterator[tuple[Cells, Action, Cells]]:
    """Steps of an exploration, breadth first."""
    first = world.initial_states()
    known, waiting = set(first), list(first)
    while waiting and len(known) < most:
        s = waiting.pop(0)
        for action, after in world.successors(s):
            yield s, action, after
            if after not in known:
                known.add(after)
                waiting.append(after)


class Written:
    """States of the explorer as terms."""

    def __init__(self, system: System, world: Reference, encoding: Encoding) -> None:
        self.system, self.world, self.encoding = system, world, encoding

    def machines(self, cells: Cells, s: SymbolicState) -> Iterator[Any]:
        layout = self.world.layout
        yield from self.records(cells, s)
        for role, i in self.system.machines():
            up = bool(cells[self.world.up[layout.of[role.name, i].name]])
            yield s.running(role.name, z3.IntVal(i)) == up
        if layout.clock is not None:
            yield s.now == cells[layout.clock]

    def records(self, cells: Cells, s: SymbolicState) -> Iterator[Any]:
        layout, sorts = self.world.layout, self.encoding.sorts
        for role, i in self.system.machines():
            at = z3.IntVal(i)
            yield s.is_in(role.name, at, cells[layout.at(role.name, i, None)])
            for datum in role.data.values():
                value = sorts.literal(datum.type, cells[layout.at(role.name, i, datum.name)])
                yield sorts.equal(s.data(role.name, at, datum.name), value)
        for datum in self.system.shared.values():
            value = sorts.literal(datum.type, cells[layout.at("shared", 0, datum.name)])
            yield sorts.equal(s.data("shared", z3.IntVal(0), datum.name), value)

    def exactly(self, cells: Cells, s: SymbolicState) -> Iterator[Any]:
        """Asks for channels that hold just what they do; numbers of channels other than mailboxes have gaps."""
        for lane in self.world.layout.lanes:
            ends, content = self.ends(lane), cells[lane.cell]
            name, kind = lane.channel.name, lane.channel.kind
            entries = channels.entries(kind, content)
            if kind == "set":
                for message in self.encoding.schema.messages(lane.channel):
                    mine = [e[2] for e in entries if e[1] == message.name]
                    yield self.holds_just(s, name, message, ends, mine)
                continue
            placed = [e[0] if kind == "queue" else n for n, e in enumerate(entries, 1)]
            ranks = [e[0] if kind == "mailbox" else 2 * place - 1 for e, place in zip(entries, placed, strict=True)]
            line = self.world.layout.lines.get(lane.cell, (lane,))
            yield s.received(lane.channel, ends) == BASE
            waiting = sum(len(cells[other.cell]) for other in line) if kind != "mailbox" else 0
            yield s.sent(lane.channel, ends) == BASE + (content[0] if kind == "mailbox" else 2 * waiting)
            n = z3.Int("n")
            yield z3.ForAll([n], s.read(("present", name), *ends, n) == z3.Or(*(n == BASE + rank for rank in ranks)))
            for rank, entry in zip(ranks, entries, strict=True):
                yield self.is_(s, lane, z3.IntVal(BASE + rank), entry)

    def holds_just(self, s: SymbolicState, name: str, message: Message, ends: tuple[Any, ...], known: list[Any]) -> Any:
        """Returns the formula that a set holds just these messages of a kind."""
        sorts, fields = self.encoding.sorts, message.fields

        def inside(*values: Any) -> Any:
            same = (
                z3.And(
                    *(sorts.equal(v, sorts.literal(f.type, w)) for f, v, w in zip(fields, values, each, strict=True))
                )
                for each in known
            )
            return s.functions["in", name, message.name](*ends, *values) == z3.Or(*same)

        return sorts.for_all([f.type for f in message.fields], inside)

    def at_least(self, cells: Cells, s: SymbolicState) -> Iterator[Any]:
        """Asks for channels other than sets that hold what they do, perhaps under other numbers, and perhaps more."""
        for lane in self.world.layout.lanes:
            ends, kind = self.ends(lane), lane.channel.kind
            entries = () if kind == "set" else channels.entries(kind, cells[lane.cell])
            numbers = [z3.Int(f"n{lane.cell}.{i}") for i in range(len(entries))]
            numbers = [self.placed(lane, place) for place, *_ in entries] if kind == "queue" else numbers
            for n, entry in zip(numbers, entries, strict=True):
                yield s.pending(lane.channel, ends, n)
                yield self.is_(s, lane, n, entry)
            if kind == "queue":
                places = zip(numbers, entries, strict=True)
                yield z3.And(*(n > self.placed(lane, entry[0] - 1) for n, entry in places if entry[0] > 1))
                continue
            if kind != "mailbox":
                yield z3.Distinct(*numbers) if len(numbers) > 1 else z3.BoolVal(True)
                yield z3.And(*(m < n for m, n in pairwise(numbers) if kind == "fifo"))
                continue
            newest, _ = cells[lane.cell]
            sent, received = s.sent(lane.channel, ends), s.received(lane.channel, ends)
            yield (sent == received) == (newest == 0)
            for n, entry in zip(numbers, entries, strict=True):
                yield (n == received) == (entry[0] == 0)
                yield (n == sent) == (entry[0] == newest)

    def placed(self, lane: Any, place: int) -> Any:
        """The number of what stands at a place in a queue's line."""
        return z3.Int(f"n{lane.channel.name}.{lane.receiver}.{place}")

    def ends(self, lane: Any) -> tuple[Any, ...]:
        return self.encoding.schema.between(lane.channel, z3.IntVal(lane.sender), z3.IntVal(lane.receiver))

    def is_(self, s: SymbolicState, lane: Any, number: Any, entry: channels.Entry) -> Any:
        _, kind, values = entry
        message = s.message(lane.channel, self.ends(lane), number)
        fields = self.system.messages[kind].fields
        same = [
            self.encoding.sorts.equal(message.field(kind, f.name), self.encoding.sorts.literal(f.type, v))
            for f, v in zip(fields, values, strict=True)
        ]
        return z3.And(message.is_kind(kind), *same)


def relations(steps: list[SymbolicStep], action: Action) -> list[SymbolicStep]:
    """Those that a step may be of."""
    if action.transition is not None:
        return [step for step in steps if step.transition is action.transition]
    if action.kind == "clock":
        return [step for step in steps if step.name == "time passes"]
    if action.kind == "lose":
        assert action.lane is not None
        return [step for step in steps if step.name == f"{action.lane.channel.name} loses a message"]
    if action.lane is not None:
        return [step for step in steps if step.name == f"{action.role} ignores {action.event}"]
    if action.kind == "amnesia":
        return [step for step in steps if step.name.endswith(" loses its store")]
    return [step for step in steps if step.name.endswith((" recovers", " crashes", " crashes again"))]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "settings", "sizes", "every", "kinds"),
    [
        ("two_phase_commit", {"participants": 2}, {"participant": 2}, 23, {"local", "deliver", "crash", "recover"}),
        (TRUTH / "peterson", {}, {"process": 2}, 3, {"local", "crash", "recover"}),
        (BEGINS, {"clients": 2}, {"client": 2}, 3, {"local", "deliver", "crash", "recover"}),
        (TRUTH / "readers_writers", {"actors": 2}, {"actor": 2}, 5, {"local", "deliver"}),
        pytest.param(
            "lease",
            {"max_units": 1, "last_end": 2},
            {"unit": 1},
            61,
            {"local", "deliver", "crash", "recover"},
            marks=pytest.mark.slow,
        ),
        pytest.param(  # several machines of one actor, and channels in pairs
            "contention",
            {"last_end": 1},
            dict.fromkeys(("service_manager", "broker", "authority", "guest"), 2) | {"unit": 1},
            61,
            {"local", "deliver", "crash", "recover"},
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_what_the_explorer_does_is_allowed(
    name: str | Path, settings: dict[str, int], sizes: dict[str, int], every: int, kinds: set[str]
) -> None:
    system = load(name, {k: str(v) for k, v in settings.items()})
    faults = all(channel.kind == "mailbox" for channel in system.channels.values())
    budget = Budget.parse("crash=2,lose=1,reorder=1") if faults else Budget()
    assert kinds <= kinds_allowed(system, sizes, budget, every)


FORGETS = FaultScope(amnesia=True)


@pytest.mark.parametrize(
    ("name", "settings", "sizes", "every"),
    [
        pytest.param("grace_period", {"units": 2}, {"broker": 2, "holder": 2}, 31, marks=pytest.mark.long),
        pytest.param("two_phase_commit", {"participants": 2}, {"participant": 2}, 7, marks=pytest.mark.long),
        (Path(__file__).parent / "systems" / "forgets", {}, {}, 1),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_a_store_that_the_explorer_loses_may_be_lost(
    name: str | Path, settings: dict[str, int], sizes: dict[str, int], every: int
) -> None:
    system = load(name, {k: str(v) for k, v in settings.items()})
    budget = Budget.parse("amnesia=2,crash=1,lose=1")
    assert {"amnesia", "local", "deliver"} <= kinds_allowed(system, sizes, budget, every, most=120, scope=FORGETS)


def kinds_allowed(
    system: System,
    sizes: dict[str, int],
    budget: Budget,
    every: int,
    most: int = 250,
    faults: bool = True,
    scope: FaultScope | None = None,
) -> set[str]:
    """Finds steps of an exploration in the relations, and returns their kinds; a local one has no other end."""
    world = reference_of(system, budget)
    encoding = Setting(sizes, scope=scope).encoding(system)
    written = Written(system, world, encoding)
    steps = list(encoding.relation.steps(encoding.before))
    constants = [
        encoding.sorts.equal(encoding.constants[c.name], encoding.sorts.literal(c.type, c.value))
        for c in system.constants.values()
    ]
    asked = set()
    for before, action, after in islice(walk(world, 6000), 0, most * every, every):
        if action.kind in ("duplicate", "retry"):  # several messages may come of one
            continue
        if not faults and (action.fault or action.kind == "recover"):
            continue
        asked.add(action.kind)
        known = [*constants, *written.machines(before, encoding.before), *written.exactly(before, encoding.before)]
        answers = []
        # Actors that stop together: to claims about states that is a step after the other, to those about steps one.
        ends = [
            (step, end) for step in relations(steps, action) for end in (step.after, step.together) if end is not None
        ]
        for step, end in ends:
            solver = z3.Solver()
            solver.set("timeout", 20_000)
            solver.add(*encoding.given, *known, *step.given)
            solver.add(*written.machines(after, end), *written.at_least(after, end))
            answers.append((step.name, solver.check()))
            if answers[-1][1] == z3.sat:
                break
        assert z3.sat in [answer for _, answer in answers], (action, answers)
        if action.kind == "local" and not system.roles[action.role or ""].indexed and not action.fields:
            (step,) = relations(steps, action)
            solver.reset()
            solver.add(*encoding.given, *known, *step.given, z3.Not(z3.And(*written.records(after, step.after))))
            assert solver.check() == z3.unsat, action
    return asked


@pytest.mark.parametrize("clients", [2, 3])
def test_each_machine_begins_as_in_the_explorer_and_not_otherwise(clients: int) -> None:
    system = load(BEGINS, {"clients": clients})
    world = reference_of(system, Budget(crash=1))
    (first,) = world.initial_states()
    encoding = Setting({"client": clients}).encoding(system)
    written = Written(system, world, encoding)

    def begins(cells: Cells) -> z3.CheckSatResult:
        solver = z3.Solver()
        solver.add(*encoding.given, encoding.first(encoding.before), *written.machines(cells, encoding.before))
        return solver.check()

    assert begins(first) == z3.sat
    for role, i in system.machines():
        for datum in role.data.values():
            at = world.layout.at(role.name, i, datum.name)
            other = next(v for v in domain(datum.type, (0, 9)) if v != first[at])
            assert begins((*first[:at], other, *first[at + 1 :])) == z3.unsat, (role.name, i, datum.name)
