"""k-induction: a claim that one step may break, but not after several steps along which it has held.

Theory of operation. A claim is *k-inductive* when it holds in the first k states of every run, and after every k steps
along which it has held. (Sheeran, Singh, Stålmarck: FMCAD 2000.) Only the last steps that break it by themselves are
asked about, with every step before them, and of those that do not exclude the break every step before that. What is
proved already is known of every state on the way.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from itertools import islice
from math import inf

import z3

from leasehold.checker.prove.encode.encoding import SLOWEST, Claim, Encoding, work_seconds
from leasehold.checker.prove.encode.formulas import Term, conjunction
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.terms import StepLabel
from leasehold.checker.prove.encode.transitions import SymbolicStep

DEPTH = 3  # steps at most
LEAST_SECONDS = 0.02  # of work, for one query: its terms are built, too


class _GivenUp(Exception):
    """The limit was reached."""


def k_induction(
    encoding: Encoding, claim: Claim, proved: Collection[Claim], *, depth: int = DEPTH, seconds: float = 30.0
) -> int | None:
    """The number of steps with which a claim is inductive; 0: it is not, with up to `depth`; None: that is not decided.

    Args:
        encoding: of the system.
        claim: about states or steps.
        proved: claims about states that hold in every reachable one.
        depth: the most steps.
        seconds: for all of it, of work as `Encoding.solver` counts it; wall time has SLOWEST times as much.
    """
    search = _Search(encoding, claim, proved, seconds)
    try:
        steps = search.depth(depth)
    except _GivenUp:
        return None
    return None if not steps and search.is_unsure else steps


class _Search:
    def __init__(self, encoding: Encoding, claim: Claim, proved: Collection[Claim], seconds: float) -> None:
        self.encoding, self.claim, self.left = encoding, claim, seconds
        self.is_unsure = False  # whether something was taken to be possible as the solver could not say
        self.until = min(time.perf_counter() + SLOWEST * seconds, inf if encoding.until is None else encoding.until)
        self.proved = [c for c in proved if not c.about_steps]
        self.first = list(encoding.relation.steps(encoding.before))  # every path begins with one of these
        every = range(len(self.first))
        self.inner = [n for n in every if not self.first[n].composite]  # a composite step is several of the others
        self.last = list(every) if claim.about_steps else self.inner

    def depth(self, most: int) -> int:
        """The least number of steps, up to a limit, with which the claim is inductive; 0: there is none."""
        wrong: list[tuple[int, ...]] = [(n,) for n in self.last]
        for count in range(1, most + 1):
            if count > 1:
                wrong = [(n, *path) for path in wrong for n in self.inner]
            wrong = [path for path in wrong if self._breaks(path)]
            if not wrong:
                return count if self._begins(count) else 0
        return 0

    def _breaks(self, path: Sequence[int]) -> bool:
        """Returns whether a claim that holds along some steps may not hold after the last of them."""
        given = [self._known(self.encoding.before)]
        if not self.claim.about_steps:
            given.append(self.encoding.now(self.claim))
        return self._may(path, given)

    def _begins(self, count: int) -> bool:
        """Returns whether the claim holds along the first steps of every run."""
        first = self.encoding.first(self.encoding.before)
        if not self.claim.about_steps and self._holds([first, z3.Not(self.encoding.now(self.claim))]):
            return False
        paths: list[tuple[int, ...]] = [()]
        for _ in range(1, count):
            ending = [(*path, n) for path in paths for n in self.last]
            if any(self._may(path, [first]) for path in ending):
                return False
            paths = [(*path, n) for path in paths for n in self.inner]
        return True

    def _may(self, path: Sequence[int], given: list[Term]) -> bool:
        """Returns whether a claim may fail after the last of some steps from a state, where it has held until then."""
        state, step = self.encoding.before, self.first[path[0]]
        for n in path[1:]:
            given = [*given, *step.given, self._known(step.after), self._claim(state, step)]
            state = step.after
            step = next(islice(self.encoding.relation.steps(state), n, None))  # anew: it chooses for itself
        return self._holds([*given, *step.given, z3.Not(self._claim(state, step))])

    def _claim(self, before: SymbolicState, step: SymbolicStep) -> Term:
        after = self.encoding.seen_after(self.claim, step)
        return self.claim.meaning(after, before if self.claim.about_steps else None, step.took)

    def _known(self, state: SymbolicState) -> Term:
        return conjunction(*(c.meaning(state, None, StepLabel()) for c in self.proved))

    def _holds(self, parts: Sequence[Term]) -> bool:
        """Returns whether formulas may hold together; what the solver cannot say may be."""
        if self.left <= 0 or time.perf_counter() > self.until:
            raise _GivenUp
        solver, cardinals = self.encoding.solver(min(self.left, self.encoding.limit)), self.encoding.sorts.cardinals
        solver.add(*self.encoding.given, *parts, *cardinals.facts(parts, subtracted=cardinals.subtracted(parts)))
        began = work_seconds(solver)
        answer = solver.check()
        self.is_unsure = self.is_unsure or answer == z3.unknown
        self.left -= max(LEAST_SECONDS, work_seconds(solver) - began)
        return bool(answer != z3.unsat)
