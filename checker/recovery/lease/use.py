"""The use of units in simulation, judged from the simulated world outside: who runs on which unit, for which lease.

Theory of operation. It hears what handlers really do to units and guests, and which messages the network has brought to
a holder; it looks at no machine, record or notice. A guest runs on a unit from the end of a `join` or `modify` that has
succeeded to the end of its `leave`; what ran on a unit that was lost is gone with it. What is wrong:

- a guest runs on a unit that is torn down, or set up for another lease, or it joins such a unit;
- guests of two leases run on one unit;
- a guest runs at or past the latest end that its site has told its holder.

A holder that is down, or whose guests' handlers fail, cannot make them leave in time: who plays the faults says when
that *excuses* it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.faults.simulation.network import Packet
from leasehold.impl.handlers.handler import HandlerAction

CONFIRMS = "update_lease"  # the message by which a site tells a holder the end of its lease


@dataclass(slots=True)
class RunningGuest:
    """A guest that runs on a unit for a lease."""

    unit: str
    lease: str


@dataclass
class UseOfUnits:
    """The use of the units of a simulation, from now on.

    Args:
        sim: the simulation.
        excused: whether holders cannot be blamed at the moment.

    Attributes:
        guests: those that run, by name.
        ends: by lease, the latest end that its site has told its holder.
        wrong: what was wrong, each once.
        judged: how often it was asked whether a guest may run where it does.
    """

    sim: LeaseSimulation
    excused: Callable[[], bool] = lambda: False
    guests: dict[str, RunningGuest] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    torn_down: set[str] = field(default_factory=set)
    wrong: dict[str, None] = field(default_factory=dict)
    judged: int = 0

    def __post_init__(self) -> None:
        self.sim.units.heard.append(self._hear)
        self.sim.network.heard.append(self._confirm)

    def tick(self) -> None:
        """Asks whether a guest runs past its end, once the actors had a tick's time for what is due in it."""
        self._forget_lost()
        now = self.sim.time.now
        for guest in self.guests.values():
            self.judged += 1
            if now >= self.ends.get(guest.lease, 0):
                ended = self.ends.get(guest.lease, 0)
                self._say(
                    f"a guest of {guest.lease} runs on {guest.unit} past {ended}, the end that its site confirmed"
                )

    def _say(self, reason: str) -> None:
        if not self.excused():
            self.wrong.setdefault(f"tick {self.sim.time.now}: {reason}")

    def _confirm(self, packet: Packet) -> None:
        envelope = packet.envelope
        if envelope["message"] == CONFIRMS and envelope["fields"]["units"]:
            lease, end = envelope["lease"], envelope["fields"]["end"]
            self.ends[lease] = max(self.ends.get(lease, 0), end)

    # Handlers

    def _hear(self, action: HandlerAction, became: str) -> None:
        """Hears that a handler begins, or how it has ended."""
        self._forget_lost()
        if action.on == action.unit:
            self._hear_of_unit(action, became)
        elif became == "done":
            self._hear_of_guest(action)

    def _hear_of_unit(self, action: HandlerAction, became: str) -> None:
        unit = action.unit
        there = {name: guest for name, guest in self.guests.items() if guest.unit == unit}
        for guest in there.values() if became == "begun" else ():
            self.judged += 1
            if action.verb == "teardown":
                self._say(f"{unit} is torn down, and a guest of {guest.lease} runs on it")
            elif action.lease != guest.lease:
                self._say(f"{unit} is given to {action.lease}, and a guest of {guest.lease} runs on it")
        if became == "done":
            self.torn_down -= {unit}
            if action.verb == "teardown":
                self.torn_down |= {unit}
                for name in there:
                    del self.guests[name]

    def _hear_of_guest(self, action: HandlerAction) -> None:
        name, unit = action.unit, action.on.rpartition("/")[2]
        if action.verb == "leave":
            self.guests.pop(name, None)
            return
        state = self.sim.units.units.get(unit)
        mine = state is not None and state.on and state.lease == action.lease
        self.judged += 1
        if unit in self.torn_down or (state is not None and state.on and not mine):
            owner = state.lease if state is not None and state.on else "nobody"
            self._say(f"a guest of {action.lease} joins {unit}, which is {owner}'s")
        others = {g.lease for g in self.guests.values() if g.unit == unit} - {action.lease}
        if others:
            self._say(f"guests of {action.lease} and {', '.join(sorted(others))} run on {unit}")
        if mine:
            self.guests[name] = RunningGuest(unit, action.lease)

    def _forget_lost(self) -> None:
        """Removes the guests of units that were lost."""
        up = self.sim.units.on()
        for name in [name for name, guest in self.guests.items() if guest.unit not in up]:
            del self.guests[name]
