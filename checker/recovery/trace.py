"""Traces of real actors about one lease, as paths that are printed and drawn as the explorer's.

A step of the path is a transition that an actor has committed, an event that moved nothing, a crash or a recovery. What
is sent belongs to the last step of its machine. Time is the clock of the actors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leasehold.checker.explore.result import ActionKind, Path, Sent, Snapshot, Step
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.core.core import Named
from leasehold.impl.notices import Kind, Notice
from leasehold.spec.language import types as t

UNTRACED = frozenset({"late", "stale"})  # events that change nothing


class TraceRecorder:
    """Records the notices of a simulation from its beginning on."""

    def __init__(self, simulation: Simulation, lease: str) -> None:
        self.sim, self.lease = simulation, lease
        self._steps: list[Step] = []
        self._heard: dict[str, tuple[str, str, Mapping[str, str]]] = {}  # by machine: message, sender, fields
        self._data: dict[str, str] = {}
        self._machines = {name: core for name, (core, _) in simulation.program.machines.items()}
        self._control = {name: core.first_state(number) for name, (core, number) in simulation.program.machines.items()}
        self._down: set[str] = set()
        self._coming_back: set[str] = set()  # actors whose recovery is a step already, and not done
        self._now = 0
        self._initial = self._snapshot()
        simulation.subscribers.append(self._hear)
        simulation.ends.append(self._crashed)

    def path(self) -> Path:
        """The path up to now."""
        return Path(self._initial, tuple(self._steps))

    def _hear(self, notice: Notice) -> None:
        if notice.kind is Kind.RECOVERED:
            if notice.actor not in self._coming_back:
                self._recovers(notice.actor)
            self._coming_back.discard(notice.actor)
        if notice.machine not in self._machines or not self.sim.concerns(notice, self.lease):
            return
        if notice.actor in self._down:  # what a recovery does is told before that it is done
            self._coming_back.add(notice.actor)
            self._recovers(notice.actor)
        match notice.kind:
            case Kind.RECEIVE:
                self._heard[notice.machine] = notice.name, notice.data["peer"], self._fields(notice)
            case Kind.TRANSITION:
                self._look(notice.machine)
                change = {"transition": notice.name, "before": notice.data["from"], "after": notice.data["to"]}
                self._consumed(notice, _event_of(notice), **change)
            case Kind.IGNORED if notice.data["kind"] not in UNTRACED:
                self._consumed(notice, notice.name, "duplicate" if notice.data["kind"] == "duplicate" else "deliver")
            case Kind.SEND:
                sent = Sent(notice.name, notice.machine, notice.data["peer"], self._fields(notice))
                numbers = reversed(range(len(self._steps)))
                last = next((n for n in numbers if self._sends(self._steps[n], notice)), None)
                if last is not None and sent not in (step := self._steps[last]).sent:
                    self._steps[last] = replace(step, sent=(*step.sent, sent))

    def _sends(self, step: Step, notice: Notice) -> bool:
        """Returns whether a message follows from a step."""
        recovery = step.kind == "recover" and step.event.endswith(f":{notice.actor}")
        return step.machine == notice.machine or recovery

    def _consumed(self, notice: Notice, event: str, how: ActionKind = "deliver", **changes: Any) -> None:
        """A message, received in one way or the other, or an event of the machine's own."""
        message, sender, fields = self._heard.pop(notice.machine, ("", "", {}))
        if message == event:
            self._add(how, notice.machine, event, fields, sender, **changes)
        else:
            self._add("tick" if event == "tick" else "local", notice.machine, event, **changes)

    def _crashed(self, actor: str) -> None:
        self._down.add(actor)
        self._coming_back.discard(actor)
        if self._steps:
            self._add("crash", self._first(actor), f"crash:{actor}")

    def _recovers(self, actor: str) -> None:
        self._down.discard(actor)
        if self._steps:
            self._add("recover", self._first(actor), f"recover:{actor}")

    def _first(self, actor: str) -> str:
        return next(name for name in self._machines if self.sim.players[name] == actor)

    def _look(self, machine: str) -> None:
        held = self.sim.held(self.lease, machine)
        if held is not None:
            self._control[machine] = held.state
            view = held.core.view(held.record)
            self._data |= {f"{machine}.{f.name}": _word(f.type, view[f.name]) for f in held.core.fields}

    def _fields(self, notice: Notice) -> dict[str, str]:
        return _shown(self.sim.program.messages[notice.name].fields, notice.data["fields"])

    def _add(
        self,
        kind: ActionKind,
        machine: str,
        event: str,
        fields: Mapping[str, str] | None = None,
        sender: str | None = None,
        **changes: Any,
    ) -> None:
        if self.sim.time.now > self._now:
            self._now = self.sim.time.now
            before = self._steps[-1].state if self._steps else self._initial
            state = replace(before, now=self._now)
            self._steps.append(Step("clock", None, f"now {self._now}", {}, None, None, None, None, (), (), state))
        step = Step(kind, machine, event, fields or {}, sender, None, None, None, (), (), self._snapshot())
        self._steps.append(replace(step, **changes))

    def _snapshot(self) -> Snapshot:
        return Snapshot(dict(self._control), dict(self._data), {}, self._now)


def _shown(shape: Named, fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: _word(kind, fields[name]) for name, kind in shape if name in fields}


def _word(kind: t.Type, value: Any) -> str:
    """A value, or plain data of it, as the language writes it."""
    if isinstance(value, Mapping):  # opaque
        return "{" + ", ".join(f"{k}: {_word(kind, v)}" for k, v in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else t.show(kind, value)


def _event_of(notice: Notice) -> str:
    """The event of a transition."""
    return notice.name.partition("#")[2].partition(".")[0]
