"""Expressions in TLA+.

    bool, int, time, opaque   BOOLEAN, integers
    enumeration, state        strings
    instance                  its number, from 0
    set                       a set
    map                       a function
    option                    a set of at most one value: {} is none
    message                   a record, with its `kind`

A name that stands for the state before a step is a variable; for the state after it, a primed variable; and for a state
within a step, the name that a LET has given it. Names of bound variables begin with a capital letter or end with an
underscore, as TLA+ allows no name twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count

from leasehold.checker.export.shared import ExportError, Row, Rows, UniqueNames, names_senders
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Relation, messages_of
from leasehold.spec.language.model import Channel, Message
from leasehold.spec.language.operators import template
from leasehold.spec.language.render.sequences import operand_types

# Names that the module has already, from the modules that it extends and of its own.
TAKEN = frozenset(
    """
    Nat Int Real Seq Len Head Tail Append SubSeq SelectSeq Cardinality IsFiniteSet Bag IsABag BagToSet SetToBag BagIn
    EmptyBag BagUnion SubBag BagOfAll BagCardinality CopiesIn Print PrintT Assert JavaTime TLCGet TLCSet TLCEval Any
    Permutations SortSeq RandomElement ToString Min Max Least Greatest Div Mod Get Values Item Take Rest StartsWith Sum
    Without PutInMailbox PutInBag RemoveFromBag PutInSet Init Next Fairness Spec Bounds Judged TypesHold DeadlockFree
    SumOfSequence SumOfBag vars
    """.split()  # noqa: SIM905 (a list of so many strings is hard to read)
)


class TlaNames:
    """The names of one system's module."""

    def __init__(self, relation: Relation) -> None:
        self.relation, self.system = relation, relation.system
        self.names = UniqueNames(set(TAKEN))
        for holder in self.system.holders:
            self.variable(holder)
        for channel in self.system.channels:
            self.variable(channel)

    def variable(self, name: str) -> str:
        """The variable of a role or channel, of the shared variables, or of the clock."""
        return self.names.name(("variable", name), name)

    def constant(self, name: str) -> str:
        return self.names.name(("constant", name), name)

    def members(self, of: t.Enum | t.Instance) -> str:
        """The set of a small type's members."""
        if isinstance(of, t.Enum):
            return "{" + ", ".join(f'"{m}"' for m in of.members) + "}"
        return f"(0..{of.count - 1})"

    def literal(self, kind: t.Type, value: t.Value) -> str:
        match kind:
            case t.Bool():
                return "TRUE" if value else "FALSE"
            case t.Enum():
                return f'"{value}"'
            case t.Set(of=of):
                elements = [self.literal(of, v) for v in t.members(of) if v in value] if of is not None else []
                return "{" + ", ".join(elements) + "}"
            case t.Map(key=key, of=of):
                if len(set(value)) == 1:
                    cell = self.literal(of, value[0])
                    name = unbound("K", cell)
                    return f"[{name} \\in {self.members(key)} |-> {cell}]"
                cells = [
                    f"{self.literal(key, k)} :> {self.literal(of, v)}"
                    for k, v in zip(t.members(key), value, strict=True)
                ]
                return f"({' @@ '.join(cells)})"
            case t.Option(of=of):
                return "{}" if value is None or of is None else "{" + self.literal(of, value) + "}"
            case t.Seq(of=of):
                return f"<<{', '.join(self.literal(of, v) for v in value if of is not None)}>>"
            case _:
                return f"({value})" if value < 0 else str(value)

    def label(self, message: Message, name: str) -> str:
        """The name of a message's field; fields of one name and several types are kept apart."""
        channel = self.system.channel_of(message.name)
        kinds = [f.type for m in messages_of(self.system, channel) for f in m.fields if f.name == name]
        alike = all(type(k) is type(kinds[0]) and (k == kinds[0] or isinstance(k, t.Int)) for k in kinds)
        return name if alike and name != "kind" else f"{message.name}_{name}"

    def pairs(self, channel: Channel) -> tuple[bool, bool]:
        """Returns whether a channel's joints are told apart by the sender, and by the receiver."""
        sender, receiver = self.system.roles[channel.sender], self.system.roles[channel.receiver]
        if channel.same_index:
            return sender.count > 1, False
        return sender.count > 1 and not self.names_senders(channel), receiver.count > 1

    def names_senders(self, channel: Channel) -> bool:
        return names_senders(self.system, channel)

    def joint(self, channel: Channel, i: str, j: str) -> str:
        """The index of the joint of two machines; nothing where there is one."""
        by_sender, by_receiver = self.pairs(channel)
        if by_sender and by_receiver:
            return f"[<<{i}, {j}>>]"
        return f"[{i}]" if by_sender else f"[{j}]" if by_receiver else ""

    def joints(self, channel: Channel) -> str:
        """The set of a channel's joints; nothing where there is one."""
        sender, receiver = self.system.roles[channel.sender], self.system.roles[channel.receiver]
        senders, receivers = self.members(sender.instance), self.members(receiver.instance)
        by_sender, by_receiver = self.pairs(channel)
        if by_sender and by_receiver:
            return f"({senders} \\X {receivers})"
        return senders if by_sender else receivers if by_receiver else ""


