"""A run of real actors of any system in simulation, and what was found wrong in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.conformance import StepConformance
from leasehold.checker.recovery.events import EventMonitor
from leasehold.checker.recovery.monitor import MonitoredProperties, PropertyMonitor
from leasehold.checker.recovery.progress import owed
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.notices import SimulatedCrash

S = TypeVar("S", bound=Simulation)

# What is checked in every run, whatever the system.
CHECKS = {
    "drive": "The actors come to each state of the script as the model does.",
    "invariant": "Every property of the specification that can be evaluated on records holds throughout.",
    "step": "Each step that an actor commits is one of the specification, with its messages and calls.",
    "record": (
        "An actor restarts with the records that it had committed, and with all that belongs to them; what it keeps "
        "about itself is in its store as it is in memory."
    ),
    "events": (
        "The chain of events that an actor commits has exactly the steps that it has committed, and verifies; a crash "
        "loses none and adds none."
    ),
    "progress": (
        "No machine at rest owes what its state asks for: a timer's event, a handler's call, an answer of its "
        "subsidiaries that has come true, or a message; and none says again what its state does not say."
    ),
    "error": "No exception is left unhandled.",
}


class SimulatedRun(Generic[S]):
    """The base of all runs in simulation.

    Args:
        simulation: none of its actors has started.
        properties: the specification, grounded.
        name: of the run.

    Attributes:
        sim: the actors, and their simulated environment.
        outcome: with what is wrong; without findings where nothing is.
        steps: compares each step with the specification.
        events: compares the chains of events with the steps.
    """

    def __init__(self, simulation: S, properties: MonitoredProperties, name: str) -> None:
        self.sim = simulation
        self.outcome = CaseOutcome(name)
        self.steps = StepConformance(simulation, properties.world)
        self.events = EventMonitor(simulation)

    def say(self, check: str, words: str) -> None:
        self.outcome.say(check, words)

    def report_steps(self) -> None:
        """Checks whether each step was one of the specification; one that was not makes others strange."""
        for words in self.steps.strange[:1]:
            self.say("step", words)
        for words in self.events.wrong[:1]:
            self.say("events", words)

    def report_errors(self) -> None:
        for context in self.sim.loop.errors:
            raised = context.get("exception")
            if not isinstance(raised, SimulatedCrash):
                self.say("error", f"{context.get('message')}: {raised!r}")

    def state(self, lease: str, machine: str) -> str:
        """The control state of a machine; empty where the actor does not run or has none."""
        held = self.sim.held(lease, machine)
        return "" if held is None else held.state

    def data(self, lease: str, machine: str) -> Mapping[str, Any]:
        """The data of a machine; empty where the actor does not run or has none."""
        held = self.sim.held(lease, machine)
        return {} if held is None else held.core.view(held.record)

    def where(self, lease: str) -> str:
        """The control states of the machines that are no subsidiaries."""
        return self.sim.where(lease)

    def tell(self, machine: str, lease: str, event: str, fields: Mapping[str, Any] | None = None) -> None:
        """An operator's event for a machine."""
        actor = self.sim.actors[self.sim.players[machine]]
        self.sim.loop.call(partial(actor.tell, lease, machine, event, dict(fields or {})))

    def check_progress(self, monitor: PropertyMonitor) -> None:
        """Checks whether the machines of a lease have left anything undone, once its actors are at rest."""
        for words in owed(self.sim, monitor.properties, monitor.lease, monitor.state):
            self.say("progress", f"tick {self.sim.time.now}: {words}")
