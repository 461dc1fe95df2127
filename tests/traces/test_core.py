"""The core: one machine, its events, and what each step gives (paper, sections 3.3 and 4.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.values import given_fields
from leasehold.impl.core.work import TICK, Event, Machines, Outcome, Record, Work, local, message
from leasehold.spec import load
from leasehold.spec.language import types as t
from tests.traces.driver import Command, check, files
from tests.traces.words import data, word


class Machine:
    """Runs the commands of a file on one machine.

    | command | does |
    |---|---|
    | `machine ROLE [NAME=CONSTANT]` | a new machine of the lease |
    | `deliver MESSAGE number=N [FIELD=VALUE]` | a neighbour's message |
    | `event NAME [epoch=N] [FIELD=VALUE]` | a local event; `epoch`: it answers a call of that state epoch |
    | `tick N` | the clock comes to a time, and the machine's timer rings |
    | `recover` | the machine after a crash |
    | `record` | prints the record |
    """

    program: Program
    core: Core
    record: Record
    now = 0

    def __call__(self, command: Command) -> list[str]:
        values = dict(command.values)
        match command.name:
            case "machine":
                self.program = compile_system(load("lease", {"max_units": 2, **values}))
                self.core = self.program.roles[command.words[0]]
                self.record = self.core.first(0, tuple(Machines(below.first) for below in self.core.below))
                return [self.record[0]]
            case "record":
                core, record = self.core, self.record
                epoch = record[core.state_epoch_at]
                numbers = f"sent {record[core.sent_at]} received {record[core.received_at]}"
                return [f"{record[0]} {data(core, record)}".rstrip(), f"{numbers} state epoch {epoch}"]
            case "recover":
                return self._said(self.record, self.core.recover(self.record)[1])
            case "tick":
                self.now = int(command.words[0])
                return self._step(TICK)
            case "event":
                epoch = values.pop("epoch", -1)
                name = command.words[0]
                event = local(name, self._fields(self.core.events[name], values), epoch)
                before, others = self.record, cast(Any, None)  # the lease's contracts look at no other machines
                self.record, outcome = self.core.step_outside(before, event, self.now, others)
                return self._said(before, outcome)
            case "deliver":
                return self._step(self._message(command.words[0], values.pop("number"), values))
        raise ValueError(command.line)

    def _fields(self, shape: Any, values: dict[str, Any]) -> tuple[Any, ...]:
        """Returns what a command does not say of opaque values, sets, maps and the start of a term is nothing."""
        for name, kind in shape:
            if isinstance(kind, t.Opaque) or name == "start":
                values.setdefault(name, 0)
            elif isinstance(kind, t.Set | t.Map) and name != "units":
                cells = len(t.members(kind.key)) if isinstance(kind, t.Map) else 0
                values.setdefault(name, [0] * cells)
        return given_fields(shape, values)

    def _message(self, name: str, number: int, values: dict[str, Any]) -> Event:
        shape = self.program.messages[name]
        neighbour = [role for role, _ in self.core.neighbours].index(shape.sender)
        return message(name, self._fields(shape.fields, values), neighbour, number)

    def _step(self, event: Event) -> list[str]:
        before = self.record
        self.record, outcome = self.core.step(before, event, self.now)
        return self._said(before, outcome)

    def _said(self, before: Record, outcome: Outcome) -> list[str]:
        line = f"{before[0]} -> {self.record[0]} by {outcome.transition}" if outcome.taken else outcome.kind
        changed = [
            f"{name} = {word(new)}"
            for name, old, new in zip(self.core.names[1 : self.core.sent_at], before[1:], self.record[1:], strict=False)
            if old != new
        ]
        reason = [f"  because {outcome.reason}"] if outcome.reason else []
        return [line, *reason, *(f"  {c}" for c in changed), *(f"  {self._work(w)}" for w in outcome.work)]

    def _work(self, work: Work) -> str:
        match work:
            case work if hasattr(work, "neighbour"):
                names = [name for name, _ in self.program.messages[work.message].fields]
                fields = " ".join(f"{n}={word(v)}" for n, v in zip(names, work.fields(self.record), strict=True))
                number = self.record[self.core.sent_at][work.neighbour]
                return f"send {work.message} #{number} to {self.core.neighbours[work.neighbour][0]} {fields}".rstrip()
            case work if hasattr(work, "target"):
                return f"start {work.target}"
        role, index = work.machine
        return f"drive {role}[{index}] with {work.event}"


@pytest.mark.parametrize("path", files("core"), ids=lambda path: path.stem)
def test_conversation(path: Path, rewrite: bool) -> None:
    check(path, Machine(), rewrite)
