"""Induction over the whole system: the largest set of claims that every step preserves.

Theory of operation. A set of claims about states is *inductive* when all hold in the initial states, and after every
step from a state in which all hold. The Houdini algorithm (Flanagan and Leino, FME 2001) finds the largest inductive
subset: a claim that some step breaks, from a state in which all that are left hold, is left out, and every step whose
proof has used it is asked about again. The rest holds in every reachable state; claims about steps are asked along with
them.

There are several rounds, the easiest first (`ROUNDS`): each claim by itself, then those that do not mention messages,
then all. The claims that a round has proved are known in the next. Where the last one has to be asked in any case, the
one before it is left out: the last proves what it proves.

Worker processes ask about steps, each with its own encoding of the system; their answers are names, as terms do not
travel. A worker that crashes or hangs is replaced, and its question is asked again in parts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf

import z3
from pebble import ProcessExpired

from leasehold.checker.prove.decide.obligation import FIRST_SECONDS, SIDE_CONDITION, ProofObligation
from leasehold.checker.prove.decide.set_aside import GIVEN_UP, worker_pool
from leasehold.checker.prove.encode.encoding import SLOWEST, Claim, Encoding, MakesRelation
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.properties import steps_read_messages
from leasehold.checker.prove.encode.transitions import TransitionRelation
from leasehold.spec.language.model import System
from leasehold.spec.language.types import Value

LIMIT_SECONDS = 30.0
START = "the initial states"

Watch = Callable[[int, int, int], None]  # steps that were asked about, of how many at least, claims that are left


@dataclass(frozen=True)
class Setting:
    """The setting that a proof is about, besides the system.

    Attributes:
        sizes: numbers of instances that are fixed, by role or type; the others are any.
        scope: the faults; None: all that the system's channels bear.
        limit_seconds: for one question to the solver, of work; wall time has SLOWEST times as much.
        relation: makes the transition relation; another than the usual one for `induct` alone.
        until: the end of all of it, as `time.perf_counter` counts; None: no end.
        values: constants that have these values, by name; the others have any.
        memory: bytes that a search of a small setting may hold; None: most of what is free.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    scope: FaultScope | None = None
    limit_seconds: float = LIMIT_SECONDS
    relation: MakesRelation = TransitionRelation
    until: float | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    memory: int | None = None

    def limited(self, seconds: float) -> Setting:
        """The same, for so long at most."""
        end = time.perf_counter() + seconds
        return replace(self, until=end if self.until is None else min(self.until, end))

    @property
    def seconds_left(self) -> float:
        """Returns how much time there is; infinite where it has no end."""
        return inf if self.until is None else max(0.0, self.until - time.perf_counter())

    @property
    def is_over(self) -> bool:
        """Returns whether there is no time left."""
        return not self.seconds_left

    def encoding(self, system: System) -> Encoding:
        return Encoding(
            system,
            sizes=dict(self.sizes),
            scope=self.scope or FaultScope.of(system),
            limit_seconds=self.limit_seconds,
            until=self.until,
            relation=self.relation,
            values=self.values,
        )


ANY = Setting()


