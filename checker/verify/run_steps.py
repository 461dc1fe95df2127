"""Takes the state of a run from step to step, and begins it again from its cuts.

Theory of operation. A step says the record that it has left, and the numbers of its messages; so the global state of
the run follows from its steps alone. Which cuts stand between them (time, crashes) is decided by the order of all
events (cuts.py), and the table of cuts has it. So a run that is not in memory is rebuilt from its cuts and their
events. A record that was found at a start makes no cut, but says that there is a machine, and what it is: such events
are taken again beside the cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from leasehold.checker.explore.layout import Lane
from leasehold.checker.explore.step import Action
from leasehold.checker.history.fault import CONTRADICTION, UNDECIDED
from leasehold.checker.history.fold import MachineOf
from leasehold.checker.verify.lanes import ReplayedLane
from leasehold.checker.verify.lost import first_steps, lost_record
from leasehold.checker.verify.run_state import Cut, RunState, StoredCut
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.impl.events.event import AnyEvent, ForgottenEvent, FoundEvent, MachineRecord, MachineStep, StepEvent


class Unjudged(Exception):
    """A run cannot be judged from here on; the message says why, and `kind` is that of the fault."""

    kind = CONTRADICTION


class Missing(Unjudged):
    """Events at the beginning of a run are missing."""

    kind = UNDECIDED

    def __init__(self, machine: str) -> None:
        super().__init__(f"{machine} has moved before the events begin, so this run is not judged")


class RunSteps:
    """Takes runs from state to state.

    Args:
        known: the system.
        fault: hears of what is wrong with an event of a run: the event, the run, and words.
    """

    def __init__(self, known: CutsOfSystem, fault: Callable[[AnyEvent, str, str], None]) -> None:
        self.known, self.layout, self._fault = known, known.layout, fault

    def first(self, name: str, number: int, now: int) -> RunState:
        """A run that begins."""
        run = RunState(name, number, list(self.known.first))
        if self.layout.clock is not None:
            run.state[self.layout.clock] = now
        return run

    def rebuild(self, name: str, number: int, cuts: Iterable[StoredCut]) -> tuple[RunState, list[Cut]]:
        """A run from its cuts, in their order."""
        run: RunState | None = None
        rebuilt: list[Cut] = []
        for row in cuts:
            if run is None:
                run = self.first(name, number, row.now or 0)
                rebuilt.append(run.cut(None, row.actor, row.position))
                continue
            rebuilt.append(self._rebuilt(run, row))
        assert run is not None
        return run, rebuilt

    def _rebuilt(self, run: RunState, row: StoredCut) -> Cut:
        match row.cause:
            case "clock":
                assert self.layout.clock is not None
                run.state[self.layout.clock] = row.now
            case "crash" | "recover":
                for of in self.played(run, row.actor):
                    run.state[self.known.up[of]] = DOWN if row.cause == "crash" else UP
            case "passed":
                self.passes(run, row.actor, row.event)
            case "lost":
                assert isinstance(row.origin, StepEvent)
                self.loses(run, row.origin, row.event)
            case "late":
                assert isinstance(row.origin, StepEvent)
                self.comes_late(run, row.origin.step)
            case _:
                assert isinstance(row.origin, StepEvent)
                step = row.origin.step
                self.take(run, row.origin)
                run.over = self.known.over(run.state)
                return run.cut(self.action(step), row.actor, row.position, step)
        return run.cut(Action(row.cause, None, 0, row.event), row.actor, row.position)

    def played(self, run: RunState, actor: str) -> list[str]:
        """Returns what an actor plays in a run, as actors of the layout."""
        return [of for of, player in run.players.items() if player == actor]

    def passes(self, run: RunState, actor: str, machine: str) -> None:
        """A machine of an actor serves the run no more, and counts as unused."""
        run.machines.machines.pop(MachineOf(actor, BELOW, machine), None)
        if (place := self.known.machine(machine)) is not None:
            role, number = place
            at, size = self.layout.at(role, number, None), self.layout.stride[role]
            run.state[at : at + size] = self.known.first[at : at + size]

    def loses(self, run: RunState, event: StepEvent, machine: str) -> None:
        """A machine's record becomes what a later step shows that it was."""
        step = next(one for one in first_steps(event) if one.machine == machine)
        lost = lost_record(self.known, run, step)
        for cell, value in lost.cells.items() if lost is not None else ():
            run.state[cell] = value

    def stands(self, run: RunState, actor: str, step: MachineStep) -> str | None:
        """Returns the state in which a machine stands before a step; None: nothing is known of it."""
        place = self.known.machine(step.machine)
        if place is None or MachineOf(actor, step.lease, step.machine) not in run.machines.machines:
            return None
        state: str = run.state[self.layout.at(*place, None)]
        return state

    def comes_late(self, run: RunState, step: MachineStep) -> bool:
        """Has what a step takes on its way, where its sender has moved on from it; returns whether it has."""
        lane = self._received_on(step)
        replayed = None if lane is None else run.lanes.get(lane.cell)
        if lane is None or replayed is None or step.received is None or not replayed.late(step.received.number):
            return False
        run.state[lane.cell] = replayed.content()
        return True

    def take(self, run: RunState, event: StepEvent) -> None:
        """A run after a step, with all that it drives.

        Raises:
            Unjudged: it cannot be judged.
        """
        run.machines.take(event)
        for step in event.steps():
            self._take(run, event, step)

    def cuts(self, run: RunState, event: StepEvent) -> Iterator[Cut]:
        """Yields the cut of a step; before it that of what it takes, where its sender has moved on from that.

        Raises:
            Unjudged: it cannot be judged.
        """
        step, place = event.step, (event.actor, event.position)
        if self.comes_late(run, step):
            yield run.cut(Action("late", None, 0, step.machine), *place)
        self.take(run, event)
        yield run.cut(self.action(step), *place, step)

    def find(self, run: RunState, event: FoundEvent) -> None:
        """A record of a run that no step of it has left.

        Raises:
            Unjudged: it cannot be judged.
        """
        if event.lease != BELOW:
            run.machines.take(event)
        if event.record.epoch > run.epochs.get(event.machine, 0):
            raise Missing(event.machine)

    def tell_again(self, run: RunState, event: FoundEvent | ForgottenEvent) -> None:
        """Takes what an event says of a machine into a run that was rebuilt from its cuts.

        Where the machine has stepped since, it says nothing any more.
        """
        machine = run.machines.machines.get(MachineOf(event.actor, event.lease, event.machine))
        if machine is not None and event.position <= machine.position:
            return
        if isinstance(event, FoundEvent):
            self.find(run, event)
        else:
            run.machines.take(event)

    def _take(self, run: RunState, event: StepEvent, step: MachineStep) -> None:
        place = self.known.machine(step.machine)
        if place is None:
            raise Unjudged(f"the system {self.known.system.name} has no machine {step.machine}")
        role, number = place
        at = self.layout.at(role, number, None)
        before = run.epochs.get(step.machine, 0)
        moved = step.source != self.known.first[at] or step.record.epoch > 1
        if not before and step.lease != BELOW and moved:
            raise Missing(step.machine)
        run.epochs[step.machine] = max(step.record.epoch, 1)
        run.state[at] = step.record.state
        for name, d in self.known.system.roles[role].data.items():
            try:
                run.state[self.layout.at(role, number, name)] = from_plain(d.type, step.record.data[name])
            except (ValueFault, KeyError) as why:
                raise Unjudged(f"{step.machine}.{name} has a value that it cannot have: {why}") from None
        self._plays(run, place, event.actor)
        self._messages(run, event, step, place)

    def _plays(self, run: RunState, place: tuple[str, int], actor: str) -> None:
        """An actor plays a machine, and runs; that it has stopped is a cut of its own."""
        if actor:
            of = self.layout.of[place].name
            run.players[of] = actor
            run.state[self.known.up[of]] = UP

    # Messages

    def _messages(self, run: RunState, event: StepEvent, step: MachineStep, place: tuple[str, int]) -> None:
        touched: dict[int, ReplayedLane] = {}
        received = step.received
        if received is not None:
            sender = self.known.machine(received.machine)
            if sender is not None and self.layout.of[sender].name not in run.players:
                self._plays(run, sender, received.actor)
            if (lane := self._received_on(step)) is not None:
                replayed = touched[lane.cell] = self._replayed(run, lane)
                if received.number <= replayed.received:
                    receipt = f"{step.machine} takes {step.event} with number {received.number}"
                    self._fault(event, run.name, f"{receipt}, and has received {replayed.received} before")
                replayed.receive(received.number)
        for sent in step.sends:
            to = self.known.machine(sent.to)
            lane = None if to is None else self._lane(step.machine, to, sent.message)
            if lane is None:
                raise Unjudged(f"{step.machine} sends {sent.message} to {sent.to}, and no channel leads there")
            kinds = self.known.system.messages[sent.message].fields
            try:
                fields = tuple(from_plain(f.type, sent.fields[f.name]) for f in kinds)
            except (ValueFault, KeyError) as why:
                raise Unjudged(f"the message {sent.message} has a field that it cannot have: {why}") from None
            replayed = touched[lane.cell] = self._replayed(run, lane)
            replayed.send(sent.number, sent.message, fields)
        self._numbers(run, step.record, place, touched)
        for cell, replayed in touched.items():
            run.state[cell] = replayed.content()

    def _numbers(
        self, run: RunState, record: MachineRecord, place: tuple[str, int], touched: dict[int, ReplayedLane]
    ) -> None:
        """Numbers that a record has and that no message of its events had."""
        for lane, name, sends in self.known.lanes_of[place]:
            number = (record.sent if sends else record.received).get(name, 0)
            if not number:
                continue
            replayed = self._replayed(run, lane)
            if number > (replayed.newest if sends else replayed.received):
                replayed.found(**{"newest" if sends else "received": number})
                touched[lane.cell] = replayed

    def _replayed(self, run: RunState, lane: Lane) -> ReplayedLane:
        replayed = run.lanes.get(lane.cell)
        if replayed is None:
            replayed = run.lanes[lane.cell] = ReplayedLane(lane.channel)
        return replayed

    def _received_on(self, step: MachineStep) -> Lane | None:
        """The lane over which a step has received something."""
        to = self.known.machine(step.machine)
        return None if to is None or step.received is None else self._lane(step.received.machine, to, step.event)

    def _lane(self, sender: str, receiver: tuple[str, int], message: str) -> Lane | None:
        place = self.known.machine(sender)
        if place is None or message not in self.known.system.messages:
            return None
        return self.known.layout.lane(self.known.system.channel_of(message).name, place[1], receiver[1])

    def action(self, step: MachineStep) -> Action:
        """A step as the explorer has it."""
        place = self.known.machine(step.machine)
        assert place is not None
        role, number = place
        sender = -1
        if step.received is not None:
            kind, of = "deliver", self.known.machine(step.received.machine)
            sender = -1 if of is None else of[1]
        else:
            kind = "tick" if step.event == "tick" else "local"
        transition = self.known.transitions.get((role, step.transition))
        return Action(kind, role, number, step.event, sender=sender, transition=transition)
