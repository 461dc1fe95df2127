"""The prover against the explorer: nothing that is proved may be violated in any run.

Theory of operation. A system is drawn by chance, and the reference explorer walks through it, with faults. Claims that
the walk violates are asked of the prover: claims that are aimed at its steps (described.py), and claims by chance. One
that is violated and yet proved contradicts the explorer, within what the proof says that it holds for.

The first question is about the steps that stand for those that violate a claim (refute.py), the second about all steps:
induction of claims that know nothing but themselves. What it keeps is asked of the whole prover, which must prove it
too. Some systems are asked of the whole prover at once.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.properties import PropertyClaims, WatchedClaim
from leasehold.checker.explore.reference import Reference
from leasehold.checker.prove import Proof, prove
from leasehold.checker.prove.decide.induction import ANY, Round, Setting, induct
from leasehold.checker.prove.encode.encoding import MakesRelation
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Unencodable
from leasehold.checker.prove.encode.state import StateSchema
from leasehold.checker.prove.encode.transitions import TransitionRelation
from leasehold.faults.model import Budget
from leasehold.spec import SpecError, System, load
from leasehold.spec.language.model import Property
from tests.checker.prove.described import PARTS, AimedClaim, Describer
from tests.checker.prove.drawn_features import features
from tests.checker.prove.drawn_sources import FactWriter, Source, scalars_by_chance
from tests.checker.prove.refute import Answers, refuted
from tests.checker.prove.walks import WalkedStep, walked

STEPS = 80  # of a walk
AIMED = 8  # steps that claims are aimed at
PARTLY = 1  # of them with a second claim, about a part of the step
STATES = 3  # of the states that they lead to, at which claims about states are aimed
WITH_INVARIANTS = 4  # of the claims that are aimed at steps, where the whole prover is asked
ASKED = 1  # of claims by chance: violated ones of each kind, and as many others where the whole prover is asked
WHOLE, SEARCHED = 0.04, 0.01  # shares of the systems of which the whole prover is asked, and with all its strategies
THOROUGH = 0.1  # share of the systems all of whose claims are asked of all steps, and those about states together
SEARCHING = 10.0  # seconds for all strategies
LIMIT, CONFIRMING = 1.0, 20.0  # seconds for a question to the solver: to find what may be proved, and to prove it
FORGETS = 0.15  # of the systems lose stores
FORGETFUL = ("amnesia=1", "amnesia=2,lose=1", "crash=2,amnesia=1,duplicate=1,reorder=1")
BUDGETS = (
    "crash=2,duplicate=1,lose=1,reorder=1",
    "crash=1,duplicate=2,reorder=1",
    "crash=3,lose=1",
    "crash=2,power_cut=1",
    "crash=1,partition=1,halt=1,lose=1",
    "duplicate=2,lose=2,reorder=2",
    "crash=3",
)
OTHERS: tuple[dict[str, str], ...] = ({"n": "1"}, {"n": "3"}, {"cap": "2"}, {"n": "3", "cap": "2"})
USUAL = (
    "event",
    "event, which sends",
    "message, in turn",
    "ignored message, in turn",
    "loss of a message",
    "loss of a duplicate",
    "duplicate",
    "clock",
)  # kinds of steps that nearly every walk has
QUICK = (
    Round("steps", lambda claim: claim.about_steps),
    Round("states", lambda claim: claim.written and not claim.about_steps, alone=True),
)
TOGETHER = (QUICK[0], replace(QUICK[1], alone=False))
T = TypeVar("T")


@dataclass(frozen=True)
class Violation:
    """The exploration that violates a claim.

    Attributes:
        constants: their values.
        kind: of the step that violates it, or `state`.
        text: the claim.
    """

    constants: Mapping[str, str]
    budget: str
    kind: str
    text: str


@dataclass
class Judged:
    """Results for one system.

    Attributes:
        refused: what the loader or the prover says of a system that it does not take.
        claims: how many were asked about.
        proved: of these.
        methods: how many were proved by each.
        open: of claims that a run violates, those that the solver could not decide: they show nothing.
        aimed: how many claims were aimed at steps of each kind.
        features: what the system has.
        contradicted: claims that are proved and violated, and where.
    """

    refused: str = ""
    claims: int = 0
    proved: int = 0
    methods: Counter[str] = field(default_factory=Counter)
    open: int = 0
    aimed: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    contradicted: dict[str, Violation] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Walk:
    """A walk through a system, under a budget of faults."""

    world: Reference
    budget: str
    steps: Sequence[WalkedStep]

    @classmethod
    def through(cls, system: System, budget: str, rng: Random) -> Walk:
        world = reference_of(system, Budget.parse(budget) if budget else None)
        return cls(world, budget, list(walked(world, rng, STEPS)))

    def violation(self, kind: str, text: str) -> Violation:
        constants = {name: str(value) for name, value in self.world.system.values().items()}
        return Violation(constants, self.budget, kind, text)

    def violated(self) -> Iterator[tuple[WatchedClaim, Violation]]:
        """The system's properties that the walk violates."""
        claims = PropertyClaims(self.world.system, self.world)
        for n, step in enumerate(self.steps):
            claims.state(n, step.before)
            claims.step(n, step.before, step.action, step.after)
            claims.state(n, step.after)
        for claim in (*claims.invariants, *claims.steps):
            if claim.found is not None:
                yield claim, self.violation("by chance", "")

    def breaking(self, kind: str, holds: Callable[..., bool]) -> WalkedStep | None:
        """The step that violates a claim about steps, or after which one about states is false; None: it never held."""
        for step in self.steps:
            if kind == "step":
                broken = not holds(step.before, step.after, step.action)
            else:
                broken = holds(step.before, (), -1) and not holds(step.after, (), -1)
            if broken:
                return step
        return None


