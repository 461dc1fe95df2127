"""An explored system and its compiled core, side by side.

A global state of the explorer is taken apart into records, each step of it into an event; what the core makes of it is
put beside what the explorer says: the record, the messages with their fields, the events for subsidiary machines.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from leasehold.checker.explore import explore
from leasehold.checker.explore.layout import Lane, State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.faults.model import Budget
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.codec import Codec
from leasehold.impl.core.core import Core, Named, Program
from leasehold.impl.core.sparse import as_run, modelled_fields
from leasehold.impl.core.stepping import Numbers
from leasehold.impl.core.work import TICK, CallWork, DriveWork, Event, Machines, Outcome, Record, SendWork, local
from leasehold.impl.core.work import message as heard
from leasehold.spec.language.model import System

SENT, RECEIVED, ENTRY = 20_000, 10_000, 7
APART = 100  # between the numbers of two neighbours, so that none can stand in for another


class Twin:
    """An explored system and its program, side by side."""

    def __init__(self, world: Reference) -> None:
        self.world, self.system = world, world.system
        self.program: Program = compile_system(world.system)
        self.codecs = {name: Codec(self.program, core) for name, core in self.program.roles.items()}
        self.seen: Counter[str] = Counter()

    # From global states to records

    def record(self, s: State, role: str, instance: int) -> Record:
        core = self.program.roles[role]
        numbers = () if core.subsidiary else (self._numbered(core, SENT), self._numbered(core, RECEIVED))
        below = (self._below(s, sub) for sub in core.below)
        return self._own(s, core, instance, (*numbers, ENTRY, *(ENTRY for _ in core.since), *below))

    def _numbered(self, core: Core, base: int) -> Any:
        """A number for each neighbour, apart from those of all others."""
        if not core.dynamic_neighbours:
            return tuple(base + APART * at for at in range(len(core.neighbours)))
        channels = ("", *dict.fromkeys(core.channels))
        of_any = [(role, n) for role in core.dynamic_neighbours for n in range(self.system.roles[role].count)]
        named = [*core.neighbours, *of_any]
        places = {core.position(*machine, 0, channel) for machine in named for channel in channels} - {None}
        return Numbers((at, base + APART * at) for at in sorted(places))

    def _own(self, s: State, core: Core, instance: int, rest: tuple[Any, ...]) -> Record:
        role = self.system.roles[core.role]
        at = self.world.layout.at(role.name, instance, None)
        state, *cells = s[at : at + 1 + len(role.data)]
        data = (as_run(f.type, cell) for f, cell in zip(core.fields, cells, strict=True))
        return (state, *((instance,) if core.indexed else ()), *data, *rest)

    def _below(self, s: State, core: Core) -> Machines:
        machines = Machines(core.first)
        machines.update((i, self.record(s, core.role, i)) for i in range(self.system.roles[core.role].count))
        return machines

    def neighbour(self, core: Core, instance: int, role: str, other: int, lane: Lane) -> int:
        """The position of a machine for what goes over a lane: that of its channel, if it has one of its own."""
        channel = lane.channel.name
        if core.dynamic_neighbours:
            of_machine = [
                at for name in ("", channel) if (at := core.position(role, other, instance, name)) is not None
            ]
        else:
            channels = core.channels or ("",) * len(core.neighbours)
            of_machine = [
                at
                for at, (name, number) in enumerate(core.neighbours)
                if (name, instance if number < 0 else number) == (role, other) and channels[at] in ("", channel)
            ]
        assert len(of_machine) == 1, "each lane has one position"
        return of_machine[0]

    # One step

    def step(self, s: State, action: Action, after: State) -> None:
        assert action.role is not None
        core = self.program.roles[action.role]
        record = self.record(s, action.role, action.instance)
        became, outcome = core.step(record, self._event(core, action), self._now(s))
        codec = self.codecs[action.role]
        assert codec.decode(codec.encode(became), became[core.below_at :]) == became
        kind = {"duplicate": "duplicate"}.get(action.kind, "taken" if action.transition else "unmoved")
        if kind == "unmoved":
            assert outcome.kind in ("ignored", "refused", "unmoved"), outcome
        else:
            assert outcome.kind == kind, (action, outcome)
        assert outcome.transition == (action.transition.name if action.transition else "")
        messages, driven = self._do(became, outcome, self._now(s))
        if not outcome.taken:  # sessions keep what they have said
            messages = [m for m in messages if not self.program.messages[m[1]].ordered]
        expected = self.world.effects(s, action)
        own = action.instance
        wanted = [
            (self.neighbour(core, own, e[0].channel.receiver, e[0].receiver, e[0]), e[1], e[2])
            for e in expected
            if len(e) == 3
        ]
        assert messages == wanted
        if not core.subsidiary:
            self._numbers(core, record, became, action, [at for at, *_ in wanted] if outcome.taken else [])
        assert driven == [((e[0].role.name, e[0].instance), e[1]) for e in expected if len(e) == 5]
        assert self._plain(core, became) == self._plain(core, self.record(after, action.role, action.instance))
        self.seen[outcome.kind] += 1

    def _event(self, core: Core, action: Action) -> Event:
        if action.lane is not None:
            kinds = self.program.messages[action.event].fields
            return heard(action.event, _as_run(kinds, action.fields), *self._heard(core, action))
        return local(action.event, _as_run(core.events.get(action.event, ()), action.fields))

    def _now(self, s: State) -> int:
        clock = self.world.layout.clock
        return int(s[clock]) if clock is not None else 0

    def _heard(self, core: Core, action: Action) -> tuple[int, int]:
        """The sender's position, and the number of the message that it has sent."""
        lane = action.lane
        assert lane is not None
        near = self.neighbour(core, action.instance, lane.channel.sender, lane.sender, lane)
        return near, RECEIVED + APART * near + self._rank

    def _numbers(self, core: Core, record: Record, became: Record, action: Action, sent: list[int]) -> None:
        """A new message is counted as received, and every new one that is sent has the next number."""
        numbers = self._cells(core, record[core.received_at])
        if action.lane is not None and action.kind == "deliver":
            near, number = self._heard(core, action)
            numbers[near] = number
        assert self._cells(core, became[core.received_at]) == numbers
        numbers = self._cells(core, record[core.sent_at])
        for at in sent:
            numbers[at] += 1
        assert self._cells(core, became[core.sent_at]) == numbers

    @staticmethod
    def _cells(core: Core, numbers: Any) -> dict[int, int]:
        """The numbers of a record, by position."""
        return dict(numbers if core.dynamic_neighbours else enumerate(numbers))

    def _do(self, record: Record, outcome: Outcome, now: int) -> tuple[list[Any], list[Any]]:
        """Messages, and events for subsidiary machines, which take them."""
        messages, driven = [], []
        for piece in outcome.work:
            if isinstance(piece, SendWork):
                kinds = self.program.messages[piece.message].fields
                messages.append((piece.neighbour, piece.message, modelled_fields(kinds, piece.fields(record))))
            elif isinstance(piece, DriveWork):
                role, index = piece.machine
                core = self.program.roles[role]
                machines = next(m for m in record if isinstance(m, Machines) and m.first == core.first)
                machines[index], _ = core.step(machines[index], local(piece.event, piece.fields(record)), now)
                driven.append((piece.machine, piece.event))
            else:
                assert isinstance(piece, CallWork)
        return messages, driven

    def _plain(self, core: Core, record: Record) -> tuple[Any, ...]:
        """A record without its numbers, and those of the machines that it sees."""
        own = core.state_epoch_at if core.subsidiary else core.sent_at
        below = [
            [m[: sub.state_epoch_at] for _, m in sorted(record[core.below_at + n].items())]
            for n, sub in enumerate(core.below)
        ]
        return record[:own], below

    # A whole state

    def state(self, s: State) -> None:
        """Every step from a state, and what is offered there.

        What a channel has no room for the explorer does not offer, and an actor finds out when it takes it.
        """
        offered: dict[tuple[str, int], set[str]] = {}
        ticking: set[tuple[str, int]] = set()
        for action, after in self.world.successors(s):
            if action.role is None or action.kind not in ("local", "tick", "deliver", "duplicate"):
                continue
            machine = action.role, action.instance
            if action.lane is not None:
                mailbox = action.lane.channel.kind == "mailbox"  # a session's messages are new, one after the other
                self._rank = s[action.lane.cell][1][action.position][0] if mailbox else 1
            if action.group and action.group[0] == "answer" and self._is_drive(action):
                offered.setdefault(machine, set()).add(action.event)
            if action.kind == "tick":
                ticking.add(machine)
            self.step(s, action, after)
        for name, core in self.program.roles.items():
            for instance in range(self.system.roles[name].count):
                record = self.record(s, name, instance)
                now = self._now(s)
                possible = {e for e in core.offered(record) if core.step(record, local(e), now)[1].taken}
                full = self._is_full(s, name, instance)
                assert possible == offered.get((name, instance), set()) or full
                wake = core.wake(record)
                due = wake is not None and wake <= now and core.step(record, TICK, now)[1].taken
                assert due == ((name, instance) in ticking) or full

    def _is_full(self, s: State, role: str, instance: int) -> bool:
        """Returns whether a session that a machine sends over has no room left."""
        return any(
            len(s[lane.cell]) == lane.channel.capacity
            for lane in self.world.layout.lanes
            if lane.channel.kind == "fifo" and (lane.channel.sender, lane.sender) == (role, instance)
        )

    def _is_drive(self, action: Action) -> bool:
        assert action.role is not None
        assert action.group is not None
        return hasattr(self.system.roles[action.role].tasks[action.group[3]], "event")


def _as_run(kinds: Named, fields: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(as_run(kind, value) for (_, kind), value in zip(kinds, fields, strict=True))


def walk(system: System, budget: str) -> Twin:
    found = explore(system, budget=Budget.parse(budget) if budget else None)
    assert found.complete
    twin = Twin(found.paths.world)
    for s in found.paths.states:
        twin.state(s)
    return twin
