"""Judges the logs of actors: each event is one that the specification allows, given those before it.

Theory of operation. Events come in an order that respects causality (checker/history/merge.py), so a message was sent
before it is received. The record before a step is the one that the machine's last event has left, or that it has at
its beginning. From it and from what was consumed the step is taken twice: by the explorer's reference, which owes
nothing to the code that actors run (comparison.py), and by the compiled core, which is that code and tells whole
records (compiled.py). Whatever the log has otherwise is a finding; the record of the log counts from then on, so that
one wrong step makes no others wrong.

Where the oldest events were dropped, the record before a machine's first step is not known. That step is not judged,
unless it shows by its epoch that it is the first of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import to_builtins

from leasehold.checker.conform.causes import Causes
from leasehold.checker.conform.chain import JudgedChain
from leasehold.checker.conform.compiled import OUTSIDE, CompiledMachines
from leasehold.checker.conform.decoded import StepDecoder, StepFault
from leasehold.checker.conform.findings import JudgedLog, Nonconformity, What
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.conform.receipts import LogComparison, Receipts
from leasehold.checker.history.fault import other_constants, recovered_words
from leasehold.checker.history.merge import CausalMerge, capacities_of
from leasehold.faults.simulation.steps import LoggedStep
from leasehold.impl.actor import drafts
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.outside import check_origin
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.stepping import with_cell
from leasehold.impl.core.work import Event, Outcome, Record, local
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    MigratedEvent,
    PrunedEvent,
    RecoveredEvent,
    RefusedEvent,
    SealEvent,
    StepEvent,
    record_digest,
)
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import counted

MOMENTS = 100  # ticks that are all asked


class LogMerge(CausalMerge):
    """Merges the logs that are given; of actors whose logs are not, and of what was dropped, messages come anyhow."""

    def __init__(self, actors: Iterable[str], receipts: Receipts, capacities: Mapping[str, int]) -> None:
        super().__init__(actors, capacities=capacities)
        self._receipts = receipts

    def _missing(self, event: AnyEvent) -> tuple[MachineStep, int] | None:
        missing = super()._missing(event)
        return missing if missing is not None and self._receipts.is_known(missing[0]) else None


class LogConformance:
    """Judges logs.

    Args:
        known: the system.
        judged: by actor, what is known of its log.

    Attributes:
        findings: in the order of the events.
    """

    def __init__(self, known: KnownSystem, judged: Iterable[JudgedLog]) -> None:
        self.known, self.program = known, known.program
        self.decoder = StepDecoder(known.program)
        self.comparison = LogComparison(known)
        self.findings: list[Nonconformity] = []
        self._chains = {log.actor: JudgedChain(known.program, log) for log in judged}
        self.receipts = Receipts(self.decoder, self.comparison, self._chains, self._say)
        self.causes = Causes(known, self.decoder)

    @property
    def judged(self) -> list[JudgedLog]:
        return [chain.judged for chain in self._chains.values()]

    def merged(self, logs: Iterable[tuple[str, Iterable[AnyEvent]]]) -> Iterator[AnyEvent]:
        """The events of whole logs in the order in which they are judged."""
        merge = LogMerge(self._chains, self.receipts, capacities_of(self.known.system))
        for actor, events in logs:
            given = [*events]
            if self._chains[actor].judged.pruned:
                self.receipts.pruned(actor, given)
            merge.add(actor, given)
            merge.close(actor)
        yield from merge.ready()
        self.findings += [
            Nonconformity("message" if f.run else "log", f.actor, f.position, f.run, "", f.reason) for f in merge.faults
        ]

    def take(self, event: AnyEvent) -> None:
        """Judges the next event."""
        chain = self._chains[event.actor]
        chain.judged.events += 1
        if event.spec != self.program.digest:
            if not chain.spec_told:
                digests = f"{event.spec[:12]}, and not {self.program.digest[:12]}"
                self._say("log", event, f"it was written under another specification or version of it: {digests}")
            chain.spec_told = True
            return
        self._check_order(chain, event)
        self._check_found(chain, event)
        match event:
            case StepEvent():
                self._step(chain, event)
            case RecoveredEvent():
                self._recovered(chain, event)
            case FoundEvent():
                self._found(chain, event)
            case ForgottenEvent():
                self._forgotten(chain, event)
            case RefusedEvent():
                self._refused(chain, event)
            case MigratedEvent():
                chain.machines, chain.found = CompiledMachines(self.program), None
                chain.digests.clear()
            case PrunedEvent() if event.until >= event.position:
                self._say("log", event, f"it says that events up to {event.until} are dropped, which come after it")

    def end(self) -> None:
        """Nothing more comes."""
        self.receipts.end()
        for actor, chain in self._chains.items():
            if chain.found:
                reason = f"{counted(chain.found, 'record')} should have been told of after it"
                self.findings.append(Nonconformity("record", actor, chain.judged.events, "", "", reason))
        self.findings.sort(key=lambda f: (f.actor, f.position))

    def _say(
        self, what: What, event: AnyEvent, reason: str, step: MachineStep | None = None, compiled: bool | None = None
    ) -> None:
        lease, machine = getattr(event, "lease", ""), getattr(event, "machine", "")
        if step is not None:
            lease, machine = step.serves or step.lease, step.machine
        self.findings.append(Nonconformity(what, event.actor, event.position, lease, machine, reason[:600], compiled))

    # The order of a chain

    def _check_order(self, chain: JudgedChain, event: AnyEvent) -> None:
        begins = isinstance(event, RecoveredEvent)
        if event.epoch < chain.epoch or (begins and event.epoch == chain.epoch):
            self._say("log", event, f"its incarnation is {event.epoch}, and that before it was {chain.epoch}")
        elif event.epoch > chain.epoch and not begins and chain.epoch and not isinstance(event, MigratedEvent):
            self._say("log", event, f"incarnation {event.epoch} has not begun: the last was {chain.epoch}")
        elif event.position == 1 and not begins and not isinstance(event, MigratedEvent):
            self._say("log", event, "no event says that its incarnation has begun")
        if event.now < chain.now and event.epoch == chain.epoch:
            self._say("clock", event, f"the time goes back from tick {chain.now} to {event.now} in one incarnation")
        if event.commit < chain.commit:
            self._say("log", event, f"it is of commit {event.commit}, and the event before it of {chain.commit}")
        elif (event.commit, event.epoch) == (chain.commit, chain.epoch):
            if event.now > chain.now:
                reason = f"it is of tick {event.now}, and the event before it in one commit of {chain.now}"
                self._say("clock", event, reason)
        else:
            chain.moments = range(min(chain.now, event.now), event.now + 1)
        chain.epoch, chain.commit = max(chain.epoch, event.epoch), max(chain.commit, event.commit)
        chain.now = event.now

    def _check_found(self, chain: JudgedChain, event: AnyEvent) -> None:
        """Records that no event tells of follow at once where an event says how many there are."""
        if isinstance(event, FoundEvent | PrunedEvent | SealEvent):
            return
        if chain.found:
            self._say("record", event, f"{counted(chain.found, 'record')} should have been told of before it")
        chain.found = 0

    def _recovered(self, chain: JudgedChain, event: RecoveredEvent) -> None:
        program = self.program
        chain.judged.incarnations += 1
        constants = {name: event.constants.get(name) for name in program.shared_constants}
        if not program.agrees(event.agreement) or (event.system and event.system != program.system):
            reason = "its actor has other constants than the system that it is judged by"
            self._say("log", event, reason + other_constants(event, self.known.system))
        elif event.constants and constants != to_builtins(program.shared_constants):
            self._say("log", event, "the constants that it tells of are not those of its agreement")
        known = len(chain.machines.table.instances)
        if event.unrecorded:
            self._say("log", event, f"{event.unrecorded} commits before it have no events")
            chain.machines = CompiledMachines(program)
            chain.digests.clear()
        elif event.machines != known and event.position > 1 and not chain.judged.pruned:
            self._say("record", event, f"it recovers {event.machines} machines, and its events have {known}")
        chain.stepped.clear()
        chain.whole.clear()
        chain.found = event.machines if event.position == 1 or event.unrecorded else 0
        if event.records:
            self._lost(chain, event)

    def _lost(self, chain: JudgedChain, event: RecoveredEvent) -> None:
        """The records that an actor comes back without, or with others than its events have left."""
        for key, had in sorted(chain.digests.items()):
            has = event.records.get(key.lease, {}).get(key.machine, "")
            if has == had:
                chain.whole.add(key)
            else:
                lease = chain.serves.get(key, "") if key.lease == BELOW else key.lease
                reason = recovered_words(key.machine, has)
                self.findings.append(Nonconformity("record", event.actor, event.position, lease, key.machine, reason))

    def _found(self, chain: JudgedChain, event: FoundEvent) -> None:
        key = RecordKey(event.lease, event.machine)
        announced, chain.found = chain.found != 0, chain.found and chain.found - 1
        try:
            record = self.decoder.record(event.machine, event.record)
        except StepFault as error:
            self._say("log", event, str(error))
            return
        core = self.program.machines[event.machine][0]
        before, first = chain.machines.record(key), chain.machines.machine(key).record[: core.below_at]
        if not announced and record != (before or first):
            origin = "no step of it" if before is None else "its last event"
            self._say("record", event, f"{event.machine} is found in a record that {origin} has left")
        self._adopt(chain, event.actor, key, record)
        chain.digests[key] = record_digest(event.record)
        for to, number in event.record.sent.items():
            self.receipts.base[event.lease, event.machine, to] = number
        if event.serves:
            chain.serves[key] = event.serves

    def _forgotten(self, chain: JudgedChain, event: ForgottenEvent) -> None:
        key = RecordKey(event.lease, event.machine)
        record = chain.machines.record(key)
        if record is None and (key in chain.judged.unknown or chain.judged.pruned):
            return
        named = self.program.machines.get(event.machine)
        if record is None or named is None:
            self._say("record", event, f"it forgets {event.machine}, of which there is no event")
        elif record[0] != event.state:
            self._say("record", event, f"it forgets {event.machine} in {event.state}, and it is in {record[0]}")
        elif not named[0].subsidiary and not named[0].over(event.state):
            self._say("step", event, f"it forgets {event.machine} in {event.state}, which is not its end")
        elif named[0].of_actor or (named[0].of_run and chain.machines.talking_in(event.lease)):
            of = "the actor" if named[0].of_actor else f"{event.lease}, which is not forgotten"
            self._say("step", event, f"it forgets {event.machine}, which belongs to {of}")
        if named is not None:
            chain.over |= {event.lease} - {BELOW}
            chain.machines.forget(key)
            chain.digests.pop(key, None)
            self.comparison.forget(event.actor, key)

    def _adopt(self, chain: JudgedChain, actor: str, key: RecordKey, record: Record) -> None:
        chain.machines.set(key, record)
        self.comparison.actor = actor
        self.comparison.take(key, chain.machines.machine(key).record)

    # Refusals

    def _refused(self, chain: JudgedChain, event: RefusedEvent) -> None:
        """Checks whether the event could be refused at any time since the commit before it."""
        chain.judged.refusals += 1
        key = RecordKey(event.lease, event.machine)
        named = self.program.machines.get(event.machine)
        if event.cause not in OUTSIDE:
            self._say("step", event, f"it refuses an event of {event.cause or 'nobody'}, which no core refuses")
        fresh = chain.machines.record(key) is None
        if named is None or key in chain.judged.unknown or (fresh and (event.cause != "client" or chain.judged.pruned)):
            return  # nobody could take it, or a policy's event was refused for other reasons
        try:
            values = self.decoder.fields(named[0], event.event, event.fields)
        except StepFault:
            return  # no machine takes what is no event
        outcomes = self._outcomes(chain, key, event, values)
        if fresh:
            chain.machines.forget(key)
        if outcomes and all(outcome.taken for outcome in outcomes):
            refusal = f"it refuses {event.event} of {event.cause} ({event.reason})"
            self._say("step", event, f"{refusal}, and the specification takes {outcomes[-1].transition}")
        elif outcomes and all(outcome.reason != event.reason and outcome.kind == "refused" for outcome in outcomes):
            refusal = f"it refuses {event.event} as {event.reason!r}"
            self._say("step", event, f"{refusal}, and the specification as {outcomes[-1].reason!r}")

    def _outcomes(
        self, chain: JudgedChain, key: RecordKey, event: RefusedEvent, values: tuple[Any, ...]
    ) -> list[Outcome]:
        """Returns the core's outcomes at the times when an event from outside may have come; empty: it refuses it."""
        instance = chain.machines.machine(key)
        try:
            check_origin(self.program, instance, event.event)
        except ActorError as error:
            if event.reason == drafts.words(str(error)):
                return []
        moments = _decisive(chain.moments, instance.record, values)
        return [chain.machines.takes(key, local(event.event, values), now, True)[1] for now in moments]

    # Steps

    def _step(self, chain: JudgedChain, event: StepEvent) -> None:
        step = event.step
        steps = list(step.walk())
        chain.judged.steps += len(steps)
        chain.digests |= {RecordKey(one.lease, one.machine): record_digest(one.record) for one in steps}
        try:
            afters = [self.decoder.record(one.machine, one.record) for one in steps]
            events = [self.decoder.event(one) for one in steps]
            befores = self._befores(chain, steps, afters)
            below = chain.machines.below(step.serves or step.lease)
            logged = self.decoder.step(step, event.now, befores, below)
        except StepFault as error:
            self._say("step", event, str(error), step)
            return
        self.comparison.actor = event.actor
        unknown = [one for one, before in zip(steps, befores, strict=True) if self._is_unknown(chain, one, before)]
        if chain.judged.pruned and step.cause == "parent" and not chain.machines.talking_in(step.serves or step.lease):
            unknown.append(step)  # what drives it is in events that were dropped
        lost = next(
            (one for one, before in zip(steps, befores, strict=True) if one not in unknown and before[0] != one.source),
            None,
        )
        if unknown:
            chain.judged.not_judged += len(steps)
            chain.judged.unknown |= {(one.lease, one.machine) for one in unknown}
        elif lost is not None:
            before = befores[steps.index(lost)][0]
            reason = f"{lost.machine} takes {lost.event} in {lost.source}, and its last event has left it in {before}"
            self._say("record", event, reason, lost)
        else:
            self._judge(chain, event, logged, afters, events)
        for one, after in zip(steps, afters, strict=True):
            key = RecordKey(one.lease, one.machine)
            self._adopt(chain, event.actor, key, after)
            chain.stepped.add(key)
            if one.lease == BELOW:
                chain.serves[key] = one.serves
            elif one.transition:  # what it asks for it has from now on, also where that does not move
                driven = chain.machines.asked_of_below(chain.machines.machine(key))
                chain.serves.update((below, one.lease) for below, _ in driven if below.lease == BELOW)
        self.receipts.sent(event, steps, chain.machines)

    def _befores(self, chain: JudgedChain, steps: list[MachineStep], afters: list[Record]) -> list[Record]:
        """The record before each step."""
        last: dict[RecordKey, Record] = {}
        befores = []
        for one, after in zip(steps, afters, strict=True):
            key = RecordKey(one.lease, one.machine)
            core, number = self.program.machines[one.machine]
            before = last.get(key) or chain.machines.record(key) or core.first(number)
            befores.append(before)
            last[key] = after
        return befores

    def _is_unknown(self, chain: JudgedChain, one: MachineStep, before: Record) -> bool:
        """Returns whether the record before a step is in events that were dropped."""
        if not chain.judged.pruned or chain.machines.record(RecordKey(one.lease, one.machine)) is not None:
            return False
        core, _ = self.program.machines[one.machine]
        role = self.known.system.roles[core.role]
        own = None if one.received is None else (one.received.name, one.received.number)
        heard = [numbers for numbers in one.record.received.items() if numbers != own]
        moves = [tr for tr in role.transitions() if tr.source == one.source]
        first = one.source == before[0] and one.record.epoch == 1 and not heard and not any(m.internal for m in moves)
        return not first

    def _judge(
        self, chain: JudgedChain, event: StepEvent, logged: LoggedStep, afters: list[Record], events: list[Event]
    ) -> None:
        step, key = event.step, logged.key
        first = chain.machines.record(key) is None
        first_since = key not in chain.stepped
        comparison = self.comparison
        comparison.by_parent = step.cause == "parent"
        comparison.found.clear()
        compared = comparison.compared
        comparison.judge(logged)
        chain.judged.by_reference += (comparison.compared - compared) * len(afters)
        by_reference = comparison.found[0] if comparison.found else ""
        by_core = chain.machines.difference(
            step, events[0], afters[0], list(zip(events[1:], afters[1:], strict=True)), event.now, step.cause in OUTSIDE
        )
        if by_reference or by_core:
            what: What = "step"
            reason = f"{step.machine} {by_reference}" if by_reference else f"at {step.event} in {step.source} {by_core}"
            again = self._is_taken_again(chain, event, logged, events, afters)
            if again:
                reason = f"{step.machine} takes {step.event} with a number that it has received before"
            elif first_since and chain.judged.incarnations > 1 and by_core and key not in chain.whole:
                what = "record"
                reason += f"; its record may have been lost before incarnation {event.epoch}, as this is its first step"
            elif by_reference and not by_core and self._is_decision(step, logged):
                what = "decision"
            self._say(what, event, reason, step, bool(by_core))
        elif why := self.causes.wrong(chain, step, logged) or (
            self.causes.begins(chain, event.actor, step, logged.core) if first else ""
        ):
            self._say("step", event, why, step)
        self.receipts.received(event, step, logged, chain.judged)
        for one in (o for o in step.walk() if o is not step):
            serves = (step.serves or step.lease) if one.lease == BELOW else ""
            if one.serves != serves:
                of = step.serves or step.lease
                self._say("step", event, f"{one.machine} serves {one.serves or 'no lease'}, and {of} drives it", one)

    def _is_taken_again(
        self, chain: JudgedChain, event: StepEvent, logged: LoggedStep, events: list[Event], afters: list[Record]
    ) -> bool:
        """Returns whether a step is right but for the number of its message, which was received before."""
        (name, fields, neighbour, number, epoch), after = events[0], afters[0]
        core, before = logged.core, logged.before  # with a number that is new the core has moved the machine by now
        if neighbour < 0 or number > before[core.received_at][neighbour]:
            return False
        fresh = before[core.received_at][neighbour] + 1
        heard = with_cell(after[core.received_at], neighbour, fresh)
        difference = chain.machines.difference(
            event.step,
            (name, fields, neighbour, fresh, epoch),
            with_cell(after, core.received_at, heard),
            list(zip(events[1:], afters[1:], strict=True)),
            event.now,
            False,
        )
        return not difference

    def _is_decision(self, step: MachineStep, logged: LoggedStep) -> bool:
        """Returns whether the world outside gives an event that its contract does not allow and no actor refuses."""
        machine = self.comparison.machine(step.machine)
        return step.cause in OUTSIDE and machine is not None and "takes" in self.comparison.found[0]


def _decisive(moments: range, *values: tuple[Any, ...]) -> list[int]:
    """The ticks of a time that guards may tell apart: its ends, and those around the numbers of a record or event."""
    if len(moments) <= MOMENTS:
        return list(moments)
    near = {number + by for of in values for number in of if type(number) is int for by in (-1, 0, 1)}
    return sorted({moments[0], moments[-1]} | {number for number in near if number in moments})
