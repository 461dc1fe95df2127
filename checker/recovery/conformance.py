"""The check that what actors do is a run of the specification: each step is compared with the reference's.

Theory of operation. A simulation logs every event that an actor's loop gives a machine, the record before and after it,
and the work that it begins (faults/simulation/steps.py). When the turn is committed, the explorer's reference takes the
same event in the same state (checker/conform/comparison.py). Of a duplicate and of a recovery, what is begun again is
compared, and each message that leaves the actor: it is the one that a committed step has sent under this number.

So by induction, the log of a run is a run of the specification in which messages come late, never, or twice. Its bounds
do not matter for a step: units, times and fields may have any values of their types. Two things are left to other
checks: what a step must do and does not come at all (progress.py), and conditions of the environment that ask for
messages on their way, which no actor can know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.checker.conform.comparison import StepComparison, durable
from leasehold.checker.explore.ground import GroundOffer
from leasehold.checker.explore.reference import Reference
from leasehold.checker.recovery.properties import reads_messages
from leasehold.faults.simulation.simulation import Simulation
from leasehold.faults.simulation.steps import LoggedStep, LoggedTurn
from leasehold.impl.notices import Kind, Notice


class StepConformance(StepComparison):
    """Compares the steps of all actors of a simulation with those of the specification.

    It has to be made before the actors start.

    Args:
        simulation: whose steps.
        world: the reference of the same specification.

    Attributes:
        strange: what no run of the specification does, in words.
        cells: the values of cells that faults have added to the model, where no record tells them: a partition.
    """

    def __init__(self, simulation: Simulation, world: Reference) -> None:
        super().__init__(simulation.program, world, _asks_messages)
        self.sim = simulation
        self.strange: list[str] = []
        self.cells: Mapping[int, Any] = {}
        self._waiting: dict[str, LoggedTurn] = {}  # by actor, steps that are not committed yet
        self._stopped: set[str] = set()  # actors of which nobody knows whether their last commit was made
        simulation.turns.append(self._stepped)
        simulation.subscribers.append(self._hear)
        simulation.ends.append(self._stopped.add)

    # What actors tell

    def _stepped(self, actor: str, turn: LoggedTurn) -> None:
        if actor in self._stopped:
            self._stopped.discard(actor)
            self._settle(actor)
        self._waiting.setdefault(actor, []).extend(turn)

    def _settle(self, actor: str) -> None:
        """An actor begins with what its store has: its last steps were committed, or have never been."""
        steps = self._waiting.pop(actor, [])
        last = {one.key: one for step in steps for one in (step, *step.driven)}
        ends = {key: durable(one, one.after) for key, one in last.items()}
        changed = {key: after for key, after in ends.items() if after != self.records.get(key)}
        instances = self.sim.actors[actor].table.instances
        if all(
            key in instances and durable(last[key], instances[key].record) == after for key, after in changed.items()
        ):
            self._committed(steps)

    def _hear(self, notice: Notice) -> None:
        if notice.kind is Kind.COMMITTED:
            self._committed(self._waiting.pop(notice.actor, []))
        elif notice.kind is Kind.STOPPED:
            self._stopped.add(notice.actor)
        elif notice.kind is Kind.RECOVERED and notice.actor in self._stopped:  # with no machine that would step
            self._stopped.discard(notice.actor)
            self._waiting.pop(notice.actor, None)
        elif notice.kind is Kind.SEND:
            self._leaves(notice)

    def _leaves(self, notice: Notice) -> None:
        """A message leaves its actor."""
        peer = notice.data["peer"]
        lane = notice.lease, notice.machine, self.over(peer, notice.name)
        number, message = notice.data["number"], self.modelled(notice.name, tuple(notice.data["fields"].values()))
        if self.machine(notice.machine) and self.machine(peer) and message not in self.said(lane, number):
            reason = f"sends {self.written(message)} as message {number}, which no committed step has sent"
            self.say(notice.now, notice.lease, notice.machine, reason)

    def _committed(self, steps: Sequence[LoggedStep]) -> None:
        """Compares the steps of a turn that is committed."""
        for step in steps:
            unmade = self.known(step.key) is None and not self.program.standing
            self.judge(step)
            if unmade and step.event is not None and not (step.outcome is not None and step.outcome.taken):
                del self.records[step.key]  # the next message finds none either
        for key in {step.key for step in steps}:
            actor = self.sim.actors.get(self.sim.players.get(key.machine, ""))
            if actor is not None and key not in actor.table.instances:
                self.records.pop(key, None)  # a message that moves nothing begins no machine

    # For the comparison

    def is_up(self, machine: str) -> bool:
        return self.sim.players[machine] in self.sim.actors

    def _state(self, step: LoggedStep) -> list[Any]:
        state = super()._state(step)
        for cell, value in self.cells.items():
            state[cell] = value
        return state

    def say(self, now: int, lease: str, machine: str, reason: str) -> None:
        self.strange.append(f"tick {now}: {machine} of {lease} {reason}"[:500])


def _asks_messages(offer: GroundOffer) -> bool:
    """Returns whether the environment's condition asks for messages on their way."""
    return any(map(reads_messages, offer.offer.outside))