@dataclass(frozen=True)
class TlaBindings:
    """The ways in which names are written where an expression stands."""

    layout: TlaNames
    role: str = ""
    me: str = ""
    own: str = ""  # the machine's own record, where it has a name
    sender: str = ""
    message: str = ""  # the message or event that is consumed: its fields
    arguments: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    now: Mapping[str, str] = field(default_factory=dict)  # variables that have another name here
    primed: bool = False

    def read(self, name: str) -> str:
        """A variable as it is called here."""
        word = self.layout.variable(name)
        return f"{word}'" if self.primed else self.now.get(name, word)

    def machine(self, role: str, instance: str) -> str:
        holder = self.layout.system.holders[role]
        return f"{self.read(role)}[{instance}]" if holder.indexed else self.read(role)


def term(e: x.Expression, f: TlaBindings, want: t.Type | None = None) -> str:
    """An expression, as a value of its own type or of a wanted one that agrees with it."""
    value = _term(e, f)
    return value if want is None else _fitted(value, e.type, want, f.layout)


def _fitted(value: str, have: t.Type, want: t.Type, layout: TlaNames) -> str:
    """A value of one type as a value of another that agrees with it: an option is the set of what there is."""
    if t.wider(have, want) == have:
        return value
    name = unbound("E", value)
    match want, have:
        case t.Option(of=of), t.Option(of=inner) if of is not None and inner is not None:
            return f"{{{_fitted(name, inner, of, layout)} : {name} \\in {value}}}"
        case t.Option(of=of), _ if of is not None and not isinstance(have, t.Option):
            return "{" + _fitted(value, have, of, layout) + "}"
        case t.Map(key=key, of=of), t.Map(of=inner):
            return f"[{name} \\in {layout.members(key)} |-> {_fitted(f'{value}[{name}]', inner, of, layout)}]"
        case t.Seq(of=of), t.Seq(of=inner) if of is not None and inner is not None:
            return f"[{name} \\in DOMAIN {value} |-> {_fitted(f'{value}[{name}]', inner, of, layout)}]"
    return value


def unbound(letter: str, *texts: str) -> str:
    """A name that none of these texts binds: no name may be bound again within itself."""
    return next(name for name in _names(letter) if all(name not in text for text in texts))


def _names(first: str) -> Iterator[str]:
    """Yields a name, and then names with a number behind it."""
    return chain([first], map(f"{first}{{}}".format, count(1)))


