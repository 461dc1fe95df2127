"""Other ways to dispatch an event to a state: a dict, and three libraries for state machines.

Each is given the same flat machine: states, and for each state and event the state that follows. None of them checks
a guard, compares a sequence number, or keeps a record; what a compiled role does besides is on top.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tests.benchmarks.measure import Missing

AGAIN = "again"  # from the end to the beginning, for machines that cannot simply be set back; it counts as a step


@dataclass(frozen=True)
class Flat:
    """A machine without guards.

    Attributes:
        states: the first is the initial one.
        moves: state and event -> next state.
        cycle: events from the initial state to an end, with what each brings.
    """

    states: tuple[str, ...]
    moves: dict[tuple[str, str], str]
    cycle: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def end(self) -> str:
        state = self.states[0]
        for event, _ in self.cycle:
            state = self.moves[state, event]
        return state

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(sorted({event for _, event in self.moves}))

    def round_moves(self) -> Iterable[tuple[str, str, str]]:
        """Source, event, target; with the way back to the beginning."""
        yield from ((source, event, target) for (source, event), target in self.moves.items())
        yield self.end, AGAIN, self.states[0]


def bare(flat: Flat, laps: int) -> float:
    """Steps a second of a dict of functions, the least that a table of transitions can be in Python."""

    def mover(target: str) -> Callable[[tuple[Any, ...]], str]:
        return lambda fields: target

    table = {pair: mover(target) for pair, target in flat.moves.items()}
    first, cycle = flat.states[0], flat.cycle
    begun = time.perf_counter()
    for _ in range(laps):
        state = first
        for event, fields in cycle:
            state = table[state, event](fields)
    seconds = time.perf_counter() - begun
    assert state == flat.end
    return laps * len(cycle) / seconds


def stepped(flat: Flat, laps: int) -> float:
    """The same behind a function of state and event, as whoever dispatches has it."""

    def mover(target: str) -> Callable[[tuple[Any, ...]], str]:
        return lambda fields: target

    table = {pair: mover(target) for pair, target in flat.moves.items()}

    def step(state: str, event: tuple[str, tuple[Any, ...]]) -> str:
        name, fields = event
        return table[state, name](fields)

    first, cycle = flat.states[0], flat.cycle
    begun = time.perf_counter()
    for _ in range(laps):
        state = first
        for event in cycle:
            state = step(state, event)
    seconds = time.perf_counter() - begun
    assert state == flat.end
    return laps * len(cycle) / seconds


def _ring(calls: list[Callable[[], Any]], laps: int) -> float:
    for call in calls:  # what is built at the first call is not measured
        call()
    begun = time.perf_counter()
    for _ in range(laps):
        for call in calls:
            call()
    return laps * len(calls) / (time.perf_counter() - begun)


def _names(flat: Flat) -> list[str]:
    return [*(event for event, _ in flat.cycle), AGAIN]


def automat(flat: Flat) -> Callable[[int], float]:
    """Automat's typed machines."""
    try:
        from automat import TypeMachineBuilder
    except ImportError:
        raise Missing("Automat is not installed") from None

    def method(name: str) -> Callable[[Any], None]:
        def made(self: Any) -> None: ...

        made.__name__ = name
        return made

    inputs: Any = type("Inputs", (Protocol,), {event: method(event) for event in (*flat.events, AGAIN)})
    builder: Any = TypeMachineBuilder(inputs, object)
    states = {state: builder.state(state) for state in flat.states}
    for source, event, target in flat.round_moves():
        states[source].upon(getattr(inputs, event)).to(states[target]).returns(None)
    machine = builder.build()(object())
    return partial(_ring, [getattr(machine, event) for event in _names(flat)])


def transitions(flat: Flat) -> Callable[[int], float]:
    """The library `transitions`, without what it makes unasked."""
    try:
        from transitions import Machine
    except ImportError:
        raise Missing("transitions is not installed") from None
    model: Any = type("Model", (), {})()
    moves = [{"trigger": event, "source": source, "dest": target} for source, event, target in flat.round_moves()]
    Machine(model, states=list(flat.states), initial=flat.states[0], auto_transitions=False, transitions=moves)
    calls = [getattr(model, event) for event in _names(flat)]
    ring = partial(_ring, calls)
    assert model.state == flat.states[0]
    return ring


def statemachine(flat: Flat) -> Callable[[int], float]:
    """The library `python-statemachine`."""
    try:
        from statemachine import State, StateMachine
    except ImportError:
        raise Missing("python-statemachine is not installed") from None
    left = {source for source, _, _ in flat.round_moves()}
    states = {name: State(name, initial=name == flat.states[0], final=name not in left) for name in flat.states}
    events: dict[str, Any] = {}
    for source, event, target in flat.round_moves():
        move = states[source].to(states[target])
        events[f"event_{event}"] = events[f"event_{event}"] | move if f"event_{event}" in events else move
    machine_class = type(
        "Made", (StateMachine,), {**{f"state_{name}": state for name, state in states.items()}, **events}
    )
    machine = machine_class()
    return partial(_ring, [getattr(machine, f"event_{event}") for event in _names(flat)])


LIBRARIES: dict[str, Callable[[Flat], Callable[[int], float]]] = {
    "Automat": automat,
    "transitions": transitions,
    "python-statemachine": statemachine,
}
