"""Recovery: how an actor begins, for the first time and after any failure (paper, sections 3.3 and 4.3.1).

    acquire_store   the store is the actor's own: an incarnation before it can commit nothing any more
    read            every record is in memory as it was committed, and policies know what they were told
    begin_work      the state of each machine says what is under way, and all of it is begun again

That is ordinary start-up. It asks nobody, and may be done again at any point, as what is begun twice does no harm:
messages have numbers, and handlers are idempotent. What `begin_work` gives is committed and carried out like any turn.
"""

from __future__ import annotations

from random import Random

from leasehold.impl.actor.chronicle import COMMITS, Chronicle, RowCodec
from leasehold.impl.actor.environment import ActorContext
from leasehold.impl.actor.messages import EnvelopeCodec
from leasehold.impl.actor.ready import Ready
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.core.codec import RecordError
from leasehold.impl.migrate.schema import refusal, with_command
from leasehold.impl.store.store import Older, Store


class Recovery:
    """Begins an actor from its store.

    Args:
        context: of the actor.
        store: its records.
        rows: reads them.
        stepper: begins the work of machines.
        codec: of messages, which tells peers the incarnation and the store.
        chronicle: of its events.
        upcalls: tell its policies.

    Attributes:
        epoch: the incarnation; 0: there was none yet.
    """

    def __init__(
        self,
        context: ActorContext,
        store: Store,
        rows: RowCodec,
        stepper: Stepper,
        codec: EnvelopeCodec,
        chronicle: Chronicle,
        upcalls: Upcalls,
    ) -> None:
        self.context, self.store, self.rows, self.stepper = context, store, rows, stepper
        self.codec, self.chronicle, self.upcalls = codec, chronicle, upcalls
        self.epoch = 0

    async def acquire_store(self) -> None:
        """Takes the store from its owner before.

        Raises:
            StoreError: it cannot be had.
            Older: it is a copy of a time before, or another store.
        """
        name = self.context.identity.name
        epoch = await self.store.open(name)
        if epoch <= self.epoch:
            raise Older(
                f"the store of {name} was opened as epoch {self.epoch}, and is at {epoch} now: "
                "it is an older copy, or another store",
                "put the right one back, and start the actor again",
            )
        self.epoch = self.codec.epoch = epoch

    async def read(self, rng: Random) -> None:
        """Reads every record, and tells the policies.

        Args:
            rng: names a store that has no name yet.

        Raises:
            StoreError: the store cannot be read.
            RecordError, EnvironmentMismatch: it has records of another specification, or damaged ones.
        """
        table, program, name = self.context.table, self.context.program, self.context.identity.name
        now = self.context.clock.now()
        table.clear(await self.store.metadata())
        self.codec.resume(table.metadata.get(COMMITS), rng)
        other = refusal(table.metadata, self.chronicle.schema, program, self.store, name)
        async for key, row in self.store.records():
            if other is not None:
                raise other
            try:
                table.admit(self.rows.read(key, row, table.below_of(key.lease)), now)
            except RecordError as error:
                raise with_command(error, program, self.store, name) from error
        self.upcalls.recovered()

    async def begin_work(self) -> Ready:
        """Begins the work of every machine's state, as a turn that is to be carried out."""
        table, ready = self.context.table, Ready(self.context.clock.now())
        await self.chronicle.begin(ready)
        self.stepper.standing.forget_settings()
        self.stepper.standing.ensure(ready)
        if table.instances:
            self.chronicle.describe(ready)
        if table.instances and COMMITS not in table.metadata:  # the store's name is durable before anybody hears it
            ready.metadata[COMMITS] = b""
        for instance in tuple(table.instances.values()):
            self.stepper.start_again(ready, instance)
        return ready
