"""Compares one step of an actor with the step that the explorer's reference takes on the same event.

Theory of operation. The reference takes the event in a state that has the records of the run's machines (subsidiary
machines of an actor are shared by its runs) and the clock of the actor. Compared are

- where the step begins: the record is the one that the machine's last step has left;
- whether the event may come: a message was sent with this number and these fields; an answer is of a task of the state
  and of this state; a timer is due; the environment may act so;
- the transition, or that there is none; the record; the steps of subsidiary machines that it drives, in order;
- the numbers of messages; the messages that it sends, and the calls that it begins.

Values may be any of their types: bounds of the exploration do not matter for a step. Two things are left to others:
what a step must do and does not come at all, and conditions of the environment on what the actor cannot know
(`asks_unknown`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from leasehold.checker.explore.ground import GroundMachine, GroundOffer, GroundPiece, Move
from leasehold.checker.explore.reference import Reference, choose
from leasehold.checker.explore.step import SpecFault
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.faults.simulation.steps import LoggedStep
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Core, Named, Program
from leasehold.impl.core.sparse import modelled_fields
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.impl.core.work import Record
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import over, parted
from leasehold.spec.language.lower.lowering import work_of
from leasehold.spec.language.model import Call
from leasehold.spec.language.types import Type, show, show_plain

# A lease, the machine that sends, and the one that receives, with the channel if that has numbers of its own (`over`).
MachineLane: TypeAlias = tuple[str, str, str]
Message: TypeAlias = tuple[str, tuple[Any, ...]]  # its name and fields


class StepComparison:
    """Compares steps, one after the other.

    Args:
        program: the compiled system.
        world: the reference of the same specification.
        asks_unknown: whether the environment's condition for an event reads what its actor cannot know.

    Attributes:
        records: after the last step of each machine.
        sent: by lane and number, the messages that steps have sent; sent again it may be another.
        compared: how many steps were compared.
        tells_unmoved: steps are told also of subsidiary machines that an event does not move.
    """

    tells_unmoved = True

    def __init__(self, program: Program, world: Reference, asks_unknown: Callable[[GroundOffer], bool]) -> None:
        self.program, self.world, self.asks_unknown = program, world, asks_unknown
        contracts = world.system.environment.values()
        self._unenforced = {(one.role, one.event) for one in contracts if not one.enforced}
        self.records: dict[RecordKey, Record] = {}
        self.sent: dict[MachineLane, dict[int, list[Message]]] = {}
        self.compared = 0
        self._first = world.initial_states()[0]

    # What a user of it knows, and hears

    def known(self, key: RecordKey) -> Record | None:
        """The record of a machine after its last step; None: nothing has happened to it."""
        return self.records.get(key)

    def take(self, key: RecordKey, record: Record) -> None:
        """A machine has a record now."""
        self.records[key] = record

    def is_up(self, machine: str) -> bool:
        """Returns whether the actor of a machine runs."""
        raise NotImplementedError

    def say(self, now: int, lease: str, machine: str, reason: str) -> None:
        """A step is not one of the specification."""
        raise NotImplementedError

    def may_be(self, lane: MachineLane, number: int, message: Message) -> bool:
        """Returns whether a message may have been sent."""
        return message in self.said(lane, number)

    # Steps

    def said(self, lane: MachineLane, number: int) -> list[Message]:
        """Returns what steps have sent under a number."""
        return self.sent.get(lane, {}).get(number, [])

    def judge(self, step: LoggedStep) -> None:
        """Compares a step, and takes the records that it has left."""
        machine = self.machine(step.key.machine)
        if machine is not None:
            self.compared += 1
            try:
                self._compare(self._modelled(step), machine)
            except SpecFault as fault:
                self.differs(step, "shows that", str(fault), "one choice, and values of its types")
        for one in (step, *step.driven):
            self.take(one.key, durable(one, one.after))

    def modelled(self, message: str, fields: tuple[Any, ...]) -> Message:
        """A message of a run as the model has it."""
        return message, modelled_fields(self.program.messages[message].fields, fields)

    def _modelled(self, step: LoggedStep) -> LoggedStep:
        """A step with the fields of its event and of its messages as the model has them."""
        sends = [(at, *self.modelled(message, fields)) for at, message, fields in step.sends]
        if step.event is None or not step.event[1]:
            return replace(step, sends=sends)
        name, fields, neighbour, number, epoch = step.event
        kinds = self.program.messages[name].fields if neighbour >= 0 else step.core.events.get(name, ())
        return replace(step, sends=sends, event=(name, modelled_fields(kinds, fields), neighbour, number, epoch))

    def differs(self, step: LoggedStep, verb: str, actual: Any, expected: Any) -> None:
        """Says what a step does otherwise."""
        event = "when it recovers"
        if step.event is not None:
            name, fields, neighbour, *_ = step.event
            kinds = step.core.events.get(name, ()) if neighbour < 0 else self.program.messages[name].fields
            event = f"at {with_fields(name, kinds, fields)}"
        reason = f"{verb} {shown(actual)} {event} in {step.before[0]}; the specification has {shown(expected)}"
        self.say(step.now, step.lease, step.key.machine, reason)

    def written(self, message: Message) -> str:
        """A message as the language writes its values: `ticket {units: 1, end: 4}`."""
        return with_fields(message[0], self.program.messages[message[0]].fields, message[1])

    def _compare(self, step: LoggedStep, machine: GroundMachine) -> None:
        for one in {one.key: one for one in (*reversed(step.driven), step)}.values():
            last = self.known(one.key)
            if last is not None and last[: one.core.below_at] != durable(one, one.before):
                self.differs(one, "begins with", *_apart_in_all(one.core, durable(one, one.before), last))
        state = self._state(step)
        if step.event is None:
            self._compare_again(step, state, machine, self._wanted(machine, state), calls=True)
            return
        name, fields, neighbour, number, _ = step.event
        if neighbour < 0:
            self._compare_move(step, state, machine, self.offered(step, machine, state), -1)
            return
        peer = self.program.neighbour(step.core, machine.instance, neighbour)
        sender, lane = self.machine(peer), (step.lease, peer, self.over(step.key.machine, name))
        if sender is None:
            return
        if not self.may_be(lane, number, (name, fields)):
            sent = [self.written(message) for message in self.said(lane, number)]
            self.differs(step, f"receives as message {number} of {peer}", self.written((name, fields)), sent)
        last_number = step.before[step.core.received_at][neighbour]
        if number > last_number:
            move = choose(machine.moves.get((state[machine.cell], name), []), state, fields, sender.instance)
            self._compare_move(step, state, machine, move, sender.instance)
            return
        self._compare_move(step, state, machine, None, -1)
        answered = number == last_number and not self.world.system.messages[name].answer
        back = sender.role.name, sender.instance
        pieces = [w for w in self._wanted(machine, state) if w.lane is not None and _receiver(w) == back]
        self._compare_again(step, state, machine, pieces if answered else [], calls=False)

    def offered(self, step: LoggedStep, machine: GroundMachine, state: Sequence[Any]) -> Move | None:
        """The move of a local event or a timer, if it may come."""
        assert step.event is not None
        name, fields, _, _, epoch = step.event
        for offer in machine.offers[state[machine.cell]]:
            if offer.offer.event != name:
                continue
            answer = offer.offer.cause == "answer"
            if answer and 0 <= epoch != step.core.began(step.before, offer.offer.name):
                continue  # the state that asked was left
            free = (machine.role.name, name) in self._unenforced or self.asks_unknown(offer)
            if free or offer.allowed(state, fields, -1):
                return choose(offer.moves, state, fields, -1)
        return None

    def driven_again(self, step: LoggedStep, machine: GroundMachine, state: Sequence[Any]) -> Move | None:
        """The move of what a recovered machine gives a subsidiary one anew, if its state asks for it."""
        assert step.event is not None
        name, fields, *_ = step.event
        for parent in self.world.machines:
            for piece in self._wanted(parent, state) if parent.role.name == machine.role.parent else ():
                to = piece.piece.target.name, piece.instance, piece.piece.event
                if to == (machine.role.name, machine.instance, name) and piece.fields(state, (), -1) == fields:
                    return choose(machine.moves.get((state[machine.cell], name), []), state, fields, -1)
        return None

    def _compare_move(
        self, step: LoggedStep, state: list[Any], machine: GroundMachine, move: Move | None, sender: int
    ) -> None:
        """The transition and the record, and what follows from them."""
        assert step.event is not None
        actual = "" if step.outcome is None else step.outcome.transition
        expected = "" if move is None else move.transition.name
        if actual != expected:
            self.differs(step, "takes", actual, expected)
        if move is None or actual != expected:
            self._compare_records(step, state, machine, [])
            self._compare_numbers(step, [])
            return
        after, log = self.world.fired(tuple(state), machine, move, step.event[1], sender)
        receivers = ((self.name(e[0].channel.receiver, e[0].receiver), e) for e in log if len(e) == 3)
        sent = [(self.over(name, e[1]), e[1], e[2]) for name, e in receivers]
        driven = [
            (e[0], e[1], e[2], e[3], "" if e[4] is None else e[4].name)
            for e in log
            if len(e) == 5 and not (e[4] is None and (not self.tells_unmoved or self._is_unmade(step, e[0])))
        ]
        self._compare_records(step, after, machine, driven)
        self._compare_sends(step, sent)
        before = self._numbers(step, step.before, "sent")
        for to, message, fields in sent:
            lane = self.sent.setdefault((step.lease, step.key.machine, to), {})
            lane[before.get(to, 0) + 1] = [(message, fields)]
        self._compare_numbers(step, [to for to, _, _ in sent])
        self._compare_calls(step, after, machine, work_of(machine.role, move.transition))

    def _is_unmade(self, step: LoggedStep, below: GroundMachine) -> bool:
        """Returns whether nothing has happened to a machine of the run yet; only an event that moves it makes it."""
        name = self.name(below.role.name, below.instance)
        return below.role.of_run and self.known(RecordKey(step.lease, name)) is None

    def _numbers(self, step: LoggedStep, record: Record, which: str) -> dict[str, int]:
        """The numbers of the last messages that a record has sent to, or received from, each neighbour, by lane."""
        core, at = step.core, self.program.machines[step.key.machine][1]
        if core.subsidiary:
            return {}
        cells = record[core.sent_at if which == "sent" else core.received_at]
        by_position = cells.items() if isinstance(cells, dict) else enumerate(cells)
        return {self.program.lane(core, at, n): value for n, value in by_position if value}

    def _compare_numbers(self, step: LoggedStep, sent: Sequence[str]) -> None:
        """The numbers of messages: one more for each lane that a message is sent over, and that of a new one."""
        assert step.event is not None
        wanted = {which: self._numbers(step, step.before, which) for which in ("sent", "received")}
        for to in sent:
            wanted["sent"][to] = wanted["sent"].get(to, 0) + 1
        if step.event[2] >= 0:
            at = self.program.machines[step.key.machine][1]
            name, received = self.program.lane(step.core, at, step.event[2]), wanted["received"]
            received[name] = max(received.get(name, 0), step.event[3])
        for which, expected in wanted.items():
            actual = self._numbers(step, step.after, which)
            for name in {**actual, **expected}:
                if actual.get(name, 0) != expected.get(name, 0) and self.machine(parted(name)[0]) is not None:
                    verb = f"has as last number {'to' if which == 'sent' else 'from'} {name}"
                    self.differs(step, verb, actual.get(name, 0), expected.get(name, 0))

    def _compare_records(
        self, step: LoggedStep, after: Sequence[Any], machine: GroundMachine, driven: Sequence[tuple[Any, ...]]
    ) -> None:
        """The record of the machine, and the steps of the subsidiary machines that it drives."""
        actual, expected = step.core.cells(step.after), _cells_of(after, machine)
        if actual != expected:
            self.differs(step, "becomes", *_apart(step.core, actual, expected))
        steps = [(*self._moved(one),) for one in step.driven]
        wanted = [(self.name(below.role.name, below.instance), *moved) for below, *moved in driven]
        if steps != wanted:
            self.differs(step, "drives", *([_driven(*one) for one in all_] for all_ in (steps, wanted)))
            return
        last = {one.key: (one, below) for one, (below, *_) in zip(step.driven, driven, strict=True)}
        for one, below in last.values():
            if one.core.cells(one.after) != _cells_of(after, below):
                self.differs(one, "becomes", *_apart(one.core, one.core.cells(one.after), _cells_of(after, below)))
        for one, (below, *_, name) in zip(step.driven, driven, strict=True):
            tasks = next((work_of(below.role, tr) for tr in below.role.transitions() if tr.name == name), ())
            self._compare_calls(one, after, below, tasks)

    def _moved(self, one: LoggedStep) -> tuple[str, str, str, str, str]:
        assert one.event is not None
        name = "" if one.outcome is None else one.outcome.transition
        return one.key.machine, one.event[0], one.before[0], one.after[0], name

    def _compare_calls(
        self, step: LoggedStep, state: Sequence[Any], machine: GroundMachine, names: Sequence[str]
    ) -> None:
        """The calls of policies and handlers that a step begins."""
        tasks = [task for name in names if isinstance(task := machine.role.tasks[name], Call)]
        wanted = [t.name for t in tasks if t.when is None or machine.function(t.when)(state, (), -1)]
        if step.calls != wanted:
            self.differs(step, "calls", step.calls, wanted)

    def _compare_again(
        self, step: LoggedStep, state: Sequence[Any], machine: GroundMachine, pieces: Sequence[GroundPiece], calls: bool
    ) -> None:
        """Compares what is begun again, without a transition."""
        again = self.again(step, state, machine, pieces)
        self._compare_sends(step, [(peer, *message) for peer, message, _ in again])
        for _, message, before in again:
            if message not in before:
                before.append(message)
        self._compare_calls(step, state, machine, machine.role.states[step.before[0]].tasks if calls else ())

    def again(
        self, step: LoggedStep, state: Sequence[Any], machine: GroundMachine, pieces: Sequence[GroundPiece]
    ) -> list[tuple[str, Message, list[Message]]]:
        """Returns what pieces of work send anew: to whom, what, and what was sent under the same number so far.

        Nothing is sent anew where nothing was sent; a session keeps its messages itself.
        """
        sends = []
        for piece in pieces:
            if piece.lane is not None and not piece.lane.channel.durable:
                to = self.over(self.name(*_receiver(piece)), piece.piece.event)
                lane = self.sent.get((step.lease, step.key.machine, to))
                if lane:
                    sends.append((to, (piece.piece.event, piece.fields(state, (), -1)), lane[max(lane)]))
        return sends

    # The state of a run

    def _state(self, step: LoggedStep) -> list[Any]:
        """The records of a run's machines before a step, and the time as its actor knows it."""
        layout, state = self.world.layout, list(self._first)
        for machine in self.world.machines:
            name, core = self.name(machine.role.name, machine.instance), self.program.roles[machine.role.name]
            key = RecordKey(BELOW if core.of_actor else step.lease, name)
            record = step.before if key == step.key else self.known(key)
            if record is not None:
                state[machine.cell : machine.cell + 1 + len(machine.role.data)] = core.cells(record)
        for actor in layout.actors:
            if actor.name in self.world.up:
                state[self.world.up[actor.name]] = UP if self.is_up(self.name(*actor.machines[0])) else DOWN
        if layout.clock is not None:
            state[layout.clock] = step.now
        return state

    def _wanted(self, machine: GroundMachine, state: Sequence[Any]) -> list[GroundPiece]:
        """The work of a machine's state."""
        return [w for w in machine.work[state[machine.cell]] if w.wanted(state, (), -1)]

    def _compare_sends(self, step: LoggedStep, expected: Sequence[tuple[str, str, tuple[Any, ...]]]) -> None:
        """The messages that a step sends: to whom, and what."""
        at, lane = self.program.machines[step.key.machine][1], self.program.lane
        sends = [(lane(step.core, at, to), message, fields) for to, message, fields in step.sends]
        if sorted(sends, key=repr) != sorted(expected, key=repr):
            texts = ([f"{self.written((n, fields))} to {to}" for to, n, fields in all_] for all_ in (sends, expected))
            self.differs(step, "sends", *texts)

    def machine(self, name: str) -> GroundMachine | None:
        """A machine of the reference; None where that has not so many."""
        core, number = self.program.machines[name]
        return self.world.by_name.get((core.role, number))

    def over(self, machine: str, message: str) -> str:
        """A machine, and the channel of a message, if it is numbered apart."""
        return over(machine, self.program.messages[message].channel)

    def name(self, role: str, number: int) -> str:
        """The name of a machine."""
        return self.program.roles[role].machine(number)


