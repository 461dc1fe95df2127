"""What befalls all actors at once: the network parts, and clocks drift apart within their bound."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from leasehold.checker.explore.fault_layout import UP, WHOLE, Actor
from leasehold.checker.explore.layout import State, closed, opened, with_cell
from leasehold.checker.explore.step import Action

if TYPE_CHECKING:
    from leasehold.checker.explore.faulty import FaultySystem


def partitions(world: FaultySystem, s: State, may: tuple[bool, ...]) -> Iterator[tuple[Action, State]]:
    """The network parts in two, if it may, or is whole again."""
    cell = world.layout.partition
    assert cell is not None
    if s[cell] != WHOLE:
        yield Action("heal", None, 0, "the partition heals", group=("heal",)), with_cell(s, cell, WHOLE)
    elif may[0]:
        cost = (world.at["partition"],)
        for number in range(1, len(world.layout.cuts) + 1):
            action = Action("partition", None, 0, world.layout.cut_name(number), fault=True, cost=cost)
            yield action, with_cell(s, cell, number)


def clocks_gain(world: FaultySystem, s: State, of: tuple[bool, ...] = ()) -> Iterator[tuple[Action, State]]:
    """A clock gains a tick on true time; timers are prompt by the clock of their own actor."""
    for actor in world.layout.actors:
        cell = world.layout.lead[actor.name]
        if s[cell] < world.budget.skew and not (world.prompt and _any_due(world, s, actor)):
            action = Action("skew", None, 0, f"the clock of {actor.name} gains a tick", fault=True)
            yield action, with_cell(s, cell, s[cell] + 1)


def clocks_stand(world: FaultySystem, s: State, action: Action, after: State) -> Iterator[tuple[Action, State]]:
    """Time passes, and clocks that are ahead may stand still meanwhile."""
    lead = world.layout.lead
    ahead = [(name, cell) for name, cell in lead.items() if s[cell] > 0]
    for still in product((False, True), repeat=len(ahead)):
        if any(still):
            new = opened(after)
            for (_, cell), stands in zip(ahead, still, strict=True):
                new[cell] -= stands
            names = ", ".join(name for (name, _), stands in zip(ahead, still, strict=True) if stands)
            words = f"{action.event}, the clock of {names} stands still"
            yield Action("skew", None, 0, words, fault=True), closed(new)


def _any_due(world: FaultySystem, s: State, actor: Actor) -> bool:
    return s[actor.up] is UP and any(world.due(s, machine) for machine in world.machines_of[actor.name])
