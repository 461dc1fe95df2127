"""Guards of connections, where several connections are made in one turn of the loop."""

import asyncio
from dataclasses import replace

from leasehold.impl.transport.guard import Guards
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.reception import Reception
from leasehold.impl.transport.transport import Reply


async def never(*_) -> Reply:
    raise AssertionError


class Wire(asyncio.Transport):
    """A connection that, as a real one, is lost only in a later turn of the loop than it is aborted in."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 5)})
        self.aborts = 0

    def abort(self) -> None:
        self.aborts += 1


def test_each_new_connection_takes_the_place_of_another_one():
    async def connect() -> list[Wire]:
        guards = Guards(Reception(never, replace(LIMITS, connections=3)), asyncio.Protocol)
        wires = [Wire() for _ in range(5)]
        for wire in wires:
            guards().connection_made(wire)
        return wires

    assert [wire.aborts for wire in asyncio.run(connect())] == [1, 1, 0, 0, 0]
