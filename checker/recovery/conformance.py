"""Whether what actors do, step by step, is a run of the specification: each step is compared with the reference's.

Theory of operation. A simulation logs every event that an actor's loop gives a machine, the record before and after it,
and the work that it begins (faults/simulation/steps.py). When the turn is committed, the explorer's reference takes the
same event in the same state. For each lease (or run) the state has the records of its machines, the subsidiary
machines as they are (all leases share those of the actor), and the clock of the actor. Compared are

- where the step begins: the record is the one that the machine's last committed step has left;
- whether the event may come: a message was sent with this number and these fields by a committed step and was not
  received before; an answer is of a task of the state and of this state; a timer is due; the environment may act so;
- the transition, or that there is none; the record; the steps of subsidiary machines that it drives, in order;
- the messages that it sends, and the calls that it begins; of a duplicate and of a recovery, what is begun again;
- each message that leaves the actor: it is the one that a committed step has sent under this number.

So by induction, the log of a run is a run of the specification in which messages come late, never, or twice. Its bounds
do not matter for a step: units, times and fields may have any values of their types. Two things are left to other
checks: what a step must do and does not come at all (progress.py), and conditions of the environment that ask for
messages on their way, which no actor can know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.checker.explore.ground import GroundMachine, GroundOffer, GroundPiece, Move
from leasehold.checker.explore.reference import Reference, choose
from leasehold.checker.explore.step import SpecFault
from leasehold.checker.recovery.cases.properties import reads_messages
from leasehold.faults.lowering import DOWN, UP
from leasehold.faults.simulation.simulation import Simulation
from leasehold.faults.simulation.steps import LoggedStep, LoggedTurn
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import Record
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import RecordKey
from leasehold.spec.language.lower.lowering import work_of
from leasehold.spec.language.model import Call

MachineLane = tuple[str, str, str]  # a lease, the machine that sends, the machine that receives
Message = tuple[str, tuple[Any, ...]]  # its name and fields


class StepConformance:
    """Compares the steps of all actors of a simulation with those of the specification.

    It has to be made before the actors start.

    Args:
        simulation: whose steps.
        world: the reference of the same specification.

    Attributes:
        strange: what no run of the specification does, in words.
        compared: how many steps were compared.
    """

    def __init__(self, simulation: Simulation, world: Reference) -> None:
        self.sim, self.world = simulation, world
        self.strange: list[str] = []
        self.compared = 0
        self._first = world.initial_states()[0]
        self._records: dict[RecordKey, Record] = {}  # after the last committed step
        self._sent: dict[MachineLane, list[list[Message]]] = {}  # by number, from 1 on; said again it may be another
        self._received: dict[MachineLane, int] = {}
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
        ends = {key: _durable(one, one.after) for key, one in last.items()}
        changed = {key: after for key, after in ends.items() if after != self._records.get(key)}
        found = self.sim.actors[actor].table.instances
        if all(key in found and _durable(last[key], found[key].record) == after for key, after in changed.items()):
            self._judge(steps)

    def _hear(self, notice: Notice) -> None:
        if notice.kind is Kind.COMMITTED:
            self._judge(self._waiting.pop(notice.actor, []))
        elif notice.kind is Kind.STOPPED:
            self._stopped.add(notice.actor)
        elif notice.kind is Kind.RECOVERED and notice.actor in self._stopped:  # with no machine that would step
            self._stopped.discard(notice.actor)
            self._waiting.pop(notice.actor, None)
        elif notice.kind is Kind.SEND:
            self._leaves(notice)

    def _leaves(self, notice: Notice) -> None:
        """A message leaves its actor."""
        lane = notice.lease, notice.machine, notice.data["peer"]
        number, message = notice.data["number"], (notice.name, tuple(notice.data["fields"].values()))
        if self._machine(lane[1]) and self._machine(lane[2]) and message not in self._said(lane, number):
            words = f"sends {_shown(message)} as message {number}, which no committed step has sent"
            self._say(notice.now, notice.lease, notice.machine, words)

    def _said(self, lane: MachineLane, number: int) -> list[Message]:
        """What committed steps have sent under a number."""
        sent = self._sent.get(lane, [])
        return sent[number - 1] if 0 < number <= len(sent) else []

    def _say(self, now: int, lease: str, machine: str, words: str) -> None:
        self.strange.append(f"tick {now}: {machine} of {lease} {words}"[:500])

    def _differs(self, step: LoggedStep, what: str, found: Any, expected: Any) -> None:
        """Says what a step does otherwise."""
        event = "when it recovers" if step.event is None else f"at {step.event[0]} {_shown(step.event[1])}"
        words = f"{what} {_shown(found)} {event} in {step.before[0]}; the specification has {_shown(expected)}"
        self._say(step.now, step.lease, step.key.machine, words)

    # Steps

    def _judge(self, steps: Sequence[LoggedStep]) -> None:
        """Compares the steps of a turn that is committed."""
        for step in steps:
            machine = self._machine(step.key.machine)
            if machine is not None:
                self.compared += 1
                try:
                    self._compare(step, machine)
                except SpecFault as fault:
                    self._differs(step, "shows that", str(fault), "one choice, and values of its types")
            for one in (step, *step.driven):
                self._records[one.key] = _durable(one, one.after)
        for key in {step.key for step in steps}:
            actor = self.sim.actors.get(self.sim.player.get(key.machine, ""))
            if actor is not None and key not in actor.table.instances:
                self._forget(key)

    def _forget(self, key: RecordKey) -> None:
        """A message that moves nothing begins no machine."""
        del self._records[key]
        for lane in [lane for lane in self._received if (lane[0], lane[2]) == tuple(key)]:
            del self._received[lane]

    def _compare(self, step: LoggedStep, machine: GroundMachine) -> None:
        for one in {one.key: one for one in (*reversed(step.driven), step)}.values():
            last = self._records.get(one.key)
            if last is not None and last != _durable(one, one.before):
                self._differs(one, "begins as", _durable(one, one.before), last)
        state = self._state(step)
        if step.event is None:
            self._compare_again(step, state, machine, self._wanted(machine, state), calls=True)
            return
        name, fields, neighbour, number, _ = step.event
        if neighbour < 0:
            self._compare_move(step, state, machine, self._offered(step, machine, state), -1)
            return
        peer = self.sim.program.neighbour(step.core, machine.instance, neighbour)
        sender, lane = self._machine(peer), (step.lease, peer, step.key.machine)
        if sender is None:
            return
        if (name, fields) not in (said := self._said(lane, number)):
            self._differs(step, f"receives as message {number} of {peer}", (name, fields), said)
        last_number = self._received.get(lane, 0)
        if number > last_number:
            self._received[lane] = number
            move = choose(machine.moves.get((state[machine.cell], name), []), state, fields, sender.instance)
            self._compare_move(step, state, machine, move, sender.instance)
            return
        self._compare_move(step, state, machine, None, -1)
        answered = number == last_number and not self.world.system.messages[name].answer
        back = sender.role.name, sender.instance
        pieces = [w for w in self._wanted(machine, state) if w.lane is not None and _receiver(w) == back]
        self._compare_again(step, state, machine, pieces if answered else [], calls=False)

    def _offered(self, step: LoggedStep, machine: GroundMachine, state: Sequence[Any]) -> Move | None:
        """The move of a local event or a timer, if it may come."""
        assert step.event is not None
        name, fields, _, _, epoch = step.event
        for offer in machine.offers[state[machine.cell]]:
            if offer.offer.event != name:
                continue
            answer = offer.offer.cause == "answer"
            if answer and 0 <= epoch != step.core.began(step.before, offer.offer.name):
                continue  # the state that asked was left
            if _asks_messages(offer) or offer.allowed(state, fields, -1):
                return choose(offer.moves, state, fields, -1)
        return None

    def _compare_move(
        self, step: LoggedStep, state: list[Any], machine: GroundMachine, move: Move | None, sender: int
    ) -> None:
        """The transition and the record, and what follows from them."""
        assert step.event is not None
        found = "" if step.outcome is None else step.outcome.transition
        expected = "" if move is None else move.transition.name
        if found != expected:
            self._differs(step, "takes", found, expected)
        if move is None or found != expected:
            self._compare_records(step, state, machine, [])
            self._compare_numbers(step)
            return
        after, log = self.world.fired(tuple(state), machine, move, step.event[1], sender)
        sent = [(self._name(e[0].channel.receiver, e[0].receiver), e[1], e[2]) for e in log if len(e) == 3]
        driven = [
            (e[0], e[1], e[2], e[3], "" if e[4] is None else e[4].name)
            for e in log
            if len(e) == 5 and not (e[4] is None and self._is_unmade(step, e[0]))
        ]
        self._compare_records(step, after, machine, driven)
        self._compare_sends(step, sent)
        for peer, message, fields in sent:
            self._sent.setdefault((step.lease, step.key.machine, peer), []).append([(message, fields)])
        self._compare_numbers(step)
        self._compare_calls(step, after, machine, work_of(machine.role, move.transition))

    def _is_unmade(self, step: LoggedStep, below: GroundMachine) -> bool:
        """Whether nothing has happened to a machine of the run yet: an event that moves it not even makes it."""
        name = self._name(below.role.name, below.instance)
        return below.role.of_run and RecordKey(step.lease, name) not in self._records

    def _compare_numbers(self, step: LoggedStep) -> None:
        """The numbers of the last messages that the machine has sent to, and received from, each neighbour."""
        core, name, at = step.core, step.key.machine, self.sim.program.machines[step.key.machine][1]
        for n in range(len(core.neighbours) if not core.subsidiary else 0):
            peer = self.sim.program.neighbour(core, at, n)
            found = step.after[core.sent_at][n], step.after[core.received_at][n]
            sent, received = (
                self._sent.get((step.lease, name, peer), ()),
                self._received.get((step.lease, peer, name), 0),
            )
            if found != (len(sent), received) and self._machine(peer) is not None:
                self._differs(step, f"has as last numbers to and from {peer}", found, (len(sent), received))

    def _compare_records(
        self, step: LoggedStep, after: Sequence[Any], machine: GroundMachine, driven: Sequence[tuple[Any, ...]]
    ) -> None:  # fmt: skip
        """The record of the machine, and the steps of the subsidiary machines that it drives."""
        found, expected = _cells(step.core, step.after), _cells_of(after, machine)
        if found != expected:
            self._differs(step, "becomes", found, expected)
        steps = [(*self._moved(one),) for one in step.driven]
        wanted = [(self._name(below.role.name, below.instance), *moved) for below, *moved in driven]
        if steps != wanted:
            self._differs(step, "drives", steps, wanted)
            return
        last = {one.key: (one, below) for one, (below, *_) in zip(step.driven, driven, strict=True)}
        for one, below in last.values():
            if _cells(one.core, one.after) != _cells_of(after, below):
                self._differs(one, "becomes", _cells(one.core, one.after), _cells_of(after, below))
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
            self._differs(step, "calls", step.calls, wanted)

    def _compare_again(
        self, step: LoggedStep, state: Sequence[Any], machine: GroundMachine, pieces: Sequence[GroundPiece], calls: bool
    ) -> None:  # fmt: skip
        """What is begun again, without a transition."""
        sends = [w for w in pieces if w.lane is not None and w.lane.channel.kind != "fifo"]
        sent = [(self._name(*_receiver(w)), w.piece.event, w.fields(state, (), -1)) for w in sends]
        numbered = [(one, before) for one in sent if (before := self._sent.get((step.lease, step.key.machine, one[0])))]
        self._compare_sends(step, [one for one, _ in numbered])  # nothing is said again where nothing was said
        for (_, *message), before in numbered:
            if tuple(message) not in before[-1]:
                before[-1].append((message[0], message[1]))
        self._compare_calls(step, state, machine, machine.role.states[step.before[0]].tasks if calls else ())

    # The state of a lease

    def _state(self, step: LoggedStep) -> list[Any]:
        """The records of a lease's machines before a step, and the time as its actor knows it."""
        layout, found = self.world.layout, list(self._first)
        for machine in self.world.machines:
            name, core = self._name(machine.role.name, machine.instance), self.sim.program.roles[machine.role.name]
            key = RecordKey(BELOW if core.of_actor else step.lease, name)
            record = step.before if key == step.key else self._records.get(key)
            if record is not None:
                found[machine.cell : machine.cell + 1 + len(machine.role.data)] = _cells(core, record)
        for actor in layout.actors:
            machine_of = self.sim.player[self._name(*actor.machines[0])]
            if actor.name in self.world.up:
                found[self.world.up[actor.name]] = UP if machine_of in self.sim.actors else DOWN
        if layout.clock is not None:
            found[layout.clock] = step.now
        return found

    def _wanted(self, machine: GroundMachine, state: Sequence[Any]) -> list[GroundPiece]:
        """The work of a machine's state."""
        return [w for w in machine.work[state[machine.cell]] if w.wanted(state, (), -1)]

    def _compare_sends(self, step: LoggedStep, expected: Sequence[tuple[str, str, tuple[Any, ...]]]) -> None:
        """The messages that a step sends: to whom, and what."""
        at, neighbour = self.sim.program.machines[step.key.machine][1], self.sim.program.neighbour
        sends = [(neighbour(step.core, at, peer), message, fields) for peer, message, fields in step.sends]
        if sorted(sends, key=repr) != sorted(expected, key=repr):
            self._differs(step, "sends", sends, expected)

    def _machine(self, name: str) -> GroundMachine | None:
        """A machine of the reference; None where that has not so many."""
        core, number = self.sim.program.machines[name]
        return self.world.by_name.get((core.role, number))

    def _name(self, role: str, number: int) -> str:
        return self.sim.program.roles[role].machine(number)


def _durable(step: LoggedStep, record: Record) -> Record:
    """A record without the machines that it can see."""
    return record[: step.core.below_at]


def _cells(core: Core, record: Record) -> tuple[Any, ...]:
    """The cells of the model that a record tells: the control state, and the data."""
    return record[0], *record[core.data_at : core.data_at + len(core.fields)]


def _cells_of(state: Sequence[Any], machine: GroundMachine) -> tuple[Any, ...]:
    return tuple(state[machine.cell : machine.cell + 1 + len(machine.role.data)])


def _receiver(piece: GroundPiece) -> tuple[str, int]:
    assert piece.lane is not None
    return piece.lane.channel.receiver, piece.lane.receiver


def _asks_messages(offer: GroundOffer) -> bool:
    """Whether the environment's condition asks for messages on their way."""
    return any(map(reads_messages, offer.offer.outside))


def _shown(value: Any) -> str:
    return repr(value) if value != "" else "nothing"
