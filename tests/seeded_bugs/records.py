"""Serialization and checkpointing: what is written wrongly, too late, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.messages import MessageHandler
from leasehold.impl.actor.ready import Deliver, Ready, Request, StartCall
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import BELOW, MachineInstance, RowCodec
from leasehold.impl.actor.upcalls import INVENTORY, Upcalls
from leasehold.impl.core.codec import Codec
from leasehold.impl.core.core import Core
from leasehold.impl.core.stepping import with_cell
from leasehold.impl.core.work import Record
from leasehold.impl.notices import SimulatedCrash
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import Batch
from tests.seeded_bugs.bug import EVERY, PAPER, TODAY, Planted, bug, patched, together
from tests.seeded_bugs.messages import giving_up

MEMORY = "a mistake that no record shows"
_FAILS_EVERY = 4  # of the writes of one incarnation


def _written(change: Callable[[Core, Record], Record]) -> Planted:
    """Records are written as another record."""

    def make(encode: Any) -> Any:
        return lambda codec, record: encode(codec, change(codec.core, record))

    return patched(Codec, "encode", make)


def _without(role: str, *names: str) -> Planted:
    """Fields of a role are written as they were at first."""

    def change(core: Core, record: Record) -> Record:
        assert core.role != role or set(names) <= {field.name for field in core.fields}
        for at, field in enumerate(core.fields, core.data_at):
            if core.role == role and field.name in names:
                record = with_cell(record, at, field.initial)
        return record

    return _written(change)


def _numbers(at: Callable[[Core], int]) -> Planted:
    """Numbers of a record are written as 0."""

    def change(core: Core, record: Record) -> Record:
        none = {} if core.dynamic_neighbours else (0,) * len(core.neighbours)
        return record if core.subsidiary else with_cell(record, at(core), none)

    return _written(change)


def rows(change: Callable[[MachineInstance], MachineInstance]) -> Planted:
    """Returns what goes with a record is written as something else."""

    def make(write: Any) -> Any:
        return lambda rows, held: write(rows, change(held))

    return patched(RowCodec, "write", make)


# Serialization


@bug("serialization")
def assigned_units_not_saved() -> Planted:
    """The site's record is written without the units that the lease holds."""
    return _without("authority", "assigned")


@bug("serialization")
def chosen_units_not_saved() -> Planted:
    """The site's record is written without the units that the policy has chosen."""
    return _without("authority", "chosen")


@bug("serialization")
def granted_units_not_saved() -> Planted:
    """The site's record is written without the units that the holder was last told of."""
    return _without("authority", "told")


@bug("serialization")
def ticket_end_not_saved() -> Planted:
    """The service manager's record is written without the end of its ticket."""
    return _without("service_manager", "ticket_end")


@bug("serialization")
def request_not_saved() -> Planted:
    """The service manager's record is written without what it has asked for."""
    return _without("service_manager", "requested_units", "requested_end")


@bug("serialization")
def promised_units_not_saved() -> Planted:
    """The broker's record is written without the number of units on the ticket."""
    return _without("broker", "units")


@bug("serialization")
def ticket_properties_not_saved() -> Planted:
    """The service manager's record is written without the properties of its ticket."""
    return _without("service_manager", "ticket_properties")


@bug("serialization")
def quarantine_not_saved() -> Planted:
    """A unit's record is written without the mark that nobody knows what is left of it."""
    return _without("unit", "quarantined")


@bug("serialization", TODAY, systems=EVERY)
def received_numbers_not_saved() -> Planted:
    """The numbers of the messages that were received are not written."""
    return _numbers(lambda core: core.received_at)


@bug("serialization", f"{PAPER}, idempotency; {TODAY}", systems=EVERY)
def sent_numbers_not_saved() -> Planted:
    """The numbers of the messages that were sent are not written."""
    return _numbers(lambda core: core.sent_at)


@bug("serialization", systems=EVERY)
def entry_not_saved() -> Planted:
    """Returns how many states a machine has entered is not written, so that its actions on units have old numbers."""
    return _written(lambda core, record: with_cell(record, core.state_epoch_at, 0))


@bug("serialization")
def ticket_not_saved() -> Planted:
    """The signed ticket is not written with the record of its lease."""
    return rows(lambda held: replace(held, metadata={k: v for k, v in held.metadata.items() if k != "ticket"}))


@bug("serialization")
def lease_of_a_unit_not_saved() -> Planted:
    """A unit's record is written without the name of the lease that it serves."""
    return rows(lambda held: replace(held, metadata={k: v for k, v in held.metadata.items() if k != "lease"}))


@bug("serialization", systems=EVERY)
def neighbours_not_saved() -> Planted:
    """A record is written without the names of the actors that the machine talks with."""
    return rows(lambda held: replace(held, peers=[""] * len(held.peers)))


@bug("checkpointing", MEMORY)
def units_known_in_memory_alone() -> Planted:
    """Recovery notes which unit has which number, and does not commit it, so that nobody misses one that is gone."""

    def make(check: Any) -> Any:
        def forgetful(upcalls: Upcalls) -> None:
            check(upcalls)
            upcalls._kept.pop(INVENTORY, None)

        return forgetful

    return patched(Upcalls, "_check_units", make)


