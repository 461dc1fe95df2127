"""The least that a search must visit, if everything is known about which steps are independent: stubborn sets.

Theory of operation. All states of a system are visited first. From them follows what a static analysis could at best
know: two actions are independent if they commute, and neither disables the other, in every state where both are
possible; and one may enable another if some step of it does. A search then chooses the actions of each state by a
stubborn set (Valmari, "Stubborn sets for reduced state space generation", 1990): the closure of an action under what
depends on its possible members, and under what has to come before its impossible ones. Of the closures of all possible
actions, the one with the fewest possible actions is taken. Four choices of actions:

- `ample`: all steps of one machine, if none of them depends on another machine, or is enabled by one in this control
  state. SPIN looks for these. They keep the states in which runs end;
- `stubborn`: stubborn sets, which keep these states, too;
- `stubborn` with visible actions, and `ignored=False`: they keep the claims about states, by the conditions C0 to C3 of
  ample sets. Actions that may change the truth of a claim are taken all or none, and all actions are taken where every
  chosen step leads to a state that was searched before (Bosnacki and Holzmann, "Improving SPIN's partial-order
  reduction for breadth-first search", 2005);
- `toward`: stubborn sets that have, in every state, all actions of which one has to come before a claim can be violated
  or witnessed (Schmidt, "Stubborn sets for standard properties", 1999). Of a path to there, the first action that is
  in the set can be moved to the front, so shortest paths stay shortest.

Whether a value matters to a claim is tried on the states that are reachable. That is generous: values that violate a
claim and never occur are not waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.properties import PropertyClaims, only_these
from leasehold.checker.explore.step import Action
from leasehold.faults.model import Budget
from leasehold.spec import System

OUT = -1  # the place of all states out of the bounds


class Steps:
    """All states of a system, with the faults that are left in them, and the actions that lead from them.

    A set of actions is an int with a bit for each.

    Attributes:
        enabled: by state, its actions and where they may lead.
        masks: by state, the set of these actions.
        dependent: by action, those that it is not independent of.
    """

    def __init__(self, system: System, budget: Budget | None, most: int) -> None:
        claimed = [p.name for p in system.properties.values() if p.kind in ("always", "sometimes")]
        self.system = only_these(system, [*claimed, "deadlock_free"])
        self.world = reference_of(self.system, budget)
        self.states: list[tuple[Any, ...]] = []  # the last cell is what is left of the faults
        self.enabled: list[dict[int, frozenset[int]]] = []
        self.actions: list[Action] = []  # one with this key
        self._keys: dict[tuple[Any, ...], int] = {}
        numbers: dict[tuple[Any, ...], int] = {}

        def visit(state: tuple[Any, ...]) -> int:
            if not self.world.within_bounds(state[:-1]):
                return OUT
            if state not in numbers:
                numbers[state] = len(self.states)
                self.states.append(state)
            return numbers[state]

        for state in self.world.initial_states():
            visit((*state, self.world.budgeted))
        self.initial = len(self.states)
        while len(self.enabled) < len(self.states):
            if len(self.states) > most:
                raise ValueError(f"it has more than {most:,} states")
            *cells, left = self.states[len(self.enabled)]
            targets: dict[int, set[int]] = {}
            for action, after in self.world.successors(tuple(cells), left):
                then = faults_left(left, action.cost)
                if then is not None:
                    targets.setdefault(self._number(action), set()).add(visit((*after, then)))
            self.enabled.append({a: frozenset(t) for a, t in targets.items()})
        self.masks = [sum(1 << a for a in e) for e in self.enabled]
        self.dependent = self._dependences()

    def _number(self, a: Action) -> int:
        transition = a.transition and a.transition.name
        lane = a.lane and a.lane.cell
        key = (*a[:6], lane, transition, a.copy, a.point, a.done, a.cost)
        if key not in self._keys:
            self._keys[key] = len(self.actions)
            self.actions.append(a)
        return self._keys[key]

    def _after(self, states: Iterable[int], action: int) -> set[int] | None:
        """The states to which an action may lead from some states; None if one of them does not have it."""
        found: set[int] = set()
        for n in states:
            if n == OUT or action not in self.enabled[n]:
                return None
            found |= self.enabled[n][action]
        return found

    def _dependences(self) -> list[int]:
        dependent = [0] * len(self.actions)
        for enabled in self.enabled:
            pairs = list(enabled.items())
            for i, (a, after_a) in enumerate(pairs):
                for b, after_b in pairs[i + 1 :]:
                    if dependent[a] >> b & 1:
                        continue
                    both = self._after(after_a, b)
                    if both is None or both != self._after(after_b, a):
                        dependent[a] |= 1 << b
                        dependent[b] |= 1 << a
        return dependent

    @cached_property
    def writers(self) -> list[dict[Any, int]]:
        """By cell and value, the actions that give it this value."""
        writers: list[dict[Any, int]] = [{} for _ in self.states[0]]
        for action, before, after in self.steps():
            for c, value in enumerate(self.states[after]):
                if value != self.states[before][c]:
                    writers[c][value] = writers[c].get(value, 0) | 1 << action
        return writers

    def steps(self) -> Iterator[tuple[int, int, int]]:
        """Every step within the bounds: an action, and the states before and after it."""
        for n, enabled in enumerate(self.enabled):
            yield from ((a, n, t) for a, targets in enabled.items() for t in targets if t != OUT)

    @cached_property
    def enablers(self) -> list[int]:
        """By action, those after which it was possible and before which it was not."""
        enablers = [0] * len(self.actions)
        for action, before, after in self.steps():
            for a in members(self.masks[after] & ~self.masks[before]):
                enablers[a] |= 1 << action
        return enablers

    @cached_property
    def _values(self) -> list[list[set[Any]]]:
        """By action and cell, the values of the cell where the action is possible."""
        values: list[list[set[Any]]] = [[set() for _ in self.states[0]] for _ in self.actions]
        for state, enabled in zip(self.states, self.enabled, strict=True):
            for a in enabled:
                for c, value in enumerate(state):
                    values[a][c].add(value)
        return values

    @cached_property
    def _restoring(self) -> dict[tuple[int, int], int]:
        return {}

    def necessary(self, action: int, n: int) -> Iterator[int]:
        """Sets of actions of which one has to come before an action that is not possible in a state."""
        yield self.enablers[action]
        for c, value in enumerate(self.states[n]):
            allowed = self._values[action][c]
            if value not in allowed:
                if (action, c) not in self._restoring:
                    restoring = (who for v, who in self.writers[c].items() if v in allowed)
                    self._restoring[action, c] = union(restoring)
                yield self._restoring[action, c]

    def closure(self, n: int, chosen: int, visible: int = 0, fewer_than: int | None = None) -> int:
        """Returns the possible members of the least stubborn set that is found around some actions.

        All possible ones are returned as soon as there are not fewer than so many.
        """
        possible, todo = self.masks[n], chosen
        while todo:
            bit = todo & -todo
            todo ^= bit
            action = bit.bit_length() - 1
            if possible & bit:
                more = self.dependent[action] | (visible if visible & bit else 0)
            else:
                sets = (s & ~chosen for s in self.necessary(action, n))
                more = min(sets, key=lambda s: ((s & possible).bit_count(), s.bit_count()))
            more &= ~chosen
            chosen, todo = chosen | more, todo | more
            if fewer_than is not None and (chosen & possible).bit_count() >= fewer_than:
                return possible
        return chosen & possible

    def stubborn(self, n: int, visible: int = 0) -> int:
        """Returns the fewest actions of a state that keep ends and, where such are given, the order of visible ones."""
        best = self.masks[n]
        for action in self.enabled[n]:
            if best.bit_count() > 1:
                best = min(best, self.closure(n, 1 << action, visible, best.bit_count()), key=int.bit_count)
        return best

    @cached_property
    def _machines(self) -> list[tuple[int, dict[str, int]]]:
        """By machine: its cell, and by control state all its actions, or none if one of them meets another machine."""
        found = []
        for m in self.world.machines:
            own = union(1 << i for i, a in enumerate(self.actions) if (a.role, a.instance) == (m.role.name, m.instance))
            by_control: dict[str, int] = {}
            for state, mask in zip(self.states, self.masks, strict=True):
                by_control[state[m.cell]] = by_control.get(state[m.cell], 0) | mask & own
            for control, mine in by_control.items():
                if any((self.dependent[a] | self.enablers[a]) & ~own for a in members(mine)):
                    by_control[control] = 0
            found.append((m.cell, by_control))
        return found

    def ample(self, n: int) -> int:
        """Returns the fewest actions of one machine that do not depend on another machine; all if there are none."""
        best = self.masks[n]
        for cell, by_control in self._machines:
            chosen = self.masks[n] & by_control[self.states[n][cell]]
            if chosen:
                best = min(best, chosen, key=int.bit_count)
        return best

    def search(self, choose: Callable[[int], int], ignored: bool = True) -> Search:
        """Searches breadth first, of each state the actions that are chosen, or all where others would be ignored."""
        depths = dict.fromkeys(range(self.initial), 0)
        todo, searched, taken = deque(depths), set[int](), 0
        while todo:
            n = todo.popleft()
            chosen = choose(n)
            if not ignored and all(t in (OUT, n) or t in searched for t in self._targets(n, chosen)):
                chosen = self.masks[n]
            searched.add(n)
            taken |= chosen
            for target in self._targets(n, chosen):
                if target != OUT and target not in depths:
                    depths[target] = depths[n] + 1
                    todo.append(target)
        return Search(depths, taken)

    def _targets(self, n: int, chosen: int) -> list[int]:
        return [t for a, targets in self.enabled[n].items() if chosen >> a & 1 for t in targets]


@dataclass
class Search:
    """The states that a search has visited, each with its depth, and the actions that it has taken."""

    depths: dict[int, int]
    taken: int


class Read(tuple[Any, ...]):
    """A state that notes the cells which are read of it."""

    cells: set[int]

    def __getitem__(self, cell: Any) -> Any:
        self.cells.update(range(*cell.indices(len(self))) if isinstance(cell, slice) else [cell])
        return tuple.__getitem__(self, cell)

    def __iter__(self) -> Iterator[Any]:
        self.cells.update(range(len(self)))
        return tuple.__iter__(self)


class Goal:
    """States in which a claim is violated, or has its witness."""

    def __init__(self, steps: Steps, name: str, holds: Callable[..., Any]) -> None:
        self.steps, self.name, self._holds = steps, name, holds
        self.reads = []  # by state, the cells that the claim reads
        self.reached = []
        for state in steps.states:
            read = Read(state)
            read.cells = set()
            self.reached.append(bool(holds(read, (), -1)))
            self.reads.append(sorted(read.cells))
        self._cells = sorted({c for cells in self.reads for c in cells})
        self._alike: dict[tuple[int, Any], dict[tuple[Any, ...], tuple[Any, ...]]] = {}
        for state in steps.states:  # one of those that the claim cannot tell apart
            seen = tuple(state[c] for c in self._cells)
            for c in self._cells:
                self._alike.setdefault((c, state[c]), {}).setdefault(seen, state)
        self._differ: dict[tuple[int, Any, Any], bool] = {}

    def differ(self, cell: int, one: Any, other: Any) -> bool:
        """Returns whether a cell's two values, in some state with one of them, decide about the claim."""
        key = cell, one, other
        if key not in self._differ:
            cases = [(s, other) for s in self._alike.get((cell, one), {}).values()]
            cases += [(s, one) for s in self._alike.get((cell, other), {}).values()]
            self._differ[key] = any(self._decides(cell, state, value) for state, value in cases)
        return self._differ[key]

    def _decides(self, cell: int, state: tuple[Any, ...], value: Any) -> bool:
        try:
            changed = self._holds((*state[:cell], value, *state[cell + 1 :]), (), -1)
        except Exception:  # the values that are put together here may be of no reachable state
            return True
        return bool(changed) != bool(self._holds(state, (), -1))

    @cached_property
    def visible(self) -> int:
        """The actions that may change whether it is reached."""
        states, visible = self.steps.states, 0
        for action, before, after in self.steps.steps():
            if not visible >> action & 1:
                changed = (c for c in self._cells if states[before][c] != states[after][c])
                if any(self.differ(c, states[before][c], states[after][c]) for c in changed):
                    visible |= 1 << action
        return visible

    def necessary(self, n: int) -> int:
        """Actions of which one has to come before it is reached."""
        state = self.steps.states[n]
        return union(
            who
            for c in self.reads[n]
            for value, who in self.steps.writers[c].items()
            if value != state[c] and self.differ(c, state[c], value)
        )

    def depth(self, search: Search) -> int | None:
        return min((d for n, d in search.depths.items() if self.reached[n]), default=None)


