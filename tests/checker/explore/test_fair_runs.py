"""Claims about fair runs of small systems: what an oracle says that follows every run, and what the explorer says.

The oracle takes steps from the reference and fairness from the text alone. A run that breaks a claim is a way to a
state, and a cycle through it; for every such state it looks for a shortest of both, breadth first, with all that the
cycle has met so far.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Engine, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import Path as FoundPath
from leasehold.checker.explore.result import PropertyResult
from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language.for_each import each
from leasehold.spec.language.model import OF_FAIR_RUNS, Fair, Property
from tests.checker.explore.clients import clients_by_chance
from tests.systems import TESTS, load

Group = tuple[Any, ...]
# Of a cycle: weakly fair groups that were impossible, strongly fair ones that were possible, those that were taken, and
# whether a start was visited, and a state that has to be visited again and again.
Cycle = tuple[frozenset[Group], frozenset[Group], frozenset[Group], bool, bool]


@dataclass(frozen=True)
class Steps:
    """The states of a system, and its steps with their groups of fairness: the event, the machine and its values."""

    system: System
    initial: frozenset[int]
    after: list[dict[tuple[int, Group], None]]
    states: list[Any]
    world: Reference

    @classmethod
    def of(cls, system: System) -> Steps:
        world = reference_of(system)
        states = list(dict.fromkeys(world.initial_states()))
        initial, numbers = frozenset(range(len(states))), {s: n for n, s in enumerate(states)}
        after: list[dict[tuple[int, Group], None]] = []
        for state in states:
            after.append({})
            for action, target in world.successors(state, ()):
                if target not in numbers:
                    numbers[target] = len(states)
                    states.append(target)
                after[-1][numbers[target], group_of(system, action.event, action.instance, action.fields)] = None
        return cls(system, initial, after, states, world)

    def where(self, e: Any) -> set[int]:
        holds = self.world.function(e)
        return {n for n, s in enumerate(self.states) if holds(s, (), -1)}

    def possible(self, n: int) -> frozenset[Group]:
        return frozenset(group for _, group in self.after[n])

    def groups(self, fair: Fair) -> frozenset[Group]:
        """The groups of actions that are declared so."""
        every = frozenset(g for after in self.after for _, g in after)
        return frozenset(g for g in every if self.system.environment[g[0]].fair is fair)


def group_of(system: System, event: str, instance: int, fields: tuple[Any, ...]) -> Group:
    return (event, instance, *fields) if system.environment[event].fair_for_each else (event, instance)


def distances(seeds: set[Any], after: Callable[[Any], Iterator[Any]]) -> dict[Any, int]:
    found, layer, length = dict.fromkeys(seeds, 0), seeds, 0
    while layer:
        length += 1
        layer = {other for one in layer for other in after(one) if other not in found}
        found |= dict.fromkeys(layer, length)
    return found


def least(steps: Steps, p: Property) -> int | None:
    """The fewest steps of a fair run that breaks a claim, way and cycle together; None: there is none."""
    every = set(range(len(steps.states)))
    holding = steps.where(p.claim)
    when = every if p.when is None else steps.where(p.when)
    starts = when - holding if p.kind == "leads_to" else when
    way = every - holding if p.kind == "leads_to" else every
    among = every if p.kind == "eventually_always" else every - holding
    again = every - holding if p.kind == "eventually_always" else every

    def ahead(at: tuple[int, bool]) -> Iterator[tuple[int, bool]]:
        n, started = at
        for m, _ in steps.after[n]:
            if not started:
                yield m, False
                if m in starts:
                    yield m, True
            elif m in way:
                yield m, True

    stems = distances({(n, s) for n in steps.initial for s in (False, True) if not s or n in starts}, ahead)
    totals = []
    for (entry, started), depth in stems.items():
        if entry in among:
            cycle = least_cycle(steps, entry, among, starts, again, started)
            totals += [] if cycle is None else [depth + cycle]
    return min(totals, default=None)


def least_cycle(
    steps: Steps, entry: int, among: set[int], starts: set[int], again: set[int], started: bool
) -> int | None:
    weak, strong = steps.groups(Fair.WEAK), steps.groups(Fair.STRONG)

    def arrived(n: int, met: Cycle, by: frozenset[Group]) -> tuple[int, Cycle]:
        off, on, taken, start, some = met
        possible = steps.possible(n)
        taken |= by & (weak | strong)
        return n, (off | (weak - possible), on | (strong & possible), taken, start or n in starts, some or n in again)

    def fair(at: tuple[int, Cycle]) -> bool:
        n, (off, on, taken, start, some) = at
        return n == entry and start and some and weak <= off | taken and on <= taken

    none: frozenset[Group] = frozenset()
    layer = {arrived(entry, (none, none, none, started, False), none)}
    seen, length = set(layer), 0
    while layer:
        if any(map(fair, layer)):
            return length
        length += 1
        ahead = {arrived(m, met, frozenset([g])) for n, met in layer for m, g in steps.after[n] if m in among}
        layer = ahead - seen
        seen |= layer
    return None


def agrees(system: System, steps: Steps, result: PropertyResult) -> None:
    p = system.properties[result.name]
    lengths = [least(steps, one) for one in each(p)]
    found = [n for n in lengths if n is not None]
    assert (result.verdict == "violated") == bool(found), result.name
    if result.verdict == "violated":
        assert result.path is not None
        assert "there may be a shorter run" not in result.reason
        assert len(result.path) == min(found), result.name
        is_legal_and_fair(steps, result.path)


def is_legal_and_fair(steps: Steps, path: FoundPath) -> None:
    """Walks what is printed: each step is one of the system's, and the loop by itself takes every step that it owes."""
    layout = steps.world.layout

    def shown(n: int) -> str:
        state = steps.states[n]
        return repr((layout.control(state), layout.data(state)))

    numbers = {shown(n): n for n in range(len(steps.states))}
    at = [numbers[repr((s.control, s.data))] for s in (path.initial, *(step.state for step in path.steps))]
    assert at[0] in steps.initial
    taken = []
    for step, before, after in zip(path.steps, at, at[1:], strict=False):
        assert step.machine is not None
        number = int(step.machine.partition("[")[2].removesuffix("]"))
        groups = [
            g
            for m, g in steps.after[before]
            if m == after and g[:2] == (step.event, number) and (*map(str, g[2:]),) in ((), (*step.fields.values(),))
        ]
        assert groups, f"{step.title} is no step of the system"
        taken.append(groups[0])
    assert path.loop is not None
    loop, owed = at[path.loop :], {*taken[path.loop :]}
    assert loop[0] == loop[-1]
    for group in steps.groups(Fair.WEAK) - owed:
        assert any(group not in steps.possible(n) for n in loop), f"the loop is not weakly fair to {group}"
    for group in steps.groups(Fair.STRONG) - owed:
        assert all(group not in steps.possible(n) for n in loop), f"the loop is not strongly fair to {group}"