@dataclass(frozen=True)
class Drawn:
    """A system, the claims that runs of it violate, and those that none did.

    Attributes:
        broken: the step that violates a claim, where one does.
        thorough: whether all claims are asked of all steps.
    """

    system: System
    violated: Mapping[str, list[Violation]]
    aimed: Mapping[str, AimedClaim]
    broken: Mapping[str, WalkedStep]
    scope: FaultScope | None
    thorough: bool
    answers: Answers = field(default_factory=Answers)


def judge(rng: Random, *, every: bool = True, source: Source = scalars_by_chance) -> Judged:
    """Draws a system and compares.

    Args:
        every: strategies beyond induction are tried now and then.
        source: draws it.
    """
    began = time.process_time()
    drawn = draw(rng, source)
    if isinstance(drawn, str):
        return Judged(refused=drawn.splitlines()[0])
    found = compared(drawn, rng, every=every)
    found.seconds = time.process_time() - began
    return found


def draw(rng: Random, source: Source = scalars_by_chance) -> Drawn | str:
    """A system and what runs of it violate; the loader's words where it does not take it."""
    with tempfile.TemporaryDirectory() as made:
        return _drawn(Path(made), rng, source)


def compared(drawn: Drawn, rng: Random, *, every: bool = True) -> Judged:
    """Asks the prover about what the runs of a system violate."""
    began = time.process_time()
    found = Judged(aimed=Counter(a.kind for a in drawn.aimed.values()), features=Counter(features(drawn.system)))
    setting = replace(ANY, scope=drawn.scope, limit_seconds=LIMIT)
    try:
        _ask_about_steps(drawn, setting, rng, found)
        if rng.random() < WHOLE:
            small = every and rng.random() < SEARCHED / WHOLE
            names = [
                *_some(rng, ASKED, [n for n in drawn.system.properties if n not in drawn.violated]),
                *_some(rng, ASKED, [n for n in drawn.violated if n not in drawn.aimed]),
            ]
            # Steps from states that the prover's own invariants exclude are no counterexamples here.
            aimed = _some(rng, WITH_INVARIANTS, list(drawn.aimed))
            asked = {n: drawn.system.properties[n] for n in names}
            asked |= {n: replace(drawn.aimed[n].of, name=n) for n in aimed}
            _ask_prover(drawn, asked, setting, found, small)
    except Unencodable as error:
        return Judged(refused=f"the prover: {error}")
    found.seconds = time.process_time() - began
    return found


def _some(rng: Random, most: int, among: Sequence[T]) -> list[T]:
    return rng.sample(among, min(most, len(among)))


def _drawn(folder: Path, rng: Random, source: Source) -> Drawn | str:
    drawn = source(folder, rng)
    if isinstance(drawn, str):
        return drawn
    system, writer = drawn
    violated: dict[str, list[Violation]] = {}
    broken: dict[str, WalkedStep | None] = {}
    faulty = FaultScope.of(system).any
    scope = FaultScope(crash=False, network=False) if faulty and rng.random() < 0.15 else None
    budgets = BUDGETS if faulty and scope is None else ("",)
    if faulty and scope is None and _forgets(system):
        scope, budgets = FaultScope(amnesia=True), FORGETFUL
    others = [*_some(rng, 1, OTHERS), {}] if rng.random() < 0.6 else [{}]
    walks = []
    for settings in others:
        try:
            here = load(folder, settings) if settings else system
        except SpecError:  # there is no such system
            continue
        walks.append(Walk.through(here, rng.choice(budgets), rng))
        for claim, violation in walks[-1].violated():
            violated.setdefault(claim.of.name, []).append(violation)
            broken[claim.of.name] = walks[-1].breaking(claim.of.kind, claim.holds)
    walk = rng.choice(walks)  # that claims are aimed at
    if not walk.steps:
        return "no initial state, or no step"
    thorough = rng.random() < THOROUGH
    aimed = _aimed(walk, rng, writer, thorough)
    for name, found in aimed.items():
        violated[name] = [walk.violation(found.kind, found.text)]
        broken[name] = walk.breaking(found.of.kind, found.holds)
    known = {name: step for name, step in broken.items() if step is not None}
    return Drawn(walk.world.system, violated, aimed, known, scope, thorough)


