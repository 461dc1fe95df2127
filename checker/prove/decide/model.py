"""States read out of a model that the solver has found, value by value, as the explorer has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import z3

from leasehold.checker.prove.encode.encoding import Encoding
from leasehold.checker.prove.encode.formulas import Term
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.values import MapValue, OptionValue, SetValue
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Channel, System, machine_name
from leasehold.spec.language.render.sequences import SequenceValue

MOST_NUMBERS = 12  # of one lane, that are read
Machine = tuple[str, int]  # role and instance


class _Unread:
    """A value that a model does not tell."""

    def __repr__(self) -> str:
        return "?"


UNREAD = _Unread()


@dataclass(frozen=True)
class ModelState:
    """A state of the solver's model.

    Attributes:
        control: control state by role and instance.
        data: values as the explorer has them, by role, instance and name; what could not be read is missing.
        down: machines whose actors are down.
        now: the clock; None where the system has none.
        messages: those on their way, in words, by channel and its ends.
    """

    control: Mapping[Machine, str]
    data: Mapping[tuple[str, int, str], t.Value]
    down: frozenset[Machine] = frozenset()
    now: int | None = None
    messages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lines(self, system: System) -> Iterator[str]:
        """A line for each machine, for the shared variables, and for each channel that is not empty."""
        for role, i in system.records():
            values = [
                f"{d.name} = {_shown(d.type, self.data[role.name, i, d.name])}"
                for d in role.data.values()
                if (role.name, i, d.name) in self.data
            ]
            state = [self.control[role.name, i]] if role.states else []
            parts = [*state, *values, *(["down"] if (role.name, i) in self.down else [])]
            yield f"{machine_name(role, i)}: {', '.join(parts)}"
        if self.now is not None:
            yield f"now: {self.now}"
        for where, messages in self.messages.items():
            yield f"{where}: {', '.join(messages)}"


class ModelReader:
    """Reads states out of a model."""

    def __init__(self, encoding: Encoding, model: Any) -> None:
        self.encoding, self.model = encoding, model
        self.system, self.schema = encoding.system, encoding.schema

    def state(self, s: SymbolicState) -> ModelState:
        control, data, down = {}, {}, set()
        for role, i in self.system.records():
            at = z3.IntVal(i)
            for datum in role.data.values():
                value = self.value(datum.type, s.data(role.name, at, datum.name))
                if value is not UNREAD:
                    data[role.name, i, datum.name] = value
        for role, i in self.system.machines():
            at = z3.IntVal(i)
            control[role.name, i] = str(self.value(role.control, s.control(role.name, at)))
            if not self.holds(s.running(role.name, at)):
                down.add((role.name, i))
        now = self.number(s.now) if self.system.clock is not None else None
        return ModelState(control, data, frozenset(down), now, self.messages(s))

    def holds(self, term: Term) -> bool:
        return bool(z3.is_true(self.model.eval(term, model_completion=True)))

    def number(self, term: Term) -> int | None:
        value = self.model.eval(term, model_completion=True)
        return value.as_long() if z3.is_int_value(value) else None

    def value(self, type_: t.Type, term: Any) -> t.Value:
        """A value as the explorer has it; UNREAD where the model does not say."""
        member = self.encoding.sorts.member
        match type_, term:
            case t.Bool(), _:
                return self.holds(term)
            case t.Enum(members=members), _:
                return next((m for m in members if self.holds(term == member(type_, m))), UNREAD)
            case ((t.Int() | t.Time() | t.Opaque() | t.Instance()), _):
                number = self.number(term)
                return UNREAD if number is None else number
            case t.Set(of=of), SetValue() if of is not None:
                return frozenset(m for m in t.members(of) if self.holds(term.holds(member(of, m))))
            case t.Map(key=key, of=of), MapValue():
                cells = tuple(self.value(of, term.at(member(key, k))) for k in t.members(key))
                return UNREAD if UNREAD in cells else cells
            case t.Option(of=of), OptionValue() if of is not None and term.value is not None:
                return self.value(of, term.value) if self.holds(term.some) else None
            case t.Seq(of=of, most=most), SequenceValue() if of is not None:
                length = self.value(t.Int(0, most), term.length)
                if length is UNREAD:
                    return UNREAD
                items = tuple(self.value(of, term.at(z3.IntVal(place))) for place in range(length))
                return UNREAD if UNREAD in items else items
        return UNREAD

    def messages(self, s: SymbolicState) -> dict[str, tuple[str, ...]]:
        """The messages on their way, in words, by channel and its ends."""
        messages = {}
        for channel in self.system.channels.values():
            sender, receiver = (self.system.roles[name] for name in (channel.sender, channel.receiver))
            for i, j in product(range(sender.count), range(receiver.count)):
                ends = self.schema.between(channel, z3.IntVal(i), z3.IntVal(j))
                shown = () if channel.same_index and i != j else tuple(self._between(s, channel, ends))
                if shown:
                    messages[f"{channel.name} ({machine_name(sender, i)} to {machine_name(receiver, j)})"] = shown
        return messages

    def _between(self, s: SymbolicState, channel: Channel, ends: tuple[Term, ...]) -> Iterator[str]:
        """Messages by their numbers; those above the last received are new. In a set, those of small types alone."""
        for kinds, types in self.schema.places(channel, self.schema.messages(channel)):
            for at in product(*(self._tried(s, channel, ends, of) for of in types[len(ends) :])):
                there, message = s.message_at(channel, kinds, (*ends, *at))
                for kind in kinds if self.holds(there) else ():
                    if self.holds(message.is_kind(kind.name)):
                        fields = ((f, self.value(f.type, message.field(kind.name, f.name))) for f in kind.fields)
                        arguments = ", ".join(f"{f.name}={_shown(f.type, v)}" for f, v in fields)
                        place = f"{self._place(s, channel, ends, at[0])}. " if channel.kind == "queue" else ""
                        yield f"{place}{kind.name}({arguments})" + (
                            " again" if self.number(message.number) == 0 else ""
                        )

    def _place(self, s: SymbolicState, channel: Channel, ends: tuple[Term, ...], number: Term) -> int:
        """The place of a message in the line of a queue."""
        receiver = self.schema.receiver(channel, ends)
        senders = range(self.system.roles[channel.sender].count)
        lanes = [self.schema.between(channel, z3.IntVal(i), receiver) for i in senders]
        before = range(self.number(s.received(channel, ends)) or 0, self.number(number) or 0)
        return 1 + sum(self.holds(s.pending(channel, lane, z3.IntVal(n))) for lane in lanes for n in before)

    def _tried(self, s: SymbolicState, channel: Channel, ends: tuple[Term, ...], of: t.Type) -> Sequence[Term]:
        """The numbers, or the values of a field, of messages that are looked for."""
        if channel.kind == "set":
            small = t.members(of) if isinstance(of, t.Enum | t.Instance) else ()
            return [self.encoding.sorts.literal(of, v) for v in small]
        received, sent = self.number(s.received(channel, ends)), self.number(s.sent(channel, ends))
        if received is None or sent is None:
            return []
        return [z3.IntVal(n) for n in range(received, min(sent, received + MOST_NUMBERS) + 1)]


def _shown(type_: t.Type, value: t.Value) -> str:
    return "?" if value is UNREAD else t.show(type_, value)
