"""The meaning of `accepts(role.event)`: an expression over the state, without a quantifier over the event's numbers.

Theory of operation. A machine accepts an event if one of its state's transitions on the event has a guard that holds
for *some* values of the event's fields that their types allow. No reading can try all numbers, so the fields are
eliminated once, here, from each guard, and every reading takes the result (virtual substitution, as in Cooper's
quantifier elimination; all coefficients are 1 or -1, so it is exact).

A field with members (a bool, an enumeration, an instance, the sender) is replaced by each of them in turn. Of a number,
take the least one from which the guard holds up to some value: it is the least of the type, or some comparison becomes
true there. So the guard holds for some number if it holds for one of these, or, where the type has no least number, if
it holds for all numbers that are small enough.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.model import Property, Role, System
from leasehold.spec.language.types import BOOL, INT, Bool, Enum, Instance, Int, Set, Time, Type, Value

FALSE = x.Literal_(type=BOOL, value=False)
OF_GUARDS = "__Guard"  # after the names of a guard's variables: no name of a specification has a capital letter


class NotEliminable(Exception):
    """A guard compares a field of the event in a way that this module does not take."""

    def __init__(self, guard: x.Expression, field: str) -> None:
        super().__init__(field)
        self.guard, self.field = guard, field


def with_meanings(system: System, sink: Sink | None = None, role: str = "") -> System:
    """The system whose claims know what `accepts` means for its machines. Who changes the machines calls it again.

    Args:
        system: whose machines may have other guards than when its claims were last given their meaning.
        sink: for guards whose fields cannot be eliminated; left out: there are none.
        role: the one whose machines were changed; empty: any.
    """
    meanings: dict[x.Accepts, x.Expression] = {}

    def of(claims: Mapping[str, Property]) -> dict[str, Property]:
        return {name: with_meaning(system, p, sink, role, meanings) for name, p in claims.items()}

    return replace(system, properties=of(system.properties), lemmas=of(system.lemmas))


def with_meaning(
    system: System,
    p: Property,
    sink: Sink | None = None,
    role: str = "",
    meanings: dict[x.Accepts, x.Expression] | None = None,
) -> Property:
    """A claim that knows what `accepts` means for the machines of a system; the rest is as in `with_meanings`.

    `meanings` are those that are known for these machines; others are added.
    """
    meanings = {} if meanings is None else meanings

    def known(e: x.Expression) -> x.Expression:
        if not isinstance(e, x.Accepts):
            return x.with_parts(e, known)
        if role not in ("", e.role):
            return e
        bare = replace(e, means=None)
        try:
            if bare not in meanings:
                meanings[bare] = meaning(system, e)
            return replace(e, means=meanings[bare])
        except NotEliminable as error:
            if sink is None:
                raise
            details = {"role": e.role, "event": e.event, "field": error.field, "guard": x.text(error.guard)}
            sink.error("accepts_undecided", e.place, **details)
            return e

    claim, when = known(p.claim), None if p.when is None else known(p.when)
    return p if claim is p.claim and when is p.when else replace(p, claim=claim, when=when)


def meaning(system: System, e: x.Accepts) -> x.Expression:
    """The state expression that `accepts` stands for.

    Raises:
        NotEliminable: a guard uses a field of the event in a way that no test point decides.
    """
    role = system.roles[e.role]
    some = x.BoundVariable(type=role.instance, name=f"some__{role.name}")
    owner = e.owner or (some if role.indexed else x.Literal_(type=role.instance, value=0))
    states: dict[x.Expression, list[str]] = {}  # by what else must hold
    for state in role.states.values():
        if choices := state.on.get(e.event, ()):
            guards = [_for_some_fields(system, role, e.event, c.guard or x.TRUE) for c in choices]
            states.setdefault(_either(_owned(guard, owner) for guard in guards), []).append(state.name)
    control = x.ControlState(type=role.control, role=role.name, owner=owner)
    ways = (_both([_is_one_of(control, role.control, names), guard]) for guard, names in states.items())
    whole = _either(ways)
    return _any(some.name, role.instance, whole) if owner is some else whole


def _is_one_of(control: x.Expression, of: Enum, states: Sequence[str]) -> x.Expression:
    literals = tuple(x.Literal_(type=of, value=name) for name in states)
    if len(literals) == 1:
        return x.Apply(type=BOOL, op="==", operands=(control, *literals))
    return x.Apply(type=BOOL, op="in", operands=(control, x.Apply(type=Set(of), op="{}", operands=literals)))


def _any(variable: str, of: Instance, body: x.Expression) -> x.Expression:
    return x.Quantifier(type=BOOL, kind="any", variable=variable, domain=x.all_members(of), condition=None, body=body)


# Fields


def _for_some_fields(system: System, role: Role, event: str, guard: x.Expression) -> x.Expression:
    """Returns the condition that a guard holds for some fields of the event, and some sender."""
    condition = _substituted(guard, lambda node: node)
    # Numbers come first: an instance leaves a quantifier, in which none could be eliminated.
    for datum in sorted(system.fields_of(role.name, event), key=lambda d: isinstance(d.type, Instance)):
        if _mentions(condition, datum.name):
            try:
                condition = _for_some(condition, datum.name, datum.type)
            except NotEliminable as error:
                raise NotEliminable(guard, error.field) from None
    if x.mentions(condition, lambda node: isinstance(node, x.Sender)):
        sender = system.roles[system.messages[event].sender].instance
        name = f"{event}__sender"
        variable = x.BoundVariable(type=sender, name=name)
        condition = _any(
            name, sender, _substituted(condition, lambda node: variable if isinstance(node, x.Sender) else node)
        )
    return condition


def _for_some(guard: x.Expression, field: str, of: Type) -> x.Expression:
    put = partial(_put, guard, field)
    match of:
        case Bool():
            return _either(put(x.Literal_(type=BOOL, value=value)) for value in (False, True))
        case Enum(members=members):
            return _either(put(x.Literal_(type=of, value=value)) for value in members)
        case Instance():
            variable = x.BoundVariable(type=of, name=f"event__{field}")
            return _any(variable.name, of, put(variable))
        case Int(low=low, high=high):
            return _for_some_number(guard, field, low, None if high is None else x.Literal_(type=INT, value=high))
        case Time():
            return _for_some_number(guard, field, 0, None)
        case Set(of=member) if member is not None:
            return _for_some_size(guard, field, member)
    raise NotEliminable(guard, field)


def _for_some_size(guard: x.Expression, field: str, of: Enum | Instance) -> x.Expression:
    """The same of a set of which a guard reads the size alone."""
    size = x.Argument(type=INT, name=f"len({field})")

    def change(e: x.Expression) -> x.Expression:
        return size if isinstance(e, x.Apply) and e.op == "len" and _is_field(e.operands[0], field) else e

    sized = _substituted(guard, change)
    if _mentions(sized, field):
        raise NotEliminable(guard, field)
    return _for_some_number(sized, size.name, 0, x.Apply(type=INT, op="len", operands=(x.all_members(of),)))


def _put(guard: x.Expression, field: str, value: x.Expression) -> x.Expression:
    return _substituted(guard, lambda node: value if _is_field(node, field) else node)


def _for_some_number(guard: x.Expression, field: str, low: int | None, high: x.Expression | None) -> x.Expression:
    match guard:
        case x.Apply(op="or", operands=operands):
            return _either(_for_some_number(o, field, low, high) for o in operands)
        case x.Apply(op="and", operands=operands) if rest := [o for o in operands if not _mentions(o, field)]:
            about = _both([o for o in operands if _mentions(o, field)])
            return _both([*rest, _for_some_number(about, field, low, high)])
    lowest = [] if low is None else [x.Literal_(type=INT, value=low)]
    points = [p for atom, positive in _atoms(guard, field, True) for p in _points(atom, positive, field)]
    ways = [] if low is not None else [_for_small_numbers(guard, field)]
    for point in dict.fromkeys([*lowest, *points]):
        within = [_compared(">=", point, least) for least in lowest]
        within += [] if high is None else [_compared("<=", point, high)]
        ways.append(_both([*within, _put(guard, field, point)]))
    return _either(ways)


def _atoms(e: x.Expression, field: str, positive: bool) -> Iterator[tuple[x.Expression, bool]]:
    """The parts without `and`, `or` and `not` that mention a field; each with whether the guard needs it to hold."""
    match e:
        case x.Apply(op="and" | "or", operands=operands):
            for operand in operands:
                yield from _atoms(operand, field, positive)
        case x.Apply(op="not", operands=(operand,)):
            yield from _atoms(operand, field, not positive)
        case _ if _mentions(e, field):
            yield e, positive


_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _solved(atom: x.Expression, field: str) -> tuple[str, x.Expression]:
    """A comparison as one of the field alone with an expression without it: the operator, and that expression."""
    if not (isinstance(atom, x.Apply) and atom.op in _MIRRORED):
        raise NotEliminable(atom, field)
    left, right = (_linear(operand) for operand in atom.operands)
    whole = left.minus(right)
    (own, count), *more = [(e, n) for e, n in whole.counts.items() if _mentions(e, field)]
    if more or not _is_field(own, field) or count not in (1, -1):
        raise NotEliminable(atom, field)
    rest = _Linear({e: n for e, n in whole.counts.items() if e != own}, whole.number)
    if count == 1:
        return atom.op, _Linear({}, 0).minus(rest).words(atom.operands[0].type)
    return _MIRRORED[atom.op], rest.words(atom.operands[0].type)


def _points(atom: x.Expression, positive: bool, field: str) -> Iterator[x.Expression]:
    """The numbers at which a comparison that was not so for the number before is (or, negated, is not) so."""
    op, bound = _solved(atom, field)
    match op if positive else _OPPOSITE[op]:
        case "==" | ">=":
            yield bound
        case ">" | "!=":
            yield _linear(bound).minus(_Linear({}, -1)).words(bound.type)


def _for_small_numbers(e: x.Expression, field: str) -> x.Expression:
    """Returns the condition that a guard holds for all numbers of a field that are small enough."""
    match e:
        case x.Apply(op="and" | "or" | "not", operands=operands):
            return _simplified(replace(e, operands=tuple(_for_small_numbers(o, field) for o in operands)))
        case _ if _mentions(e, field):
            return x.TRUE if _solved(e, field)[0] in ("<", "<=", "!=") else FALSE
    return e


# Expressions that are simplified as they are made


@dataclass(frozen=True)
class _Linear:
    """A number as a sum: how often it has each expression, and the number that is added."""

    counts: Mapping[x.Expression, int]
    number: int

    def minus(self, other: _Linear) -> _Linear:
        counts = {e: self.counts.get(e, 0) - other.counts.get(e, 0) for e in {**self.counts, **other.counts}}
        return _Linear({e: n for e, n in counts.items() if n}, self.number - other.number)

    def words(self, of: Type) -> x.Expression:
        """The sum as an expression."""
        added = [e for e, n in self.counts.items() for _ in range(n)]
        taken = [e for e, n in self.counts.items() for _ in range(-n)]
        (taken if self.number < 0 else added).extend(
            [x.Literal_(type=INT, value=abs(self.number))] if self.number or not added else []
        )
        total, *more = added or [x.Literal_(type=INT, value=0)]
        for op, others in (("+", more), ("-", taken)):
            for other in others:
                total = x.Apply(type=of, op=op, operands=(total, other))
        return total


def _linear(e: x.Expression) -> _Linear:
    match e:
        case x.Literal_(value=int(value)):
            return _Linear({}, value)
        case x.Apply(op="-", operands=(a, b)):
            return _linear(a).minus(_linear(b))
        case x.Apply(op="+", operands=(a, b)):
            return _linear(a).minus(_Linear({}, 0).minus(_linear(b)))
        case x.Apply(op="negative", operands=(a,)):
            return _Linear({}, 0).minus(_linear(a))
    return _Linear({e: 1}, 0)


_COMPARES: Mapping[str, Callable[[Value, Value], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compared(op: str, a: x.Expression, b: x.Expression) -> x.Expression:
    if not isinstance(a.type, Int | Time):
        if isinstance(a, x.Literal_) and isinstance(b, x.Literal_):
            return x.Literal_(type=BOOL, value=_COMPARES[op](a.value, b.value))
        return x.Apply(type=BOOL, op=op, operands=(a, b))
    whole = _linear(a).minus(_linear(b))
    least = _least(whole)
    if least is not None and (least > 0 or (least == 0 and (op in (">=", "<") or not whole.counts))):
        return x.Literal_(type=BOOL, value=_COMPARES[op](least, 0))
    if not whole.counts:
        return x.Literal_(type=BOOL, value=_COMPARES[op](whole.number, 0))
    number = whole.number
    left = _Linear({e: n for e, n in whole.counts.items() if n > 0}, max(number, 0))
    right = _Linear({e: -n for e, n in whole.counts.items() if n < 0}, max(-number, 0))
    if not left.counts:
        op, left, right = _MIRRORED[op], _Linear(right.counts, 0), _Linear({}, number)
    return x.Apply(type=BOOL, op=op, operands=(left.words(a.type), right.words(b.type)))


def _least(of: _Linear) -> int | None:
    """The least value of a sum, where the types of its parts say so."""
    lows = [_low(e) if n > 0 else None for e, n in of.counts.items()]
    if None in lows:
        return None
    return of.number + sum(low * n for low, n in zip(lows, of.counts.values(), strict=True) if low is not None)


def _low(e: x.Expression) -> int | None:
    if isinstance(e, x.Now) or (isinstance(e, x.Data | x.Argument) and isinstance(e.type, Time)):
        return 0
    return e.type.low if isinstance(e, x.Data | x.Argument) and isinstance(e.type, Int) else None


def _joined(op: str, decided_by: x.Expression, parts: Sequence[x.Expression]) -> x.Expression:
    neutral = x.TRUE if decided_by == FALSE else FALSE
    operands: dict[x.Expression, None] = {}
    for part in parts:
        inner = part.operands if isinstance(part, x.Apply) and part.op == op else (part,)
        operands |= dict.fromkeys(i for i in inner if i != neutral)
    if decided_by in operands or not operands:
        return decided_by if operands else neutral
    return next(iter(operands)) if len(operands) == 1 else x.Apply(type=BOOL, op=op, operands=tuple(operands))


def _both(parts: Sequence[x.Expression]) -> x.Expression:
    return _joined("and", FALSE, parts)


def _either(parts: Iterable[x.Expression]) -> x.Expression:
    return _joined("or", x.TRUE, [*parts])


def _simplified(e: x.Expression) -> x.Expression:
    match e:
        case x.Apply(op="and", operands=operands):
            return _both(operands)
        case x.Apply(op="or", operands=operands):
            return _either(operands)
        case x.Apply(op="not", operands=(x.Literal_(value=value),)):
            return x.Literal_(type=BOOL, value=not value)
        case x.Apply(op=op, operands=(a, b)) if op in _COMPARES:
            return _compared(op, a, b)
    return e


# Substitution


def _substituted(e: x.Expression, change: Callable[[x.Expression], x.Expression]) -> x.Expression:
    """The expression with every part changed and simplified, the innermost first."""
    return _simplified(change(x.with_parts(e, lambda part: _substituted(part, change))))


def _owned(guard: x.Expression, owner: x.Expression) -> x.Expression:
    """The guard of a machine as an expression over the whole state, which names the machine.

    Variables of its own quantifiers get other names: the machine's name may be a variable of the claim.
    """
    bound = {e.variable for e in x.walk(guard) if isinstance(e, x.Quantifier)}

    def change(e: x.Expression) -> x.Expression:
        match e:
            case x.Self():
                return owner
            case x.Data(owner=None) | x.ControlState(owner=None):
                return replace(e, owner=owner)
            case x.BoundVariable(name=name) if name in bound:
                return replace(e, name=f"{name}{OF_GUARDS}")
            case x.Quantifier(variable=variable) | x.MessageField(variable=variable) if variable in bound:
                return replace(e, variable=f"{variable}{OF_GUARDS}")
        return e

    return _substituted(guard, change)


def _mentions(e: x.Expression, field: str) -> bool:
    return x.mentions(e, lambda node: _is_field(node, field))


def _is_field(node: x.Expression, field: str) -> bool:
    return isinstance(node, x.Argument) and node.name == field
