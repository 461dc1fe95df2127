"""The readings of the expression language against evaluate.py, the definition: the explorer's Python and z3's terms.

Expressions are drawn by type over a small system that has every kind of thing to read; global states are drawn freely,
legal or not, as what an expression means does not depend on how a state came about. Operators are drawn by the
signatures of their rows in operators.py: a new row is tested without a change here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
import z3
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from leasehold.checker.explore.ground import function, step_function
from leasehold.checker.explore.layout import Layout
from leasehold.checker.explore.step import Action
from leasehold.checker.prove.encode.terms import Bindings, term
from leasehold.checker.prove.encode.values import Sorts
from leasehold.spec.language import expression as x
from leasehold.spec.language.declare.build import Builder
from leasehold.spec.language.declare.declare import Declarer
from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.load import load
from leasehold.spec.language.lower import lower
from leasehold.spec.language.model import System
from leasehold.spec.language.operators import OF_SEQUENCES, OPERATORS, Operator
from leasehold.spec.language.read.files import Gatherer
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.render.evaluate import Context, InTransit, evaluate
from leasehold.spec.language.render.python_source import Frame, source
from leasehold.spec.language.types import (
    BOOL,
    INT,
    Bool,
    Enum,
    Instance,
    Int,
    Map,
    Opaque,
    Option,
    Seq,
    Set,
    Type,
    Value,
    domain,
    members,
)
from leasehold.spec.language.typing.names import DeclaredNames, Scope
from leasehold.spec.language.typing.parse import parse
from tests.systems import TESTS, files_of

FILES = files_of("spec/language/systems/world")


@pytest.fixture(scope="module")
def world() -> World:
    return World.read(TESTS / "spec/language/systems/world")


@dataclass
class World:
    system: System
    names: DeclaredNames
    layout: Layout

    @staticmethod
    def read(folder: Path) -> World:
        system = load(folder)
        sink = Sink()
        files = Gatherer(folder, "world", sink).gather()
        declarer = Declarer(files, {}, sink)
        names = Builder(files, declarer, declarer.declare(), sink).names
        return World(system, names, Layout(lower(system)))


# Expressions, drawn by type

NEWEST = 2  # the number last sent on a lane
SEQUENCES = ("seq[unit]", "seq[int]", "seq[colour]", "seq[set[slot]]")
KINDS = ("int", "bool", "time", "colour", "slot", "unit", "set[unit]", "set[colour]", "set[slot]", *SEQUENCES)
FIELDS = {
    "int": ["amount"],
    "time": ["until"],
    "bool": ["flag"],
    "colour": ["tint"],
    "slot": ["seat"],
    "unit": ["peer"],
    "set[unit]": ["peers"],
    "set[colour]": ["tints"],
    "set[slot]": ["seats"],
    "map[unit, int]": ["counts", "levels"],
    "map[unit, option[colour]]": ["hues"],
    "map[unit, set[slot]]": ["circles"],
    "map[colour, bool]": ["marks"],
    "map[slot, option[unit]]": ["nested"],
    "option[int]": ["maybe"],
    "option[unit]": ["friend"],
    "opaque": ["label"],
    "seq[unit]": ["crew"],
    "seq[int]": ["log"],
    "seq[colour]": ["stack"],
    "seq[set[slot]]": ["piles"],
    "map[slot, seq[colour]]": ["queues"],
    "option[set[slot]]": ["palette"],
    "map[slot, option[set[slot]]]": ["shares"],
    "option[seq[slot]]": ["plan"],
    "map[slot, map[colour, bool]]": ["views"],
}
ARGUMENTS = {"int": "amount", "time": "until", "bool": "flag", "colour": "tint", "unit": "peer", "set[unit]": "peers"}
DOMAINS = (
    "unit",
    "hub",
    "slot",
    "colour",
    "set[unit]",
    "set[colour]",
    "ask",
    "beg",
    "tell",
    "up",
    "down",
    "around",
    "call",
    "line",
    "seq[unit]",
    "seq[colour]",
    "seq[set[slot]]",
)
SMALL = ("colour", "slot", "unit")
LETTERS = (*KINDS, *FIELDS)


def applications(row: Operator) -> dict[str, list[tuple[str, ...]]]:
    """Kinds of operands that an operator takes, by kind of its result; of those that may come again, two."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for signature in row.signatures:
        words = (*signature.operands, *signature.operands[-1:] * signature.repeated, signature.result)
        letters = [letter for letter in ("T", "K") if any(re.search(rf"\b{letter}\b", w) for w in words)]
        for chosen in product(LETTERS, repeat=len(letters)):
            letter = dict(zip(letters, chosen, strict=True))
            kinds = [re.sub(r"\b[TK]\b", lambda m, letter=letter: letter[m[0]], w).replace(",", ", ") for w in words]
            for instance in SMALL[1:] if "instance" in kinds else ("",):
                *operands, result = [instance if kind == "instance" else kind for kind in kinds]
                if all(kind in LETTERS for kind in (*operands, result)):
                    found.setdefault(result, []).append(tuple(operands))
    return {kind: list(dict.fromkeys(ways)) for kind, ways in found.items()}


