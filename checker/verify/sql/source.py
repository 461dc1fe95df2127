"""An expression of a property as SQL, over tables that hold the states of runs.

Another reading of expression.py, beside python_source.py; a `SqlLayout` says which tables there are. It is written to
be read and run by hand, in the words of the property:

- A machine of a role is a row of the role's table at a cut; a machine that is named is joined once (`broker`), and once
  more for the state before the step (`old_broker`).
- A quantifier is a subquery: `any` is EXISTS, `all` is NOT EXISTS of the opposite, `count` is COUNT(*).
- A set or map is never made: `u in a | b` is `u in a or u in b`, and two sets are compared member by member, or as
  texts where both are fields. So all that is asked of one comes down to whether a field has a member, and to a map's
  cell.

No expression is NULL but an option that is none; options are compared, and defaulted, by what takes NULL for a value.
So `NOT` of a claim is true exactly where the claim is not. A machine that is joined has exactly one row at each cut
(`checker/verify/schema.py` says how that is kept).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from leasehold.checker.verify.sql.dialects import Dialect
from leasehold.checker.verify.sql.frame import (
    Moment,
    NotAsked,
    QueryScope,
    SqlFrame,
    SqlLayout,
    at_moment,
    cut_row,
    join,
    nested,
    row_at,
)
from leasehold.checker.verify.sql.sequences import is_written, literal, no_value, of_sequence, written
from leasehold.checker.verify.sql.sets import (
    cell,
    domain,
    equal,
    member,
    ordered,
    size,
)
from leasehold.checker.verify.sql.text import (
    AND,
    ATOM,
    COMPARED,
    NOT,
    PRODUCT,
    SUM,
    Enclosed,
    Joined,
    Select,
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
from leasehold.spec.language.conditions import opposite
from leasehold.spec.language.operators import template


def over_cuts(layout: SqlLayout) -> SqlFrame:
    """The frame of a query over cuts, whose first table is `cut`."""
    query = Select(tables=[("cut", ())], head=layout.dialect.select, join=layout.dialect.join)
    scope = QueryScope(query, named={"cut"})
    return SqlFrame(layout, sql, Moment("cut", scope), "cut", scope)


def sql(e: x.Expression, f: SqlFrame) -> Sql:
    """An expression as SQL.

    Raises:
        NotAsked: it asks for what the tables do not hold.
    """
    match e:
        case x.Literal_(type=kind, value=value):
            return literal(kind, value, f)
        case x.ConstantRef(type=kind, name=name):
            return literal(kind, f.layout.constants[name], f)
        case x.Now():
            return Words(f"{cut_row(f)}.now")
        case x.Data(role=role, name=name, owner=owner):
            return Words(f"{_machine(role, owner, f)}.{_name(f.layout.field(role, name), f)}")
        case x.ControlState(role=role, owner=owner):
            return Words(f"{_machine(role, owner, f)}.state")
        case x.BoundVariable(name=name):
            return f.variables[name].value
        case x.Apply(op=op):
            return ROWS[op](e, f)
        case x.InstanceAt(type=of, number=number):
            if isinstance(number, x.Literal_):
                return Words(str(number.value % of.count))
            return _modulo(sql(number, f), Words(str(of.count)))
        case x.Quantifier():
            return _quantifier(e, f)
        case x.MessageField(variable=variable, name=name):
            row = f.variables[variable].row[0]
            own = name in x.OF_MESSAGES
            return Words(f"{row}.{name if own else _name(f.layout.message_field(name), f)}")
        case x.Old(operand=operand):
            return sql(operand, replace(f, moment=replace(f.moment, before=True)))
        case x.Accepts():
            return sql(e.meaning, f)
        case x.Took(role=role, owner=owner, event=event, ignored=ignored):
            condition = f"event = {_text(f'{role}.{event}')}" if event is not None else f"role = {_text(role)}"
            parts = [f"{f.step}.{condition}"]
            if owner is not None and f.layout.several(role):
                parts.append(f"{f.step}.instance = {flat(within(sql(owner, f), SUM))}")
            parts += [f"{f.step}.transition = ''"] if ignored else []
            return conjunction([_comparison(part) for part in parts])
        case x.GlobalQuery():
            return _query(e, f)
        case x.Self() | x.Argument() | x.Sender():
            raise NotAsked("a property reads no event and no machine's own record")
        case x.Pending():
            raise TypeError("messages on their way have no value of their own")


def _comparison(text: str) -> Sql:
    left, _, right = text.partition(" = ")
    return Joined("=", (Words(left), Words(right)), COMPARED)


def _name(name: str, f: SqlFrame) -> str:
    return f.layout.dialect.identifier(name)


def _text(word: str) -> str:
    return f"'{word}'"


# Machines


def _machine(role: str, owner: x.Expression | None, f: SqlFrame) -> str:
    """The name of a machine's row at the moment."""
    if owner is None:
        raise NotAsked("a property reads no machine's own record")
    table, m = f.layout.machines(role), f.moment
    scope, wanted = m.scope, role
    if not f.layout.several(role):
        return join(scope, table, "", m, f, lambda a: row_at(a, m))
    if isinstance(owner, x.BoundVariable):
        bound = f.variables[owner.name]
        if bound.row[1:] == (role, m):
            return bound.row[0]
        scope = max(bound.scope, scope, key=lambda s: s.depth)
        wanted = bound.row[0] or role
    elif not isinstance(owner, x.Literal_):
        scope = f.scope
    number = flat(within(sql(owner, f), SUM))
    if isinstance(owner, x.Literal_):
        wanted = f"{role}_{owner.value}"
    return join(scope, table, number, m, f, lambda a: row_at(a, m, number), wanted)


