"""The workload of a case: leases that are requested, extended, grow, shrink and end, while a fault happens.

Theory of operation. Terms are so long that none ends by itself: every lease has to survive the fault, so every step has
one result. A step repeats a request until an actor has taken it, and waits until its effect is seen from outside.
Meanwhile actors that have died are started again, and the oracle checks each observation.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from leasehold.checker.recovery.lease.processes.oracle import Observation, Oracle
from leasehold.checker.recovery.processes.faults import FaultRun
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.processes.supervisor import BY_KILL, Died
from leasehold.impl.server.client import ClientError, Unreachable

BYSTANDER, LEASE, NEXT = f"{TENANT}:1", f"{TENANT}:2", f"{TENANT}:3"
STEPS = ("start", "bystander", "demand", "extension", "grow", "shrink", "once_more", "close", "next", "renew", "end")
TERM, LONG = 36_000, 10_000_000  # ticks
LOOK_SECONDS, LIMIT_SECONDS, REST_SECONDS = 0.02, 45.0, 10.0
DEATHS = 6  # after which an actor is given up


class Interrupted(Exception):
    """The campaign was interrupted."""


class WorkloadFailed(Exception):
    """The workload cannot go on."""


class Workload:
    """Runs the steps.

    Args:
        faults: run beside the steps; their actors are not started yet.
        oracle: of the fleet; it has the violations.
        stop: set when the campaign is interrupted.
        term: of the lease that is tried, in ticks.

    Attributes:
        end: `same`, the lease came through; `ended`, it is over instead.
    """

    def __init__(self, faults: FaultRun, oracle: Oracle, stop: threading.Event, term: int = TERM) -> None:
        self.faults, self.oracle, self.term = faults, oracle, term
        self.fleet, self.supervisor = oracle.fleet, faults.rig.supervisor
        self.end = "same"
        self._stop = stop
        self._now = 0
        self._step = STEPS[0]

    def play(self) -> None:
        """Runs all steps."""
        try:
            self._play()
        except WorkloadFailed as error:
            self.oracle.say(str(error))

    def _play(self) -> None:
        self.faults.start()
        self._begin("start")
        for name in ROLES:
            self.supervisor.start(name)
        self._wait(self._all_serve)
        self._now = self.oracle.last.now
        self._lease("bystander", BYSTANDER, 1)
        self._lease("demand", LEASE, 1)
        for step, units in (("extension", 1), ("grow", 2), ("shrink", 1), ("once_more", 1)):
            self._extend(step, LEASE, units)
        self._begin("close")
        if self.end == "same":
            self._close(LEASE)
        self._wait(lambda seen: self.oracle.over(LEASE) and not self.oracle.agrees(seen))
        self._lease("next", NEXT, 2)
        self._extend("renew", NEXT, 2)
        self._extend("renew", BYSTANDER, 1)
        self._at_rest()
        self._begin("end")
        for lease in (NEXT, BYSTANDER):
            self._close(lease)
        self._wait(lambda seen: all(map(self.oracle.over, (NEXT, BYSTANDER))))
        self._at_rest()
        self._leave()

    # Steps

    def _begin(self, step: str) -> None:
        self._step = step
        self.faults.at_step(step)

    def _lease(self, step: str, lease: str, units: int) -> None:
        self._begin(step)
        term = self.term if lease == LEASE else TERM
        wanted = {"units": units, "until": self._now + LONG, "term": term, "lease": lease}
        self._ask("already", "demand", **wanted)
        self._wait(lambda seen: self._lasts(seen, lease, units) or self._broke_off(seen, lease))

    def _extend(self, step: str, lease: str, units: int) -> None:
        self._begin(step)
        if lease == LEASE and self.end == "ended":
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
        self.fleet.stop()
        for name in ROLES:
            code = self.fleet.processes[name].poll()
            if code is not None and code in BY_KILL and name not in self.fleet.stuck:
                self.supervisor.deaths[name].append(code)
                self.fleet.start(name)  # what it did last was the point to die at
                self.fleet.await_ready(name)
                self.fleet.stop()
        for name, process in self.fleet.processes.items():
            if process.returncode != 0:
                self.oracle.say(f"{name} ended with {process.returncode} when asked to; {self.fleet.last_words(name)}")

    # Asking and waiting

    def _ask(self, heard: str, *place: str, **given: Any) -> None:
        """Repeats a request to the service manager until it is taken; `heard`: its answer when it was taken before."""

        def asked(seen: Observation) -> bool:
            try:
                self.fleet.client(TENANT).post(*place, **given)
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
        """Lets faults happen, and starts actors again that have died.

        Raises:
            WorkloadFailed: somebody dies by itself, or again and again.
        """
        if self._stop.is_set():
            raise Interrupted
        self.faults.meanwhile()
        for change in self.supervisor.attend():
            if isinstance(change, Died):
                self._check_death(change)

    def _check_death(self, died: Died) -> None:
        name, last = died.actor, f"its last words: {self.fleet.last_words(died.actor)}"
        if died.code not in BY_KILL and name not in self.faults.rig.may_end:
            raise WorkloadFailed(f"{name} has ended by itself with {died.code}; {last}")
        if len(self.supervisor.deaths[name]) > DEATHS:
            raise WorkloadFailed(f"{name} has died {DEATHS} times; {last}")

    # Observations

    def _all_serve(self, seen: Observation) -> bool:
        return all(about is not None and about["running"] for about in seen.abouts.values())

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
        self.end = "ended"
        return True

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
        remarks = "".join(f"; {name} does not answer, its last words: {self.fleet.last_words(name)}" for name in deaf)
        return f"{', '.join(leases)}; running {seen.running()}{remarks}"
