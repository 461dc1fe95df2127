"""One process of the transport alone: it passes frames on as actors would, and does nothing else.

``python -m tests.benchmarks.relay NAME PORTS COUNT IN_FLIGHT SIZES KEY``: the tenant begins COUNT chains, each of which
goes tenant, broker, tenant, site, tenant, as the messages of a lease's set-up do. It prints the seconds that they took.
With the file of a KEY every frame is signed where it is sent and verified where it is received; `-` is for none.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of, unbase64
from leasehold.impl.transport.http import HttpTransport
from leasehold.impl.transport.transport import Delivery, Reply

NAMES = ("tenant", "broker", "site")
HOPS = (("tenant", "broker"), ("broker", "tenant"), ("tenant", "site"), ("site", "tenant"))


class Relay:
    def __init__(self, name: str, ports: list[int], count: int, in_flight: int, sizes: list[int], key: str) -> None:
        self.name, self.count, self.sizes = name, count, sizes
        self.key = None if key == "-" else PrivateKey.load(Path(key))
        self.addresses = {n: f"http://127.0.0.1:{port}" for n, port in zip(NAMES, ports, strict=True)}
        self.transport = HttpTransport("127.0.0.1", ports[NAMES.index(name)])
        self.room = asyncio.Semaphore(in_flight)
        self.done: dict[int, asyncio.Future[None]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def receive(self, frame: bytes) -> Reply:
        hop, chain, signature, body = frame.split(b" ", 3)
        if self.key is not None:
            signed = unbase64(signature.decode())
            assert signed is not None
            assert self.key.public.verifies(Purpose.ENVELOPE, body, signed)
        following = int(hop) + 1
        if following < len(HOPS):
            task = asyncio.get_running_loop().create_task(self.say(following, int(chain)))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        else:
            self.done[int(chain)].set_result(None)
        return Reply(Delivery.TAKEN)

    async def say(self, hop: int, chain: int) -> None:
        body = b"x" * self.sizes[hop]
        signature = b"-" if self.key is None else base64_of(self.key.sign(Purpose.ENVELOPE, body)).encode()
        frame = b"%d %d %s " % (hop, chain, signature) + body
        while (await self.transport.send(self.addresses[HOPS[hop][1]], frame)).answer is not Delivery.TAKEN:
            await asyncio.sleep(0.01)

    async def chain(self, chain: int) -> None:
        async with self.room:
            done = self.done[chain] = asyncio.get_running_loop().create_future()
            await self.say(0, chain)
            await done

    async def run(self) -> None:
        await self.transport.start(self.receive)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        if self.name == "tenant":
            began = time.perf_counter()
            await asyncio.gather(*(self.chain(chain) for chain in range(self.count)))
            print(time.perf_counter() - began, flush=True)
        await self.transport.close()


if __name__ == "__main__":
    name, ports, count, in_flight, sizes, key = sys.argv[1:]
    relay = Relay(
        name,
        [int(p) for p in ports.split(",")],
        int(count),
        int(in_flight),
        [int(s) for s in sizes.split(",")],
        key,
    )
    asyncio.run(relay.run())
