"""Runs of the reference explorer at random that seek what is rare: crashes in the midst, retries, recoveries.

A walk costs one expansion for each step, so it comes deep where a breadth-first search of as many states stays near.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from leasehold.checker.explore import channels
from leasehold.checker.explore.labels import Left
from leasehold.checker.explore.labels import after as faults_left
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.faults.model.points import RECOVERING

MOST_STEPS = 200  # of a state, that a walk looks at
SENDS_AGAIN = ("duplicate", "retry", "recover")


@dataclass(frozen=True, eq=False)
class WalkedStep:
    """A step of a run.

    Attributes:
        kind: of action, finer than `action.kind`.
        depth: how many steps came before.
    """

    before: State
    action: Action
    after: State
    kind: str
    depth: int

    @property
    def place(self) -> tuple[str, str]:
        """Returns what steps that differ in values only have in common."""
        action = self.action
        if action.transition is not None:
            return self.kind, action.transition.name
        return self.kind, action.event if action.lane is not None else action.role or ""


def kind_of(world: Reference, before: State, action: Action, after: State) -> str:
    """The kind of a step, in words."""
    kind = action.kind
    if kind == "crash":
        return _kind_of_crash(action)
    if kind == "recover":
        assert action.role is not None
        machines = world.machines_of[world.layout.of[action.role, action.instance].name]
        return f"recovery of {'several machines' if len(machines) > 1 else 'one machine'}"
    if kind == "deliver":
        words = "message" if action.transition is not None else "ignored message"
        some = "not the oldest" if action.position else "in turn"
        return f"{words}, {'copied' if action.copy else 'overtaking' if action.group is None else some}"
    if kind == "duplicate":
        return "duplicate, answered" if _sends(world, before, after) else "duplicate"
    if kind == "lose":
        assert action.lane is not None
        rank = channels.entries(action.lane.channel.kind, before[action.lane.cell])[action.position][0]
        return "loss of a message" if rank > 0 else "loss of a duplicate"
    if kind in ("local", "tick"):
        assert action.role is not None
        answers = {
            e
            for task in world.by_name[action.role, action.instance].role.tasks.values()
            for e in getattr(task, "answers", ())
        }
        words = "tick" if kind == "tick" else "answer" if action.event in answers else "event"
        drives = any(len(effect) == 5 for effect in world.effects(before, action))
        sends = _sends(world, before, after)
        if not drives and not sends and _forgets(world, before, after):
            return f"{words}, after which a mailbox forgets"
        return f"{words}{', which drives' if drives else ', which sends' if sends else ''}"
    return kind


def _kind_of_crash(action: Action) -> str:
    together = ", several actors" if "@" in action.point else ""
    if action.transition is not None:
        part = "all" if all(action.done) else "some" if any(action.done) else "none"
        return f"crash in a step, {part} of its work done{together}"
    if action.lane is not None:
        return f"crash in a step that ignores{together}"
    return f"crash {'in recovery' if RECOVERING in action.point else 'at rest'}{together}"


def _sends(world: Reference, before: State, after: State) -> bool:
    """Returns whether some lane holds more than before."""

    def length(s: State, cell: int, mailbox: bool) -> int:
        return len(s[cell][1] if mailbox else s[cell])  # type: ignore[arg-type, index]

    lanes = [(lane.cell, lane.channel.kind == "mailbox") for lane in world.layout.lanes]
    return any(length(after, *lane) > length(before, *lane) for lane in lanes)


def _forgets(world: Reference, before: State, after: State) -> bool:
    """Returns whether some mailbox has another last message, and no more of them."""
    mailboxes = [lane.cell for lane in world.layout.lanes if lane.channel.kind == "mailbox"]
    both = ([channels.entries("mailbox", s[cell]) for s in (before, after)] for cell in mailboxes)
    return any(len(was) > 1 and len(now) > 1 and was != now and now[-1][0] >= was[-1][0] for was, now in both)


def walked(world: Reference, rng: Random, most: int) -> Iterator[WalkedStep]:
    """Steps of runs, one run after the other, until there are so many; all that no bound excludes."""
    seen: Counter[tuple[str, str]] = Counter()
    first = [s for s in world.initial_states() if world.within_bounds(s)]
    count = 0
    while first and count < most:
        s, left = rng.choice(first), world.budgeted
        for depth in range(rng.choice((6, 12, 24, 48))):
            steps = list(_steps(world, s, left, depth))
            if not steps:
                count += 1
                break
            # The rarer the likelier; a transition that was never taken comes before all others.
            step, rest = rng.choices(steps, [1 / (1 + 4 * seen[one.place]) for one, _ in steps])[0]
            seen[step.place] += 1
            count += 1
            yield step
            s, left = step.after, rest


def _steps(world: Reference, s: State, left: Left, depth: int) -> Iterator[tuple[WalkedStep, Left]]:
    due = False  # a timer
    try:
        for n, (action, after) in enumerate(world.successors(s, left)):
            rest = faults_left(left, action.cost)
            due = due or action.kind == "tick"
            if rest is not None and world.within_bounds(after):
                kind = kind_of(world, s, action, after)
                late = due and kind == "clock"  # the clock's step is the last
                yield WalkedStep(s, action, after, "clock, past a timer" if late else kind, depth), rest
            if n > MOST_STEPS:
                return
    except SpecFault:  # the other steps from here are not followed, as in a search
        return
