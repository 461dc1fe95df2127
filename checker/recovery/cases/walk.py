"""One case of any system replayed by real actors, and what follows its restart.

Theory of operation. After the restart the actors are free, and everything that was delivered before is delivered once
more, if nothing was lost. Then the environment goes on: step by step, a packet arrives, a machine takes a local event
that the specification allows in the present records, or time passes. Which of these is left to chance, from a seed that
is the case's name. When nothing is possible any more, messages that were lost are retransmitted; if nothing comes of
that, the run has ended. CHECKS lists what is checked.
"""

from __future__ import annotations

import random
from functools import partial

from leasehold.checker.explore.properties import DEADLOCK
from leasehold.checker.recovery import simulated_run
from leasehold.checker.recovery.cases.case import CaseRun
from leasehold.checker.recovery.cases.choices import Choices, Happening
from leasehold.checker.recovery.cases.player import ROUNDS, SETTLE
from leasehold.checker.recovery.cases.replay import Replayer
from leasehold.checker.recovery.cases.steps import Script, ScriptStep
from leasehold.checker.recovery.events import CommittedEvents
from leasehold.checker.recovery.monitor import PropertyMonitor
from leasehold.checker.recovery.properties import Records, RunProperties
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.core.core import Program

MOST_STEPS = 400  # after the restart
AS_IN_THE_MODEL = "broken as in the model"
CHECKS = {
    **simulated_run.CHECKS,
    "progress": (
        f"{simulated_run.CHECKS['progress']} Where nothing is possible any more, no property that leads to something "
        "waits for it."
    ),
    "model": "Each record state that is committed is one that the explored graph has.",
    "repeated": "Messages that come again when all is over change nothing.",
    "end": "Where nothing is possible any more, one of the system's ends holds.",
    "counterexample": "What faults break in the model they break in the run as well, and nothing else.",
}


class WalkRun(CaseRun[Simulation]):
    """A run of one case: after the restart, a random walk over what the specification allows.

    Args:
        program: the compiled system.
        properties: of the system.
        script, lost, second: as for every case.
        known: the record states of the explored graph; None: they are not compared.
    """

    def __init__(
        self,
        program: Program,
        properties: RunProperties,
        script: Script,
        *,
        lost: bool = False,
        second: str | None = None,
        known: frozenset[Records] | None = None,
    ) -> None:
        simulation = Simulation(program)
        run = name_of_run(simulation, properties, script)
        monitor = PropertyMonitor(CommittedEvents(simulation), properties, run, bounded=True, known=known)
        replayer = Replayer(simulation, properties.system, script, run)
        super().__init__(monitor, replayer, lost=lost, second=second)
        self.choices = Choices(replayer, monitor)
        self.chance = random.Random(script.name)
        self.halted: list[str] = []
        self.ended = False

    # Stages

    def stages(self) -> None:
        self.until_recovered()
        if self.ended:
            self._at_the_end()

    def until_recovered(self) -> None:
        self.to_the_restart()
        self.sim.release(packets=False)
        self.redeliver()
        self._go_on()
        self.second.armed = False

    def watch(self, step: ScriptStep) -> None:
        super().watch(step)
        if step.kind == "halt" and step.machine is not None:
            self.halted.append(self.replayer.player(step.machine))
        if step.kind in ("halt", "partition", "heal"):
            self.monitor.cells.update(step.cells)
        if step.kind in ("crash", "halt", "recover", "partition", "heal"):
            self.monitor.passed(step.kind)

    def _go_on(self) -> None:
        """Lets what is possible happen, one thing after the other, until nothing is possible."""
        self.check_progress(self.monitor)
        for _ in range(MOST_STEPS):
            possible = [*self._restarts(), *self.choices.packets(), *self.choices.events()]
            if self.monitor.outside:
                self.outcome.end = "out of bounds"
                return
            if possible:
                self.chance.choice(possible)()
                self.check_progress(self.monitor)
            elif not self._retransmitted():
                self.ended = True
                return
        self.outcome.end = f"after {MOST_STEPS} steps"

    def _restarts(self) -> list[Happening]:
        """The restarts of actors that are down."""
        if self.second.stopped:
            return [self._restart_stopped]
        return [partial(self._restart, name) for name in self.choices.away(self.halted)]

    def _restart_stopped(self) -> None:
        self.second.restart()
        self.monitor.passed("recover")

    def _restart(self, name: str) -> None:
        self.sim.start(name)
        self.monitor.passed("recover")

    def _retransmitted(self) -> bool:
        """Time is given to senders until a record changes, or something becomes possible but what is said again."""
        before = self.monitor.properties.projection(self.monitor.state)
        for n in range(ROUNDS):
            self.sim.loop.advance(SETTLE * 2**n)
            for _ in range(MOST_STEPS):  # answers may be answered without an end
                if not (packets := list(self.choices.packets())):
                    break
                packets[0]()
            now = self.monitor.properties.projection(self.monitor.state)
            if now != before or self.second.stopped:
                return True
        return False

    # Where nothing is possible any more

    def _at_the_end(self) -> None:
        self.check_progress(self.monitor)
        for name in sorted(self.monitor.waiting - self.excused):
            self.say("progress", f"{name} waits for what it leads to, and nothing is possible any more")
        self._check_end()
        if not self.lost:
            self._repeat()

    def _check_end(self) -> None:
        properties, state = self.monitor.properties, self.monitor.state
        end = properties.end(state)
        self.outcome.end = end or "at rest"
        if properties.ends is not None and end is None and DEADLOCK not in self.excused:
            self.say("end", f"nothing is possible any more, and no end holds: {self.where(self.lease)}")

    def _repeat(self) -> None:
        before = self.monitor.properties.projection(self.monitor.state)
        self.redeliver()
        if self.monitor.properties.projection(self.monitor.state) != before:
            self.say("repeated", f"messages that came again have changed records: {self.where(self.lease)}")

    # Checks

    @property
    def excused(self) -> frozenset[str]:
        """The properties that the model says are broken with one crash."""
        return self.monitor.properties.excused

    def judge(self) -> None:
        for name, when in self.monitor.broken.items():
            if name in self.excused:
                self.outcome.end = AS_IN_THE_MODEL
            else:
                self.say("invariant", f"{name} does not hold {when}")
        for reason in self.monitor.strange[:1]:
            self.say("model", f"no run of the model has these records {reason}")


def name_of_run(simulation: Simulation, properties: RunProperties, script: Script) -> str:
    """The name of the run that a script is about: its origin is the actor whose machine begins it.

    That is the first machine that takes a local event, or else one that may take one in the first state.
    """
    if simulation.program.standing:
        return simulation.program.only_run
    roles = simulation.program.roles
    for step in script.steps:
        if step.machine is not None and (step.kind == "local" or step.event.startswith("local ")):
            role, number = step.machine
            return f"{simulation.players[roles[role].machine(number)]}:1"
    world = properties.world
    for action, _ in world.successors(world.initial_states()[0]):
        if action.kind == "local" and action.role is not None:
            return f"{simulation.players[roles[action.role].machine(action.instance)]}:1"
    return f"{next(iter(simulation.roles))}:1"
