"""Worker processes, and the signals that end the work."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from leasehold.checker.host.workers import ENDING, deaf_children, ended_by_signals, signals_deferred

BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"


def started() -> str:
    return subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True).stdout.strip()


def test_a_process_that_is_started_in_the_block_never_hears_ctrl_c() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert started() == "False"
    with deaf_children():
        assert started() == "True"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that nobody has taken, in their order."""
    found: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: found.append(number)) for number in ENDING}
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_work_and_later_ones_do_not_disturb_the_report(
    number: signal.Signals, heard: list[int]
) -> None:
    def works() -> None:
        try:
            signal.raise_signal(number)
        finally:
            hear_all()

    def hear_all() -> None:
        for later in ENDING:
            signal.raise_signal(later)

    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        works()
    hear_all()  # as the report is written
    assert heard == []


@pytest.mark.parametrize("came", [(), ENDING[:1], ENDING[1:], ENDING, ENDING[::-1]])
def test_the_first_signal_of_a_block_comes_behind_it(came: tuple[signal.Signals, ...], heard: list[int]) -> None:
    with signals_deferred():
        for number in came:
            signal.raise_signal(number)
        assert heard == []
    assert heard == [*came[:1]]


@pytest.mark.parametrize("block", [ended_by_signals, signals_deferred])
@pytest.mark.parametrize("fails", [False, True])
def test_signals_are_for_others_again_behind_a_block(
    block: Callable[[], AbstractContextManager[None]], fails: bool, heard: list[int]
) -> None:
    try:
        with block():
            assert not fails
    except AssertionError:
        assert fails
    for number in ENDING:
        signal.raise_signal(number)
    assert heard == [*ENDING]


@pytest.mark.parametrize("block", [ended_by_signals, signals_deferred])
def test_in_another_thread_signals_are_left_as_they_are(
    block: Callable[[], AbstractContextManager[None]], heard: list[int]
) -> None:
    handlers: list[object] = []

    def works() -> None:
        with block():
            handlers.extend(signal.getsignal(number) for number in ENDING)

    before = [signal.getsignal(number) for number in ENDING]
    thread = threading.Thread(target=works)
    thread.start()
    thread.join()
    assert handlers == before