def _term(e: x.Expression, f: TlaBindings) -> str:
    match e:
        case x.Literal_(type=t.Set(of=of)) if of is not None and x.holds_all_members(e):
            return f.layout.members(of)
        case x.Literal_(type=kind, value=value):
            return f.layout.literal(kind, value)
        case x.ConstantRef(name=name):
            return f.layout.constant(name)
        case x.Now():
            return f.read("clock")
        case x.Self():
            return f.me
        case x.Data(role=role, name=name, owner=owner):
            return f"{_record(role, owner, f)}.{name}"
        case x.ControlState(role=role, owner=owner):
            return f"{_record(role, owner, f)}.state"
        case x.Argument(name=name):
            return f.arguments[name]
        case x.Sender():
            return f.sender
        case x.BoundVariable(name=name):
            return f.variables[name]
        case x.Apply(op=op):
            return str(ROWS[op](e, f))
        case x.InstanceAt(type=of, number=number):
            return f"Mod({term(number, f)}, {of.count})"
        case x.Quantifier():
            return _quantifier(e, f)
        case x.MessageField(variable=variable, name="kind"):
            return f"{f.variables[variable]}.kind"
        case x.MessageField(variable=variable, name="number" | "latest" | "sender" | "receiver" as word):
            return f.variables[f"{variable} {word}"]
        case x.MessageField(variable=variable, name=name):
            message = f.layout.system.messages[f.variables[f"{variable} kind"]]
            return f"{f.variables[variable]}.{f.layout.label(message, name)}"
        case x.GlobalQuery(name="heard", subjects=(channel,)):
            return f"({_sum(channel, '1', 'Any_', f)} = 0)"
        case x.GlobalQuery(name="heard"):
            raise ExportError("`heard` of one machine is not exported", "ask it of the whole channel", e.place)
        case x.GlobalQuery(name=query):
            return str(x.WITHOUT_FAULTS[query]).upper()
        case x.Old(operand=operand):
            return term(operand, replace(f, primed=False, now={}))
        case x.Accepts():
            return term(e.meaning, f)
        case x.Took(role=role, owner=owner, event=event, ignored=ignored):
            tests = [f'Took_role = "{role}"']
            tests += [f"Took_instance = {term(owner, f)}"] if owner is not None else []
            tests += [f'Took_event = "{event}"'] if event is not None else []
            tests += ["Took_ignored"] if ignored else []
            return "(" + " /\\ ".join(tests) + ")"
        case _:
            raise ExportError(f"`{x.text(e)}` has no word in TLA+", "write it another way", e.place)


def _record(role: str, owner: x.Expression | None, f: TlaBindings) -> str:
    if f.own and role == f.role and (owner is None or isinstance(owner, x.Self)):
        return f.own
    return f.machine(role, f.me if owner is None else term(owner, f))


# Operators


_ROWS = Rows(term)


def _if(e: x.Apply, f: TlaBindings) -> str:
    test, then, otherwise = e.operands
    kind = t.wider(then.type, otherwise.type)
    return f"(IF {term(test, f)} THEN {term(then, f, kind)} ELSE {term(otherwise, f, kind)})"


def _set(e: x.Apply, f: TlaBindings) -> str:
    return "{" + ", ".join(term(i, f) for i in e.operands) + "}"


def _equal(symbol: str) -> Row:
    def row(e: x.Apply, f: TlaBindings) -> str:
        a, b = e.operands
        if isinstance(a.type, t.MessageType):
            return _same_messages(symbol, a, b, f)
        want = t.wider(a.type, b.type)
        return f"({term(a, f, want)} {symbol} {term(b, f, want)})"

    return row


def _of_sequences(words: str) -> Row:
    """A row of an operator on sequences."""
    write = template(words)
    return lambda e, f: write(*[term(o, f, want) for o, (_, want) in zip(e.operands, operand_types(e), strict=True)])


def _of_either(words: str, sequences: str, place: int = 0) -> Row:
    """A row of words, or of others where the operand at a place is a sequence."""
    row, other = _ROWS.words(words), _of_sequences(sequences)
    return lambda e, f: (other if isinstance(e.operands[place].type, t.Seq) else row)(e, f)


def _get(e: x.Apply, f: TlaBindings) -> str:
    option, other = e.operands
    kind = t.wider(option.type, t.Option(other.type))
    assert isinstance(kind, t.Option)
    return f"Get({term(option, f, kind)}, {term(other, f, kind.of)})"


