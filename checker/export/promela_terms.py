"""Expressions in Promela, each as the row of scalars that holds its value.

Quantifiers are written out, member by member and slot by slot: Promela has none. What an expression reads of the state
before a step (`old`) is noted, as the model has to remember it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from leasehold.checker.export.promela_layout import Joint, Layout, Scalar, safe, scalars, stored
from leasehold.checker.export.shared import Unsupported, numbered, over
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Message, Update


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that may be on its way: a slot of a joint, or a member of a set."""

    present: str
    channel: str
    number: str
    kinds: Mapping[str, str]  # by kind of message: whether it is one
    fields: Mapping[str, Mapping[str, list[str]]]  # by kind and field
    whole: list[str] | None  # the scalars of the slot; None for a member of a set


@dataclass(frozen=True, slots=True)
class Commit:
    """A transition's updates, for an expression over the record as it will be."""

    updates: Mapping[str, Update]
    target: str
    before: Frame


@dataclass(frozen=True)
class Frame:
    """How names are written where an expression stands."""

    layout: Layout
    role: str = ""  # whose own record it reads
    me: str = ""
    arguments: Mapping[str, list[str]] = field(default_factory=dict)
    sender: str = "0"
    variables: Mapping[str, str | Entry] = field(default_factory=dict)
    old: bool = False
    commit: Commit | None = None
    noted: set[tuple[str, str]] = field(default_factory=set)  # what of the state before is read: owner and name
    asked: set[str] = field(default_factory=set)  # `took`, where it is asked


def term(e: x.Expression, f: Frame) -> str:
    """An expression whose value is one scalar.

    Raises:
        Unsupported: Promela has no word for it.
    """
    match e:
        case x.Literal_(type=kind, value=value):
            return f.layout.literal(kind, value)[0]
        case x.Constant(name=name):
            return f.layout.constant(name)
        case x.Now():
            return _before(f, "clock", "now", "Old_clock") if f.old else "clock"
        case x.Self():
            return f.me
        case x.State():
            return _control(e, f)
        case x.Sender():
            return f.sender
        case x.Variable(name=name):
            found = f.variables[name]
            assert isinstance(found, str)
            return found
        case x.Unary(op=op, operand=operand):
            return f"({'!' if op == 'not' else '-'}{term(operand, f)})"
        case x.Binary():
            return _binary(e, f)
        case x.Compare():
            return _compare(e, f)
        case x.Logic(op=op, operands=operands):
            return _join(" && " if op == "and" else " || ", [term(o, f) for o in operands], "true")
        case x.Extreme(op=op, operands=operands):
            found, *others = [term(o, f) for o in operands]
            for other in others:
                found = f"{op.upper()}({found}, {other})"
            return found
        case x.Length(operand=x.Pending(name=name)):
            return _join(" + ", [f"({_is(m, name, f)})" for m in entries(name, f)], "0")
        case x.Length(operand=operand):
            return f"SIZE({term(operand, f)})"
        case x.Index(operand=operand):
            return term(operand, f)
        case x.Get(option=option, fallback=fallback):
            some, value = row(option, f, t.Option(e.type))
            return f"({some} -> {value} : {term(fallback, f)})"
        case x.SetOf(items=items):
            return _join(" | ", [_bit(i, f) for i in items], "0")
        case x.Members(of=of):
            return str((1 << len(t.members(of))) - 1)
        case x.Quantifier():
            return _quantifier(e, f)
        case x.MessageField(variable=variable, name="number"):
            return _entry(variable, f).number
        case x.MessageField(variable=variable, name="kind"):
            return _kind_of(_entry(variable, f), f)
        case x.Heard(name=name):
            return _heard(name, f)
        case x.Old(operand=operand):
            return term(operand, replace(f, old=True))
        case x.Took(role=role, owner=owner, event=event):
            f.asked.add("took")
            parts = [f"Took_role == {f.layout.role(role)}"]
            parts += [f"Took_instance == {term(owner, f)}"] if owner is not None else []
            parts += [f"Took_event == {f.layout.event(event)}"] if event is not None else []
            return _join(" && ", parts, "true")
        case x.Running() | x.Reachable():
            return "true"
        case x.Byzantine():
            return "false"
        case x.Pending():
            raise TypeError("messages on their way have no value of their own")
        case _:
            found_row = row(e, f)
            assert len(found_row) == 1, e
            return found_row[0]


