"""Second pass, the first part: fields of data, events and messages to their parts of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language.declare import Declarations, Declarer, doc_of, text_of, type_node
from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.evaluate import Context, NoState, evaluate
from leasehold.spec.language.files import SpecFiles, as_mapping, entries
from leasehold.spec.language.names import DeclaredNames, Scope
from leasehold.spec.language.parse import parse
from leasehold.spec.language.parse_type import parse_type
from leasehold.spec.language.source import YamlNode
from leasehold.spec.language.types import (
    INT,
    TIME,
    Enum,
    Instance,
    Int,
    Map,
    Opaque,
    Option,
    Time,
    Type,
    UnknownType,
    default,
    in_range,
    number_of,
)


class FieldBuilder:
    """Runs the second pass over fields; errors go to the sink, and wrong declarations are left out of the model."""

    def __init__(self, files: SpecFiles, declarer: Declarer, declared: Declarations, sink: Sink) -> None:
        self.files, self.declarer, self.declared, self.sink = files, declarer, declared, sink
        self.names = declared.names
        self.timed = "clock" in files.single
        self.reasons: dict[tuple[str, str, str], Place] = {}  # role, state, event: where an ignore or refuse stands
        self.small: dict[str, Enum | Instance] = {
            **self.names.types, **{n: r.instance for n, r in self.names.roles.items()},
        }  # fmt: skip

    # Fields

    def data(self, node: YamlNode | None) -> dict[str, m.Datum]:
        """The data of a record."""
        return self._data(as_mapping(node).pairs())

    def fields(self, node: YamlNode | None) -> dict[str, m.Datum]:
        """The fields of an event or a message; the values to try may be given for the cells of a map, too."""
        return {name: self._datum(name, place, decl, comes=True) for name, place, decl in as_mapping(node).pairs()}

    def shared(self) -> dict[str, m.Datum]:
        """The variables that all machines read and write."""
        return self._data(entries(self.files.sections["shared"]))

    def _data(self, declared: Iterable[tuple[str, Place, YamlNode]]) -> dict[str, m.Datum]:
        return {name: self._datum(name, place, decl) for name, place, decl in declared}

    def _datum(self, name: str, place: Place, decl: YamlNode, *, comes: bool = False) -> m.Datum:
        kind = parse_type(type_node(decl), self.small, self.sink)
        if decl.kind == "text":
            return m.Datum(name, kind, None, default(kind), place=place)
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
        if first is None:
            return m.Datum(name, kind, explore, default(kind), doc=doc_of(decl), place=place)
        if first.text == "any":
            return m.Datum(name, kind, explore, default(kind), True, doc_of(decl), place)
        wanted = kind.of if isinstance(kind, Map) else kind
        value = self.declarer.constant(first, wanted, bounds=True)
        if value is not None and not in_range(wanted, value):
            self.sink.error("first_outside", first.place, name=name, value=value)
        value = default(wanted) if value is None and not isinstance(wanted, UnknownType) else value
        if isinstance(kind, Map):
            value = (value,) * len(kind.key.members if isinstance(kind.key, Enum) else range(kind.key.count))
        return m.Datum(name, kind, explore, value, doc=doc_of(decl), place=place)

    def _explore(
        self, name: str, kind: Type, node: YamlNode | None, *, cells: bool
    ) -> tuple[x.Expression, x.Expression] | None:
        if node is None:
            return None
        ends = list(node)
        of: Type | None = kind.of if cells and isinstance(kind, Map) else kind
        of = of.of if isinstance(of, Option) else of
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
        found = {}
        for name, place, decl in as_mapping(node).pairs():
            if decl.kind == "text":
                found[name] = m.Event(name, (), " ".join(decl.text.split()), place)
            else:
                found[name] = m.Event(name, tuple(self.fields(decl.get("fields")).values()), doc_of(decl), place)
        return found

    def messages(self) -> dict[str, m.Message]:
        found = {}
        for name, place, node in entries(self.files.messages):
            sender = self._role(node.get("from"))
            receiver = self._role(node.get("to"))
            fields = self.fields(node.get("fields"))
            if not fields.keys().isdisjoint(("number", "kind", "latest", "sender")):
                self.sink.error("message_field_name", place, name=name)
            if sender and receiver:
                found[name] = m.Message(
                    name,
                    sender,
                    receiver,
                    tuple(fields.values()),
                    self._carried(node),
                    text_of(node, "answer") == "true",
                    doc_of(node),
                    place,
                )
        return found

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


def bounded(kind: Type, ends: Int) -> Type:
    """The type with these bounds of its numbers."""
    return replace(kind, of=bounded(kind.of, ends)) if isinstance(kind, Option | Map) and kind.of is not None else ends


def constant_value(e: x.Expression, values: Mapping[str, Any], now: int = 0) -> Any:
    """The value of an expression over constants and the clock."""
    return evaluate(e, Context(NoState(now), values))
