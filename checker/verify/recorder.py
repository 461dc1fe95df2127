"""Writes the states of runs, as the explorer has them, to the tables.

Theory of operation. A state is compared with the one before: what differs ends a row and begins another. Rows wait in
memory until they are written, all in one transaction; a row that begins and ends meanwhile is written once. Of a run
that is forgotten the rows that still last are had again from its cuts (`recall`), as they were made from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any, Literal

from leasehold.checker.explore import channels
from leasehold.checker.explore.layout import Lane, Layout, State
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.cuts import REPLACING, Cut, RunState
from leasehold.checker.verify.schema import FOREVER, LANE, LASTING, SEPARATED, Cursor, Table, Tables, content, encoded
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import ForgottenEvent
from leasehold.spec.language.lower import ModelActor
from leasehold.spec.language.model import Role


@dataclass(slots=True)
class LastingRow:
    """A row of a history.

    Attributes:
        stored: whether it was written, with an `until` of FOREVER.
    """

    values: list[Any]
    stored: bool = False


@dataclass(slots=True)
class _Run:
    run: int
    cuts: int = 0
    messages: int = 0
    before: State | None = None  # the last state
    rows: dict[tuple[str, Hashable], list[LastingRow]] = field(default_factory=dict)  # those that still last
    ended: bool = False  # nothing more comes, as its claims about what comes were told


@dataclass(slots=True)
class _Row:
    """The table's entry of a run that is not in memory and whose machines are being forgotten."""

    number: int
    machines: int
    forgotten: int


