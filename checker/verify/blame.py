"""The culprit of a violation, as far as events tell: the core, the infrastructure, a policy, or the specification.

Theory of operation. What led to a violation is the *causal past* of the last step of its run: the steps of its machine
and actor before it, those that sent what these have received, and so on. All of it is judged as `leasehold conform`
does. The first event that is wrong there decides, as what follows from it may be right by itself:

    core            a step that the specification does not allow, or a timer that was due and has ended nothing, though
                    its actor ran and its clock has come there
    infrastructure  events contradict each other: a message that nobody has sent so, a record that was lost, a clock
                    that goes back, a probe that finds another state than handlers have told, a unit that died and
                    that no handler has told to be up again, or whose handler has failed, or was given up, since a
                    policy has decided last; or something should have come, and an actor was down, a message was not
                    received, or a handler's call has not ended
    policy          something should have come, and a policy that was asked has not answered; or all steps are allowed,
                    and decisions of policies led there: the last of each actor
    specification   all steps are allowed, and nobody has decided anything: whoever keeps to it comes there
    unknown         it cannot be told, and why

In the specification no time passes before the timers that are due have ended what they time. Of real actors a timer
that has not leaves no event. So the state itself is looked at, in which a property is violated: whether a tick would
move a machine, and whether its actor runs (`due`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from leasehold.checker.conform.comparison import show_said
from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.properties import DEADLOCK
from leasehold.checker.history.fault import CutFault
from leasehold.checker.history.merge import HappenedBefore, Place
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model.lowering import UP
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import TICK, Machines, Record
from leasehold.impl.events.event import AnyEvent, MachineStep, StartedCall, StepEvent
from leasehold.impl.words import over
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import OF_FAIR_RUNS, Call, Property

Culprit: TypeAlias = Literal["core", "infrastructure", "policy", "specification", "unknown"]


@dataclass(frozen=True, slots=True)
class Blame:
    """The culprit of a violation, and the reason.

    Attributes:
        culprit: whose.
        reason: why, in words.
        events: those that show it, the one that counts most first.
    """

    culprit: Culprit
    reason: str
    events: tuple[Place, ...] = ()

    def __str__(self) -> str:
        return f"{self.culprit}: {self.reason}"

    def as_json(self) -> dict[str, object]:
        return {
            "culprit": self.culprit,
            "reason": self.reason,
            "events": [{"actor": actor, "position": position} for actor, position in self.events],
        }


class Blaming:
    """Finds whose fault violations of a history are.

    Args:
        known: the system.
        chains: the events of each actor.
        faults: what was wrong with the events, as `HistoryResult` has it.
    """

    def __init__(
        self, known: CutsOfSystem, chains: Mapping[str, Sequence[AnyEvent]], faults: Iterable[CutFault] = ()
    ) -> None:
        self.known, self.faults = known, list(faults)
        system = KnownSystem(known.system, known.program)
        pruned = {actor: events[0].position - 1 for actor, events in chains.items() if events}
        conformance = LogConformance(system, [JudgedLog(actor, pruned=pruned.get(actor, 0)) for actor in chains])
        self.order: dict[Place, int] = {}
        self.events: dict[Place, AnyEvent] = {}
        for event in conformance.merged(chains.items()):
            conformance.take(event)
            place = event.actor, event.position
            self.order[place], self.events[place] = len(self.order), event
        self._before = HappenedBefore(self.events.values())
        self._ahead = dict(_ahead(chains))
        conformance.end()
        self.findings = conformance.findings
        self._policies = {
            (role.name, event)
            for role in known.system.roles.values()
            for task in role.tasks.values()
            if isinstance(task, Call) and task.target.startswith("policy.")
            for event in task.answers
        }

    def blame(self, property_: str, run: str, events: Sequence[Place], state: State | None = None) -> Blame:
        """Returns whose fault the violation of a property is.

        Args:
            property_: its name, without values for which it is claimed (`Violation.of`).
            run: the lease.
            events: of the run up to the violation, in the order that was judged.
            state: the global state in which it is violated, where it is known.
        """
        last = dict(events)  # by actor the last position, as later ones replace earlier ones
        if not last:
            return Blame("unknown", "no event led there")
        past = sorted(self._before.past(events, self.events), key=lambda place: self.order.get(place, 0))
        for finding in self._wrong(run, last, past, {*events}):
            culprit: Culprit = "infrastructure"
            if finding.what in ("step", "decision"):
                culprit = "core" if finding.what == "step" else "policy"
            return Blame(culprit, str(finding), ((finding.actor, finding.position),))
        for fault in self.faults:
            if fault.run == run and fault.position <= last.get(fault.actor, 0):
                return Blame("unknown", f"its events cannot be judged: {fault}", ((fault.actor, fault.position),))
        return (
            self._clock(property_, events)
            or (None if state is None else self._overdue(property_, state, events))
            or self._found_otherwise(past)
            or self._outstanding(property_, run, events)
            or self._decided(past)
        )

    def _wrong(
        self, run: str, last: Mapping[str, int], past: Sequence[Place], own: Container[Place]
    ) -> list[Nonconformity]:
        """Returns what is wrong before the violation: first what is in the causal past of its last step, each in order.

        An event of another run counts where it has taken a machine away from this one.
        """
        inside = set(past)
        findings = [
            finding
            for finding in self.findings
            if finding.position <= last.get(finding.actor, 0)
            and (finding.lease in ("", run) or (finding.actor, finding.position) in own)
        ]
        return sorted(
            findings, key=lambda f: ((f.actor, f.position) not in inside, self.order.get((f.actor, f.position), 0))
        )

    def _clock(self, property_: str, events: Sequence[Place]) -> Blame | None:
        """The property speaks of time, and a message came before it was sent, as the actors' clocks have it."""
        of = self.known.system.properties.get(property_)
        if of is None or not speaks_of_time(of):
            return None
        for place in events:
            event = self.events[place]
            if (later := self._ahead.get(place)) is not None:
                reason = (
                    f"event {place[1]} of {place[0]} is at tick {event.now}, and event {later[1]} after it at tick "
                )
                reason += f"{self.events[later].now}: its clock was ahead, and the property speaks of time"
                return Blame("infrastructure", reason, (place, later))
            for step in event.steps():
                sent = self._before.sent(step)
                if sent is not None and event.now < self.events[sent].now and isinstance(self.events[sent], StepEvent):
                    reason = f"event {event.position} of {event.actor} (tick {event.now}) receives what event {sent[1]}"
                    reason += f" of {sent[0]} has sent at tick {self.events[sent].now}: a clock is wrong, and the"
                    return Blame("infrastructure", f"{reason} property speaks of time", (place, sent))
        return None

    def _overdue(self, property_: str, state: State, events: Sequence[Place]) -> Blame | None:
        """A timer was due and has ended nothing: its actor runs, or was down when a claim `within` ticks ran out.

        At the same tick an actor that runs may still do so.
        """
        of = self.known.system.properties.get(property_)
        timed = of is not None and of.within is not None
        for machine, late, running in sorted(due(self.known, state), key=lambda timer: not timer.running):
            moved = [
                at for at in events if at in self.events and any(s.machine == machine for s in self.events[at].steps())
            ]
            if not moved:
                continue
            assert self.known.layout.clock is not None
            place, now = moved[-1], state[self.known.layout.clock]
            later = [e for (who, at), e in self.events.items() if who == place[0] and at > place[1]]
            moves = [e for e in later if any(step.machine == machine for step in e.steps())]
            if not running:
                if timed:
                    reason = f"a timer of {machine} is due at tick {now}, and {place[0]} was down then"
                    return Blame("infrastructure", reason, (place,))
                continue
            if moves and moves[0].now <= now and not late:
                continue
            reason = f"a timer of {machine} is due at tick {now}, and has ended nothing since event {place[1]}"
            if any(event.now >= now for event in later):  # its clock has come there
                return Blame("core", f"{reason} of {place[0]}, which runs", (place,))
            why = "whose events do not come to that tick: it was slow, or its clock is behind"
            return Blame("infrastructure", f"{reason} of {place[0]}, {why}", (place,))
        return None

    def _found_otherwise(self, past: Sequence[Place]) -> Blame | None:
        """The last word from outside is a probe's, and it is another than a handler's before it."""
        outside = [(place, step) for place in past for step in self.events[place].steps() if self._is_outside(step)]
        if not outside or outside[-1][1].cause != "probe":
            return None
        place, step = outside[-1]
        earlier = [
            (at, one)
            for at, one in outside
            if one.cause == "handler" and (one.lease, one.machine) == (step.lease, step.machine)
        ]
        if not earlier:
            return None
        at, one = earlier[-1]
        reason = f"a probe has found {step.event} of {step.machine} (event {place[1]} of {place[0]}), and a handler"
        return Blame("infrastructure", f"{reason} had told {one.event} (event {at[1]} of {at[0]})", (place, at))

    def _outstanding(self, property_: str, run: str, events: Sequence[Place]) -> Blame | None:
        """Something should have come, and a message, a policy's answer or the end of a call has not."""
        of = self.known.system.properties.get(property_)
        if (of is None or of.kind not in OF_FAIR_RUNS) and property_ != DEADLOCK:
            return None
        messages: dict[tuple[str, str], tuple[int, Place]] = {}  # by sender and receiver the last that was not received
        calls: dict[str, tuple[StartedCall, Place]] = {}  # by machine the one that goes on
        for place in events:
            for step in (s for s in self.events[place].steps() if s.lease == run):
                if step.received is not None:
                    lane = step.received.machine, over(step.machine, step.received.channel)
                    if lane in messages and messages[lane][0] <= step.received.number:
                        del messages[lane]
                if step.answers is not None or step.record.state != step.source:
                    calls.pop(step.machine, None)
                if step.starts:
                    calls[step.machine] = step.starts[-1], place
                messages |= {(step.machine, sent.name): (sent.number, place) for sent in step.sends}
        for machine, (call, (actor, position)) in calls.items():
            asked = f"{call.target} of {machine} was called by event {position} of {actor}, and has not answered"
            culprit: Culprit = "policy" if call.target.startswith("policy.") else "infrastructure"
            return Blame(culprit, asked, ((actor, position),))
        if of is None or of.within is None:
            for (sender, receiver), (number, (actor, position)) in messages.items():
                reason = f"message {number} of {sender} to {receiver} (event {position} of {actor}) was not received"
                return Blame("infrastructure", reason, ((actor, position),))
        return None

    def _is_outside(self, step: MachineStep) -> bool:
        return step.cause in ("policy", "handler", "probe", "client")

    def _decided(self, past: Sequence[Place]) -> Blame:
        """All is allowed: the last decision of each actor's policies, or else the specification."""
        decisions: dict[str, tuple[Place, MachineStep]] = {}
        failures: dict[str, tuple[Place, MachineStep]] = {}
        lost: dict[tuple[str, str], Place] = {}  # by run and machine, those that a probe has found down
        broken: dict[str, Place] = {}  # units that have failed since a policy has decided last
        at_work: set[str] = set()  # units for which a handler works
        for place in past:
            for step in self.events[place].steps():
                role = step.machine.partition("[")[0]
                if step.lease == BELOW:
                    failed = step.answers is not None and not step.answers.well
                    if failed or (step.event == TICK[0] and step.machine in at_work):
                        broken[step.machine] = place
                    (at_work.add if step.starts else at_work.discard)(step.machine)
                if step.answers is not None and not step.answers.well:
                    failures[place[0]] = place, step
                if step.cause == "probe":
                    lost[step.lease, step.machine] = place
                elif step.answers is not None and step.answers.well:
                    lost.pop((step.lease, step.machine), None)
                if step.cause == "policy" or (not step.cause and (role, step.event) in self._policies):
                    decisions[place[0]] = place, step
                    broken.clear()
        accounts = [
            f"{at[0]} has decided {self._decision(step)} (event {at[1]})" for at, step in self._latest(decisions)
        ]
        accounts += [
            f"a handler of {place[0]} has failed: {self._decision(step)} (event {place[1]})"
            for place, step in self._latest(failures)
        ]
        reason = "each step that led there is one that the specification allows"
        shown = tuple(place for of in (decisions, failures) for place, _ in self._latest(of))
        if lost or broken:  # what policies have decided since units died, they had to decide because of it
            died = [f"{machine} died (event {at} of {who})" for (_, machine), (who, at) in lost.items()]
            died += [f"{machine} has failed (event {at} of {who})" for machine, (who, at) in broken.items()]
            places = dict.fromkeys((*lost.values(), *broken.values(), *shown))
            return Blame("infrastructure", "; ".join([*died, reason, *accounts]), tuple(places))
        if not decisions:
            accounts = ["no policy has decided anything", *accounts]
            return Blame("specification", "; ".join([reason, *accounts]), shown or tuple(past[-1:]))
        return Blame("policy", "; ".join([reason, *accounts]), shown)

    def _decision(self, step: MachineStep) -> str:
        """Returns what was decided, in words: `granted(units=1) for broker of tenant:1`."""
        role = self.known.program.roles.get(step.machine.partition("[")[0])
        kinds = {} if role is None else dict(role.events.get(step.event, ()))
        fields = ", ".join(
            f"{name}={show_said(kinds.get(name), value)}"
            for name, value in step.fields.items()
            if value not in ("", {}, [], None)
        )
        of = step.machine if step.lease == BELOW else f"{step.machine} of {step.lease}"
        return f"{step.event}({fields}) for {of}"

    def _latest(self, of: Mapping[str, tuple[Place, MachineStep]]) -> list[tuple[Place, MachineStep]]:
        """The last of each actor, the latest first."""
        return sorted(of.values(), key=lambda one: -self.order[one[0]])