def row(e: x.Expression, f: Frame, want: t.Type | None = None) -> list[str]:
    """An expression as the scalars of its value, or of a wanted type that agrees with its own."""
    kind = want if isinstance(want, t.Option) else e.type
    if isinstance(kind, t.Option):
        return _option(e, f, kind)
    if isinstance(kind, t.Map):
        if isinstance(want, t.Map) and isinstance(want.of, t.Option) and not isinstance(kind.of, t.Option):
            raise Unsupported("a map stands where a map of options is wanted", "say it cell by cell", e.place)
        return [s for k in range(len(t.members(kind.key))) for s in cell(e, f, str(k))]
    match e:
        case x.Conditional(test=test, then=then, otherwise=otherwise):
            return [f"({term(test, f)} -> {term(then, f)} : {term(otherwise, f)})"]
        case x.Data() | x.Argument() | x.Element() | x.MessageField() if not _named(e):
            return _read(e, f)
        case x.Old(operand=operand):
            return row(operand, replace(f, old=True), want)
        case _:
            return [term(e, f)]


def _named(e: x.Expression) -> bool:
    return isinstance(e, x.MessageField) and e.name in ("number", "kind")


def _option(e: x.Expression, f: Frame, kind: t.Option) -> list[str]:
    width = len(scalars("", kind.of)) if kind.of is not None else 1
    match e:
        case x.Literal_(value=None):
            return ["false"] + ["0"] * width
        case x.Conditional(test=test, then=then, otherwise=otherwise):
            both = zip(_option(then, f, kind), _option(otherwise, f, kind), strict=True)
            return [f"({term(test, f)} -> {a} : {b})" for a, b in both]
        case x.Old(operand=operand):
            return _option(operand, replace(f, old=True), kind)
        case _ if isinstance(e.type, t.Option):
            return _read(e, f) if not isinstance(e, x.Literal_) else f.layout.literal(e.type, e.value)
        case _:
            return ["true", *row(e, f)]


def _read(e: x.Expression, f: Frame) -> list[str]:
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
            found = _entry(variable, f)
            (fields,) = [of for of in found.fields.values() if name in of]
            return fields[name]
        case x.Element(map=map_, key=key):
            return cell(map_, f, term(key, f))
        case _:
            raise Unsupported(f"`{x.text(e)}` has no word in Promela", "write it another way", e.place)


def cell(e: x.Expression, f: Frame, key: str) -> list[str]:
    """One cell of a map, as its scalars."""
    assert isinstance(e.type, t.Map)
    match e:
        case x.Data(role=role, name=name, owner=owner):
            if f.commit is not None and role == f.role:
                return _committed(e, f, key)
            place = f.layout.machine(role, _owner(owner, f), f.old)
            return [f"{place}.{safe(_note(f, role, leaf))}[{key}]" for leaf, _, _ in stored(name, e.type)]
        case x.Conditional(test=test, then=then, otherwise=otherwise):
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


def _committed(e: x.Data, f: Frame, key: str | None) -> list[str]:
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


def _owner(owner: x.Expression | None, f: Frame) -> str:
    return f.me if owner is None else term(owner, f)


def _control(e: x.State, f: Frame) -> str:
    if f.commit is not None and e.role == f.role:
        if e.owner is None or isinstance(e.owner, x.Self):
            return f.commit.target
        raise Unsupported(
            f"whether there is room in a channel depends on `{x.text(e)}`", "let the task read its own record alone",
            e.place,
        )  # fmt: skip
    return f"{f.layout.machine(e.role, _owner(e.owner, f), f.old)}.{_note(f, e.role, 'state')}"


def _note(f: Frame, owner: str, name: str) -> str:
    if f.old:
        f.noted.add((owner, name))
    return name


def _before(f: Frame, owner: str, name: str, word: str) -> str:
    f.noted.add((owner, name))
    return word


# Operators


def _binary(e: x.Binary, f: Frame) -> str:
    a, b = term(e.left, f), term(e.right, f)
    match e.op:
        case "//":
            return f"DIV({a}, {b})"
        case "%":
            return f"MOD({a}, {b})"
        case "-" if isinstance(e.type, t.Set):
            return f"({a} & ~{b})"
        case op:
            return f"({a} {op} {b})"


