"""A run of leases on fleets of processes that nobody steers: leases come and go, and actors are killed.

Theory of operation. Until all that was meant to happen has happened, and is over everywhere: who has died is started
again, a judge looks from outside, leases are asked for, and each actor is killed once, in an order by chance. What is
asked for, and what the judge looks at, is the subclass's.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.processes.supervisor import Died, Supervisor
from leasehold.impl.server.client import Client, ClientError

SERVING = ("active", "extending_ticket", "active_ticketed", "extending_lease")  # states of a holder that has its units


class UnattendedRun(ABC):
    """A run.

    Args:
        fleets: whose actors serve.
        seed: of all choices.
        leases: in all; more, as long as actors are still to be killed.
        kill_each: each actor is killed once.
        say: takes what happens, for people.

    Attributes:
        wanted: the leases that holders were asked for.
        served: those that a holder had, or has.
        violations: what the judge has found, in sentences.
        together, least_open: leases that are wanted at a time; so many are open before an actor is killed.
        asking_seconds, killing_seconds: between two leases that are asked for, and between two kills.
    """

    together, least_open = 2, 1
    asking_seconds, killing_seconds = (0.5, 2.0), (2.0, 4.0)
    look_seconds, patience_seconds = 0.3, 180.0  # without any change

    def __init__(
        self,
        fleets: Sequence[SystemFleet],
        seed: int,
        leases: int,
        kill_each: bool,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.leases, self.say, self.chance = leases, say, random.Random(seed)
        self.supervisors = [Supervisor(fleet, 0.5) for fleet in fleets]
        self.wanted: list[str] = []
        self.served: set[str] = set()
        self.violations: dict[str, None] = {}
        actors = [(s, name) for s, one in enumerate(self.supervisors) for name in one.fleet.roles]
        self.victims = self.chance.sample(actors, len(actors)) if kill_each else []
        self.kills = 0
        self._next_ask = self._next_kill = 0.0
        self.began = time.monotonic()

    @property
    @abstractmethod
    def now(self) -> int:
        """The time of the leases' actors, in ticks; 0: none has said it yet."""

    @abstractmethod
    def observe(self) -> None:
        """Looks once, and judges."""

    @abstractmethod
    def is_over(self, lease: str) -> bool:
        """Returns whether a lease is over."""

    @abstractmethod
    def states(self) -> str:
        """The states of all leases; they change while there is progress."""

    @abstractmethod
    def ask(self) -> None:
        """Asks for another lease."""

    @abstractmethod
    def left(self) -> list[str]:
        """The remains of units, in words."""

    @property
    def all_serve(self) -> bool:
        """Returns whether every actor serves."""
        return all(one.all_serve for one in self.supervisors)

    @property
    def more(self) -> bool:
        """Returns whether more is to happen than that leases end."""
        return len(self.wanted) < self.leases or bool(self.victims)

    @property
    def over(self) -> bool:
        """Returns whether all that was meant to happen has happened, and is over everywhere."""
        return not self.more and self.all_serve and all(map(self.is_over, self.wanted))

    def run(self) -> None:
        """Goes on until all is over, or nothing has changed for too long."""
        moved, before = time.monotonic(), ""
        while not self.over:
            self.step()
            seen = self.states()
            moved, before = (moved, before) if seen == before and not self.victims else (time.monotonic(), seen)
            if time.monotonic() - moved > self.patience_seconds:
                self.violations["nothing goes on any more"] = None
                break
            time.sleep(self.look_seconds)

    def step(self) -> None:
        """Restarts who has died, looks, kills and asks."""
        for supervisor in self.supervisors:
            for change in supervisor.attend():
                self.say(f"{change.actor} {'has died' if isinstance(change, Died) else 'is back'}")
        self.observe()
        at, open_ = time.monotonic(), [lease for lease in self.wanted if not self.is_over(lease)]
        if self.more and len(open_) < self.together and at >= self._next_ask and self.now:
            self.ask()
            self._next_ask = at + self.chance.uniform(*self.asking_seconds)
        if self.victims and len(open_) >= self.least_open and self.all_serve and at >= self._next_kill:
            which, victim = self.victims.pop()
            self.supervisors[which].fleet.kill(victim)
            self.kills += 1
            self.say(f"{victim} is killed")
            self._next_kill = at + self.chance.uniform(*self.killing_seconds)

    def demand(self, client: Client, lease: str, words: str, **asked: Any) -> bool:
        """Asks a holder for a lease; returns whether it has taken it. One that is down is not asked again."""
        try:
            client.post("demand", lease=lease, **asked)
        except ClientError as error:
            if "already" not in str(error):
                return False
        self.wanted.append(lease)
        self.say(f"{lease}: {words}")
        return True

    def summary(self, verifiers: Sequence[FleetVerifier] = ()) -> dict[str, Any]:
        """Returns what came of it; what verifiers of the fleets have found are its findings."""
        return {
            "leases": len(self.wanted),
            "served": len(self.served),
            "kills": self.kills,
            "violations": [*self.violations],
            "findings": [complaint for verifier in verifiers for complaint in verifier.complaints],
            "leaked": self.left(),
            "seconds": round(time.monotonic() - self.began, 1),
        }