def _ahead(chains: Mapping[str, Sequence[AnyEvent]]) -> Iterator[tuple[Place, Place]]:
    """The events after which their actor's clock was set back below their time, each with the lowest one after it."""
    for actor, events in chains.items():
        lowest: AnyEvent | None = None
        for event in reversed(events):
            if lowest is not None and event.now > lowest.now:
                yield (actor, event.position), (actor, lowest.position)
            else:
                lowest = event


class DueTimer(NamedTuple):
    """A machine whose timer is due.

    Attributes:
        machine: its name.
        late: whether it was due a tick before.
        running: whether its actor runs.
    """

    machine: str
    late: bool
    running: bool


def due(known: CutsOfSystem, state: State) -> Iterator[DueTimer]:
    """The machines whose timer is due in a state."""
    layout = known.layout
    if layout.clock is None:
        return
    now = state[layout.clock]
    for role, number, _ in layout.machines():
        core = known.program.roles[role.name]
        up = known.up.get(layout.of[role.name, number].name)
        record = _record(known, state, core, number)
        if core.step(record, TICK, now)[1].taken:
            late = core.step(record, TICK, now - 1)[1].taken
            yield DueTimer(core.machine(number), late, up is None or state[up] == UP)


def _record(known: CutsOfSystem, state: State, core: Core, number: int) -> Record:
    """A machine's record with the fields of the specification; its numbers, of which no timer speaks, are 0."""
    below = []
    for one in core.below:
        machines = Machines(one.first)
        machines.update((n, _record(known, state, one, n)) for n in range(one.count))
        below.append(machines)
    at, first = known.layout.at(core.role, number, None), core.first(number, tuple(below))
    fields = tuple(state[at + 1 : at + 1 + len(core.fields)])
    return (state[at], *first[1 : core.data_at], *fields, *first[core.data_at + len(core.fields) :])


def speaks_of_time(of: Property) -> bool:
    """Returns whether a property reads a clock or a moment, or has a time within which it is to hold."""

    def reads(node: x.Expression) -> bool:
        return isinstance(node, x.Now) or isinstance(getattr(node, "type", None), t.Time)

    parts = [part for part in (of.claim, of.when) if part is not None]
    return of.within is not None or any(x.mentions(part, reads) for part in parts)
