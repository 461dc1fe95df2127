"""An incarnation of the harness asks handlers as an actor does: what is judged is what an actor would act upon."""

from __future__ import annotations

import asyncio
import json
import socket
from itertools import product
from typing import Any

import pytest

from leasehold.checker.handlers import target
from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor.environment import Probe, ProbeSettings
from leasehold.impl.actor.table import BELOW
from leasehold.impl.handlers.handler import NullHandler
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import alone, program_of
from tests.impl.virtual import virtual
from tests.systems import TESTS

SITE = TESTS / "impl/actor/systems/site"
UNIT = "unit[0]"
WORDS = {"up": "True", "missed": "False", "unknown": "None", "failed": "None"}  # of an actor, and of the harness


class Answering(NullHandler):
    """A handler that says this of each unit."""

    def __init__(self, answer: bool | Exception | None) -> None:
        self.answer = answer

    async def is_up(self, unit: str) -> bool | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def by_harness(handlers: dict[str, Any]) -> str:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        await target._probe(asyncio.get_running_loop(), near, handlers, {"id": 1, "probe": UNIT})
        return str(json.loads(far.recv(1 << 16))["up"])


async def by_actor(handlers: dict[str, Any]) -> str:
    probe = Probe("unit", "lost", ProbeSettings())
    actor = alone(program_of(SITE), "keeper", MemoryStore(Disk()), handlers, SimulatedClock(), probes=(probe,))
    await actor.start()
    await actor.begin("own:1", "keeper", "open", {}, {})
    await asyncio.sleep(0.1)
    result = await actor.probes._result(probe, actor.table.instances[RecordKey(BELOW, UNIT)])
    await actor.stop()
    return WORDS[str(result)]


ANSWERS = {"up": True, "down": False, "nobody knows": None, "an error": OSError("no route")}


@pytest.mark.parametrize(("first", "second"), list(product(ANSWERS, ANSWERS)))
def test_several_handlers_say_to_the_harness_what_they_say_to_an_actor(first: str, second: str) -> None:
    handlers = {"bring": Answering(ANSWERS[first]), "remove": Answering(ANSWERS[second])}
    assert asyncio.run(by_harness(handlers)) == virtual(by_actor(handlers))
