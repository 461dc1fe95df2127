"""Typing an expression: reporting, names and fields.

The tree that Python's parser made is taken apart node by node; each kind of node has a method named for it, and what
has none is not part of the language. Names are resolved by type: in `state in {active, closing}` the members of the set
are states because the left side is a state.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, get_args

from leasehold.spec.language import expression as x
from leasehold.spec.language import operators
from leasehold.spec.language.diagnostics import Place, Sink, Within, WordFix, a, fix_of_word, near_miss
from leasehold.spec.language.types import (
    BOOL,
    INT,
    UNKNOWN,
    Bool,
    Enum,
    Instance,
    Int,
    Map,
    MessageType,
    Option,
    Seq,
    Type,
    UnknownType,
    agrees,
)
from leasehold.spec.language.typing import foreign
from leasehold.spec.language.typing.definitions import Definition
from leasehold.spec.language.typing.names import ParameterArgument, RoleNames, Scope
from leasehold.spec.language.typing.syntax import MAX_NESTING, Syntax

MAX_STEPS = 20_000  # of inference; a text of ordinary length needs far fewer, unless it was made to need more
MAX_LITERAL = 10**18

QUANTIFIERS = ("all", "any", "count", "sum", "union")
EXTREMES = ("min", "max")  # of numbers, or of a clause
FUNCTIONS = (*QUANTIFIERS, *operators.FUNCTIONS, "old", "took", "ignored", "accepts", "pending", *get_args(x.QueryName))


@dataclass(frozen=True, slots=True)
class TypedPart:
    """A part of an expression's text, from a place up to another, and what it stands for."""

    start: Place
    end: Place
    meaning: x.Expression | Definition


_TRACED: ContextVar[list[TypedPart] | None] = ContextVar("typed parts", default=None)


@contextmanager
def traced() -> Iterator[list[TypedPart]]:
    """Collects the parts of all expressions that are typed meanwhile; the outer ones come after those within them."""
    parts: list[TypedPart] = []
    token = _TRACED.set(parts)
    try:
        yield parts
    finally:
        _TRACED.reset(token)


@dataclass
class Work:
    """The amount of inference in an expression and in all definitions that it uses."""

    steps: int = 0
    depth: int = 0
    maps: int = 0  # whose variables were named


