"""The requests of an actor: their order, their turns, and what those hear for whom there will be none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.ready import Read, Tick
from leasehold.impl.actor.turns import MOST, QUIET, Queued, RequestQueue


def taken(queue: RequestQueue, most: int) -> list[Queued]:
    """Returns what a turn takes."""
    while queue.waiting and len(queue.turn) < most:
        queue.turn.append(queue.waiting.popleft())
    return queue.turn


async def test_a_turn_takes_what_waits_in_order_up_to_a_limit() -> None:
    queue = RequestQueue()
    assert not queue
    replies = [queue.put(Tick(n)) for n in range(5)]
    queue.put_quietly(Tick(5))
    assert queue
    await queue.begin()
    assert [queued.request for queued in taken(queue, 4)] == [Tick(n) for n in range(4)]
    assert queue.turn_began is not None
    queue.end()
    assert queue  # two wait
    await asyncio.wait_for(queue.begin(), 1)  # at once, as more waits
    assert queue.turn == []
    assert [queued.request for queued in taken(queue, 100)] == [Tick(4), Tick(5)]
    queue.end()
    assert not queue
    assert [reply.done() for reply in replies] == [False] * 5
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.begin(), 1)


async def test_a_turn_takes_what_comes_at_the_same_time() -> None:
    """A request that others follow, each a few rounds of the event loop later, shares a commit with them."""

    queue = RequestQueue()

    async def others(count: int) -> None:
        for n in range(count):
            for _ in range(QUIET - 2):
                await asyncio.sleep(0)
            queue.put_quietly(Tick(n))

    queue.put_quietly(Tick(100))
    tasks = [asyncio.create_task(others(10))]
    await queue.begin()
    assert len(queue.waiting) == 11
    queue.end()
    tasks.append(asyncio.create_task(others(MOST * 2)))  # but it is not put off for ever
    await queue.begin()
    assert len(queue.waiting) == MOST
    for task in tasks:
        task.cancel()


async def test_what_comes_just_before_a_turn_begins_makes_no_further_turn() -> None:
    """It is taken with the others, and nothing is left for which another turn would be made."""

    queue = RequestQueue()
    queue.put_quietly(Tick(0))
    for _ in range(QUIET + 1):
        await asyncio.sleep(0)
    queue.put_quietly(Tick(1))
    await asyncio.wait_for(queue.begin(), 1)
    assert [queued.request for queued in taken(queue, MOST)] == [Tick(0), Tick(1)]
    for _ in range(3 * QUIET):
        await asyncio.sleep(0)  # as while it is committed
    queue.end()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.begin(), 1)


async def test_a_turn_is_made_when_timers_may_be_due() -> None:
    queue = RequestQueue()
    queue.wake()
    await asyncio.wait_for(queue.begin(), 1)
    queue.wake()  # in the turn: there is another one
    queue.end()
    await asyncio.wait_for(queue.begin(), 1)
    assert taken(queue, 1) == []


async def test_replies() -> None:
    queue = RequestQueue()

    def fails() -> Any:
        raise ValueError("no view")

    reply, error = queue.put(Tick(1)), queue.put(Tick(2))
    seen, failed, nobody = queue.put(Read(lambda: 7)), queue.put(Read(fails)), queue.put(Tick(3))
    queue.put_quietly(Tick(4))
    await queue.begin()
    nobody.cancel()
    for queued, answer in zip(taken(queue, 9), ["well", ActorError("ill"), None, None, "late", "x"], strict=True):
        queued.answer(answer)
    assert (await reply, await seen) == ("well", 7)
    with pytest.raises(ActorError, match="ill"):
        await error
    with pytest.raises(ActorError, match="ValueError: no view") as raised:
        await failed
    assert isinstance(raised.value.__cause__, ValueError)


async def test_who_waits_hears_that_there_will_be_no_turn() -> None:
    queue = RequestQueue()
    in_turn, waiting = queue.put(Tick(1)), queue.put(Tick(2))
    await queue.begin()
    assert len(taken(queue, 1)) == 1
    queue.fail_turn("it was spoilt")
    with pytest.raises(ActorError, match="it was spoilt"):
        await in_turn
    assert not waiting.done()
    queue.fail_waiting("the store has failed")
    with pytest.raises(ActorError, match="the store has failed"):
        await waiting
    queue.end()
    assert not queue
    queue.fail_waiting("again")  # whoever has a reply keeps it


async def test_a_queue_that_is_closed_keeps_nobody_waiting() -> None:
    queue = RequestQueue()
    in_turn, waiting = queue.put(Tick(1)), queue.put(Tick(2))
    await queue.begin()
    assert len(taken(queue, 1)) == 1
    queue.close()
    queue.end()
    for reply in (in_turn, waiting, queue.put(Tick(3))):
        with pytest.raises(ActorError, match="the actor has ended"):
            await reply
    assert not queue
    queue.put(Tick(4))  # its error need not be looked at