APPLICATIONS = {name: applications(row) for name, row in OPERATORS.items()}
STATES = {"hub": ("idle", "busy"), "unit": ("off", "on_", "hot")}


@dataclass(frozen=True)
class Sight:
    own: bool  # stands in a machine: its data, `self` and the event are in sight
    step: bool
    variables: tuple[tuple[str, str], ...] = ()

    def of(self, kind: str) -> list[str]:
        return [name for name, k in self.variables if k == kind]

    def bind(self, name: str, kind: str) -> Sight:
        return Sight(self.own, self.step, (*((n, k) for n, k in self.variables if n != name), (name, kind)))


@st.composite
def texts(draw: st.DrawFn, kind: str, sight: Sight, depth: int = 3) -> str:
    """The text of an expression of a type."""

    def sub(k: str, s: Sight = sight) -> str:
        return draw(texts(k, s, depth - 1))

    def pick(options: Iterable[str]) -> str:
        return draw(st.sampled_from(list(options)))

    def machine() -> str:
        """Returns what names a machine with data."""
        own = ["self"] if sight.own else []
        return pick(["hub", f"unit[{draw(st.integers(0, 2))}]", *sight.of("unit"), *sight.of("hub"), *own])

    def is_hub(who: str) -> bool:
        return who in ("hub", *sight.of("hub"))

    leaves: list[str] = []
    for name in FIELDS.get(kind, ()):
        leaves += [f"{machine()}.{name}", *([name] if sight.own else [])]
    if sight.own and kind in ARGUMENTS:
        leaves.append(pick(["event.", "msg."]) + ARGUMENTS[kind])
    leaves += sight.of(kind)
    message = [(n, k.partition(" ")[2]) for n, k in sight.variables if k.startswith("message")]
    for name, which in message:
        leaves += {
            ("int", "ask"): [f"{name}.amount"],
            ("int", "call"): [f"{name}.amount"],
            ("unit", "ask"): [f"{name}.who"],
            ("colour", "beg"): [f"{name}.tint"],
            ("time", "tell"): [f"{name}.until"],
            ("set[unit]", "tell"): [f"{name}.chosen"],
        }.get((kind, which), [])
        if kind == "int":
            leaves.append(f"{name}.number")
        if kind == "unit":
            ends = {"tell": ["receiver"], "hail": ["sender", "receiver"]}
            leaves += [f"{name}.{end}" for end in ends.get(which, ["sender"])]
        if kind == "bool" and which == "tell":
            leaves.append(f"{name}.latest")
        if kind == "bool" and which == "all":
            leaves.append(f"({name}.kind == ask)")
    match kind:
        case "int":
            leaves += [str(draw(st.integers(-3, 4))), "limit", "units"]
            leaves += [f"len({pick(['up', 'down', 'around', 'pending(ask)'])})"]
        case "bool":
            leaves += ["true", "false"]
        case "time":
            leaves += ["now"]
        case "colour":
            leaves += ["red", "green", "blue", "liked"]
        case "slot":
            leaves += ["slot[0]", "slot[1]"]
        case "unit":
            leaves += ["unit[0]", "unit[2]", *(["self"] if sight.own else [])]
        case "option[int]" | "option[unit]":
            leaves += [f"(none if {machine()}.flag else {leaf})" for leaf in leaves]
        case "set[unit]" | "set[colour]" | "set[slot]":
            leaves += [kind[4:-1]]
    if depth <= 0:
        return pick(leaves)

    def quantified(head: str, body: str) -> str:
        over = pick(d for d in DOMAINS if head in ("all", "any", "count", "sum") or not d.startswith("seq"))
        name = pick(["a", "b", "c"])
        if over in ("unit", "hub", "slot", "colour"):
            domain, inner = over, sight.bind(name, over)
        elif over.startswith(("set", "seq")):
            domain, inner = f"({sub(over)})", sight.bind(name, over[4:-1])
        elif over in ("up", "down", "around", "line"):
            which = {"up": "all", "down": "tell", "around": "hail", "line": "call"}[over]
            domain, inner = f"pending({over})", sight.bind(name, f"message {which}")
        else:
            domain, inner = f"pending({over})", sight.bind(name, f"message {over}")
        condition = f" if {sub('bool', inner)}" if draw(st.booleans()) else ""
        return f"{head}({sub(body, inner)} for {name} in {domain}{condition})"

    ways = ["leaf", *["operator"] * 8] if any(kind in found for found in APPLICATIONS.values()) else ["leaf"]
    if sight.step and kind != "opaque":
        ways.append("old")
    ways += {
        "int": ["sum", "count", "extreme"],
        "time": ["extreme"],
        "unit": ["around"],
        "slot": ["around"],
        "bool": ["all", "any", "chain", "state", "option"] + (["took"] * 2 if sight.step else []),
    }.get(kind, {"set": ["comprehension", "empty"], "seq": ["empty"]}.get(kind[:3], []))
    if kind == "set[unit]":
        ways.append("union")
    match pick(ways):
        case "operator":
            return draw(
                applied(pick(op for op, found in APPLICATIONS.items() if kind in found), kind, sight, depth - 1)
            )
        case "old":
            return f"old({sub(kind)})"
        case "sum":
            return quantified("sum", "int")
        case "union":
            return quantified("union", kind)
        case "around":
            return f"{kind}[0 + {sub('int')}]"
        case "extreme":
            return f"{pick(['min', 'max'])}(({quantified('', kind)}), default={sub(kind)})"
        case ("count" | "all" | "any") as head:
            return quantified(head, "bool")
        case "chain":
            return f"({sub('int')} < {sub('int')} <= {sub('int')})"
        case "state":
            who = machine()
            states = STATES["hub" if is_hub(who) else "unit"]
            return f"({who}.state == {pick(states)})" if draw(st.booleans()) else f"({who}.state in {{{pick(states)}}})"
        case "option":
            return f"({sub('option[unit]')} {pick(['==', '!='])} {pick(['none', 'unit[1]'])})"
        case "took":
            who = machine()
            events = ["nudge", "ask"] if is_hub(who) else ["poke", "tell"]
            facts = [f"took({pick([who, 'unit'])})", f"took({who}.{pick(events)})", f"ignored({who}.{events[-1]})"]
            return pick(facts)
        case "empty":
            return f"({sub(kind)} | {{}})" if kind.startswith("set") else f"({sub(kind)} + [])"
        case "comprehension":
            name = pick(["a", "b"])
            inner = sight.bind(name, kind[4:-1])
            return f"{{{name} for {name} in {pick([kind[4:-1], f'({sub(kind)})'])} if {sub('bool', inner)}}}"
    return pick(leaves)


