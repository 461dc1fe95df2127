"""Recovery itself: what it leaves out, does only once, or does wrongly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.ready import Ready
from leasehold.impl.actor.recovery import Recovery
from leasehold.impl.actor.standing import StandingMachines
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import BELOW, MachineInstance, MachineTable
from leasehold.impl.core.stepping import UNKNOWN
from leasehold.impl.core.work import Event, Outcome, SendWork, Work, message
from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.store import RecordKey
from tests.seeded_bugs.bug import EVERY, RUNTIME, TODAY, Planted, bug, patched, together


def recovering(keeps: Callable[[MachineInstance, Work], bool]) -> Planted:
    """Recovery begins only some of the work of a machine."""

    def make(start_again: Any) -> Any:
        def partly(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
            _, outcome = held.core.recover(held.record)
            stepper.start(ready, held, tuple(piece for piece in outcome.work if keeps(held, piece)), again=True)
            stepper.recheck(ready, held)

        return partly

    return patched(Stepper, "start_again", make)


def starting(first: Callable[[Stepper, Ready, MachineInstance], None]) -> Planted:
    """Recovery of a machine does something first."""

    def make(start_again: Any) -> Any:
        def after(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
            first(stepper, ready, held)
            start_again(stepper, ready, held)

        return after

    return patched(Stepper, "start_again", make)


def _leaving(role: str, state: str) -> Planted:
    """Recovery leaves the machines of a state to themselves."""

    def make(start_again: Any) -> Any:
        def some(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
            if (held.core.role, held.state) != (role, state):
                start_again(stepper, ready, held)

        return some

    return patched(Stepper, "start_again", make)


@bug("recovery", TODAY)
def recovery_closes_priming() -> Planted:
    """A lease whose units were being set up is closed by its site's recovery."""

    def close(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
        if (held.core.role, held.state) == ("authority", "priming"):
            number = held.record[held.core.received_at][0] + 1
            stepper.step(ready, held, message("close", (), 0, number))

    return starting(close)


@bug("recovery", TODAY)
def recovery_leaves_closing() -> Planted:
    """A lease that is recovered in closing is left there, as it is being closed already."""
    return together(_leaving("authority", "closing"), _leaving("unit", "closing"))


@bug("recovery", TODAY)
def recovery_leaves_modifying() -> Planted:
    """A lease that was being modified is not recovered."""
    return together(_leaving("authority", "modifying"), _leaving("unit", "modifying"))


@bug("recovery", TODAY)
def recovery_traps_starting() -> Planted:
    """A lease whose service manager stopped while the guest was being started has no way out, not even a close."""
    trapped: set[int] = set()

    def make(step: Any) -> Any:
        def stuck(
            stepper: Stepper, ready: Ready, held: MachineInstance, event: Event, *more: Any, **how: Any
        ) -> Outcome:
            if id(stepper) in trapped and held.state == "joining":
                return UNKNOWN
            outcome: Outcome = step(stepper, ready, held, event, *more, **how)
            return outcome

        return stuck

    def trap(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
        if held.state == "joining":
            trapped.add(id(stepper))

    return together(patched(Stepper, "step", make), starting(trap))


@bug("recovery")
def recovery_sends_only() -> Planted:
    """Recovery sends the messages of a state, but does not begin its calls."""
    return recovering(lambda held, piece: isinstance(piece, SendWork))


@bug("recovery")
def only_the_first_record_is_recovered() -> Planted:
    """Recovery reads the first record, and no further."""

    def make(records: Any) -> Any:
        async def first(store: OwnedStore) -> AsyncIterator[tuple[RecordKey, bytes]]:
            async for row in records(store):
                yield row
                return

        return first

    return patched(OwnedStore, "records", make)


@bug("recovery")
def only_one_lease_is_begun_again() -> Planted:
    """All records are read, and the work of the first lease alone is begun again."""

    def make(start_again: Any) -> Any:
        def some(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
            leases = [key.lease for key in stepper.table.instances if key.lease != BELOW]
            if held.key.lease in (*leases[:1], BELOW):
                start_again(stepper, ready, held)

        return some

    return patched(Stepper, "start_again", make)


@bug("recovery", systems=EVERY)
def recovery_is_one_shot() -> Planted:
    """An actor that stops while it recovers takes itself for recovered at the next start."""
    epochs: dict[str, int] = {}

    def make(start_again: Any) -> Any:
        def once(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
            if epochs[stepper.name] <= 2:
                start_again(stepper, ready, held)

        return once

    def count(own: Any) -> Any:
        async def noted(recovery: Recovery) -> None:
            await own(recovery)
            epochs[recovery.context.identity.name] = recovery.epoch

        return noted

    return together(patched(Stepper, "start_again", make), patched(Recovery, "acquire_store", count))


@bug("recovery", f"{TODAY}: a stale loop variable", systems=EVERY)
def stale_loop_variable() -> Planted:
    """Returns what recovery is to do for each machine is done for the one that came last in the loop."""
    queued: list[MachineInstance] = []
    again = Stepper.start_again

    def make(start_again: Any) -> Any:
        return lambda stepper, ready, held: queued.append(held)

    def follow(carry_out: Any) -> Any:
        async def late(actor: Actor, ready: Ready) -> None:
            machines, queued[:] = queued[:], []
            await carry_out(actor, ready)
            for _ in machines:
                own = Ready(ready.now)
                again(actor.stepper, own, machines[-1])
                actor.effects.start(own.effects)

        return late

    return together(patched(Stepper, "start_again", make), patched(Actor, "_carry_out", follow))


# Recovery that is not whole: found by tests, as no campaign has a thousand machines, or a store that fails at the start


@bug(
    "recovery", RUNTIME, systems=(),
    tests="tests/impl/actor/test_recovery_in_parts.py::test_the_work_of_every_machine_is_begun",
)  # fmt: skip
def a_piece_of_much_work_left_out() -> Planted:
    """Returns where there is more work than recovery begins itself, the first piece of the rest is begun by nobody."""

    def make(start: Any) -> Any:
        async def rest(actor: Actor, effects: list[Any]) -> None:
            await start(actor, effects[1:])

        return rest

    return patched(Actor, "_start_the_rest", make)


@bug(
    "recovery", RUNTIME, systems=(),
    tests="tests/impl/actor/test_recovery_in_parts.py::test_nothing_is_begun_any_more_once_the_actor_has_ended",
)  # fmt: skip
def recovery_goes_on_after_the_end() -> Planted:
    """Returns what recovery begins between the turns is begun on when the actor has ended, or recovers once more."""

    def make(quiet: Any) -> Any:
        async def loud(actor: Actor) -> None:
            actor._starting = None
            await quiet(actor)

        return loud

    return patched(Actor, "_stop_effects", make)


@bug(
    "recovery", RUNTIME, systems=(),
    tests="tests/impl/actor/test_reopened.py::"
    "test_an_actor_that_recovers_in_its_process_is_as_one_that_was_restarted[pipe]",
)  # fmt: skip
def settings_taken_for_followed() -> Planted:
    """A machine whose first commit failed counts as made, and is not made when the store is open again."""
    return patched(StandingMachines, "forget_settings", lambda forget: lambda standing: None)


@bug(
    "recovery", RUNTIME, systems=(),
    tests="tests/impl/actor/test_reopened.py::"
    "test_an_actor_that_recovers_in_its_process_is_as_one_that_was_restarted[lease]",
)  # fmt: skip
def drivers_known_in_memory_alone() -> Planted:
    """After a restart nobody knows which lease waits for a unit, so a unit that is lost is told to none."""
    return patched(MachineTable, "_remember_drivers", lambda remember: lambda table, instance: None)


@bug(
    "recovery", RUNTIME, systems=(),
    tests="tests/impl/actor/test_reopened.py::"
    "test_an_actor_that_recovers_in_its_process_is_as_one_that_was_restarted[lease]",
)  # fmt: skip
def forgotten_in_memory_alone() -> Planted:
    """That a lease is forgotten is not committed; after a restart a late duplicate of its first message begins it."""

    def make(forget: Any) -> Any:
        def unsaid(table: MachineTable, instance: MachineInstance) -> dict[str, bytes]:
            forget(table, instance)
            return {}

        return unsaid

    return patched(MachineTable, "forget", make)
