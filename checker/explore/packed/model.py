"""The model as a kernel is told it: decision trees and programs, filled with what the reference returns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.branching import YES
from leasehold.checker.explore.packed.fields import Fields
from leasehold.checker.explore.packed.parts import packed_parts
from leasehold.checker.explore.packed.programs import Effect, Programs
from leasehold.checker.explore.packed.traced import TracedState, writes
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.spec.language.render.python_source import Frame

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical
    from leasehold.checker.explore.packed.alike import PackedAlike


class PackedModel:
    """The model as one kernel knows it.

    Attributes:
        programs: of claims and bounds.
        effects: those of steps, numbered; `names` has the transitions that each takes.
        parts: those of the world.
        tags: numbers for roles and events.
        leaves: by leaf of the parts' trees, the specification's fault there.
        roots: by part and the kinds of faults that are left, its tree.
        alike: instances that are alike, if one state is visited for each orbit.
        at_fault: parts of which some step, or condition, shows that the specification is at fault; kept by the search.
    """

    def __init__(
        self,
        kernel: k.Kernel,
        world: Reference,
        fields: Fields,
        at_fault: set[int],
        graph: bool,
        brief: bool,
        canonical: Canonical | None = None,
    ) -> None:
        self.kernel, self.world, self.fields, self.at_fault = kernel, world, fields, at_fault
        self.frame = Frame(world.layout, world.system.values(), before="o")
        self.parts = list(packed_parts(world))
        self.programs = Programs(kernel, self.frame, fields)
        self.effects: list[Effect] = []
        self.names: list[tuple[str, ...]] = []
        self.tags: dict[tuple[str | None, str], int] = {}
        self.leaves: list[SpecFault | None] = []
        self.roots: dict[tuple[int, tuple[bool, ...]], int] = {}
        self._known: dict[Hashable, int] = {}
        self._bound()
        self._plant(graph, brief)
        self.alike: PackedAlike | None = None
        if canonical is not None:
            from leasehold.checker.explore.packed.alike import PackedAlike

            self.alike = PackedAlike(kernel, fields, canonical)
        self.tell()
        self._planted = frozenset(at_fault)

    @property
    def outdated(self) -> bool:
        """Returns whether parts have turned out to be at fault, which are asked otherwise then."""
        return self._planted != self.at_fault

    def move_to(self, kernel: k.Kernel) -> None:
        """Goes on with another kernel, which knows all that this one was told."""
        self.kernel = self.programs.kernel = kernel
        if self.alike is not None:
            self.alike.move_to(kernel)

    def tell(self) -> None:
        """Tells the kernel what was found out about values of instances that are alike."""
        if self.alike is not None:
            self.alike.tell()

    def _bound(self) -> None:
        program = YES
        for text in reversed(self.world.bounds):
            program = self.programs.of_source(text, program)
        self.kernel.bounds(program)

    def _plant(self, graph: bool, brief: bool) -> None:
        """A tree for each part and for what it must know of the faults that are left."""
        kinds = len(self.world.budgeted)
        roots = []
        for number in range(len(self.parts)):
            for left in range(1 << kinds):
                of = self.left(number, left)
                if (number, of) not in self.roots:
                    self.roots[number, of] = self.kernel.tree()
                roots.append(self.roots[number, of])
        self.kernel.parts(len(self.parts), kinds, graph, brief, roots)
        for number, part in enumerate(self.parts):
            if part.unless and number not in self.at_fault:
                self.kernel.gate(number, self.programs.none_of(part.unless))

    def left(self, number: int, kinds: int) -> tuple[bool, ...]:
        """Returns by kind of a part's faults whether the reference is asked as if some were left; `kinds`: those left.

        That is so for all of them, as the kernel leaves out a step that costs more than is left. Only where the
        specification is at fault in some step does it matter whether that step can come.
        """
        limited = self.world.limited
        exact = number in self.at_fault
        part = self.parts[number]
        return tuple([f in limited and (not exact or bool(kinds >> limited.index(f) & 1)) for f in part.faults])

    def traced(self, words: Sequence[int] = ()) -> TracedState:
        """A state, given its words; left out: the one that the kernel asks about."""
        places, words = self.fields.places, words or self.kernel.asked_words()

        def raw(atom: int) -> int:  # as `Fields.code` does; it is asked very often
            word, shift, bits = places[atom]
            return words[word] >> shift & (1 << bits) - 1

        return TracedState(self.fields, raw)

    @property
    def all_left(self) -> int:
        """The whole budget as a number: 8 bits for each kind of fault with a limit."""
        return sum(n << 8 * i for i, n in enumerate(self.world.budgeted))

    def inform(self) -> bool:
        """Tells the kernel what it asks for; False where the search has to begin again."""
        match self.kernel.asks(k.WHAT):
            case k.STEPS:
                return self.work_out()
            case k.MOVE:
                return self.move()
        return self.answer()

    def move(self) -> bool:
        """Adds what a permutation makes of a value; False where the search has to begin again, for want of room."""
        assert self.alike is not None
        code = self.alike.answer()
        if not self._make_room():
            return False
        self.tell()
        self.kernel.moved_to(code)
        return True

    def _make_room(self) -> bool:
        """Makes atoms as wide as their values need; False where a state takes more words then."""
        fields = self.fields
        if any(numbering.bits < numbering.needs for numbering in fields.numberings):
            before = fields.words
            fields.lay_out()
            if fields.words != before:
                return False
            self.kernel.lay_out(fields.places)
        return True

    def work_out(self) -> bool:
        """Adds the steps that the kernel asks for; False where the search has to begin again.

        It has to where states need more words for the new values, and where a part is at fault for the first time.
        """
        kernel, fields = self.kernel, self.fields
        number = kernel.asks(k.PART)
        part, traced = self.parts[number], self.traced()
        steps = part.steps if part.otherwise is None or number in self.at_fault else part.otherwise
        of = self.left(number, kernel.asks(k.CLASS))
        fault = None
        following = []
        try:
            for action, after in steps(traced, of):  # type: ignore[arg-type]
                following.append((action, writes(traced, after), self.world.taken(traced, action)))  # type: ignore[arg-type]
        except SpecFault as error:
            if any(of) and number not in self.at_fault:
                self.at_fault.add(number)
                return False
            fault = error
        written_codes = (pair for _, written, _ in following for pair in written)
        if any(fields.numberings[a].bits < code.bit_length() for a, code in written_codes) and not self._make_room():
            return False
        self.tell()
        numbers = [self.change(*step) for step in following]
        leaf = kernel.leaf(numbers, fault is not None)
        self.leaves.append(fault)
        kernel.hang(self.roots[number, of], traced.codes, leaf)
        return True

    def change(self, action: Action, written: tuple[tuple[int, int], ...], names: tuple[str, ...]) -> int:
        key = (
            type(action),
            *action[:6],
            id(action.transition),
            id(action.lane),
            *action[8:],
            id(getattr(action, "consumed", None)),
            written,
            names,
        )
        known = self._known.get(key)
        if known is not None:
            return known
        cost = sum(1 << 8 * kind for kind in action.cost)
        tag = self.tags.setdefault((action.role, action.event), len(self.tags))
        effect = Effect(action, written)
        claims = self.programs.of_effect(effect)
        number = self._known[key] = self.kernel.change(written, cost, action.fault and self.world.faulty, tag, claims)
        self.effects.append(effect)
        self.names.append(names)
        return number

    def answer(self) -> bool:
        """Adds the result of the predicate that the kernel asks for; False where the search has to begin again.

        It has to where a condition of a part shows that the specification is wrong: that part is then asked as a whole.
        """
        predicate, traced = self.programs.predicates[self.kernel.asks(k.TEST)], self.traced()
        try:
            value = predicate.value(traced)
        except SpecFault:
            self.at_fault.add(self.kernel.asks(k.PART))
            return False
        self.kernel.hang(predicate.tree, traced.codes, int(value))
        return True