def _forgets(system: System) -> bool:
    """Returns whether stores are lost in runs of a system; chosen by its text, as a draw would change all after it."""
    if system.initially is not None or any(d.any_initial for r in system.roles.values() for d in r.data.values()):
        return False
    one_start = all(len(role.initial) == 1 for role in system.roles.values())
    return one_start and Random(system.digest).random() < FORGETS


def _aimed(walk: Walk, rng: Random, writer: FactWriter, thorough: bool) -> dict[str, AimedClaim]:
    """Claims aimed at steps of as many kinds as can be, and at states that they lead to."""
    shares = {"records": 0.0, "counts": 0.6}
    without = frozenset(part for part in PARTS if rng.random() < shares.get(part, 0.1))
    describer = Describer(walk.world, without)
    by_kind: dict[str, dict[tuple[str, str], WalkedStep]] = {}
    for step in rng.sample(walk.steps, len(walk.steps)):
        by_kind.setdefault(step.kind, {})[step.place] = step
    kinds = sorted(by_kind, key=lambda kind: rng.random() + 0.5 * (kind in USUAL))
    each = [list(by_kind[kind].values()) for kind in kinds]
    steps = [step for some in zip_longest(*each) for step in some if step is not None][:AIMED]
    facts = [writer.facts(rng.choice((0, 0, 1, 2))) for _ in steps]
    claims = [describer.aimed(step, rng, True, some) for step, some in zip(steps, facts, strict=True)]
    claims += [describer.aimed(step, rng, False, writer.facts(1)) for step in _some(rng, PARTLY, steps)]
    claims.append(describer.first(walk.steps[0].before, writer.kept))
    usual = walk.world.initial_states()[0]
    if thorough:
        claims += describer.ladder(usual, [step.after for step in walk.steps])
    else:
        claims += [
            describer.aimed_at(usual, rng.choice((step.before, step.after)), rng) for step in _some(rng, STATES, steps)
        ]
    return {f"aimed{n}": claim for n, claim in enumerate(claims) if claim is not None}


def _ask_about_steps(drawn: Drawn, setting: Setting, rng: Random, found: Judged) -> None:
    """Asks induction about claims that are violated, and the prover about those that it keeps."""
    asked = {name: replace(claim.of, name=name) for name, claim in drawn.aimed.items()}
    for kind in ("step", "always"):
        known = [name for name in drawn.violated if name not in asked and drawn.system.properties[name].kind == kind]
        asked |= {name: drawn.system.properties[name] for name in _some(rng, ASKED, known)}
    found.claims += len(asked)
    if not drawn.thorough:
        lost, unknown = refuted(drawn.system, setting, asked, drawn.broken, drawn.answers)
        found.open += len(unknown)  # nor would induction decide them, which asks the same and more
        asked = {name: p for name, p in asked.items() if name not in lost | unknown}
    rounds = TOGETHER if drawn.thorough else QUICK
    if drawn.thorough:
        setting = replace(setting, relation=backwards(setting.relation))
    answer = induct(replace(drawn.system, properties=asked), setting, jobs=1, rounds=rounds)
    found.open += len(asked.keys() & answer.undecided.keys())
    kept = {name: p for name, p in asked.items() if name in answer.proved}
    if kept and drawn.thorough:  # each may have been kept for the sake of others
        kept = {name: p for name, p in asked.items() if name in kept or p.kind == "always"}
    if kept:
        _ask_prover(drawn, kept, replace(setting, limit_seconds=CONFIRMING), found, small=False)


def backwards(relation: MakesRelation) -> MakesRelation:
    """The steps of a relation in the opposite order: then those that lead on are asked before those that lead there."""

    def made(schema: StateSchema, constants: dict[str, Any], scope: FaultScope) -> TransitionRelation:
        found = relation(schema, constants, scope)
        steps = found.steps
        found.steps = lambda s: iter([*steps(s)][::-1])  # type: ignore[method-assign]
        return found

    return made


def _ask_prover(drawn: Drawn, asked: Mapping[str, Property], setting: Setting, found: Judged, small: bool) -> None:
    """Asks the prover about claims; `small`: with all its strategies."""
    system = replace(drawn.system, properties=dict(asked))
    if small:  # some have very many states
        setting = setting.limited(SEARCHING)
    proof = prove(system, setting, jobs=1, small=system if small else None)
    proved = [v for v in proof.verdicts if v.verdict == "proved"]
    found.claims += len([name for name in asked if name not in drawn.aimed])
    found.proved += len(proved)
    found.methods += Counter(v.method for v in proved)
    for verdict in proved:
        for violation in drawn.violated.get(verdict.name, []):
            if covers(proof, violation):
                found.contradicted.setdefault(verdict.name, violation)


def covers(proof: Proof, violation: Violation) -> bool:
    """Returns whether a proof says that it holds for the place of a violation."""
    if violation.budget and not proof.scope.any:
        return False
    held = dict(words.split("=") for words in proof.held)
    return all(violation.constants[name] == value for name, value in held.items())
