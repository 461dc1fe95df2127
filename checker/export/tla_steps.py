"""The steps of a system in TLA+: one action for each transition.

Theory of operation. A step commits a record and then does the work of the new state, piece by piece, and each piece
sees what was done before it. An action therefore gives every variable that it changes a new name in a LET, as often as
it changes, and reads the newest one; in the end the primed variables are the newest. What is not named stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from leasehold.checker.export.shared import ExportError, begins_below_zero, described, low_high, moving, wrapped
from leasehold.checker.export.tla_terms import TlaBindings, TlaNames, term, unbound
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Choice, Offer, Passage, Piece, Receive
from leasehold.spec.language.model import Channel, Datum, Drive, Fair, Message, Role, Transition


@dataclass(frozen=True, slots=True)
class TlaAction:
    """A named action.

    Attributes:
        text: its definition.
        witnesses: bound names and their sets, for all of which it is tried.
        call: how it is called.
        group: the name of the fair group that it belongs to, and the bound names that tell groups apart.
        took: the role, the machine and the event, as `took` asks for them; no role where no machine consumes one.
        strong: the group is strongly fair.
        ignored: the event is a message for which no transition is taken.
    """

    text: list[str]
    witnesses: list[tuple[str, str]]
    call: str
    group: tuple[str, tuple[str, ...]] | None
    took: tuple[str, str, str] = ("", "0", "")
    strong: bool = False
    ignored: bool = False

    def judged(self, ignored: bool) -> str:
        """Returns what says of the action that a claim about steps holds of it; with or without what it ignored."""
        role, instance, event = self.took
        more = f", {str(self.ignored).upper()}" if ignored else ""
        every = "".join(f"\\A {name} \\in {domain} : " for name, domain in self.witnesses)
        return f'{every}{self.call} => P("{role}", {instance}, "{event}"{more})'

    @property
    def words(self) -> str:
        return exists(self.witnesses) + self.call


def comment(text: str) -> list[str]:
    return wrapped(text, "\\* ", "\\* ")


def both(tests: Iterable[str]) -> str:
    return " /\\ ".join(tests)


def either(tests: Iterable[str]) -> str:
    return " \\/ ".join(tests)


def _condition(test: str) -> str:
    """A condition that is one condition: TLC takes an `or` within an action for several ways to take it."""
    return f"({test}) = TRUE" if "\\/" in test or "\\E" in test else test


def exists(witnesses: list[tuple[str, str]]) -> str:
    return "".join(f"\\E {name} \\in {domain} : " for name, domain in witnesses)


@dataclass
class Writing:
    """An action that is being written."""

    layout: TlaNames
    now: dict[str, str] = field(default_factory=dict)
    lets: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)  # of channels that are full; over what the LETs define

    def change(self, variable: str, value: str) -> None:
        word = f"{variable.capitalize()}_{sum(line.startswith(f'{variable.capitalize()}_') for line in self.lets) + 1}"
        self.lets.append(f"{word} == {value}")
        self.now[variable] = word


class TlaActions:
    """The actions of a system."""

    def __init__(self, layout: TlaNames) -> None:
        self.layout, self.system = layout, layout.system
        self.variables = [*self.system.holders, *self.system.channels]
        self.variables += ["clock"] if self.system.clock is not None else []
        for channel in self.system.channels.values():
            if channel.duplicate or channel.reorder or (channel.lose and channel.kind == "mailbox"):
                raise ExportError(
                    f"channel {channel.name} has faults that ask for the numbers of messages",
                    "set their budgets to 0, or export to Promela",
                    channel.place,
                )
            if isinstance(channel.lose, int) and channel.lose:
                raise ExportError(
                    f"channel {channel.name} loses a limited number of messages",
                    "set its budget to 0 or `any`",
                    channel.place,
                )

    # Transitions

    def driven(self) -> Iterator[list[str]]:
        """Yields what subsidiary machines do when they are driven: operators from record to record."""
        drives = [
            task for role in self.system.roles.values() for task in role.tasks.values() if isinstance(task, Drive)
        ]
        for role_name, event in dict.fromkeys((task.role, task.event) for task in drives):
            yield self._driven(self.system.roles[role_name], event)

    def _driven(self, role: Role, event: str) -> list[str]:
        fields = self.system.fields_of(role.name, event)
        name = self._word(("drive", role.name, event), f"{role.name}_{event}_driven")
        lines = [f"{name}({', '.join(['Me', 'Own', *(f'Arg_{f.name}' for f in fields)])}) =="]
        frame = TlaBindings(self.layout, role.name, "Me", "Own", arguments={f.name: f"Arg_{f.name}" for f in fields})
        word = "CASE"
        moves = self.layout.relation.moves.items()
        for choice in (c for (r, _, e), of_state in moves if (r, e) == (role.name, event) for c in of_state):
            tr = choice.transition
            if choice.work:
                raise ExportError(
                    f"{tr.name} is driven, and sends or drives in its turn", "let the parent do it", tr.place
                )
            if any(u.shared for u in tr.updates):
                reason = f"{tr.name} is driven, and changes a shared variable"
                raise ExportError(reason, "let the parent do it", tr.place)
            for e in (tr.guard, *(part for u in tr.updates for part in (u.value, u.key))):
                if x.mentions(e, lambda n: isinstance(n, x.Data | x.ControlState) and n.owner is not None):
                    raise ExportError(
                        f"{tr.name} is driven, and reads more than its record", "let it read its own", tr.place
                    )
            guard = [f'Own.state = "{tr.source}"'] + ([term(tr.guard, frame)] if tr.guard is not None else [])
            lines.append(f"  {word} {both(guard)} -> {self._record(role, tr, frame, 'Own')}")
            word = "  []"
        return [*lines, f"  {word} OTHER -> Own"]

    def _record(self, holder: Role, tr: Transition, f: TlaBindings, own: str) -> str:
        """The record of the machine, or that of the shared variables, after the updates of a transition."""
        sets = [] if tr.target == tr.source or not holder.states else [f'!.state = "{tr.target}"']
        for update in (u for u in tr.updates if u.holder(tr.role) == holder.name):
            kind = holder.data[update.name].type
            if update.key is None:
                sets.append(f"!.{update.name} = {term(update.value, f, kind)}")
            else:
                assert isinstance(kind, t.Map)
                sets.append(f"!.{update.name}[{term(update.key, f)}] = {term(update.value, f, kind.of)}")
        return f"[{own} EXCEPT {', '.join(sets)}]" if sets else own

    def _fire(self, w: Writing, role: Role, choice: Choice, f: TlaBindings) -> None:
        """A transition, within an action."""
        passed = {u.name: f"({term(u.value, f)})" for u in choice.passes}
        for holder in (role, *(h for h in self.system.holders.values() if not h.states)):
            own = f.machine(holder.name, f.me)
            record = self._record(holder, choice.transition, f, own)
            if record != own:
                word = f.read(holder.name)
                w.change(holder.name, f"[{word} EXCEPT ![{f.me}] = {record}]" if holder.indexed else record)
        for piece in choice.work:
            if piece.channel is not None:
                self._send(w, role, piece, piece.channel, f.me, passed)
            else:
                self._drive(w, role, piece, f.me)

    def _here(
        self, w: Writing, role: Role, me: str, it: str, passed: Mapping[str, str] = MappingProxyType({})
    ) -> TlaBindings:
        return TlaBindings(self.layout, role.name, me, arguments=passed, variables={"it": it}, now=dict(w.now))

    def _wanted(self, f: TlaBindings, piece: Piece) -> str:
        return both(term(e, f) for e in piece.conditions)

    def _send(self, w: Writing, role: Role, piece: Piece, channel: Channel, me: str, passed: Mapping[str, str]) -> None:
        receiver = piece.target
        by_sender, by_receiver = self.layout.pairs(channel)
        it = ("J[2]" if by_sender else "J") if by_receiver else me if channel.same_index and by_sender else "0"
        f = self._here(w, role, me, it, passed)
        word = f.read(channel.name)
        tests = [f"J[1] = {me}"] if by_sender and by_receiver else []
        if channel.same_index and by_sender and receiver.count < role.count:
            tests.append(f"{me} < {receiver.count}")
        tests += [wanted] if (wanted := self._wanted(f, piece)) else []
        if channel.capacity is not None:
            w.tests.append(self._room(w, role, piece, channel, me, passed))
        index = "[J]" if by_receiver else f"[{me}]" if by_sender else ""
        message = self._message(piece, f, me if self.layout.names_senders(channel) else "")
        value = f"{self._put(channel)}({word}{index}, {message})"
        value = f"IF {both(tests)} THEN {value} ELSE {word}{index}" if tests else value
        if by_receiver:
            value = f"[J \\in {self.layout.joints(channel)} |-> {value}]"
        elif by_sender:
            value = f"[{word} EXCEPT ![{me}] = {value}]"
        w.change(channel.name, value)

    def _room(self, w: Writing, role: Role, piece: Piece, channel: Channel, me: str, passed: Mapping[str, str]) -> str:
        """A step that would send into a full channel is not possible."""
        length = "BagCardinality" if channel.unordered else "Len"
        by_sender, by_receiver = self.layout.pairs(channel)
        it = "To" if by_receiver else me if channel.same_index and by_sender else "0"
        f = self._here(w, role, me, it, passed)
        test = f"{length}({f.read(channel.name)}{self.layout.joint(channel, me, 'To')}) < {channel.capacity}"
        test = f"({wanted}) => {test}" if (wanted := self._wanted(f, piece)) else test
        everyone = self.layout.members(piece.target.instance)
        return f"\\A To \\in {everyone} : {test}" if by_receiver else test

    def _put(self, channel: Channel) -> str:
        if channel.unordered:
            return "PutInBag"
        return {"mailbox": "PutInMailbox", "fifo": "Append", "queue": "Append", "set": "PutInSet"}[channel.kind]

    def _message(self, piece: Piece, f: TlaBindings, sender: str) -> str:
        message = self.system.messages[piece.event]
        fields = [f'kind |-> "{message.name}"', *([f"sender |-> {sender}"] if sender else [])]
        for d, e in zip(message.fields, piece.fields, strict=True):
            fields.append(f"{self.layout.label(message, d.name)} |-> {term(e, f, d.type)}")
        return f"[{', '.join(fields)}]"

    def _drive(self, w: Writing, role: Role, piece: Piece, me: str) -> None:
        driven = piece.target
        f = self._here(w, role, me, "It" if driven.indexed else "0")
        name = self._word(("drive", driven.name, piece.event), f"{driven.name}_{piece.event}_driven")
        fields = self.system.fields_of(driven.name, piece.event)
        given = [term(e, f, d.type) for e, d in zip(piece.fields, fields, strict=True)]
        word = f.read(driven.name)
        own = f"{word}[It]" if driven.indexed else word
        wanted = self._wanted(f, piece)
        value = f"{name}({', '.join(['It' if driven.indexed else '0', own, *given])})"
        value = f"IF {wanted} THEN {value} ELSE {own}" if wanted else value
        members = self.layout.members(driven.instance)
        w.change(driven.name, f"[It \\in {members} |-> {value}]" if driven.indexed else value)

    # Actions

    def all(self) -> Iterator[TlaAction]:
        for role in self.system.roles.values():
            for state in role.states:
                for offer in self.layout.relation.offers[role.name, state]:
                    for choice in offer.choices:
                        yield self._local(offer, role, choice)
        for receive in self.layout.relation.receives:
            yield from self._arrivals(receive)
        if self.layout.relation.passage is not None:
            yield self._clock(self.layout.relation.passage)

    def _about(self, tr: Transition, more: str) -> list[str]:
        return comment(described(tr, more))

    def _word(self, key: tuple[str, ...], wish: str) -> str:
        return self.layout.names.name(key, wish[0].upper() + wish[1:])

    def _name(self, tr: Transition, more: str = "") -> str:
        number = f"_{tr.position + 1}" if tr.position else ""
        return self._word(("action", tr.name, more), f"{tr.role}_{tr.source}_{tr.event}{number}" + more)

    def _bound(self, role: Role) -> list[tuple[str, str]]:
        return [("Me", self.layout.members(role.instance))] if role.indexed else []

    def _define(
        self,
        name: str,
        about: list[str],
        witnesses: list[tuple[str, str]],
        tests: list[str],
        w: Writing,
        group: tuple[str, tuple[str, ...]] | None,
        took: tuple[str, str, str] = ("", "0", ""),
        strong: bool = False,
        ignored: bool = False,
    ) -> TlaAction:
        call = name + (f"({', '.join(n for n, _ in witnesses)})" if witnesses else "")
        lines = [*about, f"{call} ==", *(f"  /\\ {_condition(test)}" for test in tests)]
        after = [f"{self.layout.variable(v)}' = {w.now[v]}" for v in self.variables if v in w.now]
        same = [self.layout.variable(v) for v in self.variables if v not in w.now]
        after += [f"UNCHANGED <<{', '.join(same)}>>"] if same else []
        if w.lets:
            first, *rest = w.lets
            lines += [f"  /\\ LET {first}", *(f"         {line}" for line in rest)]
            lines += [f"     {'IN ' if n == 0 else '   '}/\\ {line}" for n, line in enumerate([*w.tests, *after])]
        else:
            lines += [f"  /\\ {line}" for line in [*w.tests, *after]]
        return TlaAction(lines, witnesses, call, group, took, strong, ignored)

    def _state_and_guard(self, role: Role, tr: Transition, f: TlaBindings) -> list[str]:
        tests = [f'{f.machine(role.name, f.me)}.state = "{tr.source}"']
        return tests + ([term(tr.guard, f)] if tr.guard is not None else [])

    def _local(self, offer: Offer, role: Role, choice: Choice) -> TlaAction:
        tr, fields = choice.transition, offer.fields
        me = "Me" if role.indexed else "0"
        f = TlaBindings(self.layout, role.name, me, arguments={d.name: f"Arg_{d.name}" for d in fields})
        witnesses = self._bound(role) + [(f"Arg_{d.name}", self.domain(d)) for d in fields]
        tests = self._state_and_guard(role, tr, f) + [term(e, f) for e in offer.conditions]
        if offer.outside:
            outside = TlaBindings(self.layout, arguments=f.arguments, variables={"it": me})
            tests.append("(" + either(term(e, outside) for e in offer.outside) + ")")
        w = Writing(self.layout)
        self._fire(w, role, choice, f)
        cause, answers = offer.name or offer.event, "answers " if offer.cause == "answer" else ""
        several = sum(o.event == offer.event for o in self.layout.relation.offers[role.name, tr.source]) > 1
        about = self._about(tr, f" ({answers}{cause})" if cause != offer.event else "")
        group = (f"{role.name} {cause}", self._told_apart(offer)) if offer.fair else None
        return self._define(
            self._name(tr, f"_{cause}" if several else ""),
            about,
            witnesses,
            tests,
            w,
            group,
            (role.name, me, offer.event),
            offer.fair is Fair.STRONG,
        )

    def _told_apart(self, offer: Offer) -> tuple[str, ...]:
        """The bound names that tell groups of fairness apart."""
        fields = [d for d in offer.fields if d.name in offer.fair_for_each]
        for d in fields:
            if moving(d):
                reason = f"`{offer.name}` is fair for each `{d.name}`, of which the values to try depend on the clock"
                raise ExportError(reason, "give it an `explore` without `now`", d.place)
        return (*(["Me"] if offer.role.indexed else []), *(f"Arg_{d.name}" for d in fields))

    def domain(self, d: Datum) -> str:
        """The values to try of an event's field, or of a field that begins with any value."""
        if d.explore is None and isinstance(number := t.number_of(d.type), t.Int):
            numbers = t.numbers(number, None)
            tried = f"({numbers[0]}..{numbers[-1]})"
            return tried if number == d.type else self.values(d.type, tried)
        frame = TlaBindings(self.layout)
        ends = [term(e, frame) for e in d.explore] if d.explore is not None else ["0", "0"]
        tried = f"({ends[0]}..{ends[1]})"
        if isinstance(t.number_of(d.type), t.Time) and begins_below_zero(self.system, d):
            tried = f"{{N \\in {tried} : 0 <= N}}"
        return self.values(d.type, tried)

    def values(self, kind: t.Type, numbers: str = "") -> str:
        """The set of a type's values; the numbers among them are some of these, or those of its bounds."""
        match kind:
            case t.Int(low=low, high=high) if not numbers:
                return f"({low}..{high})"
            case t.Bool():
                return "BOOLEAN"
            case t.Enum() | t.Instance():
                return self.layout.members(kind)
            case t.Set(of=of) if of is not None:
                return f"(SUBSET {self.layout.members(of)})"
            case t.Map(key=key, of=of):
                return f"[{self.layout.members(key)} -> {self.values(of, numbers)}]"
            case t.Option(of=of) if of is not None:
                return f"({{{{}}}} \\union {{{{V}} : V \\in {self.values(of, numbers)}}})"
            case t.Seq(of=of, most=most) if of is not None:
                values = self.values(of, numbers)
                length = unbound("N", values)
                return f"(UNION {{[1..{length} -> {values}] : {length} \\in 0..{most}}})"
        low, high = low_high(kind) or (None, None)
        tests = [f"{low} <= N"] * (low is not None) + [f"N <= {high}"] * (high is not None)
        return f"{{N \\in {numbers} : {both(tests)}}}" if tests else numbers

    def _clock(self, passage: Passage) -> TlaAction:
        f = TlaBindings(self.layout)
        due = []
        for offer in passage.unless:
            here = TlaBindings(self.layout, offer.role.name, "Me" if offer.role.indexed else "0")
            tests = [both(self._state_and_guard(offer.role, c.transition, here)) for c in offer.choices]
            due += [exists(self._bound(offer.role)) + f"({test})" for test in tests]
        w = Writing(self.layout, {"clock": f"{f.read('clock')} + 1"})
        tests = [f"{f.read('clock')} < {passage.clock.horizon}", *(f"~({d})" for d in due)]
        about = comment("The clock ticks, unless it has to wait for a timer.")
        return self._define(self._word(("clock",), "Clock_ticks"), about, [], tests, w, ("clock", ()))

    # Messages

    def _arrivals(self, receive: Receive) -> Iterator[TlaAction]:
        channel = receive.channel
        for m in receive.messages:
            choices = [c for (name, _), of_state in receive.choices.items() if name == m.name for c in of_state]
            ways = choices if receive.waits else [*choices, None]
            yield from (self._received(channel, m, choices, choice) for choice in ways)
        if channel.lose and receive.consumes:
            yield self._loss(channel)

    def _ends(self, channel: Channel) -> tuple[list[tuple[str, str]], str, str]:
        """The bound names of a joint's machines, and how they are written."""
        by_sender, by_receiver = self.layout.pairs(channel)
        sender, receiver = self.system.roles[channel.sender], self.system.roles[channel.receiver]
        if channel.same_index:
            both = min(sender.count, receiver.count)
            return ([("Me", f"(0..{both - 1})")], "Me", "Me") if by_sender else ([], "0", "0")
        by_name = by_sender or self.layout.names_senders(channel)
        names = [("From", self.layout.members(sender.instance))] if by_name else []
        names += [("Me", self.layout.members(receiver.instance))] if by_receiver else []
        return names, "From" if by_name else "0", "Me" if by_receiver else "0"

    def _remove(self, w: Writing, channel: Channel, ends: tuple[str, str], rest: str) -> None:
        """The joint of two machines has other content; `{}` stands for what it had."""
        index, word = self.layout.joint(channel, *ends), self.layout.variable(channel.name)
        rest = rest.format(f"{word}{index}")
        w.change(channel.name, f"[{word} EXCEPT !{index} = {rest}]" if index else rest)

    def _received(self, channel: Channel, m: Message, choices: list[Choice], choice: Choice | None) -> TlaAction:
        """A transition that a message is for; or, where no transition takes it, its consumption all the same."""
        role = self.system.roles[channel.receiver]
        names, sender, me = self._ends(channel)
        joint = f"{self.layout.variable(channel.name)}{self.layout.joint(channel, sender, me)}"
        content = f"BagToSet({joint})" if channel.unordered else joint
        bound = [("Msg", content)] if channel.unordered or channel.kind == "set" else []
        word = "Msg" if bound else f"Head({joint})"
        arguments = {d.name: f"{word}.{self.layout.label(m, d.name)}" for d in m.fields}
        f = TlaBindings(self.layout, role.name, me, sender=sender, arguments=arguments)
        tests = [*([] if bound else [f"{joint} /= <<>>"]), f'{word}.kind = "{m.name}"']
        tests += [f"{word}.sender = {sender}"] if self.layout.names_senders(channel) else []
        w = Writing(self.layout)
        if channel.kind != "set":
            self._remove(w, channel, (sender, me), "RemoveFromBag({}, Msg)" if channel.unordered else "Tail({})")
        if choice is not None:
            tests += self._state_and_guard(role, choice.transition, f)
            self._fire(w, role, choice, replace(f, now=dict(w.now)))
            name, about = self._name(choice.transition), self._about(choice.transition, "")
        else:
            taken = ["(" + both(self._state_and_guard(role, c.transition, f)) + ")" for c in choices]
            tests += [f"~({either(taken)})"] if taken else []
            name = self._word(("ignored", m.name), f"{role.name}_drops_{m.name}")
            about = comment(f"{m.name} is ignored or refused. {m.doc}")
        group = (f"deliver {channel.name}", tuple(n for n, _ in names))
        took = (role.name, me, m.name)
        return self._define(name, about, [*names, *bound], tests, w, group, took, ignored=choice is None)

    def _loss(self, channel: Channel) -> TlaAction:
        names, sender, me = self._ends(channel)
        joint = f"{self.layout.variable(channel.name)}{self.layout.joint(channel, sender, me)}"
        witness, rest = ("I", f"(1..Len({joint}))"), "Without({}, {{I}})"
        if channel.unordered:
            witness, rest = ("Msg", f"BagToSet({joint})"), "RemoveFromBag({}, Msg)"
        if self.layout.names_senders(channel):  # whoever has sent it
            names = [(name, of) for name, of in names if name != sender]
        w = Writing(self.layout)
        self._remove(w, channel, (sender, me), rest)
        name = self._word(("loss", channel.name), f"{channel.name}_loses")
        return self._define(name, comment(f"{channel.name} loses a message."), [*names, witness], [], w, None)
