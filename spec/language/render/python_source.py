"""An expression as Python source.

A second reading of expression.py, for speed. A `SourceLayout` says where the values lie: in the explorer in a flat
tuple, in a compiled core in the fields of a record. Quantifiers over small types may be unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from leasehold.spec.language import expression as x
from leasehold.spec.language.operators import template
from leasehold.spec.language.types import Enum, Instance, MessageType, Set, Value, members

SHORT = 60

# The functions that source may call.
BUILTINS: Mapping[str, Callable[..., Any]] = {
    f.__name__: f for f in (abs, all, any, bool, enumerate, frozenset, len, max, min, range, sum, tuple)
}


def evaluated(text: str) -> Any:
    """The value of source text, such as a lambda.

    It is compiled first: where Ctrl-C comes while `eval` runs a text, CPython ends the process by SIGINT at its very
    end, whoever has caught it (`exit_sigint` in Modules/main.c).
    """
    return eval(compile(text, "<expression>", "eval"), {"__builtins__": BUILTINS})


class SourceLayout:
    """The layout of the parts of a global state in the tuple."""

    def place(self, role: str, name: str | None, instance: str | None) -> str:
        """Source of a data field (None: the control state) of a machine; `{s}` is the state.

        `instance` is the source of its number; None is the machine whose expression it is.
        """
        raise NotImplementedError

    def members(self, of: Instance | Enum) -> str:
        """Source of the members of a small type, in their order."""
        return f"range({of.count})" if isinstance(of, Instance) else repr(of.members)

    def looked_at(self, e: x.Quantifier, f: Frame) -> str:
        """Source of the members that a quantifier over all members of a type looks at."""
        of = e.domain.type.of if isinstance(e.domain.type, Set) else None
        assert of is not None
        return self.members(of)

    def made_map(self, e: x.Quantifier) -> str | None:
        """Source of a map over all members but those that `looked_at` leaves out.

        `{cells}` are pairs of members and values. None: it leaves out none.
        """
        return None

    def now(self) -> str:
        """Source of the clock; `{s}` is the state."""
        raise NotImplementedError

    def pending(self, name: str, beside: Sequence[str] = ()) -> list[str]:
        """Sources of sequences that together hold the named messages; `{s}` is the state.

        A message is `(number, kind, fields)`; with `beside`, a tuple of that and of what these names of OF_MESSAGES
        say of it.
        """
        raise NotImplementedError

    def query(self, name: str, arguments: Sequence[str]) -> str:
        """Source of a query of the whole state: channels and roles by name, numbers of instances as source."""
        raise NotImplementedError

    def field(self, kind: str, name: str) -> int:
        """The position of a field within a message's fields."""
        raise NotImplementedError


@dataclass(frozen=True)
class Frame:
    """The frame of an expression: how names are written where it stands."""

    layout: SourceLayout
    constants: Mapping[str, Value]
    self: int | str | None = None  # the machine's own number, or its source
    arguments: Mapping[str, str] = field(default_factory=dict)  # field of the event: its source
    sender: str = "None"
    variables: Mapping[str, str] = field(default_factory=dict)
    state: str = "s"
    before: str | None = None
    now: str | None = None  # where the clock is read another way
    constant_names: Mapping[str, str] = field(default_factory=dict)  # constants that stand by name, not by value
    unrolled: bool = True  # quantifiers over small types are written out, member by member


