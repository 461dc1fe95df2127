"""Target tracking: a service manager's policy whose leases have as many units as a number from outside asks for.

    policy:
      name: target_tracking
      targets:
        web: {metric: {url: "http://localhost:9100/load"}, target: 70, most: 8, budget: 500, period: 100}

Theory of operation. The number is what each unit has to do: requests in a second, jobs that wait, per cent of its time.
A lease whose demand says `target: web` among its local properties follows the target of that name, one lease each. When
it is renewed, and with `soon` at any tick, it asks for as many units as would bring the number to the target: those
that it has, times the number, divided by the target, rounded up (the rule of the horizontal autoscaler of Kubernetes).
Nothing changes while the number is within `tolerance` of the target (hysteresis), or for `cool_down` ticks after
another number of units was asked for, so that a change shows in the number before the next one. There are never fewer
than `least` units, nor more than `most`.

The *budget* is of units times ticks in each period; periods begin at tick 0. A ticket is charged when it is there, for
all of its term, and what a ticket adds to the one before it from when it was asked for. No ticket is asked for that
would leave too little for `least` units until the end of the period. So it is never exceeded, unless the settings have
changed: then `least` counts more than the budget.

All that has to last stands in the demand (`TargetState`), which changes with each question to a broker, in the same
commit; what has become of the question is in the record. So a policy that was restarted asks for what one would ask
for that never stopped, if it reads the same numbers. A renewal waits for the first number as long as there is time.

A number that cannot be read changes nothing: the lease goes on with the units that it has asked for last. That is told
once, in the log, and so is the end of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from leasehold.impl.lease.demand import DemandError, LeaseDemand, TargetState
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.policy.metric import Metric, MetricReader
from leasehold.impl.policy.policy import Decision, Lease
from leasehold.impl.words import choices

PROPERTY = "target"  # the local property of a demand that names a target
MOST_PERIODS = 100  # of a budget that a term may touch: the demand has a sum for each
log = logging.getLogger("leasehold.targets")

Count = Annotated[int, Meta(ge=1, le=2**53)]


class MetricTarget(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A target.

    Attributes:
        metric: where the number is.
        target: that it should be.
        tolerance: by which part of the target it may differ, and nothing changes.
        least, most: units.
        cool_down: ticks after a change in which there is no other one.
        soon: whether units are asked for when the number says so, and not at the next renewal.
        budget: units times ticks in each period, at most; None: there is none.
        period: ticks of a period.
    """

    metric: Metric
    target: Annotated[float, Meta(gt=0)]
    most: Count
    least: Count = 1
    tolerance: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    cool_down: Annotated[int, Meta(ge=0)] = 5
    soon: bool = False
    budget: Count | None = None
    period: Count | None = None

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ValueError(f"least is {self.least}, and most is {self.most}; it has to be at most as many")
        if (self.budget is None) != (self.period is None):
            raise ValueError("a budget is of a period: give both `budget` and `period`, or none of them")
        if self.budget is not None and self.period is not None and self.budget < self.least * self.period:
            raise ValueError(
                f"the budget {self.budget} is less than {self.least * self.period}, which the least units "
                f"({self.least}) need in a period of {self.period} ticks"
            )


