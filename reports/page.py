"""One self-contained HTML page: the exploration, drawn in the browser, with nothing fetched from anywhere.

Theory of operation. Python provides the data, the browser the layout. `page_data` gathers everything as JSON, the
template takes it in a script element together with the style and the scripts of the folder page/. Paths share their
beginnings, so that their steps are kept as a tree: a step knows the one before it, and a path is its last step. What
differs between two runs of the same system (time, memory) is left out with `measured=False`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from leasehold.checker.explore.result import Exploration, Path, PropertyResult, Snapshot
from leasehold.reports.json_report import constant_json, counts_json, measured_json, picked, plain
from leasehold.reports.page_values import data_json, first_entry, place_text, role_json, step_entry
from leasehold.reports.product import (
    ProductGraph,
    ProductNode,
    ProductTable,
    product,
    product_table,
    projections,
    shown,
)
from leasehold.reports.readings import ReadingColumn, readings_json
from leasehold.reports.sequence import sequence
from leasehold.reports.stepping import graph_json
from leasehold.reports.verdicts import Expected, expectations, failures, failures_first, headline
from leasehold.spec.language.expression import as_written

MOST_PATHS = 400  # control states whose shortest paths are embedded
MOST_NODES = 3000  # control states that are embedded at all; of more, the nearest
WALK_SCRIPTS = (  # of each page that a system can be walked through on
    "dom.js",
    "search.js",
    "layout.js",
    "graph.js",
    "sequence.js",
    "properties.js",
    "roles.js",
    "product.js",
    "stepper.js",
)
SCRIPTS = (*WALK_SCRIPTS, "graph_source.js", "readings.js", "page.js")
STYLES = ("style.css", "stepper.css")

FILES = "The files report.md and report.json beside it say the same."


def page(
    exploration: Exploration,
    legal: Exploration | None = None,
    *,
    measured: bool = True,
    crashes: str = "",
    others: Sequence[ReadingColumn] = (),
) -> str:
    """The page, as text; write it as UTF-8.

    `legal` is the exploration of the same system without faults, `crashes` the file with the results under crashes,
    and `others` are what other verbs have found.
    """
    values = {**page_data(exploration, legal, measured=measured), **({"crashes": crashes} if crashes else {})}
    if others:
        values["readings"] = readings_json(others, [p["name"] for p in values["properties"]])
    return html_page(f"{exploration.system.name}: Leasehold report", values, STYLES, SCRIPTS)


def html_page(
    title: str,
    values: Any,
    styles: Sequence[str],
    scripts: Sequence[str],
    otherwise: str = FILES,
    connects: str = "'none'",
) -> str:
    """A page with these values, styles and scripts of the folder page/.

    `otherwise` is said where no script runs; `connects` is the source that the page may ask, `'self'` for its server.
    """
    data = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    parts = {
        "title": _html(title),
        "style": "".join(_asset(name) for name in styles),
        "otherwise": _html(otherwise),
        "connects": connects,
        "script": "\n".join(_asset(name) for name in scripts),
        # No `<` is left, so that nothing in the data can end the script element or start a comment in it.
        "data": data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
    }
    return re.sub(
        r"\{\{(title|style|otherwise|connects|script|data)\}\}", lambda match: parts[match[1]], _asset("page.html")
    )


def page_data(exploration: Exploration, legal: Exploration | None = None, *, measured: bool = True) -> dict[str, Any]:
    """Everything that the page shows, as JSON values."""
    system = exploration.system
    steps = _Steps(list(_machines(exploration)))
    verdict, sentence = headline(exploration)
    expected = expectations(exploration)
    return {
        "headline": {"verdict": verdict, "words": sentence, "failures": [p.name for p in failures(exploration)]},
        "setting": {"name": expected.setting, "doc": expected.doc},
        "system": picked(system, "name doc digest"),
        "constants": [{"name": name, "value": constant_json(c), "doc": c.doc} for name, c in system.constants.items()],
        "run": {**counts_json(exploration), **(measured_json(exploration) if measured else {})},
        "machines": steps.machines,
        "roles": [role_json(role, exploration.taken) for role in system.roles.values()],
        **({"shared": data_json(system.shared)} if system.shared else {}),
        "properties": [verdict_json(p, exploration, expected, steps.add) for p in failures_first(exploration)],
        "product": product_json(exploration, product(exploration, legal), steps.add),
        "unvisited": [[name, expected.untested.get(name, "")] for name in exploration.unvisited_transitions],
        "vacuous": [[name, expected.untested.get(name, "")] for name in exploration.vacuous],
        "steps": steps.entries,
        **({"graph": graph} if (graph := graph_json(exploration)) is not None else {}),
    }


class _Steps:
    """The steps of all paths, as a tree: an entry names the one before it; a path's first state is a root."""

    def __init__(self, machines: list[str]) -> None:
        self.machines = machines
        self.entries: list[dict[str, Any]] = []
        self.numbers: dict[str, int] = {}

    def add(self, path: Path) -> int:
        """Adds a path and returns the number of its last entry."""
        at = self._enter(first_entry(path.initial))
        for step in sequence(path).steps:
            at = self._enter({"p": at, **step_entry(self.machines, step)})
        return at

    def _enter(self, entry: dict[str, Any]) -> int:
        key = json.dumps(entry, sort_keys=True)
        number = self.numbers.setdefault(key, len(self.entries))
        if number == len(self.entries):
            self.entries.append(entry)
        return number