@st.composite
def applied(draw: st.DrawFn, op: str, kind: str, sight: Sight, depth: int) -> str:
    """The text of an operator with a result of a kind, in parentheses where it may be torn apart."""
    row, operands = OPERATORS[op], list(draw(st.sampled_from(APPLICATIONS[op][kind])))
    if row.signatures[0].repeated and draw(st.booleans()):
        operands.append(operands[-1])
    words = [draw(texts(k, sight, depth)) for k in operands]
    written = row.write([lambda binding, text=text: text for text in words])
    return f"({written})" if row.binding < 10 else written


# Global states, drawn freely


def values(kind: Type) -> st.SearchStrategy[Value]:
    match kind:
        case Set(of=of) if of is not None:
            return st.frozensets(st.sampled_from(members(of)))
        case Map(key=key, of=of):
            return st.tuples(*[values(of)] * len(members(key)))
        case Option(of=of) if of is not None:
            return st.none() | values(of)
        case Seq(of=of, most=most) if of is not None:
            return st.lists(values(of), max_size=most).map(tuple)
        case Enum() | Instance():
            return st.sampled_from(members(kind))
        case Opaque():
            return st.integers(0, 1)
        case _:
            return st.sampled_from(list(domain(kind, (-2, 3))))


@dataclass
class Global:
    """A global state, twice: by name and as the explorer's tuple."""

    cells: Mapping[tuple[str, int, str], Value]
    control: Mapping[tuple[str, int], str]
    messages: list[InTransit]
    channel: Mapping[str, str]  # of a message
    now: int
    packed: tuple[Any, ...]

    def data(self, role: str, instance: int, name: str) -> Value:
        return self.cells[role, instance, name]

    def state(self, role: str, instance: int) -> str:
        return self.control[role, instance]

    def pending(self, name: str) -> Iterable[InTransit]:
        return [m for m in self.messages if name in (m.kind, self.channel[m.kind])]


