"""One Markdown page for a system: verdicts, counts, the product and the state diagrams, as GitHub shows them.

It is meant to be committed and compared, so nothing in it differs between two runs: no time, no memory, no date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from leasehold.checker.explore.result import Exploration, PropertyResult
from leasehold.reports.mermaid import role_mermaid
from leasehold.reports.product import Mark, ProductGraph, ProductTable, product, product_table
from leasehold.reports.readings import ReadingColumn, readings_markdown
from leasehold.reports.verdicts import OPEN, WORDS, Expected, expectations, failures_first, headline
from leasehold.spec.language.expression import as_written
from leasehold.spec.language.types import show

MOST_LISTED = 60
_SIGN: dict[Mark, str] = {"legal": "", "reachable": "", "recovery": "†"}


def markdown(
    exploration: Exploration, legal: Exploration | None = None, crashes: str = "", others: Sequence[ReadingColumn] = ()
) -> str:
    """The page, as text.

    `legal` is the exploration of the same system without faults, `crashes` the file with the results under crashes,
    and `others` are what other verbs have found.
    """
    system, expected = exploration.system, expectations(exploration)
    lines = [f"# {prose(system.name)}", ""]
    if system.doc:
        lines += [prose(system.doc), ""]
    lines += [_headline(exploration), ""]
    if expected.doc:
        lines += [prose(expected.doc), ""]
    lines += table_rows(("", ""), _counts(exploration))
    if crashes:
        lines += ["", f"[Results under crashes]({crashes})."]
    if system.constants:
        lines += ["", "## Settings", ""]
        lines += table_rows(
            ("constant", "value", "description"),
            ([code(name), code(show(c.type, c.value)), prose(c.doc)] for name, c in system.constants.items()),
        )
    lines += ["", "## Properties", ""]
    lines += table_rows(
        ("verdict", "property", "kind", "statement", "path"),
        (_property(p, exploration, expected) for p in failures_first(exploration)),
    )
    if table := readings_markdown(others, [p.name for p in failures_first(exploration)]):
        lines += ["", table]
    for title, names in (
        (
            "Transitions never taken" if exploration.complete else "Transitions not taken so far",
            exploration.unvisited_transitions,
        ),
        ("Vacuous properties", exploration.vacuous),
    ):
        if names:
            lines += ["", f"## {title}", ""]
            lines += [f"- {code(name)}" + _why(expected.untested.get(name, "")) for name in names]
    whole = product(exploration, legal)
    if whole.roles:
        lines += ["", "## Product", "", *_product(exploration, whole)]
    lines += ["", "## Roles"]
    for role in system.roles.values():
        lines += ["", f"### {prose(role.name)}", ""]
        if role.doc:
            lines += [prose(role.doc), ""]
        lines += ["```mermaid", role_mermaid(role).rstrip("\n"), "```"]
    return "\n".join(lines) + "\n"


def _headline(exploration: Exploration) -> str:
    _, sentence = headline(exploration)
    if exploration.complete:
        return sentence
    return f"{sentence} The exploration is not complete: {prose(exploration.why_incomplete or 'it was cut short')}."


def _why(reason: str) -> str:
    return f": {prose(reason)}" if reason else ""


def _property(result: PropertyResult, exploration: Exploration, expected: Expected) -> list[str]:
    word = WORDS[result.verdict]
    declared = exploration.system.properties.get(result.name)
    says = [prose(result.doc) if result.doc or declared is None else code(as_written(declared.claim))]
    if result.verdict == "violated" and result.name in expected.violated:
        says.append(f"*As expected: {prose(expected.violated[result.name])}*")
    elif result.verdict in {"violated", *OPEN}:
        word = f"**{word}**"
        says += [f"*{prose(result.reason)}*"] if result.reason else []
        says += [f"*False: {code(part)}*" for part in result.failed]
    if result.name in exploration.vacuous:
        says.append("*vacuous: its condition never occurs*")
    steps = "" if result.path is None else f"{len(result.path)} steps"
    return [word, code(result.name), result.kind, " ".join(filter(None, says)), steps]


def _counts(exploration: Exploration) -> Iterator[Sequence[str]]:
    yield "control states of the product", f"{exploration.product_states:,}"
    yield "of them reachable", f"{len(exploration.cells):,}"
    yield "global states", f"{exploration.distinct:,}"
    yield "steps between them", f"{exploration.edges:,}"
    yield "depth", f"{exploration.depth:,}"
    yield "digest of the spec", code(exploration.system.digest)


def _product(exploration: Exploration, whole: ProductGraph) -> Iterator[str]:
    reachable = "reachable" if exploration.complete else "reached"
    yield (
        f"{prose(whole.title)}: {exploration.product_states:,} control states, {len(exploration.cells):,} {reachable}. "
        "A number is the length of a shortest path."
        + (
            " † marks control states that are reachable only under faults."
            if any(n.mark == "recovery" for n in whole.nodes)
            else ""
        )
    )
    yield ""
    table = product_table(whole)
    if table is None or not table.column_roles:
        yield from _listed(whole)
    else:
        yield from _table(table, whole)


def _table(table: ProductTable, whole: ProductGraph) -> Iterator[str]:
    """Rows and the outermost columns; a cell lists where the other roles may be."""
    outer = tuple(dict.fromkeys(column[0] for column in table.columns))
    cells: dict[tuple[int, str], list[str]] = {}
    for (row, column), number in sorted(table.nodes.items()):
        node = whole.nodes[number]
        where = " / ".join(table.columns[column][1:])
        entry = f"{prose(where)} {node.depth}{_SIGN[node.mark]}".strip()
        cells.setdefault((row, table.columns[column][0]), []).append(entry)
    corner = f"{table.row_role} ↓ {table.column_roles[0]} →"
    if len(table.column_roles) > 1:
        yield f"In the cells: the states of {prose(' / '.join(table.column_roles[1:]))}."
        yield ""
    yield from table_rows(
        (prose(corner), *(prose(name) for name in outer)),
        (
            [f"**{prose(name)}**", *(", ".join(cells.get((row, where), [])) for where in outer)]
            for row, name in enumerate(table.rows)
        ),
    )


def _listed(whole: ProductGraph) -> Iterator[str]:
    nodes = sorted(whole.nodes, key=lambda node: node.depth)
    yield from table_rows(
        (*(prose(role.name) for role in whole.roles), "steps", "global states"),
        ([*map(prose, n.control), f"{n.depth}{_SIGN[n.mark]}", f"{n.states:,}"] for n in nodes[:MOST_LISTED]),
    )
    if len(nodes) > MOST_LISTED:
        yield ""
        yield f"and {len(nodes) - MOST_LISTED:,} more."


def table_rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table, line by line; the caller has escaped its text."""
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def prose(raw: str) -> str:
    """Words of a spec as plain text, in which `words` between backticks are code: nothing else of them is read."""
    parts = " ".join(raw.split()).split("`")
    shown = [_plain(parts[0])]
    for i, part in enumerate(parts[1:], 1):
        closed = i % 2 == 1 and i < len(parts) - 1
        shown.append(code(part) if closed else ("\\`" if i % 2 else "") + _plain(part))
    return "".join(shown)


def _plain(raw: str) -> str:
    escaped = "".join(f"\\{sign}" if sign in "\\*_{}[]<>#|~" else sign for sign in raw)
    return escaped.replace("&", "&amp;")


def code(raw: str) -> str:
    """Words as code in a table: a fence longer than any in them, and no bar that would end the cell."""
    line = " ".join(raw.split()).replace("|", "\\|")
    fence = "`"
    while fence in line:
        fence += "`"
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"
