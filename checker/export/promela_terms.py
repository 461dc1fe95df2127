"""Expressions in Promela, each as the words for its value (promela_layout.py).

Machines and members of small types are known, so that quantifiers are written out, member by member and place by place.
A condition or number stands by itself: it is one word, or in parentheses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from leasehold.checker.export.promela_layout import (
    SEQUENCES,
    MessagePlace,
    PromelaNames,
    Words,
    both,
    chosen,
    either,
    fitted,
    flat,
    opposite,
    pieces,
    same,
    sequence,
    sequence_words,
)
from leasehold.checker.export.shared import ExportError, Row, Rows
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.operators import OF_SEQUENCES
from leasehold.spec.language.render.sequences import SequenceValue

# What a transition writes, by role (or SHARED) and name; its machine's control state has no name.
Committed: TypeAlias = Mapping[tuple[str, str], Words]


@dataclass(frozen=True)
class PromelaBindings:
    """The ways in which names are written where an expression stands.

    Attributes:
        role, me: the machine whose own record is read.
        old: the state before the step is read.
        committed: what a transition writes, where the state after it is read.
    """

    names: PromelaNames
    role: str = ""
    me: str = ""
    arguments: Mapping[str, Words] = field(default_factory=dict)
    sender: str = "0"
    variables: Mapping[str, str | MessagePlace] = field(default_factory=dict)
    old: bool = False
    committed: Committed | None = None


def word(e: x.Expression, f: PromelaBindings) -> str:
    """An expression whose value is one scalar."""
    scalar = term(e, f)
    assert isinstance(scalar, str)
    return scalar


def term(e: x.Expression, f: PromelaBindings, want: t.Type | None = None) -> Words:
    """An expression, as a value of its own type or of a wanted one that agrees with it.

    Raises:
        ExportError: Promela has no word for it.
    """
    value = _term(e, f)
    return value if want is None else fitted(value, e.type, want)


def _term(e: x.Expression, f: PromelaBindings) -> Words:
    match e:
        case x.Literal_(type=kind, value=value):
            return f.names.literal(kind, value)
        case x.ConstantRef(name=name):
            return f.names.define("constant", name)
        case x.Now():
            return f.names.place("clock", None, f.old)
        case x.Self():
            return f.me
        case x.Data(role=role, name=name, owner=owner):
            if (role, name) in (committed := _committed(e, role, owner, f)):
                return committed[role, name]
            return f.names.data(_machine(f, role, owner), name, e.type)
        case x.ControlState(role=role, owner=owner):
            return _committed(e, role, owner, f).get((role, "")) or f"{_machine(f, role, owner)}.state"
        case x.Argument(name=name):
            return f.arguments[name]
        case x.Sender():
            return f.sender
        case x.BoundVariable(name=name):
            bound = f.variables[name]
            assert isinstance(bound, str)
            return bound
        case x.Apply(op=op):
            result: Words = ROWS[op](e, f)
            return result
        case x.InstanceAt(type=of, number=number):
            return f"MOD({word(number, f)}, {of.count})"
        case x.Quantifier():
            return _quantifier(e, f)
        case x.MessageField(name="latest"):
            raise ExportError("the model keeps numbers of messages on their way alone", "compare the messages", e.place)
        case x.MessageField(variable=variable, name=name):
            return _message(variable, f).fields[name]
        case x.GlobalQuery(name="heard", subjects=(channel,)):
            return _heard(channel, f)
        case x.GlobalQuery(name="heard"):
            raise ExportError("`heard` of one machine is not exported", "ask it of the whole channel", e.place)
        case x.GlobalQuery(name=query):
            return str(x.WITHOUT_FAULTS[query]).lower()
        case x.Old(operand=operand):
            return term(operand, replace(f, old=True))
        case x.Accepts():
            return term(e.meaning, f)
        case x.Took(role=role, owner=owner, event=event, ignored=ignored):
            parts = [f"(Took_role == {f.names.define('role', role)})"]
            parts += [f"(Took_instance == {word(owner, f)})"] if owner is not None else []
            parts += [f"(Took_event == {f.names.define('event', event)})"] if event is not None else []
            parts += ["Took_ignored"] if ignored else []
            return both(parts)
        case _:
            raise ExportError(f"`{x.text(e)}` has no word in Promela", "write it another way", e.place)


# Machines


def _machine(f: PromelaBindings, role: str, owner: x.Expression | None) -> str:
    return f.names.machine(role, f.me if owner is None else word(owner, f), f.old)


def _committed(e: x.Expression, role: str, owner: x.Expression | None, f: PromelaBindings) -> Committed:
    """Returns what a transition commits of a record, or of shared variables, that are read after it."""
    if f.committed is None or role not in (f.role, x.SHARED.name):
        return {}
    if role == x.SHARED.name or owner is None or isinstance(owner, x.Self):
        return f.committed
    which = ", a field of another machine of this role" if isinstance(e, x.Data) else ""
    raise ExportError(
        f"whether there is room in a channel depends on `{x.text(e)}`{which}",
        "let the task read its own record alone",
        e.place,
    )


# Messages


def _message(variable: str, f: PromelaBindings) -> MessagePlace:
    place = f.variables[variable]
    assert isinstance(place, MessagePlace)
    return place


def _same_message(a: x.Expression, b: x.Expression, f: PromelaBindings) -> str:
    assert isinstance(a, x.BoundVariable) and isinstance(b, x.BoundVariable)
    one, other = _message(a.name, f), _message(b.name, f)
    if one.channel != other.channel or len(one.identity) != len(other.identity):
        return "false"
    return same(one.identity, other.identity)


def _heard(name: str, f: PromelaBindings) -> str:
    if f.names.ranked(f.names.system.channels[name]):
        return both([f"({f.names.lane(lane, f.old)}.newest == 0)" for lane in f.names.lanes[name]])
    return both([opposite(m.present) for m in f.names.message_places(name, f.old)])


# Operators


_ROWS = Rows(word)


def _joins(join: Callable[[list[str]], str]) -> Row:
    return lambda e, f: join([word(o, f) for o in e.operands])


def _if(e: x.Apply, f: PromelaBindings) -> Words:
    test, then, otherwise = e.operands
    if isinstance(e.type, t.Seq):
        return _sequence(e, f)
    kind = t.wider(then.type, otherwise.type)
    return chosen(word(test, f), term(then, f, kind), term(otherwise, f, kind))


def _get(e: x.Apply, f: PromelaBindings) -> Words:
    option, other = e.operands
    kind = t.wider(option.type, t.Option(other.type))
    assert isinstance(kind, t.Option) and kind.of is not None
    some, value = pieces(term(option, f, kind))
    assert isinstance(some, str)
    return chosen(some, value, term(other, f, kind.of))


def _cell(e: x.Apply, f: PromelaBindings) -> Words:
    cells, key = list(term(e.operands[0], f)), word(e.operands[1], f)
    value = cells[-1]
    for k in range(len(cells) - 2, -1, -1):
        value = chosen(same(key, str(k)), cells[k], value)
    return value


def _sequence(e: x.Apply, f: PromelaBindings) -> Words:
    def read(operand: x.Expression, inside: bool, want: t.Type | None) -> Words | SequenceValue[str]:
        words = term(operand, f, want)
        return sequence(words) if isinstance(operand.type, t.Seq) and not inside else words

    made = SEQUENCES.made(e, read, "0")
    return sequence_words(made) if isinstance(made, SequenceValue) else made


def _of_either(row: Row, place: int = 0) -> Row:
    """A row, or that of sequences where the operand at a place is one."""
    return lambda e, f: _sequence(e, f) if isinstance(e.operands[place].type, t.Seq) else row(e, f)


def _equal(e: x.Apply, f: PromelaBindings) -> str:
    a, b = e.operands
    if isinstance(a.type, t.MessageType):
        return _same_message(a, b, f)
    want = t.wider(a.type, b.type)
    return same(term(a, f, want), term(b, f, want))


def _within(e: x.Apply, f: PromelaBindings) -> str:
    a, b = e.operands
    if isinstance(b, x.Apply) and b.op == "{}":
        return either([same(word(a, f), word(i, f)) for i in b.operands])
    return f"BIT({word(b, f)}, {word(a, f)})"


def _bits(terms: list[str]) -> str:
    return f"({' | '.join(str(1 << int(w)) if w.isdigit() else f'(1 << {w})' for w in terms) or '0'})"


ROWS: Mapping[str, Row] = {
    "if": _if,
    "or": _joins(either),
    "and": _joins(both),
    "not": lambda e, f: opposite(word(e.operands[0], f)),
    "==": _equal,
    "!=": lambda e, f: opposite(_equal(e, f)),
    "<": _ROWS.proper("<"),
    "<=": _ROWS.words("({} <= {})", sets="(({} & ~{}) == 0)"),
    ">": _ROWS.proper(">"),
    ">=": _ROWS.words("({} >= {})", sets="(({1} & ~{0}) == 0)"),
    "in": _of_either(_within, 1),
    "not in": _of_either(lambda e, f: opposite(_within(e, f)), 1),
    "|": _ROWS.words("({} | {})"),
    "&": _ROWS.words("({} & {})"),
    "+": _of_either(_ROWS.words("({} + {})")),
    "-": _ROWS.words("({} - {})", sets="({} & ~{})"),
    "*": _ROWS.words("({} * {})"),
    "//": _ROWS.words("DIV({}, {})"),
    "%": _ROWS.words("MOD({}, {})"),
    "negative": _ROWS.words("(-{})"),
    "{}": _joins(_bits),
    "[]": _cell,
    "min": _ROWS.pairwise("MIN"),
    "max": _ROWS.pairwise("MAX"),
    "abs": _ROWS.words("({0} < 0 -> -{0} : {0})"),
    "len": _of_either(_ROWS.words("SIZE({})")),
    "index": _ROWS.words("{}"),
    "get": _get,
    **dict.fromkeys(OF_SEQUENCES, _sequence),
}


# Quantifiers


def _quantifier(e: x.Quantifier, f: PromelaBindings) -> Words:
    """The quantifier written out: of each case a bit of a set, its condition and its body."""
    if isinstance(e.type, t.Map):
        every = [replace(f, variables={**f.variables, e.variable: value}) for _, _, value in _domain(e.domain, f)]
        return tuple(term(e.body, inner, t.wider(e.type.of, e.body.type)) for inner in every)
    cases: list[tuple[str, str, str]] = []
    for bit, present, value in _domain(e.domain, f):
        inner = replace(f, variables={**f.variables, e.variable: value})
        test = both([present, *([word(e.condition, inner)] if e.condition is not None else [])])
        cases.append((bit, test, "" if e.kind == "set" else word(e.body, inner)))
    match e.kind:
        case "all":
            return both([either([opposite(test), body]) for _, test, body in cases])
        case "any":
            return either([both([test, body]) for _, test, body in cases])
        case "count":
            glue, parts = " + ", [both([test, body]) for _, test, body in cases]
        case "sum":
            glue, parts = " + ", [str(chosen(test, body, "0")) for _, test, body in cases]
        case "min" | "max":
            return _extreme(e, [(test, body) for _, test, body in cases], f)
        case "union":
            glue, parts = " | ", [str(chosen(test, body, "0")) for _, test, body in cases]
        case _:
            glue, parts = " | ", [str(chosen(test, bit, "0")) for bit, test, _ in cases]
    return f"({glue.join(parts) or '0'})"


def _extreme(e: x.Quantifier, cases: list[tuple[str, str]], f: PromelaBindings) -> str:
    """The body of the first case that no other one beats; the default where there is no case."""
    order = "<=" if e.kind == "min" else ">="
    value = "0" if e.default is None else word(e.default, f)
    for n, (test, body) in reversed([*enumerate(cases)]):
        best = [
            either([opposite(other), f"({body} {order} {value})"]) for m, (other, value) in enumerate(cases) if m != n
        ]
        value = str(chosen(both([test, *best]), body, value))
    return value


def _domain(domain: x.Expression, f: PromelaBindings) -> list[tuple[str, str, str | MessagePlace]]:
    """Returns, for each case of a quantifier, a bit, the condition for it to be there, and the variable's value."""
    if isinstance(domain, x.Pending):
        return [("", m.present, m) for m in f.names.message_places(domain.name, f.old)]
    assert isinstance(domain.type, t.Set) and domain.type.of is not None
    of = domain.type.of
    whole = "" if x.holds_all_members(domain) else word(domain, f)
    names = [flat(f.names.literal(of, member))[0] for member in t.members(of)]
    return [(str(1 << n), f"BIT({whole}, {name})" if whole else "true", name) for n, name in enumerate(names)]