def goals_of(steps: Steps) -> tuple[list[Goal], list[Goal]]:
    """The violations and witnesses of claims about states, and the cases of which one has to be seen."""
    claims = PropertyClaims(steps.system, steps.world)
    goals = [Goal(steps, c.of.name, c.holds) for c in claims.witnesses]
    for c in claims.invariants:
        goals.append(Goal(steps, c.of.name, lambda *a, c=c: c.applies(a) and not c.holds(*a)))
    return goals, [Goal(steps, c.of.name, c.when) for c in claims.invariants if c.when is not None]


def toward(steps: Steps, goals: list[Goal], ends: bool) -> Search:
    """Searches with what may lead to goals that are not reached yet; and with `ends`, to where runs end."""
    open_ = list(goals)

    def choose(n: int) -> int:
        open_[:] = [goal for goal in open_ if not goal.reached[n]]
        chosen = steps.closure(n, union(goal.necessary(n) for goal in open_))
        return chosen or (steps.stubborn(n) if ends else 0)

    return steps.search(choose)


def union(sets: Iterable[int]) -> int:
    """The union of sets of actions."""
    found = 0
    for one in sets:
        found |= one
    return found


def members(some: int) -> Iterator[int]:
    """The actions of a set."""
    while some:
        bit = some & -some
        some ^= bit
        yield bit.bit_length() - 1
