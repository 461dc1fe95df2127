"""Induction over the whole system: which claims every step preserves, all together.

Theory of operation. A claim about states is *inductive* beside others when it holds in the first states, and after
every step from a state in which all of them hold. The largest part of a set of claims that is so is found by taking
out what fails until nothing does (the Houdini algorithm: Flanagan and Leino, FME 2001): a claim that some step breaks,
from a state in which all that are left hold, is taken out, and every step whose proof has used it is asked about again.
What is left holds in every reachable state; claims about steps, which are asked along with them, of every step from
there.

Steps are asked about by several processes, each of which has the system's encoding; answers are names, as terms do not
travel.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from signal import SIG_IGN, SIGINT, signal

import z3

from leasehold.checker.prove.claims import Claim
from leasehold.checker.prove.encoding import Encoding, scope_of
from leasehold.checker.prove.question import OWED, Question
from leasehold.checker.prove.steps import Scope
from leasehold.checker.prove.terms import Took
from leasehold.checker.prove.values import conjunction
from leasehold.spec.language.model import System

LIMIT_SECONDS = 30.0
START = "the first states"

Watch = Callable[[int, int, int], None]  # steps that were asked about, of how many at least, claims that are left


@dataclass(frozen=True)
class Setting:
    """What a proof is about, beside the system.

    Attributes:
        sizes: numbers of instances that are fixed, by role or type; the others are any.
        scope: the faults; None: all that the system's channels bear.
        limit_seconds: for one question to the solver.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    scope: Scope | None = None
    limit_seconds: float = LIMIT_SECONDS

    def encoding(self, system: System) -> Encoding:
        return Encoding(
            system, sizes=dict(self.sizes), scope=self.scope or scope_of(system), limit_seconds=self.limit_seconds
        )


ANY = Setting()


@dataclass
class Induction:
    """What induction has shown.

    Attributes:
        claims: all that were asked about, by name.
        proved: names of claims that hold of all reachable states and steps.
        lost: for each other claim the step that takes it away, from a state in which all that was left then holds.
        undecided: claims about which the solver could not say, or that have no encoding, with the reason.
        steps: how many relations there are.
        questions: to the solver.
    """

    claims: dict[str, Claim] = field(default_factory=dict)
    proved: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)
    scope: Scope = field(default_factory=Scope)
    steps: int = 0
    questions: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Answer:
    """What a step makes of claims: those that are lost, of which the solver cannot say and why, and what was needed."""

    step: int
    name: str
    lost: tuple[str, ...]
    unknown: Mapping[str, str]
    used: tuple[str, ...]
    questions: int


def induct(system: System, setting: Setting = ANY, *, jobs: int | None = None, watch: Watch | None = None) -> Induction:
    """Finds which claims of a system hold of all its states and steps.

    Args:
        system: with its lemmas.
        setting: what it is about.
        jobs: processes; left out: one for each processor.
        watch: hears how far it is.

    Raises:
        Unsupported: the system has something that has no encoding.
    """
    began = time.perf_counter()
    encoding = setting.encoding(system)
    found = Induction(scope=encoding.scope)
    claims = encoding.claims()
    found.claims = {c.name: c for c in claims}
    found.undecided = {c.name: c.why_not for c in claims if c.why_not}
    left = {c.name for c in claims if not c.why_not}
    left -= _not_at_first(encoding, [c for c in claims if c.name in left and not c.about_steps], found)
    found.steps = sum(1 for _ in encoding.steps.every(encoding.before))
    with _asking(system, setting, jobs) as ask:
        _largest(found, left, ask, watch)
    owed = [name for name in {*found.lost, *found.undecided} if name.startswith(OWED)]
    if owed:  # then the steps are not all that there are, and nothing follows
        reason = f"not known: {owed[0].removeprefix(OWED)}"
        found.undecided |= dict.fromkeys(left, reason)
    else:
        found.proved = left
    found.lost = {n: s for n, s in found.lost.items() if n not in found.proved}
    found.seconds = time.perf_counter() - began
    return found