def source(e: x.Expression, f: Frame) -> str:
    """Source text, fully parenthesised; free names are the frame's state and arguments, and `a`, the action taken."""

    def cell(role: str, name: str | None, owner: x.Expression | None) -> str:
        instance = source(owner, f) if owner is not None else None if f.self is None else str(f.self)
        return f.layout.place(role, name, instance).replace("{s}", f.state)

    match e:
        case x.Literal_(value=value):
            return _literal(value)
        case x.ConstantRef(name=name):
            return f.constant_names.get(name) or _literal(f.constants[name])
        case x.Now():
            return f.layout.now().replace("{s}", f.state) if f.now is None else f"({f.now})".replace("{s}", f.state)
        case x.Self():
            return str(f.self)
        case x.Data(role=role, name=name, owner=owner):
            return cell(role, name, owner)
        case x.ControlState(role=role, owner=owner):
            return cell(role, None, owner)
        case x.Argument(name=name):
            return f.arguments[name]
        case x.Sender():
            return f.sender
        case x.BoundVariable(name=name):
            return f.variables[name]
        case x.Apply(op=op):
            return ROWS[op](e, f)
        case x.InstanceAt(type=of, number=number):
            text = source(number, f)
            return str(int(text) % of.count) if text.isdecimal() else f"({text} % {of.count})"
        case x.Quantifier(domain=x.Pending(name=name)):
            return _over_messages(e, name, f)
        case x.Quantifier():
            return _over_members(e, f)
        case x.MessageField(variable=variable, name=name):
            message = f.variables[variable]
            if name == "kind":
                return f"{message}[1]"
            if name in BESIDE:
                return f"{message}_{name}"
            return f"{message}[2][{f.layout.field(f.variables[f'{variable} kind'], name)}]"
        case x.Old(operand=operand):
            assert f.before is not None
            return source(operand, replace(f, state=f.before))
        case x.Accepts():
            return source(e.meaning, f)
        case x.Took(role=role, owner=owner, event=event, ignored=ignored):
            parts = [f"a[1] == {role!r}", "a.consumes"]
            if owner is not None:
                parts.append(f"a[2] == {source(owner, f)}")
            if event is not None:
                parts.append(f"a[3] == {event!r}")
            if ignored:
                parts.append("a[6] is None")  # the transition
            return f"({' and '.join(parts)})"
        case x.GlobalQuery(name=query, owners=owners):
            query_text: str = f.layout.query(query, e.arguments(source(o, f) for o in owners))
            return query_text.replace("{s}", f.state)
        case x.Pending():
            raise TypeError("messages on their way have no value of their own")


Row: TypeAlias = Callable[[x.Apply, Frame], str]


def _words(pattern: str) -> Row:
    write = template(pattern)
    return lambda e, f: write(*(source(o, f) for o in e.operands))


def _items(e: x.Expression) -> tuple[x.Expression, ...]:
    """The items of a set that is written out and not empty."""
    return e.operands if isinstance(e, x.Apply) and e.op == "{}" else ()


def _with_set(pattern: str, literal: str) -> Row:
    """An operator on a set; one that is written out stands as a tuple or set, which is made faster than a frozenset."""
    write, plain = template(pattern), _words(pattern)

    def row(e: x.Apply, f: Frame) -> str:
        if items := _items(e.operands[1]):
            return write(source(e.operands[0], f), literal.replace("...", ", ".join(source(i, f) for i in items)))
        return plain(e, f)

    return row


_member, _combined = partial(_with_set, literal="(...,)"), partial(_with_set, literal="{...}")


def _divided(pattern: str) -> Row:
    write = template(pattern)

    def row(e: x.Apply, f: Frame) -> str:
        a, b = (source(o, f) for o in e.operands)
        return _once(b, lambda b: f"({write(a, b)} if {b} else 0)")

    return row


def _get(e: x.Apply, f: Frame) -> str:
    option, instead = (source(o, f) for o in e.operands)
    return _once(option, lambda value: f"({instead} if {value} is None else {value})")


def _set(e: x.Apply, f: Frame) -> str:
    return f"frozenset(({', '.join(source(i, f) for i in e.operands)},))" if e.operands else "frozenset()"


def _cell(e: x.Apply, f: Frame) -> str:
    (cells, key), of = (source(o, f) for o in e.operands), e.operands[1].type
    return f"{cells}[{of.members!r}.index({key})]" if isinstance(of, Enum) else f"{cells}[{key}]"


def _sequence(e: x.Apply, f: Frame) -> str:
    return f"({''.join(f'{source(i, f)}, ' for i in e.operands)})"


