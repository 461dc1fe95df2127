"""An actor that plays all roles of a small system by itself, with a handler that ends when the test lets it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leasehold.faults.simulation.network import SimulatedNetwork, SimulatedTransport
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment, Probe, RetryPolicy
from leasehold.impl.clock import ActorClock
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import Done, HandlerAction, NullHandler
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.store.store import Store
from tests.systems import load, written

KEY = PrivateKey.generate()


class GatedHandler(NullHandler):
    """A handler of which every call ends well once `gate` is set."""

    def __init__(self) -> None:
        self.gate, self.runs = asyncio.Event(), 0

    async def act(self, action: HandlerAction) -> Done:
        self.runs += 1
        await self.gate.wait()
        return Done(True)


def program_of(folder: Path, files: Mapping[str, str] | None = None) -> Program:
    """Returns the system of a folder, compiled; files that are given are written there."""
    return compile_system(load(folder) if files is None else written(folder, files))


def alone(
    program: Program,
    role: str,
    store: Store,
    handlers: Mapping[str, Any],
    clock: ActorClock,
    *more: str,
    options: ActorOptions | None = None,
    probes: tuple[Probe, ...] = (),
    policies: Mapping[str, Any] | None = None,
    **environment: Any,
) -> Actor:
    """The actor `own`, which is not started yet; it may play more roles than one, and all its actions go on at once."""
    options = options or ActorOptions(seed=0, retry=RetryPolicy(at_once=10**9))
    identity = Identity("own", KEY, add(Trust(), "own", role, KEY.public, "memory:own"))
    transport = SimulatedTransport(SimulatedNetwork(), "own")
    world = Environment(dict(policies or {}), handlers, probes=probes, **environment)
    return Actor(identity, program, (role, *more), store, transport, clock, world, options)
