"""The requests of an actor: their order, their turns, and what those hear for whom there will be none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.queue import Queued, RequestQueue
from leasehold.impl.actor.ready import Read, Tick
from tests.impl.virtual import virtual


def taken(queue: RequestQueue, most: int) -> list[Queued]:
    """What a turn takes."""
    while queue.waiting and len(queue.turn) < most:
        queue.turn.append(queue.waiting.popleft())
    return queue.turn


def test_a_turn_takes_what_waits_in_order_up_to_a_limit() -> None:
    async def story() -> None:
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

    virtual(story())


def test_a_turn_is_made_when_timers_may_be_due() -> None:
    async def story() -> None:
        queue = RequestQueue()
        queue.wake()
        await asyncio.wait_for(queue.begin(), 1)
        queue.wake()  # in the turn: there is another one
        queue.end()
        await asyncio.wait_for(queue.begin(), 1)
        assert taken(queue, 1) == []

    virtual(story())


def test_replies() -> None:
    async def story() -> None:
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

    virtual(story())


def test_who_waits_hears_that_there_will_be_no_turn() -> None:
    async def story() -> None:
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

    virtual(story())


def test_a_queue_that_is_closed_keeps_nobody_waiting() -> None:
    async def story() -> None:
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

    virtual(story())
