"""A search by several processes, on one machine or many: each keeps the states whose hashes fall to it.

Theory of operation. Levels are searched one after the other, so paths stay shortest. In each level, every process
expands its states and sorts the successors by the process that keeps them; then every process fetches its own from the
others. Only the leading process knows the specification: where a decision tree has no answer yet, it runs the reference
once and tells all (partition.py). The leading process first searches a few states alone, as most questions come up in
them. States, steps and depth are the same as with one process; of several shortest paths, another one may be shown.

Dask runs the processes and moves the data (https://distributed.dask.org).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.checker.explore.breadth_first import Limits, Progress
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.graph import LazySequence
from leasehold.checker.explore.packed.partition import WorkerReply
from leasehold.checker.explore.packed.probes import Fired
from leasehold.checker.explore.packed.search import SLICE, PackedSearch
from leasehold.checker.explore.packed.workers import Recorder, Workers, WorkersError
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.resources import interrupts, memory_words, peak_memory
from leasehold.checker.explore.result import Cell, Exploration, PropertyResult
from leasehold.faults.model import Budget
from leasehold.spec.language.model import System

if TYPE_CHECKING:
    from distributed import Client

WARM = 50_000  # states that are searched before, by the process that leads
TURN = 1.0  # seconds between two checks of limits
_HALF = 32  # bits of a label; above it is the process that keeps it
_MOST = 1 << 62  # labels of all processes


class _Regrown(Exception):
    """States are packed otherwise, and so belong to others: all begins again."""


class DistributedSearch(PackedSearch):
    """One search by several processes.

    Raises:
        WorkersError: a process was lost.
        leasehold.checker.explore.packed.model.Unpackable: it is not for several processes.
        leasehold.checker.explore.packed.library.NotBuilt: the C part was not built.
    """

    keeps_graph = False
    helpers = 0

    def __init__(
        self,
        world: Reference,
        limits: Limits,
        progress: Callable[[Progress], None] | None,
        client: Client,
        warm: int = WARM,
    ) -> None:
        super().__init__(world, replace(limits, keeping=None, disk=None), progress, kernel=Recorder)
        self.client, self.warm = client, warm
        self.look_again = 0.0
        self.workers: Workers | None = None

    @property
    def recorder(self) -> Recorder:
        assert isinstance(self.kernel, Recorder)
        return self.kernel

    def run(self) -> Exploration:
        self.started = time.perf_counter()
        while True:
            try:
                with interrupts() as interrupted:
                    return self._run(interrupted)
            except _Regrown:
                continue
            finally:
                if self.workers is not None:
                    workers, self.workers = self.workers, None
                    workers.close()

    def _run(self, interrupted: Callable[[], bool]) -> Exploration:
        self._warm_up(interrupted)
        self.claims.forget()
        self.faults = {}
        self.probes.fired.clear()
        self.workers = Workers(self.client, self.recorder, self.limits.memory)
        self._first_states(self.workers)
        self.depth = -1
        states, why = 0, ""
        while not why:
            labels, now = (sum(column) for column in zip(*self.workers.each("begin_level"), strict=True))
            self.depth += now > states
            states = now
            if not labels:
                break
            self.level += 1
            if why := self._limited(states):
                break
            why = self._level(self.workers, interrupted)
        return self._found(self.workers, why or self._at_fault())

    def _limited(self, states: int) -> str:
        if self.limits.depth is not None and self.level > self.limits.depth:
            return f"stopped at depth {self.limits.depth}"
        if self.limits.states is not None and states >= self.limits.states:
            return f"stopped after {states:,} states"
        return ""

    def _warm_up(self, interrupted: Callable[[], bool]) -> None:
        """Searches a few states alone."""
        self.level = 0
        while not self._begin():
            pass
        self.kernel.limits(self.warm, None)
        while not interrupted() and (what := self.kernel.search(SLICE)) not in (k.DONE, k.AT_STATES):
            self._serve(what)

    def _restart(self, begun: bool = True) -> None:
        super()._restart(begun=begun and self.workers is None)
        if self.workers is not None:
            raise _Regrown
        self.kernel.limits(self.warm, None)

    # Questions

    def _answered(self, workers: Workers, process: int, said: WorkerReply) -> None:
        """Answers a process, or takes what it says."""
        if said.what == k.NO_MEMORY:
            raise WorkersError(f"the worker {workers.addresses[process]} has no more memory")
        self.recorder.question = said
        self.asking = process
        try:
            if said.what == k.FIRED:
                here = process << _HALF
                label = said.asks[k.LABEL] if said.asks[k.OF] == k.OF_STEP else said.label
                fired = Fired(here | said.label, here | label, said.asks[k.CHANGE], said.words)
                self._tell(said.asks[k.PROBE], fired)
                self.recorder.told.append(("silence", (said.asks[k.PROBE],)))
            elif said.what == k.FAULT:
                fault = self.model.leaves[said.asks[k.PART]]
                assert fault is not None
                self.faults.setdefault(fault.kind, (str(fault), process << _HALF | said.label))
            else:
                self._serve(said.what)
        finally:
            self.recorder.question = None

    def _answer_all(self, workers: Workers, said: dict[int, WorkerReply]) -> None:
        """Answers what processes ask; of what several ask of one tree, the first: the others will ask again."""
        known: set[tuple[int, int]] = set()
        for process, one in said.items():
            if self.recorder.moved:
                return  # all begins again
            if one.what == k.STEPS:
                part = one.asks[k.PART]
                about = k.STEPS, self.model.roots[part, self.model.left(part, one.asks[k.CLASS])]
            elif one.what == k.CLAIM:
                about = k.CLAIM, self.model.programs.predicates[one.asks[k.TEST]].tree
            else:
                about = one.what, one.asks[k.PROBE]
            if about not in known or one.what == k.FAULT:
                known.add(about)
                self._answered(workers, process, one)

    def _until_done(
        self, workers: Workers, do: Callable[[Sequence[int]], list[WorkerReply]], pause: Callable[[], str]
    ) -> str:
        """Has all processes do something, and answers what they ask; why they were broken off, if they were."""
        open_ = list(range(len(workers)))
        while open_:
            said = dict(zip(open_, do(open_), strict=True))
            self._answer_all(workers, {p: s for p, s in said.items() if s.what not in (k.DONE, k.PAUSE)})
            open_ = [p for p, s in said.items() if s.what != k.DONE]
            if self.recorder.moved:
                self.fields.widen()
                self._restart()
            if why := pause():
                return why
        return ""

    def _level(self, workers: Workers, interrupted: Callable[[], bool]) -> str:
        """Searches a level; returns why the search ends, or nothing."""

        def pause() -> str:
            if interrupted():
                return "interrupted"
            if why := self._out_of_time():
                return why
            if (now := time.perf_counter()) > self.look_again:
                self.look_again = now + TURN
                if limit := max(workers.each("full")):
                    return f"{memory_words(limit)} for a process"
            return ""

        def outward(who: Sequence[int]) -> list[WorkerReply]:
            return workers.each("outward", TURN, among=who)

        if why := self._until_done(workers, outward, pause):
            return why
        boxes = workers.boxes()
        if why := self._until_done(workers, lambda who: workers.take_in(boxes, who), pause):
            return why
        distinct, generated, _, _, labels, memory = self._sums(workers)
        self._report(distinct, generated + self.generated, labels, self.level, memory)
        return ""

    def _first_states(self, workers: Workers) -> None:
        """Gives the first states to whom they belong."""
        by = k.Kernel(self.fields.words)
        by.processes(0, len(workers))
        self.recorder.moved = False
        for state in self._first_within():
            words = self.fields.pack(state)
            process = by.owner(words)
            said = workers.one(process, "first", words, self.model.all_left)
            while said.what != k.DONE:
                self._answered(workers, process, said)
                said = workers.one(process, "check_first")
        by.close()
        self.initial = self._sums(workers)[0]

    # What was found

    def _sums(self, workers: Workers) -> list[int]:
        """The figures of all processes together, as `Partition.figures` has them."""
        return [sum(column) for column in zip(*workers.each("figures"), strict=True)]

    def _found(self, workers: Workers, why: str) -> Exploration:
        distinct, generated, edges, cut, _, memory = self._sums(workers)
        states = LazySequence(_MOST, lambda label: self.fields.unpack(workers.came_from(label)[0]))
        paths = Paths(self.world, states, _ProcessLabels(workers))  # type: ignore[arg-type]
        found = self._verdicts(paths, None, not why, why)
        uses = [sum(column) for column in zip(*workers.each("uses"), strict=True)]
        return self._exploration(  # without paths: the states go with the processes
            why,
            found if why else [*_alone(found)],
            distinct=distinct,
            generated=generated + self.generated,
            edges=edges,
            depth=max(self.depth, 0),
            cut=cut + self.cut,
            peak_memory_bytes=memory + peak_memory(),
            cells=tuple(self._cells(workers, [cell for _, cell in self.world.product()])),
            taken=self._taken(uses),
            engine_reason=f"states in machine words, kept by {len(workers)} processes",
        )

    def _cells(self, workers: Workers, product: list[int]) -> Iterator[Cell]:
        """The cells of the product, nearest first."""
        atoms = self.fields.atoms_of(product)
        found: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        for process, every in enumerate(workers.each("survey", atoms)):
            for one in every:
                control = tuple([self.fields.value(cell, one.words) for cell in product])
                depth, label, states = found.get(control, (one.depth, process << _HALF | one.label, 0))
                if one.depth < depth:
                    depth, label = one.depth, process << _HALF | one.label
                found[control] = depth, label, states + one.states
        for control, (depth, label, states) in sorted(found.items(), key=lambda item: item[1]):
            yield Cell(control, states, depth, label)


def _alone(found: Sequence[PropertyResult]) -> Iterator[PropertyResult]:
    """Properties that ask for all steps at once are not decided by several processes."""
    for one in found:
        if one.verdict == "bounded" and not one.reason:
            yield replace(one, reason="it asks for all steps at once: one process decides it")
        else:
            yield one


class _ProcessLabels:
    """Labels of all processes, numbered by process and label; states have the numbers of their first labels."""

    def __init__(self, workers: Workers) -> None:
        self.of, self._workers = LazySequence(_MOST, lambda label: [label]), workers

    def chain(self, label: int) -> list[int]:
        """The labels on the way to one, from the first on."""
        found = [label]
        while True:
            _, before, owner = self._workers.came_from(found[-1])
            if before == k.NONE:
                return found[::-1]
            found.append(owner << _HALF | before)


def explore_distributed(
    system: System,
    client: Client,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
    *,
    budget: Budget | None = None,
    warm: int = WARM,
) -> Exploration:
    """Visits every reachable state of a system by all processes of a cluster; with a budget, under these faults.

    What needs the whole graph (leads_to, always_possible, convergence) is left open. A limit of states is seen to
    between two levels.

    `warm` states are searched before, by this process alone.

    Raises:
        WorkersError: a process was lost.
        leasehold.checker.explore.packed.model.Unpackable: the search is not for several processes.
        leasehold.checker.explore.packed.library.NotBuilt: the C part was not built.
    """
    world = reference_of(system) if budget is None else reference_of(system, budget)
    return DistributedSearch(world, limits or Limits(), progress, client, warm).run()
