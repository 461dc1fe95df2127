"""A real actor at work: a broker whose tenants ask for tickets, extend them, and give them back, many at once.

What the tenants say comes into the actor's queue as the event that an opened envelope becomes, and the broker's policy
(first come, first served, over an inventory with room for all) answers; so every transition is one that a lease takes.
Nobody is named to play the tenants' machines, so the broker has nobody to answer: what is left out is exactly sealing
and opening envelopes, which is signing, and the network. Everything else is as in production: the queue, turns, the
core, the codec, group commit, policies, timers.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.network import SimulatedNetwork, SimulatedTransport
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.actor.ready import Consume
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.core.work import Event, Outcome, message
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.credentials import TicketCredentials
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.store.store import Batch, RecordKey, Store
from leasehold.spec import load
from tests.benchmarks.places import Transaction

EXTENSIONS = 3
STEPS = 2 + 2 * EXTENSIONS + 1  # transitions of one lease: ticket, granted; for each extension two; relinquish


def lease_program(units: int = 4) -> Program:
    return compile_system(load("lease", {"max_units": units}))


def broker(program: Program, store: Store, units: int, clock: SimulatedClock | None = None) -> Actor:
    """A broker of so many units whose transport leads nowhere."""
    key = PrivateKey.generate()
    trust = add(Trust(), "broker", "broker", key.public, "memory:broker")
    inventory = Inventory.parse({"units": [{"name": f"unit-{i}"} for i in range(units)]})
    identity = Identity("broker", key, trust)
    environment = Environment(
        {"broker": FirstComeFirstServed(inventory)}, credentials=TicketCredentials(program, identity, {})
    )
    return Actor(
        identity,
        program,
        ("broker",),
        store,
        SimulatedTransport(SimulatedNetwork(), "broker"),
        clock or SimulatedClock(),
        environment,
        ActorOptions(seed=0),
    )


@dataclass(frozen=True)
class Worked:
    """Work of an actor.

    Attributes:
        transitions: that it took, all of them durable.
        seconds: that it needed.
        transactions: the rows of each commit.
    """

    transitions: int
    seconds: float
    transactions: list[Transaction]

    @property
    def rate(self) -> float:
        return self.transitions / self.seconds


async def work(program: Program, store: Store, leases: int, extensions: int = EXTENSIONS) -> Worked:
    """Plays so many leases at once, each through its whole life."""
    transactions = _watched(store)
    actor = broker(program, store, leases)
    await actor.start()
    names = [f"tenant:{number}" for number in range(1, leases + 1)]
    begun = time.perf_counter()
    await _say(actor, names, message("ticket", (1, 0, 10, "", {}), 0, 1))
    for turn in range(extensions):
        await _say(actor, names, message("extend_ticket", (1, 20 + 10 * turn, {}), 0, 2 + turn))
    await _say(actor, names, message("relinquish", (), 0, 2 + extensions))
    seconds = time.perf_counter() - begun
    taken, states = actor.counts.get("taken", 0), {instance.state for instance in actor.table.instances.values()}
    await actor.stop()
    expected = leases * (3 + 2 * extensions)
    if taken != expected or states != {"closed"}:
        raise RuntimeError(f"{taken} transitions instead of {expected}, and leases in {sorted(states)}")
    return Worked(taken, seconds, transactions)


def _watched(store: Store) -> list[Transaction]:
    """The rows of every commit of a store from now on."""
    transactions: list[Transaction] = []
    commit = store.commit

    async def watched(batch: Batch) -> None:
        await commit(batch)
        if batch.puts:
            transactions.append([(lease, machine, body) for (lease, machine), body in batch.puts.items()])

    store.commit = watched  # type: ignore[method-assign]
    return transactions


async def _say(actor: Actor, leases: list[str], event: Event) -> None:
    """Each tenant says the same; comes back when it is durable, and what the policy answers too."""
    await asyncio.gather(*(_hears(actor, RecordKey(lease, "broker"), event) for lease in leases))
    await actor.read()  # the policy's answers came before it in the queue


def _hears(actor: Actor, key: RecordKey, event: Event) -> asyncio.Future[Outcome]:
    if key not in actor.table.instances:
        actor.table.instances[key] = actor.table.new(key, *actor.program.machines[key.machine])
    return actor.queue.put(Consume(key, event))
