"""The solver's steps against the explorer's: whatever the explorer does, some relation allows.

A proof is of the relations, so this is what carries it over to the system. States and steps of an exploration with
faults are written as terms, one by one, and the solver finds the step in the relation of its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
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
        layout, sorts = self.world.layout, self.encoding.sorts
        for role, i in self.system.machines():
            at = z3.IntVal(i)
            yield s.is_in(role.name, at, cells[layout.at(role.name, i, None)])
            for datum in role.data.values():
                value = sorts.literal(datum.type, cells[layout.at(role.name, i, datum.name)])
                yield sorts.equal(s.data(role.name, at, datum.name), value)
            up = bool(cells[self.world.up[layout.of[role.name, i].name]])
            yield s.running(role.name, at) == up
        for datum in self.system.shared.values():
            value = sorts.literal(datum.type, cells[layout.at("shared", 0, datum.name)])
            yield sorts.equal(s.data("shared", z3.IntVal(0), datum.name), value)
        if layout.clock is not None:
            yield s.now == cells[layout.clock]

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
            ranks = [e[0] if kind == "mailbox" else 2 * n + 1 for n, e in enumerate(entries)]
            yield s.read(("received", name), *ends) == BASE
            yield s.read(("sent", name), *ends) == BASE + (content[0] if kind == "mailbox" else 2 * len(entries))
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
        """That mailboxes hold what they do, perhaps under other numbers, and perhaps more."""
        for lane in self.world.layout.lanes:
            ends = self.ends(lane)
            newest, queue = cells[lane.cell]
            sent, received = (s.read((k, lane.channel.name), *ends) for k in ("sent", "received"))
            yield (sent == received) == (newest == 0)
            for i, entry in enumerate(queue):
                n = z3.Int(f"n{lane.cell}.{i}")
                yield s.pending(lane.channel, ends, n)
                yield (n == received) == (entry[0] == 0)
                yield (n == sent) == (entry[0] == newest)
                yield self.is_(s, lane, n, entry)

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
    return [step for step in steps if step.name.endswith((" recovers", " crashes", " crashes again"))]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "settings", "sizes", "every", "kinds"),
    [
        ("two_phase_commit", {"participants": 2}, {"participant": 2}, 23, {"local", "deliver", "crash", "recover"}),
        (TRUTH / "peterson", {}, {"process": 2}, 3, {"local", "crash", "recover"}),
        (BEGINS, {"clients": 2}, {"client": 2}, 3, {"local", "deliver", "crash", "recover"}),
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
    world = reference_of(system, Budget.parse("crash=2,lose=1,reorder=1"))
    encoding = Setting(sizes).encoding(system)
    written = Written(system, world, encoding)
    steps = list(encoding.relation.steps(encoding.before))
    constants = [
        encoding.sorts.equal(encoding.constants[c.name], encoding.sorts.literal(c.type, c.value))
        for c in system.constants.values()
    ]
    asked = set()
    for before, action, after in islice(walk(world, 6000), 0, 250 * every, every):
        if action.kind in ("duplicate", "retry"):  # several messages may come of one
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
    assert kinds <= asked


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
