"""Claims as branching programs over predicates, each with a decision tree of its results.

Theory of operation. A claim is split at its `and`, `or`, `not`, `if` and quantifiers into predicates that read little;
a branching program evaluates one after the other and branches on the results, as short-circuit evaluation does. So a
claim about ten machines is not evaluated for each of their million joint states, but each predicate for few states.

A claim about steps has a program for each effect. Its result depends on what it reads of the state before, on what the
effect writes of that, and on what `took` asks of the action; effects that agree on these share a program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from leasehold.checker.explore.ground import cells_read, function, step_function
from leasehold.checker.explore.packed.kernel import Kernel, StepClaims
from leasehold.checker.explore.packed.traced import TracedState, applied
from leasehold.checker.explore.step import Action
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.python_source import Frame, source

NO, YES = -1, -2  # where a program ends
_step_function = lru_cache(1 << 16)(step_function)  # many effects ask the same
MOST_CASES = 4_000  # predicates of a claim that is split; a larger one is one predicate


@dataclass(slots=True)
class Effect:
    """A step without the state that it starts in: its action, and the atoms that it writes."""

    action: Action
    writes: tuple[tuple[int, int], ...]  # atoms and their codes


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate, and the tree of its results; `effect`: of a claim about steps, the step's."""

    ask: Callable[..., Any]
    tree: int
    effect: Effect | None

    def value(self, traced: TracedState) -> bool:
        """Its value in a state, or for the step with its effect from that state."""
        if self.effect is None:
            return bool(self.ask(traced, (), -1))
        return bool(self.ask(traced, applied(traced, self.effect.writes), self.effect.action))


@dataclass(frozen=True, slots=True)
class _Branch:
    """A predicate of a claim, before the effect is known.

    Attributes:
        text: its source in Python.
        yes, no: the branch that follows where it holds, and where it does not; NO and YES end.
        reads: the cells that it may read; None where its source does not show them.
        took: whether it depends on the action.
    """

    text: str
    yes: int
    no: int
    reads: frozenset[int] | None
    took: bool


class BranchingProgram:
    """A claim as branches, of which the last is the first to evaluate."""

    def __init__(self, e: x.Expression, frame: Frame) -> None:
        self.branches: list[_Branch] = []
        self.known: dict[Hashable, int] = {}  # its programs, by what it depends on of an effect
        self.small = x.cases(e) <= MOST_CASES
        self.start = self._jump(e, frame, YES, NO)
        reads = [branch.reads for branch in self.branches]
        self.reads = None if None in reads else frozenset().union(*(r for r in reads if r))
        self.took = any(branch.took for branch in self.branches)

    def _jump(self, e: x.Expression, f: Frame, yes: int, no: int) -> int:
        """The branch to begin at, which leads to `yes` or to `no`."""
        if not self.small and x.cases(e) > MOST_CASES:
            return self._branch(source(e, f), yes, no)
        match e:
            case x.Literal_(value=bool(value)):
                return yes if value else no
            case x.Apply(op="not", operands=(operand,)):
                return self._jump(operand, f, no, yes)
            case x.Apply(op="and", operands=operands):
                for operand in reversed(operands):
                    yes = self._jump(operand, f, yes, no)
                return yes
            case x.Apply(op="or", operands=operands):
                for operand in reversed(operands):
                    no = self._jump(operand, f, yes, no)
                return no
            case x.Apply(op="if", operands=(test, then, otherwise)):
                first, second = (self._jump(e, f, yes, no) for e in (then, otherwise))
                return self._jump(test, f, first, second)
            case x.Old(operand=operand):
                assert f.before is not None
                return self._jump(operand, replace(f, state=f.before), yes, no)
            case x.Accepts():
                return self._jump(e.meaning, f, yes, no)
            case x.Quantifier(kind="all" | "any") if not isinstance(e.domain, x.Pending):
                return self._members(e, f, yes, no)
            case _:
                return self._branch(source(e, f), yes, no)

    def _members(self, e: x.Quantifier, f: Frame, yes: int, no: int) -> int:
        assert isinstance(e.domain.type, t.Set) and e.domain.type.of is not None
        following = yes if e.kind == "all" else no
        for member in reversed(t.members(e.domain.type.of)):
            inner = replace(f, variables={**f.variables, e.variable: repr(member)})
            at = self._jump(e.body, inner, following if e.kind == "all" else yes, no if e.kind == "all" else following)
            if e.condition is not None:
                at = self._jump(e.condition, inner, at, following)
            if not x.holds_all_members(e.domain):
                at = self._branch(f"({member!r} in {source(e.domain, f)})", at, following)
            following = at
        return following

    def _branch(self, text: str, yes: int, no: int) -> int:
        self.branches.append(_Branch(text, yes, no, cells_read(text, "os"), "a[" in text))
        return len(self.branches) - 1


def _action(effect: Effect) -> tuple[Any, ...]:
    """The properties of an action that `took` and `ignored` may ask for."""
    a = effect.action
    return (a[0] in ("local", "deliver", "tick", "crash"), *a[1:4], a.transition is None)


# A claim about steps that is asked: its probe, and where it begins; or no claim, its program, and whether it is quiet.
_AskedClaim: TypeAlias = tuple[int, BranchingProgram | None, int, bool]
_NOTHING: Hashable = ((), ())  # what a claim depends on of an effect that changes nothing it reads