class Inference:
    """The common part of typing all kinds of nodes: places, errors, names."""

    def __init__(self, text: Syntax, sink: Sink, work: Work | None = None) -> None:
        self.text, self.sink = text, sink
        self.work = work or Work()
        self.parts = _TRACED.get()

    # Reporting

    def place(self, tree: ast.AST) -> Place:
        return self.text.place(tree)

    def error(self, wording: str, tree: ast.AST, /, *, near: str | None = None, **details: Any) -> x.Expression:
        self.sink.error(wording, self.place(tree), near=near, **details)
        return wrong(self.place(tree))

    def unknown(self, wording: str, tree: ast.AST, word: str, known: Iterable[str], /, **details: Any) -> x.Expression:
        self.sink.unknown(wording, self.place(tree), word, known, **details)
        return wrong(self.place(tree))

    def words(self, tree: ast.AST) -> str:
        return self.text.words(tree)

    def not_in_the_language(self, tree: ast.AST, construct: ast.AST) -> x.Expression:
        """An error about Python that is not part of the language, with the remedy for this construct."""
        general = "docs/reference/language.md says what an expression may hold"
        near, remedy = foreign.construct(construct) or (None, general)
        return self.error("foreign_construct", tree, near=near, source=self.words(tree), remedy=remedy)

    def want(self, e: x.Expression, expected: Type, tree: ast.AST) -> x.Expression:
        if not agrees(expected, e.type):
            details: dict[str, Any] = {"source": self.words(tree), "type": e.type, "expected": expected}
            if self.text.node.comment:
                return self.error("commented_operand", tree, **details)
            match expected, e.type:
                case Bool(), _:
                    return self.error("bool_wanted", tree, **details)
                case Enum(members=members), _:
                    return self.error("member_wanted", tree, members=members, **details)
                case Instance(), Int():
                    return self.error("instance_wanted", tree, **details)
            return self.error("other_type_wanted", tree, **details)
        return e

    # Inference

    def infer(self, tree: ast.expr, scope: Scope, expected: Type | None = None) -> x.Expression:
        self.work.steps += 1
        if self.work.steps > MAX_STEPS:
            return wrong(self.place(tree))
        method = getattr(self, f"_{type(tree).__name__.lower()}", None)
        if method is None:
            return self.not_in_the_language(tree, tree)
        if self.work.depth == MAX_NESTING:  # of definitions within definitions: a text of its own is not as deep
            return self.error("nested_expression", tree, max_nesting=MAX_NESTING)
        self.work.depth += 1
        result: x.Expression = method(tree, scope, expected)
        self.work.depth -= 1
        self.trace(tree, result)
        return result

    def trace(self, tree: ast.expr, meaning: x.Expression | Definition) -> None:
        if self.parts is not None and tree.end_col_offset is not None:
            end = self.text.node.inside(self.text.lead + tree.end_col_offset)
            self.parts.append(TypedPart(self.place(tree), end, meaning))

    def of(self, tree: ast.expr, scope: Scope, expected: Type) -> x.Expression:
        return self.want(self.infer(tree, scope, expected), expected, tree)

    # Definitions

    def given(self, tree: ast.expr, scope: Scope) -> ParameterArgument:
        """Returns what stands for a parameter of a definition; anything else stands for itself."""
        argument = ParameterArgument(self, tree, scope)
        while isinstance(name := argument.tree, ast.Name) and name.id in argument.scope.parameters:
            if name.id in argument.scope.variables:
                break
            argument = argument.scope.parameters[name.id]
        return argument

    def defined(
        self, d: Definition, tree: ast.expr, arguments: Sequence[ast.expr], scope: Scope, expected: Type | None
    ) -> x.Expression:
        """Returns what a definition says of its arguments."""
        if len(arguments) != len(d.parameters):
            count = f"{len(d.parameters)} argument{'' if len(d.parameters) == 1 else 's'}"
            details = {"name": d.name, "count": count if d.parameters else "no arguments", "usage": d.usage}
            return self.error("definition_arguments", tree, place=d.place, **details)
        if d.text is None:
            return wrong(self.place(tree))  # reported
        inner = scope.within(
            d, {p: ParameterArgument(self, a, scope) for p, a in zip(d.parameters, arguments, strict=True)}
        )
        self.trace(tree, d)
        sink = Within(self.sink, f"in `{d.usage}`", self.place(tree))
        return type(self)(d.text, sink, self.work).infer(d.text.tree, inner, expected)

    # Names

    def _constant(self, tree: ast.Constant, scope: Scope, expected: Type | None) -> x.Expression:
        place = self.place(tree)
        if isinstance(tree.value, bool):
            return x.Literal_(type=BOOL, value=tree.value, place=place)
        if isinstance(tree.value, int):
            if tree.value > MAX_LITERAL:
                return self.error("large_number", tree)
            return x.Literal_(type=INT, value=tree.value, place=place)
        if tree.value is None:
            return x.Literal_(type=Option(None), value=None, place=place)
        return self.error("quoted_name", tree, source=self.words(tree))

    def _name(self, tree: ast.Name, scope: Scope, expected: Type | None) -> x.Expression:
        name, place, names = tree.id, self.place(tree), scope.names
        own = names.roles[scope.role] if scope.role else None
        if name in scope.variables:
            return x.BoundVariable(type=scope.variables[name], name=scope.renamed[name], place=place)
        if name in scope.parameters:
            reader, argument, outer = self.given(tree, scope)
            expression: x.Expression = reader.infer(argument, outer, expected)
            return expression
        if name in ("true", "false"):
            return x.Literal_(type=BOOL, value=name == "true", place=place)
        if name == "none":
            return x.Literal_(type=Option(None), value=None, place=place)
        if name == "now":
            if not scope.clock:
                return self.error("no_clock", tree)
            return x.Now(place=place)
        if name == "self" and own:
            return x.Self(type=own.instance, place=place)
        wanted = expected.of if isinstance(expected, Option) else expected
        if isinstance(wanted, Enum) and name in wanted.members:
            return x.Literal_(type=wanted, value=name, place=place)
        if own and name == "state":
            return x.ControlState(type=own.states, role=own.name, place=place)
        if own and name in own.data:
            return x.Data(type=own.data[name], role=own.name, name=name, place=place)
        if name in scope.definitions:
            return self.defined(scope.definitions[name], tree, (), scope, expected)
        if name in names.constants:
            return x.ConstantRef(type=names.constants[name], name=name, place=place)
        if name in names.types:
            return x.all_members(names.types[name], place)
        if name in names.roles:
            return x.all_members(names.roles[name].instance, place)
        holders = [t for t in names.types.values() if isinstance(t, Enum) and name in t.members]
        if len(holders) == 1:
            return x.Literal_(type=holders[0], value=name, place=place)
        return self._unknown_name(tree, scope, wanted)

    def _unknown_name(self, tree: ast.Name, scope: Scope, wanted: Type | None) -> x.Expression:
        name, names = tree.id, scope.names
        if isinstance(wanted, UnknownType):
            return wrong(self.place(tree))  # what could explain the name was reported
        details: dict[str, Any] = {"name": name}
        known: list[str] = [
            *scope.variables,
            *scope.parameters,
            *names.constants,
            *names.types,
            *names.roles,
            *scope.definitions,
            "now",
            *(f"{x.SHARED.name}.{word}" for word in names.shared),
        ]
        if scope.role:
            known += [*names.roles[scope.role].data, "state", "self"]
        if isinstance(wanted, Enum):
            known = [*wanted.members, *known]
            of = "" if wanted.name.startswith("a ") else "of type "
            details |= {"type": f"{of}{wanted}", "members": wanted.members}
        elif scope.arguments and name in scope.arguments:
            full = f"event.{name}"
            mended = WordFix(self.place(tree), name, full)
            self.sink.error_to_fix("event_field_name", self.place(tree), mended, near=f"`{full}`", name=name)
            return wrong(self.place(tree))
        near = f"`{foreign.NAMES[name]}`" if name in foreign.NAMES else near_miss(name, known)
        details["names"] = known
        fix = None if name in foreign.NAMES else fix_of_word(self.place(tree), name, known)
        wording = "unknown_member" if "members" in details else "unknown_name"
        self.sink.error_to_fix(wording, self.place(tree), fix, near=near, **details)
        return wrong(self.place(tree))

    def _attribute(self, tree: ast.Attribute, scope: Scope, expected: Type | None) -> x.Expression:
        name, place = tree.attr, self.place(tree)
        base = tree.value
        if isinstance(base, ast.Name) and base.id in ("event", "msg") and base.id not in scope.variables:
            return self._argument(tree, scope)
        if self._is_shared(base, scope):
            return self._shared(tree, scope)
        _, of, outer = self.given(base, scope)
        if isinstance(of, ast.Name) and isinstance(message := outer.variables.get(of.id), MessageType):
            return self._message_field(tree, outer.renamed[of.id], message, scope)
        machine = self._machine(base, scope)
        if machine is None:
            owner = self.infer(base, scope)
            if isinstance(owner.type, UnknownType):
                return owner
            return self.error("no_fields", base, source=self.words(base), owner_type=owner.type)
        role, owner = machine
        if role is None:
            return owner  # reported
        if name == "state":
            return x.ControlState(type=role.states, role=role.name, owner=owner, place=place)
        if name not in role.data:
            known = [*role.data, "state"]
            return self.unknown("unknown_field", tree, name, known, role=a(role.name))
        return x.Data(type=role.data[name], role=role.name, name=name, owner=owner, place=place)

    def _is_shared(self, tree: ast.expr, scope: Scope) -> bool:
        """Returns whether it stands before the name of a shared variable."""
        word = tree.id if isinstance(tree, ast.Name) else ""
        known = bool(scope.names.shared) and word not in scope.variables and word not in scope.parameters
        return word == x.SHARED.name and known

    def _shared(self, tree: ast.Attribute, scope: Scope) -> x.Expression:
        name, shared = tree.attr, scope.names.shared
        if name not in shared:
            return self.unknown("unknown_shared", tree, name, shared)
        return x.shared_variable(name, shared[name], self.place(tree))

    def _machine(self, tree: ast.expr, scope: Scope) -> tuple[RoleNames | None, x.Expression] | None:
        """The machine that an expression names: `broker`, `resource_manager[1]`, a variable; None if it names none."""
        reader, argument, outer = self.given(tree, scope)
        if argument is not tree:
            machine: tuple[RoleNames | None, x.Expression] | None = reader._machine(argument, outer)
            return machine
        roles = scope.names.roles
        if isinstance(tree, ast.Name) and tree.id in roles and tree.id not in scope.variables:
            role = roles[tree.id]
            if role.indexed:
                return None, self.error("several_machines", tree, count=role.instance.count, role=role.name)
            return role, x.Literal_(type=role.instance, value=0, place=self.place(tree))
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name) and tree.value.id in roles:
            role = roles[tree.value.id]
            owner = self._numbered(tree, role.instance, f"{role.instance.count} machines", scope)
            return (None if isinstance(owner.type, UnknownType) else role), owner
        if isinstance(tree, ast.Name) and not (
            tree.id in scope.variables or tree.id == "self" or (scope.role and tree.id in roles[scope.role].data)
        ):
            return None
        owner = self.infer(tree, scope)
        if isinstance(owner.type, Instance) and owner.type.name in roles:
            return roles[owner.type.name], owner
        return None

    def _numbered(self, tree: ast.Subscript, of: Instance, count: str, scope: Scope) -> x.Expression:
        """An instance by its number, `unit[0]` or `unit[index(self) + 1]`, or as an expression gives it."""
        key = self.infer(tree.slice, scope)
        if not isinstance(key.type, Int):
            return self.want(key, of, tree.slice)
        if not isinstance(key, x.Literal_):
            return x.InstanceAt(type=of, number=key, place=self.place(tree))
        if not 0 <= key.value < of.count:
            return self.error("instance_number", tree, source=self.words(tree), count=count, last=of.count - 1)
        return x.Literal_(type=of, value=key.value, place=self.place(tree))

    def _argument(self, tree: ast.Attribute, scope: Scope) -> x.Expression:
        name = tree.attr
        if scope.arguments is None:
            return self.error("event_in_definition" if scope.defining else "no_event", tree)
        if name == "sender":
            if scope.sender is None:
                return self.error("no_sender", tree)
            return x.Sender(type=scope.sender, place=self.place(tree))
        if name not in scope.arguments:
            return self.unknown("unknown_event_field", tree, name, scope.arguments)
        return x.Argument(type=scope.arguments[name], name=name, place=self.place(tree))

    def _message_field(self, tree: ast.Attribute, variable: str, message: MessageType, scope: Scope) -> x.Expression:
        name, place = tree.attr, self.place(tree)
        if name == "number":
            return x.MessageField(type=INT, variable=variable, name=name, place=place)
        if name == "kind":
            return x.MessageField(type=Enum("message", message.kinds), variable=variable, name=name, place=place)
        if name == "latest":
            if not scope.names.numbered.issuperset(message.kinds):
                return self.error("latest_without_numbers", tree, source=self.words(tree))
            return x.MessageField(type=BOOL, variable=variable, name=name, place=place)
        if name in ("sender", "receiver") and message.kinds:
            role = scope.names.ends[message.kinds[0]][name == "receiver"]
            if role not in scope.names.roles:
                return wrong(place)  # reported with the message
            return x.MessageField(type=scope.names.roles[role].instance, variable=variable, name=name, place=place)
        fields = {kind: scope.names.messages[kind] for kind in message.kinds}
        if len(fields) == 1 and name in (known := fields[message.kinds[0]]):
            return x.MessageField(type=known[name], variable=variable, name=name, place=place)
        if carrying := [kind for kind in fields if name in fields[kind]]:
            return self.error("field_of_some_messages", tree, word=name, carrying=carrying, kind=carrying[0])
        known_names = [*fields[message.kinds[0]]] if len(fields) == 1 else []
        numbered = scope.names.numbered.issuperset(message.kinds)
        known_names += [word for word in x.OF_MESSAGES if word != "latest" or numbered]
        return self.unknown("unknown_message_field", tree, name, known_names)

    def _subscript(self, tree: ast.Subscript, scope: Scope, expected: Type | None) -> x.Expression:
        if isinstance(tree.value, ast.Name) and tree.value.id in scope.names.roles:
            machine = self._machine(tree, scope)
            assert machine is not None
            return machine[1]
        if isinstance(tree.value, ast.Name) and isinstance(of := scope.names.types.get(tree.value.id), Instance):
            return self._numbered(tree, of, str(of.count), scope)
        cells = self.infer(tree.value, scope)
        if isinstance(cells.type, UnknownType):
            return cells
        if isinstance(cells.type, Seq):
            place = self.of(tree.slice, scope, INT)
            return x.Apply(type=Option(cells.type.of), op="item", operands=(cells, place), place=self.place(tree))
        if not isinstance(cells.type, Map):
            wording = "cell_of_cell" if isinstance(tree.value, ast.Subscript) else "cell_of_no_map"
            return self.error(wording, tree.value, source=self.words(tree.value), type=cells.type)
        key = self.of(tree.slice, scope, cells.type.key)
        return x.Apply(type=cells.type.of, op="[]", operands=(cells, key), place=self.place(tree))


def wrong(place: Place) -> x.Expression:
    """The expression of unknown type that stands for one that was reported."""
    return x.Literal_(type=UNKNOWN, value=None, place=place)
