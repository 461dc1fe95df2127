"""The product graph, arranged for drawing: nodes, links, projections and the table.

Theory of operation. The machines of one role are interchangeable, so cells that differ only in *which* machine of a
role is where are one node here (`2 prepared, 1 working`); a role with one machine keeps its plain states. A projection
keeps some of the roles and merges the nodes that become equal. A graph of more than LARGEST nodes is never drawn:
`shown` returns the projection on the first role instead, which is as large as that role's states allow.

A node is marked *legal* when it is reachable with no fault and *recovery* when it takes a fault to get there. That is
known when the system declares no faults, or when the exploration without faults is given too; otherwise a node is only
*reachable*. Links carry the labels `role#event` that lead from one cell to another; steps within a cell draw none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from itertools import product as cartesian
from math import prod
from typing import Literal, TypeAlias

from leasehold.checker.explore.result import Cell, Exploration
from leasehold.spec.language.model import Role, System

LARGEST = 250  # nodes of a graph that is drawn
WIDEST = 64  # columns of a table
FULL = 2000  # cells of a table that also shows control states that are not reached

Mark: TypeAlias = Literal["legal", "recovery", "reachable"]
_WORTH: Mapping[Mark, int] = {"legal": 0, "reachable": 1, "recovery": 2}

_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class ProductNode:
    """Reachable cells that are drawn as one; `cell` is the one with the shortest path."""

    control: tuple[str, ...]  # for each role of the product, where its machines are
    cells: int
    states: int
    depth: int
    cell: Cell
    mark: Mark
    initial: bool = False


@dataclass(frozen=True, slots=True)
class ProductEdge:
    source: int
    target: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProductGraph:
    """The reachable part of the product, or of a projection of it."""

    roles: tuple[Role, ...]
    nodes: tuple[ProductNode, ...]
    links: tuple[ProductEdge, ...]

    @property
    def title(self) -> str:
        return " × ".join(r.name for r in self.roles)


@dataclass(frozen=True, slots=True)
class ProductTable:
    """The product as rows and columns; `nodes` has the node at (row, column) where one is reachable."""

    row_role: str
    rows: tuple[str, ...]
    column_roles: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    nodes: Mapping[tuple[int, int], int]
    full: bool  # every control state of the product has its place, reachable or not


def has_faults(system: System) -> bool:
    """Returns whether the system, with the constants as they are set, declares a fault."""
    return any(c.lose or c.duplicate or c.reorder for c in system.channels.values())


def marks(exploration: Exploration, legal: Exploration | None = None) -> tuple[Mark, ...]:
    """The mark of each reachable cell, in their order; `legal` is the exploration of the same system without faults."""
    if legal is not None:
        fault_free = set(_controls(legal))
        return tuple("legal" if where in fault_free else "recovery" for where in _controls(exploration))
    mark: Mark = "reachable" if has_faults(exploration.system) else "legal"
    return (mark,) * len(exploration.cells)


def product(exploration: Exploration, legal: Exploration | None = None) -> ProductGraph:
    """The product graph of an exploration; `legal` as for `marks`."""
    system = exploration.system
    nodes = [
        ProductNode(where, 1, cell.states, cell.depth, cell, mark, cell.depth == 0)
        for cell, where, mark in zip(exploration.cells, _controls(exploration), marks(exploration, legal), strict=True)
    ]
    links = ((a, b, (_INDEX.sub("", label),)) for a, b, label in exploration.cell_edges)
    return _merged(tuple(system.roles[name] for name in system.product), nodes, links)


def project(whole: ProductGraph, names: Sequence[str]) -> ProductGraph:
    """The projection of the product graph on the named roles."""
    kept = [i for i, role in enumerate(whole.roles) if role.name in names]
    nodes = [replace(node, control=tuple(node.control[i] for i in kept)) for node in whole.nodes]
    return _merged(
        tuple(whole.roles[i] for i in kept), nodes, ((link.source, link.target, link.labels) for link in whole.links)
    )


def projections(whole: ProductGraph) -> dict[tuple[str, ...], ProductGraph]:
    """Returns, by the roles they keep, the whole, each role and each pair, as far as they are small enough to draw."""
    names = [role.name for role in whole.roles]
    wanted = {tuple(names): whole}
    for size in (2, 1):
        for chosen in combinations(names, size):
            if chosen not in wanted:
                wanted[chosen] = project(whole, chosen)
    return {chosen: graph for chosen, graph in wanted.items() if len(graph.nodes) <= LARGEST}


def shown(whole: ProductGraph) -> ProductGraph:
    """The graph itself while it can be read, else its projection on the first role that gives a readable one."""
    if len(whole.nodes) <= LARGEST or not whole.roles:
        return whole
    graphs = [project(whole, [role.name]) for role in whole.roles]
    return next((g for g in graphs if len(g.nodes) <= LARGEST), min(graphs, key=lambda g: len(g.nodes)))


def product_table(whole: ProductGraph) -> ProductTable | None:
    """The product as a table, its longest role downwards; None where it would be too wide to read.

    Roles with one machine show all their states while the table stays below FULL places, otherwise, like roles with
    several machines, only their reachable states.
    """
    if not whole.roles:
        return None
    full = prod(len(role.states) for role in whole.roles) <= FULL and all(role.count == 1 for role in whole.roles)
    axes = [
        _titles(role) if full else _axis(role, {node.control[i] for node in whole.nodes})
        for i, role in enumerate(whole.roles)
    ]
    down = max(range(len(axes)), key=lambda i: (len(axes[i]), -i))
    across = [i for i in range(len(axes)) if i != down]
    columns: Iterable[tuple[str, ...]] = cartesian(*(axes[i] for i in across))
    if not full:
        seen = {tuple(node.control[i] for i in across) for node in whole.nodes}
        columns = (c for c in columns if c in seen)
    columns = tuple(columns)
    if len(columns) > WIDEST:
        return None
    row_of = {where: i for i, where in enumerate(axes[down])}
    column_of = {where: i for i, where in enumerate(columns)}
    return ProductTable(
        whole.roles[down].name,
        axes[down],
        tuple(whole.roles[i].name for i in across),
        columns,
        {
            (row_of[node.control[down]], column_of[tuple(node.control[i] for i in across)]): number
            for number, node in enumerate(whole.nodes)
        },
        full,
    )


def _controls(exploration: Exploration) -> list[tuple[str, ...]]:
    """Returns, for each cell and for each role of the product, where its machines are."""
    roles = [exploration.system.roles[name] for name in exploration.system.product]
    owners = [_INDEX.sub("", machine) for machine in exploration.product_machines]
    places = [[i for i, owner in enumerate(owners) if owner == role.name] for role in roles]
    return [
        tuple(where_are(role, [cell.control[i] for i in at]) for role, at in zip(roles, places, strict=True))
        for cell in exploration.cells
    ]


def where_are(role: Role, states: list[str]) -> str:
    """Returns where the machines of a role are: `active`, or `2 prepared, 1 working` for several machines."""
    if role.count == 1:
        return role.states[states[0]].title
    count = Counter(states)
    return ", ".join(f"{count[name]} {state.title}" for name, state in role.states.items() if name in count)


def _titles(role: Role) -> tuple[str, ...]:
    return tuple(state.title for state in role.states.values())


def _axis(role: Role, reached: set[str]) -> tuple[str, ...]:
    """Returns what `where_are` gave, in order: most machines in the earliest states first."""
    titles = _titles(role)

    def order(where: str) -> tuple[int, ...]:
        if role.count == 1:
            return (titles.index(where),)
        count = {name: int(n) for n, name in (part.split(" ", 1) for part in where.split(", "))}
        return tuple(-count.get(title, 0) for title in titles)

    return tuple(sorted(reached, key=order))


def _merged(
    roles: tuple[Role, ...], nodes: Sequence[ProductNode], links: Iterable[tuple[int, int, tuple[str, ...]]]
) -> ProductGraph:
    """Merges nodes with the same control, and links between the same nodes; what becomes a self-loop is dropped."""
    index: dict[tuple[str, ...], int] = {}
    merged: list[ProductNode] = []
    for node in nodes:
        at = index.setdefault(node.control, len(merged))
        if at == len(merged):
            merged.append(node)
            continue
        old = merged[at]
        nearest = min(old, node, key=lambda n: n.depth)
        merged[at] = ProductNode(
            old.control,
            old.cells + node.cells,
            old.states + node.states,
            nearest.depth,
            nearest.cell,
            min(old.mark, node.mark, key=_WORTH.__getitem__),
            old.initial or node.initial,
        )
    arrows: dict[tuple[int, int], dict[str, None]] = {}
    for source, target, labels in links:
        a, b = index[nodes[source].control], index[nodes[target].control]
        if a != b:
            arrows.setdefault((a, b), {}).update(dict.fromkeys(labels))
    return ProductGraph(
        roles, tuple(merged), tuple(ProductEdge(a, b, tuple(labels)) for (a, b), labels in sorted(arrows.items()))
    )
