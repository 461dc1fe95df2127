"""The thread of a policy: one call after the other, and an end that nothing has to wait for."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError
from typing import Any

import pytest

from leasehold.impl.policy.thread import PolicyThread

SECONDS = 5.0  # after which something has gone wrong: nothing here waits for so long


def ends(thread: PolicyThread) -> bool:
    """Returns whether a thread ends in time."""
    thread._thread.join(SECONDS)
    return not thread.alive


def test_calls_are_made_in_their_order_in_one_thread_with_their_arguments() -> None:
    """Returns of each call go to its own future; a thread is there only when something was submitted."""
    thread, seen = PolicyThread("decides"), list[tuple[str, bool]]()

    def call(*args: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        current = threading.current_thread()
        seen.append((current.name, current.daemon))
        return args, named

    assert not thread.alive
    futures = [thread.submit(call, n, -n, name=n) for n in range(20)]
    assert [future.result(SECONDS) for future in futures] == [((n, -n), {"name": n}) for n in range(20)]
    assert seen == [("decides", True)] * 20
    assert thread.alive
    thread.abandon()
    assert ends(thread)


def test_a_later_call_begins_when_the_one_before_has_ended() -> None:
    thread, gate, order = PolicyThread("p"), threading.Event(), list[str]()
    first = thread.submit(lambda: (gate.wait(SECONDS), order.append("first")))
    second = thread.submit(order.append, "second")
    time.sleep(0.02)
    assert (order, first.done(), second.done(), second.running()) == ([], False, False, False)
    gate.set()
    second.result(SECONDS)
    assert order == ["first", "second"]
    thread.abandon()
    assert ends(thread)


def test_a_call_that_is_cancelled_while_it_waits_is_not_made_and_the_next_one_is() -> None:
    thread, gate, made = PolicyThread("p"), threading.Event(), list[int]()
    thread.submit(gate.wait, SECONDS)
    waiting = [thread.submit(made.append, n) for n in range(3)]
    assert waiting[1].cancel()
    gate.set()
    waiting[2].result(SECONDS)
    assert made == [0, 2]
    with pytest.raises(CancelledError):
        waiting[1].result(0)
    thread.abandon()
    assert ends(thread)


def test_an_abandoned_loop_ends_and_what_waits_behind_it_is_not_called() -> None:
    thread, begun, made = PolicyThread("p"), threading.Event(), list[int]()

    def loop() -> None:
        begun.set()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            pass

    looping = thread.submit(loop)
    waiting = thread.submit(made.append, 1)
    assert begun.wait(SECONDS)
    before = time.monotonic()
    thread.abandon()
    assert ends(thread)
    assert time.monotonic() - before < SECONDS - 1, "the loop was broken off, and did not come to its end"
    assert (looping.done(), waiting.done(), made) == (False, False, [])


def test_an_abandoned_call_that_blocks_ends_when_it_returns_and_nothing_waits_for_it() -> None:
    thread, gate, made = PolicyThread("p"), threading.Event(), list[int]()
    lock = threading.Lock()
    lock.acquire()
    blocked = thread.submit(lambda: (gate.set(), lock.acquire(), made.append(1)))
    assert gate.wait(SECONDS)
    before = time.monotonic()
    thread.abandon()
    assert time.monotonic() - before < 1
    assert thread.alive, "a call that blocks cannot be broken off"
    lock.release()
    assert ends(thread)
    assert (blocked.done(), made) == (False, [])


@pytest.mark.parametrize("used", [False, True], ids=["never used", "idle"])
def test_an_abandoned_thread_that_does_nothing_ends_at_once(used: bool) -> None:
    """A thread that was never begun has nothing to end; abandoning it twice does no harm."""
    thread = PolicyThread("p")
    if used:
        thread.submit(int).result(SECONDS)
    for _ in range(2):
        thread.abandon()
    assert not used or ends(thread)
    assert not thread.alive
