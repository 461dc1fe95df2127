"""A counterexample of the explorer, played by real actors: what it breaks is seen, and reported from their events.

Theory of operation. The steps of the path are forced: messages are delivered and lost, timers fire, policies, handlers
and clients say what the path has, and actors stop where it says. After each step the records of all machines must be
those of the path's state. What is broken is seen in two ways: the properties are asked of the cuts of the run, as its
actors commit, and `verify` is asked of the chains of events that the actors have left. In simulation all events of a
tick have one time, so `verify` is given their number in its place, and has the order of the path.

`verify` may not report what a path breaks, though actors have taken its steps: a simulation knows more than any event
tells (recovery/monitor.py). The reason is said then.

Some paths are played by no actor of ours: a role that lies, and clocks and stores that fail in a way that actors notice
and refuse. The reason is said (`UNPLAYED`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from msgspec import structs

from leasehold.checker.explore.properties import DEADLOCK
from leasehold.checker.explore.result import Path
from leasehold.checker.recovery.cases.counterexample import ENDLESS, CounterexampleRun, counterexample_of
from leasehold.checker.recovery.cases.path_case import NoSuchStep, PathCase
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model import Budget
from leasehold.impl.actor.ready import SealEvents
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.events.event import AnyEvent, StepEvent, read
from leasehold.spec import System
from leasehold.spec.language import expression as x
from leasehold.spec.language.model import Property

# Kinds of faults in a budget that no actor of ours has, and why.
UNPLAYED: Mapping[str, str] = {
    "byzantine": "a role lies, and compiled actors say what their records say and nothing else",
    "amnesia": "an actor loses its store, and its peers refuse what it says then",
    "skew": "clocks leave true time, and a script has one time",
    "drift": "clocks run at rates of their own, and a script has one time",
}
# Why no event tells of what a path breaks.
OF_NO_EVENT = "what breaks it is no step that an actor commits, and no event tells of that"
DOWN = "an actor is down in the end, and no event tells of that until it is back"
ON_THEIR_WAY = "it asks for messages on their way, of which faults have made copies, and no event tells of those"
APART = "it asks who can reach whom, and no event tells of a partition"
UNBEGUN = "no machine takes a step on its path, and no event tells of a run that nothing begins"
AGAIN = "it fails again and again in a run without an end, and holds where the events of this one end"
AT_FIRST = "it is broken in the first state, before any actor has done anything"
OF_STATES = ("always", "step")


@dataclass
class PlayedCounterexample:
    """The result of playing a counterexample with real actors.

    Attributes:
        name, kind: of the property.
        steps: how many the path has.
        unplayed: why it cannot be played; empty where it was.
        findings: where the actors did not do what the path says.
        broken: the properties that do not hold on their records, or are owed at their end.
        reported: the properties that `verify` reports of their events.
        not_asked: why `verify` cannot tell of the property, or of this path to where it is broken; empty where it can.
        events: by actor, its chain: the bytes of each event.
    """

    name: str
    kind: str
    steps: int
    unplayed: str = ""
    findings: list[str] = field(default_factory=list)
    broken: frozenset[str] = frozenset()
    reported: frozenset[str] = frozenset()
    not_asked: str = ""
    events: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def reproduced(self) -> bool:
        """Returns whether the actors have taken each step, come to its records, and broken the property.

        Of a property that no run shows, such as what must always be possible, coming to its state is enough: that it is
        broken there is the explorer's verdict.
        """
        seen = bool(self.not_asked) or self.name in self.broken | self.reported
        return not self.unplayed and not self.findings and seen


def play_counterexample(system: System, case: PathCase) -> PlayedCounterexample:
    """Plays a path of the explorer that breaks a property.

    Args:
        system: of which the explorer has found it.
        case: the path, to where the property is broken.

    Raises:
        NotRunnable: no actor can play the system.
    """
    name, faults = case.property, case.budget or Budget()
    try:
        follows = case.run(system)
    except NoSuchStep as error:
        return PlayedCounterexample(name, "", len(case.steps), findings=[str(error)])
    path = follows.path
    kind = "deadlock" if name == DEADLOCK else system.properties[name].kind
    played = PlayedCounterexample(name, kind, len(path.steps))
    why = next((reason for fault, reason in UNPLAYED.items() if getattr(faults, fault)), "")
    why = why or (AT_FIRST if not path.steps and kind in OF_STATES else "")
    if why:
        played.unplayed = why
        return played
    script = counterexample_of(follows, name, faults, kind in ENDLESS)
    run = CounterexampleRun(compile_system(system), follows.properties, script)
    run.replayer.excuses = True
    order: dict[tuple[str, int], int] = {}  # of the events since the run began

    def number(actor: str, events: list[AnyEvent], in_doubt: bool) -> None:
        order.update({(actor, event.position): len(order) + n for n, event in enumerate(events, 1)})

    run.monitor.commits.listeners.append(number)
    try:
        outcome = run.run()
        for actor in run.sim.actors.values():  # the time of the end, which no step may tell
            run.sim.loop.call(partial(actor.queue.put, SealEvents("asked")))
        played.events = run.sim.events()
        down = not run.sim.roles.keys() <= run.sim.actors.keys()
    finally:
        run.close()
    played.unplayed = outcome.skipped
    played.findings = [finding.words for finding in outcome.findings]
    played.broken = frozenset({*run.seen, *run.monitor.broken})
    _verify(system, played, order)
    if name not in played.reported and not played.unplayed and not played.not_asked:
        played.not_asked = _untold(run, played, system.properties.get(name), path, down)
    return played


def _untold(run: CounterexampleRun, played: PlayedCounterexample, of: Property | None, path: Path, down: bool) -> str:
    """Returns why no event may tell of what a path breaks; empty where events tell."""
    if not any(isinstance(read(body), StepEvent) for bodies in played.events.values() for body in bodies):
        return UNBEGUN
    if played.kind == "eventually_always" and path.loop is not None and played.name not in played.broken:
        return AGAIN
    if of is None:
        return ""
    if of.kind in OF_STATES and of.name in played.broken - run.monitor.told:
        return OF_NO_EVENT
    if down:
        return DOWN
    claims = [of.claim, *(() if of.when is None else (of.when,))]
    apart = any(step.kind == "partition" for step in path.steps)
    if apart and any(x.mentions(e, lambda node: x.is_query(node, "reachable")) for e in claims):
        return APART
    return ON_THEIR_WAY if of.name in run.monitor.properties.claims.of_messages else ""


def _verify(system: System, played: PlayedCounterexample, order: Mapping[tuple[str, int], int]) -> None:
    """Notes what `verify` finds in the events, in the order of their commits, each run being over with its last one."""
    chains = {
        actor: [structs.replace(e, time=float(order.get((actor, e.position), 0))) for e in map(read, bodies)]
        for actor, bodies in played.events.items()
    }
    verification = HistoryVerification(CutsOfSystem(system), chains, complete=True)
    try:
        for actor, events in chains.items():
            verification.add(actor, events)
        result = verification.end()
    finally:
        verification.close()
    played.reported = frozenset(violation.of for violation in result.violations)
    played.findings += [str(fault) for fault in result.faults]
    played.not_asked = result.not_asked.get(played.name, "")