def _query(e: x.GlobalQuery, f: SqlFrame) -> Sql:
    match e.name:
        case "running":
            return Words(f"{_machine(e.subjects[0], e.owners[0], f)}.running")
        case "reachable":
            ends = [_machine(role, owner, f) for role, owner in zip(e.subjects, e.owners, strict=True)]
            inner, apart = nested(f, "separated", "apart")
            inner.scope.query.where += [
                Words(at_moment(apart, f.moment), AND),
                Words(f"{apart}.actor = {ends[0]}.actor", COMPARED),
                Words(f"{apart}.other = {ends[1]}.actor", COMPARED),
            ]
            return Enclosed("NOT EXISTS (", inner.scope.query, binding=NOT)
        case "heard":
            if e.owners:
                raise NotAsked("it asks `heard` of one machine")
            (channel,) = e.subjects
            ranked = f.layout.ranked(channel)
            inner, lane = nested(f, "lane" if ranked else f.layout.messages(channel)[0], "lane" if ranked else channel)
            where = inner.scope.query.where
            where.append(Words(at_moment(lane, f.moment), AND))
            if ranked:
                where += [Words(f"{lane}.channel = {_text(channel)}", COMPARED), Words(f"{lane}.newest > 0", COMPARED)]
            return Enclosed("NOT EXISTS (", inner.scope.query, binding=NOT)
    raise NotAsked("it is about an actor that may send anything, and no run says of itself that one does")


# Quantifiers


def _quantifier(e: x.Quantifier, f: SqlFrame) -> Sql:
    match e.kind:
        case "any":
            return Enclosed("EXISTS (", _rows(e, f, e.body))
        case "all":
            return Enclosed("NOT EXISTS (", _rows(e, f, opposite(e.body)), binding=NOT)
        case "count":
            query = _rows(e, f, e.body)
            query.of = "COUNT(*)"
            return Enclosed("(", query)
        case "sum" | "min" | "max":
            return _aggregate(e, f)
    raise no_value(e)


def _rows(e: x.Quantifier, f: SqlFrame, body: x.Expression | None) -> Select:
    """The query that has a row for each case of a quantifier that satisfies its condition and body."""
    inner = domain(e, f)
    where = inner.scope.query.where
    for part in (e.condition, body):
        if part is not None and part != x.TRUE:
            where += [sql(p, inner) for p in x.conjuncts(part)]
    return inner.scope.query


def _aggregate(e: x.Quantifier, f: SqlFrame) -> Sql:
    inner = domain(e, f)
    query = inner.scope.query
    if e.condition is not None:
        query.where += [sql(p, inner) for p in x.conjuncts(e.condition)]
    body = sql(e.body, inner)
    if not _reads(e.body, {e.variable}):
        # An aggregate of nothing but outer columns would be one of the outer query.
        if e.kind == "sum":
            query.of = "COUNT(*)"
            return Joined("*", (Enclosed("(", query), within(body, PRODUCT)), PRODUCT)
        if e.default is None:
            return body
        some = Enclosed("EXISTS (", query)
        return case(some, body, sql(e.default, f))
    if e.kind == "sum":
        query.of = template(f.layout.dialect.total)(flat(body))
        return Enclosed("COALESCE((", query, "), 0)")
    query.of = f"{e.kind.upper()}({flat(body)})"
    if e.default is None:
        return Enclosed("(", query)
    return Enclosed("COALESCE((", query, f"), {flat(sql(e.default, f))})")


