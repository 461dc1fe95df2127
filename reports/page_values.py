"""Values that several pages show: the steps of a path, roles and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.checker.explore.result import Snapshot
from leasehold.reports.diagram import diagram, task_text, update_text
from leasehold.reports.json_report import picked, plain, snapshot_json
from leasehold.reports.sequence import DiagramRow, SequenceStep
from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.expression import as_written
from leasehold.spec.language.model import Datum, Role, State, Transition


def first_entry(initial: Snapshot) -> dict[str, Any]:
    """A first state, as the page begins a path with it."""
    return {"initial": snapshot_json(initial) | {"control": initial.shown}}


def step_entry(machines: Sequence[str], step: SequenceStep) -> dict[str, Any]:
    """A step as the page draws it, without its place on a path; `machines` are the lifelines."""

    def lifeline(machine: str | None) -> int | None:
        return machines.index(machine) if machine in machines else None

    def row_values(row: DiagramRow) -> list[Any]:
        """Kind, text, lifeline, peer; trailing None values are left out."""
        values: list[Any] = [row.kind, row.label, lifeline(row.at), lifeline(row.peer)]
        while values[-1] is None:
            values.pop()
        return values

    known = {
        "transition": step.transition or None,
        "control": plain(step.control) or None,
        "data": {change.name: change.after for change in step.data} or None,
        **picked(step, "channels now"),
    }
    always = {"title": step.title, "rows": [row_values(row) for row in step.rows]}
    return always | {name: value for name, value in known.items() if value is not None}


def role_json(role: Role, taken: Mapping[str, int] | None) -> dict[str, Any]:
    """A role as the page draws it; `taken` says how often a search took each transition (None: it is not known)."""
    drawn = diagram(role)
    return {
        **picked(role, "name doc count parent"),
        "place": place_text(role.place),
        "data": data_json(role.data),
        "states": [_state(state, state.name in drawn.terminal) for state in role.states.values()],
        "tasks": {name: {"does": task_text(task), "doc": task.doc} for name, task in role.tasks.items()},
        "transitions": [_transition(t, None if taken is None else taken.get(t.name, 0)) for t in role.transitions()],
    }


def data_json(data: Mapping[str, Datum]) -> list[dict[str, str]]:
    return [{"name": d.name, "type": str(d.type), "doc": d.doc} for d in data.values()]


def _state(state: State, terminal: bool) -> dict[str, Any]:
    return {
        "name": state.name,
        **({"title": state.title} if state.remembers else {}),
        "initial": state.initial,
        "terminal": terminal,
        **picked(state, "doc tasks"),
        "ignore": state.ignored,
        "refuse": state.refused,
        "place": place_text(state.place),
    }


def _transition(transition: Transition, taken: int | None) -> dict[str, Any]:
    return {
        **picked(transition, "name source target event"),
        "guard": as_written(transition.guard) if transition.guard is not None else "",
        "updates": [update_text(u) for u in transition.updates],
        **picked(transition, "also internal doc"),
        "taken": taken,
        "place": place_text(transition.place),
    }


def place_text(place: Place) -> str:
    return "" if place.file == NOWHERE.file else f"{place.file}:{place.line}"