def _not_at_first(encoding: Encoding, claims: list[Claim], found: Induction) -> set[str]:
    """The claims that do not hold in every first state."""
    solver = encoding.solver()
    first = encoding.first(encoding.before)
    solver.add(*encoding.given, first)
    lost = set()
    for claim in claims:
        goal = claim.words(encoding.before, None, Took())
        solver.push()
        solver.add(z3.Not(goal), *encoding.sorts.cardinals.facts(conjunction(first, goal)))
        answer = solver.check()
        found.questions += 1
        if answer == z3.sat:
            found.lost[claim.name] = START
        elif answer == z3.unknown:
            found.undecided[claim.name] = f"the solver cannot say of {START}: {solver.reason_unknown()}"
        if answer != z3.unsat:
            lost.add(claim.name)
        solver.pop()
    return lost


Work = tuple[int, tuple[str, ...]]  # a step, and the claims that are left
Ask = Callable[[list[Work]], Iterator[_Answer]]


def _largest(found: Induction, left: set[str], ask: Ask, watch: Watch | None) -> None:
    """Takes claims out until every step preserves all that are left."""
    used: dict[int, set[str]] = {}
    waiting = set(range(found.steps))
    asked = 0
    while waiting:
        names, lost = tuple(sorted(left)), set[str]()
        for answer in ask([(n, names) for n in sorted(waiting)]):
            found.questions += answer.questions
            used[answer.step] = set(answer.used)
            for name in answer.lost:
                found.lost.setdefault(name, answer.name)
            for name, reason in answer.unknown.items():
                found.undecided.setdefault(name, f"the solver cannot say of {answer.name}: {reason}")
            lost |= {*answer.lost, *answer.unknown} & left
            asked += 1
            if watch is not None:
                watch(asked, max(asked, found.steps), len(left - lost))
        left -= lost
        waiting = {n for n, names in used.items() if names & lost}


# In the processes


class _Asker:
    """Asks about steps; keeps what it has built for a step, as it is asked about it again."""

    def __init__(self, system: System, setting: Setting) -> None:
        self.encoding = setting.encoding(system)
        self.claims = [c for c in self.encoding.claims() if not c.why_not]
        self.steps = list(self.encoding.steps.every(self.encoding.before))

    def ask(self, n: int, left: tuple[str, ...]) -> _Answer:
        names = set(left)
        asked = [c for c in self.claims if c.name in names]
        known = [c for c in asked if not c.about_steps]
        question = Question(self.encoding, self.steps[n], known, asked)
        losses = question.losses(c.name for c in known)
        return _Answer(
            n, self.steps[n].name, tuple(loss.claim for loss in losses if loss.model is not None),
            {loss.claim: loss.reason for loss in losses if loss.model is None}, tuple(question.used), question.queries,
        )  # fmt: skip


_asker: _Asker | None = None


def _begin(system: System, setting: Setting) -> None:
    global _asker
    signal(SIGINT, SIG_IGN)
    _asker = _Asker(system, setting)


def _ask(work: Work) -> _Answer:
    assert _asker is not None
    return _asker.ask(*work)


@contextmanager
def _asking(system: System, setting: Setting, jobs: int | None) -> Iterator[Ask]:
    if len(system.roles) * len(system.messages) < SMALL:
        asker = _Asker(system, setting)
        yield lambda work: (asker.ask(*w) for w in work)
        return
    pools = [_pool(system, setting, jobs)]

    def ask(work: list[Work]) -> Iterator[_Answer]:
        left = dict(work)
        while left:
            futures = [pools[-1].submit(_ask, w) for w in left.items()]
            try:
                for future in as_completed(futures):
                    answer = future.result()
                    del left[answer.step]
                    yield answer
            except BrokenProcessPool:  # a solver has crashed; what it was asked is asked of another
                if len(pools) > CRASHES:
                    raise
                pools.append(_pool(system, setting, jobs))

    try:
        yield ask
    finally:
        pools[-1].shutdown(cancel_futures=True)


def _pool(system: System, setting: Setting, jobs: int | None) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs or os.cpu_count() or 1, context, initializer=_begin, initargs=(system, setting))


CRASHES = 5  # of solvers, after which it is given up
SMALL = 20  # roles times messages: below, another process takes longer to start than the questions take
