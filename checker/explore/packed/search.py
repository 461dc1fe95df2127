"""The packed explorer: the same search as the reference's, in C, which asks the reference for the semantics.

Theory of operation. The C part (engine/) holds the states, and decision trees for the steps from a state and for the
claims that hold in it. Where a tree has no answer yet, the search returns here; the reference semantics is run on a
traced state (traced.py), and the result goes into the tree under the atoms that were read. So each rule of the language
is written once, in the reference, and every construct is covered; each is worked out for few states, whose number does
not grow with the graph. States are numbered in the reference's order, so paths and reports are the same.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leasehold.checker.explore.breadth_first import BreadthFirstSearch, Limits, Progress
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.checkpoint import (
    Actions,
    Checkpoint,
    CheckpointError,
    coded,
    coded_action,
    decoded,
    key_of,
    load,
    may_write,
    save,
    some_usual,
    usual_place,
)
from leasehold.checker.explore.packed.fields import Fields, Unpackable
from leasehold.checker.explore.packed.graph import (
    MANY,
    PackedCells,
    PackedEdges,
    PackedLabels,
    PackedPaths,
    PackedStates,
    graph_of,
)
from leasehold.checker.explore.packed.library import MOST_WORDS, graph_functions
from leasehold.checker.explore.packed.model import PackedModel
from leasehold.checker.explore.packed.probes import Fired, Probes
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.resources import (
    interrupts,
    peak_memory,
)
from leasehold.checker.explore.result import AT_VIOLATION, Orbits
from leasehold.checker.host.deadline import OutOfTime
from leasehold.spec.language.expression import Expression

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical

SLICE = 0.1  # seconds between two checks of limits and interrupts
KEEP_EVERY = 1800.0  # seconds between two checkpoints
_ENDS = (k.DONE, k.AT_STATES, k.AT_DEPTH)
# Arrays of a search that are gone through in order, or seldom: where it may use a disk they are in files.
_ON_DISK = ("states", "parents", "label_states", "label_next", "lefts", "begins", "targets", "edge_changes")
MOST_LEFT = 127  # of one kind of fault
MOST_KINDS = 8  # kinds of faults with a limit: 8 bits of a word for each


class PackedSearch(BreadthFirstSearch):
    """One search.

    Raises:
        Unpackable: it is not for this engine.
        leasehold.checker.explore.packed.library.NotBuilt: the C part was not built.
    """

    engine = "packed"
    model: PackedModel
    probes: Probes
    helpers = len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) - 1
    least_level = 2_000  # labels of a level for which it pays to call helpers

    def __init__(
        self,
        world: Reference,
        limits: Limits,
        progress: Callable[[Progress], None] | None,
        canonical: Canonical | None = None,
        fairness: Fairness = Fairness.SPEC,
    ) -> None:
        super().__init__(world, limits, progress, canonical, fairness)
        if canonical is not None:
            from leasehold.checker.explore.packed.alike import packable

            packable(canonical)
        if limits.disk is not None and os.name == "nt":
            raise Unpackable("on Windows it keeps nothing on a disk")
        if len(world.budgeted) > MOST_KINDS or any(n > MOST_LEFT for n in world.budgeted):
            raise Unpackable(f"it takes up to {MOST_KINDS} kinds of faults, of each up to {MOST_LEFT}")
        self.graphical = self.claims.need_graph or self.faulty
        self.fields = Fields(world.layout, () if canonical is None else canonical.alike())
        self.at_fault: set[int] = set()  # parts of which some step shows that the specification is wrong
        self.keeps = limits.keeping is not None  # a checkpoint is wanted
        self.usual = limits.keeping is not None and limits.keeping.place is None  # in a place where nobody else looks
        self.left: Path | None = None  # where one was left
        self.descriptors: list[int] = []  # of files on a disk
        kept = None
        if limits.keeping is not None:
            if not self.usual:
                may_write(self.place, limits.keeping.resume)
            if limits.keeping.resume:
                kept = load(self.place, self.key, k.LASTING)
                self.at_fault = set(kept.about["at_fault"])
                self.fields.known(([decoded(v) for v in values], bits) for values, bits in kept.about["numberings"])
        self.resumed = kept is not None
        self._prepare()
        if kept is not None:
            self._go_on(kept)

    def _prepare(self, calls: list[k.Call] | None = None) -> None:
        """Tells a new kernel everything that it must know before the first state; `calls`: what another one knew."""
        if self.fields.words > MOST_WORDS:
            raise Unpackable(f"a state takes {self.fields.words:,} words of 64 bits, and it takes up to {MOST_WORDS}")
        self.kernel = k.Kernel(self.fields.words)
        self._to_disk()
        self.kernel.lay_out(self.fields.places)
        self.kernel.threads(self.helpers, self.least_level)
        if calls is not None:
            self.kernel.learn(call for call in calls if call[0] not in ("lay_out", "silence"))
            self.model.move_to(self.kernel)
            self.probes.fired.clear()
            return
        at_label = self.limits.stop_at_violation and not self.limits.finish_level
        brief = self.limits.states is None and not at_label
        self.model = PackedModel(
            self.kernel, self.world, self.fields, self.at_fault, self.graphical, brief, self.canonical
        )
        self.probes = Probes(self.model, self.claims)

    # The search

    def _search(self) -> str:
        with interrupts() as interrupted:
            return self._search_until(interrupted)

    def _search_until(self, interrupted: Callable[[], bool]) -> str:
        """Runs until everything is visited; returns why it stopped before, or nothing."""
        while not self.resumed and not self._begin():
            pass
        look_again, keep_again = self.started + SLICE, self.started + KEEP_EVERY
        self._set_limits()
        while True:
            outcome = self.kernel.search(SLICE)
            if outcome in _ENDS:
                return self._leave("interrupted") if interrupted() else self._ended(outcome)
            self._serve(outcome)
            now = time.perf_counter()
            if interrupted():
                return self._leave("interrupted")
            if now < look_again:
                continue
            look_again = now + SLICE
            if why := self._out_of_time() or self._out_of_memory():
                return self._leave(why)
            self._show()
            if self.keeps and now > keep_again:
                if ended := self._pause():
                    return ended
                with suppress(CheckpointError):  # there may be room again when the next one is due
                    self._keep()
                keep_again = time.perf_counter() + KEEP_EVERY

    def _serve(self, outcome: int) -> None:
        """Gives the search what it asks for, or takes what it says."""
        match outcome:
            case k.STEPS | k.CLAIM | k.MOVE:
                if not self.model.inform():
                    self._restart()
                    self._set_limits()
            case k.FIRED:
                self._fired()
            case k.FAULT:
                self._note_fault()
            case k.NO_MEMORY:
                where = "" if self.limits.disk is None else f", or no more room in {self.limits.disk}"
                raise MemoryError(f"there is no more memory{where}; a search stops before that with --memory SIZE")

    def _ended(self, outcome: int) -> str:
        """Returns why the search ended by itself; nothing where everything is visited."""
        if outcome == k.DONE:
            return self._at_fault()
        if outcome == k.AT_STATES or self._stops():
            return self._stopped()
        why = f"stopped at depth {self.limits.depth}"
        return why if self.usual else self._kept(why)

    def _stopped(self) -> str:
        if self._stops():
            self.graphical = False
            return AT_VIOLATION
        return f"stopped after {self.kernel.figure(k.COUNT):,} states"

    # Leaving off

    @cached_property
    def key(self) -> str:
        """Returns what a checkpoint of this search is known by; it takes longer to say than some searches take."""
        return key_of(self.world, symmetry=self.canonical is not None)

    @cached_property
    def place(self) -> Path:
        """Returns where a checkpoint is kept, if one is wanted."""
        keeping = self.limits.keeping
        return keeping.place if keeping is not None and keeping.place is not None else usual_place(self.key)

    def _pause(self) -> str:
        """Goes on until nothing is half done; why the search has ended on the way, if it has."""
        while (outcome := self.kernel.search(0.0)) != k.PAUSE:
            if outcome in _ENDS:
                return self._ended(outcome)
            self._serve(outcome)
        return ""

    def _leave(self, why: str) -> str:
        """Goes on until nothing is half done, where a checkpoint is wanted, and leaves one; returns why it ends."""
        if not self.keeps:
            return why
        try:
            return self._pause() or self._kept(why)
        except OutOfTime:
            return f"{why}; a checkpoint would have taken longer than that"

    def _kept(self, why: str) -> str:
        if not self.keeps:
            return why
        try:
            self._keep()
        except CheckpointError as error:
            return f"{why}; {error}"
        return why

    def _keep(self) -> None:
        """Leaves a checkpoint."""
        about = {
            "key": self.key,
            "what": self.system.name,
            "numberings": [[[coded(v) for v in b.values], b.bits] for b in self.fields.numberings],
            "changes": [
                [coded_action(c.action, self.world.layout), c.writes, names]
                for c, names in zip(self.model.effects, self.model.names, strict=True)
            ],
            "told": [[n, fired.number, fired.label, fired.change] for n, fired in self.probes.fired],
            "faults": self.faults,
            "at_fault": sorted(self.at_fault),
            "numbers": self.kernel.numbers(),
            "first": [self.initial, self.generated, self.cut],
            "seconds": self._seconds,
        }
        save(self.place, about, self.kernel.kept())
        self.left = self.place

    def _go_on(self, kept: Checkpoint) -> None:
        """Stands where the search stood that left a checkpoint."""
        about = kept.about
        actions = Actions(self.system, self.world.layout)
        for action, written, names in about["changes"]:
            self.model.change(actions.decoded(action), tuple([(a, c) for a, c in written]), tuple(names))
        self.kernel.go_on(kept.arrays, about["numbers"])
        states, labels = PackedStates(self.kernel, self.fields), PackedLabels(self.kernel, self.world.budgeted).states
        for number, state, label, change in about["told"]:
            # Not as it lay when the probe fired: the layout may have grown since. Of a state nobody asks for it.
            before = states.words(labels[label]) if label < len(labels) else ()
            self._tell(number, Fired(state, label, change, tuple(before)))
        self.faults = {kind: (reason, state) for kind, (reason, state) in about["faults"].items()}
        self.initial, self.generated, self.cut = about["first"]
        self.seconds_before = about["seconds"]

    def _to_disk(self) -> None:
        """Keeps what grows with the search in files, where these are wanted: the system writes out what is not used."""
        if self.limits.disk is None:
            return
        self.descriptors.clear()
        for name in _ON_DISK:
            with tempfile.TemporaryFile(dir=self.limits.disk) as file:
                self.descriptors.append(os.dup(file.fileno()))  # the kernel closes it
                self.kernel.on_disk(name, self.descriptors[-1])

    def _disk_bytes(self) -> int:
        return sum(os.fstat(descriptor).st_blocks * 512 for descriptor in self.descriptors)

    def _begin(self) -> bool:
        """Adds the first states; False where the layout had to grow on the way."""
        kernel, fields = self.kernel, self.fields
        for state in self._first_within():
            try:
                words = fields.pack(state)
            except OverflowError:
                self._restart(begun=False)
                return False
            if kernel.first(words, self.model.all_left):
                while (asked := kernel.check_first()) != k.DONE:
                    self.model.answer() if asked == k.CLAIM else self._fired()
        self.initial = kernel.figure(k.COUNT)
        self.model.tell()
        if self.canonical is not None:
            still = np.empty(self.initial, dtype=np.uint64)  # no matter how many; values that forms are made of are
            while not kernel.stills(0, still):
                if not self.model.move():
                    self._restart(begun=False)
                    return False
        return True

    def _fired(self) -> None:
        """A program has said yes for the first time."""
        asks = self.kernel.asks
        fired = Fired(asks(k.NUMBER), asks(k.LABEL), asks(k.CHANGE), tuple(self.kernel.asked_words()))
        self._tell(asks(k.PROBE), fired)

    def _tell(self, number: int, fired: Fired) -> None:
        if self.probes.tell(number, fired):
            self._set_limits()

    def _note_fault(self) -> None:
        fault = self.model.leaves[self.kernel.asks(k.PART)]
        assert fault is not None
        self.faults.setdefault(fault.kind, (str(fault), self.kernel.asks(k.NUMBER)))
        self._set_limits()

    def _set_limits(self) -> None:
        """Tells the kernel where to stop: after this label or this level, where a violation ends the search."""
        depth, labels = self.limits.depth, None
        if self._stops() and self.limits.finish_level:
            depth = self.kernel.figure(k.DEPTH) + 1  # no level beyond the limit is ever searched
        elif self._stops():
            labels = self.kernel.figure(k.SEARCHED) + 1
        self.kernel.limits(self.limits.states, depth, labels)

    def _restart(self, begun: bool = True) -> None:
        """Searches again from the first states, with room for what has been met."""
        self.fields.lay_out()
        self.kernel.close()
        self.claims.forget()
        self.faults = {}
        self._prepare(None if self.model.outdated else self.kernel.calls)
        if begun:
            while not self._begin():
                pass

    def _show(self) -> None:
        f = self.kernel.figure
        waiting = f(k.LABELS) - f(k.SEARCHED)
        self._report(f(k.COUNT), f(k.GENERATED) + self.generated, waiting, f(k.DEPTH))

    # What was found

    def _paths(self) -> PackedPaths:
        labels = PackedLabels(self.kernel, self.world.budgeted)
        return PackedPaths(self.world, PackedStates(self.kernel, self.fields), labels, self._mark, self.canonical)

    def _mark(self, e: Expression) -> bytearray:
        """Returns for each state whether an expression over it holds."""
        program = self.model.programs.of_state(e)
        marks = bytearray(self.kernel.figure(k.COUNT))
        while not self.kernel.mark(program, marks):
            self.model.answer()
        return marks

    def _graph(self) -> Graph:
        labels = PackedLabels(self.kernel, self.world.budgeted)
        graph_functions().give_back_large()
        graph = graph_of(self.kernel, self.model.effects, labels, self.faulty)
        self.kernel.rest(labels.several and not self.keeps)  # a graph of labels is another than that of states
        return graph

    def _figures(self) -> dict[str, int]:
        f = self.kernel.figure
        return {
            "distinct": f(k.COUNT),
            "generated": f(k.GENERATED) + self.generated,
            "edges": f(k.EDGES),
            "cut": f(k.CUT) + self.cut,
            "peak_memory_bytes": peak_memory(),
        }

    def _details(self, why: str, paths: PackedPaths) -> dict[str, Any]:
        if why:
            self.left = self.left or (self.place if self.resumed else None)
        elif self.keeps and (self.left is not None or self.resumed or (self.usual and some_usual())):
            self.place.unlink(missing_ok=True)  # it has served its purpose
            self.left = None
        cells = PackedCells(self.kernel, self.fields, [cell for _, cell in self.world.product()])
        return {
            "cells": cells,
            "depth": cells.depth,
            "checkpoint": str(self.left or ""),
            "orbits": self._orbits(paths),
            "cell_edges": PackedEdges(self.kernel, self.model.tags, self.model.inform),
            "taken": self._taken(self.kernel.array("uses")),
        }

    def _orbits(self, paths: PackedPaths) -> Orbits | None:
        """The orbits that the states stand for."""
        alike = self.model.alike
        if self.canonical is None or alike is None:
            return None
        every = self.canonical.permutations
        counts = paths.states.repeated(alike.slices) if self.canonical.sliced else self._stills()
        return self.canonical.found(sum(every // still * states for still, states in counts))

    def _stills(self) -> Iterator[tuple[int, int]]:
        """Pairs: how many permutations change nothing, and in how many of some states."""
        for begin in range(0, size := self.kernel.figure(k.COUNT), MANY):
            out = np.empty(min(MANY, size - begin), dtype=np.uint64)
            while not self.kernel.stills(begin, out):
                self.model.move()  # its values are known since the state was met
            yield from zip(*(a.tolist() for a in np.unique(out, return_counts=True)), strict=True)

    def _taken(self, uses: Iterable[int]) -> dict[str, int]:
        """Returns how often each transition was taken, given that of each effect."""
        counts: dict[str, int] = {}
        for names, n in zip(self.model.names, uses, strict=True):
            for name in names if n else ():
                counts[name] = counts.get(name, 0) + n
        return counts
