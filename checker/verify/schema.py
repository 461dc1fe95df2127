"""The tables that hold the states of runs, for any system.

Theory of operation. A *run* (a lease, or one run of another system) is a sequence of *cuts* 0, 1, 2, ...: global states
in an order that respects causality, each with the step that led to it. What lasts from cut to cut is one row:

    run        a run; `ended` is the entry at which it was over for good. `judged`: it can be; `settled`: it is in an
               end that the system allows, and stands still; of its `machines` so many are `forgotten`
    cut        a cut of a run: the time, and the step that led there. `event` is what a machine has consumed, as
               `ROLE.EVENT`; where none has, `event` and `role` are ''. `transition` is '' where it took none. `entry`
               numbers the cuts, and the ends, of all runs in the order in which they were entered. A number that is
               left out is of a state that no step of the run has led to. `actor` and `position` are the event that it
               comes from. Of a cut `passed`, `event` is the machine that has gone on to serve another run; of
               one `lost`, that whose record was lost, and the event is the step that shows it; of one `late`, that
               to which a message was on its way still, and the event is the step that takes it
    ROLE       what a machine's record was from cut `since` to cut `until`, both included; `until` is FOREVER while it
               lasts. `running`: whether the machine's actor was up. `shared` has the shared variables
    CHANNEL    a message that was in transit from `since` to `until`. `number` is its rank, as the language has it (0: a
               duplicate); where that changes, another row begins. `content` has its fields as JSON
    lane       of a mailbox from one machine to another: the rank of the last number that was sent (0: it was received)
    separated  two actors between which a partition lay, in both orders
    TYPE       the members of an enumeration or a counted type
    message_KIND   a view: the messages of one kind, with a column for each field

Beside them stand the events that the cuts come from, and how far it all is (kept.py):

    event          an event as it was written, the run that it is about, and its number in the order of judgement
    follower       how far the events of an actor are kept and judged
    actor_machine  a machine that belongs to an actor: the state that it was left in, and the run that it serves
    violation      a property that does not hold in a run, and the cut at which that showed; `witness`: likewise, a
                   `sometimes` that a run shows
    fault          what is wrong with events themselves
    progress       everything else that it takes to go on

So the record of a machine at a cut is found by `cut.number BETWEEN since AND until`, and that before the step by
`cut.number - 1 BETWEEN since AND until`; what is in transit is asked in the same way. There is exactly one row of each
machine at each cut: `checker/verify/queries.py` asks for cuts where that is not so, as a query joins machines and would
be silent about a cut at which one is missing.

The key of a machine's rows ends with `until`: of a long history, the rows that new cuts can see lie at its end, where
the index is entered.

The tables are plain SQL text made from a few rows here. SQLAlchemy would make the same text for the tables; but queries
are meant to be read and run by hand, and those that it prints are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

from leasehold.checker.verify.sql.dialects import Dialect, Kind, kind_of
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import System

FOREVER = 2**63 - 1
LASTING = 4  # columns of a machine or a message that come before what lasts
LONGEST_NAME = 55  # of a table or column: PostgreSQL has 63 bytes

ColumnKind: TypeAlias = Kind | Literal["key"]


class Cursor(Protocol):
    """A cursor as Python's database API has it (PEP 249)."""

    def execute(self, query: str, parameters: Any = ...) -> Any: ...
    def executemany(self, query: str, parameters: Any) -> Any: ...
    def fetchall(self) -> Any: ...


