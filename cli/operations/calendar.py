"""The calendar of an inventory: how units were and are used, and for when they are promised.

Theory of operation. How a state of a unit is used, its specification says: by who brings the events that the state
takes. In its first state a unit is free, and so it is where it takes the same events from the lease that drives it. It
is at work where a handler, a policy or a timer leads on. Else it is used, or, where no lease that lasts can free it,
held back: somebody has to see to it.

Actors that have no units know amounts alone. A machine with a time that ends in `start`, and a later one that ends in
`end`, has a period; the number that ends in `units`, and begins as that time does, is its amount.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from leasehold.checker.explain.explained_machines import ExplainedMachines

Use: TypeAlias = Literal["free", "working", "used", "held"]
SEGMENTS = 30  # of a unit
_AT_WORK = {"handler", "policy", "subsidiary", "timer"}


def use_of(explained: ExplainedMachines, role: str, state: str) -> Use:
    """Returns how a unit is used in a state, where a lease that lasts has it."""
    causes = explained.causes(role, state)
    first = explained.program.roles[role].first(0)[0]
    driven = _driven(causes)
    if driven == _driven(explained.causes(role, first)):
        return "free"
    if _AT_WORK & {*causes.values()}:
        return "working"
    return "used" if driven else "held"


def _driven(causes: Mapping[str, str]) -> set[str]:
    return {event for event, cause in causes.items() if cause == "parent"}


def unit_row(
    unit: Mapping[str, Any],
    explained: ExplainedMachines | None,
    ends: Mapping[str, int],
    lasting: Collection[str],
) -> dict[str, Any]:
    """A unit's row of the calendar.

    Args:
        unit: as `units` has it, with its history.
        explained: says how states are used; None: nobody does.
        ends: of leases, the ends of their terms.
        lasting: the leases that are not over at its actor.
    """
    role, lease = unit["machine"].partition("[")[0], unit["lease"]
    use: Use = "used" if explained is None else use_of(explained, role, unit["state"])
    if use == "used" and lease not in lasting:
        use = "held"
    steps = [step for step in unit["history"] if "transition" in step][-SEGMENTS:]
    past = [
        {
            "from": step["at"],
            "to": following["at"],
            "state": step["to"],
            "use": "used" if explained is None else use_of(explained, role, step["to"]),
        }
        for step, following in pairwise(steps)
        if following["at"] > step["at"]
    ]
    return {
        "unit": unit["unit"],
        "state": unit["state"],
        "since": unit["since"],
        "use": use,
        "lease": "" if use == "free" else lease,
        "until": ends.get(lease, 0) if use in ("used", "working") else 0,
        "past": [one for one in past if one["use"] != "free"],
        "flags": [name for name, value in unit["data"].items() if value is True],
    }


def periods(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The periods for which amounts are promised, of machines that are not over."""
    found = (_period(row) for row in rows if not row["over"])
    return [one for one in found if one is not None]


def _period(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The period of a machine: of several, the last one that its role declares and that is set."""
    data, times = row["data"], row["times"]
    for at, name in reversed([*enumerate(times)]):
        end = next((other for other in times[at + 1 :] if other.endswith("end")), None)
        if not name.endswith("start") or end is None or not data[end]:
            continue
        amount = data.get(f"{name.removesuffix('start')}units")
        if isinstance(amount, int) and amount > 0:
            start = data[name] or row["since"] or 0
            return {"lease": row["lease"], "start": start, "end": data[end], "units": amount, "state": row["state"]}
    return None


def ends_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The ends of terms by lease, as the machines of an actor have them."""
    ends: dict[str, int] = {}
    for row in rows:
        latest = max((row["data"][name] for name in row["times"]), default=0)
        ends[row["lease"]] = max(latest, ends.get(row["lease"], 0))
    return ends