ROWS: Mapping[str, Row] = {
    "if": _if,
    "or": _ROWS.words("({ \\/ })"),
    "and": _ROWS.words("({ /\\ })"),
    "not": _ROWS.words("(~{})"),
    "==": _equal("="),
    "!=": _equal("/="),
    "<": _ROWS.proper("<"),
    "<=": _ROWS.words("({} <= {})", "({} \\subseteq {})"),
    ">": _ROWS.proper(">"),
    ">=": _ROWS.words("({} >= {})", "({1} \\subseteq {0})"),
    "in": _of_either("({} \\in {})", "({} \\in Values({}))", 1),
    "not in": _of_either("({} \\notin {})", "({} \\notin Values({}))", 1),
    "|": _ROWS.words("({} \\union {})"),
    "&": _ROWS.words("({} \\intersect {})"),
    "+": _of_either("({} + {})", "({} \\o {})"),
    "-": _ROWS.words("({} - {})", "({} \\ {})"),
    "*": _ROWS.words("({} * {})"),
    "//": _ROWS.words("Div({}, {})"),
    "%": _ROWS.words("Mod({}, {})"),
    "negative": _ROWS.words("(-{})"),
    "{}": _set,
    "[]": _ROWS.words("{}[{}]"),
    "min": _ROWS.pairwise("Min"),
    "max": _ROWS.pairwise("Max"),
    "abs": _ROWS.words("(IF {0} < 0 THEN -{0} ELSE {0})"),
    "len": _of_either("Cardinality({})", "Len({})"),
    "index": _ROWS.words("{}"),
    "get": _get,
    "[,]": _of_sequences("<<{, }>>"),
    "item": _of_sequences("Item({}, {})"),
    "append": _of_sequences("Append({}, {})"),
    "first": _of_sequences("Item({}, 0)"),
    "last": _of_sequences("Item({0}, Len({0}) - 1)"),
    "rest": _of_sequences("Rest({})"),
    "take": _of_sequences("Take({}, {})"),
    "starts_with": _of_sequences("StartsWith({}, {})"),
}


# Quantifiers


def _quantifier(e: x.Quantifier, f: TlaBindings) -> str:
    bound = set(f.variables.values())  # a variable may hide another of its name here, and not in TLA+
    letter = "Any_" if e.variable == "_" else f"{e.variable}_"
    name = next(name for name in _names(letter) if name not in bound)
    if isinstance(e.domain, x.Pending):
        return _over_messages(e, e.domain.name, name, f)
    inner = replace(f, variables={**f.variables, e.variable: name})
    domain = term(e.domain, f)
    chosen = domain if e.condition is None else f"{{{name} \\in {domain} : {term(e.condition, inner)}}}"
    kind = t.wider(e.type.of, e.body.type) if isinstance(e.type, t.Map) else None
    body = "" if e.kind == "set" else term(e.body, inner, kind)
    match e.kind:
        case "all":
            return f"(\\A {name} \\in {chosen} : {body})"
        case "any":
            return f"(\\E {name} \\in {chosen} : {body})"
        case "count":
            return f"Cardinality({{{name} \\in {chosen} : {body}}})"
        case "sum":
            return f"Sum({chosen}, LAMBDA {name} : {body})"
        case "map":
            return f"[{name} \\in {domain} |-> {body}]"
        case "min" | "max":
            return _extreme(e, f"{{{body} : {name} \\in {chosen}}}", f)
        case "union":
            return f"(UNION {{{body} : {name} \\in {chosen}}})"
        case _:
            return chosen


def _extreme(e: x.Quantifier, values: str, f: TlaBindings) -> str:
    """The least or the greatest number of a set, or the default where it is empty."""
    return f"{'Least' if e.kind == 'min' else 'Greatest'}({values}, {'0' if e.default is None else term(e.default, f)})"