class Programs:
    """The programs of a search.

    Attributes:
        predicates: by the kernel's number of a test.
        on_steps: claims about steps, and their probes; all are there before the first effect.
    """

    def __init__(self, kernel: Kernel, frame: Frame, cell_of: list[int]) -> None:
        self.kernel, self.frame, self.cell_of = kernel, frame, cell_of
        self.predicates: list[Predicate] = []
        self.on_steps: list[tuple[int, BranchingProgram]] = []
        self._left: dict[Hashable, list[tuple[int, BranchingProgram, int]]] = {}  # by action, those still open
        self._asked: dict[Hashable, list[_AskedClaim]] = {}  # by action, and the cells that are written
        self._trees: dict[Hashable, int] = {}
        self._numbers: dict[tuple[int, int, int], int] = {}

    def of_state(self, e: x.Expression) -> int:
        """The program of a claim about states."""
        claim = BranchingProgram(e, self.frame)
        return self._made(claim, claim.start, None, {})

    def of_source(self, text: str, yes: int) -> int:
        """The program of one predicate whose source is given; `yes` follows where it holds."""
        return self._test(text, yes, NO, None, ())

    def none_of(self, conditions: Iterable[Callable[[Any], bool]]) -> int:
        """The program that says yes where none of these conditions on a state holds, asked in their order."""
        program = YES
        for holds in reversed(list(conditions)):
            self.predicates.append(Predicate(lambda s, e, b, holds=holds: holds(s), tree := self.kernel.tree(), None))
            program = self.kernel.test(tree, NO, program)
        return program

    def of_effect(self, effect: Effect) -> StepClaims:
        """The claims about steps with an effect: probes, and the programs that fire them."""
        action, cells = _action(effect), frozenset([self.cell_of[atom] for atom, _ in effect.writes])
        asked = self._asked.get((action, cells))
        if asked is None:
            asked = self._asked[action, cells] = self._asked_of(action, cells, effect)
        found = [
            (probe, at, quiet) if claim is None else (probe, self._of_step(claim, at, effect), False)
            for probe, claim, at, quiet in asked
        ]  # fmt: skip
        return tuple([one for one in found if one[1] != NO])

    def _asked_of(self, action: Hashable, cells: frozenset[int], effect: Effect) -> list[_AskedClaim]:
        """The claims about steps with an action that writes these cells."""
        left = self._left.get(action)
        if left is None:
            starts = ((probe, claim, self._start(claim, effect)) for probe, claim in self.on_steps)
            left = self._left[action] = [one for one in starts if one[2] != NO]
        asked: list[_AskedClaim] = []
        for probe, claim, start in left:
            if start < 0:
                asked.append((probe, None, start, False))
            elif not claim.took and claim.reads is not None and claim.reads.isdisjoint(cells):
                program = self._of_step(claim, start, effect, _NOTHING)
                asked += [(probe, None, program, program >= 0)] if program != NO else []
            else:
                asked.append((probe, claim, start, False))
        return asked

    def _start(self, claim: BranchingProgram, effect: Effect) -> int:
        """The first branch of a claim about steps that does not depend on the action alone."""
        at = claim.start
        while at >= 0 and (branch := claim.branches[at]).reads is not None and not branch.reads:
            at = branch.yes if _step_function(branch.text)(None, None, effect.action) else branch.no
        return at

    def _of_step(self, claim: BranchingProgram, start: int, effect: Effect, seen: Hashable = None) -> int:
        """The program of a claim about steps for one effect; `seen`: what the claim depends on of that, if known."""
        key = seen or self._seen(claim.reads, claim.took, effect)
        found = claim.known.get(key)
        if found is None:
            found = claim.known[key] = self._made(claim, start, effect, {})
        return found

    def _seen(self, reads: frozenset[int] | None, took: bool, effect: Effect) -> Hashable:
        """The part of an effect that an expression depends on."""
        written = [w for w in effect.writes if reads is None or self.cell_of[w[0]] in reads]
        return _action(effect) if took else (), tuple(written)

    def _made(self, claim: BranchingProgram, at: int, effect: Effect | None, made: dict[int, int]) -> int:
        """The program that begins with a branch."""
        if at < 0:
            return at
        found = made.get(at)
        if found is None:
            branch = claim.branches[at]
            if effect is not None and branch.reads is not None and not branch.reads:
                holds = _step_function(branch.text)(None, None, effect.action)
                found = self._made(claim, branch.yes if holds else branch.no, effect, made)
            else:
                yes, no = (self._made(claim, then, effect, made) for then in (branch.yes, branch.no))
                seen = () if effect is None else self._seen(branch.reads, branch.took, effect)
                found = yes if yes == no else self._test(branch.text, yes, no, effect, seen)
            made[at] = found
        return found

    def _test(self, text: str, yes: int, no: int, effect: Effect | None, seen: Hashable) -> int:
        key = text, effect is not None, seen
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = self.kernel.tree()
        number = self._numbers.get((tree, yes, no))
        if number is None:
            number = self._numbers[tree, yes, no] = self.kernel.test(tree, yes, no)
            self.predicates.append(Predicate(function(text) if effect is None else _step_function(text), tree, effect))
        return number
