"""The packed explorer's other kernel: the same search as the C part, in NumPy, for machines without a C compiler.

Theory of operation. The labels of a level are expanded in blocks of thousands. Of a block first all is found out, one
question for all of it after the other: what happens in its states (`_bundles`), where that leads (array_steps.py),
what of it is new (state_table.py), what fires (`_events`). Then it is played (`_play`): what fires is told in the order
in which a search label by label would meet it, and whole labels are counted up to there. So a search that stops early
has counted what the C part counts, and states, labels and edges have the same numbers.

The search is a generator, which yields what `search` returns. Where an answer is not known it yields that it asks, and
goes on where it was once the answer is hung in. Nothing of a block is counted before all of it is known.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leasehold.checker.explore.graph import by_source
from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.array_labels import LimitedLabels, after, classes, kinds_left, pays
from leasehold.checker.explore.packed.array_steps import Changes
from leasehold.checker.explore.packed.fields import WORD, Place
from leasehold.checker.explore.packed.forest import Forest, grouped
from leasehold.checker.explore.packed.groups import Groups
from leasehold.checker.explore.packed.growing import Growing
from leasehold.checker.explore.packed.interface import Claims
from leasehold.checker.explore.packed.programs import NO, YES
from leasehold.checker.explore.packed.state_table import StateTable
from leasehold.checker.explore.packed.survey import Survey

BLOCK = 1 << 12  # labels that are expanded together
SETTLED = 4096  # labels after which the trees are taken to have been asked about most
BEYOND = 1 << 62  # where events come that are after all steps of their label

Asking = Generator[int, None, Any]
"""Something that is found out: it yields what `search` returns where it has to ask, and answers in the end."""


@dataclass(frozen=True, order=True, slots=True)
class _Event:
    """A program that says yes, or a fault of the specification: where in the block, and what is to be told."""

    row: int
    step: int  # of the block, or BEYOND
    rank: int  # among those of one step
    what: int = field(compare=False)
    of: int = field(compare=False)
    subject: int = field(compare=False)  # the probe, or the leaf at fault
    number: int = field(compare=False)


@dataclass(slots=True)
class _Block:
    """Labels of which all is known.

    Attributes:
        size: how many; `done` of them are counted.
        label: the first.
        numbers: of their states.
        rows, changes, targets: of each step.
        fresh: whether a step is counted: an earlier label of its state did not show it.
        lefts: of each step, what it leaves of the faults; None where none are counted.
        found: of each step, its target's number, or -1: out of the bounds.
        firsts: the steps that lead to new states, in the order of these.
        begins: of each label its first step, and the end.
        born: of each label, how many new states come before it, and in all.
        followed: of labels that show nothing new: row, earlier label.
        faults: of each label, the leaf that is at fault, or -1.
        stuck: the labels in whose states nothing happens.
    """

    size: int
    label: int
    numbers: Any
    rows: Any
    changes: Any
    targets: Any
    fresh: Any
    lefts: Any
    own_lefts: Any
    followed: list[tuple[Any, Any]]
    faults: Any
    stuck: Any
    begins: Any = None
    found: Any = None
    firsts: Any = None
    born: Any = None
    done: int = 0


class ArrayKernel:
    """One search; the C part describes the methods, `AnyKernel` lists them."""

    def __init__(self, words: int) -> None:
        self.words = words
        self.forest = Forest()
        self.changes = Changes(words)
        self.table = StateTable(words)
        self.limited = LimitedLabels()
        # The parts of a model
        self._active: list[bool] = []
        self._on_states: list[tuple[int, int]] = []  # probe, program
        self._on_stuck: list[tuple[int, int]] = []
        self._on_steps: dict[int, Growing] = {}  # by probe: of each change, a program
        self._bounds = YES
        self._uses = Growing(np.uint64)
        self._parts = self._kinds = 0
        self._roots: list[int] = []
        self._part_trees: set[int] = set()
        self.graph = False
        self._groups: Groups | None = None
        self._grown_at = 0  # the label at which a tree has last grown
        # What was found
        self._parents = Growing(np.uint32)
        self.begins, self.targets, self.edge_changes = Growing(np.uint64), Growing(np.uint32), Growing(np.uint32)
        self._level_states, self._level_labels = Growing(np.uint64), Growing(np.uint64)
        self.count = self.searched = self.cut = 0
        self._generated = self._edges = self._depth = self._level_end = 0
        self._most_states = self._most_depth = self._most_labels = BEYOND
        # What it asks for, or says
        self._says = dict.fromkeys(range(k.NUMBER + 1), 0)
        self._asked: Any = np.zeros(words, dtype=np.uint64)
        self._until = 0.0
        self._search: Generator[int, None, None] = self._searching()
        self._checking: Generator[int, None, None] | None = None
        self._marking: Asking | None = None
        self._surveyed = Survey(self)

    def close(self) -> None:
        """Gives the memory back."""
        self._search.close()
        self.table = StateTable(self.words)

    # The parts of a model

    def tree(self) -> int:
        return self.forest.tree()

    def hang(self, tree: int, codes: dict[int, int], answer: int) -> None:
        more = self.forest.hang(tree, codes, answer)
        if tree in self._part_trees:
            self._grown_at = self.searched
            if more:
                self._groups = None

    def test(self, tree: int, yes: int, no: int) -> int:
        return self.forest.test(tree, yes, no)

    def probe(self) -> int:
        self._active.append(True)
        return len(self._active) - 1

    def silence(self, probe: int) -> None:
        self._active[probe] = False

    def change(self, writes: Any, cost: int, fault: bool, tag: int, claims: Claims) -> int:
        self._uses.append(0)
        for programs in self._on_steps.values():
            programs.append(NO)
        number = self.changes.add(list(writes), cost, fault, tag, self.forest.places)
        for probe, program in claims:
            known = self._on_steps.get(probe)
            if known is None:
                known = self._on_steps[probe] = Growing(np.int32)
                known.extend(np.full(self.changes.size, NO, dtype=np.int32))
            known.at[number] = program
        return number

    def leaf(self, changes: list[int], fault: bool) -> int:
        return self.changes.leaf(changes, fault)

    def watch(self, of: int, probe: int, program: int) -> None:
        (self._on_states if of == k.OF_STATE else self._on_stuck).append((probe, program))

    def bounds(self, program: int) -> None:
        self._bounds = program

    def parts(self, parts: int, kinds: int, graph: bool, brief: bool, roots: list[int]) -> None:
        self._parts, self._kinds, self.graph, self._roots = parts, kinds, graph, roots
        self._part_trees = set(roots)

    def limits(self, states: int | None, depth: int | None, labels: int | None = None) -> None:
        self._most_states, self._most_depth, self._most_labels = (
            BEYOND if n is None else n for n in (states, depth, labels)
        )

    def lay_out(self, places: Sequence[Place]) -> None:
        old, size = self.forest.places, self.table.states.size
        self.forest.lay_out(places)
        self._groups = None
        self.changes.lay_out(places)
        if not size:
            return
        states = self.table.states.items
        found = np.zeros_like(states)
        found[:, 0] = np.uint64(1 << WORD - 1)
        for was, is_ in zip(old, places, strict=True):
            code = states[:, was.word] >> np.uint64(was.shift) & np.uint64((1 << was.bits) - 1)
            found[:, is_.word] |= code << np.uint64(is_.shift)
        self.table.recode(found)

    # First states

    def first(self, words: list[int], left: int) -> bool:
        """Adds a first state; whether it is a new one."""
        state = np.array([words], dtype=np.uint64)
        self.table.room(1)
        found, slots = self.table.find(state)
        if found[0] >= 0:
            return False
        self.table.insert(state, slots)
        self.count += 1
        if self._kinds:
            one = np.array([self.count - 1])
            self.limited.add(one, np.array([left], dtype=np.uint64), np.array([k.NONE]), self.count)
        else:
            self._parents.append(k.NONE)
        self._checking = None
        return True

    def check_first(self) -> int:
        """Asks the claims about the newest state."""
        if self._checking is None:
            self._checking = self._check_newest()
        return next(self._checking)

    def _check_newest(self) -> Generator[int, None, None]:
        newest = self.count - 1
        state = self.table.states.at[newest : newest + 1]
        for probe, program in self._on_states:
            if self._active[probe] and not (yield from self._first_yes(program, state, k.OF_STATE, probe)):
                self._says |= {k.PROBE: probe, k.NUMBER: newest, k.OF: k.OF_STATE}
                yield self._said(k.FIRED)
        while True:
            yield k.DONE

    # The search

    def search(self, seconds: float) -> int:
        self._until = time.perf_counter() + seconds
        return next(self._search)

    @property
    def labels(self) -> int:
        """How many there are."""
        return self.limited.states.size if self._kinds else self.count

    def _said(self, what: int) -> int:
        self._says[k.WHAT] = what
        return what

    def _searching(self) -> Generator[int, None, None]:
        while True:
            if self.searched == self.labels:
                yield self._said(k.DONE)
                continue
            if self.searched == self._level_end or not self._level_states.size:
                self._depth += bool(self._level_states.size)
                self._level_end = self.labels
                self._level_states.append(self.count)
                self._level_labels.append(self.labels)
            while self._depth >= self._most_depth:
                yield self._said(k.AT_DEPTH)
            while self.count >= self._most_states or self.searched >= self._most_labels:
                yield self._said(k.AT_STATES)
            block = yield from self._planned(min(BLOCK, self._level_end - self.searched))
            yield from self._play(block, (yield from self._events(block)))
            if time.perf_counter() > self._until:
                yield self._said(k.PAUSE)

    def _planned(self, size: int) -> Asking:
        """The next labels, their steps and where these lead; new states have numbers then, and are not counted."""
        labels = np.arange(self.searched, self.searched + size)
        block = (yield from self._limited(labels)) if self._kinds else (yield from self._unlimited(labels))
        self.table.room(len(block.targets))
        found, slots = self.table.find(block.targets)
        block.found = found
        absent = ((found < 0) & block.fresh).nonzero()[0]
        if self._bounds != YES and absent.size:
            inside = yield from self._answers(self._bounds, block.targets[absent], k.OF_BOUNDS, 0)
            absent = absent[inside > 0]
        block.firsts = absent
        if absent.size:
            found[absent], first = self.table.insert(block.targets[absent], slots[absent])
            block.firsts = absent[first]
        if self._kinds:  # what an earlier label has shown may have led to a state that is new in this block
            again = ((found < 0) & ~block.fresh).nonzero()[0]
            found[again], _ = self.table.find(block.targets[again])
        block.begins = np.searchsorted(block.rows, np.arange(size + 1))
        block.born = np.searchsorted(block.firsts, block.begins)
        return block

    def _unlimited(self, labels: Any) -> Asking:
        """Labels where no faults are counted: each is its state, and every step is fresh."""
        bundles = yield from self._bundles(labels, labels, None)
        size = len(labels)
        steps = self.changes.successors(self.table.states.at[labels[0] : labels[0] + size], bundles)
        busy = np.zeros(size, dtype=bool)
        busy[
            steps.rows
            if not self.changes.are_faults.items.any()
            else steps.rows[~self.changes.are_faults.at[steps.changes]]
        ] = True
        return _Block(
            size, int(labels[0]), labels, steps.rows, steps.changes, steps.targets,
            np.ones(len(steps.rows), dtype=bool), None, None, [], steps.faults,
            (~busy & (steps.faults < 0)).nonzero()[0],
        )  # fmt: skip

    def _limited(self, labels: Any) -> Asking:
        """Labels of which some leave less of the faults than an earlier label of their state."""
        limited = self.limited
        numbers, lefts = limited.states.at[labels].astype(np.int64), limited.lefts.at[labels]
        earlier = limited.earlier(labels)
        before = np.zeros(len(labels), dtype=bool)
        known = np.zeros(len(labels), dtype=np.uint64)
        for others, their_lefts in earlier:
            before |= others != k.NONE
            known |= kinds_left(their_lefts)
        follows = before & (kinds_left(lefts) & ~known == 0)
        shown = (~follows).nonzero()[0]
        bundles = yield from self._bundles(labels[shown], numbers[shown], classes(lefts[shown], self._kinds))
        steps = self.changes.successors(self.table.states.at[numbers[shown]], bundles)
        rows, costs = shown[steps.rows], self.changes.costs.at[steps.changes]
        able = pays(lefts[rows], costs).nonzero()[0]
        rows, changes, costs = rows[able], steps.changes[able], costs[able]
        fresh = ~before[rows] | (costs != 0)
        for _, their_lefts in earlier:
            fresh &= ~pays(their_lefts[rows], costs) | ~before[rows]
        faults = np.full(len(labels), -1, dtype=np.int64)
        faults[shown] = steps.faults
        busy = before.copy()
        busy[rows[fresh & ~self.changes.are_faults.at[changes]]] = True
        follow = [
            (row, others[row]) for others, _ in earlier if len(row := (follows & (others != k.NONE)).nonzero()[0])
        ]
        return _Block(
            len(labels), int(labels[0]), numbers, rows, changes, steps.targets[able], fresh, after(lefts[rows], costs),
            lefts, follow, faults, (~busy & (faults < 0)).nonzero()[0],
        )  # fmt: skip

    # What happens in states

    def _bundles(self, labels: Any, numbers: Any, of: Any) -> Asking:
        """What the parts let happen in states: an array (n, groups of parts) of bundles.

        `of` says which kinds of faults are left, as a class for each state; None where none are counted.
        """
        if of is None and self._groups is None and self.searched > self._grown_at + SETTLED:
            self._groups = Groups(self.forest, self.changes, self._roots)
        if of is None and self._groups is not None:
            found = self._groups.look_up(self._signed(numbers))
            if found is not None:
                return found
        found = np.zeros((len(numbers), self._parts), dtype=np.int32)
        alive = [(0, np.arange(len(numbers)))] if of is None else list(grouped(of))
        for part in range(self._parts):
            for n, (kinds, lanes) in enumerate(alive):
                yield from self._by_part(part, kinds, lanes, labels, numbers, found)
                at_fault = self.changes.faults.at[found[lanes, part]] >= 0
                if at_fault.any():  # the parts that follow are not asked
                    alive[n] = kinds, lanes[~at_fault]
        return found

    def _by_part(self, part: int, of: int, lanes: Any, labels: Any, numbers: Any, found: Any) -> Asking:
        tree = self._roots[part << self._kinds | of]
        everywhere = len(lanes) == len(numbers)
        answers = self.forest.look_up(tree, self._signed(numbers if everywhere else numbers[lanes]))
        while (missing := (answers < 0).nonzero()[0]).size:
            lane = lanes[missing[0]]
            number = int(numbers[lane])
            self._says |= {k.PART: part, k.CLASS: of, k.LABEL: int(labels[lane]), k.NUMBER: number}
            self._asked = self.table.states.at[number].copy()
            yield self._said(k.STEPS)
            answers[missing] = self.forest.look_up(tree, self._signed(numbers[lanes[missing]]))
        found[lanes, part] = self.changes.of_leaf.at[answers]

    def _signed(self, numbers: Any) -> Any:
        """The words of states as the forest takes them."""
        states = self.table.states.at.view(np.int64)
        size = len(numbers)
        if size and numbers[-1] - numbers[0] == size - 1 and size > 1 and (np.diff(numbers) == 1).all():
            return states[numbers[0] : numbers[0] + size]
        return states[numbers]

    def bundles_known(self, numbers: Any, of: Any = None) -> Any:
        """What happens in states that were searched: nothing has to be asked."""
        asking = self._bundles(numbers, numbers, of)
        try:
            next(asking)
        except StopIteration as done:
            return done.value
        raise AssertionError("a state was searched, and its steps are not known")

    # What holds

    def _ask(self, test: int, of: int, probe: int, state: Any) -> int:
        self._says |= {k.TEST: test, k.OF: of, k.PROBE: probe}
        self._asked = state.copy()
        return self._said(k.CLAIM)

    def _first_yes(self, programs: Any, states: Any, of: int, probe: int) -> Asking:
        """The first state of which a program says yes, or their number; what comes later need not be known."""
        answers = yield from self._answers(programs, states, of, probe, to_first=True)
        return int(answers.argmax()) if len(answers) and answers.max() > 0 else len(answers)

    def _answers(self, programs: Any, states: Any, of: int, probe: int, to_first: bool = False) -> Asking:
        """Of each state whether its program says yes: 1 or 0; `to_first`: -1 is left where a state before has a yes."""
        signed = states.view(np.int64)
        answers, tests = self.forest.holds(programs, signed)
        end = len(answers)
        while True:
            if to_first and end and answers[:end].max() > 0:
                end = int(answers[:end].argmax())
            missing = (answers[:end] < 0).nonzero()[0]
            if not missing.size:
                return answers
            first = missing[0]
            test = int(tests[first])
            again = missing[tests[missing] == test]  # they go on where they stand
            answers[again], tests[again] = self.forest.holds(test, signed[again])
            if tests[first] == test:
                yield self._ask(test, of, probe, states[first])

    def _events(self, block: _Block) -> Asking:
        """What fires, in order: of each probe the first time."""
        found = []
        steps = (block.fresh & (block.found >= 0)).nonzero()[0] if self._on_steps else None
        for rank, (probe, by_change) in enumerate(sorted(self._on_steps.items())):
            if not self._active[probe]:
                continue
            assert steps is not None
            programs = by_change.at[block.changes[steps]]
            concerned = (programs != NO).nonzero()[0]
            which = steps[concerned]
            states = self.table.states.at[block.numbers[block.rows[which]]]
            at = yield from self._first_yes(programs[concerned], states, k.OF_STEP, probe)
            if at < len(which):
                step = int(which[at])
                row = int(block.rows[step])
                found.append(_Event(row, step, rank, k.FIRED, k.OF_STEP, probe, int(block.numbers[row])))
        base = self.count
        states = self.table.states.at[base : base + len(block.firsts)]
        for rank, (probe, program) in enumerate(self._on_states, len(self._on_steps)):
            if self._active[probe] and len(states):
                at = yield from self._first_yes(program, states, k.OF_STATE, probe)
                if at < len(states):
                    step = int(block.firsts[at])
                    found.append(_Event(int(block.rows[step]), step, rank, k.FIRED, k.OF_STATE, probe, base + at))
        for row in (block.faults >= 0).nonzero()[0].tolist():
            found.append(_Event(row, BEYOND, 0, k.FAULT, 0, int(block.faults[row]), int(block.numbers[row])))
        for rank, (probe, program) in enumerate(self._on_stuck, 1):
            if self._active[probe] and len(block.stuck):
                states = self.table.states.at[block.numbers[block.stuck]]
                at = yield from self._first_yes(program, states, k.OF_STUCK, probe)
                if at < len(states):
                    row = int(block.stuck[at])
                    found.append(_Event(row, BEYOND, rank, k.FIRED, k.OF_STUCK, probe, int(block.numbers[row])))
        return sorted(found)

    # What is counted

    def _play(self, block: _Block, events: list[_Event]) -> Generator[int, None, None]:
        """Counts the labels of a block, and tells what fires on the way."""
        waiting = iter(events)
        event = next(waiting, None)
        base, label = self.count, block.label
        while True:
            # The first label before which a limit is reached.
            stop = max(0, self._most_labels - label)
            stop = min(block.size, stop, int(np.searchsorted(block.born[:-1], self._most_states - base)))
            self._take(block, min(stop, block.size if event is None else event.row))
            if event is not None and event.row < stop:
                yield self._tell(block, event)
                event = next(waiting, None)
            elif stop < block.size:
                yield self._said(k.AT_STATES)
            elif event is None:
                return

    def _tell(self, block: _Block, event: _Event) -> int:
        self._says |= {k.OF: event.of, k.NUMBER: event.number, k.LABEL: block.label + event.row}
        self._says[k.PART if event.what == k.FAULT else k.PROBE] = event.subject
        self._asked = self.table.states.at[event.number].copy()
        if event.of == k.OF_STEP:
            self._says[k.CHANGE] = int(block.changes[event.step])
        return self._said(event.what)

    def _take(self, block: _Block, end: int) -> None:
        """Counts the labels of a block up to one of them."""
        if end <= block.done:
            return
        begin = block.done
        steps = slice(int(block.begins[begin]), int(block.begins[end]))
        fresh, found, changes = block.fresh[steps], block.found[steps], block.changes[steps]
        number = self.count + int(block.born[end] - block.born[begin])
        kept = fresh & (found >= 0)
        edges, generated = int(np.count_nonzero(kept)), int(np.count_nonzero(fresh))
        uses = np.bincount(changes if generated == len(changes) else changes[fresh], minlength=self._uses.size)
        self._uses.items[:] += uses.astype(np.uint64)
        if self.graph:
            before = np.cumsum(kept) - kept
            before = np.append(before, edges) + self.targets.size
            self.begins.extend(before[block.begins[begin:end] - steps.start])
            self.targets.extend(found[kept])
            self.edge_changes.extend(changes[kept])
        if self._kinds:
            self._add_labels(block, begin, end, number)
        else:
            first = block.firsts[int(block.born[begin]) : int(block.born[end])]
            self._parents.extend(block.label + block.rows[first])
        block.done = end
        self._generated += generated
        self._edges += edges
        self.cut += generated - edges
        self.count = number
        self.searched = block.label + end

    def _add_labels(self, block: _Block, begin: int, end: int, number_of_states: int) -> None:
        """The labels to which steps lead, and those to which the known edges of earlier labels lead."""
        steps = np.arange(block.begins[begin], block.begins[end])
        steps = steps[block.found[steps] >= 0]
        rows, states, lefts = [block.rows[steps]], [block.found[steps]], [block.lefts[steps]]
        begins, ends = self.edges_begin[:-1], self.edges_begin[1:]
        for follow, others in block.followed:
            here = ((follow >= begin) & (follow < end)).nonzero()[0]
            other = others[here]
            sizes = ends[other] - begins[other]
            edges = np.repeat(begins[other] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
            row = np.repeat(follow[here], sizes)
            left, costs = block.own_lefts[row], self.changes.costs.at[self.edge_changes.at[edges]]
            able = pays(left, costs).nonzero()[0]
            rows.append(row[able])
            states.append(self.targets.at[edges[able]].astype(np.int64))
            lefts.append(after(left[able], costs[able]))
        row = np.concatenate(rows)
        order = np.argsort(row, kind="stable") if len(rows) > 1 else slice(None)
        self.limited.add(
            np.concatenate(states)[order], np.concatenate(lefts)[order], block.label + row[order], number_of_states
        )

    # Looking at what was found

    def figure(self, which: int) -> int:
        match which:
            case k.MEMORY:
                arrays = [self.targets, self.edge_changes, self.begins, self._parents]
                return self.table.bytes + self.forest.bytes + sum(int(array.at.nbytes) for array in arrays)
            case k.LEVELS:
                return self._level_states.size
        return {
            k.COUNT: self.count, k.GENERATED: self._generated, k.EDGES: self._edges, k.CUT: self.cut,
            k.SEARCHED: self.searched, k.LABELS: self.labels, k.DEPTH: self._depth,
        }[which]  # fmt: skip

    def asks(self, which: int) -> int:
        return self._says[which]

    def asked_words(self) -> list[int]:
        return list(self._asked.tolist())

    def array(self, which: int, kind: Any, items: int) -> Any:
        """An array of what was found, where it lies: it is there until the search goes on."""
        limited = self.limited
        arrays: dict[int, Growing] = {
            k.STATES: self.table.states, k.PARENTS: limited.parents if self._kinds else self._parents,
            k.LABEL_STATES: limited.states, k.LEFTS: limited.lefts, k.LEVEL_STATES: self._level_states,
            k.LEVEL_LABELS: self._level_labels, k.USES: self._uses, k.FIRST_LABEL: limited.first,
            k.LABEL_NEXT: limited.following,
            k.CELL_FIRST: self._surveyed.first, k.CELL_STATES: self._surveyed.sizes,
        }  # fmt: skip
        return (kind * items).from_buffer(arrays[which].at)

    def edges(self, kinds: Any) -> tuple[Any, Any, Any, Any]:
        """The edges in the order of their sources: where those of each state begin, sources, targets, and `kinds`."""
        labels = np.arange(self.begins.size)
        states = self.limited.states.at[labels] if self._kinds else labels
        sources = np.repeat(states.astype(np.int32), np.diff(self.edges_begin))
        rows = np.array(kinds, dtype=np.int32)[self.edge_changes.items]
        return by_source(self.count, sources, self.targets.items.astype(np.int32), rows)

    @property
    def edges_begin(self) -> Any:
        """By label where its edges begin, and where the last one's end."""
        return np.append(self.begins.items, np.uint64(self.targets.size)).astype(np.int64)

    def mark(self, program: int, into: bytearray) -> bool:
        """Of each state whether a program says yes; False where an answer is not known, and it is to be asked again."""
        if self._marking is None:
            self._marking = self._mark(program)
        try:
            next(self._marking)
        except StopIteration as done:
            self._marking = None
            into[:] = done.value.tobytes()
            return True
        return False

    def _mark(self, program: int) -> Asking:
        found = np.zeros(self.count, dtype=np.uint8)
        for begin in range(0, self.count, BLOCK):
            end = min(begin + BLOCK, self.count)
            found[begin:end] = yield from self._answers(program, self.table.states.at[begin:end], k.OF_STATE, 0)
        return found

    def survey(self, atoms: list[int]) -> int:
        """Counts the combinations of these atoms' values; answers how many there are."""
        return self._surveyed.count(atoms)

    def survey_edges(self) -> list[tuple[int, int, int]]:
        """The steps between the combinations that were surveyed: from, to, tag of the change."""
        return list(self._surveyed.edges())

    def blocks(self) -> Iterator[Any]:
        """The labels that were searched, in blocks."""
        for begin in range(0, self.searched, BLOCK):
            yield np.arange(begin, min(begin + BLOCK, self.searched))
