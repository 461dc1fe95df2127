"""The packed explorer: the same search as the reference's, in C, with what it has to know asked of the reference.

Theory of operation. The C part (engine.c) holds the states, and decision trees for what may happen in a state and for
what holds in it. Where a tree has no answer yet, the search comes back here; the reference semantics is run on a look
at that state (looks.py), and its answer is hung in under what it has read. So each rule of the language is written
once, in the reference, and every construct is covered; and each is worked out for few states, whose number does not
grow with the graph. States are numbered in the reference's order, so paths and reports are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from leasehold.checker.explore.breadth_first import Limits, Progress, at_fault, verdicts
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.footprint import Part
from leasehold.checker.explore.memory import held_memory, memory_for_a_search, memory_words, peak_memory
from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.fields import Fields
from leasehold.checker.explore.packed.graph import (
    PackedCells,
    PackedEdges,
    PackedLabels,
    PackedPaths,
    PackedStates,
    graph_of,
)
from leasehold.checker.explore.packed.looks import Look, writes
from leasehold.checker.explore.packed.programs import NO, YES, Change, Claim, Programs
from leasehold.checker.explore.properties import Claims
from leasehold.checker.explore.result import Exploration, Path
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.checker.explore.transition_system import TransitionSystem
from leasehold.spec.language.expression import TRUE, Expression, Logic, Unary
from leasehold.spec.language.python_source import Frame
from leasehold.spec.language.types import BOOL

SLICE = 0.1  # seconds between two looks at limits and interrupts
MOST_LEFT = 127  # of one kind of fault
MOST_KINDS = 7  # kinds of faults with a limit


class Unpacked(Exception):
    """The engine does not take this search; the words say why."""


@dataclass(slots=True)
class _Probe:
    """What is told when a claim's program says yes; `violates` says whether that is a violation."""

    tell: Callable[[int], None]
    violates: bool = False


