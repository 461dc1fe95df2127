"""Communication and idempotency: what is not said, not said again, or heard wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.outbox import Outbox, PendingSend
from leasehold.impl.actor.ready import Consume, Ready
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.codec import Codec
from leasehold.impl.core.core import Core
from leasehold.impl.core.stepping import Step, increment_sent, with_cell
from leasehold.impl.core.work import Event, Outcome, Record, SendWork, Stepped, local, message
from tests.seeded_bugs.bug import EVERY, PAPER, TODAY, Planted, bug, patched, stepping, together
from tests.seeded_bugs.recovery import recovering, starting


def giving_up(when: Callable[[Outbox, PendingSend], bool]) -> Planted:
    """Some messages are not said again."""

    def make(later: Any) -> Any:
        def again(outbox: Outbox, parcel: PendingSend, pause: float) -> None:
            if when(outbox, parcel):
                outbox.drop(parcel.key, parcel.neighbour)
            else:
                later(outbox, parcel, pause)

        return again

    return patched(Outbox, "_later", make)


def _messages(hear: Callable[[Core, Step, Record, Event, int], Stepped]) -> Planted:
    """Messages are heard otherwise; local events are as they were."""

    def make(core: Core, step: Step) -> Step:
        return lambda record, event, now: (
            hear(core, step, record, event, now) if event[2] >= 0 else step(record, event, now)
        )

    return stepping(make)


def _as_new(core: Core, step: Step, record: Record, event: Event, now: int) -> Stepped:
    """Takes a message whatever its number is; the highest one is remembered."""
    _, _, neighbour, number, _ = event
    last = record[core.received_at]
    after, outcome = step(with_cell(record, core.received_at, with_cell(last, neighbour, number - 1)), event, now)
    heard = with_cell(last, neighbour, max(last[neighbour], number))
    return with_cell(after, core.received_at, heard), outcome


def _actor(outbox: Outbox) -> Actor:
    found: Actor = outbox._refused.__self__._put.__self__  # type: ignore[attr-defined]
    return found


def is_answer(outbox: Outbox, parcel: PendingSend) -> bool:
    """Returns whether a message answers another, and is not answered itself."""
    return _actor(outbox).program.messages[parcel.message].answer


# Communication


@bug("communication", systems=EVERY)
def unreachable_is_given_up() -> Planted:
    """A message that could not be delivered is not sent again."""
    return giving_up(lambda outbox, parcel: parcel.tries > 0)


@bug("communication")
def unreachable_ends_the_lease() -> Planted:
    """A service manager ends a lease when an actor cannot be reached, though its ticket is far from its end."""

    def close(outbox: Outbox, parcel: PendingSend) -> bool:
        actor = _actor(outbox)
        held = actor.table.instances.get(parcel.key)
        if parcel.tries > 0 and held is not None and held.core.role == "service_manager":
            actor.put_quietly(Consume(held.key, local("close")))
        return False

    return giving_up(close)


@bug("communication")
def silence_ends_the_lease() -> Planted:
    """A site ends a lease when its service manager cannot be told of it."""

    def close(outbox: Outbox, parcel: PendingSend) -> bool:
        actor = _actor(outbox)
        held = actor.table.instances.get(parcel.key)
        if parcel.tries > 0 and held is not None and held.core.role == "authority":
            number = held.record[held.core.received_at][0] + 1
            actor.put_quietly(Consume(held.key, message("close", (), 0, number)))
        return False

    return giving_up(close)


@bug("communication", systems=EVERY)
def sent_once() -> Planted:
    """A message is sent once, and taken for heard."""
    return giving_up(lambda outbox, parcel: True)


@bug("communication", systems=EVERY)
def messages_not_said_again() -> Planted:
    """Recovery begins the calls of a state, but does not send its messages."""
    return recovering(lambda held, piece: not isinstance(piece, SendWork))


@bug("communication", "paper, section 3.3: any reply is regenerated", systems=EVERY)
def lost_answer_not_made_good() -> Planted:
    """An answer is sent once, and a request that comes again is dropped without its answer."""

    def hear(core: Core, step: Step, record: Record, event: Event, now: int) -> Stepped:
        record, outcome = step(record, event, now)
        return record, outcome._replace(work=()) if outcome.kind == "duplicate" else outcome

    # As answers are said until they are heard, the one mistake without the other would do no harm.
    return together(_messages(hear), giving_up(is_answer))


# Idempotency


@bug("idempotency", systems=EVERY)
def duplicate_executed() -> Planted:
    """A message that comes again is taken for a new one."""

    def hear(core: Core, step: Step, record: Record, event: Event, now: int) -> Stepped:
        again = event[3] == record[core.received_at][event[2]]
        return (_as_new if again else _stepped)(core, step, record, event, now)

    return _messages(hear)


@bug("idempotency", systems=EVERY)
def stale_executed() -> Planted:
    """A message that comes after a newer one is taken for a new one."""

    def hear(core: Core, step: Step, record: Record, event: Event, now: int) -> Stepped:
        stale = event[3] < record[core.received_at][event[2]]
        return (_as_new if stale else _stepped)(core, step, record, event, now)

    return _messages(hear)


@bug("idempotency", TODAY)
def updates_without_numbers() -> Planted:
    """A service manager looks at no number of what a broker and a site tell it."""

    def hear(core: Core, step: Step, record: Record, event: Event, now: int) -> Stepped:
        return (_as_new if core.role == "service_manager" else _stepped)(core, step, record, event, now)

    return _messages(hear)


@bug("idempotency", TODAY)
def newer_taken_for_a_duplicate() -> Planted:
    """A newer message that comes while a request waits for the policy is taken for a duplicate of it."""

    def hear(core: Core, step: Step, record: Record, event: Event, now: int) -> Stepped:
        name, _, neighbour, number, _ = event
        if record[0] not in ("ticketing", "extending") or number <= record[core.received_at][neighbour]:
            return step(record, event, now)
        heard = with_cell(record[core.received_at], neighbour, number)
        return with_cell(record, core.received_at, heard), Outcome("duplicate", name)

    return _messages(hear)


@bug("idempotency", TODAY)
def duplicate_close_throws() -> Planted:
    """A close that comes again raises an error at the site."""

    def hear(core: Core, step: Step, record: Record, event: Event, now: int) -> Stepped:
        if event[0] == "close" and event[3] <= record[core.received_at][event[2]]:
            raise RuntimeError("the lease is being closed already")
        return step(record, event, now)

    return _messages(hear)


@bug("idempotency", TODAY, systems=EVERY)
def sent_numbers_from_received() -> Planted:
    """Recovery takes the numbers last received for those last sent."""

    def make(decode: Any) -> Any:
        def wrong(codec: Codec, body: bytes, below: Any = ()) -> Record:
            record: Record = decode(codec, body, below)
            core = codec.core
            return record if core.subsidiary else with_cell(record, core.sent_at, record[core.received_at])

        return wrong

    return patched(Codec, "decode", make)


@bug("idempotency", f"{PAPER}; section 3.3", systems=EVERY)
def said_again_under_a_new_number() -> Planted:
    """Recovery sends the messages of a state under new numbers, so that they are executed once more."""

    def again(stepper: Stepper, ready: Ready, held: MachineInstance) -> None:
        sends = [w for w in held.core.recover(held.record)[1].work if isinstance(w, SendWork)]
        if sends:
            sent = increment_sent(held.record[held.core.sent_at], tuple(w.neighbour for w in sends))
            stepper._set(ready, held, with_cell(held.record, held.core.sent_at, sent))

    return starting(again)


def _stepped(core: Core, step: Step, record: Record, event: Event, now: int) -> Stepped:
    return step(record, event, now)