def durable(step: LoggedStep, record: Record) -> Record:
    """A record without the machines that it can see."""
    return record[: step.core.below_at]


def _cells_of(state: Sequence[Any], machine: GroundMachine) -> tuple[Any, ...]:
    return tuple(state[machine.cell : machine.cell + 1 + len(machine.role.data)])


def _apart(core: Core, actual: tuple[Any, ...], expected: tuple[Any, ...]) -> tuple[str, str]:
    """Returns what the cells of two records have otherwise, by name."""
    return _of_names(core, ("state", *(f.name for f in core.fields)), actual, expected)


def _apart_in_all(core: Core, actual: Record, expected: Record) -> tuple[str, str]:
    """Returns what two records have otherwise, by name: also numbers of messages and epochs."""
    return _of_names(core, core.names, actual, expected)


def _of_names(core: Core, names: Sequence[str], actual: Record, expected: Record) -> tuple[str, str]:
    kinds = {f.name: f.type for f in core.fields}
    names = ["state epoch" if name == "entry" else name for name in names]
    apart = [(name, both) for name, *both in zip(names, actual, expected, strict=False) if both[0] != both[1]]
    one, other = (
        "{" + ", ".join(f"{name}: {show_typed(kinds.get(name), both[n])}" for name, both in apart) + "}" for n in (0, 1)
    )
    return one, other


