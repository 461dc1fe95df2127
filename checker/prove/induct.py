"""Induction over the whole system: which claims every step preserves, all together.

Theory of operation. A claim about states is *inductive* beside others when it holds in the first states, and after
every step from a state in which all of them hold. The largest part of a set of claims that is so is found by taking
out what fails until nothing does (the Houdini algorithm: Flanagan and Leino, FME 2001): a claim that some step breaks,
from a state in which all that are left hold, is taken out, and every step whose proof has used it is asked about again.
What is left holds in every reachable state; claims about steps, which are asked along with them, of every step from
there.

That is done in rounds, the easiest first (`ROUNDS`): each claim by itself, then those that speak of no messages, then
all. What a round has proved the next takes as known.

Steps are asked about by several processes, each of which has the system's encoding; answers are names, as terms do not
travel. A process that crashes, or that its solver does not give back, is replaced, and what it was asked is asked again
in parts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import z3

from leasehold.checker.prove.aside import GIVEN_UP, aside
from leasehold.checker.prove.claims import Claim
from leasehold.checker.prove.encoding import Encoding, scope_of, steps_read_messages
from leasehold.checker.prove.question import FIRST_SECONDS, OWED, Question
from leasehold.checker.prove.steps import Scope
from leasehold.faults.mutants import Deviation
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
        deviations: mistakes that machines make in what every machine does (deviant.py); for `induct` alone.
        until: when it is given up, as `time.perf_counter` counts; None: never.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    scope: Scope | None = None
    limit_seconds: float = LIMIT_SECONDS
    deviations: tuple[Deviation, ...] = ()
    until: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is no time left."""
        return self.until is not None and time.perf_counter() > self.until

    def encoding(self, system: System) -> Encoding:
        return Encoding(
            system, sizes=dict(self.sizes), scope=self.scope or scope_of(system), limit_seconds=self.limit_seconds,
            deviations=self.deviations,
        )  # fmt: skip


ANY = Setting()


@dataclass(frozen=True)
class Round:
    """Claims that are asked about together.

    Attributes:
        method: how a proof of this round is called.
        takes: whether a claim is asked about.
        alone: each claim knows nothing but itself.
        last: nobody asks again of what is lost here.
    """

    method: str
    takes: Callable[[Claim], bool]
    alone: bool = False
    last: bool = False


ROUNDS = (
    Round("induction", lambda claim: claim.written, alone=True),
    Round("induction, with lemmas about states", lambda claim: not claim.speaks_of_messages),
    Round("induction, with lemmas", lambda claim: True, last=True),
)


@dataclass
class Induction:
    """What induction has shown.

    Attributes:
        claims: all that were asked about, by name.
        proved: names of claims that hold of all reachable states and steps, and by which method.
        lost: for each other claim the step that takes it away, from a state in which all that was left then holds.
        undecided: claims about which the solver could not say, or that have no encoding, with the reason.
        steps: how many relations there are.
        owed: whether what steps owe was asked; not where what is proved is so whatever messages are on their way.
        whole: whether the relations are known to be all steps; else nothing is proved.
        questions: to the solver.
        spent: seconds of the solver by claim; of a question about several each has its share.
    """

    claims: dict[str, Claim] = field(default_factory=dict)
    proved: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)
    scope: Scope = field(default_factory=Scope)
    steps: int = 0
    owed: bool = True
    whole: bool = True
    questions: int = 0
    spent: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class _Work:
    """A step, the claims that are asked about, and those that are known beside them."""

    step: int
    asked: tuple[str, ...]
    known: tuple[str, ...]
    alone: bool
    last: bool


@dataclass(frozen=True)
class _Answer:
    """What a step makes of claims: those that are lost, of which the solver cannot say and why, and what was needed."""

    step: int
    name: str
    lost: tuple[str, ...]
    unknown: Mapping[str, str]
    used: frozenset[str]
    questions: int
    spent: Mapping[str, float]


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
    can = {c.name for c in claims if not c.why_not}
    can -= _not_at_first(encoding, [c for c in claims if c.name in can and not c.about_steps], found)
    names = [step.name for step in encoding.steps.every(encoding.before)]
    found.steps = len(names)
    with _asking(system, setting, names, jobs) as ask:
        for round_ in ROUNDS:
            if round_.last and _is_enough(system, found):
                found.owed = False
                break
            left = {c.name for c in claims if c.name in can and c.name not in found.proved and round_.takes(c)}
            found.proved |= dict.fromkeys(_largest(found, left, round_, setting, ask, watch), round_.method)
    owed = [name for name in {*found.lost, *found.undecided} if name.startswith(OWED)]
    if owed:  # then the steps are not all that there are, and nothing follows
        reason = f"not known: {owed[0].removeprefix(OWED)}"
        found.undecided |= dict.fromkeys(found.proved, reason)
        found.proved, found.whole = {}, False
    found.lost = {n: s for n, s in found.lost.items() if n not in found.proved}
    found.undecided = {n: s for n, s in found.undecided.items() if n not in found.proved}
    found.seconds = time.perf_counter() - began
    return found


def _is_enough(system: System, found: Induction) -> bool:
    """Whether nothing that somebody wrote is left, and what is proved is so whatever messages are on their way.

    Then what steps owe, which is about messages alone, need not be asked.
    """
    if steps_read_messages(system):
        return False
    written = [c for c in found.claims.values() if c.written or c.kind == "lemma"]
    return all(c.name in found.proved and not c.speaks_of_messages for c in written)


