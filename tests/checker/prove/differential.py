"""The prover against the explorer: nothing that is proved may be violated in any exploration.

A system with claims is drawn by chance. It is explored in several sizes and under several budgets of faults, which says
of each claim whether some run violates it. The prover is asked about claims of both kinds: one that is violated and yet
proved contradicts the explorer, within what the proof says that it holds for.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from leasehold.checker.explore import Limits, explore
from leasehold.checker.prove import Proof, prove
from leasehold.checker.prove.decide.induction import ANY
from leasehold.checker.prove.encode.encoding import MakesRelation
from leasehold.checker.prove.encode.transitions import FaultScope, TransitionRelation
from leasehold.checker.prove.encode.values import Unencodable
from leasehold.faults import Budget
from leasehold.spec import SpecError, System, load
from tests.checker.prove.by_chance import Chance, by_chance

CLAIMS = 30  # drawn for each system, of which
ASKED = 2  # violated ones, and as many others, are asked about
STATES = 500  # that an exploration visits at most
BUDGETS = ("crash=1", "crash=2", "lose=1,crash=1", "duplicate=1,reorder=1", "crash=1,duplicate=1", "partition=1",
           "power_cut=1", "duplicate=2,lose=1", "halt=1")  # fmt: skip
NO_FAULTS = FaultScope(crash=False, network=False)


@dataclass(frozen=True)
class Violation:
    """Where an exploration violates a claim."""

    settings: tuple[tuple[str, str], ...]
    budget: str


@dataclass
class Judged:
    """What became of one system.

    Attributes:
        refused: what the loader or the prover says of a system that it does not take.
        claims: how many were asked about.
        proved: of these.
        methods: how many were proved by each.
        contradicted: claims that are proved and violated, and where.
    """

    refused: str = ""
    claims: int = 0
    proved: int = 0
    methods: Counter[str] = field(default_factory=Counter)
    contradicted: dict[str, Violation] = field(default_factory=dict)
    seconds: float = 0.0


def violations(folder: Path, system: System, rng: Chance) -> dict[str, list[Violation]]:
    """By claim, the settings and budgets in which it is violated."""
    found: dict[str, list[Violation]] = {}
    for settings, budget in _explored(system, rng):
        try:
            here = system if not settings else load(folder, dict(settings))
        except SpecError:  # there is no such system
            continue
        result = explore(here, Limits(states=STATES), budget=Budget.parse(budget) if budget else None)
        for p in result.properties:
            if p.verdict == "violated":
                found.setdefault(p.name, []).append(Violation(settings, budget))
    return found


def _explored(system: System, rng: Chance) -> Iterator[tuple[tuple[tuple[str, str], ...], str]]:
    budgets = BUDGETS if FaultScope.of(system) != NO_FAULTS else ()
    yield (), ""
    yield from (((), budget) for budget in rng.sample(budgets, min(3, len(budgets))))
    for n, cap in rng.sample([*product("213", "12")][1:], 2):
        settings = tuple((k, v) for k, v, usual in (("n", n, "2"), ("cap", cap, "1")) if v != usual)
        yield settings, rng.choice(("", *budgets))


def covers(proof: Proof, system: System, violation: Violation) -> bool:
    """Whether a proof says that it holds for the place of a violation."""
    if violation.budget and proof.scope == NO_FAULTS:
        return False
    held = dict(words.split("=") for words in proof.held)
    values = {name: str(constant.value) for name, constant in system.constants.items()} | dict(violation.settings)
    return all(values.get(name, value) == value for name, value in held.items())


def judge(
    rng: Chance, *, relation: MakesRelation = TransitionRelation, every: bool = True, folder: Path | None = None
) -> Judged:
    """Draws a system and compares; `every`: strategies beyond induction are tried now and then."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as made:
        found = _judge(folder or Path(made), rng, relation, every)
    return replace(found, seconds=time.perf_counter() - began)


def _judge(folder: Path, rng: Chance, relation: MakesRelation, every: bool) -> Judged:
    system = by_chance(folder, rng, CLAIMS)
    if isinstance(system, str):
        return Judged(refused=system.splitlines()[0])
    violated = violations(folder, system, rng)
    names = [name for name in system.properties if name in violated]
    others = [name for name in system.properties if name not in violated]
    asked = [*rng.sample(names, min(ASKED, len(names))), *rng.sample(others, min(ASKED, len(others)))]
    kept = replace(system, properties={name: system.properties[name] for name in asked})
    scope = NO_FAULTS if rng.random() < 0.2 else None
    setting = replace(ANY, scope=scope, limit_seconds=0.5, relation=relation)
    small = kept if every and rng.random() < 0.1 else None
    try:
        proof = prove(kept, setting, jobs=1, small=small)
    except Unencodable as error:
        return Judged(refused=f"the prover: {error}")
    proved = [v for v in proof.verdicts if v.verdict == "proved"]
    contradicted = {}
    for verdict in proved:
        for violation in violated.get(verdict.name, []):
            if covers(proof, system, violation):
                contradicted.setdefault(verdict.name, violation)
    return Judged("", len(asked), len(proved), Counter(v.method for v in proved), contradicted)


def drawn(seed: int, relation: MakesRelation = TransitionRelation) -> Judged:
    """What becomes of the system of one seed."""
    return judge(random.Random(seed), relation=relation)