def _reads(e: x.Expression, names: set[str]) -> bool:
    return any(
        (isinstance(n, x.BoundVariable) and n.name in names) or (isinstance(n, x.MessageField) and n.variable in names)
        for n in x.walk(e)
    )


# Operators


Row: TypeAlias = Callable[[x.Apply, SqlFrame], Sql]


def _infix(op: str, binding: int) -> Row:
    def row(e: x.Apply, f: SqlFrame) -> Sql:
        first, *others = e.operands
        return Joined(op, (within(sql(first, f), binding), *(within(sql(o, f), binding + 1) for o in others)), binding)

    return row


def _call(form: Callable[[Dialect], str]) -> Row:
    return lambda e, f: Words(template(form(f.layout.dialect))(*(flat(sql(o, f)) for o in e.operands)))


def _if(e: x.Apply, f: SqlFrame) -> Sql:
    test, then, other = (sql(o, f) for o in e.operands)
    return case(test, then, other)


def _not(e: x.Apply, f: SqlFrame) -> Sql:
    turned = opposite(e.operands[0])
    if isinstance(turned, x.Apply) and turned.op == "not":
        return negation(sql(e.operands[0], f))
    return sql(turned, f)


def _modulo(a: Sql, b: Sql) -> Sql:
    """The rest of a division towards minus infinity, as Python has it; 0 of one by 0."""
    n, by = flat(within(a, PRODUCT)), flat(within(b, ATOM))
    if by.isdecimal() and by != "0":
        return Words(f"(({n} % {by} + {by}) % {by})")
    return Words(f"COALESCE(({n} % NULLIF({by}, 0) + {by}) % NULLIF({by}, 0), 0)")


def _quotient(e: x.Apply, f: SqlFrame) -> Sql:
    a, b = (sql(o, f) for o in e.operands)
    by = flat(within(b, ATOM))
    by = by if by.isdecimal() and by != "0" else f"NULLIF({by}, 0)"
    text = f.layout.dialect.divide.format(f"({flat(within(a, SUM))} - {flat(_modulo(a, b))})", by)
    return Words(f"COALESCE({text}, 0)") if by.startswith("NULLIF") else Words(text, PRODUCT)


def _negative(e: x.Apply, f: SqlFrame) -> Sql:
    return Words(f"(-{flat(within(sql(e.operands[0], f), ATOM))})")


def _get(e: x.Apply, f: SqlFrame) -> Sql:
    return Words(f"COALESCE({', '.join(flat(sql(o, f)) for o in e.operands)})")


def _made(e: x.Apply, f: SqlFrame) -> Sql:
    """A set or a sequence that is written out; no other one is made."""
    if not is_written(e):
        raise no_value(e)
    return written(e, f)


def _of_numbers(row: Row) -> Row:
    """The row of an operator on numbers; with sets and sequences it makes one."""
    return lambda e, f: (_made if isinstance(e.type, t.Set | t.Seq) else row)(e, f)


ROWS: Mapping[str, Row] = {
    "if": _if,
    "or": lambda e, f: disjunction([sql(o, f) for o in e.operands]),
    "and": lambda e, f: conjunction([sql(o, f) for o in e.operands]),
    "not": _not,
    "==": equal,
    "!=": equal,
    "<": ordered,
    "<=": ordered,
    ">": ordered,
    ">=": ordered,
    "in": member,
    "not in": member,
    "|": _made,
    "&": _made,
    "+": _of_numbers(_infix("+", SUM)),
    "-": _of_numbers(_infix("-", SUM)),
    "*": _infix("*", PRODUCT),
    "//": _quotient,
    "%": lambda e, f: _modulo(sql(e.operands[0], f), sql(e.operands[1], f)),
    "negative": _negative,
    "{}": _made,
    "[]": cell,
    "min": _call(lambda d: d.least),
    "max": _call(lambda d: d.greatest),
    "abs": _call(lambda d: "ABS({})"),
    "len": size,
    "index": lambda e, f: sql(e.operands[0], f),
    "get": _get,
    **dict.fromkeys(("item", "first", "last", "starts_with"), of_sequence),
    **dict.fromkeys(("[,]", "append", "rest", "take"), _made),
}