def _over_messages(e: x.Quantifier, name: str, variable: str, f: TlaBindings) -> str:
    assert isinstance(e.domain.type, t.MessageType)
    kind = e.domain.type.kinds[0] if len(e.domain.type.kinds) == 1 else ""
    beside = {f"{e.variable} kind": kind, f"{e.variable} number": "1"}
    inner = replace(f, variables={**f.variables, e.variable: variable, **beside})
    asked, channel = x.asked_of_message(e), f.layout.system.channel_named(name)
    numbered = not asked.isdisjoint({"number", "latest"}) or (channel.kind == "mailbox" and _is_compared(e))
    by_place = numbered and channel.kind in ("mailbox", "fifo", "queue")
    if by_place or asked & {"sender", "receiver"}:
        return _joint_by_joint(e, name, variable, f, inner, by_place=by_place)
    test = term(e.condition, inner) if e.condition is not None else "TRUE"
    return _said_of_messages(e, _messages(name, f), test, term(e.body, inner), variable, f)


def _is_compared(e: x.Quantifier) -> bool:
    """Returns whether a quantifier over messages compares its variable with another."""

    def compares(part: x.Expression) -> bool:
        return isinstance(part, x.Apply) and any(
            isinstance(side, x.BoundVariable) and side.name == e.variable and isinstance(side.type, t.MessageType)
            for side in part.operands
        )

    return any(x.mentions(part, compares) for part in (e.body, e.condition))


def _same_messages(symbol: str, a: x.Expression, b: x.Expression, f: TlaBindings) -> str:
    """Returns the comparison of two messages; in mailboxes their numbers tell them apart, too."""
    assert isinstance(a, x.BoundVariable)
    assert isinstance(b, x.BoundVariable)
    tests = [(f.variables[a.name], f.variables[b.name])]
    assert isinstance(a.type, t.MessageType)
    channel = f.layout.system.channel_of(a.type.kinds[0])
    if f.layout.names_senders(channel):
        one, other = tests[0]
        tests = [(f"[{one} EXCEPT !.sender = 0]", f"[{other} EXCEPT !.sender = 0]")]
    if channel.kind == "mailbox":
        tests.append((f.variables[f"{a.name} number"], f.variables[f"{b.name} number"]))
    joined = " /\\ " if symbol == "=" else " \\/ "
    return f"({joined.join(f'{one} {symbol} {other}' for one, other in tests)})"


def _joint_by_joint(
    e: x.Quantifier, name: str, variable: str, f: TlaBindings, inner: TlaBindings, *, by_place: bool
) -> str:
    """A quantifier over messages that asks between which machines each is, or for its place in their sequence.

    Without crashes, losses and duplicates, what a mailbox holds has the numbers from 1 on, as has what is in a fifo.
    """
    channel = f.layout.system.channel_named(name)
    j, joints = f"J{len(f.variables)}", f.layout.joints(channel)
    lane = f"{f.read(channel.name)}[{j}]" if joints else f.read(channel.name)
    if by_place:
        words = {"": f"{lane}[{variable}]", " number": variable, " latest": f"({variable} = Len({lane}))"}
        inner = replace(inner, variables={**inner.variables, **{f"{e.variable}{of}": w for of, w in words.items()}})
    by_sender, by_receiver = f.layout.pairs(channel)
    ends = {"sender": "0", "receiver": "0"}
    if by_sender and by_receiver:
        ends = {"sender": f"{j}[1]", "receiver": f"{j}[2]"}
    elif channel.same_index and by_sender:
        ends = {"sender": j, "receiver": j}
    elif by_sender or by_receiver:
        ends["sender" if by_sender else "receiver"] = j
    if f.layout.names_senders(channel):
        ends["sender"] = f"{inner.variables[e.variable]}.sender"
    inner = replace(inner, variables={**inner.variables, **{f"{e.variable} {end}": word for end, word in ends.items()}})
    test = term(e.condition, inner) if e.condition is not None else "TRUE"
    body = term(e.body, inner)
    here = _of_kind(name, _content(channel, lane), variable, variable, f)
    if by_place:
        here = _of_kind(name, f"DOMAIN {lane}", variable, inner.variables[e.variable], f)
        if e.kind in ("count", "sum"):
            told = f"{test} /\\ {body}" if e.kind == "count" else test
            chosen = f"{{{variable} \\in {here} : {told}}}"
            total = f"Cardinality({chosen})" if e.kind == "count" else f"Sum({chosen}, LAMBDA {variable} : {body})"
            return f"Sum({joints}, LAMBDA {j} : {total})" if joints else total
    elif e.kind in ("count", "sum") or not joints:
        return _said_of_messages(e, _messages(name, f), test, body, variable, f)
    if not joints:
        return _said_of_messages(e, here, test, body, variable, f)
    match e.kind:
        case "min" | "max":
            values = f"UNION {{{{{body} : {variable} \\in {{{variable} \\in {here} : {test}}}}} : {j} \\in {joints}}}"
            return _extreme(e, values, f)
        case "union":
            return f"(UNION {{{_said_of_messages(e, here, test, body, variable, f)} : {j} \\in {joints}}})"
    every = "\\A" if e.kind == "all" else "\\E"
    return f"({every} {j} \\in {joints} : {_said_of_messages(e, here, test, body, variable, f)})"