class TargetTracking(FixedDemand):
    """The policy.

    Args:
        targets: by name, each with the settings of a `MetricTarget`.
        settings: as `FixedDemand` takes them.
    """

    quick = True

    def __init__(self, *, targets: Mapping[str, Any], **settings: Any) -> None:
        super().__init__(**settings)
        self._targets = read_targets(targets)
        self._readers = {name: MetricReader(target.metric) for name, target in self._targets.items()}
        self._faults: dict[str, str] = {}  # that were told, by target

    # What clients say: the local property `target` of a demand names the target that the lease follows

    def _check_demand(self, wish: LeaseDemand) -> None:
        if (name := wish.local.get(PROPERTY)) is None:
            return
        if name not in self._targets:
            raise DemandError(f"there is no target {str(name)[:60]!r}{choices(str(name), [*self._targets])}")
        if (other := next(self._following(name), None)) is not None:
            raise DemandError(f"target {name} is followed by lease {other!r} already; close that one first")
        if wish.group is not None:
            raise DemandError("a lease of a group is of use with as many units as it has, and follows no target")
        period = self._targets[name].period
        if period is not None and wish.latest_start:
            raise DemandError(f"target {name} has a budget, so a term begins as is asked for; leave out latest_start")
        if period is not None and wish.term > MOST_PERIODS * period:
            raise DemandError(
                f"a term of {wish.term} ticks is longer than {MOST_PERIODS} periods of the budget of target {name}; "
                "shorten it"
            )

    def _following(self, name: str) -> Iterator[str]:
        """Yields the leases that follow a target: one, unless the settings have changed."""
        return (lease for lease, wish in self._wishes.items() if wish.local.get(PROPERTY) == name)

    def _target(self, wish: LeaseDemand) -> tuple[str, MetricTarget] | None:
        """The target that a demand follows, with its name; None: it follows none that there is."""
        name = wish.local.get(PROPERTY)
        target = self._targets.get(name) if isinstance(name, str) else None
        return None if target is None else (str(name), target)

    # What the clock says

    def tick(self, now: int) -> Iterable[Decision]:
        following = {name: lease for name in self._targets for lease in self._following(name)}
        for name in following:
            self._readers[name].poll(now)
            self._tell_fault(name)
        decisions = [*super().tick(now)]
        for lease in following.values():
            decisions += self._look(lease, now)
        return decisions

    def _tell_fault(self, name: str) -> None:
        """Logs that a number cannot be read, or can be read again, once each."""
        if (last := self._readers[name].last) is None:
            return
        told = self._faults.get(name, "")
        if last.fault and not told:
            log.warning("target %s: %s; until it does, units stay as they are", name, last.fault)
        elif told and not last.fault:
            log.warning("target %s: %s is read again", name, self._targets[name].metric)
        self._faults[name] = last.fault

    # What is asked for

    def _soon(self, lease: Lease, wish: LeaseDemand, now: int) -> bool:
        followed = self._target(wish)
        if super()._soon(lease, wish, now) or followed is None or not followed[1].soon:
            return super()._soon(lease, wish, now)
        wanted = self._wanted(*followed, lease, wish, now)
        end = self._end_of_renewal(lease, wish, now)
        units = self._affordable(followed[1], self._counted(lease, wish), wanted, now, end)
        return wish.units < units if wish.units < wanted else units < wish.units and wanted < wish.units

    def _waits(self, lease: Lease, wish: LeaseDemand, now: int) -> bool:
        followed = self._target(wish)
        unread = followed is not None and self._readers[followed[0]].last is None
        return unread and self._used_until(lease) - now > 1

    def _asks(self, lease: Lease | None, wish: LeaseDemand, end: int, now: int) -> LeaseDemand:
        if (followed := self._target(wish)) is None:
            return wish
        target, state = followed[1], self._counted(lease, wish)
        units = self._wanted(*followed, lease, wish, now)
        begins = now if lease is not None else max(now, wish.start)
        units = self._affordable(target, state, units, begins, end)
        if lease is not None and units != wish.units:
            state = replace(state, changed=now)
        victims = wish.victims if units == wish.units else ()
        return replace(wish, units=units, victims=victims, target=replace(state, asked=now))

    def _wanted(self, name: str, target: MetricTarget, lease: Lease | None, wish: LeaseDemand, now: int) -> int:
        """Returns the number of units that a lease wants now, whatever its budget is."""
        units, state, last = wish.units, wish.target or TargetState(), self._readers[name].last
        has = len(lease.data["lease_units"]) - len(lease.data["lease_lost"]) if lease is not None else 0
        if has and last is not None and last.number is not None:
            cold = state.changed < 0 or now >= state.changed + target.cool_down
            if cold and abs(last.number - target.target) > target.tolerance * target.target:
                units = ceil(has * last.number / target.target)
        return max(target.least, min(units, target.most, self._max_units))

    # The budget

    def _counted(self, lease: Lease | None, wish: LeaseDemand) -> TargetState:
        """The state of a demand, with the last ticket of its lease charged."""
        state, followed = wish.target or TargetState(), self._target(wish)
        if lease is None or followed is None or lease.data["ticket_end"] <= state.end:
            return state
        target, data = followed[1], lease.data
        units, end = data["ticket_units"], data["ticket_end"]
        uses = [(units, state.end or max(data["ticket_start"], state.asked), end)]
        if state.end and units > state.units:
            uses.append((units - state.units, state.asked, state.end))
        return replace(state, end=end, units=units, spent=_charged(target, state.spent, uses, state.asked))

    def _affordable(self, target: MetricTarget, state: TargetState, units: int, now: int, end: int) -> int:
        """Returns the most units, and no fewer than the least, that the budget has room for until an end.

        Args:
            target: whose budget.
            state: of the demand, its last ticket charged.
            units: that are wanted.
            now: from when the units are had.
            end: of the ticket that is asked for.
        """
        if target.budget is None or target.period is None:
            return units
        low, high = target.least, units
        while low < high:
            middle = (low + high + 1) // 2
            uses = [(middle, max(state.end, now), end), (max(0, middle - state.units), now, state.end)]
            uses.append((target.least, end, -(-end // target.period) * target.period))
            if all(of <= target.budget for _, of in _charged(target, state.spent, uses, now)):
                low = middle
            else:
                high = middle - 1
        return low


def read_targets(given: object) -> dict[str, MetricTarget]:
    """Reads the targets of a configuration.

    Raises:
        ValueError: they are none; which, and what of it.
    """
    if not isinstance(given, Mapping) or not given:
        raise ValueError("targets: names no target; write `targets: {web: {metric: ..., target: 70, most: 8}}`")
    targets = {}
    for name, settings in given.items():
        place = f"targets: {str(name)[:60]}"
        for kind, said in (
            (MetricTarget, settings),
            (Metric, settings.get("metric") if isinstance(settings, dict) else {}),
        ):
            known = [field.name for field in fields(kind)]
            for key in said if isinstance(said, dict) else ():
                if key not in known:
                    raise ValueError(f"{place}: there is no setting {str(key)[:60]!r}{choices(str(key), known)}")
        try:
            targets[str(name)] = msgspec.convert(settings, MetricTarget)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
    return targets


def _charged(
    target: MetricTarget, spent: tuple[tuple[int, int], ...], uses: Iterable[tuple[int, int, int]], now: int
) -> tuple[tuple[int, int], ...]:
    """The sums of periods with uses (units, from, until) added, without the periods that are over."""
    if target.period is None:
        return ()
    sums = dict(spent)
    for units, start, end in uses:
        for period in range(start // target.period, -(-end // target.period)) if start < end else ():
            begins, ends = period * target.period, (period + 1) * target.period
            sums[period] = sums.get(period, 0) + units * (min(end, ends) - max(start, begins))
    return tuple((period, of) for period, of in sorted(sums.items()) if of and period >= now // target.period)
