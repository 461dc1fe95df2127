"""The meaning of a system whose actors crash and whose network fails: steps, as in transition_system.py, and faults.

Theory of operation (paper, sections 3.2 and 3.3). What is durable is the record of every machine, with its sequence
numbers, and what the world outside holds; everything else goes with a crash. An actor may crash

- between two steps (`crash:site`): no event was being consumed, or one was and comes again, as nothing was committed;
- in a step, after the commit and any part of the work that follows it (`crash:broker/ticketed#after-commit`,
  `...#after-tell`). The message that was consumed was not acknowledged, so it comes again, with its number. What was
  not sent has its number all the same: numbers are committed with the record;
- while it recovers (`crash:site#recovering`), after any part of the work that recovery does.

While an actor is down its machines take no step, messages to it wait, and those that it sent may be lost, each on its
own. Recovery (`recover:site`) starts the work of every machine's state again, with the numbers that it had. It asks
nobody, and comes in the end.

A step of the explorer is a subset of the work list: tasks of one list may overlap, so any of them may have been done.
What a policy or handler has begun is not in the model: recovery asks it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from typing import Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.compiled import Driving, Machine, Sending, wanted
from leasehold.checker.explore.layout import Lane, Layout, State
from leasehold.checker.explore.transition_system import Action, TransitionSystem
from leasehold.faults import Budget
from leasehold.spec.language.model import System, machine_name

Work = Sending | Driving


class FaultLayout(Layout):
    """The cells of the system without faults, then one for each actor (is it up), then the budgets that are limited."""

    def __init__(self, system: System, budget: Budget) -> None:
        super().__init__(system)
        self.budget = budget
        self.base = self.size
        self.actors: list[tuple[str, tuple[tuple[str, int], ...]]] = _actors(system)
        self.up = {machine: self.size + i for i, (_, machines) in enumerate(self.actors) for machine in machines}
        self.size += len(self.actors)
        self.limited: dict[str, int] = {}
        for fault in fields(Budget):
            if isinstance(count := getattr(budget, fault.name), int) and count > 0:
                self.limited[fault.name] = self.size
                self.size += 1

    def running(self, role: str, instance: str) -> str:
        cells = tuple(self.up[role, i] for i in range(self.system.roles[role].count))
        return f"{{s}}[{cells[int(instance)]}]" if instance.isdigit() else f"{{s}}[{cells!r}[{instance}]]"


def _actors(system: System) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """Every actor with its machines; machines of roles that no actor is declared to play are actors of their own."""
    found: list[tuple[str, tuple[tuple[str, int], ...]]] = []
    placed: set[str] = set()
    for name, roles in system.actors.items():
        placed.update(roles)
        found.append((name, tuple((r.name, i) for r, i in system.machines() if r.name in roles)))
    for role, i in system.machines():
        if role.name not in placed:
            found.append((machine_name(role, i), ((role.name, i),)))
    return found


class FaultySystem(TransitionSystem):
    """First states and steps of a system under a budget of faults."""

    layout: FaultLayout

    def __init__(self, system: System, budget: Budget) -> None:
        super().__init__(system, FaultLayout(system, budget))
        self.budget = budget
        self.actors = [
            (name, [self.by_name[m] for m in machines], self.layout.up[machines[0]])
            for name, machines in self.layout.actors
            if machines
        ]

    def initial_states(self) -> list[State]:
        extra = [True] * len(self.layout.actors) + [getattr(self.budget, f) for f in self.layout.limited]
        return [(*s, *extra) for s in super().initial_states()]

    def without_faults(self, state: State) -> State | None:
        """The same state of the system without faults; None while an actor is down."""
        if all(state[up] for _, _, up in self.actors):
            return state[: self.layout.base]
        return None

    def effects(self, s: State, action: Action) -> list[Any]:
        """What a step sent and drove; of a crash, what of the work was done before it, and of a recovery all of it."""
        if action.kind not in ("crash", "recover"):
            return super().effects(s, action)
        log: list[Any] = []
        if not action.done:
            return log
        new = list(s)
        if action.role is None:
            name = action.event.removeprefix("recover:").removeprefix("crash:").partition("#")[0]
            machines = next(m for n, m, _ in self.actors if n == name)
            for w, d in zip(self._recovering(s, machines), action.done, strict=True):
                if d:
                    self._do(new, w, log, again=True)
            return log
        assert action.transition is not None
        machine = self.by_name[action.role, action.instance]
        move = machine.move(s, action.event, action.transition)
        self._commit(new, machine, move, action.fields, action.sender)
        work = [w for w in move.work if wanted(w, new)]
        for w, d in zip(work, action.done, strict=True):
            if d:
                self._do(new, w, log)
        return log

    # What faults may do

    def running(self, s: Any, machine: Machine) -> bool:
        return bool(s[self.layout.up[machine.role.name, machine.instance]])

    def may(self, s: Any, lane: Lane, fault: str) -> bool:
        if fault == "lose" and not s[self.layout.up[lane.channel.sender, lane.sender]]:
            return True
        if getattr(self.budget, fault) == "any":
            return True
        at = self.layout.limited.get(fault)
        return (at is not None and s[at] > 0) or super().may(s, lane, fault)

    def spend(self, new: list[Any], lane: Lane, fault: str) -> None:
        if fault == "lose" and not new[self.layout.up[lane.channel.sender, lane.sender]]:
            return
        at = self.layout.limited.get(fault)
        if at is not None and new[at] > 0:
            new[at] -= 1
        elif getattr(self.budget, fault) != "any":
            super().spend(new, lane, fault)

    # Steps

    def successors(self, s: State) -> Iterator[tuple[Action, State]]:
        """Every step and every fault from a state, in a fixed order."""
        crash = self.layout.limited.get("crash")
        may_crash = crash is not None and s[crash] > 0
        for action, after in super().successors(s):
            yield action, after
            if may_crash and action.transition is not None and not action.copy:
                yield from self._crash_in(s, action)
        for name, machines, up in self.actors:
            if s[up]:
                if may_crash:
                    yield Action("crash", None, 0, f"crash:{name}", fault=True), self._down(s, up)
            else:
                yield from self._recover(s, name, machines, up, may_crash)
        cut = self.layout.limited.get("power_cut")
        if cut is not None and s[cut] > 0 and any(s[up] for _, _, up in self.actors):
            new = list(s)
            new[cut] -= 1
            for _, _, up in self.actors:
                new[up] = False
            yield Action("crash", None, 0, "crash:everything", fault=True), tuple(new)

    def _down(self, s: Any, up: int) -> State:
        new = list(s)
        new[up] = False
        new[self.layout.limited["crash"]] -= 1
        return tuple(new)

    def _crash_in(self, s: State, action: Action) -> Iterator[tuple[Action, State]]:
        """The crashes of the machine that takes a step: after its commit, and after each part of the work."""
        assert action.role is not None
        assert action.transition is not None
        machine = self.by_name[action.role, action.instance]
        move = machine.move(s, action.event, action.transition)
        base = list(s)
        if action.lane is not None:
            lane = action.lane
            base[lane.cell] = channels.take(lane.channel.kind, base[lane.cell], action.position, keep_copy=True)
        self._commit(base, machine, move, action.fields, action.sender)
        work = [w for w in move.work if wanted(w, base)]
        up = self.layout.up[machine.role.name, machine.instance]
        for done in product((False, True), repeat=len(work)):
            if all(done) and action.lane is None:
                continue  # everything was done: the same as a crash between two steps
            new = list(base)
            try:
                for w, d in zip(work, done, strict=True):
                    self._do_or_number(new, w, d)
            except channels.Full:
                continue
            point = _point(move.transition.role, move.transition.target, work, done, action.lane is not None)
            yield action._replace(kind="crash", group=None, point=point, done=done, fault=True), self._down(new, up)

    def _do_or_number(self, new: list[Any], work: Work, done: bool) -> None:
        """Does a piece of work, or only what the commit has done of it: give the message its number."""
        if done:
            self._do(new, work, None)
        elif isinstance(work, Sending):
            lane = work.lane
            new[lane.cell] = channels.number(lane.channel.kind, new[lane.cell])

    def _recover(
        self, s: State, name: str, machines: list[Machine], up: int, may_crash: bool
    ) -> Iterator[tuple[Action, State]]:
        work = self._recovering(s, machines)
        for done in product((True, False), repeat=len(work)) if may_crash else [(True,) * len(work)]:
            new = list(s)
            for w, d in zip(work, done, strict=True):
                if d:
                    self._do(new, w, None, again=True)
            if all(done):
                new[up] = True
                yield Action("recover", None, 0, f"recover:{name}", group=("recover", name), done=done), tuple(new)
            elif any(done):
                point = f"crash:{name}#recovering-after-" + "+".join(_names(work, done))
                yield Action("crash", None, 0, point, done=done, fault=True), self._down(new, up)

    def _recovering(self, s: Any, machines: list[Machine]) -> list[Work]:
        """The work that recovery starts again: that of every machine's state."""
        return [w for machine in machines for w in machine.places[s[machine.cell]].work if wanted(w, s)]


def _names(work: list[Work], done: tuple[bool, ...]) -> list[str]:
    return list(dict.fromkeys(w.task.name for w, d in zip(work, done, strict=True) if d))


def _point(role: str, state: str, work: list[Work], done: tuple[bool, ...], message: bool) -> str:
    """The name of a crash point, such as `crash:broker/ticketed#after-commit`."""
    if all(done) and message:
        where = "before-acknowledge"
    elif any(done):
        where = "after-" + "+".join(_names(work, done))
    else:
        where = "after-commit"
    return f"crash:{role}/{state}#{where}"
