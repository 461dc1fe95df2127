"""The cuts that decide properties, by the evaluator of simulations, which queries are held to; and runs to ask it of.

Runs are walks of the reference explorer with faults; such walks with random values in some cells, so that antecedents
hold and claims do not; and states that are random throughout. Properties are those of the system, their negations, and
ones in which a number, a comparison, a quantifier or a moment is another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from random import Random
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.ground import cells_read, step_function
from leasehold.checker.explore.layout import Lane, State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.evaluator import ClaimsOfRuns, RunEvaluator
from leasehold.spec import System
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.conditions import opposite
from leasehold.spec.language.model import Property
from leasehold.spec.language.render.python_source import Frame, source
from tests.checker.prove.walks import walked

TRIES = 3000

Run = list[tuple[State, Action | None]]  # each cut, with the step that led to it


# Runs


def walks(world: Reference, rng: Random, steps: int) -> list[Run]:
    found: list[Run] = []
    for step in walked(world, rng, steps):
        if step.depth == 0 or not found:
            found.append([(step.before, None)])
        found[-1].append((step.after, step.action))
    return found


def disturbed(world: Reference, rng: Random, run: Run, share: float) -> Run:
    """A run in which some cells have values of their types by chance."""
    actions = [action for _, action in run if action is not None]
    found: Run = []
    for state, action in run:
        cells = list(state)
        for at, value in _any_cells(world, rng):
            if rng.random() < share:
                cells[at] = value
        if actions and action is not None and rng.random() < share:
            action = rng.choice(actions)
        found.append((tuple(cells), action))
    return found


def _any_cells(world: Reference, rng: Random) -> Iterator[tuple[int, Any]]:
    return ((at, draw(rng)) for at, draw in drawn_cells(world).items())


@cache
def drawn_cells(world: Reference) -> dict[int, Callable[[Random], Any]]:
    """By cell, what draws a value for it."""
    layout, system = world.layout, world.system
    found: dict[int, Callable[[Random], Any]] = {}
    for role, i in system.records():
        if role.states:
            found[layout.at(role.name, i, None)] = partial(_any_of, [*role.states])
        for d in role.data.values():
            found[layout.at(role.name, i, d.name)] = partial(any_value, d.type)
    for lane in layout.lanes:
        found[lane.cell] = partial(_any_content, system, lane)
    if layout.clock is not None:
        found[layout.clock] = partial(_any_of, range(4))
    for variable in world.relation.variables:
        values = [variable.initial, *variable.stops, *variable.separates]
        found |= {layout.added[variable.name, key]: partial(_any_of, values) for key in variable.keys}
    return found


def _any_of(values: Sequence[Any], rng: Random) -> Any:
    return rng.choice(values)


@cache
def all_actions(world: Reference) -> list[Action]:
    """A step for each transition of each machine, and one for each event that it ignores."""
    found = []
    for role, i in world.system.machines():
        for state in role.states.values():
            for event in (*state.on, *state.ignore):
                kind = "deliver" if event in world.system.messages else "tick" if event == "tick" else "local"
                taken = [*state.on.get(event, ()), None] if kind == "deliver" else state.on.get(event, ())
                found += [Action(kind, role.name, i, event, transition=tr) for tr in taken]
    return found


def any_value(type_: t.Type, rng: Random) -> t.Value:
    match type_:
        case t.Set(of=of) if of is not None:
            return frozenset(v for v in t.members(of) if rng.random() < 0.5)
        case t.Map(key=key, of=of):
            return tuple(any_value(of, rng) for _ in t.members(key))
        case t.Option(of=of) if of is not None:
            return None if rng.random() < 0.4 else any_value(of, rng)
        case t.Enum() | t.Instance():
            return rng.choice(t.members(type_))
        case t.Bool():
            return rng.random() < 0.5
        case t.Opaque():
            return rng.randrange(2)
    return rng.randrange(-1 if isinstance(type_, t.Int) and type_.low is None else 0, 4)


def _any_content(system: System, lane: Lane, rng: Random) -> channels.Content:
    kinds = [m for m in system.messages.values() if system.channel_of(m.name) is lane.channel]
    newest, entries = rng.choice((0, 1, 2)), []
    for _ in range(rng.choice((0, 0, 1, 2)) if kinds else 0):
        m = rng.choice(kinds)
        number = rng.randrange(newest + 1) if lane.channel.kind == "mailbox" else 1
        entries.append((number, m.name, tuple(any_value(f.type, rng) for f in m.fields)))
    if lane.channel.kind == "mailbox":
        return newest, tuple(entries)
    return frozenset(entries) if lane.channel.kind == "set" else tuple(entries)


# Properties


def mutants(system: System, rng: Random, each: int) -> Iterator[Property]:
    """Properties of the kinds `always` and `step`, and others like them."""
    for p in system.properties.values():
        if p.kind not in ("always", "step"):
            continue
        yield replace(p, name=f"{p.name}, negated", claim=x.negation(p.claim))
        others = [e for e, _ in x.rewrites(p.claim, _changes)]
        for n, claim in enumerate(rng.sample(others, min(each, len(others)))):
            yield replace(p, name=f"{p.name}, another {n}", claim=claim)
        if p.when is not None:
            yield replace(p, name=f"{p.name}, always", claim=p.claim, when=None)


_OTHER = {
    "==": "!=",
    "!=": "==",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "and": "or",
    "or": "and",
    "in": "not in",
    "not in": "in",
    "+": "-",
    "|": "&",
    "&": "|",
}


def _changes(e: x.Expression) -> Iterator[tuple[x.Expression, str]]:
    match e:
        case x.Apply(op=op) if op in _OTHER:
            yield replace(e, op=_OTHER[op]), ""
        case x.Literal_(type=t.Int(), value=value):
            yield replace(e, value=value + 1), ""
        case x.Quantifier(kind="all" | "any" as kind):
            yield replace(e, kind="any" if kind == "all" else "all"), ""
        case x.Old(operand=operand):
            yield operand, ""


# What runs decide


def decided(
    world: Reference, properties: Mapping[str, Property], runs: Iterable[Run]
) -> dict[str, set[tuple[int, int]]]:
    """The (run, cut) that decide each property, all runs being over; by its name, with the values of its variables."""
    claims = ClaimsOfRuns(world, properties)
    found: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for number, run in enumerate(runs, 1):
        evaluator = RunEvaluator(claims)
        every = [one for state, action in run for one in evaluator.see(state, action)] + evaluator.end()
        for of, cut in every:
            found[of.of.name + "".join(f" {n}={v}" for n, v in of.of.binding.items())].add((number, cut))
    return found


def broken_run(world: Reference, p: Property, runs: list[Run], rng: Random) -> Run | None:
    """A run of two cuts that violates an `always` or `step`: by hill climbing, as more and more conditions hold."""
    frame = Frame(world.layout, world.system.values(), before="o")
    parts = [*x.conjuncts(opposite(p.claim)), *(() if p.when is None else x.conjuncts(p.when))]
    words = [source(e, frame) for e in parts]
    conditions = [step_function(w) for w in words]
    read = [cells_read(w, "os") for w in words]
    every = {cell for cells in read if cells is not None for cell in cells}
    cells = sorted(every) if None not in read else None
    draws, actions = drawn_cells(world), all_actions(world)
    (before, _), (after, action) = rng.choice([pair for run in runs for pair in pairwise(run)])
    best = -1
    for _ in range(TRIES):
        old, new, step = list(before), list(after), action
        for _ in range(rng.choice((1, 1, 2, 3))):
            if p.kind == "step" and rng.random() < 0.2:
                step = rng.choice(actions)
                continue
            at = rng.choice(cells or [*draws])
            value = draws[at](rng) if at in draws and rng.random() < 0.7 else new[at]
            (rng.choice((old, new)) if p.kind == "step" else new)[at] = value
        score = sum(bool(holds(tuple(old), tuple(new), step)) for holds in conditions)
        if score >= best:
            best, before, after, action = score, tuple(old), tuple(new), step
        if best == len(conditions):
            return [(before, None), (after, action)]
    return None