class PackedSearch:
    """One search.

    Raises:
        Unpacked: it is not for this engine.
        leasehold.checker.explore.packed.kernel.NoCompiler: there is no C compiler.
    """

    def __init__(self, world: TransitionSystem, limits: Limits, progress: Callable[[Progress], None] | None) -> None:
        self.world, self.limits, self.progress = world, limits, progress
        self.system = world.system
        if len(world.budgeted) > MOST_KINDS or any(n > MOST_LEFT for n in world.budgeted):
            raise Unpacked(f"it takes up to {MOST_KINDS} kinds of faults, of each up to {MOST_LEFT}")
        self.claims = Claims(self.system, world)
        self.faulty = isinstance(world, FaultySystem)
        self.graphical = bool(self.claims.graphical) or self.faulty
        self.fields = Fields(world.layout)
        self.frame = Frame(world.layout, self.system.values(), before="o")
        self.kernel = k.Kernel(self.fields.words)
        self.faults: dict[str, tuple[str, Path]] = {}
        self._prepare()

    def _prepare(self) -> None:
        """Everything that the C part must know before the first state."""
        self.kernel.lay_out(self.fields.places)
        self.programs = Programs(self.kernel, self.frame, self.fields.cell_of)
        self.probes: list[_Probe] = []
        self.changes: list[Change] = []
        self.names: list[tuple[str, ...]] = []  # of each change, the transitions that it takes
        self.tags: dict[tuple[str | None, str], int] = {}
        self._known: dict[Hashable, int] = {}
        self._leaves: list[SpecFault | None] = []
        self._steps: list[tuple[int, Claim]] = []  # probes of claims about steps
        self._roots: dict[tuple[int, tuple[bool, ...]], int] = {}
        self._watch_all()
        self._bound()
        self._plant()

    # What is asked

    def _probe(self, tell: Callable[[int], None], violates: bool = False) -> int:
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

    def _on_states(self, e: Expression, tell: Callable[[int], None], violates: bool = False) -> None:
        program = self.programs.of_state(e)
        if program != NO:
            self.kernel.watch(k.OF_STATE, self._probe(tell, violates), program)

    def _on_steps(self, e: Expression, tell: Callable[[int], None], violates: bool = False) -> None:
        self._steps.append((self._probe(tell, violates), Claim(e, self.frame)))

    def _finds_step(self, step: Any) -> Callable[[int], None]:
        def tell(number: int) -> None:
            change = self.changes[self.kernel.asks(k.CHANGE)]
            after = self.fields.unpack(self.kernel.target_words())
            step.found = self.kernel.asks(k.LABEL), change.action, after

        return tell

    def _deadlocked(self, number: int) -> None:
        self.claims.deadlock = number

    def _bound(self) -> None:
        program = YES
        for words in reversed(self.world.bounds):
            program = self.programs.of_words(words, program)
        self.kernel.bounds(program)

    def _plant(self) -> None:
        """A tree for each part and for what it must know of the faults that are left."""
        kinds = len(self.world.budgeted)
        roots = []
        for number, part in enumerate(self.world.parts):
            for left in range(1 << kinds):
                of = self._left(part, left)
                if (number, of) not in self._roots:
                    self._roots[number, of] = self.kernel.tree()
                roots.append(self._roots[number, of])
        brief = self.limits.states is None and not self.limits.stop_at_violation
        self.kernel.parts(len(self.world.parts), kinds, self.graphical, brief, roots)

    def _left(self, part: Part, kinds: int) -> tuple[bool, ...]:
        """Of which of a part's kinds of faults any are left, given that as bits of all kinds with a limit."""
        limited = self.world.limited if isinstance(self.world, FaultySystem) else []
        return tuple([f in limited and bool(kinds >> limited.index(f) & 1) for f in part.faults])

    def _look(self) -> Look:
        """A look at the state that the search asks about."""
        fields, words = self.fields, self.kernel.asked_words()
        return Look(fields, lambda atom: fields.code(atom, words))

    # The search

    def run(self) -> Exploration:
        """Searches, and answers what was found."""
        started = time.perf_counter()
        why = ""
        try:
            why = self._search(started)
        except KeyboardInterrupt:
            why = "interrupted"
        return self._result(why, started)

    def _search(self, started: float) -> str:
        """Runs until everything is visited; answers why it stopped before, or nothing."""
        while not self._begin():
            pass
        limits, kernel = self.limits, self.kernel
        memory, look_again = limits.memory or memory_for_a_search(), started + SLICE
        kernel.limits(limits.states, limits.depth)
        while True:
            match kernel.search(SLICE):
                case k.STEPS:
                    if not self._work_out():
                        self._restart()
                        kernel = self.kernel
                        kernel.limits(limits.states, limits.depth)
                case k.CLAIM:
                    self._answer()
                case k.FIRED:
                    self._fired()
                case k.FAULT:
                    self._at_fault()
                case k.NO_MEMORY:
                    raise MemoryError
                case k.AT_DEPTH:
                    return f"stopped at depth {limits.depth}"
                case k.AT_STATES:
                    return self._stopped()
                case k.DONE:
                    break
            now = time.perf_counter()
            if now < look_again:
                continue
            look_again = now + SLICE
            if limits.seconds is not None and now - started > limits.seconds:
                return f"stopped after {limits.seconds:,.0f} s"
            if memory is not None and held_memory() > memory:
                return memory_words(memory)
            if self.progress is not None:
                self._show(started)
        return at_fault(self.faults)

    def _stopped(self) -> str:
        if self.limits.stop_at_violation and (self.faults or self.claims.contradicted):
            self.graphical = False
            return "stopped at a violation"
        return f"stopped after {self.kernel.figure(k.COUNT):,} states"

    def _begin(self) -> bool:
        """Adds the first states; False where the layout had to grow on the way."""
        kernel, fields = self.kernel, self.fields
        self.generated = self.cut = 0
        left = 0
        for i, n in enumerate(self.world.budgeted):
            left |= n << 8 * i
        for state in self.world.initial_states():
            self.generated += 1
            if not self.world.within_bounds(state):
                self.cut += 1
                continue
            try:
                words = fields.pack(state)
            except OverflowError:
                self._restart(begun=False)
                return False
            if kernel.first(words, left):
                while (asked := kernel.check_first()) != k.DONE:
                    self._answer() if asked == k.CLAIM else self._fired()
        self.initial = kernel.figure(k.COUNT)
        return True

    def _work_out(self) -> bool:
        """The steps that the search does not know; False where states need more words for what they write."""
        kernel, fields = self.kernel, self.fields
        number = kernel.asks(k.PART)
        part, look = self.world.parts[number], self._look()
        of = self._left(part, kernel.asks(k.CLASS))
        fault = None
        found = []
        try:
            for action, after in part.work_out(look, of):  # type: ignore[arg-type]
                found.append((action, writes(look, after), self.world.taken(look, action)))  # type: ignore[arg-type]
        except SpecFault as error:
            fault = error
        if fields.too_narrow:
            before = fields.words
            fields.lay_out()
            if fields.words != before:
                return False
            kernel.lay_out(fields.places)
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
        number = self._known[key] = self.kernel.change(written, cost, action.fault and self.faulty, tag)
        self.changes.append(change)
        self.names.append(names)
        for probe, claim in self._steps:
            program = self.programs.of_step(claim, change)
            if program != NO:
                self.kernel.claim(probe, program)
        return number

    def _answer(self) -> None:
        """Answers a test of a claim."""
        test, look = self.programs.tests[self.kernel.asks(k.TEST)], self._look()
        answer = test.answer(look)
        self.kernel.hang(test.tree, look.codes, int(answer))

    def _fired(self) -> None:
        """A program has said yes for the first time."""
        number = self.kernel.asks(k.PROBE)
        probe = self.probes[number]
        self.kernel.silence(number)
        probe.tell(self.kernel.asks(k.NUMBER))
        if probe.violates:
            self._violated()

    def _at_fault(self) -> None:
        fault = self._leaves[self.kernel.asks(k.PART)]
        assert fault is not None
        if fault.kind not in self.faults:
            self.faults[fault.kind] = (str(fault), self._paths().to(self.kernel.asks(k.NUMBER)))
        self._violated()

    def _violated(self) -> None:
        if self.limits.stop_at_violation:
            kernel = self.kernel
            kernel.limits(self.limits.states, self.limits.depth, kernel.figure(k.SEARCHED) + 1)

    def _restart(self, begun: bool = True) -> None:
        """Searches again from the first states, with room for what has been met."""
        self.fields.lay_out()
        self.kernel.close()
        self.kernel = k.Kernel(self.fields.words)
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
                time.perf_counter() - started, peak_memory(),
            )
        )  # fmt: skip

    # What was found

    def _paths(self) -> PackedPaths:
        labels = PackedLabels(self.kernel, self.world.budgeted)
        return PackedPaths(self.world, PackedStates(self.kernel, self.fields), labels, self._mark)

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
        labels = PackedLabels(self.kernel, self.world.budgeted)
        graph = graph_of(self.kernel, self.changes, labels, self.faulty) if self.graphical else None
        try:
            found = verdicts(self.claims, paths, graph, self.faults, not why, why)
        except KeyboardInterrupt:
            why, graph = why or "interrupted", None
            found = verdicts(self.claims, paths, None, self.faults, False, why)
        machines = self.world.product()
        cells = PackedCells(self.kernel, self.fields, [cell for _, cell in machines])
        return Exploration(
            system=self.system, engine="packed", complete=not why, why_incomplete=why, distinct=f(k.COUNT),
            generated=f(k.GENERATED) + self.generated, edges=f(k.EDGES), depth=cells.depth, initial=self.initial,
            cut=f(k.CUT) + self.cut, seconds=time.perf_counter() - started, peak_memory_bytes=peak_memory(),
            product_machines=tuple(name for name, _ in machines), product_states=self.system.product_size(),
            cells=cells, properties=tuple(found), taken=self._uses(), vacuous=self.claims.vacuous() if not why else (),
            cell_edges=PackedEdges(self.kernel, list(self.tags)), paths=paths, graph=graph,
        )  # fmt: skip

    def _uses(self) -> dict[str, int]:
        uses = self.kernel.array(k.USES, k.U64, len(self.changes))
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


def _finder(claim: Any) -> Callable[[int], None]:
    def tell(number: int) -> None:
        claim.found = number

    return tell


def _sees(claim: Any) -> Callable[[int], None]:
    def tell(number: int) -> None:
        claim.antecedent_seen = True

    return tell


def _marks(seen: dict[str, bool], name: str) -> Callable[[int], None]:
    def tell(number: int) -> None:
        seen[name] = True

    return tell


def _marks_end(end: Any) -> Callable[[int], None]:
    def tell(number: int) -> None:
        end.seen = True

    return tell