def _machines(exploration: Exploration) -> tuple[str, ...]:
    """The lifelines of every path: all machines, in the order of the system."""
    snapshot: Snapshot | None = next((p.path.initial for p in exploration.properties if p.path is not None), None)
    if snapshot is None and exploration.cells:
        snapshot = exploration.path_to(exploration.cells[0]).initial
    return tuple(snapshot.control) if snapshot is not None else exploration.product_machines


def verdict_json(
    result: PropertyResult, exploration: Exploration, expected: Expected, kept: Callable[[Path], Any]
) -> dict[str, Any]:
    """A property with its verdict; `kept` keeps its path, and returns what the page finds it by."""
    declared = exploration.system.properties.get(result.name)
    return {
        **picked(result, "name kind verdict"),
        "vacuous": result.name in exploration.vacuous,
        "expected": expected.violated.get(result.name, "") if result.verdict == "violated" else "",
        **picked(result, "doc source reason"),
        "claim": as_written(declared.claim) if declared is not None else "",
        "when": as_written(declared.when) if declared is not None and declared.when is not None else "",
        "within": declared.within if declared is not None else None,
        "place": place_text(declared.place) if declared is not None else "",
        "path": kept(result.path) if result.path is not None else None,
        "loop": result.path.loop if result.path is not None else None,
    }


def product_json(exploration: Exploration, whole: ProductGraph, kept: Callable[[Path], Any]) -> dict[str, Any]:
    """The product; `kept` keeps the shortest paths to its control states, as for `verdict_json`."""
    first_drawn = shown(whole)
    wanted = [*first_drawn.nodes, *(whole.nodes if len(whole.nodes) <= MOST_PATHS else ())]
    ends = {node.cell.first: kept(exploration.path_to(node.cell)) for node in wanted}
    graphs = projections(whole)
    return {
        "size": exploration.product_states,
        "reachable": len(exploration.cells),
        "roles": [role.name for role in whole.roles],
        "nodes": [_node(node, ends) for node in whole.nodes[:MOST_NODES]],
        "table": _table(product_table(whole)) if len(whole.nodes) <= MOST_NODES else None,
        "graphs": [
            {
                "roles": list(names),
                "nodes": [_node(node, ends) for node in graph.nodes],
                "links": [list(plain(link).values()) for link in graph.links],
            }
            for names, graph in graphs.items()
        ],
        "first_graph": [role.name for role in first_drawn.roles],
    }


def _node(node: ProductNode, ends: dict[int, Any]) -> dict[str, Any]:
    return {**picked(node, "control cells states depth mark initial"), "path": ends.get(node.cell.first)}


def _table(table: ProductTable | None) -> dict[str, Any] | None:
    if table is None:
        return None
    nodes = [[row, column, node] for (row, column), node in sorted(table.nodes.items())]
    return {**picked(table, "row_role rows column_roles columns"), "nodes": nodes, "full": table.full}


def _asset(name: str) -> str:
    return resources.files("leasehold.reports").joinpath("page", name).read_text("utf-8")


def _html(raw: str) -> str:
    return raw.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
