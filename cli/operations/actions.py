"""The actions of the operations page: each is the verb of the same name, sent to the actors that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leasehold.cli.client import close_lease, recover_machines, recovered_text
from leasehold.cli.operations.audit import Outcome
from leasehold.impl.server.client import ClientError, Unreachable

View = dict[str, Any]
_SEVERITY: tuple[Outcome, ...] = ("intended", "done", "refused", "unknown")


class ActionResult(NamedTuple):
    """The outcome of an action, in words too."""

    outcome: Outcome
    words: str


def known_leases(views: Sequence[View]) -> set[str]:
    """The leases that actors have shown."""
    return {row["lease"] for view in views for row in view.get("rows", ())}


def known_units(views: Sequence[View]) -> set[str]:
    """The units that actors have shown."""
    return {unit["unit"] for view in views for unit in view.get("units", ())}


def close(lease: str, views: Sequence[View]) -> ActionResult:
    """Closes a lease, at the actor that takes demands and has it."""
    takers = [view for view in views if view.get("takes_demands")]
    takers.sort(key=lambda view: view["name"] != lease.rpartition(":")[0])
    if not takers:
        return ActionResult("refused", "no actor here takes demands, and so none closes leases")
    return _sent(takers[0], lambda place: [close_lease(lease, place)[1]])


def recover(target: str, views: Sequence[View]) -> ActionResult:
    """Gives the machines of a lease, or a unit, a recovery event at each actor that has shown it."""
    having = [view for view in views if target in known_leases([view]) | known_units([view])]
    results = [_sent(view, lambda place: _recovered(target, place)) for view in having]
    worst: Outcome = max((result.outcome for result in results), key=_SEVERITY.index, default="refused")
    return ActionResult(worst, "; ".join(result.words for result in results) or f"no actor has {target}")


def _recovered(target: str, place: Path) -> list[str]:
    done, errors = recover_machines(target, place)
    if errors:
        raise errors[-1]
    return [*map(recovered_text, done)]


def _sent(view: View, send: Callable[[Path], list[str]]) -> ActionResult:
    """The outcome of what is sent to one actor, at its socket."""
    if view["answers"] is False:
        return ActionResult("refused", f"{view['name']} does not answer, so nothing was sent to it")
    try:
        return ActionResult("done", "; ".join(send(Path(view["socket"]))))
    except Unreachable as error:
        return ActionResult("unknown", str(error))
    except ClientError as error:
        return ActionResult("refused", str(error))


ACTIONS: dict[str, Callable[[str, Sequence[View]], ActionResult]] = {"close": close, "recover": recover}