def _compare(e: x.Compare, f: Frame) -> str:
    a, b = e.left, e.right
    if e.op in ("in", "not in"):
        found = _within(a, b, f)
        return found if e.op == "in" else f"(!{found})"
    if isinstance(a.type, t.Message):
        same = _same_message(a, b, f)
        return same if e.op == "==" else f"(!{same})"
    if isinstance(a.type, t.Set):
        left, right = term(a, f), term(b, f)
        match e.op:
            case "<=":
                return f"(({left} & ~{right}) == 0)"
            case ">=":
                return f"(({right} & ~{left}) == 0)"
            case "<" | ">":
                raise Unsupported(f"`{x.text(e)}` asks for a proper subset", "use `<=` and `!=`", e.place)
        return f"({left} {e.op} {right})"
    if isinstance(a.type, t.Option | t.Map) or isinstance(b.type, t.Option):
        want: t.Type = b.type if isinstance(b.type, t.Option) and b.type.of is not None else a.type
        if isinstance(want, t.Option) and want.of is None:
            want = b.type
        pairs = zip(row(a, f, want), row(b, f, want), strict=True)
        same = _join(" && ", [f"{p} == {q}" for p, q in pairs], "true")
        return same if e.op == "==" else f"(!{same})"
    return f"({term(a, f)} {e.op} {term(b, f)})"


def _within(a: x.Expression, b: x.Expression, f: Frame) -> str:
    if isinstance(b, x.SetOf):
        return _join(" || ", [f"{term(a, f)} == {term(i, f)}" for i in b.items], "false")
    return f"BIT({term(b, f)}, {term(a, f)})"


def _bit(e: x.Expression, f: Frame) -> str:
    word = term(e, f)
    return str(1 << int(word)) if word.isdigit() else f"(1 << {word})"


def _join(glue: str, parts: list[str], empty: str) -> str:
    return f"({glue.join(parts)})" if parts else empty


# Quantifiers


def _quantifier(e: x.Quantifier, f: Frame) -> str:
    parts: list[tuple[str, list[str], str]] = []  # the member's bit, its conditions, its body
    if isinstance(e.domain, x.Pending):
        for m in entries(e.domain.name, f):
            inner = replace(f, variables={**f.variables, e.variable: m})
            tests = [_is(m, e.domain.name, f)]
            tests += [term(e.condition, inner)] if e.condition is not None else []
            parts.append(("", tests, term(e.body, inner)))
    else:
        assert isinstance(e.domain.type, t.Set) and e.domain.type.of is not None
        of = e.domain.type.of
        for place, member in enumerate(t.members(of)):
            word = f.layout.literal(of, member)[0]
            inner = replace(f, variables={**f.variables, e.variable: word})
            tests = [] if isinstance(e.domain, x.Members) else [f"BIT({term(e.domain, f)}, {word})"]
            tests += [term(e.condition, inner)] if e.condition is not None else []
            parts.append((str(1 << place), tests, "" if e.kind == "set" else term(e.body, inner)))
    return _gathered(e, parts)


def _gathered(e: x.Quantifier, parts: list[tuple[str, list[str], str]]) -> str:
    tested = [(bit, _join(" && ", tests, ""), body) for bit, tests, body in parts]
    match e.kind:
        case "all":
            return _join(" && ", [f"(!{c} || {b})" if c else b for _, c, b in tested], "true")
        case "any":
            return _join(" || ", [f"({c} && {b})" if c else b for _, c, b in tested], "false")
        case "count":
            return _join(" + ", [f"({c} && {b})" if c else f"({b})" for _, c, b in tested], "0")
        case "sum":
            return _join(" + ", [f"({c} -> {b} : 0)" if c else b for _, c, b in tested], "0")
        case "union":
            return _join(" | ", [f"({c} -> {b} : 0)" if c else b for _, c, b in tested], "0")
        case _:
            return _join(" | ", [f"({c} -> {bit} : 0)" if c else bit for bit, c, _ in tested], "0")


# Messages on their way