@dataclass(frozen=True)
class TableColumn:
    name: str
    kind: ColumnKind
    optional: bool = False  # it may be NULL


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: as SQL has it, in quotes where it must be.
        lasts: its rows have `since` and `until`.
    """

    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()

    @property
    def lasts(self) -> bool:
        return any(c.name == "until" for c in self.columns)


def _columns(text: str) -> tuple[TableColumn, ...]:
    """Columns as `NAME:KIND`, with a `?` behind the kind where one may be NULL."""
    pairs = (word.split(":") for word in text.split())
    return tuple(TableColumn(name, kind.rstrip("?"), kind.endswith("?")) for name, kind in pairs)  # type: ignore[arg-type]


RUN = Table(
    "run",
    _columns("run:number name:key ended:number? judged:truth settled:truth machines:number forgotten:number"),
    ("run",),
    (("ended",), ("name",)),
)
LANE = Table(
    "lane",
    _columns("run:number channel:key sender:instance receiver:instance since:number until:number newest:number"),
    ("run", "channel", "sender", "receiver", "until"),
    (("run", "until"),),
)
SEPARATED = Table(
    "separated",
    _columns("run:number since:number until:number actor:key other:key"),
    ("run", "actor", "other", "until"),
    (("run", "until"),),
)
_MACHINE = "run:number instance:instance since:number until:number actor:key running:truth state:text"
_MESSAGE = (
    "run:number message:number since:number until:number sender:instance receiver:instance number:number latest:truth"
    " kind:key content:json"
)
_STEP = "cause:key role:key instance:instance event:key sender:instance transition:key actor:key position:number"

EVENT = Table(
    "event",
    _columns("actor:key position:number digest:key run:key judged:number? body:opaque"),
    ("actor", "position"),
    (("run", "judged"),),
)
FOLLOWER = Table(
    "follower",
    _columns("actor:key source:opaque position:number digest:key epoch:number sealed:number judged:number"),
    ("actor",),
)
ACTOR_MACHINE = Table("actor_machine", _columns("actor:key machine:key state:key serves:key"), ("actor", "machine"))
_DECIDED = _columns("number:number run:number property:key name:key cut:number")
VIOLATION = Table("violation", _DECIDED, ("run", "property"))
WITNESS = Table("witness", _DECIDED, ("run", "property"))
FAULT = Table("fault", _columns("number:number actor:key position:number run:key reason:opaque kind:key"), ("number",))
PROGRESS = Table("progress", _columns("name:key value:opaque"), ("name",))
KEPT = (EVENT, FOLLOWER, ACTOR_MACHINE, VIOLATION, WITNESS, FAULT, PROGRESS)
_FIXED = ("run", "cut", "lane", "separated", *(table.name for table in KEPT))


class Tables:
    """The tables of a system in a database; the layout of queries (`SqlLayout`).

    Attributes:
        machine_tables: by role, and of the shared variables; `channel_tables`: by channel.
        inserts: by table, the statement that inserts a row.
    """

    def __init__(self, system: System, dialect: Dialect) -> None:
        self.system, self.dialect = system, dialect
        self.constants: Mapping[str, t.Value] = system.values()
        names = _Names(_FIXED)
        self._names = {("role", r): names.take(r) for r in system.holders}
        self._names |= {("channel", c): names.take(c) for c in system.channels}
        self._names |= {("message", m): names.take(f"message_{m}") for m in system.messages}
        self._names |= {("type", name): names.take(name) for name in system.types}
        self._fields: dict[tuple[str, str], str] = {}
        for role in system.holders.values():
            mine = _Names(_named(_MACHINE))
            self._fields |= {(role.name, d): mine.take(d) for d in role.data}
        mine = _Names(_named(_MESSAGE))
        every = dict.fromkeys(f.name for m in system.messages.values() for f in m.fields)
        self._message_fields = {name: mine.take(name) for name in every}
        self.inserts: dict[str, str] = {}
        for table in (*self.tables(), *KEPT):
            columns = ", ".join(dialect.identifier(c.name) for c in table.columns)
            marks = ", ".join([dialect.mark] * len(table.columns))
            self.inserts[table.name] = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"

    def name(self, kind: Literal["role", "channel", "message", "type"], name: str) -> str:
        return self.dialect.identifier(self._names[kind, name])

    # What expressions ask for

    def machines(self, role: str) -> str:
        return self.name("role", role)

    def several(self, role: str) -> bool:
        of = self.system.holders[role].instance
        return of.count > 1 or of.dynamic

    def field(self, role: str, name: str) -> str:
        return self._fields[role, name]

    def members(self, of: t.Enum | t.Instance) -> str:
        return self.name("type", of.name) if of.name in self.system.types else ""

    def messages(self, name: str) -> tuple[str, bool]:
        if name in self.system.messages:
            return self.name("message", name), True
        kinds = [m for m in self.system.messages if self.system.channel_of(m).name == name]
        return (self.name("message", kinds[0]), True) if len(kinds) == 1 else (self.name("channel", name), False)

    def message_field(self, name: str) -> str:
        return self._message_fields[name]

    def rest(self, e: x.Expression) -> t.Value:
        match e:
            case x.Data(role=role, name=name):
                kind = self.system.holders[role].data[name].type
            case x.MessageField(name=name, type=t.Map() as written):  # no message gives a field another `rest`
                fields = (f.type for m in self.system.messages.values() for f in m.fields if f.name == name)
                kind = next((kind for kind in fields if kind == written), written)
            case x.Old(operand=operand):
                return self.rest(operand)
            case _:
                return ...
        return kind.rest if isinstance(kind, t.Map) else ...

    def ranked(self, name: str) -> bool:
        return self.system.channel_named(name).kind == "mailbox"

    def literal(self, type_: t.Type, value: t.Value) -> str:
        if value is None:
            kind = self.dialect.columns[kind_of(type_)]
            return f"CAST(NULL AS {kind})" if self.dialect.name == "postgresql" and type_ != t.Option(None) else "NULL"
        match kind_of(type_):
            case "truth":
                return "TRUE" if value else "FALSE"
            case "number" | "instance":
                return str(value) if value >= 0 else f"({value})"
            case "text":
                return f"'{value}'"
        word = str(encoded(type_, value)).replace("'", "''")
        return "'" + (word.replace("\\", "\\\\") if self.dialect.name == "mariadb" else word) + "'"

    # The tables

    @cached_property
    def cut(self) -> Table:
        now = "" if self.system.clock is None else "now:number"
        columns = _columns(f"entry:number run:number number:number {now} {_STEP}")
        return Table("cut", columns, ("entry",), (("run", "number"),))

    @cached_property
    def machine_tables(self) -> dict[str, Table]:
        tables = {}
        for role in self.system.holders.values():
            fixed = _columns(_MACHINE) if role.states else _columns(_MACHINE)[:LASTING]
            data = [
                TableColumn(self._fields[role.name, d.name], kind_of(d.type), isinstance(d.type, t.Option))
                for d in role.data.values()
            ]
            name = self.machines(role.name)
            tables[role.name] = Table(name, (*fixed, *data), ("run", "instance", "until"), (("run", "until"),))
        return tables

    @cached_property
    def channel_tables(self) -> dict[str, Table]:
        columns, indexes = _columns(_MESSAGE), (("run", "until"),)
        return {c: Table(self.name("channel", c), columns, ("run", "message"), indexes) for c in self.system.channels}

    def tables(self) -> Iterator[Table]:
        """All that runs are written to."""
        yield from (RUN, self.cut, *self.machine_tables.values(), *self.channel_tables.values(), LANE, SEPARATED)

    def statements(self) -> Iterator[str]:
        """Yields what makes the tables and views in an empty database, and fills in the members of types."""
        for table in (*self.tables(), *KEPT):
            yield self._create(table)
            yield from self._indexes(table)
        for type_ in self.system.types.values():
            kind: ColumnKind = "text" if isinstance(type_, t.Enum) else "instance"
            table = Table(self.name("type", type_.name), (TableColumn("member", kind),), ("member",))
            yield self._create(table)
            rows = ", ".join(f"({self.literal(type_, value)})" for value in t.members(type_))
            yield f"INSERT INTO {table.name} (member) VALUES {rows}"
        for message in self.system.messages:
            yield self._view(message)

    def _create(self, table: Table) -> str:
        d = self.dialect
        lines = [
            f"  {d.identifier(c.name)} {d.columns[c.kind]}{'' if c.optional else ' NOT NULL'}" for c in table.columns
        ]
        lines.append(f"  PRIMARY KEY ({', '.join(d.identifier(k) for k in table.key)})")
        return f"CREATE TABLE {table.name} (\n" + ",\n".join(lines) + f"\n){d.table_options}"

    def _indexes(self, table: Table) -> Iterator[str]:
        plain = table.name.strip(self.dialect.quote)
        for columns in table.indexes:
            unique = "UNIQUE " if table is self.cut else ""
            yield f"CREATE {unique}INDEX {plain}_by_{columns[-1]} ON {table.name} ({', '.join(columns)})"

    def _view(self, message: str) -> str:
        d, m = self.dialect, self.system.messages[message]
        fields = [
            f"{d.at_text[kind_of(f.type)].format('content', _quoted(f.name))} AS "
            f"{d.identifier(self._message_fields[f.name])}"
            for f in m.fields
        ]
        columns = ",\n".join(f"  {c}" for c in (*_named(_MESSAGE), *fields))
        channel = self.name("channel", self.system.channel_of(message).name)
        view = self.name("message", message)
        return f"CREATE VIEW {view} AS SELECT\n{columns}\nFROM {channel} WHERE kind = '{message}'"


def _named(text: str) -> tuple[str, ...]:
    return tuple(column.name for column in _columns(text))


def _quoted(word: str) -> str:
    return f"'{word}'"


class _Names:
    """Names of tables or columns, each once, and none longer than databases take."""

    def __init__(self, used: tuple[str, ...]) -> None:
        self.used = set(used)

    def take(self, wanted: str) -> str:
        name = wanted[:LONGEST_NAME]
        while name in self.used or name.startswith("sqlite_"):
            name = f"{name}_" if not name.startswith("sqlite_") else f"the_{name}"
        self.used.add(name)
        return name


# Values


def encoded(type_: t.Type, value: t.Value) -> Any:
    """A value as a database is given it."""
    if value is None and isinstance(type_, t.Option):
        return None
    match kind_of(type_):
        case "opaque":
            return _canonical(value)
        case "json":
            return _json(_plain(type_, value))
    return value


def content(fields: Mapping[str, tuple[t.Type, t.Value]]) -> str:
    """The fields of a message as JSON."""
    return _json({name: _plain(type_, value) for name, (type_, value) in fields.items()})


def _plain(type_: t.Type, value: t.Value) -> Any:
    match type_:
        case t.Option(of=of) if of is not None:
            return None if value is None else _plain(of, value)
        case t.Opaque():
            return _canonical(value)  # within JSON, too, it is a text that is compared as one
        case t.Set(of=t.Enum() | t.Instance() as member):
            return sorted(value, key=lambda v: t.position(member, v))
        case t.Set():  # the empty set, where nothing says whose members it has
            return []
        case t.Map(of=of, rest=rest) if rest is not ...:
            return {str(number): _plain(of, v) for number, v in enumerate(value) if v != rest}
        case t.Map(of=of, rest=rest) if rest is not ...:
            return {str(number): _plain(of, v) for number, v in enumerate(value) if v != rest}
        case t.Map(key=t.Enum() as key, of=of):
            return {k: _plain(of, v) for k, v in zip(key.members, value, strict=True)}
        case t.Map(of=of):
            return [_plain(of, v) for v in value]
        case t.Seq(of=of) if of is not None:
            return [_plain(of, v) for v in value]
    return value


_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
# Opaque data as the one text that equal data has.
_canonical = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode
