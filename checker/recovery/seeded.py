"""Does the recovery checker catch what is wrong? Seeded bugs (faults/bugs), each tried until a case fails.

Theory of operation. The cases are those of the campaign, in an order that is shuffled and always the same, so that
cases of all kinds come early. A bug is planted in the process that plays, for the case as well as for its reference,
and taken out again when it is caught. A bug that no case catches *survives*.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from leasehold.checker.recovery import campaign
from leasehold.checker.recovery.campaign import Case, scripts_of
from leasehold.checker.recovery.case import Finding
from leasehold.checker.recovery.script import Script
from leasehold.checker.recovery.stage import Stage
from leasehold.faults.bugs import Bug, bugs, named
from leasehold.spec import System

SEED = 1  # of the order; any other would do


@dataclass(frozen=True, slots=True)
class Caught:
    """What became of a bug.

    Attributes:
        bug, class_: its name and class.
        cases: how many were played, the one that caught it among them.
        case: the name of that one; empty where the bug has survived.
        checks: what caught it there (case.py, CHECKS), in the order in which it was found.
        words: what the first said.
        seconds: how long it took.
    """

    bug: str
    class_: str
    cases: int
    case: str = ""
    checks: tuple[str, ...] = ()
    words: str = ""
    seconds: float = 0.0

    @property
    def survived(self) -> bool:
        return not self.case


Watch = Callable[[int, int, Caught], None]  # how many bugs were tried, of how many, and the last of them


def in_order(scripts: Sequence[Script], seed: int = SEED) -> Iterator[Case]:
    """The cases of scripts, shuffled; of each point one comes before a second one does."""
    shuffled = list(scripts)
    random.Random(seed).shuffle(shuffled)
    seen: Counter[str] = Counter()
    ranks = []
    for script in shuffled:
        seen[script.point] += 1
        ranks.append(seen[script.point])
    ranked = sorted(range(len(shuffled)), key=ranks.__getitem__)
    return (Case(shuffled[n], lost) for n in ranked for lost in (False, True))


def catch(bug: Bug, scripts: Sequence[Script], stage: Stage, most: int | None = None) -> Caught:
    """Plays cases with a bug until one fails.

    Args:
        bug: it is planted in this process meanwhile.
        scripts: of all cases.
        stage: they are played on it; what it remembers is forgotten.
        most: so many cases are enough.
    """
    begun, played = time.perf_counter(), 0
    stage.close()
    with bug.plant():
        try:
            for case in in_order(scripts):
                if most is not None and played >= most:
                    break
                played += 1
                findings = _play(stage, case)
                if findings:
                    checks = tuple(dict.fromkeys(f.check for f in findings))
                    seconds = time.perf_counter() - begun
                    return Caught(bug.name, bug.class_, played, case.name, checks, findings[0].words, seconds)
        finally:
            stage.close()
    return Caught(bug.name, bug.class_, played, seconds=time.perf_counter() - begun)


def _play(stage: Stage, case: Case) -> list[Finding]:
    try:
        return stage.play(case.script, case.lost).findings
    except Exception as error:  # a bug may spoil even the end of a case
        return [Finding("error", f"{type(error).__name__}: {error}")]


def seeded(
    system: System, names: Sequence[str] | None = None, jobs: int | None = None, watch: Watch | None = None,
    *, most: int | None = None, scripts: Sequence[Script] | None = None,
) -> list[Caught]:  # fmt: skip
    """Tries seeded bugs; the answer is in the order of the bugs.

    Args:
        system: with the constants by which it is explored.
        names: of the bugs; all where left out.
        jobs: processes; as many as there are processors where left out.
        watch: hears how far it is.
        most: cases for each bug; all where left out.
        scripts: of the system, where they are there already.

    Raises:
        UnknownBug: a name is none of a bug.
    """
    wanted = [bug.name for bug in bugs()] if names is None else [named(name).name for name in names]
    scripts = list(scripts) if scripts is not None else scripts_of(system)[1]
    jobs = min(jobs or os.cpu_count() or 1, len(wanted))
    found: dict[str, Caught] = {}
    # Processes of their own even for one job: whatever a bug leaves behind stays there.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs or 1, context, initializer=_begin, initargs=(system, scripts)) as pool:
        waiting = [pool.submit(_catch, name, most) for name in wanted]
        try:
            for future in as_completed(waiting):
                caught = future.result()
                found[caught.bug] = caught
                if watch is not None:
                    watch(len(found), len(wanted), caught)
        finally:
            pool.shutdown(cancel_futures=True)
    return [found[name] for name in wanted]


_scripts: Sequence[Script] = ()


def _begin(system: System, scripts: Sequence[Script]) -> None:
    global _scripts
    campaign._begin(system)
    _scripts = scripts


def _catch(name: str, most: int | None) -> Caught:
    assert campaign._stage is not None
    return catch(named(name), _scripts, campaign._stage, most)