def _driven(machine: str, event: str, before: str, after: str, transition: str) -> str:
    return f"{event} to {machine} ({before} -> {after}{f', {transition}' if transition else ''})"


def _receiver(piece: GroundPiece) -> tuple[str, int]:
    assert piece.lane is not None
    return piece.lane.channel.receiver, piece.lane.receiver


def show_typed(kind: Type | None, value: Any) -> str:
    """A value as the language writes it; of what has no type there, such as numbers of messages, its plain form."""
    text = show_plain(value) if kind is None else show(kind, value)
    return text or '""'


def show_said(kind: Type | None, plain: Any) -> str:
    """Plain data of an event as the language writes it, also where it is no value of its type."""
    with suppress(ValueFault):
        return show_typed(kind, plain if kind is None else from_plain(kind, plain))
    return show_plain(plain)


def with_fields(name: str, kinds: Named, values: Sequence[Any]) -> str:
    """An event or message with its fields: `ticket {units: 1, end: 4}`."""
    fields = [f"{field}: {show_typed(kind, value)}" for (field, kind), value in zip(kinds, values, strict=True)]
    return f"{name} {{{', '.join(fields)}}}" if fields else name


def shown(value: Any) -> str:
    """Returns what a step has, in words: of several things, each."""
    return (", ".join(map(str, value)) if isinstance(value, list) else show_plain(value)) or "nothing"
