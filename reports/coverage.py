"""The coverage of a specification by logs, as one self-contained HTML page: what they have exercised, and what not.

Theory of operation. The product graph and the roles are those of the report of the same system (page.py); what logs
have exercised is drawn on them. Control states that logs have been in and that the exploration has not, as
neither crashes nor other constants are in it, are drawn as well, and marked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from leasehold.checker.conform.coverage import Control, Coverage, Covered, cells_of, lasting_states
from leasehold.checker.conform.logs import ConformanceResult
from leasehold.checker.explore.result import Exploration
from leasehold.impl.words import visible
from leasehold.reports.json_report import picked
from leasehold.reports.page import html_page
from leasehold.reports.product import LARGEST, ProductGraph, product, product_table, projections, shown, where_are
from leasehold.spec.language.expression import text
from leasehold.spec.language.model import Role, System

Where = tuple[str, ...]  # for each role, where its machines are
MOST_FINDINGS = 50
SCRIPTS = ("dom.js", "layout.js", "graph.js", "coverage.js")


def coverage_page(exploration: Exploration, coverage: Coverage, result: ConformanceResult) -> str:
    """The page, as text; write it as UTF-8."""
    title = f"{coverage.system.name}: what logs have exercised"
    values = coverage_data(exploration, coverage, result)
    return html_page(title, values, ("style.css", "coverage.css"), SCRIPTS, "`leasehold conform --json` says the same.")


def coverage_data(exploration: Exploration, coverage: Coverage, result: ConformanceResult) -> dict[str, Any]:
    """Everything that the page shows, as JSON values."""
    system = coverage.system
    return {
        "system": picked(system, "name doc digest"),
        "conforms": result.conforms,
        "findings": [visible(str(finding)) for finding in result.findings[:MOST_FINDINGS]],
        "found": len(result.findings),
        "logs": [{k: visible(v) if isinstance(v, str) else v for k, v in log.as_json().items()} for log in result.logs],
        "runs": coverage.runs,
        "partial": coverage.partial,
        "parts": [
            _part("transitions", "transitions taken", coverage.of_transitions()),
            _part("cells", "pairs of state and event met", coverage.of_cells()),
            _part("crashed_in", "states in which an actor ended", coverage.of_crashed_in()),
            _part("crash_points", "transitions after which one ended", coverage.of_crash_points()),
        ],
        "roles": [_role(role, coverage) for role in system.roles.values() if role.states],
        "product": _product(exploration, coverage),
    }


def _part(name: str, label: str, part: Covered) -> dict[str, Any]:
    return {"name": name, "words": label, "covered": part.exercised, "of": part.of, "missing": list(part.missing)}


def _role(role: Role, coverage: Coverage) -> dict[str, Any]:
    counted = {(state, event) for name, state, event in cells_of(coverage.system) if name == role.name}
    lasting = {state for name, state in lasting_states(coverage.system) if name == role.name}
    events = list(dict.fromkeys(e for s in role.states.values() for e in (*s.on, *s.ignored, *s.refused)))

    def cell(state: str, event: str) -> list[Any] | None:
        of = role.states[state]
        kinds = {"on": of.on, "ignore": of.ignored, "refuse": of.refused}
        kind = next((k for k, events in kinds.items() if event in events), None)
        if kind is None:
            return None
        count = coverage.cells[role.name, state, event]
        return [kind, count if (state, event) in counted else None]

    return {
        **picked(role, "name doc count parent"),
        "states": [
            {
                "name": state.name,
                "title": state.title,
                "initial": state.initial,
                "terminal": state.final,
                "crashed": coverage.crashed_in[role.name, state.name] if state.name in lasting else None,
            }
            for state in role.states.values()
        ],
        "transitions": [
            {
                **picked(tr, "name source target event"),
                "guard": "" if tr.guard is None else text(tr.guard),
                "taken": coverage.transitions[tr.name],
                "crashed": coverage.crash_points[tr.name],
            }
            for tr in role.transitions()
        ],
        "events": events,
        "cells": [[cell(state, event) for event in events] for state in role.states],
    }


# The product


def _product(exploration: Exploration, coverage: Coverage) -> dict[str, Any]:
    whole, system = product(exploration), coverage.system
    seen: Counter[Where] = Counter()
    for control, times in coverage.control.items():
        seen[_where(system, control)] += times
    links: Counter[tuple[Where, Where, str]] = Counter()
    for (before, after, label), times in coverage.links.items():
        links[_where(system, before), _where(system, after), label] += times
    explored = {node.control for node in whole.nodes}
    missing = [node.control for node in whole.nodes if not seen[node.control]]
    first = [role.name for role in shown(whole).roles]
    return {
        "roles": [role.name for role in whole.roles],
        "size": exploration.product_states,
        "complete": exploration.complete,
        "reachable": len(whole.nodes),
        "covered": len(explored) - len(missing),
        "beyond": [list(where) for where in sorted(set(seen) - explored)],
        "missing": [list(where) for where in missing[:LARGEST]],
        "missing_count": len(missing),
        "table": _table(whole, seen),
        "graphs": [_graph(whole, graph, seen, links) for names, graph in projections(whole).items()],
        "first_graph": first,
    }


def _where(system: System, control: Control) -> Where:
    """Returns where the machines of each role are, as nodes of the product graph say it."""
    places, at = [], 0
    for name in system.product:
        role = system.roles[name]
        places.append(where_are(role, list(control[at : at + role.count])))
        at += role.count
    return tuple(places)


def _graph(
    whole: ProductGraph, graph: ProductGraph, seen: Mapping[Where, int], links: Mapping[tuple[Where, Where, str], int]
) -> dict[str, Any]:
    """A projection, with how often each node and link was exercised, and those that the exploration has not."""
    names = {role.name for role in graph.roles}
    kept = [at for at, role in enumerate(whole.roles) if role.name in names]

    def projected(where: Where) -> Where:
        return tuple(where[at] for at in kept)

    hits: Counter[Where] = Counter()
    for where, times in seen.items():
        hits[projected(where)] += times
    nodes: list[dict[str, Any]] = [
        {**picked(node, "control depth initial"), "seen": hits[node.control], "beyond": False} for node in graph.nodes
    ]
    deepest = max((node.depth for node in graph.nodes), default=0)
    at = {node.control: n for n, node in enumerate(graph.nodes)}
    for where in hits:
        if where not in at:
            at[where] = len(nodes)
            nodes.append(
                {"control": list(where), "depth": deepest + 1, "initial": False, "seen": hits[where], "beyond": True}
            )
    steps: dict[tuple[int, int], dict[str, int]] = {
        (link.source, link.target): dict.fromkeys(link.labels, 0) for link in graph.links
    }
    for (before, after, label), times in links.items():
        a, b = at[projected(before)], at[projected(after)]
        if a != b:
            labels = steps.setdefault((a, b), {})
            labels[label] = labels.get(label, 0) + times
    return {
        "roles": [role.name for role in graph.roles],
        "nodes": nodes,
        "links": [[a, b, [[label, times] for label, times in labels.items()]] for (a, b), labels in steps.items()],
    }


def _table(whole: ProductGraph, seen: Mapping[Where, int]) -> dict[str, Any] | None:
    table = product_table(whole)
    if table is None:
        return None
    down = next(at for at, role in enumerate(whole.roles) if role.name == table.row_role)
    across = [at for at in range(len(whole.roles)) if at != down]
    explored = {node.control: node.depth for node in whole.nodes}
    places = []
    for where in {**explored, **seen}:
        column = tuple(where[at] for at in across)
        if where[down] in table.rows and column in table.columns:
            row = table.rows.index(where[down])
            places.append([row, table.columns.index(column), seen.get(where, 0), where in explored])
    return {**picked(table, "row_role rows column_roles columns"), "places": places}
