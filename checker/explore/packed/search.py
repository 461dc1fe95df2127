"""The packed explorer: the same search as the reference's, in C, with what it has to know asked of the reference.

Theory of operation. The C part (engine/) holds the states, and decision trees for what may happen in a state and for
what holds in it. Where a tree has no answer yet, the search comes back here; the reference semantics is run on a look
at that state (looks.py), and its answer is hung in under what it has read. So each rule of the language is written
once, in the reference, and every construct is covered; and each is worked out for few states, whose number does not
grow with the graph. States are numbered in the reference's order, so paths and reports are the same.

All that is said of the C part holds of the one in NumPy (arrays.py), which takes its place where there is no compiler.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.checker.explore.breadth_first import Limits, Progress, at_fault, verdicts
from leasehold.checker.explore.fairness import Fairness
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.graph import Graph
from leasehold.checker.explore.interrupts import interrupts
from leasehold.checker.explore.memory import (
    held_memory,
    memory_for_a_search,
    memory_words,
    peak_memory,
    too_much_to_decide,
)
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
    usual_place,
)
from leasehold.checker.explore.packed.fields import Fields
from leasehold.checker.explore.packed.graph import (
    PackedCells,
    PackedEdges,
    PackedLabels,
    PackedPaths,
    PackedStates,
    graph_of,
)
from leasehold.checker.explore.packed.interface import AnyKernel
from leasehold.checker.explore.packed.library import improve
from leasehold.checker.explore.packed.looks import Look, applied, writes
from leasehold.checker.explore.packed.programs import NO, YES, Change, Claim, Programs
from leasehold.checker.explore.properties import Claims
from leasehold.checker.explore.result import Exploration, Orbits, PropertyResult
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.checker.explore.symmetry import inverse
from leasehold.checker.explore.transition_system import TransitionSystem
from leasehold.spec.language.expression import TRUE, Expression, Logic, Unary
from leasehold.spec.language.python_source import Frame
from leasehold.spec.language.types import BOOL

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical

SLICE = 0.1  # seconds between two looks at limits and interrupts
KEEP_EVERY = 1800.0  # seconds between two checkpoints
LONG = 2.0  # seconds of a search after which the next one is worth a better C part
IMPROVING = "leasehold-compiles"  # a thread
_ENDS = (k.DONE, k.AT_STATES, k.AT_DEPTH)
# Arrays of a search that are gone through in order, or seldom: where it may use a disk they are in files.
_ON_DISK = ("states", "parents", "label_states", "label_next", "lefts", "begins", "targets", "edge_changes")
MOST_LEFT = 127  # of one kind of fault
MOST_KINDS = 7  # kinds of faults with a limit
MOST_ALIKE = 20  # instances of a group whose slices are put in order
MOST_SLICED = 400  # bits of a slice
MOST_WORDS = 64  # of a state: the node of a tree has 6 bits for the word


class Unpacked(Exception):
    """The engine does not take this search; the words say why."""


@dataclass(frozen=True, slots=True)
class Fired:
    """That a claim's program has said yes: of a state, or of a step from a label by a change."""

    number: int
    label: int
    change: int
    before: tuple[int, ...]  # words: the state, or that before the step


@dataclass(slots=True)
class _Probe:
    """What is told when a claim's program says yes; `violates` says whether that is a violation."""

    tell: Callable[[Fired], None]
    violates: bool = False