def _item(e: x.Apply, f: Frame) -> str:
    """The value at a place, without a second look at the sequence; a slice takes no place that there is not."""
    values, at = (source(o, f) for o in e.operands)
    if at.isdecimal():
        return f"({values}[{at}:{int(at) + 1}] or (None,))[0]"
    return _once(at, lambda at: f"({values}[max({at}, 0):max({at} + 1, 0)] or (None,))[0]")


def _starts_with(e: x.Apply, f: Frame) -> str:
    values, start = (source(o, f) for o in e.operands)
    return _once(start, lambda start: f"({values}[:len({start})] == {start})")


ROWS: Mapping[str, Row] = {
    "if": _words("({1} if {0} else {2})"),
    "or": _words("({ or })"),
    "and": _words("({ and })"),
    "not": _words("(not {})"),
    "==": _words("({} == {})"),
    "!=": _words("({} != {})"),
    "<": _words("({} < {})"),
    "<=": _words("({} <= {})"),
    ">": _words("({} > {})"),
    ">=": _words("({} >= {})"),
    "in": _member("({} in {})"),
    "not in": _member("({} not in {})"),
    "|": _combined("({} | {})"),
    "&": _combined("({} & {})"),
    "+": _words("({} + {})"),
    "-": _combined("({} - {})"),
    "*": _words("({} * {})"),
    "//": _divided("({} // {})"),
    "%": _divided("({} % {})"),
    "negative": _words("(- {})"),
    "{}": _set,
    "[]": _cell,
    "min": _words("min({, })"),
    "max": _words("max({, })"),
    "abs": _words("abs({})"),
    "len": _words("len({})"),
    "index": _words("{}"),
    "get": _get,
    "[,]": _sequence,
    "item": _item,
    "append": _words("(*{}, {})"),
    "first": _words("({}[:1] or (None,))[0]"),
    "last": _words("({}[-1:] or (None,))[0]"),
    "rest": _words("{}[1:]"),
    "take": _words("{}[:max({}, 0)]"),
    "starts_with": _starts_with,
}


def _literal(value: Value) -> str:
    if isinstance(value, frozenset):
        return f"frozenset({tuple(sorted(value))!r})" if value else "frozenset()"
    return f"({value!r})" if isinstance(value, int) and not isinstance(value, bool) and value < 0 else repr(value)


def _once(text: str, use: Callable[[str], str]) -> str:
    """Source that uses other source twice or more; long source is computed once, so that nesting cannot multiply it."""
    if len(text) <= SHORT:
        return use(text)
    return f"(lambda q: {use('q')})({text})"


# What a message does not have in itself.
BESIDE = ("number", "latest", "sender", "receiver")


def _over_messages(e: x.Quantifier, name: str, f: Frame) -> str:
    variable = f"m{len(f.variables)}"
    assert isinstance(e.domain.type, MessageType)
    kind = e.domain.type.kinds[0] if e.domain.type.kinds else ""
    inner = replace(f, variables={**f.variables, e.variable: variable, f"{e.variable} kind": kind})
    tail = f" if {source(e.condition, inner)}" if e.condition is not None else ""
    template = _comprehension(e, f, _braces(source(e.body, inner)), _braces(tail))
    asked = x.asked_of_message(e)
    beside = tuple(word for word in BESIDE if word in asked)
    parts = [p.replace("{s}", f.state) for p in f.layout.pending(name, beside)]
    every = parts[0] if len(parts) == 1 else "(" + " + ".join(f"tuple({p})" for p in parts) + ")" if parts else "()"
    names = ", ".join((variable, *(f"{variable}_{word}" for word in beside)))
    return template.format(m=f"({names})" if beside else variable, all=every)


