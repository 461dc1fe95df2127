"""Resource handlers: actions that must not be begun twice, are not begun again, or are believed too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from leasehold.impl.actor import outside
from leasehold.impl.actor.ready import Complete, Ready
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.core.stepping import with_cell
from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError
from leasehold.impl.handlers.simulated import SimulatedUnit, SimulatedUnits
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.policy.policy import Lease
from tests.seeded_bugs.bug import PAPER, TODAY, Planted, bug, patched
from tests.seeded_bugs.recovery import recovering


def _acting(before: Callable[[SimulatedUnits, HandlerAction], None]) -> Planted:
    """Something happens before a handler acts."""

    def make(act: Any) -> Any:
        async def otherwise(world: SimulatedUnits, action: HandlerAction) -> Done:
            before(world, action)
            done: Done = await act(world, action)
            return done

        return otherwise

    return patched(SimulatedUnits, "act", make)


def _on(world: SimulatedUnits, action: HandlerAction) -> bool:
    state = world.units.get(action.unit or action.lease)
    return state is not None and state.on


@bug("resource handlers")
def setup_twice_makes_two() -> Planted:
    """A setup that is begun again makes a second unit, and does not find the first."""

    def act(world: SimulatedUnits, action: HandlerAction) -> None:
        if action.verb == "setup" and _on(world, action):
            world.units[f"{action.unit}, the second"] = SimulatedUnit(on=True, lease=action.lease)

    return _acting(act)


@bug("resource handlers")
def teardown_of_nothing_fails() -> Planted:
    """The teardown of a unit that is not there, or was not made to the end, fails."""

    def act(world: SimulatedUnits, action: HandlerAction) -> None:
        if action.verb == "teardown" and not _on(world, action):
            raise HandlerError(f"there is no {action.unit}")

    return _acting(act)


@bug("resource handlers")
def setup_twice_fails() -> Planted:
    """A setup that is begun again fails, as the name is in use."""

    def act(world: SimulatedUnits, action: HandlerAction) -> None:
        if action.verb == "setup" and _on(world, action):
            raise HandlerError(f"{action.unit} is there already")

    return _acting(act)


@bug("resource handlers")
def join_twice_fails() -> Planted:
    """A guest that runs already cannot join."""

    def act(world: SimulatedUnits, action: HandlerAction) -> None:
        if action.verb == "join" and _on(world, action):
            raise HandlerError(f"the guest of {action.lease} runs already")

    return _acting(act)


@bug("resource handlers", "paper, section 3.4: identifiers of actions are durable")
def action_numbers_begin_anew() -> Planted:
    """Actions are counted from the beginning after a restart, and the unit refuses them as old."""

    counts: WeakKeyDictionary[Upcalls, int] = WeakKeyDictionary()

    def make(action: Any) -> Any:
        def counted(upcalls: Upcalls, *of: Any) -> Any:
            counts[upcalls] = counts.get(upcalls, 0) + 1
            return replace(action(upcalls, *of), number=counts[upcalls])

        return counted

    return patched(Upcalls, "action", make)


@bug("resource handlers")
def stale_completion_believed() -> Planted:
    """That an action has ended well is believed, though its unit was given up meanwhile."""
    means = {"up": "active", "changed": "active", "down": "closed"}

    def make(complete: Any) -> Any:
        def believe(stepper: Stepper, ready: Ready, request: Complete) -> None:
            held = stepper.table.instances.get(request.key)
            if held is not None and held.state_epoch != request.epoch and request.event in means:
                stepper._set(ready, held, with_cell(held.record, 0, means[request.event]))
            complete(stepper, ready, request)

        return believe

    return patched(outside, "complete", make)


@bug("resource handlers", f"{PAPER}; {TODAY}")
def redo_never_called() -> Planted:
    """Returns what is to be done again for the units after a restart is written, and nothing calls it."""

    def keeps(held: MachineInstance, piece: object) -> bool:
        return not (held.core.subsidiary and isinstance(piece, CallWork))

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
