"""The campaign with real processes: which cases are played, some at a time, and their outcomes.

Theory of operation. Two runs of the workload without faults list the crash points and durable system calls; each is a
case. Cases that follow each other differ, so that a campaign that is cut short, by its limit or a person, has played
some of every kind; it names those that it has not played.
"""

from __future__ import annotations

import difflib
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from leasehold.checker.recovery.campaign import Campaign, CaseOutcome, Finding, UnknownCase, Watch, completed
from leasehold.checker.recovery.lease.processes.cases import QUICK, ProcessCase, ReferenceRun, fixed_names, play

NO_TIME = "no time was left for it"
STRIDE = 0.6180339887  # of the golden ratio: neighbours in the list come far from each other
FOUND_OUT = ("kill", "call")  # kinds of which a reference tells the cases
LATER = ("call",)  # kinds of which a case comes after each so many others: there are many, and they are alike
OTHERS = 3


@dataclass
class ProcessCampaign(Campaign):
    """The result of the campaign.

    Attributes:
        outcomes: of all cases.
    """

    outcomes: list[CaseOutcome] = field(default_factory=list)

    def add(self, case: ProcessCase, outcome: CaseOutcome) -> None:
        super().add(case, outcome)
        self.outcomes.append(outcome)


def campaign(
    *,
    only: str | None = None,
    quick: bool = False,
    jobs: int | None = None,
    watch: Watch | None = None,
    limit_seconds: float = math.inf,
) -> ProcessCampaign:
    """Plays cases.

    Args:
        only: the name of a case, or the beginning of names.
        quick: a selection that takes some two minutes.
        jobs: cases at a time; left out: one for each processor.
        watch: called with the progress.
        limit_seconds: after which no other case is begun.

    Raises:
        UnknownCase: there is none of that name.
    """
    result, base = ProcessCampaign(), Path(tempfile.mkdtemp(prefix="leasehold-crash-"))
    base.chmod(0o711)  # a server of another user comes through
    player = _Player(result, base, jobs or os.cpu_count() or 1, time.monotonic() + limit_seconds)
    try:
        with result.timed():
            names = _without_reference(only, quick)
            if names is None:
                known = ReferenceRun()
                player.play(known.cases(), None)
                if result.failures:
                    return result  # nothing can be learned from faults where the workload fails without
                names = [name for name in known.names() if only is None or name.startswith(only)]
                if not names and only is not None:
                    raise _unknown(only, known.names())
            player.play([case for name in _mixed(names) if (case := ProcessCase.named(name)) is not None], watch)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    result.outcomes.sort(key=lambda outcome: outcome.name)
    return result


@dataclass
class _Player:
    """Plays cases in folders below `base`, some at a time, and begins none after the deadline."""

    found: ProcessCampaign
    base: Path
    jobs: int
    deadline: float

    def play(self, cases: Sequence[ProcessCase], watch: Watch | None) -> None:
        self.stop = threading.Event()
        played = completed(ThreadPoolExecutor(self.jobs), self._one, cases, self.jobs, self.stop.set)
        self.found.collect(played, watch, self.found.played + len(cases))

    def _one(self, case: ProcessCase) -> list[tuple[ProcessCase, CaseOutcome]]:
        if time.monotonic() > self.deadline:
            return [(case, CaseOutcome(case.name, skipped=NO_TIME))]
        try:
            return [(case, play(case, self.base, self.stop))]
        except Exception as error:
            return [(case, CaseOutcome(case.name, [Finding("error", f"{type(error).__name__}: {error}")]))]


def _without_reference(only: str | None, quick: bool) -> Sequence[str] | None:
    """The names that are wanted, where they are known at once."""
    fixed = fixed_names()
    if quick:
        names = [name for name in QUICK if only is None or name.startswith(only)]
    elif only is None:
        return None
    elif ProcessCase.named(only) is not None:
        return [only]
    elif any(f"{kind}/".startswith(only) or only.startswith(f"{kind}/") for kind in FOUND_OUT):
        return None
    else:
        names = [name for name in fixed if name.startswith(only)]
    if not names:
        raise _unknown(only or "", QUICK if quick else [*fixed, *QUICK])
    return names


def _unknown(only: str, names: Sequence[str]) -> UnknownCase:
    near = difflib.get_close_matches(only, names, n=1, cutoff=0.6)
    kinds = ", ".join(sorted({name.partition("/")[0] for name in names} | set(FOUND_OUT)))
    hint = f"did you mean {near[0]}?" if near else f"the kinds are {kinds}"
    return UnknownCase(f"there is no case {only[:80]!r}; {hint}")


def _mixed(names: Sequence[str]) -> list[str]:
    """The names in an order in which neighbours differ, always the same."""
    order = [names[n] for n in sorted(range(len(names)), key=lambda n: n * STRIDE % 1.0)]
    later = [name for name in order if name.startswith(LATER)]
    mixed: list[str] = []
    for name in order:
        if not name.startswith(LATER):
            mixed.append(name)
            if later and len(mixed) % (OTHERS + 1) == OTHERS:
                mixed.append(later.pop(0))
    return mixed + later
