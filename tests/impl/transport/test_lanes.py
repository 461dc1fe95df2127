"""The sending end: frames that share requests, senders that give up, and what a close does."""

import asyncio
from dataclasses import replace

import pytest

from leasehold.impl.transport.lanes import CLOSED, SendQueue
from leasehold.impl.transport.limits import LIMITS
from leasehold.impl.transport.transport import Delivery, Reply

ONE = replace(LIMITS, in_flight=1)


class Post:
    """The requests of a queue, each of which waits until it is let go; each frame is answered with itself."""

    def __init__(self):
        self.requests, self.gate, self.cancelled = [], asyncio.Event(), 0

    async def __call__(self, frames):
        self.requests.append(frames)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [Reply(Delivery.REFUSED, frame.decode()) for frame in frames]


async def sending(queue, *frames):
    """Sends that wait, one request with the first of them under way where the queue was idle."""
    tasks = [asyncio.create_task(queue.send(frame)) for frame in frames]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_a_sender_that_gives_up_takes_no_answer_from_the_others():
    """Its frame may be under way in the same request, or still wait."""

    post = Post()
    queue = SendQueue(post, ONE)
    first = await sending(queue, b"1", b"2")
    waiting = await sending(queue, b"3", b"4", b"5")
    for gone in (first[0], waiting[1]):
        gone.cancel()
    post.gate.set()
    replies = await asyncio.gather(*first, *waiting, return_exceptions=True)
    assert [getattr(reply, "reason", None) for reply in replies] == [None, "2", "3", None, "5"]
    assert post.requests == [[b"1", b"2"], [b"3", b"5"]], "what nobody waits for any more is not sent"
    assert queue.idle


async def test_a_frame_that_waits_too_long_is_unreachable_and_the_queue_goes_on():
    post = Post()
    queue = SendQueue(post, replace(ONE, send_seconds=15))
    now = asyncio.get_running_loop().time
    began = now()
    early = await sending(queue, b"1")
    await asyncio.sleep(10)
    late = await sending(queue, b"2")
    assert (await early[0]).answer is Delivery.UNREACHABLE
    assert now() - began == pytest.approx(15)
    assert not queue.idle
    post.gate.set()
    assert (await late[0]).reason == "2"
    assert (await queue.send(b"3")).reason == "3"
    await asyncio.sleep(1)
    assert queue.idle


@pytest.mark.parametrize(
    ("frames", "requests"),
    [
        ([996, 996], [2]),  # with the 4 bytes of each length, exactly what a request may carry
        ([996, 997], [1, 1]),
        ([997, 996], [1, 1]),
        ([1996, 0], [1, 1]),
        ([0] * 5, [3, 2]),
        ([0, 0, 1988], [3]),
        ([0, 0, 1989], [2, 1]),
    ],
    ids=str,
)
async def test_a_request_is_filled_to_its_limits_in_bytes_and_in_frames(frames, requests):
    post = Post()
    queue = SendQueue(post, replace(ONE, parcel=1996, body=2000, batch=3))
    post.gate.set()
    replies = await asyncio.gather(*(queue.send(b"x" * size) for size in frames))
    assert [len(reply.reason) for reply in replies] == frames
    assert [len(request) for request in post.requests] == requests
    assert [len(frame) for request in post.requests for frame in request] == frames


@pytest.mark.parametrize("fails", [False, True])
async def test_a_frame_that_follows_an_answer_at_once_does_not_wait(fails):
    """The request before has ended, and the loop has not yet told so: the frame needs a request of its own."""

    async def post(frames):
        if fails:
            raise asyncio.CancelledError
        return [Reply(Delivery.TAKEN)] * len(frames)

    queue = SendQueue(post, ONE)
    for _ in range(5):
        assert (await queue.send(b"x")).answer is (Delivery.UNREACHABLE if fails else Delivery.TAKEN)
    assert asyncio.get_running_loop().time() == 0, "no limit of time had to help"


async def test_as_many_requests_are_under_way_as_the_limit_allows():
    post = Post()
    queue = SendQueue(post, replace(LIMITS, in_flight=3, batch=1))
    tasks = await sending(queue, *(str(n).encode() for n in range(9)))
    assert post.requests == [[b"0"], [b"1"], [b"2"]]
    post.gate.set()
    assert [(await task).reason for task in tasks] == [str(n) for n in range(9)]
    assert queue.idle
    post.gate.clear()
    again = await sending(queue, *(str(n).encode() for n in range(9)))
    assert len(post.requests) == 9 + 3, "none of those that have ended counts"
    post.gate.set()
    await asyncio.gather(*again)


async def test_as_many_frames_wait_as_the_limit_allows():
    post = Post()
    queue = SendQueue(post, replace(ONE, waiting=2))
    await sending(queue, b"under way")
    waiting = await sending(queue, b"1", b"2")
    assert (await queue.send(b"3")).answer is Delivery.BUSY
    post.gate.set()
    assert [(await task).reason for task in waiting] == ["1", "2"]


async def test_a_close_answers_what_waits_and_what_is_under_way_and_nothing_goes_on():
    post = Post()
    queue = SendQueue(post, replace(LIMITS, in_flight=2, batch=1))
    tasks = await sending(queue, b"1", b"2", b"3", b"4")
    tasks[2].cancel()
    await asyncio.sleep(0)
    await queue.close()
    assert post.cancelled == 2
    assert queue.idle
    replies = await asyncio.gather(*tasks, return_exceptions=True)
    assert [reply for n, reply in enumerate(replies) if n != 2] == [CLOSED] * 3
    await queue.close()
    post.gate.set()
    assert len(post.requests) == 2


@pytest.mark.real_time
async def test_a_request_that_ends_by_a_mistake_leaves_no_sender_waiting():
    """What a request raises is a mistake of ours: it is the loop's to report, and its frames are sent again."""
    told = []

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))

    async def post(frames):
        raise KeyError(frames[0])

    queue = SendQueue(post, ONE)
    assert [(await queue.send(frame)).answer for frame in (b"1", b"2")] == [Delivery.UNREACHABLE] * 2
    await sending(queue)
    assert queue.idle
    assert [type(error) for error in told] == [KeyError] * 2
