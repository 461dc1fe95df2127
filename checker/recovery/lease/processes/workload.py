"""The workload of a case: leases that are requested, extended, grow, shrink and end, while a fault happens.

Theory of operation. Terms are so long that none ends by itself: every lease has to survive the fault, so every step has
one result. A step repeats a request until an actor has taken it, and waits until its effect is seen from outside.
Meanwhile actors that have died are started again, and the oracle checks each observation.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.lease.processes.actors import Actors
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.lease.fleet_monitor import FleetMonitor, Observation
from leasehold.impl.server.client import ClientError, Unreachable

BYSTANDER, LEASE, NEXT = f"{TENANT}:1", f"{TENANT}:2", f"{TENANT}:3"
STEPS = ("start", "bystander", "demand", "extension", "grow", "shrink", "once_more", "close", "next", "renew", "end")
TERM, LONG = 36_000, 10_000_000  # ticks
LOOK_SECONDS, LIMIT_SECONDS, REST_SECONDS = 0.02, 45.0, 10.0
DEATHS = 6  # after which an actor is given up
RESTART_SECONDS = 0.5  # before who ended by itself is started again, as a supervisor has it
BY_KILL = (-signal.SIGKILL, 128 + signal.SIGKILL)


class Interrupted(Exception):
    """The campaign was interrupted."""


class WorkloadFailed(Exception):
    """The workload cannot go on."""


Wait = tuple[str, float] | float  # a step and seconds after it, or seconds
FaultScript = Generator[Wait, None, str]
END = math.inf  # until the workload is over


class FaultRun:
    """Runs the script of a fault beside the workload."""

    def __init__(self, script: FaultScript) -> None:
        self._script = script
        self._step, self._delay, self._due = "", 0.0, math.inf
        self._result: str | None = None
        self._advance()

    def _advance(self) -> None:
        """Runs the script up to its next wait."""
        try:
            wait = next(self._script)
        except StopIteration as end:
            self._result, self._due = end.value, math.inf
            return
        self._step, self._delay = wait if isinstance(wait, tuple) else ("", wait)
        self._due = math.inf if self._step else time.monotonic() + self._delay

    def at_step(self, step: str) -> None:
        if self._step == step:
            self._step, self._due = "", time.monotonic() + self._delay

    def meanwhile(self) -> None:
        if time.monotonic() >= self._due:
            self._advance()

    def result(self) -> str:
        """Empty if the fault occurred, else why not; to be called when the workload is over."""
        if self._step:
            return f"the step {self._step} was not reached"
        while self._result is None:
            self._advance()
        return self._result


class Oracle(FleetMonitor):
    """Observes the actors of a case; violations are findings.

    Beside the rules of every fleet: at rest, exactly the units that the site has assigned run, each as one process.
    """

    def __init__(self, actors: Actors, outcome: CaseOutcome) -> None:
        super().__init__(actors)
        self.outcome = outcome

    def say(self, words: str) -> None:
        self.outcome.say("oracle", words)

    def agrees(self, seen: Observation) -> str:
        """Empty where the processes are what the site says; else what differs."""
        if seen.leases[SITE] is None:
            return "the site does not answer"
        assigned, running = seen.assigned(), seen.running()
        return "" if assigned == running else f"the site has assigned {assigned}, and {running} run"

    def one_each(self, seen: Observation) -> str:
        """Empty where each unit that runs is one process, and no other is left; else what is there."""
        left = [
            f"{place.folder.name} is {len(members)} processes" for place in self.fleet.unit_places()
            if len(members := place.members(thorough=True)) != (place.folder.name in seen.units)
        ]  # fmt: skip
        return "; ".join(left)


class Workload:
    """Runs the steps.

    Args:
        actors: not started yet.
        stop: set when the campaign is interrupted.
        outcome: gets the findings, and the end of the lease.

    Attributes:
        fault: runs beside the steps.
        deaths: exit codes of actors that have died, by name, in order.
        held: actors that are not started again for now.
        may_end: actors that may end by themselves, as their fault makes them.
        term: of the lease, in ticks.
    """

    def __init__(self, actors: Actors, stop: threading.Event, outcome: CaseOutcome) -> None:
        self.actors, self.outcome, self.oracle = actors, outcome, Oracle(actors, outcome)
        self.outcome.end = "same"
        self.fault: FaultRun
        self._stop = stop
        self.deaths: dict[str, list[int]] = {name: [] for name in ROLES}
        self.held: set[str] = set()
        self.may_end: set[str] = set()
        self.term = TERM
        self._leaving = False
        self._ended: dict[str, float] = {}
        self._now = 0
        self._step = STEPS[0]

    def play(self) -> None:
        """Runs all steps."""
        try:
            self._play()
        except WorkloadFailed as error:
            self.oracle.say(str(error))

    def _play(self) -> None:
        self._begin("start")
        for name in ROLES:
            self.actors.start(name)
        self._wait(self._all_serve)
        self._now = self.oracle.last.now
        self._lease("bystander", BYSTANDER, 1)
        self._lease("demand", LEASE, 1)
        for step, units in (("extension", 1), ("grow", 2), ("shrink", 1), ("once_more", 1)):
            self._extend(step, LEASE, units)
        self._begin("close")
        if self.outcome.end == "same":
            self._close(LEASE)
        self._wait(lambda seen: self._over(seen, LEASE) and not self.oracle.agrees(seen))
        self._lease("next", NEXT, 2)
        self._extend("renew", NEXT, 2)
        self._extend("renew", BYSTANDER, 1)
        self._at_rest()
        self._begin("end")
        for lease in (NEXT, BYSTANDER):
            self._close(lease)
        self._wait(lambda seen: all(self._over(seen, lease) for lease in (NEXT, BYSTANDER)))
        self._at_rest()
        self._leave()

    # Steps

    def _begin(self, step: str) -> None:
        self._step = step
        self.fault.at_step(step)

    def _lease(self, step: str, lease: str, units: int) -> None:
        self._begin(step)
        term = self.term if lease == LEASE else TERM
        wanted = {"units": units, "until": self._now + LONG, "term": term, "lease": lease}
        self._ask("already", "demand", **wanted)
        self._wait(lambda seen: self._lasts(seen, lease, units) or self._broke_off(seen, lease))

    def _extend(self, step: str, lease: str, units: int) -> None:
        self._begin(step)
        if lease == LEASE and self.outcome.end == "ended":
            return
        row = self._wait(lambda seen: seen.row(TENANT, lease)).row(TENANT, lease)
        assert row is not None
        before = row["data"]["lease_end"]
        self._ask("nothing is wanted", "leases", lease, "flex", units=units, soon=True)
        self._wait(lambda seen: self._lasts(seen, lease, units, before) or self._broke_off(seen, lease))

    def _close(self, lease: str) -> None:
        self._ask("already", "leases", lease, "tell", event="close")

    def _leave(self) -> None:
        """All actors end well when they are asked to."""
        self._leaving = True
        self.actors.stop()
        for name in ROLES:
            if self.actors.processes[name].returncode in BY_KILL and name not in self.actors.stuck:
                self._again(name)  # what it did last was the point to die at
                self._wait(partial(self._serves, name))
                self.actors.stop()
        for name, process in self.actors.processes.items():
            if process.returncode != 0:
                self.oracle.say(f"{name} ended with {process.returncode} when asked to; {self.actors.last_words(name)}")

    # Asking and waiting

    def _ask(self, heard: str, *place: str, **given: Any) -> None:
        """Repeats a request to the service manager until it is taken; `heard`: its answer when it was taken before."""

        def asked(seen: Observation) -> bool:
            try:
                self.actors.client(TENANT).post(*place, **given)
            except Unreachable:
                return False
            except ClientError as error:
                return heard in str(error)
            return True

        lease = LEASE if LEASE in place else ""
        self._wait(lambda seen: asked(seen) or (lease and self._broke_off(seen, lease)))

    def _wait(self, true: Callable[[Observation], Any]) -> Observation:
        """Observes until a condition holds.

        Raises:
            WorkloadFailed: it does not come to hold.
        """
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            self.attend()
            seen = self.oracle.observe()
            if true(seen):
                return seen
            if time.monotonic() > deadline:
                raise WorkloadFailed(f"{self._step} is not done after {LIMIT_SECONDS:.0f} s: {self._where(seen)}")
            time.sleep(LOOK_SECONDS)

    def attend(self) -> None:
        """Starts actors again that have died.

        Raises:
            WorkloadFailed: somebody dies by itself, or again and again.
        """
        if self._stop.is_set():
            raise Interrupted
        self.fault.meanwhile()
        for name in tuple(self.actors.processes):
            if name not in self.held and not self._leaving:
                self._again(name)

    def _again(self, name: str) -> None:
        """Starts an actor again where it has died."""
        code = self.actors.processes[name].poll()
        if code is None:
            return
        if code not in BY_KILL and name in self.may_end:
            due = self._ended.setdefault(name, time.monotonic()) + RESTART_SECONDS
            if time.monotonic() < due:
                return
        self._ended.pop(name, None)
        self.deaths[name].append(code)
        if code not in BY_KILL and name not in self.may_end:
            raise WorkloadFailed(
                f"{name} has ended by itself with {code}; its last words: {self.actors.last_words(name)}"
            )
        if len(self.deaths[name]) > DEATHS:
            raise WorkloadFailed(f"{name} has died {DEATHS} times; its last words: {self.actors.last_words(name)}")
        self.actors.start(name)

    # Observations

    def _serves(self, name: str, seen: Observation) -> bool:
        about = seen.abouts[name]
        return about is not None and bool(about["running"])

    def _all_serve(self, seen: Observation) -> bool:
        return all(self._serves(name, seen) for name in ROLES)

    def _lasts(self, seen: Observation, lease: str, units: int, after: int = 0) -> bool:
        """The lease is active at holder and site, beyond a time, with so many units, which run."""
        ours, theirs = seen.row(TENANT, lease), seen.row(SITE, lease)
        if ours is None or theirs is None:
            return False
        return bool(
            ours["state"] == theirs["state"] == "active"
            and ours["data"]["lease_end"] == theirs["data"]["end"] > after
            and ours["data"]["lease_units"] == theirs["data"]["assigned"]
            and len(theirs["data"]["assigned"]) == units
            and list(seen.running().values()).count(lease) == units
        )

    def _broke_off(self, seen: Observation, lease: str) -> bool:
        row = seen.row(TENANT, lease)
        if row is None or not row["over"]:
            return False
        if lease != LEASE:
            raise WorkloadFailed(f"{lease} has ended, and nobody asked for that: {self._where(seen)}")
        self.outcome.end = "ended"
        return True

    def _over(self, seen: Observation, lease: str) -> bool:
        rows = [seen.row(name, lease) for name in ROLES]
        answers = all(seen.leases[name] is not None for name in ROLES)
        return answers and all(row is None or row["over"] for row in rows)

    def _at_rest(self) -> None:
        """Exactly the units that the site has assigned run, each as one process, and every actor serves."""
        deadline = time.monotonic() + REST_SECONDS
        while True:
            self.attend()
            seen = self.oracle.observe()
            wrong = self.oracle.agrees(seen) or self.oracle.one_each(seen)
            if not wrong and self._all_serve(seen):
                return
            if time.monotonic() > deadline:
                self.oracle.say(f"at rest ({self._step}): {wrong or 'an actor does not serve'}; {self._where(seen)}")
                return
            time.sleep(LOOK_SECONDS)

    def _where(self, seen: Observation) -> str:
        leases = (
            f"{lease} {'/'.join(seen.state(name, lease) or '-' for name in (TENANT, BROKER, SITE))}"
            for lease in (BYSTANDER, LEASE, NEXT)
        )
        deaf = [name for name in ROLES if seen.leases[name] is None]
        words = "".join(f"; {name} does not answer, its last words: {self.actors.last_words(name)}" for name in deaf)
        return f"{', '.join(leases)}; running {seen.running()}{words}"