class PackedSearch:
    """One search.

    Raises:
        Unpacked: it is not for this engine.
        leasehold.checker.explore.packed.library.NoCompiler: there is no C compiler.
    """

    helpers = len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) - 1
    keeps_graph = True  # where something is decided on it
    least_level = 2_000  # labels of a level for which it pays to call helpers

    def __init__(
        self, world: TransitionSystem, limits: Limits, progress: Callable[[Progress], None] | None,
        canonical: Canonical | None = None, fairness: Fairness = Fairness.SPEC, name: str = "packed",
        kernel: Callable[[int], AnyKernel] = k.Kernel,
    ) -> None:  # fmt: skip
        self.world, self.limits, self.progress, self.canonical = world, limits, progress, canonical
        self.fairness, self.name, self.new_kernel = fairness, name, kernel
        self.system = world.system
        if canonical is not None and canonical.columns is None:
            raise Unpacked(f"it puts slices in order, and {canonical.why_unsliced}")
        if canonical is not None and any(group.count > MOST_ALIKE for group in canonical.groups):
            raise Unpacked(f"it takes up to {MOST_ALIKE} instances that are alike")
        if len(world.budgeted) > MOST_KINDS or any(n > MOST_LEFT for n in world.budgeted):
            raise Unpacked(f"it takes up to {MOST_KINDS} kinds of faults, of each up to {MOST_LEFT}")
        self.claims = Claims(self.system, world)
        self.faulty = isinstance(world, FaultySystem)
        self.graphical = self.keeps_graph and (bool(self.claims.graphical) or self.faulty)
        self.fields = Fields(world.layout, () if canonical is None else canonical.columns or ())
        self.frame = Frame(world.layout, self.system.values(), before="o")
        self.faults: dict[str, tuple[str, int]] = {}  # by kind: what is said, and the state
        self.at_fault: set[int] = set()  # parts of which some step shows that the specification is wrong
        self.place: Path | None = None  # where a checkpoint is wanted
        self.usual = limits.keeping is not None and limits.keeping.place is None  # that is where nobody else looks
        self.left: Path | None = None  # where one was left
        self.seconds_before = 0.0
        self.initial = self.generated = self.cut = 0  # first states, and those of them that are out of the bounds
        self.memory: int | None = None  # that may be held, in bytes
        kept = None
        if limits.keeping is not None:
            self.key = key_of(world, symmetry=canonical is not None)
            self.place = limits.keeping.place or usual_place(self.key)
            if not self.usual:
                may_write(self.place, limits.keeping.resume)
            if limits.keeping.resume:
                kept = load(self.place, self.key, k.LASTING)
                self.at_fault = set(kept.about["at_fault"])
                self.fields.known(([decoded(v) for v in values], bits) for values, bits in kept.about["books"])
        self.resumed = kept is not None
        self._prepare()
        if kept is not None:
            self._go_on(kept)

    @property
    def _c(self) -> k.Kernel:
        """The kernel, where that in C alone will do."""
        assert isinstance(self.kernel, k.Kernel)
        return self.kernel

    def _prepare(self) -> None:
        """Everything that the C part must know before the first state."""
        if self.fields.words > MOST_WORDS:
            raise Unpacked(f"a state takes {self.fields.words:,} words of 64 bits, and it takes up to {MOST_WORDS}")
        self.kernel = self.new_kernel(self.fields.words)
        self._to_disk()
        self.kernel.lay_out(self.fields.places)
        self.told: list[tuple[int, Fired]] = []  # which probes have fired
        self.programs = Programs(self.kernel, self.frame, self.fields.cell_of)
        self.probes: list[_Probe] = []
        self.changes: list[Change] = []
        self.names: list[tuple[str, ...]] = []  # of each change, the transitions that it takes
        self.tags: dict[tuple[str | None, str], int] = {}
        self._known: dict[Hashable, int] = {}
        self._leaves: list[SpecFault | None] = []
        self._roots: dict[tuple[int, tuple[bool, ...]], int] = {}
        self._ranked = 0  # values of slices whose ranks are told
        self._watch_all()
        self._bound()
        self._plant()
        self._rank()

    def _rank(self) -> None:
        """Tells in what order the values of slices are: that of `ordered`, whenever each was met."""
        books = [[self.fields.books[atoms[0]] for atoms in group] for group in self.fields.slices]
        size = sum(len(book.values) for group in books for book in group)
        if size == self._ranked:
            return
        from leasehold.checker.explore.canonical import ordered

        self._ranked = size
        for number, (parts, group) in enumerate(zip(self.fields.slices, books, strict=True)):
            if sum(book.needs for book in group) > MOST_SLICED:
                raise Unpacked(f"it takes slices of up to {MOST_SLICED} bits")
            ranks = []
            for book in group:
                order = sorted(range(len(book.values)), key=lambda n: ordered(book.values[n]))
                ranks.append(inverse(tuple(order)))
            self._c.alike(number == 0, parts, ranks)

    # What is asked

    def _probe(self, tell: Callable[[Fired], None], violates: bool = False) -> int:
        self.probes.append(_Probe(tell, violates))
        return self.kernel.probe()

    def _watch_all(self) -> None:
        claims = self.claims
        for claim in claims.invariants:
            p = claim.property
            self._on_states(_broken(p.when, p.claim), _finder(claim), violates=True)
            if p.when is not None:
                self._on_states(p.when, _sees(claim))
        for claim in claims.witnesses:
            self._on_states(claim.property.claim, _finder(claim))
        for lead in claims.graphical:
            self._on_states(lead.property.when or TRUE, _marks(claims.antecedents, lead.property.name))
        for step in claims.steps:
            p = step.property
            self._on_steps(_broken(p.when, p.claim), self._finds_step(step), violates=True)
            if p.when is not None:
                self._on_steps(p.when, _sees(step))
        if claims.ends is not None:
            for end in claims.ends:
                program = self.programs.of_state(end.end.holds)
                self.kernel.watch(k.OF_STUCK, self._probe(_marks_end(end)), program)
            none = _not(_any([end.end.holds for end in claims.ends]))
            program = self.programs.of_state(none)
            self.kernel.watch(k.OF_STUCK, self._probe(self._deadlocked, violates=True), program)

    def _on_states(self, e: Expression, tell: Callable[[Fired], None], violates: bool = False) -> None:
        program = self.programs.of_state(e)
        if program != NO:
            self.kernel.watch(k.OF_STATE, self._probe(tell, violates), program)

    def _on_steps(self, e: Expression, tell: Callable[[Fired], None], violates: bool = False) -> None:
        self.programs.on_steps.append((self._probe(tell, violates), Claim(e, self.frame)))

    def _finds_step(self, step: Any) -> Callable[[Fired], None]:
        def tell(fired: Fired) -> None:
            change = self.changes[fired.change]
            step.found = fired.label, change.action, tuple(applied(self._look(fired.before), change.writes))

        return tell

    def _deadlocked(self, fired: Fired) -> None:
        self.claims.deadlock = fired.number

    def _bound(self) -> None:
        program = YES
        for words in reversed(self.world.bounds):
            program = self.programs.of_words(words, program)
        self.kernel.bounds(program)

    def _plant(self) -> None:
        """A tree for each part and for what it must know of the faults that are left."""
        kinds = len(self.world.budgeted)
        roots = []
        for number in range(len(self.world.parts)):
            for left in range(1 << kinds):
                of = self._left(number, left)
                if (number, of) not in self._roots:
                    self._roots[number, of] = self.kernel.tree()
                roots.append(self._roots[number, of])
        brief = self.limits.states is None and not self.limits.stop_at_violation
        self.kernel.parts(len(self.world.parts), kinds, self.graphical, brief, roots)
        if isinstance(self.kernel, k.Kernel):
            self.kernel.threads(self.helpers, self.least_level)

    def _left(self, number: int, kinds: int) -> tuple[bool, ...]:
        """Of which of a part's kinds of faults any are taken to be left, given that as bits of all kinds with a limit.

        Of all of them: a step that costs more than is left is not taken. Only where the specification is at fault in
        some step does it matter whether that one can come.
        """
        limited = self.world.limited if isinstance(self.world, FaultySystem) else []
        exact = number in self.at_fault
        part = self.world.parts[number]
        return tuple([f in limited and (not exact or bool(kinds >> limited.index(f) & 1)) for f in part.faults])

    def _look(self, words: Sequence[int] = ()) -> Look:
        """A look at a state; left out, at the one that the search asks about."""
        fields, words = self.fields, words or self.kernel.asked_words()
        return Look(fields, lambda atom: fields.code(atom, words))

    # The search

    def run(self) -> Exploration:
        """Searches, and answers what was found."""
        started = self.started = time.perf_counter()
        self.memory = self.limits.memory or memory_for_a_search()
        why = ""
        try:
            with interrupts() as interrupted:
                why = self._search(started, interrupted)
        except KeyboardInterrupt:
            why = "interrupted"
        return self._result(why, started)

    def _search(self, started: float, interrupted: Callable[[], bool]) -> str:
        """Runs until everything is visited; answers why it stopped before, or nothing."""
        while not self.resumed and not self._begin():
            pass
        limits, look_again = self.limits, started + SLICE
        keep_again, improve_at = started + KEEP_EVERY, started + LONG
        self.kernel.limits(limits.states, limits.depth)
        while True:
            what = self.kernel.search(SLICE)
            if what in _ENDS:
                return self._leave("interrupted") if interrupted() else self._ended(what)
            self._serve(what)
            now = time.perf_counter()
            if interrupted():
                return self._leave("interrupted")
            if now < look_again:
                continue
            look_again = now + SLICE
            if limits.seconds is not None and now - started > limits.seconds:
                return self._leave(f"stopped after {limits.seconds:,.0f} s")
            if self.memory is not None and held_memory() > self.memory:
                return self._leave(memory_words(self.memory))
            if self.progress is not None:
                self._show(started)
            if now > improve_at and isinstance(self.kernel, k.Kernel):
                threading.Thread(target=improve, args=(self.kernel.words,), name=IMPROVING).start()
                improve_at = math.inf
            if self.place is not None and now > keep_again:
                if ended := self._pause():
                    return ended
                with suppress(CheckpointError):  # there may be room again when the next one is due
                    self._keep()
                keep_again = time.perf_counter() + KEEP_EVERY

    def _serve(self, what: int) -> None:
        """Gives the search what it asks for, or takes what it says."""
        match what:
            case k.STEPS:
                if not self._work_out():
                    self._restart()
                    self.kernel.limits(self.limits.states, self.limits.depth)
            case k.CLAIM:
                self._answer()
            case k.FIRED:
                self._fired()
            case k.FAULT:
                self._note_fault()
            case k.NO_MEMORY:
                where = "" if self.limits.disk is None else f", or no more room in {self.limits.disk}"
                raise MemoryError(f"there is no more memory{where}; a search stops before that with --memory SIZE")

    def _ended(self, what: int) -> str:
        """Why the search ended by itself; nothing where everything is visited."""
        if what == k.DONE:
            return at_fault(self.faults)
        if what == k.AT_STATES:
            return self._stopped()
        why = f"stopped at depth {self.limits.depth}"
        return why if self.usual else self._kept(why)

    def _stopped(self) -> str:
        if self.limits.stop_at_violation and (self.faults or self.claims.contradicted):
            self.graphical = False
            return "stopped at a violation"
        return f"stopped after {self.kernel.figure(k.COUNT):,} states"

    # Leaving off

    def _pause(self) -> str:
        """Goes on until nothing is half done; why the search has ended on the way, if it has."""
        while (what := self.kernel.search(0.0)) != k.PAUSE:
            if what in _ENDS:
                return self._ended(what)
            self._serve(what)
        return ""

    def _leave(self, why: str) -> str:
        """Goes on until nothing is half done, where a checkpoint is wanted, and leaves one; answers why it ends."""
        if self.place is None:
            return why
        return self._pause() or self._kept(why)

    def _kept(self, why: str) -> str:
        """Leaves a checkpoint, where one is wanted; answers why the search ends, and why there is none."""
        if self.place is None:
            return why
        try:
            self._keep()
        except CheckpointError as error:
            return f"{why}; {error}"
        return why

    def _keep(self) -> None:
        """Leaves a checkpoint."""
        assert self.place is not None
        about = {
            "key": self.key, "what": self.system.name,
            "books": [[[coded(v) for v in b.values], b.bits] for b in self.fields.books],
            "changes": [
                [coded_action(c.action, self.world.layout), c.writes, names]
                for c, names in zip(self.changes, self.names, strict=True)
            ],
            "told": [[n, fired.number, fired.label, fired.change, fired.before] for n, fired in self.told],
            "faults": self.faults, "at_fault": sorted(self.at_fault), "numbers": self._c.numbers(),
            "first": [self.initial, self.generated, self.cut],
            "seconds": self.seconds_before + time.perf_counter() - self.started,
        }  # fmt: skip
        save(self.place, about, self._c.kept())
        self.left = self.place

    def _go_on(self, kept: Checkpoint) -> None:
        """Stands where the search stood that left a checkpoint."""
        about = kept.about
        actions = Actions(self.system, self.world.layout)
        for action, written, names in about["changes"]:
            self._change(actions.decoded(action), tuple([(a, c) for a, c in written]), tuple(names))
        self._c.go_on(kept.arrays, about["numbers"])
        for number, state, label, change, before in about["told"]:
            self._tell(number, Fired(state, label, change, tuple(before)))
        self.faults = {kind: (words, state) for kind, (words, state) in about["faults"].items()}
        self.initial, self.generated, self.cut = about["first"]
        self.seconds_before = about["seconds"]

    def _to_disk(self) -> None:
        """Keeps what grows with the search in files, where these are wanted: the system writes out what is not used."""
        if self.limits.disk is None:
            return
        for name in _ON_DISK:
            with tempfile.TemporaryFile(dir=self.limits.disk) as file:
                self._c.on_disk(name, os.dup(file.fileno()))

    def _begin(self) -> bool:
        """Adds the first states; False where the layout had to grow on the way."""
        kernel, fields = self.kernel, self.fields
        for state in self._first_within():
            try:
                words = fields.pack(state)
            except OverflowError:
                self._restart(begun=False)
                return False
            if kernel.first(words, self._all_left):
                while (asked := kernel.check_first()) != k.DONE:
                    self._answer() if asked == k.CLAIM else self._fired()
        self.initial = kernel.figure(k.COUNT)
        self._rank()
        return True

    def _first_within(self) -> Iterator[Any]:
        """The first states that are within the bounds; the others are counted."""
        self.generated = self.cut = 0
        for first in self.world.initial_states():
            self.generated += 1
            state = first if self.canonical is None else self.canonical.form(first)
            if self.world.within_bounds(state):
                yield state
            else:
                self.cut += 1

    @property
    def _all_left(self) -> int:
        """That no fault has happened, as a number: 8 bits for each kind with a limit."""
        return sum(n << 8 * i for i, n in enumerate(self.world.budgeted))

    def _work_out(self) -> bool:
        """The steps that the search does not know; False where it has to begin again.

        That is so where states need more words for what they write, and where a part is at fault for the first time.
        """
        kernel, fields = self.kernel, self.fields
        number = kernel.asks(k.PART)
        part, look = self.world.parts[number], self._look()
        of = self._left(number, kernel.asks(k.CLASS))
        fault = None
        found = []
        try:
            for action, after in part.work_out(look, of):  # type: ignore[arg-type]
                found.append((action, writes(look, after), self.world.taken(look, action)))  # type: ignore[arg-type]
        except SpecFault as error:
            if any(of) and number not in self.at_fault:
                self.at_fault.add(number)
                return False
            fault = error
        if any(fields.books[atom].bits < code.bit_length() for _, written, _ in found for atom, code in written):
            before = fields.words
            fields.lay_out()
            if fields.words != before:
                return False
            kernel.lay_out(fields.places)
        self._rank()
        changes = [self._change(*step) for step in found]
        leaf = kernel.leaf(changes, fault is not None)
        self._leaves.append(fault)
        kernel.hang(self._roots[number, of], look.codes, leaf)
        return True

    def _change(self, action: Action, written: tuple[tuple[int, int], ...], names: tuple[str, ...]) -> int:
        key = (
            type(action), *action[:6], id(action.transition), id(action.lane), *action[8:15],
            id(getattr(action, "consumed", None)), written, names,
        )  # fmt: skip
        known = self._known.get(key)
        if known is not None:
            return known
        cost = sum(1 << 8 * kind for kind in action.cost)
        tag = self.tags.setdefault((action.role, action.event), len(self.tags))
        change = Change(action, written)
        claims = self.programs.of_change(change)
        number = self._known[key] = self.kernel.change(written, cost, action.fault and self.faulty, tag, claims)
        self.changes.append(change)
        self.names.append(names)
        return number

    def _answer(self) -> None:
        """Answers a test of a claim."""
        test, look = self.programs.tests[self.kernel.asks(k.TEST)], self._look()
        answer = test.answer(look)
        self.kernel.hang(test.tree, look.codes, int(answer))

    def _fired(self) -> None:
        """A program has said yes for the first time."""
        asks = self.kernel.asks
        fired = Fired(asks(k.NUMBER), asks(k.LABEL), asks(k.CHANGE), tuple(self.kernel.asked_words()))
        self._tell(asks(k.PROBE), fired)

    def _tell(self, number: int, fired: Fired) -> None:
        probe = self.probes[number]
        self.kernel.silence(number)
        self.told.append((number, fired))
        probe.tell(fired)
        if probe.violates:
            self._violated()

    def _note_fault(self) -> None:
        fault = self._leaves[self.kernel.asks(k.PART)]
        assert fault is not None
        if fault.kind not in self.faults:
            self.faults[fault.kind] = (str(fault), self.kernel.asks(k.NUMBER))
        self._violated()

    def _violated(self) -> None:
        if self.limits.stop_at_violation:
            kernel = self.kernel
            kernel.limits(self.limits.states, self.limits.depth, kernel.figure(k.SEARCHED) + 1)

    def _restart(self, begun: bool = True) -> None:
        """Searches again from the first states, with room for what has been met."""
        self.fields.lay_out()
        self.kernel.close()
        self.claims = Claims(self.system, self.world)
        self.faults = {}
        self._prepare()
        if begun:
            while not self._begin():
                pass

    def _show(self, started: float) -> None:
        assert self.progress is not None
        f = self.kernel.figure
        distinct = f(k.COUNT)
        self.progress(
            Progress(
                distinct, f(k.GENERATED) + self.generated, f(k.LABELS) - f(k.SEARCHED), f(k.DEPTH),
                self.seconds_before + time.perf_counter() - started, peak_memory(),
            )
        )  # fmt: skip

    # What was found

    def _paths(self) -> PackedPaths:
        labels = PackedLabels(self.kernel, self.world.budgeted)
        return PackedPaths(self.world, PackedStates(self.kernel, self.fields), labels, self._mark, self.canonical)

    def _mark(self, e: Expression) -> bytearray:
        """By state, whether an expression over it holds."""
        program = self.programs.of_state(e)
        found = bytearray(self.kernel.figure(k.COUNT))
        while not self.kernel.mark(program, found):
            self._answer()
        return found

    def _result(self, why: str, started: float) -> Exploration:
        f = self.kernel.figure
        paths = self._paths()
        graph, done = None, not why  # whether every state is visited
        faults = {kind: (words, paths.to(number)) for kind, (words, number) in self.faults.items()}
        try:
            if self.graphical and (large := too_much_to_decide(f(k.EDGES), self.memory)):
                why = why or self._kept(large)
            elif self.graphical:
                graph = graph_of(self.kernel, self.changes, self.faulty)
            found = verdicts(self.claims, paths, graph, faults, done, why, self.fairness)
        except KeyboardInterrupt:
            why, graph = why or self._kept("interrupted"), None
            found = verdicts(self.claims, paths, None, faults, done, why, self.fairness)
        with interrupts():  # the rest takes little time, and is not broken off
            return self._exploration(why, started, paths, graph, found)

    def _exploration(
        self, why: str, started: float, paths: PackedPaths, graph: Graph | None, found: list[PropertyResult]
    ) -> Exploration:
        f = self.kernel.figure
        if why:
            self.left = self.left or (self.place if self.resumed else None)
        elif self.place is not None and (self.left is not None or self.resumed or self.usual):
            self.place.unlink(missing_ok=True)  # it has served its purpose
            self.left = None
        machines = self.world.product()
        uses = self.kernel.array(k.USES, k.U64, len(self.changes))
        cells = PackedCells(self.kernel, self.fields, [cell for _, cell in machines])
        return Exploration(
            system=self.system, engine=self.name, complete=not why, why_incomplete=why, distinct=f(k.COUNT),
            generated=f(k.GENERATED) + self.generated, edges=f(k.EDGES), depth=cells.depth, initial=self.initial,
            cut=f(k.CUT) + self.cut, seconds=self.seconds_before + time.perf_counter() - started,
            peak_memory_bytes=peak_memory(), checkpoint=str(self.left or ""),
            product_machines=tuple(name for name, _ in machines), product_states=self.system.product_size(),
            cells=cells, cell_edges=PackedEdges(self.kernel, self.tags, self._work_out), properties=tuple(found),
            taken=self._taken(uses), vacuous=self.claims.vacuous() if not why else (), paths=paths, graph=graph,
            orbits=self._orbits(paths), fairness=self.fairness,
        )  # fmt: skip

    def _orbits(self, paths: PackedPaths) -> Orbits | None:
        """What the states stand for: slices that are equal lie side by side."""
        if self.canonical is None:
            return None
        every = self.canonical.permutations
        return self.canonical.found(
            sum(every // still * states for still, states in paths.states.repeated(self.fields.slices))
        )

    def _taken(self, uses: Iterable[int]) -> dict[str, int]:
        """How often each transition was taken, given that of each change."""
        found: dict[str, int] = {}
        for names, n in zip(self.names, uses, strict=True):
            for name in names if n else ():
                found[name] = found.get(name, 0) + n
        return found


def _broken(when: Expression | None, claim: Expression) -> Expression:
    """That a claim does not hold where it should."""
    wrong = _not(claim)
    return wrong if when is None else Logic(op="and", operands=(when, wrong), type=BOOL)


def _not(e: Expression) -> Expression:
    return Unary(op="not", operand=e, type=BOOL)


def _any(operands: list[Expression]) -> Expression:
    return Logic(op="or", operands=tuple(operands), type=BOOL)


def _finder(claim: Any) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        claim.found = fired.number

    return tell


def _sees(claim: Any) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        claim.antecedent_seen = True

    return tell


def _marks(seen: dict[str, bool], name: str) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        seen[name] = True

    return tell


def _marks_end(end: Any) -> Callable[[Fired], None]:
    def tell(fired: Fired) -> None:
        end.seen = True

    return tell
