"""Text to typed expression.

The text is Python's expression syntax, read by Python's own parser and then taken apart node by node: what is not
listed in `_Parser` is not part of the language. Names are resolved by type: in `state in {active, closing}` the members
of the set are states because the left side is a state. Every error names its place inside the text, and is reported
once; an expression that was reported has the type Unknown, which agrees with everything.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place, Sink, a, listed, near_miss
from leasehold.spec.language.source import Node
from leasehold.spec.language.types import (
    BOOL,
    INT,
    OPAQUE,
    TIME,
    UNKNOWN,
    Bool,
    Enum,
    Instance,
    Int,
    Map,
    Message,
    Opaque,
    Option,
    Set,
    Time,
    Type,
    Unknown,
    agrees,
    members,
)  # fmt: skip

MAX_TEXT = 4000
MAX_NESTING = 60
MAX_STEPS = 20_000  # of inference; a text of MAX_TEXT characters needs far fewer, unless it was made to need more
MAX_CASES = 300_000  # parts, once quantifiers are written out
MAX_LITERAL = 10**18
MAX_CELLS = 4096


@dataclass(frozen=True)
class RoleNames:
    """What an expression may say of a role."""

    name: str
    instance: Instance
    states: Enum
    data: Mapping[str, Type]
    events: frozenset[str]
    indexed: bool  # declared with a number of instances: a machine is then named by index or quantified over


@dataclass(frozen=True)
class Names:
    """The declared names of a system."""

    constants: Mapping[str, Type]
    types: Mapping[str, Enum | Instance]
    roles: Mapping[str, RoleNames]
    messages: Mapping[str, Mapping[str, Type]]
    channels: Mapping[str, tuple[str, ...]]  # a channel's name: the kinds of messages that it carries


@dataclass(frozen=True)
class Scope:
    """What is in sight where an expression stands."""

    names: Names
    role: str | None = None  # whose own data is named without a prefix
    arguments: Mapping[str, Type] | None = None  # fields of the event being consumed
    sender: Instance | None = None
    step: bool = False  # `old` and `took` have a meaning
    clock: bool = True
    variables: Mapping[str, Type] = field(default_factory=dict)
    opaque: bool = False  # opaque values may be compared

    def bind(self, **variables: Type) -> Scope:
        return replace(self, variables={**self.variables, **variables})


def parse(node: Node, scope: Scope, sink: Sink, expected: Type | None = None) -> x.Expression:
    """Parses and types the text of a node; errors go to the sink."""
    if node.kind != "text":
        sink.error(
            "LH203",
            node.place,
            f"an expression is wanted here, not a {node.kind}",
            remedy="quote it, if it begins with a bracket",
        )
        return _wrong(node.place)
    source = node.text.strip()
    if len(source) > MAX_TEXT:
        sink.error(
            "LH306", node.place, f"the expression has {len(source):,} characters; at most {MAX_TEXT:,} are read",
            remedy="name parts of it as data or as several properties",
        )  # fmt: skip
        return _wrong(node.place)
    source = source.replace("\n", " ").replace("\t", " ")
    lead = len(node.text) - len(node.text.lstrip())
    foreign = next((i for i, c in enumerate(source) if c in "#\\" or not " " <= c <= "~"), None)
    if foreign is not None:
        sink.error(
            "LH301", node.inside(lead + foreign), f"{_character(source[foreign])} has no place in an expression",
            near=_look_alike(source[foreign]),
            remedy="expressions are written in ASCII; comments go before the key or behind a quoted text",
        )  # fmt: skip
        return _wrong(node.place)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        slip = _SLIP.search(source)
        if slip is not None:
            sink.error(
                "LH301", node.inside(lead + slip.start()), f"`{slip[0]}` is not an operator of the language",
                near=f"`{_MEANT[slip[0]]}`", remedy="expressions have Python's syntax: `units >= 1 and now < term_end`",
            )  # fmt: skip
            return _wrong(node.place)
        sink.error(
            "LH301", node.inside(lead + _offset(error, source)),
            f"`{_short(source)}` is not an expression: {error.msg.removesuffix('. Perhaps you forgot a comma?')}",
            remedy="expressions have Python's syntax: `units >= 1 and now < term_end`",
        )  # fmt: skip
        return _wrong(node.place)
    except (ValueError, MemoryError, RecursionError):
        sink.error("LH306", node.place, "the expression is nested too deeply", remedy="split it")
        return _wrong(node.place)
    if _depth(tree) > MAX_NESTING:
        sink.error("LH306", node.place, f"the expression is nested deeper than {MAX_NESTING}", remedy="split it")
        return _wrong(node.place)
    parser = _Parser(node, lead, source, sink)
    result = parser.infer(tree, scope, expected)
    if parser.steps > MAX_STEPS:
        sink.error("LH306", node.place, "the expression takes too many steps to type", remedy="split it")
        return _wrong(node.place)
    if expected is not None:
        parser.want(result, expected, tree)
    if (count := x.cases(result)) > MAX_CASES:
        sink.error(
            "LH306", node.place, f"written out, the expression has {count:,} parts; at most {MAX_CASES:,} are possible",
            remedy="nest fewer quantifiers, or set fewer instances",
        )  # fmt: skip
        return _wrong(node.place)
    return result


_MATHEMATICS = {
    "MINUS SIGN": "-", "EN DASH": "-", "EM DASH": "-", "LESS-THAN OR EQUAL TO": "<=", "GREATER-THAN OR EQUAL TO": ">=",
    "NOT EQUAL TO": "!=", "MULTIPLICATION SIGN": "*", "LOGICAL AND": "and", "LOGICAL OR": "or", "NOT SIGN": "not",
    "ELEMENT OF": "in", "UNION": "|", "INTERSECTION": "&",
}  # fmt: skip
# Operators of other languages.
_MEANT = {"=": "==", "&&": "and", "||": "or", "!": "not", "=>": "not ... or", "->": "not ... or", "<>": "!="}
_SLIP = re.compile(r"&&|\|\||=>|->|<>|(?<![=<>!:])=(?!=)|!(?!=)")


def _offset(error: SyntaxError, source: str) -> int:
    return min(max((error.offset or 1) - 1, 0), max(len(source) - 1, 0))


def _character(c: str) -> str:
    return f"`{c}`" if " " <= c <= "~" else f"{unicodedata.name(c, 'a control character')} (U+{ord(c):04X})"


def _look_alike(c: str) -> str | None:
    """The ASCII character that another one may stand for: a full-width letter, a typographic minus, a curly bracket."""
    plain = unicodedata.normalize("NFKD", c)[:1]
    found = _MATHEMATICS.get(unicodedata.name(c, "")) or (plain if "!" <= plain <= "~" else None)
    return f"`{found}`" if found else None


def _short(source: str) -> str:
    return source if len(source) <= 60 else source[:57] + "..."


def _wrong(place: Place) -> x.Expression:
    return x.Literal_(type=UNKNOWN, value=None, place=place)


def _depth(tree: ast.AST) -> int:
    deepest, todo = 0, [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        deepest = max(deepest, depth)
        todo.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest


_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.BitOr: "|", ast.BitAnd: "&",
}  # fmt: skip
_COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in",
    ast.NotIn: "not in",
}  # fmt: skip
_QUANTIFIERS = ("all", "any", "count", "sum", "union")
_FUNCTIONS = (*_QUANTIFIERS, "min", "max", "len", "index", "get", "old", "took", "pending")


class _Parser:
    def __init__(self, node: Node, lead: int, source: str, sink: Sink) -> None:
        self.node, self.lead, self.source, self.sink = node, lead, source, sink
        self.steps = 0

    # Reporting

    def place(self, tree: ast.AST) -> Place:
        return self.node.inside(self.lead + getattr(tree, "col_offset", 0))

    def error(
        self, code: str, tree: ast.AST, what: str, near: str | None = None, remedy: str | None = None
    ) -> x.Expression:
        self.sink.error(code, self.place(tree), what, near=near, remedy=remedy)
        return _wrong(self.place(tree))

    def words(self, tree: ast.AST) -> str:
        return _short(ast.get_source_segment(self.source, tree) or self.source)

    def want(self, e: x.Expression, expected: Type, tree: ast.AST) -> x.Expression:
        if not agrees(expected, e.type):
            return self.error(
                "LH303", tree, f"`{self.words(tree)}` is of type {e.type}; {expected} is wanted here",
                remedy="compare it, or name the field that you mean" if isinstance(expected, Bool) else
                f"write one of {listed(expected.members)}" if isinstance(expected, Enum) else
                f"write a value of type {expected}",
            )  # fmt: skip
        return e

    # Inference

    def infer(self, tree: ast.expr, scope: Scope, expected: Type | None = None) -> x.Expression:
        self.steps += 1
        if self.steps > MAX_STEPS:
            return _wrong(self.place(tree))
        method = getattr(self, f"_{type(tree).__name__.lower()}", None)
        if method is None:
            return self.error(
                "LH304", tree, f"`{self.words(tree)}` is not part of the language",
                remedy="see docs/reference/language.md for what an expression may hold",
            )  # fmt: skip
        result: x.Expression = method(tree, scope, expected)
        return result

    def of(self, tree: ast.expr, scope: Scope, expected: Type) -> x.Expression:
        return self.want(self.infer(tree, scope, expected), expected, tree)

    def _constant(self, tree: ast.Constant, scope: Scope, expected: Type | None) -> x.Expression:
        place = self.place(tree)
        if isinstance(tree.value, bool):
            return x.Literal_(type=BOOL, value=tree.value, place=place)
        if isinstance(tree.value, int):
            if tree.value > MAX_LITERAL:
                return self.error("LH307", tree, "the number is too large", remedy="numbers have at most 18 digits")
            return x.Literal_(type=INT, value=tree.value, place=place)
        if tree.value is None:
            return x.Literal_(type=Option(None), value=None, place=place)
        return self.error(
            "LH304", tree, f"`{self.words(tree)}` is not part of the language", remedy="write the bare name"
        )

    def _name(self, tree: ast.Name, scope: Scope, expected: Type | None) -> x.Expression:
        name, place, names = tree.id, self.place(tree), scope.names
        own = names.roles[scope.role] if scope.role else None
        if name in scope.variables:
            return x.Variable(type=scope.variables[name], name=name, place=place)
        if name in ("true", "false"):
            return x.Literal_(type=BOOL, value=name == "true", place=place)
        if name == "none":
            return x.Literal_(type=Option(None), value=None, place=place)
        if name == "now":
            if not scope.clock:
                return self.error(
                    "LH308", tree, "`now` has no value here",
                    remedy="constants and tasks cannot read the clock (keep the time in a field); elsewhere, the "
                    "system needs a `clock:`",
                )  # fmt: skip
            return x.Now(place=place)
        if name == "self" and own:
            return x.Self(type=own.instance, place=place)
        wanted = expected.of if isinstance(expected, Option) else expected
        if isinstance(wanted, Enum) and name in wanted.members:
            return x.Literal_(type=wanted, value=name, place=place)
        if own and name == "state":
            return x.State(type=own.states, role=own.name, place=place)
        if own and name in own.data:
            return x.Data(type=own.data[name], role=own.name, name=name, place=place)
        if name in names.constants:
            return x.Constant(type=names.constants[name], name=name, place=place)
        if name in names.types:
            of = names.types[name]
            return x.Members(type=Set(of), of=of, place=place)
        if name in names.roles:
            instance = names.roles[name].instance
            return x.Members(type=Set(instance), of=instance, place=place)
        holders = [t for t in names.types.values() if isinstance(t, Enum) and name in t.members]
        if len(holders) == 1:
            return x.Literal_(type=holders[0], value=name, place=place)
        return self._unknown_name(tree, scope, wanted)

    def _unknown_name(self, tree: ast.Name, scope: Scope, wanted: Type | None) -> x.Expression:
        name, names = tree.id, scope.names
        if isinstance(wanted, Unknown):
            return _wrong(self.place(tree))  # what could explain the name was reported
        known: list[str] = [*scope.variables, *names.constants, *names.types, *names.roles, "now", *_FUNCTIONS]
        if scope.role:
            known += [*names.roles[scope.role].data, "state", "self"]
        if isinstance(wanted, Enum):
            known = [*wanted.members, *known]
            of = "" if wanted.name.startswith("a ") else "of type "
            what = f"`{name}` is not {of}{wanted}: {listed(wanted.members)}"
        elif scope.arguments and name in scope.arguments:
            return self.error("LH302", tree, f"`{name}` is not known here", near=f"`event.{name}`")
        else:
            what = f"`{name}` is not known here"
        return self.error(
            "LH302", tree, what, near=near_miss(name, known),
            remedy=f"known here: {listed([w for w in known if w not in _FUNCTIONS], 30)}",
        )  # fmt: skip

    def _attribute(self, tree: ast.Attribute, scope: Scope, expected: Type | None) -> x.Expression:
        name, place = tree.attr, self.place(tree)
        base = tree.value
        if isinstance(base, ast.Name) and base.id in ("event", "msg") and base.id not in scope.variables:
            return self._argument(tree, scope)
        if isinstance(base, ast.Name) and isinstance(message := scope.variables.get(base.id), Message):
            return self._message_field(tree, base.id, message, scope)
        found = self._machine(base, scope)
        if found is None:
            owner = self.infer(base, scope)
            if isinstance(owner.type, Unknown):
                return owner
            return self.error(
                "LH303", base, f"`{self.words(base)}` is of type {owner.type}, which has no fields",
                remedy="fields are read from a machine (`broker.units`), an event (`event.units`) or a message",
            )  # fmt: skip
        role, owner = found
        if role is None:
            return owner  # reported
        if name == "state":
            return x.State(type=role.states, role=role.name, owner=owner, place=place)
        if name not in role.data:
            known = [*role.data, "state"]
            return self.error(
                "LH305", tree, f"{a(role.name)} has no field `{name}`", near=near_miss(name, known),
                remedy=f"its fields: {listed(known)}",
            )  # fmt: skip
        return x.Data(type=role.data[name], role=role.name, name=name, owner=owner, place=place)

    def _machine(self, tree: ast.expr, scope: Scope) -> tuple[RoleNames | None, x.Expression] | None:
        """The machine that an expression names: `broker`, `resource_manager[1]`, a variable; None if it names none."""
        roles = scope.names.roles
        if isinstance(tree, ast.Name) and tree.id in roles and tree.id not in scope.variables:
            role = roles[tree.id]
            if role.indexed:
                return None, self.error(
                    "LH303", tree, f"there are {role.instance.count} machines of role {role.name}",
                    remedy=f"name one (`{role.name}[0]`) or quantify: `all(r.state == ... for r in {role.name})`",
                )  # fmt: skip
            return role, x.Literal_(type=role.instance, value=0, place=self.place(tree))
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name) and tree.value.id in roles:
            role = roles[tree.value.id]
            key = self.infer(tree.slice, scope)
            if isinstance(key, x.Literal_) and isinstance(key.type, Int):
                if not 0 <= key.value < role.instance.count:
                    return None, self.error(
                        "LH307",
                        tree,
                        f"`{self.words(tree)}`: there are {role.instance.count} machines, from 0",
                        remedy=f"write a number from 0 to {role.instance.count - 1}",
                    )
                return role, x.Literal_(type=role.instance, value=key.value, place=self.place(tree))
            return role, self.want(key, role.instance, tree.slice)
        if isinstance(tree, ast.Name) and not (
            tree.id in scope.variables or tree.id == "self" or (scope.role and tree.id in roles[scope.role].data)
        ):
            return None
        owner = self.infer(tree, scope)
        if isinstance(owner.type, Instance) and owner.type.name in roles:
            return roles[owner.type.name], owner
        return None

    def _argument(self, tree: ast.Attribute, scope: Scope) -> x.Expression:
        name = tree.attr
        if scope.arguments is None:
            return self.error("LH308", tree, "no event is being consumed here", remedy="read a machine's data instead")
        if name == "sender":
            if scope.sender is None:
                return self.error(
                    "LH308",
                    tree,
                    "this event has no sender: it is not a message",
                    remedy="only messages have `msg.sender`",
                )
            return x.Sender(type=scope.sender, place=self.place(tree))
        if name not in scope.arguments:
            return self.error(
                "LH305", tree, f"the event has no field `{name}`", near=near_miss(name, scope.arguments),
                remedy=f"its fields: {listed(scope.arguments)}",
            )  # fmt: skip
        return x.Argument(type=scope.arguments[name], name=name, place=self.place(tree))

    def _message_field(self, tree: ast.Attribute, variable: str, message: Message, scope: Scope) -> x.Expression:
        name, place = tree.attr, self.place(tree)
        if name == "number":
            return x.MessageField(type=INT, variable=variable, name=name, place=place)
        if name == "kind":
            return x.MessageField(type=Enum("message", message.kinds), variable=variable, name=name, place=place)
        if len(message.kinds) == 1 and name in (known := scope.names.messages[message.kinds[0]]):
            return x.MessageField(type=known[name], variable=variable, name=name, place=place)
        fields = scope.names.messages[message.kinds[0]] if len(message.kinds) == 1 else {}
        return self.error(
            "LH305", tree, f"the message has no field `{name}`", near=near_miss(name, fields),
            remedy=f"its fields: {listed([*fields, 'number', 'kind'])}",
        )  # fmt: skip

    def _subscript(self, tree: ast.Subscript, scope: Scope, expected: Type | None) -> x.Expression:
        if isinstance(tree.value, ast.Name) and tree.value.id in scope.names.roles:
            found = self._machine(tree, scope)
            assert found is not None
            return found[1]
        if isinstance(tree.value, ast.Name) and isinstance(of := scope.names.types.get(tree.value.id), Instance):
            key = self.infer(tree.slice, scope)
            if isinstance(key, x.Literal_) and isinstance(key.type, Int) and 0 <= key.value < of.count:
                return x.Literal_(type=of, value=key.value, place=self.place(tree))
            return self.error(
                "LH307",
                tree,
                f"`{self.words(tree)}`: there are {of.count}, from 0",
                remedy=f"write a number from 0 to {of.count - 1}",
            )
        cells = self.infer(tree.value, scope)
        if isinstance(cells.type, Unknown):
            return cells
        if not isinstance(cells.type, Map):
            return self.error(
                "LH303",
                tree.value,
                f"`{self.words(tree.value)}` is of type {cells.type}, not a map",
                remedy="only maps have cells: `votes[self]`",
            )
        key = self.of(tree.slice, scope, cells.type.key)
        return x.Element(type=cells.type.of, map=cells, key=key, place=self.place(tree))

    def _unaryop(self, tree: ast.UnaryOp, scope: Scope, expected: Type | None) -> x.Expression:
        place = self.place(tree)
        if isinstance(tree.op, ast.Not):
            return x.Unary(type=BOOL, op="not", operand=self.of(tree.operand, scope, BOOL), place=place)
        if isinstance(tree.op, ast.USub):
            operand = self.of(tree.operand, scope, INT)
            if isinstance(operand, x.Literal_):
                return x.Literal_(type=INT, value=-(operand.value or 0), place=place)
            return x.Unary(type=INT, op="-", operand=operand, place=place)
        return self.error("LH304", tree, f"`{self.words(tree)}` is not part of the language")

    def _binop(self, tree: ast.BinOp, scope: Scope, expected: Type | None) -> x.Expression:
        op = _BINARY.get(type(tree.op))
        if op is None:
            return self.error(
                "LH304", tree, f"`{self.words(tree)}` is not part of the language",
                near="`//`" if isinstance(tree.op, ast.Div) else None,
                remedy="numbers have +, -, *, // and %, sets |, & and -",
            )  # fmt: skip
        left, right = self._pair(tree.left, tree.right, scope, expected if isinstance(expected, Set) else None)
        if isinstance(left.type, Unknown) or isinstance(right.type, Unknown):
            return _wrong(self.place(tree))
        result = _binary_type(op, left.type, right.type)
        if result is None:
            return self.error(
                "LH303",
                tree,
                f"`{op}` does not take {left.type} and {right.type}",
                remedy="ints and times are added and subtracted, ints multiplied; sets have |, & and -",
            )
        return x.Binary(type=result, op=op, left=left, right=right, place=self.place(tree))  # type: ignore[arg-type]

    def _pair(
        self, left: ast.expr, right: ast.expr, scope: Scope, expected: Type | None
    ) -> tuple[x.Expression, x.Expression]:
        """Types two operands of which one may be a bare name that only the other explains."""
        if isinstance(left, ast.Name) and not self._explains_itself(left, scope) and expected is None:
            second = self.infer(right, scope)
            return self.infer(left, scope, second.type), second
        first = self.infer(left, scope, expected)
        return first, self.infer(right, scope, first.type)

    def _explains_itself(self, tree: ast.Name, scope: Scope) -> bool:
        names, own = scope.names, scope.names.roles.get(scope.role or "")
        return (
            tree.id in scope.variables or tree.id in names.constants or tree.id in names.types
            or tree.id in names.roles or tree.id in ("now", "true", "false", "none", "self")
            or (own is not None and (tree.id in own.data or tree.id == "state"))
        )  # fmt: skip

    def _compare(self, tree: ast.Compare, scope: Scope, expected: Type | None) -> x.Expression:
        parts: list[x.Expression] = []
        left = tree.left
        for op_tree, right in zip(tree.ops, tree.comparators, strict=True):
            parts.append(self._one_compare(tree, left, op_tree, right, scope))
            left = right
        if len(parts) == 1:
            return parts[0]
        return x.Logic(op="and", operands=tuple(parts), place=self.place(tree))

    def _one_compare(
        self, tree: ast.Compare, left_tree: ast.expr, op_tree: ast.cmpop, right_tree: ast.expr, scope: Scope
    ) -> x.Expression:
        op = _COMPARE.get(type(op_tree))
        if op is None:
            return self.error("LH304", tree, "`is` is not part of the language", near="`==`")
        if op in ("in", "not in"):
            left = self.infer(left_tree, scope)
            of = left.type if isinstance(left.type, (Enum, Instance)) else None
            right = self.infer(right_tree, scope, Set(of))
            if not isinstance(left.type, (Enum, Instance, Unknown)):
                return self.error(
                    "LH303", left_tree, f"`{self.words(left_tree)}` is of type {left.type}; sets hold states, members "
                    "of an enumeration or instances",
                )  # fmt: skip
            self.want(right, Set(of), right_tree)
        else:
            left, right = self._pair(left_tree, right_tree, scope, None)
            self._comparable(tree, op, left, right, scope)
        return x.Compare(op=op, left=left, right=right, place=self.place(tree))  # type: ignore[arg-type]

    def _comparable(self, tree: ast.Compare, op: str, left: x.Expression, right: x.Expression, scope: Scope) -> None:
        a, b = left.type, right.type
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            return
        if (isinstance(a, Opaque) or isinstance(b, Opaque)) and not scope.opaque:
            self.error(
                "LH309", tree, f"`{self.words(tree)}` reads an opaque value",
                remedy="opaque data is carried and stored; only properties may compare it",
            )  # fmt: skip
            return
        if not (agrees(a, b) or agrees(b, a)):
            self.error(
                "LH303", tree, f"`{self.words(tree)}` compares {a} with {b}", remedy="compare values of one type"
            )
        elif op not in ("==", "!=") and not isinstance(a, (Int, Time, Set)):
            self.error("LH303", tree, f"`{op}` does not order values of type {a}", near="`==`")

    def _boolop(self, tree: ast.BoolOp, scope: Scope, expected: Type | None) -> x.Expression:
        op = "and" if isinstance(tree.op, ast.And) else "or"
        operands = tuple(self.of(v, scope, BOOL) for v in tree.values)
        return x.Logic(op=op, operands=operands, place=self.place(tree))  # type: ignore[arg-type]

    def _ifexp(self, tree: ast.IfExp, scope: Scope, expected: Type | None) -> x.Expression:
        test = self.of(tree.test, scope, BOOL)
        then, otherwise = self._pair(tree.body, tree.orelse, scope, expected)
        type_ = _joined(then.type, otherwise.type)
        if type_ is None:
            return self.error(
                "LH303", tree, f"the branches have types {then.type} and {otherwise.type}",
                remedy="give both branches one type",
            )  # fmt: skip
        return x.Conditional(type=type_, test=test, then=then, otherwise=otherwise, place=self.place(tree))

    def _set(self, tree: ast.Set, scope: Scope, expected: Type | None) -> x.Expression:
        of: Type | None = expected.of if isinstance(expected, Set) else None
        items = []
        for item_tree in tree.elts:
            item = self.infer(item_tree, scope, of)
            if of is None and isinstance(item.type, (Enum, Instance)):
                of = item.type
            if of is not None:
                self.want(item, of, item_tree)
            items.append(item)
        if any(isinstance(i.type, Unknown) for i in items):
            return _wrong(self.place(tree))
        if not isinstance(of, (Enum, Instance)):
            return self.error(
                "LH303",
                tree,
                f"a set cannot hold {items[0].type}",
                remedy="sets hold instances or members of an enumeration",
            )
        return x.SetOf(type=Set(of), items=tuple(items), place=self.place(tree))

    def _dict(self, tree: ast.Dict, scope: Scope, expected: Type | None) -> x.Expression:
        if tree.keys:
            return self.error("LH304", tree, f"`{self.words(tree)}` is not part of the language")
        type_ = expected if isinstance(expected, Set) else Set(None)
        return x.SetOf(type=type_, items=(), place=self.place(tree))

    def _setcomp(self, tree: ast.SetComp, scope: Scope, expected: Type | None) -> x.Expression:
        return self._quantified("set", tree, scope)

    # Functions

    def _call(self, tree: ast.Call, scope: Scope, expected: Type | None) -> x.Expression:
        if not isinstance(tree.func, ast.Name) or tree.func.id not in _FUNCTIONS:
            name = self.words(tree.func)
            return self.error(
                "LH302", tree, f"`{name}` is not a function of the language", near=near_miss(name, _FUNCTIONS),
                remedy=f"functions: {listed(_FUNCTIONS, 30)}",
            )  # fmt: skip
        name, args = tree.func.id, tree.args
        if tree.keywords:
            return self.error("LH304", tree, "arguments have no names here", remedy="leave the name out")
        if name in _QUANTIFIERS:
            if len(args) != 1 or not isinstance(args[0], ast.GeneratorExp):
                return self.error(
                    "LH303", tree, f"`{name}` takes one clause with `for`",
                    remedy=f"write `{name}(r.state == ... for r in role)`",
                )  # fmt: skip
            return self._quantified(name, args[0], scope)  # type: ignore[arg-type]
        counts = {"min": (2, 9), "max": (2, 9), "get": (2, 2)}
        low, high = counts.get(name, (1, 1))
        if not low <= len(args) <= high:
            return self.error(
                "LH303",
                tree,
                f"`{name}` takes {low}{' or more' if high > low else ''} arguments",
                remedy="see docs/reference/language.md",
            )
        result: x.Expression = getattr(self, f"_call_{name}")(tree, args, scope, expected)
        return result

    def _call_min(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        operands = tuple(self.infer(a, scope, expected) for a in args)
        times = any(isinstance(o.type, Time) for o in operands)
        for operand, arg in zip(operands, args, strict=True):
            self.want(operand, TIME if times else INT, arg)
        op = tree.func.id  # type: ignore[attr-defined]
        return x.Extreme(type=TIME if times else INT, op=op, operands=operands, place=self.place(tree))

    _call_max = _call_min

    def _call_len(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        if isinstance(args[0], ast.Name) and args[0].id in scope.names.channels:
            operand: x.Expression = self._pending(args[0], scope)
        else:
            operand = self.infer(args[0], scope)
        if not isinstance(operand.type, (Set, Message, Unknown)):
            return self.error(
                "LH303",
                args[0],
                f"`len` takes a set, a channel or pending messages, not {operand.type}",
                remedy="write `len(granted)`, `len(pending(ticket))` or `len(CHANNEL)`",
            )
        return x.Length(operand=operand, place=self.place(tree))

    def _call_index(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        operand = self.infer(args[0], scope)
        if not isinstance(operand.type, (Instance, Unknown)):
            return self.error(
                "LH303", args[0], f"`index` takes an instance, not {operand.type}", remedy="write `index(self)`"
            )
        return x.Index(operand=operand, place=self.place(tree))

    def _call_get(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        option = self.infer(args[0], scope)
        if isinstance(option.type, Unknown):
            return option
        if not isinstance(option.type, Option) or option.type.of is None:
            return self.error(
                "LH303",
                args[0],
                f"`get` takes an option, not {option.type}",
                remedy="leave the `get` out: the value is always there",
            )
        fallback = self.of(args[1], scope, option.type.of)
        return x.Get(type=option.type.of, option=option, fallback=fallback, place=self.place(tree))

    def _call_old(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        if not scope.step:
            return self.error(
                "LH308", tree, "`old` has a meaning in `step` properties alone", remedy="claim it under `step:`"
            )
        operand = self.infer(args[0], scope, expected)
        return x.Old(type=operand.type, operand=operand, place=self.place(tree))

    def _call_took(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        if not scope.step:
            return self.error(
                "LH308", tree, "`took` has a meaning in `step` properties alone", remedy="claim it under `step:`"
            )
        roles = scope.names.roles
        arg, event = args[0], None
        if isinstance(arg, ast.Attribute):
            event, arg = arg.attr, arg.value
        if isinstance(arg, ast.Name) and arg.id in roles:
            role, owner = roles[arg.id], None
        else:
            found = self._machine(arg, scope)
            if found is None or found[0] is None:
                return self.error(
                    "LH503", arg, f"`{self.words(arg)}` is not a role", near=near_miss(self.words(arg), roles),
                    remedy="write `took(broker.granted)` or `took(broker)`",
                )  # fmt: skip
            role, owner = found[0], found[1]
        if event is not None and event not in role.events:
            return self.error(
                "LH406", tree, f"{a(role.name)} consumes no event `{event}`", near=near_miss(event, role.events),
                remedy=f"its events: {listed(sorted(role.events), 30)}",
            )  # fmt: skip
        return x.Took(role=role.name, owner=owner, event=event, place=self.place(tree))

    def _call_pending(self, tree: ast.Call, args: list[ast.expr], scope: Scope, expected: Type | None) -> x.Expression:
        return self._pending(args[0], scope)

    def _pending(self, tree: ast.expr, scope: Scope) -> x.Expression:
        names = scope.names
        name = tree.id if isinstance(tree, ast.Name) else self.words(tree)
        known = [*names.messages, *names.channels]
        if name not in known:
            return self.error(
                "LH302", tree, f"`{name}` is neither a message nor a channel", near=near_miss(name, known),
                remedy=f"messages and channels: {listed(known, 30)}",
            )  # fmt: skip
        kinds = (name,) if name in names.messages else names.channels[name]
        return x.Pending(type=Message(kinds), name=name, place=self.place(tree))

    def _quantified(self, kind: x.QuantifierKind, tree: ast.GeneratorExp | ast.SetComp, scope: Scope) -> x.Expression:
        first, *more = tree.generators
        if more:
            inner_kind = kind if kind in ("all", "any", "union") else None
            if inner_kind is None:
                return self.error("LH304", tree, f"`{kind}` takes one `for`", remedy="nest another quantifier in it")
            inner = ast.copy_location(ast.GeneratorExp(elt=tree.elt, generators=more), tree)
            return self._one_quantifier(kind, tree, first, inner, scope)
        return self._one_quantifier(kind, tree, first, tree.elt, scope)

    def _one_quantifier(
        self, kind: x.QuantifierKind, tree: ast.expr, clause: ast.comprehension, body_tree: ast.expr, scope: Scope
    ) -> x.Expression:
        if not isinstance(clause.target, ast.Name) or clause.is_async:
            return self.error(
                "LH304", tree, "a quantifier has one plain variable", remedy="write `all(... for r in role)`"
            )
        variable = clause.target.id
        domain = self.infer(clause.iter, scope)
        if isinstance(domain.type, Unknown):
            return domain
        if isinstance(domain.type, Message):
            bound: Type = domain.type
        elif isinstance(domain.type, Set) and domain.type.of is not None:
            bound = domain.type.of
        else:
            return self.error(
                "LH303", clause.iter, f"`{self.words(clause.iter)}` is of type {domain.type}; a quantifier ranges over "
                "a role, a type, a set or pending messages",
            )  # fmt: skip
        inner = scope.bind(**{variable: bound})
        condition: x.Expression | None = None
        if clause.ifs:
            parts = tuple(self.of(i, inner, BOOL) for i in clause.ifs)
            condition = parts[0] if len(parts) == 1 else x.Logic(op="and", operands=parts, place=self.place(tree))
        if isinstance(body_tree, ast.GeneratorExp):
            body: x.Expression = self._quantified(kind, body_tree, inner)
        else:
            body = self.infer(body_tree, inner, BOOL if kind in ("all", "any", "count") else None)
        result: Type
        if kind in ("all", "any", "count"):
            self.want(body, BOOL, body_tree)
            result = INT if kind == "count" else BOOL
        elif kind == "sum":
            self.want(body, INT, body_tree)
            result = INT
        elif kind == "union":
            self.want(body, Set(None), body_tree)
            result = body.type
        else:
            if not isinstance(body, x.Variable) or body.name != variable or isinstance(bound, Message):
                return self.error(
                    "LH304",
                    tree,
                    "a set clause collects its own variable: `{r for r in role if ...}`",
                    remedy="use `union` for anything else",
                )
            result = Set(bound)  # type: ignore[arg-type]
        return x.Quantifier(
            type=result, kind=kind, variable=variable, domain=domain, condition=condition, body=body,
            place=self.place(tree),
        )  # fmt: skip


def _joined(a: Type, b: Type) -> Type | None:
    """The type of what is either: `none` and `{}` take theirs from the other branch."""
    for one, other in ((a, b), (b, a)):
        match one, other:
            case (Unknown(), _):
                return one
            case (Option(of=None), Option()) | (Set(of=None), Set()) | (Int(), Time()):
                return other
            case (Option(of=None), _):
                return Option(other)
    if isinstance(a, Int) and isinstance(b, Int):
        return INT
    return a if agrees(a, b) else b if agrees(b, a) else None


def _binary_type(op: str, a: Type, b: Type) -> Type | None:
    match op, a, b:
        case "|" | "&" | "-", Set(), Set():
            return (a if a.of is not None else b) if agrees(a, b) else None
        case "+" | "-" | "*" | "//" | "%", Int(), Int():
            return INT
        case "+", Time(), Int():
            return TIME
        case "+", Int(), Time():
            return TIME
        case "-", Time(), Int():
            return TIME
        case "-", Time(), Time():
            return INT
    return None


def parse_type(node: Node, names: Mapping[str, Enum | Instance], sink: Sink) -> Type:
    """A type's text (`int`, `set[unit]`, `map[participant, bool]`, `option[time]`) to the type."""
    basic: dict[str, Type] = {"int": INT, "bool": BOOL, "time": TIME, "opaque": OPAQUE}

    def unknown(word: str) -> Type:
        known = [*basic, *names, "set[...]", "map[..., ...]", "option[...]"]
        sink.error(
            "LH507", node.place, f"`{word}` is not a type", near=near_miss(word, known),
            remedy=f"types: {listed(known, 30)}",
        )  # fmt: skip
        return UNKNOWN

    def small(tree: ast.expr) -> Enum | Instance | None:
        found = build(tree)
        if isinstance(found, (Enum, Instance)):
            return found
        if not isinstance(found, Unknown):
            sink.error(
                "LH303", node.place, f"`{ast.unparse(tree)}` has too many values to be counted one by one",
                remedy="sets and the keys of maps are of a role or of a type under `types:`",
            )  # fmt: skip
        return None

    def build(tree: ast.expr) -> Type:
        match tree:
            case ast.Name(id=name):
                return basic.get(name) or names.get(name) or unknown(name)
            case ast.Subscript(value=ast.Name(id="set"), slice=of):
                kind = small(of)
                return Set(kind) if kind else UNKNOWN
            case ast.Subscript(value=ast.Name(id="map"), slice=ast.Tuple(elts=[key, of])):
                kind, inner = small(key), build(of)
                return Map(kind, inner) if kind and not isinstance(inner, Unknown) else UNKNOWN
            case ast.Subscript(value=ast.Name(id="option"), slice=of):
                inner = build(of)
                return UNKNOWN if isinstance(inner, Unknown) else Option(inner)
        return unknown(ast.unparse(tree))

    if node.kind != "text" or len(node.text) > 200 or not node.text.isascii():
        return unknown(node.text[:40] or node.kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = build(ast.parse(node.text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return unknown(node.text[:40])
    if (count := _cells(result)) > MAX_CELLS:
        sink.error(
            "LH306", node.place, f"a value of type {result} has {count:,} cells; at most {MAX_CELLS:,} are possible",
            remedy="use fewer maps of maps",
        )  # fmt: skip
        return UNKNOWN
    return result


def _cells(type_: Type) -> int:
    match type_:
        case Map(key=key, of=of):
            return len(members(key)) * _cells(of)
        case Option(of=of) if of is not None:
            return 1 + _cells(of)
    return 1


def is_small(type_: Type) -> bool:
    return isinstance(type_, (Enum, Instance)) and len(members(type_)) > 0
