"""Writes the states of runs, as the explorer has them, to the tables.

Theory of operation. A state is compared with the one before: what differs ends a row and begins another. Most steps
change one machine, so a row whose cells are the same objects as before is not looked at. Rows wait in memory until they
are written, all in one transaction; a row that begins and ends meanwhile is written once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from leasehold.checker.explore import channels
from leasehold.checker.explore.layout import Layout, State
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.schema import FOREVER, LANE, LASTING, RUN, SEPARATED, Table, Tables, content, encoded
from leasehold.spec.language.lower import ModelActor
from leasehold.spec.language.model import Role

CONSUMING = ("local", "deliver", "tick", "crash")  # kinds of actions of which `took` asks


class Cursor(Protocol):
    """As Python's interface of databases has it."""

    def execute(self, query: str, parameters: Any = ...) -> Any: ...
    def executemany(self, query: str, parameters: Any) -> Any: ...


@dataclass
class LastingRow:
    """A row of a history.

    Attributes:
        stored: whether it was written, with an `until` of FOREVER.
    """

    values: list[Any]
    stored: bool = False


@dataclass
class _Run:
    run: int
    state: State | None = None  # the last one
    cuts: int = 0
    messages: int = 0
    rows: dict[tuple[str, Hashable], list[LastingRow]] = field(default_factory=dict)  # those that still last