@dataclass(frozen=True)
class Round:
    """Claims that are asked about together.

    Attributes:
        method: how a proof of this round is called.
        takes: whether a claim is asked about.
        alone: each claim knows nothing but itself.
        last: claims that fail here are not asked again.
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
    """The result of induction.

    Attributes:
        claims: all that were asked about, by name.
        proved: names of claims that hold in all reachable states and steps, and by which method.
        broken_by: for each other claim the step of its counterexample to induction.
        undecided: claims that the solver could not decide, or that have no encoding, with the reason.
        steps: how many relations there are.
        side_conditions: whether steps' side conditions were asked; False where the proofs hold for any messages.
        whole: whether the relations are known to be all steps; else only what holds for any messages is proved.
        questions: to the solver.
        spent: seconds of the solver by claim; of a question about several each has its share.
    """

    claims: dict[str, Claim] = field(default_factory=dict)
    proved: dict[str, str] = field(default_factory=dict)
    broken_by: dict[str, str] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)
    scope: FaultScope = field(default_factory=FaultScope)
    steps: int = 0
    side_conditions: bool = True
    whole: bool = True
    questions: int = 0
    spent: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class _StepQuery:
    """A step, the claims that are asked about, and those that are known beside them."""

    step: int
    asked: tuple[str, ...]
    known: tuple[str, ...]
    alone: bool
    last: bool


@dataclass(frozen=True)
class _StepResult:
    """The claims that a step breaks, those that the solver cannot decide and why, and those that were needed."""

    step: int
    name: str
    broken: tuple[str, ...]
    unknown: Mapping[str, str]
    used: frozenset[str]
    questions: int
    spent: Mapping[str, float]


def induct(
    system: System,
    setting: Setting = ANY,
    *,
    jobs: int | None = None,
    watch: Watch | None = None,
    rounds: Sequence[Round] | None = None,
    before: Induction | None = None,
    contradicted: Collection[str] = (),
) -> Induction:
    """Finds which claims of a system hold of all its states and steps.

    Args:
        system: with its lemmas.
        setting: what it is about.
        jobs: processes; left out: one for each processor.
        watch: hears how far it is.
        rounds: without the last, side conditions are not asked, and what is proved holds only if they do. Left out:
            those that may be needed.
        before: what was found of the same system with fewer claims. It is known, and not asked again.
        contradicted: claims that a run contradicts, which are not asked about.

    Raises:
        Unencodable: the system has something that has no encoding.
    """
    began = time.perf_counter()
    encoding = setting.encoding(system)
    induction = Induction(scope=encoding.scope)
    claims = claims_of(encoding)
    induction.claims = {c.name: c for c in claims}
    induction.undecided = {c.name: c.why_not for c in claims if c.why_not}
    left_out = ROUNDS[1] if rounds is None and not _may_be_enough(system, claims) else None
    rounds = [round_ for round_ in ROUNDS if round_ is not left_out] if rounds is None else rounds
    can = {c.name for c in claims if not c.why_not and any(round_.takes(c) for round_ in rounds)} - {*contradicted}
    if before is not None and before.whole and before.side_conditions:
        induction.proved = dict(before.proved)
        can -= before.claims.keys()
        rounds = [replace(round_, last=False) for round_ in rounds]  # side conditions hold of all messages
    can -= _not_at_first(setting, encoding, [c for c in claims if c.name in can and not c.about_steps], induction)
    asker = _Asker(encoding, claims)
    induction.steps = len(asker.steps)
    if setting.is_over:
        induction.undecided |= dict.fromkeys(can - induction.proved.keys(), ENDED)
        induction.whole = induction.side_conditions = False
        induction.seconds = time.perf_counter() - began
        return induction
    with _asking(system, setting, asker, jobs) as ask:

        def proves(round_: Round) -> None:
            left = {c.name for c in claims if c.name in can and c.name not in induction.proved and round_.takes(c)}
            induction.proved |= dict.fromkeys(_largest(induction, left, round_, setting, ask, watch), round_.method)

        for round_ in rounds:
            if round_.last and _is_enough(system, induction):
                induction.side_conditions = False
                break
            proves(round_)
        open_ = [name for name in {*induction.broken_by, *induction.undecided} if name.startswith(SIDE_CONDITION)]
        if open_:  # then the relation may lack steps, and nothing follows that depends on messages
            lost = induction.proved
            if left_out is not None and not setting.is_over:
                reasons = dict(induction.broken_by), dict(induction.undecided)
                induction.proved = {name: how for name, how in lost.items() if how == ROUNDS[0].method}
                proves(left_out)
                induction.broken_by, induction.undecided = reasons  # of the last round, which knew more
            induction.proved = _for_any_messages(system, induction)
            induction.undecided |= dict.fromkeys(
                lost.keys() - induction.proved.keys(), _side_condition_reason(open_[0])
            )
            induction.whole, induction.side_conditions = False, not induction.proved
    induction.broken_by = {n: s for n, s in induction.broken_by.items() if n not in induction.proved}
    induction.undecided = {n: s for n, s in induction.undecided.items() if n not in induction.proved}
    induction.seconds = time.perf_counter() - began
    return induction


def _side_condition_reason(name: str) -> str:
    """Returns why nothing is proved, where a side condition of some step was not shown."""
    text = name.removeprefix(SIDE_CONDITION)
    message, again, _ = text.partition(" is sent again as it was")
    needed = f"message {message}, sent again, is the one that was sent before" if again else text
    return f"the proof would need that {needed}; the solver could not show that"


def _for_any_messages(system: System, induction: Induction) -> dict[str, str]:
    """Returns what was proved without the side conditions: neither it nor what it was proved with speaks of messages.

    So a lemma that is not proved takes nothing away that is proved without it.
    """
    if steps_read_messages(system):
        return {}
    alone, with_states = ({n for n, how in induction.proved.items() if how == r.method} for r in ROUNDS[:2])
    silent = {n for n in alone if not induction.claims[n].speaks_of_messages}
    if silent == alone:  # else one that does may have been used beside them
        silent |= with_states
    return {n: how for n, how in induction.proved.items() if n in silent}


def _gave_up(question: str, reason: str, seconds: float) -> str:
    """Returns why a claim is undecided, where the solver gave up.

    Args:
        question: what it was asked, after "whether".
        reason: as the solver gives it.
        seconds: the limit that it had.
    """
    if reason in OUT_OF_TIME:
        return f"time: the solver did not decide within {seconds:g} s whether {question}; give --limit more"
    return f"the solver gave up on whether {question}: {reason}"


def _is_enough(system: System, induction: Induction) -> bool:
    """Returns whether all properties and lemmas are proved, and their proofs hold for any messages.

    Then side conditions, which are about messages alone, need not be asked.
    """
    claims = induction.claims.values()
    return _may_be_enough(system, claims) and all(c.name in induction.proved for c in claims if _is_given(c))


def _may_be_enough(system: System, claims: Iterable[Claim]) -> bool:
    """Returns whether no property, lemma or guard speaks of messages."""
    return not steps_read_messages(system) and not any(c.speaks_of_messages for c in claims if _is_given(c))


def _is_given(claim: Claim) -> bool:
    """Returns whether it is a property or a lemma."""
    return claim.written or claim.kind == "lemma"


def _not_at_first(setting: Setting, encoding: Encoding, claims: list[Claim], induction: Induction) -> set[str]:
    """The claims that do not hold in every initial state."""
    first = encoding.first(encoding.before)
    lost = set()
    for claim in claims:
        if setting.is_over:
            induction.undecided[claim.name] = f"time: it ended before it was asked whether it holds in {START}"
            lost.add(claim.name)
            continue
        goal = encoding.now(claim)
        solver, cardinals = encoding.solver(), encoding.sorts.cardinals
        solver.add(*encoding.given, first, z3.Not(goal))
        solver.add(*cardinals.facts([first, goal], subtracted=cardinals.subtracted([goal])))
        answer = solver.check()
        induction.questions += 1
        if answer == z3.sat:
            induction.broken_by[claim.name] = START
        elif answer == z3.unknown:
            induction.undecided[claim.name] = _gave_up(f"it holds in {START}", solver.reason_unknown(), encoding.limit)
        if answer != z3.unsat:
            lost.add(claim.name)
    return lost


Ask = Callable[[Iterable[_StepQuery]], Iterator[_StepResult]]


def _largest(
    induction: Induction, left: set[str], round_: Round, setting: Setting, ask: Ask, watch: Watch | None
) -> set[str]:
    """Leaves claims out until every step preserves the rest, and returns these."""
    used: dict[int, set[str]] = {}
    waiting = set(range(induction.steps)) if left else set()
    asked, known = 0, tuple(sorted(induction.proved))
    for names_of in (induction.broken_by, induction.undecided):  # the results of an earlier round
        for name in [n for n in names_of if n in left or n.startswith(SIDE_CONDITION)]:
            del names_of[name]
    while waiting:
        lost, broken = set[str](), set[str]()
        for n in waiting:
            used[n] = set()
        # What a step has broken is not asked of those that come after it; the others were asked as if it were known.
        queries = (
            _StepQuery(n, names, known, round_.alone, round_.last)
            for n in sorted(waiting)
            if (names := tuple(sorted(left - broken))) or round_.last
        )
        for answer in ask(queries):
            induction.questions += answer.questions
            _add(induction.spent, answer.spent)
            used[answer.step] |= answer.used
            for name in answer.broken:
                induction.broken_by.setdefault(name, answer.name)
            for name, reason in answer.unknown.items():
                induction.undecided.setdefault(name, reason)
            broken |= {*answer.broken, *(answer.unknown if round_.alone else ())}  # another round asks of these
            lost |= {*answer.broken, *answer.unknown} & left
            asked += 1
            if watch is not None:
                watch(asked, max(asked, induction.steps), len(left - lost) + len(induction.proved))
            if setting.is_over:
                reason = f"time: it ended while it was asked whether {answer.name} keeps it"
                induction.undecided |= dict.fromkeys(left - lost, reason)
                if round_.last:
                    induction.undecided[f"{SIDE_CONDITION}messages that are sent again are those sent before"] = reason
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

    def __init__(self, encoding: Encoding, claims: Sequence[Claim]) -> None:
        self.encoding = encoding
        self.claims = {c.name: c for c in claims if not c.why_not}
        self.steps = list(encoding.relation.steps(encoding.before))

    def ask(self, work: _StepQuery) -> _StepResult:
        asked = [self.claims[name] for name in work.asked]
        known = [self.claims[name] for name in work.known if not self.claims[name].about_steps]
        step = self.steps[work.step]
        before = [] if work.alone else [*known, *(c for c in asked if not c.about_steps)]
        question = ProofObligation(self.encoding, step, before, asked, side_conditions=work.last, alone=work.alone)
        # A claim that is not inductive alone is asked again.
        seconds = min(FIRST_SECONDS, self.encoding.limit) if work.alone else None
        undischarged = question.undischarged(seconds)
        return _StepResult(
            work.step,
            step.name,
            tuple(loss.claim for loss in undischarged if loss.model is not None),
            {
                loss.claim: _gave_up(_keeps(step.name), loss.reason, seconds or self.encoding.limit)
                for loss in undischarged
                if loss.model is None
            },
            frozenset(question.used),
            question.queries,
            dict(question.spent),
        )


def _keeps(step: str) -> str:
    return f"the step {step!r} keeps it"


_asker: _Asker | None = None


def _begin(system: System, setting: Setting) -> None:
    global _asker
    encoding = setting.encoding(system)
    _asker = _Asker(encoding, claims_of(encoding))


def _ask(work: _StepQuery) -> _StepResult:
    assert _asker is not None
    return _asker.ask(work)


@contextmanager
def _asking(system: System, setting: Setting, asker: _Asker, jobs: int | None) -> Iterator[Ask]:
    if len(system.roles) * len(system.messages) < SMALL or setting.is_over:
        yield lambda works: map(asker.ask, works)
        return
    names = [step.name for step in asker.steps]
    with worker_pool(
        STEP_LIMITS * setting.limit_seconds, jobs, _begin, (system, setting), until=setting.until
    ) as processes:

        def ask(works: Iterable[_StepQuery]) -> Iterator[_StepResult]:
            sooner, crashed = deque[_StepQuery](), set[_StepQuery]()
            for work, future in processes.asked(_ask, works, sooner):
                try:
                    yield future.result()
                except GIVEN_UP as error:
                    over = isinstance(error, TimeoutError)
                    limit = STEP_LIMITS * setting.limit_seconds
                    why = "timeout" if over else str(error) if isinstance(error, z3.Z3Exception) else "it crashed"
                    reason = _gave_up(_keeps(names[work.step]), why, limit)
                    if isinstance(error, ProcessExpired) and work not in crashed:
                        crashed.add(work)
                        sooner.appendleft(work)
                    elif len(work.asked) > 1 and not setting.is_over:
                        sooner.extendleft(reversed(_halves(work)))
                    else:
                        unknown = dict.fromkeys(work.asked, reason)
                        if work.last:  # nor were its side conditions
                            unknown[f"{SIDE_CONDITION}what {names[work.step]!r} sends again was sent before"] = reason
                        yield _StepResult(work.step, names[work.step], (), unknown, frozenset(), 1, {})

        yield ask


def _halves(work: _StepQuery) -> list[_StepQuery]:
    """The same question of fewer claims; the others are known, as they are before the step."""
    half = len(work.asked) // 2
    one, other = work.asked[:half], work.asked[half:]
    return [
        replace(work, asked=one, known=(*work.known, *other)),
        replace(work, asked=other, known=(*work.known, *one)),
    ]


ENDED = "time: it ended before the first step was asked about"
OUT_OF_TIME = ("timeout", "canceled", "max. resource limit exceeded")  # reasons of the solver
STEP_LIMITS = 2 * SLOWEST  # times the limit of one question, in wall time, for all questions about a step
SMALL = 20  # roles times messages: below, another process takes longer to start than the questions take
