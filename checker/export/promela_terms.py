"""Expressions in Promela, each as the row of scalars that holds its value.

Quantifiers are written out, member by member and slot by slot: Promela has none. What an expression reads of the state
before a step (`old`) is noted, as the model has to remember it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

from leasehold.checker.export.promela_layout import PromelaNames, Scalar, safe, scalars, stored
from leasehold.checker.export.promela_messages import (
    PromelaBindings,
    entries,
    entry,
    heard,
    joined,
    kind_of,
    same_message,
    stands_at,
)
from leasehold.checker.export.shared import Unsupported
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.operators import template


def term(e: x.Expression, f: PromelaBindings) -> str:
    """An expression whose value is one scalar.

    Raises:
        Unsupported: Promela has no word for it.
    """
    match e:
        case x.Literal_(type=kind, value=value):
            return f.layout.literal(kind, value)[0]
        case x.ConstantRef(name=name):
            return f.layout.constant(name)
        case x.Now():
            return _before(f, "clock", "now", "Old_clock") if f.old else "clock"
        case x.Self():
            return f.me
        case x.ControlState():
            return _control(e, f)
        case x.Sender():
            return f.sender
        case x.BoundVariable(name=name):
            found = f.variables[name]
            assert isinstance(found, str)
            return found
        case x.Apply(op=op):
            return ROWS[op](e, f)
        case x.Quantifier():
            return _quantifier(e, f)
        case x.MessageField(variable=variable, name="number"):
            return entry(variable, f).number
        case x.MessageField(variable=variable, name="kind"):
            return kind_of(entry(variable, f), f)
        case x.GlobalQuery(name="heard", subjects=(channel,)):
            return heard(channel, f)
        case x.GlobalQuery(name=query):
            return str(x.WITHOUT_FAULTS[query]).lower()
        case x.Old(operand=operand):
            return term(operand, replace(f, old=True))
        case x.Took(role=role, owner=owner, event=event):
            f.asked.add("took")
            parts = [f"Took_role == {f.layout.role(role)}"]
            parts += [f"Took_instance == {term(owner, f)}"] if owner is not None else []
            parts += [f"Took_event == {f.layout.event(event)}"] if event is not None else []
            return joined(" && ", parts, "true")
        case x.Pending():
            raise TypeError("messages on their way have no value of their own")
        case _:
            return _one(row(e, f))


def _one(scalars_: list[str]) -> str:
    (found,) = scalars_
    return found


def row(e: x.Expression, f: PromelaBindings, want: t.Type | None = None) -> list[str]:
    """An expression as the scalars of its value, or of a wanted type that agrees with its own."""
    kind = want if isinstance(want, t.Option) else e.type
    if isinstance(kind, t.Option):
        return _option(e, f, kind)
    if isinstance(kind, t.Map):
        if isinstance(want, t.Map) and isinstance(want.of, t.Option) and not isinstance(kind.of, t.Option):
            raise Unsupported("a map stands where a map of options is wanted", "say it cell by cell", e.place)
        return [s for k in range(len(t.members(kind.key))) for s in cell(e, f, str(k))]
    match e:
        case x.Data() | x.Argument() | x.Apply(op="[]") | x.MessageField() if not _named(e):
            return _read(e, f)
        case x.Old(operand=operand):
            return row(operand, replace(f, old=True), want)
        case _:
            return [term(e, f)]


def _named(e: x.Expression) -> bool:
    return isinstance(e, x.MessageField) and e.name in ("number", "kind")


def _option(e: x.Expression, f: PromelaBindings, kind: t.Option) -> list[str]:
    width = len(scalars("", kind.of)) if kind.of is not None else 1
    match e:
        case x.Literal_(value=None):
            return ["false"] + ["0"] * width
        case x.Apply(op="if", operands=(test, then, otherwise)):
            both = zip(_option(then, f, kind), _option(otherwise, f, kind), strict=True)
            return [f"({term(test, f)} -> {a} : {b})" for a, b in both]
        case x.Old(operand=operand):
            return _option(operand, replace(f, old=True), kind)
        case _ if isinstance(e.type, t.Option):
            return _read(e, f) if not isinstance(e, x.Literal_) else f.layout.literal(e.type, e.value)
        case _:
            return ["true", *row(e, f)]


def _read(e: x.Expression, f: PromelaBindings) -> list[str]:
    """What is read as it lies: a field of a record, event or message, or a cell of a map."""
    match e:
        case x.Data(role=role, name=name, owner=owner):
            if f.commit is not None and role == f.role:
                return _committed(e, f, None)
            place = f.layout.machine(role, _owner(owner, f), f.old)
            return [f"{place}.{safe(_note(f, role, leaf))}" for leaf, _ in scalars(name, e.type)]
        case x.Argument(name=name):
            return f.arguments[name]
        case x.MessageField(variable=variable, name=name):
            found = entry(variable, f)
            (fields,) = [of for of in found.fields.values() if name in of]
            return fields[name]
        case x.Apply(op="[]", operands=(map_, key)):
            return cell(map_, f, term(key, f))
        case _:
            raise Unsupported(f"`{x.text(e)}` has no word in Promela", "write it another way", e.place)


def cell(e: x.Expression, f: PromelaBindings, key: str) -> list[str]:
    """One cell of a map, as its scalars."""
    assert isinstance(e.type, t.Map)
    match e:
        case x.Data(role=role, name=name, owner=owner):
            if f.commit is not None and role == f.role:
                return _committed(e, f, key)
            place = f.layout.machine(role, _owner(owner, f), f.old)
            return [f"{place}.{safe(_note(f, role, leaf))}[{key}]" for leaf, _, _ in stored(name, e.type)]
        case x.Apply(op="if", operands=(test, then, otherwise)):
            both = zip(cell(then, f, key), cell(otherwise, f, key), strict=True)
            return [f"({term(test, f)} -> {a} : {b})" for a, b in both]
        case x.Old(operand=operand):
            return cell(operand, replace(f, old=True), key)
        case x.Literal_(type=kind, value=value):
            return _chosen(f.layout.literal(kind, value), e.type, key)
        case _:
            return _chosen(_read(e, f), e.type, key)


def _chosen(cells: list[str], kind: t.Map, key: str) -> list[str]:
    """The scalars of one cell among those of all."""
    count = len(t.members(kind.key))
    width = len(cells) // count
    if key.isdigit():
        return cells[int(key) * width : (int(key) + 1) * width]
    found = cells[-width:]
    for k in range(count - 2, -1, -1):
        pairs = zip(cells[k * width : (k + 1) * width], found, strict=True)
        found = [f"({key} == {k} -> {a} : {b})" for a, b in pairs]
    return found


# A record as it will be


def _committed(e: x.Data, f: PromelaBindings, key: str | None) -> list[str]:
    """A field of the own record, or a cell of it, after the updates of a transition."""
    commit = f.commit
    assert commit is not None
    if not (e.owner is None or isinstance(e.owner, x.Self)):
        raise Unsupported(
            f"whether there is room in a channel depends on `{x.text(e)}`, a field of another machine of this role",
            "let the task read its own record alone", e.place,
        )  # fmt: skip
    update = commit.updates.get(e.name)
    own = replace(e, owner=None)
    if update is None:
        return row(own, commit.before) if key is None else cell(own, commit.before, key)
    if update.key is None:
        return row(update.value, commit.before, e.type) if key is None else cell(update.value, commit.before, key)
    assert isinstance(e.type, t.Map)
    if key is None:
        return [s for k in range(len(t.members(e.type.key))) for s in _committed(e, f, str(k))]
    new = row(update.value, commit.before, e.type.of)
    pairs = zip(new, cell(own, commit.before, key), strict=True)
    return [f"({term(update.key, commit.before)} == {key} -> {a} : {b})" for a, b in pairs]


# Machines


def _owner(owner: x.Expression | None, f: PromelaBindings) -> str:
    return f.me if owner is None else term(owner, f)


def _control(e: x.ControlState, f: PromelaBindings) -> str:
    if f.commit is not None and e.role == f.role:
        if e.owner is None or isinstance(e.owner, x.Self):
            return f.commit.target
        raise Unsupported(
            f"whether there is room in a channel depends on `{x.text(e)}`", "let the task read its own record alone",
            e.place,
        )  # fmt: skip
    return f"{f.layout.machine(e.role, _owner(e.owner, f), f.old)}.{_note(f, e.role, 'state')}"


def _note(f: PromelaBindings, owner: str, name: str) -> str:
    if f.old:
        f.noted.add((owner, name))
    return name


def _before(f: PromelaBindings, owner: str, name: str, word: str) -> str:
    f.noted.add((owner, name))
    return word


# Operators


Row: TypeAlias = Callable[[x.Apply, PromelaBindings], str]


def _words(words: str, sets: str = "") -> Row:
    """A row of words, for sets other words."""
    number, set_ = template(words), template(sets or words)

    def row(e: x.Apply, f: PromelaBindings) -> str:
        write = set_ if isinstance(e.operands[0].type, t.Set) else number
        return write(*(term(o, f) for o in e.operands))

    return row


def _pairwise(name: str) -> Row:
    return lambda e, f: reduce(lambda a, b: f"{name}({a}, {b})", [term(o, f) for o in e.operands])


def _get(e: x.Apply, f: PromelaBindings) -> str:
    option, fallback = e.operands
    some, value = row(option, f, t.Option(e.type))
    return f"({some} -> {value} : {term(fallback, f)})"


def _set(e: x.Apply, f: PromelaBindings) -> str:
    return joined(" | ", [_bit(i, f) for i in e.operands], "0")


def _equal(e: x.Apply, f: PromelaBindings) -> str:
    a, b = e.operands
    if isinstance(a.type, t.MessageType):
        return same_message(a, b, f)
    if isinstance(a.type, t.Option | t.Map) or isinstance(b.type, t.Option):
        want: t.Type = b.type if isinstance(b.type, t.Option) and b.type.of is not None else a.type
        if isinstance(want, t.Option) and want.of is None:
            want = b.type
        pairs = zip(row(a, f, want), row(b, f, want), strict=True)
        return joined(" && ", [f"{p} == {q}" for p, q in pairs], "true")
    return f"({term(a, f)} == {term(b, f)})"


def _unequal(e: x.Apply, f: PromelaBindings) -> str:
    a, b = e.operands
    if isinstance(a.type, t.MessageType | t.Option | t.Map) or isinstance(b.type, t.Option):
        return f"(!{_equal(e, f)})"
    return f"({term(a, f)} != {term(b, f)})"


def _proper_subset(symbol: str) -> Row:
    number = _words(f"({{}} {symbol} {{}})")

    def row(e: x.Apply, f: PromelaBindings) -> str:
        if isinstance(e.operands[0].type, t.Set):
            raise Unsupported(f"`{x.text(e)}` asks for a proper subset", "use `<=` and `!=`", e.place)
        return number(e, f)

    return row


def _within(e: x.Apply, f: PromelaBindings) -> str:
    a, b = e.operands
    if isinstance(b, x.Apply) and b.op == "{}":
        return joined(" || ", [f"{term(a, f)} == {term(i, f)}" for i in b.operands], "false")
    return f"BIT({term(b, f)}, {term(a, f)})"


ROWS: Mapping[str, Row] = {
    "if": _words("({} -> {} : {})"),
    "or": _words("({ || })"),
    "and": _words("({ && })"),
    "not": _words("(!{})"),
    "==": _equal,
    "!=": _unequal,
    "<": _proper_subset("<"),
    "<=": _words("({} <= {})", sets="(({} & ~{}) == 0)"),
    ">": _proper_subset(">"),
    ">=": _words("({} >= {})", sets="(({1} & ~{0}) == 0)"),
    "in": _within,
    "not in": lambda e, f: f"(!{_within(e, f)})",
    "|": _words("({} | {})"),
    "&": _words("({} & {})"),
    "+": _words("({} + {})"),
    "-": _words("({} - {})", sets="({} & ~{})"),
    "*": _words("({} * {})"),
    "//": _words("DIV({}, {})"),
    "%": _words("MOD({}, {})"),
    "negative": _words("(-{})"),
    "{}": _set,
    "[]": lambda e, f: _one(_read(e, f)),
    "min": _pairwise("MIN"),
    "max": _pairwise("MAX"),
    "abs": _words("({0} < 0 -> -{0} : {0})"),
    "len": _words("SIZE({})"),
    "index": _words("{}"),
    "get": _get,
}


def _bit(e: x.Expression, f: PromelaBindings) -> str:
    word = term(e, f)
    return str(1 << int(word)) if word.isdigit() else f"(1 << {word})"


# Quantifiers


def _quantifier(e: x.Quantifier, f: PromelaBindings) -> str:
    parts: list[tuple[str, list[str], str]] = []  # the member's bit, its conditions, its body
    if isinstance(e.domain, x.Pending):
        for m in entries(e.domain.name, f):
            inner = replace(f, variables={**f.variables, e.variable: m})
            tests = [stands_at(m, e.domain.name, f)]
            tests += [term(e.condition, inner)] if e.condition is not None else []
            parts.append(("", tests, "" if x.counts_pending(e) else term(e.body, inner)))
    else:
        assert isinstance(e.domain.type, t.Set) and e.domain.type.of is not None
        of = e.domain.type.of
        for place, member in enumerate(t.members(of)):
            word = f.layout.literal(of, member)[0]
            inner = replace(f, variables={**f.variables, e.variable: word})
            tests = [] if x.holds_all_members(e.domain) else [f"BIT({term(e.domain, f)}, {word})"]
            tests += [term(e.condition, inner)] if e.condition is not None else []
            parts.append((str(1 << place), tests, "" if e.kind == "set" else term(e.body, inner)))
    return _gathered(e, parts)


def _gathered(e: x.Quantifier, parts: list[tuple[str, list[str], str]]) -> str:
    tested = [(bit, joined(" && ", tests, ""), body) for bit, tests, body in parts]
    match e.kind:
        case "all":
            return joined(" && ", [f"(!{c} || {b})" if c else b for _, c, b in tested], "true")
        case "any":
            return joined(" || ", [f"({c} && {b})" if c else b for _, c, b in tested], "false")
        case "count":
            return joined(" + ", [f"({c} && {b})" if c and b else c or f"({b})" for _, c, b in tested], "0")
        case "sum":
            return joined(" + ", [f"({c} -> {b} : 0)" if c else b for _, c, b in tested], "0")
        case "union":
            return joined(" | ", [f"({c} -> {b} : 0)" if c else b for _, c, b in tested], "0")
        case _:
            return joined(" | ", [f"({c} -> {bit} : 0)" if c else bit for bit, c, _ in tested], "0")


def initial_scalars(layout: PromelaNames, name: str, kind: t.Type, value: t.Value) -> list[tuple[str, str]]:
    """The places of a datum within its record, with the scalars of a value."""
    words = layout.literal(kind, value)
    if not isinstance(kind, t.Map):
        leaves: list[Scalar] = scalars(name, kind)
        return [(safe(leaf), word) for (leaf, _), word in zip(leaves, words, strict=True)]
    fields = stored(name, kind)
    return [
        (f"{safe(leaf)}[{k}]", words[k * len(fields) + n])
        for k in range(len(t.members(kind.key)))
        for n, (leaf, _, _) in enumerate(fields)
    ]
