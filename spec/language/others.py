"""The value of an expression for each machine of a dynamic role that nothing tells apart.

Theory of operation. There may be any number of machines of a dynamic role, so a run cannot look at all of them. It need
not, where all but a few give the same value. Of an expression with a variable that is such a machine, `OthersValue` is
a value and who may give another one: for each machine that is none of `apart`, the expression has the value. The rules:

    m[n]         the value of m's machines without an entry; those with one are apart
    n == e       false; the machine e is apart
    n in s       false; the members of s are apart
    and, or      what decides it, with those that are apart of that operand alone; else all operands are to be known
    a if c else b   the branch that c gives; or the value of both, where they give the same
    f(...)       of known operands

What `apart` names is read outside of the variable, so it does not speak of it. Nothing is said of what compares numbers
of machines, and of all else that may be another value for each. So a quantifier over all machines is the one over those
that are apart, if the others give what changes nothing (NEUTRAL): then its value does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Datum, System
from leasehold.spec.language.operators import OPERATORS

NEUTRAL: Mapping[str, t.Value] = {"all": True, "any": False, "count": False, "sum": 0, "union": frozenset()}

FOLDS: Mapping[str, Callable[[Sequence[t.Value]], t.Value]] = {
    "all": all,
    "any": any,
    "count": lambda bodies: sum(1 for body in bodies if body),
    "sum": sum,
    "min": min,
    "max": max,
    "union": lambda bodies: frozenset().union(*bodies),
    "map": tuple,
}

# Machines by what names them: the keys of a map's entries, the members of a set, or one machine (or `none`).
Apart: TypeAlias = tuple[Literal["keys", "members", "one"], x.Expression]


@dataclass(frozen=True)
class OthersValue:
    """The value that an expression has for all machines but those that are `apart`."""

    value: t.Value
    apart: tuple[Apart, ...] = ()


def over_all_members(e: x.Expression) -> bool:
    """Returns whether it is a quantifier over all machines of a dynamic role."""
    if not isinstance(e, x.Quantifier) or not x.holds_all_members(e.domain):
        return False
    of = e.domain.type.of if isinstance(e.domain.type, t.Set) else None
    return isinstance(of, t.Instance) and of.dynamic


class OthersOf:
    """The values of expressions for machines that nothing tells apart.

    Args:
        constants: by name.
        rest: of a field that is a map, the value of machines without an entry; `...` where there is none.
    """

    def __init__(self, constants: Mapping[str, t.Value], rest: Callable[[x.Expression], t.Value]) -> None:
        self.constants, self.rest = constants, rest

    def of_map(self, e: x.Expression) -> OthersValue | None:
        """The value of machines without an entry in a map; None where there is no one value."""
        match e:
            case x.Data() | x.Argument():
                rest = self.rest(e)
                return None if rest is ... else OthersValue(rest, (("keys", e),))
            case x.Quantifier(kind="map", variable=variable, body=body) if over_all_members(e):
                return self.of(body, variable)
            case x.Apply(op="if", operands=(_, one, other)):
                return _agreed([self.of_map(one), self.of_map(other)])
        return None

    def who(self, e: x.Quantifier) -> tuple[Apart, ...] | None:
        """The machines that a quantifier over all of them has to look at; None where that may be all."""
        if e.condition is not None:
            condition = self.of(e.condition, e.variable)
            ends = e.kind not in ("min", "max") or e.default is not None
            if condition is not None and condition.value is False and ends:
                return condition.apart
        if e.kind == "map" or e.kind in NEUTRAL:
            body = self.of(e.body, e.variable)
            if body is not None and (e.kind == "map" or body.value == NEUTRAL[e.kind]):
                return body.apart
        return None

    def of(self, e: x.Expression, variable: str, inside: frozenset[str] = frozenset()) -> OthersValue | None:
        """The value of an expression where a variable is a machine that nothing tells apart.

        Args:
            e: the expression.
            variable: the name of the variable.
            inside: variables that are bound within the expression, and may have any value.
        """

        def of(part: x.Expression) -> OthersValue | None:
            return self.of(part, variable, inside)

        def stands_outside(part: x.Expression) -> bool:
            return not x.mentions(part, lambda n: isinstance(n, x.BoundVariable) and n.name in {variable, *inside})

        def is_it(part: x.Expression) -> bool:
            return isinstance(part, x.BoundVariable) and part.name == variable

        match e:
            case x.Literal_(value=value):
                return OthersValue(value)
            case x.ConstantRef(name=name) if name in self.constants:
                return OthersValue(self.constants[name])
            case x.Apply(op="==" | "!=" as op, operands=(one, two)) if is_it(one) or is_it(two):
                other = two if is_it(one) else one
                if is_it(other):
                    return OthersValue(op == "==")
                return OthersValue(op == "!=", (("one", other),)) if stands_outside(other) else None
            case x.Apply(op="in" | "not in" as op, operands=(one, among)) if is_it(one):
                if x.holds_all_members(among):
                    return OthersValue(op == "in")
                return OthersValue(op == "not in", (("members", among),)) if stands_outside(among) else None
            case x.Apply(op="[]", operands=(cells, key)) if is_it(key):
                return self._cell(e, cells, variable, of, stands_outside)
            case x.Apply(op="and" | "or" as op, operands=operands):
                return _until(op == "or", map(of, operands))
            case x.Apply(op="if", operands=(test, one, other)):
                if (known := of(test)) is not None:
                    return _joined(known, of(one if known.value else other))
                return _agreed([of(one), of(other)])
            case x.Apply(op="*", operands=(one, other)):
                factors = [part for part in (of(one), of(other)) if part is not None]
                if zero := next((part for part in factors if part.value == 0), None):
                    return zero
                return None if len(factors) < 2 else OthersValue(factors[0].value * factors[1].value, _apart(factors))
            case x.Apply(op=op, operands=operands):
                row, parts = OPERATORS[op], [part for part in map(of, operands) if part is not None]
                if len(parts) < len(operands):
                    return None
                kinds = ([o.type for o in operands],) if row.typed else ()
                return OthersValue(row.means(*kinds, *(part.value for part in parts)), _apart(parts))
            case x.Quantifier(variable=hidden) if hidden != variable and not isinstance(e.domain, x.Pending):
                return self._quantified(e, variable, inside)
        return None

    def _cell(
        self,
        e: x.Apply,
        cells: x.Expression,
        variable: str,
        of: Callable[[x.Expression], OthersValue | None],
        stands_outside: Callable[[x.Expression], bool],
    ) -> OthersValue | None:
        """The cell of the machine in a map; of a map that is made, what the cell is made of."""
        match cells:
            case x.Apply(op="if", operands=(test, one, other)):
                branches = (replace(e, operands=(m, e.operands[1])) for m in (one, other))
                return of(x.Apply(type=e.type, op="if", operands=(test, *branches)))
            case x.Quantifier(kind="map", variable=own, body=body) if not x.mentions(cells, _binds(variable)):
                return of(x.with_variables(body, {own: lambda _: e.operands[1]}))
        return self.of_map(cells) if stands_outside(cells) else None

    def _quantified(self, e: x.Quantifier, variable: str, inside: frozenset[str]) -> OthersValue | None:
        """A quantifier within the expression."""
        kind = e.domain.type.of if isinstance(e.domain.type, t.Set) else None
        if kind is None or over_all_members(e) or not x.holds_all_members(e.domain):
            return self._of_any(e, variable, inside)
        known: list[OthersValue] = []  # of an enumeration or a counted type each member is looked at
        chosen: list[t.Value] = []
        bodies: list[t.Value] = []
        for member in t.members(kind):
            bound = {e.variable: partial(_literal, member)}
            test = OthersValue(True) if e.condition is None else self._of_bound(e.condition, bound, variable, inside)
            if test is None:
                return None
            known.append(test)
            if not test.value:
                continue
            body = self._of_bound(e.body, bound, variable, inside)
            if body is None:
                return None
            known.append(body)
            chosen.append(member)
            bodies.append(body.value)
        if e.kind in FOLDS and (bodies or e.kind not in ("min", "max")):
            return OthersValue(FOLDS[e.kind](bodies), _apart(known))
        return OthersValue(frozenset(chosen), _apart(known)) if e.kind == "set" else None

    def _of_bound(
        self, e: x.Expression, bound: Mapping[str, Callable[..., x.Expression]], variable: str, inside: frozenset[str]
    ) -> OthersValue | None:
        return self.of(x.with_variables(e, bound), variable, inside)

    def _of_any(self, e: x.Quantifier, variable: str, inside: frozenset[str]) -> OthersValue | None:
        """A quantifier over members that are not known: it is known where each of them changes nothing."""
        within = inside | {e.variable}
        nothing = 0 if e.kind == "count" else NEUTRAL.get(e.kind, frozenset())
        if e.condition is not None and e.kind not in ("min", "max", "map"):
            condition = self.of(e.condition, variable, within)
            if condition is not None and condition.value is False:
                return OthersValue(nothing, condition.apart)
        body = self.of(e.body, variable, within) if e.kind in NEUTRAL else None
        return None if body is None or body.value != NEUTRAL[e.kind] else OthersValue(nothing, body.apart)


def _apart(parts: Iterable[OthersValue]) -> tuple[Apart, ...]:
    return tuple(dict.fromkeys(one for part in parts for one in part.apart))


def _joined(known: OthersValue, part: OthersValue | None) -> OthersValue | None:
    return None if part is None else OthersValue(part.value, _apart((known, part)))


def _agreed(parts: list[OthersValue | None]) -> OthersValue | None:
    """The value that all parts have."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or any(part.value != known[0].value for part in known):
        return None
    return OthersValue(known[0].value, _apart(known))