def _not_at_first(encoding: Encoding, claims: list[Claim], found: Induction) -> set[str]:
    """The claims that do not hold in every first state."""
    solver = encoding.solver()
    first = encoding.first(encoding.before)
    solver.add(*encoding.given, first)
    lost = set()
    for claim in claims:
        goal = encoding.now(claim)
        solver.push()
        solver.add(z3.Not(goal), *encoding.sorts.cardinals.facts([first, goal]))
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


Ask = Callable[[Sequence[_Work]], Iterator[_Answer]]


def _largest(
    found: Induction, left: set[str], round_: Round, setting: Setting, ask: Ask, watch: Watch | None
) -> set[str]:
    """Takes claims out until every step preserves all that are left; these are returned."""
    used: dict[int, set[str]] = {}
    waiting = set(range(found.steps)) if left else set()
    asked, known = 0, tuple(sorted(found.proved))
    for names_of in (found.lost, found.undecided):  # what a round before has found of them holds no more
        for name in [n for n in names_of if n in left or n.startswith(OWED)]:
            del names_of[name]
    while waiting:
        names, lost = tuple(sorted(left)), set[str]()
        for n in waiting:
            used[n] = set()
        for answer in ask([_Work(n, names, known, round_.alone, round_.last) for n in sorted(waiting)]):
            found.questions += answer.questions
            _add(found.spent, answer.spent)
            used[answer.step] |= answer.used
            for name in answer.lost:
                found.lost.setdefault(name, answer.name)
            for name, reason in answer.unknown.items():
                found.undecided.setdefault(name, f"the solver cannot say of {answer.name}: {reason}")
            lost |= {*answer.lost, *answer.unknown} & left
            asked += 1
            if watch is not None:
                watch(asked, max(asked, found.steps), len(left - lost) + len(found.proved))
            if setting.is_over:
                found.undecided |= dict.fromkeys(left - lost, "the time was over")
                if round_.last:
                    found.undecided[f"{OWED}what all steps are"] = "the time was over"
                return set()
        left = left - lost
        waiting = set() if round_.alone else {n for n, names in used.items() if names & lost}
    return left


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for name, seconds in more.items():
        total[name] = total.get(name, 0.0) + seconds


# In the processes


class _Asker:
    """Asks about steps; knows all of them."""

    def __init__(self, system: System, setting: Setting) -> None:
        self.encoding = setting.encoding(system)
        self.claims = {c.name: c for c in self.encoding.claims() if not c.why_not}
        self.steps = list(self.encoding.steps.every(self.encoding.before))

    def ask(self, work: _Work) -> _Answer:
        asked = [self.claims[name] for name in work.asked]
        known = [self.claims[name] for name in work.known if not self.claims[name].about_steps]
        step = self.steps[work.step]
        if work.alone:
            questions = [Question(self.encoding, step, [] if c.about_steps else [c], [c], owed=False) for c in asked]
        else:
            before = [*known, *(c for c in asked if not c.about_steps)]
            questions = [Question(self.encoding, step, before, asked, owed=work.last)]
        # What is not kept alone is asked again.
        seconds = min(FIRST_SECONDS, self.encoding.limit) if work.alone else None
        losses = [loss for question in questions for loss in question.losses(seconds)]
        spent: dict[str, float] = {}
        for question in questions:
            _add(spent, question.spent)
        return _Answer(
            work.step, step.name, tuple(loss.claim for loss in losses if loss.model is not None),
            {loss.claim: loss.reason for loss in losses if loss.model is None},
            frozenset().union(*(question.used for question in questions)), sum(q.queries for q in questions), spent,
        )  # fmt: skip


_asker: _Asker | None = None


def _begin(system: System, setting: Setting) -> None:
    global _asker
    _asker = _Asker(system, setting)


def _ask(work: _Work) -> _Answer:
    assert _asker is not None
    return _asker.ask(work)


@contextmanager
def _asking(system: System, setting: Setting, names: Sequence[str], jobs: int | None) -> Iterator[Ask]:
    if len(system.roles) * len(system.messages) < SMALL:
        asker = _Asker(system, setting)
        yield lambda works: map(asker.ask, works)
        return
    with aside(PATIENCE * setting.limit_seconds, jobs, _begin, (system, setting)) as processes:

        def ask(works: Sequence[_Work]) -> Iterator[_Answer]:
            waiting, crashed = deque(works), set[_Work]()
            for work, future in processes.asked(_ask, waiting):
                try:
                    yield future.result()
                except GIVEN_UP as error:
                    reason = "time" if isinstance(error, TimeoutError) else "the solver crashed"
                    if not isinstance(error, TimeoutError) and work not in crashed:
                        crashed.add(work)
                        waiting.appendleft(work)
                    elif len(work.asked) > 1:
                        waiting.extendleft(reversed(_halves(work)))
                    else:
                        unknown = dict.fromkeys(work.asked, reason)
                        if work.last:  # nor was what the step owes
                            unknown[f"{OWED}what {names[work.step]} is"] = reason
                        yield _Answer(work.step, names[work.step], (), unknown, frozenset(), 1, {})

        yield ask


def _halves(work: _Work) -> list[_Work]:
    """The same question of fewer claims; the others are known, as they are before the step."""
    half = len(work.asked) // 2
    one, other = work.asked[:half], work.asked[half:]
    return [
        replace(work, asked=one, known=(*work.known, *other)), replace(work, asked=other, known=(*work.known, *one)),
    ]  # fmt: skip


PATIENCE = 8  # times the limit of one question, for all that a step is asked
SMALL = 20  # roles times messages: below, another process takes longer to start than the questions take