def _comprehension(e: x.Quantifier, f: Frame, body: str, tail: str) -> str:
    """A quantifier as Python's own; `{m}` is its variable and `{all}` its domain."""
    match e.kind:
        case "map":
            return f"tuple({body} for {{m}} in {{all}})"
        case "min" | "max":
            otherwise = "" if e.default is None else f", default={_braces(source(e.default, f))}"
            return f"{e.kind}(({body} for {{m}} in {{all}}{tail}){otherwise})"
        case "all" | "any" | "sum":
            return f"{e.kind}({body} for {{m}} in {{all}}{tail})"
        case "count":
            return f"sum(1 for {{m}} in {{all}}{tail}" + (f" and {body})" if tail else f" if {body})")
        case "union":
            return f"frozenset().union(*({body} for {{m}} in {{all}}{tail}))"
        case _:
            return f"frozenset({{m}} for {{m}} in {{all}}{tail})"


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _over_members(e: x.Quantifier, f: Frame) -> str:
    assert isinstance(e.domain.type, Set) and e.domain.type.of is not None
    if not f.unrolled:
        return _rolled(e, f)
    if x.holds_all_members(e.domain):
        return _unrolled(e, f, None)
    return _once(source(e.domain, f), lambda domain: _unrolled(e, f, domain))


def _rolled(e: x.Quantifier, f: Frame) -> str:
    """A quantifier over the members that there are, however many that may be."""
    inner = replace(f, variables={**f.variables, e.variable: f"_{e.variable}"})
    tail = f" if {source(e.condition, inner)}" if e.condition is not None else ""
    domain = f.layout.looked_at(e, f) if x.holds_all_members(e.domain) else source(e.domain, f)
    body = source(e.body, inner)
    if e.kind == "map" and (made := f.layout.made_map(e)) is not None:
        return made.replace("{cells}", f"((_{e.variable}, {body}) for _{e.variable} in {domain})")
    template = _comprehension(e, f, _braces(body), _braces(tail))
    return template.format(m=f"_{e.variable}", all=domain)


def _unrolled(e: x.Quantifier, f: Frame, domain: str | None) -> str:
    """A quantifier over the members of its type; only those within the domain's source count (None: all do)."""
    assert isinstance(e.domain.type, Set) and e.domain.type.of is not None
    bodies: list[tuple[str, str | None, str]] = []  # member, its condition, its body
    for member in members(e.domain.type.of):
        inner = replace(f, variables={**f.variables, e.variable: _literal(member)})
        tests = [] if domain is None else [f"{_literal(member)} in {domain}"]
        if e.condition is not None:
            tests.append(source(e.condition, inner))
        test = f"({' and '.join(tests)})" if tests else None
        bodies.append((_literal(member), test, source(e.body, inner)))
    match e.kind:
        case "all":
            return _join(" and ", [b if t is None else f"(not {t} or {b})" for _, t, b in bodies], "True")
        case "any":
            return _join(" or ", [b if t is None else f"({t} and {b})" for _, t, b in bodies], "False")
        case "count":
            parts = [f"bool({b})" if t is None else f"bool({t} and {b})" for _, t, b in bodies]
            return f"(0 + {parts[0]})" if len(parts) == 1 else _join(" + ", parts, "0")  # a sum of several is an int
        case "sum":
            return _join(" + ", [b if t is None else f"({b} if {t} else 0)" for _, t, b in bodies], "0")
        case "map":
            return f"({', '.join(b for _, _, b in bodies)},)"
        case "min" | "max":
            values = ", ".join(b if t is None else f"*(({b},) if {t} else ())" for _, t, b in bodies)
            otherwise = "" if e.default is None else f", default={source(e.default, f)}"
            return f"{e.kind}(({values},){otherwise})"
        case "union":
            sets = [b if t is None else f"({b} if {t} else frozenset())" for _, t, b in bodies]
            return _join(" | ", sets, "frozenset()")
        case _:
            chosen = ", ".join(f"*(({m},) if {t or 'True'} else ())" for m, t, _ in bodies)
            return f"frozenset(({chosen},))" if bodies else "frozenset()"


def _join(glue: str, parts: list[str], empty: str) -> str:
    return f"({glue.join(parts)})" if parts else empty