@st.composite
def states(draw: st.DrawFn, world: World) -> Global:
    system, layout = world.system, world.layout
    packed: list[Any] = [None] * layout.size
    cells, control, sent = {}, {}, []
    for role, i in system.machines():
        control[role.name, i] = packed[layout.at(role.name, i, None)] = draw(st.sampled_from(list(role.states)))
        for datum in role.data.values():
            value = draw(values(datum.type))
            cells[role.name, i, datum.name] = packed[layout.at(role.name, i, datum.name)] = value
    for lane in layout.lanes:
        kinds = [m for m in system.messages.values() if system.channel_of(m.name) is lane.channel]
        entries = []
        for message in draw(st.lists(st.sampled_from(kinds), max_size=2)):
            number = draw(st.integers(0, NEWEST)) if lane.channel.kind == "mailbox" else 1
            fields = tuple(draw(values(f.type)) for f in message.fields)
            if lane.channel.kind == "set" and (number, message.name, fields) in entries:
                continue
            entries.append((number, message.name, fields))
            named = {f.name: v for f, v in zip(message.fields, fields, strict=True)}
            known, ranked = len(entries) if lane.channel.kind == "fifo" else number, lane.channel.kind == "mailbox"
            sent.append(
                InTransit(message.name, named, known, number == NEWEST, lane.sender, lane.receiver, ranked=ranked)
            )
        content: dict[str, Any] = {"mailbox": (NEWEST, tuple(entries)), "set": frozenset(entries)}
        packed[lane.cell] = content.get(lane.channel.kind, tuple(entries))
    assert layout.clock is not None
    now = packed[layout.clock] = draw(st.integers(0, 5))
    channel = {m: system.channel_of(m).name for m in system.messages}
    return Global(cells, control, sent, channel, now, tuple(packed))


def typed(world: World, text: str, sight: Sight) -> x.Expression:
    arguments = {f.name: f.type for f in world.system.fields_of("unit", "poke")}
    scope = Scope(world.names, "unit", arguments) if sight.own else Scope(world.names)
    scope = Scope(world.names, scope.role, scope.arguments, step=sight.step, opaque=True)
    sink = Sink()
    e = parse(YamlNode("text", Place("drawn"), text), scope, sink)
    assert not sink.found, f"{text}\n{sink.found[0]}"
    return e


