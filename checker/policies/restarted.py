"""A policy beside which another one decides that knows no more than the records: what a restart would have changed.

Theory of operation. The policy decides for the broker of a running system. Every so many decisions, as soon as nothing
is under way, another one is made, and hears what a policy hears after its actor has crashed there: each record, each
open question, and the time. From then on it hears all that the first one hears, and has to decide the same, until the
next restart. What it decides has no effect. So the run is the same with and without restarts, and one wrong decision is
not the cause of all that differ later: a restarted policy that has differed is not asked any more.

A decision's `reason` is for people, and may differ. In which order one call answers several leases, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leasehold.impl.policy.policy import (
    ExplainsWaits,
    KnowsItsStore,
    Lease,
    Policy,
    PolicyAnswer,
    Question,
    Undecided,
    decisions_of,
)
from leasehold.impl.raised import RaisedEvent

Asked = Callable[[Policy], Iterable[PolicyAnswer]]


@dataclass(frozen=True, slots=True)
class DifferentDecision:
    """A decision that a restarted policy takes otherwise.

    Attributes:
        decision: its number, from 1 on: as many were taken before.
        tick: the time.
        restarted: the tick at which the other one was restarted.
        call: what both were asked.
        lease: for which the first different decision is.
        never_stopped, after_restart: the decision of each; empty where it takes none.
    """

    decision: int
    tick: int
    restarted: int
    call: str
    lease: str
    never_stopped: str
    after_restart: str

    def __str__(self) -> str:
        first, second = self.never_stopped or "nothing", self.after_restart or "nothing"
        return (
            f"decision {self.decision}, tick {self.tick}, {self.call}: {self.lease}: {first}; "
            f"after a restart at tick {self.restarted}: {second}"
        )


class RestartedPolicy:
    """The policy of an actor, with its restarted twin.

    Args:
        make: makes the policy.
        heard: hears each record that the policy is told of, and the time.

    Attributes:
        decisions: how many were taken.
        restarts: how many twins were made.
        differences: the first of each twin that has one.
        errors: what the policy has raised, with what it was asked.
    """

    quick = True  # it is asked in a simulation, where no thread runs

    def __init__(self, make: Callable[[], Policy], heard: Callable[[Lease, int], None]) -> None:
        self.policy, self._make, self._heard = make(), make, heard
        self.decisions = self.restarts = self.since = 0
        self.differences: list[DifferentDecision] = []
        self.errors: list[str] = []
        self._twin: Policy | None = None
        self._restarted = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> RestartedPolicy:
        return RestartedPolicy(self._make, self._heard)

    def opened(self, since: int | None) -> None:
        if isinstance(self.policy, KnowsItsStore):
            self.policy.opened(since)

    def recovered(self, lease: Lease) -> None:
        self._heard(lease, 0)
        self.policy.recovered(lease)

    def begin(self, question: Question, now: int) -> Iterable[PolicyAnswer]:
        self._heard(question.lease, now)
        return self._both(f"{question.call} for {question.lease.name}", now, lambda policy: policy.begin(question, now))

    def changed(self, lease: Lease, now: int) -> Iterable[PolicyAnswer]:
        self._heard(lease, now)
        return self._both(f"{lease.name} is {lease.state}", now, lambda policy: policy.changed(lease, now))

    def tick(self, now: int) -> Iterable[PolicyAnswer]:
        return self._both("the clock", now, lambda policy: policy.tick(now))

    def undecided(self, lease: str, now: int) -> Undecided | None:
        return self.policy.undecided(lease, now) if isinstance(self.policy, ExplainsWaits) else None

    def restart(self, words: Iterable[Asked], now: int) -> None:
        """Makes another twin.

        Args:
            words: all that it hears of records and open questions.
            now: the time, of which it hears last.
        """
        self.since, self._restarted = 0, now
        self.restarts += 1
        twin = self._make()

        def hears(policy: Policy) -> list[PolicyAnswer]:
            decided = [decision for word in words for decision in word(policy)]
            return [*decided, *policy.tick(now)]

        self._twin = twin
        self._compare("what it is told at the restart", now, [], hears)

    def _both(self, call: str, now: int, asked: Asked) -> list[PolicyAnswer]:
        decided = self._asked(self.policy, call, now, asked)
        self.decisions += len(decided)
        self.since += len(decided)
        self._compare(call, now, decided, asked)
        return decided

    def _asked(self, policy: Policy, call: str, now: int, asked: Asked) -> list[PolicyAnswer]:
        try:
            return decisions_of(asked(policy))
        except Exception as error:  # whatever a policy raises is its own fault
            after = " after a restart" if policy is not self.policy else ""
            self.errors.append(f"tick {now}, {call}{after}: {type(error).__name__}: {error}")
            return []

    def _compare(self, call: str, now: int, decided: list[PolicyAnswer], asked: Asked) -> None:
        twin = self._twin
        if twin is None:
            return
        first, second = (_by_lease(one) for one in (decided, self._asked(twin, call, now, asked)))
        if first == second:
            return
        lease = next(lease for lease in (*first, *second) if first.get(lease) != second.get(lease))
        shown = (", ".join(map(_shown, one.get(lease, ()))) for one in (first, second))
        number = self.decisions - len(decided) + [*first, lease].index(lease) + 1
        self.differences.append(DifferentDecision(number, now, self._restarted, call, lease, *shown))
        self._twin = None


def _by_lease(decisions: Iterable[PolicyAnswer]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    """Decisions by lease, without the words that people read; what is raised on a unit is by its name."""
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for one in decisions:
        if isinstance(one, RaisedEvent):
            found.setdefault(one.lease or one.unit, []).append((one.machine, one.event, {"raised": True}))
            continue
        fields = {name: value for name, value in one.fields.items() if name != "reason"}
        found.setdefault(one.lease, []).append((one.machine, one.event, fields))
    return found


def _shown(decision: tuple[str, str, Mapping[str, Any]]) -> str:
    _, event, fields = decision
    told = ", ".join(f"{name}={value}" for name, value in fields.items() if value)
    return f"{event}({told})"
