"""The steps of a lowered form in Promela: one alternative for each choice, machine, message and witness.

They stand in the order of `Reference.successors`. The guard of an alternative says exactly whether the step is
possible, and nothing after it blocks. A statement is one string; the work of a machine's task is an inline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from types import MappingProxyType
from typing import Any

from leasehold.checker.explore.layout import Lane
from leasehold.checker.export.promela_layout import (
    PromelaNames,
    Words,
    between,
    both,
    chosen,
    either,
    flat,
    opposite,
    reshaped,
    same,
)
from leasehold.checker.export.promela_terms import PromelaBindings, term, word
from leasehold.checker.export.shared import (
    ExportError,
    described,
    fair_group,
    field_values,
    low_high,
    moving,
    repeated,
    wrapped,
)
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.check.lint import exclusive
from leasehold.spec.language.lower import Choice, Offer, Piece, Receive, reads_step
from leasehold.spec.language.model import Drive, Message, Role, Send, machine_name

MOST_ALTERNATIVES = 20_000


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to go on.

    Attributes:
        section: what it stands under.
        label: what happens, in words.
        first: statements that assert something of the state before.
        take: statements that take a message out of a channel.
        then: statements that are left: updates and work.
        took: role, instance and event, where a machine consumes one.
        group: of weak fairness; None: it need never happen.
        ignored: the event is a message for which no transition is taken.
    """

    section: str
    label: str
    guard: str
    first: Sequence[str] = ()
    take: Sequence[str] = ()
    then: Sequence[str] = ()
    took: tuple[str, int, str] | None = None
    group: tuple[Any, ...] | None = None
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A place from which a message may be received.

    Attributes:
        test: that it lies there.
        read, taken: the words for its fields, before and after it is taken out.
        take: the statements that take it out, and spend what that takes of the channel's faults.
        how: before its turn, or leaving a copy; the network need never do either.
    """

    message: Message
    test: str
    read: Mapping[str, Words]
    taken: Mapping[str, Words] = field(default_factory=dict)
    take: Sequence[str] = ()
    how: str = ""


class PromelaSteps:
    """All alternatives of a system.

    Attributes:
        definitions: the inlines that they need, by name.
        scratch: hidden variables that they need.
    """

    def __init__(self, names: PromelaNames) -> None:
        self.names, self.system, self.relation = names, names.system, names.relation
        self.definitions: dict[str, list[str]] = {}
        self.scratch: dict[str, None] = {}

    def all(self) -> list[Alternative]:
        alternatives: list[Alternative] = []
        for part in (self._machines(), self._messages(), self._time()):
            for alternative in part:
                alternatives.append(alternative)
                if len(alternatives) > MOST_ALTERNATIVES:
                    raise ExportError(
                        f"the model has more than {MOST_ALTERNATIVES:,} alternatives",
                        "set constants that number machines and values lower",
                    )
        return alternatives

    def _hide(self, name: str) -> str:
        """A scratch variable, which is no part of a state."""
        self.scratch[name] = None
        return name

    def _frame(self, role: Role, i: int, arguments: Mapping[str, Words], sender: int = 0) -> PromelaBindings:
        return PromelaBindings(self.names, role.name, str(i), arguments, str(sender))

    # Machines

    def _machines(self) -> Iterator[Alternative]:
        for role, i in self.system.machines():
            for state in role.states:
                for offer in self.relation.offers[role.name, state]:
                    for values in field_values(self.system, offer.fields):
                        yield from self._offered(role, i, offer, values)

    def _offered(self, role: Role, i: int, offer: Offer, values: tuple[t.Value, ...]) -> Iterator[Alternative]:
        given = list(zip(offer.fields, values, strict=True))
        terms = [w for d, v in given for w in flat(self.names.literal(d.type, v))]
        f, world = self._frame(role, i, self.names.named(offer.fields, terms)), PromelaBindings(self.names)
        tests = [word(e, f) for e in offer.conditions]
        if offer.outside:
            outside = replace(world, arguments=f.arguments, variables={"it": f.me})
            tests.append(either([word(e, outside) for e in offer.outside]))
        for d in offer.fields:
            if d.explore is not None and moving(d):
                tests += between(d.type, f.arguments[d.name], *(word(e, world) for e in d.explore))
        shown = ", ".join(f"{d.name}={t.show(d.type, v)}" for d, v in given)
        who = machine_name(role, i) + (f": {shown}" if shown else "")
        cause = f" ({offer.name})" if offer.cause == "environment" else ""
        for choice in offer.choices:
            guard = both([self._holds(choice, f), *tests, *self._room(choice, f)])
            section, label = f"{role.name}: {described(choice.transition, cause)}", f"{choice.transition.name} by {who}"
            took, group = (role.name, i, offer.event), fair_group(offer, i, values)
            alone, then = self._alone(choice, f), self._carry_out(choice, f)
            yield Alternative(section, label, guard, alone, (), then, took, group)

    def _holds(self, choice: Choice, f: PromelaBindings) -> str:
        """Returns the condition that a machine is where a choice begins, and its guard holds."""
        guard = [word(choice.guard, f)] if choice.guard is not None else []
        return both([self.names.stands_in(f.role, f.me, choice.transition.source), *guard])

    def _alone(self, choice: Choice, f: PromelaBindings) -> list[str]:
        """Asserts that a choice is the only one."""
        tr = choice.transition
        others = [self._holds(c, f) for c in self.relation.moves[f.role, tr.source, tr.event] if c is not choice]
        return self._asserted("Guards_disjoint", opposite(either(others)))

    def _carry_out(self, choice: Choice, f: PromelaBindings) -> list[str]:
        """The updates and the work of a choice."""
        passed, first = self._passed(choice, f), list[str]()
        for name, terms in passed.items():
            places = [self._hide(f"Passed_{f.role}_{name}_{n}") for n in range(len(flat(terms)))]
            first += assigned(places, flat(terms))
            passed[name] = reshaped(terms, iter(places))
        work = [self._start(f, piece, passed) for piece in choice.work]
        return [*first, *self._commit(choice, f), *work]

    def _passed(self, choice: Choice, f: PromelaBindings) -> dict[str, Words]:
        """Returns what a choice passes to its work, by name; read in the state before it."""
        return {u.name: term(u.value, f, u.value.type) for u in choice.passes}

    def _asserted(self, name: str, test: str) -> list[str]:
        return [] if test == "true" else [f"{self._hide(name)} = {test}; assert({name})"]

    def _committed(self, choice: Choice, f: PromelaBindings) -> dict[tuple[str, str], Words]:
        """Returns what a choice writes, by role (or SHARED) and name; the machine's control state has no name."""
        written: dict[tuple[str, str], Words] = {}
        for update in choice.updates:
            at = update.holder(f.role), update.name
            kind = self._type(*at)
            if update.key is None:
                written[at] = term(update.value, f, kind)
                continue
            assert isinstance(kind, t.Map)
            key, value = word(update.key, f), term(update.value, f, kind.of)
            old = written.get(at) or self.names.data(self.names.machine(at[0], f.me), update.name, kind)
            written[at] = tuple(chosen(same(key, str(k)), value, cell) for k, cell in enumerate(old))
        return {**written, (f.role, ""): self.names.define("state", f.role, choice.transition.target)}

    def _type(self, holder: str, name: str) -> t.Type:
        return self.system.holders[holder].data[name].type

    def _commit(self, choice: Choice, f: PromelaBindings) -> list[str]:
        """The updates and the new control state. All updates read the state as it was."""
        tests, writes = [], []
        for (holder, name), value in self._committed(choice, f).items():
            machine = self.names.machine(holder, f.me)
            if name:
                kind = self._type(holder, name)
                tests += between(kind, value, *(low_high(kind) or (None, None)))
                places = flat(self.names.data(machine, name, kind))
                writes += [(place, w) for place, w in zip(places, flat(value), strict=True) if place != w]
            elif choice.transition.target != choice.transition.source:
                writes.append((f"{machine}.state", str(value)))
        first: list[str] = []
        if any(place.rpartition(".")[2] in w for (place, _), (_, w) in combinations(writes, 2)):
            first = [f"{self._hide(f'New_{n}')} = {w}" for n, (_, w) in enumerate(writes)]
            writes = [(place, f"New_{n}") for n, (place, _) in enumerate(writes)]
        return [*self._asserted("Types_hold", both(tests)), *first, *(f"{place} = {w}" for place, w in writes)]

    # Work

    def _start(self, f: PromelaBindings, piece: Piece, passed: Mapping[str, Words]) -> str:
        """A call of the inline that does a piece of work."""
        role, task = self.system.roles[f.role], piece.task
        number = f"_{f.me}" if role.indexed else ""
        key = "task", role.name, task.name, number, "passed" if reads_step(piece) else ""
        name = self.names.names.name(key, f"Start_{role.name}_{task.name}{number}")
        if name not in self.definitions:
            body = [
                line for it, lane in self._targets(f, piece) for line in self._do(f, piece, it, lane, passed=passed)
            ]
            verb = "sends" if isinstance(task, Send) else f"drives {piece.target.name} by"
            comment = wrapped(f"{task.name}: {verb} {piece.event}. {task.doc}", "/* ", " * ", " */")
            self.definitions[name] = inline(name, body, comment)
        return f"{name}()"

    def _targets(self, f: PromelaBindings, piece: Piece) -> Iterator[tuple[int, Lane | None]]:
        """The machines that a piece of work is for, each with the lane that leads there."""
        for it in range(piece.target.count):
            lane = None if piece.channel is None else self.names.layout.lane(piece.channel.name, int(f.me), it)
            if piece.channel is None or lane is not None:
                yield it, lane

    def _do(
        self,
        f: PromelaBindings,
        piece: Piece,
        it: int,
        lane: Lane | None,
        again: bool = False,
        passed: Mapping[str, Words] = MappingProxyType({}),
    ) -> list[str]:
        f = PromelaBindings(self.names, f.role, f.me, passed, variables={"it": str(it)})
        fields = self.system.fields_of(piece.target.name, piece.event)
        given = zip(piece.fields, fields, strict=True)
        terms = [w for e, d in given for w in flat(term(e, f, d.type))]
        body = self._drive(piece, it, terms) if lane is None else self._put(lane, piece.event, terms, again)
        test = both([word(e, f) for e in piece.conditions])
        return body if test == "true" else [f"if :: {test} -> {'; '.join(body)} :: else fi"]

    def _drive(self, piece: Piece, it: int, terms: list[str]) -> list[str]:
        """A subsidiary machine takes an event, if it can."""
        driven, event = piece.target, piece.event
        got = [self._hide(f"Got_{driven.name}_{event}_{n}") for n in range(len(terms))]
        f = self._frame(driven, it, self.names.named(self.system.fields_of(driven.name, event), got))
        choices = [c for state in driven.states for c in self.relation.moves.get((driven.name, state, event), ())]
        taken = [[*self._alone(c, f), *self._carry_out(c, f)] for c in choices]
        cases = [f":: {self._holds(c, f)} -> {'; '.join(body)}" for c, body in zip(choices, taken, strict=True)]
        return [*assigned(got, terms), f"if {' '.join(cases)} :: else fi"]

    def _put(self, lane: Lane, event: str, terms: list[str], again: bool) -> list[str]:
        """A message is put on its way."""
        channel, message = lane.channel, self.system.messages[event]
        if channel.kind == "set":
            tests = {bit: both(list(map(same, terms, row))) for m, row, bit in self.names.members(lane) if m is message}
            if "true" in tests.values():
                return [f"{bit} = 1" for bit, test in tests.items() if test == "true"]
            cases = " ".join(f":: {test} -> {bit} = 1" for bit, test in tests.items())
            return [f"if {cases} :: else -> Enough_slots = false; assert(Enough_slots) fi"]
        cells = dict.fromkeys((name for name, _ in self.names.slot(channel) if name != "number"), "0")
        cells |= zip((name for name, _ in self.names.fields(channel, message)), terms, strict=True)
        cells["kind"] = self.names.kind(event)
        cells |= {"sender": str(lane.sender)} if self.names.names_senders(channel) else {}
        put = "Put_again" if again and self.names.ranked(channel) else "Put"
        new = [f"New_{channel.name}.{name}" for name in cells]
        return [*assigned(new, list(cells.values())), f"{put}_{channel.name}({self.names.lane(lane)})"]

    # Room

    def _room(self, choice: Choice, f: PromelaBindings) -> list[str]:
        """Conditions for every channel that a choice sends into to have room; they are of the state before it."""
        conditions = []
        for piece in choice.work:
            channel = piece.channel
            if isinstance(piece.task, Drive):
                self._refuse_driven_sends(piece.target, piece.task)
            if channel is None or channel.kind in ("mailbox", "set") or channel.capacity is None:
                continue
            self._refuse_reading_others(choice, piece)
            before = (p.task for p in choice.work[: choice.work.index(piece)] if p.channel is channel)
            if any(
                isinstance(s, Send) and not exclusive(s, piece.task) for s in before if isinstance(piece.task, Send)
            ):
                raise ExportError(
                    f"{choice.transition.name} sends two messages into {channel.name}, which has a capacity",
                    "leave the capacity out, or add a state between the two",
                    piece.task.place,
                )
            after = PromelaBindings(
                self.names, f.role, f.me, self._passed(choice, f), committed=self._committed(choice, f)
            )
            for it, lane in self._targets(f, piece):
                assert lane is not None
                wanted = both([word(e, replace(after, variables={"it": str(it)})) for e in piece.conditions])
                free = f"({self.names.lane(lane)}.slot[{channel.capacity - 1}].kind == 0)"
                conditions.append(either([opposite(wanted), free]))
        return conditions

    def _refuse_driven_sends(self, driven: Role, task: Drive) -> None:
        for other in driven.tasks.values():
            if isinstance(other, Send) and self.system.channel_of(other.message).capacity:
                raise ExportError(
                    f"subsidiary {driven.name} sends {other.message} over a channel with a capacity",
                    "let its parent send it, or make the channel a mailbox",
                    task.place,
                )
            if isinstance(other, Drive):
                self._refuse_driven_sends(self.system.roles[other.role], task)

    def _refuse_reading_others(self, choice: Choice, piece: Piece) -> None:
        """Raises where the condition of a send reads what may change between the commit and the send."""
        role, channel = choice.transition.role, piece.channel

        def others(n: x.Expression) -> bool:
            return x.reads_messages(n) or (isinstance(n, x.Data | x.ControlState) and n.role != role)

        if channel is not None and channel.sender == channel.receiver:
            raise ExportError(
                f"channel {channel.name} joins machines of one role and has a capacity",
                "make it a mailbox",
                channel.place,
            )
        if len(choice.work) > 1 and any(x.mentions(e, others) for e in piece.conditions):
            raise ExportError(
                f"whether task {piece.task.name} sends into a channel with a capacity depends on what other tasks do",
                "let it read its own record alone",
                piece.task.place,
            )

    # Messages

    def _messages(self) -> Iterator[Alternative]:
        for receive in self.relation.receives:
            channel = receive.channel
            for lane in (lane for lane in self.names.layout.lanes if lane.channel is channel):
                ends = machine_name(receive.sender, lane.sender), machine_name(receive.receiver, lane.receiver)
                for source in self._sources(receive, lane):
                    yield from self._received(receive, lane, source, " to ".join(ends))
                for k in range(self.names.slots(channel)) if lane in self.names.lanes[channel.name] else ():
                    if channel.kind == "mailbox" and repeated(self.system, channel):
                        yield from self._again(receive, lane, k, " to ".join(ends))
                    if channel.lose:
                        yield self._lost(receive, lane, k)

    def _sources(self, receive: Receive, lane: Lane) -> Iterator[Source]:
        """Yields where a message that was not received before may be received from, and how."""
        channel, place = receive.channel, self.names.lane(lane)
        for message, terms, bit in self.names.members(lane) if not receive.consumes else ():
            fields = self.names.named(message.fields, terms)
            yield Source(message, bit, fields, fields)
        ranked, slots = self.names.ranked(channel), range(self.names.slots(channel))
        following = f"Next_{channel.name}({place})"  # a slot, a test, statements, and words
        spots = [(str(k), "true", list[str](), "") for k in (slots[:1] if receive.in_turn else slots)]
        if ranked:
            spots = [(following, f"({following} <= {slots[-1]})", [], "")]
        for k in slots[1:] if channel.reorder and receive.in_turn else ():
            later = [f"({place}.slot[{n}].number > 0)" for n in (k, k - 1)] if ranked else []
            may, cost = self._fault(lane, "reorder")
            spots.append((str(k), both([*later, may]), cost, ", before its turn"))
        for at, test, cost, how in spots:
            slot, turn = f"{place}.slot[{at}]", "Turn" if at == following else at
            first = [f"Turn = {at}"] if at == following else []
            for copied in ("", "_copy") if channel.duplicate else ("",):
                may, more = self._fault(lane, "duplicate") if copied else ("true", [])
                take = [f"Receive{copied}_{channel.name}({place}, {turn})"] if ranked else []
                take += [f"Drop_{channel.name}({place}, {turn})"] if not ranked and not copied else []
                for message in receive.messages:
                    cells = [name for name, _ in self.names.fields(channel, message)]
                    lying = [f"{slot}.{name}" for name in cells]
                    got = [self._hide(f"Got_{message.name}_{name}") for name in cells]
                    read, taken = (self.names.named(message.fields, terms) for terms in (lying, got))
                    sent = [f"({slot}.sender == {lane.sender})"] if self.names.names_senders(channel) else []
                    yield Source(
                        message,
                        both([test, f"({slot}.kind == {self.names.kind(message.name)})", *sent, may]),
                        read,
                        taken,
                        [*first, *assigned(got, lying), *take, *cost, *more],
                        how + (", and a copy stays on its way" if copied else ""),
                    )

    def _received(self, receive: Receive, lane: Lane, source: Source, way: str) -> Iterator[Alternative]:
        """A new message is consumed by one of the receiver's choices, or dropped by a state that has none."""
        role, message = receive.receiver, source.message
        f = self._frame(role, lane.receiver, source.read, lane.sender)
        then, label = replace(f, arguments=source.taken), f"{way}{source.how}"
        took = (role.name, lane.receiver, message.name)
        group = ("deliver", receive.channel.name, lane.sender, lane.receiver) if not source.how else None
        choices = [c for (name, _), of_state in receive.choices.items() if name == message.name for c in of_state]
        for choice in choices:
            guard = both([source.test, self._holds(choice, f), *self._room(choice, f)])
            alone, carried_out = self._alone(choice, f), self._carry_out(choice, then)
            section, title = f"{role.name}: {described(choice.transition, source.how)}", choice.transition.name
            yield Alternative(section, f"{title}, {label}", guard, alone, source.take, carried_out, took, group)
        if not receive.waits:
            guard = both([source.test, opposite(either([self._holds(c, f) for c in choices]))])
            title = f"{message.name} is ignored or refused"
            section = f"{role.name}: {title}{source.how}"
            yield Alternative(section, f"{title}, {label}", guard, (), source.take, (), took, group, ignored=True)

    def _again(self, receive: Receive, lane: Lane, k: int, way: str) -> Iterator[Alternative]:
        """A message is received that was received before: no choice is taken, and answers are sent again."""
        channel, place = receive.channel, self.names.lane(lane)
        section = f"{receive.receiver.name}: a message over {channel.name} comes again"
        group = ("deliver", channel.name, lane.sender, lane.receiver)
        for answers in (False, True):
            kinds = [self.names.kind(m.name) for m in receive.messages if m.answer == answers]
            if kinds:
                test = either([f"({place}.slot[{k}].kind == {kind})" for kind in kinds])
                guard = both([test, f"({place}.slot[{k}].number == 0)"])
                resend = self._resend(receive, lane) if not answers else []
                take = f"Receive_{channel.name}({place}, {k})"
                yield Alternative(section, f"a duplicate, {way}", guard, (), [take], resend, None, group)

    def _resend(self, receive: Receive, lane: Lane) -> list[str]:
        """The receiver's state's messages to the sender are sent again."""
        role, f = receive.receiver, self._frame(receive.receiver, lane.receiver, {})
        cases = []
        for state in role.states:
            pieces = [p for p in self.relation.work[role.name, state] if p.channel and p.target is receive.sender]
            body: list[str] = []
            for piece in pieces:
                assert piece.channel is not None
                if piece.channel.capacity is not None:
                    raise ExportError(
                        f"a duplicate makes {role.name} send again over {piece.channel.name}, which has a capacity",
                        "make that channel a mailbox",
                        piece.channel.place,
                    )
                for it, back in self._targets(f, piece):
                    body += self._do(f, piece, it, back, again=True) if it == lane.sender else []
            if body:
                cases.append(f":: {self.names.stands_in(role.name, f.me, state)} -> {'; '.join(body)}")
        name = f"Resend_{receive.channel.name}_{lane.sender}_{lane.receiver}"
        self.definitions[name] = inline(name, ["\n\t".join(["if", *cases, ":: else", "fi"])])
        return [f"{name}()"]

    def _lost(self, receive: Receive, lane: Lane, k: int) -> Alternative:
        channel, place = receive.channel, self.names.lane(lane)
        rank = [f"Rank_{channel.name}({place})"] if self.names.ranked(channel) else []
        may, cost = self._fault(lane, "lose")
        return Alternative(
            f"{channel.name} loses a message",
            f"{place} loses the message in slot {k}",
            both([f"({place}.slot[{k}].kind != 0)", may]),
            (),
            [f"Drop_{channel.name}({place}, {k})", *rank, *cost],
        )

    def _fault(self, lane: Lane, fault: str) -> tuple[str, list[str]]:
        """Writes whether a channel may still have a fault, and what that takes of its budget."""
        if (lane.channel.name, fault) not in self.names.layout.budgets:
            return "true", []
        left = self.names.left(lane.channel.name, fault)
        return f"({left} > 0)", [f"{left}--"]

    # Time

    def _time(self) -> Iterator[Alternative]:
        passage = self.relation.passage
        if passage is None:
            return
        due = [
            self._holds(choice, self._frame(offer.role, i, {}))
            for offer in passage.unless
            for i in range(offer.role.count)
            for choice in offer.choices
        ]
        guard = both([f"(clock < {passage.clock.horizon})", opposite(either(due))])
        yield Alternative("the clock", "the clock ticks", guard, then=["clock++"], group=("clock",))


# Statements


def assigned(places: Sequence[str], terms: Sequence[str]) -> list[str]:
    return [f"{place} = {w}" for place, w in zip(places, terms, strict=True)]


def inline(name: str, body: Sequence[str], about: Sequence[str] = ()) -> list[str]:
    """The definition of an inline."""
    return [*about, f"inline {name}() {{", "\t" + ";\n\t".join(body or ["skip"]), "}"]
