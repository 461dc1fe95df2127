"""The frame of an expression in a query: which tables there are, which cut is read, and what variables stand for.

Theory of operation. A query ranges over cuts. What its expressions read of other tables is joined to it when it is
asked for first: a machine that is named once as it is at the cut (`broker`) and once as it was before (`old_broker`), a
variable's record beside the variable. A quantifier is a subquery, a *scope* of its own; what it reads of a machine that
a variable of an outer scope names is joined there, once for all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from leasehold.checker.verify.sql.dialects import RESERVED, Dialect
from leasehold.checker.verify.sql.text import AND, Select, Sql, Words
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t


class NotAsked(Exception):
    """The tables do not hold what an expression asks for; the message says what that is."""


class SqlLayout(Protocol):
    """The layout of the tables: which of them hold what."""

    @property
    def dialect(self) -> Dialect: ...
    @property
    def constants(self) -> Mapping[str, t.Value]: ...
    def machines(self, role: str) -> str:
        """The table of a role's machines, or of the shared variables."""
        ...

    def several(self, role: str) -> bool:
        """Returns whether a role has several machines, or may have."""
        ...

    def field(self, role: str, name: str) -> str:
        """The column of a field."""
        ...

    def members(self, of: t.Enum | t.Instance) -> str:
        """The table of the members of an enumeration or counted type; "" for a role."""
        ...

    def messages(self, name: str) -> tuple[str, bool]:
        """The table or view of the messages of one kind or channel, and whether it has their fields."""
        ...

    def message_field(self, name: str) -> str:
        """The column of a message's field."""
        ...

    def rest(self, e: x.Expression) -> t.Value:
        """The value of machines without an entry in a column that is a map over a dynamic role; `...`: it is none."""
        ...

    def ranked(self, name: str) -> bool:
        """Returns whether the channel, or that of a kind of message, is a mailbox: `lane` has its last number."""
        ...

    def literal(self, type_: t.Type, value: t.Value) -> str:
        """A value as SQL."""
        ...


@dataclass(eq=False)
class QueryScope:
    """A query that is being written: what it reads of other tables is joined to it."""

    query: Select
    outer: QueryScope | None = None
    named: set[str] = field(default_factory=set)
    joined: dict[tuple[str, str, Moment], str] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return 0 if self.outer is None else self.outer.depth + 1

    def names(self) -> set[str]:
        """The names of the tables that are in sight."""
        return self.named | (self.outer.names() if self.outer is not None else set())


@dataclass(frozen=True)
class Moment:
    """A cut: the one of a row of the table `cut`, or the one before it."""

    alias: str
    scope: QueryScope = field(compare=False, hash=False, repr=False)
    before: bool = False

    @property
    def number(self) -> str:
        return f"{self.alias}.number - 1" if self.before else f"{self.alias}.number"


@dataclass(frozen=True)
class Bound:
    """The binding of a variable: what it stands for.

    Attributes:
        value: of a member; of a message "".
        scope: the query that binds it.
        row: the name of the table that has it as a row, with the role and moment of which that is a record.
    """

    value: Sql
    scope: QueryScope
    row: tuple[str, str, Moment | None] = ("", "", None)


def alias(wanted: str, scope: QueryScope, seen: QueryScope) -> str:
    """A name for a table of a query that is none of those in sight in it, or in a subquery from which it is seen.

    A name that another subquery uses, beside or below, may be used again: there it means what it means there.
    """
    plain = wanted.replace("Key__", "key")  # of a map that is written out
    name, n, used = f"{plain}_" if plain in RESERVED else plain, 1, seen.names()
    while name in used:
        n += 1
        name = f"{plain}_{n}"
    scope.named.add(name)
    return name


@dataclass(frozen=True)
class SqlFrame:
    """The frame in which an expression stands.

    Attributes:
        source: the reading, expression by expression; `sql` is it.
        moment: the cut that is read.
        step: the alias of the row that says what step led to the cut.
        scope: the innermost query.
    """

    layout: SqlLayout
    source: Callable[[x.Expression, SqlFrame], Sql] = field(compare=False)
    moment: Moment
    step: str
    scope: QueryScope
    variables: Mapping[str, Bound] = field(default_factory=dict)

    def sql(self, e: x.Expression) -> Sql:
        return self.source(e, self)

    def bind(self, name: str, bound: Bound) -> SqlFrame:
        return replace(self, variables={**self.variables, name: bound})


def nested(f: SqlFrame, table: str, wanted: str) -> tuple[SqlFrame, str]:
    """The frame within a subquery over a table, and the name that the table has there."""
    scope = QueryScope(Select(head=f.layout.dialect.select, join=f.layout.dialect.join), f.scope)
    name = alias(wanted, scope, scope)
    scope.query.tables.append((table if table == name else f"{table} AS {name}", ()))
    return replace(f, scope=scope), name


def at_moment(row: str, m: Moment) -> str:
    """Returns the condition that the row of a history is the one at a moment."""
    return " AND ".join(row_at(row, m))


def row_at(row: str, m: Moment, instance: str = "") -> tuple[str, ...]:
    """The same in two parts, perhaps of one machine alone."""
    machine = f" AND {row}.instance = {instance}" if instance else ""
    return f"{row}.run = {m.alias}.run{machine}", f"{m.number} BETWEEN {row}.since AND {row}.until"


def join(
    scope: QueryScope,
    table: str,
    key: str,
    moment: Moment,
    f: SqlFrame,
    on: Callable[[str], tuple[str, ...]],
    wanted: str = "",
) -> str:
    """The name of a row of a table, which is joined to a query once."""
    known = (table, key, moment)
    if known not in scope.joined:
        name = wanted or table
        name = f"old_{name}" if moment.before else name if moment.alias in ("cut", name) else f"{moment.alias}_{name}"
        name = alias(name, scope, f.scope)
        scope.joined[known] = name
        scope.query.tables.append((table if table == name else f"{table} AS {name}", on(name)))
    return scope.joined[known]


def cut_row(f: SqlFrame) -> str:
    """The row of the cut: the one before is joined."""
    m = f.moment
    if not m.before:
        return m.alias
    return join(m.scope, "cut", "", m, f, lambda a: (f"{a}.run = {m.alias}.run", f"{a}.number = {m.number}"))


def each_member(variable: str, of: t.Enum | t.Instance, f: SqlFrame, wanted: str) -> SqlFrame:
    """The frame within a query over the members of a type; of a role, its machines' records."""
    members = f.layout.members(of)
    inner, row = nested(f, members or f.layout.machines(of.name), wanted)
    if members:
        return inner.bind(variable, Bound(Words(f"{row}.member"), inner.scope))
    inner.scope.query.where.append(Words(at_moment(row, f.moment), AND))
    return inner.bind(variable, Bound(Words(f"{row}.instance"), inner.scope, (row, of.name, f.moment)))
