"""Sets, maps and comparison as SQL: a set is asked for its members, a map for its cells, and neither is made.

`u in a | b` is `u in a or u in b`, and so on down to the fields, which are JSON. Sets and maps are compared as
texts where both are fields, and else member by member, or cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from leasehold.checker.verify.sql.dialects import kind_of
from leasehold.checker.verify.sql.frame import Bound, NotAsked, SqlFrame, at_moment, each_member, nested
from leasehold.checker.verify.sql.sequences import json_cell, literal, of_sequence, stored
from leasehold.checker.verify.sql.text import (
    AND,
    ATOM,
    COMPARED,
    JSON,
    NOT,
    SUM,
    Enclosed,
    Joined,
    Listed,
    Sql,
    Words,
    case,
    conjunction,
    disjunction,
    flat,
    negation,
    within,
)
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.operators import template


def domain(e: x.Quantifier, f: SqlFrame) -> SqlFrame:
    """The frame within a quantifier: a query over all that it ranges over, with its variable bound."""
    if isinstance(e.domain, x.Pending):
        table, _ = f.layout.messages(e.domain.name)
        inner, alias = nested(f, table, e.variable if e.variable != "_" else "m")
        inner.scope.query.where.append(Words(at_moment(alias, f.moment), AND))
        return inner.bind(e.variable, Bound(Words(alias), inner.scope, (alias, "", None)))
    assert isinstance(e.domain.type, t.Set) and e.domain.type.of is not None
    of, whole = e.domain.type.of, x.holds_all_members(e.domain)
    inner = each_member(e.variable, of, f, e.variable if e.variable != "_" else of.name)
    if not whole:
        member = x.BoundVariable(type=of, name=e.variable)
        # The domain stands outside of the variable, which may hide one of the same name.
        outside = {**inner.variables, **{n: b for n, b in f.variables.items() if n == e.variable}}
        inner.scope.query.where += conjuncts(
            has_value(inner.variables[e.variable].value, member, e.domain, replace(inner, variables=outside))
        )
    return inner


def conjuncts(condition: Sql) -> list[Sql]:
    return list(condition.parts) if isinstance(condition, Joined) and condition.glue == "AND" else [condition]


# Members


def has(member: x.Expression, whole: x.Expression, f: SqlFrame) -> Sql:
    """Returns whether a set has a member."""
    membership = has_value(f.sql(member), member, whole, f)
    if isinstance(member.type, t.Option):
        return conjunction([Words(f"{flat(within(f.sql(member), SUM))} IS NOT NULL", COMPARED), membership])
    return membership


def has_value(value: Sql, member: x.Expression, whole: x.Expression, f: SqlFrame) -> Sql:
    """The same, of a member that is SQL already."""

    def within_(part: x.Expression) -> Sql:
        return has_value(value, member, part, f)

    match whole:
        case x.Literal_(type=t.Set(of=of), value=members):
            if x.holds_all_members(whole):
                kind = of or member.type
            return _one_of(value, [literal(kind, v, f) for v in _ordered(whole)]) if members else Words("FALSE")
        case x.Apply(op="{}", operands=items):
            return _one_of(value, [f.sql(i) for i in items]) if items else Words("FALSE")
        case x.Apply(op="|", operands=(a, b)):
            return disjunction([within_(a), within_(b)])
        case x.Apply(op="&", operands=(a, b)):
            return conjunction([within_(a), within_(b)])
        case x.Apply(op="-", operands=(a, b)):
            return conjunction([within_(a), negation(within_(b))])
        case x.Apply(op="if", operands=(test, then, other)):
            return case(f.sql(test), within_(then), within_(other))
        case x.Apply(op="get", operands=(option, instead)):
            return case(is_none(option, f), within_(instead), within_(option))
        case x.Quantifier(kind="set", variable=variable):
            inner = domain(whole, f)
            query = inner.scope.query
            bound = inner.variables[variable].value
            query.where.append(Joined("=", (within(bound, SUM), within(value, SUM)), COMPARED))
            if whole.condition is not None:
                query.where += [inner.sql(p) for p in x.conjuncts(whole.condition)]
            return Enclosed("EXISTS (", query)
        case x.Quantifier(kind="union"):
            inner = domain(whole, f)
            query = inner.scope.query
            if whole.condition is not None:
                query.where += [inner.sql(p) for p in x.conjuncts(whole.condition)]
            query.where += conjuncts(has_value(value, member, whole.body, inner))
            return Enclosed("EXISTS (", query)
        case x.Old(operand=operand):
            return has_value(value, member, operand, replace(f, moment=replace(f.moment, before=True)))
    if (moved := _moved(whole, f, lambda part, inner: has_value(value, member, part, inner))) is not None:
        return moved
    d = f.layout.dialect
    form = d.has_text if kind_of(member.type) == "text" else d.has_number
    array, one = flat(within(f.sql(whole), ATOM)), within(value, SUM)
    head, glue, tail = form.partition("{1} IN ")
    if glue:
        return Joined("IN", (one, Words(tail.format(array))), COMPARED)
    return Words(head.format(array, flat(one)), COMPARED)


def _moved(e: x.Expression, f: SqlFrame, then: Callable[[x.Expression, SqlFrame], Sql]) -> Sql | None:
    """Returns what is asked of a cell of a map that is not a field: it is asked of what the cell is made of."""
    if not (isinstance(e, x.Apply) and e.op == "[]"):
        return None
    return _of_cell(e.operands[0], e.operands[1], f, then)


def _ordered(e: x.Expression) -> list[t.Value]:
    assert isinstance(e, x.Literal_) and isinstance(e.type, t.Set)
    of = e.type.of
    return sorted(e.value, key=lambda v: t.position(of, v)) if of is not None else []


def _one_of(value: Sql, items: list[Sql]) -> Sql:
    if len(items) == 1:
        return Joined("=", (within(value, SUM), within(items[0], SUM)), COMPARED)
    return Joined("IN", (within(value, SUM), Listed(tuple(map(flat, items)))), COMPARED)


# Comparison


def equal(e: x.Apply, f: SqlFrame) -> Sql:
    a, b = e.operands
    return same(a, b, e.op == "==", f)


def same(a: x.Expression, b: x.Expression, wanted: bool, f: SqlFrame) -> Sql:
    """Returns whether two values are equal, or else whether they are not."""
    d = f.layout.dialect
    if isinstance(a.type, t.MessageType):
        one, other = (f.variables[v.name].row[0] for v in (a, b) if isinstance(v, x.BoundVariable))
        ranked = any(f.layout.ranked(kind) for kind in a.type.kinds)  # a place in a line is no part of a message
        names = (*["number"] * ranked, "kind", "content")
        parts = [Words(f"{one}.{n} {'=' if wanted else '<>'} {other}.{n}", COMPARED) for n in names]
        return conjunction(parts) if wanted else disjunction(parts)
    none_a, none_b = (_always_none(e) for e in (a, b))
    if none_a or none_b:
        if none_a and none_b:
            return Words("TRUE" if wanted else "FALSE")
        value = flat(within(f.sql(b if none_a else a), SUM))
        return Words(f"{value} IS {'' if wanted else 'NOT '}NULL", COMPARED)
    if isinstance(a.type, t.Seq) and isinstance(b.type, t.Seq) and not (stored(a) and stored(b)):
        return of_sequence(x.Apply(type=t.BOOL, op="==" if wanted else "!=", operands=(a, b)), f)
    if kind_of(a.type) == "json" and not (stored(a) and stored(b) and _have_one_text(a, b, f)):
        return _same_json(a, b, wanted, f)
    left, right = (within(f.sql(e), JSON) for e in (a, b))
    if isinstance(a.type, t.Option) or isinstance(b.type, t.Option):
        form = d.same if wanted else d.differ
        head, middle, _ = form.split("{}")
        comparison = Joined(middle.strip(), (left, right), COMPARED)
        return Enclosed(head, comparison, "", NOT) if head else comparison
    return Joined("=" if wanted else "<>", (left, right), COMPARED)


def _have_one_text(a: x.Expression, b: x.Expression, f: SqlFrame) -> bool:
    """Returns whether two values in columns have the same text where they are equal: the same cells are left out."""
    return repr(f.layout.rest(a)) == repr(f.layout.rest(b))


def _always_none(e: x.Expression) -> bool:
    return isinstance(e, x.Literal_) and isinstance(e.type, t.Option) and e.value is None


def _same_json(a: x.Expression, b: x.Expression, wanted: bool, f: SqlFrame) -> Sql:
    """Equality of sets or maps of which at least one is no field: member by member, or cell by cell."""
    for one, other in ((a, b), (b, a)):
        match one:
            case x.Apply(op="if", operands=(test, then, otherwise)):
                return case(f.sql(test), same(then, other, wanted, f), same(otherwise, other, wanted, f))
            case x.Apply(op="get", operands=(option, instead)):
                return case(is_none(option, f), same(instead, other, wanted, f), same(option, other, wanted, f))
    if isinstance(a.type, t.Option) or isinstance(b.type, t.Option):
        option, plain = (a, b) if isinstance(a.type, t.Option) else (b, a)
        if isinstance(plain.type, t.Option):
            raise NotAsked("two optional sets or maps that are no fields are compared")
        assert isinstance(option.type, t.Option) and option.type.of is not None
        inner = same(replace(option, type=option.type.of), plain, wanted, f)
        return case(is_none(option, f), Words("FALSE" if wanted else "TRUE"), inner)
    of = a.type.key if isinstance(a.type, t.Map) else _of(a, b)
    variable, frame = _each(of, f)
    if isinstance(a.type, t.Map):
        cells = [x.Apply(type=a.type.of, op="[]", operands=(m, variable)) for m in (a, b)]
        frame.scope.query.where.append(same(cells[0], cells[1], False, frame))
    else:
        empty = next((other for one, other in ((a, b), (b, a)) if _empty(one)), None)
        value = frame.sql(variable)
        if empty is not None:
            frame.scope.query.where += conjuncts(has_value(value, variable, empty, frame))
        else:
            sides = tuple(within(has_value(value, variable, s, frame), SUM) for s in (a, b))
            frame.scope.query.where.append(Joined("<>", sides, COMPARED))
    return Enclosed("NOT EXISTS (" if wanted else "EXISTS (", frame.scope.query, binding=NOT if wanted else ATOM)


def _each(of: t.Enum | t.Instance, f: SqlFrame) -> tuple[x.BoundVariable, SqlFrame]:
    """A variable for each member of a type, and the frame of a query over them."""
    variable = _fresh(of, f)
    named = "s" if " " in of.name else of.name  # the control states of a role have a name of several words
    return variable, each_member(variable.name, of, f, named)


def _fresh(of: t.Type, f: SqlFrame) -> x.BoundVariable:
    """A variable that no text can name, and none that stands outside of it is named so."""
    return x.BoundVariable(type=of, name=f"one of {len(f.variables)}")


def _of(*sets: x.Expression) -> t.Enum | t.Instance:
    for e in sets:
        if isinstance(e.type, t.Set) and e.type.of is not None:
            return e.type.of
    raise NotAsked("two sets are compared of which nothing says whose members they have")


def _empty(e: x.Expression) -> bool:
    return (isinstance(e, x.Apply) and e.op == "{}" and not e.operands) or (isinstance(e, x.Literal_) and not e.value)


def is_none(option: x.Expression, f: SqlFrame) -> Sql:
    return Words(f"{flat(within(f.sql(option), SUM))} IS NULL", COMPARED)


def ordered(e: x.Apply, f: SqlFrame) -> Sql:
    a, b = e.operands
    if not isinstance(a.type, t.Set):
        return Joined(e.op, tuple(within(f.sql(o), SUM) for o in e.operands), COMPARED)
    small, large = (a, b) if e.op in ("<", "<=") else (b, a)
    variable, frame = _each(_of(small, large), f)
    value = frame.sql(variable)
    where = frame.scope.query.where
    where += conjuncts(has_value(value, variable, small, frame))
    where.append(negation(has_value(value, variable, large, frame)))
    included = Enclosed("NOT EXISTS (", frame.scope.query, binding=NOT)
    return included if e.op in ("<=", ">=") else conjunction([included, same(a, b, False, f)])


# Maps


def cell(e: x.Apply, f: SqlFrame) -> Sql:
    return _of_cell(e.operands[0], e.operands[1], f, lambda v, inner: inner.sql(v)) or stored_cell(e, f)


def _of_cell(
    cells: x.Expression, key: x.Expression, f: SqlFrame, then: Callable[[x.Expression, SqlFrame], Sql]
) -> Sql | None:
    """Returns what is asked of the cell of a map that is made of other values; None where the map is a field."""
    match cells:
        case x.Quantifier(kind="map", variable=variable, body=body):
            bound = f.variables[key.name] if isinstance(key, x.BoundVariable) else Bound(f.sql(key), f.scope)
            return then(body, f.bind(variable, bound))
        case x.Apply(op="if", operands=(test, one, other)):
            return case(f.sql(test), *(then(_at(m, key), f) for m in (one, other)))
        case x.Apply(op="get", operands=(option, instead)):
            return case(is_none(option, f), *(then(_at(m, key), f) for m in (instead, option)))
        case x.Apply(op="[]", operands=(outer, at)):
            return _of_cell(outer, at, f, lambda m, inner: then(_at(m, key), inner))
        case x.Old(operand=operand) if not stored(cells):
            fresh = _fresh(key.type, f)  # the key is not read before the step
            inner = f.bind(fresh.name, Bound(f.sql(key), f.scope))
            return then(_at(operand, fresh), replace(inner, moment=replace(f.moment, before=True)))
    return None


def _at(cells: x.Expression, key: x.Expression) -> x.Expression:
    of = cells.type.of if isinstance(cells.type, t.Option) else cells.type
    assert isinstance(of, t.Map)
    return x.Apply(type=of.of, op="[]", operands=(cells, key))


def stored_cell(e: x.Apply, f: SqlFrame) -> Sql:
    cells, key = e.operands
    d, of = f.layout.dialect, cells.type.of if isinstance(cells.type, t.Option) else cells.type
    assert isinstance(of, t.Map)
    if (rest := f.layout.rest(cells)) is not ...:
        return _entry(of.of, rest, flat(within(f.sql(cells), ATOM)), f.sql(key), f)
    table = d.at_text if isinstance(of.key, t.Enum) else d.at_number
    return json_cell(table[kind_of(of.of)], flat(within(f.sql(cells), ATOM)), f.sql(key))


def _entry(kind: t.Type, rest: t.Value, cells: str, key: Sql, f: SqlFrame) -> Sql:
    """A cell of a map over a dynamic role, which may have no entry for it."""
    d = f.layout.dialect
    found = json_cell(d.at_entry[kind_of(kind)], cells, key)
    if rest is None:
        return found
    if isinstance(kind, t.Option):  # an entry may be `none`, which is NULL too
        entered = Words(d.has_entry.format(cells, flat(within(key, ATOM))), COMPARED)
        return case(entered, found, literal(kind, rest, f))
    return Words(f"COALESCE({flat(found)}, {flat(literal(kind, rest, f))})")


def member(e: x.Apply, f: SqlFrame) -> Sql:
    if isinstance(e.operands[1].type, t.Seq):
        return of_sequence(e, f)
    membership = has(e.operands[0], e.operands[1], f)
    if e.op == "in":
        return membership
    return negation(membership)


def size(e: x.Apply, f: SqlFrame) -> Sql:
    (whole,) = e.operands
    if isinstance(whole.type, t.Seq):
        return of_sequence(e, f)
    if stored(whole):
        return Words(template(f.layout.dialect.size)(flat(f.sql(whole))))
    variable, frame = _each(_of(whole), f)
    frame.scope.query.where += conjuncts(has(variable, whole, frame))
    frame.scope.query.of = "COUNT(*)"
    return Enclosed("(", frame.scope.query)
