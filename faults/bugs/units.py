"""Resource handlers: actions that must not be begun twice, are not begun again, or are believed too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from leasehold.faults.bugs.bug import PAPER, TODAY, Planted, bug, patched
from leasehold.faults.bugs.recovery import recovering
from leasehold.impl.actor.extensions import Extensions
from leasehold.impl.actor.held import Held
from leasehold.impl.actor.turn import Turn
from leasehold.impl.core.stepping import with_cell
from leasehold.impl.core.work import Call
from leasehold.impl.handlers.errors import HandlerError
from leasehold.impl.handlers.handler import Action, Done
from leasehold.impl.handlers.simulated import State, World
from leasehold.impl.policy.authority import FirstFit
from leasehold.impl.policy.policy import Lease
from leasehold.impl.store.store import Key


def _acting(before: Callable[[World, Action], None]) -> Planted:
    """Something happens before a handler acts."""

    def make(act: Any) -> Any:
        async def otherwise(world: World, action: Action) -> Done:
            before(world, action)
            done: Done = await act(world, action)
            return done

        return otherwise

    return patched(World, "act", make)


def _on(world: World, action: Action) -> bool:
    state = world.units.get(action.unit or action.lease)
    return state is not None and state.on


@bug("resource handlers")
def setup_twice_makes_two() -> Planted:
    """A setup that is begun again makes a second unit, and does not find the first."""

    def act(world: World, action: Action) -> None:
        if action.verb == "setup" and _on(world, action):
            world.units[f"{action.unit}, the second"] = State(on=True, lease=action.lease)

    return _acting(act)


@bug("resource handlers")
def teardown_of_nothing_fails() -> Planted:
    """The teardown of a unit that is not there, or was not made to the end, fails."""

    def act(world: World, action: Action) -> None:
        if action.verb == "teardown" and not _on(world, action):
            raise HandlerError(f"there is no {action.unit}")

    return _acting(act)


@bug("resource handlers")
def setup_twice_fails() -> Planted:
    """A setup that is begun again fails, as the name is in use."""

    def act(world: World, action: Action) -> None:
        if action.verb == "setup" and _on(world, action):
            raise HandlerError(f"{action.unit} is there already")

    return _acting(act)


@bug("resource handlers")
def join_twice_fails() -> Planted:
    """A guest that runs already cannot join."""

    def act(world: World, action: Action) -> None:
        if action.verb == "join" and _on(world, action):
            raise HandlerError(f"the guest of {action.lease} runs already")

    return _acting(act)


@bug("resource handlers", "paper, section 3.4: identifiers of actions are durable")
def action_numbers_begin_anew() -> Planted:
    """Actions are counted from the beginning after a restart, and the unit refuses them as old."""

    def make(action: Any) -> Any:
        return lambda extensions, held, piece: replace(action(extensions, held, piece), number=extensions._attempt)

    return patched(Extensions, "_action", make)


@bug("resource handlers")
def stale_completion_believed() -> Planted:
    """That an action has ended well is believed, though its unit was given up meanwhile."""
    means = {"up": "active", "changed": "active", "down": "closed"}

    def make(answered: Any) -> Any:
        def believe(extensions: Extensions, key: Key, event: str, entry: int, done: Done) -> None:
            def take(turn: Turn) -> None:
                held = extensions.memory.held.get(key)
                if held is not None and held.entry != entry and event in means:
                    extensions.actor.steps._set(turn, held, with_cell(held.record, 0, means[event]))

            extensions.actor.put_quietly(take)
            answered(extensions, key, event, entry, done)

        return believe

    return patched(Extensions, "answered", make)


@bug("resource handlers", f"{PAPER}; {TODAY}")
def redo_never_called() -> Planted:
    """What is to be done again for the units after a restart is written, and nothing calls it."""

    def keeps(held: Held, piece: object) -> bool:
        return not (held.core.subsidiary and isinstance(piece, Call))

    return recovering(keeps)


@bug("resource handlers", f"{TODAY}: a VLAN, an address, a volume")
def failed_teardown_to_the_pool() -> Planted:
    """A unit whose teardown failed is free for the next lease."""

    def make(note: Any) -> Any:
        def forgiving(policy: FirstFit, lease: Lease) -> Any:
            units = {
                key: {**unit, "state": "closed", "quarantined": False} if unit.get("quarantined") else unit
                for key, unit in lease.units.items()
            }
            return note(policy, replace(lease, units=units))

        return forgiving

    return patched(FirstFit, "_note", make)
