"""Units in memory, for tests and benchmarks: on or off, with a history of actions.

The world is outside an actor, so it outlives the handlers that act on it; a restarted actor gets a new handler on the
same world. Hooks decide whether an action takes ticks of a clock that the test moves by hand (`moved`), and whether it
fails; they get the world's own random numbers, from a seed. Actions that are too old are refused, as by real units.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, Stale

_ON = frozenset({"setup", "modify"})


@dataclass(slots=True)
class SimulatedUnit:
    """A unit.

    Attributes:
        on: whether it is up.
        lease: the lease of its last setup.
        number: of its newest action.
        busy: whether an action on it is under way.
        history: of its actions: verb, number, and `done`, `failed`, `cancelled` or `stale`.
        tasks: the actions that were begun, as the identifier of the task and the incarnation that began it.
    """

    on: bool = False
    lease: str = ""
    number: int = 0
    busy: bool = False
    history: list[tuple[str, int, str]] = field(default_factory=list)
    tasks: list[tuple[str, int]] = field(default_factory=list)


class SimulatedUnits:
    """All units, by name; an unknown one is off.

    Args:
        delay: ticks that an action takes.
        fails: whether an action fails; its unit then stays as it was.
        seed: of the random numbers that both hooks get.

    Attributes:
        heard: hear of each action that it begins, and what it became, as the history says it.
    """

    def __init__(
        self,
        *,
        delay: Callable[[HandlerAction, random.Random], int] = lambda action, chance: 0,
        fails: Callable[[HandlerAction, random.Random], bool] = lambda action, chance: False,
        seed: int = 0,
    ) -> None:
        self.units: dict[str, SimulatedUnit] = {}
        self.overlaps: list[str] = []
        self.heard: list[Callable[[HandlerAction, str], None]] = []
        self._delay, self._fails, self._chance = delay, fails, random.Random(seed)
        self._now = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def on(self) -> set[str]:
        """The units that are up."""
        return {name for name, state in self.units.items() if state.on}

    def lose(self, name: str) -> None:
        """A unit that may be up is not any more, and nobody is told."""
        if name in self.units:
            self.units[name].on = False

    def moved(self, now: int) -> None:
        """Moves the clock; actions that are due end."""
        self._now = now
        due = [waiting for until, waiting in self._waiting if until <= now]
        self._waiting = [(until, waiting) for until, waiting in self._waiting if until > now]
        for waiting in due:
            if not waiting.done():
                waiting.set_result(None)

    async def act(self, action: HandlerAction) -> Done:
        """Does an action on a unit, or on a lease as if it were one."""
        name = action.unit or action.lease
        state = self.units.setdefault(name, SimulatedUnit())
        if action.number < state.number:
            state.history.append((action.verb, action.number, "stale"))
            raise Stale(f"action {action.number} on {name} is older than action {state.number}, which it has seen")
        if state.busy:
            self.overlaps.append(f"{action.verb} {action.number} on {name}")
        state.number, state.busy = action.number, True
        state.tasks.append((action.task, action.incarnation))
        self._tell(action, "begun")
        became = "cancelled"
        try:
            await self._take(self._delay(action, self._chance))
            became = "failed"
            if self._fails(action, self._chance):
                raise HandlerError(f"{action.verb} of {name} failed, as the simulation wanted")
            if action.verb in _ON or action.verb in ("teardown", "join", "leave"):
                state.on = action.verb in _ON or action.verb == "join"
                state.lease = action.lease if state.on else ""
            became = "done"
        finally:
            state.busy = False
            state.history.append((action.verb, action.number, became))
            self._tell(action, became)
        return Done(True, facts={"on": state.on})

    def _tell(self, action: HandlerAction, became: str) -> None:
        for hear in self.heard:
            hear(action, became)

    async def _take(self, ticks: int) -> None:
        if ticks > 0:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((self._now + ticks, waiting))
            await waiting


class SimulatedHandler:
    """The handler of a world; without one, of a new world in which every action succeeds at once."""

    def __init__(self, world: SimulatedUnits | None = None) -> None:
        self.world = world or SimulatedUnits()

    async def act(self, action: HandlerAction) -> Done:
        return await self.world.act(action)

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        state = self.world.units.get(unit)
        return {"on": True, "lease": state.lease, "number": state.number} if state and state.on else None

    async def is_up(self, unit: str) -> bool:
        return unit in self.world.on()

    async def close(self) -> None:
        pass
