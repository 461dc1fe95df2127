"""A run of real actors of any system in simulation, and what was found wrong in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Generic

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.conformance import StepConformance
from leasehold.checker.recovery.events import CommittedEvents, EventMonitor, S
from leasehold.checker.recovery.monitor import PropertyMonitor
from leasehold.checker.recovery.progress import owed
from leasehold.checker.recovery.properties import RunProperties
from leasehold.impl.notices import SimulatedCrash

MOST_LOST = 3  # records that a run tells of as lost, so that what follows from that is told too

# What is checked in every run, whatever the system.
CHECKS = {
    "drive": "The actors come to each state of the script as the model does.",
    "invariant": "Every property of the specification holds throughout, at each cut.",
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
        commits: the events of a simulation of which no actor has started.
        properties: the specification, grounded.
        name: of the run.

    Attributes:
        sim: the actors, and their simulated environment.
        outcome: with what is wrong; without findings where nothing is.
        steps: compares each step with the specification.
        events: compares the chains of events with the steps.
    """

    def __init__(self, commits: CommittedEvents[S], properties: RunProperties, name: str) -> None:
        self.commits, self.sim = commits, commits.sim
        self.outcome = CaseOutcome(name)
        self.steps = StepConformance(self.sim, properties.world)
        self.events = EventMonitor(commits)

    def say(self, check: str, reason: str) -> None:
        self.outcome.say(check, reason)

    def report_steps(self) -> None:
        """Checks whether each step was one of the specification; one that was not makes others strange."""
        for reason in self.steps.strange[:1]:
            self.say("step", reason)
        for reason in self.events.wrong[:1]:
            self.say("events", reason)

    def report_errors(self) -> None:
        for context in self.sim.loop.errors:
            raised = context.get("exception")
            if not isinstance(raised, SimulatedCrash):
                self.say("error", f"{context.get('message')}: {raised!r}")

    def state(self, lease: str, machine: str) -> str:
        """The control state of a machine; empty where the actor does not run or has none."""
        instance = self.sim.held(lease, machine)
        return "" if instance is None else instance.state

    def data(self, lease: str, machine: str) -> Mapping[str, Any]:
        """The data of a machine; empty where the actor does not run or has none."""
        instance = self.sim.held(lease, machine)
        return {} if instance is None else instance.core.view(instance.record)

    def where(self, lease: str) -> str:
        """The control states of the machines that are no subsidiaries."""
        return self.sim.where(lease)

    def tell(self, machine: str, lease: str, event: str, fields: Mapping[str, Any] | None = None) -> None:
        """An operator's event for a machine."""
        actor = self.sim.actors[self.sim.players[machine]]
        self.sim.loop.call(partial(actor.tell, lease, machine, event, dict(fields or {})))

    def check_progress(self, monitor: PropertyMonitor) -> None:
        """Checks whether the machines of a lease have left anything undone, once its actors are at rest."""
        for reason in owed(self.sim, monitor.properties, monitor.lease, monitor.state):
            self.say("progress", f"tick {self.sim.time.now}: {reason}")
