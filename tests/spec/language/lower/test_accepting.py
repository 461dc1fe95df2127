"""`accepts` means what trying all values of an event's fields says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.engines import Engine
from leasehold.checker.mutation.operators import mutations
from leasehold.checker.prove import prove
from leasehold.checker.prove.encode.lemma import lemma_scope, parsed
from leasehold.spec import System
from leasehold.spec.language import expression as x
from leasehold.spec.language.lower.accepting import NotEliminable, meaning
from leasehold.spec.language.render.evaluate import Context, NoState, evaluate
from leasehold.spec.language.types import Value
from tests.systems import TESTS, files_of, load, written

GATED = files_of("spec/language/lower/systems/gate")
SYSTEM = GATED["system.yaml"]
GATE = GATED["roles/gate.yaml"]
HAND = "role: hand\ndata: {warm: bool}\nstates: {idle: {}}\n".replace("idle: {}", "idle: {initial: true}")
RANGES = {
    "n": range(-9, 10),
    "few": range(3),
    "many": range(1, 10),
    "at": range(13),
    "sure": (False, True),
    "hue": ("red", "green", "blue"),
    "by": range(2),
    "all": tuple(map(frozenset, ((), (0,), (1,), (0, 1)))),
}
NUMBERS = ("event.n", "event.few", "event.many")
ATOMS = (
    "event.sure",
    "event.sure == open",
    "event.hue == tint",
    "event.hue in {red, blue}",
    "event.hue == green",
    "event.by == last",
    "index(event.by) > b",
    "event.by.warm",
    "len(event.all) == b",
    "len(event.all) > a",
    "len(event.all) != 1",
    "open",
    "tint == red",
    "self.b > 1",
    "any(h.warm for h in hand)",
)


def drawn(rng: Random, depth: int = 2) -> str:
    """A guard over an event's fields."""
    if depth and rng.random() < 0.7:
        left, right = drawn(rng, depth - 1), drawn(rng, depth - 1)
        return rng.choice((f"({left} and {right})", f"({left} or {right})", f"not ({left})"))
    if rng.random() < 0.4:
        return rng.choice(ATOMS)
    op = rng.choice(("==", "!=", "<", "<=", ">", ">="))
    if rng.random() < 0.25:
        left, right = "event.at", rng.choice(("now", "until", "until + 1", "now + 2", "0"))
    else:
        left = rng.choice((*NUMBERS, "event.n - 1", "1 - event.n", "event.n + event.few", "-event.n", "event.n - a"))
        right = rng.choice(("a", "b", "a + b", "0", "-1", "2", "a - b", "event.few", "event.many + 1"))
    return f"({left} {op} {right})" if rng.random() < 0.8 else f"({right} {op} {left})"


class Here(NoState):
    """A state of the gate and the hands."""

    def __init__(self, now: int, data: dict[str, Value], warm: tuple[bool, bool]) -> None:
        super().__init__(now)
        self.values, self.warm = data, warm

    def data(self, role: str, instance: int, name: str) -> Value:
        return self.warm[instance] if role == "hand" else self.values[name]

    def state(self, role: str, instance: int) -> str:
        return "shut" if role == "gate" else "idle"


def read(guard: x.Expression) -> dict[str, tuple[Value, ...]]:
    """The fields that a guard reads, each with the values to try."""
    names = {e.name for e in x.walk(guard) if isinstance(e, x.Argument)}
    return {name: tuple(RANGES[name]) for name in RANGES if name in names}


@pytest.mark.parametrize("seeds", [range(150), pytest.param(range(150, 3000), marks=pytest.mark.long)], ids=len)
def test_it_is_that_some_values_satisfy_a_guard(tmp_path: Path, seeds: range) -> None:
    gate = written(
        tmp_path, {"system.yaml": SYSTEM, "roles/gate.yaml": GATE.replace("GUARD", "open"), "roles/hand.yaml": HAND}
    )
    both, refused = {False: 0, True: 0}, 0
    for seed in seeds:
        rng = Random(seed)
        guard = typed(gate, drawn(rng))
        tried = read(guard)
        if len([n for n in tried if n in ("n", "few", "many", "at")]) > 2:
            continue  # enough are left, and trying them all takes long
        try:
            means = meaning(with_guard(gate, guard), x.Accepts(role="gate", owner=None, event="push"))
        except NotEliminable:
            refused += 1  # the linter says so (LH311)
            continue
        assert not x.mentions(means, lambda e: isinstance(e, x.Argument)), x.text(means)
        for _ in range(6):
            data = {
                "a": rng.randint(-2, 2),
                "b": rng.randint(0, 3),
                "until": rng.randint(0, 3),
                "open": rng.random() < 0.5,
                "tint": rng.choice(RANGES["hue"]),
                "last": rng.randrange(2),
            }
            here = Here(rng.randint(0, 3), data, (rng.random() < 0.5, rng.random() < 0.5))
            contexts = (Context(here, {}, arguments=dict(zip(tried, v, strict=True))) for v in product(*tried.values()))
            expected = any(evaluate(guard, c) for c in contexts)
            assert evaluate(means, Context(here, {})) is expected, (seed, x.text(guard), x.text(means), data, here.now)
            both[expected] += 1
    assert min(both.values()) > len(seeds) / 2
    assert refused < len(seeds) / 20


def typed(gate: System, text: str) -> x.Expression:
    fields = {f.name: f.type for f in gate.fields_of("gate", "push")}
    return parsed(text, replace(lemma_scope(gate), role="gate", arguments=fields))


def with_guard(system: System, guard: x.Expression) -> System:
    gate = system.roles["gate"]
    state = gate.states["shut"]
    transition = replace(state.on["push"][0], guard=guard)
    return replace(
        system,
        roles={**system.roles, "gate": replace(gate, states={"shut": replace(state, on={"push": (transition,)})})},
    )


PAIR = TESTS / "spec/language/lower/systems/pair"


WRONG = {"never", "known"}


@pytest.mark.parametrize("engine", ["reference", "packed"])
def test_both_engines_read_the_facts(engine: Engine) -> None:
    found = explore(load(PAIR), engine=engine)
    assert found.complete
    assert {p.name for p in found.properties if p.verdict == "violated"} == WRONG
    assert not found.vacuous


def test_the_prover_reads_the_facts() -> None:
    proof = prove(load(PAIR))
    assert {p.name for p in proof.properties if p.verdict != "proved"} == WRONG


def test_a_mutant_has_its_own_meaning() -> None:
    """A claim that knew the guards of the specification would see nothing of what is wrong with them."""
    pair = load(PAIR)
    mutant = next(m for m in mutations(pair) if m.name == "ignore_event a/idle#ask").applied(pair)
    found = explore(mutant)
    assert {p.name for p in found.properties if p.verdict == "violated"} == {"small_enough", "known"}
