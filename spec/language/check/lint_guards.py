"""The check that the guards of a state and event exclude each other and leave nothing out, over the explored ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from leasehold.spec.language import expression as x
from leasehold.spec.language.declare.build import TICK
from leasehold.spec.language.declare.build_fields import constant_value
from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.model import Datum, Role, State, System, Transition
from leasehold.spec.language.render.python_source import Frame, SourceLayout, evaluated, source
from leasehold.spec.language.types import (
    Instance,
    Int,
    Map,
    Option,
    Seq,
    Set,
    Time,
    Type,
    UnknownType,
    Value,
    domain,
    show,
    size,
)

MAX_COMBINATIONS = 20_000
MAX_WORK = 4_000_000


@dataclass
class Combinations:
    """The number of parts of guards that may still be evaluated: what is beyond is left to the prover."""

    left: int

    def take(self, parts: int) -> bool:
        if parts > min(self.left, MAX_WORK // 4):
            return False
        self.left -= parts
        return True


# Coverage


def check_guards(
    system: System,
    role: Role,
    state: State,
    event: str,
    choices: tuple[Transition, ...],
    sink: Sink,
    reasons: Mapping[tuple[str, str, str], Place],
    work: Combinations,
) -> None:
    left_over = event in state.ignore or event in state.refuse or event == TICK
    where = f"{role.name}/{state.name} on `{event}`"
    open_ended = [t for t in choices if t.guard is None]
    if open_ended and len(choices) > 1:
        sink.error("open_guard", open_ended[0].place, where=where, count=len(choices))
        return
    if open_ended:
        if left_over and event != TICK:
            sink.error("reason_beside_open", reasons[role.name, state.name, event], where=where)
        return
    tried = _GuardCases(system, role, event, choices)
    if not tried.possible or not work.take(tried.parts):
        return
    gap_seen = False
    for values in tried.values():
        true = tried.holding(values)
        if len(true) > 1:
            both = " and ".join(f"`{tried.said(x.text(t.guard or x.TRUE))}`" for t in true[:2])
            place = (true[1].guard or x.TRUE).place
            example = tried.shown(values)
            sink.error_of_values("guards_overlap", place, tried.depends, where=where, example=example, both=both)
            return
        if not true and not left_over:
            example = tried.shown(values)
            place = choices[0].place
            sink.error_of_values("guards_gap", place, tried.depends, where=where, example=example, event=event)
            return
        gap_seen = gap_seen or not true
    if left_over and event != TICK and not gap_seen and tried.exhaustive:
        place = reasons[role.name, state.name, event]
        sink.error_of_values("reason_never_applies", place, tried.depends, where=where)


class _GuardCases:
    """The guards of one state and event over all values, within bounds, of what they read."""

    def __init__(self, system: System, role: Role, event: str, choices: Iterable[Transition]) -> None:
        self.system, self.role, self.event = system, role, event
        self.choices = list(choices)
        self.constants = system.values()
        self.leaves: dict[str, list[Value]] = {}
        self.types: dict[str, Type] = {}
        self.data: list[Datum] = []  # whose values are tried
        self.exhaustive = True
        self.possible = True
        fields = {f.name: f for f in system.fields_of(role.name, event)}
        guards = [t.guard for t in self.choices if t.guard is not None]
        literals = {
            e.value for g in guards for e in x.walk(g) if isinstance(e, x.Literal_) and isinstance(e.value, int)
        }
        self.numbers = sorted({0, 1, 2, *(v + d for v in literals for d in (-1, 0, 1))})
        for guard in guards:
            for e in x.walk(guard):
                self._leaf(e, fields)
        combinations = prod(len(v) for v in self.leaves.values())
        self.possible = self.possible and combinations <= MAX_COMBINATIONS
        self.parts = combinations * sum(x.case_count(g) for g in guards)

    def _leaf(self, e: x.Expression, fields: Mapping[str, Datum]) -> None:
        match e:
            case x.Data(name=name, owner=None):
                self._add(f"{name}", self.role.data[name])
            case x.Data(role=x.SHARED.name, name=name):
                self._add(f"{x.SHARED.name}.{name}", self.system.shared[name])
            case x.Argument(name=name) if name in fields:
                self._add(f"event.{name}", fields[name])
            case x.Now():
                self.leaves["now"], self.types["now"] = self._times(0), e.type
                self.exhaustive = False  # a run goes on beyond the horizon
            case x.Sender(type=Instance(count=count)) | x.Self(type=Instance(count=count)):
                name = x.text(e)
                self.leaves[name], self.types[name] = list(range(count)), e.type
                self.exhaustive = False  # who takes part may depend on constants
            case x.Data() | x.ControlState() | x.Pending() | x.Sender() | x.Self() | x.Argument():
                self.possible = False  # reads other machines: the explorer looks at these
            case x.Literal_(type=UnknownType()):
                self.possible = False  # was reported

    def _add(self, name: str, datum: Datum) -> None:
        if name in self.leaves:
            return
        self.types[name] = datum.type
        self.data.append(datum)
        self.leaves[name] = self._domain(datum)

    def _times(self, beyond: int) -> list[Value]:
        horizon = (self.system.clock.horizon if self.system.clock else 0) + beyond
        if horizon <= MAX_COMBINATIONS:
            return list(range(horizon + 1))
        self.exhaustive = False
        return [n for n in self.numbers if 0 <= n < horizon] + [horizon]

    def _domain(self, datum: Datum) -> list[Value]:
        kind = datum.type
        if any(isinstance(e.type, UnknownType) for end in datum.explore or () for e in x.walk(end)):
            self.possible = False
            return []
        if datum.explore is not None:
            self.exhaustive = False
            timed = any(isinstance(e, x.Now) for end in datum.explore for e in x.walk(end))
            times = self._times(0) if timed else [0]
            lows, highs = ([constant_value(e, self.constants, now) for now in times] for e in datum.explore)
            return self._all(kind, (min(lows), max(highs)))
        if isinstance(kind, (Int, Time)):
            self.exhaustive = False
            low = kind.low if isinstance(kind, Int) else 0
            high = kind.high if isinstance(kind, Int) else None
            times = self._times(1) if isinstance(kind, Time) else []
            span = {*self.numbers, *times, *([low] if low is not None else [])}
            inside = [v for v in sorted(span) if (low is None or v >= low) and (high is None or v <= high)]
            return inside or [low or 0]
        return self._all(kind, (0, 2))

    def _all(self, kind: Type, explore: tuple[int, int]) -> list[Value]:
        if isinstance(kind, UnknownType) or size(kind, explore) > MAX_COMBINATIONS:
            self.possible = False
            return []
        return list(domain(kind, explore))

    @property
    def depends(self) -> frozenset[str]:
        """The constants on whose values a finding may depend: those of guards, ranges and numbers of machines."""
        whole = [t.guard for t in self.choices if t.guard is not None]
        whole += [end for datum in self.data for end in datum.explore or ()]
        inside = [e for one in whole for e in x.walk(one)]
        names = {e.name for e in inside if isinstance(e, x.ConstantRef)}
        kinds = [part for kind in [*self.types.values(), *(e.type for e in inside)] for part in _parts(kind)]
        names |= {kind.counted_by for kind in kinds if isinstance(kind, Instance)} - {""}
        if any(isinstance(kind, Int) and (kind.low, kind.high) != (None, None) for kind in kinds):
            names |= self.system.bounding
        if any(isinstance(kind, Time) for kind in kinds):  # up to the horizon
            names |= self.system.counting
        return frozenset(names)

    def values(self) -> Iterator[dict[str, Value]]:
        for combination in product(*self.leaves.values()):
            yield dict(zip(self.leaves, combination, strict=True))

    @cached_property
    def guards(self) -> list[tuple[Transition, Callable[[Mapping[str, Value]], bool]]]:
        """The choices that have a guard, each with its guard as a function of the values."""
        fields = [name for name in self.leaves if name.startswith("event.")]
        arguments = {name.removeprefix("event."): f"v[{name!r}]" for name in fields}
        frame = Frame(_Assigned(), self.constants, "v['self']", arguments, "v['event.sender']")
        return [(t, evaluated(f"lambda v: {source(t.guard, frame)}")) for t in self.choices if t.guard is not None]

    def holding(self, values: Mapping[str, Value]) -> list[Transition]:
        return [transition for transition, holds in self.guards if holds(values)]

    def shown(self, values: Mapping[str, Value]) -> str:
        return "for example with " + ", ".join(f"{self.said(k)} = {show(self.types[k], v)}" for k, v in values.items())

    def said(self, text: str) -> str:
        """The words for what is read of the event, as they are written of a message where it is one."""
        message = self.system.messages.get(self.event)
        heard = message is not None and message.receiver == self.role.name
        return re.sub(r"(?<![\w.])event\.", "msg.", text) if heard else text


def _parts(kind: Type) -> Iterator[Type]:
    """A type, and those that it is made of."""
    yield kind
    if isinstance(kind, Map):
        yield from _parts(kind.key)
    if isinstance(kind, Map | Option | Seq | Set) and kind.of is not None:
        yield from _parts(kind.of)


class _Assigned(SourceLayout):
    """Values of a machine's own fields, of shared variables and of the clock, by name."""

    def place(self, role: str, name: str | None, instance: str | None) -> str:
        word = f"{role}.{name}" if role == x.SHARED.name else name
        return f"v[{word!r}]"

    def now(self) -> str:
        return "v['now']"


# Machines
