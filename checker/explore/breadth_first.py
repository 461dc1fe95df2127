"""The reference explorer: breadth first over exact states.

Breadth first, so that the first path to anything is a shortest one. Keys are the states themselves, never hashes of
them. States, generated states and self-loops are counted as TLC counts them: `generated` has the initial states and
every step that was found, also one that leads back or out of the bounds.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.checker.explore.labels import Labels, Left
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.properties import OF_THE_LANGUAGE, PropertyClaims
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.resources import (
    held_memory,
    interrupts,
    memory_for_a_search,
    memory_words,
    peak_memory,
    too_much_to_decide,
)
from leasehold.checker.explore.result import (
    AT_VIOLATION,
    Cell,
    Exploration,
    PropertyResult,
    of_all_bindings,
    verdict_on,
)
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.checker.host.deadline import LEAST_GRACE, OutOfTime, alarm_at, grace

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical


SEARCHING = "searching"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an exploration.

    Attributes:
        waiting: states whose steps are still to be followed; `grows`: more wait than at the report before.
        violated: the properties that are known to be violated so far.
        phase: the work that is done now; the figures are those at the end of the search where that is over.
        disk_bytes: of files, where states are kept on a disk.
    """

    distinct: int
    generated: int
    waiting: int
    depth: int
    seconds: float
    memory_bytes: int
    grows: bool = True
    violated: tuple[str, ...] = ()
    phase: str = SEARCHING
    disk_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """A request that a search leave a checkpoint, if it has to leave off.

    Attributes:
        place: the file; None: where checkpoints usually are.
        resume: it goes on from there.
    """

    place: FilePath | None = None
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits at which an exploration stops early; None is no limit, but for memory."""

    states: int | None = None
    depth: int | None = None
    seconds: float | None = None
    memory: int | None = None  # bytes; None: most of what is free when the search begins
    keeping: Checkpointing | None = None  # packed alone
    disk: FilePath | None = None  # a folder for files of what grows with the search; packed alone
    stop_at_violation: bool = False  # of what is decided on the way; what needs the whole graph is then left open
    finish_level: bool = False  # a violation ends the search with its level: which costs a packed search no speed
    expected: frozenset[str] = frozenset()  # properties whose violation stops no search


UNDECIDED = "before what asks for the whole graph was decided"
REPORT_EVERY = 20_000  # states between two reports of progress


class BreadthFirstSearch:
    """The base of the searches of all engines.

    Attributes:
        engine: its name.
        graphical: whether something is decided on the finished graph.
        faults: by kind, what a step shows to be wrong with the specification, and the state that it starts from.
        initial: first states; `generated` and `cut` have those that are out of the bounds, too.
        memory: what may be held, in bytes.
        seconds_before: what the search took until it left off, if it goes on from there.
    """

    engine: str
    graphical: bool

    def __init__(
        self,
        world: Reference,
        limits: Limits,
        progress: Callable[[Progress], None] | None,
        canonical: Canonical | None = None,
        fairness: Fairness = Fairness.SPEC,
    ) -> None:
        self.world, self.limits, self.progress = world, limits, progress
        self.canonical, self.fairness = canonical, fairness
        self.system, self.faulty = world.system, world.faulty
        self.claims = PropertyClaims(self.system, world)
        self.faults: dict[str, tuple[str, int]] = {}
        self.initial = self.generated = self.cut = 0
        self.memory: int | None = None
        self.started = self.seconds_before = 0.0
        self._told: Progress | None = None  # at last

    def run(self) -> Exploration:
        """Searches, and returns what was found."""
        self.started = time.perf_counter()
        self.memory = self.limits.memory or memory_for_a_search()
        why = ""
        try:
            with alarm_at(self._end()):
                why = self._search()
        except KeyboardInterrupt:
            why = "interrupted"
        except OutOfTime:
            why = self._time_words
        return self._result(why)

    def _end(self, least: float = 0.0) -> float | None:
        """Returns when to break off what does not look at the clock, if time is limited; not before so many seconds."""
        seconds = self.limits.seconds
        return None if seconds is None else max(self.started + seconds + grace(seconds), time.perf_counter() + least)

    def _search(self) -> str:
        """Runs until everything is visited; returns why it stopped before, or nothing."""
        raise NotImplementedError

    def _first_within(self) -> Iterator[State]:
        """The first states that are within the bounds; the others are counted."""
        self.generated = self.cut = 0
        for first in self.world.initial_states():
            self.generated += 1
            state = first if self.canonical is None else self.canonical.form(first)
            if self.world.within_bounds(state):
                yield state
            else:
                self.cut += 1
            if self._out_of_time():  # the search ends as it begins
                return

    def _out_of_time(self) -> str:
        """Returns why the search ends now, if its time is over."""
        seconds = self.limits.seconds
        over = seconds is not None and time.perf_counter() - self.started > seconds
        return self._time_words if over else ""

    @property
    def _time_words(self) -> str:
        return f"stopped after {self.limits.seconds or 0:,.0f} s"

    def _out_of_memory(self) -> str:
        """Returns why the search ends now, if it has come to its limit of memory."""
        return "" if self.memory is None or held_memory() <= self.memory else memory_words(self.memory)

    def _report(self, distinct: int, generated: int, waiting: int, depth: int) -> None:
        if self.progress is not None:
            grows = self._told is None or waiting > self._told.waiting
            figures = (distinct, generated, waiting, depth, self._seconds, peak_memory())
            self._told = Progress(*figures, grows, self._violated(), disk_bytes=self._disk_bytes())
            self.progress(self._told)

    def _show(self) -> None:
        """Tells how far the search has come."""
        raise NotImplementedError

    def _disk_bytes(self) -> int:
        return 0

    def _enter(self, phase: str, *violated: str) -> None:
        """Tells of work that follows the search, and what was seen to be violated since.

        No engine is asked for figures, as it serves one thread.
        """
        if self.progress is not None and self._told is not None:
            self._told = replace(self._told, phase=phase, violated=(*self._told.violated, *violated))
            self.progress(self._told)

    def _violated(self) -> tuple[str, ...]:
        """The properties that are violated so far, of those that are decided on the way."""
        return (*self.claims.violated, *(OF_THE_LANGUAGE[kind][0] for kind in self.faults))

    def _stops(self) -> bool:
        """Returns whether a violation ends the search."""
        return self.limits.stop_at_violation and not self.limits.expected.issuperset(self._violated())

    @property
    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.started

    # What was found

    def _kept(self, why: str) -> str:
        """Leaves a checkpoint, where one is wanted; returns why the search ends, and why there is none."""
        return why

    def _graph(self) -> Graph:
        """The finished graph."""
        raise NotImplementedError

    def _result(self, why: str) -> Exploration:
        """The result, with the verdicts that need the finished graph."""
        paths, figures = self._paths(), self._figures()
        self._show()
        graph, done, large = None, not why, ""  # whether every state is visited; why it is not decided
        try:
            if self.graphical and (large := too_much_to_decide(figures["edges"], self.memory)):
                why = why or self._kept(large)
            with alarm_at(self._end(LEAST_GRACE) if self.graphical else None):
                if self.graphical and not large:
                    self._enter("building the graph")
                    graph = self._graph()
                verdicts = self._verdicts(paths, graph, done, why)
        except (KeyboardInterrupt, OutOfTime) as broken:  # what has to be decided on the whole graph is not
            stopped = "interrupted" if isinstance(broken, KeyboardInterrupt) else f"{self._time_words}, {UNDECIDED}"
            why, graph = why or self._kept(stopped), None
            verdicts = self._verdicts(paths, None, done, why)
        with interrupts():  # the rest takes little time, and is not broken off
            return self._exploration(why, verdicts, paths=paths, graph=graph, **figures, **self._details(why, paths))

    def _paths(self) -> Any:
        raise NotImplementedError

    def _figures(self) -> dict[str, int]:
        """The numbers of an exploration, by name."""
        raise NotImplementedError

    def _details(self, why: str, paths: Any) -> dict[str, Any]:
        """The other fields of an exploration, by name; `why` it is not complete."""
        raise NotImplementedError

    def _exploration(self, why: str, properties: Sequence[PropertyResult], **details: Any) -> Exploration:
        return Exploration(
            system=self.system,
            engine=self.engine,
            complete=not why,
            why_incomplete=why,
            initial=self.initial,
            seconds=self._seconds,
            product_machines=tuple(name for name, _ in self.world.product()),
            product_states=self.system.product_size(),
            properties=tuple(properties),
            vacuous=() if why else self.claims.vacuous() if details["distinct"] else self.claims.names,
            fairness=self.fairness,
            **details,
        )

    def _verdicts(self, paths: Paths, graph: Graph | None, done: bool, why: str) -> list[PropertyResult]:
        """The verdict on every property, once a search has ended; on what needs the graph only where there is one.

        `done`: every state was visited; else, and where there is no graph, `why` says why something is left open.
        """
        results = self.claims.results(paths, done, why)
        graphical = self.claims.graphical
        if graph is not None:
            from leasehold.checker.explore.graph import liveness  # needs NumPy, which takes time and memory to load

            results += liveness.decide(graphical, graph, paths, done, why, self.fairness, self._enter)
        else:
            results += of_all_bindings([verdict_on(c.of, "bounded", None, why) for c in graphical])
        if (refines := self.system.refines) is not None:
            from leasehold.checker.explore.graph import refinement

            results.append(refinement.decide(refines, graph, paths, done, why))
        declared = list(self.system.properties)
        results.sort(key=lambda r: declared.index(r.name) if r.name in declared else len(declared))
        for kind, (reason, state) in self.faults.items():
            name, doc = OF_THE_LANGUAGE[kind]
            results.append(PropertyResult(name, kind, "violated", doc, "the language", paths.to(state), reason))
        return results

    def _at_fault(self) -> str:
        """Returns why a search is not complete that has followed every step, or nothing."""
        # Where a step shows the spec to be wrong, the other steps of that state were not followed.
        reasons = "; ".join(reason for reason, _ in self.faults.values())
        return f"the specification is at fault: {reasons}" if self.faults else ""


class ReferenceSearch(BreadthFirstSearch):
    """One search by the reference explorer; with `canonical`, one state for each orbit."""

    engine = "reference"

    def __init__(
        self,
        world: Reference,
        limits: Limits,
        progress: Callable[[Progress], None] | None,
        canonical: Canonical | None = None,
        fairness: Fairness = Fairness.SPEC,
    ) -> None:
        super().__init__(world, limits, progress, canonical, fairness)
        self.numbers: dict[State, int] = {}
        self.states: list[State] = []
        self.depths = array("l")
        self.labels = Labels()
        self.searched = 0  # labels whose steps were followed
        self.last_level = inf  # after a violation: the depth of the last labels whose steps are followed
        self.graphical = self.claims.need_graph or self.faulty
        self.graph = Graph(faults_stop=self.faulty) if self.graphical else None
        self.spans: dict[int, list[tuple[int, int]]] = {}  # by state: the edges that it has, from and to, in parts
        self.edges = 0
        self.taken: dict[str, int] = {}
        self.product_cells = tuple(cell for _, cell in self.world.product())
        self.cells: dict[tuple[str, ...], list[int]] = {}  # control: [index, states, depth, first state]
        self.cell_of = array("l")
        self.cell_edges: dict[tuple[int, int, str | None, str], None] = {}

    def run(self) -> Exploration:
        # Millions of tuples are kept and none is part of a cycle, so looking for cycles would only take time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().run()
        finally:
            if collecting:
                gc.enable()

    def _paths(self) -> Paths:
        return Paths(self.world, self.states, self.labels, self.canonical)

    def _graph(self) -> Graph:
        assert self.graph is not None
        return self.graph.finish(len(self.states))

    def _figures(self) -> dict[str, int]:
        return {
            "distinct": len(self.states),
            "generated": self.generated,
            "edges": self.edges,
            "depth": max(self.depths, default=0),
            "cut": self.cut,
            "peak_memory_bytes": peak_memory(),
        }

    def _details(self, why: str, paths: Paths) -> dict[str, Any]:
        edges = ((a, b, f"{role}#{event}" if role else "clock") for a, b, role, event in self.cell_edges)
        return {
            "cells": tuple(Cell(c, v[1], v[2], v[3]) for c, v in self.cells.items()),
            "taken": self.taken,
            "cell_edges": tuple(dict.fromkeys(edges)),
            "orbits": None if self.canonical is None else self.canonical.orbits(self.states),
        }

    def _search(self) -> str:
        for state in self._first_within():
            if state not in self.numbers:
                self._visit(state, 0)
                self.labels.add(len(self.states) - 1, self.world.budgeted, -1)
        self.initial = len(self.states)
        while self.searched < len(self.labels.states):
            number, depth = self.labels.states[self.searched], self.labels.depths[self.searched]
            if depth > self.last_level:
                self.graphical = False
                return AT_VIOLATION
            if self.limits.states is not None and len(self.states) >= self.limits.states:
                return f"stopped after {len(self.states):,} states"
            if self.limits.depth is not None and depth >= self.limits.depth:
                return f"stopped at depth {self.limits.depth}"
            self._expand(self.searched, number)
            self.searched += 1
            if self._stops():
                self.last_level = min(self.last_level, depth if self.limits.finish_level else -1.0)
            if why := self._out_of_time():
                return why
            if self.searched % REPORT_EVERY:
                continue
            if why := self._out_of_memory():
                return why
            self._show()
        return self._at_fault()

    def _show(self) -> None:
        waiting, depth = len(self.labels.states) - self.searched, self.depths[-1] if self.depths else 0
        self._report(len(self.states), self.generated, waiting, depth)

    def _visit(self, state: State, depth: int) -> int:
        number = len(self.states)
        self.numbers[state] = number
        self.states.append(state)
        self.depths.append(depth)
        control = tuple([state[c] for c in self.product_cells])
        cell = self.cells.get(control)
        if cell is None:
            cell = self.cells[control] = [len(self.cells), 0, depth, number]
        cell[1] += 1
        self.cell_of.append(cell[0])
        self.claims.state(number, state)
        return number

    def _expand(self, label: int, number: int) -> None:
        state, numbers, labels = self.states[number], self.numbers, self.labels
        left = labels.lefts[label]
        # A state that was expanded before with other faults left shows again the steps that it has shown then.
        before = [labels.lefts[n] for n in labels.of[number] if n < label]
        if before and self.graph is not None and not _more_kinds(left, before):
            self._follow(label, number, self.graph)
            return
        claims, graph, cell_of, faulty, canonical = self.claims, self.graph, self.cell_of, self.faulty, self.canonical
        here, deeper = cell_of[number], labels.depths[label] + 1
        steps = generated = 0
        begin = self.edges
        try:
            for action, after in self.world.successors(state, left):
                then, fresh = left, not before
                if action.cost:
                    rest = faults_left(left, action.cost)
                    if rest is None:
                        continue
                    then, fresh = rest, all(faults_left(earlier, action.cost) is None for earlier in before)
                form = after if canonical is None else canonical.form(after)
                target = numbers.get(form)
                if fresh:
                    steps += not (faulty and action.fault)
                    generated += 1
                    if action.transition is not None:
                        self._take(state, action)
                    if target is None and not self.world.within_bounds(after):
                        self.cut += 1
                        if graph is not None:
                            graph.add_left(number, action)
                        continue
                if target is None:
                    if not fresh:
                        continue  # out of the bounds
                    target = self._visit(form, deeper)
                    labels.add(target, then, label)
                elif then:
                    labels.add(target, then, label)
                if not fresh:
                    continue
                self.edges += 1
                claims.step(label, state, action, after)
                if graph is not None:
                    graph.add(number, target, action)
                there = cell_of[target]
                if there != here:
                    self.cell_edges[here, there, action.role, action.event] = None
        except SpecFault as fault:
            steps += 1
            self.faults.setdefault(fault.kind, (str(fault), number))
        self.generated += generated
        if left:
            self.spans.setdefault(number, []).append((begin, self.edges))
        if not steps and not before:
            claims.stuck(number, state)

    def _follow(self, label: int, number: int, graph: Graph) -> None:
        """Follows the edges that a state is known to have, with what a label leaves of the faults."""
        left = self.labels.lefts[label]
        for begin, end in self.spans[number]:
            for e in range(begin, end):
                cost = graph.kinds[graph.found_rows[e]].cost
                then = faults_left(left, cost) if cost else left
                if then is not None:
                    self.labels.add(graph.found[e], then, label)

    def _take(self, state: State, action: Action) -> None:
        """Counts the transition that a step takes, and those of subsidiary machines along with it."""
        for name in self.world.taken(state, action):
            self.taken[name] = self.taken.get(name, 0) + 1


def _more_kinds(left: Left, before: list[Left]) -> bool:
    """Returns whether a kind of fault is left that none of the others had left."""
    return any(n and not any(earlier[kind] for earlier in before) for kind, n in enumerate(left))
