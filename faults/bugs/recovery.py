"""Recovery itself: what it leaves out, does only once, or does wrongly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from leasehold.faults.bugs.bug import TODAY, Planted, bug, patched, together
from leasehold.impl.actor.held import BELOW, Held
from leasehold.impl.actor.steps import Steps
from leasehold.impl.actor.turn import Turn
from leasehold.impl.core.event import Event, message
from leasehold.impl.core.stepping import UNKNOWN
from leasehold.impl.core.work import Outcome, Send, Work
from leasehold.impl.store.owned import OwnedStore
from leasehold.impl.store.store import Key


def recovering(keeps: Callable[[Held, Work], bool]) -> Planted:
    """Recovery begins only some of the work of a machine."""

    def make(start_again: Any) -> Any:
        def partly(steps: Steps, turn: Turn, held: Held) -> None:
            _, outcome = held.core.recover(held.record)
            steps.work(turn, held, tuple(piece for piece in outcome.work if keeps(held, piece)))
            steps.offered(turn, held)

        return partly

    return patched(Steps, "start_again", make)


def starting(first: Callable[[Steps, Turn, Held], None]) -> Planted:
    """Recovery of a machine does something first."""

    def make(start_again: Any) -> Any:
        def after(steps: Steps, turn: Turn, held: Held) -> None:
            first(steps, turn, held)
            start_again(steps, turn, held)

        return after

    return patched(Steps, "start_again", make)


def _leaving(role: str, state: str) -> Planted:
    """Recovery leaves the machines of a state to themselves."""

    def make(start_again: Any) -> Any:
        def some(steps: Steps, turn: Turn, held: Held) -> None:
            if (held.core.role, held.state) != (role, state):
                start_again(steps, turn, held)

        return some

    return patched(Steps, "start_again", make)


@bug("recovery", TODAY)
def recovery_closes_priming() -> Planted:
    """A lease whose units were being set up is closed by its site's recovery."""

    def close(steps: Steps, turn: Turn, held: Held) -> None:
        if (held.core.role, held.state) == ("authority", "priming"):
            number = held.record[held.core.received_at][0] + 1
            steps.step(turn, held, message("close", (), 0, number))

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
        def stuck(steps: Steps, turn: Turn, held: Held, event: Event) -> Outcome:
            if id(steps.memory) in trapped and held.state == "joining":
                return UNKNOWN
            outcome: Outcome = step(steps, turn, held, event)
            return outcome

        return stuck

    def trap(steps: Steps, turn: Turn, held: Held) -> None:
        if held.state == "joining":
            trapped.add(id(steps.memory))

    return together(patched(Steps, "step", make), starting(trap))


@bug("recovery")
def recovery_sends_only() -> Planted:
    """Recovery sends the messages of a state, but does not begin its calls."""
    return recovering(lambda held, piece: isinstance(piece, Send))


@bug("recovery")
def only_the_first_record_is_recovered() -> Planted:
    """Recovery reads the first record, and no further."""

    def make(records: Any) -> Any:
        async def first(store: OwnedStore) -> AsyncIterator[tuple[Key, bytes]]:
            async for row in records(store):
                yield row
                return

        return first

    return patched(OwnedStore, "records", make)


@bug("recovery")
def only_one_lease_is_begun_again() -> Planted:
    """All records are read, and the work of the first lease alone is begun again."""

    def make(start_again: Any) -> Any:
        def some(steps: Steps, turn: Turn, held: Held) -> None:
            leases = [key.lease for key in steps.memory.held if key.lease != BELOW]
            if held.key.lease in (*leases[:1], BELOW):
                start_again(steps, turn, held)

        return some

    return patched(Steps, "start_again", make)


@bug("recovery")
def recovery_is_one_shot() -> Planted:
    """An actor that stops while it recovers takes itself for recovered at the next start."""

    def make(start_again: Any) -> Any:
        def once(steps: Steps, turn: Turn, held: Held) -> None:
            if steps.actor.epoch <= 2:
                start_again(steps, turn, held)

        return once

    return patched(Steps, "start_again", make)


@bug("recovery", f"{TODAY}: a stale loop variable")
def stale_loop_variable() -> Planted:
    """What recovery is to do for each machine is done for the one that came last in the loop."""
    last: dict[int, Held] = {}

    def make(start_again: Any) -> Any:
        def late(steps: Steps, turn: Turn, held: Held) -> None:
            last[id(turn)] = held

            def follow() -> None:
                own = Turn()
                start_again(steps, own, last[id(turn)])
                for do in own.after:
                    do()

            turn.after.append(follow)

        return late

    return patched(Steps, "start_again", make)