class RunRecorder:
    """Writes the runs of a system.

    Attributes:
        entry: the number of the last cut, or of the end of a run, of all that have come.
    """

    def __init__(self, tables: Tables, layout: Layout) -> None:
        self.tables, self.layout, self.system = tables, layout, tables.system
        self.entry = 0
        self._runs: dict[int, _Run] = {}
        self._new: dict[str, list[list[Any]]] = defaultdict(list)  # rows to insert, by table
        self._begun: list[tuple[Table, LastingRow]] = []
        self._over: list[tuple[Table, LastingRow, int]] = []
        self._ended: list[tuple[int, int]] = []
        self._stops = {actor.name: layout.stopping(actor) for actor in layout.actors}
        self._cells = {(role.name, i): self._cells_of(role, i) for role, i in self.system.records()}
        pairs = {frozenset((a.name, b.name)): (a, b) for a in layout.actors for b in layout.actors if a is not b}
        self._separating = [(a.name, b.name, layout.separating(a, b)) for a, b in pairs.values()]

    def begin(self, name: str, state: State) -> int:
        """A new run, and its cut 0; returns its number."""
        run = _Run(len(self._runs) + 1)
        self._runs[run.run] = run
        self._new["run"].append([run.run, name, None])
        self.step(run.run, state, None)
        return run.run

    def step(self, run: int, state: State, action: Action | None) -> int:
        """Another cut of a run, and the step that led to it; returns its number."""
        r = self._runs[run]
        cut, r.cuts = r.cuts, r.cuts + 1
        self.entry += 1
        now = [] if self.layout.clock is None else [state[self.layout.clock]]
        told = ["", "", -1, "", -1, ""]
        if action is not None:
            told[0] = action.kind
            if action.kind in CONSUMING and action.role is not None:
                of = "" if action.transition is None else action.transition.name
                told[1:] = [
                    action.role,
                    action.instance,
                    f"{action.role}.{action.event}"[:250],
                    action.sender,
                    of[:250],
                ]
        self._new["cut"].append([self.entry, r.run, cut, *now, *told])
        self._histories(r, cut, state)
        return cut

    def replace(self, run: int, state: State) -> None:
        """The state of a run becomes another one, and no step of the run has led there.

        It takes a number, but is no cut: the next cut has it as the state before its step, and the last one does not
        have it behind it. So no property of steps compares both.
        """
        r = self._runs[run]
        cut, r.cuts = r.cuts, r.cuts + 1
        self._histories(r, cut, state)

    def _histories(self, r: _Run, cut: int, state: State) -> None:
        self._machines(r, cut, state)
        for lane in self.layout.lanes:
            if r.state is None or state[lane.cell] is not r.state[lane.cell]:
                self._lane(r, cut, state, lane)
        self._separations(r, cut, state)
        r.state = state

    def end(self, run: int) -> None:
        """Nothing more comes of a run."""
        self.entry += 1  # its own, as what is new is asked for by entry
        self._ended.append((self.entry, run))

    def _machines(self, r: _Run, cut: int, state: State) -> None:
        for role, i in self.system.records():
            if r.state is not None and all(state[at] is r.state[at] for at in self._cells[role.name, i]):
                continue
            table = self.tables.machine_tables[role.name]
            fixed = []
            if role.states:
                actor = self.layout.of[role.name, i]
                fixed = [actor.name, self._running(actor, state), state[self.layout.at(role.name, i, None)]]
            data = [encoded(d.type, state[self.layout.at(role.name, i, d.name)]) for d in role.data.values()]
            self._last(r, table, i, cut, [[r.run, i, cut, FOREVER, *fixed, *data]], after=LASTING)

    def _cells_of(self, role: Role, instance: int) -> tuple[int, ...]:
        """The cells that a machine's rows are made of."""
        first = self.layout.first[role.name] + self.layout.stride[role.name] * instance
        own = range(first, first + self.layout.stride[role.name])
        actor = self.layout.of.get((role.name, instance))  # shared variables are nobody's
        return (*own, *(() if actor is None else (at for at, _ in self._stops[actor.name])))

    def _running(self, actor: ModelActor, state: State) -> bool:
        return actor is not self.layout.traitor and all(state[at] not in v.stops for at, v in self._stops[actor.name])

    def _lane(self, r: _Run, cut: int, state: State, lane: Any) -> None:
        cell, ranked = state[lane.cell], lane.channel.kind == "mailbox"
        rows = []
        for number, kind, values in channels.entries(lane.channel.kind, cell):
            fields = self.system.messages[kind].fields
            named = {f.name: (f.type, v) for f, v in zip(fields, values, strict=True)}
            latest = ranked and number == cell[0]
            rows.append([r.run, 0, cut, FOREVER, lane.sender, lane.receiver, number, latest, kind, content(named)])
        self._last(
            r, self.tables.channel_tables[lane.channel.name], (lane.sender, lane.receiver), cut, rows, after=LASTING
        )
        if ranked:
            key = lane.channel.name, lane.sender, lane.receiver
            self._last(r, LANE, key, cut, [[r.run, *key, cut, FOREVER, cell[0]]], after=6)

    def _separations(self, r: _Run, cut: int, state: State) -> None:
        apart = []
        for one, other, cells in self._separating:
            if any(state[at] in values for at, values in cells):
                for a, b in ((one, other), (other, one)):
                    apart.append([r.run, cut, FOREVER, a, b])
        self._last(r, SEPARATED, "", cut, apart, after=3)

    def _last(self, r: _Run, table: Table, key: Hashable, cut: int, rows: list[list[Any]], after: int) -> None:
        """What lasts of something at a cut: rows that are alike from column `after` on go on."""
        lasting = r.rows.get((table.name, key), [])
        left = list(lasting)
        kept: list[LastingRow] = []
        for values in rows:
            same = next((row for row in left if row.values[after:] == values[after:]), None)
            if same is not None:
                left.remove(same)
                kept.append(same)
                continue
            if table.key[-1] == "message":
                r.messages += 1
                values[1] = r.messages
            row = LastingRow(values)
            kept.append(row)
            self._begun.append((table, row))
        for row in left:
            if row.stored:
                self._over.append((table, row, cut - 1))
            else:
                row.values[table.at("until")] = cut - 1
        r.rows[table.name, key] = kept

    def write(self, cursor: Cursor) -> None:
        """Writes all that is new. Rows that end come first, as a key must not be there twice."""
        for table, row, until in self._over:
            where = " AND ".join(f"{k} = {self._mark}" for k in table.key)
            values = [row.values[table.at(k)] for k in table.key]
            cursor.execute(f"UPDATE {table.name} SET until = {self._mark} WHERE {where}", (until, *values))
        for table, row in self._begun:
            self._new[table.name].append(row.values)
            row.stored = row.values[table.at("until")] == FOREVER
        for table in self.tables.tables():
            if rows := self._new.get(table.name):
                cursor.executemany(self._insert(table), [tuple(row) for row in rows])
        for entry, run in self._ended:
            cursor.execute(f"UPDATE {RUN.name} SET ended = {self._mark} WHERE run = {self._mark}", (entry, run))
        self._new.clear()
        self._begun, self._over, self._ended = [], [], []

    @property
    def _mark(self) -> str:
        return "?" if self.tables.dialect.name == "sqlite" else "%s"

    def _insert(self, table: Table) -> str:
        names = ", ".join(self.tables.dialect.identifier(c.name) for c in table.columns)
        return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join([self._mark] * len(table.columns))})"
