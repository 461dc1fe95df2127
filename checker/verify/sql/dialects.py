"""SQL dialects: what SQLite, PostgreSQL and MariaDB write differently, a row for each.

SQLite from 3.38 on (`->>`), PostgreSQL from 12 on, MariaDB from 10.6 on.

Values. A number is an integer, a truth value a BOOLEAN, a member of an enumeration its name as text, an instance its
number. An option that is `none` is NULL, and is compared by operators that take NULL for a value like others. Opaque
data is its canonical JSON as text, and so compared as a text. Sets and maps are JSON: a set an array of its members in
their order, a map an array of its cells, or an object where its keys are members of an enumeration. A field that is a
map over the machines of a dynamic role is an object too, of those cells that differ from its `rest`, by the machine's
number: a cell that is absent is `rest`. Each value has one such text. So equal sets are equal texts, one column is one
field, a row can be read by eye, and databases have functions for what is inside. (Child tables, one row for each
member, would need two more subqueries for each equality of sets, and a table for each such field of each message.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from leasehold.spec.language import table
from leasehold.spec.language import types as t

Kind: TypeAlias = Literal["truth", "number", "instance", "text", "opaque", "json"]


def kind_of(type_: t.Type) -> Kind:
    """Returns how a value of a type is kept; an option is kept as its value."""
    match type_:
        case t.Option(of=of) if of is not None:
            return kind_of(of)
        case t.Bool():
            return "truth"
        case t.Instance():
            return "instance"
        case t.Enum():
            return "text"
        case t.Opaque():
            return "opaque"
        case t.Set() | t.Map() | t.Seq():
            return "json"
    return "number"


@dataclass(frozen=True)
class Dialect:
    """The way in which a database writes what differs.

    Attributes:
        quote: around a name that is a word of SQL.
        columns: by kind, the type of a column; `key` is that of a short text in an index.
        select, join: how a query begins, and how it joins a table. Tables are taken in their order, cuts first. MariaDB
            has no index for `BETWEEN since AND until`, and might join the histories of all machines first; SQLite
            would read a history through, from the first run on, where it expects few of its rows to count.
        session: statements for a connection that asks queries. PostgreSQL takes it that many rows satisfy
            `BETWEEN since AND until`, and would read all of a long run; it has to enter indexes, from the cuts on.
        statistics: the statement by which it counts what tables have, so that it reads long ones by their indexes;
            empty: it needs none.
        table_options: behind the columns of a table.
        mark: the place of a value in a statement; `named`: that of the value of a name.
        same, differ: equality, and its opposite, of two values that may be NULL.
        least, greatest: the function of several numbers.
        has_number, has_text: whether a JSON array ({0}) has a number or a text ({1}) among its members.
        size: the number of members of a JSON array.
        at_number, at_text: by kind, the cell of a JSON array at a number, or of a JSON object at a name ({1}); a cell
            that is null is NULL.
        at_entry: the same of a JSON object at a number; `has_entry`: whether there is such a cell.
        divide: whole numbers that divide without a rest.
        total: the sum of a column of numbers, as a whole number.
    """

    name: str
    quote: str
    columns: Mapping[Kind | Literal["key"], str]
    select: str
    join: str
    session: tuple[str, ...]
    statistics: str
    table_options: str
    mark: str
    named: str
    same: str
    differ: str
    least: str
    greatest: str
    has_number: str
    has_text: str
    size: str
    at_number: Mapping[Kind, str]
    at_text: Mapping[Kind, str]
    at_entry: Mapping[Kind, str]
    has_entry: str
    divide: str
    total: str

    def identifier(self, name: str) -> str:
        """A name, in quotes where it is a word of one of the databases."""
        return f"{self.quote}{name}{self.quote}" if name in RESERVED else name


def _everywhere(text: str) -> dict[Kind, str]:
    return dict.fromkeys(("truth", "number", "instance", "text", "opaque", "json"), text)


_SQLITE_ENTRY = "('$.\"' || {1} || '\"')"  # a number alone would be a place in an array

SQLITE = Dialect(
    "sqlite",
    quote='"',
    columns={
        "truth": "BOOLEAN",
        "number": "INTEGER",
        "instance": "INTEGER",
        "text": "TEXT",
        "opaque": "TEXT",
        "json": "TEXT",
        "key": "TEXT",
    },
    select="SELECT",
    join="CROSS JOIN",
    session=(),
    statistics="",
    table_options="",
    mark="?",
    named=":{}",
    same="{} IS {}",
    differ="{} IS NOT {}",
    least="MIN({, })",
    greatest="MAX({, })",
    has_number="{1} IN (SELECT value FROM json_each({0}))",
    has_text="{1} IN (SELECT value FROM json_each({0}))",
    size="json_array_length({})",
    at_number={**_everywhere("{0} ->> {1}"), "json": "NULLIF({0} -> {1}, 'null')"},
    at_text={**_everywhere("{0} ->> {1}"), "json": "NULLIF({0} -> {1}, 'null')"},
    at_entry={**_everywhere(f"{{0}} ->> {_SQLITE_ENTRY}"), "json": f"NULLIF({{0}} -> {_SQLITE_ENTRY}, 'null')"},
    has_entry=f"json_type({{0}}, {_SQLITE_ENTRY}) IS NOT NULL",
    divide="{} / {}",
    total="SUM({})",
)

_POSTGRESQL_CELL: dict[Kind, str] = {
    "truth": "CAST({0} ->> {1} AS BOOLEAN)",
    "number": "CAST({0} ->> {1} AS BIGINT)",
    "instance": "CAST({0} ->> {1} AS INTEGER)",
    "text": "{0} ->> {1}",
    "opaque": "{0} ->> {1}",
    "json": "NULLIF({0} -> {1}, 'null')",
}

POSTGRESQL = Dialect(
    "postgresql",
    quote='"',
    columns={
        "truth": "BOOLEAN",
        "number": "BIGINT",
        "instance": "INTEGER",
        "text": "TEXT",
        "opaque": "TEXT",
        "json": "JSONB",
        "key": "TEXT",
    },
    select="SELECT",
    join="JOIN",
    session=(
        "SET join_collapse_limit = 1",
        "SET enable_seqscan = off",
        "SET enable_hashjoin = off",
        "SET enable_mergejoin = off",
        "SET jit = off",
    ),
    statistics="ANALYZE",
    table_options="",
    mark="%s",
    named="%({})s",
    same="{} IS NOT DISTINCT FROM {}",
    differ="{} IS DISTINCT FROM {}",
    least="LEAST({, })",
    greatest="GREATEST({, })",
    has_number="{0} @> to_jsonb({1})",
    has_text="{0} @> to_jsonb(CAST({1} AS TEXT))",
    size="jsonb_array_length({})",
    at_number={kind: words.replace("{1}", "CAST({1} AS INTEGER)") for kind, words in _POSTGRESQL_CELL.items()},
    at_text=_POSTGRESQL_CELL,
    at_entry={kind: words.replace("{1}", "CAST({1} AS TEXT)") for kind, words in _POSTGRESQL_CELL.items()},
    has_entry="jsonb_exists({0}, CAST({1} AS TEXT))",
    divide="{} / {}",
    total="CAST(SUM({}) AS BIGINT)",
)

_MARIADB_CELL: dict[Kind, str] = {
    "truth": "CAST(JSON_VALUE({0}, {1}) AS SIGNED)",
    "number": "CAST(JSON_VALUE({0}, {1}) AS SIGNED)",
    "instance": "CAST(JSON_VALUE({0}, {1}) AS SIGNED)",
    "text": "JSON_VALUE({0}, {1})",
    "opaque": "JSON_VALUE({0}, {1})",
    "json": "JSON_QUERY({0}, {1})",
}

_MARIADB_ENTRY = "CONCAT('$.\"', {1}, '\"')"

MARIADB = Dialect(
    "mariadb",
    quote="`",
    columns={
        "truth": "BOOLEAN",
        "number": "BIGINT",
        "instance": "INT",
        "text": "VARCHAR(250) COLLATE utf8mb4_bin",
        "opaque": "LONGTEXT COLLATE utf8mb4_bin",
        "json": "LONGTEXT COLLATE utf8mb4_bin",
        "key": "VARCHAR(250) COLLATE utf8mb4_bin",
    },
    select="SELECT STRAIGHT_JOIN",
    join="JOIN",
    session=(),
    statistics="",
    table_options=" ENGINE=InnoDB CHARACTER SET utf8mb4",
    mark="%s",
    named="%({})s",
    same="{} <=> {}",
    differ="NOT {} <=> {}",
    least="LEAST({, })",
    greatest="GREATEST({, })",
    has_number="JSON_CONTAINS({0}, {1})",
    has_text="JSON_CONTAINS({0}, JSON_QUOTE({1}))",
    size="JSON_LENGTH({})",
    at_number={kind: words.replace("{1}", "CONCAT('$[', {1}, ']')") for kind, words in _MARIADB_CELL.items()},
    at_text={kind: words.replace("{1}", "CONCAT('$.', {1})") for kind, words in _MARIADB_CELL.items()},
    at_entry={kind: words.replace("{1}", _MARIADB_ENTRY) for kind, words in _MARIADB_CELL.items()},
    has_entry=f"JSON_EXISTS({{0}}, {_MARIADB_ENTRY})",
    divide="{} DIV {}",
    total="CAST(SUM({}) AS SIGNED)",
)

DIALECTS: Mapping[str, Dialect] = {d.name: d for d in (SQLITE, POSTGRESQL, MARIADB)}

# Words that at least one of the databases takes for no name of a table or column.
RESERVED = frozenset(table("words.yaml", __package__)["reserved"].split())