@bug("checkpointing", MEMORY)
def peers_known_in_memory_alone() -> Planted:
    """The incarnations and addresses of peers are noted, and not committed; an older store is believed later."""

    def make(note: Any) -> Any:
        def forgetful(handler: MessageHandler, ready: Ready, *of: Any) -> None:
            before = dict(ready.metadata)
            note(handler, ready, *of)
            ready.metadata.clear()
            ready.metadata.update(before)

        return forgetful

    return patched(MessageHandler, "_note", make)


@bug("serialization")
def unit_not_saved() -> Planted:
    """The record of a unit is not written with that of its lease."""

    def make(change: Any) -> Any:
        return lambda ready, held: None if held.core.subsidiary else change(ready, held)

    return patched(Ready, "change", make)


@bug("serialization", f"{TODAY}: some increments do not mark the record for saving", systems=EVERY)
def staying_not_saved() -> Planted:
    """A transition that leads to the same state again does not mark the record for saving."""

    def make(set_: Any) -> Any:
        def keep(stepper: Stepper, ready: Ready, held: MachineInstance, record: Record) -> None:
            if held.core.subsidiary or record[0] != held.record[0]:
                set_(stepper, ready, held, record)
            else:
                held.record = record

        return keep

    return patched(Stepper, "_set", make)


# Checkpointing


@bug("checkpointing", f"{PAPER}; {TODAY}: a call is queued before the database is written", systems=EVERY)
def tasks_before_the_commit() -> Planted:
    """The tasks of a state are begun, and its messages are sent, while the commit is still to come."""

    def make(carry_out: Any) -> Any:
        async def early(actor: Actor, ready: Ready) -> None:
            effects, ready.effects = ready.effects, []
            actor.effects.start(effects)
            await carry_out(actor, ready)

        return early

    return together(queued(), patched(Actor, "_carry_out", make))


@bug("checkpointing")
def units_before_the_commit() -> Planted:
    """The handlers of units are begun while the commit is still to come; messages wait for it."""

    def make(carry_out: Any) -> Any:
        async def early(actor: Actor, ready: Ready) -> None:
            units = [effect for effect in ready.effects if isinstance(effect, StartCall) and effect.key.lease == BELOW]
            ready.effects = [effect for effect in ready.effects if effect not in units]
            actor.effects.start(units)
            await carry_out(actor, ready)

        return early

    return together(queued(), patched(Actor, "_carry_out", make))


def queued() -> Planted:
    """What was begun is queued to other threads, which go on for a moment where a crash comes within a commit."""

    def make(carry_out: Any) -> Any:
        async def crash(actor: Actor, ready: Ready) -> None:
            try:
                await carry_out(actor, ready)
            except SimulatedCrash:
                for _ in range(3):
                    await asyncio.sleep(0)
                raise

        return crash

    return patched(Actor, "_carry_out", make)


@bug("checkpointing", systems=EVERY)
def acknowledged_before_the_commit() -> Planted:
    """A message is acknowledged while its commit is still to come, and is not sent again then."""

    def make(step: Any) -> Any:
        def early(actor: Actor, ready: Ready, request: Request) -> Any:
            reply = step(actor, ready, request)
            future = actor.queue.turn[-1].reply
            if isinstance(request, Deliver) and future is not None and not future.done():
                future.set_result(None)
            return reply

        return early

    # As a request is asked again until it is answered, the one without the other would do no harm.
    return together(patched(Actor, "_step", make), giving_up(lambda outbox, parcel: parcel.tries == 0))


@bug("checkpointing", systems=EVERY)
def commit_not_durable() -> Planted:
    """A commit is said to be made once it was written to a cache; a crash loses the last one."""

    def make(write: Any) -> Any:
        async def lazily(store: Any, batch: Batch) -> None:
            before, store.cached = getattr(store, "cached", None), (batch, store._last_event)
            if before is not None:
                last, store._last_event = store._last_event, before[1]
                await write(store, before[0])
                store._last_event = last

        return lazily

    return patched(MemoryStore, "_commit", make)


@bug("checkpointing")
def commit_not_whole() -> Planted:
    """A commit is not one transaction; of several records one is not written."""

    def make(write: Any) -> Any:
        async def partly(store: MemoryStore, batch: Batch) -> None:
            puts = list(batch.puts.items())
            await write(store, replace(batch, puts=dict(puts[:-1] if len(puts) > 1 else puts)))

        return partly

    return patched(MemoryStore, "_commit", make)


@bug("checkpointing", f"{TODAY}: the dirty flag is cleared before the SQL runs", systems=EVERY)
def dirty_flag_cleared() -> Planted:
    """A record's dirty flag is cleared before it is written; where that fails, it is never written."""
    return flaky_disk(forgets=True)


def flaky_disk(*, forgets: bool = False) -> Planted:
    """A disk of which some writes fail at first, and that is written to again until nothing is dirty."""

    def make(write: Any) -> Any:
        async def flush(store: Any, batch: Batch) -> None:
            store.writes = getattr(store, "writes", 0) + 1
            dirty: Batch | None = batch
            fails = store.writes % _FAILS_EVERY == 0
            while dirty is not None:
                now, dirty = dirty, None
                if not fails:
                    await write(store, now)
                elif not forgets:
                    dirty = now
                fails = False

        return flush

    return patched(MemoryStore, "_commit", make)
