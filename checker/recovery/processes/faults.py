"""Faults of a case: their life cycle, and those of the actor's own process. The others are in resource_faults.py."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from leasehold.checker.recovery.processes.actors import TICK_SECONDS, Actors, found
from leasehold.checker.recovery.processes.servers import Server, Unavailable
from leasehold.checker.recovery.processes.workload import Workload
from leasehold.impl.fleet import ROLES
from leasehold.impl.server.subscribers import VARIABLE

DURABLE = ("fdatasync", "fsync", "pwrite64")
OUTAGE_SECONDS = 1.0
SHORT_TERM = 40  # ticks


@dataclass
class CaseEnvironment:
    """What a fault works on.

    Attributes:
        folder: of the case.
        actors: not started yet when `prepare` is called.
        workload: what the actors are asked to do.
        server: of the stores, or of the messages; None: files, and HTTP.
        ends: called when the case is over.
    """

    folder: Path
    actors: Actors
    workload: Workload
    server: Server | None
    ends: ExitStack


class ProcessFault:
    """Nothing goes wrong.

    Args:
        actor: the one that it meets; empty: no single one.
        step: of the workload; the fault begins with it.
        delay: seconds between the two.
        seconds: how long it lasts.

    Attributes:
        began: it has begun.
    """

    programs: tuple[str, ...] = ()

    def __init__(self, actor: str = "", step: str = "", delay: float = 0.0, seconds: float = OUTAGE_SECONDS) -> None:
        self.actor, self.step, self.delay, self.seconds = actor, step, delay, seconds
        self.began = not step
        self._due: float | None = None
        self._over: float | None = None

    def check(self) -> None:
        """Raises Unavailable where a program that it needs is not there."""
        for program in self.programs:
            if program not in found(program):
                raise Unavailable(f"{program} is not installed")

    def prepare(self, case: CaseEnvironment) -> None:
        """Before the actors are configured and started."""

    def begin(self, case: CaseEnvironment) -> None:
        """It fails."""

    def end(self, case: CaseEnvironment) -> None:
        """It works again."""

    def met(self, case: CaseEnvironment) -> str:
        """Empty if it has happened; else why not."""
        return "" if self.began else f"the step {self.step} was not reached"

    def at_step(self, step: str) -> None:
        if step == self.step and self._due is None:
            self._due = time.monotonic() + self.delay

    def meanwhile(self, case: CaseEnvironment) -> None:
        """Begins and ends it when it is time."""
        now = time.monotonic()
        if self._due is not None and not self.began and now >= self._due:
            self.began = True
            self.begin(case)
            self._over = time.monotonic() + self.seconds
        if self._over is not None and now >= self._over:
            self._over = None
            self.end(case)


class KillAtPoint(ProcessFault):
    """The process kills itself at a point; `again`: once more as it has recovered."""

    def __init__(self, actor: str, point: str, again: bool = False) -> None:
        super().__init__(actor)
        self._point, self._again = point, again
        self._times = 2 if again else 1

    def prepare(self, case: CaseEnvironment) -> None:
        case.actors.environment[self.actor] = {VARIABLE: f"kill:{self._point}"}

    def meanwhile(self, case: CaseEnvironment) -> None:
        died = case.actors.processes[self.actor].poll() is not None
        if self._again and died:
            self._again = False
            case.workload.next_start[self.actor] = {VARIABLE: "kill:after-recovery/1"}

    def met(self, case: CaseEnvironment) -> str:
        died = len(case.workload.deaths[self.actor]) >= self._times
        return "" if died else f"{self._point} was not passed in this run"


class PauseThenKill(ProcessFault):
    """The process is stopped for a while, killed then, and started again."""

    def begin(self, case: CaseEnvironment) -> None:
        case.actors.signal(self.actor, signal.SIGSTOP)

    def end(self, case: CaseEnvironment) -> None:
        case.actors.kill(self.actor)


class KillAll(ProcessFault):
    """All three are killed at once."""

    def begin(self, case: CaseEnvironment) -> None:
        for name in ROLES:
            case.actors.kill(name)


class DownPastTerm(ProcessFault):
    """An actor is killed, and starts again only when the lease's term is over."""

    def __init__(self, actor: str, step: str) -> None:
        super().__init__(actor, step, 0.02, seconds=SHORT_TERM * TICK_SECONDS * 3.5)  # terms add up

    def meanwhile(self, case: CaseEnvironment) -> None:
        case.workload.term = SHORT_TERM
        super().meanwhile(case)

    def begin(self, case: CaseEnvironment) -> None:
        case.workload.held.add(self.actor)
        case.actors.kill(self.actor)

    def end(self, case: CaseEnvironment) -> None:
        case.workload.held.discard(self.actor)

    def met(self, case: CaseEnvironment) -> str:
        return "" if case.workload.end == "ended" else "the lease was renewed in time"


class ClockOffset(ProcessFault):
    """The clock of an actor's machine is set off; or it is set so while the actor is down for a moment.

    Args:
        actor: whose.
        ahead: of the others, by so many seconds.
        step: as which begins the actor is killed, and finds the clock so as it starts; empty: from the beginning.
    """

    programs = ("faketime",)

    def __init__(self, actor: str, ahead: float, step: str = "") -> None:
        super().__init__(actor, step, 0.02)
        self._ahead = ahead

    def _prefix(self) -> list[str]:
        # What measures durations (CLOCK_MONOTONIC) goes on as before, as it does where a calendar clock is set.
        return [found("faketime")["faketime"], "--exclude-monotonic", "-f", f"{self._ahead:+g}s"]

    def prepare(self, case: CaseEnvironment) -> None:
        if self.began:
            case.actors.prefix[self.actor] = self._prefix()

    def begin(self, case: CaseEnvironment) -> None:
        case.workload.next_prefix[self.actor] = self._prefix()
        case.actors.kill(self.actor)


class SystemCallFault(ProcessFault):
    """A system call that makes things durable: the process is killed as it is made, or it fails.

    Args:
        actor: whose.
        call: its name.
        when: which one, in strace's words: counted by each thread alone; `5`, or `5..9`.
        what: `signal=SIGKILL`, or `error=EIO`.
    """

    programs = ("strace",)

    def __init__(self, actor: str, call: str, when: str, what: str) -> None:
        super().__init__(actor)
        self._call, self._when, self._what = call, when, what

    def prepare(self, case: CaseEnvironment) -> None:
        self._log = case.folder / "calls"
        inject = f"inject={self._call}:{self._what}:when={self._when}"
        # Units are let go as they become what they are, so that they are traced by nobody.
        case.actors.prefix[self.actor] = [
            found("strace")["strace"], "-f", "-b", "execve", "-qq", "-o", str(self._log), "-e", f"trace={self._call}",
            "-e", inject,
        ]  # fmt: skip

    def meanwhile(self, case: CaseEnvironment) -> None:
        # A disk that fails as the store is opened ends the process: an operator has to see to it, and starts it again.
        if "error" in self._what:
            case.workload.may_end.add(self.actor)

    def met(self, case: CaseEnvironment) -> str:
        if "signal" in self._what:
            met = bool(case.workload.deaths[self.actor])
        else:
            met = "INJECTED" in self._log.read_text(errors="replace")
        return "" if met else f"{self._call} number {self._when} was not made in this run"
