"""Second pass, after the system: the abstract system that it refines, and the mapping to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language.declare.build_claims import ClaimBuilder
from leasehold.spec.language.declare.declare import doc_of, text_of
from leasehold.spec.language.diagnostics import Place, Sink, SpecError
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.types import Enum, Instance, Int, Map, Option, Seq, Set, Type, UnknownType
from leasehold.spec.language.typing.names import Scope
from leasehold.spec.language.typing.parse import parse

Load = Callable[[Path, Mapping[str, str]], m.System]


def refinement(builder: ClaimBuilder, system: m.System, folder: Path, load: Load) -> m.Refinement | None:
    """Returns what `refines` in system.yaml says; None where it says nothing, or something wrong (which is reported).

    Args:
        builder: of the system, whose names the mapping reads.
        system: the typed one.
        folder: of system.yaml.
        load: loads the abstract system, with settings.
    """
    node = builder.files.single.get("refines")
    if node is None:
        return None
    settings: dict[str, str] = {}
    for name, _, value in node.pairs_of("set"):
        constant = builder.declarer.constant(value, reader="exploring")
        if constant is not None:
            settings[name] = str(constant).lower() if isinstance(constant, bool) else str(constant)
    try:
        abstract = load(folder / text_of(node, "system"), settings)
    except SpecError as error:
        for diagnostic in error.diagnostics:
            builder.sink.add(diagnostic)
        return None
    return _Mapping(builder, system, abstract, node).read()


class _Mapping:
    def __init__(self, builder: ClaimBuilder, system: m.System, abstract: m.System, node: YamlNode) -> None:
        self.builder, self.sink, self.abstract, self.node = builder, builder.sink, abstract, node
        self.named = {name: value.text for name, _, value in node.pairs_of("machines")}
        self.instances = {of.name: of for of in system.counted()}

    def read(self) -> m.Refinement | None:
        place, name = self.node.place, self.abstract.name
        for part, there in (("messages", self.abstract.channels), ("a clock", self.abstract.clock)):
            if there:
                self.sink.error("refined_has_more", place, name=name, what=part)
                return None
        variables = {
            f"{role.name}.{field}": (role, None if field == "state" else field)
            for role in self.abstract.holders.values()
            for field in (*(["state"] if role.states else []), *role.data)
        }
        values: dict[tuple[str, str | None], x.Expression] = {}
        for key, at, value in self.node.pairs_of("map"):
            if key not in variables:
                self.sink.unknown("refined_unknown", at, key, variables, name=name)
                continue
            role, field = variables[key]
            kind = role.control if field is None else role.data[field].type
            scope = self._scope(role, at)
            if scope is not None:
                values[role.name, field] = self._value(key, value, scope, kind)
        missing = [key for key in variables if self.node.get("map") is not None and not self._mapped(key)]
        if missing:
            self.sink.error("refined_missing", place, name=name, missing=missing)
        return m.Refinement(self.abstract, values, doc_of(self.node), place)

    def _mapped(self, key: str) -> bool:
        return any(name == key for name, _, _ in self.node.pairs_of("map"))

    def _scope(self, role: m.Role, place: Place) -> Scope | None:
        """The scope of the mapping of a role's machines, of which each is `it`'s partner."""
        if not role.indexed:
            return self.builder.world
        here = self.instances.get(self.named.get(role.name, role.name))
        if here is None or here.count != role.count:
            near = [of.name for of in self.instances.values() if of.count == role.count]
            name, count = self.abstract.name, role.count
            self.sink.error("refined_machines", place, role=role.name, name=name, count=count, known=near)
            return None
        return self.builder.world.bind(it=here)

    def _value(self, key: str, node: YamlNode, scope: Scope, kind: Type) -> x.Expression:
        """The expression for a variable: of its type, or of one whose values are values of it."""
        hinted, plain = Sink(), Sink()
        expression = parse(node, scope, hinted, kind)
        if not hinted.errors:
            return expression
        value = parse(node, scope, plain)
        if not plain.errors and self._fits(kind, value.type):
            return value
        if plain.errors:
            return parse(node, scope, self.sink, kind)
        self.sink.error("refined_type", node.place, key=key, kind=kind, found=value.type)
        return value

    def _fits(self, kind: Type, own: Type | None) -> bool:
        """Returns whether values of a type of this system are values of one of the abstract system."""
        match kind, own:
            case (_, None | UnknownType()) | (Int(), Int()):
                return True
            case Enum(members=members), Enum(members=others):
                return set(others) <= set(members)
            case Instance(name=name, count=count), Instance(name=other, count=number):
                return count == number and self.named.get(name, name) == other
            case Seq(of=one, most=most), Seq(of=other, most=least):
                return least <= most and (one is None or self._fits(one, other))
            case (Set(of=one), Set(of=other)) | (Option(of=one), Option(of=other)):
                return one is None or self._fits(one, other)
            case Map(key=key, of=one), Map(key=own_key, of=other):
                alike = not isinstance(key, Enum) or key.members == getattr(own_key, "members", None)
                return alike and self._fits(key, own_key) and self._fits(one, other)
        return kind == own