CLAIMS = """
  leads: {when: "client[0].state == s1", leads_to: "client[0].state == s0"}
  leads_each: {for: {c: client, v: [0, 1]}, when: c.state == s1 and c.n == v, leads_to: c.state == s0 or c.n != v}
  again: {for: {c: client}, always_eventually: c.state == s0}
  again_n: {always_eventually: any(c.n == 1 for c in client)}
  again_when: {for: {c: client, v: [0, 1]}, when: c.n == v and c.state == s1, always_eventually: c.n == v}
  settles: {for: {c: client, v: [0, 1]}, eventually_always: c.n == v or c.state == s0}
  settles_at_all: {eventually_always: all(c.state == s1 for c in client)}
  settles_when: {for: {c: client, d: client}, when: c.n == 1, eventually_always: c.state == s1 or d.n == 0}
  never: {when: any(c.n == 1 and c.n == 0 for c in client), eventually_always: all(c.state == s0 for c in client)}
"""


SLOW = (11, 24, 34)  # seeds of systems of which the oracle looks at many runs
QUICK = [n for n in range(30) if n not in SLOW]
MORE = [
    pytest.param(n, marks=pytest.mark.long if n in SLOW or n < 100 else pytest.mark.slow)
    for n in range(400)
    if n not in QUICK
]


@pytest.mark.parametrize("seed", [*QUICK, *MORE])
def test_the_explorer_finds_a_shortest_run_if_there_is_one(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    machines, states = rng.choice(((1, 2), (1, 3), (2, 2), (2, 2)))
    system = clients_by_chance(tmp_path, rng, CLAIMS, machines=machines, states=states)
    steps, found = Steps.of(system), explore(system, engine="reference")
    assert found.complete
    assert found.distinct == len(steps.states)
    assert "never" in found.vacuous
    for result in found.properties:
        agrees(system, steps, result)
    packed = explore(system, engine="packed")
    assert (packed.properties, packed.vacuous) == (found.properties, found.vacuous)


SWITCHES = TESTS / "checker/explore/systems/switches"


@pytest.mark.parametrize("engine", ["reference", "packed"])
def test_a_loop_shows_each_step_that_it_owes(engine: Engine) -> None:
    """Four steps of one state back to itself, each of them fair: four of them are shown."""
    system = load(SWITCHES)
    (result,) = explore(system, engine=engine).properties
    agrees(system, Steps.of(system), result)
    assert result.path is not None
    assert len({(step.machine, step.event) for step in result.path.steps}) == len(result.path) == 4


@pytest.mark.parametrize("seed", range(20))
def test_faults_stop(seed: int, tmp_path: Path) -> None:
    """No loop has a fault in it; and a run without faults is still one, so no counterexample is longer."""
    rng = random.Random(seed)
    system, budget = clients_by_chance(tmp_path, rng, CLAIMS), Budget.parse("crash=2")
    plain = {p.name: p for p in explore(system, engine="reference").properties}
    found = explore(system, engine="reference", budget=budget)
    assert found.properties == explore(system, engine="packed", budget=budget).properties
    for result in found.properties:
        assert result.kind in OF_FAIR_RUNS
        if result.path is None or result.path.loop is None:
            continue
        assert all(step.kind != "crash" for step in result.path.steps[result.path.loop :])
        assert len(result.path) <= len(plain[result.name].path or result.path)
