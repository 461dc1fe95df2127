"""DOT: a role's state diagram and the product graph, and their SVG, drawn by the `dot` program where it is installed.

The text is deterministic and ends in a newline. Names and documents of a spec are data, whatever characters they hold:
labels are HTML-like, with everything escaped.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from html import escape

import graphviz

from leasehold.reports.diagram import diagram, staying_events, transition_label
from leasehold.reports.product import ProductGraph, shown
from leasehold.spec.language.model import Role

FONT = "Helvetica,Arial,sans-serif"
LINE = "#5c6470"
GUARD_LIMIT = 32
LABELS_LIMIT = 4  # lines on one edge of the product graph; the rest is counted
_FILL = {"legal": "#e3ecf9", "recovery": "#fbe9cf", "reachable": "#ededf0"}
HOW_TO_GET_SVG = "no SVG of graphs: the dot program is not installed (get Graphviz, for example: apt install graphviz)"


class NoSvg(Exception):
    """`dot` is missing or does not work; the message is one line that says what to do."""


def has_dot() -> bool:
    return shutil.which("dot") is not None


def render(dot: str) -> str:
    """The SVG of a DOT text.

    Raises:
        NoSvg: the dot program is missing or failed. The DOT text itself is as good as ever.
    """
    try:
        return str(graphviz.Source(dot).pipe(format="svg", encoding="utf-8"))
    except graphviz.ExecutableNotFound as error:
        raise NoSvg(HOW_TO_GET_SVG) from error
    except subprocess.CalledProcessError as error:
        errors = (error.stderr or "").strip().splitlines()
        raise NoSvg(
            f"no SVG of graphs: dot failed with {error.returncode}: {errors[-1] if errors else 'no word'}"
        ) from error


def role_dot(role: Role) -> str:
    """A role's state diagram: initial state with a dot before it, terminal states with a double line."""
    drawn = diagram(role)
    graph = _graph(role.name, role.doc)
    graph.node("initial", "", shape="point", width="0.12", fillcolor=LINE)
    number = {name: f"s{i}" for i, name in enumerate(role.states)}
    for name, state in role.states.items():
        lines = [f"<b>{_html(state.title)}</b>"]
        lines += [_small(task) for task in state.tasks]
        stays = staying_events(drawn.staying[name])
        if stays:
            lines.append(_small("stays on " + ", ".join(stays)))
        graph.node(
            number[name],
            f"<{'<br/>'.join(lines)}>",
            peripheries="2" if name in drawn.terminal else "1",
            tooltip=_tooltip(state.doc or state.title),
        )
    for state in role.initial:
        graph.edge("initial", number[state.name])
    for arc in drawn.arcs:
        labels = (transition_label(t, GUARD_LIMIT) for t in arc.transitions)
        graph.edge(number[arc.source], number[arc.target], _lines(labels))
    return str(graph.source)


def product_dot(whole: ProductGraph) -> str:
    """The product graph, or its projection where it is too large; nodes are filled by their mark."""
    graph_of = shown(whole)
    graph = _graph("product", f"{graph_of.title}: {len(graph_of.nodes)} reachable")
    for i, node in enumerate(graph_of.nodes):
        lines = [_html(where) for part in node.control for where in part.split(", ")]
        graph.node(
            f"c{i}",
            f"<{'<br/>'.join(lines)}>",
            fillcolor=_FILL[node.mark],
            penwidth="2" if node.initial else "1",
            tooltip=_tooltip(f"{node.mark}, {node.states} states, {node.depth} steps from the start"),
        )
    for link in graph_of.links:
        labels = list(link.labels[:LABELS_LIMIT])
        if len(link.labels) > LABELS_LIMIT:
            labels.append(f"and {len(link.labels) - LABELS_LIMIT} more")
        graph.edge(f"c{link.source}", f"c{link.target}", _lines(labels))
    return str(graph.source)


def _graph(name: str, doc: str) -> graphviz.Digraph:
    return graphviz.Digraph(
        name,
        graph_attr={"fontname": FONT, "rankdir": "TB", "ranksep": "0.5", "nodesep": "0.35", "tooltip": _tooltip(doc)},
        node_attr={
            "fontname": FONT,
            "fontsize": "12",
            "shape": "box",
            "style": "rounded,filled",
            "fillcolor": "#ffffff",
            "color": LINE,
            "margin": "0.14,0.07",
        },
        edge_attr={"fontname": FONT, "fontsize": "10", "color": LINE, "arrowsize": "0.7"},
    )


def _html(text: str) -> str:
    """Text for an HTML-like label; characters that XML forbids become a replacement character."""
    clean = "".join(c if c >= " " else " " if c in "\t\r\n" else "\ufffd" for c in text)
    return escape(clean)


def _small(text: str) -> str:
    return f'<font point-size="10" color="{LINE}">{_html(text)}</font>'


def _lines(labels: Iterable[str]) -> str:
    """An edge's label; the space before each line keeps it off the edge."""
    end = '<br align="left"/>'
    return "<" + "".join(f"&#160;{_html(label)}{end}" for label in labels) + ">"


def _tooltip(text: str) -> str:
    return str(graphviz.escape(" ".join(text.split()))) or " "
