"""Claims as branching programs over predicates (branching.py), each with a decision tree of its results.

Theory of operation. A claim about ten machines is not evaluated for each of their million joint states, but each of its
predicates for few states.

A claim about steps has a program for each effect. Its result depends on what it reads of the state before, on what the
effect writes of what it reads after, and on what `took` asks of the action; effects that agree on these share one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from leasehold.checker.explore.ground import function
from leasehold.checker.explore.packed.branching import (
    NO,
    YES,
    Branch,
    Branches,
    branches_of,
    for_writes,
    step_predicate,
)
from leasehold.checker.explore.packed.fields import Fields
from leasehold.checker.explore.packed.kernel import Kernel, StepClaims
from leasehold.checker.explore.packed.traced import TracedState, applied
from leasehold.checker.explore.step import Action
from leasehold.spec.language import expression as x
from leasehold.spec.language.render.python_source import Frame


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


def _action(effect: Effect) -> tuple[Any, ...]:
    """The properties of an action that `took` and `ignored` may ask for."""
    a = effect.action
    return (a.consumes, *a[1:4], a.transition is None)


# A claim about steps that is asked: its probe, and where it begins; or no claim, its program, and whether it is quiet.
_AskedClaim: TypeAlias = tuple[int, Branches | None, int, bool]
_NOTHING: Hashable = ((), ())  # what a claim depends on of an effect that changes nothing it reads


class _UnknownError(Exception):
    """An atom is read of a state of which nothing is known."""


def _unknown(atom: int) -> int:
    raise _UnknownError(atom)


class Programs:
    """The programs of a search.

    Attributes:
        predicates: by the kernel's number of a test.
        on_steps: claims about steps, and their probes; all are there before the first effect.
    """

    def __init__(self, kernel: Kernel, frame: Frame, fields: Fields) -> None:
        self.kernel, self.frame, self.fields = kernel, frame, fields
        self.predicates: list[Predicate] = []
        self.on_steps: list[tuple[int, Branches]] = []
        self._blank = TracedState(fields, _unknown)
        self._left: dict[Hashable, list[tuple[int, Branches, int]]] = {}  # by action, those still open
        self._remaining: dict[tuple[Branches, int, frozenset[int]], Branches] = {}  # by the cells that are written
        self._asked: dict[Hashable, list[_AskedClaim]] = {}  # by action, and the cells that are written
        self._of_effects: dict[Hashable, StepClaims] = {}  # by action, and what is written
        self._values: dict[Hashable, bool | None] = {}  # of branches, for what they depend on of an effect
        self._trees: dict[Hashable, int] = {}
        self._numbers: dict[tuple[int, int, int], int] = {}

    def of_state(self, e: x.Expression) -> int:
        """The program of a claim about states."""
        claim = branches_of(e, self.frame)
        return self._made(claim, claim.start, None, {})

    def on_step(self, e: x.Expression, probe: int) -> None:
        """Has a claim about steps asked."""
        self.on_steps.append((probe, branches_of(e, self.frame)))

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
        action = _action(effect)
        known = self._of_effects.get((action, effect.writes))
        if known is not None:
            return known
        cells = frozenset([self.fields.cell_of[atom] for atom, _ in effect.writes])
        asked = self._asked.get((action, cells))
        if asked is None:
            asked = self._asked[action, cells] = self._asked_of(action, cells, effect)
        programs = [
            (probe, at, quiet) if claim is None else (probe, self._of_step(claim, at, effect), False)
            for probe, claim, at, quiet in asked
        ]
        self._of_effects[action, effect.writes] = claims = tuple([entry for entry in programs if entry[1] != NO])
        return claims

    def _asked_of(self, action: Hashable, cells: frozenset[int], effect: Effect) -> list[_AskedClaim]:
        """The claims about steps with an action that writes these cells."""
        left = self._left.get(action)
        if left is None:
            starts = ((probe, claim, self._start(claim, effect)) for probe, claim in self.on_steps)
            left = self._left[action] = [entry for entry in starts if entry[2] != NO]
        asked: list[_AskedClaim] = []
        for probe, claim, start in left:
            if start < 0 or claim.after is None:
                asked.append((probe, None if start < 0 else claim, start, False))
                continue
            key = claim, start, claim.after & cells
            rest = self._remaining.get(key)
            if rest is None:
                rest = self._remaining[key] = for_writes(*key, self.fields.domain)
            if rest.start < 0 or (not key[2] and not rest.took):
                program = self._of_step(rest, rest.start, effect, _NOTHING)
                asked += [(probe, None, program, program >= 0 and not claim.took)] if program != NO else []
            else:
                asked.append((probe, rest, rest.start, False))
        return asked

    def _start(self, claim: Branches, effect: Effect) -> int:
        """The first branch of a claim about steps that does not depend on the action alone."""
        at = claim.start
        while at >= 0 and (branch := claim.branches[at]).reads is not None and not branch.reads:
            at = branch.yes if step_predicate(branch.text)(None, None, effect.action) else branch.no
        return at

    def _of_step(self, claim: Branches, start: int, effect: Effect, seen: Hashable = None) -> int:
        """The program of a claim about steps for one effect; `seen`: what the claim depends on of that, if known."""
        key = seen or self._seen(claim.after, claim.took, effect)
        program = claim.known.get(key)
        if program is None:
            program = claim.known[key] = self._made(claim, start, effect, {})
        return program

    def _seen(self, after: frozenset[int] | None, took: bool, effect: Effect) -> Hashable:
        """The part of an effect that an expression depends on."""
        cell_of = self.fields.cell_of
        written = [w for w in effect.writes if after is None or cell_of[w[0]] in after]
        return _action(effect) if took else (), tuple(written)

    def _made(self, claim: Branches, at: int, effect: Effect | None, programs: dict[int, int]) -> int:
        """The program that begins with a branch."""
        if at < 0:
            return at
        program = programs.get(at)
        if program is None:
            branch = claim.branches[at]
            seen = () if effect is None else self._seen(branch.after, branch.took, effect)
            holds = None if effect is None else self._holds(branch, effect, seen)
            if holds is not None:
                program = self._made(claim, branch.yes if holds else branch.no, effect, programs)
            else:
                yes, no = (self._made(claim, then, effect, programs) for then in (branch.yes, branch.no))
                program = yes if yes == no else self._test(branch.text, yes, no, effect, seen)
            programs[at] = program
        return program

    def _holds(self, branch: Branch, effect: Effect, seen: Hashable) -> bool | None:
        """Returns whether a branch holds for steps with an effect from any state; None if that depends on the state."""
        key = branch.text, seen
        if key not in self._values:
            try:
                after = applied(self._blank, effect.writes)
                self._values[key] = bool(step_predicate(branch.text)(self._blank, after, effect.action))
            except Exception:  # it reads the state, or an earlier branch keeps it from being asked of this effect
                self._values[key] = None
        return self._values[key]

    def _test(self, text: str, yes: int, no: int, effect: Effect | None, seen: Hashable) -> int:
        key = text, effect is not None, seen
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = self.kernel.tree()
        number = self._numbers.get((tree, yes, no))
        if number is None:
            number = self._numbers[tree, yes, no] = self.kernel.test(tree, yes, no)
            self.predicates.append(Predicate(function(text) if effect is None else step_predicate(text), tree, effect))
        return number