# Every failure notes its text, so none is made smaller; `--hypothesis-seed=N` repeats a run.
EXAMPLES = settings(
    max_examples=120,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


OWN = Sight(own=True, step=False)


def same(one: Value, other: Value) -> bool:
    """Equal, and of one kind: `True` is not 1 here."""
    return type(one) is type(other) and bool(one == other)


def machine_reads(world: World, text: str, data: st.DataObject) -> tuple[x.Expression, Context]:
    """Holds the explorer's Python to the definition, in a state that is drawn; what was read, and where."""
    note(text)
    e = typed(world, text, OWN)
    state = data.draw(states(world))
    instance = data.draw(st.integers(0, 2))
    fields = world.system.fields_of("unit", "poke")
    given_ = tuple(data.draw(values(f.type)) for f in fields)
    arguments = {f.name: v for f, v in zip(fields, given_, strict=True)}
    context = Context(state, world.system.values(), instance, arguments)
    expected = evaluate(e, context)
    frame = Frame(world.layout, world.system.values(), instance, {f.name: f"e[{i}]" for i, f in enumerate(fields)}, "b")
    for unrolled in (True, False):
        words = source(e, replace(frame, unrolled=unrolled))
        note(words)
        assert same(function(words)(state.packed, given_, 0), expected)
    return e, context


@pytest.mark.long
@EXAMPLES
@given(data=st.data())
def test_a_machine_reads_what_the_definition_says(world: World, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    machine_reads(world, data.draw(texts(kind, OWN)), data)


@pytest.mark.parametrize("op", OPERATORS)
@settings(EXAMPLES, max_examples=10)
@given(data=st.data())
def test_an_operator_means_the_same_in_every_reading(world: World, op: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(APPLICATIONS[op])))
    e, context = machine_reads(world, data.draw(applied(op, kind, OWN, 1)), data)
    if not isinstance(e, x.Apply):
        return  # a literal: -1
    literals = tuple(x.Literal_(type=o.type, value=evaluate(o, context)) for o in e.operands)
    applied_, expected = replace(e, operands=literals), evaluate(e, context)
    assert same(evaluate(applied_, context), expected)
    sorts = Sorts()
    found = term(applied_, Bindings(sorts, None, {}))  # type: ignore[arg-type]  # literals read nothing
    assert z3.is_true(z3.simplify(sorts.equal(found, sorts.literal(e.type, expected)))), (found, expected)


SHORT = (Seq(BOOL, 2), Seq(Set(Enum("colour", ("red", "green"))), 1), Seq(Seq(BOOL, 1), 2))


@pytest.mark.parametrize("kind", SHORT, ids=str)
@pytest.mark.parametrize("op", [*OF_SEQUENCES, "==", "!=", "in", "not in", "+", "len"])
def test_an_operator_means_the_same_of_all_short_sequences(op: str, kind: Seq) -> None:
    """Those drawn are seldom of one length with other values."""
    assert kind.of is not None
    compares = op in ("==", "!=")
    letters: dict[str, Type] = {"seq[T]": kind, "T": kind if compares else kind.of, "int": INT}
    ways = [s for s in OPERATORS[op].signatures if compares or "seq[T]" in (*s.operands, s.result)]
    types = [letters[word] for word in ways[0].operands]
    sorts = Sorts()
    for values in product(*(tuple(domain(of, (-1, 2))) for of in types)):
        literals = tuple(x.Literal_(type=of, value=v) for of, v in zip(types, values, strict=True))
        expected = OPERATORS[op].means(*values)
        result = OPERATORS[op].result(types)
        assert result is not None
        found = term(x.Apply(type=result, op=op, operands=literals), Bindings(sorts, None, {}))  # type: ignore[arg-type]
        if isinstance(result, Bool | Int):
            assert z3.simplify(found).eq(z3.simplify(sorts.literal(result, expected))), (op, values)
        elif isinstance(result, Option):
            assert z3.is_true(z3.simplify(found.some)) == (expected is not None), (op, values)
            assert expected is None or is_value(found.value, expected, result.of, sorts), (op, values)
        else:
            assert is_value(found, expected, kind, sorts), (op, values)


def is_value(found: Any, expected: Value, kind: Type | None, sorts: Sorts) -> bool:
    """Returns whether a value is the expected one; sequences are compared here, place by place."""
    assert kind is not None
    if isinstance(kind, Seq):
        items = [is_value(found.at(z3.IntVal(n)), value, kind.of, sorts) for n, value in enumerate(expected)]
        return bool(z3.simplify(found.length).as_long() == len(expected)) and all(items)
    return z3.is_true(z3.simplify(sorts.equal(found, sorts.literal(kind, expected))))


@pytest.mark.long
@EXAMPLES
@given(data=st.data())
def test_a_property_reads_what_the_definition_says(world: World, data: st.DataObject) -> None:
    sight = Sight(own=False, step=True)
    text = data.draw(texts("bool", sight))
    note(text)
    e = typed(world, text, sight)
    before, after = data.draw(states(world)), data.draw(states(world))
    taken = data.draw(
        st.sampled_from([("unit", 0, "poke"), ("unit", 2, "tell"), ("hub", 0, "nudge"), (None, -1, "tick")])
    )
    ignored = data.draw(st.booleans())
    expected = evaluate(e, Context(after, world.system.values(), before=before, took=taken, ignored=ignored))
    for unrolled in (True, False):
        words = source(e, Frame(world.layout, world.system.values(), before="o", unrolled=unrolled))
        note(words)
        action = Action("local", *taken, transition=None if ignored else cast(Any, "a transition"))
        assert same(step_function(words)(before.packed, after.packed, action), expected)


@EXAMPLES
@given(data=st.data(), own=st.booleans())
def test_what_is_printed_reads_back(world: World, data: st.DataObject, own: bool) -> None:
    sight = Sight(own=own, step=not own)
    kind = data.draw(st.sampled_from(KINDS))
    e = typed(world, data.draw(texts(kind, sight)), sight)
    printed = x.text(e)
    note(printed)
    assert typed(world, printed, sight) == e