def _until(decision: bool, operands: Iterable[OthersValue | None]) -> OthersValue | None:
    """The value of `and` or `or`: one operand decides, or all are known."""
    parts = list(operands)
    for part in parts:
        if part is not None and part.value is decision:
            return part
    known = [part for part in parts if part is not None]
    return None if len(known) < len(parts) else OthersValue(not decision, _apart(known))


def _binds(variable: str) -> Callable[[x.Expression], bool]:
    """Returns whether a part binds a variable of this name."""
    return lambda part: isinstance(part, x.Quantifier) and part.variable == variable


def _literal(member: t.Value, variable: x.BoundVariable) -> x.Expression:
    return x.Literal_(type=variable.type, value=member)


def others_of(system: System, fields: Iterable[Datum] = ()) -> OthersOf:
    """The values of expressions of a system's machines; `fields` are those of the event.

    What a task is given besides begins as its type says.
    """
    kinds = {f.name: f.type for f in fields}

    def rest(e: x.Expression) -> t.Value:
        match e:
            case x.Data(role=role, name=name):
                kind = system.holders[role].data[name].type
            case x.Argument(name=name) if name in kinds:
                kind = kinds[name]
            case _:
                kind = t.with_rest(e.type)
        return kind.rest if isinstance(kind, t.Map) else ...

    return OthersOf(system.values(), rest)


def first_rest(e: x.Expression | None, cell: t.Value, constants: Mapping[str, t.Value]) -> t.Value:
    """The value of machines without an entry in the first value of a map.

    Args:
        e: the first value, or that of each cell, where the number of machines matters.
        cell: the value of a cell of the first machine.
        constants: by name.

    Returns:
        `...` where machines that nothing tells apart have no one value.
    """
    if e is None:
        return cell
    others = OthersOf(constants, lambda _: ...)
    found = others.of_map(e) if isinstance(e.type, t.Map) else others.of(e, "")
    return ... if found is None else found.value
