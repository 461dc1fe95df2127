"""`python -m tests.benchmarks.path`: how many changes of module an HTTP request passes until its commit.

A broker listens with its real HTTP transport. A client outside of the project's code posts one signed `ticket` message.
From the first of the request's bytes until the store is given the batch, every call and return of a Python function is
watched: each time the running module of this project is another than before, one change is counted. Library code
(aiohttp, msgspec, cryptography) does not count. The message is the second of its sender, so that nothing is counted
that happens once. `--list` prints the modules in their order.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.identity.envelope import Envelope, seal
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.credentials import TicketCredentials
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import Batch
from leasehold.impl.transport.framing import pack
from leasehold.impl.transport.http import HttpTransport
from tests.benchmarks.workload import lease_program

OURS = "leasehold."


class Watch:
    """The modules of this project that run, in their order, each named once in a row."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def start(self) -> None:
        self.modules.clear()
        sys.setprofile(self._event)

    def stop(self) -> None:
        sys.setprofile(None)

    @property
    def changes(self) -> int:
        return len(self.modules) - 1

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        running = frame if event == "call" else frame.f_back if event == "return" else None
        if running is None:
            return
        name = running.f_globals.get("__name__", "")
        if name.startswith(OURS) and (not self.modules or self.modules[-1] != name):
            self.modules.append(name)


class WatchedStore(MemoryStore):
    """A store that ends the watch when it is given a batch with a record."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    async def commit(self, batch: Batch) -> None:
        if batch.puts:
            self._watch.stop()
        await super().commit(batch)


async def _post(address: str, frame: bytes, watch: Watch) -> bytes:
    """Posts one frame; watches from the moment at which its bytes are written."""
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    body = pack([frame])
    head = f"POST /parcels HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    await asyncio.sleep(0.01)  # the connection is there
    writer.write(head.encode() + body)
    watch.start()
    answer = await reader.read()
    watch.stop()
    writer.close()
    return answer


async def _measure() -> Watch:
    program, watch = lease_program(), Watch()
    keys = {name: PrivateKey.generate() for name in ("tenant", "broker", "site")}
    trust = Trust()
    for name, role in (("tenant", "service_manager"), ("broker", "broker"), ("site", "authority")):
        trust = add(trust, name, role, keys[name].public, "http://127.0.0.1:9" if name == "tenant" else "")
    policy = FirstComeFirstServed(Inventory.parse({"units": [{"name": "unit-0"}, {"name": "unit-1"}]}))
    identity, peers = Identity("broker", keys["broker"], trust), {"authority": "site"}
    environment = Environment({"broker": policy}, {}, peers, credentials=TicketCredentials(program, identity, peers))
    actor = Actor(
        identity,
        program,
        ("broker",),
        WatchedStore(watch),
        HttpTransport(),
        SimulatedClock(),
        environment,
        ActorOptions(seed=0),
    )
    address = await actor.start()
    try:
        for number in (1, 2):
            envelope = Envelope(
                version=1,
                system=program.system,
                digest=actor.codec.agreement,
                sender="tenant",
                receiver="broker",
                lease=f"tenant:{number}",
                sending_machine="service_manager",
                receiving_machine="broker",
                message="ticket",
                number=1,
                epoch=1,
                reply_to="http://127.0.0.1:9",
                fields={"units": 1, "start": 0, "end": 10, "type": "", "properties": {}},
            )
            answer = await _post(address, seal(envelope, keys["tenant"]), watch)
            if b'"taken"' not in answer:
                raise RuntimeError(f"the message was not taken: {answer[-200:]!r}")
    finally:
        await actor.stop()
    return watch


def measure() -> Watch:
    """The changes of module of one request."""
    return asyncio.run(_measure())


def main(arguments: Sequence[str]) -> int:
    watch = measure()
    if "--list" in arguments:
        print(*(name.removeprefix(OURS) for name in watch.modules), sep="\n")
    print(f"{watch.changes} changes between {len(set(watch.modules))} modules from the request to its commit")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
