"""The campaign with real processes: which cases are run, some at a time, and their outcomes.

Theory of operation. Two runs of the workload without faults list the crash points and durable system calls; each is a
case. Cases that follow each other differ, so that a campaign that is cut short, by its limit or a person, has run some
of every kind; it names those that it has not run.
"""

from __future__ import annotations

import difflib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from leasehold.checker.recovery import UnknownCase
from leasehold.checker.recovery.processes.actors import FORK_SERVER
from leasehold.checker.recovery.processes.cases import (
    QUICK,
    ProcessCase,
    ProcessOutcome,
    ReferenceRun,
    all_cases,
    fixed_cases,
    named,
    play,
)
from leasehold.checker.recovery.processes.workload import Interrupted

LIMIT_SECONDS = 29 * 60.0
STRIDE = 0.6180339887  # of the golden ratio: neighbours in the list come far from each other
FOUND_OUT = ("kill", "call")  # kinds of which a reference tells the cases
LATER = ("call",)  # kinds of which a case comes after each so many others: there are many, and they are alike
OTHERS = 3

Watch = Callable[[int, int, int], None]  # played, of, failed


@dataclass(slots=True)
class ProcessCampaign:
    """What became of the cases.

    Attributes:
        outcomes: of those that were played or skipped.
        interrupted: a person has ended it.
    """

    outcomes: list[ProcessOutcome] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        return len(self.outcomes)

    @property
    def passed(self) -> int:
        return sum(outcome.passed for outcome in self.outcomes)

    @property
    def failures(self) -> list[ProcessOutcome]:
        return [outcome for outcome in self.outcomes if outcome.findings]

    @property
    def skipped(self) -> list[ProcessOutcome]:
        return [outcome for outcome in self.outcomes if outcome.skipped]

    @property
    def ends(self) -> Counter[str]:
        return Counter(outcome.end for outcome in self.outcomes if outcome.passed)


def campaign(
    *, only: str | None = None, quick: bool = False, jobs: int | None = None, watch: Watch | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> ProcessCampaign:  # fmt: skip
    """Plays cases.

    Args:
        only: the name of a case, or the beginning of names.
        quick: a selection that takes some two minutes.
        jobs: cases at a time; left out: one for each processor.
        watch: told of the progress.
        limit_seconds: after which no other case is begun.

    Raises:
        UnknownCase: there is none of that name.
    """
    found, began = ProcessCampaign(), time.monotonic()
    base = Path(tempfile.mkdtemp(prefix="leasehold-crash-"))
    base.chmod(0o711)  # a server of another user comes through
    stop = threading.Event()
    with _ended_by_signals():
        try:
            _campaign(found, base, stop, only, quick, jobs or os.cpu_count() or 1, watch, began + limit_seconds)
        except KeyboardInterrupt:
            found.interrupted = True
        finally:
            FORK_SERVER.close()
            shutil.rmtree(base, ignore_errors=True)
    found.seconds = time.monotonic() - began
    return found


def _campaign(
    found: ProcessCampaign, base: Path, stop: threading.Event, only: str | None, quick: bool, jobs: int,
    watch: Watch | None, deadline: float,
) -> None:  # fmt: skip
    wanted = _without_reference(only, quick)
    if wanted is None:
        known = ReferenceRun()
        _run(found, known.cases(), base, stop, jobs, None, deadline)
        if any(outcome.findings for outcome in found.outcomes):
            return  # nothing can be learned from faults where the workload fails without
        cases = all_cases(known)
        wanted = [case for case in cases if only is None or case.name.startswith(only)]
        if not wanted and only is not None:
            raise _unknown(only, [case.name for case in cases])
    _run(found, _mixed(wanted), base, stop, jobs, watch, deadline)
    found.outcomes.sort(key=lambda outcome: outcome.name)


def _without_reference(only: str | None, quick: bool) -> list[ProcessCase] | None:
    """The cases that are wanted, where they are known at once."""
    fixed = fixed_cases()
    if quick:
        by_name = {case.name: case for case in fixed}
        chosen = [by_name.get(name) or named(name) for name in QUICK if only is None or name.startswith(only)]
        if not chosen:
            raise _unknown(only or "", QUICK)
        return [case for case in chosen if case is not None]
    if only is None:
        return None
    exact = [case for case in [*fixed, named(only)] if case is not None and case.name == only]
    if exact or any(f"{kind}/".startswith(only) or only.startswith(f"{kind}/") for kind in FOUND_OUT):
        return exact[:1] or None
    begin_so = [case for case in fixed if case.name.startswith(only)]
    if not begin_so:
        raise _unknown(only, [*(case.name for case in fixed), *QUICK])
    return begin_so


def _unknown(only: str, names: Sequence[str]) -> UnknownCase:
    near = difflib.get_close_matches(only, names, n=1, cutoff=0.6)
    kinds = ", ".join(sorted({name.partition("/")[0] for name in names} | set(FOUND_OUT)))
    hint = f"did you mean {near[0]}?" if near else f"the kinds are {kinds}"
    return UnknownCase(f"there is no case {only[:80]!r}; {hint}")


def _mixed(cases: Sequence[ProcessCase]) -> list[ProcessCase]:
    """The cases in an order in which neighbours differ, always the same."""
    order = [cases[n] for n in sorted(range(len(cases)), key=lambda n: n * STRIDE % 1.0)]
    later = [case for case in order if case.name.startswith(LATER)]
    mixed: list[ProcessCase] = []
    for case in order:
        if not case.name.startswith(LATER):
            mixed.append(case)
            if later and len(mixed) % (OTHERS + 1) == OTHERS:
                mixed.append(later.pop(0))
    return mixed + later


def _run(
    found: ProcessCampaign, cases: Sequence[ProcessCase], base: Path, stop: threading.Event, jobs: int,
    watch: Watch | None, deadline: float,
) -> None:  # fmt: skip
    first, waiting, at_work = found.cases, list(enumerate(cases)), dict[Future[ProcessOutcome], ProcessCase]()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while waiting or at_work:
                while waiting and len(at_work) < jobs and time.monotonic() < deadline:
                    number, case = waiting.pop(0)
                    at_work[pool.submit(play, case, base, first + number, stop)] = case
                if not at_work:
                    break
                done, _ = wait(at_work, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in done:
                    found.outcomes.append(_outcome(at_work.pop(future), future))
                if watch is not None:
                    watch(found.cases - first, len(cases), len(found.failures))
        except BaseException:
            stop.set()  # those at work clean up, and end
            raise
    found.outcomes += [ProcessOutcome(case.name, skipped="no time was left for it") for _, case in waiting]


def _outcome(case: ProcessCase, future: Future[ProcessOutcome]) -> ProcessOutcome:
    try:
        return future.result()
    except Interrupted:
        return ProcessOutcome(case.name, skipped="interrupted")
    except Exception as error:
        return ProcessOutcome(case.name, findings=[f"{type(error).__name__}: {error}"])


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends a campaign as Ctrl-C does; only the first of them is heard, as all is removed then."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(number: int, frame: FrameType | None) -> None:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, asked) for number in numbers}
    try:
        yield
    finally:
        for number in numbers:
            if signal.getsignal(number) is asked:  # else it is to end, and reports first
                signal.signal(number, before[number])