def _said_of_messages(e: x.Quantifier, domain: str, test: str, body: str, variable: str, f: TlaBindings) -> str:
    assert isinstance(e.domain, x.Pending)
    name = e.domain.name
    match e.kind:
        case "all":
            return f"(\\A {variable} \\in {domain} : {test} => {body})"
        case "any":
            return f"(\\E {variable} \\in {domain} : {test} /\\ {body})"
        case "count" if x.counts_pending(e):
            return _sum(name, "1", variable, f)
        case "count":
            return _sum(name, f"IF {test} /\\ {body} THEN 1 ELSE 0", variable, f)
        case "min" | "max":
            return _extreme(e, f"{{{body} : {variable} \\in {{{variable} \\in {domain} : {test}}}}}", f)
        case "sum":
            return _sum(name, f"IF {test} THEN {body} ELSE 0", variable, f)
        case "union":
            return f"(UNION {{IF {test} THEN {body} ELSE {{}} : {variable} \\in {domain}}})"
        case _:
            return f"{{{variable} \\in {domain} : {test}}}"


def _content(channel: Channel, word: str) -> str:
    """The set of the messages between two machines."""
    if channel.unordered:
        return f"BagToSet({word})"
    return word if channel.kind == "set" else f"Values({word})"


def _of_kind(name: str, messages: str, variable: str, message: str, f: TlaBindings) -> str:
    """Returns those members of a set whose message has a kind, where the name is that of one; else all of them."""
    one = name in f.layout.system.messages
    return f'{{{variable} \\in {messages} : {message}.kind = "{name}"}}' if one else messages


def _messages(name: str, f: TlaBindings) -> str:
    """The set of the messages of a kind, or of a channel, that are on their way."""
    channel = f.layout.system.channel_named(name)
    word, joints = f.read(channel.name), f.layout.joints(channel)
    depth = len(f.variables)  # no name may be bound again within itself
    content = _content(channel, f"{word}[J{depth}]")
    every = f"UNION {{{content} : J{depth} \\in {joints}}}" if joints else _content(channel, word)
    if name in f.layout.system.messages:
        return _of_kind(name, every, f"M{depth}", f"M{depth}", f)
    return f"({every})"


def _sum(name: str, body: str, variable: str, f: TlaBindings) -> str:
    """The sum of something over all messages on their way; equal ones count separately."""
    channel = f.layout.system.channel_named(name)
    total = "SumOfBag" if channel.unordered else "Sum" if channel.kind == "set" else "SumOfSequence"
    word, joints = f.read(channel.name), f.layout.joints(channel)
    if name in f.layout.system.messages:
        body = f'IF {variable}.kind = "{name}" THEN {body} ELSE 0'
    summand = f"{total}({{c}}, LAMBDA {variable} : {body})"
    j = f"J{len(f.variables)}"
    return f"Sum({joints}, LAMBDA {j} : {summand.format(c=f'{word}[{j}]')})" if joints else summand.format(c=word)