class RunRecorder:
    """Writes the runs of a system.

    Attributes:
        entry: the number of the last cut, or of the end of a run, of all that have come.
        begun: how many runs have come.
    """

    def __init__(self, tables: Tables, layout: Layout) -> None:
        self.tables, self.layout, self.system = tables, layout, tables.system
        self._all = [*tables.tables()]
        self._at = {table.name: {c.name: n for n, c in enumerate(table.columns)} for table in self._all}
        self.entry = self.begun = 0
        self._runs: dict[int, _Run] = {}
        self._new: dict[str, list[tuple[Any, ...]]] = defaultdict(list)  # rows to insert, by table
        self._begun: list[tuple[Table, LastingRow]] = []
        self._over: list[tuple[Table, LastingRow, int]] = []
        self._ended: dict[int, int | None] = {}
        self._written: dict[int, tuple[Any, ...]] = {}  # by run in memory, what its row of `run` has
        self._closing: dict[str, _Row] = {}
        self._stops = {actor.name: layout.stopping(actor) for actor in layout.actors}
        self._pairs = [(a, b, layout.separating(a, b)) for a, b in combinations(layout.actors, 2)]
        self._parts = list(self._all_parts())
        self._parts_of: dict[int, list[int]] = defaultdict(list)  # by cell, the parts that show it
        for number, (cells, _) in enumerate(self._parts):
            for cell in cells:
                self._parts_of[cell].append(number)

    def record(self, cursor: Cursor, cuts: Iterable[Cut | ForgottenEvent], runs: Mapping[str, RunState]) -> int:
        """Takes the cuts of runs in memory, and machines that are forgotten between them; returns how many cuts."""
        count = 0
        for cut in cuts:
            if isinstance(cut, ForgottenEvent):
                self._forgotten(cursor, cut.lease, runs.get(cut.lease))
                continue
            count += 1
            if cut.action is None:
                self.begin(cut.run, cut.state, cut.actor, cut.position)
                continue
            if cut.action.kind in REPLACING:
                self.replace(cut.number, cut.state)
            if self._runs[cut.number].ended:
                self.go_on(cut.number)
            self.step(cut.number, cut.state, cut.action, cut.actor, cut.position)
        return count

    def _forgotten(self, cursor: Cursor, name: str, run: RunState | None) -> None:
        """A machine of a run is forgotten; with the last one, nothing more comes of the run."""
        if run is not None:
            if run.judged and run.forgotten == _row_of(run)[2]:
                self.end(run.number)
                run.over = True
            return
        row = self._closing.get(name)
        if row is None:
            where = f"{self.tables.dialect.identifier('name')} = {self.tables.dialect.mark} AND judged"
            cursor.execute(f"SELECT run, machines, forgotten FROM run WHERE {where}", (name,))
            for values in cursor.fetchall():
                row = self._closing[name] = _Row(*values)
        if row is not None:
            row.forgotten += 1
            if row.forgotten == row.machines:
                self.end(row.number)

    def begin(self, name: str, state: State, actor: str = "", position: int = 0) -> int:
        """A new run, and its cut 0; returns its number."""
        self.begun += 1
        run = _Run(self.begun)
        self._runs[run.run] = run
        self._written[run.run] = (True, False, 0, 0)
        self._new["run"].append((run.run, name, None, *self._written[run.run]))
        self.step(run.run, state, None, actor, position)
        return run.run

    def step(self, run: int, state: State, action: Action | None, actor: str = "", position: int = 0) -> int:
        """Another cut of a run, the step that led to it and the event that it comes from; returns its number."""
        r = self._runs[run]
        cut, r.cuts = r.cuts, r.cuts + 1
        self.entry += 1
        now = () if self.layout.clock is None else (state[self.layout.clock],)
        self._new["cut"].append((self.entry, r.run, cut, *now, *_told(action), actor, position))
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

    def end(self, run: int) -> None:
        """Nothing more comes of a run."""
        self.entry += 1  # its own, as what is new is asked for by entry
        self._ended[run] = self.entry
        if run in self._runs:
            self._runs[run].ended = True

    def end_all(self, cursor: Cursor, which: Literal["settled", "all"]) -> None:
        """Nothing more comes of any run, or of those in an end that the system allows; all of them were written."""
        settled = " AND settled" if which == "settled" else ""
        cursor.execute(f"SELECT run FROM run WHERE ended IS NULL AND judged{settled} ORDER BY run")
        for (run,) in cursor.fetchall():
            self.end(run)
        self._write_ended(cursor)

    def go_on(self, run: int) -> None:
        """A run has not ended, though it was said so."""
        self._ended[run] = None
        self._runs[run].ended = False

    def forget(self, run: int) -> None:
        """All of a run that was written need not be in memory."""
        self._runs.pop(run, None)
        self._written.pop(run, None)

    def recall(self, run: int, states: Iterable[tuple[State, bool]], ended: bool = False) -> None:
        """Has a run in memory again, of which everything was written.

        Args:
            run: its number.
            states: of its cuts, and whether it is one that `replace` has had.
            ended: whether it has ended.
        """
        new, self._begun, self._over = (self._begun, self._over), [], []
        r = self._runs[run] = _Run(run, ended=ended)
        for state, replaced in states:
            self._histories(r, r.cuts + replaced, state)
            r.cuts += 1 + replaced
        for rows in r.rows.values():
            for row in rows:
                row.stored = True
        self._begun, self._over = new

    def recall_row(self, name: str, number: int, row: tuple[Any, ...]) -> int:
        """Takes what the table of runs has of a run that is recalled; returns how many machines are forgotten."""
        self._written[number] = row
        closing = self._closing.pop(name, None) if row[0] else None
        forgotten: int = row[-1] if closing is None else closing.forgotten
        return forgotten

    # What lasts

    def _all_parts(self) -> Iterator[tuple[set[int], Callable[[_Run, int, State], None]]]:
        """The parts of a state that have rows of their own: their cells, and what writes them."""
        for role, i in self.system.records():
            cells = {self.layout.at(role.name, i, name) for name in role.data}
            if role.states:
                stops = self._stops[self.layout.of[role.name, i].name]
                cells |= {self.layout.at(role.name, i, None), *(at for at, _ in stops)}
            yield cells, partial(self._machine, role, i)
        for lane in self.layout.lanes:
            yield {lane.cell}, partial(self._lane, lane)
        yield {at for _, _, cells in self._pairs for at, _ in cells}, self._separations

    def _histories(self, r: _Run, cut: int, state: State) -> None:
        if r.before is None:
            for _, write in self._parts:
                write(r, cut, state)
        else:
            parts = {
                part
                for at, (old, new) in enumerate(zip(r.before, state, strict=True))
                if old is not new and old != new
                for part in self._parts_of.get(at, ())
            }
            for part in sorted(parts):
                self._parts[part][1](r, cut, state)
        r.before = state

    def _machine(self, role: Role, i: int, r: _Run, cut: int, state: State) -> None:
        table = self.tables.machine_tables[role.name]
        fixed = []
        if role.states:
            actor = self.layout.of[role.name, i]
            fixed = [actor.name, self._running(actor, state), state[self.layout.at(role.name, i, None)]]
        data = self._data(role, i, r, table, state)
        self._last(r, table, i, cut, [[r.run, i, cut, FOREVER, *fixed, *data]], after=LASTING)

    def _data(self, role: Role, i: int, r: _Run, table: Table, state: State) -> list[Any]:
        """The columns of a machine's data; what has not changed is not encoded again."""
        kept = r.rows.get((table.name, i))
        before, columns = (r.before, kept[0].values[-len(role.data) :]) if kept and role.data else (None, [])
        data = []
        for number, d in enumerate(role.data.values()):
            at = self.layout.at(role.name, i, d.name)
            same = before is not None and before[at] is state[at]
            data.append(columns[number] if same else encoded(d.type, state[at]))
        return data

    def _running(self, actor: ModelActor, state: State) -> bool:
        return actor is not self.layout.traitor and all(state[at] not in v.stops for at, v in self._stops[actor.name])

    def _lane(self, lane: Lane, r: _Run, cut: int, state: State) -> None:
        cell, ranked = state[lane.cell], lane.channel.kind == "mailbox"
        rows = []
        for place, (number, kind, values) in enumerate(channels.entries(lane.channel.kind, cell), 1):
            number = place if lane.channel.kind == "fifo" else number
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
        for one, other, cells in self._pairs:
            if any(state[at] in values for at, values in cells):
                for a, b in ((one, other), (other, one)):
                    apart.append([r.run, cut, FOREVER, a.name, b.name])
        self._last(r, SEPARATED, "", cut, apart, after=3)

    def _last(self, r: _Run, table: Table, key: Hashable, cut: int, rows: list[list[Any]], after: int) -> None:
        """Notes what lasts of something at a cut: rows that are alike from column `after` on go on."""
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
                row.values[self._at[table.name]["until"]] = cut - 1
        r.rows[table.name, key] = kept

    def write(self, cursor: Cursor, touched: Iterable[RunState] = ()) -> None:
        """Writes all that is new, and what the table says of runs. Rows that end come first, as keys are unique."""
        mark, over = self.tables.dialect.mark, defaultdict[str, list[tuple[Any, ...]]](list)
        for table, row, until in self._over:
            over[table.name].append((until, *(row.values[self._at[table.name][k]] for k in table.key)))
        for table, row in self._begun:
            self._new[table.name].append(tuple(row.values))
            row.stored = row.values[self._at[table.name]["until"]] == FOREVER
        for table in self._all:
            if ended := over.get(table.name):
                where = " AND ".join(f"{k} = {mark}" for k in table.key)
                cursor.executemany(f"UPDATE {table.name} SET until = {mark} WHERE {where}", ended)
            if rows := self._new.get(table.name):
                cursor.executemany(self.tables.inserts[table.name], rows)
        self._write_ended(cursor)
        self._new.clear()
        self._begun, self._over = [], []
        changed = []
        for run in touched:
            values, written = _row_of(run), self._written.get(run.number)
            if written != values and (run.judged or written is None or written[0]):
                self._written[run.number] = values
                changed.append((*values, run.number))
        if changed:
            assignments = ", ".join(f"{name} = {mark}" for name in ("judged", "settled", "machines", "forgotten"))
            cursor.executemany(f"UPDATE run SET {assignments} WHERE run = {mark}", changed)
        if self._closing:
            counts = [(one.forgotten, one.number) for one in self._closing.values()]
            cursor.executemany(f"UPDATE run SET forgotten = {mark} WHERE run = {mark}", counts)
            self._closing.clear()

    def _write_ended(self, cursor: Cursor) -> None:
        if self._ended:
            mark, ended = self.tables.dialect.mark, [(entry, run) for run, entry in self._ended.items()]
            cursor.executemany(f"UPDATE run SET ended = {mark} WHERE run = {mark}", ended)
            self._ended = {}


def _row_of(run: RunState) -> tuple[bool, bool, int, int]:
    """Returns what the table of runs says of one: `judged`, `settled`, `machines` and `forgotten`."""
    return run.judged, run.over, sum(key.lease != BELOW for key in run.machines.machines), run.forgotten


def _told(action: Action | None) -> tuple[Any, ...]:
    """Returns what the table of cuts says of a step."""
    if action is None:
        return "", "", -1, "", -1, ""
    if action.consumes and action.role is not None:
        of = "" if action.transition is None else action.transition.name
        event = f"{action.role}.{action.event}"
        return action.kind, action.role, action.instance, event[:250], action.sender, of[:250]
    return action.kind, "", -1, action.event[:250] if action.kind in ("passed", "lost", "late") else "", -1, ""
