"""A second opinion on each kind of property: read off the graph of the dumb twin, by the definitions of semantics.md.

It shares nothing with what decides in the explorer: states are dictionaries, a step that takes time is one with another
`now` after it, a fair run is looked for among components that are taken apart by hand. A property holds or not, or is
open: it is violated only if steps out of the bounds of the search are impossible. Such a step leads to no state, so it
counts for fairness and can never be taken inside a component. The fewest steps that show a violation or a witness are
told where that number is a matter of definition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx

from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language.for_each import each
from leasehold.spec.language.model import Fair, Property
from leasehold.spec.language.render.evaluate import Context, evaluate
from tests.checker.explore.fault_twin import Step, Twin, Whole, World, whole


@dataclass(frozen=True)
class Opinion:
    """Returns whether a property holds (`sometimes`: has a witness; None: open), and the fewest steps that show it."""

    holds: bool | None
    steps: int | None = None


class Judge:
    """The verdicts on the properties of a graph.

    Args:
        found: the graph.
        lasting: no budget limits faults: those that channels declare may come for ever, and are steps like others.
    """

    def __init__(self, found: Whole, lasting: bool = False) -> None:
        self.found, self.numbers, self.lasting = found, set(range(len(found.worlds))), lasting
        self.initial = {n for n in self.numbers if not found.depth[n]}

    def opinion(self, p: Property) -> Opinion:
        """The verdict on a property: of one with variables, on all of its bindings together."""
        each_one = [OPINIONS[kind_of(p)](self, one) for one in each(p)]
        verdicts = {o.holds for o in each_one}
        holds = False if False in verdicts else None if None in verdicts else True
        return Opinion(holds, None if p.variables else each_one[0].steps)

    def has_case(self, p: Property) -> bool:
        """Returns whether the antecedent holds somewhere."""
        if p.kind == "step":
            return any(self._of_step(q.when, n, m) for q in each(p) for n, _, m in self.steps())
        return any(self.where(q.when) for q in each(p))

    def where(self, e: Any) -> set[int]:
        return {n for n in self.numbers if e is None or self.found.twin.say(self.found.worlds[n], e)}

    def steps(self) -> Iterator[tuple[int, Step, int]]:
        return ((n, step, m) for n, out in enumerate(self.found.edges) for step, m in out)

    # States and steps

    def always(self, p: Property) -> Opinion:
        return self._none_of(self.where(p.when) - self.where(p.claim))

    def sometimes(self, p: Property) -> Opinion:
        none = self._none_of(self.where(p.claim))
        return Opinion(not none.holds, none.steps)

    def _none_of(self, states: set[int]) -> Opinion:
        return Opinion(not states, min((self.found.depth[n] for n in states), default=None))

    def step(self, p: Property) -> Opinion:
        wrong = [
            self.found.depth[n] + 1
            for n, _, m in self.steps()
            if self._of_step(p.when, n, m) and not self._of_step(p.claim, n, m)
        ]
        return Opinion(not wrong, min(wrong, default=None))

    def _of_step(self, e: Any, n: int, m: int) -> bool:
        before, after = self.found.worlds[n], self.found.worlds[m]
        return e is None or bool(evaluate(e, Context(after, self.found.twin.constants, before=before)))

    def stops(self) -> Opinion:
        """Returns whether an allowed end holds wherever nothing but a fault within a budget is possible."""
        ends: set[int] = set()
        for end in self.found.twin.system.ends or ():
            ends |= self.where(end.holds)
        stuck = {n for n in self.numbers if not any(self.counts(s) for s, _ in self._out(n))}
        return self._none_of(stuck - ends)

    def counts(self, step: Step) -> bool:
        """Returns whether a step may be taken for ever."""
        return self.lasting or not step.fault

    # Runs

    def leads_to(self, p: Property) -> Opinion:
        missing = self.numbers - self.where(p.claim)
        return self._leaves(self._reached(self.where(p.when) & missing, missing))

    def within(self, p: Property) -> Opinion:
        """No path goes on for more ticks of `now` than it may, and every fair run comes there.

        It is open where the tick that is one too many leads out of the bounds.
        """
        assert p.within is not None
        missing = self.numbers - self.where(p.claim)
        waiting = deque((n, 0) for n in self.where(p.when) & missing)
        seen = set(waiting)
        is_open = False
        while waiting:
            n, ticks = waiting.popleft()
            for step, m in self._out(n):
                then = ticks + step.after.now - self.found.worlds[n].now
                if then > p.within and m is not None:
                    return Opinion(False)
                is_open |= then > p.within
                if m in missing and (m, then) not in seen:
                    seen.add((m, then))
                    waiting.append((m, then))
        comes = self.leads_to(p)
        return Opinion(None) if is_open and comes.holds else comes

    def always_eventually(self, p: Property) -> Opinion:
        missing = self.numbers - self.where(p.claim)
        return self._leaves(self._reached(self._starts(p), self.numbers) & missing)

    def eventually_always(self, p: Property) -> Opinion:
        missing = self.numbers - self.where(p.claim)
        return self._leaves(self._reached(self._starts(p), self.numbers), missing)

    def _starts(self, p: Property) -> set[int]:
        return self.initial if p.when is None else self.where(p.when)

    def always_possible(self, p: Property) -> Opinion:
        """Judges by steps that are no faults; the claim may be true beyond one that leads out of the bounds."""
        asked, able = self.where(p.when), self._leading_to(self.where(p.claim))
        out = {n for n, steps in enumerate(self.found.leaving) if not all(s.fault for s in steps)}
        never = self._none_of(asked - self._leading_to(able | out))
        return Opinion(None) if never.holds and asked - able else never

    def _leading_to(self, states: set[int]) -> set[int]:
        """The states from which steps that are no faults lead to some, and these."""
        able = set(states)
        before: dict[int, set[int]] = {}
        for n, step, m in self.steps():
            if not step.fault:
                before.setdefault(m, set()).add(n)
        waiting = list(able)
        while waiting:
            new = before.get(waiting.pop(), set()) - able
            able |= new
            waiting += new
        return able

    def _reached(self, starts: Iterable[int], among: set[int]) -> set[int]:
        """The states that are reached from some by going through some."""
        reached = set(starts)
        waiting = list(reached)
        while waiting:
            for _, m in self.found.edges[waiting.pop()]:
                if m in among and m not in reached:
                    reached.add(m)
                    waiting.append(m)
        return reached

    def _out(self, n: int) -> list[tuple[Step, int | None]]:
        """The steps of a state, and where they lead; None: out of the bounds."""
        return [*self.found.edges[n], *((step, None) for step in self.found.leaving[n])]

    def _leaves(self, among: set[int], again: set[int] | None = None) -> Opinion:
        """Returns whether no fair run can stay among some states for ever, and visit some without end."""
        out = {n: [e for e in self._out(n) if self.counts(e[0])] for n in among}
        return Opinion(never_stays(self.found.twin.system, out, among, again))

    # The whole

    def refines(self) -> Opinion:
        """Each first state is one of the abstract system, and each step is one of it, or none."""
        refines = self.found.twin.system.refines
        assert refines is not None
        abstract = Twin(refines.abstract, Budget())
        first = abstract.first()

        def mapped(world: World) -> World:
            made = first[0].copy()
            for role, i in refines.abstract.machines():
                made.state_of[role.name, i] = self.found.twin.say(world, refines.values[role.name, None], it=i)
                for name in role.data:
                    value = self.found.twin.say(world, refines.values[role.name, name], it=i)
                    made.data_of[role.name, i, name] = value
            return made

        images = [mapped(w) for w in self.found.worlds]
        keys = [w.key() for w in images]
        if {keys[n] for n in self.initial} - {w.key() for w in first}:
            return Opinion(False, 0)
        wrong = []
        after: dict[Any, set[Any]] = {}
        for n, _, m in self.steps():
            if keys[n] not in after:
                after[keys[n]] = {keys[n], *(s.after.key() for s in abstract.steps(images[n]))}
            if keys[m] not in after[keys[n]]:
                wrong.append(self.found.depth[n] + 1)
        return Opinion(not wrong, min(wrong, default=None))

    def stabilises(self) -> Opinion:
        """Every fair run without faults comes back to a state that is reached without any, or ends as it may."""
        system = self.found.twin.system
        legal = whole(system, Budget()).shapes
        out: dict[Any, list[tuple[Step, Any]]] = {}
        worlds: dict[Any, World] = {}
        for n, w in enumerate(self.found.worlds):
            worlds[w.shape()] = w
            steps = [(s, None if m is None else self.found.worlds[m].shape()) for s, m in self._out(n) if not s.fault]
            out.setdefault(w.shape(), steps)
        astray = set(out) - legal
        ends = [end.holds for end in system.ends or ()]
        ended = {
            n for n in astray if fair_stay(system, out, {n}) and any(self.found.twin.say(worlds[n], e) for e in ends)
        }
        return Opinion(never_stays(system, out, astray - ended))


Steps = Mapping[Any, list[tuple[Step, Any]]]  # by state: its steps, and where they lead; None: out of the bounds


def never_stays(system: System, out: Steps, among: set[Any], again: set[Any] | None = None) -> bool | None:
    """Returns whether no fair run can stay among some states for ever; None: one could but for steps out of bounds."""
    if fair_stay(system, out, among, again):
        return False
    inner = {n: [(s, m) for s, m in out[n] if m is not None] for n in among}
    return None if fair_stay(system, inner, among, again) else True


def fair_stay(system: System, out: Steps, among: set[Any], again: set[Any] | None = None) -> bool:
    """Returns whether a fair run can stay among some states for ever by some steps, and visit some without end."""
    graph = nx.DiGraph()
    graph.add_nodes_from(among)
    graph.add_edges_from((n, m) for n in among for _, m in out[n] if m in among)
    for part in nx.strongly_connected_components(graph):
        if again is not None and not part & again:
            continue
        possible = {n: {s.group for s, _ in out[n] if s.group is not None} for n in part}
        taken = {s.group for n in part for s, m in out[n] if m in part}
        if set.intersection(*possible.values()) - taken:
            continue  # what is possible all the time is never done; nor is it in a smaller part
        strong = {g for some in possible.values() for g in some - taken if _is_strong(system, g)}
        if not strong or fair_stay(system, out, {n for n in part if not possible[n] & strong}, again):
            return True
    return False


def _is_strong(system: System, group: Any) -> bool:
    return group[0] == "outside" and system.environment[group[1]].fair is Fair.STRONG


def kind_of(p: Property) -> str:
    """The kind of a property as the table of opinions calls it: a bound makes another kind."""
    return "within" if p.within is not None else p.kind


OPINIONS: dict[str, Callable[[Judge, Property], Opinion]] = {
    "always": Judge.always,
    "step": Judge.step,
    "sometimes": Judge.sometimes,
    "leads_to": Judge.leads_to,
    "within": Judge.within,
    "always_eventually": Judge.always_eventually,
    "eventually_always": Judge.eventually_always,
    "always_possible": Judge.always_possible,
}
OF_THE_WHOLE: dict[str, Callable[[Judge], Opinion]] = {
    "ends": Judge.stops,
    "refines": Judge.refines,
    "stabilisation": Judge.stabilises,
}