def entries(name: str, f: Frame) -> list[Entry]:
    """All places where messages of a kind, or of a channel, may be on their way."""
    system = f.layout.system
    channel = system.channel_of(name) if name in system.messages else system.channels[name]
    if f.old:
        f.noted.add((channel.name, ""))
    found = []
    for joint in f.layout.joints(channel):
        place = f.layout.joint(channel, joint.sender, joint.receiver, f.old)
        found += _members(place, f) if channel.kind == "set" else _slots(place, f)
    return found


def _slots(joint: Joint, f: Frame) -> list[Entry]:
    layout, channel = f.layout, joint.channel
    kinds = over(layout.system, channel)
    found = []
    for k in range(layout.slots(channel)):
        slot = f"{joint.place}.slot[{k}]"
        number = "1"
        if channel.kind == "mailbox":
            number = f"{slot}.number" if numbered(layout.system, channel) else str(k + 1)
        fields = {m.name: _named_fields(layout, joint, m, slot) for m in kinds}
        whole = [f"{slot}.kind", number, *(f"{slot}.{name}" for name, _ in layout.entry(channel))]
        tests = {m.name: f"{slot}.kind == {layout.kind(m.name)}" for m in kinds}
        found.append(Entry(f"{slot}.kind != 0", channel.name, number, tests, fields, whole))
    return found


def _named_fields(layout: Layout, joint: Joint, message: Message, slot: str) -> dict[str, list[str]]:
    leaves = iter(layout.fields(joint.channel, message))
    return {
        field.name: [f"{slot}.{next(leaves)[0]}" for _ in scalars(field.name, field.type)] for field in message.fields
    }


def _members(joint: Joint, f: Frame) -> list[Entry]:
    layout = f.layout
    found = []
    for m in over(layout.system, joint.channel):
        for k, values in enumerate(layout.held(joint.channel, m)):
            fields = {
                field.name: layout.literal(field.type, value)
                for field, value in zip(m.fields, values, strict=True)
            }  # fmt: skip
            bit = bit_of(layout, joint, m, k)
            found.append(Entry(bit, joint.channel.name, "1", {m.name: "true"}, {m.name: fields}, None))
    return found


def bit_of(layout: Layout, joint: Joint, message: Message, place: int) -> str:
    """The bit that says whether a set holds a message."""
    many = len(layout.held(joint.channel, message)) > 1
    return f"{joint.place}.{safe(message.name)}" + (f"[{place}]" if many else "")


def _is(m: Entry, name: str, f: Frame) -> str:
    """Whether there is such a message at a place; `name` is of its kind or channel."""
    if name not in f.layout.system.messages:
        return m.present
    if m.whole is None:
        return m.present if name in m.kinds else "false"
    return m.kinds[name]


def _entry(variable: str, f: Frame) -> Entry:
    found = f.variables[variable]
    assert isinstance(found, Entry)
    return found


def _kind_of(m: Entry, f: Frame) -> str:
    found = "0"
    for name, holds in m.kinds.items():
        found = f"({holds} -> {f.layout.kind(name)} : {found})" if len(m.kinds) > 1 else f.layout.kind(name)
    return found


def _same_message(a: x.Expression, b: x.Expression, f: Frame) -> str:
    assert isinstance(a, x.Variable) and isinstance(b, x.Variable)
    one, other = _entry(a.name, f), _entry(b.name, f)
    if one.channel != other.channel:
        return "false"
    if one.whole is not None and other.whole is not None:
        return _join(" && ", [f"{p} == {q}" for p, q in zip(one.whole, other.whole, strict=True)], "true")
    return "true" if (one.kinds, one.fields) == (other.kinds, other.fields) else "false"


def _heard(name: str, f: Frame) -> str:
    layout = f.layout
    channel = layout.system.channels[name]
    if channel.kind == "mailbox" and numbered(layout.system, channel):
        if f.old:
            f.noted.add((channel.name, ""))
        places = [layout.joint(channel, j.sender, j.receiver, f.old).place for j in layout.joints(channel)]
        return _join(" && ", [f"{place}.newest <= 0" for place in places], "true")
    return _join(" && ", [f"!({_is(m, name, f)})" for m in entries(name, f)], "true")


def initial_scalars(layout: Layout, name: str, kind: t.Type, value: t.Value) -> list[tuple[str, str]]:
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
