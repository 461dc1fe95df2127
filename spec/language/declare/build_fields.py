"""Second pass, the first part: fields of data, events and messages to their parts of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language.declare.declare import Declarations, Declarer, doc_of, text_of, type_node
from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.others import first_rest
from leasehold.spec.language.read.files import SpecFiles, as_mapping, entries
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.render.evaluate import Context, NoState, evaluate
from leasehold.spec.language.types import (
    INT,
    TIME,
    Enum,
    Instance,
    Int,
    Map,
    Opaque,
    Option,
    Seq,
    Time,
    Type,
    UnknownType,
    Value,
    default,
    in_range,
    members,
    number_of,
    over_members,
    with_rest,
)
from leasehold.spec.language.typing.names import DeclaredNames, Scope
from leasehold.spec.language.typing.parse import parse
from leasehold.spec.language.typing.parse_type import parse_type

# First states and first values of a machine may depend on its number, and constants.
READ_AT_FIRST = (x.Literal_, x.ConstantRef, x.Self, x.BoundVariable, x.InstanceAt, x.Apply, x.Quantifier)


class FieldBuilder:
    """Runs the second pass over fields; errors go to the sink, and wrong declarations are left out of the model."""

    def __init__(self, files: SpecFiles, declarer: Declarer, declared: Declarations, sink: Sink) -> None:
        self.files, self.declarer, self.declared, self.sink = files, declarer, declared, sink
        self.names = declared.names
        self.timed = "clock" in files.single
        self.reasons: dict[tuple[str, str, str], Place] = {}  # role, state, event: where an ignore or refuse stands
        self.small: dict[str, Enum | Instance] = {
            **self.names.types,
            **{n: r.instance for n, r in self.names.roles.items()},
        }

    # Fields

    def data(self, role: str, node: YamlNode | None) -> dict[str, m.Datum]:
        """The data of a role's records."""
        return self._data(as_mapping(node).pairs(), role)

    def fields(self, node: YamlNode | None) -> dict[str, m.Datum]:
        """The fields of an event or a message; the values to try may be given for the cells of a map, too."""
        return {name: self._datum(name, place, decl, comes=True) for name, place, decl in as_mapping(node).pairs()}

    def shared(self) -> dict[str, m.Datum]:
        """The variables that all machines read and write."""
        return self._data(entries(self.files.sections["shared"]))

    def _data(self, declared: Iterable[tuple[str, Place, YamlNode]], role: str | None = None) -> dict[str, m.Datum]:
        return {name: self._datum(name, place, decl, role) for name, place, decl in declared}

    def _datum(
        self, name: str, place: Place, decl: YamlNode, role: str | None = None, *, comes: bool = False
    ) -> m.Datum:
        kind = parse_type(type_node(decl), self.small, self.sink, self.declarer.number_of)
        if decl.kind == "text":
            return m.Datum(name, with_rest(kind), None, default(kind), place=place)
        low, high = decl.get("min"), decl.get("max")
        if isinstance(number_of(kind), Int):
            ends = Int(*(self.declarer.constant(end, bounds=True) if end else None for end in (low, high)))
            if low is not None and ends.low is not None and ends.high is not None and ends.low > ends.high:
                self.sink.error("no_values", low.place, name=name, low=ends.low, high=ends.high)
            kind = bounded(kind, ends)
        elif low is not None or high is not None:
            self.sink.error("bounds_of_no_int", (low or high or decl).place, name=name, kind=kind)
        explore = self._explore(name, kind, decl.get("explore"), cells=comes)
        first = decl.get("initial")
        why = " ".join(text_of(decl, "unbounded").split())
        if first is None:
            return m.Datum(name, with_rest(kind), explore, default(kind), doc=doc_of(decl), place=place, unbounded=why)
        if first.text == "any":
            return m.Datum(name, kind, explore, default(kind), True, doc_of(decl), place, unbounded=why)
        begin, begins_as = self._first(name, kind, first, role)
        alike = all(value == begin[0] for value in begin)
        if isinstance(kind, Map) and over_members(kind):
            kind = replace(kind, rest=first_rest(begins_as, begin[0][0], self.declared.values()))
        return m.Datum(
            name,
            kind,
            explore,
            begin[0],
            doc=doc_of(decl),
            place=place,
            begin=() if alike else begin,
            begins_as=begins_as,
            unbounded=why,
        )

    def _first(
        self, name: str, kind: Type, node: YamlNode, role: str | None
    ) -> tuple[tuple[Value, ...], x.Expression | None]:
        """The first value of each machine, and what it is said to be, where the number of machines may matter."""
        roles = {n: replace(r, data={}, definitions={}, states=Enum("", ())) for n, r in self.names.roles.items()}
        scope = Scope(DeclaredNames(self.names.constants, self.names.types, roles, {}, {}), role, clock=False)
        wanted = kind.of if isinstance(kind, Map) and not self._is_whole_map(kind, node, scope) else kind
        before = len(self.sink.errors)
        e = parse(node, scope, self.sink, wanted)
        if len(self.sink.errors) == before and x.mentions(e, lambda part: not isinstance(part, READ_AT_FIRST)):
            self.sink.error("first_reads", node.place, name=name)
        machines = self.names.roles[role].instance.count if role is not None else 1
        values: tuple[Value, ...] = (None,) * machines
        depends = False
        if len(self.sink.errors) == before:
            depends = x.mentions(e, _depends_on_numbers)
            values = self.declarer.worked_out(e, machines, bounds=not depends)
            outside = [v for v in values if v is not None and not in_range(wanted, v)]
            if outside:
                self.sink.error("first_outside", node.place, name=name, value=outside[0])
        if len(self.sink.errors) > before:
            values = (None if isinstance(wanted, UnknownType) else default(wanted),) * machines
        if wanted is not kind:
            assert isinstance(kind, Map)
            values = tuple((value,) * len(members(kind.key)) for value in values)
        return values, e if depends else None

    def _is_whole_map(self, kind: Map, node: YamlNode, scope: Scope) -> bool:
        """Returns whether a first value is that of the map, and not that of each of its cells."""
        probe = Sink()
        return isinstance(parse(node, scope, probe, kind).type, Map) and not probe.errors

    def _explore(
        self, name: str, kind: Type, node: YamlNode | None, *, cells: bool
    ) -> tuple[x.Expression, x.Expression] | None:
        if node is None:
            return None
        ends = list(node)
        of = number_of(kind) if cells else kind.of if isinstance(kind, Option) else kind
        if not isinstance(of, Int | Time | Opaque | UnknownType):
            self.sink.error("explore_no_number", node.place, name=name, kind=kind)
            return None
        if len(ends) != 2:
            self.sink.error("explore_ends", node.place, name=name, count=len(ends))
            return None
        names = DeclaredNames(self.names.constants, self.names.types, {}, {}, {})
        scope = Scope(names, clock=self.timed)
        want = TIME if isinstance(of, Time) else INT
        return parse(ends[0], scope, self.sink, want), parse(ends[1], scope, self.sink, want)

    def events(self, node: YamlNode | None) -> dict[str, m.Event]:
        events = {}
        for name, place, decl in as_mapping(node).pairs():
            if decl.kind == "text":
                events[name] = m.Event(name, (), " ".join(decl.text.split()), place)
            else:
                events[name] = m.Event(name, tuple(self.fields(decl.get("fields")).values()), doc_of(decl), place)
        return events

    def messages(self) -> dict[str, m.Message]:
        messages = {}
        for name, place, node in entries(self.files.messages):
            sender = self._role(node.get("from"))
            receiver = self._role(node.get("to"))
            fields = self.fields(node.get("fields"))
            for word, field in fields.items():
                if word in x.OF_MESSAGES:
                    self.sink.error("message_field_name", field.place, name=name, word=word)
            if sender and receiver:
                messages[name] = m.Message(
                    name,
                    sender,
                    receiver,
                    tuple(fields.values()),
                    self._carried(node),
                    text_of(node, "answer") == "true",
                    doc_of(node),
                    place,
                )
        return messages

    def _carried(self, node: YamlNode) -> str | None:
        """The message that another shows: one that its sender receives."""
        carried = node.get("carries")
        if carried is None:
            return None
        shown = [
            name for name, _, other in entries(self.files.messages) if text_of(other, "to") == text_of(node, "from")
        ]
        if carried.text not in shown:
            self.sink.unknown("unknown_carried", carried.place, carried.text, shown, sender=text_of(node, "from"))
            return None
        return carried.text

    def _role(self, node: YamlNode | None) -> str | None:
        name = node.text if node is not None else ""
        if node is not None and name not in self.names.roles:
            self.sink.unknown("unknown_role", node.place, name, self.names.roles)
        return name if name in self.names.roles else None


def _depends_on_numbers(part: x.Expression) -> bool:
    """Returns whether a part of a first value may be another one for another machine, or with more machines."""
    return isinstance(part, x.Self | x.InstanceAt | x.Quantifier) or x.holds_all_members(part)


def bounded(kind: Type, ends: Int) -> Type:
    """The type with these bounds of its numbers."""
    match kind:
        case Option(of=of) | Map(of=of) | Seq(of=of) if of is not None:
            return replace(kind, of=bounded(of, ends))
    return ends


def constant_value(e: x.Expression, values: Mapping[str, Any], now: int = 0) -> Any:
    """The value of an expression over constants and the clock."""
    return evaluate(e, Context(NoState(now), values))
