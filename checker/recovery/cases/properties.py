"""The properties of any system on its running actors: those of records, of endless runs, and of where a run ends.

Theory of operation. A run of real actors has to be a run of the specification. So each record state that is committed
(control states and data of all machines, and the clock, without messages) must be one of the explored graph's. Where no
step is possible any more, a `leads_to` that still waits is broken, and one of the system's `ends` must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leasehold.checker.explore.ground import cells_read, function
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.checker.recovery.monitor import CRASH, MonitoredProperties, PropertyMonitor
from leasehold.faults.model import Budget
from leasehold.faults.model.points import AFTER
from leasehold.faults.simulation.simulation import Simulation
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.for_each import each
from leasehold.spec.language.model import OF_FAIR_RUNS, System
from leasehold.spec.language.render.python_source import Frame, source

Records = tuple[Any, ...]
DEADLOCK = "deadlock_free"  # the property that `ends` claims
Holds = Callable[[Any, tuple[Any, ...], int], Any]
Owed = tuple[str, ...]  # a property's name, and the values of its variables


class Projection:
    """A state of the model without messages, faults and opaque data: what records and the clock tell of it."""

    def __init__(self, world: Reference) -> None:
        layout = world.layout
        cells = []
        for role, i in world.system.machines():
            cells.append(layout.at(role.name, i, None))
            kinds = ((datum.name, datum.type) for datum in role.data.values())
            cells += [layout.at(role.name, i, name) for name, kind in kinds if not isinstance(kind, t.Opaque)]
        self.cells = (*cells, *([] if layout.clock is None else [layout.clock]))

    def __call__(self, state: Sequence[Any]) -> Records:
        return tuple([state[cell] for cell in self.cells])

    def every(self, paths: Paths) -> frozenset[Records]:
        """The record states of an explored graph."""
        _, known = paths.combinations(self.cells)
        return frozenset(known)


class Deadlines:
    """The `leads_to` with a `within`, over the states of a run: since when each waits, and which are broken.

    Args:
        within: by name and values of its variables: where it begins to wait, what for, and how many ticks.
        clock: the cell of the time; None: there is none.

    Attributes:
        late: those that have waited for too long, by name.
    """

    def __init__(self, within: Mapping[Owed, tuple[Holds, Holds, int]], clock: int | None) -> None:
        self._within, self._clock = within, clock
        self._since: dict[Owed, int] = {}
        self.late: set[str] = set()

    def see(self, state: Sequence[Any]) -> None:
        """The run comes to a state."""
        now = 0 if self._clock is None else state[self._clock]
        for owed, (when, claim, most) in self._within.items():
            if now > self._since.get(owed, now) + most:
                self.late.add(owed[0])
            if claim(state, (), -1):
                self._since.pop(owed, None)
            elif when(state, (), -1):
                self._since.setdefault(owed, now)


class RunProperties(MonitoredProperties):
    """The properties of any system under a budget of faults.

    Attributes:
        projection: of states to record states.
        leads_to: by name and values of its variables, where each begins to wait, and what it waits for. So are an
            `always_eventually` and an `eventually_always` without `when`: a run that stops breaks them there.
        within: likewise the `leads_to` with a `within`, and its number of ticks; with those that ask for messages.
        ends: by name.
        excused: the properties that the model says are broken with one crash.
    """

    def __init__(self, system: System, budget: Budget = CRASH) -> None:
        super().__init__(system, budget)
        self.projection = Projection(self.world)
        self.excused: frozenset[str] = frozenset()
        self.leads_to: dict[Owed, tuple[Holds, Holds]] = {}
        self.within: dict[Owed, tuple[Holds, Holds, int]] = {}
        self._of_messages: set[Owed] = set()
        frame = Frame(self.layout, system.values())
        lanes = {lane.cell for lane in self.layout.lanes}
        for p in (one for of in system.properties.values() for one in each(of)):
            lasting = p.kind in OF_FAIR_RUNS and (p.kind == "leads_to" or p.when is None)
            if not lasting or not self.world.asks(p.claim):
                continue
            words = ["True" if p.when is None else source(p.when, frame), source(p.claim, frame)]
            read = [cells_read(text) for text in words]
            of_records = all(cells is not None and not cells & lanes for cells in read)
            owed = p.name, *p.binding.values()
            if p.within is not None:
                self.within[owed] = function(words[0]), function(words[1]), p.within
                self._of_messages |= set() if of_records else {owed}
            elif of_records:
                self.leads_to[owed] = function(words[0]), function(words[1])
        self.ends: dict[str, Holds] | None = None
        if system.ends is not None:
            self.ends = {end.name: self.world.function(end.holds) for end in system.ends}

    def waiting(self, before: set[Owed], state: Sequence[Any]) -> set[Owed]:
        """The `leads_to` that wait for their claim in a state, if these did before it."""
        return {
            owed
            for owed, (when, claim) in self.leads_to.items()
            if (owed in before or when(state, (), -1)) and not claim(state, (), -1)
        }

    def deadlines(self, on_records: bool) -> Deadlines:
        """Returns what a run breaks by its time; `on_records`: of those that ask for nothing but records."""
        asked = {owed: w for owed, w in self.within.items() if not on_records or owed not in self._of_messages}
        return Deadlines(asked, self.layout.clock)

    def end(self, state: Sequence[Any]) -> str | None:
        """The first end that holds; None: none does."""
        return next((name for name, holds in (self.ends or {}).items() if holds(state, (), -1)), None)

    def broken(self, before: Sequence[Any] | None, action: Action | None, state: Sequence[Any]) -> set[str]:
        """The properties of states, and of the step if there is one, that do not hold."""
        found: set[str] = set()
        for one, after, how in self.parts(before, action, state):
            found |= {name for name, holds in self.states.items() if not holds(after, (), -1)}
            if how is not None:
                found |= {name for name, holds in self.steps.items() if not holds(one, after, how)}
        return found

    def parts(
        self, before: Sequence[Any] | None, action: Action | None, state: Sequence[Any]
    ) -> list[tuple[Sequence[Any], Sequence[Any], Action | None]]:
        """A step as the records show it: one within which an actor stops is two, as it commits before it stops.

        An actor that stops right after its commit does not tell what it was, and nothing has led to a first state.
        """
        if before is None or action is None:
            return [(state, state, None)]
        stop = Action("crash", None, 0, "")
        if action.kind != "crash":
            return [(before, state, action)]
        if action.event == action.point:  # it was at rest
            return [(before, state, stop)]
        kept = list(state)
        for cell in self.world.up.values():
            kept[cell] = before[cell]
        kind = "deliver" if action.lane is not None else "tick" if action.event == "tick" else "local"
        untold = action.point.partition("@")[0].endswith(f"#{AFTER}")
        return [(before, kept, None if untold else action._replace(kind=kind)), (kept, state, stop)]


class RunMonitor(PropertyMonitor):
    """Evaluates the properties of one run, and compares its record states with those of the explored graph.

    Attributes:
        strange: record states that the graph does not have, in words.
        outside: the run has left the bounds within which the system was explored.
        deadlines: of the run.
    """

    properties: RunProperties

    def __init__(
        self, simulation: Simulation, properties: RunProperties, lease: str, known: frozenset[Records] | None
    ) -> None:
        super().__init__(simulation, properties, lease)
        self.known = known
        self.strange: list[str] = []
        self.outside = False
        self._await()

    def begin(self) -> None:
        super().begin()
        self._await()

    def _await(self) -> None:
        """Begins to await what is to come from this state on."""
        self._waiting = self.properties.waiting(set(), self._state)
        self.deadlines = self.properties.deadlines(on_records=True)
        self.deadlines.see(self._state)

    @property
    def waiting(self) -> set[str]:
        """The `leads_to` that wait, by name."""
        return {name for name, *_ in self._waiting}

    def _ask(self, before: list[Any], after: list[Any], action: Action | None) -> None:
        world = self.properties.world
        self.outside = self.outside or not world.within_bounds(tuple(after))
        if self.outside:
            self._state = after
            return
        super()._ask(before, after, action)
        self._waiting = self.properties.waiting(self._waiting, after)
        self.deadlines.see(after)
        records = self.properties.projection(after)
        if self.known is not None and records not in self.known:
            last = "a commit of several steps" if action is None else f"{action.role or action.kind} {action.event}"
            self.strange.append(f"after {last.strip()}: {self._described(records)}")

    def _described(self, records: Records) -> str:
        return ", ".join(f"{name} {_shown(value)}" for name, value in zip(self._names(), records, strict=False))[:400]

    def difference(self, found: Records, wanted: Records) -> str:
        """Returns the cells in which two record states differ, in words."""
        names = (*self._names(), "the time")
        pairs = (pair for pair in zip(names, found, wanted, strict=False) if pair[1] != pair[2])
        return ", ".join(f"{name} is {_shown(value)}, not {_shown(other)}" for name, value, other in pairs)[:400]

    def _names(self) -> list[str]:
        """Returns what each cell of a record state is, but for the clock's."""
        names = []
        for role, i, _ in self.properties.world.layout.machines():
            machine = self.sim.program.roles[role.name].machine(i)
            names += [machine, *(f"{machine}.{d.name}" for d in role.data.values() if not isinstance(d.type, t.Opaque))]
        return names


def _shown(value: Any) -> str:
    return "{" + ", ".join(map(str, sorted(value))) + "}" if isinstance(value, frozenset) else str(value)


def reads_messages(e: x.Expression) -> bool:
    """Returns whether an expression asks for messages in transit, which no record tells."""
    return x.mentions(e, lambda node: isinstance(node, x.Pending) or _asks_heard(node))


def _asks_heard(node: x.Expression) -> bool:
    return isinstance(node, x.GlobalQuery) and node.name == "heard"
