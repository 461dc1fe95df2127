"""An expression of the language as a solver term.

One more reading of expression.py. A `SymbolicView` says where values come from, as a `StateView` does in evaluate.py; a
test holds the two readings together on expressions and states made by chance.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Protocol, TypeAlias, TypeGuard

import z3

from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, disjunction
from leasehold.checker.prove.encode.messages import (
    ORDERS,
    MessageValue,
    message_field,
    rank_compared,
    ranks_compared,
    same_message,
)
from leasehold.checker.prove.encode.values import MapValue, OptionValue, SetValue, Sorts
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Datum
from leasehold.spec.language.operators import OF_SEQUENCES


class SymbolicView(Protocol):
    """A global state whose values are terms."""

    @property
    def now(self) -> Term: ...
    def data(self, role: str, instance: Term, name: str) -> Any: ...
    def control(self, role: str, instance: Term) -> Term: ...
    def running(self, role: str, instance: Term) -> Term: ...
    def every_message(self, name: str, holds: Callable[[MessageValue], Term]) -> Term: ...
    def latest_messages(self, name: str, holds: Callable[[MessageValue], Term]) -> Term: ...
    def at_most_one_message(self, name: str, holds: Callable[[MessageValue], Term]) -> Term: ...
    def heard(self, name: str, role: str = "", instance: Term = None) -> Term: ...


@dataclass(frozen=True)
class StepLabel:
    """The event of a machine that a step has consumed, for `took(...)` and `ignored(...)`; no role: none.

    Attributes:
        ignored: it is a message for which no transition was taken.
    """

    role: str = ""
    instance: Term = None
    event: str = ""
    ignored: bool = False


ANY_STEP = StepLabel("any step")


@dataclass(frozen=True)
class Bindings:
    """The bindings with which an expression is read.

    Attributes:
        olds: of expressions under `old`, the state in which they were worked out, the step of which they speak, if they
            do (`old(took(...))`), and their values there.
    """

    sorts: Sorts
    view: SymbolicView
    constants: Mapping[str, Any]
    me: Term = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    sender: Term = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    before: SymbolicView | None = None
    took: StepLabel = StepLabel()
    olds: dict[int, tuple[SymbolicView, StepLabel | None, Any]] = field(default_factory=dict)


def term(e: x.Expression, f: Bindings) -> Any:
    """The value of an expression.

    Raises:
        Unencodable: it counts the members of a type whose number is unknown.
    """
    match e:
        case x.Literal_(type=t.Set(of=of)) if x.holds_all_members(e):
            return SetValue(of, lambda m: z3.BoolVal(True))  # however many there are
        case x.Literal_(type=type_, value=value):
            return f.sorts.literal(type_, value)
        case x.ConstantRef(name=name):
            return f.constants[name]
        case x.Now():
            return f.view.now
        case x.Self():
            return f.me
        case x.Data(role=role, name=name, owner=owner):
            return f.view.data(role, _owner(owner, f), name)
        case x.ControlState(role=role, owner=owner):
            return f.view.control(role, _owner(owner, f))
        case x.Argument(name=name):
            return f.arguments[name]
        case x.Sender():
            return f.sender
        case x.BoundVariable(name=name):
            return f.variables[name]
        case x.Apply(op=op):
            return ROWS[op](e, f)
        case x.InstanceAt(type=of, number=number):
            return _around(term(number, f), of, f.sorts.size(of))
        case x.Quantifier():
            return _quantifier(e, f)
        case x.MessageField(variable=variable, name=name):
            return message_field(f.variables[variable], name, e.type, f.sorts)
        case x.Old(operand=operand):
            return _old(operand, f)
        case x.Took():
            return _took(e, f)
        case x.Accepts():
            return term(e.meaning, f)
        case x.GlobalQuery(name="running", subjects=(role,), owners=(owner,)):
            return f.view.running(role, term(owner, f))
        case x.GlobalQuery(name="heard", subjects=(channel,)):
            return f.view.heard(channel)
        case x.GlobalQuery(name="heard", subjects=(channel, role), owners=(owner,)):
            return f.view.heard(channel, role, term(owner, f))
        case x.GlobalQuery(name="reachable"):
            # Nothing is known of the network; what a step may do when it is parted, it may do at any time here.
            return f.sorts.anything("reachable")
        case x.GlobalQuery(name="byzantine"):
            return z3.BoolVal(False)
    raise Unencodable(f"`{x.text(e)}`")


def first_value(datum: Datum, f: Bindings) -> Any:
    """The one value with which a field of a machine begins."""
    if datum.begins_as is None:
        return f.sorts.literal(datum.type, datum.initial)
    value = term(datum.begins_as, f)
    if isinstance(datum.type, t.Map) and not isinstance(datum.begins_as.type, t.Map):
        return MapValue(datum.type.key, lambda _: value)
    return value


def _old(e: x.Expression, f: Bindings) -> Any:
    """The value before the step; steps from one state share it, unless it speaks of the step."""
    assert f.before is not None
    if f.variables:
        return term(e, replace(f, view=f.before))
    known = f.olds.get(id(e))
    if known is None or known[0] is not f.before or (known[1] is not None and known[1] is not f.took):
        of = f.took if x.mentions(e, lambda node: isinstance(node, x.Took)) else None
        known = f.olds[id(e)] = f.before, of, term(e, replace(f, view=f.before))
    return known[2]


def _around(number: Term, of: t.Instance, size: Any) -> Term:
    """The instance of a number that is counted around.

    Where the number of instances is unknown, what goes around more than once is some instance: a solver cannot divide
    by an unknown number, and a ring needs the neighbours alone.
    """
    if isinstance(size, int):
        return number - size * _floor(number, z3.IntVal(size))
    far = z3.Function(f"around.{of.name}", z3.IntSort(), z3.IntSort())(number)
    instance = z3.If(conjunction(far >= 0, far < size), far, z3.IntVal(0))
    for low, value in ((-size, number + size), (size, number - size), (0, number)):
        instance = z3.If(conjunction(low <= number, number < low + size), value, instance)
    return instance


def _owner(owner: x.Expression | None, f: Bindings) -> Term:
    return f.me if owner is None else term(owner, f)


# Operators


Row: TypeAlias = Callable[[x.Apply, Bindings], Any]


def _values(function: Callable[..., Any]) -> Row:
    return lambda e, f: function(*(term(o, f) for o in e.operands))


def _decided(decides: Callable[[Term], bool], joined: Callable[..., Term]) -> Row:
    """Operands up to one that decides the value: what stands beside `took(...)` is often of another step."""

    def row(e: x.Apply, f: Bindings) -> Term:
        parts = []
        for operand in e.operands:
            parts.append(term(operand, f))
            if decides(parts[-1]):
                return parts[-1]
        return joined(*parts)

    return row


def _either(number: Callable[[Term, Term], Term], member: Callable[[Term, Term], Term]) -> Row:
    """An operator on numbers and, member by member, on sets."""

    def row(e: x.Apply, f: Bindings) -> Any:
        a, b = (term(o, f) for o in e.operands)
        if isinstance(a, SetValue):
            return SetValue(a.of or b.of, lambda m: member(a.holds(m), b.holds(m)))
        return number(a, b)

    return row


def _floor(a: Term, b: Term) -> Term:
    """Division that rounds down, as Python's; the solver's leaves a remainder of at least 0."""
    return z3.If(b > 0, a / b, -a / -b)


def _extreme(better: Callable[[Term, Term], Term]) -> Row:
    return _values(lambda *values: reduce(lambda best, other: z3.If(better(best, other), best, other), values))


def _sequence(e: x.Apply, f: Bindings) -> Any:
    of = e.type.of if isinstance(e.type, t.Seq) else None
    default = f.sorts.literal(of, t.default(of)) if of is not None else None
    made = f.sorts.sequences.made(e, lambda o, *_: term(o, f), default)
    return OptionValue(*made) if isinstance(made, tuple) else made


def _of_either(row: Row, place: int = 0) -> Row:
    """A row, or that of sequences where the operand at a place is one."""
    return lambda e, f: (_sequence if isinstance(e.operands[place].type, t.Seq) else row)(e, f)


def _length(e: x.Apply, f: Bindings) -> Term:
    elements = term(e.operands[0], f)
    return z3.IntVal(0) if elements.of is None else f.sorts.count(elements.of, elements.holds)


def _get(e: x.Apply, f: Bindings) -> Any:
    option, other = (term(o, f) for o in e.operands)
    return other if option.value is None else f.sorts.choice(option.some, option.value, other)


def _set(e: x.Apply, f: Bindings) -> SetValue:
    assert isinstance(e.type, t.Set)
    items = [term(i, f) for i in e.operands]
    return SetValue(e.type.of, lambda m: disjunction(*(m == v for v in items)))


def _compared(e: x.Apply, f: Bindings) -> Term:
    left, right = e.operands
    few = _few(e, f)
    if few is not None:
        return few
    if _is_number(left) and _is_number(right):
        ranked = f.variables[left.variable], f.variables[right.variable]
        return ranks_compared(ORDERS[e.op], *ranked, f.sorts)
    for side, other, op in ((left, right, e.op), (right, left, MIRRORED[e.op])):
        if _is_number(side) and isinstance(other, x.Literal_):
            return _rank_compared(e, op, f.variables[side.variable], other)
    a, b = term(left, f), term(right, f)
    if isinstance(a, MessageValue):
        same = same_message(a, b, f.sorts)
        return same if e.op == "==" else z3.Not(same)
    if e.op in ("==", "!="):
        return f.sorts.equal(a, b) if e.op == "==" else z3.Not(f.sorts.equal(a, b))
    if isinstance(a, SetValue):
        small, large = (a, b) if e.op in ("<", "<=") else (b, a)
        of = a.of or b.of
        if of is None:
            return z3.BoolVal(e.op in ("<=", ">="))
        within = f.sorts.every(of, lambda m: z3.Implies(small.holds(m), large.holds(m)))
        return within if e.op in ("<=", ">=") else conjunction(within, z3.Not(f.sorts.equal(a, b)))
    ordered: Term = ORDERS[e.op](a, b)
    return ordered


MIRRORED: Mapping[str, str] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
ROWS: Mapping[str, Row] = {
    "if": lambda e, f: f.sorts.choice(*(term(o, f) for o in e.operands)),
    "or": _decided(z3.is_true, disjunction),
    "and": _decided(z3.is_false, conjunction),
    "not": _values(z3.Not),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _compared),
    "in": _of_either(_values(lambda member, elements: elements.holds(member)), 1),
    "not in": _of_either(_values(lambda member, elements: z3.Not(elements.holds(member))), 1),
    "|": _either(operator.or_, disjunction),
    "&": _either(operator.and_, conjunction),
    "+": _of_either(_values(operator.add)),
    "-": _either(operator.sub, lambda a, b: conjunction(a, z3.Not(b))),
    "*": _values(operator.mul),
    "//": _values(lambda a, b: z3.If(b == 0, 0, _floor(a, b))),
    "%": _values(lambda a, b: z3.If(b == 0, 0, a - b * _floor(a, b))),
    "negative": _values(operator.neg),
    "{}": _set,
    "[]": _values(lambda cells, key: cells.at(key)),
    "min": _extreme(operator.le),
    "max": _extreme(operator.ge),
    "abs": _values(lambda n: z3.If(n < 0, -n, n)),
    "len": _of_either(_length),
    "index": _values(lambda instance: instance),
    "get": _get,
    **dict.fromkeys(OF_SEQUENCES, _sequence),
}


def _few(e: x.Apply, f: Bindings) -> Term | None:
    """A count of instances or messages against 0 or 1, without counting: whether there is one, and if there are two."""
    op, (counted, number) = e.op, e.operands
    if isinstance(counted, x.Literal_):
        op, counted, number = MIRRORED[op], number, counted
    if not (isinstance(number, x.Literal_) and number.value in (0, 1)):
        return None
    few = _counted(counted, f)
    if few is None:
        return None
    none, at_most_one = few
    if number.value == 0:
        return {"==": none, "<=": none, "!=": z3.Not(none), ">": z3.Not(none)}.get(op, z3.BoolVal(op == ">="))
    single = at_most_one()
    one = conjunction(z3.Not(none), single)
    return {
        "==": one,
        "!=": z3.Not(one),
        "<=": single,
        ">": z3.Not(single),
        ">=": z3.Not(none),
        "<": none,
    }[op]


def _counted(counted: x.Expression, f: Bindings) -> tuple[Term, Callable[[], Term]] | None:
    """Returns a term that a count is 0, and a maker of one that it is at most 1; None: no count, or a known size."""
    if isinstance(counted, x.Quantifier) and counted.kind == "count":

        def holds(member: Any) -> Term:
            frame = replace(f, variables={**f.variables, counted.variable: member})
            return conjunction(*(term(p, frame) for p in (counted.condition, counted.body) if p not in (None, x.TRUE)))

        if isinstance(counted.domain, x.Pending):
            name = counted.domain.name
            none = f.view.every_message(name, lambda m: _refuted(holds(m)))
            return none, lambda: f.view.at_most_one_message(name, holds)
        return _few_instances(domain := term(counted.domain, f), lambda m: conjunction(domain.holds(m), holds(m)), f)
    if isinstance(counted, x.Apply) and counted.op == "len" and not isinstance(counted.operands[0].type, t.Seq):
        elements = term(counted.operands[0], f)
        return _few_instances(elements, elements.holds, f)
    return None


def _refuted(formula: Term) -> Term:
    return z3.BoolVal(False) if z3.is_true(formula) else z3.Not(formula)


def _few_instances(
    domain: SetValue, holds: Callable[[Term], Term], f: Bindings
) -> tuple[Term, Callable[[], Term]] | None:
    of, every = domain.of, f.sorts.every
    if of is None or f.sorts.known(of) is not None:
        return None

    def at_most_one() -> Term:
        return every(of, lambda m: every(of, lambda n: z3.Implies(conjunction(holds(m), holds(n)), m == n)))

    return every(of, lambda m: z3.Not(holds(m))), at_most_one


def _quantifier(e: x.Quantifier, f: Bindings) -> Any:
    def inner(member: Any) -> Bindings:
        return replace(f, variables={**f.variables, e.variable: member})

    def chosen(member: Any) -> Term:
        return z3.BoolVal(True) if e.condition is None else term(e.condition, inner(member))

    if isinstance(e.domain, x.Pending):
        if e.kind == "count":
            raise Unencodable(f"`{x.text(e)}` but in comparison with 0 or 1")
        if e.kind not in ("all", "any"):
            raise Unencodable(f"`{x.text(e)}`: messages on their way are not counted")
        wanted = e.kind == "all"

        def about(message: MessageValue) -> Term:
            holds = term(e.body, inner(message))
            return z3.Implies(chosen(message), holds if wanted else z3.Not(holds))

        of_all = f.view.latest_messages if _is_of_latest(e) else f.view.every_message
        formula = of_all(e.domain.name, about)
        return formula if wanted else z3.Not(formula)
    domain = term(e.domain, f)
    of = domain.of
    assert of is not None

    def counts(member: Term) -> Term:
        return conjunction(domain.holds(member), chosen(member))

    def body(member: Term) -> Any:
        return term(e.body, inner(member))

    def both(member: Term) -> Term:
        return conjunction(counts(member), body(member))

    def summand(member: Term) -> Term:
        return z3.If(counts(member), body(member), 0)

    match e.kind:
        case "all":
            return f.sorts.every(of, lambda m: z3.Implies(counts(m), body(m)))
        case "any":
            return f.sorts.some(of, both)
        case "count":
            return f.sorts.count(of, both)
        case "set":
            return SetValue(of, counts)
        case "map":
            return MapValue(of, body)
        case "union":
            result = e.type.of if isinstance(e.type, t.Set) else None
            return SetValue(result, lambda k: f.sorts.some(of, lambda m: conjunction(counts(m), body(m).holds(k))))
    members = f.sorts.known(of)
    if e.kind in ("min", "max"):
        better = operator.le if e.kind == "min" else operator.ge
        otherwise = z3.IntVal(0) if e.default is None else term(e.default, f)
        if members is not None:
            return _best([(counts(m), body(m)) for m in members], better, otherwise)
        assert isinstance(of, t.Instance)
        best = f.sorts.cardinals.best(of, counts, body, better)
        return z3.If(f.sorts.some(of, counts), body(best), otherwise)
    if members is None:
        assert isinstance(of, t.Instance)
        return f.sorts.cardinals.sum(of, summand)
    return z3.Sum([summand(m) for m in members])


def _is_of_latest(e: x.Quantifier) -> bool:
    """Returns whether what it says of messages is of the latest ones alone."""
    narrowing = [e.condition] if e.condition is not None else []
    narrowing += [e.body] if e.kind == "any" else []
    parts = [part for whole in narrowing for part in x.conjuncts(whole)]
    return any(isinstance(p, x.MessageField) and (p.variable, p.name) == (e.variable, "latest") for p in parts)


def _best(cases: Sequence[tuple[Term, Term]], better: Callable[[Term, Term], Term], otherwise: Term) -> Term:
    """The value that none of those that count beats."""
    some, best = z3.BoolVal(False), otherwise
    for counts, value in cases:
        best = z3.If(conjunction(counts, disjunction(z3.Not(some), better(value, best))), value, best)
        some = disjunction(some, counts)
    return best


def _is_number(side: x.Expression) -> TypeGuard[x.MessageField]:
    return isinstance(side, x.MessageField) and side.name == "number"


def _rank_compared(e: x.Apply, op: str, message: MessageValue, other: x.Literal_) -> Term:
    """Returns how a message's number compares with a literal. Numbers are abstract: only their order is known."""
    try:
        return rank_compared(op, message, other.value)
    except Unencodable as error:
        raise Unencodable(f"`{x.text(e)}`: {error}") from error


def _took(e: x.Took, f: Bindings) -> Term:
    took = f.took
    if took is ANY_STEP:
        return f.sorts.anything("took")
    if took.role != e.role or e.event not in (None, took.event) or (e.ignored and not took.ignored):
        return z3.BoolVal(False)
    return z3.BoolVal(True) if e.owner is None else term(e.owner, f) == took.instance
